/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check the plans of WLB-LLM. */
#include "dag/dag.h"
#include "hand_plan.h"
#include "hand_request.h"
#include "harness.h"
#include "system/wlb_queues.h"

#include <stdlib.h>

#include "base/check.h"

extern const struct training_system system_wlb_llm;

/* Write the micro-batch of each document, - for those that wait: "0:2 1:0 -". The storage is static. */
static const char *packs_text(const int32_t *pack, int32_t n)
{
    static char text[512];
    size_t length = 0;
    text[0] = '\0';
    for (int32_t i = 0; i < n; i++)
        length +=
            (size_t)(pack[i] < 0 ? snprintf(text + length, sizeof text - length, "%s-", i > 0 ? " " : "")
                                 : snprintf(text + length, sizeof text - length, "%s%d", i > 0 ? " " : "", pack[i]));
    return text;
}

/* Weights are d^2. There are two micro-batches of at most 12 tokens, and one queue from 8 on. Iteration 1: 9 waits
 * alone. 5, 4, 4, 3 go 5 -> 0, 4 -> 1 (16 < 25), 4 -> 1 (32), 3 -> 0 (34). Iteration 2: 8 makes two in the queue, and
 * both go: 9 -> 0, 8 -> 1. 4 goes to the least load, 1 (64 < 81): 12 tokens, full. 3: the least load is 1 (80), but
 * full, and 0 is the shortest one, 12. 2 finds no room and remains. Iteration 3: 2 goes first. */
TEST(wlb_llm__runs_algorithm_1_as_by_hand)
{
    const struct wlb_rule rule = {1, {8}, 2, 12};
    struct wlb_document documents[8];
    int32_t pack[8], n;
    const int32_t first[] = {4, 9, 3, 5, 4}, second[] = {2, 4, 8, 3};
    for (int32_t i = 0; i < 5; i++)
        documents[i] = (struct wlb_document){first[i], 0, first[i] * first[i], 0};
    wlb_assign(&rule, documents, 5, 0, pack);
    CHECK_TEXT(packs_text(pack, 5), "1 - 0 0 1");
    CHECK_CLOSE(wlb_imbalance(documents, pack, 5, 2), 34 / 33.0, 1e-14);
    n = wlb_keep_waiting(documents, pack, 5);
    CHECK_EQUAL(n, 1);
    for (int32_t i = 0; i < 4; i++)
        documents[n + i] = (struct wlb_document){second[i], 0, second[i] * second[i], 0};
    wlb_assign(&rule, documents, 5, 1, pack);
    CHECK_TEXT(packs_text(pack, 5), "0 - 1 1 0");
    n = wlb_keep_waiting(documents, pack, 5);
    CHECK_EQUAL(n, 1);
    documents[1] = (struct wlb_document){7, 0, 49, 0};
    wlb_assign(&rule, documents, 2, 1, pack);
    CHECK_TEXT(packs_text(pack, 2), "0 1");
}

/* There is room for 10 tokens. 6 weighs 1, 5 weighs 5. Then 4 just fills the lighter one, which is not the shorter
 * one. */
TEST(wlb_llm__may_fill_a_micro_batch)
{
    const struct wlb_rule rule = {0, {0}, 2, 10};
    struct wlb_document documents[] = {{6, 0, 1, 0}, {5, 0, 5, 0}, {4, 0, 0.5, 0}};
    int32_t pack[3];
    wlb_assign(&rule, documents, 3, 0, pack);
    CHECK_TEXT(packs_text(pack, 3), "0 1 0");
}

/* One micro-batch has room for 10 tokens. Iteration 1 walks 7, 6, 5: 7 runs, 6 and 5 remain. Iteration 2 walks 6, 5 and
 * the new 4: 6 runs, 5 finds no room, and 4 fills the room. In order of arrival 5 would run with 4, and 6 remain.
 * Iteration 3 walks 5 first. */
