/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check the order of the passes on a stage. */
#include "hand_plan.h"
#include "hand_request.h"
#include "harness.h"
#include "plan/order.h"

#include "base/check.h"

#include <stdlib.h>

/* Make a pipeline with m micro-batches each way and these needs (NULL: j + 1). The micro-batches are empty, as the
 * order asks for no more. */
static void pipeline_of(struct plan_pipeline *pipeline, int32_t stages, int32_t m, const int32_t *need)
{
    *pipeline = (struct plan_pipeline){.layout = {.stages = stages, .chunks = 1}};
    pipeline->need = check_malloc((size_t)m * sizeof *need);
    for (int32_t j = 0; j < m; j++) {
        plan_add_micro_batch(&pipeline->partition[PASS_FORWARD]);
        plan_add_micro_batch(&pipeline->partition[PASS_BACKWARD]);
        pipeline->need[j] = need != NULL ? need[j] : j + 1;
    }
}

enum { N_MOST = 4 };
static const int32_t most_leads[N_MOST] = {ORDER_JUST_IN_TIME, 1, 3, ORDER_PERSISTENT};

/* Narayanan et al. 2021, figure 4, has p = 3, m = 4: p-1-s warm-up forwards, one forward, one backward, cool-down. */
TEST(order_one_f_one_b__is_the_textbooks)
{
    struct plan_pipeline pipeline;
    pipeline_of(&pipeline, 3, 4, NULL);
    for (int i = 0; i < N_MOST; i++) {
        order_one_f_one_b(&pipeline, most_leads[i]);
        CHECK_TEXT(hand_order_text(&pipeline, 0), "F0 F1 F2 B0 F3 B1 B2 B3");
        CHECK_TEXT(hand_order_text(&pipeline, 1), "F0 F1 B0 F2 B1 F3 B2 B3");
        CHECK_TEXT(hand_order_text(&pipeline, 2), "F0 B0 F1 B1 F2 B2 F3 B3");
    }
    plan_pipeline_free(&pipeline);
}

/* need = 3, 3, 4, 5, 6, 6 of m = 6. Just in time n is need, so backward 1 follows backward 0 at once. Persistent n is
 * 3, 4, 5, 6, 7, 8, of which there are 6, so the lead of two forwards stays. */
TEST(order_lead__shrinks_just_in_time_or_stays_when_persistent)
{
    const int32_t need[] = {3, 3, 4, 5, 6, 6};
    struct plan_pipeline pipeline;
    pipeline_of(&pipeline, 2, 6, need);
    order_one_f_one_b(&pipeline, ORDER_JUST_IN_TIME);
    CHECK_TEXT(hand_order_text(&pipeline, 1), "F0 F1 F2 B0 B1 F3 B2 F4 B3 F5 B4 B5");
    CHECK_TEXT(hand_order_text(&pipeline, 0), "F0 F1 F2 F3 B0 B1 F4 B2 F5 B3 B4 B5");
    order_one_f_one_b(&pipeline, 1);
    CHECK_TEXT(hand_order_text(&pipeline, 1), "F0 F1 F2 B0 B1 F3 B2 F4 B3 F5 B4 B5");
    order_one_f_one_b(&pipeline, ORDER_PERSISTENT);
    CHECK_TEXT(hand_order_text(&pipeline, 1), "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4 B5");
    CHECK_TEXT(hand_order_text(&pipeline, 0), "F0 F1 F2 F3 B0 F4 B1 F5 B2 B3 B4 B5");
    plan_pipeline_free(&pipeline);
}

/* Slots are 0, 1, 4 of three stages. Forward t runs before backward u if t <= u + 2 - s. On stage 0 slot 4 is more than
 * two behind slot 1, so B0 and B1 go first. Without holes it is plain 1F1B. */
TEST(order_slots__run_nothing_in_holes)
{
    const int32_t holes[] = {0, 1, 4}, whole[] = {0, 1, 2, 3};
    struct plan_pipeline pipeline;
    pipeline_of(&pipeline, 3, 3, NULL);
    order_slots(&pipeline, holes);
    CHECK_TEXT(hand_order_text(&pipeline, 0), "F0 F1 B0 B1 F2 B2");
    CHECK_TEXT(hand_order_text(&pipeline, 2), "F0 B0 F1 B1 F2 B2");
    plan_pipeline_free(&pipeline);
    pipeline_of(&pipeline, 3, 4, NULL);
    order_slots(&pipeline, whole);
    CHECK_TEXT(hand_order_text(&pipeline, 0), "F0 F1 F2 B0 F3 B1 B2 B3");
    CHECK_TEXT(hand_order_text(&pipeline, 1), "F0 F1 B0 F2 B1 F3 B2 B3");
    plan_pipeline_free(&pipeline);
}

