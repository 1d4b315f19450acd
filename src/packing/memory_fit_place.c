/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "packing/memory_fit_place.h"

#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/compare.h"
#include "cost/activation.h"
#include "cost/cache.h"

/* A forward micro-batch on a rank, as a candidate for the host. */
struct stay {
    int32_t consumer;
    double *share;          /* share of it that goes */
    double begun_s, gone_s; /* start of its forward; time from which its bytes are free if it goes */
    double out_s, back_s;   /* end of its copy if all of it goes; time until which its bytes are free */
    double all_bytes;       /* bytes of it that can go */
    double freed_bytes;     /* bytes that go in this round, in addition to those before */
};

/* Forward micro-batches of one rank at one moment. */
struct held {
    int32_t n, *micro_batch;
};

static int64_t tokens_of(const struct memory_fit_pipe *pipe, int32_t micro_batch)
{
    return plan_micro_batch_tokens(&pipe->plan->partition[PASS_FORWARD], micro_batch) +
           memory_fit_forward_micro_batch(pipe, micro_batch)->padding_tokens;
}

/* Return this task of a rank's compute stream, or the first one after it that begins a pass; -1: none. */
static int32_t pass_from(const struct dag *dag, int32_t task)
{
    while (task >= 0 && dag->tasks[task].kind != DAG_COMPUTE)
        task = dag->stream_next[task];
    return task;
}

static int32_t first_pass(const struct dag *dag, int32_t dag_rank)
{
    return pass_from(dag, dag->stream_first[dag_rank * DAG_N_STREAMS + DAG_STREAM_COMPUTE]);
}

static int32_t next_pass(const struct dag *dag, int32_t task)
{
    return pass_from(dag, dag->stream_next[task]);
}

/*
 * Compute until when what a rank's backward micro-batches have on the host frees memory: until their pass has ended,
 * since buffers that stay have their inputs, or until the next pass starts if they stream. The times ascend. The caller
 * frees the result.
 */
static double *returns_of(const struct memory_fit_round *fitting, const struct memory_fit_excess *excess)
{
    const struct dag *dag = fitting->dag;
    const struct plan_pipeline *plan = excess->pipe->plan;
    bool streams = memory_fit_forward_micro_batch(excess->pipe, 0)->streams;
    double *back_s = check_calloc((size_t)plan->partition[PASS_BACKWARD].n_micro_batches, sizeof *back_s);
    for (int32_t pass = first_pass(dag, excess->dag_rank), next; pass >= 0; pass = next) {
        next = next_pass(dag, pass);
        if (dag->tasks[pass].pass != PASS_BACKWARD)
            continue;
        double next_s = next < 0 ? INFINITY : fitting->timeline->start_s[next];
        back_s[dag->tasks[pass].micro_batch] = streams ? next_s : fitting->timeline->finish_s[pass];
    }
    return back_s;
}

/* Copies to the host that the next pass waits for, and those after them: numbers of micro-batches, -1: none. */
struct leaving {
    int32_t due, out;
    bool forward; /* the pass before is a forward one */
};

/* Take the copies that are over when a pass begins. plan_waits_for_copies says which. */
static void free_copied(struct leaving *leaving, enum pass pass, double start_s, struct stay *stays)
{
    if (plan_waits_for_copies(pass, leaving->forward)) {
        if (leaving->due >= 0)
            stays[leaving->due].gone_s = start_s;
        leaving->due = leaving->out;
        leaving->out = -1;
    }
    leaving->forward = pass == PASS_FORWARD;
}

