/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check numbers with commas, and texts that are cut or broken at a column. */
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

TEST(text_amount__has_three_digits)
{
    static const struct {
        double amount;
        const char *text;
    } pairs[] = {{1928000, "$1.93M"}, {812400, "$812k"}, {999600, "$1.00M"}, {-709.4, "-$709"},
                 {3.456, "$3.46"},    {2e12, "$2.00T"},  {0, "$0.00"},       {NAN, "-"}};
    char text[TEXT_AMOUNT_SIZE];
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        text_amount("$", pairs[i].amount, text);
        CHECK_TEXT(text, pairs[i].text);
    }
    text_digits(7.284, text);
    CHECK_TEXT(text, "7.28");
    text_digits(103.7, text);
    CHECK_TEXT(text, "104");
    text_digits(INFINITY, text);
    CHECK_TEXT(text, "never");
}

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
    const struct text_limits many = {10, 5, 99, NULL}, two = {10, 2, 99, NULL};
    CHECK_EQUAL(text_wrapped_lines("one two three four\n", &many), 3);
    CHECK_EQUAL(text_wrapped_lines("one two three four\n", &two), 2);
    CHECK_EQUAL(text_wrapped_lines("one\n\ntwo\n", &two), 3);
    CHECK_EQUAL(text_wrapped_lines("0123456789abcdef", &many), 2);
    CHECK_EQUAL(text_wrapped_lines("", &many), 0);
}

/* Three lines and two lines: a total of four cuts the second, one of two cuts both. */
TEST(text_wrapped_lines__keep_the_total)
{
    const char text[] = "one two three four\nfive six seven\n";
    for (int32_t total = 1; total <= 6; total++) {
        const struct text_limits limits = {10, 5, total, NULL};
        CHECK_EQUAL(text_wrapped_lines(text, &limits), total < 2 ? 2 : total > 5 ? 5 : total);
    }
}

/* A line of exactly the columns stays, and one more character is cut for the dots. */
TEST(text_print_clipped__cuts_a_line)
{
    FILE *before = stdout;
    char *text = NULL;
    size_t n_bytes;
    stdout = open_memstream(&text, &n_bytes);
    text_print_clipped(6, "%s %d", "ab", 345);
    text_print_clipped(6, "%s %d", "ab", 3456);
    fclose(stdout);
    stdout = before;
    CHECK_TEXT(text, "ab 345\nab 34…\n");
    free(text);
}

TEST(text_has_word__finds_whole_words_only)
{
    CHECK_TRUE(text_has_word("h100-sxm h800", "h800") && text_has_word("h800", "h800"));
    CHECK_TRUE(!text_has_word("h100-sxm h800", "h80") && !text_has_word("h100-sxm", "sxm"));
    CHECK_TRUE(!text_has_word("", "h800") && !text_has_word("h800", ""));
}

/* U+009B is C2 9B in UTF-8, and a terminal takes it for ESC [. U+00A0 and U+2028 are no control characters. */
TEST(text_character__knows_control_characters_and_bytes_that_are_not_utf_8)
{
    static const struct {
        const char *text;
        size_t n;
        bool control;
    } cases[] = {{"\x1b[2J", 1, true},          {"\r", 1, true},       {"\x7f", 1, true}, {"\xc2\x80", 2, true},
                 {"\xc2\x9b;", 2, true},        {"\xc2\x9f", 2, true}, {"a", 1, false},   {"\xc2\xa0", 2, false},
                 {"\xe2\x80\xa8", 3, false},    {"\xc2", 1, true},     {"\x9b", 1, true}, {"\xe2\x80", 1, true},
                 {"\xf0\x9f\x98\x80", 4, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool control;
        CHECK_EQUAL(text_character(cases[i].text, &control), cases[i].n);
        CHECK_EQUAL(control, cases[i].control);
    }
    char text[] = "a\x1b[31m \xc2\x9b;31m\xc3\xbc\tb";
    CHECK_TEXT(text_clean(text), "a?[31m ?;31m\xc3\xbc?b");
    char bytes[] = "a\x9b"
                   "31m \xe2\x80 \xe2\x80\xa6\xff";
    CHECK_TEXT(text_clean(bytes), "a?31m ?? \xe2\x80\xa6?");
}
