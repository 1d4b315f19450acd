/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cost/cost.h"
#include "validate/known_model.h"
#include "validate/setting_parts.h"

static double parameters_of(const struct model *model)
{
    return cost_stage_parameters(model, 1, (int32_t)model->layers, true, true);
}

/** Whether a number has three digits or more: "6.74", not "7" or "0.13". */
static bool is_exact(const char *number)
{
    size_t digits = 0;
    for (number += strspn(number, "0.,"); *number != '\0' && strchr("0123456789.,", *number) != NULL; number++)
        digits += isdigit((unsigned char)*number) != 0;
    return digits >= 3;
}

/** What the notes say; else the public model, or yes by name and framework; else what alone makes an exact number of
 * parameters, to 2%; else no. */
static bool is_tied(const struct cells *cells, const struct model *model, double stated)
{
    if (cell_says(cells, "notes", "untied embeddings"))
        return false;
    if (cell_has(cells, "notes", "tied embeddings"))
        return cell_says(cells, "notes", "tied embeddings");
    bool known = cells->known.layers > 0, named = cell_is_mpt(cells) || cell_is_megatron_gpt(cells);
    bool is = known ? cells->known.tied_embeddings : named;
    if (!known && !named && is_exact(cell_text(cells, "params_b"))) {
        struct model tied = *model, untied = *model;
        tied.tied_embeddings = true;
        untied.tied_embeddings = false;
        is = fabs(parameters_of(&tied) - stated) < 0.02 * stated &&
             fabs(parameters_of(&untied) - stated) >= 0.02 * stated;
    }
    cell_assume(cells, is ? "tied embeddings" : "untied embeddings");
    return is;
}

/** Embeddings, and whether the sizes make as many parameters as the row says. */
static void read_parameters(const struct cells *cells, struct model *model)
{
    double stated = 0;
    measured_number(cells->measured, cells->row, "params_b", &stated, cells->err);
    stated *= 1e9;
    model->tied_embeddings = is_tied(cells, model, stated);
    if (stated > 0 && fabs(parameters_of(model) - stated) > 0.1 * stated)
        cell_assume(cells, "params_b is %s, though the sizes make %.2f", cell_text(cells, "params_b"),
                    parameters_of(model) / 1e9);
}

/** A size of the model, from the row or the public model; in both it must be the same. */
static int64_t size(const struct cells *cells, const char *column, int64_t known)
{
    int64_t value = cell_whole(cells, column);
    if (value > 0 && known > 0 && value != known)
        cell_skip(cells, "%s is %lld in the row, %lld in model/llm/%s.yaml", column, (long long)value, (long long)known,
                  cells->known.name);
    return value > 0 ? value : known;
}

/** "8x7B" and "-A3B": experts, and those of them that a token passes. */
static bool names_experts(const char *model)
{
    for (const char *at = strpbrk(model, "xXA"); at != NULL; at = strpbrk(at + 1, "xXA")) {
        const char *past = at + 1 + strspn(at + 1, "0123456789.");
        bool before = at > model && (*at == 'A' ? at[-1] == '-' : isdigit((unsigned char)at[-1]) != 0);
        if (before && past > at + 1 && toupper((unsigned char)*past) == 'B')
            return true;
    }
    return false;
}

/** Gemma 2 and 3: windows of attention in every second layer and more, four norms a layer. */
static bool is_late_gemma(const char *model)
{
    static const char *const names[] = {"Gemma-2", "Gemma-3"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *past = measured_past_name(model, names[i]);
        if (past != model && tolower((unsigned char)*past) != 'b')
            return true;
    }
    return false;
}

/** Width of a head where a family's is not hidden / heads; 0: it is. */
static int64_t head_width(const struct cells *cells, const struct model *model)
{
    static const struct {
        const char *name;
        int64_t width;
    } families[] = {
        {"Gemma", 256}, {"Qwen3", 128}, {"Mistral-Nemo", 128}, {"Mistral-Small-24B", 128}, {"Mistral-Small-2501", 128}};
    const char *name = known_model_bare_name(cell_text(cells, "model"));
    if (cells->known.layers > 0)
        return cells->known.head_width;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (measured_past_name(name, families[i].name) != name && families[i].width * model->heads != model->hidden) {
            cell_assume(cells, "heads %lld wide, as %s's", (long long)families[i].width, families[i].name);
            return families[i].width;
        }
    return 0;
}

/** Whether the row's sequences are longer than the window in which the model attends, where its name tells the window
 * (config.json of mistralai/Mistral-7B-v0.1: 4096; of microsoft/Phi-3-mini-4k-instruct and -medium-: 2047). */
static bool is_windowed(const struct cells *cells, const char *model)
{
    static const struct {
        const char *name;
        int64_t window;
    } windows[] = {{"Mistral-7B-v0.1", 4096},
                   {"Mistral-7B-Instruct-v0.1", 4096},
                   {"Phi-3-mini-4k", 2048},
                   {"Phi-3-medium-4k", 2048}};
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++)
        if (measured_past_name(model, windows[i].name) != model && cell_whole(cells, "seq_len") > windows[i].window)
            return true;
    if (measured_past_name(model, "Mistral-7B") == model + strlen(model) && cell_whole(cells, "seq_len") > 4096)
        cell_assume(cells, "attention to all tokens, as Mistral-7B has from v0.2 on");
    return false;
}

