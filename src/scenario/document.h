/* SPDX-License-Identifier: GPL-3.0-or-later */
/** What a YAML file holds, as a tree of nodes with their places. */
#ifndef SLIMSIM_SCENARIO_DOCUMENT_H
#define SLIMSIM_SCENARIO_DOCUMENT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

enum document_kind { DOCUMENT_SCALAR, DOCUMENT_SEQUENCE, DOCUMENT_MAPPING };

/** One node. Children of a sequence or mapping are linked: `child` is the first, `next` the following one. */
struct document_node {
    enum document_kind kind;
    char *key;            /* name inside the parent mapping, NULL elsewhere */
    char *value;          /* of a scalar, as written */
    bool quoted;          /* the scalar stood in quotes: it is text, whatever it looks like */
    int32_t child, next;  /* node index, -1: none */
    int32_t line, column; /* of the value, from 1; 0 where --set wrote it */
    int32_t key_line, key_column;
    const char *file; /* borrowed: the file's name, or "--set 'assignment'" */
};

struct document {
    char *file;
    int32_t n_nodes;
    struct document_node *node;   /* node[0] is the root mapping */
    struct document_texts *texts; /* names that node.file borrows */
};

enum { DOCUMENT_MAX_DEPTH = 64 };

/** A tree without nodes. */
void document_open(struct document *document, const char *file);

/** Keep a text as long as the document, which frees it. @return it */
const char *document_keep(struct document *document, char *text);

/** A new node that stands nowhere yet. @param file  borrowed, as document_node.file @return its index */
int32_t document_add_node(struct document *document, enum document_kind kind, const char *file);

/** A new scalar that stands nowhere yet and has the place of the node `like`. @return its index */
int32_t document_add_scalar(struct document *document, const char *value, int32_t like);

/** Make `key: W` of the root `key: {name: W}`, which means the same. Nothing changes where W is no scalar or empty. */
void document_name_mapping(struct document *document, const char *key);

/** A copy of a node of `from` and all below it, without its own key and, inside, the key `but` (NULL: none), in a
 * document that is a copy of `from`. It stands nowhere yet. @return its index */
int32_t document_clone(struct document *to, const struct document *from, int32_t node, const char *but);

/** A copy of the tree, without the key `but` of the root. */
void document_copy(const struct document *from, const char *but, struct document *to);

/** The child of a mapping whose key is the first `length` bytes of name; -1: there is none. */
int32_t document_child(const struct document *document, int32_t mapping, const char *name, size_t length);

/** The node at a dotted path below `node` (-1: there is none), where an integer from 0 selects from a sequence; -1:
 * there is none. */
int32_t document_find(const struct document *document, int32_t node, const char *path);

/** Whether a node stands for "nothing": `key:` with nothing behind it, ~ or null. */
bool document_is_null(const struct document_node *node);

/** Add "file:line:column: " (line 0: "file: ") and a message. @return false */
bool document_message(const char *file, int32_t line, int32_t column, struct error *err, const char *format,
                      va_list list);

/** The same with the place of a node's value, or of its key; of no node (-1): the file alone. @return false */
bool document_error(const struct document *document, int32_t node, struct error *err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
bool document_key_error(const struct document *document, int32_t node, struct error *err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/** Write a node and all below it as YAML flow text that reads back to the same tree. */
void document_write(FILE *file, const struct document *document, int32_t node);

/** The same as a text. Caller frees. */
char *document_text(const struct document *document, int32_t node);

/** Write text as a YAML scalar, in quotes unless it is of letters, digits and signs without meaning in YAML. */
void document_write_text(FILE *file, const char *text);

void document_free(struct document *document);

#endif
