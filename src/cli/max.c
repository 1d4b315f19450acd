/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file is `slimsim max`. It finds the largest value of a key that fits, with plans searched for every value. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/cores.h"
#include "base/status_line.h"
#include "base/text.h"
#include "cli/commands.h"
#include "document/quantity.h"
#include "scenario/scenario_read.h"
#include "simulate/fit_trial.h"
#include "simulate/plan_text.h"
#include "sweep/largest_value.h"
#include "trace/table.h"

enum { COLUMNS = 100, LINES = 20, MOST_ROWS = 9, MOST_LISTED = 7 };

static const double gib = 1 << 30;

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

/** The search of one system. */
struct subject {
    struct maximum *maximum;
    const char *label;        /* borrowed */
    struct document document; /* the scenario with this system alone */
    struct fit_trial *trials; /* in the order in which they were tried */
    int32_t n_trials;
    size_t capacity;
    struct largest_value largest;
    struct error err;
    bool ok;
};

struct maximum {
    const char *key;
    struct largest_range range;
    struct subject *subjects;
    int32_t n, next;
    struct status_line status;
    pthread_mutex_t lock; /* of `next` and `status` */
};

/** The value that a search tries now. */
struct trial_progress {
    struct subject *subject;
    int64_t value;
};

static bool show_progress(void *context, const struct scenario_system *entry, int32_t n_settled, int32_t n_plans,
                          const struct search_plan *best)
{
    const struct trial_progress *progress = context;
    struct maximum *maximum = progress->subject->maximum;
    (void)entry;
    (void)best;
    pthread_mutex_lock(&maximum->lock);
    status_line_print(&maximum->status, "%s, value %d, %s=%" PRId64 ": plan search, %d of %d plans settled",
                      progress->subject->label, progress->subject->n_trials + 1, maximum->key, progress->value,
                      (int)n_settled, (int)n_plans);
    pthread_mutex_unlock(&maximum->lock);
    return true;
}

static const struct fit_trial *find_trial(const struct subject *subject, int64_t value)
{
    for (int32_t i = 0; i < subject->n_trials; i++)
        if (subject->trials[i].value == value)
            return &subject->trials[i];
    return NULL;
}

static bool try_value(void *context, int64_t value, bool *fits, struct error *err)
{
    struct subject *subject = context;
    const struct fit_trial *known = find_trial(subject, value);
    if (known == NULL) {
        struct trial_progress progress = {subject, value};
        struct search_options options = {.progress = show_progress, .context = &progress};
        struct fit_trial trial;
        if (!fit_trial_run(&subject->document, subject->maximum->key, value, &options, &trial, err))
            return false;
        subject->trials =
            check_grow(subject->trials, (size_t)subject->n_trials, &subject->capacity, sizeof *subject->trials);
        subject->trials[subject->n_trials++] = trial;
        known = &subject->trials[subject->n_trials - 1];
    }
    *fits = known->fits;
    return true;
}

static void *search_next(void *argument)
{
    struct maximum *maximum = argument;
    for (;;) {
        pthread_mutex_lock(&maximum->lock);
        int32_t i = maximum->next++;
        pthread_mutex_unlock(&maximum->lock);
        if (i >= maximum->n)
            return NULL;
        struct subject *subject = &maximum->subjects[i];
        subject->ok = largest_value_find(&maximum->range, try_value, subject, &subject->largest, &subject->err);
    }
}

/** Search the systems side by side, on as many cores as there are. */
static bool search_all(struct maximum *maximum, struct error *err)
{
    int32_t n_cores = cores_available(), n = n_cores < maximum->n ? n_cores : maximum->n;
    pthread_t *threads = check_calloc((size_t)(n > 0 ? n : 1), sizeof *threads);
    int32_t n_started = 0;
    while (n_started < n - 1 && pthread_create(&threads[n_started], NULL, search_next, maximum) == 0)
        n_started++;
    search_next(maximum);
    for (int32_t i = 0; i < n_started; i++)
        pthread_join(threads[i], NULL);
    free(threads);
    status_line_end(&maximum->status);
    for (int32_t i = 0; i < maximum->n; i++)
        if (!maximum->subjects[i].ok) {
            *err = maximum->subjects[i].err;
            return false;
        }
    return true;
}

