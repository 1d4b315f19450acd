/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scenario/huggingface.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "document/document_read.h"
#include "document/library.h"
#include "document/schema_key.h"

enum { MOST_FIELDS = 32, VALUE_BYTES = 64, PATH_BYTES = 1024, MOST_LAYERS = 4096 };

/** A key of model/llm and its value. */
struct field {
    const char *key;
    char value[VALUE_BYTES];
};

struct translation {
    struct document config, table;
    int32_t at, type; /* node of the configuration, and of its type in the table */
    int32_t n;
    struct field fields[MOST_FIELDS];
    FILE *said;
    struct error *err; /* a wrong key adds to it, and the translation goes on */
};

/** Return the node of a key, or -1 if it has no value. */
static int32_t config_node(const struct translation *t, const char *key)
{
    int32_t node = document_find(&t->config, t->at, key);
    if (node < 0)
        node = document_find(&t->config, 0, key);
    return node >= 0 && document_is_null(&t->config.node[node]) ? -1 : node;
}

/** Return the scalar of a key, or NULL if there is none. */
static const char *config_value(const struct translation *t, const char *key)
{
    int32_t node = config_node(t, key);
    if (node < 0 || t->config.node[node].kind == DOCUMENT_SCALAR)
        return node < 0 ? NULL : t->config.node[node].value;
    document_error(&t->config, node, t->err, "%s: is a list or mapping; allowed: one value", key);
    return NULL;
}

static bool is_true(const char *value)
{
    return value != NULL && strcmp(value, "true") == 0;
}

/** Return whether a key changes nothing: it is not there, empty, false, 0, or this factor. */
static bool is_off(const struct translation *t, int32_t node, double factor)
{
    if (node < 0)
        return true;
    const struct document_node *of = &t->config.node[node];
    if (of->kind != DOCUMENT_SCALAR || document_is_null(of))
        return of->child < 0;
    char *end;
    double number = strtod(of->value, &end);
    return strcmp(of->value, "false") == 0 || (*end == '\0' && (number == 0 || number == factor));
}

static int32_t table_node(const struct translation *t, int32_t mapping, const char *key)
{
    return mapping < 0 ? -1 : document_find(&t->table, mapping, key);
}

static const char *table_value(const struct translation *t, int32_t mapping, const char *key)
{
    int32_t node = table_node(t, mapping, key);
    return node >= 0 ? t->table.node[node].value : NULL;
}

static int32_t first_of(const struct translation *t, int32_t node)
{
    return node < 0 ? -1 : t->table.node[node].child;
}

static const char *field(const struct translation *t, const char *key)
{
    for (int32_t i = 0; i < t->n; i++)
        if (strcmp(t->fields[i].key, key) == 0)
            return t->fields[i].value;
    return NULL;
}

static void set_field(struct translation *t, const char *key, const char *value)
{
    int32_t i = 0;
    while (i < t->n && strcmp(t->fields[i].key, key) != 0)
        i++;
    CHECK(i < MOST_FIELDS);
    t->n += i == t->n;
    t->fields[i].key = key;
    snprintf(t->fields[i].value, VALUE_BYTES, "%s", value);
}

/** Take the keys of a mapping of the table as they are. */
static void set_fields(struct translation *t, int32_t mapping)
{
    for (int32_t i = first_of(t, mapping); i >= 0; i = t->table.node[i].next)
        set_field(t, t->table.node[i].key, t->table.node[i].value);
}

/** Take the keys of a mapping from the configuration, which has one of their names. */
static void set_sizes(struct translation *t, int32_t mapping)
{
    for (int32_t i = first_of(t, mapping); i >= 0; i = t->table.node[i].next) {
        const struct document_node *key = &t->table.node[i];
        const char *value = key->kind == DOCUMENT_SCALAR ? config_value(t, key->value) : NULL;
        for (int32_t name = key->child; name >= 0 && value == NULL; name = t->table.node[name].next)
            value = config_value(t, t->table.node[name].value);
        if (value != NULL)
            set_field(t, key->key, value);
    }
}

