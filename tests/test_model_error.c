/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests read the errors of measured runs, widen them for a scenario, and compare ranges with hand-made numbers.
 */
#include "simulate/model_error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "scenario_fixture.h"

static const char numbers[] =
    "rows: 30\nsources: 4\nbias: 0.03\nbetween: 0.03\nwithin: 0.02\ndeviation: 0.04\n"
    "varying: {rows: 12, sources: 3, bias: 0.2, between: 0.06, within: 0.1, deviation: 0.08}\n"
    "fp8: {rows: 20, sources: 3, bias: 0.05, between: 0, within: 0.02, deviation: 0.04}\n"
    "experts: {rows: 9, sources: 2, bias: 0.1, between: 0.05, within: 0.1, deviation: 0.12}\n"
    "experts_fp8: {rows: 7, sources: 2, bias: 0.07, between: 0, within: 0.1, deviation: 0.04}\n"
    "blackwell: {rows: 8, sources: 2, bias: 0.02, between: 0.1, within: 0.05, deviation: 0.15}\n"
    "experts_blackwell: {rows: 6, sources: 2, bias: 0.3, between: 0.1, within: 0.05, deviation: 0.2}\n";
static const char range[] =
    "source: a test\ndevices: h100-sxm h800\nframeworks: nemo\nsystems: best-fit\n"
    "gpus: 16\ntp: 8\npp: 4\nvpp: 2\ncp: 2\ncontext: 4096\n"
    "fp8: {precisions: fp8-tensor, devices: h100-sxm, frameworks: nemo, systems: best-fit, gpus: 8, "
    "tp: 4, pp: 2, vpp: 1, cp: 2, context: 8192}\n"
    "experts: {devices: h100-sxm, frameworks: nemo, systems: best-fit, windows: true, gpus: 8, "
    "tp: 4, pp: 2, vpp: 1, cp: 4, context: 8192, experts: 64, top_k: 4, ep: 8}\n"
    "experts_fp8: {precisions: fp8-tensor, devices: h100-sxm, frameworks: nemo, systems: best-fit, gpus: 8, "
    "tp: 4, pp: 2, vpp: 1, cp: 4, context: 8192, experts: 8, top_k: 2, ep: 8}\n"
    "blackwell: {precisions: bf16 mxfp8, devices: gb200, frameworks: nemo, systems: best-fit, gpus: 8, "
    "tp: 4, pp: 2, vpp: 1, cp: 2, context: 8192}\n"
    "experts_blackwell: {precisions: bf16 mxfp8, devices: gb200, frameworks: nemo, systems: best-fit, gpus: 8, "
    "tp: 4, pp: 2, vpp: 1, cp: 4, context: 8192, experts: 64, top_k: 4, ep: 8}\n";

/** Write both files to a data folder and look the error of a scenario up. */
static bool look_up(const char *errors, int32_t sharding, const struct scenario *scenario, int64_t cp,
                    struct model_error *error, struct error *err)
{
    char *folder = strdup(fixture_data("model_error")), text[2400];
    snprintf(text, sizeof text, "source: a test\n%sheld: {p5_to_p95: 0.9}\nerrors: [{source: a, rows: 30}]\n", errors);
    fixture_write("model_error/model/model_error.yaml", text);
    snprintf(text, sizeof text, "%svarying_lengths: zero2 zero3\n", range);
    fixture_write("model_error/model/validated_range.yaml", text);
    *err = (struct error){0};
    bool ok = model_error_read(folder, scenario, cp, sharding, error, err);
    free(folder);
    return ok;
}

static struct scenario scenario_of(const char *framework, const char *device, const char *lengths, int64_t context)
{
    struct scenario scenario = {.data = {.context = context}};
    strcpy(scenario.framework_name, framework);
    strcpy(scenario.device.name, device);
    strcpy(scenario.data.lengths, lengths);
    return scenario;
}

