/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Points of a sweep made into scenarios and run, one by one; what they share is read once. */
#ifndef SLIMSIM_SWEEP_WORKSHOP_H
#define SLIMSIM_SWEEP_WORKSHOP_H

#include "lengths/lengths.h"
#include "scenario/scenario.h"
#include "sweep/axis.h"
#include "sweep/result.h"

enum { WORKSHOP_LENGTHS = 64 };

/** Lengths that were opened for these keys. */
struct workshop_lengths {
    struct scenario_data data;
    struct lengths lengths;
};

struct workshop {
    const struct sweep *sweep;
    struct scenario_cache cache;
    int32_t n_lengths, next_lengths; /* the oldest gives way */
    struct workshop_lengths lengths[WORKSHOP_LENGTHS];
    struct error notes; /* what a user should know of the points resolved so far, each once; no errors */
};

/**
 * The scenario of a point, resolved and checked, and its lengths, borrowed until the next point. The caller frees the
 * scenario. Errors have the place of the value that is wrong.
 * @param id  hash of the resolved text and of all files it names
 */
bool workshop_point(struct workshop *workshop, int32_t point, struct scenario *scenario, const struct lengths **lengths,
                    uint64_t *id, struct error *err);

/** Run the point of this index. A failure is a result too. The caller frees it. */
void workshop_run(struct workshop *workshop, int32_t index, struct result *result);

void workshop_close(struct workshop *workshop);

#endif
