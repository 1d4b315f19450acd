/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "trace/output.h"

#include "base/check.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The only global state: a signal's handler has nothing else to go by. */
enum { MAX_OUTPUTS = 16 };
static char *volatile temporaries[MAX_OUTPUTS]; /* of the outputs that are on their way; NULL: none */

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

void output_begin(struct output *output, const char *path)
{
    size_t bytes = strlen(path) + sizeof ".tmp-" + 20; /* a pid has at most 20 digits */
    output->path = check_strdup(path);
    output->temporary = check_malloc(bytes);
    snprintf(output->temporary, bytes, "%s.tmp-%ld", path, (long)getpid());
    replace(NULL, output->temporary);
}

bool output_failed(const struct output *output, enum error_status status, const char *reason, struct error *err)
{
    const char *what = status == ERROR_CANT_CREATE ? "create" : "write";
    return error_set_status(err, status, "cannot %s %s: %s", what, output->path, reason);
}

static void output_reset(struct output *output)
{
    if (output->temporary != NULL)
        replace(output->temporary, NULL);
    free(output->path);
    free(output->temporary);
    *output = (struct output){0};
}

static bool sync_path(const char *path, int flags)
{
    int descriptor = open(path, flags | O_CLOEXEC);
    if (descriptor < 0)
        return false;
    bool ok = fsync(descriptor) == 0;
    int reason = errno;
    ok = close(descriptor) == 0 && ok;
    if (!ok && reason != 0)
        errno = reason;
    return ok;
}

bool output_commit(struct output *output, struct error *err)
{
    char *copy = check_strdup(output->path); /* dirname writes into it */
    bool ok = sync_path(output->temporary, O_RDONLY) && rename(output->temporary, output->path) == 0 &&
              sync_path(dirname(copy), O_RDONLY | O_DIRECTORY);
    if (!ok) {
        output_failed(output, ERROR_IO, strerror(errno), err);
        unlink(output->temporary);
    }
    free(copy);
    output_reset(output);
    return ok;
}

void output_abandon(struct output *output)
{
    if (output->temporary != NULL)
        unlink(output->temporary);
    output_reset(output);
}

FILE *output_open(struct output *output, const char *path, struct error *err)
{
    output_begin(output, path);
    FILE *file = fopen(output->temporary, "we");
    if (file == NULL) {
        output_failed(output, ERROR_CANT_CREATE, strerror(errno), err);
        output_reset(output);
    }
    return file;
}

bool output_close(struct output *output, FILE *file, bool ok, struct error *err)
{
    errno = 0;
    bool written = fflush(file) == 0 && !ferror(file);
    int reason = errno;
    written = fclose(file) == 0 && written;
    if (ok && written)
        return output_commit(output, err);
    if (ok)
        output_failed(output, ERROR_IO, reason != 0 ? strerror(reason) : "a write failed", err);
    output_abandon(output);
    return false;
}
