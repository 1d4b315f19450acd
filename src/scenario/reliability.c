/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scenario/reliability.h"

#include <string.h>

#include "document/library.h"
#include "document/path.h"
#include "document/quantity.h"
#include "document/schema_text.h"

#define FIELD(field) offsetof(struct reliability, field)

const char *const failure_cause_name[FAILURE_N_CAUSES] = {
#define FAILURE_CAUSE(name, key, meaning) key,
#include "scenario/failure_cause.def"
#undef FAILURE_CAUSE
};

enum { MOST_S = 10000000 };

/* A file of model/reliability has all keys but the first. */
static const struct schema_key keys[] = {
    {"name", SCHEMA_TEXT, "-", 0, 0, NULL, NULL, "preset of model/reliability, or the path of a .yaml file",
     FIELD(name)},
#define FAILURE_CAUSE(name, key, meaning)                                                                              \
    {"failures." key,                                                                                                  \
     SCHEMA_REAL,                                                                                                      \
     "1/1000 node-days",                                                                                               \
     0,                                                                                                                \
     1e5,                                                                                                              \
     "0",                                                                                                              \
     NULL,                                                                                                             \
     "failures by " meaning,                                                                                           \
     FIELD(failures[FAILURE_##name])},
#include "scenario/failure_cause.def"
#undef FAILURE_CAUSE
    {"weibull_shape", SCHEMA_REAL, "-", 0.1, 10, NULL, NULL,
     "shape of the Weibull law of the times between failures of a cause; 1: exponential; only the event simulation "
     "uses it",
     FIELD(weibull_shape)},
    {"detect", SCHEMA_REAL, "s", 0, MOST_S, NULL, NULL, "time from a failure to its detection", FIELD(detect_s)},
    {"replace", SCHEMA_REAL, "s", 0, MOST_S, NULL, NULL, "time to replace the failed node by a spare one",
     FIELD(replace_s)},
    {"start", SCHEMA_REAL, "s", 0, MOST_S, NULL, NULL, "time to start processes and communicators", FIELD(start_s)},
    {"load", SCHEMA_REAL, "s", 0, MOST_S, NULL, "auto",
     "time to load a checkpoint; auto: its bytes / checkpoint.storage_bandwidth", FIELD(load_s)},
    {"checkpoint.interval", SCHEMA_REAL, "s", 1e-3, MOST_S, NULL, "auto",
     "training time between checkpoints; auto: the best; at least the time of saving one in the background",
     FIELD(interval_s)},
    {"checkpoint.blocked", SCHEMA_REAL, "s", 0, MOST_S, NULL, "auto",
     "time that a checkpoint blocks training; auto: checkpoint.barrier and the copy of a GPU's share by PCIe",
     FIELD(blocked_s)},
    {"checkpoint.barrier", SCHEMA_REAL, "s", 0, MOST_S, NULL, NULL,
     "time in which all ranks agree on a checkpoint, part of blocked: auto", FIELD(barrier_s)},
    {"checkpoint.bytes_per_parameter", SCHEMA_REAL, "bytes", 1, 100, NULL, NULL, "size of a checkpoint",
     FIELD(bytes_per_parameter)},
    {"checkpoint.storage_bandwidth", SCHEMA_REAL, "bytes/s", QUANTITY_LEAST_BANDWIDTH, 1e18, NULL, NULL,
     "bandwidth of the storage for the whole cluster, for reads and for writes", FIELD(storage_bytes_per_s)},
    {"spares", SCHEMA_REAL, "nodes", 0, RELIABILITY_MOST_SPARES, NULL, "auto",
     "nodes that stand ready to replace failed ones; auto: as many as make the training cheapest, with the time that "
     "it "
     "waits for repairs, or as a limit needs",
     FIELD(spares)},
    {"repair", SCHEMA_REAL, "s", 0, 10.0 * MOST_S, NULL, NULL, "time that a failed node is away", FIELD(repair_s)},
    {"slow.share", SCHEMA_REAL, "-", 0, 1, NULL, NULL, "share of the running time in which some GPU is slow",
     FIELD(slow_share)},
    {"slow.factor", SCHEMA_REAL, "-", 1, 1000, NULL, NULL, "factor of a step's time while some GPU is slow",
     FIELD(slow_factor)},
};
enum { N_KEYS = sizeof keys / sizeof *keys };

/** Copy the keys with another default for all but the name. */
static void copy_keys(struct schema_key copy[N_KEYS], const char *fallback)
{
    memcpy(copy, keys, sizeof keys);
    for (int i = 1; i < N_KEYS; i++)
        copy[i].fallback = fallback;
}

/** Read the preset's file. */
static bool read_preset(const struct document *document, int32_t node, const char *data_dir,
                        struct reliability *reliability, struct error *err)
{
    static const char *const others[] = {"source", "sources", NULL};
    char folder[1024], path[1024];
    struct error unknown = {0};
    int32_t at = document_find(document, node, "name");
    snprintf(folder, sizeof folder, "%s/model/reliability", data_dir);
    if (library_is_path(reliability->name, ".yaml") &&
        !path_resolve(document, at, "reliability.name", reliability->name, err))
        return false;
    if (!library_find(folder, reliability->name, ".yaml", "reliability preset", path, &unknown))
        return document_error(document, at, err, "reliability: %s", unknown.text);
    return schema_read_file(path, keys + 1, N_KEYS - 1, others, reliability, err);
}

/** Replace the preset's values by those that the mapping gives. Every key but the name fills a double. */
static void replace_given(const struct document *document, int32_t node, const struct reliability *own,
                          struct reliability *reliability)
{
    for (int i = 1; i < N_KEYS; i++)
        if (document_find(document, node, keys[i].name) >= 0)
            memcpy((char *)reliability + keys[i].offset, (const char *)own + keys[i].offset, sizeof(double));
}

bool reliability_read(struct document *document, const char *data_dir, struct reliability *reliability,
                      struct error *err)
{
    struct schema_key own_keys[N_KEYS];
    struct reliability own = {0};
    *reliability = (struct reliability){0};
    document_name_mapping(document, "reliability", "name");
    int32_t node = document_find(document, 0, "reliability");
    if (node < 0 || document_is_null(&document->node[node]))
        return true;
    copy_keys(own_keys, "1"); /* any value that each key allows, since the preset's value counts */
    for (int i = 1; i < N_KEYS; i++)
        if (strcmp(own_keys[i].unit, "bytes/s") == 0)
            own_keys[i].fallback = "1GBps";
    if (!schema_read(document, node, own_keys, N_KEYS, NULL, &own, err))
        return false;
    *reliability = (struct reliability){.present = true};
    memcpy(reliability->name, own.name, sizeof own.name);
    if (!read_preset(document, node, data_dir, reliability, err))
        return false;
    replace_given(document, node, &own, reliability);
    if (!isnan(reliability->spares) && reliability->spares != floor(reliability->spares))
        return document_error(document, document_find(document, node, "spares"), err,
                              "reliability.spares: %g is not a whole number; allowed: 0 to %d, or auto",
                              reliability->spares, RELIABILITY_MOST_SPARES);
    return reliability_failures_per_s(reliability) > 0 ||
           document_error(document, node, err,
                          "reliability.failures: the rates of all causes are 0; allowed: at least one above 0, or a "
                          "scenario without reliability");
}

void reliability_write(FILE *file, const struct reliability *reliability)
{
    if (!reliability->present)
        return;
    fputs("reliability:\n", file);
    schema_write(file, keys, N_KEYS, reliability, 2);
}

void reliability_list_keys(const struct schema_listing *listing)
{
    struct schema_key of_preset[N_KEYS];
    copy_keys(of_preset, "of the preset");
    schema_list(listing, of_preset, N_KEYS, "reliability.");
}
