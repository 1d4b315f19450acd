/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests count the traffic of sharded parameters and gradients by hand. */
#include "cost/shards.h"
#include "cost/states.h"
#include "hand_cost.h"
#include "harness.h"

/* Four TP groups of 2 fill a node of 8. Blocks of three of them, one after the other, leave some block with one on a
 * node. Blocks of six leave one with two. A single node has all. */
TEST(shard_group__goes_by_its_fewest_ranks_on_a_node)
{
    static const struct {
        int32_t nodes, ranks, each;
    } cases[] = {{3, 3, 1}, {3, 6, 2}, {3, 2, 2}, {3, 4, 4}, {3, 12, 4}, {1, 3, 3}};
    struct device device = hand_device;
    struct platform platform = hand_links;
    struct scenario_plan plan = hand_toy_plan;
    struct cost_setting setting = hand_toy_setting_of(&plan);
    const struct slice slice = {0, 0, 48};
    device.fabric.efficiency = 0.5;
    device.ring[DEVICE_SIMPLE] = (struct device_ring){3, 1, 2, 1, 1};
    platform.gpus_per_node = platform.nvlink_domain = 8;
    setting.device = &device;
    setting.platform = &platform;
    setting.cp_type = SCENARIO_ALL_GATHER;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int32_t ranks = cases[i].ranks;
        const struct cost_micro_batch micro_batch = {.slices = &slice, .n_slices = 1, .context = ranks},
                                      empty = {.context = ranks};
        platform.n_nodes = cases[i].nodes;
        setting.sharding = SCENARIO_ZERO1;
        double bytes = 48 * cost_kv_bytes(&setting, 0);
        CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &micro_batch).context_s,
                    3 * cost_rails_s(&setting, DEVICE_ALL_GATHER, bytes, ranks, cases[i].each), 1e-14);
        setting.sharding = SCENARIO_ZERO3;
        setting.ranks = 2 * ranks; /* two groups */
        setting.shard_group = ranks;
        double gather_s = cost_rails_s(&setting, DEVICE_ALL_GATHER, 160, ranks, cases[i].each);
        device.hbm_bytes_per_s = 1e30; /* nothing to hide under */
        CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &empty).shard_s, 3 * gather_s, 1e-14);
        struct platform slow = platform; /* on demand NICs are slower, NVLink is not */
        struct cost_setting slower = setting;
        slow.nic_bytes_per_s /= 3.5;
        slower.platform = &slow;
        setting.on_demand_slowdown = 3.5;
        double slow_s = cost_rails_s(&slower, DEVICE_ALL_GATHER, 160, ranks, cases[i].each);
        CHECK_TRUE(cases[i].each == ranks ? slow_s == gather_s : slow_s > gather_s);
        CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &empty).shard_s, 3 * slow_s, 1e-14);
        setting.on_demand_slowdown = 0;
        device.hbm_bytes_per_s = hand_device.hbm_bytes_per_s;
    }
}

/* TP is 2 on nodes of 8, so 4 shards are on one node, and each sends 3/4. A layer has 80 parameters. In bf16 their
 * gather takes g = 1 + 120/10 = 13 s. Gradients in fp32 take r = 1 + 24 s. Layers and the head take longer than both.
 * So only the first gather of the forward and the last reduce-scatter show. 80 parameters move at 2 s a byte. Forward
 * moves 4 + 2 bytes of the shard. Backward moves of the whole gradient 2 + 2 (joined), 2 + 4 (converted; bf16 none) and
 * 2 x 4 (divided; bf16 2 x 2). It moves of the shard 4 + 2 again, but not with zero2, and 5 x 4 (divided, added; bf16 5
 * x 2). Embedding and head have 68 parameters: 102 B or 204 B and 1 s, exposed. With a head in no time the backward's
 * first gather shows, too, whatever the root's gradients then move. With zero2 everything that does not overlap is
 * exposed. There an all-reduce sends twice as much, and fp32 on the wire twice as much as bf16. */
