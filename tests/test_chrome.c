/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check the events that are written for Chrome's viewer. */
#include "base/check.h"
#include "dag/dag.h"
#include "harness.h"
#include "trace/chrome.h"

#include <stdlib.h>
#include <string.h>

/* Write two tasks back to back at thirds of a second and a transfer, on the second system's GPU 1 of 4. */
static struct trace_reader *written(const struct trace_task *tasks, int32_t n_tasks, double time_s,
                                    const struct trace_edge *edge)
{
    struct error err = {0};
    char folder[1024];
    snprintf(folder, sizeof folder, "%s", harness_path(""));
    struct trace *trace = trace_create(folder, "chrome", &err);
    CHECK(trace != NULL);
    struct trace_summary summary = {.gpus = 4};
    struct trace_memory memory = {
        .system = 1, .rank = 1, .time_s = time_s, .states_bytes = 1e10, .kv_bytes = 12, .libraries_bytes = 7};
    CHECK(trace_set_systems(trace, 2, (const char *const[]){"best-fit", "slim \"\\\n"}, &err));
    CHECK(trace_append(trace, TRACE_SUMMARY, &summary, 1, &err));
    CHECK(trace_append(trace, TRACE_TASKS, tasks, n_tasks, &err));
    CHECK(trace_append(trace, TRACE_MEMORY, &memory, 1, &err));
    CHECK(trace_append(trace, TRACE_EDGES, edge, edge != NULL, &err));
    CHECK(trace_close(trace, &err));
    struct trace_reader *reader = trace_open(harness_path("chrome.h5"), &err);
    CHECK(reader != NULL);
    return reader;
}

static const struct trace_task pass = {.system = 1,
                                       .kind = DAG_COMPUTE,
                                       .direction = PASS_BACKWARD,
                                       .stream = DAG_STREAM_COMPUTE,
                                       .pipeline = 2,
                                       .stage = 1,
                                       .rank = 1,
                                       .micro_batch = 3,
                                       .start_s = 1.0 / 3,
                                       .finish_s = 2.0 / 3};

static int32_t count(const char *text, const char *part)
{
    int32_t n = 0;
    for (; (text = strstr(text, part)) != NULL; text++)
        n++;
    return n;
}

static char *text_of(struct trace_reader *reader, bool *ok, struct error *err)
{
    char *text = NULL;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    *ok = chrome_write(reader, file, err);
    fclose(file);
    trace_reader_close(reader);
    return text;
}

static char *chrome_text(const struct trace_task *tasks, int32_t n_tasks, bool *ok, struct error *err)
{
    return text_of(written(tasks, n_tasks, 1.5e-3, NULL), ok, err);
}

/* 1/3 s is 333333333 ns rounded, 2/3 s is 666666667 ns. The second event begins where the first ends. */
TEST(chrome__ends_an_event_where_the_next_begins)
{
    struct error err = {0};
    bool ok;
    struct trace_task tasks[3] = {pass, pass, pass};
    tasks[1].start_s = 2.0 / 3;
    tasks[1].finish_s = 1;
    tasks[2].kind = DAG_SEND;
    tasks[2].purpose = DAG_BOUNDARY;
    tasks[2].stream = DAG_STREAM_SEND_BACKWARD;
    tasks[2].bytes = 0.5;
    char *text = chrome_text(tasks, 3, &ok, &err);
    CHECK_TRUE(ok);
    CHECK_CONTAINS(
        text,
        "{\"ph\":\"X\",\"name\":\"backward 3\",\"cat\":\"compute,critical\",\"pid\":5,\"tid\":0,\"cname\":\"terrible\","
        "\"ts\":333333.333,\"dur\":333333.334,");
    CHECK_CONTAINS(text, "\"ts\":666666.667,\"dur\":333333.333,");
    CHECK_CONTAINS(text, "\"name\":\"boundary backward 3\",\"cat\":\"send,critical\",\"pid\":5,\"tid\":2,");
    CHECK_CONTAINS(text, "\"name\":\"slim \\\"\\\\\\u000a: pipeline 2 stage 1, context 0 tensor 0, GPU 1\"");
    CHECK_CONTAINS(text, "{\"ph\":\"C\",\"name\":\"memory [B]\",\"pid\":5,\"ts\":1500.000,"
                         "\"args\":{\"states\":10000000000,\"activations\":0,\"kv\":12,"
                         "\"kv_gradients\":0,\"workspace\":0,\"communication\":0,\"libraries\":7}}");
    CHECK_EQUAL(count(text, "process_name"), 1);
    free(text);
}

/* A GPU has another place in each of two phases with different layouts. Its name tells neither place; its events do. */
TEST(chrome__names_a_process_of_several_places_by_its_gpu)
{
    struct error err = {0};
    bool ok;
    struct trace_task tasks[3] = {pass, pass, pass};
    tasks[1].phase = 1;
    tasks[1].pipeline = 0;
    tasks[2].rank = 2;
    char *text = chrome_text(tasks, 3, &ok, &err);
    CHECK_TRUE(ok);
    CHECK_CONTAINS(text, "\\u000a: GPU 1\"");
    CHECK_CONTAINS(text, "\\u000a: pipeline 2 stage 1, context 0 tensor 0, GPU 2\"");
    CHECK_CONTAINS(text, "\"slack_us\":0.000,\"critical\":true,\"phase\":0,\"pipeline\":2,\"stage\":1}}");
    CHECK_CONTAINS(text, "\"slack_us\":0.000,\"critical\":true,\"phase\":1,\"pipeline\":0,\"stage\":1}}");
    CHECK_EQUAL(count(text, "\"phase\""), 2);
    free(text);
}

