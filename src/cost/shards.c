/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cost/shards.h"

#include <math.h>

#include "base/check.h"
#include "cost/communication.h"
#include "cost/overlap.h"
#include "cost/states.h"

/** Collectives of some parameters: their seconds, the bytes that a rank sends, and whether the reductions run beside
 * kernels. Reductions are a reduce-scatter or all-reduce in each group, then an all-reduce across groups. */
struct traffic {
    double gather_s, scatter_s, across_s, bytes;
    double copy_s; /* copy of the reduced gradients to the host */
    bool reduce_hides;
};

/** Return the ranks of a group in an NVLink domain. A single group begins at the start of a domain. */
static int32_t ranks_each(const struct cost_setting *setting)
{
    int32_t n = cost_shards(setting), domain = platform_nvlink_domain(setting->platform);
    bool starts = !setting->staged || domain % (n * setting->tensor) == 0; /* each stage's group does */
    bool one_domain = cost_shard_groups(setting) == 1 && n * setting->tensor <= domain && starts;
    return one_domain ? n : cost_ranks_each(setting, n);
}

/** Return the largest number of a group's ranks on one node. */
static int32_t most_each(const struct cost_setting *setting)
{
    int32_t n = cost_shards(setting), each = ranks_each(setting),
            fit = platform_nvlink_domain(setting->platform) / setting->tensor;
    return each == n || n < fit ? n : fit;
}

/** Return the extent of each group's ranks. */
static enum overlap_extent extent_of_group(const struct cost_setting *setting)
{
    return ranks_each(setting) == cost_shards(setting) ? OVERLAP_IN_DOMAIN : OVERLAP_OVER_DOMAINS;
}

/** Return the extent of all groups' ranks, if there are several groups. */
static enum overlap_extent extent_of_all(const struct cost_setting *setting)
{
    bool node = cost_shards(setting) * cost_shard_groups(setting) * setting->tensor <=
                platform_nvlink_domain(setting->platform);
    return node ? OVERLAP_IN_DOMAIN : OVERLAP_OVER_DOMAINS;
}

/** Return the time until kernels and collectives that started together have all ended. The collectives of a group
 * run first, then those across groups. A single group has none across. */
static double beside_s(const struct cost_setting *setting, struct overlap_kernels kernels, double group_s,
                       double across_s)
{
    const struct device *device = setting->device;
    double lost_s = group_s * overlap_loss(device, extent_of_group(setting), kernels) +
                    across_s * overlap_loss(device, extent_of_all(setting), kernels);
    return fmax(group_s + across_s, kernels.all_s + lost_s);
}

/** Return `setting` with the links of collectives. On demand NICs are slower, as if they carried more. `room` becomes
 * its platform. */
static struct cost_setting on_links(const struct cost_setting *setting, struct platform *room)
{
    struct cost_setting linked = *setting;
    if (setting->shards_platform != NULL)
        linked.platform = setting->shards_platform;
    if (cost_shards_on_demand(setting)) {
        *room = *linked.platform;
        room->nic_bytes_per_s /= setting->on_demand_slowdown;
        linked.platform = room;
    }
    return linked;
}

static double collective_s(const struct cost_setting *setting, enum device_collective_kind kind, double bytes,
                           double *sent_bytes)
{
    int32_t n = cost_shards(setting);
    CHECK(n >= 1);
    *sent_bytes += (kind == DEVICE_ALL_REDUCE ? 2 : 1) * bytes * (n - 1) / n;
    return cost_uneven_rails_s(setting, kind, bytes, n, ranks_each(setting), most_each(setting));
}

/** Count the groups of a shard on one node. The results are the fewest and the most over all shards and nodes. Nodes
 * are filled from the first one on. */
