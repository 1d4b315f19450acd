/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "bounds/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "bounds/memory_copies.h"
#include "bounds/memory_pipe.h"
#include "bounds/states.h"
#include "cost/states.h"

const char *const memory_class_name[MEMORY_N_CLASSES] = {"states",    "activations",   "kv",       "kv_gradients",
                                                         "workspace", "communication", "libraries"};

/* A virtual stage of the current rank. */
struct chunk {
    int32_t number;                                                /* -1: none yet */
    const struct memory_micro_batch *micro_batches[N_STEP_PASSES]; /* of each pass */
    const double *exchanged[N_STEP_PASSES];                        /* NULL: no attention goes by blocks */
    const double *offloaded[N_STEP_PASSES];                        /* NULL: no copy moves memory */
};

struct memory_walk {
    const struct plan *plan;
    const struct dag *dag;
    const struct timeline *timeline;
    const struct cost_setting *setting;
    struct memory *memory;
    struct memory_pipe *pipes; /* in the order of the graph's pipelines */
    size_t event_capacity;
    int32_t dag_rank;               /* current rank */
    const struct memory_pipe *pipe; /* its pipeline */
    struct memory_copies out, in;   /* room for its copies */
    bool grown[UINT8_MAX + 1];      /* of each of its chunks: it has its gradients */
};

static void open_pipes(struct memory_walk *walk)
{
    const struct plan *plan = walk->plan;
    const struct dag *dag = walk->dag;
    walk->pipes = check_calloc((size_t)dag->n_pipes, sizeof *walk->pipes);
    for (int32_t phase = 0; phase < plan->n_phases; phase++)
        for (int32_t i = 0; i < plan->phases[phase].n_pipelines; i++) {
            int32_t pipe = dag->first_pipe[phase] + i;
            if (dag->pipes[pipe].representative == pipe)
                walk->pipes[pipe] = memory_pipe_of(&plan->phases[phase], i, walk->setting, &dag->pipes[pipe]);
        }
}

/* Functions that the compiler must not turn into calls, because calls would move live_bytes through memory. */
#define WALK_INLINE static inline __attribute__((always_inline))

/* Detail that a walk records beside the peaks. */
enum memory_detail { DETAIL_PEAKS, DETAIL_SUMS, DETAIL_EVENTS };

/* Bytes that a rank holds, and the most it held. A walk keeps them in registers, since nothing takes their address. */
struct live_bytes {
    double bytes[MEMORY_N_CLASSES], peak[MEMORY_N_CLASSES], peak_bytes;
};

static void grow_events(struct memory_walk *walk)
{
    struct memory *memory = walk->memory;
    memory->events =
        check_grow(memory->events, (size_t)memory->n_events, &walk->event_capacity, sizeof *memory->events);
}

/*
 * Copy the classes of a moment. Work that has freed more of its micro-batch's activations than it takes has a workspace
 * below 0. The difference is subtracted from the activations, because these are gone.
 */
WALK_INLINE void copy_classes(const struct live_bytes *live, double bytes[MEMORY_N_CLASSES])
{
    for (int k = 0; k < MEMORY_N_CLASSES; k++)
        bytes[k] = live->bytes[k];
    if (bytes[MEMORY_WORKSPACE] < 0) {
        bytes[MEMORY_ACTIVATIONS] += bytes[MEMORY_WORKSPACE];
        bytes[MEMORY_WORKSPACE] = 0;
    }
}

WALK_INLINE void record_event(struct memory_walk *walk, const struct live_bytes *live, double time_s)
{
    struct memory *memory = walk->memory;
    if ((size_t)memory->n_events == walk->event_capacity)
        grow_events(walk);
    struct memory_event *event = &memory->events[memory->n_events++];
    event->time_s = time_s;
    event->dag_rank = walk->dag_rank;
    copy_classes(live, event->bytes);
}

WALK_INLINE void record_sum(struct memory_walk *walk, double bytes, double time_s)
{
    struct memory_sums *sums = &walk->memory->sums;
    if ((size_t)sums->n == sums->room)
        sums->all = check_grow(sums->all, (size_t)sums->n, &sums->room, sizeof *sums->all);
    sums->all[sums->n++] = (struct memory_sum){time_s, bytes};
}

