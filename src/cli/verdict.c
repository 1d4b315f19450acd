/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/verdict.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/compare.h"
#include "base/text.h"
#include "cost/states.h"
#include "document/library.h"
#include "document/schema_text.h"
#include "simulate/assumptions.h"
#include "simulate/faster_setting.h"
#include "simulate/fitting_change.h"
#include "simulate/plan_text.h"
#include "simulate/standing.h"
#include "simulate/validated_range.h"
#include "trace/table.h"

static const double gib = 1 << 30;
enum { CELL_SIZE = 160, LABEL_COLUMNS = 22, MOST_SHOWN = 4 };

/** All that the parts of a verdict need. `changes` is [n_systems]. */
struct verdict {
    const struct scenario *scenario;
    const struct point *point;
    struct ranked_point ranked;
    struct fitting_change *changes; /* of systems that do not fit */
    int32_t base;                   /* system to which speed-ups refer: the first one that fits; -1: none fits */
    int32_t n_ranked;               /* number of systems that fit */
    char limit[CELL_SIZE];          /* memory of a GPU, in GiB */
};

static const char *label_of(const struct verdict *verdict, int32_t system)
{
    return verdict->point->systems[system].entry->label;
}

static struct verdict verdict_of(const struct scenario *scenario, const struct lengths *lengths,
                                 const struct point *point)
{
    struct verdict verdict = {
        .scenario = scenario, .point = point, .ranked = ranked_point_of(scenario, point), .base = -1};
    verdict.changes = check_calloc((size_t)point->n_systems, sizeof *verdict.changes);
    for (int32_t i = 0; i < point->n_systems; i++)
        if (!point->systems[i].fits)
            verdict.changes[i] = fitting_change_of(scenario, lengths, &point->systems[i]);
        else if (verdict.n_ranked++ == 0)
            verdict.base = i;
    text_number(point->memory_bytes / gib, 1, verdict.limit);
    return verdict;
}

static void verdict_free(struct verdict *verdict)
{
    ranked_point_free(&verdict->ranked);
    free(verdict->changes);
}

/** Write the sequences of an iteration and their tokens. */
static void write_data(FILE *file, const struct scenario_data *data)
{
    char context[TEXT_NUMBER_SIZE], batch[TEXT_NUMBER_SIZE];
    const char *plural = data->global_batch == 1 ? "" : "s";
    const char *lengths = scenario_lists_lengths(data) ? "listed" : data->lengths;
    text_number((double)data->context, 0, context);
    text_number((double)(data->global_batch_tokens > 0 ? data->global_batch_tokens : data->global_batch), 0, batch);
    if (data->global_batch_tokens > 0)
        fprintf(file, "at least %s tokens of %s documents up to %s", batch, lengths, context);
    else if (strcmp(data->lengths, "fixed") == 0)
        fprintf(file, "%s sequence%s of %s tokens", batch, plural, context);
    else
        fprintf(file, "%s %s document%s up to %s tokens", batch, lengths, plural, context);
}

/** Write whether results have intervals. */
static void write_iterations(FILE *file, const struct verdict *verdict)
{
    const struct scenario *scenario = verdict->scenario;
    bool alike = true;
    for (int32_t i = 0; i < verdict->point->n_systems; i++)
        alike = alike && verdict->ranked.summaries[i].tokens_per_s_per_gpu_interval <
                             1e-9 * verdict->ranked.summaries[i].tokens_per_s_per_gpu;
    fprintf(file, "%lld iteration%s", (long long)scenario->measured, scenario->measured == 1 ? "" : "s");
    if (scenario->warm_up > 0)
        fprintf(file, " after %lld warm-up", (long long)scenario->warm_up);
    fprintf(file, ", seed %lld", (long long)scenario->seed);
    if (scenario->measured > 1 && alike)
        fputs(", all alike", file);
    else if (scenario->measured == 1)
        fputs(", no interval", file);
}

/** Write the model, and the parameters of a user's own, so that its file can be checked. */
static void write_model(FILE *file, const struct scenario *scenario)
{
    const struct model *model = &scenario->model;
    double parameters = cost_model_parameters(model);
    fputs(model->name, file);
    if (library_is_path(scenario->model_name, ".yaml"))
        fprintf(file, " (%.4gB)", parameters / 1e9);
}

