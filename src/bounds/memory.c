/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "bounds/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "dag/relations.h"

const char *const memory_class_name[MEMORY_N_CLASSES] = {"states",       "activations", "kv",
                                                         "kv_gradients", "workspace",   "libraries"};

/* What one unit allocates (forward) or frees (backward) on a virtual stage of one kind. */
struct unit_bytes {
    double activations, kv;
    double workspace;
    double embedding;            /* on the first virtual stage: kept from forward to backward */
    double head, head_workspace; /* on the last one: kept likewise; in work */
    double opened, closed;       /* key and value gradients */
};

/* A phase's pipelines. */
struct pipe {
    struct unit_bytes *units[N_PASSES]; /* [kind x units + unit] */
    struct dag_kinds kinds;
    /* Of activations: freed after the copy out (forward), allocated before the copy in; NULL: nothing is offloaded. */
    double *offloaded[N_PASSES]; /* [virtual stage x units + unit] */
};

struct ledger {
    const struct plan *plan;
    const struct dag *dag;
    const struct timeline *timeline;
    const struct cost_setting *setting;
    struct memory *memory;
    struct pipe *pipes;    /* of all phases */
    int32_t *first_pipe;   /* of each phase */
    int32_t *first, *task; /* tasks that move memory, by place and stream kind, in order */
    size_t event_capacity;
    bool want_events;
    double live[MEMORY_N_CLASSES]; /* of the place in work */
    int32_t place;
};

/* Queues of a place that move memory. At equal times the lower goes first: frees by a copy out, then passes in their
 * order (an end before the next begin), then a copy in. */
enum queue { QUEUE_OUT, QUEUE_PASSES, QUEUE_IN, N_QUEUES };

static const struct plan_pipeline *pipeline_of(const struct ledger *ledger, const struct dag_task *task)
{
    return &ledger->plan->phases[task->phase].pipelines[task->pipeline];
}

static void unit_workspace(const struct plan_pipeline *pipeline, enum pass pass, int32_t unit,
                           const struct cost_setting *own, struct unit_bytes *bytes)
{
    struct cost_unit work = dag_unit(pipeline, pass, unit);
    bytes->workspace = cost_workspace_bytes(own, &work);
    bytes->head_workspace = cost_head_workspace_bytes(own, cost_unit_tokens(&work));
}

/* Bytes of the tokens that backward unit `unit` consumes, to both its own and the forward units' accounts. */
static void add_shares(const struct plan_pipeline *pipeline, const struct cost_setting *own,
                       const struct relations *relations, int32_t unit, struct unit_bytes *const *units)
{
    struct unit_bytes *backward = &units[PASS_BACKWARD][unit];
    for (int32_t i = relations->share_first[unit]; i < relations->share_first[unit + 1]; i++) {
        const struct relations_share *share = &relations->shares[i];
        const struct plan_unit *part = &pipeline->cut[PASS_FORWARD].units[share->forward];
        struct unit_bytes *forward = &units[PASS_FORWARD][share->forward];
        int64_t tokens = (int64_t)share->whole_tokens + share->sliced_tokens;
        double activations = (double)tokens * dag_token_bytes(pipeline, own, share->forward);
        double kv = cost_layers_activation_bytes(own, part->recompute, true) -
                    cost_layers_activation_bytes(own, part->recompute, false);
        kv *= (double)share->sliced_tokens / part->context;
        double head = cost_head_bytes(own, (double)tokens / part->context);
        double embedding = cost_embedding_bytes(own, (double)tokens / part->context);
        forward->activations += activations;
        forward->kv += kv;
        forward->head += head;
        forward->embedding += embedding;
        backward->activations += activations;
        backward->kv += kv;
        backward->head += head;
        backward->embedding += embedding;
    }
}

/* Accounts of all units on the virtual stages of one kind. */
static void open_kind(const struct plan_pipeline *pipeline, const struct cost_setting *own,
                      const struct relations *relations, struct unit_bytes *const *units)
{
    for (int pass = 0; pass < N_PASSES; pass++)
        for (int32_t unit = 0; unit < pipeline->cut[pass].n_units; unit++)
            unit_workspace(pipeline, (enum pass)pass, unit, own, &units[pass][unit]);
    double kv = own->layers * cost_kv_bytes(own->model, own->tensor);
    for (int32_t unit = 0; unit < pipeline->cut[PASS_BACKWARD].n_units; unit++) {
        struct unit_bytes *bytes = &units[PASS_BACKWARD][unit];
        add_shares(pipeline, own, relations, unit, units);
        bytes->opened = kv * (double)relations->opened_tokens[unit] / pipeline->cut[PASS_BACKWARD].units[unit].context;
        bytes->closed = kv * (double)relations->closed_tokens[unit] / pipeline->cut[PASS_BACKWARD].units[unit].context;
    }
}

