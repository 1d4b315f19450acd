/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module makes each point of a sweep a scenario and runs it. Files that points share are read once. Points may
 * also be scenarios that somebody asks for.
 */
#ifndef SLIMSIM_SWEEP_SWEEP_RUNNER_H
#define SLIMSIM_SWEEP_SWEEP_RUNNER_H

#include "lengths/lengths.h"
#include "scenario/scenario.h"
#include "sweep/axis.h"
#include "sweep/finished_points.h"

enum { SWEEP_MAX_LENGTHS = 64 };

/** These lengths were opened for these keys. */
struct cached_lengths {
    struct scenario_data data;
    struct lengths lengths;
};

/** A point that no axis of a sweep makes. */
struct asked_point {
    const struct document *document; /* borrowed */
    double memory;                   /* factor of the memory of a GPU, which no key changes */
    bool critical_path;              /* only the critical path runs, whatever the document says */
    bool priced;                     /* with free_costs */
};

/** Write the verdict on a point into its trace. @return false with err */
typedef bool sweep_verdict(const struct scenario *scenario, const struct lengths *lengths, const struct point *point,
                           struct trace *trace, struct error *err);

struct sweep_runner {
    const struct sweep *sweep;
    const struct asked_point *asked; /* points instead of those of the sweep; NULL: none */
    sweep_verdict *verdict;          /* for full traces; NULL: they have none */
    int32_t n_threads;               /* of a plan search */
    volatile double *share;          /* where the running point notes which part of it is done; NULL: nowhere */
    struct scenario_cache cache;
    int32_t n_lengths, next_lengths; /* the oldest entry is replaced */
    struct cached_lengths lengths[SWEEP_MAX_LENGTHS];
    struct error notes; /* facts about the points resolved so far that a user should know, each once; no errors */
};

/** Return the hash of the resolved text of a scenario and of all files that it names. */
uint64_t sweep_point_id(const struct scenario *scenario, const struct lengths *lengths);

/** Add the facts about a scenario that a user should know, each once. */
void sweep_runner_note(const struct scenario *scenario, struct error *notes);

/**
 * Resolve and check the scenario of a point. Its lengths are borrowed until the next point. The caller frees the
 * scenario. Errors name the position of the wrong value.
 * @param id  sweep_point_id
 */
bool sweep_runner_point(struct sweep_runner *runner, int32_t point, struct scenario *scenario,
                        const struct lengths **lengths, uint64_t *id, struct error *err);

/** Run the point of this index. A failure is also a result. The caller frees it. */
void sweep_runner_run(struct sweep_runner *runner, int32_t index, struct point_result *result);

void sweep_runner_close(struct sweep_runner *runner);

#endif
