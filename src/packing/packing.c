/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "packing/packing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/rng.h"
#include "bounds/stage_memory.h"
#include "lengths/batch_memo.h"
#include "lengths/bins.h"
#include "packing/samples.h"
#include "plan/schedule.h"

void packing_of(const int32_t *order, const int32_t *pack, int32_t n, int32_t n_packs, struct packing *packing)
{
    packing->n_packs = n_packs;
    packing->first = check_malloc(((size_t)n_packs + 1) * sizeof(int32_t));
    packing->sample = check_malloc((size_t)n * sizeof(int32_t));
    samples_by_bin(n, order, pack, n_packs, packing->first, packing->sample);
}

void packing_best_fit(const int32_t *tokens, int32_t n, const int32_t *order, int32_t capacity, struct packing *packing)
{
    int32_t *pack = check_malloc((size_t)n * sizeof *pack);
    packing_of(order, pack, n, bins_pack(tokens, order, n, capacity, pack), packing);
    free(pack);
}

void packing_best_fit_batch(const struct batch *batch, int32_t capacity, struct packing *packing)
{
    const struct {
        char name[12];
        int32_t capacity;
    } key = {"best-fit", capacity};
    int32_t *order = samples_by_length(batch), n_packs;
    const int32_t *known = batch_memo_find(batch->memo, &key, sizeof key);
    if (known == NULL) {
        size_t n_bytes = (size_t)batch->n_samples * sizeof(int32_t);
        int32_t *pack = check_malloc(n_bytes);
        n_packs = bins_pack(batch->tokens, order, batch->n_samples, capacity, pack);
        packing_of(order, pack, batch->n_samples, n_packs, packing);
        batch_memo_keep(batch->memo, &key, sizeof key, pack, n_bytes);
        free(pack);
    } else {
        n_packs = 0;
        for (int32_t i = 0; i < batch->n_samples; i++)
            n_packs = known[i] >= n_packs ? known[i] + 1 : n_packs;
        packing_of(order, known, batch->n_samples, n_packs, packing);
    }
    free(order);
}

/* Return the pack with the least weight that has room; -1: none. */
static int32_t least_loaded(const double *load, const int64_t *room, int32_t n_packs, int32_t tokens)
{
    int32_t best = -1;
    for (int32_t pack = 0; pack < n_packs; pack++)
        if (room[pack] >= tokens && (best < 0 || load[pack] < load[best]))
            best = pack;
    return best;
}

/** n samples in the order in which they are assigned. */
struct items {
    int32_t n;
    const int32_t *order;
    const int32_t *tokens; /* by sample */
    const double *weight;  /* by sample */
};

/** Pack the samples. The result is false, without a packing, if a sample finds no room. */
static bool pack_least_loaded(const struct items *items, int32_t n_packs, int64_t capacity, struct packing *packing)
{
    double *load = check_calloc((size_t)n_packs, sizeof *load);
    int64_t *room = check_malloc((size_t)n_packs * sizeof *room);
    int32_t n = items->n, *pack = check_malloc((size_t)n * sizeof *pack), fitted = 0;
    for (int32_t i = 0; i < n_packs; i++)
        room[i] = capacity;
    for (; fitted < n; fitted++) {
        int32_t sample = items->order[fitted], tokens = items->tokens[sample];
        int64_t takes = tokens < capacity ? tokens : capacity; /* a longer sample takes the whole of an empty pack */
        int32_t best = least_loaded(load, room, n_packs, takes);
        if (best < 0)
            break;
        pack[fitted] = best;
        load[best] += items->weight[sample];
        room[best] -= takes;
    }
    if (fitted == n)
        packing_of(items->order, pack, n, n_packs, packing);
    free(load);
    free(room);
    free(pack);
    return fitted == n;
}

int32_t packing_multiple(const struct scenario_plan *layout)
{
    return (int32_t)(layout->dp * (layout->vpp > 1 ? layout->pp : 1));
}

static int64_t quotient_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

