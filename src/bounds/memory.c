/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "bounds/memory.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "bounds/memory_copies.h"
#include "bounds/memory_pipe.h"
#include "bounds/states.h"

const char *const memory_class_name[MEMORY_N_CLASSES] = {"states",    "activations",   "kv",       "kv_gradients",
                                                         "workspace", "communication", "libraries"};

/* A virtual stage of the current rank. */
struct chunk {
    int32_t number;                                 /* -1: none yet */
    const struct memory_unit *units[N_STEP_PASSES]; /* of each pass */
    const double *exchanged[N_STEP_PASSES];         /* NULL: no attention is exchanged */
};

struct ledger {
    const struct plan *plan;
    const struct dag *dag;
    const struct timeline *timeline;
    const struct cost_setting *setting;
    struct memory *memory;
    struct memory_pipe *pipes; /* in the order of the graph's pipelines */
    size_t event_capacity;
    int32_t dag_rank;               /* current rank */
    const struct memory_pipe *pipe; /* its pipeline */
    struct memory_copies out, in;   /* used if its tasks are walked */
    bool grown[UINT8_MAX + 1];      /* of each of its chunks: it has its gradients */
};

static void open_pipes(struct ledger *ledger)
{
    const struct plan *plan = ledger->plan;
    const struct dag *dag = ledger->dag;
    ledger->pipes = check_calloc((size_t)dag->n_pipes, sizeof *ledger->pipes);
    for (int32_t phase = 0; phase < plan->n_phases; phase++)
        for (int32_t i = 0; i < plan->phases[phase].n_pipelines; i++) {
            int32_t pipe = dag->first_pipe[phase] + i;
            if (dag->pipes[pipe].representative == pipe)
                ledger->pipes[pipe] =
                    memory_pipe_of(&plan->phases[phase].pipelines[i], ledger->setting, &dag->pipes[pipe]);
        }
}

/* Functions that the compiler must not turn into calls, because calls would move live_bytes through memory. */
#define LEDGER_INLINE static inline __attribute__((always_inline))

/* Detail that a walk records beside the peaks. */
enum want { WANT_PEAKS, WANT_SUMS, WANT_EVENTS };

/* Bytes that a rank holds, and the most it held. A walk keeps them in registers, since nothing takes their address. */
struct live {
    double bytes[MEMORY_N_CLASSES], peak[MEMORY_N_CLASSES], peak_bytes;
};

static void grow_events(struct ledger *ledger)
{
    struct memory *memory = ledger->memory;
    memory->events =
        check_grow(memory->events, (size_t)memory->n_events, &ledger->event_capacity, sizeof *memory->events);
}

/*
 * Copy the classes of a moment. Work that has freed more of its unit's activations than it takes has a workspace below
 * 0. The difference is subtracted from the activations, because these are gone.
 */
LEDGER_INLINE void copy_classes(const struct live *live, double bytes[MEMORY_N_CLASSES])
{
    for (int k = 0; k < MEMORY_N_CLASSES; k++)
        bytes[k] = live->bytes[k];
    if (bytes[MEMORY_WORKSPACE] < 0) {
        bytes[MEMORY_ACTIVATIONS] += bytes[MEMORY_WORKSPACE];
        bytes[MEMORY_WORKSPACE] = 0;
    }
}

LEDGER_INLINE void record_event(struct ledger *ledger, const struct live *live, double time_s)
{
    struct memory *memory = ledger->memory;
    if ((size_t)memory->n_events == ledger->event_capacity)
        grow_events(ledger);
    struct memory_event *event = &memory->events[memory->n_events++];
    event->time_s = time_s;
    event->dag_rank = ledger->dag_rank;
    copy_classes(live, event->bytes);
}

LEDGER_INLINE void record_sum(struct ledger *ledger, double bytes, double time_s)
{
    struct memory_sums *sums = &ledger->memory->sums;
    if ((size_t)sums->n == sums->room)
        sums->all = check_grow(sums->all, (size_t)sums->n, &sums->room, sizeof *sums->all);
    sums->all[sums->n++] = (struct memory_sum){time_s, bytes};
}

LEDGER_INLINE void record(struct ledger *ledger, struct live *live, double time_s, enum want want)
{
    double sum = 0;
    for (int k = 0; k < MEMORY_N_CLASSES; k++)
        sum += live->bytes[k];
    if (sum > live->peak_bytes) {
        live->peak_bytes = sum;
        copy_classes(live, live->peak);
    }
    if (want == WANT_EVENTS)
        record_event(ledger, live, time_s);
    if (want == WANT_SUMS)
        record_sum(ledger, sum, time_s);
}

