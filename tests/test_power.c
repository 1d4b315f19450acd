/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests read the power of nodes. */
#include "scenario/power.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "document/library.h"
#include "harness.h"
#include "scenario/scenario_read.h"
#include "scenario_fixture.h"

/** Read a file of one node of 8 GPUs with these lines. */
static bool read_lines(const char *lines, struct power *power, struct error *err)
{
    char text[1024];
    *err = (struct error){0};
    snprintf(text, sizeof text, "name: hand\nsource: a test\ngpus: 8\n%s", lines);
    return power_read("", fixture_write("power/hand.yaml", text), power, err);
}

/* 8 GPUs of 600 W leave 2,000 W of a busy node's 6,800 W to the rest. 8 waiting GPUs of 300 W then make 4,400 W. */
TEST(power__a_gpu_gives_the_waiting_level_that_a_node_lacks)
{
    struct power power;
    struct error err;
    const char *gpu = "gpu: {idle_w: 70, waiting_w: 300, busy_w: 600}\n";
    char both[256];
    snprintf(both, sizeof both, "node: {idle_w: 2000, busy_w: 6800}\n%s", gpu);
    CHECK_TRUE(read_lines(both, &power, &err));
    CHECK_TEXT(err.text, "");
    CHECK_CLOSE(power.node.waiting_w, 4400, 1e-12);
    CHECK_TRUE(isnan(power.network_w));
    snprintf(both, sizeof both, "node: {idle_w: 2000, waiting_w: 4000, busy_w: 6800}\nnetwork_w: 90\n%s", gpu);
    CHECK_TRUE(read_lines(both, &power, &err));
    CHECK_TRUE(power.node.waiting_w == 4000 && power.network_w == 90);
}

TEST(power__wrong_levels_are_one_sentence)
{
    static const struct {
        const char *lines, *message;
    } wrong[] = {
        {"node: {idle_w: 2000, busy_w: 6800}\n", "node.waiting_w: is required, unless the levels of gpu: give it"},
        {"node: {idle_w: 2000, waiting_w: 1000, busy_w: 6800}\n", "allowed: levels that rise in this order"},
        {"node: {idle_w: -1, waiting_w: 1000, busy_w: 6800}\n", "node.idle_w: '-1' is out of range"},
        {"node: {idle_w: 0, waiting_w: 1000, busy_w: 6800}\n", "node.idle_w: '0' is out of range"},
        {"node: {idle_w: 2000, waiting_w: 4000, busy_w: 6800}\ngpu: {idle_w: 70}\n",
         "gpu: has 1 of its levels; allowed: idle_w, waiting_w and busy_w, or none"},
        {"node: {idle_w: 2000, waiting_w: 4000, busy_w: 6800}\ngpu: {idle_w: 70, waiting_w: 300, busy_w: 900}\n",
         "8 GPUs that draw at most node.busy_w, 6800 W"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct power power;
        struct error err;
        CHECK_TRUE(!read_lines(wrong[i].lines, &power, &err));
        CHECK_CONTAINS(err.text, wrong[i].message);
    }
}

/** Read a scenario on the shipped data. */
static void read_scenario(const char *set, struct scenario *scenario)
{
    struct error err = {0};
    const char *text = "model: llama-13b\ndevice: h200\nplatform: hopper-2x8\n"
                       "data: {lengths: github, context: 64Ki, global_batch: 8}\n"
                       "systems: [{name: slimpack, plan: {tp: 2, pp: 2}}]\n";
    CHECK_TRUE(scenario_read(fixture_write("power/run.yaml", text), set != NULL, &set, scenario, &err));
    CHECK_TEXT(err.text, "");
}

TEST(power__is_the_devices_unless_the_scenario_names_another)
{
    struct scenario scenario;
    read_scenario(NULL, &scenario);
    CHECK_TEXT(scenario.power.name, "h200");
    scenario_free(&scenario);
    read_scenario("power=b200", &scenario);
    CHECK_TEXT(scenario.power.name, "b200");
    scenario_free(&scenario);
    read_scenario("device=a100-80g", &scenario); /* its file names none */
    CHECK_EQUAL(scenario.power.gpus, 0);
    scenario_free(&scenario);
}

TEST(power__every_shipped_file_is_read)
{
    char folder[1024];
    size_t n = 0;
    snprintf(folder, sizeof folder, "%s/model/power", scenario_data_dir());
    char **names = library_list(folder, ".yaml", &n);
    CHECK_TRUE(n >= 4);
    for (size_t i = 0; i < n; i++) {
        struct power power;
        struct error err = {0};
        CHECK_TRUE(power_read(scenario_data_dir(), names[i], &power, &err));
        CHECK_TEXT(power.name, names[i]);
        free(names[i]);
    }
    free(names);
}
