/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "system/system.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/nearest.h"
#include "base/unmodelled.h"
#include "scenario/layout.h"

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
    const char *reason = unmodelled_reason("training system", name);
    nearest_hint(name, names, SYSTEM_N, hint);
    error_set(err, "there is no training system '%s'; %s%s`slimsim list systems` names them", name,
              reason != NULL ? reason : hint, reason != NULL ? " " : "");
    return NULL;
}

bool system_read_knobs(const struct training_system *system, const struct scenario *scenario,
                       const struct scenario_system *entry, void *knobs, struct error *err)
{
    return schema_read(&scenario->document, entry->knobs, system->knobs, system->n_knobs, NULL, knobs, err);
}

unsigned system_decides_schedule(const void *knobs, const struct scenario_plan *layout)
{
    (void)knobs;
    (void)layout;
    return SYSTEM_SCHEDULE;
}

bool system_takes_experts(const struct training_system *system, const struct scenario_plan *plan)
{
    int64_t once = scenario_expert_ranks(plan);
    if (once <= plan->tp || (system->degrees & SYSTEM_EP) == SYSTEM_EP)
        return true;
    return system->degrees & SYSTEM_EP_IN_PIPELINE && plan->tp * plan->cp % once == 0;
}

/* Check that the plan asks no more than the system takes. */
static bool check_plan(const struct scenario *scenario, const struct scenario_system *entry,
                       const struct training_system *system, unsigned decides, struct error *err)
{
    const struct document *document = &scenario->document;
    const struct scenario_plan *plan = &entry->plan;
    const struct {
        const char *key;
        int64_t value;
        bool takes;
    } degrees[] = {
        {"plan.tp", plan->tp, system->degrees & SYSTEM_TP},
        {"plan.pp", plan->pp, system->degrees & SYSTEM_PP},
        {"plan.cp", plan->cp, system->degrees & SYSTEM_CP},
        {"plan.vpp", plan->vpp, !(decides & SYSTEM_SCHEDULE)},
    };
    bool ok = true, inside = system->degrees & SYSTEM_EP_IN_PIPELINE, cp = system->degrees & SYSTEM_CP;
    for (size_t i = 0; i < sizeof degrees / sizeof *degrees; i++)
        if (degrees[i].value > 1 && !degrees[i].takes)
            ok = document_error(document, document_find(document, entry->node, degrees[i].key), err,
                                "%s: %" PRId64 ", but %s takes only 1", degrees[i].key, degrees[i].value, system->name);
    if (!system_takes_experts(system, plan))
        ok = document_error(document, document_find(document, entry->node, "plan.ep"), err,
                            "plan.ep: %" PRId64 ", but %s takes only divisors of %s = %" PRId64
                            ", since its %s run different micro-batches, and "
                            "GPUs that share experts wait for each other in every layer",
                            plan->ep, system->name, inside && cp ? "tp x cp" : "tp",
                            inside ? plan->tp * plan->cp : plan->tp, inside ? "pipelines" : "GPUs");
    bool overlap = scenario->communication.ep_overlap;
    if (layout_takes_ep_overlap(plan, overlap, true) &&
        !layout_takes_ep_overlap(plan, overlap, decides & SYSTEM_SCHEDULE))
        ok = document_error(document, document_find(document, entry->node, "plan.vpp"), err,
                            "plan.vpp: 1, but with stages communication.ep_overlap needs interleaved ones, as in "
                            "Megatron-LM; allowed: at least 2, or ep_overlap false");
    if (decides & SYSTEM_SCHEDULE && plan->schedule != SCENARIO_ONE_F_ONE_B)
        ok = document_error(document, document_find(document, entry->node, "plan.schedule"), err,
                            "plan.schedule: %s has an order of its own; leave the key out", system->name);
    if (decides & SYSTEM_OFFLOAD && plan->offload > 0)
        ok = document_error(document, document_find(document, entry->node, "plan.offload"), err,
                            "plan.offload: %g, but %s takes only 0: it decides itself what it offloads", plan->offload,
                            system->name);
    return ok;
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
    if (!entry->auto_plan)
        ok &= check_plan(scenario, entry, system, system_decides(system, knobs, &entry->plan), err);
    free(knobs);
    return ok;
}

bool system_check_entries(const struct scenario *scenario, struct error *err)
{
    bool ok = true;
    for (int32_t i = 0; i < scenario->n_systems; i++)
        ok &= check_entry(scenario, &scenario->systems[i], err);
    return ok;
}
