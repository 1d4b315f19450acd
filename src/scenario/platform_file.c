/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scenario/platform_file.h"

#include <errno.h>
#include <expat.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/compare.h"
#include "base/hash.h"
#include "base/regular.h"
#include "document/quantity.h"
#include "scenario/simgrid_cfg.h"

/* Limits of the numbers in names. Their product fits an int32_t. */
enum { MAX_NODES = 1 << 20, MAX_GPUS = 1 << 10 };

/** Parts that every node has, in the order in which they are checked. From N_PARTS on there are only names. */
enum part { GPU, CPU, NVLINK_UP, NVLINK_DOWN, NIC_UP, NIC_DOWN, PCIE_UP, PCIE_DOWN, N_PARTS, LINK = N_PARTS, POINT };

static const struct {
    const char *format; /* format of the name, with node and GPU */
    bool per_gpu;
    const char *what;
} parts[N_PARTS] = {
    [GPU] = {"g%d_%d", true, "host"},          [CPU] = {"cpu%d", false, "host"},
    [NVLINK_UP] = {"nv%d_%d_u", true, "link"}, [NVLINK_DOWN] = {"nv%d_%d_d", true, "link"},
    [NIC_UP] = {"ib%d_%d_u", true, "link"},    [NIC_DOWN] = {"ib%d_%d_d", true, "link"},
    [PCIE_UP] = {"pc%d_%d_u", true, "link"},   [PCIE_DOWN] = {"pc%d_%d_d", true, "link"},
};

/** A host, link or router that the file declares, or that a route refers to. */
struct item {
    enum part part;
    int32_t node, gpu;
    double value; /* speed or bandwidth, or -1 */
    int32_t line;
    char name[48];
};

struct items {
    struct item *item;
    size_t n, capacity;
};

/** Links above the NICs that have numbers: their names and the number of each. */
enum above { UPLINK_UP, UPLINK_DOWN, SPINE_UP, SPINE_DOWN, N_ABOVE };
static const char *const above_format[N_ABOVE] = {"pt%d_u", "pt%d_d", "up%d_u", "up%d_d"};

/** Properties of hosts cpu<node> that tell who shares links: scenario/platform_xml.h. */
enum share { NVLINK_DOMAIN, GPUS_PER_NIC, GPUS_PER_SWITCH, GPUS_PER_SOCKET, NUMA, N_SHARES };
static const char *const share_name[N_SHARES] = {"nvlink_domain", "gpus_per_nic", "gpus_per_pcie_switch",
                                                 "gpus_per_socket", "numa_bytes_per_s"};

struct above_count {
    int32_t n, largest; /* largest: largest number; -1: none */
};

struct reader {
    XML_Parser parser;
    const char *path;
    struct items parts, names, references; /* parts: parts of nodes; names: all names */
    struct items memories;                 /* properties host_memory_bytes */
    struct above_count above[N_ABOVE];
    double share[N_SHARES];  /* 0: not given */
    bool fatpipe;            /* a NIC's link has no contention */
    char host[48], zone[48]; /* element that is open now; "": none */
    bool config;             /* <config> is open */
    int64_t n_hosts;         /* of other names, also those of <cluster> */
    char bandwidth[32];      /* of the links of a <cluster>; "": there is none */
    struct error *err;
    size_t said; /* bytes of err's text before this file */
    bool ok;
};

static struct item *add_item(struct items *items, enum part part, const char *name, int32_t line)
{
    items->item = check_grow(items->item, items->n, &items->capacity, sizeof *items->item);
    struct item *item = &items->item[items->n++];
    *item = (struct item){.part = part, .line = line, .value = -1};
    snprintf(item->name, sizeof item->name, "%s", name);
    return item;
}

/** Sort items. qsort must not be given NULL. */
static void sort_items(struct items *items, int (*compare)(const void *, const void *))
{
    if (items->n > 0)
        qsort(items->item, items->n, sizeof *items->item, compare);
}

static int32_t line_of(const struct reader *reader)
{
    return (int32_t)XML_GetCurrentLineNumber(reader->parser);
}

