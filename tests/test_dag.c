/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "dag/dag.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "bounds/critical_path.h"
#include "dag/relations.h"
#include "hand_dag.h"
#include "hand_plan.h"
#include "harness.h"
#include "plan/order.h"

static int32_t count(const struct dag *dag, enum dag_kind kind, enum dag_purpose purpose)
{
    int32_t n = 0;
    for (int32_t i = 0; i < dag->n_tasks; i++)
        n += dag->tasks[i].kind == kind && dag->tasks[i].purpose == purpose;
    return n;
}

static int32_t find(const struct dag *dag, enum dag_kind kind, enum dag_purpose purpose, int32_t from)
{
    while (from < dag->n_tasks && (dag->tasks[from].kind != kind || dag->tasks[from].purpose != purpose))
        from++;
    CHECK(from < dag->n_tasks);
    return from;
}

/* A vertex of the figure as one number: stage, pass, unit of its cut. */
static int32_t vertex(const struct dag_task *task)
{
    return (task->stage * N_PASSES + task->pass) * 3 + task->unit;
}

/* Edge kinds between passes, boundary sends contracted: kind[from][to], -1: none. */
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

/*
 * SlimPack, figure "An DAG-based representation of a 1F1B pipeline with 2 stages and 2 input microbatches": all its
 * arrows as drawn. Units: (0,0), (0,1), 1 forward; (0,1), (0,0), 1 backward, as they run. The figure draws four pairs
 * in two colours (blue and red or green); between two tasks we keep the data dependency. The sets are equal otherwise,
 * redundant arrows (1,F,(0,0)) -> (1,B,(0,0)) included.
 */
TEST(the_papers_figure_has_these_vertices_and_edges)
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
    CHECK_EQUAL(count(&dag, DAG_COMPUTE, DAG_PASS), 12);
    CHECK_EQUAL(count(&dag, DAG_SEND, DAG_BOUNDARY), 6);
    CHECK_EQUAL(dag.n_tasks, 18);
    dag_free(&dag);
    plan_free(&plan);
}

/* m units on p stages: 2mp passes, 2m(p-1) sends from neighbour to neighbour, bytes of one boundary at the route's
 * bandwidth. Stages 0..5 stand on GPUs 0..5 of one node, with two pipelines a stage on every second GPU. */
TEST(boundaries_are_sends_between_neighbours)
{
    struct plan plan;
    hand_uniform(&plan, 6, 5, 16);
    struct dag dag = hand_built(&plan, hand_setting(), (struct dag_options){0});
    CHECK_EQUAL(count(&dag, DAG_COMPUTE, DAG_PASS), 60);
    CHECK_EQUAL(count(&dag, DAG_SEND, DAG_BOUNDARY), 50);
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

/* The second stage on another node: the same bytes over the NIC with its latency. */
TEST(boundaries_between_nodes_take_the_nic)
{
    struct plan plan;
    hand_uniform(&plan, 2, 1, 16);
    plan.phases[0].pipelines[0].layout.stage_stride = 8;
    struct dag dag = hand_built(&plan, hand_setting(), (struct dag_options){0});
    int32_t send = find(&dag, DAG_SEND, DAG_BOUNDARY, 0);
    CHECK_EQUAL(dag.tasks[send].to_rank, 8);
    CHECK_CLOSE(dag.duration_s[send], 2e-6 + 2048 / 50e9, 1e-15);
    dag_free(&dag);
    plan_free(&plan);
}

/* An empty unit sends nothing, but its stages still follow each other. */
TEST(an_empty_unit_has_edges_without_sends)
{
    struct plan plan;
    hand_plan(&plan, 1, 2, 1);
    for (int pass = 0; pass < N_PASSES; pass++)
        plan_add_unit(&plan.phases[0].pipelines[0].cut[pass]);
    hand_order(&plan);
    struct dag dag = hand_built(&plan, hand_setting(), (struct dag_options){0});
    CHECK_EQUAL(dag.n_tasks, 4);
    hand_times(&dag, 1.0, 2.0);
    CHECK_CLOSE(hand_makespan_s(&dag), 6.0, 1e-15);
    dag_free(&dag);
    plan_free(&plan);
}

/* Sample 0 is cut forward at 4 of 12 tokens and backward at 6: the backward units [6,12) and [0,6) consume 6 tokens of
 * forward unit 1, and 2 of unit 1 with 4 of unit 0. Sample 1 is whole, and stands in the second unit of both cuts. */
TEST(units_of_different_cuts_are_related_token_by_token)
{
    struct plan plan;
    struct relations relations;
    hand_plan(&plan, 1, 1, 1);
    struct plan_cut *cut = plan.phases[0].pipelines[0].cut;
    hand_unit(&cut[PASS_FORWARD], (struct slice){0, 0, 4});
    plan_add_slice(&cut[PASS_FORWARD], (struct slice){0, 4, 12});
    hand_unit(&cut[PASS_FORWARD], (struct slice){1, 0, 3});
    hand_unit(&cut[PASS_BACKWARD], (struct slice){0, 6, 12});
    plan_add_slice(&cut[PASS_BACKWARD], (struct slice){0, 0, 6});
    hand_unit(&cut[PASS_BACKWARD], (struct slice){1, 0, 3});
    hand_order(&plan);
    relations_of(&plan.phases[0].pipelines[0], &relations);
    static const struct relations_share shares[] = {{1, 0, 6}, {1, 3, 2}, {0, 0, 4}};
    CHECK_EQUAL(relations.share_first[1], 1);
    CHECK_EQUAL(relations.share_first[2], 3);
    for (int i = 0; i < 3; i++)
        CHECK_TRUE(memcmp(&relations.shares[i], &shares[i], sizeof shares[i]) == 0);
    CHECK_EQUAL(relations.after_first[PASS_FORWARD][2], 1);
    CHECK_EQUAL(relations.after[PASS_FORWARD][0], 0);
    CHECK_EQUAL(relations.after_first[PASS_BACKWARD][2], 1);
    CHECK_EQUAL(relations.opened_tokens[0], 6);
    CHECK_EQUAL(relations.closed_tokens[1], 6);
    relations_free(&relations);

    struct dag dag = hand_built(&plan, hand_setting(), (struct dag_options){0});
    /* F0 F1 B0 B1: B0 after F1, B1 after B0, F0 and F1 */
    CHECK_EQUAL(dag.n_tasks, 4);
    CHECK_EQUAL(dag.in_first[3] - dag.in_first[2], 1);
    CHECK_EQUAL(dag.in_kind[dag.in_first[2]], DAG_INTER_PASS);
    CHECK_EQUAL(dag.in_first[4] - dag.in_first[3], 3);
    CHECK_EQUAL(dag.in_kind[dag.in_first[3]], DAG_INTER_SLICE);
    dag_free(&dag);
    plan_free(&plan);
}

/* Sample 0 is whole forward, and cut backward at 6 of 10 tokens: the second backward slice's keys and values must be
 * there for the first one, as those of a sample cut forward. Sample 1 is whole in both. */
TEST(a_sample_that_the_backward_cuts_is_sliced)
{
    struct plan plan;
    struct relations relations;
    hand_plan(&plan, 1, 1, 1);
    struct plan_cut *cut = plan.phases[0].pipelines[0].cut;
    plan_add_slice(&cut[PASS_FORWARD], (struct slice){0, 0, 10});
    hand_unit(&cut[PASS_FORWARD], (struct slice){1, 0, 3});
    hand_unit(&cut[PASS_BACKWARD], (struct slice){0, 6, 10});
    plan_add_slice(&cut[PASS_BACKWARD], (struct slice){0, 0, 6});
    hand_unit(&cut[PASS_BACKWARD], (struct slice){1, 0, 3});
    hand_order(&plan);
    relations_of(&plan.phases[0].pipelines[0], &relations);
    static const struct relations_share shares[] = {{0, 0, 4}, {0, 3, 6}};
    CHECK_EQUAL(relations.share_first[2], 2);
    for (int i = 0; i < 2; i++)
        CHECK_TRUE(memcmp(&relations.shares[i], &shares[i], sizeof shares[i]) == 0);
    CHECK_EQUAL(relations.sliced_tokens[0], 10);
    relations_free(&relations);
    plan_free(&plan);
}

/* Backward 0 first and the forward it needs after it: a circle of one lane. */
TEST(an_order_that_waits_for_itself_is_named)
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
    CHECK_CONTAINS(err.text, "pipeline 0, stage 1: backward unit 0 waits for forward unit 0 on stage 1, in a circle");
    CHECK_EQUAL(dag.n_tasks, 0);
    plan_free(&plan);
}