static void print_heading(const struct maximum *maximum, const struct scenario *scenario, int32_t label_columns)
{
    char most[TEXT_NUMBER_SIZE];
    text_number((double)maximum->range.most, 0, most);
    text_print_clipped(COLUMNS, "%s: the largest %s up to %s that fits, %s on %d x %s", scenario->name, maximum->key,
                       most, scenario->model.name, platform_n_gpus(&scenario->platform), scenario->device.name);
    printf("\n%-*s  %12s  %12s  %6s  plan\n", label_columns, "system", "largest", "tokens/s/GPU", "GiB");
}

static void print_row(const struct subject *subject, int32_t label_columns)
{
    char value[TEXT_NUMBER_SIZE] = "none", rate[TEXT_NUMBER_SIZE] = "-", peak[TEXT_NUMBER_SIZE] = "-",
         plan[PLAN_TEXT_NAME_SIZE] = "-";
    const struct fit_trial *trial = find_trial(subject, subject->largest.value);
    if (trial != NULL) {
        text_number((double)trial->value, 0, value);
        text_number(trial->summary.tokens_per_s_per_gpu, trial->summary.tokens_per_s_per_gpu < 100, rate);
        text_number(trial->summary.peak_bytes / gib, 1, peak);
        plan_text_name(&trial->plan, trial->summary.host.bytes > 0, plan);
    }
    text_print_clipped(COLUMNS, "%-*s  %12s  %12s  %6s  %s", label_columns, subject->label, value, rate, peak, plan);
}

/** Write what stops a value: "stage 3 needs 95.2 of 74.9 GiB, mostly activations", or "stage 3, activations". */
static void write_stop(FILE *file, const struct fit_trial *trial, bool brief)
{
    char needed[TEXT_NUMBER_SIZE], has[TEXT_NUMBER_SIZE];
    const struct point_summary *summary = &trial->summary;
    bool host = summary->misfit == EXCEEDED_HOST_MEMORY;
    if (trial->refusal != NULL) {
        fprintf(file, "%.*s", (int)strcspn(trial->refusal, "\n"), trial->refusal);
        return;
    }
    text_number((host ? summary->host.bytes : summary->peak_bytes) / gib, 1, needed);
    text_number((host ? trial->limits.host_bytes : trial->limits.gpu_bytes) / gib, 1, has);
    if (brief)
        fprintf(file, host ? "host memory" : "stage %d, %s", summary->peak_stage,
                memory_class_name[summary->peak_class]);
    else if (host)
        fprintf(file, "node %d needs %s of %s GiB of host memory", summary->host.node, needed, has);
    else
        fprintf(file, "stage %d needs %s of %s GiB, mostly %s", summary->peak_stage, needed, has,
                memory_class_name[summary->peak_class]);
}

/** Write that a context is longer than every sample, since then its memory is not that of a sample of this length. */
static void write_longest(FILE *file, const struct subject *subject)
{
    const struct fit_trial *trial = find_trial(subject, subject->largest.value);
    char longest[TEXT_NUMBER_SIZE];
    if (!subject->maximum->range.quarters || trial->longest_tokens >= trial->value)
        return;
    text_number((double)trial->longest_tokens, 0, longest);
    fprintf(file, "; no sample of its iterations is longer than %s", longest);
}

