/* SPDX-License-Identifier: GPL-3.0-or-later */
/** These tests compare simulated trainings with closed forms, with each other and with traces by hand. */
#include "operation/training_run.h"

#include <math.h>
#include <time.h>

#include "hand_reliability.h"
#include "harness.h"

static double sum_of(const double *values, int32_t n)
{
    double sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += values[i];
    return sum;
}

/** Return useful time over all time in a run of about 200,000 failures. */
static double simulated_ettr(const struct goodput_setting *setting, int64_t seed)
{
    struct renewal renewal = goodput_renewal(setting);
    double work_s = 2e5 * renewal.mttf_s * goodput_of(setting).ettr;
    struct training_run run = training_run(setting, work_s, seed, 0);
    CHECK_CLOSE(work_s + sum_of(run.lost_s, GOODPUT_N_LOSSES), run.finish_s, 1e-9);
    return work_s / run.finish_s;
}

/* 68 settings: nodes and rates, w, R and dt, from a failure in 40 h to one in 27 min. Ratios below 0.05 are left out.
 */
TEST(training_run__agrees_with_the_exact_form)
{
    const double failures[] = {2.34, 6.5}, blocked_s[] = {0, 60}, restart_s[] = {60, 600};
    const int64_t n_nodes[] = {256, 2048, 8192};
    int n = 0;
    for (int i = 0; i < 2 * 2 * 2 * 3; i++)
        for (double interval_s = 300; interval_s < 8000; interval_s *= 5) {
            struct reliability reliability =
                hand_reliability(failures[i % 2], restart_s[i / 2 % 2], blocked_s[i / 4 % 2], interval_s);
            struct goodput_setting setting = hand_training(&reliability, n_nodes[i / 8]);
            double exact = goodput_of(&setting).ettr;
            if (exact < 0.05)
                continue;
            CHECK_CLOSE(simulated_ettr(&setting, 1), exact, 0.005);
            n++;
        }
    CHECK_EQUAL(n, 68);
}

/* 5e13 bytes are saved in 500 s, so a failure soon after a checkpoint loses two intervals. */
TEST(training_run__counts_a_checkpoint_once_it_is_saved)
{
    struct reliability reliability = hand_reliability(6.5, 300, 60, 1000);
    reliability.storage_bytes_per_s = 1e11;
    struct goodput_setting setting = {&reliability, 2048, 8, 5e13, 64e9};
    CHECK_CLOSE(goodput_renewal(&setting).save_s, 500, 1e-14);
    double simulated = simulated_ettr(&setting, 1);
    CHECK_CLOSE(simulated, goodput_of(&setting).ettr, 0.005);
    reliability.storage_bytes_per_s = 1e18;
    CHECK_TRUE(goodput_of(&setting).ettr / simulated > 1.05);
}

/* Nodes in repair are Poisson with mean 13.3. Failures also strike while the training waits, so its waiting is a share
 * of all time. Both shares are those of the closed form. */
TEST(training_run__waits_for_spares_as_poisson_says)
{
    struct reliability reliability = hand_reliability(6.5, 60, 1, 100);
    reliability.repair_s = 86400;
    reliability.spares = 18;
    struct goodput_setting setting = hand_training(&reliability, 2048);
    struct training_run run = training_run(&setting, 30000.0 * 86400, 1, 0);
    CHECK_CLOSE(run.without_spares_s / run.finish_s, goodput_waiting_share(13.312, 17), 0.02);
    CHECK_CLOSE(run.lost_s[GOODPUT_SPARES] / run.finish_s, goodput_waiting_share(13.312, 18), 0.02);
    reliability.spares = 0;
    run = training_run(&setting, 1e-3, 1, 0);
    CHECK_TRUE(run.without_spares_s == run.finish_s);
}

/* No failure strikes. Work of 750 s beside slow GPUs takes 1000 s, and 1090 s with 10 s of blocking after every 100 s
 * but the last. */
TEST(training_run__without_failures_blocks_and_slows)
{
    struct reliability reliability = hand_reliability(1e-3, 50, 10, 100);
    reliability.slow_share = 0.5;
    reliability.slow_factor = 2;
    struct goodput_setting setting = hand_training(&reliability, 1);
    struct training_run run = training_run(&setting, 750, 1, 0);
    CHECK_CLOSE(run.finish_s, 1090, 1e-14);
    CHECK_CLOSE(run.lost_s[GOODPUT_BLOCKED], 90, 1e-14);
    CHECK_CLOSE(run.lost_s[GOODPUT_SLOW], 250, 1e-14);
}

