/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * Inside this module a plan and its costs become tasks and dependencies, which both engines run.
 *
 *  1. Tasks are numbered in topological order; predecessors are in CSR arrays. A longest path is one loop over them.
 *  2. A task runs on a stream, as on a GPU. A stream runs its tasks one after the other.
 *  3. Each (phase, pipeline, stage, context rank) has a rank, numbered in that order. A rank represents all its TP
 *     ranks; with `all_tensor_ranks` each TP rank has a rank of its own. SYNCs run on their first participant's
 *     streams.
 *  4. Pass with CP 1: one COMPUTE. With CP > 1: COMPUTE, then ATTENTION, and beside ATTENTION the ring. The ring is a
 *     SYNC of all ranks, a SEND from each to the next, a SYNC. A pass ends when ATTENTION and ring have ended.
 *  5. Between stages: a SEND of the boundary, or an edge if no bytes move. Offload: a SEND to the host and one back.
 *  6. zero2 and zero3: a SYNC of all ranks behind each pass with collectives. Without fold_equal their bytes are SENDs
 *     beside the pass (dag/joins.h).
 *  7. Between phases: SYNC, SENDs that re-shard, SYNC.
 *  8. The end, for each stage and tensor rank: reduce-scatter of gradients, SYNC of all stages (gradient norm),
 *     OPTIMIZER, all-gather of parameters.
 *
 * More is in docs/model/simulation.md, "The task graph": rings and rails, split backwards, attention by blocks,
 * offload, dp_overlap, sharding and faults.
 */
#ifndef SLIMSIM_DAG_DAG_H
#define SLIMSIM_DAG_DAG_H

#include "cost/blocks.h"
#include "cost/communication.h"
#include "cost/pass.h"
#include "dag/relations.h"
#include "plan/plan.h"

enum dag_kind { DAG_COMPUTE, DAG_ATTENTION, DAG_SEND, DAG_SYNC, DAG_OPTIMIZER, DAG_N_KINDS };

/** The kind of work that a SEND or SYNC belongs to. */
enum dag_purpose {
    DAG_PASS,           /* of COMPUTE and ATTENTION */
    DAG_BOUNDARY,       /* activations or gradients between stages */
    DAG_RING,           /* context parallelism */
    DAG_TENSOR,         /* tensor parallelism */
    DAG_EXCHANGE,       /* attention by blocks: what other ranks compute */
    DAG_REDUCE_SCATTER, /* gradients */
    DAG_ALL_GATHER,     /* parameters */
    DAG_ALL_REDUCE,     /* gradients that several ranks hold: those of shard groups, and of tied embeddings */
    DAG_SHARDS,         /* parameters and gradients in the passes of zero2 and zero3 */
    DAG_RESHARD,        /* before a phase */
    DAG_OFFLOAD,        /* device to host */
    DAG_PREFETCH,       /* host to device */
    DAG_EXPERTS,        /* tokens to their experts in other NVLink domains, and back */
    DAG_N_PURPOSES
};

enum dag_edge {
    DAG_INTER_STAGE, /* boundaries; on the last stage from a forward micro-batch to the backward micro-batch of the same
                        tokens */
    DAG_INTER_SLICE, /* from the slice whose keys and values, or whose gradients of these, are needed */
    /*
     * on the last stage from each forward micro-batch to a backward micro-batch that consumes its tokens, if their
     * tokens differ. Micro-batches with other slices of its samples follow from inter-slice edges. Also copies to and
     * from the host
     */
    DAG_INTER_PASS,
    DAG_SCHEDULE,   /* order on a stream; two tasks keep the first kind of this list that holds */
    DAG_COLLECTIVE, /* into and out of rings and barriers */
    DAG_N_EDGES
};

/** Names in traces and exports, DAG_N_KINDS, DAG_N_PURPOSES and DAG_N_EDGES of them. */
extern const char *const dag_kind_name[], *const dag_purpose_name[], *const dag_edge_name[];

enum dag_stream {
    DAG_STREAM_COMPUTE,
    DAG_STREAM_SEND_FORWARD,
    DAG_STREAM_SEND_BACKWARD,
    DAG_STREAM_COLLECTIVE,
    DAG_STREAM_RAIL,   /* bytes of a collective between NVLink domains, beside those inside them */
    DAG_STREAM_SHARDS, /* the same two of what runs beside kernels: collectives of zero2 and zero3, and blocks */
    DAG_STREAM_SHARD_RAIL,
    DAG_STREAM_TO_HOST,
    DAG_STREAM_FROM_HOST,
    DAG_N_STREAMS
};

