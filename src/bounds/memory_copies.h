/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module lists a rank's copies to the host and back in order, for the memory that the host holds. */
#ifndef SLIMSIM_BOUNDS_MEMORY_COPIES_H
#define SLIMSIM_BOUNDS_MEMORY_COPIES_H

#include <stddef.h>

#include "bounds/critical_path.h"
#include "bounds/memory_pipe.h"

struct memory_copy {
    double start_s, finish_s;
    double bytes;
};

/** Copies of a rank in one direction, in order. */
struct memory_copies {
    struct memory_copy *all; /* the last one never comes: it is at infinity. Owned, reused */
    size_t capacity;
};

/** Return the first task of a stream of a rank, -1: there is none. */
static inline int32_t memory_first_of(const struct dag *dag, int32_t dag_rank, enum dag_stream stream)
{
    return dag->stream_first[dag_rank * DAG_N_STREAMS + (int32_t)stream];
}

/** List all copies of a rank of a pipeline on one of the host's streams, and one that never comes. */
void memory_copies_of(const struct dag *dag, const struct timeline *timeline, const struct memory_pipe *pipe,
                      int32_t dag_rank, enum dag_stream stream, struct memory_copies *copies);

/**
 * Return the largest size of a rank's bytes on the host [bytes]. They are there from the start of a copy out to the end
 * of its copy in.
 */
double memory_copies_host_peak(const struct memory_copies *out, const struct memory_copies *in);

#endif
