/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "system/hotspa_strategies.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "dag/dag.h"
#include "packing/packing.h"
#include "packing/samples.h"

enum { N_FRACTIONS = 6, MOST_BOUNDS = 3 };

/* A layout that a bucket may have. */
struct strategy {
    struct plan_request request;
    struct cost_setting whole; /* of all layers */
    int64_t memory_tokens;     /* of a micro-batch */
    double parameters;         /* of a GPU, on the fullest stage */
    double room, moving;       /* bytes beside states; weights and gradients [bytes] */
    const double *attention_s; /* [n + 1] sums over the samples before, of both passes and all layers */
};

struct choosing {
    const struct plan_request *request;
    int32_t n, *sample; /* shortest first */
    int64_t wait;       /* most iterations that packs wait */
    int32_t n_strategies, own;
    struct strategy *strategies; /* fewest GPUs first, then most TP */
};

/* A candidate bucket: samples [first, end) in packs of `bound` tokens. */
struct candidate_bucket {
    int64_t bound;
    int32_t first, end, n_packs;
    bool shortest;
};

static int64_t n_gpus(const struct plan_request *request)
{
    return request->layout.tp * request->layout.pp * request->layout.cp * request->layout.dp;
}

bool hotspa_lay_out(const struct plan_request *from, int64_t tp, int64_t pp, struct plan_request *request)
{
    const struct model *model = from->setting->model;
    int64_t gpus = n_gpus(from);
    if (tp < 1 || pp < 1 || gpus % (tp * pp) != 0 || !model_shares_heads(model, tp, false) ||
        !scenario_stages_fit(&from->layout.stages, model->layers, (int32_t)pp, 1) ||
        platform_nvlink_domain(from->setting->platform) % tp != 0)
        return false;
    if (model_has_experts(model) &&
        tp != scenario_expert_ranks(&from->layout)) /* TP ranks do not share experts otherwise */
        return false;
    *request = *from;
    request->layout.tp = tp;
    request->layout.pp = pp;
    request->layout.dp = gpus / (tp * pp);
    return true;
}

int32_t hotspa_pack(const int32_t *tokens, const int32_t *sample, int32_t n, int64_t bound, int32_t *pack)
{
    int32_t shortest = 0, longest = n - 1, n_packs = 0;
    for (; shortest <= longest; n_packs++) {
        int64_t sum = tokens[sample[longest]];
        if (pack != NULL)
            pack[longest] = n_packs;
        longest--;
        while (shortest <= longest && sum + tokens[sample[shortest]] <= bound) {
            sum += tokens[sample[shortest]];
            if (pack != NULL)
                pack[shortest] = n_packs;
            shortest++;
        }
    }
    return n_packs;
}

/* Return the seconds of both passes through all layers. attention: of attention only. */
static double both_s(const struct strategy *strategy, const struct slice *slice, int32_t padding, bool attention)
{
    struct cost_micro_batch micro_batch = {.slices = slice,
                                           .n_slices = slice != NULL,
                                           .padding_tokens = padding,
                                           .context = 1,
                                           .recompute = (enum recompute)strategy->request.layout.recompute};
    double sum_s = 0;
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
        struct cost_pass cost = cost_of_pass(&strategy->whole, pass, &micro_batch);
        sum_s += attention ? cost.attention_s : cost_pass_s(&cost);
    }
    return sum_s;
}

/* Find the seconds of both passes on the first and the last stage besides layers, for micro-batches of `tokens` tokens.
 */
static void ends_s(const struct strategy *strategy, int32_t tokens, double *first_s, double *last_s)
{
    struct cost_micro_batch micro_batch = {.padding_tokens = tokens, .context = 1};
    *first_s = *last_s = 0;
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
        struct cost_pass embedding = cost_of_embedding(&strategy->whole, pass, &micro_batch);
        struct cost_pass head = cost_of_head(&strategy->whole, pass, &micro_batch);
        *first_s += cost_pass_s(&embedding);
        *last_s += cost_pass_s(&head);
    }
}

