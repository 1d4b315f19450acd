/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/report.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "sweep/assumed.h"
#include "sweep/plan_text.h"
#include "trace/table.h"

enum { LABEL_WIDTH = 32, COLUMN_WIDTH = 18, TEXT_SIZE = 768 };
static const double gib = 1 << 30;

struct metric {
    const char *key, *label, *format;
    double scale, value; /* value in SI units */
};

enum {
#define METRIC(key, label, format, scale, value) METRIC_##key,
#include "cli/metrics.def"
#undef METRIC
    N_METRICS
};

static void fill_metrics(const struct point_summary *summary, struct metric *metrics)
{
    const struct metric all[] = {
#define METRIC(key, label, format, scale, value) {#key, label, format, scale, value},
#include "cli/metrics.def"
#undef METRIC
    };
    memcpy(metrics, all, sizeof all);
}

/** A number without engine behind it (SimGrid when only the critical path ran) is left out. */
static bool metric_absent(const struct scenario *scenario, int metric)
{
    return metric == METRIC_simgrid_mean_s && scenario->engine == SCENARIO_CRITICAL_PATH;
}

static const char *const sharding_name[] = {"zero1", "zero2", "zero3", "none"};
static const char *const gradients_name[] = {"fp32", "bf16"};

/** Mean over the measured iterations of how the units of a pipeline spread. */
static struct units_spread mean_spread(const struct point_system *system, enum pass pass)
{
    struct units_spread sum = {0};
    int32_t n = 0;
    for (int32_t i = 0; i < system->n_iterations; i++)
        if (system->iterations[i].measured) {
            sum.flop += system->iterations[i].spread[pass].flop;
            sum.time += system->iterations[i].spread[pass].time;
            n++;
        }
    return (struct units_spread){.flop = sum.flop / n, .time = sum.time / n};
}

/** Mean over the measured iterations of one count. */
static double mean_units(const struct point_system *system)
{
    double sum = 0;
    int32_t n = 0;
    for (int32_t i = 0; i < system->n_iterations; i++)
        if (system->iterations[i].measured) {
            sum += (double)system->iterations[i].forward_units / (double)system->dp;
            n++;
        }
    return sum / n;
}

static double mean_merged(const struct point_system *system)
{
    double sum = 0;
    int32_t n = 0;
    for (int32_t i = 0; i < system->n_iterations; i++)
        if (system->iterations[i].measured) {
            sum += system->iterations[i].merged_samples;
            n++;
        }
    return sum / n;
}

static void plan_text(const struct point_system *system, char text[TEXT_SIZE])
{
    const struct scenario_plan *plan = &system->entry->plan;
    snprintf(text, TEXT_SIZE, "TP%d PP%d CP%d DP%d", (int)plan->tp, (int)plan->pp, (int)plan->cp, (int)system->dp);
}

static void sharding_text(const struct point_system *system, char text[TEXT_SIZE])
{
    const struct scenario_plan *plan = &system->entry->plan;
    snprintf(text, TEXT_SIZE, "%s, %s", sharding_name[plan->sharding], gradients_name[plan->gradients]);
}

static void recompute_text(const struct point_system *system, char text[TEXT_SIZE])
{
    const struct scenario_plan *plan = &system->entry->plan;
    bool as_planned = plan_text_recompute_of(system).as_planned;
    int n = snprintf(text, TEXT_SIZE, "%s", as_planned ? scenario_recompute_name[plan->recompute] : "by unit");
    if (plan->recompute_layers > 0)
        n += snprintf(text + n, TEXT_SIZE - (size_t)n, ", %d layers", (int)plan->recompute_layers);
    if (plan->early_stop)
        snprintf(text + n, TEXT_SIZE - (size_t)n, ", early stop");
}

static void sequence_text(const struct point_system *system, char text[TEXT_SIZE])
{
    snprintf(text, TEXT_SIZE, "%s", system->entry->plan.sequence_parallel ? "on" : "off");
}

static void chunks_text(const struct point_system *system, char text[TEXT_SIZE])
{
    snprintf(text, TEXT_SIZE, "%d", (int)system->entry->plan.vpp);
}

static void offload_text(const struct point_system *system, char text[TEXT_SIZE])
{
    snprintf(text, TEXT_SIZE, "%g", 100 * system->entry->plan.offload);
}

static void print_cell(const char *text)
{
    printf(" %*s", COLUMN_WIDTH - 1, text);
}

