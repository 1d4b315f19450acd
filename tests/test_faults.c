/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check slow stages and links in both engines. */
#include "scenario/faults.h"

#include <math.h>
#include <string.h>

#include "bounds/critical_path.h"
#include "execute/execute.h"
#include "hand_dag.h"
#include "hand_plan.h"
#include "harness.h"

static struct fault fault_of(enum fault_kind kind, int32_t gpu, double factor)
{
    return (struct fault){.kind = (int32_t)kind, .gpus = {1, {gpu}}, .factor = factor};
}

/* Build a graph with faults of these entries. A failure fails the test. The caller frees both. */
static struct dag built(const struct plan *plan, struct cost_setting setting, struct dag_options options,
                        const struct faults *faults)
{
    setting.faults = faults;
    struct dag dag = hand_built(plan, &setting, options);
    return dag;
}

static double built_s(const struct plan *plan, struct cost_setting setting, struct dag_options options,
                      const struct faults *faults)
{
    struct dag dag = built(plan, setting, options, faults);
    double seconds = hand_makespan_s(&dag);
    dag_free(&dag);
    return seconds;
}

/* 4 stages on GPUs 0 to 3 run 12 micro-batches. c_i are the seconds of a pass (forward and backward) and its hops to
 * the next stage. Stage k is x times as slow and never without work. Then the makespan is the way there and back and
 * its own m passes: sum_{i<k} c_i + m x c_k. The last stage, which has the head, is so for every x >= 1, as 1F1B's
 * warm-up feeds it. Another stage is so from x >= (f + b)/f on. Then a micro-batch's round trip through the p - 1 - k
 * stages behind it takes less than the p - 1 - k forwards of its warm-up. With recomputation off b is at most 2f, so (f
 * + b)/f is at most 3 and x = 4 will do. */
TEST(slow_stage__matches_the_closed_form_of_1f1b)
{
    static const struct {
        int32_t stage;
        double factor;
    } cases[] = {{3, 1}, {3, 1.1}, {3, 1.5}, {3, 4}, {0, 4}, {1, 4}, {2, 4}, {1, 10}};
    const struct cost_setting *setting = hand_setting();
    enum { M = 12 };
    struct plan plan;
    hand_uniform(&plan, 4, M, 512);
    const struct plan_pipeline *pipeline = &plan.phases[0].pipelines[0];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double expected_s = 0, longer_s[N_PASSES] = {0};
        for (int32_t stage = 0; stage <= cases[i].stage; stage++)
            for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
                struct cost_pass cost = dag_pass_cost(pipeline, setting, pass, 0, stage);
                double hop_s = cost_of_transfer(setting, COST_NVLINK, cost.boundary_bytes, 1).duration_s;
                double work_s = cost.kernels_s + cost.attention_s;
                expected_s += stage == cases[i].stage ? M * cases[i].factor * work_s : work_s + hop_s;
                longer_s[pass] = M * (cases[i].factor - 1) * work_s;
            }
        struct fault fault = fault_of(FAULT_GPU, cases[i].stage, cases[i].factor), of_pass[] = {fault, fault};
        struct faults faults = faults_of(&fault, 1, setting->platform);
        CHECK_CLOSE(built_s(&plan, *setting, (struct dag_options){0}, &faults), expected_s, 1e-9);
        faults_free(&faults);
        for (int pass = 0; pass < 2; pass++)
            of_pass[pass].pass = 1 + pass;
        faults = faults_of(of_pass, 2, setting->platform); /* both passes are the same as all */
        CHECK_CLOSE(built_s(&plan, *setting, (struct dag_options){0}, &faults), expected_s, 1e-9);
        faults_free(&faults);
        for (enum pass pass = PASS_FORWARD; pass < N_PASSES && cases[i].stage == 3; pass++) { /* the last stage */
            faults = faults_of(&of_pass[pass], 1, setting->platform);
            CHECK_CLOSE(built_s(&plan, *setting, (struct dag_options){0}, &faults), expected_s - longer_s[!pass], 1e-9);
            faults_free(&faults);
        }
    }
    plan_free(&plan);
}

/* Two stages are on two nodes and run one micro-batch. Each hop pays its latency as before, and twice its bytes' time.
 * It does not matter which end's NIC has half the bandwidth. A slow NVLink changes nothing. Both ends together are as
 * slow as the slower one. */
