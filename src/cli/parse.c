/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/parse.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "cli/command.h"

enum { USAGE = 0x1000, FORMER, MOST_OPTIONS = 64 }; /* FORMER: the first former option; the others follow */

/** A letter's option, a verb's former option, or a key that is written as an option. */
struct row {
    const char *verb; /* NULL: every verb that reads --set */
    int letter;
    const char *name, *now;
};

static const struct row letters[] = {
#define LETTER(letter, name) {NULL, letter, name, NULL},
#define MOVED(verb, letter, now)
#define RENAMED(verb, name, now)
#define KEY_OPTION(name, key)
#include "cli/options.def"
#undef LETTER
#undef MOVED
#undef RENAMED
#undef KEY_OPTION
};

static const struct row former[] = {
#define LETTER(letter, name)
#define MOVED(verb, letter, now) {verb, letter, NULL, now},
#define RENAMED(verb, name, now) {verb, 0, name, now},
#define KEY_OPTION(name, key)    {NULL, 0, name, key},
#include "cli/options.def"
#undef LETTER
#undef MOVED
#undef RENAMED
#undef KEY_OPTION
};
enum { N_LETTERS = sizeof letters / sizeof *letters, N_FORMER = sizeof former / sizeof *former };

/** Say what replaces a former option, and end the program. */
static void refuse_former(const struct row *row, const struct argp_state *state)
{
    char letter[16] = "";
    const char *meaning = "";
    for (int i = 0; i < N_LETTERS; i++) {
        if (strcmp(letters[i].name, row->now) == 0)
            snprintf(letter, sizeof letter, " (-%c)", letters[i].letter);
        if (letters[i].letter == row->letter)
            meaning = letters[i].name;
    }
    if (row->verb == NULL)
        argp_error(state, "--%s: is a key of the scenario; use --set %s=VALUE", row->name, row->now);
    else if (row->name != NULL)
        argp_error(state, "--%s: has a new name; use --%s%s", row->name, row->now, letter);
    else
        argp_error(state, "-%c is --%s everywhere; use --%s%s", row->letter, meaning, row->now, letter);
}

/** Return whether a former option belongs to the verb. @param keys  whether the verb reads --set */
static bool applies(const struct row *row, const char *verb, bool keys)
{
    return row->verb == NULL ? keys : strcmp(row->verb, verb) == 0;
}

/** Return whether a verb has a long option of this name. */
static bool is_own(const struct argp *argp, const char *name)
{
    bool own = false;
    for (const struct argp_option *option = argp->options;
         option != NULL && (option->name != NULL || option->doc != NULL); option++)
        own = own || (option->name != NULL && strcmp(option->name, name) == 0);
    return own;
}

/** Return whether a long option is written in full. Only then is it one, so it makes no other's prefix ambiguous. */
static bool is_written(const char *name, int argc, char **argv)
{
    size_t n = strlen(name);
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], "--", 2) == 0 && strncmp(argv[i] + 2, name, n) == 0 &&
            (argv[i][2 + n] == '\0' || argv[i][2 + n] == '='))
            return true;
    return false;
}

static error_t parse_common(int key, char *argument, struct argp_state *state)
{
    (void)argument;
    switch (key) {
    case 'h':
        argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
        return 0;
    case 'V':
        puts(argp_program_version);
        exit(command_finish(EXIT_SUCCESS));
    case USAGE:
        argp_state_help(state, stdout, ARGP_HELP_USAGE | ARGP_HELP_EXIT_OK);
        return 0;
    default:
        break;
    }
    const char *verb = strchr(state->argv[0], ' ') + 1;
    for (int i = 0; i < N_FORMER; i++)
        if ((key == former[i].letter || key == FORMER + i) && applies(&former[i], verb, true))
            refuse_former(&former[i], state);
    return ARGP_ERR_UNKNOWN;
}

void parse_arguments(const struct argp *argp, int argc, char **argv, void *input)
{
    struct argp_option options[MOST_OPTIONS] = {{"help", 'h', NULL, 0, "Print this help", -1},
                                                {"usage", USAGE, NULL, 0, "Print the options in short", -1},
                                                {"version", 'V', NULL, 0, "Print the version of slimsim", -1}};
    struct argp_child children[MOST_OPTIONS] = {{0}};
    const struct argp common = {.options = options, .parser = parse_common};
    bool keys = false;
    int n = 3, n_children = 0;
    for (const struct argp_child *child = argp->children; child != NULL && child->argp != NULL; child++) {
        children[n_children++] = *child;
        keys = keys || child->argp == &option_set;
    }
    children[n_children] = (struct argp_child){.argp = &common};
    for (int i = 0; i < N_FORMER; i++)
        if (applies(&former[i], strchr(argv[0], ' ') + 1, keys) &&
            (former[i].name == NULL || (is_written(former[i].name, argc, argv) && !is_own(argp, former[i].name))))
            options[n++] = (struct argp_option){.name = former[i].name,
                                                .key = former[i].letter != 0 ? former[i].letter : FORMER + i,
                                                .arg = "X",
                                                .flags = OPTION_HIDDEN | OPTION_ARG_OPTIONAL};
    CHECK(n < MOST_OPTIONS && n_children < MOST_OPTIONS);
    struct argp with_common = *argp;
    with_common.children = children;
    argp_parse(&with_common, argc, argv, ARGP_NO_HELP, NULL, input);
}
