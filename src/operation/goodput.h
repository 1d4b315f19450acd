/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module computes goodput: the share of a cluster's time that trains, in spite of failures.
 *
 * Failures are a Poisson process with mean time M between them. Training alternates dt seconds of work and w seconds in
 * which a checkpoint blocks it. A failure costs the work since the last checkpoint and a restart of R seconds.
 */
#ifndef SLIMSIM_OPERATION_GOODPUT_H
#define SLIMSIM_OPERATION_GOODPUT_H

#include "scenario/reliability.h"

/** The times that the closed forms need. */
struct renewal {
    double mttf_s;     /* M, above 0 */
    double interval_s; /* dt, above 0 */
    double blocked_s;  /* w */
    double restart_s;  /* R */
    double save_s;     /* time after which a checkpoint in the background is complete, at most dt */
};

/**
 * Return the effective training time ratio if failures may strike during restarts, too:
 *
 *     ETTR = dt / (M e^((R + s)/M) (e^((dt + w)/M) - 1))
 *
 * After a restart the j-th checkpoint counts if no failure strikes within j (dt + w) + s. The mean number of such j is
 * e^(-s/M) / (e^((dt + w)/M) - 1), and a run with the restarts behind it takes M e^(R/M) on average. With s = 0 this is
 * the form of Daly 2006, A higher order estimate of the optimum checkpoint interval (doi:10.1016/j.future.2004.11.016).
 */
double goodput_exact_ettr(const struct renewal *renewal);

/** Return the ratio if no failure strikes during a restart: dt / ((M + R) (e^((dt + w)/M) - 1)) with s = 0. */
double goodput_safe_restart_ettr(const struct renewal *renewal);

/**
 * Return the ratio to first order: (1 - (R + dt/2)/M) / (1 + w/dt). It is good for (R + dt)/M < 0.2.
 *
 * Source: Kokolis et al. 2024 (arXiv:2410.21680v2).
 */
double goodput_first_order_ettr(const struct renewal *renewal);

/** Return the interval that is best to first order: sqrt(2 w M) [s]. Source: as goodput_first_order_ettr. */
double goodput_first_order_interval_s(double mttf_s, double blocked_s);

/** Return Daly's interval [s]: sqrt(2 w M) (1 + sqrt(w/2M)/3 + w/18M) - w for w < 2M, otherwise M. Source: as
 * goodput_exact_ettr. */
double goodput_daly_interval_s(double mttf_s, double blocked_s);

/**
 * Return the interval with the largest exact ratio [s]. Its derivative is 0 at dt/M = 1 - e^(-(dt + w)/M), hence
 * dt = M (1 + W0(-e^(-1 - w/M))) with Lambert's W. It is 0 without blocking.
 */
double goodput_best_interval_s(double mttf_s, double blocked_s);

/**
 * Return the share of time in which more servers are in repair than there are spares. Servers in repair are Poisson
 * with this mean, by the law of the queue M/G/infinity.
 */
double goodput_waiting_share(double mean_in_repair, int64_t spares);

/** The training on a cluster whose goodput is asked. A server is what fails and is repaired: a node of the platform. */
struct goodput_setting {
    const struct reliability *reliability;
    int64_t n_servers, gpus_per_server; /* both at least 1; n_servers does not count spares */
    double parameters;                  /* of the whole model */
    double pcie_bytes_per_s;            /* of a GPU, towards the host */
};

/** Causes of lost time. */
enum goodput_loss {
    GOODPUT_BLOCKED, /* checkpoints that block training */
    GOODPUT_WORK,    /* work since the last checkpoint, done again */
    GOODPUT_RESTART, /* detection, replacement, start, load */
    GOODPUT_SPARES,  /* waiting for a server, since all spares are in repair */
    GOODPUT_SLOW,    /* steps beside a slow GPU */
    GOODPUT_N_LOSSES
};

/** Names of the losses for tables. */
extern const char *const goodput_loss_name[GOODPUT_N_LOSSES];

struct goodput {
    int64_t spares;                      /* servers beside those that train */
    struct renewal renewal;              /* with `auto` resolved */
    double ettr;                         /* share of time that trains at full speed, 0..1 */
    double lost_share[GOODPUT_N_LOSSES]; /* of all time; they add up to 1 - ettr but for rounding */
};

/**
 * Return the times that the settings give.
 * 1. bytes = parameters x bytes_per_parameter; save = bytes / storage bandwidth.
 * 2. `auto` of blocked is the barrier and the copy of a GPU's equal share by PCIe.
 * 3. `auto` of load is the save's time, since storage reads as fast as it writes.
 * 4. `auto` of the interval is goodput_best_interval_s. The interval is at least the save's time.
 */
struct renewal goodput_renewal(const struct goodput_setting *setting);

/** Return the number of spare servers. `auto` is the most that are worth having: the smallest one whose
 * goodput_waiting_share is at most 0.1%. It is at most RELIABILITY_MOST_SPARES. */
int64_t goodput_spares(const struct goodput_setting *setting);

/**
 * Return the goodput of a training in closed form.
 * 1. Times between failures are exponential, whatever weibull_shape says.
 * 2. Training stops while more servers are in repair than there are spares (goodput_waiting_share). The exact form
 * divides the rest of the time.
 * 3. While a GPU is slow, steps take slow_factor times as long.
 */
struct goodput goodput_of(const struct goodput_setting *setting);

#endif
