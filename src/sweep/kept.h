/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Results that stand under a name already: a run replaces those of a run, a sweep its own, nothing else. */
#ifndef SLIMSIM_SWEEP_KEPT_H
#define SLIMSIM_SWEEP_KEPT_H

#include "sweep/manifest.h"

/**
 * Whether DIRECTORY/NAME.h5 and NAME.csv may be written, of a sweep NAME.points.csv, too. Each is absent, empty or a
 * file of slimsim (trace/output.h). NAME.csv is of the same kind, as its first column says (`point` of a sweep,
 * `system` of a run); and of the same sweep: one command made both, or all points of the table that stands there, as
 * NAME.points.csv names them, are the new one's too. NAME.h5 goes with it.
 *
 * @param sweep  that would write it, with command and ids; NULL: a run
 * @return       false with err
 */
bool kept_may_replace(const char *directory, const char *name, const struct manifest *sweep, struct error *err);

#endif
