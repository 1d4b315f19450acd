/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "bounds/traffic.h"

#include "cost/states.h"

/* One pipeline of the plan. */
struct source {
    const struct plan_pipeline *plan;
    const struct dag_pipe *pipe;
    const struct cost_setting *setting;
    double ranks; /* GPUs of a stage */
};

static void add_pass(const struct source *source, enum pass pass, int32_t micro_batch, int32_t stage,
                     struct traffic *traffic)
{
    const struct plan_layout *layout = &source->plan->layout;
    const struct dag_kinds *kinds = &source->pipe->kinds;
    const struct cost_pass *cost = &source->pipe->cost[pass][micro_batch * kinds->n + kinds->kind[stage]];
    int32_t to = pass == PASS_FORWARD ? stage + 1 : stage - 1;
    bool sends = pass != PASS_WEIGHT && 0 <= to && to < layout->stages * layout->chunks && layout->stages > 1;
    traffic->bytes[TRAFFIC_TENSOR] += source->ranks * cost->tensor_bytes;
    traffic->bytes[TRAFFIC_SHARDS] += source->ranks * cost->shard_bytes;
    traffic->bytes[TRAFFIC_EXPERTS] += source->ranks * cost->expert_bytes;
    traffic->bytes[TRAFFIC_CONTEXT] += source->ranks * cost->ring_bytes;
    traffic->bytes[TRAFFIC_BOUNDARY] += sends ? source->ranks * cost->boundary_bytes : 0;
}

/* Add offloaded activations: to the host, and back for the backward pass. */
static void add_host(const struct source *source, int32_t micro_batch, int32_t stage, struct traffic *traffic)
{
    const struct plan_partition *partition = &source->plan->partition[PASS_FORWARD];
    double share = plan_offload(source->plan, micro_batch, stage);
    if (share <= 0)
        return;
    struct cost_setting stage_setting = dag_setting(source->setting, &source->plan->layout, stage);
    int64_t tokens =
        plan_micro_batch_tokens(partition, micro_batch) + partition->micro_batches[micro_batch].padding_tokens;
    traffic->bytes[TRAFFIC_HOST] += 2 * source->ranks * share *
                                    dag_offloadable_bytes(source->plan, &stage_setting, micro_batch, tokens,
                                                          source->pipe->relations.sliced_tokens[micro_batch]);
}

static void add_passes(const struct source *source, struct traffic *traffic)
{
    int32_t n_virtual = source->plan->layout.stages * source->plan->layout.chunks;
    for (enum pass pass = PASS_FORWARD; pass < plan_n_passes(source->plan); pass++)
        for (int32_t micro_batch = 0; micro_batch < plan_partition_of(source->plan, pass)->n_micro_batches;
             micro_batch++)
            for (int32_t stage = 0; stage < n_virtual; stage++) {
                add_pass(source, pass, micro_batch, stage, traffic);
                if (pass == PASS_FORWARD)
                    add_host(source, micro_batch, stage, traffic);
            }
}

/* Add the messages of attention by blocks. */
static void add_blocks(const struct plan_phase *phase, const struct cost_setting *setting, struct traffic *traffic)
{
    for (int32_t i = 0; i < phase->n_attentions; i++)
        for (int32_t k = 0; k < phase->attentions[i].n_blocks; k++) {
            const struct plan_block *block = &phase->blocks[phase->attentions[i].first_block + k];
            struct cost_block cost = dag_block_cost(phase, phase->attentions[i].pass, block, setting);
            if (!plan_same_place(block->from, block->to))
                traffic->bytes[TRAFFIC_EXCHANGE] +=
                    phase->pipelines[block->from.pipeline].layout.tensor * (cost.out_bytes + cost.back_bytes);
        }
}

/* Return the bytes that are sent to reduce gradients of parameters, and to gather parameters. n_ranks hold them, and
 * groups of `group` ranks share their states. A parameter has `gathered` bytes. */
