/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check how replicas reduce gradients and gather parameters, and how much of it passes hide. */
#include "dag/dag.h"

#include <math.h>

#include "hand_dag.h"
#include "hand_memory.h"
#include "hand_plan.h"
#include "harness.h"
#include "plan/order.h"

/* Two pipelines of one stage are on one node. In a reduce-scatter of 4 bytes a parameter half leaves each rank. The
 * norm follows, and the optimizer on half. Half of the all-gather of 2 bytes leaves each rank. */
TEST(zero1__reduces_gradients_and_gathers_parameters)
{
    struct plan plan;
    struct error err = {0};
    struct cost_setting setting = *hand_setting();
    hand_whole_samples(&plan, 2, 1, 16);
    struct dag dag = hand_built(&plan, &setting, (struct dag_options){.gradient_sync = true});
    double parameters = hand_stage_parameters(setting.model, 1, 840, true, true);
    int32_t scatter = hand_find(&dag, DAG_SEND, DAG_REDUCE_SCATTER, 0),
            gather = hand_find(&dag, DAG_SEND, DAG_ALL_GATHER, 0);
    int32_t optimizer = hand_find(&dag, DAG_OPTIMIZER, DAG_PASS, 0);
    CHECK_EQUAL(hand_count(&dag, DAG_SEND, DAG_REDUCE_SCATTER), 2);
    CHECK_EQUAL(hand_count(&dag, DAG_OPTIMIZER, DAG_PASS), 2);
    CHECK_CLOSE(dag.tasks[scatter].wire_bytes, parameters * 4 * 0.5, 1e-15);
    CHECK_CLOSE(dag.tasks[gather].wire_bytes, parameters * 2 * 0.5, 1e-15);
    CHECK_CLOSE(dag.duration_s[optimizer], cost_optimizer_s(&setting, parameters, 2), 1e-15);
    struct dag without = hand_built(&plan, hand_setting(), (struct dag_options){0});
    CHECK_CLOSE(hand_makespan_s(&dag),
                hand_makespan_s(&without) + dag.duration_s[scatter] + dag.duration_s[optimizer] +
                    dag.duration_s[gather],
                1e-12);
    dag_free(&without);
    dag_free(&dag);

    plan.phases[0].pipelines[1].layout.tensor = 2;
    CHECK_TRUE(!dag_build(&plan, &setting, (struct dag_options){.gradient_sync = true}, &dag, &err));
    CHECK_CONTAINS(err.text, "unequal pipelines");
    plan_free(&plan);
}

/* The same with the optimizer on the host. Behind the norm half of the gradients goes there, and half of the weights
 * comes back before the gather. The GPU's own work is shorter than the host's, which moves 30 bytes of a parameter for
 * each of 8 GPUs. Each rank's host has 16 bytes of its half, and the GPU has no fp32 states. */
TEST(optimizer_offload__copies_gradients_and_weights)
{
    struct plan plan;
    struct cost_setting setting = *hand_setting();
    struct device device = *setting.device;
    device.node_host_adam_bytes_per_s = 1e3;
    setting.device = &device;
    hand_whole_samples(&plan, 2, 1, 16);
    struct dag gpu = hand_built(&plan, &setting, (struct dag_options){.gradient_sync = true});
    double optimizer_s = gpu.duration_s[hand_find(&gpu, DAG_OPTIMIZER, DAG_PASS, 0)];
    setting.optimizer_offload = 1;
    struct hand_run run;
    hand_open_run(&run, &plan, &setting, false);
    double half = hand_stage_parameters(setting.model, 1, 840, true, true) / 2, host_s = 8 * half * 30 / 1e3;
    int32_t out = hand_find(&run.dag, DAG_SEND, DAG_OFFLOAD, 0), in = hand_find(&run.dag, DAG_SEND, DAG_PREFETCH, 0);
    CHECK_EQUAL(hand_count(&run.dag, DAG_SEND, DAG_OFFLOAD), 2);
    CHECK_EQUAL(run.dag.tasks[out].to_rank, -1);
    CHECK_EQUAL(run.dag.tasks[in].from_rank, -1);
    CHECK_CLOSE(run.dag.duration_s[out], cost_of_transfer(&setting, COST_PCIE, 4 * half, 1).duration_s, 1e-15);
    CHECK_CLOSE(run.dag.duration_s[in], cost_of_transfer(&setting, COST_PCIE, 2 * half, 1).duration_s, 1e-15);
    CHECK_CLOSE(run.dag.duration_s[hand_find(&run.dag, DAG_SYNC, DAG_OFFLOAD, 0)], host_s, 1e-15);
    CHECK_CLOSE(hand_makespan_s(&run.dag),
                hand_makespan_s(&gpu) + run.dag.duration_s[out] + host_s - optimizer_s + run.dag.duration_s[in], 1e-12);
    CHECK_CLOSE(run.memory.host_peak_bytes[1], 16 * half, 1e-15);
    CHECK_CLOSE(memory_host_of(&plan, &run.dag, &run.memory, setting.platform, 0).bytes, 2 * 16 * half, 1e-15);
    dag_free(&gpu);
    hand_close_run(&run);
    plan_free(&plan);
}

