/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Inside dag/: a graph while it grows. Tasks are appended with their in-edges, so numbers are a topological order. */
#ifndef SLIMSIM_DAG_BUILDER_H
#define SLIMSIM_DAG_BUILDER_H

#include "base/check.h"
#include "dag/dag.h"

/** Tasks that end a pass on one dag_rank; -1: there is none. */
struct builder_end {
    int32_t first; /* COMPUTE */
    int32_t last;  /* of the compute stream; -1: the pass has not been built */
    int32_t ring;  /* SYNC that closes a ring beside it */
    int32_t send;  /* to the neighbouring stage */
    int32_t offload;
};

/** Context ranks of a stage of which only the first is built: where their rings lead. */
struct builder_fold {
    int32_t each;     /* participants on each node when these are equal; else 0 */
    bool nvlink, nic; /* some participant's next is on its node, on another one */
};

/** A pipeline of the phase in work. An instance is (virtual stage, pass, unit) as one number. */
struct builder_pipe {
    const struct plan_pipeline *plan;
    struct relations relations;
    struct dag_kinds kinds;                 /* of its virtual stages */
    struct cost_setting own[DAG_MAX_KINDS]; /* of each kind */
    struct cost_pass *cost[N_STEP_PASSES];  /* [unit x kinds + kind]; PASS_WEIGHT: NULL unless it is split off */
    int32_t *ordinal[N_PASSES];             /* of each unit among those of its group */
    int32_t *exchange_group[N_PASSES];      /* [unit x stages + stage] of exchanges, -1: none; NULL without exchanges */
    int32_t *exchange_first;                /* [exchange groups + 1] into plan's exchanges */
    int32_t *exchange_arrived;              /* of each: cursors that wait there */
    int32_t representative; /* the pipeline whose steps are built for it, too; itself without fold_equal */
    int32_t first_rank, first_cursor;
    int32_t n_tensor, n_ranks; /* ranks of a context rank, of a stage */
    int32_t n_built;           /* of the latter: those with tasks, the first ones */
    struct builder_fold *fold; /* of each stage, where one context rank is built for all; or NULL */
    int32_t stages, n_virtual; /* virtual stages: chunks x stages */
    int32_t n_units;           /* of both cuts */
    int32_t before[N_PASSES];  /* units of the cuts before the pass's */
    int32_t *done[N_PASSES];   /* of each virtual stage: units built, from the first on, no gap */
    struct dag_token *token;   /* of each forward unit, as cost; NULL where no unit offloads */
    int64_t *tokens;           /* of each forward unit, its padding among them; likewise */
    struct builder_end *ends;  /* [instance x n_built + rank] */
};

/** A dag_rank's part of the step in work. */
struct builder_participant {
    const struct builder_pipe *pipe;
    int32_t unit, stage, rank, dag_rank; /* stage: virtual; rank: of the stage's ranks */
    struct builder_end *end;             /* of the pass; of PASS_WEIGHT: of its unit's backward */
    int32_t ready;                       /* the task after which its ring can start */
    int32_t ring;                        /* as in builder_end */
    const struct cost_pass *cost;        /* of the pass */
};

/** What the passes of a dag_rank have left open, -1: nothing. */
struct builder_rank {
    int32_t ring;  /* SYNC that must end before the next pass */
    int32_t send;  /* SEND to a neighbour, likewise */
    int32_t copy;  /* copy in of what streams, likewise; gradients wait for it, too */
    int32_t begin; /* COMPUTE of the latest pass */
    int32_t node;  /* of the dag_rank's GPU */
};

/** The walk of one stage of one pipeline along its order. */
struct builder_stage_cursor {
    const struct builder_pipe *pipe;
    int32_t pipeline, stage;
    const struct plan_step *steps; /* the pipeline's */
    int32_t next, end;             /* steps */
    int32_t blocked_on;            /* instance of its pipeline, -1: none, it runs or waits for its group */
    bool queued;
};

struct builder {
    const struct plan *plan;
    const struct cost_setting *setting;
    struct dag_options options;
    struct dag *dag;
    int32_t *stream_last;    /* of each stream: its last task, -1: none */
    struct builder_rank *at; /* [ranks of the graph] */

    int32_t *equal_pipelines; /* of each pipeline (dag/equal_pipelines.h); NULL: each is itself */

    int32_t phase;
    int32_t phase_barrier; /* SYNC before the phase: streams begin after it; -1 in the first */
    struct builder_pipe *pipes;
    struct builder_stage_cursor *cursors;
    int32_t n_cursors;
    int32_t *queue; /* cursors to try, a ring of n_cursors */
    int32_t queue_first, queue_n;
    int32_t *step_cursors;                    /* [n_cursors] those that share the step in work */
    int32_t *group_first;                     /* of each (group, pass): its first rendezvous */
    int32_t *arrived;                         /* of each rendezvous: cursors that wait there */
    struct builder_participant *participants; /* of the step in work */
    struct cost_pass *faulty_cost;            /* of each participant, its cost; used by those on slow ranks */
    int32_t *ranks, *units, *ready;           /* of the collective in work */
};