/* Return the seconds of both passes of a bucket's mean pack through all stages. slowest: on the slowest stage. */
static double pack_s(const struct choosing *work, const struct strategy *strategy,
                     const struct candidate_bucket *bucket, double *slowest_s)
{
    double tokens = 0, first_s, last_s, stages = (double)strategy->request.layout.pp;
    for (int32_t i = bucket->first; i < bucket->end; i++)
        tokens += work->request->batch->tokens[work->sample[i]];
    double full = tokens / bucket->n_packs / (double)bucket->bound; /* share of the bound's tokens */
    double attention_s = strategy->attention_s[bucket->end] - strategy->attention_s[bucket->first];
    double layers_s = attention_s / bucket->n_packs + full * both_s(strategy, NULL, (int32_t)bucket->bound, false);
    ends_s(strategy, (int32_t)bucket->bound, &first_s, &last_s);
    double through_s = layers_s + full * (first_s + last_s);
    *slowest_s = stages > 1 ? layers_s / stages + full * fmax(first_s, last_s) : through_s;
    return through_s;
}

static const double *measure_attention(const struct choosing *work, const struct strategy *strategy)
{
    for (int32_t i = 0; i < work->n_strategies; i++)
        if (work->strategies[i].request.layout.tp == strategy->request.layout.tp)
            return work->strategies[i].attention_s;
    double *attention_s = check_malloc(((size_t)work->n + 1) * sizeof *attention_s);
    attention_s[0] = 0;
    for (int32_t i = 0; i < work->n; i++) {
        struct slice slice = {0, 0, work->request->batch->tokens[work->sample[i]]};
        attention_s[i + 1] = attention_s[i] + both_s(strategy, &slice, 0, true);
    }
    return attention_s;
}

static struct strategy open_strategy(const struct choosing *work, const struct plan_request *request)
{
    const struct cost_setting *setting = request->setting;
    struct plan_layout layout = request_pipeline_layout(request, 0);
    struct strategy strategy = {.request = *request,
                                .whole = *setting,
                                .memory_tokens = packing_memory_tokens(request),
                                .room = packing_room_bytes(request)};
    strategy.whole.tensor = (int32_t)request->layout.tp;
    cost_hold_layers(&strategy.whole, 0, (int32_t)setting->model->layers);
    for (int32_t stage = 0; stage < layout.stages; stage++)
        strategy.parameters = fmax(strategy.parameters, dag_stage_parameters(setting, &layout, stage));
    strategy.moving = (cost_precisions(setting).weight + cost_precisions(setting).gradient) * strategy.parameters;
    strategy.attention_s = measure_attention(work, &strategy);
    return strategy;
}

static void open_choosing(const struct plan_request *request, struct choosing *work)
{
    int32_t *longest_first = samples_by_length(request->batch);
    int64_t gpus = n_gpus(request);
    size_t capacity = 0;
    *work = (struct choosing){.request = request, .n = request->batch->n_samples, .own = -1};
    work->sample = check_malloc((size_t)work->n * sizeof *work->sample);
    for (int32_t i = 0; i < work->n; i++)
        work->sample[i] = longest_first[work->n - 1 - i];
    free(longest_first);
    for (int64_t ranks = 1; ranks <= gpus; ranks++)
        for (int64_t tp = ranks; gpus % ranks == 0 && tp >= 1; tp--) {
            struct plan_request trial;
            if (ranks % tp != 0 || !hotspa_lay_out(request, tp, ranks / tp, &trial))
                continue;
            if (tp == request->layout.tp && ranks / tp == request->layout.pp)
                work->own = work->n_strategies;
            struct strategy strategy = open_strategy(work, &trial);
            work->strategies =
                check_grow(work->strategies, (size_t)work->n_strategies, &capacity, sizeof *work->strategies);
            work->strategies[work->n_strategies++] = strategy;
        }
    CHECK(work->own >= 0);
}

