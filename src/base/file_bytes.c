/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/file_bytes.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "base/check.h"
#include "base/regular.h"

/** Read a file to its end. One that gzip packed is unpacked. */
static bool read_all(gzFile file, const char *path, struct file_bytes *bytes, struct error *err)
{
    enum { PIECE = 1 << 20 };
    size_t capacity = 0;
    int n = 0, status;
    do {
        bytes->n += (size_t)n;
        if (bytes->n + PIECE > capacity) {
            capacity = 2 * (bytes->n + PIECE);
            bytes->bytes = check_realloc(bytes->bytes, capacity);
        }
        n = gzread(file, bytes->bytes + bytes->n, PIECE);
    } while (n > 0);
    const char *wrong = gzerror(file, &status); /* a packed file that ends too early has a status, and n is 0 */
    return (n == 0 && status == Z_OK) ||
           error_set(err, "%s: cannot be read whole: %s", path, status == Z_ERRNO ? strerror(errno) : wrong);
}

bool file_bytes_load(const char *path, struct file_bytes *file, struct error *err)
{
    struct stat status;
    if (!regular_check(path, err))
        return false;
    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode))
        return error_set(err, "%s: is not a regular file", path);
    gzFile packed = gzopen(path, "rb");
    if (packed == NULL)
        return error_set(err, "%s: cannot be opened: %s", path, strerror(errno));
    bool ok = read_all(packed, path, file, err);
    gzclose(packed);
    return ok;
}
