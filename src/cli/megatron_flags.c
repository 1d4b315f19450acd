/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/megatron_flags.h"

#include "scenario/device.h"
#include "scenario/system_entry.h"

#include <inttypes.h>
#include <string.h>

/** Print a flag with a whole number. */
static void number(FILE *file, const char *flag, int64_t value)
{
    fprintf(file, "%s %" PRId64 "\n", flag, value);
}

/** Print the flag if it holds. */
static void flag_if(FILE *file, bool holds, const char *flag)
{
    if (holds)
        fprintf(file, "%s\n", flag);
}

/** Return the first kind of layer that has experts, or the first that has none. NULL: there is none of these. */
static const struct model_kind *first_kind(const struct model *model, bool experts)
{
    for (int32_t i = 0; i < MODEL_NAMED_KINDS; i++)
        if (model_has_kind(model, i) && (model->kinds[i].experts > 0) == experts)
            return &model->kinds[i];
    return NULL;
}

/** Return whether attention differs in more than the window. */
static bool attention_differs(const struct model_kind *a, const struct model_kind *b)
{
    return a->heads != b->heads || a->kv_heads != b->kv_heads || a->head_width != b->head_width ||
           a->kv_lora_rank != b->kv_lora_rank || a->q_lora_rank != b->q_lora_rank || a->rope_width != b->rope_width ||
           a->value_width != b->value_width || a->biases != b->biases || a->qk_norm != b->qk_norm;
}

/** Return whether two feed-forward blocks differ, both with experts or both without. */
static bool block_differs(const struct model_kind *a, const struct model_kind *b)
{
    return a->ffn != b->ffn || a->experts != b->experts || a->top_k != b->top_k || a->shared_ffn != b->shared_ffn;
}

/** Return whether kinds of layers differ in more than whether they have the one window, and experts of one kind. */
static bool differs_beside_flags(const struct model *model)
{
    int64_t window = 0;
    bool differs = false;
    for (int32_t i = 0; i < MODEL_NAMED_KINDS && model_has_kind(model, i); i++) {
        const struct model_kind *kind = &model->kinds[i], *first = &model->kinds[0];
        differs = differs || (window > 0 && kind->window > 0 && kind->window != window) ||
                  block_differs(kind, first_kind(model, kind->experts > 0)) || attention_differs(kind, first) ||
                  kind->activation != first->activation;
        window = kind->window > 0 ? kind->window : window;
    }
    return differs;
}

/** Return whether layers have latent attention whose values are of another width than queries and keys. */
static bool has_other_values(const struct model *model)
{
    const struct model_kind *kind = &model->kinds[0];
    return kind->kv_lora_rank > 0 && model_value_head(model, 0) != model_head_width(model, 0) + kind->rope_width;
}

/** Return whether the model has experts with biases and SwiGLU. */
static bool has_biased_experts(const struct model *model)
{
    const struct model_kind *experts = first_kind(model, true);
    return experts != NULL && experts->biases && experts->activation == MODEL_SWIGLU;
}

/** Return the layers of MTP, except those that Megatron-LM refuses. */
static int64_t mtp_layers(const struct model *model)
{
    return model->positions == 0 ? model->mtp_layers : 0;
}

/** Print a comment if it holds. */
static void say_if(FILE *file, bool holds, const char *sentence)
{
    if (holds)
        fprintf(file, "# slimsim: %s\n", sentence);
}

/** Say what the model has and no flag names. */
static void say_no_flags(const struct model *model, FILE *file)
{
    const struct model_kind *kind = &model->kinds[0];
    say_if(file, kind->activation == MODEL_GEGLU, "No flag names the model's GeGLU.");
    say_if(file, kind->qk_norm == MODEL_FULL_QK_NORM, "No flag names norms of all queries and keys together.");
    say_if(file, model->norms == 4, "No flag names norms behind attention and feed-forward block.");
    say_if(file, model->parallel_attention, "No flag names attention beside the feed-forward block.");
    say_if(file, model->mtp_layers > mtp_layers(model),
           "Megatron-LM refuses layers that predict several tokens beside learned positions.");
}

/** Say how the plan counts experts, and what no flag names.
 *
 * Sources: megatron/core/transformer/transformer_config.py for top_k 1, megatron/core/fusions/fused_bias_swiglu.py for
 * biases. */