/** Make room for more tasks, for more edges. */
void builder_grow_tasks(struct dag *dag);
void builder_grow_edges(struct dag *dag);

/** The pipeline whose steps are built for one. */
static inline int32_t builder_equal_pipeline(const struct builder *builder, int32_t pipeline)
{
    return builder->equal_pipelines != NULL ? builder->equal_pipelines[pipeline] : pipeline;
}

/** The newest task waits for `from`, -1: for nothing. Of two kinds between the same tasks the lower stays. These three
 * are inline because passes, the most of a graph, take 1.2 times as long otherwise. */
static inline void builder_edge(struct builder *builder, int32_t from, enum dag_edge kind)
{
    struct dag *dag = builder->dag;
    int32_t task = dag->n_tasks - 1;
    if (from < 0)
        return;
    int32_t known = dag->room.mark[from];
    if (known >= dag->in_first[task]) {
        if (kind < dag->in_kind[known])
            dag->in_kind[known] = (uint8_t)kind;
        return;
    }
    CHECK(from < task);
    if (dag->n_edges == dag->room.edges)
        builder_grow_edges(dag);
    dag->room.mark[from] = dag->n_edges;
    dag->in_task[dag->n_edges] = from;
    dag->in_kind[dag->n_edges++] = (uint8_t)kind;
    dag->in_first[task + 1] = dag->n_edges;
}

/** A task of a dag_rank: phase, pipeline, stage, dag_rank and stream filled in. */
static inline struct dag_task builder_task_of(const struct builder *builder, int32_t dag_rank, enum dag_stream stream,
                                              enum dag_kind kind, enum dag_purpose purpose)
{
    const struct dag_rank *at = &builder->dag->ranks[dag_rank];
    return (struct dag_task){.kind = (uint8_t)kind,
                             .purpose = (uint8_t)purpose,
                             .phase = at->phase,
                             .stage = at->stage,
                             .pipeline = at->pipeline,
                             .unit = -1,
                             .dag_rank = dag_rank,
                             .stream = dag_rank * DAG_N_STREAMS + (int32_t)stream,
                             .from_rank = at->rank,
                             .to_rank = at->rank};
}

/** Append a task behind the last of its stream. @return its number */
static inline int32_t builder_task(struct builder *builder, struct dag_task task, double duration_s)
{
    struct dag *dag = builder->dag;
    if (dag->n_tasks == dag->room.tasks)
        builder_grow_tasks(dag);
    int32_t number = dag->n_tasks++, previous = builder->stream_last[task.stream];
    dag->tasks[number] = task;
    dag->duration_s[number] = duration_s;
    dag->in_first[number] = dag->in_first[number + 1] = dag->n_edges;
    dag->room.mark[number] = dag->stream_next[number] = -1;
    builder->stream_last[task.stream] = number;
    *(previous >= 0 ? &dag->stream_next[previous] : &dag->stream_first[task.stream]) = number;
    if (previous >= 0)
        builder_edge(builder, previous, DAG_SCHEDULE);
    else
        builder_edge(builder, builder->phase_barrier, DAG_COLLECTIVE);
    return number;
}

/** How many times as long bytes take from rank to rank as on sound links; a host's rank is -1. */
double builder_link_factor(const struct builder *builder, int32_t from_rank, int32_t to_rank);

/** Append a SEND from rank to rank; `transfer` is that of sound links. @return its number */
int32_t builder_send(struct builder *builder, struct dag_task task, struct cost_transfer transfer);

/** NVLink inside a node, else NIC. */
enum cost_route builder_route(const struct builder *builder, int32_t from_rank, int32_t to_rank);

/** Whether passes on the dag_rank of a GPU cost something else than on a sound one; then dag_gpu_pass_cost. */
bool builder_has_faults(const struct builder *builder, int32_t gpu);

/** `setting` with links of 1/nvlink and 1/nic of their bandwidth; `room` becomes its platform. */
struct cost_setting builder_faulty_setting(const struct cost_setting *setting, double nvlink, double nic,
                                           struct platform *room);

