/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "lengths/table.h"

#include <gsl/gsl_interp.h>
#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "document/quantity.h"
#include "document/schema.h"

struct table_file {
    int32_t kind;
    char source[512];
};

static const struct schema_key keys[] = {
    {"kind", SCHEMA_CHOICE, "-", 0, 0, NULL, "law|table", "what the file holds", offsetof(struct table_file, kind)},
    {"source", SCHEMA_TEXT, "-", 0, 0, NULL, NULL, "where the numbers come from", offsetof(struct table_file, source)},
};
enum { N_KEYS = sizeof keys / sizeof *keys };

/** Rules for the numbers of one of the two lists. */
struct column {
    const char *name, *unit, *allowed;
    double min, max;
    bool rises; /* each number is larger than the one before; otherwise none is smaller */
};

static const struct column probability = {"p", "-", "numbers that rise from 0 to 1", 0, 1, true};
static const struct column length = {"tokens", "tokens",  "lengths from 1 to 2147483647, none less than the one before",
                                     1,        INT32_MAX, false};

/**
 * Read a list into *values. The caller frees it, also on failure.
 *
 * @return its length, or -1 with err
 */
static int64_t read_column(const struct document *document, const struct column *column, double **values,
                           struct error *err)
{
    int32_t list = document_find(document, 0, column->name);
    if (list < 0 || document->node[list].kind != DOCUMENT_SEQUENCE) {
        document_error(document, list, err, "%s: must be a list of %s", column->name, column->allowed);
        return -1;
    }
    size_t n = 0, capacity = 0;
    for (int32_t i = document->node[list].child; i >= 0; i = document->node[i].next) {
        const struct document_node *node = &document->node[i];
        double value = 0, before = n > 0 ? (*values)[n - 1] : -1;
        if (node->kind != DOCUMENT_SCALAR || !quantity_parse(node->value, column->unit, &value) ||
            !(column->min <= value && value <= column->max) || value < before || (column->rises && value == before)) {
            document_error(document, i, err, "%s: '%s' is wrong; must be %s", column->name,
                           node->kind == DOCUMENT_SCALAR ? node->value : "a list or mapping", column->allowed);
            return -1;
        }
        *values = check_grow(*values, n, &capacity, sizeof **values);
        (*values)[n++] = value;
    }
    return (int64_t)n;
}

bool table_read(const struct document *document, struct lengths_table *table, struct error *err)
{
    static const char *const others[] = {"p", "tokens", "notes", NULL};
    struct table_file file = {0};
    bool ok = schema_read(document, 0, keys, N_KEYS, others, &file, err);
    int64_t n_p = read_column(document, &probability, &table->p, err);
    int64_t n_tokens = read_column(document, &length, &table->tokens, err);
    if (!ok || n_p < 0 || n_tokens < 0)
        return false;
    if (n_p != n_tokens || n_p < 2)
        return document_error(document, document_find(document, 0, "p"), err,
                              "p: p and tokens must be equally long, at least 2; they have %lld and %lld numbers",
                              (long long)n_p, (long long)n_tokens);
    if (table->p[0] != 0 || table->p[n_p - 1] != 1)
        return document_error(document, document_find(document, 0, "p"), err,
                              "p: must go from 0 to 1, goes from %g to %g", table->p[0], table->p[n_p - 1]);
    table->n = n_p;
    return true;
}

double table_cdf(const struct lengths_table *table, double tokens)
{
    const double *p = table->p, *t = table->tokens;
    if (tokens < t[0])
        return 0;
    if (tokens >= t[table->n - 1])
        return 1;
    size_t i = gsl_interp_bsearch(t, tokens, 0, (size_t)table->n - 1);
    return p[i] + (p[i + 1] - p[i]) * log(tokens / t[i]) / log(t[i + 1] / t[i]);
}

double table_quantile(const struct lengths_table *table, double p)
{
    CHECK(0 < p && p < 1);
    const double *t = table->tokens;
    size_t i = gsl_interp_bsearch(table->p, p, 0, (size_t)table->n - 1);
    double share = (p - table->p[i]) / (table->p[i + 1] - table->p[i]);
    return t[i] * pow(t[i + 1] / t[i], share);
}

double table_mean(const struct lengths_table *table)
{
    double mean = 0;
    for (int64_t i = 0; i + 1 < table->n; i++) {
        double from = table->tokens[i], to = table->tokens[i + 1];
        double segment = to > from ? (to - from) / log(to / from) : from;
        mean += (table->p[i + 1] - table->p[i]) * segment;
    }
    return mean;
}

void table_free(struct lengths_table *table)
{
    free(table->p);
    free(table->tokens);
    *table = (struct lengths_table){0};
}
