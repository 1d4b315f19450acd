/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scenario/scenario_read.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "document/document_read.h"
#include "document/document_set.h"
#include "document/path.h"
#include "document/schema_text.h"
#include "scenario/cache.h"
#include "scenario/data.h"
#include "scenario/files.h"
#include "scenario/foreign.h"
#include "scenario/framework.h"
#include "scenario/layout.h"
#include "scenario/simgrid_cfg.h"
#include "scenario/taken.h"

#define FIELD(field) offsetof(struct scenario, field)

/* Lengths are int32_t. A batch with the largest number of documents must still fit into memory. */
static const struct schema_key scenario_keys[] = {
    {"name", SCHEMA_WORD, "-", 0, 0, "", NULL,
     "name of the results; default: name of the scenario's file, stdin for standard input", FIELD(name)},
    {"model", SCHEMA_TEXT, "-", 0, 0, NULL, NULL, "language model of model/llm, or the path of a .yaml file",
     FIELD(model_name)},
    {"device", SCHEMA_TEXT, "-", 0, 0, NULL, NULL, "GPU of model/gpu, or the path of a .yaml file", FIELD(device_name)},
    {"framework", SCHEMA_TEXT, "-", 0, 0, FRAMEWORK_DEFAULT, NULL,
     "training framework of model/framework, or the path of a .yaml file; it sets the defaults of the keys that "
     "describe a framework",
     FIELD(framework_name)},
    {"attention", SCHEMA_CHOICE, "-", 0, 0, framework_value, DEVICE_ATTENTION "|fastest",
     "kernel of attention: flash-attention 1, 2 or 3, cuDNN, or unfused (memory holds all scores); fastest: the one of "
     "flash2, flash3 and cudnn that takes least time for the first batch; a chip without curves has those of `like`, "
     "or flash2 below compute capability 9.0",
     FIELD(attention)},
    {"kernels", SCHEMA_CHOICE, "-", 0, 0, framework_value, "fused|eager|compiled",
     "kernels of element-wise operations: fused (Megatron-LM), eager (PyTorch modules, one by one) or compiled "
     "(torch.compile, XLA)",
     FIELD(kernels)},
    {"loss", SCHEMA_CHOICE, "-", 0, 0, framework_value, "passes|fused|fused-metrics|torch|fused-linear",
     "cross-entropy: passes over fp32 logits (Megatron-LM; with `kernels: eager` PyTorch); torch: PyTorch's passes, "
     "whatever kernels are; fused: one kernel on bf16 logits (flash-attention); fused-metrics: that kernel, and two "
     "metrics that compute the cross-entropy again (Composer); fused-linear: with the head, in chunks of tokens, so "
     "memory never holds all logits, and the forward computes the head's gradients (Liger; needs tp 1 and pp 1)",
     FIELD(loss)},
    {"logits", SCHEMA_CHOICE, "-", 0, 0, framework_value, "parallel|gathered",
     "logits of the tp GPUs: parallel: each computes the loss of its share of the vocabulary; gathered: each gathers "
     "all of them first",
     FIELD(logits)},
    {"expert_imbalance", SCHEMA_REAL, "-", 1, 1 << 10, "1", NULL,
     "with experts, tokens that the experts of the busiest rank receive over the mean of all ranks, in every layer, at "
     "most "
     "plan.ep; 1: routing is balanced",
     FIELD(expert_imbalance)},
    {"precision", SCHEMA_CHOICE, "-", 0, 0, "bf16", PRECISION_NAMES,
     "number format of the GEMMs of layers: fp8-tensor: a scale for each tensor; fp8-block: 1 x 128 and 128 x 128; "
     "mxfp8: 1 x 32. Attention, router, embedding, head, norms and residuals have bf16",
     FIELD(precision)},
    {"fp8_scaling", SCHEMA_CHOICE, "-", 0, 0, framework_value, "delayed|current",
     "scales of fp8-tensor: delayed: of earlier micro-batches; current: of the tensor itself, which is read once more",
     FIELD(fp8_scaling)},
    {"fp8_params", SCHEMA_BOOL, "-", 0, 0, framework_value, NULL,
     "with a precision of fp8, weights of layers have no copy in bf16, and fp8-tensor gathers them in fp8 "
     "(Megatron-LM's --fp8-param-gather)",
     FIELD(fp8_params)},
    {"bf16_layers_at_start", SCHEMA_INT, "-", 0, 1 << 16, "0", NULL,
     "with a precision of fp8, first layers whose GEMMs stay in bf16 (Megatron-LM's --first-last-layers-bf16 and "
     "--num-layers-at-start-in-bf16)",
     FIELD(bf16_layers_at_start)},
    {"bf16_layers_at_end", SCHEMA_INT, "-", 0, 1 << 16, "0", NULL,
     "last layers whose GEMMs stay in bf16, without those of mtp_layers (--num-layers-at-end-in-bf16)",
     FIELD(bf16_layers_at_end)},
    {"expert_gemms", SCHEMA_CHOICE, "-", 0, 0, framework_value, DEVICE_EXPERT_GEMMS,
     "GEMMs of a GPU's experts: sequential: one after the other; multi-stream: as many, launched on several streams "
     "(Transformer Engine, Megatron-LM's --moe-grouped-gemm); grouped: one kernel (torch._grouped_mm)",
     FIELD(expert_gemms)},
    {"swiglu", SCHEMA_CHOICE, "-", 0, 0, framework_value, "fused|separate|in-place",
     "kernels of SwiGLU: fused: one (Megatron-LM's default); separate: silu, then the product, so memory also keeps "
     "silu(x) (--no-bias-swiglu-fusion); in-place: one, whose backward writes both gradients over gate and up (Liger); "
     "`kernels: eager` always separates them",
     FIELD(swiglu)},
    {"fused.norm", SCHEMA_BOOL, "-", 0, 0, framework_value, NULL,
     "RMSNorm is one kernel; false: one for each operation (with swiglu or geglu). `kernels: eager` counts as false; "
     "LayerNorm always is one",
     FIELD(fused.norm)},
    {"fused.rotation", SCHEMA_BOOL, "-", 0, 0, framework_value, NULL,
     "the rotation of queries and keys is one kernel each; false: one for each operation (with swiglu or geglu). "
     "`kernels: eager` counts as false",
     FIELD(fused.rotation)},
    {"fused.qkv", SCHEMA_BOOL, "-", 0, 0, framework_value, NULL,
     "one GEMM computes queries, keys and values; false: three, whose inputs' gradients are added up, and without "
     "sequence parallelism each is reduced",
     FIELD(fused.qkv)},
    {"fused.gate_up", SCHEMA_BOOL, "-", 0, 0, framework_value, NULL,
     "one GEMM computes both inputs of SwiGLU or GeGLU; false: two, as for fused.qkv", FIELD(fused.gate_up)},
    {"fused.permute", SCHEMA_BOOL, "-", 0, 0, framework_value, NULL,
     "one kernel brings tokens into the order of their experts, and one back (Megatron-LM's --moe-permute-fusion); "
     "false: a gather, and atomic sums of outputs and gradients",
     FIELD(fused.permute)},
    {"gradient_accumulation", SCHEMA_CHOICE, "-", 0, 0, framework_value, SCENARIO_ACCUMULATION,
     "sum of a step's gradients over micro-batches: fused: the weights' gradient GEMMs add to it (Megatron-LM); "
     "autograd: a kernel adds each gradient (PyTorch); fp32-copy: that kernel, a copy to fp32, a second addition and "
     "zeroing (DeepSpeed's BF16_Optimizer; needs plan.gradients fp32); without effect where passes reduce",
     FIELD(gradient_accumulation)},
    {"cuda_graphs", SCHEMA_CHOICE, "-", 0, 0, framework_value, "none|layer|full",
     "kernels that the host launches as a CUDA graph: none; those of each layer in a pass (layer); all of an "
     "iteration, "
     "so no GPU waits for a launch (full). Graphs need data.lengths fixed; their memory is left out",
     FIELD(cuda_graphs)},
    {"cuda_launch_blocking", SCHEMA_BOOL, "-", 0, 0, "false", NULL,
     "CUDA_LAUNCH_BLOCKING is 1: the host waits for each kernel before it launches the next, so no kernel hides a "
     "launch",
     FIELD(cuda_launch_blocking)},
    {"host.launch", SCHEMA_REAL, "s", 0, 0.01, framework_value, NULL,
     "host's time to launch one kernel, with the framework's own work for it; a pass takes at least that of all its "
     "kernels",
     FIELD(host.launch_s)},
    {"host.graph", SCHEMA_REAL, "s", 0, 0.01, framework_value, NULL,
     "time to launch a CUDA graph, without its kernels (only if cuda_graphs is layer)", FIELD(host.graph_s)},
    {"host.graph_kernel", SCHEMA_REAL, "s", 0, 0.01, framework_value, NULL,
     "time to launch a kernel inside a CUDA graph (only if cuda_graphs is layer)", FIELD(host.graph_kernel_s)},
    {"data.lengths", SCHEMA_TEXT, "-", 0, 0, NULL, NULL,
     "lengths of documents: a law or table of model/lengths; the path of a file of lengths, drawn at random with "
     "replacement; a list of lengths, taken in their order, over and over (8Ki 4400, or [8Ki, 4400]); or fixed: every "
     "document fills "
     "the context",
     FIELD(data.lengths)},
    {"data.column", SCHEMA_WORD, "-", 0, 0, "", NULL,
     "column of lengths in a .csv or .tsv file, or field of .json or .jsonl (default: the only one that holds numbers, "
     "beside weights and numbers of rows); data set of an HDF5 file (default: its only list of integers); documents or "
     "sequences of Megatron's .idx (default: documents)",
     FIELD(data.column)},
    {"data.weights", SCHEMA_WORD, "-", 0, 0, "", NULL,
     "column or field that says how often each length occurs (default: one called count, counts, weight, weights or "
     "frequency); "
     "none: each length occurs once",
     FIELD(data.weights)},
    {"data.length_scale", SCHEMA_REAL, "-", 0.001, 1000, "1", NULL,
     "factor of the length of each document, rounded to whole tokens, at least 1, before data.long_documents is "
     "applied",
     FIELD(data.length_scale)},
    {"data.context", SCHEMA_INT, "tokens", 1, 1 << 23, NULL, NULL, "length of the longest sample", FIELD(data.context)},
    {"data.long_documents", SCHEMA_CHOICE, "-", 0, 0, "cut", "cut|drop|truncate",
     "treatment of documents that are longer than the context", FIELD(data.long_documents)},
    {"data.global_batch", SCHEMA_INT, "documents", 0, 10000000, "0", NULL,
     "documents of an iteration, counted before any is cut; 0: data.global_batch_tokens counts",
     FIELD(data.global_batch)},
    {"data.global_batch_tokens", SCHEMA_INT, "tokens", 0, 1 << 30, "0", NULL,
     "tokens of an iteration, instead of data.global_batch: data.global_batch_tokens / data.context sequences, rounded "
     "down, that best-fit packing fills with documents in the order in which they are drawn; 0: data.global_batch "
     "counts",
     FIELD(data.global_batch_tokens)},
    {"communication.tp_overlap", SCHEMA_CHOICE, "-", 0, 0, framework_value, "none|bulk|chunked",
     "tensor-parallel collectives that run beside GEMMs: none; bulk: four of the six of the backward pass, beside "
     "GEMMs that do not need them (Megatron's default); chunked: the others too, piece by piece (--tp-comm-overlap)",
     FIELD(communication.tp_overlap)},
    {"communication.cp_overlap", SCHEMA_BOOL, "-", 0, 0, framework_value, NULL,
     "the ring of context parallelism runs beside attention (only if plan.cp_type is a ring)",
     FIELD(communication.cp_overlap)},
    {"communication.pp_overlap", SCHEMA_CHOICE, "-", 0, 0, framework_value, SCENARIO_STAGE_OVERLAP,
     "a stage goes on computing while it sends to its neighbours; interleaved: only with plan.vpp above 1 (Megatron's "
     "overlap_p2p_comm)",
     FIELD(communication.pp_overlap)},
    {"communication.dispatcher", SCHEMA_CHOICE, "-", 0, 0, framework_value, SCENARIO_DISPATCHER,
     "what brings tokens to experts: all-to-all: NCCL's, a copy of a token for each of its experts; all-gather: all "
     "tokens go to all GPUs of plan.ep; deepep: a token goes once to each GPU or node that needs it; hybrid-ep: so, "
     "too",
     FIELD(communication.dispatcher)},
    {"communication.fp8_dispatch", SCHEMA_BOOL, "-", 0, 0, "false", NULL,
     "tokens, and gradients of results, go to experts in fp8, and come back in bf16, as in the recipe of DeepSeek-V3 "
     "(with precision fp8-block and dispatcher deepep)",
     FIELD(communication.fp8_dispatch)},
    {"communication.ep_overlap", SCHEMA_BOOL, "-", 0, 0, framework_value, NULL,
     "tokens go to experts beside kernels of another micro-batch (Megatron-LM's "
     "--overlap-moe-expert-parallel-comm)",
     FIELD(communication.ep_overlap)},
    {"communication.dp_overlap", SCHEMA_CHOICE, "-", 0, 0, framework_value, "none|gradients|both",
     "data-parallel collectives that run beside passes: none; gradients: they are reduced beside the last backward "
     "passes, in buckets (--overlap-grad-reduce); both: parameters are also gathered beside the first forward passes "
     "(--overlap-param-gather). With zero2 every pass reduces, beside its work unless this is none. With zero3 every "
     "pass reduces and gathers beside its work, whatever this says",
     FIELD(communication.dp_overlap)},
    {"communication.on_demand_slowdown", SCHEMA_REAL, "-", 1, 100, framework_value, NULL,
     "with plan.shard_communication on-demand, time of a NIC's reads and sends over that of NCCL's rings; inside an "
     "NVLink domain they take as long as rings",
     FIELD(communication.on_demand_slowdown)},
    {"memory_limit", SCHEMA_REAL, "-", 0.01, 1, "1", NULL,
     "share of a GPU's memory that a plan may use; CUDA context and NCCL are subtracted first", FIELD(memory_limit)},
    {"fits", SCHEMA_CHOICE, "-", 0, 0, "sure", SCENARIO_FITS,
     "plans that systems make, searches rank and capacity buys: sure: those that fit surely; tight: also those that "
     "fit only if PyTorch's allocator reserves little beside what is allocated (docs/model/errors.md, \"Reserved "
     "memory\")",
     FIELD(fits)},
    {"iterations.warm_up", SCHEMA_INT, "-", 0, 1000000, "5", NULL,
     "iterations simulated first and left out of the results", FIELD(warm_up)},
    {"iterations.measured", SCHEMA_INT, "-", 1, 1000000, "20", NULL, "iterations simulated for the results",
     FIELD(measured)},
    {"seed", SCHEMA_INT, "-", 0, 0x1p53, "1", NULL, "seed of the batches that are drawn", FIELD(seed)},
    {"engine", SCHEMA_CHOICE, "-", 0, 0, "both", "simgrid|critical-path|both",
     "simgrid: with contention; critical-path: without contention; both: both engines", FIELD(engine)},
    {"trace", SCHEMA_CHOICE, "-", 0, 0, "summary", "none|summary|full", "amount of data written for each iteration",
     FIELD(trace)},
    {"all_tensor_ranks", SCHEMA_BOOL, "-", 0, 0, "false", NULL,
     "simulate every tensor-parallel rank instead of one for all", FIELD(all_tensor_ranks)},
    {"simgrid_cfg", SCHEMA_TEXT, "-", 0, 0, "", NULL,
     "options of SimGrid that only change models, KEY:VALUE separated by blanks (`run --simgrid-cfg` sets them); with "
     "any option SimGrid may disagree with the critical path",
     FIELD(simgrid_cfg)},
    {"power", SCHEMA_TEXT, "-", 0, 0, "", NULL,
     "power of nodes: a name of model/power, or the path of a .yaml file; default: the one that the device's file "
     "names",
     FIELD(power_name)},
    {"jitter.forward", SCHEMA_REAL, "-", 0, 0.5, "0", NULL,
     "standard deviation over mean of forward passes that do the same work (1.6%); each GPU group draws its own in "
     "every "
     "micro-batch; searches and `explain` take the mean",
     FIELD(jitter.forward)},
    {"jitter.backward", SCHEMA_REAL, "-", 0, 0.5, "0", NULL, "the same of backward passes (2.4%)",
     FIELD(jitter.backward)},
    {"replay.file", SCHEMA_TEXT, "-", 0, 0, "", NULL,
     "CSV file, also packed by gzip, of seconds that replace those of passes: columns step, dp_rank, stage, "
     "microbatch, forward_ms and backward_ms; `replay: FILE.csv` is the same; default: passes take what the model says",
     FIELD(replay.file)},
    {"replay.step", SCHEMA_INT, "-", -1, 0x1p53, "-1", NULL, "the only step of the file that runs; -1: all of them",
     FIELD(replay.step)},
    {"replay.communication", SCHEMA_CHOICE, "-", 0, 0, "modelled", "modelled|none",
     "what the file does not give, transfers between stages, gradients, optimizer and parameters: modelled, or none, "
     "so that a step ends with its last pass",
     FIELD(replay.communication)},
    {"replay.equal", SCHEMA_CHOICE, "-", 0, 0, "none", REPLAY_EQUAL,
     "what-if: passes of a step that become equal, forward and backward by themselves: workers: the median of "
     "dp_ranks, so no worker is slow; lengths: the mean of a stage's passes; stages: the mean of a micro-batch's "
     "stages; all: the mean of all",
     FIELD(replay.equal)},
};
enum { N_SCENARIO_KEYS = sizeof scenario_keys / sizeof *scenario_keys, N_REPLAY_KEYS = 4 }; /* the last ones */
static const char *const scenario_others[] = {"platform", "price",         "systems",  "faults",
                                              "sweep",    "plan_space",    "capacity", "reliability",
                                              "data.mix", "data.schedule", NULL};

