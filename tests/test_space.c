/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check which plans the space of a search holds. */
#include "search/space.h"

#include <stdio.h>
#include <stdlib.h>

#include "hand_search.h"
#include "harness.h"

/* 16 GPUs run 32 layers and heads: TP x PP x CP x DP = 16 with TP 1, 2, 4, 8. With p = PP and c = CP powers of two
 * there are 15 + 10 + 6 + 3 = 34 layouts. Without CP there are 5 + 4 + 3 + 2 = 14. 14 of the first and 4 of the second
 * have one stage and three shardings. The others have vpp 1, 2 and 4 if the system interleaves. The one of 16 stages of
 * two layers has only two. */
TEST(space_plans__hold_every_layout_once)
{
    static const struct {
        const char *system, *space;
        int32_t n;
    } expected[] = {{"best-fit", "recompute: none, offload: 0", 34},
                    {"slimpack", "recompute: none, offload: 0", 14},
                    {"best-fit", "name: wide, vpp: [1, 2, 4], recompute: none, offload: 0", 14 * 3 + 19 * 3 + 2},
                    {"slimpack", "name: wide, vpp: [1, 2, 4], recompute: none, offload: 0", 4 * 3 + 10}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        struct hand_cell cell = {"llama-7b", "hopper-2x8", expected[i].system, "4Ki", expected[i].space, "", 1};
        struct hand_search hand;
        hand_search_cell(&hand, &cell, false);
        int32_t n = 0;
        for (int32_t j = 0; j < hand.result.n_plans; j++) {
            const struct scenario_plan *layout = &hand.result.plans[j].layout;
            CHECK_EQUAL(layout->tp * layout->pp * layout->cp * layout->dp, 16);
            n++;
            for (int32_t k = 0; k < j; k++)
                CHECK_TRUE(!hand_same_choice(&hand.result.plans[j], &hand.result.plans[k]));
        }
        CHECK_EQUAL(n, expected[i].n);
        hand_close_cell(&hand);
    }
}

/* Mistral 7B has a window, which no ring runs. */
TEST(space_plans__gather_in_place_of_a_ring_for_windows)
{
    static const char *const systems[] = {"best-fit", "slimpack"};
    for (int i = 0; i < 2; i++) {
        struct hand_cell cell = {"mistral-7b", "hopper-2x8", systems[i], "4Ki", "recompute: none", "", 1};
        struct hand_search hand;
        hand_search_cell(&hand, &cell, false);
        CHECK_TRUE(hand.result.n_plans > 0);
        for (int32_t j = 0; j < hand.result.n_plans; j++)
            CHECK_EQUAL(hand.result.plans[j].layout.cp_type, SCENARIO_ALL_GATHER);
        hand_close_cell(&hand);
    }
}

/* If the layers do not divide, the head counts as one, or embedding and head do. 30 layers go on 4 and 8 stages, 95 on
 * 2, 4 and 8. 30 do not go on 32, which would leave first and last stage without a layer, nor with virtual stages. */
TEST(space_plans__hold_stages_of_counted_tables)
{
    static const struct {
        const char *model, *space;
        int n;
        struct {
            int pp;
            bool embedding, head;
        } layout[4];
    } expected[] = {
        {"bloom-7b1", "tp: 1, cp: 1", 4, {{1, 0, 0}, {2, 0, 0}, {4, 1, 1}, {8, 1, 1}}},
        {"bloom-7b1", "tp: 1, cp: 1, vpp: 2", 0, {{0}}},
        {"deepseek-llm-67b", "tp: 8, cp: 1", 4, {{1, 0, 0}, {2, 0, 1}, {4, 0, 1}, {8, 0, 1}}},
    };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        char space[128];
        snprintf(space, sizeof space, "%s, recompute: full, offload: 0", expected[i].space);
        struct hand_cell cell = {
            expected[i].model, i == 2 ? "hopper-8x8" : "hopper-1x8", "best-fit", "4Ki", space, "", 1};
        struct hand_search hand;
        struct error err = {0};
        bool holds = hand_open_cell(&hand, &cell, &err);
        int32_t n_plans = 0;
        struct search_plan *plans =
            space_plans(&hand.scenario, &hand.scenario.systems[0], system_find("best-fit", &err), NULL, &n_plans);
        CHECK_EQUAL(n_plans, expected[i].n);
        CHECK_EQUAL(holds, expected[i].n > 0);
        for (int32_t j = 0; j < n_plans; j++) {
            CHECK_EQUAL(plans[j].layout.pp, expected[i].layout[j].pp);
            CHECK_EQUAL(plans[j].layout.stages.count_embedding, expected[i].layout[j].embedding);
            CHECK_EQUAL(plans[j].layout.stages.count_head, expected[i].layout[j].head);
        }
        free(plans);
        hand_close_cell(&hand);
    }
}

/* A rest is spread on request: 60 layers on 8 stages. Layers that tables counted as layers divide, and those that all
 * stages share, need no rest. With 30 layers 2 chunks on 4 stages leave one. */
