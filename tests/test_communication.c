/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests count the seconds of transfers and collectives by hand. */
#include "hand_cost.h"
#include "harness.h"

/* 80 bytes run over 4 GPUs. Each sends 60 after 2 + 3 x 1 s, with a ramp of 30 (60 + 20), at 10 B/s. A quarter is added
 * for the few GPUs. An all-reduce sends 120 (and 24). From 5 GPUs on it takes the switches and sends the 80 once. 32
 * GPUs are 4 nodes. A NIC of 20 B/s sends 2 x 31/32 x 80/8 bytes, after 1 + 2 x 2 s. A reduce-scatter sends half of
 * that, after 2.5 s. Meanwhile NVLink of 1000 B/s sends 7/8 of 77.5 bytes. */
TEST(cost_collective_s__follows_the_curves)
{
    struct device device = hand_device;
    struct cost_setting setting = hand_toy_setting();
    struct device_collective curve = {.latency_s = 2, .step_s = 1, .efficiency = 1, .ramp_bytes = 30, .pair = 1};
    setting.device = &device;
    device.collective[DEVICE_ALL_GATHER] = device.collective[DEVICE_ALL_REDUCE] = curve;
    device.collective[DEVICE_NVLS] = (struct device_collective){.efficiency = 0.5};
    device.fabric = (struct device_fabric){.latency_s = 1, .hop_s = 2, .efficiency = 1};
    CHECK_CLOSE(cost_collective_s(&setting, DEVICE_ALL_GATHER, 80, 4), 5 + 80 * 1.25 / 10, 1e-14);
    CHECK_CLOSE(cost_collective_s(&setting, DEVICE_ALL_REDUCE, 80, 4), 5 + 144 * 1.25 / 10, 1e-14);
    CHECK_CLOSE(cost_collective_s(&setting, DEVICE_ALL_REDUCE, 80, 5), 16.0, 1e-14);
    CHECK_CLOSE(cost_collective_s(&setting, DEVICE_ALL_REDUCE, 80, 32), 5 + 19.375 / 20, 1e-14);
    struct platform fast = hand_links;
    fast.nvlink_bytes_per_s = 1000;
    setting.platform = &fast;
    CHECK_CLOSE(cost_collective_s(&setting, DEVICE_REDUCE_SCATTER, 80, 32), 2.5 + 9.6875 / 20, 1e-14);
    setting.platform = &hand_links;
    CHECK_TRUE(cost_collective_s(&setting, DEVICE_ALL_GATHER, 80, 1) == 0);
    device.collective[DEVICE_NVLS].efficiency = 0; /* without switches the ring is taken */
    CHECK_CLOSE(cost_collective_s(&setting, DEVICE_ALL_REDUCE, 80, 5), 6 + (128 + 128 * 30 / 158.0) * 1.2 / 10, 1e-14);
}

/* 100 bytes with a ramp of 50 take (100 + 100/3)/0.5 on the wire of 20 B/s, after 3 latencies of 2 s. */
TEST(cost_of_transfer__pays_latency_ramp_and_efficiency)
{
    struct cost_setting setting = hand_toy_setting();
    struct cost_transfer transfer = cost_of_transfer(&setting, COST_NIC, 100, 3);
    CHECK_CLOSE(transfer.latency_s, 6.0, 1e-14);
    CHECK_CLOSE(transfer.wire_bytes, 800.0 / 3, 1e-14);
    CHECK_CLOSE(transfer.duration_s, 6 + 40.0 / 3, 1e-14);
    CHECK_CLOSE(cost_of_transfer(&setting, COST_PCIE, 80, 1).duration_s, 2.0, 1e-14);
    CHECK_TRUE(cost_of_transfer(&setting, COST_NIC, 0, 3).duration_s == 0);
}

/* Tensors have 128 bytes. 4 ranks of a node send 96: 1 s and 96 at 10 B/s. With two ranks on each of two nodes half of
 * 96 goes by NVLink, 1 + 4.8 s. Half goes by NIC, in a ring of two steps inside nodes and one between them, 3 + 2 x 1 +
 * 2 s. With one rank on each of four nodes 96 go by NIC, three steps between nodes. Tenths of these tensors go by the
 * other protocol, with less latency and less bandwidth. It takes 4 + 2 x 0.5 + 0.25 s and 4 + 3 x 0.25 s. */
