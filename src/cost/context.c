/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cost/context.h"

#include <math.h>

int32_t context_kernels(const struct cost_setting *setting, int32_t context)
{
    return scenario_is_ring(setting->plan->cp_type) ? context : 1;
}

/** Return the time of an all-to-all in which each rank sends `sent`. */
static double all_to_all_s(const struct cost_setting *setting, double sent, int32_t context, double *wire_bytes)
{
    int32_t each = cost_ranks_each(setting, context);
    double away = sent * (context - each) / (context - 1);
    struct cost_setting node = *setting;
    struct platform platform = *setting->platform;
    platform.gpus_per_node = each;
    node.platform = &platform;
    double tensor_bytes = each > 1 ? (sent - away) * each / (each - 1) : 0;
    struct cost_transfer nic = cost_of_transfer(setting, COST_NIC, away, 1);
    *wire_bytes += nic.wire_bytes;
    return fmax(nic.duration_s, cost_collective_s(&node, DEVICE_ALL_TO_ALL, tensor_bytes, each));
}

/** Return the bytes that a rank's NIC sends in a gather. */
static double gather_wire_bytes(const struct cost_setting *setting, enum device_collective_kind kind, double bytes,
                                int32_t context)
{
    return cost_of_rails(setting, kind, COST_NIC, bytes, context, cost_ranks_each(setting, context)).wire_bytes;
}

static void add_ring(struct cost_pass *cost, const struct cost_setting *setting, enum pass pass, double bytes,
                     int32_t context)
{
    bool home = pass != PASS_FORWARD && setting->plan->cp_type == SCENARIO_RING_CONTIGUOUS;
    double sent = bytes * (context - 1) / context, gradients = home ? 2 * bytes : sent;
    cost->ring_bytes += setting->layers * (pass == PASS_FORWARD ? sent : sent + gradients);
    if (sent > 0)
        cost->ring_steps += setting->layers * (home ? context : context - 1);
}

static void add_gather(struct cost_pass *cost, const struct cost_setting *setting, enum pass pass, double bytes,
                       int32_t context)
{
    int32_t fit = setting->platform->gpus_per_node / setting->tensor, most = context < fit ? context : fit;
    int32_t each = cost_ranks_each(setting, context);
    double seconds = cost_uneven_rails_s(setting, DEVICE_ALL_GATHER, bytes, context, each, most);
    double wire_bytes = gather_wire_bytes(setting, DEVICE_ALL_GATHER, bytes, context);
    if (pass == PASS_BACKWARD) {
        seconds += cost_uneven_rails_s(setting, DEVICE_REDUCE_SCATTER, bytes, context, each, most);
        wire_bytes += gather_wire_bytes(setting, DEVICE_REDUCE_SCATTER, bytes, context);
    }
    cost->context_wire_bytes += setting->layers * wire_bytes;
    cost->ring_bytes += setting->layers * bytes * (context - 1) / context * (pass == PASS_FORWARD ? 1 : 2);
    cost->context_s += setting->layers * seconds;
}

static void add_ulysses(struct cost_pass *cost, const struct cost_setting *setting, double tokens, int32_t context)
{
    const struct model *model = setting->model;
    double heads = fmin((double)model->heads, (double)setting->tensor * context); /* ranks that attend */
    double copies = fmax(1, heads / (double)model->kv_heads);
    const double widths[] = {(double)model_query_width(model), copies * (double)model_kv_width(model)};
    for (int i = 0; i < 2; i++) {
        double sent = tokens * widths[i] * 2 / setting->tensor * (context - 1) / context, wire_bytes = 0;
        cost->ring_bytes += setting->layers * 2 * sent;
        cost->context_s += setting->layers * 2 * all_to_all_s(setting, sent, context, &wire_bytes);
        cost->context_wire_bytes += setting->layers * 2 * wire_bytes;
    }
}

void context_of_layers(const struct cost_setting *setting, enum pass pass, const struct cost_unit *unit,
                       struct cost_pass *cost)
{
    if (unit->context == 1)
        return;
    double bytes = cost_prefix_tokens(unit) * cost_kv_bytes(setting->model, setting->tensor);
    if (scenario_is_ring(setting->plan->cp_type))
        add_ring(cost, setting, pass, bytes, unit->context);
    else if (setting->plan->cp_type == SCENARIO_ALL_GATHER)
        add_gather(cost, setting, pass, bytes, unit->context);
    else
        add_ulysses(cost, setting, cost_unit_tokens(unit), unit->context);
}

/** Return the exchange of one layer without recomputation. */
static struct cost_exchange exchange_of_layer(const struct cost_setting *setting, enum pass pass,
                                              const struct cost_unit *unit, double share)
{
    double tokens = 0, keys = 0, q = (double)model_query_width(setting->model), n = (double)setting->model->heads;
    for (int32_t i = 0; i < unit->n_slices; i++) {
        tokens += slice_tokens(unit->slices[i]);
        keys += unit->slices[i].end;
    }
    double moved = share * keys * cost_kv_bytes(setting->model, setting->tensor);
    double queries = tokens * 2 * q / setting->tensor, sums = tokens * 4 * n / setting->tensor;
    if (pass == PASS_FORWARD)
        return (struct cost_exchange){.out_bytes = queries + moved, .back_bytes = queries + sums};
    return (struct cost_exchange){.out_bytes = 2 * queries + 2 * sums + moved, .back_bytes = queries + moved};
}

/** Return the number of layers whose attention a backward computes again. */
static int32_t layers_again(const struct cost_setting *setting, enum recompute recompute)
{
    if (recompute == RECOMPUTE_FULL)
        return setting->recompute_layers > 0 ? setting->recompute_layers : setting->layers;
    return recompute & RECOMPUTE_ATTENTION_CORE ? setting->layers : 0;
}

struct cost_exchange cost_of_exchange(const struct cost_setting *setting, enum pass pass, const struct cost_unit *unit,
                                      double share)
{
    struct cost_exchange layer = exchange_of_layer(setting, pass, unit, share);
    struct cost_exchange all = {.out_bytes = setting->layers * layer.out_bytes,
                                .back_bytes = setting->layers * layer.back_bytes,
                                .n_messages = setting->layers,
                                .taker_bytes = layer.out_bytes + layer.back_bytes,
                                .giver_bytes = layer.back_bytes};
    if (pass != PASS_FORWARD) {
        struct cost_exchange again = exchange_of_layer(setting, PASS_FORWARD, unit, share);
        int32_t n = layers_again(setting, unit->recompute);
        all.out_bytes += n * again.out_bytes;
        all.back_bytes += n * again.back_bytes;
        all.n_messages += n;
    }
    return all;
}
