/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Copies to and from the host: as passes are built, or of all passes once these are (copies_apart). */
#include <stdlib.h>

#include "dag/pass.h"

/* The newest task, a copy, may start when `task` does, -1: at once. */
static void after_start(struct builder *builder, int32_t task)
{
    struct dag *dag = builder->dag;
    if (task >= 0 && builder->options.copies_apart) {
        int32_t *with = dag->apart.copies[dag->n_tasks - 1 - dag->apart.n_tasks].with;
        with[with[0] >= 0] = task;
        return;
    }
    for (int32_t i = 0; task >= 0 && i < dag->in_first[task + 1] - dag->in_first[task]; i++)
        builder_edge(builder, dag->in_task[dag->in_first[task] + i], DAG_SCHEDULE);
}

/* A copy; with copies apart due before the task `before`. @return its number */
static int32_t add_copy(struct builder *builder, struct dag_task task, double bytes, int32_t before)
{
    struct dag_apart *apart = &builder->dag->apart;
    if (builder->options.copies_apart) {
        CHECK(apart->n == 0 || apart->copies[apart->n - 1].before <= before);
        apart->copies = check_grow(apart->copies, (size_t)apart->n, &apart->room, sizeof *apart->copies);
        apart->copies[apart->n++] = (struct dag_copy){before, {-1, -1}};
    }
    return builder_send(builder, task, cost_of_transfer(builder->setting, COST_PCIE, bytes, 1));
}

static const struct dag_token *token_of(const struct builder_pipe *pipe, int32_t unit, int32_t stage)
{
    return &pipe->token[unit * pipe->kinds.n + pipe->kinds.kind[stage]];
}

int32_t pass_prefetch(struct pass_work *work, const struct builder_member *member, int32_t own_pass)
{
    struct builder *builder = work->builder;
    const struct builder_pipe *pipe = member->pipe;
    const struct relations *relations = &pipe->relations;
    int32_t first = relations->share_first[member->unit], end = relations->share_first[member->unit + 1];
    double bytes = 0;
    for (int32_t i = first; i < end; i++) {
        const struct relations_share *part = &relations->shares[i];
        double share = plan_offload(pipe->plan, part->forward, member->stage);
        if (share > 0)
            bytes += share * dag_offloadable_of_tokens(token_of(pipe, part->forward, member->stage),
                                                       part->whole_tokens + part->sliced_tokens, part->sliced_tokens);
    }
    if (bytes <= 0)
        return -1;
    struct dag_task task = pass_task_of(work, member, DAG_STREAM_FROM_HOST, DAG_SEND, DAG_PREFETCH);
    task.from_rank = -1;
    int32_t send =
        add_copy(builder, task, bytes, pass_end_of(member, PASS_BACKWARD, member->unit, member->stage)->first);
    after_start(builder, own_pass >= 0 ? own_pass : builder->at[member->place].begin);
    if (own_pass < 0 && member->stage < pipe->n_virtual - 1)
        after_start(builder, pass_end_of(member, PASS_BACKWARD, member->unit, member->stage + 1)->first);
    for (int32_t i = first; i < end; i++)
        builder_edge(builder, pass_end_of(member, PASS_FORWARD, relations->shares[i].forward, member->stage)->offload,
                     DAG_INTER_PASS);
    return send;
}

void pass_offload(struct pass_work *work, const struct builder_member *member, struct builder_end *end)
{
    struct builder *builder = work->builder;
    const struct builder_pipe *pipe = member->pipe;
    double share = plan_offload(pipe->plan, member->unit, member->stage);
    if (share <= 0)
        return;
    double bytes =
        share * dag_offloadable_of_tokens(token_of(pipe, member->unit, member->stage), pipe->tokens[member->unit],
                                          pipe->relations.sliced_tokens[member->unit]);
    if (bytes <= 0)
        return;
    struct dag_task task = pass_task_of(work, member, DAG_STREAM_TO_HOST, DAG_SEND, DAG_OFFLOAD);
    task.to_rank = -1;
    end->offload = add_copy(builder, task, bytes, 1 + (end->ring > end->last ? end->ring : end->last));
    if (pass_streams(work, member)) {
        after_start(builder, end->first);
    } else {
        builder_edge(builder, end->last, DAG_INTER_PASS);
        builder_edge(builder, end->ring, DAG_INTER_PASS);
    }
}