static void say_experts(const struct point_view *view, FILE *file)
{
    const struct scenario *scenario = view->scenario;
    const struct model_kind *experts = first_kind(&scenario->model, true);
    if (experts == NULL)
        return;
    say_if(file, scenario->expert_gemms == DEVICE_GROUPED,
           "No flag names expert_gemms grouped. --moe-grouped-gemm runs the GEMMs on several streams.");
    say_if(file, scenario->expert_imbalance <= 1,
           "The plan counts balanced routing, which --moe-router-force-load-balancing makes in benchmarks.");
    say_if(file, scenario->expert_imbalance > 1,
           "No flag names expert_imbalance. Benchmarks have 1 with --moe-router-force-load-balancing.");
    say_if(file, experts->top_k == 1,
           "Megatron-LM refuses a softmax over the one expert of a token, so --moe-router-pre-softmax is set.");
    say_if(file, has_biased_experts(&scenario->model) && scenario->swiglu != SCENARIO_SWIGLU_SEPARATE,
           "Megatron-LM's fused SwiGLU refuses biases of experts, so --no-bias-swiglu-fusion is set.");
}

/** Features of a plan that no flag of Megatron-LM has, and its micro-batches. */
struct found {
    bool unequal_layouts, slices, asymmetric, shared, contexts, blocks, mixed_recompute, offload, packed, filled,
        unequal;
    const char *scheduler;   /* the public one that makes such plans (--sequence-packing-scheduler); NULL: none does */
    int64_t rank_tokens;     /* most tokens of a rank in a forward micro-batch */
    int32_t n_micro_batches; /* forward micro-batches of the pipeline that has the most */
    int64_t longest_tokens;  /* of a forward micro-batch, with padding */
};

static void find_in_micro_batch(const struct point_view *view, const struct plan_pipeline *pipeline, int32_t index,
                                struct found *found)
{
    const struct plan_partition *partition = &pipeline->partition[PASS_FORWARD];
    const struct plan_micro_batch *micro_batch = &partition->micro_batches[index];
    int64_t tokens = micro_batch->padding_tokens, context = view->scenario->data.context;
    for (int32_t i = micro_batch->first_slice; i < micro_batch->first_slice + micro_batch->n_slices; i++) {
        const struct slice *slice = &partition->slices[i];
        bool carried = slice->sample >= view->batch->n_samples;
        found->slices =
            found->slices || slice->begin > 0 || (!carried && slice->end < view->batch->tokens[slice->sample]);
        found->packed = found->packed || slice_tokens(*slice) < context;
        tokens += slice_tokens(*slice);
    }
    int64_t rank_tokens = (tokens + micro_batch->context - 1) / micro_batch->context;
    found->rank_tokens = rank_tokens > found->rank_tokens ? rank_tokens : found->rank_tokens;
    found->filled = found->filled || micro_batch->padding_tokens >= context;
    found->unequal = found->unequal || (found->longest_tokens > 0 && tokens != found->longest_tokens);
    found->longest_tokens = tokens > found->longest_tokens ? tokens : found->longest_tokens;
    found->shared = found->shared || micro_batch->group >= 0;
    found->contexts = found->contexts || micro_batch->context != view->system->entry->plan.cp;
    found->mixed_recompute =
        found->mixed_recompute || micro_batch->recompute != (enum recompute)view->system->entry->plan.recompute;
    for (int32_t stage = 0; stage < pipeline->layout.stages * pipeline->layout.chunks; stage++)
        found->offload = found->offload || plan_offload(pipeline, index, stage) > 0;
}

static void find_in_pipeline(const struct point_view *view, const struct plan_pipeline *pipeline, struct found *found)
{
    const struct scenario_plan *plan = &view->system->entry->plan;
    const struct plan_partition *forward = &pipeline->partition[PASS_FORWARD];
    int32_t n_micro_batches = forward->n_micro_batches;
    found->unequal_layouts = found->unequal_layouts || pipeline->layout.tensor != plan->tp ||
                             pipeline->layout.context != plan->cp || pipeline->layout.stages != plan->pp;
    found->asymmetric = found->asymmetric || (pipeline->features & PLAN_ASYMMETRIC) != 0 ||
                        pipeline->partition[PASS_BACKWARD].n_micro_batches != n_micro_batches;
    found->unequal = found->unequal || (found->n_micro_batches > 0 && n_micro_batches != found->n_micro_batches);
    found->n_micro_batches = n_micro_batches > found->n_micro_batches ? n_micro_batches : found->n_micro_batches;
    for (int32_t i = 0; i < n_micro_batches; i++)
        find_in_micro_batch(view, pipeline, i, found);
}

/** Return the name of the system in --sequence-packing-scheduler, NULL: it has none. */
static const char *scheduler_of(const struct point_view *view)
{
    static const char *const names[][2] = {{"megatron-dp-balanced", "dp_balanced"},
                                           {"megatron-default-dynamic-cp", "default_dynamic_cp"}};
    for (int i = 0; i < 2; i++)
        if (strcmp(view->system->entry->name, names[i][0]) == 0)
            return names[i][1];
    return NULL;
}

static struct found find_all(const struct point_view *view)
{
    struct found found = {.unequal_layouts = view->plan->n_phases > 1, .scheduler = scheduler_of(view)};
    for (int32_t i = 0; i < view->plan->n_phases; i++) {
        found.blocks = found.blocks || view->plan->phases[i].n_attentions > 0;
        for (int32_t j = 0; j < view->plan->phases[i].n_pipelines; j++)
            find_in_pipeline(view, &view->plan->phases[i].pipelines[j], &found);
    }
    return found;
}

