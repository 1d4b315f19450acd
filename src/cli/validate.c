/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file is `slimsim validate`. It compares published measurements with the simulator's predictions. */
#include <stdio.h>
#include <stdlib.h>

#include "base/status_line.h"
#include "cli/commands.h"
#include "cli/validation_report.h"
#include "cli/validation_summary.h"

struct arguments {
    struct validate_request request;
    const char **paths, **filters;
    struct options options;
};

static const struct argp_child children[] = {OPTION(output), OPTION(json), OPTION(quiet), OPTION(verbose), {0}};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        options_begin(&arguments->options, children, state);
        return 0;
    case ARGP_KEY_ARG:
        options_append(&arguments->paths, &arguments->request.n_paths, argument);
        return 0;
    case 'f':
        options_append(&arguments->filters, &arguments->request.n_filters, argument);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option argp_options[] = {
    {"filter", 'f', "COLUMN=VALUE", 0, "Use only rows whose column is this text (may be repeated; all must hold)", 0},
    {0},
};

static const struct argp argp = {
    argp_options,
    parse,
    "[FILE.csv...]",
    "Simulate published training runs and print the errors by kind of runs, or of files and "
    "filters by framework and GPU; with -v also every row, skipped rows with reasons, "
    "errors by source. Write validation.h5. "
    "Without a file, use those of model/validation.",
    children,
    NULL,
    NULL};

static void show(void *context, int32_t row, int32_t n_rows)
{
    status_line_print(context, "validate: row %d of %d", (int)row + 1, (int)n_rows);
}

int command_validate(int argc, char **argv)
{
    struct arguments arguments = {0};
    struct validate validate = {0};
    struct error err = {0};
    parse_arguments(&argp, argc, argv, &arguments);
    arguments.request.paths = arguments.paths;
    arguments.request.filters = arguments.filters;
    bool chosen = arguments.options.verbose || arguments.request.n_paths > 0 || arguments.request.n_filters > 0;
    struct status_line status;
    status_line_begin(&status, !arguments.options.quiet, "validate: reads the rows");
    bool ok = validation_may_write(arguments.options.output, &err) &&
              validate_run(&arguments.request, show, &status, &validate, &err);
    status_line_end(&status);
    ok = ok && command_make_folder(arguments.options.output, &err) &&
         validation_write(&validate, arguments.options.output, &err);
    if (ok && arguments.options.json)
        validation_print_json(&validate);
    if (ok && !arguments.options.json && arguments.options.verbose)
        validation_print(&validate);
    if (ok && !arguments.options.json)
        (chosen ? validation_print_summary : validation_print_kinds)(&validate);
    if (ok && !arguments.options.quiet)
        fprintf(stderr, "written: %s/validation.h5\n", arguments.options.output);
    validate_free(&validate);
    free(arguments.paths);
    free(arguments.filters);
    return ok ? EXIT_SUCCESS : command_fail(&err);
}
