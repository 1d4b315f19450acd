/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scenario/system_entry.h"

#include <string.h>

#include "base/check.h"
#include "document/document_read.h"
#include "document/schema_text.h"
#include "scenario/framework.h"

#define SYSTEM(field) offsetof(struct scenario_system, field)

/* Each degree is at most 2^15, so the product of four degrees stays within 63 bits. */
const struct schema_key system_entry_keys[] = {
    {"name", SCHEMA_WORD, "-", 0, 0, NULL, NULL, "name of the training system (`slimsim list systems`)", SYSTEM(name)},
    {"label", SCHEMA_WORD, "-", 0, 0, "", NULL, "name of the row in results; default: the system's name",
     SYSTEM(label)},
    {"offload", SCHEMA_CHOICE, "-", 0, 0, framework_value, SCENARIO_OFFLOAD,
     "activations that go to the host's memory: never: none; plan: the share plan.offload, or with plan: auto a share "
     "of plan_space.offload; auto: as slimpack and bytescale decide themselves, other systems as plan. If never comes "
     "from the framework, a share above 0 that the scenario gives means plan",
     SYSTEM(plan.offload_mode)},
    {"fits", SCHEMA_CHOICE, "-", 0, 0, "sure", SCENARIO_FITS,
     "plans that this system may use, as the scenario's key `fits`, which is the default", SYSTEM(plan.fits)},
    {"plan.tp", SCHEMA_INT, "GPUs", 1, 1 << 15, NULL, NULL, "tensor-parallel degree", SYSTEM(plan.tp)},
    {"plan.pp", SCHEMA_INT, "stages", 1, 1 << 15, "1", NULL, "number of pipeline stages", SYSTEM(plan.pp)},
    {"plan.cp", SCHEMA_INT, "GPUs", 1, 1 << 15, "1", NULL, "context-parallel degree", SYSTEM(plan.cp)},
    {"plan.cp_type", SCHEMA_CHOICE, "-", 0, 0, framework_value, SCENARIO_CONTEXT,
     "exchange of context parallelism: ring: keys and values go round; all-gather: they are gathered before attention; "
     "ulysses: heads are exchanged for tokens; ring-contiguous: a ring whose ranks have one piece of a sample each, "
     "not two pieces that balance the work",
     SYSTEM(plan.cp_type)},
    {"plan.dp", SCHEMA_INT, "replicas", 0, 1 << 15, "0", NULL,
     "data-parallel replicas; 0: as many as the platform holds", SYSTEM(plan.dp)},
    {"plan.ep", SCHEMA_INT, "GPUs", 1, 1 << 15, "1", NULL,
     "expert-parallel degree: GPUs among tp x cp x dp of a stage that share its experts out; the ep x etp that have "
     "all "
     "of them once are neighbours",
     SYSTEM(plan.ep)},
    {"plan.etp", SCHEMA_INT, "GPUs", 1, 1 << 15, "1", NULL,
     "tensor-parallel degree of each expert (Megatron-LM's --expert-tensor-parallel-size, by default tp there)",
     SYSTEM(plan.etp)},
    {"plan.capacity_factor", SCHEMA_REAL, "-", 0, 1 << 10, "0", NULL,
     "tokens of an expert over the mean of all experts, above which it drops tokens (Megatron-LM's "
     "--moe-expert-capacity-factor); 0: it drops none",
     SYSTEM(plan.capacity_factor)},
    {"plan.pad_to_capacity", SCHEMA_BOOL, "-", 0, 0, "false", NULL,
     "with plan.capacity_factor every expert has as many tokens as it may, padded (Megatron-LM's "
     "--moe-pad-expert-input-to-capacity)",
     SYSTEM(plan.pad_to_capacity)},
    {"plan.vpp", SCHEMA_INT, "chunks", 1, 255, "1", NULL,
     "virtual stages of a rank; above 1 the schedule is interleaved 1F1B, which needs micro-batches in multiples of pp",
     SYSTEM(plan.vpp)},
    {"plan.schedule", SCHEMA_CHOICE, "-", 0, 0, "1f1b", SCENARIO_SCHEDULES,
     "order of a pipeline's passes; 1f1b is interleaved if vpp is above 1; zero-bubble is ZB-H1; seq1f1b and terapipe "
     "work on slices of micro-batches",
     SYSTEM(plan.schedule)},
    {"plan.slices", SCHEMA_INT, "slices", 0, 1 << 12, "0", NULL,
     "slices of a micro-batch with schedule seq1f1b (0: 4); pieces from which terapipe makes slices (0: 32)",
     SYSTEM(plan.slices)},
    {"plan.layers", SCHEMA_COUNTS, "layers", 0, UINT8_MAX, "", NULL,
     "layers of each stage: [20, 20, 21, 19]; with vpp above 1 those of each virtual stage, in the order of the "
     "model's "
     "layers; 0 is a stage without layers; default: stages share the layers",
     SYSTEM(plan.stages.layers)},
    {"plan.spread", SCHEMA_CHOICE, "-", 0, 0, framework_value, SCENARIO_SPREAD,
     "layers that the stages cannot share equally: equal: they are refused; even: each of the first stages has one of "
     "the rest",
     SYSTEM(plan.stages.spread)},
    {"plan.first_stage_layers", SCHEMA_OPTION, "layers", 0, 1 << 15, "unset", "unset",
     "layers of the first stage; 0: only the embedding; unset: as many as a stage between first and last; these stages "
     "share the other layers",
     SYSTEM(plan.stages.first_layers)},
    {"plan.last_stage_layers", SCHEMA_OPTION, "layers", 0, 1 << 15, "unset", "unset",
     "layers of the last stage; 0: only the head; unset: as many as a stage between first and last",
     SYSTEM(plan.stages.last_layers)},
    {"plan.count_embedding", SCHEMA_BOOL, "-", 0, 0, "false", NULL,
     "count the embedding as a layer when layers are shared out to stages: the first stage has one layer less",
     SYSTEM(plan.stages.count_embedding)},
    {"plan.count_head", SCHEMA_BOOL, "-", 0, 0, "false", NULL,
     "count the head as a layer when layers are shared out to stages: the last stage has one layer less",
     SYSTEM(plan.stages.count_head)},
    {"plan.sharding", SCHEMA_CHOICE, "-", 0, 0, framework_value, "zero1|zero2|zero3|none",
     "states that DP x CP ranks share: zero1: those of the optimizer; zero2: also gradients; zero3: also parameters "
     "(FSDP); none: nothing (DDP); zero2 needs pp 1, zero3 with stages fsdp 2",
     SYSTEM(plan.sharding)},
    {"plan.shard_communication", SCHEMA_CHOICE, "-", 0, 0, "collective", "collective|on-demand",
     "with sharding zero3 and one stage, how ranks exchange shards: collective: all ranks join each gather and "
     "reduction (FSDP); on-demand: each rank reads and sends by itself, and ranks wait only at the end of the "
     "iteration (ODC)",
     SYSTEM(plan.shard_communication)},
    {"plan.shard_group", SCHEMA_INT, "GPUs", 0, 1 << 30, "0", NULL,
     "number of consecutive DP x CP ranks that share states; all such groups hold the same (HSDP: zero3 with the GPUs "
     "of a node / tp); 0: all ranks share",
     SYSTEM(plan.shard_group)},
    {"plan.fsdp", SCHEMA_INT, "-", 1, 2, framework_value, NULL,
     "with sharding zero2 or zero3, version of FSDP whose copies of parameters and gradients memory holds: 1: FSDP1 "
     "(FullyShardedDataParallel); 2: FSDP2 (fully_shard, as torchtitan uses it)",
     SYSTEM(plan.fsdp)},
    {"plan.fsdp_prefetch", SCHEMA_CHOICE, "-", 0, 0, framework_value, "backward-pre|backward-post",
     "with fsdp 1, time when the backward pass gathers the parameters of the next layer: backward-pre: before the "
     "current layer (PyTorch's default; memory holds two layers); backward-post: after it (Composer's default; memory "
     "holds one); only memory depends on it",
     SYSTEM(plan.fsdp_prefetch)},
    {"plan.fsdp_ends", SCHEMA_CHOICE, "-", 0, 0, framework_value, "root|own",
     "with fsdp 2, time when embedding and head are gathered: root: from the first forward pass to the last backward "
     "pass (torchtitan of 2024); own: as units of their own, only while they work (torchtitan of 2025); only memory "
     "depends on it, since times are always those of root",
     SYSTEM(plan.fsdp_ends)},
    {"plan.reshard_after_forward", SCHEMA_CHOICE, "-", 0, 0, "default", "default|always|never",
     "with sharding zero3, whether a forward pass frees the parameters that it gathered: always: the backward gathers "
     "them again; never: memory holds them to the backward, with stages to the end of the iteration; default: always "
     "with pp 1, otherwise never (torchtitan)",
     SYSTEM(plan.reshard_after_forward)},
    {"plan.gradients", SCHEMA_CHOICE, "-", 0, 0, framework_value, "fp32|bf16",
     "precision of gradients, and of their reduction unless reduce_precision says another", SYSTEM(plan.gradients)},
    {"plan.gradient_reduction", SCHEMA_CHOICE, "-", 0, 0, framework_value, "reduce-scatter|all-reduce",
     "collective that reduces gradients with sharding zero1 and zero2: reduce-scatter: a rank receives its shard "
     "(Megatron-LM, FSDP); all-reduce: every rank receives all gradients (DeepSpeed); zero3 always reduce-scatters, "
     "none always all-reduces",
     SYSTEM(plan.gradient_reduction)},
    {"plan.reduce_precision", SCHEMA_CHOICE, "-", 0, 0, framework_value, "same|bf16|fp32",
     "precision in which gradients are sent to be reduced: same: that of gradients; bf16 or fp32 (FSDP's reduce_dtype, "
     "DeepSpeed's communication_data_type); only bytes on links depend on it, since conversions and their buffer are "
     "left out",
     SYSTEM(plan.reduce_precision)},
    {"plan.gradient_buffers", SCHEMA_CHOICE, "-", 0, 0, framework_value, "kept|freed|placeholders",
     "kept: memory holds gradients all the time (Megatron-LM's buffers); freed: memory holds them from a step's first "
     "backward pass to the end of the optimizer (PyTorch's zero_grad, FSDP); placeholders: kept, and autograd gets a "
     "bf16 tensor for each shape of a weight, which no kernel fills (Transformer Engine's get_dummy_wgrad)",
     SYSTEM(plan.gradient_buffers)},
    {"plan.reduce_bucket", SCHEMA_INT, "elements", 0, 1 << 30, framework_value, NULL,
     "elements of the buffer through which gradients are reduced (DeepSpeed's reduce_bucket_size); two of them with "
     "zero1 "
     "or zero2 and dp_overlap; 0: no buffer of its own",
     SYSTEM(plan.reduce_bucket)},
    {"plan.gradient_copy", SCHEMA_BOOL, "-", 0, 0, framework_value, NULL,
     "with zero1 and zero2 whose gradients are freed, the optimizer copies its share of bf16 gradients into one block "
     "and into fp32, beside the gradients (DeepSpeed)",
     SYSTEM(plan.gradient_copy)},
    {"plan.optimizer", SCHEMA_CHOICE, "-", 0, 0, framework_value, "fused|eager|compiled",
     "kernels of Adam: fused: one (Apex, Megatron, PyTorch's fused=True); eager: one for each operation (PyTorch's "
     "default)",
     SYSTEM(plan.optimizer)},
    {"plan.main_params", SCHEMA_CHOICE, "-", 0, 0, framework_value, "fp32|fp16|none",
     "main copy of the parameters that Adam updates: fp32; fp16: 2 bytes (Megatron-LM's --main-params-dtype fp16, or "
     "its 16-bit remainders of fp32 with --use-precision-aware-optimizer); none: Adam updates bf16 parameters (a model "
     "in "
     "bf16 with torch.optim.AdamW; with zero3 the shards are then bf16)",
     SYSTEM(plan.main_params)},
    {"plan.moments", SCHEMA_CHOICE, "-", 0, 0, framework_value, "fp32|bf16",
     "precision of both moments of Adam (Megatron-LM's --exp-avg-dtype and --exp-avg-sq-dtype)", SYSTEM(plan.moments)},
    {"plan.optimizer_offload", SCHEMA_REAL, "-", 0, 1, "0", NULL,
     "share of the optimizer's states that is in the host's memory, where the CPUs update it (Megatron-LM's "
     "--optimizer-cpu-offload and --optimizer-offload-fraction; DeepSpeed's offload_optimizer, with zero2 "
     "ZeRO-Offload); "
     "zero3 has none; needs main_params and moments fp32",
     SYSTEM(plan.optimizer_offload)},
    {"plan.sequence_parallel", SCHEMA_BOOL, "-", 0, 0, framework_value, NULL,
     "split norms, dropouts and residuals over the tp GPUs too, by tokens", SYSTEM(plan.sequence_parallel)},
    {"plan.kv_copies", SCHEMA_BOOL, "-", 0, 0, framework_value, NULL,
     "with more TP or Ulysses ranks than heads of keys and values, copy each head to as many ranks; false: refuse them",
     SYSTEM(plan.kv_copies)},
    {"plan.recompute", SCHEMA_SET, "-", 0, 0, "none", SCENARIO_RECOMPUTE "|full|selective",
     "results that the backward pass computes again: norm: outputs of norms; activation: those of SwiGLU or GELU, "
     "except routed experts'; attention-core: core attention; alternate-gemms: beside norm and activation, every "
     "second GEMM of a Llama layer (keys, projection, up), which is torchtitan's selective op; mla-up-proj: queries, "
     "keys and values of latent attention; moe-act: outputs of the routed experts' activation; mlp: dense "
     "feed-forward blocks; moe: blocks of experts with their all-to-alls; full: whole layers; selective: what the "
     "named framework calls so (megatron-core: attention-core), without one norm+activation. norm+activation is "
     "[norm, activation]",
     SYSTEM(plan.recompute)},
    {"plan.recompute_layers", SCHEMA_INT, "layers", 0, 1 << 15, "0", NULL,
     "with recompute full, number of layers of a stage that recompute; the others keep all; 0: every layer",
     SYSTEM(plan.recompute_layers)},
    {"plan.early_stop", SCHEMA_BOOL, "-", 0, 0, framework_value, NULL,
     "with recompute full, true: a layer's last GEMM is not computed again (PyTorch's checkpoint with "
     "use_reentrant=False, from 2.1 on); false: the whole layer is (Megatron, reentrant checkpoints)",
     SYSTEM(plan.early_stop)},
    {"plan.offload", SCHEMA_REAL, "-", 0, 1, "0", NULL,
     "share of activations that goes to the host's memory; with one stage, layer by layer beside the passes, except "
     "the first and the last layer; otherwise a micro-batch's, after its forward pass",
     SYSTEM(plan.offload)},
};
enum { MAX_SYSTEMS = 1000 };
enum { N_AUTO_KEYS = 4 }; /* name, label, offload and fits, the keys that an entry may have beside `plan: auto` */
static const char *const system_others[] = {"knobs", "plan_space", NULL};
static const char *const auto_others[] = {"knobs", "plan_space", "plan", NULL};

