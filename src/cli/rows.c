/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/compare.h"
#include "base/nearest.h"
#include "base/text.h"
#include "base/text_table.h"
#include "cli/command.h"
#include "document/quantity.h"
#include "simulate/interval.h"
#include "trace/json.h"

static const char *cell(const struct rows *rows, int32_t row, int32_t column)
{
    return rows->file.cells[(size_t)row * (size_t)rows->file.n_columns + (size_t)column];
}

bool rows_open(const char *path, struct rows *rows, struct error *err)
{
    *rows = (struct rows){0};
    size_t n = strlen(path);
    if (n > 3 && strcmp(path + n - 3, ".h5") == 0)
        return error_set(err, "%s: it is a trace; give the table beside it: %.*s.csv", path, (int)n - 3, path);
    if (!measured_read(path, &rows->file, err))
        return false;
    int32_t status = measured_column(&rows->file, "status"), system = measured_column(&rows->file, "system");
    if (status < 0 || system <= status || measured_column(&rows->file, "fits") < 0)
        return error_set(
            err,
            "%s: not the table of a sweep, which has the columns status, system and fits; for a scenario without "
            "`sweep:` `run` prints all rows",
            path);
    rows->first_swept = status + 1;
    rows->n_swept = system - rows->first_swept;
    rows->row = check_calloc((size_t)rows->file.n_rows, sizeof *rows->row);
    rows->replicates = check_calloc((size_t)rows->file.n_rows, sizeof *rows->replicates);
    for (int32_t i = 0; i < rows->file.n_rows; i++)
        rows->replicates[i] = 1;
    for (int32_t i = 0; i < rows->file.n_rows; i++)
        if (strcmp(cell(rows, i, status), "done") == 0)
            rows->row[rows->n++] = i;
    return true;
}

/** Find a column by its name. X_gib means X_bytes with *scale 1/2^30. */
static int32_t find_column(const struct rows *rows, const char *name, double *scale, struct error *err)
{
    char bytes[128];
    size_t length = strlen(name);
    int32_t column = measured_column(&rows->file, name);
    *scale = 1;
    if (column >= 0)
        return column;
    if (length > 4 && strcmp(name + length - 4, "_gib") == 0) {
        snprintf(bytes, sizeof bytes, "%.*s_bytes", (int)length - 4, name);
        *scale = 1 / TEXT_GIB;
        column = measured_column(&rows->file, bytes);
    }
    char hint[NEAREST_HINT_BYTES];
    nearest_hint(name, (const char *const *)rows->file.columns, rows->file.n_columns, hint);
    if (column < 0)
        error_set(err, "%s has no column '%s'; %sallowed: the names in its first line, and X_gib for X_bytes",
                  rows->file.path, name, hint);
    return column;
}

static bool cell_number(const struct rows *rows, int32_t row, int32_t column, double *value)
{
    return quantity_parse(cell(rows, row, column), "-", value);
}

enum relation { BELOW, NOT_ABOVE, ABOVE, NOT_BELOW, EQUAL, UNEQUAL, N_RELATIONS };

/** Split "COLUMN <= VALUE". */
static bool split(const char *condition, char name[128], enum relation *relation, const char **value)
{
    static const char *const sign[N_RELATIONS] = {"<", "<=", ">", ">=", "=", "!="};
    size_t length = strcspn(condition, "<>=!"), n_sign = strspn(condition + length, "<>=!"), blanks = length;
    while (blanks > 0 && condition[blanks - 1] == ' ')
        blanks--;
    snprintf(name, 128, "%.*s", (int)blanks, condition);
    *value = condition + length + n_sign + strspn(condition + length + n_sign, " ");
    bool twice = n_sign == 2 && strncmp(condition + length, "==", 2) == 0; /* means the same as = */
    for (int i = 0; i < N_RELATIONS; i++)
        if ((strlen(sign[i]) == n_sign && strncmp(condition + length, sign[i], n_sign) == 0) || (twice && i == EQUAL)) {
            *relation = (enum relation)i;
            return *name != '\0' && **value != '\0';
        }
    return false;
}

static bool relates(enum relation relation, double order)
{
    const bool holds[N_RELATIONS] = {order<0, order <= 0, order> 0, order >= 0, order == 0, order != 0};
    return holds[relation];
}

