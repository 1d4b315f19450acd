/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check which name is suggested for a misspelt one. */
#include "base/nearest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

static const char *const names[] = {"data.context", "seed", "engine", "trace", "tp", "pp"};
enum { N = sizeof names / sizeof *names };

TEST(nearest__finds_the_name_after_one_slip)
{
    CHECK_TEXT(nearest_name("sed", names, N), "seed");
    CHECK_TEXT(nearest_name("seeed", names, N), "seed");
    CHECK_TEXT(nearest_name("engime", names, N), "engine");
    CHECK_TEXT(nearest_name("tarce", names, N), "trace");
    CHECK_TEXT(nearest_name("Engine", names, N), "engine");
}

TEST(nearest__gives_ties_to_the_first)
{
    CHECK_TEXT(nearest_name("xp", names, N), "tp");
}

TEST(nearest__finds_nothing_far_from_all)
{
    char longer[200];
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    CHECK_TRUE(nearest_name("platform", names, N) == NULL);
    CHECK_TRUE(nearest_name("", names, 4) == NULL);
    CHECK_TRUE(nearest_name(longer, names, N) == NULL);
    CHECK_TRUE(nearest_name("seed", names, 0) == NULL);
}

TEST(nearest__prefers_names_that_begin_so)
{
    static const char *const devices[] = {"a100-40g", "h100-96g", "h100-sxm", "h200"};
    char hint[NEAREST_HINT_BYTES];
    nearest_hint("h100", devices, 4, hint);
    CHECK_TEXT(hint, "did you mean 'h100-96g' or 'h100-sxm'? ");
    nearest_hint("H20", devices, 4, hint);
    CHECK_TEXT(hint, "did you mean 'h200'? ");
    nearest_hint("h300", devices, 4, hint);
    CHECK_TEXT(hint, "did you mean 'h200'? ");
    nearest_hint("h1", devices, 4, hint);
    CHECK_TEXT(hint, "");
}

TEST(nearest__lists_names_that_begin_so_within_its_limit)
{
    char long_names[3][41], hint[NEAREST_HINT_BYTES], expected[NEAREST_HINT_BYTES];
    const char *const candidates[] = {long_names[0], long_names[1], long_names[2]};
    for (int i = 0; i < 3; i++) {
        memset(long_names[i], 'a' + i, 40);
        memcpy(long_names[i], "same", 4);
        long_names[i][40] = '\0';
    }
    nearest_hint("same", candidates, 3, hint);
    snprintf(expected, sizeof expected, "did you mean '%s'? ", long_names[0]);
    CHECK_TEXT(hint, expected);
}
