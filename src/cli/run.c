/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file is `slimsim run`. It simulates a scenario, prints the comparison and writes NAME.h5 and NAME.csv. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/cores.h"
#include "base/status_line.h"
#include "cli/commands.h"
#include "cli/plan_search.h"
#include "cli/report.h"
#include "cli/stop.h"
#include "cli/sweep.h"
#include "cli/verdict.h"
#include "execute/execute.h"
#include "scenario/scenario_read.h"
#include "simulate/assumptions.h"
#include "simulate/record.h"
#include "simulate/standing.h"
#include "sweep/journal.h"
#include "sweep/sweep_output.h"
#include "trace/output.h"

struct arguments {
    struct options options;
    struct sweep_arguments sweep;
    const char *scenario;
    const char *simgrid_trace; /* NULL: none */
    char *simgrid_cfg;         /* assignment of the key, NULL: none */
    json_t *point;             /* of --json: index, id and swept keys */
};

/** It is the work after each iteration. */
struct run_progress {
    struct record *record;     /* NULL: no trace */
    const char *simgrid_trace; /* NULL: none */
    struct status_line status;
    double n_done; /* iterations of all systems */
};

/** Return whether the trace ends with the outermost container. SimGrid does not report a full disk. */
static bool simgrid_trace_is_whole(const char *path)
{
    char end[5] = "";
    FILE *file = fopen(path, "r");
    bool ok = file != NULL && fseek(file, -5, SEEK_END) == 0 && fread(end, 1, 5, file) == 5;
    if (file != NULL)
        fclose(file);
    return ok && memcmp(end, " 1 1\n", 5) == 0;
}

/**
 * Return FILE.paje for a scenario with one system. With several systems each has FILE-LABEL.paje. The
 * caller frees it.
 */
static char *simgrid_trace_path(const char *path, const struct scenario *scenario, int32_t system)
{
    const char *dot = strrchr(path, '.');
    int stem = dot != NULL && strchr(dot, '/') == NULL ? (int)(dot - path) : (int)strlen(path);
    return scenario->n_systems == 1
               ? check_strdup(path)
               : check_asprintf("%.*s-%s%s", stem, path, scenario->systems[system].label, path + stem);
}

static bool is_simgrid_trace(const char *path)
{
    return output_begins_with(path, "#This file was generated using SimGrid-");
}

/** Return whether the files of all systems may be written. A symbolic link is not followed. */
static bool simgrid_traces_may_be_written(const char *path, const struct scenario *scenario, struct error *err)
{
    bool ok = true;
    for (int32_t i = 0; i < scenario->n_systems && ok; i++) {
        struct stat status;
        char *file = simgrid_trace_path(path, scenario, i);
        if (lstat(file, &status) == 0 && S_ISLNK(status.st_mode))
            ok = error_set_status(err, ERROR_CANT_CREATE, "cannot create %s: it is not a regular file", file);
        ok = ok && output_may_replace(file, is_simgrid_trace, "SimGrid trace", "another --simgrid-trace FILE", err);
        free(file);
    }
    return ok;
}

/** Run the iteration once more to write SimGrid's trace. */
static bool write_simgrid_trace(const char *path, const struct point_view *view, struct error *err)
{
    struct output output;
    struct timeline timeline = {0};
    char *file = simgrid_trace_path(path, view->scenario, view->system_index);
    bool ok = output_begin(&output, file, err);
    if (ok) {
        struct execute_options options = {.cfg = view->scenario->simgrid_cfg, .trace = output.temporary};
        ok = execute(view->dag, view->graph, &view->scenario->platform, &options, &timeline, err) &&
             (simgrid_trace_is_whole(output.temporary) ||
              output_failed(&output, ERROR_IO, "SimGrid could not write the whole file", err)) &&
             output_commit(&output, 1, err);
        output_abandon(&output);
    }
    timeline_free(&timeline);
    free(file);
    return ok;
}

static bool after_iteration(void *context, const struct point_view *view, struct error *err)
{
    struct run_progress *progress = context;
    const struct scenario *scenario = view->scenario;
    char left[STATUS_LEFT_BYTES];
    status_line_left(progress->status.begin_s,
                     ++progress->n_done / ((double)scenario->n_systems * view->system->n_iterations), left);
    status_line_print(&progress->status, "%s (%d of %d): iteration %d of %d (%.2f s simulated)%s",
                      view->system->entry->label, (int)view->system_index + 1, (int)scenario->n_systems,
                      (int)view->iteration->row.iteration + 1, view->system->n_iterations, view->iteration->row.time_s,
                      left);
    if (progress->simgrid_trace != NULL && view->iteration->row.iteration == view->scenario->warm_up &&
        !write_simgrid_trace(progress->simgrid_trace, view, err))
        return false;
    return progress->record == NULL || record_observe(progress->record, view, err);
}

