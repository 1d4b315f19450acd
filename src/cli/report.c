/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text_table.h"
#include "cli/verdict.h"
#include "simulate/assumptions.h"
#include "simulate/plan_text.h"
#include "simulate/record_rows.h"
#include "trace/json.h"

enum { TEXT_SIZE = 768 };
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

/** Return whether a metric is left out because its engine did not run. */
static bool metric_absent(const struct scenario *scenario, int metric)
{
    return metric == METRIC_simgrid_mean_s && scenario->engine == SCENARIO_CRITICAL_PATH;
}

enum spread { SPREAD_FLOP, SPREAD_TIME, N_SPREADS };

/** These are means over the measured iterations, and the largest gap that branch and bound left. */
struct iterations {
    double spread[N_SPREADS][N_PASSES];  /* of iterations that have one (units_spread); NaN: none has */
    double units, merged_samples, nodes; /* units of a pipeline, nodes of branch and bound */
    double largest_gap;
};

static double mean_spread(const struct scenario *scenario, const struct point_system *system, enum spread kind,
                          enum pass pass)
{
    double sum = 0, n = 0;
    for (int32_t i = (int32_t)scenario->warm_up; i < system->n_iterations; i++) {
        const struct units_spread *spread = &system->iterations[i].spread[pass];
        double value = kind == SPREAD_FLOP ? spread->flop : spread->time;
        sum += isnan(value) ? 0 : value;
        n += !isnan(value);
    }
    return n > 0 ? sum / n : NAN;
}

static struct iterations iterations_of(const struct scenario *scenario, const struct point_system *system)
{
    struct iterations all = {0};
    double n = (double)scenario->measured;
    for (int32_t i = 0; i < N_SPREADS * N_PASSES; i++)
        all.spread[i / N_PASSES][i % N_PASSES] =
            mean_spread(scenario, system, (enum spread)(i / N_PASSES), (enum pass)(i % N_PASSES));
    for (int32_t i = (int32_t)scenario->warm_up; i < system->n_iterations; i++) {
        const struct point_iteration *of = &system->iterations[i];
        all.units += (double)of->forward_units / (double)system->dp;
        all.merged_samples += of->merged_samples;
        all.nodes += (double)of->nodes;
        all.largest_gap = fmax(all.largest_gap, of->gap);
    }
    all.units /= n;
    all.merged_samples /= n;
    all.nodes /= n;
    return all;
}

/** Return whether a system has branch and bound. */
static bool searches(const struct iterations *iterations)
{
    return iterations->nodes > 0 || iterations->largest_gap > 0;
}

/** A report needs these data. Summaries, iterations and metrics are [n_systems]. */
struct report {
    const struct scenario *scenario;
    const struct point *point;
    struct point_summary *summaries;
    struct iterations *iterations;
    struct metric (*metrics)[N_METRICS];
};

static struct report report_of(const struct scenario *scenario, const struct point *point)
{
    struct report report = {.scenario = scenario, .point = point, .summaries = point_summaries_of(scenario, point)};
    report.iterations = check_calloc((size_t)point->n_systems, sizeof *report.iterations);
    report.metrics = check_calloc((size_t)point->n_systems, sizeof *report.metrics);
    for (int32_t i = 0; i < point->n_systems; i++) {
        report.iterations[i] = iterations_of(scenario, &point->systems[i]);
        fill_metrics(&report.summaries[i], report.metrics[i]);
    }
    return report;
}

static void report_free(struct report *report)
{
    free(report->metrics);
    free(report->iterations);
    free(report->summaries);
}

/** Write the text of a system in a row of the table. */
typedef void cell(const struct report *report, int32_t system, char text[TEXT_SIZE]);

/** Write a number, or "-" if there is none. */
static void number_text(const char *format, double value, char text[TEXT_SIZE])
{
    if (isnan(value))
        snprintf(text, TEXT_SIZE, "-");
    else
        snprintf(text, TEXT_SIZE, format, value);
}

static void plan_text(const struct report *report, int32_t system, char text[TEXT_SIZE])
{
    struct scenario_plan plan = report->point->systems[system].entry->plan;
    char degrees[PLAN_TEXT_NAME_SIZE];
    plan.dp = report->point->systems[system].dp;
    plan.vpp = 1; /* it has a row of its own */
    plan_text_degrees(&plan, degrees);
    snprintf(text, TEXT_SIZE, "%s", degrees);
}