TEST(zero3__gathers_parameters_and_reduces_gradients_in_every_pass)
{
    struct platform nodes = hand_links;
    struct device device = hand_device;
    nodes.gpus_per_node = nodes.nvlink_domain = 8;
    struct scenario_plan plan = hand_toy_plan;
    struct cost_setting setting = hand_toy_setting_of(&plan);
    struct cost_micro_batch micro_batch = hand_toy_micro_batch(RECOMPUTE_NONE), empty = {.context = 2};
    setting.device = &device;
    setting.platform = &nodes;
    setting.ranks = 4;
    setting.sharding = SCENARIO_ZERO3;
    CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &micro_batch).shard_s, 13.0, 1e-14);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &micro_batch).shard_bytes, 3 * 120.0, 1e-14);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &empty).kernels_s, 3 * 80 * 6 / 4.0 * 2, 1e-14);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &micro_batch).shard_s, 25.0, 1e-14);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &micro_batch).shard_bytes, 3 * (120 + 240.0), 1e-14);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &empty).shard_s, 25.0, 1e-14);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &empty).kernels_s, 3 * 80 * (18 + 26 / 4.0) * 2, 1e-14);
    CHECK_CLOSE(cost_of_head(&setting, PASS_FORWARD, &micro_batch).shard_s, 1 + 10.2, 1e-14);
    CHECK_CLOSE(cost_of_head(&setting, PASS_BACKWARD, &micro_batch).shard_s, 1 + 20.4, 1e-14);
    CHECK_CLOSE(cost_of_head(&setting, PASS_BACKWARD, &micro_batch).shard_bytes, 68 * 4 * 0.75, 1e-14);
    CHECK_CLOSE(cost_of_head(&setting, PASS_BACKWARD, &empty).shard_s, 1 + 20.4 + 13, 1e-14);
    setting.gradients = SCENARIO_BF16;
    setting.sharding = SCENARIO_ZERO2;
    setting.dp_overlap = SCENARIO_OVERLAP_GRADIENTS;
    CHECK_TRUE(cost_of_pass(&setting, PASS_FORWARD, &micro_batch).shard_s == 0);
    CHECK_TRUE(cost_of_head(&setting, PASS_FORWARD, &micro_batch).shard_bytes == 0);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &micro_batch).shard_s, 13.0, 1e-14);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &empty).kernels_s, 3 * 80 * (8 + 10 / 4.0) * 2, 1e-14);
    setting.dp_overlap = SCENARIO_OVERLAP_NONE;
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &micro_batch).shard_s, 3 * 13.0, 1e-14);
    device.collective[DEVICE_ALL_REDUCE] = device.collective[DEVICE_REDUCE_SCATTER];
    setting.gradient_reduction = SCENARIO_ALL_REDUCE;
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &micro_batch).shard_s, 3 * 25.0, 1e-14);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &micro_batch).shard_bytes, 3 * 240.0, 1e-14);
    setting.reduce_precision = SCENARIO_REDUCE_FP32;
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &micro_batch).shard_s, 3 * 49.0, 1e-14);
    setting.gradient_reduction = SCENARIO_REDUCE_SCATTER;
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &micro_batch).shard_s, 3 * 25.0, 1e-14);
    setting.reduce_precision = SCENARIO_REDUCE_SAME;
    device.hbm_bytes_per_s = 1e30; /* nothing to hide under */
    setting.dp_overlap = SCENARIO_OVERLAP_BOTH;
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &empty).shard_s, 3 * 13.0, 1e-14);
    setting.sharding = SCENARIO_ZERO3;
    CHECK_CLOSE(cost_of_head(&setting, PASS_BACKWARD, &empty).shard_s, 1 + 10.2 + 13, 1e-14);
    setting.ranks = 1;
    CHECK_TRUE(cost_of_pass(&setting, PASS_BACKWARD, &empty).shard_s == 0);
}

