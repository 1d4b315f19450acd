/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "simulate/assumptions.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "cost/attention_choice.h"
#include "document/schema_text.h"
#include "operation/money.h"
#include "plan/request.h"
#include "simulate/summary.h"

static const char *const attention_name[] = {"flash-attention 2", "flash-attention 3", "cuDNN",
                                             "flash-attention 1 (a multiple of 2's curve)",
                                             "unfused (GEMMs and passes over all scores)"};

/** Return whether a plan with at least so many stages has zero2 or zero3. */
static bool any_sharded(const struct scenario *scenario, int64_t stages)
{
    bool any = false;
    for (int32_t i = 0; i < scenario->n_systems; i++) {
        const struct scenario_plan *plan = &scenario->systems[i].plan;
        any = any || (plan->pp >= stages && (plan->sharding == SCENARIO_ZERO2 || plan->sharding == SCENARIO_ZERO3));
    }
    return any;
}

/** Return whether a plan all-reduces gradients of which a rank needs a shard. */
static bool any_all_reduced(const struct scenario *scenario)
{
    bool any = false;
    for (int32_t i = 0; i < scenario->n_systems; i++) {
        const struct scenario_plan *plan = &scenario->systems[i].plan;
        bool shares = plan->sharding == SCENARIO_ZERO1 || plan->sharding == SCENARIO_ZERO2;
        any = any || (shares && plan->gradient_reduction == SCENARIO_ALL_REDUCE);
    }
    return any;
}

/** Return the most TP ranks of a system that hold a copy of one head of keys and values. */
static int64_t most_kv_copies(const struct scenario *scenario)
{
    int64_t most = 1;
    for (int32_t i = 0; i < scenario->n_systems; i++) {
        const struct cost_setting setting = request_setting(scenario, &scenario->systems[i].plan);
        for (int32_t kind = 0; kind < MODEL_MAX_KINDS; kind++) {
            int64_t copies = model_has_kind(setting.model, kind) ? cost_kv_copies(&setting, kind) : 1;
            most = copies > most ? copies : most;
        }
    }
    return most;
}

/** Print why `attention: fastest` is the scenario's kernel. @return false: it is another one */
static bool print_attention_choice(const struct scenario *scenario, char line[ASSUMPTIONS_SIZE])
{
    const double *seconds = scenario->attention_s, fastest_s = seconds[scenario->attention % DEVICE_N_CURVES];
    char name[DEVICE_N_CURVES][SCHEMA_WORD_BYTES];
    int32_t others[DEVICE_N_CURVES], n = 0;
    for (int32_t kernel = 0; kernel < DEVICE_N_CURVES; kernel++) {
        schema_choice_name(DEVICE_ATTENTION, kernel, name[kernel]);
        if (kernel != scenario->attention)
            others[n++] = kernel;
    }
    if (scenario->attention != (int32_t)attention_choice_fastest(&scenario->device, seconds))
        return false;
    const struct device_attention_rows *rows = &scenario->device.attention_rows[scenario->attention];
    if (!scenario->device.own_curves && rows->generation && scenario->attention != DEVICE_FLASH2) {
        snprintf(line, ASSUMPTIONS_SIZE,
                 "attention %s is the choice of `fastest`: it was measured on %s, which is of the generation of %s%s",
                 name[scenario->attention], rows->device, scenario->device.name,
                 rows->own ? "" : ", and is scaled to the peak");
        return true;
    }
    if (!attention_choice_is_own(scenario) && !attention_choice_is_scaled(scenario)) {
        snprintf(line, ASSUMPTIONS_SIZE,
                 "attention %s is the choice of `fastest`, since device %s has no attention curves of its own chip",
                 name[scenario->attention], scenario->device.name);
        return true;
    }
    if (seconds[others[1]] < seconds[others[0]])
        others[2] = others[0], others[0] = others[1], others[1] = others[2];
    snprintf(
        line, ASSUMPTIONS_SIZE,
        "attention %s takes the least time of %s, %s and %s on the first batch (time of attention alone: %s %.0f%% "
        "more, %s %.0f%%)%s",
        name[scenario->attention], name[0], name[1], name[2], name[others[0]],
        100 * (seconds[others[0]] / fastest_s - 1), name[others[1]], 100 * (seconds[others[1]] / fastest_s - 1),
        scenario->device.own_curves ? "" : ", by curves of another chip, each the same share of the peak");
    return true;
}

/**
 * Print the shares of the time of passes whose shapes are beyond the rows that the curves were fitted to. They cover
 * the measured iterations of all systems.
 */
