/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sample_run.h"

#include "base/check.h"

#include <hdf5.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double token_s[N_PASSES] = {1e-6, 2e-6};

/** The next step of each stage of one pipeline, and the tasks that finished its passes (-1: not yet). */
struct building {
    struct dag *dag;
    const struct sample_shape *shape;
    int32_t pipeline;
    int32_t next[SAMPLE_MAX_UNITS]; /* step of each stage */
    int32_t last[SAMPLE_MAX_UNITS]; /* task of its compute stream */
    int32_t last_send[SAMPLE_MAX_UNITS][N_PASSES];
    int32_t arrived[N_PASSES][SAMPLE_MAX_UNITS]
                   [SAMPLE_MAX_UNITS]; /* by pass, stage, micro-batch: the send, or pass, before it */
};

static int32_t add_task(struct building *b, struct dag_task task, double duration_s)
{
    int32_t t = b->dag->n_tasks++;
    b->dag->tasks[t] = task;
    b->dag->duration_s[t] = duration_s;
    b->dag->in_first[t + 1] = b->dag->n_edges;
    return t;
}

static void add_edge(struct building *b, int32_t from, enum dag_edge kind)
{
    if (from < 0)
        return;
    b->dag->in_task[b->dag->n_edges] = from;
    b->dag->in_kind[b->dag->n_edges++] = (uint8_t)kind;
    b->dag->in_first[b->dag->n_tasks] = b->dag->n_edges;
}

/* 1F1B runs p - 1 - s forwards, then one forward and one backward at a time, then the rest of the backwards. */
static struct plan_step step_of(const struct sample_shape *shape, int32_t stage, int32_t k)
{
    int32_t m = shape->micro_batches, warm_up = shape->stages - 1 - stage;
    warm_up = warm_up < m ? warm_up : m;
    if (k < warm_up)
        return (struct plan_step){PASS_FORWARD, k, 0};
    if (k >= 2 * m - warm_up)
        return (struct plan_step){PASS_BACKWARD, k - m, 0};
    int32_t pair = (k - warm_up) / 2;
    return (k - warm_up) % 2 == 0 ? (struct plan_step){PASS_FORWARD, warm_up + pair, 0}
                                  : (struct plan_step){PASS_BACKWARD, pair, 0};
}

static void add_send(struct building *b, struct dag_task task, int32_t to_stage, int32_t pass_task)
{
    task.kind = DAG_SEND;
    task.purpose = DAG_BOUNDARY;
    task.stream += task.pass == PASS_FORWARD ? DAG_STREAM_SEND_FORWARD : DAG_STREAM_SEND_BACKWARD;
    task.from_rank = task.dag_rank;
    task.to_rank = task.dag_rank - task.stage + to_stage;
    task.wire_bytes = b->shape->send_s * 50e9;
    int32_t send = add_task(b, task, b->shape->send_s);
    add_edge(b, pass_task, DAG_INTER_STAGE);
    add_edge(b, b->last_send[task.stage][task.pass], DAG_SCHEDULE);
    b->last_send[task.stage][task.pass] = send;
    b->arrived[task.pass][to_stage][task.micro_batch] = send;
}

/* Take the next step of a stage, if all that it waits for is there. */
static bool try_step(struct building *b, int32_t stage)
{
    const struct sample_shape *shape = b->shape;
    if (b->next[stage] == 2 * shape->micro_batches)
        return false;
    struct plan_step step = step_of(shape, stage, b->next[stage]);
    int32_t before = b->arrived[step.pass][stage][step.micro_batch];
    bool source = step.pass == PASS_FORWARD && stage == 0;
    if (before < 0 && !source)
        return false;
    b->next[stage]++;
    int32_t place = b->pipeline * shape->stages + stage;
    struct dag_task task = {.kind = DAG_COMPUTE,
                            .pass = (uint8_t)step.pass,
                            .stage = (int16_t)stage,
                            .pipeline = b->pipeline,
                            .micro_batch = step.micro_batch,
                            .dag_rank = place,
                            .stream = place * DAG_N_STREAMS};
    int32_t t = add_task(b, task, shape->tokens[step.micro_batch] * token_s[step.pass]);
    add_edge(b, before, DAG_INTER_STAGE);
    add_edge(b, b->last[stage], DAG_SCHEDULE);
    b->last[stage] = t;
    int32_t to_stage = step.pass == PASS_FORWARD ? stage + 1 : stage - 1;
    if (to_stage == shape->stages)
        b->arrived[PASS_BACKWARD][stage][step.micro_batch] = t;
    else if (to_stage >= 0)
        add_send(b, task, to_stage, t);
    return true;
}