static void print_limits(const struct point_view *view, const struct found *found, FILE *file)
{
    fprintf(file, "# slimsim: These flags mean the plan of %s in %s on %d nodes of %d GPUs.\n",
            view->system->entry->label, view->scenario->name, view->scenario->platform.n_nodes,
            view->scenario->platform.gpus_per_node);
    say_if(file, true, "Tokenizer, data, learning rate and checkpoints need flags of their own.");
    say_if(file, found->unequal_layouts, "Pipelines have other layouts than plan:, and Megatron-LM has one layout.");
    say_if(file, found->slices, "Samples are cut into slices, which Megatron-LM cannot do.");
    say_if(file, found->asymmetric,
           "Backward passes are cut in another manner than forward passes, which Megatron-LM "
           "cannot do.");
    bool dynamic = found->scheduler != NULL && (found->shared || found->contexts);
    say_if(file, found->shared && !dynamic, "Pipelines run some samples together, which Megatron-LM cannot do.");
    say_if(file, found->contexts && !dynamic,
           "Micro-batches have other context-parallel degrees than plan.cp, and Megatron-LM has "
           "one degree.");
    say_if(file, found->blocks, "Ranks compute attention for each other, which Megatron-LM cannot do.");
    say_if(file, found->mixed_recompute,
           "Some micro-batches recompute in another manner than plan.recompute, which "
           "Megatron-LM cannot do.");
    say_if(file, found->offload,
           "Activations go to the host by share, and Megatron-LM counts whole layers "
           "(--cpu-offloading-num-layers).");
    say_if(file, differs_beside_flags(&view->scenario->model),
           "Kinds of layers differ in more than having a window or experts; the flags are those of the first kind.");
    say_no_flags(&view->scenario->model, file);
    say_experts(view, file);
    say_if(file, found->packed && found->scheduler == NULL,
           "Micro-batches hold documents that are shorter than data.context; Megatron-LM cuts one "
           "stream of documents into sequences of that length.");
    say_if(file, found->filled,
           "Micro-batches are filled up with padding of a whole sequence and more, and Megatron-LM trains documents "
           "there.");
    say_if(file, found->unequal && found->scheduler == NULL,
           "Micro-batches are not equal in number or tokens; the flags take the most of both.");
    say_if(file, view->plan->n_delayed > 0 || view->plan->n_carried > 0,
           "Samples wait for a later iteration, which Megatron-LM cannot do.");
}

/** Print the window, and which layers have it if some do not. Megatron counts the keys before a query. */
static void print_window(const struct model *model, FILE *file)
{
    int64_t window = 0;
    for (int32_t kind = 0; kind < MODEL_MAX_KINDS; kind++)
        window = model->kinds[kind].window > 0 ? model->kinds[kind].window : window;
    if (window == 0)
        return;
    fprintf(file, "--window-size %lld,0\n", (long long)window - 1);
    if (model->n_runs == 0)
        return;
    fputs("--window-attn-skip-freq [", file);
    for (int64_t layer = 0; layer < model->layers; layer++)
        fprintf(file, "%s%d", layer > 0 ? "," : "", model->kinds[model_kind_of(model, layer)].window > 0);
    fputs("]\n", file);
}

/** Print which layers have experts, as a Python list: "([0]*3+[1]*58)", or "([0]+[1])*24" for a pattern that repeats.
 */
static void print_layer_frequency(const struct model *model, FILE *file)
{
    int64_t period = 0, run = 0;
    for (int32_t i = 0; i < model->n_runs; i++)
        period += model->pattern[i].n;
    if (period == 0 || model->layers % period != 0)
        period = model->layers;
    fputs("--moe-layer-freq (", file);
    for (int64_t first = 0; first < period; first += run) {
        bool experts = model->kinds[model_kind_of(model, first)].experts > 0;
        run = 1;
        while (first + run < period && (model->kinds[model_kind_of(model, first + run)].experts > 0) == experts)
            run++;
        fprintf(file, "%s[%d]", first > 0 ? "+" : "", experts);
        if (run > 1)
            fprintf(file, "*%" PRId64, run);
    }
    fputs(")", file);
    if (period < model->layers)
        fprintf(file, "*%" PRId64, model->layers / period);
    fputs("\n", file);
}

