/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * This file is `slimsim submit`. It submits a sweep as a Slurm job array of its shards, and a job that then merges
 * them. A question of capacity is submitted in the same way: its first sizes, and a job that goes on from them.
 */
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <regex.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "capacity/size_search.h"
#include "cli/commands.h"
#include "cli/sweep.h"
#include "scenario/scenario_read.h"
#include "sweep/sweep_output.h"
#include "trace/output.h"

struct arguments {
    struct options options;
    struct sweep_arguments sweep;
    const char *scenario;
    int32_t shards;
    int n_sbatch;
    char **sbatch; /* options of sbatch, one word each */
    bool dry_run;
};

enum job { JOB_SHARDS, JOB_MERGE, N_JOBS };

/** A submission has two job scripts. Paths are absolute, except the user's, which are relative to the folder `here`. */
struct submission {
    const struct arguments *arguments;
    bool capacity; /* the parts are of the first sizes of `slimsim capacity`, which then goes on from all of them */
    struct manifest manifest;
    char program[PATH_MAX], here[PATH_MAX];
    char *directory;    /* the output folder */
    char *path[N_JOBS]; /* of the scripts */
};

static void add_sbatch(struct arguments *arguments, const char *name, const char *value, struct argp_state *state)
{
    char *word = check_asprintf("%s%s", name, value);
    if (strncmp(word, "--", 2) != 0 || word[strlen(name)] == '\0' || strchr(word, '\n') != NULL)
        argp_error(state, "'%s' is no option of sbatch in one word, such as --account=NAME", word);
    arguments->sbatch = check_realloc(arguments->sbatch, (size_t)(arguments->n_sbatch + 1) * sizeof *arguments->sbatch);
    arguments->sbatch[arguments->n_sbatch++] = word;
}

enum { SWEEP_CHILD = 4 };
static const struct argp_child children[] = {
    OPTION(set),
    OPTION(output),
    OPTION(json),
    OPTION(quiet),
    [SWEEP_CHILD] = {&sweep_argp, 0, "Options of sweeps, passed on to each part:", 0},
    {0}};

enum { KEY_PARTITION = 0x100, KEY_TIME, KEY_MEM, KEY_SBATCH, KEY_DRY_RUN };

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        options_begin(&arguments->options, children, state);
        state->child_inputs[SWEEP_CHILD] = &arguments->sweep;
        return 0;
    case 'n':
        arguments->shards = options_parse_whole("--shards", argument, 1, SHARD_MAX, state);
        return 0;
    case KEY_PARTITION:
        add_sbatch(arguments, "--partition=", argument, state);
        return 0;
    case KEY_TIME:
        add_sbatch(arguments, "--time=", argument, state);
        return 0;
    case KEY_MEM:
        add_sbatch(arguments, "--mem=", argument, state);
        return 0;
    case KEY_SBATCH:
        add_sbatch(arguments, "", argument, state);
        return 0;
    case KEY_DRY_RUN:
        arguments->dry_run = true;
        return 0;
    case ARGP_KEY_END:
        if (arguments->shards == 0)
            argp_error(state, "--shards N, the number of parts, is missing");
        if (arguments->options.json && arguments->dry_run)
            argp_error(state, "--json prints the numbers of the jobs, but --dry-run submits none");
        return 0;
    default:
        return options_parse_file(key, argument, state, "a scenario", &arguments->scenario);
    }
}

static const struct argp_option submit_options[] = {
    {"shards", 'n', "N", 0, "Divide the sweep into N parts, which are tasks of the job array", 0},
    {"partition", KEY_PARTITION, "NAME", 0, "Slurm partition of the parts", 0},
    {"time", KEY_TIME, "TIME", 0, "Time limit of a whole part: 2:00:00 (--time-limit limits a point)", 0},
    {"mem", KEY_MEM, "SIZE", 0, "Memory of a part: 8G", 0},
    {"sbatch", KEY_SBATCH, "OPTION", 0, "Another option of sbatch: --sbatch=--account=NAME (may be repeated)", 0},
    {"dry-run", KEY_DRY_RUN, NULL, 0, "Print the job scripts; write and submit nothing", 0},
    {0},
};
static const struct argp argp = {submit_options,
                                 parse,
                                 "SCENARIO.yaml",
                                 "Submit a sweep to Slurm as a job array of N parts, each with --jobs points at a time "
                                 "(default: 1), and a job that then merges them. The folders of the scenario, the "
                                 "output and slimsim must be the same on all machines. If points are missing, repeat "
                                 "the command to compute them. With `capacity:` the parts compute its first "
                                 "sizes, and the other job answers the question.",
                                 children,
                                 NULL,
                                 NULL};