enum { N_KEYS = N_SCENARIO_KEYS + SYSTEM_ENTRY_N_KEYS };

/** Keys with a framework's values as defaults: first those of a scenario, then those of an entry of its systems. */
struct defaults {
    struct schema_key keys[N_KEYS];
    struct framework base, named; /* FRAMEWORK_BASE and the scenario's framework; the keys borrow their texts */
};

static void copy_keys(struct schema_key keys[N_KEYS])
{
    memcpy(keys, scenario_keys, sizeof scenario_keys);
    memcpy(keys + N_SCENARIO_KEYS, system_entry_keys, sizeof system_entry_keys);
}

/** Read the defaults of all keys. Values of the named framework replace those of FRAMEWORK_BASE. */
static bool read_defaults(struct scenario_cache *cache, const char *name, struct defaults *defaults, struct error *err)
{
    struct schema_key keys[N_KEYS];
    char base[1024], path[1024];
    copy_keys(keys);
    copy_keys(defaults->keys);
    if (!files_framework_path(FRAMEWORK_BASE, base, err) || !files_framework_path(name, path, err) ||
        !cache_framework(cache, base, keys, N_KEYS, &defaults->base, err) ||
        !framework_check_complete(&defaults->base, base, err) ||
        !cache_framework(cache, path, keys, N_KEYS, &defaults->named, err))
        return false;
    framework_apply(&defaults->base, defaults->keys, N_KEYS);
    framework_apply(&defaults->named, defaults->keys, N_KEYS);
    return true;
}

