/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module lists, in words, influences on a point's numbers that the user did not measure. */
#ifndef SLIMSIM_SIMULATE_ASSUMPTIONS_H
#define SLIMSIM_SIMULATE_ASSUMPTIONS_H

#include "simulate/plan_text.h"

enum { ASSUMPTIONS_SIZE = PLAN_TEXT_SIZE };

/** Return whether the platform's NVLink differs from the device's data sheet. A sentence then says so. */
bool assumptions_unlike_nvlink(const struct platform *platform, const struct device *device,
                               char line[ASSUMPTIONS_SIZE]);

/** Return whether curves of the device are copied from another one. A sentence then says so, and how sure they are. */
bool assumptions_copied_curves(const struct device *device, char line[ASSUMPTIONS_SIZE]);

/**
 * Return whether attention's curve is another chip's, scaled (cost/attention_choice.h). A sentence then gives both ends
 * of a system's rate: with that curve, and with flash2's.
 */
bool assumptions_scaled_attention(const struct scenario *scenario, const char *label,
                                  const struct trace_summary *summary, char line[ASSUMPTIONS_SIZE]);

/** Return whether `platform.oversubscription` is above 1 and slows no transfer, or not those of zero2 and zero3. A
 * sentence says why. */
bool assumptions_oversubscription(const struct scenario *scenario, char line[ASSUMPTIONS_SIZE]);

/** Return whether equal passes differ. A sentence then says by how much. */
bool assumptions_jitter(const struct jitter *jitter, char line[ASSUMPTIONS_SIZE]);

/** Return whether times of passes are replayed. A sentence then says so, and which what-if is asked. */
bool assumptions_replay(const struct scenario_replay *replay, char line[ASSUMPTIONS_SIZE]);

/** Return why a key of the fabric above the NICs (`platform.topology`, `leaf`, `oversubscription`) changes no time. */
const char *assumptions_unused_fabric(const struct scenario *scenario, const char *key);

/** Return whether at least 1% of the documents are longer than the context. A sentence then says so. */
bool assumptions_long_documents(const struct scenario_data *data, const struct lengths *lengths,
                                char line[ASSUMPTIONS_SIZE]);

/**
 * Return whether an iteration of a system takes at least 10 s of computing on so many GPUs, or 4 GB. A sentence then
 * says how long and how much, by what large runs of best-fit on the critical path took. Most systems take more.
 */
bool assumptions_size(const struct scenario *scenario, int64_t n_gpus, char line[ASSUMPTIONS_SIZE]);

/** Write the slow devices and their factors; the trace's table `faults` has the whole list. @return line */
const char *assumptions_faults(const struct scenario *scenario, char line[ASSUMPTIONS_SIZE]);

/** Return the assumptions, a sentence each, for people, for JSON and for the trace. The caller frees. */
char (*assumptions_lines(const struct scenario *scenario, const struct point *point, int32_t *n))[ASSUMPTIONS_SIZE];

#endif
