/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module turns the time of GPUs into power, energy and carbon dioxide. */
#ifndef SLIMSIM_OPERATION_ENERGY_H
#define SLIMSIM_OPERATION_ENERGY_H

#include "scenario/power.h"
#include "scenario/price.h"

/**
 * Time of GPUs by level, summed over GPUs [s].
 * - busy: kernels compute.
 * - waiting: the GPU is in a running step and does not compute. Its collective or receive polls (NCCL's kernels do).
 * - idle: the GPU has no work, since the job is down or the node is a spare. A running step has no such time.
 */
struct energy_time {
    double idle_s, waiting_s, busy_s;
};

/**
 * Power of a node whose GPUs spend their time so, with its network and without the site's overhead.
 *
 *     P = static + sum over GPUs (idle + (waiting - idle) waiting share + (busy - idle) busy share) + network
 *
 * All GPUs have the mean shares here, so the levels of the whole node say the same: static + GPUs x idle is the node's
 * idle level, and so on.
 *
 * @return [W]; NaN: the power is unknown, or there is no time
 */
double energy_node_w(const struct power *power, const struct energy_time *time);

/**
 * Energy of the site for this time of GPUs, each with its share of node and network, times price->pue (1 if that is not
 * given).
 *
 * @return [J]; NaN: the power is unknown
 */
double energy_j(const struct power *power, const struct price *price, const struct energy_time *time);

/** Return joules as kWh. */
double energy_kwh(double joules);

/** Return the carbon dioxide of an energy [kg]; NaN: price->kg_co2_per_kwh is not given. */
double energy_kg_co2(const struct price *price, double joules);

#endif