/** Write the cluster. Without a name it is its size, its NIC and what differs from the default above the NICs. */
static void write_platform(FILE *file, const struct platform *platform)
{
    const struct platform_keys *keys = &platform->keys;
    char topology[SCHEMA_WORD_BYTES];
    schema_choice_name(PLATFORM_TOPOLOGIES, keys->topology, topology);
    fputs(platform->name, file);
    if (*keys->name != '\0')
        return;
    fprintf(file, ", NIC %gGbps", 8 * platform->nic_bytes_per_s / 1e9);
    if (keys->topology != PLATFORM_FAT_TREE)
        fprintf(file, ", %s", topology);
    if (keys->oversubscription != 1)
        fprintf(file, ", oversubscription %g", keys->oversubscription);
}

/** Write what was asked, a line each, and notes that hold for all numbers. */
static void write_head(FILE *file, const struct verdict *verdict, const struct lengths *lengths)
{
    const struct scenario *scenario = verdict->scenario;
    const char *const engine = scenario->engine == SCENARIO_CRITICAL_PATH ? "critical path" : "SimGrid";
    char note[ASSUMPTIONS_SIZE], attention[SCHEMA_WORD_BYTES];
    fprintf(file, "%s: ", scenario->name);
    write_model(file, scenario);
    fprintf(file, " on %d x %s (", platform_n_gpus(&scenario->platform), scenario->device.name);
    write_platform(file, &scenario->platform);
    fputs("), ", file);
    write_data(file, &scenario->data);
    schema_choice_name(DEVICE_ATTENTION, scenario->attention, attention);
    fprintf(file, "\nframework %s, attention %s, %s; ", scenario->framework_name, attention, engine);
    write_iterations(file, verdict);
    fputc('\n', file);
    if (assumptions_long_documents(&scenario->data, lengths, note))
        fprintf(file, "%s\n", note);
    if (assumptions_copied_curves(&scenario->device, note))
        fprintf(file, "%s\n", note);
    if (assumptions_unlike_nvlink(&scenario->platform, &scenario->device, note))
        fprintf(file, "%s\n", note);
    if (assumptions_oversubscription(scenario, note))
        fprintf(file, "%s\n", note);
    if (scenario->n_faults > 0)
        fprintf(file, "%s\n", assumptions_faults(scenario, note));
}

enum column { LABEL, TOKENS, TIME, MFU, WAITING, EXPOSED, PEAK, SPEED_UP, PLAN, N_COLUMNS };
static const char *const heading[N_COLUMNS] = {
    "  system", "tokens/s/GPU", "time", "MFU", "idle", "comm", "GiB", "speed-up", "plan, recompute, offload"};

/** A row of the ranking. */
struct ranking_row {
    char cell[N_COLUMNS][CELL_SIZE];
};

static void fill_label(const struct verdict *verdict, const struct standing *standing, char cell[CELL_SIZE])
{
    if (verdict->n_ranked == 1)
        snprintf(cell, CELL_SIZE, "%s", label_of(verdict, standing->system));
    else
        snprintf(cell, CELL_SIZE, "%*d %s", verdict->point->n_systems > 9 ? 2 : 1, standing->rank,
                 label_of(verdict, standing->system));
}

/** Write how much faster a system is than the base. The interval is that of the ratio to the first system. */
static void fill_speed_up(const struct verdict *verdict, int32_t system, char cell[CELL_SIZE])
{
    const struct trace_summary *summary = &verdict->ranked.summaries[system];
    double half = summary->speed_up_interval, ratio = summary->mfu / verdict->ranked.summaries[verdict->base].mfu;
    if (verdict->base == 0 && system > 0 && half > 1e-9) /* not NaN */
        snprintf(cell, CELL_SIZE, "%.2fx ± %.2f", ratio, half);
    else
        snprintf(cell, CELL_SIZE, "%.2fx", ratio);
}

