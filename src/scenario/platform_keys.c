/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scenario/platform_keys.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/hash.h"
#include "document/document_read.h"
#include "document/library.h"
#include "document/path.h"
#include "document/schema_text.h"
#include "scenario/foreign.h"
#include "scenario/platform_file.h"

#define FIELD(field) offsetof(struct platform_keys, field)

enum { MOST_NODES = 1 << 20, MOST_GPUS = 1 << 10, LEAF_NODES = 32 }; /* MOST_NODES x MOST_GPUS fit an int32_t */

/* The first key belongs to a scenario, the last one to a file. */
const struct schema_key platform_schema[PLATFORM_N_KEYS] = {
    {"name", SCHEMA_TEXT, "-", 0, 0, "", NULL,
     "cluster of platforms/ (hopper; hopper-16x8 also sets nodes and gpus_per_node), or the path of a .yaml file or of "
     "SimGrid's .xml file; the keys below change what a .yaml file says",
     FIELD(name)},
    {"nodes", SCHEMA_INT, "-", 0, MOST_NODES, "0", NULL, "nodes of the cluster; 0: as many as the named file says",
     FIELD(nodes)},
    {"gpus_per_node", SCHEMA_INT, "GPUs", 1, MOST_GPUS, "8", NULL, "GPUs of a node", FIELD(gpus_per_node)},
    {"nvlink_domain", SCHEMA_INT, "GPUs", 0, MOST_NODES, "0", NULL,
     "GPUs that NVLink joins: a multiple or a divisor of gpus_per_node (72: a rack of 18 nodes of 4); 0: those of a "
     "node",
     FIELD(nvlink_domain)},
    {"nvlink", SCHEMA_REAL, "bytes/s", 0, 1e15, "0", "none",
     "bandwidth of a GPU's NVLink in one direction; none: GPUs of a node send by PCIe; 0: that of the device's data "
     "sheet (nvlink_bytes_per_s)",
     FIELD(nvlink_bytes_per_s)},
    {"nic", SCHEMA_REAL, "bytes/s", 0, 1e15, "0", NULL,
     "bandwidth of a NIC in one direction; 0: that of the device's data sheet (node.nic)", FIELD(nic_bytes_per_s)},
    {"nics_per_node", SCHEMA_INT, "-", 0, MOST_GPUS, "0", NULL,
     "NICs of a node, a divisor of gpus_per_node (successive GPUs share one) or a multiple (a GPU has several); 0: "
     "each GPU has one",
     FIELD(nics_per_node)},
    {"pcie", SCHEMA_REAL, "bytes/s", 0, 1e15, "0", NULL,
     "bandwidth of a GPU's PCIe link in one direction; 0: that of the device's data sheet (node.pcie)",
     FIELD(pcie_bytes_per_s)},
    {"gpus_per_pcie_switch", SCHEMA_INT, "GPUs", 0, MOST_GPUS, "0", NULL,
     "without NVLink: GPUs of a PCIe switch, which share its uplink; 0: 2, or 1 if their number in a node is odd",
     FIELD(gpus_per_pcie_switch)},
    {"sockets", SCHEMA_INT, "-", 0, MOST_GPUS, "0", NULL,
     "without NVLink: sockets of a node, which share its PCIe switches out evenly; 0: 2, or 1 if their number is odd",
     FIELD(sockets)},
    {"numa", SCHEMA_REAL, "bytes/s", 0, 1e15, "0", NULL,
     "without NVLink: bandwidth that GPUs of two sockets reach in one direction (UPI, xGMI), all together; 0: that of "
     "the device's data sheet (node.numa)",
     FIELD(numa_bytes_per_s)},
    {"host_memory", SCHEMA_REAL, "bytes", 0, 1e18, "0", NULL,
     "host memory of a node; 0: that of the device's data sheet (node.host_memory)", FIELD(host_memory_bytes)},
    {"leaf", SCHEMA_INT, "nodes", 0, MOST_NODES, "0", NULL,
     "nodes of a leaf switch; with dragonfly: nodes of a group; 0: 32, or so many more that no NVLink domain is cut",
     FIELD(leaf)},
    {"oversubscription", SCHEMA_REAL, "-", 1, 1e6, "1", NULL,
     "bandwidth of the NICs of a leaf switch, divided by that of its links to the spine or to other groups",
     FIELD(oversubscription)},
    {"topology", SCHEMA_CHOICE, "-", 0, 0, "fat-tree", PLATFORM_TOPOLOGIES,
     "switches above the NICs: fat-tree: leaf switches below a spine; rail: the same, with a leaf switch for each GPU "
     "of a node; dragonfly: a link between every two leaf switches",
     FIELD(topology)},
    {"contention", SCHEMA_BOOL, "-", 0, 0, "true", NULL,
     "transfers on a link share its bandwidth; false: each transfer gets all of it", FIELD(contention)},
    {"source", SCHEMA_TEXT, "-", 0, 0, "", NULL, "source of a file's numbers", FIELD(source)},
};
enum { N_SCENARIO_KEYS = PLATFORM_N_SCENARIO_KEYS, N_FILE_KEYS = PLATFORM_N_KEYS - 1 };
enum { DRAGONFLY_MOST = 1024 }; /* limit of groups, since links grow with their square */

