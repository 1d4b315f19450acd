/* SPDX-License-Identifier: GPL-3.0-or-later */
/** These tests check evaluations of plans and their order. */
#include "bounds/evaluate.h"
#include "hand_plan.h"
#include "harness.h"

static const struct evaluation_limits limits = {.gpu_bytes = 80, .host_bytes = 100};

/* Nothing fits 81 bytes of a GPU's 80. A GPU's memory counts before a node's host. */
TEST(evaluation_exceeds__names_the_gpu_before_the_host)
{
    CHECK_EQUAL(evaluation_exceeds(&(struct evaluation){.peak_bytes = 80, .host_bytes = 100}, &limits), EXCEEDED_NONE);
    CHECK_EQUAL(evaluation_exceeds(&(struct evaluation){.peak_bytes = 80, .host_bytes = 101}, &limits),
                EXCEEDED_HOST_MEMORY);
    CHECK_EQUAL(evaluation_exceeds(&(struct evaluation){.peak_bytes = 81, .host_bytes = 101}, &limits),
                EXCEEDED_GPU_MEMORY);
}

/* 84 of 80 bytes are a twentieth too many, 110 of 100 a tenth. */
TEST(evaluation_excess__is_the_largest_share)
{
    CHECK_CLOSE(evaluation_excess(&(struct evaluation){.peak_bytes = 84, .host_bytes = 110}, &limits), 0.1, 1e-12);
    CHECK_CLOSE(evaluation_excess(&(struct evaluation){.peak_bytes = 84}, &limits), 0.05, 1e-12);
    CHECK_TRUE(evaluation_excess(&(struct evaluation){.peak_bytes = 80, .host_bytes = 100}, &limits) == 0);
}

/* The evaluations are sorted, best first. The two that fit are sorted by time. The others follow by excess, whatever
 * their time. */
TEST(evaluation_compare__takes_what_fits_then_less_excess_then_less_time)
{
    static const struct evaluation ordered[] = {
        {.makespan_s = 3, .peak_bytes = 80}, {.makespan_s = 4, .peak_bytes = 10}, {.makespan_s = 2, .peak_bytes = 84},
        {.makespan_s = 3, .peak_bytes = 84}, {.makespan_s = 1, .peak_bytes = 90},
    };
    int n = (int)(sizeof ordered / sizeof *ordered);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            CHECK_EQUAL(evaluation_compare(&ordered[i], &ordered[j], &limits), (i > j) - (i < j));
}

/* A rank of stage 1 has the higher peak in the one. The other is slower and fills the host. */
TEST(evaluation_join__keeps_the_worst_of_each)
{
    struct evaluation worst = {.makespan_s = 2, .peak_bytes = 5, .host_bytes = 9, .stage = 3, .class = MEMORY_STATES};
    const struct evaluation other = {
        .makespan_s = 1, .peak_bytes = 6, .host_bytes = 8, .stage = 1, .class = MEMORY_ACTIVATIONS};
    evaluation_join(&worst, &other);
    CHECK_TRUE(worst.makespan_s == 2 && worst.peak_bytes == 6 && worst.host_bytes == 9);
    CHECK_EQUAL(worst.stage, 1);
    CHECK_EQUAL(worst.class, MEMORY_ACTIVATIONS);
}

/* The same plan is evaluated by hand: graph, longest path and memory one after the other. */
TEST(evaluate__is_graph_path_and_memory)
{
    struct plan plan;
    struct evaluator evaluator = {0};
    struct evaluation evaluation;
    struct dag dag;
    struct timeline timeline = {0};
    struct memory memory;
    struct error err = {0};
    hand_uniform(&plan, 4, 6, 64);
    for (int again = 0; again < 2; again++) /* the arrays are used again */
        CHECK_TRUE(evaluate(&evaluator, &plan, hand_setting(), (struct dag_options){0}, &evaluation, &err));
    CHECK_TRUE(dag_build(&plan, hand_setting(), (struct dag_options){0}, &dag, &err));
    critical_path(&dag, &timeline);
    memory_of(&plan, &dag, &timeline, hand_setting(), false, &memory);
    CHECK_TRUE(evaluation.makespan_s == timeline.makespan_s);
    CHECK_TRUE(evaluation.peak_bytes == memory.peak_bytes[memory.worst_rank]);
    CHECK_EQUAL(evaluation.stage, dag.ranks[memory.worst_rank].stage);
    for (int i = 0; i < MEMORY_N_CLASSES; i++)
        CHECK_TRUE(memory.at_peak[memory.worst_rank][i] <= memory.at_peak[memory.worst_rank][evaluation.class]);
    dag_free(&dag);
    timeline_free(&timeline);
    memory_free(&memory);
    evaluator_free(&evaluator);
    plan_free(&plan);
}
