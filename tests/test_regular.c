/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check which paths are regular files. */
#include "base/regular.h"

#include <sys/stat.h>
#include <unistd.h>

#include "harness.h"
#include "scenario_fixture.h"

TEST(regular__takes_a_file_behind_a_link)
{
    struct error err = {0};
    unlink(harness_path("regular-link"));
    CHECK_EQUAL(symlink("regular.txt", harness_path("regular-link")), 0);
    CHECK_TRUE(regular_check(fixture_write("regular.txt", "text"), &err));
    CHECK_TRUE(regular_check(harness_path("regular-link"), &err));
}

TEST(regular__names_a_pipe_or_device_without_waiting)
{
    struct error pipe = {0}, device = {0}, none = {0};
    unlink(harness_path("regular-pipe"));
    CHECK_EQUAL(mkfifo(harness_path("regular-pipe"), 0600), 0);
    CHECK_TRUE(!regular_check(harness_path("regular-pipe"), &pipe));
    CHECK_CONTAINS(pipe.text, "regular-pipe: is not a regular file");
    CHECK_TRUE(!regular_check("/dev/zero", &device));
    CHECK_CONTAINS(device.text, "/dev/zero: is not a regular file");
    CHECK_TRUE(regular_check(harness_path("."), &none));
    CHECK_TRUE(regular_check(harness_path("no such file"), &none));
    CHECK_TEXT(none.text, "");
}
