/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module describes language models: decoder-only transformers, dense or with experts, from model/llm/NAME.yaml.
 */
#ifndef SLIMSIM_SCENARIO_MODEL_H
#define SLIMSIM_SCENARIO_MODEL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "document/document.h"
#include "document/schema_key.h"
#include "document/schema_text.h"

enum model_activation { MODEL_SWIGLU, MODEL_GELU, MODEL_GEGLU, MODEL_SQUARED_RELU };

/** RMSNorms of queries and keys: of each head, or of all heads together. */
enum model_qk_norm { MODEL_NO_QK_NORM, MODEL_HEAD_QK_NORM, MODEL_FULL_QK_NORM };

/** A norm. RMSNorm has one vector of weights, LayerNorm has two. */
enum model_norm { MODEL_RMSNORM, MODEL_LAYERNORM };

/** Kinds that a file may name, one of the layers that predict several tokens at once, and copies of the named ones
 * whose GEMMs stay in bf16. */
enum {
    MODEL_NAMED_KINDS = 4,
    MODEL_MTP_KIND = MODEL_NAMED_KINDS,
    MODEL_BF16_KINDS,
    MODEL_MAX_KINDS = MODEL_BF16_KINDS + MODEL_NAMED_KINDS,
    MODEL_MAX_RUNS = 8
};

/** Sizes in which layers of one model may differ. cost/layer.h makes a layer's operators of them. */
struct model_kind {
    char name[SCHEMA_WORD_BYTES]; /* in `kinds:`; without it empty */
    int64_t heads;                /* n, query heads */
    int64_t kv_heads;             /* g, groups of grouped-query attention; equals heads without it */
    int64_t head_width;           /* width of a head's queries, keys and values; 0: hidden / heads */
    int64_t kv_lora_rank; /* width of compressed keys and values (latent attention); 0: they are not compressed */
    int64_t q_lora_rank;  /* width of compressed queries; 0: they are not compressed */
    int64_t rope_width;   /* with latent attention: columns of a head's queries and keys beside head_width */
    int64_t value_width;  /* with latent attention: width of a head's values; 0: head_width */
    int64_t ffn;          /* f, inner width of the feed-forward block, or of each expert */
    int64_t experts;      /* E, routed experts of a layer; 0: a dense feed-forward block */
    int64_t top_k;        /* experts that compute a token */
    int64_t shared_ffn;   /* inner width of all shared experts together; 0: there are none */
    int64_t window;       /* W, a query sees min(its position + 1, W) keys, its own included; 0: all before it */
    int32_t activation;   /* enum model_activation */
    int32_t qk_norm;      /* enum model_qk_norm */
    bool biases;          /* all four GEMMs of a layer have biases. They take no time and are not kept */
};

/** `n` layers of a kind, one after the other. */
struct model_run {
    int32_t kind, n;
};

struct model {
    char name[64];
    char source[512];
    int64_t hidden; /* h */
    int64_t layers; /* l */
    struct model_kind kinds[MODEL_MAX_KINDS];
    int32_t n_runs; /* runs of the pattern, which repeats until all layers have a kind; 0: all are of kinds[0] */
    struct model_run pattern[MODEL_MAX_RUNS];
    int64_t bf16_at_start, bf16_at_end; /* layers whose GEMMs stay in bf16, if the others have fp8 */
    int64_t vocabulary;                 /* V */
    bool tied_embeddings;
    int32_t norm;            /* enum model_norm */
    int64_t norms;           /* norms of a layer: 1, 2 or 4; 0 counts as 2 */
    bool parallel_attention; /* attention and feed-forward block have the same input, and one sum adds both */
    bool dropout;            /* training uses dropout and keeps its masks, one byte an element */
    int64_t mtp_layers;      /* layers behind the last one that predict later tokens, each with a pass of the head */
    int64_t router_groups;   /* equal groups of a layer's experts */
    int64_t top_groups;      /* of these, those that have a token's experts */
    int64_t positions;       /* number of learned position embeddings; 0: rotary embeddings, without parameters */
    int64_t vocabulary_multiple; /* embedding and head are padded to a multiple of this x TP; 0: no padding */
};

/** Return the suffix of model files of this kind of name: ".json" for a configuration of Hugging Face. */
const char *model_suffix(const char *name);

/** Read model/llm/NAME.yaml below the data folder, or the file `name` if it ends in .yaml or .json
 * (scenario/huggingface.h). */
bool model_read(const char *data_dir, const char *name, struct model *model, struct error *err);

