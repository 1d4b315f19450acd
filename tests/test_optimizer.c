/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This test counts the optimizer's seconds by hand. */
#include "cost/cost.h"
#include "hand_cost.h"
#include "harness.h"

/* 12 parameters take 2 s a byte and 1 s to start, in 4 shards. zero1 takes 3 parameters x (4 + 28 + 6) and 12 x 3 x 4.
 * bf16 takes 6 more, and 3 x 2. zero2 takes 3 x (4 + 8 + 28 + 6), and zero3 the same without the weight's copy. Eager
 * takes 88 instead of 28. */
TEST(cost_optimizer_s__is_counted_by_hand)
{
    struct device device = hand_device;
    struct scenario_plan plan = hand_toy_plan;
    struct cost_setting setting = hand_toy_setting_of(&plan);
    device.launch_s = 1;
    setting.device = &device;
    CHECK_CLOSE(cost_optimizer_s(&setting, 12, 4), 1 + 2 * (3 * 38 + 144.0), 1e-14);
    plan.gradients = SCENARIO_BF16;
    CHECK_CLOSE(cost_optimizer_s(&setting, 12, 4), 1 + 2 * (3 * 44 + 72.0), 1e-14);
    plan.gradients = SCENARIO_FP32;
    plan.sharding = SCENARIO_ZERO2;
    CHECK_CLOSE(cost_optimizer_s(&setting, 12, 4), 1 + 2 * 3 * 46.0, 1e-14);
    plan.sharding = SCENARIO_ZERO3;
    CHECK_CLOSE(cost_optimizer_s(&setting, 12, 4), 1 + 2 * 3 * 40.0, 1e-14);
    plan.optimizer = SCENARIO_EAGER;
    CHECK_CLOSE(cost_optimizer_s(&setting, 12, 4), 1 + 2 * 3 * 100.0, 1e-14);
}
