/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module reads `sweep:` of a scenario and lists its points.
 *
 *     sweep:
 *       data.context: [64Ki, 128Ki]                    a grid: each key with each value of the others
 *       seed: {range: [1, 9, 2]}                       1, 3, 5, 7, 9; the step is 1 if it is left out
 *       data.global_batch: {log2: [64, 512]}           64, 128, 256, 512
 *       zip:                                           keys that vary together, in groups
 *         - {model: [llama-7b, llama-70b], platform: [hopper-16x8, hopper-32x8]}
 *         - [{systems.0.plan.tp: 4, systems.0.plan.pp: 2}, {systems.0.plan.tp: 2, systems.0.plan.pp: 4}]
 *       each: {attention: [flash2, cudnn], seed: [7]}  as in the scenario; flash2; cudnn; seed 7
 *       exclude:                                       points that satisfy all conditions are left out
 *         - {where: {model: llama-7b, data.context: ">64Ki"}, reason: ...}
 *       replicates: 3                                  seeds s, s + 1, s + 2, if s is the scenario's
 *
 * 1. Keys and values are those of the scenario. A value may be a mapping or list.
 * 2. Keys vary in the order they are written. The last one varies fastest, and replicates vary faster still.
 * 3. `each:` is one axis: the scenario itself, then each value of each key alone. `{range:}` and `{log2:}` are allowed.
 * 4. A sweep has at most AXIS_MAX_POINTS, before `exclude`.
 */
#ifndef SLIMSIM_SWEEP_AXIS_H
#define SLIMSIM_SWEEP_AXIS_H

#include "document/document.h"

enum { AXIS_MAX_POINTS = 1000000 }; /* each takes a few hundred bytes of memory and kilobytes of disk */

/** An axis has one or several keys that vary together. */
struct axis {
    int32_t n_keys, n_values;
    const char **key; /* borrowed from the document, or constant */
    int32_t *node;    /* [n_values][n_keys] of the document; -1: the key stays as it is */
};

struct exclusion {
    int32_t where;      /* mapping of conditions */
    const char *reason; /* borrowed */
    int32_t n_points;   /* points that it left out and no earlier exclusion did */
};

struct sweep {
    struct document document; /* the scenario with its `sweep:` */
    int32_t n_axes, n_exclusions, n_points;
    size_t axis_capacity, exclusion_capacity;
    struct axis *axes;
    struct exclusion *exclusions;
    int32_t *combination; /* number of each point in the whole grid */
    int32_t n_columns;    /* keys of all axes, in order */
    const char **column;
};

/** Return whether the scenario has a sweep. */
bool sweep_present(const struct document *document);

/**
 * Take the document over and read its `sweep:`. Without keys it is one point. All errors have file:line:column. The
 * caller frees in any case.
 */
bool sweep_read(struct document *document, struct sweep *sweep, struct error *err);

/** Make the scenario of one point: the document with the point's values and without `sweep:`. The caller frees it. */
bool sweep_point(const struct sweep *sweep, int32_t point, struct document *document, struct error *err);

/** Return the value of a column at a point as YAML flow text, as the user wrote it. A key that neither an axis nor the
 * scenario sets is "default". The caller frees it. */
char *sweep_value(const struct sweep *sweep, int32_t point, int32_t column);

void sweep_free(struct sweep *sweep);

#endif
