/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file makes MicroPacks of equal seconds (knob balance: time). */
#include "system/slimpack.h"

#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "cost/cache.h"

enum { ROUNDS = 6 };

/* Return the seconds of a pass of one MicroPack on the last stage. */
static double micro_batch_s(const struct cost_setting *setting, enum recompute recompute, enum pass pass,
                            int32_t context, const struct plan_partition *partition, int32_t i)
{
    const struct plan_micro_batch *micro_batch = &partition->micro_batches[i];
    struct cost_micro_batch work = {.slices = partition->slices + micro_batch->first_slice,
                                    .n_slices = micro_batch->n_slices,
                                    .context = context,
                                    .recompute = recompute};
    struct cost_pass costs[COST_N_COMPONENTS];
    cost_cached(setting, pass, &work, 1U << COST_LAYERS | 1U << COST_HEAD, costs);
    const struct cost_pass *layers = &costs[COST_LAYERS], *head = &costs[COST_HEAD];
    return layers->kernels_s + layers->attention_s + layers->tensor_s + layers->shard_s + layers->expert_s +
           head->kernels_s + head->tensor_s + head->shard_s;
}

/* Find the seconds of the MicroPacks of the fill's targets, and the largest. @return whether there are n_micro_batches
 * of them */
static bool measure(const struct plan_request *request, const struct fill *fill, int32_t context, double *seconds,
                    double *largest_s)
{
    struct plan_partition partition = {0};
    struct fill plain = *fill;
    plain.min_slice = 0;
    plain.search = NULL;
    bool all = fill_partition(&plain, &partition) == fill->n_micro_batches;
    *largest_s = 0;
    for (int32_t i = 0; all && i < partition.n_micro_batches; i++) {
        seconds[i] = micro_batch_s(request->setting, (enum recompute)request->layout.recompute, fill->pass, context,
                                   &partition, i);
        *largest_s = fmax(*largest_s, seconds[i]);
    }
    free(partition.slices);
    free(partition.micro_batches);
    return all;
}

/* Move the targets to equal seconds, assuming that each MicroPack's FLOPs took equally long inside the MicroPack. */
static void move_targets(const struct fill *fill, const double *seconds, fill_flop *target)
{
    int64_t n = fill->n_micro_batches, micro_batch = 0;
    fill_flop *before = check_malloc((size_t)n * sizeof *before);
    double total_s = 0, done_s = 0;
    for (int64_t k = 0; k < n; k++) {
        total_s += seconds[k];
        before[k] = target[k];
    }
    for (int64_t k = 0; k < n - 1; k++) {
        double goal_s = total_s * (double)(k + 1) / (double)n;
        while (micro_batch < n - 1 && done_s + seconds[micro_batch] < goal_s)
            done_s += seconds[micro_batch++];
        fill_flop begin = micro_batch > 0 ? before[micro_batch - 1] : 0;
        double share = fmin(1, fmax(0, (goal_s - done_s) / seconds[micro_batch]));
        target[k] = begin + (fill_flop)(share * (double)(before[micro_batch] - begin));
    }
    free(before);
}

fill_flop *slimpack_time_targets(const struct plan_request *request, const struct fill *fill, int32_t context)
{
    int64_t n = fill->n_micro_batches, n_tokens = 0;
    size_t bytes = (size_t)n * sizeof(fill_flop);
    fill_flop *target = check_malloc(bytes), *best = check_malloc(bytes);
    double *seconds = check_malloc((size_t)n * sizeof *seconds), least_s = INFINITY, largest_s;
    struct fill moved = *fill;
    for (int32_t i = 0; i < fill->n_samples; i++)
        n_tokens += fill->tokens[fill->sample[i]];
    for (int64_t k = 0; k < n; k++)
        target[k] = best[k] = (k + 1) * fill_flop_before(fill, n_tokens);
    moved.target = target;
    for (int round = 0; round < ROUNDS && measure(request, &moved, context, seconds, &largest_s); round++) {
        for (int64_t k = 0; largest_s < least_s && k < n; k++)
            best[k] = target[k];
        least_s = fmin(least_s, largest_s);
        move_targets(fill, seconds, target);
    }
    free(target);
    free(seconds);
    return best;
}
