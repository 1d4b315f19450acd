/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check how chains of samples are cut at equal FLOPs. */
#include "hand_request.h"
#include "harness.h"
#include "packing/fill.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct flop_curve hand_curve = {.q = 2, .l = 10}; /* F(x) = 2x(x + 5) */

/* F(3) = 48 and F(4) = 72. The root of 59.5 = F(3.5) is half-way and goes up. A part of a FLOP less goes down. */
TEST(fill_root__is_the_nearest_token)
{
    CHECK_EQUAL(fill_root(hand_curve, 10, 48, 1), 3);
    CHECK_EQUAL(fill_root(hand_curve, 10, 59, 1), 3);
    CHECK_EQUAL(fill_root(hand_curve, 10, 119, 2), 4);
    CHECK_EQUAL(fill_root(hand_curve, 10, 118, 2), 3);
    CHECK_EQUAL(fill_root(hand_curve, 10, 1189, 20), 3);
    CHECK_EQUAL(fill_root(hand_curve, 10, 0, 1), 0);
    CHECK_EQUAL(fill_root(hand_curve, 10, 300, 1), 10);
}

/* Up to a window of 4 tokens F is the same, and each token behind it costs 2 x 7 + 10 = 24: F(4) = 72, F(5) = 96 and
 * F(6) = 120. F(3.5) is 59.5, F(4.5) 84. */
TEST(fill_root__is_quadratic_up_to_the_window_and_linear_behind_it)
{
    const struct flop_curve curve = {.l = 10, .n_windows = 1, .windows = {{2, 4}}};
    CHECK_EQUAL(flop_of_prefix(curve, 4), 72);
    CHECK_EQUAL(flop_of_prefix(curve, 6), 120);
    CHECK_EQUAL(fill_root(curve, 10, 59, 1), 3);
    CHECK_EQUAL(fill_root(curve, 10, 119, 2), 4);
    CHECK_EQUAL(fill_root(curve, 10, 83, 1), 4);
    CHECK_EQUAL(fill_root(curve, 10, 84, 1), 5);
    CHECK_EQUAL(fill_root(curve, 10, 251, 3), 4);
    CHECK_EQUAL(fill_root(curve, 10, 216, 1), 10);
}

/* Two samples of 10 and 6 tokens under that window have 216 and 120: 4 micro-batches of 84. The first sample reaches 84
 * at 4.5 (5), 168 at 8; the second has 36 of 252 at 2.4 (2), F(2) = 28 and F(3) = 48. */
TEST(fill_cut__follows_the_window)
{
    const int32_t tokens[] = {10, 6}, chain[] = {0, 1};
    struct fill fill = {.curve = {.l = 10, .n_windows = 1, .windows = {{2, 4}}},
                        .tokens = tokens,
                        .sample = chain,
                        .n_samples = 2,
                        .n_micro_batches = 4};
    struct plan_partition partition = {0};
    CHECK_EQUAL(fill_partition(&fill, &partition), 4);
    CHECK_TEXT(hand_cut_text(&partition), "[0:0-5] [0:5-8] [0:8-10 1:0-2] [1:2-6]");
    free(partition.slices);
    free(partition.micro_batches);
}

/* The definition, |x - root| least, gives the same in long double, for models from h = 1 to that of 405B. */
TEST(fill_root__agrees_with_floating_point)
{
    uint64_t seed = 11;
    int32_t wrong = 0;
    for (int32_t round = 0; round < 20000; round++) {
        int64_t h = 1 + hand_below(&seed, 16384), tokens = 1 + hand_below(&seed, 1 << 21);
        struct flop_curve curve = {.q = 2 * h, .l = 24 * h * h + 2 * h};
        int64_t parts = 1 + hand_below(&seed, 4096);
        fill_flop target = (fill_flop)flop_of_prefix(curve, tokens) * (1 + hand_below(&seed, (int32_t)parts));
        long double q = (long double)curve.q, l = (long double)curve.l, t = (long double)target / (long double)parts;
        long double root = 2 * t / (l + sqrtl(l * l + 4 * q * t));
        wrong += fabsl((long double)fill_root(curve, tokens, target, parts) - root) > 0.5L + 1e-9L;
    }
    CHECK_EQUAL(wrong, 0);
}

/* The model of hand_request has l = 10, q = 2, so samples 20 and 10 long cost 1000 and 300. 4 micro-batches have 325
 * each. 2x(x+5) = 325, 650, 975 at x = 10.5 (10), 15.7 (16), 19.7 (20: the whole sample). The second sample follows.
 * Backward the tokens come from the end. 1000 - 325 = 675 is at 16.04 (16), 350 at 10.96 (11), 25 at 1.83 (2). */
