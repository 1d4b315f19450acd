/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This file defines everything that costs read, except the micro-batch. */
#ifndef SLIMSIM_COST_SETTING_H
#define SLIMSIM_COST_SETTING_H

#include "scenario/scenario.h"

/** Layers of one kind on a virtual stage. `again` of them recompute, if a micro-batch recomputes in full. */
struct cost_run {
    int32_t kind, n, again;
};

/** Operators that run as single operations or GEMMs. Names are those of struct scenario_fused. */
enum cost_single {
    COST_SINGLE_NORM = 1,
    COST_SINGLE_ROTATION = 2,
    COST_SINGLE_QKV = 4,
    COST_SINGLE_GATE_UP = 8,
    COST_SINGLE_PERMUTE = 16,
    COST_SINGLE_AMAX = 32
};

/** Host's time of one launch, and the part of it for which the GPU waits whatever it has to do [s]. */
struct cost_launch {
    double host_s, blocked_s;
};

/** Launches of a kernel outside layers, of a kernel of a layer, and the host's seconds of a layer's graph in a pass. 0:
 * the host launches no kernel of its own. */
struct cost_host {
    struct cost_launch kernel, layer_kernel;
    double layer_s;
};

/* Settings are compared by their bytes, so the compiler refuses gaps between fields. */
#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wpadded"

/**
 * Setting that all costs of one pipeline share. All pointers are borrowed.
 *
 * The cache compares it whole (cost/cache.h). So it holds the plan's options by value. It has no degrees of the plan
 * except tensor, because a phase, stage or micro-batch may have others.
 */
struct cost_setting {
    int32_t n_runs; /* kinds that one virtual stage holds. Without layers it holds none of one kind */
    struct cost_run runs[MODEL_MAX_KINDS]; /* in the order of their first layers; others are 0 */
    const struct model *model;
    const struct device *device;
    const struct platform *platform;
    const struct platform *shards_platform; /* has the links of zero2's and zero3's collectives; NULL: `platform` */
    const struct faults *faults; /* slow devices; NULL: none. dag/ applies them, costs are of devices without faults */
    const struct jitter *jitter; /* by which equal passes differ; NULL: they do not. dag/ applies it */
    const struct replay_step *replay; /* seconds of passes; NULL: costs count. dag/ applies them */
    struct cost_cache *cache;         /* cost/cache.h; NULL: no cache */
    struct scenario_stages split;     /* shares the model's layers out to stages */
    int64_t ranks;                    /* DP x CP ranks of the plan */
    int64_t shard_group;              /* number of them that share states; 0: all */
    int32_t fsdp;                     /* version of FSDP; 0 counts as 1 */
    int32_t fp8_params;               /* 1: weights of layers are stored in the precision of their GEMMs only */
    double optimizer_offload;         /* scenario_plan */
    double on_demand_slowdown;        /* scenario_communication; 0: ranks of zero3 join collectives */
    double expert_imbalance;          /* scenario; 0 counts as 1 */
    double capacity_factor;           /* scenario_plan */
    double padded_capacity;           /* capacity_factor, if experts compute padding up to it; otherwise 0 */
    struct cost_host host;
    enum precision precision;        /* of the GEMMs of layers, unless their kind stays in bf16; activations have it */
    enum device_attention attention; /* kernel of attention */
    enum scenario_kernels kernels;
    enum scenario_loss loss;
    enum scenario_swiglu swiglu;
    enum cost_single single; /* operators that are not one kernel or GEMM, whatever kernels are */
    enum scenario_accumulation gradient_accumulation;
    int32_t tp_overlap, pp_overlap, dp_overlap; /* as in struct scenario_communication */
    int32_t cp_type, sharding, fsdp_prefetch, fsdp_ends, gradients, gradient_buffers, optimizer; /* scenario_plan */
    int32_t main_params, moments, gradient_reduction, reduce_precision;                          /* scenario_plan */
    int32_t reduce_bucket, gradient_copy;                                                        /* scenario_plan */
    bool cp_overlap, sequence_parallel, kv_copies, early_stop;
    bool keeps_gathered;      /* zero3: no forward frees the parameters that it gathered */
    bool staged;              /* zero3 with pipeline stages: gradients are whole until the end of the iteration */
    bool whole_logits;        /* every TP rank gathers all logits for the loss */
    bool balanced_context;    /* context ranks share attention evenly and send nothing */
    int32_t tensor;           /* TP degree */
    int32_t recompute_layers; /* layers of a virtual stage that recompute under full recomputation; 0: all */
    int32_t expert_ranks;     /* neighbours that hold all experts once: EP x TP of experts; 0 counts as 1 */
    int32_t expert_tensor;    /* ranks that split each expert; 0 counts as 1 */
    int32_t expert_gemms;     /* enum device_expert_gemms */
    int32_t dispatcher;       /* enum scenario_dispatcher */
    int16_t ep_overlap;       /* 1: tokens go to experts beside kernels of another micro-batch */
    int16_t fp8_dispatch;     /* 1: layers with GEMMs in fp8 send tokens to experts so */
};
#pragma GCC diagnostic pop

