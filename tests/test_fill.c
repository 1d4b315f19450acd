/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "hand_request.h"
#include "harness.h"
#include "system/fill.h"

#include <math.h>
#include <stdlib.h>

static const struct flop_curve hand_curve = {2, 10}; /* F(x) = 2x(x + 5) */

/* F(3) = 48, F(4) = 72: the root of 59.5 = F(3.5) is half-way and goes up; a part of FLOP less goes down. */
static void the_nearest_token_to_the_root_is_found(void)
{
    CHECK_EQUAL(fill_root(hand_curve, 10, 48, 1), 3);
    CHECK_EQUAL(fill_root(hand_curve, 10, 59, 1), 3);
    CHECK_EQUAL(fill_root(hand_curve, 10, 119, 2), 4);
    CHECK_EQUAL(fill_root(hand_curve, 10, 118, 2), 3);
    CHECK_EQUAL(fill_root(hand_curve, 10, 1189, 20), 3);
    CHECK_EQUAL(fill_root(hand_curve, 10, 0, 1), 0);
    CHECK_EQUAL(fill_root(hand_curve, 10, 300, 1), 10);
}

/* The same by the definition, |x - root| least, against long double; models from h = 1 to that of 405B. */
static void roots_agree_with_floating_point(void)
{
    uint64_t seed = 11;
    int32_t wrong = 0;
    for (int32_t round = 0; round < 20000; round++) {
        int64_t h = 1 + hand_below(&seed, 16384), tokens = 1 + hand_below(&seed, 1 << 21);
        struct flop_curve curve = {2 * h, 24 * h * h + 2 * h};
        int64_t parts = 1 + hand_below(&seed, 4096);
        fill_flop target = (fill_flop)flop_of_prefix(curve, tokens) * (1 + hand_below(&seed, (int32_t)parts));
        long double q = (long double)curve.q, l = (long double)curve.l, t = (long double)target / (long double)parts;
        long double root = 2 * t / (l + sqrtl(l * l + 4 * q * t));
        wrong += fabsl((long double)fill_root(curve, tokens, target, parts) - root) > 0.5L + 1e-9L;
    }
    CHECK_EQUAL(wrong, 0);
}

/* The model of hand_request has l = 10, q = 2: samples 20 and 10 long cost 1000 and 300. In 4 units of 325:
 * 2x(x+5) = 325, 650, 975 at x = 10.5 (10), 15.7 (16), 19.7 (20: the whole sample), then the second sample. Backward
 * the tokens come from the end: 1000 - 325 = 675 at 16.04 (16), 350 at 10.96 (11), 25 at 1.83 (2). */
static void a_chain_is_cut_at_equal_flops(void)
{
    const int32_t tokens[] = {10, 20}, chain[] = {1, 0};
    struct fill fill = {.curve = hand_curve, .tokens = tokens, .sample = chain, .n_samples = 2, .n_units = 4};
    struct plan_cut cut = {0};
    CHECK_EQUAL(fill_cut(&fill, &cut), 4);
    CHECK_TEXT(hand_cut_text(&cut), "[1:0-10] [1:10-16] [1:16-20] [0:0-10]");
    free(cut.slices);
    free(cut.units);
    cut = (struct plan_cut){0};
    fill.pass = PASS_BACKWARD;
    CHECK_EQUAL(fill_cut(&fill, &cut), 4);
    CHECK_TEXT(hand_cut_text(&cut), "[1:16-20] [1:11-16] [1:2-11] [1:0-2 0:0-10]");
    free(cut.slices);
    free(cut.units);
}

/* The same chain: with whole samples the second and third share end with sample 1, too. */
static void whole_samples_are_not_cut(void)
{
    const int32_t tokens[] = {10, 20}, chain[] = {1, 0};
    struct fill fill = {
        .curve = hand_curve, .tokens = tokens, .sample = chain, .n_samples = 2, .n_units = 4, .whole = true};
    struct plan_cut cut = {0};
    CHECK_EQUAL(fill_cut(&fill, &cut), 2);
    CHECK_TEXT(hand_cut_text(&cut), "[1:0-20] [0:0-10]");
    free(cut.slices);
    free(cut.units);
}

