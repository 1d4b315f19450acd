/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/validation_summary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/compare.h"
#include "base/text.h"
#include "base/text_table.h"
#include "document/document_read.h"
#include "scenario/scenario.h"
#include "trace/table.h"
#include "validate/gains.h"
#include "validate/statistics.h"

enum { MOST_GROUPS = 10, NAME = 48 };

static void add_line(struct text_table *table, const struct validate *validate, const char *name,
                     struct validate_group group)
{
    struct validate_statistics of = validate_statistics_of(validate, group);
    if (of.n > 0)
        text_table_row(table, "%s\t%d\t%.1f%%\t%.1f%%\t%.1f%%\t%s\t%4d of %d", name, (int)of.n, 100 * of.mape,
                       100 * of.bias, 100 * of.max, validate->rows[of.worst].id, (int)of.n_small, (int)of.n);
}

/** Some rows of throughput: a framework on a GPU, or another kind of runs on a GPU. */
struct part {
    char name[NAME];
    const char *group; /* of its rows; NULL: they name none */
    int32_t number, n; /* in the order of the first row; rows */
};

static int compare_parts(const void *a, const void *b)
{
    const struct part *left = a, *right = b;
    return left->n != right->n ? COMPARE(right->n, left->n) : COMPARE(left->number, right->number);
}

/** Return the number of the part of a row. A new one is appended. */
static int32_t part_of(struct part *parts, int32_t *n_parts, const struct validate_row *row)
{
    char name[NAME] = "settings known in part (trust B)";
    if (row->kind != VALIDATE_DENSE)
        snprintf(name, sizeof name, "%s, %.15s%s%.12s", validate_kind_names[row->kind],
                 row->trust[0] == 'A' ? row->device : "trust B", *row->group != '\0' ? ", " : "", row->group);
    else if (row->trust[0] == 'A')
        snprintf(name, sizeof name, "%.22s, %.15s", *row->framework != '\0' ? row->framework : "no framework named",
                 row->device);
    int32_t i = 0;
    while (i < *n_parts && strcmp(parts[i].name, name) != 0)
        i++;
    if (i == *n_parts) {
        parts[(*n_parts)++] = (struct part){.number = i, .group = *row->group != '\0' ? row->group : NULL};
        strcpy(parts[i].name, name);
    }
    return i;
}

/** Return whether a row counts in the errors of throughput of a kind of runs. */
static bool has_part(const struct validate_row *row, enum validate_kind kind)
{
    return row->quantity == VALIDATE_THROUGHPUT && row->reason[0] == '\0' && !row->calibration && !row->varies &&
           !row->ratio_only && row->kind == kind && (kind != VALIDATE_DENSE || row->group[0] == '\0');
}

/** Add the errors of throughput of a kind by part, those with most rows first: of each GPU, or of frameworks. */
static void add_parts(struct text_table *table, const struct validate *validate, enum validate_kind kind)
{
    size_t n = (size_t)validate->n_rows;
    struct part *parts = check_calloc(n, sizeof *parts);
    int32_t n_parts = 0, *number = check_calloc(n, sizeof *number), *place = check_calloc(n, sizeof *place);
    for (int32_t i = 0; i < validate->n_rows; i++) {
        const struct validate_row *row = &validate->rows[i];
        number[i] = -1;
        if (has_part(row, kind))
            parts[number[i] = part_of(parts, &n_parts, row)].n++;
    }
    qsort(parts, (size_t)n_parts, sizeof *parts, compare_parts);
    for (int32_t i = 0; i < n_parts; i++)
        place[parts[i].number] = i;
    for (int32_t i = 0; i < validate->n_rows; i++)
        number[i] = number[i] < 0 ? -1 : place[number[i]];
    int32_t n_own = kind != VALIDATE_DENSE || n_parts <= MOST_GROUPS ? n_parts : MOST_GROUPS - 1;
    for (int32_t i = 0; i < n_own; i++)
        add_line(
            table, validate, parts[i].name,
            (struct validate_group){.part = number, .first = i, .end = i + 1, .group = parts[i].group, .kind = kind});
    add_line(table, validate, "others", (struct validate_group){.part = number, .first = n_own, .end = n_parts});
    free(parts);
    free(number);
    free(place);
}