WALK_INLINE void record(struct memory_walk *walk, struct live_bytes *live, double time_s, enum memory_detail detail)
{
    double sum = 0;
    for (int k = 0; k < MEMORY_N_CLASSES; k++)
        sum += live->bytes[k];
    if (sum > live->peak_bytes) {
        live->peak_bytes = sum;
        copy_classes(live, live->peak);
    }
    if (detail == DETAIL_EVENTS)
        record_event(walk, live, time_s);
    if (detail == DETAIL_SUMS)
        record_sum(walk, sum, time_s);
}

/* A pass of a micro-batch on a virtual stage. */
struct pass_bytes {
    enum pass pass;
    bool splits;      /* PASS_WEIGHT may follow */
    double exchanged; /* buffers of attention by blocks */
    double offloaded; /* that the forward sends to the host, that the backward has back in a buffer */
    const struct memory_micro_batch *micro_batch;
};

static struct chunk chunk_of(const struct memory_walk *walk, int32_t number)
{
    const struct memory_pipe *pipe = walk->pipe;
    int32_t stage = walk->dag->ranks[walk->dag_rank].stage;
    struct chunk chunk = {.number = number};
    for (int pass = 0; pass < N_STEP_PASSES; pass++) {
        int partition = pass == PASS_FORWARD ? PASS_FORWARD : PASS_BACKWARD;
        chunk.micro_batches[pass] =
            memory_pipe_micro_batches(pipe, partition, pipe->kinds->kind[number * pipe->plan->layout.stages + stage]);
        if (pipe->exchanged[partition] != NULL) /* there is one chunk */
            chunk.exchanged[pass] =
                pipe->exchanged[partition] + stage * pipe->plan->partition[partition].n_micro_batches;
        if (pipe->offloaded[partition] != NULL && pass != PASS_WEIGHT)
            chunk.offloaded[pass] = pipe->offloaded[partition] + (number * pipe->plan->layout.stages + stage) *
                                                                     pipe->plan->partition[partition].n_micro_batches;
    }
    return chunk;
}

WALK_INLINE struct pass_bytes pass_bytes_of(const struct memory_walk *walk, struct chunk *chunk,
                                            const struct plan_step *step, bool splits, bool exchanges)
{
    if (step->chunk != chunk->number)
        *chunk = chunk_of(walk, step->chunk);
    const double *offloaded = chunk->offloaded[step->pass];
    bool copies =
        offloaded != NULL && !walk->pipe->plan->partition[step->pass].micro_batches[step->micro_batch].streams;
    return (struct pass_bytes){.pass = step->pass,
                               .splits = splits,
                               .exchanged = exchanges ? chunk->exchanged[step->pass][step->micro_batch] : 0,
                               .offloaded = copies ? offloaded[step->micro_batch] : 0,
                               .micro_batch = &chunk->micro_batches[step->pass][step->micro_batch]};
}

/* Copies out whose bytes the rank still holds, and the pass before. */
struct window {
    double out, due; /* of the latest forward; of that before, which goes at the next pass that waits for copies */
    bool forward;    /* the pass before is a forward one */
};

/* Free what has been copied to the host when a pass begins. */
WALK_INLINE void free_copied(struct window *window, enum pass pass, struct live_bytes *live)
{
    if (plan_waits_for_copies(pass, window->forward)) {
        live->bytes[MEMORY_ACTIVATIONS] -= window->due;
        window->due = window->out;
        window->out = 0;
    }
    window->forward = pass == PASS_FORWARD;
}

