/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "trace/output.h"

#include "base/check.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* This is the only global state, because a signal's handler has no other data. */
enum { MAX_OUTPUTS = 16 };
static char *volatile temporaries[MAX_OUTPUTS]; /* of the outputs that are being written; NULL: none */

static void replace(const char *from, char *to)
{
    int i = 0;
    while (i < MAX_OUTPUTS && temporaries[i] != from)
        i++;
    CHECK(i < MAX_OUTPUTS);
    temporaries[i] = to;
}

void output_guard(char *path)
{
    replace(NULL, path);
}

void output_unguard(char *path)
{
    replace(path, NULL);
}

void output_remove_all(void)
{
    for (int i = 0; i < MAX_OUTPUTS; i++)
        if (temporaries[i] != NULL)
            unlink(temporaries[i]);
}

/* Open only a regular file. Opening a pipe would wait for its writer. */
static FILE *open_regular(const char *path)
{
    struct stat status;
    int descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (descriptor >= 0 && fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode))
        return fdopen(descriptor, "r");
    if (descriptor >= 0)
        close(descriptor);
    return NULL;
}

bool output_begins_with(const char *path, const char *text)
{
    bool same = true;
    FILE *file = open_regular(path);
    for (; file != NULL && same && *text != '\0'; text++)
        same = fgetc(file) == (unsigned char)*text;
    if (file != NULL)
        fclose(file);
    return file != NULL && same;
}

bool output_may_replace(const char *path, output_recognizer *is_ours, const char *what, const char *other,
                        struct error *err)
{
    struct stat status;
    if (stat(path, &status) != 0)
        return true;
    if (!S_ISREG(status.st_mode))
        return error_set_status(err, ERROR_CANT_CREATE, "cannot create %s: %s", path,
                                S_ISDIR(status.st_mode) ? strerror(EISDIR) : "it is not a regular file");
    return status.st_size == 0 || is_ours == NULL || is_ours(path) ||
           error_set(err, "%s is no %s of slimsim, which this command would replace; to keep both choose %s", path,
                     what, other);
}

static const char temporary_mark[] = ".tmp-";
enum { RANDOM_DIGITS = 16 };

/* Return a new random name beside the path. The caller frees it. */
static char *random_name(const char *path)
{
    uint64_t number;
    CHECK(getrandom(&number, sizeof number, 0) == sizeof number);
    return check_asprintf("%s%s%ld-%0*" PRIx64, path, temporary_mark, (long)getpid(), RANDOM_DIGITS, number);
}

/* Return whether `rest` follows NAME in the name of a temporary file, whose process is not one of this machine. */
static bool is_left_over(const char *rest)
{
    char *end;
    if (strncmp(rest, temporary_mark, strlen(temporary_mark)) != 0)
        return false;
    long process = strtol(rest + strlen(temporary_mark), &end, 10);
    return *end == '-' && strspn(end + 1, "0123456789abcdef") == RANDOM_DIGITS && end[1 + RANDOM_DIGITS] == '\0' &&
           process > 0 && kill((pid_t)process, 0) != 0 && errno == ESRCH;
}

/*
 * Remove a file that was left over, if it is a regular file of this user. A process of another machine or container may
 * still write it: then the file is locked and has one name.
 */
