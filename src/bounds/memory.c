/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "bounds/memory.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

const char *const memory_class_name[MEMORY_N_CLASSES] = {"states",    "activations",   "kv",       "kv_gradients",
                                                         "workspace", "communication", "libraries"};

/* What a virtual stage allocates (forward) or frees (backward) of one unit. */
struct unit_bytes {
    double activations, kv;
    double streamed; /* to the host and back layer by layer in the passes, never held whole; not among activations */
    double workspace;
    double opened, closed;   /* key and value gradients */
    double weight;           /* from the gradients of the inputs to those of the weights */
    double weight_workspace; /* of the latter: an input gathered again */
};

/* And of that the ends of the pipeline. */
struct end_bytes {
    double tokens;               /* of the unit, on a rank */
    double embedding;            /* on the first virtual stage: kept from forward to backward */
    double head, head_workspace; /* on the last one: kept likewise; in work */
    double head_weight;          /* as weight */
};

/* A phase's pipelines. */
struct pipe {
    const struct plan_pipeline *plan;
    const struct dag_kinds *kinds;
    bool attends;                       /* some pass has ATTENTION after its COMPUTE */
    int32_t account[DAG_MAX_KINDS];     /* of each kind: the first of as many layers */
    struct unit_bytes *units[N_PASSES]; /* [kind x units + unit] */
    /* Of activations: freed after the copy out (forward), allocated before the copy in, but for what streams; NULL:
     * nothing is offloaded. */
    double *offloaded[N_PASSES]; /* [virtual stage x units + unit] */
    double *exchanged[N_PASSES]; /* buffers of exchanged attention, likewise; NULL: none is */
};

/* A token of a forward unit: what it holds, and its keys and values kept beside that, if its sample is sliced. */
struct token {
    struct dag_token of;
    double kv_bytes;
};

/* A pipe while it is opened, and the account in work: its kind, its setting, a token of each of its forward units. */
struct opening {
    struct pipe *pipe;
    const struct relations *relations;
    struct end_bytes *ends[N_PASSES]; /* [unit] */
    int32_t account;
    const struct cost_setting *own;
    struct token *tokens;
};

/* A virtual stage of the place in work. */
struct chunk {
    int32_t number;                                /* -1: none yet */
    const struct unit_bytes *units[N_STEP_PASSES]; /* of each pass's cut */
    const double *exchanged[N_STEP_PASSES];        /* NULL: nothing is */
};

struct copy {
    double start_s, finish_s;
    double host_bytes; /* what the host has of it */
    double bytes;      /* that it frees or takes on the GPU: none if it streams */
};

/* Those of the place in work one way, in their order. */
struct copies {
    struct copy *all; /* the last one never comes: at infinity */
    size_t capacity;
};

struct ledger {
    const struct plan *plan;
    const struct dag *dag;
    const struct timeline *timeline;
    const struct cost_setting *setting;
    struct memory *memory;
    struct pipe *pipes; /* as those of the graph */
    size_t event_capacity;
    int32_t place;           /* in work */
    const struct pipe *pipe; /* its pipeline */
    struct copies out, in;   /* if it is walked by its tasks */
};

/* What a split backward of the layers hands on to its weights' gradients, and these need at work: inputs gathered
 * again. */
static void add_weight(const struct cost_setting *own, double tokens, struct unit_bytes *bytes)
{
    bytes->weight = own->layers * tokens * cost_weight_bytes(own);
    bytes->weight_workspace = own->tensor > 1 && own->sequence_parallel ? 2 * tokens * (double)own->model->hidden : 0;
}

/* What tokens of a forward unit that one backward unit consumes hold in the layers. */
static struct unit_bytes bytes_of_share(const struct plan_unit *part, const struct token *token,
                                        const struct relations_share *share)
{
    int64_t tokens = (int64_t)share->whole_tokens + share->sliced_tokens;
    struct unit_bytes bytes = {.activations = (double)tokens * token->of.held,
                               .kv = token->kv_bytes * ((double)share->sliced_tokens / part->context)};
    if (part->streams)
        bytes.streamed = part->offload * dag_offloadable_of_tokens(&token->of, tokens, share->sliced_tokens);
    return bytes;
}

