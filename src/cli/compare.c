/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file is `slimsim compare`. It says what differs between two scenarios, and how much each difference gives. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/compare.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/plan_search.h"
#include "cli/run_document.h"
#include "document/document_read.h"
#include "document/quantity.h"
#include "scenario/platform_keys.h"
#include "scenario/scenario_read.h"
#include "simulate/difference.h"
#include "simulate/interval.h"
#include "simulate/path_run.h"
#include "simulate/plan_text.h"
#include "simulate/standing.h"

enum { COLUMNS = 100, LINES = 20, MOST_SHOWN = 8 };

struct arguments {
    struct options options;
    const char *path[2], *system; /* system: a label; NULL: the first of each ranking */
};

/** One of the two that are compared. */
struct side {
    struct path_run run;
    struct document document; /* the resolved scenario with the chosen system alone, before plans were searched */
    int32_t system;           /* index of the chosen one */
    struct point_summary summary;
};

/** Results with one difference alone. */
struct contribution {
    const struct difference *difference;
    char *refusal; /* the reason why it cannot change alone; NULL: it ran, and the rest is filled in */
    bool fits;
    double tokens_per_s_per_gpu, gain; /* gain: over A */
};

struct comparison {
    const struct arguments *arguments;
    struct side side[2];
    struct differences differences;
    struct contribution *contributions; /* in the order of the keys */
    bool same_batches;                  /* so iterations are pairs */
};

/** Search the plans that are left to a search and run all systems on the critical path. */
static bool simulate(struct path_run *run, const struct options *options, struct error *err)
{
    struct plan_search search = {0};
    run->scenario.engine = SCENARIO_CRITICAL_PATH; /* of the search, too */
    bool ok = plan_search_run(&run->scenario, &run->lengths, options, &search, err);
    run->searches = search.results;
    return ok && path_run_execute(run, NULL, NULL, err);
}

/** Return the resolved scenario as a document. */
static void resolved_document(const struct scenario *scenario, const char *name, struct document *document)
{
    struct error err = {0};
    char *text = scenario_text(scenario);
    CHECK(document_parse(text, strlen(text), name, document, &err)); /* it reads back */
    free(text);
}

/** Leave only one system in a resolved scenario. */
static void keep_system(struct document *document, int32_t system)
{
    document_keep_entry(document, "systems", system);
    int32_t dp = document_find(document, 0, "systems.0.plan.dp");
    if (dp >= 0)
        snprintf(document->node[dp].value, strlen(document->node[dp].value) + 1, "0"); /* it follows from the others */
}

static int32_t first_ranked(const struct path_run *run)
{
    struct ranked_point ranked = ranked_point_of(&run->scenario, &run->point);
    int32_t first = ranked.standings[0].system;
    ranked_point_free(&ranked);
    return first;
}

/** Return the system with this label; -1: there is none. */
static int32_t find_system(const struct scenario *scenario, const char *label)
{
    for (int32_t i = 0; i < scenario->n_systems; i++)
        if (strcmp(scenario->systems[i].label, label) == 0)
            return i;
    return -1;
}

static bool read_side(const struct arguments *arguments, int i, struct side *side, struct error *err)
{
    struct document document = {0};
    const char *path = arguments->path[i];
    bool ok =
        run_document_read(path, &arguments->options, &document, err) && path_run_prepare(&document, &side->run, err);
    document_free(&document);
    if (ok && arguments->system != NULL && find_system(&side->run.scenario, arguments->system) < 0)
        return error_set(err, "--system: %s has no system '%.200s'; its first one is '%s'", path, arguments->system,
                         side->run.scenario.systems[0].label);
    if (ok)
        resolved_document(&side->run.scenario, path, &side->document);
    return ok;
}

static bool run_side(const struct arguments *arguments, struct side *side, struct error *err)
{
    struct path_run *run = &side->run;
    if (!simulate(run, &arguments->options, err))
        return false;
    side->system = arguments->system != NULL ? find_system(&run->scenario, arguments->system) : first_ranked(run);
    side->summary = point_summary_of(&run->scenario, &run->point, side->system);
    keep_system(&side->document, side->system);
    return true;
}

