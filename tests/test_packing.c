/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check packs of equal tokens or FLOPs, and the memory they need. */
#include "bounds/memory.h"
#include "hand_model.h"
#include "hand_plan.h"
#include "hand_request.h"
#include "harness.h"
#include "packing/packing.h"
#include "packing/samples.h"
#include "search/bound.h"

#include <math.h>
#include <stdlib.h>

extern const struct training_system system_length_balanced, system_flops_balanced;

/* A context of 10 and 25 tokens make three packs, four on two ranks. 8 (sample 1), 6 (4), 5 (0), 3 (3) open them. Then
 * the least filled gets the next: 2 (2) joins 3, and 1 (5) the first of 5 and 5. Packs 0 and 2 are rank 0's. */
TEST(packing_tokens__matches_the_packs_counted_by_hand)
{
    struct hand_request hand;
    struct plan plan;
    hand_request(&hand, 2, 2, 10);
    hand_batch(&hand, 6, (int32_t[]){5, 8, 2, 3, 6, 1});
    hand_planned(&hand, &system_length_balanced, "", &plan);
    const struct plan_pipeline *pipeline = plan.phases[0].pipelines;
    CHECK_TEXT(hand_cut_text(&pipeline[0].partition[PASS_FORWARD]), "[1:0-8] [0:0-5 5:0-1]");
    CHECK_TEXT(hand_cut_text(&pipeline[1].partition[PASS_BACKWARD]), "[4:0-6] [3:0-3 2:0-2]");
    CHECK_TEXT(hand_order_text(&pipeline[1], 0), "F0 F1 B0 B1");
    plan_free(&plan);
    hand_request_free(&hand);
}

/* Three samples of 6 do not go into two packs of 10. Two more are opened for two ranks. One stays empty and is left
 * out. */
TEST(packing_tokens__opens_packs_for_a_sample_without_room)
{
    struct hand_request hand;
    struct plan plan;
    hand_request(&hand, 2, 1, 10);
    hand_batch(&hand, 3, (int32_t[]){6, 6, 6});
    hand_planned(&hand, &system_length_balanced, "", &plan);
    CHECK_TEXT(hand_cut_text(&plan.phases[0].pipelines[0].partition[PASS_FORWARD]), "[0:0-6] [2:0-6]");
    CHECK_TEXT(hand_cut_text(&plan.phases[0].pipelines[1].partition[PASS_FORWARD]), "[1:0-6]");
    plan_free(&plan);
    hand_request_free(&hand);
}

/* F(x) = 2x^2 + 10x gives 10 300, 4 72, 3 48, 2 28 and 1 12. Twenty-three tokens make three packs of a context of 10:
 * 10; 4; 4. Then 3 goes to pack 1 (120), 2 to pack 2 (100), and the rest to the least. Pack 0 gets nothing. */
TEST(packing_flops__leaves_the_longest_alone)
{
    struct hand_request hand;
    struct plan plan;
    hand_request(&hand, 1, 1, 10);
    hand_batch(&hand, 5, (int32_t[]){4, 10, 4, 3, 2});
    hand_planned(&hand, &system_flops_balanced, "", &plan);
    CHECK_TEXT(hand_cut_text(&plan.phases[0].pipelines[0].partition[PASS_FORWARD]),
               "[1:0-10] [0:0-4 3:0-3] [2:0-4 4:0-2]");
    plan_free(&plan);
    hand_request_free(&hand);
}

/* With room for 6 tokens the same samples make four packs. 10 has one to itself and does not widen the others. */
TEST(packing__gives_an_oversized_sample_its_own_pack)
{
    struct hand_request hand;
    struct plan plan;
    hand_request(&hand, 1, 1, 10);
    hand_batch(&hand, 5, (int32_t[]){4, 10, 4, 3, 2});
    hand_planned(&hand, &system_flops_balanced, "max_tokens: 6", &plan);
    CHECK_TEXT(hand_cut_text(&plan.phases[0].pipelines[0].partition[PASS_FORWARD]),
               "[1:0-10] [0:0-4] [2:0-4] [3:0-3 4:0-2]");
    plan_free(&plan);
    hand_request_free(&hand);
}

