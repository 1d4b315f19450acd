/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scenario/model.h"

#include <inttypes.h>
#include <stdio.h>

#include "document/document_read.h"
#include "document/library.h"
#include "document/schema.h"
#include "document/schema_text.h"

#define FIELD(field) offsetof(struct model, field)
#define KIND(field)  FIELD(kinds[0].field)

/* The upper limits are far above any model. They keep products of sizes within 63 bits. */
static const struct schema_key keys[] = {
    {"name", SCHEMA_WORD, "-", 0, 0, NULL, NULL, "name of the model", FIELD(name)},
    {"source", SCHEMA_TEXT, "-", 0, 0, NULL, NULL, "source of the sizes", FIELD(source)},
    {"hidden", SCHEMA_INT, "-", 1, 1 << 20, NULL, NULL, "h, width of a token between layers", FIELD(hidden)},
    {"layers", SCHEMA_INT, "-", 1, 1 << 16, NULL, NULL, "l, transformer layers", FIELD(layers)},
    {"heads", SCHEMA_INT, "-", 1, 1 << 16, NULL, NULL, "n, query heads", KIND(heads)},
    {"kv_heads", SCHEMA_INT, "-", 1, 1 << 16, NULL, NULL, "g, key and value heads", KIND(kv_heads)},
    {"head_width", SCHEMA_INT, "-", 0, 1 << 16, "0", NULL, "d, width of a head; 0: hidden / heads", KIND(head_width)},
    {"ffn", SCHEMA_INT, "-", 1, 1 << 20, NULL, NULL, "f, inner width of the feed-forward block", KIND(ffn)},
    {"vocabulary", SCHEMA_INT, "-", 1, 1 << 24, NULL, NULL, "V, tokens that the head distinguishes", FIELD(vocabulary)},
    {"activation", SCHEMA_CHOICE, "-", 0, 0, NULL, "swiglu|gelu", "activation function of the feed-forward block",
     KIND(activation)},
    {"tied_embeddings", SCHEMA_BOOL, "-", 0, 0, NULL, NULL, "embedding and head share one matrix",
     FIELD(tied_embeddings)},
    {"norm", SCHEMA_CHOICE, "-", 0, 0, "rmsnorm", "rmsnorm|layernorm",
     "norm before attention and before the feed-forward block", FIELD(norm)},
    {"biases", SCHEMA_BOOL, "-", 0, 0, "false", NULL, "the GEMMs of a layer have biases", KIND(biases)},
    {"dropout", SCHEMA_BOOL, "-", 0, 0, "false", NULL, "the model is trained with dropout, and its masks are kept",
     FIELD(dropout)},
    {"positions", SCHEMA_INT, "tokens", 0, 1 << 24, "0", NULL,
     "number of learned position embeddings; 0: rotary embeddings", FIELD(positions)},
    {"vocabulary_multiple", SCHEMA_INT, "-", 0, 1 << 20, "128", NULL,
     "embedding and head are padded to a multiple of this times tp, as in Megatron-LM; 0: no padding",
     FIELD(vocabulary_multiple)},
};

int32_t model_kind_of(const struct model *model, int64_t layer)
{
    int64_t period = 0;
    for (int32_t i = 0; i < model->n_runs; i++)
        period += model->pattern[i].n;
    if (period == 0)
        return 0;
    int64_t place = layer % period;
    for (int32_t i = 0;; place -= model->pattern[i++].n)
        if (place < model->pattern[i].n)
            return model->pattern[i].kind;
}

void model_count_kinds(const struct model *model, int64_t n_layers[MODEL_MAX_KINDS])
{
    for (int32_t kind = 0; kind < MODEL_MAX_KINDS; kind++)
        n_layers[kind] = 0;
    if (model->n_runs == 0)
        n_layers[0] = model->layers;
    for (int64_t layer = 0; model->n_runs > 0 && layer < model->layers; layer++)
        n_layers[model_kind_of(model, layer)]++;
}

bool model_has_kind(const struct model *model, int32_t kind)
{
    int64_t n_layers[MODEL_MAX_KINDS];
    model_count_kinds(model, n_layers);
    return n_layers[kind] > 0;
}

bool model_is_swiglu(const struct model *model)
{
    bool swiglu = true;
    for (int32_t kind = 0; kind < MODEL_MAX_KINDS; kind++)
        swiglu = swiglu && (!model_has_kind(model, kind) || model->kinds[kind].activation == MODEL_SWIGLU);
    return swiglu;
}

bool model_has_biases(const struct model *model)
{
    bool biases = false;
    for (int32_t kind = 0; kind < MODEL_MAX_KINDS; kind++)
        biases = biases || (model_has_kind(model, kind) && model->kinds[kind].biases);
    return biases;
}

bool model_shares_heads(const struct model *model, int64_t ranks, bool copies)
{
    bool shares = true;
    for (int32_t kind = 0; kind < MODEL_MAX_KINDS; kind++) {
        const struct model_kind *of = &model->kinds[kind];
        shares = shares &&
                 (!model_has_kind(model, kind) ||
                  (of->heads % ranks == 0 && (of->kv_heads % ranks == 0 || (copies && ranks % of->kv_heads == 0))));
    }
    return shares;
}

static bool check_heads(const struct document *document, int32_t mapping, const struct model *model, struct error *err)
{
    const struct model_kind *kind = &model->kinds[0];
    if (kind->head_width == 0 && model->hidden % kind->heads != 0)
        return document_error(document, document_find(document, mapping, "heads"), err,
                              "heads: %" PRId64 " does not divide hidden = %" PRId64, kind->heads, model->hidden);
    if (model_query_width(model, 0) > 1 << 20)
        return document_error(document, document_find(document, mapping, "head_width"), err,
                              "head_width: %" PRId64 " x heads = %" PRId64 " is more than 1048576", kind->head_width,
                              kind->heads);
    if (kind->heads % kind->kv_heads != 0)
        return document_error(document, document_find(document, mapping, "kv_heads"), err,
                              "kv_heads: %" PRId64 " does not divide heads = %" PRId64, kind->kv_heads, kind->heads);
    return true;
}

void model_list_keys(const struct schema_listing *listing)
{
    schema_list(listing, keys, sizeof keys / sizeof *keys, "  ");
}

bool model_read_keys(const struct document *document, int32_t mapping, struct model *model, struct error *err)
{
    return schema_read(document, mapping, keys, sizeof keys / sizeof *keys, NULL, model, err) &&
           check_heads(document, mapping, model, err);
}

bool model_read(const char *data_dir, const char *name, struct model *model, struct error *err)
{
    char folder[1024], path[1024];
    struct document document = {0};
    snprintf(folder, sizeof folder, "%s/model/llm", data_dir);
    *model = (struct model){0};
    if (!library_find(folder, name, ".yaml", "model", path, err) || !document_read(path, &document, err))
        return false;
    bool ok = model_read_keys(&document, 0, model, err);
    document_free(&document);
    return ok;
}
