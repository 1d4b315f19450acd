/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module says what routing costs that is not forced to balance: model/expert_routing.yaml has measured pairs. */
#ifndef SLIMSIM_SIMULATE_EXPERT_ROUTING_H
#define SLIMSIM_SIMULATE_EXPERT_ROUTING_H

#include <stdio.h>

#include "scenario/scenario.h"

/** Throughput with real routing over that of the same plan with balanced routing, in measured pairs. */
struct expert_routing {
    char source[512];
    int64_t pairs;
    double least, most;
};

/** @return false with err: the file cannot be read */
bool expert_routing_read(const char *data_dir, struct expert_routing *routing, struct error *err);

/** Return whether a scenario has experts, and its results count balanced routing. */
bool expert_routing_is_balanced(const struct scenario *scenario);

/** Write "experts: balanced routing is counted; real routing was 8 to 20% slower in 4 measured pairs". */
void expert_routing_write(FILE *file, const struct expert_routing *routing);

#endif
