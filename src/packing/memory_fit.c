/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "packing/memory_fit.h"

#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "packing/memory_fit_place.h"

static void open_pipes(struct memory_fit_round *fitting)
{
    int32_t n = fitting->phase->n_pipelines;
    fitting->pipes = check_calloc((size_t)n, sizeof *fitting->pipes);
    for (int32_t i = 0; i < n; i++) {
        struct memory_fit_pipe *pipe = &fitting->pipes[i];
        pipe->plan = &fitting->phase->pipelines[i];
        pipe->relations = &fitting->dag->pipes[i].relations;
        int32_t n_forward = pipe->plan->partition[PASS_FORWARD].n_micro_batches,
                n_backward = pipe->plan->partition[PASS_BACKWARD].n_micro_batches;
        pipe->consumer = check_calloc((size_t)n_forward, sizeof *pipe->consumer);
        pipe->last = check_calloc((size_t)n_forward, sizeof *pipe->last);
        pipe->begun = check_calloc((size_t)n_forward, sizeof *pipe->begun);
        for (int32_t micro_batch = 0; micro_batch < n_forward; micro_batch++)
            pipe->begun[micro_batch] = memory_fit_forward_micro_batch(pipe, micro_batch)->recompute;
        for (int32_t micro_batch = n_backward - 1; micro_batch >= 0; micro_batch--)
            for (int32_t k = pipe->relations->share_first[micro_batch];
                 k < pipe->relations->share_first[micro_batch + 1]; k++) {
                int32_t forward = pipe->relations->shares[k].forward;
                pipe->consumer[forward] = micro_batch;
                if (pipe->last[forward] == 0)
                    pipe->last[forward] = micro_batch;
            }
    }
}

static void close_pipes(struct memory_fit_round *fitting)
{
    for (int32_t i = 0; i < fitting->phase->n_pipelines; i++) {
        free(fitting->pipes[i].consumer);
        free(fitting->pipes[i].last);
        free(fitting->pipes[i].begun);
        free(fitting->pipes[i].all_bytes);
    }
    free(fitting->pipes);
}

/* Give the forward micro-batches of a group the strongest recomputation of any of its pipelines. */
static void share_group(struct memory_fit_round *fitting, int32_t group)
{
    const struct plan_group *members = &fitting->phase->groups[group];
    int32_t n_micro_batches = fitting->phase->pipelines[members->pipelines[0]].partition[PASS_FORWARD].n_micro_batches,
            *at, n = 0;
    at = check_calloc((size_t)members->n_pipelines, sizeof *at);
    for (bool more = n_micro_batches > 0; more; n++) {
        enum recompute recompute = RECOMPUTE_NONE;
        for (int pass = 0; pass < 2 && more; pass++) /* find the strongest, then set it */
            for (int32_t i = 0; i < members->n_pipelines; i++) {
                struct plan_partition *partition =
                    &fitting->phase->pipelines[members->pipelines[i]].partition[PASS_FORWARD];
                while (at[i] < partition->n_micro_batches && partition->micro_batches[at[i]].group != group)
                    at[i]++;
                more = at[i] < partition->n_micro_batches;
                if (!more)
                    break;
                struct plan_micro_batch *micro_batch = &partition->micro_batches[at[i]];
                recompute = micro_batch->recompute > recompute ? micro_batch->recompute : recompute;
                if (pass == 0)
                    continue;
                micro_batch->recompute = recompute;
                at[i]++;
            }
    }
    free(at);
}

static void pass_on_recompute(struct memory_fit_round *fitting)
{
    for (int32_t i = 0; i < fitting->phase->n_groups; i++)
        share_group(fitting, i);
    for (int32_t i = 0; i < fitting->phase->n_pipelines; i++) {
        const struct memory_fit_pipe *pipe = &fitting->pipes[i];
        struct plan_partition *partition = &pipe->plan->partition[PASS_BACKWARD];
        for (int32_t micro_batch = 0; micro_batch < partition->n_micro_batches; micro_batch++)
            for (int32_t k = pipe->relations->share_first[micro_batch];
                 k < pipe->relations->share_first[micro_batch + 1]; k++) {
                const struct plan_micro_batch *forward =
                    memory_fit_forward_micro_batch(pipe, pipe->relations->shares[k].forward);
                if (forward->recompute > partition->micro_batches[micro_batch].recompute)
                    partition->micro_batches[micro_batch].recompute = forward->recompute;
            }
    }
}

