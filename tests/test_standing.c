/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check the ranking of systems, its ties, and the shares of the GPUs' time. */
#include "simulate/standing.h"

#include <stdlib.h>

#include "harness.h"

enum { N = 5 };

/** Rank systems of these iterations, three measured ones each. A system with a time of 0 does not fit, and system
 * `tight` fits only tightly. */
static void rank_with(struct point_iteration iterations[][3], int32_t n, int32_t tight, int32_t fits,
                      struct standing *standings)
{
    struct point_system systems[N] = {{0}};
    struct trace_summary summaries[N] = {{0}};
    const struct scenario scenario = {.measured = 3, .fits = fits};
    const struct point point = {.n_systems = n, .systems = systems};
    for (int32_t i = 0; i < n; i++) {
        double flop = 0, time_s = 0;
        for (int k = 0; k < 3; k++) {
            flop += iterations[i][k].row.model_flop;
            time_s += iterations[i][k].row.time_s;
        }
        systems[i] = (struct point_system){.n_iterations = 3, .iterations = iterations[i]};
        summaries[i] =
            (struct trace_summary){.system = i, .fits = time_s > 0, .tight = i == tight, .mfu = flop / time_s};
    }
    standings_of(&scenario, &point, summaries, standings);
    for (int32_t i = 0; i < n; i++)
        CHECK_EQUAL(summaries[standings[i].system].rank, standings[i].rank);
}

static void rank(struct point_iteration iterations[][3], int32_t n, struct standing *standings)
{
    rank_with(iterations, n, -1, SCENARIO_FITS_SURE, standings);
}

#define ITERATIONS(a, b, c)                                                                                            \
    {                                                                                                                  \
        {.row = {.model_flop = 1, .time_s = a}}, {.row = {.model_flop = 1, .time_s = b}},                              \
        {                                                                                                              \
            .row = {.model_flop = 1, .time_s = c }                                                                     \
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

/* The fastest fits only tightly. It comes after the one that fits surely, and before the one that does not fit. If the
 * scenario takes tight plans, it is the first. */
TEST(standings__put_a_system_that_fits_tightly_behind)
{
    struct point_iteration iterations[3][3] = {ITERATIONS(1, 1, 1), ITERATIONS(0, 0, 0), ITERATIONS(2, 2, 2)};
    struct standing standings[3];
    rank_with(iterations, 3, 0, SCENARIO_FITS_SURE, standings);
    CHECK_TRUE(standings[0].system == 2 && standings[0].rank == 1);
    CHECK_TRUE(standings[1].system == 0 && standings[1].rank == 2);
    CHECK_TRUE(standings[2].system == 1 && standings[2].rank == 0);
    rank_with(iterations, 3, 0, SCENARIO_FITS_TIGHT, standings);
    CHECK_TRUE(standings[0].system == 0 && standings[1].system == 2);
}

/* Passes take 60 of 100 s, with 10 s and 5 s of collectives and 4 s of tokens to experts. */
TEST(time_shares__add_up_to_1)
{
    const struct trace_summary summary = {.bubble_fraction = 0.2,
                                          .bubble = {.busy_s = 60,
                                                     .ring_s = 8,
                                                     .warm_up_s = 1,
                                                     .imbalance_s = 2,
                                                     .cool_down_s = 3,
                                                     .dp_wait_s = 14,
                                                     .sync_s = 7,
                                                     .reshard_s = 5,
                                                     .total_s = 100},
                                          .tensor_s = 10,
                                          .shard_s = 5,
                                          .expert_s = 4};
    struct time_shares shares = time_shares_of(&summary);
    const double expected[TIME_N_PARTS] = {0.41, 0.2, 0.08, 0.1, 0.05, 0.04, 0.07, 0.05};
    for (int i = 0; i < TIME_N_PARTS; i++)
        CHECK_CLOSE(shares.share[i], expected[i], 1e-12);
    CHECK_CLOSE(time_exposed(&shares), 0.39, 1e-12);
}

/* Two iterations of 2 and 6 s train 800 and 1600 tokens on 8 GPUs, after one of warm-up. Bubbles are 1 + 2 and 0 + 1 of
 * 16 and 48 GPU seconds. The second system takes twice as long and needs too much memory. */
TEST(point_summaries__add_up_the_measured_iterations)
{
    const double peak_flop_per_s = 100;
    struct point_iteration iterations[2][3] = {{{.row = {.time_s = 1e9}},
                                                {.row = {.time_s = 2, .tokens = 800, .model_flop = 400}},
                                                {.row = {.time_s = 6, .tokens = 1600, .model_flop = 1200}}}};
    struct trace_iteration *rows[2] = {&iterations[0][1].row, &iterations[0][2].row};
    rows[0]->bubble = (struct bubble){.warm_up_s = 1, .dp_wait_s = 2, .total_s = 16};
    rows[1]->bubble = (struct bubble){.cool_down_s = 1, .total_s = 48};
    rows[0]->traffic.bytes[TRAFFIC_HOST] = 10;
    rows[0]->peak_bytes = 7;
    rows[0]->class_bytes[MEMORY_KV] = 5;
    for (int i = 0; i < 3; i++) {
        iterations[1][i] = iterations[0][i];
        iterations[1][i].row.time_s *= 2;
        iterations[1][i].row.peak_bytes *= 2;
    }
    struct scenario_system entry = {.plan = {.tp = 2, .pp = 1, .cp = 1, .vpp = 1}};
    struct point_system systems[2] = {
        {.entry = &entry, .dp = 4, .n_iterations = 3, .iterations = iterations[0], .fits = true},
        {.entry = &entry, .dp = 4, .n_iterations = 3, .iterations = iterations[1]}};
    struct scenario scenario = {.n_systems = 2, .warm_up = 1, .measured = 2};
    scenario.platform = (struct platform){.n_nodes = 1, .gpus_per_node = 8, .nvlink_domain = 8};
    scenario.device.peak_flop_per_s[PRECISION_BF16] = peak_flop_per_s;
    const struct point point = {.n_systems = 2, .systems = systems, .memory_bytes = 10};
    struct trace_summary *summaries = point_summaries_of(&scenario, &point);
    CHECK_EQUAL(summaries[0].gpus, 8);
    CHECK_EQUAL(summaries[0].dp, 4);
    CHECK_EQUAL(summaries[0].measured_iterations, 2);
    CHECK_CLOSE(summaries[0].time_mean_s, 4, 1e-15);
    CHECK_CLOSE(summaries[0].tokens_per_s, 300, 1e-15);
    CHECK_CLOSE(summaries[0].tokens_per_s_per_gpu, 37.5, 1e-15);
    CHECK_CLOSE(summaries[0].model_flop_per_s, 200, 1e-15);
    CHECK_CLOSE(summaries[0].mfu, 0.25, 1e-15);
    CHECK_CLOSE(summaries[0].bubble_fraction, 4.0 / 64, 1e-15);
    CHECK_CLOSE(summaries[0].sent_host_bytes, 5, 1e-15);
    CHECK_CLOSE(summaries[0].kv_bytes, 5, 1e-15);
    CHECK_EQUAL(summaries[0].peak_class, MEMORY_KV);
    CHECK_EQUAL(summaries[1].system, 1);
    CHECK_CLOSE(summaries[1].speed_up, 0.5, 1e-15);
    CHECK_EQUAL(summaries[1].exceeded_limit, EXCEEDED_GPU_MEMORY);
    CHECK_TRUE(summaries[0].rank == 1 && summaries[1].rank == 0);
    free(summaries);
}
