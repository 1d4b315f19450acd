/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check the tasks of rings and collectives of context and tensor ranks. */
#include "dag/dag.h"

#include <math.h>

#include "hand_dag.h"
#include "hand_plan.h"
#include "harness.h"

/* Make a micro-batch on CP 2 on one node. */
static void one_micro_batch_on_two_ranks(struct plan *plan)
{
    hand_plan(plan, 1, 1, 2);
    for (int pass = 0; pass < N_PASSES; pass++)
        hand_micro_batch(&plan->phases[0].pipelines[0].partition[pass], (struct slice){0, 0, 16})->context = 2;
    hand_order(plan);
}

/* GEMMs of both ranks run, then attention beside a ring of two sends. The pass ends with the later one. */
TEST(context_ring__runs_beside_attention)
{
    struct plan plan;
    one_micro_batch_on_two_ranks(&plan);
    struct dag dag = hand_built(&plan, hand_setting(), (struct dag_options){0});
    CHECK_EQUAL(hand_count(&dag, DAG_COMPUTE, DAG_PASS), 4);
    CHECK_EQUAL(hand_count(&dag, DAG_ATTENTION, DAG_PASS), 4);
    CHECK_EQUAL(hand_count(&dag, DAG_SEND, DAG_RING), 4);
    CHECK_EQUAL(hand_count(&dag, DAG_SYNC, DAG_RING), 4);
    const double ring_s[] = {1.0, 9.0};
    for (int i = 0; i < 2; i++) {
        for (int32_t task = 0; task < dag.n_tasks; task++)
            dag.duration_s[task] = dag.tasks[task].kind == DAG_COMPUTE     ? 2.0 + dag.tasks[task].dag_rank
                                   : dag.tasks[task].kind == DAG_ATTENTION ? 4.0
                                   : dag.tasks[task].kind == DAG_SEND      ? ring_s[i]
                                                                           : 0.0;
        /* place 1 ends its GEMMs at 3, attention at 7, the ring at 4 or 12; the backward repeats it */
        CHECK_CLOSE(hand_makespan_s(&dag), i == 0 ? 14.0 : 24.0, 1e-15);
    }
    dag_free(&dag);
    plan_free(&plan);
}

/* The second micro-batch of pipeline 0 is the first of pipeline 1. Each message bears the number of the pipeline that
 * sends it. */
TEST(context_ring__labels_messages_with_the_micro_batch_of_their_pipeline)
{
    struct plan plan;
    hand_plan(&plan, 2, 1, 1);
    struct plan_phase *phase = &plan.phases[0];
    hand_group(phase, 2);
    for (int pass = 0; pass < N_PASSES; pass++) {
        hand_micro_batch(&phase->pipelines[0].partition[pass], (struct slice){1, 0, 16});
        for (int i = 0; i < 2; i++) {
            struct plan_micro_batch *micro_batch =
                hand_micro_batch(&phase->pipelines[i].partition[pass], (struct slice){0, 0, 16});
            micro_batch->context = 2;
            micro_batch->group = 0;
        }
    }
    hand_order(&plan);
    struct dag dag = hand_built(&plan, hand_setting(), (struct dag_options){.gradient_sync = true});
    CHECK_EQUAL(hand_count(&dag, DAG_SEND, DAG_RING), 4);
    for (int32_t i = 0; i < dag.n_tasks; i++) {
        const struct dag_task *task = &dag.tasks[i];
        if (task->purpose == DAG_RING)
            CHECK_EQUAL(task->micro_batch, 1 - task->pipeline);
        if (task->purpose == DAG_REDUCE_SCATTER)
            CHECK_EQUAL(task->micro_batch, -1);
    }
    dag_free(&dag);
    plan_free(&plan);
}

