/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scenario/foreign.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "document/document_read.h"
#include "document/library.h"
#include "document/quantity.h"
#include "scenario/platform_file.h"

enum { HEAD_BYTES = 1 << 16 };

/** A file is recognised by texts of its beginning. */
static const struct mark {
    enum foreign whose;
    const char *text, *other; /* both must be there; NULL: one suffices */
} marks[] = {
    {FOREIGN_NCCL, "<system", "<cpu"},
    {FOREIGN_SIMGRID, "<platform", NULL},
    {FOREIGN_SLURM, "SwitchName=", NULL},
    {FOREIGN_SLURM, "BlockName=", NULL},
    {FOREIGN_SLURM, "- topology:", NULL},
    {FOREIGN_MATRIX, "GPU0\t", " X \t"},
    {FOREIGN_ASTRA_NETWORK, "npus_count", NULL},
    {FOREIGN_ASTRA_NETWORK, "units-count", NULL},
    {FOREIGN_ASTRA_SYSTEM, "scheduling-policy", "all-reduce-implementation"},
    {FOREIGN_MODEL, "\"model_type\":", NULL},
    {FOREIGN_PLAN, "\"zero_optimization\":", NULL},
    {FOREIGN_PLAN, "\"train_batch_size\":", NULL},
    {FOREIGN_PLAN, "\"train_micro_batch_size_per_gpu\":", NULL},
};
enum { N_MARKS = sizeof marks / sizeof *marks };

/** Endings of scripts, and of recipes that are no YAML. */
static const char *const plan_endings[] = {".sh", ".slurm", ".sbatch", ".toml"};
enum { N_PLAN_ENDINGS = sizeof plan_endings / sizeof *plan_endings };

/** Beginnings of lines in scripts and recipes. A comment that repeats one has a # before it. */
static const char *const plan_lines[] = {"#!",
                                         "#SBATCH ",
                                         "torchrun ",
                                         "srun ",
                                         "deepspeed ",
                                         "accelerate launch ",
                                         "python ",
                                         "python3 ",
                                         "MODEL_ARGS",
                                         "base_model:",
                                         "_target_:",
                                         "model_name_or_path:",
                                         "distributed_type:",
                                         "compute_environment:",
                                         "trainer:",
                                         "train:",
                                         "ConfigContainer:"};
enum { N_PLAN_LINES = sizeof plan_lines / sizeof *plan_lines };

/** Kinds of parallelism, one of which is the first word of a workload. */
static const char *const parallelism[] = {
    "DATA",
    "MODEL",
    "MICRO",
    "HYBRID_DATA_MODEL",
    "HYBRID_MODEL_DATA",
    "HYBRID_TRANSFORMER",
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD",
    "HYBRID_DLRM",
    "HYBRID_CUSTOMIZED",
};
enum { N_PARALLELISM = sizeof parallelism / sizeof *parallelism };

/** Read the beginning of a regular file. @return false if there is none */
static bool read_head(const char *path, char head[HEAD_BYTES])
{
    struct stat status;
    *head = '\0';
    if (stat(path, &status) != 0 || !S_ISREG(status.st_mode))
        return false;
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return false;
    head[fread(head, 1, HEAD_BYTES - 1, file)] = '\0';
    fclose(file);
    return true;
}

/** Read a whole number from 0 to a billion, and go behind it. @return false if there is none */
static bool next_number(const char **text, int *value)
{
    char *end;
    long number = strtol(*text, &end, 10);
    bool read = end != *text && 0 <= number && number <= 1000000000;
    *value = read ? (int)number : 0;
    *text = end;
    return read;
}

/** The first line of SimAI's networks ends with the name of the GPU. */
struct simai_network {
    int nodes, gpus_per_node, nvswitches, switches, links;
};

static bool is_simai_network(const char *head, struct simai_network *network)
{
    const char *at = head;
    if (!next_number(&at, &network->nodes) || !next_number(&at, &network->gpus_per_node) ||
        !next_number(&at, &network->nvswitches) || !next_number(&at, &network->switches) ||
        !next_number(&at, &network->links) || *at != ' ')
        return false;
    at += strspn(at, " ");
    bool named = isalpha((unsigned char)*at);
    at += strcspn(at, " \r\n");
    at += strspn(at, " \r");
    return named && *at == '\n' && network->gpus_per_node > 0 &&
           network->nodes > network->nvswitches + network->switches;
}

/** Return whether the first word is a kind of parallelism and the second line begins with the number of layers. */
static bool is_workload(const char *head)
{
    const char *line = strchr(head, '\n');
    size_t n = strcspn(head, " \t\r\n");
    bool known = false;
    for (int i = 0; i < N_PARALLELISM; i++)
        known = known || (strlen(parallelism[i]) == n && strncmp(head, parallelism[i], n) == 0);
    return known && line != NULL && isdigit((unsigned char)line[1]);
}