static void print_experts(const struct point_view *view, FILE *file)
{
    static const char *const dispatchers[] = {
        "--moe-token-dispatcher-type alltoall", "--moe-token-dispatcher-type allgather",
        "--moe-token-dispatcher-type flex\n--moe-flex-dispatcher-backend deepep",
        "--moe-token-dispatcher-type flex\n--moe-flex-dispatcher-backend hybridep"};
    const struct model *model = &view->scenario->model;
    const struct scenario_communication *communication = &view->scenario->communication;
    const struct scenario_plan *plan = &view->system->entry->plan;
    const struct model_kind *experts = first_kind(model, true);
    if (experts == NULL)
        return;
    number(file, "--num-experts", experts->experts);
    number(file, "--moe-router-topk", experts->top_k);
    flag_if(file, experts->top_k == 1, "--moe-router-pre-softmax");
    number(file, "--moe-ffn-hidden-size", experts->ffn);
    if (experts->shared_ffn > 0)
        number(file, "--moe-shared-expert-intermediate-size", experts->shared_ffn);
    if (first_kind(model, false) != NULL)
        print_layer_frequency(model, file);
    if (model->router_groups > 1) {
        number(file, "--moe-router-num-groups", model->router_groups);
        number(file, "--moe-router-group-topk", model->top_groups);
    }
    flag_if(file, view->scenario->expert_gemms != DEVICE_SEQUENTIAL, "--moe-grouped-gemm");
    flag_if(file, view->scenario->fused.permute, "--moe-permute-fusion");
    flag_if(file, true, dispatchers[communication->dispatcher]);
    say_if(file, communication->fp8_dispatch && plan->ep > 1, "Megatron-LM sends tokens to experts in bf16.");
    flag_if(file, communication->ep_overlap && plan->ep > 1, "--overlap-moe-expert-parallel-comm");
    if (plan->capacity_factor > 0)
        fprintf(file, "--moe-expert-capacity-factor %g\n", plan->capacity_factor);
    flag_if(file, plan->pad_to_capacity, "--moe-pad-expert-input-to-capacity");
}

/** Print the widths of latent attention. With it --qk-layernorm is for the norms of compressed columns.
 *
 * Source: megatron/core/models/gpt/gpt_layer_specs.py. */
static void print_latent_attention(const struct model *model, FILE *file)
{
    const struct model_kind *kind = &model->kinds[0];
    if (kind->kv_lora_rank == 0)
        return;
    flag_if(file, true, "--multi-latent-attention");
    if (kind->q_lora_rank > 0)
        number(file, "--q-lora-rank", kind->q_lora_rank);
    number(file, "--kv-lora-rank", kind->kv_lora_rank);
    number(file, "--qk-head-dim", model_head_width(model, 0));
    number(file, "--qk-pos-emb-head-dim", kind->rope_width);
    number(file, "--v-head-dim", model_value_head(model, 0));
}

static void print_model(const struct model *model, FILE *file)
{
    const struct model_kind *kind = &model->kinds[0], *dense = first_kind(model, false);
    number(file, "--num-layers", model->layers);
    number(file, "--hidden-size", model->hidden);
    number(file, "--ffn-hidden-size", dense != NULL ? dense->ffn : kind->ffn);
    number(file, "--num-attention-heads", kind->heads);
    if (kind->head_width > 0)
        number(file, "--kv-channels", kind->head_width);
    if (kind->kv_heads != kind->heads) {
        flag_if(file, true, "--group-query-attention");
        number(file, "--num-query-groups", kind->kv_heads);
    }
    print_latent_attention(model, file);
    print_window(model, file);
    flag_if(file, kind->activation == MODEL_SWIGLU, "--swiglu");
    flag_if(file, kind->activation == MODEL_SQUARED_RELU, "--squared-relu");
    flag_if(file, kind->qk_norm == MODEL_HEAD_QK_NORM || kind->kv_lora_rank > 0, "--qk-layernorm");
    fprintf(file, "--normalization %s\n", model->norm == MODEL_LAYERNORM ? "LayerNorm" : "RMSNorm");
    flag_if(file, !kind->biases, "--disable-bias-linear");
    flag_if(file, !model->tied_embeddings, "--untie-embeddings-and-output-weights");
    fprintf(file, "--position-embedding-type %s\n", model->positions > 0 ? "learned_absolute" : "rope");
    if (!model->dropout)
        fputs("--attention-dropout 0\n--hidden-dropout 0\n", file);
    if (mtp_layers(model) > 0)
        number(file, "--mtp-num-layers", mtp_layers(model));
    number(file, "--vocab-size", model->vocabulary);
    number(file, "--make-vocab-size-divisible-by", model->vocabulary_multiple > 0 ? model->vocabulary_multiple : 1);
}

