/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * A plan and its costs as tasks and dependencies: what both engines run.
 *
 * Tasks are numbered in topological order at construction, predecessors in CSR, so a longest path is one
 * loop over arrays. A task runs on a stream, as on a GPU: a stream runs its tasks one after the other.
 *
 * Places: one per (phase, pipeline, stage, context rank), for all TP ranks together (`all_tensor_ranks`: one for each).
 * A pass of a unit on a place is COMPUTE; with CP > 1 it is COMPUTE (GEMMs and the rest), then ATTENTION beside the
 * ring: SYNC of all ranks, a SEND from each to the next, SYNC; the pass ends when both ended. With all tensor ranks
 * the TP collectives are such a ring too, else they are inside COMPUTE. Boundaries between stages are SENDs.
 * After the last backward of a stage: reduce-scatter ring of its DP x CP ranks, SYNC of all stages (gradient norm),
 * OPTIMIZER, all-gather ring.
 */
#ifndef SLIMSIM_DAG_DAG_H
#define SLIMSIM_DAG_DAG_H

#include "cost/cost.h"
#include "plan/plan.h"

enum dag_kind { DAG_COMPUTE, DAG_ATTENTION, DAG_SEND, DAG_SYNC, DAG_OPTIMIZER, DAG_N_KINDS };

/** What a SEND or SYNC belongs to. */
enum dag_purpose {
    DAG_PASS,           /* of COMPUTE and ATTENTION */
    DAG_BOUNDARY,       /* activations or gradients between stages */
    DAG_RING,           /* context parallelism */
    DAG_TENSOR,         /* tensor parallelism */
    DAG_REDUCE_SCATTER, /* gradients */
    DAG_ALL_GATHER,     /* parameters */
    DAG_RESHARD,        /* before a phase */
    DAG_OFFLOAD,        /* device to host */
    DAG_PREFETCH,       /* host to device */
    DAG_N_PURPOSES
};

enum dag_edge {
    DAG_INTER_STAGE, /* boundary sends, and from the last forward to its backward */
    DAG_INTER_SLICE, /* keys and values of earlier slices; gradients of theirs from later slices */
    DAG_INTER_PASS,  /* a backward unit after every forward unit that holds its samples */
    DAG_SCHEDULE,    /* order on a stream */
    DAG_COLLECTIVE,  /* into and out of rings and barriers */
    DAG_N_EDGES
};

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
    uint8_t kind, purpose, pass;  /* enum dag_kind, dag_purpose, pass */
    uint8_t chunk;                /* virtual stage = chunk x stages + stage */
    int16_t phase, stage;         /* stage: of the pipeline */
    int32_t pipeline, unit;       /* unit of the pass's cut; -1: none */
    int32_t place;                /* index into places */
    int32_t stream;               /* place x DAG_N_STREAMS + enum dag_stream */
    int32_t from_rank, to_rank;   /* GPUs of a SEND; to_rank -1: the host's memory of from_rank's node (offload),
                                     from_rank -1 for prefetch */
    double latency_s, wire_bytes; /* of a SEND */
};

struct dag_place {
    int16_t phase, stage;
    int32_t pipeline, context, tensor; /* indices inside the pipeline */
    int32_t rank;                      /* GPU */
};

struct dag {
    int32_t n_tasks, n_places, n_edges;
    struct dag_task *tasks;
    double *duration_s; /* without contention; a vector of its own so that others can be tried on the same graph */
    int32_t *in_first;  /* [n_tasks + 1] into in_task, in_kind */
    int32_t *in_task;   /* predecessor, always a smaller number */
    uint8_t *in_kind;   /* enum dag_edge */
    struct dag_place *places;
};

struct dag_options {
    bool all_tensor_ranks;
    bool gradient_sync; /* reduce-scatter, optimizer, all-gather; off while candidates of one pipeline are weighed */
};

/**
 * Build the graph of a plan. `setting` holds model, device, platform and overlaps; TP degree and layers come from each
 * layout. A plan whose orders wait for each other in a circle is an error naming a task in it.
 */
bool dag_build(const struct plan *plan, const struct cost_setting *setting, struct dag_options options, struct dag *dag,
               struct error *err);

/** Seconds of a pass on one place and what it is made of: as dag_build uses them, the head included on the last virtual
 * stage (chunk x stages + stage). */
struct cost_pass dag_pass_cost(const struct plan_pipeline *pipeline, const struct cost_setting *setting, enum pass pass,
                               int32_t unit, int32_t stage);

/** `setting` with the layout's TP degree and the layers of one of its virtual stages. */
struct cost_setting dag_setting(const struct cost_setting *setting, const struct plan_layout *layout);

/** What one token of a forward unit holds on a place of a virtual stage until its backward, keys and values of sliced
 * samples under full recompute aside; divided by the unit's context degree [bytes]. */
double dag_token_bytes(const struct plan_pipeline *pipeline, const struct cost_setting *setting, int32_t unit);

/** Share of `tokens` tokens' activations of a forward unit that goes to the host [bytes]. */
double dag_offload_bytes(const struct plan_pipeline *pipeline, const struct cost_setting *setting, int32_t unit,
                         int64_t tokens);

void dag_free(struct dag *dag);

#endif