/** One cell a system. */
static void print_row(const char *label, const struct point *point,
                      void (*cell)(const struct point_system *system, char text[TEXT_SIZE]))
{
    char text[TEXT_SIZE];
    printf("%-*s", LABEL_WIDTH, label);
    for (int32_t i = 0; i < point->n_systems; i++) {
        cell(&point->systems[i], text);
        print_cell(text);
    }
    putchar('\n');
}

static void print_header(const struct scenario *scenario, const struct point *point)
{
    printf("%s: %s on %s (%d x %s), %s lengths, context %lld tokens, %lld documents an iteration\n", scenario->name,
           scenario->model.name, scenario->platform.name, platform_n_gpus(&scenario->platform), scenario->device.name,
           scenario->data.lengths, (long long)scenario->data.context, (long long)scenario->data.global_batch);
    printf("%lld measured iteration%s after %lld of warm-up, seed %lld\n\n%-*s", (long long)scenario->measured,
           scenario->measured > 1 ? "s" : "", (long long)scenario->warm_up, (long long)scenario->seed, LABEL_WIDTH, "");
    for (int32_t i = 0; i < point->n_systems; i++)
        print_cell(point->systems[i].entry->label);
    putchar('\n');
    print_row("plan", point, plan_text);
    print_row("virtual stages of a rank", point, chunks_text);
    print_row("sharding, gradients", point, sharding_text);
    print_row("sequence parallelism", point, sequence_text);
    print_row("recompute", point, recompute_text);
    print_row("offload to the host, plan [%]", point, offload_text);
}

static void print_metrics(const struct scenario *scenario, const struct point *point,
                          struct metric (*metrics)[N_METRICS])
{
    char text[TEXT_SIZE];
    for (int j = 0; j < N_METRICS; j++) {
        if (metric_absent(scenario, j))
            continue;
        printf("%-*s", LABEL_WIDTH, metrics[0][j].label);
        for (int32_t i = 0; i < point->n_systems; i++) {
            snprintf(text, sizeof text, metrics[i][j].format, metrics[i][j].value * metrics[i][j].scale);
            print_cell(text);
        }
        putchar('\n');
    }
}

/** Contention: how much longer SimGrid takes than the critical path. */
static void print_contention(const struct point *point, struct metric (*metrics)[N_METRICS])
{
    char text[TEXT_SIZE];
    printf("%-*s", LABEL_WIDTH, "  contention [%]");
    for (int32_t i = 0; i < point->n_systems; i++) {
        double path_s = metrics[i][METRIC_critical_path_mean_s].value;
        double more = 100 * (metrics[i][METRIC_simgrid_mean_s].value / path_s - 1);
        snprintf(text, sizeof text, "%.3f", round(more * 1e3) / 1e3 + 0.0); /* sums are rounded: no -0.000 */
        print_cell(text);
    }
    putchar('\n');
}

/** Only where some system lets samples wait. */
static void print_delay(const struct point *point, const struct point_summary *summaries)
{
    char text[TEXT_SIZE];
    bool any = false;
    for (int32_t i = 0; i < point->n_systems; i++)
        any = any || summaries[i].token_delay > 0;
    if (!any)
        return;
    printf("%-*s", LABEL_WIDTH, "delay of a token [iterations]");
    for (int32_t i = 0; i < point->n_systems; i++) {
        snprintf(text, sizeof text, "%.3f", summaries[i].token_delay);
        print_cell(text);
    }
    putchar('\n');
}

static void print_units(const struct point *point)
{
    char text[TEXT_SIZE];
    for (int row = 0; row < 2 * N_PASSES; row++) {
        static const char *const label[] = {"unit FLOPs, p95/p5, forward", "unit FLOPs, p95/p5, backward",
                                            "unit times, p95/p5, forward", "unit times, p95/p5, backward"};
        printf("%-*s", LABEL_WIDTH, label[row]);
        for (int32_t i = 0; i < point->n_systems; i++) {
            struct units_spread spread = mean_spread(&point->systems[i], (enum pass)(row % N_PASSES));
            snprintf(text, sizeof text, "%.3f", row < N_PASSES ? spread.flop : spread.time);
            print_cell(text);
        }
        putchar('\n');
    }
    printf("%-*s", LABEL_WIDTH, "units of a pipeline, mean");
    for (int32_t i = 0; i < point->n_systems; i++) {
        snprintf(text, sizeof text, "%.1f", mean_units(&point->systems[i]));
        print_cell(text);
    }
    printf("\n%-*s", LABEL_WIDTH, "DP-merged samples, mean");
    for (int32_t i = 0; i < point->n_systems; i++) {
        snprintf(text, sizeof text, "%.2f", mean_merged(&point->systems[i]));
        print_cell(text);
    }
    putchar('\n');
}