bool rows_where(struct rows *rows, const char *condition, struct error *err)
{
    char name[128];
    const char *value;
    enum relation relation;
    double scale, wanted, number;
    if (!split(condition, name, &relation, &value))
        return error_set_status(err, ERROR_USAGE, "--where: '%s' is not COLUMN<VALUE (or <= > >= = !=)", condition);
    int32_t column = find_column(rows, name, &scale, err), n = 0;
    if (column < 0)
        return false;
    bool numeric = quantity_parse(value, "-", &wanted);
    if (!numeric && relation < EQUAL)
        return error_set_status(err, ERROR_USAGE, "--where: '%s' does not compare with a number", condition);
    for (int32_t i = 0; i < rows->n; i++) {
        bool both = numeric && cell_number(rows, rows->row[i], column, &number);
        int text_order = strcmp(cell(rows, rows->row[i], column), value);
        double order = both ? number * scale - wanted : (double)text_order;
        if ((both || relation >= EQUAL) && relates(relation, order))
            rows->row[n++] = rows->row[i];
    }
    rows->n = n;
    return true;
}

struct keyed {
    double key;
    int32_t row;
};

static int compare_keyed(const void *a, const void *b)
{
    const struct keyed *left = a, *right = b;
    return left->key != right->key ? COMPARE(left->key, right->key) : COMPARE(left->row, right->row);
}

/** Order by keys, the least first. Ties are ordered by row. */
static void order_by(struct rows *rows, struct keyed *keyed)
{
    qsort(keyed, (size_t)rows->n, sizeof *keyed, compare_keyed);
    for (int32_t i = 0; i < rows->n; i++)
        rows->row[i] = keyed[i].row;
}

/** Read the number of a cell by which rows are compared. */
static bool comparable(const struct rows *rows, int32_t row, int32_t column, double *number, struct error *err)
{
    return cell_number(rows, row, column, number) ||
           error_set(err, "%s:%d: %s is '%s', not a number to compare by", rows->file.path, rows->file.lines[row],
                     rows->file.columns[column], cell(rows, row, column));
}

bool rows_order(struct rows *rows, const char *column, bool least_first, struct error *err)
{
    double scale, number = 0;
    int32_t at = rows->compared[0] = find_column(rows, column, &scale, err);
    if (at < 0)
        return false;
    rows->n_compared = 1;
    struct keyed *keyed = check_malloc((size_t)rows->n * sizeof *keyed);
    bool ok = true;
    for (int32_t i = 0; i < rows->n && ok; i++) {
        ok = comparable(rows, rows->row[i], at, &number, err);
        keyed[i] = (struct keyed){least_first ? number : -number, rows->row[i]};
    }
    if (ok)
        order_by(rows, keyed);
    free(keyed);
    return ok;
}

static double number_of(const struct rows *rows, int32_t row, const char *name)
{
    double number = 0;
    int32_t column = measured_column(&rows->file, name);
    return column >= 0 && cell_number(rows, row, column, &number) ? number : 0;
}

/**
 * Return whether a swept key belongs to the question: the training, its draws, and its simulation. A plan, a purchase
 * or a setting of the training software belongs to an answer.
 */
static bool of_question(const char *key)
{
    static const char *const question[] = {"model", "data", "seed", "iterations", "engine", "all_tensor_ranks",
                                           "faults"};
    size_t length = strcspn(key, ".");
    for (size_t i = 0; i < sizeof question / sizeof *question; i++)
        if (strlen(question[i]) == length && strncmp(key, question[i], length) == 0)
            return true;
    return false;
}

/** Return whether a column tells more than which replicate a row is: a swept key except the seed, or the system. */
static bool not_seed(const char *column)
{
    return strcmp(column, "seed") != 0;
}

/** Rows with the same cells in all swept keys and the system that count belong together. */
struct grouping {
    const struct rows *rows;
    bool (*counts)(const char *column);
};

