/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module puts values into a document from outside: those of options and of the points of a sweep. */
#ifndef SLIMSIM_DOCUMENT_DOCUMENT_SET_H
#define SLIMSIM_DOCUMENT_DOCUMENT_SET_H

#include "document/document.h"

/** Set the scalar, list or mapping at a dotted path from YAML flow text ("data.context=64Ki", "systems.1.plan.tp=8").
 * An integer from 0 selects from a sequence. Missing mappings on the way are created. */
bool document_set(struct document *document, const char *assignment, struct error *err);

/** Set a value in the same manner, with path and value as two texts. Messages begin with `place`. */
bool document_set_value(struct document *document, const char *path, const char *value, const char *place,
                        struct error *err);

/** Put a list of `assignment` (KEY=V1,V2 or KEY={...}) into the root mapping `group`. The group is created if it is
 * missing. KEY is taken as written, including dots. Messages begin with "OPTION 'ASSIGNMENT'". */
bool document_set_list(struct document *document, const char *group, const char *option, const char *assignment,
                       struct error *err);

/** Put a copy of a node of `from` at a dotted path, like document_set. This document is a copy of `from`. The node
 * keeps its place for messages. */
bool document_put(struct document *document, const char *path, const struct document *from, int32_t node,
                  struct error *err);

#endif