static const char *label_of(const struct side *side)
{
    return side->run.scenario.systems[side->system].label;
}

static bool fits(const struct side *side)
{
    return side->run.point.systems[side->system].fits;
}

/** Run A's system with one difference. A refusal is a result. */
static bool run_contribution(const struct comparison *comparison, struct contribution *contribution, struct error *err)
{
    const struct side *from = &comparison->side[0], *to = &comparison->side[1];
    struct document document = {0};
    struct path_run run = {0};
    struct error found = {0};
    document_copy(&from->document, NULL, &document);
    bool ok = difference_apply(contribution->difference, &to->document, &document, &found) &&
              path_run_prepare(&document, &run, &found) && simulate(&run, &comparison->arguments->options, &found);
    if (ok) {
        contribution->fits = run.point.systems[0].fits;
        contribution->tokens_per_s_per_gpu = point_summary_of(&run.scenario, &run.point, 0).tokens_per_s_per_gpu;
        contribution->gain = contribution->tokens_per_s_per_gpu / from->summary.tokens_per_s_per_gpu - 1;
    } else if (found.status == ERROR_INVALID) {
        contribution->refusal = check_asprintf("%.*s", (int)strcspn(found.text, "\n"), found.text);
    } else {
        *err = found;
    }
    document_free(&document);
    path_run_free(&run);
    return ok || contribution->refusal != NULL;
}

/** Return whether both have the same batches and model, so that iterations are pairs. */
static bool same_batches(const struct differences *differences)
{
    static const char *const keys[] = {"data.", "iterations.", "seed", "model"};
    for (int32_t i = 0; i < differences->n; i++)
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
            if (strncmp(differences->list[i].name, keys[k], strlen(keys[k])) == 0)
                return false;
    return true;
}

/** Return the ratio of B's model FLOPs a second to A's, less 1, for a pair of systems. NaN half width: none. */
static double pair_gain(const struct comparison *comparison, int32_t a, int32_t b, double *half)
{
    const struct path_run *from = &comparison->side[0].run, *to = &comparison->side[1].run;
    const struct point_system *base = &from->point.systems[a], *other = &to->point.systems[b];
    struct point_summary before = point_summary_of(&from->scenario, &from->point, a),
                         after = point_summary_of(&to->scenario, &to->point, b);
    *half = NAN;
    if (comparison->same_batches &&
        platform_n_gpus(&from->scenario.platform) == platform_n_gpus(&to->scenario.platform))
        *half = interval_of_speed_up(base->iterations + from->scenario.warm_up,
                                     other->iterations + to->scenario.warm_up, (int32_t)from->scenario.measured);
    return after.tokens_per_s_per_gpu / before.tokens_per_s_per_gpu - 1;
}

static int compare_gains(const void *a, const void *b)
{
    const struct contribution *x = a, *y = b;
    if ((x->refusal != NULL) != (y->refusal != NULL))
        return x->refusal != NULL ? 1 : -1;
    int order = COMPARE(fabs(y->gain), fabs(x->gain));
    return order != 0 ? order : COMPARE(x->difference, y->difference);
}

static void write_change(FILE *file, double gain, double half)
{
    fprintf(file, "%+.1f%%", 100 * (fabs(gain) < 0.0005 ? 0.0 : gain));
    if (isfinite(half))
        fprintf(file, " ± %.1f", 100 * half);
}

/** Print the chosen system of a side. */
static void print_side(const struct side *side, char name)
{
    char rate[TEXT_NUMBER_SIZE] = "-", peak[TEXT_NUMBER_SIZE], plan[PLAN_TEXT_NAME_SIZE], label[64];
    const struct point_summary *summary = &side->summary;
    struct time_shares shares = time_shares_of(summary);
    const struct point_system *system = &side->run.point.systems[side->system];
    if (system->fits)
        text_number(summary->tokens_per_s_per_gpu, summary->tokens_per_s_per_gpu < 100, rate);
    text_number(summary->peak_bytes / (1 << 30), 1, peak);
    plan_text_name(&system->entry->plan, summary->host.bytes > 0, plan);
    snprintf(label, sizeof label, "%s", label_of(side));
    text_clip(label, 20);
    text_print_clipped(COLUMNS, "%c %-20s %12s %8.4g %4.0f%% %4.0f%% %4.0f%% %6s  %s%s", name, label, rate,
                       summary->time_mean_s, 100 * summary->mfu, 100 * shares.share[TIME_WAITING],
                       100 * time_exposed(&shares), peak, system->fits ? "" : "does not fit; ", plan);
}