/** Print the number formats. Transformer Engine's recipes of blocks have one format in both passes. */
static void print_precision(const struct scenario *scenario, FILE *file)
{
    static const char *const recipes[PRECISION_N_GEMM] = {
        [PRECISION_FP8_TENSOR] = "tensorwise", [PRECISION_FP8_BLOCK] = "blockwise", [PRECISION_MXFP8] = "mxfp8"};
    bool tensor = scenario->precision == PRECISION_FP8_TENSOR;
    fputs("--bf16\n", file);
    if (scenario->precision == PRECISION_BF16)
        return;
    fprintf(file, "--fp8-format %s\n--fp8-recipe %s\n", tensor ? "hybrid" : "e4m3",
            tensor && scenario->fp8_scaling == SCENARIO_SCALING_DELAYED ? "delayed" : recipes[scenario->precision]);
    flag_if(file, scenario->fp8_params, "--fp8-param-gather");
    if (scenario->bf16_layers_at_start + scenario->bf16_layers_at_end == 0)
        return;
    fputs("--first-last-layers-bf16\n", file);
    number(file, "--num-layers-at-start-in-bf16", scenario->bf16_layers_at_start);
    number(file, "--num-layers-at-end-in-bf16", scenario->bf16_layers_at_end);
    say_if(file, tensor && scenario->fp8_scaling == SCENARIO_SCALING_DELAYED,
           "Megatron-LM refuses first and last layers in bf16 with delayed scales.");
}

static void print_batch(const struct point_view *view, const struct found *found, FILE *file)
{
    int64_t context = view->scenario->data.context, positions = view->scenario->model.positions;
    int64_t micro_batch = (found->longest_tokens + context - 1) / context;
    number(file, "--seq-length", context);
    number(file, "--max-position-embeddings", positions > context ? positions : context);
    print_precision(view->scenario, file);
    if (found->scheduler == NULL) {
        number(file, "--micro-batch-size", micro_batch);
        number(file, "--global-batch-size", micro_batch * found->n_micro_batches * view->system->dp);
        return;
    }
    number(file, "--micro-batch-size", 1); /* the scheduler packs samples, one by one */
    number(file, "--global-batch-size", view->batch->n_samples);
    fprintf(file, "--sequence-packing-scheduler %s\n", found->scheduler);
    say_if(file, true, "The next flag has the most tokens of a rank in this plan.");
    number(file, "--max-seqlen-per-dp-cp-rank", found->rank_tokens);
    flag_if(file, found->shared || found->contexts, "--dynamic-context-parallel");
}

/** Return whether Megatron-LM has options for the stages. It refuses a rest, and 0 layers of the first or last one. */
static bool has_options(const struct scenario_plan *plan, int64_t layers)
{
    struct scenario_stages stages = plan->stages;
    stages.spread = SCENARIO_EQUAL;
    return stages.layers.n == 0 && (!stages.first_layers.given || stages.first_layers.value > 0) &&
           (!stages.last_layers.given || stages.last_layers.value > 0) &&
           scenario_stages_fit(&stages, layers, (int32_t)plan->pp, (int32_t)plan->vpp);
}

/** Print the layers of each virtual stage: "Et*20|t*20|t*21|t*19mL". E is the embedding, m a layer of MTP, L the head.
 */
static void print_layout(const struct scenario_plan *plan, const struct model *model, FILE *file)
{
    int32_t n = (int32_t)(plan->pp * plan->vpp);
    fputs("--pipeline-model-parallel-layout E", file);
    for (int32_t i = 0; i < n; i++) {
        int32_t of_stage =
            scenario_stage_layers(&plan->stages, model->layers, (int32_t)plan->pp, (int32_t)plan->vpp, i);
        fputs(i > 0 ? "|" : "", file);
        if (of_stage > 0)
            fprintf(file, "t*%d", of_stage);
    }
    for (int64_t i = 0; i < mtp_layers(model); i++)
        fputs("m", file);
    fputs("L\n", file);
}

static void print_stages(const struct scenario_plan *plan, const struct model *model, FILE *file)
{
    const struct scenario_stages *stages = &plan->stages;
    bool unequal = stages->first_layers.given || stages->last_layers.given;
    if (!has_options(plan, model->layers)) {
        print_layout(plan, model, file);
        return;
    }
    if (stages->first_layers.given)
        number(file, "--decoder-first-pipeline-num-layers", stages->first_layers.value);
    if (stages->last_layers.given)
        number(file, "--decoder-last-pipeline-num-layers", stages->last_layers.value);
    flag_if(file, stages->count_embedding, "--account-for-embedding-in-pipeline-split");
    flag_if(file, stages->count_head, "--account-for-loss-in-pipeline-split");
    if (plan->vpp > 1 && unequal)
        number(file, "--num-virtual-stages-per-pipeline-rank", plan->vpp);
    else if (plan->vpp > 1)
        number(file, "--num-layers-per-virtual-pipeline-stage",
               (model->layers + stages->count_embedding + stages->count_head) / (plan->pp * plan->vpp));
}

