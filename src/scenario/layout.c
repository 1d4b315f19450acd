/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scenario/layout.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

/** Add an error about a key of the plan that begins with "plan.KEY: ". */
__attribute__((format(printf, 5, 6))) static bool refuse(const struct scenario *scenario,
                                                         const struct scenario_system *system, const char *key,
                                                         struct error *err, const char *format, ...)
{
    char path[64], what[900], by[600] = "";
    va_list list;
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    snprintf(path, sizeof path, "plan.%s", key);
    int32_t node = document_find(&scenario->document, system->node, path);
    if (node < 0) /* the entry leaves the key to its default */
        snprintf(by, sizeof by, " (of framework %s)", scenario->framework_name);
    return document_error(&scenario->document, node >= 0 ? node : system->node, err, "%s%s: %s", path, by, what);
}

/** Check that tp x pp x cp x dp is the number of the platform's GPUs, and fill in dp. */
static bool check_gpus(const struct scenario *scenario, struct scenario_system *system, struct error *err)
{
    const struct scenario_plan *plan = &system->plan;
    const struct platform *platform = &scenario->platform;
    int32_t node = document_find(&scenario->document, system->node, "plan");
    int64_t replica = plan->tp * plan->pp * plan->cp, n_gpus = platform_n_gpus(platform);
    if (plan->dp == 0 && n_gpus % replica != 0)
        return document_error(&scenario->document, node, err,
                              "plan: tp x pp x cp = %" PRId64 " x %" PRId64 " x %" PRId64 " = %" PRId64
                              " does not divide the %" PRId64 " GPUs of platform %s",
                              plan->tp, plan->pp, plan->cp, replica, n_gpus, platform->name);
    if (plan->dp != 0 && replica * plan->dp != n_gpus)
        return document_error(&scenario->document, node, err,
                              "plan: tp x pp x cp x dp = %" PRId64 " x %" PRId64 " x %" PRId64 " x %" PRId64
                              " = %" PRId64 ", but platform %s has %" PRId64
                              " GPUs; make them equal, or leave out dp, which then follows",
                              plan->tp, plan->pp, plan->cp, plan->dp, replica * plan->dp, platform->name, n_gpus);
    system->plan.dp = n_gpus / replica;
    return true;
}

/** Check that tensor-parallel groups stay inside an NVLink domain. Otherwise name degrees that divide it and the heads,
 * and the platform that has 64 of a rack's 72 GPUs. */
static bool check_domain(const struct scenario *scenario, int32_t node, int64_t tp, struct error *err)
{
    const struct platform *platform = &scenario->platform;
    const char *name = platform_domain_name(platform), *rack = strstr(platform->name, "-nvl72");
    int64_t domain = platform_nvlink_domain(platform);
    char allowed[160] = "", other[96] = "";
    if (domain % tp == 0)
        return true;
    for (int64_t degree = 1; degree <= domain; degree++)
        if (domain % degree == 0 && model_shares_heads(&scenario->model, degree, true)) {
            size_t used = strlen(allowed);
            snprintf(allowed + used, sizeof allowed - used, "%s%" PRId64, used > 0 ? ", " : "", degree);
        }
    if (rack != NULL && 64 % tp == 0)
        snprintf(other, sizeof other, ", or platform %.*s-nvl64, whose domains have 64 of these GPUs",
                 (int)(rack - platform->name), platform->name);
    return document_error(&scenario->document, node, err,
                          "plan.tp: %" PRId64 " does not divide the GPUs of %s (a tensor-parallel group stays inside "
                          "%s), %" PRId64 "; allowed: %s%s",
                          tp, name, name, domain, allowed, other);
}

/** Check that a degree of the plan, the value of this node, divides a count of the model or platform. */
static bool check_divides(const struct document *document, int32_t node, int64_t degree, int64_t count,
                          const char *of_what, struct error *err)
{
    if (count % degree == 0)
        return true;
    return document_error(document, node, err, "plan.%s: %" PRId64 " does not divide %s, %" PRId64,
                          document->node[node].key, degree, of_what, count);
}

