/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This system is DynaPipe: dynamic programming finds micro-batches of unequal length.
 *
 * 1. Samples come longest first. A micro-batch is a run of them, each padded to the longest, rounded up to 8 tokens.
 *    Its time t is the seconds of its forward and backward on a stage.
 * 2. Ceilings T begin at the longest t of a single sample and rise in steps of `step` until no run is longer.
 * 3. For each T dynamic programming finds the runs of t <= T, within the memory, of the least sum. The T of the least
 *    (p - 1) T + sum / DP is kept. This is the published objective.
 * 4. The memory is first an equal share for each of p micro-batches in flight. Recompute is none, selective and full in
 * turn
 *    (`recompute: plan`: the plan's). Then it is all of it, with the same in turn. The first one with which the longest
 *    sample fits is used.
 * 5. Micro-batches go to DP ranks by Karmarkar-Karp on t.
 * 6. On each rank the micro-batches form clusters (k-means of forward and backward seconds; 4, above 20 micro-batches
 *    3), shuffled inside. Every order of the clusters, and the original order, get an adaptive schedule
 *    (order_adaptive) within the memory. The order whose critical path ends first is kept (ties: the first).
 *
 * The objective does not count whole micro-batches of a rank. With one stage only memory limits a micro-batch. So there
 * may be fewer than ranks, and a plan with more memory may take longer.
 *
 * Deviates: - Padding is computed in GEMMs, not in attention, as in all systems but `padded`. - For the dynamic
 * programming t is the sum of the samples' attention, and the rest interpolated between powers of two tokens.
 * DynaPipe's profiles do the same. The simulation takes the micro-batch itself. - k-means begins at quantiles of t.
 * Encoder-decoder models are left out. - All micro-batches of a stage count by their tokens, and all stages have the
 * memory of the tightest.
 *
 * Source: Jiang et al. 2024 (arXiv:2311.10418) and its public code, from a summary of both.
 */
#include "system/system.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/rng.h"
#include "bounds/batch_bound.h"
#include "bounds/evaluate.h"
#include "packing/packing.h"
#include "packing/samples.h"
#include "plan/order.h"

enum { MULTIPLE = 8, GRID = 32, MAX_CLUSTERS = 4, N_KMEANS = 20 };

struct dynapipe_knobs {
    double step;
    int32_t recompute; /* 0: the first that fits; 1: the plan's */
};

/* State of the current plan. */
struct work {
    struct plan_request request; /* with the recomputation of step 4 */
    int32_t n;
    int32_t *order;          /* samples, longest first */
    double *attention_s;     /* [n + 1] sums over the samples before, of both passes */
    double kernels_s[GRID];  /* of 2^i tokens, of both passes */
    double limit, memory;    /* tokens of a micro-batch; tokens of all micro-batches of a stage */
    int32_t n_micro_batches; /* they are the runs [first[i], first[i + 1]) */
    int32_t *first;
};

static struct cost_pass cost_of(const struct work *work, enum pass pass, const struct slice *slice, int32_t padding)
{
    struct cost_micro_batch micro_batch = {.slices = slice,
                                           .n_slices = slice != NULL,
                                           .padding_tokens = padding,
                                           .context = 1,
                                           .recompute = (enum recompute)work->request.layout.recompute};
    return cost_of_pass(work->request.setting, pass, &micro_batch);
}

static void measure(struct work *work)
{
    memset(work->kernels_s, 0, sizeof work->kernels_s);
    work->attention_s[0] = 0;
    for (int32_t i = 0; i < work->n; i++) {
        struct slice slice = {0, 0, work->request.batch->tokens[work->order[i]]};
        work->attention_s[i + 1] = work->attention_s[i];
        for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++)
            work->attention_s[i + 1] += cost_of(work, pass, &slice, 0).attention_s;
    }
    for (int32_t i = 0; i < GRID - 1; i++)
        for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
            struct cost_pass cost = cost_of(work, pass, NULL, 1 << i);
            work->kernels_s[i] += cost_pass_s(&cost);
        }
}

