/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "validate/families.h"

#include "cost/communication.h"

#include <stddef.h>

static void select_memory(const struct family *family, const struct sample_source *source, struct samples *samples)
{
    samples_memory(source, (enum device_memory_kind)family->kind, samples);
}

static double memory_s(const struct family *family, const struct device *device, const struct sample *sample,
                       const double *beside)
{
    return cost_memory_bound_s(device, (enum device_memory_kind)family->kind, sample->bytes) +
           (sample->from_host ? beside[FAMILY_HOST_S] : 0);
}

static void select_gemm(const struct family *family, const struct sample_source *source, struct samples *samples)
{
    samples_gemm(source, (enum precision)family->kind, samples);
}

static double gemm_s(const struct family *family, const struct device *device, const struct sample *sample,
                     const double *beside)
{
    (void)family;
    return cost_kernel_gemm_s(device, &sample->gemm) * (sample->other_release ? beside[FAMILY_RELEASE] : 1);
}

static void select_attention(const struct family *family, const struct sample_source *source, struct samples *samples)
{
    samples_attention(source, (enum device_attention)(family->kind / N_PASSES), (enum pass)(family->kind % N_PASSES),
                      samples);
}

bool family_is_gemm(const struct family *family)
{
    return family->select == select_gemm;
}

bool family_is_optional(const struct family *family)
{
    return family_is_gemm(family) && family->kind != PRECISION_BF16;
}

bool family_is_attention(const struct family *family)
{
    return family->select == select_attention;
}

static double attention_s(const struct family *family, const struct device *device, const struct sample *sample,
                          const double *beside)
{
    enum pass pass = (enum pass)(family->kind % N_PASSES);
    struct cost_attention work = sample->attention;
    if (!sample->causal) /* each query sees all keys, as many as in a causal sample of twice the length */
        *(pass == PASS_FORWARD ? &work.keys : &work.queries) *= 2 / beside[FAMILY_UNMASKED];
    double seconds = cost_attention_s(device, (enum device_attention)(family->kind / N_PASSES), pass, &work);
    return seconds * (sample->other_release ? beside[FAMILY_RELEASE] : 1) +
           (sample->from_host ? beside[FAMILY_HOST_S] : 0);
}

/** Return the machine of the collectives' rows. A plateau's row counts as one GPU a node. */
static struct platform machine_of(const struct device *device, const struct sample *sample)
{
    int32_t gpus = sample->nodes > 1 ? sample->ranks / sample->nodes : sample->ranks;
    return (struct platform){.gpus_per_node = gpus,
                             .nvlink_domain = gpus,
                             .nvlink_bytes_per_s = device->measured_nvlink_bytes_per_s,
                             .nic_bytes_per_s = device->measured_nic_bytes_per_s,
                             .pcie_bytes_per_s = device->measured_pcie_bytes_per_s};
}

static void select_collective(const struct family *family, const struct sample_source *source, struct samples *samples)
{
    samples_collective(source, (enum device_collective_kind)family->kind, samples);
}

static double collective_s(const struct family *family, const struct device *device, const struct sample *sample,
                           const double *beside)
{
    (void)beside;
    enum device_collective_kind kind = (enum device_collective_kind)family->kind;
    struct platform machine = machine_of(device, sample);
    struct cost_setting setting = {.device = device, .platform = &machine};
    if (sample->ranks == 1)
        return sample->bytes / (device->collective[kind].efficiency * machine.nvlink_bytes_per_s);
    return cost_collective_s(&setting, kind, sample->bytes, sample->ranks);
}

static void select_fabric(const struct family *family, const struct sample_source *source, struct samples *samples)
{
    (void)family;
    samples_fabric(source, samples);
}

static double fabric_s(const struct family *family, const struct device *device, const struct sample *sample,
                       const double *beside)
{
    (void)family;
    (void)beside;
    struct platform machine = machine_of(device, sample);
    struct cost_setting setting = {.device = device, .platform = &machine};
    return cost_collective_s(&setting, DEVICE_ALL_REDUCE, sample->bytes, sample->ranks);
}

