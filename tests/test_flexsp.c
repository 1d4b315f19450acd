/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check the plans of FlexSP. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "hand_request.h"
#include "harness.h"
#include "system/flexsp_groups.h"

/* A group costs s^2 / d + 2 s / d seconds and one more. A token's exchange takes 1/4 s among two ranks, 1/2 among
 * four. */
static struct flexsp_problem problem_of(int32_t n_ranks, int64_t capacity)
{
    return (struct flexsp_problem){
        .cost = {.quadratic_s = 1, .linear_s = 2, .constant_s = 1, .exchange_s = {0, 0.25, 0.5, 1}},
        .n_ranks = n_ranks,
        .capacity = capacity,
        .n_buckets = 16,
        .n_trials = 5,
        .node_limit = 2000,
        .max_columns = 2000};
}

/* Write the degrees and sequences of each micro-batch's groups: "0: 4{0} 1{1 2}". The storage is static. */
static const char *text_of(const struct flexsp_result *result)
{
    static char text[1024];
    size_t n = 0;
    text[0] = '\0';
    for (int32_t i = 0; i < result->n_groups; i++) {
        const struct flexsp_group *group = &result->groups[i];
        if (i == 0 || group->micro_batch != result->groups[i - 1].micro_batch)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%d:", i > 0 ? " " : "", group->micro_batch);
        n += (size_t)snprintf(text + n, sizeof text - n, " %d{", 1 << group->level);
        for (int32_t k = 0; k < group->n; k++)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%d", k > 0 ? " " : "", group->sequence[k]);
        n += (size_t)snprintf(text + n, sizeof text - n, "}");
        CHECK(n < sizeof text);
    }
    return text;
}

TEST(flexsp__costs_sequences_by_the_formula)
{
    struct flexsp_problem problem = problem_of(8, 100);
    CHECK_CLOSE(flexsp_sequence_s(&problem.cost, 10, 0), 100 + 20, 1e-15);
    CHECK_CLOSE(flexsp_sequence_s(&problem.cost, 10, 1), 50 + 10 + 2.5, 1e-15);
    CHECK_CLOSE(flexsp_sequence_s(&problem.cost, 10, 3), 12.5 + 2.5 + 10, 1e-15);
    CHECK_EQUAL(flexsp_widest(8), 3);
    CHECK_EQUAL(flexsp_widest(7), 2);
    CHECK_EQUAL(flexsp_widest(1), 0);
}

/* 4 ranks have 8 tokens each. 8 + 2 + 2 = 12 of 32, so one micro-batch has room. The sequence of 8 takes 80 + 1 s on
 * one rank, 40 + 2 + 1 = 43 on two, 20 + 4 + 1 = 25 on four. One of 2 takes 9 on one, 4 + .5 + 1 = 5.5 on two. In one
 * micro-batch either the 8 has two ranks, 43, or all are on four: 20 + 4 + 2 (2 + 1) + 1 = 31. Two micro-batches take
 * 25 + 5.5 and win. If a token takes 5 s of exchange among four, the 8 takes 61 there. Then it has two ranks, 43, and
 * the others are beside it. */
TEST(flexsp__divides_a_small_batch_as_by_hand)
{
    static const int32_t tokens[] = {8, 2, 2};
    struct flexsp_problem problem = problem_of(4, 8);
    struct flexsp_result result;
    flexsp_solve(&problem, tokens, 3, &result);
    CHECK_TEXT(text_of(&result), "0: 4{0} 1: 2{1} 2{2}");
    CHECK_CLOSE(result.planned_s, 30.5, 1e-12);
    CHECK_CLOSE(result.groups[0].seconds, 25, 1e-12);
    CHECK_TRUE(result.gap < 1e-9);
    flexsp_result_free(&result);
    problem.cost.exchange_s[2] = 5;
    flexsp_solve(&problem, tokens, 3, &result);
    CHECK_TEXT(text_of(&result), "0: 2{0} 1{1 2}");
    CHECK_CLOSE(result.planned_s, 43, 1e-12);
    flexsp_result_free(&result);
}

/* Find the least C of a micro-batch by trying everything. Groups are given by degrees, descending, then each sequence
 * to each group. */
struct brute {
    const struct flexsp_problem *problem;
    const int32_t *tokens;
    int32_t n, n_groups, level[8];
    double load_s[8], best_s;
    int64_t used[8];
};

