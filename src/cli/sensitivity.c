/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file is `slimsim sensitivity`. It changes one assumption at a time and says how much each system gains by it. */
#include "answer/sensitivity.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "base/text_table.h"
#include "cli/answer.h"
#include "cli/commands.h"
#include "scenario/scenario_read.h"
#include "trace/csv.h"
#include "trace/json.h"
#include "trace/output.h"

enum { COLUMNS = 100, LINES = 20, MOST_CELLS = 3 };
static const char csv_begin[] = "change,set,system,";

struct arguments {
    struct options options;
    const char *scenario;
};

/** An answer and its scenario. */
struct ranking {
    const struct sensitivity *sensitivity;
    const struct scenario *scenario;
};

static const char *label_of(const struct ranking *ranking, int32_t system)
{
    return system < 0 ? "none" : ranking->scenario->systems[system].label;
}

/** Return how many systems have a column. */
static int32_t n_cells(const struct ranking *ranking, bool verbose)
{
    int32_t n = ranking->sensitivity->n_systems;
    return verbose || n < MOST_CELLS ? n : MOST_CELLS;
}

static void write_cell(const struct sensitivity *sensitivity, int32_t change, int32_t system,
                       char text[TEXT_NUMBER_SIZE])
{
    const struct sensitivity_system *result = &sensitivity->changes[change].systems[system];
    double gain = sensitivity_gain(sensitivity, change, system);
    if (sensitivity->changes[change].refusal != NULL)
        snprintf(text, TEXT_NUMBER_SIZE, "cannot run");
    else if (result->rank == 0)
        snprintf(text, TEXT_NUMBER_SIZE, "does not fit");
    else if (change == 0 || isnan(gain))
        text_number(result->tokens_per_s_per_gpu, result->tokens_per_s_per_gpu < 100, text);
    else
        snprintf(text, TEXT_NUMBER_SIZE, "%+.1f%%", 100 * gain);
}

/** Add the row of a change, which ends with the system that wins instead, and with -v with the reason of a refusal. */
static void add_row(struct text_table *table, const struct ranking *ranking, int32_t change, bool verbose)
{
    const struct sensitivity *sensitivity = ranking->sensitivity;
    const char *refusal = sensitivity->changes[change].refusal;
    char text[TEXT_NUMBER_SIZE];
    text_table_cell(table, "%s", sensitivity->changes[change].name);
    for (int32_t i = 0; i < n_cells(ranking, verbose); i++) {
        write_cell(sensitivity, change, ranking->sensitivity->system_order[i], text);
        text_table_cell(table, "%s", text);
    }
    bool changes = change > 0 && sensitivity_changes_winner(sensitivity, change);
    const char *winner = changes ? label_of(ranking, sensitivity_winner(sensitivity, change)) : "";
    int bytes = verbose && refusal != NULL ? (int)strcspn(refusal, "\n") : 0;
    text_table_cell(table, "%s%s%s%.*s", changes ? "first: " : "", winner, changes && bytes > 0 ? "  " : "", bytes,
                    bytes > 0 ? refusal : "");
}

static void print_table(const struct ranking *ranking, int32_t n_rows, bool verbose)
{
    struct text_table table = {0};
    char more[32] = "";
    int32_t n = n_cells(ranking, verbose), n_more = ranking->sensitivity->n_systems - n;
    text_table_columns(&table, "change<24.24");
    for (int32_t i = 0; i < n; i++)
        text_table_column(&table, label_of(ranking, ranking->sensitivity->system_order[i]), ">16.16");
    if (n_more > 0)
        snprintf(more, sizeof more, "and %d more (-v)", n_more);
    text_table_column(&table, more, "<");
    for (int32_t i = 0; i < n_rows; i++)
        add_row(&table, ranking, ranking->sensitivity->order[i], verbose);
    text_table_print(&table, stdout, verbose ? 0 : COLUMNS);
}

/** Write which changes move another system to the first place, and where the model's error comes from. */
static void write_verdict(FILE *file, const struct ranking *ranking)
{
    const struct sensitivity *sensitivity = ranking->sensitivity;
    int32_t n = 0;
    for (int32_t i = 1; i < sensitivity->n; i++) {
        int32_t change = ranking->sensitivity->order[i];
        if (sensitivity_changes_winner(sensitivity, change))
            fprintf(file, "%s%s (%s)", n++ > 0 ? ", " : "the winner changes with: ", sensitivity->changes[change].name,
                    label_of(ranking, sensitivity_winner(sensitivity, change)));
    }
    fputs(n == 0 ? "no change alone changes the winner\n" : "\n", file);
    const struct model_error *error = &sensitivity->error;
    fprintf(file, "model error: %s, mean %+.1f%%, deviation %.1f%%; it moves all systems alike\n", error->basis,
            100 * error->bias, 100 * error->deviation);
}

/** Print at most LINES lines, or all. */
static void print_text(const struct ranking *ranking, bool verbose)
{
    const struct sensitivity *sensitivity = ranking->sensitivity;
    const struct scenario *scenario = ranking->scenario;
    const struct text_limits limits = {COLUMNS, verbose ? INT32_MAX : 3, verbose ? INT32_MAX : 3};
    char *verdict = NULL;
    size_t n_bytes;
    FILE *file = check_memstream(&verdict, &n_bytes);
    write_verdict(file, ranking);
    CHECK(fclose(file) == 0);
    text_print_clipped(COLUMNS, "%s: %s on %d x %s, tokens/s/GPU on the critical path, one change at a time",
                       scenario->name, scenario->model.name, platform_n_gpus(&scenario->platform),
                       scenario->device.name);
    int32_t n_rows = LINES - 3 - text_wrapped_lines(verdict, &limits), n = sensitivity->n;
    n_rows = verbose || n <= n_rows + 1 ? n : n_rows;
    print_table(ranking, n_rows, verbose);
    if (n_rows < n)
        printf("and %d changes with smaller effects on %s, or that cannot run (-v)\n", n - n_rows,
               label_of(ranking, ranking->sensitivity->system_order[0]));
    text_print_wrapped(verdict, &limits);
    free(verdict);
}