/* Return the bytes of each micro-batch that can go on a stage. Stages with the same layers share them. */
static const double *all_bytes_of(const struct memory_fit_excess *excess)
{
    struct memory_fit_pipe *pipe = excess->pipe;
    int32_t n = pipe->plan->partition[PASS_FORWARD].n_micro_batches;
    if (pipe->all_bytes == NULL)
        pipe->all_bytes = check_malloc((size_t)n * sizeof *pipe->all_bytes);
    bool known = cost_same_layers(&pipe->all_setting, &excess->stage_setting);
    for (int32_t micro_batch = 0; !known && micro_batch < n; micro_batch++)
        pipe->all_bytes[micro_batch] =
            dag_offloadable_bytes(pipe->plan, &excess->stage_setting, micro_batch, tokens_of(pipe, micro_batch),
                                  pipe->relations->sliced_tokens[micro_batch]);
    pipe->all_setting = excess->stage_setting;
    return pipe->all_bytes;
}

/* Return the micro-batches of a rank in the order in which it runs them forward. The caller frees the result. */
static struct stay *stays_of(const struct memory_fit_round *fitting, const struct memory_fit_excess *excess)
{
    const struct memory_fit_pipe *pipe = excess->pipe;
    const double *all_bytes = all_bytes_of(excess);
    int32_t n = pipe->plan->partition[PASS_FORWARD].n_micro_batches;
    struct stay *stays = check_calloc((size_t)n, sizeof *stays), *stay = stays;
    double *back_s = returns_of(fitting, excess);
    const struct dag *dag = fitting->dag;
    struct leaving leaving = {-1, -1, false};
    for (int32_t pass = first_pass(dag, excess->dag_rank); pass >= 0; pass = next_pass(dag, pass)) {
        const struct dag_task *task = &dag->tasks[pass];
        double start_s = fitting->timeline->start_s[pass], finish_s = fitting->timeline->finish_s[pass];
        free_copied(&leaving, task->pass, start_s, stays);
        if (task->pass != PASS_FORWARD)
            continue;
        bool streams = memory_fit_forward_micro_batch(pipe, task->micro_batch)->streams;
        leaving.out = streams ? -1 : (int32_t)(stay - stays);
        *stay = (struct stay){.all_bytes = all_bytes[task->micro_batch]};
        stay->consumer = streams ? pipe->last[task->micro_batch] : pipe->consumer[task->micro_batch];
        stay->share = &pipe->plan->offload[excess->stage * n + task->micro_batch];
        stay->begun_s = start_s;
        stay->gone_s = streams ? finish_s : INFINITY;
        stay->out_s = finish_s + cost_of_transfer(&excess->stage_setting, COST_PCIE, stay->all_bytes, 1).duration_s;
        stay->back_s = back_s[stay->consumer];
        stay++;
    }
    free(back_s);
    return stays;
}

/* The micro-batches of a rank while its memory is walked in time. */
struct window {
    int32_t n, n_ended; /* number of micro-batches; number of the first micro-batches that may be gone */
    struct stay *stays;
    int32_t *by_return;  /* [n] micro-batches in the order of their consumers, in which they come back */
    int32_t n_back;      /* number of these that are back */
    int32_t *open;       /* [2 n] micro-batches of which more can go, in the order of their consumers, ties backwards */
    int32_t first, end;  /* range of these in use; micro-batches before it are back */
    bool streams;        /* micro-batches can go from the start of their forward on */
    double most;         /* largest share of a micro-batch that can go */
    double freed_bytes;  /* bytes freed by micro-batches that are away */
    double grown_bytes;  /* by which the buffers have grown in this round */
    double buffer_bytes; /* of each of the two buffers for copies back: the largest that goes; 0: they stream */
};

