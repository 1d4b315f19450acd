/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "bounds/batch_bound.h"

#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "cost/attention.h"
#include "cost/communication.h"
#include "cost/context.h"
#include "cost/dispatch.h"
#include "cost/layer.h"
#include "cost/pass.h"
#include "dag/dag.h"
#include "lengths/batch_memo.h"

/* Return the seconds of kernels at their best rates, however a batch is divided into micro-batches. */
static double best_s(const struct cost_setting *setting, const struct cost_kernels *kernels)
{
    const struct device *device = setting->device;
    double best_flop_per_s = device->peak_flop_per_s[setting->precision] * device->gemm[setting->precision].efficiency;
    double sum = 0;
    for (int32_t i = 0; i < kernels->n; i++) {
        const struct cost_kernel *kernel = &kernels->kernel[i];
        if (kernel->family == COST_GEMM)
            sum += kernel->flop / best_flop_per_s;
        else if (kernel->family == COST_MEMORY_BOUND && kernel->bytes > 0)
            sum += fmax(0, kernel->seconds - device->launch_s);
    }
    return sum;
}

/* Return the seconds of attention of one layer of a kind and pass on one sample. */
static double attention_s(const struct plan_request *request, int32_t kind, int32_t tokens, enum pass pass)
{
    const struct cost_setting *setting = request->setting;
    const struct device *device = setting->device;
    bool ring = scenario_is_ring(setting->cp_type) && request->layout.cp > 1;
    struct cost_attention work = {
        .flop = (double)flop_attention(setting->model, kind, pass, 0, tokens) / setting->tensor,
        .queries = ring ? 2.0 * tokens : tokens + 1.0,
        .keys = 2.0 * tokens + 1,
        .head_dim = (double)model_attention_head(setting->model, kind),
    };
    if (setting->attention == DEVICE_UNFUSED)
        return work.flop / (device->peak_flop_per_s[setting->precision] * device->gemm[setting->precision].efficiency);
    return cost_attention_work_s(device, setting->attention, pass, &work);
}

/* Return the only micro-batch of a step, of n_tokens tokens, at most 2^31 - 1, without attention. */
static struct cost_micro_batch all_tokens(double n_tokens)
{
    return (struct cost_micro_batch){.padding_tokens = (int32_t)fmin(n_tokens, INT32_MAX), .context = 1, .first = true};
}

/* Return the seconds of an operator's tensor-parallel collectives that no GEMM hides, with all tokens in one message.
 */
static double op_exposed_s(const struct cost_setting *setting, const struct layer_op *op, double tokens, enum pass pass)
{
    double bytes = tokens * layer_split_width(op) * cost_precisions(setting).wire;
    bool forward = pass == PASS_FORWARD, column = op->split == LAYER_COLUMN;
    bool exposed = setting->tp_overlap == SCENARIO_EXPOSED;
    if (!setting->sequence_parallel)
        return forward == !column && (forward || exposed)
                   ? cost_collective_s(setting, DEVICE_ALL_REDUCE, bytes, setting->tensor)
                   : 0;
    double gathered = layer_gathered_bytes(setting, op->precision, tokens, layer_split_width(op));
    double gather_s = cost_collective_s(setting, DEVICE_ALL_GATHER, gathered, setting->tensor);
    double scatter_s = cost_collective_s(setting, DEVICE_REDUCE_SCATTER, bytes, setting->tensor);
    if (op->follows) /* an input that several GEMMs read is gathered once */
        return 0;
    if (forward)
        return column ? gather_s : scatter_s;
    return column ? (exposed ? gather_s + scatter_s : 0) : gather_s;
}

/* Return op_exposed_s of a layer. */
static double exposed_s(const struct cost_setting *setting, const struct layer *layer, double tokens, enum pass pass)
{
    double seconds = 0;
    for (int32_t i = 0; setting->tp_overlap != SCENARIO_CHUNKED && i < layer->n_ops; i++)
        if (layer->ops[i].split != LAYER_WHOLE)
            seconds += op_exposed_s(setting, &layer->ops[i], tokens, pass);
    return seconds;
}

