/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module changes one thing that is bought or assumed at a time, for the answer to a question.
 *
 * 1. NIC, NVLink, usable memory, global batch, attention's kernel and lengths change the costs of a step: the plan of
 * the answer's system is searched again on the same number of nodes.
 * 2. Storage, failures, restart and one spare node more or less change goodput alone.
 * 3. Prices stay, and so do the spare nodes if they are not the change.
 */
#ifndef SLIMSIM_CAPACITY_CHANGE_H
#define SLIMSIM_CAPACITY_CHANGE_H

#include "capacity/candidate.h"
#include "sweep/what_if.h"

enum { CHANGE_NAME_BYTES = 64, CHANGES_MOST = 24, CHANGES_USUAL = 12 /* that are run */ };

struct change {
    char name[CHANGE_NAME_BYTES]; /* "NIC x0.5" */
    bool relaxes;                 /* something is faster, larger or fails less */
    struct trace_change row;
};

struct changes {
    int32_t n;
    struct change at[CHANGES_MOST];
};

/**
 * Compute all changes of a candidate. Step 1's go to the journal, too.
 * @return false with err, or with err untouched if *stop ended it
 */
bool changes_compute(const struct question *question, const struct candidate *candidate,
                     const struct what_if_options *options, struct changes *changes, struct error *err);

#endif
