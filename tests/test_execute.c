/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests run graphs in SimGrid. */
#include "execute/execute.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hand_dag.h"
#include "hand_fluid.h"
#include "hand_plan.h"
#include "harness.h"
#include "simgrid_count.h"

static const double nvlink = 200e9, nic = 50e9; /* bytes/s, one direction */

/* Run on a built platform of 2 nodes. A failure fails the test and leaves {0}. */
static struct timeline run_on(const struct dag *dag, const char *name)
{
    struct platform platform = hand_platform(name);
    struct timeline timeline = {0};
    struct error err = {0};
    if (!hand_execute(dag, &platform, &timeline, &err)) {
        CHECK_TEXT(err.text, "");
        timeline_reserve(&timeline, dag->n_tasks);
        memset(timeline.start_s, 0, (size_t)dag->n_tasks * sizeof(double));
        memset(timeline.finish_s, 0, (size_t)dag->n_tasks * sizeof(double));
    }
    return timeline;
}

static struct timeline run(const struct dag *dag)
{
    return run_on(dag, "hopper-2x8");
}

/* 0 runs on one stream, 1 after it on another, 2 on the first again without waiting for 1. */
TEST(execute__makes_streams_wait_only_along_edges)
{
    struct dag dag = hand_dag(2, 3, 1);
    hand_compute(&dag, 0, 0.25);
    hand_compute(&dag, 1, 1.0);
    hand_after(&dag, 0);
    hand_compute(&dag, 0, 0.5);
    struct timeline timeline = run(&dag);
    CHECK_CLOSE(timeline.start_s[1], 0.25, 1e-14);
    CHECK_CLOSE(timeline.finish_s[1], 1.25, 1e-14);
    CHECK_CLOSE(timeline.start_s[2], 0.25, 1e-14);
    CHECK_CLOSE(timeline.finish_s[2], 0.75, 1e-14);
    CHECK_CLOSE(timeline.makespan_s, 1.25, 1e-14);
    dag_free(&dag);
    timeline_free(&timeline);
}

/* A transfer takes latency + bytes / bandwidth. This holds for less than one byte and fractions, though SimGrid sends
 * whole bytes. */
TEST(lone_transfer__takes_latency_and_bytes_over_bandwidth)
{
    const double bytes[] = {0, 0.25, 1, 3.5, 4096, 1e6 + 0.75, 1e9, 3e11 + 0.5};
    const int32_t to[] = {1, 8};
    for (int32_t i = 0; i < 8; i++)
        for (int32_t route = 0; route < 2; route++) {
            struct dag dag = hand_dag(1, 1, 0);
            hand_send(&dag, 0, DAG_STREAM_SEND_FORWARD, to[route],
                      hand_transfer(5e-6, bytes[i], route == 0 ? nvlink : nic));
            struct timeline timeline = run(&dag);
            CHECK_TRUE(timeline.start_s[0] == 0);
            CHECK_CLOSE(timeline.finish_s[0], dag.duration_s[0], 1e-12);
            dag_free(&dag);
            timeline_free(&timeline);
        }
}

/* GPUs 0 and 1 of node 0 send to GPU 8. Its NIC gives each half, so both take 2 x 1 GB / 50 GB/s. */
TEST(shared_nic__doubles_the_time_of_two_transfers)
{
    struct dag dag = hand_dag(2, 2, 0);
    hand_send(&dag, 0, DAG_STREAM_SEND_FORWARD, 8, hand_transfer(0, 1e9, nic));
    hand_send(&dag, 1, DAG_STREAM_SEND_FORWARD, 8, hand_transfer(0, 1e9, nic));
    struct timeline timeline = run(&dag), free_timeline = run_on(&dag, "hopper-2x8-free");
    for (int32_t t = 0; t < 2; t++) {
        CHECK_CLOSE(timeline.finish_s[t], 0.04, 1e-12);
        CHECK_CLOSE(free_timeline.finish_s[t], 0.02, 1e-12);
    }
    dag_free(&dag);
    timeline_free(&timeline);
    timeline_free(&free_timeline);
}

