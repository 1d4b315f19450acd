/* SPDX-License-Identifier: GPL-3.0-or-later */
/** What the passes of a pipeline's units allocate and free: the bytes that bounds/memory.h counts over time. */
#ifndef SLIMSIM_BOUNDS_MEMORY_PIPE_H
#define SLIMSIM_BOUNDS_MEMORY_PIPE_H

#include "dag/dag.h"

/** What a virtual stage allocates (forward) or frees (backward) of one unit. */
struct memory_unit {
    double activations, kv;
    double streamed; /* to the host and back layer by layer in the passes, never held whole; not among activations */
    double workspace;
    double opened, closed;   /* key and value gradients */
    double weight;           /* from the gradients of the inputs to those of the weights */
    double weight_workspace; /* of the latter: an input gathered again */
};

/** The pass that first computes the gradients of a virtual stage's weights, in the order in which it runs: head, then
 * layer by layer [bytes]. */
struct memory_growth {
    double head, layers;              /* what it frees of the head, of all layers */
    double head_workspace;            /* in work while the head computes its gradients */
    double workspace, next_workspace; /* once the head is over: in the first layer, in those behind it */
    double end_workspace;             /* when all layers are over */
};

/** A pipeline of a phase. */
struct memory_pipe {
    const struct plan_pipeline *plan;
    const struct dag_kinds *kinds;
    bool attends;                        /* some pass has ATTENTION after its COMPUTE */
    int32_t account[DAG_MAX_KINDS];      /* of each kind: the first of as many layers */
    struct memory_unit *units[N_PASSES]; /* [kind x units + unit] */
    struct memory_growth *growth;        /* of backward units, likewise; NULL: gradients are kept */
    /* Of activations: freed after the copy out (forward), allocated before the copy in, but for what streams; NULL:
     * nothing is offloaded. */
    double *offloaded[N_PASSES]; /* [virtual stage x units + unit] */
    double *exchanged[N_PASSES]; /* buffers of exchanged attention, likewise; NULL: none is */
};

/** The units of a pass's cut on virtual stages of a kind. */
static inline struct memory_unit *memory_pipe_units(const struct memory_pipe *pipe, int pass, int32_t kind)
{
    return pipe->units[pass] + kind * pipe->plan->cut[pass].n_units;
}

/** Of a backward unit on virtual stages of a kind; gradients are not kept. */
static inline struct memory_growth *memory_pipe_growth(const struct memory_pipe *pipe, int32_t kind, int32_t unit)
{
    return &pipe->growth[kind * pipe->plan->cut[PASS_BACKWARD].n_units + unit];
}

/** @param of  the pipeline in the graph; it and the plan are borrowed */
struct memory_pipe memory_pipe_of(const struct plan_pipeline *pipeline, const struct cost_setting *setting,
                                  const struct dag_pipe *of);

void memory_pipe_free(struct memory_pipe *pipe);

#endif