/* Random sets of pipelines, which overlap every way, share random micro-batches. If a micro-batch has one slot in all
 * of them, no pipelines wait for each other in a circle. */
TEST(order_slots__never_wait_in_a_circle)
{
    uint64_t state = 5;
    int32_t n_shared = 0;
    for (int32_t round = 0; round < 200; round++) {
        struct plan plan;
        int32_t n_pipelines = 2 + hand_below(&state, 7), next[8] = {0}, slot[8][30], n[8] = {0};
        hand_plan(&plan, n_pipelines, 1 + hand_below(&state, 4), 1);
        struct plan_phase *phase = plan.phases;
        phase->groups = check_calloc(30, sizeof *phase->groups);
        for (int32_t item = 0; item < 30; item++) {
            struct plan_group *group = &phase->groups[phase->n_groups];
            int32_t at = 0, first = hand_below(&state, n_pipelines);
            group->pipelines = check_calloc(8, sizeof *group->pipelines);
            for (int32_t p = 0; p < n_pipelines; p++)
                if (p == first || hand_below(&state, 3) == 0) {
                    group->pipelines[group->n_pipelines++] = p;
                    at = next[p] > at ? next[p] : at;
                }
            for (int32_t i = 0; i < group->n_pipelines; i++) {
                int32_t p = group->pipelines[i];
                for (int pass = 0; pass < N_PASSES; pass++) {
                    struct plan_micro_batch *micro_batch =
                        hand_micro_batch(&phase->pipelines[p].partition[pass], (struct slice){item, 0, 8});
                    micro_batch->context = group->n_pipelines;
                    micro_batch->group = phase->n_groups;
                }
                slot[p][n[p]++] = at;
                next[p] = at + 1 + hand_below(&state, 2);
            }
            n_shared += group->n_pipelines > 1;
            phase->n_groups++;
        }
        for (int32_t p = 0; p < n_pipelines; p++) {
            plan_fill_need(&phase->pipelines[p]);
            order_slots(&phase->pipelines[p], slot[p]);
        }
        struct dag dag = hand_built(&plan, hand_setting(), (struct dag_options){0});
        dag_free(&dag);
        plan_free(&plan);
    }
    CHECK_TRUE(n_shared > 2000);
}

/* The needs are the same. At most 2 are missing, before backward 0. From the start n = 3, 4, 5, 6 of m = 6. */
TEST(order_long_warm_up__injects_nothing)
{
    const int32_t need[] = {3, 3, 4, 5, 6, 6};
    struct plan_pipeline pipeline;
    pipeline_of(&pipeline, 2, 6, need);
    CHECK_EQUAL(order_lead(&pipeline), 2);
    order_long_warm_up(&pipeline, 2);
    CHECK_TEXT(hand_order_text(&pipeline, 1), "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4 B5");
    order_long_warm_up(&pipeline, 3);
    CHECK_TEXT(hand_order_text(&pipeline, 1), "F0 F1 F2 F3 B0 F4 B1 F5 B2 B3 B4 B5");
    plan_pipeline_free(&pipeline);
}

/* Say whether a stage has run lead[j] forwards and `ahead` more before each backward j, or all. */
static bool follows(const struct plan_pipeline *pipeline, const int32_t *lead, int32_t stage)
{
    int32_t ran = 0, n = pipeline->partition[PASS_FORWARD].n_micro_batches, ahead = pipeline->layout.stages - 1 - stage;
    bool all = true;
    for (int32_t i = pipeline->step_first[stage]; i < pipeline->step_first[stage + 1]; i++) {
        const struct plan_step *step = &pipeline->steps[i];
        ran += step->pass == PASS_FORWARD;
        if (step->pass == PASS_BACKWARD)
            all = all && ran == (lead[step->micro_batch] + ahead < n ? lead[step->micro_batch] + ahead : n);
    }
    return all;
}

/* Orders are built from the leads, which determine the steps of every stage. */
TEST(order_lead__determines_the_whole_order)
{
    uint64_t state = 7;
    for (int32_t round = 0; round < 200; round++) {
        struct plan_pipeline pipeline;
        int32_t need[20], m = 1 + hand_below(&state, 20), order = hand_below(&state, N_MOST + 1), *lead;
        for (int32_t j = 0; j < m; j++)
            need[j] = 1 + hand_below(&state, m);
        need[m - 1] = m;
        pipeline_of(&pipeline, 1 + hand_below(&state, 6), m, need);
        if (order < N_MOST) {
            lead = order_leads(&pipeline, most_leads[order]);
            order_one_f_one_b(&pipeline, most_leads[order]);
        } else {
            lead = order_long_leads(&pipeline, order_lead(&pipeline));
            order_long_warm_up(&pipeline, order_lead(&pipeline));
        }
        for (int32_t stage = 0; stage < pipeline.layout.stages; stage++)
            CHECK_TRUE(follows(&pipeline, lead, stage));
        free(lead);
        plan_pipeline_free(&pipeline);
    }
}

