/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check the states of places: gradients that are freed, and layouts that change. */
#include "bounds/states.h"

#include <math.h>
#include <string.h>

#include "base/check.h"
#include "hand_memory.h"
#include "hand_plan.h"
#include "harness.h"
#include "plan/order.h"

/* With this setting the optimizer frees the gradients. States then start at 14 bytes a parameter. */
static const struct scenario_plan freeing_plan = {.gradient_buffers = SCENARIO_GRADIENTS_FREED};

static struct cost_setting freeing(void)
{
    struct cost_setting setting = *hand_setting();
    hand_options(&setting, &freeing_plan);
    return setting;
}

/* One stage has 840 layers of 41,088 parameters, two tables of 64,000 and the last norm's 64. Together these are P =
 * 34,641,984, with fp32 gradients of 164,352 bytes a layer. A token holds 1808 bytes in a layer and 4256 in the head.
 * It needs 2000 for the loss and 896 for a layer in work. One micro-batch of T tokens has the most at one of these
 * moments.
 *
 *   the loss              14 P + T (840 x 1808 + 4256 + 2000)
 *   the head's backward   14 P + 4 x 64,064 + T (840 x 1808 + 4256 - 2000 + 128), fp32 logits gone, gradients in bf16
 *   the first layer's     14 P + 4 x 64,064 + 164,352 + T (840 x 1808 + 896): a layer more, the head less
 *   the last layer's      14 P + 4 x 64,064 + 840 x 164,352 + T (1808 + 896)
 *   the end               18 P
 *
 * With 16 tokens it is the end, with 100 and 2000 the loss. The second of two micro-batches has all gradients from its
 * start: 18 P + T (840 x 1808 + 4256 + 2000). */
TEST(freed_gradients__grow_over_the_first_backward)
{
    static const double parameters = 34641984;
    static const int32_t tokens[] = {16, 100, 2000};
    const struct cost_setting setting = freeing();
    for (int32_t i = 0; i < 6; i++) {
        struct plan plan;
        struct hand_run run;
        int32_t n = 1 + i % 2, length = tokens[i / 2];
        double all = length * (840 * 1808.0 + 4256 + 2000), peak = 18 * parameters + all;
        if (n == 1)
            peak = fmax(14 * parameters + all, 18 * parameters);
        hand_uniform(&plan, 1, n, length);
        plan.shards = 1;
        hand_open_run(&run, &plan, &setting, false);
        CHECK_CLOSE(run.memory.peak_bytes[0], peak, 1e-14);
        const struct memory_event *event = run.memory.events, *last = event + run.memory.n_events - 1;
        CHECK_CLOSE(event->bytes[MEMORY_STATES], 14 * parameters, 1e-15);
        CHECK_CLOSE(last->bytes[MEMORY_STATES], 14 * parameters, 1e-15);
        CHECK_CLOSE(last->time_s, run.timeline.makespan_s, 1e-15);
        int32_t n_layers = 0, n_falls = 0; /* steps of a layer's gradients; falls of states */
        for (; event < last; event++) {
            double grown = event[1].bytes[MEMORY_STATES] - event[0].bytes[MEMORY_STATES];
            n_layers += fabs(grown - 164352) < 1;
            n_falls += grown < 0;
        }
        CHECK_EQUAL(n_layers, 840);
        CHECK_EQUAL(n_falls, 1);
        hand_close_run(&run);
        plan_free(&plan);
    }
}

/* 100 tokens run with a fused loss (bf16 logits are kept, and their gradient in bf16). The most is at the head's
 * backward. A tied table of 1200 tokens has its gradient there, 4 x 76,864 bytes. The loss has 2 x 1200 - 128 a token
 * more. */
