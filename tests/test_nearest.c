/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/nearest.h"

#include <stdlib.h>
#include <string.h>

#include "harness.h"

static const char *const names[] = {"data.context", "seed", "engine", "trace", "tp", "pp"};
enum { N = sizeof names / sizeof *names };

TEST(one_slip_of_each_kind_finds_the_name)
{
    CHECK_TEXT(nearest_name("sed", names, N), "seed");
    CHECK_TEXT(nearest_name("seeed", names, N), "seed");
    CHECK_TEXT(nearest_name("engime", names, N), "engine");
    CHECK_TEXT(nearest_name("tarce", names, N), "trace");
    CHECK_TEXT(nearest_name("Engine", names, N), "engine");
}

TEST(ties_go_to_the_first)
{
    CHECK_TEXT(nearest_name("xp", names, N), "tp");
}

TEST(what_is_far_from_all_finds_nothing)
{
    char longer[200];
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    CHECK_TRUE(nearest_name("platform", names, N) == NULL);
    CHECK_TRUE(nearest_name("", names, 4) == NULL);
    CHECK_TRUE(nearest_name(longer, names, N) == NULL);
    CHECK_TRUE(nearest_name("seed", names, 0) == NULL);
}
