/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module describes clusters of equal nodes: `platform:` of a scenario, files of platforms/, or SimGrid's XML. */
#ifndef SLIMSIM_SCENARIO_PLATFORM_H
#define SLIMSIM_SCENARIO_PLATFORM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "document/schema_key.h"

/** Topologies of the switches above the NICs (scenario/platform_xml.h draws them). */
enum platform_topology { PLATFORM_FAT_TREE, PLATFORM_RAIL, PLATFORM_DRAGONFLY };
#define PLATFORM_TOPOLOGIES "fat-tree|rail|dragonfly"

/** The keys of `platform:`. Bandwidths are those of a GPU in one direction. */
struct platform_keys {
    char name[SCHEMA_TEXT_BYTES]; /* name in platforms/, or a .yaml or .xml file; "": the keys describe the whole
                                     cluster */
    int64_t nodes, gpus_per_node; /* nodes 0: not given */
    int64_t nvlink_domain;        /* GPUs; 0: gpus_per_node */
    double nvlink_bytes_per_s;    /* 0: not given; NAN: the nodes have no NVLink */
    double nic_bytes_per_s;       /* this and the next one; 0: not given */
    double pcie_bytes_per_s;
    int64_t nics_per_node;                 /* 0: as many as GPUs */
    int64_t gpus_per_pcie_switch, sockets; /* of nodes without NVLink; 0: not given */
    double numa_bytes_per_s;               /* likewise, between two sockets */
    double host_memory_bytes;              /* bytes of a node; 0: not given */
    int64_t leaf;                          /* nodes of a leaf switch; with dragonfly: of a group */
    double oversubscription;        /* bandwidth of the NICs, divided by that of the links above their leaf switch */
    int32_t topology;               /* enum platform_topology */
    bool contention;                /* false: each transfer gets all of a link's bandwidth */
    char source[SCHEMA_TEXT_BYTES]; /* source of a file's numbers */
};

/**
 * A cluster of equal nodes.
 * - Hosts are g<node>_<gpu> and cpu<node>. Links are nv.._u/_d, ib.._u/_d and pc.._u/_d, named as platform_xml_write
 * does.
 * - Bandwidths are those of one direction.
 * - A node is a host. Its GPUs share host memory and links above the NICs, and each has PCIe of its own.
 * - Every nvlink_domain successive GPUs are an NVLink domain. They send to each other by NVLink, to others by NICs. A
 *   domain may be a part of a node, a node, or several nodes.
 * - A node without NVLink is a domain whose GPUs send to each other by PCIe. gpus_per_pcie_switch successive GPUs
 *   share a switch with one uplink, gpus_per_socket a socket with one link to the others.
 * - Every gpus_per_nic successive GPUs share a NIC. It is at the PCIe switch of the first of them.
 * - Links above the NICs may have any names. Only pt<node>_u/_d of a node and up<leaf>_u/_d of a leaf switch can have
 *   faults (scenario/faults.h).
 */
struct platform {
    char name[64];
    char path[1024]; /* path of an XML file; "": the keys describe the cluster */
    int32_t n_nodes, gpus_per_node;
    int32_t nvlink_domain;                         /* GPUs of an NVLink domain; platform_nvlink_domain reads it */
    int32_t gpus_per_nic;                          /* 0: each GPU has its own NIC; platform_gpus_per_nic reads it */
    int32_t gpus_per_pcie_switch, gpus_per_socket; /* 0: the nodes have NVLink */
    bool contention;           /* GPUs divide the bandwidth of a NIC, switch or socket that they share */
    int32_t n_uplinks;         /* number of pt0 to pt<n-1> in both directions; 0: some are missing */
    int32_t n_spine_links;     /* number of up0 to up<n-1> in both directions; 0: some are missing */
    double nvlink_bytes_per_s; /* per GPU and direction; 0: the nodes have no NVLink */
    double nic_bytes_per_s;    /* of all NICs of a GPU, or of the one that GPUs share, per direction */
    double pcie_bytes_per_s;   /* per GPU, or PCIe switch, and direction */
    double numa_bytes_per_s;   /* per socket and direction, between GPUs of different sockets. The key is what they
                                  reach, so this is larger by PCIe's efficiency, which all transfers lose */
    double host_memory_bytes;  /* per node */
    double gpu_flop_per_s;     /* informs SimGrid only; 0 with an XML file */
    struct platform_keys keys; /* with every default resolved; only the name with an XML file */
    uint64_t hash;             /* hash of the XML file or of the keys */
};

