/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "bounds/bubble.h"

#include <float.h>
#include <stdlib.h>

#include "base/check.h"

/* Marks of a rank in time. */
struct marks {
    double first_pass_s;     /* end of the phase's re-sharding, which the time before counts to */
    double first_backward_s; /* start */
    double last_forward_s;   /* end */
    /* end of its pipeline's last pass; while marks are set, only of the pipeline's first rank */
    double pipeline_s;
    double slowest_s; /* end of the last pass of the phase */
    double end_s;     /* of the phase */
    double now_s;     /* the time up to here is accounted for */
    double n_gpus;    /* GPUs of the rank and of ranks that it represents */
};

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

/* Add the overlap of [from, to) and [begin, end), on each of n GPUs. */
static void add_overlap(double *sum, double n, double from, double to, double begin, double end)
{
    double length = smaller(to, end) - larger(from, begin);
    if (length > 0)
        *sum += n * length;
}

/* Account for an idle compute stream from marks->now_s to `until`. */
static void idle(struct bubble *bubble, struct marks *marks, double until)
{
    double from = marks->now_s, n = marks->n_gpus;
    if (until <= from)
        return;
    double warm = smaller(marks->first_backward_s, marks->pipeline_s);
    double steady = smaller(larger(warm, marks->last_forward_s), marks->pipeline_s);
    add_overlap(&bubble->reshard_s, n, from, until, 0, marks->first_pass_s);
    add_overlap(&bubble->warm_up_s, n, from, until, marks->first_pass_s, warm);
    add_overlap(&bubble->imbalance_s, n, from, until, warm, steady);
    add_overlap(&bubble->cool_down_s, n, from, until, steady, marks->pipeline_s);
    add_overlap(&bubble->dp_wait_s, n, from, until, marks->pipeline_s, marks->slowest_s);
    add_overlap(&bubble->sync_s, n, from, until, marks->slowest_s, DBL_MAX);
    marks->now_s = until;
}

static void work(double *sum, struct marks *marks, double start_s, double finish_s)
{
    add_overlap(sum, marks->n_gpus, start_s, finish_s, marks->now_s, DBL_MAX);
    marks->now_s = larger(marks->now_s, finish_s);
}

/* Times of a phase. */
struct window {
    double begin_s, reshard_end_s, slowest_s, end_s;
};

struct bubble_walk {
    const struct dag *dag;
    const struct timeline *timeline;
    struct marks *marks;    /* [ranks] */
    struct window *windows; /* [phases] */
    int32_t *first_of_rank; /* of each rank: the first rank of its pipeline */
    int32_t n_phases;
    struct bubble bubble; /* sums so far */
    int32_t sync_before;  /* last SYNC before the current task, -1: none */
    int32_t join;         /* SYNC of zero2 or zero3 that passes_end_s belongs to, -1: none */
    double *waits_s;      /* the sum that waits for them belong to */
    double passes_end_s;  /* end of the last pass before it; its collectives may end later */
};

/*
 * Return whether `task` is a SEND of the ring that the SYNC closes. It must come after the SYNC that opened the ring.
 * The opening SYNC may follow a SEND of an earlier ring on its stream. The ring counts as work of the ranks that sent
 * in it.
 */
static bool is_ring_send(const struct bubble_walk *walk, int32_t sync, int32_t task)
{
    const struct dag_task *close = &walk->dag->tasks[sync], *send = &walk->dag->tasks[task];
    return close->kind == DAG_SYNC && task > walk->sync_before &&
           (close->purpose == DAG_RING || close->purpose == DAG_TENSOR || close->purpose == DAG_EXCHANGE) &&
           send->kind == DAG_SEND && send->purpose == close->purpose;
}

static void mark_end(struct bubble_walk *walk, int32_t dag_rank, enum pass pass, double finish_s)
{
    struct marks *marks = &walk->marks[dag_rank];
    struct marks *pipeline = &walk->marks[walk->first_of_rank[dag_rank]];
    struct window *window = &walk->windows[walk->dag->ranks[dag_rank].phase];
    if (pass == PASS_FORWARD)
        marks->last_forward_s = larger(marks->last_forward_s, finish_s);
    pipeline->pipeline_s = larger(pipeline->pipeline_s, finish_s);
    window->slowest_s = larger(window->slowest_s, finish_s);
}