WALK_INLINE void begin_pass(const struct pass_bytes *bytes, struct window *window, struct live_bytes *live)
{
    const struct memory_micro_batch *micro_batch = bytes->micro_batch;
    free_copied(window, bytes->pass, live);
    if (bytes->splits && bytes->pass == PASS_WEIGHT) {
        live->bytes[MEMORY_WORKSPACE] = micro_batch->weight_workspace;
        return;
    }
    live->bytes[MEMORY_COMMUNICATION] = bytes->exchanged;
    live->bytes[MEMORY_WORKSPACE] = micro_batch->workspace;
    if (bytes->pass == PASS_FORWARD) {
        live->bytes[MEMORY_ACTIVATIONS] += micro_batch->activations;
        live->bytes[MEMORY_KV] += micro_batch->kv;
    } else {
        live->bytes[MEMORY_KV_GRADIENTS] += micro_batch->opened;
    }
}

WALK_INLINE void end_pass(const struct pass_bytes *bytes, struct window *window, struct live_bytes *live)
{
    const struct memory_micro_batch *micro_batch = bytes->micro_batch;
    live->bytes[MEMORY_WORKSPACE] = live->bytes[MEMORY_COMMUNICATION] = 0;
    if (bytes->pass == PASS_FORWARD) {
        window->out = bytes->offloaded;
        return;
    }
    if (bytes->splits && bytes->pass == PASS_WEIGHT) {
        live->bytes[MEMORY_ACTIVATIONS] -= micro_batch->weight;
        return;
    }
    live->bytes[MEMORY_ACTIVATIONS] += micro_batch->weight - (micro_batch->activations - bytes->offloaded);
    live->bytes[MEMORY_KV] -= micro_batch->kv;
    live->bytes[MEMORY_KV_GRADIENTS] -= micro_batch->closed;
}

/* Record an event that only frees memory. It cannot raise the peak, so walks for peaks skip it. */
WALK_INLINE void record_freed(struct memory_walk *walk, struct live_bytes *live, double time_s,
                              enum memory_detail detail)
{
    if (detail != DETAIL_PEAKS)
        record(walk, live, time_s, detail);
}

/* Return the bytes of the current rank's buffers for copies back, which take turns. They stay, so a backward frees only
 * what was not away. */
static double buffer_bytes(const struct memory_walk *walk)
{
    const struct plan_pipeline *plan = walk->pipe->plan;
    int32_t stage = walk->dag->ranks[walk->dag_rank].stage, n = 0;
    struct chunk chunk = {.number = -1};
    double most = 0;
    if (walk->pipe->offloaded[PASS_BACKWARD] == NULL)
        return 0;
    for (int32_t i = plan->step_first[stage]; i < plan->step_first[stage + 1]; i++)
        if (plan->steps[i].pass == PASS_BACKWARD) {
            struct pass_bytes bytes = pass_bytes_of(walk, &chunk, &plan->steps[i], false, false);
            n += bytes.offloaded > 0;
            most = fmax(most, bytes.offloaded);
        }
    return most * (n < 2 ? n : 2);
}

/* Return the gradients of a chunk of the current rank, for gradients that come and go. */
static struct states_gradients gradients_of(const struct memory_walk *walk, int32_t chunk)
{
    return states_gradients_of(walk->plan, walk->setting, &walk->dag->ranks[walk->dag_rank], chunk);
}

/* Return the gradient bytes of its chunks that have them, or of those that have none. */
static double gradient_bytes(const struct memory_walk *walk, bool have)
{
    double bytes = 0;
    for (int32_t chunk = 0; chunk < walk->pipe->plan->layout.chunks; chunk++) {
        struct states_gradients of = gradients_of(walk, chunk);
        bytes += walk->grown[chunk] == have ? of.head + of.layers * of.layer + of.tables : 0;
    }
    return bytes;
}

/* Return whether a step is the first to compute its chunk's gradients. */
WALK_INLINE bool first_computes(struct memory_walk *walk, const struct plan_step *step, bool splits)
{
    bool first = !walk->grown[step->chunk] && step->pass == (splits ? PASS_WEIGHT : PASS_BACKWARD);
    walk->grown[step->chunk] |= first;
    return first;
}

struct span {
    double start_s, finish_s;
};

/*
 * Walk such a step. Once its loss is over, the head's gradients come. Then each layer's come, and the layer's
 * activations go. The embedding's come last. In the end activations are as before, since end_pass frees them.
 */