static void deal(struct brute *brute, int32_t sequence)
{
    if (sequence == brute->n) {
        double longest_s = 0;
        for (int32_t i = 0; i < brute->n_groups; i++)
            longest_s = brute->used[i] > 0 ? fmax(longest_s, brute->load_s[i]) : longest_s;
        brute->best_s = fmin(brute->best_s, longest_s);
        return;
    }
    for (int32_t i = 0; i < brute->n_groups; i++) {
        int32_t tokens = brute->tokens[sequence];
        double seconds = flexsp_sequence_s(&brute->problem->cost, tokens, brute->level[i]);
        if (brute->used[i] + tokens > brute->problem->capacity << brute->level[i])
            continue;
        brute->used[i] += tokens;
        brute->load_s[i] += seconds;
        deal(brute, sequence + 1);
        brute->used[i] -= tokens;
        brute->load_s[i] -= seconds;
    }
}

static void form(struct brute *brute, int32_t n_free, int32_t widest)
{
    if (n_free == 0) {
        for (int32_t i = 0; i < brute->n_groups; i++)
            brute->load_s[i] = brute->problem->cost.constant_s;
        deal(brute, 0);
        return;
    }
    for (int32_t level = widest; level >= 0; level--) {
        if (1 << level > n_free)
            continue;
        brute->level[brute->n_groups++] = level;
        form(brute, n_free - (1 << level), level);
        brute->n_groups--;
    }
}

/* A micro-batch has few sequences, a bucket each. The program solved to the end finds the least C there is. If it is
 * not solved to the end, the gap that it gives is true. */
TEST(flexsp_milp__finds_the_optimum)
{
    for (uint64_t seed = 1; seed <= 30; seed++) {
        uint64_t state = seed;
        int32_t n_ranks = 2 + hand_below(&state, 5), n = 2 + hand_below(&state, 4), tokens[8] = {0};
        for (int32_t i = 0; i < n; i++)
            tokens[i] = 1 + hand_below(&state, 30);
        for (int32_t i = 1; i < n; i++)
            for (int32_t j = i; j > 0 && tokens[j] > tokens[j - 1]; j--) {
                int32_t swap = tokens[j];
                tokens[j] = tokens[j - 1];
                tokens[j - 1] = swap;
            }
        struct flexsp_problem problem = problem_of(n_ranks, 60);
        problem.n_trials = 1;
        struct brute brute = {.problem = &problem, .tokens = tokens, .n = n, .best_s = INFINITY};
        form(&brute, n_ranks, flexsp_widest(n_ranks));
        struct flexsp_result result;
        flexsp_solve(&problem, tokens, n, &result);
        CHECK_EQUAL(result.n_micro_batches, 1);
        CHECK_TRUE(result.planned_s <= brute.best_s * (1 + 1e-3 + 1e-9)); /* the program stops within a thousandth */
        CHECK_TRUE(result.planned_s >= brute.best_s * (1 - 1e-9));
        flexsp_result_free(&result);
        problem.node_limit = 0;
        flexsp_solve(&problem, tokens, n, &result);
        CHECK_TRUE(result.planned_s * (1 - result.gap) <= brute.best_s * (1 + 1e-9));
        CHECK_TRUE(result.planned_s >= brute.best_s * (1 - 1e-9));
        CHECK_EQUAL(result.n_nodes, 0);
        flexsp_result_free(&result);
    }
}

/* Two ranks have 10 tokens each, for sequences of 10 9 8 2 1. 30 tokens are at least two micro-batches. Runs of at most
 * 20 would be 10 9 | 8 2 1, with 19 the largest. With fixed degree 2 there are packs of 18 tokens, a micro-batch each.
 * Best fit puts 10 and 8 together, and 9 2 1 behind. */
