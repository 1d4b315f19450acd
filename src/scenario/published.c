/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scenario/published.h"

#include <inttypes.h>
#include <stdio.h>

#include "scenario/document_read.h"
#include "scenario/library.h"

#define FIELD(field) offsetof(struct published_cost, field)

static const struct schema_key keys[] = {
    {"source", SCHEMA_TEXT, "-", 0, 0, NULL, NULL, "where the constants come from", FIELD(source)},
    {"quadratic_s", SCHEMA_REAL, "s", 0, 1, NULL, NULL, "of a sequence, per token squared", FIELD(quadratic_s)},
    {"linear_s", SCHEMA_REAL, "s", 0, 1, NULL, NULL, "of a sequence, per token", FIELD(linear_s)},
    {"constant_s", SCHEMA_REAL, "s", 0, 1e6, NULL, NULL, "of a micro-batch", FIELD(constant_s)},
    {"activation_bytes", SCHEMA_REAL, "bytes", 1, 1e12, NULL, NULL, "of a token", FIELD(activation_bytes)},
    {"state_bytes", SCHEMA_REAL, "bytes", 0, 1e3, NULL, NULL, "of a parameter", FIELD(state_bytes)},
    {"budget_bytes", SCHEMA_REAL, "bytes", 1, 1e15, NULL, NULL, "of a rank", FIELD(budget_bytes)},
    {"degrees", SCHEMA_INTS, "GPUs", 2, 1 << 15, NULL, NULL, "2, 4, 8, ...", FIELD(degrees)},
    {"exchange_bytes_per_s", SCHEMA_REALS, "bytes/s", 1, 1e15, NULL, NULL, "all-to-all of each degree",
     FIELD(exchange_bytes_per_s)},
};

bool published_cost_read(const char *data_dir, const char *name, struct published_cost *cost, struct error *err)
{
    char folder[1024], path[1024];
    struct document document = {0};
    snprintf(folder, sizeof folder, "%s/model/published_cost", data_dir);
    *cost = (struct published_cost){0};
    if (!library_find(folder, name, ".yaml", "published cost", path, err) || !document_read(path, &document, err))
        return false;
    bool ok = schema_read(&document, 0, keys, sizeof keys / sizeof *keys, NULL, cost, err);
    for (int32_t i = 0; ok && i < cost->degrees.n; i++)
        if (cost->degrees.at[i] != (int64_t)2 << i)
            ok = document_error(&document, document_find(&document, 0, "degrees"), err,
                                "degrees: %" PRId64 " is number %d, which must be %" PRId64, cost->degrees.at[i], i + 1,
                                (int64_t)2 << i);
    if (ok && cost->exchange_bytes_per_s.n != cost->degrees.n)
        ok = document_error(&document, document_find(&document, 0, "exchange_bytes_per_s"), err,
                            "exchange_bytes_per_s: %d values for %d degrees", cost->exchange_bytes_per_s.n,
                            cost->degrees.n);
    document_free(&document);
    return ok;
}
