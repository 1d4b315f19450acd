/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scenario/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "document/document_read.h"
#include "document/library.h"
#include "document/schema.h"
#include "document/schema_text.h"
#include "scenario/huggingface.h"

/** An entry of `pattern:`. */
struct named_run {
    char kind[SCHEMA_WORD_BYTES];
    int64_t n;
};

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
    {"head_width", SCHEMA_INT, "-", 0, 1 << 16, "0", NULL,
     "d, width of a head; 0: hidden / heads; with latent attention that of its part without rotation",
     KIND(head_width)},
    {"kv_lora_rank", SCHEMA_INT, "-", 0, 1 << 20, "0", NULL,
     "width of compressed keys and values (latent attention of DeepSeek-V2 and -V3); 0: they are not compressed",
     KIND(kv_lora_rank)},
    {"q_lora_rank", SCHEMA_INT, "-", 0, 1 << 20, "0", NULL,
     "with latent attention: width of compressed queries; 0: they are not compressed", KIND(q_lora_rank)},
    {"rope_width", SCHEMA_INT, "-", 0, 1 << 16, "0", NULL,
     "with latent attention: columns of a head that rotate, beside head_width", KIND(rope_width)},
    {"value_width", SCHEMA_INT, "-", 0, 1 << 16, "0", NULL,
     "with latent attention: width of a head's values; 0: head_width", KIND(value_width)},
    {"ffn", SCHEMA_INT, "-", 1, 1 << 20, NULL, NULL, "f, inner width of the feed-forward block, or of each expert",
     KIND(ffn)},
    {"experts", SCHEMA_INT, "-", 0, 1 << 14, "0", NULL, "E, routed experts of a layer; 0: a dense feed-forward block",
     KIND(experts)},
    {"top_k", SCHEMA_INT, "-", 0, 1 << 14, "0", NULL, "with experts: routed experts that compute a token", KIND(top_k)},
    {"shared_ffn", SCHEMA_INT, "-", 0, 1 << 20, "0", NULL,
     "with experts: inner width of all shared experts together; 0: there are none", KIND(shared_ffn)},
    {"window", SCHEMA_INT, "tokens", 0, 1 << 24, "0", NULL,
     "sliding window: tokens that a query attends to, its own included; 0: all earlier ones of its sample",
     KIND(window)},
    {"vocabulary", SCHEMA_INT, "-", 1, 1 << 24, NULL, NULL, "V, tokens that the head distinguishes", FIELD(vocabulary)},
    {"activation", SCHEMA_CHOICE, "-", 0, 0, NULL, "swiglu|gelu|geglu|squared-relu",
     "activation function of the feed-forward block; swiglu and geglu have three matrices", KIND(activation)},
    {"qk_norm", SCHEMA_CHOICE, "-", 0, 0, "none", "none|head|full",
     "RMSNorms of queries and keys: of each head (Qwen3), or of all heads together (OLMo 2)", KIND(qk_norm)},
    {"norms", SCHEMA_INT, "-", 1, 4, "2", NULL,
     "norms of a layer: 2 before attention and feed-forward block, 4 also behind them (Gemma 2), 1 if both share one",
     FIELD(norms)},
    {"parallel_attention", SCHEMA_BOOL, "-", 0, 0, "false", NULL,
     "attention and feed-forward block run side by side on one input (Falcon)", FIELD(parallel_attention)},
    {"tied_embeddings", SCHEMA_BOOL, "-", 0, 0, NULL, NULL, "embedding and head share one matrix",
     FIELD(tied_embeddings)},
    {"norm", SCHEMA_CHOICE, "-", 0, 0, "rmsnorm", "rmsnorm|layernorm",
     "norm before attention and before the feed-forward block", FIELD(norm)},
    {"biases", SCHEMA_BOOL, "-", 0, 0, "false", NULL, "the GEMMs of a layer have biases", KIND(biases)},
    {"dropout", SCHEMA_BOOL, "-", 0, 0, "false", NULL, "the model is trained with dropout, and its masks are kept",
     FIELD(dropout)},
    {"mtp_layers", SCHEMA_INT, "-", 0, 8, "0", NULL,
     "layers behind the last one that predict later tokens (MTP of DeepSeek-V3), each with a pass of the head",
     FIELD(mtp_layers)},
    {"router_groups", SCHEMA_INT, "-", 1, 1 << 16, "1", NULL,
     "equal groups of a layer's experts, of which a token may choose top_groups (DeepSeek-V3)", FIELD(router_groups)},
    {"top_groups", SCHEMA_INT, "-", 1, 1 << 16, "1", NULL,
     "groups that have a token's experts; of use with router_groups", FIELD(top_groups)},
    {"positions", SCHEMA_INT, "tokens", 0, 1 << 24, "0", NULL,
     "number of learned position embeddings; 0: rotary embeddings", FIELD(positions)},
    {"vocabulary_multiple", SCHEMA_INT, "-", 0, 1 << 20, "128", NULL,
     "embedding and head are padded to a multiple of this times tp, as in Megatron-LM; 0: no padding",
     FIELD(vocabulary_multiple)},
};