/* The second starts when the first has 0.5 GB left. It takes 0.01 + 1 GB shared until 0.03, then 0.5 GB alone until
 * 0.04. The sharing is fair whatever latency was paid before. */
TEST(shared_nic__is_shared_only_while_both_run)
{
    struct dag dag = hand_dag(2, 2, 0);
    hand_send(&dag, 0, DAG_STREAM_SEND_FORWARD, 8, hand_transfer(0, 1e9, nic));
    hand_send(&dag, 1, DAG_STREAM_SEND_FORWARD, 8, hand_transfer(0.01, 1e9, nic));
    struct timeline timeline = run(&dag);
    CHECK_CLOSE(timeline.finish_s[0], 0.03, 1e-12);
    CHECK_CLOSE(timeline.finish_s[1], 0.04, 1e-12);
    CHECK_TRUE(timeline.start_s[1] == 0);
    dag_free(&dag);
    timeline_free(&timeline);
}

/* Both directions of a NIC, of an NVLink and of a PCIe link run at once. */
TEST(links__do_not_disturb_other_directions_and_kinds)
{
    struct dag dag = hand_dag(9, 6, 0);
    hand_send(&dag, 0, DAG_STREAM_SEND_FORWARD, 8, hand_transfer(0, 1e9, nic));
    hand_send(&dag, 8, DAG_STREAM_SEND_BACKWARD, 0, hand_transfer(0, 1e9, nic));
    hand_send(&dag, 0, DAG_STREAM_COLLECTIVE, 1, hand_transfer(0, 1e9, nvlink));
    hand_send(&dag, 1, DAG_STREAM_COLLECTIVE, 0, hand_transfer(0, 1e9, nvlink));
    hand_send(&dag, 0, DAG_STREAM_TO_HOST, -1, hand_transfer(0, 1e9, 64e9));
    int32_t prefetch = hand_send(&dag, 0, DAG_STREAM_FROM_HOST, 0, hand_transfer(0, 1e9, 64e9));
    dag.tasks[prefetch].from_rank = -1;
    struct timeline timeline = run(&dag);
    for (int32_t t = 0; t < dag.n_tasks; t++)
        CHECK_CLOSE(timeline.finish_s[t], dag.duration_s[t], 1e-12);
    dag_free(&dag);
    timeline_free(&timeline);
}

/* A ring joins the first GPU of each of 16 nodes. After a barrier every one sends to the next, before another barrier.
 * Every NIC has one sender and one receiver, so a round takes latency + bytes / NIC. The slowest rank, 0.3 s late,
 * holds all back. */
TEST(ring__takes_one_send_between_barriers)
{
    const int32_t n = 16;
    struct dag dag = hand_dag(n, 2 * n + 2, 3 * n);
    for (int32_t i = 0; i < n; i++) {
        dag.ranks[i].rank = 8 * i;
        hand_compute(&dag, i, i == 5 ? 0.3 : 0.1);
    }
    int32_t begin = hand_sync(&dag, 0);
    for (int32_t i = 0; i < n; i++)
        hand_after(&dag, i);
    for (int32_t i = 0; i < n; i++) {
        hand_send(&dag, i, DAG_STREAM_COLLECTIVE, 8 * ((i + 1) % n), hand_transfer(1e-5, 1e9, nic));
        hand_after(&dag, begin);
    }
    int32_t end = hand_sync(&dag, 0);
    for (int32_t i = 0; i < n; i++)
        hand_after(&dag, begin + 1 + i);
    struct timeline timeline = run_on(&dag, "hopper-16x8");
    CHECK_CLOSE(timeline.start_s[begin], 0.3, 1e-12);
    CHECK_CLOSE(timeline.finish_s[end], 0.3 + 1e-5 + 0.02, 1e-12);
    dag_free(&dag);
    timeline_free(&timeline);
}

/* Draw a number in [0, n) from a state by Knuth's MMIX generator. */
static int32_t draw(uint64_t *state, int32_t n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (int32_t)((*state >> 33) % (uint64_t)n);
}

