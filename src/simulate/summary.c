/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "simulate/summary.h"

#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/text.h"
#include "operation/energy.h"
#include "operation/money.h"
#include "simulate/interval.h"
#include "simulate/plan_text.h"

static void add_bubble(struct bubble *sum, const struct bubble *term)
{
    sum->busy_s += term->busy_s;
    sum->ring_s += term->ring_s;
    sum->warm_up_s += term->warm_up_s;
    sum->imbalance_s += term->imbalance_s;
    sum->cool_down_s += term->cool_down_s;
    sum->dp_wait_s += term->dp_wait_s;
    sum->sync_s += term->sync_s;
    sum->expert_wait_s += term->expert_wait_s;
    sum->reshard_s += term->reshard_s;
    sum->total_s += term->total_s;
}

static void summarise_peak(const struct point_iteration *result, struct trace_summary *summary)
{
    const struct trace_iteration *row = &result->row;
    if (result->host.bytes > summary->host_peak_bytes) {
        summary->host_peak_bytes = result->host.bytes;
        summary->host_node = result->host.node;
        summary->host_stage = result->host.stage;
    }
    if (row->peak_bytes <= summary->peak_bytes)
        return;
    summary->peak_bytes = row->peak_bytes;
    summary->peak_stage = row->peak_stage;
    summary->peak_class = MEMORY_STATES;
    for (int i = 0; i < MEMORY_N_CLASSES; i++) {
        summary->class_bytes[i] = row->class_bytes[i];
        if (row->class_bytes[i] > row->class_bytes[summary->peak_class])
            summary->peak_class = i;
    }
}

/** Return model FLOPs over the FLOPs that the GPUs could have done in the time of the measured iterations. */
static double mfu_of(const struct scenario *scenario, const struct point_system *system)
{
    double model_flop = 0, total_s = 0, gpus = platform_n_gpus(&scenario->platform);
    for (int32_t i = (int32_t)scenario->warm_up; i < system->n_iterations; i++) {
        model_flop += system->iterations[i].row.model_flop;
        total_s += system->iterations[i].row.time_s;
    }
    return model_flop / (total_s * gpus * scenario->device.peak_flop_per_s[PRECISION_BF16]);
}

/** Compare a system with the first one. */
static void compare_with_first(const struct scenario *scenario, const struct point *point, int32_t index,
                               struct trace_summary *summary)
{
    const struct point_system *first = &point->systems[0];
    const struct point_iteration *measured = point->systems[index].iterations + scenario->warm_up;
    int32_t n = (int32_t)scenario->measured;
    summary->speed_up = summary->mfu / mfu_of(scenario, first);
    summary->speed_up_interval = interval_of_speed_up(first->iterations + scenario->warm_up, measured, n);
    summary->first_exceeds_limit = !first->fits;
}

/**
 * Fill in energy and money of the measured iterations. A GPU computes during its passes and its optimizer, except for
 * the collectives inside. It waits for the rest of the time.
 */
static void add_operation(const struct scenario *scenario, double tokens, double total_s, struct trace_summary *summary)
{
    const double trillion = 1e12, s_per_hour = 3600;
    double gpus = platform_n_gpus(&scenario->platform);
    double busy_s = summary->bubble.busy_s - summary->tensor_s - summary->shard_s - summary->expert_s;
    struct energy_time time = {.busy_s = busy_s, .waiting_s = fmax(0, gpus * total_s - busy_s)};
    double joules = energy_j(&scenario->power, &scenario->price, &time);
    double gpu_hours = gpus * total_s / s_per_hour;
    summary->power_w = joules / total_s;
    summary->energy_j_per_token = joules / tokens;
    summary->usd_per_1t_tokens =
        money_usd(&scenario->price, platform_gpus_per_server(&scenario->platform), gpu_hours, joules) *
        (trillion / tokens);
    summary->kg_co2_per_1t_tokens = energy_kg_co2(&scenario->price, joules) * (trillion / tokens);
}

/** Add the sums and means over the measured iterations. */
static void add_iterations(const struct point_iteration *measured, int32_t n, struct trace_summary *summary)
{
    int32_t n_bounds = 0;
    for (int32_t i = 0; i < n; i++) {
        const struct trace_iteration *row = &measured[i].row;
        summary->micro_batch_imbalance += row->micro_batch_imbalance / n;
        summary->dp_imbalance += row->dp_imbalance / n;
        summary->forward_imbalance += row->forward_imbalance / n;
        summary->backward_imbalance += row->backward_imbalance / n;
        for (int k = 0; k < TRAFFIC_N_PURPOSES; k++)
            summary->traffic.bytes[k] += row->traffic.bytes[k] / n;
        summary->tensor_s += row->tensor_s;
        summary->shard_s += row->shard_s;
        summary->expert_s += row->expert_s;
        summary->critical_path_mean_s += row->critical_path_s / n;
        bool bounded = !isnan(row->context_bound_s); /* otherwise the critical path is its own bound */
        summary->context_bound_mean_s += (bounded ? row->context_bound_s : row->critical_path_s) / n;
        n_bounds += bounded;
        summary->simgrid_mean_s += row->simgrid_s / n;
        add_bubble(&summary->bubble, &row->bubble);
        summarise_peak(&measured[i], summary);
    }
    summary->bubble_fraction = bubble_fraction(&summary->bubble);
    if (n_bounds == 0)
        summary->context_bound_mean_s = NAN;
}

