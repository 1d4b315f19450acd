/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Results that stand under a name already: a run replaces those of a run, a sweep those of a sweep, nothing else. */
#ifndef SLIMSIM_SWEEP_KEPT_H
#define SLIMSIM_SWEEP_KEPT_H

#include "base/error.h"

/**
 * Whether DIRECTORY/NAME.csv may be written by a sweep, or else by a run: it is absent, empty or of the same kind, as
 * its first column says (`point` of a sweep, `system` of a run). NAME.h5 goes with it.
 * @return false with err (ERROR_CANT_CREATE)
 */
bool kept_may_replace(const char *directory, const char *name, bool sweep, struct error *err);

#endif