/* WITH_n(text) has the names of all lists of the first n entries, each with `text` behind. The first + is left out. */
#define WITH_0(text) &(text)[1]
#define WITH_1(text) WITH_0(text), WITH_0("+norm" text)
#define WITH_2(text) WITH_1(text), WITH_1("+activation" text)
#define WITH_3(text) WITH_2(text), WITH_2("+attention-core" text)
#define WITH_4(text) WITH_3(text), WITH_3("+alternate-gemms" text)
#define WITH_5(text) WITH_4(text), WITH_4("+mla-up-proj" text)
#define WITH_6(text) WITH_5(text), WITH_5("+moe-act" text)
#define WITH_7(text) WITH_6(text), WITH_6("+mlp" text)

const char *const scenario_recompute_name[RECOMPUTE_FULL + 1] = {"none",
                                                                 WITH_0("+norm"),
                                                                 WITH_1("+activation"),
                                                                 WITH_2("+attention-core"),
                                                                 WITH_3("+alternate-gemms"),
                                                                 WITH_4("+mla-up-proj"),
                                                                 WITH_5("+moe-act"),
                                                                 WITH_6("+mlp"),
                                                                 WITH_7("+moe"),
                                                                 "full"};

const char *scenario_recompute_misfit(int32_t recompute, const struct model *model)
{
#define OTHERS "; allowed: none, full, or a list of other entries"
    bool experts = model_has_experts(model), latent = model_has_latent_attention(model);
    bool llama = model_is_gated(model) && !model->dropout && !experts && !latent;
    if (recompute & RECOMPUTE_ALTERNATE_GEMMS && !(llama && (recompute & RECOMPUTE_SELECTIVE) == RECOMPUTE_SELECTIVE))
        return "alternate-gemms needs norm and activation beside it (norm+activation+alternate-gemms), and a dense "
               "model with swiglu or geglu, without dropout and latent attention" OTHERS;
    if (recompute & RECOMPUTE_MLA_UP_PROJ && !latent)
        return "mla-up-proj needs latent attention (kv_lora_rank), which the model does not have" OTHERS;
    if (recompute & RECOMPUTE_MOE_ACT && !experts)
        return "moe-act needs experts, which the model does not have" OTHERS;
    if (recompute & RECOMPUTE_MOE && !experts)
        return "moe needs experts, which the model does not have" OTHERS;
    if (recompute & RECOMPUTE_MLP && !model_has_dense_layers(model))
        return "mlp needs dense layers, and all layers of the model have experts" OTHERS;
    return NULL;
#undef OTHERS
}

