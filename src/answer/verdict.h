/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module is the verdict on a point, in words: who is first and why, what would fit, what to be careful about. */
#ifndef SLIMSIM_ANSWER_VERDICT_H
#define SLIMSIM_ANSWER_VERDICT_H

#include <jansson.h>

#include "simulate/expert_routing.h"
#include "simulate/faster_setting.h"
#include "simulate/model_error.h"
#include "simulate/standing.h"
#include "trace/trace.h"

enum verdict_sentence {
    VERDICT_BATCH, /* why batches are too small to rank by */
    VERDICT_TIE,
    VERDICT_REASON, /* why the first is first, or where its time goes */
    VERDICT_HOST_MEMORY,
    VERDICT_DELAYS,
    VERDICT_CONTEXT, /* DCP's bound for systems with context parallelism */
    VERDICT_EXPERTS, /* the imbalance of experts that memory holds */
    VERDICT_ROUTING, /* what real routing costs, if balanced routing is counted */
    VERDICT_SETTINGS,
    VERDICT_FITS,  /* systems that fit tightly, and faster plans that would */
    VERDICT_MODEL, /* the range of the first by the model's error */
    VERDICT_OUTSIDE,
    VERDICT_N_SENTENCES
};

struct verdict {
    const struct point *point;
    struct ranked_point ranked;
    int32_t n_ranked;                   /* systems that fit */
    char *head;                         /* lines: what was asked, and notes that hold for all numbers */
    char **ranking;                     /* [1 + n_systems] headings, then systems, the best first; tabs between cells */
    char *legend;                       /* lines */
    char **exceeded_limit, **would_fit; /* [n_systems] what a system lacks; what would help. NULL: it fits */
    double *fitting_imbalance; /* [n_systems] of experts (simulate/fitting_change.h); NaN: no other rank has experts */
    char *sentence[VERDICT_N_SENTENCES]; /* "": nothing to say */
    int32_t n_settings, n_outside;
    struct faster_setting settings[FASTER_SETTINGS_MOST]; /* of the first system */
    char outside[OUTSIDE_MOST][OUTSIDE_SIZE];
    struct model_error error;      /* of all systems */
    struct expert_routing routing; /* pairs 0: the scenario counts no balanced routing of experts */
};

/**
 * Make the verdict. The point must outlive it.
 * @param doubles  also try a doubled batch (answer/batch_check.h)
 * @return false with err: a file about the measured runs cannot be read; the caller frees in any case
 */
bool verdict_make(const struct scenario *scenario, const struct lengths *lengths, const struct point *point,
                  bool doubles, struct verdict *verdict, struct error *err);

/** Write the verdict as data sets of texts: head, ranking, legend, verdict, would_fit, faster_settings, model_range. */
bool verdict_record(const struct verdict *verdict, struct trace *trace, struct error *err);

/** Make the verdict on a point of a sweep and write it, without a doubled batch. This is a sweep_verdict. */
bool verdict_record_point(const struct scenario *scenario, const struct lengths *lengths, const struct point *point,
                          struct trace *trace, struct error *err);

/**
 * Add ties, verdict, reason, faster_settings, outside_measured_runs and model_error to a point, and would_fit and
 * model_interval and faster_if_tight to its systems. A point that counts balanced routing of experts also gets
 * expert_routing.
 */
void verdict_add_json(const struct verdict *verdict, json_t *point);

void verdict_free(struct verdict *verdict);

#endif
