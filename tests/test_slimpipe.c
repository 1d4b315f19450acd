/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check the plans of SlimPipe. */
#include <math.h>
#include <stdlib.h>

#include "bounds/bubble.h"
#include "bounds/memory.h"
#include "dag/graph.h"
#include "hand_dag.h"
#include "hand_model.h"
#include "hand_plan.h"
#include "hand_request.h"
#include "harness.h"
#include "scenario/faults.h"
#include "simulate/micro_batches.h"

static void plan_of(struct hand_request *hand, int32_t stages, int32_t n_samples, int32_t tokens, const char *knobs,
                    struct plan *plan)
{
    int32_t lengths[16];
    struct error err = {0};
    hand_request_real(hand, 1, stages, tokens);
    for (int32_t i = 0; i < n_samples; i++)
        lengths[i] = tokens;
    hand_batch(hand, n_samples, lengths);
    hand_knobs(hand, system_find("slimpipe", &err), knobs);
    CHECK_TRUE(system_find("slimpipe", &err)->plan(&hand->request, NULL, plan, &err));
    CHECK_TRUE(plan_check(plan, n_samples, hand->batch.tokens, &err));
    CHECK_TEXT(err.text, "");
}

static struct dag built(const struct plan *plan, const struct cost_setting *setting)
{
    struct error err = {0};
    struct dag dag = hand_built(plan, setting, (struct dag_options){0});
    struct graph *graph = graph_create(&dag, &err);
    CHECK_TRUE(graph != NULL);
    graph_free(graph);
    return dag;
}

/* Find the seconds of attention of 2000 of 4000 tokens on one of two stages. */
static double attention_s(const struct cost_setting *setting, enum pass pass, int32_t slice)
{
    struct slice part = {0, 2000 * slice, 2000 * (slice + 1)};
    struct cost_setting own = *setting;
    hand_layers(&own, 420);
    struct cost_micro_batch micro_batch = {.slices = &part, .n_slices = 1, .context = 1};
    return cost_of_pass(&own, pass, &micro_batch).attention_s;
}

/* Two stages run one sample in two slices. The ticks are F0; F1 beside F0; F1; B0 (of the second slice); B0 beside B1;
 * B1. In the second and the fifth one stage has the later slice. The other has the earlier, of a quarter of the FLOPs
 * of both. The later one gives (3 - 1)/2 of its 3 parts. */
TEST(slimpipe__gives_from_the_later_slice_until_both_have_the_mean)
{
    struct hand_request hand;
    struct plan plan;
    plan_of(&hand, 2, 1, 4000, "slices: 2", &plan);
    const struct plan_pipeline *pipeline = plan.phases[0].pipelines;
    CHECK_TEXT(hand_order_text(pipeline, 0), "F0 F1 B0 B1");
    CHECK_TEXT(hand_order_text(pipeline, 1), "F0 F1 B0 B1");
    const struct plan_phase *phase = plan.phases;
    CHECK_TRUE(phase->n_attentions == 2 && phase->n_blocks == 2);
    const struct plan_block *first = &phase->blocks[0], *second = &phase->blocks[1];
    CHECK_TRUE(phase->attentions[0].pass == PASS_FORWARD && phase->attentions[1].pass == PASS_BACKWARD);
    CHECK_TRUE(phase->attentions[0].beside == BESIDE_ATTENTION && phase->attentions[1].first_block == 1);
    CHECK_TRUE(plan_same_place(first->from, (struct plan_place){0, 0, 1}));
    CHECK_TRUE(plan_same_place(first->to, (struct plan_place){0, 1, 0}));
    CHECK_TRUE(plan_same_place(second->from, (struct plan_place){0, 0, 0}));
    CHECK_TRUE(plan_same_place(second->to, (struct plan_place){0, 1, 1}));
    CHECK_CLOSE(first->share, 1.0 / 3, 1e-3);
    struct dag dag = built(&plan, &hand.setting);
    int32_t n_attention = 0, n_sends = 0;
    for (int32_t i = 0; i < dag.n_tasks; i++) {
        const struct dag_task *task = &dag.tasks[i];
        n_sends += task->kind == DAG_SEND && task->purpose == DAG_EXCHANGE;
        if (task->kind != DAG_ATTENTION)
            continue;
        n_attention++;
        double both_s =
            attention_s(&hand.setting, (enum pass)task->pass, 0) + attention_s(&hand.setting, (enum pass)task->pass, 1);
        CHECK_CLOSE(dag.duration_s[i], both_s / 2, 1e-3);
    }
    CHECK_EQUAL(n_attention, 4);
    CHECK_EQUAL(n_sends, 4); /* there and back, in both passes */
    dag_free(&dag);
    plan_free(&plan);
    hand_request_free(&hand);
}