/** Return an attribute's value. @return NULL if it is absent, with a message if it is required */
static const char *attribute(struct reader *reader, const char *element, const char **attributes, const char *name,
                             bool required)
{
    for (; *attributes != NULL; attributes += 2)
        if (strcmp(attributes[0], name) == 0)
            return attributes[1];
    if (required)
        reader->ok =
            error_add(reader->err, "%s:%d: <%s> lacks the attribute %s", reader->path, line_of(reader), element, name);
    return NULL;
}

/* No machine has larger values, and times would not stay finite. */
static const double largest_value = 1e24, smallest_value = 1;

/** Read a positive number with a unit. */
static double positive(struct reader *reader, const char *name, const char *what, const char *text, const char *unit)
{
    double value = -1;
    const char *problem = NULL;
    if (strchr(text, '/') != NULL || !quantity_parse(text, unit, &value) || !(value > 0)) /* SimGrid has no GB/s */
        problem = "is not a positive number";
    else if (value < smallest_value || value > largest_value)
        problem = "is out of range (1 to 1e24)";
    if (problem != NULL)
        reader->ok = error_add(reader->err, "%s:%d: %s: %s '%.100s' %s; allowed: such as %s", reader->path,
                               line_of(reader), name, what, text, problem,
                               strcmp(unit, "flop/s") == 0    ? "989.4Tf"
                               : strcmp(unit, "bytes/s") == 0 ? "400Gbps or 50GBps"
                                                              : "1000GiB");
    return value;
}

/** Return whether the name has this format, and read its numbers. They have no sign and no leading zeros, and nothing
 * follows them. */
static bool numbers_of(const char *name, const char *format, int n_numbers, int32_t *node, int32_t *gpu)
{
    char again[48];
    *node = -1;
    *gpu = 0;
    if (sscanf(name, format, node, gpu) != n_numbers || *node < 0 || *gpu < 0 || *node >= MAX_NODES || *gpu >= MAX_GPUS)
        return false;
    snprintf(again, sizeof again, format, *node, *gpu);
    return strcmp(again, name) == 0;
}

/** Find the part that a name means, with its node and GPU. @return false if it means none */
static bool part_of(const char *name, struct item *item)
{
    for (int part = 0; part < N_PARTS; part++)
        if (numbers_of(name, parts[part].format, parts[part].per_gpu ? 2 : 1, &item->node, &item->gpu)) {
            item->part = (enum part)part;
            return true;
        }
    return false;
}

/** Count a link above the NICs if it has a number. */
static void count_above(struct reader *reader, const char *name)
{
    for (int above = 0; above < N_ABOVE; above++) {
        int32_t number, none;
        if (!numbers_of(name, above_format[above], 1, &number, &none))
            continue;
        struct above_count *count = &reader->above[above];
        count->n++;
        count->largest = number > count->largest ? number : count->largest;
    }
}

/** Return the number of numbered links. Names are unique, so the links are complete if their count fits the largest
 * number. @return 0: some are missing */
static int32_t numbered_links(const struct above_count *up, const struct above_count *down)
{
    return up->n == up->largest + 1 && down->n == up->n && down->largest == up->largest ? up->n : 0;
}

/** Add a declared name. A name that is too long is refused. */
static bool declare(struct reader *reader, enum part part, const char *name)
{
    if (strlen(name) >= sizeof reader->host) {
        reader->ok = error_add(reader->err, "%s:%d: the name %.60s... is longer than the limit of %zu bytes",
                               reader->path, line_of(reader), name, sizeof reader->host - 1);
        return false;
    }
    add_item(&reader->names, part, name, line_of(reader));
    return true;
}

/** Add a declared part. Its node and GPU were found in its name. */
static void add_part(struct reader *reader, const struct item *found, const char *name, double value)
{
    struct item *item = add_item(&reader->parts, found->part, name, line_of(reader));
    item->node = found->node;
    item->gpu = found->gpu;
    item->value = value;
}

