/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "document/document_read.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <yaml.h>

#include "base/check.h"
#include "base/compare.h"
#include "base/regular.h"

enum { MAX_BYTES = 1 << 20 };

/** A text that is being read into the tree. */
struct reader {
    yaml_parser_t parser;
    struct document *document;
    const char *file;
    const char *text;
    size_t n_bytes;
    bool placed; /* lines and columns mean something to the user */
    bool failed; /* an error was added to err, and reading goes on */
    struct error *err;
};

/** Add an error with the place of one of libyaml's marks in the text. */
static bool reader_error(struct reader *reader, yaml_mark_t mark, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    document_message(reader->file, reader->placed ? (int32_t)mark.line + 1 : 0, (int32_t)mark.column + 1, reader->err,
                     format, list);
    va_end(list);
    reader->failed = true;
    return false;
}

/** Find the mark of a byte offset. libyaml gives an offset instead of a mark for bytes that are no text. */
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
    if (parser->error == YAML_MEMORY_ERROR)
        check_out_of_memory("a parser of YAML");
    yaml_mark_t mark =
        parser->error == YAML_READER_ERROR ? mark_of_offset(reader, parser->problem_offset) : parser->problem_mark;
    return reader_error(reader, mark, "not valid YAML: %s",
                        parser->problem ? parser->problem : "libyaml gives no reason");
}

/** Refuse aliases and tags, which a scenario does not need. Aliases could use up memory, and tags could change types.
 */