/* The seconds told of micro-batches are those that stage 0 computes: given away, taken on, or neither. */
TEST(slimpipe__makes_micro_batches_as_long_as_their_tasks)
{
    struct hand_request hand;
    struct plan plan;
    double seconds[N_PASSES][8] = {0}, nominal_s = 0, told_s = 0;
    plan_of(&hand, 2, 2, 4000, "slices: 4", &plan);
    const struct plan_pipeline *pipeline = plan.phases[0].pipelines;
    CHECK_EQUAL(pipeline->partition[PASS_FORWARD].n_micro_batches, 8);
    struct dag dag = built(&plan, &hand.setting);
    for (int32_t i = 0; i < dag.n_tasks; i++) {
        const struct dag_task *task = &dag.tasks[i];
        if (task->stage == 0 && (task->kind == DAG_COMPUTE || task->kind == DAG_ATTENTION))
            seconds[task->pass][task->micro_batch] += dag.duration_s[i];
    }
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++)
        for (int32_t micro_batch = 0; micro_batch < 8; micro_batch++) {
            struct cost_pass cost = dag_pass_cost(pipeline, &hand.setting, pass, micro_batch, 0);
            double micro_batch_s = micro_batches_pass_s(plan.phases, 0, &hand.setting, pass, micro_batch);
            CHECK_CLOSE(micro_batch_s, seconds[pass][micro_batch], 1e-12);
            nominal_s = fmax(nominal_s, cost_pass_s(&cost));
            told_s = fmax(told_s, micro_batch_s);
        }
    CHECK_TRUE(told_s < 0.9 * nominal_s); /* the longest gives */
    dag_free(&dag);
    plan_free(&plan);
    hand_request_free(&hand);
}

/* One GPU is slow. It takes twice as long for its half of the attention, whoever's it was. The other does not. */
TEST(exchanged_attention__takes_the_time_of_its_gpu)
{
    struct hand_request hand;
    struct plan plan;
    plan_of(&hand, 2, 1, 4000, "slices: 2", &plan);
    for (int32_t slow = 0; slow < 2; slow++) {
        struct cost_setting setting = hand.setting;
        struct fault fault = {.kind = FAULT_GPU, .gpus = {.n = 1, .at = {slow}}, .factor = 2};
        struct faults faults = faults_of(&fault, 1, setting.platform);
        setting.faults = &faults;
        struct dag dag = built(&plan, &setting);
        for (int32_t i = 0; i < dag.n_tasks; i++) {
            const struct dag_task *task = &dag.tasks[i];
            enum pass pass = (enum pass)task->pass;
            double both_s = attention_s(&hand.setting, pass, 0) + attention_s(&hand.setting, pass, 1);
            if (task->kind == DAG_ATTENTION)
                CHECK_CLOSE(dag.duration_s[i], task->stage == slow ? both_s : both_s / 2, 1e-3);
        }
        dag_free(&dag);
        faults_free(&faults);
    }
    plan_free(&plan);
    hand_request_free(&hand);
}

/* The forward's two messages have 2h T + share 4k S bytes out and 2h T + 4n T back. T = 2000, S = 4000, h = k = 64, n =
 * 4, with 420 layers. */
TEST(exchange__carries_the_bytes_counted_by_hand)
{
    struct hand_request hand;
    struct plan plan;
    plan_of(&hand, 2, 1, 4000, "slices: 2", &plan);
    struct dag dag = built(&plan, &hand.setting);
    double bytes[2] = {0}, share = plan.phases[0].blocks[0].share;
    for (int32_t i = 0; i < dag.n_tasks; i++)
        if (dag.tasks[i].kind == DAG_SEND && dag.tasks[i].purpose == DAG_EXCHANGE && dag.tasks[i].pass == PASS_FORWARD)
            bytes[dag.tasks[i].stage] += dag.tasks[i].wire_bytes;
    CHECK_CLOSE(bytes[0], 420 * (2.0 * 64 * 2000 + share * 4 * 64 * 4000), 1e-12);
    CHECK_CLOSE(bytes[1], 420 * (2.0 * 64 * 2000 + 4.0 * 4 * 2000), 1e-12);
    dag_free(&dag);
    plan_free(&plan);
    hand_request_free(&hand);
}

