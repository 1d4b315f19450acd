/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <stdio.h>
#include <string.h>

#include "validate/setting_parts.h"

static bool is_tied(const struct cells *cells)
{
    if (cell_has(cells, "notes", "untied embeddings"))
        return false;
    if (cell_has(cells, "notes", "tied embeddings"))
        return true;
    bool tied =
        cells->known.layers > 0 ? cells->known.tied_embeddings : cell_is_mpt(cells) || cell_is_megatron_gpt(cells);
    cell_assume(cells, tied ? "tied embeddings" : "untied embeddings");
    return tied;
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

/** What trains something else than all weights on whole sequences. */
void setting_refuse_workload(const struct cells *cells)
{
    if (cell_has(cells, "model", "SFT"))
        cell_skip(cells, "model: fine-tuning on packed samples whose lengths are not given");
    if (cell_has(cells, "model", "LoRA"))
        cell_skip(cells, "model: adapters are trained, not all weights");
    if (cell_has(cells, "model", "grpo"))
        cell_skip(cells, "model: reinforcement learning, with more weights in memory than those trained");
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
        .activation = cell_has(cells, "activation", "swiglu") ? MODEL_SWIGLU : MODEL_GELU,
        .tied_embeddings = is_tied(cells),
        .norm = cell_has(cells, "norm", "layernorm") ? MODEL_LAYERNORM : MODEL_RMSNORM,
        .dropout =
            cell_has(cells, "notes", "0.1 defaults") || (cell_is_megatron_gpt(cells) && cell_is_before_flash(cells)),
        .vocabulary_multiple = cell_is_megatron(cells) ? 128 : 0,
    };
    if (cell_is_megatron_gpt(cells) && !cell_has(cells, "activation", "squared-relu")) {
        model->biases = true;
        model->positions = cell_whole(cells, "seq_len");
    }
    if (cell_is_mpt(cells))
        model->positions = cell_whole(cells, "seq_len");
    if (known->positions > 0 && cell_whole(cells, "seq_len") > known->positions)
        cell_skip(cells, "seq_len is %lld, and model/llm/%s.yaml has learned positions for %lld",
                  (long long)cell_whole(cells, "seq_len"), known->name, (long long)known->positions);
    snprintf(model->name, sizeof model->name, "%s", cell_text(cells, "model"));
    if (known->layers > 0 && *cell_text(cells, "activation") == '\0')
        model->activation = known->activation;
    else if (!cell_has(cells, "activation", "swiglu") && !cell_has(cells, "activation", "gelu") &&
             !cell_has(cells, "activation", "squared-relu"))
        cell_skip(cells, "activation '%s' has no model", cell_text(cells, "activation"));
    if (model->heads > 0 && (model->hidden % model->heads != 0 || model->kv_heads > model->heads))
        cell_skip(cells, "hidden is not a multiple of heads, or kv_groups exceed heads");
}
