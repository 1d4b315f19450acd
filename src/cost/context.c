/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cost/context.h"

#include <math.h>

#include "cost/communication.h"

double cost_kv_bytes(const struct cost_setting *setting, int32_t kind)
{
    return 2 * cost_precisions(setting).activation * cost_kv_width(setting, kind);
}

double context_kv_copies(const struct cost_setting *setting, int32_t kind, int32_t context)
{
    const struct model_kind *of = &setting->model->kinds[kind];
    double heads = fmin((double)of->heads, (double)setting->tensor * context); /* ranks that attend */
    return fmax(1, heads / (double)of->kv_heads);
}

int32_t context_kernels(const struct cost_setting *setting, int32_t context)
{
    return scenario_is_ring(setting->cp_type) ? context : 1;
}

/** Return the bytes that a rank's NIC sends in a gather. */
static double gather_wire_bytes(const struct cost_setting *setting, enum device_collective_kind kind, double bytes,
                                int32_t context)
{
    return cost_of_rails(setting, kind, COST_NIC, bytes, context, cost_ranks_each(setting, context)).wire_bytes;
}

static void add_ring(struct cost_pass *cost, const struct cost_setting *setting, int32_t layers, enum pass pass,
                     double bytes, int32_t context)
{
    bool home = pass != PASS_FORWARD && setting->cp_type == SCENARIO_RING_CONTIGUOUS;
    double sent = bytes * (context - 1) / context, gradients = home ? 2 * bytes : sent;
    cost->ring_bytes += layers * (pass == PASS_FORWARD ? sent : sent + gradients);
    if (sent > 0)
        cost->ring_steps += layers * (home ? context : context - 1);
}

static void add_gather(struct cost_pass *cost, const struct cost_setting *setting, int32_t layers, enum pass pass,
                       double bytes, int32_t context)
{
    int32_t fit = platform_nvlink_domain(setting->platform) / setting->tensor, most = context < fit ? context : fit;
    int32_t each = cost_ranks_each(setting, context);
    double seconds = cost_uneven_rails_s(setting, DEVICE_ALL_GATHER, bytes, context, each, most);
    double wire_bytes = gather_wire_bytes(setting, DEVICE_ALL_GATHER, bytes, context);
    if (pass == PASS_BACKWARD) {
        seconds += cost_uneven_rails_s(setting, DEVICE_REDUCE_SCATTER, bytes, context, each, most);
        wire_bytes += gather_wire_bytes(setting, DEVICE_REDUCE_SCATTER, bytes, context);
    }
    cost->context_wire_bytes += layers * wire_bytes;
    cost->ring_bytes += layers * bytes * (context - 1) / context * (pass == PASS_FORWARD ? 1 : 2);
    cost->context_s += layers * seconds;
}

static void add_ulysses(struct cost_pass *cost, const struct cost_setting *setting, const struct cost_run *run,
                        double tokens, int32_t context)
{
    const struct model *model = setting->model;
    const double kv_heads = (double)model->kinds[run->kind].kv_heads, element = cost_precisions(setting).wire;
    const double copies = context_kv_copies(setting, run->kind, context);
    const double widths[][2] = {
        {(double)model_query_width(model, run->kind), (double)model_output_width(model, run->kind)},
        {copies * (kv_heads * (double)model_key_head(model, run->kind)),
         copies * (kv_heads * (double)model_value_head(model, run->kind))},
    };
    for (int i = 0; i < 2; i++) {
        double sum = 0, sum_s = 0, wire_bytes = 0;
        for (int k = 0; k < 2; k++) {
            double sent = tokens * widths[i][k] * element / setting->tensor * (context - 1) / context;
            sum += sent;
            sum_s += cost_all_to_all_s(setting, sent, context, &wire_bytes);
        }
        cost->ring_bytes += run->n * sum;
        cost->context_s += run->n * sum_s;
        cost->context_wire_bytes += run->n * wire_bytes;
    }
}

void context_of_layers(const struct cost_setting *setting, const struct cost_run *run, enum pass pass,
                       const struct cost_micro_batch *micro_batch, struct cost_pass *cost)
{
    if (micro_batch->context == 1 || micro_batch->sharding == SLICE_PLACED || setting->balanced_context)
        return;
    double bytes = cost_prefix_tokens(micro_batch) * cost_kv_bytes(setting, run->kind);
    if (scenario_is_ring(setting->cp_type))
        add_ring(cost, setting, run->n, pass, bytes, micro_batch->context);
    else if (setting->cp_type == SCENARIO_ALL_GATHER)
        add_gather(cost, setting, run->n, pass, bytes, micro_batch->context);
    else
        add_ulysses(cost, setting, run, cost_micro_batch_tokens(micro_batch), micro_batch->context);
}
