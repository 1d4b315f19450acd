/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check how layers are shared among stages. */
#include "harness.h"
#include "scenario/stages.h"

static void check_layers(const struct scenario_stages *split, int64_t layers, int32_t stages, int32_t chunks,
                         const int32_t *expected)
{
    for (int32_t i = 0; i < stages * chunks; i++)
        CHECK_EQUAL(scenario_stage_layers(split, layers, stages, chunks, i), expected[i]);
    CHECK_TRUE(scenario_stages_fit(split, layers, stages, chunks));
}

TEST(stages__share_layers_equally)
{
    const struct scenario_stages equal = {0};
    check_layers(&equal, 40, 4, 1, (const int32_t[]){10, 10, 10, 10});
    check_layers(&equal, 40, 2, 2, (const int32_t[]){10, 10, 10, 10});
    check_layers(&equal, 40, 1, 1, (const int32_t[]){40});
    CHECK_TRUE(!scenario_stages_fit(&equal, 40, 3, 1));
    CHECK_TRUE(!scenario_stages_fit(&equal, 40, 4, 4));
    CHECK_TRUE(!scenario_stages_fit(&equal, 40, 41, 1));
}

/* Llama 3 405B has 126 layers. With both tables counted 128 go on 4, 8 and 16 stages, first and last with one less
 * (Llama 3, arXiv:2407.21783, section 3.3.2). */
TEST(stages__count_tables_as_layers)
{
    const struct scenario_stages both = {.count_embedding = true, .count_head = true};
    check_layers(&both, 126, 4, 1, (const int32_t[]){31, 32, 32, 31});
    check_layers(&both, 14, 2, 4, (const int32_t[]){1, 2, 2, 2, 2, 2, 2, 1});
    check_layers(&both, 6, 4, 2, (const int32_t[]){0, 1, 1, 1, 1, 1, 1, 0});
    CHECK_TRUE(scenario_stages_fit(&both, 126, 16, 1) && scenario_stages_fit(&both, 126, 8, 8));
    CHECK_TRUE(!scenario_stages_fit(&both, 128, 16, 1));
    const struct scenario_stages head = {.count_head = true};
    check_layers(&head, 31, 4, 2, (const int32_t[]){4, 4, 4, 4, 4, 4, 4, 3});
}

TEST(stages__take_given_first_and_last_stages)
{
    const struct scenario_stages first = {.first_layers = 4}, ends = {.first_layers = 6, .last_layers = 2};
    check_layers(&first, 34, 4, 1, (const int32_t[]){4, 10, 10, 10});
    check_layers(&ends, 32, 4, 1, (const int32_t[]){6, 12, 12, 2});
    check_layers(&ends, 32, 4, 2, (const int32_t[]){3, 6, 6, 1, 3, 6, 6, 1});
    check_layers(&ends, 8, 2, 1, (const int32_t[]){6, 2});
    CHECK_TRUE(!scenario_stages_fit(&ends, 9, 2, 1));  /* one is left over */
    CHECK_TRUE(!scenario_stages_fit(&ends, 8, 4, 1));  /* none is left for the others */
    CHECK_TRUE(!scenario_stages_fit(&ends, 33, 4, 1)); /* 25 on two */
    CHECK_TRUE(!scenario_stages_fit(&ends, 32, 4, 3)); /* 2 in three chunks */
    CHECK_TRUE(!scenario_stages_fit(&first, 3, 4, 1));
}