static bool offloads(const struct plan_pipeline *pipeline)
{
    for (int32_t unit = 0; unit < pipeline->cut[PASS_FORWARD].n_units; unit++)
        if (pipeline->cut[PASS_FORWARD].units[unit].offload > 0)
            return true;
    return pipeline->offload != NULL;
}

/* What goes to the host on the virtual stages of one kind. */
static void add_offloaded(const struct plan_pipeline *pipeline, const struct cost_setting *own,
                          const struct relations *relations, struct pipe *pipe, int32_t kind)
{
    const struct plan_cut *cut = pipeline->cut;
    for (int32_t unit = 0; unit < cut[PASS_BACKWARD].n_units; unit++)
        for (int32_t i = relations->share_first[unit]; i < relations->share_first[unit + 1]; i++) {
            const struct relations_share *share = &relations->shares[i];
            int64_t tokens = (int64_t)share->whole_tokens + share->sliced_tokens;
            double all = dag_offloadable_bytes(pipeline, own, share->forward, tokens, share->sliced_tokens);
            for (int32_t stage = 0; stage < pipeline->layout.stages * pipeline->layout.chunks; stage++) {
                if (pipe->kinds.kind[stage] != kind)
                    continue;
                double bytes = plan_offload(pipeline, share->forward, stage) * all;
                pipe->offloaded[PASS_FORWARD][stage * cut[PASS_FORWARD].n_units + share->forward] += bytes;
                pipe->offloaded[PASS_BACKWARD][stage * cut[PASS_BACKWARD].n_units + unit] += bytes;
            }
        }
}

static void open_pipe(const struct plan_pipeline *pipeline, const struct cost_setting *setting, struct pipe *pipe)
{
    struct relations relations = {0};
    relations_of(pipeline, &relations);
    pipe->kinds = dag_kinds_of(setting, &pipeline->layout);
    int32_t n_virtual = pipeline->layout.stages * pipeline->layout.chunks;
    for (int pass = 0; pass < N_PASSES; pass++) {
        int32_t n = pipeline->cut[pass].n_units;
        pipe->units[pass] = check_calloc((size_t)(n * pipe->kinds.n), sizeof *pipe->units[pass]);
        if (offloads(pipeline))
            pipe->offloaded[pass] = check_calloc((size_t)(n * n_virtual), sizeof *pipe->offloaded[pass]);
    }
    for (int32_t kind = 0; kind < pipe->kinds.n; kind++) {
        struct cost_setting own = dag_setting(setting, &pipeline->layout, pipe->kinds.stage[kind]);
        struct unit_bytes *units[N_PASSES];
        for (int pass = 0; pass < N_PASSES; pass++)
            units[pass] = pipe->units[pass] + kind * pipeline->cut[pass].n_units;
        open_kind(pipeline, &own, &relations, units);
        if (pipe->offloaded[PASS_FORWARD] != NULL)
            add_offloaded(pipeline, &own, &relations, pipe, kind);
    }
    relations_free(&relations);
}

static void open_pipes(struct ledger *ledger)
{
    const struct plan *plan = ledger->plan;
    int32_t n = 0;
    ledger->first_pipe = check_malloc(((size_t)plan->n_phases + 1) * sizeof *ledger->first_pipe);
    for (int32_t phase = 0; phase < plan->n_phases; phase++) {
        ledger->first_pipe[phase] = n;
        n += plan->phases[phase].n_pipelines;
    }
    ledger->first_pipe[plan->n_phases] = n;
    ledger->pipes = check_calloc((size_t)n, sizeof *ledger->pipes);
    for (int32_t phase = 0; phase < plan->n_phases; phase++)
        for (int32_t i = 0; i < plan->phases[phase].n_pipelines; i++)
            open_pipe(&plan->phases[phase].pipelines[i], ledger->setting,
                      &ledger->pipes[ledger->first_pipe[phase] + i]);
}

