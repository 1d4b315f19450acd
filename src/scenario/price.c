/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scenario/price.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "document/library.h"
#include "document/path.h"
#include "document/schema_text.h"

#define FIELD(field) offsetof(struct price, field)

enum { N_NUMBERS = PRICE_N_KEYS - 2, N_FILE_KEYS = PRICE_N_KEYS - 1 };

/* The first key belongs to a scenario, the last one to a file. */
const struct schema_key price_schema[PRICE_N_KEYS] = {
    {"name", SCHEMA_TEXT, "-", 0, 0, "", NULL,
     "prices of model/price, or the path of a .yaml file; the keys below change what the file says", FIELD(name)},
    {"usd_per_gpu_hour", SCHEMA_REAL, "$", 1e-3, 1e6, "none", "none", "rent of a GPU for an hour",
     FIELD(usd_per_gpu_hour)},
    {"own.usd_per_node", SCHEMA_REAL, "$", 1, 1e9, "none", "none", "price of a node that is bought, with its network",
     FIELD(own.usd_per_node)},
    {"own.years", SCHEMA_REAL, "years", 0.1, 100, "none", "none", "life of the node", FIELD(own.years)},
    {"own.utilisation", SCHEMA_REAL, "-", 0.01, 1, "none", "none", "share of its life in which the node is used",
     FIELD(own.utilisation)},
    {"own.usd_per_node_year", SCHEMA_REAL, "$", 0, 1e9, "none", "none",
     "operation of a node for a year, without energy; none: no such cost", FIELD(own.usd_per_node_year)},
    {"usd_per_kwh", SCHEMA_REAL, "$", 1e-6, 1e3, "none", "none", "tariff of energy; none: the rent includes energy",
     FIELD(usd_per_kwh)},
    {"pue", SCHEMA_REAL, "-", 1, 10, "none", "none",
     "power usage effectiveness: power of the site over that of nodes and network; none: the site adds nothing",
     FIELD(pue)},
    {"kg_co2_per_kwh", SCHEMA_REAL, "kg", 0, 10, "none", "none", "carbon dioxide that a kWh emits",
     FIELD(kg_co2_per_kwh)},
    {"source", SCHEMA_TEXT, "-", 0, 0, NULL, NULL, "source of a file's numbers, with a date", 0},
};

static double *number_of(struct price *price, int32_t i)
{
    return (double *)((char *)price + price_schema[1 + i].offset);
}

/** Read the file that the name means. A file has a source, which no scenario keeps. */
static bool read_file(const char *path, struct price *price, struct error *err)
{
    struct {
        struct price price;
        char source[SCHEMA_TEXT_BYTES];
    } file = {0};
    struct schema_key keys[N_FILE_KEYS];
    memcpy(keys, price_schema + 1, sizeof keys);
    keys[N_FILE_KEYS - 1].offset = sizeof file.price;
    bool ok = schema_read_file(path, keys, N_FILE_KEYS, NULL, &file, err);
    *price = file.price;
    return ok;
}

static bool read_named(const struct document *document, int32_t node, const char *data_dir, char *name,
                       struct price *price, struct error *err)
{
    char folder[1024], path[1024];
    struct error unknown = {0};
    int32_t at = document_find(document, node, "name");
    if (library_is_path(name, ".yaml")) {
        if (!path_resolve(document, at, "price", name, err))
            return false;
        return access(name, R_OK) == 0
                   ? read_file(name, price, err)
                   : document_error(document, at, err, "price: %s: cannot be read: %s", name, strerror(errno));
    }
    snprintf(folder, sizeof folder, "%s/model/price", data_dir);
    if (!library_find(folder, name, ".yaml", "price", path, &unknown))
        return document_error(document, at, err, "price: %s, or a mapping such as {usd_per_gpu_hour: 2}", unknown.text);
    return read_file(path, price, err);
}

/** Check that the money of a GPU is known in one way. */
static bool check(const struct document *document, int32_t node, const struct price *price, struct error *err)
{
    const struct price_own *own = &price->own;
    int needed = !isnan(own->usd_per_node) + !isnan(own->years) + !isnan(own->utilisation);
    bool any = needed > 0 || !isnan(own->usd_per_node_year);
    if (any && !isnan(price->usd_per_gpu_hour))
        return document_error(document, node, err,
                              "price: has both usd_per_gpu_hour, the rent of a GPU, and own; allowed: one of them");
    return !any || needed == 3 ||
           document_error(document, node, err,
                          "price.own: needs usd_per_node, years and utilisation; allowed: all three of them, and "
                          "usd_per_node_year beside them");
}

bool price_read(struct document *document, const char *data_dir, struct price *price, struct error *err)
{
    struct price named;
    document_name_mapping(document, "price", "name");
    int32_t node = document_find(document, 0, "price");
    if (node >= 0 && document_is_null(&document->node[node]))
        node = -1;
    if (!schema_read(document, node, price_schema, PRICE_N_SCENARIO_KEYS, NULL, price, err))
        return false;
    if (*price->name != '\0') {
        if (!read_named(document, node, data_dir, price->name, &named, err))
            return false;
        for (int32_t i = 0; i < N_NUMBERS; i++)
            if (document_find(document, node, price_schema[1 + i].name) < 0)
                *number_of(price, i) = *number_of(&named, i);
    }
    return check(document, node, price, err);
}

void price_write(FILE *file, const struct price *price)
{
    struct price copy = *price;
    bool named = *price->name != '\0', given = named;
    for (int32_t i = 0; i < N_NUMBERS; i++)
        given = given || !isnan(*number_of(&copy, i));
    if (!given)
        return;
    fputs("price:\n", file);
    schema_write(file, price_schema + !named, PRICE_N_SCENARIO_KEYS - !named, price, 2);
}
