/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check rules that hold for any run on the shipped devices, whatever their constants are. */
#include "base/check.h"
#include "base/rng.h"
#include "hand_cost.h"
#include "harness.h"

#include <math.h>
#include <stdio.h>

static const struct model models[] = {
    {.hidden = 4096, .layers = 32, .vocabulary = 128256, .kinds = {{.heads = 32, .kv_heads = 8, .ffn = 14336}}},
    {.hidden = 8192, .layers = 80, .vocabulary = 32000, .kinds = {{.heads = 64, .kv_heads = 8, .ffn = 28672}}},
    {.hidden = 12288,
     .layers = 96,
     .vocabulary = 51200,
     .positions = 2048,
     .kinds = {{.heads = 96, .kv_heads = 96, .ffn = 49152}}},
    {.hidden = 768,
     .layers = 12,
     .vocabulary = 50368,
     .dropout = true,
     .kinds = {{.heads = 12, .kv_heads = 12, .ffn = 3072}}}};
static const char *const devices[] = {"h100-sxm", "h100-96g", "h800", "h200", "a100-80g", "a100-40g"};

/* 0 stands for hidden / heads, which is 64 to 128. */
static const int64_t head_widths[] = {0, 32, 128, 256};

enum { N_RUNS = 200, N_DEVICES = sizeof devices / sizeof *devices };

static struct device shipped[N_DEVICES];

/* The devices are read before the tests run. */
__attribute__((constructor)) static void read_devices(void)
{
    struct error err = {0};
    for (int i = 0; i < N_DEVICES; i++)
        CHECK(device_read(scenario_data_dir(), devices[i], &shipped[i], &err));
}

/** A run: one sequence on a rank of a stage. */
struct run {
    struct model model;
    struct device device;
    struct platform platform;
    struct scenario_plan plan;
    struct cost_setting setting;
    struct slice slice;
    int32_t context;
    enum recompute recompute;
    const char *name;
};

static void draw(struct rng *rng, struct run *run)
{
    static const enum recompute recomputes[] = {RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL};
    int64_t device = rng_index(rng, N_DEVICES);
    run->name = devices[device];
    run->device = shipped[device];
    run->model = models[rng_index(rng, 4)];
    run->model.kinds[0].head_width = head_widths[rng_index(rng, 4)];
    run->model.kinds[0].activation = rng_index(rng, 2) == 0 ? MODEL_SWIGLU : MODEL_GELU;
    run->platform = (struct platform){.n_nodes = 256,
                                      .gpus_per_node = 8,
                                      .nvlink_domain = 8,
                                      .nvlink_bytes_per_s = 100e9 + 400e9 * rng_uniform(rng),
                                      .nic_bytes_per_s = 5e9 + 50e9 * rng_uniform(rng),
                                      .pcie_bytes_per_s = 32e9};
    run->recompute = recomputes[rng_index(rng, 3)];
    run->context = 1 << rng_index(rng, 4);
    run->slice = (struct slice){.end = 512 << rng_index(rng, 8)};
    run->plan = (struct scenario_plan){.cp = 1,
                                       .dp = 8 << rng_index(rng, 8),
                                       .cp_type = (int32_t)rng_index(rng, 4),
                                       .gradients = (int32_t)rng_index(rng, 2),
                                       .sharding = (int32_t)rng_index(rng, 4),
                                       .sequence_parallel = rng_index(rng, 2) == 0};
    run->setting = hand_with((struct cost_setting){.model = &run->model,
                                                   .device = &run->device,
                                                   .platform = &run->platform,
                                                   .tp_overlap = (int32_t)rng_index(rng, 3),
                                                   .attention = (enum device_attention)rng_index(rng, DEVICE_N_CURVES),
                                                   .tensor = 1 << rng_index(rng, 3),
                                                   .kernels = (enum scenario_kernels)rng_index(rng, 2)},
                             &run->plan);
    hand_layers(&run->setting, 1 + (int32_t)rng_index(rng, 8));
}

