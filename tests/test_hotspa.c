/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "hand_request.h"
#include "harness.h"
#include "system/switch.h"

static bool plan_of(struct hand_request *hand, void *state, const char *knobs, struct plan *plan, struct error *err)
{
    const struct training_system *system = system_find("hotspa", err);
    hand_knobs(hand, system, knobs);
    if (!system->plan(&hand->request, state, plan, err))
        return false;
    if (!CHECK_TRUE(plan_check(plan, hand->batch.n_samples, hand->batch.tokens, err)))
        printf("%s\n", err->text);
    return true;
}

static void free_state(void *state)
{
    struct error err = {0};
    system_find("hotspa", &err)->close(state);
    free(state);
}

/* Bounds 100 and 400 under a context of 800, one replica: the longest with the shortest that fit, longest packs first.
 * Up to 100: 90 and 10; 50 40. Up to 400: 300 and 100 is of the shorter bucket, so 300; 200 150. Longest: 700. */
static void packs_are_the_longest_with_the_shortest(void)
{
    static const int32_t tokens[] = {300, 10, 90, 700, 50, 200, 40, 150};
    struct hand_request hand;
    struct plan plan = {0};
    struct error err = {0};
    void *state = calloc(1, 64);
    hand_request_real(&hand, 1, 1, 800);
    hand_batch(&hand, 8, tokens);
    CHECK_TRUE(plan_of(&hand, state, "{bounds: [100, 400], strategies: 1x1 1x1}", &plan, &err));
    CHECK_EQUAL(plan.n_phases, 3);
    CHECK_TEXT(hand_cut_text(&plan.phases[0].pipelines[0].cut[PASS_FORWARD]), "[2:0-90 1:0-10] [4:0-50 6:0-40]");
    CHECK_TEXT(hand_cut_text(&plan.phases[1].pipelines[0].cut[PASS_FORWARD]), "[0:0-300] [5:0-200 7:0-150]");
    CHECK_TEXT(hand_cut_text(&plan.phases[2].pipelines[0].cut[PASS_FORWARD]), "[3:0-700]");
    CHECK_EQUAL(plan.phases[0].pipelines[0].cut[PASS_FORWARD].units[0].padding_tokens, 28);  /* 100 to 128 */
    CHECK_EQUAL(plan.phases[2].pipelines[0].cut[PASS_BACKWARD].units[0].padding_tokens, 68); /* 700 to 768 */
    CHECK_EQUAL(plan.phases[1].n_reshards, 0);
    CHECK_EQUAL(plan.n_delayed, 0);
    plan_free(&plan);
    hand_request_free(&hand);
    free_state(state);
}

/* Two replicas, packs of 80, 60, 50 tokens: two run, and the 50 waits an iteration, where it runs with a new 70. */
static void packs_that_do_not_divide_wait(void)
{
    static const int32_t tokens[] = {50, 80, 60}, later[] = {70};
    struct hand_request hand;
    struct plan plan = {0};
    struct error err = {0};
    void *state = calloc(1, 64);
    hand_request_real(&hand, 2, 1, 100);
    hand_batch(&hand, 3, tokens);
    CHECK_TRUE(plan_of(&hand, state, "{bounds: [99], strategies: 1x1}", &plan, &err));
    CHECK_EQUAL(plan.n_phases, 2); /* the longest bucket is empty, but the update is there */
    CHECK_TEXT(hand_cut_text(&plan.phases[0].pipelines[1].cut[PASS_FORWARD]), "[2:0-60]");
    CHECK_EQUAL(plan.n_delayed, 1);
    CHECK_EQUAL(plan.delayed[0], 0);
    CHECK_EQUAL(plan.delayed_tokens, 50);
    plan_free(&plan);
    hand_batch(&hand, 1, later);
    CHECK_TRUE(plan_of(&hand, state, "{bounds: [99], strategies: 1x1}", &plan, &err));
    CHECK_TEXT(hand_cut_text(&plan.phases[0].pipelines[0].cut[PASS_FORWARD]), "[0:0-70]");
    CHECK_TEXT(hand_cut_text(&plan.phases[0].pipelines[1].cut[PASS_FORWARD]), "[1:0-50]");
    CHECK_EQUAL(plan.n_carried, 1);
    CHECK_EQUAL(plan.n_delayed, 0);
    plan_free(&plan);
    CHECK_TRUE(!plan_of(&hand, state, "{bounds: [99], strategies: 3x1}", &plan, &err));
    CHECK_CONTAINS(err.text, "number 1 of '3x1'");
    hand_request_free(&hand);
    free_state(state);
}

