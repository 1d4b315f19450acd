/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "system/wlb_queues.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/rng.h"

/* The queue of a document's length, WLB_REMAINED: none. */
static int32_t queue_of(const struct wlb_rule *rule, int32_t tokens)
{
    int32_t queue = WLB_REMAINED;
    while (queue + 1 < rule->n_queues && tokens >= rule->threshold[queue + 1])
        queue++;
    return queue;
}

/* The `most` oldest documents of a queue join those that run. @return how many run now */
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
    if (document[i].tokens != document[j].tokens)
        return document[i].tokens > document[j].tokens ? -1 : 1;
    return (i > j) - (i < j);
}

/* Documents in the order they are dealt. @return how many */
static int32_t line_up(const struct wlb_rule *rule, struct wlb_document *documents, int32_t n, int32_t n_waiting,
                       int32_t *runs)
{
    int32_t n_remained = pop(documents, n_waiting, WLB_REMAINED, n_waiting, runs, 0), n_runs = n_remained;
    for (int32_t i = n_waiting; i < n; i++) {
        documents[i].queue = queue_of(rule, documents[i].tokens);
        if (documents[i].queue == WLB_REMAINED)
            runs[n_runs++] = i;
    }
    for (int32_t queue = 0; queue < rule->n_queues; queue++)
        if (n_of_queue(documents, n, queue) >= rule->n_packs)
            n_runs = pop(documents, n, queue, rule->n_packs, runs, n_runs);
    for (int32_t queue = 0; n_runs == 0 && queue < rule->n_queues; queue++)
        n_runs = pop(documents, n, queue, n, runs, n_runs);
    qsort_r(runs + n_remained, (size_t)(n_runs - n_remained), sizeof *runs, longest_first, documents);
    return n_runs;
}

/* Sums that grow, and the least of them: a tree of winners, the leaves from n_leaves on. */
struct sums {
    int32_t n_leaves; /* a power of two */
    int32_t *winner;  /* [2 n_leaves] of each node: the least sum below it, the lowest number first */
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
        sums.winner[node] = sums.winner[2 * node]; /* all are alike */
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

/* Of micro-batches: seldom asked for. */
static int32_t shortest_of(const int64_t *length, int32_t n)
{
    int32_t least = 0;
    for (int32_t i = 1; i < n; i++)
        least = length[i] < length[least] ? i : least;
    return least;
}

void wlb_deal(const struct wlb_rule *rule, struct wlb_document *documents, int32_t n, int32_t n_waiting, int32_t *pack)
{
    struct sums load_s = open_sums(rule->n_packs);
    int64_t *length = check_calloc((size_t)rule->n_packs, sizeof *length);
    int32_t *runs = check_malloc((size_t)n * sizeof *runs), n_runs = line_up(rule, documents, n, n_waiting, runs);
    for (int32_t i = 0; i < n; i++)
        pack[i] = -1;
    for (int32_t i = 0; i < n_runs; i++) {
        struct wlb_document *document = &documents[runs[i]];
        int64_t most = rule->capacity - document->tokens;
        int32_t to = least_of(&load_s);
        to = length[to] <= most ? to : shortest_of(length, rule->n_packs);
        document->queue = WLB_REMAINED;
        if (length[to] > most)
            continue;
        pack[runs[i]] = to;
        add_to(&load_s, to, document->weight_s);
        length[to] += document->tokens;
    }
    close_sums(&load_s);
    free(length);
    free(runs);
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

/* What a rule comes to. */
struct trial {
    double imbalance; /* mean */
    double delay;     /* iterations that a token waits, mean */
};

/* Under limit: the imbalance below, the delay at most that. */
static bool is_useful(const struct trial *trial, const struct trial *limit)
{
    return trial->delay <= limit->delay && trial->imbalance < limit->imbalance;
}

/* Documents of so many iterations, n each, under a rule; given up once it is of no use: a degree is at least 1. */
static struct trial trial_of(const struct wlb_rule *rule, const struct wlb_document *drawn, int32_t n,
                             const struct trial *limit)
{
    size_t n_all = (size_t)n * N_TRIAL_ITERATIONS;
    struct wlb_document *documents = check_malloc(n_all * sizeof *documents);
    int32_t *pack = check_malloc(n_all * sizeof *pack), n_waiting = 0;
    double waited = 0, tokens = 0, sum = 0;
    struct trial trial = {0};
    for (size_t i = 0; i < n_all; i++)
        tokens += drawn[i].tokens;
    for (int32_t iteration = 0; iteration < N_TRIAL_ITERATIONS && is_useful(&trial, limit); iteration++) {
        int32_t n_left = N_TRIAL_ITERATIONS - 1 - iteration;
        memcpy(documents + n_waiting, drawn + (size_t)iteration * (size_t)n, (size_t)n * sizeof *documents);
        wlb_deal(rule, documents, n_waiting + n, n_waiting, pack);
        sum += wlb_imbalance(documents, pack, n_waiting + n, rule->n_packs) / N_TRIAL_ITERATIONS;
        trial.imbalance = sum + (1 - 1e-9) * n_left / N_TRIAL_ITERATIONS; /* sums are rounded */
        n_waiting = wlb_keep_waiting(documents, pack, n_waiting + n);
        for (int32_t i = 0; i < n_waiting; i++)
            waited += documents[i].tokens;
        trial.delay = waited / tokens;
    }
    free(documents);
    free(pack);
    return trial;
}

/* Documents of all trial iterations. Caller frees. */
static struct wlb_document *draw(const struct wlb_document *sample, int32_t n, int64_t seed)
{
    struct wlb_document *drawn = check_malloc((size_t)n * N_TRIAL_ITERATIONS * sizeof *drawn);
    struct rng *rng = rng_create(seed, 0, RNG_WLB_TRIALS);
    for (int32_t i = 0; i < n * N_TRIAL_ITERATIONS; i++)
        drawn[i] = sample[rng_index(rng, n)];
    rng_free(rng);
    return drawn;
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
    struct wlb_document *drawn = draw(sample, n, seed);
    struct trial limit = {INFINITY, INFINITY};
    limit = (struct trial){trial_of(&best, drawn, n, &limit).imbalance, max_delay};
    for (int32_t first = 0; first < N; first++)
        for (int32_t second = first; second < N; second++) {
            other.n_queues = second > first ? 2 : 1;
            other.threshold[0] = thresholds[first];
            other.threshold[1] = thresholds[second];
            if (other.n_queues > most || thresholds[first] < 1)
                continue;
            struct trial trial = trial_of(&other, drawn, n, &limit);
            if (!is_useful(&trial, &limit))
                continue;
            limit.imbalance = trial.imbalance;
            best = other;
        }
    free(drawn);
    *rule = best;
}
