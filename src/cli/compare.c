/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file is `slimsim compare`. It says what differs between two scenarios, and how much each difference gives. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "answer/comparison.h"
#include "answer/model_error_json.h"
#include "base/check.h"
#include "base/compare.h"
#include "base/text.h"
#include "base/text_table.h"
#include "cli/answer.h"
#include "cli/commands.h"
#include "cli/run_document.h"
#include "document/quantity.h"
#include "scenario/platform_keys.h"
#include "simulate/standing.h"
#include "trace/json.h"

enum { COLUMNS = 100, LINES = 20, MOST_SHOWN = 8, LINES_OF_HEAD = 7, LINES_BELOW = 3 };

struct arguments {
    struct options options;
    const char *path[2], *system; /* system: a label; NULL: the first of each ranking */
};

static const char *label_of(const struct comparison_side *side)
{
    return side->scenario.systems[side->system].label;
}

static int compare_gains(const void *a, const void *b)
{
    const struct contribution *x = a, *y = b;
    if ((x->refusal != NULL) != (y->refusal != NULL))
        return x->refusal != NULL ? 1 : -1;
    int order = COMPARE(fabs(y->gain), fabs(x->gain));
    return order != 0 ? order : COMPARE(x->difference, y->difference);
}

static void write_change(FILE *file, struct gain gain)
{
    fprintf(file, "%+.1f%%", 100 * (fabs(gain.gain) < 0.0005 ? 0.0 : gain.gain));
    if (isfinite(gain.half))
        fprintf(file, " ± %.1f", 100 * gain.half);
}

/** Return whether a side is the faster one, or ties with it: the interval of the total includes 0. */
static bool is_first(const struct comparison *comparison, int i)
{
    struct gain total = comparison->total;
    bool ties = isfinite(total.half) ? fabs(total.gain) <= total.half : total.gain == 0;
    return !comparison->side[1 - i].summary->fits || ties || (total.gain > 0) == (i == 1);
}

/** Add the chosen system of a side. */
static void add_side(struct text_table *table, const struct comparison *comparison, int i)
{
    const struct comparison_side *side = &comparison->side[i];
    char rate[TEXT_NUMBER_SIZE] = "-", peak[TEXT_NUMBER_SIZE];
    const struct trace_summary *summary = side->summary;
    struct time_shares shares = time_shares_of(summary);
    if (summary->fits)
        text_number(summary->tokens_per_s_per_gpu, summary->tokens_per_s_per_gpu < 100, rate);
    text_number(summary->peak_bytes / TEXT_GIB, 1, peak);
    text_table_row(table, "%c %s\t%s\t%.4g s\t%.0f%%\t%.0f%%\t%.0f%%\t%s\t%s%s", 'A' + i, label_of(side), rate,
                   summary->time_mean_s, 100 * summary->mfu, 100 * shares.share[TIME_WAITING],
                   100 * time_exposed(&shares), peak,
                   !summary->fits   ? "does not fit; "
                   : summary->tight ? "tight; "
                                    : "",
                   summary->plan_text);
    text_table_colour(table, table->n_columns,
                      !summary->fits            ? COLOUR_MISFIT
                      : is_first(comparison, i) ? COLOUR_FIRST
                                                : COLOUR_NONE);
}

