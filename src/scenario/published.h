/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Cost constants that authors published for their own planner, in place of a device's curves: model/published_cost. */
#ifndef SLIMSIM_SCENARIO_PUBLISHED_H
#define SLIMSIM_SCENARIO_PUBLISHED_H

#include "scenario/schema.h"

/** Of a group of d ranks: (quadratic_s s^2 + linear_s s)/d of each sequence of s tokens, constant_s of a micro-batch,
 * all-to-alls at exchange_bytes_per_s of its degree. */
struct published_cost {
    char source[512];
    double quadratic_s, linear_s, constant_s;
    double activation_bytes;                  /* of a token */
    double state_bytes;                       /* of a parameter, shared by all ranks */
    double budget_bytes;                      /* of a rank, for both */
    struct schema_ints degrees;               /* 2, 4, 8, ... */
    struct schema_reals exchange_bytes_per_s; /* of each */
};

/** NAME of model/published_cost, or the path of a .yaml file. Degrees that are not 2, 4, 8, ... are an error. */
bool published_cost_read(const char *data_dir, const char *name, struct published_cost *cost, struct error *err);

#endif
