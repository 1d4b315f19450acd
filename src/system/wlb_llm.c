/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This system is WLB-LLM: micro-batches of different lengths and near-equal seconds. Long documents wait in queues
 * until every micro-batch can have one.
 *
 * 1. An iteration has N micro-batches, equally many on each DP rank (micro-batch k on rank k mod DP). wlb_assign
 *    assigns documents to them.
 * 2. A document's weight is the seconds that it adds to a pass of a stage and back in the cost model. They are
 *    attention Wa(d), and the rest Wl(d) in proportion to its tokens. S_max is the tokens that memory has room for.
 * 3. Context parallelism gathers keys and values (`plan.cp_type: all-gather`). Each micro-batch is sharded by document
 *    or by packed sequence, whichever takes attention less time forward and backward.
 * 4. The order is 1F1B, interleaved with `plan.vpp` above 1.
 * 5. The plan tells how many tokens wait: `delayed_tokens`. Each token that waits when the iteration ends counts for
 *    one iteration of waiting. Over many iterations their sum over the sum of trained tokens is a token's mean delay.
 *
 * Source: Wang et al. 2025 (arXiv:2503.17924): Algorithm 1 and sections 4 and 5, from a summary.
 *
 * Deviates: - An iteration has as many documents as the scenario's global batch, not as many tokens as p x DP context
 * windows. N
 *   is the windows that the batch's tokens would fill, rounded up to whole ranks (interleaved: to whole groups of p).
 *   If memory has room for less than the context, windows are that long; the paper's S_max is never less.
 * - A document longer than S_max runs in a micro-batch of its own. In the paper it would wait for ever.
 * - The thresholds, which the paper tunes on a sample, are tuned on the first iteration's documents: wlb_tune. The
 *   paper reports a mean delay of about half an iteration, which is the limit that tuning allows. It does not limit a
 *   run, whose documents are others: tokens may wait longer on average.
 * - Remainders of documents over 2 CP chunks, which the paper assigns round-robin, are shared as real numbers.
 * - An iteration that would train nothing takes all documents that wait.
 */
#include "system/system.h"

#include <stdlib.h>

#include "base/check.h"
#include "bounds/batch_bound.h"
#include "cost/cache.h"
#include "packing/packing.h"
#include "packing/samples.h"
#include "system/wlb_queues.h"

enum wlb_packing { WLB_BALANCED, WLB_ORIGINAL };
enum wlb_sharding { WLB_ADAPTIVE, WLB_PER_DOCUMENT, WLB_PER_SEQUENCE };

struct wlb_knobs {
    int32_t packing, sharding; /* enum wlb_packing, wlb_sharding */
    int64_t queues, max_tokens, micro_batches;
    struct schema_ints thresholds;
    double max_delay;
};

struct wlb_state {
    struct wlb_rule tuned; /* queues and thresholds of all iterations; n_packs 0: no iteration has run */
    int32_t n_waiting;
    struct wlb_document *waiting;
};

/* State of the current iteration. */
struct wlb_iteration {
    const struct plan_request *request;
    struct wlb_document *documents; /* documents that wait, then the batch's */
    int32_t n, n_waiting;
    int32_t *pack;
    struct wlb_rule rule;
};

/* Return the seconds of attention of all slices, forward and backward. */
static double attention_s(const struct cost_setting *setting, const struct cost_micro_batch *micro_batch)
{
    struct cost_pass costs[N_PASSES][COST_N_COMPONENTS];
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++)
        cost_cached(setting, pass, micro_batch, 1U << COST_LAYERS, costs[pass]);
    return costs[PASS_FORWARD][COST_LAYERS].attention_s + costs[PASS_BACKWARD][COST_LAYERS].attention_s;
}

/* Return the seconds that a token adds, except for attention. */
static double token_s(const struct plan_request *request)
{
    struct cost_micro_batch micro_batch = {.padding_tokens = (int32_t)request->context,
                                           .context = (int32_t)request->layout.cp,
                                           .recompute = (enum recompute)request->layout.recompute};
    double sum_s = 0;
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
        struct cost_pass cost = cost_of_pass(request->setting, pass, &micro_batch);
        sum_s += cost.kernels_s + cost.tensor_s + cost.expert_s;
    }
    return sum_s / (double)request->context;
}