static int compare_groups(const struct grouping *grouping, int32_t left, int32_t right)
{
    const struct rows *rows = grouping->rows;
    for (int32_t c = rows->first_swept; c <= rows->first_swept + rows->n_swept; c++) {
        bool counts = grouping->counts(rows->file.columns[c]);
        int order = counts ? strcmp(cell(rows, left, c), cell(rows, right, c)) : 0;
        if (order != 0)
            return order;
    }
    return 0;
}

static int compare_rows(const void *a, const void *b, void *grouping)
{
    const int32_t *left = a, *right = b;
    int order = compare_groups(grouping, *left, *right);
    return order != 0 ? order : COMPARE(*left, *right);
}

/** Put rows of a group together. Groups have the order of their first rows. Rows of a group keep the file's order. */
static void group_by(struct rows *rows, bool (*counts)(const char *column))
{
    struct grouping grouping = {rows, counts};
    struct keyed *keyed = check_malloc((size_t)rows->n * sizeof *keyed);
    qsort_r(rows->row, (size_t)rows->n, sizeof *rows->row, compare_rows, &grouping);
    for (int32_t i = 0, first = 0; i < rows->n; i++) {
        first = compare_groups(&grouping, rows->row[first], rows->row[i]) != 0 ? i : first;
        keyed[i] = (struct keyed){rows->row[first], rows->row[i]};
    }
    order_by(rows, keyed);
    free(keyed);
}

/** Return the index after the last row of the group that begins at `first`. */
static int32_t group_end(const struct rows *rows, int32_t first, bool (*counts)(const char *column))
{
    struct grouping grouping = {rows, counts};
    int32_t end = first + 1;
    while (end < rows->n && compare_groups(&grouping, rows->row[first], rows->row[end]) == 0)
        end++;
    return end;
}

/* A cell of joined rows that is no mean, since their cells differ. */
static const char various[] = "various";

/** Write the mean of a column over rows [n], or the half width of its 95% interval. If a cell is no number, write "".
 */
static char *mean_text(const struct rows *rows, const int32_t *row, int32_t n, int32_t column, bool half_width)
{
    double *value = check_malloc((size_t)n * sizeof *value), sum = 0;
    bool numbers = true;
    for (int32_t i = 0; i < n; i++) {
        numbers = numbers && cell_number(rows, row[i], column, &value[i]);
        sum += numbers ? value[i] : 0;
    }
    double result = half_width && numbers ? interval_of_mean(value, n) : sum / n;
    free(value);
    return numbers ? check_asprintf("%.17g", result) : check_strdup("");
}

/** Write the largest of a column's cells over rows [n]. If a cell is no number, write "". */
static char *largest_text(const struct rows *rows, const int32_t *row, int32_t n, int32_t column)
{
    double largest = -INFINITY, value;
    for (int32_t i = 0; i < n; i++) {
        if (!cell_number(rows, row[i], column, &value))
            return check_strdup("");
        largest = fmax(largest, value);
    }
    return check_asprintf("%.17g", largest);
}

/** Write the seeds of rows [n]. */
static char *seeds_text(const struct rows *rows, const int32_t *row, int32_t n, int32_t column)
{
    char *text = check_strdup(cell(rows, row[0], column));
    for (int32_t i = 1; i < n; i++) {
        char *longer = check_asprintf("%s %s", text, cell(rows, row[i], column));
        free(text);
        text = longer;
    }
    return text;
}

/** Write the cell that joins those of rows [n]. */
static char *joined_text(const struct rows *rows, const int32_t *row, int32_t n, int32_t column)
{
    const char *name = rows->file.columns[column], *first = cell(rows, row[0], column);
    size_t stem = strlen(name) - strlen("_interval");
    char of_interval[128];
    bool same = true, first_only = strcmp(name, "point") == 0 || strcmp(name, "id") == 0;
    for (int32_t i = 1; i < n; i++)
        same = same && strcmp(first, cell(rows, row[i], column)) == 0;
    const struct trace_column *known = trace_column_find(TRACE_SUMMARY, name);
    if (known != NULL && known->optional && stem < sizeof of_interval && strcmp(name + stem, "_interval") == 0) {
        snprintf(of_interval, sizeof of_interval, "%.*s", (int)stem, name);
        int32_t of = measured_column(&rows->file, of_interval);
        if (of >= 0)
            return mean_text(rows, row, n, of, true);
    }
    if (same || first_only)
        return check_strdup(first);
    if (strcmp(name, "seed") == 0)
        return seeds_text(rows, row, n, column);
    if (strcmp(name, "fits") == 0)
        return check_strdup("0");
    if (strcmp(name, "first_exceeds_limit") == 0 || strcmp(name, "tight") == 0)
        return check_strdup("1");
    if (strstr(name, "peak_bytes") != NULL)
        return largest_text(rows, row, n, column);
    return known != NULL && known->type == TRACE_DOUBLE ? mean_text(rows, row, n, column, false)
                                                        : check_strdup(various);
}

