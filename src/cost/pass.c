/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cost/pass.h"

#include "cost/attention.h"
#include "cost/communication.h"
#include "cost/context.h"
#include "cost/dispatch.h"
#include "cost/overlap.h"
#include "cost/shards.h"

static void add_launches(struct cost_pass *cost, struct cost_launch launch, double n)
{
    cost->host_s += n * launch.host_s;
    cost->blocked_s += n * launch.blocked_s;
}

static void add_tensor(struct cost_pass *cost, const struct overlap_tensor *tensor, struct cost_launch launch,
                       int32_t times)
{
    add_launches(cost, launch, times * tensor->launches);
    cost->tensor_s += times * tensor->exposed_s;
    cost->tensor_bytes += times * tensor->bytes;
    cost->extrapolated_s[COST_COLLECTIVE] += times * tensor->extrapolated_s;
}

static void add_kernels(struct cost_pass *cost, const struct cost_kernels *kernels, struct cost_launch launch,
                        int32_t times)
{
    double flop = 0, product_s = 0, product_flop = 0, kernels_s = 0, attention_s = 0, launches = 0, expert_s = 0,
           expert_flop = 0, fp8_flop = 0, cast_s = 0;
    for (int32_t i = 0; i < kernels->n; i++) {
        const struct cost_kernel *kernel = &kernels->kernel[i];
        flop += kernel->flop;
        launches += kernel->seconds > 0 ? kernel->launches : 0;
        *(kernel->family == COST_ATTENTION ? &attention_s : &kernels_s) += kernel->seconds;
        product_s += kernel->family == COST_GEMM ? kernel->seconds : 0;
        product_flop += kernel->family == COST_GEMM ? kernel->flop : 0;
        fp8_flop += kernel->family == COST_GEMM && kernel->precision != PRECISION_BF16 ? kernel->flop : 0;
        cast_s += kernel->casts ? kernel->seconds : 0;
        expert_s += kernel->of_experts ? kernel->seconds : 0;
        expert_flop += kernel->of_experts ? kernel->flop : 0;
        cost->extrapolated_s[kernel->family] += times * kernel->extrapolated_s;
    }
    cost->flop += times * flop;
    cost->product_s += times * product_s;
    cost->product_flop += times * product_flop;
    cost->fp8_flop += times * fp8_flop;
    cost->cast_s += times * cast_s;
    cost->expert_product_s += times * expert_s;
    cost->expert_product_flop += times * expert_flop;
    cost->kernels_s += times * kernels_s;
    cost->attention_s += times * attention_s;
    add_launches(cost, launch, times * launches);
}

/** Append the kernel that adds a backward's gradients of `parameters` to the sum. */
static void add_sum(struct cost_kernels *kernels, const struct cost_setting *setting, enum pass pass,
                    const struct cost_micro_batch *micro_batch, double parameters)
{
    bool ends = pass == PASS_BACKWARD || pass == PASS_WEIGHT;
    if (ends && cost_micro_batch_tokens(micro_batch) > 0)
        kernel_add_memory_bound(kernels, setting->device, DEVICE_COPY, "sum of gradients",
                                cost_added_bytes(setting, micro_batch->first) * parameters);
}

/** Add the sum of gradients of a run's layers. */
static void add_layer_sums(struct cost_pass *cost, const struct cost_setting *setting, enum pass pass,
                           const struct cost_micro_batch *micro_batch, const struct layer *layer)
{
    const struct cost_run *run = &setting->runs[0];
    struct cost_kernels kernels;
    if (cost_added_bytes(setting, micro_batch->first) <= 0)
        return;
    kernels.n = 0;
    add_sum(&kernels, setting, pass, micro_batch, layer_parameters(setting, layer));
    add_kernels(cost, &kernels, setting->host.layer_kernel, run->n);
}