/* FSDP2 counts the same layers. Forward the whole tensor is copied out, 2 + 2. 4 + 2 of the shard are converted and
 * 2 + 2 copied in. Backward runs both again. It joins gradients as fp32, 2 + 4, and adds 3 x 4 of the shard. bf16 joins
 * 2 + 2 and converts the shard, 2 + 4, before it is added. zero2 gathers nothing. Collectives are FSDP1's. The root is
 * gathered forward and reduced backward. With bf16 the optimizer has no gradient to convert: 40 bytes of a share of 10.
 * */
TEST(fsdp2__copies_in_and_out)
{
    struct platform nodes = hand_links;
    nodes.gpus_per_node = nodes.nvlink_domain = 8;
    struct cost_setting setting = hand_toy_setting(), first;
    const struct cost_micro_batch empty = {.context = 2};
    setting.platform = &nodes;
    setting.ranks = 4;
    setting.sharding = SCENARIO_ZERO3;
    first = setting;
    setting.fsdp = 2;
    CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &empty).kernels_s, 3 * 80 * (4 + 10 / 4.0) * 2, 1e-14);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &empty).kernels_s, 3 * 80 * (10 + 22 / 4.0) * 2, 1e-14);
    CHECK_CLOSE(cost_of_head(&setting, PASS_FORWARD, &empty).kernels_s, 68 * (4 + 10 / 4.0) * 2, 1e-14);
    CHECK_CLOSE(cost_of_head(&setting, PASS_BACKWARD, &empty).kernels_s, 68 * (6 + 12 / 4.0) * 2, 1e-14);
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++)
        CHECK_CLOSE(cost_of_pass(&setting, pass, &empty).shard_bytes, cost_of_pass(&first, pass, &empty).shard_bytes,
                    1e-15);
    setting.gradients = SCENARIO_BF16;
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &empty).kernels_s, 3 * 80 * (8 + 28 / 4.0) * 2, 1e-14);
    CHECK_CLOSE(cost_optimizer_s(&setting, 40, 4), 2 * 10 * 40.0, 1e-14);
    setting.sharding = SCENARIO_ZERO2;
    CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &empty).kernels_s, 0, 1e-14);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &empty).kernels_s, 3 * 80 * (4 + 18 / 4.0) * 2, 1e-14);
}

/* A gather of 13 s, or a gather and a reduction of 25 s, hold a quarter of four multiprocessors. Kernels take 4/3 as
 * long beside it. Persistent GEMMs take twice as long: two rounds on three multiprocessors. This shows for two of three
 * layers: behind the first gather, before the last reduction. */
TEST(shards__slow_the_kernels_beside_their_collectives)
{
    struct platform nodes = hand_links;
    struct device device = hand_device;
    nodes.gpus_per_node = nodes.nvlink_domain = 8;
    device.multiprocessors = 4;
    device.training.node_multiprocessors = 1;
    struct scenario_plan plan = hand_toy_plan;
    struct cost_setting setting = hand_toy_setting_of(&plan);
    struct cost_micro_batch micro_batch = hand_toy_micro_batch(RECOMPUTE_NONE);
    setting.device = &device;
    setting.platform = &nodes;
    setting.ranks = 4;
    setting.sharding = SCENARIO_ZERO3;
    const double alone_s[] = {13, 25}, beside_s[] = {13, 13 + 25};
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
        device.training.persistent_gemms = false;
        struct cost_pass cost = cost_of_pass(&setting, pass, &micro_batch);
        double all_s = cost.kernels_s + cost.attention_s + cost.tensor_s;
        double slower_s = 2 * cost.product_s + 4.0 / 3 * (all_s - cost.product_s);
        CHECK_TRUE(cost.product_s > 0 && cost.product_s < all_s && all_s > 100 * beside_s[pass]);
        CHECK_CLOSE(cost.shard_s, alone_s[pass] + 2 * beside_s[pass] / 4, 1e-9);
        device.training.persistent_gemms = true;
        cost = cost_of_pass(&setting, pass, &micro_batch);
        CHECK_CLOSE(cost.shard_s, alone_s[pass] + 2 * beside_s[pass] * (1 - all_s / slower_s), 1e-9);
    }
}

