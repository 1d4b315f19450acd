/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check how zero2 and zero3 join the passes of their ranks, and what their bytes do on links. */
#include "dag/joins.h"

#include <math.h>

#include "bounds/bubble.h"
#include "hand_dag.h"
#include "hand_plan.h"
#include "harness.h"

enum { MOST = 4 };

/* Make pipelines of one stage, with whole samples of these tokens as micro-batches; 0 ends a row. */
static void rows(struct plan *plan, int32_t n_pipelines, const int32_t tokens[][MOST])
{
    int32_t sample = 0;
    hand_plan(plan, n_pipelines, 1, 1);
    for (int32_t i = 0; i < n_pipelines; i++)
        for (int32_t k = 0; k < MOST && tokens[i][k] > 0; k++, sample++)
            for (int pass = 0; pass < N_PASSES; pass++)
                hand_micro_batch(&plan->phases[0].pipelines[i].partition[pass],
                                 (struct slice){sample, 0, tokens[i][k]});
    hand_order(plan);
}

static struct cost_setting sharded(enum scenario_sharding sharding, int32_t ranks)
{
    struct cost_setting setting = *hand_setting();
    hand_options(&setting, &(struct scenario_plan){.dp = ranks, .sharding = sharding, .sequence_parallel = true});
    return setting;
}

/* Return the seconds of the k-th micro-batch on the slowest rank: of its forward, its backward, or both. */
static double slowest_s(const struct plan *plan, const struct cost_setting *setting, int32_t k, bool forward,
                        bool backward)
{
    double slowest = 0;
    for (int32_t i = 0; i < plan->phases[0].n_pipelines; i++) {
        const struct plan_pipeline *pipeline = &plan->phases[0].pipelines[i];
        if (k >= pipeline->partition[PASS_FORWARD].n_micro_batches)
            continue;
        struct cost_pass first = dag_pass_cost(pipeline, setting, PASS_FORWARD, k, 0),
                         second = dag_pass_cost(pipeline, setting, PASS_BACKWARD, k, 0);
        slowest = fmax(slowest, forward * cost_pass_s(&first) + backward * cost_pass_s(&second));
    }
    return slowest;
}

/* Return the seconds of all passes of a rank. */
static double rank_s(const struct plan *plan, const struct cost_setting *setting, int32_t rank)
{
    const struct plan_pipeline *pipeline = &plan->phases[0].pipelines[rank];
    double seconds = 0;
    for (int32_t k = 0; k < pipeline->partition[PASS_FORWARD].n_micro_batches; k++)
        for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
            struct cost_pass cost = dag_pass_cost(pipeline, setting, pass, k, 0);
            seconds += cost_pass_s(&cost);
        }
    return seconds;
}

static const int32_t three[][MOST] = {{3000, 1000, 2000}, {1000, 3000}, {2000, 2000, 500}};

/* Three ranks have 3, 2 and 3 micro-batches. The step is the sum of the slowest forwards and the slowest backwards. The
 * rank with two runs an empty one. Folded and whole graphs agree. */
TEST(zero3__sums_the_slowest_passes_of_its_ranks)
{
    struct plan plan;
    rows(&plan, 3, three);
    struct cost_setting setting = sharded(SCENARIO_ZERO3, 3);
    double expected = 0;
    for (int32_t k = 0; k < 3; k++)
        expected += slowest_s(&plan, &setting, k, true, false) + slowest_s(&plan, &setting, k, false, true);
    CHECK_CLOSE(hand_plan_makespan_s(&plan, &setting, (struct dag_options){0}), expected, 1e-12);
    CHECK_CLOSE(hand_plan_makespan_s(&plan, &setting, (struct dag_options){.fold_equal = true}), expected, 1e-12);
    plan_free(&plan);
}

TEST(zero2__sums_the_slowest_micro_batches_of_its_ranks)
{
    struct plan plan;
    rows(&plan, 3, three);
    struct cost_setting setting = sharded(SCENARIO_ZERO2, 3);
    double expected = 0;
    for (int32_t k = 0; k < 3; k++)
        expected += slowest_s(&plan, &setting, k, true, true);
    CHECK_CLOSE(hand_plan_makespan_s(&plan, &setting, (struct dag_options){0}), expected, 1e-12);
    plan_free(&plan);
}

/* zero1 waits only at the end of the step. */
TEST(zero1__takes_the_slowest_sum_of_a_rank)
{
    struct plan plan;
    rows(&plan, 3, three);
    struct cost_setting setting = sharded(SCENARIO_ZERO1, 3);
    double expected = 0;
    for (int32_t i = 0; i < 3; i++)
        expected = fmax(expected, rank_s(&plan, &setting, i));
    CHECK_CLOSE(hand_plan_makespan_s(&plan, &setting, (struct dag_options){0}), expected, 1e-12);
    plan_free(&plan);
}

/* On demand no rank waits for another before the end. Whole graphs have the reads and sends as tasks of their own. */
TEST(on_demand__takes_the_slowest_sum_of_a_rank)
{
    struct plan plan;
    rows(&plan, 3, three);
    struct cost_setting setting = sharded(SCENARIO_ZERO3, 3);
    setting.on_demand_slowdown = 1;
    double expected = 0;
    for (int32_t i = 0; i < 3; i++)
        expected = fmax(expected, rank_s(&plan, &setting, i));
    CHECK_CLOSE(hand_plan_makespan_s(&plan, &setting, (struct dag_options){0}), expected, 1e-12);
    CHECK_CLOSE(hand_plan_makespan_s(&plan, &setting, (struct dag_options){.fold_equal = true}), expected, 1e-12);
    plan_free(&plan);
}

