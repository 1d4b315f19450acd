/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sweep/pack.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

void pack_integer(FILE *file, int64_t value)
{
    CHECK(fwrite(&value, sizeof value, 1, file) == 1);
}

void pack_block(FILE *file, const void *bytes, size_t n_bytes)
{
    pack_integer(file, (int64_t)n_bytes);
    CHECK(n_bytes == 0 || fwrite(bytes, n_bytes, 1, file) == 1);
}

void pack_text(FILE *file, const char *text)
{
    pack_block(file, text, strlen(text));
}

int64_t unpack_integer(struct unpack *unpack)
{
    int64_t value = 0;
    unpack->ok = unpack->ok && unpack->n_left >= sizeof value;
    if (!unpack->ok)
        return 0;
    memcpy(&value, unpack->at, sizeof value);
    unpack->at += sizeof value;
    unpack->n_left -= sizeof value;
    return value;
}

const void *unpack_block(struct unpack *unpack, size_t *n_bytes)
{
    int64_t n = unpack_integer(unpack);
    unpack->ok = unpack->ok && 0 <= n && (size_t)n <= unpack->n_left;
    *n_bytes = unpack->ok ? (size_t)n : 0;
    const void *block = unpack->at;
    unpack->at += *n_bytes;
    unpack->n_left -= *n_bytes;
    return block;
}

char *unpack_text(struct unpack *unpack)
{
    size_t n_bytes;
    const char *text = unpack_block(unpack, &n_bytes);
    char *copy = check_calloc(n_bytes + 1, 1);
    if (n_bytes > 0)
        memcpy(copy, text, n_bytes);
    return copy;
}
