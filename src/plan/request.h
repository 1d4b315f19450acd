/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This file makes requests for plans: a batch, costs and limits, and what follows from them for every system. */
#ifndef SLIMSIM_PLAN_REQUEST_H
#define SLIMSIM_PLAN_REQUEST_H

#include "cost/setting.h"
#include "lengths/lengths.h"
#include "plan/plan.h"

/** A request to a training system, with everything that its plan() may read. All of it is borrowed and constant.
 * Random numbers depend on iteration and seed only. */
struct plan_request {
    const struct batch *batch;
    const struct cost_setting *setting; /* TP degree and layers of a virtual stage are filled in */
    struct scenario_plan layout;        /* dp is filled in */
    int64_t context;                    /* longest sample [tokens] */
    double memory_bytes;                /* memory that a rank may use */
    int64_t iteration, seed;
    const void *knobs; /* the system's own struct, filled from its table */
    double limit_s;    /* search cut-off; 0: none. plan() may return a plan without phases if the plan would exceed
                          memory_bytes, or its passes would end later (critical path) */
};

/** Return the memory that a rank may allocate: memory_limit of the device's memory without CUDA context and NCCL
 * [bytes]. A plan that needs more does not fit. */
double request_memory_bytes(const struct scenario *scenario);

/** Return the memory up to which a plan fits surely [bytes]. Then request_memory_bytes also holds what PyTorch's
 * allocator reserves beside it (model/memory_pressure.yaml). A plan between the two fits tightly. */
double request_sure_bytes(const struct scenario *scenario);

/** Return the memory that a plan may use by its key `fits`: one of these two [bytes]. */
double request_planned_bytes(const struct scenario *scenario, const struct scenario_plan *plan);

/** Return the costs of a plan under the scenario. Both are borrowed. */
struct cost_setting request_setting(const struct scenario *scenario, const struct scenario_plan *plan);

/** Return the request for one iteration's plan, with the scenario's seed. All arguments are borrowed. */
struct plan_request plan_request_of(const struct scenario *scenario, const struct cost_setting *setting,
                                    const struct scenario_plan *layout, const struct batch *batch, const void *knobs,
                                    int64_t iteration);

/** Refuse rings if the model has windows. Systems call it that give several DP ranks to a sample. */
bool request_check_windows(const struct plan_request *request, const char *system, struct error *err);

/** Return whether micro-batches that offload stream (plan_micro_batch.streams). On a single virtual stage activations
 * soon come back from the host. */
bool request_streams(const struct plan_request *request);

/** Return the share of a micro-batch's activations that goes to the host if the plan says `offload`. It is `offload`.
 * If micro-batches stream, it is `offload` of all layers except the first and the last (ByteScale's eq. 3,
 * bytescale.c). */
double request_offload_share(const struct plan_request *request, double offload);

/** Give a micro-batch the plan's offload. */
void request_offload(const struct plan_request *request, struct plan_micro_batch *micro_batch);

/** Lay out the pipelines of one phase as Megatron does: TP fastest, then CP, DP, PP. */
void request_megatron_layout(const struct plan_request *request, struct plan_phase *phase);

/** Return the layout of one of these pipelines. */
struct plan_layout request_pipeline_layout(const struct plan_request *request, int32_t pipeline);

#endif
