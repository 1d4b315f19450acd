/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * Inside dag/: this is a graph while it grows. Each task is appended with its in-edges, so numbers are a topological
 * order.
 */
#ifndef SLIMSIM_DAG_BUILDER_H
#define SLIMSIM_DAG_BUILDER_H

#include "base/check.h"
#include "cost/shards.h"
#include "dag/dag.h"

/** Tasks that end a pass on one rank; -1: there is none. */
struct builder_end {
    int32_t first; /* COMPUTE */
    int32_t last;  /* of the compute stream; -1: the pass has not been built */
    int32_t ring;  /* SYNC that closes the ring that runs beside the pass */
    int32_t send;  /* to the neighbouring stage */
    int32_t offload;
};

/** Directions of the rings of a stage's context ranks, if only the first rank is built. */
struct builder_fold {
    int32_t each;     /* participants in each NVLink domain if all have equally many; otherwise 0 */
    bool nvlink, nic; /* some participant's next one is in its NVLink domain; in another one */
};

/** A pipeline of the current phase. An instance is (virtual stage, pass, micro-batch) as one number. */
struct builder_pipe {
    const struct plan_pipeline *plan;
    struct relations relations;
    struct dag_kinds kinds;                           /* of the pipeline's virtual stages */
    struct cost_setting stage_setting[DAG_MAX_KINDS]; /* of each kind */
    struct cost_pass *cost[N_STEP_PASSES]; /* [micro-batch x kinds + kind]; PASS_WEIGHT: NULL unless it is split off */
    int32_t *meeting[N_PASSES]; /* [micro-batch x virtual stages + virtual stage], -1: none; NULL: the phase has none */
    int32_t representative;     /* pipeline whose steps are built for this one, too; itself without fold_equal */
    int32_t first_rank, first_cursor;
    int32_t n_tensor, n_ranks; /* ranks of one context rank; ranks of one stage */
    int32_t n_built;           /* ranks of a stage that have tasks: its first ones */
    struct builder_fold *fold; /* of each stage, if one context rank is built for all; otherwise NULL */
    int32_t stages, n_virtual; /* virtual stages: chunks x stages */
    int32_t n_micro_batches;   /* of both passes */
    int32_t before[N_PASSES];  /* micro-batches that are numbered before the pass's own */
    int32_t
        *done[N_PASSES]; /* of each virtual stage: micro-batches built, counted from the first up to the first gap */
    struct dag_token *token;  /* of each forward micro-batch, laid out as cost; NULL if no micro-batch offloads */
    int64_t *tokens;          /* of each forward micro-batch, with its padding; NULL if no micro-batch offloads */
    struct builder_end *ends; /* [instance x n_built + rank] */
};

/** One rank's share of the current step. */
struct builder_participant {
    const struct builder_pipe *pipe;
    int32_t micro_batch, stage, rank, dag_rank; /* stage: virtual; rank: index among the stage's ranks */
    struct builder_end *end;                    /* of the pass; for PASS_WEIGHT the end of its micro-batch's backward */
    int32_t open;                               /* SYNC before its linear part, which hides messages; -1: none */
    int32_t ready;                              /* task after which its ring can start */
    int32_t ring;                               /* SYNC that closes its ring, -1: none */
    const struct cost_pass *cost;               /* of the pass */
};

/** GPUs to which a rank sends in the collectives of zero2 and zero3; -1: it sends nothing this way. */
struct joins_next {
    int32_t inside;  /* the next one of its NVLink domain */
    int32_t rail;    /* its counterpart in the next domain, if it has a rail */
    int32_t replica; /* its counterpart in the next domain, for the gradients that groups of shards add up */
};