TEST(space_plans__spread_a_rest_on_request)
{
    static const struct {
        const char *model, *space;
        int n;
        struct {
            int pp, first, last;
        } layout[4];
    } expected[] = {
        {"bloom-7b1", "tp: 1, cp: 1, spread: even", 4, {{1, 30, 30}, {2, 15, 15}, {4, 7, 7}, {8, 3, 3}}},
        {"bloom-7b1", "tp: 1, cp: 1, spread: [equal, even], pp: 4, vpp: 2", 1, {{4, 3, 3}}},
        {"llama-30b", "tp: 1, cp: 1, spread: even, pp: [4, 8]", 2, {{4, 15, 15}, {8, 8, 7}}},
        {"llama-30b", "tp: 1, cp: 1, pp: [4, 8]", 1, {{4, 15, 15}}},
    };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        char space[128];
        snprintf(space, sizeof space, "%s, recompute: full, offload: 0", expected[i].space);
        struct hand_cell cell = {expected[i].model, "hopper-1x8", "best-fit", "4Ki", space, "", 1};
        struct hand_search hand;
        struct error err = {0};
        CHECK_TRUE(hand_open_cell(&hand, &cell, &err));
        int32_t n_plans = 0;
        int64_t layers = hand.scenario.model.layers;
        struct search_plan *plans =
            space_plans(&hand.scenario, &hand.scenario.systems[0], system_find("best-fit", &err), NULL, &n_plans);
        CHECK_EQUAL(n_plans, expected[i].n);
        for (int32_t j = 0; j < n_plans; j++) {
            const struct scenario_plan *plan = &plans[j].layout;
            int32_t pp = (int32_t)plan->pp, vpp = (int32_t)plan->vpp;
            CHECK_EQUAL(pp, expected[i].layout[j].pp);
            CHECK_TRUE(scenario_stages_fit(&plan->stages, layers, pp, vpp));
            CHECK_EQUAL(scenario_stage_layers(&plan->stages, layers, pp, vpp, 0), expected[i].layout[j].first);
            CHECK_EQUAL(scenario_stage_layers(&plan->stages, layers, pp, vpp, pp * vpp - 1),
                        expected[i].layout[j].last);
        }
        free(plans);
        hand_close_cell(&hand);
    }
}

/* The order of a list and its repetitions change nothing. */
TEST(space_lists__are_sets)
{
    struct hand_cell cell = {"llama-7b",
                             "hopper-1x8",
                             "best-fit",
                             "4Ki",
                             "tp: 8, recompute: [full, none, full, none], offload: [1, 0.5, 1]",
                             "",
                             1};
    static const struct {
        int32_t recompute;
        double offload;
    } expected[] = {{RECOMPUTE_NONE, 0.5}, {RECOMPUTE_NONE, 1}, {RECOMPUTE_FULL, 0.5}, {RECOMPUTE_FULL, 1}};
    struct hand_search hand;
    hand_search_cell(&hand, &cell, false);
    CHECK_EQUAL(hand.result.n_plans, 4);
    for (int i = 0; i < 4; i++) {
        CHECK_EQUAL(hand.result.plans[i].layout.recompute, expected[i].recompute);
        CHECK_CLOSE(hand.result.plans[i].layout.offload, expected[i].offload, 0);
    }
    hand_close_cell(&hand);
}

/* Context ranks of TP x CP = 8 GPUs stay on their node. Context ranks of more GPUs do not. */
TEST(cp_across_nodes__is_demanded_beyond_a_node)
{
    struct hand_cell cell = {
        "llama-7b", "hopper-2x8", "best-fit", "4Ki", "pp: 1, recompute: none, on_demand: cp-across-nodes", "", 1};
    struct hand_search hand;
    int32_t n_at = 0, n_beyond = 0;
    hand_search_cell(&hand, &cell, false);
    for (int32_t i = 0; i < hand.result.n_plans; i++) {
        const struct scenario_plan *layout = &hand.result.plans[i].layout;
        bool beyond = layout->cp > 1 && layout->tp * layout->cp > 8;
        CHECK_EQUAL(hand.result.plans[i].n_demanded, beyond);
        n_at += layout->cp > 1 && layout->tp * layout->cp == 8;
        n_beyond += beyond;
    }
    CHECK_TRUE(n_at > 0 && n_beyond > 0);
    hand_close_cell(&hand);
}

/* On four nodes of 4 GPUs there are the 15 + 10 + 6 layouts of TP 1, 2, 4. If two nodes are an NVLink domain, the 3 of
 * TP 8 join them, and context ranks leave the domain with TP x CP = 16. */
TEST(space_plans__keep_tensor_groups_inside_an_nvlink_domain)
{
    struct hand_cell cell = {
        "llama-7b", "hopper-4x4", "best-fit", "4Ki", "recompute: none, offload: 0, on_demand: cp-across-nodes", "", 1};
    struct hand_search hand;
    struct error err = {0};
    CHECK_TRUE(hand_open_cell(&hand, &cell, &err));
    for (int32_t domain = 4; domain <= 8; domain += 4) {
        int32_t n_plans = 0;
        hand.scenario.platform.nvlink_domain = domain;
        struct search_plan *plans =
            space_plans(&hand.scenario, &hand.scenario.systems[0], system_find("best-fit", &err), NULL, &n_plans);
        CHECK_EQUAL(n_plans, domain == 4 ? 31 : 34);
        for (int32_t i = 0; i < n_plans; i++)
            CHECK_EQUAL(plans[i].n_demanded,
                        plans[i].layout.cp > 1 && plans[i].layout.tp * plans[i].layout.cp > domain);
        free(plans);
    }
    hand_close_cell(&hand);
}

TEST(search_check__refuses_an_empty_space_with_its_place)
{
    struct hand_cell cell = {"llama-7b", "hopper-2x8", "best-fit", "4Ki", "pp: [3, 5]", "", 1};
    struct hand_search hand;
    struct error err = {0};
    CHECK_TRUE(!hand_open_cell(&hand, &cell, &err));
    CHECK_CONTAINS(err.text,
                   "cell.yaml:11:49: plan: the plan space free holds no plan of best-fit for llama-7b on the 16");
    hand_close_cell(&hand);
}
