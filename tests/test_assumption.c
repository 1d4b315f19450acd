/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests change one assumption of a scenario at a time. */
#include "scenario/assumption.h"

#include "hand_model.h"
#include "harness.h"

/* Check the i-th value of an assumption. @param name  NULL: there is none, or the scenario has it */
static void check_value(const struct scenario *scenario, enum assumption assumption, int32_t i, const char *name,
                        const char *value)
{
    struct assumed assumed;
    CHECK_EQUAL(assumption_value(scenario, assumption, i, &assumed), name != NULL);
    if (name == NULL)
        return;
    CHECK_TEXT(assumed.name, name);
    CHECK_TEXT(assumed.value, value);
}

TEST(assumption_value__gives_choices_that_the_scenario_has_not)
{
    struct scenario scenario = {.communication = {.dp_overlap = SCENARIO_OVERLAP_GRADIENTS, .cp_overlap = true}};
    check_value(&scenario, ASSUME_DP_OVERLAP, 0, "dp_overlap none", "none");
    check_value(&scenario, ASSUME_DP_OVERLAP, 1, NULL, NULL);
    check_value(&scenario, ASSUME_DP_OVERLAP, 2, "dp_overlap both", "both");
    check_value(&scenario, ASSUME_DP_OVERLAP, 3, NULL, NULL);
    check_value(&scenario, ASSUME_CP_OVERLAP, 0, "cp_overlap false", "false");
    check_value(&scenario, ASSUME_CP_OVERLAP, 1, NULL, NULL);
}

/* Modules of PyTorch cast in fp8 by one operation after the other, unless compiled. None such was measured. */
TEST(assumption_value__offers_no_fp8_to_eager_casts)
{
    struct scenario scenario = {.fp8_scaling = SCENARIO_SCALING_CURRENT, .kernels = SCENARIO_COMPILED};
    for (int i = 0; i < PRECISION_N_GEMM; i++)
        scenario.device.gemm[i].efficiency = 0.7;
    check_value(&scenario, ASSUME_PRECISION, PRECISION_FP8_TENSOR, "precision fp8-tensor", "fp8-tensor");
    scenario.kernels = SCENARIO_EAGER;
    check_value(&scenario, ASSUME_PRECISION, PRECISION_FP8_TENSOR, NULL, NULL);
    scenario.precision = PRECISION_FP8_TENSOR;
    check_value(&scenario, ASSUME_PRECISION, PRECISION_BF16, "precision bf16", "bf16");
    scenario = (struct scenario){.kernels = SCENARIO_EAGER, .device = scenario.device}; /* Transformer Engine's casts */
    check_value(&scenario, ASSUME_PRECISION, PRECISION_FP8_TENSOR, "precision fp8-tensor", "fp8-tensor");
}

TEST(assumption_value__multiplies_numbers)
{
    struct scenario scenario = {
        .platform = {.nic_bytes_per_s = 50e9}, .data = {.global_batch = 1, .length_scale = 1}, .expert_imbalance = 1};
    check_value(&scenario, ASSUME_NIC, 0, "NIC x0.5", "25GBps");
    check_value(&scenario, ASSUME_NIC, 1, "NIC x2", "100GBps");
    check_value(&scenario, ASSUME_NIC, 2, NULL, NULL);
    check_value(&scenario, ASSUME_BATCH, 0, NULL, NULL); /* half a document */
    check_value(&scenario, ASSUME_BATCH, 1, "batch x2", "2");
    check_value(&scenario, ASSUME_BATCH_TOKENS, 1, NULL, NULL); /* the batch counts documents */
    check_value(&scenario, ASSUME_LENGTHS, 0, "lengths x1.2", "1.2");
    check_value(&scenario, ASSUME_LENGTHS, 1, NULL, NULL);
    check_value(&scenario, ASSUME_IMBALANCE, 0, "expert imbalance x1.5", "1.5");
    check_value(&scenario, ASSUME_IMBALANCE, 1, NULL, NULL);
}

/* Tokens go to experts in fp8 by DeepEP only, and in blocks. So no other precision or dispatcher is tried. */
TEST(assumption_value__keeps_what_a_dispatch_in_fp8_needs)
{
    struct scenario scenario = {.model = hand_latent,
                                .device = {.experts = {.deepep_nic = 1}},
                                .precision = PRECISION_FP8_BLOCK,
                                .communication = {.dispatcher = SCENARIO_DISPATCH_DEEPEP, .fp8_dispatch = true}};
    for (int32_t i = 0; i < PRECISION_N_GEMM; i++)
        scenario.device.gemm[i].efficiency = 1;
    check_value(&scenario, ASSUME_PRECISION, PRECISION_MXFP8, NULL, NULL);
    check_value(&scenario, ASSUME_DISPATCHER, SCENARIO_DISPATCH_ALL_TO_ALL, NULL, NULL);
    check_value(&scenario, ASSUME_EP_OVERLAP, 1, "ep_overlap true", "true");
    scenario.communication.fp8_dispatch = false;
    check_value(&scenario, ASSUME_PRECISION, PRECISION_MXFP8, "precision mxfp8", "mxfp8");
    check_value(&scenario, ASSUME_DISPATCHER, SCENARIO_DISPATCH_ALL_TO_ALL, "dispatcher all-to-all", "all-to-all");
}

TEST(assumption_set__is_what_assumption_now_returns)
{
    struct scenario scenario = {.n_systems = 0};
    for (enum assumption i = 0; i < ASSUME_N_CHOICES; i++)
        for (int32_t value = assumptions[i].n - 1; value >= 0; value--) {
            assumption_set(&scenario, i, value);
            CHECK_EQUAL(assumption_now(&scenario, i), value);
        }
    CHECK_EQUAL(scenario.attention, 0);
    assumption_set(&scenario, ASSUME_CP_OVERLAP, 1);
    CHECK_TRUE(scenario.communication.cp_overlap);
}