TEST(flexsp__makes_micro_batches_of_the_least_largest_sum)
{
    static const int32_t tokens[] = {10, 9, 8, 2, 1};
    struct flexsp_problem problem = problem_of(2, 10);
    struct flexsp_result result;
    problem.n_trials = 1;
    flexsp_solve(&problem, tokens, 5, &result);
    CHECK_EQUAL(result.n_micro_batches, 2);
    CHECK_EQUAL(result.groups[0].sequence[0], 0);
    int32_t n_first = 0;
    for (int32_t i = 0; i < result.n_groups; i++)
        n_first += result.groups[i].micro_batch == 0 ? result.groups[i].n : 0;
    CHECK_EQUAL(n_first, 2);
    flexsp_result_free(&result);
    flexsp_fixed(&problem, tokens, 5, 1, &result);
    CHECK_TEXT(text_of(&result), "0: 2{0 2} 1: 2{1 3 4}");
    flexsp_result_free(&result);
}

/* Three sequences of 4 tokens and one of 12 go into two buckets. The least waste keeps the 12 alone. With one bucket
 * all count as 12. C is that of four sequences of 12 tokens on four ranks, each alone: 144 + 24 + 1. */
TEST(flexsp_buckets__count_as_their_longest)
{
    static const int32_t tokens[] = {12, 4, 4, 4};
    struct flexsp_problem problem = problem_of(4, 24);
    struct flexsp_result result;
    problem.n_trials = 1;
    problem.cost.exchange_s[1] = problem.cost.exchange_s[2] = 1000; /* nobody shares */
    problem.n_buckets = 1;
    flexsp_solve(&problem, tokens, 4, &result);
    CHECK_CLOSE(result.planned_s, 169, 1e-12);
    CHECK_CLOSE(result.groups[3].seconds, 25, 1e-12); /* 16 + 8 + 1 */
    flexsp_result_free(&result);
}

/* The sequences are the same on four ranks of 8 tokens. Counted as 12 each, 48 tokens, the four would not fit 32,
 * though they have 24. 48 are more than halfway, 28, so a second bucket lets one micro-batch hold them. */
TEST(flexsp_buckets__are_added_if_memory_is_tight)
{
    static const int32_t tokens[] = {12, 4, 4, 4};
    struct flexsp_problem problem = problem_of(4, 8);
    struct flexsp_result result;
    problem.n_trials = problem.n_buckets = 1;
    flexsp_solve(&problem, tokens, 4, &result);
    CHECK_EQUAL(result.n_micro_batches, 1);
    flexsp_result_free(&result);
}

/* Ten sequences of 10 tokens take 120 s on one rank. Each alone takes 121 s and leaves six of 16 ranks idle. Eight
 * groups of two hold eight. Four groups of four take three each, 91. Two groups of eight take five each: 5 x 15 + 1 =
 * 76. */
TEST(flexsp__finds_groups_of_one_wide_degree)
{
    int32_t tokens[10];
    struct flexsp_problem problem = problem_of(16, 12);
    struct flexsp_result result;
    for (int32_t i = 0; i < 10; i++)
        tokens[i] = 10;
    problem.cost.exchange_s[1] = problem.cost.exchange_s[2] = problem.cost.exchange_s[3] = 0;
    problem.cost.exchange_s[4] = 1;
    problem.n_trials = 1;
    problem.node_limit = 0;
    flexsp_solve(&problem, tokens, 10, &result);
    CHECK_TEXT(text_of(&result), "0: 8{0 1 2 3 4} 8{5 6 7 8 9}");
    CHECK_CLOSE(result.planned_s, 76, 1e-12);
    flexsp_result_free(&result);
}

/* FlexSP's planner has a formula for the time of a group of d ranks. It takes (quadratic s^2 + linear s)/d for each
 * sequence of s tokens, and a constant for the micro-batch. 16 l h s/d bytes of all-to-all in bf16 take the bandwidth
 * of the degree: four a layer in each of two passes. Source: its public code (arXiv:2412.01523), with profiles of its
 * GPTs of 7B and 13B. They ran on 8 x 8 A100 40GB with 400 Gbps, activation checkpointing included. The code prints ms
 * and GB/s, taken as decimal. */
static struct flexsp_cost published_cost(double quadratic_ms, double linear_ms, double constant_ms, int32_t layers,
                                         int32_t hidden)
{
    static const double bytes_per_s[] = {119.5e9, 104.1e9, 96.5e9, 10.33e9, 5.94e9, 4.87e9}; /* degrees 2 to 64 */
    struct flexsp_cost cost = {
        .quadratic_s = quadratic_ms * 1e-3, .linear_s = linear_ms * 1e-3, .constant_s = constant_ms * 1e-3};
    for (int32_t i = 0; i < 6; i++)
        cost.exchange_s[i + 1] = 16.0 * layers * hidden / (2 << i) / bytes_per_s[i];
    return cost;
}

