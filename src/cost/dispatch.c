/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cost/dispatch.h"

#include <math.h>

#include "base/check.h"
#include "cost/communication.h"

/** Return how many of `n` places hold one of k of `items` on average. Each place has items / n, and the k differ. */
static double places(double n, double items, double k)
{
    double others = items - items / n;
    if (k > others)
        return n;
    return n * (1 - exp(lgamma(others + 1) - lgamma(others - k + 1) - lgamma(items + 1) + lgamma(items - k + 1)));
}

/** Return how many of `n` ranks or domains hold an expert of a token. Its experts are in `top_groups` of equal groups.
 * A group is in one place, or on n / groups places. */
static double reached(const struct model *model, const struct model_kind *kind, double n)
{
    double k = (double)kind->top_k, experts = (double)kind->experts;
    double groups = (double)model->router_groups, most = (double)model->top_groups;
    if (groups <= 1 || most >= groups)
        return places(n, experts, k);
    double chosen = places(most, most * experts / groups, k);
    return n <= groups ? places(n, groups, chosen) : chosen * places(n / groups, experts / groups, k / chosen);
}

/** Return what DeepEP's kernels or their like take. A rank's tokens are `bytes`, at the busiest rank's load. */
static struct cost_dispatch by_token(const struct cost_setting *apart, const struct model_kind *kind, double bytes,
                                     enum cost_way way, int32_t n)
{
    const struct device_experts *curve = &apart->device->experts;
    const struct device_dispatch *of = &curve->deepep[way], *hybrid = &curve->hybrid_ep[way];
    bool is_hybrid = apart->dispatcher == SCENARIO_DISPATCH_HYBRID_EP;
    int32_t each = cost_ranks_each(apart, n);
    double nvlink_bytes_per_s =
        cost_inside_bytes_per_s(apart->platform, true, (struct cost_group){each, apart->tensor});
    double inside = bytes * reached(apart->model, kind, n) * (each - 1) / each;
    if (each == n && is_hybrid && hybrid->nvlink > 0)
        of = hybrid;
    if (each == n)
        return (struct cost_dispatch){.seconds = of->latency_s + inside / (of->nvlink * nvlink_bytes_per_s),
                                      .sent_bytes = inside};
    double domains = (double)n / each, away = bytes * reached(apart->model, kind, domains) * (domains - 1) / domains;
    double share = is_hybrid ? curve->hybrid_ep_nic : curve->deepep_nic;
    double nic_s = away / (share * cost_nic_bytes_per_s(apart, apart->tensor * each));
    return (struct cost_dispatch){.seconds =
                                      of->nodes_latency_s + fmax(nic_s, inside / (of->forward * nvlink_bytes_per_s)),
                                  .sent_bytes = inside + away,
                                  .nic_bytes = away / share};
}

/** Return a gather of all ranks' tokens, or the reduce-scatter of their results. */
static struct cost_dispatch by_gather(const struct cost_setting *apart, double bytes, enum cost_way way, int32_t n)
{
    enum device_collective_kind kind = way == COST_TO_EXPERTS ? DEVICE_ALL_GATHER : DEVICE_REDUCE_SCATTER;
    int32_t each = cost_ranks_each(apart, n);
    return (struct cost_dispatch){.seconds = cost_rails_s(apart, kind, bytes * n, n, each),
                                  .sent_bytes = bytes * (n - 1),
                                  .nic_bytes = cost_of_rails(apart, kind, COST_NIC, bytes * n, n, each).wire_bytes};
}

struct cost_dispatch cost_dispatch_of(const struct cost_setting *setting, int32_t kind, double tokens,
                                      enum cost_way way)
{
    const struct model_kind *of = &setting->model->kinds[kind];
    int32_t n = cost_ep(setting), split = cost_expert_tensor(setting);
    struct cost_dispatch cost = {0};
    double element = way == COST_TO_EXPERTS ? cost_dispatched_bytes(setting, kind) : cost_precisions(setting).wire;
    double bytes = tokens * cost_sequence_width(setting) * element;
    double copies = (double)of->top_k * cost_expert_load(setting);
    if (of->experts == 0 || bytes <= 0)
        return cost;
    struct cost_setting apart = *setting;
    apart.tensor = split; /* other ranks that share experts are neighbours */
    if (n > 1 && setting->dispatcher == SCENARIO_DISPATCH_ALL_GATHER) {
        cost = by_gather(&apart, bytes, way, n);
    } else if (n > 1 && setting->dispatcher != SCENARIO_DISPATCH_ALL_TO_ALL) {
        cost = by_token(&apart, of, bytes * cost_expert_load(setting), way, n);
    } else if (n > 1) {
        cost.sent_bytes = bytes * copies * (n - 1) / n;
        cost.seconds = cost_all_to_all_s(&apart, cost.sent_bytes, n, &cost.nic_bytes);
    }
    double gathered = bytes * copies * split; /* of all ranks that split an expert */
    cost.sent_bytes += gathered * (split - 1) / split;
    cost.seconds +=
        cost_collective_s(setting, way == COST_TO_EXPERTS ? DEVICE_ALL_GATHER : DEVICE_REDUCE_SCATTER, gathered, split);
    return cost;
}

struct cost_dispatch cost_dispatch_both(const struct cost_setting *setting, int32_t kind, double tokens)
{
    struct cost_dispatch to = cost_dispatch_of(setting, kind, tokens, COST_TO_EXPERTS);
    const struct cost_dispatch from = cost_dispatch_of(setting, kind, tokens, COST_FROM_EXPERTS);
    to.seconds += from.seconds;
    to.sent_bytes += from.sent_bytes;
    to.nic_bytes += from.nic_bytes;
    return to;
}
