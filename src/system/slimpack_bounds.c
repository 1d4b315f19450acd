/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "system/slimpack.h"

#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "cost/gathered.h"
#include "dag/dag.h"

double slimpack_pass_s(const struct plan_pipeline *pipeline, const struct cost_setting *setting, enum pass pass,
                       double enough_s)
{
    int32_t before = pipeline->layout.stages - 1, n_units = pipeline->cut[pass].n_units;
    double sum_s = dag_stage_s(pipeline, setting, pass, before, enough_s);
    for (int32_t stage = 0; stage < before && n_units > 0 && sum_s <= enough_s; stage++) {
        struct cost_pass cost = dag_pass_cost(pipeline, setting, pass, pass == PASS_FORWARD ? 0 : n_units - 1, stage);
        sum_s += cost_pass_s(&cost);
    }
    return sum_s;
}

double slimpack_chain_s(const struct plan_request *request, int32_t tokens)
{
    struct slice slice = {0, 0, tokens};
    struct cost_unit unit = {.slices = &slice, .n_slices = 1, .context = 1};
    struct cost_setting all = *request->setting;
    double sum_s = 0;
    all.layers = (int32_t)all.model->layers; /* of all stages: seconds are in proportion */
    unit.recompute = RECOMPUTE_NONE;
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
        struct cost_pass cost = cost_of_pass(&all, pass, &unit);
        sum_s += cost.other_s + cost.tensor_s + all.layers * cost_attention_least_s(&all, pass, tokens, 1);
    }
    return sum_s;
}

/* What a pipeline's stage holds of each token of a rank, what of it stays there, and what one in work needs beside. */
struct token_bytes {
    double held, kept, work;
};

/* A token's share of what is in work on the one stage of zero2 and zero3, without what is whole: of a forward pass,
 * whose backward has no less (cost/gathered.h). */
static double sharded_work(const struct cost_setting *own, double workspace)
{
    const struct cost_work none = {0}, token = {.tokens = 1,
                                                .workspace = workspace,
                                                .head = cost_head_bytes(own, 1),
                                                .head_workspace = cost_head_workspace_bytes(own, 1)};
    double work[COST_N_FORWARD_MOMENTS], fixed[COST_N_FORWARD_MOMENTS], most = 0;
    cost_forward_moments_of(own, &token, work);
    cost_forward_moments_of(own, &none, fixed);
    for (int i = 0; i < COST_N_FORWARD_MOMENTS; i++)
        most = fmax(most, work[i] - fixed[i]);
    return most;
}

/* @param again  what the one in work computes again */
static struct token_bytes bytes_of_token(const struct slimpack_kind *kind, const struct cost_setting *own, bool last,
                                         enum recompute again)
{
    struct slice token = {0, 0, 1};
    struct cost_unit work = {.slices = &token, .n_slices = 1, .context = 1, .recompute = again};
    struct token_bytes bytes = {
        .held = cost_layers_activation_bytes(own, kind->recompute, false),
        .work = cost_workspace_bytes(own, &work),
    };
    if (last) { /* the head's memory, or a layer's before the head has run or after it is over (bounds/memory.h) */
        bytes.kept = cost_head_bytes(own, 1);
        bytes.work = cost_shards_in_passes(own)
                         ? sharded_work(own, bytes.work)
                         : fmax(cost_head_workspace_bytes(own, 1), bytes.work - cost_head_bytes(own, 1));
    }
    return bytes;
}

/* Tokens of a rank in each unit. Caller frees. */
static double *tokens_of(const struct plan_cut *cut)
{
    double *tokens = check_malloc((size_t)cut->n_units * sizeof *tokens);
    for (int32_t unit = 0; unit < cut->n_units; unit++)
        tokens[unit] = (double)plan_unit_tokens(cut, unit) / cut->units[unit].context;
    return tokens;
}

struct slimpack_walk *slimpack_walks(const struct plan_phase *phase)
{
    struct slimpack_walk *walks = check_calloc((size_t)phase->n_pipelines, sizeof *walks);
    for (int32_t i = 0; i < phase->n_pipelines; i++)
        for (int pass = 0; pass < N_PASSES; pass++)
            walks[i].tokens[pass] = tokens_of(&phase->pipelines[i].cut[pass]);
    return walks;
}

void slimpack_walks_free(struct slimpack_walk *walks, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        for (int pass = 0; pass < N_PASSES; pass++)
            free(walks[i].tokens[pass]);
    free(walks);
}

static inline double larger(double a, double b)
{
    return a > b ? a : b;
}

/* A pipeline whose units are all of a kind; or, without a walk, any that runs a sample with so many tokens of a rank.
 */