TEST(wlb_llm__walks_remained_documents_in_the_order_of_the_last_walk)
{
    const struct wlb_rule rule = {0, {0}, 1, 10};
    struct wlb_document documents[] = {{5, 0, 1, 0}, {6, 0, 1, 0}, {7, 0, 1, 0}};
    int32_t pack[3];
    wlb_assign(&rule, documents, 3, 0, pack);
    CHECK_TEXT(packs_text(pack, 3), "- - 0");
    CHECK_EQUAL(wlb_keep_waiting(documents, pack, 3), 2);
    documents[2] = (struct wlb_document){4, 0, 1, 0};
    wlb_assign(&rule, documents, 3, 2, pack);
    CHECK_TEXT(packs_text(pack, 3), "- 0 0");
    CHECK_EQUAL(wlb_keep_waiting(documents, pack, 3), 1);
    documents[1] = (struct wlb_document){8, 0, 1, 0};
    wlb_assign(&rule, documents, 2, 1, pack);
    CHECK_TEXT(packs_text(pack, 2), "0 -");
}

/* S_max is 10. 12 has a micro-batch to itself, which nothing joins. Beside 6 there is no room for 5. */
TEST(wlb_llm__runs_a_document_beyond_the_room_alone)
{
    const struct wlb_rule rule = {0, {0}, 2, 10};
    struct wlb_document documents[] = {{12, 0, 1, 0}, {6, 0, 5, 0}, {5, 0, 4, 0}};
    int32_t pack[3];
    wlb_assign(&rule, documents, 3, 0, pack);
    CHECK_TEXT(packs_text(pack, 3), "0 1 -");
}

/* The room is 20 tokens, the context 100. 140 tokens are seven micro-batches, not two. One long document does not make
 * the others longer than the room. */
TEST(wlb_llm__keeps_to_the_room_beside_a_long_document)
{
    struct hand_request hand;
    struct plan plan = {0};
    struct error err = {0};
    void *state = calloc(1, system_wlb_llm.state_size);
    hand_request_real(&hand, 1, 1, 100);
    hand_knobs(&hand, &system_wlb_llm, "max_tokens: 20\nthresholds: [1000]");
    hand_batch(&hand, 6, (int32_t[]){90, 10, 10, 10, 10, 10});
    CHECK_TRUE(system_wlb_llm.plan(&hand.request, state, &plan, &err));
    const struct plan_partition *partition = &plan.phases[0].pipelines[0].partition[PASS_FORWARD];
    CHECK_TEXT(hand_cut_text(partition), "[0:0-90] [1:0-10] [2:0-10] [3:0-10] [4:0-10] [5:0-10]");
    plan_free(&plan);
    hand_batch(&hand, 6, (int32_t[]){90, 40, 40, 40, 40, 40});
    CHECK_TRUE(system_wlb_llm.plan(&hand.request, state, &plan, &err));
    CHECK_EQUAL(plan.phases[0].pipelines[0].partition[PASS_FORWARD].n_micro_batches, 6);
    CHECK_EQUAL(plan.delayed_tokens, 0);
    plan_free(&plan);
    system_wlb_llm.close(state);
    free(state);
    hand_request_free(&hand);
}

enum { MOST = 256, N_PACKS = 3 };

/* Lengths, which tell documents apart. */
struct list {
    int32_t n, at[MOST];
};

static void push(struct list *list, int32_t tokens)
{
    CHECK(list->n < MOST);
    list->at[list->n++] = tokens;
}

static int32_t pop_first(struct list *list)
{
    int32_t first = list->at[0];
    list->n--;
    for (int32_t i = 0; i < list->n; i++)
        list->at[i] = list->at[i + 1];
    return first;
}

static int32_t pop_longest(struct list *list)
{
    int32_t longest = 0;
    for (int32_t i = 1; i < list->n; i++)
        longest = list->at[i] > list->at[longest] ? i : longest;
    int32_t tokens = list->at[longest];
    list->at[longest] = list->at[--list->n];
    return tokens;
}

