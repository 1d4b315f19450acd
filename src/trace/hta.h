/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module writes a trace as the JSON of PyTorch's profiler, a file for each rank. Holistic Trace Analysis (HTA)
 * reads a folder of them.
 *
 * 1. A file has `distributedInfo` with `rank` and `world_size`, by which HTA finds the ranks.
 * 2. An event has `ph` X, `cat`, `name`, `pid`, `tid`, `ts`, `dur` and `args` with `device` and `stream`. Streams count
 *    from 7, PyTorch's own for kernels. HTA takes an event for a kernel if its stream is above 0.
 * 3. Names say what HTA takes an event for: ncclKernel... is communication, Memcpy... memory, all else computation.
 * They begin as in NCCL before 2.19, since HTA's search for stragglers knows no others.
 * 4. In brackets stands what a transfer is for. The number of the micro-batch is in `args`, so that HTA adds up all.
 * 5. There are no events of hosts: no launches and no ProfilerStep. HTA then keeps all events of the file.
 *
 * Sources: hta/utils/utils.py (get_kernel_type), hta/common/trace_file.py and trace.py, hta/analyzers/straggler.py of
 * github.com/facebookresearch/HolisticTraceAnalysis, and its issues 208, 247 and 360.
 */
#ifndef SLIMSIM_TRACE_HTA_H
#define SLIMSIM_TRACE_HTA_H

#include "trace/trace.h"

/** Write FOLDER/rank-R.json for each GPU R with tasks of a system. The folder exists and must be empty, since HTA reads
 * all files in it. A trace without tasks is an error. */
bool hta_write(struct trace_reader *reader, int32_t system, const char *folder, struct error *err);

#endif