void packing_balance(const struct plan_request *request, const double *weight, int64_t capacity,
                     struct packing *packing)
{
    const struct batch *batch = request->batch;
    int32_t *order = samples_by_length(batch), multiple = packing_multiple(&request->layout);
    const struct items items = {batch->n_samples, order, batch->tokens, weight};
    capacity = capacity > 0 ? capacity : request->context;
    int64_t per_pack = capacity < request->context ? capacity : request->context;
    int64_t filled = quotient_up(batch->n_tokens, per_pack); /* packs that all tokens fill */
    int64_t n_packs = multiple * quotient_up(filled < batch->n_samples ? filled : batch->n_samples, multiple);
    while (!pack_least_loaded(&items, (int32_t)n_packs, capacity, packing))
        n_packs += multiple;
    free(order);
}

void packing_random(const struct plan_request *request, int64_t most, struct packing *packing)
{
    int32_t n = request->batch->n_samples, *order = check_malloc((size_t)n * sizeof *order);
    int32_t *pack = check_malloc((size_t)n * sizeof *pack);
    int64_t multiple = packing_multiple(&request->layout), n_packs = multiple * quotient_up(n, most * multiple);
    struct rng *rng = rng_create(request->seed, request->iteration, RNG_DOCUMENT_ORDER);
    for (int32_t i = 0; i < n; i++) { /* Fisher and Yates's shuffle, from the inside out */
        int64_t at = rng_index(rng, i + 1);
        order[i] = order[at];
        order[at] = i;
    }
    for (int32_t i = 0; i < n; i++)
        pack[i] = n < n_packs ? i : (int32_t)(i * n_packs / n);
    packing_of(order, pack, n, (int32_t)n_packs, packing);
    rng_free(rng);
    free(order);
    free(pack);
}

/* A partition of some weights into k sets, by descending sum. */
struct partition {
    double *sum;  /* [k] */
    int32_t *set; /* [k] names of sets; a weight's name leads to its set */
    bool joined;  /* joined with another partition, which has all its sets now */
};

static double spread(const struct partition *partition, int32_t k)
{
    return partition->sum[0] - partition->sum[k - 1];
}

/* Return the open partition with the largest spread except `other`; -1: none. */
static int32_t widest(const struct partition *partitions, int32_t n, int32_t k, int32_t other)
{
    int32_t best = -1;
    for (int32_t i = 0; i < n; i++)
        if (!partitions[i].joined && i != other &&
            (best < 0 || spread(&partitions[i], k) > spread(&partitions[best], k)))
            best = i;
    return best;
}

/* Add the sets of `from` to those of `to`, largest to smallest. name: of the set that absorbed a set. */
static void join(struct partition *to, struct partition *from, int32_t k, int32_t *name)
{
    for (int32_t i = 0; i < k; i++) {
        to->sum[i] += from->sum[k - 1 - i];
        name[from->set[k - 1 - i]] = to->set[i];
    }
    for (int32_t i = 1; i < k; i++) /* insertion sort: stable, few sets */
        for (int32_t j = i; j > 0 && to->sum[j] > to->sum[j - 1]; j--) {
            double sum = to->sum[j];
            int32_t set = to->set[j];
            to->sum[j] = to->sum[j - 1];
            to->set[j] = to->set[j - 1];
            to->sum[j - 1] = sum;
            to->set[j - 1] = set;
        }
    from->joined = true;
}

/* Return how many weights come before one in descending order, ties by index. */
static int32_t rank_of(const double *weight, int32_t n, int32_t which)
{
    int32_t rank = 0;
    for (int32_t i = 0; i < n; i++)
        rank += weight[i] > weight[which] || (weight[i] == weight[which] && i < which);
    return rank;
}

