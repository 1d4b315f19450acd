/* SPDX-License-Identifier: GPL-3.0-or-later */
/** What is known of one point when it is finished, and its form in the journal. */
#ifndef SLIMSIM_SWEEP_RESULT_H
#define SLIMSIM_SWEEP_RESULT_H

#include "base/error.h"
#include "simulate/record.h"
#include "trace/table.h"

enum result_status {
    RESULT_DONE,
    RESULT_FAILED,
    RESULT_TIME_LIMIT,
    RESULT_KILLED, /* from outside, several times: not the point's fault, so it is tried again when the sweep goes on */
    RESULT_N
};
extern const char *const result_status_name[RESULT_N]; /* "done", "failed", "time limit", "killed" */

struct result {
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

void result_pack(FILE *file, const struct result *result);

/** @return false where the bytes are no result or a field is out of its range; the caller frees in any case */
bool result_unpack(const void *bytes, size_t n_bytes, struct result *result);

void result_free(struct result *result);

#endif