static bool stages_fit(const struct scenario_plan *plan, int64_t pp, int64_t layers)
{
    return pp * plan->vpp <= layers + 2 && scenario_stages_fit(&plan->stages, layers, (int32_t)pp, (int32_t)plan->vpp);
}

/** Return the keys that share layers, "pp 5, vpp 2, count_head true", without those that change nothing. */
static char *stages_text(const struct scenario_plan *plan)
{
    const struct scenario_stages *split = &plan->stages;
    char *text;
    size_t n_bytes;
    FILE *file = check_memstream(&text, &n_bytes);
    fprintf(file, "pp %" PRId64, plan->pp);
    if (plan->vpp > 1)
        fprintf(file, ", vpp %" PRId64, plan->vpp);
    if (split->first_layers.given)
        fprintf(file, ", first_stage_layers %" PRId64, split->first_layers.value);
    if (split->last_layers.given)
        fprintf(file, ", last_stage_layers %" PRId64, split->last_layers.value);
    if (split->count_embedding)
        fputs(", count_embedding true", file);
    if (split->count_head)
        fputs(", count_head true", file);
    if (split->spread == SCENARIO_EVEN)
        fputs(", spread even", file);
    CHECK(fclose(file) == 0);
    return text;
}

/** Return the numbers of stages that share GPUs and layers with the plan's other keys, "pp 1, 2, 4, or "; "": none
 * does.
 */
static char *fitting_stages(const struct scenario_plan *plan, int64_t n_gpus, int64_t layers)
{
    char *text;
    size_t n_bytes;
    FILE *file = check_memstream(&text, &n_bytes);
    int n = 0;
    for (int64_t pp = plan->vpp > 1 ? 2 : 1; pp <= layers + 2; pp++)
        if (stages_fit(plan, pp, layers) && n_gpus % (plan->tp * pp * plan->cp) == 0)
            fprintf(file, n++ == 0 ? "pp %" PRId64 : ", %" PRId64, pp);
    fputs(n > 0 ? ", or " : "", file);
    CHECK(fclose(file) == 0);
    return text;
}

/** Layers of a virtual stage: how many of each kind, in the order of their first layers. */
struct stage_layers {
    int32_t n;
    struct model_run runs[MODEL_MAX_KINDS];
};

static struct stage_layers stage_layers_of(const struct model *model, int64_t first, int64_t n_layers)
{
    struct stage_layers stage = {0};
    for (int64_t layer = first; layer < first + n_layers; layer++) {
        int32_t kind = model_kind_of(model, layer), i = 0;
        while (i < stage.n && stage.runs[i].kind != kind)
            i++;
        stage.runs[i].kind = kind;
        stage.runs[i].n++;
        stage.n += i == stage.n;
    }
    return stage;
}

bool layout_stages_are_few(const struct model *model, const struct scenario_plan *plan)
{
    struct stage_layers seen[SCENARIO_MOST_STAGE_KINDS];
    int64_t first = 0;
    int32_t n = 0, stages = (int32_t)plan->pp, chunks = (int32_t)plan->vpp;
    for (int32_t stage = 0; stage < stages * chunks; stage++) {
        int64_t n_layers = scenario_stage_layers(&plan->stages, model->layers, stages, chunks, stage);
        struct stage_layers own =
            stage_layers_of(model, first, n_layers + (stage == stages * chunks - 1 ? model->mtp_layers : 0));
        int32_t i = 0;
        while (i < n && memcmp(&seen[i], &own, sizeof own) != 0)
            i++;
        if (i == SCENARIO_MOST_STAGE_KINDS)
            return false;
        seen[i] = own;
        n += i == n;
        first += n_layers;
    }
    return true;
}

/** Check that few virtual stages differ. */
static bool check_kinds(const struct scenario *scenario, const struct scenario_system *system, struct error *err)
{
    return layout_stages_are_few(&scenario->model, &system->plan) ||
           refuse(scenario, system, "pp", err,
                  "the %d virtual stages hold more than %d different sequences of layers, which is not modelled",
                  (int)(system->plan.pp * system->plan.vpp), SCENARIO_MOST_STAGE_KINDS);
}