/* A token of each forward unit: alike in units of a kind, but for scores that are kept. Caller frees. */
static struct token *tokens_of(const struct plan_pipeline *pipeline, const struct cost_setting *own)
{
    int32_t n = pipeline->cut[PASS_FORWARD].n_units;
    struct token *tokens = check_malloc((size_t)n * sizeof *tokens);
    for (int32_t unit = 0; unit < n; unit++) {
        const struct plan_unit *part = &pipeline->cut[PASS_FORWARD].units[unit];
        if (unit > 0 && own->attention != DEVICE_UNFUSED && part[-1].recompute == part->recompute &&
            part[-1].context == part->context) {
            tokens[unit] = tokens[unit - 1];
            continue;
        }
        tokens[unit].of = dag_token_of(pipeline, own, unit);
        tokens[unit].kv_bytes = cost_layers_activation_bytes(own, part->recompute, true) -
                                cost_layers_activation_bytes(own, part->recompute, false);
    }
    return tokens;
}

static void add_share(struct unit_bytes *sum, const struct unit_bytes *share)
{
    sum->activations += share->activations;
    sum->kv += share->kv;
    sum->streamed += share->streamed;
}

/* Rows of a kind's units. */
static struct unit_bytes *units_of(const struct pipe *pipe, int pass, int32_t kind)
{
    return pipe->units[pass] + kind * pipe->plan->cut[pass].n_units;
}

static void open_workspace(const struct opening *opening, enum pass pass, struct unit_bytes *units)
{
    const struct plan_pipeline *pipeline = opening->pipe->plan;
    const struct cost_setting *own = opening->own;
    struct cost_workspace each = {0};
    for (int32_t unit = 0; unit < pipeline->cut[pass].n_units; unit++) {
        const struct plan_unit *part = &pipeline->cut[pass].units[unit];
        double scores = 0;
        if (unit == 0 || part[-1].recompute != part->recompute)
            each = cost_workspace_of(own, part->recompute);
        if (own->attention == DEVICE_UNFUSED) {
            struct cost_unit work = dag_unit(pipeline, pass, unit);
            scores = cost_scores(own, &work);
        }
        units[unit].workspace = cost_workspace_of_tokens(&each, opening->ends[pass][unit].tokens, scores);
    }
}

/* The account's layers: what a backward unit consumes of a forward unit, to both. */
static void open_layers(const struct opening *opening)
{
    const struct relations *relations = opening->relations;
    const struct plan_cut *cut = opening->pipe->plan->cut;
    const struct cost_setting *own = opening->own;
    struct unit_bytes *forwards = units_of(opening->pipe, PASS_FORWARD, opening->account),
                      *backwards = units_of(opening->pipe, PASS_BACKWARD, opening->account);
    double kv = own->layers * cost_kv_bytes(own->model, own->tensor);
    open_workspace(opening, PASS_FORWARD, forwards);
    open_workspace(opening, PASS_BACKWARD, backwards);
    for (int32_t unit = 0; unit < cut[PASS_BACKWARD].n_units; unit++) {
        struct unit_bytes *bytes = &backwards[unit];
        int32_t context = cut[PASS_BACKWARD].units[unit].context;
        for (int32_t i = relations->share_first[unit]; i < relations->share_first[unit + 1]; i++) {
            int32_t forward = relations->shares[i].forward;
            struct unit_bytes share =
                bytes_of_share(&cut[PASS_FORWARD].units[forward], &opening->tokens[forward], &relations->shares[i]);
            add_share(&forwards[forward], &share);
            add_share(bytes, &share);
        }
        if (opening->pipe->plan->splits_backward)
            add_weight(own, opening->ends[PASS_BACKWARD][unit].tokens, bytes);
        bytes->opened = kv * (double)relations->opened_tokens[unit] / context;
        bytes->closed = kv * (double)relations->closed_tokens[unit] / context;
    }
}

/* The embedding and the head, however many layers stand beside them. */
static void open_ends(const struct opening *opening, const struct cost_setting *own)
{
    const struct relations *relations = opening->relations;
    const struct plan_pipeline *pipeline = opening->pipe->plan;
    struct end_bytes *forwards = opening->ends[PASS_FORWARD], *backwards = opening->ends[PASS_BACKWARD];
    double token_workspace = cost_head_workspace_bytes(own, 1), token_head = cost_head_bytes(own, 1);
    for (int pass = 0; pass < N_PASSES; pass++)
        for (int32_t unit = 0; unit < pipeline->cut[pass].n_units; unit++) {
            struct end_bytes *end = &opening->ends[pass][unit];
            struct cost_unit work = dag_unit(pipeline, (enum pass)pass, unit);
            end->tokens = cost_unit_tokens(&work);
            end->head_workspace = end->tokens * token_workspace;
            if (pass == PASS_BACKWARD && pipeline->splits_backward)
                end->head_weight = cost_head_weight_bytes(own, end->tokens);
        }
    for (int32_t unit = 0; unit < pipeline->cut[PASS_BACKWARD].n_units; unit++)
        for (int32_t i = relations->share_first[unit]; i < relations->share_first[unit + 1]; i++) {
            const struct relations_share *share = &relations->shares[i];
            int32_t context = pipeline->cut[PASS_FORWARD].units[share->forward].context;
            double tokens = (double)((int64_t)share->whole_tokens + share->sliced_tokens) / context;
            double head = tokens * token_head, embedding = cost_embedding_bytes(own, tokens);
            forwards[share->forward].head += head;
            forwards[share->forward].embedding += embedding;
            backwards[unit].head += head;
            backwards[unit].embedding += embedding;
        }
}

