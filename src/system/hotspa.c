/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This system is HotSPa. Samples go into buckets of lengths with fixed bounds. Each bucket runs in a strategy <DP, TP,
 * PP> of its own. Parameters and gradients move from one strategy to the next within an iteration.
 *
 * 1. In a bucket the longest remaining sample begins a pack. It takes the shortest remaining ones as long as they fit
 *    the bucket's bound. Packs are padded to 128 tokens. They are micro-batches of 1F1B, assigned round-robin.
 * 2. floor(packs / DP) DP packs of a bucket run, the longest ones. The samples of the others wait for the next
 *    iteration, in which they are packed with the new ones.
 * 3. If no bucket has DP packs, those of the bucket with the most packs a replica run, and some replicas idle. The same
 *    holds for a bucket that has not run for `wait` iterations.
 * 4. An iteration begins in the strategy of the longest bucket, which is the scenario's plan and holds the optimizer
 *    states. The other buckets run first, the shortest first, for their gradients only. The longest runs last, with the
 *    update.
 * 5. Each bucket is a phase. Before it reshard_plan (packing/reshard.h) brings it the bf16 parameters and, except
 *    before the first, the gradients so far. With k buckets parameters move k times, gradients k - 1 times. Buckets
 *    without packs are left out, except the last phase.
 * 6. Bounds and the other strategies are chosen once, on the first iteration's batch (system/hotspa_strategies.h).
 *
 * Published strategies at a context of 32K, bounds 4096 and 16384 (DP,TP,PP of the longest / shortest / middle bucket):
 * 7B on 8 GPUs 1,4,2 / 8,1,1 / 2,2,2, so plan {tp: 4, pp: 2} and strategies "1x1 2x2"; 7B on 16 2,4,2 / 16,1,1 / 4,4,1;
 * 13B on 16 2,8,1 / 8,2,1 / 4,4,1; 32B on 32 1,16,2 / 4,2,4 / 2,8,2.
 *
 * Source: Ge et al. 2024 (SOSP '24) and its code in Hetu, from a summary. It does not state, so inferred are: - how
 * bounds and strategies are chosen; - that a pack's bound counts its tokens without padding; - that packs of the
 * longest samples run first; - how gradients move (packing/reshard.h); - that weights and gradients of both strategies,
 * and no activations, are in memory while the model moves
 *   (bounds/memory.h).
 *
 * Deviates: - Samples of packs that do not fill all replicas wait; the public code leaves them out of training. A
 * bucket may stay
 *   without a run for `wait` iterations. No source says for how many. The default is four, so that a search's five, and
 * as many of warm-up, hold all buckets. Packs that remain of a bucket that does run have no limit. - Optimizer states
 * count in each phase as its own layout would share them. With zero1 that is their size. With sharding: none it is more
 * in phases of fewer TP x PP than the plan's.
 */
#include "system/system.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "dag/dag.h"
#include "packing/packing.h"
#include "packing/reshard.h"
#include "packing/samples.h"
#include "plan/order.h"
#include "system/hotspa_strategies.h"

enum { HOTSPA_MULTIPLE = 128 };

struct hotspa_knobs {
    struct schema_ints bounds;
    char strategies[64];
    int64_t wait;
};

struct hotspa_state {
    struct hotspa_choice choice;        /* the same in all iterations */
    int64_t n_idle[HOTSPA_MAX_BUCKETS]; /* iterations since each bucket ran, while packs waited */
    int32_t n_waiting, *waiting;        /* tokens of each waiting sample */
    struct reshard_memory switches;
};

/* Samples of one bucket, and the packs that run. */
struct bucket {
    int64_t bound;               /* limit of a pack [tokens] */
    struct plan_request request; /* with the layout of its strategy */
    int32_t n, *sample;          /* shortest first */
    int32_t n_packs, n_run;
    int32_t *pack; /* of each sample */
};

struct hotspa {
    const struct plan_request *request;
    int32_t n_samples, *tokens; /* the batch's samples, then those that waited */
    int32_t n_buckets;
    struct bucket bucket[HOTSPA_MAX_BUCKETS]; /* shortest first */
};

static bool check_request(const struct plan_request *request, struct error *err)
{
    const struct hotspa_knobs *knobs = request->knobs;
    if (cost_shards_in_passes(request->setting) || request->setting->staged || request->layout.shard_group > 0)
        return error_set(err, "hotspa: plan.sharding must be zero1 or none, without plan.shard_group: the strategies "
                              "share weights differently");
    if (cost_loss_is_chunked(request->setting))
        return error_set(err, "hotspa: loss fused-linear needs the whole head on each rank, and strategies split it; "
                              "allowed: loss passes, torch, fused");
    if (!model_shares_heads(request->setting->model, request->layout.tp, false))
        return error_set(err, "hotspa: plan.tp must divide the heads of keys and values: switches of copied heads are "
                              "not modelled");
    for (int32_t i = 1; i < knobs->bounds.n; i++)
        if (knobs->bounds.at[i] <= knobs->bounds.at[i - 1])
            return error_set(err, "hotspa: bounds must ascend; %lld follows %lld", (long long)knobs->bounds.at[i],
                             (long long)knobs->bounds.at[i - 1]);
    return true;
}

/* Read "TPxPP" at the front of *text, and the blanks behind it. */
static bool read_strategy(const char **text, long *tp, long *pp)
{
    char *end;
    *tp = strtol(*text, &end, 10);
    if (end == *text || *end != 'x')
        return false;
    const char *second = end + 1;
    *pp = strtol(second, &end, 10);
    *text = end + strspn(end, " ");
    return end != second && *tp > 0 && *pp > 0;
}

/* Take the given bounds. Without any they are an eighth and half of the context, as published at 32K. */
static void take_bounds(const struct plan_request *request, struct hotspa_choice *choice)
{
    const struct hotspa_knobs *knobs = request->knobs;
    int64_t context = request->context, published[] = {context / 8, context / 2};
    const int64_t *bounds = knobs->bounds.n > 0 ? knobs->bounds.at : published;
    int32_t n = knobs->bounds.n > 0 ? knobs->bounds.n : 2;
    for (int32_t i = 0; i < n; i++)
        if (0 < bounds[i] && bounds[i] < context)
            choice->bound[choice->n++] = bounds[i];
    choice->bound[choice->n++] = context;
}

static bool read_strategies(const struct plan_request *request, struct hotspa_choice *choice, struct error *err)
{
    const struct hotspa_knobs *knobs = request->knobs;
    const char *text = knobs->strategies;
    struct plan_request laid_out;
    take_bounds(request, choice);
    choice->tp[choice->n - 1] = request->layout.tp;
    choice->pp[choice->n - 1] = request->layout.pp;
    for (int32_t i = 0; i < choice->n - 1; i++) {
        long tp, pp;
        if (!read_strategy(&text, &tp, &pp) || !hotspa_lay_out(request, tp, pp, &laid_out))
            return error_set(err,
                             "hotspa: strategies: number %d of '%s' is not TPxPP that divide heads, layers and %lld "
                             "GPUs; %d are needed, one for each bucket except the longest",
                             i + 1, knobs->strategies,
                             (long long)(request->layout.tp * request->layout.pp * request->layout.dp), choice->n - 1);
        choice->tp[i] = tp;
        choice->pp[i] = pp;
    }
    if (*text != '\0')
        return error_set(err, "hotspa: strategies: '%s' has more than the %d buckets below the longest",
                         knobs->strategies, choice->n - 1);
    return true;
}

static bool open_buckets(struct hotspa *work, struct hotspa_choice *choice, struct error *err)
{
    const struct hotspa_knobs *knobs = work->request->knobs;
    bool given = strcmp(knobs->strategies, "auto") != 0;
    if (choice->n == 0 && given && !read_strategies(work->request, choice, err))
        return false;
    if (choice->n == 0)
        hotspa_choose(work->request, &knobs->bounds, knobs->wait, choice);
    work->n_buckets = choice->n;
    for (int32_t i = 0; i < choice->n; i++) {
        work->bucket[i].bound = choice->bound[i];
        CHECK(hotspa_lay_out(work->request, choice->tp[i], choice->pp[i], &work->bucket[i].request));
    }
    return true;
}

static void open_samples(struct hotspa *work, const struct hotspa_state *waits)
{
    const struct batch *batch = work->request->batch;
    struct batch all = {.n_samples = batch->n_samples + waits->n_waiting};
    work->n_samples = all.n_samples;
    work->tokens = all.tokens = check_malloc((size_t)all.n_samples * sizeof *all.tokens);
    memcpy(all.tokens, batch->tokens, (size_t)batch->n_samples * sizeof *all.tokens);
    if (waits->n_waiting > 0)
        memcpy(all.tokens + batch->n_samples, waits->waiting, (size_t)waits->n_waiting * sizeof *all.tokens);
    int32_t *order = samples_by_length(&all);
    for (int32_t i = 0; i < work->n_buckets; i++) {
        work->bucket[i].sample = check_malloc((size_t)all.n_samples * sizeof *order);
        work->bucket[i].pack = check_malloc((size_t)all.n_samples * sizeof *order);
    }
    for (int32_t k = all.n_samples - 1; k >= 0; k--) {
        int32_t i = 0;
        while (work->bucket[i].bound < all.tokens[order[k]])
            i++;
        CHECK(i < work->n_buckets);
        work->bucket[i].sample[work->bucket[i].n++] = order[k];
    }
    free(order);
}

/*
 * Pack all buckets. floor(packs / DP) DP packs of each run. If this is 0 for all, those of the bucket with most packs a
 * replica run.
 */
static void pack_all(struct hotspa *work, int64_t *n_idle)
{
    const struct hotspa_knobs *knobs = work->request->knobs;
    int32_t n_run = 0;
    struct bucket *fullest = &work->bucket[0];
    for (int32_t i = 0; i < work->n_buckets; i++) {
        struct bucket *bucket = &work->bucket[i];
        int32_t dp = (int32_t)bucket->request.layout.dp;
        bucket->n_packs = hotspa_pack(work->tokens, bucket->sample, bucket->n, bucket->bound, bucket->pack);
        bucket->n_run = n_idle[i] < knobs->wait ? bucket->n_packs / dp * dp : bucket->n_packs;
        n_run += bucket->n_run;
        if ((double)bucket->n_packs / dp > (double)fullest->n_packs / (double)fullest->request.layout.dp)
            fullest = bucket;
    }
    if (n_run == 0)
        fullest->n_run = fullest->n_packs;
    for (int32_t i = 0; i < work->n_buckets; i++)
        n_idle[i] = work->bucket[i].n_packs > 0 && work->bucket[i].n_run == 0 ? n_idle[i] + 1 : 0;
}

static void close_work(struct hotspa *work)
{
    for (int32_t i = 0; i < work->n_buckets; i++) {
        free(work->bucket[i].sample);
        free(work->bucket[i].pack);
    }
    free(work->tokens);
}

/*
 * Number the samples that run and those that wait. `number` is that of each sample, -1: it waits. The state takes the
 * waiting samples.
 */
static void number_samples(const struct hotspa *work, struct hotspa_state *waits, int32_t *number, struct plan *plan)
{
    int32_t n_batch = work->request->batch->n_samples, *waiting;
    waiting = check_malloc((size_t)work->n_samples * sizeof *waiting);
    plan->delayed = check_malloc((size_t)n_batch * sizeof *plan->delayed);
    plan->carried_tokens = check_malloc((size_t)work->n_samples * sizeof *plan->carried_tokens);
    for (int32_t i = 0; i < work->n_buckets; i++)
        for (int32_t k = 0; k < work->bucket[i].n; k++)
            number[work->bucket[i].sample[k]] = work->bucket[i].pack[k] < work->bucket[i].n_run ? 0 : -1;
    waits->n_waiting = 0;
    for (int32_t k = 0; k < work->n_samples; k++) {
        bool runs = number[k] == 0;
        if (runs)
            number[k] = k < n_batch ? k : n_batch + plan->n_carried;
        if (runs && k >= n_batch)
            plan->carried_tokens[plan->n_carried++] = work->tokens[k];
        if (runs)
            continue;
        if (k < n_batch)
            plan->delayed[plan->n_delayed++] = k;
        plan->delayed_tokens += work->tokens[k];
        waiting[waits->n_waiting++] = work->tokens[k];
    }
    free(waits->waiting);
    waits->waiting = waiting;
}

static void add_pack(const struct hotspa *work, const struct bucket *bucket, int32_t pack, const int32_t *number,
                     struct plan_pipeline *pipeline)
{
    for (int pass = 0; pass < N_PASSES; pass++) {
        struct plan_partition *partition = &pipeline->partition[pass];
        for (int32_t k = bucket->n - 1; k >= 0; k--)
            if (bucket->pack[k] == pack)
                plan_add_slice(partition,
                               (struct slice){number[bucket->sample[k]], 0, work->tokens[bucket->sample[k]]});
        struct plan_micro_batch *micro_batch = plan_add_micro_batch(partition);
        int64_t tokens = plan_micro_batch_tokens(partition, partition->n_micro_batches - 1);
        micro_batch->context = pipeline->layout.context;
        micro_batch->sharding = SLICE_PER_DOCUMENT;
        micro_batch->formation = PLAN_PACK;
        micro_batch->recompute = (enum recompute)bucket->request.layout.recompute;
        request_offload(&bucket->request, micro_batch);
        micro_batch->padding_tokens = (int32_t)((HOTSPA_MULTIPLE - tokens % HOTSPA_MULTIPLE) % HOTSPA_MULTIPLE);
    }
}

/* Add the bucket's packs in its strategy, and the parameters and gradients that come from the strategy before. */
static void add_phase(const struct hotspa *work, const struct bucket *bucket, const struct bucket *before,
                      const int32_t *number, struct reshard_memory *switches, struct plan *plan)
{
    bool first = plan->n_phases == 0;
    struct plan_phase *phase = &plan->phases[plan->n_phases++];
    request_megatron_layout(&bucket->request, phase);
    phase->shards = scenario_plan_shards(&bucket->request.layout);
    for (int32_t pack = 0; pack < bucket->n_run; pack++)
        add_pack(work, bucket, pack, number, &phase->pipelines[pack % phase->n_pipelines]);
    for (int32_t i = 0; i < phase->n_pipelines; i++) {
        plan_fill_need(&phase->pipelines[i]);
        order_one_f_one_b(&phase->pipelines[i], ORDER_JUST_IN_TIME);
    }
    reshard_plan(work->request->setting, &before->request.layout, &bucket->request.layout, !first, switches, phase);
}

static bool hotspa_plan(const struct plan_request *request, void *state, struct plan *plan, struct error *err)
{
    struct hotspa work = {.request = request};
    struct hotspa_state *waits = state;
    if (!check_request(request, err))
        return false;
    if (!open_buckets(&work, &waits->choice, err))
        return false;
    open_samples(&work, waits);
    pack_all(&work, waits->n_idle);
    *plan = (struct plan){.n_candidates = 1,
                          .shards = scenario_plan_shards(&request->layout),
                          .phases = check_calloc((size_t)work.n_buckets, sizeof *plan->phases)};
    int32_t *number = check_malloc((size_t)work.n_samples * sizeof *number);
    number_samples(&work, waits, number, plan);
    const struct bucket *before = &work.bucket[work.n_buckets - 1];
    for (int32_t i = 0; i < work.n_buckets; i++) {
        if (work.bucket[i].n_run == 0 && i < work.n_buckets - 1)
            continue;
        add_phase(&work, &work.bucket[i], before, number, &waits->switches, plan);
        before = &work.bucket[i];
    }
    free(number);
    close_work(&work);
    return true;
}

static void hotspa_close(void *state)
{
    struct hotspa_state *waits = state;
    free(waits->waiting);
    reshard_forget(&waits->switches);
}

static const struct schema_key knobs[] = {
    {"bounds", SCHEMA_INTS, "tokens", 1, 1073741824, "", NULL,
     "longest sample of each bucket except the last, ascending; none: chosen with the strategies, or, if these are "
     "given, an eighth and half of the context, as published at 32K",
     offsetof(struct hotspa_knobs, bounds)},
    {"strategies", SCHEMA_WORD, "-", 0, 0, "auto", NULL,
     "\"TPxPP TPxPP\" of each bucket except the longest (which has the plan's), shortest first; auto: the fastest with "
     "their switches that have memory for packs and switches",
     offsetof(struct hotspa_knobs, strategies)},
    {"wait", SCHEMA_INT, "iterations", 0, 1 << 20, "4", NULL,
     "most iterations that a bucket with too few packs for its replicas is left out; then it runs, and replicas idle",
     offsetof(struct hotspa_knobs, wait)},
};

const struct training_system system_hotspa = {
    .name = "hotspa",
    .source = "Ge et al. 2024 (SOSP '24); Hetu",
    .meaning =
        "buckets of lengths, each in a strategy of TP and PP of its own; parameters and gradients switch between "
        "them in every iteration",
    .knobs = knobs,
    .n_knobs = sizeof knobs / sizeof *knobs,
    .knobs_size = sizeof(struct hotspa_knobs),
    .state_size = sizeof(struct hotspa_state),
    .close = hotspa_close,
    .degrees = SYSTEM_TP | SYSTEM_PP,
    .decides = system_decides_schedule,
    .plan = hotspa_plan,
};
