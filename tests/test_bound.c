/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check the bounds by which the search prunes plans. */
#include "cost/states.h"
#include "search/bound.h"

#include <math.h>

#include "hand_dag.h"
#include "hand_plan.h"
#include "hand_request.h"
#include "harness.h"

static double three_s(const struct plan_request *request)
{
    (void)request;
    return 3;
}

static unsigned decides_offload(const void *knobs, const struct scenario_plan *layout)
{
    (void)knobs;
    (void)layout;
    return SYSTEM_OFFLOAD;
}

static unsigned decides_recompute(const void *knobs, const struct scenario_plan *layout)
{
    (void)knobs;
    (void)layout;
    return SYSTEM_RECOMPUTE;
}

static const struct training_system bare = {.name = "bare"}, timed = {.name = "timed", .lower_bound_s = three_s};

static void open_two(struct hand_request *hand, int32_t dp, int32_t pp)
{
    hand_request_real(hand, dp, pp, 5000);
    hand_batch(hand, 2, (int32_t[]){5000, 1000});
}

/* A system with a state may run more later, so the traffic behind the passes is divided by the largest share. */
TEST(bound__adds_what_follows_the_passes)
{
    struct hand_request hand;
    open_two(&hand, 3, 1);
    double after_s = bound_after_passes_s(&hand.setting, &hand.request.layout);
    CHECK_CLOSE(bound_of(&bare, &hand.request, 1).time_s, after_s, 1e-15);
    CHECK_CLOSE(bound_of(&timed, &hand.request, 1).time_s, 3 + after_s, 1e-15);
    CHECK_CLOSE(bound_of(&timed, &hand.request, 4).time_s, 3 + after_s / 4, 1e-15);
    hand_request_free(&hand);
}

/* The longest sample is on one rank if samples run whole. Otherwise all ranks may share it. The system may decide
 * the offload or leave the sample to later. Then the bound assumes that all of it is offloaded. */
TEST(bound__counts_the_activations_that_must_be_there)
{
    static const struct training_system whole = {.name = "whole", .whole_samples = true},
                                        away = {.name = "away", .decides = decides_offload},
                                        later = {.name = "later", .state_size = 1};
    struct hand_request hand;
    open_two(&hand, 2, 2);
    double bare_bytes = bound_of(&bare, &hand.request, 1).peak_bytes;
    double away_bytes = bound_of(&away, &hand.request, 1).peak_bytes;
    CHECK_TRUE(bound_of(&whole, &hand.request, 1).peak_bytes > bare_bytes && bare_bytes > away_bytes);
    CHECK_TRUE(bound_of(&later, &hand.request, 1).peak_bytes == away_bytes);
    hand.request.layout.offload = 1;
    CHECK_TRUE(bound_of(&bare, &hand.request, 1).peak_bytes == away_bytes);
    hand_request_free(&hand);
}

TEST(bound__takes_the_recomputation_of_least_memory_if_the_system_decides)
{
    static const struct training_system decides = {.name = "decides", .decides = decides_recompute};
    struct hand_request hand;
    double bytes[3];
    open_two(&hand, 2, 1);
    for (int i = 0; i < 3; i++) {
        hand.request.layout.recompute = (int32_t[]){RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL}[i];
        bytes[i] = bound_of(&bare, &hand.request, 1).peak_bytes;
    }
    double least = fmin(bytes[0], fmin(bytes[1], bytes[2]));
    CHECK_TRUE(least < bytes[0]);
    hand.request.layout.recompute = RECOMPUTE_NONE;
    CHECK_TRUE(bound_of(&decides, &hand.request, 1).peak_bytes == least);
    hand_request_free(&hand);
}

/* 839 layers and the head run on two stages, so the last has 419 layers. The bound knows no more than of 838 layers,
 * whatever the first stage has. */
TEST(bound__follows_the_stage_of_the_fewest_layers)
{
    double after_s[2];
    for (int i = 0; i < 2; i++) {
        struct hand_request hand;
        open_two(&hand, 2, 2);
        hand.model.layers = i == 0 ? 838 : 839;
        hand.request.layout.stages.count_head = i == 1;
        hand_options(&hand.setting, &hand.request.layout);
        hand_layers(&hand.setting, i == 0 ? 419 : 420); /* layers of the first stage, as request_setting has it */
        after_s[i] = bound_after_passes_s(&hand.setting, &hand.request.layout);
        hand_request_free(&hand);
    }
    CHECK_TRUE(after_s[0] == after_s[1]);
}

/* Two replicas have P parameters in n buckets on a node of 200 GB/s, with fp32 gradients. They reduce in 1 us + 2P
 * bytes and gather in 1 us + P bytes. The bound counts the traffic that is whole behind the passes. The graph also has
 * the last bucket of the hidden traffic, as its passes are longer. */
TEST(bound_after_passes_s__counts_what_cannot_hide)
{
    static const struct {
        enum scenario_sharding sharding;
        enum scenario_data_overlap overlap;
        double whole[2], last[2]; /* gradients, parameters: 1: there is one */
    } cases[] = {{SCENARIO_ZERO1, SCENARIO_OVERLAP_NONE, {1, 1}, {0, 0}},
                 {SCENARIO_ZERO1, SCENARIO_OVERLAP_GRADIENTS, {0, 1}, {1, 0}},
                 {SCENARIO_ZERO1, SCENARIO_OVERLAP_BOTH, {0, 0}, {1, 1}},
                 {SCENARIO_ZERO2, SCENARIO_OVERLAP_NONE, {0, 1}, {0, 0}},
                 {SCENARIO_ZERO2, SCENARIO_OVERLAP_GRADIENTS, {0, 1}, {0, 0}},
                 {SCENARIO_ZERO2, SCENARIO_OVERLAP_BOTH, {0, 0}, {0, 1}},
                 {SCENARIO_ZERO3, SCENARIO_OVERLAP_NONE, {0, 0}, {0, 0}}};
    struct plan plan;
    struct cost_setting setting = *hand_setting();
    struct model model = *setting.model;
    struct scenario_plan layout = {.tp = 1, .pp = 1, .cp = 1, .dp = 2, .vpp = 1};
    model.vocabulary = 1000000;
    setting.model = &model;
    hand_options(&setting, &layout);
    hand_whole_samples(&plan, 2, 1, 4096);
    double parameters = hand_stage_parameters(&model, 1, 840, true, true), n = ceil(parameters / 40e6);
    const double bytes[] = {2 * parameters, parameters};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setting.sharding = (int32_t)cases[i].sharding;
        setting.dp_overlap = (int32_t)cases[i].overlap;
        double bound_s = cost_optimizer_s(&setting, parameters, 2), last_s = 0;
        for (int k = 0; k < 2; k++) {
            bound_s += cases[i].whole[k] * (1e-6 + bytes[k] / 200e9);
            last_s += cases[i].last[k] * (1e-6 + bytes[k] / n / 200e9);
        }
        CHECK_CLOSE(bound_after_passes_s(&setting, &layout), bound_s, 1e-12);
        double with_s = hand_plan_makespan_s(&plan, &setting, (struct dag_options){.gradient_sync = true});
        double without_s = hand_plan_makespan_s(&plan, &setting, (struct dag_options){0});
        CHECK_CLOSE(with_s - without_s, bound_s + last_s, 1e-9);
    }
    plan_free(&plan);
}
