/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check the plans of ByteScale. */
#include "bounds/memory.h"
#include "dag/dag.h"
#include "hand_dag.h"
#include "hand_plan.h"
#include "hand_request.h"
#include "harness.h"
#include "packing/packing.h"

#include <math.h>
#include <stdlib.h>

extern const struct training_system system_bytescale;

static void plan_of(struct hand_request *hand, const char *knobs, struct plan *plan)
{
    hand_planned(hand, &system_bytescale, knobs, plan);
}

/* F = 2x^2 + 10x forward and 5x^2 + 21x backward make 7x^2 + 31x. A rank takes four tokens. 10 takes three ranks,
 * 1010/3 each. The packs are 4 (236), 4 (236), 3 and 1 (194). Rank 3 gets both fours, as 236 < 337 - 5% of the mean.
 * Then it is the fullest, and the last pack goes to the lowest of the others. */
TEST(bytescale__takes_as_few_ranks_as_hold_a_sequence)
{
    struct hand_request hand;
    struct plan plan;
    for (int32_t pp = 1; pp <= 2; pp++) {
        hand_request(&hand, 4, pp, 10);
        hand_batch(&hand, 5, (int32_t[]){10, 4, 3, 1, 4});
        plan_of(&hand, "{capacity: 4, offload: never, buckets: 2}", &plan);
        const struct plan_phase *phase = plan.phases;
        CHECK_TEXT(hand_cut_text(&phase->pipelines[0].partition[PASS_FORWARD]), "[0:0-10] [2:0-3 3:0-1]");
        CHECK_TEXT(hand_cut_text(&phase->pipelines[2].partition[PASS_BACKWARD]), "[0:0-10]");
        CHECK_TEXT(hand_cut_text(&phase->pipelines[3].partition[PASS_FORWARD]), "[1:0-4] [4:0-4]");
        CHECK_EQUAL(phase->pipelines[1].partition[PASS_FORWARD].micro_batches[0].context, 3);
        CHECK_EQUAL(phase->n_groups, 1);
        plan_free(&plan);
        hand_request_free(&hand);
    }
}

/* The items are 8 (696), 8, and six 4 in packs of two (472). Half of 2808 is passed within the third item, so the
 * levels are 8 8 44 and 44 44. If all ranks are targets, PP-Balance gives each level a rank. DP-Balance gives the next
 * item to the least loaded. */
TEST(bytescale__keeps_pipelines_to_a_level)
{
    struct hand_request hand;
    struct plan plan;
    for (int32_t pp = 1; pp <= 2; pp++) {
        hand_request(&hand, 2, pp, 8);
        hand_batch(&hand, 8, (int32_t[]){8, 8, 4, 4, 4, 4, 4, 4});
        plan_of(&hand, "{capacity: 8, buckets: 2, delta: 100}", &plan);
        CHECK_TEXT(hand_cut_text(&plan.phases[0].pipelines[0].partition[PASS_FORWARD]),
                   pp == 1 ? "[0:0-8] [2:0-4 3:0-4] [6:0-4 7:0-4]" : "[0:0-8] [1:0-8] [2:0-4 3:0-4]");
        CHECK_TEXT(hand_cut_text(&plan.phases[0].pipelines[1].partition[PASS_FORWARD]),
                   pp == 1 ? "[1:0-8] [4:0-4 5:0-4]" : "[4:0-4 5:0-4] [6:0-4 7:0-4]");
        plan_free(&plan);
        hand_request_free(&hand);
    }
}

/* There are three pipelines and two levels, with 7 x^2 + 31 x FLOPs. 8660 and, together, 6519 and 6364 of the first
 * level are on ranks 0 and 2. Two items y of the second level are on rank 1, which keeps that level. The last item,
 * 6000, is of the second level. It goes to rank 1 as long as rank 1 has 5% of the mean less than the fullest, rank 2.
 * The gap is 5.02% with y = 6286 and 4.96% with 6288; with the latter it goes to rank 0. */
