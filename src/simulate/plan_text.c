/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "simulate/plan_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "document/schema_text.h"
#include "system/system.h"
#include "trace/table.h"

void plan_text_degrees(const struct scenario_plan *plan, char text[PLAN_TEXT_NAME_SIZE])
{
    const struct {
        const char *name;
        int64_t value;
    } degrees[] = {{"TP", plan->tp}, {"PP", plan->pp},   {"VPP", plan->vpp}, {"CP", plan->cp},
                   {"EP", plan->ep}, {"ETP", plan->etp}, {"DP", plan->dp}};
    enum { N = sizeof degrees / sizeof *degrees };
    int n = 0;
    for (int i = 0; i < N; i++)
        if (degrees[i].value > 1 || i == N - 1)
            n += snprintf(text + n, PLAN_TEXT_NAME_SIZE - (size_t)n, "%s%s%d", n > 0 ? " " : "", degrees[i].name,
                          (int)degrees[i].value);
}

/** Append to a text, and cut off what has no room. */
__attribute__((format(printf, 2, 3))) static void append(char text[PLAN_TEXT_NAME_SIZE], const char *format, ...)
{
    size_t n = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + n, PLAN_TEXT_NAME_SIZE - n, format, arguments);
    va_end(arguments);
}

void plan_text_name(const struct scenario_plan *plan, bool offloads, char text[PLAN_TEXT_NAME_SIZE])
{
    plan_text_degrees(plan, text);
    if (plan->schedule != SCENARIO_ONE_F_ONE_B)
        append(text, " %s", trace_schedule_names.text[plan->schedule]);
    if (plan->sharding != SCENARIO_ZERO1)
        append(text, " %s",
               plan->sharding == SCENARIO_UNSHARDED ? "unsharded" : trace_sharding_names.text[plan->sharding]);
    if (plan->shard_communication == SCENARIO_ON_DEMAND)
        append(text, " on-demand");
    if (plan->recompute != RECOMPUTE_NONE)
        append(text, " %s", scenario_recompute_name[plan->recompute]);
    if (plan->optimizer_offload > 0)
        append(text, " optimizer offload %.0f%%", 100 * plan->optimizer_offload);
    if (plan->offload > 0)
        append(text, " offload %.0f%%", 100 * plan->offload);
    else if (offloads && plan->optimizer_offload <= 0)
        append(text, " offload");
}

/** Print the resolved knobs as "name value, name value". */
static void knobs_text(const struct scenario *scenario, const struct point_system *system, char text[PLAN_TEXT_SIZE])
{
    const struct training_system *training = system->system;
    void *knobs = check_calloc(1, training->knobs_size);
    struct error err = {0};
    CHECK(system_read_knobs(training, scenario, system->entry, knobs, &err)); /* they were read before the run */
    char *yaml = NULL;
    size_t n_bytes, n = 0;
    FILE *file = check_memstream(&yaml, &n_bytes);
    schema_write(file, training->knobs, training->n_knobs, knobs, 0);
    CHECK(fclose(file) == 0);
    for (const char *at = yaml; *at != '\0' && n + 3 < PLAN_TEXT_SIZE; at++)
        if (*at == '\n' && at[1] != '\0') {
            text[n++] = ',';
            text[n++] = ' ';
        } else if (*at != '\n' && *at != ':') {
            text[n++] = *at;
        }
    text[n] = '\0';
    free(yaml);
    free(knobs);
}

/** Print the micro-batches of the measured iterations, as for all results. */
static void micro_batches_line(const struct scenario *scenario, const struct point_system *system,
                               char line[PLAN_TEXT_SIZE])
{
    double tokens = 0, padding = 0, micro_batches = 0, iterations = 0;
    char knobs[PLAN_TEXT_SIZE];
    for (int32_t i = 0; i < system->n_iterations; i++) {
        if (!system->iterations[i].row.measured)
            continue;
        tokens += (double)system->iterations[i].row.tokens;
        padding += (double)system->iterations[i].row.padding_tokens;
        micro_batches += (double)system->iterations[i].row.forward_micro_batches;
        iterations++;
    }
    knobs_text(scenario, system, knobs);
    snprintf(line, PLAN_TEXT_SIZE,
             "%s: %.6g tokens and %.6g of padding a micro-batch, %.6g micro-batches a pipeline, mean; knobs: %.500s",
             system->entry->label, tokens / micro_batches, padding / micro_batches,
             micro_batches / iterations / (double)system->dp, knobs);
}

