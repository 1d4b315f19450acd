/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file is `slimsim explain`. It says where the time of the GPUs goes from their peak to MFU, and what would help.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/cores.h"
#include "base/status_line.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/plan_search.h"
#include "cli/run_document.h"
#include "scenario/scenario_read.h"
#include "simulate/explain.h"
#include "simulate/faster_setting.h"
#include "simulate/standing.h"

enum { COLUMNS = 100, LINES = 20, NAME_COLUMNS = 56, BAR_COLUMNS = 35 };

struct arguments {
    struct options options;
    const char *scenario, *system; /* system: a label; NULL: the first of the ranking */
};

/** A system that is explained. */
struct explained {
    const struct point_system *system;
    int32_t rank;
    struct point_summary summary;
    struct explanation explanation;
};

static double path_s(const struct explanation *explanation)
{
    double sum = 0;
    for (int i = 0; i < PATH_N_CLASSES; i++)
        sum += explanation->path.seconds[i];
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
static void print_waterfall(const struct explanation *explanation)
{
    const double *share = explanation->share;
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

static void write_path(FILE *file, const struct explanation *explanation)
{
    double all_s = path_s(explanation);
    fprintf(file, "critical path of %.4g s:", all_s);
    for (int i = 0, n = 0; i < PATH_N_CLASSES; i++)
        if (explanation->path.seconds[i] >= 0.0005 * all_s)
            fprintf(file, "%s %s %.3g s (%.1f%%)", n++ > 0 ? "," : "", path_class_name[i], explanation->path.seconds[i],
                    100 * explanation->path.seconds[i] / all_s);
    fputc('\n', file);
}

static void write_gains(FILE *file, const struct scenario *scenario, const struct explanation *explanation)
{
    fputs("if it were free:", file);
    for (int i = 0; i < EXPLAIN_N_FREE; i++)
        fprintf(file, "%s %s %+.1f%%", i > 0 ? "," : "", explain_free_name[i],
                100 * fabs(explanation->gain[i]) < 0.05 ? 0.0 : 100 * explanation->gain[i]);
    fprintf(file, " (tokens/s, same plans, critical path of %s)\n",
            scenario->measured == 1 ? "the measured iteration" : "all measured iterations");
}

static void print_system(const struct scenario *scenario, const struct explained *explained)
{
    const struct text_limits limits = {COLUMNS, 4, LINES};
    char *text = NULL;
    size_t n_bytes;
    FILE *file = check_memstream(&text, &n_bytes);
    fprintf(file, "%s (", explained->system->entry->label);
    if (explained->rank > 0)
        fprintf(file, "rank %d of %d", explained->rank, scenario->n_systems);
    else
        fputs("does not fit", file);
    fprintf(file, "): %.4g s an iteration, in percent of the peak of %d %s\n", explained->summary.time_mean_s,
            platform_n_gpus(&scenario->platform), scenario->device.name);
    CHECK(fclose(file) == 0);
    text_print_wrapped(text, &limits);
    free(text);
    print_waterfall(&explained->explanation);
    file = check_memstream(&text, &n_bytes);
    write_path(file, &explained->explanation);
    write_gains(file, scenario, &explained->explanation);
    CHECK(fclose(file) == 0);
    text_print_wrapped(text, &limits);
    free(text);
}

static json_t *json_of_system(const struct explained *explained)
{
    const struct explanation *explanation = &explained->explanation;
    json_t *steps = json_array(), *path = json_object(), *gains = json_object();
    for (int i = 0; i < EXPLAIN_N_STEPS; i++)
        json_array_append_new(steps, json_pack("{s:s, s:s, s:f}", "key", explain_step_key[i], "name",
                                               explain_step_name[i], "share", explanation->share[i]));
    for (int i = 0; i < PATH_N_CLASSES; i++)
        json_object_set_new(path, path_class_name[i], json_real(explanation->path.seconds[i]));
    for (int i = 0; i < EXPLAIN_N_FREE; i++)
        json_object_set_new(gains, explain_free_key[i], json_real(explanation->gain[i]));
    return json_pack("{s:s, s:i, s:b, s:f, s:f, s:o, s:f, s:o, s:o}", "label", explained->system->entry->label, "rank",
                     explained->rank, "fits", explained->system->fits, "time_mean_s", explained->summary.time_mean_s,
                     "mfu", explained->summary.mfu, "waterfall", steps, "critical_path_mean_s", path_s(explanation),
                     "critical_path_s", path, "gain_if_free", gains);
}

/** Return the settings with which a system would be faster. */
static json_t *json_of_settings(const struct scenario *scenario, const struct lengths *lengths,
                                const struct scenario_system *entry)
{
    struct faster_setting settings[FASTER_SETTINGS_MOST];
    int32_t n = faster_settings_of(scenario, lengths, entry, settings);
    json_t *list = json_array();
    for (int32_t i = 0; i < n; i++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:f}", "key", settings[i].key, "now", settings[i].now,
                                              "fastest", settings[i].fastest, "gain", settings[i].gain));
    return list;
}