/**
 * Read the same keys from a mapping of a document.
 *
 * 1. Without `kinds:` all layers are of kinds[0].
 * 2. `kinds:` is a mapping of names. A kind takes the keys that it does not name from the model.
 * 3. `pattern:` is a list of {kind: NAME, n: N}. It repeats, and the last repetition is cut at `layers`.
 * 4. Each kind has at least one layer.
 * 5. `mtp_layers` are of the last layer's kind, and have a projection of two hidden states to one.
 */
bool model_read_keys(const struct document *document, int32_t mapping, struct model *model, struct error *err);

/** Print the keys of a model's file, one a line. */
void model_list_keys(const struct schema_listing *listing);

/** Let the GEMMs of so many first and last layers stay in bf16. All together are at most model->layers. */
void model_keep_bf16(struct model *model, int64_t at_start, int64_t at_end);

/** Return whether all layers but those of mtp_layers are alike. */
bool model_is_uniform(const struct model *model);

/** Return whether the GEMMs of a kind of layer stay in bf16, whatever the precision of the others is. */
static inline bool model_kind_is_bf16(int32_t kind)
{
    return kind >= MODEL_BF16_KINDS;
}

/** Return the kind of a layer. @param layer  0 is the first one; from model->layers on they are those of mtp_layers */
int32_t model_kind_of(const struct model *model, int64_t layer);

/** Count the layers of each kind. All together they are model->layers + model->mtp_layers. */
void model_count_kinds(const struct model *model, int64_t n_layers[MODEL_MAX_KINDS]);

/** Return whether a model has layers of a kind, or of its copy in bf16. */
bool model_has_kind(const struct model *model, int32_t kind);

/** Return whether a kind of layer has a window. */
bool model_has_windows(const struct model *model);

/** Return whether a kind of layer has experts. */
bool model_has_experts(const struct model *model);

/** Return whether a kind of layer has a dense feed-forward block. */
bool model_has_dense_layers(const struct model *model);

/** Return whether a kind of layer has latent attention. */
bool model_has_latent_attention(const struct model *model);

/** Return whether a kind of layer has biases. */
bool model_has_biases(const struct model *model);

/** Return whether `ranks` divide the heads, and the key and value heads, of all kinds of layers. With `copies` they may
 * also be a multiple of the latter, each of which several ranks then hold. */
bool model_shares_heads(const struct model *model, int64_t ranks, bool copies);

/** Return whether a gate multiplies the inner tensor, so that the up GEMM has two matrices: SwiGLU, GeGLU. */
static inline bool model_kind_is_gated(const struct model_kind *kind)
{
    return kind->activation == MODEL_SWIGLU || kind->activation == MODEL_GEGLU;
}

/** Return whether the last stage has a copy of the first one's table: of tied embeddings, or of MTP's. */
static inline bool model_copies_embedding(const struct model *model)
{
    return model->tied_embeddings || model->mtp_layers > 0;
}

/** Return whether the feed-forward blocks of all kinds of layers have a gate. */
bool model_is_gated(const struct model *model);

/** Return whether layers run on so many TP ranks, apart from their heads. A norm of all queries needs all of them. */
bool model_takes_tensor(const struct model *model, int64_t tensor);

/** Return the width of one head of a kind of layer, d. With latent attention it is that of the part without rotation.
 */
static inline int64_t model_head_width(const struct model *model, int32_t kind)
{
    const struct model_kind *of = &model->kinds[kind];
    return of->head_width > 0 ? of->head_width : model->hidden / of->heads;
}

/** Return the width of a head's values. */
static inline int64_t model_value_head(const struct model *model, int32_t kind)
{
    int64_t width = model->kinds[kind].value_width;
    return width > 0 ? width : model_head_width(model, kind);
}

/** Return the width of a head's queries, and of its keys. */
static inline int64_t model_key_head(const struct model *model, int32_t kind)
{
    return model_head_width(model, kind) + model->kinds[kind].rope_width;
}

/** Return the width of a token's queries: q = n d, usually h. */
static inline int64_t model_query_width(const struct model *model, int32_t kind)
{
    return model_key_head(model, kind) * model->kinds[kind].heads;
}

/** Return the width of a token's attention output: o = n v, which is q without latent attention. */
static inline int64_t model_output_width(const struct model *model, int32_t kind)
{
    return model_value_head(model, kind) * model->kinds[kind].heads;
}

/** Return the mean width of a head's keys and values. */
static inline int64_t model_attention_head(const struct model *model, int32_t kind)
{
    return (model_key_head(model, kind) + model_value_head(model, kind)) / 2;
}

/** Return the width of a token's keys, and of its values: k = g d. With latent attention it is the mean of both. */
static inline int64_t model_kv_width(const struct model *model, int32_t kind)
{
    return model_attention_head(model, kind) * model->kinds[kind].kv_heads;
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
