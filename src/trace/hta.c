/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "trace/hta.h"

#include "base/check.h"
#include "base/compare.h"
#include "dag/dag.h"
#include "trace/chrome.h"
#include "trace/output.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_STREAM = 7 };

/** The tasks of a system. */
struct tasks {
    struct trace_reader *reader;
    int32_t system, gpus;
    struct trace_task *task;
    size_t n, capacity;
};

/* Names of NCCL's kernels, without what a transfer is for. Transfers to and from the host are none. */
static const char *const kernel[DAG_N_PURPOSES] = {
    [DAG_PASS] = "ncclKernel_SendRecv",
    [DAG_BOUNDARY] = "ncclKernel_SendRecv",
    [DAG_RING] = "ncclKernel_SendRecv",
    [DAG_TENSOR] = "ncclKernel_AllReduce",
    [DAG_EXCHANGE] = "ncclKernel_SendRecv",
    [DAG_REDUCE_SCATTER] = "ncclKernel_ReduceScatter",
    [DAG_ALL_GATHER] = "ncclKernel_AllGather",
    [DAG_ALL_REDUCE] = "ncclKernel_AllReduce",
    [DAG_SHARDS] = "ncclKernel_AllGather",
    [DAG_RESHARD] = "ncclKernel_SendRecv",
    [DAG_OFFLOAD] = "Memcpy DtoH",
    [DAG_PREFETCH] = "Memcpy HtoD",
    [DAG_EXPERTS] = "ncclKernel_SendRecv",
};

/** Keep a task of the system. A SYNC without duration is no event. */
static bool keep(void *context, const void *row, struct error *err)
{
    struct tasks *tasks = context;
    const struct trace_task *task = row;
    if (!chrome_check_task(tasks->reader, tasks->gpus, task, err))
        return false;
    if (task->system != tasks->system || (task->kind == DAG_SYNC && task->finish_s <= task->start_s))
        return true;
    tasks->task = check_grow(tasks->task, tasks->n, &tasks->capacity, sizeof *tasks->task);
    tasks->task[tasks->n++] = *task;
    return true;
}

/** Order tasks by rank, then by time. */
static int compare_tasks(const void *a, const void *b)
{
    const struct trace_task *left = a, *right = b;
    if (left->rank != right->rank)
        return COMPARE(left->rank, right->rank);
    return left->start_s != right->start_s ? COMPARE(left->start_s, right->start_s) : COMPARE(left->task, right->task);
}

static bool is_transfer(const struct trace_task *task)
{
    return task->kind == DAG_SEND || task->kind == DAG_SYNC;
}

static void write_name(const struct trace_task *task, FILE *file)
{
    const char *pass = task->micro_batch >= 0 ? trace_pass_names.text[task->direction] : "";
    const char *blank = *pass != '\0' ? " " : "";
    if (is_transfer(task))
        fprintf(file, "%s(%s%s%s)", kernel[task->purpose], trace_purpose_names.text[task->purpose], blank, pass);
    else if (task->kind == DAG_COMPUTE)
        fputs(pass, file);
    else
        fprintf(file, "%s%s%s", trace_kind_names.text[task->kind], blank, pass);
}

static void write_event(const struct trace_task *task, FILE *file)
{
    int64_t start = chrome_nanoseconds(task->start_s), finish = chrome_nanoseconds(task->finish_s);
    int stream = FIRST_STREAM + task->stream;
    bool copies = is_transfer(task) && (task->purpose == DAG_OFFLOAD || task->purpose == DAG_PREFETCH);
    fprintf(file, ",\n{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"", copies ? "gpu_memcpy" : "kernel");
    write_name(task, file);
    fprintf(file, "\",\"pid\":%d,\"tid\":%d", task->rank, stream);
    chrome_write_microseconds("ts", start, file);
    chrome_write_microseconds("dur", finish - start, file);
    fprintf(file, ",\"args\":{\"device\":%d,\"stream\":%d,\"micro_batch\":%d", task->rank, stream, task->micro_batch);
    if (is_transfer(task))
        fprintf(file, ",\"bytes\":%.0f", task->bytes);
    fputs("}}", file);
}

/** Write the file of one rank: `n` tasks. */
static bool write_rank(const struct tasks *tasks, const struct trace_task *task, size_t n, const char *folder,
                       struct error *err)
{
    char path[PATH_MAX];
    struct output output = {0};
    snprintf(path, sizeof path, "%s/rank-%d.json", folder, task->rank);
    FILE *file = output_open(&output, path, err);
    if (file == NULL)
        return false;
    fprintf(file, "{\"schemaVersion\":1,\"distributedInfo\":{\"backend\":\"nccl\",\"rank\":%d,\"world_size\":%d},",
            task->rank, tasks->gpus);
    fprintf(file, "\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,",
            task->rank);
    fputs("\"args\":{\"name\":\"", file);
    chrome_write_text(trace_system(tasks->reader, tasks->system), file);
    fprintf(file, ": GPU %d\"}}", task->rank);
    for (size_t i = 0; i < n; i++)
        write_event(&task[i], file);
    fputs("\n]}\n", file);
    return output_close(&output, file, true, err);
}

static bool write_ranks(const struct tasks *tasks, const char *folder, struct error *err)
{
    bool ok = true;
    for (size_t first = 0, next; first < tasks->n && ok; first = next) {
        for (next = first; next < tasks->n && tasks->task[next].rank == tasks->task[first].rank;)
            next++;
        ok = write_rank(tasks, &tasks->task[first], next - first, folder, err);
    }
    return ok;
}

static bool check_empty(const char *folder, struct error *err)
{
    DIR *directory = opendir(folder);
    bool empty = true;
    if (directory == NULL)
        return error_set_status(err, ERROR_CANT_CREATE, "%s: cannot be read: %s", folder, strerror(errno));
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
        empty = empty && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0);
    closedir(directory);
    return empty || error_set_status(err, ERROR_CANT_CREATE,
                                     "%s: the folder holds files, and HTA reads all of a folder; allowed: a new or "
                                     "empty folder",
                                     folder);
}

bool hta_write(struct trace_reader *reader, int32_t system, const char *folder, struct error *err)
{
    struct tasks tasks = {.reader = reader, .system = system};
    bool ok = chrome_read_gpus(reader, &tasks.gpus, err) && check_empty(folder, err) &&
              trace_visit(reader, TRACE_TASKS, keep, &tasks, err);
    if (ok && tasks.n > 0)
        qsort(tasks.task, tasks.n, sizeof *tasks.task, compare_tasks);
    ok = ok && write_ranks(&tasks, folder, err);
    free(tasks.task);
    return ok;
}
