/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "trace/hdf5_type.h"

#include "base/check.h"

#include <stdio.h>
#include <string.h>

/*
 * A process that ends during a run need not write its files. This must be HDF5's first call, so it
 * comes before main.
 */
__attribute__((constructor)) static void forbid_closing_at_exit(void)
{
    H5dont_atexit();
}

void hdf5_quiet(void)
{
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
}

/* There is one for the process, like HDF5's own error stack. A call that runs out of memory may leave HDF5 in a state
 * in which later ones fail for other reasons, so it stays. */
static char reason[256];
static bool no_memory;

/*
 * Take the reason of a failure. Drivers quote errno as "... error message = 'No space left on device', ...". The
 * innermost entry comes first.
 */
static herr_t take_reason(unsigned depth, const H5E_error2_t *entry, void *context)
{
    (void)context;
    static const char mark[] = "error message = '";
    if (depth == 0)
        no_memory = no_memory || entry->min_num == H5E_NOSPACE || entry->min_num == H5E_CANTALLOC;
    const char *begin = entry->desc == NULL ? NULL : strstr(entry->desc, mark);
    if (begin != NULL) {
        begin += sizeof mark - 1;
        snprintf(reason, sizeof reason, "%.*s", (int)strcspn(begin, "'"), begin);
        return 1;
    }
    if (depth == 0 && entry->desc != NULL)
        snprintf(reason, sizeof reason, "%s", entry->desc);
    return 0;
}

bool hdf5_ok(int64_t result)
{
    if (result >= 0)
        return true;
    snprintf(reason, sizeof reason, "HDF5 failed");
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_reason, NULL);
    return false;
}

const char *hdf5_reason(void)
{
    return reason;
}

bool hdf5_no_memory(void)
{
    return no_memory;
}

void hdf5_check_failed(const char *condition, const char *file, int line)
{
    hdf5_ok(-1);
    if (no_memory)
        check_out_of_memory("HDF5");
    check_failed(condition, file, line);
}

hid_t hdf5_memory_type(enum trace_type type)
{
    if (type == TRACE_INT32)
        return H5T_NATIVE_INT32;
    return type == TRACE_INT64 ? H5T_NATIVE_INT64 : H5T_NATIVE_DOUBLE;
}

/** Return the type of a column of numbers in the file, which is little endian. */
static hid_t file_type(enum trace_type type)
{
    if (type == TRACE_INT32)
        return H5T_STD_I32LE;
    return type == TRACE_INT64 ? H5T_STD_I64LE : H5T_IEEE_F64LE;
}

hid_t hdf5_text_type(size_t bytes)
{
    hid_t type = H5Tcopy(H5T_C_S1);
    HDF5_CHECK(type >= 0 && H5Tset_size(type, bytes > 0 ? bytes : 1) >= 0);
    HDF5_CHECK(H5Tset_cset(type, H5T_CSET_UTF8) >= 0 && H5Tset_strpad(type, H5T_STR_NULLPAD) >= 0);
    return type;
}

void hdf5_insert(hid_t row_type, const struct trace_column *column, hid_t number)
{
    hid_t text = column->type == TRACE_TEXT ? hdf5_text_type(column->bytes) : -1;
    HDF5_CHECK(H5Tinsert(row_type, column->name, column->offset, text >= 0 ? text : number) >= 0);
    if (text >= 0)
        H5Tclose(text);
}

hid_t hdf5_row_type(const struct trace_table *table, bool in_file)
{
    hid_t type = H5Tcreate(H5T_COMPOUND, table->row_bytes);
    HDF5_CHECK(type >= 0);
    for (int32_t c = 0; c < table->n_columns; c++) {
        const struct trace_column *column = &table->columns[c];
        hdf5_insert(type, column, in_file ? file_type(column->type) : hdf5_memory_type(column->type));
    }
    HDF5_CHECK(!in_file || H5Tpack(type) >= 0);
    return type;
}

hid_t hdf5_open_image(void *image, size_t n_bytes)
{
    enum { GROWTH_BYTES = 1 << 16 };
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    HDF5_CHECK(access >= 0 && H5Pset_fclose_degree(access, H5F_CLOSE_STRONG) >= 0);
    HDF5_CHECK(H5Pset_fapl_core(access, GROWTH_BYTES, false) >= 0 && H5Pset_file_image(access, image, n_bytes) >= 0);
    hid_t file = H5Fopen("trace", H5F_ACC_RDONLY, access);
    hdf5_ok(file);
    H5Pclose(access);
    return file;
}