static void select_link(const struct family *family, const struct sample_source *source, struct samples *samples)
{
    samples_link(source, family->kind == COST_NVLINK, samples);
}

static double nvlink_s(const struct family *family, const struct device *device, const struct sample *sample,
                       const double *beside)
{
    (void)family;
    (void)beside;
    struct platform machine = machine_of(device, sample);
    struct cost_setting setting = {.device = device, .platform = &machine};
    return cost_of_transfer(&setting, COST_NVLINK, sample->bytes, 1).duration_s;
}

static double nic_latency_s(const struct family *family, const struct device *device, const struct sample *sample,
                            const double *beside)
{
    (void)family;
    return device->nic.latency_s + sample->bytes / (beside[FAMILY_PLATEAU] * device->measured_nic_bytes_per_s);
}

static void select_plateau(const struct family *family, const struct sample_source *source, struct samples *samples)
{
    if (family->kind == COST_NIC)
        samples_nic_plateau(source, samples);
    else
        samples_pcie(source, samples);
}

static double plateau_s(const struct family *family, const struct device *device, const struct sample *sample,
                        const double *beside)
{
    (void)beside;
    if (family->kind == COST_NIC)
        return sample->bytes / (device->nic.efficiency * device->measured_nic_bytes_per_s);
    return (sample->ranks == 1 ? 0 : device->pcie.latency_s) +
           sample->bytes / (device->pcie.efficiency * device->measured_pcie_bytes_per_s);
}

#define FIELD(field)  offsetof(struct device, field)
#define BESIDE(which) (FAMILY_BESIDE + (which))
/* Starts and limits are in the units of struct device. If a fit may end at a limit, that limit is the physical one. */
#define SHARE(field)                                                                                                   \
    {                                                                                                                  \
        FIELD(field),                                                                                                  \
        {                                                                                                              \
            0.7, 1                                                                                                     \
        }                                                                                                              \
    }
#define LATENCY(field)                                                                                                 \
    {                                                                                                                  \
        FIELD(field),                                                                                                  \
        {                                                                                                              \
            2e-5, 1e-3                                                                                                 \
        }                                                                                                              \
    }
#define RAMP(field)                                                                                                    \
    {                                                                                                                  \
        FIELD(field),                                                                                                  \
        {                                                                                                              \
            5e6, 1e9                                                                                                   \
        }                                                                                                              \
    }
#define FIXED(field, at)                                                                                               \
    {                                                                                                                  \
        FIELD(field),                                                                                                  \
        {                                                                                                              \
            at, 0                                                                                                      \
        }                                                                                                              \
    }

#define MEMORY(name, which, note)                                                                                      \
    {                                                                                                                  \
        "memory." name, note, select_memory, memory_s, which, 2, 1,                                                    \
            {SHARE(memory_share[which]), {BESIDE(FAMILY_HOST_S), {5e-6, 1e-3}}},                                       \
        {                                                                                                              \
            FIELD(memory_range)                                                                                        \
        }                                                                                                              \
    }
/* Own rows of bf16 are faster than published ones by a factor that their fit finds. There are few of fp8, all open, so
 * it holds there, too. */
#define OWN_RELEASE                                                                                                    \
    {                                                                                                                  \
        1, 2                                                                                                           \
    }
#define BF16_RELEASE                                                                                                   \
    {                                                                                                                  \
        0.92, 0                                                                                                        \
    }
