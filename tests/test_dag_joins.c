/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check how pipelines that share experts wait for each other, and how gradients of experts are reduced. */
#include "dag/joins.h"

#include <math.h>

#include "bounds/bubble.h"
#include "bounds/evaluate.h"
#include "bounds/traffic.h"
#include "hand_dag.h"
#include "hand_plan.h"
#include "harness.h"
#include "plan/order.h"

enum { MOST = 4, EXPERTS = 8 };

/* Return hand_setting's model with eight layers, all with experts. */
static struct model with_experts(void)
{
    struct model model = *hand_setting()->model;
    model.layers = 8;
    model.kinds[0].experts = EXPERTS;
    model.kinds[0].top_k = 2;
    return model;
}

/* Make a setting of `ranks` data-parallel ranks, of which `experts` neighbours share experts. */
static struct cost_setting setting_of(const struct model *model, int32_t ranks, int32_t experts)
{
    struct cost_setting setting = *hand_setting();
    setting.model = model;
    hand_options(&setting, &(struct scenario_plan){.dp = ranks, .ep = experts, .sequence_parallel = true});
    hand_layers(&setting, 8);
    return setting;
}

/* Make pipelines with whole samples of these tokens as micro-batches; 0 ends a row. */
static void rows(struct plan *plan, int32_t n_pipelines, int32_t stages, const int32_t tokens[][MOST])
{
    int32_t sample = 0;
    hand_plan(plan, n_pipelines, stages, 1);
    for (int32_t i = 0; i < n_pipelines; i++)
        for (int32_t k = 0; k < MOST && tokens[i][k] > 0; k++, sample++)
            for (int pass = 0; pass < N_PASSES; pass++)
                hand_micro_batch(&plan->phases[0].pipelines[i].partition[pass],
                                 (struct slice){sample, 0, tokens[i][k]});
    hand_order(plan);
}

static double pass_s(const struct plan *plan, const struct cost_setting *setting, int32_t pipeline, enum pass pass,
                     int32_t k)
{
    struct cost_pass cost = dag_pass_cost(&plan->phases[0].pipelines[pipeline], setting, pass, k, 0);
    return cost_pass_s(&cost);
}

static const int32_t four[][MOST] = {{3000, 1000, 2000}, {1000, 3000, 100}, {2000, 2000, 500}, {400, 300, 5000}};

/* Ranks 0 and 1 share experts, and ranks 2 and 3. Each pass of a pair lasts as long as its slower one. The pairs do not
 * wait for each other. */
TEST(experts__let_each_pass_last_as_long_as_the_slowest_of_its_ranks)
{
    const struct model model = with_experts();
    struct cost_setting setting = setting_of(&model, 4, 2);
    struct plan plan;
    rows(&plan, 4, 1, four);
    double pair_s[2] = {0};
    for (int32_t k = 0; k < 3; k++)
        for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++)
            for (int32_t pair = 0; pair < 2; pair++)
                pair_s[pair] +=
                    fmax(pass_s(&plan, &setting, 2 * pair, pass, k), pass_s(&plan, &setting, 2 * pair + 1, pass, k));
    double expected = fmax(pair_s[0], pair_s[1]);
    CHECK_CLOSE(hand_plan_makespan_s(&plan, &setting, (struct dag_options){0}), expected, 1e-12);
    CHECK_CLOSE(hand_plan_makespan_s(&plan, &setting, (struct dag_options){.fold_equal = true}), expected, 1e-12);
    /* With experts on each rank, no rank waits. */
    setting.expert_ranks = 1;
    double alone_s = 0;
    for (int32_t i = 0; i < 4; i++) {
        double sum_s = 0;
        for (int32_t k = 0; k < 3; k++)
            sum_s += pass_s(&plan, &setting, i, PASS_FORWARD, k) + pass_s(&plan, &setting, i, PASS_BACKWARD, k);
        alone_s = fmax(alone_s, sum_s);
    }
    CHECK_CLOSE(hand_plan_makespan_s(&plan, &setting, (struct dag_options){0}), alone_s, 1e-12);
    plan_free(&plan);
}

/* A forward takes 1 and a backward 2. Two pipelines of two stages have 1 and 3 micro-batches. The one with 1 runs empty
 * passes beside the other's, so both stages take as long as with 3 micro-batches alone: 1F1B's 3 x 3 + 3. */
TEST(experts__run_empty_passes_beside_a_pipeline_with_more_micro_batches)
{
    static const int32_t unequal[][MOST] = {{500}, {500, 500, 500}};
    const struct model model = with_experts();
    struct cost_setting setting = setting_of(&model, 2, 2);
    struct plan plan;
    struct timeline timeline = {0};
    rows(&plan, 2, 2, unequal);
    struct dag dag = hand_built(&plan, &setting, (struct dag_options){0});
    hand_times(&dag, 1, 2);
    hand_send_times(&dag, 0);
    critical_path(&dag, &timeline);
    CHECK_CLOSE(timeline.makespan_s, 3 * 3 + 3, 1e-12);
    struct bubble bubble = bubble_of(&dag, &timeline);
    CHECK_CLOSE(bubble.busy_s, 2 * (1 + 3) * 3, 1e-12);
    CHECK_CLOSE(bubble.total_s, 4 * timeline.makespan_s, 1e-12);
    timeline_free(&timeline);
    dag_free(&dag);
    plan_free(&plan);
}