/* GPU i sends only to GPU i + 8 of the other node, in one stream, so links are disjoint. */
static struct dag random_dag(uint64_t *state)
{
    int32_t n_ranks = 1 + draw(state, 8), n_tasks = 1 + draw(state, 300);
    struct dag dag = hand_dag(n_ranks, n_tasks, 4 * n_tasks);
    for (int32_t t = 0; t < n_tasks; t++) {
        int32_t place = draw(state, n_ranks), kind = draw(state, 4);
        if (kind == 0)
            hand_sync(&dag, place);
        else if (kind == 1)
            hand_send(&dag, place, DAG_STREAM_SEND_FORWARD, place + 8,
                      hand_transfer(1e-6 * draw(state, 30), 1e7 * draw(state, 1000) / 7, nic));
        else
            hand_compute(&dag, place, 1e-3 * draw(state, 100) / 3);
        int32_t n_edges = t > 0 ? draw(state, 4) : 0;
        for (int32_t e = 0; e < n_edges; e++)
            hand_after(&dag, draw(state, t));
    }
    return dag;
}

/* If nothing contends, every start and finish is that of the longest path. */
TEST(execute__equals_the_longest_path_on_disjoint_links)
{
    uint64_t state = 1;
    for (int32_t round = 0; round < 60; round++) {
        struct dag dag = random_dag(&state);
        struct timeline timeline = run(&dag), longest = hand_longest_path(&dag);
        double worst = 0;
        for (int32_t t = 0; t < dag.n_tasks; t++)
            worst = fmax(worst, fmax(fabs(timeline.start_s[t] - longest.start_s[t]),
                                     fabs(timeline.finish_s[t] - longest.finish_s[t])));
        if (!CHECK_TRUE(worst <= 1e-12 * longest.makespan_s))
            printf("round %d: %d tasks, %g s apart\n", round, dag.n_tasks, worst);
        CHECK_TRUE(fabs(timeline.makespan_s - longest.makespan_s) <= 1e-12 * longest.makespan_s);
        dag_free(&dag);
        timeline_free(&timeline);
        timeline_free(&longest);
    }
}

/* Any GPU of two nodes sends to any other, with two streams a GPU. It sends whole bytes, as SimGrid does not share a
 * fraction of one. With coarse numbers many transfers begin and end at the same moment. */
static struct dag meeting_dag(uint64_t *state, bool coarse)
{
    int32_t n_tasks = 1 + draw(state, 200), n_ranks = 16;
    struct dag dag = hand_dag(n_ranks, n_tasks, 2 * n_tasks);
    for (int32_t t = 0; t < n_tasks; t++) {
        int32_t place = draw(state, n_ranks), to_rank = (place + 1 + draw(state, 15)) % 16;
        bool inside = place / 8 == to_rank / 8;
        double bytes = coarse ? 5e7 * (1 + draw(state, 4)) : floor(1e5 + 1e6 * draw(state, 1000) / 7);
        double latency_s = coarse ? 0 : 1e-6 * draw(state, 30);
        if (draw(state, 3) == 0)
            hand_compute(&dag, place, 1e-3 * draw(state, 10) / (coarse ? 1 : 3));
        else
            hand_send(&dag, place, draw(state, 2) ? DAG_STREAM_SEND_FORWARD : DAG_STREAM_SEND_BACKWARD, to_rank,
                      hand_transfer(latency_s, bytes, inside ? nvlink : nic));
        int32_t n_edges = t > 0 ? draw(state, 3) : 0;
        for (int32_t e = 0; e < n_edges; e++)
            hand_after(&dag, t - 1 - draw(state, t < 20 ? t : 20));
    }
    return dag;
}

