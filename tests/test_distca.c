/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check the plans of DistCA, their graphs and their costs. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bounds/bubble.h"
#include "bounds/memory.h"
#include "bounds/traffic.h"
#include "hand_dag.h"
#include "hand_plan.h"
#include "hand_request.h"
#include "harness.h"
#include "scenario/faults.h"

extern const struct training_system system_distca;

/* Plan for samples of these tokens, which end with a 0. */
static void plan_of(struct hand_request *hand, int32_t dp, int32_t pp, const char *knobs, const int32_t *tokens,
                    struct plan *plan)
{
    int32_t n = 0;
    while (tokens[n] > 0)
        n++;
    hand_request_real(hand, dp, pp, 4096);
    hand_batch(hand, n, tokens);
    hand_planned(hand, &system_distca, knobs, plan);
}

/* Write the blocks of an attention as "from>to keys sample:begin-end ...", with "pipeline.stage" for places. */
static const char *blocks_text(const struct plan *plan, int32_t attention)
{
    static char text[1024];
    const struct plan_phase *phase = plan->phases;
    size_t at = 0;
    text[0] = '\0';
    for (int32_t i = 0; i < phase->attentions[attention].n_blocks; i++) {
        const struct plan_block *block = &phase->blocks[phase->attentions[attention].first_block + i];
        at +=
            (size_t)snprintf(text + at, sizeof text - at, "%s%d.%d>%d.%d %lld", i > 0 ? ", " : "", block->from.pipeline,
                             block->from.stage, block->to.pipeline, block->to.stage, (long long)block->keys);
        for (int32_t k = 0; k < block->n_slices; k++) {
            struct slice slice = phase->block_slices[block->first_slice + k];
            at += (size_t)snprintf(text + at, sizeof text - at, " %d:%d-%d", slice.sample, slice.begin, slice.end);
        }
    }
    return text;
}

/* With e(e+1) for a sample of e tokens, replica 0 has 4096 x 4097 and replica 1 has 4 x 1024 x 1025. The mean is
 * 10489856, so replica 1 lacks 6291456, 0.3749 of the sample. Each half has 2048 tokens, and 767.8 would do, rounded
 * up to 6 blocks of 128. All 4096 keys go along. */
TEST(distca__moves_the_outer_tokens_of_a_long_sample)
{
    struct hand_request hand;
    struct plan plan;
    plan_of(&hand, 2, 1, "", (int32_t[]){1024, 1024, 4096, 1024, 1024, 0}, &plan);
    CHECK_EQUAL(plan.phases->n_attentions, 2);
    CHECK_TEXT(blocks_text(&plan, 0), "0.0>0.0 0 2:768-3328, 0.0>1.0 4096 2:0-768 2:3328-4096, 1.0>1.0 0 0:0-1024 "
                                      "1:0-1024 3:0-1024 4:0-1024");
    CHECK_TRUE(plan.phases->attentions[1].pass == PASS_BACKWARD && plan.phases->attentions[1].n_blocks == 3);
    CHECK_TRUE(plan.phases->attentions[0].beside == BESIDE_LINEAR);
    const struct plan_micro_batch *micro_batch = plan.phases->pipelines[1].partition[PASS_FORWARD].micro_batches;
    CHECK_TRUE(micro_batch->context == 2 && micro_batch->parts == 2 && micro_batch->sharding == SLICE_PLACED);
    plan_free(&plan);
    hand_request_free(&hand);
}

/* One sample fills both replicas. Its outer and inner halves have equal attention. Keys of the other replica come
 * without queries: 2048 for the outer half, which sees all, and 1024 for the inner, whose last key is 3072. */
TEST(distca__cuts_a_sample_over_replicas_from_both_ends)
{
    struct hand_request hand;
    struct plan plan;
    plan_of(&hand, 2, 1, "single_stream: true", (int32_t[]){4096, 0}, &plan);
    CHECK_TEXT(blocks_text(&plan, 0),
               "0.0>0.0 0 0:0-1024 0:3072-4096, 1.0>0.0 2048, 0.0>1.0 1024, 1.0>1.0 0 0:1024-3072");
    CHECK_TRUE(plan.phases->attentions[0].beside == BESIDE_NOTHING);
    CHECK_EQUAL(plan.phases->pipelines[0].partition[PASS_FORWARD].micro_batches->parts, 1);
    plan_free(&plan);
    hand_request_free(&hand);
}