/* Find the least largest weight of n samples in two packs by trying all 2^n. */
static double best_of_two(const double *weight, int32_t n)
{
    double best = 1e300;
    for (int32_t mask = 0; mask < 1 << n; mask++) {
        double sum[2] = {0, 0};
        for (int32_t i = 0; i < n; i++)
            sum[mask >> i & 1] += weight[i];
        double most = sum[0] > sum[1] ? sum[0] : sum[1];
        best = most < best ? most : best;
    }
    return best;
}

static double heaviest(const struct packing *packing, const double *weight)
{
    double most = 0;
    for (int32_t pack = 0; pack < packing->n_packs; pack++) {
        double sum = 0;
        for (int32_t i = packing->first[pack]; i < packing->first[pack + 1]; i++)
            sum += weight[packing->sample[i]];
        most = sum > most ? sum : most;
    }
    return most;
}

/* Graham 1969: longest processing time first on m machines takes at most 4/3 - 1/(3m) of the best. On two that is
 * 7/6. */
TEST(longest_first__keeps_grahams_bound)
{
    uint64_t seed = 3;
    int32_t exact = 0;
    for (int32_t round = 0; round < 200; round++) {
        struct hand_request hand;
        struct packing packing;
        double weight[10], longest = 0;
        hand_request(&hand, 1, 1, 50);
        hand_batch_of(&hand, HAND_UNIFORM, 2 + hand_below(&seed, 9), seed);
        int32_t n = hand.batch.n_samples;
        for (int32_t i = 0; i < n; i++)
            longest = fmax(longest, weight[i] = hand.batch.tokens[i]);
        hand.request.layout.dp = 2;
        hand_options(&hand.setting, &hand.request.layout);
        hand.request.context = 1000;
        packing_balance(&hand.request, weight, 1000, &packing);
        CHECK_EQUAL(packing.n_packs, 2);
        double most = heaviest(&packing, weight), best = best_of_two(weight, n);
        CHECK_TRUE(most >= best && most <= best * 7 / 6 + 1e-9);
        exact += most == best;
        packing_free(&packing);
        packing_balance(&hand.request, weight, 1, &packing); /* room for the longest alone */
        CHECK_TRUE(heaviest(&packing, weight) <= longest);
        CHECK_EQUAL(packing.n_packs, (n + 1) / 2 * 2); /* not as many as there are tokens */
        packing_free(&packing);
        hand_request_free(&hand);
    }
    CHECK_TRUE(exact > 50);
}

/* 5, 5 and 3 go into two sets. The two fives join, one in each set, and keep their order, as their sums are equal. Then
 * the three, whose spread is now the largest, takes the last of them. */
TEST(differencing__keeps_the_order_of_equal_sums)
{
    int32_t set[3];
    packing_differencing((const double[]){5, 5, 3}, 3, 2, false, set);
    CHECK_EQUAL(set[0], 1);
    CHECK_EQUAL(set[1], 0);
    CHECK_EQUAL(set[2], 0);
}

/* Find the peak of a plan of so many micro-batches of equal length. */
static double peak_of(struct hand_request *hand, int32_t n_micro_batches, int32_t tokens)
{
    struct plan plan;
    struct timeline timeline = {0};
    struct memory memory = {0};
    int32_t *lengths = malloc((size_t)n_micro_batches * sizeof *lengths);
    for (int32_t i = 0; i < n_micro_batches; i++)
        lengths[i] = tokens;
    hand_batch(hand, n_micro_batches, lengths);
    hand->request.context = tokens;
    hand_planned(hand, &system_length_balanced, "", &plan);
    struct dag dag = hand_built(&plan, &hand->setting, (struct dag_options){0});
    critical_path(&dag, &timeline);
    memory_of(&plan, &dag, &timeline, &hand->setting, false, &memory);
    double peak_bytes = memory.peak_bytes[memory.worst_rank];
    memory_free(&memory);
    timeline_free(&timeline);
    dag_free(&dag);
    plan_free(&plan);
    free(lengths);
    return peak_bytes;
}