TEST(execute__shares_links_by_max_min_fairness)
{
    uint64_t state = 3;
    int32_t n_slowed = 0;
    for (int32_t round = 0; round < 40; round++) {
        struct dag dag = meeting_dag(&state, round % 2 == 0);
        struct timeline timeline = run(&dag), fluid = hand_fluid(&dag);
        double worst = 0;
        for (int32_t t = 0; t < dag.n_tasks; t++) {
            worst = fmax(worst, fmax(fabs(timeline.start_s[t] - fluid.start_s[t]),
                                     fabs(timeline.finish_s[t] - fluid.finish_s[t])));
            n_slowed += timeline.finish_s[t] > timeline.start_s[t] + 1.01 * dag.duration_s[t];
        }
        if (!CHECK_TRUE(worst <= 1e-11)) /* SimGrid takes moments less than 1e-12 s apart for one */
            printf("round %d: %d tasks, %g s of %g s apart\n", round, dag.n_tasks, worst, fluid.makespan_s);
        dag_free(&dag);
        timeline_free(&timeline);
        timeline_free(&fluid);
    }
    CHECK_TRUE(n_slowed > 200);
}

TEST(execute__gives_the_same_bits_twice)
{
    uint64_t state = 7;
    for (int i = 0; i < 3; i++) {
        struct dag dag = i == 0 ? random_dag(&state) : meeting_dag(&state, i == 1);
        size_t bytes = (size_t)dag.n_tasks * sizeof(double);
        struct timeline first = run(&dag), second = run(&dag);
        CHECK_TRUE(memcmp(first.start_s, second.start_s, bytes) == 0);
        CHECK_TRUE(memcmp(first.finish_s, second.finish_s, bytes) == 0);
        dag_free(&dag);
        timeline_free(&first);
        timeline_free(&second);
    }
}

TEST(execute__reuses_a_timeline_for_a_larger_dag)
{
    struct platform platform = hand_platform("hopper-1x8");
    struct timeline timeline = {0};
    struct error err = {0};
    for (int32_t n = 0; n < 300; n += 100) {
        struct dag dag = hand_dag(1, n, 0);
        for (int32_t t = 0; t < n; t++)
            hand_compute(&dag, 0, 0.5);
        CHECK_TRUE(hand_execute(&dag, &platform, &timeline, &err));
        CHECK_TRUE(timeline.makespan_s == 0.5 * n);
        dag_free(&dag);
    }
    timeline_free(&timeline);
}

/* The file has two nodes of 8, the struct one of 8 or of 4. Other hosts do not belong to it. So the memory of the first
 * node is reached as before, at 64 GB/s. */
TEST(execute__ignores_hosts_beyond_the_platform)
{
    for (int32_t gpus = 4; gpus <= 8; gpus += 4) {
        struct platform platform = hand_platform_file("hopper-2x8", "beyond.xml");
        struct dag dag = hand_dag(1, 1, 0);
        struct timeline timeline = {0};
        struct error err = {0};
        platform.n_nodes = 1;
        platform.gpus_per_node = platform.nvlink_domain = gpus;
        hand_send(&dag, 0, DAG_STREAM_TO_HOST, -1, hand_transfer(0, 64e9, 64e9));
        CHECK_TRUE(hand_execute(&dag, &platform, &timeline, &err));
        CHECK_TEXT(err.text, "");
        CHECK_CLOSE(timeline.makespan_s, 1.0, 1e-12);
        dag_free(&dag);
        timeline_free(&timeline);
    }
}

/* Find the error of running one second of work on GPU `rank`. */
static struct error refusal(const struct platform *platform, int32_t rank)
{
    struct dag dag = hand_dag(1, 1, 0);
    struct timeline timeline = {0};
    struct error err = {0};
    hand_compute(&dag, 0, 1);
    dag.ranks[0].rank = rank;
    CHECK_TRUE(!hand_execute(&dag, platform, &timeline, &err));
    dag_free(&dag);
    return err;
}

TEST(execute__refuses_a_gpu_beyond_the_platform)
{
    struct platform platform = hand_platform("hopper-2x8");
    struct error err = refusal(&platform, 16);
    CHECK_EQUAL(err.status, ERROR_INVALID);
    CHECK_TEXT(err.text, "the plan uses GPU 16, but platform hopper-2x8 has GPUs 0 to 15 (2 nodes of 8)");
}