TEST(rails__share_nic_and_nvlink)
{
    struct device device = hand_device;
    struct cost_setting setting = hand_toy_setting();
    setting.device = &device;
    device.fabric = (struct device_fabric){.efficiency = 0.5};
    device.ring[DEVICE_SIMPLE] = (struct device_ring){3, 1, 2, 1, 1};
    device.ring[DEVICE_LL128] = (struct device_ring){4, 0.5, 0.25, 0.5, 0.25};
    CHECK_CLOSE(cost_rails_s(&setting, DEVICE_ALL_GATHER, 128, 4, 4), 10.6, 1e-14);
    CHECK_TRUE(cost_of_rails(&setting, DEVICE_ALL_GATHER, COST_NIC, 128, 4, 4).duration_s == 0);
    CHECK_CLOSE(cost_of_rails(&setting, DEVICE_ALL_GATHER, COST_NVLINK, 128, 4, 2).duration_s, 5.8, 1e-14);
    CHECK_CLOSE(cost_of_rails(&setting, DEVICE_REDUCE_SCATTER, COST_NIC, 128, 4, 2).latency_s, 7.0, 1e-14);
    CHECK_CLOSE(cost_of_rails(&setting, DEVICE_REDUCE_SCATTER, COST_NIC, 128, 4, 2).wire_bytes, 96.0, 1e-14);
    CHECK_CLOSE(cost_rails_s(&setting, DEVICE_REDUCE_SCATTER, 128, 4, 2), 7 + 96 / 20.0, 1e-14);
    CHECK_CLOSE(cost_rails_s(&setting, DEVICE_ALL_GATHER, 128, 4, 1), 9 + 192 / 20.0, 1e-14);
    CHECK_CLOSE(cost_rails_s(&setting, DEVICE_ALL_GATHER, 12.8, 4, 2), 5.25 + 19.2 / 20, 1e-14);
    CHECK_CLOSE(cost_rails_s(&setting, DEVICE_ALL_GATHER, 12.8, 4, 1), 4.75 + 76.8 / 20, 1e-14);
    CHECK_TRUE(cost_of_rails(&setting, DEVICE_ALL_GATHER, COST_NVLINK, 128, 4, 1).duration_s == 0);
    CHECK_TRUE(cost_rails_s(&setting, DEVICE_ALL_GATHER, 128, 1, 1) == 0);
}

/* Six ranks are on two nodes, four on one and two on the other. Two ranks are beyond the rails of the four, so they
 * send their 5/6 inside. With a NIC that takes no time all wait for this. Even nodes have no such ranks. */
TEST(rails__leave_some_ranks_to_send_all_inside)
{
    struct device device = hand_device;
    struct cost_setting setting = hand_toy_setting();
    struct platform fast = hand_links;
    fast.nic_bytes_per_s = 1e30;
    setting.platform = &fast;
    setting.device = &device;
    struct cost_transfer half = cost_of_rails(&setting, DEVICE_ALL_GATHER, COST_NVLINK, 1200, 6, 2);
    struct cost_transfer all = cost_without_rail(&setting, DEVICE_ALL_GATHER, 1200, 6, 2);
    CHECK_CLOSE(all.wire_bytes, 2 * half.wire_bytes, 1e-15);
    CHECK_CLOSE(all.duration_s, all.latency_s + all.wire_bytes / all.bytes_per_s, 1e-15);
    CHECK_CLOSE(cost_uneven_rails_s(&setting, DEVICE_ALL_GATHER, 1200, 6, 2, 4), all.duration_s, 1e-15);
    CHECK_CLOSE(cost_uneven_rails_s(&setting, DEVICE_ALL_GATHER, 1200, 6, 2, 2), half.duration_s, 1e-15);
}

/* The same tensors are all-reduced. Inside the nodes they go both ways, 2 x 5.8 s. Between nodes they follow the curve
 * of all-reduces. It has a latency of 3 s, 1 s for the doubling, and a ramp of 16 that two nodes double and four
 * treble. */
TEST(rails__follow_the_curve_of_an_all_reduce)
{
    struct device device = hand_device;
    struct cost_setting setting = hand_toy_setting();
    setting.device = &device;
    device.fabric =
        (struct device_fabric){.latency_s = 3, .hop_s = 1, .efficiency = 0.5, .ramp_bytes = 16, .ramp_hop = 1};
    CHECK_CLOSE(cost_of_rails(&setting, DEVICE_ALL_REDUCE, COST_NVLINK, 128, 4, 2).duration_s, 11.6, 1e-14);
    CHECK_CLOSE(cost_rails_s(&setting, DEVICE_ALL_REDUCE, 128, 4, 2), 4 + 2 * 120 / 20.0, 1e-14);
    CHECK_CLOSE(cost_rails_s(&setting, DEVICE_ALL_REDUCE, 128, 4, 1), 5 + 2 * (192 + 192 * 48 / 240.0) / 20, 1e-14);
}

/* All ranks are on one node, so the rails are the collective of TP's all-reduces. It runs in rings up to four GPUs.
 * From five on it runs in the switches, which take each GPU's tensor once. */
TEST(rails__are_the_collective_inside_a_node)
{
    struct device device = hand_device;
    struct platform node = hand_links;
    struct cost_setting setting = hand_toy_setting();
    node.gpus_per_node = node.nvlink_domain = 8;
    setting.platform = &node;
    setting.device = &device;
    device.collective[DEVICE_ALL_REDUCE] = (struct device_collective){.latency_s = 2, .efficiency = 0.5};
    device.collective[DEVICE_NVLS] = (struct device_collective){.latency_s = 3, .efficiency = 0.25};
    CHECK_CLOSE(cost_rails_s(&setting, DEVICE_ALL_REDUCE, 128, 4, 4), 2 + 192 / 5.0, 1e-14);
    CHECK_CLOSE(cost_rails_s(&setting, DEVICE_ALL_REDUCE, 128, 8, 8), 3 + 128 / 2.5, 1e-14);
    for (int32_t ranks = 2; ranks <= 8; ranks++)
        for (enum device_collective_kind kind = DEVICE_ALL_GATHER; kind <= DEVICE_ALL_REDUCE; kind++)
            CHECK_CLOSE(cost_rails_s(&setting, kind, 128, ranks, ranks), cost_collective_s(&setting, kind, 128, ranks),
                        1e-14);
}