TEST(slow_nic__lengthens_a_hop_by_its_bytes)
{
    const struct cost_setting *setting = hand_setting();
    struct plan plan;
    hand_uniform(&plan, 2, 1, 4096);
    plan.phases[0].pipelines[0].layout.stage_stride = 8;
    double sound_s = built_s(&plan, *setting, (struct dag_options){0}, NULL);
    double bytes_s = 4096 * 64 * 2 / 50e9; /* bf16, h = 64 */
    const struct fault entries[] = {fault_of(FAULT_NIC, 0, 2), fault_of(FAULT_NIC, 8, 2), fault_of(FAULT_NVLINK, 0, 9)};
    const double hops_longer_s[] = {2 * bytes_s, 2 * bytes_s, 0};
    for (int i = 0; i < 3; i++) {
        struct faults faults = faults_of(&entries[i], 1, setting->platform);
        CHECK_CLOSE(built_s(&plan, *setting, (struct dag_options){0}, &faults), sound_s + hops_longer_s[i], 1e-12);
        faults_free(&faults);
    }
    struct faults both = faults_of(entries, 2, setting->platform);
    CHECK_CLOSE(built_s(&plan, *setting, (struct dag_options){0}, &both), sound_s + 2 * bytes_s, 1e-12);
    faults_free(&both);
    plan_free(&plan);
}

/* In SimGrid 1 GB by a NIC of 50 GB/s / 2 takes 40 ms after its latency. Two into it take 80 ms. NVLink and PCIe behave
 * likewise. A transfer by sound links beside it takes its 20 ms. */
TEST(slow_link__slows_simgrids_links)
{
    const struct fault entries[] = {fault_of(FAULT_NIC, 8, 2), fault_of(FAULT_NVLINK, 1, 4),
                                    fault_of(FAULT_PCIE, 0, 8)};
    struct platform platform = hand_platform("hopper-2x8");
    struct faults faults = faults_of(entries, 3, &platform);
    struct timeline timeline = {0};
    struct error err = {0};
    struct dag dag = hand_dag(4, 6, 0);
    dag.faults = &faults;
    hand_send(&dag, 0, DAG_STREAM_SEND_FORWARD, 8, hand_transfer(1e-3, 1e9, 50e9));
    hand_send(&dag, 0, DAG_STREAM_COLLECTIVE, 1, hand_transfer(0, 1e9, 200e9));
    hand_send(&dag, 0, DAG_STREAM_TO_HOST, -1, hand_transfer(0, 1e9, 64e9));
    hand_send(&dag, 3, DAG_STREAM_SEND_FORWARD, 9, hand_transfer(0, 1e9, 50e9));
    CHECK_TRUE(hand_execute(&dag, &platform, &timeline, &err));
    const double finish_s[] = {1e-3 + 0.04, 4 * 0.005, 8 / 64.0, 0.02};
    for (int t = 0; t < 4; t++)
        CHECK_CLOSE(timeline.finish_s[t], finish_s[t], 1e-12);
    dag_free(&dag);
    dag = hand_dag(4, 2, 0);
    dag.faults = &faults;
    hand_send(&dag, 0, DAG_STREAM_SEND_FORWARD, 8, hand_transfer(0, 1e9, 50e9));
    hand_send(&dag, 1, DAG_STREAM_SEND_FORWARD, 8, hand_transfer(0, 1e9, 50e9));
    CHECK_TRUE(hand_execute(&dag, &platform, &timeline, &err));
    for (int t = 0; t < 2; t++)
        CHECK_CLOSE(timeline.finish_s[t], 0.08, 1e-12);
    dag_free(&dag);
    timeline_free(&timeline);
    faults_free(&faults);
}

/* 8 GPUs of node 0 send 1 GB each to their counterparts on the first node of the other end. */
static void check_sends_of_a_node(const struct platform *platform, const struct fault *fault, int32_t n_sends,
                                  int32_t to_node, double expected_s)
{
    struct faults faults = faults_of(fault, 1, platform);
    struct timeline timeline = {0};
    struct error err = {0};
    struct dag dag = hand_dag(8, n_sends, 0);
    dag.faults = &faults;
    for (int32_t gpu = 0; gpu < n_sends; gpu++)
        hand_send(&dag, gpu, DAG_STREAM_RAIL, 8 * to_node + gpu, hand_transfer(0, 1e9, 50e9));
    CHECK_TRUE(hand_execute(&dag, platform, &timeline, &err));
    for (int32_t t = 0; t < n_sends; t++)
        CHECK_CLOSE(timeline.finish_s[t], expected_s, 1e-12);
    dag_free(&dag);
    timeline_free(&timeline);
    faults_free(&faults);
}

