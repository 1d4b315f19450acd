/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "bounds/lower_bound.h"

#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "dag/dag.h"

/* State of a stage in the walk. */
struct stage {
    int32_t next;   /* next step */
    double begin_s; /* start of the last backward, before the first one of the last pass */
    double end_s;   /* end of the last pass */
    double out_s;   /* end of the last copy to the host; of the last copy back */
    double in_s;
    double due_s;         /* end of the copy to the host that the next pass waits for, if plan_waits_for_copies */
    double next_due_s;    /* and of that which it does not wait for yet */
    bool forward, turned; /* the last pass is a forward one; a backward has run */
};

/* Seconds of a pipeline's passes and copies. */
struct lower_bound_price {
    struct dag_kinds kinds;
    double *pass_s[N_PASSES]; /* [micro-batch x kinds + kind]; NULL: the pipeline is left out */
    double *copy_s;           /* [micro-batch x kinds + kind] in each direction; NULL: nothing is offloaded */
};

struct walk {
    const struct plan_pipeline *pipeline;
    const struct lower_bound_price *price;
    int32_t n_virtual;       /* virtual stages: chunk x stages + stage */
    double *end_s[N_PASSES]; /* [micro-batch x virtual stages + virtual stage], -1: not yet run */
    double *out_s;           /* [micro-batch x virtual stages + virtual stage] ends of copies to the host */
    struct stage *stages;
};

/* Return whether an earlier pipeline runs all of this pipeline's micro-batches with it. */
static bool repeats(const struct plan_phase *phase, int32_t i)
{
    const struct plan_partition *partition = &phase->pipelines[i].partition[PASS_FORWARD];
    int32_t group = partition->n_micro_batches > 0 ? partition->micro_batches[0].group : -1;
    for (int32_t micro_batch = 1; micro_batch < partition->n_micro_batches; micro_batch++)
        group = partition->micro_batches[micro_batch].group == group ? group : -1;
    return group >= 0 && phase->groups[group].pipelines[0] < i;
}

/* Return the seconds of a micro-batch's copy on a virtual stage; 0: there is none. */
static double copy_s_of(const struct walk *walk, int32_t virtual, int32_t micro_batch)
{
    const struct lower_bound_price *price = walk->price;
    bool copies = price->copy_s != NULL && plan_offload(walk->pipeline, micro_batch, virtual) > 0;
    return copies ? price->copy_s[micro_batch * price->kinds.n + price->kinds.kind[virtual]] : 0;
}

/* Return when the copies are over that a step waits for. */
static double copied_s(struct walk *walk, struct stage *of, const struct plan_step *step, int32_t virtual)
{
    double copy_s = step->pass == PASS_BACKWARD ? copy_s_of(walk, virtual, step->micro_batch) : 0, ready_s = 0;
    if (copy_s > 0)
        ready_s = of->in_s =
            fmax(fmax(of->in_s, of->begin_s), walk->out_s[step->micro_batch * walk->n_virtual + virtual]) + copy_s;
    if (plan_waits_for_copies(step->pass, of->forward)) {
        ready_s = fmax(ready_s, of->due_s);
        of->due_s = of->next_due_s;
        of->next_due_s = 0;
    }
    return ready_s;
}

static void run_step(struct walk *walk, int32_t stage, const struct plan_step *step, double ready_s)
{
    const struct lower_bound_price *price = walk->price;
    struct stage *of = &walk->stages[stage];
    int32_t virtual = step->chunk * walk->pipeline->layout.stages + stage;
    int32_t at = step->micro_batch * walk->n_virtual + virtual;
    int32_t cost = step->micro_batch * price->kinds.n + price->kinds.kind[virtual];
    double copy_s = step->pass == PASS_FORWARD ? copy_s_of(walk, virtual, step->micro_batch) : 0;
    double begin_s = fmax(fmax(of->end_s, ready_s), copied_s(walk, of, step, virtual));
    of->turned = of->turned || step->pass == PASS_BACKWARD;
    if (step->pass == PASS_BACKWARD || !of->turned)
        of->begin_s = begin_s;
    of->forward = step->pass == PASS_FORWARD;
    of->end_s = begin_s + price->pass_s[step->pass][cost];
    walk->end_s[step->pass][at] = of->end_s;
    if (copy_s > 0)
        walk->out_s[at] = of->next_due_s = of->out_s = fmax(of->out_s, of->end_s) + copy_s;
}

/*
 * Run the steps of a stage whose passes on the neighbouring stage are done: the stage before, backward the one behind.
 * @return number of steps
 */