/* A backward that computes attention again (full recomputation) sends the forward's messages once more. */
TEST(exchange__repeats_with_recomputed_attention)
{
    struct slice slice = {0, 2000, 4000};
    struct cost_micro_batch micro_batch = {.slices = &slice, .n_slices = 1, .context = 1};
    struct cost_setting setting = *hand_setting();
    struct cost_block forward = cost_of_block(&setting, PASS_FORWARD, &micro_batch, 0.25, 0);
    struct cost_block once = cost_of_block(&setting, PASS_BACKWARD, &micro_batch, 0.25, 0);
    micro_batch.recompute = RECOMPUTE_FULL;
    struct cost_block again = cost_of_block(&setting, PASS_BACKWARD, &micro_batch, 0.25, 0);
    CHECK_CLOSE(once.out_bytes, 840 * (4.0 * 64 * 2000 + 8 * 4 * 2000 + 0.25 * 4 * 64 * 4000), 1e-12);
    CHECK_CLOSE(once.back_bytes, 840 * (2.0 * 64 * 2000 + 0.25 * 4 * 64 * 4000), 1e-12);
    CHECK_CLOSE(again.out_bytes, once.out_bytes + forward.out_bytes, 1e-12);
    CHECK_CLOSE(again.back_bytes, once.back_bytes + forward.back_bytes, 1e-12);
    CHECK_EQUAL(again.taker_bytes, once.taker_bytes);
    CHECK_TRUE(forward.n_messages == 840 && once.n_messages == 840 && again.n_messages == 2 * 840);
    hand_recompute_layers(&setting, 210);
    again = cost_of_block(&setting, PASS_BACKWARD, &micro_batch, 0.25, 0);
    CHECK_EQUAL(again.n_messages, 840 + 210);
    CHECK_CLOSE(again.out_bytes, once.out_bytes + forward.out_bytes / 4, 1e-12);
    CHECK_EQUAL(cost_of_block(&setting, PASS_FORWARD, &micro_batch, 0.25, 0).out_bytes, forward.out_bytes);
}

/* Latent widths are 8 (queries and keys) and 4 (values and output) of 2 heads. Two tokens see 4 keys, a quarter of
 * which goes. Out go queries 32 and keys and values 24, back output 16 and log-sum-exp 16. Backward out go queries 32,
 * the output's gradient 16, 2 x 16 and 24; back go gradients 32 and 24. */
TEST(exchange__returns_latent_outputs_as_wide_as_values)
{
    struct slice slice = {0, 2, 4};
    struct cost_micro_batch micro_batch = {.slices = &slice, .n_slices = 1, .context = 1};
    struct cost_setting setting = *hand_setting();
    setting.model = &hand_latent;
    setting.tensor = 1;
    cost_hold_layers(&setting, 0, 1);
    struct cost_block forward = cost_of_block(&setting, PASS_FORWARD, &micro_batch, 0.25, 0);
    struct cost_block backward = cost_of_block(&setting, PASS_BACKWARD, &micro_batch, 0.25, 0);
    CHECK_TRUE(forward.out_bytes == 32 + 24 && forward.back_bytes == 16 + 16);
    CHECK_TRUE(backward.out_bytes == 32 + 16 + 2 * 16 + 24 && backward.back_bytes == 32 + 24);
    CHECK_TRUE(backward.taker_bytes == 104 + 56 && backward.giver_bytes == 56);
}

/* There is a message a layer, 420 of them. There are two if attention is computed again. */
TEST(exchange__pays_the_latency_of_each_link)
{
    struct hand_request hand;
    struct plan plan;
    plan_of(&hand, 2, 1, 4000, "slices: 2", &plan);
    struct plan_partition *backward = &plan.phases[0].pipelines[0].partition[PASS_BACKWARD];
    for (int32_t micro_batch = 0; micro_batch < backward->n_micro_batches; micro_batch++)
        backward->micro_batches[micro_batch].recompute = RECOMPUTE_FULL;
    struct dag dag = built(&plan, &hand.setting);
    int32_t n_sends = 0;
    for (int32_t i = 0; i < dag.n_tasks; i++)
        if (dag.tasks[i].kind == DAG_SEND && dag.tasks[i].purpose == DAG_EXCHANGE) {
            double n_messages = dag.tasks[i].pass == PASS_FORWARD ? 420 : 840;
            CHECK_CLOSE(dag.tasks[i].latency_s, n_messages * hand.setting.device->nvlink.latency_s, 1e-12);
            n_sends++;
        }
    CHECK_EQUAL(n_sends, 4);
    CHECK_TRUE(hand.setting.device->nvlink.latency_s > 0);
    dag_free(&dag);
    plan_free(&plan);
    hand_request_free(&hand);
}

