/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "simulate/fit_trial.h"

#include <inttypes.h>
#include <pthread.h>

#include "base/check.h"
#include "document/document_set.h"
#include "simulate/path_run.h"

/* A thread holds it except while it searches: HDF5 and Debian's igraph are not safe in threads. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/** Read the scenario with the value. */
static bool prepare(const struct document *document, const char *key, int64_t value, struct path_run *run,
                    struct error *err)
{
    struct document copy;
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, value);
    document_copy(document, "sweep", &copy);
    bool ok = document_set_value(&copy, key, text, "--to", err);
    return path_run_prepare(&copy, run, err) && ok;
}

static bool search(struct path_run *run, const struct search_options *progress, struct error *err)
{
    CHECK(run->scenario.n_systems == 1);
    pthread_mutex_unlock(&lock);
    bool ok = path_run_search(run, progress, err);
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
    struct path_run run = {0};
    struct error found = {0};
    *trial = (struct fit_trial){.value = value};
    pthread_mutex_lock(&lock);
    bool ok = prepare(document, key, value, &run, &found) && search(&run, progress, &found) &&
              path_run_execute(&run, observe, trial, &found);
    if (ok) {
        trial->fits = run.point.systems[0].fits;
        trial->plan = run.point.systems[0].entry->plan;
        trial->summary = point_summary_of(&run.scenario, &run.point, 0);
        trial->limits = evaluation_limits_of(run.point.memory_bytes, &run.scenario.platform);
    } else if (found.status == ERROR_INVALID) {
        trial->refusal = check_strdup(found.text);
    } else {
        *err = found;
    }
    path_run_free(&run);
    pthread_mutex_unlock(&lock);
    return ok || trial->refusal != NULL;
}