static int32_t advance(struct walk *walk, int32_t stage)
{
    const struct plan_pipeline *pipeline = walk->pipeline;
    int32_t n_virtual = walk->n_virtual, *next = &walk->stages[stage].next, before = *next;
    for (; *next < pipeline->step_first[stage + 1]; ++*next) {
        const struct plan_step *step = &pipeline->steps[*next];
        int32_t virtual = step->chunk * pipeline->layout.stages + stage;
        int32_t from = step->pass == PASS_FORWARD ? virtual - 1 : virtual + 1;
        double ready_s =
            from >= 0 && from < n_virtual ? walk->end_s[step->pass][step->micro_batch * n_virtual + from] : 0;
        if (ready_s < 0)
            break;
        run_step(walk, stage, step, ready_s);
    }
    return *next - before;
}

/* Return whether each backward micro-batch has the slices of the forward micro-batch of the same number. */
static bool have_same_slices(const struct plan_partition *forward, const struct plan_partition *backward)
{
    bool same = forward->n_micro_batches == backward->n_micro_batches && forward->n_slices == backward->n_slices;
    for (int32_t i = 0; same && i < forward->n_micro_batches; i++)
        same = forward->micro_batches[i].n_slices == backward->micro_batches[i].n_slices;
    for (int32_t i = 0; same && i < forward->n_slices; i++) {
        struct slice a = forward->slices[i], b = backward->slices[i];
        same = a.sample == b.sample && a.begin == b.begin && a.end == b.end;
    }
    return same;
}

static void price_copies(const struct plan_pipeline *pipeline, const struct cost_setting *setting,
                         struct lower_bound_price *price)
{
    const struct plan_partition *partition = &pipeline->partition[PASS_FORWARD];
    int32_t n_kinds = price->kinds.n;
    if (pipeline->offload != NULL || !plan_offloads(pipeline) ||
        !have_same_slices(partition, &pipeline->partition[PASS_BACKWARD]))
        return;
    price->copy_s = check_calloc((size_t)(partition->n_micro_batches * n_kinds), sizeof(double));
    for (int32_t i = 0; i < partition->n_micro_batches * n_kinds; i++) {
        int32_t micro_batch = i / n_kinds, stage = price->kinds.stage[i % n_kinds];
        struct cost_setting stage_setting = dag_setting(setting, &pipeline->layout, stage);
        int64_t tokens =
            plan_micro_batch_tokens(partition, micro_batch) + partition->micro_batches[micro_batch].padding_tokens;
        double share =
            partition->micro_batches[micro_batch].streams ? 0 : partition->micro_batches[micro_batch].offload;
        double bytes = share > 0 ? share * dag_offloadable_bytes(pipeline, &stage_setting, micro_batch, tokens, 0) : 0;
        price->copy_s[i] = cost_of_transfer(setting, COST_PCIE, bytes, 1).duration_s;
    }
}

/* Return the seconds that a limit leaves the last stage of a pipeline, with the least seconds of all its passes. */
static struct dag_budget budget_of(const struct plan_pipeline *pipeline, const struct dag_kinds *kinds,
                                   const struct lower_bound_limit *limit)
{
    int32_t last = pipeline->layout.stages * pipeline->layout.chunks - 1;
    struct dag_budget budget = {.kind = kinds->kind[last], .left_s = limit->seconds * (1 + 1e-9)}; /* sums round */
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
        const struct plan_partition *partition = &pipeline->partition[pass];
        budget.least_s[pass] = check_malloc((size_t)partition->n_micro_batches * sizeof(double));
        for (int32_t micro_batch = 0; micro_batch < partition->n_micro_batches; micro_batch++) {
            budget.least_s[pass][micro_batch] =
                batch_bound_micro_batch_s(&limit->least[pass], limit->batch, partition, micro_batch);
            budget.left_s -= budget.least_s[pass][micro_batch];
        }
    }
    return budget;
}

/* Fill in the price of a pipeline. @return false: its last stage takes longer than the limit */
static bool price_pipeline(const struct plan_pipeline *pipeline, const struct cost_setting *setting,
                           const struct lower_bound_limit *limit, struct lower_bound_price *price)
{
    bool bounded = limit != NULL && limit->seconds < INFINITY && pipeline->layout.chunks == 1, within = true;
    struct dag_budget budget = {0};
    *price = (struct lower_bound_price){.kinds = dag_kinds_of(setting, &pipeline->layout)};
    if (bounded)
        budget = budget_of(pipeline, &price->kinds, limit);
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
        int32_t n = pipeline->partition[pass].n_micro_batches * price->kinds.n;
        price->pass_s[pass] = check_malloc((size_t)n * sizeof(double));
        within = within &&
                 dag_passes_s(pipeline, setting, &price->kinds, pass, bounded ? &budget : NULL, price->pass_s[pass]);
        free(budget.least_s[pass]);
    }
    if (within)
        price_copies(pipeline, setting, price);
    return within;
}

