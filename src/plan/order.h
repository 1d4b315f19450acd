/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Builders of step orders: services that any training system can use. */
#ifndef SLIMSIM_PLAN_ORDER_H
#define SLIMSIM_PLAN_ORDER_H

#include "plan/plan.h"

/** What to do when a backward unit needs forwards that 1F1B alone has not yet run (SlimPack section 4.2). */
enum order_injection {
    ORDER_JUST_IN_TIME, /* inject when needed, let the lead shrink again: n(j) = max(j+1, need(j), n(j-1)) */
    ORDER_PERSISTENT,   /* keep the lead: n(j) = max(n(j-1)+1, need(j)) */
};

/**
 * 1F1B: stage s of p runs min(m, n(j) + p-1-s) forwards before backward j, n(j) as the injection policy says
 * (need(j) = j+1 gives plain 1F1B: p-1-s warm-up forwards, then one forward, one backward). Reads need[] and the cuts'
 * n_units; replaces step_first and steps.
 * Source: Narayanan et al. 2021 (arXiv:2104.04473) section 2.2; SlimPack section 4.2.
 */
void order_one_f_one_b(struct plan_pipeline *pipeline, enum order_injection injection);

#endif
