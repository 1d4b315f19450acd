/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file is `slimsim max`. It finds the largest value of a key that fits, with plans searched for every value. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "answer/largest_value.h"
#include "base/check.h"
#include "base/text.h"
#include "base/text_table.h"
#include "cli/answer.h"
#include "cli/commands.h"
#include "document/quantity.h"
#include "scenario/scenario_read.h"
#include "trace/json.h"

enum { COLUMNS = 100, LINES = 20, MOST_ROWS = 9, MOST_LISTED = 7 };

/** The keys that may be asked for. */
static const struct {
    const char *name;
    size_t offset; /* of int64_t in struct scenario */
    bool quarters; /* as in largest_range */
    int64_t least; /* no smaller value is tried, unless the scenario has one */
} keys[] = {
    {"data.context", offsetof(struct scenario, data.context), true, 1024},
    {"data.global_batch", offsetof(struct scenario, data.global_batch), false, 1},
};
enum { N_KEYS = sizeof keys / sizeof *keys };

struct arguments {
    struct options options;
    const char *key, *scenario;
    double most;
};

static void print_heading(const struct largest_values *values, const struct scenario *scenario)
{
    char most[TEXT_NUMBER_SIZE];
    text_number((double)values->asked.range.most, 0, most);
    text_print_clipped(COLUMNS, "%s: the largest %s up to %s that fits, %s on %d x %s", scenario->name,
                       values->asked.key, most, scenario->model.name, platform_n_gpus(&scenario->platform),
                       scenario->device.name);
    putchar('\n');
}

static void add_row(struct text_table *table, const struct largest_of_system *system)
{
    char value[TEXT_NUMBER_SIZE] = "none", tight[TEXT_NUMBER_SIZE], rate[TEXT_NUMBER_SIZE];
    const struct value_trial *trial = largest_trial_of(system, system->largest.value);
    if (system->tight.value == 0) {
        text_table_row(table, "%s\tnone\tnone\t-\t-\t-", system->label);
        return;
    }
    if (trial == NULL)
        trial = largest_trial_of(system, system->tight.value);
    else
        text_number((double)trial->value, 0, value);
    const struct trace_summary *summary = trial->question.result.summary;
    text_number((double)system->tight.value, 0, tight);
    text_number(summary->tokens_per_s_per_gpu, summary->tokens_per_s_per_gpu < 100, rate);
    text_table_row(table, "%s\t%s\t%s\t%s\t%.1f\t%s", system->label, value, tight, rate, summary->peak_bytes / TEXT_GIB,
                   summary->plan_text);
}

/** Write what stops a value: what the system lacks, or in brief "stage 3, activations". */
static void write_stop(FILE *file, const struct value_trial *trial, bool brief)
{
    const char *refusal = what_if_refusal(&trial->question);
    const struct trace_summary *summary = trial->question.result.summary;
    if (refusal != NULL) {
        fprintf(file, "%.*s", (int)strcspn(refusal, "\n"), refusal);
        return;
    }
    if (brief) {
        fprintf(file, summary->exceeded_limit == EXCEEDED_HOST_MEMORY ? "host memory" : "stage %d, %s",
                summary->peak_stage, memory_class_name[summary->peak_class]);
        return;
    }
    char *lack = summary_lack_text(summary);
    fputs(lack, file);
    free(lack);
}

/** Write that a context is longer than every sample, since then its memory is not that of a sample of this length. */
static void write_longest(FILE *file, const struct largest_values *values, const struct value_trial *trial)
{
    char longest[TEXT_NUMBER_SIZE];
    int64_t longest_tokens = trial->question.result.longest_tokens;
    if (!values->asked.range.quarters || longest_tokens >= trial->value)
        return;
    text_number((double)longest_tokens, 0, longest);
    fprintf(file, "; no sample of its iterations is longer than %s", longest);
}