TEST(fill_cut__divides_a_chain_at_equal_flops)
{
    const int32_t tokens[] = {10, 20}, chain[] = {1, 0};
    struct fill fill = {.curve = hand_curve, .tokens = tokens, .sample = chain, .n_samples = 2, .n_micro_batches = 4};
    struct plan_partition partition = {0};
    CHECK_EQUAL(fill_partition(&fill, &partition), 4);
    CHECK_TEXT(hand_cut_text(&partition), "[1:0-10] [1:10-16] [1:16-20] [0:0-10]");
    free(partition.slices);
    free(partition.micro_batches);
    partition = (struct plan_partition){0};
    fill.pass = PASS_BACKWARD;
    CHECK_EQUAL(fill_partition(&fill, &partition), 4);
    CHECK_TEXT(hand_cut_text(&partition), "[1:16-20] [1:11-16] [1:2-11] [1:0-2 0:0-10]");
    free(partition.slices);
    free(partition.micro_batches);
}

/* Boundaries at 10 and 16 of 20 make slices of 10, 6, 4. With at least 4 all stay. With at least 10 the first one stays
 * before the others together, as a slice of the least length is not too short. With at least 5 the last joins the one
 * before. With at least 7 the second joins the third. With at least 11 the first joins the rest, and so does 16..20, so
 * the sample stays whole. */
TEST(fill_cut__joins_short_slices_to_their_neighbour)
{
    static const struct {
        int64_t min_slice;
        const char *partition;
    } cases[] = {{4, "[1:0-10] [1:10-16] [1:16-20] [0:0-10]"},
                 {5, "[1:0-10] [1:10-20] [0:0-10]"},
                 {7, "[1:0-10] [1:10-20] [0:0-10]"},
                 {10, "[1:0-10] [1:10-20] [0:0-10]"},
                 {11, "[1:0-20] [0:0-10]"}};
    const int32_t tokens[] = {10, 20}, chain[] = {1, 0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fill fill = {.curve = hand_curve,
                            .tokens = tokens,
                            .sample = chain,
                            .n_samples = 2,
                            .n_micro_batches = 4,
                            .min_slice = cases[i].min_slice};
        struct plan_partition partition = {0};
        fill_partition(&fill, &partition);
        CHECK_TEXT(hand_cut_text(&partition), cases[i].partition);
        free(partition.slices);
        free(partition.micro_batches);
    }
}

/* Micro-batches of random chains are not empty. If tokens are not scarce, each boundary is within half a token of its
 * share: the neighbouring tokens enclose it. With min_slice no slice of a longer sample is shorter. */
TEST(fill_cut__keeps_the_rules_on_random_chains)
{
    uint64_t seed = 3;
    int32_t empty = 0, far = 0, n_short = 0;
    for (int32_t round = 0; round < 2000; round++) {
        int32_t tokens[8], chain[8], n = 1 + hand_below(&seed, 8);
        int64_t n_tokens = 0, end[64];
        for (int32_t i = 0; i < n; i++) {
            chain[i] = i;
            n_tokens += tokens[i] = 1 + hand_below(&seed, hand_below(&seed, 2) == 0 ? 8 : 2000);
        }
        struct fill fill = {.pass = (enum pass)hand_below(&seed, 2),
                            .curve = {.q = 2,
                                      .l = 1 + hand_below(&seed, 5000),
                                      .n_windows = hand_below(&seed, 2),
                                      .windows = {{3, 1 + hand_below(&seed, 50)}}},
                            .tokens = tokens,
                            .sample = chain,
                            .n_samples = n};
        fill.n_micro_batches = 1 + hand_below(&seed, n_tokens < 64 ? (int32_t)n_tokens : 64);
        fill_ends(&fill, end);
        fill_flop total = fill_flop_before(&fill, n_tokens);
        bool scarce = false;
        for (int64_t k = 0; k < fill.n_micro_batches; k++)
            scarce = scarce || end[k] - (k > 0 ? end[k - 1] : 0) <= 1;
        for (int64_t k = 0; k < fill.n_micro_batches; k++) {
            empty += end[k] <= (k > 0 ? end[k - 1] : 0);
            far += !scarce && (fill_flop_before(&fill, end[k] - 1) * fill.n_micro_batches > (k + 1) * total ||
                               fill_flop_before(&fill, end[k] + 1) * fill.n_micro_batches < (k + 1) * total);
        }
        CHECK_EQUAL(end[fill.n_micro_batches - 1], n_tokens);
        fill.min_slice = 1 + hand_below(&seed, 100);
        struct plan_partition partition = {0};
        fill_partition(&fill, &partition);
        for (int32_t i = 0; i < partition.n_slices; i++)
            n_short += slice_tokens(partition.slices[i]) < fill.min_slice &&
                       slice_tokens(partition.slices[i]) < tokens[partition.slices[i].sample];
        free(partition.slices);
        free(partition.micro_batches);
    }
    CHECK_EQUAL(empty, 0);
    CHECK_EQUAL(far, 0);
    CHECK_EQUAL(n_short, 0);
}

