/* SPDX-License-Identifier: GPL-3.0-or-later */
/** A scenario is the user's request, resolved and checked. `slimsim list keys` prints its keys. */
#ifndef SLIMSIM_SCENARIO_SCENARIO_H
#define SLIMSIM_SCENARIO_SCENARIO_H

#include "document/schema.h"
#include "scenario/cache.h"
#include "scenario/device.h"
#include "scenario/faults.h"
#include "scenario/model.h"
#include "scenario/plan_space.h"
#include "scenario/platform.h"
#include "scenario/power.h"
#include "scenario/pressure.h"
#include "scenario/price.h"
#include "scenario/reliability.h"
#include "scenario/stages.h"

enum scenario_engine { SCENARIO_SIMGRID, SCENARIO_CRITICAL_PATH, SCENARIO_BOTH };
enum scenario_trace { SCENARIO_TRACE_NONE, SCENARIO_TRACE_SUMMARY, SCENARIO_TRACE_FULL };
enum scenario_long { SCENARIO_CUT, SCENARIO_DROP, SCENARIO_TRUNCATE };
/** The results that the backward pass computes again: the sum of a list's entries, or whole layers. */
enum recompute {
    RECOMPUTE_NONE = 0,
    RECOMPUTE_NORM = 1,            /* outputs of both norms */
    RECOMPUTE_ACTIVATION = 2,      /* output of SwiGLU or GELU */
    RECOMPUTE_SELECTIVE = 3,       /* both of these */
    RECOMPUTE_ATTENTION_CORE = 4,  /* everything between queries, keys, values and the projection's input */
    RECOMPUTE_ALTERNATE_GEMMS = 8, /* beside selective: every second GEMM of a layer (cost_activation_bytes) */
    RECOMPUTE_FULL = 16
};
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
/** Kernels of a framework's element-wise operations: fused kernels made for them, one kernel an operation
 * (cost/layer.h), or kernels that a compiler fuses. Only the first adds up weights' gradients in GEMMs
 * (cost_sum_bytes). */
enum scenario_kernels { SCENARIO_FUSED, SCENARIO_EAGER, SCENARIO_COMPILED };
/**
 * Cross-entropy:
 * - passes over fp32 logits (Megatron-LM's, PyTorch's own)
 * - one kernel on bf16 logits (flash-attention's)
 * - that kernel, and two metrics of training that compute it again by passes (MosaicML's Composer)
 */
enum scenario_loss { SCENARIO_LOSS_PASSES, SCENARIO_LOSS_FUSED, SCENARIO_LOSS_FUSED_METRICS };
/** SwiGLU as one kernel, or silu and then the product. The separate form also keeps silu(x). */
enum scenario_swiglu { SCENARIO_SWIGLU_FUSED, SCENARIO_SWIGLU_SEPARATE };
/** Precision of main gradients and of their reduction. */
enum scenario_gradients { SCENARIO_FP32, SCENARIO_BF16 };
/** The time when FSDP1 gathers the weights of the layer after the current one: when its backward starts, or when it
 * ends. */
enum scenario_prefetch { SCENARIO_BACKWARD_PRE, SCENARIO_BACKWARD_POST };
/** FSDP2's embedding, and its last norm with the head: gathered with the root, or each a unit of its own. */
enum scenario_ends { SCENARIO_ENDS_ROOT, SCENARIO_ENDS_OWN };
/** The time when memory holds main gradients: always, or only from the first backward to the optimizer's end. */
enum scenario_gradient_buffers { SCENARIO_GRADIENTS_KEPT, SCENARIO_GRADIENTS_FREED };
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

/** Names by enum recompute: "none", "norm", ... Entries are joined by +; norm+activation is "selective". */
extern const char *const scenario_recompute_name[RECOMPUTE_FULL + 1];

/** Return whether this recomputation has a model. alternate-gemms needs norm, activation, SwiGLU and no dropout. */
bool scenario_recompute_fits(int32_t recompute, const struct model *model);

struct scenario_data {
    char lengths[512];      /* name of a law or table in model/lengths, path of the user's file, "fixed", or a list of
                               lengths */
    char column[64];        /* column of a CSV file or name of an HDF5 data set; otherwise "" */
    double length_scale;    /* factor of the length of each document */
    int64_t context;        /* length of the longest sample [tokens] */
    int32_t long_documents; /* enum scenario_long */
    int64_t global_batch;   /* documents of one iteration, counted before any is cut; 0: global_batch_tokens counts */
    int64_t global_batch_tokens; /* least number of tokens of one iteration; 0: global_batch counts */
};

/**
 * Activations that may go to the host's memory:
 * - never: none
 * - plan: the share plan.offload of each unit's
 * - auto: as the system decides if it decides this itself; otherwise as plan
 */
enum scenario_offload { SCENARIO_OFFLOAD_NEVER, SCENARIO_OFFLOAD_PLAN, SCENARIO_OFFLOAD_AUTO };
#define SCENARIO_OFFLOAD "never|plan|auto"

/** Tensor-parallel collectives that run beside GEMMs: cost/overlap.h. */
enum scenario_tensor_overlap { SCENARIO_EXPOSED, SCENARIO_BULK, SCENARIO_CHUNKED };
/** Data-parallel transfers that run beside passes (dag/dag.h). Each value includes the one before. This follows
 * Megatron-LM, whose --overlap-param-gather needs --overlap-grad-reduce (megatron/training/arguments.py). */
