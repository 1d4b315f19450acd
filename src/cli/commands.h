/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This file declares every verb of commands.def. */
#ifndef SLIMSIM_CLI_COMMANDS_H
#define SLIMSIM_CLI_COMMANDS_H

#include "cli/command.h"
#include "cli/parse.h"

#define COMMAND(name, meaning) int command_##name(int argc, char **argv);
#include "cli/commands.def"
#undef COMMAND

#endif
