/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/sweep.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "answer/verdict.h"
#include "base/check.h"
#include "base/cores.h"
#include "cli/rows.h"
#include "document/document_set.h"
#include "document/quantity.h"
#include "scenario/scenario_read.h"
#include "simulate/assumptions.h"
#include "trace/json.h"

enum { MOST_ROWS = 100, MAX_JOBS = 4096 };

static bool parse_number(const char *text, const char *unit, double least, double most, double *value)
{
    return quantity_parse(text, unit, value) && *value >= least && *value <= most;
}

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
    struct sweep_arguments *arguments = state->input;
    switch (key) {
    case 'w':
        arguments->given = true;
        options_append(&arguments->axes, &arguments->n_axes, argument);
        return 0;
    case 'J':
        arguments->jobs = options_parse_whole("--jobs", argument, 1, MAX_JOBS, state);
        return 0;
    case 'T':
        if (!parse_number(argument, "s", 1e-3, 1e9, &arguments->time_limit_s))
            argp_error(state, "--time-limit: '%s' is not a time such as 90s, 30min or 2h", argument);
        return 0;
    case 'M':
        if (!parse_number(argument, "bytes", 1 << 20, 1e15, &arguments->memory_bytes))
            argp_error(state, "--process-memory: '%s' is not a size such as 2GiB, at least 1MiB", argument);
        return 0;
    case 'R':
        arguments->retry_failed = true;
        return 0;
    case 'F':
        arguments->fail_fast = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option sweep_options[] = {
    {"sweep", 'w', "KEY=V1,V2", 0, "Vary a key, with one point for each value (may be repeated: a grid)", 0},
    {"jobs", 'J', "N", 0, "Compute N points at a time (default: number of cores; submit: 1)", 0},
    {"time-limit", 'T', "TIME", 0,
     "Time limit of a point: 90s. A slower point is marked, so that it need not fail again. A run without sweep ends",
     0},
    {"process-memory", 'M', "SIZE", 0, "Memory limit of the process of a point, or of a run: 4GiB", 0},
    {"retry-failed", 'R', NULL, 0, "Compute failed points again", 0},
    {"fail-fast", 'F', NULL, 0, "Stop at the first point that fails", 0},
    {0},
};

const struct argp sweep_argp = {.options = sweep_options, .parser = parse_option};

/** Parse the options that choose points. */
static error_t parse_points(int key, char *argument, struct argp_state *state)
{
    struct sweep_arguments *arguments = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = arguments;
        return 0;
    case 'l':
        arguments->given = arguments->list = true;
        return 0;
    case 'S':
        arguments->given = true;
        arguments->shard = argument;
        return 0;
    case 'p':
        arguments->given = true;
        arguments->point = options_parse_whole("--point", argument, 0, AXIS_MAX_POINTS - 1, state);
        return 0;
    case ARGP_KEY_END:
        if (arguments->point >= 0 && (arguments->list || arguments->shard != NULL))
            argp_error(state, "--point runs only one point, so %s is not allowed",
                       arguments->list ? "--list" : "--shard");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option point_options[] = {
    {"list", 'l', NULL, 0, "Print the points and their number, and run nothing", 0},
    {"point", 'p', "INDEX", 0, "Run only this point, as NAME-INDEX", 0},
    {"shard", 'S', "K/N", 0,
     "Compute the K-th of N parts; auto: take K/N from Slurm or Open MPI (then run slimsim merge)", 0},
    {0},
};
static const struct argp_child point_children[] = {{&sweep_argp, 0, NULL, 0}, {0}};

const struct argp sweep_run_argp = {.options = point_options, .parser = parse_points, .children = point_children};

bool sweep_open(const char *path, const struct options *options, const struct sweep_arguments *arguments,
                struct sweep *sweep, bool *is_sweep, struct error *err)
{
    struct document document = {0};
    struct error wrong = {0};
    bool ok = scenario_read_document(path, options->n_set, options->set, &document, &wrong);
    *is_sweep = arguments->given || (document.n_nodes > 0 && sweep_present(&document));
    for (int i = 0; i < arguments->n_axes && document.n_nodes > 0; i++)
        ok &= document_set_list(&document, "sweep", "--sweep", arguments->axes[i], &wrong);
    if (!*is_sweep) {
        document_free(&document);
        return true;
    }
    if (!ok) {
        document_free(&document);
        *err = wrong;
        return false;
    }
    return sweep_read(&document, sweep, err);
}

bool sweep_divided(const struct sweep *sweep, const char *what, struct error *err)
{
    return sweep->n_columns > 0 ||
           error_set(err, "%s: the scenario has no `sweep:` and no --sweep is given, and one point has no parts", what);
}

void sweep_write_quoted(FILE *file, const char *text)
{
    if (*text != '\0' &&
        strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-=,:+@%") == strlen(text)) {
        fputs(text, file);
        return;
    }
    fputc('\'', file);
    for (; *text != '\0'; text++)
        if (*text == '\'')
            fputs("'\\''", file);
        else
            fputc(*text, file);
    fputc('\'', file);
}

void sweep_write_points(FILE *file, const char *path, const struct options *options,
                        const struct sweep_arguments *arguments)
{
    fputs(*path == '-' && path[1] != '\0' ? "./" : "", file); /* otherwise it would be read as an option */
    sweep_write_quoted(file, path);
    for (int i = 0; i < options->n_set; i++) {
        fputs(" --set ", file);
        sweep_write_quoted(file, options->set[i]);
    }
    for (int i = 0; i < arguments->n_axes; i++) {
        fputs(" --sweep ", file);
        sweep_write_quoted(file, arguments->axes[i]);
    }
}

char *sweep_command_text(const char *path, const struct options *options, const struct sweep_arguments *arguments)
{
    char *text = NULL;
    size_t bytes;
    FILE *file = check_memstream(&text, &bytes);
    fputs("slimsim run ", file);
    sweep_write_points(file, path, options, arguments);
    CHECK(fclose(file) == 0);
    return text;
}

json_t *sweep_json_of_point(const struct manifest *manifest, int32_t point, uint64_t id)
{
    json_t *entry = json_object();
    json_object_set_new(entry, "point", json_integer(point));
    json_object_set_new(entry, "id", json_sprintf("%016" PRIx64, id));
    for (int32_t c = 0; manifest != NULL && c < manifest->n_columns; c++)
        json_object_set_new(entry, manifest->column[c], json_of_cell(manifest_value(manifest, point, c)));
    return entry;
}

static void print_list_json(const struct manifest *manifest)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < manifest->n_points; i++)
        json_array_append_new(list, sweep_json_of_point(manifest, i, manifest->id[i]));
    command_print_json(json_pack("{s:s, s:o}", "name", manifest->name, "points", list));
}

