/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check the schedules that a system can name: closed forms of time and memory, and cuts. */
#include "plan/schedule.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bounds/memory.h"
#include "dag/graph.h"
#include "hand_dag.h"
#include "hand_plan.h"
#include "hand_request.h"
#include "harness.h"
#include "plan/order.h"
#include "plan/slicing.h"

static void apply(struct plan *plan, enum scenario_schedule schedule, int32_t slices)
{
    struct error err = {0};
    struct scenario_plan keys = {.schedule = (int32_t)schedule, .slices = slices};
    for (int32_t i = 0; i < plan->phases[0].n_pipelines; i++)
        CHECK_TRUE(schedule_pipeline(&plan->phases[0].pipelines[i], &keys, hand_setting(), &err));
}

static struct dag built(const struct plan *plan)
{
    struct dag dag = hand_built(plan, hand_setting(), (struct dag_options){0});
    return dag;
}

/* Find the seconds of m equal micro-batches on p stages with free sends. */
static double makespan_s(enum scenario_schedule schedule, int32_t slices, int32_t p, int32_t m, const double seconds[3])
{
    struct plan plan;
    hand_uniform(&plan, p, m, 48);
    apply(&plan, schedule, slices);
    struct dag dag = built(&plan);
    hand_split_times(&dag, seconds[0], seconds[1], seconds[2]);
    double makespan = hand_makespan_s(&dag);
    dag_free(&dag);
    plan_free(&plan);
    return makespan;
}

/* The last stage ends its last forward at (m + p - 1) f and begins its backwards at once. The last of these needs (p -
 * 1) b more to the first stage. */
TEST(gpipe__matches_the_closed_form)
{
    for (int32_t p = 1; p <= 6; p++)
        for (int32_t m = 1; m <= 9; m++)
            CHECK_CLOSE(makespan_s(SCENARIO_GPIPE, 0, p, m, (double[]){1, 2, 0}), (m + p - 1) * 3.0, 1e-12);
}

/* Qi et al. 2023, table 2, has bubbles of (p - 1)(f + b - w). order.h has the derivation, without their w <= f, b. */
TEST(zero_bubble__matches_the_closed_form)
{
    static const double times[][3] = {{1, 1, 1},   {2, 2, 1},   {2, 3, 1}, {3, 4, 2},   {1, 2, 1},
                                      {10, 12, 8}, {8, 12, 10}, {1, 1, 2}, {10, 8, 12}, {1, 4, 0}};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        for (int32_t p = 1; p <= 6; p++)
            for (int32_t m = p; m <= 3 * p + 2; m++) {
                double f = times[i][0], b = times[i][1], w = times[i][2];
                CHECK_CLOSE(makespan_s(SCENARIO_ZERO_BUBBLE, 0, p, m, times[i]),
                            m * (f + b + w) + (p - 1) * fmax(f + b - w, fmax(f, b)), 1e-12);
            }
}

/* Figure 2 (above) of Qi et al. has p = 3. The later the stage, the later are its weights' gradients. */
TEST(zero_bubble__puts_off_weights_by_the_stage)
{
    struct plan plan;
    hand_uniform(&plan, 3, 4, 16);
    apply(&plan, SCENARIO_ZERO_BUBBLE, 0);
    const struct plan_pipeline *pipeline = plan.phases[0].pipelines;
    CHECK_TEXT(hand_order_text(pipeline, 0), "F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3");
    CHECK_TEXT(hand_order_text(pipeline, 1), "F0 F1 B0 F2 B1 W0 F3 B2 W1 B3 W2 W3");
    CHECK_TEXT(hand_order_text(pipeline, 2), "F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3");
    plan_free(&plan);
}

/* In the orders above, and in 1F1B, a backward of the last stage follows its forward. With GPipe all forwards come
 * first. A micro-batch that streams goes out beside its own forward. */