/* Micro-batches of as many tokens as fit the memory fill it, and never exceed it. On ranks of CP 2 they are twice as
 * long. */
TEST(packing_memory_tokens__fit_the_memory)
{
    for (int32_t pp = 1; pp <= 4; pp *= 2)
        for (int32_t cp = 1; cp <= 2; cp++)
            for (int32_t vpp = 1; vpp <= (pp > 1 ? 2 : 1); vpp++) {
                struct hand_request hand;
                hand_request_real(&hand, 1, pp, 100);
                hand_heads(&hand.model, (uint64_t)(pp + cp + vpp));
                if (cp == 2) /* of 16 micro-batches all but the first have all gradients */
                    hand.request.layout.gradient_buffers = SCENARIO_GRADIENTS_FREED;
                hand.request.memory_bytes = 8e9;
                hand.request.layout.cp = cp;
                hand_options(&hand.setting, &hand.request.layout);
                hand.request.layout.vpp = vpp;
                hand_layers(&hand.setting, cost_n_layers(&hand.setting) / vpp);
                int64_t tokens = packing_memory_tokens(&hand.request);
                CHECK_TRUE(tokens > 1000);
                double peak_bytes = peak_of(&hand, 16, (int32_t)tokens);
                CHECK_TRUE(peak_bytes <= 8e9);
                CHECK_CLOSE(peak_bytes, 8e9, vpp > 1 ? 0.08 : 0.02);
                hand.request.memory_bytes = 1e6;
                CHECK_EQUAL(packing_memory_tokens(&hand.request), 0);
                hand_request_free(&hand);
            }
}

/* On one stage a micro-batch's copies run in its passes, so half of all layers but two is never there. With two stages
 * they go after the forward, so the activations in work are there. */
TEST(packing_memory_tokens__stream_the_offload_of_one_stage)
{
    for (int32_t pp = 1; pp <= 2; pp++) {
        struct hand_request hand;
        struct plan plan;
        double tokens[2];
        hand_request_real(&hand, 1, pp, 100);
        hand.request.memory_bytes = 8e9;
        hand_batch(&hand, 1, (int32_t[]){100});
        for (int32_t i = 0; i < 2; i++) {
            hand.request.layout.offload = 0.5 * i;
            tokens[i] = (double)packing_memory_tokens(&hand.request);
        }
        double peak_bytes = peak_of(&hand, 4, (int32_t)tokens[1]);
        CHECK_TRUE(pp == 2 || (peak_bytes <= 8e9 && peak_bytes > 0.98 * 8e9));
        CHECK_CLOSE(tokens[1] / tokens[0], (pp == 1 ? 2 : 4.0 / 3), 0.02);
        hand_planned(&hand, &system_length_balanced, "", &plan);
        const struct plan_micro_batch *micro_batch = plan.phases[0].pipelines[0].partition[PASS_FORWARD].micro_batches;
        CHECK_EQUAL(micro_batch->streams, pp == 1);
        CHECK_CLOSE(micro_batch->offload, (pp == 1 ? 0.5 * 838 / 840 : 0.5), 1e-15);
        plan_free(&plan);
        hand_request_free(&hand);
    }
}

/* The search's bound of memory holds whether gradients are kept or freed. It is met if the samples are so short that
 * all states count, or so long that the first forward does. */
TEST(memory_bound__holds_for_freed_gradients)
{
    static const int32_t tokens[] = {8, 100, 400, 4000};
    double tightest = 0;
    for (int32_t i = 0; i < 32; i++) {
        struct hand_request hand;
        hand_request_real(&hand, 1 + i / 16, 1, tokens[i % 4]);
        hand_heads(&hand.model, (uint64_t)i);
        hand.request.layout.gradient_buffers = i / 4 % 2 == 1 ? SCENARIO_GRADIENTS_FREED : SCENARIO_GRADIENTS_KEPT;
        hand.request.layout.sharding = i / 8 % 2 == 1 ? SCENARIO_ZERO2 : SCENARIO_ZERO1;
        hand_options(&hand.setting, &hand.request.layout);
        double peak_bytes = peak_of(&hand, 2, tokens[i % 4]);
        hand_knobs(&hand, &system_length_balanced, "");
        double bound_bytes = bound_of(&system_length_balanced, &hand.request, 1).peak_bytes;
        CHECK_TRUE(bound_bytes > 0 && bound_bytes <= peak_bytes * (1 + 1e-12));
        tightest = fmax(tightest, cost_frees_gradients(&hand.setting) ? bound_bytes / peak_bytes : 0);
        hand_request_free(&hand);
    }
    CHECK_TRUE(tightest > 0.9);
}

