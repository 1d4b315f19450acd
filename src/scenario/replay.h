/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module reads seconds of passes from a file: `replay:` of a scenario.
 *
 *     replay: steps.csv                          the same as {file: steps.csv}
 *     replay: {file: steps.csv.gz, communication: none, equal: workers}
 *
 * 1. The file is a CSV table. Its columns are step, dp_rank, stage, microbatch, forward_ms and backward_ms. Others are
 * not read.
 * 2. Each step has one row for each DP rank, virtual stage and micro-batch, counted from 0.
 * 3. Iteration i of a run replays the i-th step, in ascending order.
 * 4. `equal` asks what a step takes if passes that differ become equal. The others stay as they are.
 *
 * Equal passes are those of Lin et al. 2025 (OSDI, "Understanding Stragglers in Large Model Training Using What-if
 * Analysis"): `all` is their ideal step, within one step instead of over all.
 */
#ifndef SLIMSIM_SCENARIO_REPLAY_H
#define SLIMSIM_SCENARIO_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/** Time of everything that the file does not give: as the model says, or none. */
enum replay_communication { REPLAY_MODELLED, REPLAY_NONE };

/**
 * Passes of a step that become equal, each kind by itself:
 * - workers: a stage's micro-batch takes the median of its DP ranks
 * - lengths: a stage's micro-batches take their mean over all DP ranks
 * - stages: a micro-batch takes the mean of its stages
 * - all: every pass takes the mean of all
 */
enum replay_equal {
    REPLAY_EQUAL_NONE,
    REPLAY_EQUAL_WORKERS,
    REPLAY_EQUAL_LENGTHS,
    REPLAY_EQUAL_STAGES,
    REPLAY_EQUAL_ALL
};
#define REPLAY_EQUAL "none|workers|lengths|stages|all"

/** Seconds of all passes of one step. */
struct replay_step {
    int64_t number;
    int32_t ranks, stages, micro_batches; /* DP ranks, virtual stages, micro-batches of each */
    bool modelled;                        /* enum replay_communication */
    double *seconds[2];                   /* [rank][stage][micro-batch] forward, backward */
};

/** The keys, and the steps of the file. */
struct scenario_replay {
    char file[512];        /* "": nothing is replayed */
    int32_t communication; /* enum replay_communication */
    int32_t equal;         /* enum replay_equal */
    int64_t step;          /* the only step that is replayed; -1: all */
    int32_t n_steps;
    struct replay_step *steps;
};

/** Read the file of the keys. The caller frees the steps, also after an error. An error names the file and the line. */
bool replay_read(struct scenario_replay *replay, struct error *err);

/** Return the seconds of a pass. */
static inline double replay_s(const struct replay_step *step, bool backward, int32_t rank, int32_t stage,
                              int32_t micro_batch)
{
    int32_t at = (rank * step->stages + stage) * step->micro_batches + micro_batch;
    return step->seconds[backward][at];
}

/** Free the steps. The keys stay. */
void replay_free(struct scenario_replay *replay);

#endif
