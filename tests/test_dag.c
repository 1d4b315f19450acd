/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check the tasks and dependencies of plans. */
#include "dag/dag.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "bounds/critical_path.h"
#include "dag/builder.h"
#include "dag/relations.h"
#include "hand_dag.h"
#include "hand_memory.h"
#include "hand_plan.h"
#include "harness.h"
#include "plan/order.h"

/* Number a vertex of the figure by stage, pass and micro-batch of its cut. */
static int32_t vertex(const struct dag_task *task)
{
    return (task->stage * N_PASSES + task->pass) * 3 + task->micro_batch;
}

/* Find the kinds of edges between passes, with boundary sends contracted: kind[from][to], or -1 for none. */
static void contract(const struct dag *dag, int32_t kind[12][12])
{
    for (int32_t i = 0; i < 144; i++)
        kind[i / 12][i % 12] = -1;
    for (int32_t to = 0; to < dag->n_tasks; to++)
        for (int32_t i = dag->in_first[to]; i < dag->in_first[to + 1]; i++) {
            int32_t from = dag->in_task[i];
            if (dag->tasks[to].kind != DAG_COMPUTE)
                continue;
            if (dag->tasks[from].kind == DAG_SEND)
                from = dag->in_task[dag->in_first[from + 1] - 1]; /* the pass comes after the send before it */
            CHECK(dag->tasks[from].kind == DAG_COMPUTE);
            kind[vertex(&dag->tasks[from])][vertex(&dag->tasks[to])] = dag->in_kind[i];
        }
}

/* SlimPack's figure is "An DAG-based representation of a 1F1B pipeline with 2 stages and 2 input microbatches". All its
 * arrows are taken as drawn. Forward the micro-batches are (0,0), (0,1), 1; backward they are (0,1), (0,0), 1, as they
 * run. The figure draws four pairs in two colours (blue and red or green). Between two tasks we keep the data
 * dependency. Otherwise the sets are equal, redundant arrows (1,F,(0,0)) -> (1,B,(0,0)) included. */
TEST(dag_build__has_the_vertices_and_edges_of_the_figure)
{
    enum { F0 = 0, B0 = 3, F1 = 6, B1 = 9 }; /* first vertex of a stage and pass */
    enum { A = 0, B = 1, C = 2 };            /* forward (0,0), (0,1), 1 */
    enum { b = 0, a = 1, c = 2 };            /* backward (0,1), (0,0), 1 */
    static const int32_t red[][2] = {{F0 + A, F1 + A}, {F0 + B, F1 + B}, {F0 + C, F1 + C},
                                     {F1 + A, B1 + a}, {F1 + B, B1 + b}, {F1 + C, B1 + c},
                                     {B1 + a, B0 + a}, {B1 + b, B0 + b}, {B1 + c, B0 + c}};
    static const int32_t green[][2] = {{B0 + b, B0 + a}, {B1 + b, B1 + a}, {F0 + A, F0 + B}, {F1 + A, F1 + B}};
    static const int32_t blue[][2] = {{F1 + B, B1 + b}, {F0 + A, F0 + B}, {F0 + B, F0 + C}, {F0 + C, B0 + b},
                                      {F1 + A, F1 + B}, {B0 + b, B0 + a}, {B1 + b, F1 + C}, {F1 + C, B1 + a},
                                      {B0 + a, B0 + c}, {B1 + a, B1 + c}};
    struct plan plan;
    int32_t expected[12][12], found[12][12];
    hand_figure(&plan);
    struct dag dag = hand_built(&plan, hand_setting(), (struct dag_options){0});
    for (int32_t i = 0; i < 144; i++)
        expected[i / 12][i % 12] = -1;
    for (int i = 0; i < 10; i++)
        expected[blue[i][0]][blue[i][1]] = DAG_SCHEDULE;
    for (int i = 0; i < 4; i++)
        expected[green[i][0]][green[i][1]] = DAG_INTER_SLICE;
    for (int i = 0; i < 9; i++)
        expected[red[i][0]][red[i][1]] = DAG_INTER_STAGE;
    contract(&dag, found);
    for (int32_t i = 0; i < 144; i++)
        CHECK_EQUAL(found[i / 12][i % 12], expected[i / 12][i % 12]);
    CHECK_EQUAL(hand_count(&dag, DAG_COMPUTE, DAG_PASS), 12);
    CHECK_EQUAL(hand_count(&dag, DAG_SEND, DAG_BOUNDARY), 6);
    CHECK_EQUAL(dag.n_tasks, 18);
    dag_free(&dag);
    plan_free(&plan);
}