/* Return the tokens of samples [begin, end) of the order, padded. */
static int64_t tokens_of(const struct work *work, int32_t begin, int32_t end)
{
    int32_t longest = work->request.batch->tokens[work->order[begin]];
    int64_t padded = (longest + MULTIPLE - 1) / MULTIPLE * MULTIPLE;
    return (end - begin) * padded;
}

static double seconds_of(const struct work *work, int32_t begin, int32_t end)
{
    int64_t tokens = tokens_of(work, begin, end);
    int exponent = ilogb((double)tokens);
    CHECK(exponent < GRID - 2);
    double share = (double)tokens / (double)(1LL << exponent) - 1;
    return (1 - share) * work->kernels_s[exponent] + share * work->kernels_s[exponent + 1] + work->attention_s[end] -
           work->attention_s[begin];
}

/*
 * Find the runs of the least sum under a ceiling. from[end] is the begin of the last run of the first `end` samples.
 * @return the sum, -1: there are no runs
 */
static double best_under(const struct work *work, double ceiling_s, double *best_s, int32_t *from)
{
    best_s[0] = 0;
    for (int32_t end = 1; end <= work->n; end++) {
        best_s[end] = -1;
        for (int32_t begin = end - 1; begin >= 0; begin--) {
            double seconds = seconds_of(work, begin, end);
            if ((double)tokens_of(work, begin, end) > work->limit || seconds > ceiling_s)
                break; /* longer runs take more time and more memory */
            if (best_s[begin] < 0 || (best_s[end] >= 0 && best_s[begin] + seconds >= best_s[end]))
                continue;
            best_s[end] = best_s[begin] + seconds;
            from[end] = begin;
        }
    }
    return best_s[work->n];
}

/* Find the micro-batches under the ceiling of the least (p - 1) T + sum / DP. */
static void find_runs(struct work *work, double step)
{
    const struct scenario_plan *layout = &work->request.layout;
    double *best_s = check_malloc(((size_t)work->n + 1) * sizeof *best_s), least_s = 0, most_s = 0, chosen_s = -1;
    int32_t *from = check_malloc(((size_t)work->n + 1) * sizeof *from);
    double chosen_end_s = 0;
    for (int32_t i = 0; i < work->n; i++) {
        least_s = fmax(least_s, seconds_of(work, i, i + 1)); /* seconds of each sample in a run of its own */
        for (int32_t end = i + 1; end <= work->n && (double)tokens_of(work, i, end) <= work->limit; end++)
            most_s = fmax(most_s, seconds_of(work, i, end));
    }
    double least_sum_s = best_under(work, INFINITY, best_s, from);
    for (double ceiling_s = least_s;; ceiling_s *= 1 + step) {
        double bound_s = (double)(layout->pp - 1) * ceiling_s + least_sum_s / (double)layout->dp;
        if (chosen_s >= 0 && bound_s >= chosen_end_s)
            break; /* a higher ceiling increases the first term, and the sum is never less */
        double sum_s = best_under(work, ceiling_s, best_s, from);
        double end_s = (double)(layout->pp - 1) * ceiling_s + sum_s / (double)layout->dp;
        CHECK(sum_s >= 0);
        if (chosen_s < 0 || end_s < chosen_end_s) {
            chosen_s = ceiling_s;
            chosen_end_s = end_s;
        }
        if (ceiling_s >= most_s)
            break;
    }
    best_under(work, chosen_s, best_s, from);
    work->first = check_malloc(((size_t)work->n + 1) * sizeof *work->first);
    int32_t n = 0;
    for (int32_t end = work->n; end > 0; end = from[end])
        work->first[n++] = end;
    for (int32_t i = 0; i < n / 2; i++) {
        int32_t end = work->first[i];
        work->first[i] = work->first[n - 1 - i];
        work->first[n - 1 - i] = end;
    }
    memmove(work->first + 1, work->first, (size_t)n * sizeof *work->first);
    work->first[0] = 0;
    work->n_micro_batches = n;
    free(best_s);
    free(from);
}

/*
 * Find the first memory and recomputation with which the longest sample fits. Without one the last ones are used, and
 * the plan does not fit.
 */
