/* SPDX-License-Identifier: GPL-3.0-or-later */
/* `slimsim list`: what there is to choose from. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "scenario/scenario.h"
#include "scenario/schema_text.h"
#include "system/system.h"

static const char *list_suffix; /* of the files wanted; scandir's filter takes no argument */

static int has_suffix(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name), suffix = strlen(list_suffix);
    return length > suffix && strcmp(entry->d_name + length - suffix, list_suffix) == 0;
}

/** Order of names without the suffix: "a" stands before "a-b". */
static int compare_stems(const struct dirent **a, const struct dirent **b)
{
    size_t suffix = strlen(list_suffix);
    size_t n = strlen((*a)->d_name) - suffix, other = strlen((*b)->d_name) - suffix;
    int order = strncmp((*a)->d_name, (*b)->d_name, n < other ? n : other);
    return order != 0 ? order : (n > other) - (n < other);
}

/** Print the files of a folder that end in `suffix`, without it, in alphabetical order. */
static bool list_files(const char *directory, const char *below, const char *suffix, struct error *err)
{
    char path[4096];
    struct dirent **entries;
    snprintf(path, sizeof path, "%s/%s", directory, below);
    list_suffix = suffix;
    int n = scandir(path, &entries, has_suffix, compare_stems);
    if (n < 0)
        return error_set(err, "%s: cannot read this folder: %s", path, strerror(errno));
    for (int i = 0; i < n; i++) {
        printf("%.*s\n", (int)(strlen(entries[i]->d_name) - strlen(suffix)), entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return true;
}

static bool list_models(struct error *err)
{
    return list_files(scenario_data_dir(), "model/llm", ".yaml", err);
}

static bool list_devices(struct error *err)
{
    return list_files(scenario_data_dir(), "model/gpu", ".yaml", err);
}

static bool list_lengths(struct error *err)
{
    return list_files(scenario_data_dir(), "model/lengths", ".yaml", err);
}

static bool list_platforms(struct error *err)
{
    return list_files(scenario_platform_dir(), "", ".xml", err);
}

static bool list_systems(struct error *err)
{
    (void)err;
    for (int i = 0; training_systems[i] != NULL; i++) {
        const struct training_system *system = training_systems[i];
        printf("%s: %s\n  source: %s\n", system->name, system->meaning, system->source);
        schema_list(stdout, system->knobs, system->n_knobs, "  knobs.");
    }
    return true;
}

static bool list_keys(struct error *err)
{
    (void)err;
    scenario_list_keys(stdout);
    return true;
}

static const struct {
    const char *name;
    bool (*print)(struct error *err);
} lists[] = {
    {"models", list_models},   {"devices", list_devices}, {"platforms", list_platforms},
    {"lengths", list_lengths}, {"systems", list_systems}, {"keys", list_keys},
};
enum { N_LISTS = sizeof lists / sizeof *lists };

static error_t parse(int key, char *argument, struct argp_state *state)
{
    int *which = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        if (*which >= 0)
            argp_error(state, "one list only, '%s' is the second", argument);
        for (int i = 0; i < N_LISTS; i++)
            if (strcmp(argument, lists[i].name) == 0) {
                *which = i;
                return 0;
            }
        argp_error(state, "cannot list '%s', only models, devices, platforms, lengths, systems or keys", argument);
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "list what? models, devices, platforms, lengths, systems or keys");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {.parser = parse,
                                 .args_doc = "models|devices|platforms|lengths|systems|keys",
                                 .doc = "List what a scenario can name; `keys` and `systems` with units, ranges and "
                                        "defaults."};

int command_list(int argc, char **argv)
{
    int which = -1;
    struct error err = {0};
    argp_parse(&argp, argc, argv, 0, NULL, &which);
    return lists[which].print(&err) ? EXIT_SUCCESS : command_fail(&err);
}