/** Where it does not fit, why, and by how much. */
static void print_misfit(const struct scenario *scenario, const char *label, const struct point_summary *summary)
{
    if (summary->misfit == SYSTEM_GPU_MEMORY)
        printf("%s does not fit: stage %d needs %.2f GiB (most of it %s), a GPU has %.2f GiB\n", label,
               summary->peak_stage, summary->peak_bytes / gib, memory_class_name[summary->peak_class],
               system_memory_bytes(&scenario->device) / gib);
    if (summary->misfit == SYSTEM_HOST_MEMORY)
        printf("%s does not fit: node %d needs %.2f GiB of host memory (offloaded activations, most of them of stage "
               "%d), a node has %.2f GiB\n",
               label, summary->host.node, summary->host.bytes / gib, summary->host.stage,
               scenario->platform.host_memory_bytes / gib);
}

static json_t *json_of_misfit(const struct scenario *scenario, const struct point_summary *summary)
{
    if (summary->misfit == SYSTEM_FITS)
        return json_null();
    bool host = summary->misfit == SYSTEM_HOST_MEMORY;
    return json_pack("{s:s, s:i, s:s, s:f, s:f}", "memory", trace_misfit_names.text[summary->misfit], "stage",
                     host ? summary->host.stage : summary->peak_stage, "class",
                     memory_class_name[host ? MEMORY_ACTIVATIONS : summary->peak_class], "needed_bytes",
                     host ? summary->host.bytes : summary->peak_bytes, "available_bytes",
                     host ? scenario->platform.host_memory_bytes : system_memory_bytes(&scenario->device));
}

static void print_verdict(const struct scenario *scenario, const struct point *point,
                          const struct point_summary *summaries)
{
    char text[TEXT_SIZE];
    printf("%-*s", LABEL_WIDTH, "fits");
    for (int32_t i = 0; i < point->n_systems; i++)
        print_cell(point->systems[i].fits ? "yes" : "no");
    printf("\n%-*s", LABEL_WIDTH, "speed-up");
    for (int32_t i = 0; i < point->n_systems; i++) {
        snprintf(text, sizeof text, "%.3fx", summaries[i].tokens_per_s_per_gpu / summaries[0].tokens_per_s_per_gpu);
        print_cell(text);
    }
    puts("\n");
    for (int32_t i = 0; i < point->n_systems; i++)
        print_misfit(scenario, point->systems[i].entry->label, &summaries[i]);
}

static void collect(const struct scenario *scenario, const struct point *point, struct point_summary *summaries,
                    struct metric (*metrics)[N_METRICS])
{
    for (int32_t i = 0; i < point->n_systems; i++) {
        summaries[i] = point_summary_of(scenario, &point->systems[i]);
        fill_metrics(&summaries[i], metrics[i]);
    }
}

void report_print(const struct scenario *scenario, const struct point *point, const struct plan_search *search)
{
    struct point_summary *summaries = check_calloc((size_t)point->n_systems, sizeof *summaries);
    struct metric(*metrics)[N_METRICS] = check_calloc((size_t)point->n_systems, sizeof *metrics);
    collect(scenario, point, summaries, metrics);
    print_header(scenario, point);
    print_metrics(scenario, point, metrics);
    if (scenario->engine != SCENARIO_CRITICAL_PATH)
        print_contention(point, metrics);
    print_units(point);
    print_delay(point, summaries);
    print_verdict(scenario, point, summaries);
    plan_search_print(scenario, search);
    puts("assumed:");
    int32_t n;
    char(*lines)[ASSUMED_SIZE] = assumed_lines(scenario, point, &n);
    for (int32_t i = 0; i < n; i++)
        printf("- %s\n", lines[i]);
    free(lines);
    free(metrics);
    free(summaries);
}