/** Fill in the rates, and the time's mean and percentiles. */
static void add_rates(const struct scenario *scenario, const struct point *point, int32_t index,
                      struct trace_summary *summary)
{
    const struct point_system *system = &point->systems[index];
    const struct point_iteration *measured = system->iterations + scenario->warm_up;
    size_t n = (size_t)scenario->measured;
    double *time_s = check_malloc(n * sizeof *time_s);
    double tokens = 0, delayed = 0, at_peak_s = 0, total_s = 0, gpus = summary->gpus;
    double peak_flop_per_s = scenario->device.peak_flop_per_s[PRECISION_BF16];
    for (size_t i = 0; i < n; i++) {
        const struct trace_iteration *row = &measured[i].row;
        time_s[i] = row->time_s;
        total_s += row->time_s;
        tokens += (double)row->tokens;
        delayed += (double)row->delayed_tokens;
        at_peak_s += (row->hardware_flop - row->fp8_flop) / peak_flop_per_s;
        at_peak_s += row->fp8_flop > 0 ? row->fp8_flop / scenario->device.peak_flop_per_s[scenario->precision] : 0;
    }
    summary->time_mean_s = gsl_stats_mean(time_s, 1, n);
    gsl_sort(time_s, 1, n);
    summary->time_p5_s = gsl_stats_quantile_from_sorted_data(time_s, 1, n, 0.05);
    summary->time_p95_s = gsl_stats_quantile_from_sorted_data(time_s, 1, n, 0.95);
    summary->tokens_per_s_per_gpu = tokens / total_s / gpus;
    summary->tokens_per_s_per_gpu_interval = interval_of_tokens(measured, (int32_t)n) / gpus;
    summary->tokens_per_s_per_gpu_flash2 = system->flash2 * summary->tokens_per_s_per_gpu;
    summary->tokens_per_s = summary->tokens_per_s_per_gpu * gpus;
    summary->token_delay = delayed / tokens;
    summary->mfu = mfu_of(scenario, system);
    summary->hfu = at_peak_s / (total_s * gpus);
    summary->model_flop_per_s = summary->mfu * gpus * peak_flop_per_s;
    add_operation(scenario, tokens, total_s, summary);
    free(time_s);
}

struct trace_summary point_summary_of(const struct scenario *scenario, const struct point *point, int32_t index)
{
    const struct point_system *system = &point->systems[index];
    const struct scenario_plan *plan = &system->entry->plan;
    struct trace_summary summary = {
        .system = index,
        .gpus = platform_n_gpus(&scenario->platform),
        .tp = (int32_t)plan->tp,
        .pp = (int32_t)plan->pp,
        .cp = (int32_t)plan->cp,
        .ep = (int32_t)plan->ep,
        .dp = (int32_t)system->dp,
        .vpp = (int32_t)plan->vpp,
        .schedule = plan->schedule,
        .sequence_parallel = plan->sequence_parallel,
        .sharding = plan->sharding,
        .gradients = plan->gradients,
        .gradient_buffers = plan->gradient_buffers,
        .recompute = plan->recompute,
        .recompute_layers = (int32_t)plan->recompute_layers,
        .offload = plan->offload,
        .fits = system->fits,
        .tight_bytes = request_sure_bytes(scenario),
        .measured_iterations = (int32_t)scenario->measured,
        .memory_bytes = point->memory_bytes,
        .host_memory_bytes = scenario->platform.host_memory_bytes,
    };
    add_iterations(system->iterations + scenario->warm_up, (int32_t)scenario->measured, &summary);
    struct evaluation worst = {.peak_bytes = summary.peak_bytes, .host_bytes = summary.host_peak_bytes};
    struct evaluation_limits limits = evaluation_limits_of(point->memory_bytes, &scenario->platform);
    summary.exceeded_limit = evaluation_exceeds(&worst, &limits);
    summary.tight = summary.fits && summary.peak_bytes > summary.tight_bytes;
    struct scenario_plan replicas = *plan;
    replicas.dp = system->dp;
    plan_text_name(&replicas, summary.host_peak_bytes > 0, summary.plan_text);
    add_rates(scenario, point, index, &summary);
    compare_with_first(scenario, point, index, &summary);
    return summary;
}

char *summary_lack_text(const struct trace_summary *summary)
{
    char needed[TEXT_NUMBER_SIZE], has[TEXT_NUMBER_SIZE], *text = NULL;
    size_t n_bytes;
    FILE *file = check_memstream(&text, &n_bytes);
    bool gpu = summary->exceeded_limit == EXCEEDED_GPU_MEMORY,
         host = summary->host_peak_bytes > summary->host_memory_bytes;
    text_number(summary->peak_bytes / TEXT_GIB, 1, needed);
    text_number(summary->memory_bytes / TEXT_GIB, 1, has);
    if (gpu)
        fprintf(file, "stage %d needs %s of %s GiB, mostly %s%s", summary->peak_stage, needed, has,
                summary->peak_class == MEMORY_STATES ? "weights, gradients and optimizer"
                                                     : memory_class_name[summary->peak_class],
                host ? "; " : "");
    text_number(summary->host_peak_bytes / TEXT_GIB, 0, needed);
    text_number(summary->host_memory_bytes / TEXT_GIB, 0, has);
    if (host)
        fprintf(file, "node %d needs %s of %s GiB of host memory, mostly of stage %d", summary->host_node, needed, has,
                summary->host_stage);
    CHECK(fclose(file) == 0);
    return text;
}