static void sharding_text(const struct report *report, int32_t system, char text[TEXT_SIZE])
{
    const struct scenario_plan *plan = &report->point->systems[system].entry->plan;
    snprintf(text, TEXT_SIZE, "%s, %s", trace_sharding_names.text[plan->sharding],
             trace_gradients_names.text[plan->gradients]);
}

static void recompute_text(const struct report *report, int32_t system, char text[TEXT_SIZE])
{
    const struct scenario_plan *plan = &report->point->systems[system].entry->plan;
    bool as_planned = plan_text_recompute_of(&report->point->systems[system]).as_planned;
    int n = snprintf(text, TEXT_SIZE, "%s", as_planned ? scenario_recompute_name[plan->recompute] : "by unit");
    if (plan->recompute_layers > 0)
        n += snprintf(text + n, TEXT_SIZE - (size_t)n, ", %d layers", (int)plan->recompute_layers);
    if (plan->early_stop)
        snprintf(text + n, TEXT_SIZE - (size_t)n, ", early stop");
}

static void sequence_text(const struct report *report, int32_t system, char text[TEXT_SIZE])
{
    snprintf(text, TEXT_SIZE, "%s", report->point->systems[system].entry->plan.sequence_parallel ? "on" : "off");
}

static void chunks_text(const struct report *report, int32_t system, char text[TEXT_SIZE])
{
    snprintf(text, TEXT_SIZE, "%d", (int)report->point->systems[system].entry->plan.vpp);
}

static void offload_text(const struct report *report, int32_t system, char text[TEXT_SIZE])
{
    snprintf(text, TEXT_SIZE, "%g", 100 * report->point->systems[system].entry->plan.offload);
}

/** Write the contention: how much longer SimGrid takes than the critical path. */
static void contention_text(const struct report *report, int32_t system, char text[TEXT_SIZE])
{
    const struct point_summary *summary = &report->summaries[system];
    double more = 100 * (summary->simgrid_mean_s / summary->critical_path_mean_s - 1);
    /* rounded, since sums would otherwise give -0.000 */
    snprintf(text, TEXT_SIZE, "%.3f", round(more * 1e3) / 1e3 + 0.0);
}

static void units_text(const struct report *report, int32_t system, char text[TEXT_SIZE])
{
    snprintf(text, TEXT_SIZE, "%.1f", report->iterations[system].units);
}

static void merged_text(const struct report *report, int32_t system, char text[TEXT_SIZE])
{
    snprintf(text, TEXT_SIZE, "%.2f", report->iterations[system].merged_samples);
}

static void delay_text(const struct report *report, int32_t system, char text[TEXT_SIZE])
{
    snprintf(text, TEXT_SIZE, "%.3f", report->summaries[system].token_delay);
}

static void gap_text(const struct report *report, int32_t system, char text[TEXT_SIZE])
{
    const struct iterations *iterations = &report->iterations[system];
    if (searches(iterations))
        snprintf(text, TEXT_SIZE, "%.2f", 100 * iterations->largest_gap);
    else
        snprintf(text, TEXT_SIZE, "-");
}

static void fits_text(const struct report *report, int32_t system, char text[TEXT_SIZE])
{
    snprintf(text, TEXT_SIZE, "%s", report->point->systems[system].fits ? "yes" : "no");
}

/**
 * Write the speed-up in model FLOPs a second, not in tokens. If samples wait for later iterations, systems train
 * different tokens in the measured ones.
 */
static void speed_up_text(const struct report *report, int32_t system, char text[TEXT_SIZE])
{
    const struct point_summary *summary = &report->summaries[system];
    snprintf(text, TEXT_SIZE, summary->over_misfit ? "(%.3fx)" : "%.3fx", summary->speed_up);
}

static void speed_up_interval_text(const struct report *report, int32_t system, char text[TEXT_SIZE])
{
    number_text("%.3f", report->summaries[system].speed_up_interval, text);
}

static void add_row(const struct report *report, struct text_table *table, const char *label, cell *text_of)
{
    char text[TEXT_SIZE];
    text_table_cell(table, "%s", label);
    for (int32_t i = 0; i < report->point->n_systems; i++) {
        text_of(report, i, text);
        text_table_cell(table, "%s", text);
    }
}

