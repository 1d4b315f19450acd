/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/verdict.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "base/text_table.h"

/** Lines of the table, and their colours. */
struct lines {
    FILE *file;
    enum colour *colours;
    int32_t n;
    size_t capacity;
};

/** Give the next lines a colour. */
static void colour_lines(struct lines *lines, int32_t n, enum colour colour)
{
    for (int32_t i = 0; i < n; i++) {
        lines->colours = check_grow(lines->colours, (size_t)lines->n, &lines->capacity, sizeof *lines->colours);
        lines->colours[lines->n++] = colour;
    }
}

static int32_t count_lines(const char *text)
{
    int32_t n = 0;
    for (; *text != '\0'; text++)
        n += *text == '\n';
    return n;
}

/** Colour the lines of a ranking: the first system and those that tie with it, if there are others. */
static void colour_ranking(struct lines *lines, const struct verdict *verdict, int32_t n)
{
    colour_lines(lines, 1, COLOUR_NONE);
    for (int32_t i = 0; i < n; i++) {
        bool first = verdict->point->n_systems > 1 && verdict->ranked.standings[i].rank == 1;
        colour_lines(lines, 1, first ? COLOUR_FIRST : COLOUR_NONE);
    }
    colour_lines(lines, (n < verdict->n_ranked) + count_lines(verdict->legend), COLOUR_NONE);
}

/** Write the ranked systems, at most `most` of them, and the legend. Long labels are cut if the table is too wide. */
static void write_ranking(struct lines *lines, const struct verdict *verdict, int32_t most)
{
    bool alone = verdict->n_ranked == 1;
    int32_t n = verdict->n_ranked > most ? most - 1 : verdict->n_ranked;
    struct text_table table = {0};
    char *headings = check_strdup(verdict->ranking[0]), *rest = headings;
    for (char *name = strsep(&rest, "\t"); name != NULL; name = strsep(&rest, "\t"))
        text_table_column(&table,
                          table.n_columns == 0 && !alone ? "  system"
                          : rest == NULL                 ? "plan"
                                                         : name,
                          table.n_columns == 0 || rest == NULL ? "<" : ">");
    for (int32_t i = 0; i < n; i++)
        text_table_row(&table, "%s", verdict->ranking[1 + i]);
    int32_t last = table.n_columns - 1;
    if (text_table_width(&table, last + 1) > VERDICT_COLUMNS)
        table.columns[0].most = 22;
    const char *heading = strrchr(verdict->ranking[0], '\t') + 1;
    if (text_table_width(&table, last) + 2 + text_columns(heading) <= VERDICT_COLUMNS) {
        free(table.columns[last].heading);
        table.columns[last].heading = check_strdup(heading);
    }
    text_table_print(&table, lines->file, 0);
    if (n < verdict->n_ranked)
        fprintf(lines->file, "   and %d more systems (-v)\n", verdict->n_ranked - n);
    fputs(verdict->legend, lines->file);
    colour_ranking(lines, verdict, n);
    free(headings);
}

/** Write the systems that do not fit, two lines each, or if these are more than `most`, one. */
static void write_misfits(struct lines *lines, const struct verdict *verdict, int32_t most)
{
    FILE *file = lines->file;
    int32_t n_misfits = verdict->point->n_systems - verdict->n_ranked, shown = 0;
    bool brief = 2 * n_misfits > most;
    for (int32_t i = verdict->n_ranked; i < verdict->point->n_systems; i++) {
        int32_t system = verdict->ranked.standings[i].system;
        const char *label = verdict->point->systems[system].entry->label;
        if (n_misfits > most && ++shown == most) {
            colour_lines(lines, 1, COLOUR_NONE);
            fprintf(file, "and %d more that do not fit (-v)\n", n_misfits - most + 1);
            return;
        }
        colour_lines(lines, 1, COLOUR_MISFIT);
        colour_lines(lines, !brief, COLOUR_NONE);
        if (brief)
            fprintf(file, "%s: %s; %s\n", label, verdict->exceeded_limit[system], verdict->would_fit[system]);
        else
            fprintf(file, "%s does not fit: %s\n   %s: %s\n", label, verdict->exceeded_limit[system],
                    strrchr(verdict->ranking[1 + i], '\t') + 1, verdict->would_fit[system]);
    }
}

/** Write the ranking and the systems that do not fit, on at most `room` lines. */
static void write_table(struct lines *lines, const struct verdict *verdict, int32_t room)
{
    enum { HEADING_AND_LEGEND = 3 };
    int32_t n_ranked = verdict->n_ranked, n_misfits = verdict->point->n_systems - n_ranked;
    if (n_ranked > 0) {
        room -= HEADING_AND_LEGEND;
        int32_t least = n_misfits < room / 2 ? n_misfits : room / 2; /* lines for systems that do not fit */
        write_ranking(lines, verdict, room - least);
        room -= n_ranked < room - least ? n_ranked : room - least;
    }
    write_misfits(lines, verdict, room);
}

void verdict_print(const struct verdict *verdict)
{
    enum { BLANK_LINES = 2 };
    struct text_limits limits = {VERDICT_COLUMNS, 3, VERDICT_LINES, NULL};
    char *sentences = NULL, *table = NULL;
    size_t n_bytes;
    FILE *file = check_memstream(&sentences, &n_bytes);
    for (int i = 0; i < VERDICT_N_SENTENCES; i++)
        if (*verdict->sentence[i] != '\0')
            fprintf(file, "%s\n", verdict->sentence[i]);
    CHECK(fclose(file) == 0);
    int32_t room = VERDICT_LINES - BLANK_LINES - text_wrapped_lines(verdict->head, &limits);
    struct lines lines = {.file = check_memstream(&table, &n_bytes)};
    write_table(&lines, verdict, room - count_lines(sentences));
    CHECK(fclose(lines.file) == 0 && lines.n == count_lines(table));
    text_print_wrapped(verdict->head, &limits);
    putchar('\n');
    struct text_limits rows = {VERDICT_COLUMNS, 2, VERDICT_LINES, lines.colours};
    if (text_wrapped_lines(table, &rows) + text_wrapped_lines(sentences, &limits) > room)
        rows.most = 1; /* long plans are cut, so that no sentence is */
    text_print_wrapped(table, &rows);
    putchar('\n');
    limits.total = room - text_wrapped_lines(table, &rows);
    text_print_wrapped(sentences, &limits);
    free(sentences);
    free(table);
    free(lines.colours);
}