static void print_heading(const struct comparison *comparison)
{
    for (int i = 0; i < 2; i++) {
        const struct scenario *scenario = &comparison->side[i].run.scenario;
        text_print_clipped(COLUMNS, "%c: %s, %s on %d x %s (%s)", 'A' + i, comparison->arguments->path[i],
                           scenario->model.name, platform_n_gpus(&scenario->platform), scenario->device.name,
                           scenario->platform.name);
    }
}

/** Return the unit of a key of the platform, "" of any other. */
static const char *unit_of(const char *name)
{
    const char *key = strncmp(name, "platform.", 9) == 0 ? name + 9 : "";
    for (int i = 0; i < PLATFORM_N_KEYS; i++)
        if (strcmp(platform_schema[i].name, key) == 0)
            return strcmp(platform_schema[i].unit, "bytes/s") == 0 ? "B/s"
                   : strcmp(platform_schema[i].unit, "bytes") == 0 ? "B"
                                                                   : "";
    return "";
}

/** Write a large number with a prefix: 32Ki, 50GB/s. */
static void write_value(FILE *file, const char *name, const char *text)
{
    static const char *const binary[] = {"", "Ki", "Mi", "Gi", "Ti"}, *const decimal[] = {"", "k", "M", "G", "T"};
    double value;
    if (!quantity_parse(text, "-", &value) || value < 1024 || value > 1e15) {
        fputs(text, file);
        return;
    }
    const char *unit = unit_of(name);
    const char *const *prefix = strcmp(unit, "B/s") != 0 && fmod(value, 1024) == 0 ? binary : decimal;
    double step = prefix == binary ? 1024 : 1000;
    int i = 0;
    for (; i < 4 && fmod(value, step) == 0; i++)
        value /= step;
    fprintf(file, "%.10g%s%s", value, prefix[i], unit);
}

/** Print one difference: its gain, and the values of A and B. */
static void print_contribution(const struct contribution *contribution)
{
    const struct difference *difference = contribution->difference;
    char gain[16] = "refused", *line = NULL;
    size_t n_bytes;
    if (contribution->refusal == NULL)
        snprintf(gain, sizeof gain, "%+.1f%%", 100 * (fabs(contribution->gain) < 0.0005 ? 0.0 : contribution->gain));
    FILE *file = check_memstream(&line, &n_bytes);
    fprintf(file, "%9s  %s: ", gain, difference->name);
    write_value(file, difference->name, difference->from);
    fputs(" -> ", file);
    write_value(file, difference->name, difference->to);
    if (contribution->refusal != NULL)
        fprintf(file, "; %s", contribution->refusal);
    else if (!contribution->fits)
        fputs("; does not fit", file);
    CHECK(fclose(file) == 0);
    text_print_clipped(COLUMNS, "%s", line);
    free(line);
}

/** Return the gain that no single difference gives. */
static double interaction(const struct comparison *comparison, double total)
{
    for (int32_t i = 0; i < comparison->differences.n; i++)
        if (comparison->contributions[i].refusal == NULL)
            total -= comparison->contributions[i].gain;
    return total;
}

/** Write the systems that both have, B over A. */
static void write_pairs(FILE *file, const struct comparison *comparison)
{
    const struct scenario *from = &comparison->side[0].run.scenario, *to = &comparison->side[1].run.scenario;
    int n = 0;
    if (from->n_systems == 1 && to->n_systems == 1) /* the total says it */
        return;
    fputs("systems that both have, B over A:", file);
    for (int32_t i = 0; i < from->n_systems; i++) {
        int32_t other = find_system(to, from->systems[i].label);
        if (other < 0)
            continue;
        double half, gain = pair_gain(comparison, i, other, &half);
        fprintf(file, "%s %s ", n++ > 0 ? "," : "", from->systems[i].label);
        write_change(file, gain, half);
    }
    fputs(n == 0 ? " none\n" : "\n", file);
}

