/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "answer/batch_check.h"

#include <math.h>

#include "base/text.h"

enum { ENOUGH_MICRO_BATCHES = 4, MANY_MICRO_BATCHES = 16, ENOUGH_ITERATIONS = 4, MOST_TOKENS = 1 << 30 };

/** How a system fills its pipelines, by the means of its measured iterations. */
struct filling {
    const char *label; /* NULL: no system fits */
    double pipelines;  /* that run at the same time */
    double idle;       /* of them without samples */
    double filled;     /* micro-batches of a pipeline with samples */
    double padding;    /* share of micro-batches of padding only */
    double tokens;     /* of a micro-batch, with padding */
    int32_t group;     /* micro-batches of a pipeline are a multiple of it */
};

static struct filling filling_of(const struct scenario *scenario, const struct point_system *system)
{
    const struct scenario_plan *plan = &system->entry->plan;
    struct filling filling = {.label = system->entry->label, .group = plan->vpp > 1 ? (int32_t)plan->pp : 1};
    double micro_batches = 0, filled = 0, tokens = 0, n = (double)scenario->measured;
    for (int32_t i = (int32_t)scenario->warm_up; i < system->n_iterations; i++) {
        const struct point_iteration *iteration = &system->iterations[i];
        double pipelines = (double)iteration->row.pipelines / iteration->n_phases;
        filling.pipelines += pipelines / n;
        filling.idle += iteration->n_idle_pipelines / n;
        filling.filled += iteration->n_filled / pipelines / n;
        micro_batches += iteration->row.forward_micro_batches;
        filled += iteration->n_filled;
        tokens += (double)(iteration->row.tokens + iteration->row.padding_tokens);
    }
    filling.padding = 1 - filled / micro_batches;
    filling.tokens = tokens / micro_batches;
    return filling;
}

/** Write a number of tokens as scenarios have it: 4Mi, 96Ki or 1000. */
static void write_tokens(FILE *file, double tokens)
{
    const double ki = 1024, mi = ki * ki;
    double unit = fmod(tokens, mi) == 0 ? mi : fmod(tokens, ki) == 0 ? ki : 1;
    fprintf(file, "%.0f%s", tokens / unit, unit == mi ? "Mi" : unit == ki ? "Ki" : "");
}

/** Write the batch, times a factor. */
static void write_batch(FILE *file, const struct scenario_data *data, int64_t factor)
{
    char number[TEXT_NUMBER_SIZE];
    text_number((double)(data->global_batch * factor), 0, number);
    if (data->global_batch > 0)
        fprintf(file, "%s document%s", number, data->global_batch * factor == 1 ? "" : "s");
    else
        write_tokens(file, (double)(data->global_batch_tokens * factor));
    fputs(data->global_batch > 0 ? "" : " tokens", file);
}

/** Begin a part of the sentence. */
static void begin_part(FILE *file, int *n_parts)
{
    fputs((*n_parts)++ == 0 ? "batch: " : "; ", file);
}

/** Write which pipelines have too few micro-batches. */
static void write_few(FILE *file, const struct scenario *scenario, const struct filling *least, int *n_parts)
{
    int64_t factor = 1;
    if (least->label == NULL || round(least->filled) >= ENOUGH_MICRO_BATCHES)
        return;
    while (least->filled * (double)factor < ENOUGH_MICRO_BATCHES)
        factor *= 2;
    begin_part(file, n_parts);
    write_batch(file, &scenario->data, 1);
    if (least->idle > 0.5)
        fprintf(file, " for %.0f replicas of %s leave %.0f without any", least->pipelines, least->label, least->idle);
    else
        fprintf(file, " give a pipeline of %s %.1f micro-batches", least->label, least->filled);
    fputs(", ", file);
    write_batch(file, &scenario->data, factor);
    fprintf(file, " would give %s%.3g%s", least->idle > 0.5 ? "each " : "", least->filled * (double)factor,
            least->idle > 0.5 ? " micro-batches" : "");
}

/** Write how much of a system's micro-batches is padding, and the batch without it. */
static void write_padding(FILE *file, const struct filling *worst, int *n_parts)
{
    double rounds = worst->group * fmax(1, round(worst->filled / worst->group));
    if (worst->label == NULL || worst->padding <= 0.05)
        return;
    rounds = worst->group * ceil(fmax(rounds, ENOUGH_MICRO_BATCHES) / worst->group);
    begin_part(file, n_parts);
    fprintf(file, "%.0f%% of the micro-batches of %s are padding only", 100 * worst->padding, worst->label);
    double tokens = round(worst->pipelines) * rounds * round(worst->tokens);
    if (tokens > MOST_TOKENS)
        return;
    fputs(", none with data.global_batch_tokens: ", file);
    write_tokens(file, tokens);
}