static void build_pipeline(struct dag *dag, const struct sample_shape *shape, int32_t pipeline)
{
    struct building b = {.dag = dag, .shape = shape, .pipeline = pipeline};
    memset(b.last, -1, sizeof b.last);
    memset(b.last_send, -1, sizeof b.last_send);
    memset(b.arrived, -1, sizeof b.arrived);
    bool any = true;
    while (any) {
        any = false;
        for (int32_t s = 0; s < shape->stages; s++)
            any = try_step(&b, s) || any;
    }
    for (int32_t s = 0; s < shape->stages; s++)
        CHECK(b.next[s] == 2 * shape->micro_batches);
}

static void build_dag(struct dag *dag, const struct sample_shape *shape)
{
    size_t passes = (size_t)shape->pipelines * (size_t)shape->stages * (size_t)shape->micro_batches * N_PASSES;
    *dag = (struct dag){.n_ranks = shape->pipelines * shape->stages};
    dag->tasks = check_calloc(2 * passes, sizeof *dag->tasks);
    dag->duration_s = check_calloc(2 * passes, sizeof *dag->duration_s);
    dag->in_first = check_calloc(2 * passes + 1, sizeof *dag->in_first);
    dag->in_task = check_calloc(4 * passes, sizeof *dag->in_task);
    dag->in_kind = check_calloc(4 * passes, sizeof *dag->in_kind);
    dag->ranks = check_calloc((size_t)dag->n_ranks, sizeof *dag->ranks);
    for (int32_t p = 0; p < dag->n_ranks; p++)
        dag->ranks[p] = (struct dag_rank){.stage = (int16_t)(p % shape->stages),
                                          .pipeline = p / shape->stages,
                                          .rank = p,
                                          .n_gpus = 1,
                                          .representative = p,
                                          .n_represented = 1};
    for (int32_t p = 0; p < shape->pipelines; p++)
        build_pipeline(dag, shape, p);
}

static void expose(struct sample_run *run)
{
    run->exposed = check_calloc((size_t)run->dag.n_tasks, sizeof *run->exposed);
    for (int32_t t = 0; t < run->dag.n_tasks; t++)
        if (run->dag.tasks[t].kind == DAG_COMPUTE)
            run->exposed[t].tensor_s = 0.1 * run->dag.duration_s[t];
}

/* Find start and finish by the longest path forwards, and slack by the longest path backwards. */
static void resolve(struct sample_run *run)
{
    const struct dag *dag = &run->dag;
    size_t n = (size_t)dag->n_tasks;
    run->timeline.start_s = check_calloc(n, sizeof(double));
    run->timeline.finish_s = check_calloc(n, sizeof(double));
    run->slack_s = check_calloc(n, sizeof(double));
    for (int32_t t = 0; t < dag->n_tasks; t++) {
        double *start = &run->timeline.start_s[t];
        for (int32_t e = dag->in_first[t]; e < dag->in_first[t + 1]; e++)
            *start = fmax(*start, run->timeline.finish_s[dag->in_task[e]]);
        run->timeline.finish_s[t] = *start + dag->duration_s[t];
        run->timeline.makespan_s = fmax(run->timeline.makespan_s, run->timeline.finish_s[t]);
    }
    for (int32_t t = 0; t < dag->n_tasks; t++)
        run->slack_s[t] = run->timeline.makespan_s;
    for (int32_t t = dag->n_tasks - 1; t >= 0; t--) {
        double latest_start = run->slack_s[t] - dag->duration_s[t];
        for (int32_t e = dag->in_first[t]; e < dag->in_first[t + 1]; e++)
            run->slack_s[dag->in_task[e]] = fmin(run->slack_s[dag->in_task[e]], latest_start);
        run->slack_s[t] -= run->timeline.finish_s[t];
    }
}

