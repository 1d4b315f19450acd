/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "base/text_table.h"
#include "simulate/assumptions.h"
#include "simulate/plan_text.h"
#include "simulate/standing.h"
#include "trace/json.h"

enum { TEXT_SIZE = 768 };
/**
 * These columns of trace/summary.def are printed with `scale`, some as a share of the GPUs' time (total_s). NaN
 * is "-".
 */
static const struct metric {
    const char *column, *label, *format;
    double scale;
    bool share;
} metrics[] = {
    {"tokens_per_s_per_gpu", "tokens/s/GPU", "%.1f", 1, false},
    {"tokens_per_s_per_gpu_interval", "  95% interval, +/-", "%.1f", 1, false},
    {"time_mean_s", "iteration time, mean [s]", "%.4f", 1, false},
    {"time_p5_s", "  p5 [s]", "%.4f", 1, false},
    {"time_p95_s", "  p95 [s]", "%.4f", 1, false},
    {"mfu", "MFU [%]", "%.2f", 100, false},
    {"hfu", "HFU [%]", "%.2f", 100, false},
    {"bubble_fraction", "bubble [% of GPU time]", "%.2f", 100, false},
    {"warm_up_s", "  warm-up [%]", "%.2f", 100, true},
    {"imbalance_s", "  imbalance [%]", "%.2f", 100, true},
    {"cool_down_s", "  cool-down [%]", "%.2f", 100, true},
    {"dp_wait_s", "  data-parallel waiting [%]", "%.2f", 100, true},
    {"ring_s", "context parallelism, exposed [%]", "%.2f", 100, true},
    {"tensor_s", "tensor collectives, exposed [%]", "%.2f", 100, true},
    {"shard_s", "zero2/3 collectives, exposed [%]", "%.2f", 100, true},
    {"expert_s", "tokens to experts [%]", "%.2f", 100, true},
    {"sync_s", "gradients and parameters [%]", "%.2f", 100, true},
    {"reshard_s", "re-sharding between phases [%]", "%.2f", 100, true},
    {"peak_bytes", "peak memory of a GPU [GiB]", "%.2f", 1 / TEXT_GIB, false},
    {"peak_stage", "  on stage", "%.0f", 1, false},
    {"host_peak_bytes", "host memory of a node [GiB]", "%.2f", 1 / TEXT_GIB, false},
    {"critical_path_mean_s", "critical path, mean [s]", "%.4f", 1, false},
    {"context_bound_mean_s", "  with DCP's bound, mean [s]", "%.4f", 1, false},
    {"simgrid_mean_s", "SimGrid, mean [s]", "%.4f", 1, false},
    {"power_w", "power of all nodes [kW]", "%.1f", 1e-3, false},
    {"energy_j_per_token", "energy of a token [J]", "%.4g", 1, false},
    {"usd_per_1t_tokens", "money of 1T tokens [$]", "%.0f", 1, false},
    {"kg_co2_per_1t_tokens", "CO2 of 1T tokens [t]", "%.1f", 1e-3, false},
};
enum { N_METRICS = sizeof metrics / sizeof *metrics };

/** Means over the measured iterations. The gap of branch and bound is the largest. */
enum mean { FORWARD_FLOP, BACKWARD_FLOP, FORWARD_TIME, BACKWARD_TIME, UNITS, MERGED, NODES, GAP, N_MEANS };
static const struct {
    const char *key, *label, *format; /* key of JSON; label NULL: it is not printed */
} means[N_MEANS] = {
    {"forward_micro_batch_flop_spread", "micro-batch FLOPs, p95/p5, forward", "%.3f"},
    {"backward_micro_batch_flop_spread", "micro-batch FLOPs, p95/p5, backward", "%.3f"},
    {"forward_micro_batch_time_spread", "micro-batch times, p95/p5, forward", "%.3f"},
    {"backward_micro_batch_time_spread", "micro-batch times, p95/p5, backward", "%.3f"},
    {"micro_batches_of_a_pipeline_mean", "micro-batches of a pipeline, mean", "%.1f"},
    {"merged_samples_mean", "DP-merged samples, mean", "%.2f"},
    {"search_nodes_mean", NULL, NULL},
    {"search_gap_max", NULL, NULL},
};

