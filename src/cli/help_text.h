/* SPDX-License-Identifier: GPL-3.0-or-later */
/** These functions print a page in Markdown on a terminal. */
#ifndef SLIMSIM_CLI_HELP_TEXT_H
#define SLIMSIM_CLI_HELP_TEXT_H

#include <stdint.h>
#include <stdio.h>

enum { HELP_LEAST_COLUMNS = 40, HELP_MOST_COLUMNS = 120 };

/**
 * Return the columns that a page may take: the variable COLUMNS, otherwise those of the terminal that stdout is. They
 * are HELP_LEAST_COLUMNS to HELP_MOST_COLUMNS.
 *
 * @return 0: stdout is no terminal, and COLUMNS is no number above 0
 */
int32_t help_columns(void);

/**
 * Print Markdown without the targets of links.
 *
 * 1. With columns 0 all else is as in the page.
 * 2. Otherwise paragraphs and items of lists are filled to the columns. Blocks of code stay as they are.
 * 3. A table has aligned columns if they fit. Otherwise each row is its first cell, and below it the others with their
 *    headings.
 */
void help_print(const char *markdown, int32_t columns, FILE *file);

#endif
