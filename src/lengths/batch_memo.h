/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module keeps what follows from a batch alone, since a search asks for it once for each plan. */
#ifndef SLIMSIM_LENGTHS_BATCH_MEMO_H
#define SLIMSIM_LENGTHS_BATCH_MEMO_H

#include <stddef.h>

/** Kept values (struct batch.memo). One thread at a time uses them. */
struct batch_memo;

/** Return a memo without values. batch_free frees it. */
struct batch_memo *batch_memo_create(void);

/** Return the value of a key. @return NULL: it is not kept. Keys are compared by their bytes, so they have no gaps. */
const void *batch_memo_find(const struct batch_memo *memo, const void *key, size_t key_bytes);

/** Keep a copy of a value under a new key. memo NULL: nothing is kept. */
void batch_memo_keep(struct batch_memo *memo, const void *key, size_t key_bytes, const void *value, size_t n_bytes);

/** Free all values. NULL is allowed. */
void batch_memo_free(struct batch_memo *memo);

#endif