/* m micro-batches on p stages have 2mp passes and 2m(p-1) sends from neighbour to neighbour. A send takes the bytes of
 * one boundary at the route's bandwidth. Stages 0..5 are on GPUs 0..5 of one node. With two pipelines the stages are on
 * every second GPU. */
TEST(boundary__is_a_send_between_neighbours)
{
    struct plan plan;
    hand_uniform(&plan, 6, 5, 16);
    struct dag dag = hand_built(&plan, hand_setting(), (struct dag_options){0});
    CHECK_EQUAL(hand_count(&dag, DAG_COMPUTE, DAG_PASS), 60);
    CHECK_EQUAL(hand_count(&dag, DAG_SEND, DAG_BOUNDARY), 50);
    const struct plan_pipeline *pipeline = &plan.phases[0].pipelines[0];
    double bytes = dag_pass_cost(pipeline, hand_setting(), PASS_FORWARD, 0, 0).boundary_bytes;
    CHECK_CLOSE(bytes, 16 * 64 * 2.0, 1e-15); /* bf16 */
    for (int32_t i = 0; i < dag.n_tasks; i++) {
        if (dag.tasks[i].kind != DAG_SEND)
            continue;
        CHECK_EQUAL(abs(dag.tasks[i].to_rank - dag.tasks[i].from_rank), 1);
        CHECK_CLOSE(dag.duration_s[i], 1e-6 + bytes / 200e9, 1e-15);
    }
    dag_free(&dag);
    plan_free(&plan);
}

/* Two nodes of 4 GPUs are one NVLink domain. GPU 4 is on another node and in the same domain, GPU 8 in another one. */
TEST(boundary__takes_nvlink_inside_a_domain_of_two_nodes)
{
    const struct builder builder = {.setting = hand_rack_setting()};
    static const double seconds[] = {1e-6 + 2048 / 200e9, 2e-6 + 2048 / 50e9};
    for (int domains = 0; domains < 2; domains++) {
        int32_t to = 4 + 4 * domains;
        struct plan plan;
        hand_uniform(&plan, 2, 1, 16);
        plan.phases[0].pipelines[0].layout.stage_stride = to;
        struct dag dag = hand_built(&plan, hand_rack_setting(), (struct dag_options){0});
        int32_t send = hand_find(&dag, DAG_SEND, DAG_BOUNDARY, 0);
        CHECK_EQUAL(dag.tasks[send].to_rank, to);
        CHECK_CLOSE(dag.duration_s[send], seconds[domains], 1e-15);
        CHECK_EQUAL(builder_route(&builder, 0, to), domains == 0 ? COST_NVLINK : COST_NIC);
        dag_free(&dag);
        plan_free(&plan);
    }
}

/* The second stage is on another node. The same bytes take the NIC with its latency. */
TEST(boundary__takes_the_nic_between_nodes)
{
    struct plan plan;
    hand_uniform(&plan, 2, 1, 16);
    plan.phases[0].pipelines[0].layout.stage_stride = 8;
    struct dag dag = hand_built(&plan, hand_setting(), (struct dag_options){0});
    int32_t send = hand_find(&dag, DAG_SEND, DAG_BOUNDARY, 0);
    CHECK_EQUAL(dag.tasks[send].to_rank, 8);
    CHECK_CLOSE(dag.duration_s[send], 2e-6 + 2048 / 50e9, 1e-15);
    dag_free(&dag);
    plan_free(&plan);
}

/* An empty micro-batch sends nothing, but its stages still follow each other. */
TEST(empty_micro_batch__has_edges_without_sends)
{
    struct plan plan;
    hand_plan(&plan, 1, 2, 1);
    for (int pass = 0; pass < N_PASSES; pass++)
        plan_add_micro_batch(&plan.phases[0].pipelines[0].partition[pass]);
    hand_order(&plan);
    struct dag dag = hand_built(&plan, hand_setting(), (struct dag_options){0});
    CHECK_EQUAL(dag.n_tasks, 4);
    hand_times(&dag, 1.0, 2.0);
    CHECK_CLOSE(hand_makespan_s(&dag), 6.0, 1e-15);
    dag_free(&dag);
    plan_free(&plan);
}

