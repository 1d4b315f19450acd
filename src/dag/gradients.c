/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "cost/overlap.h"
#include "dag/builder.h"

/* The places that hold the same parameters: all pipelines and context ranks of one stage and tensor index. */
struct replicas {
    int32_t n, n_ready;
    int32_t *places, *ready; /* ready: tasks that end their work so far */
    int32_t stage;
    double parameters; /* of one of them */
};

static bool equal_layouts(const struct plan_phase *phase)
{
    const struct plan_layout *first = &phase->pipelines[0].layout;
    for (int32_t i = 1; i < phase->n_pipelines; i++) {
        const struct plan_layout *layout = &phase->pipelines[i].layout;
        if (layout->stages != first->stages || layout->tensor != first->tensor || layout->chunks != first->chunks)
            return false;
    }
    return true;
}

/* Seconds of one step of a stage. */
static double step_s(const struct builder_pipe *pipe, int32_t stage, const struct plan_step *step)
{
    bool last = step->chunk * pipe->plan->layout.stages + stage == pipe->n_virtual - 1;
    const struct cost_pass *cost = &pipe->cost[step->pass][step->unit][last];
    return cost->other_s + cost->attention_s + cost->tensor_s + cost->shard_s + cost->context_s;
}

/* What of the collectives of a pipeline's chunks, chunk_s each, no pass of the stage hides: dag/dag.h. */
static double unhidden_s(const struct builder_pipe *pipe, int32_t stage, enum pass pass, double chunk_s)
{
    const struct plan_pipeline *plan = pipe->plan;
    bool seen[UINT8_MAX + 1] = {false};
    int32_t first = plan->step_first[stage], n = plan->step_first[stage + 1] - first, n_seen = 0;
    double work_s = 0, unhidden = 0;
    for (int32_t i = 0; i < n && n_seen < plan->layout.chunks; i++) {
        const struct plan_step *step = &plan->steps[pass == PASS_FORWARD ? first + i : first + n - 1 - i];
        work_s += step_s(pipe, stage, step);
        if (step->pass != pass || seen[step->chunk])
            continue;
        seen[step->chunk] = true;
        unhidden = fmax(unhidden, ++n_seen * chunk_s - work_s);
    }
    return n_seen == plan->layout.chunks ? unhidden : plan->layout.chunks * chunk_s;
}

static void collect(struct builder *builder, int32_t stage, int32_t tensor, struct replicas *replicas)
{
    const struct plan_phase *phase = &builder->plan->phases[builder->phase];
    replicas->n = 0;
    replicas->stage = stage;
    for (int32_t i = 0; i < phase->n_pipelines; i++) {
        const struct builder_pipe *pipe = &builder->pipes[i];
        for (int32_t rank = tensor; rank < pipe->n_ranks; rank += pipe->n_tensor)
            replicas->places[replicas->n++] = pipe->first_place + stage * pipe->n_ranks + rank;
    }
    replicas->n_ready = 0;
    for (int32_t i = 0; i < replicas->n; i++) {
        int32_t compute = replicas->places[i] * DAG_N_STREAMS + DAG_STREAM_COMPUTE;
        replicas->ready[replicas->n_ready++] = builder->stream_last[compute];
        replicas->ready[replicas->n_ready++] = builder->open_ring[replicas->places[i]];
    }
    const struct plan_layout *layout = &phase->pipelines[0].layout;
    struct cost_setting setting = dag_setting(builder->setting, layout);
    replicas->parameters = cost_stage_parameters(setting.model, layout->tensor, setting.layers * layout->chunks,
                                                 stage == 0, stage == layout->stages - 1);
}

/* Parameters of one collective of Megatron-LM's among n ranks (core/distributed: max(40e6, 1e6 n)). */
static double bucket_parameters(const struct replicas *replicas, double parameters)
{
    double most = fmax(40e6, 1e6 * replicas->n);
    return parameters / ceil(parameters / most);
}

/* Seconds of a ring of all parameters, `bytes` each, that the passes of `pass` do not hide. */
static double exposed_s(const struct builder *builder, const struct replicas *replicas, struct builder_ring ring,
                        double bytes, enum pass pass)
{
    const struct plan_phase *phase = &builder->plan->phases[builder->phase];
    int32_t chunks = phase->pipelines[0].layout.chunks;
    double chunk = replicas->parameters / chunks, bucket = bucket_parameters(replicas, chunk), unhidden = 0;
    if (!builder->setting->communication.dp_overlap || replicas->parameters <= 0)
        return builder_ring_s(builder, &ring);
    ring.bytes = bucket * bytes;
    double bucket_s = builder_ring_s(builder, &ring), chunk_s = bucket_s * chunk / bucket;
    for (int32_t i = 0; i < phase->n_pipelines; i++)
        unhidden = fmax(unhidden, unhidden_s(&builder->pipes[i], replicas->stage, pass, chunk_s));
    unhidden = fmax(unhidden, bucket_s);
    return unhidden + overlap_loss_s(builder->setting->device, chunks * chunk_s - unhidden);
}