/* The work before a place equals that of slices: 20 and 10 tokens of 2x(x + 5) forward, and backward from the end. */
TEST(fill_flop_before__counts_from_the_end_backward)
{
    const int32_t tokens[] = {20, 10}, chain[] = {0, 1};
    struct fill fill = {.curve = hand_curve, .tokens = tokens, .sample = chain, .n_samples = 2};
    CHECK_TRUE(fill_flop_before(&fill, 3) == 48 && fill_flop_before(&fill, 23) == 1048);
    fill.pass = PASS_BACKWARD;
    CHECK_TRUE(fill_flop_before(&fill, 4) == 1000 - 672 && fill_flop_before(&fill, 30) == 1300);
}

/* Find the least possible largest |micro-batch - share| over all cuts of a chain in n micro-batches, by trying all of
 * them. */
static double best_deviation(const struct fill *fill, int64_t k, int64_t begin, int64_t n_tokens)
{
    fill_flop total = fill_flop_before(fill, n_tokens), before = fill_flop_before(fill, begin);
    double best = INFINITY;
    bool last = k == fill->n_micro_batches - 1;
    for (int64_t end = last ? n_tokens : begin + 1; end <= n_tokens - (fill->n_micro_batches - 1 - k); end++) {
        fill_flop micro_batch = fill_flop_before(fill, end) - before;
        double here = fabs((double)(micro_batch * fill->n_micro_batches - total) / (double)fill->n_micro_batches);
        if (here < best)
            best = fmin(best, last ? here : fmax(here, best_deviation(fill, k + 1, end, n_tokens)));
    }
    return best;
}

/* On random small chains the program, solved to the end, finds the best of all cuts. The exact fill is at most the
 * dearest token worse, and was not always the best. */
TEST(fill_milp__finds_the_best_cut)
{
    uint64_t seed = 5;
    int32_t n_better = 0;
    for (int32_t round = 0; round < 60; round++) {
        int32_t tokens[3], chain[] = {0, 1, 2}, n = 1 + hand_below(&seed, 3), longest = 0;
        int64_t n_tokens = 0, end[4];
        for (int32_t i = 0; i < n; i++) {
            n_tokens += tokens[i] = 1 + hand_below(&seed, 16);
            longest = tokens[i] > longest ? tokens[i] : longest;
        }
        struct fill_search search = {.node_limit = 100000};
        struct fill fill = {.pass = (enum pass)hand_below(&seed, 2),
                            .curve = {.q = 2,
                                      .l = 1 + hand_below(&seed, 60),
                                      .n_windows = hand_below(&seed, 2),
                                      .windows = {{3, 1 + hand_below(&seed, 50)}}},
                            .tokens = tokens,
                            .sample = chain,
                            .n_samples = n,
                            .min_slice = 1};
        fill.n_micro_batches = n_tokens < 4 ? n_tokens : 2 + hand_below(&seed, 3);
        double token = (double)flop_of_slice(fill.curve, longest - 1, longest);
        double best = best_deviation(&fill, 0, 0, n_tokens) / token, of_fill = 0;
        fill_ends(&fill, end);
        for (int64_t k = 0, begin = 0; k < fill.n_micro_batches; begin = end[k++]) {
            fill_flop micro_batch = fill_flop_before(&fill, end[k]) - fill_flop_before(&fill, begin);
            double share = (double)fill_flop_before(&fill, n_tokens) / (double)fill.n_micro_batches;
            of_fill = fmax(of_fill, fabs((double)micro_batch - share) / token);
        }
        fill.search = &search;
        fill_ends(&fill, end);
        if (fill.n_micro_batches > 1) {
            CHECK_CLOSE(search.gap, 0, 1e-12);
            CHECK_CLOSE(search.deviation, best, 1e-9);
        }
        CHECK_TRUE(of_fill <= best + 1 + 1e-9);
        n_better += best < of_fill - 1e-9;
    }
    CHECK_TRUE(n_better > 3);
}

/* With a limit of one node the result is the fill's, with the gap that is left, twice the same. */
TEST(fill_milp__keeps_the_fill_and_a_gap_at_its_node_limit)
{
    const int32_t tokens[] = {400, 300, 200}, chain[] = {0, 1, 2};
    int64_t plain[8], end[8];
    struct fill_search search = {.node_limit = 1, .window = 3};
    struct fill fill = {.curve = hand_curve, .tokens = tokens, .sample = chain, .n_samples = 3, .n_micro_batches = 8};
    fill_ends(&fill, plain);
    fill.search = &search;
    fill_ends(&fill, end);
    CHECK_EQUAL(memcmp(plain, end, sizeof end), 0);
    CHECK_EQUAL(search.n_nodes, 1);
    CHECK_TRUE(search.gap > 0 && search.gap <= 1 && search.deviation > 0 && search.deviation <= 1);
    search.node_limit = 300;
    fill_ends(&fill, end);
    double deviation = search.deviation;
    int64_t nodes = search.n_solved_nodes;
    fill_ends(&fill, end);
    CHECK_TRUE(search.deviation == deviation && search.n_solved_nodes == nodes && nodes > 1);
}