static struct model_error error_of(const struct scenario *scenario, int64_t cp)
{
    struct model_error error;
    struct error err;
    CHECK_TRUE(look_up(numbers, SCENARIO_ZERO1, scenario, cp, &error, &err));
    CHECK_TEXT(err.text, "");
    return error;
}

/** Return the error of a scenario of a precision on a device, with so many experts of which a token has two, or dense.
 */
static struct model_error error_in(enum precision precision, const char *device, double compute_capability,
                                   int32_t experts)
{
    struct scenario scenario = scenario_of("nemo", device, "fixed", 4096);
    scenario.precision = (int32_t)precision;
    scenario.device.compute_capability = compute_capability;
    if (experts > 0)
        scenario.model = (struct model){.layers = 1, .kinds = {{.experts = experts, .top_k = 2}}};
    return error_of(&scenario, 2);
}

TEST(model_error__is_that_of_a_new_source)
{
    struct scenario scenario = scenario_of("nemo", "h800", "fixed", 4096);
    struct model_error error = error_of(&scenario, 2);
    CHECK_TRUE(error.rows == 30 && error.sources == 4 && error.n_wider == 0);
    CHECK_CLOSE(error.bias, 0.03, 1e-15);
    CHECK_CLOSE(error.deviation, 0.04, 1e-15);
    CHECK_TEXT(error.basis, "30 measured runs of 4 sources");
}

/* Runs in fp8 have errors of their own. Their sources differ by less than those of dense runs, whose 0.03 widens:
 * 0.04^2 + n 0.03^2. Nothing in mxfp8 was measured. */
TEST(model_error__of_fp8_is_that_of_its_runs)
{
    static const struct {
        const char *device;
        enum precision precision;
        int32_t n_wider;
    } cases[] = {{"h100-sxm", PRECISION_FP8_TENSOR, 0}, {"h20", PRECISION_FP8_TENSOR, 1}, {"h20", PRECISION_MXFP8, 2}};
    for (int i = 0; i < 3; i++) {
        struct model_error error = error_in(cases[i].precision, cases[i].device, 9, 0);
        CHECK_EQUAL(error.n_wider, cases[i].n_wider);
        CHECK_CLOSE(error.bias, 0.05, 1e-15);
        CHECK_CLOSE(error.deviation, sqrt(0.0016 + 0.0009 * cases[i].n_wider), 1e-15);
        CHECK_TRUE(strncmp(error.basis, "20 measured runs of 3 sources in fp8", 36) == 0);
    }
}

/* Dense runs on Blackwell have errors of their own, whatever their format. 0.15^2 + n 0.1^2. */
TEST(model_error__of_blackwell_is_that_of_its_runs)
{
    static const struct {
        const char *device;
        enum precision precision;
        int32_t n_wider;
    } cases[] = {{"gb200", PRECISION_BF16, 0}, {"gb200", PRECISION_MXFP8, 0}, {"b300", PRECISION_FP8_BLOCK, 2}};
    for (int i = 0; i < 3; i++) {
        struct model_error error = error_in(cases[i].precision, cases[i].device, 10.3, 0);
        CHECK_EQUAL(error.n_wider, cases[i].n_wider);
        CHECK_CLOSE(error.deviation, sqrt(0.0225 + 0.01 * cases[i].n_wider), 1e-15);
        CHECK_TRUE(strncmp(error.basis, "8 measured runs of 2 sources on Blackwell", 41) == 0);
    }
}

