/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check how the micro-batches of two cuts depend on each other. */
#include "dag/relations.h"

#include <string.h>

#include "hand_dag.h"
#include "hand_plan.h"
#include "harness.h"

/* Sample 0 is cut forward at 4 of 12 tokens and backward at 6. The backward micro-batches [6,12) and [0,6) consume 6
 * tokens of forward micro-batch 1, and 2 of micro-batch 1 with 4 of micro-batch 0. Sample 1 is whole and in the second
 * micro-batch of both cuts. */
TEST(relations__match_micro_batches_token_by_token)
{
    struct plan plan;
    struct relations relations;
    hand_plan(&plan, 1, 1, 1);
    struct plan_partition *partition = plan.phases[0].pipelines[0].partition;
    hand_micro_batch(&partition[PASS_FORWARD], (struct slice){0, 0, 4});
    plan_add_slice(&partition[PASS_FORWARD], (struct slice){0, 4, 12});
    hand_micro_batch(&partition[PASS_FORWARD], (struct slice){1, 0, 3});
    hand_micro_batch(&partition[PASS_BACKWARD], (struct slice){0, 6, 12});
    plan_add_slice(&partition[PASS_BACKWARD], (struct slice){0, 0, 6});
    hand_micro_batch(&partition[PASS_BACKWARD], (struct slice){1, 0, 3});
    hand_order(&plan);
    relations_of(&plan.phases[0].pipelines[0], &relations);
    static const struct relations_share shares[] = {{1, 0, 6}, {1, 3, 2}, {0, 0, 4}};
    CHECK_EQUAL(relations.share_first[1], 1);
    CHECK_EQUAL(relations.share_first[2], 3);
    for (int i = 0; i < 3; i++)
        CHECK_TRUE(memcmp(&relations.shares[i], &shares[i], sizeof shares[i]) == 0);
    CHECK_EQUAL(relations.after_first[PASS_FORWARD][2], 1);
    CHECK_EQUAL(relations.after[PASS_FORWARD][0], 0);
    CHECK_EQUAL(relations.after_first[PASS_BACKWARD][2], 1);
    CHECK_EQUAL(relations.opened_tokens[0], 6);
    CHECK_EQUAL(relations.closed_tokens[1], 6);
    relations_free(&relations);

    struct dag dag = hand_built(&plan, hand_setting(), (struct dag_options){0});
    /* Steps are F0 F1 B0 B1: B0 runs after F1, B1 after B0, F0 and F1. */
    CHECK_EQUAL(dag.n_tasks, 4);
    CHECK_EQUAL(dag.in_first[3] - dag.in_first[2], 1);
    CHECK_EQUAL(dag.in_kind[dag.in_first[2]], DAG_INTER_PASS);
    CHECK_EQUAL(dag.in_first[4] - dag.in_first[3], 3);
    CHECK_EQUAL(dag.in_kind[dag.in_first[3]], DAG_INTER_SLICE);
    dag_free(&dag);
    plan_free(&plan);
}

/* Sample 0 is whole forward, and cut backward at 6 of 10 tokens. The second backward slice's keys and values must be
 * there for the first one, as for a sample cut forward. Sample 1 is whole in both. */
TEST(relations__take_a_sample_cut_backward_as_sliced)
{
    struct plan plan;
    struct relations relations;
    hand_plan(&plan, 1, 1, 1);
    struct plan_partition *partition = plan.phases[0].pipelines[0].partition;
    plan_add_slice(&partition[PASS_FORWARD], (struct slice){0, 0, 10});
    hand_micro_batch(&partition[PASS_FORWARD], (struct slice){1, 0, 3});
    hand_micro_batch(&partition[PASS_BACKWARD], (struct slice){0, 6, 10});
    plan_add_slice(&partition[PASS_BACKWARD], (struct slice){0, 0, 6});
    hand_micro_batch(&partition[PASS_BACKWARD], (struct slice){1, 0, 3});
    hand_order(&plan);
    relations_of(&plan.phases[0].pipelines[0], &relations);
    static const struct relations_share shares[] = {{0, 0, 4}, {0, 3, 6}};
    CHECK_EQUAL(relations.share_first[2], 2);
    for (int i = 0; i < 2; i++)
        CHECK_TRUE(memcmp(&relations.shares[i], &shares[i], sizeof shares[i]) == 0);
    CHECK_EQUAL(relations.sliced_tokens[0], 10);
    relations_free(&relations);
    plan_free(&plan);
}
