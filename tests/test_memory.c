/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check the memory of places over time, class by class. */
#include "bounds/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "hand_memory.h"
#include "hand_plan.h"
#include "harness.h"
#include "plan/order.h"

/* The workspace of a micro-batch of so many tokens on the last stage is the head's, 2V a token. A layer's workspace
 * less what the head kept, (4V + 4h) a token, is smaller. */
static double passing(double tokens)
{
    return tokens * 2.0 * 1000;
}

/* A token takes 6f and 2h. Full recomputation takes all of a layer again: 12h + 4k + 6f + 4n. */
static double layer_workspace(enum recompute recompute, double tokens)
{
    double again = recompute == RECOMPUTE_FULL ? 16 * 64 + 6 * 128 + 4 * 4 : 0;
    return tokens * (6.0 * 128 + 2 * 64 + again);
}

/* Return what the allocator adds to the states of a stage of n layers that shares none. */
static double hand_block_bytes(const struct cost_setting *setting, int32_t n, bool first, bool last)
{
    struct cost_setting stage = *setting;
    hand_layers(&stage, n);
    return cost_state_block_bytes(&stage, first, last, 1);
}

/* 1F1B holds min(m, p - s) micro-batches on stage s. States and workspace are those of the stage. */
TEST(memory_1f1b__holds_as_many_micro_batches_as_stages_follow)
{
    const struct cost_setting *setting = hand_setting();
    for (int32_t p = 1; p <= 6; p++)
        for (int32_t m = 1; m <= 8; m++) {
            struct plan plan;
            struct hand_run run;
            hand_uniform(&plan, p, m, 16);
            hand_open_run(&run, &plan, setting, false);
            for (int32_t s = 0; s < p; s++) {
                double held = (m < p - s ? m : p - s) * 16.0 * 840 / p * hand_activation(RECOMPUTE_NONE, false);
                double parameters = hand_stage_parameters(setting->model, 1, 840 / p, s == 0, s == p - 1);
                double states =
                    cost_state_bytes(setting, parameters, 1) + hand_block_bytes(setting, 840 / p, s == 0, s == p - 1);
                double workspace = s == p - 1 ? passing(16) : layer_workspace(RECOMPUTE_NONE, 16);
                held += s == p - 1 ? hand_head_kept(16) : 0;
                CHECK_CLOSE(hand_highest(&run.memory, s, MEMORY_ACTIVATIONS), held, 1e-14);
                CHECK_CLOSE(run.memory.peak_bytes[s], held + states + workspace, 1e-14);
                CHECK_CLOSE(run.memory.at_peak[s][MEMORY_WORKSPACE], workspace, 1e-15);
                CHECK_TRUE(hand_highest(&run.memory, s, MEMORY_KV) == 0);
            }
            hand_close_run(&run);
            plan_free(&plan);
        }
}

/* Interleaved micro-batches have p = 2, v = 2, m = 4 and 16 tokens. Stage 0 starts five forwards of a chunk (four to
 * warm up) before its first backward. Stage 1 starts three, one of them with the head. Each chunk is a quarter of 840
 * layers. */
TEST(memory_interleaved__holds_more_chunks)
{
    struct plan plan;
    struct hand_run run;
    hand_uniform(&plan, 2, 4, 16);
    plan.phases[0].pipelines[0].layout.chunks = 2;
    order_interleaved(&plan.phases[0].pipelines[0]);
    hand_open_run(&run, &plan, hand_setting(), false);
    double chunk = 16 * 210 * hand_activation(RECOMPUTE_NONE, false);
    CHECK_CLOSE(hand_highest(&run.memory, 0, MEMORY_ACTIVATIONS), 5 * chunk, 1e-14);
    CHECK_CLOSE(hand_highest(&run.memory, 1, MEMORY_ACTIVATIONS), 3 * chunk + hand_head_kept(16), 1e-14);
    double parameters = hand_stage_parameters(hand_setting()->model, 1, 420, true, false);
    CHECK_CLOSE(hand_highest(&run.memory, 0, MEMORY_STATES), cost_state_bytes(hand_setting(), parameters, 1), 1e-14);
    hand_close_run(&run);
    plan_free(&plan);
}