static void open_window(struct window *window, const struct memory_fit_round *fitting,
                        const struct memory_fit_excess *excess)
{
    const struct plan_partition *partition = excess->pipe->plan->partition;
    if (!fitting->rule.offload)
        return;
    window->n = partition[PASS_FORWARD].n_micro_batches;
    window->streams = request_streams(fitting->request);
    window->most = request_offload_share(fitting->request, 1);
    window->stays = stays_of(fitting, excess);
    window->by_return = check_malloc((size_t)window->n * sizeof *window->by_return);
    window->open = check_malloc(2 * (size_t)window->n * sizeof *window->open);
    window->first = window->end = window->n;
    int32_t *next = check_calloc((size_t)partition[PASS_BACKWARD].n_micro_batches + 1, sizeof *next);
    for (int32_t i = 0; i < window->n; i++)
        next[window->stays[i].consumer + 1]++;
    for (int32_t i = 0; i < partition[PASS_BACKWARD].n_micro_batches; i++)
        next[i + 1] += next[i];
    for (int32_t i = 0; i < window->n; i++)
        window->by_return[next[window->stays[i].consumer]++] = i;
    for (int32_t i = 0; !window->streams && i < window->n; i++)
        window->buffer_bytes = fmax(window->buffer_bytes, *window->stays[i].share * window->stays[i].all_bytes);
    for (int32_t i = 1; i < window->n; i++)
        CHECK(window->stays[window->by_return[i - 1]].back_s <= window->stays[window->by_return[i]].back_s);
    free(next);
}

static void close_window(struct window *window)
{
    free(window->stays);
    free(window->by_return);
    free(window->open);
}

/* Add a micro-batch that may be gone or, if it streams, whose forward has begun. More of it can go until it comes back.
 * The micro-batches of a sample are consumed from its end on, so each may be first in the list. */
static void open_stay(struct window *window, int32_t number)
{
    const struct stay *stays = window->stays, *stay = &stays[number];
    if (stay->all_bytes <= 0 || *stay->share >= window->most)
        return;
    if (window->first < window->end && stays[window->open[window->first]].consumer >= stay->consumer) {
        window->open[--window->first] = number;
        return;
    }
    int32_t at = window->end++;
    for (; at > window->first && stays[window->open[at - 1]].consumer >= stay->consumer; at--)
        window->open[at] = window->open[at - 1];
    window->open[at] = number;
}

static void move_window(struct window *window, double time_s)
{
    const struct stay *stays = window->stays;
    int32_t begin = window->n_back;
    while (window->n_back < window->n && stays[window->by_return[window->n_back]].back_s <= time_s)
        window->n_back++;
    if (window->n_back > begin + 1) /* sum up the bytes of several micro-batches in one order */
        qsort(window->by_return + begin, (size_t)(window->n_back - begin), sizeof *window->by_return, compare_int32s);
    for (int32_t i = begin; i < window->n_back; i++)
        window->freed_bytes -= stays[window->by_return[i]].freed_bytes;
    while (window->n_ended < window->n && stays[window->n_ended].gone_s <= time_s)
        open_stay(window, window->n_ended++);
    while (window->first < window->end && stays[window->open[window->first]].back_s <= time_s)
        window->first++;
}

/* Return whether more of any micro-batch can go. If no micro-batch is open, the micro-batch whose forward runs counts,
 * if it streams. */
static bool has_open(struct window *window, double time_s)
{
    if (window->first == window->end && window->streams && window->n_ended < window->n &&
        window->stays[window->n_ended].begun_s <= time_s)
        open_stay(window, window->n_ended++);
    return window->first < window->end;
}

/*
 * Send this many more bytes of a micro-batch, or all that can go.
 *
 * @return bytes freed
 */
static double send(struct stay *stay, double bytes, double most)
{
    double before = *stay->share;
    /* The share grows in steps of a percent, rounded up. A share that approaches its goal would otherwise take
     * rounds without end. */
    double share = ceil(100 * (before + bytes / stay->all_bytes)) / 100;
    *stay->share =
        fmin(most, share > before ? share : before + 0.01); /* a step that rounds to nothing still grows the share */
    stay->freed_bytes += (*stay->share - before) * stay->all_bytes;
    return (*stay->share - before) * stay->all_bytes;
}

/*
 * Send more of one micro-batch. A micro-batch whose copy is over by then comes before others. Otherwise it is the one
 * consumed last, which is away longest. At least one micro-batch must be open.
 *
 * @return bytes freed, without what the buffers grow
 */
