/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scenario/plan_space.h"

#include "document/library.h"
#include "document/path.h"
#include "document/schema_text.h"
#include "scenario/stages.h"

#define FIELD(field) offsetof(struct plan_space, field)

/* The first key belongs to a scenario, the last one to a file of model/plan_space. */
static const struct schema_key keys[] = {
    {"name", SCHEMA_TEXT, "-", 0, 0, "wide", NULL,
     "plan space of model/plan_space, or the path of a .yaml file; it restricts the search", FIELD(name)},
    {"tp", SCHEMA_INTS, "GPUs", 1, 1 << 15, "", NULL, "tensor-parallel degrees", FIELD(tp)},
    {"pp", SCHEMA_INTS, "stages", 1, 1 << 15, "", NULL, "numbers of pipeline stages", FIELD(pp)},
    {"cp", SCHEMA_INTS, "GPUs", 1, 1 << 15, "", NULL, "context-parallel degrees", FIELD(cp)},
    {"ep", SCHEMA_INTS, "GPUs", 1, 1 << 15, "", NULL, "expert-parallel degrees, for a model with experts", FIELD(ep)},
    {"dp", SCHEMA_INTS, "replicas", 1, 1 << 15, "", NULL, "numbers of data-parallel replicas", FIELD(dp)},
    {"vpp", SCHEMA_INTS, "chunks", 1, 255, "", NULL,
     "virtual stages of a rank; values above 1 need several stages and a system with an interleaved order; a space "
     "without this "
     "list has 1",
     FIELD(vpp)},
    {"spread", SCHEMA_CHOICES, "-", 0, 0, "", SCENARIO_SPREAD,
     "even: pp may leave a rest of layers, which is spread as with plan.spread; equal: no rest; a space without this "
     "list has plan.spread of the framework",
     FIELD(spread)},
    {"sharding", SCHEMA_CHOICES, "-", 0, 0, "", "zero1|zero2|zero3",
     "states that DP x CP ranks share; zero2 and zero3 are tried with a single stage; a space without this list has "
     "those of the "
     "system, zero1 except for flexsp and odc (zero3)",
     FIELD(sharding)},
    {"shard_communication", SCHEMA_CHOICES, "-", 0, 0, "", "collective|on-demand",
     "ways in which ranks of zero3 exchange shards; a space without this list has that of the system, collective "
     "except for odc (on-demand)",
     FIELD(shard_communication)},
    {"recompute", SCHEMA_CHOICES, "-", 0, 0, "", "none|norm+activation|full|selective",
     "activations that the backward pass computes again; selective is an older name of norm+activation",
     FIELD(recompute)},
    {"offload", SCHEMA_REALS, "-", 0, 1, "", NULL,
     "shares of activations that go to the host's memory; with offload: never of the entry only 0", FIELD(offload)},
    {"on_demand", SCHEMA_CHOICES, "-", 0, 0, "", "cp|cp-across-nodes|full-recompute|offload",
     "features that a plan has only if no plan with fewer of them fits in memory", FIELD(on_demand)},
    {"source", SCHEMA_TEXT, "-", 0, 0, NULL, NULL, "source of the restrictions", FIELD(source)},
};
enum { N_KEYS = sizeof keys / sizeof *keys, N_SCENARIO_KEYS = N_KEYS - 1, N_FILE_KEYS = N_KEYS - 1 };

static bool read_named(const struct document *document, int32_t node, const char *data_dir, char *name,
                       struct plan_space *space, struct error *err)
{
    char folder[1024], path[1024];
    struct error unknown = {0};
    int32_t at = document_find(document, node, "name");
    snprintf(folder, sizeof folder, "%s/model/plan_space", data_dir);
    if (library_is_path(name, ".yaml") && !path_resolve(document, at, "plan_space.name", name, err))
        return false;
    if (!library_find(folder, name, ".yaml", "plan space", path, &unknown))
        return document_error(document, at >= 0 ? at : node, err, "plan_space.name: %s", unknown.text);
    return schema_read_file(path, keys + 1, N_FILE_KEYS, NULL, space, err);
}

/** Read the older name of norm+activation, which stored scenarios have, as that level. */
static void rename_levels(struct schema_choices *recompute)
{
    enum { LEVEL = 1, OLDER = 3 }; /* their indices among the key's words */
    for (int32_t i = 0; i < recompute->n; i++)
        if (recompute->at[i] == OLDER)
            recompute->at[i] = LEVEL;
}

#define REPLACE(list)                                                                                                  \
    if (own.list.n > 0)                                                                                                \
    space->list = own.list

bool plan_space_read(const struct document *document, int32_t node, const char *data_dir, struct plan_space *space,
                     struct error *err)
{
    struct plan_space own = {0};
    *space = (struct plan_space){0};
    if (!schema_read(document, node, keys, N_SCENARIO_KEYS, NULL, &own, err) ||
        !read_named(document, node, data_dir, own.name, space, err))
        return false;
    snprintf(space->name, sizeof space->name, "%s", own.name);
    REPLACE(tp);
    REPLACE(pp);
    REPLACE(cp);
    REPLACE(ep);
    REPLACE(dp);
    REPLACE(vpp);
    REPLACE(spread);
    REPLACE(sharding);
    REPLACE(shard_communication);
    REPLACE(recompute);
    rename_levels(&space->recompute);
    REPLACE(offload);
    REPLACE(on_demand);
    return true;
}

void plan_space_write(FILE *file, const struct plan_space *space, int32_t indent)
{
    schema_write(file, keys, N_SCENARIO_KEYS, space, indent);
}

void plan_space_list_keys(const struct schema_listing *listing, const char *prefix)
{
    schema_list(listing, keys, N_SCENARIO_KEYS, prefix);
}
