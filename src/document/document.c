/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "document/document.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

struct document_texts {
    size_t node_capacity; /* entries that document.node has room for */
    size_t n, capacity;
    char **text;
};

bool document_message(const char *file, int32_t line, int32_t column, struct error *err, const char *format,
                      va_list list)
{
    char message[900];
    vsnprintf(message, sizeof message, format, list);
    if (line > 0)
        return error_add(err, "%s:%d:%d: %s", file, line, column, message);
    return error_add(err, "%s: %s", file, message);
}

bool document_error(const struct document *document, int32_t node, struct error *err, const char *format, ...)
{
    const struct document_node *at = node >= 0 ? &document->node[node] : NULL;
    va_list list;
    va_start(list, format);
    document_message(at ? at->file : document->file, at ? at->line : 0, at ? at->column : 0, err, format, list);
    va_end(list);
    return false;
}

bool document_key_error(const struct document *document, int32_t node, struct error *err, const char *format, ...)
{
    const struct document_node *at = &document->node[node];
    va_list list;
    va_start(list, format);
    document_message(at->file, at->key_line, at->key_column, err, format, list);
    va_end(list);
    return false;
}

void document_open(struct document *document, const char *file)
{
    *document = (struct document){.file = check_strdup(file), .texts = check_calloc(1, sizeof *document->texts)};
}

const char *document_keep(struct document *document, char *text)
{
    struct document_texts *texts = document->texts;
    texts->text = check_grow(texts->text, texts->n, &texts->capacity, sizeof *texts->text);
    return texts->text[texts->n++] = text;
}

int32_t document_add_node(struct document *document, enum document_kind kind, const char *file)
{
    document->node =
        check_grow(document->node, (size_t)document->n_nodes, &document->texts->node_capacity, sizeof *document->node);
    document->node[document->n_nodes] = (struct document_node){.kind = kind, .child = -1, .next = -1, .file = file};
    return document->n_nodes++;
}

void document_free(struct document *document)
{
    for (int32_t i = 0; i < document->n_nodes; i++) {
        free(document->node[i].key);
        free(document->node[i].value);
    }
    free(document->node);
    free(document->file);
    for (size_t i = 0; document->texts != NULL && i < document->texts->n; i++)
        free(document->texts->text[i]);
    if (document->texts != NULL)
        free(document->texts->text);
    free(document->texts);
    *document = (struct document){0};
}

int32_t document_child(const struct document *document, int32_t mapping, const char *name, size_t length)
{
    int32_t child = document->node[mapping].kind == DOCUMENT_MAPPING ? document->node[mapping].child : -1;
    while (child >= 0 &&
           (strncmp(document->node[child].key, name, length) != 0 || document->node[child].key[length] != '\0'))
        child = document->node[child].next;
    return child;
}

int32_t document_find(const struct document *document, int32_t node, const char *path)
{
    while (node >= 0 && *path != '\0') {
        size_t length = strcspn(path, ".");
        if (document->node[node].kind == DOCUMENT_SEQUENCE) {
            char *end;
            long i = strtol(path, &end, 10);
            if (end != path + length || length == 0 || !isdigit((unsigned char)*path))
                return -1;
            for (node = document->node[node].child; node >= 0 && i > 0; i--)
                node = document->node[node].next;
        } else {
            node = document_child(document, node, path, length);
        }
        path += length + (path[length] == '.');
    }
    return node;
}

void document_keep_entry(struct document *document, const char *list, int32_t entry)
{
    int32_t parent = document_find(document, 0, list), kept = parent >= 0 ? document->node[parent].child : -1;
    for (; entry > 0 && kept >= 0; entry--)
        kept = document->node[kept].next;
    CHECK(kept >= 0);
    document->node[parent].child = kept;
    document->node[kept].next = -1;
}

bool document_is_null(const struct document_node *node)
{
    return node->kind == DOCUMENT_SCALAR && !node->quoted &&
           (*node->value == '\0' || strcmp(node->value, "~") == 0 || strcmp(node->value, "null") == 0);
}

/** Return the copy of a node's `file`. `from` is the original document and `to` its copy. */
static const char *copied_file(const struct document *from, const struct document *to, const char *file)
{
    if (file == from->file)
        return to->file;
    size_t i = 0;
    while (i < from->texts->n && file != from->texts->text[i])
        i++;
    CHECK(i < from->texts->n);
    return to->texts->text[i];
}

