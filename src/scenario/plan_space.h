/* SPDX-License-Identifier: GPL-3.0-or-later */
/** What a plan search may choose from: `plan_space:` over a named space of model/plan_space/. */
#ifndef SLIMSIM_SCENARIO_PLAN_SPACE_H
#define SLIMSIM_SCENARIO_PLAN_SPACE_H

#include "scenario/schema.h"

/**
 * Features that a plan may have only when memory demands it: a plan with k of the listed features is considered only if
 * no plan of the space with fewer of them fits (in the iteration that ranks).
 *
 *   cp               context-parallel degree above 1
 *   cp-across-nodes  TP x CP beyond the GPUs of a node
 *   full-recompute   recompute full
 *   offload          a share of activations goes to the host
 */
enum plan_space_feature {
    PLAN_SPACE_CP,
    PLAN_SPACE_CP_ACROSS_NODES,
    PLAN_SPACE_FULL_RECOMPUTE,
    PLAN_SPACE_OFFLOAD,
};

/** Lists of allowed values; an empty one: every value that model, platform and system allow (vpp: 1; sharding: the
 * system's own; offload: none). Of vpp and sharding a layout takes those that it can have: vpp above 1 with several
 * stages of whole chunks, in systems with an interleaved order; zero2 and zero3 with one stage. */
struct plan_space {
    char name[SCHEMA_TEXT_BYTES], source[SCHEMA_TEXT_BYTES]; /* name: of a file of the user's, its absolute path */
    struct schema_ints tp, pp, cp, dp, vpp;
    struct schema_choices sharding;  /* enum scenario_sharding but SCENARIO_UNSHARDED */
    struct schema_choices recompute; /* none, selective, full, in this order */
    struct schema_reals offload;
    struct schema_choices on_demand; /* enum plan_space_feature */
};

/**
 * Read `name` and the lists of the mapping at `node` (-1: none, so `free`), on top of model/plan_space/NAME.yaml: a
 * list that is given takes the place of the named space's. Every error is a line of err.
 */
bool plan_space_read(const struct document *document, int32_t node, const char *data_dir, struct plan_space *space,
                     struct error *err);

/** The keys of `plan_space:` as YAML lines, `indent` spaces deep; reading them gives the same space. */
void plan_space_write(FILE *file, const struct plan_space *space, int32_t indent);

/** Its rows of `slimsim list keys`. */
void plan_space_list_keys(FILE *file, const char *prefix);

#endif
