/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "bounds/evaluate.h"

#include <math.h>

#include "base/compare.h"

enum exceeded_limit evaluation_exceeds(const struct evaluation *evaluation, const struct evaluation_limits *limits)
{
    if (evaluation->peak_bytes > limits->gpu_bytes)
        return EXCEEDED_GPU_MEMORY;
    return evaluation->host_bytes > limits->host_bytes ? EXCEEDED_HOST_MEMORY : EXCEEDED_NONE;
}

double evaluation_excess(const struct evaluation *evaluation, const struct evaluation_limits *limits)
{
    double gpu = evaluation->peak_bytes / limits->gpu_bytes, host = evaluation->host_bytes / limits->host_bytes;
    return evaluation_exceeds(evaluation, limits) == EXCEEDED_NONE ? 0 : fmax(gpu, host) - 1;
}

int evaluation_compare(const struct evaluation *a, const struct evaluation *b, const struct evaluation_limits *limits)
{
    double a_excess = evaluation_excess(a, limits), b_excess = evaluation_excess(b, limits);
    return a_excess != b_excess ? COMPARE(a_excess, b_excess) : COMPARE(a->makespan_s, b->makespan_s);
}

void evaluation_join(struct evaluation *worst, const struct evaluation *other)
{
    worst->makespan_s = fmax(worst->makespan_s, other->makespan_s);
    worst->host_bytes = fmax(worst->host_bytes, other->host_bytes);
    if (other->peak_bytes <= worst->peak_bytes)
        return;
    worst->peak_bytes = other->peak_bytes;
    worst->stage = other->stage;
    worst->class = other->class;
}

bool evaluate_time(struct evaluator *evaluator, const struct plan *plan, const struct cost_setting *setting,
                   struct dag_options options, struct error *err)
{
    if (!dag_rebuild(plan, setting, options, &evaluator->dag, err))
        return false;
    critical_path(&evaluator->dag, &evaluator->timeline);
    return true;
}

struct evaluation evaluation_of(const struct evaluator *evaluator, const struct plan *plan,
                                const struct platform *platform, const struct timeline *timeline)
{
    const struct memory *memory = &evaluator->memory;
    int32_t worst = memory->worst_rank;
    struct evaluation evaluation = {
        .makespan_s = timeline->makespan_s,
        .peak_bytes = memory->peak_bytes[worst],
        .host_bytes = memory_host_of(plan, &evaluator->dag, memory, platform, evaluator->n_gpus).bytes,
        .stage = evaluator->dag.ranks[worst].stage,
    };
    for (int i = 1; i < MEMORY_N_CLASSES; i++)
        if (memory->at_peak[worst][i] > memory->at_peak[worst][evaluation.class])
            evaluation.class = (enum memory_class)i;
    return evaluation;
}

struct evaluation evaluate_memory(struct evaluator *evaluator, const struct plan *plan,
                                  const struct cost_setting *setting, const struct timeline *timeline)
{
    memory_free(&evaluator->memory);
    memory_of(plan, &evaluator->dag, timeline, setting, false, &evaluator->memory);
    return evaluation_of(evaluator, plan, setting->platform, timeline);
}

bool evaluate(struct evaluator *evaluator, const struct plan *plan, const struct cost_setting *setting,
              struct dag_options options, struct evaluation *evaluation, struct error *err)
{
    if (!evaluate_time(evaluator, plan, setting, options, err))
        return false;
    *evaluation = evaluate_memory(evaluator, plan, setting, &evaluator->timeline);
    return true;
}

void evaluator_free(struct evaluator *evaluator)
{
    dag_free(&evaluator->dag);
    timeline_free(&evaluator->timeline);
    memory_free(&evaluator->memory);
}