void pass_open_tokens(struct builder_pipe *pipe)
{
    const struct plan_cut *cut = &pipe->plan->cut[PASS_FORWARD];
    int32_t n = cut->n_units * pipe->kinds.n;
    pipe->tokens = check_malloc((size_t)cut->n_units * sizeof *pipe->tokens);
    pipe->token = check_malloc((size_t)n * sizeof *pipe->token);
    for (int32_t unit = 0; unit < cut->n_units; unit++)
        pipe->tokens[unit] = plan_unit_tokens(cut, unit) + cut->units[unit].padding_tokens;
    for (int32_t i = 0; i < n; i++)
        pipe->token[i] = dag_token_of(pipe->plan, &pipe->own[i % pipe->kinds.n], i / pipe->kinds.n);
}

/* A pipeline that offloads, as far as copies ask for it. */
static struct builder_pipe pipe_of(const struct builder *builder, const struct plan_pipeline *plan, struct dag_pipe *of)
{
    const struct plan_layout *layout = &plan->layout;
    int32_t n_forward = plan->cut[PASS_FORWARD].n_units;
    struct builder_pipe pipe = {.plan = plan,
                                .relations = of->relations,
                                .kinds = of->kinds,
                                .stages = layout->stages,
                                .n_virtual = layout->stages * layout->chunks,
                                .n_built = layout->context,
                                .n_units = n_forward + plan->cut[PASS_BACKWARD].n_units,
                                .before = {[PASS_BACKWARD] = n_forward},
                                .token = of->token,
                                .tokens = of->tokens,
                                .ends = of->ends};
    for (int32_t kind = 0; kind < pipe.kinds.n; kind++)
        pipe.own[kind] = dag_setting(builder->setting, layout, pipe.kinds.stage[kind]);
    if (plan_offloads(plan) && pipe.token == NULL)
        pass_open_tokens(&pipe);
    of->token = pipe.token;
    of->tokens = pipe.tokens;
    return pipe;
}

/* Take away the copies of before. */
static void drop_copies(struct builder *builder)
{
    struct dag *dag = builder->dag;
    dag->n_tasks = dag->apart.n_tasks;
    for (int32_t edge = dag->in_first[dag->n_tasks]; edge < dag->n_edges; edge++)
        dag->room.mark[dag->in_task[edge]] = -1;
    dag->n_edges = dag->in_first[dag->n_tasks];
    dag->apart.n = 0;
    for (int32_t place = 0; place < dag->n_places; place++)
        for (int32_t stream = DAG_STREAM_TO_HOST; stream <= DAG_STREAM_FROM_HOST; stream++) {
            int32_t number = place * DAG_N_STREAMS + stream;
            builder->stream_last[number] = dag->stream_first[number] = -1;
        }
}

/* The copies of a pass, by its first task. */
static void add_copies(struct builder *builder, const struct builder_pipe *pipes, int32_t number)
{
    const struct dag_task *task = &builder->dag->tasks[number];
    const struct builder_pipe *pipe = &pipes[task->pipeline];
    struct pass_work work = {.builder = builder, .pass = task->pass, .chunk = task->chunk};
    struct builder_member member = {.pipe = pipe,
                                    .unit = task->unit,
                                    .stage = task->chunk * pipe->stages + task->stage,
                                    .rank = builder->dag->places[task->place].context,
                                    .place = task->place};
    if (pipe->token != NULL && work.pass == PASS_FORWARD) {
        struct builder_end *end = pass_end_of(&member, PASS_FORWARD, member.unit, member.stage);
        CHECK(!pass_streams(&work, &member));
        end->offload = -1;
        pass_offload(&work, &member, end);
    }
    if (pipe->token != NULL && work.pass == PASS_BACKWARD)
        pass_prefetch(&work, &member, -1);
    builder->at[member.place].begin = number;
}

void dag_copies(const struct plan *plan, const struct cost_setting *setting, struct dag *dag)
{
    struct dag_options options = {.copies_apart = true};
    struct builder builder = {.plan = plan, .setting = setting, .options = options, .dag = dag, .gate = -1};
    const struct plan_phase *phase = plan->phases;
    CHECK(plan->n_phases == 1);
    struct builder_pipe *pipes = check_malloc((size_t)phase->n_pipelines * sizeof *pipes);
    builder.stream_last = check_malloc((size_t)dag_n_streams(dag) * sizeof *builder.stream_last);
    builder.at = check_malloc((size_t)dag->n_places * sizeof *builder.at);
    for (int32_t i = 0; i < dag->n_places; i++)
        builder.at[i].begin = -1;
    for (int32_t i = 0; i < phase->n_pipelines; i++)
        pipes[i] = pipe_of(&builder, &phase->pipelines[i], &dag->pipes[i]);
    drop_copies(&builder);
    for (int32_t task = 0; task < dag->apart.n_tasks; task++)
        if (dag->tasks[task].kind == DAG_COMPUTE)
            add_copies(&builder, pipes, task);
    free(pipes);
    free(builder.stream_last);
    free(builder.at);
}
