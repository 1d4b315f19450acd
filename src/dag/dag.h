/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * A plan and its costs as tasks and dependencies: what both engines run.
 *
 * Tasks are numbered in topological order at construction, and their predecessors are in CSR arrays, so a longest path
 * is one loop over arrays. A task runs on a stream, as on a GPU: a stream runs its tasks one after the other.
 *
 * PLACES. One for each (phase, pipeline, stage, context rank), numbered in that order. A dag_rank stands for all TP
 * ranks together; with `all_tensor_ranks` each TP rank has a dag_rank of its own.
 *
 * PASS of a unit on a dag_rank. SYNCs stand on the collective stream of their first member.
 *   - CP 1: one task, COMPUTE.
 *   - CP > 1: COMPUTE (GEMMs and the rest), then ATTENTION, which waits for its own COMPUTE only. Beside ATTENTION runs
 *     the ring: SYNC of all ranks, a SEND from each to the next, SYNC. The pass ends when both have ended.
 *   - cp_overlap off: the ring runs before ATTENTION. With cp_type all-gather and ulysses the collectives of
 *     cost/context.h run before ATTENTION, too. Where all nodes have as many of the ranks, what goes between nodes is
 *     SENDs of all layers' bytes by the ranks' own NICs: an all-to-all sends to the counterparts on all other nodes one
 *     after the other, a gather to the counterpart on the next node. Alone on their links these take the collectives'
 *     seconds. Everything else is SENDs to the next rank that take these seconds.
 *   - A unit of a group has the context ranks of all the group's pipelines in one ring.
 *   - all_tensor_ranks: the exposed collectives of TP are such a ring between COMPUTE and ATTENTION. It takes as long
 *     as they take inside COMPUTE otherwise.
 *
 * RINGS. CP's ring is point-to-point, as Megatron-LM's default: a member sends all to the next, so one NIC carries a
 * whole member's bytes from node to node. Gradients and parameters over several nodes, with k > 1 members on that with
 * fewest, go as by NCCL's rails: 1/k of each member's bytes to the next node, by the NICs of k members, the rest to its
 * neighbour inside the node, at the same time.
 *
 * SPLIT BACKWARD. The gradients of weights are a COMPUTE of their own, after the pass of their unit on the same
 * dag_rank. Nothing but the end of the iteration waits for them.
 *
 * EXCHANGED ATTENTION (plan_exchange). For each pass of a set COMPUTE; then a SYNC of the set; then ATTENTION, without
 * what is given away and with what is taken on; then a SYNC. Beside ATTENTION (cp_overlap off: before and behind it)
 * run a SEND of queries, keys and values, and one back (cost_of_exchange). The passes of a set end when all have ended.
 *
 * BETWEEN STAGES. A SEND of the boundary; a plain edge where there are no bytes, and between chunks on one GPU.
 * pp_overlap off: the sender's next pass waits for it, as in Megatron-LM without virtual stages
 * (core/pipeline_parallel/schedules.py: sends are waited for). That a send also waits until its receiver asks for it is
 * left out.
 *
 * OFFLOAD. A SEND to the host after the forward, and one back before the backward unit that consumes the tokens. The
 * copy back waits until the pass before that backward on the dag_rank has begun and, but on the last virtual stage,
 * until that backward has begun on the virtual stage behind. Of a unit that streams, both copies start with their
 * passes, and the next pass of the dag_rank (behind the last pass: the gradients) waits for the copy back: a copy that
 * takes longer than its pass is exposed there.
 *
 * PHASES. SYNC after all of the one before, SENDs that re-shard, SYNC. A GPU sends inside its node and by its NIC at
 * the same time, on each route one message after the other in the plan's order.
 *
 * END OF THE ITERATION, for each stage and tensor rank:
 *   - reduce-scatter ring of its DP x CP ranks (4 bytes a gradient, bf16 2), SYNC of all stages (gradient norm),
 *     OPTIMIZER on 1/(DP x CP) of the parameters, all-gather ring (2 bytes a parameter). Each ring's bytes are those
 *     that leave a rank, (n-1)/n of the whole;
 *   - groups of ranks that share states (scenario_plan_shard_groups m > 1): both rings and the OPTIMIZER's share are
 *     those of a group. After the reduce-scatter the m ranks that hold the same shard all-reduce it, 2 (m-1)/m of it
 *     each. Without sharding (groups of one) only this all-reduce is left;
 *   - tied embeddings on two stages: first and last stage all-reduce the whole table's gradients, rank by rank, after
 *     the reductions of their stages (Megatron-Core, finalize_model_grads); this is never hidden.
 *
 * DP_OVERLAP gradients, as Megatron-LM's overlap_grad_reduce. A chunk's gradients are reduced in buckets of max(40e6,
 * 1e6 x ranks) parameters (core/distributed), chunk after chunk, each from its last backward (weights') pass on. They
 * are hidden by what lies behind that pass on the stage, and by the other stages' cool-down: in the graph each stage's
 * ring starts when the stage is done. With T the seconds of one of C chunks' buckets alone, chunks numbered from the
 * one that ends last, W_i the stage's passes from the last backward of chunk i to the end, b one bucket:
 *
 *     exposed = max(b + (C T - b) loss, max over i of (i T - W_i + (C - i) T loss))
 *
 * loss: the share of a collective's time that the passes beside it lose (overlap_loss of the first unit's passes,
 * cost/overlap.h; with groups, the mean over collectives inside and across groups by their time). Chunks that show
 * anyway slow no pass down: the passes end before they do, as in overlap_beside_s. Each replica that has passes has an
 * exposed time of its own, from its own end on: before the ring stands a SYNC of the seconds by which it exceeds the
 * least of all. So a replica that ends early and hides little may be done by the time the last one ends. Replicas
 * without passes have gradients of zeros, which wait for the others.
 *
 * DP_OVERLAP both, as with overlap_param_gather beside it: parameters are gathered likewise from the front, with W_i
 * the passes up to the first forward of the i-th chunk; the longest of the replicas counts. What dp_overlap does not
 * name is one exposed collective of all parameters.
 *
 * SHARDING zero2 and zero3. What a pass gathers and reduces stays inside COMPUTE, as TP's collectives do (cost/cost.h),
 * so SimGrid sees neither its traffic nor its contention. Of the rings above zero2 has the all-gather, zero3 none.
 *
 * FAULTS (cost_setting.faults). A slow GPU's kernels take its factor times as long, and hide more of the collectives
 * beside them: were all GPUs, NVLinks and NICs k times as slow, all but latencies would take k times as long. A SEND
 * takes the larger factor of its two ends' links times as long, but for its latency; this is exact for a SEND alone on
 * its links, and SimGrid shares them. Collectives inside passes (TP, zero2, zero3, CP's all-gather and ulysses) cost
 * what they do on links as slow as the slowest of their group, those of zero2 and zero3 as the slowest of all GPUs.
 * What slower collectives no longer hide shows. TP's collectives show beside kernels as slow as the group's slowest.
 */
#ifndef SLIMSIM_DAG_DAG_H
#define SLIMSIM_DAG_DAG_H

#include "cost/cost.h"
#include "dag/relations.h"
#include "plan/plan.h"

enum dag_kind { DAG_COMPUTE, DAG_ATTENTION, DAG_SEND, DAG_SYNC, DAG_OPTIMIZER, DAG_N_KINDS };

/** What a SEND or SYNC belongs to. */
enum dag_purpose {
    DAG_PASS,           /* of COMPUTE and ATTENTION */
    DAG_BOUNDARY,       /* activations or gradients between stages */
    DAG_RING,           /* context parallelism */
    DAG_TENSOR,         /* tensor parallelism */
    DAG_EXCHANGE,       /* attention that another stage computes */
    DAG_REDUCE_SCATTER, /* gradients */
    DAG_ALL_GATHER,     /* parameters */
    DAG_ALL_REDUCE,     /* gradients that several ranks hold: of groups that share apart, and of tied embeddings */
    DAG_RESHARD,        /* before a phase */
    DAG_OFFLOAD,        /* device to host */
    DAG_PREFETCH,       /* host to device */
    DAG_N_PURPOSES
};

enum dag_edge {
    DAG_INTER_STAGE, /* boundaries; on the last stage from a forward unit to the backward unit of the same tokens */
    DAG_INTER_SLICE, /* keys and values of earlier slices; gradients of theirs from later slices */
    DAG_INTER_PASS,  /* on the last stage a backward unit after each forward unit whose tokens it consumes (those that
                        hold other slices of its samples follow from inter-slice edges); copies to and from the host */
    DAG_SCHEDULE,    /* order on a stream; between two tasks the first kind of this list that holds is kept */
    DAG_COLLECTIVE,  /* into and out of rings and barriers */
    DAG_N_EDGES
};

/** As traces and exports spell them: DAG_N_KINDS, DAG_N_PURPOSES, DAG_N_EDGES. */
extern const char *const dag_kind_name[], *const dag_purpose_name[], *const dag_edge_name[];

enum dag_stream {
    DAG_STREAM_COMPUTE,
    DAG_STREAM_SEND_FORWARD,
    DAG_STREAM_SEND_BACKWARD,
    DAG_STREAM_COLLECTIVE,
    DAG_STREAM_RAIL, /* the part of a collective that goes between nodes, beside the part inside them */
    DAG_STREAM_TO_HOST,
    DAG_STREAM_FROM_HOST,
    DAG_N_STREAMS
};

struct dag_task {
    uint8_t kind, purpose, pass; /* enum dag_kind, dag_purpose, pass */
    uint8_t chunk;               /* virtual stage = chunk x stages + stage */
    int16_t phase, stage;        /* stage: of the pipeline */
    int32_t pipeline, unit;      /* unit of the pass's cut; -1: none */
    int32_t dag_rank;            /* index into ranks */
    int32_t stream;              /* dag_rank x DAG_N_STREAMS + enum dag_stream; of a re-sharding's SEND that of its GPU,
                                    (n_ranks + from_rank) x DAG_N_STREAMS + COLLECTIVE inside nodes or RAIL */
    int32_t from_rank, to_rank;  /* GPUs of a SEND; to_rank -1: the host's memory of from_rank's node (offload),
                                    from_rank -1 for prefetch */
    double latency_s, wire_bytes; /* of a SEND */
};

struct dag_rank {
    int16_t phase, stage;
    int32_t pipeline, context, tensor; /* indices inside the pipeline */
    int32_t rank;                      /* GPU, the first of those that it stands for */
    int32_t n_gpus;                    /* that it stands for: all of its TP group, or 1 where each is a dag_rank */
    int32_t representative;            /* the dag_rank whose passes stand for its own; itself without fold_equal */
    int32_t n_represented; /* ranks that its passes stand for; 0: those of its representative stand for it */
};

enum { DAG_MAX_KINDS = 6 };

/** Virtual stages of a layout by what they compute: so many layers, the first one with the embedding, the last one
 * with the head. */
struct dag_kinds {
    int32_t n;
    int32_t stage[DAG_MAX_KINDS]; /* the first virtual stage of each kind, ascending: the last kind has the head */
    uint8_t *kind;                /* of each virtual stage; owned */
};

/** A pipeline of the plan: how its units depend on each other, and what its passes cost. */
struct dag_pipe {
    struct dag_kinds kinds; /* of its virtual stages */
    struct relations relations;
    struct cost_pass *cost[N_STEP_PASSES]; /* [unit x kinds + kind]; PASS_WEIGHT: NULL unless it is split off */
    int32_t representative;                /* the pipe that has all this for it; itself without fold_equal */
};

/** What the arrays of a graph have room for, so that the next one is built in them. */
struct dag_room {
    int32_t tasks, edges, streams;
    int32_t *mark; /* while building, of each task: its newest out-edge */
};

struct dag {
    int32_t n_tasks, n_ranks, n_edges;
    int32_t n_senders; /* GPUs with streams of their own for re-sharding: one dag_rank may stand for several. 0: none */
    struct dag_task *tasks;
    double *duration_s; /* without contention; a vector of its own so that others can be tried on the same graph */
    int32_t *in_first;  /* [n_tasks + 1] into in_task, in_kind */
    int32_t *in_task;   /* predecessor, always a smaller number */
    uint8_t *in_kind;   /* enum dag_edge */
    struct dag_rank *ranks;
    const struct faults *faults; /* that its durations are of, NULL: none; borrowed from the setting */
    int32_t *stream_first;       /* of each stream: its first task, -1: none */
    int32_t *stream_next;        /* of each task: the next one of its stream, -1: none */
    int32_t n_pipes;
    struct dag_pipe *pipes; /* of all phases */
    int32_t *first_pipe;    /* of each phase */
    struct dag_room room;
};

/** Of ranks, then of senders. */
static inline int32_t dag_n_streams(const struct dag *dag)
{
    return (dag->n_ranks + dag->n_senders) * DAG_N_STREAMS;
}

/** Graphs of up to so many passes of units on ranks are built without fold_equal. */
enum { DAG_FOLD_PASSES = 1 << 17 };

struct dag_options {
    bool all_tensor_ranks;
    bool gradient_sync; /* reduce-scatter, optimizer, all-gather; off while candidates of one pipeline are weighed */
    bool fold_equal;    /* of equal pipelines, and equal context ranks (dag/equal_pipelines.h), only the first gets
                           tasks for its passes; all get those of gradients and parameters. Tasks start and finish at the
                           same times, which is all that the critical path and bounds/ (without events of memory) need;
                           sums over ranks may round differently. Has no effect on graphs of up to DAG_FOLD_PASSES, and
                           with faults, groups, exchanges, several phases or all_tensor_ranks */
};

/**
 * Build the graph of a plan. `setting` holds model, device, platform and overlaps; TP degree and layers come from each
 * layout. A plan whose orders wait for each other in a circle is an error naming a task in it.
 */
bool dag_build(const struct plan *plan, const struct cost_setting *setting, struct dag_options options, struct dag *dag,
               struct error *err);

/** The same in the arrays of the graph that `dag` held, or {0}; after an error it is {0}. */
bool dag_rebuild(const struct plan *plan, const struct cost_setting *setting, struct dag_options options,
                 struct dag *dag, struct error *err);

/** Seconds of a pass on one dag_rank and what it is made of: as dag_build uses them, the embedding included on the
 * first virtual stage (chunk x stages + stage), the head on the last; a split backward without the gradients of its
 * weights. */
struct cost_pass dag_pass_cost(const struct plan_pipeline *pipeline, const struct cost_setting *setting, enum pass pass,
                               int32_t unit, int32_t stage);

/** cost_pass_s of dag_pass_cost of all units on each kind of virtual stage. @param seconds  [unit x kinds + kind] */
void dag_passes_s(const struct plan_pipeline *pipeline, const struct cost_setting *setting,
                  const struct dag_kinds *kinds, enum pass pass, double *seconds);

/** Their sum on one virtual stage, in the order of units; once it exceeds enough_s, what has been summed up [s]. */
double dag_stage_s(const struct plan_pipeline *pipeline, const struct cost_setting *setting, enum pass pass,
                   int32_t stage, double enough_s);

/** The same on the dag_rank of a GPU, slow as setting->faults say it is. */
struct cost_pass dag_gpu_pass_cost(const struct plan_pipeline *pipeline, const struct cost_setting *setting,
                                   enum pass pass, int32_t unit, int32_t stage, int32_t gpu);

/** `setting` with the layout's TP degree and the layers of one of its virtual stages. */
struct cost_setting dag_setting(const struct cost_setting *setting, const struct plan_layout *layout, int32_t stage);

struct dag_kinds dag_kinds_of(const struct cost_setting *setting, const struct plan_layout *layout);

/** Layers of all chunks of a stage. */
int32_t dag_stage_layers(const struct cost_setting *setting, const struct plan_layout *layout, int32_t stage);

/** Parameters of one TP rank of a stage of the pipeline, of all its chunks. */
double dag_stage_parameters(const struct cost_setting *setting, const struct plan_layout *layout, int32_t stage);

/** A unit of a pipeline's cut as cost/ takes it; borrows the slices. */
struct cost_unit dag_unit(const struct plan_pipeline *pipeline, enum pass pass, int32_t unit);

/** A token of a forward unit on a dag_rank of a virtual stage, until its backward [bytes]. */
struct dag_token {
    double held;     /* divided by the unit's context degree; without what recomputation keeps for later slices only
                        (MEMORY_KV). The scores of unfused attention are spread over the unit's tokens */
    double kept;     /* part of held, not divided: keys and values of a sliced sample, which later slices read */
    int32_t context; /* the unit's */
};

/** own: dag_setting of the stage. */
struct dag_token dag_token_of(const struct plan_pipeline *pipeline, const struct cost_setting *own, int32_t unit);

/** Activations of `tokens` tokens that can go to the host: all but what is kept of `sliced` of them [bytes].
 * plan_offload says which share of these goes. */
static inline double dag_offloadable_of_tokens(const struct dag_token *token, int64_t tokens, int64_t sliced)
{
    return (double)tokens * token->held - (double)sliced * token->kept / token->context;
}

/** The same of a forward unit's tokens. */
double dag_offloadable_bytes(const struct plan_pipeline *pipeline, const struct cost_setting *own, int32_t unit,
                             int64_t tokens, int64_t sliced);

void dag_free(struct dag *dag);

#endif
