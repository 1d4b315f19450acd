/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "dag/dag.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "cost/activation.h"
#include "cost/cache.h"
#include "cost/shards.h"
#include "cost/states.h"
#include "dag/builder.h"
#include "dag/equal_pipelines.h"

const char *const dag_kind_name[] = {"compute", "attention", "send", "sync", "optimizer"};
const char *const dag_purpose_name[] = {"pass",           "boundary",   "ring",       "tensor", "exchange",
                                        "reduce-scatter", "all-gather", "all-reduce", "shards", "reshard",
                                        "offload",        "prefetch",   "experts"};
const char *const dag_edge_name[] = {"inter-stage", "inter-slice", "inter-pass", "schedule", "collective"};
_Static_assert(sizeof dag_kind_name / sizeof *dag_kind_name == DAG_N_KINDS, "a name of each kind");
_Static_assert(sizeof dag_purpose_name / sizeof *dag_purpose_name == DAG_N_PURPOSES, "a name of each purpose");
_Static_assert(sizeof dag_edge_name / sizeof *dag_edge_name == DAG_N_EDGES, "a name of each kind of edge");

/* Add the layers of a virtual stage. */
static void add_layers(const struct plan_layout *layout, int32_t stage, struct cost_setting *setting)
{
    const struct model *model = setting->model;
    int64_t first = 0;
    for (int32_t i = 0; !model_is_uniform(model) && i < stage; i++) /* with equal layers all places are alike */
        first += scenario_stage_layers(&setting->split, model->layers, layout->stages, layout->chunks, i);
    cost_add_layers(setting, first,
                    scenario_stage_layers(&setting->split, model->layers, layout->stages, layout->chunks, stage));
    if (stage == layout->stages * layout->chunks - 1 && model->mtp_layers > 0)
        cost_add_layers(setting, model->layers, (int32_t)model->mtp_layers);
}

struct cost_setting dag_setting(const struct cost_setting *setting, const struct plan_layout *layout, int32_t stage)
{
    struct cost_setting stage_setting = *setting;
    stage_setting.tensor = layout->tensor;
    cost_clear_layers(&stage_setting);
    add_layers(layout, stage, &stage_setting);
    return stage_setting;
}

struct cost_setting dag_rank_setting(const struct cost_setting *setting, const struct plan_layout *layout,
                                     int32_t stage)
{
    struct cost_setting rank_setting = dag_setting(setting, layout, stage);
    for (int32_t chunk = 1; chunk < layout->chunks; chunk++)
        add_layers(layout, chunk * layout->stages + stage, &rank_setting);
    return rank_setting;
}

struct dag_kinds dag_kinds_of(const struct cost_setting *setting, const struct plan_layout *layout)
{
    int32_t n_virtual = layout->stages * layout->chunks;
    struct cost_setting of_kind[DAG_MAX_KINDS];
    struct dag_kinds kinds = {.kind = check_malloc((size_t)n_virtual * sizeof *kinds.kind)};
    for (int32_t stage = 0; stage < n_virtual; stage++) {
        const struct cost_setting own = dag_setting(setting, layout, stage);
        int32_t kind = 0;
        while (kind < kinds.n && (kind == 0 || !cost_same_layers(&of_kind[kind], &own) || stage == n_virtual - 1))
            kind++;
        CHECK(kind < DAG_MAX_KINDS);
        if (kind == kinds.n) {
            kinds.stage[kinds.n] = stage;
            of_kind[kinds.n++] = own;
        }
        kinds.kind[stage] = (uint8_t)kind;
    }
    return kinds;
}

double dag_stage_parameters(const struct cost_setting *setting, const struct plan_layout *layout, int32_t stage)
{
    const struct cost_setting rank_setting = dag_rank_setting(setting, layout, stage);
    return cost_stage_parameters(&rank_setting, stage == 0, stage == layout->stages - 1);
}

