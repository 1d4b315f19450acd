/* SPDX-License-Identifier: GPL-3.0-or-later */
/** What writer and reader of traces share of HDF5. */
#ifndef SLIMSIM_TRACE_HDF5_TYPE_H
#define SLIMSIM_TRACE_HDF5_TYPE_H

#include <hdf5.h>
#include <stdbool.h>

#include "trace/table.h"

/** Stop HDF5 from printing its error stack. */
void hdf5_quiet(void);

/** An id or status that HDF5 returned is not a failure. Remembers the reason of one. */
bool hdf5_ok(int64_t result);

/** Why the last call given to hdf5_ok failed, in the operating system's words where there are some. Static storage. */
const char *hdf5_reason(void);

/** A column of numbers as it is in memory: native. Not to be closed. */
hid_t hdf5_memory_type(enum trace_type type);

/** Text of fixed length, UTF-8, padded with NUL. To be closed. */
hid_t hdf5_text_type(size_t bytes);

/** A row of the table as HDF5 sees it, in memory or (packed) in the file. To be closed. */
hid_t hdf5_row_type(const struct trace_table *table, bool in_file);

/** Open a file in memory, which is copied, for reading. @return a negative number where it is none */
hid_t hdf5_open_image(void *image, size_t n_bytes);

#endif