/** Return the framework that the scenario names, or NULL. */
static const char *named_framework(const struct document *document)
{
    int32_t node = document_find(document, 0, "framework");
    const struct document_node *at = node >= 0 ? &document->node[node] : NULL;
    return at != NULL && at->kind == DOCUMENT_SCALAR && !document_is_null(at) ? at->value : NULL;
}

/** Find the scenario's framework, or the default if it names none. A path becomes absolute. */
static bool find_framework(const struct document *document, char name[SCHEMA_TEXT_BYTES], struct error *err)
{
    const char *named = named_framework(document);
    snprintf(name, SCHEMA_TEXT_BYTES, "%s", named != NULL ? named : FRAMEWORK_DEFAULT);
    return files_framework(document, name, err);
}

/** Read the defaults of keys. If the framework is wrong, the default one replaces it, so that other mistakes show, too.
 */
static bool read_framework(const struct document *document, struct scenario_cache *cache, struct defaults *defaults,
                           char name[SCHEMA_TEXT_BYTES], struct error *err)
{
    struct error again = {0};
    if (find_framework(document, name, err) && read_defaults(cache, name, defaults, err))
        return true;
    if (!read_defaults(cache, FRAMEWORK_DEFAULT, defaults, &again))
        defaults->base.n_values = 0;
    return false;
}