/* A node's uplink has 8 x 50 GB/s. At a quarter, 100 GB/s, one NIC still sends all it can, 1 GB in 20 ms. 8 NICs share
 * it and take 80 ms. At a sixteenth one alone takes 40 ms. The same holds into the node. A leaf of 32 nodes has 12.8
 * TB/s to the spine. A 512th of it is 25 GB/s: 40 ms for one, 320 ms for 8. Inside the leaf the fault has no effect. */
TEST(slow_uplink__slows_all_who_share_it)
{
    struct platform small = hand_platform("hopper-2x8"), large = hand_platform("hopper-128x8");
    for (int64_t node = 0; node < 2; node++) {
        struct fault uplink = {.kind = FAULT_UPLINK, .nodes = {1, {node}}, .factor = 4};
        check_sends_of_a_node(&small, &uplink, 1, 1, 0.02);
        check_sends_of_a_node(&small, &uplink, 8, 1, 0.08);
        uplink.factor = 16;
        check_sends_of_a_node(&small, &uplink, 1, 1, 0.04);
    }
    struct fault spine = {.kind = FAULT_SPINE, .leaves = {1, {3}}, .factor = 512};
    check_sends_of_a_node(&large, &spine, 1, 96, 0.04);
    check_sends_of_a_node(&large, &spine, 8, 96, 0.32);
    check_sends_of_a_node(&large, &spine, 8, 31, 0.02);
}

/* A place stands for 8 ranks. On a sound platform its one flow takes as long as all take. If the uplink is narrower
 * than 8 NICs it would not, so this is refused. */
TEST(folded_group__needs_wide_links_above_the_nics)
{
    struct platform platform = hand_platform("hopper-2x8");
    for (int i = 0; i < 2; i++) {
        struct fault fault = {.kind = FAULT_UPLINK, .nodes = {1, {1}}, .factor = i == 0 ? 1 : 1.01};
        struct faults faults = faults_of(&fault, 1, &platform);
        struct timeline timeline = {0};
        struct error err = {0};
        struct dag dag = hand_dag(1, 1, 0);
        dag.faults = &faults;
        dag.ranks[0].n_gpus = 8;
        hand_send(&dag, 0, DAG_STREAM_SEND_FORWARD, 8, hand_transfer(0, 1e9, 50e9));
        CHECK_TRUE(hand_execute(&dag, &platform, &timeline, &err) == (i == 0));
        CHECK_EQUAL(err.status, i == 0 ? ERROR_NONE : ERROR_FOLDED);
        CHECK_TRUE((strstr(err.text, "pt1_d above the NICs") != NULL) == (i == 1));
        CHECK_TRUE((strstr(err.text, "all_tensor_ranks: true") != NULL) == (i == 1));
        dag_free(&dag);
        timeline_free(&timeline);
        faults_free(&faults);
    }
}

/* Make two pipelines of two stages of TP 4 x CP 2 on two nodes, in rings, with gradients. */
static void group_plan(struct plan *plan, struct cost_setting *setting)
{
    *setting = *hand_setting();
    setting->tensor = 4;
    hand_plan(plan, 1, 2, 2);
    struct plan_pipeline *pipeline = &plan->phases[0].pipelines[0];
    pipeline->layout.tensor = 4;
    pipeline->layout.stage_stride = 8;
    for (int32_t micro_batch = 0; micro_batch < 6; micro_batch++)
        for (int pass = 0; pass < N_PASSES; pass++)
            hand_micro_batch(&pipeline->partition[pass], (struct slice){micro_batch, 0, 1024})->context = 2;
    hand_order(plan);
}

/* One member has a fault of each kind. All tensor ranks and one for all take equal times on the critical path, to
 * rounding. */
