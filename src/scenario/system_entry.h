/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module reads the entries of `systems:`: a training system with its plan, or the space in which one is searched.
 */
#ifndef SLIMSIM_SCENARIO_SYSTEM_ENTRY_H
#define SLIMSIM_SCENARIO_SYSTEM_ENTRY_H

#include "document/schema.h"
#include "scenario/model.h"
#include "scenario/plan_space.h"
#include "scenario/stages.h"

/** The results that the backward pass computes again: the sum of a list's entries, or whole layers. */
enum recompute {
    RECOMPUTE_NONE = 0,
    RECOMPUTE_NORM = 1,            /* outputs of both norms */
    RECOMPUTE_ACTIVATION = 2,      /* output of SwiGLU or GELU of dense blocks and shared experts */
    RECOMPUTE_SELECTIVE = 3,       /* both of these, a level of the search */
    RECOMPUTE_ATTENTION_CORE = 4,  /* everything between queries, keys, values and the projection's input */
    RECOMPUTE_ALTERNATE_GEMMS = 8, /* beside both: every second GEMM of a layer (cost_activation_bytes) */
    RECOMPUTE_MLA_UP_PROJ = 16,    /* queries, keys and values of latent attention */
    RECOMPUTE_MOE_ACT = 32,        /* output of the routed experts' activation */
    RECOMPUTE_MLP = 64,            /* dense feed-forward blocks */
    RECOMPUTE_MOE = 128,           /* blocks of experts, with router, shared experts and all-to-alls */
    RECOMPUTE_FULL = 256,
    RECOMPUTE_REFUSED = 512 /* `selective` in a framework without the word: layout_check refuses it */
};
/** Entries of a list in this order, separated by |, and all values that are allowed. */
#define SCENARIO_RECOMPUTE "norm|activation|attention-core|alternate-gemms|mla-up-proj|moe-act|mlp|moe"
#define SCENARIO_RECOMPUTE_ALLOWED                                                                                     \
    "none, full, or a list of norm, activation, attention-core, alternate-gemms, mla-up-proj, moe-act, mlp, moe"
/**
 * The states that the DP x CP ranks share:
 * - zero1: optimizer states (Megatron's distributed optimizer)
 * - zero2: also gradients
 * - zero3: also parameters (FSDP)
 * - unsharded: nothing (DDP)
 *
 * Source: Rajbhandari et al. 2020 (arXiv:1910.02054), stages 1 to 3, and 0.
 */
enum scenario_sharding { SCENARIO_ZERO1, SCENARIO_ZERO2, SCENARIO_ZERO3, SCENARIO_UNSHARDED };
/**
 * The way in which ranks of zero3 exchange shards:
 * - collective: all ranks join each gather and each reduction
 * - on-demand: a rank reads what it needs from the owners, and sends them what it has (ODC)
 */
enum scenario_shard_communication { SCENARIO_COLLECTIVE, SCENARIO_ON_DEMAND };
/** Kernels of a framework's element-wise operations: fused kernels made for them, one kernel an operation
 * (cost/layer.h), or kernels that a compiler fuses. */
enum scenario_kernels { SCENARIO_FUSED, SCENARIO_EAGER, SCENARIO_COMPILED };
/** Precision of main gradients and of their reduction. */
enum scenario_gradients { SCENARIO_FP32, SCENARIO_BF16 };
/** Collective that reduces gradients with zero1 and zero2: each rank receives its shard, or all of them. */
enum scenario_reduction { SCENARIO_REDUCE_SCATTER, SCENARIO_ALL_REDUCE };
/** Precision in which gradients are sent: their own, or another. */
enum scenario_reduce_precision { SCENARIO_REDUCE_SAME, SCENARIO_REDUCE_BF16, SCENARIO_REDUCE_FP32 };
/** The time when FSDP1 gathers the weights of the layer after the current one: when its backward starts, or when it
 * ends. */
enum scenario_prefetch { SCENARIO_BACKWARD_PRE, SCENARIO_BACKWARD_POST };
/** FSDP2's embedding, and its last norm with the head: gathered with the root, or each a unit of its own. */
enum scenario_ends { SCENARIO_ENDS_ROOT, SCENARIO_ENDS_OWN };
/** The time when memory holds main gradients: always, or only from the first backward to the optimizer's end.
 * Placeholders: always, and a tensor of each shape of a weight. */
