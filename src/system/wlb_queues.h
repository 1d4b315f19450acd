/* SPDX-License-Identifier: GPL-3.0-or-later */
/** WLB-LLM's micro-batches and the queues of documents that wait: Algorithm 1 and the tuning of its thresholds. */
#ifndef SLIMSIM_SYSTEM_WLB_QUEUES_H
#define SLIMSIM_SYSTEM_WLB_QUEUES_H

#include <stdbool.h>
#include <stdint.h>

enum { WLB_MAX_QUEUES = 2, WLB_REMAINED = -1 };

struct wlb_document {
    int32_t tokens;
    int32_t queue;   /* where it waits: 0.., or WLB_REMAINED; of one that has not waited: either */
    double weight_s; /* seconds it adds to a micro-batch */
};

struct wlb_rule {
    int32_t n_queues;
    int64_t threshold[WLB_MAX_QUEUES]; /* ascending: a document of at least so many tokens is queue i's [tokens] */
    int32_t n_packs;                   /* micro-batches of an iteration, N */
    int64_t capacity;                  /* of a micro-batch, S_max [tokens] */
};

/**
 * One iteration of Algorithm 1. The documents are those that wait, in the order they came, then the new ones. A new
 * one of a queue's length waits there. A queue of at least N documents gives its N oldest. These and the other new
 * ones, longest first, follow the documents that remained: each to the micro-batch of the least sum of weights, if that
 * has room, else to the shortest one, if that has, else it remains. (The paper's "< S_max" is read as "at most".) An
 * empty one takes any document: one longer than S_max runs alone, the others keep to S_max. Ties go to the lowest
 * number. If nothing waits but in queues and nothing new runs, the queues give all they have.
 *
 * @param documents  queue is filled in of those that wait now
 * @param pack       of each document: its micro-batch; -1: it waits
 */
void wlb_deal(const struct wlb_rule *rule, struct wlb_document *documents, int32_t n, int32_t n_waiting, int32_t *pack);

/** The documents that wait, to the front, in order. @return how many */
int32_t wlb_keep_waiting(struct wlb_document *documents, const int32_t *pack, int32_t n);

/** Imbalance degree: the largest sum of weights of a micro-batch over the mean of all that hold a document. 0: none
 * does. */
double wlb_imbalance(const struct wlb_document *documents, const int32_t *pack, int32_t n, int32_t n_packs);

/**
 * Thresholds, up to rule->n_queues of them, of the least mean imbalance degree under which a token waits at most
 * max_delay iterations on average; of 1/8, 1/4, 1/2 and 3/4 of the context, or none. What they come to is tried on
 * sixteen iterations of documents drawn from a sample with replacement, as many as it has. n_queues and threshold of
 * the rule are replaced.
 */
void wlb_tune(struct wlb_rule *rule, const struct wlb_document *sample, int32_t n, int64_t context, double max_delay,
              int64_t seed);

#endif
