/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "validate/setting.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "validate/known_model.h"

enum { NODE_GPUS = 8, MOST_TOKENS = 1 << 30 };

const char *const setting_columns[] = {"hidden",     "layers", "heads",   "kv_groups", "ffn", "vocab",
                                       "activation", "gpu",    "seq_len", "n_gpus",    "tp",  NULL};
enum { N_SIZE_COLUMNS = 7 }; /* of these, from the front: what a public model has */

/** A row while it is read. */
struct source {
    const struct measured *measured, *gpus;
    int32_t row;
    char *reason, *assumed;
    struct model known; /* the public model of the row's name where sizes are missing; else {0} */
    struct error *err;
};

static const char *cell(const struct source *source, const char *column)
{
    return measured_text(source->measured, source->row, column);
}

static bool has(const struct source *source, const char *column, const char *part)
{
    return strcasestr(cell(source, column), part) != NULL;
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

/** Say what the row leaves open and how it is taken. */
__attribute__((format(printf, 2, 3))) static void assume(const struct source *source, const char *format, ...)
{
    size_t used = strlen(source->assumed);
    va_list arguments;
    va_start(arguments, format);
    if (used > 0)
        used += (size_t)snprintf(source->assumed + used, SETTING_ASSUMED - used, "; ");
    if (used < SETTING_ASSUMED)
        vsnprintf(source->assumed + used, SETTING_ASSUMED - used, format, arguments);
    va_end(arguments);
}

/** A cell that is 0 or 1, or empty. */
static bool flag(const struct source *source, const char *column, bool empty)
{
    static const char *const words[2][4] = {{"0", "no", "off", "false"}, {"1", "yes", "on", "true"}};
    const char *text = cell(source, column);
    for (int value = 0; value < 2; value++)
        for (int i = 0; i < 4; i++)
            if (strcasecmp(text, words[value][i]) == 0)
                return value == 1;
    if (*text != '\0')
        skip(source, "%s '%s' is neither 0 nor 1", column, text);
    return empty;
}

static int64_t whole(const struct source *source, const char *column)
{
    double value;
    if (!measured_number(source->measured, source->row, column, &value, source->err))
        return 0;
    if (value <= INT32_MAX && value == (double)(int64_t)value)
        return (int64_t)value;
    error_add(source->err, "%s:%d: %s: '%s' is not a whole number up to %d", source->measured->path,
              source->measured->lines[source->row], column, cell(source, column), INT32_MAX);
    return 0;
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

/** A GPT of Megatron or NeMo by its defaults. */
static bool is_megatron_gpt(const struct source *source)
{
    return strncasecmp(cell(source, "model"), "gpt", 3) == 0 && is_megatron(source);
}

/** A model of llm-foundry's mpt-*.yaml. */
static bool is_mpt(const struct source *source)
{
    return strncmp(cell(source, "model"), "MPT-", 4) == 0;
}

static bool is_tied(const struct source *source)
{
    if (has(source, "notes", "untied embeddings"))
        return false;
    if (has(source, "notes", "tied embeddings"))
        return true;
    bool tied = source->known.layers > 0 ? source->known.tied_embeddings : is_mpt(source) || is_megatron_gpt(source);
    assume(source, tied ? "tied embeddings" : "untied embeddings");
    return tied;
}

/** A size of the model, from the row or the public model; in both it must be the same. */
static int64_t size(const struct source *source, const char *column, int64_t known)
{
    int64_t value = whole(source, column);
    if (value > 0 && known > 0 && value != known)
        skip(source, "%s is %lld in the row, %lld in model/llm/%s.yaml", column, (long long)value, (long long)known,
             source->known.name);
    return value > 0 ? value : known;
}

/** Attention before there was flash attention: Megatron-LM on A100, 2021 and 2022; Megatron-Core came later. */
static bool is_before_flash(const struct source *source)
{
    return has(source, "gpu", "A100") && has(source, "framework", "Megatron") && !has(source, "framework", "Core") &&
           !has(source, "framework", "Bridge") && !has(source, "framework", "NeMo");
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
    const struct model *known = &source->known;
    if (known->layers > 0)
        assume(source, "missing sizes of model/llm/%s.yaml", known->name);
    *model = (struct model){
        .hidden = size(source, "hidden", known->hidden),
        .layers = size(source, "layers", known->layers),
        .heads = size(source, "heads", known->heads),
        .kv_heads = size(source, "kv_groups", known->kv_heads),
        .ffn = size(source, "ffn", known->ffn),
        .vocabulary = size(source, "vocab", known->vocabulary),
        .activation = has(source, "activation", "swiglu") ? MODEL_SWIGLU : MODEL_GELU,
        .tied_embeddings = is_tied(source),
        .norm = has(source, "norm", "layernorm") ? MODEL_LAYERNORM : MODEL_RMSNORM,
        .dropout = has(source, "notes", "0.1 defaults") || (is_megatron_gpt(source) && is_before_flash(source)),
        .vocabulary_multiple = is_megatron(source) ? 128 : 0,
    };
    if (is_megatron_gpt(source) && !has(source, "activation", "squared-relu")) {
        model->biases = true;
        model->positions = whole(source, "seq_len");
    }
    if (is_mpt(source))
        model->positions = whole(source, "seq_len");
    snprintf(model->name, sizeof model->name, "%s", cell(source, "model"));
    if (known->layers > 0 && *cell(source, "activation") == '\0')
        model->activation = known->activation;
    else if (!has(source, "activation", "swiglu") && !has(source, "activation", "gelu") &&
             !has(source, "activation", "squared-relu"))
        skip(source, "activation '%s' has no model", cell(source, "activation"));
    if (model->heads > 0 && (model->hidden % model->heads != 0 || model->kv_heads > model->heads))
        skip(source, "hidden is not a multiple of heads, or kv_groups exceed heads");
}

/** The number that ends before *end, blanks between left out, and where it begins; 0: there is none. */
static double number_before(const char *text, const char **end)
{
    while (*end > text && (*end)[-1] == ' ')
        --*end;
    const char *begin = *end, *last = *end;
    while (begin > text && strchr("0123456789.", begin[-1]) != NULL)
        begin--;
    *end = begin;
    return begin == last ? 0 : strtod(begin, NULL);
}

/** Bytes a second of a GPU's NICs as the fabric column has them: "8x400Gb/s", "1600 Gbps per node", "400Gb/s per GPU";
 * 0: it has none. */
static double read_nics(const struct source *source)
{
    static const struct {
        const char *text;
        double gbit;
    } units[] = {{"Gb/s", 1}, {"Gbps", 1}, {"Gbit/s", 1}, {"Tb/s", 1e3}, {"Tbps", 1e3}};
    const char *fabric = cell(source, "fabric"), *end = NULL;
    double gbit_per_s = 0, n_nics = 0;
    for (size_t i = 0; i < sizeof units / sizeof *units && end == NULL; i++) {
        end = strstr(fabric, units[i].text);
        gbit_per_s = end == NULL ? 0 : units[i].gbit * number_before(fabric, &end);
    }
    const char *times = end;
    while (times != NULL && times > fabric && times[-1] == ' ')
        times--;
    if (times != NULL && times > fabric && times[-1] == 'x') {
        times--;
        n_nics = number_before(fabric, &times);
    }
    bool one = has(source, "fabric", "per GPU"), node = !one && (n_nics > 0 || has(source, "fabric", "per node"));
    if (gbit_per_s > 0 && !node && !one) {
        one = gbit_per_s <= 400; /* no NIC is faster */
        assume(source, "%g Gb/s %s", gbit_per_s, one ? "a GPU" : "a node");
    }
    return fmax(n_nics, 1) * gbit_per_s * 1e9 / 8 / (one ? 1 : NODE_GPUS);
}

/** Bandwidths of the fabric column, where it says them. */
static void read_fabric(const struct source *source, struct platform *platform)
{
    const char *fabric = cell(source, "fabric"), *end = strstr(fabric, "GB/s");
    double nvlink_bytes_per_s = end == NULL ? 0 : number_before(fabric, &end) * 1e9 / 2,
           nic_bytes_per_s = read_nics(source);
    if (nvlink_bytes_per_s > 0)
        platform->nvlink_bytes_per_s = nvlink_bytes_per_s;
    if (nic_bytes_per_s > 0)
        platform->nic_bytes_per_s = nic_bytes_per_s;
    else if (platform->n_nodes > 1)
        assume(source, "NICs of %g Gb/s a GPU", platform->nic_bytes_per_s * 8 / 1e9);
}

static void read_platform(const struct source *source, struct setting *setting)
{
    struct platform *platform = &setting->platform;
    const struct measured *gpus = source->gpus;
    double values[4] = {0};
    static const char *const columns[4] = {"nvlink_GBps", "nic_GBps", "pcie_GBps", "host_memory_GB"};
    int32_t gpu = 0;
    while (gpu < gpus->n_rows &&
           measured_past_name(cell(source, "gpu"), measured_text(gpus, gpu, "gpu")) == cell(source, "gpu"))
        gpu++;
    const char *nvl = strcasestr(cell(source, "gpu"), "NVL");
    bool other_board = has(source, "gpu", "PCIe") || (nvl != NULL && strncasecmp(nvl, "NVLink", 6) != 0);
    if (gpu == gpus->n_rows || other_board) {
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
    platform->gpus_per_node = (int32_t)(setting->n_gpus < NODE_GPUS ? setting->n_gpus : NODE_GPUS);
    platform->n_nodes = platform->gpus_per_node > 0 ? (int32_t)(setting->n_gpus / platform->gpus_per_node) : 0;
    if (platform_n_gpus(platform) != setting->n_gpus)
        skip(source, "n_gpus: %s are not whole nodes of 8", cell(source, "n_gpus"));
    read_fabric(source, platform);
}

/** The version in "FlashAttention-2", "flash_attn 3.0", "FA2"; 0: none is named. */
static int32_t flash_version(const char *text)
{
    const char *at = strcasestr(text, "flash"), *letters = "attenionATTENION";
    at = at != NULL ? at + strlen("flash") : strstr(text, "FA");
    if (at == NULL)
        return 0;
    at += strncmp(at, "FA", 2) == 0 ? 2 : 0;
    at += strspn(at, "-_ ");
    at += strspn(at, letters);
    at += strspn(at, "-_ =vV");
    return '1' <= *at && *at <= '9' ? *at - '0' : 0;
}

static enum device_attention read_attention(const struct source *source)
{
    const char *column = measured_column(source->measured, "attn_backend") >= 0 ? "attn_backend" : "attn_kernel";
    int32_t version = flash_version(cell(source, column));
    if (has(source, "framework", "llm-foundry"))
        return DEVICE_FLASH1;
    if (version > 3)
        skip(source, "%s '%s' has no model", column, cell(source, column));
    if (version >= 1)
        return version == 1 ? DEVICE_FLASH1 : version == 2 ? DEVICE_FLASH2 : DEVICE_FLASH3;
    if (has(source, column, "cuDNN"))
        return DEVICE_CUDNN;
    if (has(source, column, "unfused"))
        return DEVICE_UNFUSED;
    bool hopper = has(source, "gpu", "H100") || has(source, "gpu", "H200") || has(source, "gpu", "H800");
    bool flash = has(source, column, "flash"); /* of no version */
    bool cudnn = hopper && !flash && (is_megatron(source) || has(source, "framework", "MaxText"));
    bool unfused = is_before_flash(source) && !flash;
    assume(source, unfused ? "unfused attention" : cudnn ? "attention cuDNN" : "attention flash-attention 2");
    return unfused ? DEVICE_UNFUSED : cudnn ? DEVICE_CUDNN : DEVICE_FLASH2;
}

static enum scenario_kernels read_kernels(const struct source *source)
{
    static const char *const eager[] = {"llm-foundry", "nanotron", "HF", "fms-fsdp", "torchtitan"};
    for (size_t i = 0; i < sizeof eager / sizeof *eager; i++)
        if (has(source, "framework", eager[i]))
            return has(source, "framework", "compile") ? SCENARIO_FUSED : SCENARIO_EAGER;
    static const char *const fused[] = {"Megatron", "NeMo", "MaxText", "Paxml", "DeepSpeed", "InternEvo", "compile"};
    for (size_t i = 0; i < sizeof fused / sizeof *fused; i++)
        if (has(source, "framework", fused[i]))
            return SCENARIO_FUSED;
    assume(source, "fused kernels");
    return SCENARIO_FUSED;
}

/** The stage in "ZeRO-3", "zero2", "ZeRO Stage 1"; -1: none is named. */
static int32_t zero_stage(const char *text)
{
    const char *zero = strcasestr(text, "zero");
    if (zero == NULL)
        return -1;
    zero += strlen("zero") + strspn(zero + strlen("zero"), " -_");
    if (strncasecmp(zero, "stage", strlen("stage")) == 0)
        zero += strlen("stage") + strspn(zero + strlen("stage"), " -_");
    return '0' <= *zero && *zero <= '3' ? *zero - '0' : -1;
}

/** Notes of a row whose gradients every replica has whole. */
static bool says_unsharded(const struct source *source)
{
    return has(source, "notes", "no distributed optimizer") || has(source, "notes", "gradient all-reduce");
}

/** A row that leaves sharding to the recipes of Megatron-Bridge. */
static bool is_bridge_default(const struct source *source)
{
    return *cell(source, "sharding") == '\0' && has(source, "framework", "Megatron-Bridge") && !says_unsharded(source);
}

/** What the sharding column says; false: nothing that has a model. */
static bool read_states(const struct source *source, struct scenario_plan *plan)
{
    static const struct {
        const char *text;
        int32_t sharding;
    } words[] = {{"SHARD_GRAD_OP", SCENARIO_ZERO2},
                 {"FSDP", SCENARIO_ZERO3},
                 {"HSDP", SCENARIO_ZERO3},
                 {"distributed optimizer", SCENARIO_ZERO1},
                 {"DDP", SCENARIO_UNSHARDED}};
    static const int32_t stages[] = {SCENARIO_UNSHARDED, SCENARIO_ZERO1, SCENARIO_ZERO2, SCENARIO_ZERO3};
    int32_t stage = zero_stage(cell(source, "sharding"));
    if (stage >= 0) {
        plan->sharding = stages[stage];
        return true;
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (has(source, "sharding", words[i].text)) {
            plan->sharding = words[i].sharding;
            return true;
        }
    if (is_bridge_default(source)) {
        assume(source, "distributed optimizer, overlapped");
        plan->sharding = SCENARIO_ZERO1;
        return true;
    }
    plan->sharding = SCENARIO_UNSHARDED;
    return *cell(source, "sharding") == '\0' && (plan->dp == 1 || says_unsharded(source));
}

/** Ranks that share: "zero1=N" and "over N" say so, else with HSDP those of a node; 0: all. */
static int64_t read_shard_group(const struct source *source, const struct scenario_plan *plan)
{
    const char *text = cell(source, "sharding"), *zero1 = strcasestr(text, "zero1="), *over = strcasestr(text, "over ");
    int64_t group = 0, replicas = plan->dp * plan->cp;
    if (zero1 != NULL)
        group = strtol(zero1 + strlen("zero1="), NULL, 10);
    else if (over != NULL)
        group = strtol(over + strlen("over "), NULL, 10) * (has(source, "sharding", "(x CP)") ? plan->cp : 1);
    if (group == 0 && has(source, "sharding", "HSDP")) {
        group = NODE_GPUS / plan->tp;
        if (!has(source, "sharding", "node"))
            assume(source, "HSDP inside nodes");
    }
    if (group <= 0 || group >= replicas)
        return 0;
    if (replicas % group != 0)
        skip(source, "sharding '%s': %lld ranks do not divide dp x cp", text, (long long)group);
    return group;
}

/** llm-foundry's table of 128 GPUs and more, of 2024. */
static bool is_large_scale(const struct source *source)
{
    return has(source, "framework", "llm-foundry") && has(source, "source", "Large Scale");
}

/** What gradients are summed and reduced in: the row's word, else the framework's default. */
static enum scenario_gradients read_gradients(const struct source *source)
{
    static const char *const half[] = {"llm-foundry", "fms-fsdp", "DeepSpeed", "InternEvo"};
    bool bf16 = has(source, "sharding", "bf16 grad") || has(source, "notes", "bf16 grad");
    if (bf16 || has(source, "sharding", "fp32 grad") || has(source, "notes", "fp32 grad"))
        return bf16 ? SCENARIO_BF16 : SCENARIO_FP32;
    for (size_t i = 0; i < sizeof half / sizeof *half; i++)
        bf16 = bf16 || (has(source, "framework", half[i]) && !is_large_scale(source));
    assume(source, bf16 ? "gradients of 2 bytes" : "fp32 gradients");
    return bf16 ? SCENARIO_BF16 : SCENARIO_FP32;
}

static void read_sharding(const struct source *source, struct setting *setting)
{
    struct scenario_plan *plan = &setting->plan;
    if (!read_states(source, plan))
        skip(source, "sharding %s%s%s; known: ZeRO-0 to ZeRO-3, DDP, FSDP, HSDP, distributed optimizer",
             *cell(source, "sharding") == '\0' ? "is missing" : "'", cell(source, "sharding"),
             *cell(source, "sharding") == '\0' ? "" : "' has no model");
    static const char *const others[] = {"CPU", "offload", "ZeRO++", "MiCS"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (has(source, "sharding", others[i]))
            skip(source, "sharding '%s': %s has no model", cell(source, "sharding"), others[i]);
    if (has(source, "sharding", "+DP"))
        skip(source, "sharding '%s': how many ranks share is not given", cell(source, "sharding"));
    plan->shard_group = plan->sharding == SCENARIO_UNSHARDED ? 0 : read_shard_group(source, plan);
    plan->gradients = read_gradients(source);
    plan->optimizer = has(source, "framework", "llm-foundry") ? SCENARIO_EAGER : SCENARIO_FUSED;
}

static int32_t read_recompute(const struct source *source)
{
    const char *text = cell(source, "recompute");
    if (*text == '\0')
        assume(source, "no recomputation");
    if (*text == '\0' || strncasecmp(text, "none", 4) == 0)
        return RECOMPUTE_NONE;
    if (strcasestr(text, "core attention") != NULL)
        return RECOMPUTE_ATTENTION_CORE;
    if (strncasecmp(text, "SwiGLU act", 10) == 0)
        return RECOMPUTE_SELECTIVE;
    if (strcasecmp(text, "selective") == 0 && is_megatron(source)) {
        assume(source, "selective recomputation of core attention");
        return RECOMPUTE_ATTENTION_CORE;
    }
    if (strncasecmp(text, "full", 4) != 0)
        skip(source, "recompute '%s' has no model", text);
    return RECOMPUTE_FULL;
}

/** Layers of a stage that recompute, by "block, N" of each virtual stage; 0: all. */
static int64_t read_recompute_layers(const struct source *source, int32_t recompute, int64_t vpp)
{
    const char *block = strcasestr(cell(source, "recompute"), "block");
    if (recompute != RECOMPUTE_FULL || block == NULL || has(source, "recompute", "per block"))
        return 0;
    const char *number = strpbrk(block, "0123456789");
    int64_t layers = number == NULL ? 0 : strtol(number, NULL, 10);
    if (layers < 1 || layers > INT32_MAX)
        skip(source, "recompute '%s': how many layers is not given", cell(source, "recompute"));
    return layers * vpp;
}

/** Runs whose checkpoints are PyTorch's without reentrance, from 2.1 on. */
static bool stops_early(const struct source *source, int32_t recompute)
{
    bool later = has(source, "gpu", "H100") || has(source, "precision", "amp_bf16");
    if (recompute != RECOMPUTE_FULL)
        return false;
    if (!has(source, "framework", "llm-foundry"))
        return has(source, "framework", "titan") || has(source, "framework", "fms-fsdp");
    if (later)
        assume(source, "recomputation that stops early (PyTorch 2.1)");
    return later;
}

static double read_offload(const struct source *source)
{
    const char *text = has(source, "recompute", "alpha") ? cell(source, "recompute") : cell(source, "offload");
    const char *alpha = strcasestr(text, "alpha");
    if (alpha != NULL) {
        const char *number = alpha + strlen("alpha") + strspn(alpha + strlen("alpha"), " =");
        char *end;
        double share = strtod(number, &end);
        if (end == number || !(0 <= share && share <= 1))
            skip(source, "offload '%s': alpha is a share from 0 to 1", text);
        return share;
    }
    if (*text != '\0' && strncasecmp(text, "none", 4) != 0 && text == cell(source, "offload"))
        skip(source, "offload '%s' has no model", text);
    return 0;
}

/** Equal stages, or where pp x vpp only divides the layers so, embedding and head count as layers (Megatron's option;
 * so Llama 3, arXiv:2407.21783, section 3.3.2). */
static void read_stages(const struct source *source, struct setting *setting)
{
    struct scenario_plan *plan = &setting->plan;
    const struct scenario_stages both = {.count_embedding = true, .count_head = true};
    int64_t layers = setting->model.layers, n_virtual = plan->pp * plan->vpp;
    if (n_virtual <= layers && layers % n_virtual == 0)
        return;
    plan->stages = both;
    if (n_virtual <= layers + 2 && scenario_stages_fit(&both, layers, (int32_t)plan->pp, (int32_t)plan->vpp))
        assume(source, "embedding and head counted as layers of the pipeline");
    else
        skip(source, "pp x vpp does not divide layers");
}

/** Micro-batch and global batch: of the three numbers of which one is the product of the others, one may be missing. */
static void read_batch(const struct source *source, struct setting *setting)
{
    int64_t n = whole(source, "n_microbatch"), dp = setting->plan.dp;
    setting->micro_batch = whole(source, "mbs");
    setting->global_batch = whole(source, "gbs");
    if (setting->micro_batch * setting->seq_len > MOST_TOKENS || n * dp > MOST_TOKENS) {
        skip(source, "seq_len x mbs, or n_microbatch x dp, is above %d", MOST_TOKENS);
        return;
    }
    if (setting->global_batch == 0)
        setting->global_batch = setting->micro_batch * n * dp;
    if (setting->micro_batch == 0 && n > 0 && setting->global_batch % (n * dp) == 0)
        setting->micro_batch = setting->global_batch / (n * dp);
    if (setting->micro_batch == 0)
        skip(source, "mbs is missing");
    else if (setting->global_batch % (setting->micro_batch * dp) != 0)
        skip(source, "gbs is not a multiple of mbs x dp");
    else if (n > 0 && setting->global_batch != setting->micro_batch * n * dp)
        skip(source, "n_microbatch is not gbs / (mbs x dp)");
}

/** How context ranks exchange keys and values. */
static enum scenario_context read_context(const struct source *source)
{
    static const char *const columns[] = {"framework", "sharding", "notes"};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        if (has(source, columns[i], "Ulysses"))
            return SCENARIO_ULYSSES;
    bool gathers = has(source, "framework", "titan");
    if (degree(source, "cp") > 1)
        assume(source, gathers ? "all-gathers of context parallelism" : "a ring of context parallelism");
    return gathers ? SCENARIO_ALL_GATHER : SCENARIO_RING;
}

static void read_plan(const struct source *source, struct setting *setting)
{
    struct scenario_plan *plan = &setting->plan;
    *plan = (struct scenario_plan){
        .tp = degree(source, "tp"),
        .pp = whole(source, "pp"),
        .cp = degree(source, "cp"),
        .cp_type = (int32_t)read_context(source),
        .vpp = degree(source, "vpp"),
        .sequence_parallel = flag(source, "sp", true),
        .recompute = read_recompute(source),
        .offload = read_offload(source),
    };
    plan->recompute_layers = read_recompute_layers(source, plan->recompute, plan->vpp);
    plan->early_stop = stops_early(source, plan->recompute);
    setting->seq_len = whole(source, "seq_len");
    int64_t dp = whole(source, "dp");
    if (plan->pp == 0 && dp == 0)
        skip(source, "pp is missing");
    if (plan->pp == 0)
        plan->pp = dp > 0 ? setting->n_gpus / plan->tp / plan->cp / dp : 1;
    if (plan->pp == 0)
        plan->pp = 1;
    plan->dp = setting->n_gpus / plan->tp / plan->pp / plan->cp;
    if (plan->dp * plan->tp * plan->pp * plan->cp != setting->n_gpus || (dp > 0 && dp != plan->dp))
        skip(source, "n_gpus is not tp x pp x cp x dp");
    if (setting->model.heads % plan->tp != 0 || setting->model.kv_heads % plan->tp != 0)
        skip(source, "tp does not divide heads or kv_groups");
    read_stages(source, setting);
    if (plan->dp > 0)
        read_batch(source, setting);
}

static enum scenario_data_overlap read_data_overlap(const struct source *source, const struct setting *setting)
{
    bool deepspeed = has(source, "framework", "DeepSpeed");
    if (setting->plan.sharding == SCENARIO_ZERO3 || (setting->plan.sharding == SCENARIO_ZERO2 && !deepspeed))
        return SCENARIO_OVERLAP_BOTH;
    if (is_bridge_default(source))
        return SCENARIO_OVERLAP_BOTH;
    if (has(source, "sharding", "overlap"))
        return has(source, "sharding", "param") ? SCENARIO_OVERLAP_BOTH : SCENARIO_OVERLAP_GRADIENTS;
    if (deepspeed)
        assume(source, "gradients not reduced beside the backward");
    if (!has(source, "framework", "InternEvo"))
        return SCENARIO_OVERLAP_NONE;
    assume(source, "gradients reduced beside the backward, parameters gathered behind it");
    return SCENARIO_OVERLAP_GRADIENTS;
}

static void read_overlaps(const struct source *source, struct setting *setting)
{
    setting->communication = (struct scenario_communication){
        .tp_overlap = flag(source, "tp_comm_overlap", false) ? SCENARIO_CHUNKED : SCENARIO_BULK,
        .cp_overlap = true,
        .pp_overlap = setting->plan.vpp > 1,
        .dp_overlap = (int32_t)read_data_overlap(source, setting),
    };
}

/** The public model of the row's name, if a size is missing; else none. */
static bool find_known(struct source *source, const struct measured *models)
{
    bool complete = true;
    for (int i = 0; i < N_SIZE_COLUMNS; i++)
        complete = complete && *cell(source, setting_columns[i]) != '\0';
    return complete || known_model_of(models, cell(source, "model"), &source->known, source->err);
}

/** A column without which nothing can be simulated, or a precision without a model. */
static void refuse_incomplete(const struct source *source)
{
    for (int i = source->known.layers > 0 ? N_SIZE_COLUMNS : 0; setting_columns[i] != NULL; i++)
        if (*cell(source, setting_columns[i]) == '\0')
            skip(source, "%s is missing", setting_columns[i]);
    for (int i = 0; setting_columns[i] != NULL; i++)
        if (*cell(source, setting_columns[i]) != '\0' && strcmp(setting_columns[i], "activation") != 0 &&
            strcmp(setting_columns[i], "gpu") != 0 && whole(source, setting_columns[i]) == 0)
            skip(source, "%s is 0", setting_columns[i]);
    static const char *const words[] = {"bf16", "fp16", "bfloat16", "float16"};
    const char *precision = cell(source, "precision");
    bool known = false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        known = known || has(source, "precision", words[i]);
    if (*precision == '\0')
        skip(source, "precision is missing");
    if (!known || has(source, "precision", "fp8") || has(source, "precision", "fp4"))
        skip(source, "precision '%s' has no model; bf16 and fp16 have", precision);
}

/** A predicted row has room for a whole cause. */
static bool causes_check(const struct measured *causes, struct error *err)
{
    const size_t most = SETTING_CAUSE - 1;
    for (int32_t line = 0; line < causes->n_rows; line++) {
        size_t bytes = strlen(measured_text(causes, line, "cause"));
        if (bytes > most)
            return error_set(err, "%s:%d: cause has %zu bytes; at most %zu are allowed", causes->path,
                             causes->lines[line], bytes, most);
    }
    return true;
}

bool setting_tables_read(struct setting_tables *tables, struct error *err)
{
    return measured_read_shipped("gpus.csv", &tables->gpus, err) &&
           measured_read_shipped("models.csv", &tables->models, err) &&
           measured_read_shipped("causes.csv", &tables->causes, err) && causes_check(&tables->causes, err);
}

void setting_tables_free(struct setting_tables *tables)
{
    measured_free(&tables->gpus);
    measured_free(&tables->models);
    measured_free(&tables->causes);
}

bool setting_of_row(const struct measured *measured, int32_t row, const struct setting_tables *tables,
                    struct setting *setting, char reason[SETTING_REASON], struct error *err)
{
    struct source source = {.measured = measured,
                            .gpus = &tables->gpus,
                            .row = row,
                            .reason = reason,
                            .assumed = setting->assumed,
                            .err = err};
    *setting = (struct setting){0};
    reason[0] = '\0';
    if (!find_known(&source, &tables->models))
        return false;
    refuse_incomplete(&source);
    if (reason[0] != '\0')
        return true;
    setting->n_gpus = whole(&source, "n_gpus");
    refuse_workload(&source);
    read_model(&source, &setting->model);
    read_platform(&source, setting);
    setting->attention = read_attention(&source);
    setting->kernels = read_kernels(&source);
    setting->loss = has(&source, "framework", "llm-foundry") ? SCENARIO_LOSS_FUSED_METRICS : SCENARIO_LOSS_PASSES;
    read_plan(&source, setting);
    read_sharding(&source, setting);
    read_overlaps(&source, setting);
    return err->status == ERROR_NONE;
}
