/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module says what a scenario's words were taken for, where a user may expect something else. */
#ifndef SLIMSIM_SCENARIO_TAKEN_H
#define SLIMSIM_SCENARIO_TAKEN_H

#include "scenario/scenario.h"

/** Add a line for each thing that is left out of a model. @param name  of it; without .json nothing is added */
void taken_model(const char *name, struct error *notes);

/**
 * Add a line for each of these:
 * 1. a name that was taken for a shipped one (library_shipped);
 * 2. what is left out of a model that a configuration of Hugging Face describes;
 * 3. `selective`, whose meaning depends on the framework;
 * 4. keys of fp8 that have no effect with bf16.
 */
void taken_words(const struct scenario *scenario, struct error *notes);

#endif
