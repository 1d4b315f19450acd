/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Files that are found by name in a folder: models, devices, platforms. */
#ifndef SLIMSIM_SCENARIO_LIBRARY_H
#define SLIMSIM_SCENARIO_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/** Whether `name` means a file of the user's: it ends in the suffix (".yaml"). */
bool library_is_path(const char *name, const char *suffix);

/** Names of a folder's files that end in the suffix, without it, in alphabetical order. The caller frees each of them
 * and the array. @return NULL with errno when the folder cannot be read */
char **library_list(const char *folder, const char *suffix, size_t *n_names);

/**
 * The path of what `name` means: FOLDER/NAME.suffix, or the name itself when it is a path. An unknown name is an error
 * that lists those there are and the nearest; whether a path can be read is seen when it is.
 *
 * @param what  in messages: "model"
 */
bool library_find(const char *folder, const char *name, const char *suffix, const char *what, char path[1024],
                  struct error *err);

#endif