/* Return the seconds in which a layer's tokens go to their experts and back, with all tokens in one message each. 0 if
 * kernels may hide them. */
static double dispatches_s(const struct cost_setting *setting, int32_t kind, double tokens, enum pass pass)
{
    return pass == PASS_WEIGHT || setting->ep_overlap ? 0 : cost_dispatch_both(setting, kind, tokens).seconds;
}

/* Return the seconds of one stage's layers in one pass on all tokens, without attention. */
static double layers_s(const struct cost_setting *setting, double n_tokens, enum pass pass)
{
    struct cost_micro_batch micro_batch = all_tokens(n_tokens);
    double sum = 0;
    for (int32_t i = 0; i < setting->n_runs; i++) {
        struct layer layer;
        layer_of(setting, setting->runs[i].kind, &layer);
        struct cost_kernels kernels = {0};
        cost_layer_kernels(setting, setting->runs[i].kind, pass, &micro_batch, &kernels);
        sum += setting->runs[i].n *
               (best_s(setting, &kernels) + exposed_s(setting, &layer, micro_batch.padding_tokens, pass) +
                dispatches_s(setting, setting->runs[i].kind, micro_batch.padding_tokens, pass));
    }
    return sum;
}

static double head_s(const struct cost_setting *setting, double n_tokens, enum pass pass)
{
    struct cost_micro_batch micro_batch = all_tokens(n_tokens);
    struct cost_kernels kernels = {0};
    cost_head_kernels(setting, pass, &micro_batch, &kernels);
    return best_s(setting, &kernels);
}

/* Return how many layers of a run each sample passes through. Forward they include those that recompute in full. */
static double n_layer_passes(const struct cost_run *run, const struct scenario_plan *layout, enum pass pass)
{
    return run->n + (pass == PASS_FORWARD && layout->recompute == RECOMPUTE_FULL ? run->again : 0);
}

/* Return the seconds of the last stage's attention on a sample. */
static double sample_attention_s(const struct plan_request *request, int32_t tokens)
{
    const struct cost_setting *setting = request->setting;
    double sum = 0;
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++)
        for (int32_t i = 0; i < setting->n_runs; i++)
            sum += n_layer_passes(&setting->runs[i], &request->layout, pass) *
                   attention_s(request, setting->runs[i].kind, tokens, pass);
    return sum;
}

/* All that attention_s reads, without gaps. */
struct attention_key {
    char name[12];
    int32_t tensor, kind, pass, attention, precision;
    int64_t ring;
};

/*
 * Return attention_s of all samples, which do not depend on stages and recomputation. The caller frees the result
 * unless the batch keeps it.
 */
static const double *attention_of_samples_s(const struct plan_request *request, int32_t kind, enum pass pass,
                                            double **own)
{
    const struct cost_setting *setting = request->setting;
    const struct batch *batch = request->batch;
    const struct attention_key key = {"attention",
                                      setting->tensor,
                                      kind,
                                      (int32_t)pass,
                                      (int32_t)setting->attention,
                                      (int32_t)setting->precision,
                                      scenario_is_ring(setting->cp_type) && request->layout.cp > 1};
    const double *known = batch_memo_find(batch->memo, &key, sizeof key);
    *own = NULL;
    if (known != NULL)
        return known;
    size_t n_bytes = (size_t)batch->n_samples * sizeof **own;
    double *seconds = *own = check_malloc(n_bytes);
    for (int32_t i = 0; i < batch->n_samples; i++)
        seconds[i] = i > 0 && batch->tokens[i] == batch->tokens[i - 1]
                         ? seconds[i - 1]
                         : attention_s(request, kind, batch->tokens[i], pass);
    batch_memo_keep(batch->memo, &key, sizeof key, seconds, n_bytes);
    return seconds;
}

