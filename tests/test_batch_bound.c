/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check the lower bound of the time of a batch. */
#include "bounds/batch_bound.h"

#include <math.h>
#include <stdlib.h>

#include "cost/communication.h"
#include "hand_dag.h"
#include "hand_plan.h"
#include "hand_request.h"
#include "harness.h"

extern const struct training_system system_length_balanced;

/* Add the seconds of the passes that length-balanced plans, without the embedding. One place runs the embedding
 * micro-batch by micro-batch while the others wait. */
static double planned_s(struct hand_request *hand)
{
    struct plan plan;
    hand_planned(hand, &system_length_balanced, "", &plan);
    const struct plan_pipeline *pipeline = plan.phases[0].pipelines;
    double seconds = hand_plan_makespan_s(&plan, &hand->setting, (struct dag_options){0});
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++)
        for (int32_t i = 0; i < pipeline->partition[pass].n_micro_batches; i++) {
            struct cost_micro_batch micro_batch = dag_micro_batch(pipeline, pass, i);
            double embedding_s = cost_of_embedding(&hand->setting, pass, &micro_batch).kernels_s;
            CHECK_TRUE(embedding_s > 0);
            seconds -= embedding_s;
        }
    plan_free(&plan);
    return seconds;
}

/* One place does all, and kernels of the hand's machine take no time but their work. So the bound leaves nothing out
 * but the embedding. With full recomputation the forward of all layers, or of so many, comes once more. */
TEST(batch_bound__leaves_out_the_embedding_alone_on_one_place)
{
    static const int32_t recompute_layers[] = {0, 300};
    for (int i = 0; i < 4; i++) {
        struct hand_request hand;
        hand_request_real(&hand, 1, 1, 5000);
        hand_batch(&hand, 3, (int32_t[]){5000, 800, 1700});
        hand.request.layout.recompute = i % 2 == 0 ? RECOMPUTE_NONE : RECOMPUTE_FULL;
        hand_recompute_layers(&hand.setting, recompute_layers[i / 2]);
        double seconds = planned_s(&hand);
        CHECK_CLOSE(batch_bound_whole_samples_s(&hand.request), seconds, 1e-12);
        CHECK_CLOSE(batch_bound_shared_s(&hand.request), seconds, 1e-12);
        hand_request_free(&hand);
    }
}

/* Find the bound of one sample alone on one rank. */
static double sample_s(int32_t tokens)
{
    struct hand_request hand;
    hand_request_real(&hand, 1, 1, 5000);
    hand_batch(&hand, 1, &tokens);
    double seconds = batch_bound_shared_s(&hand.request);
    hand_request_free(&hand);
    return seconds;
}

/* The bound is the mean of DP x CP ranks. Each sample takes the time that it takes alone. */
TEST(batch_bound__shares_the_work_over_all_ranks)
{
    struct hand_request hand;
    double seconds[2];
    hand_request_real(&hand, 3, 1, 5000);
    hand_batch(&hand, 2, (int32_t[]){5000, 1000});
    hand.request.layout.cp = 2;
    hand_options(&hand.setting, &hand.request.layout);
    CHECK_CLOSE(batch_bound_shared_s(&hand.request), (sample_s(5000) + sample_s(1000)) / 6, 1e-9);
    batch_bound_samples_s(&hand.request, seconds);
    CHECK_CLOSE(seconds[0], sample_s(5000), 1e-9);
    CHECK_CLOSE(seconds[1], sample_s(1000), 1e-9);
    hand_request_free(&hand);
}

/* A batch of other samples with as many model FLOPs takes no less time. The samples have one length, from a token to
 * the context. */
TEST(batch_bound__of_any_samples_is_below_that_of_each_batch_of_as_many_flops)
{
    struct hand_request hand, other;
    double nearest = 0;
    hand_request_real(&hand, 2, 1, 5000);
    hand_batch(&hand, 3, (int32_t[]){5000, 2000, 100});
    double any_s = batch_bound_any_samples_s(&hand.request);
    double flop = flop_model_of_samples(&hand.model, hand.batch.tokens, hand.batch.n_samples);
    hand_request_real(&other, 2, 1, 5000);
    for (int32_t tokens = 1; tokens <= 5000; tokens = tokens < 5000 && tokens * 3 > 5000 ? 5000 : tokens * 3) {
        hand_batch(&other, 1, &tokens);
        double seconds = batch_bound_shared_s(&other.request) * flop / hand_model_flop(&other.model, tokens);
        CHECK_TRUE(any_s <= seconds * (1 + 1e-12));
        nearest = fmax(nearest, any_s / seconds);
    }
    CHECK_TRUE(nearest > 0.9);
    hand_request_free(&hand);
    hand_request_free(&other);
}

/* A pipeline runs the longest sample down and up again, one stage after the other. With one sample and no bytes to send
 * there is nothing more. */