/** Make a row. From level 1 on the label is clipped. */
static struct ranking_row row_of(const struct verdict *verdict, const struct standing *standing, int level)
{
    const struct trace_summary *summary = &verdict->ranked.summaries[standing->system];
    struct ranking_row row = {0};
    struct time_shares shares = time_shares_of(summary);
    char number[TEXT_NUMBER_SIZE], half[TEXT_NUMBER_SIZE];
    int decimals = summary->tokens_per_s_per_gpu < 100;
    fill_label(verdict, standing, row.cell[LABEL]);
    if (level > 0)
        text_clip(row.cell[LABEL], LABEL_COLUMNS);
    text_number(summary->tokens_per_s_per_gpu, decimals, number);
    text_number(summary->tokens_per_s_per_gpu_interval, decimals, half);
    if (summary->tokens_per_s_per_gpu_interval > 1e-9 * summary->tokens_per_s_per_gpu) /* not NaN */
        snprintf(row.cell[TOKENS], CELL_SIZE, "%s ± %s", number, half);
    else
        snprintf(row.cell[TOKENS], CELL_SIZE, "%s", number);
    text_number(summary->time_mean_s, summary->time_mean_s < 10 ? 2 : summary->time_mean_s < 100 ? 1 : 0, number);
    snprintf(row.cell[TIME], CELL_SIZE, "%s s", number);
    snprintf(row.cell[MFU], CELL_SIZE, "%.0f%%", 100 * summary->mfu);
    snprintf(row.cell[WAITING], CELL_SIZE, "%.0f%%", 100 * shares.share[TIME_WAITING]);
    snprintf(row.cell[EXPOSED], CELL_SIZE, "%.0f%%", 100 * time_exposed(&shares));
    snprintf(row.cell[PEAK], CELL_SIZE, "%.1f", summary->peak_bytes / gib);
    fill_speed_up(verdict, standing->system, row.cell[SPEED_UP]);
    plan_text_name(&verdict->point->systems[standing->system].entry->plan, summary->host_peak_bytes > 0,
                   row.cell[PLAN]);
    return row;
}

/** Return the columns that the table needs up to the plan, and the width of each column. */
static int32_t table_widths(const struct ranking_row *rows, int32_t n, int32_t widths[N_COLUMNS])
{
    int32_t sum = 0;
    for (int c = 0; c < N_COLUMNS; c++) {
        widths[c] = c == PLAN ? 0 : text_columns(heading[c]);
        for (int32_t i = 0; i < n; i++)
            widths[c] = text_columns(rows[i].cell[c]) > widths[c] ? text_columns(rows[i].cell[c]) : widths[c];
        sum += widths[c] + (c > 0 ? 2 : 0);
    }
    return sum;
}

static void write_cell(FILE *file, enum column column, int32_t width, const char *text)
{
    int32_t gap = width - text_columns(text);
    bool left = column == LABEL || column == PLAN;
    fprintf(file, "%s%*s%s%*s", column > LABEL ? "  " : "", left ? 0 : gap, "", text, column == LABEL ? gap : 0, "");
}

static bool any_tie(const struct verdict *verdict)
{
    bool any = false;
    for (int32_t i = 1; i < verdict->n_ranked; i++)
        any = any || verdict->ranked.standings[i].rank == verdict->ranked.standings[i - 1].rank;
    return any;
}

/** Write the ranked systems, at most `most` of them, and a legend. */
static void write_ranking(FILE *file, const struct verdict *verdict, int32_t most)
{
    int32_t n_ranked = verdict->n_ranked;
    struct ranking_row *rows = check_calloc((size_t)n_ranked, sizeof *rows);
    int32_t widths[N_COLUMNS], before_plan = 0, n = n_ranked > most ? most - 1 : n_ranked;
    bool alone = n_ranked == 1;
    for (int level = 0; level < 2; level++) {
        for (int32_t i = 0; i < n; i++)
            rows[i] = row_of(verdict, &verdict->ranked.standings[i], level);
        before_plan = table_widths(rows, n, widths) - widths[PLAN];
        if (before_plan + widths[PLAN] <= VERDICT_COLUMNS)
            break;
    }
    bool long_heading = before_plan + text_columns(heading[PLAN]) <= VERDICT_COLUMNS;
    for (int32_t i = -1; i < n; i++) {
        for (enum column c = LABEL; c < N_COLUMNS; c++)
            if (c != SPEED_UP || !alone)
                write_cell(file, c, widths[c],
                           i >= 0                       ? rows[i].cell[c]
                           : c == LABEL && alone        ? "system"
                           : c == PLAN && !long_heading ? "plan"
                                                        : heading[c]);
        fputc('\n', file);
    }
    if (n < n_ranked)
        fprintf(file, "   and %d more systems (-v)\n", n_ranked - n);
    fprintf(file, "idle: bubbles, comm: exposed communication, of GPU time; GiB: peak, of %s that a plan may use",
            verdict->limit);
    if (!alone)
        fprintf(file, "\nspeed-up: model FLOPs a second over %s%s", label_of(verdict, verdict->base),
                any_tie(verdict) ? "; equal ranks tie (95% interval)" : "");
    fputc('\n', file);
    free(rows);
}

