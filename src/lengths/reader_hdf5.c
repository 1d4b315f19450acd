/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Read lengths from a data set of an HDF5 file. */
#include "lengths/reader.h"

#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/regular.h"

/** Sizes and limits of reading. */
enum {
    PIECE = 65536,
    MAX_DEPTH = 64,            /* depth of groups; HDF5 walks from the root to each group again */
    MAX_LENGTHS_OF_BYTE = 1032 /* Deflate packs at most so many bytes into one (zlib's technical details) */
};

/** The one-dimensional data sets of integers in a file. */
struct candidates {
    int64_t n;
    bool too_deep;
    char first[1024]; /* path of the first data set */
    char all[1024];   /* paths of all data sets, as many as fit */
};

static bool is_integer_list(hid_t dataset)
{
    hid_t type = H5Dget_type(dataset), space = H5Dget_space(dataset);
    bool ok = type >= 0 && space >= 0 && H5Tget_class(type) == H5T_INTEGER && H5Sget_simple_extent_ndims(space) == 1;
    if (type >= 0)
        H5Tclose(type);
    if (space >= 0)
        H5Sclose(space);
    return ok;
}

static herr_t collect(hid_t object, const char *name, const H5O_info_t *info, void *data)
{
    struct candidates *found = data;
    int depth = 0;
    for (const char *slash = name; (slash = strchr(slash, '/')) != NULL; slash++)
        depth++;
    found->too_deep = depth >= MAX_DEPTH;
    if (found->too_deep)
        return -1;
    if (info->type != H5O_TYPE_DATASET)
        return 0;
    hid_t dataset = H5Dopen2(object, name, H5P_DEFAULT);
    if (dataset < 0)
        return -1;
    if (is_integer_list(dataset)) {
        size_t used = strlen(found->all);
        if (found->n++ == 0)
            snprintf(found->first, sizeof found->first, "%s", name);
        snprintf(found->all + used, sizeof found->all - used, "%s%s", used > 0 ? ", " : "", name);
    }
    return H5Dclose(dataset);
}

/** List the data sets. */
static bool list(hid_t file, const char *path, struct candidates *found, struct error *err)
{
    if (H5Ovisit2(file, H5_INDEX_NAME, H5_ITER_INC, collect, found, H5O_INFO_BASIC) >= 0)
        return true;
    if (found->too_deep)
        return error_set(err, "%s: its groups are nested more than %d deep; data.column names the data set to read",
                         path, MAX_DEPTH);
    return error_set(err, "%s: its data sets cannot be listed, the file is damaged", path);
}

/** Find the data set to read when the user names none. */
static bool choose_dataset(hid_t file, const char *path, struct candidates *found, struct error *err)
{
    if (!list(file, path, found, err))
        return false;
    if (found->n == 0)
        return error_set(err, "%s: holds no one-dimensional data set of integers", path);
    if (found->n > 1)
        return error_set(err, "%s: data.column must name one of the data sets: %s", path, found->all);
    return true;
}

/** Read the numbers [begin, begin + n) into `piece`. */
static bool read_piece(hid_t dataset, hid_t space, hsize_t begin, hsize_t n, int64_t *piece)
{
    hid_t memory = H5Screate_simple(1, &n, NULL);
    if (memory < 0)
        return false;
    bool ok = H5Sselect_hyperslab(space, H5S_SELECT_SET, &begin, NULL, &n, NULL) >= 0 &&
              H5Dread(dataset, H5T_NATIVE_INT64, memory, space, H5P_DEFAULT, piece) >= 0;
    H5Sclose(memory);
    return ok;
}

/** Return how many lengths HDF5 reads as one chunk; 0 if any number. */
static hsize_t chunk_lengths(hid_t dataset)
{
    hsize_t n = 0;
    hid_t creation = H5Dget_create_plist(dataset);
    if (creation >= 0 && H5Pget_layout(creation) == H5D_CHUNKED && H5Pget_chunk(creation, 1, &n) != 1)
        n = 0;
    if (creation >= 0)
        H5Pclose(creation);
    return n;
}

