/* SPDX-License-Identifier: GPL-3.0-or-later */
/** SimGrid's XML of a cluster, read with expat and checked before SimGrid sees it, since SimGrid aborts on bad input.
 */
#ifndef SLIMSIM_SCENARIO_PLATFORM_FILE_H
#define SLIMSIM_SCENARIO_PLATFORM_FILE_H

#include "base/error.h"
#include "scenario/platform.h"

/**
 * Read the file at a path that ends in .xml. Errors with file and line: malformed XML; hosts or links that are missing,
 * stand twice or are named otherwise; unequal nodes; a bandwidth or speed that is not a positive number; a latency
 * other than 0 (the sender pays it, from the device's file); routes over unknown links.
 */
bool platform_file_read(const char *path, struct platform *platform, struct error *err);

#endif