/*
 * Return Wa(d) + Wl(d), with layers that the backward repeats. Wa(d) is the attention that a second document of as many
 * tokens adds to a packed kernel, without its launch.
 */
static double weight_s(const struct plan_request *request, int32_t tokens, double one_token_s)
{
    const struct slice slices[] = {{0, 0, tokens}, {1, 0, tokens}};
    struct cost_micro_batch micro_batch = {.slices = slices,
                                           .n_slices = 2,
                                           .context = (int32_t)request->layout.cp,
                                           .recompute = (enum recompute)request->layout.recompute};
    double both_s = attention_s(request->setting, &micro_batch);
    micro_batch.n_slices = 1;
    return both_s - attention_s(request->setting, &micro_batch) + tokens * one_token_s;
}

static void open_iteration(const struct plan_request *request, const struct wlb_state *state,
                           struct wlb_iteration *work)
{
    const struct batch *batch = request->batch;
    double one_token_s = token_s(request);
    *work = (struct wlb_iteration){
        .request = request, .n = state->n_waiting + batch->n_samples, .n_waiting = state->n_waiting};
    work->documents = check_malloc((size_t)work->n * sizeof *work->documents);
    work->pack = check_malloc((size_t)work->n * sizeof *work->pack);
    for (int32_t i = 0; i < work->n; i++) {
        if (i < state->n_waiting) {
            work->documents[i] = state->waiting[i];
            continue;
        }
        int32_t tokens = batch->tokens[i - state->n_waiting];
        work->documents[i] =
            (struct wlb_document){.tokens = tokens, .weight_s = weight_s(request, tokens, one_token_s)};
    }
}

/*
 * Return the micro-batches of all ranks, at most the documents. They are windows of the context, or of the memory's
 * tokens if these are fewer.
 */
static int32_t n_micro_batches(const struct plan_request *request, int64_t capacity, int32_t n_documents)
{
    const struct wlb_knobs *knobs = request->knobs;
    int32_t multiple = packing_multiple(&request->layout);
    int64_t window = capacity < request->context ? capacity : request->context;
    int64_t windows = (request->batch->n_tokens + window - 1) / window;
    windows = windows < n_documents ? windows : n_documents;
    if (knobs->micro_batches > 0)
        windows = knobs->micro_batches * request->layout.dp;
    return (int32_t)((windows + multiple - 1) / multiple * multiple);
}

/* Return S_max; the context if states by themselves exceed the memory. */
static int64_t capacity_of(const struct plan_request *request)
{
    const struct wlb_knobs *knobs = request->knobs;
    int64_t capacity = knobs->max_tokens > 0 ? knobs->max_tokens : packing_memory_tokens(request);
    return capacity > 0 ? capacity : request->context;
}

static void fill_rule(struct wlb_iteration *work, struct wlb_state *state)
{
    const struct plan_request *request = work->request;
    const struct wlb_knobs *knobs = request->knobs;
    struct wlb_rule *rule = &work->rule;
    *rule = state->tuned;
    rule->capacity = capacity_of(request);
    rule->n_packs = n_micro_batches(request, rule->capacity, work->n);
    if (state->tuned.n_packs > 0) /* tuning has run */
        return;
    rule->n_queues = knobs->thresholds.n > 0 ? knobs->thresholds.n : (int32_t)knobs->queues;
    for (int32_t i = 0; i < knobs->thresholds.n; i++)
        rule->threshold[i] = knobs->thresholds.at[i];
    if (knobs->thresholds.n == 0)
        wlb_tune(rule, work->documents, work->n, request->context, knobs->max_delay, request->seed);
    state->tuned = *rule;
}

/*
 * Assign documents in order of arrival, each to the latest window of the context or the next one. The number of windows
 * is rounded up to whole ranks.
 */
static void assign_in_order(struct wlb_iteration *work)
{
    int32_t multiple = packing_multiple(&work->request->layout), window = 0;
    int64_t room = work->request->context;
    for (int32_t i = 0; i < work->n; i++) {
        window += work->documents[i].tokens > room;
        room = work->documents[i].tokens > room ? work->request->context : room;
        room -= work->documents[i].tokens;
        work->pack[i] = window;
    }
    work->rule.n_packs = (window + multiple) / multiple * multiple;
}