void rows_join(struct rows *rows)
{
    int32_t n_columns = rows->file.n_columns, n_rows = 0;
    int32_t seed = measured_column(&rows->file, "seed");
    if (seed < rows->first_swept || seed >= rows->first_swept + rows->n_swept)
        return;
    char **joined = check_calloc((size_t)n_columns, sizeof *joined);
    group_by(rows, not_seed);
    for (int32_t first = 0, end; first < rows->n; first = end) {
        int32_t row = rows->row[first];
        end = group_end(rows, first, not_seed);
        for (int32_t c = 0; c < n_columns && end - first > 1; c++)
            joined[c] = joined_text(rows, rows->row + first, end - first, c);
        for (int32_t c = 0; c < n_columns && end - first > 1; c++) {
            char **to = &rows->file.cells[(size_t)row * (size_t)n_columns + (size_t)c];
            free(*to);
            *to = joined[c];
        }
        rows->replicates[row] = end - first;
        rows->row[n_rows++] = row;
    }
    free(joined);
    rows->n = n_rows;
}

void rows_mixed(const struct rows *rows, size_t size, char *keys)
{
    *keys = '\0';
    for (int32_t c = rows->first_swept; c < rows->first_swept + rows->n_swept; c++) {
        bool mixed = false;
        for (int32_t i = 1; i < rows->n && of_question(rows->file.columns[c]); i++)
            mixed = mixed || strcmp(cell(rows, rows->row[0], c), cell(rows, rows->row[i], c)) != 0;
        size_t used = strlen(keys);
        if (mixed)
            snprintf(keys + used, size - used, "%s%s", used > 0 ? ", " : "", rows->file.columns[c]);
    }
}

bool rows_any(const struct rows *rows, const char *column)
{
    bool any = false;
    for (int32_t i = 0; i < rows->n; i++)
        any = any || number_of(rows, rows->row[i], column) > 0;
    return any;
}

/** Return whether two rows differ in this swept key only. */
static bool differ_in(const struct rows *rows, int32_t left, int32_t right, const char *key)
{
    bool only = true, differs = false;
    for (int32_t c = rows->first_swept; c <= rows->first_swept + rows->n_swept; c++) {
        bool same = strcmp(cell(rows, left, c), cell(rows, right, c)) == 0,
             is_key = strcmp(rows->file.columns[c], key) == 0;
        only = only && (same || is_key);
        differs = differs || (!same && is_key);
    }
    return only && differs;
}

bool rows_unchanged(const struct rows *rows, const char *key)
{
    enum { MOST_COMPARED = 1000 }; /* pairs grow with its square */
    bool any = false;
    for (int32_t i = 0; rows->n <= MOST_COMPARED && i < rows->n; i++)
        for (int32_t j = i + 1; j < rows->n; j++) {
            if (!differ_in(rows, rows->row[i], rows->row[j], key))
                continue;
            double one = number_of(rows, rows->row[i], "time_mean_s"),
                   other = number_of(rows, rows->row[j], "time_mean_s");
            if (fabs(one / other - 1) > 1e-9)
                return false;
            any = true;
        }
    return any;
}

/** Return whether more of a column is better. Less of any other column is. */
static bool more_is_better(const char *column)
{
    static const char *const beginnings[] = {"tokens_per_s", "model_flop_per_s", "mfu", "hfu", "speed_up"};
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++)
        if (strncmp(column, beginnings[i], strlen(beginnings[i])) == 0)
            return true;
    return false;
}

/** A row with its two numbers, turned so that less is better. */
struct contender {
    double cost[2];
    int32_t row;
};

