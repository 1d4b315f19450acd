/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "bounds/memory_pipe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "bounds/stage_memory.h"
#include "cost/activation.h"
#include "cost/states.h"

/* Bytes of a micro-batch at the ends of the pipeline, in addition to memory_micro_batch. */
struct end_bytes {
    double tokens;               /* tokens of the micro-batch on a rank */
    double embedding;            /* on the first virtual stage, kept from forward to backward */
    double head, head_workspace; /* on the last virtual stage: kept from forward to backward; used while it runs */
    double head_weight;          /* as memory_micro_batch.weight */
};

/* Bytes of a token of a forward micro-batch. kv_bytes: keys and values kept in addition if its sample is sliced. */
struct token {
    struct dag_token of;
    double kv_bytes;
};

/* A pipe while it is opened, and its current layer kind with setting and tokens of each forward micro-batch. */
struct opening {
    struct memory_pipe *pipe;
    const struct relations *relations;
    struct end_bytes *ends[N_PASSES]; /* [micro-batch] */
    int32_t layer_kind;
    const struct cost_setting *stage_setting;
    struct token *tokens;
};

/*
 * Add the bytes that a split backward of the layers keeps for its weights' gradients. Their workspace is inputs that
 * are gathered again.
 */
static void add_weight(const struct cost_setting *stage_setting, double tokens, struct memory_micro_batch *bytes)
{
    bytes->weight = tokens * cost_weight_bytes(stage_setting);
    bytes->weight_workspace = cost_gathers_inputs(stage_setting) ? cost_precisions(stage_setting).activation * tokens *
                                                                       (double)stage_setting->model->hidden
                                                                 : 0;
}

/* Return the bytes that the layers hold for the tokens of a forward micro-batch that one backward micro-batch consumes.
 */
static struct memory_micro_batch bytes_of_share(const struct opening *opening, const struct relations_share *share)
{
    const struct memory_pipe *pipe = opening->pipe;
    const struct plan_micro_batch *planned = &pipe->plan->partition[PASS_FORWARD].micro_batches[share->forward];
    const struct token *token = &opening->tokens[share->forward];
    int64_t tokens = (int64_t)share->whole_tokens + share->sliced_tokens;
    struct memory_micro_batch bytes = {.activations = (double)tokens * token->of.held,
                                       .kv = token->kv_bytes * ((double)share->sliced_tokens / planned->context)};
    if (planned->streams)
        bytes.streamed = plan_offload(pipe->plan, share->forward, pipe->kinds->stage[opening->layer_kind]) *
                         dag_offloadable_of_tokens(&token->of, tokens, share->sliced_tokens);
    return bytes;
}

/*
 * Return a token of each forward micro-batch. Tokens are equal in micro-batches of a kind, except for scores that are
 * kept. Caller frees.
 */
static struct token *tokens_of(const struct plan_pipeline *pipeline, const struct cost_setting *stage_setting)
{
    int32_t n = pipeline->partition[PASS_FORWARD].n_micro_batches;
    struct token *tokens = check_malloc((size_t)n * sizeof *tokens);
    for (int32_t micro_batch = 0; micro_batch < n; micro_batch++) {
        const struct plan_micro_batch *planned = &pipeline->partition[PASS_FORWARD].micro_batches[micro_batch];
        if (micro_batch > 0 && dag_has_same_token(pipeline, stage_setting, micro_batch)) {
            tokens[micro_batch] = tokens[micro_batch - 1];
            continue;
        }
        tokens[micro_batch].of = dag_token_of(pipeline, stage_setting, micro_batch);
        tokens[micro_batch].kv_bytes =
            stage_token_of(stage_setting, false, false, planned->context, planned->recompute).kv;
    }
    return tokens;
}

static void add_share(struct memory_micro_batch *sum, const struct memory_micro_batch *share)
{
    sum->activations += share->activations;
    sum->kv += share->kv;
    sum->streamed += share->streamed;
}