/** Models that are not dense, or attend within windows. */
static void refuse_architecture(const struct cells *cells)
{
    static const char *const experts[] = {"MoE", "Mixtral", "expert", "Grok", "DBRX", "DeepSeek-V", "DeepSeek V"};
    const char *model = cell_text(cells, "model");
    bool sparse = names_experts(model);
    for (size_t i = 0; i < sizeof experts / sizeof *experts; i++)
        sparse = sparse || strcasestr(model, experts[i]) != NULL;
    if (sparse)
        cell_skip(cells, "model: mixtures of experts have no model");
    if (cell_says(cells, "model", "sliding window") || cell_says(cells, "notes", "sliding window") ||
        is_late_gemma(known_model_bare_name(model)) || is_windowed(cells, known_model_bare_name(model)))
        cell_skip(cells, "model: sliding windows of attention have no model");
}

void setting_refuse_workload(const struct cells *cells)
{
    if (cell_has(cells, "model", "SFT"))
        cell_skip(cells, "model: fine-tuning on packed samples whose lengths are not given");
    if (cell_has(cells, "model", "LoRA"))
        cell_skip(cells, "model: adapters are trained, not all weights");
    if (cell_has(cells, "model", "grpo"))
        cell_skip(cells, "model: reinforcement learning, with more weights in memory than those trained");
    refuse_architecture(cells);
}

/** Activations by what they cost: gated ones, as SiLU is unless it is called ungated, have three matrices, others two.
 * @return false: it has no model */
static bool read_activation(const struct cells *cells, struct model *model)
{
    static const char *const gated[] = {"glu", "gate", "silu", "swish"}, *const plain[] = {"gelu", "relu"};
    if (*cell_text(cells, "activation") == '\0') {
        model->activation = cells->known.activation;
        return cells->known.layers > 0;
    }
    bool ungated = cell_has(cells, "activation", "gate") && !cell_says(cells, "activation", "gate");
    for (size_t i = 0; i < sizeof gated / sizeof *gated; i++)
        if (!ungated && cell_says(cells, "activation", gated[i])) {
            if (!cell_has(cells, "activation", "swiglu"))
                cell_assume(cells, "activation as swiglu");
            model->activation = MODEL_SWIGLU;
            return true;
        }
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (cell_has(cells, "activation", plain[i])) {
            model->activation = MODEL_GELU;
            return true;
        }
    if (!ungated || !(cell_has(cells, "activation", "silu") || cell_has(cells, "activation", "swish")))
        return false;
    cell_assume(cells, "activation as gelu");
    model->activation = MODEL_GELU;
    return true;
}

void setting_read_model(const struct cells *cells, struct model *model)
{
    const struct model *known = &cells->known;
    if (known->layers > 0)
        cell_assume(cells, "missing sizes of model/llm/%s.yaml", known->name);
    *model = (struct model){
        .hidden = size(cells, "hidden", known->hidden),
        .layers = size(cells, "layers", known->layers),
        .heads = size(cells, "heads", known->heads),
        .kv_heads = size(cells, "kv_groups", known->kv_heads),
        .ffn = size(cells, "ffn", known->ffn),
        .vocabulary = size(cells, "vocab", known->vocabulary),
        .norm = cell_has(cells, "norm", "layernorm") ? MODEL_LAYERNORM : known->norm,
        .biases = known->biases,
        .dropout =
            cell_has(cells, "notes", "0.1 defaults") || (cell_is_megatron_gpt(cells) && cell_is_before_flash(cells)),
        .vocabulary_multiple = cell_is_megatron(cells) ? 128 : 0,
    };
    if (cell_is_megatron_gpt(cells) && !cell_has(cells, "activation", "relu")) {
        model->biases = true;
        model->positions = cell_whole(cells, "seq_len");
    }
    if (cell_is_mpt(cells) || known->positions > 0)
        model->positions = cell_whole(cells, "seq_len");
    if (known->positions > 0 && cell_whole(cells, "seq_len") > known->positions)
        cell_skip(cells, "seq_len is %lld, and model/llm/%s.yaml has learned positions for %lld",
                  (long long)cell_whole(cells, "seq_len"), known->name, (long long)known->positions);
    snprintf(model->name, sizeof model->name, "%s", cell_text(cells, "model"));
    if (!read_activation(cells, model))
        cell_skip(cells, "activation '%s' has no model", cell_text(cells, "activation"));
    if (model->heads > 0)
        model->head_width = head_width(cells, model);
    bool whole = model->head_width > 0 || (model->heads > 0 && model->hidden % model->heads == 0);
    if (model->heads > 0 && (!whole || model->kv_heads > model->heads))
        cell_skip(cells, "hidden is not a multiple of heads, or kv_groups exceed heads");
    else if (model->heads > 0)
        read_parameters(cells, model);
}