TEST(offload__leaves_out_the_last_stage_whose_backwards_follow_at_once)
{
    static const enum scenario_schedule schedules[] = {SCENARIO_ONE_F_ONE_B, SCENARIO_ZERO_BUBBLE, SCENARIO_GPIPE};
    for (int i = 0; i < 3; i++) {
        struct plan plan;
        hand_uniform(&plan, 3, 8, 16);
        apply(&plan, schedules[i], 0);
        struct plan_pipeline *pipeline = plan.phases[0].pipelines;
        for (int32_t j = 0; j < 8; j++) {
            pipeline->partition[PASS_FORWARD].micro_batches[j].offload = 0.5;
            CHECK_EQUAL(plan_returns_at_once(pipeline, j), schedules[i] != SCENARIO_GPIPE);
            CHECK_CLOSE(plan_offload(pipeline, j, 1), 0.5, 0);
            CHECK_CLOSE(plan_offload(pipeline, j, 2), schedules[i] == SCENARIO_GPIPE ? 0.5 : 0, 0);
            pipeline->partition[PASS_FORWARD].micro_batches[j].streams = true;
            CHECK_CLOSE(plan_offload(pipeline, j, 2), 0.5, 0);
        }
        plan_free(&plan);
    }
}

/* There are m n slices instead of m micro-batches, and the lead of n - 1 forwards costs no time. Stage s begins its
 * first backward when n slices have gone through the last stage and one backward has come back. From there on it
 * alternates. In steps of a slice this is 1F1B of m n micro-batches: (m n + p - 1)(f + b). */
TEST(seq1f1b__matches_the_closed_form)
{
    for (int32_t n = 1; n <= 6; n++)
        for (int32_t p = 1; p <= 5; p++)
            for (int32_t m = 1; m <= 4; m++) {
                struct plan plan;
                struct timeline timeline = {0};
                hand_uniform(&plan, p, m, 48);
                apply(&plan, SCENARIO_SEQ1F1B, n);
                CHECK_EQUAL(plan.phases[0].pipelines[0].partition[PASS_FORWARD].n_micro_batches, m * n);
                struct dag dag = built(&plan);
                hand_times(&dag, 1, 2);
                critical_path(&dag, &timeline);
                CHECK_CLOSE(timeline.makespan_s, (m * n + p - 1) * 3.0, 1e-12);
                timeline_free(&timeline);
                dag_free(&dag);
                plan_free(&plan);
            }
}

/* Two micro-batches run in three slices on two stages: n + p-1-s forwards before the first backward, then one by
 * one. */
TEST(seq1f1b__warms_up_with_all_slices_of_a_sample)
{
    struct plan plan;
    hand_uniform(&plan, 2, 2, 48);
    apply(&plan, SCENARIO_SEQ1F1B, 3);
    const struct plan_pipeline *pipeline = plan.phases[0].pipelines;
    CHECK_TEXT(hand_order_text(pipeline, 0), "F0 F1 F2 F3 B0 F4 B1 F5 B2 B3 B4 B5");
    CHECK_TEXT(hand_order_text(pipeline, 1), "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4 B5");
    plan_free(&plan);
}

/* Find the largest activations of a stage over time. Micro-batches take `micro_batch_s` seconds a pass. */
static double most_held(const struct plan *plan, int32_t stage, const double seconds[3])
{
    struct timeline timeline = {0};
    struct memory memory;
    struct dag dag = built(plan);
    double bytes = 0;
    hand_split_times(&dag, seconds[0], seconds[1], seconds[2]);
    critical_path(&dag, &timeline);
    memory_of(plan, &dag, &timeline, hand_setting(), true, &memory);
    for (int64_t i = 0; i < memory.n_events; i++)
        if (dag.ranks[memory.events[i].dag_rank].stage == stage)
            bytes = fmax(bytes, memory.events[i].bytes[MEMORY_ACTIVATIONS]);
    memory_free(&memory);
    timeline_free(&timeline);
    dag_free(&dag);
    return bytes;
}