/** Find the time of a run's first failure by bisection: a shorter training without checkpoints ends before it. */
static double first_failure_s(const struct reliability *reliability, int32_t run)
{
    struct reliability unsaved = *reliability;
    unsaved.interval_s = 1e7;
    struct goodput_setting setting = hand_training(&unsaved, 1);
    double low_s = 0, high_s = 1e6;
    while (high_s - low_s > 1e-9 * high_s) {
        double middle_s = (low_s + high_s) / 2;
        bool failed = training_run(&setting, middle_s, 1, run).failures[FAILURE_OTHER] > 0;
        *(failed ? &high_s : &low_s) = middle_s;
    }
    return low_s;
}

/* A failure strikes at t behind k = floor(t / 110) checkpoints. The rest starts 50 s later, and no other one strikes.
 */
TEST(training_run__repeats_the_work_since_the_last_checkpoint)
{
    struct reliability reliability = hand_reliability(1000, 50, 10, 100);
    struct goodput_setting setting = hand_training(&reliability, 1);
    int n = 0;
    for (int32_t i = 0; i < 40; i++) {
        struct training_run run = training_run(&setting, 50000, 1, i);
        if (run.failures[FAILURE_OTHER] != 1)
            continue;
        double t_s = first_failure_s(&reliability, i), checkpoints = floor(t_s / 110);
        CHECK_CLOSE(run.lost_s[GOODPUT_WORK], t_s - 110 * checkpoints, 1e-3);
        CHECK_CLOSE(run.lost_s[GOODPUT_RESTART], 50, 1e-9);
        CHECK_CLOSE(run.lost_s[GOODPUT_BLOCKED], 10 * 499, 1e-12);
        CHECK_CLOSE(run.finish_s, t_s + 50 + (50000 - 100 * checkpoints) + 10 * (499 - checkpoints), 1e-8);
        n++;
    }
    CHECK_TRUE(n >= 5);
}

/** Return a cluster with two causes, few spares, and checkpoints in the background. */
static struct reliability worn(void)
{
    struct reliability reliability = hand_reliability(2, 120, 5, 600);
    reliability.failures[FAILURE_GPU] = 4;
    reliability.start_s = 30;
    reliability.repair_s = 40000;
    reliability.spares = 8;
    return reliability;
}

/* Runs have common random numbers: failures of a cause strike at the same times, whatever else changes. More failures
 * come by one more cause. So no single run may end earlier, or later with more spares. */
TEST(training_run__never_ends_earlier_on_a_worse_cluster)
{
    struct reliability reliability = worn();
    struct goodput_setting setting = {&reliability, 2048, 8, 1e12, 64e9};
    reliability.storage_bytes_per_s = 1e10;
    int n_later[4] = {0};
    for (int32_t i = 0; i < 400; i++) {
        const double shapes[] = {1, 0.7, 1.5};
        reliability = worn();
        reliability.weibull_shape = shapes[i % 3];
        double finish_s = training_run(&setting, 3e6, 5, i).finish_s;
        for (int change = 0; change < 4; change++) {
            reliability = worn();
            reliability.weibull_shape = shapes[i % 3];
            reliability.failures[FAILURE_HBM] = change == 0 ? 0.02 : 0;
            reliability.detect_s *= change == 1 ? 1.5 : 1;
            reliability.spares -= change == 2 ? 1 : 0;
            reliability.repair_s *= change == 3 ? 1.5 : 1;
            double later_s = training_run(&setting, 3e6, 5, i).finish_s;
            CHECK_TRUE(later_s >= finish_s);
            n_later[change] += later_s > finish_s;
        }
    }
    for (int change = 0; change < 4; change++)
        CHECK_TRUE(n_later[change] > 100);
}

/* The largest distance between the empirical distribution of the first failure and 1 - exp(-t/M). For 4000 runs it is
 * above 0.0258 with probability 1%. A shape of 1.1 has a distance of 0.03 itself. */
TEST(training_run__is_exponential_with_shape_1)
{
    enum { N = 4000 };
    const double shapes[] = {1, 0.7};
    for (int s = 0; s < 2; s++) {
        struct reliability reliability = hand_reliability(1000, 0, 0, 100);
        reliability.weibull_shape = shapes[s];
        struct goodput_setting setting = hand_training(&reliability, 1);
        double distance = 0, n_failures = 0;
        for (double share = 0.02; share < 1; share += 0.02) {
            int n = 0;
            for (int32_t i = 0; i < N; i++)
                n += training_run(&setting, -86400 * log(1 - share), 3, i).failures[FAILURE_OTHER] > 0;
            distance = fmax(distance, fabs((double)n / N - share));
        }
        CHECK_TRUE((distance < 0.0258) == (shapes[s] == 1));
        for (int32_t i = 0; i < 200; i++) {
            struct training_run run = training_run(&setting, 86400.0 * 1000, 3, i);
            n_failures += run.failures[FAILURE_OTHER] / (run.finish_s / 86400) / 200;
        }
        CHECK_CLOSE(n_failures, 1, 0.02); /* the mean time between failures does not depend on the shape */
    }
}