/** Write what stops a system above its largest value, and values below it that do not fit. */
static void write_system_stop(FILE *file, const struct largest_values *values, const struct largest_of_system *system,
                              bool brief)
{
    const struct value_trial *trial = largest_trial_of(system, system->tight.next);
    char value[TEXT_NUMBER_SIZE];
    int32_t n = 0;
    if (trial == NULL) {
        fprintf(file, "%s: it fits up to the limit of --to", system->label);
        write_longest(file, values, largest_trial_of(system, system->tight.value));
    } else {
        text_number((double)trial->value, 0, value);
        fprintf(file, brief ? "%s %s: " : "%s at %s: ", system->label, value);
        write_stop(file, trial, brief);
    }
    for (int32_t i = 0; i < system->n_trials; i++)
        if (!system->trials[i].fits && system->trials[i].value < system->tight.value) {
            text_number((double)system->trials[i].value, 0, value);
            fprintf(file, "%s%s", n++ == 0 ? "; does not fit below it either: " : ", ", value);
        }
}

/** Print at most LINES lines. */
static void print_text(const struct largest_values *values, const struct scenario *scenario)
{
    int32_t n_rows = values->n < MOST_ROWS ? values->n : MOST_ROWS;
    struct text_table table = {0};
    bool listed = n_rows <= MOST_LISTED;
    char *stops = NULL;
    size_t n_bytes;
    print_heading(values, scenario);
    text_table_columns(&table, "system<;fits>12;tightly>12;tokens/s/GPU>12;GiB>6;plan<");
    for (int32_t i = 0; i < n_rows; i++)
        add_row(&table, &values->systems[i]);
    text_table_print(&table, stdout, COLUMNS);
    if (n_rows < values->n)
        printf("and %d more systems (--json)\n", values->n - n_rows);
    if (listed)
        putchar('\n');
    FILE *file = check_memstream(&stops, &n_bytes);
    for (int32_t i = 0; i < n_rows; i++) {
        write_system_stop(file, values, &values->systems[i], !listed);
        fputs(listed || i + 1 == n_rows ? "\n" : "; ", file);
    }
    CHECK(fclose(file) == 0);
    int32_t used = 4 + n_rows + (listed || n_rows < values->n); /* lines printed, and the last one */
    text_print_wrapped(stops, &(struct text_limits){COLUMNS, listed ? 2 : LINES - used, LINES - used, NULL});
    free(stops);
    printf("%d value%s tried, each as a run on the critical path of %" PRId64 " iteration%s after %" PRId64
           " warm-up\n",
           values->n_trials, values->n_trials == 1 ? "" : "s", scenario->measured, scenario->measured == 1 ? "" : "s",
           scenario->warm_up);
}

static json_t *json_of_trial(const struct value_trial *trial)
{
    json_t *row =
        json_pack("{s:I, s:b, s:b}", "value", (json_int_t)trial->value, "fits", trial->fits, "tight", trial->tight);
    const char *refusal = what_if_refusal(&trial->question);
    if (refusal != NULL) {
        json_object_set_new(row, "refused", json_string(refusal));
        return row;
    }
    const struct trace_summary *summary = trial->question.result.summary;
    json_t *columns = json_of_row(TRACE_SUMMARY, summary, NULL, NULL);
    json_object_update_missing(row, columns);
    json_decref(columns);
    json_object_set_new(row, "longest_sample", json_integer((json_int_t)trial->question.result.longest_tokens));
    return row;
}

/** Return an integer, or null for 0. */
static json_t *json_of_value(int64_t value)
{
    return value > 0 ? json_integer((json_int_t)value) : json_null();
}

static void print_json(const struct largest_values *values, const struct scenario *scenario)
{
    json_t *systems = json_array();
    for (int32_t i = 0; i < values->n; i++) {
        const struct largest_of_system *system = &values->systems[i];
        json_t *trials = json_array();
        for (int32_t k = 0; k < system->n_trials; k++)
            json_array_append_new(trials, json_of_trial(&system->trials[k]));
        json_array_append_new(systems, json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "label", system->label, "largest",
                                                 json_of_value(system->largest.value), "next",
                                                 json_of_value(system->largest.next), "largest_tight",
                                                 json_of_value(system->tight.value), "next_tight",
                                                 json_of_value(system->tight.next), "trials", trials));
    }
    command_print_json(json_pack("{s:s, s:s, s:I, s:i, s:o}", "name", scenario->name, "key", values->asked.key, "to",
                                 (json_int_t)values->asked.range.most, "n_trials", values->n_trials, "systems",
                                 systems));
}