static void mark_task(struct bubble_walk *walk, int32_t number)
{
    const struct dag *dag = walk->dag;
    const struct dag_task *task = &dag->tasks[number];
    double start_s = walk->timeline->start_s[number], finish_s = walk->timeline->finish_s[number];
    struct window *window = &walk->windows[task->phase];
    struct marks *marks = &walk->marks[task->dag_rank];
    window->end_s = larger(window->end_s, finish_s);
    if (task->purpose == DAG_RESHARD)
        window->reshard_end_s = larger(window->reshard_end_s, finish_s);
    if (task->kind == DAG_COMPUTE && task->pass == PASS_BACKWARD)
        marks->first_backward_s = smaller(marks->first_backward_s, start_s);
    if (task->kind == DAG_COMPUTE || task->kind == DAG_ATTENTION)
        mark_end(walk, task->dag_rank, (enum pass)task->pass, finish_s);
    for (int32_t i = dag->in_first[number]; task->kind == DAG_SYNC && i < dag->in_first[number + 1]; i++)
        if (is_ring_send(walk, number, dag->in_task[i]))
            mark_end(walk, dag->tasks[dag->in_task[i]].dag_rank, (enum pass)task->pass, finish_s);
}

static void walk_tasks(struct bubble_walk *walk, void (*visit)(struct bubble_walk *walk, int32_t number))
{
    walk->sync_before = walk->join = -1;
    for (int32_t task = 0; task < walk->dag->n_tasks; task++) {
        visit(walk, task);
        if (walk->dag->tasks[task].kind == DAG_SYNC)
            walk->sync_before = task;
    }
}

static void open_walk(struct bubble_walk *walk)
{
    const struct dag *dag = walk->dag;
    walk->n_phases = dag->ranks[dag->n_ranks - 1].phase + 1;
    walk->marks = check_calloc((size_t)dag->n_ranks, sizeof *walk->marks);
    walk->windows = check_calloc((size_t)walk->n_phases, sizeof *walk->windows);
    walk->first_of_rank = check_calloc((size_t)dag->n_ranks, sizeof *walk->first_of_rank);
    for (int32_t i = 0; i < dag->n_ranks; i++) {
        const struct dag_rank *dag_rank = &dag->ranks[i], *before = i > 0 ? dag_rank - 1 : NULL;
        bool same = before != NULL && before->phase == dag_rank->phase && before->pipeline == dag_rank->pipeline;
        walk->first_of_rank[i] = same ? walk->first_of_rank[i - 1] : i;
        walk->marks[i].first_backward_s = DBL_MAX;
    }
    walk_tasks(walk, mark_task);
    for (int32_t phase = 1; phase < walk->n_phases; phase++)
        walk->windows[phase].begin_s = walk->windows[phase - 1].end_s;
    for (int32_t i = 0; i < dag->n_ranks; i++) {
        const struct window *window = &walk->windows[dag->ranks[i].phase];
        struct marks *marks = &walk->marks[i];
        marks->first_pass_s = larger(window->begin_s, window->reshard_end_s);
        marks->pipeline_s = larger(marks->first_pass_s, walk->marks[walk->first_of_rank[i]].pipeline_s);
        marks->slowest_s = larger(marks->first_pass_s, window->slowest_s);
        marks->end_s = window->end_s;
        marks->now_s = window->begin_s;
        marks->n_gpus = dag->ranks[i].n_gpus * dag->ranks[i].n_represented;
    }
}

