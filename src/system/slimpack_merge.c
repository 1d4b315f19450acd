/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file divides samples among DP ranks, and merges ranks for outliers: steps 1 to 4 of slimpack.h. */
#include "system/slimpack.h"

#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "bounds/stage_memory.h"
#include "packing/samples.h"

enum { THRESHOLD_PARTS = 1000, EVEN_PERCENT = 110, FEW_SAMPLES = 64, LEVELS_OF_HALF = 2 };

/*
 * Aligned blocks of `width` ranks as a binary heap with the least loaded on top (ties: the lowest). Widths only shrink,
 * each to a divisor of the one before. So the ranks of a block have equal loads, and load[first rank] is that of all.
 */
struct blocks {
    struct slimpack_split *split;
    int32_t width, n;
    int32_t *first_rank; /* [n] first rank of each block */
};

static bool goes_first(const struct blocks *blocks, int32_t a, int32_t b)
{
    const fill_flop *load = blocks->split->load;
    int32_t i = blocks->first_rank[a], j = blocks->first_rank[b];
    return load[i] != load[j] ? load[i] < load[j] : i < j;
}

static void sift_down(struct blocks *blocks, int32_t at)
{
    for (int32_t child; (child = 2 * at + 1) < blocks->n;) {
        if (child + 1 < blocks->n && goes_first(blocks, child + 1, child))
            child++;
        if (goes_first(blocks, at, child))
            return;
        int32_t first = blocks->first_rank[at];
        blocks->first_rank[at] = blocks->first_rank[child];
        blocks->first_rank[child] = first;
        at = child;
    }
}

/* Give every rank its block's load, then make blocks of `width`. */
static void narrow(struct blocks *blocks, int32_t width)
{
    struct slimpack_split *split = blocks->split;
    for (int32_t rank = 0; rank < split->n_ranks; rank++)
        split->load[rank] = split->load[rank - rank % blocks->width];
    blocks->width = width;
    blocks->n = split->n_ranks / width;
    for (int32_t i = 0; i < blocks->n; i++)
        blocks->first_rank[i] = i * width;
    for (int32_t i = blocks->n / 2 - 1; i >= 0; i--)
        sift_down(blocks, i);
}

/* Add f to the least loaded of the blocks of `width` ranks. @return its first rank */
static int32_t add_to_least_loaded(struct blocks *blocks, int64_t flop, int32_t width)
{
    if (width != blocks->width)
        narrow(blocks, width);
    int32_t first = blocks->first_rank[0];
    blocks->split->load[first] += (fill_flop)flop * blocks->n;
    sift_down(blocks, 0);
    return first;
}

/* Return whether a block of `width` ranks can share a sample. Ulysses divides whole heads; those of keys and values may
 * be copied. */
static bool can_share(const struct cost_setting *setting, int32_t width)
{
    int64_t parts = (int64_t)setting->tensor * width;
    return setting->cp_type != SCENARIO_ULYSSES || model_shares_heads(setting->model, parts, setting->kv_copies);
}

/* A sample is an outlier if it has more FLOPs than C / parts, or more tokens than capacity. */
struct rule {
    int32_t parts;   /* 0: no sample is an outlier */
    double capacity; /* [tokens] */
};

/*
 * Return the least divisor g of `of` with f/g <= C / parts and tokens/g <= capacity, otherwise the largest. Only
 * divisors that can share count.
 */
static int32_t least_width(const struct slimpack_split *split, const struct cost_setting *setting,
                           const struct rule *rule, int64_t flop, double tokens, int32_t of)
{
    int32_t best = 1;
    for (int32_t width = 1; width <= of; width++) {
        if (of % width != 0 || !can_share(setting, width))
            continue;
        best = width;
        if ((fill_flop)flop * split->n_ranks * rule->parts <= width * split->total && tokens <= rule->capacity * width)
            break;
    }
    return best;
}

struct plan_request slimpack_request(const struct plan_request *request)
{
    struct plan_request own = *request;
    if (request->layout.offload_mode == SCENARIO_OFFLOAD_AUTO)
        own.layout.offload = 0;
    return own;
}

/* List the outliers of each rank. */
static void list_shared(struct slimpack_split *split)
{
    int32_t *first = split->shared_first = check_calloc((size_t)split->n_ranks + 2, sizeof *first);
    for (int32_t i = 0; i < split->n_outliers; i++)
        for (int32_t k = 0; k < split->outliers[i].width; k++)
            first[split->outliers[i].first_rank + k + 2]++;
    for (int32_t rank = 0; rank < split->n_ranks; rank++)
        first[rank + 2] += first[rank + 1];
    split->shared = check_malloc((size_t)first[split->n_ranks + 1] * sizeof *split->shared);
    for (int32_t i = 0; i < split->n_outliers; i++) /* first[rank + 1] moves on to its end */
        for (int32_t k = 0; k < split->outliers[i].width; k++)
            split->shared[first[split->outliers[i].first_rank + k + 1]++] = i;
}