/* Return the seconds a token of a pass of the last stage on one rank, with n_tokens tokens and without attention. */
static double pass_token_s(const struct plan_request *request, double n_tokens, enum pass pass)
{
    bool again = pass == PASS_BACKWARD && request->layout.recompute == RECOMPUTE_FULL;
    double sum = head_s(request->setting, n_tokens, pass) + layers_s(request->setting, n_tokens, pass);
    if (again && !request->layout.early_stop) { /* early_stop repeats less */
        struct cost_setting repeated = cost_setting_again(request->setting);
        sum += layers_s(&repeated, n_tokens, PASS_FORWARD);
    }
    return sum / n_tokens;
}

static double token_s(const struct plan_request *request, double n_tokens)
{
    return pass_token_s(request, n_tokens, PASS_FORWARD) + pass_token_s(request, n_tokens, PASS_BACKWARD);
}

double batch_bound_rails_s(const struct cost_setting *setting, enum device_collective_kind kind, double bytes,
                           int32_t n)
{
    int32_t most = platform_nvlink_domain(setting->platform) / setting->tensor;
    double least = INFINITY;
    for (int32_t n_each = 1; n_each <= most && n_each <= n; n_each++)
        least = fmin(least, cost_rails_s(setting, kind, bytes, n, n_each));
    return least;
}

struct cost_setting batch_bound_setting(const struct cost_setting *setting, const struct scenario_plan *layout,
                                        int32_t stage)
{
    const struct plan_layout pipeline = {
        .tensor = setting->tensor, .stages = (int32_t)layout->pp, .chunks = (int32_t)layout->vpp};
    return dag_rank_setting(setting, &pipeline, stage);
}

/* Return a setting that holds the layers of the first n virtual stages. */
static struct cost_setting first_stages(const struct cost_setting *setting, const struct scenario_plan *layout,
                                        int32_t n)
{
    struct cost_setting held = *setting;
    int64_t first = 0;
    cost_clear_layers(&held);
    for (int32_t stage = 0; stage < n; stage++) {
        int32_t layers = scenario_stage_layers(&setting->split, setting->model->layers, (int32_t)layout->pp,
                                               (int32_t)layout->vpp, stage);
        cost_add_layers(&held, first, layers);
        first += layers;
    }
    return held;
}

/*
 * Return the request for a stage that holds all chunks of a rank.
 * @param setting  takes batch_bound_setting of the last stage
 */
static struct plan_request rank_request(const struct plan_request *request, struct cost_setting *setting)
{
    struct plan_request rank = *request;
    *setting = batch_bound_setting(request->setting, &request->layout, (int32_t)request->layout.pp - 1);
    rank.setting = setting;
    return rank;
}

/* Add n layers' attention of a kind and pass to the seconds of all samples. */
static void add_attention_s(const struct plan_request *request, int32_t kind, enum pass pass, double n, double *seconds)
{
    double *own;
    const double *attention = attention_of_samples_s(request, kind, pass, &own);
    for (int32_t i = 0; i < request->batch->n_samples; i++)
        seconds[i] += n * attention[i];
    free(own);
}

void batch_bound_samples_s(const struct plan_request *request, double *seconds)
{
    const struct batch *batch = request->batch;
    struct cost_setting setting;
    struct plan_request rank = rank_request(request, &setting);
    double one_s = token_s(&rank, (double)batch->n_tokens);
    for (int32_t i = 0; i < batch->n_samples; i++)
        seconds[i] = one_s * batch->tokens[i];
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++)
        for (int32_t i = 0; i < setting.n_runs; i++)
            add_attention_s(&rank, setting.runs[i].kind, pass, n_layer_passes(&setting.runs[i], &rank.layout, pass),
                            seconds);
}