struct cost_micro_batch dag_micro_batch(const struct plan_pipeline *pipeline, enum pass pass, int32_t micro_batch)
{
    const struct plan_partition *partition = plan_partition_of(pipeline, pass);
    const struct plan_micro_batch *part = &partition->micro_batches[micro_batch];
    return (struct cost_micro_batch){.slices = partition->slices + part->first_slice,
                                     .n_slices = part->n_slices,
                                     .padding_tokens = part->padding_tokens,
                                     .context = part->context,
                                     .recompute = part->recompute,
                                     .sharding = part->sharding,
                                     .parts = part->parts};
}

/* Return cost/'s name of the pass of a pipeline's step. */
static enum pass cost_pass_of(const struct plan_pipeline *pipeline, enum pass pass)
{
    return pass == PASS_BACKWARD && pipeline->splits_backward ? PASS_INPUT : pass;
}

/* Return the parts that a virtual stage computes, a bit for each enum cost_component. */
static unsigned parts_of(const struct plan_layout *layout, int32_t stage)
{
    bool first = stage == 0, last = stage == layout->stages * layout->chunks - 1;
    return 1U << COST_LAYERS | (unsigned)first << COST_EMBEDDING | (unsigned)last << COST_HEAD;
}

/* Add up the costs of a virtual stage's parts. */
static void sum_up(const struct cost_pass *costs, unsigned parts, struct cost_pass *sum)
{
    *sum = costs[COST_LAYERS];
    if (parts & 1U << COST_EMBEDDING)
        cost_add_pass(sum, &costs[COST_EMBEDDING]);
    if (parts & 1U << COST_HEAD)
        cost_add_pass(sum, &costs[COST_HEAD]);
}

/* Return cost_pass_s of the sum of the parts' costs, equal to the last bit. */
static double sum_s(const struct cost_pass *costs, unsigned parts)
{
    const struct cost_pass *layers = &costs[COST_LAYERS];
    struct cost_pass sum = {.kernels_s = layers->kernels_s,
                            .attention_s = layers->attention_s,
                            .tensor_s = layers->tensor_s,
                            .shard_s = layers->shard_s,
                            .context_s = layers->context_s,
                            .expert_s = layers->expert_s,
                            .host_s = layers->host_s,
                            .blocked_s = layers->blocked_s};
    for (enum cost_component part = COST_EMBEDDING; part < COST_N_COMPONENTS; part++)
        if (parts & 1U << part) {
            sum.kernels_s += costs[part].kernels_s;
            sum.attention_s += costs[part].attention_s;
            sum.tensor_s += costs[part].tensor_s;
            sum.shard_s += costs[part].shard_s;
            sum.host_s += costs[part].host_s;
            sum.blocked_s += costs[part].blocked_s;
        }
    return cost_pass_s(&sum);
}

/* Kinds of virtual stages. Kinds with the same layers have the same setting, and one look-up serves them. */
struct priced {
    const struct plan_pipeline *pipeline;
    int32_t n;
    struct cost_setting stage_setting[DAG_MAX_KINDS];
    unsigned parts[DAG_MAX_KINDS];
    int32_t first[DAG_MAX_KINDS]; /* first kind with the same layers */
    unsigned all[DAG_MAX_KINDS];  /* of that first kind: the parts of all kinds with the same layers */
};

static struct priced priced_of(const struct plan_pipeline *pipeline, const struct cost_setting *setting,
                               const struct dag_kinds *kinds)
{
    struct priced priced = {.pipeline = pipeline, .n = kinds->n};
    for (int32_t kind = 0; kind < kinds->n; kind++) {
        priced.stage_setting[kind] = dag_setting(setting, &pipeline->layout, kinds->stage[kind]);
        priced.first[kind] = cost_first_same_layers(priced.stage_setting, kind);
        priced.parts[kind] = parts_of(&pipeline->layout, kinds->stage[kind]);
        priced.all[priced.first[kind]] |= priced.parts[kind];
    }
    return priced;
}

