/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file is `slimsim export`. It writes traces and graphs in the formats of other tools. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/nearest.h"
#include "cli/commands.h"
#include "cli/megatron_flags.h"
#include "cli/plan_search.h"
#include "dag/graph.h"
#include "simulate/record.h"
#include "sweep/axis.h"
#include "trace/chrome.h"
#include "trace/csv.h"
#include "trace/hta.h"

enum { MAX_ITERATIONS = 1000000, VIEWER_MEGABYTES = 100 };

struct arguments {
    struct options options;
    const char *input, *csv, *dag, *hta, *system;
    int32_t point, iteration; /* -1: not given */
    bool chrome, megatron;
};

static bool unknown_table(const char *name, struct error *err)
{
    const char *names[TRACE_N_TABLES];
    char known[512] = "", hint[NEAREST_HINT_BYTES];
    for (int i = 0; i < TRACE_N_TABLES; i++) {
        names[i] = trace_tables[i].name;
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i > 0 ? ", " : "", names[i]);
    }
    nearest_hint(name, names, TRACE_N_TABLES, hint);
    return error_set(err, "--csv: no table has the name '%s'; %sallowed: %s", name, hint, known);
}

static bool write_chrome(const struct arguments *arguments, struct trace_reader *reader, struct error *err)
{
    double megabytes = chrome_bytes(reader) / 1e6;
    if (megabytes > VIEWER_MEGABYTES && !arguments->options.quiet)
        fprintf(stderr,
                "slimsim: the JSON has about %.0f MB, and viewers slow down above %d MB; a scenario with a smaller "
                "data.global_batch has fewer events\n",
                megabytes, VIEWER_MEGABYTES);
    return chrome_write(reader, stdout, err);
}

/** Return a system of a trace: that of --system, or the first. -1 with err: it has none of this label. */
static int32_t find_system(const struct arguments *arguments, const struct trace_reader *reader, struct error *err)
{
    char known[4096] = "";
    for (int32_t i = 0; i < trace_n_systems(reader); i++) {
        size_t used = strlen(known);
        if (arguments->system == NULL || strcmp(trace_system(reader, i), arguments->system) == 0)
            return i;
        snprintf(known + used, sizeof known - used, "%s%s", i > 0 ? ", " : "", trace_system(reader, i));
    }
    error_set(err, "--system: %s has no system '%.200s'; allowed: %s", arguments->input, arguments->system, known);
    return -1;
}

static bool write_hta(const struct arguments *arguments, struct trace_reader *reader, struct error *err)
{
    int32_t system = find_system(arguments, reader, err);
    return system >= 0 && command_make_folder(arguments->hta, err) && hta_write(reader, system, arguments->hta, err);
}

static bool export_trace(const struct arguments *arguments, struct error *err)
{
    struct trace_reader *reader = arguments->point < 0 ? trace_open(arguments->input, err)
                                                       : trace_open_point(arguments->input, arguments->point, err);
    if (reader == NULL)
        return false;
    bool ok;
    int32_t table = arguments->csv != NULL ? trace_table_find(arguments->csv) : -1;
    if (arguments->chrome)
        ok = write_chrome(arguments, reader, err);
    else if (arguments->hta != NULL)
        ok = write_hta(arguments, reader, err);
    else if (table < 0)
        ok = unknown_table(arguments->csv, err);
    else
        ok = csv_print(reader, (enum trace_table_id)table, stdout, err);
    trace_reader_close(reader);
    return ok;
}

static bool write_flags(void *context, const struct point_view *view, struct error *err)
{
    (void)context;
    (void)err;
    megatron_flags_print(view, stdout);
    return true;
}

static bool write_graph(void *context, const struct point_view *view, struct error *err)
{
    const struct arguments *arguments = context;
    bool dot = strcmp(arguments->dag, "dot") == 0;
    bool written =
        dot ? graph_write_dot(view->dag, view->graph, stdout) : graph_write_graphml(view->dag, view->graph, stdout);
    if (written || errno == EPIPE) /* the reader has closed the pipe: command_finish ends like Unix tools */
        return true;
    return error_set_status(err, ERROR_IO, "cannot write the graph: %s", strerror(errno));
}

