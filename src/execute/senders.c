/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "execute/senders.h"

#include <math.h>
#include <simgrid/actor.h>
#include <simgrid/host.h>
#include <simgrid/semaphore.h>
#include <stdlib.h>

#include "base/check.h"
#include "execute/cluster.h"

/* What an actor works on. All actors run in one thread, one at a time between calls of SimGrid: nothing needs a lock.
 */
struct sender {
    struct senders *senders;
    struct sender *next_idle;
    sg_sem_t go;
    sg_host_t from, to; /* from NULL: end */
    double parts;       /* of bytes */
    int32_t id;
};

static void send(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    struct sender *sender = sg_actor_self_get_data();
    struct senders *senders = sender->senders;
    while (sender->from != NULL) {
        sg_host_sendto(sender->from, sender->to, sender->parts);
        senders->ended = check_grow(senders->ended, senders->n_ended, &senders->capacity, sizeof *senders->ended);
        senders->ended[senders->n_ended++] = sender->id;
        senders->n_sending--;
        sender->next_idle = senders->idle;
        senders->idle = sender;
        if (senders->n_ended == 1)
            sg_sem_release(senders->end);
        sg_sem_acquire(sender->go);
    }
    sg_sem_destroy(sender->go);
    free(sender);
}

void senders_open(struct senders *senders)
{
    *senders = (struct senders){.end = sg_sem_init(0)};
}

void senders_send(struct senders *senders, sg_host_t from, sg_host_t to, double bytes, int32_t id)
{
    struct sender *sender = senders->idle;
    bool is_new = sender == NULL;
    if (is_new) {
        sender = check_malloc(sizeof *sender);
        *sender = (struct sender){.senders = senders, .go = sg_sem_init(0)};
    } else {
        senders->idle = sender->next_idle;
    }
    sender->from = from;
    sender->to = to;
    sender->parts = round(bytes * CLUSTER_PARTS_OF_BYTE);
    sender->id = id;
    senders->n_sending++;
    if (is_new) {
        sg_actor_t actor = sg_actor_init("sender", from);
        sg_actor_set_data(actor, sender);
        sg_actor_start(actor, send, 0, NULL);
    } else {
        sg_sem_release(sender->go);
    }
}

bool senders_wait(struct senders *senders, double seconds)
{
    if (isfinite(seconds))
        return sg_sem_acquire_timeout(senders->end, seconds) == 0;
    sg_sem_acquire(senders->end);
    return true;
}

bool senders_take(struct senders *senders, int32_t *id)
{
    if (senders->n_ended == 0)
        return false;
    *id = senders->ended[--senders->n_ended];
    return true;
}

void senders_close(struct senders *senders)
{
    CHECK(senders->n_sending == 0);
    while (senders->idle != NULL) {
        struct sender *sender = senders->idle;
        senders->idle = sender->next_idle;
        sender->from = NULL;
        sg_sem_release(sender->go);
    }
    sg_sem_destroy(senders->end);
    free(senders->ended);
}