/* Two samples shared by both pipelines, run in opposite orders. */
TEST(groups_that_wait_for_each_other_are_named)
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
            for (int unit = 0; unit < 2; unit++) {
                int32_t sample = i == 0 ? unit : 1 - unit;
                struct plan_unit *part = hand_unit(&phase->pipelines[i].cut[pass], (struct slice){sample, 0, 16});
                part->context = 2;
                part->group = sample;
            }
    hand_order(&plan);
    CHECK_TRUE(!dag_build(&plan, hand_setting(), (struct dag_options){0}, &dag, &err));
    CHECK_CONTAINS(err.text, "forward unit 0 waits for pipeline");
    CHECK_CONTAINS(err.text, "to run it with its group, in a circle");
    plan_free(&plan);
}

/* Two samples shared by both pipelines, their backwards the other way round in the cut. Behind the first forward one
 * goes on with the second, the other with the backward of the first, the second one of its cut: members of one group at
 * units of one number, but of two passes. */
TEST(a_group_whose_member_is_at_another_pass_is_named)
{
    struct plan plan;
    struct dag dag;
    struct error err = {0};
    hand_plan(&plan, 2, 1, 1);
    struct plan_phase *phase = &plan.phases[0];
    hand_group(phase, 2);
    for (int i = 0; i < 2; i++)
        for (int pass = 0; pass < N_PASSES; pass++)
            for (int unit = 0; unit < 2; unit++) {
                int32_t sample = pass == PASS_FORWARD ? unit : 1 - unit;
                hand_unit(&phase->pipelines[i].cut[pass], (struct slice){sample, 0, 16})->context = 2;
                phase->pipelines[i].cut[pass].units[unit].group = 0;
            }
    hand_order(&plan);
    const struct plan_step orders[2][4] = {
        {{PASS_FORWARD, 0, 0}, {PASS_FORWARD, 1, 0}, {PASS_BACKWARD, 1, 0}, {PASS_BACKWARD, 0, 0}},
        {{PASS_FORWARD, 0, 0}, {PASS_BACKWARD, 1, 0}, {PASS_FORWARD, 1, 0}, {PASS_BACKWARD, 0, 0}}};
    for (int i = 0; i < 2; i++)
        memcpy(phase->pipelines[i].steps, orders[i], sizeof orders[i]);
    CHECK_TRUE(!dag_build(&plan, hand_setting(), (struct dag_options){0}, &dag, &err));
    CHECK_CONTAINS(err.text, "pipeline 0, stage 0: forward unit 1 waits for pipeline 1 to run it with its group, in a");
    plan_free(&plan);
}

/* A backward that the next stage never runs. */
TEST(a_step_that_is_missing_is_named)
{
    struct plan plan;
    struct dag dag;
    struct error err = {0};
    hand_uniform(&plan, 2, 2, 16);
    struct plan_pipeline *pipeline = &plan.phases[0].pipelines[0];
    pipeline->step_first[2]--;
    CHECK_TRUE(!dag_build(&plan, hand_setting(), (struct dag_options){0}, &dag, &err));
    CHECK_CONTAINS(err.text, "stage 0: backward unit 1 waits for backward unit 1 on stage 1, which has ended");
    plan_free(&plan);
}

/* A unit on CP 2 on one node. */
static void one_unit_on_two_ranks(struct plan *plan)
{
    hand_plan(plan, 1, 1, 2);
    for (int pass = 0; pass < N_PASSES; pass++)
        hand_unit(&plan->phases[0].pipelines[0].cut[pass], (struct slice){0, 0, 16})->context = 2;
    hand_order(plan);
}

/* GEMMs of both ranks, then attention beside a ring of two sends; the pass ends with the later. */
TEST(a_context_ring_runs_beside_attention)
{
    struct plan plan;
    one_unit_on_two_ranks(&plan);
    struct dag dag = hand_built(&plan, hand_setting(), (struct dag_options){0});
    CHECK_EQUAL(count(&dag, DAG_COMPUTE, DAG_PASS), 4);
    CHECK_EQUAL(count(&dag, DAG_ATTENTION, DAG_PASS), 4);
    CHECK_EQUAL(count(&dag, DAG_SEND, DAG_RING), 4);
    CHECK_EQUAL(count(&dag, DAG_SYNC, DAG_RING), 4);
    const double ring_s[] = {1.0, 9.0};
    for (int i = 0; i < 2; i++) {
        for (int32_t task = 0; task < dag.n_tasks; task++)
            dag.duration_s[task] = dag.tasks[task].kind == DAG_COMPUTE     ? 2.0 + dag.tasks[task].place
                                   : dag.tasks[task].kind == DAG_ATTENTION ? 4.0
                                   : dag.tasks[task].kind == DAG_SEND      ? ring_s[i]
                                                                           : 0.0;
        /* place 1 ends its GEMMs at 3: attention to 7, ring to 4 or 12; then backward alike */
        CHECK_CLOSE(hand_makespan_s(&dag), i == 0 ? 14.0 : 24.0, 1e-15);
    }
    dag_free(&dag);
    plan_free(&plan);
}

/* The second unit of pipeline 0 is the first of pipeline 1: each message bears the number of the pipeline that sends
 * it. */
TEST(a_rings_messages_bear_their_own_pipelines_unit)
{
    struct plan plan;
    hand_plan(&plan, 2, 1, 1);
    struct plan_phase *phase = &plan.phases[0];
    hand_group(phase, 2);
    for (int pass = 0; pass < N_PASSES; pass++) {
        hand_unit(&phase->pipelines[0].cut[pass], (struct slice){1, 0, 16});
        for (int i = 0; i < 2; i++) {
            struct plan_unit *unit = hand_unit(&phase->pipelines[i].cut[pass], (struct slice){0, 0, 16});
            unit->context = 2;
            unit->group = 0;
        }
    }
    hand_order(&plan);
    struct dag dag = hand_built(&plan, hand_setting(), (struct dag_options){.gradient_sync = true});
    CHECK_EQUAL(count(&dag, DAG_SEND, DAG_RING), 4);
    for (int32_t i = 0; i < dag.n_tasks; i++) {
        const struct dag_task *task = &dag.tasks[i];
        if (task->purpose == DAG_RING)
            CHECK_EQUAL(task->unit, 1 - task->pipeline);
        if (task->purpose == DAG_REDUCE_SCATTER)
            CHECK_EQUAL(task->unit, -1);
    }
    dag_free(&dag);
    plan_free(&plan);
}

TEST(a_ring_without_overlap_and_a_gather_come_before_attention)
{
    struct plan plan;
    struct cost_setting setting = *hand_setting();
    struct scenario_plan gathers = *setting.plan;
    gathers.cp_type = SCENARIO_ALL_GATHER;
    one_unit_on_two_ranks(&plan);
    setting.communication.cp_overlap = false;
    struct dag dag = hand_built(&plan, &setting, (struct dag_options){0});
    for (int32_t task = 0; task < dag.n_tasks; task++)
        dag.duration_s[task] = dag.tasks[task].kind == DAG_SYNC ? 0.0 : 1.0;
    CHECK_CLOSE(hand_makespan_s(&dag), 6.0, 1e-15); /* GEMMs, ring, attention, twice */
    dag_free(&dag);

    setting.communication.cp_overlap = true; /* of no use to a gather */
    setting.plan = &gathers;
    dag = hand_built(&plan, &setting, (struct dag_options){0});
    double expected_s = 0;
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
        struct cost_pass cost = dag_pass_cost(&plan.phases[0].pipelines[0], &setting, pass, 0, 0);
        CHECK_TRUE(cost.context_s > 0);
        expected_s += cost.other_s + cost.context_s + cost.attention_s;
    }
    CHECK_CLOSE(hand_makespan_s(&dag), expected_s, 1e-12);
    dag_free(&dag);
    plan_free(&plan);
}