static void print_results(const struct scenario *scenario, const struct lengths *lengths, const struct options *options,
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
    json_object_set_new(json_array_get(systems, 0), "faster_settings",
                        json_of_settings(scenario, lengths, explained[0].system->entry));
    command_print_json(json_pack("{s:s, s:s, s:s, s:i, s:f, s:I, s:o}", "name", scenario->name, "model",
                                 scenario->model.name, "device", scenario->device.name, "gpus",
                                 platform_n_gpus(&scenario->platform), "peak_flop_per_s",
                                 scenario->device.peak_flop_per_s[PRECISION_BF16], "measured_iterations",
                                 (json_int_t)scenario->measured, "systems", systems));
}

/** Plans that are kept while all systems run. */
struct keeper {
    struct explain_plans plans;
    struct status_line status;
};

/** Explain the systems that were asked for, the best first. */
static bool explain(const struct arguments *arguments, const struct scenario *scenario, const struct lengths *lengths,
                    const struct point *point, struct keeper *keeper, struct error *err)
{
    struct ranked_point ranked = ranked_point_of(scenario, point);
    struct explained *explained = check_calloc((size_t)point->n_systems, sizeof *explained);
    int32_t n = 0;
    bool ok = true;
    for (int32_t i = 0; ok && i < point->n_systems; i++) {
        int32_t index = ranked.standings[i].system;
        const struct point_system *system = &point->systems[index];
        bool asked = arguments->system != NULL ? strcmp(system->entry->label, arguments->system) == 0
                                               : i == 0 || arguments->options.verbose;
        if (!asked)
            continue;
        explained[n] = (struct explained){system, ranked.standings[i].rank, ranked.summaries[index], {{0}, {{0}}, {0}}};
        status_line_print(&keeper->status, "%s: each cost at zero", system->entry->label);
        ok = explain_system(scenario, point, index, &keeper->plans, &explained[n++].explanation, err);
    }
    status_line_end(&keeper->status);
    if (ok)
        print_results(scenario, lengths, &arguments->options, explained, n);
    free(explained);
    ranked_point_free(&ranked);
    return ok;
}

/** Check that the scenario has a system of this label. */
static bool has_system(const struct scenario *scenario, const char *label, struct error *err)
{
    bool found = label == NULL;
    char *labels = NULL;
    size_t n_bytes;
    FILE *file = check_memstream(&labels, &n_bytes);
    for (int32_t i = 0; i < scenario->n_systems; i++) {
        found = found || strcmp(scenario->systems[i].label, label) == 0;
        fprintf(file, "%s%s", i > 0 ? ", " : "", scenario->systems[i].label);
    }
    CHECK(fclose(file) == 0);
    found = found || error_set(err, "--system: there is no system '%.200s'; allowed: %.4000s", label, labels);
    free(labels);
    return found;
}

static bool after_iteration(void *context, const struct point_view *view, struct error *err)
{
    struct keeper *keeper = context;
    status_line_print(&keeper->status, "%s: iteration %d of %d", view->system->entry->label,
                      (int)view->iteration->iteration + 1, view->system->n_iterations);
    return explain_keep_plan(&keeper->plans, view, err);
}

/** Search the plans that are left to a search, run all systems, and explain. */
static bool run_and_explain(const struct arguments *arguments, struct scenario *scenario, const struct lengths *lengths,
                            struct error *err)
{
    struct plan_search search = {0};
    struct point point = {0};
    struct keeper keeper = {.status = status_line_begin(!arguments->options.quiet)};
    if (!has_system(scenario, arguments->system, err))
        return false;
    bool ok = plan_search_run(scenario, lengths, &arguments->options, &search, err);
    if (ok) {
        keeper.plans = explain_plans_of(scenario);
        struct point_options options = {.searches = search.results,
                                        .observer = after_iteration,
                                        .context = &keeper,
                                        .n_children = cores_available()};
        ok = point_run(scenario, lengths, &options, &point, err);
        status_line_end(&keeper.status);
        ok = ok && explain(arguments, scenario, lengths, &point, &keeper, err);
    }
    explain_plans_free(scenario, &keeper.plans);
    point_free(&point);
    plan_search_free(&search);
    return ok;
}

static bool read_scenario(const struct arguments *arguments, struct scenario *scenario, struct lengths *lengths,
                          struct error *err)
{
    struct document document = {0};
    struct scenario_cache cache = {0};
    bool ok = run_document_read(arguments->scenario, &arguments->options, &document, err) &&
              scenario_resolve(&document, &cache, scenario, err) && command_check(scenario, lengths, err);
    document_free(&document);
    cache_free(&cache);
    return ok;
}

static const struct argp_child children[] = {OPTION(set), OPTION(json), OPTION(quiet), OPTION(verbose), {0}};

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
    struct error err = {0};
    parse_arguments(&argp, argc, argv, &arguments);
    bool ok =
        read_scenario(&arguments, &scenario, &lengths, &err) && run_and_explain(&arguments, &scenario, &lengths, &err);
    lengths_close(&lengths);
    scenario_free(&scenario);
    options_free(&arguments.options);
    return ok ? EXIT_SUCCESS : command_fail(&err);
}