TEST(bytescale__skips_ranks_that_are_nearly_full)
{
    static const int32_t y[] = {6286, 6288};
    static const char *const rank_1[] = {"[3:0-6286] [4:0-6286] [5:0-6000]", "[3:0-6288] [4:0-6288]"};
    for (int i = 0; i < 2; i++) {
        struct hand_request hand;
        struct plan plan;
        hand_request(&hand, 3, 2, 10000);
        hand_batch(&hand, 6, (int32_t[]){8660, 6519, 6364, y[i], y[i], 6000});
        plan_of(&hand, "{capacity: 10000, buckets: 2}", &plan);
        CHECK_TEXT(hand_cut_text(&plan.phases[0].pipelines[1].partition[PASS_FORWARD]), rank_1[i]);
        plan_free(&plan);
        hand_request_free(&hand);
    }
}

/* Solve equation 3 with l layers by trying ratios: take D(r) of those that a layer's forward hides. */
static double ranks_by_trial(const struct hand_request *hand, int32_t tokens, double capacity, double *most)
{
    struct cost_setting layer = hand->setting;
    struct slice slice = {0, 0, tokens};
    struct cost_micro_batch micro_batch = {.slices = &slice, .n_slices = 1, .context = 1};
    double layers = cost_n_layers(&hand->setting), best = ceil(tokens / capacity);
    hand_layers(&layer, 1);
    struct cost_pass cost = cost_of_pass(&layer, PASS_FORWARD, &micro_batch);
    double bytes = tokens * hand_layer_bytes(&layer, RECOMPUTE_NONE, false);
    *most = 0;
    for (int32_t i = 0; i <= 4000; i++) {
        double ratio = i / 4000.0;
        double copy_s = layer.device->pcie.latency_s + bytes / layer.platform->pcie_bytes_per_s * ratio;
        if (cost.kernels_s + cost.attention_s < copy_s)
            break;
        *most = ratio;
        if (ratio < fmin(1, layers * capacity / ((layers - 2) * tokens)))
            continue;
        best =
            fmin(best, ceil((2 * bytes + (1 - ratio) * (layers - 2) * bytes) / (layers * bytes / tokens * capacity)));
    }
    return best;
}

/* Memory is unlimited, so equation 3 alone decides. Links of 0.1 to 2 GB/s hide from little to all. */
TEST(bytescale_offload__saves_the_ranks_of_equation_3)
{
    uint64_t seed = 7;
    int32_t fewer = 0;
    for (int32_t round = 0; round < 60; round++) {
        struct hand_request hand;
        struct plan plan;
        char knobs[64];
        double capacity = 200 + hand_below(&seed, 800), most;
        int32_t tokens = 2000 + hand_below(&seed, 6000);
        hand_request_real(&hand, 64, 1 << hand_below(&seed, 3), tokens);
        struct platform platform = *hand.setting.platform;
        platform.pcie_bytes_per_s = 1e8 * (1 + hand_below(&seed, 20));
        hand.setting.platform = &platform;
        hand_batch(&hand, 1, &tokens);
        snprintf(knobs, sizeof knobs, "{capacity: %.0f, always_offload: true}", capacity);
        plan_of(&hand, knobs, &plan);
        const struct plan_micro_batch *micro_batch = NULL;
        for (int32_t rank = 0; micro_batch == NULL && rank < 64; rank++)
            if (plan.phases[0].pipelines[rank].partition[PASS_FORWARD].n_micro_batches > 0)
                micro_batch = plan.phases[0].pipelines[rank].partition[PASS_FORWARD].micro_batches;
        double ranks = ranks_by_trial(&hand, tokens, capacity, &most), layers = cost_n_layers(&hand.setting);
        CHECK_EQUAL(micro_batch->context, (int32_t)ranks);
        CHECK_TRUE(micro_batch->offload <= (most + 1.0 / 4000) * (layers - 2) / layers);
        CHECK_TRUE(tokens * (1 - micro_batch->offload) <= ranks * capacity * (1 + 1e-9));
        CHECK_EQUAL(micro_batch->streams, micro_batch->offload > 0);
        fewer += ranks < ceil(tokens / capacity);
        plan_free(&plan);
        hand_request_free(&hand);
    }
    CHECK_TRUE(fewer > 10 && fewer < 55);
}