/* GPU 1 sends from 2/3 s on, and GPU 2 receives at 1 s. Slack of a nanosecond leaves the critical path. */
TEST(chrome__leads_an_arrow_from_a_boundary_to_its_pass)
{
    struct error err = {0};
    bool ok;
    struct trace_task tasks[3] = {pass, pass, pass};
    tasks[1].task = 1;
    tasks[1].kind = DAG_SEND;
    tasks[1].purpose = DAG_BOUNDARY;
    tasks[1].stream = DAG_STREAM_SEND_BACKWARD;
    tasks[1].start_s = 2.0 / 3;
    tasks[1].finish_s = 0.9;
    tasks[1].slack_s = 1e-9;
    tasks[2].task = 2;
    tasks[2].rank = 2;
    tasks[2].start_s = 1;
    tasks[2].finish_s = 4.0 / 3;
    struct trace_edge edge = {.system = 1, .from_task = 1, .to_task = 2, .kind = DAG_INTER_STAGE};
    char *text = text_of(written(tasks, 3, 0, &edge), &ok, &err);
    CHECK_TRUE(ok);
    CHECK_CONTAINS(text, "{\"ph\":\"s\",\"id\":1,\"name\":\"boundary\",\"cat\":\"boundary\",\"pid\":5,\"tid\":2,"
                         "\"ts\":666666.668},\n{\"ph\":\"f\",\"bp\":\"e\",\"id\":1,\"name\":\"boundary\","
                         "\"cat\":\"boundary\",\"pid\":6,\"tid\":0,\"ts\":1000000.001}");
    CHECK_CONTAINS(text, "\"slack_us\":0.001}}");
    CHECK_EQUAL(count(text, "\"critical\":true"), 2);
    free(text);
    edge.kind = DAG_SCHEDULE;
    text = text_of(written(tasks, 3, 0, &edge), &ok, &err);
    CHECK_EQUAL(count(text, "\"ph\":\"s\""), 0);
    free(text);
}

TEST(chrome__refuses_edges_out_of_range_or_back_in_time)
{
    struct trace_task tasks[2] = {pass, pass};
    tasks[0].kind = DAG_SEND;
    tasks[0].purpose = DAG_BOUNDARY;
    tasks[1].task = 1;
    tasks[1].start_s = 0.1;
    const struct trace_edge edges[] = {{.system = 2, .to_task = 1},
                                       {.system = 1, .to_task = 2},
                                       {.system = 1, .from_task = -1},
                                       {.system = 0, .to_task = 1},
                                       {.system = 1, .to_task = 1}};
    for (int i = 0; i < 5; i++) {
        struct error err = {0};
        bool ok;
        free(text_of(written(tasks, 2, 0, &edges[i]), &ok, &err));
        CHECK_TRUE(!ok && err.status == ERROR_INVALID);
        CHECK_CONTAINS(err.text, i < 4 ? "table edges is out of range" : "task 1 starts before task 0");
    }
}

TEST(chrome__refuses_indices_out_of_range)
{
    struct trace_task tasks[7] = {pass, pass, pass, pass, pass, pass, pass};
    tasks[6].task = 1;
    tasks[0].rank = 4;
    tasks[1].system = 2;
    tasks[2].stream = -1;
    tasks[3].finish_s = 0;
    tasks[4].kind = DAG_N_KINDS;
    tasks[5].finish_s = 1e10; /* beyond 2^63 ns */
    for (int32_t t = 0; t < 7; t++) {
        struct error err = {0};
        bool ok;
        free(chrome_text(&tasks[t], 1, &ok, &err));
        CHECK_TRUE(!ok);
        CHECK_EQUAL(err.status, ERROR_INVALID);
        CHECK_CONTAINS(err.text, "out of range");
    }
}

TEST(chrome__refuses_memory_at_no_time)
{
    const double times_s[] = {-1, 1e10};
    for (int i = 0; i < 2; i++) {
        struct error err = {0};
        bool ok;
        free(text_of(written(&pass, 1, times_s[i], NULL), &ok, &err));
        CHECK_TRUE(!ok && err.status == ERROR_INVALID);
        CHECK_CONTAINS(err.text, "table memory is out of range");
    }
}

TEST(chrome__says_how_to_get_tasks_that_a_trace_lacks)
{
    struct error err = {0};
    char folder[1024];
    snprintf(folder, sizeof folder, "%s", harness_path(""));
    struct trace *trace = trace_create(folder, "chrome-none", &err);
    CHECK(trace_set_systems(trace, 1, (const char *const[]){"best-fit"}, &err));
    CHECK(trace_close(trace, &err));
    struct trace_reader *reader = trace_open(harness_path("chrome-none.h5"), &err);
    CHECK_TRUE(!chrome_write(reader, stdout, &err));
    CHECK_CONTAINS(err.text, "trace: full");
    trace_reader_close(reader);
}
