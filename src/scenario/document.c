/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scenario/document.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/check.h"

enum { MAX_BYTES = 1 << 20, MAX_DEPTH = 64 };

struct document_texts {
    size_t node_capacity; /* of document.node */
    size_t n, capacity;
    char **text;
};

/** One text on its way into the tree. */
struct reader {
    yaml_parser_t parser;
    struct document *document;
    const char *file;
    const char *text;
    size_t n_bytes;
    bool placed; /* lines and columns mean something to the user */
    bool failed; /* something was added to err, reading goes on */
    struct error *err;
};

static bool add_message(const char *file, int32_t line, int32_t column, struct error *err, const char *format,
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
    add_message(at ? at->file : document->file, at ? at->line : 0, at ? at->column : 0, err, format, list);
    va_end(list);
    return false;
}

bool document_key_error(const struct document *document, int32_t node, struct error *err, const char *format, ...)
{
    const struct document_node *at = &document->node[node];
    va_list list;
    va_start(list, format);
    add_message(at->file, at->key_line, at->key_column, err, format, list);
    va_end(list);
    return false;
}

/** Of the text that is being read, at one of libyaml's marks. */
static bool reader_error(struct reader *reader, yaml_mark_t mark, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    add_message(reader->file, reader->placed ? (int32_t)mark.line + 1 : 0, (int32_t)mark.column + 1, reader->err,
                format, list);
    va_end(list);
    reader->failed = true;
    return false;
}

static int32_t add_node(struct document *document, enum document_kind kind, const char *file)
{
    document->node =
        check_grow(document->node, (size_t)document->n_nodes, &document->texts->node_capacity, sizeof *document->node);
    document->node[document->n_nodes] = (struct document_node){.kind = kind, .child = -1, .next = -1, .file = file};
    return document->n_nodes++;
}

/** libyaml gives a byte offset, not a mark, for bytes that are no text. */
static yaml_mark_t mark_of_offset(const struct reader *reader, size_t offset)
{
    yaml_mark_t mark = {0};
    for (size_t i = 0; i < offset && i < reader->n_bytes; i++) {
        mark.column = reader->text[i] == '\n' ? 0 : mark.column + 1;
        mark.line += reader->text[i] == '\n';
    }
    return mark;
}

static bool next_event(struct reader *reader, yaml_event_t *event)
{
    if (yaml_parser_parse(&reader->parser, event))
        return true;
    const yaml_parser_t *parser = &reader->parser;
    yaml_mark_t mark =
        parser->error == YAML_READER_ERROR ? mark_of_offset(reader, parser->problem_offset) : parser->problem_mark;
    CHECK(parser->error != YAML_MEMORY_ERROR);
    return reader_error(reader, mark, "not valid YAML: %s", parser->problem ? parser->problem : "no reason given");
}

/** Aliases could blow up memory, tags could change types: a scenario needs neither. */
static bool plain_event(struct reader *reader, const yaml_event_t *event)
{
    const yaml_char_t *anchor = NULL, *tag = NULL;
    switch (event->type) {
    case YAML_ALIAS_EVENT:
        return reader_error(reader, event->start_mark, "aliases (*%s) are not allowed; write the value again",
                            (const char *)event->data.alias.anchor);
    case YAML_SCALAR_EVENT:
        anchor = event->data.scalar.anchor;
        tag = event->data.scalar.tag;
        break;
    case YAML_SEQUENCE_START_EVENT:
        anchor = event->data.sequence_start.anchor;
        tag = event->data.sequence_start.tag;
        break;
    case YAML_MAPPING_START_EVENT:
        anchor = event->data.mapping_start.anchor;
        tag = event->data.mapping_start.tag;
        break;
    default:
        break;
    }
    if (anchor != NULL)
        return reader_error(reader, event->start_mark, "anchors (&%s) are not allowed", (const char *)anchor);
    if (tag != NULL)
        return reader_error(reader, event->start_mark, "tags (%s) are not allowed", (const char *)tag);
    return true;
}

/** A copy of a scalar's text, NULL with a message when it holds a NUL character (as "\0"). */
static char *scalar_text(struct reader *reader, const yaml_event_t *event)
{
    const char *value = (const char *)event->data.scalar.value;
    if (strlen(value) != event->data.scalar.length) {
        reader_error(reader, event->start_mark, "a text may not hold the character NUL");
        return NULL;
    }
    return check_strdup(value);
}

