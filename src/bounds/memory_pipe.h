/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module computes the bytes that passes of a pipeline's micro-batches allocate and free, which bounds/memory.h
 * counts over time.
 */
#ifndef SLIMSIM_BOUNDS_MEMORY_PIPE_H
#define SLIMSIM_BOUNDS_MEMORY_PIPE_H

#include "dag/dag.h"

/** Bytes that a virtual stage allocates (forward) or frees (backward) for one micro-batch. */
struct memory_micro_batch {
    double activations, kv;
    /* copied to the host and back layer by layer in the passes, never held whole; not in activations */
    double streamed;
    double workspace;
    double opened, closed;   /* key and value gradients */
    double weight;           /* held from the gradients of the inputs to those of the weights */
    double weight_workspace; /* of the gradients of the weights: an input gathered again */
};

/**
 * The pass that first computes the gradients of a virtual stage's weights [bytes]. It runs the head first, then layer
 * by layer.
 */
struct memory_growth {
    double head, layers;              /* bytes that it frees of the head; of all layers */
    double head_workspace;            /* while the head computes its gradients */
    double workspace, next_workspace; /* after the head: in the first layer; in the later ones */
    double end_workspace;             /* after all layers */
};

/** A pipeline of a phase. */
struct memory_pipe {
    const struct plan_pipeline *plan;
    const struct dag_kinds *kinds;
    bool attends;                                       /* some pass has ATTENTION after its COMPUTE */
    int32_t layer_kind[DAG_MAX_KINDS];                  /* of each kind: the first kind with the same layers */
    struct memory_micro_batch *micro_batches[N_PASSES]; /* [kind x micro-batches + micro-batch] */
    struct memory_growth *growth; /* [kind x backward micro-batches + micro-batch]; NULL: gradients are kept */
    /*
     * activations that are freed after the copy out (forward) and allocated before the copy in, except those that
     * stream; NULL: nothing is offloaded
     */
    double *offloaded[N_PASSES]; /* [virtual stage x micro-batches + micro-batch] */
    /* [virtual stage x micro-batches + micro-batch] buffers of attention by blocks; NULL: there are none */
    double *exchanged[N_PASSES];
};

/** Return the micro-batches of a pass on virtual stages of a kind. */
static inline struct memory_micro_batch *memory_pipe_micro_batches(const struct memory_pipe *pipe, int pass,
                                                                   int32_t kind)
{
    return pipe->micro_batches[pass] + kind * pipe->plan->partition[pass].n_micro_batches;
}

/** Return the growth of a backward micro-batch on virtual stages of a kind, for gradients that come and go. */
static inline struct memory_growth *memory_pipe_growth(const struct memory_pipe *pipe, int32_t kind,
                                                       int32_t micro_batch)
{
    return &pipe->growth[kind * pipe->plan->partition[PASS_BACKWARD].n_micro_batches + micro_batch];
}

/** @param number  of the pipeline in its phase
 * @param of      the pipeline in the graph; it and the plan are borrowed */
struct memory_pipe memory_pipe_of(const struct plan_phase *phase, int32_t number, const struct cost_setting *setting,
                                  const struct dag_pipe *of);

void memory_pipe_free(struct memory_pipe *pipe);

#endif
