/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "validate/setting_parts.h"

/* Of all links of a GPU, one direction: 100 GB/s and more since Pascal. */
#define LEAST_NVLINK_BYTES_PER_S 70e9

/** The number that ends before *end, blanks between left out, and where it begins; 0: there is none. */
static double number_before(const char *text, const char **end)
{
    while (*end > text && (*end)[-1] == ' ')
        --*end;
    const char *begin = *end, *last = *end;
    while (begin > text && strchr("0123456789.", begin[-1]) != NULL)
        begin--;
    *end = begin;
    return begin == last ? 0 : strtod(begin, NULL);
}

/** Bytes of the sign of multiplication that ends before `end`: "x", "X", "*" or that of UTF-8; 0: there is none. */
static size_t times_bytes(const char *text, const char *end)
{
    static const char sign[] = "\xC3\x97";
    if (end > text && strchr("xX*", end[-1]) != NULL)
        return 1;
    return end - text >= 2 && memcmp(end - 2, sign, 2) == 0 ? 2 : 0;
}

/** Gb/s of an InfiniBand port by its generation, "NDR", "HDR100", and where that name begins and ends; 0: none. */
static double generation_gbit(const char *fabric, const char **begin, const char **end)
{
    static const struct {
        const char *name;
        double gbit;
    } generations[] = {{"NDR", 400}, {"HDR", 200}, {"EDR", 100}};
    for (size_t i = 0; i < sizeof generations / sizeof *generations; i++) {
        *begin = strstr(fabric, generations[i].name);
        if (*begin == NULL)
            continue;
        *end = *begin + strlen(generations[i].name);
        const char *number = *end + strspn(*end, " -");
        double gbit = isdigit((unsigned char)*number) ? strtod(number, (char **)&number) : 0;
        if (gbit != 100 && gbit != 200 && gbit != 400)
            return generations[i].gbit;
        *end = number;
        return gbit;
    }
    return 0;
}

/** Gb/s of one port as the fabric column has them, "400Gb/s", "400G IB", else by the generation's name; where that ends
 * on its left side, and on its right one; 0: it has none. */
static double port_gbit(const char *fabric, const char **begin, const char **end)
{
    static const struct {
        const char *text;
        double gbit;
    } units[] = {{"Gb/s", 1}, {"Gbps", 1}, {"Gbit/s", 1}, {"Tb/s", 1e3},       {"Tbps", 1e3},
                 {"GbE", 1},  {"G IB", 1}, {"G RoCE", 1}, {"G InfiniBand", 1}, {"G Ethernet", 1}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        *begin = strstr(fabric, units[i].text);
        if (*begin != NULL) {
            *end = *begin + strlen(units[i].text);
            return units[i].gbit * number_before(fabric, begin);
        }
    }
    return generation_gbit(fabric, begin, end);
}

/** Where the words before "per node" begin, in "8 ports per node": of the network, not of "8 GPUs per node"; NULL: it
 * is not there. */
static const char *before_per_node(const char *fabric)
{
    for (const char *at = strcasestr(fabric, "per node"); at != NULL; at = strcasestr(at + 1, "per node")) {
        const char *word = at;
        while (word > fabric && word[-1] == ' ')
            word--;
        while (word > fabric && isalpha((unsigned char)word[-1]))
            word--;
        if (strncasecmp(word, "GPU", strlen("GPU")) != 0)
            return word;
    }
    return NULL;
}

/** N of "Nx" before `begin`, of "N HDR", of "x N" behind `end`, or of "N per node" beside both; 0: none of these. */
static double count_of_ports(const char *fabric, const char *begin, const char *end)
{
    const char *rate = begin, *number = before_per_node(fabric);
    while (begin > fabric && begin[-1] == ' ')
        begin--;
    size_t sign = times_bytes(fabric, begin);
    if (sign > 0) {
        begin -= sign;
        return number_before(fabric, &begin);
    }
    double n = isalpha((unsigned char)*rate) ? number_before(fabric, &begin) : 0;
    if (n > 0 && (begin == fabric || !isalnum((unsigned char)begin[-1])))
        return n;
    const char *times = end + strspn(end, " ");
    if (strchr("xX*", *times) != NULL && *times != '\0')
        return strtod(times + 1, NULL);
    n = number != NULL ? number_before(fabric, &number) : 0;
    return rate <= number && number < end ? 0 : n;
}

/** Bytes a second of a GPU's NICs as the fabric column has them: "8x400Gb/s", "1600 Gbps per node", "400Gb/s per GPU",
 * "4x HDR"; 0: it has none. */