TEST(freed_gradients__begin_with_the_head_after_the_loss)
{
    struct cost_setting setting = freeing();
    struct model tied = *setting.model;
    struct plan plan;
    struct hand_run run;
    tied.tied_embeddings = true;
    tied.vocabulary = 1200;
    setting.model = &tied;
    setting.loss = SCENARIO_LOSS_FUSED;
    hand_uniform(&plan, 1, 1, 100);
    plan.shards = 1;
    hand_open_run(&run, &plan, &setting, false);
    CHECK_CLOSE(run.memory.peak_bytes[0],
                14 * (840 * 41088.0 + 76864) + 4 * 76864.0 + 100 * (840 * 1808.0 + 2 * 1200 + 4 * 64 + 2 * 64), 1e-14);
    CHECK_CLOSE(run.memory.at_peak[0][MEMORY_WORKSPACE], 100 * 2 * 64.0, 1e-14);
    hand_close_run(&run);
    plan_free(&plan);
}

/* These are the events behind these moments, for 100 tokens. When a layer starts, its gradients are there. It and those
 * before it still hold their activations. The head is over. */
TEST(freed_gradients__come_as_the_activations_of_a_layer_go)
{
    const struct cost_setting setting = freeing();
    struct plan plan;
    struct hand_run run;
    hand_uniform(&plan, 1, 1, 100);
    plan.shards = 1;
    hand_open_run(&run, &plan, &setting, false);
    int32_t layer = 0;
    double last_s = 0;
    for (int64_t i = 1; i < run.memory.n_events; i++) {
        const struct memory_event *event = &run.memory.events[i];
        if (fabs(event->bytes[MEMORY_STATES] - event[-1].bytes[MEMORY_STATES] - 164352) > 1)
            continue;
        CHECK_CLOSE(event->bytes[MEMORY_ACTIVATIONS], 100 * 1808.0 * (840 - layer), 1e-10);
        CHECK_CLOSE(event->bytes[MEMORY_WORKSPACE], 100 * 896.0, 1e-14);
        CHECK_CLOSE(event->bytes[MEMORY_STATES], 14 * 34641984.0 + 4 * 64064.0 + 164352.0 * ++layer, 1e-13);
        CHECK_TRUE(event->time_s >= last_s);
        last_s = event->time_s;
    }
    CHECK_EQUAL(layer, 840);
    hand_close_run(&run);
    plan_free(&plan);
}

/* Two stages of 420 layers run two micro-batches of 100 tokens. Stage 0, with 17,320,960 parameters, holds both when
 * its first backward starts. It holds the most at its first layer, as 180,800 bytes go with each and 164,352 come.
 * Stage 1, with 64 parameters more, starts the second forward when the first backward is over. */
TEST(freed_gradients__grow_on_each_stage)
{
    const struct cost_setting setting = freeing();
    struct plan plan;
    struct hand_run run;
    hand_uniform(&plan, 2, 2, 100);
    plan.shards = 1;
    hand_open_run(&run, &plan, &setting, false);
    CHECK_CLOSE(run.memory.peak_bytes[0], 14 * 17320960.0 + 164352 + 2 * 100 * 420 * 1808.0 + 100 * 896, 1e-14);
    CHECK_CLOSE(run.memory.peak_bytes[1], 18 * 17321024.0 + 100 * (420 * 1808.0 + 4256 + 2000), 1e-14);
    hand_close_run(&run);
    plan_free(&plan);
}

/* Two stages run one micro-batch of 16 tokens whose backward is split. Weights' gradients come in the pass of their
 * own. Each layer's come when its share of cost_weight_bytes goes. So stage 1 has none while the activations are
 * there. */
TEST(freed_gradients__come_with_the_weights_pass_of_a_split_backward)
{
    const struct cost_setting setting = freeing();
    struct plan plan;
    struct hand_run run;
    hand_uniform(&plan, 2, 1, 16);
    plan.shards = 1;
    order_zero_bubble(&plan.phases[0].pipelines[0]);
    hand_open_run(&run, &plan, &setting, false);
    for (int32_t s = 0; s < 2; s++) {
        double first = s == 0 ? 17320960 : 17321024, grown = 0;
        for (int64_t i = 0; i < run.memory.n_events; i++) {
            const struct memory_event *event = &run.memory.events[i];
            if (event->dag_rank != s || event->bytes[MEMORY_STATES] < 14 * first + 1)
                continue;
            grown = fmax(grown, event->bytes[MEMORY_STATES] - 14 * first);
            CHECK_TRUE(event->bytes[MEMORY_ACTIVATIONS] <=
                       16 * (cost_weight_bytes(&setting) / 2 + (s == 1 ? cost_head_weight_bytes(&setting, 1) : 0)) + 1);
        }
        CHECK_CLOSE(grown, 4 * first, 1e-12);
    }
    hand_close_run(&run);
    plan_free(&plan);
}

