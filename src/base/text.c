/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

static const char indent[] = "  ", ellipsis[] = "…";

void text_number(double value, int decimals, char text[TEXT_NUMBER_SIZE])
{
    char plain[TEXT_NUMBER_SIZE];
    size_t used = 0;
    snprintf(plain, sizeof plain, "%.*f", decimals, value);
    size_t whole = strcspn(plain, "."), first = plain[0] == '-';
    for (size_t i = 0; plain[i] != '\0' && used + 2 < TEXT_NUMBER_SIZE; i++) {
        if (i > first && i < whole && (whole - i) % 3 == 0)
            text[used++] = ',';
        text[used++] = plain[i];
    }
    text[used] = '\0';
}

/** Return whether a byte begins a character. */
static bool begins_character(char byte)
{
    return ((unsigned char)byte & 0xc0) != 0x80;
}

/** Return the decimals that give a number three digits. */
static int decimals_of(double value)
{
    return fabs(value) < 9.995 ? 2 : fabs(value) < 99.95 ? 1 : 0;
}

void text_digits(double value, char text[TEXT_AMOUNT_SIZE])
{
    if (isinf(value))
        snprintf(text, TEXT_AMOUNT_SIZE, "never");
    else
        snprintf(text, TEXT_AMOUNT_SIZE, "%.*f", decimals_of(value), value);
}

void text_amount(const char *sign, double amount, char text[TEXT_AMOUNT_SIZE])
{
    static const struct {
        double size;
        const char *letter;
    } units[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {0, ""}};
    int i = 0;
    while (fabs(amount) < 0.9995 * units[i].size)
        i++;
    double value = units[i].size > 0 ? amount / units[i].size : amount;
    if (isnan(amount))
        snprintf(text, TEXT_AMOUNT_SIZE, "-");
    else
        snprintf(text, TEXT_AMOUNT_SIZE, "%s%s%.*f%s", value < 0 ? "-" : "", sign, decimals_of(value), fabs(value),
                 units[i].letter);
}

int32_t text_columns(const char *text)
{
    int32_t n = 0;
    for (; *text != '\0'; text++)
        n += begins_character(*text);
    return n;
}

/** Return the bytes of the first `columns` characters. */
static size_t bytes_of(const char *text, int32_t columns)
{
    size_t i = 0;
    for (int32_t n = 0; text[i] != '\0'; i++) {
        n += begins_character(text[i]);
        if (n > columns)
            break;
    }
    return i;
}

void text_clip(char *text, int32_t columns)
{
    if (text_columns(text) > columns)
        strcpy(text + bytes_of(text, columns - 1), ellipsis);
}

void text_print_clipped(int32_t columns, const char *format, ...)
{
    char *line = NULL;
    size_t n_bytes;
    FILE *file = check_memstream(&line, &n_bytes);
    va_list list;
    va_start(list, format);
    vfprintf(file, format, list);
    va_end(list);
    fputs(ellipsis, file); /* room for the one of text_clip */
    CHECK(fclose(file) == 0);
    line[n_bytes - strlen(ellipsis)] = '\0';
    text_clip(line, columns);
    puts(line);
    free(line);
}

size_t text_character(const char *text, bool *control)
{
    const unsigned char *byte = (const unsigned char *)text;
    size_t n = byte[0] < 0xc2 ? 1 : byte[0] < 0xe0 ? 2 : byte[0] < 0xf0 ? 3 : 4;
    *control =
        byte[0] < ' ' || (0x7f <= byte[0] && byte[0] < 0xc2) || byte[0] >= 0xf5 || (byte[0] == 0xc2 && byte[1] <= 0x9f);
    for (size_t i = 1; i < n; i++)
        if (begins_character(text[i])) { /* not UTF-8 */
            *control = true;
            return 1;
        }
    return n;
}

char *text_clean(char *text)
{
    char *to = text;
    size_t n;
    for (const char *from = text; *from != '\0'; from += n) {
        bool control;
        n = text_character(from, &control);
        memmove(to, control ? "?" : from, control ? 1 : n);
        to += control ? 1 : n;
    }
    *to = '\0';
    return text;
}

bool text_has_word(const char *words, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = words; length > 0 && (at = strstr(at, word)) != NULL; at += length)
        if ((at == words || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return true;
    return false;
}

/** Return the bytes of a line up to the last blank before `columns`, or all that fit if there is none. */
static size_t break_of(const char *line, int32_t columns)
{
    size_t fit = bytes_of(line, columns);
    if (line[fit] == '\0')
        return fit;
    size_t at = fit;
    while (at > 0 && line[at] != ' ')
        at--;
    return at > 0 ? at : fit;
}

/** Write one line as at most `most` lines. @return their number */
static int32_t write_line(FILE *file, const char *line, int32_t columns, int32_t most, enum colour colour)
{
    int32_t n = 1;
    for (int32_t room = columns;; n++, room = columns - (int32_t)strlen(indent)) {
        fputs(n > 1 ? indent : "", file);
        if (n == most) {
            char *last = check_malloc(strlen(line) + sizeof ellipsis);
            strcpy(last, line);
            text_clip(last, room);
            colour_write(file, colour, last, strlen(last));
            fputc('\n', file);
            free(last);
            return n;
        }
        size_t bytes = break_of(line, room);
        colour_write(file, colour, line, bytes);
        fputc('\n', file);
        line += bytes + strspn(line + bytes, " ");
        if (*line == '\0')
            return n;
    }
}

/** Return the lines that each line of a text may become: limits->most, and fewer for the last ones. The caller frees.
 */
static int32_t *allowances(const char *text, const struct text_limits *limits, int32_t *n)
{
    int32_t *allowed = NULL, sum = 0;
    size_t capacity = 0, n_bytes;
    char *unused = NULL;
    FILE *nowhere = check_memstream(&unused, &n_bytes);
    for (*n = 0; *text != '\0'; (*n)++) {
        size_t bytes = strcspn(text, "\n");
        char *line = check_strndup(text, bytes);
        allowed = check_grow(allowed, (size_t)*n, &capacity, sizeof *allowed);
        sum += allowed[*n] = write_line(nowhere, line, limits->columns, limits->most, COLOUR_NONE);
        free(line);
        text += bytes + (text[bytes] == '\n');
    }
    CHECK(fclose(nowhere) == 0);
    free(unused);
    for (int32_t i = *n - 1; i >= 0; i--)
        for (; allowed[i] > 1 && sum > limits->total; sum--)
            allowed[i]--;
    return allowed;
}

void text_print_wrapped(const char *text, const struct text_limits *limits)
{
    int32_t n, *allowed = allowances(text, limits, &n);
    for (int32_t i = 0; i < n; i++) {
        size_t bytes = strcspn(text, "\n");
        char *line = check_strndup(text, bytes);
        write_line(stdout, line, limits->columns, allowed[i],
                   limits->colours != NULL ? limits->colours[i] : COLOUR_NONE);
        free(line);
        text += bytes + (text[bytes] == '\n');
    }
    free(allowed);
}

int32_t text_wrapped_lines(const char *text, const struct text_limits *limits)
{
    int32_t n, sum = 0, *allowed = allowances(text, limits, &n);
    for (int32_t i = 0; i < n; i++)
        sum += allowed[i];
    free(allowed);
    return sum;
}