struct bounded {
    const struct plan_layout *layout;
    const struct slimpack_kind *kind;
    bool streams; /* a step's own can be away, too */
    const struct slimpack_walk *walk;
    int32_t n_units[N_PASSES];
    double sample_tokens;
};

/* A stage's bytes while its steps are walked. [tokens of a rank] */
struct held {
    struct token_bytes bytes;
    double offload, host_bytes, live, peak;
    bool streams;
};

static inline void hold(struct held *held, double others, double tokens)
{
    double own = tokens * held->bytes.held, away = others * held->bytes.held;
    double here = held->streams ? (own + away) * (1 - held->offload)
                                : own + larger(away * (1 - held->offload), away - held->host_bytes);
    held->peak = larger(held->peak, here + held->live * held->bytes.kept + tokens * held->bytes.work);
}

static inline void run_forward(struct held *held, double tokens)
{
    double others = held->live;
    held->live += tokens;
    hold(held, others, tokens);
}

static void walk_steps(const struct bounded *bounded, int32_t ahead, struct held *held)
{
    const double *forwards = bounded->walk->tokens[PASS_FORWARD], *backwards = bounded->walk->tokens[PASS_BACKWARD];
    int32_t n_forward = bounded->n_units[PASS_FORWARD], forward = 0;
    for (int32_t i = 0; i < bounded->n_units[PASS_BACKWARD]; i++) {
        for (; forward < n_forward && forward < bounded->walk->lead[i] + ahead; forward++)
            run_forward(held, forwards[forward]);
        hold(held, held->live - backwards[i], backwards[i]);
        held->live -= backwards[i];
    }
    for (; forward < n_forward; forward++)
        run_forward(held, forwards[forward]);
}

static double stage_bound_bytes(const struct bounded *bounded, const struct cost_setting *own, int32_t stage)
{
    int32_t ahead = bounded->layout->stages - 1 - stage;
    struct held held = {.bytes = bytes_of_token(bounded->kind, own, ahead == 0, RECOMPUTE_NONE),
                        .offload = bounded->kind->offload,
                        .host_bytes = bounded->kind->host_bytes,
                        .live = bounded->sample_tokens,
                        .streams = bounded->streams};
    if (bounded->walk != NULL)
        walk_steps(bounded, ahead, &held);
    else
        hold(&held, held.live, 0); /* as the backward of the sample begins */
    return held.peak;
}

/* At the optimizer; before the first backward gradients that are freed are not there. */
static double states_bytes(const struct cost_setting *own, bool first, bool last, int32_t shards, bool with_gradients)
{
    double parameters = cost_stage_parameters(own->model, own->tensor, own->layers, first, last);
    double freed = own->frees_gradients ? cost_gradient_state_bytes(own, parameters, shards) : 0;
    return cost_state_bytes(own, parameters, shards) + cost_gathered_bytes(own) + own->device->workspace_bytes -
           (with_gradients ? 0 : freed);
}

/* A stage needs no more than one before it with as many layers, which is at least as far ahead; but the last one has
 * the head. */
static double pipeline_bound_bytes(const struct cost_setting *setting, const struct bounded *bounded, int32_t shards)
{
    const struct plan_layout *layout = bounded->layout;
    int32_t last = layout->stages - 1, before = -1; /* layers of the latest stage looked at */
    double bound = 0;
    for (int32_t stage = 0; stage <= last; stage++) {
        struct cost_setting own = dag_setting(setting, layout, stage);
        if (own.layers == before && stage < last)
            continue;
        before = own.layers;
        double states = states_bytes(&own, stage == 0, stage == last, shards, false);
        bound = larger(bound, states + stage_bound_bytes(bounded, &own, stage));
        bound = larger(bound, states_bytes(&own, stage == 0, stage == last, shards, true));
    }
    return bound;
}

double slimpack_bound_bytes(const struct cost_setting *setting, const struct plan_phase *phase,
                            const struct slimpack_walk *walks, const struct slimpack_kind *kind, int32_t shards)
{
    double bound = 0;
    for (int32_t i = 0; i < phase->n_pipelines; i++) {
        const struct plan_pipeline *pipeline = &phase->pipelines[i];
        const struct plan_cut *forward = &pipeline->cut[PASS_FORWARD], *backward = &pipeline->cut[PASS_BACKWARD];
        struct bounded bounded = {.layout = &pipeline->layout,
                                  .kind = kind,
                                  .streams = forward->n_units > 0 && forward->units->streams,
                                  .walk = &walks[i],
                                  .n_units = {[PASS_FORWARD] = forward->n_units, [PASS_BACKWARD] = backward->n_units}};
        if (forward->n_units > 0)
            bound = larger(bound, pipeline_bound_bytes(setting, &bounded, shards));
    }
    return bound * (1 - 1e-12); /* sums in another order may differ in their last bits */
}

