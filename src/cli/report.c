/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/report.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "execute/execute.h"

enum { LABEL_WIDTH = 32, COLUMN_WIDTH = 18, TEXT_SIZE = 256 };
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

static const char *const recompute_name[] = {"none", "selective", "full"};
static const char *const sharding_name[] = {"zero1", "zero2", "zero3"};
static const char *const gradients_name[] = {"fp32", "bf16"};
static const char *const attention_name[] = {"flash-attention 2", "flash-attention 3", "cuDNN"};

/** Largest spread (max - min) / mean of unit FLOPs of one rank over the measured iterations. */
static double worst_spread(const struct point_system *system, enum pass pass)
{
    double worst = 0;
    for (int32_t i = 0; i < system->n_iterations; i++)
        if (system->iterations[i].measured)
            worst = fmax(worst, system->iterations[i].unit_spread[pass]);
    return worst;
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

static const char *worst_class(const struct point_summary *summary)
{
    int worst = 0;
    for (int i = 1; i < MEMORY_N_CLASSES; i++)
        if (summary->at_peak[i] > summary->at_peak[worst])
            worst = i;
    return memory_class_name[worst];
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
    int n = snprintf(text, TEXT_SIZE, "%s", recompute_name[plan->recompute]);
    if (plan->recompute_layers > 0)
        snprintf(text + n, TEXT_SIZE - (size_t)n, ", %d layers", (int)plan->recompute_layers);
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
    printf("%*s", COLUMN_WIDTH, text);
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
    printf("%lld measured iterations after %lld of warm-up, seed %lld\n\n%-*s", (long long)scenario->measured,
           (long long)scenario->warm_up, (long long)scenario->seed, LABEL_WIDTH, "");
    for (int32_t i = 0; i < point->n_systems; i++)
        print_cell(point->systems[i].entry->label);
    putchar('\n');
    print_row("plan", point, plan_text);
    print_row("virtual stages of a rank", point, chunks_text);
    print_row("sharding, gradients", point, sharding_text);
    print_row("recompute", point, recompute_text);
    print_row("offload to the host [%]", point, offload_text);
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
        snprintf(text, sizeof text, "%.3f", 100 * (metrics[i][METRIC_simgrid_mean_s].value / path_s - 1));
        print_cell(text);
    }
    putchar('\n');
}

