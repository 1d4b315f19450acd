/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This function loads a whole file. */
#ifndef SLIMSIM_BASE_FILE_BYTES_H
#define SLIMSIM_BASE_FILE_BYTES_H

#include <stddef.h>

#include "base/error.h"

/** A whole file in memory. */
struct file_bytes {
    unsigned char *bytes;
    size_t n;
};

/**
 * Load a regular file. If gzip packed it, unpack it.
 *
 * @return false with err, which names the path; the caller frees file->bytes in any case
 */
bool file_bytes_load(const char *path, struct file_bytes *file, struct error *err);

#endif
