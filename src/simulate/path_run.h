/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module runs a scenario on the critical path, to compare it with others. */
#ifndef SLIMSIM_SIMULATE_PATH_RUN_H
#define SLIMSIM_SIMULATE_PATH_RUN_H

#include "simulate/point_runner.h"

/** A scenario that is run. {0} is empty. */
struct path_run {
    struct scenario scenario;
    struct lengths lengths;
    struct search_result *searches; /* [scenario.n_systems] */
    struct point point;
};

/**
 * Resolve and check a scenario, open its lengths and choose its attention. It takes over the document.
 * @param run  {0}; the caller frees it, also after a failure
 */
bool path_run_prepare(struct document *document, struct path_run *run, struct error *err);

/** Search the plans that the scenario leaves to a search. */
bool path_run_search(struct path_run *run, const struct search_options *options, struct error *err);

/** Run all systems. @param observer  NULL: none */
bool path_run_execute(struct path_run *run, point_observer *observer, void *context, struct error *err);

void path_run_free(struct path_run *run);

#endif