/* A plan made for a memory fits it, with and without offload, though sequences are up to 20 times its room. If memory
 * has room for so many tokens, the plan uses it. */
TEST(bytescale__plans_what_fits_the_memory)
{
    int32_t n_groups = 0;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct hand_request hand;
        struct plan plan;
        struct timeline timeline = {0};
        struct memory memory = {0};
        hand_request_real(&hand, 32, seed % 2 == 0 ? 1 : 4, 16000);
        hand.request.memory_bytes = 1e9;
        hand_batch_of(&hand, HAND_LONG_TAIL, 60, seed);
        char knobs[96];
        snprintf(knobs, sizeof knobs, "{%s, capacity: %d}", seed % 3 == 0 ? "offload: never" : "always_offload: true",
                 (int)packing_memory_tokens(&hand.request));
        plan_of(&hand, knobs, &plan);
        n_groups += plan.phases[0].n_groups;
        struct dag dag = hand_built(&plan, &hand.setting, (struct dag_options){0});
        critical_path(&dag, &timeline);
        memory_of(&plan, &dag, &timeline, &hand.setting, false, &memory);
        CHECK_TRUE(memory.peak_bytes[memory.worst_rank] <= 1e9);
        CHECK_TRUE(memory.peak_bytes[memory.worst_rank] >= 0.3e9);
        memory_free(&memory);
        timeline_free(&timeline);
        dag_free(&dag);
        plan_free(&plan);
        hand_request_free(&hand);
    }
    CHECK_TRUE(n_groups > 5);
}

/* Offload would keep one sequence on one rank of 64. Without offload more ranks share it, and the fullest has less.
 * With one rank it makes no difference, and the plan offloads. */
TEST(bytescale_offload__stays_off_if_ranks_would_idle)
{
    for (int32_t dp = 1; dp <= 64; dp += 63) {
        struct hand_request hand;
        struct plan plan;
        hand_request_real(&hand, dp, 1, 4000);
        hand_batch(&hand, 1, (int32_t[]){4000});
        plan_of(&hand, "{capacity: 1000, always_offload: true}", &plan);
        CHECK_EQUAL(plan.phases[0].pipelines[0].partition[PASS_FORWARD].micro_batches[0].context, 1);
        plan_free(&plan);
        plan_of(&hand, "capacity: 1000", &plan);
        const struct plan_micro_batch *micro_batch = plan.phases[0].pipelines[0].partition[PASS_FORWARD].micro_batches;
        CHECK_EQUAL(micro_batch->context, dp > 1 ? 4 : 1);
        CHECK_EQUAL(micro_batch->offload > 0, dp == 1);
        plan_free(&plan);
        hand_request_free(&hand);
    }
}

/* With `auto` passes end no later than with either value. The better value differs from batch to batch. */
TEST(bytescale_offload__is_taken_if_passes_end_first)
{
    static const char *const knobs[] = {"{always_offload: true, capacity: 1000}", "{offload: never, capacity: 1000}",
                                        "{capacity: 1000}"};
    int32_t n_always = 0, n_never = 0;
    for (uint64_t seed = 1; seed <= 24; seed++) {
        double end_s[3];
        struct hand_request hand;
        hand_request_real(&hand, 8, 1, 8000);
        hand_batch_of(&hand, HAND_UNIFORM, 4 << seed % 6, seed);
        for (int i = 0; i < 3; i++) {
            struct plan plan;
            struct timeline timeline = {0};
            plan_of(&hand, knobs[i], &plan);
            struct dag dag = hand_built(&plan, &hand.setting, (struct dag_options){0});
            critical_path(&dag, &timeline);
            end_s[i] = timeline.makespan_s;
            timeline_free(&timeline);
            dag_free(&dag);
            plan_free(&plan);
        }
        n_always += end_s[0] < end_s[1];
        n_never += end_s[1] < end_s[0];
        CHECK_CLOSE(end_s[2], fmin(end_s[0], end_s[1]), 1e-12);
        hand_request_free(&hand);
    }
    CHECK_TRUE(n_always > 0 && n_never > 0);
}

/* The figures of a plan on one node. */
struct outcome {
    double end_s, gpu_bytes, host_bytes;
};