/* Return the micro-batch with which the first stage begins a kind of pass; here all stages do. */
static int32_t first_of(const struct plan_pipeline *pipeline, enum pass pass)
{
    int32_t i = 0;
    if (pipeline->steps == NULL)
        return 0;
    while (i < pipeline->step_first[1] && pipeline->steps[i].pass != pass)
        i++;
    return i < pipeline->step_first[1] ? pipeline->steps[i].micro_batch : -1;
}

/*
 * Fill in the components' costs of a micro-batch on one setting. FSDP's stages gather parameters in the first forward.
 * A forward that frees them leaves a gather to the next pass. Here it counts in the micro-batch's backward, so that
 * there are as many. Backwards free nothing.
 */
static void look_up(const struct plan_pipeline *pipeline, const struct cost_setting *stage_setting, enum pass pass,
                    int32_t micro_batch, unsigned parts, struct cost_pass *costs)
{
    struct cost_micro_batch work = dag_micro_batch(pipeline, pass, micro_batch);
    bool begins = micro_batch == first_of(pipeline, pass), first = begins && pass == PASS_FORWARD;
    work.first = begins && pass != PASS_FORWARD;
    cost_cached(stage_setting, cost_pass_of(pipeline, pass), &work, parts, costs);
    if (!stage_setting->staged || (!first && (pass != PASS_BACKWARD || stage_setting->keeps_gathered)))
        return;
    shards_gather_layers(stage_setting, &costs[COST_LAYERS]);
    if (first && (parts & 1U << COST_EMBEDDING))
        shards_gather_ends(stage_setting, true, false, &costs[COST_EMBEDDING]);
    if (first && (parts & 1U << COST_HEAD))
        shards_gather_ends(stage_setting, false, true, &costs[COST_HEAD]);
}

/* Fill in the costs or the seconds of a micro-batch on all kinds; the other pointer is NULL. */
static void price_micro_batch(const struct priced *priced, enum pass pass, int32_t micro_batch, struct cost_pass *cost,
                              double *seconds)
{
    struct cost_pass costs[COST_N_COMPONENTS];
    for (int32_t first = 0; first < priced->n; first++) {
        if (priced->first[first] < first)
            continue;
        look_up(priced->pipeline, &priced->stage_setting[first], pass, micro_batch, priced->all[first], costs);
        for (int32_t kind = first; kind < priced->n; kind++) {
            if (priced->first[kind] != first)
                continue;
            if (cost != NULL)
                sum_up(costs, priced->parts[kind], &cost[kind]);
            else
                seconds[kind] = sum_s(costs, priced->parts[kind]);
        }
    }
}

/* Return whether a micro-batch costs as much as the one before it: its slices have the same tokens, and neither is the
 * first of the pass. Batches of equal samples have long rows of them. */
static bool costs_as_before(const struct plan_pipeline *pipeline, enum pass pass, int32_t micro_batch)
{
    int32_t first = first_of(pipeline, pass);
    if (micro_batch == 0 || micro_batch == first || micro_batch - 1 == first)
        return false;
    const struct cost_micro_batch a = dag_micro_batch(pipeline, pass, micro_batch - 1),
                                  b = dag_micro_batch(pipeline, pass, micro_batch);
    bool same = a.n_slices == b.n_slices && a.padding_tokens == b.padding_tokens && a.context == b.context &&
                a.recompute == b.recompute && a.sharding == b.sharding && a.parts == b.parts;
    for (int32_t i = 0; same && i < a.n_slices; i++)
        same = a.slices[i].begin == b.slices[i].begin && a.slices[i].end == b.slices[i].end;
    return same;
}

