/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Integers, texts and blocks one behind the other in memory, as the journal keeps them (this machine's byte order). */
#ifndef SLIMSIM_SWEEP_PACK_H
#define SLIMSIM_SWEEP_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/** Append to a memory stream. */
void pack_integer(FILE *file, int64_t value);
void pack_block(FILE *file, const void *bytes, size_t n_bytes); /* with its length in front */
void pack_text(FILE *file, const char *text);

/** What is still to be read. `ok` turns false at the first thing that does not fit, and stays so. */
struct unpack {
    const char *at;
    size_t n_left;
    bool ok;
};

int64_t unpack_integer(struct unpack *unpack);                    /* 0 when there is none */
const void *unpack_block(struct unpack *unpack, size_t *n_bytes); /* borrowed, not aligned */
char *unpack_text(struct unpack *unpack);                         /* caller frees; "" when there is none */

#endif
