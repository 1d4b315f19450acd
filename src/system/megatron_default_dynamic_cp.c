/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This system is Megatron-Core's dynamic context parallelism of 2026. It packs samples on groups of neighbouring DP
 * ranks, one micro-batch of all R ranks at a time.
 *
 * 1. Groups have sizes: the powers of two that divide R, and R itself, all of at least `min_cp`. A sample of s tokens
 *    needs the smallest size of which a rank holds s / size tokens within L, at most R. On a group it is work of
 *    s^2 / size for each rank.
 * 2. A micro-batch forms from the samples that are left, longest first (ties: by index). The longest sample opens a
 *    group of the size it needs, from rank 0 on.
 * 3. Each further sample has options. One is a group of at least the needed size whose ranks then have at most L
 *    tokens. The other is a new group of such a size on the lowest free ranks. It takes the option with the least work
 *    of the fullest rank afterwards. Ties go to the smaller size, then to an existing group, then to the earlier one.
 *    With no option it waits for the next micro-batch.
 * 4. While a rank is empty, the first group of the smallest size grows to the next size. The groups behind it move up.
 *    If too few ranks are empty for that, the assignment is dropped. Then all samples that were left come, longest
 *    first, into one group of R ranks. One that takes it above L tokens a rank waits; the first does not.
 * 5. Interleaved stages (plan.vpp) need micro-batches in multiples of PP. From the last micro-batch backwards, and
 *    again from the last on, one of several groups is split. Its groups before the first boundary at or beyond R / 2
 *    ranks (rounded down) form a new micro-batch at the end. The groups behind it stay in place.
 * 6. Step 4 fills the ranks of both parts, where one group of R ranks takes all samples of its part. The plan is
 *    refused if no micro-batch has several groups.
 * 7. Every micro-batch is one of each rank, so all ranks have as many. They run plan.schedule in one phase. Groups wait
 *    for each other only through their own collectives, as Megatron's ranks do.
 *
 * Source: Megatron-Core, megatron/core/datasets/data_schedule_utils.py (2026), next_hdp_group_packing_aware and
 * align_sample_id_groups (pull requests 5154, 5679 and 7097).
 *
 * Deviates:
 *
 * - The public scheduler also caps a rank's work at 1.05 x L x the longest sample left. The cap refuses nothing: no
 *   sample is longer, and a rank has at most L tokens. So it is left out.
 * - A sample that needs more than R ranks takes R; the public scheduler stops.
 * - L, which a user of Megatron-Core gives, is found for each batch unless it is given, as for megatron-dynamic-cp.
 *   Candidates are the tokens that memory has room for, at most the context, and its halves
 *   (packing/token_cap_search.h). A candidate that cannot be interleaved is left out.
 * - Parts of a split micro-batch grow as in step 4; the public scheduler doubles groups from the last on.
 * - Schedules that cut micro-batches are refused, because ranks of a group would cut them differently.
 */
#include "system/system.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "bounds/batch_bound.h"
#include "packing/packing.h"
#include "packing/samples.h"
#include "packing/token_cap_search.h"

struct default_dynamic_cp_knobs {
    int64_t max_tokens, min_cp;
};

enum { MOST_SIZES = 33 };

/* Sizes of groups, ascending. The last one is all ranks. */
struct sizes {
    int32_t n, at[MOST_SIZES];
};

/* Neighbouring ranks that run samples together in one micro-batch. */
struct group {
    int32_t n_ranks, n, *sample;
    int64_t tokens; /* of all samples */
    double work;    /* of each rank, before the group grows */
};

/* The groups of one micro-batch, in the order of their ranks. */
struct micro_batch {
    int32_t n_groups, n_used; /* n_used: ranks of all groups */
    struct group *groups;
};

struct scheduling {
    const struct plan_request *request;
    int32_t max_tokens, n_ranks; /* L, R */
    struct sizes sizes;
    int32_t n_left, *left; /* samples that are in no micro-batch */
    int32_t n_micro_batches;
    struct micro_batch *micro_batches;
};

/* One place for a sample. */
struct option {
    double value; /* most work of a rank afterwards */
    int32_t size, group;
};