/** Add the attention of a run's layers, and the ring that feeds it. */
static void add_attention(struct cost_pass *cost, const struct cost_setting *setting, enum pass pass,
                          const struct cost_micro_batch *micro_batch)
{
    const struct cost_run *run = &setting->runs[0];
    struct cost_kernels kernels;
    kernels.n = 0;
    attention_add_kernels(setting, run->kind, pass, micro_batch, &kernels);
    add_kernels(cost, &kernels, setting->host.layer_kernel, run->n);
    context_of_layers(setting, run, pass, micro_batch, cost);
}

/** Add the launches behind the host's wait for the number of tokens of each expert, in a forward. The GPU has nothing
 * to do until it reaches the GEMMs of experts. Padded experts have as many tokens as they may. */
static void add_wait_for_counts(struct cost_pass *cost, const struct cost_setting *setting, int32_t n)
{
    enum { PERMUTE = 7, DISPATCH = 1 }; /* launches: of the permutation in layer.c, of the tokens' way */
    const double host_s = setting->host.layer_kernel.host_s;
    if (setting->padded_capacity <= 0)
        add_launches(cost, (struct cost_launch){host_s, host_s}, n * (PERMUTE + DISPATCH));
}

/** Add the ways of a run's tokens to their experts and back, behind its kernels. Beside another micro-batch's kernels,
 * as long as these, they only slow them down. */
static void add_dispatch(struct cost_pass *cost, const struct cost_setting *setting, enum pass pass, double tokens)
{
    const struct cost_run *run = &setting->runs[0];
    if (pass == PASS_WEIGHT || setting->model->kinds[run->kind].experts == 0)
        return;
    const struct cost_dispatch both = cost_dispatch_both(setting, run->kind, tokens);
    double back_s = cost_dispatch_of(setting, run->kind, tokens, COST_FROM_EXPERTS).seconds;
    double seconds = run->n * both.seconds;
    if (both.sent_bytes <= 0)
        return;
    if (setting->ep_overlap) {
        const struct overlap_kernels kernels = {cost->kernels_s, cost->product_s};
        enum overlap_extent extent = both.nic_bytes > 0 ? OVERLAP_OVER_DOMAINS : OVERLAP_IN_DOMAIN;
        seconds = overlap_beside_s(setting->device, extent, kernels, seconds) - kernels.all_s;
    }
    cost->expert_s += seconds;
    cost->combine_s += seconds * back_s / both.seconds;
    cost->expert_bytes += run->n * both.sent_bytes;
    cost->expert_nic_bytes += run->n * both.nic_bytes;
    add_launches(cost, setting->host.layer_kernel, 2 * run->n);
    if (pass == PASS_FORWARD)
        add_wait_for_counts(cost, setting, run->n);
}

/** Add a run's layers without their attention. Each runs once for every nano-batch. */
static void add_tokens(struct cost_pass *cost, const struct cost_setting *setting, const struct layer *layer,
                       enum pass pass, const struct cost_micro_batch *micro_batch)
{
    int32_t times = setting->runs[0].n * cost_parts(micro_batch);
    double all = cost_micro_batch_tokens(micro_batch), tokens = all / cost_parts(micro_batch);
    const struct overlap_tensor tensor = overlap_tensor_layer(setting, layer, pass, tokens);
    struct cost_kernels kernels;
    kernels.n = 0;
    layer_add_gemms(&kernels, setting, layer, pass, tokens);
    layer_add_memory_bound(&kernels, setting, layer, pass, tokens);
    add_kernels(cost, &kernels, setting->host.layer_kernel, times);
    add_tensor(cost, &tensor, setting->host.layer_kernel, times);
    add_dispatch(cost, setting, pass, all);
    cost->host_s += tokens > 0 ? times * setting->host.layer_s : 0;
}

/** Add the forward of a run's layers without their attention, which is already known. */
static void add_known(struct cost_pass *cost, const struct cost_setting *setting,
                      const struct cost_micro_batch *micro_batch, const struct cost_backward *backward)
{
    const struct cost_pass *forward = backward->forward;
    bool exact = true; /* sums in another order differ in their last bits */
    for (int i = 0; i < COST_N_FAMILIES; i++)
        exact = exact && (cost->extrapolated_s[i] == 0 || forward->extrapolated_s[i] == 0);
    if (exact) {
        cost_add_pass(cost, forward);
        return;
    }
    add_tokens(cost, setting, backward->layer, PASS_FORWARD, micro_batch);
}

