/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <math.h>
#include <string.h>

#include "system/slimpack_solve.h"

static struct slimpack_solution no_solution(const struct plan_request *request)
{
    return (struct slimpack_solution){.given_up = true, .plan = {.shards = scenario_plan_shards(&request->layout)}};
}

/* Keep the better of two solutions, with the work of both. */
static void keep_better(const struct plan_request *request, struct slimpack_solution *best,
                        struct slimpack_solution *other)
{
    bool wins =
        !other->given_up && (best->given_up || slimpack_is_better(&other->worst, &best->worst, request->memory_bytes));
    struct slimpack_solution better = wins ? *other : *best, worse = wins ? *best : *other;
    better.plan.n_candidates += worse.plan.n_candidates;
    better.plan.n_resolved += worse.plan.n_resolved;
    better.plan.n_nodes += worse.plan.n_nodes;
    better.plan.gap = fmax(better.plan.gap, worse.plan.gap);
    plan_free(&worse.plan);
    *best = better;
}

/* What a solution must beat to be of use. */
static struct slimpack_limit limit_beside(const struct plan_request *request, const struct slimpack_solution *best)
{
    if (!best->given_up)
        return slimpack_limit_of(&best->worst.is, request->memory_bytes);
    return request->limit_s > 0 ? (struct slimpack_limit){request->limit_s, request->memory_bytes}
                                : (struct slimpack_limit){INFINITY, INFINITY};
}

/* What a solution with less parts must come to, to be of use: to fit, and be faster than what fits. */
static struct slimpack_limit limit_of_less(const struct plan_request *request, const struct slimpack_solution *best)
{
    struct slimpack_limit limit = limit_beside(request, best);
    if (!best->given_up && limit.peak_bytes <= request->memory_bytes)
        limit.makespan_s = nextafter(limit.makespan_s, 0);
    limit.peak_bytes = request->memory_bytes;
    return limit;
}

/* Parts that are switched off where they are on, as one or another form. */
enum part {
    PART_REPLICA,
    PART_OFFLOAD,
    PART_RECOMPUTE,
    PART_JUST_IN_TIME,
    PART_PERSISTENT,
    PART_NONE,
    PART_SLICING,
    PART_ASYMMETRIC,
    N_PARTS
};

/* @return whether the part was on */
static bool switch_off(struct slimpack_knobs *knobs, enum part part)
{
    static const enum slimpack_injection policy[] = {[PART_JUST_IN_TIME] = SLIMPACK_JUST_IN_TIME,
                                                     [PART_PERSISTENT] = SLIMPACK_PERSISTENT,
                                                     [PART_NONE] = SLIMPACK_NONE};
    struct slimpack_knobs before = *knobs;
    if (knobs->unit_spread > 0 && (part == PART_REPLICA || part == PART_SLICING || part == PART_ASYMMETRIC))
        return false; /* even units need it */
    switch (part) {
    case PART_REPLICA:
        knobs->replica_units = false;
        return before.replica_units;
    case PART_OFFLOAD:
        knobs->offload = SLIMPACK_OF_PLAN;
        return before.offload == SLIMPACK_BY_UNIT;
    case PART_RECOMPUTE:
        knobs->recompute = SLIMPACK_OF_PLAN;
        return before.recompute == SLIMPACK_BY_UNIT;
    case PART_SLICING:
        knobs->slicing = false;
        return before.slicing;
    case PART_ASYMMETRIC:
        knobs->asymmetric = false;
        return before.asymmetric;
    default:
        knobs->injection = (int32_t)policy[part];
        return before.injection == SLIMPACK_AUTO;
    }
}

/* @return whether the host binds what it comes to */
static bool try_how(const struct plan_request *request, const struct slimpack_split *split, struct slimpack_how how,
                    struct slimpack_solution *best, bool *binds, struct error *err)
{
    struct slimpack_solution other;
    struct slimpack_limit limit = how.less ? limit_of_less(request, best) : limit_beside(request, best);
    bool ok = slimpack_solve(request, split, how, limit, &other, err);
    *binds = other.host_binds;
    keep_better(request, best, &other);
    return ok;
}

/* The knobs without a set of parts. @return whether all were on */
static bool switch_off_all(struct slimpack_knobs *knobs, int32_t off)
{
    bool on = true;
    for (int part = 0; part < N_PARTS; part++)
        if (off >> part & 1)
            on = switch_off(knobs, (enum part)part) && on;
    return on;
}