/* Return the sizes of at least `least` ranks. */
static struct sizes sizes_of(int32_t n_ranks, int64_t least)
{
    struct sizes sizes = {0};
    for (int32_t size = 1; n_ranks % size == 0; size *= 2)
        if (size >= least)
            sizes.at[sizes.n++] = size;
    if (n_ranks >= least && (sizes.n == 0 || sizes.at[sizes.n - 1] < n_ranks))
        sizes.at[sizes.n++] = n_ranks;
    return sizes;
}

static int32_t tokens_of(const struct scheduling *all, int32_t sample)
{
    return all->request->batch->tokens[sample];
}

static int32_t need_of(const struct scheduling *all, int32_t sample)
{
    for (int32_t i = 0; i < all->sizes.n; i++)
        if (tokens_of(all, sample) <= (int64_t)all->max_tokens * all->sizes.at[i])
            return all->sizes.at[i];
    return all->n_ranks;
}

static double work_of(const struct scheduling *all, int32_t sample, int32_t size)
{
    return (double)tokens_of(all, sample) * tokens_of(all, sample) / size;
}

static void open_group(struct micro_batch *micro_batch, int32_t size)
{
    micro_batch->groups =
        check_realloc(micro_batch->groups, ((size_t)micro_batch->n_groups + 1) * sizeof *micro_batch->groups);
    micro_batch->groups[micro_batch->n_groups++] = (struct group){.n_ranks = size};
    micro_batch->n_used += size;
}

static void take_sample(const struct scheduling *all, int32_t sample, struct group *group)
{
    group->sample = check_realloc(group->sample, ((size_t)group->n + 1) * sizeof *group->sample);
    group->sample[group->n++] = sample;
    group->tokens += tokens_of(all, sample);
    group->work += work_of(all, sample, group->n_ranks);
}

static void free_groups(struct micro_batch *micro_batch)
{
    for (int32_t i = 0; i < micro_batch->n_groups; i++)
        free(micro_batch->groups[i].sample);
    free(micro_batch->groups);
    *micro_batch = (struct micro_batch){0};
}

/* Return the best place of a sample; group n_groups is a new one, -1: there is none. */
static struct option best_option(const struct scheduling *all, const struct micro_batch *micro_batch, int32_t sample)
{
    struct option best = {.value = INFINITY, .size = all->n_ranks + 1, .group = -1};
    int32_t need = need_of(all, sample), tokens = tokens_of(all, sample);
    double most = 0;
    for (int32_t i = 0; i < micro_batch->n_groups; i++)
        most = fmax(most, micro_batch->groups[i].work);
    for (int32_t i = 0; i < micro_batch->n_groups; i++) {
        const struct group *group = &micro_batch->groups[i];
        double value = fmax(most, group->work + work_of(all, sample, group->n_ranks));
        if (group->n_ranks < need || group->tokens + tokens > (int64_t)all->max_tokens * group->n_ranks)
            continue;
        if (value < best.value || (value == best.value && group->n_ranks < best.size))
            best = (struct option){value, group->n_ranks, i};
    }
    for (int32_t i = 0; i < all->sizes.n; i++) {
        int32_t size = all->sizes.at[i];
        double value = fmax(most, work_of(all, sample, size));
        if (size < need || micro_batch->n_used + size > all->n_ranks)
            continue;
        if (value < best.value || (value == best.value && size < best.size))
            best = (struct option){value, size, micro_batch->n_groups};
    }
    return best;
}

/* Give samples that are left their places. The others stay left. */
static void fill(struct scheduling *all, struct micro_batch *micro_batch)
{
    int32_t n_left = 0;
    open_group(micro_batch, need_of(all, all->left[0]));
    take_sample(all, all->left[0], &micro_batch->groups[0]);
    for (int32_t i = 1; i < all->n_left; i++) {
        struct option option = best_option(all, micro_batch, all->left[i]);
        if (option.group < 0) {
            all->left[n_left++] = all->left[i];
            continue;
        }
        if (option.group == micro_batch->n_groups)
            open_group(micro_batch, option.size);
        take_sample(all, all->left[i], &micro_batch->groups[option.group]);
    }
    all->n_left = n_left;
}

