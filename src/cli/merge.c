/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file is `slimsim merge`. It writes the files of a sweep from the journals of its shards. */
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/check.h"
#include "cli/commands.h"
#include "cli/stop.h"
#include "sweep/merge.h"

struct arguments {
    struct options options;
    int32_t n;
    const char **paths;
};

static const struct argp_child children[] = {OPTION(output_beside), OPTION(quiet), {0}};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        options_begin(&arguments->options, children, state);
        return 0;
    case ARGP_KEY_ARG:
        options_append(&arguments->paths, &arguments->n, argument);
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "the journals of the shards are missing");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    NULL, parse, "SHARD.journal...", "Check the shards of a sweep and write its files.", children, NULL, NULL};

/**
 * Return the folder of the files: that of --output, otherwise that of all journals. The caller frees it. NULL: err is
 * set.
 */
static char *folder_of(const struct arguments *arguments, struct error *err)
{
    struct stat first, other;
    if (arguments->options.output != NULL)
        return command_make_folder(arguments->options.output, err) ? check_strdup(arguments->options.output) : NULL;
    char *path = check_strdup(arguments->paths[0]), *folder = check_strdup(dirname(path));
    free(path);
    for (int32_t i = 1; i < arguments->n && folder != NULL; i++) {
        path = check_strdup(arguments->paths[i]);
        /* otherwise no journal can be read there */
        bool known = stat(folder, &first) == 0 && stat(dirname(path), &other) == 0;
        if (known && (first.st_dev != other.st_dev || first.st_ino != other.st_ino)) {
            error_set(err, "%s and %s are in different folders; --output DIR chooses the folder of the files",
                      arguments->paths[0], arguments->paths[i]);
            free(folder);
            folder = NULL;
        }
        free(path);
    }
    return folder;
}

int command_merge(int argc, char **argv)
{
    struct arguments arguments = {0};
    struct merge_outcome outcome = {0};
    struct error err = {0};
    parse_arguments(&argp, argc, argv, &arguments);
    stop_catch();
    char *folder = folder_of(&arguments, &err);
    bool ok = folder != NULL && merge_journals(arguments.n, arguments.paths, folder, &stop_signal, &outcome, &err);
    if (ok && !arguments.options.quiet)
        fprintf(stderr, "%d points, %d failed; written: %s/%s.h5, %s.csv and %s.points.csv\n", outcome.n_points,
                outcome.n_failed, folder, outcome.name, outcome.name, outcome.name);
    free(folder);
    free(arguments.paths);
    options_free(&arguments.options);
    if (!ok && stop_signal != 0)
        return stop_fail("nothing is written", &err);
    if (ok && outcome.n_failed > 0)
        return command_fail(&outcome.failures);
    return ok ? EXIT_SUCCESS : command_fail(&err);
}
