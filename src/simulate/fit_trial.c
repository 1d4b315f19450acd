/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "simulate/fit_trial.h"

#include <inttypes.h>
#include <pthread.h>

#include "base/check.h"
#include "cost/attention_choice.h"
#include "scenario/cache.h"
#include "scenario/document_set.h"
#include "scenario/scenario_read.h"

/* A thread holds it except while it searches: HDF5 and Debian's igraph are not safe in threads. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/** Read the scenario with the value. */
static bool read_value(const struct document *document, const char *key, int64_t value, struct scenario *scenario,
                       struct error *err)
{
    struct document copy;
    struct scenario_cache cache = {0};
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, value);
    document_copy(document, "sweep", &copy);
    bool ok = document_set_value(&copy, key, text, "--to", err);
    ok = scenario_resolve(&copy, &cache, scenario, err) && ok && point_check(scenario, err);
    cache_free(&cache);
    scenario->engine = SCENARIO_CRITICAL_PATH;
    scenario->trace = SCENARIO_TRACE_NONE;
    return ok;
}

static bool search(struct scenario *scenario, const struct lengths *lengths, const struct search_options *progress,
                   struct search_result *result, struct error *err)
{
    pthread_mutex_unlock(&lock);
    bool ok = search_scenario(scenario, lengths, progress, result, err);
    pthread_mutex_lock(&lock);
    return ok;
}

/** Note the longest sample. This is a point_observer. */
static bool observe(void *context, const struct point_view *view, struct error *err)
{
    struct fit_trial *trial = context;
    (void)err;
    for (int32_t i = 0; i < view->batch->n_samples; i++)
        if (view->batch->tokens[i] > trial->longest_tokens)
            trial->longest_tokens = view->batch->tokens[i];
    return true;
}

bool fit_trial_run(const struct document *document, const char *key, int64_t value,
                   const struct search_options *progress, struct fit_trial *trial, struct error *err)
{
    struct scenario scenario = {0};
    struct lengths lengths = {0};
    struct search_result result = {0};
    struct point point = {0};
    struct error found = {0};
    *trial = (struct fit_trial){.value = value};
    pthread_mutex_lock(&lock);
    bool ok = read_value(document, key, value, &scenario, &found) && point_lengths(&scenario, &lengths, &found);
    if (ok) {
        CHECK(scenario.n_systems == 1);
        attention_choice_resolve(&scenario, &lengths);
        struct point_options options = {.searches = &result, .observer = observe, .context = trial};
        ok = search(&scenario, &lengths, progress, &result, &found) &&
             point_run(&scenario, &lengths, &options, &point, &found);
    }
    if (ok) {
        trial->fits = point.systems[0].fits;
        trial->plan = point.systems[0].entry->plan;
        trial->summary = point_summary_of(&scenario, &point, 0);
        trial->limits = evaluation_limits_of(point.memory_bytes, &scenario.platform);
    } else if (found.status == ERROR_INVALID) {
        trial->refusal = check_strdup(found.text);
    } else {
        *err = found;
    }
    point_free(&point);
    search_result_free(&result);
    lengths_close(&lengths);
    scenario_free(&scenario);
    pthread_mutex_unlock(&lock);
    return ok || trial->refusal != NULL;
}
