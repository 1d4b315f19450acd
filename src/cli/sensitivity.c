/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file is `slimsim sensitivity`. It changes one assumption at a time and says how much each system gains by it. */
#include "answer/sensitivity.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "answer/model_error_json.h"
#include "base/check.h"
#include "base/text.h"
#include "base/text_table.h"
#include "cli/answer.h"
#include "cli/commands.h"
#include "scenario/scenario_read.h"
#include "simulate/assumptions.h"
#include "trace/csv.h"
#include "trace/json.h"
#include "trace/output.h"

enum { COLUMNS = 100, LINES = 20, MOST_CELLS = 3, MOST_TIES = 3 };
static const char csv_begin[] = "change,set,system,";

struct arguments {
    struct options options;
    const char *scenario;
};

/** Return how many systems have a column. */
static int32_t n_cells(const struct sensitivity *sensitivity, bool verbose)
{
    int32_t n = sensitivity->n_systems;
    return verbose || n < MOST_CELLS ? n : MOST_CELLS;
}

static void write_cell(const struct trace_sensitivity *row, bool is_change, char text[TEXT_NUMBER_SIZE])
{
    if (row->refused != NULL)
        snprintf(text, TEXT_NUMBER_SIZE, "cannot run");
    else if (!row->fits)
        snprintf(text, TEXT_NUMBER_SIZE, "does not fit");
    else if (!is_change || isnan(row->gain))
        text_number(row->tokens_per_s_per_gpu, row->tokens_per_s_per_gpu < 100, text);
    else
        snprintf(text, TEXT_NUMBER_SIZE, "%+.1f%%", 100 * row->gain);
    if (row->tight)
        strcat(text, " tight");
}

static const char *winner_of(const struct sensitivity_change *change)
{
    return change->rows->winner != NULL ? change->rows->winner : "none";
}

static enum colour colour_of(const struct trace_sensitivity *row, int32_t n_systems)
{
    return row->refused != NULL || !row->fits ? COLOUR_MISFIT
           : row->rank == 1 && n_systems > 1  ? COLOUR_FIRST
                                              : COLOUR_NONE;
}

/** Add the row of a change, which ends with the system that wins instead or ties, and with -v with the reason of a
 * refusal. */
static void add_row(struct text_table *table, const struct sensitivity *sensitivity, int32_t index, bool verbose)
{
    const struct sensitivity_change *change = &sensitivity->changes[index];
    const char *refusal = change->rows->refused;
    char text[TEXT_NUMBER_SIZE];
    text_table_cell(table, "%s", change->rows->change);
    for (int32_t i = 0; i < n_cells(sensitivity, verbose); i++) {
        write_cell(&change->rows[i], index > 0, text);
        text_table_cell(table, "%s", text);
        text_table_colour(table, 1, colour_of(&change->rows[i], sensitivity->n_systems));
    }
    bool changes = index > 0 && change->rows->winner_changes, ties = *change->tie != '\0';
    int bytes = verbose && refusal != NULL ? (int)strcspn(refusal, "\n") : 0;
    text_table_cell(table, "%s%s%s%.*s",
                    changes ? "first: "
                    : ties  ? "tie: "
                            : "",
                    changes ? winner_of(change) : change->tie, changes && bytes > 0 ? "  " : "", bytes,
                    bytes > 0 ? refusal : "");
}

static void print_table(const struct sensitivity *sensitivity, int32_t n_rows, bool verbose)
{
    struct text_table table = {0};
    char more[32] = "";
    int32_t n = n_cells(sensitivity, verbose), n_more = sensitivity->n_systems - n;
    text_table_columns(&table, "change<24.24");
    for (int32_t i = 0; i < n; i++)
        text_table_column(&table, sensitivity->changes[0].rows[i].system, ">16.16");
    if (n_more > 0)
        snprintf(more, sizeof more, "and %d more (-v)", n_more);
    text_table_column(&table, more, "<");
    for (int32_t i = 0; i < n_rows; i++)
        add_row(&table, sensitivity, i, verbose);
    text_table_print(&table, stdout, verbose ? 0 : COLUMNS);
}

/** Return the first system's tokens/s over those of the best other one; NaN: one of both does not fit. */
static double lead_of(const struct sensitivity *sensitivity, const struct sensitivity_change *change)
{
    double other = NAN;
    for (int32_t i = 1; i < sensitivity->n_systems; i++)
        if (change->rows[i].fits)
            other = fmax(other, change->rows[i].tokens_per_s_per_gpu);
    return change->rows->fits ? change->rows->tokens_per_s_per_gpu / other : NAN;
}