static double send_one(struct window *window, double bytes, double time_s)
{
    int32_t at = window->end - 1;
    while (at >= window->first && window->stays[window->open[at]].out_s > time_s)
        at--;
    at = at < window->first ? window->end - 1 : at;
    struct stay *stay = &window->stays[window->open[at]];
    enum { BUFFERS = 2 };
    double freed_bytes = send(stay, bytes, window->most), sent_bytes = *stay->share * stay->all_bytes;
    window->freed_bytes += freed_bytes;
    if (!window->streams && sent_bytes > window->buffer_bytes) { /* the buffers stay until the end */
        freed_bytes -= BUFFERS * (sent_bytes - window->buffer_bytes);
        window->grown_bytes += BUFFERS * (sent_bytes - window->buffer_bytes);
        window->buffer_bytes = sent_bytes;
    }
    if (*stay->share < window->most)
        return freed_bytes;
    window->end--;
    for (; at < window->end; at++)
        window->open[at] = window->open[at + 1];
    return freed_bytes;
}

bool memory_fit_relieve(const struct memory_fit_round *fitting, struct memory_fit_excess *excess)
{
    struct window window = {0};
    bool changed = false;
    open_window(&window, fitting, excess);
    excess->bytes = 0;
    const struct memory_sums *sums = &fitting->memory->sums;
    for (int64_t i = sums->first[excess->dag_rank]; i < sums->first[excess->dag_rank + 1]; i++) {
        const struct memory_sum *event = &sums->all[i];
        move_window(&window, event->time_s);
        double above = event->bytes - fitting->request->memory_bytes + window.grown_bytes - window.freed_bytes;
        for (; above > 0 && has_open(&window, event->time_s); changed = true)
            above -= send_one(&window, above, event->time_s);
        if (above > excess->bytes) {
            excess->bytes = above;
            excess->time_s = event->time_s;
        }
    }
    close_window(&window);
    return changed;
}

/* Return the forward micro-batches that have begun on a rank and whose first consumer has not begun. The caller frees
 * the result. */
static struct held held_of(const struct memory_fit_round *fitting, const struct memory_fit_excess *excess)
{
    const struct plan_partition *partition = excess->pipe->plan->partition;
    const double *start_s = fitting->timeline->start_s;
    struct held held = {0, check_malloc((size_t)partition[PASS_FORWARD].n_micro_batches * sizeof *held.micro_batch)};
    bool *consumed = check_calloc((size_t)partition[PASS_BACKWARD].n_micro_batches, sizeof *consumed);
    const struct dag *dag = fitting->dag;
    for (int32_t pass = first_pass(dag, excess->dag_rank); pass >= 0; pass = next_pass(dag, pass)) {
        const struct dag_task *task = &dag->tasks[pass];
        if (task->pass == PASS_BACKWARD && start_s[pass] < excess->time_s)
            consumed[task->micro_batch] = true;
    }
    for (int32_t pass = first_pass(dag, excess->dag_rank); pass >= 0; pass = next_pass(dag, pass)) {
        const struct dag_task *task = &dag->tasks[pass];
        if (task->pass == PASS_FORWARD && start_s[pass] <= excess->time_s &&
            !consumed[excess->pipe->consumer[task->micro_batch]])
            held.micro_batch[held.n++] = task->micro_batch;
    }
    free(consumed);
    return held;
}

/* Return the next step: first norms and activation in addition to the list, then everything. */
static enum recompute stronger(enum recompute recompute)
{
    bool selective = (recompute & RECOMPUTE_SELECTIVE) == RECOMPUTE_SELECTIVE;
    return selective ? RECOMPUTE_FULL : (enum recompute)(recompute | RECOMPUTE_SELECTIVE);
}

/* Bytes that one more step of recomputation of a micro-batch frees on a rank, and the seconds that it adds for each
 * byte. */
struct step {
    double bytes, s_per_byte;
};

/* Return the bytes that a micro-batch holds on a rank until its backward, including scores. Full recomputation keeps
 * keys and values of a sliced sample, and none of others. */
