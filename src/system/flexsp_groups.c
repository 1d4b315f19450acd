/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "system/flexsp_groups.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "packing/packing.h"

double flexsp_sequence_s(const struct flexsp_cost *cost, double tokens, int32_t level)
{
    double ranks = (double)(1 << level);
    return (cost->quadratic_s * tokens + cost->linear_s) * tokens / ranks + cost->exchange_s[level] * tokens;
}

int32_t flexsp_widest(int32_t n_ranks)
{
    int32_t level = 0;
    while (level + 1 < FLEXSP_LEVELS && 2 << level <= n_ranks)
        level++;
    return level;
}

/* Find the ends of the runs whose sums are at most `ceiling`. @param ends  [n] or NULL. @return number of runs */
static int32_t runs_under(const int32_t *tokens, int32_t n, int64_t ceiling, int32_t *ends)
{
    int32_t n_runs = 0;
    int64_t sum = 0;
    for (int32_t i = 0; i < n; i++) {
        if (i > 0 && sum + tokens[i] > ceiling) {
            if (ends != NULL)
                ends[n_runs] = i;
            n_runs++;
            sum = 0;
        }
        sum += tokens[i];
    }
    if (ends != NULL)
        ends[n_runs] = n;
    return n_runs + 1;
}

/*
 * Find at most `most` runs with the least largest sum. With as many runs as sequences each is a run. @return number of
 * runs
 */
static int32_t runs_of(const int32_t *tokens, int32_t n, int64_t most, int32_t *ends)
{
    int64_t low = tokens[0], high = 0;
    for (int32_t i = 0; most >= n && i < n; i++)
        ends[i] = i + 1;
    if (most >= n)
        return n;
    for (int32_t i = 0; i < n; i++)
        high += tokens[i];
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (runs_under(tokens, n, middle, NULL) <= most)
            high = middle;
        else
            low = middle + 1;
    }
    return runs_under(tokens, n, low, ends);
}

/*
 * Find buckets by dynamic programming over k: the least sums of (longest - own) of the first j sequences in k buckets.
 * Buckets are added while there are fewer than `least_buckets`, or while all sequences, counted with their buckets'
 * lengths, exceed `ceiling` tokens. Caller frees the buckets. @return number of buckets
 */
static int32_t buckets_of(const int32_t *tokens, int32_t n, int32_t least_buckets, int64_t ceiling,
                          struct flexsp_bucket **buckets)
{
    int32_t n_buckets = 1;
    size_t width = (size_t)n + 1;
    int64_t *sum = check_calloc(width, sizeof *sum), *least = check_malloc(width * sizeof *least);
    int64_t *before = check_malloc(width * sizeof *before);
    int32_t *from = check_calloc(width, sizeof *from);
    for (int32_t j = 0; j < n; j++)
        sum[j + 1] = sum[j] + tokens[j];
    for (int32_t j = 1; j <= n; j++)
        least[j] = (int64_t)tokens[0] * j - sum[j];
    for (; n_buckets < n && (n_buckets < least_buckets || sum[n] + least[n] > ceiling); n_buckets++) {
        int32_t k = n_buckets;
        from = check_realloc(from, ((size_t)k + 1) * width * sizeof *from);
        memcpy(before, least, width * sizeof *least);
        for (int32_t j = k + 1; j <= n; j++) {
            least[j] = INT64_MAX;
            for (int32_t i = k; i < j; i++) {
                int64_t waste = before[i] + (int64_t)tokens[i] * (j - i) - (sum[j] - sum[i]);
                if (waste < least[j]) {
                    least[j] = waste;
                    from[(size_t)k * width + (size_t)j] = i;
                }
            }
        }
    }
    *buckets = check_malloc((size_t)n_buckets * sizeof **buckets);
    for (int32_t k = n_buckets - 1, end = n; k >= 0; k--) {
        int32_t first = from[(size_t)k * width + (size_t)end];
        (*buckets)[k] = (struct flexsp_bucket){first, end - first, tokens[first]};
        end = first;
    }
    free(sum);
    free(least);
    free(before);
    free(from);
    return n_buckets;
}

static struct flexsp_division open_division(int32_t n_ranks, int32_t n_buckets)
{
    size_t n = (size_t)n_ranks;
    return (struct flexsp_division){.level = check_malloc(n * sizeof(int32_t)),
                                    .count = check_malloc(n * (size_t)n_buckets * sizeof(int32_t)),
                                    .load_s = check_malloc(n * sizeof(double)),
                                    .tokens = check_malloc(n * sizeof(int64_t))};
}

