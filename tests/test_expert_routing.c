/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests read measured pairs of balanced and real routing, and check whose results a sentence is about. */
#include "simulate/expert_routing.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "harness.h"
#include "scenario_fixture.h"

static const char pairs[] = "source: a test\npairs: 4\nleast: 0.803\nmost: 0.918\n";

static bool read(const char *text, struct expert_routing *routing, struct error *err)
{
    char *folder = strdup(fixture_data("expert_routing"));
    fixture_write("expert_routing/model/expert_routing.yaml", text);
    *err = (struct error){0};
    bool ok = expert_routing_read(folder, routing, err);
    free(folder);
    return ok;
}

TEST(expert_routing__says_the_range_of_its_pairs)
{
    struct expert_routing routing;
    struct error err;
    char *text = NULL;
    size_t n_bytes;
    CHECK_TRUE(read(pairs, &routing, &err));
    FILE *file = check_memstream(&text, &n_bytes);
    expert_routing_write(file, &routing);
    CHECK_EQUAL(fclose(file), 0);
    CHECK_TEXT(text, "experts: balanced routing is counted; real routing was 8 to 20% slower in 4 measured pairs");
    free(text);
}

TEST(expert_routing__is_about_balanced_experts_only)
{
    struct scenario scenario = {.expert_imbalance = 1, .model = {.layers = 1}};
    CHECK_TRUE(!expert_routing_is_balanced(&scenario));
    scenario.model.kinds[0].experts = 8;
    CHECK_TRUE(expert_routing_is_balanced(&scenario));
    scenario.replay.n_steps = 1; /* measured passes have their own routing */
    CHECK_TRUE(!expert_routing_is_balanced(&scenario));
    scenario.replay.n_steps = 0;
    scenario.expert_imbalance = 1.2;
    CHECK_TRUE(!expert_routing_is_balanced(&scenario));
}

TEST(expert_routing__refuses_unknown_and_missing_keys)
{
    struct expert_routing routing;
    struct error err;
    CHECK_TRUE(!read("source: a test\npairs: 4\nlest: 0.8\nmost: 0.9\n", &routing, &err));
    CHECK_CONTAINS(err.text, "lest");
    CHECK_CONTAINS(err.text, "least");
}