static bool start_record(const struct arguments *arguments, const struct scenario *scenario,
                         const struct lengths *lengths, struct record *record, struct error *err)
{
    char *text = scenario_text(scenario);
    bool ok = record_open(record, arguments->options.output, scenario, text, lengths, err);
    free(text);
    return ok;
}

static bool finish_record(const struct scenario *scenario, const struct point *point, const struct verdict *verdict,
                          struct record *record, struct error *err)
{
    if (verdict_record(verdict, record->trace, err))
        return record_close(record, scenario, point, verdict->ranked.summaries, err);
    record_abandon(record);
    return false;
}

static bool record_searches(struct record *record, const struct plan_search *search, struct error *err)
{
    bool ok = true;
    for (int32_t i = 0; ok && i < search->n_systems; i++)
        ok = record_search(record, i, &search->results[i], err);
    return ok;
}

/**
 * Print the CPU time of the systems' decisions and the simulated time, without warm-up, like the table. The time is no
 * result, as it differs from run to run.
 */
static void print_solve_times(const struct scenario *scenario, const struct point *point)
{
    double n = (double)scenario->measured;
    for (int32_t i = 0; i < point->n_systems; i++) {
        const struct point_system *system = &point->systems[i];
        double solve_s = 0, largest_s = 0, time_s = 0;
        for (int32_t k = 0; k < system->n_iterations; k++) {
            const struct point_iteration *iteration = &system->iterations[k];
            if (!iteration->row.measured)
                continue;
            solve_s += iteration->solve_s / n;
            time_s += iteration->row.time_s / n;
            largest_s = iteration->solve_s > largest_s ? iteration->solve_s : largest_s;
        }
        fprintf(stderr, "%s: planned in %.3g ms of CPU an iteration (at most %.3g ms), simulated %.4g s\n",
                system->entry->label, 1e3 * solve_s, 1e3 * largest_s, time_s);
    }
}

static void print_results(const struct arguments *arguments, const struct scenario *scenario, const struct point *point,
                          const struct plan_search *search, const struct verdict *verdict)
{
    if (arguments->options.json) {
        json_object_set_new(arguments->point, "status", json_string(result_status_name[RESULT_DONE]));
        json_object_update_new(arguments->point, report_json(scenario, point, search));
        verdict_add_json(verdict, arguments->point);
        command_print_json(json_pack("{s:s, s:[O]}", "name", scenario->name, "points", arguments->point));
        return;
    }
    verdict_print(verdict);
    if (arguments->options.verbose) {
        putchar('\n');
        report_print(scenario, point, search);
    }
}

static bool simulate(const struct arguments *arguments, const struct scenario *scenario, const struct lengths *lengths,
                     const struct plan_search *search, struct error *err)
{
    struct record record = {0};
    struct point point = {0};
    bool traced = scenario->trace != SCENARIO_TRACE_NONE;
    struct run_progress progress = {
        .record = traced ? &record : NULL,
        .simgrid_trace = arguments->simgrid_trace,
    };
    struct point_options options = {.searches = search->results,
                                    .observer = after_iteration,
                                    .context = &progress,
                                    .n_children = cores_available()};
    if (traced && !start_record(arguments, scenario, lengths, &record, err))
        return false;
    status_line_begin(&progress.status, !arguments->options.quiet, "run: %s", scenario->name);
    bool ok = (!traced || record_searches(&record, search, err)) &&
              point_run(scenario, lengths, &options, &point, err) &&
              (!traced || record_typical_iteration(&record, scenario, lengths, search->results, &point, err));
    status_line_end(&progress.status);
    if (!ok)
        record_abandon(&record);
    struct verdict verdict = {0};
    if (ok && !verdict_make(scenario, lengths, &point, true, &verdict, err)) {
        ok = false;
        record_abandon(&record);
    }
    stop_catch(); /* a signal waits until all files are written */
    ok = ok && (!traced || finish_record(scenario, &point, &verdict, &record, err));
    if (ok)
        print_results(arguments, scenario, &point, search, &verdict);
    fflush(stdout); /* so that text on stderr comes later if both go to one file */
    if (ok && arguments->options.verbose && !arguments->options.quiet)
        print_solve_times(scenario, &point);
    if (ok && traced && !arguments->options.quiet)
        fprintf(stderr, "written: %s/%s.h5 and %s.csv%s\n", arguments->options.output, scenario->name, scenario->name,
                arguments->options.verbose || arguments->options.json ? "" : "; -v prints every number");
    verdict_free(&verdict);
    point_free(&point);
    return ok;
}