/* The queue a task belongs to, -1: it moves no memory. ATTENTION ends the pass that COMPUTE begins. */
static int32_t queue_of(const struct dag_task *task)
{
    if (task->kind == DAG_COMPUTE || task->kind == DAG_ATTENTION)
        return QUEUE_PASSES;
    if (task->purpose == DAG_OFFLOAD)
        return QUEUE_OUT;
    return task->purpose == DAG_PREFETCH ? QUEUE_IN : -1;
}

/* Counting sort of tasks by place and queue: each queue is in time order already. */
static void sort_tasks(struct ledger *ledger)
{
    const struct dag *dag = ledger->dag;
    size_t n_queues = (size_t)dag->n_places * N_QUEUES;
    ledger->first = check_calloc(n_queues + 2, sizeof *ledger->first);
    ledger->task = check_malloc((size_t)dag->n_tasks * sizeof *ledger->task);
    int32_t *count = ledger->first + 2; /* shifted, so that filling moves the ends to the beginnings */
    for (int32_t i = 0; i < dag->n_tasks; i++)
        if (queue_of(&dag->tasks[i]) >= 0)
            count[dag->tasks[i].place * N_QUEUES + queue_of(&dag->tasks[i])]++;
    for (size_t i = 1; i < n_queues; i++)
        count[i] += count[i - 1];
    int32_t *next = ledger->first + 1;
    for (int32_t i = 0; i < dag->n_tasks; i++)
        if (queue_of(&dag->tasks[i]) >= 0)
            ledger->task[next[dag->tasks[i].place * N_QUEUES + queue_of(&dag->tasks[i])]++] = i;
}

static void record(struct ledger *ledger, double time_s)
{
    struct memory *memory = ledger->memory;
    double sum = 0;
    for (int k = 0; k < MEMORY_N_CLASSES; k++)
        sum += ledger->live[k];
    if (sum > memory->peak_bytes[ledger->place]) {
        memory->peak_bytes[ledger->place] = sum;
        memcpy(memory->at_peak[ledger->place], ledger->live, sizeof ledger->live);
    }
    if (!ledger->want_events)
        return;
    memory->events =
        check_grow(memory->events, (size_t)memory->n_events, &ledger->event_capacity, sizeof *memory->events);
    struct memory_event *event = &memory->events[memory->n_events++];
    event->time_s = time_s;
    event->place = ledger->place;
    memcpy(event->bytes, ledger->live, sizeof event->bytes);
}

/* Whether a task stands on the last virtual stage, which computes the head. */
static bool is_last(const struct ledger *ledger, const struct dag_task *task)
{
    const struct plan_layout *layout = &pipeline_of(ledger, task)->layout;
    return task->chunk * layout->stages + task->stage == layout->stages * layout->chunks - 1;
}

/* Whether a task stands on the first virtual stage, which embeds. */
static bool is_first(const struct dag_task *task)
{
    return task->chunk == 0 && task->stage == 0;
}

/* Activations of a unit on the virtual stage of a task. */
static double activations(const struct ledger *ledger, const struct dag_task *task, const struct unit_bytes *bytes)
{
    return bytes->activations + (is_first(task) ? bytes->embedding : 0) + (is_last(ledger, task) ? bytes->head : 0);
}

static void begin_pass(struct ledger *ledger, const struct dag_task *task, const struct unit_bytes *bytes)
{
    ledger->live[MEMORY_WORKSPACE] =
        is_last(ledger, task) ? fmax(bytes->head_workspace, bytes->workspace - bytes->head) : bytes->workspace;
    if (task->pass == PASS_FORWARD) {
        ledger->live[MEMORY_ACTIVATIONS] += activations(ledger, task, bytes);
        ledger->live[MEMORY_KV] += bytes->kv;
    } else {
        ledger->live[MEMORY_KV_GRADIENTS] += bytes->opened;
    }
}

static void end_pass(struct ledger *ledger, const struct dag_task *task, const struct unit_bytes *bytes)
{
    ledger->live[MEMORY_WORKSPACE] = 0;
    if (task->pass == PASS_FORWARD)
        return;
    ledger->live[MEMORY_ACTIVATIONS] -= activations(ledger, task, bytes);
    ledger->live[MEMORY_KV] -= bytes->kv;
    ledger->live[MEMORY_KV_GRADIENTS] -= bytes->closed;
}

/* Position in one queue; of passes a task has a begin and an end. */
struct cursor {
    int32_t next, end;
    bool begun;
};

