/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scenario/platform_xml.h"

#include <stdarg.h>

/* The platform and the file that it is written to. */
struct drawing {
    FILE *file;
    const struct platform *platform;
    const char *sharing;          /* attribute of links */
    const bool *used;             /* [GPUs] hosts that are written; NULL: all */
    int32_t n_leaves, gpus, nics; /* gpus, nics: of a node */
    int32_t joined;               /* nodes of an NVLink domain */
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

static int32_t first_of_domain(const struct drawing *drawing, int32_t n)
{
    return n / drawing->joined * drawing->joined;
}

/** Return whether a node of the domain that begins with node `first` is written. */
static bool is_domain_used(const struct drawing *drawing, int32_t first, int32_t end)
{
    bool used = false;
    for (int32_t n = first; n < first + drawing->joined && n < end && !used; n++)
        used = is_node_used(drawing, n);
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
    double leaf = drawing->platform->nic_bytes_per_s * (double)(drawing->nics * keys->leaf) / keys->oversubscription;
    for (int32_t i = 0; i < n; i++) {
        if (keys->topology == PLATFORM_FAT_TREE)
            write_pair(drawing, leaf, "up", i);
        for (int32_t j = 0; j < n && keys->topology == PLATFORM_DRAGONFLY; j++)
            if (i != j)
                write_link(drawing, leaf / (n - 1), "up%d_%d", i, j);
        for (int32_t r = 0; r < drawing->nics && keys->topology == PLATFORM_RAIL; r++)
            write_pair(drawing, leaf / drawing->nics, "up", i * drawing->nics + r);
        if (keys->topology == PLATFORM_RAIL)
            write_pair(&free_of_limits, leaf, "core", i);
    }
}

/** Write PCIe switches' uplinks and the links between sockets, for a node without NVLink. */
static void write_pcie_links(const struct drawing *drawing, int32_t n)
{
    const struct platform *platform = drawing->platform;
    char name[32];
    if (platform_has_nvlink(platform))
        return;
    snprintf(name, sizeof name, "px%d_", n);
    for (int32_t i = 0; i < drawing->gpus / platform->gpus_per_pcie_switch; i++)
        write_pair(drawing, platform->pcie_bytes_per_s, name, i);
    for (int32_t i = 0; i < drawing->gpus / platform->gpus_per_socket && platform->numa_bytes_per_s > 0; i++)
        write_link(drawing, platform->numa_bytes_per_s, "numa%d_%d", n, i);
}

/** Write all links. They come first, in a zone of their own, since SimGrid looks them up zone after zone. */
static void write_links(const struct drawing *drawing)
{
    const struct platform *platform = drawing->platform;
    bool rail = platform->keys.topology == PLATFORM_RAIL;
    const char *name = rail || drawing->n_leaves > 1 ? "spine" : "leaf0";
    double node = platform->nic_bytes_per_s * drawing->nics;
    double most = platform->nvlink_bytes_per_s + platform->nic_bytes_per_s + platform->pcie_bytes_per_s;
    struct drawing free_of_limits = *drawing;
    free_of_limits.sharing = no_limit;
    fprintf(drawing->file, "    <zone id=\"%sz\" routing=\"Full\">\n      <router id=\"%s\"/>\n", name, name);
    for (int32_t n = 0; n < platform->n_nodes; n++) {
        char of_node[3][32];
        if (drawing->joined > 1 && !rail && n == first_of_domain(drawing, n) &&
            is_domain_used(drawing, n, platform->n_nodes))
            write_pair(&free_of_limits, most, "free", n);
        if (!is_node_used(drawing, n))
            continue;
        snprintf(of_node[0], sizeof *of_node, "nv%d_", n);
        snprintf(of_node[1], sizeof *of_node, "ib%d_", n);
        snprintf(of_node[2], sizeof *of_node, "pc%d_", n);
        for (int32_t g = 0; g < drawing->gpus; g++) {
            bool written = rail || is_used(drawing, n, g); /* on rails, the NICs of others carry traffic, too */
            if (written && platform_has_nvlink(platform))
                write_pair(drawing, platform->nvlink_bytes_per_s, of_node[0], g);
            if (drawing->nics < drawing->gpus ? g < drawing->nics : written)
                write_pair(drawing, platform->nic_bytes_per_s, of_node[1], g);
            if (written)
                write_pair(drawing, platform->pcie_bytes_per_s, of_node[2], g);
        }
        write_pcie_links(drawing, n);
        if (rail)
            write_link(&free_of_limits, most, "free%d", n);
        else
            write_pair(drawing, node, "pt", n);
    }
    if (drawing->n_leaves > 1)
        write_links_above(drawing);
    fputs("    </zone>\n", drawing->file);
}

/** Write what the names and bandwidths of links do not tell: who shares them. */
static void write_shares(const struct drawing *drawing)
{
    const struct platform *platform = drawing->platform;
    if (platform->nvlink_domain != drawing->gpus)
        fprintf(drawing->file, "<prop id=\"nvlink_domain\" value=\"%d\"/>", platform->nvlink_domain);
    if (platform_gpus_per_nic(platform) > 1)
        fprintf(drawing->file, "<prop id=\"gpus_per_nic\" value=\"%d\"/>", platform->gpus_per_nic);
    if (platform_has_nvlink(platform))
        return;
    fprintf(drawing->file,
            "<prop id=\"gpus_per_pcie_switch\" value=\"%d\"/><prop id=\"gpus_per_socket\" value=\"%d\"/>",
            platform->gpus_per_pcie_switch, platform->gpus_per_socket);
    if (platform->numa_bytes_per_s > 0)
        fprintf(drawing->file, "<prop id=\"numa_bytes_per_s\" value=\"%.17g\"/>", platform->numa_bytes_per_s);
}

static void write_hosts(const struct drawing *drawing, int32_t n)
{
    for (int32_t g = 0; g < drawing->gpus; g++)
        if (is_used(drawing, n, g))
            fprintf(drawing->file, "      <host id=\"g%d_%d\" speed=\"%.17gf\"/>\n", n, g,
                    drawing->platform->gpu_flop_per_s);
    fprintf(drawing->file, "      <host id=\"cpu%d\" speed=\"1Gf\"><prop id=\"host_memory_bytes\" value=\"%.17g\"/>", n,
            drawing->platform->host_memory_bytes);
    write_shares(drawing);
    fputs("</host>\n", drawing->file);
}

#define ROUTE(ends) "      <route " ends " symmetrical=\"NO\">"
#define CROSSES(id) "<link_ctn id=\"" id "\"/>"
#define ROUTE_END   "</route>\n"

/** Write the links from the PCIe switch of one GPU to that of another one, of the same node. */
static void cross_switches(const struct drawing *drawing, int32_t n, int32_t from, int32_t to)
{
    int32_t of_switch = drawing->platform->gpus_per_pcie_switch, of_socket = drawing->platform->gpus_per_socket;
    if (from / of_switch == to / of_switch)
        return;
    fprintf(drawing->file, CROSSES("px%d_%d_u"), n, from / of_switch);
    if (from / of_socket != to / of_socket)
        fprintf(drawing->file, CROSSES("numa%d_%d"), n, from / of_socket);
    fprintf(drawing->file, CROSSES("px%d_%d_d"), n, to / of_switch);
}

/** Write the routes of a GPU to the others of its node and domain: by NVLink, by PCIe, or by NICs if they are of
 * different domains. */
static void write_inside(const struct drawing *drawing, int32_t n, int32_t g)
{
    const struct platform *platform = drawing->platform;
    int32_t gpus = drawing->gpus, self = n * gpus + g, span = gpus * drawing->joined, first = self / span * span;
    bool nvlink = platform_has_nvlink(platform);
    for (int32_t gpu = first; gpu < first + span && gpu < platform_n_gpus(platform); gpu++) {
        int32_t node = gpu / gpus, other = gpu % gpus;
        bool inside = platform_same_domain(platform, self, gpu);
        const char *link = !inside ? "ib" : nvlink ? "nv" : "pc";
        int32_t shared = inside ? 1 : gpus / drawing->nics;
        if (gpu == self || !is_used(drawing, node, other))
            continue;
        fprintf(drawing->file, ROUTE("src=\"g%d_%d\" dst=\"g%d_%d\"") CROSSES("%s%d_%d_u"), n, g, node, other, link, n,
                g / shared);
        if (!nvlink)
            cross_switches(drawing, n, g, other);
        fprintf(drawing->file, CROSSES("%s%d_%d_d") ROUTE_END, link, node, other / shared);
    }
}

/** Write the links of a GPU to its NIC, or from it, without the NIC's own. */
static void cross_to_nic(const struct drawing *drawing, int32_t n, int32_t g, bool to_nic)
{
    int32_t shared = drawing->gpus / drawing->nics, first = g / shared * shared;
    if (platform_has_nvlink(drawing->platform))
        return;
    if (to_nic)
        fprintf(drawing->file, CROSSES("pc%d_%d_u"), n, g);
    cross_switches(drawing, n, to_nic ? g : first, to_nic ? first : g);
    if (!to_nic)
        fprintf(drawing->file, CROSSES("pc%d_%d_d"), n, g);
}

/** Write the routes of a GPU to its host's memory and back. `free` is the link free<node> of rails, or "". */
static void write_host_routes(const struct drawing *drawing, int32_t n, int32_t g, const char *free)
{
    int32_t of_switch = drawing->platform->gpus_per_pcie_switch;
    char up[64] = "", down[64] = "";
    if (of_switch > 0) {
        snprintf(up, sizeof up, CROSSES("px%d_%d_u"), n, g / of_switch);
        snprintf(down, sizeof down, CROSSES("px%d_%d_d"), n, g / of_switch);
    }
    fprintf(drawing->file,
            ROUTE("src=\"g%d_%d\" dst=\"cpu%d\"")
                CROSSES("pc%d_%d_u") "%s%s" ROUTE_END ROUTE("src=\"cpu%d\" dst=\"g%d_%d\"") "%s%s" CROSSES("pc%d_%d_d")
                    ROUTE_END,
            n, g, n, n, g, up, free, n, n, g, free, down, n, g);
}

/** Write the routes between the GPUs of a node and the router above their NICs. In a domain of several nodes, the
 * node's own link to the leaf switch is a part of them. */
static void write_nic_routes(const struct drawing *drawing, int32_t n, int32_t g)
{
    int32_t above = first_of_domain(drawing, n), nic = g / (drawing->gpus / drawing->nics);
    char up[64] = "", down[64] = "";
    if (drawing->joined > 1) {
        snprintf(up, sizeof up, CROSSES("pt%d_u"), n);
        snprintf(down, sizeof down, CROSSES("pt%d_d"), n);
    }
    fprintf(drawing->file, ROUTE("src=\"g%d_%d\" dst=\"sw%d\""), n, g, above);
    cross_to_nic(drawing, n, g, true);
    fprintf(drawing->file, CROSSES("ib%d_%d_u") "%s" ROUTE_END ROUTE("src=\"sw%d\" dst=\"g%d_%d\"") "%s", n, nic, up,
            above, n, g, down);
    fprintf(drawing->file, CROSSES("ib%d_%d_d"), n, nic);
    cross_to_nic(drawing, n, g, false);
    fputs(ROUTE_END, drawing->file);
}

/** Write the nodes of an NVLink domain, or one node, as a zone with a gateway if their NICs are on one switch. In one
 * zone of all nodes, routing would grow with the square of the nodes. */
static void write_node(const struct drawing *drawing, int32_t first, int32_t end)
{
    fprintf(drawing->file, "    <zone id=\"node%d\" routing=\"Full\">\n", first);
    for (int32_t n = first; n < end; n++)
        if (is_node_used(drawing, n))
            write_hosts(drawing, n);
    fprintf(drawing->file, "      <router id=\"sw%d\"/>\n", first);
    for (int32_t n = first; n < end; n++)
        for (int32_t g = 0; g < drawing->gpus; g++) {
            if (!is_used(drawing, n, g))
                continue;
            write_inside(drawing, n, g);
            write_host_routes(drawing, n, g, "");
            write_nic_routes(drawing, n, g);
        }
    fputs("    </zone>\n", drawing->file);
}

/** Write a group of nodes on the leaf switches of their rails. Routes are the shortest in links here. The link
 * free<node> makes two unwanted routes longer than the wanted ones: by the sender's rail and the receiver's NVLink, and
 * by the host. */
static void write_rail_group(const struct drawing *drawing, int32_t group, int32_t first, int32_t end)
{
    FILE *file = drawing->file;
    int32_t gpus = drawing->gpus, nics = drawing->nics, shared = gpus / nics, leaf = group * nics;
    char free[64];
    fprintf(file, "    <zone id=\"pod%d\" routing=\"DijkstraCache\">\n      <router id=\"pod%dsw\"/>\n", group, group);
    for (int32_t r = 0; r < nics; r++)
        fprintf(file, "      <router id=\"leaf%d\"/>\n", leaf + r);
    for (int32_t n = first; n < end; n++)
        if (is_node_used(drawing, n))
            write_hosts(drawing, n);
    for (int32_t n = first; n < end; n++)
        for (int32_t g = 0; g < gpus; g++) {
            if (!is_used(drawing, n, g))
                continue;
            snprintf(free, sizeof free, CROSSES("free%d"), n);
            write_inside(drawing, n, g);
            write_host_routes(drawing, n, g, free);
            fprintf(file,
                    ROUTE("src=\"g%d_%d\" dst=\"leaf%d\"") CROSSES("ib%d_%d_u") CROSSES("free%d")
                        ROUTE_END ROUTE("src=\"leaf%d\" dst=\"g%d_%d\"") CROSSES("ib%d_%d_d") ROUTE_END,
                    n, g, leaf + g / shared, n, g / shared, n, leaf + g / shared, n, g, n, g / shared);
            for (int32_t r = 0; r < nics; r++)
                if (r != g / shared)
                    fprintf(file,
                            ROUTE("src=\"g%d_%d\" dst=\"leaf%d\"") CROSSES("nv%d_%d_u") CROSSES("nv%d_%d_d")
                                CROSSES("ib%d_%d_u") ROUTE_END,
                            n, g, leaf + r, n, g, n, r * shared, n, r);
        }
    for (int32_t g = leaf; g < leaf + nics && drawing->n_leaves > 1; g++)
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
    for (int32_t n = first; n < end; n += drawing->joined)
        if (is_domain_used(drawing, n, end))
            write_node(drawing, n, n + drawing->joined < end ? n + drawing->joined : end);
    if (several)
        fprintf(drawing->file, "    <zone id=\"leaf%dz\" routing=\"Full\"><router id=\"leaf%d\"/></zone>\n", leaf,
                leaf);
    snprintf(above, sizeof above, "leaf%d", leaf);
    for (int32_t n = first; n < end; n += drawing->joined) {
        if (!is_domain_used(drawing, n, end))
            continue;
        snprintf(zone, sizeof zone, "node%d", n);
        snprintf(gateway, sizeof gateway, "sw%d", n);
        snprintf(link, sizeof link, "%s%d", drawing->joined > 1 ? "free" : "pt", n);
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
                                    .gpus = platform->gpus_per_node,
                                    .nics = platform_n_nics(platform),
                                    .joined = platform_nodes_per_domain(platform)};
    int64_t nodes = platform->n_nodes, leaf = platform->keys.leaf;
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
