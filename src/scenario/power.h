/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module reads the electrical power of a node and of its GPUs from model/power/NAME.yaml. */
#ifndef SLIMSIM_SCENARIO_POWER_H
#define SLIMSIM_SCENARIO_POWER_H

#include "document/schema.h"

/** Power at three levels of a GPU [W]. Waiting means that its kernels poll inside a collective or a receive. */
struct power_levels {
    double idle_w, waiting_w, busy_w;
};

/** A node with all its GPUs at one level. {0}: unknown. */
struct power {
    char name[SCHEMA_WORD_BYTES];
    char source[SCHEMA_TEXT_BYTES];
    int64_t gpus;             /* of the node; 0: the power is unknown */
    struct power_levels node; /* of the whole node, where it is plugged in */
    struct power_levels gpu;  /* of one GPU board; NaN: unknown */
    double network_w;         /* of the switches, a node's share; NaN: unknown, and not counted */
};

/**
 * Read model/power/NAME.yaml below the data folder, or the file `name` if it ends in .yaml.
 *
 * A file may leave out node.waiting_w if it gives the GPU's levels. The rest of a running node draws a constant power:
 *
 *     node.waiting_w = node.busy_w - gpus gpu.busy_w + gpus gpu.waiting_w
 *
 * @return false with err: no such file, a wrong value, or levels that do not rise from idle over waiting to busy
 */
bool power_read(const char *data_dir, const char *name, struct power *power, struct error *err);

#endif
