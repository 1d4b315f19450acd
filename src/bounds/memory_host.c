/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <stdlib.h>

#include "base/check.h"
#include "bounds/memory.h"

struct memory_host memory_host_of(const struct plan *plan, const struct dag *dag, const struct memory *memory,
                                  int32_t gpus_per_node)
{
    int32_t n_nodes = 1;
    struct memory_host worst = {0};
    for (int32_t i = 0; i < dag->n_places; i++)
        if (dag->places[i].rank / gpus_per_node >= n_nodes)
            n_nodes = dag->places[i].rank / gpus_per_node + 1;
    double *bytes = check_calloc((size_t)plan->n_phases * (size_t)n_nodes, sizeof *bytes);
    for (int32_t i = 0; i < dag->n_places; i++) {
        const struct dag_place *place = &dag->places[i];
        int32_t node = place->rank / gpus_per_node, at = place->phase * n_nodes + node;
        bytes[at] += memory->host_peak_bytes[i] * place->n_gpus;
        if (bytes[at] > worst.bytes)
            worst = (struct memory_host){.bytes = bytes[at], .node = node, .phase = place->phase};
    }
    free(bytes);
    double most = 0;
    for (int32_t i = 0; i < dag->n_places; i++) {
        const struct dag_place *place = &dag->places[i];
        if (place->phase != worst.phase || place->rank / gpus_per_node != worst.node ||
            memory->host_peak_bytes[i] <= most)
            continue;
        most = memory->host_peak_bytes[i];
        worst.stage = place->stage;
    }
    return worst;
}