static double sync_bytes(const struct cost_setting *setting, double parameters, double gathered, int32_t group,
                         int32_t n_ranks)
{
    double others = (group - 1.0) / group, other_groups = 1 - (double)group / n_ranks, bytes = 0;
    if (!cost_shards_in_passes(setting))
        bytes += parameters * cost_precisions(setting).reduced *
                 ((cost_all_reduces(setting) ? 2 : 1) * others + 2 * other_groups / group);
    if (setting->sharding != SCENARIO_ZERO3)
        bytes += parameters * gathered * others;
    return bytes;
}

/* Add gradients and parameters of a pipeline whose stages have n_ranks replicas. */
static void add_sync(const struct source *source, int32_t n_ranks, struct traffic *traffic)
{
    const struct cost_setting *setting = source->setting;
    const struct plan_layout *layout = &source->plan->layout;
    double gradient_bytes = cost_precisions(setting).gradient, parameters = 0, experts = 0, all_experts = 0,
           gathered_bytes = 0;
    int32_t group = cost_shard_groups(setting) > 1 ? cost_shards(setting) : n_ranks;
    int32_t n_experts = cost_expert_ranks(setting) / layout->tensor;
    for (int32_t stage = 0; stage < layout->stages; stage++) {
        const struct cost_setting rank_setting = dag_rank_setting(setting, layout, stage);
        double copied_bytes;
        cost_copied_sum_s(&rank_setting, cost_shards_in_passes(setting) ? cost_shards(setting) : 1, &copied_bytes);
        traffic->bytes[TRAFFIC_TENSOR] += source->ranks * copied_bytes;
        double of_stage = dag_stage_parameters(setting, layout, stage);
        parameters += source->ranks * of_stage;
        gathered_bytes += source->ranks * of_stage * cost_gathered_parameter_bytes(&rank_setting, of_stage);
        all_experts += source->ranks * cost_expert_parameters(&rank_setting);
    }
    struct cost_host_copies copies = cost_optimizer_copies(setting, parameters, group);
    traffic->bytes[TRAFFIC_HOST] +=
        copies.to_host_bytes + copies.from_host_bytes +
        source->plan->partition[PASS_BACKWARD].n_micro_batches * cost_host_gradient_bytes(setting, parameters, group);
    experts = n_experts > 1 ? all_experts : 0;
    double shared = parameters - all_experts + (all_experts - experts) / cost_expert_peers(setting);
    traffic->bytes[TRAFFIC_SYNC] += sync_bytes(setting, shared, gathered_bytes / parameters, group, n_ranks);
    if (experts > 0)
        traffic->bytes[TRAFFIC_SYNC] +=
            sync_bytes(setting, experts, gathered_bytes / parameters, n_ranks / n_experts, n_ranks / n_experts);
    if (model_copies_embedding(setting->model) && layout->stages > 1)
        traffic->bytes[TRAFFIC_SYNC] += 2 * source->ranks * (double)setting->model->hidden *
                                        model_vocabulary_share(setting->model, layout->tensor) * gradient_bytes;
}

static int32_t places_of_stage(const struct plan_phase *phase)
{
    int32_t n = 0;
    for (int32_t i = 0; i < phase->n_pipelines; i++)
        n += phase->pipelines[i].layout.context;
    return n;
}

struct traffic traffic_of(const struct plan *plan, const struct dag *dag, const struct cost_setting *setting)
{
    struct traffic traffic = {0};
    for (int32_t i = 0; i < plan->n_phases; i++) {
        const struct plan_phase *phase = &plan->phases[i];
        for (int32_t j = 0; j < phase->n_pipelines; j++) {
            const struct plan_pipeline *pipeline = &phase->pipelines[j];
            struct source source = {pipeline, &dag->pipes[dag->pipes[dag->first_pipe[i] + j].representative], setting,
                                    (double)pipeline->layout.tensor * pipeline->layout.context};
            add_passes(&source, &traffic);
            if (i == plan->n_phases - 1)
                add_sync(&source, places_of_stage(phase), &traffic);
        }
        add_blocks(phase, setting, &traffic);
        for (int32_t j = 0; j < phase->n_reshards; j++)
            if (phase->reshards[j].from_rank != phase->reshards[j].to_rank)
                traffic.bytes[TRAFFIC_RESHARD] += phase->reshards[j].bytes;
    }
    return traffic;
}