void builder_costs(const struct builder *builder, struct builder_pipe *pipe, enum pass pass)
{
    int32_t n_micro_batches = plan_partition_of(pipe->plan, pass)->n_micro_batches, n_kinds = pipe->kinds.n;
    struct priced priced = priced_of(pipe->plan, builder->setting, &pipe->kinds);
    pipe->cost[pass] = check_malloc((size_t)n_micro_batches * (size_t)n_kinds * sizeof *pipe->cost[pass]);
    for (int32_t micro_batch = 0; micro_batch < n_micro_batches; micro_batch++) {
        struct cost_pass *cost = pipe->cost[pass] + micro_batch * n_kinds;
        if (costs_as_before(pipe->plan, pass, micro_batch))
            memcpy(cost, cost - n_kinds, (size_t)n_kinds * sizeof *cost);
        else
            price_micro_batch(&priced, pass, micro_batch, cost, NULL);
    }
}

bool dag_passes_s(const struct plan_pipeline *pipeline, const struct cost_setting *setting,
                  const struct dag_kinds *kinds, enum pass pass, struct dag_budget *budget, double *seconds)
{
    struct priced priced = priced_of(pipeline, setting, kinds);
    for (int32_t micro_batch = 0; micro_batch < plan_partition_of(pipeline, pass)->n_micro_batches; micro_batch++) {
        double *of_micro_batch = seconds + micro_batch * kinds->n;
        if (costs_as_before(pipeline, pass, micro_batch))
            memcpy(of_micro_batch, of_micro_batch - kinds->n, (size_t)kinds->n * sizeof *of_micro_batch);
        else
            price_micro_batch(&priced, pass, micro_batch, NULL, of_micro_batch);
        if (budget == NULL)
            continue;
        budget->left_s -= of_micro_batch[budget->kind] - budget->least_s[pass][micro_batch];
        if (budget->left_s < 0)
            return false;
    }
    return true;
}

double dag_stage_s(const struct plan_pipeline *pipeline, const struct cost_setting *setting, enum pass pass,
                   int32_t stage, double limit_s)
{
    struct dag_kinds kinds = {.n = 1, .stage = {stage}};
    struct priced priced = priced_of(pipeline, setting, &kinds);
    double all_s = 0, micro_batch_s = 0;
    for (int32_t micro_batch = 0; micro_batch < plan_partition_of(pipeline, pass)->n_micro_batches && all_s <= limit_s;
         micro_batch++) {
        if (!costs_as_before(pipeline, pass, micro_batch))
            price_micro_batch(&priced, pass, micro_batch, NULL, &micro_batch_s);
        all_s += micro_batch_s;
    }
    return all_s;
}

struct cost_pass dag_pass_cost(const struct plan_pipeline *pipeline, const struct cost_setting *setting, enum pass pass,
                               int32_t micro_batch, int32_t stage)
{
    struct cost_setting stage_setting = dag_setting(setting, &pipeline->layout, stage);
    struct cost_pass costs[COST_N_COMPONENTS], sum;
    unsigned parts = parts_of(&pipeline->layout, stage);
    look_up(pipeline, &stage_setting, pass, micro_batch, parts, costs);
    sum_up(costs, parts, &sum);
    return sum;
}

bool dag_has_same_token(const struct plan_pipeline *pipeline, const struct cost_setting *stage_setting,
                        int32_t micro_batch)
{
    const struct plan_micro_batch *planned = &pipeline->partition[PASS_FORWARD].micro_batches[micro_batch];
    return stage_setting->attention != DEVICE_UNFUSED && planned[-1].recompute == planned->recompute &&
           planned[-1].context == planned->context;
}

struct dag_token dag_token_of(const struct plan_pipeline *pipeline, const struct cost_setting *stage_setting,
                              int32_t micro_batch)
{
    const struct plan_micro_batch *part = &pipeline->partition[PASS_FORWARD].micro_batches[micro_batch];
    struct cost_micro_batch work = dag_micro_batch(pipeline, PASS_FORWARD, micro_batch);
    double scores = cost_scores_bytes(stage_setting, &work);
    double bytes = cost_cached_activation_bytes(stage_setting, part->recompute, false);
    double copied =
        cost_copied_kv_bytes(stage_setting, part->recompute, part->sharding == SLICE_PLACED ? 1 : part->context);
    return (struct dag_token){.held = (bytes + copied + (scores > 0 ? scores / cost_micro_batch_tokens(&work) : 0)) /
                                      part->context,
                              .kept = cost_kept_kv_bytes(stage_setting, part->recompute),
                              .context = part->context};
}

