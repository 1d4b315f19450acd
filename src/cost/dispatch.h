/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This file has the cost of bringing tokens to the ranks of their experts and back. */
#ifndef SLIMSIM_COST_DISPATCH_H
#define SLIMSIM_COST_DISPATCH_H

#include "cost/setting.h"

/** Ways of tokens between their ranks and their experts. */
enum cost_way { COST_TO_EXPERTS, COST_FROM_EXPERTS, COST_N_WAYS };

/** One way of a layer's tokens. Bytes are those that a rank sends to others. */
struct cost_dispatch {
    double seconds, sent_bytes;
    double nic_bytes; /* of them through the rank's NIC, over its efficiency */
};

/**
 * Return the cost of one way of `tokens` tokens of a TP group, in a layer with experts.
 *
 * T tokens of a rank are T h b bytes, b bytes an element: 2, or 1 and scales on the way to experts in fp8. n ranks
 * share experts (EP), on N NVLink domains. A token has k experts.
 * 1. all-to-all: a token goes to each of its experts: T k h b f (n - 1)/n. f is the load of the busiest rank
 *    (cost_expert_load).
 * 2. all-gather: every rank receives all tokens, T h b (n - 1), and sends sums back by a reduce-scatter.
 * 3. deepep: a token goes once to each of the m ranks that have its experts: T h b f m (n - 1)/n. On several domains it
 *    goes once to each of M domains by NIC, T h b f M (N - 1)/N, and on from there by NVLink. m and M are
 *    means over balanced routing. A token's k experts differ, and limits on its groups of experts lower m and M.
 * 4. hybrid-ep: as deepep, at another rate of NICs.
 * 5. If several TP ranks split each expert (etp), they gather each other's tokens there, and reduce-scatter results.
 * 6. A layer without experts, or n = 1 and etp = 1, costs nothing.
 *
 * Source: docs/model/costs.md, Experts.
 */
struct cost_dispatch cost_dispatch_of(const struct cost_setting *setting, int32_t kind, double tokens,
                                      enum cost_way way);

/** Return both ways, one after the other. A forward has them, and a backward has them again. */
struct cost_dispatch cost_dispatch_both(const struct cost_setting *setting, int32_t kind, double tokens);

#endif
