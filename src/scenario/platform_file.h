/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module reads SimGrid's XML of a cluster with expat and checks it first, since SimGrid aborts on bad input. */
#ifndef SLIMSIM_SCENARIO_PLATFORM_FILE_H
#define SLIMSIM_SCENARIO_PLATFORM_FILE_H

#include "base/error.h"
#include "scenario/platform.h"

/**
 * Read the file at a path that ends in .xml. These are errors with file and line:
 * - malformed XML
 * - hosts or links that are missing, appear twice or have other names
 * - unequal nodes
 * - a bandwidth or speed that is not a positive number
 * - a latency other than 0, since the sender pays the latency of the device's file
 * - routes over unknown links
 * - options of SimGrid that do not only change models
 */
bool platform_file_read(const char *path, struct platform *platform, struct error *err);

#endif