/* There are two groups of 4 shards on a node each, with TP 2. Gathers and reduce-scatters hold a quarter of the
 * multiprocessors, the all-reduces over nodes half. Two of three layers run beside a gather. Backward two run beside a
 * gather and a reduction: behind the first gather, before the last reduction. Some groups of 3 are over nodes. */
TEST(shard_group__holds_the_channels_of_a_node_inside_it)
{
    struct platform nodes = hand_links;
    struct device device = hand_device;
    nodes.gpus_per_node = nodes.nvlink_domain = 8;
    device.multiprocessors = 4;
    device.training.node_multiprocessors = 1;
    device.training.collective_multiprocessors = 2;
    device.fabric = (struct device_fabric){.latency_s = 3, .efficiency = 0.5};
    struct scenario_plan plan = hand_toy_plan;
    struct cost_setting setting = hand_toy_setting_of(&plan);
    struct cost_micro_batch micro_batch = hand_toy_micro_batch(RECOMPUTE_NONE);
    setting.device = &device;
    setting.platform = &nodes;
    setting.ranks = 8; /* two groups */
    setting.shard_group = 4;
    setting.sharding = SCENARIO_ZERO3;
    double gather_s = cost_rails_s(&setting, DEVICE_ALL_GATHER, 160, 4, 4);
    double scatter_s = cost_rails_s(&setting, DEVICE_REDUCE_SCATTER, 320, 4, 4);
    double across_s = cost_rails_s(&setting, DEVICE_ALL_REDUCE, 80, 2, 1);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &micro_batch).shard_s, gather_s + 2 * gather_s / 4, 1e-9);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &micro_batch).shard_s,
                scatter_s + across_s + 2 * ((gather_s + scatter_s) / 4 + across_s / 2), 1e-9);
    setting.ranks = 6;
    setting.shard_group = 3;
    device.ring[DEVICE_SIMPLE] = (struct device_ring){3, 1, 2, 1, 1};
    nodes.n_nodes = 2;
    gather_s = cost_rails_s(&setting, DEVICE_ALL_GATHER, 160, 3, 1);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &micro_batch).shard_s, gather_s + 2 * gather_s / 2, 1e-9);
}

/* In HSDP two groups of 4 shards are each on their node of 8 GPUs with TP 2. A layer's 80 parameters are gathered and
 * their fp32 gradients scattered inside the group. Then a rank all-reduces its quarter of them, 80 bytes, with its
 * counterpart on the other node. Half of them is sent for the reduction, half for the gather. */