double dag_offloadable_bytes(const struct plan_pipeline *pipeline, const struct cost_setting *stage_setting,
                             int32_t micro_batch, int64_t tokens, int64_t sliced)
{
    struct dag_token token = dag_token_of(pipeline, stage_setting, micro_batch);
    return dag_offloadable_of_tokens(&token, tokens, sliced);
}

static int32_t n_tensor(const struct plan_layout *layout, struct dag_options options)
{
    return options.all_tensor_ranks ? layout->tensor : 1;
}

static void add_ranks(struct builder *builder, int32_t phase)
{
    struct dag *dag = builder->dag;
    const struct plan *plan = builder->plan;
    struct dag_options options = builder->options;
    for (int32_t pipeline = 0; pipeline < plan->phases[phase].n_pipelines; pipeline++) {
        const struct plan_layout *layout = &plan->phases[phase].pipelines[pipeline].layout;
        int32_t n_folded = pipeline - builder_equal_pipeline(builder, pipeline);
        bool folded = builder->equal_pipelines != NULL &&
                      equal_pipelines_contexts(&plan->phases[phase].pipelines[pipeline], builder->setting->platform);
        for (int32_t stage = 0; stage < layout->stages; stage++)
            for (int32_t rank = 0; rank < layout->context * n_tensor(layout, options); rank++) {
                int32_t n = layout->stages * layout->context * n_tensor(layout, options);
                int32_t context = rank / n_tensor(layout, options), tensor = rank % n_tensor(layout, options);
                int32_t representative = dag->n_ranks - n_folded * n - (folded ? context : 0);
                dag->ranks[dag->n_ranks++] = (struct dag_rank){.phase = (int16_t)phase,
                                                               .stage = (int16_t)stage,
                                                               .pipeline = pipeline,
                                                               .context = context,
                                                               .tensor = tensor,
                                                               .rank = plan_rank(layout, stage, context, tensor),
                                                               .n_gpus = layout->tensor / n_tensor(layout, options),
                                                               .representative = representative};
                dag->ranks[representative].n_represented++;
            }
    }
}

/* Return the number of GPUs up to the last one that re-shards. */
static int32_t n_senders(const struct plan *plan)
{
    int32_t n = 0;
    for (int32_t phase = 0; phase < plan->n_phases; phase++)
        for (int32_t i = 0; i < plan->phases[phase].n_reshards; i++)
            if (plan->phases[phase].reshards[i].from_rank >= n)
                n = plan->phases[phase].reshards[i].from_rank + 1;
    return n;
}

static void make_ranks(struct builder *builder)
{
    struct dag *dag = builder->dag;
    const struct plan *plan = builder->plan;
    struct dag_options options = builder->options;
    size_t n = 0;
    for (int32_t phase = 0; phase < plan->n_phases; phase++)
        for (int32_t pipeline = 0; pipeline < plan->phases[phase].n_pipelines; pipeline++) {
            const struct plan_layout *layout = &plan->phases[phase].pipelines[pipeline].layout;
            n += (size_t)layout->stages * (size_t)layout->context * (size_t)n_tensor(layout, options);
        }
    dag->n_senders = n_senders(plan);
    size_t n_streams = (n + (size_t)dag->n_senders) * DAG_N_STREAMS;
    CHECK(n > 0 && n_streams < INT32_MAX);
    if (n_streams > (size_t)dag->room.streams) {
        dag->ranks = check_realloc(dag->ranks, n_streams / DAG_N_STREAMS * sizeof *dag->ranks);
        dag->stream_first = check_realloc(dag->stream_first, n_streams * sizeof *dag->stream_first);
        dag->room.streams = (int32_t)n_streams;
    }
    for (int32_t phase = 0; phase < plan->n_phases; phase++)
        add_ranks(builder, phase);
}