/** Resolve the run's name, which becomes part of file names. By default it is the scenario file's name, without folder
 * and ending. */
static bool resolve_run_name(struct scenario *scenario, const char *path, struct error *err)
{
    if (strcmp(path, DOCUMENT_STANDARD_INPUT) == 0)
        path = "stdin";
    const char *slash = strrchr(path, '/'), *stem = slash != NULL ? slash + 1 : path, *dot = strrchr(stem, '.');
    int length = dot > stem ? (int)(dot - stem) : (int)strlen(stem);
    if (*scenario->name == '\0' && length >= SCHEMA_WORD_BYTES)
        return error_add(err, "%s: name: is required if the file's own name is longer than %d bytes", path,
                         SCHEMA_WORD_BYTES - 1);
    if (*scenario->name == '\0')
        snprintf(scenario->name, sizeof scenario->name, "%.*s", length, stem);
    if (strchr(scenario->name, '/') == NULL && *scenario->name != '.')
        return true;
    return document_error(&scenario->document, document_find(&scenario->document, 0, "name"), err,
                          "name: '%s' cannot name files; allowed: text without '/' that does not begin with '.'",
                          scenario->name);
}

/** Refuse a path of no file that is one of a shipped file. */
static bool refuse_shipped(const char *path, struct error *err)
{
    char shipped[PATH_MAX];
    struct stat about;
    int n = snprintf(shipped, sizeof shipped, "%s/%s", scenario_data_dir(), path);
    if (n >= (int)sizeof shipped || access(path, F_OK) == 0 || stat(shipped, &about) != 0 || !S_ISREG(about.st_mode))
        return true;
    return error_set(err, "%s: there is no such file; the shipped one is %s", path, shipped);
}