void packing_differencing(const double *weight, int32_t n, int32_t k, bool equal, int32_t *set)
{
    int32_t n_partitions = equal ? (n + k - 1) / k : n, n_sets = n_partitions * k, last = 0;
    struct partition *partitions = check_calloc((size_t)n_partitions, sizeof *partitions);
    double *sum = check_calloc((size_t)n_sets, sizeof *sum);
    int32_t *names = check_malloc((size_t)n_sets * sizeof *names), *first = check_malloc((size_t)n * sizeof *first);
    /* Each set's name leads to the set that absorbed it, at first to itself. */
    int32_t *name = check_malloc((size_t)n_sets * sizeof *name);
    for (int32_t i = 0; i < n_sets; i++)
        names[i] = name[i] = i;
    for (int32_t i = 0; i < n; i++)
        first[i] = equal ? rank_of(weight, n, i) : i * k;
    for (int32_t i = 0; i < n; i++)
        sum[first[i]] = weight[i];
    for (int32_t i = 0; i < n_partitions; i++)
        partitions[i] = (struct partition){.sum = sum + i * k, .set = names + i * k};
    for (int32_t i = 1; i < n_partitions; i++) {
        last = widest(partitions, n_partitions, k, -1);
        join(&partitions[last], &partitions[widest(partitions, n_partitions, k, last)], k, name);
    }
    for (int32_t i = 0; i < n; i++) {
        int32_t at = first[i], position = 0;
        while (name[at] != at)
            at = name[at];
        while (partitions[last].set[position] != at)
            position++;
        set[i] = position;
    }
    free(partitions);
    free(sum);
    free(names);
    free(name);
    free(first);
}

void packing_free(struct packing *packing)
{
    free(packing->first);
    free(packing->sample);
    *packing = (struct packing){0};
}

/* Return the number of chunks of a stage whose activations 1F1B holds at once. */
static double in_flight(const struct plan_layout *layout, int32_t stage)
{
    int32_t after = layout->stages - 1 - stage;
    return layout->chunks == 1 ? after + 1 : 2 * after + (layout->chunks - 1) * layout->stages + 1;
}

static struct stage_memory memory_of_stage(const struct plan_request *request, int32_t stage, double streamed)
{
    struct plan_layout layout = request_pipeline_layout(request, 0);
    return stage_memory_of(request->setting, &layout, stage, scenario_plan_shards(&request->layout),
                           &(struct stage_memory_micro_batch){.recompute = (enum recompute)request->layout.recompute,
                                                              .streamed = streamed});
}

/*
 * Return the fewest tokens over stages, for all `cp` ranks together.
 *
 * capacity > 0: other micro-batches have so many tokens on a rank; otherwise all micro-batches have the same number.
 * share: share of the micro-batch in work that is never held.
 */
static double least_tokens(const struct plan_request *request, double capacity, double share)
{
    struct plan_layout layout = request_pipeline_layout(request, 0);
    double tokens = INT32_MAX;
    if (request_streams(request))
        share = fmax(share, request_offload_share(request, request->layout.offload));
    for (int32_t stage = 0; stage < layout.stages; stage++) {
        struct stage_memory memory = memory_of_stage(request, stage, share);
        double room = request->memory_bytes - stage_memory_standing_bytes(&memory),
               others = in_flight(&layout, stage) - 1;
        double beside = others * (memory.token.held * (1 - request->layout.offload) + memory.token.embedding);
        double in_work = memory.token.held * (1 - share) + memory.token.embedding;
        tokens = fmin(tokens, capacity > 0 ? stage_memory_tokens(&memory, room - capacity * beside, in_work)
                                           : stage_memory_tokens(&memory, room, in_work + beside));
    }
    return fmin(INT32_MAX, fmax(0, tokens) * (double)request->layout.cp);
}

double packing_room_bytes(const struct plan_request *request)
{
    double room = request->memory_bytes;
    for (int32_t stage = 0; stage < (int32_t)request->layout.pp; stage++) {
        struct stage_memory memory = memory_of_stage(request, stage, 0);
        room = fmin(room, request->memory_bytes - stage_memory_standing_bytes(&memory));
    }
    return room;
}

int64_t packing_memory_tokens(const struct plan_request *request)
{
    return (int64_t)least_tokens(request, 0, 0);
}

double packing_streamed_tokens(const struct plan_request *request, double capacity, double share)
{
    return least_tokens(request, capacity, share);
}

