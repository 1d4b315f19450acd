/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module evaluates a plan on the critical path, and compares two evaluations. */
#ifndef SLIMSIM_BOUNDS_EVALUATE_H
#define SLIMSIM_BOUNDS_EVALUATE_H

#include "bounds/memory.h"
#include "plan/request.h"

struct evaluation {
    double makespan_s;
    double peak_bytes;       /* of the rank with the highest peak */
    double host_bytes;       /* of the node with most offloaded bytes */
    int32_t stage;           /* of that rank */
    enum memory_class class; /* largest class at its peak; ties: the first */
};

/** The memory that a plan may use. */
struct evaluation_limits {
    double gpu_bytes;  /* of a rank */
    double host_bytes; /* of a node's host */
};

/** The limit that a plan exceeds. The GPU's limit comes before the host's. */
enum exceeded_limit { EXCEEDED_NONE, EXCEEDED_GPU_MEMORY, EXCEEDED_HOST_MEMORY, EXCEEDED_N_LIMITS };

/** Return the limits of a rank with `gpu_bytes` on a platform. */
static inline struct evaluation_limits evaluation_limits_of(double gpu_bytes, const struct platform *platform)
{
    return (struct evaluation_limits){.gpu_bytes = gpu_bytes, .host_bytes = platform->host_memory_bytes};
}

enum exceeded_limit evaluation_exceeds(const struct evaluation *evaluation, const struct evaluation_limits *limits);

/** Return the largest share by which an evaluation exceeds a limit; 0: it fits. */
double evaluation_excess(const struct evaluation *evaluation, const struct evaluation_limits *limits);

/**
 * Compare two evaluations; below 0: `a` is better. Prefer the smaller excess (0 if it fits), then the smaller makespan.
 * 0: the caller prefers the lower index.
 */
int evaluation_compare(const struct evaluation *a, const struct evaluation *b, const struct evaluation_limits *limits);

/** Make `worst` the worse of both: the longer makespan, the higher peak with its stage and class, the fuller host. */
void evaluation_join(struct evaluation *worst, const struct evaluation *other);

/** Arrays of an evaluation, {0} at first, reused by the next one. After evaluate() they describe its plan. */
struct evaluator {
    int32_t n_gpus; /* n_gpus of memory_host_of */
    struct dag dag;
    struct timeline timeline;
    struct memory memory;
};

/**
 * Build the graph of a plan and resolve it by the critical path.
 * @return false with err: the plan cannot run
 */
bool evaluate_time(struct evaluator *evaluator, const struct plan *plan, const struct cost_setting *setting,
                   struct dag_options options, struct error *err);

/** Return the evaluation of the graph that evaluate_time built, at the times of a timeline of either engine. */
struct evaluation evaluate_memory(struct evaluator *evaluator, const struct plan *plan,
                                  const struct cost_setting *setting, const struct timeline *timeline);

/** Call evaluate_time, then evaluate_memory at its times. */
bool evaluate(struct evaluator *evaluator, const struct plan *plan, const struct cost_setting *setting,
              struct dag_options options, struct evaluation *evaluation, struct error *err);

/** Return the evaluation by the evaluator's memory and the end of a timeline. */
struct evaluation evaluation_of(const struct evaluator *evaluator, const struct plan *plan,
                                const struct platform *platform, const struct timeline *timeline);

void evaluator_free(struct evaluator *evaluator);

#endif
