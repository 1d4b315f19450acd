/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module has WLB-LLM's micro-batches and queues of documents that wait: Algorithm 1 and the tuning of its
 * thresholds.
 */
#ifndef SLIMSIM_SYSTEM_WLB_QUEUES_H
#define SLIMSIM_SYSTEM_WLB_QUEUES_H

#include <stdbool.h>
#include <stdint.h>

enum { WLB_MAX_QUEUES = 2, WLB_REMAINED = -1 };

struct wlb_document {
    int32_t tokens;
    int32_t queue;   /* queue in which it waits: 0.., or WLB_REMAINED; of no meaning if it has not waited */
    double weight_s; /* seconds that it adds to a micro-batch */
    int32_t turn;    /* of a document that remained: its place in the last iteration's walk */
};

struct wlb_rule {
    int32_t n_queues;
    int64_t threshold[WLB_MAX_QUEUES]; /* ascending; a document of at least this length belongs to queue i [tokens] */
    int32_t n_packs;                   /* N, micro-batches of an iteration */
    int64_t capacity;                  /* S_max, capacity of a micro-batch [tokens] */
};

/**
 * Run one iteration of Algorithm 1. Ties go to the lowest number.
 *
 * 1. The documents are those that wait, in order of arrival, then the new ones.
 * 2. A new document of a queue's length waits there. A queue of at least N documents gives its N oldest.
 * 3. The documents that remained are walked first, in the order in which they were walked before. These and the other
 *    new ones follow, longest first.
 * 4. Each goes to the micro-batch of the least sum of weights, if that has room. Otherwise it goes to the shortest one,
 *    if that has room. If neither has room, it remains. The paper's "< S_max" is read as "at most".
 * 5. An empty micro-batch takes any document. A document longer than S_max runs in one of its own; others keep to
 *    S_max.
 * 6. If documents wait only in queues, and no new one runs, the queues give all their documents.
 *
 * @param documents  queue is filled in for documents that wait now
 * @param pack       of each document: its micro-batch; -1: it waits
 */
void wlb_assign(const struct wlb_rule *rule, struct wlb_document *documents, int32_t n, int32_t n_waiting,
                int32_t *pack);

/** Move the documents that wait to the front, in order. @return their number */
int32_t wlb_keep_waiting(struct wlb_document *documents, const int32_t *pack, int32_t n);

/**
 * Return the imbalance degree: the largest sum of weights of a micro-batch over the mean of all that hold a document.
 * 0: no micro-batch holds one.
 */
double wlb_imbalance(const struct wlb_document *documents, const int32_t *pack, int32_t n, int32_t n_packs);

/**
 * Find up to rule->n_queues thresholds of the least mean imbalance degree. A token must wait at most max_delay
 * iterations on average.
 *
 * 1. Candidates are subsets of 1/8, 1/4, 1/2 and 3/4 of the context, and no threshold.
 * 2. Each is tried on sixteen iterations. Each has n documents, drawn from the sample with replacement.
 * 3. n_queues and threshold of the rule are replaced.
 */
void wlb_tune(struct wlb_rule *rule, const struct wlb_document *sample, int32_t n, int64_t context, double max_delay,
              int64_t seed);

#endif