/** Write what fills the memory, "stage 3 needs 95.2 of 74.9 GiB, mostly states". */
static void write_need(FILE *file, const struct verdict *verdict, const struct trace_summary *summary)
{
    char needed[TEXT_NUMBER_SIZE], has[TEXT_NUMBER_SIZE];
    bool host = summary->misfit != EXCEEDED_GPU_MEMORY;
    text_number((host ? summary->host_peak_bytes : summary->peak_bytes) / gib, host ? 0 : 1, needed);
    text_number(verdict->scenario->platform.host_memory_bytes / gib, 0, has);
    if (host)
        fprintf(file, "node %d needs %s of %s GiB of host memory", summary->host_node, needed, has);
    else
        fprintf(file, "stage %d needs %s of %s GiB, mostly %s", summary->peak_stage, needed, verdict->limit,
                summary->peak_class == MEMORY_STATES ? "weights, gradients and optimizer"
                                                     : memory_class_name[summary->peak_class]);
}

/** Write the change that would fit, or the one that comes nearest. */
static void write_change(FILE *file, const struct verdict *verdict, int32_t system)
{
    const struct fitting_change *change = &verdict->changes[system];
    const struct trace_summary *summary = &verdict->ranked.summaries[system];
    bool host = change->evaluation.peak_bytes <= verdict->point->memory_bytes;
    double bytes = host && !change->fits ? change->evaluation.host_bytes : change->evaluation.peak_bytes;
    struct evaluation_limits limits = evaluation_limits_of(verdict->point->memory_bytes, &verdict->scenario->platform);
    struct evaluation now = {.peak_bytes = summary->peak_bytes, .host_bytes = summary->host_peak_bytes};
    bool useless = evaluation_excess(&change->evaluation, &limits) > 0.999 * evaluation_excess(&now, &limits);
    if (*change->text == '\0')
        fputs("no single change of its plan is possible", file);
    else if (useless)
        fputs("no single change of its plan needs less", file);
    else if (change->fits)
        fprintf(file, "%s would fit, %.1f GiB", change->text, bytes / gib);
    else
        fprintf(file, "no single change fits; nearest: %s, %.1f GiB%s", change->text, bytes / gib,
                host ? " of host memory" : "");
}

/** Write the systems that do not fit, two lines each, or if these are more than `most`, one. */
static void write_misfits(FILE *file, const struct verdict *verdict, int32_t most)
{
    int32_t n_misfits = verdict->point->n_systems - verdict->n_ranked, shown = 0;
    bool brief = 2 * n_misfits > most;
    for (int32_t i = verdict->n_ranked; i < verdict->point->n_systems; i++) {
        int32_t system = verdict->ranked.standings[i].system;
        char name[PLAN_TEXT_NAME_SIZE];
        if (n_misfits > most && ++shown == most) {
            fprintf(file, "and %d more that do not fit (-v)\n", n_misfits - most + 1);
            return;
        }
        plan_text_name(&verdict->point->systems[system].entry->plan,
                       verdict->ranked.summaries[system].host_peak_bytes > 0, name);
        fprintf(file, "%s%s: ", label_of(verdict, system), brief ? "" : " does not fit");
        write_need(file, verdict, &verdict->ranked.summaries[system]);
        if (brief)
            fputs("; ", file);
        else
            fprintf(file, "\n   %s: ", name);
        write_change(file, verdict, system);
        fputc('\n', file);
    }
}

/**
 * Return the system that the first one is compared with: that of the speed-ups. If that one is or ties the first,
 * return the best that is no tie; -1: there is none.
 */
static int32_t rival_of(const struct verdict *verdict)
{
    for (int32_t i = 1; i < verdict->n_ranked; i++)
        if (verdict->ranked.standings[i].system == verdict->base && verdict->ranked.standings[i].rank > 1)
            return verdict->base;
    for (int32_t i = 1; i < verdict->n_ranked; i++)
        if (verdict->ranked.standings[i].rank > 1)
            return verdict->ranked.standings[i].system;
    return -1;
}