TEST(context_ring__comes_before_attention_without_overlap)
{
    struct plan plan;
    struct cost_setting setting = *hand_setting();
    one_micro_batch_on_two_ranks(&plan);
    setting.cp_overlap = false;
    struct dag dag = hand_built(&plan, &setting, (struct dag_options){0});
    for (int32_t task = 0; task < dag.n_tasks; task++)
        dag.duration_s[task] = dag.tasks[task].kind == DAG_SYNC ? 0.0 : 1.0;
    CHECK_CLOSE(hand_makespan_s(&dag), 6.0, 1e-15); /* GEMMs, ring, attention, twice */
    dag_free(&dag);

    setting.cp_overlap = true; /* it has no effect on a gather */
    setting.cp_type = SCENARIO_ALL_GATHER;
    dag = hand_built(&plan, &setting, (struct dag_options){0});
    double expected_s = 0;
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
        struct cost_pass cost = dag_pass_cost(&plan.phases[0].pipelines[0], &setting, pass, 0, 0);
        CHECK_TRUE(cost.context_s > 0);
        expected_s += cost.kernels_s + cost.context_s + cost.attention_s;
    }
    CHECK_CLOSE(hand_makespan_s(&dag), expected_s, 1e-12);
    dag_free(&dag);
    plan_free(&plan);
}

/* Make pipelines of one stage in one group, `each` on each node, that share one sample of 64 tokens. */
static void shared_sample(struct plan *plan, int32_t n, int32_t each, int32_t tensor)
{
    hand_plan(plan, n, 1, 1);
    struct plan_phase *phase = &plan->phases[0];
    hand_group(phase, n);
    for (int32_t i = 0; i < n; i++) {
        phase->pipelines[i].layout.tensor = tensor;
        phase->pipelines[i].layout.first_rank = i / each * 8 + i % each * tensor;
        for (int pass = 0; pass < N_PASSES; pass++) {
            struct plan_micro_batch *micro_batch =
                hand_micro_batch(&phase->pipelines[i].partition[pass], (struct slice){0, 0, 64});
            micro_batch->context = n;
            micro_batch->group = 0;
        }
    }
    hand_order(plan);
}

/* Four pipelines form one group, two a node (stride 8 between nodes). Keys and values go round point to point. All
 * bytes take each hop, so they take one NIC of each node. Gradients go by rails. Half of the bytes stays inside each
 * node, half takes its two NICs. */
TEST(context_ring__crosses_nodes_point_to_point)
{
    struct plan plan;
    shared_sample(&plan, 4, 2, 1);
    const struct plan_phase *phase = &plan.phases[0];
    struct dag dag = hand_built(&plan, hand_setting(), (struct dag_options){.gradient_sync = true});
    struct cost_pass cost = dag_pass_cost(&phase->pipelines[0], hand_setting(), PASS_FORWARD, 0, 0);
    CHECK_EQUAL(hand_count(&dag, DAG_SEND, DAG_RING), 8);
    static const int32_t next[] = {1, 8, 9, 0};
    int32_t task = 0;
    for (int i = 0; i < 4; i++, task++) {
        task = hand_find(&dag, DAG_SEND, DAG_RING, task);
        CHECK_EQUAL(dag.tasks[task].to_rank, next[i]);
        CHECK_CLOSE(dag.tasks[task].wire_bytes, cost.ring_bytes, 1e-15);
        double latency_s = cost.ring_steps * (i % 2 ? 2e-6 : 1e-6);
        CHECK_CLOSE(dag.duration_s[task], latency_s + cost.ring_bytes / (i % 2 ? 50e9 : 200e9), 1e-15);
    }
    CHECK_EQUAL(hand_count(&dag, DAG_SEND, DAG_REDUCE_SCATTER), 8);
    static const int32_t to[] = {1, 8, 0, 9, 9, 0, 8, 1};
    const struct model *model = hand_setting()->model;
    double parameters = hand_stage_parameters(model, 1, (int32_t)model->layers, true, true);
    double bytes = parameters * 4 * 3 / 4;
    task = 0;
    for (int i = 0; i < 8; i++, task++) {
        task = hand_find(&dag, DAG_SEND, DAG_REDUCE_SCATTER, task);
        CHECK_EQUAL(dag.tasks[task].to_rank, to[i]);
        CHECK_CLOSE(dag.tasks[task].wire_bytes, bytes / 2, 1e-15);
        CHECK_EQUAL(dag.tasks[task].stream % DAG_N_STREAMS, i % 2 ? DAG_STREAM_RAIL : DAG_STREAM_COLLECTIVE);
    }
    dag_free(&dag);
    plan_free(&plan);
}

