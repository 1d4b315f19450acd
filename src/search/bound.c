/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "search/bound.h"

#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "bounds/stage_memory.h"
#include "scenario/stages.h"
#include "search/deciding.h"

/* Seconds of kernels at their best rates, whatever the cut. */
static double best_s(const struct device *device, const struct cost_kernels *kernels)
{
    double sum = 0;
    for (int32_t i = 0; i < kernels->n; i++) {
        const struct cost_kernel *kernel = &kernels->kernel[i];
        if (kernel->family == COST_GEMM)
            sum += kernel->flop / (device->peak_flop_per_s * device->gemm.efficiency);
        else if (kernel->family == COST_MEMORY_BOUND && kernel->bytes > 0)
            sum += fmax(0, kernel->seconds - device->launch_s);
    }
    return sum;
}

/* Attention of one layer and pass on one sample. */
static double attention_s(const struct plan_request *request, int32_t tokens, enum pass pass)
{
    const struct cost_setting *setting = request->setting;
    const struct model *model = setting->model;
    bool ring = scenario_is_ring(setting->plan->cp_type) && request->layout.cp > 1;
    struct cost_attention work = {
        .flop = (double)flop_attention(model, pass, 0, tokens) / setting->tensor,
        .queries = ring ? 2.0 * tokens : tokens + 1.0,
        .keys = 2.0 * tokens + 1,
        .head_dim = (double)model_head_width(model),
    };
    if (setting->attention == DEVICE_UNFUSED)
        return work.flop / (setting->device->peak_flop_per_s * setting->device->gemm.efficiency);
    return cost_attention_work_s(setting->device, setting->attention, pass, &work);
}

/* So many tokens as one unit without attention; beyond 2^31 - 1 of them the rest is left out. */
static struct cost_unit all_tokens(double n_tokens)
{
    return (struct cost_unit){.padding_tokens = (int32_t)fmin(n_tokens, INT32_MAX), .context = 1};
}

/* Tensor-parallel collectives of a layer that no GEMM hides, on all tokens in one message each. */
static double exposed_s(const struct cost_setting *setting, double tokens, enum pass pass)
{
    double bytes = tokens * (double)setting->model->hidden * 2;
    int32_t overlap = setting->communication.tp_overlap;
    double gather_s = cost_collective_s(setting, DEVICE_ALL_GATHER, bytes, setting->tensor);
    double scatter_s = cost_collective_s(setting, DEVICE_REDUCE_SCATTER, bytes, setting->tensor);
    bool forward = pass == PASS_FORWARD, exposed = overlap == SCENARIO_EXPOSED;
    if (overlap == SCENARIO_CHUNKED)
        return 0;
    if (!setting->plan->sequence_parallel)
        return forward || exposed ? 2 * cost_collective_s(setting, DEVICE_ALL_REDUCE, bytes, setting->tensor) : 0;
    return forward ? 2 * (gather_s + scatter_s) : 2 * gather_s + (exposed ? 2 * (gather_s + scatter_s) : 0);
}

/* Layers of one stage in one pass on all tokens, without attention. */
static double layers_s(const struct cost_setting *setting, double n_tokens, enum pass pass)
{
    struct cost_unit unit = all_tokens(n_tokens);
    struct cost_kernels kernels = {0};
    cost_layer_kernels(setting, pass, &unit, &kernels);
    return setting->layers * (best_s(setting->device, &kernels) + exposed_s(setting, unit.padding_tokens, pass));
}

static double head_s(const struct cost_setting *setting, double n_tokens)
{
    struct cost_unit unit = all_tokens(n_tokens);
    double sum = 0;
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
        struct cost_kernels kernels = {0};
        cost_head_kernels(setting, pass, &unit, &kernels);
        sum += best_s(setting->device, &kernels);
    }
    return sum;
}

/* Passes of the last stage's layers that each sample takes, what is recomputed in full among the forward ones. */
static double n_layer_passes(const struct cost_setting *setting, const struct scenario_plan *layout, enum pass pass)
{
    double again = setting->recompute_layers > 0 ? setting->recompute_layers : setting->layers;
    return setting->layers + (pass == PASS_FORWARD && layout->recompute == RECOMPUTE_FULL ? again : 0);
}

