/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests count the kernels that a host launches in a pass, and check that a pass waits for them. */
#include "bounds/path_time.h"
#include "bounds/work.h"
#include "hand_cost.h"
#include "hand_memory.h"
#include "hand_model.h"
#include "hand_plan.h"
#include "harness.h"
#include "plan/request.h"
#include "scenario/scenario_read.h"
#include "scenario_fixture.h"

/* Make a setting whose host launches a kernel outside layers in a second, and one of a layer in `layer_kernel_s`. */
static struct cost_setting launching(const struct model *model, int32_t tensor, double layer_kernel_s)
{
    struct scenario_plan plan = hand_toy_plan;
    plan.tp = tensor;
    struct cost_setting setting = hand_toy_setting_of(&plan);
    setting.tensor = tensor;
    setting.model = model;
    setting.host = (struct cost_host){{1, 0}, {layer_kernel_s, 0}, 0};
    hand_layers(&setting, (int32_t)model->layers);
    return setting;
}

static double host_s(const struct cost_setting *setting, enum pass pass, enum recompute recompute)
{
    const struct slice slice = {0, 0, 8};
    const struct cost_micro_batch micro_batch = {.slices = &slice, .n_slices = 1, .context = 1, .recompute = recompute};
    return cost_of_pass(setting, pass, &micro_batch).host_s;
}

/*
 * A layer of hand_toy has 4 GEMMs, attention, 2 norms, an activation, 2 residual adds and 2 rotations: 12 kernels.
 * Backward GEMMs are 8 and attention has 3 kernels: 18. With TP 2 each GEMM has a collective forward. Backward each
 * row-split one has one, and each column-split one two. A split backward has the 4 weight gradients and 2 gathers in
 * the pass of the weights.
 */
TEST(host__launches_the_kernels_and_collectives_of_each_layer)
{
    struct cost_setting one = launching(&hand_toy, 1, 1), two = launching(&hand_toy, 2, 1);
    CHECK_CLOSE(host_s(&one, PASS_FORWARD, RECOMPUTE_NONE), 3 * 12, 1e-14);
    CHECK_CLOSE(host_s(&one, PASS_BACKWARD, RECOMPUTE_NONE), 3 * (8 + 3 + 7), 1e-14);
    CHECK_CLOSE(host_s(&two, PASS_FORWARD, RECOMPUTE_NONE), 3 * (12 + 4), 1e-14);
    CHECK_CLOSE(host_s(&two, PASS_BACKWARD, RECOMPUTE_NONE), 3 * (18 + 2 + 2 * 2), 1e-14);
    CHECK_CLOSE(host_s(&two, PASS_WEIGHT, RECOMPUTE_NONE), 3 * (4 + 2), 1e-14);
    CHECK_CLOSE(host_s(&two, PASS_INPUT, RECOMPUTE_NONE), 3 * (14 + 4), 1e-14);
    CHECK_CLOSE(host_s(&two, PASS_BACKWARD, RECOMPUTE_FULL), 3 * (24 + 16), 1e-14);
    CHECK_CLOSE(host_s(&two, PASS_BACKWARD, RECOMPUTE_NORM), 3 * (24 + 2), 1e-14);
    two.early_stop = true; /* without the down GEMM, its reduce-scatter and the residual add */
    CHECK_CLOSE(host_s(&two, PASS_BACKWARD, RECOMPUTE_FULL), 3 * (24 + 16 - 3), 1e-14);
}

/* Eager SwiGLU has 8 kernels a norm in place of one, 5 a rotation, and 2 forward and 3 backward of SwiGLU. Backward
 * the gradients of a joint QKV are joined. Projections of their own are 7 GEMMs in place of 4, and 3 sums of their
 * inputs' gradients in place of the join. GELU with biases and learned positions has 10 kernels forward, which
 * model/validation/steps.csv counts, too (M001). Backward there are 4 sums of biases, 2 of norms and a join more, but
 * no rotations. Dropout is a kernel of each residual, if it is not fused into the add. */