bool platform_split_size(const char *name, char base[SCHEMA_TEXT_BYTES], struct platform_keys *size)
{
    char again[SCHEMA_TEXT_BYTES], *end;
    size_t n = strlen(name), n_free = strlen("-free");
    size->contention = n <= n_free || strcmp(name + n - n_free, "-free") != 0;
    snprintf(base, SCHEMA_TEXT_BYTES, "%.*s", (int)(size->contention ? n : n - n_free), name);
    char *dash = strrchr(base, '-');
    if (dash == NULL)
        return false;
    size->nodes = strtoll(dash + 1, &end, 10);
    size->gpus_per_node = *end == 'x' ? strtoll(end + 1, &end, 10) : 0;
    snprintf(again, sizeof again, "-%" PRId64 "x%" PRId64, size->nodes, size->gpus_per_node);
    bool ok = strcmp(again, dash) == 0 && 1 <= size->nodes && size->nodes <= MOST_NODES && 1 <= size->gpus_per_node &&
              size->gpus_per_node <= MOST_GPUS;
    *dash = '\0';
    return ok;
}

/** Refuse a written 0, which stands for a value that the scenario leaves out. */
static bool check_zeros(const struct document *document, int32_t node, const struct platform_keys *own,
                        struct error *err)
{
    const struct {
        const char *key;
        double value;
    } given[] = {{"nvlink", own->nvlink_bytes_per_s},
                 {"nic", own->nic_bytes_per_s},
                 {"pcie", own->pcie_bytes_per_s},
                 {"host_memory", own->host_memory_bytes}};
    bool ok = true;
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        int32_t at = document_find(document, node, given[i].key);
        if (at >= 0 && given[i].value == 0)
            ok = document_error(document, at, err,
                                "platform.%s: 0 does not switch it off; leave the key out for the value of the data "
                                "sheet%s",
                                given[i].key,
                                i == 0 ? ", or write none for a node without NVLink, whose GPUs send by PCIe" : "");
    }
    return ok;
}

static bool read_file(const char *path, struct platform_keys *keys, struct error *err)
{
    struct document document = {0};
    bool ok = document_read(path, &document, err) &&
              schema_read(&document, 0, platform_schema + 1, N_FILE_KEYS, NULL, keys, err) &&
              check_zeros(&document, 0, keys, err);
    document_free(&document);
    return ok;
}

bool platform_keys_of_name(const char *data_dir, const char *name, struct platform_keys *keys, struct error *err)
{
    char folder[1024], path[1024], base[SCHEMA_TEXT_BYTES];
    struct platform_keys size = {0};
    struct error unknown = {0};
    enum foreign whose = foreign_of(name);
    *keys = (struct platform_keys){0};
    snprintf(keys->name, sizeof keys->name, "%s", name);
    if (whose != FOREIGN_NONE && whose != FOREIGN_SIMGRID)
        return foreign_refuse(whose, name, err);
    if (library_is_path(name, ".xml"))
        return true;
    if (library_is_path(name, ".yaml"))
        return read_file(name, keys, err);
    snprintf(folder, sizeof folder, "%s/platforms", data_dir);
    library_shipped(folder, ".yaml", "platform", keys->name, sizeof keys->name);
    if (library_find(folder, keys->name, ".yaml", "platform", path, &unknown))
        return read_file(path, keys, err);
    bool sized = platform_split_size(name, base, &size);
    if (sized) /* the hint concerns the name without its size */
        unknown = (struct error){0};
    library_shipped(folder, ".yaml", "platform", base, sizeof base);
    if (!sized || !library_find(folder, base, ".yaml", "platform", path, &unknown))
        return error_add(
            err,
            "%s, or .xml; a name may end in a size: hopper-16x8 has 16 nodes of 8 GPUs; or a mapping of keys "
            "without a file: {nodes: 16, gpus_per_node: 8, nic: 400Gbps}",
            unknown.text);
    if (!read_file(path, keys, err))
        return false;
    snprintf(keys->name, sizeof keys->name, "%s", base);
    keys->nodes = size.nodes;
    keys->gpus_per_node = size.gpus_per_node;
    keys->contention = keys->contention && size.contention;
    return true;
}