static void split_by(const struct plan_request *request, const struct rule *rule, struct slimpack_split *split)
{
    const struct slimpack_knobs *knobs = request->knobs;
    const struct batch *batch = request->batch;
    const struct model *model = request->setting->model;
    const struct flop_curve curve = flop_model_curve(model, PASS_FORWARD);
    int64_t threshold = llround(knobs->merge_threshold * THRESHOLD_PARTS);
    int32_t n = batch->n_samples, n_ranks = (int32_t)request->layout.dp;
    *split = (struct slimpack_split){.curve = {curve, flop_model_curve(model, PASS_BACKWARD)}, .n_ranks = n_ranks};
    split->load = check_calloc((size_t)n_ranks, sizeof *split->load);
    split->outliers = check_malloc((size_t)n * sizeof *split->outliers);
    split->local_first = check_malloc(((size_t)n_ranks + 1) * sizeof *split->local_first);
    split->local = check_malloc((size_t)n * sizeof *split->local);
    for (int32_t i = 0; i < n; i++)
        split->total += flop_of_prefix(curve, batch->tokens[i]);

    int32_t *order = samples_by_length(batch);
    int32_t *rank = check_malloc((size_t)n * sizeof *rank); /* of the samples in order, -1: a block runs the sample */
    int32_t width = n_ranks;
    struct blocks blocks = {split, n_ranks, 1, check_calloc((size_t)n_ranks, sizeof(int32_t))};
    for (int32_t i = 0; i < n; i++) {
        int64_t flop = flop_of_prefix(curve, batch->tokens[order[i]]);
        double tokens = batch->tokens[order[i]];
        bool heavy = (fill_flop)flop * n_ranks * rule->parts * THRESHOLD_PARTS > threshold * split->total;
        bool outlier = rule->parts > 0 && (heavy || tokens > rule->capacity);
        width = outlier ? least_width(split, request->setting, rule, flop, tokens, width) : 1;
        rank[i] = add_to_least_loaded(&blocks, flop, width);
        if (width > 1) {
            split->outliers[split->n_outliers++] = (struct slimpack_outlier){order[i], rank[i], width};
            rank[i] = -1;
        }
    }
    narrow(&blocks, 1);
    list_shared(split);
    samples_by_bin(n, order, rank, n_ranks, split->local_first, split->local);
    free(order);
    free(rank);
    free(blocks.first_rank);
}

static fill_flop fullest_of(const struct slimpack_split *split)
{
    fill_flop fullest = 0;
    for (int32_t rank = 0; rank < split->n_ranks; rank++)
        fullest = split->load[rank] > fullest ? split->load[rank] : fullest;
    return fullest;
}

/* Return the tokens of the longest sample over 2^((level - 1) / LEVELS_OF_HALF). */
static double capacity_of(const struct batch *batch, int32_t level)
{
    int32_t longest = 0;
    for (int32_t i = 0; i < batch->n_samples; i++)
        longest = batch->tokens[i] > longest ? batch->tokens[i] : longest;
    return (double)longest * exp2((1.0 - level) / LEVELS_OF_HALF);
}

/* Return the capacity of the first level that is no larger, so that more memory means no less. */
static double rounded_down(const struct batch *batch, double capacity)
{
    int32_t level = 1;
    while (capacity_of(batch, level) > capacity)
        level++;
    return capacity_of(batch, level);
}

/* Return the most levels that are tried: up to half a rank's share of the longest sample. */
static int32_t n_levels(const struct plan_request *request)
{
    if (request->batch->n_samples > FEW_SAMPLES * request->layout.dp)
        return 0;
    return 1 + (int32_t)ceil(LEVELS_OF_HALF * (log2((double)request->layout.dp) + 1));
}

bool slimpack_is_even(const struct slimpack_split *split)
{
    return 100 * fullest_of(split) <= EVEN_PERCENT * split->total;
}

/* Make a split even: rule.parts = 2, 4, ..., DP until no rank has more than 1.1 C. */
static void even_out(const struct plan_request *request, struct slimpack_split *split)
{
    for (struct rule rule = {2, INFINITY}; rule.parts <= request->layout.dp; rule.parts *= 2) {
        struct slimpack_split other, worse;
        if (slimpack_is_even(split))
            break;
        split_by(request, &rule, &other);
        worse = other;
        if (fullest_of(&other) < fullest_of(split)) {
            worse = *split;
            *split = other;
        }
        slimpack_split_free(&worse);
    }
}

