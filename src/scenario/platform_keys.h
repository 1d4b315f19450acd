/* SPDX-License-Identifier: GPL-3.0-or-later */
/** The few keys that describe a cluster: `platform:` of a scenario, and files of platforms/. */
#ifndef SLIMSIM_SCENARIO_PLATFORM_KEYS_H
#define SLIMSIM_SCENARIO_PLATFORM_KEYS_H

#include <stdio.h>

#include "scenario/device.h"
#include "scenario/platform.h"

/**
 * Read `platform:` of a scenario's document: a name, or a mapping of keys that change what its `name` stands for. A
 * name W is NAME of platforms/NAME.yaml; NAME-<nodes>x<gpus_per_node>, which sets these two, with -free behind it for
 * contention: false; or the path of a .yaml or .xml file. Every error is a line of err, with its place.
 */
bool platform_keys_read(struct document *document, const char *data_dir, struct platform_keys *keys, struct error *err);

/** The same from a name alone. */
bool platform_keys_of_name(const char *data_dir, const char *name, struct platform_keys *keys, struct error *err);

/** The cluster that keys describe. Bandwidths and host memory that are not given are the device's data sheet's.
 * keys->name may be an XML file, which then says all. */
bool platform_from_keys(const struct platform_keys *keys, const struct device *device, struct platform *platform,
                        struct error *err);

/** The resolved keys as the YAML mapping `platform:`; reading it gives the same platform. */
void platform_write(FILE *file, const struct platform *platform);

/** Its keys, for `slimsim list keys`. */
enum { PLATFORM_N_KEYS = 12, PLATFORM_N_SCENARIO_KEYS = PLATFORM_N_KEYS - 1 }; /* source is a file's alone */
extern const struct schema_key platform_schema[PLATFORM_N_KEYS];

#endif
