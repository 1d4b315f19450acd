/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "hand_model.h"

const struct model hand_toy = {.hidden = 4,
                               .layers = 3,
                               .vocabulary = 16,
                               .kinds = {{.heads = 2, .kv_heads = 1, .ffn = 8, .activation = MODEL_SWIGLU}}};

const struct model hand_latent = {.hidden = 4,
                                  .layers = 3,
                                  .vocabulary = 16,
                                  .n_runs = 2,
                                  .pattern = {{0, 1}, {1, 2}},
                                  .kinds = {{.heads = 2,
                                             .kv_heads = 2,
                                             .head_width = 2,
                                             .kv_lora_rank = 2,
                                             .q_lora_rank = 3,
                                             .rope_width = 2,
                                             .value_width = 2,
                                             .ffn = 12,
                                             .activation = MODEL_SWIGLU},
                                            {.heads = 2,
                                             .kv_heads = 2,
                                             .head_width = 2,
                                             .kv_lora_rank = 2,
                                             .q_lora_rank = 3,
                                             .rope_width = 2,
                                             .value_width = 2,
                                             .ffn = 8,
                                             .experts = 4,
                                             .top_k = 2,
                                             .shared_ffn = 6,
                                             .activation = MODEL_SWIGLU}}};

const struct model hand_llama_13b = {
    .hidden = 5120,
    .layers = 40,
    .vocabulary = 32000,
    .kinds = {{.heads = 40, .kv_heads = 40, .ffn = 13824, .activation = MODEL_SWIGLU}}};

const struct model hand_gpt_3 = {.hidden = 12288,
                                 .layers = 96,
                                 .vocabulary = 51200,
                                 .tied_embeddings = true,
                                 .kinds = {{.heads = 96, .kv_heads = 96, .ffn = 49152, .activation = MODEL_GELU}}};

int64_t hand_parameters(const struct model *model)
{
    int64_t up = (model_kind_is_gated(&model->kinds[0]) ? 2 : 1) * model->kinds[0].ffn;
    int64_t biases = model->kinds[0].biases
                         ? 2 * model->hidden + model_query_width(model, 0) + 2 * model_kv_width(model, 0) + up
                         : 0;
    int64_t tables = (model->tied_embeddings ? 1 : 2) * model->vocabulary + model->positions;
    int64_t norms = model->norms > 0 ? model->norms : 2,
            qk_norms[] = {[MODEL_NO_QK_NORM] = 0,
                          [MODEL_HEAD_QK_NORM] = 2 * model_head_width(model, 0),
                          [MODEL_FULL_QK_NORM] = model_query_width(model, 0) + model_kv_width(model, 0)};
    return model->layers * (layer_matrix_parameters(model, 0) + biases + qk_norms[model->kinds[0].qk_norm]) +
           (norms * model->layers + 1) * model_norm_parameters(model) + tables * model->hidden;
}

void hand_heads(struct model *model, uint64_t number)
{
    int64_t width = model_head_width(model, 0);
    model->kinds[0].head_width = number % 3 == 0 ? model->kinds[0].head_width : number % 3 == 1 ? width / 2 : 2 * width;
}

void hand_experts(struct model *model)
{
    struct model_kind *dense = &model->kinds[0], *experts = &model->kinds[1];
    dense->kv_heads = dense->heads;
    dense->head_width = model_head_width(model, 0);
    dense->kv_lora_rank = 24;
    dense->rope_width = 4;
    *experts = *dense;
    experts->ffn /= 2;
    experts->experts = 8;
    experts->top_k = 2;
    experts->shared_ffn = 32;
    model->n_runs = 2;
    model->pattern[0] = (struct model_run){1, 2};
    model->pattern[1] = (struct model_run){0, 1};
}