/** Read the file that the name means. An XML file describes the whole cluster, so it allows no other key. */
static bool read_named(const struct document *document, int32_t node, const char *data_dir, char *name,
                       struct platform_keys *keys, struct error *err)
{
    int32_t at = document_find(document, node, "name");
    struct error unknown = {0};
    bool is_xml = library_is_path(name, ".xml");
    if ((is_xml || library_is_path(name, ".yaml")) && !path_resolve(document, at, "platform", name, err))
        return false;
    if ((is_xml || library_is_path(name, ".yaml")) && access(name, R_OK) != 0)
        return document_error(document, at, err, "platform: %s: cannot be read: %s", name, strerror(errno));
    for (int32_t child = document->node[node].child; is_xml && child >= 0; child = document->node[child].next)
        if (child != at)
            return document_key_error(document, child, err,
                                      "platform.%s: is not allowed beside an XML file (platform.name), which describes "
                                      "the whole cluster; leave this key out",
                                      document->node[child].key);
    char path[SCHEMA_TEXT_BYTES]; /* of another tool's file, which may have any name */
    snprintf(path, sizeof path, "%s", name);
    enum foreign whose = path_resolve(document, at, "platform", path, &unknown) ? foreign_of(path) : FOREIGN_NONE;
    unknown = (struct error){0};
    if (platform_keys_of_name(data_dir, whose != FOREIGN_NONE ? path : name, keys, &unknown))
        return true;
    if (library_is_path(name, ".yaml") && whose == FOREIGN_NONE) /* errors of a .yaml file already name their places */
        return error_add(err, "%s", unknown.text);
    return document_error(document, at, err, "platform: %s", unknown.text);
}

#define GIVEN(key, field)                                                                                              \
    if (document_find(document, node, key) >= 0)                                                                       \
    keys->field = own.field

bool platform_keys_read(struct document *document, const char *data_dir, struct platform_keys *keys, struct error *err)
{
    struct platform_keys own;
    document_name_mapping(document, "platform", "name");
    int32_t node = document_find(document, 0, "platform");
    if (node < 0 || document_is_null(&document->node[node]))
        return document_error(document, node < 0 ? 0 : node, err,
                              "platform: is required (the cluster); allowed: a name of `slimsim list platforms`, the "
                              "path of a .yaml or .xml file, or a mapping of keys");
    if (!schema_read(document, node, platform_schema, N_SCENARIO_KEYS, NULL, &own, err) ||
        !check_zeros(document, node, &own, err))
        return false;
    if (document_find(document, node, "name") < 0) {
        *keys = own;
        return true;
    }
    if (*own.name == '\0')
        return document_error(
            document, document_find(document, node, "name"), err,
            "platform: '' is empty; allowed: a name of `slimsim list platforms`, or the path of a .yaml or .xml file");
    if (!read_named(document, node, data_dir, own.name, keys, err))
        return false;
    GIVEN("nodes", nodes);
    GIVEN("gpus_per_node", gpus_per_node);
    GIVEN("nvlink_domain", nvlink_domain);
    GIVEN("nvlink", nvlink_bytes_per_s);
    GIVEN("nic", nic_bytes_per_s);
    GIVEN("nics_per_node", nics_per_node);
    GIVEN("pcie", pcie_bytes_per_s);
    GIVEN("gpus_per_pcie_switch", gpus_per_pcie_switch);
    GIVEN("sockets", sockets);
    GIVEN("numa", numa_bytes_per_s);
    GIVEN("host_memory", host_memory_bytes);
    GIVEN("leaf", leaf);
    GIVEN("oversubscription", oversubscription);
    GIVEN("topology", topology);
    GIVEN("contention", contention);
    return true;
}

