/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "growth.h"

#include <math.h>
#include <stdio.h>

#include "base/check.h"
#include "bench.h"
#include "cost/attention_choice.h"
#include "scenario/scenario_read.h"

enum { N_TIMES = 3, MOST_SETS = 4 };

/** Sizes that grow by `ratio` from `small` to `large`. */
struct row {
    const char *what, *system;
    double ratio;
    const char *small[MOST_SETS], *large[MOST_SETS];
};

static const struct row rows[] = {
    {"documents", "slimpack", 10, {"data.global_batch=10000"}, {"data.global_batch=100000"}},
    {"documents", "wlb-llm", 10, {"data.global_batch=10000"}, {"data.global_batch=100000"}},
    {"micro-batches",
     "best-fit",
     8,
     {"data.lengths=fixed", "data.global_batch=2048"},
     {"data.lengths=fixed", "data.global_batch=16384"}},
    {"stages", "slimpack", 8, {"systems.0.plan.pp=4"}, {"systems.0.plan.pp=32"}},
    {"GPUs", "slimpack", 8, {"platform=h100-16x8"}, {"platform=h100-128x8", "data.global_batch=32000"}},
    {"GPUs",
     "best-fit",
     8,
     {"platform=h100-16x8", "data.lengths=fixed", "data.global_batch=2048"},
     {"platform=h100-128x8", "data.lengths=fixed", "data.global_batch=16384"}},
};

/** Return the median CPU seconds of an iteration. Negative: it cannot run. */
static double cpu_s(const struct row *row, const char *const *sets, struct error *err)
{
    char system[64];
    const char *set[MOST_SETS + 1] = {system};
    double times_s[N_TIMES];
    int32_t n = 1;
    snprintf(system, sizeof system, "systems.0.name=%s", row->system);
    for (int i = 0; i < MOST_SETS && sets[i] != NULL; i++)
        set[n++] = sets[i];
    for (int i = 0; i < N_TIMES; i++) {
        struct scenario scenario = {0};
        struct lengths lengths = {0};
        struct point point = {0};
        if (!scenario_read(SLIMSIM_SOURCE_DIR "/bench/growth.yaml", n, set, &scenario, err) ||
            !lengths_open(&scenario.data, scenario_data_dir(), &lengths, err))
            return -1;
        attention_choice_resolve(&scenario, &lengths);
        double start_s = clock_cpu_s();
        bool ok = point_run(&scenario, &lengths, &(struct point_options){0}, &point, err);
        times_s[i] = clock_cpu_s() - start_s;
        point_free(&point);
        lengths_close(&lengths);
        scenario_free(&scenario);
        if (!ok)
            return -1;
    }
    return median(times_s, N_TIMES);
}

bool bench_growth(struct error *err)
{
    printf(
        "growth, one iteration with its plan on the critical path, 7B (median of %d)\n%-14s %-10s %6s %10s %10s %9s\n",
        N_TIMES, "size", "system", "ratio", "small [s]", "large [s]", "exponent");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double small_s = cpu_s(&rows[i], rows[i].small, err), large_s = cpu_s(&rows[i], rows[i].large, err);
        if (small_s < 0 || large_s < 0)
            return false;
        printf("%-14s %-10s %6.0f %10.3f %10.3f %9.2f\n", rows[i].what, rows[i].system, rows[i].ratio, small_s, large_s,
               log(large_s / small_s) / log(rows[i].ratio));
    }
    return true;
}
