/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Paths of files that a scenario names. */
#ifndef SLIMSIM_SCENARIO_PATH_H
#define SLIMSIM_SCENARIO_PATH_H

#include "scenario/document.h"
#include "scenario/schema.h"

/**
 * Make a path absolute, and canonical if the file exists. A relative one starts in the folder of the scenario's file;
 * one that --set gave, in the working folder.
 * @param node  that holds it, of the key `key`
 */
bool path_resolve(const struct document *document, int32_t node, const char *key, char text[SCHEMA_TEXT_BYTES],
                  struct error *err);

#endif