/* Let groups grow until no rank is empty. The result is false if one stays empty. */
static bool grow(const struct scheduling *all, struct micro_batch *micro_batch)
{
    while (micro_batch->n_used < all->n_ranks) {
        struct group *group = &micro_batch->groups[0];
        int32_t next = 0;
        for (int32_t i = 1; i < micro_batch->n_groups; i++)
            if (micro_batch->groups[i].n_ranks < group->n_ranks)
                group = &micro_batch->groups[i];
        while (all->sizes.at[next] <= group->n_ranks)
            next++;
        int32_t more = all->sizes.at[next] - group->n_ranks;
        if (micro_batch->n_used + more > all->n_ranks)
            return false;
        group->n_ranks += more;
        micro_batch->n_used += more;
    }
    return true;
}

static struct micro_batch *open_micro_batch(struct scheduling *all)
{
    all->micro_batches =
        check_realloc(all->micro_batches, ((size_t)all->n_micro_batches + 1) * sizeof *all->micro_batches);
    all->micro_batches[all->n_micro_batches] = (struct micro_batch){0};
    return &all->micro_batches[all->n_micro_batches++];
}

/* Form the next micro-batch from the samples that are left. */
static void form(struct scheduling *all)
{
    struct micro_batch *micro_batch = open_micro_batch(all);
    int32_t n = all->n_left, *sample = check_malloc((size_t)n * sizeof *sample);
    memcpy(sample, all->left, (size_t)n * sizeof *sample);
    fill(all, micro_batch);
    if (!grow(all, micro_batch)) {
        free_groups(micro_batch);
        open_group(micro_batch, all->n_ranks);
        struct group *group = &micro_batch->groups[0];
        all->n_left = 0;
        for (int32_t i = 0; i < n; i++)
            if (i == 0 || group->tokens + tokens_of(all, sample[i]) <= (int64_t)all->max_tokens * all->n_ranks)
                take_sample(all, sample[i], group);
            else
                all->left[all->n_left++] = sample[i];
    }
    free(sample);
}

/* Give the groups from..to of a micro-batch all ranks. They move into the result. */
static struct micro_batch part_of(const struct scheduling *all, const struct micro_batch *whole, int32_t from,
                                  int32_t to)
{
    struct micro_batch part = {0}, widest = {0};
    for (int32_t i = from; i < to; i++) {
        open_group(&part, whole->groups[i].n_ranks);
        part.groups[i - from] = whole->groups[i];
    }
    if (grow(all, &part))
        return part;
    open_group(&widest, all->n_ranks);
    for (int32_t i = 0; i < part.n_groups; i++)
        for (int32_t k = 0; k < part.groups[i].n; k++)
            take_sample(all, part.groups[i].sample[k], &widest.groups[0]);
    free_groups(&part);
    return widest;
}

/* Split a micro-batch in two. The result is false if it has one group. */
static bool split(struct scheduling *all, int32_t which)
{
    struct micro_batch *added = all->micro_batches[which].n_groups > 1 ? open_micro_batch(all) : NULL;
    if (added == NULL)
        return false;
    struct micro_batch whole = all->micro_batches[which];
    int32_t before = 1;
    for (int32_t ranks = whole.groups[0].n_ranks; ranks < all->n_ranks / 2 && before < whole.n_groups - 1; before++)
        ranks += whole.groups[before].n_ranks;
    all->micro_batches[which] = part_of(all, &whole, before, whole.n_groups);
    *added = part_of(all, &whole, 0, before);
    free(whole.groups);
    return true;
}

/* Split micro-batches until their number is a multiple. The result is false if none has several groups. */
static bool align(struct scheduling *all, int32_t multiple)
{
    int32_t at = all->n_micro_batches - 1, n_whole = 0; /* n_whole: tries since the last split */
    while (all->n_micro_batches % multiple != 0 && n_whole < all->n_micro_batches) {
        n_whole = split(all, at) ? 0 : n_whole + 1;
        at = at > 0 ? at - 1 : all->n_micro_batches - 1;
    }
    return all->n_micro_batches % multiple == 0;
}

/* Make the plan of all micro-batches. */
static bool make_plan(const struct scheduling *all, struct plan *plan)
{
    struct error unused = {0};
    packing_open_plan(all->request, plan);
    for (int32_t i = 0; i < all->n_micro_batches; i++)
        for (int32_t k = 0, rank = 0; k < all->micro_batches[i].n_groups; k++) {
            const struct group *group = &all->micro_batches[i].groups[k];
            packing_add_shared(all->request, group->sample, group->n, rank, group->n_ranks, plan->phases);
            rank += group->n_ranks;
        }
    return packing_schedule(all->request, plan, &unused);
}