WALK_INLINE void grow(struct memory_walk *walk, const struct plan_step *step, double offloaded, struct span span,
                      struct live_bytes *live, enum memory_detail detail)
{
    const struct memory_pipe *pipe = walk->pipe;
    const struct states_gradients gradients = gradients_of(walk, step->chunk);
    const bool reduces = cost_shards_in_passes(walk->setting);
    int32_t stage = step->chunk * pipe->plan->layout.stages + walk->dag->ranks[walk->dag_rank].stage;
    struct memory_growth frees = *memory_pipe_growth(pipe, pipe->kinds->kind[stage], step->micro_batch);
    frees.layers -= offloaded; /* it stays in its buffer */
    if (gradients.head > 0) {
        live->bytes[MEMORY_STATES] += gradients.head;
        live->bytes[MEMORY_WORKSPACE] = frees.head_workspace;
        record(walk, live, span.start_s, detail);
    }
    live->bytes[MEMORY_ACTIVATIONS] -= frees.head;
    for (int32_t i = 0; i < gradients.layers; i++) {
        double time_s = span.start_s + (span.finish_s - span.start_s) * i / gradients.layers;
        live->bytes[MEMORY_WORKSPACE] = i == 0 ? frees.workspace : frees.next_workspace;
        live->bytes[MEMORY_STATES] += reduces ? 0 : gradients.layer;
        record(walk, live, time_s, detail);
        live->bytes[MEMORY_STATES] += reduces ? gradients.layer : 0;
        live->bytes[MEMORY_ACTIVATIONS] -= frees.layers / gradients.layers;
    }
    live->bytes[MEMORY_WORKSPACE] = frees.end_workspace;
    live->bytes[MEMORY_STATES] += reduces ? 0 : gradients.tables;
    record(walk, live, span.finish_s, detail);
    live->bytes[MEMORY_STATES] += reduces ? gradients.tables : 0;
    live->bytes[MEMORY_ACTIVATIONS] += frees.head + frees.layers;
}

/*
 * Walk the rest of a rank from `task`, which follows the passes. Chunks without passes get gradients from other
 * replicas. The end of the optimizer frees all gradients, and what it copied of them.
 */
WALK_INLINE void end_growth(struct memory_walk *walk, int32_t task, struct live_bytes *live, enum memory_detail detail)
{
    double missing = gradient_bytes(walk, false);
    while (task >= 0 && walk->dag->tasks[task].kind != DAG_OPTIMIZER)
        task = walk->dag->stream_next[task];
    if (task < 0)
        return;
    double copy = states_copy_bytes(walk->plan, walk->setting, &walk->dag->ranks[walk->dag_rank]);
    live->bytes[MEMORY_STATES] += missing + copy;
    record(walk, live, walk->timeline->start_s[task], detail);
    live->bytes[MEMORY_STATES] -= missing + copy + gradient_bytes(walk, true);
    record_freed(walk, live, walk->timeline->finish_s[task], detail);
}

WALK_INLINE void open_rank(struct memory_walk *walk, struct live_bytes *live, enum memory_detail detail)
{
    const struct dag_rank *at = &walk->dag->ranks[walk->dag_rank];
    double moving = states_moving_bytes(walk->plan, walk->setting, at);
    live->bytes[MEMORY_STATES] = states_standing_bytes(walk->plan, walk->setting, at) + moving;
    for (int32_t chunk = 0; chunk <= UINT8_MAX; chunk++) /* Later phases add to the gradients of earlier ones. */
        walk->grown[chunk] = at->phase > 0;
    if (cost_frees_gradients(walk->setting))
        live->bytes[MEMORY_STATES] -= gradient_bytes(walk, false);
    live->bytes[MEMORY_LIBRARIES] = walk->setting->device->workspace_bytes;
    record(walk, live, 0.0, detail);
    live->bytes[MEMORY_STATES] -= moving;
    if (moving > 0)
        record_freed(walk, live, 0.0, detail);
}

