/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/rows.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/compare.h"
#include "base/nearest.h"
#include "cli/command.h"
#include "scenario/quantity.h"

static const double gib = 1 << 30;

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
        *scale = 1 / gib;
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

bool rows_order(struct rows *rows, const char *column, bool least_first, struct error *err)
{
    double scale, number;
    int32_t at = find_column(rows, column, &scale, err);
    if (at < 0)
        return false;
    struct keyed *keyed = check_malloc((size_t)rows->n * sizeof *keyed);
    bool ok = true;
    for (int32_t i = 0; i < rows->n && ok; i++) {
        ok = cell_number(rows, rows->row[i], at, &number) ||
             error_set(err, "%s:%d: %s is '%s', not a number to order by", rows->file.path,
                       rows->file.lines[rows->row[i]], column, cell(rows, rows->row[i], at));
        keyed[i] = (struct keyed){ok ? (least_first ? number : -number) : 0, rows->row[i]};
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

/** Compare rows by their questions, as text; 0: they answer the same question. */
static int compare_questions(const struct rows *rows, int32_t left, int32_t right)
{
    for (int32_t c = rows->first_swept; c < rows->first_swept + rows->n_swept; c++) {
        int order = of_question(rows->file.columns[c]) ? strcmp(cell(rows, left, c), cell(rows, right, c)) : 0;
        if (order != 0)
            return order;
    }
    return 0;
}

static int compare_rows(const void *a, const void *b, void *rows)
{
    const int32_t *left = a, *right = b;
    int order = compare_questions(rows, *left, *right);
    return order != 0 ? order : COMPARE(*left, *right);
}

/**
 * Group the rows by question. Questions have the order of their first rows. Rows of a question keep
 * the file's order.
 */
static void group_by_question(struct rows *rows)
{
    struct keyed *keyed = check_malloc((size_t)rows->n * sizeof *keyed);
    qsort_r(rows->row, (size_t)rows->n, sizeof *rows->row, compare_rows, rows);
    for (int32_t i = 0, first = 0; i < rows->n; i++) {
        first = compare_questions(rows, rows->row[first], rows->row[i]) != 0 ? i : first;
        keyed[i] = (struct keyed){rows->row[first], rows->row[i]};
    }
    order_by(rows, keyed);
    free(keyed);
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

/** Write the front of the rows [n] of one question to `front`, which may be `row`. @return number of rows on it */
static int32_t front_of(const struct rows *rows, const int32_t *row, int32_t n, int32_t *front)
{
    double best = 0;
    int32_t n_front = 0;
    for (int32_t i = 0, next; i < n; i = next) {
        int32_t fastest = row[i];
        double gpus = number_of(rows, fastest, "gpus");
        for (next = i; next < n && number_of(rows, row[next], "gpus") == gpus; next++)
            if (number_of(rows, row[next], "tokens_per_s_per_gpu") > number_of(rows, fastest, "tokens_per_s_per_gpu"))
                fastest = row[next];
        double tokens_per_s = number_of(rows, fastest, "tokens_per_s_per_gpu") * gpus;
        if (tokens_per_s > best) {
            best = tokens_per_s;
            front[n_front++] = fastest;
        }
    }
    return n_front;
}

bool rows_pareto(struct rows *rows, struct error *err)
{
    int32_t n = 0;
    group_by_question(rows);
    for (int32_t first = 0, next; first < rows->n; first = next) {
        for (next = first; next < rows->n && compare_questions(rows, rows->row[first], rows->row[next]) == 0; next++)
            ;
        struct rows one = *rows;
        one.row = rows->row + first;
        one.n = next - first;
        if (!rows_order(&one, "gpus", true, err))
            return false;
        n += front_of(rows, one.row, one.n, rows->row + n);
    }
    rows->n = n;
    rows->grouped = true;
    return true;
}

/** These columns are printed for each row, beside the swept keys. */
static const struct {
    const char *head, *column, *format;
    double scale;
} shown[] = {
    {"GPUs", "gpus", "%.0f", 1},
    {"time [s]", "time_mean_s", "%.4f", 1},
    {"tokens/s/GPU", "tokens_per_s_per_gpu", "%.1f", 1},
    {"+/-", "tokens_per_s_per_gpu_interval", "%.1f", 1},
    {"MFU [%]", "mfu", "%.2f", 100},
    {"bubble [%]", "bubble_fraction", "%.2f", 100},
    {"peak [GiB]", "peak_bytes", "%.2f", 1.0 / (1 << 30)},
};
enum { N_SHOWN = sizeof shown / sizeof *shown, CELL = 64 };

/**
 * Write "TP8 PP4 CP1 DP4" and features that the plan has: virtual stages, sharding except zero1, recomputation,
 * offloading.
 */
static void plan_text(const struct rows *rows, int32_t row, char text[CELL])
{
    const char *recompute = measured_text(&rows->file, row, "recompute");
    const char *sharding = measured_text(&rows->file, row, "sharding");
    double chunks = number_of(rows, row, "vpp"), offload = number_of(rows, row, "offload");
    int n = snprintf(text, CELL, "TP%.0f PP%.0f CP%.0f DP%.0f", number_of(rows, row, "tp"), number_of(rows, row, "pp"),
                     number_of(rows, row, "cp"), number_of(rows, row, "dp"));
    if (chunks > 1 && n < CELL)
        n += snprintf(text + n, CELL - (size_t)n, " VPP%.0f", chunks);
    if (*sharding != '\0' && strcmp(sharding, "zero1") != 0 && n < CELL)
        n += snprintf(text + n, CELL - (size_t)n, " %s", sharding);
    if (*recompute != '\0' && strcmp(recompute, "none") != 0 && n < CELL)
        n += snprintf(text + n, CELL - (size_t)n, " %s", recompute);
    if (offload > 0 && n < CELL)
        snprintf(text + n, CELL - (size_t)n, " offload %.0f%%", 100 * offload);
}

/** Write one of `shown`, or "-" if the row has no such number. */
static void shown_text(const struct rows *rows, int32_t row, int i, char text[CELL])
{
    double number;
    int32_t column = measured_column(&rows->file, shown[i].column);
    if (column >= 0 && cell_number(rows, row, column, &number))
        snprintf(text, CELL, shown[i].format, shown[i].scale * number);
    else
        strcpy(text, "-");
}

/** Write a line of the table: point, swept keys, system, plan, numbers, fits. @param row  -1: the header */
static void fill_line(const struct rows *rows, int32_t row, char (*text)[CELL])
{
    bool head = row < 0;
    snprintf(*text++, CELL, "%s", head ? "point" : measured_text(&rows->file, row, "point"));
    for (int32_t c = rows->first_swept; c < rows->first_swept + rows->n_swept; c++)
        snprintf(*text++, CELL, "%s", head ? rows->file.columns[c] : cell(rows, row, c));
    snprintf(*text++, CELL, "%s", head ? "system" : measured_text(&rows->file, row, "system"));
    if (head)
        strcpy(*text, "plan");
    else
        plan_text(rows, row, *text);
    text++;
    for (int i = 0; i < N_SHOWN; i++, text++)
        if (head)
            snprintf(*text, CELL, "%s", shown[i].head);
        else
            shown_text(rows, row, i, *text);
    strcpy(*text, head ? "fits" : number_of(rows, row, "fits") != 0 ? "yes" : "NO");
}

void rows_print(const struct rows *rows, int32_t most)
{
    int32_t n = rows->n < most ? rows->n : most, n_columns = rows->n_swept + 4 + N_SHOWN;
    int *width = check_calloc((size_t)n_columns, sizeof *width);
    char(*lines)[CELL] = check_calloc((size_t)(n + 1) * (size_t)n_columns, CELL);
    for (int32_t i = -1; i < n; i++) {
        char(*line)[CELL] = lines + (i + 1) * (ptrdiff_t)n_columns;
        fill_line(rows, i < 0 ? -1 : rows->row[i], line);
        for (int32_t c = 0; c < n_columns; c++)
            width[c] = (int)strlen(line[c]) > width[c] ? (int)strlen(line[c]) : width[c];
    }
    for (int32_t i = -1; i < n; i++) {
        char(*line)[CELL] = lines + (i + 1) * (ptrdiff_t)n_columns;
        if (rows->grouped && i > 0 && compare_questions(rows, rows->row[i - 1], rows->row[i]) != 0)
            putchar('\n');
        for (int32_t c = 0; c < n_columns; c++) {
            bool name = c > 0 && c <= rows->n_swept + 2;
            printf("%s%*s%s", c > 0 ? "  " : "", name ? -width[c] : width[c], line[c], c + 1 == n_columns ? "\n" : "");
        }
    }
    free(lines);
    free(width);
    if (rows->n > n)
        printf("... %d more rows\n", rows->n - n);
}

/** Return whole numbers as they are written, others as double, the rest as text. An id is text. */
static json_t *json_of_cell(const struct rows *rows, int32_t row, int32_t column)
{
    const char *text = cell(rows, row, column), *digits = text + (*text == '-');
    double number;
    if (strcmp(rows->file.columns[column], "id") == 0 || !cell_number(rows, row, column, &number))
        return json_string(text);
    bool whole = strspn(digits, "0123456789") == strlen(digits) && strlen(digits) < 16;
    return whole ? json_integer((json_int_t)number) : json_real(number);
}

void rows_print_json(const struct rows *rows, int32_t most)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < rows->n && i < most; i++) {
        json_t *entry = json_object();
        for (int32_t c = 0; c < rows->file.n_columns; c++)
            json_object_set_new(entry, rows->file.columns[c], json_of_cell(rows, rows->row[i], c));
        json_array_append_new(list, entry);
    }
    command_print_json(list);
}

void rows_close(struct rows *rows)
{
    measured_free(&rows->file);
    free(rows->row);
    *rows = (struct rows){0};
}