static int compare_contenders(const void *a, const void *b)
{
    const struct contender *left = a, *right = b;
    for (int i = 0; i < 2; i++)
        if (left->cost[i] != right->cost[i])
            return COMPARE(left->cost[i], right->cost[i]);
    return COMPARE(left->row, right->row);
}

/** Write the front of contenders [n] to `front`. @return number of rows on it */
static int32_t front_of(struct contender *contenders, int32_t n, int32_t *front)
{
    int32_t n_front = 0;
    double least = INFINITY;
    qsort(contenders, (size_t)n, sizeof *contenders, compare_contenders);
    for (int32_t i = 0; i < n; i++)
        if (contenders[i].cost[1] < least) {
            least = contenders[i].cost[1];
            front[n_front++] = contenders[i].row;
        }
    return n_front;
}

/** Find the columns of "COLUMN,COLUMN" and their signs, -1 if more is better. */
static bool pareto_columns(struct rows *rows, const char *columns, double sign[2], struct error *err)
{
    char name[2][128];
    const char *comma = strchr(columns, ',');
    if (comma == NULL || comma == columns || comma[1] == '\0' || strchr(comma + 1, ',') != NULL)
        return error_set_status(
            err, ERROR_USAGE, "--pareto: '%s' is not COLUMN,COLUMN (+COLUMN: more is better, -COLUMN: less)", columns);
    snprintf(name[0], sizeof name[0], "%.*s", (int)(comma - columns), columns);
    snprintf(name[1], sizeof name[1], "%s", comma + 1);
    for (int i = 0; i < 2; i++) {
        double scale;
        const char *plain = name[i] + (*name[i] == '+' || *name[i] == '-');
        rows->compared[i] = find_column(rows, plain, &scale, err);
        if (rows->compared[i] < 0)
            return false;
        sign[i] = *name[i] == '+' || (*name[i] != '-' && more_is_better(plain)) ? -1 : 1;
    }
    rows->n_compared = 2;
    return true;
}

bool rows_pareto(struct rows *rows, const char *columns, struct error *err)
{
    int32_t n = 0;
    double sign[2];
    if (!pareto_columns(rows, columns, sign, err))
        return false;
    group_by(rows, of_question);
    struct contender *contenders = check_calloc((size_t)rows->n, sizeof *contenders);
    bool ok = true;
    for (int32_t i = 0; i < rows->n; i++) {
        contenders[i].row = rows->row[i];
        for (int j = 0; j < 2; j++) {
            ok = ok && comparable(rows, rows->row[i], rows->compared[j], &contenders[i].cost[j], err);
            contenders[i].cost[j] *= sign[j];
        }
    }
    for (int32_t first = 0, end; ok && first < rows->n; first = end) {
        end = group_end(rows, first, of_question);
        n += front_of(contenders + first, end - first, rows->row + n);
    }
    free(contenders);
    rows->n = n;
    rows->grouped = true;
    return ok;
}

/** These columns are printed for each row, beside the swept keys. */
static const struct {
    const char *head, *column, *format;
    double scale;
    bool needs_fit; /* a row that does not fit has no such result */
} shown[] = {
    {"GPUs", "gpus", "%.0f", 1, false},
    {"time [s]", "time_mean_s", "%.4f", 1, true},
    {"tokens/s", "tokens_per_s", "%.0f", 1, true},
    {"tokens/s/GPU", "tokens_per_s_per_gpu", "%.1f", 1, true},
    {"+/-", "tokens_per_s_per_gpu_interval", "%.1f", 1, true},
    {"flash2", "tokens_per_s_per_gpu_flash2", "%.1f", 1, true},
    {"MFU [%]", "mfu", "%.2f", 100, true},
    {"bubble [%]", "bubble_fraction", "%.2f", 100, true},
    {"peak [GiB]", "peak_bytes", "%.2f", 1 / TEXT_GIB, false},
};
enum { N_SHOWN = sizeof shown / sizeof *shown, CELL = TEXT_NUMBER_SIZE };

