/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Transfers on SimGrid that share links: one actor for each that goes on at a time. */
#ifndef SLIMSIM_EXECUTE_SENDERS_H
#define SLIMSIM_EXECUTE_SENDERS_H

#include <simgrid/forward.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sender;

/** All but senders_open is for one actor of SimGrid's, the one that sends. */
struct senders {
    struct sender *idle; /* a list */
    int32_t n_sending;
    int32_t *ended; /* ids, waiting to be taken */
    size_t n_ended, capacity;
    sg_sem_t end; /* released when one ends */
};

void senders_open(struct senders *senders);

/** Send from SimGrid's clock on. */
void senders_send(struct senders *senders, sg_host_t from, sg_host_t to, double bytes, int32_t id);

/** Let SimGrid go on until a transfer ends, or for so long (INFINITY: no matter how long). @return false: so long */
bool senders_wait(struct senders *senders, double seconds);

/** Take the id of one that has ended since. @return false: there is none */
bool senders_take(struct senders *senders, int32_t *id);

/** When none sends: the actors end. */
void senders_close(struct senders *senders);

#endif
