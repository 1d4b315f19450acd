/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module fits text to the columns of a terminal, and keeps control characters off it. */
#ifndef SLIMSIM_BASE_TEXT_H
#define SLIMSIM_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/colour.h"

/** Bytes of a GiB. */
#define TEXT_GIB 1073741824.0

enum { TEXT_NUMBER_SIZE = 64 };

/** Print a number with commas between its thousands: "1,234.5". */
void text_number(double value, int decimals, char text[TEXT_NUMBER_SIZE]);

enum { TEXT_AMOUNT_SIZE = 48 };

/** Print a number in at least three digits: "7.28", "104". Infinity is "never". */
void text_digits(double value, char text[TEXT_AMOUNT_SIZE]);

/** Print an amount in three digits: "$1.93M", "812k". NaN is "-". */
void text_amount(const char *sign, double amount, char text[TEXT_AMOUNT_SIZE]);

/** Return the number of characters of UTF-8 text. */
int32_t text_columns(const char *text);

/** Cut text to a number of columns. The last one is then "…". The array has room for its bytes. */
void text_clip(char *text, int32_t columns);

/**
 * Return the bytes of the character that begins here, and say whether it is a control character, since one from a file
 * must not move the cursor: U+0000 to U+001F, U+007F to U+009F, and each byte that is not UTF-8.
 */
size_t text_character(const char *text, bool *control);

/** Put `?` in place of each control character. @return the text */
char *text_clean(char *text);

/** Return whether a list of words, separated by blanks, holds a word. */
bool text_has_word(const char *words, const char *word);

/** Print a line on stdout, cut to a number of columns like text_clip. */
void text_print_clipped(int32_t columns, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Limits of a text on the terminal. */
struct text_limits {
    int32_t columns;
    int32_t most;               /* lines that one line of the text may become */
    int32_t total;              /* lines of the whole text, if it has no more itself */
    const enum colour *colours; /* of each line of the text; NULL: none */
};

/**
 * Print the lines of a text. A longer line is broken at blanks and continued with an indent. The last line that fits is
 * cut. If the total would be exceeded, the last lines of the text are cut first.
 */
void text_print_wrapped(const char *text, const struct text_limits *limits);

/** Return the number of lines that text_print_wrapped prints. */
int32_t text_wrapped_lines(const char *text, const struct text_limits *limits);

#endif