/** Report on stderr how the sweep ended and the next step. */
static void report_outcome(const struct manifest *manifest, const struct driver_options *options,
                           const struct driver_outcome *outcome, const char *command)
{
    const struct shard *shard = &options->shard;
    fprintf(stderr, "%d points: %d computed, %d kept from before, %d failed\n", outcome->n_points, outcome->n_computed,
            outcome->n_kept, outcome->n_failed);
    if (shard->n > 0)
        fprintf(stderr,
                "part %d of %d is in %s/%s.shard-%d-of-%d.journal; when all parts are done:\n"
                "slimsim merge %s/%s.shard-*-of-%d.journal\n",
                shard->k, shard->n, options->directory, manifest->name, shard->k, shard->n, options->directory,
                manifest->name, shard->n);
    else
        fprintf(stderr, "written: %s/%s.h5, %s.csv and %s.points.csv\n", options->directory, manifest->name,
                manifest->name, manifest->name);
    if (outcome->n_failed > 0) {
        fprintf(stderr, "`%s --output ", command);
        sweep_write_quoted(stderr, options->directory);
        if (shard->n > 0)
            fprintf(stderr, " --shard %d/%d", shard->k, shard->n);
        fputs(" --retry-failed` computes the failed ones again\n", stderr);
    }
}

