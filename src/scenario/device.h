/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module describes GPUs: limits of data sheets and curves fitted to measured kernels, from model/gpu/NAME.yaml.
 */
#ifndef SLIMSIM_SCENARIO_DEVICE_H
#define SLIMSIM_SCENARIO_DEVICE_H

#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "document/schema.h"
#include "scenario/precision.h"

/**
 * Kernels of attention:
 * - The first DEVICE_N_CURVES have curves of their own.
 * - flash1 is flash-attention's first version as PyTorch frameworks of early 2023 called it. It takes a multiple of
 *   flash2's time.
 * - unfused consists of batched GEMMs and passes over all scores (cost/attention.h).
 */
enum device_attention {
    DEVICE_FLASH2,
    DEVICE_FLASH3,
    DEVICE_CUDNN,
    DEVICE_N_CURVES,
    DEVICE_FLASH1 = DEVICE_N_CURVES,
    DEVICE_UNFUSED,
    DEVICE_FASTEST /* the fastest of the first ones on the scenario's lengths (cost/attention_choice.h) */
};
#define DEVICE_ATTENTION "flash2|flash3|cudnn|flash1|unfused"

/**
 * Kernels whose time follows from their bytes, in this order:
 * - norms of fused kernels
 * - LayerNorm of PyTorch
 * - SwiGLU
 * - GELU, and the kernels that compilers make of SwiGLU
 * - the loss
 * - copies: all other element-wise kernels and the optimizer
 * - tokens brought into the order of experts and back, by one kernel or a gather; by atomic sums
 */
enum device_memory_kind {
    DEVICE_NORM,
    DEVICE_LAYER_NORM,
    DEVICE_ACTIVATION,
    DEVICE_GELU,
    DEVICE_LOSS,
    DEVICE_COPY,
    DEVICE_PERMUTE,
    DEVICE_SCATTER,
    DEVICE_N_MEMORY
};

/** Collectives over NVLink. NVLS is the all-reduce that the switches add up (5 GPUs and more). */
enum device_collective_kind {
    DEVICE_ALL_GATHER,
    DEVICE_REDUCE_SCATTER,
    DEVICE_ALL_REDUCE,
    DEVICE_NVLS,
    DEVICE_ALL_TO_ALL,
    DEVICE_N_COLLECTIVES
};

/** The range of the fitted rows. A curve is extrapolated beyond it. If both are 0, the range is unknown and nothing is
 * beyond it. */
struct device_range {
    double min, max;
};

/**
 * The time of a GEMM: a grid of output tiles over the multiprocessors, each with 2 K FLOPs a position.
 *
 *     time = launch + max(products + epilogue x O, I + O)
 *     products = min over tiles a x b of  slowdown x 2 K a b W x multiprocessors / (peak x efficiency),
 *     W = w + wave (ceil w - w),   w = ceil(M/a) ceil(N/b) / multiprocessors
 *
 * 1. The tiles are 128x256, 256x128 (slowdown 1) and 128x128 (slowdown 1 + small_tile).
 * 2. `wave` is the share of the last wave's idle multiprocessors that nothing else fills. Split of K and overlap with
 * the next kernel can fill them.
 * 3. I and O are the seconds of the memory to read the inputs and to write the output. They count 2 bytes an element at
 *    the share of copies.
 * 4. `epilogue` is the share of O that products do not hide.
 * 5. A weight's gradient that is added to a sum reads and writes it, 4 or 8 bytes an element. This happens at the share
 *    `sum` of the memory's bandwidth (0: unknown, it is only written).
 */
struct device_gemm {
    double efficiency, small_tile, wave, launch_s, epilogue, sum;
    struct device_range m, n, k;
};

/**
 * The time of an attention kernel of one pass:
 *
 *     time of a sequence = flop / (peak x efficiency) x (1 + q_half/queries) (1 + k_half/keys) D,
 *     time of a kernel   = launch + max(W + L (u idle + (1 - u) tail), L / alone),
 *     D = (1 + d_half/head_dim) / (1 + d_half/128),   idle = ceil(n/P) - n/P,   u = 2 W P/(n L) - 1 in 0..1
 *
 * 1. W is the sum over the kernel's sequences.
 * 2. A tile is 128 queries of one head (backward: 128 keys). n tiles run on P multiprocessors.
 * 3. The longest tile, of F FLOPs, takes L = F P / (peak x efficiency) (1 + k_half/(2 keys)) D (backward: q_half,
 * queries).
 * 4. The half-length of the other operand counts the work that each tile has besides its products. The half-length of
 * its own operand counts the padding of a sequence.
 * 5. d_half counts exponentials, which do not grow with the head's width.
 * 6. Equal tiles (W P = n L, slices behind a long prefix) run in waves. The last wave leaves multiprocessors idle.
 * 7. Tiles of a whole causal sample see from none of its keys to all (W P = n L/2). They end with `tail` of a longest
 * tile that runs by itself. u blends 6 and 7.
 * 8. `alone` is the rate of a multiprocessor with one tile, as a share of its rate when full. 0 means
 * that the rate is unknown and taken as the same.
 * 9. launch_s is start and drain of all kernels of the pass.
 */
