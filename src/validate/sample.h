/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module turns rows of measured kernels and collectives into samples, which a curve is fitted to or compared
 * with. */
#ifndef SLIMSIM_VALIDATE_SAMPLE_H
#define SLIMSIM_VALIDATE_SAMPLE_H

#include "cost/kernel.h"
#include "validate/measured.h"

/** One measurement. `span` holds the values of the device's ranges, in the order of the family's range fields. */
struct sample {
    const struct measured *file; /* borrowed */
    int32_t row;                 /* row of the file */
    const char *id;              /* borrowed from the file */
    double seconds;
    struct cost_gemm gemm;
    struct cost_attention attention;
    bool causal, from_host; /* from_host: timed by events around the call, which add a constant */
    bool other_release;  /* a row of analysis/measure_kernels.py, whose libraries and clock differ from those of other
                            rows, or of a machine that the column `machine` names as slower than others */
    const char *machine; /* borrowed: that column; "": none */
    double bytes;        /* bytes of a memory-bound kernel, a message or a tensor */
    int32_t ranks, nodes;
    double span[3];
};

struct samples {
    int32_t n;
    size_t capacity;
    struct sample *sample;
};

/** Sources of rows. All are borrowed. */
struct sample_source {
    const struct measured *kernels, *collectives; /* collectives: NULL for none */
    const struct device *device;                  /* data sheet of the device */
    bool open;                                    /* use rows of split open instead of calib */
};

/**
 * Add GEMMs of a precision with M, N and K. An op with "to fp32" or "to bf16" adds to a sum, 8 or 4 bytes an element.
 * Rows faster than the rate that a search over shapes sustained on the same machine are left out. The search's rows are
 * "max over a shape search", with 1% for rounding. Faster rows ran on data or clocks that a training step does not
 * have.
 */
void samples_gemm(const struct sample_source *source, enum precision precision, struct samples *samples);

/**
 * Add attention of one kernel and pass with 64 or 128 channels a head, causal or not, packed or not.
 * 1. The queries are seq_len queries of whole samples, or the last of `keys` keys.
 * 2. If a backward pass was only measured together with the forward pass, the forward time of the same shape is
 * subtracted.
 * 3. A query, key and channel has 4 FLOPs (backward 10), half of that if causal.
 */
void samples_attention(const struct sample_source *source, enum device_attention kernel, enum pass pass,
                       struct samples *samples);

/**
 * Add kernels that frameworks run, with the bytes that cost/ counts: norms (Liger, cuDNN), LayerNorm and GELU
 * (PyTorch), SwiGLU (Megatron, Liger), Megatron's fused cross-entropy, copies and casts. If the bench timed a backward
 * pass with its forward pass, the forward time is subtracted. Bytes of a machine with other memory are scaled to the
 * device's, since the curve is a share of its bandwidth.
 */
void samples_memory(const struct sample_source *source, enum device_memory_kind kind, struct samples *samples);

/** Add collectives of one node by size. Without size (all_to_all) a row is one byte at the plateau's bandwidth. */
void samples_collective(const struct sample_source *source, enum device_collective_kind kind, struct samples *samples);

/** Add all-reduces over nodes by size. */
void samples_fabric(const struct sample_source *source, struct samples *samples);

/** Add messages from one GPU to another of its node, or of another node, by size. */
void samples_link(const struct sample_source *source, bool same_node, struct samples *samples);

/** Add large messages over one NIC, and copies to or from the host. A row is one byte at the plateau's bandwidth (ranks
 * 1). Copies are also added by size. */
void samples_nic_plateau(const struct sample_source *source, struct samples *samples);
void samples_pcie(const struct sample_source *source, struct samples *samples);

/**
 * Add rows of one of the source's files that belong to the device and the split but not to `fitted`.
 * @param fitted  for each row of the file, whether a curve was fitted to it
 * @return        number of rows of the device and the split, fitted or not
 */
int32_t samples_left(const struct sample_source *source, const struct measured *file, const bool *fitted,
                     struct samples *samples);

void samples_free(struct samples *samples);

#endif
