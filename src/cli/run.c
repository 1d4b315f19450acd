/* SPDX-License-Identifier: GPL-3.0-or-later */
/* `slimsim run`: simulate a scenario, print the comparison, write NAME.h5 and NAME.csv. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "cli/commands.h"
#include "cli/report.h"
#include "dag/graph.h"
#include "execute/execute.h"
#include "sweep/record.h"

struct arguments {
    struct options options;
    const char *scenario;
};

/** What happens after each iteration. */
struct progress {
    struct record *record; /* NULL: no trace */
    bool shown;            /* stderr is a terminal and nobody asked for quiet */
};

/** The signal that asks to stop, 0: none. Nothing is left half written: the run ends after the iteration in work. */
static volatile sig_atomic_t stop_signal;

static void ask_to_stop(int signal_number)
{
    stop_signal = signal_number;
    signal(signal_number, SIG_DFL); /* asked twice, it ends at once */
}

/** Where signals are ignored (nohup, a shell's background job) they stay ignored. */
static void catch_signals(void)
{
    static const int signals[] = {SIGHUP, SIGINT, SIGTERM};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (signal(signals[i], ask_to_stop) == SIG_IGN)
            signal(signals[i], SIG_IGN);
}

static bool after_iteration(void *context, const struct point_view *view, struct error *err)
{
    struct progress *progress = context;
    if (stop_signal != 0)
        return false;
    if (progress->shown)
        fprintf(stderr, "\r\033[K%s: iteration %d of %d (%.2f s simulated)", view->system->entry->label,
                (int)view->iteration->iteration + 1, view->system->n_iterations, view->iteration->time_s);
    return progress->record == NULL || record_observe(progress->record, view, err);
}

static bool start_record(const struct arguments *arguments, const struct scenario *scenario,
                         const struct lengths *lengths, struct record *record, struct error *err)
{
    char *text = scenario_text(scenario);
    struct record_origin origin = {
        .scenario = scenario,
        .scenario_text = text,
        .lengths_hash = lengths->hash,
        .simgrid_version = execute_simgrid_version(),
        .igraph_version = graph_igraph_version(),
    };
    bool ok = command_make_folder(arguments->options.output, err) &&
              record_open(record, arguments->options.output, &origin, err);
    free(text);
    return ok;
}

static bool finish_record(const struct scenario *scenario, const struct point *point, struct record *record,
                          struct error *err)
{
    struct point_summary *summaries = check_calloc((size_t)point->n_systems, sizeof *summaries);
    for (int32_t i = 0; i < point->n_systems; i++)
        summaries[i] = point_summary_of(scenario, &point->systems[i]);
    bool ok = record_close(record, scenario, point, summaries, err);
    free(summaries);
    return ok;
}

/** What the systems' decisions cost beside the iterations they decide. No result: it differs from run to run. */
static void print_solve_times(const struct point *point)
{
    for (int32_t i = 0; i < point->n_systems; i++) {
        const struct point_system *system = &point->systems[i];
        double solve_s = 0, largest_s = 0, time_s = 0;
        for (int32_t k = 0; k < system->n_iterations; k++) {
            const struct point_iteration *iteration = &system->iterations[k];
            solve_s += iteration->solve_s / system->n_iterations;
            time_s += iteration->time_s / system->n_iterations;
            largest_s = iteration->solve_s > largest_s ? iteration->solve_s : largest_s;
        }
        fprintf(stderr, "%s: planned in %.3g ms of CPU an iteration (at most %.3g ms), simulated %.4g s\n",
                system->entry->label, 1e3 * solve_s, 1e3 * largest_s, time_s);
    }
}

static bool simulate(const struct arguments *arguments, const struct scenario *scenario, const struct lengths *lengths,
                     struct error *err)
{
    struct record record = {0};
    struct point point = {0};
    bool traced = scenario->trace != SCENARIO_TRACE_NONE;
    struct progress progress = {
        .record = traced ? &record : NULL,
        .shown = !arguments->options.quiet && isatty(STDERR_FILENO),
    };
    if (traced && !start_record(arguments, scenario, lengths, &record, err))
        return false;
    bool ok = point_run(scenario, lengths, after_iteration, &progress, &point, err);
    if (progress.shown)
        fputs("\r\033[K", stderr);
    if (!ok)
        record_abandon(&record);
    ok = ok && (!traced || finish_record(scenario, &point, &record, err));
    if (ok && arguments->options.json)
        report_print_json(scenario, &point);
    else if (ok)
        report_print(scenario, &point);
    if (ok && !arguments->options.quiet)
        print_solve_times(&point);
    if (ok && traced && !arguments->options.quiet)
        fprintf(stderr, "written: %s/%s.h5 and %s.csv\n", arguments->options.output, scenario->name, scenario->name);
    point_free(&point);
    return ok;
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    if (key == ARGP_KEY_INIT)
        state->child_inputs[0] = &arguments->options;
    return options_parse_scenario(key, argument, state, &arguments->scenario);
}

static const struct argp_child children[] = {{&options_argp, 0, "Common options:", 0}, {0}};
static const struct argp argp = {
    NULL, parse, "SCENARIO.yaml", "Simulate a scenario and compare its training systems.", children, NULL, NULL};

int command_run(int argc, char **argv)
{
    struct arguments arguments = {.options = {.output = "results"}};
    struct scenario scenario = {0};
    struct lengths lengths = {0};
    struct error err = {0};
    argp_parse(&argp, argc, argv, 0, NULL, &arguments);
    catch_signals();
    bool ok = command_read(arguments.scenario, &arguments.options, &scenario, &lengths, &err) &&
              simulate(&arguments, &scenario, &lengths, &err);
    lengths_close(&lengths);
    scenario_free(&scenario);
    options_free(&arguments.options);
    if (!ok && stop_signal != 0) {
        error_set_status(&err, ERROR_FAILED, "stopped by signal %d; nothing is written", (int)stop_signal);
        command_fail(&err);
        return 128 + stop_signal;
    }
    return ok ? EXIT_SUCCESS : command_fail(&err);
}
