/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "simulate/path_run.h"

#include <stdlib.h>

#include "base/check.h"
#include "cost/attention_choice.h"
#include "scenario/cache.h"
#include "scenario/scenario_read.h"

bool path_run_prepare(struct document *document, struct path_run *run, struct error *err)
{
    struct scenario_cache cache = {0};
    bool ok = scenario_resolve(document, &cache, &run->scenario, err) && point_check(&run->scenario, err) &&
              point_lengths(&run->scenario, &run->lengths, err);
    cache_free(&cache);
    if (ok)
        attention_choice_resolve(&run->scenario, &run->lengths);
    return ok;
}

bool path_run_search(struct path_run *run, const struct search_options *options, struct error *err)
{
    run->searches = check_calloc((size_t)run->scenario.n_systems, sizeof *run->searches);
    return search_scenario(&run->scenario, &run->lengths, options, run->searches, err);
}

bool path_run_execute(struct path_run *run, point_observer *observer, void *context, struct error *err)
{
    const struct point_options options = {.searches = run->searches, .observer = observer, .context = context};
    run->scenario.engine = SCENARIO_CRITICAL_PATH;
    run->scenario.trace = SCENARIO_TRACE_NONE;
    return point_run(&run->scenario, &run->lengths, &options, &run->point, err);
}

void path_run_free(struct path_run *run)
{
    point_free(&run->point);
    for (int32_t i = 0; run->searches != NULL && i < run->scenario.n_systems; i++)
        search_result_free(&run->searches[i]);
    free(run->searches);
    lengths_close(&run->lengths);
    scenario_free(&run->scenario);
    *run = (struct path_run){0};
}
