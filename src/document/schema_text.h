/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module prints the keys of a schema, and values as a user would write them. */
#ifndef SLIMSIM_DOCUMENT_SCHEMA_TEXT_H
#define SLIMSIM_DOCUMENT_SCHEMA_TEXT_H

#include <stdio.h>

#include "document/schema_key.h"

/** Write the object's values as YAML lines of the table's keys, `indent` spaces deep. Reading them gives the same bits.
 */
void schema_write(FILE *file, const struct schema_key *keys, int32_t n_keys, const void *object, int32_t indent);

enum { SCHEMA_N_COLUMNS = 6 };
extern const char *const schema_column_name[SCHEMA_N_COLUMNS]; /* "key", "type", ... */

/** Keys are printed to a file as tables, or visited one by one while prose goes to the file. */
struct schema_listing {
    FILE *file;
    void (*visit)(void *context, const char *const text[SCHEMA_N_COLUMNS]); /* NULL: print */
    void *context;
};

/** List the keys of a table: key, type, unit, range, default, meaning. */
void schema_list(const struct schema_listing *listing, const struct schema_key *keys, int32_t n_keys,
                 const char *prefix);

bool schema_is_list(enum schema_type type);

/** Return the i-th element of a list as a key of its own. */
struct schema_key schema_element(const struct schema_key *list, int32_t i);

/** Return whether the key restricts numbers. */
bool schema_has_range(const struct schema_key *key);

/** Print what a user may write for this key: "a whole number [tokens], 1 to 8388608". */
void schema_print_allowed(const struct schema_key *key, char text[640]);

/** Return the index of the value among "a|b|c", or -1. */
int32_t schema_choice(const char *choices, const char *value);

/** Copy the i-th name of "a|b|c" to name. */
void schema_choice_name(const char *choices, int32_t i, char name[SCHEMA_WORD_BYTES]);

#endif