static void open_workspace(const struct opening *opening, enum pass pass, struct memory_micro_batch *micro_batches)
{
    const struct plan_pipeline *pipeline = opening->pipe->plan;
    const struct cost_setting *stage_setting = opening->stage_setting;
    struct cost_workspace each = {0};
    for (int32_t micro_batch = 0; micro_batch < pipeline->partition[pass].n_micro_batches; micro_batch++) {
        const struct plan_micro_batch *planned = &pipeline->partition[pass].micro_batches[micro_batch];
        double scores = 0, gathered_bytes = 0;
        if (micro_batch == 0 || planned[-1].recompute != planned->recompute)
            each = cost_workspace_of(stage_setting, planned->recompute);
        if (stage_setting->attention == DEVICE_UNFUSED || stage_setting->cp_type == SCENARIO_ALL_GATHER) {
            struct cost_micro_batch work = dag_micro_batch(pipeline, pass, micro_batch);
            scores = cost_scores(stage_setting, &work);
            gathered_bytes = cost_gathered_kv_bytes(stage_setting, pass, &work);
        }
        micro_batches[micro_batch].workspace =
            cost_workspace_of_tokens(&each, opening->ends[pass][micro_batch].tokens, scores, gathered_bytes);
    }
}

/*
 * Add the tokens that a backward micro-batch consumes of a forward micro-batch to both of them. This covers the layers
 * of a layer kind.
 */
static void open_layers(const struct opening *opening)
{
    const struct relations *relations = opening->relations;
    const struct plan_partition *partition = opening->pipe->plan->partition;
    const struct cost_setting *stage_setting = opening->stage_setting;
    struct memory_micro_batch *forwards = memory_pipe_micro_batches(opening->pipe, PASS_FORWARD, opening->layer_kind),
                              *backwards = memory_pipe_micro_batches(opening->pipe, PASS_BACKWARD, opening->layer_kind);
    double kv = stage_token_of(stage_setting, false, false, 1, RECOMPUTE_NONE).kv_gradient;
    open_workspace(opening, PASS_FORWARD, forwards);
    open_workspace(opening, PASS_BACKWARD, backwards);
    for (int32_t micro_batch = 0; micro_batch < partition[PASS_BACKWARD].n_micro_batches; micro_batch++) {
        struct memory_micro_batch *bytes = &backwards[micro_batch];
        int32_t context = partition[PASS_BACKWARD].micro_batches[micro_batch].context;
        for (int32_t i = relations->share_first[micro_batch]; i < relations->share_first[micro_batch + 1]; i++) {
            int32_t forward = relations->shares[i].forward;
            struct memory_micro_batch share = bytes_of_share(opening, &relations->shares[i]);
            add_share(&forwards[forward], &share);
            add_share(bytes, &share);
        }
        if (opening->pipe->plan->splits_backward)
            add_weight(stage_setting, opening->ends[PASS_BACKWARD][micro_batch].tokens, bytes);
        bytes->opened = kv * (double)relations->opened_tokens[micro_batch] / context;
        bytes->closed = kv * (double)relations->closed_tokens[micro_batch] / context;
    }
}

/* Add up the bytes of embedding and head, which do not depend on the number of layers. */
static void open_ends(const struct opening *opening, const struct cost_setting *stage_setting)
{
    const struct relations *relations = opening->relations;
    const struct plan_pipeline *pipeline = opening->pipe->plan;
    struct end_bytes *forwards = opening->ends[PASS_FORWARD], *backwards = opening->ends[PASS_BACKWARD];
    const struct stage_token token = stage_token_of(stage_setting, true, true, 1, RECOMPUTE_NONE);
    for (int pass = 0; pass < N_PASSES; pass++)
        for (int32_t micro_batch = 0; micro_batch < pipeline->partition[pass].n_micro_batches; micro_batch++) {
            struct end_bytes *end = &opening->ends[pass][micro_batch];
            struct cost_micro_batch work = dag_micro_batch(pipeline, (enum pass)pass, micro_batch);
            end->tokens = cost_micro_batch_tokens(&work);
            end->head_workspace = end->tokens * token.head_workspace;
            if (end->tokens > 0 && !cost_shards_in_passes(stage_setting)) /* otherwise moments have it */
                end->head_workspace += cost_head_early_bytes(stage_setting);
            if (pass == PASS_BACKWARD && pipeline->splits_backward)
                end->head_weight = cost_head_weight_bytes(stage_setting, end->tokens);
        }
    for (int32_t micro_batch = 0; micro_batch < pipeline->partition[PASS_BACKWARD].n_micro_batches; micro_batch++)
        for (int32_t i = relations->share_first[micro_batch]; i < relations->share_first[micro_batch + 1]; i++) {
            const struct relations_share *share = &relations->shares[i];
            int32_t context = pipeline->partition[PASS_FORWARD].micro_batches[share->forward].context;
            double tokens = (double)((int64_t)share->whole_tokens + share->sliced_tokens) / context;
            double head = tokens * token.head, embedding = tokens * token.embedding;
            forwards[share->forward].head += head;
            forwards[share->forward].embedding += embedding;
            backwards[micro_batch].head += head;
            backwards[micro_batch].embedding += embedding;
        }
}