void slimpack_split(const struct plan_request *request, enum slimpack_merge merge, int32_t level,
                    struct slimpack_split *split)
{
    struct rule rule = {merge != SLIMPACK_MERGE_NONE, INFINITY};
    if (merge == SLIMPACK_MERGE_LEVEL)
        rule.capacity = capacity_of(request->batch, level);
    if (merge == SLIMPACK_MERGE || merge == SLIMPACK_MERGE_ADAPTED)
        rule.capacity =
            rounded_down(request->batch, (double)slimpack_rank_tokens(request, merge == SLIMPACK_MERGE_ADAPTED));
    split_by(request, &rule, split);
    if (merge == SLIMPACK_MERGE_EVEN)
        even_out(request, split);
}

bool slimpack_nth_split(const struct plan_request *request, int32_t n, struct slimpack_split *split)
{
    static const enum slimpack_merge rules[SLIMPACK_LEVELS] = {SLIMPACK_MERGE, SLIMPACK_MERGE_EVEN, SLIMPACK_MERGE_NONE,
                                                               SLIMPACK_MERGE_ADAPTED};
    const struct slimpack_knobs *knobs = request->knobs;
    bool merges = knobs->dp_merge && request->layout.dp > 1;
    int32_t level = n < SLIMPACK_LEVELS ? 0 : n - SLIMPACK_LEVELS + 1;
    if (merges ? level > n_levels(request) : n > 0)
        return false;
    slimpack_split(request, !merges ? SLIMPACK_MERGE_NONE : level == 0 ? rules[n] : SLIMPACK_MERGE_LEVEL, level, split);
    return true;
}

int32_t slimpack_linked_ranks(const struct slimpack_split *split, int32_t first_rank)
{
    for (int32_t i = 0; i < split->n_outliers; i++) /* widest first */
        if (split->outliers[i].first_rank == first_rank)
            return split->outliers[i].width;
    return 1;
}

/*
 * Return the tokens that a stage has memory for. A rank holds most when the backward of the sample begins. If it slices
 * the sample (`sliced`), it holds its activations, keys, values and their gradients. Otherwise it holds its activations
 * and works on all of it.
 */
static double tokens_on_stage(const struct plan_request *request, bool adapted, int32_t stage, bool sliced)
{
    const struct slimpack_knobs *knobs = request->knobs;
    const struct platform *platform = request->setting->platform;
    struct plan_layout layout = request_pipeline_layout(request, 0);
    bool recomputes = adapted && knobs->recompute == SLIMPACK_BY_UNIT;
    struct stage_memory_micro_batch micro_batch = {.recompute = recomputes ? RECOMPUTE_FULL
                                                                           : (enum recompute)request->layout.recompute};
    const struct stage_memory memory =
        stage_memory_of(request->setting, &layout, stage, scenario_plan_shards(&request->layout), &micro_batch);
    bool offloads = adapted && request->layout.offload_mode == SCENARIO_OFFLOAD_AUTO;
    double offload = request_offload_share(request, offloads ? 1 : request->layout.offload);
    int64_t n_gpus = request->layout.tp * request->layout.dp * request->layout.pp;
    double host_bytes = platform->host_memory_bytes / platform_gpus_in_use(platform, 0, (int32_t)n_gpus);
    double room = request->memory_bytes - stage_memory_standing_bytes(&memory);
    double token = memory.token.held + memory.token.embedding, away;
    if (sliced) {
        token += memory.token.head + memory.token.kv + memory.token.kv_gradient;
        away = offload * (memory.token.held - memory.token.kept);
        return fmin(room / (token - away), (room + host_bytes) / token);
    }
    away = request_streams(request) ? offload * memory.token.held : 0;
    return fmin(stage_memory_tokens(&memory, room, token - away),
                stage_memory_tokens(&memory, room + host_bytes, token));
}

int64_t slimpack_rank_tokens(const struct plan_request *request, bool adapted)
{
    const struct slimpack_knobs *knobs = request->knobs;
    double most = 0;
    /* m is at least the number of stages */
    bool may_cut = knobs->slicing, may_keep_whole = !knobs->slicing || request->layout.pp == 1;
    for (int sliced = 0; sliced < 2; sliced++) {
        double tokens = INFINITY;
        if (!(sliced == 1 ? may_cut : may_keep_whole))
            continue;
        for (int32_t stage = 0; stage < request->layout.pp; stage++)
            tokens = fmin(tokens, tokens_on_stage(request, adapted, stage, sliced == 1));
        most = fmax(most, tokens);
    }
    if (most <= 0 || most >= 1e18)
        return INT64_MAX;
    return most < 1 ? 1 : (int64_t)most;
}

void slimpack_split_free(struct slimpack_split *split)
{
    free(split->outliers);
    free(split->shared_first);
    free(split->shared);
    free(split->local_first);
    free(split->local);
    free(split->load);
    *split = (struct slimpack_split){0};
}
