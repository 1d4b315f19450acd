/* SPDX-License-Identifier: GPL-3.0-or-later */
/** The verbs of slimsim: one file and one line in commands.def each. */
#ifndef SLIMSIM_CLI_COMMAND_H
#define SLIMSIM_CLI_COMMAND_H

#include <argp.h>
#include <jansson.h>

#include "base/error.h"
#include "lengths/lengths.h"

/** A verb. run() gets argv with "slimsim VERB" as argv[0] and answers the exit status. */
struct command {
    const char *name, *meaning;
    int (*run)(int argc, char **argv);
};

/** Options that several verbs share. */
struct options {
    int32_t n_set;
    const char **set;   /* assignments of --set, in order */
    const char *output; /* directory, "results" by default; of option_output_beside NULL */
    bool json, quiet;
};

/** Each of them, an argp child whose input is the options: a verb takes what it reads, and no other. */
extern const struct argp option_set, option_output, option_output_beside, option_json, option_quiet;
#define OPTION(name)                                                                                                   \
    {                                                                                                                  \
        &option_##name, 0, NULL, 0                                                                                     \
    }

/** At ARGP_KEY_INIT of a verb: the options are the input of its children, a list that ends with {0}. */
void options_begin(struct options *options, const struct argp_child *children, struct argp_state *state);

/** Put an argument behind those of an option that may be repeated. The caller frees *list. */
void options_append(const char ***list, int32_t *n, const char *argument);

/** A whole number from `least` to `most`, the argument of an option; else argp_error. */
int32_t options_parse_whole(const char *option, const char *argument, int32_t least, int32_t most,
                            struct argp_state *state);

/**
 * Handle the argument of a verb that takes one file.
 * @param what  in messages: "a scenario"
 * @return      0 or ARGP_ERR_UNKNOWN, as argp's parsers do
 */
error_t options_parse_file(int key, char *argument, struct argp_state *state, const char *what, const char **file);

/** Read a scenario with its --set, check its systems and open its lengths; all of it before anything runs. The caller
 * closes lengths and frees scenario whatever the answer. */
bool command_read(const char *path, const struct options *options, struct scenario *scenario, struct lengths *lengths,
                  struct error *err);

/** Free what parsing collected. */
void options_free(struct options *options);

/** Make an output folder and those above it; one that is there already is fine. */
bool command_make_folder(const char *path, struct error *err);

/** Print a value on stdout, indented, numbers so that they read back to the same bits. Releases it. */
void command_print_json(json_t *value);

/** Print err to stderr as "slimsim: ..." lines and answer its exit status. */
int command_fail(const struct error *err);

/** Flush and close stdout: a full disk behind it must not go unseen. Where it is a pipe that nobody reads any more,
 * success ends by SIGPIPE, without a message. @return status, or ERROR_IO with a message */
int command_finish(int status);

#endif
