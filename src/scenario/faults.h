/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * Devices that are slower than their kind: `faults:` of a scenario, a list.
 *
 *     faults:
 *       - {kind: gpu, gpus: [17], factor: 1.5}            GPU 17 computes 1.5 times as long
 *       - {kind: nic, nodes: [3], factor: 2}              the NICs of node 3 have half their bandwidth, each way
 *       - {kind: nvlink, share: 0.01, seed: 7, factor: 4} of 1% of all GPUs, drawn
 */
#ifndef SLIMSIM_SCENARIO_FAULTS_H
#define SLIMSIM_SCENARIO_FAULTS_H

#include "scenario/platform.h"
#include "scenario/schema.h"

/** What of a GPU is slow: its computing, or one of its links, in both directions. */
enum fault_kind { FAULT_GPU, FAULT_NVLINK, FAULT_NIC, FAULT_PCIE, FAULT_N_KINDS };

extern const char *const fault_kind_name[FAULT_N_KINDS];

enum { FAULT_MOST = 1000 }; /* entries */

/** One entry. Its devices: those of `gpus`, or of all GPUs of `nodes`, or (share > 0) drawn. */
struct fault {
    int32_t kind; /* enum fault_kind */
    struct schema_ints gpus, nodes;
    double share;  /* of all GPUs, rounded to whole ones */
    int64_t seed;  /* of the draw */
    double factor; /* work takes so many times as long, bandwidth is divided by it; at least 1 */
};

/** Every GPU's factors. Zeroed: all sound. */
struct faults {
    int32_t n_gpus; /* 0: no fault */
    double *factor; /* [FAULT_N_KINDS x n_gpus], 1: sound; several faults of one device multiply */
};

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

static inline double faults_factor(const struct faults *faults, enum fault_kind kind, int32_t gpu)
{
    return faults != NULL && faults->n_gpus > 0 ? faults->factor[(int32_t)kind * faults->n_gpus + gpu] : 1;
}

/** The largest factor of this kind. */
double faults_worst(const struct faults *faults, enum fault_kind kind);

void faults_free(struct faults *faults);

#endif
