/* SPDX-License-Identifier: GPL-3.0-or-later */
/** YAML text made into a document (libyaml inside; at most 1 MB, 64 deep, no aliases). */
#ifndef SLIMSIM_SCENARIO_DOCUMENT_READ_H
#define SLIMSIM_SCENARIO_DOCUMENT_READ_H

#include "scenario/document.h"

/** Read a file of one mapping. A duplicate key, an alias or anchor, a tag, a second document, a file over 1 MB or 64
 * levels is an error with its place, added to err; the document is then empty. */
bool document_read(const char *path, struct document *document, struct error *err);

/** The same from text in memory; `name` stands for the file in messages. */
bool document_parse(const char *text, size_t n_bytes, const char *name, struct document *document, struct error *err);

/**
 * New nodes of a document from text of one value of any kind, with the same errors.
 * @param file    of the nodes, and in messages; borrowed as long as the document
 * @param placed  lines and columns mean something to the user: the text is a file's
 * @return        index of their root, -1 with err
 */
int32_t document_read_nodes(struct document *document, const char *text, size_t n_bytes, const char *file, bool placed,
                            struct error *err);

#endif