/** It holds what all entries share: the framework's defaults, and the folder of plan spaces. */
struct reader {
    const struct document *document;
    const struct system_entry_defaults *defaults;
    const char *data_dir;
};

/** Replace `selective` by the entries that it means. `full` repeats all, so other entries beside it would mean
 * nothing. */
static bool resolve_recompute(const struct reader *reader, struct scenario_system *system, struct error *err)
{
    enum { SELECTIVE = 1 << 9 }; /* its index among the key's words */
    int32_t *list = &system->plan.recompute, node = document_find(reader->document, system->node, "plan.recompute");
    if ((*list & SELECTIVE) && reader->defaults->selective == RECOMPUTE_NONE)
        *list = RECOMPUTE_REFUSED;
    else if (*list & SELECTIVE)
        *list = (*list & ~SELECTIVE) | reader->defaults->selective;
    if (*list <= RECOMPUTE_FULL || *list == RECOMPUTE_REFUSED)
        return true;
    return document_error(reader->document, node, err,
                          "plan.recompute: 'full' repeats whole layers, so it allows no other entry; "
                          "allowed: " SCENARIO_RECOMPUTE_ALLOWED);
}

/** Return whether a list of offloaded shares has one above 0. */
static bool any_offload(const struct schema_reals *shares)
{
    bool any = false;
    for (int32_t i = 0; i < shares->n; i++)
        any = any || shares->at[i] > 0;
    return any;
}

