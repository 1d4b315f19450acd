/* SPDX-License-Identifier: GPL-3.0-or-later */
/** A YAML file as a tree of nodes with their places (libyaml inside; at most 1 MB, 64 deep, no aliases). */
#ifndef SLIMSIM_SCENARIO_DOCUMENT_H
#define SLIMSIM_SCENARIO_DOCUMENT_H

#include <stdbool.h>
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

/** Read a file of one mapping. A duplicate key, an alias or anchor, a tag, a second document, a file over 1 MB or 64
 * levels is an error with its place, added to err; the document is then empty. */
bool document_read(const char *path, struct document *document, struct error *err);

/** The same from text in memory; `name` stands for the file in messages. */
bool document_parse(const char *text, size_t n_bytes, const char *name, struct document *document, struct error *err);

/** Set the scalar, list or mapping at a dotted path from YAML flow text ("data.context=64Ki",
 * "systems.1.plan.tp=8": an integer from 0 selects from a sequence), creating mappings on the way. */
bool document_set(struct document *document, const char *assignment, struct error *err);

/** Put a list (of `assignment`, KEY=V1,V2 or KEY={...}) under the key as it stands, dots and all, of the root mapping
 * `group`, made where it is missing. Messages begin with "OPTION 'ASSIGNMENT'". */
bool document_set_list(struct document *document, const char *group, const char *option, const char *assignment,
                       struct error *err);

/** Put a copy of a node of `from`, of which this document is a copy, at a dotted path as document_set does. It keeps
 * its place for messages. */
bool document_put(struct document *document, const char *path, const struct document *from, int32_t node,
                  struct error *err);

/** A new scalar that stands nowhere yet and has the place of the node `like`. @return its index */
int32_t document_add_scalar(struct document *document, const char *value, int32_t like);

/** A copy of the tree, without the key `but` of the root. */
void document_copy(const struct document *from, const char *but, struct document *to);

/** The node at a dotted path below `node` (-1: there is none), where an integer from 0 selects from a sequence; -1:
 * there is none. */
int32_t document_find(const struct document *document, int32_t node, const char *path);

/** Whether a node stands for "nothing": `key:` with nothing behind it, ~ or null. */
bool document_is_null(const struct document_node *node);

/** Add "file:line:column: " and a message; the place is that of a node's value, or of its key, or of no node (-1) but
 * the file. @return false */
bool document_error(const struct document *document, int32_t node, struct error *err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
bool document_key_error(const struct document *document, int32_t node, struct error *err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/** Write a node and all below it as YAML flow text that reads back to the same tree. */
void document_write(FILE *file, const struct document *document, int32_t node);

/** Write text as a YAML scalar, in quotes unless it is of letters, digits and signs without meaning in YAML. */
void document_write_text(FILE *file, const char *text);

void document_free(struct document *document);

#endif
