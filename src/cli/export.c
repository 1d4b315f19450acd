/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file is `slimsim export`. It writes traces and graphs in the formats of other tools. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "cli/commands.h"
#include "cli/plan_search.h"
#include "dag/graph.h"
#include "simulate/point_runner.h"
#include "sweep/axis.h"
#include "trace/chrome.h"
#include "trace/csv.h"

struct arguments {
    struct options options;
    const char *input, *csv, *dag, *system;
    int32_t point; /* -1: not given */
    bool chrome;
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

static bool export_trace(const struct arguments *arguments, struct error *err)
{
    struct trace_reader *reader = arguments->point < 0 ? trace_open(arguments->input, err)
                                                       : trace_open_point(arguments->input, arguments->point, err);
    if (reader == NULL)
        return false;
    bool ok;
    int32_t table = arguments->csv != NULL ? trace_table_find(arguments->csv) : -1;
    if (arguments->chrome)
        ok = chrome_write(reader, stdout, err);
    else if (table < 0)
        ok = unknown_table(arguments->csv, err);
    else
        ok = csv_print(reader, (enum trace_table_id)table, stdout, err);
    trace_reader_close(reader);
    return ok;
}

/** It writes the graph of the chosen system's first iteration. Later iterations are ignored. */
struct graph_export {
    const struct arguments *arguments;
    bool done;
};

static bool write_graph(void *context, const struct point_view *view, struct error *err)
{
    struct graph_export *export = context;
    const char *system = export->arguments->system;
    if (export->done || (system != NULL && strcmp(system, view->system->entry->label) != 0))
        return true;
    export->done = true;
    bool dot = strcmp(export->arguments->dag, "dot") == 0;
    bool written =
        dot ? graph_write_dot(view->dag, view->graph, stdout) : graph_write_graphml(view->dag, view->graph, stdout);
    if (written || errno == EPIPE) /* the reader has closed the pipe: command_finish ends like Unix tools */
        return true;
    return error_set_status(err, ERROR_IO, "cannot write the graph: %s", strerror(errno));
}

static bool export_dag(const struct arguments *arguments, struct error *err)
{
    struct scenario scenario = {0};
    struct lengths lengths = {0};
    struct point point = {0};
    struct graph_export export = {arguments, false};
    struct plan_search search = {0};
    bool ok = command_read(arguments->input, &arguments->options, &scenario, &lengths, err) &&
              plan_search_run(&scenario, &lengths, &arguments->options, &search, err);
    if (ok) {
        scenario.engine = SCENARIO_CRITICAL_PATH;
        scenario.trace = SCENARIO_TRACE_FULL; /* so that the graph has every task */
        scenario.warm_up = 0;
        scenario.measured = 1;
        struct point_options options = {.observer = write_graph, .context = &export};
        ok = point_run(&scenario, &lengths, &options, &point, err);
    }
    if (ok && !export.done)
        ok = error_set(err, "%s: no system has the label '%s'", arguments->input, arguments->system);
    plan_search_free(&search);
    point_free(&point);
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
    case 't':
        arguments->csv = argument;
        return 0;
    case 'd':
        if (strcmp(argument, "dot") != 0 && strcmp(argument, "graphml") != 0)
            argp_error(state, "--dag must be dot or graphml, is '%s'", argument);
        arguments->dag = argument;
        return 0;
    case 'y':
        arguments->system = argument;
        return 0;
    case 'p':
        arguments->point = options_parse_whole("--point", argument, 0, AXIS_MAX_POINTS - 1, state);
        return 0;
    case ARGP_KEY_END:
        if (arguments->chrome + (arguments->csv != NULL) + (arguments->dag != NULL) != 1)
            argp_error(state, "exactly one of --chrome, --csv and --dag is needed");
        if ((arguments->dag != NULL) == is_trace(arguments->input))
            argp_error(state, "%s: --dag takes a scenario (.yaml), --chrome and --csv take a trace (.h5)",
                       arguments->input);
        if (arguments->dag != NULL ? arguments->point >= 0 : arguments->system != NULL || arguments->options.n_set > 0)
            argp_error(state, "%s",
                       arguments->dag != NULL ? "--point applies to a trace, not to --dag"
                                              : "--set and --system apply to --dag, not to a trace");
        return 0;
    default:
        return options_parse_file(key, argument, state, "a trace (RUN.h5), or with --dag a scenario,",
                                  &arguments->input);
    }
}

static const struct argp_option export_options[] = {
    {"chrome", 'c', NULL, 0, "Write a trace as trace-event JSON, for ui.perfetto.dev and chrome://tracing", 0},
    {"csv", 't', "TABLE", 0, "Write a table of a trace as CSV", 0},
    {"point", 'p', "INDEX", 0, "Write the full trace of this point of a sweep", 0},
    {"dag", 'd', "FORMAT", 0, "Write the task graph of a scenario's first iteration: dot or graphml", 0},
    {"system", 'y', "LABEL", 0, "With --dag: write the graph of this system (default: the first)", 0},
    {0},
};
static const struct argp argp = {export_options,
                                 parse,
                                 "RUN.h5|SCENARIO.yaml",
                                 "Write a trace or a task graph to standard output in another tool's format.",
                                 children,
                                 NULL,
                                 NULL};

int command_export(int argc, char **argv)
{
    struct arguments arguments = {.point = -1};
    struct error err = {0};
    argp_parse(&argp, argc, argv, 0, NULL, &arguments);
    bool ok = arguments.dag != NULL ? export_dag(&arguments, &err) : export_trace(&arguments, &err);
    options_free(&arguments.options);
    return ok ? EXIT_SUCCESS : command_fail(&err);
}