TEST(shard_group__reduces_gradients_between_groups)
{
    struct platform nodes = hand_links;
    nodes.gpus_per_node = nodes.nvlink_domain = 8;
    struct device device = hand_device;
    device.hbm_bytes_per_s = 1e30; /* nothing to hide under */
    device.fabric =
        (struct device_fabric){.latency_s = 3, .hop_s = 1, .efficiency = 0.5, .ramp_bytes = 16, .ramp_hop = 1};
    struct scenario_plan plan = hand_toy_plan;
    struct cost_setting setting = hand_toy_setting_of(&plan);
    struct cost_micro_batch empty = {.context = 2};
    setting.device = &device;
    setting.platform = &nodes;
    setting.ranks = 8; /* two groups */
    setting.shard_group = 4;
    setting.sharding = SCENARIO_ZERO3;
    double gather_s = cost_rails_s(&setting, DEVICE_ALL_GATHER, 160, 4, 4);
    double scatter_s = cost_rails_s(&setting, DEVICE_REDUCE_SCATTER, 320, 4, 4);
    double across_s = cost_rails_s(&setting, DEVICE_ALL_REDUCE, 80, 2, 1);
    CHECK_TRUE(across_s > 0);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &empty).shard_s, 2 * gather_s + 3 * (scatter_s + across_s),
                1e-14);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &empty).shard_bytes, 3 * (120 + 240 + 80.0), 1e-14);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &empty).shard_s, 3 * gather_s, 1e-14);
    setting.shard_group = 2; /* four groups on two nodes, two on each: their rings share NICs and NVLink */
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &empty).shard_bytes, 3 * (80 + 160 + 2 * 160 * 0.75), 1e-14);
    across_s = cost_rails_s(&setting, DEVICE_ALL_REDUCE, 160, 4, 2);
    gather_s = cost_rails_s(&setting, DEVICE_ALL_GATHER, 160, 2, 2);
    scatter_s = cost_rails_s(&setting, DEVICE_REDUCE_SCATTER, 320, 2, 2);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &empty).shard_s, 2 * gather_s + 3 * (scatter_s + across_s),
                1e-14);
    nodes.gpus_per_node = nodes.nvlink_domain =
        16; /* six groups, four on one node, two on the other: by the NICs of two */
    setting.ranks = 12;
    across_s = cost_uneven_rails_s(&setting, DEVICE_ALL_REDUCE, 160, 6, 2, 4);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &empty).shard_s, 2 * gather_s + 3 * (scatter_s + across_s),
                1e-14);
    setting.shard_group =
        3; /* three of groups 0-2, 3-5, 6-8, 9-11 begin on the first node, 8 is on the other with 11 */
    gather_s = cost_rails_s(&setting, DEVICE_ALL_GATHER, 160, 3, 1);
    scatter_s = cost_rails_s(&setting, DEVICE_REDUCE_SCATTER, 320, 3, 1);
    across_s = cost_rails_s(&setting, DEVICE_ALL_REDUCE, 320.0 / 3, 4, 1);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &empty).shard_s, 2 * gather_s + 3 * (scatter_s + across_s),
                1e-14);
    setting.ranks = 24; /* eight groups: of each shard three, three and two on three nodes, in some order */
    across_s = cost_uneven_rails_s(&setting, DEVICE_ALL_REDUCE, 320.0 / 3, 8, 2, 3);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &empty).shard_s, 2 * gather_s + 3 * (scatter_s + across_s),
                1e-14);
}

/* The same layers on a stage of FSDP2, in 4 shards. Backwards add bf16 gradients to whole ones: 2 + 2 x 4 bytes, 2 + 2
 * x 2 for sums in bf16. They gather nothing and reduce nothing. A pass that finds sharded layers gathers them as
 * zero3's forward does, and copies 4 whole and 10 of the shard. A layer's 13 s show once, or for each layer with
 * nothing to hide them. The embedding's 32 parameters take 1 + 4.8 s, norm and head with 36 take 1 + 5.4 s. */
TEST(staged__gathers_apart_and_adds_whole_gradients)
{
    struct platform nodes = hand_links;
    struct device device = hand_device;
    nodes.gpus_per_node = nodes.nvlink_domain = 8;
    struct cost_setting setting = hand_toy_setting();
    struct cost_micro_batch micro_batch = hand_toy_micro_batch(RECOMPUTE_NONE), empty = {.context = 2};
    setting.platform = &nodes;
    setting.device = &device;
    setting.ranks = 4;
    setting.fsdp = 2;
    setting.sharding = SCENARIO_ZERO3;
    setting.staged = setting.keeps_gathered = true;
    CHECK_TRUE(cost_of_pass(&setting, PASS_FORWARD, &empty).kernels_s == 0);
    CHECK_TRUE(cost_of_pass(&setting, PASS_BACKWARD, &micro_batch).shard_s == 0);
    CHECK_TRUE(cost_of_pass(&setting, PASS_BACKWARD, &micro_batch).shard_bytes == 0);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &empty).kernels_s, 3 * 80 * 10 * 2, 1e-14);
    CHECK_CLOSE(cost_of_head(&setting, PASS_BACKWARD, &empty).kernels_s, 36 * 10 * 2, 1e-14);
    CHECK_TRUE(cost_of_head(&setting, PASS_FORWARD, &empty).shard_s == 0);
    struct cost_pass layers = cost_of_pass(&setting, PASS_FORWARD, &micro_batch), first = {0}, last = {0}, none = {0};
    double kernels_s = layers.kernels_s;
    shards_gather_layers(&setting, &layers);
    CHECK_CLOSE(layers.shard_s, 13.0, 1e-14);
    CHECK_CLOSE(layers.shard_bytes, 3 * 120.0, 1e-14);
    CHECK_CLOSE(layers.kernels_s, kernels_s + 3 * 80 * (4 + 10 / 4.0) * 2, 1e-14);
    shards_gather_ends(&setting, true, false, &first);
    shards_gather_ends(&setting, false, true, &last);
    CHECK_CLOSE(first.shard_s, 5.8, 1e-14);
    CHECK_CLOSE(last.shard_s, 6.4, 1e-14);
    CHECK_CLOSE(last.kernels_s, 36 * (4 + 10 / 4.0) * 2, 1e-14);
    setting.gradients = SCENARIO_BF16;
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &empty).kernels_s, 3 * 80 * 6 * 2, 1e-14);
    device.hbm_bytes_per_s = 1e30;
    shards_gather_layers(&setting, &none);
    CHECK_CLOSE(none.shard_s, 3 * 13.0, 1e-14);
}