/** Take the device's value if the platform gives none. */
static bool take(double *value, double of_device, const char *key, const char *device, struct error *err)
{
    if (*value == 0)
        *value = of_device;
    if (*value == 0)
        return error_add(err, "platform.%s: is required, since the file of device %s does not give it either", key,
                         device);
    return *value >= 1 || error_add(err, "platform.%s: %g is out of range; allowed: at least 1", key, *value);
}

/** Check that one number divides the other. @param either  whether a multiple is allowed, too */
static bool check_share(const char *key, int64_t value, int64_t whole, const char *of, bool either, struct error *err)
{
    if (whole % value == 0 || (either && value % whole == 0))
        return true;
    return error_add(err, "platform.%s: %" PRId64 " does not divide the %" PRId64 " %s; allowed: a divisor%s", key,
                     value, whole, of, either ? " or a multiple" : "");
}

/** Fill in the path between GPUs without NVLink: PCIe switches, and the sockets above them. */
static bool take_pcie(struct platform_keys *all, const struct device *device, struct platform *platform,
                      struct error *err)
{
    int64_t gpus = all->gpus_per_node, *of_switch = &all->gpus_per_pcie_switch;
    *of_switch = *of_switch > 0 ? *of_switch : 2 - gpus % 2;
    if (!check_share("gpus_per_pcie_switch", *of_switch, gpus, "GPUs of a node", false, err))
        return false;
    all->sockets = all->sockets > 0 ? all->sockets : 2 - gpus / *of_switch % 2;
    if (!check_share("sockets", all->sockets, gpus / *of_switch, "PCIe switches of a node", false, err))
        return false;
    if (all->nvlink_domain > 0)
        return error_add(err, "platform.nvlink_domain: needs NVLink, but platform.nvlink is none; leave it out");
    platform->gpus_per_pcie_switch = (int32_t)*of_switch;
    platform->gpus_per_socket = (int32_t)(gpus / all->sockets);
    return all->sockets == 1 || take(&all->numa_bytes_per_s, device->node_numa_bytes_per_s, "numa", device->name, err);
}

/** Fill in who shares NVLink, NICs and PCIe. */
static bool take_shares(struct platform_keys *all, const struct device *device, struct platform *platform,
                        struct error *err)
{
    int64_t gpus = all->gpus_per_node, domain = all->nvlink_domain > 0 ? all->nvlink_domain : gpus,
            nics = all->nics_per_node > 0 ? all->nics_per_node : gpus;
    bool none = isnan(all->nvlink_bytes_per_s), ok = true;
    if (none)
        ok = take_pcie(all, device, platform, err);
    else if (all->gpus_per_pcie_switch > 0 || all->sockets > 0 || all->numa_bytes_per_s > 0)
        ok = error_add(err, "platform: gpus_per_pcie_switch, sockets and numa describe nodes without NVLink (nvlink: "
                            "none); with NVLink each GPU has PCIe of its own: leave them out");
    ok &= check_share("nvlink_domain", domain, gpus, "GPUs of a node", true, err);
    ok &= check_share("nics_per_node", nics, gpus, "GPUs of a node", true, err);
    platform->nvlink_domain = (int32_t)domain;
    platform->gpus_per_nic = nics < gpus ? (int32_t)(gpus / nics) : 1;
    platform->nvlink_bytes_per_s = none ? 0 : all->nvlink_bytes_per_s;
    platform->nic_bytes_per_s = all->nic_bytes_per_s * (nics > gpus ? (double)nics / (double)gpus : 1);
    platform->numa_bytes_per_s = all->numa_bytes_per_s / (device->pcie.efficiency > 0 ? device->pcie.efficiency : 1);
    platform->contention = all->contention;
    if (ok && all->leaf == 0) {
        int32_t joined = platform_nodes_per_domain(platform);
        all->leaf = (LEAF_NODES + joined - 1) / joined * joined;
    }
    return ok;
}

