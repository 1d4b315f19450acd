/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check the rows that a run records in its files. */
#include "base/check.h"
#include "harness.h"
#include "sample_run.h"
#include "simulate/record.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* There are 2 pipelines x 3 stages with 4 micro-batches: sample 0 in the first two, then samples 1 and 2. */
static const struct sample_shape shape = {.pipelines = 2,
                                          .stages = 3,
                                          .micro_batches = 4,
                                          .sample = {0, 0, 1, 2},
                                          .tokens = {4000, 2000, 3000, 1000},
                                          .send_s = 1e-5};

static const struct trace_summary summaries[2] = {
    {.gpus = 8,
     .tp = 1,
     .pp = 3,
     .cp = 1,
     .dp = 2,
     .vpp = 1,
     .plan_text = "PP3 DP2",
     .fits = true,
     .rank = 2,
     .measured_iterations = 3,
     .time_mean_s = 0.25,
     .tokens_per_s_per_gpu_interval = 51.5,
     .tokens_per_s_per_gpu_flash2 = NAN, /* its attention is measured */
     .mfu = 0.4},
    {.system = 1,
     .gpus = 8,
     .time_mean_s = 0.125,
     .tokens_per_s_per_gpu = 1060,
     .tokens_per_s_per_gpu_interval = NAN, /* one iteration has none */
     .tokens_per_s_per_gpu_flash2 = 530,
     .tokens_per_s = 8480,
     .mfu = 0.5,
     .speed_up = 1.25,
     .speed_up_interval = NAN,
     .first_exceeds_limit = true,
     .class_bytes = {[MEMORY_KV] = 5}},
};

/* Record two systems over two warm-up and three measured iterations, then iteration 3 again, as a run would call. */
static bool observe_all(struct record *record, const struct scenario *scenario, struct sample_run *run,
                        struct error *err)
{
    bool ok = true;
    for (int32_t system = 0; system < 2 && ok; system++)
        for (int64_t i = 0; i < scenario->warm_up + scenario->measured && ok; i++) {
            struct point_view view = sample_view(run, scenario, system);
            run->iteration.row.system = system;
            run->iteration.row.iteration = i;
            run->iteration.row.measured = i >= scenario->warm_up;
            ok = record_observe(record, &view, err);
        }
    for (int32_t system = 0; system < 2 && record->full && ok; system++) {
        struct point_view view = sample_view(run, scenario, system);
        run->iteration.row.iteration = 3;
        ok = record_observe_again(record, &view, err);
    }
    return ok;
}

/* Write scratch/sample.h5 (which test_trace_h5py.py reads, too) and open it. */
static struct trace_reader *recorded(enum scenario_trace trace)
{
    struct error err = {0};
    struct scenario scenario;
    struct scenario_system systems[2];
    struct sample_run run;
    struct record record = {0};
    sample_scenario(&scenario, systems);
    scenario.trace = trace;
    sample_run_build(&run, &shape);
    enum { N_ITERATIONS = 2 + 3 };
    struct point_iteration iterations[N_ITERATIONS];
    for (int32_t i = 0; i < N_ITERATIONS; i++)
        iterations[i] = run.iteration;
    run.system.iterations = iterations;
    struct point_system point_systems[2] = {run.system, run.system};
    struct point point = {.n_systems = 2, .systems = point_systems, .memory_bytes = 7.5e10};
    const char *folder = harness_path("");
    CHECK(record_open(&record, folder, &scenario, "name: sample\n", &(struct lengths){.hash = 0x1234}, &err));
    CHECK(observe_all(&record, &scenario, &run, &err));
    CHECK(record_close(&record, &scenario, &point, summaries, &err));
    sample_run_release(&run);
    struct trace_reader *reader = trace_open(harness_path("sample.h5"), &err);
    CHECK(reader != NULL);
    return reader;
}

/* Stage 0 of pipeline 1 runs the forwards of micro-batches 0 and 1 at once, sample 0's tokens [4000, 6000) in the
 * second. */
