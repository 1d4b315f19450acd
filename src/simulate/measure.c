/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "simulate/measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "bounds/work.h"

static void measure_work(const struct iteration_run *run, struct point_iteration *result)
{
    struct work work = work_of(&run->plan, &run->evaluator.dag, &run->group_faulty);
    result->row.hardware_flop = work.hardware_flop;
    result->row.fp8_flop = work.fp8_flop;
    result->row.tensor_s = work.tensor_s;
    result->row.shard_s = work.shard_s;
    result->row.expert_s = work.expert_s;
    result->pass_s = work.pass_s;
    memcpy(result->extrapolated_s, work.extrapolated_s, sizeof result->extrapolated_s);
}

static void count_forward_micro_batches(const struct plan_partition *partition, struct trace_iteration *row)
{
    row->forward_micro_batches += partition->n_micro_batches;
    for (int32_t i = 0; i < partition->n_micro_batches; i++) {
        const struct plan_micro_batch *micro_batch = &partition->micro_batches[i];
        row->padding_tokens += micro_batch->padding_tokens;
        row->full_micro_batches += micro_batch->recompute == RECOMPUTE_FULL;
        row->listed_micro_batches +=
            micro_batch->recompute != RECOMPUTE_FULL && micro_batch->recompute != RECOMPUTE_NONE;
    }
}

static void count_micro_batches(const struct plan *plan, struct trace_iteration *row)
{
    row->padding_tokens = plan_padded_tokens(plan);
    for (int32_t i = 0; i < plan->n_phases; i++)
        for (int32_t j = 0; j < plan->phases[i].n_pipelines; j++) {
            row->pipelines++;
            row->backward_micro_batches += plan->phases[i].pipelines[j].partition[PASS_BACKWARD].n_micro_batches;
            count_forward_micro_batches(&plan->phases[i].pipelines[j].partition[PASS_FORWARD], row);
        }
    row->sliced_pipelines = micro_batches_using(plan, PLAN_SLICED);
    row->asymmetric_pipelines = micro_batches_using(plan, PLAN_ASYMMETRIC);
    row->just_in_time_pipelines = micro_batches_using(plan, PLAN_JUST_IN_TIME);
    row->persistent_pipelines = micro_batches_using(plan, PLAN_PERSISTENT);
    row->long_warm_up_pipelines = micro_batches_using(plan, PLAN_LONG_WARM_UP);
}

/** Return a spread, 1 if no pipeline has two micro-batches. */
static double spread_or_one(double spread)
{
    return isnan(spread) ? 1 : spread;
}

static void measure_spreads(const struct iteration_run *run, struct point_iteration *result)
{
    struct trace_iteration *row = &result->row;
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++)
        result->spread[pass] = micro_batches_spread_of(&run->plan, &run->setting, pass);
    const struct micro_batches_spread *forward = &result->spread[PASS_FORWARD],
                                      *backward = &result->spread[PASS_BACKWARD];
    row->forward_imbalance = forward->imbalance;
    row->backward_imbalance = backward->imbalance;
    row->forward_flop_spread = spread_or_one(forward->flop);
    row->backward_flop_spread = spread_or_one(backward->flop);
    row->forward_own_flop_spread = forward->own_flop;
    row->backward_own_flop_spread = backward->own_flop;
    row->forward_time_spread = spread_or_one(forward->time);
    row->backward_time_spread = spread_or_one(backward->time);
}

/**
 * Return WLB-LLM's imbalance degree: the largest forward seconds of a micro-batch on the first virtual stage
 * over their mean.
 */
static double micro_batch_imbalance(const struct plan *plan, const struct cost_setting *setting)
{
    double most_s = 0, sum_s = 0;
    int32_t n = 0;
    for (int32_t i = 0; i < plan->n_phases; i++)
        for (int32_t j = 0; j < plan->phases[i].n_pipelines; j++) {
            const struct plan_pipeline *pipeline = &plan->phases[i].pipelines[j];
            n += pipeline->partition[PASS_FORWARD].n_micro_batches;
            for (int32_t micro_batch = 0; micro_batch < pipeline->partition[PASS_FORWARD].n_micro_batches;
                 micro_batch++) {
                double pass_s = micro_batches_pass_s(&plan->phases[i], j, setting, PASS_FORWARD, micro_batch);
                most_s = fmax(most_s, pass_s);
                sum_s += pass_s;
            }
        }
    return sum_s > 0 ? most_s * n / sum_s : 0;
}

/** Count tokens, samples and model FLOPs that ran: the batch without delayed samples, with carried ones. */
static void measure_samples(const struct iteration_run *run, struct trace_iteration *row)
{
    const struct plan *plan = &run->plan;
    const struct batch *batch = &run->batch;
    const struct flop_model of = flop_model_of(&run->scenario->model);
    row->tokens = plan_tokens(plan, batch->n_tokens, batch->tokens);
    row->samples = batch->n_samples - plan->n_delayed + plan->n_carried;
    row->documents = batch->n_documents;
    row->delayed_tokens = plan->delayed_tokens;
    for (int32_t i = 0, k = 0; i < batch->n_samples; i++) {
        bool delayed = k < plan->n_delayed && plan->delayed[k] == i;
        k += delayed;
        row->model_flop += delayed ? 0 : flop_model_of_sample(&of, batch->tokens[i]);
    }
    for (int32_t i = 0; i < plan->n_carried; i++)
        row->model_flop += flop_model_of_sample(&of, plan->carried_tokens[i]);
}

