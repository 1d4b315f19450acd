/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check what a long command shows on stderr. */
#include "base/status_line.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"

enum { SIZE = 256 };

/** Print with stderr in a file, and read what was printed. */
static void print_to_file(struct status_line *line, char text[SIZE])
{
    FILE *file = tmpfile();
    int before = dup(STDERR_FILENO);
    fflush(stderr);
    dup2(fileno(file), STDERR_FILENO);
    line->terminal = isatty(STDERR_FILENO);
    status_line_print(line, "%d of %d", 3, 7);
    status_line_end(line);
    fflush(stderr);
    dup2(before, STDERR_FILENO);
    close(before);
    rewind(file);
    text[fread(text, 1, SIZE - 1, file)] = '\0';
    fclose(file);
}

TEST(status_line__prints_a_line_each_30_s_in_a_file)
{
    char text[SIZE];
    struct status_line line = status_line_begin(true);
    print_to_file(&line, text);
    CHECK_TEXT(text, "");
    line.printed_s -= 31;
    print_to_file(&line, text);
    CHECK_TEXT(text, "3 of 7\n");
    print_to_file(&line, text);
    CHECK_TEXT(text, "");
}

TEST(status_line__is_silent_if_not_shown)
{
    char text[SIZE];
    struct status_line line = status_line_begin(false);
    line.printed_s -= 31;
    print_to_file(&line, text);
    CHECK_TEXT(text, "");
}