/* Run algorithm 1 as the paper lists it, on lists. `remained` and the queues are kept, packs are made anew. */
static void algorithm_1(const struct wlb_rule *rule, struct list *new, struct list *remained, struct list *queue,
                        struct list *packs)
{
    struct list runs = {0}, walk = *remained;
    double load[N_PACKS] = {0};
    int64_t length[N_PACKS] = {0};
    for (int32_t i = 0; i < new->n; i++) {
        int32_t of = -1;
        for (int32_t k = 0; k < rule->n_queues; k++)
            of = new->at[i] >= rule->threshold[k] ? k : of;
        push(of < 0 ? &runs : &queue[of], new->at[i]);
    }
    for (int32_t k = 0; k < rule->n_queues; k++)
        for (int32_t i = 0, n = queue[k].n; n >= N_PACKS && i < N_PACKS; i++)
            push(&runs, pop_first(&queue[k]));
    while (runs.n > 0)
        push(&walk, pop_longest(&runs));
    remained->n = 0;
    for (int32_t i = 0; i < walk.n; i++) {
        int32_t w = 0, s = 0, tokens = walk.at[i];
        for (int32_t k = 1; k < N_PACKS; k++) {
            w = load[k] < load[w] ? k : w;
            s = length[k] < length[s] ? k : s;
        }
        int32_t to = length[w] + tokens <= rule->capacity ? w : s;
        if (length[to] + tokens > rule->capacity) {
            push(remained, tokens);
            continue;
        }
        push(&packs[to], tokens);
        load[to] += (double)tokens * tokens;
        length[to] += tokens;
    }
}

static int32_t pack_of(const struct list *packs, int32_t tokens)
{
    for (int32_t k = 0; k < N_PACKS; k++)
        for (int32_t i = 0; i < packs[k].n; i++)
            if (packs[k].at[i] == tokens)
                return k;
    return -1;
}

/* Twenty iterations each have documents that all differ. There are none to two queues, with room for all and for a
 * part. */
TEST(wlb_llm__assigns_lists_as_algorithm_1_does)
{
    uint64_t seed = 11;
    int32_t n_waited = 0;
    for (int32_t round = 0; round < 30; round++) {
        const struct wlb_rule rule = {round % 3, {30000, 60000}, N_PACKS, round % 2 == 0 ? 260000 : 150000};
        struct wlb_document documents[MOST];
        struct list remained = {0}, queue[WLB_MAX_QUEUES] = {0};
        int32_t pack[MOST], n_waiting = 0;
        for (int32_t iteration = 0; iteration < 20; iteration++) {
            struct list new = {0}, packs[N_PACKS] = {0};
            for (int32_t i = 0, n = 3 + hand_below(&seed, 9); i < n; i++)
                push(&new, 1000 * (1 + hand_below(&seed, hand_below(&seed, 3) == 0 ? 90 : 20)) + iteration * 20 + i);
            for (int32_t i = 0; i < new.n; i++)
                documents[n_waiting + i] =
                    (struct wlb_document){.tokens = new.at[i], .weight_s = (double)new.at[i] * new.at[i]};
            wlb_assign(&rule, documents, n_waiting + new.n, n_waiting, pack);
            algorithm_1(&rule, &new, &remained, queue, packs);
            for (int32_t i = 0; i < n_waiting + new.n; i++)
                CHECK_EQUAL(pack[i], pack_of(packs, documents[i].tokens));
            n_waiting = wlb_keep_waiting(documents, pack, n_waiting + new.n);
            CHECK_EQUAL(n_waiting, remained.n + queue[0].n + queue[1].n);
            n_waited += n_waiting;
        }
    }
    CHECK_TRUE(n_waited > 200);
}

/* Queues begin at 4 and at 8. 5 and 9 wait in different ones, so two of each are needed for two micro-batches. When
 * nothing else runs, all that waits does. */
TEST(wlb_queues__have_one_for_each_length)
{
    const struct wlb_rule rule = {2, {4, 8}, 2, 20};
    struct wlb_document documents[] = {{5, 0, 1, 0}, {9, 0, 1, 0}, {3, 0, 1, 0}, {8, 0, 1, 0}};
    int32_t pack[4];
    wlb_assign(&rule, documents, 3, 0, pack);
    CHECK_TEXT(packs_text(pack, 3), "- - 0");
    CHECK_EQUAL(documents[0].queue, 0);
    CHECK_EQUAL(documents[1].queue, 1);
    documents[2] = documents[3];
    wlb_assign(&rule, documents, 3, 2, pack);
    CHECK_TEXT(packs_text(pack, 3), "- 0 1");
    wlb_assign(&rule, documents, 1, 1, pack);
    CHECK_TEXT(packs_text(pack, 1), "0");
}