/* Count the bytes that a stage of p holds of so many tokens. The last one keeps its head's as well. */
static double held(int32_t p, int32_t stage, double tokens)
{
    int32_t layers = 840 / p;
    double bytes = layers * hand_layer_bytes(hand_setting(), RECOMPUTE_NONE, false);
    return tokens * bytes + (stage == p - 1 ? cost_head_bytes(hand_setting(), tokens) : 0);
}

/* With SlimPipe and Seq1F1B stage s runs n + p-1-s slices first. So it never holds more than (n + p-1-s)/n of a
 * micro-batch. 1F1B holds p - s of them, GPipe all m. */
TEST(held_activations__match_the_closed_forms)
{
    const double seconds[3] = {1, 2, 0};
    for (int32_t n = 1; n <= 4; n++)
        for (int32_t p = 1; p <= 4; p++) {
            struct plan sliced, plain, gpipe;
            int32_t m = 6;
            hand_uniform(&sliced, p, m, 48);
            slicing_equal_length(&sliced.phases[0].pipelines[0], n);
            plan_fill_need(&sliced.phases[0].pipelines[0]);
            order_one_f_one_b(&sliced.phases[0].pipelines[0], ORDER_PERSISTENT);
            hand_uniform(&plain, p, m, 48);
            hand_uniform(&gpipe, p, m, 48);
            apply(&gpipe, SCENARIO_GPIPE, 0);
            for (int32_t s = 0; s < p; s++) {
                CHECK_CLOSE(most_held(&sliced, s, seconds), held(p, s, 48.0 * (n + p - 1 - s) / n), 1e-12);
                CHECK_CLOSE(most_held(&plain, s, seconds), held(p, s, 48.0 * (p - s)), 1e-12);
                CHECK_CLOSE(most_held(&gpipe, s, seconds), held(p, s, 48.0 * m), 1e-12);
            }
            plan_free(&sliced);
            plan_free(&plain);
            plan_free(&gpipe);
        }
}

/* Stage s of ZB-H1 holds p - s micro-batches for their backward as in 1F1B, and s for their weights. At the end of a
 * backward the first are one less, the second one more. */
TEST(zero_bubble__holds_as_many_micro_batches_as_1f1b)
{
    const double seconds[3] = {1, 1, 1};
    for (int32_t p = 1; p <= 4; p++) {
        struct plan plan;
        hand_uniform(&plan, p, 8, 48);
        apply(&plan, SCENARIO_ZERO_BUBBLE, 0);
        for (int32_t s = 0; s < p; s++) {
            int32_t layers = 840 / p;
            double weight = 48 * layers * (cost_weight_bytes(hand_setting()) / 840);
            weight += s == p - 1 ? cost_head_weight_bytes(hand_setting(), 48) : 0;
            double micro_batch = held(p, s, 48), before = (p - s) * micro_batch + s * weight;
            CHECK_CLOSE(most_held(&plan, s, seconds), fmax(before, before + weight - micro_batch), 1e-12);
        }
        plan_free(&plan);
    }
}

/* Samples of 4, 6 and 2 tokens and 4 of padding are cut in four slices of equal tokens. The boundaries fall into
 * samples. */
TEST(slicing_equal_length__follows_the_packed_sequence)
{
    struct plan plan;
    const int32_t tokens[] = {4, 6, 2};
    hand_plan(&plan, 1, 2, 1);
    struct plan_pipeline *pipeline = plan.phases[0].pipelines;
    for (int pass = 0; pass < N_PASSES; pass++) {
        for (int32_t sample = 0; sample < 3; sample++)
            plan_add_slice(&pipeline->partition[pass], (struct slice){sample, 0, tokens[sample]});
        plan_add_micro_batch(&pipeline->partition[pass])->padding_tokens = 4;
    }
    slicing_equal_length(pipeline, 4);
    CHECK_TEXT(hand_cut_text(&pipeline->partition[PASS_FORWARD]), "[0:0-4] [1:0-4] [1:4-6 2:0-2] []");
    CHECK_TEXT(hand_cut_text(&pipeline->partition[PASS_BACKWARD]), "[] [2:0-2 1:4-6] [1:0-4] [0:0-4]");
    CHECK_EQUAL(pipeline->partition[PASS_FORWARD].micro_batches[3].padding_tokens, 4);
    CHECK_EQUAL(pipeline->partition[PASS_BACKWARD].micro_batches[0].padding_of, 3);
    plan_fill_need(pipeline);
    CHECK_EQUAL(pipeline->need[0], 4);
    order_one_f_one_b(pipeline, ORDER_PERSISTENT);
    struct error err = {0};
    CHECK_TRUE(plan_check(&plan, 3, tokens, &err));
    CHECK_TEXT(err.text, "");
    pipeline->partition[PASS_BACKWARD].micro_batches[0].padding_of = 2;
    CHECK_TRUE(!plan_check(&plan, 3, tokens, &err));
    CHECK_CONTAINS(err.text,
                   "backward micro-batch 0 has 4 tokens of padding, which forward micro-batch 2 does not have");
    plan_free(&plan);
}