/* 0.04^2 + n 0.03^2 = 0.0016 + 0.0009 n: 0.05 for one respect, and sqrt(0.0061) for all five. */
TEST(model_error__is_wider_outside_the_measured_runs)
{
    const struct scenario one[] = {scenario_of("fsdp2", "h800", "fixed", 4096), scenario_of("nemo", "h80", "fixed", 1),
                                   scenario_of("nemo", "h800", "github", 4096),
                                   scenario_of("nemo", "h800", "fixed", 4097),
                                   scenario_of("nemo", "h800", "fixed", 4096)};
    const char *const names[] = {"framework", "device", "varying lengths", "context", "cp"};
    for (int i = 0; i < 5; i++) {
        struct model_error error = error_of(&one[i], i == 4 ? 3 : 2);
        CHECK_EQUAL(error.n_wider, 1);
        CHECK_TEXT(error.wider[0], names[i]);
        CHECK_CLOSE(error.deviation, 0.05, 1e-14);
    }
    struct scenario all = scenario_of("fsdp2", "a100-80g", "github", 8192);
    struct model_error error = error_of(&all, 4);
    CHECK_CLOSE(error.deviation, sqrt(0.0061), 1e-14);
    CHECK_CLOSE(error.bias, 0.03, 1e-15);
    CHECK_TEXT(error.basis, "30 measured runs of 4 sources, wider for varying lengths, device, framework, context, cp");
}

/* Runs with experts have errors and limits of their own: context 8192 and cp 4 lie inside. The H800 is the chip of the
 * H100 with other links, and dense runs were measured on it. Each respect outside adds 0.05^2: 0.13 for one, and
 * sqrt(0.12^2 + 8 x 0.05^2) for all eight, with zero3, too. */
TEST(model_error__is_that_of_runs_with_experts)
{
    struct scenario scenario = scenario_of("nemo", "h100-sxm", "fixed", 8192);
    scenario.model = (struct model){.layers = 1, .kinds = {{.experts = 64, .top_k = 4, .window = 128}}};
    struct model_error error = error_of(&scenario, 4);
    CHECK_TRUE(error.rows == 9 && error.sources == 2 && error.n_wider == 0);
    CHECK_CLOSE(error.bias, 0.1, 1e-15);
    CHECK_CLOSE(error.deviation, 0.12, 1e-15);
    CHECK_TEXT(error.basis, "9 measured runs of 2 sources with experts");
    strcpy(scenario.device.name, "h800");
    strcpy(scenario.device.curves_of, "h100-sxm");
    scenario.device.own_curves = true;
    CHECK_EQUAL(error_of(&scenario, 4).n_wider, 0);
    strcpy(scenario.device.name, "h100-96g"); /* no dense run has it */
    CHECK_TEXT(error_of(&scenario, 4).basis, "9 measured runs of 2 sources with experts, wider for device");
    CHECK_CLOSE(error_of(&scenario, 4).deviation, 0.13, 1e-14);
    struct scenario all = scenario_of("fsdp2", "a100-80g", "github", 8193);
    all.model = (struct model){.layers = 1, .kinds = {{.experts = 65, .kv_lora_rank = 512}}, .mtp_layers = 1};
    struct error err;
    CHECK_TRUE(look_up(numbers, SCENARIO_ZERO3, &all, 5, &error, &err));
    CHECK_CLOSE(error.deviation, sqrt(0.0144 + 8 * 0.0025), 1e-14);
    CHECK_TEXT(error.basis, "9 measured runs of 2 sources with experts, wider for experts, latent attention, MTP, "
                            "varying lengths, device, framework, context, cp");
}

/* With experts in fp8 other runs count: 8 experts lie inside, 64 outside, and nothing in mxfp8 was measured. No run
 * sent tokens in fp8. */
TEST(model_error__is_that_of_runs_with_experts_in_fp8)
{
    static const struct {
        int32_t experts;
        enum precision precision;
        const char *basis;
    } cases[] = {{8, PRECISION_FP8_TENSOR, "7 measured runs of 2 sources in fp8 with experts"},
                 {64, PRECISION_FP8_TENSOR, "7 measured runs of 2 sources in fp8 with experts, wider for experts"},
                 {8, PRECISION_MXFP8, "7 measured runs of 2 sources in fp8 with experts, wider for precision"}};
    for (int i = 0; i < 3; i++) {
        struct model_error error = error_in(cases[i].precision, "h100-sxm", 9, cases[i].experts);
        CHECK_TEXT(error.basis, cases[i].basis);
        CHECK_CLOSE(error.bias, 0.07, 1e-15);
    }
    struct scenario sent = scenario_of("nemo", "h100-sxm", "fixed", 4096); /* tokens go to experts in fp8 */
    sent.model = (struct model){.layers = 1, .kinds = {{.experts = 8, .top_k = 2}}};
    sent.precision = PRECISION_FP8_TENSOR;
    sent.communication.fp8_dispatch = true;
    CHECK_TEXT(error_of(&sent, 2).basis, cases[2].basis);
}