/* Pipelines of one stage in one group, `each` on each node, that share one sample of 64 tokens. */
static void shared_sample(struct plan *plan, int32_t n, int32_t each, int32_t tensor)
{
    hand_plan(plan, n, 1, 1);
    struct plan_phase *phase = &plan->phases[0];
    hand_group(phase, n);
    for (int32_t i = 0; i < n; i++) {
        phase->pipelines[i].layout.tensor = tensor;
        phase->pipelines[i].layout.first_rank = i / each * 8 + i % each * tensor;
        for (int pass = 0; pass < N_PASSES; pass++) {
            struct plan_unit *unit = hand_unit(&phase->pipelines[i].cut[pass], (struct slice){0, 0, 64});
            unit->context = n;
            unit->group = 0;
        }
    }
    hand_order(plan);
}

/* Four pipelines in one group, two a node (stride 8 between nodes). Keys and values go round point to point: all bytes
 * over each hop, so over one NIC of each node. Gradients go by rails: half of the bytes inside each node, half by its
 * two NICs. */
TEST(rings_cross_nodes_point_to_point_and_gradients_by_rails)
{
    struct plan plan;
    shared_sample(&plan, 4, 2, 1);
    const struct plan_phase *phase = &plan.phases[0];
    struct dag dag = hand_built(&plan, hand_setting(), (struct dag_options){.gradient_sync = true});
    struct cost_pass cost = dag_pass_cost(&phase->pipelines[0], hand_setting(), PASS_FORWARD, 0, 0);
    CHECK_EQUAL(count(&dag, DAG_SEND, DAG_RING), 8);
    static const int32_t next[] = {1, 8, 9, 0};
    int32_t task = 0;
    for (int i = 0; i < 4; i++, task++) {
        task = find(&dag, DAG_SEND, DAG_RING, task);
        CHECK_EQUAL(dag.tasks[task].to_rank, next[i]);
        CHECK_CLOSE(dag.tasks[task].wire_bytes, cost.ring_bytes, 1e-15);
        double latency_s = cost.ring_steps * (i % 2 ? 2e-6 : 1e-6);
        CHECK_CLOSE(dag.duration_s[task], latency_s + cost.ring_bytes / (i % 2 ? 50e9 : 200e9), 1e-15);
    }
    CHECK_EQUAL(count(&dag, DAG_SEND, DAG_REDUCE_SCATTER), 8);
    static const int32_t to[] = {1, 8, 0, 9, 9, 0, 8, 1};
    const struct model *model = hand_setting()->model;
    double parameters = cost_stage_parameters(model, 1, (int32_t)model->layers, true, true);
    double bytes = parameters * 4 * 3 / 4;
    task = 0;
    for (int i = 0; i < 8; i++, task++) {
        task = find(&dag, DAG_SEND, DAG_REDUCE_SCATTER, task);
        CHECK_EQUAL(dag.tasks[task].to_rank, to[i]);
        CHECK_CLOSE(dag.tasks[task].wire_bytes, bytes / 2, 1e-15);
        CHECK_EQUAL(dag.tasks[task].stream % DAG_N_STREAMS, i % 2 ? DAG_STREAM_RAIL : DAG_STREAM_COLLECTIVE);
    }
    dag_free(&dag);
    plan_free(&plan);
}

/* `first` and the next n - 1 SENDs of the context are of one NIC, of so many bytes and seconds, one after the other to
 * the ranks given. */
static void check_flows(const struct dag *dag, int32_t first, int32_t n, const int32_t *to, double bytes,
                        double seconds)
{
    for (int32_t i = 0, task = first; i < n; i++, task++) {
        task = find(dag, DAG_SEND, DAG_RING, task);
        CHECK_EQUAL(dag->tasks[task].stream % DAG_N_STREAMS, DAG_STREAM_RAIL);
        CHECK_EQUAL(dag->tasks[task].to_rank, to[i]);
        CHECK_CLOSE(dag->tasks[task].wire_bytes, bytes, 1e-14);
        CHECK_CLOSE(dag->duration_s[task], seconds, 1e-12);
    }
}

/* Eight ranks of TP 4, two on each of four nodes, h = k = 64: 8 tokens x 64 x 2/4 bytes of each of four tensors on a
 * GPU, 6/8 of which go to the six ranks on other nodes, by its own NIC: 192 bytes in 2 us and 192/50e9 s, 4 x 840 times
 * a pass, a third to each node; the rest inside the node is faster. Gathered keys and values: 64 x 256/4 bytes a layer,
 * of which the curve of rails says what one NIC sends to the next node. */
TEST(collectives_of_context_cross_nodes_as_transfers)
{
    struct platform platform = hand_platform("hopper-8x8");
    struct cost_setting setting = *hand_setting();
    struct device device = *setting.device;
    struct scenario_plan layout = *setting.plan;
    struct plan plan;
    device.collective[DEVICE_ALL_TO_ALL] = (struct device_collective){.latency_s = 1e-6, .efficiency = 1};
    setting.device = &device;
    setting.plan = &layout;
    shared_sample(&plan, 8, 2, 4);
    static const int32_t others[] = {8, 16, 24};
    for (int gathers = 0; gathers < 2; gathers++) {
        layout.cp_type = gathers ? SCENARIO_ALL_GATHER : SCENARIO_ULYSSES;
        struct dag dag = hand_built(&plan, &setting, (struct dag_options){0});
        struct cost_pass pass[N_PASSES];
        for (int i = 0; i < N_PASSES; i++)
            pass[i] = dag_pass_cost(&plan.phases[0].pipelines[0], &setting, (enum pass)i, 0, 0);
        double alone_s = cost_pass_s(&pass[PASS_FORWARD]) + cost_pass_s(&pass[PASS_BACKWARD]);
        CHECK_CLOSE(hand_makespan_s(&dag), alone_s, 1e-12);
        CHECK_EQUAL(count(&dag, DAG_SEND, DAG_RING), 2 * 8 * (gathers ? 1 : 3));
        int32_t first = find(&dag, DAG_SEND, DAG_RING, 0);
        if (gathers) {
            double bytes = cost_of_rails(&setting, DEVICE_ALL_GATHER, COST_NIC, 64 * 64, 8, 2).wire_bytes;
            check_flows(&dag, first, 1, others, 840 * bytes, pass[PASS_FORWARD].context_s);
        } else {
            check_flows(&dag, first, 3, others, 840 * 4 * 192.0 / 3, 840 * 4 * (2e-6 + 192 / 50e9) / 3);
        }
        hand_engines_agree(&dag, &platform);
        dag_free(&dag);
    }
    plan_free(&plan);
}

/* Three ranks of TP 2 on one node, and of TP 4 unevenly on two: the collectives stay seconds from each rank to the
 * next. */
TEST(collectives_inside_a_node_stay_seconds)
{
    struct cost_setting setting = *hand_setting();
    struct device device = *setting.device;
    struct scenario_plan layout = *setting.plan;
    device.collective[DEVICE_ALL_TO_ALL] = (struct device_collective){.latency_s = 1e-6, .efficiency = 1};
    setting.device = &device;
    setting.plan = &layout;
    layout.cp_type = SCENARIO_ULYSSES;
    static const int32_t each[] = {3, 2}, tensor[] = {2, 4};
    for (int i = 0; i < 2; i++) {
        struct plan plan;
        shared_sample(&plan, 3, each[i], tensor[i]);
        struct dag dag = hand_built(&plan, &setting, (struct dag_options){0});
        double context_s = dag_pass_cost(&plan.phases[0].pipelines[0], &setting, PASS_FORWARD, 0, 0).context_s;
        CHECK_EQUAL(count(&dag, DAG_SEND, DAG_RING), 2 * 3);
        int32_t first = find(&dag, DAG_SEND, DAG_RING, 0);
        CHECK_CLOSE(dag.duration_s[first], context_s, 1e-12);
        CHECK_EQUAL(dag.tasks[first].stream % DAG_N_STREAMS, DAG_STREAM_COLLECTIVE);
        dag_free(&dag);
        plan_free(&plan);
    }
}

/* With tensor parallelism simulated rank by rank its collectives are rings that take what they take inside a folded
 * pass. */
