/* SPDX-License-Identifier: GPL-3.0-or-later */
/** These tests compare closed forms of goodput with published pairs, with each other and with their sums. */
#include "operation/goodput.h"

#include <math.h>

#include "hand_reliability.h"
#include "harness.h"

static const double rsc1 = 6.5, rsc2 = 2.34, llama3 = 419 / 110.592; /* failures in 1000 node-days */

/** Check that a value rounds to a printed one. */
static void check_printed(double value, double printed, int digits)
{
    double micro_batch = pow(10, -digits);
    CHECK_CLOSE(round(value / micro_batch) * micro_batch, printed, 1e-9);
}

/** Return the times of a cluster of `n_gpus` in nodes of 8. Its times are in minutes. */
static struct renewal minutes(double failures, double n_gpus, double blocked, double restart, double interval)
{
    double mttf_s = 86400 * 1000 / (failures * n_gpus / 8);
    return (struct renewal){mttf_s, 60 * interval, 60 * blocked, 60 * restart, 0};
}

/* arXiv:2410.21680v2 prints 1.8 and 0.23 h, 0.7 and 0.93, above 0.9, and 0.9. */
TEST(goodput__gives_the_ratios_of_kokolis)
{
    struct renewal pairs[] = {minutes(rsc1, 16384, 0, 5, 60), minutes(rsc1, 16384, 0, 5, 5),
                              minutes(rsc1, 2048, 0, 5, 60),  minutes(rsc1, 4096, 0, 5, 60),
                              minutes(rsc2, 100000, 0, 2, 2), minutes(rsc1, 16384, 5, 5, 60)};
    const double printed[] = {0.714, 0.933, 0.960, 0.922, 0.941, 0.643};
    for (int i = 0; i < 6; i++)
        check_printed(goodput_exact_ettr(&pairs[i]), printed[i], 3);
    check_printed(goodput_first_order_ettr(&pairs[5]), 0.624, 3);
    check_printed(pairs[0].mttf_s / 3600, 1.80, 2);
    check_printed(minutes(rsc1, 131072, 0, 5, 60).mttf_s / 3600, 0.225, 3);
}

/* Llama 3 reports more than 90% of effective time, which only checkpoints that block for seconds reach. */
TEST(goodput__of_llama3_needs_seconds_of_blocking)
{
    const double blocked[] = {10.0 / 60, 5}, printed[] = {0.908, 0.744};
    for (int i = 0; i < 2; i++) {
        struct renewal renewal = minutes(llama3, 16384, blocked[i], 10, 1);
        renewal.interval_s = goodput_best_interval_s(renewal.mttf_s, renewal.blocked_s);
        check_printed(goodput_exact_ettr(&renewal), printed[i], 3);
        check_printed(renewal.mttf_s / 3600, 3.09, 2);
    }
}

/* The best interval beats its neighbours. While w < M/2, Daly's is as good to 0.1%, and the
 * first order's to 5%. */
TEST(best_interval__beats_all_others)
{
    for (double blocked_s = 1e-3; blocked_s < 1e5; blocked_s *= 7) {
        struct renewal renewal = {20000, goodput_best_interval_s(20000, blocked_s), blocked_s, 300, 0};
        double best = goodput_exact_ettr(&renewal), interval_s = renewal.interval_s;
        for (double factor = 0.5; factor < 2; factor += 0.01) {
            renewal.interval_s = factor * interval_s;
            CHECK_TRUE(goodput_exact_ettr(&renewal) <= best * (1 + 1e-14));
        }
        if (blocked_s >= renewal.mttf_s / 2)
            continue;
        renewal.interval_s = goodput_daly_interval_s(20000, blocked_s);
        CHECK_CLOSE(goodput_exact_ettr(&renewal), best, 1e-3);
        renewal.interval_s = goodput_first_order_interval_s(20000, blocked_s);
        CHECK_CLOSE(goodput_exact_ettr(&renewal), best, 0.05);
    }
    CHECK_TRUE(goodput_best_interval_s(20000, 0) == 0);
    CHECK_CLOSE(goodput_best_interval_s(1e15, 1), sqrt(2e15), 1e-6);
    CHECK_CLOSE(goodput_daly_interval_s(20000, 200), 2696.66514, 1e-9); /* 2828.43 (1 + 0.0235702 + 0.0005556) - 200 */
    CHECK_TRUE(goodput_daly_interval_s(100, 200) == 100);
}

