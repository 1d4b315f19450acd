/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests predict the time of one layer. */
#include "hand_cost.h"
#include "hand_model.h"
#include "harness.h"
#include "validate/predict.h"

/* Four tokens go to two experts each. On two ranks half of 4 x 2 x 4 values of 2 bytes leave a rank, and come back:
 * 1 s and 0.1 s a byte each way. The GEMMs of two experts on 4 tokens each have the FLOPs of those of four experts on 2
 * each, so all else is equal. */
TEST(predict_layer_s__counts_tokens_to_experts)
{
    static struct setting setting; /* a scenario is large */
    struct device device = hand_device;
    double seconds[2];
    device.collective[DEVICE_ALL_TO_ALL] = (struct device_collective){.latency_s = 1, .efficiency = 1};
    setting = (struct setting){.micro_batch = 1, .plan = {.tp = 1, .pp = 1, .cp = 1, .dp = 2, .vpp = 1}};
    setting.scenario.model = hand_latent;
    setting.scenario.model.pattern[0] = (struct model_run){1, 3};
    setting.scenario.model.n_runs = 1;
    setting.scenario.platform = hand_links;
    setting.scenario.data.context = 4;
    for (int32_t i = 0; i < 2; i++) {
        setting.plan.ep = i + 1;
        seconds[i] = predict_layer_s(&setting, &device, PASS_FORWARD);
    }
    CHECK_CLOSE(seconds[1] - seconds[0], 2 * (1 + 4.0 * 2 * 4 * 2 / 2 / 10), 1e-12);
}
