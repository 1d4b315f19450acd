/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * This file builds the steps of a phase, each as soon as the steps that it needs are built.
 *
 * A cursor (a stage of a pipeline) that cannot go on remembers the one instance it waits for. It is woken when that is
 * built, so each step is looked at a few times at most.
 */
#include <stdlib.h>

#include "base/check.h"
#include "dag/equal_pipelines.h"
#include "dag/joins.h"
#include "dag/meetings.h"
#include "dag/pass.h"

static const struct plan_step *step_of(const struct builder_stage_cursor *cursor)
{
    return &cursor->steps[cursor->next];
}

static int32_t virtual_stage(const struct builder_stage_cursor *cursor)
{
    return step_of(cursor)->chunk * cursor->pipe->stages + cursor->stage;
}

/* Return the instance if it has not been built, otherwise -1. */
static int32_t if_missing(const struct builder_pipe *pipe, enum pass pass, int32_t micro_batch, int32_t stage)
{
    int32_t instance = builder_instance(pipe, pass, micro_batch, stage);
    return builder_end_of(pipe, instance, 0)->last < 0 ? instance : -1;
}

/* Return an instance that the cursor's next step needs and that has not been built, -1: none. */
static int32_t missing(const struct builder_stage_cursor *cursor)
{
    const struct builder_pipe *pipe = cursor->pipe;
    const struct relations *relations = &pipe->relations;
    enum pass pass = step_of(cursor)->pass;
    int32_t micro_batch = step_of(cursor)->micro_batch, stage = virtual_stage(cursor), found = -1;
    if (pass == PASS_WEIGHT)
        return if_missing(pipe, PASS_BACKWARD, micro_batch, stage);
    if (pass == PASS_FORWARD && stage > 0)
        found = if_missing(pipe, pass, micro_batch, stage - 1);
    if (pass == PASS_BACKWARD && stage < pipe->n_virtual - 1)
        found = if_missing(pipe, pass, micro_batch, stage + 1);
    if (pass == PASS_BACKWARD && relations->last_share[micro_batch] >= pipe->done[PASS_FORWARD][stage])
        for (int32_t i = relations->share_first[micro_batch]; found < 0 && i < relations->share_first[micro_batch + 1];
             i++)
            found = if_missing(pipe, PASS_FORWARD, relations->shares[i].forward, stage);
    if (relations->last_after[pass][micro_batch] >= pipe->done[pass][stage])
        for (int32_t i = relations->after_first[pass][micro_batch];
             found < 0 && i < relations->after_first[pass][micro_batch + 1]; i++)
            found = if_missing(pipe, pass, relations->after[pass][i], stage);
    return found;
}

static void enqueue(struct builder *builder, int32_t cursor)
{
    if (builder->cursors[cursor].queued)
        return;
    builder->cursors[cursor].queued = true;
    builder->queue[(builder->queue_first + builder->queue_n++) % builder->n_cursors] = cursor;
}

/* Count a cursor that waits for the others of its join. */
static void count_joined(struct builder *builder, const struct builder_stage_cursor *cursor)
{
    if (cursor->join < 0)
        return;
    struct builder_join *join = &builder->joins[cursor->join];
    if (++join->n_joined < join->n || join->full)
        return;
    join->full = true;
    builder->full[builder->n_full++] = cursor->join;
}

/* Let a cursor wait for the others of its join, if the pass that it has built has their collectives or is its last. */
static void join(struct builder *builder, struct builder_stage_cursor *cursor, enum pass pass, int32_t stage)
{
    bool ended = cursor->join >= 0 && cursor->next == cursor->end;
    if (!ended && !joins_pass(builder, cursor, pass, stage))
        return;
    cursor->joined = true;
    count_joined(builder, cursor);
}

/* Let a joined cursor go on. */
static void leave(struct builder *builder, int32_t number)
{
    struct builder_stage_cursor *cursor = &builder->cursors[number];
    cursor->joined = false;
    builder->joins[cursor->join].n_joined--;
    enqueue(builder, number);
}

/* Return whether a joined cursor has a next pass, with the join's collectives. */
static bool joins_next(const struct builder *builder, const struct builder_stage_cursor *cursor)
{
    return cursor->joined && cursor->next < cursor->end &&
           joins_pass(builder, cursor, step_of(cursor)->pass, virtual_stage(cursor));
}

/*
 * If all cursors of a join are joined, join their passes. With zero3 and experts only the lowest kind of pass goes on,
 * as dag/joins.h says. Cursors that wait for their group do not decide the kind.
 */
