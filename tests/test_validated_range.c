/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check what a report calls outside the measured runs. */
#include "simulate/validated_range.h"

#include <string.h>

#include "harness.h"

static const struct validated_range range = {
    .dense = {.devices = "a100-80g h100-sxm",
              .frameworks = "nemo",
              .systems = "best-fit",
              .gpus = 16,
              .tp = 8,
              .pp = 4,
              .vpp = 2,
              .cp = 2,
              .context = 4096},
    .experts = {.devices = "h100-sxm",
                .frameworks = "megatron-core",
                .systems = "best-fit",
                .windows = true,
                .gpus = 32,
                .tp = 2,
                .pp = 2,
                .vpp = 1,
                .cp = 4,
                .context = 8192,
                .experts = 64,
                .top_k = 4,
                .ep = 8},
};

static int32_t outside(const char *lengths, const char *device, int64_t cp, const char *system,
                       char items[OUTSIDE_MOST][OUTSIDE_SIZE])
{
    struct training_system training = {.name = system};
    struct scenario_system entry = {.plan = {.tp = 8, .pp = 4, .cp = cp, .dp = 1, .vpp = 2}};
    struct point_system systems[2] = {{.entry = &entry, .system = &training}, {.entry = &entry, .system = &training}};
    struct point point = {.n_systems = 2, .systems = systems};
    struct scenario scenario = {.framework_name = "nemo",
                                .platform = {.n_nodes = 2, .gpus_per_node = 8, .nvlink_domain = 8},
                                .model = {.layers = 1, .kinds = {{.window = cp > 2 ? 1024 : 0}}},
                                .data = {.context = 4096 * cp / 2}};
    strcpy(scenario.data.lengths, lengths);
    strcpy(scenario.device.name, device);
    return validated_range_outside(&range, &scenario, &point, items);
}

TEST(validated_range__holds_its_own_limits)
{
    char items[OUTSIDE_MOST][OUTSIDE_SIZE];
    CHECK_EQUAL(outside("fixed", "h100-sxm", 2, "best-fit", items), 0);
}

TEST(validated_range__names_each_excess_once)
{
    char items[OUTSIDE_MOST][OUTSIDE_SIZE];
    CHECK_EQUAL(outside("github", "h100", 4, "slimpack", items), 6);
    CHECK_TEXT(items[0], "varying lengths");
    CHECK_TEXT(items[1], "sliding windows");
    CHECK_TEXT(items[2], "device h100"); /* a name is not found inside another one */
    CHECK_TEXT(items[3], "context 8,192 (measured to 4,096)");
    CHECK_TEXT(items[4], "cp 4 (measured to 2)");
    CHECK_TEXT(items[5], "system slimpack");
}

TEST(validated_range__names_options_of_plans_that_no_run_has)
{
    char items[OUTSIDE_MOST][OUTSIDE_SIZE];
    struct training_system training = {.name = "best-fit"};
    struct scenario_plan plan = {.tp = 1, .pp = 2, .cp = 1, .dp = 8, .vpp = 1, .sharding = SCENARIO_ZERO3};
    plan.main_params = SCENARIO_MAIN_NONE;
    plan.optimizer_offload = 0.5;
    struct scenario_system entry = {.plan = plan};
    struct point_system system = {.entry = &entry, .system = &training};
    struct point point = {.n_systems = 1, .systems = &system};
    struct scenario scenario = {.device = {.name = "h100-sxm"},
                                .framework_name = "nemo",
                                .platform = {.n_nodes = 2, .gpus_per_node = 8, .nvlink_domain = 8},
                                .model = {.layers = 2},
                                .data = {.lengths = "fixed", .context = 4096}};
    CHECK_EQUAL(validated_range_outside(&range, &scenario, &point, items), 3);
    CHECK_TEXT(items[0], "FSDP with pipeline stages");
    CHECK_TEXT(items[1], "Adam below fp32");
    CHECK_TEXT(items[2], "an optimizer on the host");
}

/* Runs of varying lengths were measured on Hopper, so a Blackwell of the list is outside with them. */
TEST(validated_range__names_a_device_without_varying_lengths)
{
    char items[OUTSIDE_MOST][OUTSIDE_SIZE];
    const char *names[RANGE_N_RESPECTS];
    struct validated_range varying = {.dense = range.dense, .blackwell = range.dense, .varying_lengths = "zero3"};
    struct training_system training = {.name = "best-fit"};
    struct scenario_system entry = {.plan = {.tp = 1, .pp = 1, .cp = 1, .vpp = 1, .sharding = SCENARIO_ZERO3}};
    struct point_system system = {.entry = &entry, .system = &training};
    struct point point = {.n_systems = 1, .systems = &system};
    struct scenario scenario = {.device = {.name = "h100-sxm", .compute_capability = 10},
                                .framework_name = "nemo",
                                .platform = {.n_nodes = 2, .gpus_per_node = 8, .nvlink_domain = 8},
                                .model = {.layers = 2},
                                .data = {.lengths = "github", .context = 4096}};
    CHECK_EQUAL(validated_range_outside(&varying, &scenario, &point, items), 1);
    CHECK_TEXT(items[0], "device h100-sxm");
    CHECK_EQUAL(validated_range_respects(&varying, &scenario, 1, SCENARIO_ZERO3, names), 1);
    CHECK_TEXT(names[0], "device");
    scenario.device.compute_capability = 9;
    CHECK_EQUAL(validated_range_outside(&varying, &scenario, &point, items), 0);
}

