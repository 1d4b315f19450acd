/* SPDX-License-Identifier: GPL-3.0-or-later */
/** What happens next: a binary heap. */
#ifndef SLIMSIM_EXECUTE_EVENTS_H
#define SLIMSIM_EXECUTE_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** A transfer's bytes begin to flow, or end. */
struct event {
    double time_s;
    int32_t task;
    bool begins;
};

struct events {
    struct event *heap;
    size_t n, capacity;
};

void events_add(struct events *events, struct event event);

/** The earliest, of equal ones an end, then the lowest task; there must be one. */
struct event events_take(struct events *events);

void events_free(struct events *events);

#endif
