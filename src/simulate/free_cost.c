/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "simulate/free_cost.h"

#include <stdlib.h>

#include "base/check.h"
#include "cost/cache.h"

#define FREE(id, key, name) #key,
const char *const free_cost_key[] = {
#include "simulate/free_cost.def"
};
#undef FREE
#define FREE(id, key, name) name,
const char *const free_cost_name[] = {
#include "simulate/free_cost.def"
};
#undef FREE

/** Costs of the scenario, or these with one of them at zero. {0} and price() make them. */
struct costs {
    struct device device;
    struct platform platform;
    struct cost_cache cache;
    struct cost_setting setting;
};

struct pricing {
    const struct scenario *scenario;
    const struct scenario_system *entry;
    struct faults faults;                      /* as those of the run */
    struct costs costs[FREE_COST_LATENCY + 3]; /* each cost at zero, the scenario's, and these with balanced experts */
    struct evaluator evaluator;
    struct free_costs *sums;
};
enum { AS_IT_IS = FREE_COST_LATENCY + 1, BALANCED, N_COSTS };

static void remove_latencies(struct device *device)
{
    struct device_link *links[] = {&device->nvlink, &device->nic, &device->pcie};
    for (int i = 0; i < 3; i++)
        links[i]->latency_s = 0;
    for (int i = 0; i < DEVICE_N_COLLECTIVES; i++)
        device->collective[i].latency_s = device->collective[i].step_s = 0;
    device->fabric.latency_s = device->fabric.hop_s = 0;
    for (int i = 0; i < DEVICE_N_PROTOCOLS; i++)
        device->ring[i].start_s = device->ring[i].nvlink_s = device->ring[i].nic_s = 0;
}

static void price(struct pricing *pricing, int without)
{
    const double endless = 1e30; /* bytes/s: a transfer of any size takes no time beside its latency */
    struct costs *costs = &pricing->costs[without];
    costs->device = pricing->scenario->device;
    costs->platform = pricing->scenario->platform;
    if (without == FREE_COST_NIC)
        costs->platform.nic_bytes_per_s = endless;
    if (without == FREE_COST_NVLINK)
        costs->platform.nvlink_bytes_per_s = endless;
    if (without == FREE_COST_PCIE)
        costs->platform.pcie_bytes_per_s = costs->platform.numa_bytes_per_s = endless;
    if (without == FREE_COST_LATENCY)
        remove_latencies(&costs->device);
    costs->setting = request_setting(pricing->scenario, &pricing->entry->plan);
    costs->setting.device = &costs->device;
    costs->setting.platform = &costs->platform;
    costs->setting.cache = &costs->cache;
    costs->setting.faults = pricing->scenario->n_faults > 0 ? &pricing->faults : NULL;
    if (without == BALANCED)
        costs->setting.expert_imbalance = 1;
}

struct pricing *pricing_open(const struct scenario *scenario, const struct scenario_system *entry)
{
    struct pricing *pricing = check_calloc(1, sizeof *pricing); /* too large for the stack */
    pricing->scenario = scenario;
    pricing->entry = entry;
    pricing->faults = faults_of(scenario->faults, scenario->n_faults, &scenario->platform);
    if (scenario->n_faults > 0 && !scenario->all_tensor_ranks)
        faults_fold(&pricing->faults, (int32_t)entry->plan.tp);
    for (int i = 0; i < N_COSTS; i++)
        price(pricing, i);
    return pricing;
}

/** Build a plan's graph at some costs and resolve it by the critical path. */
static bool resolve(struct pricing *pricing, const struct plan *plan, int without, struct error *err)
{
    struct dag_options options = {
        .all_tensor_ranks = pricing->scenario->all_tensor_ranks, .gradient_sync = true, .fold_equal = true};
    return evaluate_time(&pricing->evaluator, plan, &pricing->costs[without].setting, options, err);
}

/** Results of one plan. */
struct outcome {
    double time_s;
    struct work work;
};

