/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * What a finished sweep writes: NAME.h5, NAME.csv and NAME.points.csv. The bytes depend on the manifest and the results
 * alone.
 *
 * NAME.h5 holds at the root `manifest` (a row per point: id, status, message), `summary` (a row per point and system,
 * the columns of a single run), `iterations` (likewise) and `scenarios` (the resolved text of each point), all with the
 * point and the swept keys first; and, of points with a full trace, points/ID as the file of a run of that point.
 * NAME.csv is `summary`, where a point that failed is a row without numbers. NAME.points.csv is `manifest` with the
 * command that repeats each point.
 */
#ifndef SLIMSIM_SWEEP_SWEEP_OUTPUT_H
#define SLIMSIM_SWEEP_SWEEP_OUTPUT_H

#include <signal.h>

#include "sweep/finished_points.h"

/**
 * Whether DIRECTORY/NAME.h5 and NAME.csv may be replaced, by a sweep NAME.points.csv, too. Each is absent, empty or a
 * file of slimsim (trace/output.h). NAME.csv is of the same kind, as its first column says (`point` of a sweep,
 * `system` of a run). A sweep replaces only its own: one command made both, or all points of the table that stands
 * there, as NAME.points.csv names them, are the new one's, too. NAME.h5 goes with it.
 *
 * @param sweep  that would write it, with command and ids; NULL: a run
 * @return       false with err
 */
bool sweep_output_may_be_replaced(const char *directory, const char *name, const struct manifest *sweep,
                                  struct error *err);

/**
 * Write all three files below `directory`, when all points are finished. They get their names when they are whole.
 * @param stop  not 0: end; NULL: never. @return false with err, or with err untouched when *stop ended it
 */
bool sweep_output_write(const char *directory, const struct finished_points *finished,
                        const volatile sig_atomic_t *stop, struct error *err);

/** Remove temporary files that a killed writer of this name left. The caller holds the journal's lock. */
void sweep_output_clean(const char *directory, const char *name);

#endif
