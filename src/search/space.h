/* SPDX-License-Identifier: GPL-3.0-or-later */
/** The plans of a space. */
#ifndef SLIMSIM_SEARCH_SPACE_H
#define SLIMSIM_SEARCH_SPACE_H

#include "search/search_result.h"

/**
 * Every plan that the entry's space, the model, the platform and the system allow, in the order of search/search.h;
 * of a system that decides recomputation or offload itself with these knobs those of the space's least recomputation
 * and without offload alone.
 * Caller frees. @return NULL for none
 */
struct search_plan *space_plans(const struct scenario *scenario, const struct scenario_system *entry,
                                const struct training_system *system, const void *knobs, int32_t *n_plans);

#endif
