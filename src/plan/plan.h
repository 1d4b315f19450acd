/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * A plan is what a training system decides for one global batch. The simulator needs only the plan.
 *
 * 1. A plan is a sequence of phases. A phase is a set of pipelines side by side.
 * 2. Each pipeline has its own layout, slices, forward and backward micro-batches, and one order of steps per stage.
 * 3. Objects refer to each other by index.
 *
 * It can express every system of the comparison:
 *
 * - one phase of equal pipelines (Megatron, WLB-LLM, DynaPipe, SlimPipe)
 * - slices cut twice (SlimPack)
 * - micro-batches that several pipelines share, with a context degree of their own (DP-Merge, ByteScale, dynamic CP)
 * - phases of pipelines with unequal layouts (FlexSP, HotSPa), and the re-sharding before them (HotSPa)
 * - context sharding, recompute and offload per micro-batch (WLB-LLM, ByteScale)
 * - attention that other ranks compute (SlimPipe, DistCA)
 * - documents that wait for a later iteration, and those that waited
 * - documents padded to the longest of their micro-batch, with attention on the padding
 *
 * It cannot express two pipelines on the same GPUs (Chimera). State sharding and the kind of context parallelism are in
 * scenario_plan (sharding, cp_type) and hold for all pipelines.
 */
#ifndef SLIMSIM_PLAN_PLAN_H
#define SLIMSIM_PLAN_PLAN_H

#include "cost/flop.h"
#include "cost/slice.h"
#include "scenario/scenario.h"

/** Formation of a MicroPack (SlimPack section 4.1): slices of one long sample; such slices with others; whole
 * samples only. */
enum plan_formation { PLAN_SLIM, PLAN_MIX, PLAN_PACK };

/** A micro-batch or MicroPack of one pass. */
struct plan_micro_batch {
    int32_t first_slice, n_slices; /* slices in its partition */
    int32_t padding_tokens;        /* tokens up to the micro-batch's fixed length; 0 without one */
    int32_t padding_of;            /* backward: forward micro-batch that has this padding */
    int32_t context;               /* CP degree: ranks that share each of its slices */
    int32_t group; /* index in plan.groups, the pipelines that run it together; -1: this pipeline only */
    enum slice_sharding sharding;
    enum plan_formation formation;
    enum recompute recompute;
    int32_t parts;  /* nano-batches of near-equal tokens in which its layers run one after the other; 0 is 1 */
    double offload; /* share of its activations that goes to the host on every stage (plan_offload) */
    bool streams;   /* activations go out and come back layer by layer while the passes run, so the rank never holds all
                       of them */
};

/** Slices in order, and the micro-batches that they form. */
struct plan_partition {
    int32_t n_slices, n_micro_batches;
    struct slice *slices;
    struct plan_micro_batch *micro_batches;
};

/** One pass of one micro-batch on one virtual stage (chunk) of a stage. PASS_WEIGHT has a backward micro-batch. */
struct plan_step {
    enum pass pass;
    int32_t micro_batch, chunk;
};

/** Ranks of a pipeline. The rank of (stage, context, tensor) is first_rank + stage x stage_stride + context x tensor
 * + tensor index. */
struct plan_layout {
    int32_t tensor, context, stages, chunks;
    int32_t first_rank, stage_stride; /* [GPUs] */
};

/** Features of SlimPack that a pipeline may use, as flags. Samples are cut, the backward pass is cut anew, and one
 * of three orders is used (plan/order.h). */
enum plan_feature {
    PLAN_SLICED = 1,
    PLAN_ASYMMETRIC = 2,
    PLAN_JUST_IN_TIME = 4,
    PLAN_PERSISTENT = 8,
    PLAN_LONG_WARM_UP = 16
};

struct plan_pipeline {
    struct plan_layout layout;
    struct plan_partition
        partition[N_PASSES]; /* by pass; a sample's backward slices are in the order in which they run */
    bool splits_backward;    /* backward steps leave the weights' gradients to steps of PASS_WEIGHT */
    int32_t *need; /* of each backward micro-batch: 1 + the last forward micro-batch that holds one of its samples */
    int32_t *step_first; /* [stages + 1] indices into steps */
    struct plan_step *steps;
    int32_t features; /* flags of enum plan_feature; 0: the system has no such choice */
    double *offload;  /* [virtual stages x forward micro-batches], replaces the micro-batches' own shares; NULL: those
                         hold */
};

