/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module prints the verdict of `slimsim run`: at most VERDICT_LINES lines of at most VERDICT_COLUMNS columns. */
#ifndef SLIMSIM_CLI_VERDICT_H
#define SLIMSIM_CLI_VERDICT_H

#include "answer/verdict.h"

/** The line about written files, on stderr, is the last one of 25. */
enum { VERDICT_LINES = 24, VERDICT_COLUMNS = 100 };

/** Print what was asked, the ranking of the systems, and the sentences below it. */
void verdict_print(const struct verdict *verdict);

#endif