/** Write one of `shown`, or "-" if the row has no such number. */
static void shown_text(const struct rows *rows, int32_t row, int i, char text[CELL])
{
    double number;
    int32_t column = measured_column(&rows->file, shown[i].column);
    bool hidden = shown[i].needs_fit && number_of(rows, row, "fits") == 0;
    if (!hidden && column >= 0 && cell_number(rows, row, column, &number))
        snprintf(text, CELL, shown[i].format, shown[i].scale * number);
    else
        strcpy(text, "-");
}

/** Return whether the table has one of `shown`: with flash2 only if it is the other end of a scaled attention curve. */
static bool is_shown(const struct rows *rows, int i)
{
    return strcmp(shown[i].head, "flash2") != 0 || rows_any(rows, shown[i].column);
}

/** Return whether the table needs a column for a column by which rows are compared. */
static bool is_extra(const struct rows *rows, int32_t column)
{
    bool extra = column < rows->first_swept || column >= rows->first_swept + rows->n_swept;
    for (int i = 0; i < N_SHOWN; i++)
        extra = extra && strcmp(rows->file.columns[column], shown[i].column) != 0;
    return extra;
}

static bool any_joined(const struct rows *rows)
{
    bool any = false;
    for (int32_t i = 0; i < rows->n; i++)
        any = any || rows->replicates[rows->row[i]] > 1;
    return any;
}

/** Append a row: point, swept keys, system, plan, replicates if there are any, numbers, fits. */
static void add_row(struct text_table *table, const struct rows *rows, int32_t row)
{
    char text[CELL];
    text_table_cell(table, "%s", measured_text(&rows->file, row, "point"));
    for (int32_t c = rows->first_swept; c < rows->first_swept + rows->n_swept; c++)
        text_table_cell(table, "%s", cell(rows, row, c));
    text_table_cell(table, "%s", measured_text(&rows->file, row, "system"));
    text_table_cell(table, "%s", measured_text(&rows->file, row, "plan_text"));
    if (any_joined(rows))
        text_table_cell(table, "%d", rows->replicates[row]);
    for (int i = 0; i < N_SHOWN; i++) {
        if (!is_shown(rows, i))
            continue;
        shown_text(rows, row, i, text);
        text_table_cell(table, "%s", text);
    }
    for (int i = 0; i < rows->n_compared; i++)
        if (is_extra(rows, rows->compared[i]))
            text_table_cell(table, "%s", cell(rows, row, rows->compared[i]));
    bool tight = measured_column(&rows->file, "tight") >= 0 && number_of(rows, row, "tight") != 0;
    text_table_cell(table, number_of(rows, row, "fits") == 0 ? "NO" : tight ? "tight" : "yes");
}

void rows_print(const struct rows *rows, int32_t most)
{
    struct text_table table = {0};
    text_table_column(&table, "point", ">");
    for (int32_t c = rows->first_swept; c < rows->first_swept + rows->n_swept; c++)
        text_table_column(&table, rows->file.columns[c], "<");
    text_table_columns(&table, "system<;plan<");
    if (any_joined(rows))
        text_table_column(&table, "replicates", ">");
    for (int i = 0; i < N_SHOWN; i++)
        if (is_shown(rows, i))
            text_table_column(&table, shown[i].head, ">");
    for (int i = 0; i < rows->n_compared; i++)
        if (is_extra(rows, rows->compared[i]))
            text_table_column(&table, rows->file.columns[rows->compared[i]], ">");
    text_table_column(&table, "fits", ">");
    for (int32_t i = 0; i < rows->n && i < most; i++) {
        if (rows->grouped && i > 0 && group_end(rows, i - 1, of_question) == i)
            text_table_line(&table, "%s", "");
        add_row(&table, rows, rows->row[i]);
    }
    text_table_print(&table, stdout, 0);
    if (rows->n > most)
        printf("... %d more rows\n", rows->n - most);
    if (rows_any(rows, "tokens_per_s_per_gpu_flash2"))
        puts("flash2: tokens/s/GPU with flash2's curve and the same plan; attention of these chips is not measured: "
             "the curve\nis another chip's, scaled to the peak");
}

/** Return the rate of a row that fits, otherwise 0. *half is the half width of its interval, 0 if it has none. */
static double rate_of(const struct rows *rows, int32_t row, double *half)
{
    *half = fmax(0, number_of(rows, row, "tokens_per_s_per_gpu_interval"));
    return number_of(rows, row, "fits") != 0 ? number_of(rows, row, "tokens_per_s_per_gpu") : 0;
}