/* Make two pipelines of two stages and three micro-batches. zero3 shares a stage of 420 layers between two ranks. */
static void open_staged(struct plan *plan, struct cost_setting *setting, int32_t reshard)
{
    const struct scenario_plan layout = {.pp = 2,
                                         .cp = 1,
                                         .dp = 2,
                                         .sharding = SCENARIO_ZERO3,
                                         .fsdp = 2,
                                         .reshard_after_forward = reshard,
                                         .gradient_buffers = SCENARIO_GRADIENTS_FREED};
    *setting = *hand_setting();
    hand_options(setting, &layout);
    setting->ranks = 2;
    setting->dp_overlap = SCENARIO_OVERLAP_BOTH;
    hand_plan(plan, 2, 2, 1);
    plan->shards = 2;
    for (int32_t i = 0; i < 6; i++)
        for (int pass = 0; pass < N_PASSES; pass++)
            hand_micro_batch(&plan->phases[0].pipelines[i / 3].partition[pass], (struct slice){i, 0, 16});
    hand_order(plan);
}

/* The first forward gathers a stage: half of 2 bytes a parameter arrives, and 4 + 10/2 are copied. Other passes gather
 * nothing. Where forwards free the parameters, each backward gathers the layers. Behind the last backward 4 bytes are
 * reduced, which nothing hides, and nothing is gathered. A rank has 2 + 4 bytes of the stage and 12/2, and 2 of a
 * layer. The 4 come with the first backward. */
TEST(fsdp_stages__gather_first_and_reduce_last)
{
    for (int32_t reshard = SCENARIO_RESHARD_DEFAULT; reshard <= SCENARIO_RESHARD_NEVER; reshard++) {
        struct plan plan;
        struct cost_setting setting;
        struct hand_run run;
        open_staged(&plan, &setting, reshard);
        const struct plan_pipeline *pipeline = &plan.phases[0].pipelines[1];
        double stage = hand_stage_parameters(setting.model, 1, 420, true, false),
               layers = hand_stage_parameters(setting.model, 1, 420, false, false);
        struct cost_pass first = dag_pass_cost(pipeline, &setting, PASS_FORWARD, 0, 0),
                         second = dag_pass_cost(pipeline, &setting, PASS_FORWARD, 1, 0),
                         backward = dag_pass_cost(pipeline, &setting, PASS_BACKWARD, 1, 0);
        CHECK_CLOSE(first.shard_bytes, stage, 1e-14);
        CHECK_CLOSE(first.kernels_s, second.kernels_s + 9 * stage / 1e12, 1e-12);
        CHECK_TRUE(first.shard_s > 0 && second.shard_s == 0 && second.shard_bytes == 0);
        CHECK_CLOSE(backward.shard_bytes, reshard == SCENARIO_RESHARD_ALWAYS ? layers : 0, 1e-14);
        hand_open_run(&run, &plan, &setting, false);
        int32_t scatter = hand_find(&run.dag, DAG_SEND, DAG_REDUCE_SCATTER, 0);
        CHECK_EQUAL(hand_count(&run.dag, DAG_SEND, DAG_REDUCE_SCATTER), 4);
        CHECK_EQUAL(hand_count(&run.dag, DAG_SEND, DAG_ALL_GATHER), 0);
        CHECK_CLOSE(run.dag.tasks[scatter].wire_bytes, stage * 4 / 2, 1e-14);
        CHECK_CLOSE(hand_highest(&run.memory, 0, MEMORY_STATES), 12 * stage + 2 * layers / 420, 1e-12);
        CHECK_CLOSE(run.memory.events[0].bytes[MEMORY_STATES], 8 * stage + 2 * layers / 420, 1e-12);
        hand_close_run(&run);
        plan_free(&plan);
    }
}

/* Make a model of 10^6 words, which has more than three buckets of 40e6 parameters, with bf16 gradients. */
static void open_buckets(struct cost_setting *setting, struct model *model, struct platform *slow, double bytes_per_s)
{
    static const struct scenario_plan layout = {.cp = 1, .dp = 1, .gradients = SCENARIO_BF16};
    *setting = *hand_setting();
    *model = *setting->model;
    *slow = *setting->platform;
    model->vocabulary = 1000000;
    slow->nvlink_bytes_per_s = bytes_per_s;
    setting->model = model;
    setting->platform = slow;
    hand_options(setting, &layout);
    setting->dp_overlap = SCENARIO_OVERLAP_BOTH;
}

static double seconds_of(const struct plan *plan, const struct cost_setting *setting, enum pass pass,
                         int32_t micro_batch, int32_t stage)
{
    struct cost_pass cost = dag_pass_cost(&plan->phases[0].pipelines[0], setting, pass, micro_batch, stage);
    return cost.kernels_s + cost.attention_s;
}