/** Write the lead of the winner, unless it has to share its place, and with which change it is least. */
static void write_lead(FILE *file, const struct sensitivity *sensitivity)
{
    double now = lead_of(sensitivity, &sensitivity->changes[0]), least = now;
    const char *with = NULL;
    if (isnan(now) || sensitivity->changes[0].rows[1].rank == 1)
        return;
    for (int32_t i = 1; i < sensitivity->n; i++) {
        double lead = lead_of(sensitivity, &sensitivity->changes[i]);
        with = lead < least - 0.005 ? sensitivity->changes[i].rows->change : with;
        least = lead < least - 0.005 ? lead : least;
    }
    fprintf(file, "; its lead is %.2fx", now);
    if (with != NULL)
        fprintf(file, ", the least %.2fx with %s", least, with);
}

/** Write which changes move another system to the first place, or make it share this place. */
static void write_winners(FILE *file, const struct sensitivity *sensitivity)
{
    int32_t n = 0, n_ties = 0;
    for (int32_t i = 1; i < sensitivity->n; i++)
        if (sensitivity->changes[i].rows->winner_changes)
            fprintf(file, "%s%s (%s)",
                    n++ > 0 ? ", " : "the winner changes with: ", sensitivity->changes[i].rows->change,
                    winner_of(&sensitivity->changes[i]));
    for (int32_t i = 1; i < sensitivity->n; i++)
        if (*sensitivity->changes[i].tie != '\0' && n_ties++ < MOST_TIES)
            fprintf(file, "%s%s (%s)",
                    n_ties > 1 ? ", "
                    : n > 0    ? "; it ties with: "
                               : "the winner ties with: ",
                    sensitivity->changes[i].rows->change, sensitivity->changes[i].tie);
    if (n_ties > MOST_TIES)
        fprintf(file, " and %d more", n_ties - MOST_TIES);
    fputs(n + n_ties == 0 ? "no change alone changes the winner" : "", file);
    if (n + n_ties == 0)
        write_lead(file, sensitivity);
    fputc('\n', file);
}

/** Write what becomes of the winner, and where the model's error comes from. */
static void write_verdict(FILE *file, const struct sensitivity *sensitivity)
{
    write_winners(file, sensitivity);
    const struct model_error *error = &sensitivity->error;
    const struct trace_sensitivity *first = &sensitivity->changes[0].rows[0];
    fprintf(file, "model error: mean %+.1f%%, deviation %.1f%%, %s; it moves all systems alike", 100 * error->bias,
            100 * error->deviation, error->basis);
    if (first->fits) {
        struct model_interval interval = model_error_interval(error, first->tokens_per_s_per_gpu);
        fprintf(file, "; %s: ", first->system);
        model_interval_write(file, &interval);
        fputs(" tokens/s/GPU (p5 to p95)", file);
    }
    fputc('\n', file);
}

/** Print at most LINES lines, or all. */
static void print_text(const struct sensitivity *sensitivity, const struct scenario *scenario, bool verbose)
{
    const struct text_limits limits = {COLUMNS, verbose ? INT32_MAX : 3, verbose ? INT32_MAX : 5, NULL};
    char *verdict = NULL;
    size_t n_bytes;
    FILE *file = check_memstream(&verdict, &n_bytes);
    write_verdict(file, sensitivity);
    CHECK(fclose(file) == 0);
    text_print_clipped(COLUMNS, "%s: %s on %d x %s, tokens/s/GPU on the critical path, one change at a time",
                       scenario->name, scenario->model.name, platform_n_gpus(&scenario->platform),
                       scenario->device.name);
    const struct point_result *base = &sensitivity->questions.at[0].result;
    int32_t first = base->standings[0].system;
    char note[ASSUMPTIONS_SIZE] = "";
    assumptions_scaled_attention(scenario, base->label[first], &base->summary[first], note);
    text_print_wrapped(note, &limits);
    int32_t n = sensitivity->n,
            n_rows = LINES - 3 - text_wrapped_lines(verdict, &limits) - text_wrapped_lines(note, &limits);
    n_rows = verbose || n <= n_rows + 1 ? n : n_rows;
    print_table(sensitivity, n_rows, verbose);
    if (n_rows < n)
        printf("and %d changes with smaller effects on %s, or that cannot run (-v)\n", n - n_rows,
               sensitivity->changes[0].rows[0].system);
    text_print_wrapped(verdict, &limits);
    free(verdict);
}