static void close_division(struct flexsp_division *division)
{
    free(division->level);
    free(division->count);
    free(division->load_s);
    free(division->tokens);
}

/* State of the greedy on one micro-batch. */
struct greedy {
    const struct flexsp_problem *problem;
    const struct flexsp_bucket *buckets;
    int32_t n_buckets, n_free; /* n_free: ranks in no group */
    int32_t narrowest;         /* level of the smallest groups */
    double ceiling_s;
    struct flexsp_division *division;
};

/* Return the fullest group of a degree with room for one more sequence of a bucket, -1: none. */
static int32_t group_with_room(const struct greedy *greedy, int32_t level, int32_t tokens, double seconds)
{
    const struct flexsp_division *division = greedy->division;
    int32_t best = -1;
    for (int32_t i = 0; i < division->n_groups; i++)
        if (division->level[i] == level && division->load_s[i] + seconds <= greedy->ceiling_s &&
            division->tokens[i] + tokens <= greedy->problem->capacity << level &&
            (best < 0 || division->load_s[i] > division->load_s[best]))
            best = i;
    return best;
}

static int32_t new_group(struct greedy *greedy, int32_t level)
{
    struct flexsp_division *division = greedy->division;
    int32_t at = division->n_groups++;
    greedy->n_free -= 1 << level;
    division->level[at] = level;
    division->load_s[at] = greedy->problem->cost.constant_s;
    division->tokens[at] = 0;
    memset(division->count + (size_t)at * (size_t)greedy->n_buckets, 0, (size_t)greedy->n_buckets * sizeof(int32_t));
    return at;
}

static bool assign(struct greedy *greedy, int32_t bucket)
{
    const struct flexsp_problem *problem = greedy->problem;
    struct flexsp_division *division = greedy->division;
    int32_t tokens = greedy->buckets[bucket].tokens;
    for (int32_t level = greedy->narrowest; level <= flexsp_widest(problem->n_ranks); level++) {
        double seconds = flexsp_sequence_s(&problem->cost, tokens, level);
        if (tokens > problem->capacity << level || problem->cost.constant_s + seconds > greedy->ceiling_s)
            continue;
        int32_t at = group_with_room(greedy, level, tokens, seconds);
        if (at < 0 && greedy->n_free < 1 << level)
            continue;
        if (at < 0)
            at = new_group(greedy, level);
        division->count[at * greedy->n_buckets + bucket]++;
        division->tokens[at] += tokens;
        division->load_s[at] += seconds;
        division->longest_s = fmax(division->longest_s, division->load_s[at]);
        return true;
    }
    return false;
}

static bool divide_under(struct greedy *greedy, double ceiling_s)
{
    greedy->ceiling_s = ceiling_s;
    greedy->n_free = greedy->problem->n_ranks;
    greedy->division->n_groups = 0;
    greedy->division->longest_s = 0;
    for (int32_t q = 0; q < greedy->n_buckets; q++)
        for (int32_t i = 0; i < greedy->buckets[q].n; i++)
            if (!assign(greedy, q))
                return false;
    return true;
}

/*
 * Return a lower bound of C for any groups. Each sequence takes at most C less the constant, and all of them share no
 * more than all ranks.
 */
static double bound_of(const struct flexsp_problem *problem, const struct flexsp_bucket *buckets, int32_t n_buckets)
{
    double rank_s = 0, longest_s = 0;
    for (int32_t q = 0; q < n_buckets; q++) {
        double least_rank_s = DBL_MAX, least_s = DBL_MAX;
        for (int32_t level = 0; level <= flexsp_widest(problem->n_ranks); level++) {
            double seconds = flexsp_sequence_s(&problem->cost, buckets[q].tokens, level);
            if (buckets[q].tokens > problem->capacity << level)
                continue;
            least_s = fmin(least_s, seconds);
            least_rank_s = fmin(least_rank_s, seconds * (1 << level));
        }
        longest_s = fmax(longest_s, least_s);
        rank_s += buckets[q].n * least_rank_s;
    }
    return fmax(rank_s / problem->n_ranks, longest_s) + problem->cost.constant_s;
}

/*
 * Divide under a ceiling in the arrays of `other`, and keep the better division. `other` then has the worse one's
 * arrays.
 */
static bool keep_better(struct greedy *greedy, struct flexsp_division *other, double ceiling_s)
{
    struct flexsp_division swap = *other;
    struct greedy trial = *greedy;
    trial.division = &swap;
    bool better = divide_under(&trial, ceiling_s) && swap.longest_s < greedy->division->longest_s;
    *other = better ? *greedy->division : swap;
    if (better)
        *greedy->division = swap;
    return better;
}

