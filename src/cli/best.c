/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file is `slimsim best`. It filters and ranks the rows of a sweep, or finds the front of two columns. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/rows.h"

struct arguments {
    struct options options;
    const char *path, *by, *pareto;
    int32_t n_where;
    const char **where;
    bool least, all;
    int32_t top;
};

static const struct argp_child children[] = {OPTION(json), OPTION(quiet), {0}};

enum { KEY_LEAST = 0x100, KEY_WHERE };

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        options_begin(&arguments->options, children, state);
        return 0;
    case 'b':
        arguments->by = argument;
        return 0;
    case KEY_WHERE:
        options_append(&arguments->where, &arguments->n_where, argument);
        return 0;
    case KEY_LEAST:
        arguments->least = true;
        return 0;
    case 'a':
        arguments->all = true;
        return 0;
    case 'P':
        arguments->pareto = argument;
        return 0;
    case 't':
        arguments->top = options_parse_whole("--top", argument, 1, INT32_MAX, state);
        return 0;
    default:
        return options_parse_file(key, argument, state, "the table of a sweep (NAME.csv)", &arguments->path);
    }
}

static const struct argp_option best_options[] = {
    {"by", 'b', "COLUMN", 0, "Rank by this column, largest first (default: tokens_per_s_per_gpu)", 0},
    {"least", KEY_LEAST, NULL, 0, "Rank smallest first", 0},
    {"where", KEY_WHERE, "COLUMN<VALUE", 0,
     "Print only rows that satisfy this (also <= > >= = !=; X_gib is X_bytes; may be repeated). A condition on seed "
     "leaves replicates out; others see joined rows",
     0},
    {"top", 't', "N", 0, "Print at most N rows (default: 10)", 0},
    {"pareto", 'P', "COLUMN,COLUMN", 0,
     "Print only rows that no other row beats in both columns. More tokens/s, FLOPs/s, MFU, HFU and speed-up are "
     "better, and less of any other column; +COLUMN and -COLUMN say otherwise. Rows compete only with the same model, "
     "data, seed, iterations, engine and faults",
     0},
    {"all", 'a', NULL, 0, "Print also rows that do not fit into memory", 0},
    {0},
};
static const struct argp argp = {best_options,
                                 parse,
                                 "NAME.csv",
                                 "Rank and filter the rows of a sweep. Rows that differ in the seed only are joined: "
                                 "means, and 95% intervals over them.",
                                 children,
                                 NULL,
                                 NULL};

/** Warn on stderr about facts that limit a ranking. */
static void warn(const struct arguments *arguments, const struct rows *rows)
{
    char keys[512];
    const char *by = arguments->pareto != NULL ? arguments->pareto : arguments->by;
    rows_mixed(rows, sizeof keys, keys);
    if (*keys != '\0' && arguments->pareto != NULL)
        fprintf(stderr, "rows differ in %s, so each has a front\n", keys);
    else if (*keys != '\0')
        fprintf(stderr, "rows differ in %s and are ranked together; --where KEY=VALUE keeps comparable rows\n", keys);
    if (strstr(by, "tokens_per_s") != NULL && rows_any(rows, "token_delay"))
        fputs(
            "samples of some rows wait for later iterations (token_delay > 0), so these rows ran other tokens than the "
            "others; --by mfu ranks by the trained FLOPs\n",
            stderr);
    if (strstr(by, "speed_up") != NULL && rows_any(rows, "first_exceeds_limit"))
        fputs("speed-ups of some rows compare with a system that does not fit, so they are no gains; --where "
              "first_exceeds_limit=0 "
              "leaves them out\n",
              stderr);
}

/** Return whether a condition is one on the seed. */
static bool on_seed(const char *condition)
{
    return strncmp(condition, "seed", 4) == 0 && strchr(" <>=!", condition[4]) != NULL;
}

/** Keep rows that satisfy the conditions. Conditions on the seed come first, and then replicates are joined. */
static bool filter(const struct arguments *arguments, struct rows *rows, struct error *err)
{
    bool ok = true;
    for (int i = 0; i < arguments->n_where && ok; i++)
        ok = !on_seed(arguments->where[i]) || rows_where(rows, arguments->where[i], err);
    if (ok)
        rows_join(rows);
    for (int i = 0; i < arguments->n_where && ok; i++)
        ok = on_seed(arguments->where[i]) || rows_where(rows, arguments->where[i], err);
    return ok;
}

static bool choose(const struct arguments *arguments, struct rows *rows, struct error *err)
{
    bool ok = filter(arguments, rows, err), told = !arguments->options.quiet;
    int32_t n = rows->n;
    if (ok && n == 0 && told)
        fputs(arguments->n_where > 0 ? "no row satisfies --where\n" : "all points failed, so there is no row\n",
              stderr);
    ok = ok && (arguments->all || rows_where(rows, "fits=1", err));
    if (ok && rows->n < n && told)
        fprintf(stderr, "%d rows do not fit into memory and are left out\n", n - rows->n);
    if (ok && told)
        warn(arguments, rows);
    if (arguments->pareto != NULL)
        return ok && rows_pareto(rows, arguments->pareto, err);
    return ok && rows_order(rows, arguments->by, arguments->least, err);
}

int command_best(int argc, char **argv)
{
    struct arguments arguments = {.by = "tokens_per_s_per_gpu", .top = 10};
    struct rows rows = {0};
    struct error err = {0};
    parse_arguments(&argp, argc, argv, &arguments);
    bool ok = rows_open(arguments.path, &rows, &err) && choose(&arguments, &rows, &err);
    int32_t most = arguments.pareto != NULL ? INT32_MAX : arguments.top;
    if (ok && arguments.options.json)
        rows_print_json(&rows, most);
    else if (ok)
        rows_print(&rows, most);
    rows_close(&rows);
    free(arguments.where);
    options_free(&arguments.options);
    return ok ? EXIT_SUCCESS : command_fail(&err);
}