/* The last stage on a sample: attention, and what a token takes besides. */
static double sample_s(const struct plan_request *request, int32_t tokens, double token_s)
{
    double sum = token_s * tokens;
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++)
        sum += n_layer_passes(request->setting, &request->layout, pass) * attention_s(request, tokens, pass);
    return sum;
}

/* What the last stage does on so many tokens but attention, on one place, for each of them. */
static double token_s(const struct plan_request *request, double n_tokens)
{
    double sum = head_s(request->setting, n_tokens);
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++)
        sum += layers_s(request->setting, n_tokens, pass);
    if (request->layout.recompute == RECOMPUTE_FULL && !request->layout.early_stop) { /* else more than is done */
        struct cost_setting again = *request->setting;
        if (again.recompute_layers > 0)
            again.layers = again.recompute_layers;
        sum += layers_s(&again, n_tokens, PASS_FORWARD);
    }
    return sum / n_tokens;
}

/* Work of a place of the last stage: of the most loaded rank, or the mean. */
static double work_s(const struct plan_request *request, const struct system_share *share)
{
    int32_t n_ranks = (int32_t)request->layout.dp;
    double *rank_s = check_calloc((size_t)n_ranks, sizeof *rank_s), most_s = 0;
    double one_s = token_s(request, (double)request->batch->n_tokens);
    for (int32_t i = 0; i < request->batch->n_samples; i++) {
        int32_t first = share != NULL ? share[i].first_rank : 0, width = share != NULL ? share[i].width : n_ranks;
        double seconds = sample_s(request, request->batch->tokens[i], one_s) / width;
        for (int32_t rank = first; rank < first + width; rank++)
            rank_s[rank] += seconds;
    }
    for (int32_t rank = 0; rank < n_ranks; rank++)
        most_s = fmax(most_s, rank_s[rank]);
    free(rank_s);
    return most_s / (double)request->layout.cp;
}

/* A reduce-scatter or all-gather of n ranks, `bytes` whole, as many on a node as is fastest. */
static double least_rails_s(const struct cost_setting *setting, enum device_collective_kind kind, double bytes,
                            int32_t n)
{
    int32_t most = setting->platform->gpus_per_node / setting->tensor;
    double least = INFINITY;
    for (int32_t n_each = 1; n_each <= most && n_each <= n; n_each++)
        least = fmin(least, cost_rails_s(setting, kind, bytes, n, n_each));
    return least;
}

/* Keys and values of so many tokens gathered before attention, and again in the backward, their gradients reduced. */
static double context_gathers_s(const struct plan_request *request, double n_tokens)
{
    const struct cost_setting *setting = request->setting;
    double bytes = n_tokens * cost_kv_bytes(setting->model, setting->tensor);
    int32_t context = (int32_t)request->layout.cp;
    if (setting->plan->cp_type != SCENARIO_ALL_GATHER || context == 1)
        return 0;
    return setting->layers * (2 * least_rails_s(setting, DEVICE_ALL_GATHER, bytes, context) +
                              least_rails_s(setting, DEVICE_REDUCE_SCATTER, bytes, context));
}

/* Least seconds of the last stage, on one place, for a model FLOP of any sample. Between U/2 and U attention takes no
 * less for each FLOP than at U; with that rate seconds and FLOPs are A L + B L^2, so their ratio is least at an end. */
static double least_s_of_flop(const struct plan_request *request)
{
    const struct cost_setting *setting = request->setting;
    double one_s = token_s(request, INT32_MAX), least = INFINITY; /* of a token in the largest message of all */
    one_s += (double)request->layout.cp * context_gathers_s(request, INT32_MAX) / INT32_MAX;
    for (int32_t most = (int32_t)request->context; most >= 1; most /= 2) {
        double attention = sample_s(request, most, 0) / ((double)most * (most + 1.0));
        for (int32_t tokens = most; tokens >= 1 && tokens >= most / 2; tokens -= most - most / 2)
            least = fmin(least, (one_s * tokens + attention * tokens * (tokens + 1.0)) /
                                    flop_model_of_sample(setting->model, tokens));
    }
    return least;
}

