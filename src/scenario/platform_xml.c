/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scenario/platform_xml.h"

#include <stdarg.h>

/* The platform and the file that it is written to. */
struct drawing {
    FILE *file;
    const struct platform *platform;
    const char *sharing; /* attribute of links */
    const bool *used;    /* [GPUs] hosts that are written; NULL: all */
    int32_t n_leaves, gpus;
};

static void write_link(const struct drawing *drawing, double bytes_per_s, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void write_link(const struct drawing *drawing, double bytes_per_s, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("      <link id=\"", drawing->file);
    vfprintf(drawing->file, format, arguments);
    va_end(arguments);
    fprintf(drawing->file, "\" bandwidth=\"%.17gBps\" latency=\"0\"%s/>\n", bytes_per_s, drawing->sharing);
}

static bool is_used(const struct drawing *drawing, int32_t n, int32_t g)
{
    return drawing->used == NULL || drawing->used[n * drawing->gpus + g];
}

/** Return whether a node has a GPU that is written. */
static bool is_node_used(const struct drawing *drawing, int32_t n)
{
    bool used = false;
    for (int32_t g = 0; g < drawing->gpus && !used; g++)
        used = is_used(drawing, n, g);
    return used;
}

/** Write a link in both directions, out of its device and into it. */
static void write_pair(const struct drawing *drawing, double bytes_per_s, const char *name, int32_t number)
{
    write_link(drawing, bytes_per_s, "%s%d_u", name, number);
    write_link(drawing, bytes_per_s, "%s%d_d", name, number);
}

static const char no_limit[] = " sharing_policy=\"FATPIPE\"";

/** Write the links between leaf switches, or from leaf switches to the spine. */
static void write_links_above(const struct drawing *drawing)
{
    const struct platform_keys *keys = &drawing->platform->keys;
    int32_t n = drawing->n_leaves;
    struct drawing free_of_limits = *drawing;
    free_of_limits.sharing = no_limit;
    double leaf = keys->nic_bytes_per_s * (double)(drawing->gpus * keys->leaf) / keys->oversubscription;
    for (int32_t i = 0; i < n; i++) {
        if (keys->topology == PLATFORM_FAT_TREE)
            write_pair(drawing, leaf, "up", i);
        for (int32_t j = 0; j < n && keys->topology == PLATFORM_DRAGONFLY; j++)
            if (i != j)
                write_link(drawing, leaf / (n - 1), "up%d_%d", i, j);
        for (int32_t g = 0; g < drawing->gpus && keys->topology == PLATFORM_RAIL; g++)
            write_pair(drawing, leaf / drawing->gpus, "up", i * drawing->gpus + g);
        if (keys->topology == PLATFORM_RAIL)
            write_pair(&free_of_limits, leaf, "core", i);
    }
}

/** Write all links. They come first, in a zone of their own, since SimGrid looks them up zone after zone. */
static void write_links(const struct drawing *drawing)
{
    const struct platform *platform = drawing->platform;
    bool rail = platform->keys.topology == PLATFORM_RAIL;
    const char *name = rail || drawing->n_leaves > 1 ? "spine" : "leaf0";
    double node = platform->nic_bytes_per_s * drawing->gpus;
    double most = platform->nvlink_bytes_per_s + platform->nic_bytes_per_s + platform->pcie_bytes_per_s;
    struct drawing free_of_limits = *drawing;
    free_of_limits.sharing = no_limit;
    fprintf(drawing->file, "    <zone id=\"%sz\" routing=\"Full\">\n      <router id=\"%s\"/>\n", name, name);
    for (int32_t n = 0; n < platform->n_nodes; n++) {
        char of_node[3][32];
        if (!is_node_used(drawing, n))
            continue;
        snprintf(of_node[0], sizeof *of_node, "nv%d_", n);
        snprintf(of_node[1], sizeof *of_node, "ib%d_", n);
        snprintf(of_node[2], sizeof *of_node, "pc%d_", n);
        for (int32_t g = 0; g < drawing->gpus; g++) {
            if (!rail && !is_used(drawing, n, g)) /* on rails, the NICs of others carry traffic, too */
                continue;
            write_pair(drawing, platform->nvlink_bytes_per_s, of_node[0], g);
            write_pair(drawing, platform->nic_bytes_per_s, of_node[1], g);
            write_pair(drawing, platform->pcie_bytes_per_s, of_node[2], g);
        }
        if (rail)
            write_link(&free_of_limits, most, "free%d", n);
        else
            write_pair(drawing, node, "pt", n);
    }
    if (drawing->n_leaves > 1)
        write_links_above(drawing);
    fputs("    </zone>\n", drawing->file);
}

static void write_hosts(const struct drawing *drawing, int32_t n)
{
    for (int32_t g = 0; g < drawing->gpus; g++)
        if (is_used(drawing, n, g))
            fprintf(drawing->file, "      <host id=\"g%d_%d\" speed=\"%.17gf\"/>\n", n, g,
                    drawing->platform->gpu_flop_per_s);
    fprintf(drawing->file,
            "      <host id=\"cpu%d\" speed=\"1Gf\"><prop id=\"host_memory_bytes\" value=\"%.17g\"/></host>\n", n,
            drawing->platform->host_memory_bytes);
}

#define ROUTE(ends) "      <route " ends " symmetrical=\"NO\">"
#define CROSSES(id) "<link_ctn id=\"" id "\"/>"
#define ROUTE_END   "</route>\n"

/** Write the routes of a GPU to the others of its node. */
static void write_nvlink(const struct drawing *drawing, int32_t n, int32_t g)
{
    for (int32_t other = 0; other < drawing->gpus; other++)
        if (other != g && is_used(drawing, n, other))
            fprintf(drawing->file,
                    ROUTE("src=\"g%d_%d\" dst=\"g%d_%d\"") CROSSES("nv%d_%d_u") CROSSES("nv%d_%d_d") ROUTE_END, n, g, n,
                    other, n, g, n, other);
}

/** Write a node whose NICs are on one switch as a zone with a gateway. In one zone of all nodes, routing would grow
 * with the square of the nodes. */
static void write_node(const struct drawing *drawing, int32_t n)
{
    fprintf(drawing->file, "    <zone id=\"node%d\" routing=\"Full\">\n", n);
    write_hosts(drawing, n);
    fprintf(drawing->file, "      <router id=\"sw%d\"/>\n", n);
    for (int32_t g = 0; g < drawing->gpus; g++) {
        if (!is_used(drawing, n, g))
            continue;
        write_nvlink(drawing, n, g);
        fprintf(drawing->file,
                ROUTE("src=\"g%d_%d\" dst=\"cpu%d\"") CROSSES("pc%d_%d_u")
                    ROUTE_END ROUTE("src=\"cpu%d\" dst=\"g%d_%d\"") CROSSES("pc%d_%d_d") ROUTE_END,
                n, g, n, n, g, n, n, g, n, g);
        fprintf(drawing->file,
                ROUTE("src=\"g%d_%d\" dst=\"sw%d\"") CROSSES("ib%d_%d_u") ROUTE_END ROUTE("src=\"sw%d\" dst=\"g%d_%d\"")
                    CROSSES("ib%d_%d_d") ROUTE_END,
                n, g, n, n, g, n, n, g, n, g);
    }
    fputs("    </zone>\n", drawing->file);
}

/** Write a group of nodes on the leaf switches of their rails. Routes are the shortest in links here. The link
 * free<node> makes two unwanted routes longer than the wanted ones: by the sender's rail and the receiver's NVLink, and
 * by the host. */
static void write_rail_group(const struct drawing *drawing, int32_t group, int32_t first, int32_t end)
{
    FILE *file = drawing->file;
    int32_t gpus = drawing->gpus, leaf = group * gpus;
    fprintf(file, "    <zone id=\"pod%d\" routing=\"DijkstraCache\">\n      <router id=\"pod%dsw\"/>\n", group, group);
    for (int32_t g = 0; g < gpus; g++)
        fprintf(file, "      <router id=\"leaf%d\"/>\n", leaf + g);
    for (int32_t n = first; n < end; n++)
        if (is_node_used(drawing, n))
            write_hosts(drawing, n);
    for (int32_t n = first; n < end; n++)
        for (int32_t g = 0; g < gpus; g++) {
            if (!is_used(drawing, n, g))
                continue;
            write_nvlink(drawing, n, g);
            fprintf(file,
                    ROUTE("src=\"g%d_%d\" dst=\"cpu%d\"") CROSSES("pc%d_%d_u") CROSSES("free%d")
                        ROUTE_END ROUTE("src=\"cpu%d\" dst=\"g%d_%d\"") CROSSES("free%d") CROSSES("pc%d_%d_d")
                            ROUTE_END,
                    n, g, n, n, g, n, n, n, g, n, n, g);
            fprintf(file,
                    ROUTE("src=\"g%d_%d\" dst=\"leaf%d\"") CROSSES("ib%d_%d_u") CROSSES("free%d")
                        ROUTE_END ROUTE("src=\"leaf%d\" dst=\"g%d_%d\"") CROSSES("ib%d_%d_d") ROUTE_END,
                    n, g, leaf + g, n, g, n, leaf + g, n, g, n, g);
            for (int32_t other = 0; other < gpus; other++)
                if (other != g)
                    fprintf(file,
                            ROUTE("src=\"g%d_%d\" dst=\"leaf%d\"") CROSSES("nv%d_%d_u") CROSSES("nv%d_%d_d")
                                CROSSES("ib%d_%d_u") ROUTE_END,
                            n, g, leaf + other, n, g, n, other, n, other);
        }
    for (int32_t g = leaf; g < leaf + gpus && drawing->n_leaves > 1; g++)
        fprintf(file,
                ROUTE("src=\"leaf%d\" dst=\"pod%dsw\"") CROSSES("up%d_u")
                    ROUTE_END ROUTE("src=\"pod%dsw\" dst=\"leaf%d\"") CROSSES("up%d_d") ROUTE_END,
                g, group, g, group, g, g);
    fputs("    </zone>\n", file);
}

/** Write the routes between a zone and the switch above it, one link for each direction. */
static void write_wire(const struct drawing *drawing, const char *zone, const char *gateway, const char *above,
                       const char *link)
{
    fprintf(drawing->file,
            "    <zoneRoute src=\"%s\" dst=\"%sz\" gw_src=\"%s\" gw_dst=\"%s\" symmetrical=\"NO\"><link_ctn "
            "id=\"%s_u\"/></zoneRoute>\n"
            "    <zoneRoute src=\"%sz\" dst=\"%s\" gw_src=\"%s\" gw_dst=\"%s\" symmetrical=\"NO\"><link_ctn "
            "id=\"%s_d\"/></zoneRoute>\n",
            zone, above, gateway, above, link, above, zone, above, gateway, link);
}

/** Write a leaf switch with its nodes. If there are several, each is a zone of its own. */
static void write_leaf(const struct drawing *drawing, int32_t leaf, int32_t first, int32_t end)
{
    char zone[32], gateway[32], above[32], link[32];
    bool several = drawing->n_leaves > 1;
    if (several)
        fprintf(drawing->file, "    <zone id=\"pod%d\" routing=\"DijkstraCache\">\n", leaf);
    for (int32_t n = first; n < end; n++)
        if (is_node_used(drawing, n))
            write_node(drawing, n);
    if (several)
        fprintf(drawing->file, "    <zone id=\"leaf%dz\" routing=\"Full\"><router id=\"leaf%d\"/></zone>\n", leaf,
                leaf);
    snprintf(above, sizeof above, "leaf%d", leaf);
    for (int32_t n = first; n < end; n++) {
        if (!is_node_used(drawing, n))
            continue;
        snprintf(zone, sizeof zone, "node%d", n);
        snprintf(gateway, sizeof gateway, "sw%d", n);
        snprintf(link, sizeof link, "pt%d", n);
        write_wire(drawing, zone, gateway, above, link);
    }
    if (several)
        fputs("    </zone>\n", drawing->file);
}

/** Write the routes between leaf switches: by the spine, or by the link of each pair. */
static void write_routes_above(const struct drawing *drawing)
{
    char zone[32], gateway[32], link[32];
    int32_t topology = drawing->platform->keys.topology;
    for (int32_t i = 0; i < drawing->n_leaves; i++) {
        snprintf(zone, sizeof zone, "pod%d", i);
        snprintf(gateway, sizeof gateway, "leaf%d", i);
        snprintf(link, sizeof link, "up%d", i);
        if (topology == PLATFORM_FAT_TREE)
            write_wire(drawing, zone, gateway, "spine", link);
        for (int32_t j = 0; j < drawing->n_leaves && topology == PLATFORM_DRAGONFLY; j++)
            if (i != j)
                fprintf(drawing->file,
                        "    <zoneRoute src=\"pod%d\" dst=\"pod%d\" gw_src=\"leaf%d\" gw_dst=\"leaf%d\" "
                        "symmetrical=\"NO\"><link_ctn id=\"up%d_%d\"/></zoneRoute>\n",
                        i, j, i, j, i, j);
        snprintf(gateway, sizeof gateway, "pod%dsw", i);
        snprintf(link, sizeof link, "core%d", i);
        if (topology == PLATFORM_RAIL)
            write_wire(drawing, zone, gateway, "spine", link);
    }
}

static void write_header(const struct drawing *drawing)
{
    const struct platform *platform = drawing->platform;
    bool pairs = platform->keys.topology == PLATFORM_DRAGONFLY && drawing->n_leaves > 1;
    fprintf(
        drawing->file,
        "<?xml version=\"1.0\"?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
        "<!-- Bandwidths are of one direction. Latency is 0: the sender pays it before the transfer. The speed of a "
        "GPU\n  is informational, since durations are given in seconds; so is that of a cpu, which SimGrid demands. "
        "-->\n<platform version=\"4.1\">\n  <zone id=\"cluster\" routing=\"%s\">\n",
        pairs ? "Full" : "DijkstraCache");
}

void platform_xml_write(FILE *file, const struct platform *platform, const bool *used)
{
    const struct drawing drawing = {.file = file,
                                    .platform = platform,
                                    .used = used,
                                    .sharing = platform->keys.contention ? "" : no_limit,
                                    .n_leaves = platform_n_leaves(platform),
                                    .gpus = platform->gpus_per_node};
    int64_t nodes = platform->n_nodes, leaf = platform->keys.leaf;
    CHECK(platform_nvlink_domain(platform) == platform->gpus_per_node);
    write_header(&drawing);
    write_links(&drawing);
    for (int32_t i = 0; i < drawing.n_leaves; i++) {
        int32_t first = (int32_t)(i * leaf), end = (int32_t)((i + 1) * leaf < nodes ? (i + 1) * leaf : nodes);
        if (platform->keys.topology == PLATFORM_RAIL)
            write_rail_group(&drawing, i, first, end);
        else
            write_leaf(&drawing, i, first, end);
    }
    if (drawing.n_leaves > 1)
        write_routes_above(&drawing);
    fputs("  </zone>\n</platform>\n", file);
}
