/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module reads what a plan search may choose from: `plan_space:` over a named space of model/plan_space/. */
#ifndef SLIMSIM_SCENARIO_PLAN_SPACE_H
#define SLIMSIM_SCENARIO_PLAN_SPACE_H

#include "document/schema.h"
#include "document/schema_text.h"

/**
 * Features that a plan may have only if memory demands it. A plan with k of the listed features is a candidate only if
 * no plan of the space with fewer fits. The iteration that ranks decides this.
 *
 *   cp               context-parallel degree above 1
 *   cp-across-nodes  TP x CP beyond the GPUs of an NVLink domain
 *   full-recompute   recompute full
 *   offload          a share of activations goes to the host
 */
enum plan_space_feature {
    PLAN_SPACE_CP,
    PLAN_SPACE_CP_ACROSS_NODES,
    PLAN_SPACE_FULL_RECOMPUTE,
    PLAN_SPACE_OFFLOAD,
};

/**
 * Lists of allowed values. An empty list allows every value that model, platform and system allow, except these:
 * - vpp: 1
 * - sharding, and shard_communication of zero3: the system's defaults
 * - offload: none
 * - spread: the framework's
 *
 * A layout takes only values of vpp and sharding that it can have. vpp above 1 needs several stages of whole chunks and
 * a system with an interleaved order. zero2 and zero3 are tried with one stage.
 */
struct plan_space {
    char name[SCHEMA_TEXT_BYTES], source[SCHEMA_TEXT_BYTES]; /* name: if it is a user's file, its absolute path */
    struct schema_ints tp, pp, cp, ep, dp, vpp;
    struct schema_choices sharding;            /* enum scenario_sharding, except SCENARIO_UNSHARDED */
    struct schema_choices shard_communication; /* enum scenario_shard_communication */
    struct schema_choices recompute;           /* none, norm+activation, full, in this order */
    struct schema_choices spread;              /* enum scenario_spread */
    struct schema_reals offload;
    struct schema_choices on_demand; /* enum plan_space_feature */
};

/** Read `name` and the lists of the mapping at `node` (-1: none, so `wide`). A list that is given replaces that of
 * model/plan_space/NAME.yaml. Every error is a line of err. */
bool plan_space_read(const struct document *document, int32_t node, const char *data_dir, struct plan_space *space,
                     struct error *err);

/** Write the keys of `plan_space:` as YAML lines, `indent` spaces deep. Reading them gives the same space. */
void plan_space_write(FILE *file, const struct plan_space *space, int32_t indent);

/** Print its rows of `slimsim list keys`. */
void plan_space_list_keys(const struct schema_listing *listing, const char *prefix);

#endif