/* zero2 on 4 ranks has 2 bytes of weights and 12/4 of states. Gradients of 4/4 are there from the first backward on,
 * the head's with the embedding's. A tied table's come with the head if nothing is sharded. */
TEST(freed_gradients__are_shards_under_zero2)
{
    struct cost_setting setting = freeing();
    struct model tied = *setting.model;
    struct dag_rank place = {0};
    struct plan plan;
    hand_uniform(&plan, 1, 1, 16);
    plan.shards = 4;
    hand_options(&setting,
                 &(struct scenario_plan){.sharding = SCENARIO_ZERO2, .gradient_buffers = SCENARIO_GRADIENTS_FREED});
    struct states_gradients gradients = states_gradients_of(&plan, &setting, &place, 0);
    CHECK_CLOSE(gradients.head + gradients.tables, 128064.0, 1e-15);
    CHECK_TRUE(gradients.head == 0 && gradients.layers == 840);
    CHECK_CLOSE(gradients.layer, 41088.0, 1e-15);
    tied.tied_embeddings = true;
    setting.model = &tied;
    hand_options(&setting, &freeing_plan);
    gradients = states_gradients_of(&plan, &setting, &place, 0);
    CHECK_CLOSE(gradients.head, 4 * 64064.0, 1e-15);
    CHECK_TRUE(gradients.tables == 0);
    plan_free(&plan);
}

/* Two stages have two chunks, 210 layers each. The embedding's gradients, 4 x 64,000, belong to the first chunk of the
 * first stage. The head's with the last norm's, 4 x 64,064, belong to the second chunk of the last. A tied table of one
 * stage comes with the head. 16 learned positions of 64 do not. */
TEST(states_gradients_of__belong_to_the_chunk_that_computes_them)
{
    static const double tables[2][2] = {{256000, 0}, {0, 0}}, head[2][2] = {{0, 0}, {0, 256256}};
    struct cost_setting setting = freeing();
    struct model model = *setting.model;
    struct dag_rank place = {0};
    struct plan plan;
    hand_uniform(&plan, 2, 2, 16);
    plan.phases[0].pipelines[0].layout.chunks = 2;
    for (place.stage = 0; place.stage < 2; place.stage++)
        for (int32_t chunk = 0; chunk < 2; chunk++) {
            struct states_gradients gradients = states_gradients_of(&plan, &setting, &place, chunk);
            CHECK_EQUAL(gradients.layers, 210);
            CHECK_CLOSE(gradients.layer, 164352.0, 1e-15);
            CHECK_CLOSE(gradients.tables, tables[place.stage][chunk], 1e-15);
            CHECK_CLOSE(gradients.head, head[place.stage][chunk], 1e-15);
        }
    plan_free(&plan);
    hand_uniform(&plan, 1, 1, 16);
    model.tied_embeddings = true;
    model.positions = 16;
    setting.model = &model;
    place.stage = 0;
    struct states_gradients gradients = states_gradients_of(&plan, &setting, &place, 0);
    CHECK_CLOSE(gradients.tables, 4 * 16 * 64.0, 1e-15);
    CHECK_CLOSE(gradients.head, 4 * 64064.0, 1e-15);
    plan_free(&plan);
}

/* Random plans have copies and shared samples. Peaks are the same with events and without. They are never above those
 * with gradients that are kept, and never below them by more than all gradients. In the end none is left. */