/** Check plan.layers: its length, its sum, and that no other key shares layers. */
static bool check_list(const struct scenario *scenario, const struct scenario_system *system, struct error *err)
{
    const struct scenario_plan *plan = &system->plan;
    const struct scenario_stages *split = &plan->stages;
    int64_t sum = 0, n = plan->pp * plan->vpp;
    for (int32_t i = 0; i < split->layers.n; i++)
        sum += split->layers.at[i];
    if (split->layers.n != n)
        return refuse(scenario, system, "layers", err,
                      "%d numbers; allowed: one for each of the %" PRId64 " %sstages%s", split->layers.n, n,
                      plan->vpp > 1 ? "virtual " : "",
                      plan->vpp > 1 ? " (pp x vpp), in the order of the model's layers" : "");
    if (split->first_layers.given || split->last_layers.given || split->count_embedding || split->count_head)
        return refuse(scenario, system, "layers", err,
                      "names the layers of every stage, so first_stage_layers, last_stage_layers, count_embedding and "
                      "count_head must be left out");
    return sum == scenario->model.layers ||
           refuse(scenario, system, "layers", err, "the sum is %" PRId64 ", but the model has %" PRId64 " layers", sum,
                  scenario->model.layers);
}

/** Check that interleaving has stages and that every virtual stage has a whole number of layers. */
static bool check_stages(const struct scenario *scenario, const struct scenario_system *system, struct error *err)
{
    const struct scenario_plan *plan = &system->plan;
    const struct document *document = &scenario->document;
    int64_t layers = scenario->model.layers;
    if (plan->vpp > 1 && plan->pp == 1)
        return refuse(scenario, system, "vpp", err,
                      "%" PRId64 " chunks of a rank need more than one stage, but pp is 1", plan->vpp);
    if (plan->stages.layers.n > 0)
        return check_list(scenario, system, err);
    if (stages_fit(plan, plan->pp, layers))
        return true;
    char *stages = stages_text(plan), *fitting = fitting_stages(plan, platform_n_gpus(&scenario->platform), layers);
    bool counts = plan->stages.count_embedding || plan->stages.count_head;
    bool even = plan->stages.spread == SCENARIO_EVEN;
    document_error(document, document_find(document, system->node, "plan.pp"), err,
                   "plan: %s do%s not divide the model's %" PRId64
                   " layers%s; allowed: %sfirst_stage_layers and last_stage_layers that leave the other stages %s"
                   " layers%s%s, or plan.layers with the layers of every stage",
                   stages, strchr(stages, ',') != NULL ? "" : "es", layers,
                   counts ? " and one more for each counted table" : "", fitting, even ? "enough" : "equal",
                   plan->vpp > 1 ? ", each stage a multiple of vpp" : "",
                   even ? "" : ", plan.spread: even, which spreads the rest");
    free(stages);
    free(fitting);
    return false;
}

/** Check the group that shares states. dp must be filled in. */
static bool check_shard_group(const struct scenario *scenario, const struct scenario_system *system, struct error *err)
{
    const struct scenario_plan *plan = &system->plan;
    if (plan->shard_group == 0)
        return true;
    if (plan->sharding == SCENARIO_UNSHARDED)
        return refuse(scenario, system, "shard_group", err, "%" PRId64 " ranks cannot share with sharding none",
                      plan->shard_group);
    return plan->dp * plan->cp % plan->shard_group == 0 ||
           refuse(scenario, system, "shard_group", err, "%" PRId64 " does not divide dp x cp = %" PRId64 " x %" PRId64,
                  plan->shard_group, plan->dp, plan->cp);
}

