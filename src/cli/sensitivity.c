/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file is `slimsim sensitivity`. It changes one assumption at a time and says how much each system gains by it. */
#include "sweep/sensitivity.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/compare.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/stop.h"
#include "scenario/scenario_read.h"
#include "trace/csv.h"
#include "trace/output.h"

enum { COLUMNS = 100, LINES = 20, NAME_COLUMNS = 24, CELL_COLUMNS = 16, MOST_CELLS = 3, LINE_BYTES = 1024 };
static const char csv_begin[] = "change,set,system,";

struct arguments {
    struct options options;
    const char *scenario;
};

/** The changes in the order of the output: the scenario as it is, then the largest effect on the first system. */
struct ranking {
    const struct sensitivity *sensitivity;
    const struct scenario *scenario;
    int32_t *changes; /* [sensitivity->n] */
    int32_t *systems; /* [sensitivity->n_systems], the best of the scenario as it is first */
};

/** An effect is a change and its size for the order. */
struct effect {
    int32_t change;
    double size;
};

/** Return the size of a gain. To fit no longer or to fit at last is infinite; a change that cannot run is below 0. */
static double effect_size(const struct sensitivity *sensitivity, int32_t change, int32_t system)
{
    const struct sensitivity_change *changes = sensitivity->changes;
    if (changes[change].refusal != NULL)
        return -1;
    if ((changes[change].systems[system].rank > 0) != (changes[0].systems[system].rank > 0))
        return INFINITY;
    double gain = sensitivity_gain(sensitivity, change, system);
    return isnan(gain) ? 0 : fabs(gain);
}

static int compare_effects(const void *a, const void *b)
{
    const struct effect *x = a, *y = b;
    int order = COMPARE(y->size, x->size);
    return order != 0 ? order : COMPARE(x->change, y->change);
}

/** Order systems and changes. */
static void rank(struct ranking *ranking)
{
    const struct sensitivity *sensitivity = ranking->sensitivity;
    ranking->systems = check_calloc((size_t)sensitivity->n_systems, sizeof *ranking->systems);
    ranking->changes = check_calloc((size_t)sensitivity->n, sizeof *ranking->changes);
    for (int32_t i = 0; i < sensitivity->n_systems; i++)
        ranking->systems[sensitivity->changes[0].systems[i].place] = i;
    struct effect *effects = check_calloc((size_t)sensitivity->n, sizeof *effects);
    for (int32_t i = 1; i < sensitivity->n; i++)
        effects[i] = (struct effect){i, effect_size(sensitivity, i, ranking->systems[0])};
    qsort(effects + 1, (size_t)sensitivity->n - 1, sizeof *effects, compare_effects);
    for (int32_t i = 0; i < sensitivity->n; i++)
        ranking->changes[i] = effects[i].change;
    free(effects);
}

static const char *label_of(const struct ranking *ranking, int32_t system)
{
    return system < 0 ? "none" : ranking->scenario->systems[system].label;
}

/** Append text to a line, at the right of a cell or, if `columns` is negative, at its left. */
static void add_cell(char line[LINE_BYTES], const char *text, int32_t columns)
{
    char cell[LINE_BYTES / 2];
    size_t used = strlen(line);
    int32_t width = abs(columns);
    snprintf(cell, sizeof cell, "%s", text);
    text_clip(cell, width);
    int32_t blanks = width - text_columns(cell);
    snprintf(line + used, LINE_BYTES - used, "%*s%s%*s", columns > 0 ? blanks : 0, "", cell, columns > 0 ? 0 : blanks,
             "");
}

/** Return how many systems have a column. */
static int32_t n_cells(const struct ranking *ranking, bool verbose)
{
    int32_t n = ranking->sensitivity->n_systems;
    return verbose || n < MOST_CELLS ? n : MOST_CELLS;
}