/* Eight replicas on two nodes of 4 GPUs, which are one NVLink domain, form one ring. Two domains of eight are joined by
 * eight rails. */
TEST(gradients__take_rails_between_nvlink_domains_only)
{
    for (int32_t domains = 1; domains <= 2; domains++) {
        struct plan plan;
        int32_t n_rails = 0;
        hand_whole_samples(&plan, 8 * domains, 1, 64);
        struct dag dag = hand_built(&plan, hand_rack_setting(), (struct dag_options){.gradient_sync = true});
        for (int32_t i = 0; i < dag.n_tasks; i++)
            n_rails += dag.tasks[i].kind == DAG_SEND && dag.tasks[i].stream % DAG_N_STREAMS == DAG_STREAM_RAIL;
        int32_t n_sends = hand_count(&dag, DAG_SEND, DAG_REDUCE_SCATTER) + hand_count(&dag, DAG_SEND, DAG_ALL_GATHER);
        CHECK_EQUAL(n_sends, domains == 1 ? 16 : 64); /* two collectives */
        CHECK_EQUAL(n_rails, domains == 1 ? 0 : 32);
        dag_free(&dag);
        plan_free(&plan);
    }
}

/* Check that `first` and the next n - 1 SENDs of the context are of one NIC. They have so many bytes and seconds and
 * go, one after the other, to the ranks given. */
static void check_flows(const struct dag *dag, int32_t first, int32_t n, const int32_t *to, double bytes,
                        double seconds)
{
    for (int32_t i = 0, task = first; i < n; i++, task++) {
        task = hand_find(dag, DAG_SEND, DAG_RING, task);
        CHECK_EQUAL(dag->tasks[task].stream % DAG_N_STREAMS, DAG_STREAM_RAIL);
        CHECK_EQUAL(dag->tasks[task].to_rank, to[i]);
        CHECK_CLOSE(dag->tasks[task].wire_bytes, bytes, 1e-14);
        CHECK_CLOSE(dag->duration_s[task], seconds, 1e-12);
    }
}

/* There are eight ranks of TP 4, two on each of four nodes, with h = k = 64. A GPU has 8 tokens x 64 x 2/4 bytes of
 * each of four tensors. 6/8 of them go to the six ranks on other nodes by its NIC: 192 bytes in 2 us and 192/50e9 s. A
 * pass sends them 4 x 840 times, a third to each node. The rest inside the node is faster. Gathered keys and values
 * have 64 x 256/4 bytes a layer. The curve of rails says how much one NIC sends to the next node. */
