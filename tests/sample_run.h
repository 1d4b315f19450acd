/* SPDX-License-Identifier: GPL-3.0-or-later */
/** One iteration made by hand: 1F1B of equal or unequal units, for what reads or draws a run. */
#ifndef SLIMSIM_TESTS_SAMPLE_RUN_H
#define SLIMSIM_TESTS_SAMPLE_RUN_H

#include "simulate/point_runner.h"

enum { SAMPLE_MAX_UNITS = 64 };

/** Pipelines of p stages on consecutive GPUs; unit u of a pipeline is one slice of `tokens[u]` tokens of `sample[u]`.
 */
struct sample_shape {
    int32_t pipelines, stages, units;
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
    struct memory memory;
};

/** Forward of a unit takes 1 us a token, backward 2 us, a token holds 100 kB from forward to backward; with 10 GB of
 * states. */
void sample_run_build(struct sample_run *run, const struct sample_shape *shape);

/** A scenario of two systems, `best-fit` and `slim, "packed"`, 2 + 3 iterations, full trace. */
void sample_scenario(struct scenario *scenario, struct scenario_system systems[2]);

struct point_view sample_view(const struct sample_run *run, const struct scenario *scenario, int32_t system_index);

void sample_run_release(struct sample_run *run);

/** A text attribute of a trace's root, by HDF5 itself; NULL: there is none. Caller frees. */
char *sample_trace_text(const char *path, const char *name);

#endif
