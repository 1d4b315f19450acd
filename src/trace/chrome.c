/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "trace/chrome.h"

#include "base/check.h"
#include "dag/dag.h"

#include <math.h>
#include <stdlib.h>

/** A GPU has one position in the plan, or it moves between several. */
struct position {
    bool known, moves;
    int32_t phase, pipeline, stage, context, tensor;
};

/** An end of an arrow is a time inside a task on its track. */
struct arrow_end {
    int64_t process, time_ns;
    uint8_t stream;
    bool sends; /* the boundary of a stage */
};

/** The tasks of a system, by their number. */
struct numbered {
    int32_t n;
    double makespan_s;
    struct arrow_end *tasks;
};

/** It is the state of writing, and knows which tracks have names. */
struct chrome {
    struct trace_reader *reader;
    FILE *file;
    int32_t gpus;
    struct position *positions; /* [systems x gpus] */
    struct numbered *systems;   /* [systems] */
    bool *named;                /* [systems x gpus x DAG_N_STREAMS] */
    bool any;                   /* an event was written, so a comma comes before the next */
    int64_t n_arrows;
};

/* The slack of a task on the critical path is a rounding: bounds/critical_path.h. */
static const double critical_share = 1e-12;

void chrome_write_text(const char *text, FILE *file)
{
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fprintf(file, "\\%c", c);
        else if (c < 0x20)
            fprintf(file, "\\u%04x", c);
        else
            fputc(c, file);
    }
}

static void begin_event(struct chrome *chrome)
{
    fputs(chrome->any ? ",\n" : "\n", chrome->file);
    chrome->any = true;
}

static int64_t process_of(const struct chrome *chrome, int32_t system, int32_t rank)
{
    return (int64_t)system * chrome->gpus + rank;
}

int64_t chrome_nanoseconds(double seconds)
{
    return llround(seconds * 1e9);
}

void chrome_write_microseconds(const char *key, int64_t ns, FILE *file)
{
    fprintf(file, ",\"%s\":%lld.%03lld", key, (long long)(ns / 1000), (long long)(ns % 1000));
}

static void name_process(struct chrome *chrome, const struct trace_task *task, int64_t process)
{
    begin_event(chrome);
    fprintf(chrome->file, "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%lld,\"args\":{\"name\":\"",
            (long long)process);
    chrome_write_text(trace_system(chrome->reader, task->system), chrome->file);
    fputs(": ", chrome->file);
    if (!chrome->positions[process].moves)
        fprintf(chrome->file, "pipeline %d stage %d, context %d tensor %d, ", task->pipeline, task->stage,
                task->context, task->tensor);
    fprintf(chrome->file, "GPU %d\"}}", task->rank);
    begin_event(chrome);
    fprintf(chrome->file, "{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":%lld,\"args\":{\"sort_index\":%lld}}",
            (long long)process, (long long)process);
}

/* Name a track once. The first track of a process also names the process. */
static void name_track(struct chrome *chrome, const struct trace_task *task, int64_t process)
{
    bool *named = &chrome->named[process * DAG_N_STREAMS];
    if (named[task->stream])
        return;
    bool first = true;
    for (int32_t s = 0; s < DAG_N_STREAMS; s++)
        first = first && !named[s];
    if (first)
        name_process(chrome, task, process);
    named[task->stream] = true;
    begin_event(chrome);
    fprintf(chrome->file, "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%lld,\"tid\":%d,\"args\":{\"name\":\"%s\"}}",
            (long long)process, task->stream, trace_stream_names.text[task->stream]);
    begin_event(chrome);
    fprintf(chrome->file, "{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":%lld,\"tid\":%d,", (long long)process,
            task->stream);
    fprintf(chrome->file, "\"args\":{\"sort_index\":%d}}", task->stream);
}

/* Write a name such as "forward 3", "attention forward 3", "boundary backward 0" or "optimizer". */
static void write_event_name(const struct trace_task *task, FILE *file)
{
    if (task->purpose != DAG_PASS)
        fprintf(file, "%s", trace_purpose_names.text[task->purpose]);
    else if (task->kind != DAG_COMPUTE)
        fprintf(file, "%s", trace_kind_names.text[task->kind]);
    if (task->micro_batch >= 0)
        fprintf(file, "%s%s %d", task->purpose != DAG_PASS || task->kind != DAG_COMPUTE ? " " : "",
                trace_pass_names.text[task->direction], task->micro_batch);
}

static bool in_range(int32_t index, int32_t n)
{
    return 0 <= index && index < n;
}

/* The limit of int64_t is a little more, 2^63 ns. */
static const double longest_s = 9e9;