static bool begins(const char *text, const char *beginning)
{
    return strncmp(text, beginning, strlen(beginning)) == 0;
}

/** Return whether it is a script, a list of flags or a recipe. A file with `systems:` is a scenario, though perhaps a
 * wrong one. */
static bool is_plan(const char *path, const char *head)
{
    bool plan = false;
    for (int i = 0; i < N_PLAN_ENDINGS; i++)
        plan = plan || library_is_path(path, plan_endings[i]);
    for (const char *line = head; line != NULL; line = strchr(line, '\n')) {
        line += strspn(line, " \t\r\n");
        plan = plan || (begins(line, "--") && isalpha((unsigned char)line[2]));
        for (int i = 0; i < N_PLAN_LINES; i++)
            plan = plan || begins(line, plan_lines[i]);
    }
    return plan;
}

/** Return whether a line begins with the key of a scenario's systems. */
static bool is_scenario(const char *head)
{
    bool found = false;
    for (const char *line = head; line != NULL && !found; line = strchr(line, '\n')) {
        line += strspn(line, " \t\r\n{");
        found = begins(line, "systems:") || begins(line, "\"systems\":");
    }
    return found;
}

enum foreign foreign_of(const char *path)
{
    char head[HEAD_BYTES];
    struct simai_network network;
    if (!read_head(path, head) || is_scenario(head))
        return FOREIGN_NONE;
    if (library_is_path(path, ".et"))
        return FOREIGN_CHAKRA;
    for (int i = 0; i < N_MARKS; i++)
        if (strcasestr(head, marks[i].text) != NULL &&
            (marks[i].other == NULL || strcasestr(head, marks[i].other) != NULL))
            return marks[i].whose;
    if (is_workload(head))
        return FOREIGN_WORKLOAD;
    if (is_simai_network(head, &network))
        return FOREIGN_SIMAI_NETWORK;
    return is_plan(path, head) ? FOREIGN_PLAN : FOREIGN_NONE;
}

/** Read the numbers of a list. @return how many there are; 0: it is none, or one of them is out of range */
static int read_list(const struct document *document, const char *key, double value[8])
{
    const double most = 1e9;
    int n = 0, list = document_find(document, 0, key);
    for (int child = list < 0 ? -1 : document->node[list].child; child >= 0 && n < 8; n++) {
        const struct document_node *node = &document->node[child];
        if (node->kind != DOCUMENT_SCALAR || !quantity_parse(node->value, "-", &value[n]) || value[n] <= 0 ||
            value[n] > most)
            return 0;
        child = node->next;
    }
    return n;
}

/** Write the platform of ASTRA-sim's sizes and bandwidths [GB/s]: the first dimension is a node. */
static void astra_platform(const char *path, char *text, size_t size)
{
    struct document document = {0};
    struct error unread = {0};
    double npus[8], bandwidth[8], nodes = 1;
    int used = 0, n = 0, n_bandwidths = 0;
    if (document_read(path, &document, &unread)) {
        n = read_list(&document, "npus_count", npus);
        n = n > 0 ? n : read_list(&document, "units-count", npus);
        n_bandwidths = read_list(&document, "bandwidth", bandwidth);
        n_bandwidths = n_bandwidths > 0 ? n_bandwidths : read_list(&document, "link-bandwidth", bandwidth);
    }
    document_free(&document);
    for (int i = 1; i < n; i++)
        nodes *= npus[i];
    if (n > 0)
        used = snprintf(text, size, "nodes: %.0f, gpus_per_node: %.0f", nodes, npus[0]);
    if (n > 0 && n_bandwidths > 0)
        used += snprintf(text + used, size - (size_t)used, ", nvlink: %gGBps", bandwidth[0]);
    if (n > 0 && n_bandwidths > 1)
        snprintf(text + used, size - (size_t)used, ", nic: %gGBps", bandwidth[1]);
}

/** Write the platform of SimAI's network. The links of GPU 0 go to NVSwitches and to other switches. */
static void simai_platform(const char *head, char *text, size_t size)
{
    struct simai_network network;
    if (!is_simai_network(head, &network))
        return;
    int gpus = network.nodes - network.nvswitches - network.switches;
    double nvlink = 0, nic = 0;
    for (const char *line = strchr(head, '\n'); line != NULL; line = strchr(line, '\n')) {
        char bandwidth[32];
        int from, to;
        double bytes_per_s;
        line++;
        const char *at = line;
        bool linked = next_number(&at, &from) && next_number(&at, &to) && from == 0;
        at += strspn(at, " ");
        snprintf(bandwidth, sizeof bandwidth, "%.*s", (int)strcspn(at, " \r\n"), at);
        if (linked && quantity_parse(bandwidth, "bytes/s", &bytes_per_s))
            *(to < gpus + network.nvswitches ? &nvlink : &nic) += bytes_per_s;
    }
    int used = snprintf(text, size, "nodes: %d, gpus_per_node: %d",
                        (gpus + network.gpus_per_node - 1) / network.gpus_per_node, network.gpus_per_node);
    if (nvlink > 0)
        used += snprintf(text + used, size - (size_t)used, ", nvlink: %gGBps", nvlink / 1e9);
    if (nic > 0)
        snprintf(text + used, size - (size_t)used, ", nic: %gGbps", nic / 1e9 * 8);
}

