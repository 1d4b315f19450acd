/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module handles `plan: auto` for the verbs that run a scenario: the search, its progress and its result. */
#ifndef SLIMSIM_CLI_PLAN_SEARCH_H
#define SLIMSIM_CLI_PLAN_SEARCH_H

#include <jansson.h>

#include "cli/command.h"
#include "search/search.h"

/**
 * It has a search result for each system of the scenario. The result is empty if the system had a
 * plan. {0} is empty.
 */
struct plan_search {
    int32_t n_systems;
    struct search_result *results;
};

/**
 * Search the plans that the scenario leaves to `plan: auto` and fill them in. A terminal on stderr
 * shows the progress.
 */
bool plan_search_run(struct scenario *scenario, const struct lengths *lengths, const struct options *options,
                     struct plan_search *search, struct error *err);

/** Print a paragraph for each searched system: number of plans, reasons of exclusions, chosen plan, runners-up. */
void plan_search_print(const struct scenario *scenario, const struct plan_search *search);

/** Return the same of one system with all ranked plans. NULL: it was not searched. */
json_t *plan_search_json(const struct scenario *scenario, const struct plan_search *search, int32_t system);

void plan_search_free(struct plan_search *search);

#endif