/* Check the times of the SENDs of gradients, with the longest SYNC before them, and of parameters. */
static void check_rings(const struct plan *plan, const struct cost_setting *setting, double scatter_s, double gather_s)
{
    struct dag dag = hand_built(plan, setting, (struct dag_options){.gradient_sync = true});
    double waits_s = 0;
    for (int32_t t = 0; t < dag.n_tasks; t++)
        if (dag.tasks[t].kind == DAG_SYNC)
            waits_s = fmax(waits_s, dag.duration_s[t]);
    CHECK_CLOSE(waits_s + dag.duration_s[hand_find(&dag, DAG_SEND, DAG_REDUCE_SCATTER, 0)], scatter_s, 1e-12);
    CHECK_CLOSE(dag.duration_s[hand_find(&dag, DAG_SEND, DAG_ALL_GATHER, 0)], gather_s, 1e-12);
    dag_free(&dag);
}

/* Two stages are on two nodes of 2 GPUs, the replicas of each on one node. Beside their buckets kernels lose a quarter,
 * as a collective inside a node takes it from them. A collective over nodes has no effect. */
TEST(dp_overlap__slows_by_the_collective_inside_a_node)
{
    struct plan plan;
    struct cost_setting setting;
    struct model model;
    struct platform links;
    open_buckets(&setting, &model, &links, 1e15);
    links.gpus_per_node = links.nvlink_domain = 2;
    struct device device = *setting.device;
    device.multiprocessors = 8;
    device.training.node_multiprocessors = 2;
    device.training.collective_multiprocessors = 4;
    setting.device = &device;
    hand_whole_samples(&plan, 2, 2, 16);
    double parameters = hand_stage_parameters(&model, 1, 420, true, false), n = ceil(parameters / 40e6);
    double bucket_s = 1e-6 + parameters / n / 1e15;
    CHECK_TRUE(n >= 2);
    check_rings(&plan, &setting, bucket_s + (n - 1) * bucket_s / 4, bucket_s + (n - 1) * bucket_s / 4);
    plan_free(&plan);
}

/* Groups of two share states, each on its node. Parameters are gathered, and gradients scattered, inside it. The rest
 * of their reduction runs over nodes. Kernels lose a quarter of the one's time and half of the other's. */
TEST(shard_group__shares_inside_a_node_and_reduces_over_nodes)
{
    struct plan plan;
    struct cost_setting setting;
    struct model model;
    struct platform links;
    open_buckets(&setting, &model, &links, 1e15);
    links.gpus_per_node = links.nvlink_domain = 2;
    links.nic_bytes_per_s = 1e15;
    struct device device = *setting.device;
    device.multiprocessors = 8;
    device.training.node_multiprocessors = 2;
    device.training.collective_multiprocessors = 4;
    setting.device = &device;
    hand_options(&setting, &(struct scenario_plan){.cp = 1, .dp = 4, .shard_group = 2, .gradients = SCENARIO_BF16});
    hand_whole_samples(&plan, 4, 1, 16);
    double parameters = hand_stage_parameters(&model, 1, 840, true, true), n = ceil(parameters / 40e6);
    double inside_s = 1e-6 + parameters / n / 1e15, across_s = 4e-6 + parameters / n / 1e15;
    double reduced_s = inside_s + across_s + (n - 1) * (inside_s / 4 + across_s / 2);
    double whole_s = 1e-6 + parameters / 1e15, all_s = whole_s + 4e-6 + parameters / 1e15;
    CHECK_TRUE(n >= 3);
    check_rings(&plan, &setting, reduced_s / all_s * whole_s, inside_s + (n - 1) * inside_s / 4);
    plan_free(&plan);
}

/* Six replicas are on two nodes, four on one and two on the next. There are two rings. Each runs through the NICs of
 * one of the two and of one of the four. So half of a member's bytes stays inside the nodes. Two replicas have no such
 * NIC, and all of their bytes stay inside. */
TEST(uneven_replicas__send_by_the_nics_of_the_fewest)
{
    static const int32_t at[] = {0, 1, 2, 3, 8, 9};
    static const int32_t to[] = {1, 8, 2, 9, 3, 0, 9, 0, 8, 1};
    struct plan plan;
    hand_plan(&plan, 6, 1, 1);
    for (int32_t i = 0; i < 6; i++) {
        plan.phases[0].pipelines[i].layout.first_rank = at[i];
        for (int pass = 0; pass < N_PASSES; pass++)
            hand_micro_batch(&plan.phases[0].pipelines[i].partition[pass], (struct slice){i, 0, 64});
    }
    hand_order(&plan);
    struct dag dag = hand_built(&plan, hand_setting(), (struct dag_options){.gradient_sync = true});
    const struct model *model = hand_setting()->model;
    double bytes = hand_stage_parameters(model, 1, (int32_t)model->layers, true, true) * 4 * 5 / 6;
    CHECK_EQUAL(hand_count(&dag, DAG_SEND, DAG_REDUCE_SCATTER), 10);
    for (int32_t i = 0, task = 0; i < 10; i++, task++) {
        task = hand_find(&dag, DAG_SEND, DAG_REDUCE_SCATTER, task);
        CHECK_EQUAL(dag.tasks[task].to_rank, to[i]);
        CHECK_CLOSE(dag.tasks[task].wire_bytes, i == 4 || i == 5 ? bytes : bytes / 2, 1e-15);
        CHECK_EQUAL(dag.tasks[task].stream % DAG_N_STREAMS,
                    i == 1 || i == 3 || i == 7 || i == 9 ? DAG_STREAM_RAIL : DAG_STREAM_COLLECTIVE);
    }
    dag_free(&dag);
    plan_free(&plan);
}