/* Whether the host binds without each set of parts that lacks one of these. */
static bool all_bind(const bool *binds, int32_t off)
{
    bool all = true;
    for (int part = 0; part < N_PARTS; part++)
        all = all && !((off >> part & 1) && !binds[off & ~(1 << part)]);
    return all;
}

/* With all parts, and with even shares where the host binds. @param binds  whether it does */
static bool try_split(const struct plan_request *request, const struct slimpack_split *split,
                      struct slimpack_solution *best, bool *binds, struct error *err)
{
    const struct slimpack_knobs *knobs = request->knobs;
    bool ok = try_how(request, split, (struct slimpack_how){0}, best, binds, err);
    if (!ok || !*binds || knobs->offload != SLIMPACK_BY_UNIT)
        return ok;
    return try_how(request, split, (struct slimpack_how){.even_host = true}, best, &(bool){false}, err);
}

/* Where the host binds with all parts: without each set of them that lacks none without which it does not bind. */
static bool try_less(const struct plan_request *request, const struct slimpack_split *split,
                     struct slimpack_solution *best, struct error *err)
{
    bool binds[1 << N_PARTS] = {true}, ok = true; /* sets by number: those of fewer parts come before */
    for (int32_t off = 1; ok && off < 1 << N_PARTS; off++) {
        struct slimpack_knobs without = *(const struct slimpack_knobs *)request->knobs;
        struct plan_request own = *request;
        own.knobs = &without;
        if (all_bind(binds, off) && switch_off_all(&without, off))
            ok = try_how(&own, split, (struct slimpack_how){.less = true}, best, &binds[off], err);
    }
    return ok;
}

/* A way to merge, and what it merges. */
struct way {
    struct slimpack_split split;
    enum slimpack_merge merge;
    bool binds; /* the host, with all parts */
};

static bool same_outliers(const struct slimpack_split *a, const struct slimpack_split *b)
{
    size_t size = (size_t)a->n_outliers * sizeof *a->outliers;
    return a->n_outliers == b->n_outliers && (size == 0 || memcmp(a->outliers, b->outliers, size) == 0);
}

/* The knobs that a split is made for. */
static struct slimpack_knobs knobs_of(const struct plan_request *request, enum slimpack_merge merge)
{
    struct slimpack_knobs knobs = *(const struct slimpack_knobs *)request->knobs;
    if (slimpack_own_offload(merge))
        knobs.offload = SLIMPACK_OF_PLAN;
    if (slimpack_own_recompute(merge))
        knobs.recompute = SLIMPACK_OF_PLAN;
    return knobs;
}

/* Whether the candidates of one split are among those of another one. */
static bool is_part(const struct way *a, const struct way *b)
{
    return same_outliers(&a->split, &b->split) && slimpack_own_offload(a->merge) >= slimpack_own_offload(b->merge) &&
           slimpack_own_recompute(a->merge) >= slimpack_own_recompute(b->merge);
}

/* The n-th way, unless those before have its candidates. */
static bool try_way(const struct plan_request *request, struct way *ways, int32_t n, struct slimpack_solution *best,
                    struct error *err)
{
    struct slimpack_knobs knobs = knobs_of(request, ways[n].merge);
    struct plan_request own = *request;
    own.knobs = &knobs;
    slimpack_split(request, ways[n].merge, &ways[n].split);
    ways[n].binds = false;
    for (int32_t i = 0; i < n; i++)
        if (is_part(&ways[n], &ways[i]))
            return true;
    return try_split(&own, &ways[n].split, best, &ways[n].binds, err);
}

static bool try_ways(const struct plan_request *request, struct slimpack_solution *best, struct error *err)
{
    struct way ways[SLIMPACK_N_MERGES];
    int32_t n = 0;
    bool ok = true;
    for (enum slimpack_merge merge; ok && slimpack_nth_merge(request->knobs, n, &merge); n++) {
        ways[n].merge = merge;
        ok = try_way(request, ways, n, best, err);
    }
    for (int32_t i = 0; i < n; i++) {
        struct slimpack_knobs knobs = knobs_of(request, ways[i].merge);
        struct plan_request own = *request;
        own.knobs = &knobs;
        if (ok && ways[i].binds)
            ok = try_less(&own, &ways[i].split, best, err);
        slimpack_split_free(&ways[i].split);
    }
    return ok;
}

bool slimpack_choose(const struct plan_request *request, struct plan *plan, struct error *err)
{
    struct slimpack_solution best = no_solution(request);
    bool ok = try_ways(request, &best, err);
    *plan = best.plan;
    return ok;
}
