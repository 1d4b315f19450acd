/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "validate/setting.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

enum { NODE_GPUS = 8 };

const char *const setting_columns[] = {"hidden",     "layers",  "heads",  "kv_groups", "ffn", "vocab", "gpu",
                                       "activation", "seq_len", "n_gpus", "tp",        "pp",  "mbs",   NULL};

/** A row while it is read. */
struct source {
    const struct measured *measured, *gpus;
    int32_t row;
    char *reason;
    struct error *err;
};

static const char *cell(const struct source *source, const char *column)
{
    return measured_text(source->measured, source->row, column);
}

static bool has(const struct source *source, const char *column, const char *part)
{
    return strstr(cell(source, column), part) != NULL;
}

/** Say why the row is skipped; the first reason stays. */
__attribute__((format(printf, 2, 3))) static void skip(const struct source *source, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (source->reason[0] == '\0')
        vsnprintf(source->reason, SETTING_REASON, format, arguments);
    va_end(arguments);
}

static int64_t whole(const struct source *source, const char *column)
{
    double value;
    if (!measured_number(source->measured, source->row, column, &value, source->err))
        return 0;
    if (value > 1e15 || value != (double)(int64_t)value)
        error_add(source->err, "%s:%d: %s: '%s' is not a whole number", source->measured->path,
                  source->measured->lines[source->row], column, cell(source, column));
    return (int64_t)value;
}

/** As whole(), 1 where the cell is empty. */
static int64_t degree(const struct source *source, const char *column)
{
    int64_t value = whole(source, column);
    return value > 0 ? value : 1;
}

static bool is_megatron(const struct source *source)
{
    return has(source, "framework", "Megatron") || has(source, "framework", "NeMo");
}

static bool is_tied(const struct source *source)
{
    if (has(source, "notes", "untied embeddings"))
        return false;
    bool gpt = strncasecmp(cell(source, "model"), "gpt", 3) == 0;
    return has(source, "notes", "tied embeddings") || has(source, "framework", "llm-foundry") ||
           (gpt && is_megatron(source));
}

/** What trains something else than all weights on whole sequences. */
static void refuse_workload(const struct source *source)
{
    if (has(source, "model", "SFT"))
        skip(source, "model: fine-tuning on packed samples whose lengths are not given");
    if (has(source, "model", "LoRA"))
        skip(source, "model: adapters are trained, not all weights");
    if (has(source, "model", "grpo"))
        skip(source, "model: reinforcement learning, with more weights in memory than those trained");
}

static void read_model(const struct source *source, struct model *model)
{
    *model = (struct model){
        .hidden = whole(source, "hidden"),
        .layers = whole(source, "layers"),
        .heads = whole(source, "heads"),
        .kv_heads = whole(source, "kv_groups"),
        .ffn = whole(source, "ffn"),
        .vocabulary = whole(source, "vocab"),
        .activation = has(source, "activation", "swiglu") ? MODEL_SWIGLU : MODEL_GELU,
        .tied_embeddings = is_tied(source),
    };
    snprintf(model->name, sizeof model->name, "%s", cell(source, "model"));
    if (!has(source, "activation", "swiglu") && !has(source, "activation", "gelu") &&
        !has(source, "activation", "squared-relu"))
        skip(source, "activation '%s' has no model", cell(source, "activation"));
    if (model->heads > 0 && (model->hidden % model->heads != 0 || model->kv_heads > model->heads))
        skip(source, "hidden is not a multiple of heads, or kv_groups exceed heads");
}

/** The number that stands before `unit` in a text, 0: none does. */
static double number_before(const char *text, const char *unit)
{
    const char *end = strstr(text, unit), *begin = end;
    while (begin != NULL && begin > text && strchr("0123456789.", begin[-1]) != NULL)
        begin--;
    return begin == end ? 0 : strtod(begin, NULL);
}

/** Bandwidths of the fabric column, where it says them. */
static void read_fabric(const struct source *source, struct platform *platform)
{
    const char *fabric = cell(source, "fabric"), *unit = strstr(fabric, "Gb/s"), *token = unit;
    double nvlink_bytes_per_s = number_before(fabric, "GB/s") * 1e9 / 2, n_nics = 1;
    double nic_gbit_per_s = number_before(fabric, "Gb/s");
    while (token != NULL && token > fabric && token[-1] != ' ')
        token--;
    if (token != NULL) { /* "8x400Gb/s" */
        char *times;
        double before = strtod(token, &times);
        n_nics = *times == 'x' ? before : 1;
    }
    double n_sharing = has(source, "fabric", "per GPU") ? 1 : NODE_GPUS;
    if (nvlink_bytes_per_s > 0)
        platform->nvlink_bytes_per_s = nvlink_bytes_per_s;
    if (n_nics * nic_gbit_per_s > 0)
        platform->nic_bytes_per_s = n_nics * nic_gbit_per_s * 1e9 / 8 / n_sharing;
}

