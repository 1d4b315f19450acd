/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/help_text.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/check.h"
#include "base/text.h"
#include "base/text_table.h"

enum { MOST_CELLS = 16, BELOW = 4 };

/** A page as it is printed. */
struct page {
    FILE *file;
    int32_t columns;
};

/** Cells of a row of a table. They are parts of a line, which they cut. */
struct row {
    char *cells[MOST_CELLS];
    int32_t n;
};

int32_t help_columns(void)
{
    const char *variable = getenv("COLUMNS");
    long columns = variable != NULL ? strtol(variable, NULL, 10) : 0;
    struct winsize size = {0};
    if (columns <= 0 && isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
        columns = size.ws_col > 0 ? size.ws_col : HELP_LEAST_COLUMNS * 2;
    return columns <= 0                   ? 0
           : columns < HELP_LEAST_COLUMNS ? HELP_LEAST_COLUMNS
           : columns > HELP_MOST_COLUMNS  ? HELP_MOST_COLUMNS
                                          : (int32_t)columns;
}

static bool is_fence(const char *line)
{
    return strncmp(line + strspn(line, " "), "```", 3) == 0;
}

/** Return the text without the targets of links. Blocks of code stay as they are. */
static char *without_targets(const char *text)
{
    char *out = NULL;
    size_t n;
    FILE *file = check_memstream(&out, &n);
    bool code = false;
    for (const char *c = text; *c != '\0'; c++) {
        if ((c == text || c[-1] == '\n') && is_fence(c))
            code = !code;
        size_t name = *c == '[' && !code ? strcspn(c + 1, "[]") : 0;
        size_t target = name > 0 && strncmp(c + 1 + name, "](", 2) == 0 ? strcspn(c + name + 3, " )\n") : 0;
        if (target > 0 && c[name + 3 + target] == ')') {
            fwrite(c + 1, 1, name, file);
            c += name + 3 + target;
        } else {
            putc(*c, file);
        }
    }
    fclose(file);
    return out;
}

/** Print words behind an indent, and with the larger indent `hang` from the second line on. The text is cut into words.
 */
static void fill(const struct page *page, char *text, int32_t indent, int32_t hang)
{
    int32_t column = indent;
    char *rest = NULL;
    bool first = true;
    fprintf(page->file, "%*s", indent, "");
    for (char *word = strtok_r(text, " \n", &rest); word != NULL; word = strtok_r(NULL, " \n", &rest)) {
        int32_t width = text_columns(word);
        if (!first && column + 1 + width > page->columns) {
            fprintf(page->file, "\n%*s", hang, "");
            column = hang;
            first = true;
        }
        fprintf(page->file, "%s%s", first ? "" : " ", word);
        column += width + !first;
        first = false;
    }
    putc('\n', page->file);
}

/** Return the width of the mark of an item that begins here: "- ", "10. ". 0: there is none. */
static int32_t mark_of(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    return strncmp(text, "- ", 2) == 0                          ? 2
           : digits > 0 && strncmp(text + digits, ". ", 2) == 0 ? (int32_t)digits + 2
                                                                : 0;
}

/** Return whether a line goes on a paragraph. */
static bool goes_on(const char *line)
{
    const char *text = line + strspn(line, " ");
    return *text != '\0' && *text != '#' && *text != '|' && !is_fence(line) && mark_of(text) == 0;
}

/** Cut a line of a table into cells. "\|" is a part of one. */
static void cut(char *line, struct row *row)
{
    row->n = 0;
    for (char *c = strchr(line, '|') + 1; row->n < MOST_CELLS; c++) {
        char *cell = c + strspn(c, " "), *to = cell;
        for (c = cell; *c != '\0' && *c != '|'; *to++ = *c++)
            c += strncmp(c, "\\|", 2) == 0;
        if (*c == '\0')
            return;
        while (to > cell && to[-1] == ' ')
            to--;
        *to = '\0';
        row->cells[row->n++] = cell;
    }
}

/** Return the columns of a table with aligned cells. */
static int32_t width_of(const struct row *rows, int32_t n_rows)
{
    int32_t width[MOST_CELLS] = {0}, sum = -2;
    for (int32_t r = 0; r < n_rows; r++)
        for (int32_t i = 0; i < rows[r].n; i++)
            if (text_columns(rows[r].cells[i]) > width[i])
                width[i] = text_columns(rows[r].cells[i]);
    for (int32_t i = 0; i < rows[0].n; i++)
        sum += width[i] + 2;
    return sum;
}

static void print_aligned(const struct page *page, const struct row *rows, int32_t n_rows)
{
    struct text_table table = {0};
    for (int32_t i = 0; i < rows[0].n; i++)
        text_table_column(&table, rows[0].cells[i], "<");
    for (int32_t r = 1; r < n_rows; r++)
        for (int32_t i = 0; i < rows[0].n; i++)
            text_table_cell(&table, "%s", i < rows[r].n ? rows[r].cells[i] : "");
    text_table_print(&table, page->file, 0);
}

/** Print each row as its first cell, and below it the others with their headings. */
static void print_below(const struct page *page, const struct row *rows, int32_t n_rows)
{
    for (int32_t r = 1; r < n_rows; r++) {
        char *text = NULL;
        size_t bytes;
        FILE *others = check_memstream(&text, &bytes);
        const char *between = "";
        for (int32_t i = 1; i < rows[r].n && i < rows[0].n; i++)
            if (*rows[r].cells[i] != '\0') {
                const char *heading = rows[0].cells[i];
                fprintf(others, "%s%s%s%s", between, heading, *heading != '\0' ? ": " : "", rows[r].cells[i]);
                between = "; ";
            }
        fclose(others);
        fill(page, rows[r].cells[0], 0, BELOW);
        if (*text != '\0')
            fill(page, text, BELOW, BELOW);
        free(text);
    }
}

/** Print a table, whose second line only separates. @return its lines */
static size_t print_table(const struct page *page, char **lines, size_t n)
{
    struct row *rows = check_malloc(n * sizeof *rows);
    size_t used = 0;
    int32_t n_rows = 0;
    for (; used < n && lines[used][strspn(lines[used], " ")] == '|'; used++)
        if (used != 1)
            cut(lines[used], &rows[n_rows++]);
    if (width_of(rows, n_rows) <= page->columns)
        print_aligned(page, rows, n_rows);
    else
        print_below(page, rows, n_rows);
    free(rows);
    return used;
}

/** Print a paragraph or an item, filled to the columns. @return its lines */
static size_t print_paragraph(const struct page *page, char **lines, size_t n)
{
    char *text = NULL;
    size_t bytes, used = 0;
    FILE *file = check_memstream(&text, &bytes);
    do
        fprintf(file, "%s\n", lines[used++]);
    while (used < n && goes_on(lines[used]));
    fclose(file);
    int32_t indent = (int32_t)strspn(text, " ");
    fill(page, text, indent, indent + mark_of(text + indent));
    free(text);
    return used;
}

static void print_lines(const struct page *page, char **lines, size_t n)
{
    bool code = false;
    for (size_t i = 0; i < n;) {
        const char *text = lines[i] + strspn(lines[i], " ");
        code = code != is_fence(lines[i]);
        if (!code && *text == '|')
            i += print_table(page, lines + i, n - i);
        else if (!code && (goes_on(lines[i]) || mark_of(text) > 0))
            i += print_paragraph(page, lines + i, n - i);
        else
            fprintf(page->file, "%s\n", lines[i++]);
    }
}

void help_print(const char *markdown, int32_t columns, FILE *file)
{
    char *text = without_targets(markdown), **lines = NULL;
    size_t n = 0, capacity = 0;
    for (char *line = text, *end; columns > 0 && *line != '\0'; line = end + 1) {
        end = strchr(line, '\n');
        lines = check_grow(lines, n, &capacity, sizeof *lines);
        lines[n++] = line;
        if (end == NULL)
            break;
        *end = '\0';
    }
    if (columns > 0)
        print_lines(&(struct page){file, columns}, lines, n);
    else
        fputs(text, file);
    free(lines);
    free(text);
}