bool scenario_read_document(const char *path, int32_t n_set, const char *const *set, struct document *document,
                            struct error *err)
{
    enum foreign whose = foreign_of(path);
    *document = (struct document){0};
    if (!refuse_shipped(path, err))
        return false;
    bool ok = whose == FOREIGN_NONE ? document_read(path, document, err) : foreign_refuse(whose, path, err);
    if (!ok && whose == FOREIGN_NONE && document->n_nodes == 0 && strchr(path, '.') == NULL && strcmp(path, "-") != 0)
        error_add(err, "a scenario is the path of a .yaml file, or - for standard input");
    for (int32_t i = 0; i < n_set && document->n_nodes > 0; i++)
        ok &= document_set(document, set[i], err);
    return ok;
}

/** Check faults of links above the NICs. Only SimGrid simulates these links, and they need every rank that sends by
 * them. */
static bool check_links_above(const struct scenario *scenario, struct error *err)
{
    int32_t node = document_find(&scenario->document, 0, "faults");
    bool above = false, folded = false;
    for (int32_t i = 0; i < scenario->n_faults; i++)
        above = above || scenario->faults[i].kind >= FAULT_N_OF_GPUS;
    for (int32_t i = 0; i < scenario->n_systems && !scenario->all_tensor_ranks; i++)
        folded = folded || scenario->systems[i].auto_plan || scenario->systems[i].plan.tp > 1;
    if (above && scenario->engine == SCENARIO_CRITICAL_PATH)
        return document_error(
            &scenario->document, node, err,
            "faults: engine critical-path has no uplink and spine links; allowed: engine simgrid or both");
    if (above && folded)
        return document_error(&scenario->document, node, err,
                              "faults: the ranks of a tensor-parallel group share uplink and spine links, so each rank "
                              "must be simulated; allowed: all_tensor_ranks: true");
    return true;
}

/** Check that learned position embeddings reach to the end of the context. */
static bool check_positions(const struct scenario *scenario, struct error *err)
{
    const struct model *model = &scenario->model;
    return model->positions == 0 || scenario->data.context <= model->positions ||
           document_error(&scenario->document, document_find(&scenario->document, 0, "data.context"), err,
                          "data.context: %" PRId64
                          " tokens are more than the learned positions of model %s; allowed: at most %" PRId64,
                          scenario->data.context, model->name, model->positions);
}

/** Check that the attention kernel has the model's windows. FlashAttention has them since version 2.3. */
static bool check_windows(const struct scenario *scenario, struct error *err)
{
    return scenario->attention != DEVICE_FLASH1 || !model_has_windows(&scenario->model) ||
           document_error(&scenario->document, document_find(&scenario->document, 0, "attention"), err,
                          "attention: flash1 has no sliding windows, which model %s has; allowed: flash2, flash3, "
                          "cudnn, unfused",
                          scenario->model.name);
}

/** Check `swiglu`. A model without a gate has nothing to separate, so it ignores the framework's value. */
static bool check_swiglu(struct scenario *scenario, struct error *err)
{
    if (!model_is_gated(&scenario->model) && document_find(&scenario->document, 0, "swiglu") < 0)
        scenario->swiglu = SCENARIO_SWIGLU_FUSED;
    return scenario->swiglu == SCENARIO_SWIGLU_FUSED || model_is_gated(&scenario->model) ||
           document_error(&scenario->document, document_find(&scenario->document, 0, "swiglu"), err,
                          "swiglu: '%s' needs SwiGLU or GeGLU, which model %s does not have; leave the key out",
                          scenario->swiglu == SCENARIO_SWIGLU_SEPARATE ? "separate" : "in-place", scenario->model.name);
}

/** Check that the model's norms and rotation have single operations, which are known of Llama's modules only. */
static bool check_fused(const struct scenario *scenario, struct error *err)
{
    const struct document *document = &scenario->document;
    const struct model *model = &scenario->model;
    const char *key = NULL;
    if (!scenario->fused.norm && model->norm == MODEL_RMSNORM && document_find(document, 0, "fused.norm") >= 0)
        key = "fused.norm";
    else if (!scenario->fused.rotation && model->positions == 0 && document_find(document, 0, "fused.rotation") >= 0)
        key = "fused.rotation";
    return key == NULL || model_is_gated(model) ||
           document_error(
               document, document_find(document, 0, key), err,
               "%s: 'false' needs SwiGLU or GeGLU, since only modules like Llama's are known one by one, and "
               "model %s has neither; leave the key out",
               key, model->name);
}