static void find_memory(struct work *work)
{
    static const enum recompute recompute[] = {RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL};
    const struct dynapipe_knobs *knobs = work->request.knobs;
    double longest = (double)tokens_of(work, 0, 1);
    int n_recompute = knobs->recompute == 0 ? 3 : 1;
    for (int i = 0; i < 2 * n_recompute; i++) {
        if (knobs->recompute == 0)
            work->request.layout.recompute = (int32_t)recompute[i % n_recompute];
        work->limit = (double)packing_memory_tokens(&work->request);
        work->memory = work->limit * (double)work->request.layout.pp;
        if (i >= n_recompute)
            work->limit = work->memory = packing_streamed_tokens(&work->request, 1, 0);
        if (longest <= work->limit)
            return;
    }
    work->limit = work->memory = longest;
}

static void add_micro_batch(const struct work *work, int32_t number, struct plan_pipeline *pipeline)
{
    int32_t first = work->first[number], n = work->first[number + 1] - first;
    packing_add_micro_batch(&work->request, work->request.batch->tokens, work->order + first, n, pipeline);
    for (int pass = 0; pass < N_PASSES; pass++) {
        struct plan_partition *partition = &pipeline->partition[pass];
        partition->micro_batches[partition->n_micro_batches - 1].padding_tokens =
            (int32_t)(tokens_of(work, first, first + n) -
                      plan_micro_batch_tokens(partition, partition->n_micro_batches - 1));
    }
}

/* Return the seconds of one pipeline without the others. */
static double end_s(const struct work *work, struct plan_pipeline *pipeline)
{
    struct plan_phase phase = {.n_pipelines = 1, .pipelines = pipeline};
    struct plan plan = {.n_phases = 1, .shards = 1, .phases = &phase};
    struct evaluator evaluator = {0};
    struct error err = {0};
    CHECK(evaluate_time(&evaluator, &plan, work->request.setting, (struct dag_options){0}, &err));
    double makespan_s = evaluator.timeline.makespan_s;
    evaluator_free(&evaluator);
    return makespan_s;
}

/* The micro-batches of a rank while orders are tried. */
struct ordering {
    const struct work *work;
    int32_t n, n_clusters;
    const int32_t *micro_batch; /* ascending, so longest first */
    int32_t *shuffled, *cluster;
    double best_s; /* -1: no order has been tried */
    int64_t n_resolved;
};

/* Try an order, and keep it if it ends before the best one so far. */
static void try_order(struct ordering *ordering, const int32_t *order, struct plan_pipeline *best)
{
    const struct work *work = ordering->work;
    struct plan_pipeline pipeline = {.layout = best->layout};
    double *size = check_malloc((size_t)ordering->n * sizeof *size);
    for (int32_t i = 0; i < ordering->n; i++) {
        add_micro_batch(work, order[i], &pipeline);
        size[i] = (double)tokens_of(work, work->first[order[i]], work->first[order[i] + 1]);
    }
    plan_fill_need(&pipeline);
    order_adaptive(&pipeline, size, work->memory);
    free(size);
    double seconds = ordering->n > 0 ? end_s(work, &pipeline) : 0;
    ordering->n_resolved++;
    if (ordering->best_s >= 0 && seconds >= ordering->best_s) {
        plan_pipeline_free(&pipeline);
        return;
    }
    ordering->best_s = seconds;
    plan_pipeline_free(best);
    *best = pipeline;
}

/* Return forward and backward seconds of a micro-batch. */
static void point_of(const struct work *work, int32_t number, double point[N_PASSES])
{
    struct plan_pipeline pipeline = {.layout = {.tensor = 1, .context = 1, .stages = 1, .chunks = 1}};
    add_micro_batch(work, number, &pipeline);
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
        struct cost_micro_batch micro_batch = dag_micro_batch(&pipeline, pass, 0);
        struct cost_pass cost = cost_of_pass(work->request.setting, pass, &micro_batch);
        point[pass] = cost_pass_s(&cost);
    }
    plan_pipeline_free(&pipeline);
}

static double distance(const double a[N_PASSES], const double b[N_PASSES])
{
    return (a[0] - b[0]) * (a[0] - b[0]) + (a[1] - b[1]) * (a[1] - b[1]);
}

