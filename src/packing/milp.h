/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Mixed-integer linear programs through GLPK, quiet, and the same on every machine: limits are the callback's, in
 * nodes. */
#ifndef SLIMSIM_PACKING_MILP_H
#define SLIMSIM_PACKING_MILP_H

#include <glpk.h>
#include <stdbool.h>

/**
 * The relaxed program by the simplex method, then branch and bound.
 *
 * @param callback  GLPK's, which may offer solutions and terminate the search
 * @param finished  whether the search came to its end: the solution is optimal
 * @return whether there is a solution, optimal or not; without one the program stands as it did
 */
bool milp_solve(glp_prob *program, void (*callback)(glp_tree *tree, void *context), void *context, bool *finished);

#endif