static void print_outside(const struct scenario *scenario, const struct point *point, char line[ASSUMPTIONS_SIZE])
{
    bool own = scenario->attention < DEVICE_N_CURVES; /* flash1 has flash2's; unfused attention is not fitted by keys */
    int32_t kernel = own ? scenario->attention : DEVICE_FLASH2;
    const struct device_flash *forward = &scenario->device.forward[kernel];
    const struct device_flash *backward = &scenario->device.backward[kernel];
    double pass_s = 0, extrapolated_s[COST_N_FAMILIES] = {0};
    for (int32_t i = 0; i < point->n_systems; i++)
        for (int32_t j = 0; j < point->systems[i].n_iterations; j++) {
            const struct point_iteration *iteration = &point->systems[i].iterations[j];
            if (!iteration->row.measured)
                continue;
            pass_s += iteration->pass_s;
            for (int k = 0; k < COST_N_FAMILIES; k++)
                extrapolated_s[k] += iteration->extrapolated_s[k];
        }
    for (int k = 0; k < COST_N_FAMILIES; k++)
        extrapolated_s[k] *= 100 / fmax(pass_s, 1e-300);
    snprintf(
        line, ASSUMPTIONS_SIZE,
        "beyond the shapes the curves were fitted to, of all passes' time: attention %.1f%% (fitted to %.0f to %.0f "
        "keys forward, %.0f to %.0f backward, heads %.0f to %.0f wide), GEMMs %.1f%%, memory-bound kernels %.1f%%, "
        "tensor collectives %.1f%%",
        extrapolated_s[COST_ATTENTION], forward->keys.min, forward->keys.max, backward->keys.min, backward->keys.max,
        forward->head_dim.min, forward->head_dim.max, extrapolated_s[COST_GEMM], extrapolated_s[COST_MEMORY_BOUND],
        extrapolated_s[COST_COLLECTIVE]);
}

static const char *const tensor_overlap_text[] = {
    "all exposed", "four of six backward beside GEMMs, the others exposed",
    "piece by piece beside their GEMMs, four of six backward beside independent GEMMs"};
static const char *const all_reduce_text[] = {"all exposed", "those of the backward beside GEMMs, the others exposed",
                                              "those of the backward beside GEMMs, the others exposed"};

static const char *const data_overlap_text[] = {
    "gradient and parameter traffic behind the last and before the first pass",
    "gradients reduced in buckets beside the last backward passes, parameters gathered before the first pass",
    "gradient and parameter traffic in buckets beside the last backward and first forward passes"};

static const char *const stage_overlap_text[] = {"waits for it", "computes on",
                                                 "waits for it, but with virtual stages it computes on"};

/** Print a sentence for systems with sequence parallelism, if there are any, and one for systems without. */
static void print_tensor_overlap(const struct scenario *scenario, const struct point *point,
                                 char line[ASSUMPTIONS_SIZE])
{
    int32_t overlap = scenario->communication.tp_overlap, used = 0;
    bool any[2] = {false, false};
    for (int32_t i = 0; i < point->n_systems; i++)
        any[point->systems[i].entry->plan.sequence_parallel] = true;
    used += snprintf(line, ASSUMPTIONS_SIZE, "tensor-parallel collectives: ");
    if (any[true])
        used += snprintf(line + used, (size_t)(ASSUMPTIONS_SIZE - used), "%s", tensor_overlap_text[overlap]);
    if (any[false])
        snprintf(line + used, (size_t)(ASSUMPTIONS_SIZE - used),
                 "%swithout sequence parallelism two all-reduces a pass and "
                 "layer, %s",
                 any[true] ? "; " : "", all_reduce_text[overlap]);
}

/** Return whether a measured iteration of any system offloads. */
static bool any_offloads(const struct point *point)
{
    for (int32_t i = 0; i < point->n_systems; i++)
        for (int32_t j = 0; j < point->systems[i].n_iterations; j++)
            if (point->systems[i].iterations[j].row.measured && point->systems[i].iterations[j].row.host_peak_bytes > 0)
                return true;
    return false;
}

static const char *const fault_text[FAULT_N_KINDS] = {
    "kernels of GPU",        "NVLink of GPU",         "NIC of GPU",
    "PCIe of GPU",           "uplink of node",        "spine link of leaf",
    "forward passes of GPU", "backward passes of GPU"};

const char *assumptions_faults(const struct scenario *scenario, char line[ASSUMPTIONS_SIZE])
{
    enum { SHOWN = 8 };
    struct faults faults = faults_of(scenario->faults, scenario->n_faults, &scenario->platform);
    int32_t n_slow = 0;
    size_t used = (size_t)snprintf(line, ASSUMPTIONS_SIZE, "faults, unknown to plans: ");
    for (int32_t kind = 0; kind < FAULT_N_KINDS; kind++)
        for (int32_t device = 0; device < faults.n[kind]; device++)
            if (faults.factor[kind][device] > 1 && n_slow++ < SHOWN)
                used += (size_t)snprintf(line + used, ASSUMPTIONS_SIZE - used, "%s%s %d %g times as slow",
                                         n_slow > 1 ? ", " : "", fault_text[kind], device, faults.factor[kind][device]);
    snprintf(line + used, ASSUMPTIONS_SIZE - used, "%s", n_slow == 0 ? "none, all factors are 1" : "");
    if (n_slow > SHOWN)
        snprintf(line + used, ASSUMPTIONS_SIZE - used, ", and %d more (table faults)", n_slow - SHOWN);
    faults_free(&faults);
    return line;
}