/* 1F1B runs on stages of 80, 680 and 80 layers. They hold 3, 2 and 1 micro-batches of their own layers. */
TEST(uneven_stages__hold_their_own_layers)
{
    static const int32_t layers[] = {80, 680, 80};
    struct plan plan;
    struct hand_run run;
    struct cost_setting setting = *hand_setting();
    hand_options(&setting, &(struct scenario_plan){.stages = {.first_layers = {1, 80}, .last_layers = {1, 80}}});
    hand_uniform(&plan, 3, 4, 16);
    hand_open_run(&run, &plan, &setting, false);
    for (int32_t s = 0; s < 3; s++) {
        double held =
            (3 - s) * 16.0 * layers[s] * hand_activation(RECOMPUTE_NONE, false) + (s == 2 ? hand_head_kept(16) : 0);
        double parameters = hand_stage_parameters(setting.model, 1, layers[s], s == 0, s == 2);
        CHECK_CLOSE(hand_highest(&run.memory, s, MEMORY_ACTIVATIONS), held, 1e-14);
        CHECK_CLOSE(hand_highest(&run.memory, s, MEMORY_STATES), cost_state_bytes(&setting, parameters, 1), 1e-14);
    }
    hand_close_run(&run);
    plan_free(&plan);
}

/* One stage runs a sample of 12 tokens forward as 4 + 8, backward as 6 + 6. It holds activations of 4, 12, then 6 after
 * the first backward micro-batch and 0 after the second. It holds key and value gradients of the prefix of 6 while both
 * are open. Under full recomputation 2h a token stays and 4k more as keys and values. With alternate-gemms 2k more
 * stays as keys. The head's probabilities stay in any case, as the last stage runs both forwards before the first
 * backward. */
TEST(asymmetric_cuts__free_memory_token_by_token)
{
    static const double live_tokens[] = {0, 4, 4, 12, 12, 12, 6, 6, 0};
    for (int recompute = RECOMPUTE_NONE; recompute <= RECOMPUTE_FULL; recompute++) {
        struct plan plan;
        struct hand_run run;
        hand_plan(&plan, 1, 1, 1);
        struct plan_partition *partition = plan.phases[0].pipelines[0].partition;
        hand_micro_batch(&partition[PASS_FORWARD], (struct slice){0, 0, 4})->recompute = (enum recompute)recompute;
        hand_micro_batch(&partition[PASS_FORWARD], (struct slice){0, 4, 12})->recompute = (enum recompute)recompute;
        hand_micro_batch(&partition[PASS_BACKWARD], (struct slice){0, 6, 12})->recompute = (enum recompute)recompute;
        hand_micro_batch(&partition[PASS_BACKWARD], (struct slice){0, 0, 6})->recompute = (enum recompute)recompute;
        hand_order(&plan);
        hand_open_run(&run, &plan, hand_setting(), false);
        double bytes = 840 * hand_activation((enum recompute)recompute, false), kv = 840 * 4.0 * 64;
        double again = recompute == RECOMPUTE_FULL ? 1 : recompute & RECOMPUTE_ALTERNATE_GEMMS ? 0.5 : 0;
        CHECK_EQUAL(run.memory.n_events, 9); /* start, begin and end of four passes */
        for (int i = 0; i < 9 && i < run.memory.n_events; i++) {
            const double *live = run.memory.events[i].bytes;
            CHECK_CLOSE(live[MEMORY_ACTIVATIONS], live_tokens[i] * bytes + hand_head_kept(live_tokens[i]), 1e-14);
            CHECK_CLOSE(live[MEMORY_KV], live_tokens[i] * again * kv, 1e-14);
            CHECK_CLOSE(live[MEMORY_KV_GRADIENTS], i >= 5 && i < 8 ? 6 * kv : 0, 1e-14);
            CHECK_TRUE((live[MEMORY_WORKSPACE] > 0) == (i % 2 == 1));
        }
        hand_close_run(&run);
        plan_free(&plan);
    }
}