TEST(context_collective__crosses_nodes_as_transfers)
{
    struct platform platform = hand_platform("hopper-8x8");
    struct cost_setting setting = *hand_setting();
    struct device device = *setting.device;
    struct plan plan;
    device.collective[DEVICE_ALL_TO_ALL] = (struct device_collective){.latency_s = 1e-6, .efficiency = 1};
    setting.device = &device;
    shared_sample(&plan, 8, 2, 4);
    static const int32_t others[] = {8, 16, 24};
    for (int gathers = 0; gathers < 2; gathers++) {
        setting.cp_type = gathers ? SCENARIO_ALL_GATHER : SCENARIO_ULYSSES;
        struct dag dag = hand_built(&plan, &setting, (struct dag_options){0});
        struct cost_pass pass[N_PASSES];
        for (int i = 0; i < N_PASSES; i++)
            pass[i] = dag_pass_cost(&plan.phases[0].pipelines[0], &setting, (enum pass)i, 0, 0);
        double alone_s = cost_pass_s(&pass[PASS_FORWARD]) + cost_pass_s(&pass[PASS_BACKWARD]);
        CHECK_CLOSE(hand_makespan_s(&dag), alone_s, 1e-12);
        CHECK_EQUAL(hand_count(&dag, DAG_SEND, DAG_RING), 2 * 8 * (gathers ? 1 : 3));
        int32_t first = hand_find(&dag, DAG_SEND, DAG_RING, 0);
        if (gathers) {
            double bytes = cost_of_rails(&setting, DEVICE_ALL_GATHER, COST_NIC, 64 * 64, 8, 2).wire_bytes;
            check_flows(&dag, first, 1, others, 840 * bytes, pass[PASS_FORWARD].context_s);
        } else {
            check_flows(&dag, first, 3, others, 840 * 4 * 192.0 / 3, 840 * 4 * (2e-6 + 192 / 50e9) / 3);
        }
        hand_engines_agree(&dag, &platform);
        dag_free(&dag);
    }
    plan_free(&plan);
}

/* Three ranks of TP 2 run on one node, or of TP 4 unevenly on two. The collectives stay seconds from each rank to the
 * next. */
TEST(context_collective__stays_seconds_inside_a_node)
{
    struct cost_setting setting = *hand_setting();
    struct device device = *setting.device;
    device.collective[DEVICE_ALL_TO_ALL] = (struct device_collective){.latency_s = 1e-6, .efficiency = 1};
    setting.device = &device;
    setting.cp_type = SCENARIO_ULYSSES;
    static const int32_t each[] = {3, 2}, tensor[] = {2, 4};
    for (int i = 0; i < 2; i++) {
        struct plan plan;
        shared_sample(&plan, 3, each[i], tensor[i]);
        struct dag dag = hand_built(&plan, &setting, (struct dag_options){0});
        double context_s = dag_pass_cost(&plan.phases[0].pipelines[0], &setting, PASS_FORWARD, 0, 0).context_s;
        CHECK_EQUAL(hand_count(&dag, DAG_SEND, DAG_RING), 2 * 3);
        int32_t first = hand_find(&dag, DAG_SEND, DAG_RING, 0);
        CHECK_CLOSE(dag.duration_s[first], context_s, 1e-12);
        CHECK_EQUAL(dag.tasks[first].stream % DAG_N_STREAMS, DAG_STREAM_COLLECTIVE);
        dag_free(&dag);
        plan_free(&plan);
    }
}

/* Tensor parallelism is simulated rank by rank. Its collectives are rings that take as long as inside a folded pass. */
TEST(all_tensor_ranks__take_as_long_as_folded_ones)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct plan plan;
        hand_random(&plan, seed);
        for (int32_t i = 0; i < plan.phases[0].n_pipelines; i++) {
            struct plan_layout *layout = &plan.phases[0].pipelines[i].layout;
            layout->tensor = 4;
            layout->first_rank *= 4;
            layout->stage_stride *= 4;
        }
        struct dag folded = hand_built(&plan, hand_setting_of_heads(seed), (struct dag_options){.gradient_sync = true});
        struct dag all = hand_built(&plan, hand_setting_of_heads(seed),
                                    (struct dag_options){.all_tensor_ranks = true, .gradient_sync = true});
        CHECK_EQUAL(all.n_ranks, 4 * folded.n_ranks);
        CHECK_TRUE(hand_count(&all, DAG_SEND, DAG_TENSOR) > 0);
        CHECK_CLOSE(hand_makespan_s(&all), hand_makespan_s(&folded), 1e-12);
        dag_free(&folded);
        dag_free(&all);
        plan_free(&plan);
    }
}