/* A pass ends with its last task: COMPUTE, or the ATTENTION behind it. */
static bool is_end(const struct ledger *ledger, const struct cursor *cursor)
{
    return cursor->next + 1 == cursor->end || ledger->dag->tasks[ledger->task[cursor->next + 1]].kind != DAG_ATTENTION;
}

static double time_of(const struct ledger *ledger, enum queue queue, const struct cursor *cursor)
{
    int32_t task = ledger->task[cursor->next];
    if (queue == QUEUE_OUT || (queue == QUEUE_PASSES && cursor->begun))
        return ledger->timeline->finish_s[task];
    return ledger->timeline->start_s[task];
}

static void step_passes(struct ledger *ledger, struct cursor *cursor, const struct dag_task *task,
                        const struct unit_bytes *bytes)
{
    if (!cursor->begun) {
        if (task->kind == DAG_COMPUTE)
            begin_pass(ledger, task, bytes);
        cursor->begun = true;
        return;
    }
    if (is_end(ledger, cursor))
        end_pass(ledger, task, bytes);
    cursor->begun = false;
    cursor->next++;
}

/* What the unit of a task's pass allocates and frees on the task's virtual stage. */
static const struct unit_bytes *units_of(const struct ledger *ledger, const struct dag_task *task)
{
    const struct pipe *pipe = &ledger->pipes[ledger->first_pipe[task->phase] + task->pipeline];
    const struct plan_pipeline *pipeline = pipeline_of(ledger, task);
    int32_t kind = pipe->kinds.kind[task->chunk * pipeline->layout.stages + task->stage];
    return &pipe->units[task->pass][kind * pipeline->cut[task->pass].n_units + task->unit];
}

/* What the unit of a copy's pass has on the host. */
static double host_bytes(const struct ledger *ledger, const struct dag_task *task)
{
    const struct pipe *pipe = &ledger->pipes[ledger->first_pipe[task->phase] + task->pipeline];
    const struct plan_pipeline *pipeline = pipeline_of(ledger, task);
    int32_t stage = task->chunk * pipeline->layout.stages + task->stage;
    return pipe->offloaded[task->pass][stage * pipeline->cut[task->pass].n_units + task->unit];
}

static void step(struct ledger *ledger, enum queue queue, struct cursor *cursor)
{
    const struct dag_task *task = &ledger->dag->tasks[ledger->task[cursor->next]];
    double time_s = time_of(ledger, queue, cursor);
    if (queue == QUEUE_PASSES) {
        step_passes(ledger, cursor, task, units_of(ledger, task));
    } else {
        double bytes = host_bytes(ledger, task);
        ledger->live[MEMORY_ACTIVATIONS] += queue == QUEUE_OUT ? -bytes : bytes;
        cursor->next++;
    }
    record(ledger, time_s);
}

static double states(const struct ledger *ledger, int32_t place)
{
    const struct dag_place *at = &ledger->dag->places[place];
    const struct plan_layout *layout = &ledger->plan->phases[at->phase].pipelines[at->pipeline].layout;
    struct cost_setting own = dag_setting(ledger->setting, layout, at->stage);
    int32_t layers = dag_stage_layers(ledger->setting, layout, at->stage), shards = ledger->plan->shards;
    bool first = at->stage == 0, last = at->stage == layout->stages - 1;
    double parameters = cost_stage_parameters(own.model, own.tensor, layers, first, last);
    return cost_state_bytes(&own, parameters, shards) + cost_state_block_bytes(&own, layers, first, last, shards) +
           cost_gathered_bytes(&own);
}

/* The most that a place has on the host: from the start of each copy out to the end of each copy in. */
static double host_peak(const struct ledger *ledger, int32_t place)
{
    const int32_t *first = &ledger->first[place * N_QUEUES];
    int32_t in = first[QUEUE_IN];
    double held = 0, peak = 0;
    for (int32_t out = first[QUEUE_OUT]; out < first[QUEUE_OUT + 1]; out++) {
        double start_s = ledger->timeline->start_s[ledger->task[out]];
        for (; in < first[QUEUE_IN + 1] && ledger->timeline->finish_s[ledger->task[in]] <= start_s; in++)
            held -= host_bytes(ledger, &ledger->dag->tasks[ledger->task[in]]);
        held += host_bytes(ledger, &ledger->dag->tasks[ledger->task[out]]);
        peak = fmax(peak, held);
    }
    return peak;
}

