/* SPDX-License-Identifier: GPL-3.0-or-later */
/** These functions compute fingerprints of inputs (64-bit FNV-1a), which are written beside results. They keep no
 * secrets. */
#ifndef SLIMSIM_BASE_HASH_H
#define SLIMSIM_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/** The hash of no bytes. */
#define HASH_START UINT64_C(0xcbf29ce484222325)

/**
 * Continue a hash. hash_bytes(hash_bytes(HASH_START, a), b) is the hash of a followed by b.
 *
 * Source: Fowler, Noll, Vo, Eastlake: The FNV Non-Cryptographic Hash Algorithm (draft-eastlake-fnv).
 */
uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t n_bytes);

/** Hash a whole file. A file that cannot be read is an error. */
bool hash_file(const char *path, uint64_t *hash, struct error *err);

#endif