static void build_memory(struct sample_run *run, const struct sample_shape *shape)
{
    const struct dag *dag = &run->dag;
    double *held = check_calloc((size_t)dag->n_ranks, sizeof *held);
    run->memory.n_ranks = dag->n_ranks;
    run->memory.events = check_calloc((size_t)dag->n_tasks, sizeof *run->memory.events);
    for (int32_t t = 0; t < dag->n_tasks; t++) {
        const struct dag_task *task = &dag->tasks[t];
        if (task->kind != DAG_COMPUTE)
            continue;
        bool forward = task->pass == PASS_FORWARD;
        held[task->dag_rank] += (forward ? 1e5 : -1e5) * shape->tokens[task->micro_batch];
        struct memory_event *event = &run->memory.events[run->memory.n_events++];
        *event =
            (struct memory_event){forward ? run->timeline.start_s[t] : run->timeline.finish_s[t], task->dag_rank, {0}};
        event->bytes[MEMORY_STATES] = 1e10;
        event->bytes[MEMORY_ACTIVATIONS] = held[task->dag_rank];
    }
    free(held);
}

static void build_cut(struct plan_partition *partition, const struct sample_shape *shape)
{
    int32_t used[SAMPLE_MAX_UNITS] = {0}; /* tokens of each sample in earlier micro-batches */
    partition->n_slices = partition->n_micro_batches = shape->micro_batches;
    partition->slices = check_calloc((size_t)shape->micro_batches, sizeof *partition->slices);
    partition->micro_batches = check_calloc((size_t)shape->micro_batches, sizeof *partition->micro_batches);
    for (int32_t u = 0; u < shape->micro_batches; u++) {
        int32_t begin = used[shape->sample[u]];
        used[shape->sample[u]] += shape->tokens[u];
        partition->slices[u] = (struct slice){shape->sample[u], begin, begin + shape->tokens[u]};
        partition->micro_batches[u] =
            (struct plan_micro_batch){.first_slice = u, .n_slices = 1, .context = 1, .group = -1};
        partition->micro_batches[u].formation = begin > 0 ? PLAN_SLIM : PLAN_PACK;
    }
}

static void build_plan(struct plan *plan, const struct sample_shape *shape)
{
    plan->n_phases = 1;
    plan->phases = check_calloc(1, sizeof *plan->phases);
    plan->phases->n_pipelines = shape->pipelines;
    plan->phases->pipelines = check_calloc((size_t)shape->pipelines, sizeof *plan->phases->pipelines);
    for (int32_t p = 0; p < shape->pipelines; p++)
        for (int32_t pass = 0; pass < N_PASSES; pass++)
            build_cut(&plan->phases->pipelines[p].partition[pass], shape);
}

static void build_batch(struct batch *batch, const struct sample_shape *shape)
{
    batch->tokens = check_calloc(SAMPLE_MAX_UNITS, sizeof *batch->tokens);
    batch->document = check_calloc(SAMPLE_MAX_UNITS, sizeof *batch->document);
    for (int32_t u = 0; u < shape->micro_batches; u++) {
        int32_t sample = shape->sample[u];
        batch->n_samples = sample >= batch->n_samples ? sample + 1 : batch->n_samples;
        batch->tokens[sample] += shape->tokens[u];
        batch->document[sample] = 100 + sample;
    }
}

