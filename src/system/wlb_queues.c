/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "system/wlb_queues.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/compare.h"
#include "base/rng.h"

/* Documents of one iteration: those that wait, then the new ones. */
struct iteration {
    struct wlb_document *documents;
    int32_t n, n_waiting;
    const int32_t *longest_first; /* [n - n_waiting] new documents, numbered from 0 */
};

/* Return the queue of a document's length, WLB_REMAINED: none. */
static int32_t queue_of(const struct wlb_rule *rule, int32_t tokens)
{
    int32_t queue = WLB_REMAINED;
    while (queue + 1 < rule->n_queues && tokens >= rule->threshold[queue + 1])
        queue++;
    return queue;
}

/* Let the `most` oldest documents of a queue join those that run. @return number of documents that run now */
static int32_t pop(const struct wlb_document *documents, int32_t n, int32_t queue, int32_t most, int32_t *runs,
                   int32_t n_runs)
{
    for (int32_t i = 0, popped = 0; i < n && popped < most; i++)
        if (documents[i].queue == queue) {
            runs[n_runs++] = i;
            popped++;
        }
    return n_runs;
}

static int32_t n_of_queue(const struct wlb_document *documents, int32_t n, int32_t queue)
{
    int32_t count = 0;
    for (int32_t i = 0; i < n; i++)
        count += documents[i].queue == queue;
    return count;
}

static int longest_first(const void *a, const void *b, void *documents)
{
    int32_t i = *(const int32_t *)a, j = *(const int32_t *)b;
    const struct wlb_document *document = documents;
    return document[i].tokens != document[j].tokens ? COMPARE(document[j].tokens, document[i].tokens) : COMPARE(i, j);
}

static int in_turn(const void *a, const void *b, void *documents)
{
    const struct wlb_document *document = documents;
    return COMPARE(document[*(const int32_t *)a].turn, document[*(const int32_t *)b].turn);
}

/* List the documents that leave their queues, longest first. @return their number */
static int32_t leave_queues(const struct wlb_rule *rule, struct wlb_document *documents, int32_t n, bool all,
                            int32_t *left)
{
    int32_t n_left = 0;
    for (int32_t queue = 0; queue < rule->n_queues; queue++)
        if (all || n_of_queue(documents, n, queue) >= rule->n_packs)
            n_left = pop(documents, n, queue, all ? n : rule->n_packs, left, n_left);
    qsort_r(left, (size_t)n_left, sizeof *left, longest_first, documents);
    return n_left;
}

/* List the documents in the order in which they are assigned. @return their number */
static int32_t line_up(const struct wlb_rule *rule, const struct iteration *iteration, int32_t *runs)
{
    struct wlb_document *documents = iteration->documents;
    int32_t n = iteration->n, n_waiting = iteration->n_waiting, *left = check_malloc((size_t)n * sizeof *left);
    int32_t n_runs = pop(documents, n_waiting, WLB_REMAINED, n_waiting, runs, 0), next = 0;
    qsort_r(runs, (size_t)n_runs, sizeof *runs, in_turn, documents);
    for (int32_t i = n_waiting; i < n; i++)
        documents[i].queue = queue_of(rule, documents[i].tokens);
    int32_t n_left = leave_queues(rule, documents, n, false, left);
    for (int32_t k = 0; k < n - n_waiting; k++) { /* merge them with the new ones */
        int32_t i = n_waiting + iteration->longest_first[k];
        while (documents[i].queue == WLB_REMAINED && next < n_left && longest_first(&left[next], &i, documents) < 0)
            runs[n_runs++] = left[next++];
        if (documents[i].queue == WLB_REMAINED)
            runs[n_runs++] = i;
    }
    while (next < n_left)
        runs[n_runs++] = left[next++];
    if (n_runs == 0)
        n_runs = leave_queues(rule, documents, n, true, runs);
    free(left);
    return n_runs;
}

/* Growing sums and the least of them: a tree of winners, with leaves from n_leaves on. */
struct sums {
    int32_t n_leaves; /* a power of two */
    int32_t *winner;  /* [2 n_leaves] of each node: the least sum below it; ties: the lowest number */
    double *sum;      /* [n_leaves] */
};

