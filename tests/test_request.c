/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check what a request asks of a system. */
#include <stdlib.h>

#include "hand_request.h"
#include "harness.h"

/* A GPU has 100 bytes less 10 of context, and half of the rest. */
TEST(memory_bytes__is_the_limits_share_of_what_the_context_leaves)
{
    struct scenario *scenario = calloc(1, sizeof *scenario);
    scenario->device.memory_bytes = 100;
    scenario->device.context_bytes = 10;
    scenario->memory_limit = 0.5;
    CHECK_CLOSE(request_memory_bytes(scenario), 45, 1e-15);
    free(scenario);
}

/* On one stage micro-batches stream, and the first and last of l layers stay. So (l - 2) / l of half the activations
 * goes. */
TEST(offload__leaves_out_two_layers_where_micro_batches_stream)
{
    for (int32_t pp = 1; pp <= 2; pp++) {
        struct hand_request hand;
        struct plan_micro_batch micro_batch = {0};
        hand_request_real(&hand, 1, pp, 100);
        hand.model.layers = 8;
        hand.request.layout.offload = 0.5;
        request_offload(&hand.request, &micro_batch);
        CHECK_EQUAL(micro_batch.streams, pp == 1);
        CHECK_CLOSE(micro_batch.offload, pp == 1 ? 0.5 * 6 / 8 : 0.5, 1e-15);
        hand_request_free(&hand);
    }
}

/* TP is 2, CP 3, PP 2, DP 4. A pipeline has six neighbouring ranks of a stage, and its next stage is 24 ranks
 * further. */
TEST(megatron_layout__goes_by_tensor_context_data_and_stage)
{
    struct hand_request hand;
    struct plan_phase phase = {0};
    hand_request(&hand, 4, 2, 100);
    hand.request.layout.tp = 2;
    hand.request.layout.cp = 3;
    hand_options(&hand.setting, &hand.request.layout);
    request_megatron_layout(&hand.request, &phase);
    CHECK_EQUAL(phase.n_pipelines, 4);
    for (int32_t i = 0; i < phase.n_pipelines; i++) {
        const struct plan_layout *layout = &phase.pipelines[i].layout;
        CHECK_EQUAL(layout->tensor, 2);
        CHECK_EQUAL(layout->context, 3);
        CHECK_EQUAL(layout->stages, 2);
        CHECK_EQUAL(layout->first_rank, 6 * i);
        CHECK_EQUAL(layout->stage_stride, 24);
    }
    free(phase.pipelines);
    hand_request_free(&hand);
}
