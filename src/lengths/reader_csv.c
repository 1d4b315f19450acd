/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "lengths/reader.h"

#include <stdlib.h>
#include <string.h>

/** Text that is not copied. */
struct span {
    const unsigned char *begin, *end;
};

/** A file being read line by line. */
struct csv {
    const char *path;
    struct span rest;
    long long line; /* of the line taken last, from 1 */
};

static bool is_blank(unsigned char letter)
{
    return letter == ' ' || letter == '\t' || letter == '\r' || letter == '\n';
}

static struct span trim_end(struct span text)
{
    while (text.begin < text.end && is_blank(text.end[-1]))
        text.end--;
    return text;
}

static struct span trim(struct span text)
{
    while (text.begin < text.end && is_blank(*text.begin))
        text.begin++;
    return trim_end(text);
}

/** Take what stands before `separator` (or all) from the front of *rest, without the separator. */
static struct span take(struct span *rest, int separator)
{
    struct span first = *rest;
    const unsigned char *at = memchr(rest->begin, separator, (size_t)(rest->end - rest->begin));
    first.end = at != NULL ? at : rest->end;
    rest->begin = at != NULL ? at + 1 : rest->end;
    return first;
}

static int n_printable(struct span text)
{
    return text.end - text.begin < 100 ? (int)(text.end - text.begin) : 100;
}

static int64_t n_fields(struct span line)
{
    int64_t n = 1;
    for (const unsigned char *at = line.begin; at != line.end; at++)
        n += *at == ',';
    return n;
}

static struct span field(struct span line, int64_t index)
{
    while (index-- > 0)
        take(&line, ',');
    return trim(take(&line, ','));
}

static bool equals(struct span text, const char *name)
{
    size_t n = strlen(name);
    return (size_t)(text.end - text.begin) == n && memcmp(text.begin, name, n) == 0;
}

static int64_t find_column(struct span header, const char *name)
{
    for (int64_t i = 0; i < n_fields(header); i++)
        if (equals(field(header, i), name))
            return i;
    return -1;
}

/** The column to read. @return -1 with err */
static int64_t choose_column(const struct csv *csv, struct span header, const char *column, struct error *err)
{
    static const char *const usual[] = {"length", "tokens"};
    int64_t index = -1;
    if (column[0] != '\0')
        index = find_column(header, column);
    else if (n_fields(header) == 1)
        index = 0;
    for (int i = 0; i < 2 && column[0] == '\0' && index < 0; i++)
        index = find_column(header, usual[i]);
    if (index >= 0)
        return index;
    struct span names = trim(header);
    if (column[0] != '\0')
        error_set(err, "%s:1: there is no column '%s', the columns are: %.*s", csv->path, column, n_printable(names),
                  (const char *)names.begin);
    else
        error_set(err, "%s:1: data.column must name one of the columns: %.*s", csv->path, n_printable(names),
                  (const char *)names.begin);
    return -1;
}

static bool is_number(struct span text)
{
    for (const unsigned char *at = text.begin; at < text.end; at++)
        if (*at < '0' || *at > '9')
            return false;
    return text.begin < text.end;
}

/** A first line without names is data: reading on would lose a length silently. */
static bool check_header(const struct csv *csv, struct span header, struct error *err)
{
    if (memchr(header.begin, '"', (size_t)(header.end - header.begin)) != NULL)
        return error_set(err, "%s:1: quoted fields are not supported, write the names without quotes", csv->path);
    for (int64_t i = 0; i < n_fields(header); i++) {
        struct span name = field(header, i);
        if (is_number(name))
            return error_set(err, "%s:1: the first line must hold the names of the columns, '%.*s' is a number",
                             csv->path, n_printable(name), (const char *)name.begin);
    }
    return true;
}

static bool read_row(const struct csv *csv, struct span row, int64_t n, int64_t index, struct reader_lengths *lengths,
                     struct error *err)
{
    if (n_fields(row) != n)
        return error_set(err, "%s:%lld: %lld fields where the header has %lld (quoted fields are not supported)",
                         csv->path, csv->line, (long long)n_fields(row), (long long)n);
    struct span text = field(row, index);
    if (!reader_add_text(lengths, text.begin, text.end))
        return error_set(err, "%s:%lld: '%.*s' is not allowed: " READER_ALLOWED, csv->path, csv->line,
                         n_printable(text), (const char *)text.begin);
    return true;
}

static bool scan(struct csv *csv, const char *column, struct reader_lengths *lengths, struct error *err)
{
    struct span header = take(&csv->rest, '\n');
    int64_t n = n_fields(header);
    csv->line = 1;
    if (!check_header(csv, header, err))
        return false;
    int64_t index = choose_column(csv, header, column, err);
    if (index < 0)
        return false;
    while (csv->rest.begin < csv->rest.end) {
        struct span row = take(&csv->rest, '\n');
        csv->line++;
        if (!read_row(csv, row, n, index, lengths, err))
            return false;
    }
    return lengths->n > 0 || error_set(err, "%s: holds no length below its header, at least one is needed", csv->path);
}

bool reader_csv(const char *path, const char *column, struct reader_lengths *lengths, struct error *err)
{
    struct reader_bytes file = {0};
    bool ok = reader_load(path, &file, err);
    if (ok) {
        /* Blank lines at the end are harmless; in between they may be missing values. */
        struct csv csv = {.path = path, .rest = trim_end((struct span){file.bytes, file.bytes + file.n})};
        ok = scan(&csv, column, lengths, err);
    }
    free(file.bytes);
    return ok;
}