static const struct argp_child children[] = {OPTION(set), OPTION(output), OPTION(json), OPTION(quiet), {0}};

enum { KEY_TO = 0x100 };

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        options_begin(&arguments->options, children, state);
        return 0;
    case KEY_TO:
        if (!quantity_parse(argument, "-", &arguments->most) || arguments->most < 1 || arguments->most > 0x1p52 ||
            arguments->most != floor(arguments->most))
            argp_error(state, "--to: '%s' is not a whole number from 1, such as 1Mi", argument);
        return 0;
    case ARGP_KEY_ARG:
        if (arguments->key == NULL) {
            arguments->key = argument;
            return 0;
        }
        return options_parse_file(key, argument, state, "a scenario", &arguments->scenario);
    case ARGP_KEY_END:
        if (arguments->scenario == NULL)
            argp_error(state, "%s is missing, as in: data.context SCENARIO.yaml",
                       arguments->key == NULL ? "a key" : "a scenario");
        if (arguments->most < 1)
            argp_error(state, "--to is missing, the largest value that is tried: --to 1Mi");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option max_options[] = {
    {"to", KEY_TO, "VALUE", 0, "The largest value that may be tried: 1Mi", 0},
    {0},
};
static const struct argp argp = {
    max_options,
    parse,
    "KEY SCENARIO.yaml",
    "Find the largest value of data.context or data.global_batch with which each system fits surely, and with which it "
    "fits at least tightly. A plan that is `auto` is "
    "searched again for each value. Values are doubled, then bisected; the next 4 above are tried, too, because a "
    "larger value may fit where a smaller one does not. A context is 4, 5, 6 or 7 times a power of two.",
    children,
    NULL,
    NULL};

/** Find the key and the range of its values. */
static bool read_range(const struct arguments *arguments, const struct scenario *scenario, struct largest_key *asked,
                       struct error *err)
{
    int i = 0;
    while (i < N_KEYS && strcmp(arguments->key, keys[i].name) != 0)
        i++;
    if (i == N_KEYS)
        return error_set(err,
                         "max: '%s' is no key that can be searched; allowed: data.context, data.global_batch (the "
                         "layers of a model are in its file, and no key changes them)",
                         arguments->key);
    int64_t start = *(const int64_t *)(const void *)((const char *)scenario + keys[i].offset);
    if (start == 0)
        return error_set(err, "%s: the scenario has data.global_batch_tokens; `max %s` needs data.global_batch instead",
                         arguments->scenario, arguments->key);
    int64_t most = (int64_t)arguments->most, least = keys[i].least < most ? keys[i].least : most;
    *asked = (struct largest_key){keys[i].name, {keys[i].quarters, start, least, most}};
    return true;
}

static bool find_largest(const struct arguments *arguments, struct error *err)
{
    struct scenario scenario = {0};
    struct lengths lengths = {0};
    struct document document = {0};
    struct largest_key asked = {0};
    struct largest_values values = {.n = 0};
    struct answer_run answer;
    char *name = NULL;
    const struct options *options = &arguments->options;
    bool ok = command_read(arguments->scenario, options, &scenario, &lengths, err) &&
              read_range(arguments, &scenario, &asked, err) &&
              scenario_read_document(arguments->scenario, options->n_set, options->set, &document, err);
    if (ok)
        name = check_asprintf("%s.max-%s", scenario.name, asked.key);
    ok = ok && answer_begin(&answer, options, "max", name, err) &&
         answer_end(&answer, largest_values_find(&document, &scenario, &asked, &answer.how, &values, err));
    if (ok && options->json)
        print_json(&values, &scenario);
    else if (ok)
        print_text(&values, &scenario);
    free(name);
    largest_values_free(&values);
    document_free(&document);
    lengths_close(&lengths);
    scenario_free(&scenario);
    return ok;
}

int command_max(int argc, char **argv)
{
    struct arguments arguments = {0};
    struct error err = {0};
    parse_arguments(&argp, argc, argv, &arguments);
    bool ok = find_largest(&arguments, &err);
    options_free(&arguments.options);
    return answer_status(ok, &err);
}
