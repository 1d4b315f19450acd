/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sweep/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/regular.h"
#include "trace/output.h"

static const char magic[16] = "slimsim journal"; /* with the terminating NUL */

enum { FORMAT = 1 };
static const double SYNC_S = 1, LOCK_S = 1; /* longest wait for the disk, for the end of a dying driver */

/** A head precedes each payload. Its hash covers the fields before the hash, and the payload. */
struct head {
    uint32_t kind, format;
    uint64_t n_bytes;
    uint64_t hash;
};

static uint64_t record_hash(const struct head *head, const void *payload)
{
    uint64_t hash = hash_bytes(HASH_START, head, offsetof(struct head, hash));
    return hash_bytes(hash, payload, head->n_bytes);
}

/** Read a whole range. @return false at the end of the file or on failure */
static bool read_at(int descriptor, void *bytes, size_t n_bytes, int64_t offset)
{
    for (size_t done = 0; done < n_bytes;) {
        ssize_t n = pread(descriptor, (char *)bytes + done, n_bytes - done, offset + (int64_t)done);
        if (n == 0 || (n < 0 && errno != EINTR))
            return false;
        done += n > 0 ? (size_t)n : 0;
    }
    return true;
}

static bool write_at(int descriptor, const void *bytes, size_t n_bytes, int64_t offset)
{
    for (size_t done = 0; done < n_bytes;) {
        ssize_t n = pwrite(descriptor, (const char *)bytes + done, n_bytes - done, offset + (int64_t)done);
        if (n < 0 && errno != EINTR)
            return false;
        done += n > 0 ? (size_t)n : 0;
    }
    return true;
}

/** Visit whole records. Then journal->end is the end of the last one. */
static bool scan(struct journal *journal, int64_t size, journal_visitor *visitor, void *context, struct error *err)
{
    struct head head;
    size_t capacity = 1 << 16;
    char *payload = check_malloc(capacity);
    bool ok = true;
    journal->end = (int64_t)sizeof magic;
    while (ok && read_at(journal->descriptor, &head, sizeof head, journal->end)) {
        int64_t offset = journal->end + (int64_t)sizeof head;
        if (head.kind >= JOURNAL_N_KINDS || head.format != FORMAT || head.n_bytes > (uint64_t)(size - offset))
            break;
        if (head.n_bytes > capacity) {
            capacity = 2 * head.n_bytes;
            payload = check_realloc(payload, capacity);
        }
        if (!read_at(journal->descriptor, payload, head.n_bytes, offset) || record_hash(&head, payload) != head.hash)
            break;
        ok = visitor(context, (enum journal_kind)head.kind, offset, payload, head.n_bytes, err);
        journal->end = offset + (int64_t)head.n_bytes;
    }
    free(payload);
    return ok;
}

/** Take the lock. A killed driver holds it until its last process has ended. */
static bool lock(const struct journal *journal, struct error *err)
{
    for (double begin_s = clock_wall_s(); flock(journal->descriptor, LOCK_EX | LOCK_NB) != 0;) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return error_set_status(err, ERROR_IO, "%s: cannot be locked: %s", journal->path, strerror(errno));
        if (clock_wall_s() - begin_s > LOCK_S)
            return error_set_status(err, ERROR_BUSY,
                                    "%s: another slimsim writes results of this name in this output folder",
                                    journal->path);
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
    return true;
}

static bool write_failed(const struct journal *journal, struct error *err)
{
    return error_set_status(err, ERROR_IO, "cannot write %s: %s", journal->path, strerror(errno));
}

static bool create_failed(const struct journal *journal, const char *reason, struct error *err)
{
    return error_set_status(err, ERROR_CANT_CREATE, "cannot create %s: %s", journal->path, reason);
}

/** Return whether the file begins as a journal does. */
static bool has_magic(const struct journal *journal)
{
    char begin[sizeof magic];
    return read_at(journal->descriptor, begin, sizeof begin, 0) && memcmp(begin, magic, sizeof begin) == 0;
}

/** Give a new file its name. @return false with errno; EEXIST if the name is taken */
static bool put_in_place(const struct output *output)
{
    if (link(output->temporary, output->path) == 0)
        return true;
    return (errno == EPERM || errno == EOPNOTSUPP) && /* the file system has no links */
           renameat2(AT_FDCWD, output->temporary, AT_FDCWD, output->path, RENAME_NOREPLACE) == 0;
}

/**
 * Create a journal without records. It has the lock and is on disk before it has its name.
 * @return  false with err, or with err untouched if another process created one meanwhile
 */