static struct outcome outcome_of(struct hand_request *hand, const char *knobs)
{
    struct plan plan;
    struct timeline timeline = {0};
    struct memory memory = {0};
    plan_of(hand, knobs, &plan);
    struct dag dag = hand_built(&plan, &hand->setting, (struct dag_options){0});
    critical_path(&dag, &timeline);
    memory_of(&plan, &dag, &timeline, &hand->setting, false, &memory);
    double host_bytes = memory_host_of(&plan, &dag, &memory, hand->setting.platform, 0).bytes;
    struct outcome outcome = {timeline.makespan_s, memory.peak_bytes[memory.worst_rank], host_bytes};
    memory_free(&memory);
    timeline_free(&timeline);
    dag_free(&dag);
    plan_free(&plan);
    return outcome;
}

/* If `never` fits the GPUs, `auto` fits them and the host, however little that holds. It ends no later. */
TEST(bytescale_offload__is_never_worse_by_auto_than_without)
{
    static const char *const knobs[][2] = {{"{offload: never, capacity: 1000}", "capacity: 1000"},
                                           {"offload: never", ""}};
    int32_t n_offload = 0, n_bound = 0;
    for (uint64_t seed = 1; seed <= 48; seed++) {
        const char *const *knob = knobs[seed % 2];
        struct hand_request hand;
        hand_request_real(&hand, 8, 1, 8000);
        hand.request.memory_bytes = 2e9;
        hand_batch_of(&hand, HAND_UNIFORM, 4 << seed % 6, seed / 2);
        struct platform platform = *hand.setting.platform;
        hand.setting.platform = &platform;
        struct outcome never = outcome_of(&hand, knob[0]), with = outcome_of(&hand, knob[1]);
        bool fits = never.gpu_bytes <= 2e9;
        CHECK_TRUE(!fits || (with.gpu_bytes <= 2e9 && with.end_s <= never.end_s));
        n_offload += with.host_bytes > 0;
        platform.host_memory_bytes = fmax(1, with.host_bytes / 2);
        with = outcome_of(&hand, knob[1]);
        CHECK_TRUE(!fits || (with.gpu_bytes <= 2e9 && with.end_s <= never.end_s &&
                             with.host_bytes <= platform.host_memory_bytes));
        n_bound += fits && with.host_bytes == 0 && platform.host_memory_bytes > 1;
        hand_request_free(&hand);
    }
    CHECK_TRUE(n_offload > 5 && n_bound > 5);
}

/* Count 7x^2 + 31x of each sample of a micro-batch, over its ranks. */
static double micro_batch_flop(const struct plan_partition *partition, const struct plan_micro_batch *micro_batch)
{
    double flop = 0;
    for (int32_t i = micro_batch->first_slice; i < micro_batch->first_slice + micro_batch->n_slices; i++)
        flop += 7.0 * partition->slices[i].end * partition->slices[i].end + 31.0 * partition->slices[i].end;
    return flop / micro_batch->context;
}

/* Ranks that run their micro-batches one after the other, with FLOPs as time. */
struct walk {
    const struct plan_phase *phase;
    double ready[16];
    int32_t next[16];
};

static const struct plan_micro_batch *micro_batch_at(const struct walk *walk, int32_t rank, int32_t micro_batch)
{
    const struct plan_partition *partition = &walk->phase->pipelines[rank].partition[PASS_FORWARD];
    return micro_batch < partition->n_micro_batches ? &partition->micro_batches[micro_batch] : NULL;
}

/* Say whether the n ranks have come to the same shared micro-batch, and when the last of them did. */
static bool meet(const struct walk *walk, const int32_t *ranks, int32_t n, double *start)
{
    const struct plan_micro_batch *first = micro_batch_at(walk, ranks[0], walk->next[ranks[0]]);
    *start = 0;
    for (int32_t i = 0; i < n; i++) {
        const struct plan_micro_batch *micro_batch = micro_batch_at(walk, ranks[i], walk->next[ranks[i]]);
        *start = fmax(*start, walk->ready[ranks[i]]);
        if (micro_batch == NULL || micro_batch->group != first->group || micro_batch->context != n ||
            walk->phase->pipelines[ranks[i]].partition[PASS_FORWARD].slices[micro_batch->first_slice].sample !=
                walk->phase->pipelines[ranks[0]].partition[PASS_FORWARD].slices[first->first_slice].sample)
            return false;
    }
    return true;
}