static void read_platform(const struct source *source, struct setting *setting)
{
    struct platform *platform = &setting->platform;
    const struct measured *gpus = source->gpus;
    double values[4] = {0};
    static const char *const columns[4] = {"nvlink_GBps", "nic_GBps", "pcie_GBps", "host_memory_GB"};
    int32_t gpu = 0;
    while (gpu < gpus->n_rows && !has(source, "gpu", measured_text(gpus, gpu, "gpu")))
        gpu++;
    if (gpu == gpus->n_rows) {
        skip(source, "there is no device file for gpu '%s'", cell(source, "gpu"));
        return;
    }
    for (int i = 0; i < 4; i++)
        measured_number(gpus, gpu, columns[i], &values[i], source->err);
    snprintf(setting->device, sizeof setting->device, "%s", measured_text(gpus, gpu, "device"));
    *platform = (struct platform){.nvlink_bytes_per_s = values[0] * 1e9,
                                  .nic_bytes_per_s = values[1] * 1e9,
                                  .pcie_bytes_per_s = values[2] * 1e9,
                                  .host_memory_bytes = values[3] * 1e9};
    read_fabric(source, platform);
    platform->gpus_per_node = (int32_t)(setting->n_gpus < NODE_GPUS ? setting->n_gpus : NODE_GPUS);
    platform->n_nodes = platform->gpus_per_node > 0 ? (int32_t)(setting->n_gpus / platform->gpus_per_node) : 0;
    if (platform_n_gpus(platform) != setting->n_gpus)
        skip(source, "n_gpus: %s are not whole nodes of 8", cell(source, "n_gpus"));
}

static enum device_attention read_attention(const struct source *source)
{
    const char *column = measured_column(source->measured, "attn_backend") >= 0 ? "attn_backend" : "attn_kernel";
    if (has(source, "framework", "llm-foundry"))
        return DEVICE_FLASH1;
    if (has(source, column, "FlashAttention-2"))
        return DEVICE_FLASH2;
    if (has(source, column, "FlashAttention-3"))
        return DEVICE_FLASH3;
    if (has(source, column, "cuDNN"))
        return DEVICE_CUDNN;
    if (has(source, column, "unfused") || (is_megatron(source) && has(source, "gpu", "A100")))
        return DEVICE_UNFUSED;
    bool hopper = has(source, "gpu", "H100") || has(source, "gpu", "H200");
    return hopper && (is_megatron(source) || has(source, "framework", "MaxText")) ? DEVICE_CUDNN : DEVICE_FLASH2;
}

static enum scenario_kernels read_kernels(const struct source *source)
{
    static const char *const eager[] = {"llm-foundry", "nanotron", "HF", "fms-fsdp", "torchtitan"};
    for (size_t i = 0; i < sizeof eager / sizeof *eager; i++)
        if (has(source, "framework", eager[i]))
            return has(source, "framework", "compile") ? SCENARIO_FUSED : SCENARIO_EAGER;
    return SCENARIO_FUSED;
}

static void read_sharding(const struct source *source, struct setting *setting)
{
    bool zero2 = has(source, "sharding", "ZeRO-2") || has(source, "sharding", "SHARD_GRAD_OP");
    bool zero3 = has(source, "sharding", "ZeRO-3") || has(source, "sharding", "FSDP");
    bool zero1 = has(source, "sharding", "ZeRO-1") || has(source, "sharding", "distributed optimizer");
    bool bf16 =
        has(source, "sharding", "bf16 grad") || (has(source, "framework", "llm-foundry") && has(source, "gpu", "A100"));
    if (has(source, "sharding", "HSDP"))
        skip(source, "sharding '%s' has no model", cell(source, "sharding"));
    setting->plan.sharding = zero2 ? SCENARIO_ZERO2 : zero3 ? SCENARIO_ZERO3 : SCENARIO_ZERO1;
    setting->plan.gradients = bf16 ? SCENARIO_BF16 : SCENARIO_FP32;
    setting->plan.optimizer = has(source, "framework", "llm-foundry") ? SCENARIO_EAGER : SCENARIO_FUSED;
    setting->replicated = !zero1 && !zero2 && !zero3;
}