static void print_header(const struct ranking *ranking, int32_t n_systems)
{
    char line[LINE_BYTES] = "";
    add_cell(line, "change", -NAME_COLUMNS);
    for (int32_t i = 0; i < n_systems; i++) {
        add_cell(line, "", 2);
        add_cell(line, label_of(ranking, ranking->systems[i]), CELL_COLUMNS);
    }
    if (n_systems < ranking->sensitivity->n_systems)
        snprintf(line + strlen(line), LINE_BYTES - strlen(line), "  and %d more (-v)",
                 ranking->sensitivity->n_systems - n_systems);
    puts(line);
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

static void print_row(const struct ranking *ranking, int32_t change, int32_t n_systems, bool verbose)
{
    const struct sensitivity *sensitivity = ranking->sensitivity;
    const char *refusal = sensitivity->changes[change].refusal;
    char line[LINE_BYTES] = "", text[TEXT_NUMBER_SIZE];
    add_cell(line, sensitivity->changes[change].name, -NAME_COLUMNS);
    for (int32_t i = 0; i < n_systems; i++) {
        write_cell(sensitivity, change, ranking->systems[i], text);
        add_cell(line, "", 2);
        add_cell(line, text, CELL_COLUMNS);
    }
    if (change > 0 && sensitivity_changes_winner(sensitivity, change))
        snprintf(line + strlen(line), LINE_BYTES - strlen(line), "  first: %s",
                 label_of(ranking, sensitivity_winner(sensitivity, change)));
    bool says = verbose && refusal != NULL;
    text_print_clipped(verbose ? INT32_MAX : COLUMNS, "%s%s%.*s", line, says ? "  " : "",
                       says ? (int)strcspn(refusal, "\n") : 0, says ? refusal : "");
}

/** Write which changes move another system to the first place, and where the model's error comes from. */
static void write_verdict(FILE *file, const struct ranking *ranking)
{
    const struct sensitivity *sensitivity = ranking->sensitivity;
    int32_t n = 0;
    for (int32_t i = 1; i < sensitivity->n; i++) {
        int32_t change = ranking->changes[i];
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
    int32_t n_systems = n_cells(ranking, verbose);
    char *verdict = NULL;
    size_t n_bytes;
    FILE *file = check_memstream(&verdict, &n_bytes);
    write_verdict(file, ranking);
    CHECK(fclose(file) == 0);
    text_print_clipped(COLUMNS, "%s: %s on %d x %s, tokens/s/GPU on the critical path, one change at a time",
                       scenario->name, scenario->model.name, platform_n_gpus(&scenario->platform),
                       scenario->device.name);
    print_header(ranking, n_systems);
    int32_t n_rows = LINES - 3 - text_wrapped_lines(verdict, &limits), n = sensitivity->n;
    n_rows = verbose || n <= n_rows + 1 ? n : n_rows;
    for (int32_t i = 0; i < n_rows; i++)
        print_row(ranking, ranking->changes[i], n_systems, verbose);
    if (n_rows < n)
        printf("and %d changes with smaller effects on %s, or that cannot run (-v)\n", n - n_rows,
               label_of(ranking, ranking->systems[0]));
    text_print_wrapped(verdict, &limits);
    free(verdict);
}

static json_t *json_of_change(const struct ranking *ranking, int32_t change)
{
    const struct sensitivity *sensitivity = ranking->sensitivity;
    const struct sensitivity_change *of = &sensitivity->changes[change];
    json_t *systems = json_array();
    int32_t winner = sensitivity_winner(sensitivity, change);
    for (int32_t i = 0; of->refusal == NULL && i < sensitivity->n_systems; i++) {
        int32_t system = ranking->systems[i];
        double gain = sensitivity_gain(sensitivity, change, system);
        json_array_append_new(systems, json_pack("{s:s, s:i, s:b, s:f, s:o}", "label", label_of(ranking, system),
                                                 "rank", of->systems[system].rank, "fits", of->systems[system].rank > 0,
                                                 "tokens_per_s_per_gpu", of->systems[system].tokens_per_s_per_gpu,
                                                 "gain", isnan(gain) ? json_null() : json_real(gain)));
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
        json_array_append_new(changes, json_of_change(ranking, ranking->changes[i]));
    const struct model_error *error = &ranking->sensitivity->error;
    command_print_json(json_pack(
        "{s:s, s:s, s:s, s:i, s:{s:i, s:f, s:f, s:s}, s:o}", "name", scenario->name, "model", scenario->model.name,
        "device", scenario->device.name, "gpus", platform_n_gpus(&scenario->platform), "model_error", "runs",
        error->n_rows, "bias", error->bias, "deviation", error->deviation, "basis", error->basis, "changes", changes));
}

static void write_csv(FILE *file, const struct ranking *ranking)
{
    const struct sensitivity *sensitivity = ranking->sensitivity;
    fprintf(file, "%sfits,rank,tokens_per_s_per_gpu,gain,winner,winner_changes,refused\n", csv_begin);
    for (int32_t i = 0; i < sensitivity->n; i++)
        for (int32_t k = 0; k < sensitivity->n_systems; k++) {
            int32_t change = ranking->changes[i], system = ranking->systems[k];
            const struct sensitivity_change *of = &sensitivity->changes[change];
            const struct sensitivity_system *result = &of->systems[system];
            int32_t winner = sensitivity_winner(sensitivity, change);
            csv_print_text(of->name, file);
            fputc(',', file);
            csv_print_text(of->set, file);
            fputc(',', file);
            csv_print_text(label_of(ranking, system), file);
            fprintf(file, ",%d,%d,", result->rank > 0, result->rank);
            csv_print_double(of->refusal != NULL ? NAN : result->tokens_per_s_per_gpu, file);
            fputc(',', file);
            csv_print_double(sensitivity_gain(sensitivity, change, system), file);
            fputc(',', file);
            csv_print_text(winner < 0 ? "" : label_of(ranking, winner), file);
            fprintf(file, ",%d,", sensitivity_changes_winner(sensitivity, change));
            csv_print_text(of->refusal != NULL ? of->refusal : "", file);
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

/** List, run and print the changes. */
static bool run(const struct arguments *arguments, const struct scenario *scenario, const struct document *document,
                struct error *err)
{
    const struct options *options = &arguments->options;
    struct sensitivity sensitivity = {0};
    struct ranking ranking = {&sensitivity, scenario, NULL, NULL};
    struct sensitivity_options how = {!options->quiet, &stop_signal};
    char *path = check_asprintf("%s/%s.sensitivity.csv", options->output, scenario->name);
    bool ok = command_make_folder(options->output, err) &&
              output_may_replace(path, is_ours, "table", "choose another --output", err);
    if (ok) {
        stop_catch();
        ok = sensitivity_list(document, scenario, &sensitivity, err) && sensitivity_run(&sensitivity, &how, err);
    }
    if (ok) {
        rank(&ranking);
        ok = write_file(path, &ranking, err);
    }
    if (ok && options->json)
        print_json(&ranking);
    else if (ok)
        print_text(&ranking, options->verbose);
    fflush(stdout); /* so that text on stderr comes later if both go to one file */
    if (ok && !options->quiet)
        fprintf(stderr, "written: %s\n", path);
    free(ranking.changes);
    free(ranking.systems);
    sensitivity_free(&sensitivity);
    free(path);
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
    if (!ok && stop_signal != 0)
        return stop_fail("no file is written", &err);
    return ok ? EXIT_SUCCESS : command_fail(&err);
}