/* Half of the documents have two lengths. With them in one micro-batch each is ruined. A queue mends it, and tuning
 * finds it as long as they may wait. */
TEST(wlb_tuning__finds_a_queue_that_may_wait)
{
    struct wlb_document sample[40];
    struct wlb_rule rule = {2, {0, 0}, 4, 1000};
    for (int32_t i = 0; i < 40; i++)
        sample[i] = i % 20 == 0 ? (struct wlb_document){100, 0, 100, 0} : (struct wlb_document){1, 0, 1, 0};
    wlb_tune(&rule, sample, 40, 128, 5, 1);
    CHECK_TRUE(rule.n_queues >= 1 && rule.threshold[0] > 1 && rule.threshold[0] <= 100);
    rule.n_queues = 2;
    wlb_tune(&rule, sample, 40, 128, 0, 1);
    CHECK_EQUAL(rule.n_queues, 0);
    wlb_tune(&rule, sample, 40, 128, 5, 1);
    CHECK_EQUAL(rule.n_queues, 0); /* none is allowed */
}

/* Over 40 iterations every document runs once, in order of its arrival inside a length. Documents that a plan delays
 * are those that later plans carry. delayed_tokens are those that wait. */
TEST(wlb_queues__lose_no_document)
{
    struct hand_request hand;
    struct error err = {0};
    void *state = calloc(1, system_wlb_llm.state_size);
    int64_t waiting[1024] = {0}, n_waiting = 0, delayed = 0; /* the documents of each length that wait */
    hand_request_real(&hand, 2, 2, 1000);
    hand_knobs(&hand, &system_wlb_llm, "thresholds: [300, 700]");
    for (int32_t iteration = 0; iteration < 40; iteration++) {
        struct plan plan;
        hand_batch_of(&hand, HAND_LONG_TAIL, 60, (uint64_t)iteration);
        hand.request.iteration = iteration;
        CHECK_TRUE(system_wlb_llm.plan(&hand.request, state, &plan, &err));
        CHECK_TRUE(plan_check(&plan, hand.batch.n_samples, hand.batch.tokens, &err));
        for (int32_t i = 0; i < plan.n_carried; i++) {
            CHECK_TRUE(--waiting[plan.carried_tokens[i]] >= 0);
            n_waiting -= plan.carried_tokens[i];
        }
        for (int32_t i = 0; i < plan.n_delayed; i++) {
            waiting[hand.batch.tokens[plan.delayed[i]]]++;
            n_waiting += hand.batch.tokens[plan.delayed[i]];
        }
        CHECK_EQUAL(plan.delayed_tokens, n_waiting);
        delayed += plan.n_delayed;
        plan_free(&plan);
    }
    CHECK_TRUE(delayed > 40);
    system_wlb_llm.close(state);
    free(state);
    hand_request_free(&hand);
}

/* A long document is in front of short ones. Chunks of the packed sequence are uneven, chunks of each document are not.
 * So attention (which has no tiles here) takes less by document. A single document is the same both ways. */
TEST(wlb_sharding__takes_the_shorter_attention)
{
    struct hand_request hand;
    struct plan plan;
    struct error err = {0};
    hand_request_real(&hand, 1, 1, 4096);
    hand.request.layout.cp = 2;
    hand.request.layout.cp_type = SCENARIO_ALL_GATHER;
    hand_options(&hand.setting, &hand.request.layout);
    hand_batch(&hand, 3, (int32_t[]){3000, 500, 500});
    for (int32_t adaptive = 0; adaptive < 2; adaptive++) {
        void *state = calloc(1, system_wlb_llm.state_size);
        hand_knobs(&hand, &system_wlb_llm, adaptive ? "queues: 0" : "{queues: 0, sharding: per-sequence}");
        CHECK_TRUE(system_wlb_llm.plan(&hand.request, state, &plan, &err));
        CHECK_EQUAL(plan.phases[0].pipelines[0].partition[PASS_FORWARD].n_micro_batches, 1);
        CHECK_EQUAL(plan.phases[0].pipelines[0].partition[PASS_BACKWARD].micro_batches[0].sharding,
                    adaptive ? SLICE_PER_DOCUMENT : SLICE_PER_SEQUENCE);
        plan_free(&plan);
        system_wlb_llm.close(state);
        free(state);
    }
    hand_request_free(&hand);
}