static void close_choosing(struct choosing *work)
{
    for (int32_t i = 0; i < work->n_strategies; i++) {
        bool shared = false;
        for (int32_t k = 0; k < i; k++)
            shared = shared || work->strategies[k].attention_s == work->strategies[i].attention_s;
        if (!shared)
            free((double *)work->strategies[i].attention_s);
    }
    free(work->sample);
    free(work->strategies);
}

/* Return the seconds of the bucket's passes in an iteration, and the share of iterations in which it runs. */
static double passes_s(const struct choosing *work, const struct strategy *strategy,
                       const struct candidate_bucket *bucket, double *often)
{
    const struct scenario_plan *layout = &strategy->request.layout;
    double slowest_s, through_s = pack_s(work, strategy, bucket, &slowest_s);
    double each = (double)bucket->n_packs / (double)layout->dp;
    each = work->wait > 0 ? each : ceil(each);
    *often = bucket->shortest ? 1 : fmin(1, fmax(each, 1 / (double)(work->wait + 1)));
    return *often * (through_s + fmax(0, each - 1) * slowest_s);
}

static bool same_layout(const struct strategy *a, const struct strategy *b)
{
    return a->request.layout.tp == b->request.layout.tp && a->request.layout.pp == b->request.layout.pp;
}

/* Return the seconds of the switches to a bucket's strategy from the longest's, and on to the next one's. */
static double switches_s(const struct choosing *work, const struct strategy *strategy, const struct strategy *after)
{
    const struct strategy *own = &work->strategies[work->own];
    double gradient_bytes = cost_precisions(work->request->setting).gradient, seconds = 0;
    if (!same_layout(strategy, own))
        seconds += cost_of_transfer(work->request->setting, own->request.layout.pp == 1 ? COST_NVLINK : COST_NIC,
                                    2 * strategy->parameters, 1)
                       .duration_s;
    if (!same_layout(strategy, after))
        seconds += cost_of_transfer(work->request->setting, after->request.layout.pp == 1 ? COST_NVLINK : COST_NIC,
                                    gradient_bytes * strategy->parameters, 1)
                       .duration_s;
    return seconds;
}

/* Return the strategy of least seconds whose weights and gradients fit beside the states of `after`, -1: none. */
static int32_t best_strategy(const struct choosing *work, const struct candidate_bucket *bucket, int32_t after,
                             double *seconds)
{
    int32_t best = -1;
    for (int32_t i = 0; i < work->n_strategies; i++) {
        const struct strategy *strategy = &work->strategies[i], *next = &work->strategies[after];
        double often;
        if (strategy->memory_tokens < bucket->bound || (i != after && strategy->moving > next->room))
            continue;
        double own_s = passes_s(work, strategy, bucket, &often);
        own_s += often * switches_s(work, strategy, next);
        if (best >= 0 && own_s >= *seconds)
            continue;
        best = i;
        *seconds = own_s;
    }
    return best;
}

/*
 * Return whether the memory of a strategy holds the packs of a replica that are in flight, as many as stages. The packs
 * with the most tokens count, and the largest of them runs.
 */
static bool holds_packs(const struct strategy *strategy, const int64_t *sum, int32_t n_packs)
{
    int64_t stages = strategy->request.layout.pp, dp = strategy->request.layout.dp, most = 0, in_work = 0;
    for (int64_t first = 0; first < n_packs; first++) {
        int64_t flying = 0, largest = 0; /* [tokens] */
        for (int64_t i = first; i < n_packs && i < first + stages * dp; i += dp) {
            flying += sum[i];
            largest = sum[i] > largest ? sum[i] : largest;
        }
        in_work = flying > most ? largest : in_work;
        most = flying > most ? flying : most;
    }
    double beside = stages > 1 ? (double)(most - in_work) / (double)(stages - 1) : 0;
    return (double)in_work <= packing_streamed_tokens(&strategy->request, fmax(1, beside), 0);
}

