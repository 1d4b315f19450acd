/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file appends the end of an iteration: gradients, optimizer and parameters. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "cost/overlap.h"
#include "cost/states.h"
#include "dag/builder.h"

/* Tasks that end a rank's passes: the last one on the compute stream, its ring, its copy in. */
enum { N_READY = 3 };

/*
 * Ranks that hold the same parameters: all pipelines and context ranks of one stage and tensor index. Neighbours that
 * share states form a group.
 */
struct replicas {
    int32_t n, group;       /* group: number of ranks in one group */
    int32_t *ranks, *ready; /* [n], [N_READY n] ready: tasks that end a rank's work so far, -1: none */
    double *exposed_s;      /* [n] seconds of a collective that a rank's passes do not hide; -1: it has no passes */
    double all_parameters;  /* of one rank */
    double parameters;      /* those that it reduces with the others, without experts that only some hold */
    /*
     * Experts of which only each n-th rank, counted from n_experts ranks, holds the same. n_experts is 1 if all ranks
     * hold the same. `parameters` then counts them, divided by the TP ranks that hold them, too.
     */
    int32_t n_experts;
    double expert_parameters;
    struct cost_setting rank_setting; /* of one rank */
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

/* Return the seconds of one step of a rank. */
static double step_s(const struct builder *builder, const struct builder_pipe *pipe, int32_t dag_rank,
                     const struct plan_step *step)
{
    const struct dag_rank *at = &builder->dag->ranks[dag_rank];
    int32_t stage = step->chunk * pipe->plan->layout.stages + at->stage;
    if (!builder_has_faults(builder, at->rank))
        return cost_pass_s(builder_cost_of(pipe, step->pass, step->micro_batch, stage));
    struct cost_pass faulty =
        dag_gpu_pass_cost(pipe->plan, builder->setting, step->pass, step->micro_batch, stage, at->rank);
    return cost_pass_s(&faulty);
}

/*
 * Return how much of the collectives of a rank's chunks, chunk_s each, its passes do not hide. Passes lose the share
 * `loss` of the time of collectives beside them (docs/model/simulation.md, "The task graph"). -1: the rank has no
 * passes.
 */
static double unhidden_s(const struct builder *builder, int32_t dag_rank, enum pass pass, double chunk_s, double loss)
{
    int32_t stage = builder->dag->ranks[dag_rank].stage;
    const struct builder_pipe *pipe = &builder->pipes[builder->dag->ranks[dag_rank].pipeline];
    const struct plan_pipeline *plan = pipe->plan;
    bool seen[UINT8_MAX + 1] = {false};
    int32_t first = plan->step_first[stage], n = plan->step_first[stage + 1] - first, n_seen = 0;
    double work_s = 0, unhidden = 0;
    if (pass == PASS_BACKWARD && plan->splits_backward)
        pass = PASS_WEIGHT;
    for (int32_t i = 0; i < n && n_seen < plan->layout.chunks; i++) {
        const struct plan_step *step = &plan->steps[pass == PASS_FORWARD ? first + i : first + n - 1 - i];
        work_s += step_s(builder, pipe, dag_rank, step);
        if (step->pass != pass || seen[step->chunk])
            continue;
        seen[step->chunk] = true;
        n_seen++;
        unhidden = fmax(unhidden, n_seen * chunk_s - work_s + (plan->layout.chunks - n_seen) * chunk_s * loss);
    }
    return n_seen == plan->layout.chunks ? unhidden : -1;
}

static void collect(struct builder *builder, int32_t stage, int32_t tensor, struct replicas *replicas)
{
    const struct plan_phase *phase = &builder->plan->phases[builder->phase];
    replicas->n = 0;
    for (int32_t i = 0; i < phase->n_pipelines; i++) {
        const struct builder_pipe *pipe = &builder->pipes[i];
        for (int32_t rank = tensor; rank < pipe->n_ranks; rank += pipe->n_tensor)
            replicas->ranks[replicas->n++] = pipe->first_rank + stage * pipe->n_ranks + rank;
    }
    for (int32_t i = 0; i < replicas->n; i++) {
        int32_t compute = replicas->ranks[i] * DAG_N_STREAMS + DAG_STREAM_COMPUTE;
        int32_t *ready = &replicas->ready[N_READY * i];
        ready[0] = builder->stream_last[compute];
        ready[1] = builder->at[replicas->ranks[i]].ring;
        ready[2] = builder->at[replicas->ranks[i]].copy;
    }
    const struct cost_setting *setting = builder->setting;
    replicas->group = cost_shard_groups(setting) > 1 ? cost_shards(setting) : replicas->n;
    CHECK(replicas->group >= 1 && replicas->n % replicas->group == 0);
    const struct plan_layout *layout = &phase->pipelines[0].layout;
    replicas->all_parameters = dag_stage_parameters(setting, layout, stage);
    replicas->rank_setting = dag_rank_setting(setting, layout, stage);
    replicas->n_experts = cost_expert_ranks(setting) > layout->tensor ? cost_expert_ranks(setting) / layout->tensor : 1;
    double experts = cost_expert_parameters(&replicas->rank_setting);
    replicas->expert_parameters = replicas->n_experts > 1 ? experts : 0;
    replicas->parameters = replicas->all_parameters - experts +
                           (experts - replicas->expert_parameters) / cost_expert_peers(&replicas->rank_setting);
}

/* Return the collective that reduces gradients in a group. */
static enum dag_purpose reduction_of(const struct builder *builder)
{
    return cost_all_reduces(builder->setting) ? DAG_ALL_REDUCE : DAG_REDUCE_SCATTER;
}

/* Return the collective of the g-th group over `parameters` with `bytes` each. */
static struct builder_collective group_collective(const struct replicas *replicas, enum dag_purpose purpose,
                                                  double parameters, double bytes, int32_t g)
{
    int32_t n = replicas->group;
    return (struct builder_collective){.ranks = replicas->ranks + g * n,
                                       .ready = replicas->ready + N_READY * g * n,
                                       .n = n,
                                       .n_ready = N_READY * n,
                                       .purpose = purpose,
                                       .bytes = parameters * bytes,
                                       .share = 1};
}

/*
 * Return the collective of the experts that the ranks e, e + n_experts, ... hold. They wait for `before`, or for their
 * own work if it is -1. The caller frees ranks and ready.
 */
static struct builder_collective expert_collective(const struct replicas *replicas, enum dag_purpose purpose,
                                                   double bytes, int32_t e, int32_t before)
{
    int32_t n = replicas->n / replicas->n_experts, n_ready = before >= 0 ? 1 : N_READY * n;
    int32_t *ranks = check_malloc((size_t)n * sizeof *ranks), *ready = check_malloc((size_t)n_ready * sizeof *ready);
    for (int32_t i = 0; i < n; i++) {
        int32_t from = e + i * replicas->n_experts;
        ranks[i] = replicas->ranks[from];
        if (before < 0)
            memcpy(ready + N_READY * i, replicas->ready + N_READY * from, N_READY * sizeof *ready);
    }
    if (before >= 0)
        ready[0] = before;
    return (struct builder_collective){.ranks = ranks,
                                       .ready = ready,
                                       .n = n,
                                       .n_ready = n_ready,
                                       .purpose = purpose,
                                       .distance = cost_expert_ranks(&replicas->rank_setting),
                                       .bytes = bytes,
                                       .share = 1};
}

static void free_collective(const struct builder_collective *collective)
{
    free((int32_t *)collective->ranks);
    free((int32_t *)collective->ready);
}

/* Return the seconds of a collective of all experts of a rank, for the slowest of them, without other traffic. */
static double experts_s(const struct builder *builder, const struct replicas *replicas, enum dag_purpose purpose,
                        double bytes)
{
    double most_s = 0;
    if (replicas->n == replicas->n_experts)
        return 0;
    for (int32_t e = 0; bytes > 0 && e < replicas->n_experts; e++) {
        struct builder_collective collective = expert_collective(replicas, purpose, bytes, e, -1);
        most_s = fmax(most_s, builder_collective_s(builder, &collective));
        free_collective(&collective);
    }
    return most_s;
}

/* Append the collectives of all experts behind `before`, -1: behind their ranks' own work. @return a task after them,
 * `before` if there are none */
static int32_t add_experts(struct builder *builder, const struct replicas *replicas, enum dag_purpose purpose,
                           double element_bytes, double share, int32_t before)
{
    double bytes = replicas->expert_parameters * element_bytes;
    if (bytes <= 0 || replicas->n == replicas->n_experts)
        return before;
    int32_t *done = check_malloc((size_t)replicas->n_experts * sizeof *done);
    for (int32_t e = 0; e < replicas->n_experts; e++) {
        struct builder_collective collective = expert_collective(replicas, purpose, bytes, e, before);
        collective.share = share;
        done[e] = builder_collective(builder, &collective);
        free_collective(&collective);
    }
    int32_t all = builder_sync(builder, replicas->ranks[0], purpose);
    for (int32_t e = 0; e < replicas->n_experts; e++)
        builder_edge(builder, done[e], DAG_COLLECTIVE);
    free(done);
    return all;
}

/* Return the all-reduce of a shard among the i-th ranks of all groups. The caller fills in ranks and ready. */
static struct builder_collective shard_collective(const struct replicas *replicas, int32_t tensor, double parameters,
                                                  double bytes, int32_t *ranks, int32_t *ready)
{
    int32_t m = replicas->n / replicas->group;
    return (struct builder_collective){.ranks = ranks,
                                       .ready = ready,
                                       .n = m,
                                       .n_ready = N_READY * m,
                                       .purpose = DAG_ALL_REDUCE,
                                       .distance = tensor * replicas->group,
                                       .bytes = parameters / replicas->group * bytes,
                                       .share = 1};
}

/* Return the seconds of the all-reduce of a shard among the groups, for the shard that takes longest. */
static double across_s(const struct builder *builder, const struct replicas *replicas, double parameters, double bytes)
{
    int32_t m = replicas->n / replicas->group, *ranks = check_malloc((size_t)m * sizeof *ranks);
    struct builder_collective collective =
        shard_collective(replicas, builder->setting->tensor, parameters, bytes, ranks, NULL);
    double most_s = 0;
    for (int32_t i = 0; i < replicas->group; i++) {
        for (int32_t g = 0; g < m; g++)
            ranks[g] = replicas->ranks[g * replicas->group + i];
        most_s = fmax(most_s, builder_collective_s(builder, &collective));
    }
    free(ranks);
    return most_s;
}

/*
 * Return the seconds of the collective of `parameters` without other traffic, for the slowest group and shard. Forward
 * it is gathers in each group; backward it is reductions in the groups and among them.
 * @param across  share of the time that runs among groups
 */
static double uncontended_s(const struct builder *builder, const struct replicas *replicas, enum pass pass,
                            double parameters, double bytes, double *across)
{
    enum dag_purpose purpose = pass == PASS_BACKWARD ? reduction_of(builder) : DAG_ALL_GATHER;
    int32_t m = replicas->n / replicas->group;
    double group_s = 0;
    for (int32_t g = 0; g < m && replicas->group > 1; g++) {
        struct builder_collective collective = group_collective(replicas, purpose, parameters, bytes, g);
        group_s = fmax(group_s, builder_collective_s(builder, &collective));
    }
    *across = 0;
    if (pass == PASS_FORWARD || m == 1)
        return group_s;
    double among_s = across_s(builder, replicas, parameters, bytes);
    *across = among_s / (group_s + among_s);
    return group_s + among_s;
}

/* Return the parameters of one of Megatron-LM's collectives among n ranks (core/distributed: max(40e6, 1e6 n)). */
static double bucket_parameters(const struct replicas *replicas, double parameters)
{
    double most = fmax(40e6, 1e6 * replicas->n);
    return parameters / ceil(parameters / most);
}

/* Return whether each n successive GPUs of the replicas are in one NVLink domain. Other stages may be in others. */
static enum overlap_extent overlap_place_of(const struct builder *builder, const struct replicas *replicas, int32_t n)
{
    for (int32_t i = 0; i < replicas->n; i++)
        if (builder->at[replicas->ranks[i]].domain != builder->at[replicas->ranks[i - i % n]].domain)
            return OVERLAP_OVER_DOMAINS;
    return OVERLAP_IN_DOMAIN;
}

/* Return the kernels beside the replicas' collectives: those of the first micro-batch's pass on all chunks of a rank.
 */
static struct overlap_kernels kernels_of(const struct builder *builder, const struct replicas *replicas, enum pass pass)
{
    const struct dag_rank *at = &builder->dag->ranks[replicas->ranks[0]];
    const struct builder_pipe *pipe = &builder->pipes[at->pipeline];
    const struct plan_layout *layout = &pipe->plan->layout;
    struct overlap_kernels kernels = {0};
    if (pass == PASS_BACKWARD && pipe->plan->splits_backward)
        pass = PASS_WEIGHT;
    for (int32_t chunk = 0; chunk < layout->chunks && plan_partition_of(pipe->plan, pass)->n_micro_batches > 0;
         chunk++) {
        const struct cost_pass *cost = builder_cost_of(pipe, pass, 0, chunk * layout->stages + at->stage);
        kernels.all_s += cost_pass_s(cost);
        kernels.product_s += cost->product_s;
    }
    return kernels;
}

/*
 * Return the share of a collective's time that passes beside it lose; the share `across` of it runs
 * among all groups.
 */
static double loss_of(const struct builder *builder, const struct replicas *replicas, enum pass pass, double across)
{
    const struct device *device = builder->setting->device;
    struct overlap_kernels kernels = kernels_of(builder, replicas, pass);
    double group = overlap_loss(device, overlap_place_of(builder, replicas, replicas->group), kernels);
    double all = overlap_loss(device, overlap_place_of(builder, replicas, replicas->n), kernels);
    return (1 - across) * group + across * all;
}

/* Return unhidden_s; -1 if the rank has no passes or a representative. */
static double rank_exposed_s(const struct builder *builder, int32_t dag_rank, enum pass pass, double chunk_s,
                             double loss)
{
    return builder->dag->ranks[dag_rank].representative == dag_rank ? unhidden_s(builder, dag_rank, pass, chunk_s, loss)
                                                                    : -1;
}

/*
 * Find the exposed part of a collective of all parameters, `bytes` each: the part that the passes `pass` of each rank
 * do not hide. FSDP's stages reduce behind their last backward, so nothing hides it. @return seconds of the whole
 * collective without other traffic
 */
static double find_exposed(const struct builder *builder, struct replicas *replicas, enum pass pass, double bytes)
{
    int32_t chunks = builder->pipes[0].plan->layout.chunks, n_passes = 0;
    int32_t hides = pass == PASS_BACKWARD ? SCENARIO_OVERLAP_GRADIENTS : SCENARIO_OVERLAP_BOTH;
    enum dag_purpose purpose = pass == PASS_BACKWARD ? reduction_of(builder) : DAG_ALL_GATHER;
    double across, all_s = uncontended_s(builder, replicas, pass, replicas->parameters, bytes, &across);
    all_s += experts_s(builder, replicas, purpose, replicas->expert_parameters * bytes);
    double open_s = all_s;
    if (builder->setting->dp_overlap >= hides && !builder->setting->staged && all_s > 0) {
        double chunk = replicas->parameters / chunks, bucket = bucket_parameters(replicas, chunk);
        double bucket_s = uncontended_s(builder, replicas, pass, bucket, bytes, &across);
        double expert_chunk = replicas->expert_parameters / chunks;
        double expert_bucket = expert_chunk > 0 ? bucket_parameters(replicas, expert_chunk) : 1;
        double expert_s = experts_s(builder, replicas, purpose, expert_chunk > 0 ? expert_bucket * bytes : 0);
        double chunk_s = bucket_s * chunk / bucket + expert_s * (expert_chunk / expert_bucket),
               loss = loss_of(builder, replicas, pass, across);
        double least_s = bucket_s + (chunks * chunk_s - bucket_s) * loss;
        for (int32_t i = 0; i < replicas->n; i++) {
            double behind_s = rank_exposed_s(builder, replicas->ranks[i], pass, chunk_s, loss);
            replicas->exposed_s[i] = behind_s < 0 ? -1 : fmax(behind_s, least_s);
            n_passes += behind_s >= 0;
        }
        open_s = chunks * chunk_s;
    }
    for (int32_t i = 0; i < replicas->n && n_passes == 0; i++) /* no passes hide it */
        replicas->exposed_s[i] = open_s;
    return all_s;
}

static double least_exposed_s(const struct replicas *replicas)
{
    double least = INFINITY;
    for (int32_t i = 0; i < replicas->n; i++)
        if (replicas->exposed_s[i] >= 0)
            least = fmin(least, replicas->exposed_s[i]);
    return least;
}

static double most_exposed_s(const struct replicas *replicas)
{
    double most = 0;
    for (int32_t i = 0; i < replicas->n; i++)
        most = fmax(most, replicas->exposed_s[i]);
    return most;
}

/* Note that one task ends a rank's work. */
static void set_ready(int32_t *ready, int32_t task)
{
    ready[0] = task;
    for (int32_t k = 1; k < N_READY; k++)
        ready[k] = -1;
}

/* Append waits: a rank that hides less than those that hide most delays its reduction by the difference. */
static void add_waits(struct builder *builder, struct replicas *replicas, double least_s)
{
    for (int32_t i = 0; i < replicas->n; i++) {
        if (replicas->exposed_s[i] <= least_s)
            continue;
        struct dag_task task =
            builder_task_of(builder, replicas->ranks[i], DAG_STREAM_COLLECTIVE, DAG_SYNC, DAG_REDUCE_SCATTER);
        int32_t wait = builder_task(builder, task, replicas->exposed_s[i] - least_s);
        int32_t *ready = &replicas->ready[N_READY * i];
        for (int32_t k = 0; k < N_READY; k++)
            builder_edge(builder, ready[k], DAG_COLLECTIVE);
        set_ready(ready, wait);
    }
}

/*
 * Fill in the tasks that the ranks of an all-reduce wait for. They are the reduce-scatters of their groups, or without
 * these their own work.
 */
static void fill_shard_collective(const struct replicas *replicas, const int32_t *scattered, int32_t i, int32_t *ranks,
                                  int32_t *ready)
{
    for (int32_t g = 0; g < replicas->n / replicas->group; g++) {
        int32_t dag_rank = g * replicas->group + i;
        ranks[g] = replicas->ranks[dag_rank];
        for (int32_t k = 0; k < N_READY; k++)
            ready[N_READY * g + k] = replicas->ready[N_READY * dag_rank + k];
        if (scattered[g] >= 0)
            set_ready(&ready[N_READY * g], scattered[g]);
    }
}

/*
 * Append the reduction of each group, then an all-reduce of each shard. @return a task after both,
 * -1: there is none
 */
static int32_t add_reduction(struct builder *builder, struct replicas *replicas, double bytes)
{
    double all_s = find_exposed(builder, replicas, PASS_BACKWARD, bytes), least_s = least_exposed_s(replicas);
    double share = all_s > 0 ? least_s / all_s : 1;
    add_waits(builder, replicas, least_s);
    int32_t m = replicas->n / replicas->group, n_rings = m > 1 ? replicas->group : 0;
    int32_t *ranks = check_malloc((size_t)m * sizeof *ranks);
    int32_t *ready = check_malloc(N_READY * (size_t)m * sizeof *ready);
    int32_t *done = check_malloc((size_t)(m + n_rings) * sizeof *done);
    for (int32_t g = 0; g < m; g++)
        done[g] = -1;
    for (int32_t g = 0; g < m && replicas->group > 1; g++) {
        struct builder_collective scatter =
            group_collective(replicas, reduction_of(builder), replicas->parameters, bytes, g);
        scatter.share = share;
        done[g] = builder_collective(builder, &scatter);
    }
    struct builder_collective reduce =
        shard_collective(replicas, builder->setting->tensor, replicas->parameters, bytes, ranks, ready);
    reduce.share = share;
    for (int32_t i = 0; i < n_rings; i++) {
        fill_shard_collective(replicas, done, i, ranks, ready);
        done[m + i] = builder_collective(builder, &reduce);
    }
    int32_t last = add_experts(builder, replicas, reduction_of(builder), bytes, share, done[m + n_rings - 1]);
    if (n_rings > 1) { /* one task joins all rings */
        last = builder_sync(builder, replicas->ranks[0], DAG_ALL_REDUCE);
        for (int32_t i = 0; i < n_rings; i++)
            builder_edge(builder, done[m + i], DAG_COLLECTIVE);
    }
    free(ranks);
    free(ready);
    free(done);
    return last;
}

/* Append a copy of a rank to or from the host. @return its number */
static int32_t add_host_copy(struct builder *builder, int32_t dag_rank, enum dag_purpose purpose, double bytes)
{
    bool out = purpose == DAG_OFFLOAD;
    struct dag_task task =
        builder_task_of(builder, dag_rank, out ? DAG_STREAM_TO_HOST : DAG_STREAM_FROM_HOST, DAG_SEND, purpose);
    *(out ? &task.to_rank : &task.from_rank) = -1;
    return builder_send(builder, task, cost_of_transfer(builder->setting, COST_PCIE, bytes, 1));
}

/*
 * Append the step on the host of a rank: its gradients go there, the CPUs work, and the weights come back. @return the
 * last copy, -1: the host has no share
 */
static int32_t add_host_step(struct builder *builder, const struct replicas *replicas, int32_t dag_rank, int32_t norm)
{
    const struct cost_setting *setting = builder->setting;
    double host_s = cost_host_optimizer_s(setting, replicas->parameters, replicas->group);
    struct cost_host_copies copies = cost_optimizer_copies(setting, replicas->parameters, replicas->group);
    if (host_s <= 0)
        return -1;
    if (copies.to_host_bytes > 0) {
        add_host_copy(builder, dag_rank, DAG_OFFLOAD, copies.to_host_bytes);
        builder_edge(builder, norm, DAG_COLLECTIVE);
    }
    int32_t step =
        builder_task(builder, builder_task_of(builder, dag_rank, DAG_STREAM_TO_HOST, DAG_SYNC, DAG_OFFLOAD), host_s);
    builder_edge(builder, norm, DAG_COLLECTIVE);
    int32_t back = add_host_copy(builder, dag_rank, DAG_PREFETCH, copies.from_host_bytes);
    builder_edge(builder, step, DAG_COLLECTIVE);
    return back;
}

/* Append the optimizers behind the gradients' norm. The GPU updates its own share beside the host. */
static void add_optimizers(struct builder *builder, struct replicas *replicas, int32_t norm)
{
    const struct cost_setting *setting = builder->setting;
    double seconds =
        cost_of_stage(cost_optimizer_s, &replicas->rank_setting, replicas->all_parameters, replicas->group) +
        cost_cast_weights_s(&replicas->rank_setting);
    for (int32_t i = 0; i < replicas->n; i++) {
        int32_t dag_rank = replicas->ranks[i];
        double factor = faults_factor(setting->faults, FAULT_GPU, builder->dag->ranks[dag_rank].rank);
        struct dag_task task = builder_task_of(builder, dag_rank, DAG_STREAM_COMPUTE, DAG_OPTIMIZER, DAG_PASS);
        set_ready(&replicas->ready[N_READY * i], builder_task(builder, task, factor * seconds));
        builder_edge(builder, norm, DAG_COLLECTIVE);
        replicas->ready[N_READY * i + 1] = add_host_step(builder, replicas, dag_rank, norm);
    }
}

static void add_gathers(struct builder *builder, struct replicas *replicas)
{
    double parameter_bytes = cost_gathered_parameter_bytes(&replicas->rank_setting, replicas->all_parameters);
    double all_s = find_exposed(builder, replicas, PASS_FORWARD, parameter_bytes);
    double share = all_s > 0 ? most_exposed_s(replicas) / all_s : 1;
    int32_t last = -1;
    for (int32_t g = 0; g < replicas->n / replicas->group && replicas->group > 1; g++) {
        struct builder_collective collective =
            group_collective(replicas, DAG_ALL_GATHER, replicas->parameters, parameter_bytes, g);
        collective.share = share;
        last = builder_collective(builder, &collective);
    }
    add_experts(builder, replicas, DAG_ALL_GATHER, parameter_bytes, share, last);
}

/*
 * Append the all-reduces of tied embeddings on two stages, after both stages' reductions. The ranks all-reduce the
 * table's gradients in pairs, and `norm` waits for them.
 */
static void add_tied_embeddings(struct builder *builder, struct replicas *first, int32_t tensor,
                                const int32_t reduced[2], int32_t *done)
{
    const struct plan_layout *layout = &builder->plan->phases[builder->phase].pipelines[0].layout;
    const struct model *model = builder->setting->model;
    struct replicas last = {.ranks = check_malloc((size_t)first->n * sizeof(int32_t)),
                            .ready = check_malloc(N_READY * (size_t)first->n * sizeof(int32_t))};
    collect(builder, 0, tensor, first);
    collect(builder, layout->stages - 1, tensor, &last);
    for (int32_t i = 0; i < first->n; i++) {
        int32_t ranks[] = {first->ranks[i], last.ranks[i]};
        int32_t ready[2 + 2 * N_READY] = {reduced[0], reduced[1]};
        memcpy(ready + 2, &first->ready[N_READY * i], N_READY * sizeof *ready);
        memcpy(ready + 2 + N_READY, &last.ready[N_READY * i], N_READY * sizeof *ready);
        struct builder_collective collective = {.ranks = ranks,
                                                .ready = ready,
                                                .n = 2,
                                                .n_ready = reduced[0] >= 0 ? 2 : 2 + 2 * N_READY,
                                                .purpose = DAG_ALL_REDUCE,
                                                .bytes = (double)model->hidden *
                                                         model_vocabulary_share(model, layout->tensor) *
                                                         cost_precisions(builder->setting).gradient,
                                                .share = 1};
        done[i] = builder_collective(builder, &collective);
    }
    free(last.ranks);
    free(last.ready);
}

/*
 * Append the sums of gradients that TP ranks with copies of a head need, before those gradients are reduced. zero2 and
 * zero3 have reduced them in the passes. A rank's sum ends its work: it is its latest ring.
 */
static void add_copied_sums(struct builder *builder, int32_t stage, int32_t tensor, struct replicas *replicas)
{
    const struct cost_setting *setting = builder->setting;
    const struct cost_setting rank_setting =
        dag_rank_setting(setting, &builder->plan->phases[builder->phase].pipelines[0].layout, stage);
    double sent_bytes;
    double seconds =
        cost_copied_sum_s(&rank_setting, cost_shards_in_passes(setting) ? cost_shards(setting) : 1, &sent_bytes);
    for (int32_t i = 0; sent_bytes > 0 && i < replicas->n; i++) {
        int32_t dag_rank = replicas->ranks[i];
        int32_t sum = builder_task(
            builder, builder_task_of(builder, dag_rank, DAG_STREAM_COLLECTIVE, DAG_SYNC, DAG_TENSOR), seconds);
        for (int32_t k = 0; k < N_READY; k++)
            builder_edge(builder, replicas->ready[N_READY * i + k], DAG_COLLECTIVE);
        builder->at[dag_rank].ring = sum;
    }
    collect(builder, stage, tensor, replicas);
}

/* Append the reductions of all stages, then the gradient norm, for which all wait. @return the SYNC of the norm */
static int32_t add_norm(struct builder *builder, int32_t n_stages, int32_t n_tensor, struct replicas *replicas)
{
    int32_t n = n_stages * n_tensor, n_tied = 0;
    double bytes = cost_precisions(builder->setting).reduced;
    int32_t *reduced = check_malloc((size_t)n * sizeof *reduced), *tied = NULL;
    for (int32_t i = 0; i < n; i++) {
        collect(builder, i / n_tensor, i % n_tensor, replicas);
        add_copied_sums(builder, i / n_tensor, i % n_tensor, replicas);
        reduced[i] = cost_shards_in_passes(builder->setting) ? -1 : add_reduction(builder, replicas, bytes);
    }
    if (model_copies_embedding(builder->setting->model) && n_stages > 1) {
        tied = check_malloc((size_t)(n_tensor * replicas->n) * sizeof *tied);
        for (int32_t tensor = 0; tensor < n_tensor; tensor++, n_tied += replicas->n) {
            const int32_t ends[] = {reduced[tensor], reduced[n - n_tensor + tensor]};
            add_tied_embeddings(builder, replicas, tensor, ends, tied + n_tied);
        }
    }
    int32_t norm = builder_sync(builder, builder->pipes[0].first_rank, DAG_REDUCE_SCATTER);
    for (int32_t i = 0; i < n_tied; i++)
        builder_edge(builder, tied[i], DAG_COLLECTIVE);
    for (int32_t i = 0; i < n; i++) {
        builder_edge(builder, reduced[i], DAG_COLLECTIVE);
        if (reduced[i] >= 0)
            continue;
        collect(builder, i / n_tensor, i % n_tensor, replicas);
        for (int32_t k = 0; k < N_READY * replicas->n; k++)
            builder_edge(builder, replicas->ready[k], DAG_COLLECTIVE);
    }
    free(reduced);
    free(tied);
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
    struct replicas replicas = {.ranks = check_malloc(n * sizeof(int32_t)),
                                .ready = check_malloc(N_READY * n * sizeof(int32_t)),
                                .exposed_s = check_malloc(n * sizeof(double))};
    int32_t n_stages = phase->pipelines[0].layout.stages, n_tensor = builder->pipes[0].n_tensor;
    int32_t norm = add_norm(builder, n_stages, n_tensor, &replicas);
    for (int32_t i = 0; i < n_stages * n_tensor; i++) {
        collect(builder, i / n_tensor, i % n_tensor, &replicas);
        add_optimizers(builder, &replicas, norm);
        if (builder->setting->sharding != SCENARIO_ZERO3)
            add_gathers(builder, &replicas);
    }
    free(replicas.ranks);
    free(replicas.ready);
    free(replicas.exposed_s);
    return true;
}
