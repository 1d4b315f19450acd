/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "lengths/reader.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/check.h"
#include "base/regular.h"

bool reader_load(const char *path, struct reader_bytes *bytes, struct error *err)
{
    struct stat status;
    if (!regular_check(path, err))
        return false;
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return error_set(err, "%s: cannot be opened: %s", path, strerror(errno));
    bool ok = false;
    if (fstat(fileno(file), &status) != 0 || !S_ISREG(status.st_mode)) {
        error_set(err, "%s: is not a regular file", path);
    } else if (status.st_size == 0) {
        error_set(err, "%s: is empty, at least one length is needed", path);
    } else {
        bytes->n = (size_t)status.st_size;
        bytes->bytes = check_malloc(bytes->n);
        ok = fread(bytes->bytes, 1, bytes->n, file) == bytes->n ||
             error_set(err, "%s: cannot be read whole: %s", path, ferror(file) ? strerror(errno) : "it became shorter");
    }
    fclose(file);
    return ok;
}

bool reader_add(struct reader_lengths *lengths, double tokens)
{
    if (!(tokens >= 1 && tokens <= INT32_MAX && tokens == floor(tokens)))
        return false;
    lengths->tokens = check_grow(lengths->tokens, lengths->n, &lengths->capacity, sizeof *lengths->tokens);
    lengths->tokens[lengths->n++] = (int32_t)tokens;
    return true;
}

bool reader_weigh(struct reader_lengths *lengths, double weight)
{
    if (!(weight >= 0 && weight <= DBL_MAX))
        return false;
    lengths->weight = check_grow(lengths->weight, lengths->n - 1, &lengths->weight_capacity, sizeof *lengths->weight);
    lengths->weight[lengths->n - 1] = weight;
    return true;
}

/** Copy a number without the commas between its thousands. @return false if a comma is elsewhere, or it is too long */
static bool without_commas(const char *text, char plain[64])
{
    size_t n = 0, n_digits = strspn(text, "0123456789");
    for (; *text != '\0' && n < 63; text++) {
        if (*text != ',') {
            plain[n++] = *text;
            continue;
        }
        if (n_digits < 1 || n_digits > 3 || strspn(text + 1, "0123456789") != 3)
            return false;
        n_digits = 3;
    }
    plain[n] = '\0';
    return *text == '\0';
}

bool reader_number(const char *text, double *number)
{
    char plain[64], *end;
    if (!without_commas(text, plain) || strspn(plain + (*plain == '-'), "0123456789") == 0 ||
        strspn(plain, "0123456789.eE+-") != strlen(plain))
        return false;
    *number = strtod(plain, &end);
    return *end == '\0';
}

bool reader_ends_in(const char *path, const char *ending)
{
    size_t n = strlen(path), n_ending = strlen(ending);
    return n > n_ending && strcasecmp(path + n - n_ending, ending) == 0;
}

/** A format of files of lengths. */
struct format {
    const char *ending;
    reader_function *read;
    bool has_columns, has_weights;
};

static const struct format formats[] = {
    {".csv", reader_csv, true, true},    {".tsv", reader_tsv, true, true},   {".h5", reader_hdf5, true, false},
    {".hdf5", reader_hdf5, true, false}, {".npy", reader_npy, false, false}, {"", reader_text, false, false},
};

static const struct format *format_of(const char *path)
{
    const struct format *format = formats;
    while (!reader_ends_in(path, format->ending))
        format++;
    return format;
}

/** Refuse keys that the format has no use for. */
static bool check_keys(const struct reader_choice *choice, const struct format *format, struct error *err)
{
    if (*choice->column != '\0' && !format->has_columns)
        return error_set(err, "%s: data.column '%s' is for " READER_WITH_COLUMNS " files only", choice->path,
                         choice->column);
    return *choice->weights == '\0' || format->has_weights ||
           error_set(err, "%s: data.weights '%s' is for " READER_WITH_WEIGHTS " files only", choice->path,
                     choice->weights);
}

bool reader_read(const struct reader_choice *choice, struct reader_lengths *lengths, struct error *err)
{
    const struct format *format = format_of(choice->path);
    return check_keys(choice, format, err) && format->read(choice, lengths, err);
}
