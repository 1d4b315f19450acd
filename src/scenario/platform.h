/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Clusters: SimGrid's XML read (with expat) and checked before SimGrid sees it, since SimGrid aborts on bad input. */
#ifndef SLIMSIM_SCENARIO_PLATFORM_H
#define SLIMSIM_SCENARIO_PLATFORM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/** A cluster of equal nodes. Hosts are g<node>_<gpu> and cpu<node>; links nv.._u/_d, ib.._u/_d, pc.._u/_d as
 * platforms/generate.py writes them. Bandwidths are of one direction. Links above the NICs may have any names; what
 * can be slow of them (scenario/faults.h) is pt<node>_u/_d, of a node, and up<leaf>_u/_d, of a leaf switch. */
struct platform {
    char name[64];
    char path[1024];
    int32_t n_nodes, gpus_per_node;
    int32_t n_uplinks;         /* pt0 to pt<n-1>, both directions; 0: not all of these are there */
    int32_t n_spine_links;     /* up0 to up<n-1>, likewise */
    double nvlink_bytes_per_s; /* per GPU and direction */
    double nic_bytes_per_s;    /* per GPU and direction */
    double pcie_bytes_per_s;   /* per GPU and direction */
    double host_memory_bytes;  /* per node */
    uint64_t hash;             /* of the file */
};

/**
 * Find NAME.xml among the built platforms, or take a path that ends in .xml. Errors with file and line: malformed XML;
 * hosts or links that are missing, stand twice or are named otherwise; unequal nodes; a bandwidth or speed that is not
 * a positive number; a latency other than 0 (the sender pays it, from the device's file); routes over unknown links.
 */
bool platform_read(const char *platform_dir, const char *name, struct platform *platform, struct error *err);

static inline int32_t platform_n_gpus(const struct platform *platform)
{
    return platform->n_nodes * platform->gpus_per_node;
}

static inline bool platform_same_node(const struct platform *platform, int32_t gpu, int32_t other)
{
    return gpu / platform->gpus_per_node == other / platform->gpus_per_node;
}

#endif