/* Add the bytes that go to the host on virtual stages of the layer kind, with those that stream. */
static void add_offloaded(const struct opening *opening)
{
    const struct relations *relations = opening->relations;
    const struct memory_pipe *pipe = opening->pipe;
    const struct plan_partition *partition = pipe->plan->partition;
    for (int32_t stage = 0; stage < pipe->plan->layout.stages * pipe->plan->layout.chunks; stage++) {
        double *forwards = pipe->offloaded[PASS_FORWARD] + stage * partition[PASS_FORWARD].n_micro_batches,
               *backwards = pipe->offloaded[PASS_BACKWARD] + stage * partition[PASS_BACKWARD].n_micro_batches;
        if (pipe->layer_kind[pipe->kinds->kind[stage]] != opening->layer_kind)
            continue;
        for (int32_t micro_batch = 0; micro_batch < partition[PASS_BACKWARD].n_micro_batches; micro_batch++)
            for (int32_t i = relations->share_first[micro_batch]; i < relations->share_first[micro_batch + 1]; i++) {
                const struct relations_share *share = &relations->shares[i];
                double offload = plan_offload(pipe->plan, share->forward, stage);
                if (offload <= 0)
                    continue;
                double bytes = offload * dag_offloadable_of_tokens(&opening->tokens[share->forward].of,
                                                                   (int64_t)share->whole_tokens + share->sliced_tokens,
                                                                   share->sliced_tokens);
                forwards[share->forward] += bytes;
                backwards[micro_batch] += bytes;
            }
    }
}

/* Add up the buffers of blocks, one layer's messages on both ranks. A stage that runs no pass has none. */
static void open_blocks(const struct plan_phase *phase, int32_t number, const struct cost_setting *setting,
                        struct memory_pipe *pipe)
{
    const struct plan_pipeline *pipeline = pipe->plan;
    for (int pass = 0; phase->n_attentions > 0 && pass < N_PASSES; pass++)
        pipe->exchanged[pass] =
            check_calloc((size_t)pipeline->partition[pass].n_micro_batches * (size_t)pipeline->layout.stages,
                         sizeof *pipe->exchanged[pass]);
    for (int32_t i = 0; i < phase->n_attentions; i++)
        for (int32_t k = 0; k < phase->attentions[i].n_blocks; k++) {
            enum pass pass = phase->attentions[i].pass;
            const struct plan_block *block = &phase->blocks[phase->attentions[i].first_block + k];
            const struct plan_place *from = &block->from, *to = &block->to;
            bool gives = from->pipeline == number, takes = to->pipeline == number && to->micro_batch >= 0;
            if (plan_same_place(*from, *to) || (!gives && !takes))
                continue;
            struct cost_block cost = dag_block_cost(phase, pass, block, setting);
            int32_t n = pipeline->partition[pass].n_micro_batches;
            if (gives)
                pipe->exchanged[pass][from->stage * n + from->micro_batch] += cost.giver_bytes;
            if (takes)
                pipe->exchanged[pass][to->stage * n + to->micro_batch] += cost.taker_bytes;
        }
}

/* Find the kinds with the same layers. */
static void open_layer_kinds(const struct cost_setting *setting, struct memory_pipe *pipe)
{
    struct cost_setting of_kind[DAG_MAX_KINDS];
    for (int32_t kind = 0; kind < pipe->kinds->n; kind++) {
        of_kind[kind] = dag_setting(setting, &pipe->plan->layout, pipe->kinds->stage[kind]);
        pipe->layer_kind[kind] = cost_first_same_layers(of_kind, kind);
    }
}