/* Without failures during restarts a failure costs R, otherwise M (e^(R/M) - 1), which is more. */
TEST(safe_restart__loses_less)
{
    struct renewal renewal = {1000, 200, 10, 300, 0};
    double rounds = exp(0.21) - 1;
    CHECK_CLOSE(goodput_safe_restart_ettr(&renewal), 200 / ((1000 + 300) * rounds), 1e-14);
    CHECK_CLOSE(goodput_exact_ettr(&renewal), 200 / ((1000 + 1000 * (exp(0.3) - 1)) * rounds), 1e-14);
    renewal.save_s = 100;
    CHECK_CLOSE(goodput_exact_ettr(&renewal), 200 * exp(-0.1) / (1000 * exp(0.3) * rounds), 1e-14);
}

/* Poisson with mean 2: P(more than 0) = 1 - e^-2, P(more than 2) = 1 - 5 e^-2. */
TEST(waiting_share__is_the_tail_of_poisson)
{
    CHECK_CLOSE(goodput_waiting_share(2, 0), 1 - exp(-2), 1e-13);
    CHECK_CLOSE(goodput_waiting_share(2, 2), 1 - 5 * exp(-2), 1e-13);
    CHECK_TRUE(goodput_waiting_share(0, 0) == 0);
}

/* With a mean of 7.76 nodes in repair, P(X > 17) is 0.11% and P(X > 18) 0.05%. */
TEST(spares__auto_waits_at_most_a_thousandth)
{
    for (double mean = 1e-5; mean < 1e4; mean *= 3) {
        struct reliability reliability = hand_reliability(10, 60, 1, 100);
        reliability.repair_s = mean * 86400;
        reliability.spares = NAN;
        struct goodput_setting setting = hand_training(&reliability, 100);
        int64_t spares = goodput_spares(&setting);
        CHECK_TRUE(goodput_waiting_share(mean, spares) <= 1e-3);
        CHECK_TRUE(spares == 0 || goodput_waiting_share(mean, spares - 1) > 1e-3);
        CHECK_EQUAL(goodput_of(&setting).spares, spares);
        reliability.spares = 7;
        CHECK_EQUAL(goodput_spares(&setting), 7);
    }
    struct reliability llama = hand_reliability(llama3, 60, 1, 100);
    llama.repair_s = 86400;
    llama.spares = NAN;
    struct goodput_setting setting = hand_training(&llama, 2048);
    CHECK_EQUAL(goodput_spares(&setting), 18);
}

/* 80 nodes save 8e12 bytes in 80 s, copy 12.5e9 bytes a GPU in 0.2 s, and load in 80 s. */
TEST(goodput_renewal__resolves_auto)
{
    struct reliability reliability = hand_reliability(5, 60, NAN, 10);
    reliability.load_s = NAN;
    reliability.barrier_s = 0.5;
    reliability.bytes_per_parameter = 16;
    reliability.storage_bytes_per_s = 1e11;
    struct goodput_setting setting = {&reliability, 80, 8, 5e11, 62.5e9};
    struct renewal renewal = goodput_renewal(&setting);
    CHECK_CLOSE(renewal.mttf_s, 2.5 * 86400, 1e-14);
    CHECK_CLOSE(renewal.save_s, 80, 1e-14);
    CHECK_CLOSE(renewal.blocked_s, 0.7, 1e-14);
    CHECK_CLOSE(renewal.restart_s, 140, 1e-14);
    CHECK_CLOSE(renewal.interval_s, 80, 1e-14); /* raised from 10 */
    reliability.interval_s = NAN;
    renewal = goodput_renewal(&setting);
    CHECK_CLOSE(renewal.interval_s, goodput_best_interval_s(renewal.mttf_s, 0.7), 1e-14);
}