/** Check `cuda_launch_blocking`. Launches that block leave one kernel at a time, so nothing runs beside another. */
static bool check_blocking(const struct scenario *scenario, struct error *err)
{
    const struct scenario_communication *communication = &scenario->communication;
    const char *wrong = NULL;
    if (scenario->cuda_graphs != SCENARIO_GRAPH_NONE)
        wrong = "the host would wait for each CUDA graph, which is not modelled; allowed: false, or cuda_graphs none";
    else if (communication->tp_overlap != SCENARIO_EXPOSED || communication->pp_overlap != SCENARIO_STAGES_WAIT ||
             communication->dp_overlap != SCENARIO_OVERLAP_NONE)
        wrong = "no collective would run beside a kernel; allowed: false, or communication.tp_overlap none, pp_overlap "
                "false and dp_overlap none";
    return !scenario->cuda_launch_blocking || wrong == NULL ||
           document_error(&scenario->document, document_find(&scenario->document, 0, "cuda_launch_blocking"), err,
                          "cuda_launch_blocking: %s", wrong);
}

/** Check `cuda_graphs`. A graph repeats the same kernels on the same shapes. */
static bool check_graphs(const struct scenario *scenario, struct error *err)
{
    return scenario->cuda_graphs == SCENARIO_GRAPH_NONE || strcmp(scenario->data.lengths, "fixed") == 0 ||
           document_error(&scenario->document, document_find(&scenario->document, 0, "cuda_graphs"), err,
                          "cuda_graphs: a graph repeats kernels of the same shapes, and data.lengths is not fixed; "
                          "allowed: none, or data.lengths fixed");
}

/** Check that SimGrid runs if it has options, and that these change models only. */
static bool check_simgrid_cfg(const struct scenario *scenario, struct error *err)
{
    const struct document *document = &scenario->document;
    int32_t node = document_find(document, 0, "simgrid_cfg");
    if (*scenario->simgrid_cfg != '\0' && scenario->engine == SCENARIO_CRITICAL_PATH)
        return document_error(
            document, node, err,
            "simgrid_cfg: SimGrid does not run with engine critical-path; allowed: engine simgrid or both");
    char *refused = simgrid_cfg_refused(scenario->simgrid_cfg);
    bool ok =
        refused == NULL ||
        document_error(document, node, err, "simgrid_cfg: '%.200s' is no option that only changes models; allowed: %s",
                       refused, simgrid_cfg_allowed);
    free(refused);
    return ok;
}

/** Check that exactly one key says how large a batch is. @param read  whether the keys were read without a mistake */
static bool check_batch(const struct scenario *scenario, bool read, struct error *err)
{
    const struct document *document = &scenario->document;
    const struct scenario_data *data = &scenario->data;
    int32_t documents = document_find(document, 0, "data.global_batch");
    int32_t tokens = document_find(document, 0, "data.global_batch_tokens");
    if (data->global_batch > 0 && data->global_batch_tokens > 0)
        return document_error(document, tokens, err,
                              "data.global_batch_tokens: %" PRId64 ", but data.global_batch is %" PRId64
                              "; allowed: one of them, without the other or with 0 for it",
                              data->global_batch_tokens, data->global_batch);
    if (data->global_batch_tokens > 0 && data->global_batch_tokens < data->context)
        return document_error(document, tokens, err,
                              "data.global_batch_tokens: %" PRId64 " is less than one sequence; allowed: at least "
                              "data.context, %" PRId64,
                              data->global_batch_tokens, data->context);
    bool none = data->global_batch == 0 && data->global_batch_tokens == 0;
    int32_t group = document_find(document, 0, "data");
    bool left_out = documents < 0 && tokens < 0 && (group >= 0 || document_find(document, 0, "model") >= 0);
    if (!none || !(read || left_out))
        return true;
    return document_error(document,
                          documents >= 0 ? documents
                          : tokens >= 0  ? tokens
                                         : group,
                          err,
                          "data.global_batch: is required, or data.global_batch_tokens; allowed: documents of an "
                          "iteration (512) or its tokens (16Mi)");
}

/** Make the scenario's `fits` the default of its systems. */
static void set_fits(const struct scenario *scenario, struct schema_key *keys)
{
    while (strcmp(keys->name, "fits") != 0)
        keys++;
    keys->fallback = scenario->fits == SCENARIO_FITS_TIGHT ? "tight" : "sure";
}

/** Read keys, and no file except the framework's. systems_ok: whether the keys of systems are right */
static bool read_keys(struct document *document, struct scenario_cache *cache, struct scenario *scenario,
                      bool *systems_ok, struct error *err)
{
    *scenario = (struct scenario){.document = *document};
    *document = (struct document){0};
    struct defaults defaults = {0};
    char framework[SCHEMA_TEXT_BYTES];
    bool prepared = data_prepare(&scenario->document, err);
    document_name_mapping(&scenario->document, "replay", "file");
    bool ok = read_framework(&scenario->document, cache, &defaults, framework, err) && prepared;
    *systems_ok = false;
    if (defaults.base.n_values == 0) /* without defaults no key can be read */
        return false;
    ok &= schema_read(&scenario->document, 0, defaults.keys, N_SCENARIO_KEYS, scenario_others, scenario, err);
    ok &= check_batch(scenario, ok, err);
    ok &= data_read_parts(scenario, err);
    strcpy(scenario->framework_name, framework);
    ok &= resolve_run_name(scenario, scenario->document.file, err);
    set_fits(scenario, defaults.keys + N_SCENARIO_KEYS);
    const struct system_entry_defaults of_systems = {
        defaults.keys + N_SCENARIO_KEYS,
        named_framework(&scenario->document) != NULL ? defaults.named.selective : RECOMPUTE_SELECTIVE};
    *systems_ok = system_entries_read(&scenario->document, &of_systems, scenario_data_dir(), &scenario->systems,
                                      &scenario->n_systems, err);
    return ok && *systems_ok;
}

