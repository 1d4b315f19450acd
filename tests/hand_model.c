/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "hand_model.h"

const struct model hand_toy = {
    .hidden = 4, .layers = 3, .heads = 2, .kv_heads = 1, .ffn = 8, .vocabulary = 16, .activation = MODEL_SWIGLU};

const struct model hand_llama_13b = {.hidden = 5120,
                                     .layers = 40,
                                     .heads = 40,
                                     .kv_heads = 40,
                                     .ffn = 13824,
                                     .vocabulary = 32000,
                                     .activation = MODEL_SWIGLU};

const struct model hand_gpt_3 = {.hidden = 12288,
                                 .layers = 96,
                                 .heads = 96,
                                 .kv_heads = 96,
                                 .ffn = 49152,
                                 .vocabulary = 51200,
                                 .activation = MODEL_GELU,
                                 .tied_embeddings = true};

int64_t hand_parameters(const struct model *model)
{
    int64_t up = (model->activation == MODEL_SWIGLU ? 2 : 1) * model->ffn;
    int64_t biases = model->biases ? 2 * model->hidden + model_query_width(model) + 2 * model_kv_width(model) + up : 0;
    int64_t tables = (model->tied_embeddings ? 1 : 2) * model->vocabulary + model->positions;
    return model->layers * (model_layer_parameters(model) + biases) +
           (2 * model->layers + 1) * model_norm_parameters(model) + tables * model->hidden;
}

void hand_heads(struct model *model, uint64_t number)
{
    int64_t width = model_head_width(model);
    model->head_width = number % 3 == 0 ? model->head_width : number % 3 == 1 ? width / 2 : 2 * width;
}
