/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Rows of measured kernels and collectives as what a curve is fitted to, or held against. */
#ifndef SLIMSIM_VALIDATE_SAMPLE_H
#define SLIMSIM_VALIDATE_SAMPLE_H

#include "cost/cost.h"
#include "validate/measured.h"

/** One measurement. `span`: what the device's ranges are of, in the order of the family's range fields. */
struct sample {
    const struct measured *file; /* borrowed */
    int32_t row;                 /* of the file */
    const char *id;              /* borrowed from the file */
    double seconds;
    struct cost_gemm gemm;
    struct cost_attention attention;
    bool causal, from_host; /* from_host: timed by events around the call, which adds a constant */
    bool other_release;     /* of analysis/measure_kernels.py: its libraries and clock are not those of other rows */
    double bytes;           /* of a memory-bound kernel, a message or a tensor */
    int32_t ranks, nodes;
    double span[3];
};

struct samples {
    int32_t n;
    size_t capacity;
    struct sample *sample;
};

/** Where rows come from. All borrowed. */
struct sample_source {
    const struct measured *kernels, *collectives; /* collectives: NULL for none */
    const struct device *device;                  /* its data sheet */
    bool open;                                    /* rows of split open in place of calib */
};

/**
 * bf16 GEMMs with M, N and K; op with "to fp32" or "to bf16": added to a sum, 8 or 4 bytes an element. Rows faster than
 * the most that a search over shapes sustained on the same machine (rows "max over a shape search", 1% for rounding)
 * are left out: they ran on data or clocks that a training step has not.
 */
void samples_gemm(const struct sample_source *source, struct samples *samples);

/**
 * Attention, 64 or 128 channels a head, causal or not, packed or not, of one kernel and pass: seq_len queries of whole
 * samples, or the last of `keys` keys. A backward that was only measured together with the forward is the difference to
 * the forward of the same shape. FLOPs: 4 a query, key and channel (backward 10), half of it causal.
 */
void samples_attention(const struct sample_source *source, enum device_attention kernel, enum pass pass,
                       struct samples *samples);

/**
 * Kernels as frameworks run them, with the bytes that cost/ counts: norms (Liger, cuDNN), LayerNorm and GELU (PyTorch),
 * SwiGLU (Megatron, Liger), Megatron's fused cross-entropy, copies and casts. Where the bench timed a backward with its
 * forward, the forward is taken off. Bytes of a machine with other memory are scaled to the device's: the curve is a
 * share of it.
 */
void samples_memory(const struct sample_source *source, enum device_memory_kind kind, struct samples *samples);

/** Collectives of one node by size; without size (all_to_all) a byte at the plateau's bandwidth. */
void samples_collective(const struct sample_source *source, enum device_collective_kind kind, struct samples *samples);

/** All-reduces over nodes by size. */
void samples_fabric(const struct sample_source *source, struct samples *samples);

/** Messages from one GPU to another of its node, or of another one, by size. */
void samples_link(const struct sample_source *source, bool same_node, struct samples *samples);

/** Large messages over one NIC, and copies to or from the host: a byte at the plateau's bandwidth (ranks 1), copies
 * also by size. */
void samples_nic_plateau(const struct sample_source *source, struct samples *samples);
void samples_pcie(const struct sample_source *source, struct samples *samples);

/**
 * Rows of one of the source's files that are of the device and the split, but not among `fitted`.
 * @param fitted  of each row of the file, whether a curve was fitted to it
 * @return        how many rows are of the device and the split, fitted or not
 */
int32_t samples_left(const struct sample_source *source, const struct measured *file, const bool *fitted,
                     struct samples *samples);

void samples_free(struct samples *samples);

#endif
