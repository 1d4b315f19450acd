/* SPDX-License-Identifier: GPL-3.0-or-later */
/** `plan: auto` for the verbs that run a scenario: the search, its progress, and what it found. */
#ifndef SLIMSIM_CLI_PLAN_SEARCH_H
#define SLIMSIM_CLI_PLAN_SEARCH_H

#include <jansson.h>

#include "cli/command.h"
#include "search/search.h"

/** What was searched, a result a system of the scenario; an empty one where its plan was given. {0} is empty. */
struct plan_search {
    int32_t n_systems;
    struct search_result *results;
};

/** Search what the scenario leaves to `plan: auto` and fill it in. With progress on stderr, if that is a terminal. */
bool plan_search_run(struct scenario *scenario, const struct lengths *lengths, const struct options *options,
                     struct plan_search *search, struct error *err);

/** A paragraph a searched system: how many plans, what ruled them out, the chosen one and the runners-up. */
void plan_search_print(const struct scenario *scenario, const struct plan_search *search);

/** The same of one system, all ranked plans among it; NULL: it was not searched. */
json_t *plan_search_json(const struct scenario *scenario, const struct plan_search *search, int32_t system);

void plan_search_free(struct plan_search *search);

#endif
