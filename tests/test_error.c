/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/error.h"
#include "harness.h"

#include <string.h>

static void added_lines_stand_in_order(void)
{
    struct error err = {0};
    CHECK_TRUE(!error_add(&err, "first %d", 1));
    CHECK_TRUE(!error_add(&err, "second"));
    CHECK_TEXT(err.text, "first 1\nsecond");
    CHECK_EQUAL(err.status, ERROR_INVALID);
}

static void too_many_lines_end_in_more(void)
{
    struct error err = {0};
    for (int i = 0; i < 10000; i++)
        error_add(&err, "line %d", i);
    CHECK_TRUE(strlen(err.text) < sizeof err.text);
    CHECK_TEXT(err.text + strlen(err.text) - 9, "\n... more");
    CHECK_TRUE(strstr(err.text, "more\n") == NULL);
}

int main(void)
{
    return HARNESS_MAIN("error", TEST(added_lines_stand_in_order), TEST(too_many_lines_end_in_more));
}
