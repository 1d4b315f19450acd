/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "simulate/fitting_change.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "cost/cache.h"
#include "scenario/layout.h"
#include "trace/table.h"

/** A plan with one change. Without a text there is no such change. */
struct change {
    char text[64];
    struct scenario_plan plan;
};

static struct change recompute_change(const struct scenario_plan *plan, int32_t recompute)
{
    struct change change = {.plan = *plan};
    change.plan.recompute = recompute;
    change.plan.recompute_layers = 0;
    if (plan->recompute < recompute)
        snprintf(change.text, sizeof change.text, "plan.recompute=%s", scenario_recompute_name[recompute]);
    return change;
}

static struct change sharding_change(const struct scenario_plan *plan, int32_t sharding)
{
    struct change change = {.plan = *plan};
    change.plan.sharding = sharding;
    if (plan->pp == 1 && (plan->sharding == SCENARIO_UNSHARDED || plan->sharding < sharding))
        snprintf(change.text, sizeof change.text, "plan.sharding=%s", trace_sharding_names.text[sharding]);
    return change;
}

static struct change offload_change(const struct scenario_plan *plan, double offload)
{
    struct change change = {.plan = *plan};
    change.plan.offload = offload;
    if (plan->offload < offload)
        snprintf(change.text, sizeof change.text, "plan.offload=%g", offload);
    return change;
}

static struct change degree_change(const struct scenario_plan *plan, const char *key, size_t offset)
{
    struct change change = {.plan = *plan};
    int64_t *degree = (int64_t *)(void *)((char *)&change.plan + offset);
    *degree *= 2;
    change.plan.dp /= 2;
    if (plan->dp % 2 == 0)
        snprintf(change.text, sizeof change.text, "plan.%s=%d with dp %d", key, (int)*degree, (int)change.plan.dp);
    return change;
}

enum { N_OFFLOADS = 5, N_CHANGES = 2 + 2 + N_OFFLOADS + 3 };

/** List the changes in the order of the header. */
static void list_changes(const struct scenario_plan *plan, struct change changes[N_CHANGES])
{
    int n = 0;
    changes[n++] = recompute_change(plan, RECOMPUTE_SELECTIVE);
    changes[n++] = recompute_change(plan, RECOMPUTE_FULL);
    changes[n++] = sharding_change(plan, SCENARIO_ZERO2);
    changes[n++] = sharding_change(plan, SCENARIO_ZERO3);
    for (int i = 1; i <= N_OFFLOADS; i++)
        changes[n++] = offload_change(plan, (double)i / N_OFFLOADS);
    changes[n++] = degree_change(plan, "cp", offsetof(struct scenario_plan, cp));
    changes[n++] = degree_change(plan, "pp", offsetof(struct scenario_plan, pp));
    changes[n++] = degree_change(plan, "tp", offsetof(struct scenario_plan, tp));
    CHECK(n == N_CHANGES);
}

/** Return whether layout and system take the plan, and complete it. */
static bool takes(const struct scenario *scenario, const struct point_system *system, unsigned decides,
                  struct scenario_system *entry)
{
    const struct training_system *training = system->system;
    const struct scenario_plan *plan = &entry->plan;
    struct error refused = {0};
    bool heads = scenario->model.heads % plan->tp == 0 && scenario->model.kv_heads % plan->tp == 0;
    return scenario->platform.gpus_per_node % plan->tp == 0 && heads &&
           (plan->tp == 1 || training->degrees & SYSTEM_TP) && (plan->pp == 1 || training->degrees & SYSTEM_PP) &&
           (plan->cp == 1 || training->degrees & SYSTEM_CP) && (plan->offload <= 0 || !(decides & SYSTEM_OFFLOAD)) &&
           (plan->recompute == system->entry->plan.recompute || !(decides & SYSTEM_RECOMPUTE)) &&
           layout_check(scenario, entry, &refused);
}

/** Return the measured iteration with the largest excess. */
static int32_t worst_iteration(const struct scenario *scenario, const struct point_system *system,
                               const struct evaluation_limits *limits)
{
    int32_t worst = (int32_t)scenario->warm_up;
    double most = -1;
    for (int32_t i = worst; i < system->n_iterations; i++) {
        const struct point_iteration *result = &system->iterations[i];
        struct evaluation evaluation = {.peak_bytes = result->peak_bytes, .host_bytes = result->host.bytes};
        double excess = evaluation_excess(&evaluation, limits);
        if (excess > most) {
            most = excess;
            worst = i;
        }
    }
    return worst;
}

/** Plan the iteration, after those before it if the system keeps a state, and resolve it. */
static bool evaluate_change(const struct scenario *scenario, const struct lengths *lengths,
                            const struct training_system *training, const struct plan_request *like,
                            struct evaluation *evaluation)
{
    struct cost_cache costs = {0};
    struct evaluator evaluator = {0};
    struct error refused = {0};
    void *state = check_calloc(1, training->state_size);
    struct cost_setting setting = request_setting(scenario, &like->layout);
    bool ok = true;
    setting.cache = &costs;
    for (int64_t i = training->state_size > 0 ? 0 : like->iteration; ok && i <= like->iteration; i++) {
        struct batch batch;
        struct plan plan = {0};
        lengths_draw(lengths, &scenario->data, scenario->seed, i, &batch);
        struct plan_request request = plan_request_of(scenario, &setting, &like->layout, &batch, like->knobs, i);
        struct dag_options options = {.gradient_sync = true, .fold_equal = true};
        ok = training->plan(&request, state, &plan, &refused) &&
             (i < like->iteration || evaluate(&evaluator, &plan, &setting, options, evaluation, &refused));
        plan_free(&plan);
        batch_free(&batch);
    }
    if (training->close != NULL)
        training->close(state);
    free(state);
    evaluator_free(&evaluator);
    cost_cache_free(&costs);
    return ok;
}

struct fitting_change fitting_change_of(const struct scenario *scenario, const struct lengths *lengths,
                                        const struct point_system *system)
{
    const struct training_system *training = system->system;
    struct evaluation_limits limits = evaluation_limits_of(request_memory_bytes(scenario), &scenario->platform);
    struct plan_request request = {.iteration = worst_iteration(scenario, system, &limits)};
    struct fitting_change nearest = {0};
    struct change changes[N_CHANGES];
    struct error refused = {0};
    void *knobs = check_calloc(1, training->knobs_size);
    CHECK(system_read_knobs(training, scenario, system->entry, knobs, &refused)); /* they were read before the run */
    request.knobs = knobs;
    list_changes(&system->entry->plan, changes);
    for (int i = 0; i < N_CHANGES && !nearest.fits; i++) {
        struct scenario_system entry = *system->entry;
        struct fitting_change change = {0};
        entry.plan = changes[i].plan;
        if (*changes[i].text == '\0' || !takes(scenario, system, system_decides(training, knobs), &entry))
            continue;
        request.layout = entry.plan;
        memcpy(change.text, changes[i].text, sizeof change.text);
        if (!evaluate_change(scenario, lengths, training, &request, &change.evaluation))
            continue;
        change.fits = evaluation_exceeds(&change.evaluation, &limits) == EXCEEDED_NONE;
        if (*nearest.text == '\0' || evaluation_compare(&change.evaluation, &nearest.evaluation, &limits) < 0)
            nearest = change;
    }
    free(knobs);
    return nearest;
}