/* Return whether samples share packs that the strategy has no memory for. */
static bool joins_too_many(const struct choosing *work, const struct strategy *strategy,
                           const struct candidate_bucket *bucket)
{
    const int32_t *tokens = work->request->batch->tokens, *sample = work->sample + bucket->first;
    int32_t n = bucket->end - bucket->first;
    if (strategy->memory_tokens >= bucket->bound || n <= bucket->n_packs)
        return false;
    int32_t *pack = check_malloc((size_t)n * sizeof *pack);
    int64_t *sum = check_calloc((size_t)bucket->n_packs, sizeof *sum);
    hotspa_pack(tokens, sample, n, bucket->bound, pack);
    for (int32_t i = 0; i < n; i++)
        sum[pack[i]] += tokens[sample[i]];
    bool too_many = !holds_packs(strategy, sum, bucket->n_packs);
    free(pack);
    free(sum);
    return too_many;
}

/*
 * Choose strategies for n bounds, ascending. @return the seconds of all buckets; too_many: some samples share packs
 * that do not fit
 */
static double choose_strategies(const struct choosing *work, const int64_t *bounds, int32_t n,
                                struct hotspa_choice *choice, bool *too_many)
{
    const int32_t *tokens = work->request->batch->tokens;
    int32_t after = work->own, end = work->n;
    double sum_s = 0, often;
    *too_many = false;
    choice->n = n + 1;
    for (int32_t i = n; i >= 0; i--) {
        struct candidate_bucket bucket = {
            .bound = i < n ? bounds[i] : work->request->context, .first = end, .end = end};
        while (bucket.first > 0 && (i == 0 || tokens[work->sample[bucket.first - 1]] > bounds[i - 1]))
            bucket.first--;
        bucket.shortest = bucket.first == 0; /* buckets below it, if any, are empty */
        bucket.n_packs =
            hotspa_pack(tokens, work->sample + bucket.first, bucket.end - bucket.first, bucket.bound, NULL);
        bool empty = bucket.n_packs == 0;
        bucket.n_packs += empty; /* a pack without tokens */
        int32_t chosen = work->own;
        double seconds = passes_s(work, &work->strategies[chosen], &bucket, &often);
        if (i < n) {
            int32_t best = best_strategy(work, &bucket, after, &seconds);
            chosen = best >= 0 ? best : chosen;
        }
        sum_s += empty ? 0 : seconds;
        *too_many = *too_many || joins_too_many(work, &work->strategies[chosen], &bucket);
        choice->bound[i] = bucket.bound;
        choice->tp[i] = work->strategies[chosen].request.layout.tp;
        choice->pp[i] = work->strategies[chosen].request.layout.pp;
        after = chosen;
        end = bucket.first;
    }
    return sum_s;
}

/* Fill in the bounds of a set of fractions, ascending. @return number of bounds */
static int32_t bounds_of(int64_t context, uint32_t set, int64_t *bounds)
{
    int32_t n = 0;
    for (int32_t i = N_FRACTIONS; i > 0; i--)
        if ((set >> (i - 1) & 1) != 0 && context >> i > 0)
            bounds[n++] = context >> i;
    return n;
}

void hotspa_choose(const struct plan_request *request, const struct schema_ints *bounds, int64_t wait,
                   struct hotspa_choice *choice)
{
    struct choosing work;
    int64_t fractions[N_FRACTIONS];
    double least_s = INFINITY;
    bool too_many, least_too_many = true;
    open_choosing(request, &work);
    work.wait = wait;
    if (bounds->n > 0) {
        int32_t n = 0;
        while (n < bounds->n && bounds->at[n] < request->context)
            n++;
        choose_strategies(&work, bounds->at, n, choice, &too_many);
        close_choosing(&work);
        return;
    }
    for (int32_t most = 0; most <= MOST_BOUNDS; most++)
        for (uint32_t set = 0; set < 1U << N_FRACTIONS; set++) {
            struct hotspa_choice trial = {0};
            int32_t n = bounds_of(request->context, set, fractions);
            if (n != most)
                continue;
            double seconds = choose_strategies(&work, fractions, n, &trial, &too_many);
            if (too_many != least_too_many ? too_many : seconds >= least_s)
                continue;
            least_s = seconds;
            least_too_many = too_many;
            *choice = trial;
        }
    close_choosing(&work);
}