/** Print the layers of the virtual stages, with equal neighbours together: "20 x 4", or "7, 8 x 14, 7". */
static void layers_text(const struct scenario *scenario, const struct scenario_plan *plan, char text[PLAN_TEXT_SIZE])
{
    int32_t stages = (int32_t)plan->pp, chunks = (int32_t)plan->vpp, alike = 0;
    size_t used = 0;
    text[0] = '\0';
    for (int32_t i = 0; i < stages * chunks; i++) {
        int32_t layers = scenario_stage_layers(&plan->stages, scenario->model.layers, stages, chunks, i);
        bool last = i == stages * chunks - 1;
        alike++;
        if (!last && scenario_stage_layers(&plan->stages, scenario->model.layers, stages, chunks, i + 1) == layers)
            continue;
        if (used < PLAN_TEXT_SIZE)
            used += (size_t)snprintf(text + used, PLAN_TEXT_SIZE - used, "%d x %d%s", layers, alike, last ? "" : ", ");
        alike = 0;
    }
}

static void stages_line(const struct scenario *scenario, const struct point_system *system, char line[PLAN_TEXT_SIZE])
{
    const struct scenario_plan *plan = &system->entry->plan;
    char layers[PLAN_TEXT_SIZE], schedule[PLAN_TEXT_SIZE] = "";
    layers_text(scenario, plan, layers);
    if (plan->schedule != SCENARIO_ONE_F_ONE_B)
        snprintf(schedule, sizeof schedule, "schedule %s, ", trace_schedule_names.text[plan->schedule]);
    snprintf(line, PLAN_TEXT_SIZE, "%s: %.30s%d virtual stage%s a rank (vpp), layers of the virtual stages: %.150s",
             system->entry->label, schedule, (int)plan->vpp, plan->vpp > 1 ? "s" : "", layers);
}

/* Return the most offloaded bytes of a node's host in a measured iteration. */
static double host_bytes(const struct point_system *system)
{
    double bytes = 0;
    for (int32_t i = 0; i < system->n_iterations; i++)
        if (system->iterations[i].row.measured && system->iterations[i].row.host_peak_bytes > bytes)
            bytes = system->iterations[i].row.host_peak_bytes;
    return bytes;
}

struct plan_text_recompute plan_text_recompute_of(const struct point_system *system)
{
    double micro_batches = 0, listed = 0, full = 0;
    for (int32_t i = 0; i < system->n_iterations; i++) {
        if (!system->iterations[i].row.measured)
            continue;
        micro_batches += system->iterations[i].row.forward_micro_batches;
        listed += system->iterations[i].row.listed_micro_batches;
        full += system->iterations[i].row.full_micro_batches;
    }
    double none = micro_batches - listed - full;
    int32_t plan = system->entry->plan.recompute;
    double planned = plan == RECOMPUTE_NONE ? none : plan == RECOMPUTE_FULL ? full : listed;
    CHECK(micro_batches > 0);
    return (struct plan_text_recompute){none / micro_batches, listed / micro_batches, full / micro_batches,
                                        planned == micro_batches};
}

/** Print the recomputation of micro-batches if the system decides it. */
static int recompute_text(const struct point_system *system, char *text, size_t size)
{
    int32_t plan = system->entry->plan.recompute;
    struct plan_text_recompute micro_batches = plan_text_recompute_of(system);
    if (micro_batches.as_planned)
        return snprintf(text, size, "%s", scenario_recompute_name[plan]);
    return snprintf(text, size,
                    "by the system: none in %.3g%% of micro-batches, listed kernels in %.3g%%, full in %.3g%%",
                    100 * micro_batches.none, 100 * micro_batches.listed, 100 * micro_batches.full);
}

