/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module prints keys of a scenario and the values that a key may have, one a line, for completion in shells. */
#ifndef SLIMSIM_CLI_LIST_VALUES_H
#define SLIMSIM_CLI_LIST_VALUES_H

#include "base/error.h"

/** Print all keys of --set. Entries of lists have the number 0. */
bool list_key_names(struct error *err);

/** Print the names or choices that the key may have. A key with other values has none. An unknown key is an error. */
bool list_values(const char *key, struct error *err);

#endif
