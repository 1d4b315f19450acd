/* SPDX-License-Identifier: GPL-3.0-or-later */
/** GPUs: data-sheet limits and curves fitted to measured kernels, from model/gpu/NAME.yaml. */
#ifndef SLIMSIM_SCENARIO_DEVICE_H
#define SLIMSIM_SCENARIO_DEVICE_H

#include "base/error.h"

enum device_attention { DEVICE_FLASH2, DEVICE_FLASH3, DEVICE_CUDNN, DEVICE_N_ATTENTION };

/** time = flop / (peak x efficiency) x (1 + m_half/M + n_half/N + k_half/K) + launch */
struct device_gemm {
    double efficiency, m_half, n_half, k_half;
};

/** time = flop / (peak x efficiency) x (1 + q_half/queries + k_half/keys + d_half/head_dim) + launch */
struct device_flash {
    double efficiency, q_half, k_half, d_half;
};

/** time = latency + (bytes + ramp x bytes/(bytes + ramp)) / (efficiency x bandwidth of the platform's link) */
struct device_link {
    double latency_s, efficiency, ramp_bytes;
};

struct device {
    char name[64];
    char source[512];
    double peak_flop_per_s; /* bf16 dense */
    double hbm_bytes_per_s;
    double memory_bytes;       /* what a process can allocate at most */
    double context_bytes;      /* CUDA context and NCCL, outside the allocator */
    double launch_s;           /* per kernel */
    double memory_bound_share; /* of hbm_bytes_per_s that norms, activations and the optimizer reach */
    struct device_gemm gemm;
    struct device_flash forward[DEVICE_N_ATTENTION], backward[DEVICE_N_ATTENTION];
    struct device_link nvlink; /* collectives inside a node */
    struct device_link nic;    /* one flow between nodes, rails */
    struct device_link pcie;   /* host copies, pinned */
};

/** Read model/gpu/NAME.yaml below the data folder, or the file itself when `name` ends in .yaml. */
bool device_read(const char *data_dir, const char *name, struct device *device, struct error *err);

#endif