enum { N_KEYS = sizeof keys / sizeof *keys };

static const char *const lists[] = {"pattern", "kinds", NULL};

static const struct schema_key run_keys[] = {
    {"kind", SCHEMA_WORD, "-", 0, 0, NULL, NULL, "name of a kind of layer", offsetof(struct named_run, kind)},
    {"n", SCHEMA_INT, "-", 1, 1 << 16, "1", NULL, "layers of this kind, one after the other",
     offsetof(struct named_run, n)},
};

void model_keep_bf16(struct model *model, int64_t at_start, int64_t at_end)
{
    model->bf16_at_start = at_start;
    model->bf16_at_end = at_end;
    for (int32_t kind = 0; kind < MODEL_NAMED_KINDS; kind++)
        model->kinds[MODEL_BF16_KINDS + kind] = model->kinds[kind];
}

bool model_is_uniform(const struct model *model)
{
    return model->n_runs == 0 && model->bf16_at_start + model->bf16_at_end == 0;
}

/** Return the kind of a layer in the pattern. */
static int32_t named_kind_of(const struct model *model, int64_t layer)
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

int32_t model_kind_of(const struct model *model, int64_t layer)
{
    bool bf16 = layer < model->bf16_at_start || layer >= model->layers - model->bf16_at_end;
    if (layer >= model->layers)
        return MODEL_MTP_KIND;
    return named_kind_of(model, layer) + (bf16 ? MODEL_BF16_KINDS : 0);
}

void model_count_kinds(const struct model *model, int64_t n_layers[MODEL_MAX_KINDS])
{
    for (int32_t kind = 0; kind < MODEL_MAX_KINDS; kind++)
        n_layers[kind] = 0;
    if (model_is_uniform(model))
        n_layers[0] = model->layers;
    for (int64_t layer = 0; !model_is_uniform(model) && layer < model->layers; layer++)
        n_layers[model_kind_of(model, layer)]++;
    n_layers[MODEL_MTP_KIND] = model->mtp_layers;
}

bool model_has_kind(const struct model *model, int32_t kind)
{
    int64_t n_layers[MODEL_MAX_KINDS];
    model_count_kinds(model, n_layers);
    return n_layers[kind] > 0 || (kind < MODEL_NAMED_KINDS && n_layers[MODEL_BF16_KINDS + kind] > 0);
}

bool model_is_gated(const struct model *model)
{
    bool gated = true;
    for (int32_t kind = 0; kind < MODEL_MAX_KINDS; kind++)
        gated = gated && (!model_has_kind(model, kind) || model_kind_is_gated(&model->kinds[kind]));
    return gated;
}

bool model_takes_tensor(const struct model *model, int64_t tensor)
{
    bool takes = true;
    for (int32_t kind = 0; tensor > 1 && kind < MODEL_MAX_KINDS; kind++)
        takes = takes && (model->kinds[kind].qk_norm != MODEL_FULL_QK_NORM || !model_has_kind(model, kind));
    return takes;
}

