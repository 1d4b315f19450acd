/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file packs whole samples into MicroPacks: step 10 of slimpack.h. */
#include <stdlib.h>

#include "base/check.h"
#include "system/slimpack.h"

/* Return the pack that a sample of so many tokens goes into. */
static int32_t pack_for(const fill_flop *flop, const int64_t *tokens, int32_t n, int64_t room)
{
    int32_t best = -1, shortest = 0;
    for (int32_t i = 0; i < n; i++) {
        if (tokens[i] <= room && (best < 0 || flop[i] < flop[best]))
            best = i;
        shortest = tokens[i] < tokens[shortest] ? i : shortest;
    }
    return best >= 0 ? best : shortest;
}

void slimpack_pack(const struct slimpack_rank_group *rank_group, const int32_t *sample, int32_t n_samples, int32_t n,
                   struct plan_partition *partition)
{
    const struct plan_request *request = rank_group->request;
    fill_flop *flop = check_calloc((size_t)n, sizeof *flop);
    int64_t *tokens = check_calloc((size_t)n, sizeof *tokens);
    int32_t *last = check_malloc((size_t)n * sizeof *last);         /* sample of each pack */
    int32_t *next = check_malloc((size_t)n_samples * sizeof *next); /* sample of the same pack; -1: none */
    for (int32_t i = 0; i < n_samples; i++) {
        int32_t length = request->batch->tokens[sample[i]];
        int32_t pack = i < n ? i : pack_for(flop, tokens, n, request->context - length);
        flop[pack] += flop_of_prefix(rank_group->split->curve[PASS_FORWARD], length);
        tokens[pack] += length;
        next[i] = -1;
        if (i >= n)
            next[last[pack]] = i;
        last[pack] = i;
    }
    for (int32_t k = 0; k < n; k++) {
        for (int32_t i = k; i >= 0; i = next[i])
            plan_add_slice(partition, (struct slice){sample[i], 0, request->batch->tokens[sample[i]]});
        plan_add_micro_batch(partition);
    }
    free(flop);
    free(tokens);
    free(last);
    free(next);
}