/* The same holds with the tensors that zero2 and zero3 hold whole, whichever moment of a pass is the largest. */
TEST(packing_memory_tokens__leave_room_for_whole_tensors)
{
    for (int32_t i = 0; i < 16; i++) {
        struct hand_request hand;
        hand_request_real(&hand, 1, 1, 100);
        hand_heads(&hand.model, (uint64_t)i);
        hand.request.layout.sharding = i % 2 == 0 ? SCENARIO_ZERO2 : SCENARIO_ZERO3;
        hand.request.layout.fsdp = 1 + i / 2 % 2;
        hand.request.layout.gradients = i / 4 % 2 == 0 ? SCENARIO_FP32 : SCENARIO_BF16;
        hand_options(&hand.setting, &hand.request.layout);
        hand.request.layout.recompute = i / 8 % 2 == 0 ? RECOMPUTE_NONE : RECOMPUTE_FULL;
        hand.request.memory_bytes = 2 * peak_of(&hand, 1, 8);
        int64_t tokens = packing_memory_tokens(&hand.request);
        CHECK_TRUE(tokens > 100);
        double peak_bytes = peak_of(&hand, 4, (int32_t)tokens);
        CHECK_TRUE(peak_bytes <= hand.request.memory_bytes);
        CHECK_CLOSE(peak_bytes, hand.request.memory_bytes, 0.02);
        hand_request_free(&hand);
    }
}

/* The bound holds for the tensors that zero2 and zero3 hold whole, too, whichever moment of a pass is the largest. */
TEST(memory_bound__holds_for_whole_tensors)
{
    static const int32_t tokens[] = {8, 400, 4000};
    double tightest = 0;
    for (int32_t i = 0; i < 3 * 64; i++) {
        struct hand_request hand;
        hand_request_real(&hand, 1, 1, tokens[i % 3]);
        hand_heads(&hand.model, (uint64_t)(i / 3));
        hand.request.layout.sharding = i / 3 % 2 == 0 ? SCENARIO_ZERO2 : SCENARIO_ZERO3;
        hand.request.layout.fsdp = 1 + i / 6 % 2;
        hand.request.layout.fsdp_prefetch = i / 12 % 2 == 0 ? SCENARIO_BACKWARD_PRE : SCENARIO_BACKWARD_POST;
        hand.request.layout.fsdp_ends = i / 12 % 2 == 0 ? SCENARIO_ENDS_ROOT : SCENARIO_ENDS_OWN;
        hand.request.layout.gradients = i / 24 % 2 == 0 ? SCENARIO_FP32 : SCENARIO_BF16;
        hand.request.layout.gradient_buffers = i / 48 % 2 == 1 ? SCENARIO_GRADIENTS_FREED : SCENARIO_GRADIENTS_KEPT;
        hand_options(&hand.setting, &hand.request.layout);
        hand.request.layout.recompute = i / 96 % 2 == 0 ? RECOMPUTE_NONE : RECOMPUTE_FULL;
        double peak_bytes = peak_of(&hand, 2, tokens[i % 3]);
        hand_knobs(&hand, &system_length_balanced, "");
        double bound_bytes = bound_of(&system_length_balanced, &hand.request, 1).peak_bytes;
        CHECK_TRUE(bound_bytes > 0 && bound_bytes <= peak_bytes * (1 + 1e-12));
        tightest = fmax(tightest, bound_bytes / peak_bytes);
        hand_request_free(&hand);
    }
    CHECK_TRUE(tightest > 0.99);
}
