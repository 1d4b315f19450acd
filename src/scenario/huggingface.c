/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scenario/huggingface.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "document/document_read.h"
#include "document/library.h"
#include "document/schema_key.h"

enum { MOST_FIELDS = 32, VALUE_BYTES = 64, PATH_BYTES = 1024 };

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
    struct error *err;
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
    return node >= 0 && t->config.node[node].kind == DOCUMENT_SCALAR ? t->config.node[node].value : NULL;
}

static bool is_true(const char *value)
{
    return value != NULL && strcmp(value, "true") == 0;
}

/** Return whether a key changes nothing: it is not there, false, 0, or a factor of 1. */
static bool is_off(const struct translation *t, const char *key)
{
    int32_t node = config_node(t, key);
    if (node < 0 || t->config.node[node].kind != DOCUMENT_SCALAR)
        return node < 0 || t->config.node[node].child < 0;
    const char *value = t->config.node[node].value;
    char *end;
    double number = strtod(value, &end);
    return strcmp(value, "false") == 0 || (*end == '\0' && (number == 0 || number == 1));
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
            if (is_off(t, key))
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

/** Return whether the table has a key of a configuration somewhere. */
static bool is_known(const struct translation *t, const char *key)
{
    for (int32_t i = 0; i < t->table.n_nodes; i++)
        if (t->table.node[i].kind == DOCUMENT_SCALAR && strcmp(t->table.node[i].value, key) == 0)
            return true;
    return false;
}

static void say_unknown(struct translation *t)
{
    int32_t n = 0;
    for (int32_t i = t->config.node[t->at].child; i >= 0; i = t->config.node[i].next)
        if (!is_known(t, t->config.node[i].key) && !is_off(t, t->config.node[i].key))
            fprintf(t->said, "%s%s", n++ == 0 ? "not known, so without effect: " : ", ", t->config.node[i].key);
    fputs(n > 0 ? "\n" : "", t->said);
}

/** Set the activation, which a gate changes. */
static bool set_activation(struct translation *t)
{
    const char *name = NULL;
    int32_t keys = document_find(&t->table, 0, "activation_keys"),
            activations = document_find(&t->table, 0, "activations");
    for (int32_t i = first_of(t, keys); i >= 0 && name == NULL; i = t->table.node[i].next)
        name = config_value(t, t->table.node[i].value);
    if (name == NULL)
        return field(t, "activation") != NULL ||
               document_error(&t->config, t->at, t->err, "hidden_act: is missing, so the activation is unknown");
    int32_t node = document_child(&t->table, activations, name, strlen(name));
    if (node < 0)
        return document_error(&t->config, t->at, t->err, "activation '%s' is not modelled", name);
    const char *column = is_true(table_value(t, t->type, "gated")) ? "0" : "1";
    set_field(t, "activation", table_value(t, node, column));
    return true;
}

static void set_dropout(struct translation *t)
{
    for (int32_t i = first_of(t, document_find(&t->table, 0, "dropout")); i >= 0; i = t->table.node[i].next)
        if (!is_off(t, t->table.node[i].value) && field(t, "dropout") == NULL) {
            set_field(t, "dropout", "true");
            fprintf(t->said, "%s: the training has dropout, whose masks are kept\n", t->table.node[i].value);
        }
}

/** Set the inner width of the feed-forward block if the configuration has none. */
static void set_ffn(struct translation *t)
{
    char width[VALUE_BYTES];
    const char *hidden = field(t, "hidden"), *ratio = config_value(t, "expansion_ratio");
    if (field(t, "ffn") != NULL || hidden == NULL)
        return;
    snprintf(width, sizeof width, "%.0f", strtod(hidden, NULL) * (ratio != NULL ? strtod(ratio, NULL) : 4));
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
    static const char *const needed[] = {"hidden", "layers", "heads", "vocabulary"};
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
    return value != NULL ? strtoll(value, NULL, 10) : fallback;
}

/** Find which layers have a window, by `layer_types` or by their places. */
static bool list_windows(struct translation *t, int64_t n_layers, bool *slides)
{
    const char *pattern = table_value(t, t->type, "window_pattern");
    int32_t types = config_node(t, "layer_types"), entry = types >= 0 ? t->config.node[types].child : -1;
    int64_t period = whole(t, "sliding_window_pattern", pattern != NULL ? strtoll(pattern, NULL, 10) : 0);
    period = whole(t, "_sliding_window_pattern", period);
    for (int64_t i = 0; i < n_layers; i++) {
        slides[i] = i >= whole(t, "max_window_layers", 0) && (period <= 0 || (i + 1) % period != 0);
        if (types < 0)
            continue;
        const char *type =
            entry >= 0 && t->config.node[entry].kind == DOCUMENT_SCALAR ? t->config.node[entry].value : "";
        slides[i] = strcmp(type, "sliding_attention") == 0;
        if (!slides[i] && strcmp(type, "full_attention") != 0)
            return document_error(&t->config, types, t->err,
                                  "layer_types: '%s' of layer %" PRId64
                                  " is not modelled; allowed: full_attention, sliding_attention",
                                  type, i);
        entry = t->config.node[entry].next;
    }
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

/** Write the keys of windows. */
static bool write_windows(struct translation *t, FILE *file)
{
    const char *window = config_value(t, "sliding_window"), *use = config_value(t, "use_sliding_window");
    use = use != NULL ? use : table_value(t, t->type, "use_sliding_window");
    int64_t n_layers = strtoll(field(t, "layers"), NULL, 10), most = whole(t, "max_position_embeddings", INT64_MAX);
    if (window == NULL || (use != NULL && !is_true(use)) || n_layers < 1 || n_layers > 1 << 16)
        return true;
    if (strtoll(window, NULL, 10) >= most) {
        fprintf(t->said, "sliding_window: %s tokens are the whole context, so there is no window\n", window);
        return true;
    }
    bool *slides = check_calloc((size_t)n_layers, sizeof *slides);
    bool ok = list_windows(t, n_layers, slides);
    if (ok)
        write_pattern(n_layers, slides, window, file);
    free(slides);
    return ok;
}

/** Write the model's name: that of the file, or of its folder if the file is config.json. */
static void write_name(const char *path, FILE *file)
{
    char *full = realpath(path, NULL), *slash;
    const char *name = full != NULL ? full : path;
    if (full != NULL && (slash = strrchr(full, '/')) != NULL && strcmp(slash, "/config.json") == 0)
        *slash = '\0';
    if (strrchr(name, '/') != NULL)
        name = strrchr(name, '/') + 1;
    size_t n = library_is_path(name, ".json") ? strlen(name) - strlen(".json") : strlen(name);
    fputs("name: ", file);
    for (size_t i = 0; i < n && i < SCHEMA_WORD_BYTES - 1; i++)
        fputc(strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", name[i]) ? name[i] : '-',
              file);
    fputs(n == 0 ? "model\n" : "\n", file);
    free(full);
}

static bool translate(struct translation *t, const char *path, struct huggingface *model)
{
    size_t n_bytes;
    char *keys = NULL;
    int32_t text = document_find(&t->config, 0, "text_config");
    t->at = text >= 0 && t->config.node[text].kind == DOCUMENT_MAPPING ? text : 0;
    if (!check_keys(t, "refused", true) || !find_type(t))
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
    if (field(t, "kv_heads") == NULL && field(t, "heads") != NULL)
        set_field(t, "kv_heads", field(t, "heads"));
    FILE *file = check_memstream(&keys, &n_bytes);
    write_name(path, file);
    fprintf(file, "source: \"config.json of transformers, model_type %s\"\n", t->table.node[t->type].key);
    for (int32_t i = 0; i < t->n; i++) {
        fprintf(file, "%s: ", t->fields[i].key);
        document_write_text(file, t->fields[i].value);
        fputc('\n', file);
    }
    ok = check_sizes(t) && ok && write_windows(t, file);
    CHECK(fclose(file) == 0);
    model->text = keys;
    return ok;
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