/* The losses are computed one by one and must add up. */
TEST(goodput__losses_add_up)
{
    for (int64_t n_nodes = 1; n_nodes < 100000; n_nodes *= 5)
        for (int i = 0; i < 8; i++) {
            struct reliability reliability = hand_reliability(rsc1, 400, i & 1 ? 30 : 0, i & 2 ? 300 : 5000);
            reliability.repair_s = 86400;
            reliability.spares = floor((double)n_nodes / 100);
            reliability.slow_share = i & 4 ? 0.2 : 0;
            reliability.slow_factor = 1.5;
            struct goodput_setting setting = hand_training(&reliability, n_nodes);
            struct goodput goodput = goodput_of(&setting);
            double sum = goodput.ettr;
            for (int loss = 0; loss < GOODPUT_N_LOSSES; loss++) {
                CHECK_TRUE(goodput.lost_share[loss] >= 0);
                sum += goodput.lost_share[loss];
            }
            CHECK_CLOSE(sum, 1, 1e-14);
        }
}

/* A slow GPU for a fifth of the time, with steps 1.5 times as long, costs a fifteenth of the running time. */
TEST(goodput__divides_the_time_by_cause)
{
    struct reliability reliability = hand_reliability(rsc1, 300, 300, 3600);
    struct goodput_setting setting = hand_training(&reliability, 2048);
    struct goodput goodput = goodput_of(&setting);
    check_printed(goodput.ettr, 0.643, 3);
    CHECK_CLOSE(goodput.lost_share[GOODPUT_BLOCKED], goodput.ettr / 12, 1e-12);
    CHECK_CLOSE(goodput.lost_share[GOODPUT_RESTART], 1 - exp(-300 / goodput.renewal.mttf_s), 1e-12);
    CHECK_TRUE(goodput.lost_share[GOODPUT_SPARES] == 0 && goodput.lost_share[GOODPUT_SLOW] == 0);
    reliability.slow_share = 0.2;
    reliability.slow_factor = 1.5;
    reliability.repair_s = 86400;
    reliability.spares = 13;
    double waiting = goodput_waiting_share(13.312, 13), ettr = goodput.ettr;
    goodput = goodput_of(&setting);
    CHECK_CLOSE(goodput.lost_share[GOODPUT_SPARES], waiting, 1e-12);
    CHECK_CLOSE(goodput.lost_share[GOODPUT_SLOW], (1 - waiting) * ettr / 15, 1e-12);
    CHECK_CLOSE(goodput.ettr, (1 - waiting) * ettr * 14 / 15, 1e-12);
}

/* Each change makes a cluster worse. The interval is the best for it, or fixed. */
TEST(goodput__falls_with_failures_detection_and_repair)
{
    for (int i = 0; i < 2; i++) {
        struct reliability reliability = hand_reliability(rsc2, 100, 20, i == 0 ? NAN : 1000);
        reliability.repair_s = 3600;
        reliability.spares = 3;
        struct goodput_setting setting = hand_training(&reliability, 500);
        double before = 1;
        for (int step = 0; step < 20; step++) {
            double ettr = goodput_of(&setting).ettr;
            CHECK_TRUE(ettr < before);
            before = ettr;
            reliability.failures[FAILURE_OTHER] *= step % 4 == 0 ? 1.3 : 1;
            reliability.failures[FAILURE_GPU] += step % 4 == 1 ? 0.5 : 0;
            reliability.detect_s += step % 4 == 2 ? 50 : 0;
            reliability.repair_s *= step % 4 == 3 ? 1.2 : 1;
        }
        reliability.spares++;
        CHECK_TRUE(goodput_of(&setting).ettr > before);
    }
}