/** Write the plan that the first line of SimAI's workload has, with a blank before it; "": it has none. */
static void workload_plan(const char *head, char *text, size_t size)
{
    static const struct {
        const char *word, *key;
    } degrees[] = {{" model_parallel_NPU_group: ", "tp"}, {" ep: ", "ep"}, {" pp: ", "pp"}, {" vpp: ", "vpp"}};
    char line[1024];
    int used = 0, number;
    *text = '\0';
    snprintf(line, sizeof line, "%.*s", (int)strcspn(head, "\r\n"), head);
    for (size_t i = 0; i < sizeof degrees / sizeof *degrees; i++) {
        const char *at = strstr(line, degrees[i].word);
        at = at != NULL ? at + strlen(degrees[i].word) : "";
        if (next_number(&at, &number) && used < (int)size)
            used +=
                snprintf(text + used, size - (size_t)used, "%s%s: %d", used > 0 ? ", " : " {", degrees[i].key, number);
    }
    const char *all = strstr(line, " all_gpus: ");
    all = all != NULL ? all + strlen(" all_gpus: ") : "";
    if (used > 0 && used < (int)size)
        used += snprintf(text + used, size - (size_t)used, "}");
    if (used > 0 && next_number(&all, &number) && used < (int)size)
        snprintf(text + used, size - (size_t)used, " on %d GPUs", number);
}

bool foreign_refuse(enum foreign whose, const char *path, struct error *err)
{
    char head[HEAD_BYTES], text[256] = "nodes: ..., gpus_per_node: ..., nvlink: ..., nic: ...";
    struct platform platform;
    read_head(path, head);
    switch (whose) {
    case FOREIGN_NCCL:
    case FOREIGN_SLURM:
        return error_add(err,
                         "%s: it is %s; `slimsim import %s > cluster.yaml` makes a platform of it, which a scenario "
                         "names: `platform: cluster.yaml`",
                         path, whose == FOREIGN_NCCL ? "NCCL's topology of a node" : "Slurm's topology of switches",
                         path);
    case FOREIGN_MATRIX:
        return error_add(
            err,
            "%s: it is the matrix of `nvidia-smi topo`, which gives no rates; write NCCL's topology of the "
            "node in its place (`slimsim help own-cluster`)",
            path);
    case FOREIGN_SIMGRID: /* one of another program gets the sentence that a scenario gets, too */
        return platform_file_read(path, &platform, err) &&
               error_add(err, "%s: it is a platform of SimGrid; a scenario names it: `platform: %s`", path, path);
    case FOREIGN_ASTRA_NETWORK:
        astra_platform(path, text, sizeof text);
        return error_add(err, "%s: it is a network of ASTRA-sim; write in its place `platform: {%s}`", path, text);
    case FOREIGN_SIMAI_NETWORK:
        simai_platform(head, text, sizeof text);
        return error_add(err, "%s: it is a network of SimAI; write in its place `platform: {%s}`", path, text);
    case FOREIGN_ASTRA_SYSTEM:
        return error_add(err,
                         "%s: it is a system of ASTRA-sim, with its scheduling and collectives, which slimsim chooses "
                         "itself; write in its place a scenario with `platform:` and `communication:` (`slimsim help "
                         "start`)",
                         path);
    case FOREIGN_CHAKRA:
    case FOREIGN_WORKLOAD:
        workload_plan(head, text, sizeof text);
        return error_add(err,
                         "%s: it is a workload of %s, whose times and bytes were given to it; slimsim computes them: "
                         "write in its place a scenario with `model:`, `data:` and a plan%s (`slimsim help start`)",
                         path, whose == FOREIGN_CHAKRA ? "ASTRA-sim (Chakra)" : "ASTRA-sim or SimAI",
                         whose == FOREIGN_CHAKRA ? "" : text);
    case FOREIGN_MODEL:
        return error_add(err, "%s: it is a model's configuration; a scenario names it: `model: %s`", path, path);
    case FOREIGN_PLAN:
        return error_add(err,
                         "%s: it is a script or recipe of another tool; `slimsim import %s --output mine.yaml` makes a "
                         "scenario of it",
                         path, path);
    case FOREIGN_NONE:
        break;
    }
    return true;
}