static struct sums open_sums(int32_t n)
{
    struct sums sums = {.n_leaves = 1};
    while (sums.n_leaves < n)
        sums.n_leaves *= 2;
    sums.sum = check_calloc((size_t)sums.n_leaves, sizeof *sums.sum);
    sums.winner = check_calloc(2 * (size_t)sums.n_leaves, sizeof *sums.winner);
    for (int32_t i = 0; i < sums.n_leaves; i++) {
        sums.winner[sums.n_leaves + i] = i;
        sums.sum[i] = i < n ? 0 : INFINITY;
    }
    for (int32_t node = sums.n_leaves - 1; node > 0; node--)
        sums.winner[node] = sums.winner[2 * node]; /* all sums are equal */
    return sums;
}

static int32_t least_of(const struct sums *sums)
{
    return sums->winner[1];
}

static void add_to(struct sums *sums, int32_t i, double what)
{
    sums->sum[i] += what;
    for (int32_t node = (sums->n_leaves + i) / 2; node > 0; node /= 2) {
        int32_t left = sums->winner[2 * node], right = sums->winner[2 * node + 1];
        sums->winner[node] = sums->sum[right] < sums->sum[left] ? right : left;
    }
}

static void close_sums(struct sums *sums)
{
    free(sums->winner);
    free(sums->sum);
}

static void assign(const struct wlb_rule *rule, const struct iteration *iteration, int32_t *pack)
{
    struct sums load_s = open_sums(rule->n_packs), length = open_sums(rule->n_packs); /* tokens are exact */
    int32_t *runs = check_malloc((size_t)iteration->n * sizeof *runs), n_runs = line_up(rule, iteration, runs);
    for (int32_t i = 0; i < iteration->n; i++)
        pack[i] = -1;
    for (int32_t i = 0; i < n_runs; i++) {
        struct wlb_document *document = &iteration->documents[runs[i]];
        double most = (double)(rule->capacity - document->tokens);
        int32_t to = least_of(&load_s);
        to = length.sum[to] <= most ? to : least_of(&length);
        document->queue = WLB_REMAINED;
        document->turn = i;
        if (length.sum[to] > most && length.sum[to] > 0)
            continue;
        pack[runs[i]] = to;
        add_to(&load_s, to, document->weight_s);
        add_to(&length, to, document->tokens);
    }
    close_sums(&load_s);
    close_sums(&length);
    free(runs);
}

/* Return the numbers of documents, longest first. Caller frees. */
static int32_t *sort(struct wlb_document *documents, int32_t n)
{
    int32_t *order = check_malloc((size_t)n * sizeof *order);
    for (int32_t i = 0; i < n; i++)
        order[i] = i;
    qsort_r(order, (size_t)n, sizeof *order, longest_first, documents);
    return order;
}

void wlb_assign(const struct wlb_rule *rule, struct wlb_document *documents, int32_t n, int32_t n_waiting,
                int32_t *pack)
{
    int32_t *order = sort(documents + n_waiting, n - n_waiting);
    assign(rule, &(struct iteration){documents, n, n_waiting, order}, pack);
    free(order);
}

int32_t wlb_keep_waiting(struct wlb_document *documents, const int32_t *pack, int32_t n)
{
    int32_t n_waiting = 0;
    for (int32_t i = 0; i < n; i++)
        if (pack[i] < 0)
            documents[n_waiting++] = documents[i];
    return n_waiting;
}

double wlb_imbalance(const struct wlb_document *documents, const int32_t *pack, int32_t n, int32_t n_packs)
{
    double *load_s = check_calloc((size_t)n_packs, sizeof *load_s), most_s = 0, sum_s = 0;
    int32_t n_used = 0;
    for (int32_t i = 0; i < n; i++)
        if (pack[i] >= 0)
            load_s[pack[i]] += documents[i].weight_s;
    for (int32_t i = 0; i < n_packs; i++) {
        most_s = fmax(most_s, load_s[i]);
        sum_s += load_s[i];
        n_used += load_s[i] > 0;
    }
    free(load_s);
    return sum_s > 0 ? most_s * n_used / sum_s : 0;
}

enum { N_TRIAL_ITERATIONS = 16 };

/* The result of a rule. */
struct rule_result {
    double imbalance; /* mean */
    double delay;     /* mean iterations that a token waits */
};

/* Return whether a result has less imbalance than the limit, and at most its delay. */
static bool is_useful(const struct rule_result *result, const struct rule_result *limit)
{
    return result->delay <= limit->delay && result->imbalance < limit->imbalance;
}