TEST(all_tensor_ranks_take_as_long_as_folded_ones)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct plan plan;
        hand_random(&plan, seed);
        for (int32_t i = 0; i < plan.phases[0].n_pipelines; i++) {
            struct plan_layout *layout = &plan.phases[0].pipelines[i].layout;
            layout->tensor = 4;
            layout->first_rank *= 4;
            layout->stage_stride *= 4;
        }
        struct dag folded = hand_built(&plan, hand_setting_of_heads(seed), (struct dag_options){.gradient_sync = true});
        struct dag all = hand_built(&plan, hand_setting_of_heads(seed),
                                    (struct dag_options){.all_tensor_ranks = true, .gradient_sync = true});
        CHECK_EQUAL(all.n_places, 4 * folded.n_places);
        CHECK_TRUE(count(&all, DAG_SEND, DAG_TENSOR) > 0);
        CHECK_CLOSE(hand_makespan_s(&all), hand_makespan_s(&folded), 1e-12);
        dag_free(&folded);
        dag_free(&all);
        plan_free(&plan);
    }
}

/* Two pipelines of one stage on one node: reduce-scatter of 4 bytes a parameter, half of it leaves each rank; norm;
 * optimizer on half; all-gather of 2 bytes, half of it. */
TEST(gradients_are_reduced_and_parameters_gathered)
{
    struct plan plan;
    struct error err = {0};
    struct cost_setting setting = *hand_setting();
    hand_whole_samples(&plan, 2, 1, 16);
    struct dag dag = hand_built(&plan, &setting, (struct dag_options){.gradient_sync = true});
    double parameters = cost_stage_parameters(setting.model, 1, 840, true, true);
    int32_t scatter = find(&dag, DAG_SEND, DAG_REDUCE_SCATTER, 0), gather = find(&dag, DAG_SEND, DAG_ALL_GATHER, 0);
    int32_t optimizer = find(&dag, DAG_OPTIMIZER, DAG_PASS, 0);
    CHECK_EQUAL(count(&dag, DAG_SEND, DAG_REDUCE_SCATTER), 2);
    CHECK_EQUAL(count(&dag, DAG_OPTIMIZER, DAG_PASS), 2);
    CHECK_CLOSE(dag.tasks[scatter].wire_bytes, parameters * 4 * 0.5, 1e-15);
    CHECK_CLOSE(dag.tasks[gather].wire_bytes, parameters * 2 * 0.5, 1e-15);
    CHECK_CLOSE(dag.duration_s[optimizer], cost_optimizer_s(&setting, parameters, 2), 1e-15);
    struct dag without = hand_built(&plan, hand_setting(), (struct dag_options){0});
    CHECK_CLOSE(hand_makespan_s(&dag),
                hand_makespan_s(&without) + dag.duration_s[scatter] + dag.duration_s[optimizer] +
                    dag.duration_s[gather],
                1e-12);
    dag_free(&without);
    dag_free(&dag);

    plan.phases[0].pipelines[1].layout.tensor = 2;
    CHECK_TRUE(!dag_build(&plan, &setting, (struct dag_options){.gradient_sync = true}, &dag, &err));
    CHECK_CONTAINS(err.text, "unequal pipelines");
    plan_free(&plan);
}

/* A model of 10^6 words: more than three buckets of 40e6 parameters; bf16 gradients. */
static void open_buckets(struct cost_setting *setting, struct model *model, struct platform *slow, double bytes_per_s)
{
    static const struct scenario_plan layout = {.cp = 1, .dp = 1, .gradients = SCENARIO_BF16};
    *setting = *hand_setting();
    *model = *setting->model;
    *slow = *setting->platform;
    model->vocabulary = 1000000;
    slow->nvlink_bytes_per_s = bytes_per_s;
    setting->model = model;
    setting->platform = slow;
    setting->plan = &layout;
    setting->communication.dp_overlap = SCENARIO_OVERLAP_BOTH;
}

static double seconds_of(const struct plan *plan, const struct cost_setting *setting, enum pass pass, int32_t unit,
                         int32_t stage)
{
    struct cost_pass cost = dag_pass_cost(&plan->phases[0].pipelines[0], setting, pass, unit, stage);
    return cost.other_s + cost.attention_s;
}

/* SENDs of gradients, with the longest SYNC before them, and of parameters take these times. */
static void check_rings(const struct plan *plan, const struct cost_setting *setting, double scatter_s, double gather_s)
{
    struct dag dag = hand_built(plan, setting, (struct dag_options){.gradient_sync = true});
    double waits_s = 0;
    for (int32_t t = 0; t < dag.n_tasks; t++)
        if (dag.tasks[t].kind == DAG_SYNC)
            waits_s = fmax(waits_s, dag.duration_s[t]);
    CHECK_CLOSE(waits_s + dag.duration_s[find(&dag, DAG_SEND, DAG_REDUCE_SCATTER, 0)], scatter_s, 1e-12);
    CHECK_CLOSE(dag.duration_s[find(&dag, DAG_SEND, DAG_ALL_GATHER, 0)], gather_s, 1e-12);
    dag_free(&dag);
}

/* Two stages on two nodes of 2 GPUs, the replicas of each on one node: beside their buckets kernels lose what a
 * collective inside a node takes from them, a quarter, whatever one over nodes does. */
TEST(replicas_on_one_node_reduce_inside_it_though_other_stages_are_elsewhere)
{
    struct plan plan;
    struct cost_setting setting;
    struct model model;
    struct platform links;
    open_buckets(&setting, &model, &links, 1e15);
    links.gpus_per_node = 2;
    struct device device = *setting.device;
    device.multiprocessors = 8;
    device.training.node_multiprocessors = 2;
    device.training.collective_multiprocessors = 4;
    setting.device = &device;
    hand_whole_samples(&plan, 2, 2, 16);
    double parameters = cost_stage_parameters(&model, 1, 420, true, false), n = ceil(parameters / 40e6);
    double bucket_s = 1e-6 + parameters / n / 1e15;
    CHECK_TRUE(n >= 2);
    check_rings(&plan, &setting, bucket_s + (n - 1) * bucket_s / 4, bucket_s + (n - 1) * bucket_s / 4);
    plan_free(&plan);
}

/* Groups of two that share states, each on its node: parameters are gathered, and gradients scattered, inside it, the
 * rest of their reduction runs over nodes; kernels lose a quarter of the one's time and half of the other's. */
TEST(groups_on_a_node_share_inside_it_and_reduce_over_nodes)
{
    struct plan plan;
    struct cost_setting setting;
    struct model model;
    struct platform links;
    open_buckets(&setting, &model, &links, 1e15);
    links.gpus_per_node = 2;
    links.nic_bytes_per_s = 1e15;
    struct device device = *setting.device;
    device.multiprocessors = 8;
    device.training.node_multiprocessors = 2;
    device.training.collective_multiprocessors = 4;
    setting.device = &device;
    setting.plan = &(struct scenario_plan){.cp = 1, .dp = 4, .shard_group = 2, .gradients = SCENARIO_BF16};
    hand_whole_samples(&plan, 4, 1, 16);
    double parameters = cost_stage_parameters(&model, 1, 840, true, true), n = ceil(parameters / 40e6);
    double inside_s = 1e-6 + parameters / n / 1e15, across_s = 4e-6 + parameters / n / 1e15;
    double reduced_s = inside_s + across_s + (n - 1) * (inside_s / 4 + across_s / 2);
    double whole_s = 1e-6 + parameters / 1e15, all_s = whole_s + 4e-6 + parameters / 1e15;
    CHECK_TRUE(n >= 3);
    check_rings(&plan, &setting, reduced_s / all_s * whole_s, inside_s + (n - 1) * inside_s / 4);
    plan_free(&plan);
}

/* Six replicas, four on one node and two on the next: two rings, each through the NICs of one of the two and of one of
 * the four, so half of what a member sends goes inside the nodes; of the two without such a NIC all does. */
