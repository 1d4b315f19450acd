/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check the files that Holistic Trace Analysis reads. */
#include "base/check.h"
#include "base/file_bytes.h"
#include "dag/dag.h"
#include "harness.h"
#include "trace/hta.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Write tasks of 4 GPUs and two systems. */
static struct trace_reader *written(const struct trace_task *tasks, int32_t n_tasks)
{
    struct error err = {0};
    char folder[1024];
    snprintf(folder, sizeof folder, "%s", harness_path(""));
    struct trace *trace = trace_create(folder, "hta", &err);
    struct trace_summary summary = {.gpus = 4};
    CHECK(trace != NULL && trace_set_systems(trace, 2, (const char *const[]){"best-fit", "a \"b\""}, &err));
    CHECK(trace_append(trace, TRACE_SUMMARY, &summary, 1, &err));
    CHECK(trace_append(trace, TRACE_TASKS, tasks, n_tasks, &err) && trace_close(trace, &err));
    struct trace_reader *reader = trace_open(harness_path("hta.h5"), &err);
    CHECK(reader != NULL);
    return reader;
}

/* Empty the folder of the files. */
static const char *empty_folder(char path[1024])
{
    snprintf(path, 1024, "%s", harness_path("hta"));
    mkdir(path, 0777);
    for (int rank = 0; rank < 4; rank++) {
        char file[1100];
        snprintf(file, sizeof file, "%s/rank-%d.json", path, rank);
        unlink(file);
    }
    return path;
}

static char *text_of(const char *folder, int rank)
{
    char path[1100];
    struct file_bytes file = {0};
    struct error err = {0};
    snprintf(path, sizeof path, "%s/rank-%d.json", folder, rank);
    CHECK(file_bytes_load(path, &file, &err));
    char *text = check_strndup((const char *)file.bytes, file.n);
    free(file.bytes);
    return text;
}

/* The second system's GPU 2 runs a pass, sends its boundary, copies to the host and takes a step. A barrier without
 * duration is no event, and the first system's task belongs to another export. */
static const struct trace_task tasks[] = {
    {.system = 0, .task = 0, .kind = DAG_COMPUTE, .micro_batch = 0, .finish_s = 1},
    {.system = 1, .task = 0, .kind = DAG_OPTIMIZER, .rank = 2, .micro_batch = -1, .start_s = 1, .finish_s = 1.25},
    {.system = 1,
     .task = 1,
     .kind = DAG_COMPUTE,
     .direction = PASS_BACKWARD,
     .rank = 2,
     .micro_batch = 3,
     .start_s = 0,
     .finish_s = 1.0 / 3},
    {.system = 1,
     .task = 2,
     .kind = DAG_SEND,
     .purpose = DAG_BOUNDARY,
     .direction = PASS_BACKWARD,
     .rank = 2,
     .stream = DAG_STREAM_SEND_BACKWARD,
     .micro_batch = 3,
     .start_s = 0.5,
     .finish_s = 0.75,
     .bytes = 1e6},
    {.system = 1,
     .task = 3,
     .kind = DAG_SEND,
     .purpose = DAG_OFFLOAD,
     .rank = 2,
     .stream = DAG_STREAM_TO_HOST,
     .micro_batch = 3,
     .start_s = 0.75,
     .finish_s = 1,
     .bytes = 5},
    {.system = 1,
     .task = 4,
     .kind = DAG_SYNC,
     .purpose = DAG_ALL_REDUCE,
     .rank = 2,
     .micro_batch = -1,
     .start_s = 1,
     .finish_s = 1},
    {.system = 1,
     .task = 5,
     .kind = DAG_SYNC,
     .purpose = DAG_ALL_REDUCE,
     .rank = 0,
     .micro_batch = -1,
     .stream = DAG_STREAM_COLLECTIVE,
     .start_s = 1,
     .finish_s = 1.5},
};

