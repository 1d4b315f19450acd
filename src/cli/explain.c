/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file is `slimsim explain`. It says where the time of the GPUs goes from their peak to MFU, and what would help.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "answer/explanation.h"
#include "base/check.h"
#include "base/text.h"
#include "cli/answer.h"
#include "cli/commands.h"
#include "cli/run_document.h"
#include "scenario/scenario_read.h"

enum { COLUMNS = 100, LINES = 20, NAME_COLUMNS = 56, BAR_COLUMNS = 35 };

struct arguments {
    struct options options;
    const char *scenario, *system; /* system: a label; NULL: the first of the ranking */
};

static double path_s(const struct explained *explained)
{
    double sum = 0;
    for (int i = 0; i < PATH_N_CLASSES; i++)
        sum += explained->path.seconds[i];
    return sum;
}

/** Print one step: its share, and a bar from where the steps above it have come to. */
static void print_step(const char *name, double share, double *rest)
{
    int begin = (int)lround(BAR_COLUMNS * fmax(0, *rest - share)), end = (int)lround(BAR_COLUMNS * *rest);
    char bar[BAR_COLUMNS + 1] = "";
    if (end > begin && end <= BAR_COLUMNS) {
        memset(bar, ' ', (size_t)begin);
        memset(bar + begin, '#', (size_t)(end - begin));
    }
    *rest -= share;
    printf("%-*s %6.1f%%%s%s\n", NAME_COLUMNS, name, 100 * share, *bar != '\0' ? " " : "", bar);
}

/** Print the waterfall without steps that round to zero. The three kinds of bubbles share one line. */
static void print_waterfall(const struct explained *explained)
{
    const double *share = explained->share;
    double rest = 1;
    for (int i = 0; i < EXPLAIN_N_STEPS; i++) {
        char name[NAME_COLUMNS + 1];
        double size = share[i];
        snprintf(name, sizeof name, "%s", explain_step_name[i]);
        if (i == EXPLAIN_WARM_UP) {
            snprintf(name, sizeof name, "pipeline bubbles: warm-up %.1f, imbalance %.1f, end %.1f",
                     100 * share[EXPLAIN_WARM_UP], 100 * share[EXPLAIN_IMBALANCE], 100 * share[EXPLAIN_COOL_DOWN]);
            size += share[EXPLAIN_IMBALANCE] + share[EXPLAIN_COOL_DOWN];
        }
        if (i == EXPLAIN_IMBALANCE || i == EXPLAIN_COOL_DOWN || fabs(size) < 0.0005)
            continue;
        print_step(name, size, &rest);
    }
}

static void write_path(FILE *file, const struct explained *explained)
{
    double all_s = path_s(explained);
    fprintf(file, "critical path of %.4g s:", all_s);
    for (int i = 0, n = 0; i < PATH_N_CLASSES; i++)
        if (explained->path.seconds[i] >= 0.0005 * all_s)
            fprintf(file, "%s %s %.3g s (%.1f%%)", n++ > 0 ? "," : "", path_class_name[i], explained->path.seconds[i],
                    100 * explained->path.seconds[i] / all_s);
    fputc('\n', file);
}

static void write_gains(FILE *file, const struct scenario *scenario, const struct explained *explained)
{
    fputs("tokens/s if a cost were zero:", file);
    for (int i = 0; i < N_FREE_COSTS; i++)
        fprintf(file, "%s %s %+.1f%%", i > 0 ? "," : "", free_cost_name[i],
                100 * fabs(explained->gain[i]) < 0.05 ? 0.0 : 100 * explained->gain[i]);
    const struct trace_summary *summary = &explained->summary;
    if (summary->context_bound_mean_s > 0) /* NaN: no context groups */
        fprintf(file, ", DCP's bound %+.1f%%",
                100 * fmax(0, summary->critical_path_mean_s / summary->context_bound_mean_s - 1));
    fprintf(file, " (same plans, critical path of %s)\n",
            scenario->measured == 1 ? "the measured iteration" : "all measured iterations");
}

/** Say so if padding takes GPUs' time, but hardly delays the iteration, since some pipelines have little of it. */
static void write_padding(FILE *file, const struct explained *explained)
{
    double share = explained->share[EXPLAIN_PADDING], gain = explained->gain[FREE_COST_PADDING];
    if (share >= 0.01 && gain < share / 2)
        fprintf(file, "padding is %.1f%% of the GPUs' time, but %s of the slowest pipeline's: without it %+.1f%%\n",
                100 * share, gain < 0.0005 ? "not" : "less", 100 * gain);
}

static void print_system(const struct scenario *scenario, const struct explained *explained)
{
    const struct text_limits limits = {COLUMNS, 4, LINES, NULL};
    char *text = NULL;
    size_t n_bytes;
    FILE *file = check_memstream(&text, &n_bytes);
    fprintf(file, "%s (", explained->label);
    if (explained->summary.rank > 0)
        fprintf(file, "rank %d of %d", explained->summary.rank, scenario->n_systems);
    else
        fputs("does not fit", file);
    fprintf(file, "): %.4g s an iteration, in percent of the peak of %d %s\n", explained->summary.time_mean_s,
            platform_n_gpus(&scenario->platform), scenario->device.name);
    CHECK(fclose(file) == 0);
    text_print_wrapped(text, &limits);
    free(text);
    print_waterfall(explained);
    file = check_memstream(&text, &n_bytes);
    write_path(file, explained);
    write_gains(file, scenario, explained);
    write_padding(file, explained);
    CHECK(fclose(file) == 0);
    text_print_wrapped(text, &limits);
    free(text);
}