TEST(replicas_that_stand_unevenly_send_by_the_nics_of_the_fewest)
{
    static const int32_t at[] = {0, 1, 2, 3, 8, 9};
    static const int32_t to[] = {1, 8, 2, 9, 3, 0, 9, 0, 8, 1};
    struct plan plan;
    hand_plan(&plan, 6, 1, 1);
    for (int32_t i = 0; i < 6; i++) {
        plan.phases[0].pipelines[i].layout.first_rank = at[i];
        for (int pass = 0; pass < N_PASSES; pass++)
            hand_unit(&plan.phases[0].pipelines[i].cut[pass], (struct slice){i, 0, 64});
    }
    hand_order(&plan);
    struct dag dag = hand_built(&plan, hand_setting(), (struct dag_options){.gradient_sync = true});
    const struct model *model = hand_setting()->model;
    double bytes = cost_stage_parameters(model, 1, (int32_t)model->layers, true, true) * 4 * 5 / 6;
    CHECK_EQUAL(count(&dag, DAG_SEND, DAG_REDUCE_SCATTER), 10);
    for (int32_t i = 0, task = 0; i < 10; i++, task++) {
        task = find(&dag, DAG_SEND, DAG_REDUCE_SCATTER, task);
        CHECK_EQUAL(dag.tasks[task].to_rank, to[i]);
        CHECK_CLOSE(dag.tasks[task].wire_bytes, i == 4 || i == 5 ? bytes : bytes / 2, 1e-15);
        CHECK_EQUAL(dag.tasks[task].stream % DAG_N_STREAMS,
                    i == 1 || i == 3 || i == 7 || i == 9 ? DAG_STREAM_RAIL : DAG_STREAM_COLLECTIVE);
    }
    dag_free(&dag);
    plan_free(&plan);
}

/* Two groups of three on nodes of four, the first on one node and the second over two, or the other way round: what
 * passes do not hide is that of the slower one, whichever comes first. */
TEST(what_is_hidden_is_the_slowest_groups)
{
    double end_s[2];
    for (int32_t first = 0; first < 2; first++) {
        struct plan plan;
        struct cost_setting setting;
        struct model model;
        struct platform links;
        open_buckets(&setting, &model, &links, 1e10);
        links.gpus_per_node = 4;
        links.nic_bytes_per_s = 1e8;
        setting.plan = &(struct scenario_plan){.cp = 1, .dp = 6, .shard_group = 3, .gradients = SCENARIO_BF16};
        hand_plan(&plan, 6, 1, 1);
        for (int32_t i = 0; i < 6; i++) {
            plan.phases[0].pipelines[i].layout.first_rank = 2 * first + i;
            for (int pass = 0; pass < N_PASSES; pass++)
                hand_unit(&plan.phases[0].pipelines[i].cut[pass], (struct slice){i, 0, 16});
        }
        hand_order(&plan);
        struct dag dag = hand_built(&plan, &setting, (struct dag_options){.gradient_sync = true});
        end_s[first] = hand_makespan_s(&dag);
        dag_free(&dag);
        plan_free(&plan);
    }
    CHECK_CLOSE(end_s[0], end_s[1], 1e-12);
}

/* Units of 16 and 8 tokens (pipeline 1: 16 and 12). Slow links: of n buckets in a row stays what is longer than the
 * shortest last backward pass, that of 8 tokens; of the gathers, than the first forward; that these run slower beside
 * them changes nothing. Fast links: the last bucket, and a quarter of the hidden ones' time, which the pass loses;
 * persistent GEMMs take twice as long beside them, the others 4/3. */
TEST(gradients_hide_under_the_last_backward_pass)
{
    struct plan plan;
    struct cost_setting setting;
    struct model model;
    struct platform links;
    open_buckets(&setting, &model, &links, 1e8);
    hand_plan(&plan, 2, 1, 1);
    for (int32_t i = 0; i < 2; i++)
        for (int pass = 0; pass < N_PASSES; pass++) {
            hand_unit(&plan.phases[0].pipelines[i].cut[pass], (struct slice){2 * i, 0, 16});
            hand_unit(&plan.phases[0].pipelines[i].cut[pass], (struct slice){2 * i + 1, 0, i == 0 ? 8 : 12});
        }
    hand_order(&plan);
    double parameters = cost_stage_parameters(&model, 1, 840, true, true), n = ceil(parameters / 40e6);
    double last_s = seconds_of(&plan, &setting, PASS_BACKWARD, 1, 0);
    double first_s = seconds_of(&plan, &setting, PASS_FORWARD, 0, 0), all_s = n * 1e-6 + parameters / 1e8;
    CHECK_TRUE(n > 3 && last_s < all_s / 2 && first_s < all_s / 2 && last_s != first_s);
    check_rings(&plan, &setting, all_s - last_s, all_s - first_s);

    struct device device = *setting.device;
    device.multiprocessors = 8;
    device.gemm.wave = 0;
    device.training.node_multiprocessors = 2;
    setting.device = &device;
    last_s = seconds_of(&plan, &setting, PASS_BACKWARD, 1, 0);
    first_s = seconds_of(&plan, &setting, PASS_FORWARD, 0, 0);
    check_rings(&plan, &setting, all_s - last_s, all_s - first_s);
    links.nvlink_bytes_per_s = 1e15;
    double bucket_s = 1e-6 + parameters / n / 1e15;
    check_rings(&plan, &setting, bucket_s + (n - 1) * bucket_s / 4, bucket_s + (n - 1) * bucket_s / 4);
    double loss[N_PASSES];
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
        struct cost_pass cost = dag_pass_cost(&plan.phases[0].pipelines[0], &setting, pass, 0, 0);
        double pass_s = cost_pass_s(&cost), others_s = pass_s - cost.product_s;
        loss[pass] = 1 - pass_s / (2 * cost.product_s + 4.0 / 3 * others_s);
        CHECK_TRUE(loss[pass] > 0.25 && loss[pass] < 0.5);
    }
    device.training.persistent_gemms = true;
    check_rings(&plan, &setting, bucket_s * (1 + (n - 1) * loss[PASS_BACKWARD]),
                bucket_s * (1 + (n - 1) * loss[PASS_FORWARD]));
    plan_free(&plan);
}

/* One replica has a unit of 4096 tokens (F, B), the other `more` of these and then one of 1 (f, b), whose backward is
 * shorter than the reduction T of n buckets; B is longer. So the gradients of the first wait for one bucket, those of
 * the other for T - b behind b, each from its own end on: both are reduced at the later of F + B + T/n and more (F + B)
 * + f + T. The other alone ends early: what of T it does not hide is over when the first one ends. */
TEST(a_replica_that_ends_early_does_not_expose_what_it_cannot_hide)
{
    struct cost_setting setting;
    struct model model;
    struct platform links, platform = hand_platform("hopper-2x8");
    open_buckets(&setting, &model, &links, 200e9);
    setting.communication.dp_overlap = SCENARIO_OVERLAP_GRADIENTS;
    struct device device = *setting.device;
    device.hbm_bytes_per_s *= 100; /* T is longer than a token's backward through whole tables */
    setting.device = &device;
    model.vocabulary = 100000000;
    double parameters = cost_stage_parameters(&model, 1, 840, true, true), n = ceil(parameters / 40e6);
    double all_s = n * 1e-6 + parameters / 200e9, gather_s = 1e-6 + parameters / 200e9;
    for (int32_t more = 0; more <= 1; more++) {
        struct plan plan;
        hand_plan(&plan, 2, 1, 1);
        for (int pass = 0; pass < N_PASSES; pass++) {
            struct plan_cut *other = &plan.phases[0].pipelines[1].cut[pass];
            hand_unit(&plan.phases[0].pipelines[0].cut[pass], (struct slice){0, 0, 4096});
            for (int32_t i = 0; i < more; i++)
                hand_unit(other, (struct slice){1, 0, 4096});
            hand_unit(other, (struct slice){2, 0, 1});
        }
        hand_order(&plan);
        struct cost_pass backward = dag_pass_cost(&plan.phases[0].pipelines[1], &setting, PASS_BACKWARD, more, 0);
        struct cost_pass forward = dag_pass_cost(&plan.phases[0].pipelines[1], &setting, PASS_FORWARD, more, 0);
        double first_s = seconds_of(&plan, &setting, PASS_FORWARD, 0, 0),
               last_s = seconds_of(&plan, &setting, PASS_BACKWARD, 0, 0);
        CHECK_TRUE(n > 3 && last_s > all_s && cost_pass_s(&backward) < all_s / 2);
        double reduced_s =
            fmax(first_s + last_s + all_s / n, more * (first_s + last_s) + cost_pass_s(&forward) + all_s);
        struct dag dag = hand_built(&plan, &setting, (struct dag_options){.gradient_sync = true});
        CHECK_CLOSE(hand_makespan_s(&dag), reduced_s + cost_optimizer_s(&setting, parameters, 2) + gather_s, 1e-12);
        hand_engines_agree(&dag, &platform);
        dag_free(&dag);
        plan_free(&plan);
    }
}

