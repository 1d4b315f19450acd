/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cost/overlap.h"

#include "cost/kernels.h"

#include <math.h>

/** Return the time of a GEMM at the speed that training reaches [s]. */
static double sustained_gemm_s(const struct device *device, double m, double n, double k)
{
    return kernels_sustained_s(device, cost_gemm_s(device, m, n, k));
}

/** Return the time of the weight-gradient GEMM of a GEMM from `in` to `out` columns, which adds to the sum [s]. */
static double weight_gemm_s(const struct cost_setting *setting, double in, double out, double tokens)
{
    const struct cost_gemm gemm = {1, in, out, tokens, cost_sum_bytes(setting)};
    return kernels_sustained_s(setting->device, cost_kernel_gemm_s(setting->device, &gemm));
}

enum { SPLITS = 4 }; /* chunks of a GEMM whose output is reduced */

static double multiprocessors(const struct device *device, enum overlap_extent extent)
{
    const struct device_training *training = &device->training;
    return extent == OVERLAP_IN_NODE ? training->node_multiprocessors : training->collective_multiprocessors;
}

/** Return the share of the multiprocessors that a collective holds. */
static double held_share(const struct device *device, enum overlap_extent extent)
{
    double all = (double)device->multiprocessors;
    return all > 0 ? multiprocessors(device, extent) / all : 0;
}

double overlap_loss(const struct device *device, enum overlap_extent extent, struct overlap_kernels kernels)
{
    double share = held_share(device, extent), slower = 1 / (1 - share), rounds = ceil(slower);
    if (!device->training.persistent_gemms || kernels.product_s <= 0)
        return share;
    return 1 - kernels.all_s / (kernels.product_s * rounds + (kernels.all_s - kernels.product_s) * slower);
}

double overlap_beside_s(const struct device *device, enum overlap_extent extent, struct overlap_kernels kernels,
                        double collective_s)
{
    return fmax(collective_s, kernels.all_s + collective_s * overlap_loss(device, extent, kernels));
}

static enum overlap_extent tensor_extent(const struct cost_setting *setting)
{
    bool chunked = setting->communication.tp_overlap == SCENARIO_CHUNKED;
    return chunked || setting->tensor > setting->platform->gpus_per_node ? OVERLAP_OVER_NODES : OVERLAP_IN_NODE;
}

double overlap_gather_gemm_s(const struct cost_setting *setting, double tokens, double n, double k)
{
    double rows = tokens / setting->tensor;
    double gemm_s = sustained_gemm_s(setting->device, rows, n, k);
    enum cost_route route = setting->tensor > setting->platform->gpus_per_node ? COST_NIC : COST_NVLINK;
    double copy_s = cost_of_transfer(setting, route, rows * k * 2, 1).duration_s;
    return (setting->tensor - 1) * fmax(gemm_s, copy_s) + gemm_s;
}

double overlap_gemm_scatter_s(const struct cost_setting *setting, double tokens, double n, double k)
{
    struct device left = *setting->device;
    double rows = tokens / SPLITS;
    left.peak_flop_per_s *= 1 - held_share(&left, tensor_extent(setting));
    if (left.multiprocessors > 0)
        left.multiprocessors -= (int64_t)multiprocessors(&left, tensor_extent(setting));
    double gemm_s = sustained_gemm_s(&left, rows, n, k);
    double scatter_s = cost_collective_s(setting, DEVICE_REDUCE_SCATTER, rows * n * 2, setting->tensor);
    return gemm_s + (SPLITS - 1) * fmax(gemm_s, scatter_s) + scatter_s;
}

/** Add a collective of a T x h tensor that adds `exposed_s` to the kernels. */
static void add(struct overlap_tensor *sum, const struct cost_setting *setting, enum device_collective_kind kind,
                double bytes, double exposed_s)
{
    sum->exposed_s += exposed_s;
    sum->bytes += (kind == DEVICE_ALL_REDUCE ? 2 : 1) * bytes * (setting->tensor - 1) / setting->tensor;
    if (cost_collective_outside(setting, kind, bytes, setting->tensor))
        sum->outside_s += exposed_s;
}

