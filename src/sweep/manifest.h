/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module lists the points of a sweep: index, id and values of each. All shards of a sweep have the same list. */
#ifndef SLIMSIM_SWEEP_MANIFEST_H
#define SLIMSIM_SWEEP_MANIFEST_H

#include "sweep/axis.h"

struct manifest {
    char *name;     /* of the files */
    char *command;  /* runs the sweep; `--point INDEX` is added to it */
    char *scenario; /* as written, with `sweep:` */
    int32_t n_points, n_columns, n_notes;
    char **column; /* swept keys */
    char **note;   /* "12 points excluded: REASON" */
    char **value;  /* [n_points][n_columns], as written */
    uint64_t *id;  /* [n_points] */
};

/** Return the value of a point for a swept key, as the user wrote it. */
static inline const char *manifest_value(const struct manifest *manifest, int32_t point, int32_t column)
{
    return manifest->value[(size_t)point * (size_t)manifest->n_columns + (size_t)column];
}

/** Fill in all fields except name, command and ids. */
void manifest_of_sweep(const struct sweep *sweep, struct manifest *manifest);

void manifest_pack(FILE *file, const struct manifest *manifest);

/**
 * Read a packed manifest. The caller frees in any case.
 * @return  false if it is no manifest or a field is out of its range
 */
bool manifest_unpack(const void *bytes, size_t n_bytes, struct manifest *manifest);

/** Print "index id key=value ..." lines, the exclusions and the number of points on stdout. */
void manifest_print(const struct manifest *manifest);

/** Return the command that repeats one point. The caller frees it. */
char *manifest_command(const struct manifest *manifest, int32_t point);

void manifest_free(struct manifest *manifest);

#endif