/** Print the total and the largest differences. */
static void print_differences(const struct comparison *comparison, double total, double half)
{
    int32_t n = comparison->differences.n;
    if (n == 0) {
        puts("nothing differs between the keys of the two");
        return;
    }
    fputs("B has ", stdout);
    write_change(stdout, total, half);
    bool fit = fits(&comparison->side[0]) && fits(&comparison->side[1]);
    printf(" tokens/s/GPU%s; %d difference%s", fit ? "" : " if memory did not matter", n,
           n == 1 ? "" : "s, each alone in A");
    if (n > MOST_SHOWN)
        printf(" (the %d largest; --json has all)", MOST_SHOWN);
    puts(":");
    struct contribution *sorted = check_calloc((size_t)n, sizeof *sorted);
    memcpy(sorted, comparison->contributions, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, compare_gains);
    for (int32_t i = 0; i < n && i < MOST_SHOWN; i++)
        print_contribution(&sorted[i]);
    free(sorted);
    if (n > 1)
        printf("%+8.1f%%  interaction: what they give together beyond the sum of each alone\n",
               100 * interaction(comparison, total));
}

static void print_text(const struct comparison *comparison, double total, double half)
{
    char *text = NULL;
    size_t n_bytes;
    print_heading(comparison);
    printf("\n  %-20s %12s %8s %5s %5s %5s %6s  plan\n", "system", "tokens/s/GPU", "time s", "MFU", "idle", "comm",
           "GiB");
    for (int i = 0; i < 2; i++)
        print_side(&comparison->side[i], (char)('A' + i));
    print_differences(comparison, total, half);
    FILE *file = check_memstream(&text, &n_bytes);
    write_pairs(file, comparison);
    fputs("all runs take the critical path; plans that are auto are searched again for each difference\n", file);
    CHECK(fclose(file) == 0);
    text_print_wrapped(text, &(struct text_limits){COLUMNS, 2, LINES});
    free(text);
}

static json_t *json_of_side(const struct side *side, const char *path)
{
    const struct point_summary *summary = &side->summary;
    struct time_shares shares = time_shares_of(summary);
    char plan[PLAN_TEXT_NAME_SIZE];
    plan_text_name(&side->run.scenario.systems[side->system].plan, summary->host.bytes > 0, plan);
    return json_pack("{s:s, s:s, s:b, s:f, s:f, s:f, s:f, s:f, s:f, s:s}", "path", path, "system", label_of(side),
                     "fits", fits(side), "tokens_per_s_per_gpu", summary->tokens_per_s_per_gpu, "time_mean_s",
                     summary->time_mean_s, "mfu", summary->mfu, "waiting", shares.share[TIME_WAITING], "exposed",
                     time_exposed(&shares), "peak_bytes", summary->peak_bytes, "plan", plan);
}

static json_t *json_of_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *json_of_contribution(const struct contribution *contribution)
{
    const struct difference *difference = contribution->difference;
    json_t *row = json_pack("{s:s, s:s, s:s}", "key", difference->name, "a", difference->from, "b", difference->to);
    if (contribution->refusal != NULL) {
        json_object_set_new(row, "refused", json_string(contribution->refusal));
        return row;
    }
    json_object_set_new(row, "fits", json_boolean(contribution->fits));
    json_object_set_new(row, "tokens_per_s_per_gpu", json_real(contribution->tokens_per_s_per_gpu));
    json_object_set_new(row, "gain", json_real(contribution->gain));
    return row;
}

