/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module reads prices of GPUs and of energy: `price:` of a scenario and files of model/price/. */
#ifndef SLIMSIM_SCENARIO_PRICE_H
#define SLIMSIM_SCENARIO_PRICE_H

#include <stdio.h>

#include "document/schema.h"

/** Money of a node that is bought. NaN: not given. */
struct price_own {
    double usd_per_node;      /* capital */
    double years;             /* life */
    double utilisation;       /* share of its life that the node is used */
    double usd_per_node_year; /* operation without energy */
};

/** Values of a site and an offer. No value has a default; NaN: not given. */
struct price {
    char name[SCHEMA_TEXT_BYTES]; /* of model/price, or path of a file; "": none */
    double usd_per_gpu_hour;      /* rent */
    struct price_own own;
    double usd_per_kwh;    /* tariff */
    double pue;            /* power usage effectiveness: power of the site over that of nodes and network */
    double kg_co2_per_kwh; /* carbon intensity */
};

/**
 * Read `price:` of a scenario's document. It is a name, or a mapping of keys that change what its `name` says. Without
 * the key nothing is given. Every error is a line of err with its place:
 * - a value out of its range, an unknown key, a file that cannot be read
 * - rent together with own, and own without capital, life or utilisation
 */
bool price_read(struct document *document, const char *data_dir, struct price *price, struct error *err);

/** Write the given values as the YAML mapping `price:`. Reading it gives the same price. Nothing given: no text. */
void price_write(FILE *file, const struct price *price);

/** Keys of `price:` that `slimsim list keys` prints. */
enum { PRICE_N_KEYS = 10, PRICE_N_SCENARIO_KEYS = PRICE_N_KEYS - 1 }; /* only a file has `source` */
extern const struct schema_key price_schema[PRICE_N_KEYS];

#endif
