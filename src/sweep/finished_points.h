/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module knows the finished points of a manifest and their results in journals. It checks the size and range of
 * every field of a journal before it uses the field.
 */
#ifndef SLIMSIM_SWEEP_FINISHED_POINTS_H
#define SLIMSIM_SWEEP_FINISHED_POINTS_H

#include <signal.h>

#include "simulate/free_cost.h"
#include "simulate/record.h"
#include "simulate/standing.h"
#include "sweep/journal.h"
#include "sweep/manifest.h"
#include "trace/table.h"

enum result_status {
    RESULT_DONE,
    RESULT_FAILED,
    RESULT_TIME_LIMIT,
    RESULT_KILLED, /* from outside, several times; not the point's fault, so a resumed sweep tries it again */
    RESULT_N
};
extern const char *const result_status_name[RESULT_N]; /* "done", "failed", "time limit", "killed" */

/** A result belongs to one point, which has finished or failed. */
struct point_result {
    uint64_t id;
    enum result_status status;
    char *message;  /* reason of a failure, otherwise "" */
    char *scenario; /* resolved text; "" of a failed point */
    int32_t n_systems, n_iterations;
    int64_t longest_tokens;        /* longest sample of all iterations */
    char **label;                  /* of each system */
    struct trace_summary *summary; /* [n_systems] */
    struct standing *standings;    /* [n_systems], the best first */
    struct trace_iteration *iterations;
    int32_t n_priced; /* n_systems if free_costs were asked for, otherwise 0 */
    struct free_costs *free_costs;
    struct record_image image; /* with a full trace: the file of a run of only this point */
};

/** Return whether the numbers of all rows are finite and all their indices exist. */
bool point_result_fits(const struct point_result *result);

/** Write the payload of a JOURNAL_RESULT. */
void point_result_pack(FILE *file, const struct point_result *result);

/**
 * Read the payload of a JOURNAL_RESULT, without a check of its image. The caller frees in any case.
 * @return  false if it is no result or a field is out of its range
 */
bool point_result_unpack(const void *bytes, size_t n_bytes, struct point_result *result);

/** The caller frees the copy. */
struct point_result point_result_copy(const struct point_result *result);

void point_result_free(struct point_result *result);

/** An entry gives the position of a point's result. */
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
    char *build, *other_build; /* of this program; of one that computed outdated points, or NULL */
    bool same_build;           /* this build computed the results that now follow in the journal */
};

/** Begin without finished points. Two points that are the same scenario are an error, which names both. */
bool finished_points_open(const struct manifest *manifest, struct finished_points *points, struct error *err);

/** Open the journal that the sweep continues, or create it. */
bool finished_points_resume(struct finished_points *points, const char *path, struct error *err);

/** Append the packed result of a point to the resumed journal. */
bool finished_points_append(struct finished_points *points, const void *payload, size_t n_bytes, struct error *err);

/** Read the points of a shard's journal. A point that is also in another journal is an error. */
bool finished_points_read(struct finished_points *points, const char *path, struct error *err);

/** Read the result of a finished point and check its image. The caller frees the result. */
bool finished_points_result(const struct finished_points *points, int32_t point, struct point_result *result,
                            struct error *err);

/**
 * Say how many points failed, and each of the first five different messages once. The line of a message has the number
 * of its points and the swept keys of the first.
 * @param n_points  that were asked for
 * @param file      with the messages of all points; NULL: there is none yet
 * @param failures  left alone if no point failed
 * @return          false with err if a journal cannot be read
 */
bool finished_points_failures(const struct finished_points *points, int32_t n_points, const char *file,
                              struct error *failures, struct error *err);

/** Close all journals. {0} is allowed. */
void finished_points_close(struct finished_points *points);

#endif