/* The other replica has nothing to compute: its gradients wait for the first one's, and hide where these do. */
TEST(a_replica_without_passes_exposes_nothing)
{
    struct plan plan;
    struct cost_setting setting;
    struct model model;
    struct platform links;
    open_buckets(&setting, &model, &links, 1e8);
    hand_plan(&plan, 2, 1, 1);
    for (int pass = 0; pass < N_PASSES; pass++)
        hand_unit(&plan.phases[0].pipelines[0].cut[pass], (struct slice){0, 0, 16});
    hand_order(&plan);
    double parameters = cost_stage_parameters(&model, 1, 840, true, true), n = ceil(parameters / 40e6);
    double all_s = n * 1e-6 + parameters / 1e8;
    double backward_s = seconds_of(&plan, &setting, PASS_BACKWARD, 0, 0);
    double forward_s = seconds_of(&plan, &setting, PASS_FORWARD, 0, 0);
    CHECK_TRUE(backward_s > all_s / 1e6 && backward_s < all_s / 2 && forward_s < all_s / 2);
    check_rings(&plan, &setting, all_s - backward_s, all_s - forward_s);
    plan_free(&plan);
}

/* Two replicas with P parameters at 200 GB/s, half of whose 2 bytes leave each rank in either collective; their passes
 * are longer than both. What overlaps leaves its last bucket of n, 1 us + P/n bytes, what does not 1 us + P bytes. */
TEST(gradients_overlap_without_parameters)
{
    struct plan plan;
    struct cost_setting setting;
    struct model model;
    struct platform links, platform = hand_platform("hopper-2x8");
    open_buckets(&setting, &model, &links, 200e9);
    hand_whole_samples(&plan, 2, 1, 4096);
    double parameters = cost_stage_parameters(&model, 1, 840, true, true), n = ceil(parameters / 40e6);
    double bucket_s = 1e-6 + parameters / n / 200e9, all_s = 1e-6 + parameters / 200e9;
    double passes_s = 0, optimizer_s = cost_optimizer_s(&setting, parameters, 2);
    for (int pass = 0; pass < N_PASSES; pass++) {
        double pass_s = seconds_of(&plan, &setting, (enum pass)pass, 0, 0);
        CHECK_TRUE(n > 3 && pass_s > n * bucket_s);
        passes_s += pass_s;
    }
    const double left_s[][2] = {[SCENARIO_OVERLAP_NONE] = {all_s, all_s},
                                [SCENARIO_OVERLAP_GRADIENTS] = {bucket_s, all_s},
                                [SCENARIO_OVERLAP_BOTH] = {bucket_s, bucket_s}};
    for (int32_t overlap = SCENARIO_OVERLAP_NONE; overlap <= SCENARIO_OVERLAP_BOTH; overlap++) {
        setting.communication.dp_overlap = overlap;
        check_rings(&plan, &setting, left_s[overlap][0], left_s[overlap][1]);
        struct dag dag = hand_built(&plan, &setting, (struct dag_options){.gradient_sync = true});
        CHECK_CLOSE(hand_makespan_s(&dag), passes_s + left_s[overlap][0] + optimizer_s + left_s[overlap][1], 1e-12);
        hand_engines_agree(&dag, &platform);
        dag_free(&dag);
    }
    plan_free(&plan);
}

/* Two chunks on one stage run F0 F0' B0' F1 B0 F1' B1' B1 (' of chunk 1). Behind the last backward of chunk 1 lie B1'
 * and B1, behind that of chunk 0 B1 alone; before the first forwards end F0, and F0 F0'. Where T, a chunk's time, is
 * less than B1', chunk 1 is reduced before chunk 0 begins, of which T - B1 would stay: less than its last bucket of
 * three, which does. Else 2 T - (B1' + B1). Parameters: 2 T - (F0 + F0'). */
TEST(chunks_hide_behind_what_follows_them)
{
    struct plan plan;
    struct cost_setting setting;
    struct model model;
    struct platform links;
    open_buckets(&setting, &model, &links, 1);
    hand_plan(&plan, 2, 1, 1);
    for (int32_t i = 0; i < 2; i++) {
        struct plan_pipeline *pipeline = &plan.phases[0].pipelines[i];
        pipeline->layout.chunks = 2;
        for (int pass = 0; pass < N_PASSES; pass++)
            for (int32_t unit = 0; unit < 2; unit++)
                hand_unit(&pipeline->cut[pass], (struct slice){2 * i + unit, 0, 4096});
        plan_fill_need(pipeline);
        order_interleaved(pipeline);
    }
    double parameters = cost_stage_parameters(&model, 1, 840, true, true), n = 2 * ceil(parameters / 2 / 40e6);
    double backward_s = seconds_of(&plan, &setting, PASS_BACKWARD, 1, 0);
    double backward_head_s = seconds_of(&plan, &setting, PASS_BACKWARD, 1, 1);
    double forward_s = seconds_of(&plan, &setting, PASS_FORWARD, 0, 0);
    double forward_head_s = seconds_of(&plan, &setting, PASS_FORWARD, 0, 1);
    CHECK_CLOSE(n, 6, 0);
    for (int32_t i = 0; i < 2; i++) {
        double chunk_s = backward_head_s * (i == 0 ? 0.9 : 1.1);
        links.nvlink_bytes_per_s = parameters / 2 / (chunk_s - n / 2 * 1e-6);
        double left_s = i == 0 ? chunk_s / 3 : 2 * chunk_s - backward_s - backward_head_s;
        check_rings(&plan, &setting, left_s, 2 * chunk_s - forward_s - forward_head_s);
    }
    plan_free(&plan);
}

/* What zero3 gathers and reduces is inside the passes: no ring follows; zero2 still gathers parameters at the end. */
TEST(sharded_traffic_is_inside_the_passes)
{
    struct plan plan;
    struct cost_setting setting = *hand_setting();
    hand_whole_samples(&plan, 2, 1, 16);
    double plain_s = dag_pass_cost(&plan.phases[0].pipelines[0], &setting, PASS_BACKWARD, 0, 0).other_s;
    for (int32_t sharding = SCENARIO_ZERO2; sharding <= SCENARIO_ZERO3; sharding++) {
        setting.plan = &(struct scenario_plan){.cp = 1, .dp = 2, .sharding = sharding};
        struct dag dag = hand_built(&plan, &setting, (struct dag_options){.gradient_sync = true});
        CHECK_EQUAL(count(&dag, DAG_SEND, DAG_REDUCE_SCATTER), 0);
        CHECK_EQUAL(count(&dag, DAG_SEND, DAG_ALL_GATHER), sharding == SCENARIO_ZERO2 ? 2 : 0);
        CHECK_EQUAL(count(&dag, DAG_OPTIMIZER, DAG_PASS), 2);
        struct cost_pass cost = dag_pass_cost(&plan.phases[0].pipelines[0], &setting, PASS_BACKWARD, 0, 0);
        CHECK_TRUE(cost.shard_s > 0 && cost.other_s > plain_s);
        int32_t task = 0;
        while (dag.tasks[task].kind != DAG_COMPUTE || dag.tasks[task].pass != PASS_BACKWARD)
            task++;
        CHECK_CLOSE(dag.duration_s[task], cost.other_s + cost.attention_s + cost.shard_s, 1e-14);
        dag_free(&dag);
    }
    plan_free(&plan);
}

/* All sends of one purpose: so many, of so many bytes each. */
static void check_sends(const struct dag *dag, enum dag_purpose purpose, int32_t n, double bytes)
{
    CHECK_EQUAL(count(dag, DAG_SEND, purpose), n);
    for (int32_t i = 0, task = 0; i < n; i++, task++) {
        task = find(dag, DAG_SEND, purpose, task);
        CHECK_CLOSE(dag->tasks[task].wire_bytes, bytes, 1e-14);
    }
}