/* A pass of a unit on a virtual stage. */
struct pass_bytes {
    enum pass pass;
    bool splits;      /* PASS_WEIGHT may follow */
    double exchanged; /* buffers of exchanged attention */
    const struct memory_unit *unit;
};

static struct chunk chunk_of(const struct ledger *ledger, int32_t number)
{
    const struct memory_pipe *pipe = ledger->pipe;
    int32_t stage = ledger->dag->ranks[ledger->dag_rank].stage;
    struct chunk chunk = {.number = number};
    for (int pass = 0; pass < N_STEP_PASSES; pass++) {
        int cut = pass == PASS_FORWARD ? PASS_FORWARD : PASS_BACKWARD;
        chunk.units[pass] = memory_pipe_units(pipe, cut, pipe->kinds->kind[number * pipe->plan->layout.stages + stage]);
        if (pipe->exchanged[cut] != NULL) /* there is one chunk */
            chunk.exchanged[pass] = pipe->exchanged[cut] + stage * pipe->plan->cut[cut].n_units;
    }
    return chunk;
}

LEDGER_INLINE struct pass_bytes pass_bytes_of(const struct ledger *ledger, struct chunk *chunk,
                                              const struct plan_step *step, bool splits, bool exchanges)
{
    if (step->chunk != chunk->number)
        *chunk = chunk_of(ledger, step->chunk);
    return (struct pass_bytes){.pass = step->pass,
                               .splits = splits,
                               .exchanged = exchanges ? chunk->exchanged[step->pass][step->unit] : 0,
                               .unit = &chunk->units[step->pass][step->unit]};
}

LEDGER_INLINE void begin_pass(const struct pass_bytes *bytes, struct live *live)
{
    const struct memory_unit *unit = bytes->unit;
    if (bytes->splits && bytes->pass == PASS_WEIGHT) {
        live->bytes[MEMORY_WORKSPACE] = unit->weight_workspace;
        return;
    }
    live->bytes[MEMORY_COMMUNICATION] = bytes->exchanged;
    live->bytes[MEMORY_WORKSPACE] = unit->workspace;
    if (bytes->pass == PASS_FORWARD) {
        live->bytes[MEMORY_ACTIVATIONS] += unit->activations;
        live->bytes[MEMORY_KV] += unit->kv;
    } else {
        live->bytes[MEMORY_KV_GRADIENTS] += unit->opened;
    }
}

LEDGER_INLINE void end_pass(const struct pass_bytes *bytes, struct live *live)
{
    const struct memory_unit *unit = bytes->unit;
    live->bytes[MEMORY_WORKSPACE] = live->bytes[MEMORY_COMMUNICATION] = 0;
    if (bytes->pass == PASS_FORWARD)
        return;
    if (bytes->splits && bytes->pass == PASS_WEIGHT) {
        live->bytes[MEMORY_ACTIVATIONS] -= unit->weight;
        return;
    }
    live->bytes[MEMORY_ACTIVATIONS] += unit->weight - unit->activations;
    live->bytes[MEMORY_KV] -= unit->kv;
    live->bytes[MEMORY_KV_GRADIENTS] -= unit->closed;
}

/* Record an event that only frees memory. It cannot raise the peak, so walks for peaks skip it. */
LEDGER_INLINE void record_freed(struct ledger *ledger, struct live *live, double time_s, enum want want)
{
    if (want != WANT_PEAKS)
        record(ledger, live, time_s, want);
}

/*
 * Copies of the current rank that are still to come, and the times at which the next ones move memory: a copy out at
 * its end, a copy in at its start.
 */
struct queues {
    const struct memory_copy *out, *in;
    double out_s, in_s;
};

LEDGER_INLINE void copy_next(struct ledger *ledger, struct queues *queues, struct live *live, enum want want)
{
    if (queues->out_s <= queues->in_s) {
        live->bytes[MEMORY_ACTIVATIONS] -= queues->out->bytes;
        record_freed(ledger, live, queues->out_s, want);
        queues->out_s = (++queues->out)->finish_s;
    } else {
        live->bytes[MEMORY_ACTIVATIONS] += queues->in->bytes;
        record(ledger, live, queues->in_s, want);
        queues->in_s = (++queues->in)->start_s;
    }
}