static void close_scheduling(struct scheduling *all)
{
    for (int32_t i = 0; i < all->n_micro_batches; i++)
        free_groups(&all->micro_batches[i]);
    free(all->micro_batches);
    free(all->left);
}

/* Make the plan with L tokens a rank. The only variant is 0, and there is none if it cannot be interleaved. */
static bool schedule(const struct plan_request *request, int32_t max_tokens, int32_t variant, struct plan *plan)
{
    const struct default_dynamic_cp_knobs *knobs = request->knobs;
    const struct scenario_plan *layout = &request->layout;
    if (variant > 0)
        return false;
    struct scheduling all = {.request = request,
                             .max_tokens = max_tokens,
                             .n_ranks = (int32_t)layout->dp,
                             .sizes = sizes_of((int32_t)layout->dp, knobs->min_cp),
                             .n_left = request->batch->n_samples,
                             .left = samples_by_length(request->batch)};
    while (all.n_left > 0)
        form(&all);
    bool ok = align(&all, layout->vpp > 1 ? (int32_t)layout->pp : 1) && make_plan(&all, plan);
    close_scheduling(&all);
    return ok;
}

static bool check_request(const struct plan_request *request, struct error *err)
{
    const struct default_dynamic_cp_knobs *knobs = request->knobs;
    int32_t n_ranks = (int32_t)request->layout.dp;
    struct sizes sizes = sizes_of(n_ranks, knobs->min_cp);
    if (!request_check_windows(request, "megatron-default-dynamic-cp", err))
        return false;
    if (request->layout.schedule == SCENARIO_SEQ1F1B || request->layout.schedule == SCENARIO_TERAPIPE)
        return error_set(err, "megatron-default-dynamic-cp: plan.schedule: ranks that share a micro-batch would cut it "
                              "differently; allowed: 1f1b, interleaved, gpipe, zero-bubble");
    if (sizes.n == 0 || sizes.at[0] != knobs->min_cp)
        return error_set(err,
                         "megatron-default-dynamic-cp: knobs.min_cp: %lld is no size of a group; allowed: %d, which is "
                         "the number of DP ranks, and powers of two that divide it",
                         (long long)knobs->min_cp, n_ranks);
    return true;
}

static bool default_dynamic_cp_plan(const struct plan_request *request, void *state, struct plan *plan,
                                    struct error *err)
{
    (void)state;
    const struct default_dynamic_cp_knobs *knobs = request->knobs;
    if (!check_request(request, err) || !token_cap_search_given(request, knobs->max_tokens, schedule, plan, err))
        return false;
    return plan->n_candidates > 0 ||
           error_set(
               err,
               "megatron-default-dynamic-cp: plan.vpp: interleaved stages need micro-batches in multiples of %lld "
               "(pp), and none has several groups to split; allowed: vpp 1 or a larger batch",
               (long long)request->layout.pp);
}

static const struct schema_key knobs[] = {
    {"max_tokens", SCHEMA_INT, "tokens", 0, 1073741824, "0", NULL,
     "tokens of a rank in a micro-batch (Megatron's max_seqlen_per_dp_cp_rank), at most the context; 0: the fastest of "
     "the tokens that memory holds if all micro-batches in flight are as long, and its halves",
     offsetof(struct default_dynamic_cp_knobs, max_tokens)},
    {"min_cp", SCHEMA_INT, "ranks", 1, 1048576, "1", NULL,
     "smallest size of a group: a power of two that divides the DP ranks, or all of them",
     offsetof(struct default_dynamic_cp_knobs, min_cp)},
};

const struct training_system system_megatron_default_dynamic_cp = {
    .name = "megatron-default-dynamic-cp",
    .source = "Megatron-Core, default_dynamic_cp sequence packing (2026)",
    .meaning = "packs on groups of DP ranks, chosen by the fullest rank's squared lengths, all ranks with as many "
               "micro-batches, 1F1B (interleaved with plan.vpp)",
    .knobs = knobs,
    .n_knobs = sizeof knobs / sizeof *knobs,
    .knobs_size = sizeof(struct default_dynamic_cp_knobs),
    .degrees = SYSTEM_TP | SYSTEM_PP | SYSTEM_EP,
    .plan = default_dynamic_cp_plan,
    .lower_bound_s = batch_bound_shared_s,
};
