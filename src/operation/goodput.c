/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "operation/goodput.h"

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_sf_lambert.h>
#include <math.h>

#include "base/check.h"

const char *const goodput_loss_name[GOODPUT_N_LOSSES] = {"blocked by checkpoints", "lost work", "restarts",
                                                         "waiting for spares", "slow GPUs"};

double goodput_exact_ettr(const struct renewal *renewal)
{
    double m = renewal->mttf_s;
    return renewal->interval_s / m * exp(-(renewal->restart_s + renewal->save_s) / m) /
           expm1((renewal->interval_s + renewal->blocked_s) / m);
}

double goodput_safe_restart_ettr(const struct renewal *renewal)
{
    double m = renewal->mttf_s;
    return renewal->interval_s / (m + renewal->restart_s) / expm1((renewal->interval_s + renewal->blocked_s) / m);
}

double goodput_first_order_ettr(const struct renewal *renewal)
{
    return (1 - (renewal->restart_s + renewal->interval_s / 2) / renewal->mttf_s) /
           (1 + renewal->blocked_s / renewal->interval_s);
}

double goodput_first_order_interval_s(double mttf_s, double blocked_s)
{
    return sqrt(2 * blocked_s * mttf_s);
}

double goodput_daly_interval_s(double mttf_s, double blocked_s)
{
    double ratio = blocked_s / (2 * mttf_s);
    if (ratio >= 1)
        return mttf_s;
    return sqrt(2 * blocked_s * mttf_s) * (1 + sqrt(ratio) / 3 + ratio / 9) - blocked_s;
}

double goodput_best_interval_s(double mttf_s, double blocked_s)
{
    if (blocked_s < 1e-12 * mttf_s) /* W0 is not defined below -1/e, which rounding may pass */
        return goodput_first_order_interval_s(mttf_s, blocked_s);
    return mttf_s * (1 + gsl_sf_lambert_W0(-exp(-1 - blocked_s / mttf_s)));
}

double goodput_waiting_share(double mean_in_repair, int64_t spares)
{
    return mean_in_repair > 0 ? gsl_cdf_poisson_Q((unsigned int)spares, mean_in_repair) : 0;
}

struct renewal goodput_renewal(const struct goodput_setting *setting)
{
    const struct reliability *reliability = setting->reliability;
    CHECK(reliability->present && setting->n_servers >= 1 && setting->gpus_per_server >= 1);
    double bytes = setting->parameters * reliability->bytes_per_parameter;
    double n_gpus = (double)setting->n_servers * (double)setting->gpus_per_server;
    struct renewal renewal = {
        .mttf_s = 1 / ((double)setting->n_servers * reliability_failures_per_s(reliability)),
        .blocked_s = reliability->blocked_s,
        .save_s = bytes / reliability->storage_bytes_per_s,
    };
    double load_s = isnan(reliability->load_s) ? renewal.save_s : reliability->load_s;
    renewal.restart_s = reliability->detect_s + reliability->replace_s + reliability->start_s + load_s;
    if (isnan(reliability->blocked_s))
        renewal.blocked_s = reliability->barrier_s + bytes / n_gpus / setting->pcie_bytes_per_s;
    double interval_s = reliability->interval_s;
    if (isnan(interval_s))
        interval_s = goodput_best_interval_s(renewal.mttf_s, renewal.blocked_s);
    renewal.interval_s = fmax(interval_s, renewal.save_s);
    return renewal;
}

int64_t goodput_spares(const struct goodput_setting *setting)
{
    const double most_waiting = 1e-3; /* what `auto` of the key promises */
    const struct reliability *reliability = setting->reliability;
    if (!isnan(reliability->spares))
        return (int64_t)reliability->spares;
    double mean = (double)setting->n_servers * reliability_failures_per_s(reliability) * reliability->repair_s;
    int64_t spares = (int64_t)fmin(mean, RELIABILITY_MOST_SPARES); /* fewer are missing half of the time */
    while (spares < RELIABILITY_MOST_SPARES && goodput_waiting_share(mean, spares) > most_waiting)
        spares++;
    return spares;
}

struct goodput goodput_of(const struct goodput_setting *setting)
{
    const struct reliability *reliability = setting->reliability;
    struct goodput goodput = {.spares = goodput_spares(setting), .renewal = goodput_renewal(setting)};
    const struct renewal *renewal = &goodput.renewal;
    double waiting = goodput_waiting_share(reliability->repair_s / renewal->mttf_s, goodput.spares);
    double slow = reliability->slow_share * (1 - 1 / reliability->slow_factor);
    double running = exp(-renewal->restart_s / renewal->mttf_s), saved = goodput_exact_ettr(renewal);
    double blocked = saved * renewal->blocked_s / renewal->interval_s;
    double *lost = goodput.lost_share;
    goodput.ettr = (1 - waiting) * saved * (1 - slow);
    lost[GOODPUT_BLOCKED] = (1 - waiting) * blocked;
    lost[GOODPUT_WORK] = (1 - waiting) * fmax(0, running - saved - blocked); /* rounding */
    lost[GOODPUT_RESTART] = (1 - waiting) * (1 - running);
    lost[GOODPUT_SPARES] = waiting;
    lost[GOODPUT_SLOW] = (1 - waiting) * saved * slow;
    return goodput;
}