static void count_groups(const struct cost_setting *setting, int32_t *fewest, int32_t *most)
{
    int32_t m = cost_shard_groups(setting), n = cost_shards(setting),
            fit = platform_nvlink_domain(setting->platform) / setting->tensor;
    int32_t n_node = fit > 1 ? fit : 1;
    *fewest = m;
    *most = 0;
    for (int32_t shard = 0; shard < n; shard++)
        for (int32_t first = 0, end; first < m; first = end) {
            end = first + 1;
            while (end < m && (end * n + shard) / n_node == (first * n + shard) / n_node)
                end++;
            *fewest = end - first < *fewest ? end - first : *fewest;
            *most = end - first > *most ? end - first : *most;
        }
}

/** Return the time of the all-reduce of `parameters` gradients among groups that hold the same shards. Its ranks
 * have the distance of a group. */
static double group_reduce_s(const struct cost_setting *setting, double parameters, double *sent_bytes)
{
    int32_t m = cost_shard_groups(setting);
    if (m <= 1)
        return 0;
    double bytes = parameters * cost_precisions(setting).reduced / cost_shards(setting);
    int32_t fewest, most;
    count_groups(setting, &fewest, &most);
    *sent_bytes += 2 * bytes * (m - 1) / m;
    struct cost_setting apart = *setting;
    apart.tensor *= cost_shards(setting); /* the distance of its ranks */
    return cost_uneven_rails_s(&apart, DEVICE_ALL_REDUCE, bytes, m, fewest, most);
}

/** Return whether the pass ends with whole gradients of weights that are sharded. */
static bool reduces(const struct cost_setting *setting, enum pass pass)
{
    return (pass == PASS_BACKWARD || pass == PASS_WEIGHT) && cost_shards_in_passes(setting);
}

/** Return the bytes of each parameter in a gather; 0: the pass gathers none. If some layers have bf16, it is theirs. */
static double gathered_bytes(const struct cost_setting *setting, bool gathers, bool of_layers)
{
    if (!gathers || setting->sharding != SCENARIO_ZERO3)
        return 0;
    bool fp8 = of_layers && cost_gathers_fp8(setting) && !cost_has_gemms_in(setting, false);
    return precision_bytes(fp8 ? setting->precision : PRECISION_BF16);
}

/** @param gathered  bytes of each parameter in a gather; 0: there is none */
static struct traffic traffic_of(const struct cost_setting *setting, enum pass pass, double parameters, double gathered)
{
    struct platform room;
    const struct cost_setting linked = on_links(setting, &room);
    bool hides = setting->dp_overlap >= SCENARIO_OVERLAP_GRADIENTS;
    struct traffic traffic = {.reduce_hides = hides || setting->sharding == SCENARIO_ZERO3};
    double gradient_bytes = cost_precisions(setting).reduced;
    enum device_collective_kind reduction = cost_all_reduces(setting) ? DEVICE_ALL_REDUCE : DEVICE_REDUCE_SCATTER;
    if (gathered > 0)
        traffic.gather_s = collective_s(&linked, DEVICE_ALL_GATHER, gathered * parameters, &traffic.bytes);
    if (reduces(setting, pass)) {
        traffic.scatter_s = collective_s(&linked, reduction, gradient_bytes * parameters, &traffic.bytes);
        traffic.across_s = group_reduce_s(&linked, parameters, &traffic.bytes);
        double copied = cost_host_gradient_bytes(setting, parameters, cost_shards(setting));
        traffic.copy_s = cost_of_transfer(setting, COST_PCIE, copied, 1).duration_s;
    }
    return traffic;
}

/** Bytes that copies of a parameter move, for the whole tensor and for a rank's shard. */
struct copies {
    double whole, shard;
};

/** Return the bytes of a conversion, which reads and writes; 0 if there is none. */
static double converted_bytes(double from, double to)
{
    return from != to ? from + to : 0;
}

