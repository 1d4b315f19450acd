/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module says whether the batches of a point are too small, or too few, to rank systems by. */
#ifndef SLIMSIM_ANSWER_BATCH_CHECK_H
#define SLIMSIM_ANSWER_BATCH_CHECK_H

#include <stdio.h>

#include "simulate/standing.h"

/**
 * Write one sentence with what is wrong, and the number that would do. Nothing is written if all is well.
 *
 * 1. Pipelines of a system have no sample, or fewer than four micro-batches, by the rounded mean. The batch that would
 * do is the batch times a power of two.
 * 2. Over 5% of a system's micro-batches are padding only. The batch without them is the nearest number of whole rounds
 *    of its pipelines, and at least four rounds.
 * 3. An interval comes from two or three iterations.
 * 4. The first system loses its rank, or more than half of its lead and ties, if the batch is doubled. The plans stay,
 *    half of the iterations run, and only the critical path. This is tried if pipelines have fewer than 16
 *    micro-batches and the critical path has the same first system.
 *
 * @param doubles  try a doubled batch
 */
void batch_check_write(FILE *file, const struct scenario *scenario, const struct point *point,
                       const struct ranked_point *ranked, bool doubles);

#endif