/** Find the configuration of the decoder: all, or `text_config`. */
static bool find_config(struct translation *t)
{
    int32_t text = config_node(t, "text_config");
    t->at = text >= 0 ? text : 0;
    return t->config.node[t->at].kind == DOCUMENT_MAPPING ||
           document_error(&t->config, text, t->err, "text_config: is no mapping");
}

/** Find the type, whose name the configuration has. */
static bool find_type(struct translation *t)
{
    char all[1024] = "";
    int32_t types = document_find(&t->table, 0, "types");
    const char *name = config_value(t, "model_type");
    t->type = name != NULL ? document_child(&t->table, types, name, strlen(name)) : -1;
    for (int32_t i = first_of(t, types); i >= 0; i = t->table.node[i].next)
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", *all != '\0' ? ", " : "", t->table.node[i].key);
    if (t->type >= 0)
        return true;
    if (name == NULL)
        return document_error(&t->config, -1, t->err,
                              "model_type: is missing, so this is no configuration of a model; allowed: %s", all);
    return document_error(&t->config, config_node(t, "model_type"), t->err,
                          "model_type: '%s' is not modelled; allowed: %s", name, all);
}

/** Refuse or say the keys of a list of {keys, why} that are not off. */
static bool check_keys(struct translation *t, const char *list, bool refuse)
{
    bool ok = true;
    int32_t entries = document_find(&t->table, 0, list);
    for (int32_t entry = first_of(t, entries); entry >= 0; entry = t->table.node[entry].next) {
        const char *why = table_value(t, entry, "why");
        int32_t n = 0;
        for (int32_t i = first_of(t, table_node(t, entry, "keys")); i >= 0; i = t->table.node[i].next) {
            const char *key = t->table.node[i].value;
            if (is_off(t, config_node(t, key), refuse ? 0 : 1))
                continue;
            if (refuse)
                ok = document_error(&t->config, config_node(t, key), t->err, "%s: %s", key, why);
            else
                fprintf(t->said, "%s%s", n++ > 0 ? ", " : "", key);
        }
        if (n > 0)
            fprintf(t->said, ": %s\n", why);
    }
    return ok;
}

/** Return whether a scalar below a node of the table is this text. */
static bool has_text(const struct translation *t, int32_t node, const char *text)
{
    bool has = node >= 0 && t->table.node[node].kind == DOCUMENT_SCALAR && strcmp(t->table.node[node].value, text) == 0;
    for (int32_t i = first_of(t, node); i >= 0 && !has; i = t->table.node[i].next)
        has = has_text(t, i, text);
    return has;
}

/** Return whether the table has a key of a configuration, for all types or for this one. */
static bool is_known(const struct translation *t, const char *key)
{
    static const char *const of_all[] = {"sizes", "activation_keys", "dropout", "refused", "left_out", "free"};
    static const char *const of_type[] = {"if", "sizes", "same", "ffn"};
    bool known = false;
    for (size_t i = 0; i < sizeof of_all / sizeof *of_all; i++)
        known = known || has_text(t, document_find(&t->table, 0, of_all[i]), key);
    for (size_t i = 0; i < sizeof of_type / sizeof *of_type; i++)
        known = known || has_text(t, table_node(t, t->type, of_type[i]), key);
    return known;
}

static void say_unknown(struct translation *t)
{
    int32_t n = 0;
    for (int32_t i = t->config.node[t->at].child; i >= 0; i = t->config.node[i].next)
        if (!is_known(t, t->config.node[i].key) && !is_off(t, i, 0)) {
            fputs(n++ == 0 ? "keys that are not known have no effect: " : ", ", t->said);
            document_write_text(t->said, t->config.node[i].key);
        }
    fputs(n > 0 ? "\n" : "", t->said);
}

