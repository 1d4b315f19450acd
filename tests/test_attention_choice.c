/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests choose the attention kernel of scenarios that say `attention: fastest`. */
#include "cost/attention_choice.h"
#include "hand_cost.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "scenario/scenario_read.h"
#include "scenario_fixture.h"

/** Read a scenario with the shipped device and listed lengths, and open these. */
static void open_text(const char *device, const char *lengths, struct scenario *scenario, struct lengths *opened)
{
    char text[1024];
    struct error err = {0};
    snprintf(text, sizeof text,
             "model: llama-13b\ndevice: %s\nplatform: {nodes: 1, gpus_per_node: 8}\nattention: fastest\n"
             "data: {lengths: \"%s\", context: 128Ki, global_batch: 3}\n"
             "systems: [{name: best-fit, plan: {tp: 2, pp: 1}}]\n",
             device, lengths);
    *opened = (struct lengths){0};
    CHECK_TRUE(scenario_read(fixture_write("attention_choice/run.yaml", text), 0, NULL, scenario, &err));
    CHECK_TRUE(lengths_open(&scenario->data, scenario_data_dir(), opened, &err));
    CHECK_TEXT(err.text, "");
    CHECK_EQUAL(scenario->attention, DEVICE_FASTEST);
}

/* The seconds are those of all samples alone, in both passes of all layers, without the ends of kernels. */
TEST(fastest__takes_least_seconds_on_the_first_batch)
{
    const int32_t tokens[] = {4096, 512, 65536};
    struct scenario scenario;
    struct lengths lengths;
    open_text("h100-sxm", "4096 512 65536", &scenario, &lengths);
    attention_choice_resolve(&scenario, &lengths);
    CHECK_TRUE(0 <= scenario.attention && scenario.attention < DEVICE_N_CURVES);
    const struct scenario_plan plan = {.tp = 1, .pp = 1, .cp = 1, .dp = 1, .vpp = 1};
    for (int32_t kernel = 0; kernel < DEVICE_N_CURVES; kernel++) {
        struct cost_setting setting = hand_with((struct cost_setting){.model = &scenario.model,
                                                                      .device = &scenario.device,
                                                                      .attention = (enum device_attention)kernel,
                                                                      .tensor = 1,
                                                                      HAND_LAYERS(1)},
                                                &plan);
        double sum_s = 0;
        for (int i = 0; i < 3; i++)
            for (enum pass pass = PASS_FORWARD; pass <= PASS_BACKWARD; pass++)
                sum_s += 40 * cost_attention_least_s(&setting, 0, pass, tokens[i], 1);
        CHECK_CLOSE(scenario.attention_s[kernel], sum_s, 1e-12);
        CHECK_TRUE(scenario.attention_s[scenario.attention] <= scenario.attention_s[kernel]);
    }
    CHECK_TRUE(scenario.attention_s[scenario.attention] < scenario.attention_s[DEVICE_FLASH2]);
    lengths_close(&lengths);
    scenario_free(&scenario);
}

/* A run again from its stored scenario has the kernel, whatever the curves say then. */
TEST(fastest__is_a_kernel_in_the_resolved_scenario)
{
    struct scenario scenario, again;
    struct lengths lengths;
    struct error err = {0};
    open_text("h100-sxm", "4096 512 65536", &scenario, &lengths);
    attention_choice_resolve(&scenario, &lengths);
    char *once = scenario_text(&scenario);
    CHECK_TRUE(strstr(once, "fastest") == NULL);
    CHECK_TRUE(scenario_read(fixture_write("attention_choice/again.yaml", once), 0, NULL, &again, &err));
    attention_choice_resolve(&again, &lengths);
    CHECK_EQUAL(again.attention, scenario.attention);
    char *twice = scenario_text(&again);
    CHECK_TEXT(twice, once);
    free(once);
    free(twice);
    lengths_close(&lengths);
    scenario_free(&scenario);
    scenario_free(&again);
}

/* Curves of an H100 do not say which kernel an A100 runs fastest. */
TEST(fastest__is_flash2_with_curves_of_another_chip)
{
    static const struct {
        const char *device;
        bool own_curves;
    } cases[] = {{"h100-sxm", true}, {"h100-96g", true},  {"h200", true},
                 {"h800", true},     {"a100-80g", false}, {"a100-40g", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct scenario scenario;
        struct lengths lengths;
        open_text(cases[i].device, "4096 512 65536", &scenario, &lengths);
        attention_choice_resolve(&scenario, &lengths);
        CHECK_EQUAL(scenario.device.own_curves, cases[i].own_curves);
        CHECK_EQUAL(scenario.attention == DEVICE_FLASH2, !cases[i].own_curves);
        lengths_close(&lengths);
        scenario_free(&scenario);
    }
}

/* An H100 with fewer multiprocessors, such as the PCIe board's 114, is another chip. */
TEST(own_curves__need_as_many_multiprocessors)
{
    char *h200 = fixture_read(SLIMSIM_SOURCE_DIR "/model/gpu/h200.yaml");
    char *fewer = fixture_replace(h200, "\nmultiprocessors: 132", "\nmultiprocessors: 114");
    struct device device;
    struct error err = {0};
    CHECK_TRUE(device_read(SLIMSIM_SOURCE_DIR, fixture_write("attention_choice/fewer.yaml", fewer), &device, &err));
    CHECK_TEXT(err.text, "");
    CHECK_TRUE(device.multiprocessors == 114 && !device.own_curves);
    free(h200);
    free(fewer);
}

/* Its seconds stand beside it, too: a resolved scenario names its kernel, and says the same as `fastest`. */
TEST(a_named_kernel__stays)
{
    struct scenario scenario;
    struct lengths lengths;
    open_text("h100-sxm", "4096", &scenario, &lengths);
    scenario.attention = DEVICE_UNFUSED;
    attention_choice_resolve(&scenario, &lengths);
    CHECK_TRUE(scenario.attention == DEVICE_UNFUSED && scenario.attention_s[DEVICE_FLASH2] > 0);
    lengths_close(&lengths);
    scenario_free(&scenario);
}
