/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module is an HDF5 driver that writes into an open file and hides failures from HDF5.
 *
 * HDF5 1.10.8 dies with SIGSEGV after some failed writes, for example in H5Ocopy. This driver remembers the reason of
 * the first failure. From then on it keeps unwritten bytes in memory, so that HDF5 can read them back and close the
 * file.
 */
#ifndef SLIMSIM_TRACE_HDF5_SINK_H
#define SLIMSIM_TRACE_HDF5_SINK_H

#include <hdf5.h>

/** A sink receives the bytes. It must exist until the HDF5 file is closed. */
struct hdf5_sink {
    int descriptor; /* of an empty file, open for reading and writing; the caller closes it */
    int reason;     /* errno of the first write that failed; 0: none. The file is worthless then */
};

/** Let files that are created with this access list be written into the sink. Their names do not matter. */
void hdf5_sink_use(hid_t access, struct hdf5_sink *sink);

#endif