TEST(batch_bound__takes_a_whole_sample_through_all_stages)
{
    struct hand_request hand;
    struct platform platform = *hand_setting()->platform;
    struct device device = *hand_setting()->device;
    hand_request_real(&hand, 1, 4, 5000);
    hand_batch(&hand, 1, (int32_t[]){5000});
    platform.nvlink_bytes_per_s = 1e30;
    device.nvlink.latency_s = 0;
    hand.setting.platform = &platform;
    hand.setting.device = &device;
    CHECK_CLOSE(batch_bound_whole_samples_s(&hand.request), planned_s(&hand), 1e-12);
    hand_request_free(&hand);
}

/* 839 layers and the head run on two stages, so the last has 419 layers, as with 838 layers. The first one's 420th
 * layer only adds to the way of the shorter sample before and behind, which is 1/419 longer. */
TEST(batch_bound__counts_the_last_stage_and_the_way_there)
{
    double seconds[2], shared[2];
    for (int i = 0; i < 2; i++) {
        struct hand_request hand;
        hand_request_real(&hand, 1, 2, 5000);
        hand_batch(&hand, 2, (int32_t[]){5000, 5000});
        hand.model.layers = i == 0 ? 838 : 839;
        hand.request.layout.stages.count_head = i == 1;
        hand_options(&hand.setting, &hand.request.layout);
        hand_layers(&hand.setting, i == 0 ? 419 : 420); /* layers of the first stage, as request_setting has it */
        seconds[i] = batch_bound_whole_samples_s(&hand.request);
        shared[i] = batch_bound_shared_s(&hand.request);
        hand_request_free(&hand);
    }
    CHECK_TRUE(shared[0] == shared[1] && seconds[0] > shared[0]);
    CHECK_CLOSE(seconds[1] - shared[1], (seconds[0] - shared[0]) * 420 / 419, 1e-9);
}

/* The bound takes even shares, but a contiguous ring's slowest rank has more. So the plan takes longer. For a sample
 * alone the bound knows it. */
TEST(batch_bound__holds_for_a_contiguous_ring)
{
    static const int32_t batches[][3] = {{5000, 0, 0}, {5000, 5000, 4000}, {5000, 800, 1700}};
    for (int i = 0; i < 3; i++)
        for (int32_t context = 2; context <= 8; context *= 2) {
            double bound_s[2], plan_s[2];
            for (int contiguous = 0; contiguous < 2; contiguous++) {
                struct hand_request hand;
                hand_request_real(&hand, 1, 1, 5000);
                hand_batch(&hand, i == 0 ? 1 : 3, batches[i]);
                hand.request.layout.cp = context;
                hand.request.layout.cp_type = contiguous ? SCENARIO_RING_CONTIGUOUS : SCENARIO_RING;
                hand_options(&hand.setting, &hand.request.layout);
                bound_s[contiguous] = batch_bound_whole_samples_s(&hand.request);
                plan_s[contiguous] = planned_s(&hand);
                CHECK_TRUE(batch_bound_shared_s(&hand.request) <= plan_s[contiguous] * (1 + 1e-12));
                hand_request_free(&hand);
            }
            CHECK_TRUE(bound_s[1] <= plan_s[1] * (1 + 1e-12));
            CHECK_TRUE(plan_s[1] > plan_s[0]);
            CHECK_TRUE(i > 0 || bound_s[1] > bound_s[0]);
        }
}

/* If k of 64 ranks share NVLink, a NIC sends 1/k of the bytes at 50 GB/s, and NVLink the rest at 200. Both take as long
 * for k = 5. A node has only 4 GPUs, but two nodes are an NVLink domain. */
TEST(batch_bound_rails__count_the_ranks_of_an_nvlink_domain)
{
    const struct cost_setting *rack = hand_rack_setting();
    double five_s = cost_rails_s(rack, DEVICE_ALL_GATHER, 1e9, 64, 5);
    CHECK_TRUE(five_s < cost_rails_s(rack, DEVICE_ALL_GATHER, 1e9, 64, 4));
    CHECK_CLOSE(batch_bound_rails_s(rack, DEVICE_ALL_GATHER, 1e9, 64), five_s, 1e-15);
}

/* Slices of samples at any places and the passes of all give the same sum as whole samples, with full recomputation,
 * too. */