/* Move the centres to the means of their points. A centre without points stays. */
static void move_centres(const struct ordering *ordering, double (*point)[N_PASSES], double (*centre)[N_PASSES])
{
    for (int32_t c = 0; c < ordering->n_clusters; c++) {
        double sum[N_PASSES] = {0}, n = 0;
        for (int32_t i = 0; i < ordering->n; i++) {
            if (ordering->cluster[i] != c)
                continue;
            n++;
            for (int pass = 0; pass < N_PASSES; pass++)
                sum[pass] += point[i][pass];
        }
        for (int pass = 0; pass < N_PASSES && n > 0; pass++)
            centre[c][pass] = sum[pass] / n;
    }
}

/* Run k-means (Lloyd) from the quantiles of the micro-batches in their order. */
static void find_clusters(struct ordering *ordering)
{
    double(*point)[N_PASSES] = check_malloc((size_t)ordering->n * sizeof *point), centre[MAX_CLUSTERS][N_PASSES];
    for (int32_t i = 0; i < ordering->n; i++)
        point_of(ordering->work, ordering->micro_batch[i], point[i]);
    for (int32_t c = 0; c < ordering->n_clusters; c++)
        memcpy(centre[c], point[(2 * c + 1) * ordering->n / (2 * ordering->n_clusters)], sizeof centre[c]);
    for (int32_t round = 0; round < N_KMEANS; round++) {
        for (int32_t i = 0; i < ordering->n; i++) {
            ordering->cluster[i] = 0;
            for (int32_t c = 1; c < ordering->n_clusters; c++)
                if (distance(point[i], centre[c]) < distance(point[i], centre[ordering->cluster[i]]))
                    ordering->cluster[i] = c;
        }
        move_centres(ordering, point, centre);
    }
    free(point);
}

/* Try the clusters in the order of their k-th permutation. */
static void try_permutation(struct ordering *ordering, int32_t k, struct plan_pipeline *best)
{
    int32_t left[MAX_CLUSTERS], n = 0, *order = check_malloc((size_t)ordering->n * sizeof *order);
    for (int32_t c = 0; c < ordering->n_clusters; c++)
        left[c] = c;
    for (int32_t n_left = ordering->n_clusters; n_left > 0; k /= n_left--) {
        int32_t at = k % n_left, cluster = left[at];
        memmove(left + at, left + at + 1, (size_t)(n_left - 1 - at) * sizeof *left);
        for (int32_t i = 0; i < ordering->n; i++)
            if (ordering->cluster[ordering->shuffled[i]] == cluster)
                order[n++] = ordering->micro_batch[ordering->shuffled[i]];
    }
    try_order(ordering, order, best);
    free(order);
}

/* Return 0..n-1 in random order (Fisher and Yates). Caller frees. */
static int32_t *shuffled(int32_t n, struct rng *rng)
{
    int32_t *number = check_malloc((size_t)n * sizeof *number);
    for (int32_t i = 0; i < n; i++) {
        int32_t at = (int32_t)rng_index(rng, i + 1);
        number[i] = i;
        number[i] = number[at];
        number[at] = i;
    }
    return number;
}

/* Find the best order of a rank. @return number of orders tried */
static int64_t find_order(const struct work *work, const int32_t *micro_batch, int32_t n, struct rng *rng,
                          struct plan_pipeline *pipeline)
{
    struct ordering ordering = {.work = work, .n = n, .micro_batch = micro_batch, .best_s = -1};
    int32_t permutations = 1, most = n > 20 ? 3 : MAX_CLUSTERS;
    ordering.n_clusters = n < most ? n : most;
    ordering.shuffled = shuffled(n, rng);
    ordering.cluster = check_malloc((size_t)n * sizeof *ordering.cluster);
    try_order(&ordering, micro_batch, pipeline);
    if (n > 1) {
        find_clusters(&ordering);
        for (int32_t c = 2; c <= ordering.n_clusters; c++)
            permutations *= c;
        for (int32_t k = 0; k < permutations; k++)
            try_permutation(&ordering, k, pipeline);
    }
    free(ordering.shuffled);
    free(ordering.cluster);
    return ordering.n_resolved;
}