/** Add the errors of throughput by framework and GPU, of all rows, and of the other kinds. */
static void add_throughput(struct text_table *table, const struct validate *validate)
{
    add_parts(table, validate, VALIDATE_DENSE);
    add_line(table, validate, "all of known settings (trust A, A-)", (struct validate_group){.full_plan = true});
    add_line(table, validate, "all", (struct validate_group){0});
    for (enum validate_kind kind = VALIDATE_FP8; kind < VALIDATE_N_KINDS; kind++)
        add_parts(table, validate, kind);
    add_line(table, validate, "blackwell: max_memory_allocated",
             (struct validate_group){.quantity = VALIDATE_ALLOCATED, .kind = VALIDATE_BLACKWELL});
}

/** Add the errors of throughput of all groups. If every row names one, add those of each before, in the order of their
 * first rows. */
static void add_groups(struct text_table *table, const struct validate *validate)
{
    bool each = true;
    for (int32_t i = 0; i < validate->n_rows; i++)
        each = each && validate->rows[i].group[0] != '\0';
    for (int32_t i = 0; each && i < validate->n_rows; i++) {
        const char *group = validate->rows[i].group;
        int32_t first = 0;
        while (strcmp(validate->rows[first].group, group) != 0)
            first++;
        if (first == i)
            add_line(table, validate, group, (struct validate_group){.group = group});
    }
    add_line(table, validate, "groups (-v), of trust A, A-", (struct validate_group){.group = "", .full_plan = true});
    add_line(table, validate, "varying lengths (-v), of trust A, A-",
             (struct validate_group){.group = "", .full_plan = true, .varies = true});
    add_line(table, validate, "varying lengths (-v), all", (struct validate_group){.group = "", .varies = true});
    add_line(table, validate, "varying lengths: max_memory_allocated",
             (struct validate_group){.quantity = VALIDATE_ALLOCATED, .group = "", .varies = true});
}

static void print_gains(const struct validate *validate)
{
    int32_t n;
    struct validate_pair *pairs = validate_pairs_of(validate, &n);
    struct validate_gains gains = validate_gains_of(pairs, n);
    if (n > 0)
        printf("pairs: the faster run is predicted faster in %d of %d with a gain above %.0f%%,\n"
               "  %d of %d others gain as little; gains are off by %.1f points in the median\n",
               (int)gains.n_ahead, (int)(n - gains.n_null), 100 * GAINS_NULL, (int)gains.n_null_right,
               (int)gains.n_null, 100 * gains.median);
    free(pairs);
}

/** Append how many runs of a kind fit or not as predicted. */
static void add_fits(char *text, size_t size, struct validate_outcomes of, const char *kind)
{
    size_t used = strlen(text);
    if (of.n > 0)
        snprintf(text + used, size - used, ", %d of %d %s", (int)(of.n - of.n_false_alarm - of.n_missed), (int)of.n,
                 kind);
}

/** Print how many runs fit or not as predicted, and how many rows do not count. Kinds without runs are left out, but
 * for dense ones. */
static void print_fits(const struct validate *validate, int32_t n_calibration, int32_t n_skipped)
{
    struct validate_outcomes own = validate_outcomes_of(validate, NULL);
    char text[512];
    snprintf(text, sizeof text, "fit as predicted: %d of %d runs", (int)(own.n - own.n_false_alarm - own.n_missed),
             (int)own.n);
    add_fits(text, sizeof text, validate_outcomes_of(validate, ""), "of groups");
    for (enum validate_kind kind = VALIDATE_FP8; kind < VALIDATE_N_KINDS; kind++) {
        char name[NAME];
        snprintf(name, sizeof name, "%s %s", kind == VALIDATE_BLACKWELL ? "on" : "with", validate_kind_names[kind]);
        add_fits(text, sizeof text, validate_outcomes_of_kind(validate, kind), name);
    }
    size_t used = strlen(text);
    snprintf(text + used, sizeof text - used, "; not counted: %d calibration rows, %d skipped (-v prints every row)",
             (int)n_calibration, (int)n_skipped);
    text_print_wrapped(text, &(struct text_limits){100, 3, 3, NULL});
}

/** Count the rows that have no error in the table. */
static void count_others(const struct validate *validate, int32_t *n_calibration, int32_t *n_skipped)
{
    *n_calibration = *n_skipped = 0;
    for (int32_t i = 0; i < validate->n_rows; i++) {
        *n_skipped += validate->rows[i].reason[0] != '\0';
        *n_calibration += validate->rows[i].reason[0] == '\0' && validate->rows[i].calibration;
    }
}

