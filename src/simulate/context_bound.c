/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "simulate/context_bound.h"

bool context_bound_s(struct context_bound *bound, const struct iteration_run *run, double *seconds, struct error *err)
{
    bool every_rank = run->scenario->all_tensor_ranks || run->every_rank;
    struct cost_setting setting = every_rank ? run->faulty : run->group_faulty;
    struct dag_options options = {.all_tensor_ranks = every_rank, .gradient_sync = true, .fold_equal = true};
    setting.cache = &bound->costs;
    setting.balanced_context = true;
    if (!evaluate_time(&bound->evaluator, &run->plan, &setting, options, err))
        return false;
    *seconds = bound->evaluator.timeline.makespan_s;
    return true;
}

void context_bound_free(struct context_bound *bound)
{
    cost_cache_free(&bound->costs);
    evaluator_free(&bound->evaluator);
}
