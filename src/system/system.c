/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "system/system.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/nearest.h"

#define SYSTEM(name) extern const struct training_system system_##name;
#include "system/systems.def"
#undef SYSTEM

#define SYSTEM(name) &system_##name,
const struct training_system *const training_systems[] = {
#include "system/systems.def"
    NULL};
#undef SYSTEM

enum { SYSTEM_N = sizeof training_systems / sizeof *training_systems - 1 };

const struct training_system *system_find(const char *name, struct error *err)
{
    const char *names[SYSTEM_N];
    char hint[NEAREST_HINT_BYTES];
    for (int32_t i = 0; i < SYSTEM_N; i++) {
        names[i] = training_systems[i]->name;
        if (strcmp(name, names[i]) == 0)
            return training_systems[i];
    }
    nearest_hint(name, names, SYSTEM_N, hint);
    error_set(err, "there is no training system '%s'; %s`slimsim list systems` names them", name, hint);
    return NULL;
}

bool system_read_knobs(const struct training_system *system, const struct scenario *scenario,
                       const struct scenario_system *entry, void *knobs, struct error *err)
{
    return schema_read(&scenario->document, entry->knobs, system->knobs, system->n_knobs, NULL, knobs, err);
}

static bool check_entry(const struct scenario *scenario, const struct scenario_system *entry, struct error *err)
{
    const struct document *document = &scenario->document;
    struct error unknown = {0};
    const struct training_system *system = system_find(entry->name, &unknown);
    if (system == NULL)
        return document_error(document, document_find(document, entry->node, "name"), err, "name: %s", unknown.text);
    void *knobs = check_calloc(1, system->knobs_size);
    bool ok = system_read_knobs(system, scenario, entry, knobs, err);
    free(knobs);
    if (entry->auto_plan)
        return ok;
    if (!system->uses_schedules && entry->plan.vpp != 1)
        ok = document_error(document, document_find(document, entry->node, "plan.vpp"), err,
                            "plan.vpp: %" PRId64 ", but %s takes only 1: it has no interleaved order", entry->plan.vpp,
                            system->name);
    if (!system->uses_schedules && entry->plan.schedule != SCENARIO_ONE_F_ONE_B)
        ok = document_error(document, document_find(document, entry->node, "plan.schedule"), err,
                            "plan.schedule: %s has an order of its own; leave the key out", system->name);
    if (system->whole_model && (entry->plan.tp > 1 || entry->plan.pp > 1))
        ok = document_error(document, document_find(document, entry->node, entry->plan.tp > 1 ? "plan.tp" : "plan.pp"),
                            err, "plan.%s: above 1, but %s takes only 1: each rank runs the whole model",
                            entry->plan.tp > 1 ? "tp" : "pp", system->name);
    if (system->uses_context || entry->plan.cp == 1)
        return ok;
    return document_error(document, document_find(document, entry->node, "plan.cp"), err,
                          "plan.cp: %" PRId64 ", but %s takes only 1: it gives each sample a context degree itself",
                          entry->plan.cp, system->name);
}

bool system_check_entries(const struct scenario *scenario, struct error *err)
{
    bool ok = true;
    for (int32_t i = 0; i < scenario->n_systems; i++)
        ok &= check_entry(scenario, &scenario->systems[i], err);
    return ok;
}