/** Add the forward of a run's layers, as the backward repeats it. */
static void add_again(struct cost_pass *cost, const struct cost_setting *setting,
                      const struct cost_micro_batch *micro_batch, const struct cost_backward *backward)
{
    double tokens = cost_micro_batch_tokens(micro_batch) / cost_parts(micro_batch);
    int32_t times = setting->runs[0].n * cost_parts(micro_batch);
    add_known(cost, setting, micro_batch, backward);
    add_attention(cost, setting, PASS_FORWARD, micro_batch);
    if (!setting->early_stop)
        return;
    const struct layer_op *last = layer_last_gemm(backward->layer);
    struct cost_kernels ends;
    ends.n = 0;
    layer_add_ends(&ends, setting, backward->layer, tokens);
    if (last->is_end) {
        struct overlap_tensor tensor = overlap_tensor_row(setting, last, tokens);
        add_tensor(cost, &tensor, setting->host.layer_kernel, -times);
    }
    add_kernels(cost, &ends, setting->host.layer_kernel, -times);
}

/** Add the forward kernels, and the collectives of GEMMs and experts, that the backward repeats by the recomputation's
 * list. */
static void add_listed(struct cost_pass *cost, const struct cost_setting *setting,
                       const struct cost_micro_batch *micro_batch, const struct layer *layer)
{
    double all = cost_micro_batch_tokens(micro_batch), tokens = all / cost_parts(micro_batch);
    int32_t times = setting->runs[0].n * cost_parts(micro_batch);
    if ((micro_batch->recompute & ~(unsigned)(RECOMPUTE_ATTENTION_CORE | RECOMPUTE_FULL)) != 0) {
        struct cost_kernels again;
        again.n = 0;
        layer_add_listed(&again, setting, layer, micro_batch->recompute, tokens);
        add_kernels(cost, &again, setting->host.layer_kernel, times);
        const struct overlap_tensor tensor = overlap_tensor_listed(setting, layer, micro_batch->recompute, tokens);
        add_tensor(cost, &tensor, setting->host.layer_kernel, times);
    }
    if (micro_batch->recompute & RECOMPUTE_MOE)
        add_dispatch(cost, setting, PASS_FORWARD, all);
    if (micro_batch->recompute & RECOMPUTE_ATTENTION_CORE)
        add_attention(cost, setting, PASS_FORWARD, micro_batch);
}

struct cost_pass cost_of_tokens(const struct cost_setting *setting, const struct layer *layer, enum pass pass,
                                const struct cost_micro_batch *micro_batch)
{
    const double element = cost_precisions(setting).wire;
    struct cost_pass cost = {.boundary_bytes = pass == PASS_WEIGHT ? 0
                                                                   : element * cost_micro_batch_tokens(micro_batch) *
                                                                         cost_sequence_width(setting)};
    add_tokens(&cost, setting, layer, pass, micro_batch);
    return cost;
}

bool cost_repeats(enum pass pass, const struct cost_micro_batch *micro_batch)
{
    return (pass == PASS_BACKWARD || pass == PASS_INPUT) && micro_batch->recompute == RECOMPUTE_FULL;
}

void cost_add_slices(struct cost_pass *cost, const struct cost_setting *setting, bool first, enum pass pass,
                     const struct cost_micro_batch *micro_batch, const struct cost_backward *backward)
{
    bool input = pass == PASS_BACKWARD || pass == PASS_INPUT;
    if (pass != PASS_WEIGHT)
        add_attention(cost, setting, input ? PASS_BACKWARD : pass, micro_batch);
    if (cost_repeats(pass, micro_batch)) {
        struct cost_setting again = cost_setting_again(setting);
        add_again(cost, &again, micro_batch, backward);
    }
    if (input)
        add_listed(cost, setting, micro_batch, backward->layer);
    if (pass != PASS_FORWARD)
        add_layer_sums(cost, setting, pass, micro_batch, backward->layer);
    shards_of_layers(setting, first, pass, cost);
}

