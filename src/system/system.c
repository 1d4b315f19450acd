/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "system/system.h"

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
    for (int32_t i = 0; i < SYSTEM_N; i++) {
        names[i] = training_systems[i]->name;
        if (strcmp(name, names[i]) == 0)
            return training_systems[i];
    }
    const char *near = nearest_name(name, names, SYSTEM_N);
    error_set(err, "there is no training system \"%s\"%s%s%s (slimsim list names them)", name,
              near != NULL ? "; did you mean \"" : "", near != NULL ? near : "", near != NULL ? "\"?" : "");
    return NULL;
}

bool system_read_knobs(const struct training_system *system, const struct scenario *scenario,
                       const struct scenario_system *entry, void *knobs, struct error *err)
{
    return schema_read(&scenario->document, entry->knobs, system->knobs, system->n_knobs, NULL, knobs, err);
}

void system_megatron_layout(const struct system_request *request, struct plan_phase *phase)
{
    int32_t tensor = (int32_t)request->layout.tp, context = (int32_t)request->layout.cp;
    phase->n_pipelines = (int32_t)request->layout.dp;
    phase->pipelines = check_calloc((size_t)phase->n_pipelines, sizeof *phase->pipelines);
    for (int32_t i = 0; i < phase->n_pipelines; i++)
        phase->pipelines[i].layout = (struct plan_layout){
            .tensor = tensor,
            .context = context,
            .stages = (int32_t)request->layout.pp,
            .chunks = (int32_t)request->layout.vpp,
            .first_rank = i * tensor * context,
            .stage_stride = phase->n_pipelines * tensor * context,
        };
}