static void add_ring(struct bubble_walk *walk, int32_t sync, int32_t send)
{
    struct bubble *bubble = &walk->bubble;
    struct marks *marks = &walk->marks[walk->dag->tasks[send].dag_rank];
    double *sum = walk->dag->tasks[sync].purpose == DAG_TENSOR ? &bubble->busy_s : &bubble->ring_s;
    idle(bubble, marks, walk->timeline->start_s[send]);
    work(sum, marks, walk->timeline->start_s[send], walk->timeline->finish_s[sync]);
}

static void look_at_join(struct bubble_walk *walk, int32_t sync)
{
    const struct dag *dag = walk->dag;
    if (walk->join == sync)
        return;
    walk->join = sync;
    walk->passes_end_s = 0;
    walk->waits_s = &walk->bubble.sync_s;
    for (int32_t i = dag->in_first[sync]; i < dag->in_first[sync + 1]; i++)
        if (dag->tasks[dag->in_task[i]].purpose == DAG_EXPERTS)
            walk->waits_s = &walk->bubble.expert_wait_s;
        else if (dag->tasks[dag->in_task[i]].purpose != DAG_SHARDS)
            walk->passes_end_s = larger(walk->passes_end_s, walk->timeline->finish_s[dag->in_task[i]]);
}

/*
 * Account for an idle compute stream until the SYNC behind passes of zero2 or zero3 that a task waits for: until the
 * slowest pass has ended, and then until their collectives have.
 */
static void wait_for_join(struct bubble_walk *walk, int32_t number)
{
    const struct dag *dag = walk->dag;
    struct marks *marks = &walk->marks[dag->tasks[number].dag_rank];
    for (int32_t i = dag->in_first[number]; i < dag->in_first[number + 1]; i++) {
        int32_t before = dag->in_task[i];
        if (dag->tasks[before].kind != DAG_SYNC || dag->tasks[before].purpose != DAG_SHARDS)
            continue;
        double joined_s = walk->timeline->finish_s[before];
        look_at_join(walk, before);
        add_overlap(&walk->bubble.dp_wait_s, marks->n_gpus, marks->now_s, joined_s, 0, walk->passes_end_s);
        add_overlap(walk->waits_s, marks->n_gpus, marks->now_s, joined_s, walk->passes_end_s, DBL_MAX);
        marks->now_s = larger(marks->now_s, joined_s);
    }
}

static void add_task(struct bubble_walk *walk, int32_t number)
{
    const struct dag *dag = walk->dag;
    struct bubble *bubble = &walk->bubble;
    const struct dag_task *task = &dag->tasks[number];
    double start_s = walk->timeline->start_s[number], finish_s = walk->timeline->finish_s[number];
    if (task->kind == DAG_COMPUTE || task->kind == DAG_ATTENTION || task->kind == DAG_OPTIMIZER) {
        wait_for_join(walk, number);
        idle(bubble, &walk->marks[task->dag_rank], start_s);
        work(&bubble->busy_s, &walk->marks[task->dag_rank], start_s, finish_s);
    }
    for (int32_t i = dag->in_first[number]; task->kind == DAG_SYNC && i < dag->in_first[number + 1]; i++)
        if (is_ring_send(walk, number, dag->in_task[i]))
            add_ring(walk, number, dag->in_task[i]);
}

struct bubble bubble_of(const struct dag *dag, const struct timeline *timeline)
{
    struct bubble_walk walk = {.dag = dag, .timeline = timeline};
    open_walk(&walk);
    walk_tasks(&walk, add_task);
    for (int32_t i = 0; i < dag->n_ranks; i++) {
        idle(&walk.bubble, &walk.marks[i], walk.marks[i].end_s);
        walk.bubble.total_s += walk.marks[i].n_gpus * (walk.marks[i].end_s - walk.windows[dag->ranks[i].phase].begin_s);
    }
    free(walk.marks);
    free(walk.windows);
    free(walk.first_of_rank);
    return walk.bubble;
}

double bubble_fraction(const struct bubble *bubble)
{
    double idle_s = bubble->warm_up_s + bubble->imbalance_s + bubble->cool_down_s + bubble->dp_wait_s;
    return bubble->total_s > 0 ? idle_s / bubble->total_s : 0.0;
}