static inline int32_t platform_n_gpus(const struct platform *platform)
{
    return platform->n_nodes * platform->gpus_per_node;
}

/** Return the number of leaf switches, or of groups of a dragonfly. With rails it is the number of groups of nodes that
 * share the leaf switches of their rails. */
static inline int32_t platform_n_leaves(const struct platform *platform)
{
    return (int32_t)((platform->keys.nodes + platform->keys.leaf - 1) / platform->keys.leaf);
}

static inline int32_t platform_node_of(const struct platform *platform, int32_t gpu)
{
    return gpu / platform->gpus_per_node;
}

/** Return the number of a GPU among those of its node. */
static inline int32_t platform_gpu_in_node(const struct platform *platform, int32_t gpu)
{
    return gpu % platform->gpus_per_node;
}

/** Return how many GPUs of a node train if GPUs 0 to n_gpus - 1 of the platform do. */
static inline int32_t platform_gpus_in_use(const struct platform *platform, int32_t node, int32_t n_gpus)
{
    int32_t left = n_gpus - node * platform->gpus_per_node;
    return left < platform->gpus_per_node ? left : platform->gpus_per_node;
}

/** Return the GPUs of an NVLink domain. A platform without one is a bug. */
static inline int32_t platform_nvlink_domain(const struct platform *platform)
{
    CHECK(platform->nvlink_domain >= 1);
    return platform->nvlink_domain;
}

/** Return what a domain is called in messages. */
static inline const char *platform_domain_name(const struct platform *platform)
{
    return platform->nvlink_domain == platform->gpus_per_node ? "a node" : "an NVLink domain";
}

/** Return whether GPUs of a domain send to each other by NVLink. Otherwise they do so by PCIe. */
static inline bool platform_has_nvlink(const struct platform *platform)
{
    return platform->gpus_per_pcie_switch == 0;
}

static inline int32_t platform_gpus_per_nic(const struct platform *platform)
{
    return platform->gpus_per_nic > 1 ? platform->gpus_per_nic : 1;
}

/** Return the NICs of a node that are told apart. Several of one GPU count as one. With rails, each has a leaf switch
 * in a group of nodes. */
static inline int32_t platform_n_nics(const struct platform *platform)
{
    return platform->gpus_per_node / platform_gpus_per_nic(platform);
}

/** Return the nodes whose GPUs an NVLink domain joins; 1 if it is a node or a part of one. */
static inline int32_t platform_nodes_per_domain(const struct platform *platform)
{
    int32_t nodes = platform_nvlink_domain(platform) / platform->gpus_per_node;
    return nodes > 1 ? nodes : 1;
}

/** Return the number of a GPU's NVLink domain. */
static inline int32_t platform_domain_of(const struct platform *platform, int32_t gpu)
{
    return gpu / platform_nvlink_domain(platform);
}

/** Return whether two GPUs send to each other without NICs. */
static inline bool platform_same_domain(const struct platform *platform, int32_t gpu, int32_t other)
{
    return platform_domain_of(platform, gpu) == platform_domain_of(platform, other);
}

/** Return the number of a GPU's socket on a platform without NVLink; otherwise 0. */
static inline int32_t platform_socket_of(const struct platform *platform, int32_t gpu)
{
    return platform->gpus_per_socket > 0 ? gpu / platform->gpus_per_socket : 0;
}

/** Return whether a transfer goes from socket to socket of a node without NVLink. -1: a host. */
static inline bool platform_crosses_sockets(const struct platform *platform, int32_t gpu, int32_t other)
{
    return gpu >= 0 && other >= 0 && platform_same_domain(platform, gpu, other) &&
           platform_socket_of(platform, gpu) != platform_socket_of(platform, other);
}

/** Return the GPUs of a server, which is bought, powered and repaired as a whole. Each node is one server. */
static inline int32_t platform_gpus_per_server(const struct platform *platform)
{
    return platform->gpus_per_node;
}

#endif