/* Without backwards all forwards run. With more forwards than backwards ask for, the rest comes last. */
TEST(order_one_f_one_b__runs_unneeded_forwards_last)
{
    struct plan_pipeline pipeline;
    pipeline_of(&pipeline, 1, 1, NULL);
    plan_add_micro_batch(&pipeline.partition[PASS_FORWARD]);
    order_one_f_one_b(&pipeline, ORDER_JUST_IN_TIME);
    CHECK_TEXT(hand_order_text(&pipeline, 0), "F0 B0 F1");
    pipeline.partition[PASS_BACKWARD].n_micro_batches = 0;
    order_one_f_one_b(&pipeline, ORDER_JUST_IN_TIME);
    CHECK_TEXT(hand_order_text(&pipeline, 0), "F0 F1");
    plan_pipeline_free(&pipeline);
}

/* Count the steps of one stage that break the formula of the header: min(m, n(j) + p-1-s) forwards before backward
 * j. */
static int32_t n_wrong(const struct plan_pipeline *pipeline, int32_t stage, int32_t most)
{
    int32_t m = pipeline->partition[PASS_FORWARD].n_micro_batches, later = pipeline->layout.stages - 1 - stage;
    int32_t wrong = 0, forward = 0, backward = 0, n = 0;
    for (int32_t i = pipeline->step_first[stage]; i < pipeline->step_first[stage + 1]; i++) {
        if (pipeline->steps[i].pass == PASS_FORWARD) {
            wrong += pipeline->steps[i].micro_batch != forward++;
            continue;
        }
        int64_t kept = (int64_t)backward + 1 + most, least = n + 1 < kept ? n + 1 : kept;
        least = least > n ? least : n;
        n = (int32_t)(least > pipeline->need[backward] ? least : pipeline->need[backward]);
        wrong += pipeline->steps[i].micro_batch != backward++ || forward != (n + later < m ? n + later : m);
    }
    return wrong + (forward != m) + (backward != m);
}

TEST(order_lead__follows_the_formula)
{
    uint64_t seed = 7;
    for (int32_t round = 0; round < 200; round++) {
        int32_t m = 1 + hand_below(&seed, 20), p = 1 + hand_below(&seed, 6), need[20];
        for (int32_t j = 0; j < m; j++)
            need[j] = hand_below(&seed, m + 1);
        struct plan_pipeline pipeline;
        pipeline_of(&pipeline, p, m, need);
        int32_t most = most_leads[hand_below(&seed, N_MOST)];
        order_one_f_one_b(&pipeline, most);
        for (int32_t stage = 0; stage < p; stage++)
            CHECK_EQUAL(n_wrong(&pipeline, stage, most), 0);
        plan_pipeline_free(&pipeline);
    }
}

/* Narayanan et al. 2021, figure 4 below, has p = 2, v = 2, m = 4. Stage 0 runs 2 + 2 forwards first, stage 1 two. One
 * group of micro-batches, m = p, is all warm-up except for the last stage's two forwards. */
TEST(order_interleaved__is_megatrons)
{
    struct plan_pipeline pipeline;
    pipeline_of(&pipeline, 2, 4, NULL);
    pipeline.layout.chunks = 2;
    order_interleaved(&pipeline);
    CHECK_TEXT(hand_order_text(&pipeline, 0), "F0 F1 F0.1 F1.1 F2 B0.1 F3 B1.1 F2.1 B0 F3.1 B1 B2.1 B3.1 B2 B3");
    CHECK_TEXT(hand_order_text(&pipeline, 1), "F0 F1 F0.1 B0.1 F1.1 B1.1 F2 B0 F3 B1 F2.1 B2.1 F3.1 B3.1 B2 B3");
    plan_pipeline_free(&pipeline);
    pipeline_of(&pipeline, 2, 2, NULL);
    pipeline.layout.chunks = 2;
    order_interleaved(&pipeline);
    CHECK_TEXT(hand_order_text(&pipeline, 0), "F0 F1 F0.1 F1.1 B0.1 B1.1 B0 B1");
    CHECK_TEXT(hand_order_text(&pipeline, 1), "F0 F1 F0.1 B0.1 F1.1 B1.1 B0 B1");
    plan_pipeline_free(&pipeline);
}
