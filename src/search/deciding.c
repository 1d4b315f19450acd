/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "search/deciding.h"

#include <math.h>
#include <stdlib.h>

#include "base/compare.h"
#include "cost/flop.h"

static int by_work(const void *left, const void *right)
{
    const struct search_iteration *a = left, *b = right;
    return a->model_flop != b->model_flop ? COMPARE(a->model_flop, b->model_flop) : COMPARE(a->iteration, b->iteration);
}

static int by_iteration(const void *left, const void *right)
{
    const struct search_iteration *a = left, *b = right;
    return COMPARE(a->iteration, b->iteration);
}

/**
 * Find where strata begin. They have equal sums of weight, and at least one candidate each.
 * @param weight  [SEARCH_CANDIDATES] positive
 * @param first   [SEARCH_DECIDING_ITERATIONS + 1]
 */
static void cut_strata(const double *weight, int32_t *first)
{
    double sum = 0, before = 0;
    int32_t stratum = 0;
    for (int32_t i = 0; i < SEARCH_CANDIDATES; i++)
        sum += weight[i];
    first[0] = 0;
    for (int32_t i = 0; i < SEARCH_CANDIDATES; i++) {
        while (stratum + 1 < SEARCH_DECIDING_ITERATIONS &&
               SEARCH_DECIDING_ITERATIONS * (before + weight[i] / 2) >= (stratum + 1) * sum)
            first[++stratum] = i;
        before += weight[i];
    }
    while (stratum < SEARCH_DECIDING_ITERATIONS)
        first[++stratum] = SEARCH_CANDIDATES;
    for (int32_t j = SEARCH_DECIDING_ITERATIONS - 1; j > 0; j--)
        first[j] = first[j] < first[j + 1] ? first[j] : first[j + 1] - 1;
    for (int32_t j = 1; j < SEARCH_DECIDING_ITERATIONS; j++)
        first[j] = first[j] > first[j - 1] ? first[j] : first[j - 1] + 1;
}

/** Return the candidate nearest to the mean work of [begin, end), with their share of all as its weight. */
static struct search_iteration representative(const struct search_iteration *candidates, int32_t begin, int32_t end)
{
    double mean_flop = 0;
    int32_t nearest = begin;
    for (int32_t i = begin; i < end; i++)
        mean_flop += candidates[i].model_flop / (end - begin);
    for (int32_t i = begin; i < end; i++)
        if (fabs(candidates[i].model_flop - mean_flop) < fabs(candidates[nearest].model_flop - mean_flop))
            nearest = i;
    struct search_iteration result = candidates[nearest];
    result.weight = (double)(end - begin) / SEARCH_CANDIDATES;
    return result;
}

void deciding_iterations(const struct lengths *lengths, const struct scenario *scenario, int64_t seed, bool even,
                         struct search_iteration *iterations)
{
    struct search_iteration candidates[SEARCH_CANDIDATES];
    double weight[SEARCH_CANDIDATES];
    int32_t first[SEARCH_DECIDING_ITERATIONS + 1];
    const int32_t middle = SEARCH_DECIDING_ITERATIONS / 2;
    for (int32_t i = 0; i < SEARCH_CANDIDATES; i++) {
        struct batch batch;
        lengths_draw(lengths, &scenario->data, seed, i, &batch);
        candidates[i] = (struct search_iteration){
            .iteration = i, .model_flop = flop_model_of_samples(&scenario->model, batch.tokens, batch.n_samples)};
        batch_free(&batch);
    }
    qsort(candidates, SEARCH_CANDIDATES, sizeof *candidates, by_work);
    for (int32_t i = 0; i < SEARCH_CANDIDATES; i++)
        weight[i] = even ? 1 : candidates[i].model_flop;
    cut_strata(weight, first);
    for (int32_t j = 0; j < SEARCH_DECIDING_ITERATIONS; j++) {
        int32_t at = j == middle ? 0 : j < middle ? j + 1 : j;
        iterations[at] = representative(candidates, first[j], first[j + 1]);
    }
    if (even) /* 256 is no multiple of five */
        for (int32_t j = 0; j < SEARCH_DECIDING_ITERATIONS; j++)
            iterations[j].weight = 1.0 / SEARCH_DECIDING_ITERATIONS;
    qsort(iterations + 1, SEARCH_DECIDING_ITERATIONS - 1, sizeof *iterations, by_iteration);
}
