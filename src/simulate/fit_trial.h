/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module tries one value of a key: it searches the plan of a system anew and says whether it fits. */
#ifndef SLIMSIM_SIMULATE_FIT_TRIAL_H
#define SLIMSIM_SIMULATE_FIT_TRIAL_H

#include "simulate/summary.h"

struct fit_trial {
    int64_t value;
    bool fits;
    char *refusal;                   /* why the value cannot run; NULL: it ran, and the rest is filled in */
    struct scenario_plan plan;       /* of least excess if none fits */
    struct trace_summary summary;    /* over the scenario's iterations */
    struct evaluation_limits limits; /* of its memory */
    int64_t longest_tokens;          /* longest sample of these iterations */
};

/**
 * Run a scenario of one system with another value of a key, on the critical path and over the scenario's own
 * iterations. Threads may call it side by side. Only their plan searches overlap.
 *
 * @param document  the scenario as scenario_read_document returned it, with one system
 * @param progress  of the plan search
 * @param trial     the caller frees its refusal
 * @return          false with err: the simulation failed
 */
bool fit_trial_run(const struct document *document, const char *key, int64_t value,
                   const struct search_options *progress, struct fit_trial *trial, struct error *err);

#endif