/** Write what stops a system above its largest value, and values below it that do not fit. */
static void write_subject_stop(FILE *file, const struct subject *subject, bool brief)
{
    const struct fit_trial *trial = find_trial(subject, subject->largest.next);
    char value[TEXT_NUMBER_SIZE];
    int32_t n = 0;
    if (trial == NULL) {
        fprintf(file, "%s: it fits up to the limit of --to", subject->label);
        write_longest(file, subject);
    } else {
        text_number((double)trial->value, 0, value);
        fprintf(file, brief ? "%s %s: " : "%s at %s: ", subject->label, value);
        write_stop(file, trial, brief);
    }
    for (int32_t i = 0; i < subject->n_trials; i++)
        if (!subject->trials[i].fits && subject->trials[i].value < subject->largest.value) {
            text_number((double)subject->trials[i].value, 0, value);
            fprintf(file, "%s%s", n++ == 0 ? "; does not fit below it either: " : ", ", value);
        }
}

static int32_t n_trials_of(const struct maximum *maximum)
{
    int32_t n = 0;
    for (int32_t i = 0; i < maximum->n; i++)
        n += maximum->subjects[i].n_trials;
    return n;
}

/** Print at most LINES lines. */
static void print_text(const struct maximum *maximum, const struct scenario *scenario)
{
    int32_t n_rows = maximum->n < MOST_ROWS ? maximum->n : MOST_ROWS, label_columns = text_columns("system");
    bool listed = n_rows <= MOST_LISTED;
    char *stops = NULL;
    size_t n_bytes;
    for (int32_t i = 0; i < n_rows; i++)
        label_columns = text_columns(maximum->subjects[i].label) > label_columns
                            ? text_columns(maximum->subjects[i].label)
                            : label_columns;
    print_heading(maximum, scenario, label_columns);
    for (int32_t i = 0; i < n_rows; i++)
        print_row(&maximum->subjects[i], label_columns);
    if (n_rows < maximum->n)
        printf("and %d more systems (--json)\n", maximum->n - n_rows);
    if (listed)
        putchar('\n');
    FILE *file = check_memstream(&stops, &n_bytes);
    for (int32_t i = 0; i < n_rows; i++) {
        write_subject_stop(file, &maximum->subjects[i], !listed);
        fputs(listed || i + 1 == n_rows ? "\n" : "; ", file);
    }
    CHECK(fclose(file) == 0);
    int32_t used = 4 + n_rows + (listed || n_rows < maximum->n); /* lines printed, and the last one */
    text_print_wrapped(stops, &(struct text_limits){COLUMNS, listed ? 2 : LINES - used, LINES - used});
    free(stops);
    printf("%d values tried, each as a run on the critical path of %" PRId64 " iterations after %" PRId64 " warm-up\n",
           n_trials_of(maximum), scenario->measured, scenario->warm_up);
}

static json_t *json_of_trial(const struct fit_trial *trial)
{
    json_t *row = json_pack("{s:I, s:b}", "value", (json_int_t)trial->value, "fits", trial->fits);
    if (trial->refusal != NULL) {
        json_object_set_new(row, "refused", json_string(trial->refusal));
        return row;
    }
    const struct scenario_plan *plan = &trial->plan;
    const struct point_summary *summary = &trial->summary;
    json_object_set_new(row, "plan",
                        json_pack("{s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:f}", "tp", (json_int_t)plan->tp, "pp",
                                  (json_int_t)plan->pp, "cp", (json_int_t)plan->cp, "dp", (json_int_t)plan->dp, "vpp",
                                  (json_int_t)plan->vpp, "sharding", trace_sharding_names.text[plan->sharding],
                                  "recompute", trace_recompute_names.text[plan->recompute], "offload", plan->offload));
    json_object_set_new(row, "tokens_per_s_per_gpu", json_real(summary->tokens_per_s_per_gpu));
    json_object_set_new(row, "peak_bytes", json_real(summary->peak_bytes));
    json_object_set_new(row, "peak_stage", json_integer(summary->peak_stage));
    json_object_set_new(row, "peak_class", json_string(memory_class_name[summary->peak_class]));
    json_object_set_new(row, "host_bytes", json_real(summary->host.bytes));
    json_object_set_new(row, "longest_sample", json_integer((json_int_t)trial->longest_tokens));
    json_object_set_new(row, "misfit", json_string(trace_misfit_names.text[summary->misfit]));
    return row;
}

