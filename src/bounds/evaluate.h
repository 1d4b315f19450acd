/* SPDX-License-Identifier: GPL-3.0-or-later */
/** The evaluation of a plan on the critical path, and which of two plans is better. */
#ifndef SLIMSIM_BOUNDS_EVALUATE_H
#define SLIMSIM_BOUNDS_EVALUATE_H

#include "bounds/memory.h"
#include "plan/request.h"

struct evaluation {
    double makespan_s;
    double peak_bytes;       /* of the rank that needs most */
    double host_bytes;       /* of the node that holds most for its GPUs */
    int32_t stage;           /* of that rank */
    enum memory_class class; /* the largest at its peak; ties: the first */
};

/** The memory that a plan may use. */
struct evaluation_limits {
    double gpu_bytes;  /* of a rank */
    double host_bytes; /* of a node's host */
};

/** The limit that a plan exceeds; the GPU's comes before the host's. */
enum exceeded_limit { EXCEEDED_NONE, EXCEEDED_GPU_MEMORY, EXCEEDED_HOST_MEMORY, EXCEEDED_N_LIMITS };

/** The limits of a rank with `gpu_bytes` on a platform. */
static inline struct evaluation_limits evaluation_limits_of(double gpu_bytes, const struct platform *platform)
{
    return (struct evaluation_limits){.gpu_bytes = gpu_bytes, .host_bytes = platform->host_memory_bytes};
}

enum exceeded_limit evaluation_exceeds(const struct evaluation *evaluation, const struct evaluation_limits *limits);

/** The largest share by which it exceeds a limit; 0: it fits. */
double evaluation_excess(const struct evaluation *evaluation, const struct evaluation_limits *limits);

/** Below 0 if `a` is better: the smaller excess, so one that fits first; then the smaller makespan. 0: the caller takes
 * the lower index. */
int evaluation_compare(const struct evaluation *a, const struct evaluation *b, const struct evaluation_limits *limits);

/** Make `worst` the worst of both: the longer makespan, the higher peak with its stage and class, the fuller host. */
void evaluation_join(struct evaluation *worst, const struct evaluation *other);

/** The arrays of an evaluation. {0} at first; their room is used again. After evaluate() they hold its plan's. */
struct evaluator {
    int32_t n_gpus; /* of memory_host_of */
    struct dag dag;
    struct timeline timeline;
    struct memory memory;
};

/** Build the graph of a plan and resolve it by the critical path.
 * @return false with err: the plan cannot run */
bool evaluate_time(struct evaluator *evaluator, const struct plan *plan, const struct cost_setting *setting,
                   struct dag_options options, struct error *err);

/** The evaluation of the graph that evaluate_time built, at the times of a timeline of either engine. */
struct evaluation evaluate_memory(struct evaluator *evaluator, const struct plan *plan,
                                  const struct cost_setting *setting, const struct timeline *timeline);

/** evaluate_time, and evaluate_memory at its times. */
bool evaluate(struct evaluator *evaluator, const struct plan *plan, const struct cost_setting *setting,
              struct dag_options options, struct evaluation *evaluation, struct error *err);

/** The evaluation by the evaluator's memory and the end of a timeline. */
struct evaluation evaluation_of(const struct evaluator *evaluator, const struct plan *plan,
                                const struct platform *platform, const struct timeline *timeline);

void evaluator_free(struct evaluator *evaluator);

#endif