/* With experts on Blackwell other runs count, whatever their format: 64 experts lie inside, 256 outside. */
TEST(model_error__is_that_of_runs_with_experts_on_blackwell)
{
    static const struct {
        int32_t experts;
        enum precision precision;
        const char *basis;
    } cases[] = {{64, PRECISION_BF16, "6 measured runs of 2 sources with experts on Blackwell"},
                 {64, PRECISION_MXFP8, "6 measured runs of 2 sources with experts on Blackwell"},
                 {256, PRECISION_MXFP8, "6 measured runs of 2 sources with experts on Blackwell, wider for experts"}};
    for (int i = 0; i < 3; i++) {
        struct model_error error = error_in(cases[i].precision, "gb200", 10, cases[i].experts);
        CHECK_TEXT(error.basis, cases[i].basis);
        CHECK_CLOSE(error.bias, 0.3, 1e-15);
    }
}

/* Runs with varying lengths have a bias and a deviation of their own: sqrt(0.08^2 + 0.06^2) is 0.1 for a new framework.
 * They count for the shardings that were measured. */
TEST(model_error__is_that_of_varying_lengths)
{
    struct scenario scenario = scenario_of("fsdp2", "h800", "github", 4096),
                    fixed = scenario_of("nemo", "h800", "fixed", 1);
    struct model_error error;
    struct error err;
    CHECK_TRUE(look_up(numbers, SCENARIO_ZERO3, &scenario, 1, &error, &err));
    CHECK_CLOSE(error.bias, 0.2, 1e-15);
    CHECK_CLOSE(error.deviation, 0.1, 1e-14);
    CHECK_TEXT(error.basis, "12 measured runs of 3 sources with varying lengths, wider for framework");
    CHECK_TRUE(look_up(numbers, SCENARIO_ZERO1, &scenario, 1, &error, &err));
    CHECK_CLOSE(error.bias, 0.03, 1e-15);
    CHECK_TEXT(error.basis, "30 measured runs of 4 sources, wider for varying lengths, framework");
    CHECK_TRUE(look_up(numbers, SCENARIO_ZERO3, &fixed, 1, &error, &err));
    CHECK_CLOSE(error.bias, 0.03, 1e-15);
}

/* A 95th percentile of the normal law lies 1.644854 deviations off, so 1000 / (1.03 +- 0.0657941). */
TEST(model_error__has_a_range_of_measured_rates)
{
    struct scenario scenario = scenario_of("nemo", "h800", "fixed", 4096);
    struct model_error error = error_of(&scenario, 1);
    struct model_interval interval = model_error_interval(&error, 1000);
    CHECK_CLOSE(interval.p5, 1000 / 1.0957941, 1e-6);
    CHECK_CLOSE(interval.p95, 1000 / 0.9642059, 1e-6);
    CHECK_CLOSE(model_error_measured(&error, 1030, 0), 1000, 1e-12);
}

TEST(model_error__refuses_unknown_and_missing_keys)
{
    struct scenario scenario = scenario_of("nemo", "h800", "fixed", 4096);
    struct model_error error;
    struct error err;
    CHECK_TRUE(!look_up("rows: 8\nsources: 2\nbais: 0.01\n", false, &scenario, 1, &error, &err));
    CHECK_CONTAINS(err.text, "bais");
    CHECK_CONTAINS(err.text, "deviation");
}