/* Backward 0 runs first, and the forward it needs runs after it. One stream waits for itself. */
TEST(dag_build__names_an_order_that_waits_for_itself)
{
    struct plan plan;
    struct dag dag;
    struct error err = {0};
    hand_uniform(&plan, 2, 2, 16);
    struct plan_pipeline *pipeline = &plan.phases[0].pipelines[0];
    struct plan_step *steps = &pipeline->steps[pipeline->step_first[1]];
    for (int i = 0; i < 2; i++) { /* B0 F0 B1 F1 */
        *steps++ = (struct plan_step){PASS_BACKWARD, i, 0};
        *steps++ = (struct plan_step){PASS_FORWARD, i, 0};
    }
    CHECK_TRUE(!dag_build(&plan, hand_setting(), (struct dag_options){0}, &dag, &err));
    CHECK_CONTAINS(
        err.text,
        "pipeline 0, stage 1: backward micro-batch 0 waits for forward micro-batch 0 on stage 1, in a circle");
    CHECK_EQUAL(dag.n_tasks, 0);
    plan_free(&plan);
}

/* Both pipelines share two samples and run them in opposite orders. */
TEST(dag_build__names_groups_that_wait_for_each_other)
{
    struct plan plan;
    struct dag dag;
    struct error err = {0};
    hand_plan(&plan, 2, 1, 1);
    struct plan_phase *phase = &plan.phases[0];
    phase->n_groups = 2;
    phase->groups = check_calloc(2, sizeof *phase->groups);
    for (int g = 0; g < 2; g++) {
        phase->groups[g].n_pipelines = 2;
        phase->groups[g].pipelines = check_calloc(2, sizeof(int32_t));
        phase->groups[g].pipelines[1] = 1;
    }
    for (int i = 0; i < 2; i++)
        for (int pass = 0; pass < N_PASSES; pass++)
            for (int micro_batch = 0; micro_batch < 2; micro_batch++) {
                int32_t sample = i == 0 ? micro_batch : 1 - micro_batch;
                struct plan_micro_batch *part =
                    hand_micro_batch(&phase->pipelines[i].partition[pass], (struct slice){sample, 0, 16});
                part->context = 2;
                part->group = sample;
            }
    hand_order(&plan);
    CHECK_TRUE(!dag_build(&plan, hand_setting(), (struct dag_options){0}, &dag, &err));
    CHECK_CONTAINS(err.text, "forward micro-batch 0 waits for pipeline");
    CHECK_CONTAINS(err.text, "to run it with its group, in a circle");
    plan_free(&plan);
}

/* Both pipelines share two samples, whose backwards are the other way round in the cut. After the first forward one
 * goes on with the second. The other runs the backward of the first, the second one of its cut. So members of one group
 * are at micro-batches of one number, but of two passes. */
TEST(dag_build__names_a_group_whose_member_is_at_another_pass)
{
    struct plan plan;
    struct dag dag;
    struct error err = {0};
    hand_plan(&plan, 2, 1, 1);
    struct plan_phase *phase = &plan.phases[0];
    hand_group(phase, 2);
    for (int i = 0; i < 2; i++)
        for (int pass = 0; pass < N_PASSES; pass++)
            for (int micro_batch = 0; micro_batch < 2; micro_batch++) {
                int32_t sample = pass == PASS_FORWARD ? micro_batch : 1 - micro_batch;
                hand_micro_batch(&phase->pipelines[i].partition[pass], (struct slice){sample, 0, 16})->context = 2;
                phase->pipelines[i].partition[pass].micro_batches[micro_batch].group = 0;
            }
    hand_order(&plan);
    const struct plan_step orders[2][4] = {
        {{PASS_FORWARD, 0, 0}, {PASS_FORWARD, 1, 0}, {PASS_BACKWARD, 1, 0}, {PASS_BACKWARD, 0, 0}},
        {{PASS_FORWARD, 0, 0}, {PASS_BACKWARD, 1, 0}, {PASS_FORWARD, 1, 0}, {PASS_BACKWARD, 0, 0}}};
    for (int i = 0; i < 2; i++)
        memcpy(phase->pipelines[i].steps, orders[i], sizeof orders[i]);
    CHECK_TRUE(!dag_build(&plan, hand_setting(), (struct dag_options){0}, &dag, &err));
    CHECK_CONTAINS(err.text,
                   "pipeline 0, stage 0: forward micro-batch 1 waits for pipeline 1 to run it with its group, in a");
    plan_free(&plan);
}

