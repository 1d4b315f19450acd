/* SPDX-License-Identifier: GPL-3.0-or-later */
/** The candidates of a choice, listed with their bounds. */
#ifndef SLIMSIM_SYSTEM_SLIMPACK_LIST_H
#define SLIMSIM_SYSTEM_SLIMPACK_LIST_H

#include "system/slimpack_candidates.h"

/** A plan that ends later is of no use [s]. */
double slimpack_useful_s(const struct slimpack_choice *choice);

/** Whether the bounds rule a candidate out. */
bool slimpack_is_hopeless(const struct slimpack_choice *choice, double bound_s, double bound_bytes);

/** Whether the least memory of the part's longest sample (slimpack_sample_bytes) leaves any candidate a chance. */
bool slimpack_longest_fits(const struct slimpack_choice *choice);

/** Give a phase its orders. */
void slimpack_order(struct plan_phase *phase, enum slimpack_injection policy);

/** Factors that the knobs allow, and the m of one. */
int32_t slimpack_n_factors(const struct slimpack_choice *choice);
int64_t slimpack_units_of(const struct slimpack_choice *choice, int32_t i);

/** List a shape, asymmetric where the knobs allow, and `both`: symmetric. */
void slimpack_list_shapes(struct slimpack_choice *choice, struct slimpack_shape shape, bool both);

/** List what is more even, between the factors' m: of several components for each its own. */
void slimpack_list_between(struct slimpack_choice *choice);

/** unit_spread: list what keeps to it, or spreads least. */
void slimpack_list_spread(struct slimpack_choice *choice);

/** Of the factors' most even units those that are no more than the candidate's and more even, most even first (ties:
 * the nearest to its m, the lower). @param m  [SLIMPACK_N_FACTORS] @return how many */
int32_t slimpack_even_steps(const struct slimpack_choice *choice, const struct slimpack_candidate *own, int64_t *m);

#endif