static bool make(struct journal *journal, struct error *err)
{
    struct output output;
    if (!output_begin(&output, journal->path, err))
        return false;
    journal->descriptor = fcntl(output.descriptor, F_DUPFD_CLOEXEC, 0);
    bool ok = journal->descriptor >= 0 && write_at(journal->descriptor, magic, sizeof magic, 0) &&
              fdatasync(journal->descriptor) == 0;
    ok = (ok || write_failed(journal, err)) && lock(journal, err);
    bool placed = ok && put_in_place(&output);
    /* ENOENT: the process that has the name may have removed the temporary file */
    if (ok && !placed && errno != EEXIST && errno != ENOENT)
        create_failed(journal, strerror(errno), err);
    if (placed && !output_sync_folder(journal->path)) {
        placed = write_failed(journal, err);
        unlink(journal->path);
    }
    output_abandon(&output);
    return placed;
}

/** Return whether the path still leads to the open file. An earlier holder of the lock may have removed the file. */
static bool is_at(const char *path, const struct stat *status)
{
    struct stat other;
    return lstat(path, &other) == 0 && other.st_dev == status->st_dev && other.st_ino == status->st_ino;
}

/**
 * Open the existing file. In a shared folder the path may be somebody's link, which is not followed.
 * @return  false with err, or with err untouched if the file does not exist any more
 */
