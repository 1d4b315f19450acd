/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <ctype.h>
#include <string.h>

#include "validate/setting_parts.h"

/** Behind "FA" where a version follows, "FA2", "fav3"; NULL: nowhere. */
static const char *behind_short_name(const char *text)
{
    for (const char *at = strcasestr(text, "FA"); at != NULL; at = strcasestr(at + 1, "FA")) {
        const char *behind = at + strlen("FA");
        if ((at == text || !isalnum((unsigned char)at[-1])) && isdigit((unsigned char)behind[strspn(behind, "-_ =vV")]))
            return behind;
    }
    return NULL;
}

/** The version in "FlashAttention-2", "flash_attn 3.0", "FA2"; 0: none is named. */
static int32_t flash_version(const char *text)
{
    static const char *const spellings[] = {"FlashAttention",  "Flash-Attention", "Flash_Attention",
                                            "Flash Attention", "FlashAttn",       "Flash-Attn",
                                            "Flash_Attn",      "Flash Attn",      "Flash"};
    const char *behind = behind_short_name(text);
    for (size_t i = sizeof spellings / sizeof *spellings; i-- > 0;) {
        const char *at = strcasestr(text, spellings[i]);
        behind = at != NULL ? at + strlen(spellings[i]) : behind;
    }
    if (behind == NULL)
        return 0;
    behind += strspn(behind, "-_ =vV");
    return '1' <= *behind && *behind <= '9' ? *behind - '0' : 0;
}

/** Skip what a cell calls none of the kernels here, nor leaves open. */
static void refuse_attention(const struct cells *cells, const char *column)
{
    static const char *const open[] = {"auto",  "default", "fused",       "SDPA", "scaled_dot_product",
                                       "flash", "math",    "Transformer", "TE"};
    const char *text = cell_text(cells, column);
    bool named = *text == '\0';
    for (size_t i = 0; i < sizeof open / sizeof *open; i++)
        named = named || (strcmp(open[i], "TE") == 0 ? strncmp(text, "TE", 2) == 0 : cell_says(cells, column, open[i]));
    if (!named)
        cell_skip(cells, "%s '%.90s' has no model; FlashAttention-2 and -3, cuDNN and unfused have", column, text);
}

enum device_attention setting_read_attention(const struct cells *cells)
{
    const char *column = *cell_text(cells, "attn_backend") != '\0' ? "attn_backend" : "attn_kernel";
    int32_t version = flash_version(cell_text(cells, column));
    if (cell_has(cells, "framework", "llm-foundry"))
        return DEVICE_FLASH1;
    if (version > 3)
        cell_skip(cells, "%s '%s' has no model", column, cell_text(cells, column));
    if (version >= 1)
        return version == 1 ? DEVICE_FLASH1 : version == 2 ? DEVICE_FLASH2 : DEVICE_FLASH3;
    if (cell_has(cells, column, "cuDNN"))
        return DEVICE_CUDNN;
    static const char *const in_memory[] = {"unfused", "eager", "naive", "math"};
    bool flash = cell_says(cells, column, "flash"); /* of no version */
    for (size_t i = 0; i < sizeof in_memory / sizeof *in_memory && !flash; i++)
        if (cell_says(cells, column, in_memory[i]) &&
            (strcmp(in_memory[i], "math") != 0 || !cell_has(cells, column, "fallback")))
            return DEVICE_UNFUSED;
    refuse_attention(cells, column);
    bool hopper = cell_has(cells, "gpu", "H100") || cell_has(cells, "gpu", "H200") || cell_has(cells, "gpu", "H800");
    bool cudnn = hopper && !flash && (cell_is_megatron(cells) || cell_has(cells, "framework", "MaxText"));
    bool unfused = cell_is_before_flash(cells) && !flash;
    cell_assume(cells, unfused ? "unfused attention" : cudnn ? "attention cuDNN" : "attention flash-attention 2");
    return unfused ? DEVICE_UNFUSED : cudnn ? DEVICE_CUDNN : DEVICE_FLASH2;
}

/** Whether framework or notes say that the model is compiled, or the framework does so by default. */
static bool is_compiled(const struct cells *cells)
{
    static const char *const columns[] = {"framework", "notes"};
    static const char *const eager[] = {"eager", "no compile", "without compile", "without torch.compile",
                                        "uncompiled"};
    bool compiled = false;
    for (size_t column = 0; column < sizeof columns / sizeof *columns; column++) {
        for (size_t i = 0; i < sizeof eager / sizeof *eager; i++)
            if (cell_has(cells, columns[column], eager[i]))
                return false;
        bool source =
            cell_has(cells, columns[column], "compiled from") || cell_has(cells, columns[column], "compiled by");
        compiled = compiled || cell_says(cells, columns[column], source ? "torch.compile" : "compile");
    }
    if (!compiled && cell_has(cells, "framework", "fms-fsdp"))
        cell_assume(cells, "compiled");
    return compiled || cell_has(cells, "framework", "fms-fsdp");
}

enum scenario_kernels setting_read_kernels(const struct cells *cells)
{
    static const char *const eager[] = {"llm-foundry",  "HF",          "fms-fsdp",    "torchtitan",
                                        "Transformers", "HuggingFace", "Hugging Face"};
    for (size_t i = 0; i < sizeof eager / sizeof *eager; i++)
        if (cell_has(cells, "framework", eager[i]))
            return is_compiled(cells) ? SCENARIO_COMPILED : SCENARIO_EAGER;
    static const struct {
        const char *framework;
        enum scenario_kernels kernels;
    } known[] = {{"Megatron", SCENARIO_FUSED},  {"NeMo", SCENARIO_FUSED},     {"DeepSpeed", SCENARIO_FUSED},
                 {"InternEvo", SCENARIO_FUSED}, {"nanotron", SCENARIO_FUSED}, {"MaxText", SCENARIO_COMPILED},
                 {"Paxml", SCENARIO_COMPILED},  {"JAX", SCENARIO_COMPILED},   {"compile", SCENARIO_COMPILED}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (cell_has(cells, "framework", known[i].framework))
            return known[i].kernels;
    if (cell_has(cells, "framework", "PyTorch")) /* and none of those that run on it */
        return SCENARIO_EAGER;
    cell_assume(cells, "fused kernels");
    return SCENARIO_FUSED;
}

enum scenario_loss setting_read_loss(const struct cells *cells)
{
    return cell_has(cells, "framework", "llm-foundry") ? SCENARIO_LOSS_FUSED_METRICS : SCENARIO_LOSS_PASSES;
}
