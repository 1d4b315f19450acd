/* SPDX-License-Identifier: GPL-3.0-or-later */
/** What the user asked for, resolved and checked. `slimsim list keys` prints the keys. */
#ifndef SLIMSIM_SCENARIO_SCENARIO_H
#define SLIMSIM_SCENARIO_SCENARIO_H

#include "scenario/cache.h"
#include "scenario/device.h"
#include "scenario/faults.h"
#include "scenario/model.h"
#include "scenario/plan_space.h"
#include "scenario/platform.h"
#include "scenario/pressure.h"
#include "scenario/schema.h"
#include "scenario/stages.h"

enum scenario_engine { SCENARIO_SIMGRID, SCENARIO_CRITICAL_PATH, SCENARIO_BOTH };
enum scenario_trace { SCENARIO_TRACE_NONE, SCENARIO_TRACE_SUMMARY, SCENARIO_TRACE_FULL };
enum scenario_long { SCENARIO_CUT, SCENARIO_DROP, SCENARIO_TRUNCATE };
/** What the backward computes again: the sum of a list's entries, or whole layers. */
enum recompute {
    RECOMPUTE_NONE = 0,
    RECOMPUTE_NORM = 1,            /* outputs of both norms */
    RECOMPUTE_ACTIVATION = 2,      /* output of SwiGLU or GELU */
    RECOMPUTE_SELECTIVE = 3,       /* both of these */
    RECOMPUTE_ATTENTION_CORE = 4,  /* all between queries, keys, values and the projection's input */
    RECOMPUTE_ALTERNATE_GEMMS = 8, /* beside selective: of every second GEMM of a layer (cost_activation_bytes) */
    RECOMPUTE_FULL = 16
};
/** What the DP x CP ranks share: optimizer states (Megatron's distributed optimizer); and gradients; and parameters
 * (FSDP); nothing (DDP). Source: Rajbhandari et al. 2020 (arXiv:1910.02054), stages 1 to 3, and 0. */
enum scenario_sharding { SCENARIO_ZERO1, SCENARIO_ZERO2, SCENARIO_ZERO3, SCENARIO_UNSHARDED };
/** How a framework runs element-wise operations: as kernels made for them, one by one (cost/eager.h), or as a compiler
 * fuses them; weights' gradients are added up in GEMMs by the first alone (cost_sum_bytes). */
enum scenario_kernels { SCENARIO_FUSED, SCENARIO_EAGER, SCENARIO_COMPILED };
/** Cross-entropy: passes over fp32 logits (Megatron-LM's, PyTorch's own); one kernel on bf16 logits
 * (flash-attention's); and two metrics of training that compute it again by passes (MosaicML's Composer). */
enum scenario_loss { SCENARIO_LOSS_PASSES, SCENARIO_LOSS_FUSED, SCENARIO_LOSS_FUSED_METRICS };
/** SwiGLU as one kernel, or silu and product one after the other: then silu(x) is kept, too. */
enum scenario_swiglu { SCENARIO_SWIGLU_FUSED, SCENARIO_SWIGLU_SEPARATE };
/** Precision of main gradients and of their reduction. */
enum scenario_gradients { SCENARIO_FP32, SCENARIO_BF16 };
/** When FSDP1 gathers the weights of the layer behind the one in work: as its backward starts, or ends. */
enum scenario_prefetch { SCENARIO_BACKWARD_PRE, SCENARIO_BACKWARD_POST };
/** FSDP2's embedding, and last norm with head: with the root, or each a unit of its own. */
enum scenario_ends { SCENARIO_ENDS_ROOT, SCENARIO_ENDS_OWN };
/** Whether main gradients stand in memory all the time, or from the first backward to the optimizer's end alone. */
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
/** Their names in this order, separated by |. */
#define SCENARIO_SCHEDULES "1f1b|interleaved|gpipe|zero-bubble|seq1f1b|terapipe"
/** How the ranks of a context-parallel group see each other's keys and values: cost/context.h. */
/** plan.cp_type, the choices in the order of the enumeration. */
#define SCENARIO_CONTEXT "ring|all-gather|ulysses|ring-contiguous"
enum scenario_context { SCENARIO_RING, SCENARIO_ALL_GATHER, SCENARIO_ULYSSES, SCENARIO_RING_CONTIGUOUS };

/** Whether keys and values go round: in a ring of either kind. */
static inline bool scenario_is_ring(int32_t cp_type)
{
    return cp_type == SCENARIO_RING || cp_type == SCENARIO_RING_CONTIGUOUS;
}

/** "none", "norm", ... by enum recompute: entries are joined by +; norm+activation is "selective". */
extern const char *const scenario_recompute_name[RECOMPUTE_FULL + 1];

/** Whether there is a model of it: alternate-gemms stands beside norm and activation, with SwiGLU and no dropout. */
bool scenario_recompute_fits(int32_t recompute, const struct model *model);

struct scenario_data {
    char lengths[512];      /* name of a law or table in model/lengths, a path of the user's file, "fixed", or listed */
    char column[64];        /* column of a CSV file or name of an HDF5 data set; "" otherwise */
    int64_t context;        /* longest sample [tokens] */
    int32_t long_documents; /* enum scenario_long */
    int64_t global_batch;   /* documents of one iteration, before cutting */
};

