/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "simulate/standing.h"

#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/compare.h"
#include "simulate/interval.h"

const char *const time_part_name[TIME_N_PARTS] = {
    "compute",           "bubbles",   "context parallelism", "tensor collectives", "zero2/3 collectives",
    "tokens to experts", "gradients", "re-sharding"};

/** A summary to sort, and how well it fits: 0 surely, 1 tightly, 2 not. */
struct sorted {
    struct trace_summary *summary;
    int32_t misfit;
};

static int compare_summaries(const void *a, const void *b)
{
    const struct sorted *x = a, *y = b;
    if (x->misfit != y->misfit)
        return COMPARE(x->misfit, y->misfit);
    int order = x->summary->fits ? COMPARE(y->summary->mfu, x->summary->mfu) : 0;
    return order != 0 ? order : COMPARE(x->summary->system, y->summary->system);
}

static bool tie(const struct scenario *scenario, const struct point *point, const struct trace_summary *best,
                const struct trace_summary *other)
{
    const struct point_iteration *base = point->systems[best->system].iterations + scenario->warm_up;
    const struct point_iteration *measured = point->systems[other->system].iterations + scenario->warm_up;
    double half = interval_of_speed_up(base, measured, (int32_t)scenario->measured);
    double gap = fabs(other->mfu / best->mfu - 1);
    return gap < 1e-9 || gap <= half; /* NaN: one iteration */
}

void standings_of(const struct scenario *scenario, const struct point *point, struct trace_summary *summaries,
                  struct standing *standings)
{
    struct sorted *sorted = check_calloc((size_t)point->n_systems, sizeof *sorted);
    for (int32_t i = 0; i < point->n_systems; i++) {
        bool tight = summaries[i].tight && scenario->fits != SCENARIO_FITS_TIGHT;
        sorted[i] = (struct sorted){&summaries[i], !summaries[i].fits ? 2 : tight ? 1 : 0};
    }
    qsort(sorted, (size_t)point->n_systems, sizeof *sorted, compare_summaries);
    for (int32_t i = 0, best = 0; i < point->n_systems; i++) {
        struct trace_summary *summary = sorted[i].summary;
        if (sorted[i].misfit != sorted[best].misfit || !tie(scenario, point, sorted[best].summary, summary))
            best = i;
        summary->rank = summary->fits ? best + 1 : 0;
        standings[i] = (struct standing){summary->system, summary->rank};
    }
    free(sorted);
}

struct ranked_point ranked_point_of(const struct scenario *scenario, const struct point *point)
{
    size_t n = (size_t)point->n_systems;
    struct ranked_point ranked = {.summaries = check_calloc(n, sizeof *ranked.summaries),
                                  .standings = check_calloc(n, sizeof *ranked.standings)};
    for (int32_t i = 0; i < point->n_systems; i++)
        ranked.summaries[i] = point_summary_of(scenario, point, i);
    standings_of(scenario, point, ranked.summaries, ranked.standings);
    return ranked;
}

void ranked_point_free(struct ranked_point *ranked)
{
    free(ranked->summaries);
    free(ranked->standings);
    *ranked = (struct ranked_point){0};
}

struct trace_summary *point_summaries_of(const struct scenario *scenario, const struct point *point)
{
    struct ranked_point ranked = ranked_point_of(scenario, point);
    free(ranked.standings);
    return ranked.summaries;
}

struct time_shares time_shares_of(const struct trace_summary *summary)
{
    const struct bubble *bubble = &summary->bubble;
    struct time_shares shares = {{
        [TIME_COMPUTE] = bubble->busy_s - summary->tensor_s - summary->shard_s - summary->expert_s,
        [TIME_WAITING] = summary->bubble_fraction * bubble->total_s,
        [TIME_CONTEXT] = bubble->ring_s,
        [TIME_TENSOR] = summary->tensor_s,
        [TIME_SHARDS] = summary->shard_s,
        [TIME_EXPERTS] = summary->expert_s + bubble->expert_wait_s,
        [TIME_GRADIENTS] = bubble->sync_s,
        [TIME_RESHARD] = bubble->reshard_s,
    }};
    for (int i = 0; i < TIME_N_PARTS; i++)
        shares.share[i] /= bubble->total_s;
    return shares;
}

double time_exposed(const struct time_shares *shares)
{
    double sum = 0;
    for (int i = TIME_CONTEXT; i < TIME_N_PARTS; i++)
        sum += shares->share[i];
    return sum;
}
