/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module reads training frameworks, presets of the keys that describe one, from model/framework/NAME.yaml. */
#ifndef SLIMSIM_SCENARIO_FRAMEWORK_H
#define SLIMSIM_SCENARIO_FRAMEWORK_H

#include "document/schema.h"

/** The framework that sets every key. All others take from it the keys that they leave out. */
#define FRAMEWORK_BASE "slimpack-paper"
/** The framework of a scenario that names none. */
#define FRAMEWORK_DEFAULT "megatron-core"

enum { FRAMEWORK_MOST_KEYS = 48 };

/** A key with this fallback takes its default from the framework. The address marks such keys in a table. */
extern const char framework_value[];

struct framework_value {
    const char *key;              /* borrowed from the table of keys */
    char text[SCHEMA_WORD_BYTES]; /* as a user would write it; "": the framework leaves the key out */
    char source[SCHEMA_TEXT_BYTES];
};

struct framework {
    char name[SCHEMA_WORD_BYTES], source[SCHEMA_TEXT_BYTES];
    int32_t selective; /* a set of FRAMEWORK_SELECTIVE: what its users call selective recomputation; 0: no such word */
    char selective_source[SCHEMA_TEXT_BYTES];
    int32_t n_values; /* one for each marked key of the table, in its order */
    struct framework_value values[FRAMEWORK_MOST_KEYS];
};

/** Words of the key `selective`: entries of plan.recompute. */
#define FRAMEWORK_SELECTIVE "norm|activation|attention-core|alternate-gemms"

/**
 * Read the file of a framework. It holds `name`, `source`, perhaps `selective`, and any of the marked keys as a
 * scenario would write them. Below `sources` it has a source for each key.
 *
 * @param keys  of a scenario and of an entry of its systems
 */
bool framework_read(const char *path, const struct schema_key *keys, int32_t n_keys, struct framework *framework,
                    struct error *err);

/** Check that FRAMEWORK_BASE sets every key. `path` is its file. */
bool framework_check_complete(const struct framework *framework, const char *path, struct error *err);

/** Make the framework's values the defaults of their keys. The table then borrows texts of the framework. */
void framework_apply(const struct framework *framework, struct schema_key *keys, int32_t n_keys);

#endif