struct iterations {
    double mean[N_MEANS]; /* of the iterations that have a value; NaN: none has */
};

static struct iterations iterations_of(const struct scenario *scenario, const struct point_system *system)
{
    struct iterations all = {0};
    double n[N_MEANS] = {0}, gap = 0;
    for (int32_t i = (int32_t)scenario->warm_up; i < system->n_iterations; i++) {
        const struct point_iteration *of = &system->iterations[i];
        const struct micro_batches_spread *forward = &of->spread[PASS_FORWARD], *backward = &of->spread[PASS_BACKWARD];
        const double value[N_MEANS] = {forward->flop,
                                       backward->flop,
                                       forward->time,
                                       backward->time,
                                       (double)of->row.forward_micro_batches / (double)system->dp,
                                       of->row.merged_samples,
                                       (double)of->row.nodes,
                                       of->row.gap};
        for (int k = 0; k < N_MEANS; k++) {
            all.mean[k] += isnan(value[k]) ? 0 : value[k];
            n[k] += !isnan(value[k]);
        }
        gap = fmax(gap, of->row.gap);
    }
    for (int k = 0; k < N_MEANS; k++)
        all.mean[k] = n[k] > 0 ? all.mean[k] / n[k] : NAN;
    all.mean[GAP] = gap;
    return all;
}

/** Return whether a system has branch and bound. */
static bool searches(const struct iterations *iterations)
{
    return iterations->mean[NODES] > 0 || iterations->mean[GAP] > 0;
}

/** A report needs these data. Summaries and iterations are [n_systems]. */
struct report {
    const struct scenario *scenario;
    const struct point *point;
    struct trace_summary *summaries;
    struct iterations *iterations;
};

static struct report report_of(const struct scenario *scenario, const struct point *point)
{
    struct report report = {.scenario = scenario, .point = point, .summaries = point_summaries_of(scenario, point)};
    report.iterations = check_calloc((size_t)point->n_systems, sizeof *report.iterations);
    for (int32_t i = 0; i < point->n_systems; i++)
        report.iterations[i] = iterations_of(scenario, &point->systems[i]);
    return report;
}

static void report_free(struct report *report)
{
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
    int n = snprintf(text, TEXT_SIZE, "%s", as_planned ? scenario_recompute_name[plan->recompute] : "by micro-batch");
    if (plan->recompute_layers > 0)
        n += snprintf(text + n, TEXT_SIZE - (size_t)n, ", %d layers", (int)plan->recompute_layers);
    if (plan->early_stop)
        snprintf(text + n, TEXT_SIZE - (size_t)n, ", early stop");
}

static void sequence_text(const struct report *report, int32_t system, char text[TEXT_SIZE])
{
    snprintf(text, TEXT_SIZE, "%s", report->point->systems[system].entry->plan.sequence_parallel ? "on" : "off");
}

/** Write the contention: how much longer SimGrid takes than the critical path. */
static void contention_text(const struct report *report, int32_t system, char text[TEXT_SIZE])
{
    const struct trace_summary *summary = &report->summaries[system];
    double more = 100 * (summary->simgrid_mean_s / summary->critical_path_mean_s - 1);
    /* rounded, since sums would otherwise give -0.000 */
    snprintf(text, TEXT_SIZE, "%.3f", round(more * 1e3) / 1e3 + 0.0);
}

static void gap_text(const struct report *report, int32_t system, char text[TEXT_SIZE])
{
    const struct iterations *iterations = &report->iterations[system];
    if (searches(iterations))
        snprintf(text, TEXT_SIZE, "%.2f", 100 * iterations->mean[GAP]);
    else
        snprintf(text, TEXT_SIZE, "-");
}

