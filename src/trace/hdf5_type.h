/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module has the calls of HDF5 that the writer and the reader of traces share. */
#ifndef SLIMSIM_TRACE_HDF5_TYPE_H
#define SLIMSIM_TRACE_HDF5_TYPE_H

#include <hdf5.h>
#include <stdbool.h>

#include "trace/table.h"

/** Stop HDF5 from printing its error stack. */
void hdf5_quiet(void);

/** Return whether an id or status of HDF5 is no failure. The reason of a failure is remembered. */
bool hdf5_ok(int64_t result);

/** Return why the last call given to hdf5_ok failed, if possible in the operating system's words. Storage is static. */
const char *hdf5_reason(void);

/** Return whether the reason is that HDF5 got no memory. A damaged file that is read may ask for too much, too. */
bool hdf5_no_memory(void);

/** This is CHECK for calls of HDF5. Without memory they fail, which is no bug. */
#define HDF5_CHECK(condition) ((condition) ? (void)0 : hdf5_check_failed(#condition, __FILE__, __LINE__))

_Noreturn void hdf5_check_failed(const char *condition, const char *file, int line);

/** Return the native type of a column of numbers in memory. It must not be closed. */
hid_t hdf5_memory_type(enum trace_type type);

/** Return the type of a text of fixed length, UTF-8, padded with NUL. The caller closes it. */
hid_t hdf5_text_type(size_t bytes);

/** Insert a column into a type of rows. @param number  its type unless it is a text */
void hdf5_insert(hid_t row_type, const struct trace_column *column, hid_t number);

/** Return the type of a row of the table, in memory or (packed) in the file. The caller closes it. */
hid_t hdf5_row_type(const struct trace_table *table, bool in_file);

/** Open a copy of a file in memory for reading. @return a negative number if it is no HDF5 file */
hid_t hdf5_open_image(void *image, size_t n_bytes);

#endif