static void price_free(struct lower_bound_price *price)
{
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++)
        free(price->pass_s[pass]);
    free(price->kinds.kind);
    free(price->copy_s);
}

static void open_walk(const struct plan_pipeline *pipeline, const struct lower_bound_price *price, struct walk *walk)
{
    int32_t n_stages = pipeline->layout.stages, n_virtual = n_stages * pipeline->layout.chunks;
    *walk = (struct walk){.pipeline = pipeline, .price = price, .n_virtual = n_virtual};
    walk->stages = check_calloc((size_t)n_stages, sizeof *walk->stages);
    for (int32_t stage = 0; stage < n_stages; stage++)
        walk->stages[stage].next = pipeline->step_first[stage];
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
        int32_t n = pipeline->partition[pass].n_micro_batches * n_virtual;
        walk->end_s[pass] = check_malloc((size_t)n * sizeof(double));
        for (int32_t i = 0; i < n; i++)
            walk->end_s[pass][i] = -1;
    }
    walk->out_s = check_calloc((size_t)(pipeline->partition[PASS_FORWARD].n_micro_batches * n_virtual), sizeof(double));
}

static void close_walk(struct walk *walk)
{
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++)
        free(walk->end_s[pass]);
    free(walk->stages);
    free(walk->out_s);
}

static double pipeline_s(const struct plan_pipeline *pipeline, const struct lower_bound_price *price)
{
    struct walk walk;
    int32_t n_stages = pipeline->layout.stages;
    double end_s = 0;
    open_walk(pipeline, price, &walk);
    for (int32_t left = pipeline->step_first[n_stages], before = 0; left != before;) {
        before = left;
        for (int32_t stage = 0; stage < n_stages; stage++)
            left -= advance(&walk, stage);
        for (int32_t stage = n_stages - 1; stage >= 0; stage--)
            left -= advance(&walk, stage);
    }
    for (int32_t stage = 0; stage < n_stages; stage++)
        end_s = fmax(end_s, walk.stages[stage].end_s);
    close_walk(&walk);
    return end_s;
}

/* Return whether a walk of the steps bounds a pipeline, whose passes must be whole. */
static bool can_walk(const struct plan_pipeline *pipeline)
{
    return pipeline->partition[PASS_FORWARD].n_micro_batches > 0 && !pipeline->splits_backward;
}

static int32_t n_pipelines(const struct plan *plan)
{
    int32_t n = 0;
    for (int32_t i = 0; i < plan->n_phases; i++)
        n += plan->phases[i].n_pipelines;
    return n;
}

struct lower_bound_price *lower_bound_prices(const struct plan *plan, const struct cost_setting *setting,
                                             const struct lower_bound_limit *limit)
{
    struct lower_bound_price *prices = check_calloc((size_t)n_pipelines(plan), sizeof *prices), *next = prices;
    bool within = true;
    for (int32_t i = 0; i < plan->n_phases; i++) {
        const struct plan_phase *phase = &plan->phases[i];
        for (int32_t k = 0; k < phase->n_pipelines && within; k++, next++)
            if (phase->n_attentions == 0 && can_walk(&phase->pipelines[k]) && !repeats(phase, k) &&
                !(k > 0 && dag_same_passes(&phase->pipelines[k], &phase->pipelines[k - 1])))
                within = price_pipeline(&phase->pipelines[k], setting, limit, next);
    }
    if (within)
        return prices;
    lower_bound_free_prices(plan, prices);
    return NULL;
}

double lower_bound_at_prices_s(const struct plan *plan, const struct lower_bound_price *prices)
{
    double sum_s = 0;
    for (int32_t i = 0; i < plan->n_phases; i++) {
        const struct plan_phase *phase = &plan->phases[i];
        double most_s = 0;
        for (int32_t k = 0; k < phase->n_pipelines; k++, prices++)
            if (prices->pass_s[PASS_FORWARD] != NULL)
                most_s = fmax(most_s, pipeline_s(&phase->pipelines[k], prices));
        sum_s += most_s;
    }
    return sum_s;
}

void lower_bound_free_prices(const struct plan *plan, struct lower_bound_price *prices)
{
    for (int32_t i = 0; i < n_pipelines(plan); i++)
        price_free(&prices[i]);
    free(prices);
}

double lower_bound_s(const struct plan *plan, const struct cost_setting *setting)
{
    struct lower_bound_price *prices = lower_bound_prices(plan, setting, NULL);
    double bound_s = lower_bound_at_prices_s(plan, prices);
    lower_bound_free_prices(plan, prices);
    return bound_s;
}
