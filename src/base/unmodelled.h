/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module knows why some names that users ask for have no model here. */
#ifndef SLIMSIM_BASE_UNMODELLED_H
#define SLIMSIM_BASE_UNMODELLED_H

/**
 * Return the reason from unmodelled.def, or NULL. Capitals equal small letters.
 *
 * @param kind  "model", "device", "training system", or "key" of a file
 */
const char *unmodelled_reason(const char *kind, const char *name);

#endif