static struct copies copies_of_fsdp1(const struct cost_setting *setting, double gathered, bool reduces)
{
    const double half = cost_precisions(setting).weight, shard = cost_precisions(setting).shard;
    double bytes = cost_precisions(setting).gradient;
    double converted = setting->gradients == SCENARIO_FP32 ? half + bytes : 0;
    return (struct copies){.whole = reduces ? 2 * half + converted + 2 * bytes : 0,
                           .shard =
                               (gathered > 0 ? converted_bytes(shard, gathered) : 0) + (reduces ? (2 + 3) * bytes : 0)};
}

static struct copies copies_of_fsdp2(const struct cost_setting *setting, double gathered, bool reduces)
{
    const double half = cost_precisions(setting).weight, shard = cost_precisions(setting).shard;
    double bytes = cost_precisions(setting).gradient, converted = converted_bytes(bytes, shard);
    return (struct copies){.whole = 2 * gathered + (reduces ? half + bytes : 0),
                           .shard = (gathered > 0 ? converted_bytes(shard, gathered) + 2 * gathered : 0) +
                                    (reduces ? converted + 3 * shard : 0)};
}

/** Return the time of conversions and copies of whole tensors and of a rank's shards, beside the collectives. */
static double conversion_s(const struct cost_setting *setting, enum pass pass, double parameters, double gathered)
{
    if (cost_shards(setting) == 1)
        return 0;
    struct copies copies = setting->fsdp == 2 ? copies_of_fsdp2(setting, gathered, reduces(setting, pass))
                                              : copies_of_fsdp1(setting, gathered, reduces(setting, pass));
    return cost_memory_bound_s(setting->device, DEVICE_COPY,
                               (copies.whole + copies.shard / cost_shards(setting)) * parameters);
}

/** Return the time in which a layer's gathered weights become fp8, for the GEMMs of one pass. A current scale reads
 * them once more. Weights that were gathered in fp8 need the transposed copy alone. */
static double weight_casts_s(const struct cost_setting *setting, double parameters, double gathered)
{
    double half = cost_precisions(setting).weight, fp8 = precision_bytes(setting->precision);
    double amax = cost_scales_are_current(setting) ? half : 0;
    if (!cost_has_gemms_in(setting, true) || gathered <= 0)
        return 0;
    return cost_memory_bound_s(setting->device, DEVICE_COPY,
                               (gathered < half ? 2 * fp8 * (cost_fp8_copies(setting) - 1) : half + amax + fp8) *
                                   parameters);
}

/** Return the time in which whole gradients of some parameters are added up: both are read, and the sum is written. */
static double addition_s(const struct cost_setting *setting, double parameters)
{
    const struct cost_precisions bytes = cost_precisions(setting);
    return cost_memory_bound_s(setting->device, DEVICE_COPY, (bytes.activation + 2 * bytes.gradient) * parameters);
}

static double layers_s(const struct cost_pass *cost)
{
    return cost->kernels_s + cost->attention_s + cost->tensor_s + cost->expert_s;
}

void shards_gather_layers(const struct cost_setting *setting, struct cost_pass *layers)
{
    struct cost_setting room;
    double all_s = layers_s(layers), products_s = layers->product_s, n = cost_n_layers(setting), first_s = 0;
    for (int32_t i = 0; i < setting->n_runs && n > 0; i++) {
        const struct cost_setting *of_run = cost_of_one_run(setting, i, &room);
        double parameters = cost_largest_layer_parameters(of_run), gathered = gathered_bytes(of_run, true, true);
        double casts_s = weight_casts_s(of_run, parameters, gathered),
               copies_s = conversion_s(of_run, PASS_FORWARD, parameters, gathered) + casts_s;
        struct traffic one = traffic_of(of_run, PASS_FORWARD, parameters, gathered);
        struct overlap_kernels layer = {all_s / n + copies_s, products_s / n};
        first_s = i == 0 ? one.gather_s : first_s;
        layers->kernels_s += of_run->runs[0].n * copies_s;
        layers->cast_s += of_run->runs[0].n * casts_s;
        layers->shard_bytes += of_run->runs[0].n * one.bytes;
        layers->shard_s += (of_run->runs[0].n - (i == 0)) * (beside_s(setting, layer, one.gather_s, 0) - layer.all_s);
    }
    layers->shard_s += first_s;
}