TEST(folded_group__is_as_slow_as_its_slowest_member)
{
    const struct fault entries[] = {fault_of(FAULT_GPU, 6, 1.7), fault_of(FAULT_NVLINK, 3, 3),
                                    fault_of(FAULT_NIC, 9, 5)};
    struct plan plan;
    struct cost_setting setting;
    group_plan(&plan, &setting);
    double sound_s = built_s(&plan, setting, (struct dag_options){0}, NULL);
    for (int first = 0; first < 3; first++)
        for (int n = 1; n <= 3 - first; n++) {
            struct faults faults = faults_of(&entries[first], n, setting.platform);
            double all_s = built_s(&plan, setting, (struct dag_options){.all_tensor_ranks = true}, &faults);
            faults_fold(&faults, 4);
            double folded_s = built_s(&plan, setting, (struct dag_options){0}, &faults);
            CHECK_CLOSE(all_s, folded_s, 1e-12);
            CHECK_TRUE(folded_s > sound_s);
            faults_free(&faults);
        }
    plan_free(&plan);
}

/* A ring's members wait for each other in every pass. One slow GPU of two costs as much as two. */
TEST(context_group__is_as_slow_as_its_slowest_member)
{
    struct plan plan;
    struct cost_setting setting;
    group_plan(&plan, &setting);
    struct fault entries[] = {fault_of(FAULT_GPU, 0, 1.3), fault_of(FAULT_GPU, 4, 1.3)};
    for (int32_t type = SCENARIO_RING; type <= SCENARIO_ALL_GATHER; type++) {
        setting.cp_type = type;
        struct faults one = faults_of(entries, 1, setting.platform), two = faults_of(entries, 2, setting.platform);
        faults_fold(&one, 4);
        faults_fold(&two, 4);
        double one_s = built_s(&plan, setting, (struct dag_options){0}, &one);
        CHECK_TRUE(one_s > built_s(&plan, setting, (struct dag_options){0}, NULL));
        CHECK_CLOSE(one_s, built_s(&plan, setting, (struct dag_options){0}, &two), 1e-12);
        faults_free(&one);
        faults_free(&two);
    }
    plan_free(&plan);
}

/* Make 16 replicas on 2 nodes, with one micro-batch of so many tokens each. */
static void replica_plan(struct plan *plan, struct cost_setting *setting, int32_t tokens)
{
    static const struct scenario_plan replicas = {
        .tp = 1, .pp = 1, .cp = 1, .dp = 16, .vpp = 1, .sequence_parallel = true};
    *setting = *hand_setting();
    hand_options(setting, &replicas);
    hand_whole_samples(plan, 16, 1, tokens);
}

/* Every NIC or every NVLink is slow by a factor. The result is that of a platform with links narrower by it, to
 * rounding. */
static void check_as_slower_platform(const struct plan *plan, const struct cost_setting *setting, bool by_nvlink)
{
    struct dag_options options = {.gradient_sync = true};
    for (enum fault_kind kind = FAULT_NVLINK; kind <= FAULT_NIC; kind++) {
        struct platform slow = *setting->platform;
        struct cost_setting on_slow = *setting;
        struct fault fault = {.kind = (int32_t)kind, .nodes = {2, {0, 1}}, .factor = 3};
        struct faults faults = faults_of(&fault, 1, setting->platform);
        *(kind == FAULT_NIC ? &slow.nic_bytes_per_s : &slow.nvlink_bytes_per_s) /= 3;
        on_slow.platform = &slow;
        double slow_s = built_s(plan, on_slow, options, NULL);
        CHECK_CLOSE(built_s(plan, *setting, options, &faults), slow_s, 1e-12);
        if (kind == FAULT_NIC || by_nvlink)
            CHECK_TRUE(slow_s > built_s(plan, *setting, options, NULL));
        faults_free(&faults);
    }
}

TEST(slow_links__equal_a_slower_platform)
{
    struct plan plan;
    struct cost_setting setting;
    group_plan(&plan, &setting);
    struct device device = *setting.device;
    device.collective[DEVICE_ALL_TO_ALL] = device.collective[DEVICE_ALL_GATHER];
    setting.device = &device;
    for (int32_t type = 0; type < 2 * SCENARIO_ULYSSES + 2; type++) {
        setting.cp_type = type / 2;
        setting.cp_overlap = type % 2 == 1;
        check_as_slower_platform(&plan, &setting, true);
    }
    plan_free(&plan);
    replica_plan(&plan, &setting, 64);
    for (int32_t type = 0; type < 3 * SCENARIO_UNSHARDED + 3; type++) {
        setting.sharding = type / 3;
        setting.dp_overlap = type % 3;
        check_as_slower_platform(&plan, &setting, false);
    }
    plan_free(&plan);
}

/* Passes of few tokens hide a part of the buckets of gradients and parameters. They hide more of a sound collective
 * than of a slow one, as on the slower platform. */
