/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "simulate/expert_routing.h"

#include "document/schema.h"

#define FIELD(field) offsetof(struct expert_routing, field)

static const struct schema_key keys[] = {
    {"source", SCHEMA_TEXT, "-", 0, 0, NULL, NULL, "source of the pairs", FIELD(source)},
    {"pairs", SCHEMA_INT, "-", 1, 1 << 20, NULL, NULL,
     "pairs of runs of one plan, with balanced routing and with an untrained router", FIELD(pairs)},
    {"least", SCHEMA_REAL, "-", 0, 10, NULL, NULL, "least throughput with that router over that with balanced routing",
     FIELD(least)},
    {"most", SCHEMA_REAL, "-", 0, 10, NULL, NULL, "largest such ratio", FIELD(most)},
};

bool expert_routing_read(const char *data_dir, struct expert_routing *routing, struct error *err)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/model/expert_routing.yaml", data_dir);
    *routing = (struct expert_routing){0};
    return schema_read_file(path, keys, sizeof keys / sizeof *keys, NULL, routing, err);
}

bool expert_routing_is_balanced(const struct scenario *scenario)
{
    return model_has_experts(&scenario->model) && scenario->expert_imbalance <= 1 && scenario->replay.n_steps == 0;
}

void expert_routing_write(FILE *file, const struct expert_routing *routing)
{
    fprintf(file, "experts: balanced routing is counted; real routing was %.0f to %.0f%% slower in %d measured pair%s",
            100 * (1 - routing->most), 100 * (1 - routing->least), (int)routing->pairs, routing->pairs == 1 ? "" : "s");
}
