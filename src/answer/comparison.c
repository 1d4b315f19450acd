/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "answer/comparison.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "cost/attention_choice.h"
#include "document/document_read.h"
#include "document/document_set.h"
#include "scenario/scenario_read.h"
#include "simulate/interval.h"

/** Resolve a side and leave only its systems' keys in the document: the scenario before plans are searched. */
static bool resolve(struct document *document, struct comparison_side *side, struct error *err)
{
    struct scenario_cache cache = {0};
    struct lengths lengths = {0};
    struct error none = {0};
    bool ok = scenario_resolve(document, &cache, &side->scenario, err) && point_check(&side->scenario, err) &&
              point_lengths(&side->scenario, &lengths, err);
    side->fastest_attention = side->scenario.attention == DEVICE_FASTEST;
    if (ok) {
        attention_choice_resolve(&side->scenario, &lengths);
        side->read = lengths.read;
        lengths.read = NULL;
        char *text = scenario_text(&side->scenario);
        CHECK(document_parse(text, strlen(text), side->path, &side->document, &none)); /* it reads back */
        free(text);
    }
    lengths_close(&lengths);
    cache_free(&cache);
    return ok;
}

/** Leave only one system in a resolved scenario. */
static void keep_system(struct document *document, int32_t system)
{
    document_keep_entry(document, "systems", system);
    int32_t dp = document_find(document, 0, "systems.0.plan.dp");
    if (dp >= 0)
        snprintf(document->node[dp].value, strlen(document->node[dp].value) + 1, "0"); /* it follows from the others */
}

/** Read both sides and choose their systems, if labels do it. Attention that is the fastest on both sides differs in no
 * key: it follows the device. */
static bool read_sides(struct document documents[2], const char *system, struct comparison *comparison,
                       struct error *err)
{
    for (int i = 0; i < 2; i++) {
        struct comparison_side *side = &comparison->side[i];
        what_if_add(&comparison->sides, side->path, &documents[i]);
        if (!resolve(&documents[i], side, err))
            return false;
        if (system != NULL && scenario_find_system(&side->scenario, system, side->path, err) < 0)
            return false;
    }
    for (int i = 0; i < 2 && comparison->side[0].fastest_attention && comparison->side[1].fastest_attention; i++)
        CHECK(document_set_value(&comparison->side[i].document, "attention", "fastest", "attention", err));
    return true;
}

static bool run_sides(const char *system, const struct what_if_options *options, struct comparison *comparison,
                      struct error *err)
{
    if (!what_if_run(&comparison->sides, options, err))
        return false;
    for (int i = 0; i < 2; i++) {
        struct comparison_side *side = &comparison->side[i];
        const char *refusal = what_if_refusal(&comparison->sides.at[i]);
        if (refusal != NULL)
            return error_set(err, "%s", refusal);
        side->result = &comparison->sides.at[i].result;
        side->system = system != NULL ? scenario_find_system(&side->scenario, system, side->path, err)
                                      : side->result->standings[0].system;
        side->summary = &side->result->summary[side->system];
        keep_system(&side->document, side->system);
        if (!model_error_read(scenario_data_dir(), &side->scenario, side->summary->cp, side->summary->sharding,
                              &side->error, err))
            return false;
        side->interval = model_error_interval(&side->error, side->summary->tokens_per_s_per_gpu);
    }
    return true;
}

