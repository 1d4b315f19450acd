/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * This file checks that slimsim could have written a trace in memory. Another program may have written the journal that
 * holds it.
 */
#include "trace/trace.h"

#include "trace/hdf5_type.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_INFLATED = 1032 }; /* largest number of bytes that one byte of deflate can become */

static const char *const text_sets[] = {"systems",   "assumed",         "ranking",    "verdict",
                                        "would_fit", "faster_settings", "model_range"};

/* Return whether the file has room for the elements. They have a fixed size of at least one byte. */
static bool size_fits(hid_t type, hid_t space, size_t most_bytes)
{
    hssize_t n = H5Sget_simple_extent_npoints(space);
    size_t each = H5Tget_size(type);
    return n >= 0 && each > 0 && (size_t)n <= most_bytes / each;
}

/* Check that an attribute is a text of fixed length, or 64-bit integers. */
static herr_t check_attribute(hid_t object, const char *name, const H5A_info_t *info, void *context)
{
    size_t n_bytes = *(const size_t *)context;
    hid_t attribute = H5Aopen(object, name, H5P_DEFAULT);
    (void)info;
    if (attribute < 0)
        return -1;
    hid_t type = H5Aget_type(attribute), space = H5Aget_space(attribute);
    bool text = H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) == 0;
    bool fits = (text || H5Tequal(type, H5T_NATIVE_INT64) > 0) && size_fits(type, space, n_bytes);
    H5Sclose(space);
    H5Tclose(type);
    H5Aclose(attribute);
    return fits ? 0 : -1;
}

static bool attributes_fit(hid_t object, size_t n_bytes)
{
    return H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_NATIVE, NULL, check_attribute, &n_bytes) >= 0;
}

/* Check that texts have a fixed length and are in the file itself. */
static bool texts_fit(hid_t type, hid_t space, hid_t creation, size_t n_bytes)
{
    return H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) == 0 &&
           H5Pget_layout(creation) == H5D_CONTIGUOUS && H5Pget_external_count(creation) == 0 &&
           size_fits(type, space, n_bytes);
}

/* Check that rows have the table's type and are in chunks with its filters. */
static bool rows_fit(const struct trace_table *table, hid_t type, hid_t space, hid_t creation, size_t n_bytes)
{
    static const H5Z_filter_t filters[] = {H5Z_FILTER_SHUFFLE, H5Z_FILTER_DEFLATE, H5Z_FILTER_FLETCHER32};
    enum { N_FILTERS = sizeof filters / sizeof *filters };
    hsize_t chunk = 0;
    bool fit = H5Pget_layout(creation) == H5D_CHUNKED && H5Pget_chunk(creation, 1, &chunk) == 1 &&
               chunk <= TRACE_CHUNK_ROWS && H5Pget_nfilters(creation) == N_FILTERS;
    for (unsigned i = 0; i < N_FILTERS && fit; i++)
        fit = H5Pget_filter2(creation, i, NULL, &(size_t){0}, NULL, 0, NULL, NULL) == filters[i];
    hid_t expected = hdf5_row_type(table, true);
    fit = fit && H5Tequal(type, expected) > 0 && size_fits(type, space, MOST_INFLATED * n_bytes);
    H5Tclose(expected);
    return fit;
}

static bool is_text_set(const char *name)
{
    for (size_t i = 0; i < sizeof text_sets / sizeof *text_sets; i++)
        if (strcmp(name, text_sets[i]) == 0)
            return true;
    return false;
}

static bool dataset_fits(hid_t dataset, const char *name, size_t n_bytes)
{
    int32_t table = trace_table_find(name);
    hid_t type = H5Dget_type(dataset), space = H5Dget_space(dataset), creation = H5Dget_create_plist(dataset);
    bool fits = H5Sget_simple_extent_ndims(space) == 1 && attributes_fit(dataset, n_bytes);
    if (table >= 0)
        fits = fits && rows_fit(&trace_tables[table], type, space, creation, n_bytes);
    else
        fits = fits && is_text_set(name) && texts_fit(type, space, creation, n_bytes);
    H5Pclose(creation);
    H5Sclose(space);
    H5Tclose(type);
    return fits;
}

/* Check that a member of the root is a data set of this file, and no link to another one. */
static bool member_fits(hid_t root, hsize_t number, size_t n_bytes)
{
    char name[32];
    H5L_info_t link;
    ssize_t length = H5Lget_name_by_idx(root, ".", H5_INDEX_NAME, H5_ITER_INC, number, name, sizeof name, H5P_DEFAULT);
    if (length <= 0 || length >= (ssize_t)sizeof name || H5Lget_info(root, name, &link, H5P_DEFAULT) < 0 ||
        link.type != H5L_TYPE_HARD)
        return false;
    hid_t dataset = H5Dopen2(root, name, H5P_DEFAULT);
    bool fits = dataset >= 0 && dataset_fits(dataset, name, n_bytes);
    if (dataset >= 0)
        H5Dclose(dataset);
    return fits;
}

static bool members_fit(hid_t root, size_t n_bytes)
{
    H5G_info_t group;
    bool fit = attributes_fit(root, n_bytes) && H5Gget_info(root, &group) >= 0;
    for (hsize_t i = 0; fit && i < group.nlinks; i++)
        fit = member_fits(root, i, n_bytes);
    return fit;
}

/** It names the visited table and its file. */
struct visited {
    const struct trace_reader *reader;
    const struct trace_table *table;
};

static bool visit(void *context, const void *row, struct error *err)
{
    const struct visited *visited = context;
    return trace_row_fits(visited->table, row, trace_n_systems(visited->reader)) ||
           error_set(err, "a number is out of its range");
}

bool trace_image_fits(void *image, size_t n_bytes)
{
    struct error err = {0};
    hdf5_quiet();
    hid_t file = hdf5_open_image(image, n_bytes);
    bool fits = file >= 0 && members_fit(file, n_bytes);
    if (file >= 0)
        H5Fclose(file);
    struct trace_reader *reader = fits ? trace_open_image(image, n_bytes, &err) : NULL;
    fits = reader != NULL;
    for (int32_t t = 0; t < TRACE_N_TABLES && fits; t++)
        fits = trace_visit(reader, (enum trace_table_id)t, visit, &(struct visited){reader, &trace_tables[t]}, &err);
    trace_reader_close(reader);
    return fits;
}