/* With stages and any lengths SimGrid takes as long as the critical path, which is the longest path. */
TEST(experts__take_as_long_on_simgrid_as_on_the_longest_path)
{
    const struct model model = with_experts();
    const struct platform platform = hand_platform("hopper-2x8");
    for (int32_t experts = 2; experts <= 4; experts *= 2)
        for (int32_t stages = 1; stages <= 4; stages *= 2) {
            struct cost_setting setting = setting_of(&model, 4, experts);
            struct plan plan;
            setting.platform = &platform;
            rows(&plan, 4, stages, four);
            struct dag dag = hand_built(&plan, &setting, (struct dag_options){.gradient_sync = stages == 1});
            struct timeline path = hand_longest_path(&dag);
            CHECK_CLOSE(hand_makespan_s(&dag), path.makespan_s, 1e-12);
            CHECK_CLOSE(hand_makespan_s(&dag), hand_igraph_makespan_s(&dag), 1e-12);
            hand_engines_agree(&dag, &platform);
            timeline_free(&path);
            dag_free(&dag);
            plan_free(&plan);
        }
}

/* Return the makespan on SimGrid. wait_s: waits for tokens behind passes that another one follows, of all ranks */
static double simgrid_s(const struct plan *plan, const struct cost_setting *setting, struct platform platform,
                        double *wait_s)
{
    struct timeline timeline = {0};
    struct error err = {0};
    struct cost_setting own = *setting;
    own.platform = &platform;
    struct dag dag = hand_built(plan, &own, (struct dag_options){0});
    CHECK_TRUE(hand_execute(&dag, &platform, &timeline, &err));
    double seconds = timeline.makespan_s;
    *wait_s = bubble_of(&dag, &timeline).expert_wait_s;
    timeline_free(&timeline);
    dag_free(&dag);
    return seconds;
}

/* 16 ranks on two nodes share experts. Half of a token's bytes go to the other node, by NICs of their own. Uplinks of
 * half the NICs' bandwidth take twice as long for them, which each pass adds. */
TEST(experts__over_two_nodes_wait_for_narrow_uplinks_as_by_hand)
{
    enum { RANKS = 16 };
    struct model model = with_experts();
    model.kinds[0].experts = RANKS;
    struct platform platform = hand_platform("hopper-2x8");
    platform.keys.leaf = 1;
    struct platform narrow = platform;
    narrow.keys.oversubscription = 2;
    int32_t tokens[RANKS][MOST] = {{0}};
    for (int32_t i = 0; i < RANKS; i++)
        tokens[i][0] = 4096;
    struct cost_setting setting = setting_of(&model, RANKS, RANKS);
    setting.platform = &platform;
    struct plan plan;
    rows(&plan, RANKS, 1, (const int32_t(*)[MOST])tokens);
    double free_s = 0, nic_s = 0, wait_s;
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
        const struct cost_pass cost = dag_pass_cost(&plan.phases[0].pipelines[0], &setting, pass, 0, 0);
        double sent =
            8 * 2 * 4096.0 * 2 * (double)model.hidden * 2 / 2; /* layers, ways, tokens, experts, bytes, half */
        CHECK_CLOSE(cost.expert_nic_bytes * setting.device->nic.efficiency, sent, 0.01);
        free_s += cost_pass_s(&cost);
        nic_s += cost.expert_nic_bytes / platform.nic_bytes_per_s;
    }
    CHECK_CLOSE(simgrid_s(&plan, &setting, platform, &wait_s), free_s, 1e-9);
    CHECK_TRUE(wait_s < 1e-9);
    CHECK_CLOSE(simgrid_s(&plan, &setting, narrow, &wait_s), free_s + nic_s, 1e-9);
    CHECK_CLOSE(wait_s, RANKS * nic_s / 2, 1e-9); /* behind the forward; the backward is the last pass */
    plan_free(&plan);
}

/* Equal pipelines end their passes together, so one of them stands for all. */
TEST(experts__of_equal_pipelines_are_built_once)
{
    static const int32_t equal[][MOST] = {{700, 700}, {700, 700}, {700, 700}, {700, 700}};
    const struct model model = with_experts();
    struct cost_setting setting = setting_of(&model, 4, 4);
    struct plan plan;
    rows(&plan, 4, 2, equal);
    struct dag folded = hand_built(&plan, &setting, (struct dag_options){.fold_equal = true}),
               whole = hand_built(&plan, &setting, (struct dag_options){0});
    CHECK_TRUE(folded.n_tasks < whole.n_tasks / 3);
    CHECK_CLOSE(hand_makespan_s(&folded), hand_makespan_s(&whole), 1e-12);
    dag_free(&folded);
    dag_free(&whole);
    plan_free(&plan);
}