/* Return the work of a micro-batch in passes that gather and reduce (zero2, zero3: there is one stage). */
static struct cost_work work_of(const struct opening *opening, const struct memory_micro_batch *micro_batch,
                                const struct end_bytes *end)
{
    double layers = micro_batch->activations - micro_batch->streamed;
    return (struct cost_work){.tokens = end->tokens,
                              .workspace = micro_batch->workspace,
                              .layer = layers / cost_n_layers(opening->stage_setting),
                              .layers = layers,
                              .head = end->head,
                              .head_workspace = end->head_workspace};
}

static double most_of(const double *moments, enum cost_moment first, enum cost_moment last)
{
    double most = moments[first];
    for (int i = (int)first + 1; i <= (int)last; i++)
        most = fmax(most, moments[i]);
    return most;
}

/* Set the workspaces of a pass in which gradients come, beside the activations at each moment. */
static void add_moments(const struct opening *opening, const struct memory_micro_batch *micro_batch,
                        const struct end_bytes *end, struct memory_growth *growth)
{
    const struct cost_work work = work_of(opening, micro_batch, end);
    double moments[COST_N_MOMENTS], layer = growth->layers / cost_n_layers(opening->stage_setting);
    cost_moments_of(opening->stage_setting, &work, moments);
    growth->workspace = most_of(moments, COST_IN_LAYER, COST_BEHIND_LAYER) + growth->head;
    growth->next_workspace = most_of(moments, COST_IN_NEXT, COST_BEHIND_NEXT) + growth->head + layer;
    growth->end_workspace = moments[COST_AT_ENDS] + growth->head + growth->layers;
}

/* Set the growth of a kind's micro-batches; this comes before the ends are added to the layers' micro-batches. */
static void add_growth(const struct opening *opening, int32_t kind)
{
    const struct memory_pipe *pipe = opening->pipe;
    bool last = kind == pipe->kinds->n - 1, splits = pipe->plan->splits_backward;
    int32_t n = pipe->plan->partition[PASS_BACKWARD].n_micro_batches;
    const struct memory_micro_batch *micro_batches =
        memory_pipe_micro_batches(pipe, PASS_BACKWARD, pipe->layer_kind[kind]);
    for (int32_t i = 0; i < n; i++) {
        const struct end_bytes *end = &opening->ends[PASS_BACKWARD][i];
        double workspace = splits ? micro_batches[i].weight_workspace : micro_batches[i].workspace;
        struct memory_growth growth = {
            .head = !last    ? 0
                    : splits ? end->head_weight
                             : end->head,
            .layers = splits ? micro_batches[i].weight : micro_batches[i].activations - micro_batches[i].streamed,
            /* Without tensors that zero2 and zero3 gather: their head has no growth (states_gradients.head is 0). */
            .head_workspace = splits ? workspace : cost_head_backward_bytes(opening->stage_setting, end->tokens),
            .workspace = workspace,
            .next_workspace = workspace,
        };
        if (cost_shards_in_passes(opening->stage_setting))
            add_moments(opening, &micro_batches[i], end, &growth);
        *memory_pipe_growth(pipe, kind, i) = growth;
    }
}

/* Add the ends to the layers of a kind's micro-batches. Streamed bytes are never held. */
static void add_ends(const struct opening *opening, int32_t kind)
{
    const struct memory_pipe *pipe = opening->pipe;
    bool first = kind == 0, last = kind == pipe->kinds->n - 1, shards = cost_shards_in_passes(opening->stage_setting);
    for (int pass = 0; pass < N_PASSES; pass++) {
        int32_t n = pipe->plan->partition[pass].n_micro_batches;
        struct memory_micro_batch *micro_batches = memory_pipe_micro_batches(pipe, pass, kind);
        if (pipe->layer_kind[kind] != kind)
            memcpy(micro_batches, memory_pipe_micro_batches(pipe, pass, pipe->layer_kind[kind]),
                   (size_t)n * sizeof *micro_batches);
        for (int32_t i = 0; i < n; i++) {
            const struct end_bytes *end = &opening->ends[pass][i];
            const struct cost_work work = work_of(opening, &micro_batches[i], end);
            micro_batches[i].activations =
                micro_batches[i].activations - micro_batches[i].streamed + (first ? end->embedding : 0);
            if (!last)
                continue;
            micro_batches[i].activations += end->head;
            micro_batches[i].workspace = fmax(end->head_workspace, micro_batches[i].workspace - end->head);
            if (shards)
                micro_batches[i].workspace = cost_moments_most(opening->stage_setting, (enum pass)pass, &work);
            micro_batches[i].weight += end->head_weight;
        }
    }
}

