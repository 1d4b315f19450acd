/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module lists the plans of a space. */
#ifndef SLIMSIM_SEARCH_SPACE_H
#define SLIMSIM_SEARCH_SPACE_H

#include "search/search_result.h"

/**
 * Return every plan that the entry's space, the model, the platform and the system allow, in the order of
 * search/search.h. A system with these knobs may decide recomputation or offload itself. Then only plans with the
 * space's least recomputation, or without offload, are listed. Caller frees. @return NULL for none
 */
struct search_plan *space_plans(const struct scenario *scenario, const struct scenario_system *entry,
                                const struct training_system *system, const void *knobs, int32_t *n_plans);

#endif