/* A whole sample keeps no keys and values of its own under full recomputation. */
TEST(whole_samples__keep_no_keys_and_values)
{
    struct plan plan;
    struct hand_run run;
    hand_uniform(&plan, 2, 2, 16);
    for (int pass = 0; pass < N_PASSES; pass++)
        for (int32_t micro_batch = 0; micro_batch < 2; micro_batch++)
            plan.phases[0].pipelines[0].partition[pass].micro_batches[micro_batch].recompute = RECOMPUTE_FULL;
    hand_open_run(&run, &plan, hand_setting(), false);
    CHECK_CLOSE(hand_highest(&run.memory, 0, MEMORY_ACTIVATIONS), 2 * 16 * 420 * 2.0 * 64, 1e-15);
    CHECK_TRUE(hand_highest(&run.memory, 0, MEMORY_KV) == 0 && hand_highest(&run.memory, 0, MEMORY_KV_GRADIENTS) == 0);
    hand_close_run(&run);
    plan_free(&plan);
}

/* A sample that only the backward cuts keeps them from its forward on. Its last slice runs backward first, computes its
 * layers again and attends to all before it. If it is offloaded, they stay on the device. */
TEST(sliced_samples__keep_keys_and_values)
{
    struct plan plan;
    struct hand_run run;
    hand_plan(&plan, 1, 2, 1);
    struct plan_partition *partition = plan.phases[0].pipelines[0].partition;
    hand_micro_batch(&partition[PASS_FORWARD], (struct slice){0, 0, 16});
    hand_micro_batch(&partition[PASS_BACKWARD], (struct slice){0, 10, 16});
    hand_micro_batch(&partition[PASS_BACKWARD], (struct slice){0, 0, 10});
    hand_order(&plan);
    for (int i = 0; i < 3; i++)
        partition[i > 0].micro_batches[i / 2].recompute = RECOMPUTE_FULL;
    hand_open_run(&run, &plan, hand_setting(), false);
    CHECK_CLOSE(hand_highest(&run.memory, 0, MEMORY_ACTIVATIONS), 16 * 420 * 2.0 * 64, 1e-15);
    CHECK_CLOSE(hand_highest(&run.memory, 0, MEMORY_KV), 16 * 420 * 4.0 * 64, 1e-15);
    hand_close_run(&run);
    for (int i = 0; i < 3; i++)
        partition[i > 0].micro_batches[i / 2].recompute = RECOMPUTE_NONE;
    partition[PASS_FORWARD].micro_batches[0].offload = 1;
    hand_open_run(&run, &plan, hand_setting(), false);
    CHECK_CLOSE(run.memory.host_peak_bytes[0], 16 * 420 * (hand_activation(RECOMPUTE_NONE, false) - 4.0 * 64), 1e-14);
    hand_close_run(&run);
    plan_free(&plan);
}

/* Two stages run four micro-batches of 16 tokens. A layer's token holds 12h + 4k + 6f + 4n = 1024 + 768 + 16 = 1808
 * bytes. Stage 0 has two micro-batches in flight: 2 x 16 x 420 x 1808 = 24,299,520. It has 420 x (4 h^2 + 3 h f + 2 h =
 * 41,088) + 64,000 = 17,320,960 parameters at 18 bytes: 311,777,280. Its workspace is 16 x (6f + 2h = 896) = 14,336;
 * libraries take 1e6. Stage 1 has one micro-batch: 12,149,760 and the head's 16 x 4,256. It has 64 parameters more, and
 * a workspace of 16 x 2,000. */
