/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "answer/sensitivity.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/compare.h"
#include "cost/attention_choice.h"
#include "scenario/assumption.h"
#include "scenario/layout.h"
#include "scenario/scenario_read.h"
#include "system/system.h"

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

/** Return whether a system takes its plan with another degree of expert parallelism. */
static bool takes_expert_ranks(const struct scenario *scenario, const struct scenario_system *entry, int64_t ep)
{
    struct scenario_system changed = *entry;
    struct error refused = {0};
    const struct training_system *system = system_find(entry->name, &refused);
    changed.plan.ep = ep;
    return system != NULL && system_takes_experts(system, &changed.plan) && layout_check(scenario, &changed, &refused);
}

/** Change the degree of expert parallelism of all plans that are given and can have the other one. */
static void add_expert_ranks(struct listing *listing, double factor)
{
    const struct scenario *scenario = listing->scenario;
    struct what_if *change = NULL;
    char name[SCHEMA_WORD_BYTES], key[SCHEMA_WORD_BYTES], value[SCHEMA_WORD_BYTES];
    snprintf(name, sizeof name, "ep x%g", factor);
    for (int32_t i = 0; i < scenario->n_systems; i++) {
        const struct scenario_system *entry = &scenario->systems[i];
        double ep = factor * (double)entry->plan.ep;
        if (entry->auto_plan || ep != floor(ep) || !takes_expert_ranks(scenario, entry, (int64_t)ep))
            continue;
        if (change == NULL)
            change = what_if_add(listing->questions, name, listing->document);
        snprintf(key, sizeof key, "systems.%d.plan.ep", (int)i);
        snprintf(value, sizeof value, "%" PRId64, (int64_t)ep);
        what_if_set(change, key, value);
    }
}

