/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check the plans of HotSPa and its switches between strategies. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "hand_dag.h"
#include "hand_plan.h"
#include "hand_request.h"
#include "harness.h"
#include "packing/packing.h"
#include "packing/reshard.h"
#include "system/hotspa_strategies.h"

extern const struct training_system system_hotspa;

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

/* The bounds are 100 and 400 under a context of 800, with one replica. The longest sample goes with the shortest that
 * fit, and the longest packs come first. Up to 100 there are 90 and 10, and 50 40. Up to 400, 300 and 100 would be of
 * the shorter bucket, so there are 300, and 200 150. The longest bucket has 700. */
TEST(hotspa__packs_the_longest_with_the_shortest)
{
    static const int32_t tokens[] = {300, 10, 90, 700, 50, 200, 40, 150};
    struct hand_request hand;
    struct plan plan = {0};
    struct error err = {0};
    void *state = calloc(1, system_hotspa.state_size);
    hand_request_real(&hand, 1, 1, 800);
    hand_batch(&hand, 8, tokens);
    CHECK_TRUE(plan_of(&hand, state, "{bounds: [100, 400], strategies: 1x1 1x1}", &plan, &err));
    CHECK_EQUAL(plan.n_phases, 3);
    CHECK_TEXT(hand_cut_text(&plan.phases[0].pipelines[0].partition[PASS_FORWARD]), "[2:0-90 1:0-10] [4:0-50 6:0-40]");
    CHECK_TEXT(hand_cut_text(&plan.phases[1].pipelines[0].partition[PASS_FORWARD]), "[0:0-300] [5:0-200 7:0-150]");
    CHECK_TEXT(hand_cut_text(&plan.phases[2].pipelines[0].partition[PASS_FORWARD]), "[3:0-700]");
    CHECK_EQUAL(plan.phases[0].pipelines[0].partition[PASS_FORWARD].micro_batches[0].padding_tokens,
                28); /* 100 to 128 */
    CHECK_EQUAL(plan.phases[2].pipelines[0].partition[PASS_BACKWARD].micro_batches[0].padding_tokens,
                68); /* 700 to 768 */
    CHECK_EQUAL(plan.phases[1].n_reshards, 0);
    CHECK_EQUAL(plan.n_delayed, 0);
    plan_free(&plan);
    hand_request_free(&hand);
    free_state(state);
}

/* Two replicas have packs of 80, 60, 50 tokens. Two run, and the 50 waits an iteration, in which it runs with a new
 * 70. */
TEST(hotspa__lets_packs_wait_that_do_not_divide)
{
    static const int32_t tokens[] = {50, 80, 60}, later[] = {70};
    struct hand_request hand;
    struct plan plan = {0};
    struct error err = {0};
    void *state = calloc(1, system_hotspa.state_size);
    hand_request_real(&hand, 2, 1, 100);
    hand_batch(&hand, 3, tokens);
    CHECK_TRUE(plan_of(&hand, state, "{bounds: [99], strategies: 1x1}", &plan, &err));
    CHECK_EQUAL(plan.n_phases, 2); /* the longest bucket is empty, but the update is there */
    CHECK_TEXT(hand_cut_text(&plan.phases[0].pipelines[1].partition[PASS_FORWARD]), "[2:0-60]");
    CHECK_EQUAL(plan.n_delayed, 1);
    CHECK_EQUAL(plan.delayed[0], 0);
    CHECK_EQUAL(plan.delayed_tokens, 50);
    plan_free(&plan);
    hand_batch(&hand, 1, later);
    CHECK_TRUE(plan_of(&hand, state, "{bounds: [99], strategies: 1x1}", &plan, &err));
    CHECK_TEXT(hand_cut_text(&plan.phases[0].pipelines[0].partition[PASS_FORWARD]), "[0:0-70]");
    CHECK_TEXT(hand_cut_text(&plan.phases[0].pipelines[1].partition[PASS_FORWARD]), "[1:0-50]");
    CHECK_EQUAL(plan.n_carried, 1);
    CHECK_EQUAL(plan.n_delayed, 0);
    plan_free(&plan);
    free_state(state);
    state = calloc(1, system_hotspa.state_size);
    CHECK_TRUE(!plan_of(&hand, state, "{bounds: [99], strategies: 3x1}", &plan, &err));
    CHECK_CONTAINS(err.text, "number 1 of '3x1'");
    hand_request_free(&hand);
    free_state(state);
}