/* Bisect the ceiling for each size of the smallest groups. `greedy` keeps the best division. */
static bool divide(struct greedy *greedy, double bound_s)
{
    enum { BISECTIONS = 24 };
    struct flexsp_division other = open_division(greedy->problem->n_ranks, greedy->n_buckets);
    greedy->division->longest_s = DBL_MAX;
    for (greedy->narrowest = 0; greedy->narrowest <= flexsp_widest(greedy->problem->n_ranks); greedy->narrowest++) {
        double low_s = bound_s;
        if (greedy->division->longest_s == DBL_MAX)
            keep_better(greedy, &other, DBL_MAX);
        for (int i = 0; i < BISECTIONS && greedy->division->longest_s > bound_s * (1 + 1e-9) &&
                        greedy->division->longest_s < DBL_MAX;
             i++) {
            double middle_s = i == 0 ? bound_s : (low_s + greedy->division->longest_s) / 2;
            if (!keep_better(greedy, &other, middle_s))
                low_s = middle_s;
        }
    }
    close_division(&other);
    return greedy->division->longest_s < DBL_MAX;
}

/* Add the sequences of a division to the result. */
static void add_groups(const struct greedy *greedy, int32_t micro_batch, int32_t first, const int32_t *tokens,
                       struct flexsp_result *result)
{
    const struct flexsp_division *division = greedy->division;
    int32_t *next = check_malloc((size_t)greedy->n_buckets * sizeof *next);
    for (int32_t q = 0; q < greedy->n_buckets; q++)
        next[q] = first + greedy->buckets[q].first;
    result->groups =
        check_realloc(result->groups, (size_t)(result->n_groups + division->n_groups) * sizeof *result->groups);
    for (int32_t level = FLEXSP_LEVELS - 1; level >= 0; level--)
        for (int32_t i = 0; i < division->n_groups; i++) {
            if (division->level[i] != level || division->tokens[i] == 0)
                continue;
            struct flexsp_group *group = &result->groups[result->n_groups++];
            *group = (struct flexsp_group){
                .micro_batch = micro_batch, .level = level, .seconds = greedy->problem->cost.constant_s};
            const int32_t *count = division->count + i * greedy->n_buckets;
            for (int32_t q = 0; q < greedy->n_buckets; q++) {
                group->sequence =
                    check_realloc(group->sequence, (size_t)(group->n + count[q]) * sizeof *group->sequence);
                for (int32_t k = 0; k < count[q]; k++) {
                    group->seconds += flexsp_sequence_s(&greedy->problem->cost, tokens[next[q]], level);
                    group->sequence[group->n++] = next[q]++;
                }
            }
        }
    free(next);
}

/* Add sequences [first, end) to the result as a micro-batch. */
static bool solve_run(const struct flexsp_problem *problem, const int32_t *tokens, int32_t first, int32_t end,
                      struct flexsp_result *result)
{
    struct flexsp_bucket *buckets;
    int64_t all = 0, room = problem->capacity * problem->n_ranks;
    for (int32_t i = first; i < end; i++)
        all += tokens[i];
    if (all > room)
        return false;
    int32_t n_buckets = buckets_of(tokens + first, end - first, problem->n_buckets, (all + room) / 2, &buckets);
    double bound_s = bound_of(problem, buckets, n_buckets);
    struct flexsp_division division = open_division(problem->n_ranks, n_buckets);
    struct greedy greedy = {.problem = problem, .buckets = buckets, .n_buckets = n_buckets, .division = &division};
    bool ok = divide(&greedy, bound_s);
    if (ok) {
        double gap = fmax(0, 1 - bound_s / division.longest_s);
        if (gap > 1e-3)
            gap = flexsp_milp(problem, buckets, n_buckets, bound_s, &division, &result->n_nodes);
        add_groups(&greedy, result->n_micro_batches++, first, tokens, result);
        result->gap = fmax(result->gap, gap);
        result->planned_s += division.longest_s;
    }
    close_division(&division);
    free(buckets);
    return ok;
}

void flexsp_result_free(struct flexsp_result *result)
{
    for (int32_t i = 0; i < result->n_groups; i++)
        free(result->groups[i].sequence);
    free(result->groups);
    *result = (struct flexsp_result){0};
}

/* Return the most seconds of a group of the micro-batch that begins with *group. *group moves on to the next one's. */
static double micro_batch_s(const struct flexsp_result *result, int32_t *group)
{
    int32_t micro_batch = result->groups[*group].micro_batch;
    double longest_s = 0;
    for (; *group < result->n_groups && result->groups[*group].micro_batch == micro_batch; ++*group)
        longest_s = fmax(longest_s, result->groups[*group].seconds);
    return longest_s;
}

