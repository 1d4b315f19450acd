/* SPDX-License-Identifier: GPL-3.0-or-later */
/** A dag_rank's copies to the host and back in their order: what bounds/memory.h frees and allocates by them. */
#ifndef SLIMSIM_BOUNDS_MEMORY_COPIES_H
#define SLIMSIM_BOUNDS_MEMORY_COPIES_H

#include <stddef.h>

#include "bounds/critical_path.h"
#include "bounds/memory_pipe.h"

struct memory_copy {
    double start_s, finish_s;
    double host_bytes; /* what the host has of it */
    double bytes;      /* that it frees or takes on the GPU: none if it streams */
};

/** Those of a dag_rank one way, in their order. */
struct memory_copies {
    struct memory_copy *all; /* the last one never comes: at infinity. Owned, used again */
    size_t capacity;
};

/** First task of a stream of a dag_rank, -1: there is none. */
static inline int32_t memory_first_of(const struct dag *dag, int32_t dag_rank, enum dag_stream stream)
{
    return dag->stream_first[dag_rank * DAG_N_STREAMS + (int32_t)stream];
}

/** All copies of a dag_rank of a pipeline on one of the host's streams, and one that never comes. */
void memory_copies_of(const struct dag *dag, const struct timeline *timeline, const struct memory_pipe *pipe,
                      int32_t dag_rank, enum dag_stream stream, struct memory_copies *copies);

/** The most that a dag_rank has on the host: from the start of each copy out to the end of each copy in [bytes]. */
double memory_copies_host_peak(const struct memory_copies *out, const struct memory_copies *in);

#endif
