/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "answer/sensitivity.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/compare.h"
#include "scenario/assumption.h"

/** A list of changes that is being made. */
struct listing {
    const struct document *document;
    const struct scenario *scenario;
    struct what_ifs *questions;
};

static void add_value(struct listing *listing, const char *name, const char *key, const char *value)
{
    what_if_set(what_if_add(listing->questions, name, listing->document), key, value);
}

/** Add all values of an assumption. */
static void add_assumption(struct listing *listing, enum assumption assumption)
{
    struct assumed assumed;
    for (int32_t i = 0; i < ASSUME_MOST_VALUES; i++)
        if (assumption_value(listing->scenario, assumption, i, &assumed))
            add_value(listing, assumed.name, assumptions[assumption].key, assumed.value);
}

static void add_assumptions(struct listing *listing)
{
    const struct scenario *scenario = listing->scenario;
    for (enum assumption i = scenario->device.own_curves ? ASSUME_ATTENTION : ASSUME_DP_OVERLAP; i < ASSUME_KERNELS;
         i++)
        add_assumption(listing, i);
    if (*scenario->platform.path == '\0') {
        add_assumption(listing, ASSUME_NIC);
        add_assumption(listing, ASSUME_NVLINK);
    }
    what_if_add(listing->questions, "GPU memory -10%", listing->document)->memory = 0.9;
    what_if_add(listing->questions, "GPU memory +10%", listing->document)->memory = 1.1;
    add_assumption(listing, scenario->data.global_batch > 0 ? ASSUME_BATCH : ASSUME_BATCH_TOKENS);
    if (strcmp(scenario->data.lengths, "fixed") != 0)
        add_assumption(listing, ASSUME_LENGTHS);
}

/** Change the named space of each search. Lists of a plan_space stay. */
static void add_space(struct listing *listing, const char *name)
{
    const struct scenario *scenario = listing->scenario;
    bool differs = false, shared = false;
    char text[SCHEMA_WORD_BYTES];
    for (int32_t i = 0; i < scenario->n_systems; i++)
        differs = differs || (scenario->systems[i].auto_plan && strcmp(scenario->systems[i].space.name, name) != 0);
    if (!differs)
        return;
    snprintf(text, sizeof text, "plan_space %s", name);
    struct what_if *change = what_if_add(listing->questions, text, listing->document);
    for (int32_t i = 0; i < scenario->n_systems; i++) {
        if (!scenario->systems[i].auto_plan)
            continue;
        snprintf(text, sizeof text, "systems.%d.plan_space", (int)i);
        if (document_find(listing->document, 0, text) < 0) {
            shared = true;
            continue;
        }
        snprintf(text, sizeof text, "systems.%d.plan_space.name", (int)i);
        what_if_set(change, text, name);
    }
    if (shared)
        what_if_set(change, "plan_space.name", name);
}

static void add_framework(struct listing *listing, const char *name)
{
    char text[SCHEMA_WORD_BYTES];
    if (strcmp(listing->scenario->framework_name, name) == 0)
        return;
    snprintf(text, sizeof text, "framework %s", name);
    add_value(listing, text, "framework", name);
}

/** List the changes that are run. */
static void list(struct listing *listing)
{
    static const char *const spaces[] = {"free", "megatron", "wide"};
    static const char *const frameworks[] = {"megatron-core", "nemo", "slimpack-paper"};
    what_if_add(listing->questions, "as it is", listing->document);
    add_assumptions(listing);
    for (int i = 0; i < 3; i++)
        add_space(listing, spaces[i]);
    for (int i = 0; i < 3; i++)
        add_framework(listing, frameworks[i]);
}

/** Take the results of a question. */
static void fill_in(const struct what_if *question, int32_t n_systems, struct sensitivity_change *change)
{
    const struct point_result *result = &question->result;
    *change = (struct sensitivity_change){question->name, question->set, question->memory, what_if_refusal(question),
                                          check_calloc((size_t)n_systems, sizeof *change->systems)};
    for (int32_t i = 0; i < result->n_systems; i++) {
        const struct standing *standing = &result->standings[i];
        change->systems[standing->system] =
            (struct sensitivity_system){result->summary[standing->system].tokens_per_s_per_gpu, standing->rank, i};
    }
}

/** Move all systems of the scenario as it is by the model's error. */
static void fill_error(struct sensitivity *sensitivity, int up)
{
    double deviation = sensitivity->error.deviation, rate = 1 + (up ? deviation : -deviation);
    struct sensitivity_change *change = &sensitivity->changes[sensitivity->questions.n + up];
    sensitivity->error_names[up] = check_asprintf("model error %+.1f%%", up ? 100 * deviation : -100 * deviation);
    fill_in(&sensitivity->questions.at[0], sensitivity->n_systems, change);
    change->name = sensitivity->error_names[up];
    for (int32_t i = 0; i < sensitivity->n_systems; i++)
        change->systems[i].tokens_per_s_per_gpu *= rate;
}

