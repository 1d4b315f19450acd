/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check the longest path of a graph. */
#include "bounds/critical_path.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "hand_dag.h"
#include "hand_plan.h"
#include "harness.h"
#include "plan/order.h"

/* Stages are equal and the network is free. The path has m rounds of f + b, and p - 1 of bubble. */
TEST(critical_path__matches_the_closed_form_of_1f1b)
{
    struct timeline timeline = {0};
    for (int32_t p = 1; p <= 8; p++)
        for (int32_t m = 1; m <= 24; m++) {
            struct plan plan;
            hand_uniform(&plan, p, m, 16);
            struct dag dag = hand_built(&plan, hand_setting(), (struct dag_options){0});
            hand_times(&dag, 1.0, 2.0);
            critical_path(&dag, &timeline);
            CHECK_CLOSE(timeline.makespan_s, (m + p - 1) * 3.0, 1e-12);
            dag_free(&dag);
            plan_free(&plan);
        }
    timeline_free(&timeline);
}

/* A stage has v chunks, whose passes take 1 + 2 s. The path has m v rounds of work, and p - 1 passes of one chunk of
 * bubble. The bubble is (p - 1)/(v m) of the work. */
TEST(critical_path__matches_the_closed_form_of_interleaved_1f1b)
{
    struct timeline timeline = {0};
    for (int32_t p = 2; p <= 7; p++)
        for (int32_t v = 1; v <= 6; v++)
            for (int32_t m = p; m <= 4 * p && 840 % (p * v) == 0; m += p) {
                struct plan plan;
                hand_uniform(&plan, p, m, 16);
                plan.phases[0].pipelines[0].layout.chunks = v;
                order_interleaved(&plan.phases[0].pipelines[0]);
                struct dag dag = hand_built(&plan, hand_setting(), (struct dag_options){0});
                hand_times(&dag, 1.0, 2.0);
                critical_path(&dag, &timeline);
                CHECK_CLOSE(timeline.makespan_s, (m * v + p - 1) * 3.0, 1e-12);
                dag_free(&dag);
                plan_free(&plan);
            }
    timeline_free(&timeline);
}

/* Two stages run one micro-batch with f = 1, b = 2 and sends of 0.5: 1 + .5 + 1 + 2 + .5 + 2. */
TEST(critical_path__contains_the_sends)
{
    struct plan plan;
    struct timeline timeline = {0};
    hand_uniform(&plan, 2, 1, 16);
    struct dag dag = hand_built(&plan, hand_setting(), (struct dag_options){0});
    hand_times(&dag, 1.0, 2.0);
    hand_send_times(&dag, 0.5);
    critical_path(&dag, &timeline);
    CHECK_CLOSE(timeline.makespan_s, 7.0, 1e-15);
    timeline_free(&timeline);
    dag_free(&dag);
    plan_free(&plan);
}

TEST(critical_path__equals_igraphs_longest_path_on_random_plans)
{
    struct timeline timeline = {0};
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct plan plan;
        hand_random(&plan, seed);
        struct dag dag = hand_built(&plan, hand_setting(), (struct dag_options){.gradient_sync = seed % 2});
        critical_path(&dag, &timeline);
        if (timeline.makespan_s != hand_igraph_makespan_s(&dag))
            printf("seed %llu\n", (unsigned long long)seed);
        CHECK_CLOSE(timeline.makespan_s, hand_igraph_makespan_s(&dag), 1e-15);
        CHECK_TRUE(timeline.makespan_s > 0);
        dag_free(&dag);
        plan_free(&plan);
    }
    timeline_free(&timeline);
}

/* A task made longer by its slack moves nothing. Made longer by more it moves the end. The path itself has no slack. */
static void check_slack(uint64_t seed)
{
    struct plan plan;
    struct timeline timeline = {0};
    struct error err = {0};
    hand_random(&plan, seed);
    struct dag dag = hand_built(&plan, hand_setting(), (struct dag_options){.gradient_sync = true});
    critical_path(&dag, &timeline);
    double *slack_s = check_malloc((size_t)dag.n_tasks * sizeof *slack_s), makespan_s = timeline.makespan_s;
    struct graph *graph = graph_create(&dag, &err);
    critical_path_slack(&dag, graph, &timeline, slack_s);
    graph_free(graph);
    int32_t n_critical = 0;
    for (int32_t i = 0; i < dag.n_tasks; i++) {
        double duration_s = dag.duration_s[i];
        CHECK_TRUE(slack_s[i] >= 0);
        n_critical += slack_s[i] <= 1e-12 * makespan_s;
        dag.duration_s[i] = duration_s + slack_s[i];
        critical_path(&dag, &timeline);
        CHECK_CLOSE(timeline.makespan_s, makespan_s, 1e-12);
        dag.duration_s[i] += 0.25 * makespan_s;
        critical_path(&dag, &timeline);
        CHECK_CLOSE(timeline.makespan_s, 1.25 * makespan_s, 1e-12);
        dag.duration_s[i] = duration_s;
    }
    CHECK_TRUE(n_critical > 0);
    free(slack_s);
    timeline_free(&timeline);
    dag_free(&dag);
    plan_free(&plan);
}

TEST(slack__is_how_much_longer_a_task_may_take)
{
    for (uint64_t seed = 1; seed <= 10; seed++)
        check_slack(seed);
}
