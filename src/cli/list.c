/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file is `slimsim list`. It lists the names and keys that a scenario can use. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capacity/question.h"
#include "cli/commands.h"
#include "cli/list_tables.h"
#include "cli/list_values.h"
#include "scenario/scenario_read.h"

static bool list_keys(struct error *err)
{
    if (!scenario_list_keys(stdout, err))
        return false;
    puts("\n`capacity:` asks what to buy (slimsim capacity). An offer also takes device, platform, power, price and\n"
         "reliability:\n");
    question_list_keys(stdout);
    return true;
}

static const struct {
    const char *name;
    bool (*print)(struct error *err);
} lists[] = {
    {"models", list_models},       {"devices", list_devices},
    {"platforms", list_platforms}, {"frameworks", list_frameworks},
    {"lengths", list_lengths},     {"systems", list_systems},
    {"keys", list_keys},           {"values", list_key_names},
};
enum { N_LISTS = sizeof lists / sizeof *lists };

/** The list that is asked for, and the key of `values`. */
struct arguments {
    int which;
    const char *key;
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    int *which = &arguments->which;
    switch (key) {
    case ARGP_KEY_ARG:
        if (*which >= 0 && lists[*which].print == list_key_names && arguments->key == NULL) {
            arguments->key = argument;
            return 0;
        }
        if (*which >= 0)
            argp_error(state, "only one list is allowed; '%s' is the second", argument);
        for (int i = 0; i < N_LISTS; i++)
            if (strcmp(argument, lists[i].name) == 0) {
                *which = i;
                return 0;
            }
        argp_error(
            state,
            "there is no list '%s'; allowed: models, devices, platforms, frameworks, lengths, systems, keys or values",
            argument);
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(
            state,
            "the name of a list is missing: models, devices, platforms, frameworks, lengths, systems, keys or values");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    .parser = parse,
    .args_doc = "models|devices|platforms|frameworks|lengths|systems|keys\nvalues [KEY]",
    .doc =
        "List what a scenario can name, as tables; `keys` and `systems` with units, ranges "
        "and defaults, `frameworks` with the values that they set. `values KEY` prints only the names or words that a "
        "key may have, one a line, and `values` all keys; completion in shells uses them."};

int command_list(int argc, char **argv)
{
    struct arguments arguments = {.which = -1};
    struct error err = {0};
    parse_arguments(&argp, argc, argv, &arguments);
    bool ok = arguments.key != NULL ? list_values(arguments.key, &err) : lists[arguments.which].print(&err);
    return ok ? EXIT_SUCCESS : command_fail(&err);
}
