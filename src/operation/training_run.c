/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "operation/training_run.h"

#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics.h>
#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/rng.h"

/** The failures to come of one cause. */
struct failure_clock {
    enum failure_cause cause;
    struct rng *rng;
    double scale_s; /* of the Weibull law */
    double next_s;
};

/** The state of one run. */
struct simulation {
    const struct reliability *reliability;
    struct renewal renewal;
    struct failure_clock clocks[FAILURE_N_CAUSES];
    int32_t n_clocks;
    int64_t spares, n_failures;
    double saved; /* checkpoints that count */
    /* times of the last spares + 1 failures, the i-th at i mod (spares + 1); -INFINITY before there was any */
    double *failed_s;
    double used_until_s; /* end of the last time without spares */
    struct training_run result;
};

/** Draw the time from one failure of a cause to the next. */
static double draw_s(const struct simulation *simulation, const struct failure_clock *clock)
{
    return clock->scale_s * pow(-log(rng_uniform(clock->rng)), 1 / simulation->reliability->weibull_shape);
}

/** Start the clocks of all causes that have failures. */
static void start_clocks(struct simulation *simulation, int64_t n_servers, int64_t seed, int32_t run)
{
    const struct reliability *reliability = simulation->reliability;
    for (int i = 0; i < FAILURE_N_CAUSES; i++) {
        if (reliability->failures[i] == 0)
            continue;
        struct failure_clock *clock = &simulation->clocks[simulation->n_clocks++];
        double mean_s = 1000.0 * 86400.0 / (reliability->failures[i] * (double)n_servers);
        clock->cause = (enum failure_cause)i;
        clock->rng = rng_create(seed, (int64_t)run * FAILURE_N_CAUSES + i, RNG_FAILURES);
        clock->scale_s = mean_s / tgamma(1 + 1 / reliability->weibull_shape);
        clock->next_s = draw_s(simulation, clock);
    }
}

/** Find the next failure. */
static struct failure_clock *next_failure(struct simulation *simulation)
{
    struct failure_clock *first = &simulation->clocks[0];
    for (int32_t i = 1; i < simulation->n_clocks; i++)
        if (simulation->clocks[i].next_s < first->next_s)
            first = &simulation->clocks[i];
    return first;
}

/** Return the time of the failure that was `back` failures before the latest. back: at most spares */
static double failed_s(const struct simulation *simulation, int64_t back)
{
    int64_t n = simulation->spares + 1;
    return simulation->failed_s[(simulation->n_failures - 1 + n - back) % n];
}

/** Take a server away. All spares are used until the oldest of the last `spares` failures is repaired. */
static void fail(struct simulation *simulation, struct failure_clock *clock)
{
    int64_t spares = simulation->spares;
    double now_s = clock->next_s;
    simulation->result.failures[clock->cause]++;
    simulation->failed_s[simulation->n_failures++ % (spares + 1)] = now_s;
    clock->next_s = now_s + draw_s(simulation, clock);
    if (spares == 0)
        return;
    double until_s = failed_s(simulation, spares - 1) + simulation->reliability->repair_s;
    double from_s = fmax(now_s, simulation->used_until_s);
    if (until_s > from_s) {
        simulation->result.without_spares_s += until_s - from_s;
        simulation->used_until_s = until_s;
    }
}

/** Return whether the run gives up, since it hardly advances. */
static bool gives_up(const struct simulation *simulation, double now_s)
{
    return simulation->n_failures >= TRAINING_RUN_LEAST_FAILURES &&
           100 * simulation->saved * simulation->renewal.interval_s < now_s;
}

/** Restart after a failure, and after each that strikes meanwhile. @return time at which training runs again */
static double restart(struct simulation *simulation, struct failure_clock *clock)
{
    const struct reliability *reliability = simulation->reliability;
    double *lost_s = simulation->result.lost_s, behind_s = simulation->renewal.restart_s - reliability->detect_s;
    for (;;) {
        double from_s = clock->next_s;
        fail(simulation, clock);
        double detected_s = from_s + reliability->detect_s;
        double server_s = fmax(detected_s, failed_s(simulation, simulation->spares) + reliability->repair_s);
        double ready_s = server_s + behind_s;
        clock = next_failure(simulation);
        double until_s = fmin(ready_s, clock->next_s);
        double waited_s = fmax(0, fmin(until_s, server_s) - detected_s);
        lost_s[GOODPUT_SPARES] += waited_s;
        lost_s[GOODPUT_RESTART] += until_s - from_s - waited_s;
        if (until_s == ready_s || gives_up(simulation, until_s))
            return ready_s;
    }
}

