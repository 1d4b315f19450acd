/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module reads `capacity:` of a scenario: how many tokens to train, within which limits, on which offers.
 *
 *     capacity:
 *       tokens: 2e12
 *       days: 30                       a limit; also usd, mwh, gpus
 *       confidence: 0.9                of the safe answer
 *       offers:
 *         - {name: h100, device: h100-sxm, platform: h100, price: {usd_per_gpu_hour: 2}, nodes: {from: 32, to: 512}}
 *         - {name: h200, device: h200, platform: h100, nodes: {from: 32, to: 256}}
 *
 * Without `nodes` an offer has sizes from the fewest nodes that keep the days at their peak to eight times as many.
 * Without a limit of days they are 1 to 128 nodes.
 *
 * A training may have phases, one after the other on the same nodes. Each has tokens of its own instead of `tokens`,
 * and may replace three keys of `data:`:
 *
 *     phases:
 *       - {tokens: 1.8e12, context: 4Ki}
 *       - {tokens: 2e11, context: 128Ki, lengths: long.csv, batch: 16Mi}
 *
 * Each phase has the best plan of its own, or with `one_plan: true` all have the one with which they end first.
 *
 * `faults:` hold for each size. A GPU or node that is listed is slow in each size that has it, and a smaller size is
 * refused. A share is drawn for each size.
 *
 * An offer may have the scenario's keys device, platform, precision, power, price and reliability. Its value
 * replaces that of the scenario.
 */
#ifndef SLIMSIM_CAPACITY_QUESTION_H
#define SLIMSIM_CAPACITY_QUESTION_H

#include "operation/goodput.h"
#include "scenario/scenario.h"

enum capacity_limit { LIMIT_DAYS, LIMIT_USD, LIMIT_MWH, LIMIT_GPUS, CAPACITY_N_LIMITS };

/** Keys of the limits: "days", "usd", "mwh", "gpus". */
extern const char *const capacity_limit_name[CAPACITY_N_LIMITS];

enum { QUESTION_MOST_PHASES = 8 };

/** A part of the training. */
struct phase {
    double tokens;
    char context[SCHEMA_TEXT_BYTES], lengths[SCHEMA_TEXT_BYTES], batch[SCHEMA_TEXT_BYTES]; /* "": as in `data:` */
    struct scenario_data data;                                                             /* with these */
};

struct offer {
    char name[SCHEMA_WORD_BYTES];
    int64_t from, to;         /* nodes that may be bought, without spares */
    int32_t node;             /* of its entry in the question's document */
    struct scenario scenario; /* of its smallest size, with faults of its largest; it has device, platform, power, price
                                 and reliability, and the data of the phase with the longest context */
};

struct question {
    struct document document; /* as written, with its --set */
    double tokens;            /* of all phases */
    int32_t n_phases;         /* at least 1; the training itself is one */
    struct phase phase[QUESTION_MOST_PHASES];
    bool one_plan;                   /* for all phases, of which there are several */
    double limit[CAPACITY_N_LIMITS]; /* NaN: none */
    double confidence;               /* of the safe answer */
    int32_t n_offers;
    struct offer *offers;
    bool assumed; /* options asked, so the answer says what was assumed */
};

/**
 * Read and check a question. Every offer is a valid scenario.
 * @return false with err: each line has its place. Causes, beside those of a scenario:
 *         - no `capacity:` or no offer; two offers of one name; a range of nodes that is empty
 *         - phases beside `tokens`, or none in their list
 *         - a fault of a link above the NICs
 *         - a limit of money without a price, or of energy without power; a limit of money and a tariff without power
 */
bool question_read(const char *path, int32_t n_set, const char *const *set, struct question *question,
                   struct error *err);

/** Do the same for a document as written, with its --set. It takes over the document. The caller frees the question,
 * also after a failure. */
bool question_resolve(struct document *document, struct question *question, struct error *err);

/** Return whether a limit is given that a training may miss by its time: days, money or energy. */
bool question_is_limited(const struct question *question);

/** Return whether the fastest candidate is asked for: limits are given, and no days are among them. */
bool question_asks_for_fastest(const struct question *question);

/** Return the GPUs of a size, without spares. */
int64_t offer_gpus(const struct offer *offer, int64_t nodes);

/** Return the fewest and the most spare nodes that are tried beside a size. Both are the number that is given. Without
 * one they are 0 and goodput_spares, and without `reliability:` 0. */
int64_t offer_least_spares(const struct offer *offer);
int64_t offer_most_spares(const struct offer *offer, int64_t nodes);

/** Return the setting of the goodput of a size. It borrows the offer's reliability. */
struct goodput_setting offer_setting(const struct offer *offer, int64_t nodes);

/**
 * Return a bound: no plan trains the tokens on this size in less time, because no GPU exceeds its peak and attention
 * between tokens is left out [days].
 */
double question_least_days(const struct question *question, const struct offer *offer, int64_t nodes);

/** Give the i-th key of `data:` that phases may replace, with its value in one of them. @return NULL: there is none */
const char *question_phase_key(const struct phase *phase, int i, char value[SCHEMA_TEXT_BYTES]);

/**
 * Make the document whose sweep computes sizes of offers, each with all phases in order. It has the scenario's systems
 * on the critical path, and neither money nor failures, so that results hold for all prices.
 * @param offers, nodes  [n] of each size, in order
 */
void question_sizes(const struct question *question, int32_t n, const int32_t *offers, const int64_t *nodes,
                    struct document *document);

/** Print the keys for `slimsim list keys`. */
void question_list_keys(const struct schema_listing *listing);

void question_free(struct question *question);

#endif
