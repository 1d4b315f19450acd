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

enum { MOST_FIELDS = 32, VALUE_BYTES = 64, PATH_BYTES = 1024, MOST_LAYERS = 4096, MOST_RUNS = 8 };

/** Flags of a layer. Together they are its kind. */
enum { IN_WINDOW = 1, OF_EXPERTS = 2 };

/** A key of model/llm and its value. */
struct field {
    const char *key;
    char value[VALUE_BYTES];
};

struct fields {
    int32_t n;
    struct field of[MOST_FIELDS];
};

struct translation {
    struct document config, table;
    int32_t at, type;             /* node of the configuration, and of its type in the table */
    struct fields model, experts; /* keys of the model, and those of layers with experts */
    int64_t n_layers;
    unsigned char *kinds; /* flags of each layer */
    unsigned differ;      /* flags that not all layers have alike */
    const char *window;   /* NULL: no layer has one */
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

static const char *field(const struct fields *fields, const char *key)
{
    for (int32_t i = 0; i < fields->n; i++)
        if (strcmp(fields->of[i].key, key) == 0)
            return fields->of[i].value;
    return NULL;
}

static void set_field(struct fields *fields, const char *key, const char *value)
{
    int32_t i = 0;
    while (i < fields->n && strcmp(fields->of[i].key, key) != 0)
        i++;
    CHECK(i < MOST_FIELDS);
    fields->n += i == fields->n;
    fields->of[i].key = key;
    snprintf(fields->of[i].value, VALUE_BYTES, "%s", value);
}

/** Take the keys of a mapping of the table as they are. */
static void set_fields(struct translation *t, int32_t mapping)
{
    for (int32_t i = first_of(t, mapping); i >= 0; i = t->table.node[i].next)
        set_field(&t->model, t->table.node[i].key, t->table.node[i].value);
}

/** Take the keys of a mapping from the configuration, which has one of their names. */
static void set_sizes(struct translation *t, int32_t mapping, struct fields *fields)
{
    for (int32_t i = first_of(t, mapping); i >= 0; i = t->table.node[i].next) {
        const struct document_node *key = &t->table.node[i];
        const char *value = key->kind == DOCUMENT_SCALAR ? config_value(t, key->value) : NULL;
        for (int32_t name = key->child; name >= 0 && value == NULL; name = t->table.node[name].next)
            value = config_value(t, t->table.node[name].value);
        if (value != NULL)
            set_field(fields, key->key, value);
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

/** Return the type that an architecture names, or -1: mixtral of MixtralForCausalLM. */
static int32_t type_of_architecture(const struct translation *t, int32_t types)
{
    int32_t list = config_node(t, "architectures"), first = list >= 0 ? t->config.node[list].child : -1;
    bool named = first >= 0 && t->config.node[first].kind == DOCUMENT_SCALAR;
    for (int32_t i = first_of(t, types); named && i >= 0; i = t->table.node[i].next) {
        const char *key = t->table.node[i].key, *at = t->config.node[first].value;
        for (; *key != '\0' && (*key == '_' || tolower((unsigned char)*at) == *key); key++)
            at += *key != '_';
        if (*key == '\0' && (strncmp(at, "For", 3) == 0 || strncmp(at, "LMHead", 6) == 0))
            return i;
    }
    return -1;
}

/** Find the type, whose name the configuration has. */
static bool find_type(struct translation *t)
{
    char all[1024] = "";
    int32_t types = document_find(&t->table, 0, "types");
    const char *name = config_value(t, "model_type");
    t->type = name != NULL ? document_child(&t->table, types, name, strlen(name)) : type_of_architecture(t, types);
    for (int32_t i = first_of(t, types); i >= 0; i = t->table.node[i].next)
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", *all != '\0' ? ", " : "", t->table.node[i].key);
    if (t->type >= 0 && name == NULL)
        fprintf(t->said, "model_type: is missing, so it is taken from `architectures`\n");
    if (t->type >= 0)
        return true;
    if (name == NULL)
        return document_error(&t->config, -1, t->err,
                              "model_type: is missing, so this is no configuration of a model; allowed: %s", all);
    return document_error(&t->config, config_node(t, "model_type"), t->err,
                          "model_type: '%s' is not modelled; allowed: %s", name, all);
}

/** Return whether a scalar below a node of the table is this text. */
static bool has_text(const struct translation *t, int32_t node, const char *text)
{
    bool has = node >= 0 && t->table.node[node].kind == DOCUMENT_SCALAR && strcmp(t->table.node[node].value, text) == 0;
    for (int32_t i = first_of(t, node); i >= 0 && !has; i = t->table.node[i].next)
        has = has_text(t, i, text);
    return has;
}

/** Return whether one of these entries of the table, or of a type in it, has a key of a configuration. */
static bool has_key(const struct translation *t, int32_t mapping, const char *const *entries, const char *key)
{
    bool has = false;
    for (; *entries != NULL; entries++)
        has = has || has_text(t, table_node(t, mapping, *entries), key);
    return has;
}

/** Return whether the type has a key of a configuration. */
static bool type_knows(const struct translation *t, const char *key)
{
    static const char *const entries[] = {"if", "sizes", "experts", "same", "ffn", "takes", NULL};
    return has_key(t, t->type, entries, key);
}

/** Return whether the table has a key of a configuration, for all types or for this one. */
static bool is_known(const struct translation *t, const char *key)
{
    static const char *const entries[] = {"sizes", "activation_keys", "dropout", "refused", "left_out", "free", NULL};
    return has_key(t, 0, entries, key) || type_knows(t, key);
}

/** Refuse or say the keys of a list of {keys, why} that are not off, but for those of the type. */
static bool check_keys(struct translation *t, const char *list, bool refuse)
{
    bool ok = true;
    int32_t entries = document_find(&t->table, 0, list);
    for (int32_t entry = first_of(t, entries); entry >= 0; entry = t->table.node[entry].next) {
        const char *why = table_value(t, entry, "why");
        int32_t n = 0;
        for (int32_t i = first_of(t, table_node(t, entry, "keys")); i >= 0; i = t->table.node[i].next) {
            const char *key = t->table.node[i].value;
            if (is_off(t, config_node(t, key), refuse ? 0 : 1) || type_knows(t, key))
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
        return field(&t->model, "activation") != NULL ||
               document_error(&t->config, t->at, t->err, "hidden_act: is missing, so the activation is unknown");
    int32_t node = document_child(&t->table, activations, name, strlen(name));
    if (node < 0)
        return document_error(&t->config, config_node(t, key), t->err,
                              "%s: '%s' is not modelled; allowed: silu, gelu and their kinds, relu, relu2", key, name);
    const char *column = is_true(table_value(t, t->type, "gated")) ? "0" : "1";
    set_field(&t->model, "activation", table_value(t, node, column));
    return true;
}

static void set_dropout(struct translation *t)
{
    for (int32_t i = first_of(t, document_find(&t->table, 0, "dropout")); i >= 0; i = t->table.node[i].next)
        if (!is_off(t, config_node(t, t->table.node[i].value), 0) && field(&t->model, "dropout") == NULL) {
            set_field(&t->model, "dropout", "true");
            fprintf(t->said, "%s: the training has dropout, whose masks are kept\n", t->table.node[i].value);
        }
}

/** Set the inner width of the feed-forward block, if the type has one for a configuration without it. */
static void set_ffn(struct translation *t)
{
    char width[VALUE_BYTES];
    int32_t rule = table_node(t, t->type, "ffn");
    const char *hidden = field(&t->model, "hidden"), *key = table_value(t, rule, "key");
    const char *ratio = key != NULL ? config_value(t, key) : NULL;
    if (field(&t->model, "ffn") != NULL || hidden == NULL || rule < 0)
        return;
    snprintf(width, sizeof width, "%.0f",
             strtod(hidden, NULL) * strtod(ratio != NULL ? ratio : table_value(t, rule, "default"), NULL));
    set_field(&t->model, "ffn", width);
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
        set_sizes(t, table_node(t, rule, "sizes"), &t->model);
    }
}

/** Check that fields are set. `names` has the names of their keys in configurations. */
static bool check_needed(struct translation *t, const struct fields *fields, const char *const *needed, int32_t names)
{
    bool ok = true;
    for (; *needed != NULL; needed++) {
        int32_t node = table_node(t, names, *needed);
        const char *first = table_value(t, node, "0");
        if (field(fields, *needed) == NULL)
            ok = document_error(&t->config, t->at, t->err, "%s: is missing",
                                first != NULL ? first : t->table.node[node].value);
    }
    return ok;
}

/** Check that each size is known, and that two keys of the type are the same. */
static bool check_sizes(struct translation *t)
{
    static const char *const needed[] = {"hidden", "layers", "heads", "ffn", "vocabulary", NULL};
    int32_t same = table_node(t, t->type, "same");
    bool ok = check_needed(t, &t->model, needed, document_find(&t->table, 0, "sizes"));
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

/** Return the number of a rule of the table: of its key in the configuration, or its default. */
static int64_t rule_number(const struct translation *t, int32_t rule, int64_t without)
{
    const char *key = table_value(t, rule, "key");
    return key != NULL ? whole(t, key, strtoll(table_value(t, rule, "default"), NULL, 10)) : without;
}

/** Set the keys in which layers with experts differ. A type without them, and a configuration of none, has no such key.
 */
static bool set_experts(struct translation *t)
{
    static const char *const needed[] = {"experts", "top_k", "ffn", NULL};
    char width[VALUE_BYTES];
    int32_t rule = table_node(t, t->type, "experts"), sizes = table_node(t, rule, "sizes");
    const char *shared = table_value(t, rule, "shared");
    set_sizes(t, sizes, &t->experts);
    const char *experts = field(&t->experts, "experts"), *ffn = field(&t->experts, "ffn");
    if (rule < 0 || (experts != NULL && strcmp(experts, "0") == 0)) {
        t->experts.n = 0;
        return true;
    }
    int64_t n_shared = shared != NULL ? whole(t, shared, 0) : 0;
    if (n_shared > 0 && ffn != NULL) {
        snprintf(width, sizeof width, "%.0f", (double)n_shared * strtod(ffn, NULL));
        set_field(&t->experts, "shared_ffn", width);
    }
    return check_needed(t, &t->experts, needed, sizes);
}

/** Set or clear the flag of experts of the layers in a list of the configuration. */
static bool list_layers(struct translation *t, const char *key, bool experts)
{
    int32_t list = key != NULL ? config_node(t, key) : -1;
    for (int32_t entry = list >= 0 ? t->config.node[list].child : -1; entry >= 0; entry = t->config.node[entry].next) {
        const char *value = t->config.node[entry].kind == DOCUMENT_SCALAR ? t->config.node[entry].value : "";
        char *end;
        int64_t layer = strtoll(value, &end, 10);
        if (*value == '\0' || *end != '\0' || layer < 0 || layer >= t->n_layers)
            return document_error(&t->config, entry, t->err, "%s: '%s' is no layer; allowed: 0 to %" PRId64, key, value,
                                  t->n_layers - 1);
        t->kinds[layer] = experts ? OF_EXPERTS : 0;
    }
    return true;
}

/** Find which layers have experts, by their places, and by a list of them or of the others. */
static bool list_experts(struct translation *t)
{
    int32_t rule = table_node(t, t->type, "experts");
    const char *with = table_value(t, rule, "with"), *without = table_value(t, rule, "without");
    int64_t first = rule_number(t, table_node(t, rule, "first"), 0);
    int64_t step = rule_number(t, table_node(t, rule, "step"), 1);
    bool listed = with != NULL && config_node(t, with) >= 0;
    for (int64_t i = 0; i < t->n_layers && t->experts.n > 0; i++)
        t->kinds[i] = !listed && i >= first && (i + 1) % (step > 0 ? step : 1) == 0 ? OF_EXPERTS : 0;
    return t->experts.n == 0 || (list_layers(t, with, true) && list_layers(t, without, false));
}

/** Find which layers have a window by `layer_types`. */
static bool list_typed_windows(struct translation *t, int32_t types)
{
    int64_t n = 0;
    for (int32_t entry = t->config.node[types].child; entry >= 0; entry = t->config.node[entry].next, n++) {
        const char *type = t->config.node[entry].kind == DOCUMENT_SCALAR ? t->config.node[entry].value : "";
        bool slide = strcmp(type, "sliding_attention") == 0;
        if (!slide && strcmp(type, "full_attention") != 0 && !type_knows(t, type))
            return document_error(
                &t->config, entry, t->err,
                "layer_types: layer %" PRId64
                " is of another kind than full_attention and sliding_attention, which is not modelled",
                n);
        if (n < t->n_layers && slide)
            t->kinds[n] |= IN_WINDOW;
    }
    return n == t->n_layers ||
           document_error(&t->config, types, t->err,
                          "layer_types: has %" PRId64 " entries, but there are %" PRId64 " layers", n, t->n_layers);
}

/** Find which layers have a window, by their types or by their places. */
static bool list_windows(struct translation *t)
{
    const char *pattern = table_value(t, t->type, "window_pattern");
    int32_t types = config_node(t, "layer_types");
    if (types >= 0)
        return list_typed_windows(t, types);
    int64_t period = whole(t, "sliding_window_pattern", pattern != NULL ? strtoll(pattern, NULL, 10) : 0);
    int64_t first = whole(t, "max_window_layers", 0);
    period = whole(t, "_sliding_window_pattern", period);
    for (int64_t i = 0; i < t->n_layers; i++)
        t->kinds[i] |= i >= first && (period <= 0 || (i + 1) % period != 0) ? IN_WINDOW : 0;
    return true;
}

/** Return the window, or NULL if it has no effect. Types without windows in transformers have none. */
static const char *used_window(struct translation *t)
{
    const char *window = config_value(t, "sliding_window"), *use = config_value(t, "use_sliding_window");
    const char *windows = table_value(t, t->type, "windows");
    int64_t most = whole(t, "max_position_embeddings", INT64_MAX);
    if (window == NULL || !(use != NULL ? is_true(use) : windows == NULL || strcmp(windows, "on") == 0))
        return NULL;
    if (windows != NULL && whole(t, "sliding_window", 0) < most)
        return window;
    if (windows == NULL)
        fprintf(t->said, "sliding_window: has no effect, since transformers has no windows for this type\n");
    else
        fprintf(t->said,
                "sliding_window: %s tokens are all positions, so there is no window; for longer contexts import the "
                "file and add `window:`\n",
                window);
    return NULL;
}

/** Find the kinds of layers. The model takes the keys that all of them have. */
static bool find_kinds(struct translation *t)
{
    const char *layers = field(&t->model, "layers");
    unsigned all = IN_WINDOW | OF_EXPERTS, any = 0;
    t->n_layers = layers != NULL ? strtoll(layers, NULL, 10) : 0;
    if (t->n_layers < 1)
        return true; /* it is missing, or the model's reader refuses it */
    if (t->n_layers > MOST_LAYERS)
        return document_error(&t->config, t->at, t->err, "%" PRId64 " layers; at most %d are allowed", t->n_layers,
                              MOST_LAYERS);
    t->kinds = check_calloc((size_t)t->n_layers, sizeof *t->kinds);
    if (!list_experts(t) || !list_windows(t))
        return false;
    t->window = used_window(t);
    for (int64_t i = 0; i < t->n_layers; i++) {
        t->kinds[i] &= t->window != NULL ? all : OF_EXPERTS;
        any |= t->kinds[i];
    }
    for (int64_t i = 0; i < t->n_layers; i++)
        all &= t->kinds[i];
    t->differ = any & ~all;
    if (all & IN_WINDOW)
        set_field(&t->model, "window", t->window);
    for (int32_t i = 0; i < t->experts.n && all & OF_EXPERTS; i++)
        set_field(&t->model, t->experts.of[i].key, t->experts.of[i].value);
    return true;
}

/** Write the name of a kind, by the flags in which layers differ. */
static void write_name_of(const struct translation *t, unsigned kind, FILE *file)
{
    if (t->differ & IN_WINDOW)
        fputs(kind & IN_WINDOW ? "local" : "global", file);
    fputs(t->differ == (IN_WINDOW | OF_EXPERTS) ? "-" : "", file);
    if (t->differ & OF_EXPERTS)
        fputs(kind & OF_EXPERTS ? "experts" : "dense", file);
}

/** Write a kind and the keys that it does not take from the model. */
static void write_kind(const struct translation *t, unsigned kind, FILE *file)
{
    const char *comma = "";
    write_name_of(t, kind, file);
    fputs(": {", file);
    if (t->differ & kind & IN_WINDOW) {
        fprintf(file, "window: %s", t->window);
        comma = ", ";
    }
    for (int32_t i = 0; i < t->experts.n && t->differ & kind & OF_EXPERTS; i++, comma = ", ") {
        fprintf(file, "%s%s: ", comma, t->experts.of[i].key);
        document_write_text(file, t->experts.of[i].value);
    }
    fputs("}", file);
}

/** Return after how many layers their kinds repeat. */
static int64_t period_of(const struct translation *t)
{
    int64_t period = 1;
    for (int64_t i = period; i < t->n_layers; i++)
        if (t->kinds[i] != t->kinds[i % period]) {
            period++;
            i = period - 1;
        }
    return period;
}

/** Write the kinds of layers and their pattern: runs of its least period. */
static bool write_kinds(const struct translation *t, FILE *file)
{
    unsigned seen = 0;
    int32_t n_runs = 0;
    int64_t period = period_of(t);
    if (t->differ == 0)
        return true;
    fputs("kinds: {", file);
    for (int64_t i = 0; i < period; i++)
        if (!(seen & 1U << t->kinds[i])) {
            fputs(seen != 0 ? ", " : "", file);
            write_kind(t, t->kinds[i], file);
            seen |= 1U << t->kinds[i];
        }
    fputs("}\npattern: [", file);
    for (int64_t i = 0, n; i < period; i += n, n_runs++) {
        for (n = 1; i + n < period && t->kinds[i + n] == t->kinds[i]; n++)
            ;
        fputs(i > 0 ? ", {kind: " : "{kind: ", file);
        write_name_of(t, t->kinds[i], file);
        fprintf(file, ", n: %" PRId64 "}", n);
    }
    fputs("]\n", file);
    return n_runs <= MOST_RUNS ||
           document_error(&t->config, t->at, t->err,
                          "kinds of layers: %d runs of layers before they repeat; allowed: at most %d", n_runs,
                          MOST_RUNS);
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
    if (!find_config(t) || !find_type(t) || !check_keys(t, "refused", true))
        return false;
    const char *said = table_value(t, t->type, "said");
    if (said != NULL)
        fprintf(t->said, "%s\n", said);
    check_keys(t, "left_out", false);
    say_unknown(t);
    set_fields(t, table_node(t, t->type, "model"));
    set_sizes(t, document_find(&t->table, 0, "sizes"), &t->model);
    set_sizes(t, table_node(t, t->type, "sizes"), &t->model);
    set_ffn(t);
    set_dropout(t);
    bool ok = set_activation(t);
    set_rules(t);
    if (field(&t->model, "kv_heads") == NULL && field(&t->model, "heads") != NULL) {
        set_field(&t->model, "kv_heads", field(&t->model, "heads"));
        if (is_true(table_value(t, t->type, "gated")))
            fputs("num_key_value_heads: is missing, so each query head has keys and values of its own\n", t->said);
    }
    ok = set_experts(t) && find_kinds(t) && check_sizes(t) && ok;
    FILE *file = check_memstream(&keys, &n_bytes);
    write_name(path, file);
    fprintf(file, "source: \"config.json of transformers, model_type %s\"\n", t->table.node[t->type].key);
    for (int32_t i = 0; i < t->model.n; i++) {
        fprintf(file, "%s: ", t->model.of[i].key);
        document_write_text(file, t->model.of[i].value);
        fputc('\n', file);
    }
    ok = ok && write_kinds(t, file);
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
    free(t.kinds);
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