/* Two stages of one replica. In the first tick the second stage runs nothing, and takes half of the attention. */
TEST(distca__lets_idle_stages_serve)
{
    struct hand_request hand;
    struct plan plan;
    plan_of(&hand, 1, 2, "micro_batches: 2", (int32_t[]){4096, 4096, 0}, &plan);
    CHECK_TEXT(blocks_text(&plan, 0), "0.0>0.0 0 0:1024-3072, 0.0>0.1 4096 0:0-1024 0:3072-4096");
    CHECK_EQUAL(plan.phases->blocks[1].to.micro_batch, -1);
    CHECK_TEXT(blocks_text(&plan, 1), "0.0>0.0 0 1:0-4096, 0.1>0.1 0 0:0-4096");
    struct dag dag = hand_built(&plan, &hand.setting, (struct dag_options){0});
    int32_t n_served = 0;
    double half_s = -1;
    for (int32_t i = 0; i < dag.n_tasks; i++)
        if (dag.tasks[i].kind == DAG_ATTENTION && dag.tasks[i].micro_batch < 0) {
            n_served++;
            half_s = dag.tasks[i].pass == PASS_FORWARD && dag.tasks[i].stage == 1 ? dag.duration_s[i] : half_s;
        }
    CHECK_EQUAL(n_served, 4); /* two ticks each way have one stage */
    struct cost_setting stage = dag_setting(&hand.setting, &plan.phases->pipelines[0].layout, 0);
    const struct slice half[] = {{0, 0, 1024}, {0, 3072, 4096}};
    struct cost_micro_batch served = {.slices = half, .n_slices = 2, .context = 1};
    CHECK_CLOSE(half_s, cost_blocks_s(&stage, PASS_FORWARD, &served), 1e-12);
    dag_free(&dag);
    plan_free(&plan);
    hand_request_free(&hand);
}

TEST(distca__refuses_a_pool_that_does_not_divide_the_replicas)
{
    struct hand_request hand;
    struct plan plan;
    struct error err = {0};
    hand_request_real(&hand, 4, 1, 4096);
    hand_batch(&hand, 1, (int32_t[]){4096});
    hand_knobs(&hand, &system_distca, "pool: 3");
    CHECK_TRUE(!system_distca.plan(&hand.request, NULL, &plan, &err));
    CHECK_CONTAINS(err.text, "pool: 3 does not divide the 4 replicas of the plan");
    hand_request_free(&hand);
}

/* Replicas of two pools never meet. The longest sample's pool moves nothing to the other one. */
TEST(distca__keeps_attention_inside_a_pool)
{
    struct hand_request hand;
    struct plan plan;
    plan_of(&hand, 4, 1, "pool: 2", (int32_t[]){4096, 1024, 1024, 1024, 1024, 2048, 2048, 2048, 2048, 0}, &plan);
    CHECK_TRUE(plan.phases->n_attentions >= 4);
    for (int32_t i = 0; i < plan.phases->n_blocks; i++)
        CHECK_EQUAL(plan.phases->blocks[i].from.pipeline / 2, plan.phases->blocks[i].to.pipeline / 2);
    plan_free(&plan);
    hand_request_free(&hand);
}

/* Return the longest duration of tasks of a kind in the forward [s]. */
static double longest_s(const struct dag *dag, enum dag_kind kind)
{
    double longest = 0;
    for (int32_t i = 0; i < dag->n_tasks; i++)
        if (dag->tasks[i].kind == kind && dag->tasks[i].pass == PASS_FORWARD)
            longest = fmax(longest, dag->duration_s[i]);
    return longest;
}

/* One message goes each way. Beside linear layers the pass takes the longer of these and the two messages, and then the
 * longest attention. In a single stream all follow each other. */