bool scenario_read_keys(struct document *document, struct scenario_cache *cache, struct scenario *scenario,
                        struct error *err)
{
    bool systems_ok;
    return read_keys(document, cache, scenario, &systems_ok, err);
}

static bool check_plans(struct scenario *scenario, struct error *err)
{
    bool ok = true;
    for (int32_t i = 0; i < scenario->n_systems; i++)
        ok &= scenario->systems[i].auto_plan ? layout_check_accumulation(scenario, &scenario->systems[i], err)
                                             : layout_check(scenario, &scenario->systems[i], err);
    return ok;
}

/** Let the model's first and last layers stay in bf16, as the scenario says. */
static bool keep_bf16(struct scenario *scenario, struct error *err)
{
    const struct document *document = &scenario->document;
    int64_t start = scenario->bf16_layers_at_start, end = scenario->bf16_layers_at_end;
    const char *key = start > 0 ? "bf16_layers_at_start" : "bf16_layers_at_end";
    bool fp8 = scenario->precision != PRECISION_BF16;
    if (start + end > scenario->model.layers)
        return document_error(document, document_find(document, 0, key), err,
                              "%s: %" PRId64 " layers stay in bf16 at start and end together, but model %s has %" PRId64
                              "; allowed: at most so many together",
                              key, start + end, scenario->model.name, scenario->model.layers);
    model_keep_bf16(&scenario->model, fp8 ? start : 0, fp8 ? end : 0);
    return true;
}

bool scenario_check(struct scenario *scenario, struct error *err)
{
    return keep_bf16(scenario, err) && check_plans(scenario, err) && check_positions(scenario, err) &&
           (*scenario->device.name == '\0' ||
            (scenario_check_attention(scenario, err) && scenario_check_dispatcher(scenario, err) &&
             scenario_check_precision(scenario, err))) &&
           check_swiglu(scenario, err) && check_fused(scenario, err) && check_graphs(scenario, err) &&
           check_blocking(scenario, err) && check_windows(scenario, err) && check_simgrid_cfg(scenario, err);
}

bool scenario_read_replay(struct scenario *scenario, struct error *err)
{
    const struct document *document = &scenario->document;
    struct scenario_replay *replay = &scenario->replay;
    int32_t node = document_find(document, 0, "replay"), file = document_find(document, 0, "replay.file");
    if (node < 0 || document_is_null(&document->node[node]))
        return true;
    if (scenario->jitter.forward > 0 || scenario->jitter.backward > 0)
        return document_error(
            document, document_find(document, 0, "jitter"), err,
            "jitter: is not drawn with replay, whose passes differ by themselves; allowed: one of both");
    if (*replay->file == '\0')
        return document_error(document, node, err, "replay.file: is required; allowed: the path of a table of steps");
    struct error wrong = {0};
    if (!path_resolve(document, file, "replay.file", replay->file, err))
        return false;
    if (!replay_read(replay, &wrong))
        return document_error(document, file, err, "replay.file: %s", wrong.text);
    if (document_find(document, 0, "iterations.warm_up") < 0)
        scenario->warm_up = 0;
    if (document_find(document, 0, "iterations.measured") < 0)
        scenario->measured = replay->n_steps > scenario->warm_up ? replay->n_steps - scenario->warm_up : 1;
    return scenario->warm_up + scenario->measured <= replay->n_steps ||
           document_error(document, document_find(document, 0, "iterations"), err,
                          "iterations: %" PRId64 " of warm-up and %" PRId64
                          " measured are more than the steps of replay.file; allowed: %d together",
                          scenario->warm_up, scenario->measured, (int)replay->n_steps);
}

bool scenario_refuse_replay(const struct scenario *scenario, const char *why, struct error *err)
{
    const struct document *document = &scenario->document;
    return scenario->replay.n_steps == 0 ||
           document_error(document, document_find(document, 0, "replay.file"), err,
                          "replay.file: gives times of passes, %s; allowed: no replay", why);
}

bool scenario_resolve(struct document *document, struct scenario_cache *cache, struct scenario *scenario,
                      struct error *err)
{
    bool systems_ok, keys_ok = read_keys(document, cache, scenario, &systems_ok, err);
    bool names_ok = files_resolve(scenario, cache, err), ok = keys_ok && names_ok;
    bool reliability_ok = reliability_read(&scenario->document, scenario_data_dir(), &scenario->reliability, err);
    if (ok)
        ok = scenario_check(scenario, err);
    else if (systems_ok && names_ok)
        check_plans(scenario, err);
    if (names_ok)
        ok &= faults_read(&scenario->document, &scenario->platform, scenario->seed, &scenario->faults,
                          &scenario->n_faults, err) &&
              check_links_above(scenario, err);
    ok = ok && scenario_read_replay(scenario, err);
    ok &= reliability_ok;
    if (ok)
        return true;
    struct error notes = {0};
    taken_words(scenario, &notes);
    snprintf(err->notes, sizeof err->notes, "%.*s", (int)sizeof err->notes - 1, notes.text);
    scenario_free(scenario);
    return false;
}

static bool refuse_sweep(const struct document *document, struct error *err)
{
    int32_t node = document_find(document, 0, "sweep");
    return node < 0 || document_key_error(document, node, err,
                                          "sweep: is allowed only in `slimsim run`, and this command takes one point; "
                                          "`slimsim run SCENARIO --list` prints the points, and --set makes one");
}