/** Return the results of the plan that was resolved last, with all costs. */
static struct outcome outcome_of(const struct pricing *pricing, const struct plan *plan)
{
    const struct evaluator *evaluator = &pricing->evaluator;
    return (struct outcome){evaluator->timeline.makespan_s,
                            work_of(plan, &evaluator->dag, &pricing->costs[AS_IT_IS].setting)};
}

/** Remove the passes of micro-batches without tokens, which had padding only. */
static void drop_empty(struct plan_pipeline *pipeline)
{
    int32_t n = 0, next = 0;
    for (int32_t stage = 0; stage < pipeline->layout.stages; stage++) {
        for (; next < pipeline->step_first[stage + 1]; next++) {
            struct plan_step step = pipeline->steps[next];
            const struct plan_micro_batch *of =
                &plan_partition_of(pipeline, step.pass)->micro_batches[step.micro_batch];
            if (of->n_slices > 0 || of->group >= 0)
                pipeline->steps[n++] = step;
        }
        pipeline->step_first[stage + 1] = n;
    }
}

/** Remove padding or recomputation from the micro-batches of a pipeline. @return whether there was any */
static bool strip_pipeline(struct plan_pipeline *pipeline, enum free_cost without)
{
    bool any = false;
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++)
        for (int32_t i = 0; i < pipeline->partition[pass].n_micro_batches; i++) {
            struct plan_micro_batch *micro_batch = &pipeline->partition[pass].micro_batches[i];
            bool padding = without == FREE_COST_PADDING;
            any = any || (padding ? micro_batch->padding_tokens > 0 : micro_batch->recompute != RECOMPUTE_NONE);
            if (padding)
                micro_batch->padding_tokens = 0;
            else
                micro_batch->recompute = RECOMPUTE_NONE;
        }
    if (any && without == FREE_COST_PADDING)
        drop_empty(pipeline);
    return any;
}

/** End the slices of padded samples at their real tokens. */
static void end_at_tokens(const struct plan *plan, struct plan_pipeline *pipeline)
{
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES && plan->n_padded > 0; pass++)
        for (int32_t i = 0; i < pipeline->partition[pass].n_slices; i++) {
            struct slice *slice = &pipeline->partition[pass].slices[i];
            slice->end = plan->real_tokens[slice->sample];
        }
}

/** Remove padding or recomputation from a plan. @return whether there was any */
static bool strip(struct plan *plan, enum free_cost without)
{
    bool any = without == FREE_COST_PADDING && plan_padded_tokens(plan) > 0;
    for (int32_t i = 0; i < plan->n_phases; i++)
        for (int32_t j = 0; j < plan->phases[i].n_pipelines; j++) {
            struct plan_pipeline *pipeline = &plan->phases[i].pipelines[j];
            if (without == FREE_COST_PADDING)
                end_at_tokens(plan, pipeline);
            any = strip_pipeline(pipeline, without) || any;
        }
    return any;
}

/** Resolve the plan as it is. Note its critical path and the time without waiting. */
static bool add_base(struct pricing *pricing, const struct plan *plan, struct outcome *outcome, struct error *err)
{
    if (!resolve(pricing, plan, AS_IT_IS, err))
        return false;
    const struct dag *dag = &pricing->evaluator.dag;
    const struct timeline *timeline = &pricing->evaluator.timeline;
    struct path_time path = path_time_of(plan, dag, &pricing->costs[AS_IT_IS].setting, timeline);
    struct bubble bubble = bubble_of(dag, timeline);
    for (int i = 0; i < PATH_N_CLASSES; i++)
        pricing->sums->path.seconds[i] += path.seconds[i];
    pricing->sums->base_s += timeline->makespan_s;
    pricing->sums->free_s[FREE_COST_WAITING] += timeline->makespan_s * (1 - bubble.dp_wait_s / bubble.total_s);
    *outcome = outcome_of(pricing, plan);
    return true;
}

/** Resolve the plan with each cost of the network at zero. */
static bool add_network(struct pricing *pricing, const struct plan *plan, struct error *err)
{
    for (int i = FREE_COST_NIC; i <= FREE_COST_LATENCY; i++) {
        if (!resolve(pricing, plan, i, err))
            return false;
        pricing->sums->free_s[i] += pricing->evaluator.timeline.makespan_s;
    }
    return true;
}