/* Somebody changed the file after it was read. It has two nodes, the struct three. */
TEST(execute__names_a_host_that_the_file_lacks)
{
    struct platform platform = hand_platform_file("hopper-2x8", "changed.xml");
    platform.n_nodes = 3;
    struct error err = refusal(&platform, 16);
    CHECK_EQUAL(err.status, ERROR_INVALID);
    CHECK_CONTAINS(err.text, "changed.xml: SimGrid cannot use this platform: host g2_0 (GPU 16) is missing");
}

/* SimGrid aborts on these. The process that simulates must live. */
TEST(execute__gives_the_reason_of_simgrids_refusal)
{
    struct platform platform = hand_platform("hopper-2x8");
    snprintf(platform.path, sizeof platform.path, "%s", harness_path("unread.xml"));
    FILE *file = fopen(platform.path, "w");
    CHECK_TRUE(file != NULL &&
               fputs("<?xml version=\"1.0\"?>\n<platform version=\"4.1\"><zone></platform>\n", file) > 0);
    fclose(file);
    struct error err = refusal(&platform, 0);
    CHECK_EQUAL(err.status, ERROR_INVALID);
    CHECK_CONTAINS(err.text, "unread.xml: SimGrid cannot use this platform: Parse error at ");
    CHECK_CONTAINS(err.text, "unread.xml:2: Invalid XML");
    snprintf(platform.path, sizeof platform.path, "%s", harness_path("absent.xml"));
    err = refusal(&platform, 0);
    CHECK_EQUAL(err.status, ERROR_INVALID);
    CHECK_CONTAINS(err.text, "absent.xml: SimGrid cannot use this platform: Uncaught exception");
    CHECK_CONTAINS(err.text, "Does this file exist?");
    CHECK_TRUE(strchr(err.text, '\n') == NULL);
}

/* Find the error of running on a platform of one host. */
static struct error refusal_of_host(const char *file_name, const char *id, const char *speed)
{
    struct platform platform = hand_platform("hopper-2x8");
    snprintf(platform.path, sizeof platform.path, "%s", harness_path(file_name));
    FILE *file = fopen(platform.path, "w");
    CHECK_TRUE(file != NULL &&
               fprintf(file,
                       "<?xml version=\"1.0\"?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
                       "<platform version=\"4.1\"><zone id=\"z\" routing=\"Full\">"
                       "<host id=\"%s\" speed=\"%s\"/></zone></platform>\n",
                       id, speed) > 0);
    fclose(file);
    return refusal(&platform, 0);
}

TEST(execute__takes_a_longer_name_for_another_host)
{
    struct error err = refusal_of_host("other.xml", "g0_0b", "1Gf");
    CHECK_CONTAINS(err.text, "other.xml: SimGrid cannot use this platform: host g0_0 (GPU 0) is missing");
}

/* SimGrid's message is read to its end. If it is longer than an error, its beginning is told. */
TEST(execute__cuts_a_long_reason)
{
    char speed[9000] = "";
    memset(speed, 'x', sizeof speed - 1);
    struct error err = refusal_of_host("long.xml", "g0_0", speed);
    CHECK_EQUAL(err.status, ERROR_INVALID);
    CHECK_CONTAINS(err.text, "long.xml: SimGrid cannot use this platform: Parse error at ");
    CHECK_CONTAINS(err.text, "cannot parse number:xxxxxxxxxx");
    CHECK_TRUE(strlen(err.text) > 4000 && strlen(err.text) < 4200);
}

TEST(execute_simgrid_version__is_simgrids)
{
    CHECK_TRUE(strtod(execute_simgrid_version(), NULL) >= 3.32);
}

/* SimGrid itself counts: executions are tasks of work with a duration, communications are SENDs of at least a byte. The
 * graph of a plan of 4 stages on 2 nodes has both, and barriers. A second run has copies to the host and back on three
 * stages, too. */