/* The next stage never runs one of the backwards. */
TEST(dag_build__names_a_missing_step)
{
    struct plan plan;
    struct dag dag;
    struct error err = {0};
    hand_uniform(&plan, 2, 2, 16);
    struct plan_pipeline *pipeline = &plan.phases[0].pipelines[0];
    pipeline->step_first[2]--;
    CHECK_TRUE(!dag_build(&plan, hand_setting(), (struct dag_options){0}, &dag, &err));
    CHECK_CONTAINS(err.text,
                   "stage 0: backward micro-batch 1 waits for backward micro-batch 1 on stage 1, which has ended");
    plan_free(&plan);
}

/* Stages have 100, 640 and 100 layers. Passes take as long as so many layers take, the last one with the head. Stages
 * hold so many parameters. If 200 layers recompute, a stage recomputes no more than its own. */
TEST(dag_build__takes_stages_of_different_layers)
{
    struct plan plan;
    struct cost_setting setting = *hand_setting();
    hand_uniform(&plan, 3, 1, 16);
    hand_options(&setting, &(struct scenario_plan){.stages = {.first_layers = {1, 100}, .last_layers = {1, 100}}});
    hand_recompute_layers(&setting, 200);
    const struct plan_pipeline *pipeline = &plan.phases[0].pipelines[0];
    struct dag dag = hand_built(&plan, &setting, (struct dag_options){0});
    static const int32_t layers[] = {100, 640, 100};
    struct slice slice = {0, 0, 16};
    struct cost_micro_batch micro_batch = {.slices = &slice, .n_slices = 1, .context = 1};
    int32_t task = 0;
    for (int32_t stage = 0; stage < 3; stage++, task++) {
        struct cost_setting own = setting;
        hand_layers(&own, layers[stage]);
        struct cost_pass cost = cost_of_pass(&own, PASS_FORWARD, &micro_batch),
                         head = cost_of_head(&own, PASS_FORWARD, &micro_batch);
        struct cost_pass embedding = cost_of_embedding(&own, PASS_FORWARD, &micro_batch);
        task = hand_find(&dag, DAG_COMPUTE, DAG_PASS, task);
        CHECK_EQUAL(dag.tasks[task].stage, stage);
        CHECK_CLOSE(dag.duration_s[task],
                    cost.kernels_s + cost.attention_s + (stage == 2 ? head.kernels_s : 0) +
                        (stage == 0 ? embedding.kernels_s : 0),
                    1e-14);
        CHECK_EQUAL(dag_setting(&setting, &pipeline->layout, stage).runs[0].again, stage == 1 ? 200 : 100);
        CHECK_CLOSE(dag_stage_parameters(&setting, &pipeline->layout, stage),
                    hand_stage_parameters(setting.model, 1, layers[stage], stage == 0, stage == 2), 0);
    }
    dag_free(&dag);
    plan_free(&plan);
}

/* A second phase on the same GPUs waits for all of the first. Then it waits for 2e6 bytes from GPU 0 to GPU 1 and 1
 * us. */
TEST(phase__waits_for_the_one_before_and_for_its_resharding)
{
    struct plan plan, second;
    hand_uniform(&plan, 2, 3, 16);
    hand_uniform(&second, 1, 2, 16);
    hand_append(&plan, &second);
    plan.phases[1].n_reshards = 1;
    plan.phases[1].reshards = check_malloc(sizeof(struct plan_reshard));
    plan.phases[1].reshards[0] = (struct plan_reshard){0, 1, 2e6};
    struct dag dag = hand_built(&plan, hand_setting(), (struct dag_options){0});
    int32_t send = hand_find(&dag, DAG_SEND, DAG_RESHARD, 0);
    CHECK_CLOSE(dag.duration_s[send], 1e-6 + 2e6 / 200e9, 1e-15);
    hand_times(&dag, 1.0, 2.0);
    dag.duration_s[send] = 5.0;
    CHECK_CLOSE(hand_makespan_s(&dag), 4 * 3.0 + 5.0 + 2 * 3.0, 1e-15);
    dag_free(&dag);
    plan_free(&plan);
}

/* TP is 8 on each of two nodes. Every GPU of the first sends 5e9 bytes to its counterpart and to the next one on the
 * second node. It sends 20e9 to its neighbour. Its NIC takes 2 (2 us + 0.1 s), and NVLink at the same time 1 us + 0.1
 * s. One place may stand for all eight, or each may have its own. No receiver has two senders, so SimGrid says the
 * same. */
