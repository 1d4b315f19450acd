/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "search/score.h"

#include <math.h>

#include "base/check.h"

/**
 * Return the time of as much work as the batches have. It is the weighted sum of times, scaled by the batches' work
 * over the work that ran.
 */
static double score_time_s(const struct search_result *result, const struct search_score *score)
{
    double time_s = 0, weight = 0, batch_flop = 0, ran_flop = 0;
    for (int32_t i = 0; i < score->n_iterations; i++) {
        const struct search_iteration *iteration = &result->iterations[i];
        weight += iteration->weight;
        time_s += iteration->weight * score->iteration_s[i];
        batch_flop += iteration->weight * iteration->model_flop;
        ran_flop += iteration->weight * iteration->model_flop * score->work_share[i];
    }
    return time_s / weight * (batch_flop / ran_flop);
}

void score_add(const struct search_result *result, const struct plan_outcome *outcome, struct search_score *score)
{
    const struct bubble *bubble = &outcome->bubble;
    int32_t last = score->n_iterations++;
    CHECK(last < SEARCH_DECIDING_ITERATIONS);
    double gpu_s = result->iterations[last].weight * bubble->total_s;
    score->gpu_s += gpu_s;
    double part = gpu_s / score->gpu_s;
    score->iteration_s[last] = outcome->evaluation.makespan_s;
    score->work_share[last] = outcome->work_share;
    score->time_s = score_time_s(result, score);
    score->compute += part * ((bubble->busy_s - outcome->collective_s) / bubble->total_s - score->compute);
    score->bubble += part * (bubble_fraction(bubble) - score->bubble);
    score->communication +=
        part * ((outcome->collective_s + bubble->ring_s + bubble->sync_s + bubble->expert_wait_s + bubble->reshard_s) /
                    bubble->total_s -
                score->communication);
    evaluation_join(&score->worst, &outcome->evaluation);
}

double score_least_s(const struct search_result *result, const struct search_plan *plan)
{
    double time_s = 0, weight = 0;
    for (int32_t i = 0; i < SEARCH_DECIDING_ITERATIONS; i++) {
        double known_s = i < plan->score.n_iterations ? plan->score.iteration_s[i] : plan->least_s[i];
        time_s += result->iterations[i].weight * known_s;
        weight += result->iterations[i].weight;
    }
    return time_s / weight;
}

double score_limit_s(const struct search_result *result, const struct search_plan *plan, double limit_s)
{
    int32_t next = plan->score.n_iterations;
    double weight = 0;
    for (int32_t i = 0; i < SEARCH_DECIDING_ITERATIONS; i++)
        weight += result->iterations[i].weight;
    double room_s = (limit_s - score_least_s(result, plan)) * weight / result->iterations[next].weight;
    return room_s < 0 ? -1 : plan->least_s[next] + room_s;
}

void score_compare(const struct search_result *result, const struct search_score *chosen, struct search_score *score)
{
    double ratio = score->time_s / chosen->time_s, squares = 0, n = score->n_iterations, mean_s = 0, chosen_mean_s = 0;
    for (int32_t i = 0; i < score->n_iterations; i++) {
        mean_s += result->iterations[i].weight * score->iteration_s[i];
        chosen_mean_s += result->iterations[i].weight * chosen->iteration_s[i];
    }
    /* values relative to the means, so in proportion to the work that ran */
    for (int32_t i = 0; i < score->n_iterations; i++) {
        double rest = score->iteration_s[i] / mean_s - chosen->iteration_s[i] / chosen_mean_s;
        squares += pow(result->iterations[i].weight * rest * ratio, 2);
    }
    score->slower = ratio - 1;
    score->slower_error = score_is_whole(score) ? sqrt(squares * n / (n - 1)) : NAN;
}
