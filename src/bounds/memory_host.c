/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file finds the node whose host holds most offloaded bytes. */
#include <stdlib.h>

#include "base/check.h"
#include "bounds/memory.h"

struct memory_host memory_host_of(const struct plan *plan, const struct dag *dag, const struct memory *memory,
                                  const struct platform *platform, int32_t n_gpus)
{
    int32_t n_nodes = 1;
    struct memory_host worst = {0};
    for (int32_t i = 0; i < dag->n_ranks; i++)
        if (platform_node_of(platform, dag->ranks[i].rank) >= n_nodes)
            n_nodes = platform_node_of(platform, dag->ranks[i].rank) + 1;
    size_t n = (size_t)plan->n_phases * (size_t)n_nodes;
    double *bytes = check_calloc(2 * n, sizeof *bytes), *gpus = bytes + n;
    for (int32_t i = 0; i < dag->n_ranks; i++) {
        const struct dag_rank *dag_rank = &dag->ranks[i];
        int32_t node = platform_node_of(platform, dag_rank->rank), at = dag_rank->phase * n_nodes + node;
        bytes[at] += memory->host_peak_bytes[i] * dag_rank->n_gpus;
        gpus[at] += dag_rank->n_gpus;
    }
    for (int32_t at = 0; at < plan->n_phases * n_nodes; at++) {
        int32_t node = at % n_nodes;
        double in_use = platform_gpus_in_use(platform, node, n_gpus);
        double node_bytes = n_gpus > 0 && gpus[at] < in_use ? bytes[at] * in_use / gpus[at] : bytes[at];
        if (node_bytes > worst.bytes)
            worst = (struct memory_host){.bytes = node_bytes, .node = node, .phase = at / n_nodes};
    }
    free(bytes);
    double most = 0;
    for (int32_t i = 0; i < dag->n_ranks; i++) {
        const struct dag_rank *dag_rank = &dag->ranks[i];
        if (dag_rank->phase != worst.phase || platform_node_of(platform, dag_rank->rank) != worst.node ||
            memory->host_peak_bytes[i] <= most)
            continue;
        most = memory->host_peak_bytes[i];
        worst.stage = dag_rank->stage;
    }
    return worst;
}
