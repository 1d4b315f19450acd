/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module turns YAML text into a document with libyaml. A text has at most 1 MB, 64 levels and no aliases. */
#ifndef SLIMSIM_DOCUMENT_DOCUMENT_READ_H
#define SLIMSIM_DOCUMENT_DOCUMENT_READ_H

#include "document/document.h"

/* A scenario on standard input has this name in messages, as if it were a file in the working folder. */
#define DOCUMENT_STANDARD_INPUT "standard input"

/**
 * Read a file, or for "-" standard input, that holds one mapping. It can be read more than once. These are errors with
 * a place, added to err, and the document is then empty:
 * - a duplicate key, an alias or anchor, a tag
 * - a second document
 * - a file over 1 MB or 64 levels
 */
bool document_read(const char *path, struct document *document, struct error *err);

/** Read the same from text in memory. Messages use `name` as the file's name. */
bool document_parse(const char *text, size_t n_bytes, const char *name, struct document *document, struct error *err);

/**
 * Add nodes to a document from the text of one value of any kind, with the same errors.
 * @param file    file of the nodes, also in messages; borrowed as long as the document lives
 * @param placed  lines and columns mean something to the user, because the text is a file's
 * @return        index of the root node, -1 with err
 */
int32_t document_read_nodes(struct document *document, const char *text, size_t n_bytes, const char *file, bool placed,
                            struct error *err);

#endif
