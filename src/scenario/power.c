/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scenario/power.h"

#include <math.h>
#include <stdio.h>

#include "document/library.h"

#define FIELD(field) offsetof(struct power, field)
#define WATTS(name, none, meaning, field)                                                                              \
    {                                                                                                                  \
        name, SCHEMA_REAL, "W", 1, 1e6, none, none, meaning, FIELD(field)                                              \
    }

static const struct schema_key keys[] = {
    {"name", SCHEMA_WORD, "-", 0, 0, NULL, NULL, "name of the node", FIELD(name)},
    {"source", SCHEMA_TEXT, "-", 0, 0, NULL, NULL, "source of the numbers", FIELD(source)},
    {"gpus", SCHEMA_INT, "GPUs", 1, 1024, NULL, NULL, "GPUs of the node", FIELD(gpus)},
    WATTS("node.idle_w", NULL, "power of the node without work", node.idle_w),
    WATTS("node.waiting_w", "none", "power of the node while all its GPUs wait in collectives or receives",
          node.waiting_w),
    WATTS("node.busy_w", NULL, "power of the node while all its GPUs compute", node.busy_w),
    WATTS("gpu.idle_w", "none", "power of a GPU without work", gpu.idle_w),
    WATTS("gpu.waiting_w", "none", "power of a GPU that waits in a collective or a receive", gpu.waiting_w),
    WATTS("gpu.busy_w", "none", "power of a GPU that computes", gpu.busy_w),
    WATTS("network_w", "none", "power of the switches, a node's share", network_w),
};
static const char *const documentation[] = {"sources", NULL};

static bool rises(const struct power_levels *levels)
{
    return levels->idle_w <= levels->waiting_w && levels->waiting_w <= levels->busy_w;
}

static bool check(const char *path, struct power *power, struct error *err)
{
    const struct power_levels *gpu = &power->gpu;
    double rest_w = power->node.busy_w - (double)power->gpus * gpu->busy_w;
    int given = !isnan(gpu->idle_w) + !isnan(gpu->waiting_w) + !isnan(gpu->busy_w);
    if (given != 0 && given != 3)
        return error_add(err, "%s: gpu: has %d of its levels; allowed: idle_w, waiting_w and busy_w, or none", path,
                         given);
    if (given == 3 && (!rises(gpu) || rest_w < 0))
        return error_add(err,
                         "%s: gpu: idle_w %g, waiting_w %g and busy_w %g do not fit; allowed: levels that rise in this "
                         "order, and %d GPUs that draw at most node.busy_w, %g W",
                         path, gpu->idle_w, gpu->waiting_w, gpu->busy_w, (int)power->gpus, power->node.busy_w);
    if (isnan(power->node.waiting_w))
        power->node.waiting_w = rest_w + (double)power->gpus * gpu->waiting_w;
    if (isnan(power->node.waiting_w))
        return error_add(err, "%s: node.waiting_w: is required, unless the levels of gpu: give it", path);
    return rises(&power->node) ||
           error_add(err,
                     "%s: node: idle_w %g, waiting_w %g and busy_w %g do not fit; allowed: levels that rise in this "
                     "order",
                     path, power->node.idle_w, power->node.waiting_w, power->node.busy_w);
}

bool power_read(const char *data_dir, const char *name, struct power *power, struct error *err)
{
    char folder[1024], path[1024];
    snprintf(folder, sizeof folder, "%s/model/power", data_dir);
    *power = (struct power){0};
    return library_find(folder, name, ".yaml", "power", path, err) &&
           schema_read_file(path, keys, sizeof keys / sizeof *keys, documentation, power, err) &&
           check(path, power, err);
}