/* Two groups of three are on nodes of four. The first is on one node and the second over two, or the other way round.
 * The exposed time is that of the slower one, whichever comes first. */
TEST(dp_overlap__hides_what_the_slowest_group_hides)
{
    double end_s[2];
    for (int32_t first = 0; first < 2; first++) {
        struct plan plan;
        struct cost_setting setting;
        struct model model;
        struct platform links;
        open_buckets(&setting, &model, &links, 1e10);
        links.gpus_per_node = links.nvlink_domain = 4;
        links.nic_bytes_per_s = 1e8;
        hand_options(&setting, &(struct scenario_plan){.cp = 1, .dp = 6, .shard_group = 3, .gradients = SCENARIO_BF16});
        hand_plan(&plan, 6, 1, 1);
        for (int32_t i = 0; i < 6; i++) {
            plan.phases[0].pipelines[i].layout.first_rank = 2 * first + i;
            for (int pass = 0; pass < N_PASSES; pass++)
                hand_micro_batch(&plan.phases[0].pipelines[i].partition[pass], (struct slice){i, 0, 16});
        }
        hand_order(&plan);
        struct dag dag = hand_built(&plan, &setting, (struct dag_options){.gradient_sync = true});
        end_s[first] = hand_makespan_s(&dag);
        dag_free(&dag);
        plan_free(&plan);
    }
    CHECK_CLOSE(end_s[0], end_s[1], 1e-12);
}

/* Micro-batches have 16 and 8 tokens (pipeline 1: 16 and 12). With slow links n buckets run in a row. The shortest last
 * backward pass, that of 8 tokens, hides its time of them. The first forward hides its time of the gathers. It changes
 * nothing that these passes run slower beside them. With fast links the last bucket is exposed, and a quarter of the
 * hidden ones' time, which the pass loses. Persistent GEMMs take twice as long beside them, the others 4/3. */
TEST(dp_overlap__hides_gradients_under_the_last_backward_pass)
{
    struct plan plan;
    struct cost_setting setting;
    struct model model;
    struct platform links;
    open_buckets(&setting, &model, &links, 1e8);
    hand_plan(&plan, 2, 1, 1);
    for (int32_t i = 0; i < 2; i++)
        for (int pass = 0; pass < N_PASSES; pass++) {
            hand_micro_batch(&plan.phases[0].pipelines[i].partition[pass], (struct slice){2 * i, 0, 16});
            hand_micro_batch(&plan.phases[0].pipelines[i].partition[pass],
                             (struct slice){2 * i + 1, 0, i == 0 ? 8 : 12});
        }
    hand_order(&plan);
    double parameters = hand_stage_parameters(&model, 1, 840, true, true), n = ceil(parameters / 40e6);
    double last_s = seconds_of(&plan, &setting, PASS_BACKWARD, 1, 0);
    double first_s = seconds_of(&plan, &setting, PASS_FORWARD, 0, 0), all_s = n * 1e-6 + parameters / 1e8;
    CHECK_TRUE(n > 3 && last_s < all_s / 2 && first_s < all_s / 2 && last_s != first_s);
    check_rings(&plan, &setting, all_s - last_s, all_s - first_s);

    struct device device = *setting.device;
    device.multiprocessors = 8;
    device.gemm[PRECISION_BF16].wave = 0;
    device.training.node_multiprocessors = 2;
    setting.device = &device;
    last_s = seconds_of(&plan, &setting, PASS_BACKWARD, 1, 0);
    first_s = seconds_of(&plan, &setting, PASS_FORWARD, 0, 0);
    check_rings(&plan, &setting, all_s - last_s, all_s - first_s);
    links.nvlink_bytes_per_s = 1e15;
    double bucket_s = 1e-6 + parameters / n / 1e15;
    check_rings(&plan, &setting, bucket_s + (n - 1) * bucket_s / 4, bucket_s + (n - 1) * bucket_s / 4);
    double loss[N_PASSES];
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
        struct cost_pass cost = dag_pass_cost(&plan.phases[0].pipelines[0], &setting, pass, 0, 0);
        double pass_s = cost_pass_s(&cost), others_s = pass_s - cost.product_s;
        loss[pass] = 1 - pass_s / (2 * cost.product_s + 4.0 / 3 * others_s);
        CHECK_TRUE(loss[pass] > 0.25 && loss[pass] < 0.5);
    }
    device.training.persistent_gemms = true;
    check_rings(&plan, &setting, bucket_s * (1 + (n - 1) * loss[PASS_BACKWARD]),
                bucket_s * (1 + (n - 1) * loss[PASS_FORWARD]));
    plan_free(&plan);
}

