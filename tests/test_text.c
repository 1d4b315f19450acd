/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check numbers with commas, and texts that are cut or broken at a column. */
#include "base/text.h"

#include <string.h>

#include "harness.h"

TEST(text_number__has_commas_between_thousands)
{
    char text[TEXT_NUMBER_SIZE];
    text_number(262144, 0, text);
    CHECK_TEXT(text, "262,144");
    text_number(1234567.89, 1, text);
    CHECK_TEXT(text, "1,234,567.9");
    text_number(999, 0, text);
    CHECK_TEXT(text, "999");
    text_number(-1000, 0, text);
    CHECK_TEXT(text, "-1,000");
}

TEST(text_clip__counts_characters_and_not_bytes)
{
    char text[32] = "1 ± 2";
    CHECK_EQUAL(text_columns(text), 5);
    text_clip(text, 5);
    CHECK_TEXT(text, "1 ± 2");
    text_clip(text, 4);
    CHECK_TEXT(text, "1 ±…");
}

/* Ten columns hold "one two", then behind the indent "three", and "four". */
TEST(text_wrapped_lines__breaks_at_blanks)
{
    CHECK_EQUAL(text_wrapped_lines("one two three four\n", 10, 5), 3);
    CHECK_EQUAL(text_wrapped_lines("one two three four\n", 10, 2), 2);
    CHECK_EQUAL(text_wrapped_lines("one\n\ntwo\n", 10, 2), 3);
    CHECK_EQUAL(text_wrapped_lines("0123456789abcdef", 10, 5), 2);
    CHECK_EQUAL(text_wrapped_lines("", 10, 5), 0);
}
