/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "answer/verdict.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer/batch_check.h"
#include "answer/model_error_json.h"
#include "base/check.h"
#include "base/compare.h"
#include "base/text.h"
#include "cost/states.h"
#include "document/library.h"
#include "document/schema_text.h"
#include "simulate/assumptions.h"
#include "simulate/fitting_change.h"
#include "simulate/plan_text.h"
#include "trace/json.h"

enum { CELL_SIZE = 160, MOST_SHOWN = 4 };
static const double large_swing = 1.2; /* of an iteration's tokens: most over least */

/** All that the parts of a verdict need. */
struct writer {
    const struct scenario *scenario;
    const struct lengths *lengths;
    const struct point *point;
    struct verdict *verdict;
    bool doubles; /* a doubled batch is tried */
    int32_t base; /* system to which speed-ups refer: the first one that fits; -1: none fits */
    char sure[CELL_SIZE], limit[CELL_SIZE]; /* memory of a GPU up to which a plan fits surely and tightly, in GiB */
};

static const char *label_of(const struct writer *writer, int32_t system)
{
    return writer->point->systems[system].entry->label;
}

/** Return what a function writes. The caller frees it. */
static char *written(void (*write)(FILE *file, const struct writer *writer), const struct writer *writer)
{
    char *text = NULL;
    size_t n_bytes;
    FILE *file = check_memstream(&text, &n_bytes);
    write(file, writer);
    CHECK(fclose(file) == 0);
    return text;
}

/** Write the sequences of an iteration and their tokens. */
static void write_data(FILE *file, const struct scenario_data *data)
{
    char context[TEXT_NUMBER_SIZE], batch[TEXT_NUMBER_SIZE];
    const char *plural = data->global_batch == 1 ? "" : "s";
    const char *lengths = scenario_lists_lengths(data) ? "listed"
                          : data->n_parts == 0         ? data->lengths
                          : data->scheduled            ? "scheduled"
                                                       : "mixed";
    text_number((double)data->context, 0, context);
    int64_t n_sequences = data->global_batch_tokens / data->context;
    text_number((double)(n_sequences > 0 ? n_sequences : data->global_batch), 0, batch);
    if (n_sequences > 0)
        fprintf(file, "%s sequence%s of %s tokens packed from %s documents", batch, n_sequences == 1 ? "" : "s",
                context, lengths);
    else if (strcmp(data->lengths, "fixed") == 0)
        fprintf(file, "%s sequence%s of %s tokens", batch, plural, context);
    else
        fprintf(file, "%s %s document%s up to %s tokens", batch, lengths, plural, context);
}

/** Write whether results have intervals. */
static void write_iterations(FILE *file, const struct writer *writer)
{
    const struct scenario *scenario = writer->scenario;
    bool alike = true;
    for (int32_t i = 0; i < writer->point->n_systems; i++)
        alike = alike && writer->verdict->ranked.summaries[i].tokens_per_s_per_gpu_interval <
                             1e-9 * writer->verdict->ranked.summaries[i].tokens_per_s_per_gpu;
    fprintf(file, "%lld iteration%s", (long long)scenario->measured, scenario->measured == 1 ? "" : "s");
    if (scenario->warm_up > 0)
        fprintf(file, " after %lld warm-up", (long long)scenario->warm_up);
    fprintf(file, ", seed %lld", (long long)scenario->seed);
    if (scenario->measured > 1 && alike)
        fputs(", all alike", file);
    else if (scenario->measured == 1)
        fputs(", no interval", file);
}

/** Write the model, and the parameters of one with experts, or of a user's own, so that its file can be checked. */
static void write_language_model(FILE *file, const struct scenario *scenario)
{
    const struct model *model = &scenario->model;
    double parameters = cost_model_parameters(model);
    fputs(model->name, file);
    if (model_has_experts(model))
        fprintf(file, " (%.4gB, %.3gB active)", parameters / 1e9, cost_model_active_parameters(model) / 1e9);
    else if (library_is_path(scenario->model_name, model_suffix(scenario->model_name)))
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
    fprintf(file, "%s, NIC %gGbps", platform_has_nvlink(platform) ? "" : ", no NVLink",
            8 * platform->nic_bytes_per_s / 1e9);
    if (keys->topology != PLATFORM_FAT_TREE)
        fprintf(file, ", %s", topology);
    if (keys->oversubscription != 1)
        fprintf(file, ", oversubscription %g", keys->oversubscription);
}

