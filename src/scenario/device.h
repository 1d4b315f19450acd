/* SPDX-License-Identifier: GPL-3.0-or-later */
/** GPUs: data-sheet limits and curves fitted to measured kernels, from model/gpu/NAME.yaml. */
#ifndef SLIMSIM_SCENARIO_DEVICE_H
#define SLIMSIM_SCENARIO_DEVICE_H

#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "scenario/schema.h"

/** Kernels of attention. The first DEVICE_N_CURVES have curves of their own; flash1, flash-attention's first version as
 * PyTorch frameworks of early 2023 called it, takes a multiple of flash2's time; unfused is batched GEMMs and passes
 * over all scores (cost/attention.h). */
enum device_attention {
    DEVICE_FLASH2,
    DEVICE_FLASH3,
    DEVICE_CUDNN,
    DEVICE_N_CURVES,
    DEVICE_FLASH1 = DEVICE_N_CURVES,
    DEVICE_UNFUSED
};
#define DEVICE_ATTENTION "flash2|flash3|cudnn|flash1|unfused"

/** Kernels whose time is that of their bytes: norms of fused kernels; LayerNorm of PyTorch; SwiGLU; GELU and what
 * compilers make of SwiGLU; the loss; copies are all other element-wise kernels and the optimizer. */
enum device_memory_kind {
    DEVICE_NORM,
    DEVICE_LAYER_NORM,
    DEVICE_ACTIVATION,
    DEVICE_GELU,
    DEVICE_LOSS,
    DEVICE_COPY,
    DEVICE_N_MEMORY
};

/** Collectives over NVLink. NVLS: the all-reduce that the switches add up (5 GPUs and more). */
enum device_collective_kind {
    DEVICE_ALL_GATHER,
    DEVICE_REDUCE_SCATTER,
    DEVICE_ALL_REDUCE,
    DEVICE_NVLS,
    DEVICE_ALL_TO_ALL,
    DEVICE_N_COLLECTIVES
};

/** What the fitted rows span; beyond it a curve is extrapolated. Both 0: unknown, nothing is beyond. */
struct device_range {
    double min, max;
};

/**
 * A grid of output tiles over the multiprocessors, each 2 K FLOPs a position:
 *
 *     time = launch + max(products + epilogue x O, I + O)
 *     products = min over tiles a x b of  slowdown x 2 K a b W x multiprocessors / (peak x efficiency),
 *     W = w + wave (ceil w - w),   w = ceil(M/a) ceil(N/b) / multiprocessors
 *
 * The tiles are 128x256, 256x128 (slowdown 1) and 128x128 (slowdown 1 + small_tile). `wave`: share of the last wave's
 * idle multiprocessors that is not filled otherwise (split of K, overlap with the next kernel). I, O: seconds of the
 * memory to read the inputs and to write the output, 2 bytes an element at the share of copies; `epilogue`: share of O
 * that products do not hide. A weight's gradient that is added to a sum reads and writes it, 4 or 8 bytes an element,
 * at the share `sum` of the memory's bandwidth (0: unknown, it is only written).
 */
struct device_gemm {
    double efficiency, small_tile, wave, launch_s, epilogue, sum;
    struct device_range m, n, k;
};

/**
 *     time of a sequence = flop / (peak x efficiency) x (1 + q_half/queries) (1 + k_half/keys) D,
 *     time of a kernel   = launch + max(W + L (u idle + (1 - u) tail), L / alone),
 *     D = (1 + d_half/head_dim) / (1 + d_half/128),   idle = ceil(n/P) - n/P,   u = 2 W P/(n L) - 1 in 0..1
 *
 * W: sum over the kernel's sequences. A tile is 128 queries of one head (backward: 128 keys); n tiles run on P
 * multiprocessors, the longest of F FLOPs takes L = F P / (peak x efficiency) (1 + k_half/(2 keys)) D (backward:
 * q_half, queries). What the other one's half-length counts is the work that each tile has besides its products, the
 * own one's is the padding of a sequence. d_half: exponentials, which do not grow with the head's width. The end: tiles
 * all alike (W P = n L, slices behind a long prefix) run in waves, of which the last leaves multiprocessors idle; tiles
 * of a whole causal sample, from none of its keys to all (W P = n L/2), end with `tail` of a longest one alone; u
 * blends. alone: rate of a multiprocessor with one tile, as a share of that with as many as it holds (0: unknown, the
 * same). launch_s: start and drain, of all kernels that the pass consists of.
 */
struct device_flash {
    double efficiency, q_half, k_half, d_half, tail, alone, launch_s;
    struct device_range keys, head_dim;
};

/** time = latency + (bytes + ramp x bytes/(bytes + ramp)) / (efficiency x bandwidth of the platform's link) */
struct device_link {
    double latency_s, efficiency, ramp_bytes;
    struct device_range bytes;
};