/* A sample has F(x) = q x^2 + l x, and a token of padding l. No slice is off its share by more than the FLOPs of the
 * tokens at its two ends. */
TEST(seq1f1b_slices__have_equal_flop)
{
    struct flop_curve curve = flop_layer_curve(hand_setting()->model, 0, PASS_FORWARD);
    uint64_t seed = 3;
    for (int32_t round = 0; round < 50; round++) {
        struct plan plan;
        int32_t n = 1 + hand_below(&seed, 8), k = 1 + hand_below(&seed, 4), longest = 0;
        double sum = 0;
        hand_plan(&plan, 1, 2, 1);
        struct plan_pipeline *pipeline = plan.phases[0].pipelines;
        for (int32_t sample = 0; sample < k; sample++) {
            int32_t tokens = 500 + hand_below(&seed, 5000);
            longest = tokens > longest ? tokens : longest;
            sum += (double)flop_of_prefix(curve, tokens);
            plan_add_slice(&pipeline->partition[PASS_FORWARD], (struct slice){sample, 0, tokens});
        }
        int32_t padding = hand_below(&seed, 300);
        plan_add_micro_batch(&pipeline->partition[PASS_FORWARD])->padding_tokens = padding;
        sum += (double)curve.l * padding;
        slicing_equal_flop(pipeline, hand_setting()->model, n);
        const struct plan_partition *partition = &pipeline->partition[PASS_FORWARD];
        CHECK_EQUAL(partition->n_micro_batches, n);
        double token = (double)flop_of_slice(curve, longest - 1, longest);
        for (int32_t micro_batch = 0; micro_batch < n; micro_batch++) {
            double flop = (double)curve.l * partition->micro_batches[micro_batch].padding_tokens;
            for (int32_t i = 0; i < partition->micro_batches[micro_batch].n_slices; i++) {
                struct slice slice = partition->slices[partition->micro_batches[micro_batch].first_slice + i];
                flop += (double)flop_of_slice(curve, slice.begin, slice.end);
            }
            CHECK_TRUE(fabs(flop - sum / n) <= token + 1);
        }
        plan_free(&plan);
    }
}

/* Find the seconds of tokens [begin, end) of a sample, both passes, on a stage. */
static double slice_s(int32_t begin, int32_t end)
{
    struct slice slice = {0, begin, end};
    struct cost_micro_batch micro_batch = {.slices = &slice, .n_slices = 1, .context = 1};
    double seconds = 0;
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
        struct cost_pass cost = cost_of_pass(hand_setting(), pass, &micro_batch);
        seconds += cost_pass_s(&cost);
    }
    return seconds;
}

/* Find sum and largest of a micro-batch's slices, which end at the bits of `mask` among the inner parts of a grid. */
static void add_slices_s(int32_t tokens, int32_t grid, uint32_t mask, double *sum_s, double *most_s)
{
    int32_t begin = 0;
    for (int32_t part = 1; part <= grid; part++) {
        if (part < grid && !(mask >> (part - 1) & 1))
            continue;
        int32_t end = (int32_t)((int64_t)tokens * part / grid);
        double seconds = slice_s(begin, end);
        *sum_s += seconds;
        *most_s = fmax(*most_s, seconds);
        begin = end;
    }
}