static double tensor_bytes(const struct cost_setting *setting, double tokens)
{
    return tokens * (double)setting->model->hidden * 2;
}

/** Add an all-gather before a GEMM of T x n x k, or a reduce-scatter after it. */
static void add_chunked(struct overlap_tensor *sum, const struct cost_setting *setting,
                        enum device_collective_kind kind, double tokens, double n, double k)
{
    bool gathers = kind == DEVICE_ALL_GATHER;
    double bytes = tensor_bytes(setting, tokens), exposed_s;
    if (setting->communication.tp_overlap != SCENARIO_CHUNKED)
        exposed_s = cost_collective_s(setting, kind, bytes, setting->tensor);
    else
        exposed_s = (gathers ? overlap_gather_gemm_s : overlap_gemm_scatter_s)(setting, tokens, n, k) -
                    sustained_gemm_s(setting->device, tokens, n, k);
    add(sum, setting, kind, bytes, exposed_s);
}

/** Add a collective beside an independent GEMM, which takes gemm_s without it. */
static void add_bulk(struct overlap_tensor *sum, const struct cost_setting *setting, enum device_collective_kind kind,
                     double tokens, double gemm_s)
{
    double bytes = tensor_bytes(setting, tokens);
    double collective_s = cost_collective_s(setting, kind, bytes, setting->tensor);
    bool hides = setting->communication.tp_overlap != SCENARIO_EXPOSED;
    const struct overlap_kernels gemm = {.all_s = gemm_s}; /* GEMMs lose c/S here: overlap_tensor_layer */
    add(sum, setting, kind, bytes,
        hides ? overlap_beside_s(setting->device, tensor_extent(setting), gemm, collective_s) - gemm_s : collective_s);
}

/** Add a collective that no GEMM hides. */
static void add_exposed(struct overlap_tensor *sum, const struct cost_setting *setting,
                        enum device_collective_kind kind, double tokens)
{
    double bytes = tensor_bytes(setting, tokens);
    add(sum, setting, kind, bytes, cost_collective_s(setting, kind, bytes, setting->tensor));
}

/** Add the backward of a column-parallel GEMM of `columns`: the gather of its input and the reduction of its input's
 * gradient. In a split backward each collective is in the pass without the GEMM that would hide it. */
static void add_column_backward(struct overlap_tensor *sum, const struct cost_setting *setting, enum pass pass,
                                double tokens, double columns)
{
    double hidden = (double)setting->model->hidden;
    if (pass == PASS_WEIGHT)
        add_exposed(sum, setting, DEVICE_ALL_GATHER, tokens);
    if (pass == PASS_INPUT)
        add_exposed(sum, setting, DEVICE_REDUCE_SCATTER, tokens);
    if (pass != PASS_BACKWARD)
        return;
    add_bulk(sum, setting, DEVICE_ALL_GATHER, tokens, sustained_gemm_s(setting->device, tokens, hidden, columns));
    add_bulk(sum, setting, DEVICE_REDUCE_SCATTER, tokens, weight_gemm_s(setting, hidden, columns, tokens));
}

/** Add the all-reduces without sequence parallelism: forward after each row-parallel GEMM, backward of each
 * column-parallel GEMM's input gradient. */
static void add_all_reduces(struct overlap_tensor *sum, const struct cost_setting *setting, enum pass pass,
                            double tokens, const struct overlap_widths *w)
{
    if (pass == PASS_WEIGHT)
        return;
    if (pass != PASS_BACKWARD) {
        for (int i = 0; i < 2; i++)
            add_exposed(sum, setting, DEVICE_ALL_REDUCE, tokens);
        return;
    }
    add_bulk(sum, setting, DEVICE_ALL_REDUCE, tokens, weight_gemm_s(setting, w->hidden, w->up, tokens));
    add_bulk(sum, setting, DEVICE_ALL_REDUCE, tokens, weight_gemm_s(setting, w->hidden, w->qkv, tokens));
}

