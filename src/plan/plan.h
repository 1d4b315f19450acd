/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * What a training system decides for one global batch, and all the simulator needs to know of it.
 *
 * A plan is a sequence of phases; a phase is a set of pipelines side by side, each with its own
 * layout, slices, forward and backward units and one order of steps per stage. Objects refer to
 * each other by index.
 *
 * It carries every system of the comparison: one phase of equal pipelines (Megatron, WLB-LLM,
 * DynaPipe, SlimPipe); slices cut twice (SlimPack); units that several pipelines share with a
 * context degree of their own (DP-Merge, ByteScale, dynamic CP); phases of pipelines with unequal
 * layouts (FlexSP, HotSPa) and the re-sharding before them (HotSPa); context sharding, recompute
 * and offload per unit (WLB-LLM, ByteScale); documents that wait for a later iteration, and those that waited (delay).
 *
 * It does not carry: what states are sharded and how context parallelism works (scenario_plan's sharding and
 * cp_type hold for all pipelines), two pipelines on the same GPUs (Chimera). A field for each comes with the
 * system that needs it.
 */
#ifndef SLIMSIM_PLAN_PLAN_H
#define SLIMSIM_PLAN_PLAN_H

#include "cost/flop.h"
#include "cost/slice.h"
#include "scenario/scenario.h"

/** How a MicroPack was formed (SlimPack section 4.1): slices of one long sample; such with others; whole samples only.
 */
enum plan_formation { PLAN_SLIM, PLAN_MIX, PLAN_PACK };

/** A micro-batch or MicroPack of one pass. */
struct plan_unit {
    int32_t first_slice, n_slices; /* in the cut it belongs to */
    int32_t padding_tokens;        /* up to the unit's fixed length, 0 without one */
    int32_t padding_of;            /* backward: the forward unit whose padding it is */
    int32_t context;               /* CP degree: ranks that share every slice of it */
    int32_t group;                 /* plan.groups: pipelines that run it together; -1: this pipeline alone */
    enum slice_sharding sharding;
    enum plan_formation formation;
    enum recompute recompute;
    double offload; /* share of its activations that goes to the host on every stage (plan_offload) */
    bool streams;   /* it goes and comes back layer by layer while the passes run: the rank never holds it whole */
};

/** Slices in order, and the units they fall into. */
struct plan_cut {
    int32_t n_slices, n_units;
    struct slice *slices;
    struct plan_unit *units;
};

/** One pass of one unit on one virtual stage (chunk) of a stage. PASS_WEIGHT: of a backward unit. */
struct plan_step {
    enum pass pass;
    int32_t unit, chunk;
};

/** Where a pipeline lives: rank of (stage, context, tensor) = first_rank + stage x stage_stride + context x tensor +
 * tensor index. */
struct plan_layout {
    int32_t tensor, context, stages, chunks;
    int32_t first_rank, stage_stride; /* [GPUs] */
};

/**
 * Attention that another stage computes (SlimPipe's context exchange): `share` of that of from_unit on from_stage,
 * beside the attention of to_unit on to_stage, in the same pass. Passes of one set run together: none ends before all
 * of the set have begun. Chunks are 1.
 */
struct plan_exchange {
    enum pass pass;
    int32_t set; /* ascending from 0 */
    int32_t from_stage, from_unit, to_stage, to_unit;
    double share;
};

/** Parts of SlimPack that a pipeline may use or leave, as flags: its samples are cut, the backward pass is cut anew,
 * and one of three orders (plan/order.h). */
enum plan_part {
    PLAN_SLICED = 1,
    PLAN_ASYMMETRIC = 2,
    PLAN_JUST_IN_TIME = 4,
    PLAN_PERSISTENT = 8,
    PLAN_LONG_WARM_UP = 16
};

struct plan_pipeline {
    struct plan_layout layout;
    struct plan_cut cut[N_PASSES]; /* by pass; a sample's backward slices stand in the order they run */
    bool splits_backward;          /* backward steps leave the weights' gradients to steps of PASS_WEIGHT */
    int32_t *need;                 /* of each backward unit: 1 + the last forward unit that holds one of its samples */
    int32_t *step_first;           /* [stages + 1] into steps */
    struct plan_step *steps;
    int32_t n_exchanges;
    struct plan_exchange *exchanges;
    int32_t parts;   /* enum plan_part; 0: the system has no such choice */
    double *offload; /* [virtual stages x forward units] in place of the units' own shares; NULL: those hold */
};

