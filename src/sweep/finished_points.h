/* SPDX-License-Identifier: GPL-3.0-or-later */
/** The points of a manifest that are finished, and their results in journals. Sizes and ranges of every field of a
 * journal are checked before it is used. */
#ifndef SLIMSIM_SWEEP_FINISHED_POINTS_H
#define SLIMSIM_SWEEP_FINISHED_POINTS_H

#include <signal.h>

#include "simulate/record.h"
#include "sweep/journal.h"
#include "sweep/manifest.h"
#include "trace/table.h"

enum result_status {
    RESULT_DONE,
    RESULT_FAILED,
    RESULT_TIME_LIMIT,
    RESULT_KILLED, /* from outside, several times: not the point's fault, so it is tried again when the sweep goes on */
    RESULT_N
};
extern const char *const result_status_name[RESULT_N]; /* "done", "failed", "time limit", "killed" */

/** The result of one point, finished or failed. */
struct point_result {
    uint64_t id;
    enum result_status status;
    char *message;  /* why it failed, else "" */
    char *scenario; /* resolved text; "" of a failed point */
    int32_t n_systems, n_iterations;
    char **label;                  /* of each system */
    struct trace_summary *summary; /* [n_systems] */
    struct trace_iteration *iterations;
    struct record_image image; /* with a full trace: the file of a run of this point alone */
};

/** Whether the numbers of all rows are finite and name what exists. */
bool point_result_fits(const struct point_result *result);

/** Write the payload of a JOURNAL_RESULT. */
void point_result_pack(FILE *file, const struct point_result *result);

/** Read it. The image is left unchecked. @return false where it is none or a field is out of its range; the caller
 * frees in any case */
bool point_result_unpack(const void *bytes, size_t n_bytes, struct point_result *result);

void point_result_free(struct point_result *result);

/** Where the result of a point lies. */
struct finished_point {
    int32_t journal; /* -1: not finished */
    bool outdated;   /* another build has computed it */
    enum result_status status;
    int64_t offset;
    size_t n_bytes, message_bytes, scenario_bytes;
};

struct sorted_id;

struct finished_points {
    const struct manifest *manifest;
    struct sorted_id *sorted;
    struct finished_point *entries; /* [n_points] */
    int32_t n_journals;
    struct journal *journals;
    char *build, *other_build; /* ours; one that computed outdated points, or NULL */
    bool same_build;           /* the journal that is read goes on with results of our build */
};

/** No point is finished. Two points that are the same scenario are an error that names both. */
bool finished_points_open(const struct manifest *manifest, struct finished_points *points, struct error *err);

/** Open the journal that the points go on from, which is made where it is missing. */
bool finished_points_resume(struct finished_points *points, const char *path, struct error *err);

/** Append the packed result of a point to the journal that was resumed. */
bool finished_points_append(struct finished_points *points, const void *payload, size_t n_bytes, struct error *err);

/** Take the points of a shard's journal. A point that stands in another one, too, is an error. */
bool finished_points_read(struct finished_points *points, const char *path, struct error *err);

/** Read the result of a point that is finished, the image checked, too. The caller frees it. */
bool finished_points_result(const struct finished_points *points, int32_t point, struct point_result *result,
                            struct error *err);

/** Close all journals. Takes {0}. */
void finished_points_close(struct finished_points *points);

#endif
