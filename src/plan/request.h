/* SPDX-License-Identifier: GPL-3.0-or-later */
/** A request for a plan: a batch, costs and limits, and what follows from them for every system. */
#ifndef SLIMSIM_PLAN_REQUEST_H
#define SLIMSIM_PLAN_REQUEST_H

#include "cost/cost.h"
#include "lengths/lengths.h"
#include "plan/plan.h"

/** A question to a training system: all that its plan() may know. Everything is borrowed and constant. Random numbers
 * come from iteration and seed alone. */
struct plan_request {
    const struct batch *batch;
    const struct cost_setting *setting; /* TP degree and layers of a virtual stage filled in */
    struct scenario_plan layout;        /* dp filled in */
    int64_t context;                    /* longest sample [tokens] */
    double memory_bytes;                /* a rank may use */
    int64_t iteration, seed;
    const void *knobs; /* the system's own struct, filled from its table */
    double limit_s;    /* 0: none. Else nobody wants a plan that exceeds memory_bytes, or whose passes end later than
                          this (critical path): in its place the system may give a plan without phases */
};

/** What a rank may allocate: memory_limit of the device's memory less CUDA context and NCCL [bytes]. */
double request_memory_bytes(const struct scenario *scenario);

/** Costs of a plan under the scenario; both are borrowed. */
struct cost_setting request_setting(const struct scenario *scenario, const struct scenario_plan *plan);

/** The request for one iteration's plan with the scenario's seed. Everything is borrowed. */
struct plan_request plan_request_of(const struct scenario *scenario, const struct cost_setting *setting,
                                    const struct scenario_plan *layout, const struct batch *batch, const void *knobs,
                                    int64_t iteration);

/** Whether units that offload stream (plan_unit.streams): on one virtual stage what goes to the host is soon back. */
bool request_streams(const struct plan_request *request);

/** The share of a unit's activations that goes to the host where the plan says `offload`: `offload` itself; where units
 * stream, `offload` of all layers but the first and the last (as ByteScale's eq. 3, bytescale.c). */
double request_offload_share(const struct plan_request *request, double offload);

/** Give a unit the plan's offload. */
void request_offload(const struct plan_request *request, struct plan_unit *unit);

/** Pipelines of one phase, laid out as Megatron does: TP fastest, then CP, DP, PP. */
void request_megatron_layout(const struct plan_request *request, struct plan_phase *phase);

/** The layout of one of them. */
struct plan_layout request_pipeline_layout(const struct plan_request *request, int32_t pipeline);

#endif