TEST(reshard__uses_both_routes_of_every_folded_gpu)
{
    struct platform platform = hand_platform("hopper-2x8");
    struct plan plan;
    hand_plan(&plan, 2, 1, 1);
    struct plan_phase *phase = &plan.phases[0];
    for (int32_t i = 0; i < 2; i++) {
        phase->pipelines[i].layout.tensor = 8;
        phase->pipelines[i].layout.first_rank = 8 * i;
        for (int pass = 0; pass < N_PASSES; pass++)
            hand_micro_batch(&phase->pipelines[i].partition[pass], (struct slice){i, 0, 16});
    }
    hand_order(&plan);
    phase->n_reshards = 3 * 8;
    phase->reshards = check_malloc(3 * 8 * sizeof *phase->reshards);
    for (int32_t i = 0; i < 8; i++) {
        phase->reshards[3 * i] = (struct plan_reshard){i, 8 + i, 5e9};
        phase->reshards[3 * i + 1] = (struct plan_reshard){i, 8 + (i + 1) % 8, 5e9};
        phase->reshards[3 * i + 2] = (struct plan_reshard){i, (i + 1) % 8, 20e9};
    }
    for (int all = 0; all < 2; all++) {
        struct dag dag = hand_built(&plan, hand_setting(), (struct dag_options){.all_tensor_ranks = all == 1});
        struct timeline timeline = {0};
        critical_path(&dag, &timeline);
        CHECK_EQUAL(hand_count(&dag, DAG_SEND, DAG_RESHARD), 24);
        for (int32_t i = 0; i < dag.n_tasks; i++)
            if (dag.tasks[i].kind == DAG_COMPUTE && dag.tasks[i].pass == PASS_FORWARD)
                CHECK_CLOSE(timeline.start_s[i], 2 * (2e-6 + 0.1), 1e-12);
        hand_engines_agree(&dag, &platform);
        timeline_free(&timeline);
        dag_free(&dag);
    }
    plan_free(&plan);
}

/* Two stages run m micro-batches with forward 1, backward 2, sends 1. Stage 0 runs F0 0-1, and F1 at 1, sent or not. If
 * it waits for its sends, it begins F1 at 2. Then stage 1 has F0 2-3 and B0 3-5, and stage 0 B0 6-8 (sent 5-6). One
 * micro-batch takes 1 + 1 + 3 + 1 + 2. With two, stage 1 runs F1 from 5, after B0 (if it waits for B0's send, from 6).
 * F1 ends at 6 (7), B1 at 8 (9). It is sent until 9 (10), and stage 0's B1 ends at 11 (12). */
TEST(blocking_sends__hold_the_stage)
{
    const double expected_s[][2] = {
        [SCENARIO_STAGES_WAIT] = {8, 12}, [SCENARIO_STAGES_OVERLAP] = {8, 11}, [SCENARIO_STAGES_INTERLEAVED] = {8, 12}};
    for (int32_t overlap = SCENARIO_STAGES_WAIT; overlap <= SCENARIO_STAGES_INTERLEAVED; overlap++)
        for (int32_t m = 1; m <= 2; m++) {
            struct plan plan;
            struct cost_setting setting = *hand_setting();
            setting.pp_overlap = overlap;
            hand_uniform(&plan, 2, m, 16);
            struct dag dag = hand_built(&plan, &setting, (struct dag_options){0});
            for (int32_t i = 0; i < dag.n_tasks; i++)
                dag.duration_s[i] = dag.tasks[i].kind == DAG_COMPUTE && dag.tasks[i].pass == PASS_BACKWARD ? 2.0 : 1.0;
            CHECK_CLOSE(hand_makespan_s(&dag), expected_s[overlap][m - 1], 1e-15);
            dag_free(&dag);
            plan_free(&plan);
        }
}

/* A stage has two chunks. Micro-batch 0 crosses stages 0, 1, 0, 1 forward and back. With one micro-batch all eight
 * passes are in line. */