/* A rank waits less before a shared micro-batch than its next unshared micro-batch takes, which it runs later. @return
 * checked */
static bool check_wait(const struct walk *walk, int32_t rank, double start)
{
    int32_t own = walk->next[rank] + 1;
    while (micro_batch_at(walk, rank, own) != NULL && micro_batch_at(walk, rank, own)->group >= 0)
        own++;
    if (walk->ready[rank] >= start || micro_batch_at(walk, rank, own) == NULL)
        return false;
    CHECK_TRUE(start - walk->ready[rank] < micro_batch_flop(&walk->phase->pipelines[rank].partition[PASS_FORWARD],
                                                            micro_batch_at(walk, rank, own)));
    return true;
}

static int32_t check_waits(const struct plan_phase *phase)
{
    struct walk walk = {.phase = phase};
    int32_t n_waits = 0, n_left = 0;
    for (int32_t rank = 0; rank < phase->n_pipelines; rank++)
        n_left += phase->pipelines[rank].partition[PASS_FORWARD].n_micro_batches;
    for (int32_t rank = 0, idle = 0; n_left > 0 && CHECK_TRUE(idle <= phase->n_pipelines);
         rank = (rank + 1) % phase->n_pipelines, idle++) {
        const struct plan_micro_batch *micro_batch = micro_batch_at(&walk, rank, walk.next[rank]);
        double start;
        if (micro_batch == NULL)
            continue;
        const int32_t *ranks = micro_batch->group < 0 ? &rank : phase->groups[micro_batch->group].pipelines;
        if (!meet(&walk, ranks, micro_batch->context, &start))
            continue;
        double flop = micro_batch_flop(&phase->pipelines[rank].partition[PASS_FORWARD], micro_batch);
        for (int32_t i = 0, n = micro_batch->context; i < n; i++) {
            n_waits += check_wait(&walk, ranks[i], start);
            walk.ready[ranks[i]] = start + flop;
            walk.next[ranks[i]]++;
            n_left--;
        }
        idle = 0;
    }
    return n_waits;
}

TEST(bytescale__fills_waits_with_unshared_micro_batches)
{
    int32_t n_waits = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct hand_request hand;
        struct plan plan;
        hand_request(&hand, 16, 1, 2000);
        hand_batch_of(&hand, HAND_UNIFORM, 60, seed);
        plan_of(&hand, "{capacity: 500, offload: never}", &plan);
        n_waits += check_waits(plan.phases);
        plan_free(&plan);
        hand_request_free(&hand);
    }
    CHECK_TRUE(n_waits > 20);
}

/* One sequence of 16000 tokens runs on 32 ranks with memory for all of it. On one rank alone it takes longest. None of
 * the halves of C down to 500 tokens ends before the one that is found. */
TEST(token_cap_search__finds_the_fastest_half_of_the_capacity)
{
    struct hand_request hand;
    struct plan plan;
    double least_s = INFINITY, first_s = 0;
    hand_request_real(&hand, 32, 1, 16000);
    hand.request.memory_bytes = 1e15;
    hand_batch(&hand, 4, (int32_t[]){16000, 900, 800, 700});
    for (int32_t i = 0; i <= 5; i++) {
        char knobs[64];
        snprintf(knobs, sizeof knobs, "capacity: %d", 16000 >> i);
        plan_of(&hand, knobs, &plan);
        double end_s = hand_plan_makespan_s(&plan, &hand.setting, (struct dag_options){0});
        first_s = i == 0 ? end_s : first_s;
        least_s = fmin(least_s, end_s);
        plan_free(&plan);
    }
    plan_of(&hand, "", &plan);
    CHECK_TRUE(plan.n_resolved >= 1 && plan.n_resolved < 6);
    CHECK_TRUE(hand_plan_makespan_s(&plan, &hand.setting, (struct dag_options){0}) == least_s && least_s < first_s);
    plan_free(&plan);
    hand_request_free(&hand);
}