TEST(memory_1f1b__has_the_peak_counted_by_hand)
{
    struct plan plan;
    struct hand_run run;
    struct device device = *hand_setting()->device;
    struct cost_setting setting = *hand_setting();
    device.workspace_bytes = 1e6;
    setting.device = &device;
    hand_uniform(&plan, 2, 4, 16);
    plan.shards = 1;
    hand_open_run(&run, &plan, &setting, false);
    CHECK_CLOSE(run.memory.peak_bytes[0], 24299520.0 + 311777280 + 14336 + 1000000, 1e-15);
    CHECK_CLOSE(run.memory.peak_bytes[1], 12149760.0 + 68096 + 311777280 + 1152 + 32000 + 1000000, 1e-15);
    CHECK_CLOSE(run.memory.at_peak[1][MEMORY_LIBRARIES], 1e6, 1e-15);
    CHECK_TRUE(run.memory.host_peak_bytes[0] == 0);
    hand_close_run(&run);
    plan_free(&plan);
}

/* A padded micro-batch computes on its padding and holds it until the backward of the same micro-batch. */
TEST(padding__takes_memory)
{
    struct plan plan;
    struct hand_run run;
    hand_uniform(&plan, 1, 1, 16);
    for (int pass = 0; pass < N_PASSES; pass++)
        plan.phases[0].pipelines[0].partition[pass].micro_batches[0].padding_tokens = 4;
    hand_open_run(&run, &plan, hand_setting(), false);
    CHECK_CLOSE(hand_highest(&run.memory, 0, MEMORY_ACTIVATIONS),
                20.0 * 840 * hand_activation(RECOMPUTE_NONE, false) + hand_head_kept(20), 1e-15);
    CHECK_TRUE(run.memory.events[run.memory.n_events - 1].bytes[MEMORY_ACTIVATIONS] == 0);
    hand_close_run(&run);
    plan_free(&plan);
}

/* Two pipelines share a sample of 16 tokens in two slices. Each holds half of its tokens, of their keys and values, and
 * of its prefix' gradients. Each computes on half of a slice. */
TEST(shared_micro_batches__hold_their_share)
{
    struct plan plan;
    struct hand_run run;
    hand_plan(&plan, 2, 1, 1);
    struct plan_phase *phase = &plan.phases[0];
    hand_group(phase, 2);
    for (int32_t i = 0; i < 4 * N_PASSES; i++) {
        int32_t pass = i / 4, begin = i % 2 == pass ? 0 : 8;
        struct plan_partition *partition = &phase->pipelines[i / 2 % 2].partition[pass];
        struct plan_micro_batch *micro_batch = hand_micro_batch(partition, (struct slice){0, begin, begin + 8});
        micro_batch->context = 2;
        micro_batch->group = 0;
        micro_batch->recompute = RECOMPUTE_FULL;
    }
    hand_order(&plan);
    hand_open_run(&run, &plan, hand_setting(), false);
    for (int32_t place = 0; place < 2; place++) {
        double kv = 840 * cost_kv_bytes(hand_setting(), 0);
        CHECK_CLOSE(hand_highest(&run.memory, place, MEMORY_ACTIVATIONS),
                    8 * 840 * hand_activation(RECOMPUTE_FULL, false) + hand_head_kept(8), 1e-15);
        CHECK_CLOSE(hand_highest(&run.memory, place, MEMORY_KV), 8 * kv, 1e-15);
        CHECK_CLOSE(hand_highest(&run.memory, place, MEMORY_KV_GRADIENTS), 4 * kv, 1e-15);
        CHECK_CLOSE(hand_highest(&run.memory, place, MEMORY_WORKSPACE), passing(4), 1e-15);
    }
    hand_close_run(&run);
    plan_free(&plan);
}

/* Two stages have 32 context ranks and 128 tokens. The first one's workspace is that of its layers, with all keys and
 * values that were gathered. In the backward pass it also has their gradients. */
