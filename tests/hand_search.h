/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Tests of search/ read a scenario of one searched system here and search its plans. */
#ifndef SLIMSIM_TESTS_HAND_SEARCH_H
#define SLIMSIM_TESTS_HAND_SEARCH_H

#include "search/search.h"

/** A scenario of one system, which is read, and its lengths. */
struct hand_search {
    struct scenario scenario;
    struct lengths lengths;
    struct search_result result;
};

/** The scenario's values. Knobs may begin with "offload: plan, ", which is the entry's key. A
 * space without a name is `free`. */
struct hand_cell {
    const char *model, *platform, *system, *context, *space, *knobs;
    int seed; /* 6 to 11: narrow heads, 12 to 17: wide ones */
};

/** Read the scenario. hand_close_cell frees it in any case. @return whether a search of it can start */
bool hand_open_cell(struct hand_search *hand, const struct hand_cell *cell, struct error *err);

/** Read the scenario and search it. An error is a bug. */
void hand_search_cell(struct hand_search *hand, const struct hand_cell *cell, bool exhaustive);

void hand_close_cell(struct hand_search *hand);

/** Take the first of the ranking, which must hold a plan. */
const struct search_plan *hand_chosen(const struct hand_search *hand);

/** Say whether two plans have the same layout, sharding, recomputation and offload. */
bool hand_same_choice(const struct search_plan *a, const struct search_plan *b);

/** Check a condition and name the cell. */
void hand_check_cell(bool holds, const struct hand_cell *cell, const char *what);

#endif