struct overlap_tensor overlap_tensor_layer(const struct cost_setting *setting, enum pass pass, double tokens,
                                           const struct overlap_widths *widths)
{
    struct overlap_tensor sum = {0};
    const struct overlap_widths *w = widths;
    if (setting->tensor == 1 || tokens <= 0)
        return sum;
    if (!setting->plan->sequence_parallel) {
        add_all_reduces(&sum, setting, pass, tokens, w);
        return sum;
    }
    if (pass == PASS_FORWARD) {
        add_chunked(&sum, setting, DEVICE_ALL_GATHER, tokens, w->qkv, w->hidden);
        add_chunked(&sum, setting, DEVICE_REDUCE_SCATTER, tokens, w->hidden, w->heads);
        add_chunked(&sum, setting, DEVICE_ALL_GATHER, tokens, w->up, w->hidden);
        add_chunked(&sum, setting, DEVICE_REDUCE_SCATTER, tokens, w->hidden, w->ffn);
        return sum;
    }
    if (pass != PASS_WEIGHT)
        add_chunked(&sum, setting, DEVICE_ALL_GATHER, tokens, w->ffn, w->hidden);
    add_column_backward(&sum, setting, pass, tokens, w->up);
    if (pass != PASS_WEIGHT)
        add_chunked(&sum, setting, DEVICE_ALL_GATHER, tokens, w->heads, w->hidden);
    add_column_backward(&sum, setting, pass, tokens, w->qkv);
    return sum;
}

struct overlap_tensor overlap_tensor_down(const struct cost_setting *setting, double tokens, double hidden, double ffn)
{
    struct overlap_tensor sum = {0};
    if (setting->tensor == 1 || tokens <= 0)
        return sum;
    if (setting->plan->sequence_parallel)
        add_chunked(&sum, setting, DEVICE_REDUCE_SCATTER, tokens, hidden, ffn);
    else
        add_exposed(&sum, setting, DEVICE_ALL_REDUCE, tokens);
    return sum;
}

struct overlap_tensor overlap_tensor_head(const struct cost_setting *setting, enum pass pass, double tokens,
                                          double logits)
{
    struct overlap_tensor sum = {0};
    if (setting->tensor == 1 || tokens <= 0)
        return sum;
    double weight_s = weight_gemm_s(setting, (double)setting->model->hidden, logits, tokens);
    if (!setting->plan->sequence_parallel) {
        if (pass == PASS_BACKWARD)
            add_bulk(&sum, setting, DEVICE_ALL_REDUCE, tokens, weight_s);
        if (pass == PASS_INPUT)
            add_exposed(&sum, setting, DEVICE_ALL_REDUCE, tokens);
        return sum;
    }
    if (pass == PASS_FORWARD)
        add_exposed(&sum, setting, DEVICE_ALL_GATHER, tokens);
    else
        add_column_backward(&sum, setting, pass, tokens, logits);
    return sum;
}

struct overlap_tensor overlap_tensor_embedding(const struct cost_setting *setting, enum pass pass, double tokens)
{
    struct overlap_tensor sum = {0};
    bool forward = pass == PASS_FORWARD, whole = !setting->plan->sequence_parallel || setting->model->positions > 0;
    if (setting->tensor == 1 || tokens <= 0 || (!forward && !setting->plan->sequence_parallel))
        return sum;
    enum device_collective_kind kind = DEVICE_ALL_GATHER;
    if (forward)
        kind = whole ? DEVICE_ALL_REDUCE : DEVICE_REDUCE_SCATTER;
    add_exposed(&sum, setting, kind, tokens);
    return sum;
}