/* Boundaries at 10 and 16 of 20 make slices of 10, 6, 4. At least 5: the last joins the one before. At least 7: the
 * second joins the third. At least 11: the first joins the rest, 16..20 too, so the sample stays whole. */
static void short_slices_join_their_neighbour(void)
{
    const int32_t tokens[] = {10, 20}, chain[] = {1, 0};
    const char *const expected[] = {"[1:0-10] [1:10-20] [0:0-10]", "[1:0-10] [1:10-20] [0:0-10]", "[1:0-20] [0:0-10]"};
    for (int32_t i = 0; i < 3; i++) {
        struct fill fill = {.curve = hand_curve,
                            .tokens = tokens,
                            .sample = chain,
                            .n_samples = 2,
                            .n_units = 4,
                            .min_slice = i == 0   ? 5
                                         : i == 1 ? 7
                                                  : 11};
        struct plan_cut cut = {0};
        fill_cut(&fill, &cut);
        CHECK_TEXT(hand_cut_text(&cut), expected[i]);
        free(cut.slices);
        free(cut.units);
    }
}

/* F(end) - F(begin) of the chain's first `position` tokens. */
static fill_flop flop_before(const struct fill *fill, int64_t position)
{
    fill_flop flop = 0;
    for (int32_t i = 0; i < fill->n_samples; i++) {
        int64_t tokens = fill->tokens[fill->sample[i]], part = position < tokens ? position : tokens;
        flop += fill->pass == PASS_FORWARD ? flop_of_slice(fill->curve, 0, part)
                                           : flop_of_slice(fill->curve, tokens - part, tokens);
        position -= part;
    }
    return flop;
}

/* Random chains: units are not empty and, where tokens are not scarce, each boundary is within half a token of its
 * share: the neighbouring tokens enclose it. With min_slice no slice of a longer sample is shorter. */
static void random_chains_keep_the_rules(void)
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
                            .curve = {2, 1 + hand_below(&seed, 5000)},
                            .tokens = tokens,
                            .sample = chain,
                            .n_samples = n};
        fill.n_units = 1 + hand_below(&seed, n_tokens < 64 ? (int32_t)n_tokens : 64);
        fill_ends(&fill, end);
        fill_flop total = flop_before(&fill, n_tokens);
        bool scarce = false;
        for (int64_t k = 0; k < fill.n_units; k++)
            scarce = scarce || end[k] - (k > 0 ? end[k - 1] : 0) <= 1;
        for (int64_t k = 0; k < fill.n_units; k++) {
            empty += end[k] <= (k > 0 ? end[k - 1] : 0);
            far += !scarce && (flop_before(&fill, end[k] - 1) * fill.n_units > (k + 1) * total ||
                               flop_before(&fill, end[k] + 1) * fill.n_units < (k + 1) * total);
        }
        CHECK_EQUAL(end[fill.n_units - 1], n_tokens);
        fill.min_slice = 1 + hand_below(&seed, 100);
        struct plan_cut cut = {0};
        fill_cut(&fill, &cut);
        for (int32_t i = 0; i < cut.n_slices; i++)
            n_short += slice_tokens(cut.slices[i]) < fill.min_slice &&
                       slice_tokens(cut.slices[i]) < tokens[cut.slices[i].sample];
        free(cut.slices);
        free(cut.units);
    }
    CHECK_EQUAL(empty, 0);
    CHECK_EQUAL(far, 0);
    CHECK_EQUAL(n_short, 0);
}

int main(void)
{
    return HARNESS_MAIN("fill", TEST(the_nearest_token_to_the_root_is_found), TEST(roots_agree_with_floating_point),
                        TEST(a_chain_is_cut_at_equal_flops), TEST(whole_samples_are_not_cut),
                        TEST(short_slices_join_their_neighbour), TEST(random_chains_keep_the_rules));
}
