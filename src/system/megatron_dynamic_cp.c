/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This system is Megatron-Core's dynamic (hybrid) context parallelism. Each sample runs on a power of two of the DP
 * ranks, in steps between which all ranks synchronise.
 *
 * 1. A sample of more than M tokens takes the next power of two of ceil(tokens / M) ranks, at most all. Its work is
 *    tokens^2 / ranks. With `work: flop` it is a layer's forward FLOPs / ranks, which counts linear terms, too.
 * 2. A step forms from the remaining samples, longest first, in buckets of about equal work. A bucket's share is all
 *    work over the k different numbers of ranks. A bucket closes before a sample that would take it over 1.1 shares. It
 *    also closes once no more samples remain than k less twice the closed buckets.
 * 3. The next sample comes from the first bucket whose next one has room. It goes to a new group of the lowest free
 *    ranks, as long as ranks are free. Otherwise it goes to the group of its size with the least work.
 * 4. Some sample must have fewer ranks than the step's first one. Then the step ends as soon as all ranks are within
 *    `delta` of the fullest.
 * 5. Then the last sample of the fullest group is taken back. This goes on while it narrows the gap between ranks and
 *    no rank is empty.
 * 6. While a rank is empty, the first group of the smallest size doubles, or takes all empty ranks if they are fewer.
 *    The groups behind it move up, because ranks of a group are neighbours.
 * 7. The remaining samples, and after them those taken back, form the next step.
 * 8. A step is a phase. Its groups are disjoint and run their samples, each a micro-batch of its own, in 1F1B.
 *
 * Source: Megatron-Core, megatron/core/pipeline_parallel/hybrid_cp_schedule.py (2025), BalancedCPScheduler. It is still
 * in Megatron's main. The scheduler of 2026, default_dynamic_cp, is megatron-default-dynamic-cp.
 *
 * Deviates: - A sample that needs more than all ranks takes all; the public scheduler stops. - Later versions of
 * Megatron-Core join short samples of a group to packs; that is `pack`, off by default. - The public scheduler runs
 * without pipeline stages; here 1F1B fills and drains them in every step. - M, which a user of Megatron-Core gives, is
 * found for each batch unless it is given. Candidates are the tokens that
 *   memory has room for, at most the context, and its halves; the fastest stays (packing/token_cap_search.h). With a
 * large M few ranks remain for the short samples beside the long ones, and the greedy gives them all.
 */
#include "system/system.h"

#include <stdlib.h>

#include "base/check.h"
#include "bounds/batch_bound.h"
#include "packing/packing.h"
#include "packing/samples.h"
#include "packing/token_cap_search.h"
#include "plan/order.h"

enum dynamic_cp_work { DYNAMIC_CP_SQUARED, DYNAMIC_CP_FLOP };

struct dynamic_cp_knobs {
    int64_t max_tokens;
    int32_t work; /* enum dynamic_cp_work */
    double delta;
    bool pack;
};

/* Ranks that run samples together in one step. */
struct group {
    int32_t n_ranks;     /* neighbours, after those of the group before */
    int32_t n, *samples; /* in order of arrival */
    double work;
};

/* One step while it forms from the remaining samples. */
struct forming {
    const struct plan_request *request;
    int32_t max_tokens;    /* M */
    int32_t n_left, *left; /* remaining samples */
    int32_t n_groups;
    struct group *groups;
    struct flop_curve curve; /* of the forward */
    int32_t n_ranks, n_free; /* all ranks; ranks behind the groups' */
};

/* Return the level of the ranks that a sample takes: the number of doublings from one rank. */
static int32_t level_of(const struct forming *step, int32_t sample)
{
    int64_t tokens = step->request->batch->tokens[sample];
    int32_t level = 0;
    while (1 << level < step->n_ranks && (int64_t)step->max_tokens << level < tokens)
        level++;
    return level;
}

static int32_t ranks_of(const struct forming *step, int32_t sample)
{
    int32_t ranks = 1 << level_of(step, sample);
    return ranks < step->n_ranks ? ranks : step->n_ranks;
}

static double work_of(const struct forming *step, int32_t sample, int32_t n_ranks)
{
    const struct dynamic_cp_knobs *knobs = step->request->knobs;
    int32_t tokens = step->request->batch->tokens[sample];
    double work = (double)tokens * tokens;
    if (knobs->work == DYNAMIC_CP_FLOP)
        work = (double)flop_of_prefix(step->curve, tokens);
    return work / n_ranks;
}

/* Return the most work of a rank; least_work: the least, 0 while a rank is in no group. */
static double most_work(const struct forming *step)
{
    double most = 0;
    for (int32_t i = 0; i < step->n_groups; i++)
        most = step->groups[i].work > most ? step->groups[i].work : most;
    return most;
}

static double least_work(const struct forming *step)
{
    double least = step->n_free > 0 || step->n_groups == 0 ? 0 : step->groups[0].work;
    for (int32_t i = 0; i < step->n_groups; i++)
        least = step->groups[i].work < least ? step->groups[i].work : least;
    return least;
}