static double read_nics(const struct cells *cells)
{
    const char *fabric = cell_text(cells, "fabric"), *begin, *end;
    double gbit_per_s = port_gbit(fabric, &begin, &end);
    double n_nics = gbit_per_s > 0 ? count_of_ports(fabric, begin, end) : 0;
    bool one = cell_has(cells, "fabric", "per GPU"), node = !one && (n_nics > 0 || before_per_node(fabric) != NULL);
    if (gbit_per_s > 0 && !node && !one) {
        one = gbit_per_s <= 400; /* no NIC is faster */
        cell_assume(cells, "%g Gb/s %s", gbit_per_s, one ? "a GPU" : "a node");
    }
    return fmax(n_nics, 1) * gbit_per_s * 1e9 / 8 / (one ? 1 : SETTING_NODE_GPUS);
}

/** Part of a text. */
struct span {
    const char *begin, *end;
};

/** The clause with `at`, which ",", ";", "+" and " and " end. */
static struct span clause_of(const char *text, const char *at)
{
    const char *begin = at;
    while (begin > text && strchr(",;+", begin[-1]) == NULL && strncasecmp(begin - 1, " and ", 5) != 0)
        begin--;
    const char *end = begin + strcspn(begin, ",;+"), *and = strcasestr(at, " and ");
    return (struct span){begin, and != NULL && and < end ? and : end};
}

/** Whether one of the words begins in a part of a text. */
static bool span_has(struct span span, const char *const *words, size_t n)
{
    for (const char *at = span.begin; at < span.end; at++)
        for (size_t i = 0; i < n; i++)
            if (strncasecmp(at, words[i], strlen(words[i])) == 0)
                return true;
    return false;
}

/** Bytes a second, one direction, of the speed with this unit: half of it, unless its clause, or of several speeds in
 * one clause what stands between this and the next, says "per direction". */
static double one_direction(const char *text, const char *unit, struct span clause)
{
    static const char *const one_way[] = {"direction", "each way", "one-way"}, *const both[] = {"bidir", "both"};
    const char *first = strstr(clause.begin, "GB/s"), *next = strstr(unit + 1, "GB/s"), *end = unit;
    bool more = next != NULL && next < clause.end;
    struct span remark = {first < unit || more ? unit : clause.begin, more ? next : clause.end};
    bool one = span_has(remark, one_way, sizeof one_way / sizeof *one_way) &&
               !span_has(remark, both, sizeof both / sizeof *both);
    return number_before(text, &end) * 1e9 / (one ? 1 : 2);
}

/** Bytes a second of NVLink, one direction, from "N GB/s", of both directions unless it says "per direction"; 0: it has
 * none. A speed without a name is NVLink's where it is that of gpus.csv. A network whose speed is in GB/s is refused:
 * of a GPU or a node, of one direction or both, is not told. */
static double read_nvlink(const struct cells *cells, double usual_bytes_per_s)
{
    static const char *const links[] = {"NVLink", "NVSwitch"}, *const networks[] = {" IB",    "InfiniBand", "RoCE",
                                                                                    "RDMA",   "Ethernet",   "NIC",
                                                                                    "HDR",    "NDR",        "network",
                                                                                    "EFA",    "Spectrum",   "node",
                                                                                    "Quantum"};
    const char *fabric = cell_text(cells, "fabric");
    double bytes_per_s = 0;
    for (const char *unit = strstr(fabric, "GB/s"); unit != NULL; unit = strstr(unit + 1, "GB/s")) {
        struct span clause = clause_of(fabric, unit);
        double speed = one_direction(fabric, unit, clause);
        bool named = span_has(clause, links, sizeof links / sizeof *links);
        bool usual = fabs(speed - usual_bytes_per_s) < 1e-9 * usual_bytes_per_s;
        if (!named && (!usual || span_has(clause, networks, sizeof networks / sizeof *networks))) {
            cell_skip(cells, "fabric '%.80s': a network's speed is read in Gb/s", fabric);
            return 0;
        }
        if (!named)
            cell_assume(cells, "NVLink of %g GB/s one way", speed / 1e9);
        if (bytes_per_s == 0)
            bytes_per_s = speed;
    }
    if (0 < bytes_per_s && bytes_per_s < LEAST_NVLINK_BYTES_PER_S)
        cell_skip(cells, "fabric '%.80s': the speed of one NVLink is not that of a GPU", fabric);
    return bytes_per_s;
}

