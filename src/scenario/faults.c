/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scenario/faults.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/rng.h"
#include "document/schema_text.h"

#define FIELD(field) offsetof(struct fault, field)

const char *const fault_kind_name[FAULT_N_KINDS] = {"gpu",    "nvlink", "nic",         "pcie",
                                                    "uplink", "spine",  "gpu forward", "gpu backward"};

static const struct schema_key keys[] = {
    {"kind", SCHEMA_CHOICE, "-", 0, 0, NULL, "gpu|nvlink|nic|pcie|uplink|spine",
     "the slow part: computing of a GPU (gpu) or one of its links (nvlink, nic, pcie); uplink: a node's link to its "
     "leaf switch; spine: a leaf switch's link to the spine",
     FIELD(kind)},
    {"pass", SCHEMA_CHOICE, "-", 0, 0, "all", "all|forward|backward",
     "with gpu: all that it computes, or passes of one kind; what a backward pass computes again is of it",
     FIELD(pass)},
    {"gpus", SCHEMA_INTS, "-", 0, 1 << 30, "", NULL, "slow GPUs, counted over the nodes from 0", FIELD(gpus)},
    {"nodes", SCHEMA_INTS, "-", 0, 1 << 30, "", NULL, "nodes whose GPUs are all slow; with uplink: slow nodes",
     FIELD(nodes)},
    {"leaves", SCHEMA_INTS, "-", 0, 1 << 30, "", NULL, "with spine: slow leaf switches", FIELD(leaves)},
    {"share", SCHEMA_REAL, "-", 0, 1, "0", NULL,
     "share of all GPUs that is drawn to be slow (uplink: of nodes, spine: of leaf switches), rounded to whole ones",
     FIELD(share)},
    {"seed", SCHEMA_INT, "-", 0, 0x1p53, "0", NULL, "seed of the draw; default: the scenario's seed", FIELD(seed)},
    {"factor", SCHEMA_REAL, "-", 1, 1e6, NULL, NULL, "factor by which work takes longer; bandwidth is divided by it",
     FIELD(factor)},
};
enum { N_KEYS = sizeof keys / sizeof *keys };

static int32_t drawn(double share, int32_t n)
{
    return (int32_t)lround(share * n);
}

/** Return the number of devices of the platform that can have this kind of fault. */
static int32_t devices(const struct platform *platform, int32_t kind)
{
    return kind == FAULT_UPLINK  ? platform->n_uplinks
           : kind == FAULT_SPINE ? platform->n_spine_links
                                 : platform_n_gpus(platform);
}

/** Check that the numbers of a list are below n. */
static bool check_numbers(const struct document *document, int32_t node, const struct schema_ints *list, int32_t n,
                          const char *what, struct error *err)
{
    for (int32_t i = 0; i < list->n; i++)
        if (list->at[i] >= n)
            return document_error(document, node, err,
                                  "faults: %s %" PRId64 " is not on the platform; allowed: 0 to %d", what, list->at[i],
                                  n - 1);
    return true;
}