WALK_INLINE void close_rank(const struct memory_walk *walk, const struct live_bytes *live)
{
    struct memory *memory = walk->memory;
    memory->peak_bytes[walk->dag_rank] = live->peak_bytes;
    for (int k = 0; k < MEMORY_N_CLASSES; k++)
        memory->at_peak[walk->dag_rank][k] = live->peak[k];
}

/* Return the first task from `task` on that is no re-sharding and no attention for other stages: their memory is left
 * out. */
static int32_t next_pass(const struct dag *dag, int32_t task)
{
    while (task >= 0 && (dag->tasks[task].purpose == DAG_RESHARD ||
                         (dag->tasks[task].kind == DAG_ATTENTION && dag->tasks[task].micro_batch < 0)))
        task = dag->stream_next[task];
    return task;
}

/* Return the first pass of the current rank. */
static int32_t first_pass(const struct memory_walk *walk)
{
    return next_pass(walk->dag, memory_first_of(walk->dag, walk->dag_rank, DAG_STREAM_COMPUTE));
}

/* Return the ATTENTION that continues the pass of a COMPUTE, -1: the pass ends with the COMPUTE. */
static int32_t attention_after(const struct dag *dag, int32_t task)
{
    int32_t next = dag->stream_next[task];
    bool continues = next >= 0 && dag->tasks[next].kind == DAG_ATTENTION && dag->tasks[next].micro_batch >= 0;
    return continues ? next : -1;
}

/*
 * Walk all events of a rank in order of time. The passes on the compute stream are the stage's steps, in their order.
 * If plain, no pass has several tasks, is split or has blocks, and the compiler leaves out code for these.
 */
WALK_INLINE void walk_tasks(struct memory_walk *walk, enum memory_detail detail, bool plain)
{
    const struct dag *dag = walk->dag;
    const struct plan_pipeline *plan = walk->pipe->plan;
    const bool attends = !plain && walk->pipe->attends, splits = !plain && plan->splits_backward,
               exchanges = !plain && walk->pipe->exchanged[0] != NULL,
               frees = !plain && cost_frees_gradients(walk->setting);
    const double *start_s = walk->timeline->start_s, *finish_s = walk->timeline->finish_s;
    struct live_bytes live = {0};
    struct chunk chunk = {.number = -1};
    struct window window = {0};
    const double buffers = buffer_bytes(walk);
    int32_t stage = dag->ranks[walk->dag_rank].stage, task = first_pass(walk);
    const struct plan_step *step = plan->steps + plan->step_first[stage],
                           *end = plan->steps + plan->step_first[stage + 1];
    open_rank(walk, &live, detail);
    live.bytes[MEMORY_ACTIVATIONS] = buffers;
    for (; step < end; step++) {
        struct pass_bytes bytes = pass_bytes_of(walk, &chunk, step, splits, exchanges);
        begin_pass(&bytes, &window, &live);
        bool grows = frees && first_computes(walk, step, splits);
        record(walk, &live, start_s[task], detail);
        for (int32_t next; attends && (next = attention_after(dag, task)) >= 0; task = next) {
            record_freed(walk, &live, finish_s[task], detail);
            record(walk, &live, start_s[next], detail);
        }
        if (grows)
            grow(walk, step, bytes.offloaded, (struct span){start_s[task], finish_s[task]}, &live, detail);
        end_pass(&bytes, &window, &live);
        live.bytes[MEMORY_ACTIVATIONS] -= step + 1 == end ? buffers + window.out + window.due : 0;
        if (!splits || bytes.pass == PASS_WEIGHT || bytes.micro_batch->weight <= 0)
            record_freed(walk, &live, finish_s[task], detail);
        else
            record(walk, &live, finish_s[task], detail); /* a split backward keeps inputs for PASS_WEIGHT */
        task = attends ? next_pass(dag, dag->stream_next[task]) : dag->stream_next[task];
    }
    if (frees)
        end_growth(walk, task, &live, detail);
    close_rank(walk, &live);
}

/*
 * Find the peak of a stage. It follows from the order of the steps, not from times. The end of a pass only frees
 * memory, except for a split backward.
 */