/** Count what a run of `checkpoints` that count gained and lost. @param trained_s  running time that counts */
static void account(struct simulation *simulation, double trained_s, double checkpoints)
{
    const struct reliability *reliability = simulation->reliability;
    double *lost_s = simulation->result.lost_s;
    lost_s[GOODPUT_BLOCKED] += checkpoints * simulation->renewal.blocked_s;
    lost_s[GOODPUT_SLOW] += trained_s * reliability->slow_share * (1 - 1 / reliability->slow_factor);
}

/** Train until the work is done. */
static void train(struct simulation *simulation, double work_s)
{
    const struct renewal *renewal = &simulation->renewal;
    const struct reliability *reliability = simulation->reliability;
    double speed = 1 - reliability->slow_share * (1 - 1 / reliability->slow_factor);
    double running_s = work_s / speed, round_s = renewal->interval_s + renewal->blocked_s;
    double n_intervals = ceil(running_s / renewal->interval_s), now_s = 0;
    while (!gives_up(simulation, now_s)) {
        struct failure_clock *clock = next_failure(simulation);
        double left_s = running_s - simulation->saved * renewal->interval_s;
        double checkpoints = n_intervals - simulation->saved - 1;
        double finish_s = now_s + left_s + checkpoints * renewal->blocked_s;
        if (finish_s <= clock->next_s) {
            account(simulation, left_s, checkpoints);
            simulation->result.finish_s = finish_s;
            return;
        }
        double ran_s = clock->next_s - now_s;
        double gained = fmin(checkpoints, fmax(0, floor((ran_s - renewal->save_s) / round_s)));
        account(simulation, gained * renewal->interval_s, gained);
        simulation->result.lost_s[GOODPUT_WORK] += ran_s - gained * round_s;
        simulation->saved += gained;
        now_s = restart(simulation, clock);
    }
    simulation->result.finish_s = INFINITY;
}

struct training_run training_run(const struct goodput_setting *setting, double work_s, int64_t seed, int32_t run)
{
    struct simulation simulation = {
        .reliability = setting->reliability, .renewal = goodput_renewal(setting), .spares = goodput_spares(setting)};
    int64_t spares = simulation.spares;
    simulation.failed_s = check_malloc((size_t)(spares + 1) * sizeof *simulation.failed_s);
    for (int64_t i = 0; i <= spares; i++)
        simulation.failed_s[i] = -INFINITY;
    start_clocks(&simulation, setting->n_servers, seed, run);
    train(&simulation, work_s);
    struct training_run *result = &simulation.result;
    if (spares == 0)
        result->without_spares_s = result->finish_s;
    else
        result->without_spares_s -= fmax(0, simulation.used_until_s - result->finish_s);
    for (int32_t i = 0; i < simulation.n_clocks; i++)
        rng_free(simulation.clocks[i].rng);
    free(simulation.failed_s);
    return *result;
}

void training_run_add_to_mean(struct training_run *mean, const struct training_run *run, int32_t n)
{
    mean->finish_s += run->finish_s / n;
    mean->without_spares_s += run->without_spares_s / n;
    for (int i = 0; i < GOODPUT_N_LOSSES; i++)
        mean->lost_s[i] += run->lost_s[i] / n;
    for (int i = 0; i < FAILURE_N_CAUSES; i++)
        mean->failures[i] += run->failures[i] / n;
}

/** Return a percentile of sorted times. Runs that gave up have infinite ones, which GSL cannot interpolate. */
static double quantile(const double *sorted_s, int32_t n, double share)
{
    double quantile_s = gsl_stats_quantile_from_sorted_data(sorted_s, 1, (size_t)n, share);
    return isnan(quantile_s) ? INFINITY : quantile_s;
}

struct training_runs training_runs(const struct goodput_setting *setting, double work_s, int64_t seed, int32_t n_runs)
{
    CHECK(n_runs >= 1);
    struct training_runs runs = {.n = n_runs};
    double *finish_s = check_malloc((size_t)n_runs * sizeof *finish_s);
    for (int32_t i = 0; i < n_runs; i++) {
        struct training_run run = training_run(setting, work_s, seed, i);
        finish_s[i] = run.finish_s;
        training_run_add_to_mean(&runs.mean, &run, n_runs);
    }
    gsl_sort(finish_s, 1, (size_t)n_runs);
    runs.p5_s = quantile(finish_s, n_runs, 0.05);
    runs.p50_s = quantile(finish_s, n_runs, 0.5);
    runs.p95_s = quantile(finish_s, n_runs, 0.95);
    free(finish_s);
    return runs;
}