void shards_gather_ends(const struct cost_setting *setting, bool first, bool last, struct cost_pass *end)
{
    double parameters = cost_ends_parameters(setting->model, setting->tensor, first, last);
    double gathered = gathered_bytes(setting, true, false);
    struct traffic ends = traffic_of(setting, PASS_FORWARD, parameters, gathered);
    end->kernels_s += conversion_s(setting, PASS_FORWARD, parameters, gathered);
    end->shard_bytes += ends.bytes;
    end->shard_s += ends.gather_s;
}

void shards_of_layers(const struct cost_setting *setting, bool first, enum pass pass, struct cost_pass *cost)
{
    int32_t layers = setting->runs[0].n;
    bool gathers = pass == PASS_FORWARD || (pass != PASS_WEIGHT && !setting->keeps_gathered);
    if (setting->staged && (pass == PASS_BACKWARD || pass == PASS_WEIGHT))
        cost->kernels_s += layers * addition_s(setting, cost_largest_layer_parameters(setting));
    if (!cost_shards_in_passes(setting) || layers == 0) /* 0: a stage that has only the embedding or the head */
        return;
    double parameters = cost_largest_layer_parameters(setting), gathered = gathered_bytes(setting, gathers, true);
    struct traffic one = traffic_of(setting, pass, parameters, gathered);
    cost->kernels_s +=
        layers * (conversion_s(setting, pass, parameters, gathered) + weight_casts_s(setting, parameters, gathered));
    cost->cast_s += layers * weight_casts_s(setting, parameters, gathered);
    double layer_s = layers_s(cost) / layers;
    struct overlap_kernels layer = {layer_s, cost->product_s / layers};
    double reduce_s = one.scatter_s + one.across_s + one.copy_s, exposed_s = one.reduce_hides ? 0 : reduce_s;
    double group_s = one.gather_s + (one.reduce_hides ? one.scatter_s : 0);
    double longer_s = beside_s(setting, layer, group_s, one.reduce_hides ? one.across_s : 0) - layer_s;
    if (one.reduce_hides && one.copy_s > 0)
        longer_s = fmax(longer_s, one.gather_s + reduce_s - layer_s);
    double ends_s = (pass == PASS_FORWARD ? one.gather_s : 0) + (one.reduce_hides ? reduce_s : 0);
    cost->shard_bytes += layers * one.bytes;
    double launches = layers * 2 * ((one.gather_s > 0) + (one.scatter_s > 0)); /* a copy each */
    cost->host_s += launches * setting->host.layer_kernel.host_s;
    cost->blocked_s += launches * setting->host.layer_kernel.blocked_s;
    cost->shard_s += layers * exposed_s + (layers - first) * longer_s + (first ? ends_s : 0);
}

void shards_of_tables(const struct cost_setting *setting, enum pass pass, struct cost_pass *cost)
{
    if (setting->staged && (pass == PASS_BACKWARD || pass == PASS_WEIGHT))
        cost->kernels_s += addition_s(setting, cost_ends_parameters(setting->model, setting->tensor, false, true));
    if (!cost_shards_in_passes(setting))
        return;
    double all = cost_ends_parameters(setting->model, setting->tensor, true, true);
    double gathered = gathered_bytes(setting, pass == PASS_FORWARD, false);
    struct traffic root = traffic_of(setting, pass, all, gathered);
    struct overlap_kernels head = {cost->kernels_s + cost->tensor_s, cost->product_s};
    cost->kernels_s += conversion_s(setting, pass, all, gathered);
    cost->shard_bytes += root.bytes;
    cost->shard_s += root.gather_s + root.scatter_s + root.across_s + root.copy_s;
    if (pass == PASS_FORWARD || pass == PASS_WEIGHT || setting->keeps_gathered)
        return;
    double first_s =
        traffic_of(setting, PASS_FORWARD, cost_largest_layer_parameters(setting), gathered_bytes(setting, true, true))
            .gather_s;
    cost->shard_s += beside_s(setting, head, first_s, 0) - head.all_s;
}