/* Four replicas of one stage of P parameters on a node, gradients in fp32. Unsharded: one all-reduce, 2 x 3/4 of 4P
 * leave each; the optimizer steps all P; nothing is gathered. In two groups of two: 1/2 of 4P in each group's
 * reduce-scatter, then two all-reduces of 2P bytes between the groups (2 x 1/2 of them), optimizer on P/2, 1/2 of 2P
 * gathered. */
TEST(replicas_share_states_in_groups_or_not_at_all)
{
    static const struct scenario_plan layouts[] = {{.cp = 1, .dp = 4, .sharding = SCENARIO_UNSHARDED},
                                                   {.cp = 1, .dp = 4, .sharding = SCENARIO_ZERO1, .shard_group = 2}};
    for (int i = 0; i < 2; i++) {
        struct plan plan;
        struct cost_setting setting = *hand_setting();
        hand_whole_samples(&plan, 4, 1, 16);
        setting.plan = &layouts[i];
        struct dag dag = hand_built(&plan, &setting, (struct dag_options){.gradient_sync = true});
        double parameters = cost_stage_parameters(setting.model, 1, 840, true, true);
        bool shared = i == 1;
        check_sends(&dag, DAG_REDUCE_SCATTER, shared ? 4 : 0, parameters * 2);
        check_sends(&dag, DAG_ALL_REDUCE, 4, parameters * (shared ? 2 : 6));
        check_sends(&dag, DAG_ALL_GATHER, shared ? 4 : 0, parameters);
        int32_t optimizer = find(&dag, DAG_OPTIMIZER, DAG_PASS, 0);
        CHECK_CLOSE(dag.duration_s[optimizer], cost_optimizer_s(&setting, parameters, shared ? 2 : 1), 1e-15);
        int32_t to = dag.tasks[find(&dag, DAG_SEND, DAG_ALL_REDUCE, 0)].to_rank;
        CHECK_EQUAL(to, shared ? 2 : 1); /* rank 0's shard is also rank 2's */
        dag_free(&dag);
        plan_free(&plan);
    }
}

/* Two replicas of two stages: each place of the first and its counterpart on the last exchange the table's gradients, V
 * h of 4 bytes, once (an all-reduce of two sends 2 x 1/2), before the norm; untied there is nothing. */
TEST(tied_embeddings_are_reduced_between_first_and_last_stage)
{
    struct model model = *hand_setting()->model;
    struct cost_setting setting = *hand_setting();
    double with_s = 0, without_s = 0, send_s = 0;
    setting.model = &model;
    for (int tied = 0; tied < 2; tied++) {
        struct plan plan;
        model.tied_embeddings = tied;
        model.vocabulary_multiple = 128; /* the table is padded to 1024 rows */
        hand_whole_samples(&plan, 2, 2, 16);
        struct dag dag = hand_built(&plan, &setting, (struct dag_options){.gradient_sync = true});
        check_sends(&dag, DAG_ALL_REDUCE, tied ? 4 : 0, 4.0 * 64 * 1024);
        if (tied) {
            int32_t send = find(&dag, DAG_SEND, DAG_ALL_REDUCE, 0);
            send_s = dag.duration_s[send];
            CHECK_EQUAL(dag.tasks[send].from_rank, 0);
            CHECK_EQUAL(dag.tasks[send].to_rank, 2); /* stage 1 of replica 0 */
        }
        *(tied ? &with_s : &without_s) = hand_makespan_s(&dag);
        dag_free(&dag);
        plan_free(&plan);
    }
    CHECK_CLOSE(send_s, 2e-6 + 4.0 * 64 * 1024 / 200e9, 1e-14);
    CHECK_CLOSE(with_s, without_s + send_s, 1e-12);
}

/* Stages of 100, 640 and 100 layers: passes take what so many layers take, the last one the head more, and stages hold
 * so many parameters. Of 200 layers that recompute a stage has no more than its own. */
TEST(stages_may_differ_in_layers)
{
    struct plan plan;
    struct cost_setting setting = *hand_setting();
    hand_uniform(&plan, 3, 1, 16);
    setting.plan = &(struct scenario_plan){.stages = {.first_layers = 100, .last_layers = 100}};
    setting.recompute_layers = 200;
    const struct plan_pipeline *pipeline = &plan.phases[0].pipelines[0];
    struct dag dag = hand_built(&plan, &setting, (struct dag_options){0});
    static const int32_t layers[] = {100, 640, 100};
    struct slice slice = {0, 0, 16};
    struct cost_unit unit = {.slices = &slice, .n_slices = 1, .context = 1};
    int32_t task = 0;
    for (int32_t stage = 0; stage < 3; stage++, task++) {
        struct cost_setting own = setting;
        own.layers = layers[stage];
        struct cost_pass cost = cost_of_pass(&own, PASS_FORWARD, &unit), head = cost_of_head(&own, PASS_FORWARD, &unit);
        struct cost_pass embedding = cost_of_embedding(&own, PASS_FORWARD, &unit);
        task = find(&dag, DAG_COMPUTE, DAG_PASS, task);
        CHECK_EQUAL(dag.tasks[task].stage, stage);
        CHECK_CLOSE(dag.duration_s[task],
                    cost.other_s + cost.attention_s + (stage == 2 ? head.other_s : 0) +
                        (stage == 0 ? embedding.other_s : 0),
                    1e-14);
        CHECK_EQUAL(dag_setting(&setting, &pipeline->layout, stage).recompute_layers, stage == 1 ? 200 : 100);
        CHECK_CLOSE(dag_stage_parameters(&setting, &pipeline->layout, stage),
                    cost_stage_parameters(setting.model, 1, layers[stage], stage == 0, stage == 2), 0);
    }
    dag_free(&dag);
    plan_free(&plan);
}

/* A second phase on the same GPUs waits for all of the first, then for 2e6 bytes from GPU 0 to GPU 1 and 1 us. */
TEST(a_phase_waits_for_the_one_before_and_for_its_resharding)
{
    struct plan plan, second;
    hand_uniform(&plan, 2, 3, 16);
    hand_uniform(&second, 1, 2, 16);
    hand_append(&plan, &second);
    plan.phases[1].n_reshards = 1;
    plan.phases[1].reshards = check_malloc(sizeof(struct plan_reshard));
    plan.phases[1].reshards[0] = (struct plan_reshard){0, 1, 2e6};
    struct dag dag = hand_built(&plan, hand_setting(), (struct dag_options){0});
    int32_t send = find(&dag, DAG_SEND, DAG_RESHARD, 0);
    CHECK_CLOSE(dag.duration_s[send], 1e-6 + 2e6 / 200e9, 1e-15);
    hand_times(&dag, 1.0, 2.0);
    dag.duration_s[send] = 5.0;
    CHECK_CLOSE(hand_makespan_s(&dag), 4 * 3.0 + 5.0 + 2 * 3.0, 1e-15);
    dag_free(&dag);
    plan_free(&plan);
}

/* TP 8 on each of two nodes. Every GPU of the first sends 5e9 bytes to its counterpart and to the next one on the
 * second node, and 20e9 to its neighbour: 2 (2 us + 0.1 s) by its NIC and, at the same time, 1 us + 0.1 s by NVLink,
 * whether one place stands for all eight or each has its own. No receiver has two senders, so SimGrid says the same. */
TEST(every_gpu_of_a_folded_place_sends_by_both_routes)
{
    struct platform platform = hand_platform("hopper-2x8");
    struct plan plan;
    hand_plan(&plan, 2, 1, 1);
    struct plan_phase *phase = &plan.phases[0];
    for (int32_t i = 0; i < 2; i++) {
        phase->pipelines[i].layout.tensor = 8;
        phase->pipelines[i].layout.first_rank = 8 * i;
        for (int pass = 0; pass < N_PASSES; pass++)
            hand_unit(&phase->pipelines[i].cut[pass], (struct slice){i, 0, 16});
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
        CHECK_EQUAL(count(&dag, DAG_SEND, DAG_RESHARD), 24);
        for (int32_t i = 0; i < dag.n_tasks; i++)
            if (dag.tasks[i].kind == DAG_COMPUTE && dag.tasks[i].pass == PASS_FORWARD)
                CHECK_CLOSE(timeline.start_s[i], 2 * (2e-6 + 0.1), 1e-12);
        hand_engines_agree(&dag, &platform);
        timeline_free(&timeline);
        dag_free(&dag);
    }
    plan_free(&plan);
}

