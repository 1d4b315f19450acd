/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "bounds/stage_memory.h"

#include <math.h>

#include "cost/activation.h"
#include "cost/cache.h"
#include "cost/states.h"

struct stage_token stage_token_of(const struct cost_setting *stage_setting, bool first, bool last, int32_t context,
                                  enum recompute recompute)
{
    /* tokens gathered for each token of a rank */
    int32_t gathers = stage_setting->cp_type == SCENARIO_ALL_GATHER ? context : 1;
    struct slice token = {0, 0, gathers};
    struct cost_micro_batch work = {.slices = &token, .n_slices = 1, .context = gathers, .recompute = recompute};
    struct cost_workspace each = cost_workspace_of(stage_setting, recompute);
    double held = cost_cached_activation_bytes(stage_setting, recompute, false);
    return (struct stage_token){
        .held = held + cost_copied_kv_bytes(stage_setting, recompute, context),
        .kept = cost_kept_kv_bytes(stage_setting, recompute),
        .kv = cost_cached_activation_bytes(stage_setting, recompute, true) - held,
        .kv_gradient = cost_kv_gradient_bytes(stage_setting),
        .workspace = cost_workspace_of_tokens(&each, 1, 0, cost_gathered_kv_bytes(stage_setting, PASS_BACKWARD, &work)),
        .embedding = first ? cost_embedding_bytes(stage_setting, 1) : 0,
        .head = last ? cost_head_bytes(stage_setting, 1) : 0,
        .head_workspace = last ? cost_head_workspace_bytes(stage_setting, 1) : 0,
    };
}

/* Add the moments of zero2 and zero3: whole tensors during a backward and a forward. */
static void add_sharded_moments(const struct cost_setting *stage_setting, double streamed, struct stage_memory *memory)
{
    const struct stage_token *token = &memory->token;
    double layers = token->held * (1 - streamed), fixed[STAGE_MEMORY_MAX_MOMENTS], each[STAGE_MEMORY_MAX_MOMENTS];
    struct cost_work none = {0}, one = {.tokens = 1,
                                        .workspace = token->workspace,
                                        .layer = layers / cost_n_layers(stage_setting),
                                        .layers = layers,
                                        .head = token->head,
                                        .head_workspace = token->head_workspace};
    cost_moments_of(stage_setting, &none, fixed);
    cost_moments_of(stage_setting, &one, each);
    cost_forward_moments_of(stage_setting, &none, fixed + COST_N_MOMENTS);
    cost_forward_moments_of(stage_setting, &one, each + COST_N_MOMENTS);
    memory->n_moments = STAGE_MEMORY_MAX_MOMENTS;
    for (int i = 0; i < memory->n_moments; i++)
        memory->moments[i] = (struct stage_memory_moment){fixed[i], each[i] + token->head - fixed[i]};
}

/* Add the moments of other sharding. A gradient that the loss makes does not grow with the tokens. */
static void add_head_moments(const struct cost_setting *stage_setting, bool last, struct stage_memory *memory)
{
    const struct stage_token *token = &memory->token;
    double layer = token->workspace, head = token->head + token->head_workspace;
    double early = last ? cost_head_early_bytes(stage_setting) : 0;
    memory->n_moments = early > 0 ? 2 : 1;
    memory->moments[0] = (struct stage_memory_moment){0, early > 0 ? layer : fmax(layer, head)};
    memory->moments[1] = (struct stage_memory_moment){early, head};
}

struct stage_memory stage_memory_of(const struct cost_setting *setting, const struct plan_layout *layout, int32_t stage,
                                    int32_t shards, const struct stage_memory_micro_batch *micro_batch)
{
    struct cost_setting stage_setting = dag_setting(setting, layout, stage);
    int32_t rank_stage = stage % layout->stages;
    const struct cost_setting rank_setting = dag_rank_setting(setting, layout, rank_stage);
    bool first = rank_stage == 0, last = rank_stage == layout->stages - 1;
    double parameters = cost_stage_parameters(&rank_setting, first, last);
    struct stage_memory memory = {
        .states_bytes = cost_of_stage(cost_state_bytes, &rank_setting, parameters, shards) +
                        cost_state_block_bytes(&rank_setting, first, last, shards) +
                        cost_cast_weight_bytes(&rank_setting) + cost_placeholder_bytes(&rank_setting, last) +
                        cost_reduce_bucket_bytes(&stage_setting),
        .gradients_bytes = cost_frees_gradients(&stage_setting)
                               ? cost_of_stage(cost_gradient_state_bytes, &rank_setting, parameters, shards)
                               : 0,
        .gathered_bytes = cost_gathered_bytes(&stage_setting),
        .libraries_bytes = stage_setting.device->workspace_bytes,
        .token = stage_token_of(&stage_setting, first, last, layout->context, micro_batch->recompute),
    };
    if (cost_shards_in_passes(&stage_setting))
        add_sharded_moments(&stage_setting, micro_batch->streamed, &memory);
    else
        add_head_moments(&stage_setting, last, &memory);
    return memory;
}

double stage_memory_standing_bytes(const struct stage_memory *memory)
{
    return memory->states_bytes + memory->gathered_bytes + memory->libraries_bytes;
}

double stage_memory_work_bytes(const struct stage_memory *memory, double tokens)
{
    double most = -INFINITY;
    for (int32_t i = 0; i < memory->n_moments; i++)
        most = fmax(most, memory->moments[i].fixed_bytes + memory->moments[i].token_bytes * tokens);
    return most;
}

double stage_memory_tokens(const struct stage_memory *memory, double room_bytes, double token_bytes)
{
    double least = INFINITY;
    for (int32_t i = 0; i < memory->n_moments; i++)
        least =
            fmin(least, (room_bytes - memory->moments[i].fixed_bytes) / (token_bytes + memory->moments[i].token_bytes));
    return least;
}