struct batch_bound_pass batch_bound_pass_of(const struct plan_request *request, enum pass pass)
{
    struct cost_setting setting;
    struct plan_request rank = rank_request(request, &setting);
    size_t n = (size_t)request->batch->n_samples;
    struct batch_bound_pass of = {.token_s = pass_token_s(&rank, (double)request->batch->n_tokens, pass),
                                  .attention_s = check_calloc(MODEL_MAX_KINDS * n, sizeof *of.attention_s),
                                  .model = setting.model};
    for (int32_t i = 0; i < setting.n_runs; i++) {
        const struct cost_run *run = &setting.runs[i];
        double *attention_s = of.attention_s + (size_t)run->kind * n;
        add_attention_s(&rank, run->kind, pass, run->n, attention_s);
        if (pass == PASS_BACKWARD && rank.layout.recompute == RECOMPUTE_FULL)
            add_attention_s(&rank, run->kind, PASS_FORWARD, run->again, attention_s);
    }
    return of;
}

double batch_bound_micro_batch_s(const struct batch_bound_pass *of, const struct batch *batch,
                                 const struct plan_partition *partition, int32_t micro_batch)
{
    const struct plan_micro_batch *part = &partition->micro_batches[micro_batch];
    double sum_s = 0;
    for (int32_t i = part->first_slice; i < part->first_slice + part->n_slices; i++) {
        struct slice slice = partition->slices[i];
        double attention_s = 0;
        for (int32_t kind = 0; kind < MODEL_MAX_KINDS; kind++) {
            double sample_s = of->attention_s[kind * batch->n_samples + slice.sample];
            int64_t window = of->model->kinds[kind].window;
            if (sample_s <= 0)
                continue;
            double share = attention_twice_keys(window, slice.begin, slice.end) /
                           attention_twice_keys(window, 0, batch->tokens[slice.sample]); /* of its attention */
            attention_s += sample_s * share;
        }
        sum_s += of->token_s * slice_tokens(slice) + attention_s;
    }
    return sum_s / part->context;
}

double batch_bound_shared_s(const struct plan_request *request)
{
    int32_t n = request->batch->n_samples;
    double *seconds = check_calloc((size_t)n, sizeof *seconds), sum_s = 0;
    batch_bound_samples_s(request, seconds);
    for (int32_t i = 0; i < n; i++)
        sum_s += seconds[i] / (double)request->layout.dp;
    free(seconds);
    return sum_s / (double)request->layout.cp;
}

static int32_t longest(const struct batch *batch)
{
    int32_t tokens = 0;
    for (int32_t i = 0; i < batch->n_samples; i++)
        tokens = batch->tokens[i] > tokens ? batch->tokens[i] : tokens;
    return tokens;
}

static int32_t shortest(const struct batch *batch)
{
    int32_t tokens = INT32_MAX;
    for (int32_t i = 0; i < batch->n_samples; i++)
        tokens = batch->tokens[i] < tokens ? batch->tokens[i] : tokens;
    return tokens;
}

/*
 * Return the seconds of a sample through the layers of the setting and back. Attention that a list of outputs repeats
 * is left out.
 */
static double through_s(const struct plan_request *request, const struct cost_setting *setting, int32_t tokens,
                        bool head)
{
    const struct scenario_plan *layout = &request->layout;
    int32_t context = (int32_t)layout->cp;
    struct slice slice = {0, 0, tokens};
    struct cost_micro_batch micro_batch = {.slices = &slice,
                                           .n_slices = 1,
                                           .context = context,
                                           .recompute = (enum recompute)layout->recompute,
                                           .first = true};
    double sum = 0;
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
        struct cost_pass cost = cost_of_pass(setting, pass, &micro_batch), end = {0};
        double least_s = 0;
        if (head)
            end = cost_of_head(setting, pass, &micro_batch);
        for (int32_t i = 0; i < setting->n_runs; i++)
            least_s += n_layer_passes(&setting->runs[i], layout, pass) *
                       cost_attention_least_s(setting, setting->runs[i].kind, pass, tokens, context);
        sum += cost.kernels_s + least_s + cost.tensor_s + cost.expert_s + end.kernels_s + end.tensor_s;
    }
    return sum;
}