/** Take over a plan's options, TP degree, split of layers and layers that recompute. */
void cost_take_plan(struct cost_setting *setting, const struct scenario_plan *plan);

/** Add n layers of the model, from layer `first` on. The first recompute_layers of them recompute. */
void cost_add_layers(struct cost_setting *setting, int64_t first, int32_t n);

/** Take all layers away. Costs need a setting with layers, or with none of a kind (cost_add_layers). */
void cost_clear_layers(struct cost_setting *setting);

/** Replace the layers by these. */
void cost_hold_layers(struct cost_setting *setting, int64_t first, int32_t n);

/** Return whether two settings hold equally many layers of each kind, in the same order. */
bool cost_same_layers(const struct cost_setting *a, const struct cost_setting *b);

/** Return the first of settings[0 .. i] that holds the same layers as settings[i]. */
int32_t cost_first_same_layers(const struct cost_setting *settings, int32_t i);

/** Return the number of layers. */
int32_t cost_n_layers(const struct cost_setting *setting);

/** Return a setting with the layers of one run only: `setting` itself, if it has no other, or `room`. */
const struct cost_setting *cost_of_one_run(const struct cost_setting *setting, int32_t run, struct cost_setting *room);

/** Return the setting with the layers that recompute in full. */
struct cost_setting cost_setting_again(const struct cost_setting *setting);

/** Bytes of an element. reduced: of gradients that data-parallel collectives send. wire: of tensors that collectives of
 * activations send. main: of the main copy of the weights, 0 without one. shard: of what zero3 shards, the main copy or
 * the weights. moment: of each moment of Adam. */
struct cost_precisions {
    double weight, activation, gradient, reduced, wire, main, shard, moment;
};

static inline struct cost_precisions cost_precisions(const struct cost_setting *setting)
{
    double half = precision_bytes(PRECISION_BF16), fp32 = precision_bytes(PRECISION_FP32);
    double gradient = setting->gradients == SCENARIO_BF16 ? half : fp32;
    double reduced = setting->reduce_precision == SCENARIO_REDUCE_SAME   ? gradient
                     : setting->reduce_precision == SCENARIO_REDUCE_BF16 ? half
                                                                         : fp32;
    double main = setting->main_params == SCENARIO_MAIN_NONE   ? 0
                  : setting->main_params == SCENARIO_MAIN_FP16 ? half
                                                               : fp32;
    return (struct cost_precisions){.weight = half,
                                    .activation = half,
                                    .gradient = gradient,
                                    .reduced = reduced,
                                    .wire = half,
                                    .main = main,
                                    .shard = main > 0 ? main : half,
                                    .moment = setting->moments == SCENARIO_BF16 ? half : fp32};
}

/** Return the precision of the GEMMs of a kind of layer. */
static inline enum precision cost_kind_precision(const struct cost_setting *setting, int32_t kind)
{
    return model_kind_is_bf16(kind) ? PRECISION_BF16 : setting->precision;
}

/** Return whether a kind of layer sends tokens to experts in fp8. */
static inline bool cost_dispatches_fp8(const struct cost_setting *setting, int32_t kind)
{
    return setting->fp8_dispatch && cost_kind_precision(setting, kind) != PRECISION_BF16;
}

