/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "execute/events.h"

#include <stdlib.h>

#include "base/check.h"

static bool is_before(const struct event *a, const struct event *b)
{
    if (a->time_s != b->time_s)
        return a->time_s < b->time_s;
    return a->begins != b->begins ? b->begins : a->task < b->task;
}

void events_add(struct events *events, struct event event)
{
    events->heap = check_grow(events->heap, events->n, &events->capacity, sizeof *events->heap);
    size_t at = events->n++;
    for (size_t above; at > 0 && is_before(&event, &events->heap[above = (at - 1) / 2]); at = above)
        events->heap[at] = events->heap[above];
    events->heap[at] = event;
}

struct event events_take(struct events *events)
{
    CHECK(events->n > 0);
    struct event *heap = events->heap, first = heap[0], last = heap[--events->n];
    size_t at = 0, below = 1;
    while (below < events->n) {
        below += below + 1 < events->n && is_before(&heap[below + 1], &heap[below]);
        if (!is_before(&heap[below], &last))
            break;
        heap[at] = heap[below];
        at = below;
        below = 2 * at + 1;
    }
    heap[at] = last;
    return first;
}

void events_free(struct events *events)
{
    free(events->heap);
    *events = (struct events){0};
}