enum scenario_gradient_buffers { SCENARIO_GRADIENTS_KEPT, SCENARIO_GRADIENTS_FREED, SCENARIO_GRADIENTS_PLACEHOLDERS };
/** Whether FSDP frees gathered parameters behind a forward. By default it does with one stage only (torchtitan). */
enum scenario_reshard { SCENARIO_RESHARD_DEFAULT, SCENARIO_RESHARD_ALWAYS, SCENARIO_RESHARD_NEVER };
/** Precision of the main copy of the parameters, which the optimizer updates. fp16 also is Megatron-LM's 16-bit
 * remainders of fp32. With none it updates the bf16 parameters themselves. */
enum scenario_main_params { SCENARIO_MAIN_FP32, SCENARIO_MAIN_FP16, SCENARIO_MAIN_NONE };
/** Order of a pipeline's passes: plan/schedule.h. */
enum scenario_schedule {
    SCENARIO_ONE_F_ONE_B,
    SCENARIO_INTERLEAVED,
    SCENARIO_GPIPE,
    SCENARIO_ZERO_BUBBLE,
    SCENARIO_SEQ1F1B,
    SCENARIO_TERAPIPE,
    SCENARIO_N_SCHEDULES
};
/** Names of the schedules in this order, separated by |. */
#define SCENARIO_SCHEDULES "1f1b|interleaved|gpipe|zero-bubble|seq1f1b|terapipe"
/** Choices of plan.cp_type in the order of the enumeration. cost/context.h says how each exchanges keys and values. */
#define SCENARIO_CONTEXT "ring|all-gather|ulysses|ring-contiguous"
enum scenario_context { SCENARIO_RING, SCENARIO_ALL_GATHER, SCENARIO_ULYSSES, SCENARIO_RING_CONTIGUOUS };

/** Return whether keys and values go round a ring of either kind. */
static inline bool scenario_is_ring(int32_t cp_type)
{
    return cp_type == SCENARIO_RING || cp_type == SCENARIO_RING_CONTIGUOUS;
}

/** Names by enum recompute: "none", "norm", ... Entries are joined by +. */
extern const char *const scenario_recompute_name[RECOMPUTE_FULL + 1];

/**
 * Return why a model cannot recompute so, and what is allowed. NULL: it can.
 *
 * 1. alternate-gemms needs norm, activation, and a dense model with SwiGLU and no dropout.
 * 2. mla-up-proj needs latent attention, moe-act and moe need experts, mlp needs dense layers.
 */
const char *scenario_recompute_misfit(int32_t recompute, const struct model *model);

/**
 * Activations that may go to the host's memory:
 * - never: none
 * - plan: the share plan.offload of each unit's
 * - auto: as the system decides if it decides this itself; otherwise as plan
 */
enum scenario_offload { SCENARIO_OFFLOAD_NEVER, SCENARIO_OFFLOAD_PLAN, SCENARIO_OFFLOAD_AUTO };
#define SCENARIO_OFFLOAD "never|plan|auto"

/** Plans that a system may use: those that fit surely, or also those that fit tightly (plan/request.h). */
enum scenario_fits { SCENARIO_FITS_SURE, SCENARIO_FITS_TIGHT };
#define SCENARIO_FITS "sure|tight"