void validation_print_summary(const struct validate *validate)
{
    int32_t n_calibration, n_skipped;
    struct text_table table = {0};
    count_others(validate, &n_calibration, &n_skipped);
    text_table_columns(
        &table, "tokens/s/GPU, by framework and GPU<40;rows>;mean |error|>14;bias>7;worst>7;of row<6;within 10%<");
    add_throughput(&table, validate);
    for (enum validate_quantity quantity = VALIDATE_THROUGHPUT + 1; quantity < VALIDATE_N_QUANTITIES; quantity++)
        if (quantity != VALIDATE_FITTED)
            add_line(&table, validate, trace_quantity_names.text[quantity],
                     (struct validate_group){.quantity = quantity});
    add_groups(&table, validate);
    add_line(&table, validate, "replayed spans", (struct validate_group){.quantity = VALIDATE_SPAN, .group = ""});
    text_table_print(&table, stdout, 0);
    print_gains(validate);
    print_fits(validate, n_calibration, n_skipped);
}

/** Write how many of a kind's shipped runs the range held, or nothing. */
static void write_held(const struct document *errors, const char *key, char text[NAME])
{
    char path[NAME];
    snprintf(path, sizeof path, "held%s.p5_to_p95", key);
    int32_t at = *key == '-' ? -1 : document_find(errors, 0, path);
    snprintf(text, NAME, "%s", "-");
    if (at >= 0)
        snprintf(text, NAME, "%.0f%%", 100 * strtod(errors->node[at].value, NULL));
}

void validation_print_kinds(const struct validate *validate)
{
    static const struct {
        const char *name, *held; /* held: end of its key; "-": none */
        struct validate_group group;
    } kinds[] = {
        {"dense", "", {.full_plan = true}},
        {"fp8", "_fp8", {.full_plan = true, .kind = VALIDATE_FP8}},
        {"experts", "_experts", {.full_plan = true, .kind = VALIDATE_EXPERTS}},
        {"experts in fp8", "_experts_fp8", {.full_plan = true, .kind = VALIDATE_EXPERTS_FP8}},
        {"blackwell", "_blackwell", {.full_plan = true, .kind = VALIDATE_BLACKWELL}},
        {"experts on blackwell", "_experts_blackwell", {.full_plan = true, .kind = VALIDATE_EXPERTS_BLACKWELL}},
        {"in groups of their own", "-", {.full_plan = true, .group = ""}},
        {"varying lengths, any trust", "-", {.group = "", .varies = true}},
        {"max_memory_allocated", "-", {.quantity = VALIDATE_ALLOCATED}},
        {"  blackwell", "-", {.quantity = VALIDATE_ALLOCATED, .kind = VALIDATE_BLACKWELL}},
        {"  varying lengths", "-", {.quantity = VALIDATE_ALLOCATED, .group = "", .varies = true}},
    };
    char path[1024], held[NAME];
    int32_t n_calibration, n_skipped;
    struct document errors = {0};
    struct error err = {0};
    struct text_table table = {0};
    count_others(validate, &n_calibration, &n_skipped);
    snprintf(path, sizeof path, "%s/model/model_error.yaml", scenario_data_dir());
    bool read = document_read(path, &errors, &err);
    text_table_columns(&table, "tokens/s/GPU, by kind of runs<28;rows>;mean |error|>14;bias>7;worst>7;of row<6;within "
                               "10%<;held>");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        add_line(&table, validate, kinds[i].name, kinds[i].group);
        write_held(&errors, read ? kinds[i].held : "-", held);
        if (validate_statistics_of(validate, kinds[i].group).n > 0)
            text_table_cell(&table, "%s", held);
    }
    document_free(&errors);
    text_table_print(&table, stdout, 0);
    puts("tokens/s/GPU: settings of trust A and A-, unless a line says any; held: runs inside p5 to p95 of the\n"
         "  errors of other sources (docs/model/errors.md, \"How sure\"); -v adds frameworks, GPUs and trust B");
    if (!read)
        printf("held is not known: %s\n", err.text);
    print_gains(validate);
    print_fits(validate, n_calibration, n_skipped);
}
