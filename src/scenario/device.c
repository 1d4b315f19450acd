/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scenario/device.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "document/document_read.h"
#include "document/library.h"
#include "document/schema_text.h"

#define FIELD(field) offsetof(struct device, field)

/* An efficiency of 0 would make times infinite, so the limits ask for at least a thousandth. */
#define KEY(name, unit, min, max, fallback, meaning, field)                                                            \
    {                                                                                                                  \
        name, SCHEMA_REAL, unit, min, max, fallback, NULL, meaning, FIELD(field)                                       \
    }
#define REAL(name, unit, min, max, meaning, field) KEY(name, unit, min, max, NULL, meaning, field)
#define SHARE(name, meaning, field)                REAL(name, "-", 1e-3, 1, meaning, field)
#define HALF(name, meaning, field)                 REAL(name, "-", 0, 1e9, meaning, field)
#define RANGE(name, unit, field)                                                                                       \
    KEY(name "_min", unit, 0, 1e15, "0", "smallest value of the fitted rows", field.min),                              \
        KEY(name "_max", unit, 0, 1e15, "0", "largest value of the fitted rows", field.max)
#define GEMM(name, index, fallback)                                                                                    \
    KEY(name ".small_tile", "-", 0, 1e9, fallback, "extra time of a small tile", gemm[index].small_tile),              \
        KEY(name ".wave", "-", 0, 1, fallback, "share of the last wave's gap that stays idle", gemm[index].wave),      \
        KEY(name ".launch_s", "s", 0, 1, fallback, "start and drain of a GEMM", gemm[index].launch_s),                 \
        KEY(name ".epilogue", "-", 0, 1, fallback, "share of writing the output that products do not hide",            \
            gemm[index].epilogue),                                                                                     \
        KEY(name ".sum", "-", 0, 1, fallback, "share of hbm_bytes_per_s that adding to a sum of gradients reaches",    \
            gemm[index].sum),                                                                                          \
        RANGE(name ".m", "-", gemm[index].m), RANGE(name ".n", "-", gemm[index].n),                                    \
        RANGE(name ".k", "-", gemm[index].k)