/* Two micro-batches on a grid of 5 can be cut in 16 x 16 ways, and all are tried. The ceiling's step leaves (p - 1) x
 * 0.1 ms. */
TEST(terapipe_slices__are_the_best_there_are)
{
    const int32_t tokens[] = {200000, 90001}, grid = 5;
    for (int32_t p = 1; p <= 8; p++) {
        struct plan plan;
        double best_s = INFINITY, sum_s = 0, most_s = 0;
        for (uint32_t mask = 0; mask < 256; mask++) {
            double all_s = 0, largest_s = 0;
            add_slices_s(tokens[0], grid, mask & 15, &all_s, &largest_s);
            add_slices_s(tokens[1], grid, mask >> 4, &all_s, &largest_s);
            best_s = fmin(best_s, all_s + (p - 1) * largest_s);
        }
        hand_plan(&plan, 1, p, 1);
        struct plan_pipeline *pipeline = plan.phases[0].pipelines;
        for (int32_t i = 0; i < 2; i++)
            for (int pass = 0; pass < N_PASSES; pass++)
                hand_micro_batch(&pipeline->partition[pass], (struct slice){i, 0, tokens[i]});
        slicing_by_time(pipeline, hand_setting(), grid);
        const struct plan_partition *partition = &pipeline->partition[PASS_FORWARD];
        for (int32_t micro_batch = 0; micro_batch < partition->n_micro_batches; micro_batch++) {
            double seconds = slice_s(partition->slices[micro_batch].begin, partition->slices[micro_batch].end);
            sum_s += seconds;
            most_s = fmax(most_s, seconds);
        }
        CHECK_TRUE(sum_s + (p - 1) * most_s <= best_s * (1 + 1e-12) + (p - 1) * 1e-4);
        CHECK_TRUE(p == 1 || partition->n_micro_batches > 2);
        plan_free(&plan);
    }
}

/* With n slices of equal seconds it takes GPipe's (m n + p - 1)(f + b). There is one part a slice if all parts are
 * equal and p is large. Here all get the same seconds after the cut. */
TEST(terapipe__runs_all_forwards_first)
{
    struct plan plan;
    struct timeline timeline = {0};
    hand_uniform(&plan, 4, 3, 60000);
    apply(&plan, SCENARIO_TERAPIPE, 6);
    int32_t n = plan.phases[0].pipelines[0].partition[PASS_FORWARD].n_micro_batches;
    CHECK_TRUE(n > 3);
    struct dag dag = built(&plan);
    hand_times(&dag, 1, 2);
    critical_path(&dag, &timeline);
    CHECK_CLOSE(timeline.makespan_s, (n + 3) * 3.0, 1e-12);
    timeline_free(&timeline);
    dag_free(&dag);
    plan_free(&plan);
}

/* Every schedule of random micro-batches with padding is a sound plan that runs, with the same bits again. */
TEST(schedule__makes_sound_plans)
{
    uint64_t seed = 11;
    for (int32_t round = 0; round < 120; round++) {
        struct plan plan, copy;
        struct error err = {0};
        int32_t p = 1 + hand_below(&seed, 4), m = 1 + hand_below(&seed, 6), n = 0, tokens[24];
        hand_plan(&plan, 1, p, 1);
        struct plan_pipeline *pipeline = plan.phases[0].pipelines;
        for (int32_t micro_batch = 0; micro_batch < m; micro_batch++) {
            int32_t first = n, padding = hand_below(&seed, 3) == 0 ? hand_below(&seed, 200) : 0;
            for (int32_t i = hand_below(&seed, 4); i >= (padding > 0 ? 1 : 0); i--)
                tokens[n++] = 1 + hand_below(&seed, 300);
            for (int pass = 0; pass < N_PASSES; pass++) {
                for (int32_t i = first; i < n; i++)
                    plan_add_slice(&pipeline->partition[pass], (struct slice){i, 0, tokens[i]});
                plan_add_micro_batch(&pipeline->partition[pass])->padding_tokens = padding;
            }
        }
        enum scenario_schedule schedule = (enum scenario_schedule)(round % (SCENARIO_TERAPIPE + 1));
        plan_copy(&plan, &copy);
        apply(&plan, schedule, 0);
        apply(&copy, schedule, 0);
        CHECK_TRUE(hand_same_plan(&plan, &copy));
        if (!CHECK_TRUE(plan_check(&plan, n, tokens, &err)))
            printf("round %d: %s\n", round, err.text);
        struct dag dag = built(&plan);
        struct graph *graph = graph_create(&dag, &err);
        CHECK_TRUE(graph != NULL);
        graph_free(graph);
        dag_free(&dag);
        plan_free(&plan);
        plan_free(&copy);
    }
}