void sample_run_build(struct sample_run *run, const struct sample_shape *shape)
{
    CHECK(shape->stages <= SAMPLE_MAX_UNITS && shape->micro_batches <= SAMPLE_MAX_UNITS);
    *run = (struct sample_run){0};
    build_dag(&run->dag, shape);
    resolve(run);
    expose(run);
    build_memory(run, shape);
    build_plan(&run->plan, shape);
    build_batch(&run->batch, shape);
    struct error err = {0};
    run->system = (struct point_system){
        .entry = &run->entry, .system = system_find("best-fit", &err), .dp = shape->pipelines, .fits = true};
    run->system.n_iterations = 1;
    run->system.iterations = &run->iteration;
    run->entry.knobs = -1;
    run->entry.plan = (struct scenario_plan){.tp = 1, .pp = shape->stages, .cp = 1, .dp = shape->pipelines, .vpp = 1};
    run->iteration = (struct point_iteration){
        .row = {.iteration = 2, .measured = true, .forward_micro_batches = shape->micro_batches}};
    run->iteration.row.bubble.total_s = run->dag.n_ranks * run->timeline.makespan_s;
    run->iteration.row.time_s = run->iteration.row.critical_path_s = run->timeline.makespan_s;
}

void sample_scenario(struct scenario *scenario, struct scenario_system systems[2])
{
    *scenario = (struct scenario){.name = "sample", .n_systems = 2, .systems = systems, .warm_up = 2, .measured = 3};
    scenario->trace = SCENARIO_TRACE_FULL;
    scenario->platform =
        (struct platform){.name = "by-hand", .n_nodes = 1, .gpus_per_node = 8, .nvlink_domain = 8, .hash = 0xabcdef};
    strcpy(scenario->model.name, "llama-13b");
    scenario->model.hidden = 5120;
    scenario->model.layers = 2;
    scenario->model.kinds[0].heads = scenario->model.kinds[0].kv_heads = 40;
    strcpy(scenario->device.name, "h800");
    strcpy(scenario->framework_name, "megatron-core");
    strcpy(scenario->data.lengths, "github");
    scenario->data.context = 262144;
    scenario->data.global_batch = 16;
    scenario->seed = 7;
    const struct scenario_plan plan = {.tp = 1, .pp = 1, .vpp = 1, .cp = 1, .dp = 1};
    systems[0] = (struct scenario_system){.label = "best-fit", .plan = plan};
    systems[1] = (struct scenario_system){.label = "slim, \"packed\"", .plan = plan};
}

struct point_view sample_view(const struct sample_run *run, const struct scenario *scenario, int32_t system_index)
{
    return (struct point_view){.scenario = scenario,
                               .system = &run->system,
                               .system_index = system_index,
                               .iteration = &run->iteration,
                               .batch = &run->batch,
                               .plan = &run->plan,
                               .dag = &run->dag,
                               .timeline = &run->timeline,
                               .slack_s = run->slack_s,
                               .exposed = run->exposed,
                               .memory = &run->memory};
}

void sample_run_release(struct sample_run *run)
{
    free(run->dag.tasks);
    free(run->dag.duration_s);
    free(run->dag.in_first);
    free(run->dag.in_task);
    free(run->dag.in_kind);
    free(run->dag.ranks);
    free(run->timeline.start_s);
    free(run->timeline.finish_s);
    free(run->slack_s);
    free(run->exposed);
    free(run->memory.events);
    free(run->batch.tokens);
    free(run->batch.document);
    for (int32_t p = 0; p < run->plan.phases->n_pipelines; p++)
        for (int32_t pass = 0; pass < N_PASSES; pass++) {
            free(run->plan.phases->pipelines[p].partition[pass].slices);
            free(run->plan.phases->pipelines[p].partition[pass].micro_batches);
        }
    free(run->plan.phases->pipelines);
    free(run->plan.phases);
}

char *sample_trace_text(const char *path, const char *name)
{
    char *text = NULL;
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (H5Aexists(file, name) > 0) {
        hid_t attribute = H5Aopen(file, name, H5P_DEFAULT), type = H5Aget_type(attribute);
        CHECK(H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) == 0);
        text = check_calloc(H5Tget_size(type) + 1, 1);
        CHECK(H5Aread(attribute, type, text) >= 0);
        H5Tclose(type);
        H5Aclose(attribute);
    }
    CHECK(H5Fclose(file) >= 0);
    return text;
}