TEST(chunks__are_virtual_stages)
{
    struct plan plan;
    hand_uniform(&plan, 2, 1, 16);
    struct plan_pipeline *pipeline = &plan.phases[0].pipelines[0];
    pipeline->layout.chunks = 2;
    pipeline->steps = check_realloc(pipeline->steps, 8 * sizeof *pipeline->steps);
    for (int32_t stage = 0; stage < 2; stage++) {
        struct plan_step steps[] = {
            {PASS_FORWARD, 0, 0}, {PASS_FORWARD, 0, 1}, {PASS_BACKWARD, 0, 1}, {PASS_BACKWARD, 0, 0}};
        memcpy(pipeline->steps + pipeline->step_first[stage], steps, sizeof steps);
        pipeline->step_first[stage + 1] = pipeline->step_first[stage] + 4;
    }
    struct dag dag = hand_built(&plan, hand_setting(), (struct dag_options){0});
    CHECK_EQUAL(hand_count(&dag, DAG_COMPUTE, DAG_PASS), 8);
    CHECK_EQUAL(hand_count(&dag, DAG_SEND, DAG_BOUNDARY), 6);
    hand_times(&dag, 1.0, 2.0);
    CHECK_CLOSE(hand_makespan_s(&dag), 12.0, 1e-15);
    dag_free(&dag);
    plan_free(&plan);
}

/* In the arrays of another graph, larger or smaller, a plan gives the graph that it gives alone. */
TEST(dag_rebuild__gives_the_same_graph_in_used_arrays)
{
    struct dag again = {0};
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct plan plan;
        struct error err = {0};
        hand_random(&plan, seed);
        struct dag dag = hand_built(&plan, hand_setting(), (struct dag_options){.gradient_sync = true});
        CHECK_TRUE(dag_rebuild(&plan, hand_setting(), (struct dag_options){.gradient_sync = true}, &again, &err));
        size_t n = (size_t)dag.n_tasks, n_edges = (size_t)dag.n_edges;
        CHECK_EQUAL(again.n_tasks, n);
        CHECK_EQUAL(again.n_edges, n_edges);
        CHECK_TRUE(memcmp(again.tasks, dag.tasks, n * sizeof *dag.tasks) == 0);
        CHECK_TRUE(memcmp(again.duration_s, dag.duration_s, n * sizeof *dag.duration_s) == 0);
        CHECK_TRUE(memcmp(again.in_first, dag.in_first, (n + 1) * sizeof *dag.in_first) == 0);
        CHECK_TRUE(memcmp(again.in_task, dag.in_task, n_edges * sizeof *dag.in_task) == 0);
        CHECK_TRUE(memcmp(again.in_kind, dag.in_kind, n_edges) == 0);
        dag_free(&dag);
        plan_free(&plan);
    }
    dag_free(&again);
}

/* Each task is once in the list of its stream, in order of numbers. */
TEST(streams__list_their_tasks_in_order)
{
    struct plan plan;
    hand_random(&plan, 3);
    struct dag dag = hand_built(&plan, hand_setting(), (struct dag_options){.gradient_sync = true});
    int32_t n = 0;
    for (int32_t stream = 0; stream < dag_n_streams(&dag); stream++)
        for (int32_t task = dag.stream_first[stream], last = -1; task >= 0; task = dag.stream_next[task], n++) {
            CHECK_TRUE(task > last && dag.tasks[task].stream == stream);
            last = task;
        }
    CHECK_EQUAL(n, dag.n_tasks);
    dag_free(&dag);
    plan_free(&plan);
}

/* Compare two graphs of a plan stream by stream: the same tasks run at the same times, to the last bit. */
static bool same_times(const struct dag *a, const struct timeline *at_a, const struct dag *b,
                       const struct timeline *at_b)
{
    bool same = a->n_tasks == b->n_tasks && at_a->makespan_s == at_b->makespan_s;
    for (int32_t stream = 0; same && stream < dag_n_streams(a); stream++) {
        int32_t x = a->stream_first[stream], y = b->stream_first[stream];
        for (; same && x >= 0 && y >= 0; x = a->stream_next[x], y = b->stream_next[y])
            same = memcmp(&a->tasks[x], &b->tasks[y], sizeof *a->tasks) == 0 && a->duration_s[x] == b->duration_s[y] &&
                   at_a->start_s[x] == at_b->start_s[y] && at_a->finish_s[x] == at_b->finish_s[y];
        same = same && x == y;
    }
    return same;
}

