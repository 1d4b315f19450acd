/* SPDX-License-Identifier: GPL-3.0-or-later */
/** The DAG as its streams walk it: the tasks of each stream in order, and who waits for whom across streams. */
#ifndef SLIMSIM_EXECUTE_QUEUES_H
#define SLIMSIM_EXECUTE_QUEUES_H

#include "dag/dag.h"

struct queues {
    int32_t n_streams;     /* with and without tasks */
    int32_t *stream_first; /* [n_streams + 1] into stream_task */
    int32_t *stream_task;  /* [n_tasks] ascending in each stream */
    int32_t *out_first;    /* [n_tasks + 1] into out_task */
    int32_t *out_task;     /* successors: on other streams one for each edge, on its own the next task */
    int32_t *n_waits;      /* [n_tasks] of how many tasks it is a successor */
};

/** Edges inside a stream are dropped for those of the stream's own order, which keeps them. */
void queues_build(const struct dag *dag, struct queues *queues);

void queues_free(struct queues *queues);

#endif