TEST(slow_links__hide_as_much_as_on_a_slower_platform)
{
    for (int32_t tokens = 1; tokens <= 32; tokens *= 2) {
        struct plan plan;
        struct cost_setting setting;
        replica_plan(&plan, &setting, tokens);
        struct model model = *setting.model;
        model.vocabulary = 1000000; /* several buckets of 40e6 parameters */
        setting.model = &model;
        setting.dp_overlap = SCENARIO_OVERLAP_BOTH;
        check_as_slower_platform(&plan, &setting, false);
        plan_free(&plan);
    }
}

/* Without latencies a machine that is three times as slow takes three times as long, to rounding. Kernels hide three
 * times as much of collectives, as they are three times as long. */
static void check_three_times(const struct plan *plan, const struct cost_setting *setting, struct dag_options options)
{
    struct fault entries[3];
    for (enum fault_kind kind = FAULT_GPU; kind <= FAULT_NIC; kind++)
        entries[kind - FAULT_GPU] = (struct fault){.kind = (int32_t)kind, .share = 1, .factor = 3};
    struct faults faults = faults_of(entries, 3, setting->platform);
    CHECK_CLOSE(built_s(plan, *setting, options, &faults), 3 * built_s(plan, *setting, options, NULL), 1e-12);
    faults_free(&faults);
}

static struct device without_latencies(const struct device *device)
{
    struct device free = *device;
    for (int i = 0; i < DEVICE_N_COLLECTIVES; i++)
        free.collective[i].latency_s = 0;
    free.ring[0].start_s = free.fabric.latency_s = free.nvlink.latency_s = free.nic.latency_s = 0;
    free.launch_s = 1e-6;
    free.gemm[PRECISION_BF16].launch_s = 2e-6;
    return free;
}

TEST(slow_machine__takes_the_factor_longer)
{
    struct plan plan;
    struct cost_setting setting;
    group_plan(&plan, &setting);
    struct device device = without_latencies(setting.device);
    for (int overlap = SCENARIO_EXPOSED; overlap <= SCENARIO_CHUNKED; overlap++)
        for (int all = 0; all < 2; all++) {
            setting.device = &device;
            setting.tp_overlap = overlap;
            check_three_times(&plan, &setting, (struct dag_options){.all_tensor_ranks = all == 1});
        }
    plan_free(&plan);
    replica_plan(&plan, &setting, 4096);
    setting.device = &device;
    for (int32_t type = 0; type < 3 * SCENARIO_UNSHARDED + 3; type++) {
        setting.sharding = type / 3;
        setting.dp_overlap = type % 3;
        check_three_times(&plan, &setting, (struct dag_options){.gradient_sync = true});
    }
    plan_free(&plan);
}

/* zero3 runs on nodes of two GPUs with TP 2, and NVLink of the first is slow. Its group's own collectives take longer.
 * They hide more of those of parameters, which go by NICs. Sound groups hide as much of these as before. */
TEST(slow_link__makes_no_other_pass_faster)
{
    struct plan plan;
    struct cost_setting setting;
    replica_plan(&plan, &setting, 64);
    setting.ranks = 4;
    setting.sharding = SCENARIO_ZERO3;
    setting.tensor = 2;
    struct platform platform = *setting.platform;
    platform.gpus_per_node = platform.nvlink_domain = 2;
    platform.nic_bytes_per_s = 1e9; /* passes hide a part only */
    setting.platform = &platform;
    struct plan_pipeline *pipeline = &plan.phases[0].pipelines[0];
    pipeline->layout.tensor = 2;
    struct fault fault = fault_of(FAULT_NVLINK, 0, 8);
    struct faults faults = faults_of(&fault, 1, setting.platform);
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
        setting.faults = NULL;
        struct cost_pass sound = dag_pass_cost(pipeline, &setting, pass, 0, 0);
        setting.faults = &faults;
        struct cost_pass other = dag_gpu_pass_cost(pipeline, &setting, pass, 0, 0, 4),
                         slow = dag_gpu_pass_cost(pipeline, &setting, pass, 0, 0, 0);
        CHECK_TRUE(slow.tensor_s > sound.tensor_s);
        CHECK_CLOSE(other.tensor_s, sound.tensor_s, 1e-15);
        CHECK_CLOSE(other.shard_s, sound.shard_s, 1e-15);
        CHECK_TRUE(slow.shard_s < sound.shard_s);
    }
    faults_free(&faults);
    plan_free(&plan);
}