TEST(gathered_kv__is_held_by_each_rank)
{
    struct plan plan;
    struct hand_run run;
    struct cost_setting setting = *hand_setting();
    struct slice slice = {0, 0, 128};
    struct cost_micro_batch micro_batch = {.slices = &slice, .n_slices = 1, .context = 32};
    hand_plan(&plan, 1, 2, 32);
    for (int pass = 0; pass < N_PASSES; pass++)
        hand_micro_batch(&plan.phases[0].pipelines[0].partition[pass], slice)->context = 32;
    hand_order(&plan);
    double ring = cost_workspace_bytes(&setting, &micro_batch);
    for (int i = 0; i < 2; i++) {
        setting.cp_type = i == 0 ? SCENARIO_RING : SCENARIO_ALL_GATHER;
        hand_open_run(&run, &plan, &setting, false);
        CHECK_CLOSE(hand_highest(&run.memory, 0, MEMORY_WORKSPACE), cost_workspace_bytes(&setting, &micro_batch),
                    1e-15);
        hand_close_run(&run);
    }
    CHECK_TRUE(cost_workspace_bytes(&setting, &micro_batch) > 1.2 * ring);
    plan_free(&plan);
}

/* Without offload no copy makes the times matter. So the peaks without events are those of the events. */
TEST(memory_of__follows_the_steps_if_nothing_is_copied)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct plan plan;
        struct hand_run run;
        struct memory quick;
        hand_random(&plan, seed);
        for (int32_t i = 0; i < plan.phases[0].n_pipelines; i++)
            for (int32_t micro_batch = 0;
                 micro_batch < plan.phases[0].pipelines[i].partition[PASS_FORWARD].n_micro_batches; micro_batch++)
                plan.phases[0].pipelines[i].partition[PASS_FORWARD].micro_batches[micro_batch].offload = 0;
        const struct cost_setting *setting = hand_setting_of_heads(seed);
        hand_open_run(&run, &plan, setting, seed % 2);
        memory_of(&plan, &run.dag, &run.timeline, setting, false, &quick);
        size_t n = (size_t)quick.n_ranks;
        CHECK_TRUE(memcmp(quick.peak_bytes, run.memory.peak_bytes, n * sizeof *quick.peak_bytes) == 0);
        CHECK_TRUE(memcmp(quick.at_peak, run.memory.at_peak, n * sizeof *quick.at_peak) == 0);
        CHECK_EQUAL(quick.worst_rank, run.memory.worst_rank);
        memory_free(&quick);
        hand_close_run(&run);
        plan_free(&plan);
    }
}

/* On every place of random plans events are in order of time and nothing is below zero. Only states are there at the
 * end. The peak is the largest sum. It is the same without events and with every TP rank. */
TEST(memory_of__gives_all_back_on_random_plans)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct plan plan;
        struct hand_run run;
        struct memory quick;
        hand_random(&plan, seed);
        const struct cost_setting *setting = hand_setting_of_heads(seed);
        hand_open_run(&run, &plan, setting, seed % 2);
        memory_of(&plan, &run.dag, &run.timeline, setting, false, &quick);
        bool ordered = true, positive = true, empty = true;
        for (int64_t i = 0; i < run.memory.n_events; i++) {
            const struct memory_event *event = &run.memory.events[i];
            bool last = i + 1 == run.memory.n_events || event[1].dag_rank != event->dag_rank;
            ordered = ordered && (last || event[1].time_s >= event->time_s);
            for (int k = MEMORY_ACTIVATIONS; k <= MEMORY_WORKSPACE; k++) {
                positive = positive && event->bytes[k] >= -1e-9 * run.memory.peak_bytes[event->dag_rank];
                empty = empty && (!last || fabs(event->bytes[k]) <= 1e-9 * run.memory.peak_bytes[event->dag_rank]);
            }
        }
        if (!ordered || !positive || !empty)
            printf("seed %llu\n", (unsigned long long)seed);
        CHECK_TRUE(ordered);
        CHECK_TRUE(positive);
        CHECK_TRUE(empty);
        CHECK_EQUAL(quick.n_events, 0);
        CHECK_TRUE(memcmp(quick.peak_bytes, run.memory.peak_bytes, (size_t)quick.n_ranks * sizeof(double)) == 0);
        CHECK_EQUAL(quick.worst_rank, run.memory.worst_rank);
        memory_free(&quick);
        hand_close_run(&run);
        plan_free(&plan);
    }
}