TEST(host__launches_single_operations)
{
    struct model gpt = hand_toy;
    gpt.positions = 8;
    gpt.kinds[0].activation = MODEL_GELU;
    gpt.kinds[0].biases = true;
    struct cost_setting llama = launching(&hand_toy, 1, 1), setting = launching(&gpt, 1, 1);
    llama.kernels = setting.kernels = SCENARIO_EAGER;
    CHECK_CLOSE(host_s(&llama, PASS_FORWARD, RECOMPUTE_NONE), 3 * (4 + 1 + 2 * 8 + 2 + 2 + 2 * 5), 1e-14);
    CHECK_CLOSE(host_s(&llama, PASS_BACKWARD, RECOMPUTE_NONE), 3 * (8 + 3 + 2 * 8 + 3 + 2 + 2 * 5 + 1), 1e-14);
    llama.single = COST_SINGLE_QKV | COST_SINGLE_GATE_UP;
    CHECK_CLOSE(host_s(&llama, PASS_FORWARD, RECOMPUTE_NONE), 3 * (7 + 1 + 2 * 8 + 2 + 2 + 2 * 5), 1e-14);
    CHECK_CLOSE(host_s(&llama, PASS_BACKWARD, RECOMPUTE_NONE), 3 * (14 + 3 + 2 * 8 + 3 + 2 + 2 * 5 + 3), 1e-14);
    CHECK_CLOSE(host_s(&setting, PASS_FORWARD, RECOMPUTE_NONE), 3 * 10, 1e-14);
    CHECK_CLOSE(host_s(&setting, PASS_BACKWARD, RECOMPUTE_NONE), 3 * (8 + 4 + 3 + 5 + 2 + 1), 1e-14);
    gpt.dropout = true;
    CHECK_CLOSE(host_s(&setting, PASS_FORWARD, RECOMPUTE_NONE), 3 * 12, 1e-14);
    setting.kernels = SCENARIO_FUSED;
    CHECK_CLOSE(host_s(&setting, PASS_FORWARD, RECOMPUTE_NONE), 3 * 10, 1e-14);
    setting.attention = DEVICE_UNFUSED; /* scores, softmax, dropout, output; backward 4 GEMMs */
    CHECK_CLOSE(host_s(&setting, PASS_FORWARD, RECOMPUTE_NONE), 3 * (10 + 3), 1e-14);
}

/* A layer's graph takes 100 s and each kernel in it 0.25. Without tokens nothing is launched. */
TEST(host__launches_a_graph_of_each_layer)
{
    struct cost_setting setting = launching(&hand_toy, 1, 0.25);
    struct cost_micro_batch empty = {.context = 1};
    setting.host.layer_s = 100;
    CHECK_CLOSE(host_s(&setting, PASS_FORWARD, RECOMPUTE_NONE), 3 * (100 + 0.25 * 12), 1e-14);
    CHECK_TRUE(cost_of_pass(&setting, PASS_FORWARD, &empty).host_s == 0);
    CHECK_TRUE(cost_of_head(&setting, PASS_FORWARD, &empty).host_s == 0);
}

/* The GPU's 8 s hide a host's 6 s. It waits for 12 of 20 s. Head and embedding are part of the pass, so their kernels
 * hide launches of the layers. */
TEST(pass__waits_for_the_host)
{
    struct cost_pass layers = {.kernels_s = 1, .attention_s = 1, .tensor_s = 2, .shard_s = 3, .context_s = 1};
    const struct cost_pass head = {.kernels_s = 30, .host_s = 2};
    layers.host_s = 6;
    CHECK_TRUE(cost_pass_s(&layers) == 8 && cost_wait_s(&layers) == 0);
    layers.host_s = 20;
    CHECK_TRUE(cost_pass_s(&layers) == 20 && cost_wait_s(&layers) == 12 && cost_gpu_s(&layers) == 8);
    cost_add_pass(&layers, &head);
    CHECK_TRUE(cost_pass_s(&layers) == 38 && cost_wait_s(&layers) == 0);
}

/* With blocking launches the GPU's 8 s hide none of the host's 6 s, nor of the head's 2 s. */
TEST(pass__waits_for_each_blocking_launch)
{
    struct cost_setting setting = launching(&hand_toy, 1, 1);
    struct cost_pass cost = {.kernels_s = 8, .host_s = 6, .blocked_s = 6};
    const struct cost_pass head = {.kernels_s = 30, .host_s = 2, .blocked_s = 2};
    const struct slice slice = {0, 0, 8};
    const struct cost_micro_batch micro_batch = {.slices = &slice, .n_slices = 1, .context = 1};
    CHECK_TRUE(cost_pass_s(&cost) == 14 && cost_wait_s(&cost) == 6);
    cost_add_pass(&cost, &head);
    CHECK_TRUE(cost_pass_s(&cost) == 46 && cost_wait_s(&cost) == 8);
    setting.host.layer_kernel.blocked_s = 1;
    cost = cost_of_pass(&setting, PASS_FORWARD, &micro_batch);
    CHECK_CLOSE(cost.blocked_s, 3 * 12, 1e-14);
    CHECK_CLOSE(cost_pass_s(&cost), cost_gpu_s(&cost) + 3 * 12, 1e-14);
}

/* The graph's times hold the waits, and so do the sums of work and of the critical path. In one forward and backward
 * the host launches the kernels of 840 layers, of the head (3 and 4) and of the embedding (1 and 2). */
