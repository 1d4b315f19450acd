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
#ifndef SLIMSIM_SWEEP_BOOK_H
#define SLIMSIM_SWEEP_BOOK_H

#include "sweep/manifest.h"
#include "sweep/result.h"

/** The result of each point, in order. The book frees them. */
typedef bool book_source(void *context, int32_t point, struct result *result, struct error *err);

/**
 * Write all three files below `directory`. They get their names when they are whole.
 * @param n_failed  points that are not done
 */
bool book_write(const char *directory, const struct manifest *manifest, book_source *source, void *context,
                int32_t *n_failed, struct error *err);

/** Remove temporary files that a killed writer of this name left. The caller holds the journal's lock. */
void book_clean(const char *directory, const char *name);

#endif