/** Check `offload: never` of the entry against shares that the entry gives. If never is the framework's, a share above
 * 0 that the scenario gives means plan. space: node of its plan_space, -1: none. */
static bool resolve_offload(const struct document *document, struct scenario_system *system, int32_t space,
                            struct error *err)
{
    int32_t of_entry = document_find(document, system->node, "plan_space.offload");
    int32_t listed = space >= 0 ? document_find(document, space, "offload") : -1;
    bool asked = system->auto_plan ? listed >= 0 && any_offload(&system->space.offload) : system->plan.offload > 0;
    if (system->plan.offload_mode != SCENARIO_OFFLOAD_NEVER)
        return true;
    if (asked && document_find(document, system->node, "offload") < 0) {
        system->plan.offload_mode = SCENARIO_OFFLOAD_PLAN;
        return true;
    }
    if (asked && !system->auto_plan)
        return document_error(document, document_find(document, system->node, "plan.offload"), err,
                              "plan.offload: %g is not allowed beside offload: never; allowed: 0, or offload: plan",
                              system->plan.offload);
    if (asked && of_entry >= 0)
        return document_error(
            document, of_entry, err,
            "plan_space.offload: a share above 0 is not allowed beside offload: never; allowed: 0, or "
            "offload: plan");
    if (system->auto_plan)
        system->space.offload = (struct schema_reals){1, {0}};
    return true;
}