static bool read_children(struct reader *reader, int32_t parent, int32_t depth);

/** The node that begins with this event, -1 with a message when there is none. */
static int32_t read_node(struct reader *reader, const yaml_event_t *event, int32_t depth)
{
    if (!plain_event(reader, event))
        return -1;
    enum document_kind kind = event->type == YAML_SCALAR_EVENT           ? DOCUMENT_SCALAR
                              : event->type == YAML_SEQUENCE_START_EVENT ? DOCUMENT_SEQUENCE
                                                                         : DOCUMENT_MAPPING;
    int32_t node = add_node(reader->document, kind, reader->file);
    struct document_node *at = &reader->document->node[node];
    if (reader->placed) {
        at->line = (int32_t)event->start_mark.line + 1;
        at->column = (int32_t)event->start_mark.column + 1;
    }
    if (kind == DOCUMENT_SCALAR) {
        at->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
        at->value = scalar_text(reader, event);
        return at->value != NULL ? node : -1;
    }
    if (depth == MAX_DEPTH) {
        reader_error(reader, event->start_mark, "nested more than %d levels deep", MAX_DEPTH);
        return -1;
    }
    return read_children(reader, node, depth + 1) ? node : -1;
}

/** The key of the next entry of a mapping and its place. */
static char *read_key(struct reader *reader, const yaml_event_t *event)
{
    if (!plain_event(reader, event))
        return NULL;
    if (event->type != YAML_SCALAR_EVENT) {
        reader_error(reader, event->start_mark, "a key must be a word, not a list or a mapping");
        return NULL;
    }
    return scalar_text(reader, event);
}

/** One entry of a mapping or sequence, -1 with a message. Takes its first event over. */
static int32_t read_entry(struct reader *reader, yaml_event_t *event, bool mapping, int32_t depth)
{
    char *key = NULL;
    yaml_mark_t mark = event->start_mark;
    if (mapping) {
        key = read_key(reader, event);
        yaml_event_delete(event);
        if (key == NULL || !next_event(reader, event)) {
            free(key);
            return -1;
        }
    }
    int32_t entry = read_node(reader, event, depth);
    yaml_event_delete(event);
    if (entry < 0) {
        free(key);
        return -1;
    }
    struct document_node *at = &reader->document->node[entry];
    at->key = key;
    at->key_line = reader->placed && mapping ? (int32_t)mark.line + 1 : 0;
    at->key_column = (int32_t)mark.column + 1;
    return entry;
}

static int compare_keys(const void *a, const void *b)
{
    const struct document_node *const *left = a, *const *right = b;
    int order = strcmp((*left)->key, (*right)->key);
    return order != 0 ? order : (*left > *right) - (*left < *right);
}

/** Sorted, so that a hostile file of many keys costs no more than reading it. */
static void refuse_duplicate_keys(struct reader *reader, int32_t mapping)
{
    const struct document_node *node = reader->document->node;
    size_t n = 0, i = 0;
    for (int32_t child = node[mapping].child; child >= 0; child = node[child].next)
        n++;
    const struct document_node **sorted = check_malloc(n * sizeof(struct document_node *));
    for (int32_t child = node[mapping].child; child >= 0; child = node[child].next)
        sorted[i++] = &node[child];
    qsort(sorted, n, sizeof *sorted, compare_keys);
    for (i = 1; i < n; i++)
        if (strcmp(sorted[i - 1]->key, sorted[i]->key) == 0) {
            document_key_error(reader->document, (int32_t)(sorted[i] - node), reader->err,
                               "%.200s: this key stands twice here, first on line %d", sorted[i]->key,
                               sorted[i - 1]->key_line);
            reader->failed = true;
        }
    free(sorted);
}