#define FLASH(name, pass, index)                                                                                       \
    SHARE("attention." name "." #pass ".efficiency", "share of the peak, for long sequences", pass[index].efficiency), \
        HALF("attention." name "." #pass ".q_half", "queries that halve the efficiency", pass[index].q_half),          \
        HALF("attention." name "." #pass ".k_half", "keys that halve the efficiency", pass[index].k_half),             \
        HALF("attention." name "." #pass ".d_half", "head width whose products take as long as the exponentials",      \
             pass[index].d_half),                                                                                      \
        REAL("attention." name "." #pass ".tail", "-", 0, 1, "longest tiles that run by themselves at the end",        \
             pass[index].tail),                                                                                        \
        REAL("attention." name "." #pass ".alone", "-", 0, 1,                                                          \
             "rate of a multiprocessor with one tile, as a share of its full rate", pass[index].alone),                \
        REAL("attention." name "." #pass ".launch_s", "s", 0, 1, "start and drain of the pass", pass[index].launch_s), \
        RANGE("attention." name "." #pass ".keys", "tokens", pass[index].keys),                                        \
        RANGE("attention." name "." #pass ".head_dim", "-", pass[index].head_dim)
#define COLLECTIVE(name, index, least)                                                                                 \
    REAL("collective." name ".latency_s", "s", 0, 1, "latency of the collective", collective[index].latency_s),        \
        REAL("collective." name ".step_s", "s", 0, 1, "time for each further GPU", collective[index].step_s),          \
        REAL("collective." name ".efficiency", "-", least, 1, "share of the platform's bandwidth, for large messages", \
             collective[index].efficiency),                                                                            \
        REAL("collective." name ".ramp_bytes", "bytes", 0, 1e12, "bytes added to large messages",                      \
             collective[index].ramp_bytes),                                                                            \
        HALF("collective." name ".pair", "GPUs that halve the efficiency", collective[index].pair),                    \
        RANGE("collective." name ".bytes", "bytes", collective[index].bytes)
#define LINK(name)                                                                                                     \
    REAL(#name ".latency_s", "s", 0, 1, "latency of a message", name.latency_s),                                       \
        SHARE(#name ".efficiency", "share of the platform's bandwidth, for large messages", name.efficiency),          \
        REAL(#name ".ramp_bytes", "bytes", 0, 1e12, "bytes added to large messages", name.ramp_bytes),                 \
        RANGE(#name ".bytes", "bytes", name.bytes)
#define PROTOCOL(name, index)                                                                                          \
    REAL("rings." name ".start_s", "s", 0, 1, "start of a ring over nodes", ring[index].start_s),                      \
        REAL("rings." name ".nvlink_s", "s", 0, 1, "time of a step inside a node", ring[index].nvlink_s),              \
        REAL("rings." name ".nic_s", "s", 0, 1, "time of a step between nodes", ring[index].nic_s),                    \
        SHARE("rings." name ".share", "share of the fabric's efficiency", ring[index].share),                          \
        SHARE("rings." name ".share_alone", "share of the fabric's efficiency with one GPU on each node",              \
              ring[index].share_alone)

#define EXPERT_GEMMS(name, index)                                                                                      \
    KEY("experts." name ".efficiency", "-", 0, 1, "0", "share of gemm.efficiency; 0: all of it",                       \
        experts.gemm[index].efficiency),                                                                               \
        KEY("experts." name ".launch_s", "s", 0, 1, "0", "start and drain of a kernel; 0: gemm.launch_s",              \
            experts.gemm[index].launch_s),                                                                             \
        KEY("experts." name ".memory", "-", 0, 1, "0", "share of hbm_bytes_per_s; 0: memory.copy",                     \
            experts.gemm[index].memory),                                                                               \
        KEY("experts." name ".epilogue", "-", 0, 1, "0",                                                               \
            "share of writing the output that products do not hide; 0: gemm.epilogue", experts.gemm[index].epilogue)
#define DISPATCH(name, way)                                                                                            \
    KEY("experts.deepep." name ".latency_s", "s", 0, 1, "0", "latency in an NVLink domain",                            \
        experts.deepep[way].latency_s),                                                                                \
        KEY("experts.deepep." name ".nvlink", "-", 0, 1, "0", "share of NVLink's bandwidth in a domain",               \
            experts.deepep[way].nvlink),                                                                               \
        KEY("experts.deepep." name ".nodes_latency_s", "s", 0, 1, "0", "latency over several domains",                 \
            experts.deepep[way].nodes_latency_s),                                                                      \
        KEY("experts.deepep." name ".forward", "-", 0, 1, "0",                                                         \
            "share of NVLink's bandwidth at which a domain passes tokens on", experts.deepep[way].forward)
#define HYBRID_EP(name, way)                                                                                           \
    KEY("experts.hybrid_ep." name ".latency_s", "s", 0, 1, "0", "latency in an NVLink domain",                         \
        experts.hybrid_ep[way].latency_s),                                                                             \
        KEY("experts.hybrid_ep." name ".nvlink", "-", 0, 1, "0",                                                       \
            "share of NVLink's bandwidth in a domain; 0: both as DeepEP's", experts.hybrid_ep[way].nvlink)

static const struct schema_key sheet[] = {
    {"name", SCHEMA_WORD, "-", 0, 0, NULL, NULL, "name of the device", FIELD(name)},
    {"source", SCHEMA_TEXT, "-", 0, 0, NULL, NULL, "source of the numbers", FIELD(source)},
    REAL("peak_flop_per_s", "flop/s", 1e9, 1e18, "peak of dense bf16", peak_flop_per_s[PRECISION_BF16]),
    KEY("fp8_flop_per_s", "flop/s", 0, 1e18, "0", "peak of dense fp8; 0: the device has none", fp8_flop_per_s),
    KEY("mxfp8", "-", 0, 1, "0",
        "rate of GEMMs in mxfp8 over that in fp8-tensor, from which its curve is made; 0: none", mxfp8),
    REAL("hbm_bytes_per_s", "bytes/s", 1e9, 1e15, "bandwidth of the GPU's memory", hbm_bytes_per_s),
    KEY("nvlink_bytes_per_s", "bytes/s", 0, 1e15, "0",
        "bandwidth of one direction, for platforms that give none; 0: unknown", nvlink_bytes_per_s),
    REAL("memory_bytes", "bytes", 1e9, 1e15, "largest amount that a process can allocate", memory_bytes),
    REAL("context_bytes", "bytes", 0, 1e12, "memory of CUDA context and NCCL, outside the allocator", context_bytes),
    KEY("workspace_bytes", "bytes", 0, 1e12, "0", "memory that libraries keep inside the allocator once they have run",
        workspace_bytes),
    {"multiprocessors", SCHEMA_INT, "-", 0, 4096, NULL, NULL,
     "multiprocessors that tiles run on; 0: work divides evenly", FIELD(multiprocessors)},
    KEY("tensor_flop_per_clock", "-", 0, 1e6, "0",
        "FLOPs a clock of a multiprocessor, bf16 dense; 0: those of the device under like", tensor_flop_per_clock),
    KEY("compute_capability", "-", 0, 100, "0",
        "version of the chip's instructions by NVIDIA (9.0: Hopper), which says what attention kernels it may have; 0: "
        "that of the device under like",
        compute_capability),
    {"nvls", SCHEMA_BOOL, "-", 0, 0, "true", NULL, "the switches of NVLink add up", FIELD(nvls)},
    {"rows", SCHEMA_TEXT, "-", 0, 0, "", NULL,
     "words in the column gpu of its measurements; word@bandwidth: rows of the same chip with other memory",
     FIELD(rows)},
    {"like", SCHEMA_WORD, "-", 0, 0, "", NULL, "device whose curves replace missing rows", FIELD(like)},
    {"like_collective", SCHEMA_WORD, "-", 0, 0, "", NULL,
     "device whose curves of collectives over NVLink replace missing rows; \"\": that of the device under like",
     FIELD(like_collective)},
    {"like_gemm", SCHEMA_WORD, "-", 0, 0, "", NULL,
     "device whose GEMM curves replace missing rows, or lend few rows their shape; \"\": the device under like",
     FIELD(like_gemm)},
    KEY("node.nic", "bytes/s", 0, 1e15, "0",
        "bandwidth of a GPU's NIC in one direction, for platforms that give none; 0: unknown", node_nic_bytes_per_s),
    KEY("node.pcie", "bytes/s", 0, 1e15, "0",
        "bandwidth of a GPU's PCIe link in one direction, for platforms that give none; 0: unknown",
        node_pcie_bytes_per_s),
    KEY("node.numa", "bytes/s", 0, 1e15, "0",
        "bandwidth that GPUs of two sockets reach in one direction, for platforms without NVLink that give none; 0: "
        "unknown",
        node_numa_bytes_per_s),
    KEY("node.host_memory", "bytes", 0, 1e18, "0", "host memory of a node, for platforms that give none; 0: unknown",
        node_host_memory_bytes),
    KEY("node.host_adam", "bytes/s", 0, 1e15, "0",
        "bandwidth of a node's host memory that Adam on its CPUs reaches; 0: unknown", node_host_adam_bytes_per_s),
    {"power", SCHEMA_WORD, "-", 0, 0, "", NULL, "power of nodes with this device, a name of model/power", FIELD(power)},
    KEY("measured.nvlink", "bytes/s", 0, 1e15, "0",
        "bandwidth of one direction on the machines of measured collectives", measured_nvlink_bytes_per_s),
    KEY("measured.nic", "bytes/s", 0, 1e15, "0", "bandwidth of one direction on the machines of measured collectives",
        measured_nic_bytes_per_s),
    KEY("measured.pcie", "bytes/s", 0, 1e15, "0", "bandwidth of one direction on the machines of measured copies",
        measured_pcie_bytes_per_s),
};

/* Keys beside the data sheet, with sources of their own. calibrate keeps them unchanged. */
static const struct schema_key training[] = {
    REAL("training.collective_multiprocessors", "-", 0, 4096,
         "multiprocessors that a collective over nodes takes from the kernels beside it",
         training.collective_multiprocessors),
    REAL("training.node_multiprocessors", "-", 0, 4096,
         "multiprocessors that a collective in a node takes from the kernels beside it", training.node_multiprocessors),
    {"training.persistent_gemms", SCHEMA_BOOL, "-", 0, 0, NULL, NULL,
     "a GEMM has as many blocks as the device has multiprocessors, whatever else runs",
     FIELD(training.persistent_gemms)},
    PROTOCOL("simple", DEVICE_SIMPLE),
    PROTOCOL("ll128", DEVICE_LL128),
    EXPERT_GEMMS("multi_stream", DEVICE_MULTI_STREAM),
    EXPERT_GEMMS("grouped", DEVICE_GROUPED),
    KEY("experts.permute", "-", 0, 1, "0",
        "share of hbm_bytes_per_s at which tokens are brought into the order of experts; 0: memory.copy",
        memory_share[DEVICE_PERMUTE]),
    KEY("experts.scatter", "-", 0, 1, "0", "share of hbm_bytes_per_s of atomic sums of tokens; 0: memory.copy",
        memory_share[DEVICE_SCATTER]),
    KEY("experts.router.token", "bytes", 0, 1e6, "0", "bytes of a token that the kernels of its scores move",
        experts.router_token_bytes),
    KEY("experts.router.expert", "bytes", 0, 1e6, "0", "bytes of each of its scores that they move",
        experts.router_expert_bytes),
    DISPATCH("dispatch", 0),
    DISPATCH("combine", 1),
    KEY("experts.deepep.nic", "-", 0, 1, "0", "share of the NIC's bandwidth; 0: DeepEP was not measured",
        experts.deepep_nic),
    HYBRID_EP("dispatch", 0),
    HYBRID_EP("combine", 1),
    KEY("experts.hybrid_ep.nic", "-", 0, 1, "0", "share of the NIC's bandwidth; 0: HybridEP was not measured",
        experts.hybrid_ep_nic),
};

static const struct schema_key curves[] = {
    REAL("launch_s", "s", 0, 1, "launch of a kernel, except GEMMs and attention", launch_s),
    SHARE("memory.norm", "share of hbm_bytes_per_s that norms of fused kernels reach", memory_share[DEVICE_NORM]),
    SHARE("memory.layer_norm", "share of hbm_bytes_per_s that PyTorch's LayerNorm reaches",
          memory_share[DEVICE_LAYER_NORM]),
    SHARE("memory.activation", "share of hbm_bytes_per_s that SwiGLU reaches", memory_share[DEVICE_ACTIVATION]),
    SHARE("memory.gelu", "share of hbm_bytes_per_s that GELU and compiled SwiGLU reach", memory_share[DEVICE_GELU]),
    SHARE("memory.loss", "share of hbm_bytes_per_s that the cross-entropy reaches", memory_share[DEVICE_LOSS]),
    SHARE("memory.copy", "share of hbm_bytes_per_s that other kernels reach", memory_share[DEVICE_COPY]),
    RANGE("memory.bytes", "bytes", memory_range),
    SHARE("gemm.efficiency", "share of the peak, for full waves of large tiles", gemm[PRECISION_BF16].efficiency),
    GEMM("gemm", PRECISION_BF16, NULL),
    KEY("gemm_fp8_tensor.efficiency", "-", 0, 1, "0", "share of the fp8 peak; 0: not measured",
        gemm[PRECISION_FP8_TENSOR].efficiency),
    GEMM("gemm_fp8_tensor", PRECISION_FP8_TENSOR, "0"),
    KEY("gemm_fp8_block.efficiency", "-", 0, 1, "0", "share of the fp8 peak; 0: not measured",
        gemm[PRECISION_FP8_BLOCK].efficiency),
    GEMM("gemm_fp8_block", PRECISION_FP8_BLOCK, "0"),
    KEY("gemm_mxfp8.efficiency", "-", 0, 1, "0", "share of the fp8 peak; 0: not measured",
        gemm[PRECISION_MXFP8].efficiency),
    GEMM("gemm_mxfp8", PRECISION_MXFP8, "0"),
    FLASH("flash2", forward, DEVICE_FLASH2),
    FLASH("flash2", backward, DEVICE_FLASH2),
    FLASH("flash3", forward, DEVICE_FLASH3),
    FLASH("flash3", backward, DEVICE_FLASH3),
    FLASH("cudnn", forward, DEVICE_CUDNN),
    FLASH("cudnn", backward, DEVICE_CUDNN),
    COLLECTIVE("all_gather", DEVICE_ALL_GATHER, 1e-3),
    COLLECTIVE("reduce_scatter", DEVICE_REDUCE_SCATTER, 1e-3),
    COLLECTIVE("all_reduce", DEVICE_ALL_REDUCE, 1e-3),
    COLLECTIVE("nvls", DEVICE_NVLS, 0),
    COLLECTIVE("all_to_all", DEVICE_ALL_TO_ALL, 1e-3),
    REAL("fabric.latency_s", "s", 0, 1, "latency of an all-reduce over nodes", fabric.latency_s),
    REAL("fabric.hop_s", "s", 0, 1, "time for each doubling of the nodes", fabric.hop_s),
    SHARE("fabric.efficiency", "share of the NICs' bandwidth, for large messages", fabric.efficiency),
    REAL("fabric.ramp_bytes", "bytes", 0, 1e12, "bytes added to large messages", fabric.ramp_bytes),
    HALF("fabric.ramp_hop", "growth of ramp_bytes for each doubling of the nodes", fabric.ramp_hop),
    RANGE("fabric.bytes", "bytes", fabric.bytes),
    LINK(nvlink),
    LINK(nic),
    LINK(pcie),
    KEY("sustained.products", "-", 0, 10, "0", "extra time of GEMMs and attention in training", training.products),
    KEY("sustained.flash1", "-", 0, 10, "0", "extra time of flash1 over flash2", training.flash1),
};

enum {
    N_SHEET = sizeof sheet / sizeof *sheet,
    N_TRAINING = sizeof training / sizeof *training,
    N_CURVES = sizeof curves / sizeof *curves,
    N_KEYS = N_SHEET + N_TRAINING + N_CURVES
};

/* Keys beside the data sheet: the method of the fit, its sources, and the curves. */
static const char *const beside[] = {"fit",
                                     "sources",
                                     "launch_s",
                                     "memory",
                                     "gemm",
                                     "gemm_fp8_tensor",
                                     "gemm_fp8_block",
                                     "gemm_mxfp8",
                                     "attention",
                                     "nvlink",
                                     "collective",
                                     "fabric",
                                     "nic",
                                     "pcie",
                                     "sustained",
                                     NULL};
static const char *const documentation[] = {"fit", "sources", NULL};

/** All formats of 1 byte have one peak. */
static void share_peak(struct device *device)
{
    for (int i = PRECISION_FP8_TENSOR; i < PRECISION_N_GEMM; i++)
        device->peak_flop_per_s[i] = device->fp8_flop_per_s;
}

static bool find(const char *data_dir, const char *name, char path[1024], struct error *err)
{
    char folder[1024];
    snprintf(folder, sizeof folder, "%s/model/gpu", data_dir);
    return library_find(folder, name, ".yaml", "device", path, err);
}

static bool same_chip(const struct device *device, const struct device *like)
{
    return like->multiprocessors == device->multiprocessors &&
           (device->tensor_flop_per_clock <= 0 || like->tensor_flop_per_clock == device->tensor_flop_per_clock);
}

enum { MOST_STEPS = 8 }; /* of `like`; a device may name itself */

void device_follow_like(const char *data_dir, struct device *device)
{
    struct device like = *device;
    device->own_curves = true;
    strcpy(device->curves_of, device->name);
    for (int i = 0; i < MOST_STEPS && *like.like != '\0'; i++) {
        char path[1024], name[sizeof like.like];
        struct error unknown = {0};
        strcpy(name, like.like);
        if (!device_read_sheet(data_dir, name, &like, path, &unknown))
            break;
        device->own_curves = device->own_curves && same_chip(device, &like);
        device->compute_capability =
            device->compute_capability > 0 ? device->compute_capability : like.compute_capability;
        strcpy(device->curves_of, like.name);
    }
    device->own_curves = device->own_curves && *like.like == '\0';
}

/** Return whether a device's file says that rows of its own determine the forward curve of an attention kernel. */
static bool has_attention_rows(const struct document *document, int32_t kernel)
{
    static const char *const names[] = {"attention.flash2.forward", "attention.flash3.forward",
                                        "attention.cudnn.forward"};
    int32_t fit = document_find(document, 0, "fit");
    for (int32_t at = fit < 0 ? -1 : document->node[fit].child; at >= 0; at = document->node[at].next)
        if (strcmp(document->node[at].key, names[kernel]) == 0)
            return document_find(document, at, "copied_from") < 0;
    return false;
}

/** Fill in where attention's curves come from, once device_follow_like is done. If no file of `like` says it, they are
 * those of its last device. */
static void follow_attention(const char *data_dir, const struct document *document, struct device *device)
{
    bool found[DEVICE_N_CURVES] = {false};
    struct device from = *device;
    struct document other = {0};
    for (int i = 0;; i++) {
        for (int32_t kernel = 0; kernel < DEVICE_N_CURVES; kernel++) {
            struct device_attention_rows *rows = &device->attention_rows[kernel];
            if (found[kernel])
                continue;
            found[kernel] = has_attention_rows(i == 0 ? document : &other, kernel);
            strcpy(rows->device, from.name);
            rows->own = i == 0 || same_chip(device, &from);
            rows->generation = floor(device->compute_capability) == floor(from.compute_capability);
        }
        document_free(&other);
        char path[1024], name[sizeof from.like];
        struct error unknown = {0};
        strcpy(name, from.like);
        if (i == MOST_STEPS || *name == '\0' || !device_read_sheet(data_dir, name, &from, path, &unknown) ||
            !document_read(path, &other, &unknown))
            break;
        if (from.compute_capability <= 0)
            device_follow_like(data_dir, &from);
    }
    document_free(&other);
}

bool device_has_attention(const struct device *device, enum device_attention kernel)
{
    bool any = false;
    for (int32_t i = 0; i < DEVICE_N_CURVES; i++)
        any = any || device->attention_rows[i].generation;
    return !any || kernel == DEVICE_FLASH2 || kernel >= DEVICE_N_CURVES || device->attention_rows[kernel].generation;
}

/** Check that a device has curves. Otherwise one sentence says so, instead of one sentence for each curve. */
static bool has_curves(const char *name, const struct document *document, struct error *err)
{
    if (document_find(document, 0, "peak_flop_per_s") < 0 || document_find(document, 0, "launch_s") >= 0 ||
        document_find(document, 0, "gemm") >= 0)
        return true;
    return error_set(err,
                     "%s: the device has no curves, only a data sheet; `slimsim calibrate --device %s --output FILE` "
                     "writes a file with curves",
                     document->file, name);
}

bool device_read(const char *data_dir, const char *name, struct device *device, struct error *err)
{
    struct schema_key keys[N_KEYS];
    char path[1024];
    memcpy(keys, sheet, sizeof sheet);
    memcpy(keys + N_SHEET, training, sizeof training);
    memcpy(keys + N_SHEET + N_TRAINING, curves, sizeof curves);
    *device = (struct device){0};
    if (!find(data_dir, name, path, err))
        return false;
    struct document document = {0};
    bool ok = document_read(path, &document, err) && has_curves(name, &document, err) &&
              schema_read(&document, 0, keys, N_KEYS, documentation, device, err);
    if (ok) {
        device_follow_like(data_dir, device);
        follow_attention(data_dir, &document, device);
    }
    document_free(&document);
    if (!ok)
        return false;
    share_peak(device);
    const double held[] = {device->training.collective_multiprocessors, device->training.node_multiprocessors};
    for (int i = 0; i < 2; i++)
        if (device->multiprocessors > 0 && held[i] >= (double)device->multiprocessors)
            return error_set(err,
                             "%s: training.%s_multiprocessors: %g leaves no multiprocessor to a kernel; allowed: less "
                             "than multiprocessors, %d",
                             path, i == 0 ? "collective" : "node", held[i], (int)device->multiprocessors);
    return true;
}

bool device_read_sheet(const char *data_dir, const char *name, struct device *device, char *path, struct error *err)
{
    struct schema_key keys[N_SHEET + N_TRAINING];
    memcpy(keys, sheet, sizeof sheet);
    memcpy(keys + N_SHEET, training, sizeof training);
    *device = (struct device){0};
    bool ok =
        find(data_dir, name, path, err) && schema_read_file(path, keys, N_SHEET + N_TRAINING, beside, device, err);
    share_peak(device);
    return ok;
}

void device_write_curves(FILE *file, const struct device *device)
{
    static const struct {
        const char *begin;
        enum precision precision;
    } optional[] = {{"gemm_fp8_tensor.", PRECISION_FP8_TENSOR},
                    {"gemm_fp8_block.", PRECISION_FP8_BLOCK},
                    {"gemm_mxfp8.", PRECISION_MXFP8}};
    struct schema_key written[N_CURVES];
    int32_t n = 0;
    for (int32_t i = 0; i < N_CURVES; i++) {
        bool measured = true;
        for (size_t k = 0; k < sizeof optional / sizeof *optional; k++)
            if (strncmp(curves[i].name, optional[k].begin, strlen(optional[k].begin)) == 0)
                measured = device->gemm[optional[k].precision].efficiency > 0;
        if (measured)
            written[n++] = curves[i];
    }
    schema_write(file, written, n, device, 0);
}