/** Return whether the file can hold so many lengths. Lengths that were never written take no space in it. */
static bool check_number(hid_t dataset, hssize_t n, const char *where, struct error *err)
{
    hsize_t stored = H5Dget_storage_size(dataset), chunk = chunk_lengths(dataset);
    if (n < 1)
        return error_set(err, "%s holds no length, at least one is needed", where);
    hsize_t claimed = chunk > (hsize_t)n ? chunk : (hsize_t)n;
    return claimed / MAX_LENGTHS_OF_BYTE <= stored ||
           error_set(err, "%s claims %llu lengths and stores %llu bytes; allowed: at most %d lengths a byte", where,
                     (unsigned long long)claimed, (unsigned long long)stored, MAX_LENGTHS_OF_BYTE);
}

static bool read_numbers(hid_t dataset, hid_t space, const char *where, struct reader_lengths *lengths,
                         struct error *err)
{
    hssize_t n = H5Sget_simple_extent_npoints(space);
    if (!check_number(dataset, n, where, err))
        return false;
    int64_t *piece = check_malloc(PIECE * sizeof *piece);
    bool ok = true;
    for (hssize_t begin = 0; ok && begin < n; begin += PIECE) {
        hssize_t n_piece = n - begin < PIECE ? n - begin : PIECE;
        ok = read_piece(dataset, space, (hsize_t)begin, (hsize_t)n_piece, piece) ||
             error_set(err, "%s cannot be read, the file is damaged", where);
        for (hssize_t i = 0; ok && i < n_piece; i++)
            ok = reader_add(lengths, (double)piece[i]) ||
                 error_set(err, "%s: element %lld (from 0) is %lld: " READER_ALLOWED, where, (long long)(begin + i),
                           (long long)piece[i]);
    }
    free(piece);
    return ok;
}

/**
 * Report that the file does not have the data set, and list those that it has.
 *
 * @return false
 */
static bool refuse_missing(hid_t file, const char *path, const char *name, struct error *err)
{
    struct candidates found = {0};
    if (H5Ovisit2(file, H5_INDEX_NAME, H5_ITER_INC, collect, &found, H5O_INFO_BASIC) < 0 || found.n == 0)
        return error_set(err, "%s: there is no data set '%s', and none of integers in one dimension", path, name);
    return error_set(err, "%s: there is no data set '%s'; its data sets of integers are: %s", path, name, found.all);
}

static bool read_dataset(hid_t file, const char *path, const char *name, struct reader_lengths *lengths,
                         struct error *err)
{
    char where[2048];
    snprintf(where, sizeof where, "%s: data set '%s'", path, name);
    hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT);
    if (dataset < 0)
        return refuse_missing(file, path, name, err);
    bool ok =
        is_integer_list(dataset) || error_set(err, "%s is not supported, only integers in one dimension are", where);
    if (ok) {
        hid_t space = H5Dget_space(dataset);
        ok = space >= 0 ? read_numbers(dataset, space, where, lengths, err) : error_set(err, "%s is damaged", where);
        if (space >= 0)
            H5Sclose(space);
    }
    H5Dclose(dataset);
    return ok;
}

static bool read_file(const char *path, const char *dataset, struct reader_lengths *lengths, struct error *err)
{
    struct candidates found = {0};
    if (!regular_check(path, err))
        return false;
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (file < 0)
        return error_set(err, "%s: cannot be opened as an HDF5 file", path);
    bool ok = dataset[0] != '\0' || choose_dataset(file, path, &found, err);
    dataset = dataset[0] != '\0' ? dataset : found.first;
    snprintf(lengths->part, sizeof lengths->part, "data set '%.100s'", dataset);
    ok = ok && read_dataset(file, path, dataset, lengths, err);
    H5Fclose(file);
    return ok;
}

bool reader_hdf5(const struct reader_choice *choice, struct reader_lengths *lengths, struct error *err)
{
    /* HDF5 would otherwise print its own error stack beside the program's message. */
    H5E_auto2_t print = NULL;
    void *context = NULL;
    H5Eget_auto2(H5E_DEFAULT, &print, &context);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    bool ok = read_file(choice->path, choice->column, lengths, err);
    H5Eset_auto2(H5E_DEFAULT, print, context);
    return ok;
}