/** Write the graph or the flags of the first iteration. */
static bool export_plan(const struct arguments *arguments, struct scenario *scenario, const struct lengths *lengths,
                        struct error *err)
{
    struct point point = {0};
    struct point_options options = {.observer = arguments->megatron ? write_flags : write_graph,
                                    .context = (void *)arguments};
    scenario->engine = SCENARIO_CRITICAL_PATH;
    scenario->trace = SCENARIO_TRACE_FULL; /* so that the graph has every task */
    scenario->warm_up = 0;
    scenario->measured = 1;
    bool ok = point_run(scenario, lengths, &options, &point, err);
    point_free(&point);
    return ok;
}

/** Run one iteration and keep its full trace in memory. */
static bool trace_iteration(const struct arguments *arguments, struct scenario *scenario, const struct lengths *lengths,
                            struct record_image *image, struct error *err)
{
    struct trace_summary summary = {.gpus = platform_n_gpus(&scenario->platform)};
    const char *label = scenario->systems[0].label;
    struct record record = {.trace = trace_create_image(scenario->name, err), .full = true};
    struct point_options options = {.observer = record_observe_again, .context = &record};
    scenario->trace = SCENARIO_TRACE_FULL;
    scenario->warm_up = 0;
    int32_t iteration = arguments->iteration < 0 ? 0 : arguments->iteration;
    scenario->measured = (int64_t)iteration + 1;
    if (record.trace == NULL)
        return false;
    if (trace_set_systems(record.trace, 1, &label, err) &&
        trace_append(record.trace, TRACE_SUMMARY, &summary, 1, err) &&
        point_run_again(scenario, lengths, &options, iteration, err))
        return trace_close_image(record.trace, &image->bytes, &image->n_bytes, err);
    record_abandon(&record);
    return false;
}

/** Write the events of an iteration, for Chrome's viewer or HTA. */
static bool export_events(const struct arguments *arguments, struct scenario *scenario, const struct lengths *lengths,
                          struct error *err)
{
    struct record_image image = {0};
    bool ok = trace_iteration(arguments, scenario, lengths, &image, err);
    struct trace_reader *reader = ok ? trace_open_image(image.bytes, image.n_bytes, err) : NULL;
    ok = reader != NULL &&
         (arguments->chrome ? write_chrome(arguments, reader, err) : write_hta(arguments, reader, err));
    trace_reader_close(reader);
    free(image.bytes);
    return ok;
}

/** Keep only the system of --system, or the first. */
static bool keep_system(const struct arguments *arguments, struct scenario *scenario, struct error *err)
{
    int32_t chosen =
        arguments->system == NULL ? 0 : scenario_find_system(scenario, arguments->system, arguments->input, err);
    if (chosen >= 0)
        scenario->systems[0] = scenario->systems[chosen];
    scenario->n_systems = 1;
    return chosen >= 0;
}

static bool export_scenario(const struct arguments *arguments, struct error *err)
{
    struct scenario scenario = {0};
    struct lengths lengths = {0};
    struct plan_search search = {0};
    bool traces = arguments->chrome || arguments->hta != NULL;
    bool ok = command_read(arguments->input, &arguments->options, &scenario, &lengths, err) &&
              keep_system(arguments, &scenario, err) &&
              plan_search_run(&scenario, &lengths, &arguments->options, &search, err) &&
              (traces ? export_events(arguments, &scenario, &lengths, err)
                      : export_plan(arguments, &scenario, &lengths, err));
    plan_search_free(&search);
    lengths_close(&lengths);
    scenario_free(&scenario);
    return ok;
}

static bool is_trace(const char *path)
{
    size_t n = strlen(path);
    return n > 3 && strcmp(path + n - 3, ".h5") == 0;
}

static const struct argp_child children[] = {OPTION(set), OPTION(quiet), {0}};