static double all_parameters(const struct model *model)
{
    return hand_stage_parameters(model, 1, (int32_t)model->layers, true, true);
}

static double sent(const struct plan_phase *phase, int32_t from, int32_t to)
{
    for (int32_t i = 0; i < phase->n_reshards; i++)
        if (phase->reshards[i].from_rank == from && phase->reshards[i].to_rank == to)
            return phase->reshards[i].bytes;
    return 0;
}

/* Two ranks have P parameters, tied embeddings once among them. From two replicas to TP 2 no parameter moves. Each
 * rank's gradient of the half it gives up goes to the other, 4 P/2. Back, each lacks half the parameters, 2 P/2, and
 * its half of the gradient stays. The result is kept, so it is the same a second time. */
TEST(reshard__matches_two_ranks_counted_by_hand)
{
    const struct scenario_plan replicas = {.tp = 1, .pp = 1, .cp = 1, .dp = 2};
    const struct scenario_plan halves = {.tp = 2, .pp = 1, .cp = 1, .dp = 1};
    for (int tied = 0; tied < 2; tied++) {
        struct hand_request hand;
        struct plan_phase phase = {0};
        struct reshard_memory memory = {0};
        hand_request_real(&hand, 2, 1, 100);
        struct model model = *hand.setting.model;
        model.tied_embeddings = tied;
        hand.setting.model = &model;
        double parameters = all_parameters(&model);
        for (int again = 0; again < 2; again++) {
            reshard_plan(&hand.setting, &replicas, &halves, false, &memory, &phase);
            CHECK_EQUAL(phase.n_reshards, 0);
            plan_phase_free(&phase);
            reshard_plan(&hand.setting, &replicas, &halves, true, &memory, &phase);
            CHECK_EQUAL(phase.n_reshards, 2);
            CHECK_CLOSE(sent(&phase, 0, 1), 2 * parameters, 1e-12);
            CHECK_CLOSE(sent(&phase, 1, 0), 2 * parameters, 1e-12);
            plan_phase_free(&phase);
            reshard_plan(&hand.setting, &halves, &replicas, true, &memory, &phase);
            CHECK_EQUAL(phase.n_reshards, 2);
            CHECK_CLOSE(sent(&phase, 0, 1), parameters, 1e-12);
            CHECK_CLOSE(sent(&phase, 1, 0), parameters, 1e-12);
            plan_phase_free(&phase);
        }
        CHECK_EQUAL(memory.n, 3);
        reshard_forget(&memory);
        hand_request_free(&hand);
    }
}

/* A layer of MTP has the last layer's parameters, a projection 2h x h and three norms, and is on the last stage. From
 * two stages to two replicas the first rank lacks it, 2 bytes a parameter. The other way the last rank has it already,
 * and the first one gives its gradient away, 4 bytes. */