/* 16 replicas on 2 nodes reduce gradients. One NIC of half the bandwidth doubles the time of its rail, whose bytes
 * alone were the longest. So reduce-scatter and all-gather each take twice as long, less their latency once. */
TEST(slow_nic__holds_the_gradients_of_all)
{
    struct plan plan;
    struct cost_setting setting;
    replica_plan(&plan, &setting, 64);
    struct dag_options options = {.gradient_sync = true};
    double bytes = hand_stage_parameters(setting.model, 1, 840, true, true), longer_s = 0;
    const struct cost_transfer rail[] = {cost_of_rails(&setting, DEVICE_REDUCE_SCATTER, COST_NIC, 4 * bytes, 16, 8),
                                         cost_of_rails(&setting, DEVICE_ALL_GATHER, COST_NIC, 2 * bytes, 16, 8)};
    for (int i = 0; i < 2; i++) {
        enum device_collective_kind kind = i == 0 ? DEVICE_REDUCE_SCATTER : DEVICE_ALL_GATHER;
        double node_s = cost_of_rails(&setting, kind, COST_NVLINK, (i == 0 ? 4 : 2) * bytes, 16, 8).duration_s;
        longer_s += rail[i].latency_s + 2 * rail[i].wire_bytes / 50e9 - fmax(rail[i].duration_s, node_s);
    }
    struct fault fault = fault_of(FAULT_NIC, 5, 2);
    struct faults faults = faults_of(&fault, 1, setting.platform);
    CHECK_TRUE(longer_s > 0);
    double sound_s = built_s(&plan, setting, options, NULL);
    CHECK_CLOSE(built_s(&plan, setting, options, &faults), sound_s + longer_s, 1e-9);
    faults_free(&faults);
    plan_free(&plan);
}

/* Factors of 1 change no bit. */
TEST(fault_factor__of_one_changes_nothing)
{
    struct plan plan;
    struct cost_setting setting;
    group_plan(&plan, &setting);
    struct fault entries[FAULT_N_OF_GPUS];
    for (int kind = 0; kind < FAULT_N_OF_GPUS; kind++)
        entries[kind] = fault_of((enum fault_kind)kind, 3, 1);
    struct faults faults = faults_of(entries, FAULT_N_OF_GPUS, setting.platform);
    struct dag_options options = {.all_tensor_ranks = true, .gradient_sync = true};
    struct dag with = built(&plan, setting, options, &faults), without = built(&plan, setting, options, NULL);
    CHECK_EQUAL(with.n_tasks, without.n_tasks);
    CHECK_TRUE(memcmp(with.duration_s, without.duration_s, (size_t)with.n_tasks * sizeof(double)) == 0);
    dag_free(&with);
    dag_free(&without);
    faults_free(&faults);
    plan_free(&plan);
}

static int32_t n_slow(const struct faults *faults, enum fault_kind kind)
{
    int32_t n = 0;
    for (int32_t device = 0; device < faults->n[kind]; device++)
        n += faults_factor(faults, kind, device) > 1;
    return n;
}

/* 3% of 128 are 4 GPUs to the nearest, each with the same chance. In 1000 draws a GPU is drawn 1000 x 4/128 = 31 times.
 * It is beyond 31 +- 5 sqrt(31 x 31/32) in one of 10^6 runs. */
TEST(fault_draws__follow_their_seed)
{
    struct platform platform = {.n_nodes = 16, .gpus_per_node = 8, .nvlink_domain = 8};
    int32_t drawn[128] = {0};
    for (int64_t seed = 0; seed < 1000; seed++) {
        struct fault fault = {.kind = FAULT_GPU, .share = 0.03, .seed = seed, .factor = 2};
        struct faults faults = faults_of(&fault, 1, &platform), again = faults_of(&fault, 1, &platform);
        CHECK_EQUAL(n_slow(&faults, FAULT_GPU), 4);
        CHECK_EQUAL(n_slow(&faults, FAULT_NIC), 0);
        CHECK_TRUE(memcmp(faults.factor[FAULT_GPU], again.factor[FAULT_GPU], 128 * sizeof(double)) == 0);
        for (int32_t gpu = 0; gpu < 128; gpu++)
            drawn[gpu] += faults_factor(&faults, FAULT_GPU, gpu) > 1;
        faults_free(&faults);
        faults_free(&again);
    }
    for (int32_t gpu = 0; gpu < 128; gpu++)
        CHECK_TRUE(drawn[gpu] >= 4 && drawn[gpu] <= 59);
}

