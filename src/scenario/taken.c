/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scenario/taken.h"

#include <string.h>

/** Return the scalar under a key, or NULL. */
static const char *value_of(const struct document *document, int32_t mapping, const char *key)
{
    int32_t node = document_find(document, mapping, key);
    bool scalar = node >= 0 && document->node[node].kind == DOCUMENT_SCALAR;
    return scalar ? document->node[node].value : NULL;
}

/** @param key  key of the name; what comes before its dot is printed */
static void note_name(const struct scenario *scenario, const char *key, const char *taken, struct error *notes)
{
    const char *written = value_of(&scenario->document, 0, key);
    if (written != NULL && *taken != '\0' && *taken != '/' && strncmp(written, taken, strlen(taken)) != 0)
        error_add(notes, "%.*s: '%.100s' is taken as %s", (int)strcspn(key, "."), key, written, taken);
}

static void note_stages(const struct scenario *scenario, const struct scenario_system *system, struct error *notes)
{
    static const char *const keys[] = {"plan.first_stage_layers", "plan.last_stage_layers"};
    const char *layers[2];
    for (int i = 0; i < 2; i++)
        layers[i] = value_of(&scenario->document, system->node, keys[i]);
    for (int i = 0; i < 2; i++)
        if (layers[i] != NULL && layers[1 - i] == NULL && strcmp(layers[i], "0") == 0)
            error_add(notes, "%s of %s: 0 gives this stage as many layers as the others", keys[i], system->label);
}

void taken_words(const struct scenario *scenario, struct error *notes)
{
    note_name(scenario, "model", scenario->model_name, notes);
    note_name(scenario, "device", scenario->device_name, notes);
    note_name(scenario, "framework", scenario->framework_name, notes);
    note_name(scenario, "platform.name", scenario->platform.keys.name, notes);
    for (int32_t i = 0; i < scenario->n_systems; i++)
        note_stages(scenario, &scenario->systems[i], notes);
}