/** Check that rings have no windows, and that Ulysses can give whole heads to the ranks. */
static bool check_context(const struct scenario *scenario, const struct scenario_system *system, struct error *err)
{
    const struct scenario_plan *plan = &system->plan;
    if (plan->cp > 1 && scenario_is_ring(plan->cp_type) && model_has_windows(&scenario->model))
        return refuse(scenario, system, "cp_type", err,
                      "a ring does not run the sliding windows of model %s, as in Transformer Engine; allowed: "
                      "all-gather, ulysses, or cp 1",
                      scenario->model.name);
    int64_t ranks = plan->tp * plan->cp;
    if (plan->cp_type != SCENARIO_ULYSSES || model_shares_heads(&scenario->model, ranks, plan->kv_copies))
        return true;
    if (model_shares_heads(&scenario->model, ranks, true))
        return refuse(scenario, system, "kv_copies", err,
                      "false lets ulysses have at most kv_heads = %" PRId64 " ranks, and tp x cp = %" PRId64
                      " x %" PRId64 "; allowed: true, or rings and all-gather",
                      scenario->model.kinds[0].kv_heads, plan->tp, plan->cp);
    return refuse(scenario, system, "cp_type", err,
                  "ulysses needs tp x cp = %" PRId64 " x %" PRId64 " to divide heads and kv_heads, %" PRId64
                  " and %" PRId64 ", or be a multiple of kv_heads; rings and all-gather do not",
                  plan->tp, plan->cp, scenario->model.kinds[0].heads, scenario->model.kinds[0].kv_heads);
}

/** Check the keys that belong to one version of FSDP. */
static bool check_fsdp(const struct scenario *scenario, const struct scenario_system *system, bool in_passes,
                       struct error *err)
{
    const struct scenario_plan *plan = &system->plan;
    if (plan->fsdp_ends == SCENARIO_ENDS_OWN && plan->fsdp != 2)
        return refuse(scenario, system, "fsdp_ends", err, "'own' needs fsdp 2");
    if (plan->fsdp_ends == SCENARIO_ENDS_OWN && scenario->model.tied_embeddings)
        return refuse(scenario, system, "fsdp_ends", err,
                      "'own' needs untied embeddings, since a tied head has the embedding's tensor");
    if (plan->fsdp_prefetch == SCENARIO_BACKWARD_POST && (plan->fsdp == 2 || !in_passes))
        return refuse(scenario, system, "fsdp_prefetch", err, "backward-post needs fsdp 1 and sharding zero2 or zero3");
    return true;
}

/** Check zero2 or zero3 with pipeline stages. PyTorch's stages know FSDP2 (torch/distributed/pipelining/stage.py). */
static bool check_staged(const struct scenario *scenario, const struct scenario_system *system, struct error *err)
{
    const struct scenario_plan *plan = &system->plan;
    if (plan->sharding == SCENARIO_ZERO2)
        return refuse(scenario, system, "sharding", err,
                      "zero2 needs pp 1, which is %" PRId64 ", since DeepSpeed's pipelines refuse it; with pipeline "
                      "stages zero1, none, and zero3 with fsdp 2 are allowed",
                      plan->pp);
    if (plan->fsdp != 2)
        return refuse(scenario, system, "sharding", err,
                      "zero3 with fsdp 1 needs pp 1, which is %" PRId64 "; with pipeline stages zero1, none, and zero3 "
                      "with fsdp 2 are allowed",
                      plan->pp);
    return !scenario->model.tied_embeddings ||
           refuse(scenario, system, "sharding", err,
                  "zero3 with pipeline stages needs untied embeddings, since PyTorch's stages share no parameters");
}

static bool check_sharding(const struct scenario *scenario, const struct scenario_system *system, struct error *err)
{
    bool in_passes = system->plan.sharding == SCENARIO_ZERO2 || system->plan.sharding == SCENARIO_ZERO3;
    if (!check_fsdp(scenario, system, in_passes, err))
        return false;
    if (system->plan.sharding == SCENARIO_ZERO3 && system->plan.main_params == SCENARIO_MAIN_FP16)
        return refuse(scenario, system, "main_params", err,
                      "fp16 needs sharding zero1, zero2 or none; with zero3 the shards are the parameters themselves: "
                      "fp32, or none for a model in bf16");
    if (!in_passes && system->plan.fsdp == 2)
        return refuse(scenario, system, "fsdp", err, "2 needs sharding zero2 or zero3");
    if (in_passes && system->plan.schedule == SCENARIO_ZERO_BUBBLE)
        return refuse(scenario, system, "schedule", err, "zero-bubble needs sharding zero1 or none");
    if (system->plan.shard_communication == SCENARIO_ON_DEMAND &&
        (system->plan.sharding != SCENARIO_ZERO3 || system->plan.pp > 1 || system->plan.shard_group > 0))
        return refuse(scenario, system, "shard_communication", err,
                      "on-demand needs sharding zero3, pp 1 and no shard_group; HSDP's reductions among groups are not "
                      "modelled with it");
    if (system->plan.reshard_after_forward != SCENARIO_RESHARD_DEFAULT && system->plan.sharding != SCENARIO_ZERO3)
        return refuse(scenario, system, "reshard_after_forward", err, "needs sharding zero3");
    return !in_passes || system->plan.pp == 1 || check_staged(scenario, system, err);
}