static void fits_text(const struct report *report, int32_t system, char text[TEXT_SIZE])
{
    struct trace_summary summary = point_summary_of(report->scenario, report->point, system);
    snprintf(text, TEXT_SIZE, "%s", !summary.fits ? "no" : summary.tight ? "tight" : "yes");
}

/**
 * Write the speed-up in model FLOPs a second, not in tokens. If samples wait for later iterations, systems train
 * different tokens in the measured ones.
 */
static void speed_up_text(const struct report *report, int32_t system, char text[TEXT_SIZE])
{
    const struct trace_summary *summary = &report->summaries[system];
    snprintf(text, TEXT_SIZE, summary->first_exceeds_limit ? "(%.3fx)" : "%.3fx", summary->speed_up);
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
    for (int32_t i = 0; i < scenario->n_systems; i++)
        if (assumptions_scaled_attention(scenario, scenario->systems[i].label, &report->summaries[i], line))
            printf("%s\n", line);
    putchar('\n');
}

static void add_metric(const struct report *report, struct text_table *table, const struct metric *metric)
{
    const struct trace_column *column = trace_column_find(TRACE_SUMMARY, metric->column);
    char text[TEXT_SIZE];
    text_table_cell(table, "%s", metric->label);
    for (int32_t i = 0; i < report->point->n_systems; i++) {
        const struct trace_summary *summary = &report->summaries[i];
        struct trace_value value = trace_value_of(column, summary, NULL, NULL);
        double number = column->type == TRACE_DOUBLE ? value.number : (double)value.whole;
        number_text(metric->format, number / (metric->share ? summary->total_s : 1) * metric->scale, text);
        text_table_cell(table, "%s", text);
    }
}

/** Return whether some system has DCP's bound. */
static bool any_context(const struct report *report)
{
    bool any = false;
    for (int32_t i = 0; i < report->point->n_systems; i++)
        any = any || report->summaries[i].context_bound_mean_s > 0;
    return any;
}

static void add_metrics(const struct report *report, struct text_table *table)
{
    for (int i = 0; i < N_METRICS; i++) {
        bool of_simgrid = strcmp(metrics[i].column, "simgrid_mean_s") == 0,
             of_bound = strcmp(metrics[i].column, "context_bound_mean_s") == 0;
        if ((of_simgrid && report->scenario->engine == SCENARIO_CRITICAL_PATH) || (of_bound && !any_context(report)))
            continue;
        add_metric(report, table, &metrics[i]);
        if (of_simgrid)
            add_row(report, table, "  contention [%]", contention_text);
    }
}