static double all_parameters(const struct model *model)
{
    return cost_stage_parameters(model, 1, (int32_t)model->layers, true, true);
}

static double sent(const struct plan_phase *phase, int32_t from, int32_t to)
{
    for (int32_t i = 0; i < phase->n_reshards; i++)
        if (phase->reshards[i].from_rank == from && phase->reshards[i].to_rank == to)
            return phase->reshards[i].bytes;
    return 0;
}

/* Two ranks, P parameters, tied embeddings once among them. From two replicas to TP 2 no parameter moves; each rank's
 * gradient of the half it gives up goes to the other, 4 P/2. Back, each lacks half the parameters, 2 P/2; and its half
 * of the gradient stays. What has been planned is known: a second time it is the same. */
static void two_ranks_switch_as_by_hand(void)
{
    const struct scenario_plan replicas = {.tp = 1, .pp = 1, .cp = 1, .dp = 2};
    const struct scenario_plan halves = {.tp = 2, .pp = 1, .cp = 1, .dp = 1};
    for (int tied = 0; tied < 2; tied++) {
        struct hand_request hand;
        struct plan_phase phase = {0};
        struct switch_memory memory = {0};
        hand_request_real(&hand, 2, 1, 100);
        struct model model = *hand.setting.model;
        model.tied_embeddings = tied;
        hand.setting.model = &model;
        double parameters = all_parameters(&model);
        for (int again = 0; again < 2; again++) {
            switch_plan(&hand.setting, &replicas, &halves, false, &memory, &phase);
            CHECK_EQUAL(phase.n_reshards, 0);
            plan_phase_free(&phase);
            switch_plan(&hand.setting, &replicas, &halves, true, &memory, &phase);
            CHECK_EQUAL(phase.n_reshards, 2);
            CHECK_CLOSE(sent(&phase, 0, 1), 2 * parameters, 1e-12);
            CHECK_CLOSE(sent(&phase, 1, 0), 2 * parameters, 1e-12);
            plan_phase_free(&phase);
            switch_plan(&hand.setting, &halves, &replicas, true, &memory, &phase);
            CHECK_EQUAL(phase.n_reshards, 2);
            CHECK_CLOSE(sent(&phase, 0, 1), parameters, 1e-12);
            CHECK_CLOSE(sent(&phase, 1, 0), parameters, 1e-12);
            plan_phase_free(&phase);
        }
        CHECK_EQUAL(memory.n, 3);
        switch_forget(&memory);
        hand_request_free(&hand);
    }
}

/* Four ranks on one node, two stages of two replicas to four replicas: ranks 0 and 1 lack the second stage's half,
 * which ranks 2 and 3 have: the first to ask gets it from 2, the next from 3, layer by layer; and the other way round.
 * So each rank sends as much as it receives, 2 bytes x half the parameters (the ends differ: embedding and head). */
static void owners_share_the_sending(void)
{
    struct hand_request hand;
    struct plan_phase phase = {0};
    struct switch_memory memory = {0};
    hand_request_real(&hand, 2, 2, 100);
    const struct model *model = hand.setting.model;
    int32_t half = (int32_t)model->layers / 2;
    double first = cost_stage_parameters(model, 1, half, true, false);
    double last = cost_stage_parameters(model, 1, half, false, true);
    const struct scenario_plan stages = {.tp = 1, .pp = 2, .cp = 1, .dp = 2};
    const struct scenario_plan replicas = {.tp = 1, .pp = 1, .cp = 1, .dp = 4};
    switch_plan(&hand.setting, &stages, &replicas, false, &memory, &phase);
    double received[4] = {0}, out[4] = {0};
    for (int32_t i = 0; i < phase.n_reshards; i++) {
        received[phase.reshards[i].to_rank] += phase.reshards[i].bytes;
        out[phase.reshards[i].from_rank] += phase.reshards[i].bytes;
    }
    CHECK_CLOSE(received[0], 2 * last, 1e-12);
    CHECK_CLOSE(received[1], 2 * last, 1e-12);
    CHECK_CLOSE(received[2], 2 * first, 1e-12);
    CHECK_CLOSE(received[3], 2 * first, 1e-12);
    CHECK_CLOSE(out[0], 2 * first, 1e-12);
    CHECK_CLOSE(out[1], 2 * first, 1e-12);
    CHECK_CLOSE(out[2], 2 * last, 1e-12);
    CHECK_CLOSE(out[3], 2 * last, 1e-12);
    plan_phase_free(&phase);
    switch_forget(&memory);
    hand_request_free(&hand);
}

