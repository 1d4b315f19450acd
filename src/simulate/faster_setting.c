/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "simulate/faster_setting.h"

#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/compare.h"
#include "cost/attention_choice.h"
#include "document/schema_text.h"
#include "scenario/layout.h"

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

/** Return whether the system of an entry orders passes itself. */
static bool has_own_schedule(const struct scenario *scenario, const struct scenario_system *entry)
{
    struct error unused = {0};
    const struct training_system *system = system_find(entry->name, &unused);
    void *knobs = check_calloc(1, system->knobs_size);
    CHECK(system_read_knobs(system, scenario, entry, knobs, &unused)); /* they were read before the run */
    bool own = system_decides(system, knobs, &entry->plan) & SYSTEM_SCHEDULE;
    free(knobs);
    return own;
}

/** Return whether values of a setting have to be tried. */
static bool is_open(const struct scenario *scenario, const struct scenario_plan *plan, bool own_schedule,
                    enum assumption assumption)
{
    enum device_attention fastest;
    switch (assumption) {
    case ASSUME_ATTENTION:
        fastest = attention_choice_fastest(&scenario->device, scenario->attention_s);
        return (scenario->device.own_curves || scenario->device.attention_rows[fastest].own) &&
               scenario->attention != (int32_t)fastest;
    case ASSUME_TP_OVERLAP:
        return plan->tp > 1;
    case ASSUME_PP_OVERLAP:
        return plan->pp > 1;
    case ASSUME_DISPATCHER:
        return plan->ep > 1 && !plan->pad_to_capacity;
    case ASSUME_EP_OVERLAP:
        return plan->ep > 1 && layout_takes_ep_overlap(plan, true, own_schedule);
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
    bool own_schedule = has_own_schedule(scenario, entry);
    int32_t n = 0;
    for (enum assumption i = 0; rate > 0 && i < ASSUME_N_CHOICES; i++) {
        int32_t now = assumption_now(scenario, i), fastest = now;
        double best = rate;
        for (int32_t choice = assumptions[i].first_fast; choice <= assumptions[i].last_fast; choice++) {
            if (choice == now || !is_open(scenario, &entry->plan, own_schedule, i) ||
                !assumption_allows(scenario, i, choice))
                continue;
            assumption_set(&one, i, choice);
            double changed = rate_of(&one, lengths);
            fastest = changed > best ? choice : fastest;
            best = fmax(best, changed);
        }
        assumption_set(&one, i, now);
        if (best / rate - 1 < 0.005)
            continue;
        settings[n] = (struct faster_setting){.key = assumptions[i].short_key, .gain = best / rate - 1};
        schema_choice_name(assumptions[i].choices, now, settings[n].now);
        schema_choice_name(assumptions[i].choices, fastest, settings[n++].fastest);
    }
    qsort(settings, (size_t)n, sizeof *settings, compare_gains);
    return n;
}
