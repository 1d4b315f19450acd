/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module compares two scenarios: what differs between them in keys and results, and how much each difference
 * gives.
 *
 * 1. Both run on the critical path, and a system of each is chosen.
 * 2. Each difference between the two systems' scenarios is changed alone, from the first to the second. A plan that is
 *    `auto` is searched again.
 */
#ifndef SLIMSIM_ANSWER_COMPARISON_H
#define SLIMSIM_ANSWER_COMPARISON_H

#include "answer/difference.h"
#include "simulate/model_error.h"
#include "sweep/what_if.h"

/** One of the two that are compared. */
struct comparison_side {
    const char *path;         /* borrowed */
    struct scenario scenario; /* resolved, before plans were searched */
    bool fastest_attention;   /* attention is fastest, which the resolved scenario no longer says */
    struct document document; /* the same with the chosen system alone */
    char *read;               /* what was read of the user's file of lengths; NULL: nothing */
    struct point_result *result;
    int32_t system; /* index of the chosen one */
    const struct trace_summary *summary;
    struct model_error error;
    struct model_interval interval; /* of its tokens/s/GPU */
};

/** Results with one difference alone. */
struct contribution {
    const struct difference *difference;
    char *refusal; /* the reason why it cannot change alone; NULL: it ran, and the rest is filled in */
    bool fits;
    double tokens_per_s_per_gpu, gain; /* gain: over the first side */
};

/** A gain of model FLOPs a second. */
struct gain {
    double gain, half; /* half width of its 95% interval; NaN: none */
};

/** {0} is empty. */
struct comparison {
    char *name; /* of the journals: "a.b.compare" of the scenarios a and b */
    struct what_ifs sides, changes;
    struct comparison_side side[2];
    struct differences differences;
    struct contribution *contributions; /* in the order of the keys */
    bool same_batches;                  /* so iterations are pairs */
    struct gain total;
    double interaction; /* the gain that no single difference gives */
};

/**
 * @param documents  as written; they are taken over
 * @param paths      for messages
 * @param options    get the name of the comparison
 * @param system     label of the chosen system; NULL: the first of each ranking
 * @return           false with err, or with err untouched if *stop ended it; the caller frees in any case
 */
bool comparison_find(struct document documents[2], const char *const paths[2], const char *system,
                     struct what_if_options *options, struct comparison *comparison, struct error *err);

/** Return the gain of the second side's system b over the first side's system a. */
struct gain comparison_pair(const struct comparison *comparison, int32_t a, int32_t b);

void comparison_free(struct comparison *comparison);

#endif
