/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "operation/money.h"

#include <math.h>

#include "operation/energy.h"

static const double hours_per_year = 8760;

double money_usd_per_gpu_hour(const struct price *price, int32_t gpus_per_server)
{
    const struct price_own *own = &price->own;
    if (!isnan(price->usd_per_gpu_hour))
        return price->usd_per_gpu_hour;
    double operation = isnan(own->usd_per_node_year) ? 0 : own->usd_per_node_year;
    return (own->usd_per_node / own->years + operation) / (hours_per_year * own->utilisation) / gpus_per_server;
}

double money_usd(const struct price *price, int32_t gpus_per_server, double gpu_hours, double joules)
{
    double energy_usd = isnan(price->usd_per_kwh) ? 0 : energy_kwh(joules) * price->usd_per_kwh;
    return gpu_hours * money_usd_per_gpu_hour(price, gpus_per_server) + energy_usd;
}