bool layout_check_accumulation(const struct scenario *scenario, const struct scenario_system *system, struct error *err)
{
    const struct scenario_plan *plan = &system->plan;
    if (scenario->gradient_accumulation != SCENARIO_ACCUMULATE_FP32_COPY)
        return true;
    if (!system->auto_plan && (plan->sharding == SCENARIO_ZERO2 || plan->sharding == SCENARIO_ZERO3))
        return refuse(scenario, system, "sharding", err,
                      "gradient_accumulation fp32-copy needs zero1 or none, since DeepSpeed's BF16_Optimizer has no "
                      "others");
    return plan->gradients == SCENARIO_FP32 ||
           refuse(scenario, system, "gradients", err,
                  "gradient_accumulation fp32-copy needs fp32, the precision of its sum");
}

/** Check that an optimizer on the host has a model, and a node whose CPUs are known. */
static bool check_optimizer(const struct scenario *scenario, const struct scenario_system *system, struct error *err)
{
    const struct scenario_plan *plan = &system->plan;
    if (plan->optimizer_offload <= 0)
        return true;
    if (plan->sharding == SCENARIO_ZERO3)
        return refuse(scenario, system, "optimizer_offload", err,
                      "%g needs sharding zero1, zero2 or none; PyTorch's CPUOffloadPolicy and DeepSpeed's stage 3 also "
                      "have parameters on the host",
                      plan->optimizer_offload);
    if (plan->main_params != SCENARIO_MAIN_FP32 || plan->moments != SCENARIO_FP32)
        return refuse(scenario, system, "optimizer_offload", err,
                      "%g needs main_params and moments fp32, the states of Adam on CPUs", plan->optimizer_offload);
    return scenario->device.node_host_adam_bytes_per_s > 0 ||
           refuse(scenario, system, "optimizer_offload", err,
                  "%g needs the bandwidth of Adam on the CPUs, and device %s has no node.host_adam",
                  plan->optimizer_offload, scenario->device.name);
}

static bool check_recompute(const struct scenario *scenario, const struct scenario_system *system, struct error *err)
{
    if (system->plan.recompute == RECOMPUTE_REFUSED)
        return refuse(scenario, system, "recompute", err,
                      "'selective' has no meaning in framework %s; allowed: " SCENARIO_RECOMPUTE_ALLOWED,
                      scenario->framework_name);
    const char *misfit = scenario_recompute_misfit(system->plan.recompute, &scenario->model);
    return misfit == NULL || refuse(scenario, system, "recompute", err, "%s", misfit);
}

/** Check the number of layers of a stage that recompute, which are spread evenly over its chunks. */
static bool check_recompute_layers(const struct scenario *scenario, const struct scenario_system *system,
                                   struct error *err)
{
    const struct scenario_plan *plan = &system->plan;
    if (plan->early_stop && plan->recompute != RECOMPUTE_FULL)
        return refuse(scenario, system, "early_stop", err, "true needs recompute: full");
    if (plan->recompute_layers == 0)
        return true;
    if (plan->recompute != RECOMPUTE_FULL)
        return refuse(scenario, system, "recompute_layers", err, "%" PRId64 " layers need recompute: full",
                      plan->recompute_layers);
    int64_t largest = 0;
    for (int32_t stage = 0; stage < (int32_t)plan->pp; stage++) {
        int32_t layers =
            scenario_rank_layers(&plan->stages, scenario->model.layers, (int32_t)plan->pp, (int32_t)plan->vpp, stage);
        largest = layers > largest ? layers : largest;
    }
    if (plan->recompute_layers <= largest && plan->recompute_layers % plan->vpp == 0)
        return true;
    return refuse(scenario, system, "recompute_layers", err,
                  "%" PRId64 " is not allowed; allowed: a multiple of vpp, %" PRId64
                  ", up to the layers of a stage, %" PRId64,
                  plan->recompute_layers, plan->vpp, largest);
}

