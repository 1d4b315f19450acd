/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cost/micro_batch.h"

#include "base/check.h"

double cost_micro_batch_tokens(const struct cost_micro_batch *micro_batch)
{
    int64_t tokens = micro_batch->padding_tokens;
    for (int32_t i = 0; i < micro_batch->n_slices; i++)
        tokens += slice_tokens(micro_batch->slices[i]);
    CHECK(tokens >= 0 && micro_batch->context >= 1);
    return (double)tokens / micro_batch->context;
}

double cost_prefix_tokens(const struct cost_micro_batch *micro_batch)
{
    int64_t tokens = micro_batch->padding_tokens;
    for (int32_t i = 0; i < micro_batch->n_slices; i++)
        tokens += micro_batch->slices[i].end;
    return (double)tokens;
}