TEST(reshard__moves_layers_of_mtp_with_the_last_stage)
{
    const struct scenario_plan stages = {.tp = 1, .pp = 2, .cp = 1, .dp = 1};
    const struct scenario_plan replicas = {.tp = 1, .pp = 1, .cp = 1, .dp = 2};
    double forth[2], back[2], gradients[2];
    struct hand_request hand;
    hand_request_real(&hand, 2, 1, 100);
    struct model model = *hand.setting.model;
    double h = (double)model.hidden, mtp = hand_stage_parameters(&model, 1, 1, false, false) + 2 * h * h + 3 * h;
    hand.setting.model = &model;
    for (int32_t n = 0; n < 2; n++) {
        struct plan_phase phase = {0};
        struct reshard_memory memory = {0};
        model.mtp_layers = n;
        model.kinds[MODEL_MTP_KIND] = model.kinds[0];
        reshard_plan(&hand.setting, &stages, &replicas, false, &memory, &phase);
        forth[n] = sent(&phase, 1, 0);
        plan_phase_free(&phase);
        reshard_plan(&hand.setting, &replicas, &stages, false, &memory, &phase);
        CHECK_EQUAL(phase.n_reshards, 0);
        plan_phase_free(&phase);
        reshard_plan(&hand.setting, &replicas, &stages, true, &memory, &phase);
        gradients[n] = sent(&phase, 0, 1);
        back[n] = sent(&phase, 1, 0);
        plan_phase_free(&phase);
        reshard_forget(&memory);
    }
    CHECK_CLOSE(forth[1] - forth[0], 2 * mtp, 1e-9);
    CHECK_CLOSE(gradients[1] - gradients[0], 4 * mtp, 1e-9);
    CHECK_TRUE(back[1] == back[0]);
    hand_request_free(&hand);
}

/* Four ranks on one node change from two stages of two replicas to four replicas. Ranks 0 and 1 lack the second stage's
 * half, which ranks 2 and 3 have. Layer by layer, the first to ask gets it from 2, the next from 3. The other half goes
 * the other way round. So each rank sends as much as it receives, 2 bytes x half the parameters (the ends differ:
 * embedding and head). */
TEST(reshard__shares_the_sending_among_owners)
{
    struct hand_request hand;
    struct plan_phase phase = {0};
    struct reshard_memory memory = {0};
    hand_request_real(&hand, 2, 2, 100);
    const struct model *model = hand.setting.model;
    int32_t half = (int32_t)model->layers / 2;
    double first = hand_stage_parameters(model, 1, half, true, false);
    double last = hand_stage_parameters(model, 1, half, false, true);
    const struct scenario_plan stages = {.tp = 1, .pp = 2, .cp = 1, .dp = 2};
    const struct scenario_plan replicas = {.tp = 1, .pp = 1, .cp = 1, .dp = 4};
    reshard_plan(&hand.setting, &stages, &replicas, false, &memory, &phase);
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
    reshard_forget(&memory);
    hand_request_free(&hand);
}

/* Four nodes of 4 GPUs are two NVLink domains. The messages are those of two nodes of 8, and not those of four nodes
 * without a common domain. TP 8 fits a domain, TP 16 does not. */
TEST(reshard__stays_inside_nvlink_domains)
{
    struct hand_request hand;
    struct plan_phase phase[3] = {{0}};
    const struct platform *rack = hand_rack_setting()->platform;
    struct platform nodes = *rack;
    nodes.nvlink_domain = 4;
    const struct platform *platforms[] = {hand_setting()->platform, rack, &nodes};
    const struct scenario_plan stages = {.tp = 4, .pp = 2, .cp = 1, .dp = 2};
    const struct scenario_plan replicas = {.tp = 1, .pp = 1, .cp = 1, .dp = 16};
    hand_request_real(&hand, 2, 8, 100);
    hand.model.kinds[0].heads = hand.model.kinds[0].kv_heads = 16;
    for (int i = 0; i < 3; i++) {
        struct reshard_memory memory = {0};
        struct plan_request trial;
        hand.setting.platform = platforms[i];
        reshard_plan(&hand.setting, &stages, &replicas, false, &memory, &phase[i]);
        reshard_forget(&memory);
        CHECK_EQUAL(hotspa_lay_out(&hand.request, 8, 1, &trial), i < 2);
        CHECK_TRUE(!hotspa_lay_out(&hand.request, 16, 1, &trial));
    }
    int32_t n_differ[3] = {0};
    for (int i = 1; i < 3; i++)
        for (int32_t j = 0; j < 16 * 16; j++)
            n_differ[i] += sent(&phase[0], j / 16, j % 16) != sent(&phase[i], j / 16, j % 16);
    CHECK_EQUAL(n_differ[1], 0);
    CHECK_TRUE(n_differ[2] > 0);
    for (int i = 0; i < 3; i++)
        plan_phase_free(&phase[i]);
    hand_request_free(&hand);
}

