/* SPDX-License-Identifier: GPL-3.0-or-later */
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

/** Bytes a second of a GPU's NICs as the fabric column has them: "8x400Gb/s", "1600 Gbps per node", "400Gb/s per GPU";
 * 0: it has none. */
static double read_nics(const struct cells *cells)
{
    static const struct {
        const char *text;
        double gbit;
    } units[] = {{"Gb/s", 1}, {"Gbps", 1}, {"Gbit/s", 1}, {"Tb/s", 1e3},       {"Tbps", 1e3},
                 {"GbE", 1},  {"G IB", 1}, {"G RoCE", 1}, {"G InfiniBand", 1}, {"G Ethernet", 1}};
    const char *fabric = cell_text(cells, "fabric"), *end = NULL;
    double gbit_per_s = 0, n_nics = 0;
    for (size_t i = 0; i < sizeof units / sizeof *units && end == NULL; i++) {
        end = strstr(fabric, units[i].text);
        gbit_per_s = end == NULL ? 0 : units[i].gbit * number_before(fabric, &end);
    }
    const char *times = end;
    while (times != NULL && times > fabric && times[-1] == ' ')
        times--;
    size_t sign = times == NULL ? 0 : times_bytes(fabric, times);
    if (sign > 0) {
        times -= sign;
        n_nics = number_before(fabric, &times);
    }
    bool one = cell_has(cells, "fabric", "per GPU"),
         node = !one && (n_nics > 0 || cell_has(cells, "fabric", "per node"));
    if (gbit_per_s > 0 && !node && !one) {
        one = gbit_per_s <= 400; /* no NIC is faster */
        cell_assume(cells, "%g Gb/s %s", gbit_per_s, one ? "a GPU" : "a node");
    }
    return fmax(n_nics, 1) * gbit_per_s * 1e9 / 8 / (one ? 1 : SETTING_NODE_GPUS);
}

/** Where the clause with `at` begins and ends: at ",", ";", "+" and " and ". */
static void clause_of(const char *text, const char *at, char *clause, size_t room)
{
    const char *begin = at;
    while (begin > text && strchr(",;+", begin[-1]) == NULL && strncasecmp(begin - 1, " and ", 5) != 0)
        begin--;
    size_t bytes = strcspn(begin, ",;+");
    const char *and = strcasestr(at, " and ");
    if (and != NULL && and < begin + bytes)
        bytes = (size_t)(and-begin);
    snprintf(clause, room, "%.*s", (int)bytes, begin);
}

/** Bytes a second of NVLink, one direction, from "N GB/s", of both directions unless it says "per direction"; 0: it has
 * none. A network whose speed is in GB/s is refused: of a GPU or a node, of one direction or both, is not told. */
static double read_nvlink(const struct cells *cells)
{
    static const char *const one_way[] = {"direction", "each way", "one-way"}, *const both[] = {"bidir", "both"};
    const char *fabric = cell_text(cells, "fabric");
    double bytes_per_s = 0;
    for (const char *unit = strstr(fabric, "GB/s"); unit != NULL; unit = strstr(unit + 1, "GB/s")) {
        char clause[128];
        bool one = false;
        clause_of(fabric, unit, clause, sizeof clause);
        if (strcasestr(clause, "NVLink") == NULL && strcasestr(clause, "NVSwitch") == NULL) {
            cell_skip(cells, "fabric '%.80s': a network's speed is read in Gb/s", fabric);
            return 0;
        }
        for (size_t i = 0; i < sizeof one_way / sizeof *one_way; i++)
            one = one || strcasestr(clause, one_way[i]) != NULL;
        for (size_t i = 0; i < sizeof both / sizeof *both; i++)
            one = one && strcasestr(clause, both[i]) == NULL;
        const char *end = unit;
        if (bytes_per_s == 0)
            bytes_per_s = number_before(fabric, &end) * 1e9 / (one ? 1 : 2);
    }
    if (0 < bytes_per_s && bytes_per_s < LEAST_NVLINK_BYTES_PER_S)
        cell_skip(cells, "fabric '%.80s': the speed of one NVLink is not that of a GPU", fabric);
    return bytes_per_s;
}

/** Bandwidths of the fabric column, where it says them. */
static void read_fabric(const struct cells *cells, struct platform *platform)
{
    double nvlink_bytes_per_s = read_nvlink(cells), nic_bytes_per_s = read_nics(cells);
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
    bool other_memory = strstr(past, "GB") != NULL && strstr(past, "80GB") == NULL && strstr(past, "80 GB") == NULL;
    return past != text && (!alone || *past == '\0' || (*past == '(' && !other_memory));
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