static struct trace_sensitivity row_of(const struct ranking *ranking, int32_t change, int32_t system)
{
    const struct sensitivity *sensitivity = ranking->sensitivity;
    const struct sensitivity_change *of = &sensitivity->changes[change];
    int32_t winner = sensitivity_winner(sensitivity, change), rank = of->systems[system].rank;
    return (struct trace_sensitivity){
        .change = of->name,
        .set = of->set,
        .system = label_of(ranking, system),
        .fits = rank > 0,
        .rank = rank,
        .tokens_per_s_per_gpu = of->refusal != NULL ? NAN : of->systems[system].tokens_per_s_per_gpu,
        .gain = sensitivity_gain(sensitivity, change, system),
        .winner = winner < 0 ? NULL : label_of(ranking, winner),
        .winner_changes = sensitivity_changes_winner(sensitivity, change),
        .refused = of->refusal,
    };
}

static json_t *json_of_change(const struct ranking *ranking, int32_t change)
{
    const struct sensitivity *sensitivity = ranking->sensitivity;
    const struct sensitivity_change *of = &sensitivity->changes[change];
    json_t *systems = json_array();
    int32_t winner = sensitivity_winner(sensitivity, change);
    for (int32_t i = 0; of->refusal == NULL && i < sensitivity->n_systems; i++) {
        int32_t system = ranking->sensitivity->system_order[i];
        json_array_append_new(systems,
                              json_pack("{s:s, s:i, s:b, s:f, s:o}", "label", label_of(ranking, system), "rank",
                                        of->systems[system].rank, "fits", of->systems[system].rank > 0,
                                        "tokens_per_s_per_gpu", of->systems[system].tokens_per_s_per_gpu, "gain",
                                        json_of_number(sensitivity_gain(sensitivity, change, system))));
    }
    return json_pack("{s:s, s:s, s:f, s:s?, s:s?, s:b, s:o}", "name", of->name, "set", of->set, "memory_factor",
                     of->memory, "refused", of->refusal, "winner", winner < 0 ? NULL : label_of(ranking, winner),
                     "winner_changes", sensitivity_changes_winner(sensitivity, change), "systems", systems);
}

static void print_json(const struct ranking *ranking)
{
    const struct scenario *scenario = ranking->scenario;
    json_t *changes = json_array();
    for (int32_t i = 0; i < ranking->sensitivity->n; i++)
        json_array_append_new(changes, json_of_change(ranking, ranking->sensitivity->order[i]));
    const struct model_error *error = &ranking->sensitivity->error;
    command_print_json(json_pack(
        "{s:s, s:s, s:s, s:i, s:{s:i, s:f, s:f, s:s}, s:o}", "name", scenario->name, "model", scenario->model.name,
        "device", scenario->device.name, "gpus", platform_n_gpus(&scenario->platform), "model_error", "runs",
        error->n_rows, "bias", error->bias, "deviation", error->deviation, "basis", error->basis, "changes", changes));
}

static void write_csv(FILE *file, const struct ranking *ranking)
{
    const struct sensitivity *sensitivity = ranking->sensitivity;
    const struct trace_table *table = &trace_tables[TRACE_SENSITIVITY];
    csv_print_heads(table, file);
    fputc('\n', file);
    for (int32_t i = 0; i < sensitivity->n * sensitivity->n_systems; i++) {
        int32_t change = ranking->sensitivity->order[i / sensitivity->n_systems];
        struct trace_sensitivity row =
            row_of(ranking, change, ranking->sensitivity->system_order[i % sensitivity->n_systems]);
        csv_print_row(table, &row, NULL, NULL, file);
        fputc('\n', file);
    }
}

static bool is_ours(const char *path)
{
    return output_begins_with(path, csv_begin);
}

static bool write_file(const char *path, const struct ranking *ranking, struct error *err)
{
    struct output output = {0};
    FILE *file = output_open(&output, path, err);
    if (file == NULL)
        return false;
    write_csv(file, ranking);
    return output_close(&output, file, true, err);
}

/** Find the answer, write and print it. */
static bool run(const struct arguments *arguments, const struct scenario *scenario, const struct document *document,
                struct error *err)
{
    const struct options *options = &arguments->options;
    struct sensitivity sensitivity = {0};
    struct ranking ranking = {&sensitivity, scenario};
    struct answer_run answer;
    char *name = check_asprintf("%s.sensitivity", scenario->name);
    char *path = check_asprintf("%s/%s.csv", options->output, name);
    bool ok = output_may_replace(path, is_ours, "table", "choose another --output", err) &&
              answer_begin(&answer, options, "sensitivity", name, err) &&
              answer_end(&answer, sensitivity_find(document, scenario, &answer.how, &sensitivity, err)) &&
              write_file(path, &ranking, err);
    if (ok && options->json)
        print_json(&ranking);
    else if (ok)
        print_text(&ranking, options->verbose);
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
    argp_parse(&argp, argc, argv, 0, NULL, &arguments);
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
