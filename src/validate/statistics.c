/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "validate/statistics.h"

#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/compare.h"

static bool is_of_group(const struct validate_row *row, const char *group)
{
    if (group == NULL || *group == '\0')
        return (group != NULL) == (row->group[0] != '\0');
    return strcmp(row->group, group) == 0;
}

/** Return whether a row belongs to a group. */
static bool counts(const struct validate *validate, int32_t i, struct validate_group group)
{
    const struct validate_row *row = &validate->rows[i];
    bool named = group.group != NULL && *group.group != '\0';
    return (group.part == NULL || (group.first <= group.part[i] && group.part[i] < group.end)) &&
           row->quantity == group.quantity && row->reason[0] == '\0' && row->calibration == group.calibration &&
           !row->ratio_only && (named || (row->varies == group.varies && row->kind == group.kind)) &&
           is_of_group(row, group.group) && (group.source == NULL || strcmp(row->source, group.source) == 0) &&
           (group.device == NULL || strcmp(row->device, group.device) == 0) &&
           (!group.full_plan || strcmp(row->trust, "A") == 0 || strcmp(row->trust, "A-") == 0);
}

static bool same_family(const struct validate_row *row, const struct validate_row *other)
{
    return row->n_gpus == other->n_gpus && strcmp(row->model, other->model) == 0;
}

/** Compute the errors of `n` rows, given by their index in `rows`. */
static void measure_errors(const struct validate *validate, const int32_t *rows, struct validate_statistics *statistics)
{
    size_t n = (size_t)statistics->n;
    double *errors = check_malloc(n * sizeof *errors);
    for (size_t i = 0; i < n; i++) {
        const struct validate_row *row = &validate->rows[rows[i]];
        errors[i] = row->error;
        statistics->n_below += row->predicted <= row->measured;
        statistics->n_small += fabs(row->error) <= STATISTICS_SMALL;
        if (fabs(row->error) > statistics->max || i == 0) {
            statistics->max = fabs(row->error);
            statistics->worst = rows[i];
        }
    }
    statistics->bias = gsl_stats_mean(errors, 1, n);
    for (size_t i = 0; i < n; i++)
        errors[i] = fabs(errors[i]);
    statistics->mape = gsl_stats_mean(errors, 1, n);
    free(errors);
}

static void count_pair(const struct validate_row *row, const struct validate_row *other,
                       struct validate_statistics *statistics)
{
    double low = fmin(row->measured, other->measured), high = fmax(row->measured, other->measured);
    if (!same_family(row, other) || high <= low * (1 + STATISTICS_NOISE))
        return;
    statistics->n_pairs++;
    statistics->n_right += (row->measured - other->measured) * (row->predicted - other->predicted) > 0;
}

static bool varies(const double *values, size_t n)
{
    return gsl_stats_max(values, 1, n) > gsl_stats_min(values, 1, n);
}

/** Add the rank correlation of the family that begins with the i-th row, if no earlier row begins it. */
static void rank_family(const struct validate *validate, const int32_t *rows, int32_t i,
                        struct validate_statistics *statistics)
{
    size_t n = 0, room = (size_t)statistics->n;
    double *values = check_malloc(4 * room * sizeof *values); /* measured, predicted, workspace */
    bool first = true;
    for (int32_t j = 0; j < statistics->n; j++)
        if (same_family(&validate->rows[rows[i]], &validate->rows[rows[j]])) {
            first = first && j >= i;
            values[n] = validate->rows[rows[j]].measured;
            values[room + n++] = validate->rows[rows[j]].predicted;
        }
    if (first && n >= 3 && varies(values, n) && varies(values + room, n)) {
        statistics->spearman += gsl_stats_spearman(values, 1, values + room, 1, n, values + 2 * room);
        statistics->n_families++;
    }
    free(values);
}