/** Set the activation, which a gate changes. */
static bool set_activation(struct translation *t)
{
    const char *name = NULL;
    int32_t keys = document_find(&t->table, 0, "activation_keys"),
            activations = document_find(&t->table, 0, "activations");
    const char *key = NULL;
    for (int32_t i = first_of(t, keys); i >= 0 && name == NULL; i = t->table.node[i].next)
        name = config_value(t, key = t->table.node[i].value);
    if (name == NULL)
        return field(t, "activation") != NULL ||
               document_error(&t->config, t->at, t->err, "hidden_act: is missing, so the activation is unknown");
    int32_t node = document_child(&t->table, activations, name, strlen(name));
    if (node < 0)
        return document_error(&t->config, config_node(t, key), t->err,
                              "%s: '%s' is not modelled; allowed: silu, gelu and their kinds, relu, relu2", key, name);
    const char *column = is_true(table_value(t, t->type, "gated")) ? "0" : "1";
    set_field(t, "activation", table_value(t, node, column));
    return true;
}

static void set_dropout(struct translation *t)
{
    for (int32_t i = first_of(t, document_find(&t->table, 0, "dropout")); i >= 0; i = t->table.node[i].next)
        if (!is_off(t, config_node(t, t->table.node[i].value), 0) && field(t, "dropout") == NULL) {
            set_field(t, "dropout", "true");
            fprintf(t->said, "%s: the training has dropout, whose masks are kept\n", t->table.node[i].value);
        }
}

/** Set the inner width of the feed-forward block, if the type has one for a configuration without it. */
static void set_ffn(struct translation *t)
{
    char width[VALUE_BYTES];
    int32_t rule = table_node(t, t->type, "ffn");
    const char *hidden = field(t, "hidden"), *key = table_value(t, rule, "key");
    const char *ratio = key != NULL ? config_value(t, key) : NULL;
    if (field(t, "ffn") != NULL || hidden == NULL || rule < 0)
        return;
    snprintf(width, sizeof width, "%.0f",
             strtod(hidden, NULL) * strtod(ratio != NULL ? ratio : table_value(t, rule, "default"), NULL));
    set_field(t, "ffn", width);
}

/** Take the rules of the type that hold. */
static void set_rules(struct translation *t)
{
    for (int32_t rule = first_of(t, table_node(t, t->type, "if")); rule >= 0; rule = t->table.node[rule].next) {
        const char *value = config_value(t, table_value(t, rule, "key"));
        value = value != NULL ? value : table_value(t, rule, "default");
        if (value == NULL || strcmp(value, table_value(t, rule, "is")) != 0)
            continue;
        set_fields(t, table_node(t, rule, "model"));
        set_sizes(t, table_node(t, rule, "sizes"));
    }
}

/** Check that each size is known, and that two keys of the type are the same. */
static bool check_sizes(struct translation *t)
{
    static const char *const needed[] = {"hidden", "layers", "heads", "ffn", "vocabulary"};
    int32_t same = table_node(t, t->type, "same");
    bool ok = true;
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (field(t, needed[i]) == NULL) {
            int32_t names = table_node(t, document_find(&t->table, 0, "sizes"), needed[i]);
            ok = document_error(&t->config, t->at, t->err, "%s: is missing", table_value(t, names, "0"));
        }
    if (same < 0)
        return ok;
    const char *first = table_value(t, same, "0"), *second = table_value(t, same, "1"), *value = config_value(t, first);
    if (value != NULL && (config_value(t, second) == NULL || strcmp(value, config_value(t, second)) != 0))
        ok = document_error(&t->config, config_node(t, first), t->err, "%s: another width than %s is not modelled",
                            first, second);
    return ok;
}