/** Return cost_of_pass of one run. */
static struct cost_pass pass_of_run(const struct cost_setting *setting, bool first, enum pass pass,
                                    const struct cost_micro_batch *micro_batch)
{
    struct layer layer;
    layer_of(setting, setting->runs[0].kind, &layer);
    struct cost_pass cost = cost_of_tokens(setting, &layer, pass, micro_batch), forward = {0};
    if (cost_repeats(pass, micro_batch)) {
        struct cost_setting again = cost_setting_again(setting);
        forward = cost_of_tokens(&again, &layer, PASS_FORWARD, micro_batch);
    }
    cost_add_slices(&cost, setting, first, pass, micro_batch, &(struct cost_backward){&layer, &forward});
    return cost;
}

struct cost_pass cost_of_pass(const struct cost_setting *setting, enum pass pass,
                              const struct cost_micro_batch *micro_batch)
{
    struct cost_setting room;
    struct cost_pass sum = pass_of_run(cost_of_one_run(setting, 0, &room), true, pass, micro_batch);
    for (int32_t i = 1; i < setting->n_runs; i++) {
        struct cost_pass more = pass_of_run(cost_of_one_run(setting, i, &room), false, pass, micro_batch);
        cost_add_pass(&sum, &more);
    }
    return sum;
}

void cost_layer_kernels(const struct cost_setting *setting, int32_t kind, enum pass pass,
                        const struct cost_micro_batch *micro_batch, struct cost_kernels *kernels)
{
    struct layer layer;
    layer_of(setting, kind, &layer);
    double tokens = cost_micro_batch_tokens(micro_batch);
    kernels->n = 0;
    layer_add_gemms(kernels, setting, &layer, pass, tokens);
    if (pass != PASS_WEIGHT)
        attention_add_kernels(setting, kind, pass == PASS_INPUT ? PASS_BACKWARD : pass, micro_batch, kernels);
    layer_add_memory_bound(kernels, setting, &layer, pass, tokens);
    add_sum(kernels, setting, pass, micro_batch, layer_parameters(setting, &layer));
}

/** Append the GEMMs of a head that runs in chunks of tokens. The forward computes both gradients, and those of the
 * weights are added up in bf16. A chunk is a power of two of tokens, at most all. */
static void add_chunked_gemms(struct cost_kernels *kernels, const struct cost_setting *setting,
                              const struct layer_op *head, enum pass pass, double tokens)
{
    const struct device *device = setting->device;
    double chunk = 1, share = tokens / cost_loss_chunks(setting);
    while (chunk < share)
        chunk *= 2;
    chunk = chunk < tokens ? chunk : tokens;
    if (pass != PASS_FORWARD || tokens <= 0)
        return;
    double n = tokens / chunk, sum = 2 * cost_precisions(setting).activation;
    const struct cost_gemm gemms[] = {{n, chunk, head->out, head->in, 0, PRECISION_BF16, DEVICE_SEQUENTIAL},
                                      {n, chunk, head->in, head->out, 0, PRECISION_BF16, DEVICE_SEQUENTIAL},
                                      {n, head->in, head->out, chunk, sum, PRECISION_BF16, DEVICE_SEQUENTIAL}};
    for (int32_t i = 0; i < (int32_t)(sizeof gemms / sizeof *gemms); i++) {
        kernel_add_gemms(kernels, device, head->name[i], gemms[i]);
        kernels->kernel[kernels->n - 1].launches = kernel_whole_above(n);
    }
}

static void head_kernels(const struct cost_setting *setting, const struct layer *head, enum pass pass,
                         const struct cost_micro_batch *micro_batch, struct cost_kernels *kernels)
{
    double tokens = cost_micro_batch_tokens(micro_batch);
    kernels->n = 0;
    layer_add_memory_bound(kernels, setting, head, pass, tokens);
    if (cost_loss_is_chunked(setting))
        add_chunked_gemms(kernels, setting, layer_last_gemm(head), pass, tokens);
    else
        layer_add_gemms(kernels, setting, head, pass, tokens);
    add_sum(kernels, setting, pass, micro_batch, layer_parameters(setting, head));
}