struct dag_task {
    uint8_t kind, purpose, pass;   /* enum dag_kind, dag_purpose, pass */
    uint8_t chunk;                 /* virtual stage = chunk x stages + stage */
    int16_t phase, stage;          /* stage: of the pipeline */
    int32_t pipeline, micro_batch; /* micro-batch: micro-batch of the pass; -1: none */
    int32_t dag_rank;              /* index into ranks */
    /*
     * rank x DAG_N_STREAMS + enum dag_stream. A re-sharding's SEND runs on a stream of its GPU: (n_ranks + from_rank) x
     * DAG_N_STREAMS + COLLECTIVE inside NVLink domains, RAIL between them
     */
    int32_t stream;
    /* GPUs of a SEND; to_rank -1: host memory of from_rank's node (offload); from_rank -1 for prefetch */
    int32_t from_rank, to_rank;
    double latency_s, wire_bytes; /* of a SEND */
};

struct dag_rank {
    int16_t phase, stage;
    int32_t pipeline, context, tensor; /* indices inside the pipeline */
    int32_t rank;                      /* first GPU that the rank represents */
    /* number of GPUs that the rank represents: its whole TP group, or 1 with all_tensor_ranks */
    int32_t n_gpus;
    int32_t representative; /* rank whose passes represent those of this one; itself without fold_equal */
    int32_t n_represented;  /* ranks that its passes represent; 0: it has a representative */
};

enum { DAG_MAX_KINDS = SCENARIO_MOST_STAGE_KINDS + 2 };

/**
 * Kinds of virtual stages of a layout. They differ by their layers, the embedding on the first one, the head on
 * the last one.
 */
struct dag_kinds {
    int32_t n;
    int32_t stage[DAG_MAX_KINDS]; /* the first virtual stage of each kind, ascending; the last kind has the head */
    uint8_t *kind;                /* of each virtual stage; owned */
};

/** A pipeline of the plan: relations of its micro-batches, and costs of its passes. */
struct dag_pipe {
    struct dag_kinds kinds; /* of the pipeline's virtual stages */
    struct relations relations;
    struct cost_pass *cost[N_STEP_PASSES]; /* [micro-batch x kinds + kind]; PASS_WEIGHT: NULL unless it is split off */
    int32_t representative;                /* pipeline that holds all this for it; itself without fold_equal */
};

/** The capacity of a graph's arrays, so that the next graph reuses them. */
struct dag_room {
    int32_t tasks, edges, streams;
    int32_t *mark; /* while building, of each task: its newest out-edge */
};

struct dag {
    int32_t n_tasks, n_ranks, n_edges;
    /* GPUs with streams of their own for re-sharding, because a rank may represent several; 0: none */
    int32_t n_senders;
    struct dag_task *tasks;
    /* without contention; a vector of its own, so that other durations can be tried on the same graph */
    double *duration_s;
    int32_t *in_first; /* [n_tasks + 1] into in_task, in_kind */
    int32_t *in_task;  /* predecessor, always a smaller number */
    uint8_t *in_kind;  /* enum dag_edge */
    struct dag_rank *ranks;
    const struct faults *faults; /* faults that its durations include, NULL: none; borrowed from the setting */
    int32_t *stream_first;       /* of each stream: its first task, -1: none */
    int32_t *stream_next;        /* of each task: the next one of its stream, -1: none */
    int32_t n_pipes;
    struct dag_pipe *pipes; /* of all phases */
    int32_t *first_pipe;    /* of each phase */
    struct dag_room room;
};

/** Return the number of streams: those of ranks come first, then those of senders. */
static inline int32_t dag_n_streams(const struct dag *dag)
{
    return (dag->n_ranks + dag->n_senders) * DAG_N_STREAMS;
}

struct dag_options {
    bool all_tensor_ranks;
    bool gradient_sync; /* reduce-scatter, optimizer, all-gather; off if candidates of one pipeline are compared */
    /*
     * only the first of equal pipelines, and of equal context ranks (dag/equal_pipelines.h), gets tasks for its passes.
     * Gradients and parameters of all get tasks. Tasks start and finish at the same times. The critical path and
     * bounds/ without events of memory need no more. Sums over ranks may round differently. It has no effect on graphs
     * with faults, groups, blocks, several phases or all_tensor_ranks
     */
    bool fold_equal;
};

/**
 * Build the graph of a plan. `setting` holds model, device, platform and overlaps; each layout gives TP degree and
 * layers. If orders of the plan wait for each other in a circle, the error names a task in it.
 */
bool dag_build(const struct plan *plan, const struct cost_setting *setting, struct dag_options options, struct dag *dag,
               struct error *err);

/** Build a graph in the arrays of the graph that `dag` held, or in {0}. After an error `dag` is {0}. */
bool dag_rebuild(const struct plan *plan, const struct cost_setting *setting, struct dag_options options,
                 struct dag *dag, struct error *err);

/**
 * Return the seconds of a pass on one rank and their parts, as dag_build uses them. The first virtual stage (chunk x
 * stages + stage) includes the embedding, the last one the head. A split backward excludes the gradients of weights.
 */
struct cost_pass dag_pass_cost(const struct plan_pipeline *pipeline, const struct cost_setting *setting, enum pass pass,
                               int32_t micro_batch, int32_t stage);

