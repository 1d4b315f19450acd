/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file is `slimsim list`. It lists the names and keys that a scenario can use. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/commands.h"
#include "cli/list_tables.h"

struct arguments {
    struct options options;
    int which;
};

static const struct argp_child children[] = {OPTION(json), {0}};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        options_begin(&arguments->options, children, state);
        return 0;
    case ARGP_KEY_ARG:
        if (arguments->which >= 0)
            argp_error(state, "only one list is allowed; '%s' is the second", argument);
        arguments->which = list_find(argument);
        if (arguments->which >= 0)
            return 0;
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

static const struct argp argp = {
    .parser = parse,
    .args_doc = "models|devices|platforms|frameworks|lengths|systems|keys",
    .doc = "List what a scenario can name, as tables; `keys` and `systems` with units, ranges "
           "and defaults, `frameworks` with the values that they set.",
    .children = children};

int command_list(int argc, char **argv)
{
    struct arguments arguments = {.which = -1};
    struct error err = {0};
    argp_parse(&argp, argc, argv, 0, NULL, &arguments);
    return list_print(arguments.which, arguments.options.json, &err) ? EXIT_SUCCESS : command_fail(&err);
}