/** Check a size and a time as sbatch (22.05) does. sbatch itself is called only after all other work, or never. */
static bool check_sbatch(const struct arguments *arguments, struct error *err)
{
    static const struct {
        const char *option, *pattern, *what;
    } rule[] = {
        {"--mem=", "^[0-9]{1,12}([KMGT]B?)?$", "size such as 8G or 500M (a whole number of K, M, G or T)"},
        {"--time=", "^(([0-9]{1,9}-)?[0-9]{1,9}(:[0-9]{1,9}){0,2}|UNLIMITED|INFINITE)$",
         "time such as 90 (minutes), 2:00:00 or 1-12:00:00 (days-hours:minutes:seconds)"},
    };
    for (int i = 0; i < arguments->n_sbatch; i++)
        for (size_t r = 0; r < sizeof rule / sizeof *rule; r++) {
            regex_t pattern;
            size_t length = strlen(rule[r].option);
            const char *value = arguments->sbatch[i] + length;
            if (strncmp(arguments->sbatch[i], rule[r].option, length) != 0)
                continue;
            CHECK(regcomp(&pattern, rule[r].pattern, REG_EXTENDED | REG_ICASE | REG_NOSUB) == 0);
            bool fits = regexec(&pattern, value, 0, NULL, 0) == 0;
            regfree(&pattern);
            if (!fits)
                return error_set(err, "%.*s: '%s' is not a %s", (int)length - 1, rule[r].option, value, rule[r].what);
        }
    return true;
}

/** Find the paths of the program, this folder and the files. */
static bool locate(struct submission *submission, struct error *err)
{
    static const char *const suffix[N_JOBS] = {"shards", "merge"};
    const char *output = submission->arguments->options.output;
    ssize_t n = readlink("/proc/self/exe", submission->program, sizeof submission->program - 1);
    if (n < 0 || getcwd(submission->here, sizeof submission->here) == NULL)
        return error_set_status(err, ERROR_FAILED, "cannot find the path of %s: %s", n < 0 ? "slimsim" : "this folder",
                                strerror(errno));
    submission->program[n] = '\0';
    const char *folder = *output == '/' ? "" : submission->here, *slash = *output == '/' ? "" : "/";
    submission->directory = check_asprintf("%s%s%s", folder, slash, output);
    for (int i = 0; i < N_JOBS; i++)
        submission->path[i] = check_asprintf("%s/%s.%s.sbatch", output, submission->manifest.name, suffix[i]);
    if (strpbrk(submission->directory, "\\\n") == NULL && strpbrk(submission->manifest.name, "\\\n") == NULL)
        return true;
    return error_set(err, "%s/%s: sbatch does not take file names with a backslash or a line break",
                     submission->directory, submission->manifest.name);
}

/** Write a comment for sbatch: an option and its value as one word. */
static void write_option(FILE *file, const char *option, const char *value)
{
    char *word = check_asprintf("%s%s", option, value);
    fputs("#SBATCH ", file);
    sweep_write_quoted(file, word);
    fputc('\n', file);
    free(word);
}

/** Write the option `--output` of sbatch, in which % has a meaning. */
static void write_log(FILE *file, const struct submission *submission, const char *suffix)
{
    char *log = NULL;
    size_t bytes;
    FILE *text = check_memstream(&log, &bytes);
    const char *const part[] = {submission->directory, "/", submission->manifest.name};
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        for (const char *at = part[i]; *at != '\0'; at++)
            fprintf(text, *at == '%' ? "%%%%" : "%c", *at);
    fputs(suffix, text);
    CHECK(fclose(text) == 0);
    write_option(file, "--output=", log);
    free(log);
}

static void write_head(FILE *file, const struct submission *submission, const char *suffix)
{
    const struct arguments *arguments = submission->arguments;
    char *job = check_asprintf("%s%s", submission->manifest.name, suffix);
    write_option(file, "--job-name=", job);
    free(job);
    for (int i = 0; i < arguments->n_sbatch; i++)
        write_option(file, arguments->sbatch[i], "");
    fputs("#SBATCH --requeue\n#SBATCH --open-mode=append\n", file);
}