/* One replica has a micro-batch of 4096 tokens (F, B). The other has `more` of these and then one of 1 token (f, b),
 * whose backward is shorter than the reduction T of n buckets. B is longer. So the gradients of the first wait for one
 * bucket. The other's gradients wait for T - b behind b. Each waits from its own end on. Both are reduced at the later
 * of F + B + T/n and more (F + B) + f + T. The other alone may end early. Then the part of T that it exposes is over
 * when the first one ends. */
TEST(early_replica__exposes_nothing_that_others_hide)
{
    struct cost_setting setting;
    struct model model;
    struct platform links, platform = hand_platform("hopper-2x8");
    open_buckets(&setting, &model, &links, 200e9);
    setting.dp_overlap = SCENARIO_OVERLAP_GRADIENTS;
    struct device device = *setting.device;
    device.hbm_bytes_per_s *= 100; /* T is longer than a token's backward through whole tables */
    setting.device = &device;
    model.vocabulary = 100000000;
    double parameters = hand_stage_parameters(&model, 1, 840, true, true), n = ceil(parameters / 40e6);
    double all_s = n * 1e-6 + parameters / 200e9, gather_s = 1e-6 + parameters / 200e9;
    for (int32_t more = 0; more <= 1; more++) {
        struct plan plan;
        hand_plan(&plan, 2, 1, 1);
        for (int pass = 0; pass < N_PASSES; pass++) {
            struct plan_partition *other = &plan.phases[0].pipelines[1].partition[pass];
            hand_micro_batch(&plan.phases[0].pipelines[0].partition[pass], (struct slice){0, 0, 4096});
            for (int32_t i = 0; i < more; i++)
                hand_micro_batch(other, (struct slice){1, 0, 4096});
            hand_micro_batch(other, (struct slice){2, 0, 1});
        }
        hand_order(&plan);
        struct cost_pass backward = dag_pass_cost(&plan.phases[0].pipelines[1], &setting, PASS_BACKWARD, more, 0);
        struct cost_pass forward = dag_pass_cost(&plan.phases[0].pipelines[1], &setting, PASS_FORWARD, more, 0);
        double first_s = seconds_of(&plan, &setting, PASS_FORWARD, 0, 0),
               last_s = seconds_of(&plan, &setting, PASS_BACKWARD, 0, 0);
        CHECK_TRUE(n > 3 && last_s > all_s && cost_pass_s(&backward) < all_s / 2);
        double reduced_s =
            fmax(first_s + last_s + all_s / n, more * (first_s + last_s) + cost_pass_s(&forward) + all_s);
        struct dag dag = hand_built(&plan, &setting, (struct dag_options){.gradient_sync = true});
        CHECK_CLOSE(hand_makespan_s(&dag), reduced_s + cost_optimizer_s(&setting, parameters, 2) + gather_s, 1e-12);
        hand_engines_agree(&dag, &platform);
        dag_free(&dag);
        plan_free(&plan);
    }
}

/* The other replica has nothing to compute. Its gradients wait for the first one's, and hide where these do. */
TEST(idle_replica__exposes_nothing)
{
    struct plan plan;
    struct cost_setting setting;
    struct model model;
    struct platform links;
    open_buckets(&setting, &model, &links, 1e8);
    hand_plan(&plan, 2, 1, 1);
    for (int pass = 0; pass < N_PASSES; pass++)
        hand_micro_batch(&plan.phases[0].pipelines[0].partition[pass], (struct slice){0, 0, 16});
    hand_order(&plan);
    double parameters = hand_stage_parameters(&model, 1, 840, true, true), n = ceil(parameters / 40e6);
    double all_s = n * 1e-6 + parameters / 1e8;
    double backward_s = seconds_of(&plan, &setting, PASS_BACKWARD, 0, 0);
    double forward_s = seconds_of(&plan, &setting, PASS_FORWARD, 0, 0);
    CHECK_TRUE(backward_s > all_s / 1e6 && backward_s < all_s / 2 && forward_s < all_s / 2);
    check_rings(&plan, &setting, all_s - backward_s, all_s - forward_s);
    plan_free(&plan);
}

/* Two replicas have P parameters at 200 GB/s. Half of their 2 bytes leaves each rank in either collective. Their passes
 * are longer than both. A collective that overlaps leaves its last bucket of n, 1 us + P/n bytes. One that does not
 * leaves 1 us + P bytes. */