bool model_has_windows(const struct model *model)
{
    bool windows = false;
    for (int32_t kind = 0; kind < MODEL_MAX_KINDS; kind++)
        windows = windows || (model->kinds[kind].window > 0 && model_has_kind(model, kind));
    return windows;
}

bool model_has_experts(const struct model *model)
{
    bool experts = false;
    for (int32_t kind = 0; kind < MODEL_NAMED_KINDS; kind++)
        experts = experts || (model->kinds[kind].experts > 0 && model_has_kind(model, kind));
    return experts;
}

bool model_has_dense_layers(const struct model *model)
{
    bool dense = false;
    for (int32_t kind = 0; kind < MODEL_NAMED_KINDS; kind++)
        dense = dense || (model->kinds[kind].experts == 0 && model_has_kind(model, kind));
    return dense;
}

bool model_has_latent_attention(const struct model *model)
{
    bool latent = false;
    for (int32_t kind = 0; kind < MODEL_NAMED_KINDS; kind++)
        latent = latent || (model->kinds[kind].kv_lora_rank > 0 && model_has_kind(model, kind));
    return latent;
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

/** Check the heads of a kind. @param mapping  of the kind; its keys come first, then those of the model */
static bool check_heads(const struct document *document, int32_t mapping, const struct model *model, int32_t i,
                        struct error *err)
{
    const struct model_kind *kind = &model->kinds[i];
    if (kind->head_width == 0 && model->hidden % kind->heads != 0)
        return document_error(document, document_find(document, mapping, "heads"), err,
                              "heads: %" PRId64 " does not divide hidden = %" PRId64, kind->heads, model->hidden);
    if (model_query_width(model, i) > 1 << 20)
        return document_error(document, document_find(document, mapping, "head_width"), err,
                              "head_width: %" PRId64 " x heads = %" PRId64 " is more than 1048576", kind->head_width,
                              kind->heads);
    if (kind->heads % kind->kv_heads != 0)
        return document_error(document, document_find(document, mapping, "kv_heads"), err,
                              "kv_heads: %" PRId64 " does not divide heads = %" PRId64, kind->kv_heads, kind->heads);
    return true;
}

/** Check that a key of a kind is off, or not, by another key. */
static bool check_with(const struct document *document, int32_t mapping, const char *key, bool fits, const char *with,
                       struct error *err)
{
    int32_t node = document_find(document, mapping, key);
    return fits || document_error(document, node >= 0 ? node : mapping, err, "%s: %s", key, with);
}

/** Check the keys of latent attention of a kind. */
static bool check_latent(const struct document *document, int32_t mapping, const struct model *model, int32_t i,
                         struct error *err)
{
    const struct model_kind *kind = &model->kinds[i];
    int64_t widths = model_head_width(model, i) + kind->rope_width + model_value_head(model, i);
    if (kind->kv_lora_rank == 0)
        return check_with(document, mapping, "q_lora_rank", kind->q_lora_rank == 0, "needs kv_lora_rank", err) &&
               check_with(document, mapping, "rope_width", kind->rope_width == 0, "needs kv_lora_rank", err) &&
               check_with(document, mapping, "value_width", kind->value_width == 0, "needs kv_lora_rank", err);
    return check_with(document, mapping, "kv_lora_rank", !kind->biases, "with biases is not modelled", err) &&
           check_with(document, mapping, "qk_norm", kind->qk_norm == MODEL_NO_QK_NORM,
                      "latent attention has norms of compressed queries and keys in place of these; allowed: none",
                      err) &&
           check_with(document, mapping, "rope_width", widths % 2 == 0,
                      "the sum of head_width, rope_width and value_width is odd; allowed: even", err) &&
           check_with(document, mapping, "kv_heads", kind->kv_heads == kind->heads,
                      "latent attention has keys and values for each head; allowed: the number of heads", err);
}

/** Check the keys of experts of a kind. */
static bool check_experts(const struct document *document, int32_t mapping, const struct model *model, int32_t i,
                          struct error *err)
{
    const struct model_kind *kind = &model->kinds[i];
    if (kind->experts == 0)
        return check_with(document, mapping, "top_k", kind->top_k == 0, "needs experts", err) &&
               check_with(document, mapping, "shared_ffn", kind->shared_ffn == 0, "needs experts", err);
    return check_with(document, mapping, "top_k", 1 <= kind->top_k && kind->top_k <= kind->experts,
                      "experts that compute a token; allowed: 1 to the number of experts", err) &&
           check_with(document, mapping, "experts", !model->parallel_attention && model->norms != 1 && !model->dropout,
                      "with parallel_attention or dropout is not modelled", err);
}

/** Check the sizes of a kind. */
static bool check_kind(const struct document *document, int32_t mapping, const struct model *model, int32_t i,
                       struct error *err)
{
    return check_heads(document, mapping, model, i, err) && check_latent(document, mapping, model, i, err) &&
           check_experts(document, mapping, model, i, err);
}

/** Return whether a kind of layer may have a key of its own. */
static bool is_of_kind(const struct schema_key *key)
{
    return FIELD(kinds) <= key->offset && key->offset < FIELD(kinds[1]);
}

void model_list_keys(const struct schema_listing *listing)
{
    schema_list(listing, keys, N_KEYS, "  ");
    fputs(
        "\nA model with layers of several kinds has two more keys. `kinds: {local: {window: 1024}, global: {}}` names "
        "up to 4\nkinds. A kind may have these keys of its own: ",
        listing->file);
    const char *comma = "";
    for (int32_t i = 0; i < N_KEYS; i++)
        if (is_of_kind(&keys[i])) {
            fprintf(listing->file, "%s%s", comma, keys[i].name);
            comma = ", ";
        }
    fputs(".\nIt takes the others from the model. `pattern: [{kind: local, n: 5}, {kind: global, n: 1}]` names up to "
          "8 runs\nof layers. The pattern repeats and is cut at `layers`.\n",
          listing->file);
}

/** Read a kind's own keys over those of the model, which it has already. */
static bool read_kind(const struct document *document, int32_t mapping, struct model *model, int32_t kind,
                      struct error *err)
{
    struct schema_key own[N_KEYS];
    const char *others[N_KEYS + 1];
    int32_t n_own = 0, n_others = 0;
    for (int32_t i = 0; i < N_KEYS; i++) {
        if (!is_of_kind(&keys[i]))
            continue;
        if (document_find(document, mapping, keys[i].name) < 0) {
            others[n_others++] = keys[i].name;
            continue;
        }
        own[n_own] = keys[i];
        own[n_own++].offset += (size_t)kind * sizeof(struct model_kind);
    }
    others[n_others] = NULL;
    snprintf(model->kinds[kind].name, sizeof model->kinds[kind].name, "%s", document->node[mapping].key);
    return schema_read(document, mapping, own, n_own, others, model, err) &&
           check_kind(document, mapping, model, kind, err);
}

/** Read one run of the pattern. */
static bool read_run(const struct document *document, int32_t node, struct model *model, int32_t n_kinds,
                     struct error *err)
{
    struct named_run run = {0};
    int32_t kind = 0;
    if (!schema_read(document, node, run_keys, sizeof run_keys / sizeof *run_keys, NULL, &run, err))
        return false;
    while (kind < n_kinds && strcmp(model->kinds[kind].name, run.kind) != 0)
        kind++;
    if (kind == n_kinds)
        return document_error(document, node, err, "pattern: `kinds:` does not name '%s'", run.kind);
    model->pattern[model->n_runs++] = (struct model_run){kind, (int32_t)run.n};
    return true;
}

/** Return the number of children of a node, or refuse it. @return 0: it was refused */
static int32_t count_children(const struct document *document, int32_t node, enum document_kind kind, int32_t most,
                              struct error *err)
{
    int32_t n = 0;
    for (int32_t child = document->node[node].child; child >= 0; child = document->node[child].next)
        n++;
    if (document->node[node].kind == kind && 1 <= n && n <= most)
        return n;
    document_error(document, node, err, "%s: expected a %s of 1 to %d entries", document->node[node].key,
                   kind == DOCUMENT_MAPPING ? "mapping" : "list", most);
    return 0;
}

/** Read `kinds:` and `pattern:`, of which both or none are there. */
static bool read_kinds(const struct document *document, int32_t mapping, struct model *model, struct error *err)
{
    int32_t kinds = document_find(document, mapping, "kinds"), pattern = document_find(document, mapping, "pattern");
    int32_t n_kinds = 0;
    if (kinds < 0 && pattern < 0)
        return true;
    if (kinds < 0 || pattern < 0)
        return document_error(document, kinds < 0 ? pattern : kinds, err, "%s: needs the key `%s:` beside it",
                              kinds < 0 ? "pattern" : "kinds", kinds < 0 ? "kinds" : "pattern");
    if (count_children(document, kinds, DOCUMENT_MAPPING, MODEL_NAMED_KINDS, err) == 0 ||
        count_children(document, pattern, DOCUMENT_SEQUENCE, MODEL_MAX_RUNS, err) == 0)
        return false;
    for (int32_t kind = 1; kind < MODEL_NAMED_KINDS; kind++)
        model->kinds[kind] = model->kinds[0];
    for (int32_t node = document->node[kinds].child; node >= 0; node = document->node[node].next)
        if (!read_kind(document, node, model, n_kinds++, err))
            return false;
    for (int32_t node = document->node[pattern].child; node >= 0; node = document->node[node].next)
        if (!read_run(document, node, model, n_kinds, err))
            return false;
    for (int32_t kind = 0; kind < n_kinds; kind++)
        if (!model_has_kind(model, kind))
            return document_error(document, kinds, err, "kinds: no layer of `pattern:` is of kind '%s'",
                                  model->kinds[kind].name);
    return true;
}

static bool check_norms(const struct document *document, int32_t mapping, const struct model *model, struct error *err)
{
    bool fits = model->norms == 2 || model->norms == (model->parallel_attention ? 1 : 4);
    return fits || document_error(document, document_find(document, mapping, "norms"), err,
                                  "norms: %" PRId64 " is not allowed; allowed: 2, %s", model->norms,
                                  model->parallel_attention ? "or 1 with parallel_attention"
                                                            : "4, or 1 with parallel_attention: true");
}

bool model_read_keys(const struct document *document, int32_t mapping, struct model *model, struct error *err)
{
    bool ok = schema_read(document, mapping, keys, N_KEYS, lists, model, err) &&
              check_kind(document, mapping, model, 0, err) && check_norms(document, mapping, model, err) &&
              read_kinds(document, mapping, model, err);
    if (ok)
        model->kinds[MODEL_MTP_KIND] = model->kinds[model_kind_of(model, model->layers - 1)];
    return ok;
}

const char *model_suffix(const char *name)
{
    return library_is_path(name, ".json") ? ".json" : ".yaml";
}

/** Read a configuration of Hugging Face. */
static bool read_configuration(const char *data_dir, const char *path, struct model *model, struct error *err)
{
    struct huggingface huggingface;
    struct document document = {0};
    char *name = check_asprintf("%s, as `slimsim import` translates it", path);
    bool ok = huggingface_read(data_dir, path, &huggingface, err) &&
              document_parse(huggingface.text, strlen(huggingface.text), name, &document, err) &&
              model_read_keys(&document, 0, model, err);
    document_free(&document);
    free(name);
    huggingface_free(&huggingface);
    return ok;
}

bool model_read(const char *data_dir, const char *name, struct model *model, struct error *err)
{
    char folder[1024], path[1024];
    struct document document = {0};
    snprintf(folder, sizeof folder, "%s/model/llm", data_dir);
    *model = (struct model){0};
    if (library_is_path(name, ".json"))
        return read_configuration(data_dir, name, model, err);
    if (!library_find(folder, name, ".yaml", "model", path, err) || !document_read(path, &document, err))
        return false;
    bool ok = model_read_keys(&document, 0, model, err);
    document_free(&document);
    return ok;
}