static void read_host(struct reader *reader, const char **attributes)
{
    const char *name = attribute(reader, "host", attributes, "id", true);
    const char *speed = attribute(reader, "host", attributes, "speed", true);
    struct item found;
    if (name == NULL || speed == NULL || !declare(reader, POINT, name))
        return;
    snprintf(reader->host, sizeof reader->host, "%s", name);
    char first[64]; /* first of the speeds of power states */
    snprintf(first, sizeof first, "%.*s", (int)strcspn(speed, ","), speed);
    double value = positive(reader, name, "speed", first, "flop/s");
    if (!part_of(name, &found) || found.part > CPU) {
        reader->n_hosts++;
        reader->ok = error_add(reader->err, "%s:%d: host %s is unknown; allowed: g<node>_<gpu> and cpu<node>",
                               reader->path, line_of(reader), name);
        return;
    }
    add_part(reader, &found, name, value);
}

static void read_link(struct reader *reader, const char **attributes)
{
    const char *name = attribute(reader, "link", attributes, "id", true);
    const char *bandwidth = attribute(reader, "link", attributes, "bandwidth", true);
    const char *latency = attribute(reader, "link", attributes, "latency", false);
    struct item found;
    double latency_s = 0;
    if (name == NULL || bandwidth == NULL || !declare(reader, LINK, name))
        return;
    double value = positive(reader, name, "bandwidth", bandwidth, "bytes/s");
    if (latency != NULL && (!quantity_parse(latency, "s", &latency_s) || latency_s != 0))
        reader->ok = error_add(reader->err,
                               "%s:%d: %s: latency '%.60s' is not allowed; allowed: 0, since SimGrid shares links "
                               "fairly only then; the sender pays the latency, which is in the device's file",
                               reader->path, line_of(reader), name, latency);
    const char *policy = attribute(reader, "link", attributes, "sharing_policy", false);
    reader->fatpipe =
        reader->fatpipe || (policy != NULL && strcmp(policy, "FATPIPE") == 0 && strncmp(name, "ib", 2) == 0);
    if (!part_of(name, &found) || found.part <= CPU) {
        count_above(reader, name);
        return;
    }
    add_part(reader, &found, name, value);
}

/** Check a property of <config>. SimGrid reads it as a list of options. */
static void check_options(struct reader *reader, const char *key, const char *value)
{
    char *options = check_asprintf("%s:%s", key, value), *refused = simgrid_cfg_refused(options);
    if (refused != NULL)
        reader->ok =
            error_add(reader->err, "%s:%d: <config>: '%.200s' is no option that only changes models; allowed: %s",
                      reader->path, line_of(reader), refused, simgrid_cfg_allowed);
    free(refused);
    free(options);
}

/** Read who shares links. All nodes must agree. */
static void read_share(struct reader *reader, const char *name, const char *text)
{
    for (int share = 0; share < N_SHARES; share++) {
        if (strcmp(name, share_name[share]) != 0)
            continue;
        double value = positive(reader, reader->host, name, text, share == NUMA ? "bytes/s" : "");
        bool whole = share == NUMA || (value == floor(value) && value <= MAX_NODES);
        if (!whole || (reader->share[share] > 0 && reader->share[share] != value))
            reader->ok = error_add(reader->err, "%s:%d: %s: %s %s %s", reader->path, line_of(reader), reader->host,
                                   name, text, whole ? "differs from that of another node" : "is no number of GPUs");
        reader->share[share] = value;
    }
}

/** Count the hosts of a <cluster>, which only platforms for other programs have. Its radical is such as "0-9,12". */
static void read_cluster(struct reader *reader, const char **attributes)
{
    const char *radical = attribute(reader, "cluster", attributes, "radical", true);
    const char *bandwidth = attribute(reader, "cluster", attributes, "bw", false);
    snprintf(reader->bandwidth, sizeof reader->bandwidth, "%.31s", bandwidth != NULL ? bandwidth : "");
    for (const char *part = radical; part != NULL && *part != '\0'; part += strcspn(part, ",")) {
        char *end;
        part += *part == ',';
        long first = strtol(part, &end, 10), last = *end == '-' ? strtol(end + 1, NULL, 10) : first;
        if (end != part && 0 <= first && first <= last && last < MAX_NODES)
            reader->n_hosts += last - first + 1;
    }
}