/* Draw other shares for the host on each virtual stage: none for two micro-batches of three, or for all. */
static void draw_shares(struct plan_pipeline *pipeline, uint64_t seed)
{
    int32_t n = pipeline->partition[PASS_FORWARD].n_micro_batches * pipeline->layout.stages * pipeline->layout.chunks;
    if (pipeline->offload == NULL)
        pipeline->offload = check_malloc((size_t)n * sizeof *pipeline->offload);
    for (int32_t i = 0; i < n; i++)
        pipeline->offload[i] = (hash_bytes(seed, &i, sizeof i) >> 16) % 3 == 0 ? (double)(1 + i % 4) / 4 : 0;
}

/* The shares of random plans change: none, the micro-batches' own, drawn ones. Times and memory are those of a new
 * graph. */
TEST(dag_rebuild__gives_the_same_graph_as_a_new_build)
{
    struct dag again = {0};
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct plan plan;
        struct error err = {0};
        struct cost_setting setting = *hand_setting_of_heads(seed / 2);
        setting.cp_overlap = seed % 2 == 0;
        hand_options(&setting, &(struct scenario_plan){.cp_type = seed % 3 == 0 ? SCENARIO_ULYSSES : SCENARIO_RING});
        hand_random(&plan, seed);
        for (uint64_t round = 0; round < 4; round++) {
            struct hand_run run = {0};
            struct timeline timeline = {0};
            struct memory memory = {0};
            for (int32_t i = 0; round > 0 && i < plan.phases[0].n_pipelines; i++)
                draw_shares(&plan.phases[0].pipelines[i], 4 * seed + round);
            run.dag = hand_built(&plan, &setting, (struct dag_options){0});
            critical_path(&run.dag, &run.timeline);
            memory_of(&plan, &run.dag, &run.timeline, &setting, false, &run.memory);
            CHECK_TRUE(dag_rebuild(&plan, &setting, (struct dag_options){0}, &again, &err));
            critical_path(&again, &timeline);
            memory_of(&plan, &again, &timeline, &setting, false, &memory);
            size_t n = (size_t)memory.n_ranks * sizeof(double);
            CHECK_TRUE(same_times(&run.dag, &run.timeline, &again, &timeline));
            CHECK_TRUE(memcmp(memory.peak_bytes, run.memory.peak_bytes, n) == 0);
            CHECK_TRUE(memcmp(memory.host_peak_bytes, run.memory.host_peak_bytes, n) == 0);
            memory_free(&memory);
            timeline_free(&timeline);
            hand_close_run(&run);
        }
        plan_free(&plan);
    }
    dag_free(&again);
}

/* One stage of P parameters runs three micro-batches in order, and makespans are sums of passes. Autograd adds bf16
 * gradients, 6 bytes a parameter, in all backwards but the first. A stage of two has the parameters of its own. */
TEST(gradient_accumulation__adds_nothing_to_the_first_backward)
{
    struct cost_setting setting = *hand_setting();
    struct platform platform = hand_platform("hopper-1x8");
    setting.gradients = SCENARIO_BF16;
    setting.gradient_accumulation = SCENARIO_ACCUMULATE_AUTOGRAD;
    for (int32_t stages = 1; stages <= 2; stages++) {
        struct plan plan;
        double all_s = 0;
        hand_uniform(&plan, stages, 3, 16);
        const struct plan_pipeline *pipeline = plan.phases[0].pipelines;
        for (int32_t stage = 0; stage < stages; stage++) {
            double parameters = hand_stage_parameters(setting.model, 1, 840 / stages, stage == 0, stage == stages - 1);
            struct cost_pass first = dag_pass_cost(pipeline, &setting, PASS_BACKWARD, 0, stage);
            for (int32_t i = 0; i < 3; i++) {
                struct cost_pass forward = dag_pass_cost(pipeline, &setting, PASS_FORWARD, i, stage),
                                 backward = dag_pass_cost(pipeline, &setting, PASS_BACKWARD, i, stage);
                double added_s = i == 0 ? 0 : cost_memory_bound_s(setting.device, DEVICE_COPY, 6 * parameters);
                CHECK_CLOSE(cost_pass_s(&backward), cost_pass_s(&first) + added_s, 1e-12);
                all_s += cost_pass_s(&forward) + cost_pass_s(&backward);
            }
        }
        struct dag dag = hand_built(&plan, &setting, (struct dag_options){0});
        if (stages == 1)
            CHECK_CLOSE(hand_makespan_s(&dag), all_s, 1e-12);
        hand_engines_agree(&dag, &platform);
        dag_free(&dag);
        plan_free(&plan);
    }
}
