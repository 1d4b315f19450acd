/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scenario/assumption.h"

#include <inttypes.h>
#include <stdio.h>

#include "document/schema_text.h"

const struct assumption_row assumptions[ASSUME_N] = {
#define CHOICE(id, key, name, choices, member, type, n, first, last)                                                   \
    {key, name, choices, offsetof(struct scenario, member), ASSUMED_##type, n, first, last, "", 0, {0}},
#define FACTOR(id, key, name, member, type, unit, size, low, high)                                                     \
    {key, name, NULL, offsetof(struct scenario, member), ASSUMED_##type, 2, 0, 0, unit, size, {low, high}},
#include "scenario/assumption.def"
#undef CHOICE
#undef FACTOR
};

bool assumption_allows(const struct scenario *scenario, enum assumption choice, int32_t value)
{
    int32_t precision = choice == ASSUME_PRECISION ? value : scenario->precision;
    int32_t dispatcher = choice == ASSUME_DISPATCHER ? value : scenario->communication.dispatcher;
    return scenario_takes_dispatch(scenario, precision, dispatcher) &&
           (choice != ASSUME_ATTENTION || device_has_attention(&scenario->device, (enum device_attention)value)) &&
           (choice != ASSUME_DISPATCHER || scenario_has_dispatcher(&scenario->device, value)) &&
           (choice != ASSUME_PRECISION || value == PRECISION_BF16 ||
            (scenario_has_precision(scenario, value) && !scenario_casts_are_eager(scenario)));
}

int32_t assumption_now(const struct scenario *scenario, enum assumption choice)
{
    const char *at = (const char *)scenario + assumptions[choice].offset;
    return assumptions[choice].type == ASSUMED_BOOL ? *(const bool *)at : *(const int32_t *)(const void *)at;
}

void assumption_set(struct scenario *scenario, enum assumption choice, int32_t value)
{
    char *at = (char *)scenario + assumptions[choice].offset;
    if (assumptions[choice].type == ASSUMED_BOOL)
        *(bool *)at = value != 0;
    else
        *(int32_t *)(void *)at = value;
}

bool assumption_value(const struct scenario *scenario, enum assumption assumption, int32_t i, struct assumed *assumed)
{
    const struct assumption_row *row = &assumptions[assumption];
    const void *at = (const char *)scenario + row->offset;
    if (i >= row->n)
        return false;
    if (row->choices != NULL) {
        schema_choice_name(row->choices, i, assumed->value);
        snprintf(assumed->name, sizeof assumed->name, "%s %s", row->short_key, assumed->value);
        return i != assumption_now(scenario, assumption) && assumption_allows(scenario, assumption, i);
    }
    double factor = row->factor[i];
    snprintf(assumed->name, sizeof assumed->name, "%s x%g", row->short_key, factor);
    if (row->type == ASSUMED_DOUBLE) {
        snprintf(assumed->value, sizeof assumed->value, "%.17g%s", factor * *(const double *)at / row->size, row->unit);
        return factor * *(const double *)at > 0; /* nodes without NVLink have 0 */
    }
    int64_t multiple = (int64_t)(factor * (double)*(const int64_t *)at);
    snprintf(assumed->value, sizeof assumed->value, "%" PRId64, multiple);
    return multiple > 0;
}