#define GEMM(name, precision, release, note)                                                                           \
    {                                                                                                                  \
        name, note, select_gemm, gemm_s, precision, 7, 3,                                                              \
            {SHARE(gemm[precision].efficiency),                                                                        \
             {FIELD(gemm[precision].small_tile), {0.1, 2}},                                                            \
             {FIELD(gemm[precision].wave), {0.3, 1}},                                                                  \
             {FIELD(gemm[precision].launch_s), {5e-6, 1e-4}},                                                          \
             {FIELD(gemm[precision].epilogue), {0.3, 1}},                                                              \
             {FIELD(gemm[precision].sum), {0.6, 1}},                                                                   \
             {BESIDE(FAMILY_RELEASE), release}},                                                                       \
        {                                                                                                              \
            FIELD(gemm[precision].m), FIELD(gemm[precision].n), FIELD(gemm[precision].k)                               \
        }                                                                                                              \
    }
#define OTHER_WORK                                                                                                     \
    {                                                                                                                  \
        300, 1e4                                                                                                       \
    }
#define ATTENTION(name, which, pass, field)                                                                            \
    {                                                                                                                  \
        "attention." name, NULL, select_attention, attention_s, (which)*N_PASSES + (pass), 10, 2,                      \
            {SHARE(field[which].efficiency),                                                                           \
             {FIELD(field[which].q_half), OTHER_WORK},                                                                 \
             {FIELD(field[which].k_half), OTHER_WORK},                                                                 \
             {FIELD(field[which].d_half), {40, 1000}},                                                                 \
             {FIELD(field[which].tail), {0.5, 1}},                                                                     \
             {FIELD(field[which].alone), {0.9, 1}},                                                                    \
             {FIELD(field[which].launch_s), {5e-6, 1e-4}},                                                             \
             {BESIDE(FAMILY_UNMASKED), {0.6, 1}},                                                                      \
             {BESIDE(FAMILY_HOST_S), {5e-5, 1e-3}},                                                                    \
             {BESIDE(FAMILY_RELEASE), {1, 2}}},                                                                        \
        {                                                                                                              \
            FIELD(field[which].keys), FIELD(field[which].head_dim)                                                     \
        }                                                                                                              \
    }
#define COLLECTIVE(name, which)                                                                                        \
    {                                                                                                                  \
        "collective." name, NULL, select_collective, collective_s, which, 5, 1,                                        \
            {SHARE(collective[which].efficiency),                                                                      \
             LATENCY(collective[which].latency_s),                                                                     \
             {FIELD(collective[which].step_s), {3e-6, 1e-3}},                                                          \
             RAMP(collective[which].ramp_bytes),                                                                       \
             {FIELD(collective[which].pair), {0.1, 4}}},                                                               \
        {                                                                                                              \
            FIELD(collective[which].bytes)                                                                             \
        }                                                                                                              \
    }