/* What goes to the host on the virtual stages of the account, what streams there too. */
static void add_offloaded(const struct opening *opening)
{
    const struct relations *relations = opening->relations;
    const struct pipe *pipe = opening->pipe;
    const struct plan_cut *cut = pipe->plan->cut;
    for (int32_t stage = 0; stage < pipe->plan->layout.stages * pipe->plan->layout.chunks; stage++) {
        double *forwards = pipe->offloaded[PASS_FORWARD] + stage * cut[PASS_FORWARD].n_units,
               *backwards = pipe->offloaded[PASS_BACKWARD] + stage * cut[PASS_BACKWARD].n_units;
        if (pipe->account[pipe->kinds->kind[stage]] != opening->account)
            continue;
        for (int32_t unit = 0; unit < cut[PASS_BACKWARD].n_units; unit++)
            for (int32_t i = relations->share_first[unit]; i < relations->share_first[unit + 1]; i++) {
                const struct relations_share *share = &relations->shares[i];
                double part = plan_offload(pipe->plan, share->forward, stage);
                if (part <= 0)
                    continue;
                double bytes = part * dag_offloadable_of_tokens(&opening->tokens[share->forward].of,
                                                                (int64_t)share->whole_tokens + share->sliced_tokens,
                                                                share->sliced_tokens);
                forwards[share->forward] += bytes;
                backwards[unit] += bytes;
            }
    }
}

/* Buffers of exchanges: of one layer's messages on both stages. */
static void open_exchanges(const struct plan_pipeline *pipeline, const struct cost_setting *setting, struct pipe *pipe)
{
    for (int pass = 0; pipeline->n_exchanges > 0 && pass < N_PASSES; pass++)
        pipe->exchanged[pass] = check_calloc((size_t)pipeline->cut[pass].n_units * (size_t)pipeline->layout.stages,
                                             sizeof *pipe->exchanged[pass]);
    for (int32_t i = 0; i < pipeline->n_exchanges; i++) {
        const struct plan_exchange *exchange = &pipeline->exchanges[i];
        double *exchanged = pipe->exchanged[exchange->pass];
        int32_t n_units = pipeline->cut[exchange->pass].n_units;
        struct cost_setting own = dag_setting(setting, &pipeline->layout, exchange->from_stage);
        struct cost_unit unit = dag_unit(pipeline, exchange->pass, exchange->from_unit);
        struct cost_exchange cost = cost_of_exchange(&own, exchange->pass, &unit, exchange->share);
        exchanged[exchange->from_stage * n_units + exchange->from_unit] += cost.giver_bytes;
        exchanged[exchange->to_stage * n_units + exchange->to_unit] += cost.taker_bytes;
    }
}

/* Which kinds have as many layers. */
static void open_accounts(const struct cost_setting *setting, struct pipe *pipe)
{
    int32_t layers[DAG_MAX_KINDS] = {0};
    for (int32_t kind = 0; kind < pipe->kinds->n; kind++) {
        int32_t account = 0;
        layers[kind] = dag_setting(setting, &pipe->plan->layout, pipe->kinds->stage[kind]).layers;
        while (layers[account] != layers[kind])
            account++;
        pipe->account[kind] = account;
    }
}

/* A kind's units: the layers of its account, and what of the ends stands beside them. Streamed bytes are never held. */
static void add_ends(const struct opening *opening, int32_t kind)
{
    const struct pipe *pipe = opening->pipe;
    bool first = kind == 0, last = kind == pipe->kinds->n - 1;
    for (int pass = 0; pass < N_PASSES; pass++) {
        int32_t n = pipe->plan->cut[pass].n_units;
        struct unit_bytes *units = units_of(pipe, pass, kind);
        if (pipe->account[kind] != kind)
            memcpy(units, units_of(pipe, pass, pipe->account[kind]), (size_t)n * sizeof *units);
        for (int32_t i = 0; i < n; i++) {
            const struct end_bytes *end = &opening->ends[pass][i];
            units[i].activations = units[i].activations - units[i].streamed + (first ? end->embedding : 0);
            if (!last)
                continue;
            units[i].activations += end->head;
            units[i].workspace = fmax(end->head_workspace, units[i].workspace - end->head);
            units[i].weight += end->head_weight;
        }
    }
}