static void walk_steps(struct memory_walk *walk, int32_t stage)
{
    struct live_bytes live = {0};
    struct chunk chunk = {.number = -1};
    const struct plan_pipeline *plan = walk->pipe->plan;
    const bool exchanges = walk->pipe->exchanged[0] != NULL, frees = cost_frees_gradients(walk->setting);
    struct window window = {0};
    const double buffers = buffer_bytes(walk);
    open_rank(walk, &live, DETAIL_PEAKS);
    live.bytes[MEMORY_ACTIVATIONS] = buffers;
    for (int32_t i = plan->step_first[stage]; i < plan->step_first[stage + 1]; i++) {
        const struct plan_step *step = &plan->steps[i];
        struct pass_bytes bytes = pass_bytes_of(walk, &chunk, step, plan->splits_backward, exchanges);
        bool grows = frees && first_computes(walk, step, plan->splits_backward);
        begin_pass(&bytes, &window, &live);
        record(walk, &live, 0.0, DETAIL_PEAKS);
        if (grows)
            grow(walk, step, bytes.offloaded, (struct span){0}, &live, DETAIL_PEAKS);
        end_pass(&bytes, &window, &live);
        if (plan->splits_backward)
            record(walk, &live, 0.0, DETAIL_PEAKS);
    }
    live.bytes[MEMORY_ACTIVATIONS] -= buffers + window.out + window.due;
    if (frees)
        end_growth(walk, first_pass(walk), &live, DETAIL_PEAKS);
    close_rank(walk, &live);
}

static bool same_stage(const struct dag_rank *a, const struct dag_rank *b)
{
    return a->phase == b->phase && a->pipeline == b->pipeline && a->stage == b->stage;
}

static void start_rank(struct memory_walk *walk, int32_t dag_rank)
{
    const struct dag_rank *at = &walk->dag->ranks[dag_rank];
    walk->dag_rank = dag_rank;
    walk->pipe = &walk->pipes[walk->dag->first_pipe[at->phase] + at->pipeline];
}

/* Walk the tasks of the current rank. */
WALK_INLINE void resolve_tasks(struct memory_walk *walk, enum memory_detail detail)
{
    const struct plan_pipeline *plan = walk->pipe->plan;
    if (detail == DETAIL_EVENTS || walk->pipe->attends || plan->splits_backward || cost_frees_gradients(walk->setting))
        walk_tasks(walk, detail, false);
    else
        walk_tasks(walk, DETAIL_SUMS, true);
}

/* Find the most that the current rank has on the host. */
static void resolve_host(struct memory_walk *walk)
{
    const struct dag *dag = walk->dag;
    if (memory_first_of(dag, walk->dag_rank, DAG_STREAM_TO_HOST) < 0 &&
        memory_first_of(dag, walk->dag_rank, DAG_STREAM_FROM_HOST) < 0)
        return;
    memory_copies_of(dag, walk->timeline, walk->pipe, walk->dag_rank, DAG_STREAM_TO_HOST, &walk->out);
    memory_copies_of(dag, walk->timeline, walk->pipe, walk->dag_rank, DAG_STREAM_FROM_HOST, &walk->in);
    walk->memory->host_peak_bytes[walk->dag_rank] = memory_copies_host_peak(&walk->out, &walk->in);
}

static void resolve_events(struct memory_walk *walk, int32_t dag_rank)
{
    start_rank(walk, dag_rank);
    resolve_tasks(walk, DETAIL_EVENTS);
    resolve_host(walk);
}

static void copy_peaks(struct memory *memory, int32_t from, int32_t dag_rank)
{
    memory->peak_bytes[dag_rank] = memory->peak_bytes[from];
    memory->host_peak_bytes[dag_rank] = memory->host_peak_bytes[from];
    memcpy(memory->at_peak[dag_rank], memory->at_peak[from], sizeof memory->at_peak[dag_rank]);
}

