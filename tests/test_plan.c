/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check that breaches of a plan's rules are told. */
#include "base/check.h"
#include "hand_plan.h"
#include "hand_request.h"
#include "harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int32_t tokens[] = {8, 4, 6};

/* Make two pipelines of two stages that share sample 0 in two micro-batches each way. Sample 1 runs on the first, 2 on
 * the second. */
static void shared(struct plan *plan)
{
    hand_plan(plan, 2, 2, 1);
    struct plan_phase *phase = plan->phases;
    hand_group(phase, 2);
    for (int32_t i = 0; i < 2; i++)
        for (int pass = 0; pass < N_PASSES; pass++) {
            struct plan_partition *partition = &phase->pipelines[i].partition[pass];
            bool forward = pass == PASS_FORWARD;
            hand_micro_batch(partition, forward ? (struct slice){0, 0, 5} : (struct slice){0, 4, 8});
            hand_micro_batch(partition, forward ? (struct slice){0, 5, 8} : (struct slice){0, 0, 4});
            for (int32_t k = 0; k < 2; k++) {
                partition->micro_batches[k].group = 0;
                partition->micro_batches[k].context = 2;
            }
            hand_micro_batch(partition, (struct slice){1 + i, 0, tokens[1 + i]});
        }
    hand_order(plan);
}

static void check_says(const struct plan *plan, const char *part)
{
    struct error err = {0};
    CHECK_TRUE(!plan_check(plan, 3, tokens, &err));
    CHECK_CONTAINS(err.text, part);
}

TEST(plan_check__takes_a_shared_sample)
{
    struct plan plan;
    struct error err = {0};
    shared(&plan);
    CHECK_TRUE(plan_check(&plan, 3, tokens, &err));
    CHECK_TEXT(err.text, "");
    CHECK_EQUAL(plan.phases[0].pipelines[0].need[0], 2);
    CHECK_EQUAL(plan.phases[0].pipelines[0].need[1], 2);
    CHECK_EQUAL(plan.phases[0].pipelines[0].need[2], 3);
    CHECK_EQUAL(plan_micro_batch_tokens(&plan.phases[0].pipelines[1].partition[PASS_FORWARD], 2), 6);
    plan_free(&plan);
}

/* Find the slice that each breach moves. */
static struct slice *slice_of(struct plan *plan, int32_t pipeline, enum pass pass, int32_t i)
{
    return &plan->phases[0].pipelines[pipeline].partition[pass].slices[i];
}

TEST(plan_check__tells_each_breach_of_cuts)
{
    struct plan plan;
    shared(&plan);
    struct slice *slice = slice_of(&plan, 0, PASS_FORWARD, 2);
    slice->end = 3;
    check_says(&plan, "runs when 3 of 4 tokens of sample 1 have run forward");
    slice->end = 5;
    check_says(&plan, "tokens [0, 5) are not a slice of sample 1 of 4 tokens");
    *slice = (struct slice){2, 0, 6};
    check_says(&plan, "runs when 0 of 4 tokens of sample 1");
    *slice = (struct slice){1, 0, 4};
    slice = slice_of(&plan, 0, PASS_BACKWARD, 2);
    slice->begin = 1;
    check_says(&plan, "of 4 tokens of sample 1, 4 ran forward and 3 backward");
    slice->begin = 0;
    slice_of(&plan, 0, PASS_BACKWARD, 0)->begin = slice_of(&plan, 0, PASS_BACKWARD, 1)->end = 3;
    check_says(&plan, "its backward micro-batches of group 0 are not those of pipeline 0");
    plan_free(&plan);

    shared(&plan);
    plan.phases[0].pipelines[0].partition[PASS_FORWARD].micro_batches[1].context = 1;
    check_says(&plan, "forward micro-batch 1 has context degree 1, its group and layout give 2");
    plan.phases[0].pipelines[0].partition[PASS_FORWARD].micro_batches[1].context = 2;
    plan.phases[0].pipelines[0].partition[PASS_FORWARD].micro_batches[1].n_slices = 0;
    check_says(&plan, "forward micro-batch 2 does not begin at the end of the one before it");
    plan_free(&plan);

    shared(&plan);
    struct plan_pipeline *pipeline = &plan.phases[0].pipelines[0];
    int32_t n_micro_batches = pipeline->partition[PASS_FORWARD].n_micro_batches;
    pipeline->offload = check_calloc((size_t)(n_micro_batches * pipeline->layout.stages), sizeof *pipeline->offload);
    pipeline->offload[n_micro_batches * pipeline->layout.stages - 1] = 1.5;
    check_says(&plan, "has offload 1.5 on virtual stage");
    plan_free(&plan);
}