/* Only context parallelism and exchanges part attention from the rest of a pass. */
static bool attends(const struct plan_pipeline *pipeline)
{
    bool any = pipeline->n_exchanges > 0;
    for (int pass = 0; pass < N_PASSES; pass++)
        for (int32_t unit = 0; unit < pipeline->cut[pass].n_units; unit++)
            any = any || pipeline->cut[pass].units[unit].context > 1;
    return any;
}

static void open_pipe(const struct plan_pipeline *pipeline, const struct cost_setting *setting,
                      const struct dag_pipe *of, struct pipe *pipe)
{
    struct opening opening = {.pipe = pipe, .relations = &of->relations};
    *pipe = (struct pipe){.plan = pipeline, .kinds = &of->kinds, .attends = attends(pipeline)};
    bool offloads = plan_offloads(pipeline);
    for (int pass = 0; pass < N_PASSES; pass++) {
        size_t n = (size_t)pipeline->cut[pass].n_units;
        pipe->units[pass] = check_calloc(n * (size_t)of->kinds.n, sizeof *pipe->units[pass]);
        opening.ends[pass] = check_calloc(n, sizeof *opening.ends[pass]);
        if (offloads)
            pipe->offloaded[pass] = check_calloc(n * (size_t)(pipeline->layout.stages * pipeline->layout.chunks),
                                                 sizeof *pipe->offloaded[pass]);
    }
    open_accounts(setting, pipe);
    for (int32_t kind = 0; kind < of->kinds.n; kind++) {
        struct cost_setting own = dag_setting(setting, &pipeline->layout, of->kinds.stage[kind]);
        if (kind == 0)
            open_ends(&opening, &own);
        if (pipe->account[kind] != kind)
            continue;
        opening.account = kind;
        opening.own = &own;
        opening.tokens = tokens_of(pipeline, &own);
        open_layers(&opening);
        if (offloads)
            add_offloaded(&opening);
        free(opening.tokens);
    }
    for (int32_t kind = of->kinds.n - 1; kind >= 0; kind--) /* an account is the first kind of its own */
        add_ends(&opening, kind);
    free(opening.ends[PASS_FORWARD]);
    free(opening.ends[PASS_BACKWARD]);
    open_exchanges(pipeline, setting, pipe);
}

static void open_pipes(struct ledger *ledger)
{
    const struct plan *plan = ledger->plan;
    const struct dag *dag = ledger->dag;
    ledger->pipes = check_calloc((size_t)dag->n_pipes, sizeof *ledger->pipes);
    for (int32_t phase = 0; phase < plan->n_phases; phase++)
        for (int32_t i = 0; i < plan->phases[phase].n_pipelines; i++) {
            int32_t pipe = dag->first_pipe[phase] + i;
            if (dag->pipes[pipe].alike == pipe)
                open_pipe(&plan->phases[phase].pipelines[i], ledger->setting, &dag->pipes[pipe], &ledger->pipes[pipe]);
        }
}

/* For what the compiler must not turn into calls: what a place holds would go through memory. */
#define LEDGER_INLINE static inline __attribute__((always_inline))

/* What a place holds, and the most it held. A walk keeps it in registers: nothing takes its address. */
struct live {
    double bytes[MEMORY_N_CLASSES], peak[MEMORY_N_CLASSES], peak_bytes;
};

static void grow_events(struct ledger *ledger)
{
    struct memory *memory = ledger->memory;
    memory->events =
        check_grow(memory->events, (size_t)memory->n_events, &ledger->event_capacity, sizeof *memory->events);
}

LEDGER_INLINE void record_event(struct ledger *ledger, const struct live *live, double time_s)
{
    struct memory *memory = ledger->memory;
    if ((size_t)memory->n_events == ledger->event_capacity)
        grow_events(ledger);
    struct memory_event *event = &memory->events[memory->n_events++];
    event->time_s = time_s;
    event->place = ledger->place;
    for (int k = 0; k < MEMORY_N_CLASSES; k++)
        event->bytes[k] = live->bytes[k];
}