static struct cost_micro_batch micro_batch_of(const struct run *run)
{
    return (struct cost_micro_batch){
        .slices = &run->slice, .n_slices = 1, .context = run->context, .recompute = run->recompute};
}

/** Add the seconds of a pass of first, middle and last stage at once. The ring of context parallelism counts as if
 * nothing hid it. */
static double micro_batch_s(const struct run *run, enum pass pass, const struct cost_micro_batch *micro_batch)
{
    struct cost_pass layers = cost_of_pass(&run->setting, pass, micro_batch),
                     head = cost_of_head(&run->setting, pass, micro_batch);
    struct cost_pass embedding = cost_of_embedding(&run->setting, pass, micro_batch);
    double ring_s = cost_of_transfer(&run->setting, COST_NIC, layers.ring_bytes, layers.ring_steps).duration_s;
    return cost_pass_s(&layers) + cost_pass_s(&head) + cost_pass_s(&embedding) + ring_s;
}

static double run_s(const struct run *run, enum pass pass, double *flop)
{
    const struct cost_micro_batch micro_batch = micro_batch_of(run);
    *flop = cost_of_pass(&run->setting, pass, &micro_batch).flop + cost_of_head(&run->setting, pass, &micro_batch).flop;
    return micro_batch_s(run, pass, &micro_batch);
}

static void hold(bool true_or_not, const char *what, const struct run *run, enum pass pass)
{
    if (!harness_true(true_or_not, what, __FILE__, __LINE__))
        printf("case: %s hidden %d, %d tokens, tp %d, cp %d, sharding %d on %d, tp_overlap %d, pass %d\n", run->name,
               (int)run->model.hidden, (int)run->slice.end, (int)run->setting.tensor, (int)run->context,
               (int)run->plan.sharding, (int)run->plan.dp, (int)run->setting.tp_overlap, (int)pass);
}

/* Faster links, or a faster chip and memory, take no longer. A longer sequence does. No run computes faster than its
 * best kernel. */
TEST(faster_hardware__slows_no_run_down)
{
    struct rng *rng = rng_create(1, 0, RNG_TEST);
    for (int i = 0; i < N_RUNS; i++) {
        struct run run;
        double flop, other;
        draw(rng, &run);
        for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
            const double now_s = run_s(&run, pass, &flop), limit_s = now_s * (1 + 1e-12);
            const struct device *device = &run.device;
            double best =
                fmax(device->gemm[PRECISION_BF16].efficiency, fmax(device->forward[run.setting.attention].efficiency,
                                                                   device->backward[run.setting.attention].efficiency));
            hold(flop <= best * device->peak_flop_per_s[PRECISION_BF16] * limit_s, "within the best kernel's rate",
                 &run, pass);
            struct run links = run, chip = run, longer = run;
            links.setting.platform = &links.platform;
            links.platform.nvlink_bytes_per_s *= 1 + rng_uniform(rng);
            links.platform.nic_bytes_per_s *= 1 + rng_uniform(rng);
            hold(run_s(&links, pass, &other) <= limit_s, "faster links", &run, pass);
            chip.setting.device = &chip.device;
            chip.device.peak_flop_per_s[PRECISION_BF16] *= 1 + rng_uniform(rng);
            chip.device.hbm_bytes_per_s *= 1 + rng_uniform(rng);
            hold(run_s(&chip, pass, &other) <= limit_s, "a faster chip", &run, pass);
            longer.slice.end *= 2;
            hold(run_s(&longer, pass, &other) >= now_s, "a longer sequence", &run, pass);
        }
    }
    rng_free(rng);
}

/* Memory grows with the tokens. A gather of the same bytes takes longer among more ranks, with the same number a
 * node. */