/* Per layer and pass both ways a document of x tokens costs 448 x^2 of attention (h 64: 2 h x^2, backward 2.5 times).
 * It costs 245,760 x of GEMMs. Recomputed whole they are 576 x^2 and 327,680 x. 3000 and 2460 tokens are less than 4000
 * with both, but not with attention counted once. So the last one joins them. */
TEST(wlb_llm__weighs_what_is_recomputed)
{
    struct hand_request hand;
    struct plan plan;
    struct error err = {0};
    hand_request_real(&hand, 1, 1, 4096);
    hand.request.layout.recompute = RECOMPUTE_FULL;
    hand_batch(&hand, 4, (int32_t[]){4000, 3000, 2460, 100});
    void *state = calloc(1, system_wlb_llm.state_size);
    hand_knobs(&hand, &system_wlb_llm, "{queues: 0, micro_batches: 2}");
    CHECK_TRUE(system_wlb_llm.plan(&hand.request, state, &plan, &err));
    CHECK_TEXT(hand_cut_text(&plan.phases[0].pipelines[0].partition[PASS_FORWARD]),
               "[0:0-4000] [1:0-3000 2:0-2460 3:0-100]");
    plan_free(&plan);
    system_wlb_llm.close(state);
    free(state);
    hand_request_free(&hand);
}

/* A kernel pays for queries in blocks (q_half 64). So shares of many short documents are slow by document. */
TEST(wlb_sharding__shards_short_documents_by_sequence)
{
    struct hand_request hand;
    struct plan plan;
    struct error err = {0};
    int32_t tokens[64];
    hand_request_real(&hand, 1, 1, 4096);
    struct device device = *hand.setting.device;
    for (int i = 0; i < DEVICE_N_CURVES; i++)
        device.forward[i].q_half = device.backward[i].q_half = 64;
    hand.setting.device = &device;
    hand.request.layout.cp = 2;
    hand.request.layout.cp_type = SCENARIO_ALL_GATHER;
    hand_options(&hand.setting, &hand.request.layout);
    for (int32_t i = 0; i < 64; i++)
        tokens[i] = 64;
    hand_batch(&hand, 64, tokens);
    void *state = calloc(1, system_wlb_llm.state_size);
    hand_knobs(&hand, &system_wlb_llm, "queues: 0");
    CHECK_TRUE(system_wlb_llm.plan(&hand.request, state, &plan, &err));
    CHECK_EQUAL(plan.phases[0].pipelines[0].partition[PASS_FORWARD].micro_batches[0].sharding, SLICE_PER_SEQUENCE);
    plan_free(&plan);
    system_wlb_llm.close(state);
    free(state);
    hand_request_free(&hand);
}

/* Two chunks of two stages run on two ranks. Micro-batches are in groups of two a rank, and every one takes
 * documents. */
TEST(wlb_llm__interleaves_micro_batches)
{
    struct hand_request hand;
    struct plan plan;
    struct error err = {0};
    void *state = calloc(1, system_wlb_llm.state_size);
    hand_request_real(&hand, 2, 2, 1000);
    hand.request.layout.vpp = 2;
    hand_layers(&hand.setting, cost_n_layers(&hand.setting) / 2);
    hand_batch_of(&hand, HAND_UNIFORM, 60, 3);
    hand_knobs(&hand, &system_wlb_llm, "queues: 0");
    int32_t per_rank = (int32_t)((hand.batch.n_tokens + 3999) / 4000) * 2; /* windows of 1000, four by four */
    CHECK_TRUE(system_wlb_llm.plan(&hand.request, state, &plan, &err));
    CHECK_TRUE(plan_check(&plan, 60, hand.batch.tokens, &err));
    CHECK_EQUAL(plan.phases[0].pipelines[1].partition[PASS_FORWARD].n_micro_batches, per_rank);
    CHECK_EQUAL(plan.phases[0].pipelines[1].layout.chunks, 2);
    struct dag dag = hand_built(&plan, &hand.setting, (struct dag_options){.gradient_sync = true});
    dag_free(&dag);
    plan_free(&plan);
    system_wlb_llm.close(state);
    free(state);
    hand_request_free(&hand);
}