/** Limit this process, which runs one point. */
static void set_limits(const struct sweep_arguments *arguments)
{
    rlim_t bytes = (rlim_t)arguments->memory_bytes;
    if (arguments->time_limit_s > 0)
        stop_after(arguments->time_limit_s);
    if (bytes > 0)
        CHECK(setrlimit(RLIMIT_DATA, &(struct rlimit){bytes, bytes}) == 0);
}

/** Reserve the names of the files, so that no other slimsim writes them meanwhile. */
static bool hold_names(const struct arguments *arguments, const struct scenario *scenario, struct journal *journal,
                       struct error *err)
{
    const char *folder = arguments->options.output;
    char *path = check_asprintf("%s/%s.journal", folder, scenario->name);
    bool ok = command_make_folder(folder, err) && journal_hold(path, journal, err) &&
              sweep_output_may_be_replaced(folder, scenario->name, NULL, err);
    if (ok)
        sweep_output_clean(folder, scenario->name);
    free(path);
    return ok;
}

/** Say before a run that it will be long, or that the context is shorter than most documents, as 64 for 64Ki would be.
 */
static void warn(const struct scenario *scenario, const struct lengths *lengths)
{
    char line[ASSUMPTIONS_SIZE];
    if (assumptions_size(scenario, platform_n_gpus(&scenario->platform), line))
        fprintf(stderr, "%s\n", line);
    bool most = lengths_cdf(lengths, (double)scenario->data.context) < 0.5;
    if (most && assumptions_long_documents(&scenario->data, lengths, line))
        fprintf(stderr, "%s\n", line);
}

/** Search the plans that are left to a search, then simulate. */
static bool search_and_simulate(const struct arguments *arguments, struct scenario *scenario,
                                const struct lengths *lengths, struct error *err)
{
    struct plan_search search = {0};
    if (arguments->simgrid_trace != NULL && scenario->engine == SCENARIO_CRITICAL_PATH)
        return error_set(err, "--simgrid-trace: SimGrid does not run with engine: critical-path; allowed: --set "
                              "engine=simgrid, or both");
    if (arguments->simgrid_trace != NULL && !simgrid_traces_may_be_written(arguments->simgrid_trace, scenario, err))
        return false;
    set_limits(&arguments->sweep);
    if (!arguments->options.quiet)
        warn(scenario, lengths);
    struct journal journal = {.descriptor = -1};
    bool ok = (scenario->trace == SCENARIO_TRACE_NONE || hold_names(arguments, scenario, &journal, err)) &&
              plan_search_run(scenario, lengths, &arguments->options, &search, err) &&
              simulate(arguments, scenario, lengths, &search, err);
    plan_search_free(&search);
    journal_release(&journal);
    return ok;
}

/** Change NAME to NAME-POINT. */
static bool name_point(struct scenario *scenario, int32_t point, struct error *err)
{
    size_t used = strlen(scenario->name), room = sizeof scenario->name - used;
    if ((size_t)snprintf(scenario->name + used, room, "-%d", point) < room)
        return true;
    scenario->name[used] = '\0';
    return error_set(err, "--point: name: '%s-%d' is longer than %zu bytes; --set name=NAME gives a shorter one",
                     scenario->name, point, sizeof scenario->name - 1);
}

/** Run one point like a scenario without `sweep:`. */
static bool run_point(struct arguments *arguments, const struct sweep *sweep, struct error *err)
{
    struct sweep_runner *runner = check_calloc(1, sizeof *runner);
    struct scenario scenario = {0};
    const struct lengths *lengths;
    uint64_t id;
    int32_t point = arguments->sweep.point;
    runner->sweep = sweep;
    bool ok = (point < sweep->n_points ||
               error_set(err, "--point: there is no point %d; allowed: 0 to %d", point, sweep->n_points - 1)) &&
              sweep_runner_point(runner, point, &scenario, &lengths, &id, err);
    if (ok) {
        struct manifest manifest = {0};
        manifest_of_sweep(sweep, &manifest);
        arguments->point = sweep_json_of_point(&manifest, point, id);
        manifest_free(&manifest);
    }
    ok = ok && name_point(&scenario, point, err) && search_and_simulate(arguments, &scenario, lengths, err);
    scenario_free(&scenario);
    sweep_runner_close(runner);
    free(runner);
    return ok;
}