TEST(larger_work__takes_more_memory_and_time)
{
    struct rng *rng = rng_create(2, 0, RNG_TEST);
    for (int i = 0; i < N_RUNS; i++) {
        struct run run;
        draw(rng, &run);
        struct run longer = run;
        longer.slice.end *= 2;
        struct cost_micro_batch micro_batch = micro_batch_of(&run), more = micro_batch_of(&longer);
        hold(cost_workspace_bytes(&run.setting, &more) > cost_workspace_bytes(&run.setting, &micro_batch),
             "working memory", &run, PASS_BACKWARD);
        double bytes = 1e3 * pow(1e6, rng_uniform(rng));
        for (int32_t each = 1; each <= 8; each *= 2)
            for (int32_t ranks = each; ranks <= 2048; ranks *= 2) {
                enum device_collective_kind kind = rng_index(rng, 2) == 0 ? DEVICE_ALL_GATHER : DEVICE_REDUCE_SCATTER;
                double few_s = cost_of_rails(&run.setting, kind, COST_NIC, bytes, ranks, each).duration_s;
                double many_s = cost_of_rails(&run.setting, kind, COST_NIC, bytes, 2 * ranks, each).duration_s;
                hold(few_s < many_s, "more ranks", &run, PASS_BACKWARD);
            }
    }
    rng_free(rng);
}

/* Two samples in one micro-batch take no longer than in two. Twice the tensor or context ranks take not less than half
 * as long. So tokens a second and GPU grow with the micro-batch and fall with both degrees. */
TEST(scaling__gains_no_more_than_the_ranks_added)
{
    struct rng *rng = rng_create(3, 0, RNG_TEST);
    for (int i = 0; i < N_RUNS; i++) {
        struct run run;
        double flop;
        draw(rng, &run);
        for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
            struct run tensor = run, context = run;
            const double one_s = run_s(&run, pass, &flop);
            const struct slice samples[] = {run.slice, {1, 0, run.slice.end}};
            const struct cost_micro_batch both = {
                .slices = samples, .n_slices = 2, .context = run.context, .recompute = run.recompute};
            hold(micro_batch_s(&run, pass, &both) <= 2 * one_s * (1 + 1e-12), "a larger micro-batch", &run, pass);
            tensor.setting.tensor *= 2;
            hold(2 * run_s(&tensor, pass, &flop) >= one_s * (1 - 1e-12), "more tensor ranks", &run, pass);
            context.context *= 2;
            hold(2 * run_s(&context, pass, &flop) >= one_s * (1 - 1e-12), "more context ranks", &run, pass);
        }
    }
    rng_free(rng);
}

/* Attention of a micro-batch takes no less than the least of any sample in it. Context ranks share it by document or by
 * sequence. */
TEST(cost_attention_least_s__bounds_every_micro_batch)
{
    struct rng *rng = rng_create(4, 0, RNG_TEST);
    for (int i = 0; i < N_RUNS; i++) {
        struct run run;
        draw(rng, &run);
        struct slice samples[4] = {run.slice};
        for (int32_t k = 1; k < 4; k++)
            samples[k] = (struct slice){k, 0, 1 + (int32_t)rng_index(rng, run.slice.end)};
        for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
            const struct cost_setting *setting = &run.setting;
            double least_s =
                cost_n_layers(setting) * cost_attention_least_s(setting, 0, pass, run.slice.end, run.context);
            for (int32_t n = 1; n <= 4; n++) {
                struct cost_micro_batch micro_batch = {.slices = samples, .n_slices = n, .context = run.context};
                hold(cost_of_pass(setting, pass, &micro_batch).attention_s >= least_s * (1 - 1e-12), "the least", &run,
                     pass);
                if (run.plan.cp_type == SCENARIO_RING_CONTIGUOUS)
                    continue;
                micro_batch.sharding = SLICE_PER_SEQUENCE;
                hold(cost_of_pass(setting, pass, &micro_batch).attention_s >= least_s * (1 - 1e-12), "by sequence",
                     &run, pass);
            }
        }
    }
    rng_free(rng);
}