/** Take the framework's values of a plan; a search completes it. */
static bool read_framework_plan(const struct reader *reader, struct scenario_system *system, struct error *err)
{
    bool ok = true;
    for (int32_t i = 0; i < SYSTEM_ENTRY_N_KEYS; i++)
        if (system_entry_keys[i].fallback == framework_value)
            ok = schema_read(reader->document, -1, &reader->defaults->keys[i], 1, NULL, system, err) && ok;
    return ok;
}

/** Read zeros of first_stage_layers and last_stage_layers as unset, if version 0.1.0 resolved the entry. It wrote all
 * of its keys, with 0 for unset, and knew no plan.spread. */
static void read_old_stages(const struct document *document, struct scenario_system *system)
{
    enum { N_KEYS_OF_0_1_0 = 28 };
    struct schema_option *ends[] = {&system->plan.stages.first_layers, &system->plan.stages.last_layers};
    int32_t n = 0;
    for (int32_t i = 0; i < SYSTEM_ENTRY_N_KEYS; i++)
        n += document_find(document, system->node, system_entry_keys[i].name) >= 0;
    bool old = n == N_KEYS_OF_0_1_0 && document_find(document, system->node, "plan.spread") < 0;
    for (int i = 0; i < 2 && old; i++)
        if (ends[i]->value == 0)
            *ends[i] = (struct schema_option){0};
}

