/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module is shared by the verbs of slimsim. A verb has one file and one line in commands.def. */
#ifndef SLIMSIM_CLI_COMMAND_H
#define SLIMSIM_CLI_COMMAND_H

#include <argp.h>
#include <jansson.h>

#include "base/error.h"
#include "lengths/lengths.h"

/** A verb has a run(). Its argv[0] is "slimsim VERB", and it returns the exit status. */
struct command {
    const char *name, *meaning;
    int (*run)(int argc, char **argv);
};

/** Several verbs share these options. */
struct options {
    int32_t n_set;
    const char **set;   /* assignments of --set, in order */
    const char *output; /* directory, "results" by default; NULL for option_output_beside */
    bool json, quiet, verbose;
};

/** Each option is an argp child whose input is the options. A verb lists only the options that it reads. */
extern const struct argp option_set, option_output, option_output_beside, option_json, option_quiet, option_verbose;
#define OPTION(name)                                                                                                   \
    {                                                                                                                  \
        &option_##name, 0, NULL, 0                                                                                     \
    }

/** Give the options to the children of a verb. Call it at ARGP_KEY_INIT. @param children  list that ends with {0} */
void options_begin(struct options *options, const struct argp_child *children, struct argp_state *state);

/** Append an argument to those of an option that may be repeated. The caller frees *list. */
void options_append(const char ***list, int32_t *n, const char *argument);

/** Return an option's argument, a whole number from `least` to `most`. Otherwise call argp_error. */
int32_t options_parse_whole(const char *option, const char *argument, int32_t least, int32_t most,
                            struct argp_state *state);

/**
 * Handle the argument of a verb that takes one file.
 * @param what  for messages: "a scenario"
 * @return      0 or ARGP_ERR_UNKNOWN, like argp's parsers
 */
error_t options_parse_file(int key, char *argument, struct argp_state *state, const char *what, const char **file);

/**
 * Read a scenario with its --set, check its systems, open its lengths and choose its attention. All of this happens
 * before a run. The caller closes lengths and frees scenario, also after a failure.
 */
bool command_read(const char *path, const struct options *options, struct scenario *scenario, struct lengths *lengths,
                  struct error *err);

/** Do the second half of command_read, after scenario_read. */
bool command_check(struct scenario *scenario, struct lengths *lengths, struct error *err);

/** Print on stderr the lines, if there are any, that say what the words of scenarios were taken for. */
void command_print_notes(const char *notes);

/** Free the memory that parsing allocated. */
void options_free(struct options *options);

/** Make an output folder and its parents. The folder may exist already. */
bool command_make_folder(const char *path, struct error *err);

/** Print an object with `format_version` on stdout, indented, and release it. Numbers read back to the same bits. */
void command_print_json(json_t *object);

/** Print err to stderr as "slimsim: ..." lines and return its exit status. */
int command_fail(const struct error *err);

/**
 * Flush and close stdout, so that a full disk is noticed. If stdout is a pipe without a reader, a successful command
 * ends by SIGPIPE without a message.
 * @return  status, or ERROR_IO with a message
 */
int command_finish(int status);

#endif
