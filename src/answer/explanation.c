/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "answer/explanation.h"

#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/cores.h"
#include "cost/cache.h"

#define STEP(id, key, name) #key,
#define FREE(id, key, name) #key,
const char *const explain_step_key[] = {
#include "answer/explain_step.def"
};
const char *const explain_free_key[] = {
#include "answer/explain_free.def"
};
#undef STEP
#undef FREE
#define STEP(id, key, name) name,
#define FREE(id, key, name) name,
const char *const explain_step_name[] = {
#include "answer/explain_step.def"
};
const char *const explain_free_name[] = {
#include "answer/explain_free.def"
};
#undef STEP
#undef FREE

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
        pricing->platform.pcie_bytes_per_s = pricing->platform.numa_bytes_per_s = endless;
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

/** Remove padding or recomputation from all micro-batches. @return whether there was any */
static bool strip(struct plan *plan, enum explain_free without)
{
    bool any = false;
    for (int32_t i = 0; i < plan->n_phases; i++)
        for (int32_t j = 0; j < plan->phases[i].n_pipelines; j++)
            for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
                const struct plan_partition *partition = &plan->phases[i].pipelines[j].partition[pass];
                for (int32_t u = 0; u < partition->n_micro_batches; u++) {
                    struct plan_micro_batch *micro_batch = &partition->micro_batches[u];
                    bool padding = without == EXPLAIN_FREE_PADDING;
                    any = any || (padding ? micro_batch->padding_tokens > 0 : micro_batch->recompute != RECOMPUTE_NONE);
                    if (padding)
                        micro_batch->padding_tokens = 0;
                    else
                        micro_batch->recompute = RECOMPUTE_NONE;
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

/** A run whose plans are kept while its systems are explained. */
struct explaining {
    const struct scenario *scenario;
    const struct explanation_options *options;
    struct plan *plans; /* [systems x measured] of the measured iterations */
    double n, n_done;   /* iterations that are run or explained: all, finished */
};

/* An explanation resolves a plan eight times. This takes about as long as three iterations of a run. */
static const double iterations_of_explanation = 3;

static void show(struct explaining *explaining, const char *label, const char *what, int64_t iteration, int64_t n)
{
    struct status_line *status = explaining->options->status;
    char left[STATUS_LEFT_BYTES];
    status_line_left(status->begin_s, explaining->n_done / explaining->n, left);
    status_line_print(status, "%s: %s %d of %d%s", label, what, (int)iteration, (int)n, left);
}

/** Keep the plan of a measured iteration. This is a point_observer. */
static bool keep_plan(void *context, const struct point_view *view, struct error *err)
{
    struct explaining *explaining = context;
    const struct scenario *scenario = view->scenario;
    int64_t measured = view->iteration->row.iteration - scenario->warm_up;
    (void)err;
    if (measured >= 0)
        plan_copy(view->plan, &explaining->plans[view->system_index * scenario->measured + measured]);
    explaining->n_done++;
    show(explaining, view->system->entry->label, "iteration", view->iteration->row.iteration + 1,
         view->system->n_iterations);
    return true;
}

/** Explain a system of a point that ran. */
static bool explain_system(struct explaining *explaining, const struct point *point, int32_t index,
                           struct explained *explained, struct error *err)
{
    const struct scenario *scenario = explaining->scenario;
    struct explainer *explainer = check_calloc(1, sizeof *explainer);
    struct explanation *explanation = &explained->explanation;
    *explainer = (struct explainer){.scenario = scenario, .entry = point->systems[index].entry};
    explainer_open(explainer);
    bool ok = true;
    for (int64_t i = 0; ok && i < scenario->measured; i++) {
        const struct plan *plan = &explaining->plans[index * scenario->measured + i];
        struct outcome base;
        show(explaining, explainer->entry->label, "each cost at zero, iteration", i + 1, scenario->measured);
        ok = add_base(explainer, plan, &base, err) && add_network(explainer, plan, err) &&
             add_stripped(explainer, plan, &base, err);
        explaining->n_done += iterations_of_explanation;
    }
    if (ok) {
        double n = (double)scenario->measured;
        fill_shares(explainer, &explained->summary, n * explained->summary.time_mean_s, explanation->share);
        for (int i = 0; i < PATH_N_CLASSES; i++)
            explanation->path.seconds[i] = explainer->path.seconds[i] / n;
        for (int i = 0; i < EXPLAIN_N_FREE; i++)
            explanation->gain[i] = explainer->base_s / explainer->free_s[i] - 1;
    }
    explainer_close(explainer);
    free(explainer);
    return ok;
}

/** Explain the systems that were asked for, the best first. */
static bool explain(struct explaining *explaining, struct explanations *explanations, struct error *err)
{
    const struct explanation_options *options = explaining->options;
    const struct point *point = &explanations->point;
    struct ranked_point ranked = ranked_point_of(explaining->scenario, point);
    bool ok = true;
    explanations->at = check_calloc((size_t)point->n_systems, sizeof *explanations->at);
    for (int32_t i = 0; ok && i < point->n_systems; i++) {
        int32_t index = ranked.standings[i].system;
        struct explained *explained = &explanations->at[explanations->n];
        if (options->system >= 0 ? index != options->system : i > 0 && !options->all)
            continue;
        *explained = (struct explained){
            .system = &point->systems[index], .rank = ranked.standings[i].rank, .summary = ranked.summaries[index]};
        ok = explain_system(explaining, point, index, explained, err);
        explanations->n++;
    }
    ranked_point_free(&ranked);
    return ok;
}

bool explanations_find(const struct scenario *scenario, const struct lengths *lengths,
                       const struct explanation_options *options, struct explanations *explanations, struct error *err)
{
    int64_t n = scenario->n_systems * scenario->measured;
    int32_t n_explained = options->all && options->system < 0 ? scenario->n_systems : 1;
    struct explaining explaining = {.scenario = scenario,
                                    .options = options,
                                    .plans = check_calloc((size_t)n, sizeof *explaining.plans),
                                    .n =
                                        (double)scenario->n_systems * (double)(scenario->warm_up + scenario->measured) +
                                        iterations_of_explanation * n_explained * (double)scenario->measured};
    struct point_options point_options = {
        .searches = options->searches, .observer = keep_plan, .context = &explaining, .n_children = cores_available()};
    *explanations = (struct explanations){0};
    bool ok = point_run(scenario, lengths, &point_options, &explanations->point, err) &&
              explain(&explaining, explanations, err);
    for (int64_t i = 0; i < n; i++)
        plan_free(&explaining.plans[i]);
    free(explaining.plans);
    return ok;
}

void explanations_free(struct explanations *explanations)
{
    free(explanations->at);
    point_free(&explanations->point);
    *explanations = (struct explanations){0};
}