/** Return a key's whole number, or another one without the key. */
static int64_t whole(const struct translation *t, const char *key, int64_t fallback)
{
    const char *value = config_value(t, key);
    char *end = NULL;
    int64_t number = value != NULL ? strtoll(value, &end, 10) : fallback;
    if (value != NULL && (*end != '\0' || number < 0))
        document_error(&t->config, config_node(t, key), t->err, "%s: '%s' is no whole number", key, value);
    return number;
}

/** Find which layers have a window by `layer_types`. */
static bool list_typed_windows(struct translation *t, int32_t types, int64_t n_layers, bool *slides)
{
    int64_t n = 0;
    for (int32_t entry = t->config.node[types].child; entry >= 0; entry = t->config.node[entry].next, n++) {
        const struct document_node *node = &t->config.node[entry];
        bool slide = node->kind == DOCUMENT_SCALAR && strcmp(node->value, "sliding_attention") == 0;
        if (!slide && (node->kind != DOCUMENT_SCALAR || strcmp(node->value, "full_attention") != 0))
            return document_error(
                &t->config, entry, t->err,
                "layer_types: layer %" PRId64
                " is of another kind than full_attention and sliding_attention, which is not modelled",
                n);
        if (n < n_layers)
            slides[n] = slide;
    }
    return n == n_layers ||
           document_error(&t->config, types, t->err,
                          "layer_types: has %" PRId64 " entries, but there are %" PRId64 " layers", n, n_layers);
}

/** Find which layers have a window, by their types or by their places. */
static bool list_windows(struct translation *t, int64_t n_layers, bool *slides)
{
    const char *pattern = table_value(t, t->type, "window_pattern");
    int32_t types = config_node(t, "layer_types");
    if (types >= 0)
        return list_typed_windows(t, types, n_layers, slides);
    int64_t period = whole(t, "sliding_window_pattern", pattern != NULL ? strtoll(pattern, NULL, 10) : 0);
    int64_t first = whole(t, "max_window_layers", 0);
    period = whole(t, "_sliding_window_pattern", period);
    for (int64_t i = 0; i < n_layers; i++)
        slides[i] = i >= first && (period <= 0 || (i + 1) % period != 0);
    return true;
}

/** Write the pattern of layers with and without a window: runs of its least period. */
static void write_pattern(int64_t n_layers, const bool *slides, const char *window, FILE *file)
{
    int64_t period = 1;
    for (int64_t i = period; i < n_layers; i++)
        if (slides[i] != slides[i % period]) {
            period++;
            i = period - 1;
        }
    if (period == 1 && slides[0])
        fprintf(file, "window: %s\n", window);
    if (period == 1)
        return;
    fprintf(file, "kinds: {local: {window: %s}, global: {}}\npattern: [", window);
    for (int64_t i = 0, n; i < period; i += n) {
        for (n = 1; i + n < period && slides[i + n] == slides[i]; n++)
            ;
        fprintf(file, "%s{kind: %s, n: %" PRId64 "}", i > 0 ? ", " : "", slides[i] ? "local" : "global", n);
    }
    fputs("]\n", file);
}

/** Write the keys of windows. Types without windows in transformers have none. */
static bool write_windows(struct translation *t, FILE *file)
{
    const char *window = config_value(t, "sliding_window"), *use = config_value(t, "use_sliding_window");
    const char *windows = table_value(t, t->type, "windows");
    int64_t n_layers = strtoll(field(t, "layers"), NULL, 10), most = whole(t, "max_position_embeddings", INT64_MAX);
    if (n_layers < 1)
        return true; /* the model's reader refuses it */
    if (n_layers > MOST_LAYERS)
        return document_error(&t->config, t->at, t->err, "%" PRId64 " layers; at most %d are allowed", n_layers,
                              MOST_LAYERS);
    bool *slides = check_calloc((size_t)n_layers, sizeof *slides), ok = list_windows(t, n_layers, slides);
    bool used = window != NULL && (use != NULL ? is_true(use) : windows == NULL || strcmp(windows, "on") == 0);
    if (used && windows == NULL)
        fprintf(t->said, "sliding_window: has no effect, since transformers has no windows for this type\n");
    else if (used && whole(t, "sliding_window", 0) >= most)
        fprintf(t->said,
                "sliding_window: %s tokens are all positions, so there is no window; for longer contexts import the "
                "file and add `window:`\n",
                window);
    else if (used && ok)
        write_pattern(n_layers, slides, window, file);
    free(slides);
    return ok;
}