static int32_t read_recompute(const struct source *source)
{
    const char *text = cell(source, "recompute");
    if (*text == '\0' || strncmp(text, "none", 4) == 0 || strstr(text, "core attention") != NULL)
        return RECOMPUTE_NONE;
    if (strncmp(text, "SwiGLU act", 10) == 0)
        return RECOMPUTE_SELECTIVE;
    if (strncmp(text, "full", 4) != 0)
        skip(source, "recompute '%s' has no model", text);
    return RECOMPUTE_FULL;
}

static double read_offload(const struct source *source)
{
    const char *text = has(source, "recompute", "alpha") ? cell(source, "recompute") : cell(source, "offload");
    const char *alpha = strstr(text, "alpha");
    if (alpha != NULL)
        return strtod(alpha + strlen("alpha") + 1, NULL);
    if (*text != '\0' && strncmp(text, "none", 4) != 0 && text == cell(source, "offload"))
        skip(source, "offload '%s' has no model", text);
    return 0;
}

static void read_plan(const struct source *source, struct setting *setting)
{
    struct scenario_plan *plan = &setting->plan;
    *plan = (struct scenario_plan){
        .tp = degree(source, "tp"),
        .pp = degree(source, "pp"),
        .cp = degree(source, "cp"),
        .vpp = degree(source, "vpp"),
        .recompute = read_recompute(source),
        .recompute_core = has(source, "recompute", "core attention"),
        .offload = read_offload(source),
    };
    setting->micro_batch = whole(source, "mbs");
    setting->global_batch = whole(source, "gbs");
    setting->seq_len = whole(source, "seq_len");
    int64_t replica = plan->tp * plan->pp * plan->cp, dp = whole(source, "dp");
    plan->dp = setting->n_gpus / replica;
    if (plan->dp * replica != setting->n_gpus || (dp > 0 && dp != plan->dp))
        skip(source, "n_gpus is not tp x pp x cp x dp");
    if (setting->model.heads % plan->tp != 0 || setting->model.kv_heads % plan->tp != 0)
        skip(source, "tp does not divide heads or kv_groups");
    if (setting->model.layers % (plan->pp * plan->vpp) != 0)
        skip(source, "pp x vpp does not divide layers");
    if (setting->global_batch > 0 && setting->micro_batch > 0 &&
        setting->global_batch % (setting->micro_batch * plan->dp) != 0)
        skip(source, "gbs is not a multiple of mbs x dp");
}

static void read_overlaps(const struct source *source, struct setting *setting)
{
    bool sharded = setting->plan.sharding != SCENARIO_ZERO1;
    setting->communication = (struct scenario_communication){
        .tp_overlap = strcmp(cell(source, "tp_comm_overlap"), "1") == 0 ? SCENARIO_CHUNKED : SCENARIO_BULK,
        .cp_overlap = true,
        .dp_overlap = sharded || has(source, "sharding", "overlap"),
    };
}

bool setting_of_row(const struct measured *measured, int32_t row, const struct measured *gpus, struct setting *setting,
                    char reason[SETTING_REASON], struct error *err)
{
    struct source source = {.measured = measured, .gpus = gpus, .row = row, .reason = reason, .err = err};
    *setting = (struct setting){0};
    reason[0] = '\0';
    for (int i = 0; setting_columns[i] != NULL; i++)
        if (*cell(&source, setting_columns[i]) == '\0')
            skip(&source, "%s is missing", setting_columns[i]);
    if (reason[0] == '\0' && !has(&source, "precision", "bf16") && !has(&source, "precision", "fp16"))
        skip(&source, "precision '%s' has no model", cell(&source, "precision"));
    if (reason[0] != '\0')
        return true;
    setting->n_gpus = whole(&source, "n_gpus");
    refuse_workload(&source);
    read_model(&source, &setting->model);
    read_platform(&source, setting);
    setting->attention = read_attention(&source);
    setting->kernels = read_kernels(&source);
    read_plan(&source, setting);
    read_sharding(&source, setting);
    read_overlaps(&source, setting);
    return err->status == ERROR_NONE;
}
