/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * A schema is one table that describes the keys of a YAML mapping. Reading, `--set`, `slimsim list keys` and the
 * resolved text use it. Scenarios, models, devices, length laws and knobs have such tables.
 */
#ifndef SLIMSIM_DOCUMENT_SCHEMA_H
#define SLIMSIM_DOCUMENT_SCHEMA_H

#include "base/error.h"
#include "document/document.h"
#include "document/schema_key.h"

/**
 * Fill an object from a mapping.
 * 1. Every key of the table is read, checked and defaulted.
 * 2. A key that neither the table nor `others` has is an error with the nearest name ("did you mean"), or with the
 * reason why it is not modelled (base/unmodelled.h).
 * 3. Each error adds one line "file:line:column: key: what is wrong; what is allowed". One pass finds all errors.
 * 4. The key's name begins with the mapping's own name if it has one: "knobs.micro_packs".
 * 5. A group of keys without a value (`data:`) is an empty one.
 * 6. Numbers and booleans in quotes are text, hence wrong.
 *
 * @param mapping  -1: absent, every key takes its default
 * @param others   keys of this mapping that somebody else reads (NULL-terminated), or NULL
 * @return         whether nothing was added to err
 */
bool schema_read(const struct document *document, int32_t mapping, const struct schema_key *keys, int32_t n_keys,
                 const char *const *others, void *object, struct error *err);

/** Read a YAML file that is one mapping of these keys. Errors have the file's path and line. */
bool schema_read_file(const char *path, const struct schema_key *keys, int32_t n_keys, const char *const *others,
                      void *object, struct error *err);

#endif