/* These are FlexSP's own figures. 8192 tokens of the 7B on four ranks take (5.128e-6 x 8192^2 + .1839576 x 8192)/4 =
 * (344.13425 + 1506.98066)/4 = 462.77873 ms. The all-to-all of 4 x 2 x 32 x 4096 x 8192 x 2/4 = 4294967296 bytes at
 * 104.1 GB/s takes 41.25809 ms. The micro-batch takes 629.36 ms. 1000 tokens of the 13B on one rank take 9.2852 +
 * 306.0189 + 1132.56 ms, without exchange. */
TEST(flexsp__predicts_as_its_authors_with_published_constants)
{
    struct flexsp_problem problem = {.n_ranks = 64, .capacity = 4096, .n_buckets = 16, .n_trials = 5};
    problem.cost = published_cost(5.128e-6, 0.1839576, 629.36, 32, 4096);
    CHECK_CLOSE(flexsp_sequence_s(&problem.cost, 8192, 2), 0.46277873 + 0.04125809, 1e-7);
    static const int32_t tokens[] = {8192};
    struct flexsp_result result;
    flexsp_fixed(&problem, tokens, 1, 2, &result);
    CHECK_CLOSE(result.planned_s, 0.62936 + 0.46277873 + 0.04125809, 1e-7);
    flexsp_result_free(&result);
    problem.cost = published_cost(9.2852e-6, 0.3060189, 1132.56, 40, 5120);
    CHECK_CLOSE(problem.cost.constant_s + flexsp_sequence_s(&problem.cost, 1000, 0),
                (9.2852 + 306.0189 + 1132.56) * 1e-3, 1e-12);
}

TEST(flexsp__plans_a_phase_for_each_micro_batch)
{
    static const int32_t tokens[] = {100, 3000, 200, 2900};
    struct hand_request hand;
    struct plan plan = {0};
    struct error err = {0};
    const struct training_system *system = system_find("flexsp", &err);
    hand_request_real(&hand, 4, 1, 4096);
    hand_batch(&hand, 4, tokens);
    hand_knobs(&hand, system, "capacity: 1600");
    CHECK_TRUE(!system->plan(&hand.request, NULL, &plan, &err));
    CHECK_CONTAINS(err.text, "zero3");
    hand.request.layout.sharding = SCENARIO_ZERO3;
    hand_options(&hand.setting, &hand.request.layout);
    CHECK_TRUE(!system->plan(&hand.request, NULL, &plan, &err));
    CHECK_CONTAINS(err.text, "ulysses");
    hand.request.layout.cp_type = SCENARIO_ULYSSES;
    hand_options(&hand.setting, &hand.request.layout);
    CHECK_TRUE(system->plan(&hand.request, NULL, &plan, &err));
    CHECK_TRUE(plan_check(&plan, 4, hand.batch.tokens, &err));
    for (int32_t i = 0; i < plan.n_phases; i++)
        for (int32_t rank = 0; rank < 4; rank++) {
            const struct plan_partition *partition = &plan.phases[i].pipelines[rank].partition[PASS_FORWARD];
            CHECK_TRUE(partition->n_micro_batches <= 1);
            for (int32_t micro_batch = 0; micro_batch < partition->n_micro_batches;
                 micro_batch++) /* 2900 and more do not fit one rank of 1600 */
                CHECK_TRUE(plan_micro_batch_tokens(partition, micro_batch) <=
                           (int64_t)1600 * partition->micro_batches[micro_batch].context);
        }
    plan_free(&plan);
    hand_knobs(&hand, system, "{capacity: 1600, degree: 4}");
    CHECK_TRUE(system->plan(&hand.request, NULL, &plan, &err));
    CHECK_EQUAL(plan.n_phases,
                2); /* packs of 5760: 3000 and 2900 do not share; the short ones fill up the fuller pack */
    CHECK_TEXT(hand_cut_text(&plan.phases[0].pipelines[3].partition[PASS_FORWARD]), "[1:0-3000 2:0-200 0:0-100]");
    plan_free(&plan);
    hand_request_free(&hand);
}