/** Write what was asked, a line each, and notes that hold for all numbers. */
static void write_head(FILE *file, const struct writer *writer)
{
    const struct scenario *scenario = writer->scenario;
    const char *const engine = scenario->engine == SCENARIO_CRITICAL_PATH ? "critical path" : "SimGrid";
    char note[ASSUMPTIONS_SIZE], attention[SCHEMA_WORD_BYTES], precision[SCHEMA_WORD_BYTES];
    fprintf(file, "%s: ", scenario->name);
    write_language_model(file, scenario);
    fprintf(file, " on %d x %s (", platform_n_gpus(&scenario->platform), scenario->device.name);
    write_platform(file, &scenario->platform);
    fputs("), ", file);
    write_data(file, &scenario->data);
    schema_choice_name(DEVICE_ATTENTION, scenario->attention, attention);
    schema_choice_name(PRECISION_NAMES, scenario->precision, precision);
    fprintf(file, "\nframework %s, attention %s, ", scenario->framework_name, attention);
    fprintf(file, "%s%s%s; ", scenario->precision == PRECISION_BF16 ? "" : precision,
            scenario->precision == PRECISION_BF16 ? "" : ", ", engine);
    write_iterations(file, writer);
    fputc('\n', file);
    if (assumptions_long_documents(&scenario->data, writer->lengths, note))
        fprintf(file, "%s\n", note);
    if (assumptions_copied_curves(&scenario->device, note))
        fprintf(file, "%s\n", note);
    int32_t first = writer->verdict->ranked.standings[0].system;
    if (assumptions_scaled_attention(scenario, label_of(writer, first), &writer->verdict->ranked.summaries[first],
                                     note))
        fprintf(file, "%s\n", note);
    if (assumptions_unlike_nvlink(&scenario->platform, &scenario->device, note))
        fprintf(file, "%s\n", note);
    if (assumptions_oversubscription(scenario, note))
        fprintf(file, "%s\n", note);
    if (scenario->n_faults > 0)
        fprintf(file, "%s\n", assumptions_faults(scenario, note));
    if (assumptions_replay(&scenario->replay, note))
        fprintf(file, "%s\n", note);
    if (assumptions_jitter(&scenario->jitter, note))
        fprintf(file, "%s\n", note);
}

static void write_label(FILE *file, const struct writer *writer, const struct standing *standing)
{
    if (standing->rank > 0 && writer->verdict->n_ranked > 1)
        fprintf(file, "%*d ", writer->point->n_systems > 9 ? 2 : 1, standing->rank);
    fputs(label_of(writer, standing->system), file);
}

/** Write how much faster a system is than the base. The interval is that of the ratio to the first system. */
static void write_speed_up(FILE *file, const struct writer *writer, int32_t system)
{
    const struct trace_summary *summaries = writer->verdict->ranked.summaries;
    double half = summaries[system].speed_up_interval;
    fprintf(file, "%.2fx", summaries[system].mfu / summaries[writer->base].mfu);
    if (writer->base == 0 && system > 0 && half > 1e-9) /* not NaN */
        fprintf(file, " ± %.2f", half);
}

static bool is_alone(const struct writer *writer)
{
    return writer->verdict->n_ranked == 1;
}

/** Return whether the scenario has a price, so that tokens cost money. */
static bool is_priced(const struct writer *writer)
{
    return writer->point->n_systems > 0 && !isnan(writer->verdict->ranked.summaries[0].usd_per_1t_tokens);
}

/** Write the results of a system that fits, a cell each. A system alone has no speed-up. */
static void write_results(FILE *file, const struct writer *writer, int32_t system)
{
    const struct trace_summary *summary = &writer->verdict->ranked.summaries[system];
    struct time_shares shares = time_shares_of(summary);
    char number[TEXT_NUMBER_SIZE];
    int decimals = summary->tokens_per_s_per_gpu < 100;
    text_number(summary->tokens_per_s_per_gpu, decimals, number);
    fprintf(file, "\t%s", number);
    text_number(summary->tokens_per_s_per_gpu_interval, decimals, number);
    if (summary->tokens_per_s_per_gpu_interval > 1e-9 * summary->tokens_per_s_per_gpu) /* not NaN */
        fprintf(file, " ± %s", number);
    text_number(summary->time_mean_s, summary->time_mean_s < 10 ? 2 : summary->time_mean_s < 100 ? 1 : 0, number);
    fprintf(file, "\t%s s\t%.0f%%\t%.0f%%\t%.0f%%\t%.1f%s", number, 100 * summary->mfu,
            100 * shares.share[TIME_WAITING], 100 * time_exposed(&shares), summary->peak_bytes / TEXT_GIB,
            summary->tight ? " tight" : "");
    if (is_priced(writer)) {
        char usd[TEXT_AMOUNT_SIZE];
        text_amount("$", summary->usd_per_1t_tokens, usd);
        fprintf(file, "\t%s", usd);
    }
    if (!is_alone(writer)) {
        fputc('\t', file);
        write_speed_up(file, writer, system);
    }
}