/** Tasks of a rank that later ones must still wait for, -1: none. */
struct builder_rank {
    int32_t ring;  /* SYNC that must end before the next pass */
    int32_t send;  /* SEND to a neighbour that must end before the next pass */
    int32_t copy;  /* copy in of a micro-batch that streams; the next pass waits for it, and gradients do, too */
    int32_t out;   /* copy out of the latest forward, which runs beside the next pass */
    int32_t due;   /* copy out that the next pass waits for, if plan_waits_for_copies */
    int32_t begin; /* COMPUTE of the latest pass; of the latest backward pass */
    int32_t backward;
    bool forward;   /* the latest pass is a forward one */
    int32_t domain; /* NVLink domain of the rank's GPU */
    struct joins_next next;
};

/** A cursor walks one stage of one pipeline along its order. */
struct builder_stage_cursor {
    const struct builder_pipe *pipe;
    int32_t pipeline, stage;
    const struct plan_step *steps; /* of the pipeline */
    int32_t next, end;             /* indices of steps */
    int32_t blocked_on;            /* instance of its pipeline, -1: none, because it runs or waits for its group */
    bool queued;
    int32_t join, next_in_join; /* its join, and the next cursor of it; -1: none */
    bool joined;                /* it waits behind a pass for the others of its join */
    bool in_meeting;            /* it waits there, and has an empty pass for the others of its join */
    int32_t before_in_meeting;  /* the cursor that arrived before it; -1: none */
};

/** A pass that several cursors run together: those of a group, or of an attention by blocks (dag/meetings.h). */
struct builder_meeting {
    int32_t attention;          /* of the phase, -1: none */
    int32_t n, n_arrived, last; /* cursors, those that wait, the last of them */
};

/** Cursors whose passes have collectives that all of them join (dag/joins.h). */
struct builder_join {
    int32_t first, n; /* its first cursor, and their number */
    int32_t n_joined; /* cursors that are joined or in_meeting; a cursor that has ended stays joined */
    bool full;        /* it is in `full` */
};

struct builder {
    const struct plan *plan;
    const struct cost_setting *setting;
    struct dag_options options;
    struct dag *dag;
    int32_t *stream_last;    /* of each stream: its last task, -1: none */
    struct builder_rank *at; /* [ranks of the graph] */

    int32_t *equal_pipelines; /* of each pipeline (dag/equal_pipelines.h); NULL: each represents itself */

    int32_t phase;
    int32_t phase_barrier; /* SYNC before the phase, after which streams begin; -1 in the first phase */
    struct builder_pipe *pipes;
    struct builder_stage_cursor *cursors;
    int32_t n_cursors;
    struct builder_join *joins;
    int32_t *full; /* [n_full] joins all of whose cursors have joined */
    int32_t n_full;
    struct shards_traffic shards[N_STEP_PASSES]; /* traffic of a pass of zero2 and zero3 */
    int32_t *queue;                              /* cursors to try, a circular buffer of n_cursors */
    int32_t queue_first, queue_n;
    int32_t *step_cursors; /* [n_cursors] cursors that share the current step */
    int32_t n_meetings;
    size_t meetings_room;
    struct builder_meeting *meetings;
    struct builder_participant *participants; /* of the current step */
    struct cost_pass *faulty_cost;            /* of each participant: its cost; used only for ranks with faults */
    int32_t *ranks, *micro_batches, *ready;   /* of the current collective */
};

/** Make room for more tasks; for more edges. */
void builder_grow_tasks(struct dag *dag);
void builder_grow_edges(struct dag *dag);

/** Return the pipeline whose steps are built for this one. */
static inline int32_t builder_equal_pipeline(const struct builder *builder, int32_t pipeline)
{
    return builder->equal_pipelines != NULL ? builder->equal_pipelines[pipeline] : pipeline;
}

/**
 * Let the newest task wait for `from`; -1: for nothing. If two tasks have two kinds of edges, the lower kind stays.
 * These three functions are inline, because otherwise passes, most of a graph, take 1.2 times as long to build.
 */
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