TEST(dp_overlap__hides_gradients_without_parameters)
{
    struct plan plan;
    struct cost_setting setting;
    struct model model;
    struct platform links, platform = hand_platform("hopper-2x8");
    open_buckets(&setting, &model, &links, 200e9);
    hand_whole_samples(&plan, 2, 1, 4096);
    double parameters = hand_stage_parameters(&model, 1, 840, true, true), n = ceil(parameters / 40e6);
    double bucket_s = 1e-6 + parameters / n / 200e9, all_s = 1e-6 + parameters / 200e9;
    double passes_s = 0, optimizer_s = cost_optimizer_s(&setting, parameters, 2);
    for (int pass = 0; pass < N_PASSES; pass++) {
        double pass_s = seconds_of(&plan, &setting, (enum pass)pass, 0, 0);
        CHECK_TRUE(n > 3 && pass_s > n * bucket_s);
        passes_s += pass_s;
    }
    const double left_s[][2] = {[SCENARIO_OVERLAP_NONE] = {all_s, all_s},
                                [SCENARIO_OVERLAP_GRADIENTS] = {bucket_s, all_s},
                                [SCENARIO_OVERLAP_BOTH] = {bucket_s, bucket_s}};
    for (int32_t overlap = SCENARIO_OVERLAP_NONE; overlap <= SCENARIO_OVERLAP_BOTH; overlap++) {
        setting.dp_overlap = overlap;
        check_rings(&plan, &setting, left_s[overlap][0], left_s[overlap][1]);
        struct dag dag = hand_built(&plan, &setting, (struct dag_options){.gradient_sync = true});
        CHECK_CLOSE(hand_makespan_s(&dag), passes_s + left_s[overlap][0] + optimizer_s + left_s[overlap][1], 1e-12);
        hand_engines_agree(&dag, &platform);
        dag_free(&dag);
    }
    plan_free(&plan);
}

/* Two chunks on one stage run F0 F0' B0' F1 B0 F1' B1' B1 (' of chunk 1). Behind the last backward of chunk 1 B1' and
 * B1 follow, behind that of chunk 0 B1 alone. Before the first forwards end there are F0, and F0 F0'. T is a chunk's
 * time. If it is less than B1', chunk 1 is reduced before chunk 0 begins. Then T - B1 of chunk 0 would stay. This is
 * less than its last bucket of three, which stays. Otherwise 2 T - (B1' + B1) stays. For parameters 2 T - (F0 + F0')
 * stays. */
TEST(dp_overlap__hides_chunks_behind_what_follows_them)
{
    struct plan plan;
    struct cost_setting setting;
    struct model model;
    struct platform links;
    open_buckets(&setting, &model, &links, 1);
    hand_plan(&plan, 2, 1, 1);
    for (int32_t i = 0; i < 2; i++) {
        struct plan_pipeline *pipeline = &plan.phases[0].pipelines[i];
        pipeline->layout.chunks = 2;
        for (int pass = 0; pass < N_PASSES; pass++)
            for (int32_t micro_batch = 0; micro_batch < 2; micro_batch++)
                hand_micro_batch(&pipeline->partition[pass], (struct slice){2 * i + micro_batch, 0, 4096});
        plan_fill_need(pipeline);
        order_interleaved(pipeline);
    }
    double parameters = hand_stage_parameters(&model, 1, 840, true, true), n = 2 * ceil(parameters / 2 / 40e6);
    double backward_s = seconds_of(&plan, &setting, PASS_BACKWARD, 1, 0);
    double backward_head_s = seconds_of(&plan, &setting, PASS_BACKWARD, 1, 1);
    double forward_s = seconds_of(&plan, &setting, PASS_FORWARD, 0, 0);
    double forward_head_s = seconds_of(&plan, &setting, PASS_FORWARD, 0, 1);
    CHECK_CLOSE(n, 6, 0);
    for (int32_t i = 0; i < 2; i++) {
        double chunk_s = backward_head_s * (i == 0 ? 0.9 : 1.1);
        links.nvlink_bytes_per_s = parameters / 2 / (chunk_s - n / 2 * 1e-6);
        double left_s = i == 0 ? chunk_s / 3 : 2 * chunk_s - backward_s - backward_head_s;
        check_rings(&plan, &setting, left_s, 2 * chunk_s - forward_s - forward_head_s);
    }
    plan_free(&plan);
}

/* zero3 gathers and reduces inside the passes, so no ring follows. zero2 still gathers parameters at the end. */
TEST(zero3__leaves_no_ring_behind_the_passes)
{
    struct plan plan;
    struct cost_setting setting = *hand_setting();
    hand_whole_samples(&plan, 2, 1, 16);
    double plain_s = dag_pass_cost(&plan.phases[0].pipelines[0], &setting, PASS_BACKWARD, 0, 0).kernels_s;
    for (int32_t sharding = SCENARIO_ZERO2; sharding <= SCENARIO_ZERO3; sharding++) {
        hand_options(&setting, &(struct scenario_plan){.cp = 1, .dp = 2, .sharding = sharding});
        struct dag dag = hand_built(&plan, &setting, (struct dag_options){.gradient_sync = true});
        CHECK_EQUAL(hand_count(&dag, DAG_SEND, DAG_REDUCE_SCATTER), 0);
        CHECK_EQUAL(hand_count(&dag, DAG_SEND, DAG_ALL_GATHER), sharding == SCENARIO_ZERO2 ? 2 : 0);
        CHECK_EQUAL(hand_count(&dag, DAG_OPTIMIZER, DAG_PASS), 2);
        struct cost_pass cost = dag_pass_cost(&plan.phases[0].pipelines[0], &setting, PASS_BACKWARD, 0, 0);
        CHECK_TRUE(cost.shard_s > 0 && cost.kernels_s > plain_s);
        int32_t task = 0;
        while (dag.tasks[task].kind != DAG_COMPUTE || dag.tasks[task].pass != PASS_BACKWARD)
            task++;
        CHECK_CLOSE(dag.duration_s[task], cost.kernels_s + cost.attention_s + cost.shard_s, 1e-14);
        dag_free(&dag);
    }
    plan_free(&plan);
}

