/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Fingerprints of inputs, written beside results: 64-bit FNV-1a. Not for secrets. */
#ifndef SLIMSIM_BASE_HASH_H
#define SLIMSIM_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/** The hash of no bytes. */
#define HASH_START UINT64_C(0xcbf29ce484222325)

/**
 * Go on hashing: hash_bytes(hash_bytes(HASH_START, a), b) is the hash of a and b in a row.
 * Source: Fowler, Noll, Vo, Eastlake: The FNV Non-Cryptographic Hash Algorithm (draft-eastlake-fnv).
 */
uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t n_bytes);

/** Of a whole file; one that cannot be read is an error. */
bool hash_file(const char *path, uint64_t *hash, struct error *err);

#endif
