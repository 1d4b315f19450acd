/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Choose which column of a table holds lengths, so that no second one is left out silently. */
#include "lengths/reader.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/check.h"

void reader_columns_add(struct reader_columns *columns, const char *name)
{
    columns->at = check_grow(columns->at, (size_t)columns->n, &columns->capacity, sizeof *columns->at);
    struct reader_column *column = &columns->at[columns->n++];
    *column = (struct reader_column){.counts_rows = true};
    snprintf(column->name, sizeof column->name, "%s", name);
}

int32_t reader_columns_find(const struct reader_columns *columns, const char *name, int32_t from)
{
    for (int32_t i = from; i < columns->n; i++)
        if (strcmp(columns->at[i].name, name) == 0)
            return i;
    return -1;
}

void reader_columns_see(struct reader_columns *columns, int32_t index, const double *number)
{
    struct reader_column *column = &columns->at[index];
    bool first_row = columns->n_rows == 0;
    column->has_number = column->has_number || number != NULL;
    if (number != NULL && first_row)
        column->first = *number;
    column->counts_rows = column->counts_rows && number != NULL && column->n_seen++ == columns->n_rows &&
                          (column->first == 0 || column->first == 1) &&
                          *number == column->first + (double)columns->n_rows;
}

/** Return whether a column may hold lengths. */
static bool is_candidate(const struct reader_columns *columns, int32_t i, int32_t weights)
{
    const struct reader_column *column = &columns->at[i];
    return i != weights && column->has_number && !(column->counts_rows && columns->n_rows > 1);
}

/** Print the names of the candidates, or of all columns. Print the first ones if there are many. */
static void print_names(const struct reader_columns *columns, bool all, int32_t weights, char names[300])
{
    names[0] = '\0';
    for (int32_t i = 0; i < columns->n; i++)
        if (all || is_candidate(columns, i, weights))
            snprintf(names + strlen(names), 300 - strlen(names), "%s'%s'", *names != '\0' ? ", " : "",
                     columns->at[i].name);
}

/** Add an error about two columns of one name. @return -1 */
static int32_t refuse_twice(const struct reader_columns *columns, const char *name, const char *where,
                            struct error *err)
{
    error_set(err, "%s: two %ss are called '%s'; give each a name of its own", where, columns->kind, name);
    return -1;
}

/** Find a column that a key names. */
static int32_t find_named(const struct reader_columns *columns, const char *name, const char *where, struct error *err)
{
    char names[300];
    int32_t index = reader_columns_find(columns, name, 0);
    if (index >= 0)
        return reader_columns_find(columns, name, index + 1) < 0 ? index : refuse_twice(columns, name, where, err);
    print_names(columns, true, -1, names);
    error_set(err, "%s: there is no %s '%s', the %ss are: %s", where, columns->kind, name, columns->kind, names);
    return -1;
}

static int32_t find_usual_weights(const struct reader_columns *columns)
{
    static const char *const usual[] = {"count", "counts", "weight", "weights", "frequency"};
    for (int32_t i = 0; i < columns->n; i++)
        for (size_t k = 0; k < sizeof usual / sizeof *usual; k++)
            if (columns->at[i].has_number && strcasecmp(columns->at[i].name, usual[k]) == 0)
                return i;
    return -1;
}

/** Find the only column that may hold lengths. */
static int32_t find_only(const struct reader_columns *columns, int32_t weights, const char *where, struct error *err)
{
    char names[300];
    int32_t n = 0, only = -1;
    for (int32_t i = 0; i < columns->n; i++)
        if (is_candidate(columns, i, weights)) {
            only = i;
            n++;
        }
    if (n == 1 || columns->n == 1)
        return n == 1 ? only : 0;
    if (n > 1 && reader_columns_find(columns, columns->at[only].name, 0) < only)
        return refuse_twice(columns, columns->at[only].name, where, err);
    print_names(columns, n == 0, weights, names);
    if (n == 0)
        error_set(err, "%s: no %s holds numbers; data.column names the one of lengths: %s", where, columns->kind,
                  names);
    else
        error_set(err,
                  "%s: %d %ss hold numbers: %s; data.column names the one of lengths, and data.weights one that says "
                  "how often each length occurs",
                  where, n, columns->kind, names);
    return -1;
}

bool reader_columns_choose(struct reader_columns *columns, const struct reader_choice *choice, const char *where,
                           char part[160], struct error *err)
{
    const bool by_name = *choice->column != '\0', none = strcmp(choice->weights, "none") == 0;
    int32_t lengths = by_name ? find_named(columns, choice->column, where, err) : -1;
    if (by_name && lengths < 0)
        return false;
    int32_t weights = *choice->weights == '\0' ? find_usual_weights(columns)
                      : none                   ? -1
                                               : find_named(columns, choice->weights, where, err);
    if (*choice->weights != '\0' && !none && weights < 0)
        return false;
    if (by_name && weights == lengths && *choice->weights != '\0')
        return error_set(err, "%s: data.column and data.weights both name '%s'; allowed: two %ss", where,
                         choice->column, columns->kind);
    if (by_name && weights == lengths)
        weights = -1;
    if (!by_name && (lengths = find_only(columns, weights, where, err)) < 0)
        return false;
    columns->lengths = lengths;
    columns->weights = weights;
    snprintf(part, 160, "%s '%s'%s%s%s", columns->kind, columns->at[lengths].name, weights >= 0 ? " weighted by '" : "",
             weights >= 0 ? columns->at[weights].name : "", weights >= 0 ? "'" : "");
    return true;
}
