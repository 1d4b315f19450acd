/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Tests that read or draw a run get one iteration made by hand here: 1F1B of equal or unequal micro-batches. */
#ifndef SLIMSIM_TESTS_SAMPLE_RUN_H
#define SLIMSIM_TESTS_SAMPLE_RUN_H

#include "simulate/point_runner.h"

enum { SAMPLE_MAX_UNITS = 64 };

/** Pipelines of p stages on consecutive GPUs. Micro-batch u of a pipeline is one slice of `tokens[u]` tokens of
 * `sample[u]`.
 */
struct sample_shape {
    int32_t pipelines, stages, micro_batches;
    int32_t sample[SAMPLE_MAX_UNITS], tokens[SAMPLE_MAX_UNITS]; /* shared by all pipelines */
    double send_s;                                              /* of a boundary transfer */
};

/** All that a point_view points to. */
struct sample_run {
    struct scenario_system entry;
    struct point_system system;
    struct point_iteration iteration;
    struct batch batch;
    struct plan plan;
    struct dag dag;
    struct timeline timeline;
    double *slack_s;
    struct work_exposed *exposed;
    struct memory memory;
};

/** The forward of a micro-batch takes 1 us a token, its backward 2 us. A token holds 100 kB from forward to backward.
 * States have 10 GB. A tenth of a pass is exposed tensor parallelism. */
void sample_run_build(struct sample_run *run, const struct sample_shape *shape);

/** Make a scenario of two systems, `best-fit` and `slim, "packed"`, with 2 + 3 iterations and a full trace. */
void sample_scenario(struct scenario *scenario, struct scenario_system systems[2]);

struct point_view sample_view(const struct sample_run *run, const struct scenario *scenario, int32_t system_index);

void sample_run_release(struct sample_run *run);

/** Read a text attribute of a trace's root by HDF5 itself. @return NULL if there is none; the caller frees it */
char *sample_trace_text(const char *path, const char *name);

#endif