/* Check that buffers of a stage's messages have either size, each once, beside the workspace of the pass that runs. */
static void check_buffers(const struct memory *memory, int32_t stage, const double expected[3])
{
    int32_t seen = 0, before = 0;
    for (int64_t i = 0; i < memory->n_events; i++) {
        double bytes = memory->events[i].bytes[MEMORY_COMMUNICATION];
        int32_t now = bytes <= 0 ? 0 : fabs(bytes - expected[1]) < fabs(bytes - expected[2]) ? 1 : 2;
        if (memory->events[i].dag_rank != stage)
            continue;
        CHECK_TRUE(now == 0 || memory->events[i].bytes[MEMORY_WORKSPACE] > 0);
        if (now > 0)
            CHECK_CLOSE(bytes, expected[now], 1e-12);
        seen += now > 0 && now != before;
        before = now;
    }
    CHECK_EQUAL(seen, 2);
    CHECK_EQUAL(before, 0);
}

/* A layer's buffers have T = 2000, S = 4000, h = k = 64, n = 4 and share s. Stage 0 gives. In the forward it gets
 * outputs and sums, 2h T + 4n T, in the backward gradients, 2h T + s 4k S. Stage 1 takes. It holds more than it
 * returns: forward 2h T + s 4k S, backward 4h T + 8n T + s 4k S. The buffers are there while these passes run, and no
 * longer. */
TEST(exchange__holds_messages_while_their_passes_run)
{
    struct hand_request hand;
    struct plan plan;
    plan_of(&hand, 2, 1, 4000, "slices: 2", &plan);
    struct dag dag = built(&plan, &hand.setting);
    struct timeline timeline = {0};
    struct memory memory, quick;
    critical_path(&dag, &timeline);
    memory_of(&plan, &dag, &timeline, &hand.setting, true, &memory);
    memory_of(&plan, &dag, &timeline, &hand.setting, false, &quick);
    double share[N_PASSES], back[N_PASSES], out[N_PASSES];
    for (int pass = 0; pass < N_PASSES; pass++)
        share[pass] = plan.phases[0].blocks[pass].share * 4 * 64 * 4000;
    out[PASS_FORWARD] = 2.0 * 64 * 2000 + share[PASS_FORWARD];
    back[PASS_FORWARD] = 2.0 * 64 * 2000 + 4.0 * 4 * 2000;
    out[PASS_BACKWARD] = 4.0 * 64 * 2000 + 8.0 * 4 * 2000 + share[PASS_BACKWARD];
    back[PASS_BACKWARD] = 2.0 * 64 * 2000 + share[PASS_BACKWARD];
    for (int32_t stage = 0; stage < 2; stage++) {
        double expected[3] = {0, back[PASS_FORWARD] + stage * out[PASS_FORWARD],
                              back[PASS_BACKWARD] + stage * out[PASS_BACKWARD]};
        check_buffers(&memory, stage, expected);
        CHECK_EQUAL(quick.peak_bytes[stage], memory.peak_bytes[stage]);
    }
    memory_free(&memory);
    memory_free(&quick);
    timeline_free(&timeline);
    dag_free(&dag);
    plan_free(&plan);
    hand_request_free(&hand);
}

/* Sends are free. With exchange the passes of a tick take as long on every stage. Without it the longest slice holds up
 * the stages after it. 40000 tokens in four slices have 1 : 3 : 5 : 7 parts of the attention. */
TEST(exchange__takes_away_the_imbalance)
{
    const char *const knobs[] = {"slices: 4\nexchange: false", "slices: 4"};
    double end_s[2];
    for (int i = 0; i < 2; i++) {
        struct hand_request hand;
        struct plan plan;
        struct timeline timeline = {0};
        plan_of(&hand, 4, 3, 40000, knobs[i], &plan);
        struct dag dag = built(&plan, &hand.setting);
        hand_send_times(&dag, 0);
        critical_path(&dag, &timeline);
        end_s[i] = timeline.makespan_s;
        timeline_free(&timeline);
        dag_free(&dag);
        plan_free(&plan);
        hand_request_free(&hand);
    }
    CHECK_TRUE(end_s[1] < 0.97 * end_s[0]);
}

