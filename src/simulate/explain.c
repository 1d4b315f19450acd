/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "simulate/explain.h"

#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "cost/cache.h"
#include "simulate/summary.h"

const char *const explain_step_key[EXPLAIN_N_STEPS] = {"gemms_below_peak",
                                                       "attention_below_peak",
                                                       "other_kernels",
                                                       "padding",
                                                       "recomputation",
                                                       "uncounted_flop",
                                                       "tensor_collectives",
                                                       "shard_collectives",
                                                       "context",
                                                       "warm_up",
                                                       "imbalance",
                                                       "cool_down",
                                                       "waiting",
                                                       "gradients_parameters",
                                                       "resharding",
                                                       "mfu"};
const char *const explain_step_name[EXPLAIN_N_STEPS] = {"GEMMs below peak",
                                                        "attention below peak",
                                                        "element-wise kernels, optimizer",
                                                        "padding",
                                                        "recomputation",
                                                        "FLOPs that MFU does not count",
                                                        "tensor collectives",
                                                        "zero2/3 collectives",
                                                        "context parallelism",
                                                        "bubble: warm-up",
                                                        "bubble: imbalance",
                                                        "bubble: cool-down",
                                                        "waiting for other replicas",
                                                        "gradients and parameters",
                                                        "re-sharding",
                                                        "MFU"};
const char *const explain_free_key[EXPLAIN_N_FREE] = {"nic",     "nvlink",        "pcie",   "latency",
                                                      "padding", "recomputation", "waiting"};
const char *const explain_free_name[EXPLAIN_N_FREE] = {"NIC",     "NVLink",        "PCIe",   "latency",
                                                       "padding", "recomputation", "waiting"};

struct explain_plans explain_plans_of(const struct scenario *scenario)
{
    size_t n = (size_t)scenario->n_systems * (size_t)scenario->measured;
    return (struct explain_plans){check_calloc(n, sizeof(struct plan))};
}

void explain_plans_free(const struct scenario *scenario, struct explain_plans *plans)
{
    for (int64_t i = 0; plans->plans != NULL && i < scenario->n_systems * scenario->measured; i++)
        plan_free(&plans->plans[i]);
    free(plans->plans);
    *plans = (struct explain_plans){0};
}

bool explain_keep_plan(void *context, const struct point_view *view, struct error *err)
{
    (void)err;
    const struct explain_plans *plans = context;
    const struct scenario *scenario = view->scenario;
    int64_t measured = view->iteration->row.iteration - scenario->warm_up;
    if (measured >= 0)
        plan_copy(view->plan, &plans->plans[view->system_index * scenario->measured + measured]);
    return true;
}

/** Costs of the scenario, or these with one of them at zero. {0} and price() make them. */
struct pricing {
    struct device device;
    struct platform platform;
    struct cost_cache cache;
    struct cost_setting setting;
};

/** One system while it is explained. */
struct explainer {
    const struct scenario *scenario;
    const struct scenario_system *entry;
    struct faults faults;                             /* as those of the run */
    struct pricing pricing[EXPLAIN_FREE_LATENCY + 2]; /* each cost at zero, then the scenario's */
    struct evaluator evaluator;
    double base_s, free_s[EXPLAIN_N_FREE];     /* sums of critical paths */
    struct work least;                         /* sum of the work without padding and recomputation */
    double kernels_s, padding_s, recomputed_s; /* sums of all kernels, and of what these two add */
    struct path_time path;                     /* sum */
};
enum { AS_IT_IS = EXPLAIN_FREE_LATENCY + 1 };

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

static void price(struct explainer *explainer, int without)
{
    const double endless = 1e30; /* bytes/s: a transfer of any size takes no time beside its latency */
    struct pricing *pricing = &explainer->pricing[without];
    pricing->device = explainer->scenario->device;
    pricing->platform = explainer->scenario->platform;
    if (without == EXPLAIN_FREE_NIC)
        pricing->platform.nic_bytes_per_s = endless;
    if (without == EXPLAIN_FREE_NVLINK)
        pricing->platform.nvlink_bytes_per_s = endless;
    if (without == EXPLAIN_FREE_PCIE)
        pricing->platform.pcie_bytes_per_s = endless;
    if (without == EXPLAIN_FREE_LATENCY)
        remove_latencies(&pricing->device);
    pricing->setting = request_setting(explainer->scenario, &explainer->entry->plan);
    pricing->setting.device = &pricing->device;
    pricing->setting.platform = &pricing->platform;
    pricing->setting.cache = &pricing->cache;
    pricing->setting.faults = explainer->scenario->n_faults > 0 ? &explainer->faults : NULL;
}

