/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/command.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/text.h"
#include "cost/attention_choice.h"
#include "scenario/scenario_read.h"
#include "scenario/taken.h"
#include "simulate/point_runner.h"
#include "trace/json.h"

void options_append(const char ***list, int32_t *n, const char *argument)
{
    *list = check_realloc(*list, (size_t)(*n + 1) * sizeof **list);
    (*list)[(*n)++] = argument;
}

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
    struct options *options = state->input;
    switch (key) {
    case 's':
        if (strchr(argument, '=') == NULL)
            argp_failure(state, ERROR_INVALID, 0, "--set: '%s' is not KEY=VALUE in one word, such as data.context=64Ki",
                         argument);
        options_append(&options->set, &options->n_set, argument);
        return 0;
    case 'o':
        if (*argument == '\0')
            argp_error(state, "--output needs the name of a folder");
        options->output = argument;
        return 0;
    case 'j':
        options->json = true;
        return 0;
    case 'q':
        options->quiet = true;
        return 0;
    case 'v':
        options->verbose = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/** Each of these argp parsers has a single option. */
#define OPTION_ARGP(...)                                                                                               \
    {                                                                                                                  \
        .options = (const struct argp_option[]){{__VA_ARGS__, 0}, {0}}, .parser = parse_option                         \
    }

const struct argp option_set = OPTION_ARGP(
    "set", 's', "KEY=VALUE", 0, "Set a key of the scenario; `slimsim list keys` lists them (may be repeated)");
const struct argp option_output = OPTION_ARGP("output", 'o', "DIR", 0, "Folder of the files (default: results)");
const struct argp option_output_beside =
    OPTION_ARGP("output", 'o', "DIR", 0, "Folder of the files (default: that of the journals)");
const struct argp option_json = OPTION_ARGP("json", 'j', NULL, 0, "Print JSON");
const struct argp option_quiet = OPTION_ARGP("quiet", 'q', NULL, 0, "No progress on stderr; results still appear");
const struct argp option_verbose = OPTION_ARGP("verbose", 'v', NULL, 0, "Print every number and assumption, too");

void options_begin(struct options *options, const struct argp_child *children, struct argp_state *state)
{
    options->output = "results";
    for (int i = 0; children[i].argp != NULL; i++) {
        state->child_inputs[i] = options;
        if (children[i].argp == &option_output_beside)
            options->output = NULL;
    }
}

int32_t options_parse_whole(const char *option, const char *argument, int32_t least, int32_t most,
                            struct argp_state *state)
{
    char *end;
    long n = strtol(argument, &end, 10);
    if (end == argument || *end != '\0' || n < least || n > most)
        argp_error(state, "%s: '%s' is not a whole number from %d to %d", option, argument, least, most);
    return (int32_t)n;
}

/** Say how to write an argument that is no file. */
static const char *second_hint(const char *argument)
{
    return strchr(argument, '=') != NULL                      ? "; a key is set by --set KEY=VALUE (-s)"
           : argument[strspn(argument, "0123456789")] == '\0' ? "; numbers belong to options, such as --jobs N (-J)"
           : access(argument, F_OK) != 0 && errno == ENOENT   ? ", and no such file exists"
                                                              : "";
}

error_t options_parse_file(int key, char *argument, struct argp_state *state, const char *what, const char **file)
{
    switch (key) {
    case ARGP_KEY_ARG:
        if (*file != NULL)
            argp_error(state, "only one file is allowed; '%s' is the second%s", argument, second_hint(argument));
        *file = argument;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "%s is missing", what);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

void command_print_notes(const char *notes)
{
    if (*notes != '\0')
        fprintf(stderr, "%s\n", notes);
}

bool command_check(struct scenario *scenario, struct lengths *lengths, struct error *err)
{
    struct error notes = {0};
    taken_words(scenario, &notes);
    command_print_notes(notes.text);
    if (!point_check(scenario, err) || !point_lengths(scenario, lengths, err))
        return false;
    command_print_notes(lengths->read != NULL ? lengths->read : "");
    attention_choice_resolve(scenario, lengths);
    return true;
}

bool command_read(const char *path, const struct options *options, struct scenario *scenario, struct lengths *lengths,
                  struct error *err)
{
    return scenario_read(path, options->n_set, options->set, scenario, err) && command_check(scenario, lengths, err);
}

void options_free(struct options *options)
{
    free(options->set);
    *options = (struct options){0};
}

bool command_make_folder(const char *path, struct error *err)
{
    char *part = check_strdup(path);
    bool ok = true;
    for (char *slash = strchr(part + 1, '/'); ok && slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        ok = mkdir(part, 0777) == 0 || errno == EEXIST;
        *slash = '/';
    }
    ok = ok && (mkdir(part, 0777) == 0 || errno == EEXIST);
    free(part);
    struct stat status;
    if (ok && stat(path, &status) == 0 && S_ISDIR(status.st_mode))
        return true;
    return error_set_status(err, ERROR_CANT_CREATE, "%s: cannot make this output folder: %s", path,
                            strerror(ok ? ENOTDIR : errno));
}

void command_print_json(json_t *object)
{
    json_t *root = json_pack("{s:i}", "format_version", JSON_FORMAT_VERSION);
    CHECK(json_object_update(root, object) == 0);
    json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
    putchar('\n');
    json_decref(root);
    json_decref(object);
}

int command_fail(const struct error *err)
{
    const char *line = err->text;
    fflush(stdout);
    command_print_notes(err->notes);
    while (*line != '\0') {
        size_t length = strcspn(line, "\n");
        char *text = text_clean(check_strndup(line, length));
        fprintf(stderr, "slimsim: %s\n", text);
        free(text);
        line += length + (line[length] == '\n');
    }
    CHECK(err->status != ERROR_NONE);
    return (int)err->status;
}

/** Return whether stdout is a pipe without a reader. */
static bool reader_left(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO};
    return poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

int command_finish(int status)
{
    bool failed = fflush(stdout) != 0 || ferror(stdout) != 0;
    if (failed && reader_left()) { /* as with `| head`: end like Unix tools; files are already written */
        signal(SIGPIPE, SIG_DFL);
        return status == EXIT_SUCCESS ? raise(SIGPIPE) : status;
    }
    if (fclose(stdout) == 0 && !failed)
        return status;
    if (status != ERROR_IO) /* otherwise an earlier message said it */
        fprintf(stderr, "slimsim: cannot write to standard output: %s\n", strerror(errno));
    return ERROR_IO;
}