/* Find the ends of the buckets in the remaining samples. Caller frees. @return number of buckets */
static int32_t buckets_of(const struct forming *step, int32_t **ends)
{
    int32_t n_kinds = 0, bucket = 0;
    uint64_t levels = 0;
    double total = 0, sum = 0;
    for (int32_t i = 0; i < step->n_left; i++) {
        uint64_t level = 1ULL << level_of(step, step->left[i]);
        n_kinds += (levels & level) == 0;
        levels |= level;
        total += work_of(step, step->left[i], ranks_of(step, step->left[i]));
    }
    *ends = check_calloc((size_t)step->n_left, sizeof **ends);
    for (int32_t i = 0, begin = 0; i < step->n_left; i++) {
        double work = work_of(step, step->left[i], ranks_of(step, step->left[i]));
        if (i > begin && (sum + work > 1.1 * total / n_kinds || step->n_left - i <= n_kinds - 2 * bucket)) {
            (*ends)[bucket++] = begin = i;
            sum = 0;
        }
        sum += work;
    }
    (*ends)[bucket] = step->n_left;
    return bucket + 1;
}

/* Return the group of n_ranks ranks with the least work, -1: none. */
static int32_t least_group(const struct forming *step, int32_t n_ranks)
{
    int32_t best = -1;
    for (int32_t i = 0; i < step->n_groups; i++)
        if (step->groups[i].n_ranks == n_ranks && (best < 0 || step->groups[i].work < step->groups[best].work))
            best = i;
    return best;
}

/* Give a sample to a group of n_ranks. The group is new as long as ranks are free, because they have no work yet. */
static void assign(struct forming *step, int32_t sample, int32_t n_ranks)
{
    int32_t at = least_group(step, n_ranks);
    if (step->n_free >= n_ranks) {
        at = step->n_groups++;
        step->groups = check_realloc(step->groups, (size_t)step->n_groups * sizeof *step->groups);
        step->groups[at] = (struct group){.n_ranks = n_ranks};
        step->n_free -= n_ranks;
    }
    CHECK(step->groups != NULL && 0 <= at && at < step->n_groups);
    struct group *group = &step->groups[at];
    group->samples = check_realloc(group->samples, (size_t)(group->n + 1) * sizeof *group->samples);
    group->samples[group->n++] = sample;
    group->work += work_of(step, sample, n_ranks);
}

static bool has_room(const struct forming *step, int32_t n_ranks)
{
    return step->n_free >= n_ranks || least_group(step, n_ranks) >= 0;
}

/* Assign samples to groups until the step ends. Samples that remain stay in `left`. */
static void fill_step(struct forming *step)
{
    const struct dynamic_cp_knobs *knobs = step->request->knobs;
    int32_t *ends, n_buckets = buckets_of(step, &ends), widest = 0, n_left = 0;
    int32_t *next = check_calloc((size_t)n_buckets, sizeof *next);
    for (int32_t i = 1; i < n_buckets; i++)
        next[i] = ends[i - 1];
    for (bool narrower = false;;) {
        int32_t bucket = 0;
        while (bucket < n_buckets &&
               (next[bucket] == ends[bucket] || !has_room(step, ranks_of(step, step->left[next[bucket]]))))
            bucket++;
        if (bucket == n_buckets)
            break;
        int32_t sample = step->left[next[bucket]++], n_ranks = ranks_of(step, sample);
        assign(step, sample, n_ranks);
        widest = widest > 0 ? widest : n_ranks;
        narrower = narrower || n_ranks < widest;
        if (narrower && most_work(step) - least_work(step) <= knobs->delta * most_work(step))
            break;
    }
    for (int32_t bucket = 0; bucket < n_buckets; bucket++)
        for (int32_t i = next[bucket]; i < ends[bucket]; i++)
            step->left[n_left++] = step->left[i];
    step->n_left = n_left;
    free(next);
    free(ends);
}

/* Take back the last sample of the fullest group while that narrows the gap. */
static void trim(struct forming *step)
{
    const struct dynamic_cp_knobs *knobs = step->request->knobs;
    for (;;) {
        double most = most_work(step), gap = most - least_work(step);
        int32_t fullest = 0;
        CHECK(step->n_groups > 0);
        while (step->groups[fullest].work < most)
            fullest++;
        struct group *group = &step->groups[fullest];
        if (gap <= knobs->delta * most || least_work(step) == 0 || group->n < 2)
            return;
        double before = group->work;
        group->work -= work_of(step, group->samples[group->n - 1], group->n_ranks);
        if (most_work(step) - least_work(step) >= gap) {
            group->work = before;
            return;
        }
        step->left[step->n_left++] = group->samples[--group->n];
    }
}

/* Double the first of the smallest groups until no rank is empty. */
static void spread(struct forming *step)
{
    CHECK(step->n_groups > 0);
    while (step->n_free > 0) {
        struct group *group = &step->groups[0];
        for (int32_t i = 1; i < step->n_groups; i++)
            group = step->groups[i].n_ranks < group->n_ranks ? &step->groups[i] : group;
        int32_t more = group->n_ranks < step->n_free ? group->n_ranks : step->n_free;
        group->n_ranks += more;
        step->n_free -= more;
    }
}