/* Check that all sends of one purpose are so many, with so many bytes each. */
static void check_sends(const struct dag *dag, enum dag_purpose purpose, int32_t n, double bytes)
{
    CHECK_EQUAL(hand_count(dag, DAG_SEND, purpose), n);
    for (int32_t i = 0, task = 0; i < n; i++, task++) {
        task = hand_find(dag, DAG_SEND, purpose, task);
        CHECK_CLOSE(dag->tasks[task].wire_bytes, bytes, 1e-14);
    }
}

/* Four replicas of one stage of P parameters are on a node, with gradients in fp32. Unsharded there is one all-reduce,
 * and 2 x 3/4 of 4P leave each. The optimizer steps all P, and nothing is gathered. In two groups of two 1/2 of 4P
 * leaves in each group's reduce-scatter. Then two all-reduces of 2P bytes run between the groups (2 x 1/2 of them). The
 * optimizer takes P/2, and 1/2 of 2P is gathered. */
TEST(shard_group__shares_states_or_leaves_them_whole)
{
    static const struct scenario_plan layouts[] = {{.cp = 1, .dp = 4, .sharding = SCENARIO_UNSHARDED},
                                                   {.cp = 1, .dp = 4, .sharding = SCENARIO_ZERO1, .shard_group = 2}};
    for (int i = 0; i < 2; i++) {
        struct plan plan;
        struct cost_setting setting = *hand_setting();
        hand_whole_samples(&plan, 4, 1, 16);
        hand_options(&setting, &layouts[i]);
        struct dag dag = hand_built(&plan, &setting, (struct dag_options){.gradient_sync = true});
        double parameters = hand_stage_parameters(setting.model, 1, 840, true, true);
        bool shared = i == 1;
        check_sends(&dag, DAG_REDUCE_SCATTER, shared ? 4 : 0, parameters * 2);
        check_sends(&dag, DAG_ALL_REDUCE, 4, parameters * (shared ? 2 : 6));
        check_sends(&dag, DAG_ALL_GATHER, shared ? 4 : 0, parameters);
        int32_t optimizer = hand_find(&dag, DAG_OPTIMIZER, DAG_PASS, 0);
        CHECK_CLOSE(dag.duration_s[optimizer], cost_optimizer_s(&setting, parameters, shared ? 2 : 1), 1e-15);
        int32_t to = dag.tasks[hand_find(&dag, DAG_SEND, DAG_ALL_REDUCE, 0)].to_rank;
        CHECK_EQUAL(to, shared ? 2 : 1); /* rank 0's shard is also rank 2's */
        dag_free(&dag);
        plan_free(&plan);
    }
}

/* Two replicas have two stages. Each place of the first stage and its counterpart on the last exchange the table's
 * gradients. They are V h of 4 bytes, once (an all-reduce of two sends 2 x 1/2), before the norm. Untied embeddings
 * send nothing. */
TEST(tied_embeddings__are_reduced_between_first_and_last_stage)
{
    struct model model = *hand_setting()->model;
    struct cost_setting setting = *hand_setting();
    double with_s = 0, without_s = 0, send_s = 0;
    setting.model = &model;
    for (int tied = 0; tied < 2; tied++) {
        struct plan plan;
        model.tied_embeddings = tied;
        model.vocabulary_multiple = 128; /* the table is padded to 1024 rows */
        hand_whole_samples(&plan, 2, 2, 16);
        struct dag dag = hand_built(&plan, &setting, (struct dag_options){.gradient_sync = true});
        check_sends(&dag, DAG_ALL_REDUCE, tied ? 4 : 0, 4.0 * 64 * 1024);
        if (tied) {
            int32_t send = hand_find(&dag, DAG_SEND, DAG_ALL_REDUCE, 0);
            send_s = dag.duration_s[send];
            CHECK_EQUAL(dag.tasks[send].from_rank, 0);
            CHECK_EQUAL(dag.tasks[send].to_rank, 2); /* stage 1 of replica 0 */
        }
        *(tied ? &with_s : &without_s) = hand_makespan_s(&dag);
        dag_free(&dag);
        plan_free(&plan);
    }
    CHECK_CLOSE(send_s, 2e-6 + 4.0 * 64 * 1024 / 200e9, 1e-14);
    CHECK_CLOSE(with_s, without_s + send_s, 1e-12);
}

/* Two replicas of two stages run on TP 4, with one head of keys and values. Each rank sums its copies' gradients before
 * the reductions: 420 layers of 64 x 32 at 4 bytes, in a ring of 4. The first stage ends last, so all wait for it.
 * zero2 has reduced them before, and its two ranks sum halves. */