/* Sixteen GPUs on two nodes change from TP 4 of two stages and two replicas to sixteen replicas. Across nodes each
 * GPU lacks half the model. It gets it in four slices from the four ranks of a replica there. Each link has one message
 * at a time. All end when the busiest sender does, so no one waits for another. */
TEST(reshard__orders_messages_so_that_no_receiver_is_waited_for)
{
    struct hand_request hand;
    struct plan_phase phase = {0};
    struct reshard_memory memory = {0};
    hand_request_real(&hand, 2, 2, 100);
    const struct scenario_plan stages = {.tp = 4, .pp = 2, .cp = 1, .dp = 2};
    const struct scenario_plan replicas = {.tp = 1, .pp = 1, .cp = 1, .dp = 16};
    double sends[2][16] = {0}, receives[2][16] = {0}, load[2][16] = {0}, most[2] = {0}, end[2] = {0};
    reshard_plan(&hand.setting, &stages, &replicas, false, &memory, &phase);
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
    double half = hand_stage_parameters(model, 1, (int32_t)model->layers / 2, true, false);
    double other = hand_stage_parameters(model, 1, (int32_t)model->layers / 2, false, true);
    CHECK_CLOSE(most[true], 2 * fmax(half, other), 1e-12); /* 8 receivers of bf16, 8 senders */
    CHECK_CLOSE(end[true], most[true], 1e-12);
    CHECK_CLOSE(end[false], most[false], 1e-12);
    plan_phase_free(&phase);
    reshard_forget(&memory);
    hand_request_free(&hand);
}

/* There are four replicas. The short bucket has three packs, the long one one, so neither fills them. The short one
 * runs, as it is nearer to it, and the long sample waits. Without waiting all run. With a fourth pack both rules agree
 * on the short bucket. */
TEST(hotspa__runs_the_fullest_bucket_if_none_fills_its_replicas)
{
    static const int32_t tokens[] = {80, 70, 60, 400, 50};
    for (int wait = 0; wait < 2; wait++)
        for (int32_t n = 4; n <= 5; n++) {
            struct hand_request hand;
            struct plan plan = {0};
            struct error err = {0};
            void *state = calloc(1, system_hotspa.state_size);
            hand_request_real(&hand, 4, 1, 400);
            hand_batch(&hand, n, tokens);
            CHECK_TRUE(plan_of(&hand, state,
                               wait ? "{bounds: [80], strategies: 1x1}" : "{bounds: [80], strategies: 1x1, wait: 0}",
                               &plan, &err));
            CHECK_EQUAL(plan.n_delayed, wait);
            CHECK_EQUAL(wait ? plan.delayed[0] : 3, 3);
            CHECK_EQUAL(plan.phases[0].pipelines[2].partition[PASS_FORWARD].n_micro_batches, 1);
            CHECK_EQUAL(plan.phases[0].pipelines[3].partition[PASS_FORWARD].n_micro_batches, n - 4);
            plan_free(&plan);
            hand_request_free(&hand);
            free_state(state);
        }
}

/* Two replicas have a long sample. It waits for a second one, but no longer than asked. */
TEST(hotspa__lets_no_sample_wait_for_ever)
{
    static const int32_t tokens[] = {400, 80, 70}, later[] = {80, 70};
    struct hand_request hand;
    struct plan plan = {0};
    struct error err = {0};
    void *state = calloc(1, system_hotspa.state_size);
    hand_request_real(&hand, 2, 1, 400);
    for (int32_t iteration = 0; iteration < 4; iteration++) {
        hand_batch(&hand, iteration == 0 ? 3 : 2, iteration == 0 ? tokens : later);
        CHECK_TRUE(plan_of(&hand, state, "{bounds: [80], strategies: 1x1, wait: 2}", &plan, &err));
        CHECK_EQUAL(plan.delayed_tokens, iteration < 2 ? 400 : 0);
        CHECK_EQUAL(plan.n_carried, iteration == 2 ? 1 : 0);
        plan_free(&plan);
    }
    hand_request_free(&hand);
    free_state(state);
}