/** A part of a sentence with its size in points or percent. */
struct difference {
    const char *name;
    double points; /* of the GPUs' time */
};

static int compare_differences(const void *a, const void *b)
{
    const struct difference *x = a, *y = b;
    double size = fabs(y->points) - fabs(x->points);
    return size > 0 ? 1 : size < 0 ? -1 : strcmp(x->name, y->name);
}

/** Write the parts of which the first system has less (sign -1) or more (1), the largest first. */
static int32_t write_differences(FILE *file, const struct difference *differences, int sign, int32_t n)
{
    for (int i = 0, before = n; i < TIME_N_PARTS - 1; i++) {
        double points = round(sign * differences[i].points);
        if (points < 1)
            continue;
        const char *unit = n > 0 ? "" : points < 1.5 ? "point " : "points ";
        fprintf(file, "%s%.0f %s%s %s",
                n > before ? ", "
                : n > 0    ? "; "
                           : "",
                points, unit, sign < 0 ? "less" : "more", differences[i].name);
        n++;
    }
    return n;
}

/** A factor of the ratio of two systems' rates, and the clause that names it. */
struct factor {
    double ratio;
    char *clause;
};

static int compare_factors(const void *a, const void *b)
{
    const struct factor *x = a, *y = b;
    return COMPARE(y->ratio, x->ratio);
}

/** Name a factor from 1% on, otherwise leave its clause empty. */
static struct factor factor_of(double ratio, const char *more, const char *less)
{
    double percent = round(100 * (ratio > 1 ? ratio - 1 : 1 - ratio));
    char *clause = percent < 1 ? check_strdup("") : check_asprintf("%.0f%% %s", percent, ratio > 1 ? more : less);
    return (struct factor){ratio, clause};
}

/**
 * Write how the shares of compute in GPU time differ, and where the difference comes from. Equal shares have a decimal
 * more if parts differ, otherwise there is no clause.
 */
static char *shares_clause(const struct time_shares *mine, const struct time_shares *its)
{
    struct difference differences[TIME_N_PARTS - 1];
    char *text, *parts;
    size_t n_bytes;
    FILE *file = check_memstream(&parts, &n_bytes);
    for (int i = 0; i < TIME_N_PARTS - 1; i++)
        differences[i] = (struct difference){time_part_name[i + 1], 100 * (mine->share[i + 1] - its->share[i + 1])};
    qsort(differences, TIME_N_PARTS - 1, sizeof *differences, compare_differences);
    int32_t n = write_differences(file, differences, -1, 0);
    n = write_differences(file, differences, 1, n);
    CHECK(fclose(file) == 0);
    double percent = 100 * mine->share[TIME_COMPUTE], other = 100 * its->share[TIME_COMPUTE];
    int decimals = round(percent) == round(other);
    if (decimals == 1 && n == 0)
        text = check_strdup("");
    else if (decimals == 1 && round(10 * percent) == round(10 * other))
        text = check_asprintf("both compute %.1f%% of GPU time (%s)", percent, parts);
    else
        text = check_asprintf("it computes %.*f%% of GPU time, not %.*f%% (%s)", decimals, percent, decimals, other,
                              n == 0 ? "small differences" : parts);
    free(parts);
    return text;
}

/**
 * Write why the first system is faster than another, the largest gain first. The ratio of their rates is that of three
 * factors: the share of compute in GPU time, model FLOPs over those of the hardware, and FLOPs of a second of compute.
 */
static void write_reason(FILE *file, const struct verdict *verdict, int32_t first, int32_t other)
{
    const struct trace_summary *a = &verdict->ranked.summaries[first], *b = &verdict->ranked.summaries[other];
    struct time_shares mine = time_shares_of(a), its = time_shares_of(b);
    double compute = mine.share[TIME_COMPUTE], other_compute = its.share[TIME_COMPUTE];
    double fewer = (b->hfu / b->mfu) / (a->hfu / a->mfu);
    struct factor factors[] = {
        {compute / other_compute, shares_clause(&mine, &its)},
        factor_of(fewer, "fewer FLOPs executed (padding, recomputation)",
                  "more FLOPs executed (padding, recomputation)"),
        factor_of(a->hfu / compute / (b->hfu / other_compute), "faster kernels", "slower kernels"),
    };
    enum { N = sizeof factors / sizeof *factors };
    qsort(factors, N, sizeof *factors, compare_factors);
    fprintf(file, "%s is %.2fx %s: ", label_of(verdict, first), a->mfu / b->mfu, label_of(verdict, other));
    int n = 0;
    for (int i = 0; i < N; i++) {
        fprintf(file, "%s%s", n > 0 && *factors[i].clause != '\0' ? "; " : "", factors[i].clause);
        n += *factors[i].clause != '\0';
        free(factors[i].clause);
    }
    fputs(n == 0 ? "small differences\n" : "\n", file);
}