TEST(copied_kv_heads__are_summed_before_the_reductions)
{
    struct model model = *hand_setting()->model;
    struct cost_setting setting = *hand_setting();
    setting.model = &model;
    model.kinds[0].kv_heads = 1;
    for (int i = 0; i < 3; i++) { /* without copies, with them, and under zero2 */
        struct plan plan;
        int32_t stages = i == 2 ? 1 : 2, n_sums = 0;
        hand_whole_samples(&plan, 2, stages, 16);
        hand_options(&setting, &(struct scenario_plan){.cp = 1,
                                                       .dp = 2,
                                                       .sharding = i == 2 ? SCENARIO_ZERO2 : SCENARIO_ZERO1,
                                                       .kv_copies = i > 0,
                                                       .sequence_parallel = true});
        for (int32_t k = 0; k < 2; k++) {
            struct plan_layout *layout = &plan.phases[0].pipelines[k].layout;
            layout->tensor = 4;
            layout->first_rank = 4 * k;
            layout->stage_stride = 8;
        }
        struct dag dag = hand_built(&plan, &setting, (struct dag_options){.gradient_sync = true});
        struct dag folded =
            hand_built(&plan, &setting, (struct dag_options){.gradient_sync = true, .fold_equal = true});
        CHECK_TRUE(hand_makespan_s(&folded) == hand_makespan_s(&dag));
        dag_free(&folded);
        double makespan_s = hand_makespan_s(&dag), sent_bytes, bytes = 840.0 / stages * 64 * 32 * 4 / (i == 2 ? 2 : 1);
        setting.tensor = 4;
        double sum_s = cost_collective_s(&setting, DEVICE_ALL_REDUCE, bytes, 4);
        for (int32_t task = 0; task < dag.n_tasks; task++)
            if (dag.tasks[task].kind == DAG_SYNC && dag.tasks[task].purpose == DAG_TENSOR) {
                CHECK_CLOSE(dag.duration_s[task], sum_s, 1e-14);
                dag.duration_s[task] = 0;
                n_sums++;
            }
        CHECK_EQUAL(n_sums, i > 0 ? 2 * stages : 0);
        CHECK_CLOSE(makespan_s - hand_makespan_s(&dag), i > 0 ? sum_s : 0, 1e-9);
        struct cost_setting rank = dag_rank_setting(&setting, &plan.phases[0].pipelines[0].layout, 0);
        cost_copied_sum_s(&rank, i == 2 ? 2 : 1, &sent_bytes);
        CHECK_CLOSE(sent_bytes, i > 0 ? 2 * 3.0 / 4 * bytes : 0, 1e-14);
        dag_free(&dag);
        plan_free(&plan);
    }
}

/* Four replicas of one stage of P parameters are on a node. In an all-reduce of fp32 gradients 2 x 3/4 of 4P leave
 * each, sent in bf16 half of that. A reduce-scatter in bf16 sends 3/4 of 2P. Each rank still updates and gathers its
 * quarter. */
TEST(gradient_reduction__sends_all_gradients_or_a_shard)
{
    static const struct {
        struct scenario_plan layout;
        double scattered, reduced;
    } cases[] = {
        {{.cp = 1, .dp = 4, .gradient_reduction = SCENARIO_ALL_REDUCE}, 0, 6},
        {{.cp = 1, .dp = 4, .gradient_reduction = SCENARIO_ALL_REDUCE, .reduce_precision = SCENARIO_REDUCE_BF16}, 0, 3},
        {{.cp = 1, .dp = 4, .reduce_precision = SCENARIO_REDUCE_BF16}, 1.5, 0},
        {{.cp = 1, .dp = 4, .gradients = SCENARIO_BF16, .reduce_precision = SCENARIO_REDUCE_FP32}, 3, 0},
    };
    struct platform platform = hand_platform("hopper-1x8");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct plan plan;
        struct cost_setting setting = *hand_setting();
        hand_whole_samples(&plan, 4, 1, 16);
        hand_options(&setting, &cases[i].layout);
        struct dag dag = hand_built(&plan, &setting, (struct dag_options){.gradient_sync = true});
        double parameters = hand_stage_parameters(setting.model, 1, 840, true, true);
        check_sends(&dag, DAG_REDUCE_SCATTER, cases[i].scattered > 0 ? 4 : 0, parameters * cases[i].scattered);
        check_sends(&dag, DAG_ALL_REDUCE, cases[i].reduced > 0 ? 4 : 0, parameters * cases[i].reduced);
        check_sends(&dag, DAG_ALL_GATHER, 4, parameters * 1.5);
        int32_t optimizer = hand_find(&dag, DAG_OPTIMIZER, DAG_PASS, 0);
        CHECK_CLOSE(dag.duration_s[optimizer], cost_optimizer_s(&setting, parameters, 4), 1e-15);
        hand_engines_agree(&dag, &platform);
        dag_free(&dag);
        plan_free(&plan);
    }
}