/** Read an option of SimGrid, or host_memory_bytes, a property of host cpu<node> or of zone node<node>. */
static void read_property(struct reader *reader, const char **attributes)
{
    const char *name = attribute(reader, "prop", attributes, "id", true);
    const char *value = attribute(reader, "prop", attributes, "value", true);
    const char *owner = *reader->host != '\0' ? reader->host : reader->zone;
    int32_t node = -1;
    if (name != NULL && value != NULL && reader->config)
        check_options(reader, name, value);
    if (name != NULL && value != NULL && strncmp(reader->host, "cpu", 3) == 0)
        read_share(reader, name, value);
    if (name == NULL || value == NULL || strcmp(name, "host_memory_bytes") != 0)
        return;
    if (sscanf(owner, *reader->host != '\0' ? "cpu%d" : "node%d", &node) != 1 || node < 0) {
        reader->ok = error_add(
            reader->err, "%s:%d: host_memory_bytes belongs to '%s'; allowed: in host cpu<node> or zone node<node>",
            reader->path, line_of(reader), owner);
        return;
    }
    struct item *item = add_item(&reader->memories, CPU, owner, line_of(reader));
    item->node = node;
    item->value = positive(reader, owner, "host_memory_bytes", value, "bytes");
}

static void refer(struct reader *reader, enum part part, const char *name)
{
    if (name != NULL)
        add_item(&reader->references, part, name, line_of(reader));
}

static void XMLCALL element_starts(void *context, const char *element, const char **attributes)
{
    struct reader *reader = context;
    if (strcmp(element, "host") == 0) {
        read_host(reader, attributes);
    } else if (strcmp(element, "cluster") == 0) {
        read_cluster(reader, attributes);
    } else if (strcmp(element, "link") == 0) {
        read_link(reader, attributes);
    } else if (strcmp(element, "prop") == 0) {
        read_property(reader, attributes);
    } else if (strcmp(element, "config") == 0) {
        reader->config = true;
    } else if (strcmp(element, "router") == 0) {
        const char *name = attribute(reader, element, attributes, "id", true);
        if (name != NULL)
            declare(reader, POINT, name);
    } else if (strcmp(element, "zone") == 0) {
        const char *name = attribute(reader, element, attributes, "id", true);
        snprintf(reader->zone, sizeof reader->zone, "%.47s", name ? name : "");
    } else if (strcmp(element, "link_ctn") == 0) {
        refer(reader, LINK, attribute(reader, element, attributes, "id", true));
    } else if (strcmp(element, "route") == 0) {
        refer(reader, POINT, attribute(reader, element, attributes, "src", true));
        refer(reader, POINT, attribute(reader, element, attributes, "dst", true));
    } else if (strcmp(element, "zoneRoute") == 0) {
        refer(reader, POINT, attribute(reader, element, attributes, "gw_src", true));
        refer(reader, POINT, attribute(reader, element, attributes, "gw_dst", true));
    }
}

static void XMLCALL element_ends(void *context, const char *element)
{
    struct reader *reader = context;
    if (strcmp(element, "host") == 0)
        *reader->host = '\0';
    else if (strcmp(element, "zone") == 0)
        *reader->zone = '\0';
    else if (strcmp(element, "config") == 0)
        reader->config = false;
}