/* A quarter of 16 uplinks and half of 4 spine links are slow. Each kind draws among its own devices. */
TEST(fault_draws__are_separate_for_links_above_the_nics)
{
    struct platform platform = {
        .n_nodes = 16, .gpus_per_node = 8, .nvlink_domain = 8, .n_uplinks = 16, .n_spine_links = 4};
    const struct fault entries[] = {{.kind = FAULT_UPLINK, .share = 0.25, .seed = 1, .factor = 2},
                                    {.kind = FAULT_SPINE, .share = 0.5, .seed = 1, .factor = 3}};
    struct faults faults = faults_of(entries, 2, &platform);
    CHECK_EQUAL(n_slow(&faults, FAULT_UPLINK), 4);
    CHECK_EQUAL(n_slow(&faults, FAULT_SPINE), 2);
    for (enum fault_kind kind = 0; kind < FAULT_N_OF_GPUS; kind++)
        CHECK_EQUAL(n_slow(&faults, kind), 0);
    faults_free(&faults);
}

/* Forward passes of GPU 1 take 3 times as long, backward passes 2 x 2.5 times, and its optimizer twice. */
TEST(faults__of_one_pass_multiply_those_of_all)
{
    struct platform platform = {.n_nodes = 1, .gpus_per_node = 8, .nvlink_domain = 8};
    struct fault entries[] = {fault_of(FAULT_GPU, 1, 2), fault_of(FAULT_GPU, 1, 1.5), fault_of(FAULT_GPU, 1, 2.5)};
    entries[1].pass = 1;
    entries[2].pass = 2;
    struct faults faults = faults_of(entries, 3, &platform);
    CHECK_TRUE(faults_factor(&faults, FAULT_GPU, 1) == 2);
    CHECK_TRUE(faults_pass_factor(&faults, false, 1) == 3 && faults_pass_factor(&faults, true, 1) == 5);
    CHECK_TRUE(faults_pass_factor(&faults, true, 0) == 1);
    faults_fold(&faults, 2);
    CHECK_TRUE(faults_pass_factor(&faults, true, 0) == 5);
    faults_free(&faults);
}

/* Node 1's NICs are twice as slow and GPU 9's three times, which is 6 in all. With TP 2 GPU 8 is as slow as GPU 9. */
TEST(faults__multiply_and_groups_take_the_worst)
{
    struct platform platform = {.n_nodes = 2, .gpus_per_node = 8, .nvlink_domain = 8};
    const struct fault entries[] = {{.kind = FAULT_NIC, .nodes = {1, {1}}, .factor = 2}, fault_of(FAULT_NIC, 9, 3)};
    struct faults faults = faults_of(entries, 2, &platform);
    CHECK_EQUAL(n_slow(&faults, FAULT_NIC), 8);
    CHECK_TRUE(faults_factor(&faults, FAULT_NIC, 8) == 2 && faults_factor(&faults, FAULT_NIC, 9) == 6);
    faults_fold(&faults, 2);
    CHECK_TRUE(faults_factor(&faults, FAULT_NIC, 8) == 6 && faults_factor(&faults, FAULT_NIC, 10) == 2);
    CHECK_TRUE(faults_worst(&faults, FAULT_NIC) == 6 && faults_worst(&faults, FAULT_GPU) == 1);
    CHECK_TRUE(faults_factor(NULL, FAULT_GPU, 0) == 1);
    faults_free(&faults);
}

/* A graph asks for the largest factor in every pass, so no search over all GPUs may stand behind it. Here the factors
 * of the GPUs are out of reach meanwhile. */
TEST(worst__is_known_without_a_look_at_the_gpus)
{
    struct platform platform = {.n_nodes = 2, .gpus_per_node = 8};
    const struct fault entries[] = {fault_of(FAULT_NIC, 3, 2), fault_of(FAULT_NIC, 3, 3), fault_of(FAULT_NIC, 9, 5)};
    struct faults faults = faults_of(entries, 3, &platform);
    double *factor = faults.factor[FAULT_NIC];
    faults.factor[FAULT_NIC] = NULL;
    CHECK_TRUE(faults_worst(&faults, FAULT_NIC) == 6 && faults_worst(&faults, FAULT_GPU) == 1);
    faults.factor[FAULT_NIC] = factor;
    faults_free(&faults);
}