/* Sixteen GPUs on two nodes, TP 4 of two stages and two replicas to sixteen replicas. Across nodes each GPU lacks half
 * the model and gets it in four slices from the four ranks of a replica there: with one message at a time on each link
 * all end when the busiest sender does, so that no one waits for another. */
static void messages_are_ordered_such_that_no_receiver_is_waited_for(void)
{
    struct hand_request hand;
    struct plan_phase phase = {0};
    struct switch_memory memory = {0};
    hand_request_real(&hand, 2, 2, 100);
    const struct scenario_plan stages = {.tp = 4, .pp = 2, .cp = 1, .dp = 2};
    const struct scenario_plan replicas = {.tp = 1, .pp = 1, .cp = 1, .dp = 16};
    double sends[2][16] = {0}, receives[2][16] = {0}, load[2][16] = {0}, most[2] = {0}, end[2] = {0};
    switch_plan(&hand.setting, &stages, &replicas, false, &memory, &phase);
    CHECK_EQUAL(phase.n_reshards, 16 * 7); /* three slices of its own stage, four of the other */
    for (int32_t i = 0; i < phase.n_reshards; i++) {
        const struct plan_reshard *message = &phase.reshards[i];
        int away = message->from_rank / 8 != message->to_rank / 8;
        double *sent = &sends[away][message->from_rank], *received = &receives[away][message->to_rank];
        load[away][message->from_rank] += message->bytes;
        *sent = *received = fmax(*sent, *received) + message->bytes;
        most[away] = fmax(most[away], load[away][message->from_rank]);
        end[away] = fmax(end[away], *sent);
    }
    const struct model *model = hand.setting.model;
    double half = cost_stage_parameters(model, 1, (int32_t)model->layers / 2, true, false);
    double other = cost_stage_parameters(model, 1, (int32_t)model->layers / 2, false, true);
    CHECK_CLOSE(most[true], 2 * fmax(half, other), 1e-12); /* 8 receivers of bf16, 8 senders */
    CHECK_CLOSE(end[true], most[true], 1e-12);
    CHECK_CLOSE(end[false], most[false], 1e-12);
    plan_phase_free(&phase);
    switch_forget(&memory);
    hand_request_free(&hand);
}

/* Four GPUs, P parameters; the plan has four stages, so states of 18 P/4 bytes. One GPU a replica holds 2 + 4 + 12/4 =
 * 9 P, and hands 6 P on to the plan's stages: 10.5 P together. With room for 10 P the short bucket takes TP 2, which
 * hands on 3 P; with room for 11 P, one GPU a replica. */
static void a_strategy_has_memory_for_the_switch_from_it(void)
{
    static const int32_t tokens[] = {4, 4, 4, 4, 100}, room[] = {10, 11}, degree[] = {2, 1};
    for (int i = 0; i < 2; i++) {
        struct hand_request hand;
        struct plan plan = {0};
        struct error err = {0};
        void *state = calloc(1, 64);
        hand_request_real(&hand, 1, 4, 100);
        hand_batch(&hand, 5, tokens);
        hand.request.memory_bytes = room[i] * all_parameters(hand.setting.model);
        CHECK_TRUE(plan_of(&hand, state, "bounds: [4]", &plan, &err));
        CHECK_EQUAL(plan.phases[0].pipelines[0].layout.tensor, degree[i]);
        CHECK_EQUAL(plan.phases[0].pipelines[0].layout.stages, 1);
        plan_free(&plan);
        hand_request_free(&hand);
        free_state(state);
    }
}

int main(void)
{
    return HARNESS_MAIN("hotspa", TEST(packs_are_the_longest_with_the_shortest), TEST(packs_that_do_not_divide_wait),
                        TEST(two_ranks_switch_as_by_hand), TEST(owners_share_the_sending),
                        TEST(messages_are_ordered_such_that_no_receiver_is_waited_for),
                        TEST(a_strategy_has_memory_for_the_switch_from_it));
}