static void print_units(const struct point *point)
{
    char text[TEXT_SIZE];
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
        printf("%-*s", LABEL_WIDTH, pass == PASS_FORWARD ? "unit FLOPs spread, fwd [%]" : "unit FLOPs spread, bwd [%]");
        for (int32_t i = 0; i < point->n_systems; i++) {
            snprintf(text, sizeof text, "%.3f", 100 * worst_spread(&point->systems[i], pass));
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

static void print_verdict(const struct scenario *scenario, const struct point *point,
                          const struct point_summary *summaries)
{
    char text[TEXT_SIZE];
    (void)scenario;
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
        if (!point->systems[i].fits)
            printf("%s does not fit: stage %d needs %.2f GiB (most of it %s), a GPU has %.2f GiB\n",
                   point->systems[i].entry->label, summaries[i].peak_stage, summaries[i].peak_bytes / gib,
                   worst_class(&summaries[i]), point->memory_bytes / gib);
}

static bool any_sharded(const struct point *point)
{
    bool any = false;
    for (int32_t i = 0; i < point->n_systems; i++)
        any = any || point->systems[i].entry->plan.sharding != SCENARIO_ZERO1;
    return any;
}

/** Shares of the passes' time, over all systems, whose shapes no row that the curves were fitted to has. */
static void print_outside(const struct scenario *scenario, const struct point *point, char line[TEXT_SIZE])
{
    const struct device_flash *flash = &scenario->device.forward[scenario->attention];
    double pass_s = 0, outside_s[COST_N_FAMILIES] = {0};
    for (int32_t i = 0; i < point->n_systems; i++)
        for (int32_t j = 0; j < point->systems[i].n_iterations; j++) {
            const struct point_iteration *iteration = &point->systems[i].iterations[j];
            pass_s += iteration->pass_s;
            for (int k = 0; k < COST_N_FAMILIES; k++)
                outside_s[k] += iteration->outside_s[k];
        }
    for (int k = 0; k < COST_N_FAMILIES; k++)
        outside_s[k] *= 100 / fmax(pass_s, 1e-300);
    snprintf(
        line, TEXT_SIZE,
        "beyond the shapes the curves were fitted to, of all passes' time: attention %.1f%% (fitted to %.0f to %.0f "
        "keys), GEMMs %.1f%%, memory-bound kernels %.1f%%, tensor collectives %.1f%%",
        outside_s[COST_ATTENTION], flash->keys.min, flash->keys.max, outside_s[COST_GEMM], outside_s[COST_MEMORY_BOUND],
        outside_s[COST_COLLECTIVE]);
}

/** What moves the numbers and was not measured by the user. One line each, for people and for JSON. */
static int32_t assumptions(const struct scenario *scenario, const struct point *point, char lines[][TEXT_SIZE])
{
    const struct scenario_communication *communication = &scenario->communication;
    int32_t n = 0;
    snprintf(lines[n++], TEXT_SIZE, "engine: %s",
             scenario->engine == SCENARIO_CRITICAL_PATH
                 ? "critical path (no contention on links)"
                 : "SimGrid, one rank for all of a tensor-parallel group unless all_tensor_ranks");
    snprintf(lines[n++], TEXT_SIZE, "attention kernel: %s; kernel and link curves of device %s",
             attention_name[scenario->attention], scenario->device.name);
    snprintf(lines[n++], TEXT_SIZE, "tensor-parallel collectives hidden under GEMMs: %.0f%%; sequence parallelism on",
             100 * communication->tp_overlap);
    print_outside(scenario, point, lines[n++]);
    snprintf(lines[n++], TEXT_SIZE, "ring of context parallelism: point-to-point, one NIC between nodes; %s attention",
             communication->cp_overlap ? "runs beside" : "is done before");
    snprintf(
        lines[n++], TEXT_SIZE,
        "optimizer states over DP x CP; gradient and parameter traffic hidden under the last backward and the first "
        "forward pass: at most %.0f%%",
        100 * communication->dp_overlap);
    if (scenario->model.tied_embeddings)
        snprintf(lines[n++], TEXT_SIZE, "all-reduce of tied embeddings between first and last stage: left out");
    if (any_sharded(point))
        snprintf(lines[n++], TEXT_SIZE,
                 "zero2, zero3: prefetched one layer ahead in every pass, inside the pass (no contention on links)");
    snprintf(lines[n++], TEXT_SIZE,
             "memory of a GPU: %.2f GiB, the device's less %.2f GiB of CUDA context; allocator rounding not modelled",
             point->memory_bytes / gib, scenario->device.context_bytes / gib);
    snprintf(lines[n++], TEXT_SIZE, "documents over the context are %s; each system sees the same batches",
             scenario->data.long_documents == SCENARIO_CUT    ? "cut into samples of their own"
             : scenario->data.long_documents == SCENARIO_DROP ? "replaced by other draws"
                                                              : "truncated");
    return n;
}

enum { MAX_ASSUMPTIONS = 16 };

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
    char lines[MAX_ASSUMPTIONS][TEXT_SIZE];
    struct point_summary *summaries = check_calloc((size_t)point->n_systems, sizeof *summaries);
    struct metric(*metrics)[N_METRICS] = check_calloc((size_t)point->n_systems, sizeof *metrics);
    collect(scenario, point, summaries, metrics);
    print_header(scenario, point);
    print_metrics(scenario, point, metrics);
    if (scenario->engine != SCENARIO_CRITICAL_PATH)
        print_contention(point, metrics);
    print_units(point);
    print_verdict(scenario, point, summaries);
    plan_search_print(scenario, search);
    puts("assumed:");
    int32_t n = assumptions(scenario, point, lines);
    for (int32_t i = 0; i < n; i++)
        printf("- %s\n", lines[i]);
    free(metrics);
    free(summaries);
}

static json_t *json_of_system(const struct scenario *scenario, const struct point_system *system,
                              const struct point_summary *summary, const struct metric *metrics)
{
    const struct scenario_plan *plan = &system->entry->plan;
    json_t *row =
        json_pack("{s:s, s:s, s:{s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:s, s:I, s:f}, s:b}", "system",
                  system->system->name, "label", system->entry->label, "plan", "tp", (json_int_t)plan->tp, "pp",
                  (json_int_t)plan->pp, "cp", (json_int_t)plan->cp, "dp", (json_int_t)system->dp, "vpp",
                  (json_int_t)plan->vpp, "sharding", sharding_name[plan->sharding], "gradients",
                  gradients_name[plan->gradients], "recompute", recompute_name[plan->recompute], "recompute_layers",
                  (json_int_t)plan->recompute_layers, "offload", plan->offload, "fits", system->fits);
    for (int j = 0; j < N_METRICS; j++)
        if (!metric_absent(scenario, j))
            json_object_set_new(row, metrics[j].key, json_real(metrics[j].value));
    json_t *classes = json_object();
    for (int i = 0; i < MEMORY_N_CLASSES; i++)
        json_object_set_new(classes, memory_class_name[i], json_real(summary->at_peak[i]));
    json_object_set_new(row, "peak_bytes_by_class", classes);
    json_object_set_new(row, "forward_unit_flop_spread", json_real(worst_spread(system, PASS_FORWARD)));
    json_object_set_new(row, "backward_unit_flop_spread", json_real(worst_spread(system, PASS_BACKWARD)));
    json_object_set_new(row, "units_of_a_pipeline_mean", json_real(mean_units(system)));
    json_object_set_new(row, "merged_samples_mean", json_real(mean_merged(system)));
    return row;
}

void report_print_json(const struct scenario *scenario, const struct point *point, const struct plan_search *search)
{
    char lines[MAX_ASSUMPTIONS][TEXT_SIZE];
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
    int32_t n = assumptions(scenario, point, lines);
    for (int32_t i = 0; i < n; i++)
        json_array_append_new(assumed, json_string(lines[i]));
    json_t *root = json_pack("{s:s, s:s, s:s, s:s, s:i, s:f, s:o, s:o}", "name", scenario->name, "model",
                             scenario->model.name, "device", scenario->device.name, "platform", scenario->platform.name,
                             "gpus", platform_n_gpus(&scenario->platform), "memory_bytes", point->memory_bytes,
                             "systems", systems, "assumed", assumed);
    json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
    putchar('\n');
    json_decref(root);
    free(metrics);
    free(summaries);
}