TEST(record_rows__say_where_and_when)
{
    struct error err = {0};
    struct trace_reader *reader = recorded(SCENARIO_TRACE_FULL);
    struct trace_task *tasks = check_calloc(160, sizeof *tasks);
    CHECK_EQUAL(trace_n_rows(reader, TRACE_TASKS), 160);
    CHECK_TRUE(trace_read(reader, TRACE_TASKS, 160, tasks, &err));
    int32_t found = 0;
    for (int32_t t = 0; t < 160; t++)
        if (tasks[t].system == 1 && tasks[t].pipeline == 1 && tasks[t].stage == 0 && tasks[t].micro_batch == 1 &&
            tasks[t].kind == DAG_COMPUTE && tasks[t].direction == PASS_FORWARD) {
            found++;
            CHECK_CLOSE(tasks[t].start_s, 4e-3, 1e-12);
            CHECK_CLOSE(tasks[t].finish_s, 6e-3, 1e-12);
            CHECK_CLOSE(tasks[t].duration_s, 2e-3, 1e-12);
            CHECK_CLOSE(tasks[t].tensor_s, 2e-4, 1e-12);
            CHECK_EQUAL(tasks[t].rank, 3);
            CHECK_EQUAL(tasks[t].iteration, 3);
        }
    CHECK_EQUAL(found, 1);
    free(tasks);
    struct trace_micro_batch micro_batches[2];
    CHECK_TRUE(trace_read(reader, TRACE_MICRO_BATCHES, 2, micro_batches, &err));
    CHECK_EQUAL(micro_batches[1].begin, 4000);
    CHECK_EQUAL(micro_batches[1].end, 6000);
    CHECK_EQUAL(micro_batches[1].formation, PLAN_SLIM);
    /* 2 layers of h = 5120 without feed-forward block: P = 4 h^2; F(6000) - F(4000), F(x) = 2h x^2 + (2P + 2h) x */
    CHECK_CLOSE(micro_batches[1].flop, 2 * (10240.0 * (36e6 - 16e6) + 2000 * (8 * 5120.0 * 5120 + 10240)), 1e-15);
    trace_reader_close(reader);
}

/* Columns of blocks are their members. */
TEST(summary__has_a_row_per_system)
{
    struct error err = {0};
    struct trace_reader *reader = recorded(SCENARIO_TRACE_FULL);
    struct trace_summary rows[2];
    CHECK_TRUE(trace_read(reader, TRACE_SUMMARY, 2, rows, &err));
    CHECK_CLOSE(rows[0].tokens_per_s_per_gpu_interval, 51.5, 1e-15);
    CHECK_TRUE(isnan(rows[1].tokens_per_s_per_gpu_interval) && isnan(rows[1].speed_up_interval));
    CHECK_EQUAL(rows[0].rank, 2);
    CHECK_EQUAL(rows[1].system, 1);
    CHECK_CLOSE(rows[1].kv_bytes, 5, 1e-15);
    trace_reader_close(reader);
    char line[4096];
    FILE *file = fopen(harness_path("sample.csv"), "r");
    CHECK(file != NULL);
    CHECK_TRUE(fgets(line, sizeof line, file) != NULL && strncmp(line, "system,gpus,tp,pp,cp,ep,dp,vpp,", 31) == 0);
    CHECK_TRUE(fgets(line, sizeof line, file) != NULL &&
               strncmp(line, "best-fit,8,1,3,1,0,2,1,1f1b,0,zero1,fp32,kept,none,0,0,PP3 DP2,1,0,-,2,3,0.25,", 78) ==
                   0);
    CHECK_TRUE(fgets(line, sizeof line, file) != NULL && strncmp(line, "\"slim, \"\"packed\"\"\",8,", 21) == 0);
    CHECK_CONTAINS(line, ",0.125,0,0,1060,,530,8480,0.5,0,0,1.25,,1,"); /* a missing interval is an empty cell */
    CHECK_TRUE(fgets(line, sizeof line, file) == NULL);
    fclose(file);
}

TEST(summary_trace__has_no_detail)
{
    struct trace_reader *reader = recorded(SCENARIO_TRACE_SUMMARY);
    CHECK_EQUAL(trace_n_rows(reader, TRACE_SUMMARY), 2);
    CHECK_EQUAL(trace_n_rows(reader, TRACE_ITERATIONS), 10);
    CHECK_EQUAL(trace_n_rows(reader, TRACE_LENGTHS), -1);
    CHECK_EQUAL(trace_n_rows(reader, TRACE_TASKS), -1);
    trace_reader_close(reader);
}

/* Warm-up has iterations 0 and 1. Means are 4 and 10 s: iteration 2 is 0.25 + 0.1 from them, 3 is 0 + 0.2, 4 is 0.25 +
 * 0.1. */
