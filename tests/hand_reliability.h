/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Tests of operation/ make clusters of one cause of failures here. */
#ifndef SLIMSIM_TESTS_HAND_RELIABILITY_H
#define SLIMSIM_TESTS_HAND_RELIABILITY_H

#include "operation/goodput.h"

/** Give the reliability of a cluster with this many failures in 1000 node-days, all of one cause. Restarts take R =
 * detect seconds, a checkpoint blocks w seconds, and the interval is fixed. Saving takes no time, and nodes are
 * repaired at once.
 */
struct reliability hand_reliability(double failures, double restart_s, double blocked_s, double interval_s);

/** Give a training on n nodes of 8 GPUs. Its checkpoints are bytes_per_parameter large. */
struct goodput_setting hand_training(const struct reliability *reliability, int64_t n_nodes);

#endif