/* Number the samples that run: the batch's own, then the carried ones. @return their tokens by number */
static int32_t *number_samples(const struct wlb_iteration *work, int32_t *sample, struct plan *plan)
{
    const struct batch *batch = work->request->batch;
    int32_t *tokens = check_malloc((size_t)work->n * sizeof *tokens);
    plan->delayed = check_malloc((size_t)batch->n_samples * sizeof *plan->delayed);
    plan->carried_tokens = check_malloc((size_t)work->n * sizeof *plan->carried_tokens);
    for (int32_t i = 0; i < work->n; i++) {
        bool own = i >= work->n_waiting;
        sample[i] = own ? i - work->n_waiting : batch->n_samples + plan->n_carried;
        if (work->pack[i] < 0) {
            plan->delayed_tokens += work->documents[i].tokens;
            if (own)
                plan->delayed[plan->n_delayed++] = sample[i];
            continue;
        }
        tokens[sample[i]] = work->documents[i].tokens;
        if (!own)
            plan->carried_tokens[plan->n_carried++] = work->documents[i].tokens;
    }
    return tokens;
}

/* Return the faster sharding of a micro-batch, of those that the knob allows. */
static enum slice_sharding sharding_of(const struct plan_request *request, const struct plan_partition *partition,
                                       const struct plan_micro_batch *part)
{
    const struct wlb_knobs *knobs = request->knobs;
    struct cost_micro_batch micro_batch = {.slices = partition->slices + part->first_slice,
                                           .n_slices = part->n_slices,
                                           .context = part->context,
                                           .recompute = part->recompute};
    if (knobs->sharding != WLB_ADAPTIVE || request->setting->attention == DEVICE_UNFUSED || part->context == 1)
        return knobs->sharding == WLB_PER_SEQUENCE ? SLICE_PER_SEQUENCE : SLICE_PER_DOCUMENT;
    double document_s = attention_s(request->setting, &micro_batch);
    micro_batch.sharding = SLICE_PER_SEQUENCE;
    return attention_s(request->setting, &micro_batch) < document_s ? SLICE_PER_SEQUENCE : SLICE_PER_DOCUMENT;
}

static void shard_micro_batches(const struct plan_request *request, struct plan_phase *phase)
{
    for (int32_t rank = 0; rank < phase->n_pipelines; rank++) {
        struct plan_partition *forward = &phase->pipelines[rank].partition[PASS_FORWARD];
        for (int32_t i = 0; i < forward->n_micro_batches; i++) {
            forward->micro_batches[i].sharding = sharding_of(request, forward, &forward->micro_batches[i]);
            phase->pipelines[rank].partition[PASS_BACKWARD].micro_batches[i].sharding =
                forward->micro_batches[i].sharding;
        }
    }
}

/* Make the plan of documents that are assigned. */
static bool make_plan(const struct wlb_iteration *work, struct plan *plan, struct error *err)
{
    struct plan counts = {0};
    int32_t *sample = check_malloc((size_t)work->n * sizeof *sample);
    int32_t *tokens = number_samples(work, sample, &counts);
    struct packing packing = {.n_packs = work->rule.n_packs,
                              .first = check_malloc(((size_t)work->rule.n_packs + 1) * sizeof(int32_t)),
                              .sample = check_malloc((size_t)work->n * sizeof(int32_t))};
    samples_by_bin(work->n, sample, work->pack, packing.n_packs, packing.first, packing.sample);
    bool ok = packing_plan(work->request, tokens, &packing, plan, err);
    if (ok) {
        shard_micro_batches(work->request, plan->phases);
        plan->delayed_tokens = counts.delayed_tokens;
        plan->n_delayed = counts.n_delayed;
        plan->delayed = counts.delayed;
        plan->n_carried = counts.n_carried;
        plan->carried_tokens = counts.carried_tokens;
    } else {
        plan_free(&counts);
    }
    packing_free(&packing);
    free(sample);
    free(tokens);
    return ok;
}