static bool run_scenario(struct arguments *arguments, struct error *err)
{
    struct scenario scenario = {0};
    struct lengths lengths = {0};
    bool ok = command_read(arguments->scenario, &arguments->options, &scenario, &lengths, err);
    if (ok)
        arguments->point = sweep_json_of_point(NULL, 0, sweep_point_id(&scenario, &lengths));
    ok = ok && search_and_simulate(arguments, &scenario, &lengths, err);
    if (ok && !arguments->options.quiet && document_find(&scenario.document, 0, "capacity") >= 0)
        fprintf(stderr, "this scenario also asks what to buy: slimsim capacity %s\n", arguments->scenario);
    lengths_close(&lengths);
    scenario_free(&scenario);
    return ok;
}

enum { OPTION_SIMGRID_CFG = 0x100, OPTION_SIMGRID_TRACE };
enum { SWEEP_CHILD = 5 };
static const struct argp_child children[] = {OPTION(set),
                                             OPTION(output),
                                             OPTION(json),
                                             OPTION(quiet),
                                             OPTION(verbose),
                                             [SWEEP_CHILD] = {&sweep_run_argp, 0, "Options of sweeps:", 0},
                                             {0}};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    char *before = arguments->simgrid_cfg;
    switch (key) {
    case OPTION_SIMGRID_CFG:
        if (strchr(argument, ':') == NULL)
            argp_error(state, "--simgrid-cfg must be KEY:VALUE, is '%s'", argument);
        arguments->simgrid_cfg = check_asprintf("%s %s", before != NULL ? before : "simgrid_cfg=", argument);
        free(before);
        return 0;
    case OPTION_SIMGRID_TRACE:
        arguments->simgrid_trace = argument;
        return 0;
    case ARGP_KEY_END:
        if (arguments->simgrid_cfg != NULL)
            options_append(&arguments->options.set, &arguments->options.n_set, arguments->simgrid_cfg);
        return 0;
    case ARGP_KEY_INIT:
        break;
    default:
        return options_parse_file(key, argument, state, "a scenario", &arguments->scenario);
    }
    options_begin(&arguments->options, children, state);
    state->child_inputs[SWEEP_CHILD] = &arguments->sweep;
    return 0;
}

static const struct argp_option simgrid_options[] = {
    {"simgrid-cfg", OPTION_SIMGRID_CFG, "KEY:VALUE", 0,
     "Set an option of SimGrid, like its --cfg (may be repeated; key simgrid_cfg of the scenario)", 0},
    {"simgrid-trace", OPTION_SIMGRID_TRACE, "FILE.paje", 0,
     "Write SimGrid's own trace of the first measured iteration: the work of each stream of each host, without "
     "dependencies and use of links. With several systems each has FILE-LABEL.paje",
     0},
    {0},
};
static const struct argp argp = {simgrid_options,
                                 parse,
                                 "SCENARIO.yaml",
                                 "Simulate a scenario and compare its training systems. The file - is standard input.",
                                 children,
                                 NULL,
                                 NULL};

int command_run(int argc, char **argv)
{
    struct arguments arguments = {.sweep = {.point = -1}};
    struct sweep sweep = {0};
    struct error err = {0};
    bool is_sweep = false;
    parse_arguments(&argp, argc, argv, &arguments);
    bool ok = sweep_open(arguments.scenario, &arguments.options, &arguments.sweep, &sweep, &is_sweep, &err);
    bool many = ok && is_sweep && arguments.sweep.point < 0;
    if (many && arguments.simgrid_trace != NULL)
        ok = many = error_set(&err, "--simgrid-trace: it needs a single point; allowed: with --point INDEX");
    if (many) {
        stop_catch();
        ok = sweep_command(arguments.scenario, &arguments.options, &arguments.sweep, &sweep, &stop_signal, &err);
    } else if (ok) {
        ok = is_sweep ? run_point(&arguments, &sweep, &err) : run_scenario(&arguments, &err);
    }
    sweep_free(&sweep);
    sweep_arguments_free(&arguments.sweep);
    options_free(&arguments.options);
    free(arguments.simgrid_cfg);
    json_decref(arguments.point);
    if (!ok && many && stop_signal != 0)
        return stop_fail("the same command continues from there", &err);
    return ok ? EXIT_SUCCESS : command_fail(&err);
}