TEST(graph__waits_for_the_host)
{
    struct cost_setting setting = *hand_setting();
    struct plan plan;
    struct hand_run run;
    setting.host = (struct cost_host){{1, 0}, {1e6, 0}, 0};
    hand_uniform(&plan, 1, 1, 8);
    hand_open_run(&run, &plan, &setting, false);
    double passes_s = 840e6 * (12 + 18) + (3 + 1) + (4 + 2);
    struct work work = work_of(&plan, &run.dag, &setting);
    struct path_time path = path_time_of(&plan, &run.dag, &setting, &run.timeline);
    CHECK_CLOSE(work.pass_s, passes_s, 1e-14);
    CHECK_CLOSE(work.wait_s, passes_s - work.kernels_s, 1e-14);
    CHECK_CLOSE(path.seconds[PATH_LAUNCHES], work.wait_s, 1e-14);
    hand_close_run(&run);
    plan_free(&plan);
}

/* Return the host's times in a scenario with one change. */
static struct cost_host host_with(const char *change, struct error *err)
{
    static const char text[] = "model: llama-13b\ndevice: h800\nplatform: {nodes: 1, gpus_per_node: 8, nvlink: "
                               "200GBps, nic: 50GBps, pcie: 25GBps, "
                               "host_memory: 1TB}\n"
                               "data: {lengths: fixed, context: 4Ki, global_batch: 8}\n"
                               "communication: {tp_overlap: none, pp_overlap: false, dp_overlap: none}\n"
                               "host: {launch: 8us, graph: 15us, graph_kernel: 0.5us}\n"
                               "systems: [{name: best-fit, plan: {tp: 1, pp: 1}}]\n";
    struct scenario scenario;
    fixture_data("pass_cost");
    if (!scenario_read(fixture_write("pass_cost/run.yaml", text), 1, &change, &scenario, err))
        return (struct cost_host){0};
    struct cost_host host = request_setting(&scenario, &scenario.systems[0].plan).host;
    scenario_free(&scenario);
    return host;
}

TEST(cuda_graphs__decide_what_the_host_launches)
{
    struct error err = {0};
    struct cost_host none = host_with("cuda_graphs=none", &err), layer = host_with("cuda_graphs=layer", &err),
                     full = host_with("cuda_graphs=full", &err),
                     blocking = host_with("cuda_launch_blocking=true", &err);
    CHECK_TEXT(err.text, "");
    CHECK_TRUE(none.kernel.host_s == 8e-6 && none.layer_kernel.host_s == 8e-6 && none.layer_s == 0);
    CHECK_TRUE(layer.kernel.host_s == 8e-6 && layer.layer_kernel.host_s == 0.5e-6 && layer.layer_s == 15e-6);
    CHECK_TRUE(full.kernel.host_s == 0 && full.layer_kernel.host_s == 0 && full.layer_s == 0);
    CHECK_TRUE(blocking.kernel.blocked_s == 8e-6 && blocking.layer_kernel.blocked_s == 8e-6);
    CHECK_TRUE(none.kernel.blocked_s == 0 && none.layer_kernel.blocked_s == 0);
    host_with("host.launch=-1us", &err);
    CHECK_CONTAINS(err.text, "host.launch");
}

TEST(cuda_graphs__need_equal_shapes)
{
    static const char *const set[] = {"cuda_graphs=layer", "data.lengths=github"};
    struct scenario scenario;
    struct error err = {0};
    (void)host_with("cuda_graphs=none", &err);
    CHECK_TRUE(!scenario_read(harness_path("pass_cost/run.yaml"), 2, set, &scenario, &err));
    CHECK_CONTAINS(err.text, "cuda_graphs: a graph repeats kernels of the same shapes, and data.lengths is not fixed; "
                             "allowed: none, or data.lengths fixed");
}

TEST(blocking_launches__run_nothing_beside_a_kernel)
{
    static const char *const set[] = {"cuda_launch_blocking=true", "cuda_graphs=layer"},
                             *const overlap[] = {"communication.tp_overlap=bulk", "communication.pp_overlap=true",
                                                 "communication.dp_overlap=gradients"};
    struct scenario scenario;
    struct error err = {0};
    (void)host_with("cuda_graphs=none", &err);
    CHECK_TRUE(!scenario_read(harness_path("pass_cost/run.yaml"), 2, set, &scenario, &err));
    CHECK_CONTAINS(err.text, "cuda_launch_blocking: the host would wait for each CUDA graph, which is not modelled; "
                             "allowed: false, or cuda_graphs none");
    for (int i = 0; i < 3; i++) {
        const char *const both[] = {set[0], overlap[i]};
        err = (struct error){0};
        CHECK_TRUE(!scenario_read(harness_path("pass_cost/run.yaml"), 2, both, &scenario, &err));
        CHECK_CONTAINS(err.text, "cuda_launch_blocking: no collective would run beside a kernel; allowed: false, or "
                                 "communication.tp_overlap none, pp_overlap false and dp_overlap none");
    }
}