static void explainer_open(struct explainer *explainer)
{
    const struct scenario *scenario = explainer->scenario;
    explainer->faults = faults_of(scenario->faults, scenario->n_faults, &scenario->platform);
    if (scenario->n_faults > 0 && !scenario->all_tensor_ranks)
        faults_fold(&explainer->faults, (int32_t)explainer->entry->plan.tp);
    for (int i = 0; i <= AS_IT_IS; i++)
        price(explainer, i);
}

static void explainer_close(struct explainer *explainer)
{
    for (int i = 0; i <= AS_IT_IS; i++)
        cost_cache_free(&explainer->pricing[i].cache);
    faults_free(&explainer->faults);
    evaluator_free(&explainer->evaluator);
}

/** Build a plan's graph at some costs and resolve it by the critical path. */
static bool resolve(struct explainer *explainer, const struct plan *plan, int pricing, struct error *err)
{
    struct dag_options options = {
        .all_tensor_ranks = explainer->scenario->all_tensor_ranks, .gradient_sync = true, .fold_equal = true};
    return evaluate_time(&explainer->evaluator, plan, &explainer->pricing[pricing].setting, options, err);
}

/** Results of one plan. */
struct outcome {
    double time_s;
    struct work work;
};

/** Return the results of the plan that was resolved last, with all costs. */
static struct outcome outcome_of(const struct explainer *explainer, const struct plan *plan)
{
    const struct evaluator *evaluator = &explainer->evaluator;
    return (struct outcome){evaluator->timeline.makespan_s,
                            work_of(plan, &evaluator->dag, &explainer->pricing[AS_IT_IS].setting)};
}

/** Remove padding or recomputation from all units. @return whether there was any */
static bool strip(struct plan *plan, enum explain_free without)
{
    bool any = false;
    for (int32_t i = 0; i < plan->n_phases; i++)
        for (int32_t j = 0; j < plan->phases[i].n_pipelines; j++)
            for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
                const struct plan_partition *partition = &plan->phases[i].pipelines[j].partition[pass];
                for (int32_t u = 0; u < partition->n_units; u++) {
                    struct plan_unit *unit = &partition->units[u];
                    bool padding = without == EXPLAIN_FREE_PADDING;
                    any = any || (padding ? unit->padding_tokens > 0 : unit->recompute != RECOMPUTE_NONE);
                    if (padding)
                        unit->padding_tokens = 0;
                    else
                        unit->recompute = RECOMPUTE_NONE;
                }
            }
    return any;
}

/** Resolve the plan as it is. Note its critical path and the time without waiting. */
static bool add_base(struct explainer *explainer, const struct plan *plan, struct outcome *outcome, struct error *err)
{
    if (!resolve(explainer, plan, AS_IT_IS, err))
        return false;
    const struct dag *dag = &explainer->evaluator.dag;
    const struct timeline *timeline = &explainer->evaluator.timeline;
    struct path_time path = path_time_of(plan, dag, &explainer->pricing[AS_IT_IS].setting, timeline);
    struct bubble bubble = bubble_of(dag, timeline);
    for (int i = 0; i < PATH_N_CLASSES; i++)
        explainer->path.seconds[i] += path.seconds[i];
    explainer->base_s += timeline->makespan_s;
    explainer->free_s[EXPLAIN_FREE_WAITING] += timeline->makespan_s * (1 - bubble.dp_wait_s / bubble.total_s);
    *outcome = outcome_of(explainer, plan);
    return true;
}

/** Resolve the plan with each cost of the network at zero. */
static bool add_network(struct explainer *explainer, const struct plan *plan, struct error *err)
{
    for (int i = EXPLAIN_FREE_NIC; i <= EXPLAIN_FREE_LATENCY; i++) {
        if (!resolve(explainer, plan, i, err))
            return false;
        explainer->free_s[i] += explainer->evaluator.timeline.makespan_s;
    }
    return true;
}

/** Strip a plan and resolve it. If there is nothing to strip, the outcome stays as it is. */
static bool resolve_without(struct explainer *explainer, struct plan *plan, enum explain_free without,
                            struct outcome *outcome, struct error *err)
{
    if (!strip(plan, without))
        return true;
    if (!resolve(explainer, plan, AS_IT_IS, err))
        return false;
    *outcome = outcome_of(explainer, plan);
    return true;
}

