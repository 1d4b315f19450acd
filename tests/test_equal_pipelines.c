/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check that equal pipelines are built once and give the same results. */
#include "dag/equal_pipelines.h"

#include <stdlib.h>

#include "base/check.h"
#include "bounds/bubble.h"
#include "bounds/memory.h"
#include "bounds/traffic.h"
#include "bounds/work.h"
#include "hand_plan.h"
#include "harness.h"
#include "simulate/micro_batches.h"

/* All results of bounds/ for a plan. */
struct told {
    int32_t n_tasks;
    double makespan_s, imbalance;
    struct bubble bubble;
    struct traffic traffic;
    struct work work;
    struct memory memory;
    struct memory_host host;
};

static void tell(const struct plan *plan, const struct cost_setting *setting, bool fold, struct told *told)
{
    struct dag dag = hand_built(plan, setting, (struct dag_options){.gradient_sync = true, .fold_equal = fold});
    struct timeline timeline = {0};
    critical_path(&dag, &timeline);
    *told = (struct told){.n_tasks = dag.n_tasks,
                          .makespan_s = timeline.makespan_s,
                          .imbalance = micro_batches_pipeline_imbalance(&dag),
                          .bubble = bubble_of(&dag, &timeline),
                          .traffic = traffic_of(plan, &dag, setting),
                          .work = work_of(plan, &dag, setting)};
    memory_of(plan, &dag, &timeline, setting, false, &told->memory);
    told->host = memory_host_of(plan, &dag, &told->memory, setting->platform, 0);
    timeline_free(&timeline);
    dag_free(&dag);
}

/* Make pipelines of so many micro-batches. The odd pipelines' samples are longer. offload: share of the even ones. */
static void two_sorts(struct plan *plan, int32_t n_pipelines, int32_t stages, int32_t context, int32_t n_micro_batches,
                      double offload)
{
    hand_plan(plan, n_pipelines, stages, context);
    for (int32_t i = 0; i < n_pipelines; i++)
        for (int32_t micro_batch = 0; micro_batch < n_micro_batches; micro_batch++)
            for (int pass = 0; pass < N_PASSES; pass++) {
                struct slice slice = {i * n_micro_batches + micro_batch, 0, i % 2 == 1 ? 4096 : 3072};
                struct plan_micro_batch *added = hand_micro_batch(&plan->phases[0].pipelines[i].partition[pass], slice);
                added->context = context;
                added->offload = i % 2 == 1 ? 0 : offload;
            }
    hand_order(plan);
}

static void check_same(const struct told *folded, const struct told *whole)
{
    int32_t wrong = 0;
    CHECK_TRUE(folded->makespan_s == whole->makespan_s && folded->imbalance == whole->imbalance);
    for (int i = 0; i < TRAFFIC_N_PURPOSES; i++)
        CHECK_TRUE(folded->traffic.bytes[i] == whole->traffic.bytes[i]);
    CHECK_CLOSE(folded->bubble.busy_s, whole->bubble.busy_s, 1e-9);
    CHECK_CLOSE(folded->bubble.ring_s, whole->bubble.ring_s, 1e-9);
    CHECK_CLOSE(folded->bubble.warm_up_s, whole->bubble.warm_up_s, 1e-9);
    CHECK_CLOSE(folded->bubble.imbalance_s, whole->bubble.imbalance_s, 1e-9);
    CHECK_CLOSE(folded->bubble.cool_down_s, whole->bubble.cool_down_s, 1e-9);
    CHECK_CLOSE(folded->bubble.dp_wait_s, whole->bubble.dp_wait_s, 1e-9);
    CHECK_CLOSE(folded->bubble.sync_s, whole->bubble.sync_s, 1e-9);
    CHECK_CLOSE(folded->bubble.total_s, whole->bubble.total_s, 1e-9);
    CHECK_TRUE(folded->work.pass_s == whole->work.pass_s && folded->work.hardware_flop == whole->work.hardware_flop);
    CHECK_EQUAL(folded->memory.n_ranks, whole->memory.n_ranks);
    for (int32_t i = 0; i < whole->memory.n_ranks; i++)
        wrong += folded->memory.peak_bytes[i] != whole->memory.peak_bytes[i] ||
                 folded->memory.host_peak_bytes[i] != whole->memory.host_peak_bytes[i];
    CHECK_EQUAL(wrong, 0);
    CHECK_TRUE(folded->host.bytes == whole->host.bytes && folded->host.node == whole->host.node);
}

/* @return tasks of the folded graph, percent of the whole one's */
static double compare(const struct plan *plan, const struct cost_setting *setting)
{
    struct told folded, whole;
    tell(plan, setting, true, &folded);
    tell(plan, setting, false, &whole);
    check_same(&folded, &whole);
    memory_free(&folded.memory);
    memory_free(&whole.memory);
    return 100.0 * folded.n_tasks / whole.n_tasks;
}

/* 4 pipelines are of 2 sorts, with 12 context ranks on nodes of 8. Rings run inside and between nodes, gradients over
 * 48 ranks. 1/24 of the passes' tasks are built. */