/** An effect is a change and its size for the order. */
struct effect {
    int32_t change;
    double size;
};

/** Return the size of a gain. To fit no longer or to fit at last is infinite; a change that cannot run is below 0. */
static double effect_size(const struct sensitivity *sensitivity, int32_t change, int32_t system)
{
    const struct sensitivity_change *changes = sensitivity->changes;
    if (changes[change].refusal != NULL)
        return -1;
    if ((changes[change].systems[system].rank > 0) != (changes[0].systems[system].rank > 0))
        return INFINITY;
    double gain = sensitivity_gain(sensitivity, change, system);
    return isnan(gain) ? 0 : fabs(gain);
}

static int compare_effects(const void *a, const void *b)
{
    const struct effect *x = a, *y = b;
    int order = COMPARE(y->size, x->size);
    return order != 0 ? order : COMPARE(x->change, y->change);
}

/** Order systems and changes. */
static void order(struct sensitivity *sensitivity)
{
    struct effect *effects = check_calloc((size_t)sensitivity->n, sizeof *effects);
    sensitivity->system_order = check_calloc((size_t)sensitivity->n_systems, sizeof *sensitivity->system_order);
    sensitivity->order = check_calloc((size_t)sensitivity->n, sizeof *sensitivity->order);
    for (int32_t i = 0; i < sensitivity->n_systems; i++)
        sensitivity->system_order[sensitivity->changes[0].systems[i].place] = i;
    for (int32_t i = 1; i < sensitivity->n; i++)
        effects[i] = (struct effect){i, effect_size(sensitivity, i, sensitivity->system_order[0])};
    qsort(effects + 1, (size_t)sensitivity->n - 1, sizeof *effects, compare_effects);
    for (int32_t i = 0; i < sensitivity->n; i++)
        sensitivity->order[i] = effects[i].change;
    free(effects);
}

bool sensitivity_find(const struct document *document, const struct scenario *scenario,
                      const struct what_if_options *options, struct sensitivity *sensitivity, struct error *err)
{
    *sensitivity = (struct sensitivity){.n_systems = scenario->n_systems};
    struct what_ifs *questions = &sensitivity->questions;
    struct listing listing = {document, scenario, questions};
    if (!model_error_read(scenario_data_dir(), scenario, &sensitivity->error, err))
        return false;
    list(&listing);
    if (!what_if_run(questions, options, err))
        return false;
    if (what_if_refusal(&questions->at[0]) != NULL)
        return error_set_status(err, ERROR_FAILED, "%s", what_if_refusal(&questions->at[0]));
    sensitivity->n = questions->n + 2;
    sensitivity->changes = check_calloc((size_t)sensitivity->n, sizeof *sensitivity->changes);
    for (int32_t i = 0; i < questions->n; i++)
        fill_in(&questions->at[i], sensitivity->n_systems, &sensitivity->changes[i]);
    for (int up = 0; up < 2; up++)
        fill_error(sensitivity, up);
    order(sensitivity);
    return true;
}

double sensitivity_gain(const struct sensitivity *sensitivity, int32_t change, int32_t system)
{
    const struct sensitivity_system *before = &sensitivity->changes[0].systems[system],
                                    *after = &sensitivity->changes[change].systems[system];
    if (before->rank == 0 || after->rank == 0)
        return NAN;
    return after->tokens_per_s_per_gpu / before->tokens_per_s_per_gpu - 1;
}

int32_t sensitivity_winner(const struct sensitivity *sensitivity, int32_t change)
{
    const struct sensitivity_system *systems = sensitivity->changes[change].systems;
    for (int32_t i = 0; i < sensitivity->n_systems; i++)
        if (systems[i].place == 0 && systems[i].rank > 0)
            return i;
    return -1;
}

bool sensitivity_changes_winner(const struct sensitivity *sensitivity, int32_t change)
{
    int32_t before = sensitivity_winner(sensitivity, 0), after = sensitivity_winner(sensitivity, change);
    if (sensitivity->changes[change].refusal != NULL || before < 0)
        return before < 0 && after >= 0;
    return sensitivity->changes[change].systems[before].rank != 1;
}

void sensitivity_free(struct sensitivity *sensitivity)
{
    for (int32_t i = 0; i < sensitivity->n; i++)
        free(sensitivity->changes[i].systems);
    for (int i = 0; i < 2; i++)
        free(sensitivity->error_names[i]);
    free(sensitivity->changes);
    free(sensitivity->order);
    free(sensitivity->system_order);
    what_if_free(&sensitivity->questions);
    *sensitivity = (struct sensitivity){0};
}
