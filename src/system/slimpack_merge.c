/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "system/slimpack.h"

#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "packing/samples.h"

enum { THRESHOLD_PARTS = 1000, EVEN_PERCENT = 110 };

/* Aligned blocks of `width` ranks as a binary heap: the least loaded on top (ties: the lowest). Widths only shrink,
 * each to a divisor of the one before, so the ranks of a block are loaded alike: load[first rank] is that of all. */
struct blocks {
    struct slimpack_split *split;
    int32_t width, n;
    int32_t *first_rank; /* [n] of each block */
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

/* Every rank has its block's load; then blocks of `width`. */
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

/* Give f to the least loaded of the blocks of `width` ranks. @return its first rank */
static int32_t place(struct blocks *blocks, int64_t flop, int32_t width)
{
    if (width != blocks->width)
        narrow(blocks, width);
    int32_t first = blocks->first_rank[0];
    blocks->split->load[first] += (fill_flop)flop * blocks->n;
    sift_down(blocks, 0);
    return first;
}

/* Whether a block of so many ranks can share a sample: Ulysses deals whole heads, and whole keys' and values' heads. */
static bool can_share(const struct cost_setting *setting, int32_t width)
{
    int64_t parts = (int64_t)setting->tensor * width;
    return setting->context_type != SCENARIO_ULYSSES ||
           (setting->model->heads % parts == 0 && setting->model->kv_heads % parts == 0);
}

/* What asks for a sample to be shared. */
struct rule {
    bool apart;      /* nothing does */
    int32_t parts;   /* more FLOPs than C / parts */
    double capacity; /* more tokens */
};

/* The least divisor g of `of` with f/g <= C/parts, tokens/g <= capacity, else the largest; of those that can share. */
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

static bool is_outlier(const struct plan_request *request, const struct slimpack_split *split, const struct rule *rule,
                       int64_t flop, double tokens)
{
    const struct slimpack_knobs *knobs = request->knobs;
    int64_t threshold = llround(knobs->merge_threshold * THRESHOLD_PARTS);
    bool heavy = (fill_flop)flop * split->n_ranks * rule->parts * THRESHOLD_PARTS > threshold * split->total;
    return !rule->apart && (heavy || tokens > rule->capacity);
}

bool slimpack_nth_merge(const struct slimpack_knobs *knobs, int32_t n, enum slimpack_merge *merge)
{
    bool offload = knobs->offload == SLIMPACK_BY_UNIT, recompute = knobs->recompute == SLIMPACK_BY_UNIT;
    bool memory = knobs->dp_merge && knobs->merge_memory > 0;
    const bool has[SLIMPACK_N_MERGES] = {
        [SLIMPACK_MERGE] = knobs->dp_merge,
        [SLIMPACK_MERGE_FLOP] = memory,
        [SLIMPACK_APART] = true,
        [SLIMPACK_MERGE_EVEN] = knobs->dp_merge && knobs->merge_even,
        [SLIMPACK_MERGE_OWN_OFFLOAD] = memory && offload,
        [SLIMPACK_MERGE_OWN_RECOMPUTE] = memory && recompute,
        [SLIMPACK_MERGE_OWN] = memory && offload && recompute,
    };
    int32_t way = 0;
    for (; way < SLIMPACK_N_MERGES && (!has[way] || n > 0); way++)
        n -= has[way];
    *merge = (enum slimpack_merge)way;
    return way < SLIMPACK_N_MERGES;
}

/* Tokens of a sample that need not be shared for their memory. */
static double capacity_of(const struct plan_request *request, enum slimpack_merge merge)
{
    const struct slimpack_knobs *knobs = request->knobs;
    bool unlimited = merge == SLIMPACK_MERGE_FLOP || merge == SLIMPACK_APART || merge == SLIMPACK_MERGE_EVEN;
    if (unlimited || knobs->merge_memory <= 0)
        return INFINITY;
    return knobs->merge_memory * (double)slimpack_rank_tokens(request, merge);
}

static void split_by(const struct plan_request *request, const struct rule *rule, struct slimpack_split *split)
{
    const struct batch *batch = request->batch;
    struct flop_curve curve = flop_layer_curve(request->setting->model, PASS_FORWARD);
    int32_t n = batch->n_samples, n_ranks = (int32_t)request->layout.dp;
    *split = (struct slimpack_split){.n_ranks = n_ranks};
    split->load = check_calloc((size_t)n_ranks, sizeof *split->load);
    split->outliers = check_malloc((size_t)n * sizeof *split->outliers);
    split->local_first = check_malloc(((size_t)n_ranks + 1) * sizeof *split->local_first);
    split->local = check_malloc((size_t)n * sizeof *split->local);
    for (int32_t i = 0; i < n; i++)
        split->total += flop_of_prefix(curve, batch->tokens[i]);

    int32_t *order = samples_by_length(batch);
    int32_t *rank = check_malloc((size_t)n * sizeof *rank); /* of the samples in order, -1: a block's */
    int32_t width = n_ranks;
    struct blocks blocks = {split, n_ranks, 1, check_calloc((size_t)n_ranks, sizeof(int32_t))};
    for (int32_t i = 0; i < n; i++) {
        int64_t flop = flop_of_prefix(curve, batch->tokens[order[i]]);
        double tokens = batch->tokens[order[i]];
        bool outlier = is_outlier(request, split, rule, flop, tokens);
        width = outlier ? least_width(split, request->setting, rule, flop, tokens, width) : 1;
        rank[i] = place(&blocks, flop, width);
        if (width > 1) {
            split->outliers[split->n_outliers++] = (struct slimpack_outlier){order[i], rank[i], width};
            rank[i] = -1;
        }
    }
    narrow(&blocks, 1);
    samples_by_place(n, order, rank, n_ranks, split->local_first, split->local);
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

/* By the least of 1, 2, 4 .. parts, up to the ranks, by which no rank has more than EVEN_PERCENT of C, else by that by
 * which the fullest has least. */
static void split_evenly(const struct plan_request *request, struct rule rule, struct slimpack_split *split)
{
    split_by(request, &rule, split);
    while (100 * fullest_of(split) > EVEN_PERCENT * split->total && (rule.parts *= 2) <= request->layout.dp) {
        struct slimpack_split other;
        split_by(request, &rule, &other);
        if (fullest_of(&other) < fullest_of(split)) {
            slimpack_split_free(split);
            *split = other;
        } else {
            slimpack_split_free(&other);
        }
    }
}

void slimpack_split(const struct plan_request *request, enum slimpack_merge merge, struct slimpack_split *split)
{
    struct rule rule = {merge == SLIMPACK_APART, 1, capacity_of(request, merge)};
    if (merge == SLIMPACK_MERGE_EVEN)
        split_evenly(request, rule, split);
    else
        split_by(request, &rule, split);
}

void slimpack_split_free(struct slimpack_split *split)
{
    free(split->outliers);
    free(split->local_first);
    free(split->local);
    free(split->load);
    *split = (struct slimpack_split){0};
}