/** The layout that a user gives a system: `plan:`. If dp is 0, it follows from the platform. */
struct scenario_plan {
    int64_t tp, pp, cp, dp;
    int64_t ep;             /* ranks of TP x CP x DP of a stage that share its experts out */
    int64_t etp;            /* neighbouring TP ranks that split each expert */
    double capacity_factor; /* tokens of an expert over their mean above which it drops tokens; 0: it drops none */
    int32_t cp_type;        /* enum scenario_context */
    int64_t vpp;            /* virtual stages (chunks) of a rank */
    int32_t schedule;       /* enum scenario_schedule */
    int64_t slices;         /* slices of a micro-batch, with a schedule of slices; 0: the schedule's default */
    struct scenario_stages stages;
    int32_t sharding;            /* enum scenario_sharding */
    int32_t shard_communication; /* enum scenario_shard_communication, with zero3 */
    int64_t shard_group;   /* number of DP x CP ranks that share states; other groups hold the same; 0: all share */
    int64_t fsdp;          /* version of FSDP, 1 or 2, whose copies zero2 and zero3 make; 0 counts as 1 */
    int32_t fsdp_prefetch; /* enum scenario_prefetch */
    int32_t fsdp_ends;     /* enum scenario_ends */
    int32_t reshard_after_forward; /* enum scenario_reshard, with zero3 */
    int32_t gradients;             /* enum scenario_gradients */
    int32_t gradient_reduction;    /* enum scenario_reduction */
    int32_t reduce_precision;      /* enum scenario_reduce_precision */
    int32_t gradient_buffers;      /* enum scenario_gradient_buffers */
    int64_t reduce_bucket;         /* elements of DeepSpeed's buffer of gradients; 0: none */
    bool gradient_copy;            /* the optimizer flattens its share of bf16 gradients and converts it to fp32 */
    int32_t optimizer;             /* enum scenario_kernels: one kernel for Adam, or one for each operation */
    int32_t main_params;           /* enum scenario_main_params */
    int32_t moments;               /* enum scenario_gradients: precision of both moments of Adam */
    double optimizer_offload;      /* share of the optimizer's states and step that is the host's, 0..1 */
    bool sequence_parallel;        /* applies to tensor parallelism */
    bool kv_copies;                /* several ranks may hold one head of keys and values */
    int32_t recompute;             /* enum recompute */
    int64_t recompute_layers;      /* layers of a stage that recompute, with recompute full; 0: all */
    bool pad_to_capacity;          /* with capacity_factor, experts compute padding up to it */
    bool early_stop;               /* with recompute full, stop after the last tensor that the backward needs */
    int32_t offload_mode;          /* enum scenario_offload, the entry's key `offload` */
    double offload;                /* share of activations that goes to the host, 0..1 */
    int32_t fits;                  /* enum scenario_fits, the entry's key `fits` */
};

/** Return the number of neighbouring ranks that together hold all experts once: EP times TP of experts. */
static inline int64_t scenario_expert_ranks(const struct scenario_plan *plan)
{
    return plan->ep * (plan->etp > 1 ? plan->etp : 1);
}

/** Return the number of `ranks` DP x CP ranks that share states, and so hold them together. It is 1 without sharding.
 */
static inline int32_t scenario_n_shards(int32_t sharding, int64_t shard_group, int64_t ranks)
{
    if (sharding == SCENARIO_UNSHARDED)
        return 1;
    return (int32_t)(shard_group > 0 ? shard_group : ranks);
}

/** Return scenario_n_shards of a plan. */
static inline int32_t scenario_plan_shards(const struct scenario_plan *plan)
{
    return scenario_n_shards(plan->sharding, plan->shard_group, plan->dp * plan->cp);
}

/** Return the number of groups that each hold all states. It is 1 if all DP x CP ranks share. */
static inline int32_t scenario_plan_shard_groups(const struct scenario_plan *plan)
{
    return (int32_t)(plan->dp * plan->cp / scenario_plan_shards(plan));
}

/** A plan that fits only tightly, and how much faster it is than the plan. */
struct scenario_tight {
    struct scenario_plan plan;
    double faster_by; /* share; 0: there is none */
};

struct scenario_system {
    char name[64];
    char label[64];              /* name of the row; default: the system's name */
    struct scenario_plan plan;   /* with plan: auto, only the framework's keys until a search has completed it */
    struct scenario_tight tight; /* the best plan that fits tightly, if the search found one that is faster */
    bool auto_plan;              /* `plan: auto`; the search that finds the plan turns it off */
    struct plan_space space;     /* space of plan: auto */
    int32_t knobs;               /* node of the mapping `knobs:` in the document, -1: none */
    int32_t node;                /* node of this entry, for messages */
};

/** Keys of an entry that the user gives. */
enum { SYSTEM_ENTRY_N_KEYS = 45 };
extern const struct schema_key system_entry_keys[SYSTEM_ENTRY_N_KEYS];

/** It holds what the scenario's framework says of its systems. */
struct system_entry_defaults {
    const struct schema_key *keys; /* system_entry_keys with the framework's defaults */
    int32_t selective;             /* enum recompute: meaning of the word; none: the framework has no such word */
};

/**
 * Read the entries of `systems:` and check their labels and spaces.
 * @param entries  the caller frees them, also after a failure
 */
bool system_entries_read(const struct document *document, const struct system_entry_defaults *defaults,
                         const char *data_dir, struct scenario_system **entries, int32_t *n_entries, struct error *err);

/** Write the entries as `systems:` of a resolved scenario. The document holds their knobs. */
void system_entries_write(FILE *file, const struct document *document, const struct scenario_system *entries,
                          int32_t n_entries);

#endif
