/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "simulate/fitting_change.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "cost/cache.h"
#include "scenario/layout.h"
#include "scenario/scenario_read.h"
#include "trace/table.h"

enum part { RECOMPUTE, SHARDING, OFFLOAD, EP, CP, PP, TP };

/** The changes in the order of the header. A degree is doubled. */
static const struct {
    enum part part;
    double value;
} changes[] = {{RECOMPUTE, RECOMPUTE_SELECTIVE},
               {RECOMPUTE, RECOMPUTE_FULL},
               {SHARDING, SCENARIO_ZERO1},
               {SHARDING, SCENARIO_ZERO2},
               {SHARDING, SCENARIO_ZERO3},
               {OFFLOAD, 0.2},
               {OFFLOAD, 0.4},
               {OFFLOAD, 0.6},
               {OFFLOAD, 0.8},
               {OFFLOAD, 1},
               {EP, 2},
               {EP, 4},
               {EP, 8},
               {CP, 2},
               {PP, 2},
               {TP, 2}};
enum { N_CHANGES = sizeof changes / sizeof *changes };

/** The imbalance of experts is searched in quarters up to 8. */
enum { IMBALANCE_STEPS = 4, IMBALANCE_MOST = 8 };

static bool double_degree(const char *key, int64_t *degree, struct scenario_plan *plan, char *text, size_t size)
{
    *degree *= 2;
    plan->dp /= 2;
    snprintf(text, size, "plan.%s=%d with dp %d", key, (int)*degree, (int)plan->dp);
    return plan->dp > 0;
}

/** Change a plan and name the change. @return false: the plan has as much already */
static bool apply(int change, struct scenario_plan *plan, char *text, size_t size)
{
    double value = changes[change].value;
    bool less = false;
    switch (changes[change].part) {
    case RECOMPUTE:
        less = plan->recompute < (int32_t)value;
        plan->recompute = (int32_t)value;
        plan->recompute_layers = 0;
        snprintf(text, size, "plan.recompute=%s", scenario_recompute_name[(int)value]);
        return less;
    case SHARDING:
        less = plan->sharding == SCENARIO_UNSHARDED || plan->sharding < (int32_t)value;
        plan->sharding = (int32_t)value;
        snprintf(text, size, "plan.sharding=%s", trace_sharding_names.text[(int)value]);
        return less;
    case OFFLOAD:
        less = plan->offload < value;
        plan->offload = value;
        if (plan->offload_mode == SCENARIO_OFFLOAD_NEVER)
            plan->offload_mode = SCENARIO_OFFLOAD_PLAN;
        snprintf(text, size, "plan.offload=%g", value);
        return less;
    case EP:
        plan->ep *= (int64_t)value;
        snprintf(text, size, "plan.ep=%d", (int)plan->ep);
        return true;
    case CP:
        return double_degree("cp", &plan->cp, plan, text, size);
    case PP:
        return double_degree("pp", &plan->pp, plan, text, size);
    case TP:
        return double_degree("tp", &plan->tp, plan, text, size);
    }
    return false;
}

/** Return whether the scenario says `offload: never` of an entry, and the framework does not. */
static bool refuses_offload(const struct scenario *scenario, const struct scenario_system *entry)
{
    return entry->plan.offload_mode == SCENARIO_OFFLOAD_NEVER &&
           document_find(&scenario->document, entry->node, "offload") >= 0;
}

/** Return the strongest sharding of the framework. One that says zero1 has no other, and one that leaves it to the run
 * has all. */
static int32_t most_sharding(const struct scenario *scenario)
{
    struct framework framework;
    struct error unknown = {0};
    bool read = scenario_framework(scenario->framework_name, &framework, &unknown);
    for (int32_t i = 0; read && i < framework.n_values; i++)
        if (strcmp(framework.values[i].key, "plan.sharding") == 0 && strcmp(framework.values[i].text, "zero1") == 0)
            return SCENARIO_ZERO1;
    return SCENARIO_ZERO3;
}

/** Return whether the framework has the plan's sharding, and ranks share the states. A plan may keep what it has. */
static bool can_shard(const struct scenario *scenario, const struct scenario_plan *plan, int32_t before)
{
    bool beyond = before == SCENARIO_ZERO2 || before == SCENARIO_ZERO3;
    return plan->sharding == before ||
           (plan->dp * plan->cp > 1 && (beyond || plan->sharding <= most_sharding(scenario)));
}

