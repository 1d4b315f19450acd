/* SPDX-License-Identifier: GPL-3.0-or-later */
/** A scenario file: read with its `--set`, resolved and checked, written back. */
#ifndef SLIMSIM_SCENARIO_SCENARIO_READ_H
#define SLIMSIM_SCENARIO_SCENARIO_READ_H

#include <stdio.h>

#include "scenario/framework.h"
#include "scenario/scenario.h"

/**
 * Read, apply `--set` assignments in order, resolve names, check everything that needs no system:
 * types, ranges, files, tp*pp*cp*dp against the platform, layers against stages, heads against tp.
 * A relative path in the file starts at the file's folder, one in `--set` at the working directory; it is stored as
 * an absolute one. Every error found is a line of err; the scenario is then empty.
 */
bool scenario_read(const char *path, int32_t n_set, const char *const *set, struct scenario *scenario,
                   struct error *err);

/** The first half of scenario_read: the file as written with its --set. The document may be there in spite of errors;
 * the caller frees it. */
bool scenario_read_document(const char *path, int32_t n_set, const char *const *set, struct document *document,
                            struct error *err);

/** The second half: resolve names and check. Takes the document over and empties it; `sweep:` in it is left to sweep/.
 */
bool scenario_resolve(struct document *document, struct scenario_cache *cache, struct scenario *scenario,
                      struct error *err);

/** The first part of scenario_resolve: keys are read into the scenario, but no file except the framework's, and no
 * fault. It is there in spite of errors; the caller frees it. */
bool scenario_read_keys(struct document *document, struct scenario_cache *cache, struct scenario *scenario,
                        struct error *err);

/** Its last part but faults: plans, model, platform and keys go together. */
bool scenario_check(struct scenario *scenario, struct error *err);

/** The resolved scenario as YAML text that scenario_read takes to the same bits and text. Caller frees. */
char *scenario_text(const struct scenario *scenario);

/** A framework of model/framework, or of a file whose name ends in .yaml. */
bool scenario_framework(const char *name, struct framework *framework, struct error *err);

/** `slimsim list keys`, with the defaults of the default framework. */
bool scenario_list_keys(FILE *file, struct error *err);

#endif
