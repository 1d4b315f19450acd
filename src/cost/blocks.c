/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cost/blocks.h"

#include <math.h>

#include "cost/attention.h"
#include "cost/context.h"

/** Return the keys that a micro-batch's slices see in a layer of a kind. */
static double keys_of(const struct cost_setting *setting, int32_t kind, const struct cost_micro_batch *micro_batch)
{
    double keys = 0;
    for (int32_t i = 0; i < micro_batch->n_slices; i++) {
        int64_t begin = micro_batch->slices[i].begin, window = setting->model->kinds[kind].window;
        int64_t unseen = window > 0 && begin >= window ? begin + 1 - window : 0;
        keys += (double)(micro_batch->slices[i].end - unseen);
    }
    return keys;
}

/** Return the block of one layer without recomputation. */
static struct cost_block block_of_layer(const struct cost_setting *setting, int32_t kind, enum pass pass, double tokens,
                                        double keys)
{
    const double tp = setting->tensor, element = cost_precisions(setting).wire;
    double moved = keys * cost_kv_bytes(setting, kind);
    double queries = tokens * element * (double)model_query_width(setting->model, kind) / tp;
    double outputs = tokens * element * (double)model_output_width(setting->model, kind) / tp;
    double sums = tokens * precision_bytes(PRECISION_FP32) * (double)setting->model->kinds[kind].heads / tp;
    if (pass == PASS_FORWARD)
        return (struct cost_block){.out_bytes = queries + moved, .back_bytes = outputs + sums};
    return (struct cost_block){.out_bytes = queries + outputs + 2 * sums + moved, .back_bytes = queries + moved};
}

/** Return the number of a run's layers whose attention a pass computes again. */
static int32_t layers_again(const struct cost_run *run, enum pass pass, enum recompute recompute)
{
    if (pass == PASS_FORWARD)
        return 0;
    if (recompute == RECOMPUTE_FULL)
        return run->again;
    return recompute & RECOMPUTE_ATTENTION_CORE ? run->n : 0;
}

struct cost_block cost_of_block(const struct cost_setting *setting, enum pass pass,
                                const struct cost_micro_batch *micro_batch, double share, double keys)
{
    struct cost_block all = {0};
    double tokens = 0;
    for (int32_t i = 0; i < micro_batch->n_slices; i++)
        tokens += slice_tokens(micro_batch->slices[i]);
    for (int32_t i = 0; i < setting->n_runs; i++) {
        const struct cost_run *run = &setting->runs[i];
        double moved = share > 0 ? share * keys_of(setting, run->kind, micro_batch) : keys;
        struct cost_block layer = block_of_layer(setting, run->kind, pass, tokens, moved);
        struct cost_block again = block_of_layer(setting, run->kind, PASS_FORWARD, tokens, moved);
        int32_t n = layers_again(run, pass, micro_batch->recompute);
        all.out_bytes += run->n * layer.out_bytes + n * again.out_bytes;
        all.back_bytes += run->n * layer.back_bytes + n * again.back_bytes;
        all.n_messages += run->n + n;
        all.taker_bytes = fmax(all.taker_bytes, layer.out_bytes + layer.back_bytes);
        all.giver_bytes = fmax(all.giver_bytes, layer.back_bytes);
    }
    return all;
}

/** Return the seconds of one layer's attention. */
static double layer_s(const struct cost_setting *setting, int32_t kind, enum pass pass,
                      const struct cost_micro_batch *micro_batch)
{
    struct cost_kernels kernels;
    double sum_s = 0;
    kernels.n = 0;
    attention_add_kernels(setting, kind, pass, micro_batch, &kernels);
    for (int32_t i = 0; i < kernels.n; i++)
        sum_s += kernels.kernel[i].seconds;
    return sum_s;
}

double cost_blocks_s(const struct cost_setting *setting, enum pass pass, const struct cost_micro_batch *micro_batch)
{
    double sum_s = 0;
    for (int32_t i = 0; i < setting->n_runs; i++) {
        const struct cost_run *run = &setting->runs[i];
        int32_t n = layers_again(run, pass, micro_batch->recompute);
        sum_s += run->n * layer_s(setting, run->kind, pass, micro_batch);
        sum_s += n > 0 ? n * layer_s(setting, run->kind, PASS_FORWARD, micro_batch) : 0;
    }
    return sum_s;
}