static void join_cursors(struct builder *builder, const struct builder_join *join)
{
    enum pass kind = N_STEP_PASSES;
    if (join->n_joined < join->n)
        return;
    if (join->n > 1 || !builder->options.fold_equal)
        joins_sync(builder, join);
    for (int32_t i = join->first; i >= 0; i = builder->cursors[i].next_in_join) {
        const struct builder_stage_cursor *cursor = &builder->cursors[i];
        if (joins_next(builder, cursor) && step_of(cursor)->pass < kind)
            kind = step_of(cursor)->pass;
    }
    for (int32_t i = join->first; i >= 0; i = builder->cursors[i].next_in_join) {
        const struct builder_stage_cursor *cursor = &builder->cursors[i];
        if (cursor->joined && cursor->next < cursor->end &&
            (!joins_next(builder, cursor) || step_of(cursor)->pass == kind ||
             builder->setting->sharding == SCENARIO_ZERO2))
            leave(builder, i);
    }
}

static void join_all(struct builder *builder)
{
    for (int32_t i = 0; i < builder->n_full; i++) {
        builder->joins[builder->full[i]].full = false;
        join_cursors(builder, &builder->joins[builder->full[i]]);
    }
    builder->n_full = 0;
}

/* Move a cursor that has built its next step on, and wake the neighbour that waits for the step. */
static void step_done(struct builder *builder, int32_t number)
{
    struct builder_stage_cursor *cursor = &builder->cursors[number];
    const struct builder_pipe *pipe = cursor->pipe;
    const struct plan_step *step = step_of(cursor);
    int32_t stage = virtual_stage(cursor), next = stage + (step->pass == PASS_FORWARD ? 1 : -1);
    cursor->next++;
    join(builder, cursor, step->pass, stage);
    if (step->pass == PASS_WEIGHT)
        return;
    int32_t instance = builder_instance(pipe, step->pass, step->micro_batch, stage);
    if (step->micro_batch == pipe->done[step->pass][stage])
        pipe->done[step->pass][stage]++;
    if (next < 0 || next == pipe->n_virtual)
        return;
    int32_t neighbour = pipe->first_cursor + builder_stage_of(pipe, next);
    if (builder->cursors[neighbour].blocked_on == instance)
        enqueue(builder, neighbour);
}

/* Let the last cursor of a meeting to arrive build the step for all. @return whether the cursor may go on */
static bool run_meeting(struct builder *builder, int32_t number)
{
    const int32_t *cursors = builder->step_cursors;
    int32_t n = meetings_arrive(builder, number);
    if (n == 0) {
        builder->cursors[number].in_meeting = true;
        count_joined(builder, &builder->cursors[number]);
        return false;
    }
    for (int32_t i = 0; i < n; i++) {
        struct builder_stage_cursor *other = &builder->cursors[cursors[i]];
        if (other->join >= 0)
            builder->joins[other->join].n_joined -= other->in_meeting;
        other->in_meeting = false;
    }
    builder_pass(builder, cursors, n);
    for (int32_t i = 0; i < n; i++) {
        step_done(builder, cursors[i]);
        if (cursors[i] != number)
            enqueue(builder, cursors[i]);
    }
    return true;
}

static void run_cursor(struct builder *builder, int32_t number)
{
    struct builder_stage_cursor *cursor = &builder->cursors[number];
    while (cursor->next < cursor->end && !cursor->joined) {
        cursor->blocked_on = missing(cursor);
        if (cursor->blocked_on >= 0)
            return;
        if (meetings_of(cursor, step_of(cursor)) < 0) {
            builder_pass(builder, &number, 1);
            step_done(builder, number);
        } else if (!run_meeting(builder, number)) {
            return;
        }
    }
}

/* Return the cursor that a stuck cursor waits for. */
static int32_t waits_for(const struct builder *builder, const struct builder_stage_cursor *cursor)
{
    const struct builder_pipe *pipe = cursor->pipe;
    if (cursor->joined) {
        int32_t other = 0;
        while (builder->cursors[other].joined || builder->cursors[other].join != cursor->join)
            other++;
        return other;
    }
    if (cursor->blocked_on < 0)
        return meetings_absent(builder, meetings_of(cursor, step_of(cursor)));
    return pipe->first_cursor + builder_stage_of(pipe, cursor->blocked_on / pipe->n_micro_batches);
}