static bool open_existing(struct journal *journal, struct error *err)
{
    struct stat status;
    journal->descriptor = open(journal->path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (journal->descriptor < 0 && errno == ENOENT)
        return false;
    if (journal->descriptor < 0)
        return create_failed(journal, errno == ELOOP ? "not a regular file" : strerror(errno), err);
    if (fstat(journal->descriptor, &status) != 0 || !S_ISREG(status.st_mode))
        return create_failed(journal, "not a regular file", err);
    return lock(journal, err) && is_at(journal->path, &status);
}

/** Open the journal, or create it, and take the lock. */
static bool open_locked(const char *path, struct journal *journal, struct error *err)
{
    bool open = false;
    struct error wrong = {0};
    *journal = (struct journal){.path = check_strdup(path), .descriptor = -1};
    while (!open && wrong.status == ERROR_NONE) {
        open = open_existing(journal, &wrong);
        if (!open && journal->descriptor < 0 && wrong.status == ERROR_NONE)
            open = make(journal, &wrong);
        if (!open && journal->descriptor >= 0) {
            close(journal->descriptor);
            journal->descriptor = -1;
        }
    }
    if (open)
        output_clean(path); /* a process that was killed while it created one may have left a file */
    else
        *err = wrong;
    return open;
}

static bool refuse(const struct journal *journal, const char *advice, struct error *err)
{
    return error_set(err, "%s: not a journal of slimsim%s", journal->path, advice);
}

bool journal_hold(const char *path, struct journal *journal, struct error *err)
{
    struct stat status;
    if (!open_locked(path, journal, err))
        return false;
    journal->removed =
        fstat(journal->descriptor, &status) == 0 && status.st_size == (int64_t)sizeof magic && has_magic(journal);
    if (journal->removed)
        output_guard(journal->path);
    return true;
}

void journal_release(struct journal *journal)
{
    if (journal->removed) {
        output_unguard(journal->path);
        unlink(journal->path);
    }
    journal_close(journal);
}

bool journal_open(const char *path, journal_visitor *visitor, void *context, struct journal *journal, struct error *err)
{
    struct stat status;
    if (!open_locked(path, journal, err))
        return false;
    if (!has_magic(journal))
        return refuse(journal, "; to keep it choose another folder (--output DIR) or name (--set name=NAME)", err);
    if (fstat(journal->descriptor, &status) != 0)
        return write_failed(journal, err);
    return scan(journal, status.st_size, visitor, context, err) &&
           (journal->end == status.st_size || ftruncate(journal->descriptor, journal->end) == 0 ||
            write_failed(journal, err));
}

/** Return whether the last record ends behind the file's end. */
static bool is_torn(const struct journal *journal, int64_t size)
{
    struct head head;
    int64_t left = size - journal->end - (int64_t)sizeof head;
    return left < 0 ||
           (read_at(journal->descriptor, &head, sizeof head, journal->end) && head.n_bytes > (uint64_t)left);
}

/** Return whether a driver holds the journal, to append to it. */
static bool has_writer(const struct journal *journal)
{
    if (flock(journal->descriptor, LOCK_SH | LOCK_NB) != 0)
        return errno == EWOULDBLOCK;
    return flock(journal->descriptor, LOCK_UN) != 0;
}

bool journal_read(const char *path, journal_visitor *visitor, void *context, struct journal *journal, struct error *err)
{
    struct stat status;
    *journal = (struct journal){.path = check_strdup(path), .descriptor = -1};
    if (!regular_check(path, err))
        return false;
    journal->descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (journal->descriptor < 0 || fstat(journal->descriptor, &status) != 0)
        return error_set(err, "%s: cannot be read: %s", path, strerror(errno));
    if (!has_magic(journal))
        return refuse(journal, "", err);
    bool written = has_writer(journal);
    if (!scan(journal, status.st_size, visitor, context, err))
        return false;
    return journal->end == status.st_size || ((written || has_writer(journal)) && is_torn(journal, status.st_size)) ||
           error_set(err,
                     "%s: truncated or damaged at byte %lld of %lld; the same command with its --shard repairs the "
                     "journal and computes the lost points",
                     path, (long long)journal->end, (long long)status.st_size);
}

bool journal_append(struct journal *journal, enum journal_kind kind, const void *payload, size_t n_bytes,
                    struct error *err)
{
    struct head head = {.kind = kind, .format = FORMAT, .n_bytes = n_bytes};
    int64_t offset = journal->end + (int64_t)sizeof head;
    head.hash = record_hash(&head, payload);
    if (!write_at(journal->descriptor, &head, sizeof head, journal->end) ||
        !write_at(journal->descriptor, payload, n_bytes, offset)) {
        write_failed(journal, err);
        bool truncated = ftruncate(journal->descriptor, journal->end) == 0;
        (void)truncated; /* otherwise the next driver does it */
        return false;
    }
    journal->end = offset + (int64_t)n_bytes;
    return clock_wall_s() - journal->synced_s < SYNC_S || journal_sync(journal, err);
}

bool journal_sync(struct journal *journal, struct error *err)
{
    journal->synced_s = clock_wall_s();
    return fdatasync(journal->descriptor) == 0 || write_failed(journal, err);
}

void *journal_payload(const struct journal *journal, int64_t offset, size_t n_bytes, struct error *err)
{
    void *payload = check_malloc(n_bytes);
    errno = 0;
    if (read_at(journal->descriptor, payload, n_bytes, offset))
        return payload;
    free(payload);
    error_set_status(err, ERROR_IO, "cannot read %s: %s", journal->path,
                     errno != 0 ? strerror(errno) : "it has become shorter");
    return NULL;
}

void journal_close(struct journal *journal)
{
    if (journal->descriptor >= 0)
        close(journal->descriptor);
    free(journal->path);
    *journal = (struct journal){.descriptor = -1};
}

void journal_put_integer(FILE *file, int64_t value)
{
    CHECK(fwrite(&value, sizeof value, 1, file) == 1);
}

void journal_put_block(FILE *file, const void *bytes, size_t n_bytes)
{
    journal_put_integer(file, (int64_t)n_bytes);
    CHECK(n_bytes == 0 || fwrite(bytes, n_bytes, 1, file) == 1);
}

void journal_put_text(FILE *file, const char *text)
{
    journal_put_block(file, text, strlen(text));
}

int64_t journal_take_integer(struct journal_fields *fields, int64_t least, int64_t most)
{
    int64_t value = least;
    fields->ok = fields->ok && fields->n_left >= sizeof value;
    if (!fields->ok)
        return least;
    memcpy(&value, fields->at, sizeof value);
    fields->at += sizeof value;
    fields->n_left -= sizeof value;
    fields->ok = least <= value && value <= most;
    return fields->ok ? value : least;
}

void *journal_take_rows(struct journal_fields *fields, size_t size, size_t most, size_t *n)
{
    size_t n_bytes = (size_t)journal_take_integer(fields, 0, (int64_t)fields->n_left);
    fields->ok = fields->ok && n_bytes <= fields->n_left && n_bytes % size == 0 && n_bytes / size <= most;
    *n = fields->ok ? n_bytes / size : 0;
    void *rows = check_malloc(*n * size);
    if (*n > 0)
        memcpy(rows, fields->at, *n * size);
    fields->at += *n * size;
    fields->n_left -= *n * size;
    return rows;
}

char *journal_take_text(struct journal_fields *fields, size_t size)
{
    size_t n;
    char *bytes = journal_take_rows(fields, 1, size - 1, &n), *text = check_strndup(bytes, n);
    free(bytes);
    if (strlen(text) == n)
        return text;
    fields->ok = false;
    *text = '\0';
    return text;
}

bool journal_took_all(const struct journal_fields *fields)
{
    return fields->ok && fields->n_left == 0;
}