/* SimGrid on a network without contention takes as long as the longest path, weights' gradients and padding
 * included. */
TEST(schedule__takes_as_long_in_both_engines)
{
    struct platform platform = hand_platform("hopper-2x8-free");
    for (int32_t schedule = 0; schedule < SCENARIO_N_SCHEDULES; schedule++) {
        struct plan plan;
        struct cost_setting setting = *hand_setting();
        setting.platform = &platform;
        hand_uniform(&plan, 4, 6, 3000);
        apply(&plan, (enum scenario_schedule)schedule, 3);
        struct dag dag = hand_built(&plan, &setting, (struct dag_options){.gradient_sync = true});
        hand_engines_agree(&dag, &platform);
        dag_free(&dag);
        plan_free(&plan);
    }
}

/* Make m micro-batches of any length on p stages of v chunks, every third with padding. */
static void interleaved_plan(struct plan *plan, int32_t p, int32_t v, int32_t m, uint64_t *seed, int32_t *tokens)
{
    hand_plan(plan, 1, p, 1);
    struct plan_pipeline *pipeline = plan->phases[0].pipelines;
    pipeline->layout.chunks = v;
    for (int32_t micro_batch = 0; micro_batch < m; micro_batch++) {
        tokens[micro_batch] = 1 + hand_below(seed, hand_below(seed, 2) == 0 ? 20 : 9000);
        for (int pass = 0; pass < N_PASSES; pass++) {
            plan_add_slice(&pipeline->partition[pass], (struct slice){micro_batch, 0, tokens[micro_batch]});
            plan_add_micro_batch(&pipeline->partition[pass])->padding_tokens = micro_batch % 3 == 0 ? 100 : 0;
        }
    }
    apply(plan, SCENARIO_INTERLEAVED, 0);
}

/* Find the time of the busiest stage, or of a micro-batch on its way up and down again, whichever is longer [s]. */
static double least_s(const struct plan_pipeline *pipeline, const struct cost_setting *setting)
{
    const struct plan_layout *layout = &pipeline->layout;
    double stage_s[4] = {0}, least = 0;
    for (int32_t micro_batch = 0; micro_batch < pipeline->partition[PASS_FORWARD].n_micro_batches; micro_batch++) {
        double micro_batch_s = 0;
        for (int32_t i = 0; i < N_PASSES * layout->stages * layout->chunks; i++) {
            int32_t at = i / N_PASSES;
            struct cost_pass cost = dag_pass_cost(pipeline, setting, (enum pass)(i % N_PASSES), micro_batch, at);
            stage_s[at % layout->stages] += cost_pass_s(&cost);
            micro_batch_s += cost_pass_s(&cost);
        }
        least = fmax(least, micro_batch_s);
    }
    for (int32_t stage = 0; stage < layout->stages; stage++)
        least = fmax(least, stage_s[stage]);
    return least;
}