struct device_flash {
    double efficiency, q_half, k_half, d_half, tail, alone, launch_s;
    struct device_range keys, head_dim;
};

/** A link: time = latency + (bytes + ramp x bytes/(bytes + ramp)) / (efficiency x bandwidth of the platform's link) */
struct device_link {
    double latency_s, efficiency, ramp_bytes;
    struct device_range bytes;
};

/**
 * A collective of n GPUs of a node, in which each GPU sends b bytes (n - 1 parts of n; NVLS: all bytes once):
 *
 *     time = latency + step (n - 1) + (b + ramp x b/(b + ramp)) (1 + pair/n) / (efficiency x NVLink's bandwidth)
 *
 * `pair` exists because fewer GPUs open fewer channels. With efficiency 0 the device has no such collective.
 */
struct device_collective {
    double latency_s, step_s, efficiency, ramp_bytes, pair;
    struct device_range bytes;
};

/**
 * An all-reduce over whole nodes. Each NIC sends b bytes (2 (n - 1)/n of the tensor over its GPUs a node):
 *
 *     time = latency + hop log2(nodes) + (b + r b/(b + r)) / (efficiency x NIC's bandwidth),
 *     r = ramp (1 + ramp_hop log2(nodes))
 */
struct device_fabric {
    double latency_s, hop_s, efficiency, ramp_bytes, ramp_hop;
    struct device_range bytes;
};

/** NCCL's protocols by which a ring passes data on. */
enum device_protocol { DEVICE_SIMPLE, DEVICE_LL128, DEVICE_N_PROTOCOLS };

/**
 * An all-gather or reduce-scatter over nodes. NCCL runs it as rings through all n GPUs: each step passes a part to the
 * next GPU, and a part visits all of them. Each NIC sends b bytes. NCCL takes the protocol with less time:
 *
 *     time = start + (n - nodes) nvlink + (nodes - 1) nic + b / (share x efficiency of the fabric x NIC's bandwidth)
 *
 * share_alone replaces share if each node has one GPU. With share 0 the device has no such protocol. Source:
 * NVIDIA/nccl, src/graph/tuning.cc (ncclTopoTuneModel: baseLat, hwLat; trees are for all-reduces only).
 */
struct device_ring {
    double start_s, nvlink_s, nic_s, share, share_alone;
};

/** Losses that a training run adds to kernels and links that were measured by themselves. */
struct device_training {
    double
        collective_multiprocessors; /* multiprocessors that a collective over nodes takes from the kernels beside it */
    double node_multiprocessors;    /* multiprocessors that a collective inside a node takes */
    bool persistent_gemms; /* a GEMM has as many blocks as the device has multiprocessors, whatever else runs */
    double products; /* extra time of GEMMs and attention, as a share; 0: none. Its causes are clocks under lasting
                        load, cold caches and gaps between kernels. It is fitted to training runs after the curves, like
                        flash1 */
    double flash1;   /* extra time of flash1 over flash2, as a share */
};

/**
 * How the GEMMs of a rank's experts run:
 * - sequential: one after the other, as other GEMMs do
 * - multi_stream: one after the other, but launched on several streams, which hides launches (Transformer Engine)
 * - grouped: in one kernel, whose waves they share (torch._grouped_mm)
 */
enum device_expert_gemms { DEVICE_SEQUENTIAL, DEVICE_MULTI_STREAM, DEVICE_GROUPED, DEVICE_N_EXPERT_GEMMS };
#define DEVICE_EXPERT_GEMMS "sequential|multi-stream|grouped"

/** The curve of experts' GEMMs is that of other GEMMs but for these values. */
struct device_expert_curve {
    double efficiency; /* share of gemm.efficiency; 0: all of it */
    double launch_s;   /* of one kernel; 0: gemm.launch_s */
    double memory;     /* share of hbm_bytes_per_s of inputs and outputs; 0: that of copies */
    double epilogue;   /* 0: gemm.epilogue */
};

/** A way of tokens to experts by DeepEP's kernels (cost/dispatch.h). In one NVLink domain it takes latency_s + bytes /
 * (nvlink x bandwidth), over several nodes_latency_s + the longer of NIC and bytes / (forward x NVLink's bandwidth). */
struct device_dispatch {
    double latency_s, nvlink, nodes_latency_s, forward;
};

/** Where an attention kernel's curves come from. */
struct device_attention_rows {
    char device[64];      /* device whose rows the forward curve was fitted to */
    bool own, generation; /* on the same chip; on one whose compute capability has the same whole part */
};