bool chrome_check_task(const struct trace_reader *reader, int32_t gpus, const struct trace_task *task,
                       struct error *err)
{
    if (in_range(task->system, trace_n_systems(reader)) && in_range(task->rank, gpus) &&
        in_range(task->stream, DAG_N_STREAMS) && in_range(task->kind, DAG_N_KINDS) &&
        in_range(task->purpose, DAG_N_PURPOSES) && in_range(task->direction, N_STEP_PASSES) && task->start_s >= 0 &&
        task->finish_s >= task->start_s && task->finish_s <= longest_s && isfinite(task->slack_s) &&
        isfinite(task->bytes) && 0 <= task->task && task->task < trace_n_rows(reader, TRACE_TASKS))
        return true;
    return error_set(err, "the trace is damaged: task %d of its table tasks is out of range", task->task);
}

static bool note_position(void *context, const void *row, struct error *err)
{
    struct chrome *chrome = context;
    const struct trace_task *task = row;
    if (!chrome_check_task(chrome->reader, chrome->gpus, task, err))
        return false;
    struct position *position = &chrome->positions[process_of(chrome, task->system, task->rank)];
    if (!position->known)
        *position =
            (struct position){true, false, task->phase, task->pipeline, task->stage, task->context, task->tensor};
    position->moves = position->moves || position->phase != task->phase || position->pipeline != task->pipeline ||
                      position->stage != task->stage || position->context != task->context ||
                      position->tensor != task->tensor;
    struct numbered *system = &chrome->systems[task->system];
    system->n = task->task >= system->n ? task->task + 1 : system->n;
    system->makespan_s = fmax(system->makespan_s, task->finish_s);
    return true;
}

static bool is_critical(const struct chrome *chrome, const struct trace_task *task)
{
    return task->slack_s <= critical_share * chrome->systems[task->system].makespan_s;
}

/* An arrow's end is 1 ns inside its task. At the start, chrome://tracing may take the task that ends there. */
static void keep_arrow_end(struct numbered *system, const struct trace_task *task, int64_t process)
{
    int64_t start = chrome_nanoseconds(task->start_s), finish = chrome_nanoseconds(task->finish_s);
    if (system->tasks == NULL)
        system->tasks = check_calloc((size_t)system->n, sizeof *system->tasks);
    system->tasks[task->task] =
        (struct arrow_end){process, finish > start + 1 ? start + 1 : start, (uint8_t)task->stream,
                           task->kind == DAG_SEND && task->purpose == DAG_BOUNDARY};
}

static bool write_task(void *context, const void *row, struct error *err)
{
    (void)err;
    struct chrome *chrome = context;
    const struct trace_task *task = row;
    FILE *file = chrome->file;
    int64_t process = process_of(chrome, task->system, task->rank);
    int64_t start = chrome_nanoseconds(task->start_s), finish = chrome_nanoseconds(task->finish_s);
    bool critical = is_critical(chrome, task);
    keep_arrow_end(&chrome->systems[task->system], task, process);
    name_track(chrome, task, process);
    begin_event(chrome);
    fputs("{\"ph\":\"X\",\"name\":\"", file);
    write_event_name(task, file);
    fprintf(file, "\",\"cat\":\"%s%s\",\"pid\":%lld,\"tid\":%d", trace_kind_names.text[task->kind],
            critical ? ",critical" : "", (long long)process, task->stream);
    if (critical)
        fputs(",\"cname\":\"terrible\"", file); /* red in chrome://tracing */
    chrome_write_microseconds("ts", start, file);
    chrome_write_microseconds("dur", finish - start, file);
    fprintf(file, ",\"args\":{\"task\":%d,\"micro_batch\":%d,\"bytes\":%.17g", task->task, task->micro_batch,
            task->bytes);
    fprintf(file, ",\"slack_us\":%.3f%s", task->slack_s * 1e6, critical ? ",\"critical\":true" : "");
    if (chrome->positions[process].moves)
        fprintf(file, ",\"phase\":%d,\"pipeline\":%d,\"stage\":%d", task->phase, task->pipeline, task->stage);
    fputs("}}", file);
    return true;
}

static void write_arrow_end(struct chrome *chrome, const char *phase, const struct arrow_end *end)
{
    begin_event(chrome);
    fprintf(chrome->file, "{\"ph\":%s,\"id\":%lld,\"name\":\"boundary\",\"cat\":\"boundary\",\"pid\":%lld,\"tid\":%d",
            phase, (long long)chrome->n_arrows, (long long)end->process, end->stream);
    chrome_write_microseconds("ts", end->time_ns, chrome->file);
    fputc('}', chrome->file);
}

