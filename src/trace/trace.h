/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Results in HDF5 (design section 7): written to a temporary name, complete before they get the final one. */
#ifndef SLIMSIM_TRACE_TRACE_H
#define SLIMSIM_TRACE_TRACE_H

#include "base/error.h"
#include <stdint.h>

*of them.* /

    struct trace; /* an HDF5 file being written */

/** Open NAME.h5's temporary file in `directory`. */
struct trace *trace_create(const char *directory, const char *name, struct error *err);

#endif