TEST(execute__completes_as_many_activities_as_tasks)
{
    struct platform platform = hand_platform("hopper-2x8");
    struct cost_setting setting = *hand_setting();
    setting.platform = &platform;
    for (int i = 0; i < 2; i++) {
        struct plan plan;
        struct error err = {0};
        struct timeline timeline = {0};
        hand_uniform(&plan, 4, 6, 3000);
        if (i == 1)
            for (int32_t u = 0; u < 6; u++)
                plan.phases[0].pipelines[0].partition[PASS_FORWARD].micro_batches[u].offload = 0.5;
        struct dag dag = hand_built(&plan, &setting, (struct dag_options){.gradient_sync = true});
        int64_t n_executions = 0, n_communications = 0;
        for (int32_t t = 0; t < dag.n_tasks; t++) {
            n_communications += dag.tasks[t].kind == DAG_SEND && dag.tasks[t].wire_bytes >= 1;
            n_executions += dag.tasks[t].kind != DAG_SEND && dag.tasks[t].kind != DAG_SYNC && dag.duration_s[t] > 0;
        }
        const struct simgrid_count *count = simgrid_count_begin();
        CHECK_TRUE(hand_execute(&dag, &platform, &timeline, &err));
        CHECK_TEXT(err.text, "");
        CHECK_TRUE(n_executions >= 48 && n_communications >= 36 + 36 * i);
        CHECK_EQUAL(count->executions, n_executions);
        CHECK_EQUAL(count->communications, n_communications);
        timeline_free(&timeline);
        dag_free(&dag);
        plan_free(&plan);
    }
}

/* Make a built platform without the lines that hold `part`, one file at a time. */
static struct platform platform_without(const char *part)
{
    struct platform platform = hand_platform_file("hopper-2x8", "with.xml");
    char line[4096], from[sizeof platform.path];
    memcpy(from, platform.path, sizeof from);
    snprintf(platform.path, sizeof platform.path, "%s", harness_path("without.xml"));
    FILE *in = fopen(from, "r"), *out = fopen(platform.path, "w");
    CHECK_TRUE(in != NULL && out != NULL);
    while (fgets(line, sizeof line, in) != NULL)
        if (strstr(line, part) == NULL)
            fputs(line, out);
    fclose(in);
    fclose(out);
    return platform;
}

/* SimGrid moves bytes at no cost if a zone of kind Full has no route. It aborts if others have none. If the way to a
 * node's gateway is missing, an existing route lacks the NIC's link. */
TEST(routes__names_gpus_without_a_route_first)
{
    static const struct {
        const char *without, *reason;
        int32_t to;
    } cases[] = {
        {"src=\"g0_0\" dst=\"g0_1\"", "there is no route from g0_0 to g0_1", 1},
        {"src=\"g0_0\" dst=\"cpu0\"", "there is no route from g0_0 to cpu0", -1},
        {"src=\"leaf0z\" dst=\"node1\"", "there is no route from g0_0 to g1_0", 8},
        {"src=\"g0_0\" dst=\"sw0\"", "the route from g0_0 to g1_0 lacks a link: its narrowest link carries 50 GB/s", 8},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct platform platform = platform_without(cases[i].without);
        struct timeline timeline = {0};
        struct error err = {0};
        struct dag dag = hand_dag(1, 2, 0);
        double bytes_per_s = cases[i].to == 1 ? nvlink : cases[i].to < 0 ? 64e9 : i == 3 ? 49e9 : nic;
        hand_compute(&dag, 0, 1);
        hand_send(&dag, 0, DAG_STREAM_SEND_FORWARD, cases[i].to, hand_transfer(0, 1e9, bytes_per_s));
        hand_after(&dag, 0);
        CHECK_TRUE(!hand_execute(&dag, &platform, &timeline, &err));
        CHECK_EQUAL(err.status, ERROR_INVALID);
        CHECK_CONTAINS(err.text, cases[i].reason);
        CHECK_TRUE(strchr(err.text, '\n') == NULL);
        dag_free(&dag);
    }
}