/** Return whether the critical path has the same first system, by model FLOPs a second. */
static bool path_agrees(const struct point *point, const struct ranked_point *ranked)
{
    int32_t first = ranked->standings[0].system;
    const struct trace_summary *summaries = ranked->summaries;
    for (int32_t i = 0; i < point->n_systems; i++) {
        double rate = summaries[i].model_flop_per_s * summaries[i].time_mean_s / summaries[i].critical_path_mean_s;
        if (i != first && ranked->standings[1].rank > 0 && point->systems[i].fits &&
            rate * summaries[first].critical_path_mean_s >=
                summaries[first].model_flop_per_s * summaries[first].time_mean_s)
            return false;
    }
    return true;
}

/** Write what a doubled batch changes, if it changes the first system. */
static void write_doubled(FILE *file, const struct scenario *doubled, const struct point *point,
                          const struct ranked_point *base, const struct ranked_point *ranked, int *n_parts)
{
    int32_t first = base->standings[0].system, second = base->standings[1].system;
    int32_t now = ranked->standings[0].system, other = now == first ? ranked->standings[1].system : now;
    bool ties = ranked->standings[0].rank == ranked->standings[1].rank;
    double lead = base->summaries[first].mfu / base->summaries[second].mfu - 1;
    double ratio = ranked->summaries[first].mfu / ranked->summaries[other].mfu;
    if (ranked->standings[0].rank != 1 || (now == first && (!ties || ratio - 1 > lead / 2)))
        return;
    begin_part(file, n_parts);
    fputs("with ", file);
    write_batch(file, &doubled->data, 1);
    const char *label = point->systems[first].entry->label, *winner = point->systems[other].entry->label;
    if (ties)
        fprintf(file, " and these plans %s and %s tie (%.2fx, not %.2fx)", label, winner, ratio, lead + 1);
    else
        fprintf(file, " and these plans %s is first, %.2fx %s", winner, 1 / ratio, label);
}

/** Run the plans on a doubled batch. A batch that cannot be drawn or planned tells nothing. */
static void try_doubled(FILE *file, const struct scenario *scenario, const struct point *point,
                        const struct ranked_point *base, int *n_parts)
{
    struct scenario doubled = *scenario;
    struct lengths lengths = {0};
    struct point twice = {0};
    struct error ignored = {0};
    doubled.data.global_batch *= 2;
    doubled.data.global_batch_tokens *= 2;
    doubled.measured = scenario->measured > 3 ? scenario->measured / 2 : 2;
    doubled.engine = SCENARIO_CRITICAL_PATH;
    doubled.trace = SCENARIO_TRACE_NONE;
    if (point_lengths(&doubled, &lengths, &ignored) &&
        point_run(&doubled, &lengths, &(struct point_options){0}, &twice, &ignored)) {
        struct ranked_point ranked = ranked_point_of(&doubled, &twice);
        write_doubled(file, &doubled, point, base, &ranked, n_parts);
        ranked_point_free(&ranked);
    }
    point_free(&twice);
    lengths_close(&lengths);
}

void batch_check_write(FILE *file, const struct scenario *scenario, const struct point *point,
                       const struct ranked_point *ranked, bool doubles)
{
    struct filling least = {0}, worst = {0};
    double interval = 0;
    int n_parts = 0;
    for (int32_t i = 0; i < point->n_systems; i++) {
        const struct trace_summary *summary = &ranked->summaries[i];
        if (!point->systems[i].fits)
            continue;
        struct filling filling = filling_of(scenario, &point->systems[i]);
        least = least.label == NULL || filling.filled < least.filled ? filling : least;
        worst = worst.label == NULL || filling.padding > worst.padding ? filling : worst;
        interval = fmax(interval, summary->tokens_per_s_per_gpu_interval / summary->tokens_per_s_per_gpu);
    }
    write_few(file, scenario, &least, &n_parts);
    write_padding(file, &worst, &n_parts);
    if (interval > 1e-9 && scenario->measured < ENOUGH_ITERATIONS) {
        begin_part(file, &n_parts);
        fprintf(file, "intervals from %lld iterations say little, iterations.measured: %d or more would do",
                (long long)scenario->measured, ENOUGH_ITERATIONS);
    }
    bool sole = point->n_systems > 1 && ranked->standings[0].rank == 1 && ranked->standings[1].rank > 1;
    if (doubles && sole && least.filled < MANY_MICRO_BATCHES && path_agrees(point, ranked))
        try_doubled(file, scenario, point, ranked, &n_parts);
}