static void print_header(const struct report *report)
{
    const struct scenario *scenario = report->scenario;
    char line[ASSUMPTIONS_SIZE], batch[SCENARIO_BATCH_BYTES];
    scenario_batch_text(&scenario->data, batch);
    printf("%s: %s on %s (%d x %s), %s lengths, context %lld tokens, %s an iteration\n", scenario->name,
           scenario->model.name, scenario->platform.name, platform_n_gpus(&scenario->platform), scenario->device.name,
           scenario->data.lengths, (long long)scenario->data.context, batch);
    printf("%lld measured iteration%s after %lld of warm-up, seed %lld\n", (long long)scenario->measured,
           scenario->measured > 1 ? "s" : "", (long long)scenario->warm_up, (long long)scenario->seed);
    if (assumptions_unlike_nvlink(&scenario->platform, &scenario->device, line))
        printf("%s\n", line);
    if (assumptions_copied_curves(&scenario->device, line))
        printf("%s\n", line);
    putchar('\n');
}

static void add_metrics(const struct report *report, struct text_table *table)
{
    char text[TEXT_SIZE];
    for (int j = 0; j < N_METRICS; j++) {
        if (metric_absent(report->scenario, j))
            continue;
        text_table_cell(table, "%s", report->metrics[0][j].label);
        for (int32_t i = 0; i < report->point->n_systems; i++) {
            const struct metric *metric = &report->metrics[i][j];
            number_text(metric->format, metric->value * metric->scale, text);
            text_table_cell(table, "%s", text);
        }
        if (j == METRIC_simgrid_mean_s)
            add_row(report, table, "  contention [%]", contention_text);
    }
}

static void add_spreads(const struct report *report, struct text_table *table)
{
    static const char *const label[] = {"unit FLOPs, p95/p5, forward", "unit FLOPs, p95/p5, backward",
                                        "unit times, p95/p5, forward", "unit times, p95/p5, backward"};
    char text[TEXT_SIZE];
    for (int row = 0; row < N_SPREADS * N_PASSES; row++) {
        text_table_cell(table, "%s", label[row]);
        for (int32_t i = 0; i < report->point->n_systems; i++) {
            number_text("%.3f", report->iterations[i].spread[row / N_PASSES][row % N_PASSES], text);
            text_table_cell(table, "%s", text);
        }
    }
}

/** Return whether samples wait in some system. */
static bool any_delay(const struct report *report)
{
    bool any = false;
    for (int32_t i = 0; i < report->point->n_systems; i++)
        any = any || report->summaries[i].token_delay > 0;
    return any;
}

/** Return whether some system has branch and bound. */
static bool any_search(const struct report *report)
{
    bool any = false;
    for (int32_t i = 0; i < report->point->n_systems; i++)
        any = any || searches(&report->iterations[i]);
    return any;
}

/** Print a line if there are several stages. */
static void print_stages(const char *label, const struct stage_peaks *stages)
{
    if (stages->n < 2)
        return;
    printf("%s, peak memory of a GPU by stage [GiB]:", label);
    for (int32_t i = 0; i < stages->n; i++)
        printf(" %.2f", stages->at[i].peak_bytes / gib);
    putchar('\n');
}

/** Print which memory does not suffice and by how much. */
static void print_misfit(const struct scenario *scenario, const char *label, const struct point_summary *summary)
{
    if (summary->misfit == EXCEEDED_GPU_MEMORY)
        printf("%s does not fit: stage %d needs %.2f GiB (most of it %s), a GPU has %.2f GiB\n", label,
               summary->peak_stage, summary->peak_bytes / gib, memory_class_name[summary->peak_class],
               request_memory_bytes(scenario) / gib);
    if (summary->host.bytes > scenario->platform.host_memory_bytes)
        printf("%s does not fit: node %d needs %.2f GiB of host memory (offloaded activations, most of them of stage "
               "%d), a node has %.2f GiB\n",
               label, summary->host.node, summary->host.bytes / gib, summary->host.stage,
               scenario->platform.host_memory_bytes / gib);
}

static json_t *json_of_misfit(const struct scenario *scenario, const struct point_summary *summary)
{
    if (summary->misfit == EXCEEDED_NONE)
        return json_null();
    bool host = summary->misfit == EXCEEDED_HOST_MEMORY;
    return json_pack("{s:s, s:i, s:s, s:f, s:f}", "memory", trace_misfit_names.text[summary->misfit], "stage",
                     host ? summary->host.stage : summary->peak_stage, "class",
                     memory_class_name[host ? MEMORY_ACTIVATIONS : summary->peak_class], "needed_bytes",
                     host ? summary->host.bytes : summary->peak_bytes, "available_bytes",
                     host ? scenario->platform.host_memory_bytes : request_memory_bytes(scenario));
}

