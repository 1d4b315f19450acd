/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module keeps what follows from a batch alone, since a search asks for it once for each plan. */
#ifndef SLIMSIM_LENGTHS_BATCH_MEMO_H
#define SLIMSIM_LENGTHS_BATCH_MEMO_H

#include "lengths/lengths.h"

/** Let a batch keep values. Until then it keeps none. batch_free frees them. One thread at a time uses the batch. */
void batch_memo_open(struct batch *batch);

/** Return the value of a key. @return NULL: it is not kept. Keys are compared by their bytes, so they have no gaps. */
const void *batch_memo_find(const struct batch *batch, const void *key, size_t key_bytes);

/** Keep a copy of a value under a new key, if the batch keeps values. */
void batch_memo_keep(const struct batch *batch, const void *key, size_t key_bytes, const void *value, size_t n_bytes);

/** Free the values of a batch. NULL is allowed. */
void batch_memo_free(struct batch_memo *memo);

#endif