/** Return the number of samples that groups of pipelines run together, each counted once. */
static int32_t merged_samples(const struct plan *plan, int32_t n_samples)
{
    bool *merged = check_calloc((size_t)n_samples, sizeof *merged);
    int32_t n = 0;
    for (int32_t i = 0; i < plan->n_phases; i++)
        for (int32_t j = 0; j < plan->phases[i].n_pipelines; j++) {
            const struct plan_partition *partition = &plan->phases[i].pipelines[j].partition[PASS_FORWARD];
            for (int32_t u = 0; u < partition->n_micro_batches; u++)
                for (int32_t s = 0; partition->micro_batches[u].group >= 0 && s < partition->micro_batches[u].n_slices;
                     s++)
                    merged[partition->slices[partition->micro_batches[u].first_slice + s].sample] = true;
        }
    for (int32_t i = 0; i < n_samples; i++)
        n += merged[i];
    free(merged);
    return n;
}

static void measure_memory(const struct iteration_run *run, struct point_iteration *result)
{
    const struct memory *memory = &run->evaluator.memory;
    const struct dag_rank *worst = &run->evaluator.dag.ranks[memory->worst_rank];
    result->row.peak_bytes = memory->peak_bytes[memory->worst_rank];
    result->row.peak_stage = worst->stage;
    result->row.peak_pipeline = worst->pipeline;
    memcpy(result->row.class_bytes, memory->at_peak[memory->worst_rank], sizeof result->row.class_bytes);
    result->host = memory_host_of(&run->plan, &run->evaluator.dag, memory, &run->scenario->platform, 0);
    result->row.host_peak_bytes = result->host.bytes;
}

/** Count micro-batches with samples, and pipelines without any. */
static void count_filled(const struct plan *plan, struct point_iteration *result)
{
    result->n_phases = plan->n_phases;
    for (int32_t i = 0; i < plan->n_phases; i++)
        for (int32_t j = 0; j < plan->phases[i].n_pipelines; j++) {
            const struct plan_partition *partition = &plan->phases[i].pipelines[j].partition[PASS_FORWARD];
            int32_t n = 0;
            for (int32_t k = 0; k < partition->n_micro_batches; k++)
                n += partition->micro_batches[k].n_slices > 0;
            result->n_filled += n;
            result->n_idle_pipelines += n == 0 && plan->n_phases == 1;
        }
}

struct point_iteration measure_iteration(const struct iteration_run *run, int32_t system)
{
    const struct plan *plan = &run->plan;
    const struct dag *dag = &run->evaluator.dag;
    const struct timeline *timeline = iteration_run_timeline(run);
    struct bubble bubble = bubble_of(dag, timeline);
    struct point_iteration result = {
        .row = {.system = system,
                .iteration = run->iteration,
                .measured = run->iteration >= run->scenario->warm_up,
                .time_s = timeline->makespan_s,
                .critical_path_s = run->evaluator.timeline.makespan_s,
                .context_bound_s = NAN, /* simulate/context_bound.h */
                .simgrid_s = iteration_run_executes(run) ? run->executed.makespan_s : NAN,
                .candidates = plan->n_candidates,
                .resolved = plan->n_resolved,
                .nodes = plan->n_nodes,
                .gap = plan->gap,
                .micro_batch_imbalance = micro_batch_imbalance(plan, &run->setting),
                .dp_imbalance = micro_batches_pipeline_imbalance(dag),
                .merged_samples = merged_samples(plan, run->batch.n_samples + plan->n_carried),
                .bubble_fraction = bubble_fraction(&bubble),
                .bubble = bubble,
                .traffic = traffic_of(plan, dag, &run->setting)},
        .every_rank = run->every_rank,
        .solve_s = run->solve_s,
    };
    measure_samples(run, &result.row);
    measure_work(run, &result);
    count_micro_batches(plan, &result.row);
    count_filled(plan, &result);
    measure_spreads(run, &result);
    measure_memory(run, &result);
    return result;
}

static struct trace_stage *peak_of(struct stage_peaks *peaks, int32_t stage)
{
    if (stage >= peaks->n) {
        peaks->at = check_realloc(peaks->at, (size_t)(stage + 1) * sizeof *peaks->at);
        memset(peaks->at + peaks->n, 0, (size_t)(stage + 1 - peaks->n) * sizeof *peaks->at);
        peaks->n = stage + 1;
    }
    return &peaks->at[stage];
}

void measure_stages(const struct iteration_run *run, int32_t system, struct stage_peaks *peaks)
{
    const struct memory *memory = &run->evaluator.memory;
    for (int32_t i = 0; i < memory->n_ranks; i++) {
        const struct dag_rank *rank = &run->evaluator.dag.ranks[i];
        struct trace_stage *peak = peak_of(peaks, rank->stage);
        if (memory->peak_bytes[i] <= peak->peak_bytes)
            continue;
        *peak = (struct trace_stage){.system = system,
                                     .stage = rank->stage,
                                     .peak_bytes = memory->peak_bytes[i],
                                     .iteration = run->iteration,
                                     .pipeline = rank->pipeline};
        memcpy(peak->class_bytes, memory->at_peak[i], sizeof peak->class_bytes);
    }
}
