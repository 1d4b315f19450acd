/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Seconds and bytes of passes, transfers and collectives: pure functions of model, device, platform and setting. */
#ifndef SLIMSIM_COST_COST_H
#define SLIMSIM_COST_COST_H

#include "cost/flop.h"
#include "cost/slice.h"
#include "scenario/scenario.h"

/** What all costs of one pipeline have in common. All pointers are borrowed. */
struct cost_setting {
    const struct model *model;
    const struct device *device;
    const struct platform *platform;
    struct scenario_communication communication;
    enum device_attention attention;
    int32_t tensor; /* TP degree */
    int32_t layers; /* of one stage */
};

/** One unit (micro-batch or MicroPack) as one of its `context` ranks computes it. */
struct cost_unit {
    const struct slice *slices;
    int32_t n_slices;
    int32_t padding_tokens; /* computed on in GEMMs, not in attention */
    int32_t context;        /* CP degree: the rank does 1/context of every slice */
    enum recompute recompute;
};

/** One pass of one unit on one rank of a stage. All per rank; seconds without contention. */
struct cost_pass {
    double flop;           /* executed by this rank, recomputation included */
    double other_s;        /* GEMMs, memory-bound kernels, launches; what cannot overlap with the ring */
    double attention_s;    /* attention kernels; the ring of CP may run beside them */
    double tensor_s;       /* exposed tensor-parallel collectives, already part of no other field */
    double tensor_bytes;   /* a TP rank sends in them */
    double ring_bytes;     /* a CP rank sends to the next one (keys and values; backward: and their gradients) */
    int32_t ring_steps;    /* messages in the ring, for its latency */
    double boundary_bytes; /* to the next (backward: previous) stage, per TP and CP rank */
};

/** The layers of a stage. Uneven stages and embedding: free. */
struct cost_pass cost_of_pass(const struct cost_setting *setting, enum pass pass, const struct cost_unit *unit);

/** What the last stage adds: final norm, head GEMM, cross-entropy. */
struct cost_pass cost_of_head(const struct cost_setting *setting, enum pass pass, const struct cost_unit *unit);

/** time of one kernel [s]; source of each form: scenario/device.h. */
double cost_gemm_s(const struct device *device, double m, double n, double k);
double cost_attention_s(const struct device *device, enum device_attention kernel, enum pass pass, double flop,
                        double queries, double keys, double head_dim);
double cost_memory_bound_s(const struct device *device, double bytes);

/** A transfer: latency paid first, then wire_bytes at the full bandwidth of the slowest link (bytes over the link's
 * efficiency). */
struct cost_transfer {
    double latency_s, wire_bytes, bytes_per_s, duration_s; /* duration = latency + wire/bandwidth, alone on its links */
};

enum cost_route { COST_NVLINK, COST_NIC, COST_PCIE };

/** `steps` messages of a pipelined transfer of `bytes` in all over one kind of link. 0 bytes take 0 s. */
struct cost_transfer cost_of_transfer(const struct cost_setting *setting, enum cost_route route, double bytes,
                                      int32_t steps);

/** Optimizer step of `parameters` parameters held by one rank (Adam, fp32 states): memory-bound. */
double cost_optimizer_s(const struct device *device, double parameters);

/** Held from forward to backward, per token and layer, on one TP rank [bytes]. Design section 4; sliced: the sample
 * stands in more than one unit. */
double cost_activation_bytes(const struct model *model, enum recompute recompute, int32_t tensor, bool sliced);

/** Keys and values (also: their gradients) of one token and layer on one TP rank: 4k / TP [bytes]. */
double cost_kv_bytes(const struct model *model, int32_t tensor);

/** Parameters of one TP rank of a stage (embedding on the first, norm and head on the last). */
double cost_stage_parameters(const struct model *model, int32_t tensor, int32_t layers, bool first, bool last);

/** Weights, gradients and optimizer states of one rank: parameters x (2 + 4 + 12/shards) [bytes]. */
double cost_state_bytes(double parameters, int32_t shards);

/** Working memory while one layer of `tokens` tokens computes (its recomputed activations, or gradients of its widest
 * tensors) [bytes]. */
double cost_workspace_bytes(const struct model *model, enum recompute recompute, int32_t tensor, double tokens);

/** Logits and their gradient on the last stage: 6V/TP a token [bytes]. */
double cost_logits_bytes(const struct model *model, int32_t tensor, double tokens);

#endif