/** Strip a plan and resolve it. If there is nothing to strip, the outcome stays as it is. */
static bool resolve_without(struct pricing *pricing, struct plan *plan, enum free_cost without, struct outcome *outcome,
                            struct error *err)
{
    if (!strip(plan, without))
        return true;
    if (!resolve(pricing, plan, AS_IT_IS, err))
        return false;
    *outcome = outcome_of(pricing, plan);
    return true;
}

/** Resolve the plan without padding, then without recomputation, then without both. */
static bool add_stripped(struct pricing *pricing, const struct plan *plan, const struct outcome *base,
                         struct error *err)
{
    struct plan unpadded, once;
    struct outcome without_padding = *base, without_recomputation = *base;
    plan_copy(plan, &unpadded);
    plan_copy(plan, &once);
    bool ok = resolve_without(pricing, &unpadded, FREE_COST_PADDING, &without_padding, err) &&
              resolve_without(pricing, &once, FREE_COST_RECOMPUTATION, &without_recomputation, err);
    struct outcome without_both = without_recomputation;
    ok = ok && resolve_without(pricing, &once, FREE_COST_PADDING, &without_both, err);
    pricing->sums->free_s[FREE_COST_PADDING] += without_padding.time_s;
    pricing->sums->free_s[FREE_COST_RECOMPUTATION] += without_recomputation.time_s;
    pricing->sums->kernels_s += base->work.kernels_s;
    pricing->sums->wait_s += base->work.wait_s;
    pricing->sums->recomputed_s += base->work.kernels_s - without_recomputation.work.kernels_s;
    pricing->sums->padding_s += without_recomputation.work.kernels_s - without_both.work.kernels_s;
    pricing->sums->least.hardware_flop += without_both.work.hardware_flop;
    pricing->sums->least.product_flop += without_both.work.product_flop;
    pricing->sums->least.product_s += without_both.work.product_s;
    pricing->sums->least.fp8_flop += without_both.work.fp8_flop;
    pricing->sums->least.cast_s += without_both.work.cast_s;
    pricing->sums->least.expert_product_s += without_both.work.expert_product_s;
    pricing->sums->least.expert_product_flop += without_both.work.expert_product_flop;
    pricing->sums->least.attention_s += without_both.work.attention_s;
    pricing->sums->least.kernels_s += without_both.work.kernels_s;
    plan_free(&unpadded);
    plan_free(&once);
    return ok;
}

/** Add what the busiest rank's experts take beyond those of the mean rank. */
static bool add_imbalance(struct pricing *pricing, const struct plan *plan, const struct outcome *base,
                          struct error *err)
{
    struct work *sum = &pricing->sums->imbalance;
    pricing->sums->combine_s += base->work.combine_s;
    if (pricing->scenario->expert_imbalance <= 1)
        return true;
    if (!resolve(pricing, plan, BALANCED, err))
        return false;
    const struct work balanced = work_of(plan, &pricing->evaluator.dag, &pricing->costs[BALANCED].setting);
    sum->kernels_s += base->work.kernels_s - balanced.kernels_s;
    sum->product_s += base->work.product_s - balanced.product_s;
    sum->cast_s += base->work.cast_s - balanced.cast_s;
    sum->product_flop += base->work.product_flop - balanced.product_flop;
    sum->expert_s += base->work.expert_s - balanced.expert_s;
    sum->combine_s += base->work.combine_s - balanced.combine_s;
    return true;
}

bool pricing_add(struct pricing *pricing, const struct plan *plan, struct free_costs *sums, struct error *err)
{
    struct outcome base;
    pricing->sums = sums;
    return add_base(pricing, plan, &base, err) && add_network(pricing, plan, err) &&
           add_stripped(pricing, plan, &base, err) && add_imbalance(pricing, plan, &base, err);
}

void pricing_close(struct pricing *pricing)
{
    if (pricing == NULL)
        return;
    for (int i = 0; i < N_COSTS; i++)
        cost_cache_free(&pricing->costs[i].cache);
    faults_free(&pricing->faults);
    evaluator_free(&pricing->evaluator);
    free(pricing);
}
