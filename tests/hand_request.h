/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Tests of system/ ask training systems here, with batches made by hand or at random. */
#ifndef SLIMSIM_TESTS_HAND_REQUEST_H
#define SLIMSIM_TESTS_HAND_REQUEST_H

#include "hand_setting.h"
#include "plan/check.h"
#include "system/system.h"

/** A request and what it borrows; costs are those of its layout. */
struct hand_request {
    struct plan_request request;
    struct cost_setting setting;
    struct model model;
    struct batch batch;
    char knobs[1024];
};

/** Length laws made for tests. */
enum hand_law {
    HAND_UNIFORM,   /* 1..context */
    HAND_LONG_TAIL, /* most short, few near the context */
    HAND_EQUAL,     /* all the same length */
    HAND_TINY,      /* 1..8 tokens */
    HAND_HUGE,      /* the context, or a token less */
    HAND_TWO,       /* some 16, some half the context */
    HAND_N_LAWS
};

/** Make a request on hand_setting's machine, for a model with F(x) = 2x^2 + 10x forward and 5x^2 + 21x backward (h 1,
 * no FFN). Its figures fit the margin of a page. It has TP 1, no recomputation and unlimited memory. */
void hand_request(struct hand_request *hand, int32_t dp, int32_t pp, int64_t context);

/** Make the same request with hand_setting's model, for plans whose seconds and bytes matter. */
void hand_request_real(struct hand_request *hand, int32_t dp, int32_t pp, int64_t context);

/** Fill the batch with copies of given lengths, or by a law. */
void hand_batch(struct hand_request *hand, int32_t n_samples, const int32_t *tokens);
void hand_batch_of(struct hand_request *hand, enum hand_law law, int32_t n_samples, uint64_t seed);

/** Set the knobs' defaults, then "name: value" lines over them ("" for none), as a user's YAML gives them. The entry's
 * key `offload` may stand beside the knobs; by default it is auto. */
void hand_knobs(struct hand_request *hand, const struct training_system *system, const char *lines);

/** Plan the request by a system without a state, with these knobs (hand_knobs). A refusal, or a plan that plan_check
 * finds fault with, fails the test. The caller frees the plan. */
void hand_planned(struct hand_request *hand, const struct training_system *system, const char *lines,
                  struct plan *plan);

void hand_request_free(struct hand_request *hand);

/** Draw a number in 0..n-1 from a seeded row. */
int32_t hand_below(uint64_t *state, int32_t n);

/** Say whether two plans agree in every field. */
bool hand_same_plan(const struct plan *a, const struct plan *b);

/** Write a cut as text: "[0:0-4 1:0-2] [1:2-6]", a micro-batch in brackets, sample:begin-end. The storage is static. */
const char *hand_cut_text(const struct plan_partition *partition);

/** Write the order of one stage as text: "F0 F1 B0". The storage is static. */
const char *hand_order_text(const struct plan_pipeline *pipeline, int32_t stage);

#endif
