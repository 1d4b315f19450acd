/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "lengths/reader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/check.h"
#include "base/regular.h"

bool reader_load(const char *path, struct reader_bytes *bytes, struct error *err)
{
    struct stat status;
    if (!regular_check(path, err))
        return false;
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return error_set(err, "%s: cannot be opened: %s", path, strerror(errno));
    bool ok = false;
    if (fstat(fileno(file), &status) != 0 || !S_ISREG(status.st_mode)) {
        error_set(err, "%s: is not a regular file", path);
    } else if (status.st_size == 0) {
        error_set(err, "%s: is empty, at least one length is needed", path);
    } else {
        bytes->n = (size_t)status.st_size;
        bytes->bytes = check_malloc(bytes->n);
        ok = fread(bytes->bytes, 1, bytes->n, file) == bytes->n ||
             error_set(err, "%s: cannot be read whole: %s", path, ferror(file) ? strerror(errno) : "it became shorter");
    }
    fclose(file);
    return ok;
}

bool reader_add(struct reader_lengths *lengths, int64_t tokens)
{
    if (tokens < 1 || tokens > INT32_MAX)
        return false;
    lengths->tokens = check_grow(lengths->tokens, lengths->n, &lengths->capacity, sizeof *lengths->tokens);
    lengths->tokens[lengths->n++] = (int32_t)tokens;
    return true;
}

bool reader_add_text(struct reader_lengths *lengths, const unsigned char *begin, const unsigned char *end)
{
    int64_t tokens = 0;
    if (begin == end)
        return false;
    for (const unsigned char *at = begin; at < end; at++) {
        if (*at < '0' || *at > '9' || tokens > INT32_MAX)
            return false;
        tokens = 10 * tokens + (*at - '0');
    }
    return reader_add(lengths, tokens);
}
