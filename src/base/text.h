/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module fits text to the columns of a terminal. */
#ifndef SLIMSIM_BASE_TEXT_H
#define SLIMSIM_BASE_TEXT_H

#include <stdint.h>

enum { TEXT_NUMBER_SIZE = 64 };

/** Print a number with commas between its thousands: "1,234.5". */
void text_number(double value, int decimals, char text[TEXT_NUMBER_SIZE]);

/** Return the number of characters of UTF-8 text. */
int32_t text_columns(const char *text);

/** Cut text to a number of columns. The last one is then "…". The array has room for its bytes. */
void text_clip(char *text, int32_t columns);

/**
 * Print the lines of a text. A longer line is broken at blanks and continued with an indent, on at most `most` lines,
 * of which the last one is cut.
 */
void text_print_wrapped(const char *text, int32_t columns, int32_t most);

/** Return the number of lines that text_print_wrapped prints. */
int32_t text_wrapped_lines(const char *text, int32_t columns, int32_t most);

#endif
