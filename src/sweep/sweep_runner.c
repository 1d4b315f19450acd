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
#include "simulate/record.h"
#include "simulate/standing.h"

static bool same_data(const struct scenario_data *a, const struct scenario_data *b)
{
    return strcmp(a->lengths, b->lengths) == 0 && strcmp(a->column, b->column) == 0 &&
           strcmp(a->weights, b->weights) == 0 && a->length_scale == b->length_scale && a->context == b->context &&
           a->long_documents == b->long_documents && a->global_batch == b->global_batch &&
           a->global_batch_tokens == b->global_batch_tokens && a->n_parts == b->n_parts &&
           a->scheduled == b->scheduled && a->schedule_begin == b->schedule_begin &&
           memcmp(a->part, b->part, sizeof a->part) == 0;
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
    if (entry->lengths.read != NULL)
        error_add(&runner->notes, "%s", entry->lengths.read);
    entry->data = *data;
    runner->next_lengths = (runner->next_lengths + 1) % SWEEP_MAX_LENGTHS;
    runner->n_lengths += runner->n_lengths < SWEEP_MAX_LENGTHS;
    return &entry->lengths;
}

uint64_t sweep_point_id(const struct scenario *scenario, const struct lengths *lengths)
{
    char *text = scenario_text(scenario);
    const uint64_t files[] = {scenario->model_hash, scenario->device_hash, scenario->platform.hash, lengths->hash};
    uint64_t id = hash_bytes(hash_bytes(HASH_START, text, strlen(text)), files, sizeof files);
    const struct power *power = &scenario->power; /* the text has only its name */
    id = hash_bytes(hash_bytes(id, &power->node, sizeof power->node), &power->gpu, sizeof power->gpu);
    id = hash_bytes(hash_bytes(id, &power->network_w, sizeof power->network_w), &power->gpus, sizeof power->gpus);
    free(text);
    return id;
}

void sweep_runner_note(const struct scenario *scenario, struct error *notes)
{
    char line[ASSUMPTIONS_SIZE];
    taken_words(scenario, notes);
    if (assumptions_unlike_nvlink(&scenario->platform, &scenario->device, line))
        error_add(notes, "%s", line);
    if (assumptions_oversubscription(scenario, line))
        error_add(notes, "%s", line);
}

bool sweep_runner_point(struct sweep_runner *runner, int32_t point, struct scenario *scenario,
                        const struct lengths **lengths, uint64_t *id, struct error *err)
{
    struct document document = {0};
    const struct asked_point *asked = runner->asked != NULL ? &runner->asked[point] : NULL;
    bool ok = true;
    if (asked != NULL)
        document_copy(asked->document, "sweep", &document);
    else
        ok = sweep_point(runner->sweep, point, &document, err);
    bool resolved = scenario_resolve(&document, &runner->cache, scenario, err);
    if (resolved)
        sweep_runner_note(scenario, &runner->notes);
    else if (*err->notes != '\0')
        error_add(&runner->notes, "%s", err->notes);
    ok = resolved && ok && point_check(scenario, err);
    *lengths = ok ? find_lengths(runner, scenario, err) : NULL;
    if (*lengths == NULL) {
        scenario_free(scenario);
        return false;
    }
    attention_choice_resolve(scenario, *lengths);
    if (asked != NULL && asked->critical_path) {
        scenario->engine = SCENARIO_CRITICAL_PATH;
        scenario->trace = SCENARIO_TRACE_SUMMARY;
    }
    *id = sweep_point_id(scenario, *lengths);
    if (asked != NULL && asked->memory != 1) {
        scenario->device.memory_bytes *= asked->memory;
        *id = hash_bytes(*id, &asked->memory, sizeof asked->memory);
    }
    if (asked != NULL && asked->priced)
        *id = hash_bytes(*id, "priced", strlen("priced"));
    return true;
}

/** It collects the results of a point that runs. */
struct run {
    struct record record; /* of a full trace */
    struct point_result *result;
    size_t capacity;
    struct search_result *searched; /* [n_systems] */
    const struct scenario *scenario;
    volatile double *share; /* see struct sweep_runner */
    int32_t n_observed;     /* iterations of all systems */
    int32_t priced;         /* system that `pricing` belongs to */
    struct pricing *pricing;
};

/* A search takes half to nearly all of the time of a point with `plan: auto`. */
static const double search_share = 0.6;

static void note_share(const struct run *run, double share)
{
    if (run->share != NULL)
        *run->share = share;
}

/** Note how far the searches are. This is a search_progress. */
static bool note_search(void *context, const struct scenario_system *entry, int32_t n_settled, int32_t n_plans,
                        const struct search_plan *best)
{
    const struct run *run = context;
    double before = (double)(entry - run->scenario->systems);
    (void)best;
    note_share(run, search_share * (before + (double)n_settled / n_plans) / run->scenario->n_systems);
    return true;
}

/** Price the plan of a measured iteration, if that was asked for. */
static bool price(struct run *run, const struct point_view *view, struct error *err)
{
    if (run->result->n_priced == 0 || !view->iteration->row.measured)
        return true;
    if (run->pricing == NULL || run->priced != view->system_index) {
        pricing_close(run->pricing);
        run->pricing = pricing_open(view->scenario, view->system->entry);
        run->priced = view->system_index;
    }
    return pricing_add(run->pricing, view->plan, &run->result->free_costs[view->system_index], err);
}

