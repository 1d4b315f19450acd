/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/hash.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t n_bytes)
{
    const unsigned char *byte = bytes;
    for (size_t i = 0; i < n_bytes; i++)
        hash = (hash ^ byte[i]) * UINT64_C(0x100000001b3);
    return hash;
}

bool hash_file(const char *path, uint64_t *hash, struct error *err)
{
    unsigned char chunk[1 << 16];
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return error_add(err, "%s: cannot be read: %s", path, strerror(errno));
    *hash = HASH_START;
    for (size_t n; (n = fread(chunk, 1, sizeof chunk, file)) > 0;)
        *hash = hash_bytes(*hash, chunk, n);
    bool failed = ferror(file);
    int reason = errno;
    fclose(file);
    return !failed || error_add(err, "%s: cannot be read: %s", path, strerror(reason));
}