static void walk_place(struct ledger *ledger, int32_t place)
{
    struct cursor cursors[N_QUEUES];
    for (int q = 0; q < N_QUEUES; q++)
        cursors[q] =
            (struct cursor){ledger->first[place * N_QUEUES + q], ledger->first[place * N_QUEUES + q + 1], false};
    ledger->place = place;
    memset(ledger->live, 0, sizeof ledger->live);
    ledger->live[MEMORY_STATES] = states(ledger, place);
    ledger->live[MEMORY_LIBRARIES] = ledger->setting->device->workspace_bytes;
    record(ledger, 0.0);
    for (;;) {
        int best = -1;
        for (int q = 0; q < N_QUEUES; q++)
            if (cursors[q].next < cursors[q].end && (best < 0 || time_of(ledger, (enum queue)q, &cursors[q]) <
                                                                     time_of(ledger, (enum queue)best, &cursors[best])))
                best = q;
        if (best < 0)
            return;
        step(ledger, (enum queue)best, &cursors[best]);
    }
}

void memory_of(const struct plan *plan, const struct dag *dag, const struct timeline *timeline,
               const struct cost_setting *setting, bool want_events, struct memory *memory)
{
    struct ledger ledger = {.plan = plan,
                            .dag = dag,
                            .timeline = timeline,
                            .setting = setting,
                            .memory = memory,
                            .want_events = want_events};
    *memory = (struct memory){.n_places = dag->n_places};
    memory->peak_bytes = check_calloc((size_t)dag->n_places, sizeof *memory->peak_bytes);
    memory->at_peak = check_calloc((size_t)dag->n_places, sizeof *memory->at_peak);
    memory->host_peak_bytes = check_calloc((size_t)dag->n_places, sizeof *memory->host_peak_bytes);
    open_pipes(&ledger);
    sort_tasks(&ledger);
    for (int32_t place = 0; place < dag->n_places; place++) {
        walk_place(&ledger, place);
        memory->host_peak_bytes[place] = host_peak(&ledger, place);
        if (memory->peak_bytes[place] > memory->peak_bytes[memory->worst_place])
            memory->worst_place = place;
    }
    for (int32_t i = 0; i < ledger.first_pipe[plan->n_phases]; i++) {
        free(ledger.pipes[i].kinds.kind);
        for (int pass = 0; pass < N_PASSES; pass++) {
            free(ledger.pipes[i].units[pass]);
            free(ledger.pipes[i].offloaded[pass]);
        }
    }
    free(ledger.pipes);
    free(ledger.first_pipe);
    free(ledger.first);
    free(ledger.task);
}

struct memory_host memory_host_of(const struct plan *plan, const struct dag *dag, const struct memory *memory,
                                  int32_t gpus_per_node, bool all_tensor_ranks)
{
    int32_t n_nodes = 1;
    struct memory_host worst = {0};
    for (int32_t i = 0; i < dag->n_places; i++)
        if (dag->places[i].rank / gpus_per_node >= n_nodes)
            n_nodes = dag->places[i].rank / gpus_per_node + 1;
    double *bytes = check_calloc((size_t)plan->n_phases * (size_t)n_nodes, sizeof *bytes);
    for (int32_t i = 0; i < dag->n_places; i++) {
        const struct dag_place *place = &dag->places[i];
        int32_t tensor = plan->phases[place->phase].pipelines[place->pipeline].layout.tensor;
        int32_t node = place->rank / gpus_per_node, at = place->phase * n_nodes + node;
        bytes[at] += memory->host_peak_bytes[i] * (all_tensor_ranks ? 1 : tensor);
        if (bytes[at] > worst.bytes)
            worst = (struct memory_host){.bytes = bytes[at], .node = node, .phase = place->phase};
    }
    free(bytes);
    double most = 0;
    for (int32_t i = 0; i < dag->n_places; i++) {
        const struct dag_place *place = &dag->places[i];
        if (place->phase != worst.phase || place->rank / gpus_per_node != worst.node ||
            memory->host_peak_bytes[i] <= most)
            continue;
        most = memory->host_peak_bytes[i];
        worst.stage = place->stage;
    }
    return worst;
}

void memory_free(struct memory *memory)
{
    free(memory->peak_bytes);
    free(memory->at_peak);
    free(memory->host_peak_bytes);
    free(memory->events);
    *memory = (struct memory){0};
}