/** Write the shares of the GPUs' time of one system. */
static void write_shares(FILE *file, const struct verdict *verdict, int32_t system)
{
    struct time_shares shares = time_shares_of(&verdict->ranked.summaries[system]);
    fprintf(file, "GPU time of %s: ", label_of(verdict, system));
    for (int i = 0, n = 0; i < TIME_N_PARTS; i++)
        if (shares.share[i] >= 0.005)
            fprintf(file, "%s%.0f%% %s", n++ > 0 ? ", " : "", 100 * shares.share[i], time_part_name[i]);
    fputc('\n', file);
}

/** Write which systems tie for the first rank. */
static void write_tie(FILE *file, const struct verdict *verdict)
{
    int32_t n = 1;
    while (n < verdict->n_ranked && verdict->ranked.standings[n].rank == 1)
        n++;
    for (int32_t i = 0; i < n && n > 1; i++)
        fprintf(file, "%s%s",
                i == 0      ? ""
                : i + 1 < n ? ", "
                            : " and ",
                label_of(verdict, verdict->ranked.standings[i].system));
    fputs(n > 1 ? " tie\n" : "", file);
}

/** Write how long samples wait, since systems then train other samples in the measured iterations. */
static void write_delays(FILE *file, const struct verdict *verdict)
{
    int32_t n = 0;
    for (int32_t i = 0; i < verdict->point->n_systems; i++)
        if (verdict->ranked.summaries[i].token_delay > 0.005)
            fprintf(file, n++ == 0 ? "a token waits %.2f iterations on average with %s" : ", %.2f with %s",
                    verdict->ranked.summaries[i].token_delay, label_of(verdict, i));
    fputs(n > 0 ? "; tokens/s are then those of other samples and may be too good: compare MFU\n" : "", file);
}

/** Write how much activations take of the host's memory. */
static void write_host_memory(FILE *file, const struct verdict *verdict)
{
    int32_t n = 0;
    for (int32_t i = 0; i < verdict->point->n_systems; i++) {
        char number[TEXT_NUMBER_SIZE];
        text_number(verdict->ranked.summaries[i].host_peak_bytes / gib, 0, number);
        if (verdict->ranked.summaries[i].host_peak_bytes > 0 && verdict->point->systems[i].fits)
            fprintf(file, "%s%s %s GiB", n++ == 0 ? "offloaded to the host, of a node: " : ", ", label_of(verdict, i),
                    number);
    }
    fputs(n > 0 ? "\n" : "", file);
}

static void write_why(FILE *file, const struct verdict *verdict)
{
    write_tie(file, verdict);
    int32_t first = verdict->ranked.standings[0].system, other = rival_of(verdict);
    if (other >= 0)
        write_reason(file, verdict, first, other);
    else
        write_shares(file, verdict, first);
}

/** Write the settings with which the best system would be faster. */
static void write_settings(FILE *file, const struct verdict *verdict, const struct lengths *lengths)
{
    struct faster_setting settings[FASTER_SETTINGS_MOST];
    const struct scenario_system *entry = verdict->point->systems[verdict->ranked.standings[0].system].entry;
    int32_t n = faster_settings_of(verdict->scenario, lengths, entry, settings);
    for (int32_t i = 0; i < n; i++)
        fprintf(file, "%s%s %s +%.*f%% (is %s)", i == 0 ? "faster settings: " : ", ", settings[i].key,
                settings[i].fastest, settings[i].gain < 0.095 ? 1 : 0, 100 * settings[i].gain, settings[i].now);
    fputs(n > 0 ? "\n" : "", file);
}

