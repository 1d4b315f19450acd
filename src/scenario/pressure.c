/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scenario/pressure.h"

#include <stdio.h>

#include "document/schema.h"

#define FIELD(field) offsetof(struct memory_pressure, field)

static const struct schema_key keys[] = {
    {"source", SCHEMA_TEXT, "-", 0, 0, NULL, NULL, "source of the numbers", FIELD(source)},
    {"reserve_most", SCHEMA_REAL, "-", 0, 1, NULL, NULL,
     "reserved over allocated memory, less 1, that nine of ten measured steps did not exceed", FIELD(reserve_most)},
    {"runs", SCHEMA_INT, "runs", 0, 1 << 20, NULL, NULL, "published runs that are predicted to fit tightly",
     FIELD(runs)},
    {"slow_runs", SCHEMA_INT, "runs", 0, 1 << 20, NULL, NULL, "number of these runs that were slower than predicted",
     FIELD(slow_runs)},
    {"other_runs", SCHEMA_INT, "runs", 0, 1 << 20, NULL, NULL, "published runs that are predicted to be less full",
     FIELD(other_runs)},
    {"other_slow_runs", SCHEMA_INT, "runs", 0, 1 << 20, NULL, NULL,
     "number of these runs that were slower than predicted", FIELD(other_slow_runs)},
    {"slower_least", SCHEMA_REAL, "-", 0, 10, NULL, NULL, "smallest predicted over measured throughput, less 1",
     FIELD(slower_least)},
    {"slower_most", SCHEMA_REAL, "-", 0, 10, NULL, NULL, "largest predicted over measured throughput, less 1",
     FIELD(slower_most)},
};

bool pressure_read(const char *data_dir, struct memory_pressure *pressure, struct error *err)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/model/memory_pressure.yaml", data_dir);
    *pressure = (struct memory_pressure){0};
    return schema_read_file(path, keys, sizeof keys / sizeof *keys, NULL, pressure, err);
}