/* Find the peaks without events or sums. */
static void resolve_peaks(struct memory_walk *walk, int32_t dag_rank)
{
    const struct dag_rank *at = &walk->dag->ranks[dag_rank];
    if (at->representative != dag_rank) {
        copy_peaks(walk->memory, at->representative, dag_rank);
        return;
    }
    start_rank(walk, dag_rank);
    if (dag_rank > 0 && same_stage(at, at - 1))
        copy_peaks(walk->memory, dag_rank - 1, dag_rank);
    else
        walk_steps(walk, at->stage);
    resolve_host(walk);
}

static struct memory_walk open_walk(const struct plan *plan, const struct dag *dag, const struct timeline *timeline,
                                    const struct cost_setting *setting, struct memory *memory)
{
    struct memory_walk walk = {.plan = plan, .dag = dag, .timeline = timeline, .setting = setting, .memory = memory};
    *memory = (struct memory){.n_ranks = dag->n_ranks};
    memory->peak_bytes = check_calloc((size_t)dag->n_ranks, sizeof *memory->peak_bytes);
    memory->at_peak = check_calloc((size_t)dag->n_ranks, sizeof *memory->at_peak);
    memory->host_peak_bytes = check_calloc((size_t)dag->n_ranks, sizeof *memory->host_peak_bytes);
    open_pipes(&walk);
    return walk;
}

static void close_walk(struct memory_walk *walk)
{
    struct memory *memory = walk->memory;
    for (int32_t dag_rank = 0; dag_rank < memory->n_ranks; dag_rank++)
        memory->host_peak_bytes[dag_rank] += states_host_bytes(walk->plan, walk->setting, &walk->dag->ranks[dag_rank]);
    for (int32_t dag_rank = 0; dag_rank < memory->n_ranks; dag_rank++)
        if (memory->peak_bytes[dag_rank] > memory->peak_bytes[memory->worst_rank])
            memory->worst_rank = dag_rank;
    for (int32_t i = 0; i < walk->dag->n_pipes; i++)
        memory_pipe_free(&walk->pipes[i]);
    free(walk->pipes);
    free(walk->out.all);
    free(walk->in.all);
}

void memory_of(const struct plan *plan, const struct dag *dag, const struct timeline *timeline,
               const struct cost_setting *setting, bool with_events, struct memory *memory)
{
    struct memory_walk walk = open_walk(plan, dag, timeline, setting, memory);
    for (int32_t dag_rank = 0; dag_rank < dag->n_ranks; dag_rank++)
        if (with_events)
            resolve_events(&walk, dag_rank);
        else
            resolve_peaks(&walk, dag_rank);
    close_walk(&walk);
}

/* Find the peaks, and the sums of a rank above the limit. */
static void resolve_sums(struct memory_walk *walk, int32_t dag_rank, double limit_bytes)
{
    resolve_peaks(walk, dag_rank);
    if (walk->memory->peak_bytes[dag_rank] <= limit_bytes)
        return;
    start_rank(walk, dag_rank);
    resolve_tasks(walk, DETAIL_SUMS);
}

void memory_above(const struct plan *plan, const struct dag *dag, const struct timeline *timeline,
                  const struct cost_setting *setting, double limit_bytes, struct memory *memory)
{
    struct memory_sums sums = memory->sums;
    memory->sums = (struct memory_sums){0};
    memory_free(memory);
    struct memory_walk walk = open_walk(plan, dag, timeline, setting, memory);
    sums.n = 0;
    sums.first = check_realloc(sums.first, (size_t)(dag->n_ranks + 1) * sizeof *sums.first);
    memory->sums = sums;
    for (int32_t dag_rank = 0; dag_rank < dag->n_ranks; dag_rank++) {
        memory->sums.first[dag_rank] = memory->sums.n;
        resolve_sums(&walk, dag_rank, limit_bytes);
    }
    memory->sums.first[dag->n_ranks] = memory->sums.n;
    close_walk(&walk);
}

void memory_free(struct memory *memory)
{
    free(memory->peak_bytes);
    free(memory->at_peak);
    free(memory->host_peak_bytes);
    free(memory->events);
    free(memory->sums.all);
    free(memory->sums.first);
    *memory = (struct memory){0};
}
