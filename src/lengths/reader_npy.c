/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Read lengths from a NumPy file. */
#include "lengths/reader.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

/** Contents of the header of a .npy file. */
struct npy {
    size_t data;  /* position of the first number [bytes] */
    size_t width; /* width of a number [bytes]: 4 or 8 */
    char kind;    /* 'i', 'u' or 'f' */
    size_t n;     /* number of numbers */
};

/** Return the text after 'KEY': in the header's dictionary, or NULL if the key is missing. */
static const char *find_key(const char *header, const char *key)
{
    const char *at = strstr(header, key);
    if (at == NULL || (at = strchr(at, ':')) == NULL)
        return NULL;
    return at + 1 + strspn(at + 1, " ");
}

/** Return how many numbers a shape such as "(1000,)" has; -1 for any other shape. */
static int64_t read_shape(const char *shape)
{
    int64_t n = 0;
    const char *at = shape + 1;
    if (*shape != '(' || *at < '0' || *at > '9')
        return -1;
    for (; '0' <= *at && *at <= '9' && n <= INT64_MAX / 10 - 1; at++)
        n = 10 * n + (*at - '0');
    return strncmp(at, ",)", 2) == 0 ? n : -1;
}

/** Read 'descr' and 'shape' of a header such as {'descr': '<i8', 'fortran_order': False, 'shape': (1000,), }. */
static bool read_header(const char *path, const char *header, struct npy *npy, struct error *err)
{
    static const char *const types[] = {"'<i4'", "'<i8'", "'<u4'", "'<u8'", "'<f4'", "'<f8'"};
    enum { N_TYPES = sizeof types / sizeof *types };
    const char *type = find_key(header, "'descr'"), *shape = find_key(header, "'shape'");
    int t = 0;
    if (type == NULL || shape == NULL)
        return error_set(err, "%s: its .npy header lacks descr or shape", path);
    while (t < N_TYPES && strncmp(type, types[t], strlen(types[t])) != 0)
        t++;
    if (t == N_TYPES)
        return error_set(err,
                         "%s: numbers of type %.*s are not supported, only '<i4', '<i8', '<u4', '<u8', '<f4' and '<f8'",
                         path, (int)strcspn(type, ",}"), type);
    size_t length = strcspn(shape, ")}");
    length += shape[length] == ')';
    if (read_shape(shape) < 0)
        return error_set(err, "%s: an array of shape %.*s is not supported, only one dimension such as (1000,)", path,
                         (int)length, shape);
    npy->kind = types[t][2];
    npy->width = (size_t)(types[t][3] - '0');
    npy->n = (size_t)read_shape(shape);
    return true;
}

static bool read_start(const char *path, const struct file_bytes *file, struct npy *npy, struct error *err)
{
    static const char magic[] = "\x93NUMPY";
    if (file->n < 12 || memcmp(file->bytes, magic, 6) != 0)
        return error_set(err, "%s: is not a .npy file", path);
    unsigned version = file->bytes[6];
    if (version != 1 && version != 2)
        return error_set(err, "%s: version %u of .npy is not supported, only 1 and 2", path, version);
    size_t start = version == 1 ? 10 : 12;
    size_t n_header = (size_t)reader_word(file->bytes + 8, start - 8);
    if (n_header > file->n - start)
        return error_set(err, "%s: ends inside its header", path);
    char *header = check_calloc(n_header + 1, 1);
    memcpy(header, file->bytes + start, n_header);
    npy->data = start + n_header;
    bool ok = read_header(path, header, npy, err);
    free(header);
    return ok;
}

/** Return the number that a word holds. */
static double number_of(const struct npy *npy, uint64_t word)
{
    uint32_t low = (uint32_t)word;
    double wide;
    float narrow;
    memcpy(&wide, &word, sizeof wide);
    memcpy(&narrow, &low, sizeof narrow);
    if (npy->kind == 'f')
        return npy->width == 4 ? narrow : wide;
    if (npy->kind == 'u')
        return (double)word;
    return npy->width == 4 ? (double)(int32_t)low : (double)(int64_t)word;
}

static bool read_numbers(const char *path, const struct file_bytes *file, const struct npy *npy,
                         struct reader_lengths *lengths, struct error *err)
{
    CHECK(npy->width > 0);
    size_t n_bytes = file->n - npy->data;
    if (npy->n != n_bytes / npy->width || n_bytes % npy->width != 0)
        return error_set(err, "%s: its header promises %zu numbers of %zu bytes, %zu bytes follow", path, npy->n,
                         npy->width, n_bytes);
    for (size_t i = 0; i < npy->n; i++) {
        double value = number_of(npy, reader_word(file->bytes + npy->data + i * npy->width, npy->width));
        if (!reader_add(lengths, value))
            return error_set(err, "%s: element %zu (from 0) is %.17g: " READER_ALLOWED, path, i, value);
    }
    return npy->n > 0 || error_set(err, "%s: holds no length, at least one is needed", path);
}

bool reader_npy(const struct reader_choice *choice, struct reader_lengths *lengths, struct error *err)
{
    struct file_bytes file = {0};
    struct npy npy = {0};
    const char *path = choice->path;
    bool ok = reader_load(choice, &file, err) && read_start(path, &file, &npy, err) &&
              read_numbers(path, &file, &npy, lengths, err);
    free(file.bytes);
    return ok;
}