/* Work of a place of the last stage, the mean, for as many model FLOPs as the batch has, of whatever samples. */
static double any_work_s(const struct plan_request *request)
{
    const struct scenario_plan *layout = &request->layout;
    return least_s_of_flop(request) * deciding_batch_flop(request->setting->model, request->batch) /
           (double)(layout->dp * layout->cp);
}

static int32_t longest(const struct batch *batch)
{
    int32_t tokens = 0;
    for (int32_t i = 0; i < batch->n_samples; i++)
        tokens = batch->tokens[i] > tokens ? batch->tokens[i] : tokens;
    return tokens;
}

/* The longest sample, whole, through all stages and back; attention that a list of outputs repeats is left out. */
static double chain_s(const struct cost_setting *setting, const struct scenario_plan *layout, const struct batch *batch)
{
    int32_t tokens = longest(batch), context = (int32_t)layout->cp;
    struct slice slice = {0, 0, tokens};
    struct cost_unit unit = {
        .slices = &slice, .n_slices = 1, .context = context, .recompute = (enum recompute)layout->recompute};
    double sum = 0;
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
        struct cost_pass cost = cost_of_pass(setting, pass, &unit), head = cost_of_head(setting, pass, &unit);
        double least_s = n_layer_passes(setting, layout, pass) * cost_attention_least_s(setting, pass, tokens, context);
        sum += (double)layout->pp * (cost.other_s + least_s + cost.tensor_s) + head.other_s + head.tensor_s;
    }
    return sum;
}

/* A reduce-scatter or all-gather of the replicas of one stage, `bytes` whole; 0 where passes may hide or have it. */
static double ring_s(const struct cost_setting *setting, enum device_collective_kind kind, double bytes, int32_t n)
{
    bool gathers = kind == DEVICE_ALL_GATHER;
    int32_t hides = gathers ? SCENARIO_OVERLAP_BOTH : SCENARIO_OVERLAP_GRADIENTS;
    bool inside = gathers ? setting->plan->sharding == SCENARIO_ZERO3 : cost_shards_in_passes(setting);
    if (n <= 1 || inside || setting->communication.dp_overlap >= hides)
        return 0;
    return least_rails_s(setting, kind, bytes, n);
}

/* Layers of all chunks of a rank, on the stage that has the fewest. */
static int32_t least_layers(const struct cost_setting *setting, const struct scenario_plan *layout)
{
    int32_t stages = (int32_t)layout->pp, chunks = (int32_t)layout->vpp, least = setting->layers * chunks;
    for (int32_t stage = 0; stage < stages; stage++) {
        int32_t layers = 0;
        for (int32_t chunk = 0; chunk < chunks; chunk++)
            layers +=
                scenario_stage_layers(&layout->stages, setting->model->layers, stages, chunks, chunk * stages + stage);
        least = layers < least ? layers : least;
    }
    return least;
}

double bound_after_passes_s(const struct cost_setting *setting, const struct scenario_plan *layout)
{
    bool whole = layout->pp == 1;
    int32_t n = (int32_t)(layout->dp * layout->cp);
    double parameters =
        cost_stage_parameters(setting->model, setting->tensor, least_layers(setting, layout), whole, whole);
    double gradient_bytes = parameters * cost_gradient_bytes(setting);
    return ring_s(setting, DEVICE_REDUCE_SCATTER, gradient_bytes, n) + cost_optimizer_s(setting, parameters, n) +
           ring_s(setting, DEVICE_ALL_GATHER, 2 * parameters, n);
}

