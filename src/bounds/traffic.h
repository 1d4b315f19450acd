/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module adds up the bytes that GPUs send each other in an iteration, hidden or not. */
#ifndef SLIMSIM_BOUNDS_TRAFFIC_H
#define SLIMSIM_BOUNDS_TRAFFIC_H

#include "dag/dag.h"

/** The reason for which bytes are sent; trace/traffic.def has a column for each, in this order. */
enum traffic_purpose {
    TRAFFIC_TENSOR,   /* collectives of tensor parallelism */
    TRAFFIC_SHARDS,   /* parameters and gradients of zero2 and zero3 inside passes */
    TRAFFIC_EXPERTS,  /* tokens to experts and back */
    TRAFFIC_CONTEXT,  /* rings, gathers and all-to-alls of context parallelism */
    TRAFFIC_BOUNDARY, /* activations and their gradients between stages */
    TRAFFIC_EXCHANGE, /* attention that another stage computes */
    TRAFFIC_SYNC,     /* gradients and parameters at the end of the iteration */
    TRAFFIC_RESHARD,  /* before phases */
    TRAFFIC_HOST,     /* offloaded activations, to the host and back */
    TRAFFIC_N_PURPOSES
};

/**
 * Payload that all GPUs send [bytes], without ramps and efficiencies of links. Received bytes are not
 * counted again.
 */
struct traffic {
    double bytes[TRAFFIC_N_PURPOSES];
};

/**
 * Return the costs' bytes (cost/pass.h) over all passes, and those of the end of the iteration. With P parameters of a
 * stage on one TP rank, n DP x CP ranks in m groups of g that share states, b bytes a gradient, each rank then sends
 *
 *     P b (g - 1)/g + P b/g 2 (m - 1)/m   gradients; none with zero2 and zero3
 *     2 P (g - 1)/g                       parameters; none with zero3
 *
 * Experts that ranks of EP share out are held by n tp/ep ranks, which then are the n and g of their parameters.
 * With tied embeddings or MTP on two stages both ends send the whole table's gradients.
 *
 * @param dag      of the plan: its costs are read
 * @param setting  setting that the graph was built with
 */
struct traffic traffic_of(const struct plan *plan, const struct dag *dag, const struct cost_setting *setting);

#endif