static bool check_request(const struct plan_request *request, struct error *err)
{
    const struct wlb_knobs *knobs = request->knobs;
    if (request->layout.cp > 1 && request->layout.cp_type != SCENARIO_ALL_GATHER)
        return error_set(err, "wlb-llm: plan.cp_type must be all-gather with plan.cp above 1: it gathers keys and "
                              "values");
    if (knobs->sharding == WLB_PER_SEQUENCE && request->setting->attention == DEVICE_UNFUSED)
        return error_set(err, "wlb-llm: sharding: per-sequence has no model with attention unfused");
    if (knobs->thresholds.n > WLB_MAX_QUEUES)
        return error_set(err, "wlb-llm: thresholds: %d are given, at most %d are allowed", knobs->thresholds.n,
                         WLB_MAX_QUEUES);
    if (knobs->thresholds.n > 1 && knobs->thresholds.at[1] <= knobs->thresholds.at[0])
        return error_set(err, "wlb-llm: thresholds must ascend; %lld follows %lld", (long long)knobs->thresholds.at[1],
                         (long long)knobs->thresholds.at[0]);
    return true;
}

static bool wlb_plan(const struct plan_request *request, void *state, struct plan *plan, struct error *err)
{
    const struct wlb_knobs *knobs = request->knobs;
    struct wlb_state *waits = state;
    struct wlb_iteration work;
    if (!check_request(request, err))
        return false;
    open_iteration(request, waits, &work);
    if (knobs->packing == WLB_ORIGINAL) {
        assign_in_order(&work);
    } else {
        fill_rule(&work, waits);
        wlb_assign(&work.rule, work.documents, work.n, work.n_waiting, work.pack);
    }
    bool ok = make_plan(&work, plan, err);
    free(waits->waiting);
    waits->waiting = work.documents;
    waits->n_waiting = wlb_keep_waiting(work.documents, work.pack, work.n);
    free(work.pack);
    return ok;
}

static void wlb_close(void *state)
{
    struct wlb_state *waits = state;
    free(waits->waiting);
}

static const struct schema_key knobs[] = {
    {"packing", SCHEMA_CHOICE, "-", 0, 0, "balanced", "balanced|original",
     "by Algorithm 1; or documents in order of arrival in windows of the context, the paper's baseline",
     offsetof(struct wlb_knobs, packing)},
    {"thresholds", SCHEMA_INTS, "tokens", 1, 1073741824, "", NULL,
     "shortest document of each queue of documents that wait; none: tuned on the first iteration's documents",
     offsetof(struct wlb_knobs, thresholds)},
    {"queues", SCHEMA_INT, "-", 0, WLB_MAX_QUEUES, "2", NULL, "most queues that tuning may use",
     offsetof(struct wlb_knobs, queues)},
    {"max_delay", SCHEMA_REAL, "-", 0, 1000, "0.5", NULL,
     "iterations that a token may wait on average while thresholds are tuned; a run of other documents may exceed it",
     offsetof(struct wlb_knobs, max_delay)},
    {"max_tokens", SCHEMA_INT, "tokens", 0, 1073741824, "0", NULL,
     "longest micro-batch, except for a longer document; 0: the tokens that memory holds if all in flight are as long",
     offsetof(struct wlb_knobs, max_tokens)},
    {"micro_batches", SCHEMA_INT, "-", 0, 1 << 20, "0", NULL,
     "micro-batches of a rank; 0: context windows, or windows of max_tokens if less, that the batch's tokens would "
     "fill",
     offsetof(struct wlb_knobs, micro_batches)},
    {"sharding", SCHEMA_CHOICE, "-", 0, 0, "adaptive", "adaptive|per-document|per-sequence",
     "sharding of a micro-batch over context ranks; adaptive: the one with less time of attention",
     offsetof(struct wlb_knobs, sharding)},
};

const struct training_system system_wlb_llm = {
    .name = "wlb-llm",
    .source = "Wang et al. 2025 (arXiv:2503.17924)",
    .meaning = "micro-batches of near-equal seconds, long documents delayed in queues; adaptive sharding over context "
               "ranks, 1F1B (interleaved with plan.vpp)",
    .knobs = knobs,
    .n_knobs = sizeof knobs / sizeof *knobs,
    .knobs_size = sizeof(struct wlb_knobs),
    .state_size = sizeof(struct wlb_state),
    .close = wlb_close,
    .degrees = SYSTEM_TP | SYSTEM_PP | SYSTEM_CP | SYSTEM_EP,
    .context_type = SCENARIO_ALL_GATHER,
    .whole_samples = true,
    .plan = wlb_plan,
    .lower_bound_s = batch_bound_any_samples_s,
};