/**
 * Return whether a pass waits for copies to the host, except those of micro-batches that stream: a backward does, and a
 * forward behind another one. It waits for the copies that had begun when the last such pass did (Megatron-Kwai,
 * megatron/core/pipeline_parallel/schedules.py).
 */
static inline bool plan_waits_for_copies(enum pass pass, bool behind_forward)
{
    return pass == PASS_BACKWARD || (pass == PASS_FORWARD && behind_forward);
}

/** Return whether a forward micro-batch's backward follows at once on the last virtual stage, as in 1F1B. */
bool plan_returns_at_once(const struct plan_pipeline *pipeline, int32_t micro_batch);

/** Return the share of a forward micro-batch's activations that goes to the host on a virtual stage (chunk x stages +
 * stage). Without a table nothing goes where its backward follows at once, as in Megatron-Kwai, unless it streams. */
static inline double plan_offload(const struct plan_pipeline *pipeline, int32_t micro_batch, int32_t stage)
{
    const struct plan_partition *partition = &pipeline->partition[PASS_FORWARD];
    if (pipeline->offload != NULL)
        return pipeline->offload[stage * partition->n_micro_batches + micro_batch];
    const struct plan_micro_batch *of = &partition->micro_batches[micro_batch];
    int32_t last = pipeline->layout.stages * pipeline->layout.chunks - 1;
    bool may_stay = of->offload > 0 && !of->streams && stage == last && stage > 0;
    return may_stay && plan_returns_at_once(pipeline, micro_batch) ? 0 : of->offload;
}

/** Pipelines of a phase that run micro-batches together as one context-parallel group. */
struct plan_group {
    int32_t n_pipelines;
    int32_t *pipelines; /* in ascending order */
};

/** Bytes moved from rank to rank before a phase starts. Each rank sends its own in the order of the phase's list. */
struct plan_reshard {
    int32_t from_rank, to_rank;
    double bytes;
};

/** A stage of a pipeline and the micro-batch that it runs; -1: it runs none. */
struct plan_place {
    int32_t pipeline, stage, micro_batch;
};

/**
 * Attention of a micro-batch on `from` that `to` computes: these queries against these keys. There are two forms.
 *
 * 1. share > 0: all queries of from's micro-batch attend there to `share` of their keys. The rest stays (SlimPipe).
 * 2. share 0: the queries of n_slices attend there to all their keys. `from` sends `keys` tokens of keys and values,
 *    each once to a rank, and may have keys only. If from is to, the attention stays. These blocks have all queries of
 *    a SLICE_PLACED micro-batch (DistCA). Blocks to a stage that runs nothing follow each other.
 */
struct plan_block {
    struct plan_place from, to;
    double share;
    int32_t first_slice, n_slices; /* in block_slices of the phase */
    int64_t keys;
};

/** Work of the same pass that hides the messages of blocks. */
enum plan_beside {
    BESIDE_ATTENTION, /* attention of other blocks */
    BESIDE_LINEAR,    /* everything else in the pass: nano-batches take turns */
    BESIDE_NOTHING
};

/** Passes whose attention goes by blocks. They run together: none ends before all of them have begun. Chunks are 1. */
struct plan_attention {
    enum pass pass;
    enum plan_beside beside;
    int32_t first_block, n_blocks;
};

struct plan_phase {
    int32_t n_pipelines, n_groups, n_reshards, n_attentions, n_blocks, n_block_slices;
    int32_t shards; /* replaces plan.shards if layouts of phases differ; 0: plan.shards holds */
    struct plan_pipeline *pipelines;
    struct plan_group *groups;
    struct plan_reshard *reshards;
    struct plan_attention *attentions;
    struct plan_block *blocks;
    struct slice *block_slices;
};