/** A collective among ranks. */
struct builder_collective {
    const int32_t *ranks; /* [n] */
    const int32_t *units; /* [n] of each one's own pipeline, NULL: it is of no pass */
    const int32_t *ready; /* [n_ready] tasks it waits for, -1: none */
    int32_t n, n_ready;
    enum dag_purpose purpose;
    enum pass pass;
    int32_t chunk;
    double bytes;  /* reduce-scatter, all-gather: of the tensor; else what a participant sends to the next in all */
    int32_t steps; /* messages of the latter, for the latency */
    double share;  /* of a reduce-scatter or all-gather that is not hidden */
    double
        exact_s; /* if > 0: how long it takes, in dag_rank of bytes: that of the participant to which it is longest */
    double wire_bytes;               /* of the latter by each participant's NIC */
    bool to_all;                     /* these go to all other nodes, not to the next one */
    const struct builder_fold *fold; /* of context ranks of which only the first, ranks[0], sends; NULL: all do */
};

/**
 * Append SYNC, SENDs, SYNC.
 *
 * Each participant sends all bytes to the next: in the ring of context parallelism (point-to-point messages, as
 * Megatron-LM's default p2p kind), and where participants are on one node, or one of them is alone on a node. Else k >
 * 1 participants are on the node that has fewest, and NCCL's rails are taken (NCCL takes as many channels as the node
 * that finds fewest): k rings enter and leave each node by different NICs, so of every participant's bytes 1/k go to
 * the next node, from k participants of each to k of the next (stream RAIL), and (k-1)/k to its neighbour inside the
 * node, at the same time. The SENDs of reduce-scatters, all-gathers and all-reduces take what cost_of_rails
 * (cost/cost.h) says of their route.
 *
 * With exact_s and wire_bytes, and as many participants on each node: a SEND from each participant to its counterpart
 * on the next node, or (to_all) one after the other to those on all other nodes, all participants at the same distance
 * at a time. The part of exact_s that the bytes do not take (latencies; NVLink, where it takes longer) is latency of
 * the SENDs, so that alone on their links they take exact_s.
 * @return the closing SYNC
 */
int32_t builder_collective(struct builder *builder, const struct builder_collective *collective);

/** Where the ring of these ranks would lead. Only ranks and n of `ring` are read. */
struct builder_fold builder_fold_of(const struct builder *builder, const struct builder_collective *collective);

/** How long a reduce-scatter or all-gather takes alone on its links, all of it [s]. */
double builder_collective_s(const struct builder *builder, const struct builder_collective *collective);

/** SYNC on the collective stream of a dag_rank; edges into it are the caller's. */
int32_t builder_sync(struct builder *builder, int32_t dag_rank, enum dag_purpose purpose);

/** Costs of a pass of all units on each kind of virtual stage, unless they are known. */
void builder_costs(const struct builder *builder, struct builder_pipe *pipe, enum pass pass);

/** dag_setting of a virtual stage. */
static inline const struct cost_setting *builder_own(const struct builder_pipe *pipe, int32_t stage)
{
    return &pipe->own[pipe->kinds.kind[stage]];
}

/** The stage of a virtual stage. */
static inline int32_t builder_stage_of(const struct builder_pipe *pipe, int32_t virtual)
{
    int32_t stages = pipe->stages;
    return virtual < stages ? virtual : virtual % stages;
}

static inline const struct cost_pass *builder_cost_of(const struct builder_pipe *pipe, enum pass pass, int32_t unit,
                                                      int32_t stage)
{
    return &pipe->cost[pass][unit * pipe->kinds.n + pipe->kinds.kind[stage]];
}

/** The exchange group that a step is in, -1: none. */
static inline int32_t builder_exchange_group_of(const struct builder_pipe *pipe, const struct plan_step *step,
                                                int32_t stage)
{
    if (pipe->exchange_first == NULL || step->pass >= N_PASSES)
        return -1;
    return pipe->exchange_group[step->pass][step->unit * pipe->stages + stage];
}

/** Build one step for the cursors that share it: one, all of a group, or all of an exchange group (of one pipeline, by
 * stage). Their `next` steps are of one pass, of a group also of one virtual stage. */
void builder_pass(struct builder *builder, const int32_t *cursors, int32_t n_cursors);

static inline int32_t builder_instance(const struct builder_pipe *pipe, enum pass pass, int32_t unit, int32_t stage)
{
    return stage * pipe->n_units + pipe->before[pass] + unit;
}

static inline struct builder_end *builder_end_of(const struct builder_pipe *pipe, int32_t instance, int32_t rank)
{
    return &pipe->ends[(size_t)instance * (size_t)pipe->n_built + (size_t)rank];
}

/** Walk the orders of the phase until all steps are built; else name one in the circle. Leaves the phase open. */
bool builder_phase(struct builder *builder, int32_t phase, struct error *err);

/** Hand the pipelines' relations and costs to the graph, and free what else belongs to the phase. */
void builder_close_phase(struct builder *builder);

/** Gradients, optimizer and parameters of the last phase. */
bool builder_gradients(struct builder *builder, struct error *err);

/** SYNC after everything of the phase before, and the re-sharding that `phase` begins with. */
void builder_phase_barrier(struct builder *builder, int32_t phase);

#endif
