/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module prices sizes of offers: time with failures, money, energy, carbon dioxide. It finds the frontier and the
 * answer among them.
 */
#ifndef SLIMSIM_CAPACITY_OPTION_H
#define SLIMSIM_CAPACITY_OPTION_H

#include "capacity/question.h"
#include "sweep/finished_points.h"
#include "trace/table.h"

/** A size of an offer with a system. */
struct option {
    struct trace_option row;
    const char *refusal;              /* why the size cannot train; NULL: it ran; borrowed */
    const struct point_result *point; /* borrowed */
};

struct options_list {
    int32_t n;
    size_t capacity;
    struct option *at;
    int32_t n_systems;
};

/**
 * Fill in goodput, days, money and energy of a row from its throughput, busy_fraction, offer and nodes.
 *
 * 1. days = tokens / (tokens/s x goodput). Without `reliability:` goodput is 1.
 * 2. Running GPUs compute for busy_fraction of the time and wait for the rest; so do GPUs whose work is lost or that
 *    run beside a slow GPU. While a checkpoint blocks, GPUs wait. During restarts they are idle, and so are spare
 *    nodes.
 * 3. Spare nodes cost as much as the others.
 *
 * @param offer  may differ from the question's, with other failures or prices
 */
void option_price(const struct question *question, const struct offer *offer, struct trace_option *row);

/** Append an option of each system of a point that was computed for a size. */
void options_add(struct options_list *options, const struct question *question, int32_t offer, int64_t nodes,
                 const struct point_result *point);

/** Return whether an option fits and keeps one limit, or all limits. */
bool option_keeps(const struct question *question, const struct option *option, enum capacity_limit limit);
bool option_meets(const struct question *question, const struct option *option);

/**
 * Return what an option costs: money if every offer has a price, otherwise GPU-hours.
 * @param in_money  see options_have_money
 */
double option_cost(const struct option *option, bool in_money);
bool options_have_money(const struct options_list *options);

/**
 * Mark options: meets, frontier, knee, and what a node adds. Then choose the answer.
 *
 * 1. With a limit of days or without any limit it is the cheapest option that keeps all limits, otherwise the fastest.
 * 2. Ties: fewer days, then the first.
 *
 * @return index of the answer; -1: no option keeps all limits
 */
int32_t options_choose(struct options_list *options, const struct question *question);

/** Return the option that fits with the fewest days; -1: none fits. */
int32_t options_fastest(const struct options_list *options);

void options_free(struct options_list *options);

#endif