struct plan_micro_batch *packing_close_micro_batch(const struct plan_request *request,
                                                   const struct plan_pipeline *pipeline,
                                                   struct plan_partition *partition)
{
    struct plan_micro_batch *micro_batch = plan_add_micro_batch(partition);
    micro_batch->context = pipeline->layout.context;
    micro_batch->sharding = SLICE_PER_DOCUMENT;
    micro_batch->formation = PLAN_PACK;
    micro_batch->recompute = (enum recompute)request->layout.recompute;
    request_offload(request, micro_batch);
    return micro_batch;
}

void packing_add_micro_batch(const struct plan_request *request, const int32_t *tokens, const int32_t *sample,
                             int32_t n, struct plan_pipeline *pipeline)
{
    for (int pass = 0; pass < N_PASSES; pass++) {
        struct plan_partition *partition = &pipeline->partition[pass];
        for (int32_t i = 0; i < n; i++)
            plan_add_slice(partition, (struct slice){sample[i], 0, tokens[sample[i]]});
        packing_close_micro_batch(request, pipeline, partition);
    }
}

/* Return the group of `width` pipelines, ascending. It is made if there is none. */
static int32_t group_of(struct plan_phase *phase, const int32_t *pipelines, int32_t width)
{
    size_t size = (size_t)width * sizeof *pipelines;
    for (int32_t i = 0; i < phase->n_groups; i++)
        if (phase->groups[i].n_pipelines == width && memcmp(phase->groups[i].pipelines, pipelines, size) == 0)
            return i;
    phase->groups = check_realloc(phase->groups, ((size_t)phase->n_groups + 1) * sizeof *phase->groups);
    struct plan_group *group = &phase->groups[phase->n_groups];
    *group = (struct plan_group){.n_pipelines = width, .pipelines = check_malloc(size)};
    memcpy(group->pipelines, pipelines, size);
    return phase->n_groups++;
}

int32_t packing_block(struct plan_phase *phase, int32_t first, int32_t width)
{
    int32_t *pipelines = check_malloc((size_t)width * sizeof *pipelines);
    for (int32_t i = 0; i < width; i++)
        pipelines[i] = first + i;
    int32_t group = group_of(phase, pipelines, width);
    free(pipelines);
    return group;
}

void packing_add_shared(const struct plan_request *request, const int32_t *sample, int32_t n, int32_t first,
                        int32_t width, struct plan_phase *phase)
{
    int32_t shared = width > 1 ? packing_block(phase, first, width) : -1;
    for (int32_t rank = first; rank < first + width; rank++) {
        struct plan_pipeline *pipeline = &phase->pipelines[rank];
        packing_add_micro_batch(request, request->batch->tokens, sample, n, pipeline);
        for (int pass = 0; pass < N_PASSES; pass++) {
            struct plan_partition *partition = &pipeline->partition[pass];
            struct plan_micro_batch *micro_batch = &partition->micro_batches[partition->n_micro_batches - 1];
            micro_batch->context = width;
            micro_batch->group = shared;
        }
    }
}

void packing_open_plan(const struct plan_request *request, struct plan *plan)
{
    *plan = (struct plan){.n_phases = 1, .n_candidates = 1, .shards = scenario_plan_shards(&request->layout)};
    plan->phases = check_calloc(1, sizeof *plan->phases);
    request_megatron_layout(request, plan->phases);
}

bool packing_schedule(const struct plan_request *request, struct plan *plan, struct error *err)
{
    bool ok = true;
    for (int32_t rank = 0; ok && rank < plan->phases->n_pipelines; rank++)
        ok = schedule_pipeline(&plan->phases->pipelines[rank], &request->layout, request->setting, err);
    if (!ok)
        plan_free(plan);
    return ok;
}

bool packing_plan(const struct plan_request *request, const int32_t *tokens, const struct packing *packing,
                  struct plan *plan, struct error *err)
{
    packing_open_plan(request, plan);
    for (int32_t pack = 0; pack < packing->n_packs; pack++) {
        int32_t first = packing->first[pack], n = packing->first[pack + 1] - first;
        if (n > 0)
            packing_add_micro_batch(request, tokens, packing->sample + first, n,
                                    &plan->phases->pipelines[pack % plan->phases->n_pipelines]);
    }
    return packing_schedule(request, plan, err);
}