/** Check that an entry names its devices once, in the terms of its kind, and that the platform has such links. */
static bool check_whose(const struct document *document, int32_t node, const struct fault *fault,
                        const struct platform *platform, struct error *err)
{
    static const char *const terms[FAULT_N_ENTRIES] = {"gpus, nodes", "gpus, nodes", "gpus, nodes",
                                                       "gpus, nodes", "nodes",       "leaves"};
    bool gpus_ok = fault->kind < FAULT_N_OF_GPUS, leaves_ok = fault->kind == FAULT_SPINE;
    if ((fault->gpus.n > 0) + (fault->nodes.n > 0) + (fault->leaves.n > 0) +
                (document_find(document, node, "share") >= 0) !=
            1 ||
        (fault->gpus.n > 0 && !gpus_ok) || (fault->leaves.n > 0) > leaves_ok || (fault->nodes.n > 0 && leaves_ok))
        return document_error(document, node, err,
                              "faults: an entry of kind %s needs one of %s and share, to say which devices are slow",
                              fault_kind_name[fault->kind], terms[fault->kind]);
    if (fault->pass != 0 && fault->kind != FAULT_GPU)
        return document_error(document, document_find(document, node, "pass"), err,
                              "faults: pass is for kind gpu only, since links have no passes; leave it out");
    if (!platform_has_nvlink(platform) && (fault->kind == FAULT_NVLINK || fault->kind == FAULT_PCIE))
        return document_error(document, node, err,
                              "faults: kind %s is not available on nodes without NVLink, whose GPUs send to each other "
                              "by the PCIe that their hosts and NICs use; allowed: gpu, nic, uplink, spine",
                              fault_kind_name[fault->kind]);
    if (devices(platform, fault->kind) == 0 || (fault->kind == FAULT_UPLINK && platform->n_uplinks < platform->n_nodes))
        return document_error(document, node, err,
                              "faults: platform %s has no links %s, which kind %s slows down; allowed: topology %s",
                              platform->name, fault->kind == FAULT_SPINE ? "up<leaf>_u and _d" : "pt<node>_u and _d",
                              fault_kind_name[fault->kind],
                              fault->kind == FAULT_SPINE ? "fat-tree or rail with more nodes than platform.leaf"
                                                         : "fat-tree or dragonfly");
    return true;
}

static bool check_fault(const struct document *document, int32_t node, const struct fault *fault,
                        const struct platform *platform, struct error *err)
{
    static const char *const what[FAULT_N_ENTRIES] = {"GPU", "GPU", "GPU", "GPU", "node", "leaf"};
    int32_t share = document_find(document, node, "share"), n = devices(platform, fault->kind);
    if (!check_whose(document, node, fault, platform, err))
        return false;
    if (share >= 0 && drawn(fault->share, n) == 0)
        return document_error(document, share, err,
                              "faults: share %g of all %d devices is less than half a %s; allowed: %g to 1",
                              fault->share, n, what[fault->kind], 0.5 / n);
    if (share < 0 && document_find(document, node, "seed") >= 0)
        return document_error(document, document_find(document, node, "seed"), err,
                              "faults: seed needs share, since without it nothing is drawn");
    return check_numbers(document, document_find(document, node, "gpus"), &fault->gpus, n, "GPU", err) &&
           check_numbers(document, document_find(document, node, "leaves"), &fault->leaves, n, "leaf", err) &&
           check_numbers(document, document_find(document, node, "nodes"), &fault->nodes, platform->n_nodes, "node",
                         err);
}

bool faults_read(const struct document *document, const struct platform *platform, int64_t seed, struct fault **list,
                 int32_t *n, struct error *err)
{
    int32_t node = document_find(document, 0, "faults"), n_entries = 0;
    *list = NULL;
    *n = 0;
    if (node < 0 || document_is_null(&document->node[node]))
        return true;
    if (document->node[node].kind != DOCUMENT_SEQUENCE)
        return document_error(document, node, err, "faults: expected a list of {kind: ..., gpus: [...], factor: ...}");
    for (int32_t child = document->node[node].child; child >= 0; child = document->node[child].next)
        n_entries++;
    if (n_entries > FAULT_MOST)
        return document_error(document, node, err, "faults: %d entries are too many; allowed: at most %d", n_entries,
                              FAULT_MOST);
    *list = check_calloc((size_t)n_entries, sizeof **list);
    bool ok = true;
    for (int32_t child = document->node[node].child; child >= 0; child = document->node[child].next) {
        struct fault *fault = &(*list)[(*n)++];
        ok &= schema_read(document, child, keys, N_KEYS, NULL, fault, err) &&
              check_fault(document, child, fault, platform, err);
        if (ok && document_find(document, child, "seed") < 0)
            fault->seed = fault->share > 0 ? seed : 0;
    }
    return ok;
}

/** Write the entries. Keys without effect are left out, so the text reads back. */
void faults_write(FILE *file, const struct fault *list, int32_t n)
{
    if (n > 0)
        fputs("faults:\n", file);
    for (int32_t i = 0; i < n; i++) {
        fputs("  -\n", file);
        for (int32_t k = 0; k < N_KEYS; k++)
            if (keys[k].offset == FIELD(pass)
                    ? list[i].pass != 0
                    : list[i].share > 0 || (keys[k].offset != FIELD(share) && keys[k].offset != FIELD(seed)))
                schema_write(file, &keys[k], 1, &list[i], 4);
    }
}