/*
 * Return the seconds in which the last rank waits for its first sample and the first rank for its last gradients. The
 * sample passes through pp - 1 virtual stages before, and back behind.
 */
static double fill_s(const struct plan_request *request)
{
    int32_t n = (int32_t)request->layout.pp - 1;
    const struct cost_setting before = first_stages(request->setting, &request->layout, n);
    return cost_n_layers(&before) > 0 ? through_s(request, &before, shortest(request->batch), false) : 0;
}

double batch_bound_whole_samples_s(const struct plan_request *request)
{
    int32_t n_virtual = (int32_t)(request->layout.pp * request->layout.vpp);
    const struct cost_setting all = first_stages(request->setting, &request->layout, n_virtual);
    return fmax(batch_bound_shared_s(request) + fill_s(request),
                through_s(request, &all, longest(request->batch), true));
}

/*
 * Return the seconds of gathers of keys and values of n_tokens tokens, before attention and again in the backward. The
 * reduction of their gradients is included.
 */
static double context_gathers_s(const struct plan_request *request, double n_tokens)
{
    const struct cost_setting *setting = request->setting;
    int32_t context = (int32_t)request->layout.cp;
    double sum = 0;
    for (int32_t i = 0; setting->cp_type == SCENARIO_ALL_GATHER && context > 1 && i < setting->n_runs; i++) {
        double bytes = n_tokens * cost_kv_bytes(setting, setting->runs[i].kind);
        sum += setting->runs[i].n * (2 * batch_bound_rails_s(setting, DEVICE_ALL_GATHER, bytes, context) +
                                     batch_bound_rails_s(setting, DEVICE_REDUCE_SCATTER, bytes, context));
    }
    return sum;
}

/* Return the seconds of the last stage's attention on a sample, over x(x + 1). */
static double attention_rate(const struct plan_request *request, int32_t tokens)
{
    return sample_attention_s(request, tokens) / ((double)tokens * (tokens + 1.0));
}

/*
 * Return the least seconds of the last stage, on one rank, for a model FLOP of any sample. It is the minimum over the
 * ends of ranges of lengths; each range has the rate of attention at its upper end. With windows a range has the lower
 * rate of its ends, the least seconds and the most FLOPs a token.
 */
static double least_s_of_flop(const struct plan_request *request)
{
    const struct cost_setting *setting = request->setting;
    /* seconds of a token in the largest possible message */
    double one_s = token_s(request, INT32_MAX), least = INFINITY;
    const struct flop_model model = flop_model_of(setting->model);
    bool windows = model_has_windows(setting->model);
    one_s += (double)request->layout.cp * context_gathers_s(request, INT32_MAX) / INT32_MAX;
    for (int32_t most = (int32_t)request->context; most >= 1; most /= 2) {
        int32_t half = most / 2;
        double attention = attention_rate(request, most);
        if (windows) {
            attention = half > 0 ? fmin(attention, attention_rate(request, half)) : attention;
            least = fmin(least, (one_s + attention * (half + 1.0)) * most / flop_model_of_sample(&model, most));
            continue;
        }
        for (int32_t tokens = most; tokens >= 1 && tokens >= half; tokens -= most - half)
            least = fmin(least,
                         (one_s * tokens + attention * tokens * (tokens + 1.0)) / flop_model_of_sample(&model, tokens));
    }
    return least;
}

double batch_bound_any_samples_s(const struct plan_request *request)
{
    const struct scenario_plan *layout = &request->layout;
    const struct batch *batch = request->batch;
    struct cost_setting setting;
    struct plan_request rank = rank_request(request, &setting);
    return least_s_of_flop(&rank) * flop_model_of_samples(setting.model, batch->tokens, batch->n_samples) /
           (double)(layout->dp * layout->cp);
}