static void free_pipes(struct dag *dag)
{
    for (int32_t i = 0; i < dag->n_pipes; i++) {
        struct dag_pipe *pipe = &dag->pipes[i];
        free(pipe->kinds.kind);
        relations_free(&pipe->relations);
        for (int pass = 0; pass < N_STEP_PASSES; pass++)
            free(pipe->cost[pass]);
    }
    free(dag->pipes);
    free(dag->first_pipe);
    dag->n_pipes = 0;
}

static void make_pipes(struct dag *dag, const struct plan *plan)
{
    size_t n = 0;
    for (int32_t phase = 0; phase < plan->n_phases; phase++)
        n += (size_t)plan->phases[phase].n_pipelines;
    dag->pipes = check_malloc(n * sizeof *dag->pipes);
    dag->first_pipe = check_malloc((size_t)plan->n_phases * sizeof *dag->first_pipe);
}

static void open_builder(struct builder *builder)
{
    size_t n_ranks = (size_t)builder->dag->n_ranks, n_streams = (size_t)dag_n_streams(builder->dag);
    builder->phase_barrier = -1;
    builder->stream_last = check_malloc(n_streams * sizeof *builder->stream_last);
    builder->at = check_malloc(n_ranks * sizeof *builder->at);
    for (size_t i = 0; i < n_ranks; i++) {
        int32_t domain = platform_domain_of(builder->setting->platform, builder->dag->ranks[i].rank);
        builder->at[i] = (struct builder_rank){
            .ring = -1, .send = -1, .copy = -1, .out = -1, .due = -1, .begin = -1, .backward = -1, .domain = domain};
    }
    for (size_t i = 0; i < n_streams; i++)
        builder->stream_last[i] = builder->dag->stream_first[i] = -1;
}

bool dag_build(const struct plan *plan, const struct cost_setting *setting, struct dag_options options, struct dag *dag,
               struct error *err)
{
    *dag = (struct dag){0};
    return dag_rebuild(plan, setting, options, dag, err);
}

bool dag_rebuild(const struct plan *plan, const struct cost_setting *setting, struct dag_options options,
                 struct dag *dag, struct error *err)
{
    struct builder builder = {.plan = plan, .setting = setting, .options = options, .dag = dag};
    bool ok = true;
    dag->n_tasks = dag->n_edges = dag->n_ranks = 0;
    dag->faults = setting->faults;
    if (equal_pipelines_fold(plan, setting, options))
        builder.equal_pipelines = equal_pipelines_of(&plan->phases[0], setting);
    make_ranks(&builder);
    free_pipes(dag);
    make_pipes(dag, plan);
    open_builder(&builder);
    for (int32_t phase = 0; ok && phase < plan->n_phases; phase++) {
        if (phase > 0 || plan->phases[phase].n_reshards > 0)
            builder_phase_barrier(&builder, phase);
        ok = builder_phase(&builder, phase, err);
        if (ok && options.gradient_sync && phase == plan->n_phases - 1)
            ok = builder_gradients(&builder, err);
        builder_close_phase(&builder);
    }
    free(builder.stream_last);
    free(builder.at);
    free(builder.equal_pipelines);
    if (!ok)
        dag_free(dag);
    return ok;
}

void dag_free(struct dag *dag)
{
    free_pipes(dag);
    free(dag->tasks);
    free(dag->duration_s);
    free(dag->in_first);
    free(dag->in_task);
    free(dag->in_kind);
    free(dag->ranks);
    free(dag->stream_first);
    free(dag->stream_next);
    free(dag->room.mark);
    *dag = (struct dag){0};
}