/** Run the first side's system with each difference alone. A refusal is a result. */
static bool run_changes(const struct what_if_options *options, struct comparison *comparison, struct error *err)
{
    const struct comparison_side *from = &comparison->side[0], *to = &comparison->side[1];
    int32_t n = comparison->differences.n;
    for (int32_t i = 0; i < n; i++) {
        const struct difference *difference = &comparison->differences.list[i];
        struct what_if *question = what_if_add(&comparison->changes, difference->name, &from->document);
        struct error refused = {0};
        if (!difference_apply(difference, &to->document, &question->document, &refused))
            what_if_refuse(question, refused.text);
    }
    progress_expect(options->progress, 1, 0, 0);
    if (!what_if_run(&comparison->changes, options, err))
        return false;
    comparison->contributions = check_calloc((size_t)n + 1, sizeof *comparison->contributions);
    comparison->interaction = comparison->total.gain;
    for (int32_t i = 0; i < n; i++) {
        struct contribution *contribution = &comparison->contributions[i];
        const char *refusal = what_if_refusal(&comparison->changes.at[i]);
        contribution->difference = &comparison->differences.list[i];
        if (refusal != NULL) {
            contribution->refusal = check_asprintf("%.*s", (int)strcspn(refusal, "\n"), refusal);
            continue;
        }
        const struct trace_summary *summary = comparison->changes.at[i].result.summary;
        contribution->fits = summary->fits;
        contribution->tokens_per_s_per_gpu = summary->tokens_per_s_per_gpu;
        contribution->gain = summary->tokens_per_s_per_gpu / from->summary->tokens_per_s_per_gpu - 1;
        comparison->interaction -= contribution->gain;
    }
    return true;
}

/** Return whether both have the same batches and model, so that iterations are pairs. */
static bool same_batches(const struct differences *differences)
{
    static const char *const keys[] = {"data.", "iterations.", "seed", "model"};
    for (int32_t i = 0; i < differences->n; i++)
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
            if (strncmp(differences->list[i].name, keys[k], strlen(keys[k])) == 0)
                return false;
    return true;
}

/** Return the measured iterations of a system. The caller frees them. */
static struct point_iteration *measured_iterations(const struct point_result *result, int32_t system)
{
    struct point_iteration *list = check_calloc((size_t)result->n_iterations, sizeof *list);
    for (int32_t i = 0, n = 0; i < result->n_iterations; i++) {
        const struct trace_iteration *row = &result->iterations[i];
        if (row->system == system && row->measured)
            list[n++] = (struct point_iteration){.row = *row};
    }
    return list;
}

struct gain comparison_pair(const struct comparison *comparison, int32_t a, int32_t b)
{
    const struct comparison_side *from = &comparison->side[0], *to = &comparison->side[1];
    struct gain gain = {to->result->summary[b].tokens_per_s_per_gpu / from->result->summary[a].tokens_per_s_per_gpu - 1,
                        NAN};
    if (!comparison->same_batches ||
        platform_n_gpus(&from->scenario.platform) != platform_n_gpus(&to->scenario.platform))
        return gain;
    struct point_iteration *base = measured_iterations(from->result, a), *other = measured_iterations(to->result, b);
    gain.half = interval_of_speed_up(base, other, (int32_t)from->scenario.measured);
    free(base);
    free(other);
    return gain;
}

bool comparison_find(struct document documents[2], const char *const paths[2], const char *system,
                     struct what_if_options *options, struct comparison *comparison, struct error *err)
{
    *comparison = (struct comparison){.side = {{.path = paths[0]}, {.path = paths[1]}}};
    if (!read_sides(documents, system, comparison, err))
        return false;
    comparison->name =
        check_asprintf("%.100s.%.100s.compare", comparison->side[0].scenario.name, comparison->side[1].scenario.name);
    options->name = comparison->name;
    progress_expect(options->progress, 1, 8, 8); /* differences, before they are known */
    if (!run_sides(system, options, comparison, err))
        return false;
    differences_find(&comparison->side[0].document, &comparison->side[1].document, &comparison->differences);
    comparison->same_batches = same_batches(&comparison->differences);
    comparison->total = comparison_pair(comparison, comparison->side[0].system, comparison->side[1].system);
    return run_changes(options, comparison, err);
}

void comparison_free(struct comparison *comparison)
{
    for (int32_t i = 0; comparison->contributions != NULL && i < comparison->differences.n; i++)
        free(comparison->contributions[i].refusal);
    free(comparison->contributions);
    free(comparison->name);
    differences_free(&comparison->differences);
    for (int i = 0; i < 2; i++) {
        document_free(&comparison->side[i].document);
        scenario_free(&comparison->side[i].scenario);
        free(comparison->side[i].read);
    }
    what_if_free(&comparison->sides);
    what_if_free(&comparison->changes);
    *comparison = (struct comparison){0};
}
