/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "search/ranking.h"

#include <math.h>

#include "search/score.h"

bool ranking_same_layout(const struct scenario_plan *a, const struct scenario_plan *b)
{
    return a->tp == b->tp && a->pp == b->pp && a->cp == b->cp && a->dp == b->dp && a->ep == b->ep;
}

double ranking_expected_s(const struct search_result *result, const struct search_plan *plan, double time_s)
{
    double work = 0, more_s = 0;
    for (int32_t i = 0; i < SEARCH_DECIDING_ITERATIONS; i++) {
        double share = result->iterations[i].model_flop / result->iterations[0].model_flop;
        work += result->iterations[i].weight * share;
        more_s += result->iterations[i].weight * fmax(0, plan->least_s[i] - share * time_s);
    }
    return time_s + more_s / work;
}

double ranking_time_within_s(const struct search_result *result, const struct search_plan *plan, double limit_s)
{
    double low_s = 0, high_s = limit_s;
    if (isinf(limit_s) || ranking_expected_s(result, plan, limit_s) <= limit_s)
        return limit_s;
    for (int i = 0; i < 60; i++) {
        double time_s = (low_s + high_s) / 2;
        if (ranking_expected_s(result, plan, time_s) <= limit_s)
            low_s = time_s;
        else
            high_s = time_s;
    }
    return high_s;
}

/* Return whether layout, virtual stages, sharding and recomputation are the same. */
static bool same_recompute(const struct scenario_plan *a, const struct scenario_plan *b)
{
    return ranking_same_layout(a, b) && a->vpp == b->vpp && a->sharding == b->sharding &&
           a->shard_communication == b->shard_communication && a->recompute == b->recompute;
}

/* Times of the iteration that ranked, or of the iterations that decided. */
enum times { TIMES_RANKING, TIMES_DECIDED };

static bool goes_first(const struct search_plan *a, const struct search_plan *b, enum times times)
{
    double a_s = times == TIMES_RANKING ? a->ranking_s : a->score.time_s;
    double b_s = times == TIMES_RANKING ? b->ranking_s : b->score.time_s;
    return a_s != b_s ? a_s < b_s : a < b; /* ties: order of the space */
}

static bool fits(const struct search_plan *plan)
{
    return plan->verdict == SEARCH_SLOWER || plan->verdict == SEARCH_RUNNER_UP;
}

/* Insert a plan by its time among the ranked plans from `begin` on. */
static void insert(struct search_result *result, int32_t begin, int32_t which, enum times times)
{
    int32_t at = result->n_ranked++;
    for (; at > begin && goes_first(&result->plans[which], &result->plans[result->ranked[at - 1]], times); at--)
        result->ranked[at] = result->ranked[at - 1];
    result->ranked[at] = which;
}

/* Append the plans of a verdict to the ranking, by time. A runner-up that stopped early comes after the others. */
static void append(struct search_result *result, enum search_verdict verdict, enum times times)
{
    for (int early = 0; early < 2; early++) {
        int32_t begin = result->n_ranked;
        for (int32_t i = 0; i < result->n_plans; i++) {
            const struct search_plan *plan = &result->plans[i];
            bool stopped = verdict == SEARCH_RUNNER_UP && !score_is_whole(&plan->score);
            if (plan->verdict == verdict && stopped == (early == 1))
                insert(result, begin, i, times);
        }
    }
}

/*
 * Return the fastest of the plans that fit and have the variant and recomputation of the first one. Such plans are
 * neighbours in the space. @param end  takes the index after them
 */
static int32_t fastest_of_variant(const struct search_result *result, int32_t first, int32_t *end)
{
    const struct search_plan *plans = result->plans;
    int32_t best = first;
    for (*end = first + 1; *end < result->n_plans; ++*end) {
        if (!same_recompute(&plans[*end].layout, &plans[first].layout))
            break;
        if (fits(&plans[*end]) && goes_first(&plans[*end], &plans[best], TIMES_RANKING))
            best = *end;
    }
    return best;
}

double ranking_few_s(struct search_result *result)
{
    const struct search_plan *plans = result->plans;
    result->n_ranked = 0;
    for (int32_t first = 0, end; first < result->n_plans; first = end) {
        end = first + 1;
        if (fits(&plans[first]))
            insert(result, 0, fastest_of_variant(result, first, &end), TIMES_RANKING);
    }
    for (int32_t i = 0, n_layouts = 0; i < result->n_ranked; i++) {
        bool is_new = true;
        for (int32_t j = 0; j < i && is_new; j++)
            is_new = !ranking_same_layout(&plans[result->ranked[i]].layout, &plans[result->ranked[j]].layout);
        if (is_new && ++n_layouts == SEARCH_FEW)
            return plans[result->ranked[i]].ranking_s;
    }
    return INFINITY;
}

double ranking_near_s(const struct search_result *result, const struct scenario_plan *layout, double few_s)
{
    double best_s = few_s;
    for (int32_t i = 0; i < result->n_ranked; i++)
        if (ranking_same_layout(&result->plans[result->ranked[i]].layout, layout))
            best_s = fmin(best_s, result->plans[result->ranked[i]].ranking_s);
    return (1 + SEARCH_NEAR_PERCENT / 100.0) * best_s;
}

double ranking_limit_s(const struct search_result *result, int32_t which, double few_s)
{
    const struct scenario_plan *layout = &result->plans[which].layout;
    double limit_s = ranking_near_s(result, layout, few_s);
    for (int32_t i = 0; i < result->n_ranked; i++) {
        const struct search_plan *best = &result->plans[result->ranked[i]];
        if (same_recompute(&best->layout, layout)) /* a tie goes to the first plan, and bounds are rounded */
            limit_s = fmin(limit_s, best->ranking_s * (result->ranked[i] < which ? 1 - 1e-12 : 1 + 1e-12));
    }
    return limit_s;
}

struct search_plan *ranking_fastest(struct search_result *result)
{
    struct search_plan *best = NULL;
    for (int32_t i = 0; i < result->n_plans; i++)
        if (result->plans[i].verdict == SEARCH_RUNNER_UP &&
            (best == NULL || goes_first(&result->plans[i], best, TIMES_DECIDED)))
            best = &result->plans[i];
    return best;
}

void ranking_conclude(struct search_result *result)
{
    result->n_ranked = 0;
    append(result, SEARCH_RUNNER_UP, TIMES_DECIDED);
    if (result->n_ranked > 0) {
        struct search_plan *chosen = &result->plans[result->ranked[0]];
        chosen->verdict = SEARCH_CHOSEN;
        result->fits = true;
        for (int32_t i = 1; i < result->n_ranked; i++)
            score_compare(result, &chosen->score, &result->plans[result->ranked[i]].score);
    } else {
        append(result, SEARCH_CHOSEN, TIMES_DECIDED);
    }
    append(result, SEARCH_SLOWER, TIMES_RANKING);
    append(result, SEARCH_MISFIT, TIMES_DECIDED);
    for (int32_t i = 0; i < result->n_plans; i++)
        result->count[result->plans[i].verdict]++;
}