TEST(freed_gradients__stay_between_none_and_kept)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        const struct cost_setting *keeping = hand_setting_of_heads(seed);
        struct cost_setting setting = *keeping;
        struct plan plan;
        struct hand_run kept, freed;
        struct memory quick;
        hand_options(&setting, &freeing_plan);
        hand_random(&plan, seed);
        hand_open_run(&kept, &plan, keeping, seed % 2);
        hand_open_run(&freed, &plan, &setting, seed % 2);
        memory_of(&plan, &freed.dag, &freed.timeline, &setting, false, &quick);
        size_t n = (size_t)quick.n_ranks;
        CHECK_TRUE(memcmp(quick.peak_bytes, freed.memory.peak_bytes, n * sizeof *quick.peak_bytes) == 0);
        for (size_t i = 0; i < n; i++) {
            double all = 0;
            for (int32_t chunk = 0; chunk < plan.phases[0].pipelines[0].layout.chunks; chunk++) {
                struct states_gradients of = states_gradients_of(&plan, &setting, &freed.dag.ranks[i], chunk);
                all += of.head + of.layers * of.layer + of.tables;
            }
            /* Kept gradients have a buffer that is rounded. */
            CHECK_TRUE(freed.memory.peak_bytes[i] <= kept.memory.peak_bytes[i] * (1 + 1e-12));
            CHECK_TRUE(freed.memory.peak_bytes[i] >= kept.memory.peak_bytes[i] - all - (2 << 20));
        }
        for (int64_t i = 0; i < freed.memory.n_events; i++) {
            const struct memory_event *event = &freed.memory.events[i];
            bool last = i + 1 == freed.memory.n_events || event[1].dag_rank != event->dag_rank;
            CHECK_TRUE(last || event[1].time_s >= event->time_s);
            for (int k = 0; k < MEMORY_N_CLASSES; k++)
                CHECK_TRUE(event->bytes[k] >= -1e-9 * freed.memory.peak_bytes[event->dag_rank]);
        }
        memory_free(&quick);
        hand_close_run(&kept);
        hand_close_run(&freed);
        plan_free(&plan);
    }
}

/* One pipeline of two stages (parameters of the test above) is followed by two whole replicas on the same GPUs.
 * While the model moves to the stages, each GPU still has the whole weights, 2 x 34,641,984 bytes. While it moves on,
 * it has its stage's weights and gradients, 6 bytes a parameter. Activations of 16 tokens are less. Gradients that are
 * freed are not there at first: 4 bytes less. The second stage has no embedding. Its most is when its last layer is in
 * work, 16 tokens of 1808 + 896 bytes. On the first stage it is when its embedding's gradients have come. */
TEST(states_moving_bytes__hold_both_layouts)
{
    struct plan plan, second;
    hand_uniform(&plan, 2, 1, 16);
    hand_plan(&second, 2, 1, 1);
    for (int32_t i = 0; i < 2; i++)
        for (int pass = 0; pass < N_PASSES; pass++)
            hand_micro_batch(&second.phases[0].pipelines[i].partition[pass], (struct slice){1 + i, 0, 16});
    hand_order(&second);
    hand_append(&plan, &second);
    plan.shards = 1;
    for (int32_t i = 0; i < 2; i++) {
        plan.phases[i].n_reshards = 1;
        plan.phases[i].reshards = check_malloc(sizeof(struct plan_reshard));
        plan.phases[i].reshards[0] = (struct plan_reshard){0, 1, 1e6};
    }
    static const double stage[] = {17320960, 17321024}, whole = 34641984;
    const struct cost_setting settings[] = {*hand_setting(), freeing()};
    for (int events = 0; events < 4; events++) {
        struct hand_run run;
        const struct cost_setting *setting = &settings[events / 2];
        hand_open_run(&run, &plan, setting, false);
        if (events % 2 == 0) {
            memory_free(&run.memory);
            memory_of(&plan, &run.dag, &run.timeline, setting, false, &run.memory);
        }
        for (int32_t i = 0; i < 2; i++) {
            double first = (events < 2 ? 18 : 14) * stage[i] + 2 * whole, last_layer = i == 1 ? 16 * (1808 + 896) : 0;
            CHECK_CLOSE(run.memory.peak_bytes[i], fmax(first, 18 * stage[i] + last_layer), 1e-15);
            CHECK_CLOSE(run.memory.peak_bytes[2 + i], 18 * whole + 6 * stage[i], 1e-15);
        }
        hand_close_run(&run);
    }
    plan_free(&plan);
}
