/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "training.h"

#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "document/document_read.h"
#include "operation/training_run.h"
#include "scenario/scenario_read.h"

bool bench_training(struct error *err)
{
    static const char text[] = "reliability: llama3\n";
    struct document document = {0};
    struct reliability reliability;
    double run_s[RUNS], days = 0, failures = 0;
    bool ok = document_parse(text, strlen(text), "bench", &document, err) &&
              reliability_read(&document, scenario_data_dir(), &reliability, err);
    document_free(&document);
    if (!ok)
        return false;
    struct goodput_setting setting = {&reliability, 2048, 8, 405e9, 64e9};
    for (int i = 0; i < RUNS; i++) {
        double start_s = clock_cpu_s();
        struct training_run run = training_run(&setting, 360 * 86400.0, 1, i);
        run_s[i] = clock_cpu_s() - start_s;
        days += run.finish_s / 86400 / RUNS;
        for (int cause = 0; cause < FAILURE_N_CAUSES; cause++)
            failures += run.failures[cause] / RUNS;
    }
    printf("training: %.0f days of 16,384 GPUs with %.0f failures: %.3f ms CPU (median of %d)\n", days, failures,
           1e3 * median(run_s, RUNS), RUNS);
    return true;
}
