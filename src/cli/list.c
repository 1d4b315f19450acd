/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file is `slimsim list`. It lists the names and keys that a scenario can use. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/list_tables.h"
#include "cli/list_values.h"

#define LISTS "models, devices, platforms, frameworks, lengths, systems, keys or values"

/** The list that is asked for. */
struct arguments {
    struct options options;
    int which; /* -1: `values`, or none yet */
    bool values;
    const char *key; /* of `values`; NULL: all keys */
};

static const struct argp_child children[] = {OPTION(json), {0}};

/** Take the name of a list, or the key behind `values`. */
static void parse_name(char *argument, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    if (arguments->values && arguments->key == NULL) {
        arguments->key = argument;
        return;
    }
    if (arguments->which >= 0 || arguments->values)
        argp_error(state, "only one list is allowed; '%s' is the second", argument);
    arguments->values = strcmp(argument, "values") == 0;
    arguments->which = list_find(argument);
    if (arguments->which < 0 && !arguments->values)
        argp_error(state, "there is no list '%s'; allowed: " LISTS, argument);
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        options_begin(&arguments->options, children, state);
        return 0;
    case ARGP_KEY_ARG:
        parse_name(argument, state);
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "the name of a list is missing: " LISTS);
        return 0;
    case ARGP_KEY_END:
        if (arguments->values && arguments->options.json)
            argp_error(state, "--json: `list values` prints one value a line, for shells; the other lists have JSON");
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
        "key may have, one a line, and `values` all keys; completion in shells uses them.",
    .children = children};

int command_list(int argc, char **argv)
{
    struct arguments arguments = {.which = -1};
    struct error err = {0};
    parse_arguments(&argp, argc, argv, &arguments);
    bool ok = arguments.key != NULL ? list_values(arguments.key, &err)
              : arguments.values    ? list_key_names(&err)
                                    : list_print(arguments.which, arguments.options.json, &err);
    return ok ? EXIT_SUCCESS : command_fail(&err);
}