/* Make a table of the micro-batches' shares on each virtual stage. */
static void open_offload(struct plan_pipeline *plan)
{
    const struct plan_partition *partition = &plan->partition[PASS_FORWARD];
    int32_t n_virtual = plan->layout.stages * plan->layout.chunks;
    if (plan->offload != NULL)
        return;
    double *table = check_malloc((size_t)(n_virtual * partition->n_micro_batches) * sizeof *table);
    for (int32_t i = 0; i < n_virtual * partition->n_micro_batches; i++)
        table[i] = plan_offload(plan, i % partition->n_micro_batches, i / partition->n_micro_batches);
    plan->offload = table;
}

/* @return whether something changed */
static bool change_rank(struct memory_fit_round *fitting, int32_t dag_rank)
{
    struct memory_fit_pipe *pipe = &fitting->pipes[fitting->dag->ranks[dag_rank].pipeline];
    struct memory_fit_excess excess = {
        .pipe = pipe, .dag_rank = dag_rank, .stage = fitting->dag->ranks[dag_rank].stage};
    excess.stage_setting = dag_setting(fitting->request->setting, &pipe->plan->layout, excess.stage);
    if (pipe->plan->partition[PASS_FORWARD].n_micro_batches == 0)
        return false;
    if (fitting->rule.offload)
        open_offload(pipe->plan);
    bool offloaded = memory_fit_relieve(fitting, &excess);
    bool recomputed = fitting->rule.recompute && excess.bytes > 0 && memory_fit_recompute(fitting, &excess);
    return offloaded || recomputed;
}

/*
 * Change micro-batches of the ranks above the limit.
 *
 * @return whether a change may make the plan fit. It is false if a rank has nothing left, and earlier changes of others
 *         affected neither its peak nor the makespan
 */
static bool change(struct memory_fit_round *fitting)
{
    bool changed = false, stuck = false;
    double *before = fitting->peak_before_bytes;
    bool same_end = fitting->timeline->makespan_s == fitting->makespan_before_s;
    open_pipes(fitting);
    for (int32_t dag_rank = 0; dag_rank < fitting->dag->n_ranks; dag_rank++) {
        double peak_bytes = fitting->memory->peak_bytes[dag_rank];
        bool above = peak_bytes > fitting->request->memory_bytes;
        bool has_left = above && change_rank(fitting, dag_rank);
        changed |= has_left;
        stuck |= above && !has_left && same_end && peak_bytes == before[dag_rank];
        before[dag_rank] = peak_bytes;
    }
    fitting->makespan_before_s = fitting->timeline->makespan_s;
    if (changed && fitting->rule.recompute)
        pass_on_recompute(fitting);
    close_pipes(fitting);
    return changed && !stuck;
}

bool memory_fit(const struct plan_request *request, struct memory_fit_rule rule, struct plan *plan,
                struct evaluator *evaluator, struct evaluation *evaluation, struct error *err)
{
    const struct platform *platform = request->setting->platform;
    struct dag *dag = &evaluator->dag;
    struct timeline *timeline = &evaluator->timeline;
    struct memory_fit_round fitting = {.request = request,
                                       .rule = rule,
                                       .phase = plan->phases,
                                       .dag = dag,
                                       .timeline = timeline,
                                       .memory = &evaluator->memory};
    bool adapts = rule.offload || rule.recompute, again = true;
    CHECK(plan->n_phases == 1);
    evaluator->n_gpus = (int32_t)(request->layout.tp * request->layout.cp * request->layout.dp * request->layout.pp);
    for (int32_t round = 0; again; round++) {
        if (!evaluate_time(evaluator, plan, request->setting, (struct dag_options){0}, err)) {
            free(fitting.peak_before_bytes);
            return false;
        }
        if (fitting.peak_before_bytes == NULL)
            fitting.peak_before_bytes = check_calloc((size_t)dag->n_ranks, sizeof(double));
        bool late = !rule.recompute && rule.limit_s > 0 && timeline->makespan_s > rule.limit_s;
        bool goes_on = adapts && !late && round < MEMORY_FIT_MAX_ROUNDS;
        memory_above(plan, dag, timeline, request->setting, goes_on ? request->memory_bytes : INFINITY,
                     &evaluator->memory);
        *evaluation = evaluation_of(evaluator, plan, platform, timeline);
        bool host_full = rule.offload && evaluation->host_bytes > platform->host_memory_bytes;
        again = goes_on && !host_full && evaluation->peak_bytes > request->memory_bytes && change(&fitting);
    }
    free(fitting.peak_before_bytes);
    return true;
}