/** Print the slow devices and the effect on the engines. @return number of lines */
static int32_t fault_lines(const struct scenario *scenario, char lines[][ASSUMPTIONS_SIZE])
{
    assumptions_faults(scenario, lines[0]);
    snprintf(
        lines[1], ASSUMPTIONS_SIZE,
        "faults: a tensor-parallel group is as slow as its slowest GPU and link; the hidden part of collectives "
        "is not longer for slow kernels; the critical path slows each transfer down by its own links, SimGrid shares "
        "links; uplinks and spine links are slow only on SimGrid, so their slowness counts as contention");
    return 2;
}

bool assumptions_jitter(const struct jitter *jitter, char line[ASSUMPTIONS_SIZE])
{
    snprintf(line, ASSUMPTIONS_SIZE,
             "jitter: passes that do the same work differ by %g%% forward and %g%% backward (standard deviation over "
             "mean), drawn by the seed; searches took the mean",
             100 * jitter->forward, 100 * jitter->backward);
    return jitter->forward > 0 || jitter->backward > 0;
}

bool assumptions_replay(const struct scenario_replay *replay, char line[ASSUMPTIONS_SIZE])
{
    static const char *const equal[] = {"", "; what if no worker were slow: the median of dp_ranks counts",
                                        "; what if lengths were balanced: the mean of a stage's passes counts",
                                        "; what if stages were equal: the mean of a micro-batch's stages counts",
                                        "; what if all passes were equal: the mean of a step's passes counts"};
    const char *slash = strrchr(replay->file, '/');
    snprintf(line, ASSUMPTIONS_SIZE, "replay: times of forward and backward passes are those of %.200s; %s%s",
             slash != NULL ? slash + 1 : replay->file,
             replay->communication == REPLAY_MODELLED ? "what it does not give is modelled"
                                                      : "no transfers between stages, gradients and optimizer",
             equal[replay->equal]);
    return replay->n_steps > 0;
}

static const char *const loss_text[] = {"", ", cross-entropy one kernel on bf16 logits",
                                        ", cross-entropy one kernel on bf16 logits and again by passes for two metrics",
                                        ", cross-entropy by PyTorch's passes",
                                        ", cross-entropy with the head in chunks of tokens"};

static const char *const accumulation_text[] = {
    [SCENARIO_ACCUMULATE_FUSED] = "",
    [SCENARIO_ACCUMULATE_AUTOGRAD] = ", gradients added up by a kernel of their own",
    [SCENARIO_ACCUMULATE_FP32_COPY] = ", gradients copied to fp32 and added up by four kernels of their own"};

static const char *const expert_gemms_text[] = {[DEVICE_SEQUENTIAL] = "GEMMs of a GPU run one after the other",
                                                [DEVICE_MULTI_STREAM] =
                                                    "GEMMs of a GPU are launched on several streams",
                                                [DEVICE_GROUPED] = "GEMMs of a GPU are one kernel"};

static const char *const dispatcher_text[] = {[SCENARIO_DISPATCH_ALL_TO_ALL] = "an all-to-all",
                                              [SCENARIO_DISPATCH_ALL_GATHER] = "an all-gather",
                                              [SCENARIO_DISPATCH_DEEPEP] = "DeepEP",
                                              [SCENARIO_DISPATCH_HYBRID_EP] = "HybridEP"};

/** Print in how many iterations SimGrid ran every tensor rank by itself. @return false: in none */
static bool print_every_rank(const struct point *point, char line[ASSUMPTIONS_SIZE])
{
    int32_t n = 0, n_measured = 0;
    for (int32_t i = 0; i < point->n_systems; i++)
        for (int32_t j = 0; j < point->systems[i].n_iterations; j++) {
            n_measured += point->systems[i].iterations[j].row.measured;
            n += point->systems[i].iterations[j].every_rank;
        }
    snprintf(line, ASSUMPTIONS_SIZE,
             "SimGrid ran every rank of tensor-parallel groups in %d of %d iterations, since a link above the NICs is "
             "too narrow for one rank to represent its group",
             n, n_measured);
    return n > 0;
}