/** Pass the file to expat and to the hash. */
static bool parse_file(struct reader *reader, uint64_t *hash)
{
    FILE *file = fopen(reader->path, "rb");
    if (file == NULL)
        return error_add(reader->err, "%s: cannot be read: %s", reader->path, strerror(errno));
    char chunk[1 << 16];
    bool ok = true, last = false;
    *hash = HASH_START;
    while (ok && !last) {
        size_t n = fread(chunk, 1, sizeof chunk, file);
        last = n < sizeof chunk;
        if (ferror(file)) {
            ok = error_add(reader->err, "%s: cannot be read: %s", reader->path, strerror(errno));
            break;
        }
        *hash = hash_bytes(*hash, chunk, n);
        if (XML_Parse(reader->parser, chunk, (int)n, last) == XML_STATUS_OK)
            continue;
        if (XML_GetErrorCode(reader->parser) == XML_ERROR_NO_MEMORY)
            check_out_of_memory("a parser of XML");
        ok = error_add(reader->err, "%s:%d:%d: not well-formed XML: %s", reader->path, line_of(reader),
                       (int)XML_GetCurrentColumnNumber(reader->parser) + 1,
                       XML_ErrorString(XML_GetErrorCode(reader->parser)));
    }
    fclose(file);
    return ok;
}

static int compare_parts(const void *a, const void *b)
{
    const struct item *left = a, *right = b;
    if (left->part != right->part)
        return COMPARE(left->part, right->part);
    if (left->node != right->node)
        return COMPARE(left->node, right->node);
    return left->gpu != right->gpu ? COMPARE(left->gpu, right->gpu) : COMPARE(left->line, right->line);
}

/** Order names by kind and text, so that bsearch finds a reference. */
static int compare_names(const void *a, const void *b)
{
    const struct item *left = a, *right = b;
    return left->part != right->part ? COMPARE(left->part, right->part) : strcmp(left->name, right->name);
}

/** Check that every name is unique and that every reference names one of them. */
static void check_names(struct reader *reader)
{
    struct items *names = &reader->names;
    sort_items(names, compare_names);
    for (size_t i = 1; i < names->n; i++)
        if (compare_names(&names->item[i - 1], &names->item[i]) == 0) {
            int32_t lines[2] = {names->item[i - 1].line, names->item[i].line};
            bool swapped = lines[0] > lines[1];
            reader->ok = error_add(reader->err, "%s:%d: %s appears twice, first on line %d", reader->path,
                                   lines[!swapped], names->item[i].name, lines[swapped]);
        }
    for (size_t i = 0; i < reader->references.n; i++) {
        const struct item *reference = &reader->references.item[i];
        if (names->n == 0 || bsearch(reference, names->item, names->n, sizeof *names->item, compare_names) == NULL)
            reader->ok = error_add(reader->err, "%s:%d: a route refers to %s '%s', which the file does not declare",
                                   reader->path, reference->line,
                                   reference->part == LINK ? "the link" : "the host or router", reference->name);
    }
}

/** Check who shares links, and store it. */
static void take_shares(struct reader *reader, struct platform *platform)
{
    int32_t gpus = platform->gpus_per_node, count[N_SHARES];
    for (int share = 0; share < NUMA; share++) {
        count[share] = reader->share[share] > 0 ? (int32_t)reader->share[share] : gpus;
        if (gpus % count[share] != 0 && (share != NVLINK_DOMAIN || count[share] % gpus != 0))
            reader->ok = error_add(reader->err, "%s: %s %d does not divide the %d GPUs of a node", reader->path,
                                   share_name[share], count[share], gpus);
    }
    if (count[GPUS_PER_SOCKET] % count[GPUS_PER_SWITCH] != 0 ||
        (reader->share[NUMA] == 0 && count[GPUS_PER_SOCKET] < gpus))
        reader->ok =
            error_add(reader->err, "%s: several sockets need %s, and whole switches", reader->path, share_name[NUMA]);
    platform->nvlink_domain = count[NVLINK_DOMAIN];
    platform->gpus_per_nic = reader->share[GPUS_PER_NIC] > 0 ? count[GPUS_PER_NIC] : 1;
    if (reader->share[GPUS_PER_SWITCH] > 0) {
        platform->gpus_per_pcie_switch = count[GPUS_PER_SWITCH];
        platform->gpus_per_socket = count[GPUS_PER_SOCKET];
        platform->numa_bytes_per_s = reader->share[NUMA];
    }
    platform->contention = !reader->fatpipe;
}