static void print_heading(const struct comparison *comparison)
{
    for (int i = 0; i < 2; i++) {
        const struct scenario *scenario = &comparison->side[i].scenario;
        text_print_clipped(COLUMNS, "%c: %s, %s on %d x %s (%s)", 'A' + i, comparison->side[i].path,
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

/** Write one difference: its gain, and the values of A and B. */
static void write_contribution(FILE *file, const struct contribution *contribution)
{
    const struct difference *difference = contribution->difference;
    char gain[16] = "refused";
    if (contribution->refusal == NULL)
        snprintf(gain, sizeof gain, "%+.1f%%", 100 * (fabs(contribution->gain) < 0.0005 ? 0.0 : contribution->gain));
    fprintf(file, "%9s  %s: ", gain, difference->name);
    write_value(file, difference->name, difference->from);
    fputs(" -> ", file);
    write_value(file, difference->name, difference->to);
    if (contribution->refusal != NULL)
        fprintf(file, "; %s", contribution->refusal);
    else if (!contribution->fits)
        fputs("; does not fit", file);
    fputc('\n', file);
}

/** Print the largest differences. Long lines, such as reasons of refusals, are wrapped. @return the lines printed */
static int32_t print_contributions(const struct comparison *comparison)
{
    int32_t n = comparison->differences.n;
    char *text = NULL;
    size_t n_bytes;
    FILE *file = check_memstream(&text, &n_bytes);
    struct contribution *sorted = check_calloc((size_t)n, sizeof *sorted);
    memcpy(sorted, comparison->contributions, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, compare_gains);
    for (int32_t i = 0; i < n && i < MOST_SHOWN; i++)
        write_contribution(file, &sorted[i]);
    CHECK(fclose(file) == 0);
    struct text_limits limits = {COLUMNS, 4, LINES - LINES_OF_HEAD - LINES_BELOW - (n > 1), NULL};
    text_print_wrapped(text, &limits);
    int32_t lines = text_wrapped_lines(text, &limits);
    free(sorted);
    free(text);
    return lines;
}

/** Write the systems that both have, B over A. */
static void write_pairs(FILE *file, const struct comparison *comparison)
{
    const struct scenario *from = &comparison->side[0].scenario, *to = &comparison->side[1].scenario;
    int n = 0;
    if (from->n_systems == 1 && to->n_systems == 1) /* the total says it */
        return;
    fputs("systems that both have, B over A:", file);
    for (int32_t i = 0; i < from->n_systems; i++) {
        int32_t other = scenario_find_system(to, from->systems[i].label, "", NULL);
        if (other < 0)
            continue;
        fprintf(file, "%s %s ", n++ > 0 ? "," : "", from->systems[i].label);
        write_change(file, comparison_pair(comparison, i, other));
    }
    fputs(n == 0 ? " none\n" : "\n", file);
}

/** Print the total and the largest differences. @return the lines of the differences */
static int32_t print_differences(const struct comparison *comparison)
{
    int32_t n = comparison->differences.n;
    if (n == 0) {
        puts("nothing differs between the keys of the two");
        return 0;
    }
    fputs("B has ", stdout);
    write_change(stdout, comparison->total);
    bool fit = comparison->side[0].summary->fits && comparison->side[1].summary->fits;
    printf(" tokens/s/GPU%s; %d difference%s", fit ? "" : " if memory did not matter", n,
           n == 1 ? "" : "s, each alone in A");
    if (n > MOST_SHOWN)
        printf(" (the %d largest; --json has all)", MOST_SHOWN);
    puts(":");
    int32_t lines = print_contributions(comparison);
    if (n > 1)
        printf("%+8.1f%%  interaction: what they give together beyond the sum of each alone\n",
               100 * comparison->interaction);
    return lines + (n > 1);
}

/** Write the ranges of the sides that fit, and in which respects they are wider. */
static void write_ranges(FILE *file, const struct comparison *comparison)
{
    int n = 0;
    for (int i = 0; i < 2; i++) {
        const struct comparison_side *side = &comparison->side[i];
        if (!side->summary->fits)
            continue;
        fprintf(file, "%s %c ", n++ == 0 ? "tokens/s/GPU by the model's error, p5 to p95:" : ";", 'A' + i);
        model_interval_write(file, &side->interval);
        const char *wider = strstr(side->error.basis, "wider for ");
        if (wider != NULL)
            fprintf(file, " (%s)", wider);
    }
    fputs(n == 0 ? "" : "\n", file);
}

static void print_text(const struct comparison *comparison)
{
    char *text = NULL;
    size_t n_bytes;
    struct text_table table = {0};
    print_heading(comparison);
    putchar('\n');
    text_table_columns(&table, "  system<0.22;tokens/s/GPU>;time>;MFU>;idle>;comm>;GiB>;plan<");
    for (int i = 0; i < 2; i++)
        add_side(&table, comparison, i);
    text_table_print(&table, stdout, COLUMNS);
    int32_t used = print_differences(comparison);
    FILE *file = check_memstream(&text, &n_bytes);
    write_pairs(file, comparison);
    write_ranges(file, comparison);
    fputs("all runs take the critical path; plans that are auto are searched again for each difference\n", file);
    CHECK(fclose(file) == 0);
    text_print_wrapped(text, &(struct text_limits){COLUMNS, 2, LINES - LINES_OF_HEAD - used, NULL});
    free(text);
}

/** Return the row of the summary, and the shares that the table prints. */
static json_t *json_of_side(const struct comparison_side *side)
{
    struct time_shares shares = time_shares_of(side->summary);
    json_t *row = json_of_row(TRACE_SUMMARY, side->summary, NULL, NULL);
    json_object_update_new(row, json_pack("{s:s, s:s, s:f, s:f}", "path", side->path, "system", label_of(side),
                                          "waiting", shares.share[TIME_WAITING], "exposed", time_exposed(&shares)));
    json_object_set_new(row, "model_error", model_error_json(&side->error));
    json_object_set_new(row, "model_interval", model_interval_json(&side->interval));
    return row;
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

static void print_json(const struct comparison *comparison)
{
    const struct scenario *from = &comparison->side[0].scenario, *to = &comparison->side[1].scenario;
    json_t *differences = json_array(), *pairs = json_array();
    for (int32_t i = 0; i < comparison->differences.n; i++)
        json_array_append_new(differences, json_of_contribution(&comparison->contributions[i]));
    for (int32_t i = 0; i < from->n_systems; i++) {
        int32_t other = scenario_find_system(to, from->systems[i].label, "", NULL);
        if (other < 0)
            continue;
        struct gain gain = comparison_pair(comparison, i, other);
        json_array_append_new(pairs, json_pack("{s:s, s:f, s:o}", "label", from->systems[i].label, "gain", gain.gain,
                                               "interval", json_of_number(gain.half)));
    }
    command_print_json(json_pack("{s:o, s:o, s:f, s:o, s:o, s:f, s:o}", "a", json_of_side(&comparison->side[0]), "b",
                                 json_of_side(&comparison->side[1]), "gain", comparison->total.gain, "interval",
                                 json_of_number(comparison->total.half), "differences", differences, "interaction",
                                 comparison->interaction, "pairs", pairs));
}

/** Read both, then compare them. */
static bool find(const struct arguments *arguments, struct comparison *comparison, struct error *err)
{
    const struct options *options = &arguments->options;
    struct document documents[2] = {{0}, {0}};
    struct answer_run answer;
    bool ok = true;
    for (int i = 0; i < 2 && ok; i++)
        ok = run_document_read(arguments->path[i], options, &documents[i], err);
    ok = ok && answer_begin(&answer, options, "compare", NULL, err) &&
         answer_end(&answer,
                    comparison_find(documents, arguments->path, arguments->system, &answer.how, comparison, err));
    struct error notes = {0};
    for (int i = 0; i < 2; i++) {
        sweep_runner_note(&comparison->side[i].scenario, &notes);
        if (comparison->side[i].read != NULL)
            error_add(&notes, "%s", comparison->side[i].read);
        document_free(&documents[i]);
    }
    if (*err->notes != '\0') /* of a side that failed; the other one may have the same */
        error_add(&notes, "%s", err->notes);
    *err->notes = '\0';
    command_print_notes(notes.text);
    return ok;
}

static const struct argp_child children[] = {OPTION(output), OPTION(json), OPTION(quiet), {0}};

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
    struct comparison comparison = {0};
    struct error err = {0};
    parse_arguments(&argp, argc, argv, &arguments);
    bool ok = find(&arguments, &comparison, &err);
    if (ok && arguments.options.json)
        print_json(&comparison);
    else if (ok)
        print_text(&comparison);
    comparison_free(&comparison);
    options_free(&arguments.options);
    return answer_status(ok, &err);
}
