/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "system/adapt.h"

#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "dag/relations.h"

/* One pipeline of the plan as the rounds see it. */
struct pipe {
    struct plan_pipeline *plan;
    struct relations relations;
    int32_t *consumer; /* of each forward unit: the first backward unit that consumes tokens of it */
};

struct adapting {
    const struct system_request *request;
    struct adapt_rule rule;
    struct plan_phase *phase;
    struct pipe *pipes;
    const struct dag *dag;
    const struct timeline *timeline;
    int32_t *pass_first, *pass; /* [n_places + 1] into pass: tasks of the passes of each place, ascending */
};

/* A unit that a place holds at its peak. */
struct held {
    int32_t unit, consumer;
    bool ended; /* its forward */
};

/* The units of one place at one moment. */
struct moment {
    struct pipe *pipe;
    struct cost_setting own; /* of the stage */
    double excess_bytes;
    int32_t n;
    struct held *held;
};

static void open_pipes(struct adapting *adapting)
{
    int32_t n = adapting->phase->n_pipelines;
    adapting->pipes = check_calloc((size_t)n, sizeof *adapting->pipes);
    for (int32_t i = 0; i < n; i++) {
        struct pipe *pipe = &adapting->pipes[i];
        pipe->plan = &adapting->phase->pipelines[i];
        relations_of(pipe->plan, &pipe->relations);
        int32_t n_forward = pipe->plan->cut[PASS_FORWARD].n_units, n_backward = pipe->plan->cut[PASS_BACKWARD].n_units;
        pipe->consumer = check_calloc((size_t)n_forward, sizeof *pipe->consumer);
        for (int32_t unit = n_backward - 1; unit >= 0; unit--)
            for (int32_t k = pipe->relations.share_first[unit]; k < pipe->relations.share_first[unit + 1]; k++)
                pipe->consumer[pipe->relations.shares[k].forward] = unit;
    }
}

static void close_pipes(struct adapting *adapting)
{
    for (int32_t i = 0; i < adapting->phase->n_pipelines; i++) {
        relations_free(&adapting->pipes[i].relations);
        free(adapting->pipes[i].consumer);
    }
    free(adapting->pipes);
}

static struct plan_unit *forward_unit(const struct pipe *pipe, int32_t unit)
{
    return &pipe->plan->cut[PASS_FORWARD].units[unit];
}

static int64_t tokens_of(const struct pipe *pipe, int32_t unit)
{
    return plan_unit_tokens(&pipe->plan->cut[PASS_FORWARD], unit) + forward_unit(pipe, unit)->padding_tokens;
}

/* The first moment of each place's peak. Caller frees. */
static double *peak_times(const struct memory *memory)
{
    double *time_s = check_calloc((size_t)memory->n_places, sizeof *time_s);
    double *most = check_calloc((size_t)memory->n_places, sizeof *most);
    for (int64_t i = 0; i < memory->n_events; i++) {
        const struct memory_event *event = &memory->events[i];
        double sum = 0;
        for (int k = 0; k < MEMORY_N_CLASSES; k++)
            sum += event->bytes[k];
        if (sum > most[event->place]) {
            most[event->place] = sum;
            time_s[event->place] = event->time_s;
        }
    }
    free(most);
    return time_s;
}

/* Tasks of the passes, by place. */
static void list_passes(struct adapting *adapting)
{
    const struct dag *dag = adapting->dag;
    int32_t n = 0;
    adapting->pass_first = check_calloc((size_t)dag->n_places + 2, sizeof *adapting->pass_first);
    for (int32_t i = 0; i < dag->n_tasks; i++)
        if (dag->tasks[i].kind == DAG_COMPUTE) {
            adapting->pass_first[dag->tasks[i].place + 2]++;
            n++;
        }
    for (int32_t i = 2; i <= dag->n_places + 1; i++)
        adapting->pass_first[i] += adapting->pass_first[i - 1];
    adapting->pass = check_malloc((size_t)n * sizeof *adapting->pass);
    for (int32_t i = 0; i < dag->n_tasks; i++)
        if (dag->tasks[i].kind == DAG_COMPUTE)
            adapting->pass[adapting->pass_first[dag->tasks[i].place + 1]++] = i;
}

static void free_passes(struct adapting *adapting)
{
    free(adapting->pass_first);
    free(adapting->pass);
}