TEST(hta__names_events_by_the_rules_of_hta)
{
    struct error err = {0};
    char folder[1024];
    struct trace_reader *reader = written(tasks, sizeof tasks / sizeof *tasks);
    CHECK_TRUE(hta_write(reader, 1, empty_folder(folder), &err));
    char *text = text_of(folder, 2);
    CHECK_TEXT(
        text,
        "{\"schemaVersion\":1,\"distributedInfo\":{\"backend\":\"nccl\",\"rank\":2,\"world_size\":4},"
        "\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
        "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":2,\"args\":{\"name\":\"a \\\"b\\\": GPU 2\"}},\n"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"backward\",\"pid\":2,\"tid\":7,\"ts\":0.000,\"dur\":333333.333,"
        "\"args\":{\"device\":2,\"stream\":7,\"micro_batch\":3}},\n"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ncclKernel_SendRecv(boundary backward)\",\"pid\":2,\"tid\":9,"
        "\"ts\":500000.000,\"dur\":250000.000,\"args\":{\"device\":2,\"stream\":9,\"micro_batch\":3,"
        "\"bytes\":1000000}},\n"
        "{\"ph\":\"X\",\"cat\":\"gpu_memcpy\",\"name\":\"Memcpy DtoH(offload forward)\",\"pid\":2,\"tid\":14,"
        "\"ts\":750000.000,\"dur\":250000.000,\"args\":{\"device\":2,\"stream\":14,\"micro_batch\":3,\"bytes\":5}},\n"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"optimizer\",\"pid\":2,\"tid\":7,\"ts\":1000000.000,"
        "\"dur\":250000.000,\"args\":{\"device\":2,\"stream\":7,\"micro_batch\":-1}}\n]}\n");
    free(text);
    text = text_of(folder, 0);
    CHECK_CONTAINS(text, "\"rank\":0,\"world_size\":4");
    CHECK_CONTAINS(text, "\"name\":\"ncclKernel_AllReduce(all-reduce)\",\"pid\":0,\"tid\":10,");
    free(text);
    CHECK_TRUE(!hta_write(reader, 1, folder, &err) && err.status == ERROR_CANT_CREATE);
    CHECK_CONTAINS(err.text, "HTA reads all of a folder");
    trace_reader_close(reader);
}

/* Each purpose of a transfer has the name of a kernel or of a copy. */
TEST(hta__names_transfers_of_every_purpose)
{
    struct trace_task sends[DAG_N_PURPOSES];
    struct error err = {0};
    char folder[1024], name[64];
    for (int purpose = 0; purpose < DAG_N_PURPOSES; purpose++)
        sends[purpose] = (struct trace_task){
            .task = purpose, .kind = DAG_SEND, .purpose = purpose, .micro_batch = -1, .finish_s = 1};
    struct trace_reader *reader = written(sends, DAG_N_PURPOSES);
    CHECK_TRUE(hta_write(reader, 0, empty_folder(folder), &err));
    char *text = text_of(folder, 0);
    for (int purpose = 0; purpose < DAG_N_PURPOSES; purpose++) {
        bool copies = purpose == DAG_OFFLOAD || purpose == DAG_PREFETCH;
        snprintf(name, sizeof name, "(%s)\"", dag_purpose_name[purpose]);
        const char *at = strstr(text, name), *first = at;
        while (first > text && first[-1] != '"')
            first--;
        CHECK_TRUE(at != NULL && strncmp(first, copies ? "Memcpy " : "ncclKernel_", copies ? 7 : 11) == 0);
    }
    free(text);
    trace_reader_close(reader);
}

TEST(hta__refuses_a_damaged_trace_and_a_missing_folder)
{
    static const struct trace_task outside = {.rank = 4};
    struct error err = {0};
    char folder[1024];
    struct trace_reader *reader = written(&outside, 1);
    CHECK_TRUE(!hta_write(reader, 0, empty_folder(folder), &err) && err.status == ERROR_INVALID);
    CHECK_CONTAINS(err.text, "out of range");
    CHECK_TRUE(!hta_write(reader, 0, harness_path("absent"), &err) && err.status == ERROR_CANT_CREATE);
    trace_reader_close(reader);
}