static void make_plan(struct work *work, struct plan *plan)
{
    *plan = (struct plan){.n_phases = 1, .shards = scenario_plan_shards(&work->request.layout)};
    plan->phases = check_calloc(1, sizeof *plan->phases);
    request_megatron_layout(&work->request, plan->phases);
    size_t n = (size_t)work->n_micro_batches;
    int32_t *set = check_malloc(n * sizeof *set), *own = check_malloc(n * sizeof *own);
    double *seconds = check_malloc(n * sizeof *seconds);
    for (int32_t i = 0; i < work->n_micro_batches; i++)
        seconds[i] = seconds_of(work, work->first[i], work->first[i + 1]);
    packing_differencing(seconds, work->n_micro_batches, plan->phases->n_pipelines, false, set);
    struct rng *rng = rng_create(work->request.seed, work->request.iteration, RNG_DYNAPIPE_ORDERS);
    for (int32_t rank = 0; rank < plan->phases->n_pipelines; rank++) {
        int32_t n_own = 0;
        for (int32_t i = 0; i < work->n_micro_batches; i++)
            if (set[i] == rank)
                own[n_own++] = i;
        plan->n_resolved += find_order(work, own, n_own, rng, &plan->phases->pipelines[rank]);
    }
    plan->n_candidates = plan->n_resolved;
    rng_free(rng);
    free(set);
    free(own);
    free(seconds);
}

static bool dynapipe_plan(const struct plan_request *request, void *state, struct plan *plan, struct error *err)
{
    (void)state;
    (void)err;
    const struct dynapipe_knobs *knobs = request->knobs;
    struct work work = {.request = *request, .n = request->batch->n_samples};
    work.request.layout.offload = 0;
    work.order = samples_by_length(request->batch);
    work.attention_s = check_malloc(((size_t)work.n + 1) * sizeof *work.attention_s);
    find_memory(&work);
    measure(&work);
    find_runs(&work, knobs->step);
    make_plan(&work, plan);
    free(work.order);
    free(work.attention_s);
    free(work.first);
    return true;
}

static unsigned dynapipe_decides(const void *knobs, const struct scenario_plan *layout)
{
    (void)layout;
    bool finds_recompute = ((const struct dynapipe_knobs *)knobs)->recompute == 0;
    return SYSTEM_OFFLOAD | SYSTEM_SCHEDULE | (finds_recompute ? SYSTEM_RECOMPUTE : 0);
}

static double dynapipe_lower_bound_s(const struct plan_request *request)
{
    struct plan_request least = *request;
    if (dynapipe_decides(request->knobs, &request->layout) & SYSTEM_RECOMPUTE)
        least.layout.recompute = RECOMPUTE_NONE;
    return batch_bound_whole_samples_s(&least);
}

static const struct schema_key knobs[] = {
    {"step", SCHEMA_REAL, "-", 0.001, 1, "0.02", NULL, "relative step between ceilings of a micro-batch's seconds",
     offsetof(struct dynapipe_knobs, step)},
    {"recompute", SCHEMA_CHOICE, "-", 0, 0, "auto", "auto|plan",
     "auto: the first of none, selective, full with which the longest sample fits; plan: plan.recompute",
     offsetof(struct dynapipe_knobs, recompute)},
};

const struct training_system system_dynapipe = {
    .name = "dynapipe",
    .source = "Jiang et al. 2024 (arXiv:2311.10418)",
    .meaning = "micro-batches of padded samples, by dynamic programming, Karmarkar-Karp over DP ranks, "
               "search of orders, memory-aware adaptive schedule",
    .knobs = knobs,
    .n_knobs = sizeof knobs / sizeof *knobs,
    .knobs_size = sizeof(struct dynapipe_knobs),
    .degrees = SYSTEM_TP | SYSTEM_PP | SYSTEM_EP_IN_PIPELINE,
    .whole_samples = true,
    .decides = dynapipe_decides,
    .plan = dynapipe_plan,
    .lower_bound_s = dynapipe_lower_bound_s,
};