static void add_means(const struct report *report, struct text_table *table)
{
    char text[TEXT_SIZE];
    for (int k = 0; k < NODES; k++) {
        text_table_cell(table, "%s", means[k].label);
        for (int32_t i = 0; i < report->point->n_systems; i++) {
            number_text(means[k].format, report->iterations[i].mean[k], text);
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
        printf(" %.2f", stages->at[i].peak_bytes / TEXT_GIB);
    putchar('\n');
}

/** Print what a system that does not fit lacks, in full. */
static void print_lack(const char *label, const struct trace_summary *summary)
{
    if (summary->exceeded_limit == EXCEEDED_NONE)
        return;
    char *lack = summary_lack_text(summary);
    printf("%s does not fit: %s\n", label, lack);
    free(lack);
}

/** Print the table: a column for each system. */
static void print_table(const struct report *report)
{
    struct text_table table = {0};
    text_table_column(&table, "", "<30");
    for (int32_t i = 0; i < report->point->n_systems; i++)
        text_table_column(&table, report->point->systems[i].entry->label, ">16");
    add_row(report, &table, "plan", plan_text);
    add_metric(report, &table, &(struct metric){"vpp", "virtual stages of a rank", "%.0f", 1, false});
    add_row(report, &table, "sharding, gradients", sharding_text);
    add_row(report, &table, "sequence parallelism", sequence_text);
    add_row(report, &table, "recompute", recompute_text);
    add_metric(report, &table, &(struct metric){"offload", "offload to the host, plan [%]", "%g", 100, false});
    add_metrics(report, &table);
    add_means(report, &table);
    if (any_delay(report))
        add_metric(report, &table, &(struct metric){"token_delay", "delay of a token [iterations]", "%.3f", 1, false});
    if (any_search(report))
        add_row(report, &table, "gap of branch and bound [%]", gap_text);
    add_row(report, &table, "fits", fits_text);
    add_row(report, &table, "speed-up", speed_up_text);
    add_metric(report, &table, &(struct metric){"speed_up_interval", "  95% interval, +/-", "%.3f", 1, false});
    text_table_print(&table, stdout, 0);
}

void report_print(const struct scenario *scenario, const struct point *point, const struct plan_search *search)
{
    struct report report = report_of(scenario, point);
    print_header(&report);
    print_table(&report);
    putchar('\n');
    if (report.summaries[0].first_exceeds_limit)
        printf("speed-ups are in brackets: the first system, %s, does not fit, so they are no gains\n",
               point->systems[0].entry->label);
    for (int32_t i = 0; i < point->n_systems; i++)
        print_stages(point->systems[i].entry->label, &point->systems[i].stages);
    for (int32_t i = 0; i < point->n_systems; i++)
        print_lack(point->systems[i].entry->label, &report.summaries[i]);
    plan_search_print(scenario, search);
    puts("assumed:");
    int32_t n;
    char(*lines)[ASSUMPTIONS_SIZE] = assumptions_lines(scenario, point, &n);
    for (int32_t i = 0; i < n; i++)
        printf("- %s\n", lines[i]);
    free(lines);
    report_free(&report);
}

static json_t *json_of_layers(const struct scenario *scenario, const struct scenario_plan *plan)
{
    json_t *layers = json_array();
    for (int32_t i = 0; i < plan->pp * plan->vpp; i++)
        json_array_append_new(layers, json_integer(scenario_stage_layers(&plan->stages, scenario->model.layers,
                                                                         (int32_t)plan->pp, (int32_t)plan->vpp, i)));
    return layers;
}

static json_t *json_of_stages(const struct stage_peaks *stages)
{
    json_t *rows = json_array();
    for (int32_t i = 0; i < stages->n; i++)
        json_array_append_new(rows, json_of_row(TRACE_STAGES, &stages->at[i], NULL, NULL));
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
    const struct trace_summary *summary = &report->summaries[number];
    json_t *row = json_of_row(TRACE_SUMMARY, summary, NULL, NULL);
    const struct scenario_plan *plan = &system->entry->plan;
    json_object_update_new(row,
                           json_pack("{s:s, s:s, s:o, s:i}", "system", system->system->name, "label",
                                     system->entry->label, "layers_of_virtual_stages",
                                     json_of_layers(report->scenario, plan), "shards", scenario_plan_shards(plan)));
    json_object_set_new(row, "stages", json_of_stages(&system->stages));
    json_object_set_new(row, "recompute_of_micro_batches", json_of_recompute(system));
    for (int k = 0; k < N_MEANS; k++)
        json_object_set_new(row, means[k].key, json_of_number(report->iterations[number].mean[k]));
    return row;
}

json_t *report_json(const struct scenario *scenario, const struct point *point, const struct plan_search *search)
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
        json_pack("{s:s, s:s, s:s, s:s, s:s?, s:i, s:f, s:o, s:o}", "model", scenario->model.name, "device",
                  scenario->device.name, "platform", scenario->platform.name, "framework", scenario->framework_name,
                  "copied_curves", copies ? copied : NULL, "gpus", platform_n_gpus(&scenario->platform), "memory_bytes",
                  point->memory_bytes, "systems", systems, "assumed", assumed);
    free(lines);
    report_free(&report);
    return object;
}