/*
 * Take the copies that move memory before a pass begins or ends at time_s. At equal times the end of a copy out comes
 * before the compute stream, and the start of a copy in comes behind it.
 */
LEDGER_INLINE void copy_until(struct ledger *ledger, struct queues *queues, double time_s, struct live *live,
                              enum want want)
{
    while (queues->out_s <= time_s || queues->in_s < time_s)
        copy_next(ledger, queues, live, want);
}

/* Return the gradients of a chunk of the current rank, for gradients that come and go. */
static struct states_gradients gradients_of(const struct ledger *ledger, int32_t chunk)
{
    return states_gradients_of(ledger->plan, ledger->setting, &ledger->dag->ranks[ledger->dag_rank], chunk);
}

/* Return the gradient bytes of its chunks that have them, or of those that have none. */
static double gradient_bytes(const struct ledger *ledger, bool have)
{
    double bytes = 0;
    for (int32_t chunk = 0; chunk < ledger->pipe->plan->layout.chunks; chunk++) {
        struct states_gradients of = gradients_of(ledger, chunk);
        bytes += ledger->grown[chunk] == have ? of.head + of.layers * of.layer + of.tables : 0;
    }
    return bytes;
}

/* Return whether a step is the first to compute its chunk's gradients. */
LEDGER_INLINE bool first_computes(struct ledger *ledger, const struct plan_step *step, bool splits)
{
    bool first = !ledger->grown[step->chunk] && step->pass == (splits ? PASS_WEIGHT : PASS_BACKWARD);
    ledger->grown[step->chunk] |= first;
    return first;
}

struct span {
    double start_s, finish_s;
};

/*
 * Walk such a step. Once its loss is over, the head's gradients come. Then each layer's come, and the layer's
 * activations go. The embedding's come last. In the end activations are as before, since end_pass frees them.
 */
LEDGER_INLINE void grow(struct ledger *ledger, const struct plan_step *step, struct queues *queues, struct span span,
                        struct live *live, enum want want)
{
    const struct memory_pipe *pipe = ledger->pipe;
    const struct states_gradients gradients = gradients_of(ledger, step->chunk);
    const bool reduces = cost_shards_in_passes(ledger->setting);
    int32_t stage = step->chunk * pipe->plan->layout.stages + ledger->dag->ranks[ledger->dag_rank].stage;
    const struct memory_growth frees = *memory_pipe_growth(pipe, pipe->kinds->kind[stage], step->unit);
    if (gradients.head > 0) {
        live->bytes[MEMORY_STATES] += gradients.head;
        live->bytes[MEMORY_WORKSPACE] = frees.head_workspace;
        record(ledger, live, span.start_s, want);
    }
    live->bytes[MEMORY_ACTIVATIONS] -= frees.head;
    for (int32_t i = 0; i < gradients.layers; i++) {
        double time_s = span.start_s + (span.finish_s - span.start_s) * i / gradients.layers;
        copy_until(ledger, queues, time_s, live, want);
        live->bytes[MEMORY_WORKSPACE] = i == 0 ? frees.workspace : frees.next_workspace;
        live->bytes[MEMORY_STATES] += reduces ? 0 : gradients.layer;
        record(ledger, live, time_s, want);
        live->bytes[MEMORY_STATES] += reduces ? gradients.layer : 0;
        live->bytes[MEMORY_ACTIVATIONS] -= frees.layers / gradients.layers;
    }
    copy_until(ledger, queues, span.finish_s, live, want);
    live->bytes[MEMORY_WORKSPACE] = frees.end_workspace;
    live->bytes[MEMORY_STATES] += reduces ? 0 : gradients.tables;
    record(ledger, live, span.finish_s, want);
    live->bytes[MEMORY_STATES] += reduces ? gradients.tables : 0;
    live->bytes[MEMORY_ACTIVATIONS] += frees.head + frees.layers;
}

/*
 * Walk the rest of a rank from `task`, which follows the passes. Chunks without passes get gradients from other
 * replicas. The end of the optimizer frees all gradients.
 */
LEDGER_INLINE void end_growth(struct ledger *ledger, int32_t task, struct live *live, enum want want)
{
    double missing = gradient_bytes(ledger, false);
    while (task >= 0 && ledger->dag->tasks[task].kind != DAG_OPTIMIZER)
        task = ledger->dag->stream_next[task];
    if (task < 0)
        return;
    live->bytes[MEMORY_STATES] += missing;
    record(ledger, live, ledger->timeline->start_s[task], want);
    live->bytes[MEMORY_STATES] -= missing + gradient_bytes(ledger, true);
    record_freed(ledger, live, ledger->timeline->finish_s[task], want);
}

