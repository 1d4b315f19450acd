/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * One table describes the keys of a YAML mapping; reading, `--set`, `slimsim list keys` and the
 * resolved text come from it. Used for scenarios, models, devices, length laws and knobs alike.
 */
#ifndef SLIMSIM_SCENARIO_SCHEMA_H
#define SLIMSIM_SCENARIO_SCHEMA_H

#include "base/error.h"
#include "scenario/document.h"
#include "scenario/schema_key.h"

/**
 * Fill an object from a mapping: every key of the table read, checked and defaulted; a key that
 * stands in neither the table nor `others` is an error with the nearest name ("did you mean").
 * Adds one line "file:line:column: key: what is wrong; what is allowed" per error, all in one pass; the key's name
 * begins with the mapping's own, if it has one: "knobs.units".
 * A group of keys without a value (`data:` and nothing behind it) is an empty one. Numbers and
 * booleans in quotes are text, hence wrong.
 *
 * @param mapping  -1: absent, every key takes its default
 * @param others   keys of this mapping that somebody else reads (NULL-terminated), or NULL
 * @return         whether nothing was added to err
 */
bool schema_read(const struct document *document, int32_t mapping, const struct schema_key *keys, int32_t n_keys,
                 const char *const *others, void *object, struct error *err);

/** Read a YAML file that is one mapping of these keys. Its faults are said with the path and line. */
bool schema_read_file(const char *path, const struct schema_key *keys, int32_t n_keys, const char *const *others,
                      void *object, struct error *err);

#endif
