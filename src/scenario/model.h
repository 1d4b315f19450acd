/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Language models: dense decoder-only transformers, from model/llm/NAME.yaml. */
#ifndef SLIMSIM_SCENARIO_MODEL_H
#define SLIMSIM_SCENARIO_MODEL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "scenario/document.h"

enum model_activation { MODEL_SWIGLU, MODEL_GELU };

/** RMSNorm has one vector of weights, LayerNorm two. */
enum model_norm { MODEL_RMSNORM, MODEL_LAYERNORM };

struct model {
    char name[64];
    char source[512];
    int64_t hidden;     /* h */
    int64_t layers;     /* l */
    int64_t heads;      /* n, query heads */
    int64_t kv_heads;   /* g, groups of grouped-query attention; equals heads without it */
    int64_t head_width; /* of queries, keys and values; 0: hidden / heads */
    int64_t ffn;        /* f, inner width of the feed-forward block */
    int64_t vocabulary; /* V */
    int32_t activation; /* enum model_activation */
    bool tied_embeddings;
    int32_t norm;                /* enum model_norm */
    bool biases;                 /* of the four GEMMs of a layer */
    bool dropout;                /* trained with it: masks are kept, a byte an element */
    int64_t positions;           /* learned position embeddings; 0: rotary ones, without parameters */
    int64_t vocabulary_multiple; /* embedding and head are padded to a multiple of it x TP; 0: not padded */
};

/** Read model/llm/NAME.yaml below the data folder, or the file itself when `name` ends in .yaml. */
bool model_read(const char *data_dir, const char *name, struct model *model, struct error *err);

/** The same from a mapping of a document. */
bool model_read_keys(const struct document *document, int32_t mapping, struct model *model, struct error *err);

/** Print the keys of a model's file, one a line. */
void model_list_keys(FILE *file);

/** Width of one head: d. */
static inline int64_t model_head_width(const struct model *model)
{
    return model->head_width > 0 ? model->head_width : model->hidden / model->heads;
}

/** Width of queries (and of attention's output) of one token: q = n d, mostly h. */
static inline int64_t model_query_width(const struct model *model)
{
    return model_head_width(model) * model->heads;
}

/** Width of keys (and of values) of one token: k = g d. */
static inline int64_t model_kv_width(const struct model *model)
{
    return model_head_width(model) * model->kv_heads;
}

/** Parameters of one transformer layer's matrices: P = h(q + 2k) + q h + 3 h f (GELU: 2 h f). Norms are left out. */
static inline int64_t model_layer_parameters(const struct model *model)
{
    int64_t h = model->hidden, q = model_query_width(model), k = model_kv_width(model);
    return h * (q + 2 * k) + q * h + (model->activation == MODEL_SWIGLU ? 3 : 2) * h * model->ffn;
}

/** Parameters of one norm: h, LayerNorm 2h. */
static inline int64_t model_norm_parameters(const struct model *model)
{
    return (model->norm == MODEL_LAYERNORM ? 2 : 1) * model->hidden;
}

/** Rows of one TP rank's share of embedding and head: the vocabulary padded so that the ranks share evenly. */
static inline double model_vocabulary_share(const struct model *model, int64_t tensor)
{
    int64_t multiple = model->vocabulary_multiple * tensor;
    if (multiple == 0)
        return (double)model->vocabulary / (double)tensor;
    int64_t n_blocks = (model->vocabulary + multiple - 1) / multiple;
    return (double)(n_blocks * model->vocabulary_multiple);
}

#endif
