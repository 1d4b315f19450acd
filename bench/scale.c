/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scale.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "bench.h"
#include "execute/execute.h"
#include "scenario/scenario_read.h"

struct row {
    int32_t nodes, micro_batches;
    bool all_tensor_ranks;
};

static const struct row rows[] = {
    {8, 64, false},   {32, 64, false},  {128, 64, false},  {512, 64, false},  {2048, 64, false},
    {512, 16, false}, {512, 32, false}, {512, 128, false}, {512, 256, false}, {8, 64, true},
    {32, 64, true},   {128, 64, true},  {512, 64, true},
};

static bool build(const struct scenario *scenario, struct dag *dag, struct error *err)
{
    const struct scenario_system *entry = &scenario->systems[0];
    const struct training_system *system = system_find(entry->name, err);
    struct cost_setting setting = request_setting(scenario, &entry->plan);
    struct dag_options options = {.all_tensor_ranks = scenario->all_tensor_ranks, .gradient_sync = true};
    struct lengths lengths = {0};
    struct batch batch = {0};
    struct plan plan = {0};
    if (system == NULL || !lengths_open(&scenario->data, scenario_data_dir(), &lengths, err))
        return false;
    void *knobs = check_calloc(1, system->knobs_size), *state = check_calloc(1, system->state_size);
    lengths_draw(&lengths, &scenario->data, scenario->seed, 0, &batch);
    bool ok = system_read_knobs(system, scenario, entry, knobs, err);
    struct plan_request request = plan_request_of(scenario, &setting, &entry->plan, &batch, knobs, 0);
    ok = ok && system->plan(&request, state, &plan, err) && dag_build(&plan, &setting, options, dag, err);
    plan_free(&plan);
    batch_free(&batch);
    lengths_close(&lengths);
    free(knobs);
    free(state);
    return ok;
}

static bool row_run(const struct row *row, struct error *err)
{
    char platform[64], batch[64], all[64];
    const char *set[] = {platform, batch, all};
    struct scenario scenario = {0};
    struct timeline timeline = {0};
    struct dag dag = {0};
    struct rusage usage;
    double simgrid_s, peak_bytes;
    snprintf(platform, sizeof platform, "platform=hopper-%dx8", row->nodes);
    snprintf(batch, sizeof batch, "data.global_batch=%d",
             row->micro_batches * row->nodes / 8); /* the DP degree is nodes / 8 */
    snprintf(all, sizeof all, "all_tensor_ranks=%s", row->all_tensor_ranks ? "true" : "false");
    if (!scenario_read(SLIMSIM_SOURCE_DIR "/bench/scale.yaml", 3, set, &scenario, err) ||
        !build(&scenario, &dag, err) || !point_execute(&scenario, &dag, &timeline, err))
        return false;
    children_usage(&simgrid_s, &peak_bytes);
    getrusage(RUSAGE_SELF, &usage);
    printf("%6d %6d %10s %9d %11.2f %11.2f %18.2f %12.0f %11.0f\n", platform_n_gpus(&scenario.platform),
           row->micro_batches, row->all_tensor_ranks ? "all" : "one", dag.n_tasks, clock_cpu_s(), simgrid_s,
           1e6 * simgrid_s / dag.n_tasks, (double)usage.ru_maxrss * 1024 / 1e6, peak_bytes / 1e6);
    dag_free(&dag);
    timeline_free(&timeline);
    scenario_free(&scenario);
    return true;
}

bool bench_scale(struct error *err)
{
    printf("growth, one iteration: 70B, TP8 PP8, the rest DP, equal micro-batches; CPU with reading and loading the "
           "platform\n"
           "%6s %6s %10s %9s %11s %11s %18s %12s %11s\n",
           "GPUs", "micro-batches", "TP ranks", "tasks", "graph [s]", "SimGrid [s]", "SimGrid [us/task]", "graph [MB]",
           "SimGrid [MB]");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fflush(NULL);
        pid_t process = fork();
        CHECK(process >= 0);
        if (process == 0) {
            bool ok = row_run(&rows[i], err);
            if (!ok)
                fprintf(stderr, "bench: %s\n", err->text);
            fflush(NULL);
            _exit(ok ? EXIT_SUCCESS : EXIT_FAILURE);
        }
        int status;
        CHECK(waitpid(process, &status, 0) == process);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != EXIT_SUCCESS)
            return error_set_status(err, ERROR_FAILED, "no row of %d nodes", rows[i].nodes);
    }
    return true;
}