/** Seconds that are left for the passes of a kind of virtual stage. */
struct dag_budget {
    int32_t kind;
    double left_s;             /* after those that are known, and the least seconds of the others */
    double *least_s[N_PASSES]; /* [micro-batches] */
};

/**
 * Fill in cost_pass_s of all micro-batches on each kind of virtual stage.
 * @param seconds  [micro-batch x kinds + kind]
 * @param budget   the costs known so far replace their least seconds; NULL: there is no limit
 * @return         false: nothing is left, and the rest was not filled in
 */
bool dag_passes_s(const struct plan_pipeline *pipeline, const struct cost_setting *setting,
                  const struct dag_kinds *kinds, enum pass pass, struct dag_budget *budget, double *seconds);

/**
 * Return the seconds of all micro-batches' passes on one virtual stage, summed in the order of micro-batches [s]. The
 * sum stops once it exceeds limit_s.
 */
double dag_stage_s(const struct plan_pipeline *pipeline, const struct cost_setting *setting, enum pass pass,
                   int32_t stage, double limit_s);

/** Return whether equal passes may cost different GPUs something else. Then dag_gpu_pass_cost gives the cost. */
static inline bool dag_differs_by_gpu(const struct cost_setting *setting)
{
    return setting->faults != NULL || setting->jitter != NULL || setting->replay != NULL;
}

/** Return dag_pass_cost on a GPU with its factors in setting->faults and setting->jitter. With setting->replay its
 * seconds are those of the pipeline's DP rank there. */
struct cost_pass dag_gpu_pass_cost(const struct plan_pipeline *pipeline, const struct cost_setting *setting,
                                   enum pass pass, int32_t micro_batch, int32_t stage, int32_t gpu);

/** Return `setting` with the layout's TP degree and the layers of one of its virtual stages. */
struct cost_setting dag_setting(const struct cost_setting *setting, const struct plan_layout *layout, int32_t stage);

struct dag_kinds dag_kinds_of(const struct cost_setting *setting, const struct plan_layout *layout);

/** Return `setting` with the layout's TP degree and the layers of all chunks of a stage. */
struct cost_setting dag_rank_setting(const struct cost_setting *setting, const struct plan_layout *layout,
                                     int32_t stage);

/** Return whether two pipelines have the same stages, and the same passes on as many tokens in the same order. */
bool dag_same_passes(const struct plan_pipeline *a, const struct plan_pipeline *b);

/** Return the parameters of one TP rank of a stage of the pipeline, of all its chunks. */
double dag_stage_parameters(const struct cost_setting *setting, const struct plan_layout *layout, int32_t stage);

/** Return a micro-batch of a pipeline as cost/ takes it; it borrows the slices. */
struct cost_micro_batch dag_micro_batch(const struct plan_pipeline *pipeline, enum pass pass, int32_t micro_batch);

/** Return the bytes of a block of a pass's attention. */
struct cost_block dag_block_cost(const struct plan_phase *phase, enum pass pass, const struct plan_block *block,
                                 const struct cost_setting *setting);

/**
 * Return the seconds of all attention that a place computes: what stays of its own and what it takes [s]. Slices are
 * packed into one kernel a layer, for all stages that have the same layers.
 */
double dag_blocks_s(const struct plan_phase *phase, const struct plan_attention *attention, struct plan_place place,
                    const struct cost_setting *setting);

/** Bytes that a token of a forward micro-batch holds on a rank of a virtual stage until its backward. */
struct dag_token {
    /*
     * divided by the micro-batch's context degree; excludes keys and values that recomputation keeps for later slices
     * only (MEMORY_KV). Scores of unfused attention are spread over the micro-batch's tokens
     */
    double held;
    double kept;     /* share of held, not divided: keys and values of a sliced sample, which later slices read */
    int32_t context; /* context degree of the micro-batch */
};

/** Return whether a micro-batch's token equals that of the micro-batch before. Scores that are kept differ by
 * micro-batch. */
bool dag_has_same_token(const struct plan_pipeline *pipeline, const struct cost_setting *stage_setting,
                        int32_t micro_batch);

/** Return the bytes of a micro-batch's token. @param stage_setting  dag_setting of the stage */
struct dag_token dag_token_of(const struct plan_pipeline *pipeline, const struct cost_setting *stage_setting,
                              int32_t micro_batch);

/**
 * Return the activations of `tokens` tokens that can go to the host [bytes]. The kept share of `sliced` of them cannot.
 * plan_offload says which share of these goes.
 */
static inline double dag_offloadable_of_tokens(const struct dag_token *token, int64_t tokens, int64_t sliced)
{
    return (double)tokens * token->held - (double)sliced * token->kept / token->context;
}

/** Return dag_offloadable_of_tokens for tokens of a forward micro-batch [bytes]. */
double dag_offloadable_bytes(const struct plan_pipeline *pipeline, const struct cost_setting *stage_setting,
                             int32_t micro_batch, int64_t tokens, int64_t sliced);

void dag_free(struct dag *dag);

#endif