/** Return a task of a rank with phase, pipeline, stage, rank and stream filled in. */
static inline struct dag_task builder_task_of(const struct builder *builder, int32_t dag_rank, enum dag_stream stream,
                                              enum dag_kind kind, enum dag_purpose purpose)
{
    const struct dag_rank *at = &builder->dag->ranks[dag_rank];
    return (struct dag_task){.kind = (uint8_t)kind,
                             .purpose = (uint8_t)purpose,
                             .phase = at->phase,
                             .stage = at->stage,
                             .pipeline = at->pipeline,
                             .micro_batch = -1,
                             .dag_rank = dag_rank,
                             .stream = dag_rank * DAG_N_STREAMS + (int32_t)stream,
                             .from_rank = at->rank,
                             .to_rank = at->rank};
}

/** Append a task behind the last one of its stream. @return its number */
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

/** Return how many times as long bytes take from rank to rank as on sound links. A host's rank is -1. */
double builder_link_factor(const struct builder *builder, int32_t from_rank, int32_t to_rank);

/** Append a SEND from rank to rank; `transfer` is its cost on sound links. @return its number */
int32_t builder_send(struct builder *builder, struct dag_task task, struct cost_transfer transfer);

/** Return NVLink inside an NVLink domain, otherwise NIC. */
enum cost_route builder_route(const struct builder *builder, int32_t from_rank, int32_t to_rank);

/** Return whether passes on a GPU cost something other than the model says of a sound one. If so, dag_gpu_pass_cost
 * gives the cost. */
bool builder_has_faults(const struct builder *builder, int32_t gpu);

/** Return `setting` with links of 1/nvlink and 1/nic of their bandwidth; `room` becomes its platform. */
struct cost_setting builder_faulty_setting(const struct cost_setting *setting, double nvlink, double nic,
                                           struct platform *room);

/** Return one past the last of the neighbouring ranks in an NVLink domain. `first`: the first of them. */
int32_t builder_end_of_domain(const struct builder *builder, const int32_t *ranks, int32_t n, int32_t first);

/**
 * Return whether the i-th of k participants in a domain, `distance` GPUs apart, has a rail. The rails are spread over
 * them, since neighbours share a NIC.
 */
bool builder_has_rail(const struct builder *builder, int32_t distance, int32_t i, int32_t k);

/** A collective among ranks of the graph. */
struct builder_collective {
    const int32_t *ranks;         /* [n] */
    const int32_t *micro_batches; /* [n] of each participant's pipeline; NULL: the collective belongs to no pass */
    const int32_t *ready;         /* [n_ready] tasks it waits for, -1: none */
    int32_t n, n_ready;
    enum dag_purpose purpose;
    enum pass pass;
    int32_t chunk;
    /* reduce-scatter, all-gather: size of the tensor; otherwise all bytes that a participant sends to the next one */
    double bytes;
    int32_t distance;  /* between the ranks, in GPUs; 0: the TP degree */
    int32_t steps;     /* messages that these bytes are sent in, for the latency */
    double share;      /* share of a reduce-scatter or all-gather that is not hidden */
    double exact_s;    /* if > 0: seconds of the participant for which the collective takes longest; replaces bytes */
    double wire_bytes; /* with exact_s: bytes that each participant's NIC sends */
    bool to_all;       /* wire_bytes go to all other domains instead of the next one */
    const struct builder_fold *fold; /* set if only the first context rank, ranks[0], sends for all; NULL: all send */
};