static void print_parallel(const struct point_view *view, FILE *file)
{
    static const char *const exchange[] = {
        [SCENARIO_RING] = "p2p", [SCENARIO_ALL_GATHER] = "all_gather", [SCENARIO_ULYSSES] = "a2a"};
    const struct scenario_plan *plan = &view->system->entry->plan;
    const struct plan_layout *layout = &view->plan->phases[0].pipelines[0].layout;
    number(file, "--tensor-model-parallel-size", plan->tp);
    number(file, "--pipeline-model-parallel-size", plan->pp);
    number(file, "--context-parallel-size", plan->cp);
    if (plan->cp > 1 && plan->cp_type == SCENARIO_RING_CONTIGUOUS)
        say_if(file, true, "A ring of contiguous parts is no choice of --cp-comm-type.");
    else if (plan->cp > 1)
        fprintf(file, "--cp-comm-type %s\n", exchange[plan->cp_type]);
    say_if(file, plan->cp > 1 && view->scenario->data.context % (2 * (int64_t)plan->cp) != 0,
           "Megatron-LM refuses a context that is no multiple of twice the context-parallel degree.");
    const struct model *model = &view->scenario->model;
    say_if(
        file, !model_shares_heads(model, plan->tp, false),
        "The plan copies heads of keys and values to several TP ranks. Megatron-LM divides their weights and gathers "
        "queries, keys and values instead.");
    say_if(file, plan->cp_type == SCENARIO_ULYSSES && !model_shares_heads(model, plan->tp * plan->cp, false),
           "Transformer Engine's a2a refuses fewer heads of keys and values than ranks.");
    say_if(file, plan->cp > 1 && !scenario_is_ring(plan->cp_type) && has_other_values(model),
           "Transformer Engine takes values of another width than keys with context parallelism only by p2p.");
    print_stages(plan, model, file);
    if (model_has_experts(model)) {
        number(file, "--expert-model-parallel-size", plan->ep);
        number(file, "--expert-tensor-parallel-size", plan->etp);
    }
    flag_if(file, plan->tp > 1 && plan->sequence_parallel, "--sequence-parallel");
    flag_if(file, plan->pp > 1 && view->system->dp > 1 && layout->stage_stride == plan->tp * plan->cp,
            "--use-tp-pp-dp-mapping");
    say_if(file,
           plan->schedule != SCENARIO_ONE_F_ONE_B && plan->schedule != SCENARIO_INTERLEAVED && plan->pp * plan->vpp > 1,
           "plan.schedule is no schedule of Megatron-LM, which runs 1F1B, interleaved with virtual stages.");
}

static void print_sharding(const struct point_view *view, FILE *file)
{
    const struct scenario_plan *plan = &view->system->entry->plan;
    bool sharded = plan->sharding != SCENARIO_UNSHARDED;
    int32_t overlap = view->scenario->communication.dp_overlap;
    flag_if(file, sharded, "--use-distributed-optimizer");
    if (plan->sharding == SCENARIO_ZERO2 || plan->sharding == SCENARIO_ZERO3) {
        fprintf(file, "--use-megatron-fsdp\n--data-parallel-sharding-strategy %s\n--ckpt-format fsdp_dtensor\n",
                plan->sharding == SCENARIO_ZERO2 ? "optim_grads" : "optim_grads_params");
        say_if(file, true, "The plan counts PyTorch's FSDP, whose copies differ from those of Megatron-FSDP.");
        say_if(file, plan->shard_communication == SCENARIO_ON_DEMAND,
               "The plan exchanges shards on demand, and Megatron-FSDP uses collectives.");
        say_if(file, plan->pp > 1,
               "The plan gathers and reduces as PyTorch's stages do: gradients once, behind the last micro-batch.");
        say_if(file, plan->reshard_after_forward == SCENARIO_RESHARD_NEVER,
               "The plan keeps gathered parameters (reshard_after_forward), and Megatron-FSDP frees them.");
    }
    if (sharded && scenario_plan_shard_groups(plan) > 1)
        number(file, "--num-distributed-optimizer-instances", scenario_plan_shard_groups(plan));
    flag_if(file, overlap != SCENARIO_OVERLAP_NONE, "--overlap-grad-reduce");
    flag_if(file, overlap == SCENARIO_OVERLAP_BOTH && sharded, "--overlap-param-gather");
    flag_if(file, plan->gradients == SCENARIO_BF16, "--grad-reduce-in-bf16");
    say_if(file, plan->gradient_reduction == SCENARIO_ALL_REDUCE && sharded && plan->sharding != SCENARIO_ZERO3,
           "The plan all-reduces gradients, and Megatron-LM's distributed optimizer reduce-scatters them.");
    say_if(file, plan->reduce_precision != SCENARIO_REDUCE_SAME,
           "plan.reduce_precision: is set, and Megatron-LM reduces gradients in the precision of their sum.");
}