static double held_bytes(const struct memory_fit_excess *excess, int32_t micro_batch, enum recompute recompute)
{
    const struct memory_fit_pipe *pipe = excess->pipe;
    struct cost_micro_batch work = dag_micro_batch(pipe->plan, PASS_FORWARD, micro_batch);
    work.recompute = recompute;
    double sliced = (double)pipe->relations->sliced_tokens[micro_batch],
           whole = (double)tokens_of(pipe, micro_batch) - sliced;
    double copied = cost_copied_kv_bytes(&excess->stage_setting, recompute, work.context);
    return (whole * cost_cached_activation_bytes(&excess->stage_setting, recompute, false) +
            sliced * cost_cached_activation_bytes(&excess->stage_setting, recompute, true) +
            (whole + sliced) * copied) /
               work.context +
           cost_scores_bytes(&excess->stage_setting, &work);
}

static double freed_bytes(const struct memory_fit_excess *excess, int32_t micro_batch, enum recompute from,
                          enum recompute to)
{
    double stays = 1 - plan_offload(excess->pipe->plan, micro_batch, excess->stage);
    return (held_bytes(excess, micro_batch, from) - held_bytes(excess, micro_batch, to)) * stays;
}

static struct step next_step(const struct memory_fit_excess *excess, int32_t micro_batch)
{
    const struct memory_fit_pipe *pipe = excess->pipe;
    const struct plan_micro_batch *forward = memory_fit_forward_micro_batch(pipe, micro_batch);
    if (forward->recompute == RECOMPUTE_FULL)
        return (struct step){0, INFINITY};
    enum recompute more = stronger(forward->recompute);
    struct cost_micro_batch work = dag_micro_batch(pipe->plan, PASS_FORWARD, micro_batch);
    struct cost_pass before[COST_N_COMPONENTS], after[COST_N_COMPONENTS];
    cost_cached(&excess->stage_setting, PASS_BACKWARD, &work, 1U << COST_LAYERS, before);
    work.recompute = more;
    cost_cached(&excess->stage_setting, PASS_BACKWARD, &work, 1U << COST_LAYERS, after);
    double added_s = cost_pass_s(&after[COST_LAYERS]) - cost_pass_s(&before[COST_LAYERS]);
    double bytes = freed_bytes(excess, micro_batch, forward->recompute, more);
    return (struct step){bytes, bytes > 0 ? added_s / bytes : INFINITY};
}

bool memory_fit_recompute(const struct memory_fit_round *fitting, struct memory_fit_excess *excess)
{
    struct held held = held_of(fitting, excess);
    struct step *steps = check_malloc((size_t)held.n * sizeof *steps); /* next step of each held micro-batch */
    bool changed = false;
    for (int32_t i = 0; i < held.n; i++) {
        enum recompute begun = excess->pipe->begun[held.micro_batch[i]];
        enum recompute now = memory_fit_forward_micro_batch(excess->pipe, held.micro_batch[i])->recompute;
        if (now != begun)
            excess->bytes -= freed_bytes(excess, held.micro_batch[i], begun, now);
        changed = changed || now != begun;
        steps[i] = next_step(excess, held.micro_batch[i]);
    }
    while (excess->bytes > 0) {
        int32_t best = -1;
        for (int32_t i = 0; i < held.n; i++)
            if (steps[i].s_per_byte < INFINITY &&
                (best < 0 || steps[i].s_per_byte < steps[best].s_per_byte ||
                 (steps[i].s_per_byte == steps[best].s_per_byte && held.micro_batch[i] < held.micro_batch[best])))
                best = i;
        if (best < 0)
            break;
        struct plan_micro_batch *forward = memory_fit_forward_micro_batch(excess->pipe, held.micro_batch[best]);
        forward->recompute = stronger(forward->recompute);
        cost_clear_layers(&excess->pipe->all_setting); /* fewer bytes of it can go */
        excess->bytes -= steps[best].bytes;
        steps[best] = next_step(excess, held.micro_batch[best]);
        changed = true;
    }
    free(steps);
    free(held.micro_batch);
    return changed;
}