TEST(distca__hides_messages_under_linear_layers)
{
    for (int single = 0; single < 2; single++) {
        struct hand_request hand;
        struct plan plan;
        struct timeline timeline = {0};
        plan_of(&hand, 2, 1, single ? "single_stream: true" : "", (int32_t[]){1024, 1024, 4096, 1024, 1024, 0}, &plan);
        struct dag dag = hand_built(&plan, &hand.setting, (struct dag_options){0});
        double linear_s = longest_s(&dag, DAG_COMPUTE), attention_s = longest_s(&dag, DAG_ATTENTION), sum_s = 0,
               end_s = 0, longest = longest_s(&dag, DAG_SEND);
        critical_path(&dag, &timeline);
        for (int32_t i = 0; i < dag.n_tasks; i++) {
            bool forward = dag.tasks[i].pass == PASS_FORWARD;
            sum_s += forward && dag.tasks[i].kind == DAG_SEND ? dag.duration_s[i] : 0;
            end_s = forward && dag.tasks[i].kind == DAG_SYNC ? fmax(end_s, timeline.finish_s[i]) : end_s;
        }
        CHECK_TRUE(sum_s > longest && longest > 0);
        CHECK_CLOSE(end_s, single ? linear_s + sum_s + attention_s : fmax(linear_s, longest) + attention_s, 1e-12);
        timeline_free(&timeline);
        dag_free(&dag);
        plan_free(&plan);
        hand_request_free(&hand);
    }
}

/* A layer's block has T = 1536 queries and S = 4096 keys, h = k = 64 and n = 4: 2h T + 4k S out, 2h T + 4n T back;
 * backward (4h + 8n) T + 4k S out and 2h T + 4k S back. */
TEST(traffic__counts_blocks_by_queries_and_keys)
{
    struct hand_request hand;
    struct plan plan;
    plan_of(&hand, 2, 1, "", (int32_t[]){1024, 1024, 4096, 1024, 1024, 0}, &plan);
    struct dag dag = hand_built(&plan, &hand.setting, (struct dag_options){0});
    double t = 1536, s = 4096, keys = 4 * 64 * s;
    double forward = 2 * 64 * t + keys + (2 * 64 + 4 * 4) * t, backward = (4 * 64 + 8 * 4) * t + 2 * keys + 2 * 64 * t;
    CHECK_CLOSE(traffic_of(&plan, &dag, &hand.setting).bytes[TRAFFIC_EXCHANGE],
                (double)hand.model.layers * (forward + backward), 1e-12);
    dag_free(&dag);
    plan_free(&plan);
    hand_request_free(&hand);
}

/* SimGrid without contention takes as long as the longest path. */
TEST(distca__takes_as_long_in_both_engines)
{
    struct platform platform = hand_platform("hopper-2x8-free");
    const char *const knobs[] = {"", "single_stream: true", "micro_batches: 3"};
    for (int i = 0; i < 3; i++) {
        struct hand_request hand;
        struct plan plan;
        plan_of(&hand, 2, 1 + i, knobs[i], (int32_t[]){1024, 1024, 4096, 3000, 1024, 0}, &plan);
        hand.setting.platform = &platform;
        struct dag dag = hand_built(&plan, &hand.setting, (struct dag_options){0});
        hand_engines_agree(&dag, &platform);
        dag_free(&dag);
        plan_free(&plan);
        hand_request_free(&hand);
    }
}

/* A GPU of twice the time takes twice as long for what it serves, and no other does. */
TEST(distca__serves_at_the_speed_of_the_server)
{
    struct hand_request hand;
    struct plan plan;
    plan_of(&hand, 1, 2, "micro_batches: 2", (int32_t[]){4096, 4096, 0}, &plan);
    struct cost_setting setting = hand.setting;
    struct fault fault = {.kind = FAULT_GPU, .gpus = {.n = 1, .at = {1}}, .factor = 2};
    struct faults faults = faults_of(&fault, 1, setting.platform);
    setting.faults = &faults;
    struct dag dag = hand_built(&plan, &hand.setting, (struct dag_options){0}),
               slow = hand_built(&plan, &setting, (struct dag_options){0});
    CHECK_EQUAL(dag.n_tasks, slow.n_tasks);
    for (int32_t i = 0; i < dag.n_tasks; i++)
        if (dag.tasks[i].kind == DAG_ATTENTION)
            CHECK_CLOSE(slow.duration_s[i], (dag.tasks[i].stage == 1 ? 2 : 1) * dag.duration_s[i], 1e-3);
    dag_free(&dag);
    dag_free(&slow);
    faults_free(&faults);
    plan_free(&plan);
    hand_request_free(&hand);
}