/** Write the commands that enter the user's folder and set the variable that slimsim reads. */
static void write_environment(FILE *file, const struct submission *submission)
{
    const char *data = getenv("SLIMSIM_DATA");
    fputs("cd ", file);
    sweep_write_quoted(file, submission->here);
    fputs(" || exit\n", file);
    if (data != NULL) {
        fputs("export SLIMSIM_DATA=", file);
        sweep_write_quoted(file, data);
        fputc('\n', file);
    }
    fputs("exec ", file);
    sweep_write_quoted(file, submission->program);
}

#define SCRIPT_BEGIN "#!/bin/sh\n# slimsim: "

static bool is_script(const char *path)
{
    return output_begins_with(path, SCRIPT_BEGIN);
}

static int32_t jobs_of(const struct submission *submission)
{
    return submission->arguments->sweep.jobs > 0 ? submission->arguments->sweep.jobs : 1;
}

/** Write the command behind the program's name, except the shard. */
static void write_command(FILE *file, const struct submission *submission)
{
    const struct arguments *arguments = submission->arguments;
    fputs(submission->capacity ? " capacity " : " run ", file);
    sweep_write_points(file, arguments->scenario, &arguments->options, &arguments->sweep);
    fputs(" --output ", file);
    sweep_write_quoted(file, arguments->options.output);
    fprintf(file, " --jobs %d", jobs_of(submission));
}

static void write_shards(FILE *file, const struct submission *submission)
{
    const struct arguments *arguments = submission->arguments;
    int32_t jobs = jobs_of(submission);
    char log[64];
    fprintf(file, SCRIPT_BEGIN "%d points in %d parts. `sbatch --array=K` and this file computes part K again.\n",
            submission->manifest.n_points, arguments->shards);
    write_head(file, submission, "");
    fprintf(file, "#SBATCH --array=1-%d\n#SBATCH --cpus-per-task=%d\n", arguments->shards, jobs);
    snprintf(log, sizeof log, ".shard-%%a-of-%d.log", arguments->shards);
    write_log(file, submission, log);
    write_environment(file, submission);
    write_command(file, submission);
    if (arguments->sweep.time_limit_s > 0)
        fprintf(file, " --time-limit %.17gs", arguments->sweep.time_limit_s);
    if (arguments->sweep.memory_bytes > 0)
        fprintf(file, " --process-memory %.0f", arguments->sweep.memory_bytes);
    fputs(arguments->sweep.retry_failed ? " --retry-failed" : "", file);
    fputs(arguments->sweep.fail_fast ? " --fail-fast" : "", file);
    fprintf(file, " --shard \"$SLURM_ARRAY_TASK_ID/%d\"\n", arguments->shards);
}

/** Write the job that goes on when the first sizes are computed. */
static void write_answer(FILE *file, const struct submission *submission)
{
    fprintf(file, SCRIPT_BEGIN "goes on from the %d parts; it can be submitted again.\n",
            submission->arguments->shards);
    write_head(file, submission, "-answer");
    fprintf(file, "#SBATCH --cpus-per-task=%d\n", jobs_of(submission));
    write_log(file, submission, ".answer.log");
    write_environment(file, submission);
    write_command(file, submission);
    fputc('\n', file);
}

static void write_merge(FILE *file, const struct submission *submission)
{
    if (submission->capacity) {
        write_answer(file, submission);
        return;
    }
    char *shard = check_asprintf("%s/%s.shard-", submission->arguments->options.output, submission->manifest.name);
    fprintf(file, SCRIPT_BEGIN "merges the %d parts; it can be submitted again.\n", submission->arguments->shards);
    write_head(file, submission, "-merge");
    write_log(file, submission, ".merge.log");
    write_environment(file, submission);
    fputs(" merge --output ", file);
    sweep_write_quoted(file, submission->arguments->options.output);
    fputs(" -- ", file);
    sweep_write_quoted(file, shard);
    fprintf(file, "*-of-%d.journal\n", submission->arguments->shards);
    free(shard);
}

static void (*const write_script[N_JOBS])(FILE *, const struct submission *) = {write_shards, write_merge};