struct plan {
    int32_t n_phases;
    int32_t shards; /* ranks over which states are sharded: scenario_plan_shards */
    struct plan_phase *phases;
    int64_t n_candidates;   /* candidates that the system considered */
    int64_t n_resolved;     /* candidates resolved by critical path and memory timeline; bounds ruled out the others */
    int64_t n_nodes;        /* nodes of its branch and bound; 0 without one */
    double gap;             /* largest gap that branch and bound left when its nodes were used up; 0: none */
    int64_t delayed_tokens; /* tokens x iterations that they wait */
    int32_t n_delayed;      /* samples of this batch that wait for a later iteration */
    int32_t *delayed;       /* these samples, in ascending order */
    int32_t n_carried; /* samples of earlier batches that run now; slices number them from the batch's n_samples on */
    int32_t *carried_tokens; /* tokens of each of them */
    int32_t n_padded;        /* samples of the batch whose slices run on over padding, which counts as their tokens do;
                                all or 0 */
    int32_t *real_tokens;    /* tokens of each of them without its padding */
};

/** Return the global rank of a position in a pipeline. */
static inline int32_t plan_rank(const struct plan_layout *layout, int32_t stage, int32_t context, int32_t tensor)
{
    return layout->first_rank + stage * layout->stage_stride + context * layout->tensor + tensor;
}

/** Append an attention without blocks, a block to the latest attention, or a slice to the latest block. */
void plan_add_attention(struct plan_phase *phase, enum pass pass, enum plan_beside beside);
void plan_add_block(struct plan_phase *phase, struct plan_place from, struct plan_place to, double share);
void plan_add_block_slice(struct plan_phase *phase, struct slice slice);

static inline bool plan_same_place(struct plan_place a, struct plan_place b)
{
    return a.pipeline == b.pipeline && a.stage == b.stage && a.micro_batch == b.micro_batch;
}

/** Return the partition whose micro-batches a pass runs. */
static inline const struct plan_partition *plan_partition_of(const struct plan_pipeline *pipeline, enum pass pass)
{
    return &pipeline->partition[pass == PASS_FORWARD ? PASS_FORWARD : PASS_BACKWARD];
}

/** Return the end of the passes of a pipeline's steps, which begin at PASS_FORWARD. */
static inline enum pass plan_n_passes(const struct plan_pipeline *pipeline)
{
    return pipeline->splits_backward ? N_STEP_PASSES : N_PASSES;
}

/**
 * Append a slice, or a micro-batch that takes all slices appended since the last micro-batch. Arrays grow by doubling.
 *
 * A micro-batch starts with context 1, group -1, its own number as padding_of, and 0 in all other fields. The pointer
 * holds until the next micro-batch is added.
 */
void plan_add_slice(struct plan_partition *partition, struct slice slice);
struct plan_micro_batch *plan_add_micro_batch(struct plan_partition *partition);

/** Return the next micro-batch of a group from `index` on; n_micro_batches: none. */
int32_t plan_next_of_group(const struct plan_partition *partition, int32_t index, int32_t group);

/** Return the tokens of a micro-batch before division by its context degree, without padding. */
int64_t plan_micro_batch_tokens(const struct plan_partition *partition, int32_t micro_batch);

/** Return the tokens that run: all n_tokens of the batch, less those of delayed samples, plus those of carried ones.
 * tokens: of each sample of the batch. */
int64_t plan_tokens(const struct plan *plan, int64_t n_tokens, const int32_t *tokens);

/** Return the padding in the forward slices of padded samples. @return 0 if no sample is padded */
int64_t plan_padded_tokens(const struct plan *plan);

/** Return whether any activations of a pipeline may go to the host. */
bool plan_offloads(const struct plan_pipeline *pipeline);

/** Fill need[] from the two partitions. Padding needs its forward micro-batch in the same way as tokens do. */
void plan_fill_need(struct plan_pipeline *pipeline);

/** Make an exact copy that shares nothing. */
void plan_copy(const struct plan *plan, struct plan *copy);

/** Free all that they own, and reset them. */
void plan_pipeline_free(struct plan_pipeline *pipeline);
void plan_phase_free(struct plan_phase *phase);
void plan_free(struct plan *plan);

#endif
