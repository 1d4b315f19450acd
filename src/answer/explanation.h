/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module explains a system's MFU: where the GPUs' time goes, and what the iteration would take without a cost. */
#ifndef SLIMSIM_ANSWER_EXPLANATION_H
#define SLIMSIM_ANSWER_EXPLANATION_H

#include "sweep/what_if.h"

enum explain_step {
#define STEP(id, key, name) EXPLAIN_##id,
#include "answer/explain_step.def"
#undef STEP
    EXPLAIN_N_STEPS
};

/** Keys of results in this order, and names for a person. */
extern const char *const explain_step_key[EXPLAIN_N_STEPS], *const explain_step_name[EXPLAIN_N_STEPS];

/** A system that is explained over its measured iterations. */
struct explained {
    const char *label;             /* borrowed */
    struct trace_summary summary;  /* with its rank */
    double share[EXPLAIN_N_STEPS]; /* of peak x GPUs x time; their sum is 1 */
    struct path_time path;         /* mean critical path of an iteration [s] */
    double gain[N_FREE_COSTS];     /* time of the critical path over that without the cost, less 1 */
};

/** The systems that were asked for, the best first. {0} is empty. */
struct explanations {
    int32_t n;
    struct explained *at;
};

struct explanation_options {
    int32_t system; /* the one that is asked for; -1: the first of the ranking, or all */
    bool all;       /* each system */
    const struct what_if_options *how;
};

/**
 * Run a scenario and explain its systems. Each system is a question of its own. The first of the ranking is priced in
 * one more.
 *
 * 1. The time is that of the scenario's engine. GPUs without a pipeline in a phase count as waiting.
 * 2. Recomputation and padding take the seconds that simulate/free_cost.h finds for them.
 * 3. Other kernels lose their seconds less those of their FLOPs at peak.
 *
 * @return  false with err, or with err untouched if *stop ended it; the caller frees in any case
 */
bool explanations_find(const struct scenario *scenario, const struct explanation_options *options,
                       struct explanations *explanations, struct error *err);

void explanations_free(struct explanations *explanations);

#endif