/** Return whether layout and system take the plan, and complete it. */
static bool takes(const struct scenario *scenario, const struct point_system *system, unsigned decides,
                  struct scenario_system *entry)
{
    const struct training_system *training = system->system;
    const struct scenario_plan *plan = &entry->plan;
    struct error refused = {0};
    bool heads = model_shares_heads(&scenario->model, plan->tp, plan->kv_copies);
    return platform_nvlink_domain(&scenario->platform) % plan->tp == 0 && heads &&
           (plan->tp == 1 || training->degrees & SYSTEM_TP) && (plan->pp == 1 || training->degrees & SYSTEM_PP) &&
           (plan->cp == 1 || training->degrees & SYSTEM_CP) && system_takes_experts(training, plan) &&
           layout_takes_ep_overlap(plan, scenario->communication.ep_overlap, decides & SYSTEM_SCHEDULE) &&
           (plan->offload <= 0 || !(decides & SYSTEM_OFFLOAD || refuses_offload(scenario, system->entry))) &&
           (plan->recompute == system->entry->plan.recompute || !(decides & SYSTEM_RECOMPUTE)) &&
           can_shard(scenario, plan, system->entry->plan.sharding) && layout_check(scenario, entry, &refused);
}

/** Return the measured iteration with the largest excess. */
static int32_t worst_iteration(const struct scenario *scenario, const struct point_system *system,
                               const struct evaluation_limits *limits)
{
    int32_t worst = (int32_t)scenario->warm_up;
    double most = -1;
    for (int32_t i = worst; i < system->n_iterations; i++) {
        const struct point_iteration *result = &system->iterations[i];
        struct evaluation evaluation = {.peak_bytes = result->row.peak_bytes,
                                        .host_bytes = result->row.host_peak_bytes};
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

double fitting_imbalance_of(const struct scenario *scenario, const struct lengths *lengths,
                            const struct point_system *system)
{
    const struct training_system *training = system->system;
    const struct scenario_plan *plan = &system->entry->plan;
    struct evaluation_limits limits = evaluation_limits_of(request_planned_bytes(scenario, plan), &scenario->platform);
    struct plan_request request = {.layout = *plan, .iteration = worst_iteration(scenario, system, &limits)};
    const struct point_iteration *worst = &system->iterations[request.iteration];
    struct evaluation now = {.peak_bytes = worst->row.peak_bytes, .host_bytes = worst->host.bytes};
    if (evaluation_exceeds(&now, &limits) != EXCEEDED_NONE) /* it fits tightly */
        limits = evaluation_limits_of(request_memory_bytes(scenario), &scenario->platform);
    struct scenario routed = *scenario;
    struct error refused = {0};
    void *knobs = check_calloc(1, training->knobs_size);
    CHECK(system_read_knobs(training, scenario, system->entry, knobs, &refused)); /* they were read before the run */
    request.knobs = knobs;
    int32_t fits = (int32_t)floor(scenario->expert_imbalance * IMBALANCE_STEPS);
    int32_t most = (int32_t)fmin(IMBALANCE_MOST, (double)plan->ep) * IMBALANCE_STEPS;
    while (fits < most) {
        int32_t middle = (fits + most + 1) / 2;
        struct evaluation evaluation;
        routed.expert_imbalance = (double)middle / IMBALANCE_STEPS;
        if (evaluate_change(&routed, lengths, training, &request, &evaluation) &&
            evaluation_exceeds(&evaluation, &limits) == EXCEEDED_NONE)
            fits = middle;
        else
            most = middle - 1;
    }
    free(knobs);
    return fmax(scenario->expert_imbalance, (double)fits / IMBALANCE_STEPS);
}

struct fitting_change fitting_change_of(const struct scenario *scenario, const struct lengths *lengths,
                                        const struct point_system *system)
{
    const struct training_system *training = system->system;
    struct scenario_system asked = *system->entry;
    asked.plan.fits = scenario->fits; /* a search may have let the plan be tight */
    struct evaluation_limits limits =
        evaluation_limits_of(request_planned_bytes(scenario, &asked.plan), &scenario->platform);
    struct plan_request request = {.iteration = worst_iteration(scenario, system, &limits)};
    const struct point_iteration *worst = &system->iterations[request.iteration];
    struct evaluation now = {.peak_bytes = worst->row.peak_bytes, .host_bytes = worst->host.bytes};
    struct fitting_change nearest = {0};
    struct error refused = {0};
    void *knobs = check_calloc(1, training->knobs_size);
    CHECK(system_read_knobs(training, scenario, system->entry, knobs, &refused)); /* they were read before the run */
    request.knobs = knobs;
    for (int i = 0; i < N_CHANGES && !nearest.fits; i++) {
        struct scenario_system entry = asked;
        struct fitting_change change = {0};
        if (!apply(i, &entry.plan, change.text, sizeof change.text) ||
            !takes(scenario, system, system_decides(training, knobs, &entry.plan), &entry))
            continue;
        request.layout = entry.plan;
        if (!evaluate_change(scenario, lengths, training, &request, &change.evaluation) ||
            evaluation_excess(&change.evaluation, &limits) >= evaluation_excess(&now, &limits))
            continue;
        change.fits = evaluation_exceeds(&change.evaluation, &limits) == EXCEEDED_NONE;
        if (*nearest.text == '\0' || evaluation_compare(&change.evaluation, &nearest.evaluation, &limits) < 0)
            nearest = change;
    }
    free(knobs);
    return nearest;
}