static bool plain_event(struct reader *reader, const yaml_event_t *event)
{
    const yaml_char_t *anchor = NULL, *tag = NULL;
    switch (event->type) {
    case YAML_ALIAS_EVENT:
        return reader_error(reader, event->start_mark, "aliases (*%s) are not allowed; write the value itself",
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
        return reader_error(reader, event->start_mark, "anchors (&%s) are not allowed; leave the anchor out",
                            (const char *)anchor);
    if (tag != NULL)
        return reader_error(reader, event->start_mark, "tags (%s) are not allowed; leave the tag out",
                            (const char *)tag);
    return true;
}

/** Copy a scalar's text. @return NULL with a message if it holds a NUL character (as "\0") */
static char *scalar_text(struct reader *reader, const yaml_event_t *event)
{
    const char *value = (const char *)event->data.scalar.value;
    if (strlen(value) != event->data.scalar.length) {
        reader_error(reader, event->start_mark, "a text cannot hold the character NUL");
        return NULL;
    }
    return check_strdup(value);
}

static bool read_children(struct reader *reader, int32_t parent, int32_t depth);

/** Read the node that begins with this event. @return -1 with a message if there is none */
static int32_t read_node(struct reader *reader, const yaml_event_t *event, int32_t depth)
{
    if (!plain_event(reader, event))
        return -1;
    enum document_kind kind = event->type == YAML_SCALAR_EVENT           ? DOCUMENT_SCALAR
                              : event->type == YAML_SEQUENCE_START_EVENT ? DOCUMENT_SEQUENCE
                                                                         : DOCUMENT_MAPPING;
    int32_t node = document_add_node(reader->document, kind, reader->file);
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
    if (depth == DOCUMENT_MAX_DEPTH) {
        reader_error(reader, event->start_mark, "more than %d levels of nesting; use fewer", DOCUMENT_MAX_DEPTH);
        return -1;
    }
    return read_children(reader, node, depth + 1) ? node : -1;
}

/** Read the key of the next entry of a mapping, with its place. */
static char *read_key(struct reader *reader, const yaml_event_t *event)
{
    if (!plain_event(reader, event))
        return NULL;
    if (event->type != YAML_SCALAR_EVENT) {
        reader_error(reader, event->start_mark, "a key is a list or mapping; allowed: a word");
        return NULL;
    }
    return scalar_text(reader, event);
}

/** Read one entry of a mapping or sequence. Takes over its first event. @return -1 with a message */
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
    return order != 0 ? order : COMPARE(*left, *right);
}

/** Refuse duplicate keys. They are sorted first, so that a hostile file with many keys costs no more than reading it.
 */
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
                               "%.200s: this key appears twice here, first on line %d", sorted[i]->key,
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

/** Skip one event that only frames a document. */
static bool skip_event(struct reader *reader)
{
    yaml_event_t event;
    if (!next_event(reader, &event))
        return false;
    yaml_event_delete(&event);
    return true;
}

/** Read the only document of a stream. @return its root, -1 with a message */
static int32_t read_stream(struct reader *reader)
{
    yaml_event_t event;
    if (!skip_event(reader) || !next_event(reader, &event)) /* the stream starts */
        return -1;
    bool empty = event.type == YAML_STREAM_END_EVENT;
    yaml_event_delete(&event);
    if (empty) {
        reader_error(reader, (yaml_mark_t){0}, "the file has no content; expected YAML");
        return -1;
    }
    if (!next_event(reader, &event))
        return -1;
    int32_t root = read_node(reader, &event, 0);
    yaml_event_delete(&event);
    if (root < 0 || !skip_event(reader) || !next_event(reader, &event)) /* the document ends */
        return -1;
    if (event.type != YAML_STREAM_END_EVENT)
        reader_error(reader, event.start_mark, "a second document starts here; allowed: only one");
    yaml_event_delete(&event);
    return reader->failed ? -1 : root;
}

int32_t document_read_nodes(struct document *document, const char *text, size_t n_bytes, const char *file, bool placed,
                            struct error *err)
{
    struct reader reader = {
        .document = document, .file = file, .text = text, .n_bytes = n_bytes, .placed = placed, .err = err};
    if (n_bytes > MAX_BYTES) {
        error_add(err, "%s: is larger than the limit of %d bytes", file, MAX_BYTES);
        return -1;
    }
    if (!yaml_parser_initialize(&reader.parser))
        check_out_of_memory("a parser of YAML");
    yaml_parser_set_input_string(&reader.parser, (const unsigned char *)text, n_bytes);
    int32_t root = read_stream(&reader);
    yaml_parser_delete(&reader.parser);
    return root;
}

bool document_parse(const char *text, size_t n_bytes, const char *name, struct document *document, struct error *err)
{
    document_open(document, name);
    int32_t root = document_read_nodes(document, text, n_bytes, document->file, true, err);
    bool ok = root >= 0;
    if (ok && document->node[root].kind != DOCUMENT_MAPPING)
        ok = document_error(document, root, err, "expected keys with values (key: value), found %s",
                            document->node[root].kind == DOCUMENT_SCALAR ? "a single value" : "a list");
    if (!ok)
        document_free(document);
    return ok;
}

/** Open standard input at its begin. Some commands read a scenario twice, so a copy in memory takes the place of a
 * pipe.
 */
static FILE *open_standard_input(void)
{
    if (lseek(STDIN_FILENO, 0, SEEK_SET) < 0) {
        char *text = check_malloc(MAX_BYTES + 1); /* one more byte shows that the text is too long */
        size_t n_bytes = fread(text, 1, MAX_BYTES + 1, stdin);
        int copy = memfd_create(DOCUMENT_STANDARD_INPUT, MFD_CLOEXEC);
        bool ok = copy >= 0 && write(copy, text, n_bytes) == (ssize_t)n_bytes && dup2(copy, STDIN_FILENO) >= 0 &&
                  lseek(STDIN_FILENO, 0, SEEK_SET) == 0;
        if (copy >= 0)
            close(copy);
        free(text);
        if (!ok)
            return NULL;
    }
    int descriptor = dup(STDIN_FILENO);
    return descriptor < 0 ? NULL : fdopen(descriptor, "rb");
}

bool document_read(const char *path, struct document *document, struct error *err)
{
    bool standard_input = strcmp(path, "-") == 0;
    const char *name = standard_input ? DOCUMENT_STANDARD_INPUT : path;
    *document = (struct document){0};
    if (!standard_input && !regular_check(path, err))
        return false;
    FILE *file = standard_input ? open_standard_input() : fopen(path, "rb");
    if (file == NULL)
        return error_add(err, "%s: cannot be read: %s", name, strerror(errno));
    char *text = check_malloc(MAX_BYTES + 1); /* one more byte shows that the file is too long */
    size_t n_bytes = fread(text, 1, MAX_BYTES + 1, file);
    bool failed = ferror(file);
    int reason = errno;
    fclose(file);
    bool ok = failed ? error_add(err, "%s: cannot be read: %s", name, strerror(reason))
                     : document_parse(text, n_bytes, name, document, err);
    free(text);
    return ok;
}
