/* SPDX-License-Identifier: GPL-3.0-or-later */
/* `slimsim validate`: published measurements against what the simulator predicts. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/check.h"
#include "cli/commands.h"
#include "cli/validation_report.h"

struct arguments {
    struct validate_request request;
    const char **paths, **filters;
    const char *output;
    bool json, quiet;
};

static const char **appended(const char **texts, int32_t *n, const char *text)
{
    texts = check_realloc(texts, (size_t)(*n + 1) * sizeof *texts);
    texts[(*n)++] = text;
    return texts;
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        arguments->paths = appended(arguments->paths, &arguments->request.n_paths, argument);
        return 0;
    case 'f':
        arguments->filters = appended(arguments->filters, &arguments->request.n_filters, argument);
        return 0;
    case 'o':
        arguments->output = argument;
        return 0;
    case 'j':
        arguments->json = true;
        return 0;
    case 'q':
        arguments->quiet = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option argp_options[] = {
    {"filter", 'f', "COLUMN=VALUE", 0, "Only rows whose column holds this text (may be repeated: all must hold)", 0},
    {"output", 'o', "DIR", 0, "Folder for validation.h5 (default: results)", 0},
    {"json", 'j', NULL, 0, "Print JSON instead of tables", 0},
    {"quiet", 'q', NULL, 0, "No progress on stderr", 0},
    {0},
};

static const struct argp argp = {argp_options,
                                 parse,
                                 "[FILE.csv...]",
                                 "Simulate published training runs and compare: every row, what was skipped and why, "
                                 "errors by source. Without a file: those shipped in model/validation.",
                                 NULL,
                                 NULL,
                                 NULL};

static void show(void *context, int32_t row, int32_t n_rows)
{
    const bool *shown = context;
    if (*shown)
        fprintf(stderr, "\r\033[Kvalidate: row %d of %d", (int)row + 1, (int)n_rows);
}

int command_validate(int argc, char **argv)
{
    struct arguments arguments = {.output = "results"};
    struct validate validate = {0};
    struct error err = {0};
    argp_parse(&argp, argc, argv, 0, NULL, &arguments);
    arguments.request.paths = arguments.paths;
    arguments.request.filters = arguments.filters;
    bool shown = !arguments.quiet && isatty(STDERR_FILENO);
    bool ok = validate_run(&arguments.request, show, &shown, &validate, &err);
    if (shown)
        fputs("\r\033[K", stderr);
    ok = ok && command_make_folder(arguments.output, &err) && validation_write(&validate, arguments.output, &err);
    if (ok && arguments.json)
        validation_print_json(&validate);
    else if (ok)
        validation_print(&validate);
    if (ok && !arguments.quiet)
        fprintf(stderr, "written: %s/validation.h5\n", arguments.output);
    validate_free(&validate);
    free(arguments.paths);
    free(arguments.filters);
    return ok ? EXIT_SUCCESS : command_fail(&err);
}