LEDGER_INLINE void open_rank(struct ledger *ledger, struct live *live, enum want want)
{
    const struct dag_rank *at = &ledger->dag->ranks[ledger->dag_rank];
    double moving = states_moving_bytes(ledger->plan, ledger->setting, at);
    live->bytes[MEMORY_STATES] = states_standing_bytes(ledger->plan, ledger->setting, at) + moving;
    for (int32_t chunk = 0; chunk <= UINT8_MAX; chunk++) /* Later phases add to the gradients of earlier ones. */
        ledger->grown[chunk] = at->phase > 0;
    if (cost_frees_gradients(ledger->setting))
        live->bytes[MEMORY_STATES] -= gradient_bytes(ledger, false);
    live->bytes[MEMORY_LIBRARIES] = ledger->setting->device->workspace_bytes;
    record(ledger, live, 0.0, want);
    live->bytes[MEMORY_STATES] -= moving;
    if (moving > 0)
        record_freed(ledger, live, 0.0, want);
}

LEDGER_INLINE void close_rank(const struct ledger *ledger, const struct live *live)
{
    struct memory *memory = ledger->memory;
    memory->peak_bytes[ledger->dag_rank] = live->peak_bytes;
    for (int k = 0; k < MEMORY_N_CLASSES; k++)
        memory->at_peak[ledger->dag_rank][k] = live->peak[k];
}

/* Return the first pass of the current rank. Re-sharding comes before it on the stream, and moves no memory. */
static int32_t first_pass(const struct ledger *ledger)
{
    const struct dag *dag = ledger->dag;
    int32_t task = memory_first_of(dag, ledger->dag_rank, DAG_STREAM_COMPUTE);
    while (task >= 0 && dag->tasks[task].purpose == DAG_RESHARD)
        task = dag->stream_next[task];
    return task;
}

/* Return the ATTENTION that continues the pass of a COMPUTE, -1: the pass ends with the COMPUTE. */
static int32_t attention_after(const struct dag *dag, int32_t task)
{
    int32_t next = dag->stream_next[task];
    return next >= 0 && dag->tasks[next].kind == DAG_ATTENTION ? next : -1;
}

/*
 * Walk all events of a rank in order of time. The passes on the compute stream are the stage's steps, in their order.
 * plain: no pass has several tasks, is split or exchanges attention; the compiler then leaves out code for these.
 */
LEDGER_INLINE void walk_tasks(struct ledger *ledger, enum want want, bool plain)
{
    const struct dag *dag = ledger->dag;
    const struct plan_pipeline *plan = ledger->pipe->plan;
    const bool attends = !plain && ledger->pipe->attends, splits = !plain && plan->splits_backward,
               exchanges = !plain && plan->n_exchanges > 0, frees = !plain && cost_frees_gradients(ledger->setting);
    const double *start_s = ledger->timeline->start_s, *finish_s = ledger->timeline->finish_s;
    struct live live = {0};
    struct chunk chunk = {.number = -1};
    struct queues queues = {ledger->out.all, ledger->in.all, ledger->out.all->finish_s, ledger->in.all->start_s};
    int32_t stage = dag->ranks[ledger->dag_rank].stage, task = first_pass(ledger);
    const struct plan_step *step = plan->steps + plan->step_first[stage],
                           *end = plan->steps + plan->step_first[stage + 1];
    open_rank(ledger, &live, want);
    for (; step < end; step++) {
        struct pass_bytes bytes = pass_bytes_of(ledger, &chunk, step, splits, exchanges);
        copy_until(ledger, &queues, start_s[task], &live, want);
        begin_pass(&bytes, &live);
        bool grows = frees && first_computes(ledger, step, splits);
        record(ledger, &live, start_s[task], want);
        for (int32_t next; attends && (next = attention_after(dag, task)) >= 0; task = next) {
            copy_until(ledger, &queues, finish_s[task], &live, want);
            record_freed(ledger, &live, finish_s[task], want);
            copy_until(ledger, &queues, start_s[next], &live, want);
            record(ledger, &live, start_s[next], want);
        }
        if (grows)
            grow(ledger, step, &queues, (struct span){start_s[task], finish_s[task]}, &live, want);
        copy_until(ledger, &queues, finish_s[task], &live, want);
        end_pass(&bytes, &live);
        if (!splits || bytes.pass == PASS_WEIGHT || bytes.unit->weight <= 0)
            record_freed(ledger, &live, finish_s[task], want);
        else
            record(ledger, &live, finish_s[task], want); /* a split backward keeps inputs for PASS_WEIGHT */
        task = dag->stream_next[task];
    }
    copy_until(ledger, &queues, DBL_MAX, &live, want);
    if (frees)
        end_growth(ledger, task, &live, want);
    close_rank(ledger, &live);
}

