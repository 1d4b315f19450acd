/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module runs a scenario as it is, and again with one assumption changed at a time. */
#ifndef SLIMSIM_ANSWER_SENSITIVITY_H
#define SLIMSIM_ANSWER_SENSITIVITY_H

#include "simulate/model_error.h"
#include "sweep/what_if.h"

/** A change of one assumption. */
struct sensitivity_change {
    struct trace_sensitivity *rows; /* [n_systems] the best of the scenario as it is first */
    char *tie;                      /* systems that tie with the first only with the change: their labels */
    double memory;                  /* factor of the memory of a GPU */
    double size;                    /* of the effect on the first of them; INFINITY: it fits no longer, or at last */
    int32_t index;                  /* in the order in which changes are listed */
};

/** {0} is empty. */
struct sensitivity {
    int32_t n_systems, n;
    struct model_error error;
    struct what_ifs questions; /* the scenario as it is, and its changes; rows borrow from them */
    char *error_names[2];
    struct sensitivity_change *changes; /* [n] the scenario as it is, then the largest effect; refused ones are last */
};

/**
 * Change each assumption of a scenario and run it on the critical path. Plans that are `auto` are searched again. A
 * value that the scenario has already is no change.
 *
 * 1. The attention kernels with curves, if the device has curves of its own chip, or scaled ones (cost/
 *    attention_choice.h); overlaps; frameworks.
 * 2. NIC, NVLink and batch, half and double. A platform of an XML file keeps its links.
 * 3. Memory of a GPU, 10% less and more. With more, a system keeps the plan of the scenario as it is if the new one is
 *    slower.
 * 4. The spaces free, megatron and wide, if a system has `plan: auto`.
 * 5. Documents 20% longer, except fixed lengths.
 * 6. The model's own error: one standard deviation of a source that nobody has seen, down and up. Systems share the
 *    model of kernels and links, so all move alike and no rank changes.
 *
 * @param document  the scenario as scenario_read_document returned it
 * @param scenario  the same after its attention was chosen
 * @return          false with err: the measured errors cannot be read, or the scenario as it is cannot run; false with
 *                  err untouched if *stop ended it; the caller frees in any case
 */
bool sensitivity_find(const struct document *document, const struct scenario *scenario,
                      const struct what_if_options *options, struct sensitivity *sensitivity, struct error *err);

void sensitivity_free(struct sensitivity *sensitivity);

#endif
