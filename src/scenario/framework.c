/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scenario/framework.h"

#include <string.h>

#include "base/check.h"
#include "document/document_read.h"
#include "document/schema_text.h"

const char framework_value[] = "of the framework";

/** The schema fills this. Values go to scratch, which only checks them; the framework keeps their texts. */
struct reading {
    struct framework framework;
    _Alignas(int64_t) char scratch[FRAMEWORK_MOST_KEYS][SCHEMA_WORD_BYTES];
};

#define FIELD(field) offsetof(struct reading, framework.field)

/** Write a value that the key allows. It replaces a value that the file leaves out. */
static const char *any_value(const struct schema_key *key, char text[SCHEMA_WORD_BYTES])
{
    CHECK(key->type == SCHEMA_BOOL || key->type == SCHEMA_CHOICE || key->type == SCHEMA_INT ||
          key->type == SCHEMA_REAL);
    if (key->type == SCHEMA_CHOICE)
        schema_choice_name(key->choices, 0, text);
    else if (key->type == SCHEMA_INT || key->type == SCHEMA_REAL)
        snprintf(text, SCHEMA_WORD_BYTES, "%.0f", key->min);
    else
        strcpy(text, "false");
    return text;
}

/** Keep the texts of the values that the file gives. */
static bool read_texts(const struct document *document, struct framework *framework, struct error *err)
{
    bool ok = true;
    for (int32_t i = 0; i < framework->n_values; i++) {
        struct framework_value *value = &framework->values[i];
        int32_t node = document_find(document, 0, value->key);
        const char *text = node >= 0 ? document->node[node].value : "";
        if (strlen(text) < sizeof value->text)
            strcpy(value->text, text);
        else
            ok = document_error(document, node, err, "%s: is longer than the limit of %d bytes", value->key,
                                SCHEMA_WORD_BYTES - 1);
    }
    return ok;
}

/** `sources:` has the keys that the file sets, and no other. */
static bool read_sources(const struct document *document, struct reading *reading, struct error *err)
{
    struct schema_key keys[FRAMEWORK_MOST_KEYS + 1];
    struct framework *framework = &reading->framework;
    int32_t sources = document_find(document, 0, "sources");
    for (int32_t i = 0; i < framework->n_values; i++)
        keys[i] = (struct schema_key){.name = framework->values[i].key,
                                      .type = SCHEMA_TEXT,
                                      .fallback = "",
                                      .meaning = "where the value comes from",
                                      .offset = FIELD(values) + (size_t)i * sizeof *framework->values +
                                                offsetof(struct framework_value, source)};
    keys[framework->n_values] = keys[0];
    keys[framework->n_values].name = "selective";
    keys[framework->n_values].offset = FIELD(selective_source);
    bool ok = schema_read(document, sources, keys, framework->n_values + 1, NULL, reading, err);
    for (int32_t i = 0; i < framework->n_values; i++) {
        const struct framework_value *value = &framework->values[i];
        if (*value->source != '\0' && *value->text == '\0')
            ok = document_error(document, document_find(document, sources, value->key), err,
                                "sources.%s: is not allowed, since this file does not set the key", value->key);
    }
    return ok;
}

static bool read_document(const struct document *document, const struct schema_key *keys, int32_t n_keys,
                          struct reading *reading, struct error *err)
{
    enum { N_OWN = 3 };
    static const char *const others[] = {"sources", NULL};
    struct schema_key table[N_OWN + FRAMEWORK_MOST_KEYS] = {
        {"name", SCHEMA_WORD, "-", 0, 0, NULL, NULL, "name of the framework", FIELD(name)},
        {"source", SCHEMA_TEXT, "-", 0, 0, NULL, NULL, "where the values come from", FIELD(source)},
        {"selective", SCHEMA_SET, "-", 0, 0, "none", FRAMEWORK_SELECTIVE, "what plan.recompute: selective means",
         FIELD(selective)}};
    char fallback[FRAMEWORK_MOST_KEYS][SCHEMA_WORD_BYTES];
    struct framework *framework = &reading->framework;
    for (int32_t i = 0; i < n_keys; i++) {
        if (keys[i].fallback != framework_value)
            continue;
        int32_t at = framework->n_values++;
        CHECK(at < FRAMEWORK_MOST_KEYS);
        framework->values[at].key = keys[i].name;
        table[N_OWN + at] = keys[i];
        table[N_OWN + at].fallback = any_value(&keys[i], fallback[at]);
        table[N_OWN + at].offset = offsetof(struct reading, scratch) + (size_t)at * SCHEMA_WORD_BYTES;
    }
    return schema_read(document, 0, table, N_OWN + framework->n_values, others, reading, err) &&
           read_texts(document, framework, err) && read_sources(document, reading, err);
}

bool framework_read(const char *path, const struct schema_key *keys, int32_t n_keys, struct framework *framework,
                    struct error *err)
{
    struct document document = {0};
    struct reading reading = {0};
    if (!document_read(path, &document, err))
        return false;
    bool ok = read_document(&document, keys, n_keys, &reading, err);
    document_free(&document);
    *framework = reading.framework;
    return ok;
}

bool framework_check_complete(const struct framework *framework, const char *path, struct error *err)
{
    bool ok = true;
    for (int32_t i = 0; i < framework->n_values; i++)
        if (*framework->values[i].text == '\0')
            ok = error_add(
                err, "%s: %s: is required, since other frameworks take from this file the keys that they leave out",
                path, framework->values[i].key);
    return ok;
}

void framework_apply(const struct framework *framework, struct schema_key *keys, int32_t n_keys)
{
    for (int32_t i = 0; i < framework->n_values; i++)
        for (int32_t j = 0; j < n_keys && *framework->values[i].text != '\0'; j++)
            if (strcmp(keys[j].name, framework->values[i].key) == 0)
                keys[j].fallback = framework->values[i].text;
}