/** Check that chunks and slices are used only with schedules that have them. */
static bool check_schedule(const struct scenario *scenario, const struct scenario_system *system, struct error *err)
{
    const struct scenario_plan *plan = &system->plan;
    bool chunks = plan->schedule == SCENARIO_ONE_F_ONE_B || plan->schedule == SCENARIO_INTERLEAVED;
    bool slices = plan->schedule == SCENARIO_SEQ1F1B || plan->schedule == SCENARIO_TERAPIPE;
    if (plan->schedule == SCENARIO_INTERLEAVED && plan->vpp == 1)
        return refuse(scenario, system, "schedule", err, "interleaved needs plan.vpp above 1");
    if (!chunks && plan->vpp > 1)
        return refuse(scenario, system, "vpp", err,
                      "%" PRId64 ", but plan.schedule allows only 1; allowed: 1f1b or interleaved "
                      "with chunks",
                      plan->vpp);
    if (!slices && plan->slices > 0)
        return refuse(scenario, system, "slices", err,
                      "%" PRId64 ", but only the schedules seq1f1b and terapipe cut micro-batches", plan->slices);
    return true;
}

/** Return the heads of keys and values of the first kind of layer that does not share them among ranks. */
static int64_t unshared_kv_heads(const struct model *model, int64_t ranks, bool copies)
{
    for (int32_t kind = 0; kind < MODEL_MAX_KINDS; kind++) {
        int64_t heads = model->kinds[kind].kv_heads;
        if (model_has_kind(model, kind) && heads % ranks != 0 && !(copies && ranks % heads == 0))
            return heads;
    }
    return model->kinds[0].kv_heads;
}

/** Check that TP ranks have whole heads of keys and values, or copies of one. Heads must be right. */
static bool check_kv_heads(const struct scenario *scenario, const struct scenario_system *system, struct error *err)
{
    const struct scenario_plan *plan = &system->plan;
    const struct model *model = &scenario->model;
    if (model_shares_heads(model, plan->tp, plan->kv_copies))
        return true;
    if (model_shares_heads(model, plan->tp, true))
        return refuse(scenario, system, "kv_copies", err,
                      "false needs tp to divide the model's kv_heads, %" PRId64 ", but tp is %" PRId64
                      "; allowed: true, which copies them to several ranks",
                      unshared_kv_heads(model, plan->tp, false), plan->tp);
    return refuse(scenario, system, "tp", err,
                  "%" PRId64 " neither divides the model's kv_heads, %" PRId64 ", nor is a multiple of them", plan->tp,
                  unshared_kv_heads(model, plan->tp, true));
}

void layout_fit(const struct scenario *scenario, int32_t node, struct scenario_plan *plan)
{
    const struct document *document = &scenario->document;
    bool in_passes = plan->sharding == SCENARIO_ZERO2 || plan->sharding == SCENARIO_ZERO3;
    if (plan->recompute != RECOMPUTE_FULL && document_find(document, node, "plan.early_stop") < 0)
        plan->early_stop = false;
    if (!in_passes && document_find(document, node, "plan.fsdp") < 0)
        plan->fsdp = 1;
    if ((plan->fsdp != 2 || scenario->model.tied_embeddings) && document_find(document, node, "plan.fsdp_ends") < 0)
        plan->fsdp_ends = SCENARIO_ENDS_ROOT;
    if ((plan->fsdp == 2 || !in_passes) && document_find(document, node, "plan.fsdp_prefetch") < 0)
        plan->fsdp_prefetch = SCENARIO_BACKWARD_PRE;
}

bool layout_takes_loss(const struct scenario *scenario, const struct scenario_plan *plan)
{
    return scenario->loss != SCENARIO_LOSS_FUSED_LINEAR || plan->tp * plan->pp == 1;
}