/* Stage s runs n + p-1-s slices first, in step n + 2(p-1-s). It holds so many of a micro-batch's n. */
TEST(slimpipe__holds_what_the_header_says)
{
    const char *const knobs[] = {"slices: 8\nexchange: false", "slices: 8"};
    for (int i = 0; i < 2; i++) {
        struct hand_request hand;
        struct plan plan;
        plan_of(&hand, 4, 4, 8000, knobs[i], &plan);
        struct dag dag = built(&plan, &hand.setting);
        struct timeline timeline = {0};
        struct memory memory;
        critical_path(&dag, &timeline);
        memory_of(&plan, &dag, &timeline, &hand.setting, false, &memory);
        for (int32_t s = 0; s < 3; s++) {
            double slice = 1000 * 210 * hand_layer_bytes(&hand.setting, RECOMPUTE_NONE, false);
            CHECK_CLOSE(memory.at_peak[s][MEMORY_ACTIVATIONS], slice * (8 + (i + 1) * (3 - s)), 1e-12);
        }
        memory_free(&memory);
        timeline_free(&timeline);
        dag_free(&dag);
        plan_free(&plan);
        hand_request_free(&hand);
    }
}

/* Let the messages of all blocks run beside attention, or before and behind it. */
static void hide(struct plan *plan, bool beside)
{
    for (int32_t i = 0; i < plan->phases->n_attentions; i++)
        plan->phases->attentions[i].beside = beside ? BESIDE_ATTENTION : BESIDE_NOTHING;
}

/* SimGrid without contention takes as long as the longest path, with the exchange beside attention and before it. */
TEST(slimpipe__takes_as_long_in_both_engines)
{
    struct platform platform = hand_platform("hopper-2x8-free");
    for (int beside = 0; beside < 2; beside++) {
        struct hand_request hand;
        struct plan plan;
        plan_of(&hand, 4, 3, 4000, "slices: 4", &plan);
        hand.setting.platform = &platform;
        hide(&plan, beside);
        struct dag dag = built(&plan, &hand.setting);
        hand_engines_agree(&dag, &platform);
        dag_free(&dag);
        plan_free(&plan);
        hand_request_free(&hand);
    }
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

/* One place may stand for both TP ranks, or each may have a place. The GPUs' seconds have the same ends. Stages wait
 * for each other before an exchange, as slices differ. The first of an exchange group is not always the same stage.
 * Before and behind attention messages show. */
TEST(slimpipe__takes_as_long_with_every_tensor_rank)
{
    for (int beside = 0; beside < 2; beside++) {
        struct hand_request hand;
        struct plan plan;
        plan_of(&hand, 4, 3, 4000, "slices: 4", &plan);
        hand.setting.tp_overlap = SCENARIO_EXPOSED;
        hide(&plan, beside);
        plan.phases[0].pipelines[0].layout.tensor = 2;
        plan.phases[0].pipelines[0].layout.stage_stride = 2;
        struct bubble one = bubble_with(&plan, &hand.setting, false), all = bubble_with(&plan, &hand.setting, true);
        double rounding_s = 1e-12 * all.total_s;
        CHECK_CLOSE(one.total_s, all.total_s, 1e-12);
        CHECK_TRUE(fabs(one.busy_s - all.busy_s) <= rounding_s);
        CHECK_TRUE(fabs(one.ring_s - all.ring_s) <= rounding_s);
        CHECK_TRUE(fabs(one.warm_up_s - all.warm_up_s) <= rounding_s);
        CHECK_TRUE(fabs(one.imbalance_s - all.imbalance_s) <= rounding_s);
        CHECK_TRUE(fabs(one.cool_down_s - all.cool_down_s) <= rounding_s);
        CHECK_TRUE(beside || one.ring_s > 1e-3 * one.total_s);
        plan_free(&plan);
        hand_request_free(&hand);
    }
}

TEST(plan_check__tells_breaches_of_blocks)
{
    struct hand_request hand;
    struct plan plan;
    struct error err = {0};
    plan_of(&hand, 2, 1, 4000, "slices: 2", &plan);
    struct plan_block *block = plan.phases[0].blocks, whole = *block;
    block->share = 1.5;
    CHECK_TRUE(!plan_check(&plan, 1, hand.batch.tokens, &err));
    CHECK_CONTAINS(err.text, "forward micro-batch 1 on stage 0 gives away 1.5 of its attention");
    *block = whole;
    block->to.micro_batch = 7;
    err = (struct error){0};
    CHECK_TRUE(!plan_check(&plan, 1, hand.batch.tokens, &err));
    CHECK_CONTAINS(err.text, "attention 0 has no forward micro-batch 7 on stage 1");
    *block = whole;
    block->to.micro_batch = 1; /* F1 on stage 1 runs after F1 on stage 0 */
    struct dag dag;
    err = (struct error){0};
    CHECK_TRUE(!dag_build(&plan, &hand.setting, (struct dag_options){0}, &dag, &err));
    CHECK_CONTAINS(err.text, "in a circle");
    plan_free(&plan);
    hand_request_free(&hand);
}