/** Print what the framework does not fuse, if it is anything of the model. @return number of lines */
static int32_t print_single(const struct scenario *scenario, char line[ASSUMPTIONS_SIZE])
{
    const struct scenario_fused *fused = &scenario->fused;
    const struct model *model = &scenario->model;
    bool gathered = scenario->logits == SCENARIO_LOGITS_GATHERED, gated = model_is_gated(model);
    bool operations = gated && scenario->kernels != SCENARIO_COMPILED, gate_up = gated && !fused->gate_up;
    bool norm = operations && !fused->norm && model->norm == MODEL_RMSNORM;
    bool rotation = operations && !fused->rotation && model->positions == 0;
    if (!norm && !rotation && fused->qkv && !gate_up && !gathered)
        return 0;
    snprintf(line, ASSUMPTIONS_SIZE, "run one by one:%s%s%s%s%s", norm ? " operations of RMSNorm;" : "",
             rotation ? " operations of the rotation;" : "", fused->qkv ? "" : " GEMMs of queries, keys, values;",
             gate_up ? " GEMMs of gate and up;" : "",
             gathered ? " the loss, on all logits, which every GPU of a tensor-parallel group gathers" : "");
    return 1;
}

static void print_launches(const struct scenario *scenario, char line[ASSUMPTIONS_SIZE])
{
    const struct scenario_host *host = &scenario->host;
    if (scenario->cuda_graphs == SCENARIO_GRAPH_FULL)
        snprintf(line, ASSUMPTIONS_SIZE, "one CUDA graph launches an iteration's kernels; its memory is left out");
    else if (scenario->cuda_graphs == SCENARIO_GRAPH_LAYER)
        snprintf(line, ASSUMPTIONS_SIZE,
                 "a CUDA graph launches a layer's kernels in %.3g us + %.3g us for each, the host others in %.3g us "
                 "each; a pass takes at least as long; memory of graphs is left out",
                 1e6 * host->graph_s, 1e6 * host->graph_kernel_s, 1e6 * host->launch_s);
    else
        snprintf(line, ASSUMPTIONS_SIZE, "the host launches a kernel in %.3g us; %s", 1e6 * host->launch_s,
                 scenario->cuda_launch_blocking ? "the GPU waits for each launch (CUDA_LAUNCH_BLOCKING)"
                                                : "a pass takes at least as long");
}

/** Print engine and kernels. @return number of lines */
static int32_t kernel_lines(const struct scenario *scenario, const struct point *point, char lines[][ASSUMPTIONS_SIZE])
{
    int32_t n = 0;
    snprintf(lines[n++], ASSUMPTIONS_SIZE, "engine: %s",
             scenario->engine == SCENARIO_CRITICAL_PATH
                 ? "critical path (no contention on links)"
                 : "SimGrid, one rank for all of a tensor-parallel group unless all_tensor_ranks");
    n += print_every_rank(point, lines[n]);
    if (*scenario->simgrid_cfg != '\0')
        snprintf(lines[n++], ASSUMPTIONS_SIZE, "SimGrid's options %s: it may differ from the critical path",
                 scenario->simgrid_cfg);
    snprintf(lines[n++], ASSUMPTIONS_SIZE, "attention kernel: %s; kernel and link curves of device %s",
             attention_name[scenario->attention], scenario->device.name);
    n += print_attention_choice(scenario, lines[n]);
    print_tensor_overlap(scenario, point, lines[n++]);
    snprintf(lines[n++], ASSUMPTIONS_SIZE,
             "element-wise kernels: %s%s%s%s; training takes %.1f%% longer for GEMMs and attention than "
             "their benchmarks",
             scenario->kernels == SCENARIO_EAGER      ? "eager, one operation each"
             : scenario->kernels == SCENARIO_COMPILED ? "compiled"
                                                      : "norms, rotation, activation and cross-entropy fused",
             scenario->swiglu == SCENARIO_SWIGLU_SEPARATE ? ", but silu and product separate" : "",
             loss_text[scenario->loss], accumulation_text[scenario->gradient_accumulation],
             100 * scenario->device.training.products);
    n += print_single(scenario, lines[n]);
    print_launches(scenario, lines[n++]);
    print_outside(scenario, point, lines[n++]);
    return n;
}

/** Say what has fp8, and how weights are stored and gathered. */
static void print_precision(const struct scenario *scenario, char line[ASSUMPTIONS_SIZE])
{
    char name[SCHEMA_WORD_BYTES], kept[96] = "";
    bool tensor = scenario->precision == PRECISION_FP8_TENSOR;
    if (scenario->bf16_layers_at_start + scenario->bf16_layers_at_end > 0)
        snprintf(kept, sizeof kept, ", and so have the first %" PRId64 " and the last %" PRId64 " layers",
                 scenario->bf16_layers_at_start, scenario->bf16_layers_at_end);
    schema_choice_name(PRECISION_NAMES, scenario->precision, name);
    snprintf(
        line, ASSUMPTIONS_SIZE,
        "%s: GEMMs of layers; attention, norms, router, embedding and head have bf16%s; %s cast inputs and gradients; "
        "weights of layers are %s%s",
        name, kept,
        !tensor ? "kernels of their own"
        : scenario->fp8_scaling == SCENARIO_SCALING_DELAYED
            ? "with delayed scales norms write fp8, and kernels of their own"
            : "with current scales kernels of their own",
        scenario->fp8_params ? "stored in fp8 only" : "cast once a step",
        any_sharded(scenario, 0) && !(scenario->fp8_params && tensor)
            ? "; zero3 gathers bf16 and casts it in every pass"
            : "");
}