/* Each number of a micro-batch is out of its range, one at a time. */
TEST(plan_check__tells_each_breach_of_a_micro_batch)
{
    struct plan plan;
    shared(&plan);
    struct plan_micro_batch *micro_batch = &plan.phases[0].pipelines[0].partition[PASS_FORWARD].micro_batches[2],
                            whole = *micro_batch;
    const struct {
        double offload;
        int32_t padding_tokens, group;
        const char *message;
    } cases[] = {{0, -1, -1, "forward micro-batch 2 has -1 tokens of padding, offload 0"},
                 {-0.5, 0, -1, "has 0 tokens of padding, offload -0.5"},
                 {1.5, 0, -1, "has 0 tokens of padding, offload 1.5"},
                 {NAN, 0, -1, "has 0 tokens of padding, offload nan"},
                 {0, 0, 1, "is of group 1, which does not exist"},
                 {0, 0, -2, "is of group -2, which does not exist"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        *micro_batch = whole;
        micro_batch->offload = cases[i].offload;
        micro_batch->padding_tokens = cases[i].padding_tokens;
        micro_batch->group = cases[i].group;
        check_says(&plan, cases[i].message);
    }
    plan_free(&plan);
}

/* On both stages an unshared micro-batch of the pipeline (the third) may give attention away. One that a group shares
 * may not. */
TEST(plan_check__lets_a_shared_micro_batch_give_away_nothing)
{
    struct plan plan;
    struct error err = {0};
    shared(&plan);
    plan_add_attention(plan.phases, PASS_FORWARD, BESIDE_ATTENTION);
    plan_add_block(plan.phases, (struct plan_place){0, 0, 2}, (struct plan_place){0, 1, 2}, 0.5);
    CHECK_TRUE(plan_check(&plan, 3, tokens, &err));
    plan.phases->blocks[0].from.micro_batch = 0;
    check_says(&plan, "attention 0 has a block of forward micro-batch 0 that is not valid");
    plan.phases->blocks[0].from.micro_batch = 2;
    plan.phases->blocks[0].to.stage = 2;
    check_says(&plan, "attention 0 has no forward micro-batch 2 on stage 2");
    plan_free(&plan);
}

static void swap_steps(struct plan_pipeline *pipeline, int32_t i, int32_t j)
{
    struct plan_step step = pipeline->steps[i];
    pipeline->steps[i] = pipeline->steps[j];
    pipeline->steps[j] = step;
}

/* Stage 0 of shared() runs F0 F1 F2 B0 B1 B2, stage 1 F0 F1 B0 B1 F2 B2. */
TEST(plan_check__tells_each_breach_of_orders)
{
    struct plan plan;
    shared(&plan);
    struct plan_pipeline *pipeline = &plan.phases[0].pipelines[0];
    CHECK_TEXT(hand_order_text(pipeline, 0), "F0 F1 F2 B0 B1 B2");
    CHECK_TEXT(hand_order_text(pipeline, 1), "F0 F1 B0 B1 F2 B2");
    swap_steps(pipeline, 0, 1);
    check_says(&plan, "forward micro-batch 1 runs tokens [5, 8) of sample 0 when it is the turn of 0");
    swap_steps(pipeline, 0, 1);
    swap_steps(pipeline, 3, 4);
    check_says(&plan, "backward micro-batch 1 runs tokens [0, 4) of sample 0 when it is the turn of 7");
    swap_steps(pipeline, 3, 4);
    swap_steps(pipeline, 7, 8);
    check_says(&plan, "stage 1: backward micro-batch 0 runs when 5 of 8 tokens of sample 0 have run forward");
    swap_steps(pipeline, 7, 8);
    pipeline->steps[5].micro_batch = 0;
    check_says(&plan, "backward micro-batch 0 runs twice or does not exist");
    pipeline->steps[5] = (struct plan_step){.pass = PASS_BACKWARD, .micro_batch = 2, .chunk = 1};
    check_says(&plan, "2 of 3 backward micro-batches run");
    pipeline->steps[5].chunk = 0;
    pipeline->need[0] = 1;
    check_says(&plan, "backward micro-batch 0 needs 2 forward micro-batches, not 1");
    plan_free(&plan);
}

/* Sample 1 runs on both pipelines, each time whole, so tokens would count twice. */
TEST(plan_check__gives_a_sample_one_home)
{
    struct plan plan;
    shared(&plan);
    *slice_of(&plan, 1, PASS_FORWARD, 2) = *slice_of(&plan, 1, PASS_BACKWARD, 2) = (struct slice){1, 0, 4};
    check_says(&plan, "sample 1 also runs in phase 0, pipeline 0, group -1");
    plan_free(&plan);
}

/* Ranks 0, 2 and 1, 3 become 0, 2 and 2, 4. */
TEST(plan_check__lets_pipelines_share_no_gpu)
{
    struct plan plan;
    shared(&plan);
    plan.phases[0].pipelines[1].layout.first_rank = 2;
    check_says(&plan, "pipeline 1: rank 2 does not exist or is in another pipeline");
    plan_free(&plan);
}

/* WLB-LLM and HotSPa let samples wait. The second of the batch (4, 6) waits. One of 8 tokens of an earlier batch
 * (sample 2 here) runs. */
TEST(plan_check__lets_delayed_samples_wait_and_carried_ones_run)
{
    struct plan plan;
    struct error err = {0};
    hand_plan(&plan, 1, 1, 1);
    struct plan_pipeline *pipeline = plan.phases[0].pipelines;
    for (int pass = 0; pass < N_PASSES; pass++) {
        hand_micro_batch(&pipeline->partition[pass], (struct slice){2, 0, 8});
        hand_micro_batch(&pipeline->partition[pass], (struct slice){0, 0, 4});
    }
    hand_order(&plan);
    plan.n_carried = 1;
    plan.carried_tokens = calloc(1, sizeof(int32_t));
    plan.carried_tokens[0] = 8;
    CHECK_TRUE(!plan_check(&plan, 2, (int32_t[]){4, 6}, &err));
    CHECK_TEXT(err.text, "sample 1 runs nowhere");
    plan.n_delayed = 1;
    plan.delayed = calloc(1, sizeof(int32_t));
    plan.delayed[0] = 1;
    CHECK_TRUE(plan_check(&plan, 2, (int32_t[]){4, 6}, &err));
    CHECK_EQUAL(plan_tokens(&plan, 10, (int32_t[]){4, 6}), 10 - 6 + 8);
    plan.delayed[0] = 0;
    CHECK_TRUE(!plan_check(&plan, 2, (int32_t[]){4, 6}, &err));
    CHECK_TEXT(err.text, "sample 0 runs although it waits for a later iteration");
    plan_free(&plan);
}

/* A copy outlives the original, can grow, and is as large as 100 micro-batches make it. */
TEST(plan_copy__shares_nothing)
{
    struct plan plan, copy;
    hand_uniform(&plan, 3, 100, 7);
    plan_copy(&plan, &copy);
    CHECK_TRUE(hand_same_plan(&plan, &copy));
    plan.phases[0].pipelines[0].partition[PASS_FORWARD].slices[99].end = 6;
    CHECK_TRUE(!hand_same_plan(&plan, &copy));
    plan_free(&plan);
    for (int32_t i = 0; i < 100; i++)
        hand_micro_batch(&copy.phases[0].pipelines[0].partition[PASS_FORWARD], (struct slice){100 + i, 0, 7});
    CHECK_EQUAL(plan_micro_batch_tokens(&copy.phases[0].pipelines[0].partition[PASS_FORWARD], 199), 7);
    plan_free(&copy);
    CHECK_EQUAL(copy.n_phases, 0);
}

/* FlexSP has phases of pipelines with unequal context degrees and no stages. HotSPa has unequal TP x PP, and bytes
 * between. */
TEST(plan_check__takes_phases_of_different_layouts)
{
    struct plan plan = {.n_phases = 2, .shards = 8};
    struct error err = {0};
    plan.phases = calloc(2, sizeof *plan.phases);
    for (int32_t i = 0; i < 2; i++) {
        struct plan one;
        hand_plan(&one, 1, i == 0 ? 1 : 2, i == 0 ? 4 : 1);
        plan.phases[i] = one.phases[0];
        free(one.phases);
        for (int pass = 0; pass < N_PASSES; pass++)
            hand_micro_batch(&plan.phases[i].pipelines[0].partition[pass], (struct slice){i, 0, 8})->context =
                i == 0 ? 4 : 1;
    }
    hand_order(&plan);
    plan.phases[1].n_reshards = 1;
    plan.phases[1].reshards = calloc(1, sizeof(struct plan_reshard));
    plan.phases[1].reshards[0] = (struct plan_reshard){.from_rank = 0, .to_rank = 1, .bytes = 1e9};
    CHECK_TRUE(plan_check(&plan, 2, (int32_t[]){8, 8}, &err));
    CHECK_EQUAL(plan_rank(&plan.phases[0].pipelines[0].layout, 0, 3, 0), 3);
    plan_free(&plan);
}