void rows_print_most(const struct rows *rows)
{
    enum { MOST_TIES = 4 };
    char keys[256];
    int32_t best = -1, n = 0, n_ties = 0;
    double most = 0, spread = 0, half;
    rows_mixed(rows, sizeof keys, keys);
    for (int32_t i = 0; i < rows->n; i++) {
        double rate = rate_of(rows, rows->row[i], &half);
        n += rate > 0;
        best = rate > most ? rows->row[i] : best;
        spread = rate > most ? half : spread;
        most = fmax(most, rate);
    }
    if (rows_any(rows, "tokens_per_s_per_gpu_interval"))
        puts("+/-: half width of the 95% interval over batches; the model's error is not in it");
    if (*keys != '\0' || n < 2)
        return;
    const char *point = measured_text(&rows->file, best, "point");
    printf("most tokens/s/GPU: point %s %s (--point %s: its verdict)", point,
           measured_text(&rows->file, best, "system"), point);
    for (int32_t i = 0; i < rows->n; i++) {
        double rate = rate_of(rows, rows->row[i], &half);
        if (rows->row[i] != best && rate > 0 && rate + half >= most - spread && n_ties++ < MOST_TIES)
            printf("%s point %s %s", n_ties == 1 ? "; overlapping intervals:" : ",",
                   measured_text(&rows->file, rows->row[i], "point"),
                   measured_text(&rows->file, rows->row[i], "system"));
    }
    if (n_ties > MOST_TIES)
        printf(" and %d more", n_ties - MOST_TIES);
    putchar('\n');
}

/** Add cells of a row to an object under the names of their columns. An id is text. */
static void add_cells(json_t *object, const struct rows *rows, int32_t row, int32_t begin, int32_t end)
{
    for (int32_t c = begin; c < end; c++) {
        const char *text = cell(rows, row, c), *name = rows->file.columns[c];
        const struct trace_column *known = trace_column_find(TRACE_SUMMARY, name);
        bool is_bool = known != NULL && trace_column_is_bool(known) && *text != '\0';
        bool is_text = known != NULL && (known->names != NULL || known->type == TRACE_TEXT) && *text != '\0';
        json_object_set_new(object, name,
                            is_bool                              ? json_boolean(*text == '1')
                            : is_text || strcmp(name, "id") == 0 ? json_string(text)
                                                                 : json_of_cell(text));
    }
}

void rows_print_json(const struct rows *rows, int32_t most)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < rows->n && i < most; i++) {
        json_t *entry = json_object();
        add_cells(entry, rows, rows->row[i], 0, rows->file.n_columns);
        json_object_set_new(entry, "replicates", json_integer(rows->replicates[rows->row[i]]));
        json_array_append_new(list, entry);
    }
    command_print_json(json_pack("{s:o}", "rows", list));
}

void rows_print_points(const struct rows *rows, const char *name)
{
    const struct measured *file = &rows->file;
    int32_t front = rows->first_swept + rows->n_swept, message = measured_column(file, "message");
    json_t *points = json_array(), *systems = NULL;
    for (int32_t row = 0; row < file->n_rows; row++) {
        if (row == 0 || strcmp(cell(rows, row, 0), cell(rows, row - 1, 0)) != 0) {
            json_t *point = json_object();
            add_cells(point, rows, row, 0, front);
            systems = json_array();
            json_object_set_new(point, "message", json_of_cell(message >= 0 ? cell(rows, row, message) : ""));
            json_object_set_new(point, "systems", systems);
            json_array_append_new(points, point);
        }
        if (*cell(rows, row, front) == '\0') /* it failed */
            continue;
        json_t *system = json_pack("{s:s}", "label", cell(rows, row, front));
        add_cells(system, rows, row, front + 1, message >= 0 ? message : file->n_columns);
        json_array_append_new(systems, system);
    }
    command_print_json(json_pack("{s:s, s:o}", "name", name, "points", points));
}

void rows_close(struct rows *rows)
{
    measured_free(&rows->file);
    free(rows->row);
    free(rows->replicates);
    *rows = (struct rows){0};
}