static bool check(const struct platform_keys *keys, const struct platform *platform, struct error *err)
{
    int32_t joined = platform_nodes_per_domain(platform);
    if (keys->topology == PLATFORM_RAIL &&
        (!platform_has_nvlink(platform) || keys->nvlink_domain % keys->gpus_per_node != 0))
        return error_add(err,
                         "platform.topology: rail needs NVLink between all GPUs of a node, by which they reach the "
                         "NICs of other rails; allowed: fat-tree, dragonfly");
    if (platform_n_leaves(platform) > 1 && keys->leaf % joined != 0)
        return error_add(err,
                         "platform.leaf: %" PRId64 " nodes would cut the NVLink domain of %d nodes; allowed: multiples "
                         "of %d",
                         keys->leaf, joined, joined);
    if (keys->topology == PLATFORM_DRAGONFLY && platform_n_leaves(platform) > DRAGONFLY_MOST)
        return error_add(err,
                         "platform.leaf: %" PRId64 " divides %" PRId64
                         " nodes into %d groups of a dragonfly; allowed: at most %d groups",
                         keys->leaf, keys->nodes, platform_n_leaves(platform), DRAGONFLY_MOST);
    return true;
}

/** Set the name to NAME-<nodes>x<gpus>, or to the size if there is no file. */
static void set_name(const struct platform_keys *keys, struct platform *platform)
{
    const char *slash = strrchr(keys->name, '/'), *stem = slash != NULL ? slash + 1 : keys->name;
    size_t n = library_is_path(stem, ".yaml") ? strlen(stem) - strlen(".yaml") : strlen(stem);
    snprintf(platform->name, sizeof platform->name, "%.*s%s%" PRId64 "x%" PRId64 "%s", n < 32 ? (int)n : 32, stem,
             n > 0 ? "-" : "", keys->nodes, keys->gpus_per_node, keys->contention ? "" : "-free");
}

/** Count the links above the NICs that have numbers. */
static void count_links(const struct platform_keys *keys, struct platform *platform)
{
    int32_t n_leaves = platform_n_leaves(platform);
    bool rail = keys->topology == PLATFORM_RAIL;
    platform->n_uplinks = rail ? 0 : platform->n_nodes;
    if (n_leaves > 1 && keys->topology != PLATFORM_DRAGONFLY)
        platform->n_spine_links = n_leaves * (rail ? platform_n_nics(platform) : 1);
}

static uint64_t hash_keys(const struct platform_keys *keys)
{
    char *text = NULL;
    size_t n_bytes;
    FILE *file = check_memstream(&text, &n_bytes);
    schema_write(file, platform_schema + 1, N_SCENARIO_KEYS - 1, keys, 0);
    CHECK(fclose(file) == 0);
    uint64_t hash = hash_bytes(HASH_START, text, n_bytes);
    free(text);
    return hash;
}

bool platform_from_keys(const struct platform_keys *keys, const struct device *device, struct platform *platform,
                        struct error *err)
{
    if (library_is_path(keys->name, ".xml"))
        return platform_file_read(keys->name, platform, err);
    *platform = (struct platform){.keys = *keys, .gpu_flop_per_s = device->peak_flop_per_s[PRECISION_BF16]};
    struct platform_keys *all = &platform->keys;
    bool ok = true;
    if (all->nodes == 0)
        ok = error_add(err, "platform.nodes: is required if no file gives it; allowed: a whole number, 1 to %d",
                       MOST_NODES);
    if (!isnan(all->nvlink_bytes_per_s))
        ok &= take(&all->nvlink_bytes_per_s, device->nvlink_bytes_per_s, "nvlink", device->name, err);
    ok &= take(&all->nic_bytes_per_s, device->node_nic_bytes_per_s, "nic", device->name, err);
    ok &= take(&all->pcie_bytes_per_s, device->node_pcie_bytes_per_s, "pcie", device->name, err);
    ok &= take(&all->host_memory_bytes, device->node_host_memory_bytes, "host_memory", device->name, err);
    platform->n_nodes = (int32_t)all->nodes;
    platform->gpus_per_node = (int32_t)all->gpus_per_node;
    ok &= take_shares(all, device, platform, err);
    if (!ok || !check(all, platform, err))
        return false;
    platform->pcie_bytes_per_s = all->pcie_bytes_per_s;
    platform->host_memory_bytes = all->host_memory_bytes;
    platform->hash = hash_keys(all);
    set_name(all, platform);
    count_links(all, platform);
    return true;
}

void platform_write(FILE *file, const struct platform *platform)
{
    const struct platform_keys *keys = &platform->keys;
    int32_t first = *keys->name == '\0';
    fputs("platform:\n", file);
    schema_write(file, platform_schema + first, *platform->path != '\0' ? 1 : N_SCENARIO_KEYS - first, keys, 2);
}
