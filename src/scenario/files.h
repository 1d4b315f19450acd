/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module finds the files that a scenario names: model, device, platform, lengths. */
#ifndef SLIMSIM_SCENARIO_FILES_H
#define SLIMSIM_SCENARIO_FILES_H

#include "scenario/scenario.h"

/** Read model, device and platform and find the lengths. Paths become absolute. Each file is read if its name is right,
 * so one pass shows all errors. */
bool files_resolve(struct scenario *scenario, struct scenario_cache *cache, struct error *err);

/** Check that the scenario's framework has a file; a path in `name` becomes absolute. */
bool files_framework(const struct document *document, char name[SCHEMA_TEXT_BYTES], struct error *err);

/** Find the file of a framework. */
bool files_framework_path(const char *name, char path[1024], struct error *err);

#endif