static json_t *json_of_system(const struct scenario *scenario, const struct point_system *system,
                              const struct point_summary *summary, const struct metric *metrics)
{
    const struct scenario_plan *plan = &system->entry->plan;
    json_t *row = json_pack("{s:s, s:s, s:{s:I, s:I, s:I, s:I, s:I, s:b, s:s, s:s, s:s, s:I, s:f}, s:b}", "system",
                            system->system->name, "label", system->entry->label, "plan", "tp", (json_int_t)plan->tp,
                            "pp", (json_int_t)plan->pp, "cp", (json_int_t)plan->cp, "dp", (json_int_t)system->dp, "vpp",
                            (json_int_t)plan->vpp, "sequence_parallel", plan->sequence_parallel, "sharding",
                            sharding_name[plan->sharding], "gradients", gradients_name[plan->gradients], "recompute",
                            scenario_recompute_name[plan->recompute], "recompute_layers",
                            (json_int_t)plan->recompute_layers, "offload", plan->offload, "fits", system->fits);
    json_t *layout = json_object_get(row, "plan"), *layers = json_array();
    for (int32_t i = 0; i < plan->pp * plan->vpp; i++)
        json_array_append_new(layers, json_integer(scenario_stage_layers(&plan->stages, scenario->model.layers,
                                                                         (int32_t)plan->pp, (int32_t)plan->vpp, i)));
    json_object_set_new(layout, "layers_of_virtual_stages", layers);
    json_object_set_new(layout, "schedule", json_string(trace_schedule_names.text[plan->schedule]));
    json_object_set_new(layout, "shards", json_integer(scenario_plan_shards(plan)));
    for (int j = 0; j < N_METRICS; j++)
        if (!metric_absent(scenario, j))
            json_object_set_new(row, metrics[j].key, json_real(metrics[j].value));
    json_t *classes = json_object();
    for (int i = 0; i < MEMORY_N_CLASSES; i++)
        json_object_set_new(classes, memory_class_name[i], json_real(summary->at_peak[i]));
    json_object_set_new(row, "peak_bytes_by_class", classes);
    json_object_set_new(row, "misfit", json_of_misfit(scenario, summary));
    struct units_spread forward = mean_spread(system, PASS_FORWARD), backward = mean_spread(system, PASS_BACKWARD);
    json_object_set_new(row, "forward_unit_flop_spread", json_real(forward.flop));
    json_object_set_new(row, "backward_unit_flop_spread", json_real(backward.flop));
    json_object_set_new(row, "forward_unit_time_spread", json_real(forward.time));
    json_object_set_new(row, "backward_unit_time_spread", json_real(backward.time));
    json_object_set_new(row, "units_of_a_pipeline_mean", json_real(mean_units(system)));
    json_object_set_new(row, "token_delay", json_real(summary->token_delay));
    json_object_set_new(row, "unit_imbalance", json_real(summary->unit_imbalance));
    struct plan_text_recompute recompute = plan_text_recompute_of(system);
    json_object_set_new(
        row, "recompute_of_units",
        json_pack("{s:f, s:f, s:f}", "none", recompute.none, "listed", recompute.listed, "full", recompute.full));
    json_object_set_new(row, "merged_samples_mean", json_real(mean_merged(system)));
    return row;
}

void report_print_json(const struct scenario *scenario, const struct point *point, const struct plan_search *search)
{
    struct point_summary *summaries = check_calloc((size_t)point->n_systems, sizeof *summaries);
    struct metric(*metrics)[N_METRICS] = check_calloc((size_t)point->n_systems, sizeof *metrics);
    json_t *systems = json_array(), *assumed = json_array();
    collect(scenario, point, summaries, metrics);
    for (int32_t i = 0; i < point->n_systems; i++) {
        json_t *row = json_of_system(scenario, &point->systems[i], &summaries[i], metrics[i]);
        json_object_set_new(row, "speed_up",
                            json_real(summaries[i].tokens_per_s_per_gpu / summaries[0].tokens_per_s_per_gpu));
        json_t *searched = plan_search_json(scenario, search, i);
        if (searched != NULL)
            json_object_set_new(row, "plan_search", searched);
        json_array_append_new(systems, row);
    }
    int32_t n;
    char(*lines)[ASSUMED_SIZE] = assumed_lines(scenario, point, &n);
    for (int32_t i = 0; i < n; i++)
        json_array_append_new(assumed, json_string(lines[i]));
    json_t *root = json_pack("{s:s, s:s, s:s, s:s, s:i, s:f, s:o, s:o}", "name", scenario->name, "model",
                             scenario->model.name, "device", scenario->device.name, "platform", scenario->platform.name,
                             "gpus", platform_n_gpus(&scenario->platform), "memory_bytes", point->memory_bytes,
                             "systems", systems, "assumed", assumed);
    command_print_json(root);
    free(lines);
    free(metrics);
    free(summaries);
}