/**
 * n GPUs of a node, of which each sends b bytes (n - 1 parts of n; NVLS: all bytes once):
 *
 *     time = latency + step (n - 1) + (b + ramp x b/(b + ramp)) (1 + pair/n) / (efficiency x NVLink's bandwidth)
 *
 * pair: fewer GPUs open fewer channels. efficiency 0: the device has no such collective.
 */
struct device_collective {
    double latency_s, step_s, efficiency, ramp_bytes, pair;
    struct device_range bytes;
};

/**
 * All-reduce over whole nodes, of which each NIC sends b bytes (2 (n - 1)/n of the tensor over its GPUs a node):
 *
 *     time = latency + hop log2(nodes) + (b + r b/(b + r)) / (efficiency x NIC's bandwidth),
 *     r = ramp (1 + ramp_hop log2(nodes))
 */
struct device_fabric {
    double latency_s, hop_s, efficiency, ramp_bytes, ramp_hop;
    struct device_range bytes;
};

/** NCCL's protocols: how a ring hands on what it sends. */
enum device_protocol { DEVICE_SIMPLE, DEVICE_LL128, DEVICE_N_PROTOCOLS };

/**
 * All-gather or reduce-scatter over nodes, which NCCL runs as rings through all n GPUs: each step hands a part to the
 * next one, and a part passes all of them. Each NIC sends b bytes; the protocol is the one of less time:
 *
 *     time = start + (n - nodes) nvlink + (nodes - 1) nic + b / (share x efficiency of the fabric x NIC's bandwidth)
 *
 * share_alone: in place of share with one GPU on each node. share 0: the device has no such protocol. Source:
 * NVIDIA/nccl, src/graph/tuning.cc (ncclTopoTuneModel: baseLat, hwLat; trees are for all-reduces only).
 */
struct device_ring {
    double start_s, nvlink_s, nic_s, share, share_alone;
};

/** What a training run adds to kernels and links measured alone. */
struct device_training {
    double collective_multiprocessors; /* that a collective over nodes takes from the kernels beside it */
    double node_multiprocessors;       /* likewise one inside a node */
    bool persistent_gemms;             /* a GEMM's blocks are as many as all multiprocessors, whatever else runs */
    double products; /* extra time of GEMMs and attention, as a share: clocks that power limits under lasting load, cold
                      * caches, gaps between kernels; fitted to training runs after the curves, as flash1; 0: none */
    double flash1;   /* extra time of flash1 over flash2, as a share */
};

struct device {
    char name[64];
    char source[512];
    double peak_flop_per_s; /* bf16 dense */
    double hbm_bytes_per_s;
    double nvlink_bytes_per_s;    /* of one direction, as the data sheet has it; 0: unknown. Links are the platform's */
    double memory_bytes;          /* what a process can allocate at most */
    double context_bytes;         /* CUDA context and NCCL, outside the allocator */
    double workspace_bytes;       /* that libraries keep inside the allocator once they have run: cuBLAS */
    bool nvls;                    /* the switches of NVLink add up: NVLS */
    double tensor_flop_per_clock; /* of a multiprocessor, bf16 dense; 0: as `like` */
    int64_t multiprocessors;      /* 0: work divides evenly, there are no waves and tails */
    char rows[512]; /* words in the column gpu of its measurements; "H200@4.8e12": of its chip with other memory */
    char like[64];  /* device whose curves stand in where there are no rows, "" for none */
    double node_nic_bytes_per_s; /* a platform's, where it gives none; each 0: unknown */
    double node_pcie_bytes_per_s;
    double node_host_memory_bytes;
    double measured_nvlink_bytes_per_s, measured_nic_bytes_per_s, measured_pcie_bytes_per_s; /* of those machines */
    struct device_training training;
    struct device_ring ring[DEVICE_N_PROTOCOLS];
    double launch_s;                      /* per kernel but GEMMs and attention */
    double memory_share[DEVICE_N_MEMORY]; /* of hbm_bytes_per_s, of the bytes that cost/ counts */
    struct device_range memory_range;     /* bytes of a kernel */
    struct device_gemm gemm;
    struct device_flash forward[DEVICE_N_CURVES], backward[DEVICE_N_CURVES];
    struct device_collective collective[DEVICE_N_COLLECTIVES];
    struct device_fabric fabric;
    struct device_link nvlink; /* one GPU to another of its node */
    struct device_link nic;    /* one flow between nodes, rails */
    struct device_link pcie;   /* host copies, pinned */
};

/** Read model/gpu/NAME.yaml below the data folder, or the file itself when `name` ends in .yaml. */
bool device_read(const char *data_dir, const char *name, struct device *device, struct error *err);

/** As device_read, but the data sheet alone: curves are neither needed nor read. @param path  [1024]: the file */
bool device_read_sheet(const char *data_dir, const char *name, struct device *device, char *path, struct error *err);

/** Write the curves as YAML lines that device_read takes. */
void device_write_curves(FILE *file, const struct device *device);

#endif