/* Return how many samples of a group, beginning with `first`, one micro-batch takes. */
static int32_t micro_batch_samples(const struct forming *step, const struct group *group, int32_t first)
{
    const struct dynamic_cp_knobs *knobs = step->request->knobs;
    const int32_t *tokens = step->request->batch->tokens;
    int64_t room = (int64_t)step->max_tokens * group->n_ranks - tokens[group->samples[first]];
    int32_t n = 1;
    while (knobs->pack && first + n < group->n && tokens[group->samples[first + n]] <= room)
        room -= tokens[group->samples[first + n++]];
    return n;
}

static void add_group(const struct forming *step, const struct group *group, int32_t first_rank,
                      struct plan_phase *phase)
{
    for (int32_t i = 0, n; i < group->n; i += n) {
        n = micro_batch_samples(step, group, i);
        packing_add_shared(step->request, group->samples + i, n, first_rank, group->n_ranks, phase);
    }
    for (int32_t rank = first_rank; rank < first_rank + group->n_ranks; rank++) {
        plan_fill_need(&phase->pipelines[rank]);
        order_one_f_one_b(&phase->pipelines[rank], ORDER_JUST_IN_TIME);
    }
}

/* Add one step to the plan as a phase. */
static void add_step(struct forming *step, struct plan *plan)
{
    plan->phases = check_realloc(plan->phases, ((size_t)plan->n_phases + 1) * sizeof *plan->phases);
    struct plan_phase *phase = &plan->phases[plan->n_phases++];
    *phase = (struct plan_phase){0};
    request_megatron_layout(step->request, phase);
    step->n_free = step->n_ranks;
    fill_step(step);
    trim(step);
    spread(step);
    for (int32_t i = 0, rank = 0; i < step->n_groups; rank += step->groups[i++].n_ranks) {
        add_group(step, &step->groups[i], rank, phase);
        free(step->groups[i].samples);
    }
    free(step->groups);
    step->groups = NULL;
    step->n_groups = 0;
}

/* Add all steps, with M tokens a rank; the only variant is 0. */
static bool add_steps(const struct plan_request *request, int32_t max_tokens, int32_t variant, struct plan *plan)
{
    if (variant > 0)
        return false;
    struct forming step = {.request = request,
                           .max_tokens = max_tokens,
                           .n_left = request->batch->n_samples,
                           .left = samples_by_length(request->batch),
                           .curve = flop_model_curve(request->setting->model, PASS_FORWARD),
                           .n_ranks = (int32_t)request->layout.dp};
    *plan = (struct plan){.n_candidates = 1, .shards = scenario_plan_shards(&request->layout)};
    while (step.n_left > 0)
        add_step(&step, plan);
    free(step.left);
    return true;
}

static bool dynamic_cp_plan(const struct plan_request *request, void *state, struct plan *plan, struct error *err)
{
    (void)state;
    const struct dynamic_cp_knobs *knobs = request->knobs;
    if (!request_check_windows(request, "megatron-dynamic-cp", err))
        return false;
    return token_cap_search_given(request, knobs->max_tokens, add_steps, plan, err);
}

static const struct schema_key knobs[] = {
    {"max_tokens", SCHEMA_INT, "tokens", 0, 1073741824, "0", NULL,
     "tokens of a sample on a rank, at most the context; 0: the fastest of the tokens that memory holds if all "
     "micro-batches "
     "in "
     "flight are as long, and its halves",
     offsetof(struct dynamic_cp_knobs, max_tokens)},
    {"work", SCHEMA_CHOICE, "-", 0, 0, "squared", "squared|flop",
     "work of a sample: its length squared, as in the public scheduler, or a layer's forward FLOPs",
     offsetof(struct dynamic_cp_knobs, work)},
    {"delta", SCHEMA_REAL, "-", 0, 1, "0.05", NULL, "ranks are balanced within this share of the fullest one's work",
     offsetof(struct dynamic_cp_knobs, delta)},
    {"pack", SCHEMA_BOOL, "-", 0, 0, "false", NULL,
     "join successive samples of a group to micro-batches of at most max_tokens a rank",
     offsetof(struct dynamic_cp_knobs, pack)},
};

const struct training_system system_megatron_dynamic_cp = {
    .name = "megatron-dynamic-cp",
    .source = "Megatron-Core, hybrid context-parallel schedule (2025)",
    .meaning = "samples on powers of two of DP ranks, groups balanced by squared lengths, step by step; the "
               "scheduler of 2025, still in Megatron's main (that of 2026: megatron-default-dynamic-cp)",
    .knobs = knobs,
    .n_knobs = sizeof knobs / sizeof *knobs,
    .knobs_size = sizeof(struct dynamic_cp_knobs),
    .degrees = SYSTEM_TP | SYSTEM_PP | SYSTEM_EP,
    .decides = system_decides_schedule,
    .plan = dynamic_cp_plan,
    .lower_bound_s = batch_bound_shared_s,
};
