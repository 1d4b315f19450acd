/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "system/slimpack.h"

#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/compare.h"

bool slimpack_holds(const struct slimpack_outlier *outlier, int32_t rank)
{
    return outlier->first_rank <= rank && rank < outlier->first_rank + outlier->width;
}

fill_flop slimpack_outlier_flop(const struct plan_request *request, const struct slimpack_split *split, enum pass pass,
                                const struct slimpack_outlier *outlier)
{
    struct flop_curve curve = flop_layer_curve(request->setting->model, pass);
    fill_flop flop = flop_of_prefix(curve, request->batch->tokens[outlier->sample]);
    return flop * (split->n_ranks / outlier->width);
}

fill_flop slimpack_local_flop(const struct plan_request *request, const struct slimpack_split *split, enum pass pass,
                              int32_t rank)
{
    struct flop_curve curve = flop_layer_curve(request->setting->model, pass);
    fill_flop sum = 0;
    for (int32_t i = split->local_first[rank]; i < split->local_first[rank + 1]; i++)
        sum += flop_of_prefix(curve, request->batch->tokens[split->local[i]]);
    return sum * split->n_ranks;
}

/* What of a rank's work shares no unit: each of its outliers, its local samples together; and the units that hold it.
 */
struct dealing {
    int32_t n;
    int32_t largest; /* which of them has the largest units */
    fill_flop *work; /* [FLOPs x DP] */
    int64_t *units;
};

static struct dealing dealing_of(const struct slimpack_part *part, enum pass pass, int32_t rank)
{
    const struct slimpack_split *split = part->split;
    size_t room = (size_t)split->n_outliers + 1;
    fill_flop local = slimpack_local_flop(part->request, split, pass, rank);
    struct dealing dealing = {.work = check_malloc(room * sizeof *dealing.work),
                              .units = check_malloc(room * sizeof *dealing.units)};
    for (int32_t i = 0; i < split->n_outliers; i++)
        if (slimpack_holds(&split->outliers[i], rank))
            dealing.work[dealing.n++] = slimpack_outlier_flop(part->request, split, pass, &split->outliers[i]);
    if (local > 0)
        dealing.work[dealing.n++] = local;
    for (int32_t i = 0; i < dealing.n; i++) {
        dealing.units[i] = 1;
        if (dealing.work[i] > dealing.work[dealing.largest])
            dealing.largest = i;
    }
    return dealing;
}

static void dealing_free(struct dealing *dealing)
{
    free(dealing->work);
    free(dealing->units);
}

/* A unit more, to what has the largest ones. */
static void deal(struct dealing *dealing)
{
    int64_t *units = dealing->units;
    const fill_flop *work = dealing->work;
    int32_t largest = dealing->largest;
    units[largest]++;
    for (int32_t i = 0; i < dealing->n; i++)
        if (work[i] * units[largest] > work[largest] * units[i])
            largest = i;
    dealing->largest = largest;
}

void slimpack_budgets(const struct slimpack_part *part, enum pass pass, int64_t least, int64_t most, fill_flop *budget)
{
    for (int64_t m = least; m <= most; m++)
        budget[m - least] = 1;
    for (int32_t rank = part->first_rank; rank < part->first_rank + part->n_ranks; rank++) {
        struct dealing dealing = dealing_of(part, pass, rank);
        for (int64_t m = 1; m <= most && dealing.n > 0; m++) {
            if (m > dealing.n)
                deal(&dealing);
            if (m < least)
                continue;
            int64_t units = dealing.units[dealing.largest];
            fill_flop unit = (dealing.work[dealing.largest] + units - 1) / units;
            budget[m - least] = unit > budget[m - least] ? unit : budget[m - least];
        }
        dealing_free(&dealing);
    }
}

/* Of a rank: its budget over the mean of its units. */
static double unevenness_of(const struct dealing *dealing, double budget)
{
    double work = 0, units = 0;
    for (int32_t i = 0; i < dealing->n; i++) {
        work += (double)dealing->work[i];
        units += ceil((double)dealing->work[i] / budget);
    }
    return units * budget / work;
}

/* Equal units. */
struct equal {
    double flop, n;
};

static int by_flop(const void *a, const void *b)
{
    const struct equal *x = a, *y = b;
    return COMPARE(x->flop, y->flop);
}

/* The unit at this place, from 0, of ascending ones; between two interpolated. */
static double unit_at(const struct equal *equals, double place)
{
    double before = floor(place), share = place - before, upto = equals->n;
    while (upto <= before)
        upto += (++equals)->n;
    return share > 0 && upto <= before + 1 ? (1 - share) * equals[0].flop + share * equals[1].flop : equals->flop;
}

/* Of a rank: p95/p5 of its units. */
static double spread_of(const struct dealing *dealing, double budget)
{
    struct equal *equals = check_malloc((size_t)dealing->n * sizeof *equals);
    double last = -1;
    for (int32_t i = 0; i < dealing->n; i++) {
        double n = ceil((double)dealing->work[i] / budget);
        equals[i] = (struct equal){(double)dealing->work[i] / n, n};
        last += n;
    }
    qsort(equals, (size_t)dealing->n, sizeof *equals, by_flop);
    double spread = unit_at(equals, 0.95 * last) / unit_at(equals, 0.05 * last);
    free(equals);
    return spread;
}

/* Raise largest[m - 1] to what of_rank makes of a rank with m units, where that is more; m = 1 .. most, all ranks. */
static void add_largest(const struct slimpack_part *part, enum pass pass,
                        double (*of_rank)(const struct dealing *, double), int64_t most, double *largest)
{
    fill_flop *budget = check_malloc((size_t)most * sizeof *budget);
    slimpack_budgets(part, pass, 1, most, budget);
    for (int32_t rank = part->first_rank; rank < part->first_rank + part->n_ranks; rank++) {
        struct dealing dealing = dealing_of(part, pass, rank);
        for (int64_t m = 1; m <= most && dealing.n > 0; m++)
            largest[m - 1] = fmax(largest[m - 1], of_rank(&dealing, (double)budget[m - 1]));
        dealing_free(&dealing);
    }
    free(budget);
}

void slimpack_unevenness(const struct slimpack_part *part, int64_t most, double *uneven)
{
    for (int64_t m = 1; m <= most; m++)
        uneven[m - 1] = 1;
    for (int pass = 0; pass < N_PASSES; pass++)
        add_largest(part, (enum pass)pass, unevenness_of, most, uneven);
}

void slimpack_spreads(const struct slimpack_part *part, enum pass pass, int64_t most, double *spread)
{
    for (int64_t m = 1; m <= most; m++)
        spread[m - 1] = 1;
    add_largest(part, pass, spread_of, most, spread);
}

int64_t slimpack_even_units(const double *uneven, int64_t above, int64_t most)
{
    int64_t best = above + 1;
    for (int64_t m = best + 1; m <= most; m++)
        if (uneven[m - 1] < uneven[best - 1])
            best = m;
    return best;
}

int32_t slimpack_linked_ranks(const struct slimpack_split *split, int32_t first_rank)
{
    for (int32_t i = 0; i < split->n_outliers; i++) /* widest first */
        if (split->outliers[i].first_rank == first_rank)
            return split->outliers[i].width;
    return 1;
}
