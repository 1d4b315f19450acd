/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check the events that are written for Chrome's viewer. */
#include "base/check.h"
#include "dag/dag.h"
#include "harness.h"
#include "trace/chrome.h"

#include <stdlib.h>
#include <string.h>

/* Write two tasks back to back at thirds of a second and a transfer, on the second system's GPU 1 of 4. */
static struct trace_reader *written(const struct trace_task *tasks, int32_t n_tasks, double time_s)
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
                                       .unit = 3,
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
    return text_of(written(tasks, n_tasks, 1.5e-3), ok, err);
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
    CHECK_CONTAINS(text, "{\"ph\":\"X\",\"name\":\"backward 3\",\"cat\":\"compute\",\"pid\":5,\"tid\":0,"
                         "\"ts\":333333.333,\"dur\":333333.334,");
    CHECK_CONTAINS(text, "\"ts\":666666.667,\"dur\":333333.333,");
    CHECK_CONTAINS(text, "\"name\":\"boundary backward 3\",\"cat\":\"send\",\"pid\":5,\"tid\":2,");
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
    CHECK_CONTAINS(text, "\"slack_us\":0.000,\"phase\":0,\"pipeline\":2,\"stage\":1}}");
    CHECK_CONTAINS(text, "\"slack_us\":0.000,\"phase\":1,\"pipeline\":0,\"stage\":1}}");
    CHECK_EQUAL(count(text, "\"phase\""), 2);
    free(text);
}

TEST(chrome__refuses_indices_out_of_range)
{
    struct trace_task tasks[6] = {pass, pass, pass, pass, pass, pass};
    tasks[0].rank = 4;
    tasks[1].system = 2;
    tasks[2].stream = -1;
    tasks[3].finish_s = 0;
    tasks[4].kind = DAG_N_KINDS;
    tasks[5].finish_s = 1e10; /* beyond 2^63 ns */
    for (int32_t t = 0; t < 6; t++) {
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
        free(text_of(written(&pass, 1, times_s[i]), &ok, &err));
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