enum scenario_data_overlap { SCENARIO_OVERLAP_NONE, SCENARIO_OVERLAP_GRADIENTS, SCENARIO_OVERLAP_BOTH };
/** A stage that sends to its neighbours waits, or goes on computing, or does so only with virtual stages. Megatron-LM's
 * overlap_p2p_comm needs virtual stages (megatron/training/arguments.py). */
enum scenario_stage_overlap { SCENARIO_STAGES_WAIT, SCENARIO_STAGES_OVERLAP, SCENARIO_STAGES_INTERLEAVED };
#define SCENARIO_STAGE_OVERLAP "false|true|interleaved"
/** Return whether data.lengths holds lengths themselves ("8Ki 4400"). Such a text begins with a digit and has no dot or
 * slash. */
bool scenario_lists_lengths(const struct scenario_data *data);

enum { SCENARIO_BATCH_BYTES = 64 };

/** Write what was asked for an iteration: "512 documents" or "at least 16777216 tokens". */
void scenario_batch_text(const struct scenario_data *data, char text[SCENARIO_BATCH_BYTES]);

/** Knobs of the overlap of communication and computation. They are stated with every result. */
struct scenario_communication {
    int32_t tp_overlap; /* enum scenario_tensor_overlap */
    bool cp_overlap;    /* the ring of keys and values runs beside attention */
    int32_t pp_overlap; /* enum scenario_stage_overlap */
    int32_t dp_overlap; /* enum scenario_data_overlap */
};

/** The layout that a user gives a system: `plan:`. If dp is 0, it follows from the platform. */
struct scenario_plan {
    int64_t tp, pp, cp, dp;
    int32_t cp_type;  /* enum scenario_context */
    int64_t vpp;      /* virtual stages (chunks) of a rank */
    int32_t schedule; /* enum scenario_schedule */
    int64_t slices;   /* slices of a micro-batch, with a schedule of slices; 0: the schedule's default */
    struct scenario_stages stages;
    int32_t sharding;         /* enum scenario_sharding */
    int64_t shard_group;      /* number of DP x CP ranks that share states; other groups hold the same; 0: all share */
    int64_t fsdp;             /* version of FSDP, 1 or 2, whose copies zero2 and zero3 make; 0 counts as 1 */
    int32_t fsdp_prefetch;    /* enum scenario_prefetch */
    int32_t fsdp_ends;        /* enum scenario_ends */
    int32_t gradients;        /* enum scenario_gradients */
    int32_t gradient_buffers; /* enum scenario_gradient_buffers */
    int32_t optimizer;        /* enum scenario_kernels: one kernel for Adam, or one for each operation */
    bool sequence_parallel;   /* applies to tensor parallelism */
    int32_t recompute;        /* enum recompute */
    int64_t recompute_layers; /* layers of a stage that recompute, with recompute full; 0: all */
    bool early_stop;          /* with recompute full, stop after the last tensor that the backward needs */
    int32_t offload_mode;     /* enum scenario_offload, the entry's key `offload` */
    double offload;           /* share of activations that goes to the host, 0..1 */
};

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

struct scenario_system {
    char name[64];
    char label[64];            /* name of the row; default: the system's name */
    struct scenario_plan plan; /* with plan: auto, only the framework's keys until a search has completed it */
    bool auto_plan;            /* `plan: auto`; the search that finds the plan turns it off */
    struct plan_space space;   /* space of plan: auto */
    int32_t knobs;             /* node of the mapping `knobs:` in the document, -1: none */
    int32_t node;              /* node of this entry, for messages */
};

struct scenario {
    struct document document; /* the file with its --set; holds the knobs */
    char name[64];
    char model_name[512], device_name[512], framework_name[512];
    struct model model;
    struct device device;
    struct platform platform;
    uint64_t model_hash, device_hash; /* hashes of their files */
    struct memory_pressure pressure;
    char power_name[512]; /* "": the one that the device names */
    struct power power;
    struct price price;
    struct scenario_data data;
    struct scenario_communication communication;
    int32_t attention; /* enum device_attention */
    /* with `attention: fastest`, seconds of each kernel that it was chosen from; otherwise 0 */
    double attention_s[DEVICE_N_CURVES];
    int32_t kernels;           /* enum scenario_kernels */
    int32_t loss;              /* enum scenario_loss */
    int32_t swiglu;            /* enum scenario_swiglu */
    int64_t warm_up, measured; /* iterations */
    int64_t seed;
    double memory_limit;   /* share of a GPU's memory that a plan may use; CUDA context and NCCL are subtracted first */
    int32_t engine;        /* enum scenario_engine */
    int32_t trace;         /* enum scenario_trace */
    bool all_tensor_ranks; /* simulate every TP rank instead of one for all */
    char simgrid_cfg[512]; /* options of SimGrid, KEY:VALUE separated by blanks; "": none */
    int32_t n_systems;
    struct scenario_system *systems;
    int32_t n_faults;
    struct fault *faults;
    struct reliability reliability; /* present only if the scenario has the key */
};

/**
 * Return the folder that holds model/ and platforms/. It is the environment's SLIMSIM_DATA, which the program sets
 * itself if it finds them. Otherwise it is the folder of the Debian package.
 */
const char *scenario_data_dir(void);

/**
 * Return the system with this label; -1: there is none.
 * @param where  name of the scenario for the message: "a.yaml"
 * @param err    says which labels there are; NULL: no message
 */
int32_t scenario_find_system(const struct scenario *scenario, const char *label, const char *where, struct error *err);

void scenario_free(struct scenario *scenario);

#endif
