/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/validation_summary.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/compare.h"
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

static void print_group(const struct validate *validate, const struct group *group)
{
    if (group->n > 0)
        printf("%-40s%6d%15.1f%%%8.1f%%%8.1f%%  %-8s%4d of %d\n", group->name, (int)group->n,
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

/** Print the errors of throughput by framework and GPU, and of all rows. */
static void print_throughput(const struct validate *validate)
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
            print_group(validate, &groups[i]);
        else
            add_group(&others, &groups[i]);
    print_group(validate, &others);
    print_group(validate, &full);
    print_group(validate, &all);
    free(groups);
}

static void print_quantity(const struct validate *validate, enum validate_quantity quantity)
{
    struct group group = {0};
    snprintf(group.name, sizeof group.name, "%s", trace_quantity_names.text[quantity]);
    for (int32_t i = 0; i < validate->n_rows; i++)
        if (counts(&validate->rows[i], quantity))
            add_error(&group, validate, i);
    print_group(validate, &group);
}

void validation_print_summary(const struct validate *validate)
{
    int32_t n_calibration = 0, n_skipped = 0;
    for (int32_t i = 0; i < validate->n_rows; i++) {
        n_skipped += validate->rows[i].reason[0] != '\0';
        n_calibration += validate->rows[i].reason[0] == '\0' && validate->rows[i].calibration;
    }
    printf("%-40s%6s%16s%9s%9s  %-8s%s\n", "tokens/s/GPU, by framework and GPU", "rows", "mean |error|", "bias",
           "worst", "of row", "within 10%");
    print_throughput(validate);
    for (enum validate_quantity quantity = VALIDATE_THROUGHPUT + 1; quantity < VALIDATE_N_QUANTITIES; quantity++)
        if (quantity != VALIDATE_FITTED)
            print_quantity(validate, quantity);
    struct validate_outcomes outcomes = validate_outcomes_of(validate);
    printf("runs fit: %d of %d right; not counted: %d calibration rows, %d skipped (-v prints every row)\n",
           (int)(outcomes.n - outcomes.n_false_alarm - outcomes.n_missed), (int)outcomes.n, (int)n_calibration,
           (int)n_skipped);
}
