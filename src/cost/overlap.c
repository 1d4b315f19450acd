/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cost/overlap.h"

#include <math.h>

#include "cost/communication.h"

/** Return the time of a GEMM at the speed that training reaches [s]. */
static double sustained_gemm_s(const struct device *device, struct cost_gemm gemm)
{
    return kernel_sustained_gemm_s(device, &gemm);
}

/** Return the bytes of T x columns activations. */
static double activation_bytes(const struct cost_setting *setting, double tokens, double columns)
{
    return tokens * columns * cost_precisions(setting).wire;
}

enum { SPLITS = 4 }; /* chunks of a GEMM whose output is reduced */

static double multiprocessors(const struct device *device, enum overlap_extent extent)
{
    const struct device_training *training = &device->training;
    return extent == OVERLAP_IN_DOMAIN ? training->node_multiprocessors : training->collective_multiprocessors;
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
    bool chunked = setting->tp_overlap == SCENARIO_CHUNKED;
    return chunked || setting->tensor > platform_nvlink_domain(setting->platform) ? OVERLAP_OVER_DOMAINS
                                                                                  : OVERLAP_IN_DOMAIN;
}

/** Return a GEMM of fewer rows. */
static struct cost_gemm of_rows(struct cost_gemm gemm, double rows)
{
    gemm.m = rows;
    return gemm;
}

double overlap_gather_gemm_s(const struct cost_setting *setting, struct cost_gemm gemm)
{
    double rows = gemm.m / setting->tensor;
    double gemm_s = sustained_gemm_s(setting->device, of_rows(gemm, rows));
    enum cost_route route = setting->tensor > platform_nvlink_domain(setting->platform) ? COST_NIC : COST_NVLINK;
    double copy_s =
        cost_of_transfer(setting, route, layer_gathered_bytes(setting, gemm.precision, rows, gemm.k), 1).duration_s;
    return (setting->tensor - 1) * fmax(gemm_s, copy_s) + gemm_s;
}

double overlap_gemm_scatter_s(const struct cost_setting *setting, struct cost_gemm gemm)
{
    struct device left = *setting->device;
    double rows = gemm.m / SPLITS;
    left.peak_flop_per_s[gemm.precision] *= 1 - held_share(&left, tensor_extent(setting));
    if (left.multiprocessors > 0)
        left.multiprocessors -= (int64_t)multiprocessors(&left, tensor_extent(setting));
    double gemm_s = sustained_gemm_s(&left, of_rows(gemm, rows));
    double bytes = activation_bytes(setting, rows, gemm.n);
    double scatter_s = cost_collective_s(setting, DEVICE_REDUCE_SCATTER, bytes, setting->tensor);
    return gemm_s + (SPLITS - 1) * fmax(gemm_s, scatter_s) + scatter_s;
}

/** Add a collective of a tensor of `bytes` that adds `exposed_s` to the kernels. */
static void add(struct overlap_tensor *sum, const struct cost_setting *setting, enum device_collective_kind kind,
                double bytes, double exposed_s)
{
    sum->exposed_s += exposed_s;
    sum->launches++;
    sum->bytes += (kind == DEVICE_ALL_REDUCE ? 2 : 1) * bytes * (setting->tensor - 1) / setting->tensor;
    if (cost_collective_extrapolates(setting, kind, bytes, setting->tensor))
        sum->extrapolated_s += exposed_s;
}

/** Return the bytes of a T x h tensor of activations. */
static double tensor_bytes(const struct cost_setting *setting, double tokens)
{
    return activation_bytes(setting, tokens, (double)setting->model->hidden);
}

/** Add an all-gather before a GEMM of T x n x k, or a reduce-scatter after it. */
static void add_chunked(struct overlap_tensor *sum, const struct cost_setting *setting,
                        enum device_collective_kind kind, struct cost_gemm gemm)
{
    bool gathers = kind == DEVICE_ALL_GATHER;
    double bytes = gathers ? layer_gathered_bytes(setting, gemm.precision, gemm.m, gemm.k)
                           : activation_bytes(setting, gemm.m, gemm.n),
           exposed_s;
    if (setting->tp_overlap != SCENARIO_CHUNKED)
        exposed_s = cost_collective_s(setting, kind, bytes, setting->tensor);
    else
        exposed_s = (gathers ? overlap_gather_gemm_s : overlap_gemm_scatter_s)(setting, gemm) -
                    sustained_gemm_s(setting->device, gemm);
    add(sum, setting, kind, bytes, exposed_s);
}

/** Add a collective beside an independent GEMM, which takes gemm_s without it. */
static void add_bulk(struct overlap_tensor *sum, const struct cost_setting *setting, enum device_collective_kind kind,
                     double bytes, struct cost_gemm beside)
{
    double gemm_s = sustained_gemm_s(setting->device, beside);
    double collective_s = cost_collective_s(setting, kind, bytes, setting->tensor);
    bool hides = setting->tp_overlap != SCENARIO_EXPOSED;
    const struct overlap_kernels gemm = {.all_s = gemm_s}; /* GEMMs lose c/S here: overlap_tensor_layer */
    add(sum, setting, kind, bytes,
        hides ? overlap_beside_s(setting->device, tensor_extent(setting), gemm, collective_s) - gemm_s : collective_s);
}

/** Add a collective that no GEMM hides. */
static void add_exposed(struct overlap_tensor *sum, const struct cost_setting *setting,
                        enum device_collective_kind kind, double bytes)
{
    add(sum, setting, kind, bytes, cost_collective_s(setting, kind, bytes, setting->tensor));
}

/** Add the backward of a column-split GEMM: the gather of its input and the reduction of its input's gradient. In a
 * split backward each collective is in the pass without the GEMM that would hide it. */
