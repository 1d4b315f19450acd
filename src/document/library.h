/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module finds files by name in a folder: models, devices, platforms. */
#ifndef SLIMSIM_DOCUMENT_LIBRARY_H
#define SLIMSIM_DOCUMENT_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/** Return whether `name` means a file of the user, because it ends in the suffix (".yaml"). */
bool library_is_path(const char *name, const char *suffix);

/** List the names of a folder's files that end in the suffix, without it, in alphabetical order. The caller frees each
 * of them and the array. @return NULL with errno if the folder cannot be read */
char **library_list(const char *folder, const char *suffix, size_t *n_names);

/**
 * Find the path that `name` means: FOLDER/NAME.suffix, or the name itself if it is a path. An unknown name is an error
 * that lists the available names and the nearest. A path is not checked for a readable file.
 *
 * @param what  in messages: "model"
 */
bool library_find(const char *folder, const char *name, const char *suffix, const char *what, char path[1024],
                  struct error *err);

/**
 * Replace another way to write a shipped name, "Qwen/Qwen3-8B" or "H100", by the shipped one. It must mean exactly one
 * file. Other names stay.
 */
void library_shipped(const char *folder, const char *suffix, const char *what, char *name, size_t size);

#endif