/** Return a row of the ranking. @param place  -1: the headings */
static char *row_of(const struct writer *writer, int32_t place)
{
    if (place < 0)
        return check_asprintf("system\ttokens/s/GPU\ttime\tMFU\tidle\tcomm\tGiB%s%s\tplan, recompute, offload",
                              is_priced(writer) ? "\t$/1T" : "", is_alone(writer) ? "" : "\tspeed-up");
    const struct standing *standing = &writer->verdict->ranked.standings[place];
    const struct trace_summary *summary = &writer->verdict->ranked.summaries[standing->system];
    char *row = NULL, plan[PLAN_TEXT_NAME_SIZE];
    size_t n_bytes;
    FILE *file = check_memstream(&row, &n_bytes);
    write_label(file, writer, standing);
    if (standing->rank > 0)
        write_results(file, writer, standing->system);
    else
        fprintf(file, "\tdoes not fit\t\t\t\t\t%.1f%s%s", summary->peak_bytes / TEXT_GIB, is_priced(writer) ? "\t" : "",
                is_alone(writer) ? "" : "\t");
    plan_text_name(&writer->point->systems[standing->system].entry->plan, summary->host_peak_bytes > 0, plan);
    fprintf(file, "\t%s", plan);
    CHECK(fclose(file) == 0);
    return row;
}

static bool any_tie(const struct writer *writer)
{
    bool any = false;
    for (int32_t i = 1; i < writer->verdict->n_ranked; i++)
        any = any || writer->verdict->ranked.standings[i].rank == writer->verdict->ranked.standings[i - 1].rank;
    return any;
}

/** Write what the columns of the ranking are. */
static void write_legend(FILE *file, const struct writer *writer)
{
    fprintf(file, "idle: bubbles, comm: exposed communication, of GPU time; GiB: peak, fits to %s, tightly to %s\n",
            writer->sure, writer->limit);
    if (writer->verdict->n_ranked > 1)
        fprintf(file, "speed-up: model FLOPs a second over %s%s%s", label_of(writer, writer->base),
                any_tie(writer) ? "; equal ranks tie (95% interval)" : "", is_priced(writer) ? "; " : "\n");
    if (is_priced(writer))
        fputs("$/1T: money of a trillion tokens without failures\n", file);
}

/** Return the change that would fit, or the one that comes nearest. */
static char *change_of(const struct writer *writer, int32_t system)
{
    const struct fitting_change change =
        fitting_change_of(writer->scenario, writer->lengths, &writer->point->systems[system]);
    const struct trace_summary *summary = &writer->verdict->ranked.summaries[system];
    struct evaluation_limits limits = evaluation_limits_of(writer->point->memory_bytes, &writer->scenario->platform);
    enum exceeded_limit exceeded = evaluation_exceeds(&change.evaluation, &limits);
    bool host = exceeded == EXCEEDED_HOST_MEMORY;
    double bytes = host ? change.evaluation.host_bytes : change.evaluation.peak_bytes;
    struct evaluation now = {.peak_bytes = summary->peak_bytes, .host_bytes = summary->host_peak_bytes};
    bool useless = evaluation_excess(&change.evaluation, &limits) > 0.999 * evaluation_excess(&now, &limits);
    if (*change.text == '\0')
        return check_strdup("no single change of its plan is possible");
    if (useless)
        return check_strdup("no single change of its plan needs less");
    if (exceeded == EXCEEDED_NONE)
        return check_asprintf("%s would fit%s, %.1f GiB", change.text, change.fits ? "" : " tightly", bytes / TEXT_GIB);
    if (bytes > 2 * (host ? limits.host_bytes : limits.gpu_bytes))
        return check_asprintf("no single change fits: the nearest leaves %.1f GiB%s; take more or larger GPUs",
                              bytes / TEXT_GIB, host ? " of host memory" : "");
    return check_asprintf("no single change fits; nearest: %s, %.1f GiB%s", change.text, bytes / TEXT_GIB,
                          host ? " of host memory" : "");
}