/** Resolve the plan without padding, then without recomputation, then without both. */
static bool add_stripped(struct explainer *explainer, const struct plan *plan, const struct outcome *base,
                         struct error *err)
{
    struct plan unpadded, once;
    struct outcome without_padding = *base, without_recomputation = *base;
    plan_copy(plan, &unpadded);
    plan_copy(plan, &once);
    bool ok = resolve_without(explainer, &unpadded, EXPLAIN_FREE_PADDING, &without_padding, err) &&
              resolve_without(explainer, &once, EXPLAIN_FREE_RECOMPUTATION, &without_recomputation, err);
    struct outcome without_both = without_recomputation;
    ok = ok && resolve_without(explainer, &once, EXPLAIN_FREE_PADDING, &without_both, err);
    explainer->free_s[EXPLAIN_FREE_PADDING] += without_padding.time_s;
    explainer->free_s[EXPLAIN_FREE_RECOMPUTATION] += without_recomputation.time_s;
    explainer->kernels_s += base->work.kernels_s;
    explainer->recomputed_s += base->work.kernels_s - without_recomputation.work.kernels_s;
    explainer->padding_s += without_recomputation.work.kernels_s - without_both.work.kernels_s;
    explainer->least.hardware_flop += without_both.work.hardware_flop;
    explainer->least.product_flop += without_both.work.product_flop;
    explainer->least.product_s += without_both.work.product_s;
    explainer->least.attention_s += without_both.work.attention_s;
    explainer->least.kernels_s += without_both.work.kernels_s;
    plan_free(&unpadded);
    plan_free(&once);
    return ok;
}

/** Fill in the steps from the sums over iterations. */
static void fill_shares(const struct explainer *explainer, const struct trace_summary *summary, double time_s,
                        double *share)
{
    const struct bubble *bubble = &summary->bubble;
    const struct work *least = &explainer->least;
    double peak = explainer->scenario->device.peak_flop_per_s[PRECISION_BF16],
           gpus = platform_n_gpus(&explainer->scenario->platform);
    double all_s = gpus * time_s, model_s = summary->mfu * all_s;
    double beside_s = bubble->busy_s - summary->tensor_s - summary->shard_s - explainer->kernels_s; /* optimizer */
    share[EXPLAIN_PRODUCTS] = least->product_s - least->product_flop / peak;
    share[EXPLAIN_ATTENTION] = least->attention_s - (least->hardware_flop - least->product_flop) / peak;
    share[EXPLAIN_OTHER_KERNELS] = least->kernels_s - least->product_s - least->attention_s + beside_s;
    share[EXPLAIN_PADDING] = explainer->padding_s;
    share[EXPLAIN_RECOMPUTATION] = explainer->recomputed_s;
    share[EXPLAIN_UNCOUNTED] = least->hardware_flop / peak - model_s;
    share[EXPLAIN_TENSOR] = summary->tensor_s;
    share[EXPLAIN_SHARDS] = summary->shard_s;
    share[EXPLAIN_CONTEXT] = bubble->ring_s;
    share[EXPLAIN_WARM_UP] = bubble->warm_up_s;
    share[EXPLAIN_IMBALANCE] = bubble->imbalance_s;
    share[EXPLAIN_COOL_DOWN] = bubble->cool_down_s;
    share[EXPLAIN_WAITING] = bubble->dp_wait_s + (all_s - bubble->total_s);
    share[EXPLAIN_GRADIENTS] = bubble->sync_s;
    share[EXPLAIN_RESHARD] = bubble->reshard_s;
    share[EXPLAIN_MFU] = model_s;
    for (int i = 0; i < EXPLAIN_N_STEPS; i++)
        share[i] /= all_s;
}

bool explain_system(const struct scenario *scenario, const struct point *point, int32_t index,
                    const struct explain_plans *plans, struct explanation *explanation, struct error *err)
{
    struct explainer *explainer = check_calloc(1, sizeof *explainer);
    *explainer = (struct explainer){.scenario = scenario, .entry = point->systems[index].entry};
    explainer_open(explainer);
    bool ok = true;
    for (int64_t i = 0; ok && i < scenario->measured; i++) {
        const struct plan *plan = &plans->plans[index * scenario->measured + i];
        struct outcome base;
        ok = add_base(explainer, plan, &base, err) && add_network(explainer, plan, err) &&
             add_stripped(explainer, plan, &base, err);
    }
    if (ok) {
        struct trace_summary summary = point_summary_of(scenario, point, index);
        double n = (double)scenario->measured;
        fill_shares(explainer, &summary, n * summary.time_mean_s, explanation->share);
        for (int i = 0; i < PATH_N_CLASSES; i++)
            explanation->path.seconds[i] = explainer->path.seconds[i] / n;
        for (int i = 0; i < EXPLAIN_N_FREE; i++)
            explanation->gain[i] = explainer->base_s / explainer->free_s[i] - 1;
    }
    explainer_close(explainer);
    free(explainer);
    return ok;
}