/** Print the precisions of the optimizer's states. Other than fp32 they need Transformer Engine's Adam. */
static void print_states(const struct scenario_plan *plan, FILE *file)
{
    bool fp16 = plan->main_params == SCENARIO_MAIN_FP16, bf16 = plan->moments == SCENARIO_BF16;
    say_if(file, plan->main_params == SCENARIO_MAIN_NONE,
           "The plan updates bf16 parameters themselves, and Megatron-LM always has main parameters.");
    say_if(file, (fp16 || bf16) && plan->sharding == SCENARIO_UNSHARDED,
           "Megatron-LM needs its distributed optimizer for states that are not fp32.");
    flag_if(file, fp16 || bf16, "--use-precision-aware-optimizer");
    flag_if(file, fp16, "--main-params-dtype fp16");
    flag_if(file, bf16, "--exp-avg-dtype bf16\n--exp-avg-sq-dtype bf16");
    flag_if(file, (fp16 || bf16) && plan->gradients == SCENARIO_BF16, "--main-grads-dtype bf16");
    if (plan->optimizer_offload > 0)
        fprintf(file, "--optimizer-cpu-offload\n--optimizer-offload-fraction %g\n--use-precision-aware-optimizer\n",
                plan->optimizer_offload);
    say_if(file, plan->optimizer_offload > 0 && plan->sharding == SCENARIO_UNSHARDED,
           "Megatron-LM needs its distributed optimizer for an optimizer on the host.");
    say_if(file, bf16 && plan->main_params == SCENARIO_MAIN_FP32,
           "With --use-precision-aware-optimizer newer versions keep only 16 bits of each fp32 parameter, which "
           "main_params: fp16 counts.");
}

static void print_overlap(const struct point_view *view, FILE *file)
{
    const struct scenario_plan *plan = &view->system->entry->plan;
    const struct scenario_communication *overlap = &view->scenario->communication;
    bool waits = plan->vpp > 1 && overlap->pp_overlap == SCENARIO_STAGES_WAIT;
    bool chunked = plan->tp > 1 && overlap->tp_overlap == SCENARIO_CHUNKED;
    flag_if(file, waits && plan->pp > 2, "--no-overlap-p2p-communication");
    say_if(file, waits && plan->pp == 2, "Megatron-LM always overlaps the transfers of virtual stages on two stages.");
    say_if(file, plan->pp > 1 && plan->vpp == 1 && overlap->pp_overlap == SCENARIO_STAGES_OVERLAP,
           "Megatron-LM overlaps transfers between stages only with virtual stages.");
    flag_if(file, chunked && plan->sequence_parallel, "--tp-comm-overlap");
    say_if(file, chunked && !plan->sequence_parallel,
           "Megatron-LM overlaps chunks of tensor-parallel collectives only with sequence parallelism.");
    say_if(file, plan->tp > 1 && overlap->tp_overlap == SCENARIO_EXPOSED,
           "Megatron-LM overlaps some tensor-parallel collectives without a flag, and the plan none.");
    say_if(file, plan->cp > 1 && !overlap->cp_overlap,
           "Megatron-LM overlaps the ring with attention, and the plan "
           "does not.");
}

/** Return whether a list of results that are computed again has an entry of this name. */
static bool has_entry(int32_t recompute, const char *name)
{
    for (int32_t i = 0; i < SYSTEM_ENTRY_N_KEYS; i++) {
        const struct schema_key *key = &system_entry_keys[i];
        int32_t entry = strcmp(key->name, "plan.recompute") == 0 ? schema_choice(key->choices, name) : -1;
        if (entry >= 0)
            return (recompute & (1 << entry)) != 0;
    }
    return false;
}

/** Print what of the plan's list Megatron-LM can compute again by itself. */
static void print_modules(const struct scenario *scenario, int32_t recompute, FILE *file)
{
    bool grouped = scenario->expert_gemms != DEVICE_SEQUENTIAL;
    static const char *const modules[][2] = {
        {"attention-core", "core_attn"}, {"norm", "layernorm"}, {"moe-act", "moe_act"},
        {"mla-up-proj", "mla_up_proj"},  {"mlp", "mlp"},        {"moe", "moe"}};
    bool any = false;
    for (size_t i = 0; i < sizeof modules / sizeof modules[0]; i++) {
        bool alone = !grouped && strcmp(modules[i][0], "moe-act") == 0;
        if (!has_entry(recompute, modules[i][0]) || alone)
            continue;
        fputs(any ? "" : "--recompute-granularity selective\n--recompute-modules", file);
        fprintf(file, " %s", modules[i][1]);
        any = true;
    }
    fputs(any ? "\n" : "", file);
    say_if(file, has_entry(recompute, "moe-act") && !grouped,
           "The plan recomputes moe-act, which Megatron-LM takes only with --moe-grouped-gemm.");
}

/** Return whether a layer has an activation function outside routed experts. */
static bool has_dense_activation(const struct model *model)
{
    bool dense = first_kind(model, false) != NULL;
    for (int32_t kind = 0; kind < MODEL_NAMED_KINDS; kind++)
        dense = dense || (model_has_kind(model, kind) && model->kinds[kind].shared_ffn > 0);
    return dense;
}