/** Check that the options fit each other and the input. */
static void check_arguments(const struct arguments *arguments, struct argp_state *state)
{
    bool trace = is_trace(arguments->input);
    bool traces = arguments->chrome || arguments->hta != NULL;
    if (arguments->chrome + arguments->megatron + (arguments->csv != NULL) + (arguments->dag != NULL) +
            (arguments->hta != NULL) !=
        1)
        argp_error(state, "exactly one of --chrome, --csv, --dag, --hta and --megatron is needed");
    if ((arguments->dag != NULL || arguments->megatron) && trace)
        argp_error(state, "%s: --dag and --megatron take a scenario (.yaml)", arguments->input);
    if (arguments->csv != NULL && !trace)
        argp_error(state, "%s: --csv takes a trace (.h5)", arguments->input);
    if (!trace && arguments->point >= 0)
        argp_error(state, "--point applies to a trace, not to a scenario");
    if (trace && (arguments->options.n_set > 0 || arguments->iteration >= 0 ||
                  (arguments->system != NULL && arguments->hta == NULL)))
        argp_error(state, "--set, --system and --iteration apply to a scenario, not to a trace; --hta takes a "
                          "trace's --system");
    if (arguments->iteration >= 0 && !traces)
        argp_error(state, "--iteration needs --chrome or --hta");
}

enum { KEY_CSV = 0x100, KEY_DAG, KEY_HTA, KEY_MEGATRON };

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        options_begin(&arguments->options, children, state);
        return 0;
    case 'c':
        arguments->chrome = true;
        return 0;
    case KEY_MEGATRON:
        arguments->megatron = true;
        return 0;
    case KEY_CSV:
        arguments->csv = argument;
        return 0;
    case KEY_DAG:
        if (strcmp(argument, "dot") != 0 && strcmp(argument, "graphml") != 0)
            argp_error(state, "--dag must be dot or graphml, is '%s'", argument);
        arguments->dag = argument;
        return 0;
    case KEY_HTA:
        arguments->hta = argument;
        return 0;
    case 'y':
        arguments->system = argument;
        return 0;
    case 'p':
        arguments->point = options_parse_whole("--point", argument, 0, AXIS_MAX_POINTS - 1, state);
        return 0;
    case 'i':
        arguments->iteration = options_parse_whole("--iteration", argument, 0, MAX_ITERATIONS - 1, state);
        return 0;
    case ARGP_KEY_END:
        check_arguments(arguments, state);
        return 0;
    default:
        return options_parse_file(key, argument, state, "a trace (RUN.h5) or a scenario", &arguments->input);
    }
}

static const struct argp_option export_options[] = {
    {"chrome", 'c', NULL, 0,
     "Write trace-event JSON for ui.perfetto.dev and chrome://tracing: of a trace, or of an iteration of a scenario, "
     "which is simulated for it",
     0},
    {"hta", KEY_HTA, "DIR", 0,
     "Write the same for Holistic Trace Analysis, as PyTorch's profiler does: DIR/rank-R.json of each GPU of a system. "
     "Only these files have distributedInfo, which names one rank",
     0},
    {"csv", KEY_CSV, "TABLE", 0, "Write a table of a trace as CSV", 0},
    {"point", 'p', "INDEX", 0, "Write the full trace of this point of a sweep", 0},
    {"dag", KEY_DAG, "FORMAT", 0, "Write the task graph of a scenario's first iteration: dot or graphml", 0},
    {"megatron", KEY_MEGATRON, NULL, 0,
     "Write the flags of Megatron-LM's pretrain_gpt.py that the plan of a scenario's system means", 0},
    {"system", 'y', "LABEL", 0, "Write this system of the scenario, or with --hta of the trace (default: the first)",
     0},
    {"iteration", 'i', "K", 0,
     "With --chrome and --hta: write iteration K of the scenario, counted from 0 (default: 0)", 0},
    {0},
};
static const struct argp argp = {export_options,
                                 parse,
                                 "RUN.h5|SCENARIO.yaml",
                                 "Write a trace, a task graph or a plan to standard output in another tool's format.",
                                 children,
                                 NULL,
                                 NULL};

int command_export(int argc, char **argv)
{
    struct arguments arguments = {.point = -1, .iteration = -1};
    struct error err = {0};
    parse_arguments(&argp, argc, argv, &arguments);
    bool ok = is_trace(arguments.input) ? export_trace(&arguments, &err) : export_scenario(&arguments, &err);
    options_free(&arguments.options);
    return ok ? EXIT_SUCCESS : command_fail(&err);
}