/** Print the table: a column for each system. */
static void print_table(const struct report *report)
{
    struct text_table table = {0};
    text_table_column(&table, "", "<30");
    for (int32_t i = 0; i < report->point->n_systems; i++)
        text_table_column(&table, report->point->systems[i].entry->label, ">16");
    add_row(report, &table, "plan", plan_text);
    add_row(report, &table, "virtual stages of a rank", chunks_text);
    add_row(report, &table, "sharding, gradients", sharding_text);
    add_row(report, &table, "sequence parallelism", sequence_text);
    add_row(report, &table, "recompute", recompute_text);
    add_row(report, &table, "offload to the host, plan [%]", offload_text);
    add_metrics(report, &table);
    add_spreads(report, &table);
    add_row(report, &table, "units of a pipeline, mean", units_text);
    add_row(report, &table, "DP-merged samples, mean", merged_text);
    if (any_delay(report))
        add_row(report, &table, "delay of a token [iterations]", delay_text);
    if (any_search(report))
        add_row(report, &table, "gap of branch and bound [%]", gap_text);
    add_row(report, &table, "fits", fits_text);
    add_row(report, &table, "speed-up", speed_up_text);
    add_row(report, &table, "  95% interval, +/-", speed_up_interval_text);
    text_table_print(&table, stdout, 0);
}

void report_print(const struct scenario *scenario, const struct point *point, const struct plan_search *search)
{
    struct report report = report_of(scenario, point);
    print_header(&report);
    print_table(&report);
    putchar('\n');
    if (report.summaries[0].over_misfit)
        printf("speed-ups are in brackets: the first system, %s, does not fit, so they are no gains\n",
               point->systems[0].entry->label);
    for (int32_t i = 0; i < point->n_systems; i++)
        print_stages(point->systems[i].entry->label, &point->systems[i].stages);
    for (int32_t i = 0; i < point->n_systems; i++)
        print_misfit(scenario, point->systems[i].entry->label, &report.summaries[i]);
    plan_search_print(scenario, search);
    puts("assumed:");
    int32_t n;
    char(*lines)[ASSUMPTIONS_SIZE] = assumptions_lines(scenario, point, &n);
    for (int32_t i = 0; i < n; i++)
        printf("- %s\n", lines[i]);
    free(lines);
    report_free(&report);
}

static json_t *json_of_layout(const struct scenario *scenario, const struct point_system *system)
{
    const struct scenario_plan *plan = &system->entry->plan;
    json_t *layers = json_array();
    for (int32_t i = 0; i < plan->pp * plan->vpp; i++)
        json_array_append_new(layers, json_integer(scenario_stage_layers(&plan->stages, scenario->model.layers,
                                                                         (int32_t)plan->pp, (int32_t)plan->vpp, i)));
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:b, s:s, s:s, s:s, s:s, s:I, s:f, s:o, s:s, s:i}", "tp",
                     (json_int_t)plan->tp, "pp", (json_int_t)plan->pp, "cp", (json_int_t)plan->cp, "dp",
                     (json_int_t)system->dp, "vpp", (json_int_t)plan->vpp, "sequence_parallel", plan->sequence_parallel,
                     "sharding", trace_sharding_names.text[plan->sharding], "gradients",
                     trace_gradients_names.text[plan->gradients], "gradient_buffers",
                     trace_gradient_buffers_names.text[plan->gradient_buffers], "recompute",
                     scenario_recompute_name[plan->recompute], "recompute_layers", (json_int_t)plan->recompute_layers,
                     "offload", plan->offload, "layers_of_virtual_stages", layers, "schedule",
                     trace_schedule_names.text[plan->schedule], "shards", scenario_plan_shards(plan));
}

static json_t *json_of_classes(const double *bytes)
{
    json_t *classes = json_object();
    for (int i = 0; i < MEMORY_N_CLASSES; i++)
        json_object_set_new(classes, memory_class_name[i], json_real(bytes[i]));
    return classes;
}