TEST(wlb_llm__refuses_impossible_knobs)
{
    struct hand_request hand;
    struct plan plan;
    struct error err = {0};
    hand_request(&hand, 1, 1, 10);
    hand_batch(&hand, 1, (int32_t[]){5});
    void *state = calloc(1, system_wlb_llm.state_size);
    hand_knobs(&hand, &system_wlb_llm, "thresholds: [7, 7]");
    CHECK_TRUE(!system_wlb_llm.plan(&hand.request, state, &plan, &err));
    CHECK_TEXT(err.text, "wlb-llm: thresholds must ascend; 7 follows 7");
    hand_knobs(&hand, &system_wlb_llm, "");
    hand.request.layout.cp = 2;
    hand_options(&hand.setting, &hand.request.layout);
    err = (struct error){0};
    CHECK_TRUE(!system_wlb_llm.plan(&hand.request, state, &plan, &err));
    CHECK_CONTAINS(err.text, "plan.cp_type must be all-gather");
    free(state);
    hand_request_free(&hand);
}

/* Find the mean imbalance degree over 60 iterations with their own lengths, 512 documents each, 16 micro-batches. */
static double mean_degree(const struct lengths *lengths, const struct scenario_data *data, const struct wlb_rule *rule)
{
    struct wlb_document *documents = check_malloc(61 * 512 * sizeof *documents);
    int32_t *pack = check_malloc(61 * 512 * sizeof *pack), n_waiting = 0, n_packs;
    double degree = 0;
    for (int64_t iteration = 0; iteration < 60; iteration++) {
        struct batch batch;
        lengths_draw(lengths, data, 1, iteration, &batch);
        int32_t n = n_waiting + batch.n_samples;
        for (int32_t i = n_waiting; i < n; i++) {
            double tokens = batch.tokens[i - n_waiting];
            documents[i] = (struct wlb_document){(int32_t)tokens, 0, tokens * (1 + tokens / 50e3), 0};
        }
        int64_t room = 0;
        n_packs = 0;
        if (rule == NULL) /* windows of the context, in the order they came */
            for (int32_t i = 0; i < n; i++) {
                room = room < documents[i].tokens ? (n_packs++, data->context) : room;
                room -= documents[i].tokens;
                pack[i] = n_packs - 1;
            }
        else
            wlb_assign(rule, documents, n, n_waiting, pack);
        degree += wlb_imbalance(documents, pack, n, rule == NULL ? n_packs : rule->n_packs) / 60;
        n_waiting = wlb_keep_waiting(documents, pack, n);
        batch_free(&batch);
    }
    free(documents);
    free(pack);
    return degree;
}

/* The paper compares documents in their order, the fixed-length greedy packing, one queue, and two. A document's time
 * has a linear and a quadratic part that are equal at 50,000 tokens, as of a 7B model. */
TEST(wlb_llm__lowers_imbalance_with_freedom)
{
    struct lengths lengths = {0};
    struct scenario_data data = {.lengths = "wlb-llm", .length_scale = 1, .context = 131072, .global_batch = 512};
    struct error err = {0};
    const struct wlb_rule fixed = {0, {0, 0}, 16, 131072}, one = {1, {32768, 0}, 16, 1 << 30},
                          two = {2, {32768, 65536}, 16, 1 << 30};
    CHECK_TRUE(lengths_open(&data, SLIMSIM_SOURCE_DIR, &lengths, &err));
    double degree[] = {mean_degree(&lengths, &data, NULL), mean_degree(&lengths, &data, &fixed),
                       mean_degree(&lengths, &data, &one), mean_degree(&lengths, &data, &two)};
    printf("imbalance degrees %.3f %.3f %.3f %.3f\n", degree[0], degree[1], degree[2], degree[3]);
    for (int i = 1; i < 4; i++)
        CHECK_TRUE(degree[i] < degree[i - 1]);
    CHECK_TRUE(degree[3] >= 1);
    lengths_close(&lengths);
}
