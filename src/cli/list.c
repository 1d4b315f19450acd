/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file is `slimsim list`. It lists the names and keys that a scenario can use. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "scenario/framework.h"
#include "scenario/library.h"
#include "scenario/scenario_read.h"
#include "scenario/schema_text.h"
#include "system/system.h"

/** Print the names of the files in a folder of the data. */
static bool print_names(const char *below, struct error *err)
{
    size_t n;
    char folder[4096];
    snprintf(folder, sizeof folder, "%s/%s", scenario_data_dir(), below);
    char **names = library_list(folder, ".yaml", &n);
    if (names == NULL)
        return error_set(err, "%s: cannot read this folder: %s", folder, strerror(errno));
    for (size_t i = 0; i < n; i++) {
        puts(names[i]);
        free(names[i]);
    }
    free(names);
    return true;
}

static bool list_systems(struct error *err)
{
    (void)err;
    for (int i = 0; training_systems[i] != NULL; i++) {
        const struct training_system *system = training_systems[i];
        printf("%s: %s\n  source: %s\n", system->name, system->meaning, system->source);
        if (system->n_knobs > 0)
            schema_list(stdout, system->knobs, system->n_knobs, "  knobs.");
        else
            puts("  no knobs");
    }
    return true;
}

static bool list_keys(struct error *err)
{
    return scenario_list_keys(stdout, err);
}

/** Print the values of a framework with their sources. A value without a source has that of the file. */
static bool print_framework(const char *name, struct error *err)
{
    struct framework framework;
    if (!scenario_framework(name, &framework, err))
        return false;
    printf("%s\n  source: %s\n", name, framework.source);
    for (int32_t i = 0; i < framework.n_values; i++) {
        const struct framework_value *value = &framework.values[i];
        if (*value->text != '\0')
            printf("  %s: %s%s%s\n", value->key, value->text, *value->source != '\0' ? "  # " : "", value->source);
    }
    return true;
}

static bool list_frameworks(struct error *err)
{
    char folder[4096];
    snprintf(folder, sizeof folder, "%s/model/framework", scenario_data_dir());
    size_t n;
    char **names = library_list(folder, ".yaml", &n);
    if (names == NULL)
        return error_set(err, "%s: cannot read this folder: %s", folder, strerror(errno));
    bool ok = true;
    for (size_t i = 0; i < n; i++) {
        ok = ok && print_framework(names[i], err);
        free(names[i]);
    }
    free(names);
    return ok;
}

static const struct {
    const char *name, *folder; /* folder: its files are listed; NULL: print does it */
    bool (*print)(struct error *err);
} lists[] = {
    {"models", "model/llm", NULL},      {"devices", "model/gpu", NULL},
    {"platforms", "platforms", NULL},   {"frameworks", NULL, list_frameworks},
    {"lengths", "model/lengths", NULL}, {"systems", NULL, list_systems},
    {"keys", NULL, list_keys},
};
enum { N_LISTS = sizeof lists / sizeof *lists };

static error_t parse(int key, char *argument, struct argp_state *state)
{
    int *which = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        if (*which >= 0)
            argp_error(state, "only one list is allowed; '%s' is the second", argument);
        for (int i = 0; i < N_LISTS; i++)
            if (strcmp(argument, lists[i].name) == 0) {
                *which = i;
                return 0;
            }
        argp_error(state,
                   "there is no list '%s'; allowed: models, devices, platforms, frameworks, lengths, systems or keys",
                   argument);
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state,
                   "the name of a list is missing: models, devices, platforms, frameworks, lengths, systems or keys");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {.parser = parse,
                                 .args_doc = "models|devices|platforms|frameworks|lengths|systems|keys",
                                 .doc = "List what a scenario can name; `keys` and `systems` with units, ranges and "
                                        "defaults, `frameworks` with the values that they set."};

int command_list(int argc, char **argv)
{
    int which = -1;
    struct error err = {0};
    argp_parse(&argp, argc, argv, 0, NULL, &which);
    const char *folder = lists[which].folder;
    bool ok = folder != NULL ? print_names(folder, &err) : lists[which].print(&err);
    return ok ? EXIT_SUCCESS : command_fail(&err);
}