static json_t *json_of_change(const struct sensitivity *sensitivity, const struct sensitivity_change *change)
{
    const struct trace_sensitivity *first = change->rows;
    json_t *systems = json_array();
    for (int32_t i = 0; first->refused == NULL && i < sensitivity->n_systems; i++) {
        const struct trace_sensitivity *row = &change->rows[i];
        json_array_append_new(systems,
                              json_pack("{s:s, s:i, s:b, s:b, s:f, s:o}", "label", row->system, "rank", row->rank,
                                        "fits", row->fits, "tight", row->tight, "tokens_per_s_per_gpu",
                                        row->tokens_per_s_per_gpu, "gain", json_of_number(row->gain)));
    }
    return json_pack("{s:s, s:s, s:f, s:s?, s:s?, s:b, s:s, s:o}", "name", first->change, "set", first->set,
                     "memory_factor", change->memory, "refused", first->refused, "winner", first->winner,
                     "winner_changes", first->winner_changes, "tie", first->tie, "systems", systems);
}

static void print_json(const struct sensitivity *sensitivity, const struct scenario *scenario)
{
    json_t *changes = json_array();
    for (int32_t i = 0; i < sensitivity->n; i++)
        json_array_append_new(changes, json_of_change(sensitivity, &sensitivity->changes[i]));
    command_print_json(json_pack("{s:s, s:s, s:s, s:i, s:o, s:o}", "name", scenario->name, "model",
                                 scenario->model.name, "device", scenario->device.name, "gpus",
                                 platform_n_gpus(&scenario->platform), "model_error",
                                 model_error_json(&sensitivity->error), "changes", changes));
}

static void write_csv(FILE *file, const struct sensitivity *sensitivity)
{
    const struct trace_table *table = &trace_tables[TRACE_SENSITIVITY];
    csv_print_heads(table, file);
    fputc('\n', file);
    for (int32_t i = 0; i < sensitivity->n; i++)
        for (int32_t k = 0; k < sensitivity->n_systems; k++) {
            csv_print_row(table, &sensitivity->changes[i].rows[k], NULL, NULL, file);
            fputc('\n', file);
        }
}

static bool is_ours(const char *path)
{
    return output_begins_with(path, csv_begin);
}

static bool write_file(const char *path, const struct sensitivity *sensitivity, struct error *err)
{
    struct output output = {0};
    FILE *file = output_open(&output, path, err);
    if (file == NULL)
        return false;
    write_csv(file, sensitivity);
    return output_close(&output, file, true, err);
}

/** Find the answer, write and print it. */
static bool run(const struct arguments *arguments, const struct scenario *scenario, const struct document *document,
                struct error *err)
{
    const struct options *options = &arguments->options;
    struct sensitivity sensitivity = {0};
    struct answer_run answer;
    char *name = check_asprintf("%s.sensitivity", scenario->name);
    char *path = check_asprintf("%s/%s.csv", options->output, name);
    bool ok = output_may_replace(path, is_ours, "table", "another --output", err) &&
              answer_begin(&answer, options, "sensitivity", name, err) &&
              answer_end(&answer, sensitivity_find(document, scenario, &answer.how, &sensitivity, err)) &&
              write_file(path, &sensitivity, err);
    if (ok && options->json)
        print_json(&sensitivity, scenario);
    else if (ok)
        print_text(&sensitivity, scenario, options->verbose);
    fflush(stdout); /* so that text on stderr comes later if both go to one file */
    if (ok && !options->quiet)
        fprintf(stderr, "written: %s\n", path);
    sensitivity_free(&sensitivity);
    free(path);
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
    return options_parse_file(key, argument, state, "a scenario", &arguments->scenario);
}

static const struct argp argp = {
    NULL,
    parse,
    "SCENARIO.yaml",
    "Change one assumption at a time and print how much each system gains or loses: attention kernel, overlaps, NIC, "
    "NVLink, GPU memory, batch, lengths, plan space, framework, the model's own error. Runs are on the critical path. "
    "A plan that is `auto` is "
    "searched "
    "again for each change; others stay. The largest effects on the first system of the ranking come first.",
    children,
    NULL,
    NULL};

int command_sensitivity(int argc, char **argv)
{
    struct arguments arguments = {0};
    struct scenario scenario = {0};
    struct lengths lengths = {0};
    struct document document = {0};
    struct error err = {0};
    parse_arguments(&argp, argc, argv, &arguments);
    const struct options *options = &arguments.options;
    bool ok = command_read(arguments.scenario, options, &scenario, &lengths, &err) &&
              scenario_read_document(arguments.scenario, options->n_set, options->set, &document, &err) &&
              run(&arguments, &scenario, &document, &err);
    document_free(&document);
    lengths_close(&lengths);
    scenario_free(&scenario);
    options_free(&arguments.options);
    return answer_status(ok, &err);
}
