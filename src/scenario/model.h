/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Language models: dense decoder-only transformers, from model/llm/NAME.yaml. */
#ifndef SLIMSIM_SCENARIO_MODEL_H
#define SLIMSIM_SCENARIO_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum model_activation { MODEL_SWIGLU, MODEL_GELU };

struct model {
    char name[64];
    char source[512];
    int64_t hidden;     /* h */
    int64_t layers;     /* l */
    int64_t heads;      /* n, query heads */
    int64_t kv_heads;   /* g, groups of grouped-query attention; equals heads without it */
    int64_t ffn;        /* f, inner width of the feed-forward block */
    int64_t vocabulary; /* V */
    int32_t activation; /* enum model_activation */
    bool tied_embeddings;
};

/** Read model/llm/NAME.yaml below the data folder, or the file itself when `name` ends in .yaml. */
bool model_read(const char *data_dir, const char *name, struct model *model, struct error *err);

/** Width of keys (and of values) of one token: k = h g / n. */
static inline int64_t model_kv_width(const struct model *model)
{
    return model->hidden / model->heads * model->kv_heads;
}

/** Parameters of one transformer layer's matrices: P = h(h + 2k) + h h + 3 h f (GELU: 2 h f). Norms are left out. */
static inline int64_t model_layer_parameters(const struct model *model)
{
    int64_t h = model->hidden, k = model_kv_width(model);
    return h * (h + 2 * k) + h * h + (model->activation == MODEL_SWIGLU ? 3 : 2) * h * model->ffn;
}

/** All parameters: layers, two norm vectors a layer and a last one, embedding and (unless tied) head. */
static inline int64_t model_parameters(const struct model *model)
{
    int64_t norms = (2 * model->layers + 1) * model->hidden;
    int64_t tables = (model->tied_embeddings ? 1 : 2) * model->vocabulary * model->hidden;
    return model->layers * model_layer_parameters(model) + norms + tables;
}

#endif
