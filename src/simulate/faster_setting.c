/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "simulate/faster_setting.h"

#include <math.h>
#include <stdlib.h>

#include "base/compare.h"
#include "document/schema_text.h"

#define AT(field) offsetof(struct scenario, field)

/** A setting and the values that may be faster, from `first` to `last`. */
static const struct {
    const char *key, *choices;
    size_t offset;
    int32_t first, last;
    bool is_bool;
} families[FASTER_SETTINGS_MOST] = {
    {"attention", DEVICE_ATTENTION, AT(attention), 0, DEVICE_N_CURVES - 1, false},
    {"dp_overlap", "none|gradients|both", AT(communication.dp_overlap), SCENARIO_OVERLAP_BOTH, SCENARIO_OVERLAP_BOTH,
     false},
    {"tp_overlap", "none|bulk|chunked", AT(communication.tp_overlap), SCENARIO_CHUNKED, SCENARIO_CHUNKED, false},
    {"pp_overlap", SCENARIO_STAGE_OVERLAP, AT(communication.pp_overlap), SCENARIO_STAGES_OVERLAP,
     SCENARIO_STAGES_OVERLAP, false},
    {"cp_overlap", "false|true", AT(communication.cp_overlap), true, true, true},
    {"kernels", "fused|eager|compiled", AT(kernels), SCENARIO_FUSED, SCENARIO_FUSED, false},
};

static int32_t value_of(const struct scenario *scenario, int family)
{
    const char *at = (const char *)scenario + families[family].offset;
    return families[family].is_bool ? *(const bool *)at : *(const int32_t *)(const void *)at;
}

static void set_value(struct scenario *scenario, int family, int32_t value)
{
    char *at = (char *)scenario + families[family].offset;
    if (families[family].is_bool)
        *(bool *)at = value != 0;
    else
        *(int32_t *)(void *)at = value;
}

/** Return model FLOPs a second of iteration 0 of the scenario's only system; 0: it cannot run. */
static double rate_of(const struct scenario *scenario, const struct lengths *lengths)
{
    struct point point = {0};
    struct error unused = {0};
    double rate = 0;
    if (point_run(scenario, lengths, &(struct point_options){0}, &point, &unused))
        rate = point.systems[0].iterations[0].row.model_flop / point.systems[0].iterations[0].row.time_s;
    point_free(&point);
    return rate;
}

/** Return whether values of a family have to be tried. */
static bool is_open(const struct scenario *scenario, const struct scenario_plan *plan, int family)
{
    switch (families[family].offset) {
    case AT(attention):
        return scenario->device.own_curves && scenario->attention_s[0] <= 0; /* otherwise the fastest was chosen */
    case AT(communication.tp_overlap):
        return plan->tp > 1;
    case AT(communication.pp_overlap):
        return plan->pp > 1;
    default:
        return true;
    }
}

static int compare_gains(const void *a, const void *b)
{
    const struct faster_setting *x = a, *y = b;
    return COMPARE(y->gain, x->gain);
}

int32_t faster_settings_of(const struct scenario *scenario, const struct lengths *lengths,
                           const struct scenario_system *entry, struct faster_setting *settings)
{
    struct scenario_system system = *entry;
    struct scenario one = *scenario;
    one.n_systems = 1;
    one.systems = &system;
    one.engine = SCENARIO_CRITICAL_PATH;
    one.trace = SCENARIO_TRACE_NONE;
    one.warm_up = 0;
    one.measured = 1;
    double rate = rate_of(&one, lengths);
    int32_t n = 0;
    for (int family = 0; rate > 0 && family < FASTER_SETTINGS_MOST; family++) {
        int32_t now = value_of(scenario, family), fastest = now;
        double best = rate;
        for (int32_t value = families[family].first; value <= families[family].last; value++) {
            if (value == now || !is_open(scenario, &entry->plan, family))
                continue;
            set_value(&one, family, value);
            double changed = rate_of(&one, lengths);
            fastest = changed > best ? value : fastest;
            best = fmax(best, changed);
        }
        set_value(&one, family, now);
        if (best / rate - 1 < 0.005)
            continue;
        settings[n] = (struct faster_setting){.key = families[family].key, .gain = best / rate - 1};
        schema_choice_name(families[family].choices, now, settings[n].now);
        schema_choice_name(families[family].choices, fastest, settings[n++].fastest);
    }
    qsort(settings, (size_t)n, sizeof *settings, compare_gains);
    return n;
}
