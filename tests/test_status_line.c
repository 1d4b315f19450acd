/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check what a long command shows on stderr. */
#include "base/status_line.h"

#include <poll.h>
#include <pty.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "harness.h"

enum { SIZE = 256 };

/** Show a line for a while with stderr elsewhere. */
static void show(int descriptor, bool shown, int32_t time_ms, const char *text)
{
    struct status_line line;
    int before = dup(STDERR_FILENO);
    fflush(stderr);
    dup2(descriptor, STDERR_FILENO);
    status_line_begin(&line, shown, "begins with %d", 7);
    status_line_print(&line, "%s", text);
    usleep((useconds_t)(1000 * time_ms));
    status_line_end(&line);
    dup2(before, STDERR_FILENO);
    close(before);
}

/** Show a line for a while with stderr in a file, and read what was printed. */
static void show_in_file(bool shown, int32_t time_ms, char text[SIZE])
{
    FILE *file = tmpfile();
    show(fileno(file), shown, time_ms, "3 of 7");
    rewind(file);
    text[fread(text, 1, SIZE - 1, file)] = '\0';
    fclose(file);
}

/* Lines come after 1, 2 and 4 s. */
TEST(status_line__prints_the_newest_text_within_two_seconds_and_then_rarely)
{
    char text[SIZE];
    show_in_file(true, 100, text);
    CHECK_TEXT(text, "");
    show_in_file(true, 1700, text);
    CHECK_TEXT(text, "3 of 7\n");
    show_in_file(true, 3500, text);
    CHECK_TEXT(text, "3 of 7\n3 of 7\n");
}

TEST(status_line__is_cut_at_the_width_of_a_terminal)
{
    char text[SIZE];
    int master, terminal;
    CHECK_TRUE(openpty(&master, &terminal, NULL, NULL, &(struct winsize){.ws_row = 24, .ws_col = 10}) == 0);
    show(terminal, true, 1500, "1234567890 and more");
    size_t n = 0; /* it comes in parts */
    while (n < SIZE - 1 && poll(&(struct pollfd){master, POLLIN, 0}, 1, 500) == 1) {
        ssize_t got = read(master, text + n, SIZE - 1 - n);
        n += got > 0 ? (size_t)got : SIZE;
    }
    text[n < SIZE ? n : 0] = '\0';
    CHECK_TEXT(text, "\r\033[K123456789…\r\033[K");
    close(terminal);
    close(master);
}

TEST(status_line__is_silent_if_not_shown)
{
    char text[SIZE];
    show_in_file(false, 1500, text);
    CHECK_TEXT(text, "");
}

/* A quarter took 60 s, so the rest takes 180 s. */
TEST(status_line_left__extends_the_time_of_the_finished_share)
{
    char text[STATUS_LEFT_BYTES];
    status_line_left(clock_wall_s() - 60, 0.25, text);
    CHECK_TEXT(text, ", 0:03:00 left");
    status_line_left(clock_wall_s() - 60, 0.999, text);
    CHECK_TEXT(text, ", 0:00:01 left");
    status_line_left(clock_wall_s() - 60, 1, text); /* it still writes its files */
    CHECK_TEXT(text, ", 0:00:01 left");
    status_line_left(clock_wall_s() - 60, 0, text);
    CHECK_TEXT(text, "");
    status_line_left(clock_wall_s(), 0.5, text);
    CHECK_TEXT(text, "");
}