static void print_json(const struct comparison *comparison, double total, double half)
{
    const struct scenario *from = &comparison->side[0].run.scenario, *to = &comparison->side[1].run.scenario;
    json_t *differences = json_array(), *pairs = json_array();
    for (int32_t i = 0; i < comparison->differences.n; i++)
        json_array_append_new(differences, json_of_contribution(&comparison->contributions[i]));
    for (int32_t i = 0; i < from->n_systems; i++) {
        int32_t other = find_system(to, from->systems[i].label);
        if (other < 0)
            continue;
        double interval, gain = pair_gain(comparison, i, other, &interval);
        json_array_append_new(pairs, json_pack("{s:s, s:f, s:o}", "label", from->systems[i].label, "gain", gain,
                                               "interval", json_of_number(interval)));
    }
    command_print_json(json_pack("{s:o, s:o, s:f, s:o, s:o, s:f, s:o}", "a",
                                 json_of_side(&comparison->side[0], comparison->arguments->path[0]), "b",
                                 json_of_side(&comparison->side[1], comparison->arguments->path[1]), "gain", total,
                                 "interval", json_of_number(half), "differences", differences, "interaction",
                                 interaction(comparison, total), "pairs", pairs));
}

/** Run both, then each difference alone. */
static bool compare(struct comparison *comparison, struct error *err)
{
    const struct arguments *arguments = comparison->arguments;
    for (int i = 0; i < 2; i++)
        if (!read_side(arguments, i, &comparison->side[i], err))
            return false;
    for (int i = 0; i < 2; i++)
        if (!run_side(arguments, &comparison->side[i], err))
            return false;
    differences_find(&comparison->side[0].document, &comparison->side[1].document, &comparison->differences);
    comparison->same_batches = same_batches(&comparison->differences);
    int32_t n = comparison->differences.n;
    comparison->contributions = check_calloc((size_t)n + 1, sizeof *comparison->contributions);
    for (int32_t i = 0; i < n; i++) {
        comparison->contributions[i].difference = &comparison->differences.list[i];
        if (!run_contribution(comparison, &comparison->contributions[i], err))
            return false;
    }
    return true;
}

static void comparison_free(struct comparison *comparison)
{
    for (int32_t i = 0; comparison->contributions != NULL && i < comparison->differences.n; i++)
        free(comparison->contributions[i].refusal);
    free(comparison->contributions);
    differences_free(&comparison->differences);
    for (int i = 0; i < 2; i++) {
        document_free(&comparison->side[i].document);
        path_run_free(&comparison->side[i].run);
    }
}

static const struct argp_child children[] = {OPTION(json), OPTION(quiet), {0}};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        options_begin(&arguments->options, children, state);
        return 0;
    case 'y':
        arguments->system = argument;
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num > 1)
            argp_error(state, "only two are compared; '%s' is the third", argument);
        arguments->path[state->arg_num] = argument;
        return 0;
    case ARGP_KEY_END:
        if (state->arg_num < 2)
            argp_error(state, "two scenarios, traces or points of a sweep are needed");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option compare_options[] = {
    {"system", 'y', "LABEL", 0, "Compare this system (default: the first of each ranking)", 0}, {0}};
static const struct argp argp = {
    compare_options,
    parse,
    "A B",
    "Say what differs between A and B in keys and results, and how much each difference gives. Each is a scenario "
    "(.yaml), the trace of a run (.h5), whose scenario runs again, or a point of a sweep (SWEEP.yaml#POINT, "
    "SWEEP.h5#POINT). Each "
    "difference is changed alone from A to B, and plans that are `auto` are searched again. All runs take the critical "
    "path.",
    children,
    NULL,
    NULL};

int command_compare(int argc, char **argv)
{
    struct arguments arguments = {0};
    struct error err = {0};
    parse_arguments(&argp, argc, argv, &arguments);
    struct comparison comparison = {.arguments = &arguments};
    bool ok = compare(&comparison, &err);
    if (ok) {
        double half, total = pair_gain(&comparison, comparison.side[0].system, comparison.side[1].system, &half);
        if (arguments.options.json)
            print_json(&comparison, total, half);
        else
            print_text(&comparison, total, half);
    }
    comparison_free(&comparison);
    options_free(&arguments.options);
    return ok ? EXIT_SUCCESS : command_fail(&err);
}