/* Return whether attention is a task of its own, which only context parallelism and blocks cause. */
static bool attends(const struct plan_phase *phase, const struct plan_pipeline *pipeline)
{
    bool any = phase->n_attentions > 0;
    for (int pass = 0; pass < N_PASSES; pass++)
        for (int32_t micro_batch = 0; micro_batch < pipeline->partition[pass].n_micro_batches; micro_batch++)
            any = any || pipeline->partition[pass].micro_batches[micro_batch].context > 1;
    return any;
}

/* Add the layers of all layer kinds, and the bytes that go to the host. */
static void open_all_layers(struct opening opening, const struct cost_setting *setting)
{
    const struct memory_pipe *pipe = opening.pipe;
    for (int32_t kind = 0; kind < pipe->kinds->n; kind++) {
        struct cost_setting stage_setting = dag_setting(setting, &pipe->plan->layout, pipe->kinds->stage[kind]);
        if (pipe->layer_kind[kind] != kind)
            continue;
        opening.layer_kind = kind;
        opening.stage_setting = &stage_setting;
        opening.tokens = tokens_of(pipe->plan, &stage_setting);
        open_layers(&opening);
        if (pipe->offloaded[PASS_FORWARD] != NULL)
            add_offloaded(&opening);
        free(opening.tokens);
    }
}

struct memory_pipe memory_pipe_of(const struct plan_phase *phase, int32_t number, const struct cost_setting *setting,
                                  const struct dag_pipe *of)
{
    const struct plan_pipeline *pipeline = &phase->pipelines[number];
    struct memory_pipe pipe = {.plan = pipeline, .kinds = &of->kinds, .attends = attends(phase, pipeline)};
    struct opening opening = {.pipe = &pipe, .relations = &of->relations};
    size_t n_virtual = (size_t)(pipeline->layout.stages * pipeline->layout.chunks);
    for (int pass = 0; pass < N_PASSES; pass++) {
        size_t n = (size_t)pipeline->partition[pass].n_micro_batches;
        pipe.micro_batches[pass] = check_calloc(n * (size_t)of->kinds.n, sizeof *pipe.micro_batches[pass]);
        opening.ends[pass] = check_calloc(n, sizeof *opening.ends[pass]);
        if (plan_offloads(pipeline))
            pipe.offloaded[pass] = check_calloc(n * n_virtual, sizeof *pipe.offloaded[pass]);
    }
    open_layer_kinds(setting, &pipe);
    struct cost_setting first = dag_setting(setting, &pipeline->layout, of->kinds.stage[0]);
    open_ends(&opening, &first);
    open_all_layers(opening, setting);
    opening.stage_setting = &first;
    if (cost_frees_gradients(setting)) {
        pipe.growth = check_calloc((size_t)(of->kinds.n * pipeline->partition[PASS_BACKWARD].n_micro_batches),
                                   sizeof *pipe.growth);
        for (int32_t kind = 0; kind < of->kinds.n; kind++)
            add_growth(&opening, kind);
    }
    for (int32_t kind = of->kinds.n - 1; kind >= 0; kind--) /* a layer kind is its own first kind, so it comes last */
        add_ends(&opening, kind);
    free(opening.ends[PASS_FORWARD]);
    free(opening.ends[PASS_BACKWARD]);
    open_blocks(phase, number, setting, &pipe);
    return pipe;
}

void memory_pipe_free(struct memory_pipe *pipe)
{
    for (int pass = 0; pass < N_PASSES; pass++) {
        free(pipe->micro_batches[pass]);
        free(pipe->offloaded[pass]);
        free(pipe->exchanged[pass]);
    }
    free(pipe->growth);
    *pipe = (struct memory_pipe){0};
}