/* Write an arrow from a boundary's transfer to the pass that receives it. */
static bool write_arrow(void *context, const void *visited, struct error *err)
{
    struct chrome *chrome = context;
    const struct trace_edge *row = visited;
    bool known = in_range(row->system, trace_n_systems(chrome->reader));
    const struct numbered *system = known ? &chrome->systems[row->system] : NULL;
    if (!known || !in_range(row->from_task, system->n) || !in_range(row->to_task, system->n))
        return error_set(err, "the trace is damaged: a row of its table edges is out of range");
    const struct arrow_end *from = &system->tasks[row->from_task], *to = &system->tasks[row->to_task];
    if (!from->sends || row->kind != DAG_INTER_STAGE)
        return true;
    if (from->time_ns > to->time_ns)
        return error_set(err, "the trace is damaged: task %d starts before task %d, which sends to it", row->to_task,
                         row->from_task);
    chrome->n_arrows++;
    write_arrow_end(chrome, "\"s\"", from);
    write_arrow_end(chrome, "\"f\",\"bp\":\"e\"", to);
    return true;
}

static bool write_memory(void *context, const void *visited, struct error *err)
{
    struct chrome *chrome = context;
    const struct trace_memory *row = visited;
    double all = row->states_bytes + row->activations_bytes + row->kv_bytes + row->kv_gradients_bytes +
                 row->workspace_bytes + row->communication_bytes + row->libraries_bytes;
    if (!isfinite(all) || !(row->time_s >= 0 && row->time_s <= longest_s))
        return error_set(err, "the trace is damaged: a row of its table memory is out of range");
    begin_event(chrome);
    fprintf(chrome->file, "{\"ph\":\"C\",\"name\":\"memory [B]\",\"pid\":%lld",
            (long long)process_of(chrome, row->system, row->rank));
    chrome_write_microseconds("ts", chrome_nanoseconds(row->time_s), chrome->file);
    fprintf(chrome->file, ",\"args\":{\"states\":%.0f,\"activations\":%.0f,\"kv\":%.0f,", row->states_bytes,
            row->activations_bytes, row->kv_bytes);
    fprintf(chrome->file, "\"kv_gradients\":%.0f,\"workspace\":%.0f,\"communication\":%.0f,\"libraries\":%.0f}}",
            row->kv_gradients_bytes, row->workspace_bytes, row->communication_bytes, row->libraries_bytes);
    return true;
}

double chrome_bytes(struct trace_reader *reader)
{
    const double task_bytes = 220, memory_bytes = 200; /* measured; a task's share of the arrows is in it */
    int64_t n_tasks = trace_n_rows(reader, TRACE_TASKS), n_memory = trace_n_rows(reader, TRACE_MEMORY);
    return task_bytes * (double)(n_tasks > 0 ? n_tasks : 0) + memory_bytes * (double)(n_memory > 0 ? n_memory : 0);
}

bool chrome_read_gpus(struct trace_reader *reader, int32_t *gpus, struct error *err)
{
    struct trace_summary summary;
    if (trace_n_rows(reader, TRACE_TASKS) < 0 || trace_n_rows(reader, TRACE_SUMMARY) < 1)
        return trace_absent(reader, TRACE_TASKS, err);
    if (!trace_read(reader, TRACE_SUMMARY, 1, &summary, err))
        return false;
    *gpus = summary.gpus;
    return *gpus >= 1 || error_set(err, "the trace is damaged: its summary says %d GPUs", *gpus);
}

bool chrome_write(struct trace_reader *reader, FILE *file, struct error *err)
{
    struct chrome chrome = {.reader = reader, .file = file};
    if (!chrome_read_gpus(reader, &chrome.gpus, err))
        return false;
    size_t n_processes = (size_t)trace_n_systems(reader) * (size_t)chrome.gpus;
    chrome.positions = check_calloc(n_processes, sizeof *chrome.positions);
    chrome.named = check_calloc(n_processes, DAG_N_STREAMS);
    chrome.systems = check_calloc((size_t)trace_n_systems(reader), sizeof *chrome.systems);
    fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", file);
    bool ok = trace_visit(reader, TRACE_TASKS, note_position, &chrome, err) &&
              trace_visit(reader, TRACE_TASKS, write_task, &chrome, err) &&
              trace_visit(reader, TRACE_EDGES, write_arrow, &chrome, err) &&
              trace_visit(reader, TRACE_MEMORY, write_memory, &chrome, err);
    if (ok) /* an incomplete file must not read as complete */
        fputs("\n]}\n", file);
    for (int32_t i = 0; i < trace_n_systems(reader); i++)
        free(chrome.systems[i].tasks);
    free(chrome.systems);
    free(chrome.positions);
    free(chrome.named);
    return ok;
}