/** Replace all messages on a platform for another program, whose hosts have other names, by one. */
static void refuse_hosts(struct reader *reader)
{
    bool known = *reader->bandwidth != '\0';
    reader->err->text[reader->said] = '\0';
    error_add(reader->err,
              "%s: it is SimGrid's platform for another program, whose %" PRId64
              " host%s know%s no GPUs and NVLink; write "
              "in its place `platform: {nodes: %" PRId64 ", gpus_per_node: 8%s%s}` with the GPUs of a node",
              reader->path, reader->n_hosts, reader->n_hosts > 1 ? "s" : "", reader->n_hosts > 1 ? "" : "s",
              reader->n_hosts, known ? ", nic: " : "", reader->bandwidth);
}

/** Count the nodes and the GPUs of each from the largest numbers. @return false if there is no GPU */
static bool count_nodes(struct reader *reader, struct platform *platform)
{
    bool none = reader->parts.n == 0 || reader->parts.item[0].part != GPU;
    if (none && reader->n_hosts > 0) {
        refuse_hosts(reader);
        return reader->ok = false;
    }
    if (none) {
        reader->ok = error_add(
            reader->err, "%s: the file has no GPU; allowed: hosts g0_0, g0_1, ... of nodes 0, 1, ...", reader->path);
        return false;
    }
    for (size_t i = 0; i < reader->parts.n; i++) {
        const struct item *item = &reader->parts.item[i];
        if (item->node >= platform->n_nodes)
            platform->n_nodes = item->node + 1;
        if (item->gpu >= platform->gpus_per_node)
            platform->gpus_per_node = item->gpu + 1;
    }
    return true;
}

/** Skip duplicates among the sorted parts, which check_names reports. */
static size_t next_part(const struct items *items, size_t at)
{
    const struct item *item = &items->item[at++];
    while (at < items->n && items->item[at].part == item->part && items->item[at].node == item->node &&
           items->item[at].gpu == item->gpu)
        at++;
    return at;
}

/** Check that the sorted items of a part, which begin at `at`, are those of complete nodes. The first missing item is
 * an error. @return the beginning of the next part */
static size_t check_part(struct reader *reader, const struct platform *platform, enum part part, size_t at)
{
    const struct items *items = &reader->parts;
    int32_t node = 0, gpu = 0, per_node = parts[part].per_gpu ? platform->gpus_per_node : 1;
    if (part == NIC_UP || part == NIC_DOWN)
        per_node = platform->gpus_per_node / platform_gpus_per_nic(platform);
    else if ((part == NVLINK_UP || part == NVLINK_DOWN) && reader->share[GPUS_PER_SWITCH] > 0)
        node = platform->n_nodes; /* without NVLink */
    while (node < platform->n_nodes && at < items->n && items->item[at].part == part && items->item[at].node == node &&
           items->item[at].gpu == gpu) {
        at = next_part(items, at);
        gpu = gpu + 1 < per_node ? gpu + 1 : 0;
        node += gpu == 0;
    }
    if (node < platform->n_nodes) {
        char name[48];
        snprintf(name, sizeof name, parts[part].format, node, gpu);
        reader->ok = error_add(reader->err,
                               "%s: %s %s is missing; nodes must be equal, and the file has %d of them (numbered 0 to "
                               "%d) with %d GPUs each",
                               reader->path, parts[part].what, name, platform->n_nodes, platform->n_nodes - 1,
                               platform->gpus_per_node);
    }
    while (at < items->n && items->item[at].part == part)
        at++;
    return at;
}

/** Return the value that all items of two neighbouring parts (or one) share. The first item that differs is an error.
 */
static double common_value(struct reader *reader, enum part first, enum part last, const char *what)
{
    const struct item *reference = NULL;
    for (size_t i = 0; i < reader->parts.n; i++) {
        const struct item *item = &reader->parts.item[i];
        if (item->part < first || item->part > last)
            continue;
        if (reference == NULL)
            reference = item;
        if (item->value != reference->value) {
            reader->ok = error_add(
                reader->err, "%s:%d: %s has another %s (%g) than %s (%g, line %d); nodes must be equal", reader->path,
                item->line, item->name, what, item->value, reference->name, reference->value, reference->line);
            break;
        }
    }
    return reference != NULL ? reference->value : 0;
}