/*
 * Find the peak of a stage without copies. It follows from the order of the steps alone, not from times. The end of a
 * pass only frees memory, except for a split backward.
 */
static void walk_steps(struct ledger *ledger, int32_t stage)
{
    struct live live = {0};
    struct chunk chunk = {.number = -1};
    const struct plan_pipeline *plan = ledger->pipe->plan;
    const bool exchanges = plan->n_exchanges > 0, frees = cost_frees_gradients(ledger->setting);
    struct queues no_copies = {NULL, NULL, INFINITY, INFINITY};
    open_rank(ledger, &live, WANT_PEAKS);
    for (int32_t i = plan->step_first[stage]; i < plan->step_first[stage + 1]; i++) {
        const struct plan_step *step = &plan->steps[i];
        struct pass_bytes bytes = pass_bytes_of(ledger, &chunk, step, plan->splits_backward, exchanges);
        bool grows = frees && first_computes(ledger, step, plan->splits_backward);
        begin_pass(&bytes, &live);
        record(ledger, &live, 0.0, WANT_PEAKS);
        if (grows)
            grow(ledger, step, &no_copies, (struct span){0}, &live, WANT_PEAKS);
        end_pass(&bytes, &live);
        if (plan->splits_backward)
            record(ledger, &live, 0.0, WANT_PEAKS);
    }
    if (frees)
        end_growth(ledger, first_pass(ledger), &live, WANT_PEAKS);
    close_rank(ledger, &live);
}

static bool same_stage(const struct dag_rank *a, const struct dag_rank *b)
{
    return a->phase == b->phase && a->pipeline == b->pipeline && a->stage == b->stage;
}

static bool copies(const struct dag *dag, int32_t dag_rank)
{
    return memory_first_of(dag, dag_rank, DAG_STREAM_TO_HOST) >= 0 ||
           memory_first_of(dag, dag_rank, DAG_STREAM_FROM_HOST) >= 0;
}

static void start_rank(struct ledger *ledger, int32_t dag_rank)
{
    const struct dag_rank *at = &ledger->dag->ranks[dag_rank];
    ledger->dag_rank = dag_rank;
    ledger->pipe = &ledger->pipes[ledger->dag->first_pipe[at->phase] + at->pipeline];
}

/* Walk the tasks of the current rank. */
LEDGER_INLINE void resolve_tasks(struct ledger *ledger, enum want want)
{
    memory_copies_of(ledger->dag, ledger->timeline, ledger->pipe, ledger->dag_rank, DAG_STREAM_TO_HOST, &ledger->out);
    memory_copies_of(ledger->dag, ledger->timeline, ledger->pipe, ledger->dag_rank, DAG_STREAM_FROM_HOST, &ledger->in);
    const struct plan_pipeline *plan = ledger->pipe->plan;
    if (want == WANT_EVENTS || ledger->pipe->attends || plan->splits_backward || plan->n_exchanges > 0 ||
        cost_frees_gradients(ledger->setting))
        walk_tasks(ledger, want, false);
    else
        walk_tasks(ledger, want == WANT_SUMS ? WANT_SUMS : WANT_PEAKS, true);
    ledger->memory->host_peak_bytes[ledger->dag_rank] = memory_copies_host_peak(&ledger->out, &ledger->in);
}

static void resolve_events(struct ledger *ledger, int32_t dag_rank)
{
    start_rank(ledger, dag_rank);
    resolve_tasks(ledger, WANT_EVENTS);
}

static void copy_peaks(struct memory *memory, int32_t from, int32_t dag_rank)
{
    memory->peak_bytes[dag_rank] = memory->peak_bytes[from];
    memory->host_peak_bytes[dag_rank] = memory->host_peak_bytes[from];
    memcpy(memory->at_peak[dag_rank], memory->at_peak[from], sizeof memory->at_peak[dag_rank]);
}