static void remove_left_over(int folder, const char *name)
{
    struct stat status;
    int descriptor = openat(folder, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (descriptor < 0)
        return;
    if (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
        (status.st_nlink > 1 || flock(descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK))
        unlinkat(folder, name, 0);
    close(descriptor);
}

void output_clean(const char *path)
{
    char *folder = check_strdup(path), *copy = check_strdup(path); /* dirname and basename write into them */
    const char *name = basename(copy);
    size_t length = strlen(name);
    DIR *directory = opendir(dirname(folder));
    for (struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;)
        if (strncmp(entry->d_name, name, length) == 0 && is_left_over(entry->d_name + length))
            remove_left_over(dirfd(directory), entry->d_name);
    if (directory != NULL)
        closedir(directory);
    free(folder);
    free(copy);
}

bool output_begin(struct output *output, const char *path, struct error *err)
{
    output_clean(path);
    *output = (struct output){.path = check_strdup(path), .temporary = random_name(path)};
    replace(NULL, output->temporary);
    output->descriptor = open(output->temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (output->descriptor >= 0) {
        flock(output->descriptor, LOCK_EX | LOCK_NB); /* output_clean then sees on other machines that it is in use */
        return true;
    }
    output_failed(output, ERROR_CANT_CREATE, strerror(errno), err);
    replace(output->temporary, NULL);
    free(output->temporary); /* a file of this name belongs to another process */
    output->temporary = NULL;
    output_abandon(output);
    return false;
}

bool output_failed(const struct output *output, enum error_status status, const char *reason, struct error *err)
{
    const char *what = status == ERROR_CANT_CREATE ? "create" : "write";
    return error_set_status(err, status, "cannot %s %s: %s", what, output->path, reason);
}

static void remove_name(char *name)
{
    if (name == NULL)
        return;
    unlink(name);
    replace(name, NULL);
    free(name);
}

void output_abandon(struct output *output)
{
    if (output->temporary != NULL && output->descriptor >= 0)
        close(output->descriptor);
    remove_name(output->temporary);
    remove_name(output->former);
    free(output->path);
    *output = (struct output){0};
}

FILE *output_open(struct output *output, const char *path, struct error *err)
{
    if (!output_begin(output, path, err))
        return NULL;
    int descriptor = fcntl(output->descriptor, F_DUPFD_CLOEXEC, 0);
    FILE *file = descriptor >= 0 ? fdopen(descriptor, "w") : NULL;
    if (file == NULL) {
        output_failed(output, ERROR_CANT_CREATE, strerror(errno), err);
        output_abandon(output);
    }
    return file;
}

bool output_end(struct output *output, FILE *file, bool ok, struct error *err)
{
    errno = 0;
    bool written = fflush(file) == 0 && !ferror(file);
    int reason = errno;
    written = fclose(file) == 0 && written;
    if (ok && !written)
        output_failed(output, ERROR_IO, reason != 0 ? strerror(reason) : "a write failed", err);
    if (!ok || !written)
        output_abandon(output);
    return ok && written;
}

/* Move the output to its path. A file there first gets a second name, if the file system supports it. */
static bool put_in_place(struct output *output)
{
    char *former = random_name(output->path);
    bool none = link(output->path, former) != 0;
    if (none)
        free(former);
    else
        replace(NULL, output->former = former);
    if (none && errno != ENOENT && errno != EPERM && errno != EOPNOTSUPP)
        return false;
    flock(output->descriptor, LOCK_UN); /* HDF5 reads no locked file */
    return rename(output->temporary, output->path) == 0;
}

/* Restore the file that was there before put_in_place. */
static void take_back(const struct output *output)
{
    if (output->former == NULL || rename(output->former, output->path) != 0)
        unlink(output->path);
}

bool output_sync_folder(const char *path)
{
    char *copy = check_strdup(path); /* dirname writes into it */
    int descriptor = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(copy);
    if (descriptor < 0)
        return false;
    bool ok = fsync(descriptor) == 0;
    int reason = errno;
    close(descriptor);
    errno = reason;
    return ok;
}

bool output_commit(struct output *outputs, int n, struct error *err)
{
    int n_synced = 0, n_placed = 0, n_known = 0;
    while (n_synced < n && fsync(outputs[n_synced].descriptor) == 0)
        n_synced++;
    while (n_synced == n && n_placed < n && put_in_place(&outputs[n_placed]))
        n_placed++;
    while (n_placed == n && n_known < n && output_sync_folder(outputs[n_known].path))
        n_known++;
    bool ok = n_known == n;
    if (!ok)
        output_failed(&outputs[n_synced < n   ? n_synced
                               : n_placed < n ? n_placed
                                              : n_known],
                      ERROR_IO, strerror(errno), err);
    for (int i = 0; i < n; i++) {
        if (!ok && i < n_placed)
            take_back(&outputs[i]);
        output_abandon(&outputs[i]);
    }
    return ok;
}

bool output_close(struct output *output, FILE *file, bool ok, struct error *err)
{
    return output_end(output, file, ok, err) && output_commit(output, 1, err);
}
