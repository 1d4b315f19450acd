/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module describes language models: dense decoder-only transformers, from model/llm/NAME.yaml. */
#ifndef SLIMSIM_SCENARIO_MODEL_H
#define SLIMSIM_SCENARIO_MODEL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "scenario/document.h"

enum model_activation { MODEL_SWIGLU, MODEL_GELU };

/** A norm. RMSNorm has one vector of weights, LayerNorm has two. */
enum model_norm { MODEL_RMSNORM, MODEL_LAYERNORM };

struct model {
    char name[64];
    char source[512];
    int64_t hidden;     /* h */
    int64_t layers;     /* l */
    int64_t heads;      /* n, query heads */
    int64_t kv_heads;   /* g, groups of grouped-query attention; equals heads without it */
    int64_t head_width; /* width of a head's queries, keys and values; 0: hidden / heads */
    int64_t ffn;        /* f, inner width of the feed-forward block */
    int64_t vocabulary; /* V */
    int32_t activation; /* enum model_activation */
    bool tied_embeddings;
    int32_t norm;                /* enum model_norm */
    bool biases;                 /* biases of the four GEMMs of a layer */
    bool dropout;                /* training uses dropout and keeps its masks, one byte an element */
    int64_t positions;           /* number of learned position embeddings; 0: rotary embeddings, without parameters */
    int64_t vocabulary_multiple; /* embedding and head are padded to a multiple of this x TP; 0: no padding */
};

/** Read model/llm/NAME.yaml below the data folder, or the file `name` if it ends in .yaml. */
bool model_read(const char *data_dir, const char *name, struct model *model, struct error *err);

/** Read the same keys from a mapping of a document. */
bool model_read_keys(const struct document *document, int32_t mapping, struct model *model, struct error *err);

/** Print the keys of a model's file, one a line. */
void model_list_keys(FILE *file);

/** Return the width of one head, d. */
static inline int64_t model_head_width(const struct model *model)
{
    return model->head_width > 0 ? model->head_width : model->hidden / model->heads;
}

/** Return the width of a token's queries and of its attention output: q = n d, usually h. */
static inline int64_t model_query_width(const struct model *model)
{
    return model_head_width(model) * model->heads;
}

/** Return the width of a token's keys, and of its values: k = g d. */
static inline int64_t model_kv_width(const struct model *model)
{
    return model_head_width(model) * model->kv_heads;
}

/** Return the parameters of one transformer layer's matrices: P = h(q + 2k) + q h + 3 h f (GELU: 2 h f). Norms are left
 * out. */
static inline int64_t model_layer_parameters(const struct model *model)
{
    int64_t h = model->hidden, q = model_query_width(model), k = model_kv_width(model);
    return h * (q + 2 * k) + q * h + (model->activation == MODEL_SWIGLU ? 3 : 2) * h * model->ffn;
}

/** Return the parameters of one norm: h, or 2h for LayerNorm. */
static inline int64_t model_norm_parameters(const struct model *model)
{
    return (model->norm == MODEL_LAYERNORM ? 2 : 1) * model->hidden;
}

/** Return the rows of one TP rank's share of embedding and head. The vocabulary is padded so that all ranks share
 * evenly. */
static inline double model_vocabulary_share(const struct model *model, int64_t tensor)
{
    int64_t multiple = model->vocabulary_multiple * tensor;
    if (multiple == 0)
        return (double)model->vocabulary / (double)tensor;
    int64_t n_blocks = (model->vocabulary + multiple - 1) / multiple;
    return (double)(n_blocks * model->vocabulary_multiple);
}

#endif