TEST(equal_pipelines__give_the_same_results_folded)
{
    static const int32_t types[] = {SCENARIO_RING, SCENARIO_ALL_GATHER};
    struct plan plan;
    two_sorts(&plan, 4, 2, 12, 690, 0);
    for (int i = 0; i < 2; i++) {
        struct cost_setting setting = *hand_setting();
        hand_options(&setting, &(struct scenario_plan){.cp_type = types[i], .sequence_parallel = true});
        setting.cp_overlap = i == 0;
        setting.dp_overlap = i == 0 ? SCENARIO_OVERLAP_BOTH : SCENARIO_OVERLAP_NONE;
        CHECK_TRUE(compare(&plan, &setting) < 10);
    }
    plan_free(&plan);
}

TEST(equal_pipelines__hold_as_much_on_the_host)
{
    struct plan plan;
    two_sorts(&plan, 8, 2, 1, 4100, 0.5);
    CHECK_TRUE(compare(&plan, hand_setting()) < 30);
    plan_free(&plan);
}

/* Hosts are of nodes, so equal pipelines offload to as many hosts. */
TEST(equal_pipelines__give_the_same_results_over_nvlink_domains)
{
    struct plan plan;
    two_sorts(&plan, 8, 2, 1, 4100, 0.5);
    CHECK_TRUE(compare(&plan, hand_rack_setting()) < 30);
    plan_free(&plan);
}

static void check_alike_on(const struct platform *platform, const struct plan *plan, const int32_t *expected)
{
    struct cost_setting setting = *hand_setting();
    setting.platform = platform;
    int32_t *alike = equal_pipelines_of(&plan->phases[0], &setting);
    for (int32_t i = 0; i < plan->phases[0].n_pipelines; i++)
        CHECK_EQUAL(alike[i], expected[i]);
    free(alike);
}

static void check_alike(const struct plan *plan, const int32_t *expected)
{
    check_alike_on(hand_setting()->platform, plan, expected);
}

TEST(equal_pipelines__differ_if_one_thing_differs)
{
    struct plan plan;
    two_sorts(&plan, 6, 2, 1, 3, 0);
    check_alike(&plan, (int32_t[]){0, 1, 2, 3, 2, 3}); /* ranks 0..5 send to 6..11, ranks 0 and 1 inside their node */
    plan_free(&plan);
    two_sorts(&plan, 8, 2, 1, 3, 0);
    struct plan_pipeline *pipelines = plan.phases[0].pipelines;
    check_alike(&plan, (int32_t[]){0, 1, 0, 1, 0, 1, 0, 1});
    pipelines[2].partition[PASS_BACKWARD].micro_batches[1].recompute = RECOMPUTE_FULL;
    pipelines[4].partition[PASS_FORWARD].micro_batches[2].padding_tokens = 1;
    pipelines[5].steps[0].micro_batch = 1;
    pipelines[7].partition[PASS_FORWARD].slices[1].sample = pipelines[7].partition[PASS_FORWARD].slices[0].sample;
    check_alike(&plan, (int32_t[]){0, 1, 2, 1, 4, 5, 0, 7});
    plan_free(&plan);
}

/* Stages of 12 ranks on nodes of 8 send to the node behind. With 6 ranks two ranks stay inside. */
TEST(equal_pipelines__include_context_ranks_that_all_leave_the_node)
{
    struct plan plan;
    two_sorts(&plan, 1, 2, 12, 3, 0);
    CHECK_TRUE(equal_pipelines_contexts(&plan.phases[0].pipelines[0], hand_setting()->platform));
    plan.phases[0].pipelines[0].partition[PASS_FORWARD].micro_batches[1].context = 1;
    CHECK_TRUE(!equal_pipelines_contexts(&plan.phases[0].pipelines[0], hand_setting()->platform));
    plan_free(&plan);
    two_sorts(&plan, 1, 2, 6, 3, 0);
    CHECK_TRUE(!equal_pipelines_contexts(&plan.phases[0].pipelines[0], hand_setting()->platform));
    plan_free(&plan);
}

/* Ranks 0..5 send to 6..11. Pipelines 0, 1, 4 and 5 send to the next node, 2 and 3 to the one behind it. Pipelines 0
 * and 1 stay in their domain of 8. So 4 differs from 0 by the domain and from 2 by the node. */
TEST(equal_pipelines__are_as_many_nodes_and_domains_apart)
{
    struct plan plan;
    two_sorts(&plan, 6, 2, 1, 3, 0);
    check_alike_on(hand_rack_setting()->platform, &plan, (int32_t[]){0, 1, 2, 3, 4, 5});
    plan_free(&plan);
    two_sorts(&plan, 8, 2, 1, 3, 0);
    check_alike_on(hand_rack_setting()->platform, &plan, (int32_t[]){0, 1, 0, 1, 0, 1, 0, 1});
    plan_free(&plan);
}

/* Stages of 3 ranks stay in their domain, although only rank 0 sends inside its node of 4. With 6 ranks each sends to
 * another node, but two stay in the domain. */
TEST(equal_pipelines__include_context_ranks_of_one_domain)
{
    struct plan plan;
    two_sorts(&plan, 1, 2, 3, 3, 0);
    CHECK_TRUE(equal_pipelines_contexts(&plan.phases[0].pipelines[0], hand_rack_setting()->platform));
    plan_free(&plan);
    two_sorts(&plan, 1, 2, 6, 3, 0);
    CHECK_TRUE(!equal_pipelines_contexts(&plan.phases[0].pipelines[0], hand_rack_setting()->platform));
    plan_free(&plan);
}