/* The peak is the same from all events and from steps only, also on stages that serve between their passes. */
TEST(distca__holds_buffers_of_served_pieces)
{
    struct hand_request hand;
    struct plan plan;
    struct timeline timeline = {0};
    struct memory memory, quick;
    plan_of(&hand, 2, 2, "micro_batches: 2", (int32_t[]){4096, 1024, 3000, 512, 0}, &plan);
    struct dag dag = hand_built(&plan, &hand.setting, (struct dag_options){0});
    critical_path(&dag, &timeline);
    memory_of(&plan, &dag, &timeline, &hand.setting, true, &memory);
    memory_of(&plan, &dag, &timeline, &hand.setting, false, &quick);
    double most = 0;
    for (int32_t rank = 0; rank < dag.n_ranks; rank++)
        CHECK_EQUAL(quick.peak_bytes[rank], memory.peak_bytes[rank]);
    for (int64_t i = 0; i < memory.n_events; i++)
        most = fmax(most, memory.events[i].bytes[MEMORY_COMMUNICATION]);
    CHECK_TRUE(most > 0);
    memory_free(&memory);
    memory_free(&quick);
    timeline_free(&timeline);
    dag_free(&dag);
    plan_free(&plan);
    hand_request_free(&hand);
}

static struct bubble bubble_with(const struct plan *plan, const struct cost_setting *setting, bool all_tensor_ranks)
{
    struct timeline timeline = {0};
    struct dag dag = hand_built(plan, setting, (struct dag_options){.all_tensor_ranks = all_tensor_ranks});
    critical_path(&dag, &timeline);
    struct bubble bubble = bubble_of(&dag, &timeline);
    timeline_free(&timeline);
    dag_free(&dag);
    return bubble;
}

/* One place may stand for both TP ranks, or each may have a place. */
TEST(distca__takes_as_long_with_every_tensor_rank)
{
    for (int single = 0; single < 2; single++) {
        struct hand_request hand;
        struct plan plan;
        plan_of(&hand, 2, 2, single ? "single_stream: true" : "", (int32_t[]){4096, 1024, 3000, 0}, &plan);
        hand.setting.tp_overlap = SCENARIO_EXPOSED;
        for (int32_t i = 0; i < 2; i++) {
            struct plan_layout *layout = &plan.phases->pipelines[i].layout;
            layout->tensor = 2;
            layout->stage_stride *= 2;
            layout->first_rank *= 2;
        }
        struct bubble one = bubble_with(&plan, &hand.setting, false), all = bubble_with(&plan, &hand.setting, true);
        CHECK_CLOSE(one.total_s, all.total_s, 1e-12);
        CHECK_TRUE(one.busy_s > 0 && fabs(one.busy_s + one.ring_s - all.busy_s - all.ring_s) <= 1e-12 * all.total_s);
        plan_free(&plan);
        hand_request_free(&hand);
    }
}

TEST(plan_check__wants_each_query_placed_once)
{
    struct hand_request hand;
    struct plan plan;
    struct error err = {0};
    plan_of(&hand, 2, 1, "", (int32_t[]){1024, 1024, 4096, 1024, 1024, 0}, &plan);
    struct slice *slice = plan.phases->block_slices, whole = *slice;
    slice->begin += 1;
    CHECK_TRUE(!plan_check(&plan, 5, hand.batch.tokens, &err));
    CHECK_CONTAINS(err.text, "blocks do not have each query of forward micro-batch 0 on stage 0 once");
    *slice = whole;
    slice->end += 1;
    err = (struct error){0};
    CHECK_TRUE(!plan_check(&plan, 5, hand.batch.tokens, &err));
    CHECK_CONTAINS(err.text, "blocks do not have each query");
    *slice = whole;
    err = (struct error){0};
    plan.phases->blocks[0].share = 0.5;
    CHECK_TRUE(!plan_check(&plan, 5, hand.batch.tokens, &err));
    CHECK_CONTAINS(err.text, "has a block of forward micro-batch 0 that is not valid");
    plan_free(&plan);
    hand_request_free(&hand);
}
