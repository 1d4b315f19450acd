/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sweep/sweep_runner.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "cost/attention_choice.h"
#include "scenario/scenario_read.h"
#include "scenario/taken.h"
#include "search/search.h"
#include "simulate/assumptions.h"
#include "simulate/record_rows.h"

static bool same_data(const struct scenario_data *a, const struct scenario_data *b)
{
    return strcmp(a->lengths, b->lengths) == 0 && strcmp(a->column, b->column) == 0 &&
           a->length_scale == b->length_scale && a->context == b->context && a->long_documents == b->long_documents &&
           a->global_batch == b->global_batch && a->global_batch_tokens == b->global_batch_tokens;
}

static const struct lengths *find_lengths(struct sweep_runner *runner, const struct scenario *scenario,
                                          struct error *err)
{
    const struct scenario_data *data = &scenario->data;
    for (int32_t i = 0; i < runner->n_lengths; i++)
        if (same_data(&runner->lengths[i].data, data))
            return &runner->lengths[i].lengths;
    struct cached_lengths *entry = &runner->lengths[runner->next_lengths];
    lengths_close(&entry->lengths);
    memset(&entry->data, 0, sizeof entry->data);
    if (!point_lengths(scenario, &entry->lengths, err))
        return NULL;
    entry->data = *data;
    runner->next_lengths = (runner->next_lengths + 1) % SWEEP_MAX_LENGTHS;
    runner->n_lengths += runner->n_lengths < SWEEP_MAX_LENGTHS;
    return &entry->lengths;
}

static uint64_t id_of(const struct scenario *scenario, const struct lengths *lengths)
{
    char *text = scenario_text(scenario);
    const uint64_t files[] = {scenario->model_hash, scenario->device_hash, scenario->platform.hash, lengths->hash};
    uint64_t id = hash_bytes(hash_bytes(HASH_START, text, strlen(text)), files, sizeof files);
    free(text);
    return id;
}

bool sweep_runner_point(struct sweep_runner *runner, int32_t point, struct scenario *scenario,
                        const struct lengths **lengths, uint64_t *id, struct error *err)
{
    struct document document = {0};
    bool ok = sweep_point(runner->sweep, point, &document, err);
    ok = scenario_resolve(&document, &runner->cache, scenario, err) && ok && point_check(scenario, err);
    *lengths = ok ? find_lengths(runner, scenario, err) : NULL;
    if (*lengths == NULL) {
        scenario_free(scenario);
        return false;
    }
    attention_choice_resolve(scenario, *lengths);
    *id = id_of(scenario, *lengths);
    char line[ASSUMPTIONS_SIZE];
    taken_words(scenario, &runner->notes);
    if (assumptions_unlike_nvlink(&scenario->platform, &scenario->device, line))
        error_add(&runner->notes, "%s", line);
    if (assumptions_oversubscription(scenario, line))
        error_add(&runner->notes, "%s", line);
    return true;
}

/** It collects the results of a point that runs. */
struct run {
    struct record record; /* of a full trace */
    struct point_result *result;
    size_t capacity;
    struct search_result *searched; /* [n_systems] */
};

static bool observe(void *context, const struct point_view *view, struct error *err)
{
    struct run *run = context;
    struct point_result *result = run->result;
    if (view->scenario->trace == SCENARIO_TRACE_NONE)
        return true;
    result->iterations =
        check_grow(result->iterations, (size_t)result->n_iterations, &run->capacity, sizeof *result->iterations);
    result->iterations[result->n_iterations++] = record_iteration(view->system_index, view->iteration);
    return run->record.trace == NULL || record_observe(&run->record, view, err);
}

/** Open the record of a full trace. Its first table has the plans that a search tried. */
static bool start_record(const struct scenario *scenario, const struct lengths *lengths, struct run *run,
                         struct error *err)
{
    if (scenario->trace != SCENARIO_TRACE_FULL)
        return true;
    bool ok = record_open(&run->record, NULL, scenario, run->result->scenario, lengths->hash, err);
    for (int32_t i = 0; i < scenario->n_systems && ok; i++)
        ok = record_search(&run->record, i, &run->searched[i], err);
    return ok;
}

/** Fill in the plans that the scenario leaves to a search. Then its resolved text is known. */
static bool search_plans(struct scenario *scenario, const struct lengths *lengths, struct run *run, struct error *err)
{
    struct search_options options = {.engine = scenario->engine == SCENARIO_CRITICAL_PATH ? NULL : point_execute};
    run->searched = check_calloc((size_t)scenario->n_systems, sizeof *run->searched);
    bool ok = search_scenario(scenario, lengths, &options, run->searched, err);
    run->result->scenario = scenario_text(scenario);
    return ok && start_record(scenario, lengths, run, err);
}

static bool run_point(const struct scenario *scenario, const struct lengths *lengths, struct run *run,
                      struct point *point, struct error *err)
{
    struct point_options options = {.searches = run->searched, .observer = observe, .context = run};
    return point_run(scenario, lengths, &options, point, err);
}

static void free_searches(struct search_result *searched, int32_t n_systems)
{
    for (int32_t i = 0; searched != NULL && i < n_systems; i++)
        search_result_free(&searched[i]);
    free(searched);
}

static bool finish(const struct scenario *scenario, const struct point *point, struct run *run, struct error *err)
{
    struct point_result *result = run->result;
    size_t n = (size_t)point->n_systems;
    struct point_summary *summaries = point_summaries_of(scenario, point);
    result->summary = check_calloc(n, sizeof *result->summary);
    result->label = check_calloc(n, sizeof *result->label);
    for (int32_t i = 0; i < point->n_systems; i++) {
        result->summary[i] = record_summary(scenario, point, i, &summaries[i]);
        result->label[i] = check_strdup(scenario->systems[i].label);
    }
    result->n_systems = point->n_systems;
    bool ok =
        run->record.trace == NULL || record_close_image(&run->record, scenario, point, summaries, &result->image, err);
    free(summaries);
    return ok;
}

void sweep_runner_run(struct sweep_runner *runner, int32_t index, struct point_result *result)
{
    struct scenario scenario = {0};
    struct point point = {0};
    struct error err = {0};
    struct run run = {.result = result};
    const struct lengths *lengths;
    *result = (struct point_result){0};
    bool ok = sweep_runner_point(runner, index, &scenario, &lengths, &result->id, &err);
    if (ok) {
        uint64_t id = result->id;
        ok = search_plans(&scenario, lengths, &run, &err) && run_point(&scenario, lengths, &run, &point, &err) &&
             (run.record.trace == NULL ||
              record_typical_iteration(&run.record, &scenario, lengths, run.searched, &point, &err)) &&
             finish(&scenario, &point, &run, &err) &&
             (point_result_fits(result) ||
              error_set_status(&err, ERROR_FAILED, "a number of its results is not finite"));
        if (!ok) {
            point_result_free(result);
            enum result_status status = err.status == ERROR_INTERRUPTED ? RESULT_KILLED : RESULT_FAILED;
            *result = (struct point_result){.id = id, .status = status, .message = check_strdup(err.text)};
        }
    }
    CHECK(ok || result->status != RESULT_DONE); /* the driver resolved the point before */
    record_abandon(&run.record);
    point_free(&point);
    free_searches(run.searched, scenario.n_systems);
    scenario_free(&scenario);
}

void sweep_runner_close(struct sweep_runner *runner)
{
    for (int32_t i = 0; i < runner->n_lengths; i++)
        lengths_close(&runner->lengths[i].lengths);
    cache_free(&runner->cache);
}
