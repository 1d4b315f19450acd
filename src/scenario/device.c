/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scenario/device.h"

#include <stdio.h>

#include "scenario/library.h"
#include "scenario/schema.h"

#define FIELD(field) offsetof(struct device, field)

/* An efficiency of 0 would make times infinite: the limits ask for at least a thousandth. */
#define REAL(name, unit, min, max, meaning, field)                                                                     \
    {                                                                                                                  \
        name, SCHEMA_REAL, unit, min, max, NULL, NULL, meaning, FIELD(field)                                           \
    }
#define SHARE(name, meaning, field) REAL(name, "-", 1e-3, 1, meaning, field)
#define HALF(name, meaning, field)  REAL(name, "-", 0, 1e9, meaning, field)
#define FLASH(name, pass, index)                                                                                       \
    SHARE("attention." name "." #pass ".efficiency", "of the peak, for large shapes", pass[index].efficiency),         \
        HALF("attention." name "." #pass ".q_half", "queries that halve the efficiency", pass[index].q_half),          \
        HALF("attention." name "." #pass ".k_half", "keys that halve the efficiency", pass[index].k_half),             \
        HALF("attention." name "." #pass ".d_half", "head dimension that halves the efficiency", pass[index].d_half)
#define LINK(name)                                                                                                     \
    REAL(#name ".latency_s", "s", 0, 1, "of a message", name.latency_s),                                               \
        SHARE(#name ".efficiency", "of the platform's bandwidth, for large messages", name.efficiency),                \
        REAL(#name ".ramp_bytes", "bytes", 0, 1e12, "bytes added to large messages", name.ramp_bytes)

static const struct schema_key keys[] = {
    {"name", SCHEMA_WORD, "-", 0, 0, NULL, NULL, "of the device", FIELD(name)},
    {"source", SCHEMA_TEXT, "-", 0, 0, NULL, NULL, "where the numbers come from", FIELD(source)},
    REAL("peak_flop_per_s", "flop/s", 1e9, 1e18, "bf16 dense", peak_flop_per_s),
    REAL("hbm_bytes_per_s", "bytes/s", 1e9, 1e15, "bandwidth of the GPU's memory", hbm_bytes_per_s),
    REAL("memory_bytes", "bytes", 1e9, 1e15, "what a process can allocate at most", memory_bytes),
    REAL("context_bytes", "bytes", 0, 1e12, "CUDA context and NCCL, outside the allocator", context_bytes),
    REAL("launch_s", "s", 0, 1, "of a kernel", launch_s),
    SHARE("memory_bound_share", "of hbm_bytes_per_s that memory-bound kernels reach", memory_bound_share),
    SHARE("gemm.efficiency", "of the peak, for large shapes", gemm.efficiency),
    HALF("gemm.m_half", "rows that halve the efficiency", gemm.m_half),
    HALF("gemm.n_half", "columns that halve the efficiency", gemm.n_half),
    HALF("gemm.k_half", "inner width that halves the efficiency", gemm.k_half),
    FLASH("flash2", forward, DEVICE_FLASH2),
    FLASH("flash2", backward, DEVICE_FLASH2),
    FLASH("flash3", forward, DEVICE_FLASH3),
    FLASH("flash3", backward, DEVICE_FLASH3),
    FLASH("cudnn", forward, DEVICE_CUDNN),
    FLASH("cudnn", backward, DEVICE_CUDNN),
    LINK(nvlink),
    LINK(nic),
    LINK(pcie),
};

/* How the numbers were found: for readers of the file. */
static const char *const documentation[] = {"fit", "sources", NULL};

bool device_read(const char *data_dir, const char *name, struct device *device, struct error *err)
{
    char folder[1024], path[1024];
    struct document document = {0};
    snprintf(folder, sizeof folder, "%s/model/gpu", data_dir);
    *device = (struct device){0};
    if (!library_find(folder, name, ".yaml", "device", path, err) || !document_read(path, &document, err))
        return false;
    bool ok = schema_read(&document, 0, keys, sizeof keys / sizeof *keys, documentation, device, err);
    document_free(&document);
    return ok;
}