static void add_assumptions(struct listing *listing)
{
    const struct scenario *scenario = listing->scenario;
    bool kernels = attention_choice_is_own(scenario) || attention_choice_is_scaled(scenario);
    for (enum assumption i = kernels ? ASSUME_ATTENTION : ASSUME_DP_OVERLAP; i < ASSUME_KERNELS; i++)
        if (model_has_experts(&scenario->model) || (i != ASSUME_DISPATCHER && i != ASSUME_EP_OVERLAP))
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
    if (!model_has_experts(&scenario->model))
        return;
    add_assumption(listing, ASSUME_IMBALANCE);
    add_expert_ranks(listing, 0.5);
    add_expert_ranks(listing, 2);
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

/** Change the framework. Recomputation stays, though frameworks mean different things by `selective`. */
static void add_framework(struct listing *listing, const char *name)
{
    char text[SCHEMA_WORD_BYTES];
    if (strcmp(listing->scenario->framework_name, name) == 0)
        return;
    snprintf(text, sizeof text, "framework %s", name);
    struct what_if *change = what_if_add(listing->questions, text, listing->document);
    what_if_set(change, "framework", name);
    for (int32_t i = 0; i < listing->scenario->n_systems; i++) {
        const struct scenario_system *system = &listing->scenario->systems[i];
        snprintf(text, sizeof text, "systems.%d.plan.recompute", (int)i);
        if (!system->auto_plan)
            what_if_set(change, text, scenario_recompute_name[system->plan.recompute]);
    }
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

/** Return the rank of a system in a result; 0: it does not fit, or the question was refused. */
static int32_t rank_of(const struct point_result *result, int32_t system)
{
    for (int32_t i = 0; i < result->n_systems; i++)
        if (result->standings[i].system == system)
            return result->standings[i].rank;
    return 0;
}

/** Return whether two systems tie: by the scenario as it is if both kept its plans, otherwise by the change. */
static bool tie(const struct point_result *base, const struct point_result *result, const bool *kept, int32_t a,
                int32_t b)
{
    const struct point_result *of = kept[a] && kept[b] ? base : result;
    return rank_of(of, a) > 0 && rank_of(of, a) == rank_of(of, b);
}

/** Order the systems of a result that fit by their MFU, tight ones last, and rank them. */
static void rank_again(const struct point_result *base, const bool *kept, struct point_result *result)
{
    int32_t n = 0;
    struct standing *standings = check_malloc((size_t)result->n_systems * sizeof *standings);
    for (int32_t k = 0; k < 2 * result->n_systems; k++) {
        int32_t i = k % result->n_systems, at = n;
        const struct trace_summary *summary = &result->summary[i];
        bool fits = kept[i] || rank_of(result, i) > 0;
        if (fits != (k < result->n_systems))
            continue;
        for (; fits && at > 0; at--) { /* insertion sort: few systems */
            const struct trace_summary *before = &result->summary[standings[at - 1].system];
            if (before->tight != summary->tight ? summary->tight : before->mfu >= summary->mfu)
                break;
            standings[at] = standings[at - 1];
        }
        standings[at] = (struct standing){i, fits};
        n++;
    }
    for (int32_t i = 0, best = 0; i < n && standings[i].rank > 0; i++) {
        best = i > 0 && !tie(base, result, kept, standings[best].system, standings[i].system) ? i : best;
        standings[i].rank = best + 1;
    }
    free(result->standings);
    result->standings = standings;
}

/** With more memory let a system keep the plan of the scenario as it is if the new one is slower, since it still fits.
 */
static void keep_better(const struct point_result *base, struct point_result *result)
{
    bool *kept = check_calloc((size_t)result->n_systems, sizeof *kept), any = false;
    for (int32_t i = 0; i < result->n_systems; i++) {
        kept[i] = rank_of(base, i) > 0 && (rank_of(result, i) == 0 || result->summary[i].mfu < base->summary[i].mfu);
        any = any || kept[i];
        if (kept[i])
            result->summary[i] = base->summary[i];
    }
    if (any)
        rank_again(base, kept, result);
    free(kept);
}

/**
 * Return the size of an effect on a system. To fit no longer or to fit at last is infinite. A change that cannot run is
 * below 0.
 */
static double effect_size(const struct trace_sensitivity *row, bool fitted)
{
    if (row->refused != NULL)
        return -1;
    return (bool)row->fits != fitted ? INFINITY : isnan(row->gain) ? 0 : fabs(row->gain);
}

/** Return the labels of the systems that share the first rank in a result with the first one of `base`, but not in
 * `base`. "": there are none. The caller frees. */
static char *new_ties(const struct point_result *base, const struct point_result *result)
{
    char *labels = check_strdup("");
    int32_t first = base->standings[0].system;
    bool is_first = rank_of(base, first) == 1 && rank_of(result, first) == 1;
    for (int32_t i = 0; is_first && i < result->n_systems; i++) {
        int32_t system = result->standings[i].system;
        if (system == first || result->standings[i].rank != 1 || rank_of(base, system) == 1)
            continue;
        char *longer = check_asprintf("%s%s%s", labels, *labels != '\0' ? " " : "", result->label[system]);
        free(labels);
        labels = longer;
    }
    return labels;
}

/** Make the rows of a question. @param rate  factor of all rates */
static void add_change(struct sensitivity *sensitivity, const struct what_if *question, const char *name, double rate)
{
    const struct point_result *base = &sensitivity->questions.at[0].result, *result = &question->result;
    const char *refused = what_if_refusal(question);
    bool fitted = base->standings[0].rank > 0, fits = refused == NULL && result->standings[0].rank > 0;
    struct sensitivity_change *change = &sensitivity->changes[sensitivity->n];
    *change = (struct sensitivity_change){.rows = check_calloc((size_t)base->n_systems, sizeof *change->rows),
                                          .tie = refused == NULL ? new_ties(base, result) : check_strdup(""),
                                          .memory = question->memory,
                                          .index = sensitivity->n};
    for (int32_t i = 0; i < base->n_systems; i++) {
        int32_t system = base->standings[i].system, rank = rank_of(result, system);
        double before = base->summary[system].tokens_per_s_per_gpu,
               after = refused == NULL ? rate * result->summary[system].tokens_per_s_per_gpu : NAN;
        change->rows[i] = (struct trace_sensitivity){
            .change = name,
            .set = question->set,
            .system = base->label[system],
            .fits = rank > 0,
            .tight = refused == NULL && result->summary[system].tight,
            .rank = rank,
            .tokens_per_s_per_gpu = after,
            .gain = base->standings[i].rank > 0 && rank > 0 ? after / before - 1 : NAN,
            .winner = fits ? base->label[result->standings[0].system] : NULL,
            .tie = change->tie,
            .refused = refused,
        };
        bool other = refused == NULL && change->rows[0].rank != 1; /* the first does not even share rank 1 */
        change->rows[i].winner_changes = fitted ? other : fits;
    }
    change->size = effect_size(&change->rows[0], fitted);
    sensitivity->n++;
}

static int compare_changes(const void *a, const void *b)
{
    const struct sensitivity_change *x = a, *y = b;
    int order = COMPARE(y->size, x->size);
    return order != 0 ? order : COMPARE(x->index, y->index);
}

static int64_t largest_cp(const struct point_result *result)
{
    int64_t cp = 1;
    for (int32_t i = 0; i < result->n_systems; i++)
        cp = result->summary[i].cp > cp ? result->summary[i].cp : cp;
    return cp;
}

bool sensitivity_find(const struct document *document, const struct scenario *scenario,
                      const struct what_if_options *options, struct sensitivity *sensitivity, struct error *err)
{
    *sensitivity = (struct sensitivity){.n_systems = scenario->n_systems};
    struct what_ifs *questions = &sensitivity->questions;
    if (!scenario_refuse_replay(scenario, "which do not change with what is assumed", err))
        return false;
    struct listing listing = {document, scenario, questions};
    list(&listing);
    if (!what_if_run(questions, options, err))
        return false;
    if (what_if_refusal(&questions->at[0]) != NULL)
        return error_set_status(err, ERROR_FAILED, "%s", what_if_refusal(&questions->at[0]));
    const struct point_result *base = &questions->at[0].result;
    if (!model_error_read(scenario_data_dir(), scenario, largest_cp(base),
                          base->summary[base->standings[0].system].sharding, &sensitivity->error, err))
        return false;
    sensitivity->changes = check_calloc((size_t)questions->n + 2, sizeof *sensitivity->changes);
    for (int32_t i = 0; i < questions->n; i++)
        if (questions->at[i].memory > 1 && what_if_refusal(&questions->at[i]) == NULL)
            keep_better(&questions->at[0].result, &questions->at[i].result);
    for (int32_t i = 0; i < questions->n; i++)
        add_change(sensitivity, &questions->at[i], questions->at[i].name, 1);
    for (int up = 0; up < 2; up++) {
        double deviation = up ? sensitivity->error.deviation : -sensitivity->error.deviation;
        sensitivity->error_names[up] = check_asprintf("model error %+.1f%%", 100 * deviation);
        add_change(sensitivity, &questions->at[0], sensitivity->error_names[up], 1 + deviation);
    }
    qsort(sensitivity->changes + 1, (size_t)sensitivity->n - 1, sizeof *sensitivity->changes, compare_changes);
    return true;
}

void sensitivity_free(struct sensitivity *sensitivity)
{
    for (int32_t i = 0; i < sensitivity->n; i++) {
        free(sensitivity->changes[i].rows);
        free(sensitivity->changes[i].tie);
    }
    for (int i = 0; i < 2; i++)
        free(sensitivity->error_names[i]);
    free(sensitivity->changes);
    what_if_free(&sensitivity->questions);
    *sensitivity = (struct sensitivity){0};
}
