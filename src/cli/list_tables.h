/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module prints the lists of `slimsim list`: models, devices, platforms, frameworks, lengths, systems, keys. The
 * first column has the names that a scenario uses.
 */
#ifndef SLIMSIM_CLI_LIST_TABLES_H
#define SLIMSIM_CLI_LIST_TABLES_H

#include <stdbool.h>

#include "base/error.h"

/** Return the number of a list; -1: there is none of this name. */
int list_find(const char *name);

/** Print a list as tables and sentences, or its rows as JSON in SI units. */
bool list_print(int which, bool json, struct error *err);

#endif