/* Forward units that have begun on a place, and whose first consumer has not. */
static void find_held(const struct adapting *adapting, int32_t place, double time_s, struct moment *moment)
{
    const struct dag *dag = adapting->dag;
    const struct timeline *timeline = adapting->timeline;
    struct pipe *pipe = &adapting->pipes[dag->places[place].pipeline];
    int32_t n_units[] = {pipe->plan->cut[PASS_FORWARD].n_units, pipe->plan->cut[PASS_BACKWARD].n_units};
    bool *consumed = check_calloc((size_t)n_units[PASS_BACKWARD], sizeof *consumed);
    moment->pipe = pipe;
    moment->own = dag_setting(adapting->request->setting, &pipe->plan->layout, dag->places[place].stage);
    moment->held = check_malloc((size_t)n_units[PASS_FORWARD] * sizeof *moment->held);
    int32_t begin = adapting->pass_first[place], end = adapting->pass_first[place + 1];
    for (int32_t k = begin; k < end; k++) {
        const struct dag_task *task = &dag->tasks[adapting->pass[k]];
        if (task->pass == PASS_BACKWARD && timeline->start_s[adapting->pass[k]] < time_s)
            consumed[task->unit] = true;
    }
    for (int32_t k = begin; k < end; k++) {
        int32_t i = adapting->pass[k];
        const struct dag_task *task = &dag->tasks[i];
        if (task->pass != PASS_FORWARD || timeline->start_s[i] > time_s || consumed[pipe->consumer[task->unit]])
            continue;
        moment->held[moment->n++] =
            (struct held){task->unit, pipe->consumer[task->unit], timeline->finish_s[i] < time_s};
    }
    free(consumed);
}

/* What more offload of a unit can free on a place [bytes]. */
static double offload_left_bytes(const struct pipe *pipe, const struct cost_setting *own, int32_t unit)
{
    struct plan_unit *part = forward_unit(pipe, unit);
    double share = part->offload;
    part->offload = 1;
    double bytes = dag_offload_bytes(pipe->plan, own, unit, tokens_of(pipe, unit), pipe->relations.sliced_tokens[unit]);
    part->offload = share;
    return bytes * (1 - share);
}

static int last_consumed_first(const void *a, const void *b)
{
    const struct held *x = a, *y = b;
    if (x->consumer != y->consumer)
        return x->consumer > y->consumer ? -1 : 1;
    return x->unit < y->unit ? -1 : 1;
}

/* @return whether something changed */
static bool offload_more(struct moment *moment)
{
    bool changed = false;
    qsort(moment->held, (size_t)moment->n, sizeof *moment->held, last_consumed_first);
    for (int32_t i = 0; i < moment->n && moment->excess_bytes > 0; i++) {
        struct plan_unit *part = forward_unit(moment->pipe, moment->held[i].unit);
        double left = offload_left_bytes(moment->pipe, &moment->own, moment->held[i].unit);
        if (!moment->held[i].ended || left <= 0)
            continue;
        double share = moment->excess_bytes < left ? moment->excess_bytes / left : 1;
        /* In steps of a percent, upwards: a share that closes in on its goal would take rounds without end. */
        part->offload = fmin(1, ceil(100 * (part->offload + (1 - part->offload) * share)) / 100);
        moment->excess_bytes -= left * share;
        changed = true;
    }
    return changed;
}

/* The next step: norms and activation beside what the list has, then all. */
static enum recompute stronger(enum recompute recompute)
{
    bool selective = (recompute & RECOMPUTE_SELECTIVE) == RECOMPUTE_SELECTIVE;
    return selective ? RECOMPUTE_FULL : (enum recompute)(recompute | RECOMPUTE_SELECTIVE);
}

/* What one more step of recomputation of a unit frees on a place, and the seconds it adds for each byte. */
struct step {
    double bytes, s_per_byte;
};

static struct step next_step(const struct pipe *pipe, const struct cost_setting *own, int32_t unit)
{
    const struct plan_cut *cut = &pipe->plan->cut[PASS_FORWARD];
    const struct plan_unit *part = &cut->units[unit];
    if (part->recompute == RECOMPUTE_FULL)
        return (struct step){0, INFINITY};
    enum recompute more = stronger(part->recompute);
    struct cost_unit work = dag_unit(pipe->plan, PASS_FORWARD, unit);
    struct cost_pass before = cost_of_pass(own, PASS_BACKWARD, &work);
    work.recompute = more;
    struct cost_pass after = cost_of_pass(own, PASS_BACKWARD, &work);
    double token =
        cost_layers_activation_bytes(own, part->recompute, true) - cost_layers_activation_bytes(own, more, true);
    double added_s = cost_pass_s(&after) - cost_pass_s(&before);
    double bytes = token * (double)tokens_of(pipe, unit) / part->context * (1 - part->offload);
    return (struct step){bytes, bytes > 0 ? added_s / bytes : INFINITY};
}

static bool recompute_more(struct moment *moment)
{
    bool changed = false;
    while (moment->excess_bytes > 0) {
        struct step best = {0, INFINITY};
        int32_t unit = -1;
        for (int32_t i = 0; i < moment->n; i++) {
            struct step step = next_step(moment->pipe, &moment->own, moment->held[i].unit);
            if (step.s_per_byte < best.s_per_byte ||
                (unit >= 0 && step.s_per_byte == best.s_per_byte && moment->held[i].unit < unit)) {
                best = step;
                unit = moment->held[i].unit;
            }
        }
        if (unit < 0)
            break;
        struct plan_unit *part = forward_unit(moment->pipe, unit);
        part->recompute = stronger(part->recompute);
        moment->excess_bytes -= best.bytes;
        changed = true;
    }
    return changed;
}