/* One stage, three units, half of unit 1's activations go to the host and come back while the pass before its backward
 * runs, not sooner. */
TEST(offloaded_activations_return_before_their_backward)
{
    struct plan plan;
    hand_uniform(&plan, 1, 3, 16);
    struct plan_pipeline *pipeline = &plan.phases[0].pipelines[0];
    pipeline->cut[PASS_FORWARD].units[1].offload = 0.5;
    struct plan_step steps[] = {{PASS_FORWARD, 0, 0},  {PASS_FORWARD, 1, 0},  {PASS_FORWARD, 2, 0},
                                {PASS_BACKWARD, 0, 0}, {PASS_BACKWARD, 1, 0}, {PASS_BACKWARD, 2, 0}};
    memcpy(pipeline->steps, steps, sizeof steps);
    struct dag dag = hand_built(&plan, hand_setting(), (struct dag_options){0});
    int32_t out = find(&dag, DAG_SEND, DAG_OFFLOAD, 0), in = find(&dag, DAG_SEND, DAG_PREFETCH, 0);
    double bytes = 0.5 * 16 * 840 * cost_activation_bytes(hand_setting(), RECOMPUTE_NONE, false);
    CHECK_CLOSE(dag.duration_s[out], 4e-6 + bytes / 25e9, 1e-15);
    CHECK_CLOSE(dag.duration_s[in], dag.duration_s[out], 1e-15);
    CHECK_EQUAL(dag.tasks[out].to_rank, -1);
    CHECK_EQUAL(dag.tasks[in].from_rank, -1);
    hand_times(&dag, 1.0, 1.0);
    struct timeline timeline = {0};
    dag.duration_s[out] = 0.25;
    dag.duration_s[in] = 0.5;
    critical_path(&dag, &timeline);
    CHECK_CLOSE(timeline.start_s[out], 2.0, 1e-15);
    CHECK_CLOSE(timeline.start_s[in], 3.0, 1e-15);
    CHECK_CLOSE(timeline.makespan_s, 6.0, 1e-15);
    dag.duration_s[in] = 4.0; /* slower than the pass before: backward 1 waits to 7 */
    critical_path(&dag, &timeline);
    CHECK_CLOSE(timeline.makespan_s, 9.0, 1e-15);
    timeline_free(&timeline);
    dag_free(&dag);
    plan_free(&plan);
}

/* Replicas of one stage, forward 1 and backward 2 s, half of their units away while the passes run. What comes back in
 * 0.5 s hides: the gradients are due at 3 s. What takes 5 s, from 1 on, on the last replica alone, is as long as its
 * backward, though no pass comes behind it: they are due at 6 s. */
TEST(gradients_wait_for_the_last_copy_in)
{
    for (int32_t n = 1; n <= 2; n++)
        for (int slow = 0; slow < 2; slow++) {
            struct plan plan;
            struct timeline timeline = {0};
            int32_t last = 0;
            hand_plan(&plan, n, 1, 1);
            for (int32_t i = 0; i < 2 * n; i++) {
                struct plan_cut *cut = &plan.phases[0].pipelines[i / 2].cut[i % 2];
                struct plan_unit *unit = hand_unit(cut, (struct slice){i / 2, 0, 16});
                unit->offload = 0.5;
                unit->streams = true;
            }
            hand_order(&plan);
            struct dag dag = hand_built(&plan, hand_setting(), (struct dag_options){.gradient_sync = true});
            hand_times(&dag, 1.0, 2.0);
            hand_send_times(&dag, 0.5);
            for (int32_t i = 0; i < dag.n_tasks; i++)
                last = dag.tasks[i].purpose == DAG_PREFETCH ? i : last;
            dag.duration_s[last] = slow ? 5 : 0.5;
            critical_path(&dag, &timeline);
            int32_t due = find(&dag, DAG_SYNC, DAG_REDUCE_SCATTER, 0);
            CHECK_CLOSE(timeline.start_s[due], slow ? 6 : 3, 1e-15);
            timeline_free(&timeline);
            dag_free(&dag);
            plan_free(&plan);
        }
}

/* Two stages, two units, all offloaded; forward 1, backward 2, copies 0. Stage 1 runs F0 1-2, B0 2-4, F1 4-5, B1 5-7,
 * stage 0 F0 0-1, F1 1-2, B0 4-6, B1 7-9. A unit comes back to stage 0 when its backward starts on stage 1, not while
 * stage 0 waits for that: at 2 and 5. To stage 1 it comes when its copy out has ended: at 2 and 5 too. */
TEST(offloaded_activations_stay_away_while_a_stage_idles)
{
    struct plan plan;
    hand_uniform(&plan, 2, 2, 16);
    for (int unit = 0; unit < 2; unit++)
        plan.phases[0].pipelines[0].cut[PASS_FORWARD].units[unit].offload = 0.5;
    struct dag dag = hand_built(&plan, hand_setting(), (struct dag_options){0});
    struct timeline timeline = {0};
    hand_times(&dag, 1.0, 2.0);
    critical_path(&dag, &timeline);
    CHECK_EQUAL(count(&dag, DAG_SEND, DAG_PREFETCH), 4);
    for (int32_t i = 0; i < dag.n_tasks; i++)
        if (dag.tasks[i].purpose == DAG_PREFETCH)
            CHECK_CLOSE(timeline.start_s[i], dag.tasks[i].unit == 0 ? 2.0 : 5.0, 1e-15);
    CHECK_CLOSE(timeline.makespan_s, 9.0, 1e-15);
    timeline_free(&timeline);
    dag_free(&dag);
    plan_free(&plan);
}

/* Two stages, m units, forward 1, backward 2, sends 1. Stage 0 runs F0 0-1, and F1 at 1, sent or not; waiting for its
 * sends, it begins F1 at 2. Then stage 1 has F0 2-3, B0 3-5, stage 0's B0 6-8 (sent 5-6). One unit: 1 + 1 + 3 + 1 + 2.
 * Two: stage 1 F1 from 5, after B0 (waiting for B0's send, from 6): to 6 (7), B1 to 8 (9), sent to 9 (10), stage 0's B1
 * to 11 (12). */
TEST(a_stage_may_wait_for_its_sends)
{
    const double expected_s[2][2] = {{8, 11}, {8, 12}};
    for (int waits = 0; waits < 2; waits++)
        for (int32_t m = 1; m <= 2; m++) {
            struct plan plan;
            struct cost_setting setting = *hand_setting();
            setting.communication.pp_overlap = !waits;
            hand_uniform(&plan, 2, m, 16);
            struct dag dag = hand_built(&plan, &setting, (struct dag_options){0});
            for (int32_t i = 0; i < dag.n_tasks; i++)
                dag.duration_s[i] = dag.tasks[i].kind == DAG_COMPUTE && dag.tasks[i].pass == PASS_BACKWARD ? 2.0 : 1.0;
            CHECK_CLOSE(hand_makespan_s(&dag), expected_s[waits][m - 1], 1e-15);
            dag_free(&dag);
            plan_free(&plan);
        }
}

/* Two chunks a stage: unit 0 crosses stages 0, 1, 0, 1 forward and back; with one unit all eight passes are in line. */
TEST(chunks_are_virtual_stages)
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
    CHECK_EQUAL(count(&dag, DAG_COMPUTE, DAG_PASS), 8);
    CHECK_EQUAL(count(&dag, DAG_SEND, DAG_BOUNDARY), 6);
    hand_times(&dag, 1.0, 2.0);
    CHECK_CLOSE(hand_makespan_s(&dag), 12.0, 1e-15);
    dag_free(&dag);
    plan_free(&plan);
}

/* In the arrays of another graph, larger or smaller, a plan gives the graph that it gives alone. */
TEST(a_graph_built_in_the_arrays_of_another_is_the_same)
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

/* Each task stands once in the list of its stream, in order of numbers. */
TEST(streams_list_their_tasks_in_order)
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