bool scenario_resolve_point(struct document *document, struct scenario *scenario, struct error *err)
{
    struct scenario_cache cache = {0};
    *scenario = (struct scenario){0};
    bool ok = refuse_sweep(document, err);
    ok = scenario_resolve(document, &cache, scenario, err) && ok;
    if (!ok)
        scenario_free(scenario);
    cache_free(&cache);
    return ok;
}

bool scenario_read(const char *path, int32_t n_set, const char *const *set, struct scenario *scenario,
                   struct error *err)
{
    struct document document = {0};
    *scenario = (struct scenario){0};
    bool ok = scenario_read_document(path, n_set, set, &document, err);
    bool asks = document.n_nodes > 0 && document_find(&document, 0, "capacity") >= 0 &&
                (document_find(&document, 0, "device") < 0 || document_find(&document, 0, "platform") < 0);
    if (document.n_nodes > 0) /* otherwise nothing of the file can be read */
        ok = scenario_resolve_point(&document, scenario, err) && ok;
    if (!ok && asks)
        error_add(err, "%s: the offers of `capacity:` have devices or platforms; `slimsim capacity %s` answers it",
                  path, path);
    if (!ok)
        scenario_free(scenario);
    return ok;
}

char *scenario_text(const struct scenario *scenario)
{
    char *text = NULL;
    size_t n_bytes;
    FILE *file = check_memstream(&text, &n_bytes);
    int32_t n = 0; /* keys up to the last one of `data:`, behind which its parts stand */
    while (strcmp(scenario_keys[n++].name, "data.global_batch_tokens") != 0)
        continue;
    schema_write(file, scenario_keys, n, scenario, 0);
    data_write_parts(file, &scenario->data);
    int32_t n_left = N_SCENARIO_KEYS - n - (*scenario->replay.file != '\0' ? 0 : N_REPLAY_KEYS);
    schema_write(file, scenario_keys + n, n_left, scenario, 0);
    platform_write(file, &scenario->platform);
    price_write(file, &scenario->price);
    system_entries_write(file, &scenario->document, scenario->systems, scenario->n_systems);
    faults_write(file, scenario->faults, scenario->n_faults);
    reliability_write(file, &scenario->reliability);
    CHECK(fclose(file) == 0);
    return text;
}

bool scenario_framework(const char *name, struct framework *framework, struct error *err)
{
    struct schema_key keys[N_KEYS];
    char path[1024];
    copy_keys(keys);
    return files_framework_path(name, path, err) && framework_read(path, keys, N_KEYS, framework, err);
}

/** Give the keys of a group the names that the user writes from the root: "platform.nic". */
static void name_below(const char *group, int32_t n, const struct schema_key *from, struct schema_key *keys,
                       char (*names)[64])
{
    for (int32_t i = 0; i < n; i++) {
        keys[i] = from[i];
        snprintf(names[i], sizeof *names, "%s.%s", group, from[i].name);
        keys[i].name = names[i];
    }
}

bool scenario_list_keys(const struct schema_listing *listing, struct error *err)
{
    enum {
        FIRST_PRICE = N_SCENARIO_KEYS + PLATFORM_N_SCENARIO_KEYS,
        FIRST_SYSTEM = FIRST_PRICE + PRICE_N_SCENARIO_KEYS,
        N_ALL = FIRST_SYSTEM + SYSTEM_ENTRY_N_KEYS
    };
    struct defaults defaults;
    struct scenario_cache cache = {0};
    struct schema_key keys[N_ALL];
    char names[N_ALL][64];
    bool ok = read_defaults(&cache, FRAMEWORK_DEFAULT, &defaults, err);
    cache_free(&cache);
    if (!ok)
        return false;
    memcpy(keys, defaults.keys, sizeof scenario_keys);
    name_below("platform", PLATFORM_N_SCENARIO_KEYS, platform_schema, keys + N_SCENARIO_KEYS, names + N_SCENARIO_KEYS);
    name_below("price", PRICE_N_SCENARIO_KEYS, price_schema, keys + FIRST_PRICE, names + FIRST_PRICE);
    name_below("systems.N", SYSTEM_ENTRY_N_KEYS, defaults.keys + N_SCENARIO_KEYS, keys + FIRST_SYSTEM,
               names + FIRST_SYSTEM);
    schema_list(listing, keys, N_ALL, "");
    fputs("\n`platform: hopper-16x8` is the same as `platform: {name: hopper-16x8}`. So it is with "
          "`price:`.\nN counts the entries of "
          "`systems:` from 0. systems.N.knobs holds the knobs of that training system:\n`slimsim list systems` prints "
          "them. `sweep:` names any of these keys and the values it takes\n(docs/reference/sweeps.md)."
          "\n\nsystems.N.plan may be `auto`: then a search finds the plan. These keys restrict the search to a "
          "value or a list.\nWithout them it may choose all that model, platform and system allow. An entry may have "
          "its own:\nsystems.N.plan_space.tp.\n\n",
          listing->file);
    plan_space_list_keys(listing, "plan_space.");
    fputs(
        "\n`data.mix:` is a list of sources from which each document is drawn. `data.schedule:` is one of sources that "
        "follow\none another over the training, with the same keys:\n\n",
        listing->file);
    data_list_keys(listing);
    fputs("\n`faults:` is a list of slow devices. Plans are made without knowledge of them:\n\n", listing->file);
    faults_list_keys(listing);
    fputs("\n`reliability:` is a preset of model/reliability, or a mapping of these keys; each replaces the preset's "
          "value:\n\n",
          listing->file);
    reliability_list_keys(listing);
    fputs("\nA model of your own, `model: mine.yaml`, is a file of these keys (model/llm has examples):\n\n",
          listing->file);
    model_list_keys(listing);
    return true;
}