static bool report(const struct builder *builder, const struct builder_stage_cursor *cursor, struct error *err)
{
    const struct builder_pipe *pipe = cursor->pipe;
    const struct plan_step *step = step_of(cursor);
    const struct builder_stage_cursor *other = &builder->cursors[waits_for(builder, cursor)];
    const char *why = other->next == other->end ? "which has ended" : "in a circle";
    if (cursor->blocked_on < 0 || cursor->joined)
        return error_set(
            err,
            "phase %d, pipeline %d, stage %d: %s micro-batch %d waits for pipeline %d to run it with its group, "
            "%s: the orders of the plan cannot run",
            builder->phase, cursor->pipeline, cursor->stage, pass_name[step->pass], step->micro_batch, other->pipeline,
            why);
    int32_t micro_batch = cursor->blocked_on % pipe->n_micro_batches,
            n_forward = pipe->plan->partition[PASS_FORWARD].n_micro_batches;
    bool backward = micro_batch >= n_forward;
    return error_set(
        err,
        "phase %d, pipeline %d, stage %d: %s micro-batch %d waits for %s micro-batch %d on stage %d, %s: the orders of "
        "the plan cannot run",
        builder->phase, cursor->pipeline, cursor->stage, pass_name[step->pass], step->micro_batch, pass_name[backward],
        micro_batch - backward * n_forward, other->stage, why);
}

/* Follow who waits for whom. After n_cursors steps the walk is in the circle, or at a cursor that has ended. */
static bool check_done(const struct builder *builder, struct error *err)
{
    int32_t stuck = 0;
    while (stuck < builder->n_cursors && builder->cursors[stuck].next == builder->cursors[stuck].end)
        stuck++;
    if (stuck == builder->n_cursors)
        return true;
    for (int32_t i = 0; i < builder->n_cursors; i++) {
        int32_t next = waits_for(builder, &builder->cursors[stuck]);
        if (builder->cursors[next].next == builder->cursors[next].end)
            break;
        stuck = next;
    }
    return report(builder, &builder->cursors[stuck], err);
}

/* Build one context rank for all of them, if they are equal. */
static void open_fold(struct builder *builder, struct builder_pipe *pipe)
{
    if (builder->equal_pipelines == NULL || !equal_pipelines_contexts(pipe->plan, builder->setting->platform))
        return;
    pipe->n_built = 1;
    pipe->fold = check_malloc((size_t)pipe->stages * sizeof *pipe->fold);
    for (int32_t stage = 0; stage < pipe->stages; stage++) {
        struct builder_collective collective = {.ranks = builder->ranks, .n = pipe->n_ranks};
        for (int32_t i = 0; i < pipe->n_ranks; i++)
            builder->ranks[i] = pipe->first_rank + stage * pipe->n_ranks + i;
        pipe->fold[stage] = builder_fold_of(builder, &collective);
    }
}

static void open_pipe(struct builder *builder, int32_t number, struct builder_pipe *pipe)
{
    const struct plan_phase *phase = &builder->plan->phases[builder->phase];
    pipe->plan = &phase->pipelines[number];
    const struct plan_layout *layout = &pipe->plan->layout;
    pipe->n_tensor = builder->options.all_tensor_ranks ? layout->tensor : 1;
    pipe->n_ranks = pipe->n_built = layout->context * pipe->n_tensor;
    pipe->stages = layout->stages;
    pipe->n_virtual = layout->chunks * layout->stages;
    pipe->before[PASS_BACKWARD] = pipe->plan->partition[PASS_FORWARD].n_micro_batches;
    pipe->kinds = dag_kinds_of(builder->setting, layout);
    relations_of(pipe->plan, &pipe->relations);
    for (int32_t kind = 0; kind < pipe->kinds.n; kind++)
        pipe->stage_setting[kind] = dag_setting(builder->setting, layout, pipe->kinds.stage[kind]);
    open_fold(builder, pipe);
    if (plan_offloads(pipe->plan))
        pass_open_tokens(pipe);
    for (enum pass pass = PASS_FORWARD; pass < plan_n_passes(pipe->plan); pass++)
        builder_costs(builder, pipe, pass);
    for (int pass = 0; pass < N_PASSES; pass++)
        pipe->done[pass] = check_calloc((size_t)pipe->n_virtual, sizeof *pipe->done[pass]);
    pipe->n_micro_batches =
        pipe->plan->partition[PASS_FORWARD].n_micro_batches + pipe->plan->partition[PASS_BACKWARD].n_micro_batches;
    size_t n_ends = (size_t)pipe->n_micro_batches * (size_t)pipe->n_virtual * (size_t)pipe->n_built;
    pipe->ends = check_malloc(n_ends * sizeof *pipe->ends);
    for (size_t i = 0; i < n_ends; i++)
        pipe->ends[i] = (struct builder_end){-1, -1, -1, -1, -1};
    for (int32_t stage = 0; stage < layout->stages; stage++)
        builder->cursors[pipe->first_cursor + stage] =
            (struct builder_stage_cursor){.pipe = pipe,
                                          .pipeline = number,
                                          .stage = stage,
                                          .steps = pipe->plan->steps,
                                          .next = pipe->plan->step_first[stage],
                                          .end = pipe->plan->step_first[stage + 1],
                                          .blocked_on = -1};
}

