/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check the alignment, clipping and free lines of tables. */
#include "base/text_table.h"

#include <pty.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "harness.h"

/** Return what a table prints. The caller frees it. */
static char *printed(struct text_table *table, int32_t columns)
{
    char *text = NULL;
    size_t n_bytes;
    FILE *file = check_memstream(&text, &n_bytes);
    text_table_print(table, file, columns);
    CHECK_EQUAL(fclose(file), 0);
    return text;
}

TEST(text_table_print__aligns_characters_and_not_bytes)
{
    struct text_table table = {0};
    text_table_columns(&table, "name<;rate>6;plan<");
    text_table_row(&table, "a\t%s\tDP1", "1 ± 2");
    text_table_row(&table, "long\t%d\tDP2", 12345678);
    char *text = printed(&table, 0);
    CHECK_TEXT(text, "name      rate  plan\n"
                     "a        1 ± 2  DP1\n"
                     "long  12345678  DP2\n");
    free(text);
}

TEST(text_table_print__takes_the_side_of_the_first_cell)
{
    struct text_table table = {0};
    text_table_columns(&table, "a?;b?");
    text_table_row(&table, "1\tx");
    text_table_row(&table, "200\tyy");
    char *text = printed(&table, 0);
    CHECK_TEXT(text, "  a  b\n  1  x\n200  yy\n");
    free(text);
}

TEST(text_table_print__clips_cells_and_lines)
{
    struct text_table table = {0};
    text_table_columns(&table, "name<4.4;text<");
    text_table_row(&table, "abcdef\tone two");
    char *text = printed(&table, 10);
    CHECK_TEXT(text, "name  text\nabc…  one…\n");
    free(text);
}

/* The cells "ab" and "xyz" are coloured. The ellipsis of the cut line belongs to the cell that it ends. */
TEST(text_table_colour__leaves_gaps_and_headings_plain)
{
    enum { SIZE = 256 };
    char text[SIZE];
    int master, terminal;
    struct text_table table = {0};
    text_table_columns(&table, "a>3;b<");
    text_table_row(&table, "ab\tone two");
    text_table_colour(&table, 2, COLOUR_FIRST);
    text_table_row(&table, "c\txyz");
    text_table_colour(&table, 1, COLOUR_MISFIT);
    CHECK_TRUE(openpty(&master, &terminal, NULL, NULL, NULL) == 0);
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
    FILE *file = fdopen(terminal, "w");
    text_table_print(&table, file, 9);
    fflush(file);
    static const char expected[] = "  a  b\r\n"
                                   " \033[1;32mab\033[0m  \033[1;32mone…\033[0m\r\n"
                                   "  c  \033[31mxyz\033[0m\r\n";
    size_t n = 0;
    ssize_t part = 1;
    while (n < strlen(expected) && part > 0) { /* a terminal may give a part of what was written */
        part = read(master, text + n, SIZE - 1 - n);
        n += part > 0 ? (size_t)part : 0;
    }
    text[n] = '\0';
    CHECK_TEXT(text, expected);
    fclose(file);
    close(master);
}

/* A free line stands behind the rows before it. Blanks at the end of a line are not printed. */
TEST(text_table_line__stands_between_rows)
{
    struct text_table table = {0};
    text_table_columns(&table, "<2;<");
    text_table_row(&table, "a\t");
    text_table_line(&table, "%s", "why: b");
    text_table_row(&table, "c\td");
    CHECK_EQUAL(text_table_width(&table, 2), 5);
    char *text = printed(&table, 0);
    CHECK_TEXT(text, "a\nwhy: b\nc   d\n");
    free(text);
}