/** Print the traffic between GPUs besides tensor parallelism, and the model. @return number of lines */
static int32_t communication_lines(const struct scenario *scenario, char lines[][ASSUMPTIONS_SIZE])
{
    const struct scenario_communication *communication = &scenario->communication;
    int32_t n = 0;
    snprintf(lines[n++], ASSUMPTIONS_SIZE,
             "context parallelism: ring, point-to-point by one NIC between nodes, %s attention; all-gather and ulysses "
             "before it",
             communication->cp_overlap ? "runs beside" : "is done before");
    snprintf(lines[n++], ASSUMPTIONS_SIZE, "between pipeline stages: point-to-point; the sender %s",
             stage_overlap_text[communication->pp_overlap]);
    snprintf(lines[n++], ASSUMPTIONS_SIZE, "%s", data_overlap_text[communication->dp_overlap]);
    if (scenario->precision != PRECISION_BF16)
        print_precision(scenario, lines[n++]);
    if (model_has_experts(&scenario->model))
        snprintf(
            lines[n++], ASSUMPTIONS_SIZE,
            "experts: %s; %s brings tokens to them%s and results back in each layer and pass, %s; the busiest rank has "
            "%g times the mean tokens%s",
            expert_gemms_text[scenario->expert_gemms], dispatcher_text[communication->dispatcher],
            communication->fp8_dispatch ? " in fp8" : "",
            communication->ep_overlap ? "beside kernels of another micro-batch" : "and nothing hides it",
            scenario->expert_imbalance,
            scenario->device.memory_share[DEVICE_PERMUTE] > 0
                ? ""
                : "; the device's file has no `experts:`, so their kernels run as others do");
    if (scenario->model.tied_embeddings)
        snprintf(lines[n++], ASSUMPTIONS_SIZE,
                 "tied embeddings: with stages their gradients are all-reduced between first and last, never hidden");
    if (most_kv_copies(scenario) > 1)
        snprintf(lines[n++], ASSUMPTIONS_SIZE,
                 "keys and values: up to %" PRId64 " TP ranks hold a copy of each head and sum its gradients; "
                 "Megatron-Core gathers heads instead of copying them",
                 most_kv_copies(scenario));
    if (any_all_reduced(scenario))
        snprintf(lines[n++], ASSUMPTIONS_SIZE,
                 "zero1, zero2: gradients are all-reduced, so every rank receives all of them");
    if (any_sharded(scenario, 0))
        snprintf(
            lines[n++], ASSUMPTIONS_SIZE,
            "zero3: prefetched one layer ahead in every pass; zero2 reduces in every pass, %s it; each such pass waits "
            "for all ranks, but not with shards on demand, which take NICs %g times as long; SimGrid moves the bytes "
            "over links, on which the critical path has no contention",
            communication->dp_overlap == SCENARIO_OVERLAP_NONE ? "not hidden by" : "beside",
            communication->on_demand_slowdown);
    if (any_sharded(scenario, 2))
        snprintf(
            lines[n++], ASSUMPTIONS_SIZE,
            "zero3 with stages: gathered in the first forward, weights and gradients whole, reduced once behind the "
            "last backward, not hidden");
    snprintf(lines[n++], ASSUMPTIONS_SIZE, "layers: %s dropout, %s biases; attention inside each sample, causal%s",
             scenario->model.dropout ? "with" : "no", model_has_biases(&scenario->model) ? "with" : "no",
             model_has_windows(&scenario->model) ? ", in sliding windows" : "");
    return n;
}

bool assumptions_unlike_nvlink(const struct platform *platform, const struct device *device,
                               char line[ASSUMPTIONS_SIZE])
{
    double has = platform->nvlink_bytes_per_s, sheet = device->nvlink_bytes_per_s;
    snprintf(line, ASSUMPTIONS_SIZE,
             "NVLink of platform %s is %g GB/s each way, of device %s's data sheet %g GB/s: the platform's counts",
             platform->name, has / 1e9, device->name, sheet / 1e9);
    return platform_has_nvlink(platform) && sheet > 0 && fabs(has / sheet - 1) > 1e-9;
}

bool assumptions_copied_curves(const struct device *device, char line[ASSUMPTIONS_SIZE])
{
    if (device->own_curves || strcmp(device->like, device->curves_of) == 0)
        snprintf(line, ASSUMPTIONS_SIZE,
                 device->own_curves ? "%s has the curves of %s, the same chip"
                                    : "%s has curves of %s where none was measured, some of another chip: less sure",
                 device->name, device->like);
    else
        snprintf(line, ASSUMPTIONS_SIZE,
                 "%s has curves of %s where none was measured, and of %s where %s has none, some of another chip: less "
                 "sure",
                 device->name, device->like, device->curves_of, device->like);
    return *device->like != '\0';
}

