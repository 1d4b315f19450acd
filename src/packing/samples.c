/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "packing/samples.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "lengths/batch_memo.h"
#include "lengths/bins.h"

int32_t *samples_by_length(const struct batch *batch)
{
    static const char key[] = "samples by length";
    size_t n_bytes = (size_t)batch->n_samples * sizeof(int32_t);
    const int32_t *known = batch_memo_find(batch->memo, key, sizeof key);
    if (known != NULL)
        return memcpy(check_malloc(n_bytes), known, n_bytes);
    int32_t *order = bins_order(batch->tokens, batch->n_samples);
    batch_memo_keep(batch->memo, key, sizeof key, order, n_bytes);
    return order;
}

void samples_by_bin(int32_t n, const int32_t *order, const int32_t *bin, int32_t n_bins, int32_t *first,
                    int32_t *sample)
{
    memset(first, 0, ((size_t)n_bins + 1) * sizeof *first);
    for (int32_t i = 0; i < n; i++)
        if (bin[i] >= 0)
            first[bin[i] + 1]++;
    for (int32_t p = 0; p < n_bins; p++)
        first[p + 1] += first[p];
    for (int32_t i = 0; i < n; i++) /* first[p] moves to the end of bin p, which is the start of bin p + 1 */
        if (bin[i] >= 0)
            sample[first[bin[i]]++] = order[i];
    for (int32_t p = n_bins; p > 0; p--)
        first[p] = first[p - 1];
    first[0] = 0;
}
