/* SPDX-License-Identifier: GPL-3.0-or-later */
/** The points of a sweep: index, id and values of each. All shards of a sweep have the same one. */
#ifndef SLIMSIM_SWEEP_MANIFEST_H
#define SLIMSIM_SWEEP_MANIFEST_H

#include "sweep/axis.h"

struct manifest {
    char *name;     /* of the files */
    char *command;  /* that runs the sweep, to which `--point INDEX` is added */
    char *scenario; /* as written, with `sweep:` */
    int32_t n_points, n_columns, n_notes;
    char **column; /* swept keys */
    char **note;   /* "12 points excluded: REASON" */
    char **value;  /* [n_points][n_columns], as written */
    uint64_t *id;  /* [n_points] */
};

/** The value of a point for a swept key, as written. */
static inline const char *manifest_value(const struct manifest *manifest, int32_t point, int32_t column)
{
    return manifest->value[(size_t)point * (size_t)manifest->n_columns + (size_t)column];
}

/** All but name, command and ids. */
void manifest_of_sweep(const struct sweep *sweep, struct manifest *manifest);

void manifest_pack(FILE *file, const struct manifest *manifest);

/** @return false where the bytes are no manifest or a field is out of its range; the caller frees in any case */
bool manifest_unpack(const void *bytes, size_t n_bytes, struct manifest *manifest);

/** Print "index id key=value ..." lines, the exclusions and the number of points on stdout. */
void manifest_print(const struct manifest *manifest);

/** The command that repeats one point. Caller frees. */
char *manifest_command(const struct manifest *manifest, int32_t point);

void manifest_free(struct manifest *manifest);

#endif
