/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "lengths/reader.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/check.h"

/** Refuse a Parquet file with the command that converts it. */
static bool refuse_parquet(const struct reader_choice *choice, struct error *err)
{
    const char *column = *choice->column != '\0' ? choice->column : "length";
    return error_set(err,
                     "%s: is a Parquet file, which is not read; this command makes a CSV of its column: python3 -c "
                     "\"import pandas; pandas.read_parquet('%s', columns=['%s']).to_csv('lengths.csv', index=False)\"",
                     choice->path, choice->path, column);
}

bool reader_load(const struct reader_choice *choice, struct file_bytes *file, struct error *err)
{
    if (!file_bytes_load(choice->path, file, err))
        return false;
    if (file->n == 0)
        return error_set(err, "%s: is empty, at least one length is needed", choice->path);
    if (file->n >= 4 && memcmp(file->bytes, "PK\3\4", 4) == 0)
        return error_set(err, "%s: is a ZIP archive, such as .npz, which is not read; numpy.save writes .npy, which is",
                         choice->path);
    return file->n < 4 || memcmp(file->bytes, "PAR1", 4) != 0 || refuse_parquet(choice, err);
}

uint64_t reader_word(const unsigned char *bytes, size_t width)
{
    uint64_t value = 0;
    for (size_t i = width; i-- > 0;)
        value = value << 8 | bytes[i];
    return value;
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

/** Refuse every file of this name. */
static bool reader_parquet(const struct reader_choice *choice, struct reader_lengths *lengths, struct error *err)
{
    (void)lengths;
    return refuse_parquet(choice, err);
}

static const struct format formats[] = {
    {".parquet", reader_parquet, true, true}, {".csv", reader_csv, true, true},
    {".tsv", reader_tsv, true, true},         {".json", reader_json, true, true},
    {".jsonl", reader_jsonl, true, true},     {".ndjson", reader_jsonl, true, true},
    {".idx", reader_idx, true, false},        {".h5", reader_hdf5, true, false},
    {".hdf5", reader_hdf5, true, false},      {".npy", reader_npy, false, false},
    {"", reader_text, false, false},
};

static const struct format *format_of(const char *path)
{
    const struct format *format = formats;
    size_t n = strlen(path);
    char *plain = check_strndup(path, reader_ends_in(path, ".gz") ? n - strlen(".gz") : n);
    while (!reader_ends_in(plain, format->ending))
        format++;
    free(plain);
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