TEST(typical_iteration__is_nearest_to_the_means_of_all_systems)
{
    enum { N_ITERATIONS = 2 + 3 };
    const double time_s[2][N_ITERATIONS] = {{4, 4, 3, 4, 5}, {10, 10, 9, 12, 9}};
    struct point_iteration iterations[2][N_ITERATIONS] = {0};
    struct point_system systems[2] = {0};
    struct scenario scenario = {.warm_up = 2, .measured = 3};
    struct point point = {.n_systems = 2, .systems = systems};
    for (int32_t s = 0; s < 2; s++) {
        systems[s] = (struct point_system){.n_iterations = N_ITERATIONS, .iterations = iterations[s]};
        for (int32_t i = 0; i < N_ITERATIONS; i++)
            iterations[s][i].row.time_s = time_s[s][i];
    }
    CHECK_EQUAL(point_typical_iteration(&scenario, &point), 3);
    iterations[0][3].row.time_s = 4.8; /* 3 is 0.125 + 0.2 from the means 4.27 and 10, 4 is 0.172 + 0.1 */
    CHECK_EQUAL(point_typical_iteration(&scenario, &point), 4);
}

/* An observer that fails ends the run. Nothing gets the name then. */
TEST(record__ends_the_run_at_a_time_that_is_not_finite)
{
    struct error err = {0};
    struct scenario scenario;
    struct scenario_system systems[2];
    struct sample_run run;
    struct record record = {0};
    sample_scenario(&scenario, systems);
    strcpy(scenario.name, "broken");
    sample_run_build(&run, &shape);
    run.timeline.finish_s[5] /= 0.0;
    const char *folder = harness_path("");
    CHECK(record_open(&record, folder, &scenario, "name: sample\n", &(struct lengths){.hash = 0x1234}, &err));
    CHECK_TRUE(!observe_all(&record, &scenario, &run, &err));
    CHECK_EQUAL(err.status, ERROR_FAILED);
    CHECK_CONTAINS(err.text, "finish_s of row 5 of table tasks is inf");
    record_abandon(&record);
    CHECK_TRUE(access(harness_path("broken.h5"), F_OK) != 0);
    CHECK_TRUE(access(harness_path("broken.csv"), F_OK) != 0);
    sample_run_release(&run);
}

/* There are 2 systems x 5 iterations and 5 x 3 samples of lengths. The rest is one iteration of both systems. It has
 * 2 x 2 pipelines x (2 passes x 4 micro-batches of one slice). Passes are 2 x 3 stages x 8, sends 2 x 2 boundaries x 8.
 * Edges into a pass come from its stream's last pass (all but the first of each stage). They also come from its
 * boundary (all but forwards on stage 0). Edges into a send come from its pass and the send before it on its stream.
 * This is the last test, as test_trace_h5py.py reads its file. */
TEST(full_trace__has_the_iteration_that_ran_again)
{
    struct trace_reader *reader = recorded(SCENARIO_TRACE_FULL);
    CHECK_EQUAL(trace_n_rows(reader, TRACE_SUMMARY), 2);
    CHECK_EQUAL(trace_n_rows(reader, TRACE_ITERATIONS), 10);
    CHECK_EQUAL(trace_n_rows(reader, TRACE_LENGTHS), 15);
    CHECK_EQUAL(trace_n_rows(reader, TRACE_MICRO_BATCHES), 2 * 2 * 8);
    CHECK_EQUAL(trace_n_rows(reader, TRACE_TRANSFERS), 2 * (2 * 2 * 8));
    CHECK_EQUAL(trace_n_rows(reader, TRACE_TASKS), 2 * (2 * 3 * 8 + 2 * 2 * 8));
    CHECK_EQUAL(trace_n_rows(reader, TRACE_MEMORY), 2 * (2 * 3 * 8));
    CHECK_EQUAL(trace_n_rows(reader, TRACE_EDGES), 2 * 2 * ((3 * 7 + 3 * 8 - 4) + (2 * 8 + 2 * 2 * 3)));
    trace_reader_close(reader);
    char path[1100];
    snprintf(path, sizeof path, "%s", harness_path("sample.h5"));
    char *program = sample_trace_text(path, "program"), *hash = sample_trace_text(path, "lengths_hash");
    CHECK_TEXT(program, "slimsim " SLIMSIM_VERSION);
    CHECK_TEXT(hash, "0000000000001234");
    free(program);
    free(hash);
}