/* The strongest setting of a forward unit of a group, in all its pipelines. */
static void share_group(struct adapting *adapting, int32_t group)
{
    const struct plan_group *members = &adapting->phase->groups[group];
    int32_t n_units = adapting->phase->pipelines[members->pipelines[0]].cut[PASS_FORWARD].n_units, *at, n = 0;
    at = check_calloc((size_t)members->n_pipelines, sizeof *at);
    for (bool more = n_units > 0; more; n++) {
        double offload = 0;
        enum recompute recompute = RECOMPUTE_NONE;
        for (int pass = 0; pass < 2 && more; pass++) /* find the strongest, then set it */
            for (int32_t i = 0; i < members->n_pipelines; i++) {
                struct plan_cut *cut = &adapting->phase->pipelines[members->pipelines[i]].cut[PASS_FORWARD];
                while (at[i] < cut->n_units && cut->units[at[i]].group != group)
                    at[i]++;
                more = at[i] < cut->n_units;
                if (!more)
                    break;
                struct plan_unit *unit = &cut->units[at[i]];
                offload = fmax(offload, unit->offload);
                recompute = unit->recompute > recompute ? unit->recompute : recompute;
                if (pass == 0)
                    continue;
                unit->offload = offload;
                unit->recompute = recompute;
                at[i]++;
            }
    }
    free(at);
}

static void pass_on_recompute(struct adapting *adapting)
{
    for (int32_t i = 0; i < adapting->phase->n_groups; i++)
        share_group(adapting, i);
    for (int32_t i = 0; i < adapting->phase->n_pipelines; i++) {
        const struct pipe *pipe = &adapting->pipes[i];
        struct plan_cut *cut = &pipe->plan->cut[PASS_BACKWARD];
        for (int32_t unit = 0; unit < cut->n_units; unit++)
            for (int32_t k = pipe->relations.share_first[unit]; k < pipe->relations.share_first[unit + 1]; k++) {
                const struct plan_unit *part = forward_unit(pipe, pipe->relations.shares[k].forward);
                if (part->recompute > cut->units[unit].recompute)
                    cut->units[unit].recompute = part->recompute;
            }
    }
}

/* Change what the places above the limit ask for. @return whether something changed */
static bool change(struct adapting *adapting, const struct memory *memory)
{
    double *time_s = peak_times(memory);
    bool changed = false;
    list_passes(adapting);
    for (int32_t place = 0; place < memory->n_places; place++) {
        struct moment moment = {.excess_bytes = memory->peak_bytes[place] - adapting->request->memory_bytes};
        if (moment.excess_bytes <= 0)
            continue;
        find_held(adapting, place, time_s[place], &moment);
        bool offloaded = adapting->rule.offload && offload_more(&moment);
        bool recomputed = adapting->rule.recompute && moment.excess_bytes > 0 && recompute_more(&moment);
        changed = changed || offloaded || recomputed;
        free(moment.held);
    }
    if (changed)
        pass_on_recompute(adapting);
    free_passes(adapting);
    free(time_s);
    return changed;
}

/* What the place that offloads most has on the host, over a GPU's even share of it. */
static double host_share(const struct system_request *request, const struct memory *memory)
{
    const struct platform *platform = request->setting->platform;
    double most = 0;
    for (int32_t i = 0; i < memory->n_places; i++)
        most = fmax(most, memory->host_peak_bytes[i]);
    return most > 0 ? most * platform->gpus_per_node / platform->host_memory_bytes : 0;
}

bool adapt_plan(const struct system_request *request, struct adapt_rule rule, struct plan *plan,
                struct timeline *timeline, struct adapt_outcome *outcome, struct error *err)
{
    struct adapting adapting = {.request = request, .rule = rule, .phase = plan->phases, .timeline = timeline};
    bool adapts = rule.offload || rule.recompute, again = true, ok = true;
    CHECK(plan->n_phases == 1);
    if (adapts)
        open_pipes(&adapting);
    for (int32_t round = 0; ok && again; round++) {
        struct dag dag = {0};
        struct memory memory = {0};
        ok = dag_build(plan, request->setting, (struct dag_options){.gradient_sync = false}, &dag, err);
        if (!ok)
            break;
        critical_path(&dag, timeline);
        memory_of(plan, &dag, timeline, request->setting, adapts, &memory);
        double peak_bytes = memory.peak_bytes[memory.worst_place], host = host_share(request, &memory);
        *outcome = (struct adapt_outcome){timeline->makespan_s, peak_bytes};
        if (rule.offload && host > 1) /* no more goes out */
            *outcome = (struct adapt_outcome){timeline->makespan_s, fmax(peak_bytes, host * request->memory_bytes)};
        adapting.dag = &dag;
        bool late = !rule.recompute && rule.limit_s > 0 && timeline->makespan_s > rule.limit_s;
        again = adapts && !late && !(rule.offload && host > 1) && peak_bytes > request->memory_bytes &&
                round < ADAPT_MAX_ROUNDS && change(&adapting, &memory);
        memory_free(&memory);
        dag_free(&dag);
    }
    if (adapts)
        close_pipes(&adapting);
    return ok;
}
