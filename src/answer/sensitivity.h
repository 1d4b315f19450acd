/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module runs a scenario as it is, and again with one assumption changed at a time. */
#ifndef SLIMSIM_ANSWER_SENSITIVITY_H
#define SLIMSIM_ANSWER_SENSITIVITY_H

#include "simulate/model_error.h"
#include "sweep/what_if.h"

/** A system under a change. */
struct sensitivity_system {
    double tokens_per_s_per_gpu; /* over the measured iterations */
    int32_t rank;                /* from 1, ties share it; 0: the system does not fit */
    int32_t place;               /* in the order of model FLOPs a second, from 0 */
};

/** A change of one assumption, and its results. */
struct sensitivity_change {
    const char *name;                   /* "NIC x0.5"; "as it is" for the first; borrowed */
    const char *set;                    /* assignments of --set, separated by blanks; "": no key makes it; borrowed */
    double memory;                      /* factor of the memory of a GPU */
    const char *refusal;                /* why it cannot run; NULL: it ran; borrowed */
    struct sensitivity_system *systems; /* [n_systems] */
};

/** {0} is empty. */
struct sensitivity {
    int32_t n_systems, n;
    struct model_error error;           /* of runs like the scenario */
    struct what_ifs questions;          /* of the changes that are run; the first is the scenario as it is */
    struct sensitivity_change *changes; /* [n] those of the questions, then the model's error down and up */
    int32_t *order;                     /* [n] changes: the first, then the largest effect on the best system */
    int32_t *system_order;              /* [n_systems] the best of the scenario as it is first */
    char *error_names[2];
};

/**
 * Change each assumption of a scenario and run it on the critical path. Plans that are `auto` are searched again. A
 * value that the scenario has already is no change.
 *
 * 1. The attention kernels with curves, if the device has curves of its own chip; overlaps; frameworks.
 * 2. NIC, NVLink and batch, half and double. A platform of an XML file keeps its links.
 * 3. Memory of a GPU, 10% less and more.
 * 4. The spaces free, megatron and wide, if a system has `plan: auto`.
 * 5. Documents 20% longer, except fixed lengths.
 * 6. The model's own error: one standard deviation of the measured runs like the scenario, down and up. Systems share
 *    the model of kernels and links, so all move alike and no rank changes.
 *
 * @param document  the scenario as scenario_read_document returned it
 * @param scenario  the same after its attention was chosen
 * @return          false with err: the measured errors cannot be read, or the scenario as it is cannot run; false with
 *                  err untouched if *stop ended it; the caller frees in any case
 */
bool sensitivity_find(const struct document *document, const struct scenario *scenario,
                      const struct what_if_options *options, struct sensitivity *sensitivity, struct error *err);

/** Return the gain of a system by a change, as a share of its rate; NaN unless it runs and fits before and after. */
double sensitivity_gain(const struct sensitivity *sensitivity, int32_t change, int32_t system);

/** Return the fastest system that fits; -1: none fits. */
int32_t sensitivity_winner(const struct sensitivity *sensitivity, int32_t change);

/** Return whether the winner of the scenario as it is has no longer the best rank, not even with others. A change that
 * cannot run has no winner. */
bool sensitivity_changes_winner(const struct sensitivity *sensitivity, int32_t change);

void sensitivity_free(struct sensitivity *sensitivity);

#endif