double slimpack_sample_bytes(const struct plan_request *request, double tokens, const struct slimpack_kind *kind)
{
    struct plan_layout layout = request_pipeline_layout(request, 0);
    struct bounded bounded = {
        .layout = &layout, .kind = kind, .streams = request_streams(request), .sample_tokens = tokens};
    return pipeline_bound_bytes(request->setting, &bounded, scenario_plan_shards(&request->layout)) * (1 - 1e-12);
}

struct slimpack_kind slimpack_kind_of(const struct plan_request *request, bool offloads, bool recomputes)
{
    double offload = request_offload_share(request, request->layout.offload);
    struct slimpack_kind kind = {(enum recompute)request->layout.recompute, offload, INFINITY};
    const struct slimpack_knobs *knobs = request->knobs;
    if (recomputes && knobs->recompute == SLIMPACK_BY_UNIT)
        kind.recompute = RECOMPUTE_FULL;
    if (offloads && knobs->offload == SLIMPACK_BY_UNIT)
        kind.offload = request_offload_share(request, 1);
    return kind;
}

/* A token of a sample that a rank runs, at the moment when it holds most: sliced, as its first backward slice begins;
 * whole, while its own pass runs. With what goes to the host, and without. */
struct sample_bytes {
    double sliced, whole, away_sliced, away_whole;
};

static struct sample_bytes sample_bytes_of(const struct slimpack_kind *kind, const struct cost_setting *own, bool last,
                                           bool streams)
{
    struct slice slice = {0, 0, 1};
    struct plan_unit unit = {.n_slices = 1, .context = 1, .recompute = kind->recompute};
    const struct plan_pipeline one = {
        .cut[PASS_FORWARD] = {.n_slices = 1, .n_units = 1, .slices = &slice, .units = &unit}};
    struct token_bytes bytes = bytes_of_token(kind, own, last, kind->recompute);
    struct dag_token token = dag_token_of(&one, own, 0);
    double kept = cost_layers_activation_bytes(own, kind->recompute, true) -
                  cost_layers_activation_bytes(own, kind->recompute, false);
    double gradients = own->layers * cost_kv_bytes(own->model, own->tensor);
    return (struct sample_bytes){
        .sliced = bytes.held + kept + gradients + bytes.kept,
        .away_sliced = (bytes.held - token.kept) * kind->offload,
        .whole = bytes.held + bytes.kept + bytes.work,
        .away_whole = streams ? bytes.held * kind->offload : 0,
    };
}

/* Tokens for which there is room: of each `away` bytes may go to the host, of all no more than host_bytes. */
static double tokens_in(double room, double bytes, double away, double host_bytes)
{
    return fmin(room / (bytes - away), (room + host_bytes) / bytes);
}

int64_t slimpack_rank_tokens(const struct plan_request *request, enum slimpack_merge merge)
{
    struct plan_phase phase = {0};
    struct slimpack_kind kind = slimpack_kind_of(request, !slimpack_own_offload(merge), !slimpack_own_recompute(merge));
    const struct platform *platform = request->setting->platform;
    const struct scenario_plan *layout = &request->layout;
    int64_t n_gpus = layout->tp * layout->cp * layout->dp * layout->pp, n_node = platform->gpus_per_node;
    double sliced = INFINITY, whole = INFINITY,
           host_bytes = platform->host_memory_bytes / (double)(n_gpus < n_node ? n_gpus : n_node);
    request_megatron_layout(request, &phase);
    for (int end = 0; end < 2; end++) {
        bool first = end == 0 || request->layout.pp == 1, last = end == 1 || request->layout.pp == 1;
        int32_t stage = end == 0 ? 0 : (int32_t)request->layout.pp - 1;
        struct cost_setting own = dag_setting(request->setting, &phase.pipelines[0].layout, stage);
        struct sample_bytes bytes = sample_bytes_of(&kind, &own, last, request_streams(request));
        double room =
            request->memory_bytes - states_bytes(&own, first, last, scenario_plan_shards(&request->layout), false);
        sliced = fmin(sliced, tokens_in(room, bytes.sliced, bytes.away_sliced, host_bytes));
        whole = fmin(whole, tokens_in(room, bytes.whole, bytes.away_whole, host_bytes));
    }
    plan_phase_free(&phase);
    double most = fmax(sliced, whole);
    if (most <= 0 || most >= 1e18)
        return INT64_MAX;
    return most < 1 ? 1 : (int64_t)most;
}