struct validate_statistics validate_statistics_of(const struct validate *validate, struct validate_group group)
{
    struct validate_statistics statistics = {.worst = -1};
    int32_t *rows = check_malloc((size_t)validate->n_rows * sizeof *rows);
    for (int32_t i = 0; i < validate->n_rows; i++)
        if (counts(validate, i, group))
            rows[statistics.n++] = i;
    if (statistics.n > 0)
        measure_errors(validate, rows, &statistics);
    for (int32_t i = 0; i < statistics.n; i++) {
        rank_family(validate, rows, i, &statistics);
        for (int32_t j = i + 1; j < statistics.n; j++)
            count_pair(&validate->rows[rows[i]], &validate->rows[rows[j]], &statistics);
    }
    if (statistics.n_families > 0)
        statistics.spearman /= statistics.n_families;
    free(rows);
    return statistics;
}

/** A row with the size of its error, for sorting. */
struct ranked {
    double error;
    int32_t row;
};

static int by_error(const void *a, const void *b)
{
    const struct ranked *left = a, *right = b;
    return left->error != right->error ? COMPARE(right->error, left->error) : COMPARE(left->row, right->row);
}

struct validate_full_runs validate_full_runs_of(const struct validate *validate, struct validate_group group)
{
    struct validate_full_runs runs = {0};
    for (int32_t i = 0; i < validate->n_rows; i++) {
        const struct validate_row *row = &validate->rows[i];
        if (!counts(validate, i, group) || row->memory_bytes == 0)
            continue;
        bool slow = row->error > validate->pressure.slower_least;
        runs.n += row->tight;
        runs.n_slow += row->tight && slow;
        runs.n_others += !row->tight;
        runs.n_slow_others += !row->tight && slow;
    }
    return runs;
}

bool validate_misjudged(const struct validate_row *row)
{
    return row->memory_bytes > 0 && row->ran_out == (row->exceeded_limit == EXCEEDED_NONE);
}

static struct validate_outcomes outcomes_of(const struct validate *validate, enum validate_kind kind, const char *group)
{
    struct validate_outcomes outcomes = {0};
    for (int32_t i = 0; i < validate->n_rows; i++) {
        const struct validate_row *row = &validate->rows[i];
        bool simulated = row->memory_bytes > 0, wrong = validate_misjudged(row);
        if (row->kind != kind || row->varies || (kind == VALIDATE_DENSE && !is_of_group(row, group)))
            continue;
        outcomes.n += simulated;
        outcomes.n_ran_out += simulated && row->ran_out;
        outcomes.n_false_alarm += wrong && !row->ran_out;
        outcomes.n_missed += wrong && row->ran_out;
        outcomes.n_tight += simulated && !row->ran_out && row->tight;
        outcomes.n_missed_tight += wrong && row->ran_out && row->tight;
    }
    return outcomes;
}

struct validate_outcomes validate_outcomes_of(const struct validate *validate, const char *group)
{
    return outcomes_of(validate, VALIDATE_DENSE, group);
}

struct validate_outcomes validate_outcomes_of_kind(const struct validate *validate, enum validate_kind kind)
{
    return outcomes_of(validate, kind, NULL);
}

int32_t *validate_worst_first(const struct validate *validate, enum validate_quantity quantity, int32_t *n)
{
    struct ranked *ranked = check_malloc((size_t)validate->n_rows * sizeof *ranked);
    *n = 0;
    for (int32_t i = 0; i < validate->n_rows; i++)
        if (validate->rows[i].quantity == quantity && validate->rows[i].reason[0] == '\0')
            ranked[(*n)++] = (struct ranked){fabs(validate->rows[i].error), i};
    qsort(ranked, (size_t)*n, sizeof *ranked, by_error);
    int32_t *rows = check_malloc((size_t)*n * sizeof *rows);
    for (int32_t i = 0; i < *n; i++)
        rows[i] = ranked[i].row;
    free(ranked);
    return rows;
}