/* What a rank of a stage holds at once at least if it has `tokens` of one sample. */
static double stage_peak_bytes(const struct training_system *system, const struct plan_request *request,
                               enum recompute recompute, int32_t stage, double tokens)
{
    struct plan_layout layout = request_pipeline_layout(request, 0);
    double away = request_offload_share(request, request->layout.offload), held = 0;
    struct stage_memory_unit unit = {.recompute = recompute, .streamed = request_streams(request) ? away : 0};
    struct stage_memory memory;
    for (int32_t chunk = 0; chunk < layout.chunks; chunk++) {
        memory = stage_memory_of(request->setting, &layout, chunk * layout.stages + stage,
                                 scenario_plan_shards(&request->layout), &unit);
        held += memory.token.held;
    }
    double standing = stage_memory_standing_bytes(&memory), in_use = 0;
    bool leaves = request_streams(request) || layout.chunks > 1;
    if (system->keeps_samples)
        in_use = tokens * (held * (leaves ? 1 - away : 1) + memory.token.embedding) +
                 stage_memory_work_bytes(&memory, tokens);
    else if (system_offloads(system, request->knobs))
        in_use = tokens * held * (1 - away);
    return fmax(standing, standing - memory.gradients_bytes + in_use);
}

/* The fullest stage; if the system decides recomputation itself, with the least of any. */
static double least_peak_bytes(const struct training_system *system, const struct plan_request *request, double tokens)
{
    static const enum recompute any[] = {RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL};
    bool decides = system_recomputes(system, request->knobs);
    double least = INFINITY;
    for (int i = 0; i < (decides ? 3 : 1); i++) {
        enum recompute recompute = decides ? any[i] : (enum recompute)request->layout.recompute;
        double most = 0;
        for (int32_t stage = 0; stage < (int32_t)request->layout.pp; stage++)
            most = fmax(most, stage_peak_bytes(system, request, recompute, stage, tokens));
        least = fmin(least, most);
    }
    return least;
}

/* The most tokens of one sample on one context rank of a pipeline. */
static double most_tokens(const struct training_system *system, const struct plan_request *request,
                          const struct system_share *share)
{
    double most = 0, ranks = system->keeps_samples ? 1 : (double)request->layout.dp;
    for (int32_t i = 0; i < request->batch->n_samples; i++)
        most = fmax(most, request->batch->tokens[i] / (share != NULL ? share[i].width : ranks));
    return most / (double)request->layout.cp;
}

/* The bounds under one way to share the samples; NULL: not known. `rank`: the request with rank_setting. */
static struct bound bound_of_shares(const struct training_system *system, const struct plan_request *request,
                                    const struct plan_request *rank, const struct system_share *share)
{
    bool keeps_state = system->state_size > 0;
    double tokens = keeps_state ? 0 : most_tokens(system, request, share);
    return (struct bound){
        .time_s = !keeps_state               ? work_s(rank, share)
                  : system->switches_layouts ? 0
                                             : any_work_s(rank),
        .peak_bytes = least_peak_bytes(system, request, tokens),
    };
}

/* Of all chunks of a rank together, as if they were one stage; where stages are unequal, of as many as the least. */
static struct cost_setting rank_setting(const struct plan_request *request)
{
    struct cost_setting rank = *request->setting;
    rank.layers = least_layers(request->setting, &request->layout);
    rank.recompute_layers *= (int32_t)request->layout.vpp;
    return rank;
}

struct bound bound_of(const struct training_system *system, const struct plan_request *asked, double most_work_share)
{
    struct bound bound = {INFINITY, INFINITY};
    struct cost_setting rank = rank_setting(asked);
    struct plan_request least = *asked, *request = &least;
    least.setting = &rank;
    if (system_recomputes(system, asked->knobs))
        least.layout.recompute = RECOMPUTE_NONE;
    if (system->shares != NULL) {
        struct system_share *share = check_calloc((size_t)request->batch->n_samples, sizeof *share);
        for (int32_t variant = 0; system->shares(request, variant, share); variant++) {
            struct bound other = bound_of_shares(system, asked, request, share);
            bound.time_s = fmin(bound.time_s, other.time_s);
            bound.peak_bytes = fmin(bound.peak_bytes, other.peak_bytes);
        }
        free(share);
    } else {
        bound = bound_of_shares(system, asked, request, NULL);
    }
    if (system->keeps_samples && system->state_size == 0)
        bound.time_s = fmax(bound.time_s, chain_s(request->setting, &request->layout, request->batch));
    bound.time_s += bound_after_passes_s(asked->setting, &request->layout) / most_work_share;
    return bound;
}
