/* SPDX-License-Identifier: GPL-3.0-or-later */
/** All components of a split with one set of knobs (slimpack_choose says what each of them chooses). */
#ifndef SLIMSIM_SYSTEM_SLIMPACK_SOLVE_H
#define SLIMSIM_SYSTEM_SLIMPACK_SOLVE_H

#include "system/slimpack_candidates.h"

/** How all components of a split are solved. */
struct slimpack_how {
    bool even_host; /* as memory_fit_rule's, of each component */
    bool less;      /* parts are switched off: of use if it fits and is faster than what fits */
};

/** All components of a split, and the worst of them. */
struct slimpack_solution {
    struct plan plan; /* one phase; none where it is given up */
    struct slimpack_how how;
    struct fill_search search; /* of packer milp */
    struct slimpack_outcome worst;
    bool given_up;   /* a component exceeds the limit */
    bool evened;     /* a component has taken more even units */
    bool host_binds; /* but for the memory of a node's host it would fit */
};

/** What is not better than an outcome: slower or not fitting where it fits, else in need of more memory. */
struct slimpack_limit slimpack_limit_of(const struct memory_fit_outcome *outcome, double memory_bytes);

/** Let each component choose, even out those that do not decide unless that does not fit the host, and join them. The
 * caller frees the plan. */
bool slimpack_solve(const struct plan_request *request, const struct slimpack_split *split, struct slimpack_how how,
                    struct slimpack_limit limit, struct slimpack_solution *solution, struct error *err);

#endif
