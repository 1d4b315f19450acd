/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module prints the tables of `slimsim list`. The first column has the names that a scenario uses. */
#ifndef SLIMSIM_CLI_LIST_TABLES_H
#define SLIMSIM_CLI_LIST_TABLES_H

#include <stdbool.h>

#include "base/error.h"

bool list_models(struct error *err);

/** Curves are those of `fit:` in the device's file, which says what was measured and what was copied. */
bool list_devices(struct error *err);

bool list_platforms(struct error *err);

/** Quantiles and FLOPs are those of whole documents, before a context cuts them. */
bool list_lengths(struct error *err);

bool list_frameworks(struct error *err);

bool list_systems(struct error *err);

#endif
