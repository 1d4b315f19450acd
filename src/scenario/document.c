/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scenario/document.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "scenario/document_yaml.h"

struct document_texts {
    size_t node_capacity; /* of document.node */
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

int32_t document_add_node(struct document *document, enum document_kind kind, const char *file)
{
    document->node =
        check_grow(document->node, (size_t)document->n_nodes, &document->texts->node_capacity, sizeof *document->node);
    document->node[document->n_nodes] = (struct document_node){.kind = kind, .child = -1, .next = -1, .file = file};
    return document->n_nodes++;
}

bool document_parse(const char *text, size_t n_bytes, const char *name, struct document *document, struct error *err)
{
    *document = (struct document){.file = check_strdup(name), .texts = check_calloc(1, sizeof(struct document_texts))};
    int32_t root = document_yaml_read(document, text, n_bytes, document->file, true, err);
    bool ok = root >= 0;
    if (ok && document->node[root].kind != DOCUMENT_MAPPING)
        ok = document_error(document, root, err, "expected keys with values (key: value), found %s",
                            document->node[root].kind == DOCUMENT_SCALAR ? "a single value" : "a list");
    if (!ok)
        document_free(document);
    return ok;
}

bool document_read(const char *path, struct document *document, struct error *err)
{
    *document = (struct document){0};
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return error_add(err, "%s: cannot be read: %s", path, strerror(errno));
    char *text = check_malloc(DOCUMENT_YAML_BYTES + 1); /* one byte more shows that the file is too long */
    size_t n_bytes = fread(text, 1, DOCUMENT_YAML_BYTES + 1, file);
    bool failed = ferror(file);
    int reason = errno;
    fclose(file);
    bool ok = failed ? error_add(err, "%s: cannot be read: %s", path, strerror(reason))
                     : document_parse(text, n_bytes, path, document, err);
    free(text);
    return ok;
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

static int32_t child_by_name(const struct document *document, int32_t mapping, const char *name, size_t length)
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
            node = child_by_name(document, node, path, length);
        }
        path += length + (path[length] == '.');
    }
    return node;
}

bool document_is_null(const struct document_node *node)
{
    return node->kind == DOCUMENT_SCALAR && !node->quoted &&
           (*node->value == '\0' || strcmp(node->value, "~") == 0 || strcmp(node->value, "null") == 0);
}

/** Put `entry` where `old` stands among the parent's children, or after the last when old is -1. */
static void put_entry(struct document *document, int32_t parent, int32_t old, int32_t entry, const char *key)
{
    int32_t *link = &document->node[parent].child;
    while (*link != old)
        link = &document->node[*link].next;
    *link = entry;
    document->node[entry].next = old >= 0 ? document->node[old].next : -1;
    document->node[entry].key = document->node[parent].kind == DOCUMENT_MAPPING ? check_strdup(key) : NULL;
}

/** The entry that one segment of a path selects; *entry = -1: a mapping lacks it. */
static bool select_entry(struct document *document, int32_t parent, const char *segment, const char *file,
                         int32_t *entry, struct error *err)
{
    struct document_node *at = &document->node[parent];
    if (document_is_null(at)) { /* `knobs:` with nothing behind it: a mapping without keys yet */
        free(at->value);
        at->value = NULL;
        at->kind = DOCUMENT_MAPPING;
    }
    *entry = -1;
    if (at->kind == DOCUMENT_SCALAR)
        return error_add(err, "%s: '%.200s' has the value '%.200s'; there are no keys below it", file,
                         at->key ? at->key : "this entry", at->value);
    if (at->kind == DOCUMENT_MAPPING) {
        *entry = child_by_name(document, parent, segment, strlen(segment));
        return true;
    }
    int32_t n = 0;
    char index[16];
    for (int32_t child = at->child; child >= 0; child = document->node[child].next) {
        snprintf(index, sizeof index, "%d", n++);
        if (strcmp(segment, index) == 0)
            *entry = child;
    }
    return *entry >= 0 || error_add(err, "%s: '%.200s' selects nothing from the list '%.200s'; it has entries 0 to %d",
                                    file, segment, at->key ? at->key : "of a list", n - 1);
}

/** Walk the path, which is cut into segments on the way, and put `value` at its end. place: names it in messages */
static bool set_at_path(struct document *document, char *path, int32_t value, const char *place, struct error *err)
{
    int32_t at = 0, entry = -1, depth = 0;
    const char *file = document->node[value].file;
    for (char *segment = path, *next; segment != NULL; segment = next, at = entry) {
        next = strchr(segment, '.');
        if (next != NULL)
            *next++ = '\0';
        if (*segment == '\0')
            return error_add(err, "%s: a key is missing before or behind a dot; keys look like data.context", place);
        if (++depth > DOCUMENT_YAML_DEPTH)
            return error_add(err, "%s: more than %d keys deep", place, DOCUMENT_YAML_DEPTH);
        if (!select_entry(document, at, segment, place, &entry, err))
            return false;
        if (next == NULL) {
            put_entry(document, at, entry, value, segment);
        } else if (entry < 0) {
            entry = document_add_node(document, DOCUMENT_MAPPING, file);
            put_entry(document, at, -1, entry, segment);
        }
    }
    return true;
}