static void add_column_backward(struct overlap_tensor *sum, const struct cost_setting *setting,
                                const struct layer_op *op, enum pass pass, double tokens)
{
    const struct cost_gemm input = {1, tokens, op->in, op->out, 0, op->precision, DEVICE_SEQUENTIAL};
    double bytes = activation_bytes(setting, tokens, layer_split_width(op)),
           gathered = layer_gathered_bytes(setting, op->precision, tokens, layer_split_width(op));
    if (pass == PASS_WEIGHT)
        add_exposed(sum, setting, DEVICE_ALL_GATHER, gathered);
    if (pass == PASS_INPUT)
        add_exposed(sum, setting, DEVICE_REDUCE_SCATTER, bytes);
    if (pass != PASS_BACKWARD)
        return;
    add_bulk(sum, setting, DEVICE_ALL_GATHER, gathered, input);
    add_bulk(sum, setting, DEVICE_REDUCE_SCATTER, bytes, layer_weight_gemm(setting, op, tokens));
}

/** Add the all-reduce of a GEMM without sequence parallelism: forward of a row-split GEMM's output, backward of a
 * column-split GEMM's input gradient. */
static void add_all_reduce(struct overlap_tensor *sum, const struct cost_setting *setting, const struct layer_op *op,
                           enum pass pass, double tokens)
{
    bool column = op->split == LAYER_COLUMN;
    double bytes = activation_bytes(setting, tokens, layer_split_width(op));
    if (pass == PASS_BACKWARD && column)
        add_bulk(sum, setting, DEVICE_ALL_REDUCE, bytes, layer_weight_gemm(setting, op, tokens));
    if (pass == PASS_FORWARD ? !column : pass == PASS_INPUT && column)
        add_exposed(sum, setting, DEVICE_ALL_REDUCE, bytes);
}

/** Add the collectives of one operator. Operators without a split have none. */
static void add_op(struct overlap_tensor *sum, const struct cost_setting *setting, const struct layer_op *op,
                   enum pass pass, double tokens)
{
    bool column = op->split == LAYER_COLUMN, forward = pass == PASS_FORWARD;
    struct cost_gemm gemm = {1, tokens, op->out, op->in, 0, op->precision, DEVICE_SEQUENTIAL};
    struct cost_gemm input = {1, tokens, op->in, op->out, 0, op->precision, DEVICE_SEQUENTIAL};
    if (op->split == LAYER_WHOLE)
        return;
    if (!setting->sequence_parallel)
        add_all_reduce(sum, setting, op, pass, tokens);
    else if (op->follows)
        return;
    else if (forward)
        add_chunked(sum, setting, column ? DEVICE_ALL_GATHER : DEVICE_REDUCE_SCATTER, gemm);
    else if (column)
        add_column_backward(sum, setting, op, pass, tokens);
    else if (pass != PASS_WEIGHT)
        add_chunked(sum, setting, DEVICE_ALL_GATHER, input);
}

struct overlap_tensor overlap_tensor_layer(const struct cost_setting *setting, const struct layer *layer,
                                           enum pass pass, double tokens)
{
    struct overlap_tensor sum = {0};
    if (setting->tensor == 1 || tokens <= 0)
        return sum;
    for (int32_t i = 0; i < layer->n_ops; i++)
        add_op(&sum, setting, &layer->ops[pass == PASS_FORWARD ? i : layer->n_ops - 1 - i], pass, tokens);
    return sum;
}

struct overlap_tensor overlap_tensor_row(const struct cost_setting *setting, const struct layer_op *op, double tokens)
{
    struct overlap_tensor sum = {0};
    if (setting->tensor > 1 && tokens > 0)
        add_op(&sum, setting, op, PASS_FORWARD, tokens);
    return sum;
}

struct overlap_tensor overlap_tensor_listed(const struct cost_setting *setting, const struct layer *layer,
                                            enum recompute list, double tokens)
{
    struct overlap_tensor sum = {0};
    for (int32_t i = 0; i < layer->n_ops && setting->tensor > 1 && tokens > 0; i++)
        if (layer_repeats(&layer->ops[i], list))
            add_op(&sum, setting, &layer->ops[i], PASS_FORWARD, tokens);
    return sum;
}

struct overlap_tensor overlap_tensor_head(const struct cost_setting *setting, const struct layer_op *op, enum pass pass,
                                          double tokens)
{
    struct overlap_tensor sum = {0};
    if (setting->tensor == 1 || tokens <= 0)
        return sum;
    if (pass == PASS_FORWARD && setting->sequence_parallel)
        add_exposed(&sum, setting, DEVICE_ALL_GATHER, tensor_bytes(setting, tokens));
    if (pass == PASS_FORWARD && setting->whole_logits)
        add_exposed(&sum, setting, DEVICE_ALL_GATHER, activation_bytes(setting, tokens, cost_loss_logits(setting)));
    if (pass != PASS_FORWARD)
        add_op(&sum, setting, op, pass, tokens);
    return sum;
}

struct overlap_tensor overlap_tensor_embedding(const struct cost_setting *setting, enum pass pass, double tokens)
{
    struct overlap_tensor sum = {0};
    bool forward = pass == PASS_FORWARD, whole = !setting->sequence_parallel || setting->model->positions > 0;
    if (setting->tensor == 1 || tokens <= 0 || (!forward && !setting->sequence_parallel))
        return sum;
    enum device_collective_kind kind = DEVICE_ALL_GATHER;
    if (forward)
        kind = whole ? DEVICE_ALL_REDUCE : DEVICE_REDUCE_SCATTER;
    add_exposed(&sum, setting, kind, tensor_bytes(setting, tokens));
    return sum;
}
