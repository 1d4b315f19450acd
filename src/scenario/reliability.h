/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module reads how a cluster fails and recovers: `reliability:` of a scenario. It names a preset of
 * model/reliability, or is a mapping with the preset's name and keys that replace its values.
 *
 *     reliability: llama3
 *     reliability: {name: rsc1, spares: 8, checkpoint: {interval: 1800}}
 */
#ifndef SLIMSIM_SCENARIO_RELIABILITY_H
#define SLIMSIM_SCENARIO_RELIABILITY_H

#include <math.h>

#include "document/schema.h"
#include "document/schema_text.h"

enum failure_cause {
#define FAILURE_CAUSE(name, key, meaning) FAILURE_##name,
#include "scenario/failure_cause.def"
#undef FAILURE_CAUSE
    FAILURE_N_CAUSES
};

/** Keys of the causes: "gpu", "hbm", ... */
extern const char *const failure_cause_name[FAILURE_N_CAUSES];

enum { RELIABILITY_MOST_SPARES = 100000 };

/** Failures of a cluster and the time that each costs. A number of NAN was written as `auto`. */
struct reliability {
    bool present; /* false: the scenario has no such key, and all other fields are 0 */
    char name[SCHEMA_TEXT_BYTES];
    double failures[FAILURE_N_CAUSES]; /* per 1000 days of a node, by cause; at least one is above 0 */
    double weibull_shape;              /* of the times between failures of a cause; 1: exponential */
    double detect_s, replace_s, start_s;
    double load_s;              /* NAN: bytes of a checkpoint / storage_bytes_per_s */
    double interval_s;          /* useful time between checkpoints; NAN: the best */
    double blocked_s;           /* time that a checkpoint blocks training; NAN: barrier_s + copy to the host */
    double barrier_s;           /* agreement of all ranks on a checkpoint */
    double bytes_per_parameter; /* of a checkpoint */
    double storage_bytes_per_s; /* of the whole cluster, for reads and for writes */
    double spares;     /* nodes that replace failed ones at once, a whole number; NAN: as many as goodput_spares says */
    double repair_s;   /* time that a failed node is away */
    double slow_share; /* share of the running time in which some GPU is slow */
    double slow_factor; /* factor of a step's time while one is */
};

/** Return the failures of a node in one second, over all causes. */
static inline double reliability_failures_per_s(const struct reliability *reliability)
{
    double sum = 0;
    for (int i = 0; i < FAILURE_N_CAUSES; i++)
        sum += reliability->failures[i];
    return sum / (1000.0 * 86400.0);
}

/**
 * Read `reliability:` of a scenario's document. Without the key `present` is false. A name of one word becomes a
 * mapping. A preset's file holds all keys but `name`, `source`, and below `sources` the source of each value. Causes
 * that it leaves out have no failures.
 */
bool reliability_read(struct document *document, const char *data_dir, struct reliability *reliability,
                      struct error *err);

/** Write the resolved values as YAML with the line "reliability:". Without the key nothing is written. */
void reliability_write(FILE *file, const struct reliability *reliability);

/** Print the keys for `slimsim list keys`. */
void reliability_list_keys(const struct schema_listing *listing);

#endif