/** Return an integer, or null for 0. */
static json_t *json_of_value(int64_t value)
{
    return value > 0 ? json_integer((json_int_t)value) : json_null();
}

static void print_json(const struct maximum *maximum, const struct scenario *scenario)
{
    json_t *systems = json_array();
    for (int32_t i = 0; i < maximum->n; i++) {
        const struct subject *subject = &maximum->subjects[i];
        json_t *trials = json_array();
        for (int32_t k = 0; k < subject->n_trials; k++)
            json_array_append_new(trials, json_of_trial(&subject->trials[k]));
        json_array_append_new(systems, json_pack("{s:s, s:o, s:o, s:o}", "label", subject->label, "largest",
                                                 json_of_value(subject->largest.value), "next",
                                                 json_of_value(subject->largest.next), "trials", trials));
    }
    command_print_json(json_pack("{s:s, s:s, s:I, s:i, s:o}", "name", scenario->name, "key", maximum->key, "to",
                                 (json_int_t)maximum->range.most, "n_trials", n_trials_of(maximum), "systems",
                                 systems));
}

static const struct argp_child children[] = {OPTION(set), OPTION(json), OPTION(quiet), {0}};

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
    "Find the largest value of data.context or data.global_batch with which each system fits. A plan that is `auto` is "
    "searched again for each value. Values are doubled, then bisected; the next 4 above are tried, too, because a "
    "larger value may fit where a smaller one does not. A context is 4, 5, 6 or 7 times a power of two.",
    children,
    NULL,
    NULL};

/** Find the key and the range of its values. */
static bool read_range(const struct arguments *arguments, const struct scenario *scenario, struct maximum *maximum,
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
    maximum->key = keys[i].name;
    maximum->range = (struct largest_range){keys[i].quarters, start, keys[i].least, (int64_t)arguments->most};
    if (maximum->range.least > maximum->range.most)
        maximum->range.least = maximum->range.most;
    return true;
}

static bool find_largest(const struct arguments *arguments, struct error *err)
{
    struct scenario scenario = {0};
    struct lengths lengths = {0};
    struct document document = {0};
    struct maximum maximum = {.lock = PTHREAD_MUTEX_INITIALIZER};
    const struct options *options = &arguments->options;
    bool ok = command_read(arguments->scenario, options, &scenario, &lengths, err) &&
              read_range(arguments, &scenario, &maximum, err) &&
              scenario_read_document(arguments->scenario, options->n_set, options->set, &document, err);
    if (ok) {
        maximum.status = status_line_begin(!options->quiet);
        maximum.n = scenario.n_systems;
        maximum.subjects = check_calloc((size_t)maximum.n, sizeof *maximum.subjects);
        for (int32_t i = 0; i < maximum.n; i++) {
            maximum.subjects[i] = (struct subject){.maximum = &maximum, .label = scenario.systems[i].label};
            document_copy(&document, NULL, &maximum.subjects[i].document);
            document_keep_entry(&maximum.subjects[i].document, "systems", i);
        }
        ok = search_all(&maximum, err);
    }
    if (ok && options->json)
        print_json(&maximum, &scenario);
    else if (ok)
        print_text(&maximum, &scenario);
    for (int32_t i = 0; i < maximum.n; i++) {
        for (int32_t k = 0; k < maximum.subjects[i].n_trials; k++)
            free(maximum.subjects[i].trials[k].refusal);
        free(maximum.subjects[i].trials);
        document_free(&maximum.subjects[i].document);
    }
    free(maximum.subjects);
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
    return ok ? EXIT_SUCCESS : command_fail(&err);
}
