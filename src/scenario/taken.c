/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scenario/taken.h"

#include <string.h>

#include "document/library.h"
#include "scenario/huggingface.h"

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

/** Return whether a word, or one of words joined by +, is `selective`. */
static bool is_selective(const char *words)
{
    static const char word[] = "selective";
    bool is = false;
    for (const char *at = words; at != NULL && !is; at = strchr(at, '+')) {
        at += *at == '+';
        is = strncmp(at, word, strlen(word)) == 0 && strchr("+", at[strlen(word)]) != NULL;
    }
    return is;
}

/** Return whether the scalar or list under a key has `selective`. */
static bool says_selective(const struct document *document, int32_t mapping, const char *key)
{
    int32_t node = document_find(document, mapping, key);
    bool list = node >= 0 && document->node[node].kind == DOCUMENT_SEQUENCE, says = false;
    for (int32_t i = list ? document->node[node].child : node; i >= 0; i = list ? document->node[i].next : -1)
        says = says || (document->node[i].kind == DOCUMENT_SCALAR && is_selective(document->node[i].value));
    return says;
}

/** Note the meaning of `selective` for the first system that says it. A framework that is named and means
 * norm+activation surprises nobody. */
static void note_selective(const struct scenario *scenario, struct error *notes)
{
    const struct document *document = &scenario->document;
    bool named = value_of(document, 0, "framework") != NULL,
         space = says_selective(document, 0, "plan_space.recompute");
    for (int32_t i = 0; i < scenario->n_systems; i++) {
        const struct scenario_system *system = &scenario->systems[i];
        bool older = (system->plan.recompute & RECOMPUTE_SELECTIVE) == RECOMPUTE_SELECTIVE;
        space = space || says_selective(document, system->node, "plan_space.recompute");
        if (!says_selective(document, system->node, "plan.recompute") || (named && older) ||
            system->plan.recompute > RECOMPUTE_FULL)
            continue;
        error_add(notes, "plan.recompute: 'selective' is taken as %s, since %s%s",
                  scenario_recompute_name[system->plan.recompute],
                  named ? "this is its meaning in framework " : "the scenario names no framework",
                  named ? scenario->framework_name : "");
        break;
    }
    if (space)
        error_add(notes, "plan_space.recompute: 'selective' is taken as norm+activation");
}

/** Add a line for each key of fp8 that a user wrote beside bf16. A resolved scenario has all keys, so it is none. */
static void note_fp8(const struct scenario *scenario, struct error *notes)
{
    static const char *const keys[] = {"fp8_params", "fp8_scaling", "bf16_layers_at_start", "bf16_layers_at_end"};
    const bool asks[] = {scenario->fp8_params, true, scenario->bf16_layers_at_start > 0,
                         scenario->bf16_layers_at_end > 0};
    const struct document *document = &scenario->document;
    bool resolved = value_of(document, 0, "swiglu") != NULL && value_of(document, 0, "expert_imbalance") != NULL;
    for (size_t i = 0; i < sizeof keys / sizeof *keys && scenario->precision == PRECISION_BF16 && !resolved; i++)
        if (value_of(document, 0, keys[i]) != NULL && asks[i])
            error_add(notes, "%s has no effect with precision bf16", keys[i]);
}

void taken_model(const char *name, struct error *notes)
{
    struct huggingface model;
    struct error none = {0};
    char *rest = NULL;
    const char *slash = strrchr(name, '/');
    if (!library_is_path(name, ".json"))
        return;
    if (huggingface_read(scenario_data_dir(), name, &model, &none))
        for (char *line = strtok_r(model.said, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
            error_add(notes, "model: %s: %s", slash != NULL ? slash + 1 : name, line);
    huggingface_free(&model);
}

void taken_words(const struct scenario *scenario, struct error *notes)
{
    if (scenario->document.n_nodes == 0) /* it could not be read */
        return;
    note_name(scenario, "model", scenario->model_name, notes);
    taken_model(scenario->model_name, notes);
    note_name(scenario, "device", scenario->device_name, notes);
    note_name(scenario, "framework", scenario->framework_name, notes);
    note_name(scenario, "power", scenario->power_name, notes);
    note_platform(scenario, notes);
    note_selective(scenario, notes);
    note_fp8(scenario, notes);
}