/** Read `plan: auto` or a layout. An entry's own `plan_space:` replaces that of the scenario. */
static bool read_plan(const struct reader *reader, int32_t node, struct scenario_system *system, struct error *err)
{
    const struct document *document = reader->document;
    int32_t plan = document_find(document, node, "plan"), space = document_find(document, node, "plan_space");
    int32_t from = space >= 0 ? space : document_find(document, 0, "plan_space");
    system->auto_plan =
        plan >= 0 && document->node[plan].kind == DOCUMENT_SCALAR && strcmp(document->node[plan].value, "auto") == 0;
    if (system->auto_plan)
        return read_framework_plan(reader, system, err) &&
               schema_read(document, node, reader->defaults->keys, N_AUTO_KEYS, auto_others, system, err) &&
               plan_space_read(document, from, reader->data_dir, &system->space, err) &&
               resolve_offload(document, system, from, err);
    if (plan >= 0 && document->node[plan].kind == DOCUMENT_SCALAR && !document_is_null(&document->node[plan]))
        return document_error(document, plan, err, "plan: '%.60s'; allowed: auto, or a layout such as {tp: 4, pp: 4}",
                              document->node[plan].value);
    if (space >= 0)
        return document_key_error(
            document, space, err,
            "plan_space: restricts a search, but this entry names its plan; leave the key out, or write plan: auto");
    return schema_read(document, node, reader->defaults->keys, SYSTEM_ENTRY_N_KEYS, system_others, system, err) &&
           resolve_offload(document, system, -1, err);
}

/** Read one entry of `systems:`. */
static bool read_system(const struct reader *reader, int32_t node, struct scenario_system *system, struct error *err)
{
    const struct document *document = reader->document;
    *system = (struct scenario_system){.node = node, .knobs = -1};
    if (!read_plan(reader, node, system, err))
        return false;
    if (!resolve_recompute(reader, system, err))
        return false;
    read_old_stages(document, system);
    int32_t knobs = document_find(document, node, "knobs");
    if (knobs >= 0 && document_is_null(&document->node[knobs]))
        knobs = -1;
    if (knobs >= 0 && document->node[knobs].kind != DOCUMENT_MAPPING)
        return document_error(document, knobs, err,
                              "knobs: expected a mapping of knobs; `slimsim list systems` shows them");
    system->knobs = knobs;
    if (*system->label == '\0')
        strcpy(system->label, system->name);
    return true;
}