/** Write the systems whose fullest GPU is nearly full. */
static void write_pressure(FILE *file, const struct verdict *verdict)
{
    const struct scenario *scenario = verdict->scenario;
    const struct memory_pressure *pressure = &scenario->pressure;
    int32_t n = 0;
    for (int32_t i = 0; i < verdict->point->n_systems; i++) {
        double share = verdict->ranked.summaries[i].peak_bytes * scenario->memory_limit / verdict->point->memory_bytes;
        if (share < pressure->share || share > 1 || !verdict->point->systems[i].fits)
            continue;
        if (n++ < MOST_SHOWN)
            fprintf(file, "%s%s", n == 1 ? "nearly full GPUs, which may be slower than predicted: " : ", ",
                    label_of(verdict, i));
    }
    if (n > MOST_SHOWN)
        fprintf(file, " and %d more", n - MOST_SHOWN);
    fputs(n > 0 ? "\n" : "", file);
}

json_t *verdict_json_of_outside(const struct validated_range *range, const struct scenario *scenario,
                                const struct point *point)
{
    char items[OUTSIDE_MOST][OUTSIDE_SIZE];
    int32_t n = validated_range_outside(range, scenario, point, items);
    json_t *list = json_array();
    for (int32_t i = 0; i < n; i++)
        json_array_append_new(list, json_string(items[i]));
    return list;
}

/** Write the sentences below the table. */
static void write_sentences(FILE *file, const struct verdict *verdict, const struct lengths *lengths,
                            const struct validated_range *range)
{
    static const char system_item[] = "system "; /* only the first of several systems has the word */
    char items[OUTSIDE_MOST][OUTSIDE_SIZE];
    int32_t n = validated_range_outside(range, verdict->scenario, verdict->point, items);
    if (verdict->n_ranked > 0) {
        write_why(file, verdict);
        write_host_memory(file, verdict);
        write_delays(file, verdict);
        write_settings(file, verdict, lengths);
    }
    write_pressure(file, verdict);
    for (int32_t i = 0; i < n; i++) {
        bool again = i > 0 && strncmp(items[i - 1], system_item, strlen(system_item)) == 0;
        fprintf(file, "%s%s", i == 0 ? "outside the measured runs: " : ", ",
                items[i] + (again ? strlen(system_item) : 0));
    }
    fputs(n > 0 ? "\n" : "within the range of the measured runs\n", file);
}

/** Write the ranking and the systems that do not fit, on at most `room` lines. */
static void write_table(FILE *file, const struct verdict *verdict, int32_t room)
{
    enum { HEADING_AND_LEGEND = 3 };
    int32_t n_ranked = verdict->n_ranked, n_misfits = verdict->point->n_systems - n_ranked;
    if (n_ranked > 0) {
        room -= HEADING_AND_LEGEND;
        int32_t least = n_misfits < room / 2 ? n_misfits : room / 2; /* lines for systems that do not fit */
        write_ranking(file, verdict, room - least);
        room -= n_ranked < room - least ? n_ranked : room - least;
    }
    write_misfits(file, verdict, room);
}

static int32_t count_lines(const char *text)
{
    int32_t n = 0;
    for (; *text != '\0'; text++)
        n += *text == '\n';
    return n;
}

void verdict_print(const struct scenario *scenario, const struct lengths *lengths, const struct point *point,
                   const struct validated_range *range)
{
    enum { BLANK_LINES = 2 };
    struct verdict verdict = verdict_of(scenario, lengths, point);
    struct text_limits limits = {VERDICT_COLUMNS, 3, VERDICT_LINES};
    char *head = NULL, *sentences = NULL, *table = NULL;
    size_t n_bytes;
    FILE *file = check_memstream(&sentences, &n_bytes);
    write_sentences(file, &verdict, lengths, range);
    CHECK(fclose(file) == 0);
    file = check_memstream(&head, &n_bytes);
    write_head(file, &verdict, lengths);
    CHECK(fclose(file) == 0);
    int32_t room = VERDICT_LINES - BLANK_LINES - text_wrapped_lines(head, &limits);
    file = check_memstream(&table, &n_bytes);
    write_table(file, &verdict, room - count_lines(sentences));
    CHECK(fclose(file) == 0);
    text_print_wrapped(head, &limits);
    putchar('\n');
    text_print_wrapped(table, &(struct text_limits){VERDICT_COLUMNS, 1, VERDICT_LINES});
    putchar('\n');
    limits.total = room - count_lines(table);
    text_print_wrapped(sentences, &limits);
    free(head);
    free(sentences);
    free(table);
    verdict_free(&verdict);
}