/** Check that a rank can run the head in chunks of tokens. */
static bool check_loss(const struct scenario *scenario, const struct scenario_system *system, struct error *err)
{
    const struct scenario_plan *plan = &system->plan;
    if (layout_takes_loss(scenario, plan))
        return true;
    return refuse(scenario, system, plan->tp > 1 ? "tp" : "pp", err,
                  "%" PRId64 ", but loss fused-linear needs 1, since Liger's kernel has the whole head on each rank; "
                  "allowed: 1, or loss passes, torch, fused",
                  plan->tp > 1 ? plan->tp : plan->pp);
}

/** Return whether each of `ep` ranks has as many experts of every layer. */
static bool divides_experts(const struct model *model, int64_t ep)
{
    for (int32_t kind = 0; kind < MODEL_NAMED_KINDS; kind++)
        if (model_has_kind(model, kind) && model->kinds[kind].experts % ep != 0)
            return false;
    return true;
}

/** Return the fewest experts of a layer that has some. */
static int64_t fewest_experts(const struct model *model)
{
    int64_t fewest = INT64_MAX;
    for (int32_t kind = 0; kind < MODEL_NAMED_KINDS; kind++)
        if (model_has_kind(model, kind) && model->kinds[kind].experts > 0 && model->kinds[kind].experts < fewest)
            fewest = model->kinds[kind].experts;
    return fewest;
}

bool layout_takes_ep_overlap(const struct scenario_plan *plan, bool ep_overlap, bool own_schedule)
{
    bool once = (plan->recompute & (RECOMPUTE_FULL | RECOMPUTE_MOE)) == 0;
    return !ep_overlap || plan->ep == 1 || (once && (plan->pp == 1 || plan->vpp > 1 || own_schedule));
}

/** Check options of experts that exclude each other. */
static bool check_expert_options(const struct scenario *scenario, const struct scenario_system *system,
                                 struct error *err)
{
    const struct scenario_plan *plan = &system->plan;
    if (plan->capacity_factor > 0 && plan->capacity_factor < 1)
        return refuse(scenario, system, "capacity_factor", err,
                      "%g would drop tokens of balanced routing, too; allowed: 0 (drop none), or at least 1",
                      plan->capacity_factor);
    if (plan->pad_to_capacity && scenario->communication.dispatcher == SCENARIO_DISPATCH_DEEPEP)
        return refuse(scenario, system, "pad_to_capacity", err,
                      "true, but DeepEP pads no experts (Megatron-LM); allowed: false, or another "
                      "communication.dispatcher");
    return layout_takes_ep_overlap(plan, scenario->communication.ep_overlap, true) ||
           refuse(
               scenario, system, "recompute", err,
               "full and moe repeat what communication.ep_overlap would hide, and Megatron-LM refuses both together; "
               "allowed: other entries, or ep_overlap false");
}

