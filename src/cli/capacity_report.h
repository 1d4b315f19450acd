/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module prints the answer of `slimsim capacity`: about 20 lines and a table, or everything as JSON. */
#ifndef SLIMSIM_CLI_CAPACITY_REPORT_H
#define SLIMSIM_CLI_CAPACITY_REPORT_H

#include "capacity/answer.h"

enum { CAPACITY_LINES = 22, CAPACITY_COLUMNS = 100 };

/** Return the verdict, a line for each thing that it says. The caller frees. @param verbose  see capacity_print */
char *capacity_verdict(const struct answer *answer, bool verbose);

/** @param verbose  print every option instead of those that matter, and all changes */
void capacity_print(const struct answer *answer, bool verbose);

void capacity_print_json(const struct answer *answer);

#endif