/** Return the format of weights. zero3 gathers those of layers in it. */
static const char *weights_text(const struct scenario *scenario, int32_t sharding)
{
    bool only = scenario->fp8_params && (sharding != SCENARIO_ZERO3 || scenario->precision == PRECISION_FP8_TENSOR);
    return scenario->precision == PRECISION_BF16 ? "bf16"
           : only                                ? "of layers in fp8 only"
           : sharding == SCENARIO_ZERO3          ? "bf16"
                                                 : "bf16, of layers in fp8, too";
}

static void states_line(const struct scenario *scenario, const struct point_system *system, char line[PLAN_TEXT_SIZE])
{
    static const char *const shared[] = {"optimizer states (zero1)", "optimizer states and gradients (zero2)",
                                         "optimizer states, gradients and parameters (zero3)", "all states (none)"};
    static const char *const main_params[] = {"fp32 main parameters", "fp16 main parameters", "no main parameters"};
    const struct scenario_plan *plan = &system->entry->plan;
    int n = snprintf(line, PLAN_TEXT_SIZE, "%s: sequence parallelism %s; recompute ", system->entry->label,
                     plan->sequence_parallel ? "on" : "off");
    n += recompute_text(system, line + n, PLAN_TEXT_SIZE - (size_t)n);
    if (plan->recompute_layers > 0)
        n += snprintf(line + n, PLAN_TEXT_SIZE - (size_t)n, " of %d layers a stage", (int)plan->recompute_layers);
    if (plan->early_stop)
        n += snprintf(line + n, PLAN_TEXT_SIZE - (size_t)n, " but the last GEMM of each layer (early_stop)");
    double host = host_bytes(system);
    if (plan->optimizer_offload > 0)
        n += snprintf(line + n, PLAN_TEXT_SIZE - (size_t)n, ", optimizer offload %g%%", 100 * plan->optimizer_offload);
    if (host > 0 && plan->offload <= 0 && plan->optimizer_offload <= 0)
        n += snprintf(line + n, PLAN_TEXT_SIZE - (size_t)n, ", offload by the system");
    else
        n += snprintf(line + n, PLAN_TEXT_SIZE - (size_t)n, ", offload %g%%", 100 * plan->offload);
    if (host > 0)
        n += snprintf(line + n, PLAN_TEXT_SIZE - (size_t)n, " (at most %.0f GiB on a host)", host / (1 << 30));
    bool in_passes = plan->sharding == SCENARIO_ZERO2 || plan->sharding == SCENARIO_ZERO3;
    const char *communication = plan->shard_communication == SCENARIO_ON_DEMAND ? ", exchanged on demand" : "";
    const char *copies = !in_passes ? "" : plan->fsdp == 2 ? ", copies of FSDP2" : ", copies of FSDP1";
    const char *memory = plan->fsdp_ends == SCENARIO_ENDS_OWN            ? ", embedding and head by themselves"
                         : plan->fsdp_prefetch == SCENARIO_BACKWARD_POST ? ", gathered behind the backward before"
                                                                         : "";
    n += snprintf(line + n, PLAN_TEXT_SIZE - (size_t)n,
                  "; %s on %d of %d DP x CP ranks%s%s%s; gradients %s%s, weights %s, Adam %s", shared[plan->sharding],
                  scenario_plan_shards(plan), (int)(plan->dp * plan->cp), communication, copies, memory,
                  plan->gradients == SCENARIO_BF16 ? "bf16" : "fp32",
                  plan->gradient_buffers == SCENARIO_GRADIENTS_FREED ? ", freed by the optimizer" : "",
                  weights_text(scenario, plan->sharding), plan->moments == SCENARIO_BF16 ? "bf16" : "fp32");
    if (plan->main_params != SCENARIO_MAIN_FP32 || plan->moments == SCENARIO_BF16)
        snprintf(line + n, PLAN_TEXT_SIZE - (size_t)n, " with %s", main_params[plan->main_params]);
}

void plan_text_lines(const struct scenario *scenario, const struct point_system *system,
                     char lines[PLAN_TEXT_LINES][PLAN_TEXT_SIZE])
{
    micro_batches_line(scenario, system, lines[0]);
    stages_line(scenario, system, lines[1]);
    states_line(scenario, system, lines[2]);
}
