/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check the ranking of systems, its ties, and the shares of the GPUs' time. */
#include "simulate/standing.h"

#include "harness.h"

enum { N = 5 };

/** Rank systems of these iterations, three measured ones each. A system with a time of 0 does not fit. */
static void rank(struct point_iteration iterations[][3], int32_t n, struct standing *standings)
{
    struct point_system systems[N] = {{0}};
    struct point_summary summaries[N] = {{0}};
    const struct scenario scenario = {.measured = 3};
    const struct point point = {.n_systems = n, .systems = systems};
    for (int32_t i = 0; i < n; i++) {
        double flop = 0, time_s = 0;
        for (int k = 0; k < 3; k++) {
            flop += iterations[i][k].model_flop;
            time_s += iterations[i][k].time_s;
        }
        systems[i] = (struct point_system){.n_iterations = 3, .iterations = iterations[i], .fits = time_s > 0};
        summaries[i].mfu = flop / time_s;
    }
    standings_of(&scenario, &point, summaries, standings);
}

#define ITERATIONS(a, b, c)                                                                                            \
    {                                                                                                                  \
        {.model_flop = 1, .time_s = a}, {.model_flop = 1, .time_s = b},                                                \
        {                                                                                                              \
            .model_flop = 1, .time_s = c                                                                               \
        }                                                                                                              \
    }

/* The second and the third take turns on the same batches, so their mean is the same to 1%. The fourth is the second
 * one, 10% slower on every batch: their ratio has no deviation. */
TEST(standings__tie_if_the_interval_of_the_ratio_includes_1)
{
    struct point_iteration iterations[N][3] = {ITERATIONS(4, 4, 4), ITERATIONS(1, 2, 1), ITERATIONS(2, 1, 1.04),
                                               ITERATIONS(1.1, 2.2, 1.1), ITERATIONS(0, 0, 0)};
    struct standing standings[N];
    rank(iterations, N, standings);
    const int32_t systems[N] = {1, 2, 3, 0, 4}, ranks[N] = {1, 1, 3, 4, 0};
    for (int i = 0; i < N; i++) {
        CHECK_EQUAL(standings[i].system, systems[i]);
        CHECK_EQUAL(standings[i].rank, ranks[i]);
    }
}

TEST(standings__rank_equal_iterations_by_their_rates)
{
    struct point_iteration iterations[3][3] = {ITERATIONS(2, 2, 2), ITERATIONS(2, 2, 2), ITERATIONS(1.99, 1.99, 1.99)};
    struct standing standings[3];
    rank(iterations, 3, standings);
    const int32_t systems[3] = {2, 0, 1}, ranks[3] = {1, 2, 2};
    for (int i = 0; i < 3; i++) {
        CHECK_EQUAL(standings[i].system, systems[i]);
        CHECK_EQUAL(standings[i].rank, ranks[i]);
    }
}

/* Passes take 60 of 100 s, with 10 s and 5 s of collectives. */
TEST(time_shares__add_up_to_1)
{
    const struct point_summary summary = {.bubble = {.busy_s = 60,
                                                     .ring_s = 8,
                                                     .warm_up_s = 1,
                                                     .imbalance_s = 2,
                                                     .cool_down_s = 3,
                                                     .dp_wait_s = 14,
                                                     .sync_s = 7,
                                                     .reshard_s = 5,
                                                     .total_s = 100},
                                          .tensor_s = 10,
                                          .shard_s = 5};
    struct time_shares shares = time_shares_of(&summary);
    const double expected[TIME_N_PARTS] = {0.45, 0.2, 0.08, 0.1, 0.05, 0.07, 0.05};
    for (int i = 0; i < TIME_N_PARTS; i++)
        CHECK_CLOSE(shares.share[i], expected[i], 1e-12);
    CHECK_CLOSE(time_exposed(&shares), 0.35, 1e-12);
}
