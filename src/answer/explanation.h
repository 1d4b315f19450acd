/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module explains a system's MFU: where the GPUs' time goes, and what the iteration would take without a cost. */
#ifndef SLIMSIM_ANSWER_EXPLANATION_H
#define SLIMSIM_ANSWER_EXPLANATION_H

#include "base/status_line.h"
#include "bounds/path_time.h"
#include "simulate/standing.h"

enum explain_step {
#define STEP(id, key, name) EXPLAIN_##id,
#include "answer/explain_step.def"
#undef STEP
    EXPLAIN_N_STEPS
};

enum explain_free {
#define FREE(id, key, name) EXPLAIN_FREE_##id,
#include "answer/explain_free.def"
#undef FREE
    EXPLAIN_N_FREE
};

/** Keys of results, in these orders, and names for a person. */
extern const char *const explain_step_key[EXPLAIN_N_STEPS], *const explain_step_name[EXPLAIN_N_STEPS];
extern const char *const explain_free_key[EXPLAIN_N_FREE], *const explain_free_name[EXPLAIN_N_FREE];

/** An explanation of one system, over its measured iterations. */
struct explanation {
    double share[EXPLAIN_N_STEPS]; /* of peak x GPUs x time; their sum is 1 */
    struct path_time path;         /* mean critical path of an iteration [s] */
    double gain[EXPLAIN_N_FREE];   /* time of the critical path over that without the cost, less 1 */
};

/** A system that is explained. */
struct explained {
    const struct point_system *system; /* of the point */
    int32_t rank;                      /* as in struct standing */
    struct trace_summary summary;
    struct explanation explanation;
};

/** The systems that were asked for, the best first. {0} is empty. */
struct explanations {
    struct point point; /* all systems */
    int32_t n;
    struct explained *at;
};

struct explanation_options {
    const struct search_result *searches; /* as in struct point_options */
    int32_t system;                       /* the one that is asked for; -1: the first of the ranking, or all */
    bool all;                             /* each system */
    struct status_line *status;
};

/**
 * Run a scenario and explain its systems.
 *
 * 1. The time is that of the scenario's engine. GPUs without a pipeline in a phase count as waiting.
 * 2. Recomputation takes the seconds of kernels that the same plan saves without it. Padding takes those that the plan
 *    then saves without padding.
 * 3. Other kernels lose their seconds less those of their FLOPs at peak.
 * 4. A gain builds the same plan's graph with costs in which one is zero, and takes its critical path.
 * 5. Without waiting each pipeline of a phase ends its passes at the mean of all.
 *
 * @return false with err; the caller frees in any case
 */
bool explanations_find(const struct scenario *scenario, const struct lengths *lengths,
                       const struct explanation_options *options, struct explanations *explanations, struct error *err);

void explanations_free(struct explanations *explanations);

#endif