static void open_phase(struct builder *builder)
{
    const struct plan_phase *phase = &builder->plan->phases[builder->phase];
    builder->pipes = check_calloc((size_t)phase->n_pipelines, sizeof *builder->pipes);
    builder->n_cursors = 0;
    size_t n_participants = 0;
    for (int32_t i = 0; i < phase->n_pipelines; i++) {
        const struct plan_layout *layout = &phase->pipelines[i].layout;
        builder->pipes[i].first_cursor = builder->n_cursors;
        builder->n_cursors += builder_equal_pipeline(builder, i) == i ? layout->stages : 0;
        n_participants +=
            (size_t)layout->context * (size_t)layout->tensor * (size_t)(phase->n_attentions > 0 ? layout->stages : 1);
    }
    builder->cursors = check_malloc((size_t)builder->n_cursors * sizeof *builder->cursors);
    builder->queue = check_malloc((size_t)builder->n_cursors * sizeof *builder->queue);
    builder->step_cursors = check_malloc((size_t)builder->n_cursors * sizeof *builder->step_cursors);
    builder->queue_first = builder->queue_n = 0;
    builder->participants = check_malloc(n_participants * sizeof *builder->participants);
    builder->faulty_cost = check_malloc(n_participants * sizeof *builder->faulty_cost);
    builder->ranks = check_malloc(n_participants * sizeof *builder->ranks);
    builder->micro_batches = check_malloc(n_participants * sizeof *builder->micro_batches);
    builder->ready = check_malloc(n_participants * sizeof *builder->ready);
    int32_t dag_rank = 0;
    while (builder->dag->ranks[dag_rank].phase < builder->phase)
        dag_rank++;
    for (int32_t i = 0; i < phase->n_pipelines; i++) {
        struct builder_pipe *pipe = &builder->pipes[i];
        int32_t representative = builder_equal_pipeline(builder, i);
        if (representative != i)
            *pipe = builder->pipes[representative];
        pipe->representative = representative;
        pipe->first_rank = dag_rank;
        if (representative == i)
            open_pipe(builder, i, pipe);
        dag_rank += pipe->n_ranks * pipe->plan->layout.stages;
    }
    meetings_open(builder);
    joins_open(builder);
}

void builder_close_phase(struct builder *builder)
{
    struct dag *dag = builder->dag;
    dag->first_pipe[builder->phase] = dag->n_pipes;
    for (int32_t i = 0; i < builder->plan->phases[builder->phase].n_pipelines; i++) {
        struct builder_pipe *pipe = &builder->pipes[i];
        struct dag_pipe *dag_pipe = &dag->pipes[dag->n_pipes++];
        *dag_pipe = (struct dag_pipe){.representative = dag->first_pipe[builder->phase] + pipe->representative};
        if (pipe->representative != i)
            continue;
        dag_pipe->kinds = pipe->kinds;
        dag_pipe->relations = pipe->relations;
        for (int pass = 0; pass < N_STEP_PASSES; pass++)
            dag_pipe->cost[pass] = pipe->cost[pass];
        for (int pass = 0; pass < N_PASSES; pass++)
            free(pipe->done[pass]);
        free(pipe->token);
        free(pipe->tokens);
        free(pipe->ends);
        free(pipe->fold);
    }
    meetings_close(builder);
    free(builder->pipes);
    free(builder->cursors);
    free(builder->queue);
    free(builder->step_cursors);
    free(builder->participants);
    free(builder->faulty_cost);
    free(builder->ranks);
    free(builder->micro_batches);
    free(builder->ready);
    joins_close(builder);
}

bool builder_phase(struct builder *builder, int32_t phase, struct error *err)
{
    builder->phase = phase;
    open_phase(builder);
    for (int32_t cursor = 0; cursor < builder->n_cursors; cursor++)
        enqueue(builder, cursor);
    while (builder->queue_n > 0) {
        int32_t cursor = builder->queue[builder->queue_first];
        builder->queue_first = (builder->queue_first + 1) % builder->n_cursors;
        builder->queue_n--;
        builder->cursors[cursor].queued = false;
        run_cursor(builder, cursor);
        join_all(builder);
    }
    return check_done(builder, err);
}