/* Rank 0 has a sample in two slices, so its passes are F F B B. Rank 1 has two samples, F B F B. A forward takes 1, a
 * backward 2. In order of joins the ranks run F F, F -, B B, - F, B B: rank 1's backward waits for rank 0's second
 * forward. Then rank 0 is before its last backward, and rank 1 before its second forward. */
TEST(zero3__runs_one_kind_of_pass_at_a_time)
{
    struct plan plan;
    struct timeline timeline = {0};
    hand_plan(&plan, 2, 1, 1);
    struct plan_pipeline *pipelines = plan.phases[0].pipelines;
    for (int32_t k = 0; k < 2; k++) {
        hand_micro_batch(&pipelines[0].partition[PASS_FORWARD], (struct slice){0, 8 * k, 8 * k + 8});
        hand_micro_batch(&pipelines[0].partition[PASS_BACKWARD], (struct slice){0, 8 - 8 * k, 16 - 8 * k});
        for (int pass = 0; pass < N_PASSES; pass++)
            hand_micro_batch(&pipelines[1].partition[pass], (struct slice){1 + k, 0, 16});
    }
    hand_order(&plan);
    struct cost_setting setting = sharded(SCENARIO_ZERO3, 2);
    struct dag dag = hand_built(&plan, &setting, (struct dag_options){0});
    hand_times(&dag, 1.0, 2.0);
    critical_path(&dag, &timeline);
    CHECK_CLOSE(timeline.makespan_s, 1 + 1 + 2 + 1 + 2, 1e-15);
    struct bubble bubble = bubble_of(&dag, &timeline);
    CHECK_CLOSE(bubble.dp_wait_s, 2 * 7.0 - 2 * 6.0, 1e-15);
    CHECK_CLOSE(bubble.busy_s, 12.0, 1e-15);
    timeline_free(&timeline);
    dag_free(&dag);
    plan_free(&plan);
}

/* Four ranks, one on each node, all with one sample. The platform has no links but NICs. SimGrid's step is the critical
 * path's. With uplinks of 1/4 of a NIC each byte takes four times as long. */
static double simgrid_s(const struct plan *plan, const struct cost_setting *setting, struct platform platform)
{
    struct timeline timeline = {0};
    struct error err = {0};
    struct cost_setting own = *setting;
    own.platform = &platform;
    struct dag dag = hand_built(plan, &own, (struct dag_options){0});
    CHECK_TRUE(hand_execute(&dag, &platform, &timeline, &err));
    double seconds = timeline.makespan_s;
    timeline_free(&timeline);
    dag_free(&dag);
    return seconds;
}

/* Layers of 201 million parameters are gathered in some 6 ms, and 64 tokens compute in less. So zero3 waits for links
 * nearly all the time, and a quarter of their bandwidth makes it nearly 4 times as slow. With 65,536 tokens kernels
 * hide the gathers, and even four times their time. */
TEST(zero3__is_slowed_by_a_narrow_fabric_as_by_hand)
{
    static const int32_t tokens[][4][MOST] = {{{64}, {64}, {64}, {64}}, {{65536}, {65536}, {65536}, {65536}}};
    struct model model = *hand_setting()->model;
    struct device device = *hand_setting()->device;
    struct platform platform = hand_platform("hopper-4x1");
    platform.keys.leaf = 1;
    struct platform narrow = platform;
    narrow.keys.oversubscription = 4;
    model.hidden = 4096;
    model.kinds[0].ffn = 16384;
    model.layers = 8;
    device.peak_flop_per_s[PRECISION_BF16] = 1e15;
    for (int i = 0; i < 2; i++) {
        struct plan plan;
        rows(&plan, 4, tokens[i]);
        struct cost_setting setting = sharded(SCENARIO_ZERO3, 4);
        setting.platform = &platform;
        setting.model = &model;
        setting.device = &device;
        hand_layers(&setting, 8);
        double free_s = hand_plan_makespan_s(&plan, &setting, (struct dag_options){0}), expected = 0;
        double layers = 8 * cost_largest_layer_parameters(&setting);
        double ends = cost_ends_parameters(&model, 1, true, true);
        for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
            struct shards_traffic traffic = shards_traffic_of(&setting, pass);
            struct cost_pass cost = dag_pass_cost(&plan.phases[0].pipelines[0], &setting, pass, 0, 0);
            /* forward bf16 weights; backward those of layers again, and gradients of 4 bytes */
            double bytes = 0.75 * (pass == PASS_FORWARD ? 2 * (layers + ends) : 6 * layers + 4 * ends);
            double pass_s = cost_pass_s(&cost), layer_s = (pass_s - cost.shard_s) / 8;
            CHECK_CLOSE(traffic.rail_bytes, bytes, 1e-12);
            expected += fmax(pass_s, fmin(pass_s, traffic.all_s + layer_s) + 3 * bytes / platform.nic_bytes_per_s);
        }
        CHECK_CLOSE(simgrid_s(&plan, &setting, platform), free_s, 1e-9);
        double narrow_s = simgrid_s(&plan, &setting, narrow);
        CHECK_CLOSE(narrow_s, expected, 1e-9);
        CHECK_TRUE(i == 0 ? narrow_s > 3.8 * free_s : narrow_s < 1.01 * free_s);
        plan_free(&plan);
    }
}
