/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Values put into a document from outside: by options, and by the points of a sweep. */
#ifndef SLIMSIM_SCENARIO_DOCUMENT_SET_H
#define SLIMSIM_SCENARIO_DOCUMENT_SET_H

#include "scenario/document.h"

/** Set the scalar, list or mapping at a dotted path from YAML flow text ("data.context=64Ki",
 * "systems.1.plan.tp=8": an integer from 0 selects from a sequence), creating mappings on the way. */
bool document_set(struct document *document, const char *assignment, struct error *err);

/** The same from a path and a value apart. Messages begin with `place`. */
bool document_set_value(struct document *document, const char *path, const char *value, const char *place,
                        struct error *err);

/** Put a list (of `assignment`, KEY=V1,V2 or KEY={...}) under the key as it stands, dots and all, of the root mapping
 * `group`, made where it is missing. Messages begin with "OPTION 'ASSIGNMENT'". */
bool document_set_list(struct document *document, const char *group, const char *option, const char *assignment,
                       struct error *err);

/** Put a copy of a node of `from`, of which this document is a copy, at a dotted path as document_set does. It keeps
 * its place for messages. */
bool document_put(struct document *document, const char *path, const struct document *from, int32_t node,
                  struct error *err);

#endif
