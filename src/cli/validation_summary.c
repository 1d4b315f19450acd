/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/validation_summary.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/compare.h"
#include "base/text_table.h"
#include "trace/table.h"
#include "validate/statistics.h"

enum { MOST_GROUPS = 10, NAME = 40 };
static const double small_error = 0.1;

/** It sums up the errors of some rows. */
struct group {
    char name[NAME];
    int32_t first, n, n_small, worst; /* rows: the first, their number, those with a small error, the largest error */
    double sum, absolute_sum, largest;
};

static void add_error(struct group *group, const struct validate *validate, int32_t row)
{
    double error = validate->rows[row].error;
    group->n++;
    group->n_small += fabs(error) <= small_error;
    group->sum += error;
    group->absolute_sum += fabs(error);
    if (group->n == 1 || fabs(error) > group->largest) {
        group->largest = fabs(error);
        group->worst = row;
    }
}

/** Add the errors of one group to those of another. */
static void add_group(struct group *to, const struct group *from)
{
    if (to->n == 0 || from->largest > to->largest) {
        to->largest = from->largest;
        to->worst = from->worst;
    }
    to->n += from->n;
    to->n_small += from->n_small;
    to->sum += from->sum;
    to->absolute_sum += from->absolute_sum;
}

static bool counts(const struct validate_row *row, enum validate_quantity quantity)
{
    return row->quantity == quantity && row->reason[0] == '\0' && !row->calibration;
}

static void add_group_row(struct text_table *table, const struct validate *validate, const struct group *group)
{
    if (group->n > 0)
        text_table_row(table, "%s\t%d\t%.1f%%\t%.1f%%\t%.1f%%\t%s\t%4d of %d", group->name, (int)group->n,
                       100 * group->absolute_sum / group->n, 100 * group->sum / group->n, 100 * group->largest,
                       validate->rows[group->worst].id, (int)group->n_small, (int)group->n);
}

static int compare_groups(const void *a, const void *b)
{
    const struct group *left = a, *right = b;
    return left->n != right->n ? COMPARE(right->n, left->n) : COMPARE(left->first, right->first);
}

/** Return whether a row's settings are known: trust A or A-. */
static bool has_settings(const struct validate_row *row)
{
    return row->trust[0] == 'A';
}

static struct group *find_group(struct group *groups, int32_t *n_groups, const struct validate_row *row, int32_t first)
{
    char name[NAME] = "settings known in part (trust B)";
    if (has_settings(row))
        snprintf(name, sizeof name, "%.22s, %.15s", *row->framework != '\0' ? row->framework : "no framework named",
                 row->device);
    for (int32_t i = 0; i < *n_groups; i++)
        if (strcmp(groups[i].name, name) == 0)
            return &groups[i];
    struct group *group = &groups[(*n_groups)++];
    *group = (struct group){.first = first};
    strcpy(group->name, name);
    return group;
}

/** Add the errors of throughput by framework and GPU, and of all rows. */
static void add_throughput(struct text_table *table, const struct validate *validate)
{
    int32_t n_groups = 0;
    struct group all = {.name = "all"}, full = {.name = "all of known settings (trust A, A-)"};
    struct group others = {.name = "others"};
    struct group *groups = check_calloc((size_t)validate->n_rows, sizeof *groups);
    for (int32_t i = 0; i < validate->n_rows; i++)
        if (counts(&validate->rows[i], VALIDATE_THROUGHPUT)) {
            add_error(find_group(groups, &n_groups, &validate->rows[i], i), validate, i);
            add_error(&all, validate, i);
            if (has_settings(&validate->rows[i]))
                add_error(&full, validate, i);
        }
    qsort(groups, (size_t)n_groups, sizeof *groups, compare_groups);
    int32_t n_own = n_groups <= MOST_GROUPS ? n_groups : MOST_GROUPS - 1;
    for (int32_t i = 0; i < n_groups; i++)
        if (i < n_own)
            add_group_row(table, validate, &groups[i]);
        else
            add_group(&others, &groups[i]);
    add_group_row(table, validate, &others);
    add_group_row(table, validate, &full);
    add_group_row(table, validate, &all);
    free(groups);
}

static void add_quantity(struct text_table *table, const struct validate *validate, enum validate_quantity quantity)
{
    struct group group = {0};
    snprintf(group.name, sizeof group.name, "%s", trace_quantity_names.text[quantity]);
    for (int32_t i = 0; i < validate->n_rows; i++)
        if (counts(&validate->rows[i], quantity))
            add_error(&group, validate, i);
    add_group_row(table, validate, &group);
}

void validation_print_summary(const struct validate *validate)
{
    int32_t n_calibration = 0, n_skipped = 0;
    struct text_table table = {0};
    for (int32_t i = 0; i < validate->n_rows; i++) {
        n_skipped += validate->rows[i].reason[0] != '\0';
        n_calibration += validate->rows[i].reason[0] == '\0' && validate->rows[i].calibration;
    }
    text_table_columns(
        &table, "tokens/s/GPU, by framework and GPU<40;rows>;mean |error|>14;bias>7;worst>7;of row<6;within 10%<");
    add_throughput(&table, validate);
    for (enum validate_quantity quantity = VALIDATE_THROUGHPUT + 1; quantity < VALIDATE_N_QUANTITIES; quantity++)
        if (quantity != VALIDATE_FITTED)
            add_quantity(&table, validate, quantity);
    text_table_print(&table, stdout, 0);
    struct validate_outcomes outcomes = validate_outcomes_of(validate);
    printf("runs fit: %d of %d right; not counted: %d calibration rows, %d skipped (-v prints every row)\n",
           (int)(outcomes.n - outcomes.n_false_alarm - outcomes.n_missed), (int)outcomes.n, (int)n_calibration,
           (int)n_skipped);
}