bool assumptions_scaled_attention(const struct scenario *scenario, const char *label,
                                  const struct trace_summary *summary, char line[ASSUMPTIONS_SIZE])
{
    char kernel[SCHEMA_WORD_BYTES] = "best attention", now[TEXT_NUMBER_SIZE], flash2[TEXT_NUMBER_SIZE];
    if (isnan(summary->tokens_per_s_per_gpu_flash2))
        return false;
    if (scenario->attention != DEVICE_FASTEST)
        schema_choice_name(DEVICE_ATTENTION, scenario->attention, kernel);
    text_number(summary->tokens_per_s_per_gpu, summary->tokens_per_s_per_gpu < 100, now);
    text_number(summary->tokens_per_s_per_gpu_flash2, summary->tokens_per_s_per_gpu_flash2 < 100, flash2);
    snprintf(line, ASSUMPTIONS_SIZE,
             "attention of %s is not measured: %s's %s curve, scaled to its peak; %s: %s tokens/s/GPU, with flash2's "
             "curve and the same plan %s, a risk that p5 to p95 leave out",
             scenario->device.name, scenario->device.attention_rows[scenario->attention % DEVICE_N_CURVES].device,
             kernel, label, now, flash2);
    return true;
}

bool assumptions_oversubscription(const struct scenario *scenario, char line[ASSUMPTIONS_SIZE])
{
    const struct platform *platform = &scenario->platform;
    const struct platform_keys *keys = &platform->keys;
    bool given = keys->oversubscription > 1; /* an XML file has no keys */
    if (given && platform_n_leaves(platform) == 1)
        snprintf(line, ASSUMPTIONS_SIZE,
                 "oversubscription has no effect: all %d nodes are on one leaf (platform.leaf %" PRId64 ")",
                 platform->n_nodes, keys->leaf);
    else if (given && !keys->contention)
        snprintf(line, ASSUMPTIONS_SIZE, "oversubscription has no effect: the platform has no contention");
    else if (given && scenario->engine == SCENARIO_CRITICAL_PATH)
        snprintf(line, ASSUMPTIONS_SIZE,
                 "oversubscription has no effect on the critical path, which has no contention: use SimGrid");
    else if (given && any_sharded(scenario, 2))
        snprintf(line, ASSUMPTIONS_SIZE,
                 "oversubscription does not slow the gathers of zero3 with stages, whose time is part of a pass");
    else
        return false;
    return true;
}

const char *assumptions_unused_fabric(const struct scenario *scenario, const char *key)
{
    const struct platform *platform = &scenario->platform;
    if (scenario->engine == SCENARIO_CRITICAL_PATH)
        return "the critical path has no contention; `engine: simgrid` has";
    if (!platform->keys.contention)
        return "the platform has no contention";
    if (strcmp(key, "platform.leaf") != 0 && platform_n_leaves(platform) == 1)
        return "all nodes are on one leaf switch, so no transfer crosses the spine";
    if (strcmp(key, "platform.oversubscription") != 0 && platform->keys.oversubscription <= 1)
        return "with oversubscription 1 the links above leaf switches carry all that NICs send, so that NICs limit";
    return "the links above leaf switches suffice for these transfers";
}

/* what happens to documents over the context, by enum scenario_long */
static const char *const fates[] = {[SCENARIO_CUT] = "cut into samples of their own",
                                    [SCENARIO_DROP] = "replaced by other draws",
                                    [SCENARIO_TRUNCATE] = "truncated"};

bool assumptions_long_documents(const struct scenario_data *data, const struct lengths *lengths,
                                char line[ASSUMPTIONS_SIZE])
{
    double share = 1 - lengths_cdf(lengths, (double)data->context);
    char context[TEXT_NUMBER_SIZE];
    text_number((double)data->context, 0, context);
    snprintf(line, ASSUMPTIONS_SIZE, "%.0f%% of documents exceed the context, %s tokens, and are %s", 100 * share,
             context, fates[data->long_documents]);
    return share >= 0.01;
}

bool assumptions_size(const struct scenario *scenario, int64_t n_gpus, char line[ASSUMPTIONS_SIZE])
{
    /* measured with 7B, TP2 PP2 CP2: 1e6 documents on 128 GPUs take 27 s and 0.9 GB; 5e5 GPUs 86 s and 0.5 GB */
    static const double s_per_document = 25e-6, bytes_per_document = 900, s_per_gpu = 60e-6, bytes_per_gpu = 1000;
    const struct scenario_data *data = &scenario->data;
    double documents =
        data->global_batch > 0 ? (double)data->global_batch : (double)data->global_batch_tokens / (double)data->context;
    double seconds = s_per_document * documents + s_per_gpu * (double)n_gpus,
           gigabytes = (bytes_per_document * documents + bytes_per_gpu * (double)n_gpus) / 1e9;
    char text[2][TEXT_NUMBER_SIZE];
    text_number(documents, 0, text[0]);
    text_number((double)n_gpus, 0, text[1]);
    snprintf(line, ASSUMPTIONS_SIZE,
             "%s documents on %s GPUs: an iteration of a system takes at least about %.0f s of one core and %.1f GB%s",
             text[0], text[1], seconds, gigabytes,
             scenario->engine == SCENARIO_CRITICAL_PATH ? "" : ", on SimGrid many times as much");
    return seconds >= 10 || gigabytes >= 4;
}

