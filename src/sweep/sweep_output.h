/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module writes the files of a finished sweep. Their bytes depend only on the manifest and the results.
 *
 * 1. NAME.h5 has four tables at its root. Point and swept keys are their first columns.
 *     - `manifest`: a row for each point, with id, status and message.
 *     - `summary`: a row for each point and system, with the columns of a single run.
 *     - `iterations`: a row for each point, system and iteration, with the columns of a single run.
 *     - `scenarios`: the resolved text of each point.
 * 2. If a point has a full trace, the group points/ID of NAME.h5 is the file of a run of that point.
 * 3. NAME.csv is `summary`. A failed point is a row without numbers.
 * 4. NAME.points.csv is `manifest` with the command that repeats each point.
 */
#ifndef SLIMSIM_SWEEP_SWEEP_OUTPUT_H
#define SLIMSIM_SWEEP_SWEEP_OUTPUT_H

#include <signal.h>

#include "sweep/finished_points.h"

/**
 * Return whether DIRECTORY/NAME.h5 and NAME.csv may be replaced. For a sweep this includes NAME.points.csv.
 *
 * 1. Each file must be absent, empty or a file of slimsim (trace/output.h).
 * 2. NAME.csv must be of the same kind, which its first column tells: `point` for a sweep, `system` for a run.
 * 3. A sweep may only replace its own files. They are its own if one command made both. They are also its own if all
 *    points of the existing NAME.points.csv are in the new sweep.
 * 4. NAME.h5 is not checked further; it belongs to NAME.csv.
 *
 * @param sweep  that would write them, with command and ids; NULL: a run
 * @return       false with err
 */
bool sweep_output_may_be_replaced(const char *directory, const char *name, const struct manifest *sweep,
                                  struct error *err);

/**
 * Write all three files below `directory`, once all points are finished. The files get their names when they are
 * complete.
 * @param stop  not 0: end; NULL: never
 * @return      false with err, or with err untouched if *stop ended it
 */
bool sweep_output_write(const char *directory, const struct finished_points *finished,
                        const volatile sig_atomic_t *stop, struct error *err);

/** Remove temporary files that a killed writer of this name left. The caller holds the journal's lock. */
void sweep_output_clean(const char *directory, const char *name);

#endif
