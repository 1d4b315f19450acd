/* SPDX-License-Identifier: GPL-3.0-or-later */
/** A document is the content of a YAML file: a tree of nodes with their places. */
#ifndef SLIMSIM_DOCUMENT_DOCUMENT_H
#define SLIMSIM_DOCUMENT_DOCUMENT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

enum document_kind { DOCUMENT_SCALAR, DOCUMENT_SEQUENCE, DOCUMENT_MAPPING };

/** A node. Children of a sequence or mapping are linked: `child` is the first, `next` the following one. */
struct document_node {
    enum document_kind kind;
    char *key;            /* key in the parent mapping; NULL in a sequence and for the root */
    char *value;          /* text of a scalar, as written */
    bool quoted;          /* the scalar was written in quotes, so it is text */
    int32_t child, next;  /* node index, -1: none */
    int32_t line, column; /* place of the value, from 1; 0: --set wrote it */
    int32_t key_line, key_column;
    const char *file; /* name of the file, or "--set 'assignment'"; borrowed */
};

struct document {
    char *file;
    int32_t n_nodes;
    struct document_node *node;   /* node[0] is the root mapping */
    struct document_texts *texts; /* names that node.file borrows */
};

enum { DOCUMENT_MAX_DEPTH = 64 };

/** Make a document without nodes. */
void document_open(struct document *document, const char *file);

/** Keep a text as long as the document, which frees it. @return the text */
const char *document_keep(struct document *document, char *text);

/** Add a node that has no parent yet. @param file  borrowed, like document_node.file @return its index */
int32_t document_add_node(struct document *document, enum document_kind kind, const char *file);

/** Add a scalar that has no parent yet, with the place of the node `like`. @return its index */
int32_t document_add_scalar(struct document *document, const char *value, int32_t like);

/** Make `key: W` of the root `key: {name: W}`, which means the same. If W is empty or no scalar, nothing changes.
 * @param name  key of W */
void document_name_mapping(struct document *document, const char *key, const char *name);

/** Copy a node of `from` with all nodes below it into a copy of `from`. The node's own key is left out, and so is the
 * key `but` inside it (NULL: none). The copy has no parent yet. @return its index */
int32_t document_clone(struct document *to, const struct document *from, int32_t node, const char *but);

/** Copy the tree without the key `but` of the root. */
void document_copy(const struct document *from, const char *but, struct document *to);

/** Leave only one entry of a list: `list` is a path that exists, and `entry` counts from 0. */
void document_keep_entry(struct document *document, const char *list, int32_t entry);

/** Return the child of a mapping whose key is the first `length` bytes of name; -1: there is none. */
int32_t document_child(const struct document *document, int32_t mapping, const char *name, size_t length);

/** Return the node at a dotted path below `node` (-1: no node). An integer from 0 selects an entry of a sequence.
 * @return -1: there is none */
int32_t document_find(const struct document *document, int32_t node, const char *path);

/** Return whether a node means "nothing": `key:` without a value, ~ or null. */
bool document_is_null(const struct document_node *node);

/** Add "file:line:column: " (line 0: "file: ") and a message. @return false */
bool document_message(const char *file, int32_t line, int32_t column, struct error *err, const char *format,
                      va_list list);

/** Add a message with the place of a node's value, or of its key. Without a node (-1) it has only the file. @return
 * false */
bool document_error(const struct document *document, int32_t node, struct error *err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
bool document_key_error(const struct document *document, int32_t node, struct error *err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/** Write a node and all nodes below it as YAML flow text, which reads back to the same tree. */
void document_write(FILE *file, const struct document *document, int32_t node);

/** Return the same text as a string. The caller frees it. */
char *document_text(const struct document *document, int32_t node);

/** Write text as a YAML scalar. It is in quotes unless it consists of letters, digits and signs without meaning in
 * YAML. */
void document_write_text(FILE *file, const char *text);

void document_free(struct document *document);

#endif