const struct family families[] = {
    {"memory.norm",
     NULL,
     select_memory,
     memory_s,
     DEVICE_NORM,
     3,
     1,
     {SHARE(memory_share[DEVICE_NORM]), {FIELD(launch_s), {2e-6, 1e-4}}, {BESIDE(FAMILY_HOST_S), {5e-6, 1e-3}}},
     {FIELD(memory_range)}},
    MEMORY("layer_norm", DEVICE_LAYER_NORM, "of PyTorch, 4 bytes an element forward, 10 backward with the weight's"),
    MEMORY("activation", DEVICE_ACTIVATION, "SwiGLU"),
    MEMORY("gelu", DEVICE_GELU, "GELU of PyTorch, SwiGLU of its compiler"),
    MEMORY("loss", DEVICE_LOSS, "Megatron's fused cross-entropy, 30 bytes a logit forward and 14 backward"),
    MEMORY("copy", DEVICE_COPY, "copies and casts; adds, rotations and the optimizer are taken to be alike"),
    GEMM("gemm", PRECISION_BF16, OWN_RELEASE, NULL),
    GEMM("gemm_fp8_tensor", PRECISION_FP8_TENSOR, BF16_RELEASE,
         "torch._scaled_mm with one scale a tensor, with and without split sums"),
    GEMM("gemm_fp8_block", PRECISION_FP8_BLOCK, BF16_RELEASE, "scales of 1 x 128 and 128 x 128"),
    GEMM("gemm_mxfp8", PRECISION_MXFP8, BF16_RELEASE, "scales of 1 x 32"),
    ATTENTION("flash2.forward", DEVICE_FLASH2, PASS_FORWARD, forward),
    ATTENTION("flash2.backward", DEVICE_FLASH2, PASS_BACKWARD, backward),
    ATTENTION("flash3.forward", DEVICE_FLASH3, PASS_FORWARD, forward),
    ATTENTION("flash3.backward", DEVICE_FLASH3, PASS_BACKWARD, backward),
    ATTENTION("cudnn.forward", DEVICE_CUDNN, PASS_FORWARD, forward),
    ATTENTION("cudnn.backward", DEVICE_CUDNN, PASS_BACKWARD, backward),
    COLLECTIVE("all_gather", DEVICE_ALL_GATHER),
    COLLECTIVE("reduce_scatter", DEVICE_REDUCE_SCATTER),
    COLLECTIVE("all_reduce", DEVICE_ALL_REDUCE),
    {"collective.nvls",
     NULL,
     select_collective,
     collective_s,
     DEVICE_NVLS,
     5,
     1,
     {SHARE(collective[DEVICE_NVLS].efficiency), LATENCY(collective[DEVICE_NVLS].latency_s),
      FIXED(collective[DEVICE_NVLS].step_s, 0), RAMP(collective[DEVICE_NVLS].ramp_bytes),
      FIXED(collective[DEVICE_NVLS].pair, 0)},
     {FIELD(collective[DEVICE_NVLS].bytes)}},
    {"collective.all_to_all",
     "a plateau alone; latency, step, ramp and pair are the all-gather's",
     select_collective,
     collective_s,
     DEVICE_ALL_TO_ALL,
     5,
     0,
     {SHARE(collective[DEVICE_ALL_TO_ALL].efficiency), FIXED(collective[DEVICE_ALL_TO_ALL].latency_s, 0),
      FIXED(collective[DEVICE_ALL_TO_ALL].step_s, 0), FIXED(collective[DEVICE_ALL_TO_ALL].ramp_bytes, 0),
      FIXED(collective[DEVICE_ALL_TO_ALL].pair, 0)},
     {0}},
    {"fabric",
     "all-reduce; two nodes are faster than this by up to a third for large messages (switches reduce inside the node)",
     select_fabric,
     fabric_s,
     0,
     5,
     1,
     {SHARE(fabric.efficiency),
      LATENCY(fabric.latency_s),
      LATENCY(fabric.hop_s),
      RAMP(fabric.ramp_bytes),
      {FIELD(fabric.ramp_hop), {1, 100}}},
     {FIELD(fabric.bytes)}},
    {"nvlink",
     NULL,
     select_link,
     nvlink_s,
     COST_NVLINK,
     3,
     1,
     {SHARE(nvlink.efficiency), LATENCY(nvlink.latency_s), RAMP(nvlink.ramp_bytes)},
     {FIELD(nvlink.bytes)}},
    {"nic.latency",
     "latency alone, errors against a plateau of their own: the NIC of these rows is not named",
     select_link,
     nic_latency_s,
     COST_NIC,
     3,
     1,
     {LATENCY(nic.latency_s), FIXED(nic.ramp_bytes, 0), {BESIDE(FAMILY_PLATEAU), {0.7, 1}}},
     {FIELD(nic.bytes)}},
    {"nic.efficiency",
     "plateaus on a 400 Gb/s NIC",
     select_plateau,
     plateau_s,
     COST_NIC,
     1,
     0,
     {SHARE(nic.efficiency)},
     {0}},
    {"pcie",
     NULL,
     select_plateau,
     plateau_s,
     COST_PCIE,
     3,
     1,
     {SHARE(pcie.efficiency), LATENCY(pcie.latency_s), FIXED(pcie.ramp_bytes, 0)},
     {FIELD(pcie.bytes)}},
};

const int32_t n_families = sizeof families / sizeof *families;