/* With one stage whose forward frees nothing the backward only reduces, 1 + 24 s for the last layer. */
TEST(reshard_after_forward__never_gathers_once)
{
    struct platform nodes = hand_links;
    nodes.gpus_per_node = nodes.nvlink_domain = 8;
    struct cost_setting setting = hand_toy_setting();
    struct cost_micro_batch micro_batch = hand_toy_micro_batch(RECOMPUTE_NONE), empty = {.context = 2};
    setting.platform = &nodes;
    setting.ranks = 4;
    setting.sharding = SCENARIO_ZERO3;
    setting.keeps_gathered = true;
    CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &micro_batch).shard_s, 13.0, 1e-14);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &micro_batch).shard_s, 25.0, 1e-14);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &micro_batch).shard_bytes, 3 * 240.0, 1e-14);
    CHECK_CLOSE(cost_of_head(&setting, PASS_BACKWARD, &empty).shard_s, 1 + 20.4, 1e-14);
}

/* zero2 with the optimizer on the host. Behind each reduction of bf16 gradients, 13 s, a rank copies 4 bytes for each
 * of 80/4 parameters, p s, on the same stream. It is exposed for each layer, or for the last one only. For 68
 * parameters of the root it is in addition to 1 + 10.2. The GPU has 2 bytes of 100 parameters, the host 16 of a
 * quarter. */
TEST(zero2__copies_reduced_gradients_to_the_host)
{
    struct platform nodes = hand_links;
    struct device device = hand_device;
    nodes.gpus_per_node = nodes.nvlink_domain = 8;
    struct cost_setting setting = hand_toy_setting();
    struct cost_micro_batch micro_batch = hand_toy_micro_batch(RECOMPUTE_NONE), empty = {.context = 2};
    setting.platform = &nodes;
    setting.device = &device;
    setting.ranks = 4;
    setting.sharding = SCENARIO_ZERO2;
    setting.gradients = SCENARIO_BF16;
    setting.optimizer_offload = 1;
    double p = cost_of_transfer(&setting, COST_PCIE, 80, 1).duration_s;
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &micro_batch).shard_s, 3 * (13 + p), 1e-14);
    CHECK_CLOSE(cost_of_head(&setting, PASS_BACKWARD, &empty).shard_s,
                1 + 10.2 + cost_of_transfer(&setting, COST_PCIE, 68, 1).duration_s, 1e-14);
    setting.dp_overlap = SCENARIO_OVERLAP_GRADIENTS;
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &micro_batch).shard_s, 13 + p, 1e-14);
    device.hbm_bytes_per_s = 1e30;
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &empty).shard_s, 3 * (13 + p), 1e-14);
    CHECK_CLOSE(cost_state_bytes(&setting, 100, 4), 200.0, 1e-14);
    CHECK_TRUE(cost_gradient_state_bytes(&setting, 100, 4) == 0);
    CHECK_CLOSE(cost_host_state_bytes(&setting, 100, 4), 400.0, 1e-14);
    CHECK_TRUE(cost_optimizer_copies(&setting, 100, 4).to_host_bytes == 0);
}