/* Make a plan of four stages, one replica, contexts of 65 tokens. @return the system's state, for free_state */
static void *open_four_stages(struct hand_request *hand)
{
    hand_request_real(hand, 1, 4, 65);
    hand->request.layout.recompute = RECOMPUTE_FULL;
    return calloc(1, system_hotspa.state_size);
}

/* There are four GPUs and P parameters. The plan has four stages, so states take 18 P/4 bytes. One GPU a replica holds
 * 2 + 4 + 12/4 = 9 P and hands 6 P on to the plan's stages: 10.5 P together. Four packs run best on four replicas. They
 * take t and a switch of a quarter of t (6 P bytes at 50 GB/s, 8 P FLOPs for each of 64 tokens). Four stages would take
 * 7/4 t. But with room for 10 P they take two GPUs each, which hand on 3 P: 3/2 t and an eighth. With room for 11 P
 * they take one GPU each. */
TEST(hotspa__takes_strategies_with_memory_for_the_switch)
{
    static const int32_t room[] = {10, 11}, ranks[] = {2, 1}, tokens[] = {64, 64, 64, 64, 65};
    for (int i = 0; i < 2; i++) {
        struct hand_request hand;
        struct plan plan = {0};
        struct error err = {0};
        void *state = open_four_stages(&hand);
        hand_batch(&hand, 5, tokens);
        hand.request.memory_bytes = room[i] * all_parameters(hand.setting.model);
        CHECK_TRUE(plan_of(&hand, state, "bounds: [64]", &plan, &err));
        const struct plan_layout *layout = &plan.phases[0].pipelines[0].layout;
        CHECK_EQUAL(layout->tensor * layout->stages, ranks[i]);
        plan_free(&plan);
        hand_request_free(&hand);
        free_state(state);
    }
}

/* With one pack four GPUs share it. On one GPU it takes t and the switch while three replicas idle. In proportion to
 * the replicas that it fills it would be a quarter of t. A pack of one token is worth neither a switch from the plan's
 * stages nor the latencies of TP. A pack that is the only one runs every time, even if no sample is in the bucket
 * below. */
TEST(hotspa__counts_idle_replicas_and_switches)
{
    static const char *const knobs[] = {"bounds: [64]", "bounds: [32, 64]"};
    for (int32_t i = 0; i < 3; i++) {
        struct hand_request hand;
        struct plan plan = {0};
        struct error err = {0};
        void *state = open_four_stages(&hand);
        hand_batch(&hand, i == 2 ? 1 : 2, (int32_t[]){i == 1 ? 1 : 64, 65});
        CHECK_TRUE(plan_of(&hand, state, knobs[i == 2], &plan, &err));
        const struct plan_layout *layout = &plan.phases[0].pipelines[0].layout;
        CHECK_EQUAL(layout->tensor * layout->stages, 4);
        CHECK_TRUE(i != 1 || layout->stages == 4);
        plan_free(&plan);
        hand_request_free(&hand);
        free_state(state);
    }
}

/* The head is as large as all layers together, for 8 packs and one replica of four stages. The last stage takes l/4 + l
 * for each pack, so all take 2 l + 7 (l/4 + l). Four replicas of one GPU take 4 l and a switch, which is shorter.
 * Layers alone take 11/4 l against 2 l and the switch, which is about as long (8 P FLOPs for each of 16 tokens). They
 * would leave the packs on the stages. */