static json_t *json_of_stages(const struct stage_peaks *stages)
{
    json_t *rows = json_array();
    for (int32_t i = 0; i < stages->n; i++)
        json_array_append_new(rows, json_pack("{s:i, s:f, s:o}", "stage", i, "peak_bytes", stages->at[i].peak_bytes,
                                              "peak_bytes_by_class", json_of_classes(stages->at[i].at_peak)));
    return rows;
}

static json_t *json_of_recompute(const struct point_system *system)
{
    struct plan_text_recompute recompute = plan_text_recompute_of(system);
    return json_pack("{s:f, s:f, s:f}", "none", recompute.none, "listed", recompute.listed, "full", recompute.full);
}

static json_t *json_of_system(const struct report *report, int32_t number)
{
    const struct point_system *system = &report->point->systems[number];
    const struct point_summary *summary = &report->summaries[number];
    const struct iterations *iterations = &report->iterations[number];
    const struct trace_summary results = record_summary(report->scenario, report->point, number, summary);
    json_t *row = json_pack("{s:s}", "label", system->entry->label);
    json_t *columns = json_of_row(TRACE_SUMMARY, &results, NULL, NULL);
    json_object_update(row, columns);
    json_decref(columns);
    json_object_set_new(row, "system", json_string(system->system->name));
    json_object_set_new(row, "plan", json_of_layout(report->scenario, system));
    for (int j = 0; j < N_METRICS; j++)
        if (json_object_get(row, report->metrics[number][j].key) == NULL)
            json_object_set_new(row, report->metrics[number][j].key, json_of_number(report->metrics[number][j].value));
    json_object_set_new(row, "peak_bytes_by_class", json_of_classes(summary->at_peak));
    json_object_set_new(row, "stages", json_of_stages(&system->stages));
    json_object_set_new(row, "exceeded_limit", json_of_misfit(report->scenario, summary));
    json_object_set_new(row, "forward_unit_flop_spread", json_of_number(iterations->spread[SPREAD_FLOP][PASS_FORWARD]));
    json_object_set_new(row, "backward_unit_flop_spread",
                        json_of_number(iterations->spread[SPREAD_FLOP][PASS_BACKWARD]));
    json_object_set_new(row, "forward_unit_time_spread", json_of_number(iterations->spread[SPREAD_TIME][PASS_FORWARD]));
    json_object_set_new(row, "backward_unit_time_spread",
                        json_of_number(iterations->spread[SPREAD_TIME][PASS_BACKWARD]));
    json_object_set_new(row, "units_of_a_pipeline_mean", json_real(iterations->units));
    json_object_set_new(row, "recompute_of_units", json_of_recompute(system));
    json_object_set_new(row, "merged_samples_mean", json_real(iterations->merged_samples));
    json_object_set_new(row, "search_nodes_mean", json_real(iterations->nodes));
    json_object_set_new(row, "search_gap_max", json_real(iterations->largest_gap));
    return row;
}

json_t *report_json(const struct scenario *scenario, const struct point *point, const struct plan_search *search,
                    const struct validated_range *range)
{
    char copied[ASSUMPTIONS_SIZE];
    struct report report = report_of(scenario, point);
    json_t *systems = json_array(), *assumed = json_array();
    for (int32_t i = 0; i < point->n_systems; i++) {
        json_t *row = json_of_system(&report, i), *searched = plan_search_json(scenario, search, i);
        if (searched != NULL)
            json_object_set_new(row, "plan_search", searched);
        json_array_append_new(systems, row);
    }
    int32_t n;
    char(*lines)[ASSUMPTIONS_SIZE] = assumptions_lines(scenario, point, &n);
    for (int32_t i = 0; i < n; i++)
        json_array_append_new(assumed, json_string(lines[i]));
    bool copies = assumptions_copied_curves(&scenario->device, copied);
    json_t *object =
        json_pack("{s:s, s:s, s:s, s:s, s:s?, s:i, s:f, s:o, s:o, s:o}", "model", scenario->model.name, "device",
                  scenario->device.name, "platform", scenario->platform.name, "framework", scenario->framework_name,
                  "copied_curves", copies ? copied : NULL, "gpus", platform_n_gpus(&scenario->platform), "memory_bytes",
                  point->memory_bytes, "systems", systems, "assumed", assumed, "outside_measured_runs",
                  verdict_json_of_outside(range, scenario, point));
    free(lines);
    report_free(&report);
    return object;
}
