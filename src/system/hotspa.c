/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * HotSPa: samples in buckets of lengths with fixed bounds, each bucket run in a strategy <DP, TP, PP> of its own, and
 * parameters and gradients moved from one strategy to the next within an iteration.
 *
 * In a bucket the longest sample left begins a pack, which takes the shortest left as long as they fit the bucket's
 * bound; packs are padded to 128 tokens and are micro-batches of 1F1B, dealt round-robin. Of a bucket's packs
 * floor(packs / DP) DP run, the longest ones; the samples of the others wait for the next iteration, where they are
 * packed with the new ones. (Where no bucket has DP packs, all run, and some replicas idle.)
 *
 * An iteration begins in the strategy of the longest bucket, which is the scenario's plan and holds the optimizer
 * states. The other buckets run first, the shortest first, for their gradients only; the longest runs last, with the
 * update. Each is a phase, before which switch_plan (system/switch.h) brings the bf16 parameters to it and, but before
 * the first, the gradients accumulated so far. k buckets: k switches of parameters, k - 1 of gradients; buckets without
 * packs are left out, but the last phase always comes.
 *
 * Published strategies at a context of 32K, bounds 4096 and 16384 (DP,TP,PP of the longest / shortest / middle bucket):
 * 7B on 8 GPUs 1,4,2 / 8,1,1 / 2,2,2, so plan {tp: 4, pp: 2} and strategies "1x1 2x2"; 7B on 16 2,4,2 / 16,1,1 / 4,4,1;
 * 13B on 16 2,8,1 / 8,2,1 / 4,4,1; 32B on 32 1,16,2 / 4,2,4 / 2,8,2.
 *
 * Source: Ge et al. 2024 (SOSP '24) and its code in Hetu, from a summary. Not stated there, so inferred:
 * the automatic strategies, that a pack's bound counts its tokens without padding, that packs of the longest samples
 * run first, and how gradients move (system/switch.h).
 * While the model moves, weights and gradients of both strategies are in memory (inferred, bounds/memory.h), and
 * no activations.
 *
 * Deviates:
 * - Optimizer states count in each phase as its own layout would share them: as much as they are with zero1; with
 *   sharding: none more in phases of fewer TP x PP than the plan's.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "dag/dag.h"
#include "plan/order.h"
#include "system/packing.h"
#include "system/samples.h"
#include "system/switch.h"

enum { HOTSPA_MAX_BUCKETS = SCHEMA_LIST_MOST + 1, HOTSPA_MULTIPLE = 128 };

struct hotspa_knobs {
    struct schema_ints bounds;
    char strategies[64];
};

struct hotspa_state {
    int32_t n_waiting, *waiting; /* tokens of each */
    struct switch_memory switches;
};

/* Samples of one bucket and what runs of them. */
struct bucket {
    int64_t bound;                 /* longest pack [tokens] */
    struct system_request request; /* with the layout of its strategy */
    int32_t n, *sample;            /* shortest first */
    int32_t n_packs, n_run;
    int32_t *pack; /* of each sample */
};

struct hotspa {
    const struct system_request *request;
    int32_t n_samples, *tokens; /* the batch's, then those that waited */
    int32_t n_buckets;
    struct bucket bucket[HOTSPA_MAX_BUCKETS]; /* shortest first */
};

static bool check_request(const struct system_request *request, struct error *err)
{
    const struct hotspa_knobs *knobs = request->knobs;
    if (cost_shards_in_passes(request->setting) || request->layout.shard_group > 0)
        return error_set(err, "hotspa: plan.sharding must be zero1 or none, without plan.shard_group: the strategies "
                              "share weights differently");
    for (int32_t i = 1; i < knobs->bounds.n; i++)
        if (knobs->bounds.at[i] <= knobs->bounds.at[i - 1])
            return error_set(err, "hotspa: bounds must ascend; %lld follows %lld", (long long)knobs->bounds.at[i],
                             (long long)knobs->bounds.at[i - 1]);
    return true;
}

static int64_t n_gpus(const struct system_request *request)
{
    return request->layout.tp * request->layout.pp * request->layout.cp * request->layout.dp;
}

/* Whether the model and the cluster can be laid out so; then the request has that layout. */
static bool lay_out(const struct system_request *from, int64_t tp, int64_t pp, struct system_request *request)
{
    const struct model *model = from->setting->model;
    int64_t gpus = n_gpus(from);
    if (tp < 1 || pp < 1 || gpus % (tp * pp) != 0 || model->heads % tp != 0 || model->kv_heads % tp != 0 ||
        !scenario_stages_fit(&from->layout.stages, model->layers, (int32_t)pp, 1) ||
        from->setting->platform->gpus_per_node % tp != 0)
        return false;
    *request = *from;
    request->layout.tp = tp;
    request->layout.pp = pp;
    request->layout.dp = gpus / (tp * pp);
    return true;
}

/* Weights and gradients of a layout's fullest stage. */
static double moving_bytes(const struct system_request *request)
{
    struct plan_phase phase = {0};
    double parameters = 0;
    system_megatron_layout(request, &phase);
    const struct plan_layout *layout = &phase.pipelines[0].layout;
    for (int32_t stage = 0; stage < layout->stages; stage++)
        parameters = fmax(parameters, dag_stage_parameters(request->setting, layout, stage));
    plan_phase_free(&phase);
    return (2 + cost_gradient_bytes(request->setting->gradients)) * parameters;
}

/* The least TP x PP that has memory for a bucket's packs, and whose weights and gradients fit beside what the bucket
 * after it holds (ties: more TP), else the plan's own. */
static void choose_strategy(const struct system_request *request, const struct bucket *after, struct bucket *bucket)
{
    struct system_request trial;
    double room = packing_room_bytes(&after->request);
    int64_t gpus = n_gpus(request), most = request->layout.tp * request->layout.pp;
    bucket->request = *request;
    for (int64_t ranks = 1; ranks <= gpus && ranks < most; ranks++)
        for (int64_t tp = ranks; tp >= 1; tp--)
            if (ranks % tp == 0 && lay_out(request, tp, ranks / tp, &trial) &&
                packing_memory_tokens(&trial) >= bucket->bound && moving_bytes(&trial) <= room) {
                bucket->request = trial;
                return;
            }
}

/* "TPxPP" at the front of *text, and the blanks behind it. */
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

static bool read_strategies(struct hotspa *work, struct error *err)
{
    const struct hotspa_knobs *knobs = work->request->knobs;
    const char *text = knobs->strategies;
    work->bucket[work->n_buckets - 1].request = *work->request;
    if (strcmp(text, "auto") == 0) {
        for (int32_t i = work->n_buckets - 2; i >= 0; i--)
            choose_strategy(work->request, &work->bucket[i + 1], &work->bucket[i]);
        return true;
    }
    for (int32_t i = 0; i < work->n_buckets - 1; i++) {
        long tp, pp;
        if (!read_strategy(&text, &tp, &pp) || !lay_out(work->request, tp, pp, &work->bucket[i].request))
            return error_set(err,
                             "hotspa: strategies: number %d of '%s' is not TPxPP that divide heads, layers and %lld "
                             "GPUs; %d are needed, one for each bucket but the longest",
                             i + 1, knobs->strategies, (long long)n_gpus(work->request), work->n_buckets - 1);
    }
    if (*text != '\0')
        return error_set(err, "hotspa: strategies: '%s' has more than the %d buckets below the longest",
                         knobs->strategies, work->n_buckets - 1);
    return true;
}

/* Bounds below the context, and the context; without any an eighth and half of it, as published. */
static void open_buckets(struct hotspa *work)
{
    const struct hotspa_knobs *knobs = work->request->knobs;
    int64_t context = work->request->context, published[] = {context / 8, context / 2};
    const int64_t *bounds = knobs->bounds.n > 0 ? knobs->bounds.at : published;
    int32_t n = knobs->bounds.n > 0 ? knobs->bounds.n : 2;
    for (int32_t i = 0; i < n; i++)
        if (0 < bounds[i] && bounds[i] < context)
            work->bucket[work->n_buckets++].bound = bounds[i];
    work->bucket[work->n_buckets++].bound = context;
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

/* The longest left with the shortest left. */
static void pack_bucket(const struct hotspa *work, struct bucket *bucket)
{
    int32_t shortest = 0, longest = bucket->n - 1, dp = (int32_t)bucket->request.layout.dp;
    while (shortest <= longest) {
        int64_t sum = work->tokens[bucket->sample[longest]];
        bucket->pack[longest--] = bucket->n_packs;
        while (shortest <= longest && sum + work->tokens[bucket->sample[shortest]] <= bucket->bound) {
            sum += work->tokens[bucket->sample[shortest]];
            bucket->pack[shortest++] = bucket->n_packs;
        }
        bucket->n_packs++;
    }
    bucket->n_run = bucket->n_packs / dp * dp;
}

static void pack_all(struct hotspa *work)
{
    int32_t n_run = 0;
    for (int32_t i = 0; i < work->n_buckets; i++) {
        pack_bucket(work, &work->bucket[i]);
        n_run += work->bucket[i].n_run;
    }
    for (int32_t i = 0; i < work->n_buckets && n_run == 0; i++)
        work->bucket[i].n_run = work->bucket[i].n_packs;
}

static void close_work(struct hotspa *work)
{
    for (int32_t i = 0; i < work->n_buckets; i++) {
        free(work->bucket[i].sample);
        free(work->bucket[i].pack);
    }
    free(work->tokens);
}

/* Numbers of the samples that run and wait; `number` of each sample, -1: it waits. What waits goes to the state. */
static void part_samples(const struct hotspa *work, struct hotspa_state *waits, int32_t *number, struct plan *plan)
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
        struct plan_cut *cut = &pipeline->cut[pass];
        for (int32_t k = bucket->n - 1; k >= 0; k--)
            if (bucket->pack[k] == pack)
                plan_add_slice(cut, (struct slice){number[bucket->sample[k]], 0, work->tokens[bucket->sample[k]]});
        struct plan_unit *unit = plan_add_unit(cut);
        int64_t tokens = plan_unit_tokens(cut, cut->n_units - 1);
        unit->context = pipeline->layout.context;
        unit->sharding = SLICE_PER_DOCUMENT;
        unit->formation = PLAN_PACK;
        unit->recompute = (enum recompute)bucket->request.layout.recompute;
        unit->offload = bucket->request.layout.offload;
        unit->padding_tokens = (int32_t)((HOTSPA_MULTIPLE - tokens % HOTSPA_MULTIPLE) % HOTSPA_MULTIPLE);
    }
}

