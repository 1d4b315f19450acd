/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module reads a scenario file with its `--set`, resolves and checks it, and writes it back. */
#ifndef SLIMSIM_SCENARIO_SCENARIO_READ_H
#define SLIMSIM_SCENARIO_SCENARIO_READ_H

#include <stdio.h>

#include "scenario/framework.h"
#include "scenario/scenario.h"

/**
 * Read a scenario, for the path "-" that on standard input, in these steps:
 * 1. Apply `--set` assignments in order.
 * 2. Resolve names. A relative path in the file starts at the file's folder, a path in `--set` or on standard input
 * at the working directory. It is stored as an absolute one.
 * 3. Check everything that needs no system: types, ranges, files, tp*pp*cp*dp against the platform, layers against
 * stages, heads against tp.
 *
 * Every error found is a line of err, and the scenario is then empty.
 */
bool scenario_read(const char *path, int32_t n_set, const char *const *set, struct scenario *scenario,
                   struct error *err);

/** Do the first half of scenario_read: read the file as written with its --set. The document may exist in spite of
 * errors. The caller frees it. */
bool scenario_read_document(const char *path, int32_t n_set, const char *const *set, struct document *document,
                            struct error *err);

/** Do the second half: refuse a sweep, resolve names and check. It takes over the document and empties it. */
bool scenario_resolve_point(struct document *document, struct scenario *scenario, struct error *err);

/** Do the same for a point of a sweep: resolve names and check. It takes over the document and empties it. It leaves
 * `sweep:` to sweep/. */
bool scenario_resolve(struct document *document, struct scenario_cache *cache, struct scenario *scenario,
                      struct error *err);

/** Do the first part of scenario_resolve: read keys into the scenario. It reads no file except the framework's, and no
 * fault. The scenario may exist in spite of errors. The caller frees it. */
bool scenario_read_keys(struct document *document, struct scenario_cache *cache, struct scenario *scenario,
                        struct error *err);

/**
 * Read the steps that `replay` names. Without iterations of its own the scenario runs each of them once, without
 * warm-up.
 * @param scenario  its keys are read
 */
bool scenario_read_replay(struct scenario *scenario, struct error *err);

/** Refuse a replay. @param why  what its times cannot answer: "which are of one batch" */
bool scenario_refuse_replay(const struct scenario *scenario, const char *why, struct error *err);

/** Do its last part without faults: check that plans, model, platform and keys match. */
bool scenario_check(struct scenario *scenario, struct error *err);

/** Return the resolved scenario as YAML text. scenario_read turns it into the same bits and text. The caller frees it.
 */
char *scenario_text(const struct scenario *scenario);

/** Read a framework of model/framework, or of a file whose name ends in .yaml. */
bool scenario_framework(const char *name, struct framework *framework, struct error *err);

/** Print `slimsim list keys`, with the defaults of the default framework. */
bool scenario_list_keys(const struct schema_listing *listing, struct error *err);

#endif