/** Check that all labels differ, since they name rows. */
static bool check_labels(const struct document *document, const struct scenario_system *entries, int32_t n,
                         struct error *err)
{
    bool ok = true;
    for (int32_t i = 1; i < n; i++)
        for (int32_t j = 0; j < i; j++) {
            const struct scenario_system *system = &entries[i];
            if (*system->label == '\0' || strcmp(system->label, entries[j].label) != 0)
                continue;
            int32_t label = document_find(document, system->node, "label");
            ok = document_error(document, label >= 0 ? label : system->node, err,
                                "label: '%s' is already the label of systems.%d; give each entry a `label:` of its own",
                                system->label, j);
            break;
        }
    return ok;
}

/** Check that some entry searches the `plan_space:` of the scenario. */
static bool check_space(const struct document *document, const struct scenario_system *entries, int32_t n,
                        struct error *err)
{
    int32_t space = document_find(document, 0, "plan_space");
    if (space < 0)
        return true;
    for (int32_t i = 0; i < n; i++)
        if (entries[i].auto_plan && document_find(document, entries[i].node, "plan_space") < 0)
            return true;
    return document_key_error(document, space, err,
                              "plan_space: restricts a search, but no entry of systems uses it; leave the key out, or "
                              "write plan: auto in an entry without a plan_space of its own");
}

bool system_entries_read(const struct document *document, const struct system_entry_defaults *defaults,
                         const char *data_dir, struct scenario_system **entries, int32_t *n_entries, struct error *err)
{
    const struct reader reader = {document, defaults, data_dir};
    int32_t list = document_find(document, 0, "systems"), n = 0;
    if (list < 0)
        return document_error(document, -1, err, "systems: is required; allowed: a list of {name: ..., plan: {...}}");
    if (document->node[list].kind != DOCUMENT_SEQUENCE || document->node[list].child < 0)
        return document_error(document, list, err, "systems: expected a list of at least one {name: ..., plan: {...}}");
    for (int32_t child = document->node[list].child; child >= 0; child = document->node[child].next)
        n++;
    if (n > MAX_SYSTEMS)
        return document_error(document, list, err, "systems: %d entries; at most %d are allowed", n, MAX_SYSTEMS);
    *entries = check_calloc((size_t)n, sizeof **entries);
    bool ok = true;
    for (int32_t child = document->node[list].child; child >= 0; child = document->node[child].next)
        ok &= read_system(&reader, child, &(*entries)[(*n_entries)++], err);
    ok = check_labels(document, *entries, n, err) && ok;
    return ok && check_space(document, *entries, n, err);
}

/** Write as comments the values that a search takes from the framework, since `plan: auto` allows no keys beside it. */
static void write_framework_plan(FILE *file, const struct scenario_system *system)
{
    for (int32_t i = N_AUTO_KEYS; i < SYSTEM_ENTRY_N_KEYS; i++) {
        struct schema_key key = system_entry_keys[i];
        bool decided = key.offset == SYSTEM(plan.sharding) || key.offset == SYSTEM(plan.cp_type);
        if (key.fallback != framework_value || decided)
            continue;
        key.name += strlen("plan.");
        fputs("    #", file);
        schema_write(file, &key, 1, system, 1);
    }
}

void system_entries_write(FILE *file, const struct document *document, const struct scenario_system *entries,
                          int32_t n_entries)
{
    fputs("systems:\n", file);
    for (int32_t i = 0; i < n_entries; i++) {
        const struct scenario_system *system = &entries[i];
        fputs("  -\n", file);
        schema_write(file, system_entry_keys, system->auto_plan ? N_AUTO_KEYS : SYSTEM_ENTRY_N_KEYS, system, 4);
        if (system->auto_plan) {
            fputs("    plan: auto\n", file);
            write_framework_plan(file, system);
            fputs("    plan_space:\n", file);
            plan_space_write(file, &system->space, 6);
        }
        if (system->knobs >= 0) {
            fputs("    knobs: ", file);
            document_write(file, document, system->knobs);
            fputc('\n', file);
        }
    }
}