/**
 * Return the system that the first one is compared with: that of the speed-ups. If that one is or ties the first,
 * return the best that is no tie; -1: there is none.
 */
static int32_t rival_of(const struct writer *writer)
{
    for (int32_t i = 1; i < writer->verdict->n_ranked; i++)
        if (writer->verdict->ranked.standings[i].system == writer->base &&
            writer->verdict->ranked.standings[i].rank > 1)
            return writer->base;
    for (int32_t i = 1; i < writer->verdict->n_ranked; i++)
        if (writer->verdict->ranked.standings[i].rank > 1)
            return writer->verdict->ranked.standings[i].system;
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
    char *clause = percent < 1  ? check_strdup("")
                   : ratio >= 2 ? check_asprintf("%.1fx %s", ratio, more)
                                : check_asprintf("%.0f%% %s", percent, ratio > 1 ? more : less);
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
static void write_reason(FILE *file, const struct writer *writer, int32_t first, int32_t other)
{
    const struct trace_summary *a = &writer->verdict->ranked.summaries[first],
                               *b = &writer->verdict->ranked.summaries[other];
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
    fprintf(file, "%s is %.2fx %s: ", label_of(writer, first), a->mfu / b->mfu, label_of(writer, other));
    int n = 0;
    for (int i = 0; i < N; i++) {
        fprintf(file, "%s%s", n > 0 && *factors[i].clause != '\0' ? "; " : "", factors[i].clause);
        n += *factors[i].clause != '\0';
        free(factors[i].clause);
    }
    fputs(n == 0 ? "small differences" : "", file);
}

/** Write the shares of the GPUs' time of one system. */
static void write_shares(FILE *file, const struct writer *writer, int32_t system)
{
    struct time_shares shares = time_shares_of(&writer->verdict->ranked.summaries[system]);
    fprintf(file, "GPU time of %s: ", label_of(writer, system));
    for (int i = 0, n = 0; i < TIME_N_PARTS; i++)
        if (shares.share[i] >= 0.005)
            fprintf(file, "%s%.0f%% %s", n++ > 0 ? ", " : "", 100 * shares.share[i], time_part_name[i]);
}

/** Write which systems tie for the first rank. */
static void write_tie(FILE *file, const struct writer *writer)
{
    int32_t n = 1;
    while (n < writer->verdict->n_ranked && writer->verdict->ranked.standings[n].rank == 1)
        n++;
    for (int32_t i = 0; i < n && n > 1; i++)
        fprintf(file, "%s%s",
                i == 0      ? ""
                : i + 1 < n ? ", "
                            : " and ",
                label_of(writer, writer->verdict->ranked.standings[i].system));
    fputs(n > 1 ? " tie" : "", file);
}

/** Write how many tokens the smallest and the largest measured iteration of a system has, if they differ much. */
static void write_swing(FILE *file, const struct point_system *system)
{
    double least = INFINITY, most = 0;
    char from[TEXT_AMOUNT_SIZE], to[TEXT_AMOUNT_SIZE];
    for (int32_t i = 0; i < system->n_iterations; i++)
        if (system->iterations[i].row.measured) {
            least = fmin(least, (double)system->iterations[i].row.tokens);
            most = fmax(most, (double)system->iterations[i].row.tokens);
        }
    text_amount("", least, from);
    text_amount("", most, to);
    if (most > large_swing * least)
        fprintf(file, " (its iterations have %s to %s tokens)", from, to);
}

/** Write how long samples wait, since systems then train other samples in the measured iterations. */
static void write_delays(FILE *file, const struct writer *writer)
{
    int32_t n = 0;
    for (int32_t i = 0; i < writer->point->n_systems; i++) {
        if (!(writer->verdict->ranked.summaries[i].token_delay > 0.005)) /* NaN: none was trained */
            continue;
        fprintf(file,
                n++ == 0 ? "compare MFU, since tokens/s are those of other samples and may be too good: a token waits "
                           "%.2f iterations on average with %s"
                         : ", %.2f with %s",
                writer->verdict->ranked.summaries[i].token_delay, label_of(writer, i));
        write_swing(file, &writer->point->systems[i]);
    }
}

/** Write how much faster DCP could make the ranked systems that have context parallelism. On SimGrid that includes all
 * contention, since the bound has none. */
static void write_context(FILE *file, const struct writer *writer)
{
    int32_t n = 0;
    for (int32_t i = 0; i < writer->verdict->n_ranked; i++) {
        int32_t system = writer->verdict->ranked.standings[i].system;
        const struct trace_summary *summary = &writer->verdict->ranked.summaries[system];
        double gain = summary->time_mean_s / summary->context_bound_mean_s - 1;
        if (!(summary->context_bound_mean_s > 0) || n++ >= MOST_SHOWN) /* NaN is not above 0 */
            continue;
        fprintf(file, "%s%s %+.1f%%", n == 1 ? "DCP (free placement of attention) gains at most: " : ", ",
                label_of(writer, system), 100 * fmax(0, gain));
    }
    if (n > MOST_SHOWN)
        fprintf(file, ", and %d more", n - MOST_SHOWN);
    fputs(n > 0 ? " (context groups in perfect balance, their communication free)" : "", file);
}

/** Write up to which imbalance of experts the plans fit. */
static void write_experts(FILE *file, const struct writer *writer)
{
    int32_t n = 0;
    for (int32_t i = 0; i < writer->verdict->n_ranked; i++) {
        int32_t system = writer->verdict->ranked.standings[i].system;
        double imbalance = writer->verdict->fitting_imbalance[system];
        if (isnan(imbalance) || n++ >= MOST_SHOWN)
            continue;
        double ep = (double)writer->point->systems[system].entry->plan.ep;
        fprintf(file, "%s%s ",
                n == 1 ? "experts: memory holds so many times the mean tokens on the busiest rank: " : ", ",
                label_of(writer, system));
        if (imbalance >= ep) /* one rank has all tokens */
            fputs("any", file);
        else
            fprintf(file, "%s%g", imbalance >= 8 ? "at least " : "", imbalance);
    }
    if (n > MOST_SHOWN)
        fprintf(file, ", and %d more", n - MOST_SHOWN);
    if (n > 0)
        fprintf(file, " (computed with %g)", writer->scenario->expert_imbalance);
}

/** Write what real routing of experts cost in measured pairs. */
static void write_routing(FILE *file, const struct writer *writer)
{
    if (writer->verdict->routing.pairs > 0)
        expert_routing_write(file, &writer->verdict->routing);
}

/** Return up to which imbalance of experts a system fits, NaN if it does not or if each rank has all experts. */
static double imbalance_of(const struct writer *writer, int32_t system)
{
    const struct point_system *of = &writer->point->systems[system];
    bool shares = of->entry->plan.ep > 1 && writer->scenario->replay.n_steps == 0;
    return of->fits && shares ? fitting_imbalance_of(writer->scenario, writer->lengths, of) : NAN;
}

/** Write how much activations take of the host's memory. */
static void write_host_memory(FILE *file, const struct writer *writer)
{
    int32_t n = 0;
    for (int32_t i = 0; i < writer->point->n_systems; i++) {
        char number[TEXT_NUMBER_SIZE];
        text_number(writer->verdict->ranked.summaries[i].host_peak_bytes / TEXT_GIB, 0, number);
        if (writer->verdict->ranked.summaries[i].host_peak_bytes > 0 && writer->point->systems[i].fits)
            fprintf(file, "%s%s %s GiB", n++ == 0 ? "offloaded to the host, of a node: " : ", ", label_of(writer, i),
                    number);
    }
}

static void write_why(FILE *file, const struct writer *writer)
{
    int32_t first = writer->verdict->ranked.standings[0].system, other = rival_of(writer);
    if (other >= 0)
        write_reason(file, writer, first, other);
    else
        write_shares(file, writer, first);
}

/** Write the settings with which the first system would be faster. */
static void write_settings(FILE *file, const struct writer *writer)
{
    for (int32_t i = 0; i < writer->verdict->n_settings; i++) {
        const struct faster_setting *setting = &writer->verdict->settings[i];
        fprintf(file, "%s%s %s +%.*f%% (is %s)", i == 0 ? "faster settings (tokens/s): " : ", ", setting->key,
                setting->fastest, setting->gain < 0.095 ? 1 : 0, 100 * setting->gain, setting->now);
    }
}

/** Write the systems that fit only tightly, and the faster plans that `fits: tight` would allow. */
static void write_tight(FILE *file, const struct writer *writer)
{
    int32_t n = 0;
    for (int32_t i = 0; i < writer->point->n_systems; i++)
        if (writer->verdict->ranked.summaries[i].tight && n++ < MOST_SHOWN)
            fprintf(file, "%s%s", n == 1 ? "fits tightly: " : ", ", label_of(writer, i));
    if (n > MOST_SHOWN)
        fprintf(file, " and %d more", n - MOST_SHOWN);
    if (n > 0)
        fprintf(file, " (PyTorch's allocator reserves up to %.0f%% more, so it may run out of memory or be slower)",
                100 * writer->scenario->pressure.reserve_most);
    for (int32_t i = 0; i < writer->point->n_systems; i++) {
        const struct scenario_tight *tight = &writer->point->systems[i].entry->tight;
        char plan[PLAN_TEXT_NAME_SIZE];
        if (tight->faster_by <= 0)
            continue;
        plan_text_name(&tight->plan, tight->plan.offload > 0, plan);
        fprintf(file, "%swith fits: tight %s may take %s, %.0f%% faster", n++ > 0 ? "; " : "", label_of(writer, i),
                plan, 100 * tight->faster_by);
    }
}

/** Write the range of the first system: that of the batches, and that by the model's error, which all systems share. */
static void write_model(FILE *file, const struct writer *writer)
{
    int32_t first = writer->verdict->ranked.standings[0].system;
    const struct trace_summary *summary = &writer->verdict->ranked.summaries[first];
    if (writer->scenario->replay.n_steps > 0) /* the errors are those of computed passes */
        return;
    fprintf(file, "%s: ", label_of(writer, first));
    model_error_write(file, &writer->verdict->error, summary->tokens_per_s_per_gpu,
                      summary->tokens_per_s_per_gpu_interval);
}

static void write_outside(FILE *file, const struct writer *writer)
{
    static const char system_item[] = "system "; /* only the first of several systems has the word */
    const struct verdict *verdict = writer->verdict;
    for (int32_t i = 0; i < verdict->n_outside; i++) {
        bool again = i > 0 && strncmp(verdict->outside[i - 1], system_item, strlen(system_item)) == 0;
        fprintf(file, "%s%s", i == 0 ? "outside the measured runs: " : ", ",
                verdict->outside[i] + (again ? strlen(system_item) : 0));
    }
    fputs(verdict->n_outside > 0 ? "" : "within the range of the measured runs", file);
}

static void write_batch_check(FILE *file, const struct writer *writer)
{
    batch_check_write(file, writer->scenario, writer->point, &writer->verdict->ranked, writer->doubles);
}

/** The functions of the sentences. Some need a system that fits. */
static const struct {
    void (*write)(FILE *file, const struct writer *writer);
    bool needs_fit;
} sentences[VERDICT_N_SENTENCES] = {
    [VERDICT_BATCH] = {write_batch_check, true}, [VERDICT_TIE] = {write_tie, true},
    [VERDICT_REASON] = {write_why, true},        [VERDICT_HOST_MEMORY] = {write_host_memory, true},
    [VERDICT_DELAYS] = {write_delays, true},     [VERDICT_CONTEXT] = {write_context, true},
    [VERDICT_EXPERTS] = {write_experts, true},   [VERDICT_ROUTING] = {write_routing, true},
    [VERDICT_SETTINGS] = {write_settings, true}, [VERDICT_FITS] = {write_tight, false},
    [VERDICT_MODEL] = {write_model, true},       [VERDICT_OUTSIDE] = {write_outside, false},
};

/** Read what the measured runs say about a point. */
static bool read_measured(const struct scenario *scenario, const struct point *point, struct verdict *verdict,
                          struct error *err)
{
    struct validated_range range;
    int64_t cp = 1;
    int32_t first = verdict->ranked.standings[0].system;
    bool routed = false; /* padding up to the capacity takes the same time with any routing */
    for (int32_t i = 0; i < point->n_systems; i++) {
        const struct scenario_plan *plan = &point->systems[i].entry->plan;
        cp = plan->cp > cp ? plan->cp : cp;
        routed = routed || !plan->pad_to_capacity;
    }
    if (!validated_range_read(scenario_data_dir(), &range, err) ||
        !model_error_read(scenario_data_dir(), scenario, cp, point->systems[first].entry->plan.sharding,
                          &verdict->error, err) ||
        (routed && expert_routing_is_balanced(scenario) &&
         !expert_routing_read(scenario_data_dir(), &verdict->routing, err)))
        return false;
    verdict->n_outside = validated_range_outside(&range, scenario, point, verdict->outside);
    return true;
}

bool verdict_make(const struct scenario *scenario, const struct lengths *lengths, const struct point *point,
                  bool doubles, struct verdict *verdict, struct error *err)
{
    struct writer writer = {scenario, lengths, point, verdict, doubles, -1, "", ""};
    size_t n = (size_t)point->n_systems;
    *verdict = (struct verdict){0};
    verdict->point = point;
    verdict->ranked = ranked_point_of(scenario, point);
    if (!read_measured(scenario, point, verdict, err)) {
        verdict_free(verdict);
        return false;
    }
    text_number(request_sure_bytes(scenario) / TEXT_GIB, 1, writer.sure);
    text_number(point->memory_bytes / TEXT_GIB, 1, writer.limit);
    for (int32_t i = 0; i < point->n_systems; i++)
        if (point->systems[i].fits && verdict->n_ranked++ == 0)
            writer.base = i;
    const struct scenario_system *first = point->systems[verdict->ranked.standings[0].system].entry;
    if (verdict->n_ranked > 0)
        verdict->n_settings = faster_settings_of(scenario, lengths, first, verdict->settings);
    verdict->head = written(write_head, &writer);
    verdict->legend = written(write_legend, &writer);
    verdict->ranking = check_calloc(1 + n, sizeof *verdict->ranking);
    verdict->exceeded_limit = check_calloc(n, sizeof *verdict->exceeded_limit);
    verdict->would_fit = check_calloc(n, sizeof *verdict->would_fit);
    verdict->fitting_imbalance = check_malloc(n * sizeof *verdict->fitting_imbalance);
    for (int32_t i = 0; i < point->n_systems; i++)
        verdict->fitting_imbalance[i] = imbalance_of(&writer, i);
    for (int32_t i = -1; i < point->n_systems; i++)
        verdict->ranking[1 + i] = row_of(&writer, i);
    for (int32_t i = 0; i < point->n_systems; i++)
        if (!point->systems[i].fits) {
            verdict->exceeded_limit[i] = summary_lack_text(&verdict->ranked.summaries[i]);
            verdict->would_fit[i] = change_of(&writer, i);
        }
    for (int i = 0; i < VERDICT_N_SENTENCES; i++)
        verdict->sentence[i] =
            verdict->n_ranked > 0 || !sentences[i].needs_fit ? written(sentences[i].write, &writer) : check_strdup("");
    return true;
}

/** Return the lines of the verdict: sentences, and systems that do not fit after the reason. The caller frees. */
static char **lines_of(const struct verdict *verdict, int32_t *n)
{
    char **lines = check_calloc((size_t)verdict->point->n_systems + VERDICT_N_SENTENCES, sizeof *lines);
    *n = 0;
    for (int k = 0; k < VERDICT_N_SENTENCES; k++) {
        if (*verdict->sentence[k] != '\0')
            lines[(*n)++] = check_strdup(verdict->sentence[k]);
        for (int32_t i = 0; k == VERDICT_REASON && i < verdict->point->n_systems; i++)
            if (verdict->exceeded_limit[i] != NULL)
                lines[(*n)++] = check_asprintf("%s does not fit: %s; %s", verdict->point->systems[i].entry->label,
                                               verdict->exceeded_limit[i], verdict->would_fit[i]);
    }
    return lines;
}

static void free_texts(char **texts, int32_t n)
{
    for (int32_t i = 0; texts != NULL && i < n; i++)
        free(texts[i]);
    free(texts);
}

bool verdict_record(const struct verdict *verdict, struct trace *trace, struct error *err)
{
    int32_t n_systems = verdict->point->n_systems, n, n_settings = verdict->n_settings;
    char **lines = lines_of(verdict, &n), **settings = check_calloc((size_t)n_settings + 1, sizeof *settings);
    const char **would_fit = check_calloc((size_t)n_systems, sizeof *would_fit);
    char **ranges = check_calloc((size_t)n_systems, sizeof *ranges);
    for (int32_t i = 0; i < n_systems; i++) {
        struct model_interval interval =
            model_error_interval(&verdict->error, verdict->ranked.summaries[i].tokens_per_s_per_gpu);
        ranges[i] = check_asprintf("%.17g\t%.17g", interval.p5, interval.p95);
    }
    for (int32_t i = 0; i < n_systems; i++)
        would_fit[i] = verdict->would_fit[i] != NULL ? verdict->would_fit[i] : "";
    for (int32_t i = 0; i < n_settings; i++)
        settings[i] = check_asprintf("%s=%s", verdict->settings[i].key, verdict->settings[i].fastest);
    bool ok =
        trace_set_text(trace, "head", verdict->head, err) && trace_set_text(trace, "legend", verdict->legend, err) &&
        trace_set_texts(trace, "ranking", 1 + n_systems, (const char *const *)verdict->ranking, err) &&
        trace_set_texts(trace, "verdict", n, (const char *const *)lines, err) &&
        trace_set_texts(trace, "would_fit", n_systems, would_fit, err) &&
        trace_set_texts(trace, "model_range", n_systems, (const char *const *)ranges, err) &&
        trace_set_text(trace, "model_error", verdict->error.basis, err) &&
        (n_settings == 0 || trace_set_texts(trace, "faster_settings", n_settings, (const char *const *)settings, err));
    free_texts(lines, n);
    free_texts(settings, n_settings);
    free_texts(ranges, n_systems);
    free(would_fit);
    return ok;
}

bool verdict_record_point(const struct scenario *scenario, const struct lengths *lengths, const struct point *point,
                          struct trace *trace, struct error *err)
{
    struct verdict verdict = {0};
    bool ok = verdict_make(scenario, lengths, point, false, &verdict, err) && verdict_record(&verdict, trace, err);
    verdict_free(&verdict);
    return ok;
}

/** Return the plan that `fits: tight` would allow; null: none is faster. */
static json_t *tight_json(const struct scenario_tight *tight)
{
    char plan[PLAN_TEXT_NAME_SIZE];
    if (tight->faster_by <= 0)
        return json_null();
    plan_text_name(&tight->plan, tight->plan.offload > 0, plan);
    return json_pack("{s:s, s:f}", "plan_text", plan, "faster_by", tight->faster_by);
}

void verdict_add_json(const struct verdict *verdict, json_t *point)
{
    int32_t n;
    char **lines = lines_of(verdict, &n);
    json_t *settings = json_array(), *outside = json_array(), *ties = json_array();
    for (int32_t i = 0; i < verdict->n_settings; i++) {
        const struct faster_setting *setting = &verdict->settings[i];
        json_array_append_new(settings, json_pack("{s:s, s:s, s:s, s:f}", "key", setting->key, "now", setting->now,
                                                  "fastest", setting->fastest, "gain", setting->gain));
    }
    for (int32_t i = 0; i < verdict->n_outside; i++)
        json_array_append_new(outside, json_string(verdict->outside[i]));
    for (int32_t i = 0; *verdict->sentence[VERDICT_TIE] != '\0' && i < verdict->n_ranked; i++)
        if (verdict->ranked.standings[i].rank == 1)
            json_array_append_new(
                ties, json_string(verdict->point->systems[verdict->ranked.standings[i].system].entry->label));
    for (int32_t i = 0; i < verdict->point->n_systems; i++) {
        json_t *system = json_array_get(json_object_get(point, "systems"), (size_t)i);
        struct model_interval interval =
            model_error_interval(&verdict->error, verdict->ranked.summaries[i].tokens_per_s_per_gpu);
        json_object_set_new(system, "would_fit",
                            verdict->would_fit[i] != NULL ? json_string(verdict->would_fit[i]) : json_null());
        json_object_set_new(system, "model_interval", model_interval_json(&interval));
        json_object_set_new(system, "fitting_imbalance", json_of_number(verdict->fitting_imbalance[i]));
        json_object_set_new(system, "faster_if_tight", tight_json(&verdict->point->systems[i].entry->tight));
    }
    json_object_update_new(
        point, json_pack("{s:o, s:o, s:s, s:o, s:o, s:o}", "verdict", json_of_texts(n, (const char *const *)lines),
                         "ties", ties, "reason", verdict->sentence[VERDICT_REASON], "faster_settings", settings,
                         "outside_measured_runs", outside, "model_error", model_error_json(&verdict->error)));
    if (verdict->routing.pairs > 0)
        json_object_set_new(point, "expert_routing",
                            json_pack("{s:I, s:f, s:f}", "pairs", (json_int_t)verdict->routing.pairs, "least",
                                      verdict->routing.least, "most", verdict->routing.most));
    free_texts(lines, n);
}

void verdict_free(struct verdict *verdict)
{
    if (verdict->point == NULL)
        return;
    int32_t n = verdict->point->n_systems;
    free_texts(verdict->ranking, 1 + n);
    free_texts(verdict->exceeded_limit, n);
    free_texts(verdict->would_fit, n);
    free(verdict->fitting_imbalance);
    for (int i = 0; i < VERDICT_N_SENTENCES; i++)
        free(verdict->sentence[i]);
    free(verdict->head);
    free(verdict->legend);
    ranked_point_free(&verdict->ranked);
    *verdict = (struct verdict){0};
}