/*
 * Four ranks in a node with EP 2 and zero1. All four reduce dense gradients, of which 3/4 leave a rank. Ranks 0 and 2,
 * and 1 and 3, have the same experts and reduce them: half leaves a rank. Each optimizer updates a quarter and a half.
 */
TEST(experts__are_reduced_among_the_ranks_that_have_the_same)
{
    static const int32_t equal[][MOST] = {{700}, {700}, {700}, {700}};
    const struct model model = with_experts();
    struct cost_setting setting = setting_of(&model, 4, 2);
    struct plan plan;
    rows(&plan, 4, 1, equal);
    struct dag dag = hand_built(&plan, &setting, (struct dag_options){.gradient_sync = true}),
               passes = hand_built(&plan, &setting, (struct dag_options){0});
    double experts = cost_expert_parameters(&setting), dense = cost_stage_parameters(&setting, true, true) - experts;
    CHECK_TRUE(experts == 8.0 * EXPERTS / 2 * 3 * 64 * 128);
    CHECK_EQUAL(hand_count(&dag, DAG_SEND, DAG_REDUCE_SCATTER), 8);
    CHECK_EQUAL(hand_count(&dag, DAG_SEND, DAG_ALL_GATHER), 8);
    double seconds = 0;
    static const enum dag_purpose purposes[] = {DAG_REDUCE_SCATTER, DAG_ALL_GATHER};
    for (int i = 0; i < 2; i++) {
        double sent[2] = {0}, element = i == 0 ? 4 : 2;
        int32_t n[2] = {0};
        for (int32_t t = 0; t < dag.n_tasks; t++)
            if (dag.tasks[t].kind == DAG_SEND && dag.tasks[t].purpose == purposes[i]) {
                bool of_experts = fabs(dag.tasks[t].wire_bytes / (experts * element / 2) - 1) < 1e-12;
                sent[of_experts] = dag.tasks[t].wire_bytes;
                seconds += n[of_experts]++ == 0 ? dag.duration_s[t] : 0;
            }
        CHECK_CLOSE(sent[0], dense * element * 3 / 4, 1e-12);
        CHECK_CLOSE(sent[1], experts * element / 2, 1e-12);
        CHECK_TRUE(n[0] == 4 && n[1] == 4);
    }
    double optimizer_s = dag.duration_s[hand_find(&dag, DAG_OPTIMIZER, DAG_PASS, 0)];
    CHECK_CLOSE(optimizer_s, cost_optimizer_s(&setting, dense, 4) + cost_optimizer_s(&setting, experts, 2), 1e-12);
    CHECK_CLOSE(hand_makespan_s(&dag), hand_makespan_s(&passes) + seconds + optimizer_s, 1e-9);
    struct traffic traffic = traffic_of(&plan, &dag, &setting);
    CHECK_CLOSE(traffic.bytes[TRAFFIC_SYNC], 4 * 6 * (dense * 3 / 4 + experts / 2), 1e-12);
    dag_free(&dag);
    dag_free(&passes);
    plan_free(&plan);
}

/* If all ranks have different experts, none of their gradients is sent, and each rank has all of their states. */
TEST(experts__of_one_rank_are_not_reduced)
{
    static const int32_t equal[][MOST] = {{700}, {700}, {700}, {700}};
    const struct model model = with_experts();
    struct cost_setting setting = setting_of(&model, 4, 4);
    struct plan plan;
    rows(&plan, 4, 1, equal);
    struct dag dag = hand_built(&plan, &setting, (struct dag_options){.gradient_sync = true});
    CHECK_EQUAL(hand_count(&dag, DAG_SEND, DAG_REDUCE_SCATTER), 4);
    double experts = cost_expert_parameters(&setting), all = cost_layers_parameters(&setting);
    CHECK_CLOSE(cost_of_stage(cost_state_bytes, &setting, all, 4), 6 * all + 12 * ((all - experts) / 4 + experts),
                1e-12);
    dag_free(&dag);
    plan_free(&plan);
}

/* Overlapped reductions: the part that passes do not hide is shared by both collectives, and is at most all of it. */
TEST(experts__hide_their_reductions_beside_passes)
{
    static const int32_t equal[][MOST] = {{700, 700}, {700, 700}, {700, 700}, {700, 700}};
    const struct model model = with_experts();
    struct cost_setting setting = setting_of(&model, 4, 2);
    struct plan plan;
    rows(&plan, 4, 1, equal);
    const struct dag_options sync = {.gradient_sync = true};
    double exposed_s = hand_plan_makespan_s(&plan, &setting, sync);
    setting.dp_overlap = SCENARIO_OVERLAP_BOTH;
    double hidden_s = hand_plan_makespan_s(&plan, &setting, sync);
    CHECK_TRUE(hidden_s < exposed_s && hidden_s > hand_plan_makespan_s(&plan, &setting, (struct dag_options){0}));
    plan_free(&plan);
}