/* The plan is sound, and takes no less than that. */
TEST(interleaved_micro_batches__take_as_long_in_both_engines)
{
    struct platform platform = hand_platform("hopper-2x8-free");
    uint64_t seed = 23;
    for (int32_t round = 0; round < 24; round++) {
        struct plan plan;
        struct error err = {0};
        struct cost_setting setting = *hand_setting_of_heads((uint64_t)round);
        int32_t p = 2 + round % 3, v = round / 3 % 2 == 0 ? 2 : 5, m = p * (1 + hand_below(&seed, 3)), tokens[12];
        setting.platform = &platform;
        setting.pp_overlap = round % 2 == 0;
        interleaved_plan(&plan, p, v, m, &seed, tokens);
        if (!CHECK_TRUE(plan_check(&plan, m, tokens, &err)))
            printf("round %d: %s\n", round, err.text);
        struct dag dag = hand_built(&plan, &setting, (struct dag_options){.gradient_sync = true});
        CHECK_TRUE(hand_makespan_s(&dag) >= least_s(&plan.phases[0].pipelines[0], &setting) * (1 - 1e-12));
        hand_engines_agree(&dag, &platform);
        dag_free(&dag);
        plan_free(&plan);
    }
}

/* A sender with virtual stages overlaps as if pp_overlap were true. A sender that waits ends later. */
TEST(pp_overlap_interleaved__overlaps_with_virtual_stages)
{
    struct platform platform = hand_platform("hopper-2x8-free");
    double time_s[3];
    for (int32_t overlap = SCENARIO_STAGES_WAIT; overlap <= SCENARIO_STAGES_INTERLEAVED; overlap++) {
        struct plan plan;
        struct cost_setting setting = *hand_setting();
        uint64_t seed = 23;
        int32_t tokens[12];
        setting.platform = &platform;
        setting.pp_overlap = overlap;
        interleaved_plan(&plan, 2, 2, 4, &seed, tokens);
        struct dag dag = hand_built(&plan, &setting, (struct dag_options){.gradient_sync = true});
        time_s[overlap] = hand_makespan_s(&dag);
        dag_free(&dag);
        plan_free(&plan);
    }
    CHECK_TRUE(time_s[SCENARIO_STAGES_INTERLEAVED] == time_s[SCENARIO_STAGES_OVERLAP]);
    CHECK_TRUE(time_s[SCENARIO_STAGES_WAIT] > time_s[SCENARIO_STAGES_OVERLAP]);
}

/* Stage 0 runs F0 F1 B0 W0 B1 W1. */
TEST(plan_check__tells_breaches_of_a_split_backward)
{
    struct plan plan;
    struct error err = {0};
    const int32_t tokens[] = {16, 16};
    hand_uniform(&plan, 2, 2, 16);
    apply(&plan, SCENARIO_ZERO_BUBBLE, 0);
    struct plan_pipeline *pipeline = plan.phases[0].pipelines;
    CHECK_TRUE(plan_check(&plan, 2, tokens, &err));
    struct plan_step step = pipeline->steps[2];
    pipeline->steps[2] = pipeline->steps[3];
    pipeline->steps[3] = step;
    CHECK_TRUE(!plan_check(&plan, 2, tokens, &err));
    CHECK_CONTAINS(err.text, "weight micro-batch 0 runs before its backward");
    pipeline->steps[3] = pipeline->steps[2];
    pipeline->steps[2] = step;
    pipeline->splits_backward = false;
    err = (struct error){0};
    CHECK_TRUE(!plan_check(&plan, 2, tokens, &err));
    CHECK_CONTAINS(err.text, "weight micro-batch 0 runs, but the pipeline does not split its backwards");
    pipeline->splits_backward = true;
    pipeline->steps[5].micro_batch = 0;
    err = (struct error){0};
    CHECK_TRUE(!plan_check(&plan, 2, tokens, &err));
    CHECK_CONTAINS(err.text, "weight micro-batch 0 runs twice or does not exist");
    pipeline->step_first[1] = 5;
    err = (struct error){0};
    CHECK_TRUE(!plan_check(&plan, 2, tokens, &err));
    CHECK_CONTAINS(err.text, "stage 0: 1 of 2 weight micro-batches run");
    plan_free(&plan);
}