void cost_head_kernels(const struct cost_setting *setting, enum pass pass, const struct cost_micro_batch *micro_batch,
                       struct cost_kernels *kernels)
{
    struct layer head;
    layer_of_head(setting, &head);
    head_kernels(setting, &head, pass, micro_batch, kernels);
}

struct cost_pass cost_of_head(const struct cost_setting *setting, enum pass pass,
                              const struct cost_micro_batch *micro_batch)
{
    struct layer head;
    layer_of_head(setting, &head);
    const struct overlap_tensor tensor =
        overlap_tensor_head(setting, layer_last_gemm(&head), pass, cost_micro_batch_tokens(micro_batch));
    struct cost_kernels kernels;
    struct cost_pass cost = {0};
    head_kernels(setting, &head, pass, micro_batch, &kernels);
    int32_t n = 1 + (int32_t)setting->model->mtp_layers;
    add_kernels(&cost, &kernels, setting->host.kernel, n);
    add_tensor(&cost, &tensor, setting->host.kernel, n);
    shards_of_tables(setting, pass, &cost);
    return cost;
}

/** Return the bytes that a backward moves for each parameter of the rank's tables. The gradient is zeroed as an
 * activation and added to the main gradient or the head's, unless the kernel of all sums adds it. */
static double table_gradient_bytes(const struct cost_setting *setting)
{
    const struct cost_precisions bytes = cost_precisions(setting);
    double added = bytes.activation + 2 * bytes.gradient;
    if (cost_shards_in_passes(setting))
        added = setting->model->tied_embeddings ? 3 * bytes.activation : 0;
    return bytes.activation + (cost_added_bytes(setting, false) > 0 ? 0 : added);
}

void cost_embedding_kernels(const struct cost_setting *setting, enum pass pass,
                            const struct cost_micro_batch *micro_batch, struct cost_kernels *kernels)
{
    const struct model *model = setting->model;
    const struct device *device = setting->device;
    const double element = cost_precisions(setting).activation, mask = 1;
    bool forward = pass == PASS_FORWARD;
    double tokens = cost_micro_batch_tokens(micro_batch), h = (double)model->hidden, share = 1.0 / setting->tensor;
    double rows = h * (cost_logits(setting) + (double)model->positions);
    kernels->n = 0;
    add_sum(kernels, setting, pass, micro_batch, rows);
    /* No other pass needs the table's gradient, so it stays in the input's pass. */
    if (tokens <= 0 || pass == PASS_WEIGHT)
        return;
    kernel_add_memory_bound(kernels, device, DEVICE_COPY, forward ? "embedding" : "embedding's gradient",
                            element * (forward ? 2 + (1 - share) : 1 + share) * h * tokens);
    if (model->positions > 0)
        kernel_add_memory_bound(kernels, device, DEVICE_COPY, forward ? "positions" : "positions' gradient",
                                element * (forward ? 2 + 3 : 2) * h * tokens);
    if (model->dropout)
        kernel_add_memory_bound(kernels, device, DEVICE_COPY, "dropout of the embedding",
                                (2 * element + mask) * cost_sequence_width(setting) * tokens);
    if (!forward)
        kernel_add_memory_bound(kernels, device, DEVICE_COPY, "gradients of whole tables",
                                table_gradient_bytes(setting) * rows);
}

struct cost_pass cost_of_embedding(const struct cost_setting *setting, enum pass pass,
                                   const struct cost_micro_batch *micro_batch)
{
    struct cost_kernels kernels;
    struct cost_pass cost = {0};
    cost_embedding_kernels(setting, pass, micro_batch, &kernels);
    add_kernels(&cost, &kernels, setting->host.kernel, 1);
    if (pass == PASS_WEIGHT)
        return cost;
    struct overlap_tensor tensor = overlap_tensor_embedding(setting, pass, cost_micro_batch_tokens(micro_batch));
    add_tensor(&cost, &tensor, setting->host.kernel, 1);
    return cost;
}
