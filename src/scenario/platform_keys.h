/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module reads the few keys that describe a cluster: `platform:` of a scenario and files of platforms/. */
#ifndef SLIMSIM_SCENARIO_PLATFORM_KEYS_H
#define SLIMSIM_SCENARIO_PLATFORM_KEYS_H

#include <stdio.h>

#include "scenario/device.h"
#include "scenario/platform.h"

/**
 * Read `platform:` of a scenario's document. It is a name, or a mapping of keys that change what its `name` means. A
 * name is one of these:
 * - NAME, which means platforms/NAME.yaml
 * - NAME-<nodes>x<gpus_per_node>, which also sets these two keys; with -free at its end it also sets contention: false
 * - the path of a .yaml or .xml file
 *
 * Every error is a line of err with its place.
 */
bool platform_keys_read(struct document *document, const char *data_dir, struct platform_keys *keys, struct error *err);

/** Split NAME-<nodes>x<gpus>, with or without -free at its end. @return whether the name has this form */
bool platform_split_size(const char *name, char base[SCHEMA_TEXT_BYTES], struct platform_keys *size);

/** Read the same keys from a name. */
bool platform_keys_of_name(const char *data_dir, const char *name, struct platform_keys *keys, struct error *err);

/** Make the cluster that keys describe. If they do not give a bandwidth or the host memory, the device's data sheet
 * does. keys->name may be an XML file, which then describes the whole cluster. */
bool platform_from_keys(const struct platform_keys *keys, const struct device *device, struct platform *platform,
                        struct error *err);

/** Write the resolved keys as the YAML mapping `platform:`. Reading it gives the same platform. */
void platform_write(FILE *file, const struct platform *platform);

/** Keys of `platform:` that `slimsim list keys` prints. */
enum { PLATFORM_N_KEYS = 17, PLATFORM_N_SCENARIO_KEYS = PLATFORM_N_KEYS - 1 }; /* only a file has `source` */
extern const struct schema_key platform_schema[PLATFORM_N_KEYS];

#endif