TEST(hotspa__counts_the_head_on_the_last_stage)
{
    int32_t tokens[] = {16, 16, 16, 16, 16, 16, 16, 16, 17};
    struct hand_request hand;
    struct plan plan = {0};
    struct error err = {0};
    void *state = open_four_stages(&hand);
    double layers = hand_stage_parameters(&hand.model, 1, (int32_t)hand.model.layers, false, false);
    hand.model.vocabulary = (int64_t)(layers / (double)hand.model.hidden);
    hand_batch(&hand, 9, tokens);
    CHECK_TRUE(plan_of(&hand, state, "bounds: [16]", &plan, &err));
    CHECK_EQUAL(plan.phases[0].pipelines[0].layout.stages, 1);
    plan_free(&plan);
    hand_request_free(&hand);
    free_state(state);
}

/* Two replicas have memory for micro-batches of 96 tokens, with contexts of 128. Samples of 64 would share packs of 128
 * in one bucket for all. So the bounds that are chosen keep them apart. */
TEST(hotspa__makes_no_pack_that_does_not_fit)
{
    static const int32_t tokens[] = {64, 64, 64, 64};
    struct hand_request hand;
    struct plan plan = {0};
    struct error err = {0};
    void *state = calloc(1, system_hotspa.state_size);
    hand_request_real(&hand, 2, 1, 128);
    hand_batch(&hand, 4, tokens);
    hand.request.memory_bytes = 0;
    while (packing_memory_tokens(&hand.request) < 96)
        hand.request.memory_bytes += 1e6;
    CHECK_TRUE(packing_memory_tokens(&hand.request) < 128);
    CHECK_TRUE(plan_of(&hand, state, "", &plan, &err));
    for (int32_t i = 0; i < 2; i++)
        CHECK_EQUAL(plan.phases[0].pipelines[i].partition[PASS_FORWARD].n_micro_batches, 2);
    plan_free(&plan);
    hand_request_free(&hand);
    free_state(state);
}

/* Find the seconds of an iteration with given knobs. Packs do not wait. */
static double seconds_with(struct hand_request *hand, const char *knobs)
{
    struct plan plan = {0};
    struct error err = {0};
    void *state = calloc(1, system_hotspa.state_size);
    double seconds = INFINITY;
    if (CHECK_TRUE(plan_of(hand, state, knobs, &plan, &err)))
        seconds = hand_plan_makespan_s(&plan, &hand->setting, (struct dag_options){0});
    plan_free(&plan);
    free_state(state);
    return seconds;
}

/* All strategies of a short bucket are resolved one by one. The one that an estimate chooses takes at most 5% longer
 * than the fastest. Bounds that are chosen take at most 10% longer than given ones, and less than one bucket for
 * all. */
TEST(hotspa__chooses_the_strategy_of_the_least_seconds)
{
    uint64_t state = 1;
    for (int32_t n = 3; n <= 400; n = 3 * n + 1) {
        struct hand_request hand;
        char knobs[96];
        double least_s = INFINITY, most_s = 0;
        int32_t tokens[400];
        for (int32_t i = 0; i < n; i++)
            tokens[i] = 1 + hand_below(&state, 1024);
        hand_request_real(&hand, 2, 4, 8192);
        hand_batch(&hand, n, tokens);
        for (int32_t tp = 1; tp <= 8; tp *= 2)
            for (int32_t pp = 1; tp * pp <= 8; pp *= 2) {
                struct plan_request trial;
                if (!hotspa_lay_out(&hand.request, tp, pp, &trial))
                    continue;
                snprintf(knobs, sizeof knobs, "{bounds: [1024], strategies: %dx%d, wait: 0}", tp, pp);
                double seconds = seconds_with(&hand, knobs);
                least_s = fmin(least_s, seconds);
                most_s = fmax(most_s, seconds);
            }
        double chosen_s = seconds_with(&hand, "{bounds: [1024], wait: 0}");
        double free_s = seconds_with(&hand, "{wait: 0}");
        double one_s = seconds_with(&hand, "{bounds: [8192], wait: 0}");
        CHECK_TRUE(chosen_s <= 1.05 * least_s);
        CHECK_TRUE(most_s > 1.07 * least_s); /* it matters */
        CHECK_TRUE(free_s <= 1.1 * fmin(chosen_s, one_s));
        CHECK_TRUE(free_s < one_s);
        hand_request_free(&hand);
    }
}