LEDGER_INLINE void record(struct ledger *ledger, struct live *live, double time_s, bool want_events)
{
    double sum = 0;
    for (int k = 0; k < MEMORY_N_CLASSES; k++)
        sum += live->bytes[k];
    if (sum > live->peak_bytes) {
        live->peak_bytes = sum;
        for (int k = 0; k < MEMORY_N_CLASSES; k++)
            live->peak[k] = live->bytes[k];
    }
    if (want_events)
        record_event(ledger, live, time_s);
}

/* A pass of a unit on a virtual stage. */
struct pass_bytes {
    enum pass pass;
    bool splits;      /* PASS_WEIGHT may come */
    double exchanged; /* buffers */
    const struct unit_bytes *unit;
};

static struct chunk chunk_of(const struct ledger *ledger, int32_t number)
{
    const struct pipe *pipe = ledger->pipe;
    int32_t stage = ledger->dag->places[ledger->place].stage;
    struct chunk chunk = {.number = number};
    for (int pass = 0; pass < N_STEP_PASSES; pass++) {
        int cut = pass == PASS_FORWARD ? PASS_FORWARD : PASS_BACKWARD;
        chunk.units[pass] = units_of(pipe, cut, pipe->kinds->kind[number * pipe->plan->layout.stages + stage]);
        if (pipe->exchanged[cut] != NULL) /* chunks are 1 */
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
    const struct unit_bytes *unit = bytes->unit;
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
    const struct unit_bytes *unit = bytes->unit;
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

static int32_t first_of(const struct dag *dag, int32_t place, enum dag_stream stream)
{
    return dag->stream_first[place * DAG_N_STREAMS + (int32_t)stream];
}

/* What only frees makes no peak. */
LEDGER_INLINE void record_freed(struct ledger *ledger, struct live *live, double time_s, bool want_events)
{
    if (want_events)
        record(ledger, live, time_s, true);
}

/* A copy to the host or back of the place in work. */
static struct copy copy_of(const struct ledger *ledger, int32_t number)
{
    const struct dag_task *task = &ledger->dag->tasks[number];
    const struct plan_pipeline *plan = ledger->pipe->plan;
    const struct plan_cut *cut = &plan->cut[task->pass];
    int32_t stage = task->chunk * plan->layout.stages + task->stage;
    double bytes = ledger->pipe->offloaded[task->pass][stage * cut->n_units + task->unit];
    return (struct copy){.start_s = ledger->timeline->start_s[number],
                         .finish_s = ledger->timeline->finish_s[number],
                         .host_bytes = bytes,
                         .bytes = cut->units[task->unit].streams ? 0 : bytes};
}

/* All copies of the place in work one way, and one that never comes. */
static void open_copies(struct ledger *ledger, enum dag_stream stream, struct copies *copies)
{
    const struct dag *dag = ledger->dag;
    size_t n = 0;
    int32_t task = first_of(dag, ledger->place, stream);
    for (bool more = true; more; n++) {
        more = task >= 0;
        copies->all = check_grow(copies->all, n, &copies->capacity, sizeof *copies->all);
        copies->all[n] = more ? copy_of(ledger, task) : (struct copy){.start_s = INFINITY, .finish_s = INFINITY};
        task = more ? dag->stream_next[task] : -1;
    }
}

/* Copies of the place in work that are still to come, and when the next ones move memory: a copy out when it ends, a
 * copy in when it starts. */
struct queues {
    const struct copy *out, *in;
    double out_s, in_s;
};

LEDGER_INLINE void copy_next(struct ledger *ledger, struct queues *queues, struct live *live, bool want_events)
{
    if (queues->out_s <= queues->in_s) {
        live->bytes[MEMORY_ACTIVATIONS] -= queues->out->bytes;
        record_freed(ledger, live, queues->out_s, want_events);
        queues->out_s = (++queues->out)->finish_s;
    } else {
        live->bytes[MEMORY_ACTIVATIONS] += queues->in->bytes;
        record(ledger, live, queues->in_s, want_events);
        queues->in_s = (++queues->in)->start_s;
    }
}

/* What is copied before a pass begins or ends. At equal times frees by a copy out come first, then the compute stream
 * in its order, then a copy in. */
LEDGER_INLINE void copy_until(struct ledger *ledger, struct queues *queues, double time_s, struct live *live,
                              bool want_events)
{
    while (queues->out_s <= time_s || queues->in_s < time_s)
        copy_next(ledger, queues, live, want_events);
}

/* The most parameters that a layout of a phase has on one of n GPUs from `rank` on. */
static double parameters_of_ranks(const struct ledger *ledger, const struct plan_phase *phase, int32_t rank, int32_t n)
{
    double most = 0;
    for (int32_t i = 0; i < phase->n_pipelines; i++) {
        const struct plan_layout *layout = &phase->pipelines[i].layout;
        for (int32_t stage = 0; stage < layout->stages; stage++) {
            int32_t first = plan_rank(layout, stage, 0, 0), end = first + layout->context * layout->tensor;
            if (first < rank + n && rank < end)
                most = fmax(most, dag_stage_parameters(ledger->setting, layout, stage));
        }
    }
    return most;
}

/* What a place holds of the layout before while the model moves to its own: weights, and gradients of the iteration. */
static double moving_bytes(const struct ledger *ledger, int32_t place)
{
    const struct plan *plan = ledger->plan;
    const struct dag_place *at = &ledger->dag->places[place];
    const struct plan_phase *phase = &plan->phases[at->phase];
    if (phase->n_reshards == 0)
        return 0;
    const struct plan_layout *layout = &phase->pipelines[at->pipeline].layout;
    const struct plan_phase *before = &plan->phases[(at->phase > 0 ? at->phase : plan->n_phases) - 1];
    double gradient_bytes = at->phase > 0 ? cost_gradient_bytes(ledger->setting->gradients) : 0;
    return (2 + gradient_bytes) *
           parameters_of_ranks(ledger, before, plan_rank(layout, at->stage, 0, 0), layout->context * layout->tensor);
}

static double states(const struct ledger *ledger, int32_t place)
{
    const struct dag_place *at = &ledger->dag->places[place];
    const struct plan_layout *layout = &ledger->plan->phases[at->phase].pipelines[at->pipeline].layout;
    struct cost_setting own = dag_setting(ledger->setting, layout, at->stage);
    int32_t layers = dag_stage_layers(ledger->setting, layout, at->stage),
            shards = ledger->plan->phases[at->phase].shards;
    shards = shards > 0 ? shards : ledger->plan->shards;
    bool first = at->stage == 0, last = at->stage == layout->stages - 1;
    double parameters = cost_stage_parameters(own.model, own.tensor, layers, first, last);
    return cost_state_bytes(&own, parameters, shards) + cost_state_block_bytes(&own, layers, first, last, shards) +
           cost_gathered_bytes(&own);
}

/* The most that the place in work has on the host: from the start of each copy out to the end of each copy in. */
static double host_peak(const struct ledger *ledger)
{
    const struct copy *in = ledger->in.all;
    double held = 0, peak = 0;
    for (const struct copy *out = ledger->out.all; out->start_s < INFINITY; out++) {
        for (; in->finish_s <= out->start_s; in++)
            held -= in->host_bytes;
        held += out->host_bytes;
        peak = fmax(peak, held);
    }
    return peak;
}

LEDGER_INLINE void open_place(struct ledger *ledger, struct live *live, bool want_events)
{
    double moving = moving_bytes(ledger, ledger->place);
    live->bytes[MEMORY_STATES] = states(ledger, ledger->place) + moving;
    live->bytes[MEMORY_LIBRARIES] = ledger->setting->device->workspace_bytes;
    record(ledger, live, 0.0, want_events);
    live->bytes[MEMORY_STATES] -= moving;
    if (moving > 0)
        record_freed(ledger, live, 0.0, want_events);
}

LEDGER_INLINE void close_place(const struct ledger *ledger, const struct live *live)
{
    struct memory *memory = ledger->memory;
    memory->peak_bytes[ledger->place] = live->peak_bytes;
    for (int k = 0; k < MEMORY_N_CLASSES; k++)
        memory->at_peak[ledger->place][k] = live->peak[k];
}

/* The first pass of the place in work: re-sharding comes before it on the stream, and moves no memory. */
static int32_t first_pass(const struct ledger *ledger)
{
    const struct dag *dag = ledger->dag;
    int32_t task = first_of(dag, ledger->place, DAG_STREAM_COMPUTE);
    while (task >= 0 && dag->tasks[task].purpose == DAG_RESHARD)
        task = dag->stream_next[task];
    return task;
}

/* The task that goes on with the pass of another one, -1: it ends there. */
static int32_t attention_after(const struct dag *dag, int32_t task)
{
    int32_t next = dag->stream_next[task];
    return next >= 0 && dag->tasks[next].kind == DAG_ATTENTION ? next : -1;
}

/* All that happens on a place, in order of time. Passes stand on their stream as the stage's steps. plain: none is made
 * of several tasks, splits or exchanges, which the compiler then leaves out. */
LEDGER_INLINE void walk_tasks(struct ledger *ledger, bool want_events, bool plain)
{
    const struct dag *dag = ledger->dag;
    const struct plan_pipeline *plan = ledger->pipe->plan;
    const bool attends = !plain && ledger->pipe->attends, splits = !plain && plan->splits_backward,
               exchanges = !plain && plan->n_exchanges > 0;
    const double *start_s = ledger->timeline->start_s, *finish_s = ledger->timeline->finish_s;
    struct live live = {0};
    struct chunk chunk = {.number = -1};
    struct queues queues = {ledger->out.all, ledger->in.all, ledger->out.all->finish_s, ledger->in.all->start_s};
    int32_t stage = dag->places[ledger->place].stage, task = first_pass(ledger);
    const struct plan_step *step = plan->steps + plan->step_first[stage],
                           *end = plan->steps + plan->step_first[stage + 1];
    open_place(ledger, &live, want_events);
    for (; step < end; step++) {
        struct pass_bytes bytes = pass_bytes_of(ledger, &chunk, step, splits, exchanges);
        copy_until(ledger, &queues, start_s[task], &live, want_events);
        begin_pass(&bytes, &live);
        record(ledger, &live, start_s[task], want_events);
        for (int32_t next; attends && (next = attention_after(dag, task)) >= 0; task = next) {
            copy_until(ledger, &queues, finish_s[task], &live, want_events);
            record_freed(ledger, &live, finish_s[task], want_events);
            copy_until(ledger, &queues, start_s[next], &live, want_events);
            record(ledger, &live, start_s[next], want_events);
        }
        copy_until(ledger, &queues, finish_s[task], &live, want_events);
        end_pass(&bytes, &live);
        if (!splits || bytes.pass == PASS_WEIGHT || bytes.unit->weight <= 0)
            record_freed(ledger, &live, finish_s[task], want_events);
        else
            record(ledger, &live, finish_s[task], want_events); /* a split backward hands on */
        task = dag->stream_next[task];
    }
    copy_until(ledger, &queues, DBL_MAX, &live, want_events);
    close_place(ledger, &live);
}

/* Without copies the peak follows from the order of the stage's steps, whatever the times. The end of a pass only
 * frees, but for a split backward. */
static void walk_steps(struct ledger *ledger, int32_t stage)
{
    struct live live = {0};
    struct chunk chunk = {.number = -1};
    const struct plan_pipeline *plan = ledger->pipe->plan;
    const bool exchanges = plan->n_exchanges > 0;
    open_place(ledger, &live, false);
    for (int32_t i = plan->step_first[stage]; i < plan->step_first[stage + 1]; i++) {
        struct pass_bytes bytes = pass_bytes_of(ledger, &chunk, &plan->steps[i], plan->splits_backward, exchanges);
        begin_pass(&bytes, &live);
        record(ledger, &live, 0.0, false);
        end_pass(&bytes, &live);
        if (plan->splits_backward)
            record(ledger, &live, 0.0, false);
    }
    close_place(ledger, &live);
}

static bool same_stage(const struct dag_place *a, const struct dag_place *b)
{
    return a->phase == b->phase && a->pipeline == b->pipeline && a->stage == b->stage;
}

static bool copies(const struct dag *dag, int32_t place)
{
    return first_of(dag, place, DAG_STREAM_TO_HOST) >= 0 || first_of(dag, place, DAG_STREAM_FROM_HOST) >= 0;
}

static void start_place(struct ledger *ledger, int32_t place)
{
    const struct dag_place *at = &ledger->dag->places[place];
    ledger->place = place;
    ledger->pipe = &ledger->pipes[ledger->dag->first_pipe[at->phase] + at->pipeline];
}

/* The tasks of the place in work. */
LEDGER_INLINE void resolve_tasks(struct ledger *ledger, bool want_events)
{
    open_copies(ledger, DAG_STREAM_TO_HOST, &ledger->out);
    open_copies(ledger, DAG_STREAM_FROM_HOST, &ledger->in);
    const struct plan_pipeline *plan = ledger->pipe->plan;
    if (want_events || ledger->pipe->attends || plan->splits_backward || plan->n_exchanges > 0)
        walk_tasks(ledger, want_events, false);
    else
        walk_tasks(ledger, false, true);
    ledger->memory->host_peak_bytes[ledger->place] = host_peak(ledger);
}

static void resolve_events(struct ledger *ledger, int32_t place)
{
    start_place(ledger, place);
    resolve_tasks(ledger, true);
}

static void copy_peaks(struct memory *memory, int32_t from, int32_t place)
{
    memory->peak_bytes[place] = memory->peak_bytes[from];
    memory->host_peak_bytes[place] = memory->host_peak_bytes[from];
    memcpy(memory->at_peak[place], memory->at_peak[from], sizeof memory->at_peak[place]);
}

/* The peaks alone. */
static void resolve_peaks(struct ledger *ledger, int32_t place)
{
    const struct dag *dag = ledger->dag;
    const struct dag_place *at = &dag->places[place];
    if (at->alike != place) {
        copy_peaks(ledger->memory, at->alike, place);
        return;
    }
    start_place(ledger, place);
    if (copies(dag, place)) {
        resolve_tasks(ledger, false);
    } else if (place > 0 && same_stage(at, at - 1)) {
        copy_peaks(ledger->memory, place - 1, place);
    } else {
        walk_steps(ledger, at->stage);
    }
}

static struct ledger open_ledger(const struct plan *plan, const struct dag *dag, const struct timeline *timeline,
                                 const struct cost_setting *setting, struct memory *memory)
{
    struct ledger ledger = {.plan = plan, .dag = dag, .timeline = timeline, .setting = setting, .memory = memory};
    *memory = (struct memory){.n_places = dag->n_places};
    memory->peak_bytes = check_calloc((size_t)dag->n_places, sizeof *memory->peak_bytes);
    memory->at_peak = check_calloc((size_t)dag->n_places, sizeof *memory->at_peak);
    memory->host_peak_bytes = check_calloc((size_t)dag->n_places, sizeof *memory->host_peak_bytes);
    open_pipes(&ledger);
    return ledger;
}

static void close_ledger(struct ledger *ledger)
{
    struct memory *memory = ledger->memory;
    for (int32_t place = 0; place < memory->n_places; place++)
        if (memory->peak_bytes[place] > memory->peak_bytes[memory->worst_place])
            memory->worst_place = place;
    for (int32_t i = 0; i < ledger->dag->n_pipes; i++)
        for (int pass = 0; pass < N_PASSES; pass++) {
            free(ledger->pipes[i].units[pass]);
            free(ledger->pipes[i].offloaded[pass]);
            free(ledger->pipes[i].exchanged[pass]);
        }
    free(ledger->pipes);
    free(ledger->out.all);
    free(ledger->in.all);
}

void memory_of(const struct plan *plan, const struct dag *dag, const struct timeline *timeline,
               const struct cost_setting *setting, bool want_events, struct memory *memory)
{
    struct ledger ledger = open_ledger(plan, dag, timeline, setting, memory);
    for (int32_t place = 0; place < dag->n_places; place++)
        if (want_events)
            resolve_events(&ledger, place);
        else
            resolve_peaks(&ledger, place);
    close_ledger(&ledger);
}

void memory_above(const struct plan *plan, const struct dag *dag, const struct timeline *timeline,
                  const struct cost_setting *setting, struct memory_limit limit, struct memory *memory)
{
    struct ledger ledger = open_ledger(plan, dag, timeline, setting, memory);
    double host_bytes = 0;
    for (int32_t place = 0; place < dag->n_places; place++) {
        resolve_peaks(&ledger, place);
        host_bytes = fmax(host_bytes, memory->host_peak_bytes[place]);
    }
    for (int32_t place = 0; place < dag->n_places && host_bytes <= limit.host_bytes; place++)
        if (memory->peak_bytes[place] > limit.bytes)
            resolve_events(&ledger, place);
    close_ledger(&ledger);
}

struct memory_host memory_host_of(const struct plan *plan, const struct dag *dag, const struct memory *memory,
                                  int32_t gpus_per_node)
{
    int32_t n_nodes = 1;
    struct memory_host worst = {0};
    for (int32_t i = 0; i < dag->n_places; i++)
        if (dag->places[i].rank / gpus_per_node >= n_nodes)
            n_nodes = dag->places[i].rank / gpus_per_node + 1;
    double *bytes = check_calloc((size_t)plan->n_phases * (size_t)n_nodes, sizeof *bytes);
    for (int32_t i = 0; i < dag->n_places; i++) {
        const struct dag_place *place = &dag->places[i];
        int32_t node = place->rank / gpus_per_node, at = place->phase * n_nodes + node;
        bytes[at] += memory->host_peak_bytes[i] * place->n_gpus;
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
