/* SPDX-License-Identifier: GPL-3.0-or-later */
/** These tests check the memory of a rank of a stage. */
#include "bounds/stage_memory.h"

#include <math.h>

#include "bounds/evaluate.h"
#include "hand_plan.h"
#include "hand_request.h"
#include "harness.h"

static struct stage_memory memory_of_stage(const struct hand_request *hand, int32_t stage, enum recompute recompute)
{
    struct plan_layout layout = request_pipeline_layout(&hand->request, 0);
    return stage_memory_of(&hand->setting, &layout, stage, scenario_plan_shards(&hand->request.layout),
                           &(struct stage_memory_micro_batch){.recompute = recompute});
}

/* One micro-batch runs through the stages. Each rank's peak is what stands, its tokens and the work on them. */
TEST(stage_memory__is_the_peak_of_one_micro_batch)
{
    static const enum recompute recompute[] = {RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL};
    for (int i = 0; i < 3; i++) {
        struct hand_request hand;
        struct plan plan;
        struct evaluator evaluator = {0};
        struct evaluation evaluation;
        struct error err = {0};
        hand_request_real(&hand, 1, 4, 4096);
        hand_uniform(&plan, 4, 1, 4096);
        plan.shards = scenario_plan_shards(&hand.request.layout);
        for (int pass = 0; pass < N_PASSES; pass++)
            plan.phases[0].pipelines[0].partition[pass].micro_batches[0].recompute = recompute[i];
        CHECK_TRUE(evaluate(&evaluator, &plan, &hand.setting, (struct dag_options){0}, &evaluation, &err));
        for (int32_t stage = 0; stage < 4; stage++) {
            struct stage_memory memory = memory_of_stage(&hand, stage, recompute[i]);
            double bytes = stage_memory_standing_bytes(&memory) + 4096 * (memory.token.held + memory.token.embedding) +
                           stage_memory_work_bytes(&memory, 4096);
            CHECK_CLOSE(evaluator.memory.peak_bytes[stage], bytes, 1e-12);
        }
        evaluator_free(&evaluator);
        plan_free(&plan);
        hand_request_free(&hand);
    }
}

/* A fused linear loss makes the gradient of the head's weights in the forward, 2 x V x h, however few tokens run. */
TEST(stage_memory__has_the_gradient_that_a_fused_linear_loss_makes)
{
    struct hand_request hand;
    struct plan plan;
    struct evaluator evaluator = {0};
    struct evaluation evaluation;
    struct error err = {0};
    hand_request_real(&hand, 1, 1, 4096);
    hand.setting.loss = SCENARIO_LOSS_FUSED_LINEAR;
    hand_uniform(&plan, 1, 1, 4096);
    plan.shards = scenario_plan_shards(&hand.request.layout);
    for (int pass = 0; pass < N_PASSES; pass++)
        plan.phases[0].pipelines[0].partition[pass].micro_batches[0].recompute = RECOMPUTE_FULL;
    CHECK_TRUE(evaluate(&evaluator, &plan, &hand.setting, (struct dag_options){0}, &evaluation, &err));
    struct stage_memory memory = memory_of_stage(&hand, 0, RECOMPUTE_FULL);
    CHECK_EQUAL(memory.n_moments, 2);
    CHECK_CLOSE(memory.moments[1].fixed_bytes, 2.0 * cost_logits(&hand.setting) * (double)hand.setting.model->hidden,
                1e-14);
    CHECK_CLOSE(evaluator.memory.peak_bytes[0],
                stage_memory_standing_bytes(&memory) + 4096 * (memory.token.held + memory.token.embedding) +
                    stage_memory_work_bytes(&memory, 4096),
                1e-12);
    evaluator_free(&evaluator);
    plan_free(&plan);
    hand_request_free(&hand);
}

/* The tokens that fill the room take all of it. */
TEST(stage_memory_tokens__fill_the_room)
{
    struct hand_request hand;
    hand_request_real(&hand, 1, 4, 4096);
    for (int32_t stage = 0; stage < 4; stage++) {
        struct stage_memory memory = memory_of_stage(&hand, stage, RECOMPUTE_SELECTIVE);
        double room = 1e10, tokens = stage_memory_tokens(&memory, room, memory.token.held);
        CHECK_TRUE(tokens > 1000);
        CHECK_CLOSE(tokens * memory.token.held + stage_memory_work_bytes(&memory, tokens), room, 1e-12);
    }
    hand_request_free(&hand);
}

/* zero3 runs on one stage. Any moment of the micro-batch in work may be the largest, and one of them fills the room. */
TEST(stage_memory_tokens__fill_the_room_at_the_largest_moment)
{
    struct hand_request hand;
    hand_request_real(&hand, 2, 1, 4096);
    hand.request.layout.sharding = SCENARIO_ZERO3;
    hand_options(&hand.setting, &hand.request.layout);
    hand_options(&hand.setting, &hand.request.layout);
    struct stage_memory memory = memory_of_stage(&hand, 0, RECOMPUTE_FULL);
    CHECK_EQUAL(memory.n_moments, STAGE_MEMORY_MAX_MOMENTS);
    CHECK_TRUE(memory.gathered_bytes > 0);
    double tokens = stage_memory_tokens(&memory, 2e10, memory.token.held);
    CHECK_CLOSE(tokens * memory.token.held + stage_memory_work_bytes(&memory, tokens), 2e10, 1e-12);
    hand_request_free(&hand);
}
