/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module searches sizes of offers. Days are not monotone in the number of nodes, since plans divide them.
 *
 * 1. Each offer has a grid of sizes: its least, doubled again and again, and its largest.
 * 2. Sizes that cannot keep a limit are left out: more GPUs than allowed, or more than the days even at the GPUs' peak
 *    (question_least_days). An offer keeps its largest allowed size.
 * 3. The best plan of every system is computed for each size.
 * 4. More sizes of an offer are tried between some of its sizes and their neighbours, until the two are within a
 *    sixteenth. A tried size is a multiple of a power of two that is as large as possible.
 *    - One side is below the smallest size that keeps the limit of days. The next size is where days would keep their
 *      limit if they fell like 1 / nodes. Without this limit it is above the largest that keeps all.
 *    - Both sides of the offer's cheapest size that keeps the limit of days are tried. They are not if it costs over an
 *      eighth more than the cheapest size of all offers that keeps all limits.
 *    - The same holds for its sizes that keep the limit of days with the question's confidence (finish_date_margin),
 *      unless its cheapest size is one of them.
 *    - With a limit of energy both sides of the size with the least energy are tried.
 *
 * The answer is exact over the sizes that were computed. The sizes beside it are within a sixteenth. If cost goes up
 * and down between neighbouring sizes, a size that was not computed may be a little cheaper. Then a looser deadline may
 * cost a little more, too.
 */
#ifndef SLIMSIM_CAPACITY_SIZE_SEARCH_H
#define SLIMSIM_CAPACITY_SIZE_SEARCH_H

#include "capacity/candidate.h"
#include "sweep/what_if.h"

struct size_search {
    const struct question *question;
    int32_t n;
    size_t capacity;
    struct size *sizes;
    struct candidates candidates; /* of sizes with a result, in the order of offers and nodes */
    int32_t n_rounds;
    struct what_ifs *rounds; /* they own the results */
};

/**
 * Compute sizes until nothing is left to try. With a shard only the grid's points of this shard are computed.
 * @return false with err, or with err untouched if *stop ended it; the caller frees in any case
 */
bool size_search_run(const struct question *question, const struct what_if_options *options, struct size_search *search,
                     struct error *err);

/** Make the document of the grid as a sweep, for another program that computes its shards. */
void size_search_grid(const struct question *question, struct document *document);

void size_search_free(struct size_search *search);

#endif
