/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "operation/energy.h"

#include <math.h>

static const double joules_per_kwh = 3.6e6;

double energy_node_w(const struct power *power, const struct energy_time *time)
{
    const struct power_levels *node = &power->node;
    double total_s = time->idle_s + time->waiting_s + time->busy_s;
    if (power->gpus == 0 || total_s <= 0)
        return NAN;
    double network_w = isnan(power->network_w) ? 0 : power->network_w;
    return node->idle_w + (node->waiting_w - node->idle_w) * (time->waiting_s / total_s) +
           (node->busy_w - node->idle_w) * (time->busy_s / total_s) + network_w;
}

double energy_j(const struct power *power, const struct price *price, const struct energy_time *time)
{
    if (power->gpus == 0)
        return NAN;
    double node_s = (time->idle_s + time->waiting_s + time->busy_s) / (double)power->gpus;
    double pue = isnan(price->pue) ? 1 : price->pue;
    return node_s > 0 ? energy_node_w(power, time) * node_s * pue : 0;
}

double energy_kwh(double joules)
{
    return joules / joules_per_kwh;
}

double energy_kg_co2(const struct price *price, double joules)
{
    return energy_kwh(joules) * price->kg_co2_per_kwh;
}