/* Compare the sums of one place with those of its events, moment by moment. @return whether they are equal */
static bool sums_are_events(const struct memory_sums *sums, const struct memory *all, int32_t place)
{
    int64_t event = 0;
    while (event < all->n_events && all->events[event].dag_rank < place)
        event++;
    for (int64_t i = sums->first[place]; i < sums->first[place + 1]; i++, event++) {
        double bytes = 0;
        if (event == all->n_events || all->events[event].dag_rank != place)
            return false;
        for (int k = 0; k < MEMORY_N_CLASSES; k++)
            bytes += all->events[event].bytes[k];
        if (sums->all[i].time_s != all->events[event].time_s || sums->all[i].bytes != bytes)
            return false;
    }
    return event == all->n_events || all->events[event].dag_rank != place;
}

/* Places that need more than the limit tell their sums, and no others. If the limit is one place's peak, that place
 * tells none. The same memory serves every call. Peaks are those of memory_of. */
TEST(memory_above__tells_the_sums_of_places_above_the_limit)
{
    struct memory above = {0};
    int32_t n_above = 0, n_below = 0, wrong = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct plan plan;
        struct hand_run run;
        struct cost_setting setting = *hand_setting_of_heads(seed);
        setting.gradient_buffers = seed % 4 == 0 ? SCENARIO_GRADIENTS_FREED : SCENARIO_GRADIENTS_KEPT;
        hand_random(&plan, seed);
        hand_open_run(&run, &plan, &setting, false);
        const double *peak_bytes = run.memory.peak_bytes;
        const double limits[] = {0, peak_bytes[seed % (uint64_t)run.memory.n_ranks], INFINITY};
        for (int i = 0; i < 3; i++) {
            memory_above(&plan, &run.dag, &run.timeline, &setting, limits[i], &above);
            wrong += memcmp(above.peak_bytes, peak_bytes, (size_t)above.n_ranks * sizeof *peak_bytes) != 0;
            wrong += above.n_ranks != run.memory.n_ranks || above.worst_rank != run.memory.worst_rank;
            wrong += above.sums.n != above.sums.first[above.n_ranks] || above.n_events != 0;
            for (int32_t place = 0; place < above.n_ranks; place++) {
                bool told = above.sums.first[place + 1] > above.sums.first[place];
                wrong += told != (peak_bytes[place] > limits[i]);
                wrong += told && !sums_are_events(&above.sums, &run.memory, place);
                n_above += told;
                n_below += !told && i == 1;
            }
        }
        hand_close_run(&run);
        plan_free(&plan);
    }
    CHECK_EQUAL(wrong, 0);
    CHECK_TRUE(n_above > 0 && n_below > 0);
    memory_free(&above);
}

/* The head's backward frees the logits in fp32 and makes their gradient in bf16. The workspace would be below 0 if it
 * were not taken off the activations. Whatever is recomputed, sharded and gathered, no class is below 0 at any
 * moment. */
TEST(memory_classes__are_never_negative)
{
    static const enum scenario_loss losses[] = {SCENARIO_LOSS_PASSES, SCENARIO_LOSS_FUSED, SCENARIO_LOSS_FUSED_LINEAR};
    for (int i = 0; i < 3 * 4 * 2; i++) {
        struct cost_setting setting = *hand_setting();
        struct plan plan;
        struct hand_run run;
        setting.gradient_buffers = SCENARIO_GRADIENTS_FREED;
        setting.loss = losses[i % 3];
        setting.sharding = i / 3 % 4;
        hand_uniform(&plan, 1, 4, 4096);
        for (int32_t micro_batch = 0; micro_batch < 4; micro_batch++)
            for (int pass = 0; pass < N_PASSES; pass++)
                plan.phases[0].pipelines[0].partition[pass].micro_batches[micro_batch].recompute =
                    i < 12 ? RECOMPUTE_NONE : RECOMPUTE_FULL;
        hand_open_run(&run, &plan, &setting, false);
        for (int64_t k = 0; k < run.memory.n_events; k++)
            for (int class = 0; class < MEMORY_N_CLASSES; class ++)
                CHECK_TRUE(run.memory.events[k].bytes[class] >= 0);
        hand_close_run(&run);
        plan_free(&plan);
    }
}
