/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scenario/taken.h"

#include <string.h>

/** Return the scalar under a key, or NULL if there is no value. */
static const char *value_of(const struct document *document, int32_t mapping, const char *key)
{
    int32_t node = document_find(document, mapping, key);
    bool scalar = node >= 0 && document->node[node].kind == DOCUMENT_SCALAR && !document_is_null(&document->node[node]);
    return scalar ? document->node[node].value : NULL;
}

/** @param key  key of the name; what comes before its dot is printed */
static void note_name(const struct scenario *scenario, const char *key, const char *taken, struct error *notes)
{
    const char *written = value_of(&scenario->document, 0, key);
    if (written != NULL && *taken != '\0' && *taken != '/' && strcmp(written, taken) != 0)
        error_add(notes, "%.*s: '%.100s' is taken as %s", (int)strcspn(key, "."), key, written, taken);
}

/** Note the platform's name. A size behind it is none of the name. */
static void note_platform(const struct scenario *scenario, struct error *notes)
{
    const char *written = value_of(&scenario->document, 0, "platform.name"), *taken = scenario->platform.keys.name;
    struct platform_keys size;
    char base[SCHEMA_TEXT_BYTES];
    if (written == NULL || !platform_split_size(written, base, &size) || strcmp(base, taken) != 0)
        note_name(scenario, "platform.name", taken, notes);
}

void taken_words(const struct scenario *scenario, struct error *notes)
{
    if (scenario->document.n_nodes == 0) /* it could not be read */
        return;
    note_name(scenario, "model", scenario->model_name, notes);
    note_name(scenario, "device", scenario->device_name, notes);
    note_name(scenario, "framework", scenario->framework_name, notes);
    note_name(scenario, "power", scenario->power_name, notes);
    note_platform(scenario, notes);
}