TEST(validated_range__knows_racks_up_to_the_largest_measured_one)
{
    char items[OUTSIDE_MOST][OUTSIDE_SIZE];
    struct validated_range racks = range;
    struct point point = {0};
    struct scenario scenario = {.framework_name = "nemo",
                                .device = {.name = "h100-sxm"},
                                .platform = {.n_nodes = 4, .gpus_per_node = 4, .nvlink_domain = 16},
                                .model = {.layers = 2},
                                .data = {.lengths = "fixed", .context = 4096}};
    CHECK_EQUAL(validated_range_outside(&racks, &scenario, &point, items), 1);
    CHECK_TEXT(items[0], "NVLink over several nodes");
    racks.dense.nvlink_domain = 16;
    CHECK_EQUAL(validated_range_outside(&racks, &scenario, &point, items), 0);
    racks.dense.nvlink_domain = 8;
    CHECK_EQUAL(validated_range_outside(&racks, &scenario, &point, items), 1);
}

TEST(validated_range__names_casts_without_compiler)
{
    char items[OUTSIDE_MOST][OUTSIDE_SIZE];
    struct point point = {.n_systems = 0};
    struct validated_range fp8 = {.fp8 = range.dense, .dense = range.dense};
    struct scenario scenario = {.device = {.name = "h100-sxm"},
                                .framework_name = "nemo",
                                .platform = {.n_nodes = 2, .gpus_per_node = 8, .nvlink_domain = 8},
                                .model = {.layers = 2},
                                .data = {.lengths = "fixed", .context = 4096},
                                .kernels = SCENARIO_EAGER,
                                .fp8_scaling = SCENARIO_SCALING_CURRENT,
                                .precision = PRECISION_FP8_TENSOR};
    strcpy(fp8.fp8.precisions, "fp8-tensor");
    CHECK_EQUAL(validated_range_outside(&fp8, &scenario, &point, items), 1);
    CHECK_TEXT(items[0], "casts without torch.compile");
    scenario.kernels = SCENARIO_COMPILED;
    CHECK_EQUAL(validated_range_outside(&fp8, &scenario, &point, items), 0);
}

/** List what of a scenario with experts lies outside, on one system with TP 2. */
static int32_t outside_experts(const struct model *model, const struct scenario_plan *plan,
                               char items[OUTSIDE_MOST][OUTSIDE_SIZE])
{
    struct training_system training = {.name = "best-fit"};
    struct scenario_system entry = {.plan = *plan};
    struct point_system system = {.entry = &entry, .system = &training};
    struct point point = {.n_systems = 1, .systems = &system};
    struct scenario scenario = {.device = {.name = "h100-sxm"},
                                .framework_name = "megatron-core",
                                .platform = {.n_nodes = 4, .gpus_per_node = 8, .nvlink_domain = 8},
                                .model = *model,
                                .data = {.lengths = "fixed", .context = 8192}};
    return validated_range_outside(&range, &scenario, &point, items);
}

/* Windows, CP 4 and 8192 tokens lie outside the dense runs only. */
TEST(validated_range__compares_experts_with_runs_that_have_some)
{
    char items[OUTSIDE_MOST][OUTSIDE_SIZE];
    struct model model = {.layers = 1, .kinds = {{.experts = 64, .top_k = 4, .window = 128}}};
    struct scenario_plan plan = {.tp = 2, .pp = 2, .vpp = 1, .cp = 4, .dp = 2, .ep = 8};
    CHECK_EQUAL(outside_experts(&model, &plan, items), 0);
    model = (struct model){
        .layers = 1,
        .kinds = {{.experts = 128, .top_k = 6, .shared_ffn = 1, .kv_lora_rank = 512}},
        .mtp_layers = 1,
    };
    plan = (struct scenario_plan){.tp = 4, .pp = 1, .vpp = 1, .cp = 1, .dp = 8, .ep = 16, .sharding = SCENARIO_ZERO3};
    CHECK_EQUAL(outside_experts(&model, &plan, items), 8);
    CHECK_TEXT(items[0], "experts 128 (measured to 64)");
    CHECK_TEXT(items[1], "top_k 6 (measured to 4)");
    CHECK_TEXT(items[2], "ep 16 (measured to 8)");
    CHECK_TEXT(items[3], "shared experts");
    CHECK_TEXT(items[4], "FSDP with experts");
    CHECK_TEXT(items[5], "latent attention");
    CHECK_TEXT(items[6], "MTP");
    CHECK_TEXT(items[7], "tp 4 (measured to 2)");
}