/** How messages name an assignment of an option, kept as long as the document; a long one is cut. */
static const char *assignment_name(struct document *document, const char *option, const char *assignment)
{
    enum { SHOWN = 200, BYTES = SHOWN + 32 };
    struct document_texts *texts = document->texts;
    texts->text = check_grow(texts->text, texts->n, &texts->capacity, sizeof *texts->text);
    char *name = check_malloc(BYTES);
    snprintf(name, BYTES, "%s '%.*s%s'", option, SHOWN, assignment, strlen(assignment) > SHOWN ? "..." : "");
    texts->text[texts->n++] = name;
    return name;
}

/** The '=' of key=value, NULL with a message. */
static const char *value_of(const char *assignment, const char *name, struct error *err)
{
    const char *equals = strchr(assignment, '=');
    if (equals == NULL || equals == assignment)
        error_add(err, "%s: expected key=value, such as data.context=64Ki", name);
    else if (equals[1 + strspn(equals + 1, " ")] == '\0')
        error_add(err, "%s: there is no value behind '='", name);
    else
        return equals;
    return NULL;
}

bool document_set(struct document *document, const char *assignment, struct error *err)
{
    const char *file = assignment_name(document, "--set", assignment), *equals = value_of(assignment, file, err);
    if (equals == NULL)
        return false;
    int32_t value = document_yaml_read(document, equals + 1, strlen(equals + 1), file, false, err);
    if (value < 0)
        return false;
    char *path = check_strdup(assignment);
    path[equals - assignment] = '\0';
    bool ok = set_at_path(document, path, value, file, err);
    free(path);
    return ok;
}

/** The root's mapping of this name, made where there is none; -1 with a message when it is something else. */
static int32_t root_group(struct document *document, const char *name, const char *file, struct error *err)
{
    int32_t group = -1;
    if (!select_entry(document, 0, name, file, &group, err))
        return -1;
    if (group < 0) {
        group = document_add_node(document, DOCUMENT_MAPPING, file);
        put_entry(document, 0, -1, group, name);
    }
    int32_t none;
    if (document_is_null(&document->node[group]))
        select_entry(document, group, "", file, &none, err);
    if (document->node[group].kind == DOCUMENT_MAPPING)
        return group;
    document_error(document, group, err, "%s: expected a mapping of keys", name);
    return -1;
}

bool document_set_list(struct document *document, const char *group, const char *option, const char *assignment,
                       struct error *err)
{
    const char *file = assignment_name(document, option, assignment), *equals = value_of(assignment, file, err);
    int32_t mapping = equals != NULL ? root_group(document, group, file, err) : -1;
    if (mapping < 0)
        return false;
    bool whole = equals[1] == '{';
    size_t bytes = strlen(equals) + 3;
    char *text = check_malloc(bytes), *key = strndup(assignment, (size_t)(equals - assignment));
    snprintf(text, bytes, whole ? "%s" : "[%s]", equals + 1);
    int32_t value = document_yaml_read(document, text, strlen(text), file, false, err);
    if (value >= 0)
        put_entry(document, mapping, child_by_name(document, mapping, key, strlen(key)), value, key);
    free(text);
    free(key);
    return value >= 0;
}

/** Where `file` of a node of `from` lies in its copy. */
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

/** A copy of a node of `from` and all below it, without its own key and, inside, the key `but` (or NULL). */
static int32_t clone_node(struct document *to, const struct document *from, int32_t node, const char *but)
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
        int32_t entry = clone_node(to, from, child, NULL);
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
    *to = (struct document){.file = check_strdup(from->file), .texts = check_calloc(1, sizeof *to->texts)};
    to->texts->text = check_malloc(n_texts * sizeof *to->texts->text);
    to->texts->n = to->texts->capacity = n_texts;
    for (size_t i = 0; i < n_texts; i++)
        to->texts->text[i] = check_strdup(from->texts->text[i]);
    clone_node(to, from, 0, but);
}

bool document_put(struct document *document, const char *path, const struct document *from, int32_t node,
                  struct error *err)
{
    const struct document_node *at = &from->node[node];
    char place[1024], *segments = check_strdup(path);
    if (at->line > 0)
        snprintf(place, sizeof place, "%s:%d:%d: %s", at->file, at->line, at->column, path);
    else
        snprintf(place, sizeof place, "%s", at->file);
    bool ok = set_at_path(document, segments, clone_node(document, from, node, NULL), place, err);
    free(segments);
    return ok;
}

int32_t document_add_scalar(struct document *document, const char *value, int32_t like)
{
    int32_t node = document_add_node(document, DOCUMENT_SCALAR, document->node[like].file);
    document->node[node].value = check_strdup(value);
    document->node[node].line = document->node[like].line;
    document->node[node].column = document->node[like].column;
    return node;
}

/** One character of UTF-8 text as \U12345678: line ends and signs beyond ASCII survive any reader. */
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

/** Numbers, words, paths and blanks between them mean the same in every place of YAML. */
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