static bool observe(void *context, const struct point_view *view, struct error *err)
{
    struct run *run = context;
    struct point_result *result = run->result;
    double n = (double)view->scenario->n_systems * view->system->n_iterations;
    bool searched = run->searched[view->system_index].n_plans > 0;
    note_share(run, (searched ? search_share : 0) + (searched ? 1 - search_share : 1) * ++run->n_observed / n);
    for (int32_t i = 0; i < view->batch->n_samples; i++)
        if (view->batch->tokens[i] > result->longest_tokens)
            result->longest_tokens = view->batch->tokens[i];
    if (!price(run, view, err))
        return false;
    if (view->scenario->trace == SCENARIO_TRACE_NONE)
        return true;
    result->iterations =
        check_grow(result->iterations, (size_t)result->n_iterations, &run->capacity, sizeof *result->iterations);
    result->iterations[result->n_iterations++] = view->iteration->row;
    return run->record.trace == NULL || record_observe(&run->record, view, err);
}

/** Open the record of a full trace. Its first table has the plans that a search tried. */
static bool start_record(const struct scenario *scenario, const struct lengths *lengths, struct run *run,
                         struct error *err)
{
    if (scenario->trace != SCENARIO_TRACE_FULL)
        return true;
    bool ok = record_open(&run->record, NULL, scenario, run->result->scenario, lengths, err);
    for (int32_t i = 0; i < scenario->n_systems && ok; i++)
        ok = record_search(&run->record, i, &run->searched[i], err);
    return ok;
}

/** Fill in the plans that the scenario leaves to a search. Then its resolved text is known. */
static bool search_plans(const struct sweep_runner *runner, struct scenario *scenario, const struct lengths *lengths,
                         struct run *run, struct error *err)
{
    struct search_options options = {.engine = scenario->engine == SCENARIO_CRITICAL_PATH ? NULL : point_execute,
                                     .progress = note_search,
                                     .context = run,
                                     .n_threads = runner->n_threads};
    run->searched = check_calloc((size_t)scenario->n_systems, sizeof *run->searched);
    bool ok = search_scenario(scenario, lengths, &options, run->searched, err);
    run->result->scenario = scenario_text(scenario);
    return ok && start_record(scenario, lengths, run, err);
}

/** Run a point. One that somebody asks for runs iterations side by side, too. */
static bool run_point(const struct sweep_runner *runner, const struct scenario *scenario, const struct lengths *lengths,
                      struct run *run, struct point *point, struct error *err)
{
    struct point_options options = {.searches = run->searched,
                                    .observer = observe,
                                    .context = run,
                                    .n_children = runner->asked != NULL ? runner->n_threads : 1};
    bool ok = point_run(scenario, lengths, &options, point, err);
    pricing_close(run->pricing);
    return ok;
}

static void free_searches(struct search_result *searched, int32_t n_systems)
{
    for (int32_t i = 0; searched != NULL && i < n_systems; i++)
        search_result_free(&searched[i]);
    free(searched);
}

/** Complete a full trace: the typical iteration, and the verdict. */
static bool finish_record(const struct sweep_runner *runner, const struct scenario *scenario,
                          const struct lengths *lengths, const struct point *point, struct run *run, struct error *err)
{
    return run->record.trace == NULL ||
           (record_typical_iteration(&run->record, scenario, lengths, run->searched, point, err) &&
            (runner->verdict == NULL || runner->verdict(scenario, lengths, point, run->record.trace, err)));
}

static bool finish(const struct scenario *scenario, const struct point *point, struct run *run, struct error *err)
{
    struct point_result *result = run->result;
    struct ranked_point ranked = ranked_point_of(scenario, point);
    result->summary = ranked.summaries;
    result->standings = ranked.standings;
    result->label = check_calloc((size_t)point->n_systems, sizeof *result->label);
    for (int32_t i = 0; i < point->n_systems; i++)
        result->label[i] = check_strdup(scenario->systems[i].label);
    result->n_systems = point->n_systems;
    return run->record.trace == NULL ||
           record_close_image(&run->record, scenario, point, result->summary, &result->image, err);
}

void sweep_runner_run(struct sweep_runner *runner, int32_t index, struct point_result *result)
{
    struct scenario scenario = {0};
    struct point point = {0};
    struct error err = {0};
    struct run run = {.result = result, .scenario = &scenario, .share = runner->share};
    const struct lengths *lengths;
    *result = (struct point_result){0};
    bool ok = sweep_runner_point(runner, index, &scenario, &lengths, &result->id, &err);
    if (ok) {
        uint64_t id = result->id;
        result->n_priced = runner->asked != NULL && runner->asked[index].priced ? scenario.n_systems : 0;
        result->free_costs = check_calloc((size_t)result->n_priced, sizeof *result->free_costs);
        ok = search_plans(runner, &scenario, lengths, &run, &err) &&
             run_point(runner, &scenario, lengths, &run, &point, &err) &&
             finish_record(runner, &scenario, lengths, &point, &run, &err) && finish(&scenario, &point, &run, &err) &&
             (point_result_fits(result) ||
              error_set_status(&err, ERROR_FAILED, "a number of its results is not finite"));
        if (!ok) {
            point_result_free(result);
            bool refused = runner->asked != NULL ? err.status == ERROR_INVALID : err.status != ERROR_INTERRUPTED;
            enum result_status status = refused ? RESULT_FAILED : RESULT_KILLED;
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
