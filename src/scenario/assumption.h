/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module changes one assumption of a scenario at a time: a setting, a link, the batch (scenario/assumption.def).
 */
#ifndef SLIMSIM_SCENARIO_ASSUMPTION_H
#define SLIMSIM_SCENARIO_ASSUMPTION_H

#include "scenario/scenario.h"

enum assumption {
#define CHOICE(id, ...) ASSUME_##id,
#define FACTOR(id, ...) ASSUME_##id,
#include "scenario/assumption.def"
#undef CHOICE
#undef FACTOR
    ASSUME_N,
    ASSUME_N_CHOICES = ASSUME_KERNELS + 1, /* the choices come first */
    ASSUME_MOST_VALUES = 8                 /* of one assumption */
};

/** A row of the table. */
struct assumption_row {
    const char *key, *short_key; /* short_key: "dp_overlap" of a choice; otherwise the name, "NIC" */
    const char *choices;         /* as in a schema; NULL: a number */
    size_t offset;               /* in struct scenario */
    enum assumption_type { ASSUMED_BOOL, ASSUMED_INT32, ASSUMED_INT64, ASSUMED_DOUBLE } type;
    int32_t n, first_fast, last_fast; /* values that are tried; choices that may be faster than others */
    const char *unit;                 /* of a number */
    double size, factor[2];           /* of the unit; of the values, 0: none */
};
extern const struct assumption_row assumptions[ASSUME_N];

/** A changed value of an assumption. */
struct assumed {
    char name[2 * SCHEMA_WORD_BYTES]; /* of the change: "dp_overlap both", "NIC x0.5" */
    char value[SCHEMA_WORD_BYTES];    /* of the key */
};

/** Give the i-th value of an assumption. @return false: there is none, or the scenario has it already */
bool assumption_value(const struct scenario *scenario, enum assumption assumption, int32_t i, struct assumed *assumed);

/** Return whether the scenario's device allows a value of a choice. */
bool assumption_allows(const struct scenario *scenario, enum assumption choice, int32_t value);

/** Return a choice's number in the scenario, and set it. */
int32_t assumption_now(const struct scenario *scenario, enum assumption choice);
void assumption_set(struct scenario *scenario, enum assumption choice, int32_t value);

#endif