/** Print the handling of documents over the context, and how many samples they make if they have most of the data. */
static void print_documents(const struct scenario *scenario, const struct point *point, char line[ASSUMPTIONS_SIZE])
{
    int64_t samples = 0, documents = 0;
    const struct point_system *system = &point->systems[0]; /* all systems have the same batches */
    for (int32_t i = 0; i < system->n_iterations; i++) {
        samples += system->iterations[i].row.samples;
        documents += system->iterations[i].row.documents;
    }
    int used = snprintf(line, ASSUMPTIONS_SIZE, "documents over the context are %s; each system sees the same batches",
                        fates[scenario->data.long_documents]);
    if (documents > 0 && samples >= 2 * documents)
        snprintf(line + used, ASSUMPTIONS_SIZE - (size_t)used, "; a document makes %.3g samples, mean",
                 (double)samples / (double)documents);
}

/** Print who shares NVLink, NICs and PCIe where a platform says it. @return number of lines */
static int32_t share_lines(const struct platform *platform, const struct device *device, char lines[][ASSUMPTIONS_SIZE])
{
    int32_t n = 0, shared = platform_gpus_per_nic(platform);
    if (platform->nvlink_domain != platform->gpus_per_node)
        snprintf(lines[n++], ASSUMPTIONS_SIZE,
                 "NVLink joins %d GPUs (nodes have %d); its curves were measured on nodes of 8",
                 platform->nvlink_domain, platform->gpus_per_node);
    if (shared > 1)
        snprintf(
            lines[n++], ASSUMPTIONS_SIZE,
            "%d GPUs share a NIC of %g GB/s: collectives open a ring for each NIC; on the critical path ranks of a "
            "tensor-parallel group send at once, point-to-point of other groups at other times",
            shared, platform->nic_bytes_per_s / 1e9);
    if (!platform_has_nvlink(platform))
        snprintf(lines[n++], ASSUMPTIONS_SIZE,
                 "no NVLink: collectives are rings over PCIe, as fast as their slowest hop, with the latency and "
                 "efficiency of host copies: %g GB/s a GPU and a switch of %d, %g GB/s from socket to socket; none was "
                 "measured",
                 platform->pcie_bytes_per_s / 1e9, platform->gpus_per_pcie_switch,
                 platform->numa_bytes_per_s * device->pcie.efficiency / 1e9);
    return n;
}

/** Print links, memories and documents. @return number of lines */
static int32_t machine_lines(const struct scenario *scenario, const struct point *point, char lines[][ASSUMPTIONS_SIZE])
{
    const struct platform *platform = &scenario->platform;
    const struct device *device = &scenario->device;
    int32_t n = 0;
    n += share_lines(platform, device, lines);
    char nvlink[32] = "no NVLink";
    if (platform_has_nvlink(platform))
        snprintf(nvlink, sizeof nvlink, "NVLink %g GB/s", platform->nvlink_bytes_per_s / 1e9);
    snprintf(
        lines[n++], ASSUMPTIONS_SIZE,
        "links of a GPU, each way: %s, NIC %g GB/s, PCIe %g GB/s, latencies and efficiencies of the device's curves; "
        "bf16 peak %g TFLOP/s, HBM %g TB/s",
        nvlink, platform->nic_bytes_per_s / 1e9, platform->pcie_bytes_per_s / 1e9,
        device->peak_flop_per_s[PRECISION_BF16] / 1e12, device->hbm_bytes_per_s / 1e12);
    n += assumptions_unlike_nvlink(platform, device, lines[n]);
    n += assumptions_oversubscription(scenario, lines[n]);
    char share[32] = "";
    if (scenario->memory_limit < 1)
        snprintf(share, sizeof share, "%g%% of ", 100 * scenario->memory_limit);
    snprintf(
        lines[n++], ASSUMPTIONS_SIZE,
        "memory of a GPU: %.2f GiB, %sthe device's less %.2f GiB of CUDA context and NCCL; libraries keep %.3f "
        "GiB of it; blocks of states are rounded as PyTorch's allocator does, others not; a plan fits surely up to "
        "%.2f GiB, since the allocator reserves up to %.0f%% more",
        point->memory_bytes / TEXT_GIB, share, device->context_bytes / TEXT_GIB, device->workspace_bytes / TEXT_GIB,
        request_sure_bytes(scenario) / TEXT_GIB, 100 * scenario->pressure.reserve_most);
    snprintf(lines[n++], ASSUMPTIONS_SIZE,
             "host memory of a node: %.2f GiB, all of it for offloaded activations and the optimizer's share",
             platform->host_memory_bytes / TEXT_GIB);
    if (any_offloads(point))
        snprintf(lines[n++], ASSUMPTIONS_SIZE,
                 "offload: with one stage (bytescale: of long sequences with any) copies run layer by layer beside the "
                 "passes, first and last layer stay; with several a micro-batch's activations go out after its forward "
                 "pass and "
                 "are all back before its backward pass: this saves memory of waiting micro-batches, not of the "
                 "running one, "
                 "and if the backward pass is next, the copies are not hidden");
    print_documents(scenario, point, lines[n++]);
    return n;
}

