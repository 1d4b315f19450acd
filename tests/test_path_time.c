/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check which work the seconds of the critical path are. */
#include "bounds/path_time.h"

#include "hand_plan.h"
#include "harness.h"

static double sum(const struct path_time *time)
{
    double seconds = 0;
    for (int i = 0; i < PATH_N_CLASSES; i++) {
        CHECK_TRUE(time->seconds[i] > -1e-12);
        seconds += time->seconds[i];
    }
    return seconds;
}

static struct path_time resolved(const struct plan *plan, const struct dag *dag, const struct cost_setting *setting,
                                 double *makespan_s)
{
    struct timeline timeline = {0};
    critical_path(dag, &timeline);
    struct path_time time = path_time_of(plan, dag, setting, &timeline);
    *makespan_s = timeline.makespan_s;
    timeline_free(&timeline);
    return time;
}

TEST(path_time__sums_to_the_makespan_of_random_plans)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct plan plan;
        double makespan_s;
        hand_random(&plan, seed);
        struct dag dag = hand_built(&plan, hand_setting(), (struct dag_options){.gradient_sync = true});
        struct path_time time = resolved(&plan, &dag, hand_setting(), &makespan_s);
        CHECK_CLOSE(sum(&time), makespan_s, 1e-12);
        dag_free(&dag);
        plan_free(&plan);
    }
}

/* One micro-batch runs on two stages, so nothing is beside the path: two passes a stage, and two transfers between
 * them. */
TEST(path_time__counts_each_task_of_a_chain)
{
    struct plan plan;
    double makespan_s, products_s = 0, attention_s = 0, other_s = 0, sends_s = 0;
    hand_uniform(&plan, 2, 1, 1024);
    struct dag dag = hand_built(&plan, hand_setting(), (struct dag_options){0});
    struct path_time time = resolved(&plan, &dag, hand_setting(), &makespan_s);
    for (int32_t stage = 0; stage < 2; stage++)
        for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
            struct cost_pass cost = dag_pass_cost(&plan.phases[0].pipelines[0], hand_setting(), pass, 0, stage);
            products_s += cost.product_s;
            attention_s += cost.attention_s;
            other_s += cost.kernels_s - cost.product_s;
        }
    for (int32_t i = 0; i < dag.n_tasks; i++)
        sends_s += dag.tasks[i].purpose == DAG_BOUNDARY ? dag.duration_s[i] : 0;
    CHECK_CLOSE(time.seconds[PATH_PRODUCTS], products_s, 1e-12);
    CHECK_CLOSE(time.seconds[PATH_ATTENTION], attention_s, 1e-12);
    CHECK_CLOSE(time.seconds[PATH_OTHER_KERNELS], other_s, 1e-12);
    CHECK_CLOSE(time.seconds[PATH_BOUNDARY], sends_s, 1e-12);
    CHECK_CLOSE(sum(&time), makespan_s, 1e-12);
    dag_free(&dag);
    plan_free(&plan);
}

/* With a context ring the attention is a task of its own. A path of two ranks has the ring only if it is the longer. */
TEST(path_time__counts_a_ring_that_attention_waits_for)
{
    struct plan plan;
    double makespan_s;
    struct cost_setting setting = *hand_setting();
    setting.cp_overlap = false;
    hand_plan(&plan, 1, 1, 2);
    hand_micro_batch(&plan.phases[0].pipelines[0].partition[PASS_FORWARD], (struct slice){0, 0, 4096})->context = 2;
    hand_micro_batch(&plan.phases[0].pipelines[0].partition[PASS_BACKWARD], (struct slice){0, 0, 4096})->context = 2;
    hand_order(&plan);
    struct dag dag = hand_built(&plan, &setting, (struct dag_options){0});
    struct path_time time = resolved(&plan, &dag, &setting, &makespan_s);
    double attention_s = 0;
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++)
        attention_s += dag_pass_cost(&plan.phases[0].pipelines[0], &setting, pass, 0, 0).attention_s;
    CHECK_CLOSE(time.seconds[PATH_ATTENTION], attention_s, 1e-12);
    CHECK_TRUE(time.seconds[PATH_CONTEXT] > 0);
    CHECK_CLOSE(sum(&time), makespan_s, 1e-12);
    dag_free(&dag);
    plan_free(&plan);
}