/* The bucket's packs in its strategy, and what comes to it from the strategy before. */
static void add_phase(const struct hotspa *work, const struct bucket *bucket, const struct bucket *before,
                      const int32_t *number, struct switch_memory *switches, struct plan *plan)
{
    bool first = plan->n_phases == 0;
    struct plan_phase *phase = &plan->phases[plan->n_phases++];
    system_megatron_layout(&bucket->request, phase);
    phase->shards = scenario_plan_shards(&bucket->request.layout);
    for (int32_t pack = 0; pack < bucket->n_run; pack++)
        add_pack(work, bucket, pack, number, &phase->pipelines[pack % phase->n_pipelines]);
    for (int32_t i = 0; i < phase->n_pipelines; i++) {
        plan_fill_need(&phase->pipelines[i]);
        order_one_f_one_b(&phase->pipelines[i], ORDER_JUST_IN_TIME);
    }
    switch_plan(work->request->setting, &before->request.layout, &bucket->request.layout, !first, switches, phase);
}

static bool hotspa_plan(const struct system_request *request, void *state, struct plan *plan, struct error *err)
{
    struct hotspa work = {.request = request};
    struct hotspa_state *waits = state;
    if (!check_request(request, err))
        return false;
    open_buckets(&work);
    if (!read_strategies(&work, err))
        return false;
    open_samples(&work, waits);
    pack_all(&work);
    *plan = (struct plan){.n_candidates = 1,
                          .shards = scenario_plan_shards(&request->layout),
                          .phases = check_calloc((size_t)work.n_buckets, sizeof *plan->phases)};
    int32_t *number = check_malloc((size_t)work.n_samples * sizeof *number);
    part_samples(&work, waits, number, plan);
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
    switch_forget(&waits->switches);
}

static const struct schema_key knobs[] = {
    {"bounds", SCHEMA_INTS, "tokens", 1, 1073741824, "", NULL,
     "longest sample of each bucket but the longest, ascending; none: an eighth and half of the context",
     offsetof(struct hotspa_knobs, bounds)},
    {"strategies", SCHEMA_WORD, "-", 0, 0, "auto", NULL,
     "\"TPxPP TPxPP\" of each bucket but the longest (which has the plan's), shortest first; auto: the least TP x PP "
     "with memory for its packs, and for the switch to the next bucket's",
     offsetof(struct hotspa_knobs, strategies)},
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
    .switches_layouts = true,
    .offloads = true,
    .plan = hotspa_plan,
    .close = hotspa_close,
};