/**
 * Append SYNC, SENDs, SYNC.
 *
 *  1. Context parallelism's ring, and participants in one domain: each sends all bytes to the next participant. The
 *     same holds if a participant has its domain for itself. The ring is point-to-point, as Megatron-LM's default kind
 *     p2p.
 *  2. Otherwise rings follow NCCL's rails. NCCL takes as many channels as the domain with the fewest participants,
 *     k > 1. So k rings enter and leave each domain by different NICs. A share 1/k of a participant's bytes goes to the
 *     next domain, from k participants to k (stream RAIL). The rest goes to its neighbour inside the domain, at the
 *     same time.
 *  3. SENDs of reduce-scatters, all-gathers and all-reduces take the time of cost_of_rails (cost/communication.h).
 *  4. With exact_s and wire_bytes, and equally many participants in each domain, each participant sends to its
 *     counterpart in the next domain. With to_all it sends to those in all other domains, one after the other. All
 *     participants send to the same distance at a time. The part of exact_s that the bytes do not take (latencies,
 *     slower NVLink) is latency of the SENDs. So SENDs without other traffic on their links take exact_s.
 *
 * @return the closing SYNC
 */
int32_t builder_collective(struct builder *builder, const struct builder_collective *collective);

/** Append a collective in two halves, so that tasks beside its SENDs come between them. @return the opening, the
 * closing SYNC */
int32_t builder_open_collective(struct builder *builder, const struct builder_collective *collective);
int32_t builder_close_collective(struct builder *builder, const struct builder_collective *collective, int32_t open);

/** Return the directions of the ring of these ranks. It reads only `ranks` and `n` of the collective. */
struct builder_fold builder_fold_of(const struct builder *builder, const struct builder_collective *collective);

/** Return the seconds of a whole reduce-scatter or all-gather without other traffic on its links [s]. */
double builder_collective_s(const struct builder *builder, const struct builder_collective *collective);

/** Append a SYNC on the collective stream of a rank. The caller adds the edges into it. */
int32_t builder_sync(struct builder *builder, int32_t dag_rank, enum dag_purpose purpose);

/** Fill in the costs of a pass for all micro-batches on each kind of virtual stage. */
void builder_costs(const struct builder *builder, struct builder_pipe *pipe, enum pass pass);

/** Return the setting of a virtual stage (dag_setting). */
static inline const struct cost_setting *builder_stage_setting(const struct builder_pipe *pipe, int32_t stage)
{
    return &pipe->stage_setting[pipe->kinds.kind[stage]];
}

/** Return the stage that runs a virtual stage. */
static inline int32_t builder_stage_of(const struct builder_pipe *pipe, int32_t virtual)
{
    int32_t stages = pipe->stages;
    return virtual < stages ? virtual : virtual % stages;
}

static inline const struct cost_pass *builder_cost_of(const struct builder_pipe *pipe, enum pass pass,
                                                      int32_t micro_batch, int32_t stage)
{
    return &pipe->cost[pass][micro_batch * pipe->kinds.n + pipe->kinds.kind[stage]];
}

/**
 * Build one step for the cursors that share it: one cursor, or all of a meeting, in ascending order. The `next` steps
 * of all cursors are of one pass. In a group they are also of one virtual stage.
 */
void builder_pass(struct builder *builder, const int32_t *cursors, int32_t n_cursors);

static inline int32_t builder_instance(const struct builder_pipe *pipe, enum pass pass, int32_t micro_batch,
                                       int32_t stage)
{
    return stage * pipe->n_micro_batches + pipe->before[pass] + micro_batch;
}

static inline struct builder_end *builder_end_of(const struct builder_pipe *pipe, int32_t instance, int32_t rank)
{
    return &pipe->ends[(size_t)instance * (size_t)pipe->n_built + (size_t)rank];
}

/** Walk the orders of the phase until all steps are built; the phase stays open. An error names a step in a circle. */
bool builder_phase(struct builder *builder, int32_t phase, struct error *err);

/** Hand the pipelines' relations and costs to the graph, and free the rest of the phase. */
void builder_close_phase(struct builder *builder);

/** Append gradients, optimizer and parameters of the last phase. */
bool builder_gradients(struct builder *builder, struct error *err);

/** Append a SYNC after all tasks of the phase before, and the re-sharding that `phase` begins with. */
void builder_phase_barrier(struct builder *builder, int32_t phase);

#endif