static json_t *json_of_system(const struct explained *explained)
{
    json_t *steps = json_array(), *path = json_object(), *gains = json_object();
    for (int i = 0; i < EXPLAIN_N_STEPS; i++)
        json_array_append_new(steps, json_pack("{s:s, s:s, s:f}", "key", explain_step_key[i], "name",
                                               explain_step_name[i], "share", explained->share[i]));
    for (int i = 0; i < PATH_N_CLASSES; i++)
        json_object_set_new(path, path_class_name[i], json_real(explained->path.seconds[i]));
    for (int i = 0; i < N_FREE_COSTS; i++)
        json_object_set_new(gains, free_cost_key[i], json_real(explained->gain[i]));
    return json_pack("{s:s, s:i, s:b, s:f, s:f, s:o, s:f, s:o, s:o}", "label", explained->label, "rank",
                     explained->summary.rank, "fits", explained->summary.fits, "time_mean_s",
                     explained->summary.time_mean_s, "mfu", explained->summary.mfu, "waterfall", steps,
                     "critical_path_mean_s", path_s(explained), "critical_path_s", path, "gain_if_free", gains);
}

static void print_results(const struct scenario *scenario, const struct options *options,
                          const struct explained *explained, int32_t n)
{
    if (!options->json) {
        for (int32_t i = 0; i < n; i++) {
            fputs(i > 0 ? "\n" : "", stdout);
            print_system(scenario, &explained[i]);
        }
        return;
    }
    json_t *systems = json_array();
    for (int32_t i = 0; i < n; i++)
        json_array_append_new(systems, json_of_system(&explained[i]));
    command_print_json(json_pack("{s:s, s:s, s:s, s:i, s:f, s:I, s:o}", "name", scenario->name, "model",
                                 scenario->model.name, "device", scenario->device.name, "gpus",
                                 platform_n_gpus(&scenario->platform), "peak_flop_per_s",
                                 scenario->device.peak_flop_per_s[PRECISION_BF16], "measured_iterations",
                                 (json_int_t)scenario->measured, "systems", systems));
}

/** Find the answer and print it. */
static bool run(const struct arguments *arguments, const struct scenario *scenario, struct error *err)
{
    const struct options *options = &arguments->options;
    struct explanations explanations = {0};
    struct answer_run answer;
    struct explanation_options asked = {.system = -1, .all = options->verbose, .how = &answer.how};
    if (arguments->system != NULL)
        asked.system = scenario_find_system(scenario, arguments->system, arguments->scenario, err);
    if (arguments->system != NULL && asked.system < 0)
        return false;
    char *name = check_asprintf("%s.explain", scenario->name);
    bool ok = answer_begin(&answer, options, "explain", name, err);
    answer.how.critical_path = false; /* runs take the scenario's engine */
    ok = ok && answer_end(&answer, explanations_find(scenario, &asked, &explanations, err));
    if (ok)
        print_results(scenario, options, explanations.at, explanations.n);
    explanations_free(&explanations);
    free(name);
    return ok;
}

static const struct argp_child children[] = {OPTION(set),   OPTION(output),  OPTION(json),
                                             OPTION(quiet), OPTION(verbose), {0}};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    if (key == ARGP_KEY_INIT)
        options_begin(&arguments->options, children, state);
    if (key == 'y') {
        arguments->system = argument;
        return 0;
    }
    return options_parse_file(key, argument, state, "a scenario or a trace", &arguments->scenario);
}

static const struct argp_option system_option[] = {
    {"system", 'y', "LABEL", 0, "Explain this system (default: the first of the ranking; -v: all)", 0}, {0}};
static const struct argp argp = {
    system_option,
    parse,
    "SCENARIO.yaml|RUN.h5|SWEEP#POINT",
    "Explain a system: where the time of the GPUs goes from their peak to MFU, what the "
    "critical path consists of, and how much faster it were if one cost were zero. A trace is explained "
    "by running its scenario again.",
    children,
    NULL,
    NULL};

int command_explain(int argc, char **argv)
{
    struct arguments arguments = {0};
    struct scenario scenario = {0};
    struct lengths lengths = {0};
    struct document document = {0};
    struct scenario_cache cache = {0};
    struct error err = {0};
    parse_arguments(&argp, argc, argv, &arguments);
    bool ok = run_document_read(arguments.scenario, &arguments.options, &document, &err) &&
              scenario_resolve(&document, &cache, &scenario, &err) && command_check(&scenario, &lengths, &err) &&
              run(&arguments, &scenario, &err);
    document_free(&document);
    cache_free(&cache);
    lengths_close(&lengths);
    scenario_free(&scenario);
    options_free(&arguments.options);
    return answer_status(ok, &err);
}