static void print_recompute(const struct scenario *scenario, const struct scenario_plan *plan, FILE *file)
{
    int32_t recompute = plan->recompute;
    if (recompute == RECOMPUTE_FULL && plan->recompute_layers == 0)
        fputs("--recompute-granularity full\n--recompute-method uniform\n--recompute-num-layers 1\n", file);
    else if (recompute == RECOMPUTE_FULL)
        fprintf(file, "--recompute-granularity full\n--recompute-method block\n--recompute-num-layers %" PRId64 "\n",
                plan->recompute_layers / plan->vpp);
    else
        print_modules(scenario, recompute, file);
    say_if(file,
           recompute != RECOMPUTE_FULL && (recompute & RECOMPUTE_ACTIVATION) != 0 &&
               has_dense_activation(&scenario->model),
           "The plan recomputes the activation function of dense layers, which Megatron-LM cannot do alone.");
    say_if(file, recompute != RECOMPUTE_FULL && (recompute & RECOMPUTE_ALTERNATE_GEMMS) != 0,
           "The plan recomputes every second GEMM, which Megatron-LM cannot do.");
    say_if(file, recompute == RECOMPUTE_FULL && plan->recompute_layers > 0 && plan->vpp > 1,
           "Megatron-LM counts --recompute-num-layers for each virtual stage, so it is plan.recompute_layers / vpp.");
}

static void print_kernels(const struct point_view *view, FILE *file)
{
    const struct scenario *scenario = view->scenario;
    bool unfused = scenario->attention == DEVICE_UNFUSED;
    bool old_flash = scenario->attention == DEVICE_FLASH1 || scenario->attention == DEVICE_FLASH2;
    fprintf(file, "--attention-backend %s\n",
            unfused                               ? "unfused"
            : scenario->attention == DEVICE_CUDNN ? "fused"
                                                  : "flash");
    say_if(file, unfused && view->system->entry->plan.cp > 1,
           "Transformer Engine has no unfused attention with context parallelism.");
    say_if(file, old_flash && has_other_values(&scenario->model),
           "Transformer Engine takes values of another width than keys only from flash-attention 3 on.");
    flag_if(file, scenario->loss == SCENARIO_LOSS_FUSED || scenario->loss == SCENARIO_LOSS_FUSED_METRICS,
            "--cross-entropy-loss-fusion");
    say_if(file, scenario->loss == SCENARIO_LOSS_TORCH || scenario->loss == SCENARIO_LOSS_FUSED_LINEAR,
           "loss: Megatron-LM computes it by passes of its own on all logits.");
    flag_if(file,
            (model_is_gated(&scenario->model) && scenario->swiglu == SCENARIO_SWIGLU_SEPARATE) ||
                has_biased_experts(&scenario->model),
            "--no-bias-swiglu-fusion");
    flag_if(file, scenario->model.positions == 0 && !scenario->fused.rotation, "--no-rope-fusion");
    say_if(file, scenario->model.norm == MODEL_RMSNORM && !scenario->fused.norm,
           "fused: RMSNorm is one kernel in Megatron-LM.");
    say_if(file, scenario->cuda_launch_blocking,
           "cuda_launch_blocking: set CUDA_LAUNCH_BLOCKING=1 in the environment.");
    say_if(file, !scenario->fused.qkv || !scenario->fused.gate_up,
           "fused: queries, keys and values, and gate and up, are one GEMM each in Megatron-LM.");
    say_if(file, scenario->logits == SCENARIO_LOGITS_GATHERED, "logits: Megatron-LM computes the loss in parallel.");
    flag_if(file, scenario->gradient_accumulation == SCENARIO_ACCUMULATE_AUTOGRAD, "--no-gradient-accumulation-fusion");
    say_if(file, scenario->gradient_accumulation == SCENARIO_ACCUMULATE_FP32_COPY,
           "gradient_accumulation: is fp32-copy, DeepSpeed's; Megatron-LM adds gradients in GEMMs.");
    say_if(file, scenario->cuda_graphs != SCENARIO_GRAPH_NONE,
           "cuda_graphs: is not none; --cuda-graph-impl and its scope differ between versions.");
    say_if(file, scenario->kernels != SCENARIO_FUSED, "kernels: is not fused, and kernels of Megatron-LM are.");
}

void megatron_flags_print(const struct point_view *view, FILE *file)
{
    struct found found = find_all(view);
    print_limits(view, &found, file);
    print_model(&view->scenario->model, file);
    print_experts(view, file);
    print_batch(view, &found, file);
    print_parallel(view, file);
    print_sharding(view, file);
    print_states(&view->system->entry->plan, file);
    print_overlap(view, file);
    print_recompute(view->scenario, &view->system->entry->plan, file);
    print_kernels(view, file);
}