/** Check experts and the ranks that share them. dp must be filled in. */
static bool check_experts(const struct scenario *scenario, const struct scenario_system *system, struct error *err)
{
    const struct scenario_plan *plan = &system->plan;
    const struct model *model = &scenario->model;
    int64_t ranks = plan->tp * plan->cp * plan->dp, once = scenario_expert_ranks(plan);
    bool shared_otherwise =
        plan->sharding == SCENARIO_ZERO2 || plan->sharding == SCENARIO_ZERO3 || plan->shard_group > 0;
    if (plan->pad_to_capacity && plan->capacity_factor == 0)
        return refuse(scenario, system, "pad_to_capacity", err, "true needs plan.capacity_factor of at least 1");
    if (!model_has_experts(model) && scenario->expert_imbalance > 1)
        return document_error(&scenario->document, document_find(&scenario->document, 0, "expert_imbalance"), err,
                              "expert_imbalance: %g, but model %s has no experts; allowed: 1",
                              scenario->expert_imbalance, model->name);
    if (!model_has_experts(model))
        return (plan->ep == 1 ||
                refuse(scenario, system, "ep", err, "%" PRId64 ", but model %s has no experts; allowed: 1", plan->ep,
                       model->name)) &&
               (plan->etp == 1 ||
                refuse(scenario, system, "etp", err, "%" PRId64 ", but model %s has no experts; allowed: 1", plan->etp,
                       model->name)) &&
               (plan->capacity_factor == 0 ||
                refuse(scenario, system, "capacity_factor", err, "%g, but model %s has no experts; allowed: 0",
                       plan->capacity_factor, model->name));
    if (!check_expert_options(scenario, system, err))
        return false;
    if (plan->tp > 1 && !plan->sequence_parallel)
        return refuse(scenario, system, "sequence_parallel", err,
                      "false, but with experts tp above 1 needs true, as in Megatron-LM");
    if (plan->tp % plan->etp != 0)
        return refuse(scenario, system, "etp", err, "%" PRId64 "; allowed: a divisor of tp = %" PRId64, plan->etp,
                      plan->tp);
    char split[64] = "";
    if (plan->etp > 1)
        snprintf(split, sizeof split, " x etp = %" PRId64, once);
    if (!divides_experts(model, plan->ep))
        return refuse(scenario, system, "ep", err,
                      "%" PRId64 "; allowed: a divisor of the experts of each layer (%" PRId64 ")", plan->ep,
                      fewest_experts(model));
    if (ranks % once != 0)
        return refuse(scenario, system, "ep", err,
                      "%" PRId64 "%s; allowed: a divisor of the tp x cp x dp = %" PRId64 " GPUs of a stage", plan->ep,
                      split, ranks);
    if (!layout_shares_experts(model, plan))
        return refuse(scenario, system, "ep", err,
                      "%" PRId64 "%s; allowed: multiples and divisors of tp = %" PRId64 " and of tp x cp = %" PRId64,
                      plan->ep, split, plan->tp, plan->tp * plan->cp);
    if (plan->optimizer_offload > 0 && once != plan->tp)
        return refuse(scenario, system, "optimizer_offload", err,
                      "%g needs ep x etp to equal tp with experts; other ranks that share states are not modelled",
                      plan->optimizer_offload);
    return !shared_otherwise || once == plan->tp ||
           refuse(scenario, system, plan->shard_group > 0 ? "shard_group" : "sharding", err,
                  "needs ep x etp to equal tp with experts, so that the same ranks share all states; allowed: zero1 or "
                  "none without shard_group, or ep %" PRId64,
                  plan->tp / plan->etp);
}

bool layout_shares_experts(const struct model *model, const struct scenario_plan *plan)
{
    int64_t pipeline = plan->tp * plan->cp, once = scenario_expert_ranks(plan);
    return (once % plan->tp == 0 || plan->tp % once == 0) && (once % pipeline == 0 || pipeline % once == 0) &&
           pipeline * plan->dp % once == 0 && divides_experts(model, plan->ep);
}

bool layout_check(const struct scenario *scenario, struct scenario_system *system, struct error *err)
{
    const struct document *document = &scenario->document;
    const struct model *model = &scenario->model;
    const struct scenario_plan *plan = &system->plan;
    int32_t tp = document_find(document, system->node, "plan.tp");
    layout_fit(scenario, system->node, &system->plan);
    bool ok = check_gpus(scenario, system, err) && check_shard_group(scenario, system, err);
    ok &= check_domain(scenario, tp, plan->tp, err);
    ok &= check_stages(scenario, system, err) && check_kinds(scenario, system, err) &&
          check_recompute_layers(scenario, system, err);
    ok &= check_recompute(scenario, system, err);
    ok &= check_context(scenario, system, err);
    ok = ok && check_experts(scenario, system, err);
    if (!model_takes_tensor(model, plan->tp))
        ok =
            refuse(scenario, system, "tp", err,
                   "%" PRId64 ", but the norms of all queries and keys of model %s (qk_norm: full) need all heads on a "
                   "rank; allowed: 1",
                   plan->tp, model->name);
    ok &= check_schedule(scenario, system, err) && check_loss(scenario, system, err);
    ok &= check_sharding(scenario, system, err) && layout_check_accumulation(scenario, system, err) &&
          check_optimizer(scenario, system, err);
    for (int32_t kind = 0; kind < MODEL_MAX_KINDS; kind++) {
        if (!model_has_kind(model, kind))
            continue;
        if (!check_divides(document, tp, plan->tp, model->kinds[kind].heads, "the model's heads", err))
            return false;
    }
    return ok && check_kv_heads(scenario, system, err);
}