/* Somebody kills SimGrid's process. It is tried again, and then the run is interrupted, not failed. */
TEST(execute__tries_a_killed_child_again)
{
    struct platform platform = hand_platform("hopper-2x8");
    for (int kills = 0; kills <= 2; kills++) {
        struct timeline timeline = {0};
        struct error err = {0};
        struct dag dag = hand_dag(1, 1, 0);
        hand_compute(&dag, 0, 1);
        simgrid_count_kill(kills);
        CHECK_TRUE(hand_execute(&dag, &platform, &timeline, &err) == (kills < 2));
        CHECK_EQUAL(err.status, kills < 2 ? ERROR_NONE : ERROR_INTERRUPTED);
        if (kills < 2)
            CHECK_CLOSE(timeline.makespan_s, 1, 1e-14);
        else
            CHECK_CONTAINS(err.text, "interrupted: SimGrid's process was killed twice on platform ");
        timeline_free(&timeline);
        dag_free(&dag);
    }
    simgrid_count_kill(0);
}

/* Options come after ours, so a user's bandwidth factor halves the speed. An option that SimGrid refuses is named. */
TEST(simgrid_options__are_taken_or_refused)
{
    struct platform platform = hand_platform("hopper-2x8");
    struct timeline timeline = {0};
    struct error err = {0};
    struct dag dag = hand_dag(1, 1, 0);
    hand_send(&dag, 0, DAG_STREAM_SEND_FORWARD, 8, hand_transfer(0, 1e9, nic));
    struct graph *graph = graph_create(&dag, &err);
    struct execute_options options = {.cfg = "network/bandwidth-factor:0.5 cpu/optim:Full"};
    CHECK_TRUE(execute(&dag, graph, &platform, &options, &timeline, &err));
    CHECK_CLOSE(timeline.makespan_s, 0.04, 1e-12);
    static const char *const refused[][2] = {
        {"nonsense:1", "Bad config key: nonsense"},
        {"contexts/nthreads:2", "contexts/nthreads must be 1"},
        {"network/bandwidth-factor:0", "network/bandwidth-factor:0"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        options.cfg = refused[i][0];
        CHECK_TRUE(!execute(&dag, graph, &platform, &options, &timeline, &err));
        CHECK_EQUAL(err.status, ERROR_INVALID);
        CHECK_CONTAINS(err.text, "simgrid_cfg '");
        CHECK_CONTAINS(err.text, refused[i][0]);
        CHECK_CONTAINS(err.text, refused[i][1]);
    }
    graph_free(graph);
    timeline_free(&timeline);
    dag_free(&dag);
}

/* One second of work is followed by a SEND of half a second. Each stream of the host has a state while its task
 * runs. */
TEST(paje_trace__has_a_state_of_each_stream)
{
    struct platform platform = hand_platform("hopper-2x8");
    struct timeline timeline = {0};
    struct error err = {0};
    char line[4096], path[1024];
    int32_t n_begins = 0, n_ends = 0;
    bool works = false, sends = false;
    struct dag dag = hand_dag(1, 2, 1);
    hand_compute(&dag, 0, 1);
    hand_send(&dag, 0, DAG_STREAM_SEND_FORWARD, 8, hand_transfer(0, 25e9, nic));
    hand_after(&dag, 0);
    snprintf(path, sizeof path, "%s", harness_path("trace.paje"));
    struct graph *graph = graph_create(&dag, &err);
    struct execute_options options = {.cfg = "", .trace = path};
    CHECK_TRUE(execute(&dag, graph, &platform, &options, &timeline, &err));
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        works = works || strstr(line, " forward ") != NULL;
        sends = sends || strstr(line, " send-forward") != NULL;
        n_begins += strncmp(line, "12 0.0000000000", 15) == 0 || strncmp(line, "12 1.0000000000", 15) == 0; /* push */
        n_ends += strncmp(line, "13 1.0000000000", 15) == 0 || strncmp(line, "13 1.5000000000", 15) == 0;   /* pop */
    }
    CHECK_TRUE(works && sends);
    CHECK_EQUAL(n_begins, 2);
    CHECK_EQUAL(n_ends, 2);
    if (file != NULL)
        fclose(file);
    graph_free(graph);
    timeline_free(&timeline);
    dag_free(&dag);
}