/** Share of a forward unit's activations that goes to the host on a virtual stage (chunk x stages + stage). */
static inline double plan_offload(const struct plan_pipeline *pipeline, int32_t unit, int32_t stage)
{
    const struct plan_cut *cut = &pipeline->cut[PASS_FORWARD];
    return pipeline->offload != NULL ? pipeline->offload[stage * cut->n_units + unit] : cut->units[unit].offload;
}

/** Pipelines of a phase that run units together as one context-parallel group. */
struct plan_group {
    int32_t n_pipelines;
    int32_t *pipelines; /* ascending */
};

/** Bytes moved from rank to rank before a phase starts; each rank sends its own in the order of the phase's list. */
struct plan_reshard {
    int32_t from_rank, to_rank;
    double bytes;
};

struct plan_phase {
    int32_t n_pipelines, n_groups, n_reshards;
    int32_t shards; /* in place of plan.shards, where layouts of phases differ; 0: that */
    struct plan_pipeline *pipelines;
    struct plan_group *groups;
    struct plan_reshard *reshards;
};

struct plan {
    int32_t n_phases;
    int32_t shards; /* ranks over which states are sharded: scenario_plan_shards */
    struct plan_phase *phases;
    int64_t n_candidates;   /* the system weighed */
    int64_t n_resolved;     /* of these, by critical path and memory timeline; the others were ruled out by bounds */
    int64_t n_nodes;        /* of its branch and bound, 0 without one */
    double gap;             /* the largest that branch and bound left when its nodes were spent, 0: none */
    int64_t delayed_tokens; /* x iterations they wait */
    int32_t n_delayed;      /* samples of this batch that wait for a later iteration */
    int32_t *delayed;       /* which, ascending */
    int32_t n_carried; /* samples of earlier batches that run now: slices number them from the batch's n_samples on */
    int32_t *carried_tokens; /* of each */
};

/** Global rank of a place of a pipeline. */
static inline int32_t plan_rank(const struct plan_layout *layout, int32_t stage, int32_t context, int32_t tensor)
{
    return layout->first_rank + stage * layout->stage_stride + context * layout->tensor + tensor;
}

/** Append an exchange. */
void plan_add_exchange(struct plan_pipeline *pipeline, struct plan_exchange exchange);

/** The cut whose units a pass runs. */
static inline const struct plan_cut *plan_cut_of(const struct plan_pipeline *pipeline, enum pass pass)
{
    return &pipeline->cut[pass == PASS_FORWARD ? PASS_FORWARD : PASS_BACKWARD];
}

/** Passes of a pipeline's steps: from PASS_FORWARD to below this. */
static inline enum pass plan_n_passes(const struct plan_pipeline *pipeline)
{
    return pipeline->splits_backward ? N_STEP_PASSES : N_PASSES;
}

/**
 * Append a slice, and a unit that takes all slices appended since the last unit; amortised growth is inside. The unit
 * starts with context 1, group -1, its own number as padding_of and all else 0; the pointer holds until the next one is
 * added.
 */
void plan_add_slice(struct plan_cut *cut, struct slice slice);
struct plan_unit *plan_add_unit(struct plan_cut *cut);

/** Tokens of a unit before division by its context degree, without padding. */
int64_t plan_unit_tokens(const struct plan_cut *cut, int32_t unit);

/** Tokens that run: of all the batch's n_tokens but those of delayed samples, and of carried ones. tokens: of each
 * sample of the batch. */
int64_t plan_tokens(const struct plan *plan, int64_t n_tokens, const int32_t *tokens);

/** Whether anything of a pipeline may go to the host. */
bool plan_offloads(const struct plan_pipeline *pipeline);

/** Fill need[] from the two cuts: padding needs its forward unit as tokens do theirs. */
void plan_fill_need(struct plan_pipeline *pipeline);

/** An exact copy, sharing nothing. */
void plan_copy(const struct plan *plan, struct plan *copy);

/** Free what they own and reset them. */
void plan_pipeline_free(struct plan_pipeline *pipeline);
void plan_phase_free(struct plan_phase *phase);
void plan_free(struct plan *plan);

#endif
