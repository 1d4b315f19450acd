/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * Megatron-LM with Best-fit Packing: what the paper compares with.
 *
 * Best-fit decreasing over all samples of the global batch into bins of `context` tokens: samples longest first (ties:
 * by index), each into the fullest bin that still holds it (ties: the lowest), else into a new one. A bin is a
 * sequence. Bins are dealt round-robin, in order, to the DP ranks, and `micro_batch` bins of a rank in a row make a
 * unit, of which the last takes what is left. 1F1B, interleaved with `plan.vpp` above 1; CP is static: `plan.cp` ranks
 * share every sample. With `pad` a bin is filled up to the context, and ranks with fewer bins run empty ones, so that
 * all run the same number; without it neither is computed.
 *
 * Source: Ding et al. 2024 (arXiv:2404.10830) for the packing; the dealing, the padding and 1F1B are how Megatron-LM
 * would use it (systems.md, "Packing baselines"), inferred.
 */
#include "system/system.h"

#include <stdlib.h>

#include "base/check.h"
#include "plan/schedule.h"
#include "system/samples.h"

struct best_fit_knobs {
    bool pad;
    int64_t micro_batch;
};

/*
 * Open bins by the room they have left: a leftist heap of bins for each room (the lowest bin on top), and a tree over
 * rooms that tells which have any. Every step is O(log).
 */
struct bins {
    int32_t n_bins;
    int32_t *left, *right, *rank; /* of each bin in its heap; -1: none */
    int32_t *top;                 /* of each room: the lowest bin, -1: none */
    int32_t n_leaves;             /* power of two above the context */
    bool *any;                    /* [2 n_leaves] whether the rooms below a node have bins; leaves from n_leaves on */
};

static void bins_open(struct bins *bins, int32_t n_samples, int32_t context)
{
    *bins = (struct bins){.n_leaves = 1};
    while (bins->n_leaves <= context)
        bins->n_leaves *= 2;
    bins->left = check_malloc((size_t)n_samples * sizeof(int32_t));
    bins->right = check_malloc((size_t)n_samples * sizeof(int32_t));
    bins->rank = check_malloc((size_t)n_samples * sizeof(int32_t));
    bins->top = check_malloc((size_t)bins->n_leaves * sizeof(int32_t));
    bins->any = check_calloc(2 * (size_t)bins->n_leaves, sizeof(bool));
    for (int32_t room = 0; room < bins->n_leaves; room++)
        bins->top[room] = -1;
}

static void bins_close(struct bins *bins)
{
    free(bins->left);
    free(bins->right);
    free(bins->rank);
    free(bins->top);
    free(bins->any);
}

/* One heap of two; the deeper child stands left, so the depth is logarithmic. */
static int32_t heap_merged(struct bins *bins, int32_t a, int32_t b)
{
    if (a < 0 || b < 0)
        return a < 0 ? b : a;
    int32_t low = a < b ? a : b;
    int32_t right = heap_merged(bins, bins->right[low], a < b ? b : a);
    int32_t left = bins->left[low];
    bool swap = left < 0 || bins->rank[left] < bins->rank[right];
    bins->left[low] = swap ? right : left;
    bins->right[low] = swap ? left : right;
    bins->rank[low] = bins->right[low] < 0 ? 1 : bins->rank[bins->right[low]] + 1;
    return low;
}

static void set_top(struct bins *bins, int32_t room, int32_t bin)
{
    bins->top[room] = bin;
    int32_t node = bins->n_leaves + room;
    bins->any[node] = bin >= 0;
    for (node /= 2; node >= 1; node /= 2)
        bins->any[node] = bins->any[2 * node] || bins->any[2 * node + 1];
}

/* The least room of at least `tokens` that some bin has, -1: none. */
static int32_t least_room(const struct bins *bins, int32_t tokens)
{
    int32_t node = bins->n_leaves + tokens;
    while (!bins->any[node]) { /* up to where a right neighbour has bins */
        while (node > 1 && node % 2 == 1)
            node /= 2;
        if (node <= 1)
            return -1;
        node++;
    }
    while (node < bins->n_leaves) /* down to its leftmost */
        node = bins->any[2 * node] ? 2 * node : 2 * node + 1;
    return node - bins->n_leaves;
}

/* The bin that takes a sample, with its room updated. */
static int32_t bins_put(struct bins *bins, int32_t tokens, int32_t context)
{
    int32_t room = least_room(bins, tokens), bin;
    if (room < 0) {
        room = context;
        bin = bins->n_bins++;
    } else {
        bin = bins->top[room];
        set_top(bins, room, heap_merged(bins, bins->left[bin], bins->right[bin]));
    }
    bins->left[bin] = bins->right[bin] = -1;
    bins->rank[bin] = 1;
    set_top(bins, room - tokens, heap_merged(bins, bins->top[room - tokens], bin));
    return bin;
}

/* Samples by bin: those of bin b are sample[first[b]..first[b+1]), longest first. */
struct packing {
    int32_t n_bins;
    int32_t *first, *sample;
};

