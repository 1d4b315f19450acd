/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This file defines the cost of a pass. */
#ifndef SLIMSIM_COST_PASS_COST_H
#define SLIMSIM_COST_PASS_COST_H

#include "cost/kernel.h"

/** One pass of one micro-batch on one rank of a stage, over all layers. Seconds are without contention. */
struct cost_pass {
    double flop;                /* FLOPs that this rank executes, including recomputation */
    double kernels_s;           /* GEMMs, memory-bound kernels and launches, which cannot overlap with the ring */
    double product_s;           /* GEMMs within kernels_s */
    double product_flop;        /* FLOPs of these GEMMs, within flop */
    double fp8_flop;            /* FLOPs of GEMMs in fp8, within product_flop */
    double cast_s;              /* casts to fp8 within kernels_s */
    double expert_product_s;    /* GEMMs of experts within product_s */
    double expert_product_flop; /* their FLOPs, within product_flop */
    double attention_s;         /* attention kernels; the ring of CP may run beside them */
    double tensor_s;            /* exposed tensor-parallel collectives, in no other field */
    double tensor_bytes;        /* bytes that a TP rank sends in all of them, including the hidden ones */
    double
        shard_s; /* exposed gathers of parameters and reduce-scatters of gradients (zero2, zero3), in no other field */
    double shard_bytes;      /* bytes that a rank sends in all of them, including the hidden ones */
    double expert_s;         /* tokens to experts and back, in no other field */
    double combine_s;        /* outputs of experts back, within expert_s */
    double expert_bytes;     /* bytes that a rank sends for it */
    double expert_nic_bytes; /* of them through its NIC, over the link's efficiency */
    double ring_bytes;       /* bytes that a CP rank sends to others (ring: to the next one): cost/context.h */
    int32_t ring_steps;      /* messages of the ring one after the other, for its latency: context - 1 in each layer */
    double context_s;        /* collectives of CP in place of a ring, which run before attention; in no other field */
    double context_wire_bytes; /* bytes of these through a rank's NIC (over the link's efficiency); 0: none leaves its
                                  node */
    double boundary_bytes;     /* bytes to the next (backward: previous) stage, per TP and CP rank; without sequence
                                  parallelism each TP rank sends all of them */
    double host_s;             /* the host takes to launch all kernels, beside all other fields: cost_wait_s */
    double blocked_s;          /* launches within host_s during which the GPU runs nothing */
    double extrapolated_s[COST_N_FAMILIES]; /* seconds within those above whose shapes are extrapolated */
};

/** Return the GPU's seconds of a pass except those of its ring, one after the other [s]. */
static inline double cost_gpu_s(const struct cost_pass *cost)
{
    return cost->kernels_s + cost->attention_s + cost->tensor_s + cost->shard_s + cost->context_s + cost->expert_s;
}

/**
 * Return the seconds that a GPU waits in a pass for the host's launches [s].
 *
 * 1. The host launches kernels one by one, and goes on while they run. So a pass takes max(GPU, host).
 * 2. The host runs ahead over all layers, head and embedding of a pass. At its end it waits for the GPU.
 * 3. Kernels hide launches of others, so many small ones and a few large ones take less than each alone.
 * 4. A ring's messages hide launches of its other blocks, which do not count, but no launches of other kernels.
 * 5. With blocking launches (CUDA_LAUNCH_BLOCKING) no kernel hides any.
 */
static inline double cost_wait_s(const struct cost_pass *cost)
{
    double ahead_s = cost->host_s - cost->blocked_s, gpu_s = cost_gpu_s(cost);
    return cost->blocked_s + (ahead_s > gpu_s ? ahead_s - gpu_s : 0);
}

/** Return all seconds of a pass except those of its ring [s]. */
static inline double cost_pass_s(const struct cost_pass *cost)
{
    double ahead_s = cost->host_s - cost->blocked_s, gpu_s = cost_gpu_s(cost);
    return cost->blocked_s + (ahead_s > gpu_s ? ahead_s : gpu_s);
}

/** Add another part of the micro-batch's pass on the same rank. The boundary stays. */
static inline void cost_add_pass(struct cost_pass *cost, const struct cost_pass *more)
{
    cost->flop += more->flop;
    cost->product_s += more->product_s;
    cost->product_flop += more->product_flop;
    cost->fp8_flop += more->fp8_flop;
    cost->cast_s += more->cast_s;
    cost->kernels_s += more->kernels_s;
    cost->host_s += more->host_s;
    cost->blocked_s += more->blocked_s;
    cost->attention_s += more->attention_s;
    cost->tensor_s += more->tensor_s;
    cost->tensor_bytes += more->tensor_bytes;
    cost->shard_s += more->shard_s;
    cost->shard_bytes += more->shard_bytes;
    cost->expert_s += more->expert_s;
    cost->expert_product_s += more->expert_product_s;
    cost->expert_product_flop += more->expert_product_flop;
    cost->combine_s += more->combine_s;
    cost->expert_bytes += more->expert_bytes;
    cost->expert_nic_bytes += more->expert_nic_bytes;
    cost->ring_bytes += more->ring_bytes;
    cost->ring_steps += more->ring_steps;
    cost->context_s += more->context_s;
    cost->context_wire_bytes += more->context_wire_bytes;
    for (int i = 0; i < COST_N_FAMILIES; i++)
        cost->extrapolated_s[i] += more->extrapolated_s[i];
}

#endif
