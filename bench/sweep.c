/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This program measures what a sweep costs beside its points: build/release/bench/bench_sweep
 *
 * 1. bench/sweep.yaml has 10,000 points that differ in their seed. They are first simulated one after another in this
 *    process.
 * 2. Then they run as a sweep with one worker, from resolving the points to the journal and the three files.
 * 3. The difference of CPU seconds, with children, is the cost of the sweep itself. It may be at most 1 ms a point.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "scenario/scenario_read.h"
#include "simulate/point_runner.h"
#include "sweep/driver.h"

static const char path[] = SLIMSIM_SOURCE_DIR "/bench/sweep.yaml";
static const double most_s = 1e-3; /* limit for the sweep itself, for each point */

/** Return the CPU seconds of this process and of its children that have ended. */
static double cpu_s(void)
{
    struct rusage children;
    getrusage(RUSAGE_CHILDREN, &children);
    return clock_cpu_s() + (double)(children.ru_utime.tv_sec + children.ru_stime.tv_sec) +
           1e-6 * (double)(children.ru_utime.tv_usec + children.ru_stime.tv_usec);
}

static bool read_sweep(struct sweep *sweep, struct error *err)
{
    struct document document = {0};
    if (scenario_read_document(path, 0, NULL, &document, err))
        return sweep_read(&document, sweep, err);
    document_free(&document);
    return false;
}

/** Simulate only the points. */
static bool simulate(const struct sweep *sweep, struct error *err)
{
    struct sweep_runner *runner = check_calloc(1, sizeof *runner);
    struct scenario scenario = {0};
    const struct lengths *lengths;
    uint64_t id;
    runner->sweep = sweep;
    bool ok = sweep_runner_point(runner, 0, &scenario, &lengths, &id, err);
    for (int32_t i = 0; i < sweep->n_points && ok; i++, scenario.seed++) {
        struct point point = {0};
        ok = point_run(&scenario, lengths, &(struct point_options){0}, &point, err);
        point_free(&point);
    }
    scenario_free(&scenario);
    sweep_runner_close(runner);
    free(runner);
    return ok;
}

static bool run_sweep(const struct sweep *sweep, const char *directory, struct error *err)
{
    static const volatile sig_atomic_t never;
    struct sweep_runner *runner = check_calloc(1, sizeof *runner);
    struct driver_options options = {.directory = directory, .jobs = 1, .stop = &never};
    struct driver_outcome outcome;
    struct manifest manifest;
    runner->sweep = sweep;
    manifest_of_sweep(sweep, &manifest);
    manifest.command = check_strdup("slimsim run bench/sweep.yaml");
    bool ok = driver_resolve(runner, &manifest, NULL, err) && driver_run(runner, &manifest, &options, &outcome, err);
    if (ok && outcome.n_failed > 0)
        ok = error_set_status(err, ERROR_FAILED, "%d points failed", outcome.n_failed);
    sweep_runner_close(runner);
    free(runner);
    manifest_free(&manifest);
    return ok;
}

static void remove_files(const char *directory)
{
    static const char *const suffix[] = {"journal", "h5", "csv", "points.csv"};
    char file[256];
    for (size_t i = 0; i < sizeof suffix / sizeof *suffix; i++) {
        snprintf(file, sizeof file, "%s/sweep.%s", directory, suffix[i]);
        unlink(file);
    }
    rmdir(directory);
}

int main(void)
{
    setenv("SLIMSIM_DATA", SLIMSIM_SOURCE_DIR, 0);
    struct sweep sweep = {0};
    struct error err = {0};
    char directory[] = "bench-sweep-XXXXXX";
    bool ok = mkdtemp(directory) != NULL || error_set_status(&err, ERROR_CANT_CREATE, "cannot make a folder here");
    ok = ok && read_sweep(&sweep, &err);
    double begin_s = cpu_s();
    ok = ok && simulate(&sweep, &err);
    double middle_s = cpu_s();
    ok = ok && run_sweep(&sweep, directory, &err);
    double end_s = cpu_s();
    if (ok) {
        int32_t n = sweep.n_points;
        double own_s = (end_s - middle_s - (middle_s - begin_s)) / n;
        printf(
            "sweep of %d points: %.3f ms CPU a point, of which its simulation %.3f ms and the sweep %.3f ms (at most "
            "%.0f ms: %s)\n",
            n, 1e3 * (end_s - middle_s) / n, 1e3 * (middle_s - begin_s) / n, 1e3 * own_s, 1e3 * most_s,
            own_s <= most_s ? "yes" : "NO");
        ok = own_s <= most_s || error_set_status(&err, ERROR_FAILED, "the sweep costs too much");
    }
    if (!ok)
        fprintf(stderr, "bench_sweep: %s\n", err.text);
    remove_files(directory);
    sweep_free(&sweep);
    return (int)err.status;
}