/** Kernels and links of experts. Shares of links are 0 if they were not measured. */
struct device_experts {
    struct device_expert_curve gemm[DEVICE_N_EXPERT_GEMMS]; /* sequential: all 0 */
    double router_token_bytes, router_expert_bytes; /* bytes of a token that its scores' kernels move, and of each of
                                                       its scores */
    struct device_dispatch deepep[2];               /* to experts, and back */
    struct device_dispatch hybrid_ep[2];            /* in an NVLink domain; nvlink 0: as deepep */
    double deepep_nic, hybrid_ep_nic;               /* share of the NIC's bandwidth */
};

struct device {
    char name[64];
    char source[512];
    double peak_flop_per_s[PRECISION_N_GEMM]; /* dense, of each precision */
    double fp8_flop_per_s;                    /* as in the data sheet, dense; 0: the device has none */
    double mxfp8; /* rate of GEMMs in mxfp8 over that in fp8-tensor, from which its curve is made; 0: none */
    double hbm_bytes_per_s;
    double nvlink_bytes_per_s;    /* of one direction, as in the data sheet; 0: unknown. A platform has the links' own
                                     values */
    double memory_bytes;          /* largest amount that a process can allocate */
    double context_bytes;         /* CUDA context and NCCL, outside the allocator */
    double workspace_bytes;       /* bytes that libraries (cuBLAS) keep inside the allocator once they have run */
    bool nvls;                    /* NVLS: the switches of NVLink add up */
    double tensor_flop_per_clock; /* of a multiprocessor, bf16 dense; 0: that of `like` */
    int64_t multiprocessors;      /* 0: work divides evenly, so there are no waves and tails */
    char rows[512]; /* words in the column gpu of its measurements; "H200@4.8e12": rows of its chip with other memory */
    char like[64];  /* device whose curves replace missing rows; "": none */
    char like_collective[64];  /* device whose collectives inside a domain do; "": that of `like` */
    char like_gemm[64];        /* device whose GEMM curves do; "": that of `like` */
    char power[64];            /* power of its nodes, a name of model/power; "": unknown */
    double compute_capability; /* of NVIDIA's chips, 9.0; 0: that of `like` */
    bool own_curves;           /* the curves were measured on its chip; device_follow_like fills in these two */
    char curves_of[64];        /* device at the end of `like`, which was measured */
    struct device_attention_rows attention_rows[DEVICE_N_CURVES]; /* device_read fills them in */
    double node_nic_bytes_per_s; /* these four are defaults of a platform; each 0: unknown */
    double node_pcie_bytes_per_s;
    double node_numa_bytes_per_s;
    double node_host_memory_bytes;
    double node_host_adam_bytes_per_s; /* of all CPUs of a node; 0: unknown */
    double measured_nvlink_bytes_per_s, measured_nic_bytes_per_s,
        measured_pcie_bytes_per_s; /* links of the machines that were measured */
    struct device_training training;
    struct device_experts experts;
    struct device_ring ring[DEVICE_N_PROTOCOLS];
    double launch_s;                      /* of a kernel, except GEMMs and attention */
    double memory_share[DEVICE_N_MEMORY]; /* share of hbm_bytes_per_s, for the bytes that cost/ counts */
    struct device_range memory_range;     /* bytes of a kernel */
    struct device_gemm gemm[PRECISION_N_GEMM];
    struct device_flash forward[DEVICE_N_CURVES], backward[DEVICE_N_CURVES];
    struct device_collective collective[DEVICE_N_COLLECTIVES];
    struct device_fabric fabric;
    struct device_link nvlink; /* one GPU to another of its node */
    struct device_link nic;    /* one flow between nodes, rails */
    struct device_link pcie;   /* host copies, pinned */
};

/** Read model/gpu/NAME.yaml below the data folder, or the file `name` if it ends in .yaml. */
bool device_read(const char *data_dir, const char *name, struct device *device, struct error *err);

/** Read only the data sheet; curves are neither required nor read. @param path  [1024]: receives the file's path */
bool device_read_sheet(const char *data_dir, const char *name, struct device *device, char *path, struct error *err);

/**
 * Follow `like` to the device that was measured, and fill in what this one takes from there: compute_capability,
 * curves_of, own_curves. The curves are its own if each device on the way has its chip.
 */
void device_follow_like(const char *data_dir, struct device *device);

/** Return whether a device's chip is NVIDIA's Blackwell or later. */
static inline bool device_is_blackwell(const struct device *device)
{
    return device->compute_capability >= 10;
}

/**
 * Return whether a kernel of attention is among those of the device. If one was measured on the chip's generation, only
 * such kernels are, and flash2. So Blackwell has cuDNN's and not flash-attention 3, which does not run there.
 */
bool device_has_attention(const struct device *device, enum device_attention kernel);

/** Write the curves as YAML lines that device_read reads. */
void device_write_curves(FILE *file, const struct device *device);

#endif
