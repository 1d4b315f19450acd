/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This file solves mixed-integer linear programs through GLPK. It prints nothing, and results are the same on every
 * machine, because the callback limits nodes. */
#ifndef SLIMSIM_PACKING_MILP_H
#define SLIMSIM_PACKING_MILP_H

#include <glpk.h>
#include <stdbool.h>

/**
 * Solve the relaxed program by the simplex method, then run branch and bound.
 *
 * @param callback  GLPK's callback, which may offer solutions and terminate the search
 * @param finished  whether the search came to its end, so that the solution is optimal
 * @return          whether there is a solution, optimal or not. Without one the program is unchanged
 */
bool milp_solve(glp_prob *program, void (*callback)(glp_tree *tree, void *context), void *context, bool *finished);

#endif