static bool write_files(const struct submission *submission, struct error *err)
{
    struct output outputs[N_JOBS] = {0};
    bool ok = command_make_folder(submission->arguments->options.output, err);
    for (int i = 0; i < N_JOBS && ok; i++)
        ok = output_may_replace(submission->path[i], is_script, "job script",
                                "another folder (--output DIR) or name (--set name=NAME)", err);
    for (int i = 0; i < N_JOBS && ok; i++) {
        FILE *file = output_open(&outputs[i], submission->path[i], err);
        ok = file != NULL;
        if (ok)
            write_script[i](file, submission);
        ok = ok && output_end(&outputs[i], file, true, err);
    }
    ok = ok && output_commit(outputs, N_JOBS, err);
    for (int i = 0; i < N_JOBS; i++)
        output_abandon(&outputs[i]);
    return ok;
}

/** Run a program and read at most `size` - 1 bytes of its standard output. It shares this program's standard error. */
static bool print_of(char *const argv[], char *text, size_t size, struct error *err)
{
    int ends[2], status = -1;
    pid_t process;
    posix_spawn_file_actions_t actions;
    if (pipe(ends) != 0)
        return error_set_status(err, ERROR_FAILED, "%s cannot be started: %s", argv[0], strerror(errno));
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    int reason = posix_spawnp(&process, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    FILE *file = fdopen(ends[0], "r");
    CHECK(file != NULL);
    text[fread(text, 1, size - 1, file)] = '\0';
    fclose(file);
    if (reason == ENOENT)
        return error_set_status(err, ERROR_FAILED, "there is no %s in PATH; Slurm provides it", argv[0]);
    if (reason != 0)
        return error_set_status(err, ERROR_FAILED, "%s cannot be started: %s", argv[0], strerror(reason));
    while (waitpid(process, &status, 0) < 0 && errno == EINTR)
        ;
    return status == 0 || error_set_status(err, ERROR_FAILED, "%s refused the job (its message is above)", argv[0]);
}

/** Submit a script. @param job  number of the job, as text */
static bool submit_script(char *path, const char *after, char job[64], struct error *err)
{
    char dependency[128];
    snprintf(dependency, sizeof dependency, "--dependency=afterany:%s", after);
    char *const argv[] = {"sbatch", "--parsable", *after != '\0' ? dependency : path, *after != '\0' ? path : NULL,
                          NULL};
    if (!print_of(argv, job, 64, err))
        return false;
    job[strcspn(job, ";\n")] = '\0'; /* ";CLUSTER" may follow */
    return (*job != '\0' && strspn(job, "0123456789") == strlen(job)) ||
           error_set_status(err, ERROR_FAILED, "sbatch printed '%s', not the number of a job", job);
}

/** Print the submitted jobs. @param merge  NULL: the merge is not submitted */
static void print_jobs(const struct submission *submission, const char *shards, const char *merge)
{
    const struct arguments *arguments = submission->arguments;
    const char *output = arguments->options.output, *name = submission->manifest.name;
    if (arguments->options.json) {
        json_t *jobs = json_pack("{s:s, s:s?, s:i, s:i}", "job", shards, "merge_job", merge, "points",
                                 submission->manifest.n_points, "shards", arguments->shards);
        command_print_json(jobs);
        return;
    }
    printf("job %s: %d points in an array of %d tasks; logs: %s/%s.shard-*-of-%d.log\n", shards,
           submission->manifest.n_points, arguments->shards, output, name, arguments->shards);
    if (merge != NULL)
        printf("job %s: it %s when %s has ended; log: %s/%s.%s.log\n", merge,
               submission->capacity ? "answers the question" : "merges them", shards, output, name,
               submission->capacity ? "answer" : "merge");
}

static bool submit(const struct submission *submission, struct error *err)
{
    char *const *path = submission->path, job[N_JOBS][64];
    struct error why = {0};
    if (!write_files(submission, err))
        return false;
    if (!submit_script(path[JOB_SHARDS], "", job[JOB_SHARDS], &why))
        return error_set_status(err, why.status, "nothing is submitted: %.512s; the job scripts are %s and %s",
                                why.text, path[JOB_SHARDS], path[JOB_MERGE]);
    bool merges = submit_script(path[JOB_MERGE], job[JOB_SHARDS], job[JOB_MERGE], &why);
    print_jobs(submission, job[JOB_SHARDS], merges ? job[JOB_MERGE] : NULL);
    return merges || error_set_status(err, why.status,
                                      "job %s is submitted without its merge: %.512s; when it has ended, submit %s",
                                      job[JOB_SHARDS], why.text, path[JOB_MERGE]);
}

static void print_scripts(const struct submission *submission)
{
    for (int i = 0; i < N_JOBS; i++) {
        printf("%s# sbatch --parsable %s", i > 0 ? "\n" : "", i > 0 ? "--dependency=afterany:JOB " : "");
        sweep_write_quoted(stdout, submission->path[i]);
        putchar('\n');
        write_script[i](stdout, submission);
    }
}

/** Resolve every point, so that mistakes are found before anything waits in a queue. */
static bool prepare(const struct arguments *arguments, const struct sweep *sweep, struct submission *submission,
                    struct error *err)
{
    struct sweep_runner *runner = check_calloc(1, sizeof *runner); /* too large for the stack */
    runner->sweep = sweep;
    manifest_of_sweep(sweep, &submission->manifest);
    submission->manifest.command = sweep_command_text(arguments->scenario, &arguments->options, &arguments->sweep);
    bool ok = check_sbatch(arguments, err) && sweep_divided(sweep, "submit", err) &&
              driver_resolve(runner, &submission->manifest, NULL, err) &&
              sweep_output_may_be_replaced(arguments->options.output, submission->manifest.name, &submission->manifest,
                                           err) &&
              locate(submission, err);
    if (ok && arguments->shards > sweep->n_points)
        ok = error_set(err, "--shards: %d parts, but there are %d points", arguments->shards, sweep->n_points);
    command_print_notes(runner->notes.text);
    sweep_runner_close(runner);
    free(runner);
    return ok;
}

/** Refuse options of a sweep that `slimsim capacity` does not have. */
static bool check_capacity(const struct sweep_arguments *sweep, struct error *err)
{
    bool other = sweep->n_axes > 0 || sweep->time_limit_s > 0 || sweep->memory_bytes > 0 || sweep->retry_failed ||
                 sweep->fail_fast;
    return !other || error_set(err, "submit: a scenario with `capacity:` takes --jobs, but no other option of sweeps");
}

/** Read the sweep of a scenario: its own, or the first sizes of its `capacity:`. */
static bool read_sweep(const struct arguments *arguments, struct submission *submission, struct sweep *sweep,
                       struct error *err)
{
    struct document document = {0};
    struct question question = {0};
    struct error wrong = {0}; /* the other reader finds the same */
    const struct options *options = &arguments->options;
    bool is_sweep, read = scenario_read_document(arguments->scenario, options->n_set, options->set, &document, &wrong);
    submission->capacity = read && document_find(&document, 0, "capacity") >= 0;
    document_free(&document);
    if (!submission->capacity)
        return sweep_open(arguments->scenario, options, &arguments->sweep, sweep, &is_sweep, err);
    bool ok = check_capacity(&arguments->sweep, err) &&
              question_read(arguments->scenario, options->n_set, options->set, &question, err);
    if (ok) {
        size_search_grid(&question, &document);
        ok = sweep_read(&document, sweep, err);
        document_free(&document);
    }
    question_free(&question);
    return ok;
}

int command_submit(int argc, char **argv)
{
    struct arguments arguments = {.sweep = {.point = -1}};
    struct submission submission = {.arguments = &arguments};
    struct sweep sweep = {0};
    struct error err = {0};
    parse_arguments(&argp, argc, argv, &arguments);
    arguments.sweep.given = true;
    bool ok = (strcmp(arguments.scenario, "-") != 0 ||
               error_set(&err, "submit: each task reads the scenario again, so it cannot be on standard input; write "
                               "it to a file")) &&
              read_sweep(&arguments, &submission, &sweep, &err) && prepare(&arguments, &sweep, &submission, &err);
    if (ok && arguments.dry_run)
        print_scripts(&submission);
    else if (ok)
        ok = submit(&submission, &err);
    for (int i = 0; i < N_JOBS; i++)
        free(submission.path[i]);
    free(submission.directory);
    manifest_free(&submission.manifest);
    sweep_free(&sweep);
    for (int i = 0; i < arguments.n_sbatch; i++)
        free(arguments.sbatch[i]);
    free(arguments.sbatch);
    sweep_arguments_free(&arguments.sweep);
    options_free(&arguments.options);
    return ok ? EXIT_SUCCESS : command_fail(&err);
}