static double common_memory(struct reader *reader, int32_t n_nodes)
{
    struct items *memories = &reader->memories;
    sort_items(memories, compare_parts);
    for (int32_t node = 0; node < n_nodes; node++) {
        if ((size_t)node >= memories->n || memories->item[node].node != node) {
            reader->ok = error_add(reader->err,
                                   "%s: node %d must have host_memory_bytes once; allowed: <prop "
                                   "id=\"host_memory_bytes\" value=\"...\"/> in host cpu%d or zone node%d",
                                   reader->path, node, node, node);
            return 0;
        }
        if (memories->item[node].value != memories->item[0].value)
            reader->ok =
                error_add(reader->err, "%s:%d: node %d has another host_memory_bytes than node 0; nodes must be equal",
                          reader->path, memories->item[node].line, node);
    }
    return memories->item[0].value;
}

/** Turn what was read into the platform if it has no errors. */
static void resolve(struct reader *reader, struct platform *platform)
{
    size_t at = 0;
    sort_items(&reader->parts, compare_parts);
    if (!count_nodes(reader, platform))
        return;
    take_shares(reader, platform);
    for (int part = 0; part < N_PARTS; part++)
        at = check_part(reader, platform, (enum part)part, at);
    if (reader->ok)
        check_names(reader);
    if (!reader->ok)
        return;
    common_value(reader, GPU, GPU,
                 "speed"); /* nodes must be equal; the value itself is unused, since passes are given in seconds */
    platform->nvlink_bytes_per_s = common_value(reader, NVLINK_UP, NVLINK_DOWN, "bandwidth");
    platform->nic_bytes_per_s = common_value(reader, NIC_UP, NIC_DOWN, "bandwidth");
    platform->pcie_bytes_per_s = common_value(reader, PCIE_UP, PCIE_DOWN, "bandwidth");
    platform->host_memory_bytes = common_memory(reader, platform->n_nodes);
    platform->n_uplinks = numbered_links(&reader->above[UPLINK_UP], &reader->above[UPLINK_DOWN]);
    platform->n_spine_links = numbered_links(&reader->above[SPINE_UP], &reader->above[SPINE_DOWN]);
}

static void set_name(struct platform *platform)
{
    const char *slash = strrchr(platform->path, '/'), *stem = slash != NULL ? slash + 1 : platform->path;
    size_t n = strlen(stem) - strlen(".xml");
    snprintf(platform->name, sizeof platform->name, "%.*s", (int)n, stem);
}

bool platform_file_read(const char *path, struct platform *platform, struct error *err)
{
    *platform = (struct platform){0};
    if (strlen(path) >= sizeof platform->path)
        return error_add(err, "the path of a platform is longer than %zu bytes", sizeof platform->path - 1);
    snprintf(platform->path, sizeof platform->path, "%s", path);
    snprintf(platform->keys.name, sizeof platform->keys.name, "%s", path);
    if (!regular_check(platform->path, err))
        return false;
    set_name(platform);
    struct reader reader = {
        .parser = XML_ParserCreate(NULL), .path = platform->path, .err = err, .said = strlen(err->text), .ok = true};
    if (reader.parser == NULL)
        check_out_of_memory("a parser of XML");
    for (int above = 0; above < N_ABOVE; above++)
        reader.above[above].largest = -1;
    XML_SetUserData(reader.parser, &reader);
    XML_SetElementHandler(reader.parser, element_starts, element_ends);
    bool parsed = parse_file(&reader, &platform->hash);
    if (parsed)
        resolve(&reader, platform);
    XML_ParserFree(reader.parser);
    free(reader.parts.item);
    free(reader.names.item);
    free(reader.references.item);
    free(reader.memories.item);
    return parsed && reader.ok;
}