/** Write the model's name: that of the file, or of its folder if the file is config.json. */
static void write_name(const char *path, FILE *file)
{
    const char *slash = strrchr(path, '/'), *base = slash != NULL ? slash + 1 : path;
    char *folder = check_strndup(slash != NULL ? path : ".", slash != NULL ? (size_t)(base - path) : 1);
    char *full = strcmp(base, "config.json") == 0 ? realpath(folder, NULL) : NULL, word[SCHEMA_WORD_BYTES] = "";
    const char *name = full != NULL ? strrchr(full, '/') + 1 : base;
    size_t n = strlen(name) - (full == NULL && library_is_path(name, ".json") ? strlen(".json") : 0);
    for (size_t i = 0; i < n && i < sizeof word - 1; i++)
        word[i] = isalnum((unsigned char)name[i]) || strchr("._-", name[i]) != NULL ? name[i] : '-';
    fputs("name: ", file);
    document_write_text(file,
                        strpbrk(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") != NULL ? word : "model");
    fputc('\n', file);
    free(full);
    free(folder);
}

static bool translate(struct translation *t, const char *path, struct huggingface *model)
{
    size_t n_bytes;
    char *keys = NULL;
    if (!find_config(t) || !check_keys(t, "refused", true) || !find_type(t))
        return false;
    const char *said = table_value(t, t->type, "said");
    if (said != NULL)
        fprintf(t->said, "%s\n", said);
    check_keys(t, "left_out", false);
    say_unknown(t);
    set_fields(t, table_node(t, t->type, "model"));
    set_sizes(t, document_find(&t->table, 0, "sizes"));
    set_sizes(t, table_node(t, t->type, "sizes"));
    set_ffn(t);
    set_dropout(t);
    bool ok = set_activation(t);
    set_rules(t);
    if (field(t, "kv_heads") == NULL && field(t, "heads") != NULL) {
        set_field(t, "kv_heads", field(t, "heads"));
        if (is_true(table_value(t, t->type, "gated")))
            fputs("num_key_value_heads: is missing, so each query head has keys and values of its own\n", t->said);
    }
    FILE *file = check_memstream(&keys, &n_bytes);
    write_name(path, file);
    fprintf(file, "source: \"config.json of transformers, model_type %s\"\n", t->table.node[t->type].key);
    for (int32_t i = 0; i < t->n; i++) {
        fprintf(file, "%s: ", t->fields[i].key);
        document_write_text(file, t->fields[i].value);
        fputc('\n', file);
    }
    ok = check_sizes(t) && write_windows(t, file) && ok;
    CHECK(fclose(file) == 0);
    model->text = keys;
    return ok && t->err->status == ERROR_NONE;
}

bool huggingface_read(const char *data_dir, const char *path, struct huggingface *model, struct error *err)
{
    struct translation t = {.err = err};
    char table[PATH_BYTES];
    size_t n_bytes;
    *model = (struct huggingface){0};
    snprintf(table, sizeof table, "%s/model/huggingface.yaml", data_dir);
    t.said = check_memstream(&model->said, &n_bytes);
    bool ok = document_read(path, &t.config, err) && document_read(table, &t.table, err) && translate(&t, path, model);
    CHECK(fclose(t.said) == 0);
    document_free(&t.config);
    document_free(&t.table);
    return ok;
}

void huggingface_free(struct huggingface *model)
{
    free(model->text);
    free(model->said);
    *model = (struct huggingface){0};
}
