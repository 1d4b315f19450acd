/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Read lengths from a text file of numbers. */
#include "lengths/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_separator(unsigned char letter)
{
    return letter == ' ' || letter == '\t' || letter == '\n' || letter == '\r' || letter == ',';
}

/** Report a wrong word with its line and column, both from 1. Letters that cannot be printed become '?'. */
static bool wrong_word(const char *path, const struct file_bytes *file, size_t begin, size_t end, struct error *err)
{
    size_t line = 1, line_begin = 0;
    char word[33];
    size_t n = 0;
    for (size_t i = 0; i < begin; i++)
        if (file->bytes[i] == '\n') {
            line++;
            line_begin = i + 1;
        }
    for (size_t i = begin; i < end && n < sizeof word - 1; i++)
        word[n++] = (char)(file->bytes[i] >= ' ' && file->bytes[i] <= '~' ? file->bytes[i] : '?');
    word[n] = '\0';
    return error_set(err,
                     "%s:%zu:%zu: '%s' is not allowed: " READER_ALLOWED ", with blanks, commas or line ends between",
                     path, line, begin - line_begin + 1, word);
}

static bool add_word(struct reader_lengths *lengths, const unsigned char *word, size_t n)
{
    char text[64];
    double number;
    snprintf(text, sizeof text, "%.*s", n < sizeof text ? (int)n : 0, (const char *)word);
    return strlen(text) == n && reader_number(text, &number) && reader_add(lengths, number);
}

static bool scan(const char *path, const struct file_bytes *file, struct reader_lengths *lengths, struct error *err)
{
    size_t at = 0;
    while (at < file->n) {
        if (is_separator(file->bytes[at])) {
            at++;
            continue;
        }
        size_t begin = at;
        bool comment = file->bytes[at] == '#';
        while (at < file->n && (comment ? file->bytes[at] != '\n' : !is_separator(file->bytes[at])))
            at++;
        if (!comment && !add_word(lengths, file->bytes + begin, at - begin))
            return wrong_word(path, file, begin, at, err);
    }
    return lengths->n > 0 || error_set(err, "%s: holds no length, at least one is needed", path);
}

bool reader_text(const struct reader_choice *choice, struct reader_lengths *lengths, struct error *err)
{
    struct file_bytes file = {0};
    bool ok = reader_load(choice, &file, err) && scan(choice->path, &file, lengths, err);
    free(file.bytes);
    return ok;
}