/** Tensor-parallel collectives beside GEMMs: cost/overlap.h. */
enum scenario_tensor_overlap { SCENARIO_EXPOSED, SCENARIO_BULK, SCENARIO_CHUNKED };
/** What moves beside passes among the DP x CP ranks, each with what the one before has: dag/dag.h. As in Megatron-LM,
 * whose --overlap-param-gather needs --overlap-grad-reduce (megatron/training/arguments.py). */
enum scenario_data_overlap { SCENARIO_OVERLAP_NONE, SCENARIO_OVERLAP_GRADIENTS, SCENARIO_OVERLAP_BOTH };
/** Whether data.lengths holds lengths themselves ("8Ki 4400"): it begins with a digit and has no dot or slash. */
bool scenario_lists_lengths(const struct scenario_data *data);

/** Knobs of how communication and computation share time; stated with every result. */
struct scenario_communication {
    int32_t tp_overlap; /* enum scenario_tensor_overlap */
    bool cp_overlap;    /* ring of keys and values runs beside attention */
    bool pp_overlap;    /* a stage computes on while it sends to its neighbours */
    int32_t dp_overlap; /* enum scenario_data_overlap */
};

/** The layout a user gives a system: `plan:`. dp follows from the platform when it is 0. */
struct scenario_plan {
    int64_t tp, pp, cp, dp;
    int32_t cp_type;  /* enum scenario_context */
    int64_t vpp;      /* virtual stages (chunks) of a rank */
    int32_t schedule; /* enum scenario_schedule */
    int64_t slices;   /* of a micro-batch, with a schedule of slices; 0: the schedule's own number */
    struct scenario_stages stages;
    int32_t sharding;         /* enum scenario_sharding */
    int64_t shard_group;      /* so many of the DP x CP ranks share, and other groups hold the same; 0: all share */
    int64_t fsdp;             /* with zero2 and zero3: 1 or 2, whose copies they do; 0 counts as 1 */
    int32_t fsdp_prefetch;    /* enum scenario_prefetch */
    int32_t fsdp_ends;        /* enum scenario_ends */
    int32_t gradients;        /* enum scenario_gradients */
    int32_t gradient_buffers; /* enum scenario_gradient_buffers */
    int32_t optimizer;        /* enum scenario_kernels: one kernel for all of Adam, or one for each operation */
    bool sequence_parallel;   /* with tensor parallelism */
    int32_t recompute;        /* enum recompute */
    int64_t recompute_layers; /* of a stage, with recompute full: so many recompute; 0: all */
    bool early_stop;          /* with recompute full: not what follows the last tensor that the backward needs */
    double offload;           /* share of activations that goes to the host, 0..1 */
};

/** DP x CP ranks that share states, and so hold them all together: 1 without sharding. */
static inline int32_t scenario_plan_shards(const struct scenario_plan *plan)
{
    if (plan->sharding == SCENARIO_UNSHARDED)
        return 1;
    return (int32_t)(plan->shard_group > 0 ? plan->shard_group : plan->dp * plan->cp);
}

/** Groups of so many ranks, which all hold the same: 1 where all DP x CP ranks share. */
static inline int32_t scenario_plan_shard_groups(const struct scenario_plan *plan)
{
    if (plan->sharding != SCENARIO_UNSHARDED && plan->shard_group == 0)
        return 1;
    return (int32_t)(plan->dp * plan->cp / scenario_plan_shards(plan));
}

struct scenario_system {
    char name[64];
    char label[64];            /* names the row; the system's name by default */
    struct scenario_plan plan; /* plan: auto: the framework's keys alone until a search has filled it in */
    bool auto_plan;            /* `plan: auto`; the search that decides turns it off */
    struct plan_space space;   /* of plan: auto */
    int32_t knobs;             /* node of the mapping `knobs:` in the document, -1: none */
    int32_t node;              /* node of this entry, for messages */
};

struct scenario {
    struct document document; /* as read and --set; holds the knobs */
    char name[64];
    char model_name[512], device_name[512], framework_name[512];
    struct model model;
    struct device device;
    struct platform platform;
    uint64_t model_hash, device_hash; /* of their files */
    struct memory_pressure pressure;
    struct scenario_data data;
    struct scenario_communication communication;
    int32_t attention;         /* enum device_attention */
    int32_t kernels;           /* enum scenario_kernels */
    int32_t loss;              /* enum scenario_loss */
    int32_t swiglu;            /* enum scenario_swiglu */
    int64_t warm_up, measured; /* iterations */
    int64_t seed;
    double memory_limit;   /* share of a GPU's memory, less CUDA context and NCCL, that a plan may use */
    int32_t engine;        /* enum scenario_engine */
    int32_t trace;         /* enum scenario_trace */
    bool all_tensor_ranks; /* simulate every TP rank, not one for all */
    char simgrid_cfg[512]; /* options of SimGrid, KEY:VALUE separated by blanks; "": none */
    int32_t n_systems;
    struct scenario_system *systems;
    int32_t n_faults;
    struct fault *faults;
};

/** The folder that holds model/ and platforms/: the environment's SLIMSIM_DATA, which an installed program sets itself,
 * or else as compiled in. */
const char *scenario_data_dir(void);

void scenario_free(struct scenario *scenario);

#endif
