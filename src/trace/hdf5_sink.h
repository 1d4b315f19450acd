/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * An HDF5 driver that writes into an open file and tells HDF5 of no failure.
 *
 * HDF5 1.10.8 dies with SIGSEGV after some failed writes, as in H5Ocopy. This driver remembers why a write failed. What
 * it cannot write from then on, it keeps in memory, so that HDF5 can read it back and close the file.
 */
#ifndef SLIMSIM_TRACE_HDF5_SINK_H
#define SLIMSIM_TRACE_HDF5_SINK_H

#include <hdf5.h>

/** Where the bytes go. It lives until the HDF5 file is closed. */
struct hdf5_sink {
    int descriptor; /* of an empty file, open for reading and writing; the caller closes it */
    int reason;     /* errno of the first write that failed; 0: none. The file is worthless then */
};

/** Let files that are created with this access list be written into the sink, whatever their name. */
void hdf5_sink_use(hid_t access, struct hdf5_sink *sink);

#endif