/** Say for each swept key of the fabric that changes no time why it does not. */
static bool print_unused_fabric(struct sweep_runner *runner, const struct rows *rows, struct error *err)
{
    static const char *const keys[] = {"platform.topology", "platform.leaf", "platform.oversubscription"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        struct scenario scenario = {0};
        const struct lengths *lengths;
        uint64_t id;
        if (!rows_unchanged(rows, keys[i]))
            continue;
        if (!sweep_runner_point(runner, 0, &scenario, &lengths, &id, err))
            return false;
        printf("%s changes no time: %s\n", keys[i], assumptions_unused_fabric(&scenario, keys[i]));
        scenario_free(&scenario);
    }
    return true;
}

static bool print_results(struct sweep_runner *runner, const struct manifest *manifest, const struct options *options,
                          int32_t n_failed, struct error *err)
{
    struct rows rows;
    if (n_failed == manifest->n_points && !options->json) /* there is no row */
        return true;
    char *path = check_asprintf("%s/%s.csv", options->output, manifest->name);
    bool ok = rows_open(path, &rows, err);
    if (ok && options->json)
        rows_print_points(&rows, manifest->name);
    else if (ok) {
        rows_print(&rows, MOST_ROWS);
        rows_print_most(&rows);
        ok = print_unused_fabric(runner, &rows, err);
    }
    rows_close(&rows);
    free(path);
    return ok;
}

static bool run(struct sweep_runner *runner, const struct manifest *manifest, const struct options *options,
                const struct sweep_arguments *arguments, struct driver_options *driver, struct error *err)
{
    struct driver_outcome outcome = {0};
    driver->directory = options->output;
    driver->jobs = arguments->jobs > 0 ? arguments->jobs : cores_available();
    driver->time_limit_s = arguments->time_limit_s;
    driver->memory_bytes = (int64_t)arguments->memory_bytes;
    driver->retry_failed = arguments->retry_failed;
    driver->fail_fast = arguments->fail_fast;
    if (!command_make_folder(options->output, err))
        return false;
    bool ok = driver_run(runner, manifest, driver, &outcome, err);
    progress_end(driver->progress);
    if (!ok && *driver->stop != 0 && err->status == ERROR_NONE)
        fprintf(stderr, "%d of %d points are finished and kept\n", outcome.n_kept + outcome.n_computed,
                outcome.n_points);
    if (ok && !options->quiet)
        report_outcome(manifest, driver, &outcome, manifest->command);
    ok = ok && (driver->shard.n > 0 || print_results(runner, manifest, options, outcome.n_failed, err));
    if (ok && outcome.n_failed > 0)
        *err = outcome.failures;
    return ok && outcome.n_failed == 0;
}

bool sweep_command(const char *path, const struct options *options, const struct sweep_arguments *arguments,
                   const struct sweep *sweep, const volatile sig_atomic_t *stop, struct error *err)
{
    struct sweep_runner *runner = check_calloc(1, sizeof *runner); /* too large for the stack */
    struct manifest manifest;
    struct progress progress;
    struct driver_options driver = {.stop = stop, .progress = &progress};
    runner->sweep = sweep;
    runner->verdict = verdict_record_point;
    progress_begin(&progress, !options->quiet && !arguments->list, "run");
    manifest_of_sweep(sweep, &manifest);
    manifest.command = sweep_command_text(path, options, arguments);
    bool ok = (arguments->shard == NULL ||
               (sweep_divided(sweep, "--shard", err) && shard_parse(arguments->shard, &driver.shard, err))) &&
              driver_resolve(runner, &manifest, stop, err);
    command_print_notes(runner->notes.text);
    if (ok && arguments->list && options->json)
        print_list_json(&manifest);
    else if (ok && arguments->list)
        manifest_print(&manifest);
    else if (ok)
        ok = run(runner, &manifest, options, arguments, &driver, err);
    progress_end(&progress);
    sweep_runner_close(runner);
    free(runner);
    manifest_free(&manifest);
    return ok;
}

void sweep_arguments_free(struct sweep_arguments *arguments)
{
    free(arguments->axes);
}
