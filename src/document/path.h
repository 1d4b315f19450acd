/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module resolves paths of files that a scenario names. */
#ifndef SLIMSIM_DOCUMENT_PATH_H
#define SLIMSIM_DOCUMENT_PATH_H

#include "document/document.h"
#include "document/schema.h"

/**
 * Make a path absolute, and canonical if the file exists. A relative path starts in the folder of the scenario's file.
 * If --set gave it, it starts in the working folder.
 * @param node  the node that holds it, of the key `key`
 */
bool path_resolve(const struct document *document, int32_t node, const char *key, char text[SCHEMA_TEXT_BYTES],
                  struct error *err);

#endif