static void pack(const struct batch *batch, int64_t context, struct packing *packing)
{
    int32_t n = batch->n_samples;
    int32_t *order = samples_by_length(batch);
    int32_t *bin = check_malloc((size_t)n * sizeof *bin); /* of the samples in order */
    struct bins bins;
    bins_open(&bins, n, (int32_t)context);
    for (int32_t i = 0; i < n; i++) {
        CHECK(1 <= batch->tokens[order[i]] && batch->tokens[order[i]] <= context);
        bin[i] = bins_put(&bins, batch->tokens[order[i]], (int32_t)context);
    }
    packing->n_bins = bins.n_bins;
    bins_close(&bins);
    packing->first = check_malloc(((size_t)packing->n_bins + 1) * sizeof(int32_t));
    packing->sample = check_malloc((size_t)n * sizeof(int32_t));
    samples_by_place(n, order, bin, packing->n_bins, packing->first, packing->sample);
    free(order);
    free(bin);
}

static void add_bin(const struct system_request *request, const struct packing *packing, int32_t bin,
                    struct plan_cut *cut)
{
    for (int32_t i = packing->first[bin]; i < packing->first[bin + 1]; i++) {
        int32_t sample = packing->sample[i];
        plan_add_slice(cut, (struct slice){sample, 0, request->batch->tokens[sample]});
    }
}

/* Bins first, first + stride, ...: n of them; those that there are not are padding only. */
static void add_unit(const struct system_request *request, const struct packing *packing, int32_t first, int32_t n,
                     struct plan_pipeline *pipeline)
{
    const struct best_fit_knobs *knobs = request->knobs;
    int32_t stride = (int32_t)request->layout.dp;
    for (int pass = 0; pass < N_PASSES; pass++) {
        struct plan_cut *cut = &pipeline->cut[pass];
        for (int32_t i = 0; i < n && first + i * stride < packing->n_bins; i++)
            add_bin(request, packing, first + i * stride, cut);
        struct plan_unit *unit = plan_add_unit(cut);
        unit->context = pipeline->layout.context;
        unit->sharding = PLAN_PER_DOCUMENT;
        unit->formation = PLAN_PACK;
        unit->recompute = (enum recompute)request->layout.recompute;
        unit->offload = request->layout.offload;
        if (knobs->pad)
            unit->padding_tokens = (int32_t)(n * request->context - plan_unit_tokens(cut, cut->n_units - 1));
    }
}

/* Bins of one rank: as many as the first has, with padding. */
static int32_t bins_of(const struct system_request *request, const struct packing *packing, int32_t rank)
{
    const struct best_fit_knobs *knobs = request->knobs;
    int32_t n_ranks = (int32_t)request->layout.dp;
    return (packing->n_bins + n_ranks - 1 - (knobs->pad ? 0 : rank)) / n_ranks;
}

static void add_units(const struct system_request *request, const struct packing *packing, int32_t rank,
                      struct plan_pipeline *pipeline)
{
    const struct best_fit_knobs *knobs = request->knobs;
    int32_t n_bins = bins_of(request, packing, rank), n_ranks = (int32_t)request->layout.dp;
    int32_t n_each = knobs->micro_batch < n_bins ? (int32_t)knobs->micro_batch : n_bins;
    for (int32_t bin = 0; bin < n_bins; bin += n_each)
        add_unit(request, packing, rank + bin * n_ranks, n_bins - bin < n_each ? n_bins - bin : n_each, pipeline);
}

static bool make_plan(const struct system_request *request, const struct packing *packing, struct plan *plan,
                      struct error *err)
{
    *plan = (struct plan){.n_phases = 1, .n_candidates = 1};
    plan->shards = scenario_plan_shards(&request->layout);
    plan->phases = check_calloc(1, sizeof *plan->phases);
    system_megatron_layout(request, plan->phases);
    bool ok = true;
    for (int32_t rank = 0; ok && rank < plan->phases->n_pipelines; rank++) {
        add_units(request, packing, rank, &plan->phases->pipelines[rank]);
        ok = schedule_pipeline(&plan->phases->pipelines[rank], &request->layout, request->setting, err);
    }
    if (!ok)
        plan_free(plan);
    return ok;
}

static bool best_fit_plan(const struct system_request *request, void *state, struct plan *plan, struct error *err)
{
    (void)state;
    const struct best_fit_knobs *knobs = request->knobs;
    struct packing packing;
    if (knobs->micro_batch * request->context > INT32_MAX)
        return error_set(err, "best-fit: micro_batch x data.context is %lld tokens; at most 2147483647 are allowed",
                         (long long)(knobs->micro_batch * request->context));
    pack(request->batch, request->context, &packing);
    bool ok = make_plan(request, &packing, plan, err);
    free(packing.first);
    free(packing.sample);
    return ok;
}

static const struct schema_key knobs[] = {
    {"pad", SCHEMA_BOOL, "-", 0, 0, "true", NULL,
     "fill bins up to the context, and ranks with fewer bins with empty ones", offsetof(struct best_fit_knobs, pad)},
    {"micro_batch", SCHEMA_INT, "-", 1, 1000000, "1", NULL, "bins that one unit takes",
     offsetof(struct best_fit_knobs, micro_batch)},
};

const struct training_system system_best_fit = {
    .name = "best-fit",
    .source = "Ding et al. 2024 (arXiv:2404.10830); Megatron-LM",
    .meaning = "best-fit-decreasing packing of the global batch, 1F1B (interleaved with plan.vpp), static context "
               "parallelism",
    .knobs = knobs,
    .n_knobs = sizeof knobs / sizeof *knobs,
    .knobs_size = sizeof(struct best_fit_knobs),
    .uses_context = true,
    .uses_chunks = true,
    .uses_schedules = true,
    .keeps_samples = true,
    .offloads = true,
    .never_regrets = true,
    .plan = best_fit_plan,
};
