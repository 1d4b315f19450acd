/* SPDX-License-Identifier: GPL-3.0-or-later */
/** It makes each point of a sweep a scenario and runs it. Files that points share are read once. */
#ifndef SLIMSIM_SWEEP_SWEEP_RUNNER_H
#define SLIMSIM_SWEEP_SWEEP_RUNNER_H

#include "lengths/lengths.h"
#include "scenario/scenario.h"
#include "sweep/axis.h"
#include "sweep/finished_points.h"

enum { SWEEP_MAX_LENGTHS = 64 };

/** Lengths that were opened for these keys. */
struct cached_lengths {
    struct scenario_data data;
    struct lengths lengths;
};

struct sweep_runner {
    const struct sweep *sweep;
    struct scenario_cache cache;
    int32_t n_lengths, next_lengths; /* the oldest gives way */
    struct cached_lengths lengths[SWEEP_MAX_LENGTHS];
    struct error notes; /* what a user should know of the points resolved so far, each once; no errors */
};

/**
 * The scenario of a point, resolved and checked, and its lengths, borrowed until the next point. The caller frees the
 * scenario. Errors have the place of the value that is wrong.
 * @param id  hash of the resolved text and of all files it names
 */
bool sweep_runner_point(struct sweep_runner *runner, int32_t point, struct scenario *scenario,
                        const struct lengths **lengths, uint64_t *id, struct error *err);

/** Run the point of this index. A failure is a result too. The caller frees it. */
void sweep_runner_run(struct sweep_runner *runner, int32_t index, struct point_result *result);

void sweep_runner_close(struct sweep_runner *runner);

#endif
