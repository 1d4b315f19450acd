/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module knows words of other tools: why some have no model here, and how others are called here. */
#ifndef SLIMSIM_BASE_UNMODELLED_H
#define SLIMSIM_BASE_UNMODELLED_H

/**
 * Return the reason from unmodelled.def, or NULL. Capitals equal small letters.
 *
 * @param kind  "model", "device", "framework", "training system", "key" of a file, or the last word of a key whose
 *              value the name is: "sharding"
 */
const char *unmodelled_reason(const char *kind, const char *name);

/** Return the name here of what other tools call so, or NULL. Names of files have the form of base/name.h. */
const char *unmodelled_name_here(const char *kind, const char *name);

#endif
