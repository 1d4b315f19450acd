/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module describes devices that are slower than their kind: `faults:` of a scenario, a list.
 *
 *     faults:
 *       - {kind: gpu, gpus: [17], factor: 1.5}            GPU 17 computes 1.5 times as long
 *       - {kind: gpu, pass: backward, gpus: [4], factor: 2} GPU 4's backward passes take twice as long
 *       - {kind: nic, nodes: [3], factor: 2}              the NICs of node 3 have half their bandwidth, each way
 *       - {kind: nvlink, share: 0.01, seed: 7, factor: 4} NVLink of 1% of all GPUs, drawn
 *       - {kind: uplink, nodes: [3], factor: 4}           the link that node 3's NICs share to their leaf switch
 *       - {kind: spine, leaves: [0], factor: 4}           the link of leaf 0 to the spine
 *
 * 1. Only SimGrid simulates links above the NICs (uplink, spine), since several GPUs share them. The critical path has
 * no such links, so the scenario's engine must include SimGrid.
 * 2. One rank for a whole TP group would send by a single NIC of the group. A plan with TP therefore needs
 *    `all_tensor_ranks` with these kinds.
 */
#ifndef SLIMSIM_SCENARIO_FAULTS_H
#define SLIMSIM_SCENARIO_FAULTS_H

#include "document/schema.h"
#include "document/schema_text.h"
#include "scenario/platform.h"

/** The slow part: computing of a GPU, one of its links in both directions, or a link above the NICs. */
enum fault_kind {
    FAULT_GPU,
    FAULT_NVLINK,
    FAULT_NIC,
    FAULT_PCIE,
    FAULT_N_OF_GPUS,
    FAULT_UPLINK = FAULT_N_OF_GPUS, /* a node's link, pt<node> of the platform */
    FAULT_SPINE,                    /* a leaf switch's link, up<leaf> */
    FAULT_N_ENTRIES,                /* kinds of entries; the others are a GPU's with `pass` */
    FAULT_GPU_FORWARD = FAULT_N_ENTRIES,
    FAULT_GPU_BACKWARD, /* with what it computes again */
    FAULT_N_KINDS
};

/** Return whether GPUs have this kind, not nodes or leaves. */
static inline bool fault_is_of_gpus(int32_t kind)
{
    return kind < FAULT_N_OF_GPUS || kind >= FAULT_N_ENTRIES;
}

extern const char *const fault_kind_name[FAULT_N_KINDS];

enum { FAULT_MOST = 1000 }; /* limit of entries */

/**
 * One entry. Its devices are one of these:
 * - `gpus`
 * - all GPUs of `nodes`
 * - drawn GPUs, if share > 0
 *
 * For links above the NICs they are `nodes`, `leaves` or drawn ones.
 */
struct fault {
    int32_t kind; /* enum fault_kind below FAULT_N_ENTRIES */
    int32_t pass; /* of kind gpu: 0 all that it computes, 1 forward, 2 backward */
    struct schema_ints gpus, nodes, leaves;
    double share;  /* of all GPUs, nodes or leaves, rounded to whole ones */
    int64_t seed;  /* seed of the draw */
    double factor; /* at least 1: work takes this many times as long, and bandwidth is divided by it */
};

/** Factors of every GPU, node and leaf. A zeroed struct has no fault. */
struct faults {
    int32_t n[FAULT_N_KINDS];      /* devices that can have each kind; all are 0 without a fault */
    double *factor[FAULT_N_KINDS]; /* [n of the kind]; 1: no fault; the factors of several faults of one device are
                                      multiplied */
    double worst[FAULT_N_KINDS];   /* the largest factor of each kind */
};

/** Return whether there are any faults. */
static inline bool faults_any(const struct faults *faults)
{
    return faults != NULL && faults->n[FAULT_GPU] > 0;
}

/**
 * Read `faults:` of a scenario's document and check it against its platform. A draw without a seed uses the scenario's.
 * @param list  receives up to FAULT_MOST entries, which the caller frees; NULL if there are none
 */
bool faults_read(const struct document *document, const struct platform *platform, int64_t seed, struct fault **list,
                 int32_t *n, struct error *err);

/** Write the entries as YAML with the line "faults:". Without entries nothing is written. */
void faults_write(FILE *file, const struct fault *list, int32_t n);

/** Print the keys of an entry for `slimsim list keys`. */
void faults_list_keys(const struct schema_listing *listing);

/** Make the draws and combine all entries. The caller frees the result with faults_free. */
struct faults faults_of(const struct fault *list, int32_t n, const struct platform *platform);

/** Give every group of `tensor` neighbours the factor of its slowest GPU, since one rank represents a whole TP group.
 */
void faults_fold(struct faults *faults, int32_t tensor);

/** Return the factor of a device. @param device  a GPU, the node of an uplink, or the leaf of a spine link */
static inline double faults_factor(const struct faults *faults, enum fault_kind kind, int32_t device)
{
    return faults != NULL && faults->n[kind] > 0 ? faults->factor[kind][device] : 1;
}

/** Return by what a GPU's passes take longer. @param backward  also what a backward pass computes again */
static inline double faults_pass_factor(const struct faults *faults, bool backward, int32_t gpu)
{
    return faults_factor(faults, FAULT_GPU, gpu) *
           faults_factor(faults, backward ? FAULT_GPU_BACKWARD : FAULT_GPU_FORWARD, gpu);
}

/** Return the largest factor of this kind. A graph asks for it in every pass, so it is not searched for. */
static inline double faults_worst(const struct faults *faults, enum fault_kind kind)
{
    return faults->n[kind] > 0 ? faults->worst[kind] : 1;
}

void faults_free(struct faults *faults);

#endif
