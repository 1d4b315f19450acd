/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module turns the time of GPUs and their energy into money. */
#ifndef SLIMSIM_OPERATION_MONEY_H
#define SLIMSIM_OPERATION_MONEY_H

#include <stdint.h>

#include "scenario/price.h"

/**
 * Price of a GPU for an hour of use, without energy: the rent, or the share of an own server.
 *
 *     own = (capital / years + operation of a year) / (8760 h x utilisation) / GPUs of a server
 *
 * Hours without use cost the same as hours of use, so used hours carry both.
 *
 * @return [$]; NaN: neither rent nor own is given
 */
double money_usd_per_gpu_hour(const struct price *price, int32_t gpus_per_server);

/**
 * Money of GPU-hours and of the energy that they took. Energy costs nothing extra if price->usd_per_kwh is not given.
 *
 * @param joules  energy of the site; NaN: unknown
 * @return        [$]; NaN: the price of a GPU is not given, or a tariff is given and the energy is unknown
 */
double money_usd(const struct price *price, int32_t gpus_per_server, double gpu_hours, double joules);

#endif
