/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "search/bound.h"

#include <math.h>

#include "bounds/batch_bound.h"
#include "bounds/stage_memory.h"
#include "cost/states.h"

/*
 * Return a reduction or all-gather of `bytes` in all among the replicas of one stage. 0 if passes may hide or
 * include it.
 */
static double ring_s(const struct cost_setting *setting, enum device_collective_kind kind, double bytes, int32_t n)
{
    bool gathers = kind == DEVICE_ALL_GATHER;
    int32_t hides = gathers ? SCENARIO_OVERLAP_BOTH : SCENARIO_OVERLAP_GRADIENTS;
    bool inside = gathers ? setting->sharding == SCENARIO_ZERO3 : cost_shards_in_passes(setting);
    if (n <= 1 || inside || setting->dp_overlap >= hides)
        return 0;
    return batch_bound_rails_s(setting, kind, bytes, n);
}

/* Return the parameters of a stage that all its replicas reduce together, without experts that only some hold. */
static double dense_parameters(const struct cost_setting *stage, const struct scenario_plan *layout, bool whole)
{
    double experts = cost_expert_parameters(stage);
    double reduced = scenario_expert_ranks(layout) > layout->tp ? 0 : experts / cost_expert_peers(stage);
    return cost_stage_parameters(stage, whole, whole) - experts + reduced;
}

double bound_after_passes_s(const struct cost_setting *setting, const struct scenario_plan *layout)
{
    bool whole = layout->pp == 1;
    int32_t n = (int32_t)(layout->dp * layout->cp);
    const struct cost_setting first = batch_bound_setting(setting, layout, 0),
                              last = batch_bound_setting(setting, layout, (int32_t)layout->pp - 1);
    double parameters = cost_stage_parameters(&last, whole, whole);
    double dense = dense_parameters(&last, layout, whole);
    double reduced = fmin(dense, dense_parameters(&first, layout, whole)); /* the first stage ends last */
    double gradient_bytes = reduced * cost_precisions(setting).reduced;
    enum device_collective_kind reduction = cost_all_reduces(setting) ? DEVICE_ALL_REDUCE : DEVICE_REDUCE_SCATTER;
    return ring_s(setting, reduction, gradient_bytes, n) + cost_of_stage(cost_optimizer_s, &last, parameters, n) +
           ring_s(setting, DEVICE_ALL_GATHER, cost_gathered_parameter_bytes(&last, parameters) * dense, n);
}

/* Return the least bytes that a rank of a stage holds at some moment while a sample puts `tokens` on it. */
static double stage_peak_bytes(const struct training_system *system, const struct plan_request *request,
                               enum recompute recompute, int32_t stage, double tokens)
{
    struct plan_layout layout = request_pipeline_layout(request, 0);
    bool decides = system_decides(system, request->knobs, &request->layout) & SYSTEM_OFFLOAD;
    double away = decides ? 1 : request_offload_share(request, request->layout.offload), held = 0, in_use;
    struct stage_memory_micro_batch micro_batch = {.recompute = recompute,
                                                   .streamed = request_streams(request) ? away : 0};
    struct stage_memory memory = {0};
    for (int32_t chunk = 0; chunk < layout.chunks; chunk++) {
        memory = stage_memory_of(request->setting, &layout, chunk * layout.stages + stage,
                                 scenario_plan_shards(&request->layout), &micro_batch);
        held += memory.token.held;
    }
    double standing = stage_memory_standing_bytes(&memory);
    bool leaves = request_streams(request) || layout.chunks > 1;
    if (system->whole_samples)
        in_use = tokens * (held * (leaves ? 1 - away : 1) + memory.token.embedding) +
                 stage_memory_work_bytes(&memory, tokens);
    else
        in_use = tokens * held * (1 - away);
    return fmax(standing, standing - memory.gradients_bytes + in_use);
}

/* Return whether a stage between first and last has the layers of the one before. */
static bool is_as_before(const struct plan_request *request, int32_t stage)
{
    const struct plan_layout layout = request_pipeline_layout(request, 0);
    if (stage < 2 || stage >= layout.stages - 1)
        return false;
    const struct cost_setting before = dag_rank_setting(request->setting, &layout, stage - 1),
                              own = dag_rank_setting(request->setting, &layout, stage);
    return cost_same_layers(&before, &own);
}

/*
 * Return stage_peak_bytes of the fullest stage. If the system decides recomputation, the kind that
 * needs least counts.
 */
static double least_peak_bytes(const struct training_system *system, const struct plan_request *request, double tokens)
{
    static const enum recompute any[] = {RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL};
    bool decides = system_decides(system, request->knobs, &request->layout) & SYSTEM_RECOMPUTE;
    double least = INFINITY;
    for (int i = 0; i < (decides ? 3 : 1); i++) {
        enum recompute recompute = decides ? any[i] : (enum recompute)request->layout.recompute;
        double most = 0;
        for (int32_t stage = 0; stage < (int32_t)request->layout.pp; stage++)
            if (!is_as_before(request, stage))
                most = fmax(most, stage_peak_bytes(system, request, recompute, stage, tokens));
        least = fmin(least, most);
    }
    return least;
}

/* Return the tokens of the longest sample on a context rank; 0 if the system may leave it to a later iteration. */
static double longest_tokens(const struct training_system *system, const struct plan_request *request)
{
    double most = 0, ranks = system->whole_samples ? 1 : (double)request->layout.dp;
    for (int32_t i = 0; i < request->batch->n_samples && system->state_size == 0; i++)
        most = fmax(most, request->batch->tokens[i] / ranks);
    return most / (double)request->layout.cp;
}

struct bound bound_of(const struct training_system *system, const struct plan_request *request, double most_work_share)
{
    double passes_s = system->lower_bound_s != NULL ? system->lower_bound_s(request) : 0;
    return (struct bound){
        .time_s = passes_s + bound_after_passes_s(request->setting, &request->layout) / most_work_share,
        .peak_bytes = least_peak_bytes(system, request, longest_tokens(system, request)),
    };
}