/** Bandwidths of the fabric column, where it says them. */
static void read_fabric(const struct cells *cells, struct platform *platform)
{
    double nvlink_bytes_per_s = read_nvlink(cells, platform->nvlink_bytes_per_s), nic_bytes_per_s = read_nics(cells);
    if (nvlink_bytes_per_s > 0)
        platform->nvlink_bytes_per_s = nvlink_bytes_per_s;
    if (nic_bytes_per_s > 0)
        platform->nic_bytes_per_s = nic_bytes_per_s;
    else if (platform->n_nodes > 1)
        cell_assume(cells, "NICs of %g Gb/s a GPU", platform->nic_bytes_per_s * 8 / 1e9);
}

/** A GPU's name without the count ("8x") and "NVIDIA" before it. */
static const char *bare_name(const char *text)
{
    const char *sign = text + strspn(text, "0123456789 ");
    if (sign > text && (*sign == 'x' || *sign == 'X'))
        text = sign + 1 + strspn(sign + 1, " ");
    return measured_past_name(text, "NVIDIA");
}

/** Whether the cell begins with the name of this line of gpus.csv, and where the line says `alone` ends with it, or
 * goes on with a remark in brackets of no memory but 80 GB. */
static bool is_gpu(const struct cells *cells, int32_t line)
{
    const char *text = bare_name(cell_text(cells, "gpu"));
    const char *past = measured_past_name(text, bare_name(measured_text(cells->gpus, line, "gpu")));
    bool alone = *measured_text(cells->gpus, line, "alone") != '\0';
    static const char *const usual[] = {"80GB", "80 GB", "80GiB", "80 GiB"};
    bool other_memory = strstr(past, "GB") != NULL || strstr(past, "GiB") != NULL;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        other_memory = other_memory && strstr(past, usual[i]) == NULL;
    return past != text && (!alone || *past == '\0' || (*past == '(' && !other_memory));
}

/** N of "N per node" and "N GPUs per node" in the gpu column; 0: it does not say. */
static int64_t gpus_per_node(const struct cells *cells)
{
    const char *text = cell_text(cells, "gpu"), *end = strcasestr(text, "per node");
    if (end == NULL)
        return 0;
    while (end > text && strchr(" GPUsx", end[-1]) != NULL)
        end--;
    int64_t n = (int64_t)number_before(text, &end);
    return end > text && isalpha((unsigned char)end[-1]) ? 0 : n;
}

void setting_read_platform(const struct cells *cells, struct setting *setting)
{
    struct platform *platform = &setting->platform;
    const struct measured *gpus = cells->gpus;
    double values[4] = {0};
    static const char *const columns[4] = {"nvlink_GBps", "nic_GBps", "pcie_GBps", "host_memory_GB"};
    int32_t gpu = 0;
    while (gpu < gpus->n_rows && !is_gpu(cells, gpu))
        gpu++;
    const char *nvl = strcasestr(cell_text(cells, "gpu"), "NVL");
    bool other_board = cell_has(cells, "gpu", "PCIe") || (nvl != NULL && strncasecmp(nvl, "NVLink", 6) != 0);
    if (gpu == gpus->n_rows || other_board) {
        cell_skip(cells, "there is no device file for gpu '%.80s'; model/validation/gpus.csv names those that have one",
                  cell_text(cells, "gpu"));
        return;
    }
    if (cell_has(cells, "gpu", "non-standard"))
        cell_skip(cells, "gpu '%s': the speed of a board with a power limit of its own has no model",
                  cell_text(cells, "gpu"));
    int64_t per_node = gpus_per_node(cells);
    if (per_node > 0 && per_node != SETTING_NODE_GPUS && per_node < setting->n_gpus)
        cell_skip(cells, "gpu '%.80s': nodes of other than %d GPUs have no model", cell_text(cells, "gpu"),
                  SETTING_NODE_GPUS);
    for (int i = 0; i < 4; i++)
        measured_number(gpus, gpu, columns[i], &values[i], cells->err);
    snprintf(setting->device, sizeof setting->device, "%s", measured_text(gpus, gpu, "device"));
    *platform = (struct platform){.nvlink_bytes_per_s = values[0] * 1e9,
                                  .nic_bytes_per_s = values[1] * 1e9,
                                  .pcie_bytes_per_s = values[2] * 1e9,
                                  .host_memory_bytes = values[3] * 1e9};
    platform->gpus_per_node = (int32_t)(setting->n_gpus < SETTING_NODE_GPUS ? setting->n_gpus : SETTING_NODE_GPUS);
    platform->n_nodes = platform->gpus_per_node > 0 ? (int32_t)(setting->n_gpus / platform->gpus_per_node) : 0;
    if (platform_n_gpus(platform) != setting->n_gpus)
        cell_skip(cells, "n_gpus: %s are not whole nodes of 8", cell_text(cells, "n_gpus"));
    read_fabric(cells, platform);
}