static bool read_children(struct reader *reader, int32_t parent, int32_t depth)
{
    struct document *document = reader->document;
    bool mapping = document->node[parent].kind == DOCUMENT_MAPPING;
    for (int32_t last = -1;;) {
        yaml_event_t event;
        if (!next_event(reader, &event))
            return false;
        if (event.type == YAML_MAPPING_END_EVENT || event.type == YAML_SEQUENCE_END_EVENT) {
            yaml_event_delete(&event);
            break;
        }
        int32_t entry = read_entry(reader, &event, mapping, depth);
        if (entry < 0)
            return false;
        *(last < 0 ? &document->node[parent].child : &document->node[last].next) = entry;
        last = entry;
    }
    if (mapping)
        refuse_duplicate_keys(reader, parent);
    return true;
}

/** Take one event that only frames a document. */
static bool skip_event(struct reader *reader)
{
    yaml_event_t event;
    if (!next_event(reader, &event))
        return false;
    yaml_event_delete(&event);
    return true;
}

/** The root of the only document of a stream, -1 with a message. */
static int32_t read_stream(struct reader *reader)
{
    yaml_event_t event;
    if (!skip_event(reader) || !next_event(reader, &event)) /* the stream starts */
        return -1;
    bool empty = event.type == YAML_STREAM_END_EVENT;
    yaml_event_delete(&event);
    if (empty) {
        reader_error(reader, (yaml_mark_t){0}, "there is nothing in it; expected YAML");
        return -1;
    }
    if (!next_event(reader, &event))
        return -1;
    int32_t root = read_node(reader, &event, 0);
    yaml_event_delete(&event);
    if (root < 0 || !skip_event(reader) || !next_event(reader, &event)) /* the document ends */
        return -1;
    if (event.type != YAML_STREAM_END_EVENT)
        reader_error(reader, event.start_mark, "a second document starts here; only one is allowed");
    yaml_event_delete(&event);
    return reader->failed ? -1 : root;
}

/** Parse text into new nodes; index of their root, -1 with a message. */
static int32_t read_text(struct document *document, const char *text, size_t n_bytes, const char *file, bool placed,
                         struct error *err)
{
    struct reader reader = {
        .document = document, .file = file, .text = text, .n_bytes = n_bytes, .placed = placed, .err = err};
    if (n_bytes > MAX_BYTES) {
        error_add(err, "%s: larger than %d bytes, the limit", file, MAX_BYTES);
        return -1;
    }
    CHECK(yaml_parser_initialize(&reader.parser));
    yaml_parser_set_input_string(&reader.parser, (const unsigned char *)text, n_bytes);
    int32_t root = read_stream(&reader);
    yaml_parser_delete(&reader.parser);
    return root;
}

bool document_parse(const char *text, size_t n_bytes, const char *name, struct document *document, struct error *err)
{
    *document = (struct document){.file = check_strdup(name), .texts = check_calloc(1, sizeof(struct document_texts))};
    int32_t root = read_text(document, text, n_bytes, document->file, true, err);
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
    char *text = check_malloc(MAX_BYTES + 1); /* one byte more shows that the file is too long */
    size_t n_bytes = fread(text, 1, MAX_BYTES + 1, file);
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

int32_t document_find(const struct document *document, int32_t mapping, const char *name)
{
    int32_t at = mapping;
    while (at >= 0) {
        size_t length = strcspn(name, ".");
        at = child_by_name(document, at, name, length);
        if (name[length] == '\0')
            break;
        name += length + 1;
    }
    return at;
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
        if (++depth > MAX_DEPTH)
            return error_add(err, "%s: more than %d keys deep", place, MAX_DEPTH);
        if (!select_entry(document, at, segment, place, &entry, err))
            return false;
        if (next == NULL) {
            put_entry(document, at, entry, value, segment);
        } else if (entry < 0) {
            entry = add_node(document, DOCUMENT_MAPPING, file);
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
    int32_t value = read_text(document, equals + 1, strlen(equals + 1), file, false, err);
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
        group = add_node(document, DOCUMENT_MAPPING, file);
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
    int32_t value = read_text(document, text, strlen(text), file, false, err);
    if (value >= 0)
        put_entry(document, mapping, child_by_name(document, mapping, key, strlen(key)), value, key);
    free(text);
    free(key);
    return value >= 0;
}

int32_t document_at(const struct document *document, int32_t node, const char *path)
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
    int32_t clone = add_node(to, old->kind, copied_file(from, to, old->file)), last = -1;
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
    int32_t node = add_node(document, DOCUMENT_SCALAR, document->node[like].file);
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
