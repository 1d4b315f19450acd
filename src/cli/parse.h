/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module parses the arguments of a verb. */
#ifndef SLIMSIM_CLI_PARSE_H
#define SLIMSIM_CLI_PARSE_H

#include <argp.h>

/**
 * Parse a verb's arguments, like argp_parse.
 * 1. -h, --help, --usage, -V and --version print and end the program.
 * 2. A former option (options.def) is refused with its new name.
 * 3. If the verb reads --set, an option named like a key of a scenario is refused with the key.
 *
 * @param argv  argv[0] is "slimsim VERB"
 */
void parse_arguments(const struct argp *argp, int argc, char **argv, void *input);

#endif
