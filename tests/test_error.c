/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check errors of several lines. */
#include "base/error.h"
#include "harness.h"

#include <string.h>

TEST(error_add__keeps_lines_in_order)
{
    struct error err = {0};
    CHECK_TRUE(!error_add(&err, "first %d", 1));
    CHECK_TRUE(!error_add(&err, "second"));
    CHECK_TEXT(err.text, "first 1\nsecond");
    CHECK_EQUAL(err.status, ERROR_INVALID);
}

/* Several systems read one key of the scenario, so its error is added once. A part of a line is another line. */
TEST(error_add__keeps_a_line_once)
{
    struct error err = {0};
    const char *lines[] = {"tp: 3", "plan.tp: 3", "tp: 32", "tp: 3", "tp: 32", "plan.tp: 3"};
    for (int i = 0; i < 6; i++)
        CHECK_TRUE(!error_add(&err, "%s", lines[i]));
    CHECK_TEXT(err.text, "tp: 3\nplan.tp: 3\ntp: 32");
}

TEST(error_add__ends_too_many_lines_in_more)
{
    struct error err = {0};
    for (int i = 0; i < 10000; i++)
        error_add(&err, "line %d", i);
    CHECK_TRUE(strlen(err.text) < sizeof err.text);
    CHECK_TEXT(err.text + strlen(err.text) - 9, "\n... more");
    CHECK_TRUE(strstr(err.text, "more\n") == NULL);
}