/** Add the bytes of a collective in each group. */
static void add_group_bytes(const struct cost_setting *setting, enum device_collective_kind kind, double bytes,
                            struct shards_traffic *traffic)
{
    int32_t n = cost_shards(setting);
    traffic->inside_bytes += cost_of_rails(setting, kind, COST_NVLINK, bytes, n, traffic->each).wire_bytes;
    double more = cost_shards_on_demand(setting) ? setting->on_demand_slowdown : 1;
    traffic->rail_bytes += more * cost_of_rails(setting, kind, COST_NIC, bytes, n, traffic->each).wire_bytes;
}

/** Add the bytes of the all-reduce of `parameters` gradients among groups. */
static void add_replica_bytes(const struct cost_setting *setting, double parameters, struct shards_traffic *traffic)
{
    int32_t m = cost_shard_groups(setting), n = cost_shards(setting), fewest, most;
    if (m <= 1)
        return;
    double bytes = parameters * cost_precisions(setting).reduced / n;
    struct cost_setting apart = *setting;
    apart.tensor *= n;
    count_groups(setting, &fewest, &most);
    traffic->inside_bytes += cost_of_rails(&apart, DEVICE_ALL_REDUCE, COST_NVLINK, bytes, m, fewest).wire_bytes;
    traffic->replica_bytes += cost_of_rails(&apart, DEVICE_ALL_REDUCE, COST_NIC, bytes, m, fewest).wire_bytes;
}

/** Add `n` units of parameters that are gathered and reduced at once. */
static void add_units(const struct cost_setting *setting, enum pass pass, double parameters, int32_t n, double gathered,
                      struct shards_traffic *traffic)
{
    struct traffic one = traffic_of(setting, pass, parameters, gathered);
    struct shards_traffic more = {.each = traffic->each};
    traffic->all_s += n * (one.gather_s + one.scatter_s + one.across_s + one.copy_s);
    traffic->hides = one.reduce_hides;
    if (gathered > 0)
        add_group_bytes(setting, DEVICE_ALL_GATHER, gathered * parameters, &more);
    if (reduces(setting, pass)) {
        add_group_bytes(setting, cost_all_reduces(setting) ? DEVICE_ALL_REDUCE : DEVICE_REDUCE_SCATTER,
                        cost_precisions(setting).reduced * parameters, &more);
        add_replica_bytes(setting, parameters, &more);
    }
    traffic->inside_bytes += n * more.inside_bytes;
    traffic->rail_bytes += n * more.rail_bytes;
    traffic->replica_bytes += n * more.replica_bytes;
}

struct shards_traffic shards_traffic_of(const struct cost_setting *setting, enum pass pass)
{
    struct shards_traffic traffic = {.each = ranks_each(setting)};
    struct cost_setting room;
    bool gathers = pass == PASS_FORWARD || (pass != PASS_WEIGHT && !setting->keeps_gathered);
    for (int32_t i = 0; i < setting->n_runs; i++) {
        const struct cost_setting *of_run = cost_of_one_run(setting, i, &room);
        add_units(of_run, pass, cost_largest_layer_parameters(of_run), of_run->runs[0].n,
                  gathered_bytes(of_run, gathers, true), &traffic);
    }
    add_units(setting, pass, cost_ends_parameters(setting->model, setting->tensor, true, true), 1,
              gathered_bytes(setting, pass == PASS_FORWARD, false), &traffic);
    return traffic;
}