/** Return the Llama 3 cluster with the numbers of its preset. */
static struct reliability llama3(void)
{
    struct reliability reliability = hand_reliability(0, 600, NAN, NAN);
    for (int i = 0; i < FAILURE_N_CAUSES; i++)
        reliability.failures[i] = 419 / 110.592 / FAILURE_N_CAUSES;
    reliability.load_s = 129;
    reliability.barrier_s = 0.58;
    reliability.bytes_per_parameter = 14;
    reliability.storage_bytes_per_s = 1.11e11;
    reliability.spares = 16;
    reliability.repair_s = 86400;
    return reliability;
}

/* 400 days of 16,384 GPUs have some 3000 failures of 19 causes. */
TEST(training_run__takes_less_than_a_second_for_400_days)
{
    struct reliability reliability = llama3();
    struct goodput_setting setting = {&reliability, 2048, 8, 405e9, 64e9};
    clock_t start = clock();
    struct training_run run = training_run(&setting, 360 * 86400.0, 1, 0);
    double took_s = (double)(clock() - start) / CLOCKS_PER_SEC;
    CHECK_TRUE(380 * 86400.0 < run.finish_s && run.finish_s < 420 * 86400.0);
    CHECK_TRUE(2800 < sum_of(run.failures, FAILURE_N_CAUSES) && sum_of(run.failures, FAILURE_N_CAUSES) < 3400);
    CHECK_TRUE(took_s < 1);
}

/* Percentiles of 10 seeds are within 2%, also for a short training in which single failures count. */
TEST(training_runs__percentiles_are_stable_over_seeds)
{
    struct reliability of_weeks = llama3(), of_days = hand_reliability(50, 7200, 60, 7200);
    struct goodput_setting settings[] = {{&of_weeks, 2048, 8, 405e9, 64e9}, hand_training(&of_days, 16)};
    const double work_s[] = {50 * 86400.0, 5 * 86400.0};
    for (int i = 0; i < 2; i++) {
        double low[2] = {INFINITY, INFINITY}, high[2] = {0, 0};
        for (int64_t seed = 1; seed <= 10; seed++) {
            struct training_runs runs = training_runs(&settings[i], work_s[i], seed, TRAINING_RUNS_DEFAULT);
            CHECK_TRUE(runs.p5_s < runs.p50_s && runs.p50_s < runs.p95_s);
            low[0] = fmin(low[0], runs.p5_s);
            high[0] = fmax(high[0], runs.p5_s);
            low[1] = fmin(low[1], runs.p95_s);
            high[1] = fmax(high[1], runs.p95_s);
        }
        CHECK_TRUE(high[0] / low[0] < 1.02 && high[1] / low[1] < 1.02);
    }
}

/* Runs are numbered, so the first of many is the only one. */
TEST(training_runs__joins_single_runs)
{
    struct reliability reliability = worn();
    struct goodput_setting setting = hand_training(&reliability, 2048);
    struct training_run first = training_run(&setting, 1e6, 7, 0), second = training_run(&setting, 1e6, 7, 1);
    struct training_runs one = training_runs(&setting, 1e6, 7, 1), two = training_runs(&setting, 1e6, 7, 2);
    CHECK_TRUE(one.p5_s == first.finish_s && one.p95_s == first.finish_s);
    CHECK_TRUE(first.finish_s != second.finish_s);
    CHECK_CLOSE(two.p50_s, (first.finish_s + second.finish_s) / 2, 1e-14);
    CHECK_CLOSE(two.mean.finish_s, two.p50_s, 1e-14);
    CHECK_CLOSE(two.mean.failures[FAILURE_GPU], (first.failures[FAILURE_GPU] + second.failures[FAILURE_GPU]) / 2,
                1e-14);
}

/* A cluster that fails every minute never saves an hour of work. */
TEST(training_run__gives_up_when_it_hardly_advances)
{
    struct reliability reliability = hand_reliability(1e6, 60, 10, 3600);
    struct goodput_setting setting = hand_training(&reliability, 2);
    CHECK_TRUE(isinf(training_run(&setting, 1e5, 1, 0).finish_s));
    CHECK_TRUE(isinf(training_runs(&setting, 1e5, 1, 2).p95_s));
}