void faults_list_keys(const struct schema_listing *listing)
{
    schema_list(listing, keys, N_KEYS, "faults.N.");
}

/** Mark k different ones of n GPUs. All choices of k GPUs are equally likely. */
static void draw(struct rng *rng, int32_t k, int32_t n, bool *chosen)
{
    int32_t *left = check_malloc((size_t)n * sizeof *left);
    for (int32_t i = 0; i < n; i++)
        left[i] = i;
    for (int32_t i = 0; i < k; i++) {
        int32_t j = i + (int32_t)rng_index(rng, n - i), gpu = left[j];
        left[j] = left[i];
        chosen[gpu] = true;
    }
    free(left);
}

static void choose(const struct fault *fault, int32_t number, const struct platform *platform, bool *chosen)
{
    int32_t n = devices(platform, fault->kind), per_node = fault->kind == FAULT_UPLINK ? 1 : platform->gpus_per_node;
    for (int32_t i = 0; i < fault->gpus.n; i++)
        chosen[fault->gpus.at[i]] = true;
    for (int32_t i = 0; i < fault->leaves.n; i++)
        chosen[fault->leaves.at[i]] = true;
    for (int32_t i = 0; i < fault->nodes.n; i++)
        for (int32_t device = 0; device < per_node; device++)
            chosen[fault->nodes.at[i] * per_node + device] = true;
    if (fault->share == 0)
        return;
    struct rng *rng = rng_create(fault->seed, number, RNG_FAULTS);
    draw(rng, drawn(fault->share, n), n, chosen);
    rng_free(rng);
}

/** Give every group of n neighbours the largest factor among them. */
static void fold(struct faults *faults, int32_t kind, int32_t n)
{
    for (int32_t first = 0; first < faults->n[kind]; first += n) {
        double worst = 1, *factor = faults->factor[kind] + first;
        for (int32_t i = 0; i < n; i++)
            worst = fmax(worst, factor[i]);
        for (int32_t i = 0; i < n; i++)
            factor[i] = worst;
    }
}

struct faults faults_of(const struct fault *list, int32_t n, const struct platform *platform)
{
    struct faults faults = {0};
    if (n == 0)
        return faults;
    for (int32_t kind = 0; kind < FAULT_N_KINDS; kind++) {
        faults.n[kind] = devices(platform, kind);
        faults.factor[kind] = check_malloc((size_t)faults.n[kind] * sizeof *faults.factor[kind]);
        for (int32_t device = 0; device < faults.n[kind]; device++)
            faults.factor[kind][device] = 1;
    }
    for (int32_t i = 0; i < n; i++) {
        int32_t kind = list[i].pass != 0 ? FAULT_GPU_FORWARD + list[i].pass - 1 : list[i].kind;
        bool *chosen = check_calloc((size_t)faults.n[kind], sizeof *chosen);
        choose(&list[i], i, platform, chosen);
        for (int32_t device = 0; device < faults.n[kind]; device++)
            faults.factor[kind][device] *= chosen[device] ? list[i].factor : 1;
        free(chosen);
    }
    fold(&faults, FAULT_NIC, platform_gpus_per_nic(platform));
    for (int32_t kind = 0; kind < FAULT_N_KINDS; kind++) {
        faults.worst[kind] = 1;
        for (int32_t device = 0; device < faults.n[kind]; device++)
            faults.worst[kind] = fmax(faults.worst[kind], faults.factor[kind][device]);
    }
    return faults;
}

void faults_fold(struct faults *faults, int32_t tensor)
{
    CHECK(tensor >= 1 && faults->n[FAULT_GPU] % tensor == 0);
    for (int32_t kind = 0; kind < FAULT_N_KINDS; kind++)
        if (fault_is_of_gpus(kind))
            fold(faults, kind, tensor);
}

void faults_free(struct faults *faults)
{
    for (int kind = 0; kind < FAULT_N_KINDS; kind++)
        free(faults->factor[kind]);
    *faults = (struct faults){0};
}
