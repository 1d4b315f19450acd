/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <stdlib.h>

#include "base/check.h"
#include "dag/builder.h"

/* The places that hold the same parameters: all pipelines and context ranks of one stage and tensor index. */
struct replicas {
    int32_t n, n_ready;
    int32_t *places, *ready; /* ready: tasks that end their work so far */
    double parameters;       /* of one of them */
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

static void collect(struct builder *builder, int32_t stage, int32_t tensor, struct replicas *replicas)
{
    const struct plan_phase *phase = &builder->plan->phases[builder->phase];
    replicas->n = 0;
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

/* Each replica sends (n - 1)/n of `bytes` a parameter, but for what is hidden under passes. */
static int32_t add_ring(struct builder *builder, const struct replicas *replicas, enum dag_purpose purpose,
                        double bytes)
{
    double share = (double)(replicas->n - 1) / replicas->n * (1 - builder->setting->communication.dp_overlap);
    struct builder_ring ring = {.places = replicas->places,
                                .ready = replicas->ready,
                                .n = replicas->n,
                                .n_ready = replicas->n_ready,
                                .purpose = purpose,
                                .unit = -1,
                                .bytes = replicas->parameters * bytes * share,
                                .steps = replicas->n - 1};
    return builder_ring(builder, &ring);
}

static void add_optimizers(struct builder *builder, struct replicas *replicas, int32_t norm)
{
    double seconds = cost_optimizer_s(builder->setting->device, replicas->parameters / replicas->n);
    for (int32_t i = 0; i < replicas->n; i++) {
        struct dag_task task =
            builder_task_of(builder, replicas->places[i], DAG_STREAM_COMPUTE, DAG_OPTIMIZER, DAG_PASS);
        replicas->ready[i] = builder_task(builder, task, seconds);
        builder_edge(builder, norm, DAG_COLLECTIVE);
    }
    replicas->n_ready = replicas->n;
}

/* bf16 parameters, fp32 gradients: design section 4. */
static const double gradient_bytes = 4, parameter_bytes = 2;

/* Gradients of all stages, then their norm, for which all wait. @return its SYNC */
static int32_t add_norm(struct builder *builder, int32_t n_stages, int32_t n_tensor, struct replicas *replicas)
{
    int32_t n = n_stages * n_tensor;
    int32_t *reduced = check_malloc((size_t)n * sizeof *reduced);
    for (int32_t i = 0; i < n; i++) {
        collect(builder, i / n_tensor, i % n_tensor, replicas);
        reduced[i] = replicas->n > 1 ? add_ring(builder, replicas, DAG_REDUCE_SCATTER, gradient_bytes) : -1;
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
        if (replicas.n > 1)
            add_ring(builder, &replicas, DAG_ALL_GATHER, parameter_bytes);
    }
    free(replicas.places);
    free(replicas.ready);
    return true;
}