/** Return the bytes of an element that goes to experts. In fp8 each 128 elements have a scale in fp32 (DeepSeek-V3,
 * arXiv:2412.19437, section 3.3). */
static inline double cost_dispatched_bytes(const struct cost_setting *setting, int32_t kind)
{
    const double block = 128, scale = precision_bytes(PRECISION_FP32);
    return cost_dispatches_fp8(setting, kind) ? precision_bytes(PRECISION_FP8_BLOCK) + scale / block
                                              : precision_bytes(PRECISION_BF16);
}

/** Return whether a kind of the setting's layers has GEMMs in bf16, or in fp8. */
bool cost_has_gemms_in(const struct cost_setting *setting, bool fp8);

/** Return whether a tensor's scale is found in the tensor itself, which is read once more for it. */
static inline bool cost_scales_are_current(const struct cost_setting *setting)
{
    return setting->precision == PRECISION_FP8_TENSOR && setting->single & COST_SINGLE_AMAX;
}

/** Return the copies of an operand in fp8 that GEMMs need. Before compute capability 10 cuBLAS takes fp8 by rows only,
 * so a transposed copy is for the other pass. Blocks of a row or column have scales of their own, and so a copy each.
 */
static inline int32_t cost_fp8_copies(const struct cost_setting *setting)
{
    bool one = setting->precision == PRECISION_FP8_TENSOR && setting->device->compute_capability >= 10;
    return setting->precision == PRECISION_BF16 ? 0 : one ? 1 : 2;
}

/** Return the number of TP ranks that hold a copy of one head of keys and values. With kv_copies and fewer heads than
 * ranks each rank has one head, so it is TP over heads; otherwise 1. */
static inline int64_t cost_kv_copies(const struct cost_setting *setting, int32_t kind)
{
    int64_t heads = setting->model->kinds[kind].kv_heads;
    return setting->kv_copies && setting->tensor > heads ? setting->tensor / heads : 1;
}

/** Return the width of a token's keys on all TP ranks together, with their copies. */
static inline double cost_kv_columns(const struct cost_setting *setting, int32_t kind)
{
    return (double)(cost_kv_copies(setting, kind) * model_kv_width(setting->model, kind));
}

/** Return the width of a token's keys, and of its values, on one TP rank. */
static inline double cost_kv_width(const struct cost_setting *setting, int32_t kind)
{
    return cost_kv_columns(setting, kind) / setting->tensor;
}

/** Return the number of neighbouring ranks that together hold all experts once. */
static inline int32_t cost_expert_ranks(const struct cost_setting *setting)
{
    return setting->expert_ranks > 0 ? setting->expert_ranks : 1;
}

/** Return the number of ranks that split each expert. */
static inline int32_t cost_expert_tensor(const struct cost_setting *setting)
{
    return setting->expert_tensor > 0 ? setting->expert_tensor : 1;
}

/** Return the EP degree. */
static inline int32_t cost_ep(const struct cost_setting *setting)
{
    return cost_expert_ranks(setting) / cost_expert_tensor(setting);
}

/** Return the number of TP ranks that hold the same part of experts. It is above 1 if TP is more than the ranks that
 * hold all experts once. */
static inline int32_t cost_expert_peers(const struct cost_setting *setting)
{
    int32_t ranks = cost_expert_ranks(setting);
    return setting->tensor > ranks ? setting->tensor / ranks : 1;
}

/** Return the tokens of the busiest rank's experts over those of the mean rank. It is at most the number of
 * ranks that share experts. Experts drop what is above their capacity, and may be padded up to it. */
static inline double cost_expert_load(const struct cost_setting *setting)
{
    double imbalance = setting->expert_imbalance, most = cost_ep(setting);
    double load = imbalance < 1 ? 1 : imbalance < most ? imbalance : most;
    double capacity = setting->capacity_factor;
    return capacity > 0 && (capacity < load || setting->padded_capacity > 0) ? capacity : load;
}