/* Find the peaks without events or sums. */
static void resolve_peaks(struct ledger *ledger, int32_t dag_rank)
{
    const struct dag *dag = ledger->dag;
    const struct dag_rank *at = &dag->ranks[dag_rank];
    if (at->representative != dag_rank) {
        copy_peaks(ledger->memory, at->representative, dag_rank);
        return;
    }
    start_rank(ledger, dag_rank);
    if (copies(dag, dag_rank)) {
        resolve_tasks(ledger, WANT_PEAKS);
    } else if (dag_rank > 0 && same_stage(at, at - 1)) {
        copy_peaks(ledger->memory, dag_rank - 1, dag_rank);
    } else {
        walk_steps(ledger, at->stage);
    }
}

static struct ledger open_ledger(const struct plan *plan, const struct dag *dag, const struct timeline *timeline,
                                 const struct cost_setting *setting, struct memory *memory)
{
    struct ledger ledger = {.plan = plan, .dag = dag, .timeline = timeline, .setting = setting, .memory = memory};
    *memory = (struct memory){.n_ranks = dag->n_ranks};
    memory->peak_bytes = check_calloc((size_t)dag->n_ranks, sizeof *memory->peak_bytes);
    memory->at_peak = check_calloc((size_t)dag->n_ranks, sizeof *memory->at_peak);
    memory->host_peak_bytes = check_calloc((size_t)dag->n_ranks, sizeof *memory->host_peak_bytes);
    open_pipes(&ledger);
    return ledger;
}

static void close_ledger(struct ledger *ledger)
{
    struct memory *memory = ledger->memory;
    for (int32_t dag_rank = 0; dag_rank < memory->n_ranks; dag_rank++)
        if (memory->peak_bytes[dag_rank] > memory->peak_bytes[memory->worst_rank])
            memory->worst_rank = dag_rank;
    for (int32_t i = 0; i < ledger->dag->n_pipes; i++)
        memory_pipe_free(&ledger->pipes[i]);
    free(ledger->pipes);
    free(ledger->out.all);
    free(ledger->in.all);
}

void memory_of(const struct plan *plan, const struct dag *dag, const struct timeline *timeline,
               const struct cost_setting *setting, bool want_events, struct memory *memory)
{
    struct ledger ledger = open_ledger(plan, dag, timeline, setting, memory);
    for (int32_t dag_rank = 0; dag_rank < dag->n_ranks; dag_rank++)
        if (want_events)
            resolve_events(&ledger, dag_rank);
        else
            resolve_peaks(&ledger, dag_rank);
    close_ledger(&ledger);
}

/* Find the peaks, and the sums of a rank above the limit. Copies are walked by their times, so one walk gives both. */
static void resolve_sums(struct ledger *ledger, int32_t dag_rank, double limit_bytes)
{
    struct memory *memory = ledger->memory;
    bool represented = ledger->dag->ranks[dag_rank].representative != dag_rank;
    bool one_walk = !represented && copies(ledger->dag, dag_rank);
    int64_t first = memory->sums.n;
    if (!one_walk)
        resolve_peaks(ledger, dag_rank);
    if (one_walk || memory->peak_bytes[dag_rank] > limit_bytes) {
        start_rank(ledger, dag_rank);
        resolve_tasks(ledger, WANT_SUMS);
    }
    if (memory->peak_bytes[dag_rank] <= limit_bytes)
        memory->sums.n = first;
}

void memory_above(const struct plan *plan, const struct dag *dag, const struct timeline *timeline,
                  const struct cost_setting *setting, double limit_bytes, struct memory *memory)
{
    struct memory_sums sums = memory->sums;
    memory->sums = (struct memory_sums){0};
    memory_free(memory);
    struct ledger ledger = open_ledger(plan, dag, timeline, setting, memory);
    sums.n = 0;
    sums.first = check_realloc(sums.first, (size_t)(dag->n_ranks + 1) * sizeof *sums.first);
    memory->sums = sums;
    for (int32_t dag_rank = 0; dag_rank < dag->n_ranks; dag_rank++) {
        memory->sums.first[dag_rank] = memory->sums.n;
        resolve_sums(&ledger, dag_rank, limit_bytes);
    }
    memory->sums.first[dag->n_ranks] = memory->sums.n;
    close_ledger(&ledger);
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