/** Print the levels of power and the prices. @return number of lines */
static int32_t operation_lines(const struct scenario *scenario, char lines[][ASSUMPTIONS_SIZE])
{
    const struct power *power = &scenario->power;
    const struct price *price = &scenario->price;
    char network[64] = "its switches are not counted",
         site[64] = "no overhead of the site, since price.pue is not given";
    int32_t n = 0;
    if (!isnan(power->network_w))
        snprintf(network, sizeof network, "its switches draw %g W", power->network_w);
    if (!isnan(price->pue))
        snprintf(site, sizeof site, "times a PUE of %g", price->pue);
    if (power->gpus > 0)
        snprintf(lines[n++], ASSUMPTIONS_SIZE,
                 "power %s: a node of %d GPUs draws %g W busy and %g W waiting, %s; a GPU that does not compute in a "
                 "step waits in a collective or a receive; %s",
                 power->name, (int)power->gpus, power->node.busy_w, power->node.waiting_w, network, site);
    double usd = money_usd_per_gpu_hour(price, platform_gpus_per_server(&scenario->platform));
    if (!isnan(usd))
        snprintf(lines[n++], ASSUMPTIONS_SIZE,
                 "money: a GPU costs $%.4g an hour%s; failures, restarts and spare nodes are not in it", usd,
                 !isnan(price->usd_per_kwh)       ? ""
                 : isnan(price->usd_per_gpu_hour) ? " without energy, since price.usd_per_kwh is not given"
                                                  : " with its energy, since price.usd_per_kwh is not given");
    return n;
}

/** Print the systems that fit only tightly. @return number of lines */
static int32_t tight_lines(const struct scenario *scenario, const struct point *point, char lines[][ASSUMPTIONS_SIZE])
{
    const struct memory_pressure *pressure = &scenario->pressure;
    int32_t n = 0;
    for (int32_t i = 0; i < point->n_systems; i++) {
        struct trace_summary summary = point_summary_of(scenario, point, i);
        if (summary.tight)
            snprintf(
                lines[n++], ASSUMPTIONS_SIZE,
                "%s: fits tightly, its fullest GPU at %.0f%% of its memory; the allocator reserved up to %.0f%% more "
                "than was allocated in nine of ten measured steps; if it finds no room, it frees its cache and "
                "asks again in every step, which is not modelled: of %" PRId64
                " published runs that are predicted so, %" PRId64 " were predicted %.0f to %.0f%% too fast, of %" PRId64
                " others %" PRId64 " (model/memory_pressure.yaml)",
                point->systems[i].entry->label, 100 * summary.peak_bytes / summary.memory_bytes,
                100 * pressure->reserve_most, pressure->runs, pressure->slow_runs, 100 * pressure->slower_least,
                100 * pressure->slower_most, pressure->other_runs, pressure->other_slow_runs);
    }
    return n;
}

char (*assumptions_lines(const struct scenario *scenario, const struct point *point, int32_t *n))[ASSUMPTIONS_SIZE]
{
    enum { MOST_LINES = 30 };
    char(*lines)[ASSUMPTIONS_SIZE] =
        check_calloc(MOST_LINES + (size_t)point->n_systems * (PLAN_TEXT_LINES + 1), ASSUMPTIONS_SIZE);
    *n = scenario->replay.n_steps > 0 ? 0 : kernel_lines(scenario, point, lines);
    *n += communication_lines(scenario, lines + *n);
    *n += machine_lines(scenario, point, lines + *n);
    *n += operation_lines(scenario, lines + *n);
    if (scenario->n_faults > 0)
        *n += fault_lines(scenario, lines + *n);
    *n += assumptions_replay(&scenario->replay, lines[*n]);
    *n += assumptions_jitter(&scenario->jitter, lines[*n]);
    CHECK(*n <= MOST_LINES);
    for (int32_t i = 0; i < point->n_systems; i++, *n += PLAN_TEXT_LINES)
        plan_text_lines(scenario, &point->systems[i], lines + *n);
    *n += tight_lines(scenario, point, lines + *n);
    return lines;
}