/* Documents of all iterations that are tried, and the orders of each. */
struct drawn {
    int32_t n; /* documents of an iteration */
    struct wlb_document *documents;
    int32_t *longest_first[N_TRIAL_ITERATIONS];
};

/* Return the result of a rule. The evaluation ends once the rule cannot be useful, since each degree is at least 1. */
static struct rule_result evaluate_rule(const struct wlb_rule *rule, const struct drawn *drawn,
                                        const struct rule_result *limit)
{
    int32_t n = drawn->n;
    size_t n_all = (size_t)n * N_TRIAL_ITERATIONS;
    struct wlb_document *documents = check_malloc(n_all * sizeof *documents);
    int32_t *pack = check_malloc(n_all * sizeof *pack), n_waiting = 0;
    double waited = 0, tokens = 0, sum = 0;
    struct rule_result result = {0};
    for (size_t i = 0; i < n_all; i++)
        tokens += drawn->documents[i].tokens;
    for (int32_t iteration = 0; iteration < N_TRIAL_ITERATIONS && is_useful(&result, limit); iteration++) {
        int32_t n_left = N_TRIAL_ITERATIONS - 1 - iteration;
        memcpy(documents + n_waiting, drawn->documents + (size_t)iteration * (size_t)n, (size_t)n * sizeof *documents);
        assign(rule, &(struct iteration){documents, n_waiting + n, n_waiting, drawn->longest_first[iteration]}, pack);
        sum += wlb_imbalance(documents, pack, n_waiting + n, rule->n_packs) / N_TRIAL_ITERATIONS;
        result.imbalance = sum + (1 - 1e-9) * n_left / N_TRIAL_ITERATIONS; /* sums are rounded */
        n_waiting = wlb_keep_waiting(documents, pack, n_waiting + n);
        for (int32_t i = 0; i < n_waiting; i++)
            waited += documents[i].tokens;
        result.delay = waited / tokens;
    }
    free(documents);
    free(pack);
    return result;
}

static void draw(const struct wlb_document *sample, int32_t n, int64_t seed, struct drawn *drawn)
{
    *drawn = (struct drawn){n, check_malloc((size_t)n * N_TRIAL_ITERATIONS * sizeof *drawn->documents), {NULL}};
    struct rng *rng = rng_create(seed, 0, RNG_WLB_TRIALS);
    for (int32_t i = 0; i < n * N_TRIAL_ITERATIONS; i++)
        drawn->documents[i] = sample[rng_index(rng, n)];
    for (int32_t i = 0; i < N_TRIAL_ITERATIONS; i++)
        drawn->longest_first[i] = sort(drawn->documents + (size_t)i * (size_t)n, n);
    rng_free(rng);
}

static void close_drawn(struct drawn *drawn)
{
    for (int32_t i = 0; i < N_TRIAL_ITERATIONS; i++)
        free(drawn->longest_first[i]);
    free(drawn->documents);
}

void wlb_tune(struct wlb_rule *rule, const struct wlb_document *sample, int32_t n, int64_t context, double max_delay,
              int64_t seed)
{
    const int64_t thresholds[] = {context / 8, context / 4, context / 2, context * 3 / 4};
    enum { N = sizeof thresholds / sizeof *thresholds };
    int32_t most = rule->n_queues;
    struct wlb_rule best = *rule, other = *rule;
    best.n_queues = 0;
    if (most == 0)
        return;
    struct drawn drawn;
    draw(sample, n, seed, &drawn);
    struct rule_result limit = {INFINITY, INFINITY};
    limit = (struct rule_result){evaluate_rule(&best, &drawn, &limit).imbalance, max_delay};
    for (int32_t first = 0; first < N; first++)
        for (int32_t second = first; second < N; second++) {
            other.n_queues = second > first ? 2 : 1;
            other.threshold[0] = thresholds[first];
            other.threshold[1] = thresholds[second];
            if (other.n_queues > most || thresholds[first] < 1)
                continue;
            struct rule_result result = evaluate_rule(&other, &drawn, &limit);
            if (!is_useful(&result, &limit))
                continue;
            limit.imbalance = result.imbalance;
            best = other;
        }
    close_drawn(&drawn);
    *rule = best;
}
