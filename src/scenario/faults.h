/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * Devices that are slower than their kind: `faults:` of a scenario, a list.
 *
 *     faults:
 *       - {kind: gpu, gpus: [17], factor: 1.5}            GPU 17 computes 1.5 times as long
 *       - {kind: nic, nodes: [3], factor: 2}              the NICs of node 3 have half their bandwidth, each way
 *       - {kind: nvlink, share: 0.01, seed: 7, factor: 4} of 1% of all GPUs, drawn
 *       - {kind: uplink, nodes: [3], factor: 4}           what node 3's NICs share to their leaf switch
 *       - {kind: spine, leaves: [0], factor: 4}           what leaf 0 has to the spine
 *
 * Links above the NICs (uplink, spine) are SimGrid's alone: the critical path has no links that several GPUs share.
 * So the scenario's engine must be SimGrid; and since one rank for all of a TP group sends by one NIC of them,
 * `all_tensor_ranks` must be on where a plan has TP.
 */
#ifndef SLIMSIM_SCENARIO_FAULTS_H
#define SLIMSIM_SCENARIO_FAULTS_H

#include "scenario/platform.h"
#include "scenario/schema.h"

/** What is slow: of a GPU its computing, or one of its links, in both directions; or a link above the NICs. */
enum fault_kind {
    FAULT_GPU,
    FAULT_NVLINK,
    FAULT_NIC,
    FAULT_PCIE,
    FAULT_N_OF_GPUS,
    FAULT_UPLINK = FAULT_N_OF_GPUS, /* of a node: pt<node> of the platform */
    FAULT_SPINE,                    /* of a leaf switch: up<leaf> */
    FAULT_N_KINDS
};

extern const char *const fault_kind_name[FAULT_N_KINDS];

enum { FAULT_MOST = 1000 }; /* entries */

/** One entry. Its devices: those of `gpus`, or of all GPUs of `nodes`, or (share > 0) drawn. Of links above the NICs
 * those of `nodes`, or `leaves`, or drawn. */
struct fault {
    int32_t kind; /* enum fault_kind */
    struct schema_ints gpus, nodes, leaves;
    double share;  /* of all GPUs, nodes or leaves, rounded to whole ones */
    int64_t seed;  /* of the draw */
    double factor; /* work takes so many times as long, bandwidth is divided by it; at least 1 */
};

/** Factors of every GPU, node and leaf. Zeroed: all sound. */
struct faults {
    int32_t n[FAULT_N_KINDS];      /* devices that can have each kind; all 0: no fault */
    double *factor[FAULT_N_KINDS]; /* [n of the kind], 1: sound; several faults of one device multiply */
};

/** Whether there are any. */
static inline bool faults_any(const struct faults *faults)
{
    return faults != NULL && faults->n[FAULT_GPU] > 0;
}

/** Read `faults:` of a scenario's document, against its platform. A draw without a seed takes the scenario's.
 * @param list  receives up to FAULT_MOST entries, the caller frees; NULL for none */
bool faults_read(const struct document *document, const struct platform *platform, int64_t seed, struct fault **list,
                 int32_t *n, struct error *err);

/** The entries as YAML, "faults:" and all; nothing where there are none. */
void faults_write(FILE *file, const struct fault *list, int32_t n);

/** Keys of an entry, as `slimsim list keys` prints them. */
void faults_list_keys(FILE *file);

/** Make the draws and join all entries. The caller frees with faults_free. */
struct faults faults_of(const struct fault *list, int32_t n, const struct platform *platform);

/** Every group of `tensor` neighbours is as slow as its slowest: for places that stand for a whole TP group. */
void faults_fold(struct faults *faults, int32_t tensor);

/** @param device  GPU; node of an uplink, leaf of a spine link */
static inline double faults_factor(const struct faults *faults, enum fault_kind kind, int32_t device)
{
    return faults != NULL && faults->n[kind] > 0 ? faults->factor[kind][device] : 1;
}

/** The largest factor of this kind. */
double faults_worst(const struct faults *faults, enum fault_kind kind);

void faults_free(struct faults *faults);

#endif