/** Return the divisor of tensors outside the GEMMs: norms, residuals, dropouts. Sequence parallelism divides them. */
static inline int32_t cost_sequence_ranks(const struct cost_setting *setting)
{
    return setting->sequence_parallel ? setting->tensor : 1;
}

/** Return the hidden width of norms and residuals on a rank. */
static inline double cost_sequence_width(const struct cost_setting *setting)
{
    return (double)setting->model->hidden / cost_sequence_ranks(setting);
}

/** Return the rows of a rank's share of embedding and head. */
static inline double cost_logits(const struct cost_setting *setting)
{
    return model_vocabulary_share(setting->model, setting->tensor);
}

/** Return the logits of a token that a rank computes the loss of. */
static inline double cost_loss_logits(const struct cost_setting *setting)
{
    return setting->whole_logits ? cost_logits(setting) * setting->tensor : cost_logits(setting);
}

/** Return whether the loss is PyTorch's own, which has gradients in fp32. */
static inline bool cost_loss_is_torch(const struct cost_setting *setting)
{
    return setting->loss == SCENARIO_LOSS_TORCH ||
           (setting->loss == SCENARIO_LOSS_PASSES && setting->kernels == SCENARIO_EAGER);
}

/** Return whether the loss computes the head and its gradients in chunks of tokens. */
static inline bool cost_loss_is_chunked(const struct cost_setting *setting)
{
    return setting->loss == SCENARIO_LOSS_FUSED_LINEAR;
}

/** Return the chunks that a rank's tokens have if each has a power of two: logits of as many elements as the hidden
 * states. */
static inline double cost_loss_chunks(const struct cost_setting *setting)
{
    int64_t h = setting->model->hidden, chunks = ((int64_t)cost_logits(setting) + h - 1) / h;
    return (double)chunks;
}

/** Return the bytes that the loss keeps of a logit until the backward. */
static inline double cost_kept_logit_bytes(const struct cost_setting *setting)
{
    if (cost_loss_is_chunked(setting))
        return 0;
    bool full = setting->loss == SCENARIO_LOSS_PASSES || setting->loss == SCENARIO_LOSS_TORCH;
    return precision_bytes(full ? PRECISION_FP32 : PRECISION_BF16);
}

/** Return whether a rank gathers the inputs of GEMMs. */
static inline bool cost_gathers_inputs(const struct cost_setting *setting)
{
    return setting->tensor > 1 && setting->sequence_parallel;
}

/** Return whether passes reduce gradients (zero2, zero3 with one stage). Otherwise the end of the iteration does. */
static inline bool cost_shards_in_passes(const struct cost_setting *setting)
{
    return setting->sharding == SCENARIO_ZERO2 || (setting->sharding == SCENARIO_ZERO3 && !setting->staged);
}

/** Return whether ranks read and send shards by themselves and wait for no other in passes. */
static inline bool cost_shards_on_demand(const struct cost_setting *setting)
{
    return setting->on_demand_slowdown > 0;
}

/** Return whether ranks that share states each receive all of their gradients, and not a shard. */
static inline bool cost_all_reduces(const struct cost_setting *setting)
{
    return setting->gradient_reduction == SCENARIO_ALL_REDUCE && setting->sharding != SCENARIO_ZERO3;
}

/** Return the number of ranks that share states. It is 1 without sharding. */
static inline int32_t cost_shards(const struct cost_setting *setting)
{
    return scenario_n_shards(setting->sharding, setting->shard_group, setting->ranks);
}

/** Return the number of groups that each hold all states. */
static inline int32_t cost_shard_groups(const struct cost_setting *setting)
{
    return (int32_t)(setting->ranks / cost_shards(setting));
}

/** Return whether norms run as single operations: RMSNorms of a model with a gate. Others run PyTorch's LayerNorm. */
static inline bool cost_norm_is_single(const struct cost_setting *setting, int32_t kind)
{
    return setting->model->norm == MODEL_RMSNORM && model_kind_is_gated(&setting->model->kinds[kind]) &&
           setting->kernels != SCENARIO_COMPILED &&
           (setting->kernels == SCENARIO_EAGER || setting->single & COST_SINGLE_NORM);
}

#endif