double flexsp_predicted_s(const struct flexsp_result *result)
{
    double sum = 0;
    for (int32_t group = 0; group < result->n_groups;)
        sum += micro_batch_s(result, &group);
    return sum;
}

/*
 * Return the problem with room for the longest sequence, and for at most n like it. GLPK works best
 * with small numbers.
 */
static struct flexsp_problem with_room(const struct flexsp_problem *problem, int64_t longest, int32_t n)
{
    struct flexsp_problem own = *problem;
    int64_t width = (int64_t)1 << flexsp_widest(problem->n_ranks), least = (longest + width - 1) / width;
    own.capacity = own.capacity > least ? own.capacity : least;
    own.capacity = own.capacity < longest * n ? own.capacity : longest * n;
    return own;
}

void flexsp_solve(const struct flexsp_problem *problem, const int32_t *tokens, int32_t n, struct flexsp_result *result)
{
    struct flexsp_problem own = with_room(problem, tokens[0], n);
    int32_t *ends = check_malloc((size_t)n * sizeof *ends), n_before = 0;
    int64_t n_tokens = 0, n_candidates = 0, n_nodes = 0, room = own.capacity * own.n_ranks;
    bool found = false;
    *result = (struct flexsp_result){0};
    for (int32_t i = 0; i < n; i++)
        n_tokens += tokens[i];
    int64_t least = (n_tokens + room - 1) / room;
    for (int64_t m = least; m <= n && (m < least + own.n_trials || !found); m++) {
        struct flexsp_result trial = {0};
        int32_t n_runs = runs_of(tokens, n, m, ends);
        bool ok = n_runs != n_before; /* fewer micro-batches gave the same runs */
        for (int32_t i = 0; ok && i < n_runs; i++)
            ok = solve_run(&own, tokens, i > 0 ? ends[i - 1] : 0, ends[i], &trial);
        n_candidates += n_runs != n_before;
        n_before = n_runs;
        n_nodes += trial.n_nodes;
        if (ok && (!found || flexsp_predicted_s(&trial) < flexsp_predicted_s(result))) {
            struct flexsp_result swap = *result;
            *result = trial;
            trial = swap;
            found = true;
        }
        flexsp_result_free(&trial);
    }
    CHECK(found); /* with as many micro-batches as sequences each has room */
    result->n_candidates = n_candidates;
    result->n_nodes = n_nodes;
    free(ends);
}

void flexsp_fixed(const struct flexsp_problem *problem, const int32_t *tokens, int32_t n, int32_t level,
                  struct flexsp_result *result)
{
    int64_t capacity = (int64_t)(0.9 * (double)(problem->capacity << level)), most = (1 << 30) - 1, sum = 0;
    int32_t *order = check_malloc((size_t)n * sizeof *order), n_each = problem->n_ranks >> level;
    struct packing packing;
    for (int32_t i = 0; i < n; i++) {
        order[i] = i;
        sum += tokens[i];
    }
    most = sum < most ? sum : most; /* best fit takes memory in proportion to its capacity */
    capacity = capacity < most ? capacity : most;
    packing_best_fit(tokens, n, order, (int32_t)(capacity > tokens[0] ? capacity : tokens[0]), &packing);
    *result = (struct flexsp_result){.n_micro_batches = (packing.n_packs + n_each - 1) / n_each,
                                     .n_groups = packing.n_packs,
                                     .groups = check_calloc((size_t)packing.n_packs, sizeof *result->groups),
                                     .n_candidates = 1};
    double longest_s = 0;
    for (int32_t i = 0; i < packing.n_packs; i++) {
        struct flexsp_group *group = &result->groups[i];
        *group = (struct flexsp_group){.micro_batch = i / n_each,
                                       .level = level,
                                       .n = packing.first[i + 1] - packing.first[i],
                                       .seconds = problem->cost.constant_s};
        group->sequence = check_malloc((size_t)group->n * sizeof *group->sequence);
        memcpy(group->sequence, packing.sample + packing.first[i], (size_t)group->n * sizeof *group->sequence);
        for (int32_t k = 0; k < group->n; k++)
            group->seconds += flexsp_sequence_s(&problem->cost, tokens[group->sequence[k]], level);
        longest_s = i % n_each == 0 ? group->seconds : fmax(longest_s, group->seconds);
        if (i % n_each == n_each - 1 || i == packing.n_packs - 1)
            result->planned_s += longest_s;
    }
    packing_free(&packing);
    free(order);
}