int32_t document_clone(struct document *to, const struct document *from, int32_t node, const char *but)
{
    const struct document_node *old = &from->node[node];
    int32_t clone = document_add_node(to, old->kind, copied_file(from, to, old->file)), last = -1;
    to->node[clone].value = old->value != NULL ? check_strdup(old->value) : NULL;
    to->node[clone].quoted = old->quoted;
    to->node[clone].line = to->node[clone].key_line = old->line;
    to->node[clone].column = to->node[clone].key_column = old->column;
    for (int32_t child = old->child; child >= 0; child = from->node[child].next) {
        const struct document_node *at = &from->node[child];
        if (but != NULL && at->key != NULL && strcmp(at->key, but) == 0)
            continue;
        int32_t entry = document_clone(to, from, child, NULL);
        to->node[entry].key = at->key != NULL ? check_strdup(at->key) : NULL;
        to->node[entry].key_line = at->key_line;
        to->node[entry].key_column = at->key_column;
        *(last < 0 ? &to->node[clone].child : &to->node[last].next) = entry;
        last = entry;
    }
    return clone;
}

void document_copy(const struct document *from, const char *but, struct document *to)
{
    size_t n_texts = from->texts->n;
    document_open(to, from->file);
    to->texts->text = check_malloc(n_texts * sizeof *to->texts->text);
    to->texts->n = to->texts->capacity = n_texts;
    for (size_t i = 0; i < n_texts; i++)
        to->texts->text[i] = check_strdup(from->texts->text[i]);
    document_clone(to, from, 0, but);
}

int32_t document_add_scalar(struct document *document, const char *value, int32_t like)
{
    int32_t node = document_add_node(document, DOCUMENT_SCALAR, document->node[like].file);
    document->node[node].value = check_strdup(value);
    document->node[node].line = document->node[like].line;
    document->node[node].column = document->node[like].column;
    return node;
}

void document_name_mapping(struct document *document, const char *key, const char *name)
{
    int32_t node = document_child(document, 0, key, strlen(key));
    if (node < 0 || document->node[node].kind != DOCUMENT_SCALAR || document_is_null(&document->node[node]))
        return;
    int32_t word = document_add_scalar(document, document->node[node].value, node);
    struct document_node *mapping = &document->node[node], *entry = &document->node[word];
    entry->key = check_strdup(name);
    entry->quoted = mapping->quoted;
    entry->key_line = entry->line;
    entry->key_column = entry->column;
    free(mapping->value);
    mapping->value = NULL;
    mapping->kind = DOCUMENT_MAPPING;
    mapping->child = word;
}

/** Write one character of UTF-8 text as \U12345678. Line ends and signs beyond ASCII then survive any reader. */
static const char *write_escaped(FILE *file, const char *text)
{
    const unsigned char *byte = (const unsigned char *)text;
    int n_more = *byte >= 0xf0 ? 3 : *byte >= 0xe0 ? 2 : *byte >= 0xc0 ? 1 : 0;
    uint32_t code = n_more == 0 ? *byte : *byte & (0x3fu >> n_more);
    for (; n_more > 0 && (byte[1] & 0xc0) == 0x80; n_more--)
        code = code << 6 | (*++byte & 0x3f);
    fprintf(file, "\\U%08X", (unsigned)code);
    return (const char *)byte + 1;
}

/** Return whether a text means the same in every place of YAML. It then holds numbers, words, paths and blanks between
 * them. */
static bool is_plain(const char *text)
{
    size_t n = strlen(text);
    return n > 0 && (isalnum((unsigned char)text[0]) || strchr("./+-", text[0]) != NULL) && text[n - 1] != ' ' &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 ._+-/") == n &&
           strncmp(text, "- ", 2) != 0 && strncmp(text, "---", 3) != 0 && strcmp(text, "-") != 0 &&
           strcmp(text, "null") != 0 && strcmp(text, "...") != 0;
}

static void write_quoted(FILE *file, const char *text)
{
    fputc('"', file);
    while (*text != '\0') {
        if (*text == '"' || *text == '\\')
            fputc('\\', file);
        if (' ' <= *text && *text <= '~')
            fputc(*text++, file);
        else
            text = write_escaped(file, text);
    }
    fputc('"', file);
}

void document_write_text(FILE *file, const char *text)
{
    if (is_plain(text))
        fputs(text, file);
    else
        write_quoted(file, text);
}

void document_write(FILE *file, const struct document *document, int32_t node)
{
    const struct document_node *at = &document->node[node];
    if (at->kind == DOCUMENT_SCALAR) {
        if (document_is_null(at))
            fputc('~', file);
        else if (at->quoted)
            write_quoted(file, at->value);
        else
            document_write_text(file, at->value);
        return;
    }
    bool mapping = at->kind == DOCUMENT_MAPPING;
    fputc(mapping ? '{' : '[', file);
    for (int32_t child = at->child; child >= 0; child = document->node[child].next) {
        if (mapping) {
            document_write_text(file, document->node[child].key);
            fputs(": ", file);
        }
        document_write(file, document, child);
        if (document->node[child].next >= 0)
            fputs(", ", file);
    }
    fputc(mapping ? '}' : ']', file);
}

char *document_text(const struct document *document, int32_t node)
{
    char *text = NULL;
    size_t n_bytes;
    FILE *file = check_memstream(&text, &n_bytes);
    document_write(file, document, node);
    CHECK(fclose(file) == 0);
    return text;
}
