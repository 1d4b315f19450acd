/* SPDX-License-Identifier: GPL-3.0-or-later */
/** YAML text made into nodes of a document: libyaml's events, and what of YAML a document does not take. */
#ifndef SLIMSIM_SCENARIO_DOCUMENT_YAML_H
#define SLIMSIM_SCENARIO_DOCUMENT_YAML_H

#include <stdarg.h>

#include "scenario/document.h"

/** Limits of a text, and of how deep its nodes are nested. */
enum { DOCUMENT_YAML_BYTES = 1 << 20, DOCUMENT_YAML_DEPTH = 64 };

/**
 * Parse text into new nodes of a document.
 * @param file    of the nodes, and in messages; borrowed as long as the document
 * @param placed  lines and columns mean something to the user: the text is a file's
 * @return        index of their root, -1 with a message for each thing wrong: document_read
 */
int32_t document_yaml_read(struct document *document, const char *text, size_t n_bytes, const char *file, bool placed,
                           struct error *err);

/* Of document.c, for the parser. */

/** Append a node that stands nowhere yet. @return its index */
int32_t document_add_node(struct document *document, enum document_kind kind, const char *file);

/** Add "file:line:column: " (line 0: "file: ") and a message. @return false */
bool document_message(const char *file, int32_t line, int32_t column, struct error *err, const char *format,
                      va_list list);

#endif