TEST(batch_bound_micro_batch__adds_up_to_the_samples)
{
    for (int full = 0; full < 2; full++) {
        struct hand_request hand;
        double whole_s[2], sum_s = 0;
        hand_request_real(&hand, 1, 2, 5000);
        hand_batch(&hand, 2, (int32_t[]){5000, 800});
        hand.request.layout.recompute = full ? RECOMPUTE_FULL : RECOMPUTE_NONE;
        batch_bound_samples_s(&hand.request, whole_s);
        struct plan_partition partition = {0};
        static const struct slice slices[] = {{0, 0, 1200}, {0, 1200, 5000}, {1, 0, 800}};
        for (int i = 0; i < 3; i++) {
            plan_add_slice(&partition, slices[i]);
            if (i > 0)
                plan_add_micro_batch(&partition)->context = 1;
        }
        for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
            struct batch_bound_pass of = batch_bound_pass_of(&hand.request, pass);
            for (int32_t micro_batch = 0; micro_batch < 2; micro_batch++)
                sum_s += batch_bound_micro_batch_s(&of, &hand.batch, &partition, micro_batch);
            free(of.attention_s);
        }
        CHECK_CLOSE(sum_s, whole_s[0] + whole_s[1], 1e-12);
        free(partition.slices);
        free(partition.micro_batches);
        hand_request_free(&hand);
    }
}

/* Return the bound of one sample on two TP ranks that expose collectives, with three GEMMs in place of QKV and two in
 * place of gate and up, or without. Compiled kernels add up inputs' gradients in GEMMs. */
static double projections_s(bool sequence_parallel, bool single, double *reduce_s)
{
    struct hand_request hand;
    const int32_t tokens = 5000;
    hand_request_real(&hand, 1, 1, tokens);
    hand_batch(&hand, 1, &tokens);
    hand.setting.tensor = 2;
    hand.request.layout.tp = 2;
    hand.setting.tp_overlap = SCENARIO_EXPOSED;
    hand.setting.kernels = SCENARIO_COMPILED;
    hand.setting.sequence_parallel = sequence_parallel;
    hand.setting.single = single ? COST_SINGLE_QKV | COST_SINGLE_GATE_UP : 0;
    *reduce_s = (double)hand.model.layers *
                cost_collective_s(&hand.setting, DEVICE_ALL_REDUCE, 2.0 * tokens * (double)hand.model.hidden, 2);
    double seconds = batch_bound_shared_s(&hand.request);
    hand_request_free(&hand);
    return seconds;
}

/* The GEMMs have the same FLOPs. With sequence parallelism their input is gathered once. Without, the gradients of
 * three more inputs are reduced. */
TEST(batch_bound__gathers_the_input_of_several_projections_once)
{
    double reduce_s, joined_s = projections_s(true, false, &reduce_s);
    CHECK_CLOSE(projections_s(true, true, &reduce_s), joined_s, 1e-12);
    joined_s = projections_s(false, false, &reduce_s);
    CHECK_TRUE(reduce_s > 0);
    CHECK_CLOSE(projections_s(false, true, &reduce_s) - joined_s, 3 * reduce_s, 1e-9);
}

/* Return the bound of three samples on two TP ranks, and the seconds of their plan. */
static double gathering_s(enum precision precision, int32_t tp_overlap, double *plan_s)
{
    struct hand_request hand;
    struct device device = *hand_setting()->device;
    struct platform platform = *hand_setting()->platform;
    platform.nvlink_bytes_per_s = 5e9; /* gathers are a large part of the time */
    device.peak_flop_per_s[PRECISION_FP8_TENSOR] = 2e12;
    device.gemm[PRECISION_FP8_TENSOR].efficiency = 1;
    hand_request_real(&hand, 1, 1, 5000);
    hand_batch(&hand, 3, (int32_t[]){5000, 800, 1700});
    hand.setting.device = &device;
    hand.setting.platform = &platform;
    hand.setting.precision = precision;
    hand.setting.tensor = 2;
    hand.request.layout.tp = 2;
    hand.setting.tp_overlap = tp_overlap;
    double seconds = batch_bound_shared_s(&hand.request);
    *plan_s = planned_s(&hand);
    hand_request_free(&hand);
    return seconds;
}

/* Gathers of 1 B an element take less time than the plan has. Only latencies of the two shorter samples, and what
 * kernels hide, are left out. */
TEST(batch_bound__holds_for_gathers_in_fp8)
{
    static const int32_t overlaps[] = {SCENARIO_EXPOSED, SCENARIO_BULK, SCENARIO_CHUNKED};
    for (int i = 0; i < 3; i++) {
        double wide_plan_s, narrow_plan_s;
        double wide_s = gathering_s(PRECISION_BF16, overlaps[i], &wide_plan_s);
        double narrow_s = gathering_s(PRECISION_FP8_TENSOR, overlaps[i], &narrow_plan_s);
        CHECK_TRUE(wide_s <= wide_plan_s * (1 + 1e-12) && narrow_s <= narrow_plan_s * (1 + 1e-12));
        CHECK_TRUE(narrow_s < wide_s && narrow_plan_s < wide_plan_s);
        CHECK_TRUE(i > 0 || narrow_s > 0.95 * narrow_plan_s);
    }
}