static int32_t add_ring(struct builder *builder, const struct replicas *replicas, enum dag_purpose purpose,
                        double bytes)
{
    struct builder_ring ring = {.places = replicas->places,
                                .ready = replicas->ready,
                                .n = replicas->n,
                                .n_ready = replicas->n_ready,
                                .purpose = purpose,
                                .unit = -1,
                                .bytes = replicas->parameters * bytes};
    enum pass pass = purpose == DAG_REDUCE_SCATTER ? PASS_BACKWARD : PASS_FORWARD;
    double alone_s = builder_ring_s(builder, &ring);
    ring.share = alone_s > 0 ? exposed_s(builder, replicas, ring, bytes, pass) / alone_s : 1;
    return builder_ring(builder, &ring);
}

static void add_optimizers(struct builder *builder, struct replicas *replicas, int32_t norm)
{
    const struct cost_setting *setting = builder->setting;
    double seconds = cost_optimizer_s(setting, replicas->parameters, replicas->n);
    for (int32_t i = 0; i < replicas->n; i++) {
        struct dag_task task =
            builder_task_of(builder, replicas->places[i], DAG_STREAM_COMPUTE, DAG_OPTIMIZER, DAG_PASS);
        replicas->ready[i] = builder_task(builder, task, seconds);
        builder_edge(builder, norm, DAG_COLLECTIVE);
    }
    replicas->n_ready = replicas->n;
}

static const double parameter_bytes = 2; /* bf16 */

/* Gradients of all stages, then their norm, for which all wait. @return its SYNC */
static int32_t add_norm(struct builder *builder, int32_t n_stages, int32_t n_tensor, struct replicas *replicas)
{
    int32_t n = n_stages * n_tensor;
    double bytes = cost_gradient_bytes(builder->setting->gradients);
    bool at_end = builder->setting->sharding == SCENARIO_ZERO1; /* else in every backward pass */
    int32_t *reduced = check_malloc((size_t)n * sizeof *reduced);
    for (int32_t i = 0; i < n; i++) {
        collect(builder, i / n_tensor, i % n_tensor, replicas);
        reduced[i] = replicas->n > 1 && at_end ? add_ring(builder, replicas, DAG_REDUCE_SCATTER, bytes) : -1;
    }
    int32_t norm = builder_sync(builder, builder->pipes[0].first_place, DAG_REDUCE_SCATTER);
    for (int32_t i = 0; i < n; i++) {
        builder_edge(builder, reduced[i], DAG_COLLECTIVE);
        if (reduced[i] >= 0)
            continue;
        collect(builder, i / n_tensor, i % n_tensor, replicas);
        for (int32_t k = 0; k < replicas->n_ready; k++)
            builder_edge(builder, replicas->ready[k], DAG_COLLECTIVE);
    }
    free(reduced);
    return norm;
}

bool builder_gradients(struct builder *builder, struct error *err)
{
    const struct plan_phase *phase = &builder->plan->phases[builder->phase];
    if (!equal_layouts(phase))
        return error_set(err, "phase %d: gradient synchronisation of unequal pipelines is not modelled yet",
                         builder->phase);
    size_t n = 0;
    for (int32_t i = 0; i < phase->n_pipelines; i++)
        n += (size_t)builder->pipes[i].n_ranks;
    struct replicas replicas = {.places = check_malloc(n * sizeof(int32_t)),
                                .ready = check_malloc(2 * n * sizeof(int32_t))};
    int32_t n_stages = phase->pipelines[0].layout.stages, n_tensor = builder->pipes[0].n_tensor;
    int32_t norm = add_norm(builder, n_stages, n_tensor, &replicas);
    for (int32_t i = 0; i < n_stages * n_tensor; i++) {
        collect(builder, i / n_tensor, i % n_tensor, &replicas);
        add_optimizers(builder, &replicas, norm);
        if (replicas.n > 1 && builder->setting->sharding != SCENARIO_ZERO3)
            add_ring(builder, &replicas, DAG_ALL_GATHER, parameter_bytes);
    }
    free(replicas.places);
    free(replicas.ready);
    return true;
}
