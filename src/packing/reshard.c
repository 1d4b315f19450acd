/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "packing/reshard.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "cost/states.h"

/* A layout of all ranks. The rank of (stage, replica, tensor) is (stage dp + replica) tp + tensor. */
struct side {
    int64_t tp, pp, dp;
    const struct scenario_stages *split;
};

/* One slice to be sent. */
struct moved_slice {
    int32_t to, next; /* receiver; next slice of the same sender, -1: none */
    double bytes;
};

/* One switch under construction. */
struct switching {
    const struct cost_setting *setting;
    struct side from, to;
    int64_t n_ranks, n_slices; /* n_slices: of a layer */
    size_t capacity;
    int32_t n_moved;
    struct moved_slice *moved;
    int32_t *first, *last;   /* [n_ranks] first and last slice of each sender; -1: none */
    double *inside, *across; /* [n_ranks] bytes that each has sent (gradients: received) */
};

static void add_moved(struct switching *work, int64_t from, int64_t to, double bytes)
{
    work->moved = check_grow(work->moved, (size_t)work->n_moved, &work->capacity, sizeof *work->moved);
    work->moved[work->n_moved] = (struct moved_slice){(int32_t)to, -1, bytes};
    if (work->first[from] < 0)
        work->first[from] = work->n_moved;
    else
        work->moved[work->last[from]].next = work->n_moved;
    work->last[from] = work->n_moved++;
}

/* Return the stage of a layer. Layers of MTP are behind all others, on the last stage. */
static int64_t stage_of(const struct switching *work, const struct side *side, int32_t layer)
{
    int64_t layers = work->setting->model->layers;
    int32_t stage = 0, end = 0;
    for (; stage < side->pp; stage++) {
        end += scenario_stage_layers(side->split, layers, (int32_t)side->pp, 1, stage);
        if (layer < end)
            break;
    }
    return stage < side->pp ? stage : side->pp - 1;
}

static int64_t rank_of(const struct switching *work, const struct side *side, int64_t stage, int64_t replica,
                       int64_t slice)
{
    return (stage * side->dp + replica) * side->tp + slice * side->tp / work->n_slices;
}

/* Choose a replica of a side that holds a slice of a stage, for `rank`. The order is: itself (-1), one in its NVLink
 * domain with the least of `inside`, any with the least of `across`. */
static int64_t partner_of(const struct switching *work, const struct side *side, int64_t stage, int64_t slice,
                          int64_t rank)
{
    const struct platform *platform = work->setting->platform;
    int64_t near = -1, far = -1;
    for (int64_t replica = 0; replica < side->dp; replica++) {
        int64_t other = rank_of(work, side, stage, replica, slice);
        if (other == rank)
            return -1;
        if (platform_same_domain(platform, (int32_t)other, (int32_t)rank)) {
            if (near < 0 || work->inside[other] < work->inside[near])
                near = other;
        } else if (far < 0 || work->across[other] < work->across[far]) {
            far = other;
        }
    }
    return near >= 0 ? near : far;
}

/* Move one component of the model, of `bytes` in all, from a stage to a stage. forward: each rank of `to` gets every
 * slice that it needs. Otherwise each rank of `from` sends away every slice that it has. */
static void move(struct switching *work, int64_t from_stage, int64_t to_stage, double bytes, bool forward)
{
    const struct side *mine = forward ? &work->to : &work->from, *theirs = forward ? &work->from : &work->to;
    int64_t my_stage = forward ? to_stage : from_stage, their_stage = forward ? from_stage : to_stage;
    for (int64_t slice = 0; slice < work->n_slices; slice++)
        for (int64_t replica = 0; replica < mine->dp; replica++) {
            int64_t rank = rank_of(work, mine, my_stage, replica, slice);
            int64_t other = partner_of(work, theirs, their_stage, slice, rank);
            if (other < 0)
                continue;
            bool near = platform_same_domain(work->setting->platform, (int32_t)other, (int32_t)rank);
            double slice_bytes = bytes / (double)work->n_slices;
            (near ? work->inside : work->across)[other] += slice_bytes;
            add_moved(work, forward ? other : rank, forward ? rank : other, slice_bytes);
        }
}

/* Return the parameters of the last stage besides its layers. A stage of all layers already has tied embeddings. */
static double last_parameters(const struct switching *work, bool forward)
{
    const struct model *model = work->setting->model;
    bool single_stage = (forward ? work->to.pp : work->from.pp) == 1;
    return cost_ends_parameters(model, 1, single_stage, true) -
           (single_stage ? cost_ends_parameters(model, 1, true, false) : 0);
}

static void move_all(struct switching *work, double bytes, bool forward)
{
    const struct model *model = work->setting->model;
    struct cost_setting whole = {.model = model, .tensor = 1};
    double first = cost_ends_parameters(model, 1, true, false);
    double last = last_parameters(work, forward);
    for (int64_t i = 0; i < work->n_ranks; i++)
        work->inside[i] = work->across[i] = 0;
    move(work, 0, 0, first * bytes, forward);
    for (int32_t i = 0; i < model->layers + model->mtp_layers; i++) {
        cost_hold_layers(&whole, i, 1);
        move(work, stage_of(work, &work->from, i), stage_of(work, &work->to, i), cost_layers_parameters(&whole) * bytes,
             forward);
    }
    move(work, work->from.pp - 1, work->to.pp - 1, last * bytes, forward);
}

static int64_t common_multiple(int64_t a, int64_t b)
{
    int64_t n = a;
    while (n % b != 0)
        n += a;
    return n;
}

/* Messages of one kind of route while their order is computed. */
struct ordering {
    int32_t n_ranks;
    double *sends, *receives;  /* [n_ranks] bytes until it is free */
    struct plan_reshard *left; /* remaining messages by sender, those to the next ranks first */
    int32_t *begin, *n;        /* [n_ranks] range of a sender in `left`: begin and length */
    int32_t *first;            /* [n_ranks] the one of these that can begin first */
    double *at;                /* [n_ranks] begin of that message; DBL_MAX: none is left */
};

static double begin_of(const struct ordering *order, const struct plan_reshard *message)
{
    double sends = order->sends[message->from_rank], receives = order->receives[message->to_rank];
    return sends > receives ? sends : receives;
}

/* Find the message of a sender that can begin first. Ties: to the next rank. */
static void find_first(struct ordering *order, int32_t from)
{
    order->at[from] = DBL_MAX;
    for (int32_t i = 0; i < order->n[from] && order->at[from] > order->sends[from]; i++) {
        double at = begin_of(order, &order->left[order->begin[from] + i]);
        if (at < order->at[from]) {
            order->at[from] = at;
            order->first[from] = i;
        }
    }
}

static void open_ordering(const struct switching *work, const struct reshard_messages *all, bool near,
                          struct ordering *order)
{
    int32_t n_left = 0;
    for (int32_t from = 0, i = 0; from < order->n_ranks; from++) {
        order->begin[from] = n_left;
        for (; i < all->n && all->message[i].from_rank == from; i++)
            if (platform_same_domain(work->setting->platform, from, all->message[i].to_rank) == near)
                order->left[n_left++] = all->message[i];
        order->n[from] = n_left - order->begin[from];
        find_first(order, from);
    }
}

static struct plan_reshard *first_of(const struct ordering *order, int32_t from)
{
    return &order->left[order->begin[from] + order->first[from]];
}

/* Return the sender of the message that can begin first. Ties: to the next rank, then from the lowest. -1: none is
 * left. */
static int32_t next_sender(const struct ordering *order)
{
    int32_t sender = -1, nearest = 0, n = order->n_ranks;
    double begin = DBL_MAX;
    for (int32_t from = 0; from < n; from++) {
        if (order->at[from] > begin || order->at[from] == DBL_MAX)
            continue;
        int32_t away = (first_of(order, from)->to_rank - from + n) % n;
        if (order->at[from] == begin && away >= nearest)
            continue;
        begin = order->at[from];
        nearest = away;
        sender = from;
    }
    return sender;
}

static struct plan_reshard take_message(struct ordering *order, int32_t sender)
{
    struct plan_reshard *at = first_of(order, sender), taken = *at;
    order->sends[sender] = order->receives[taken.to_rank] = order->at[sender] + taken.bytes;
    order->n[sender]--;
    memmove(at, at + 1, (size_t)(order->n[sender] - order->first[sender]) * sizeof *at);
    find_first(order, sender);
    for (int32_t from = 0; from < order->n_ranks; from++) /* no other first message can begin later now */
        if (order->at[from] < DBL_MAX && first_of(order, from)->to_rank == taken.to_rank)
            find_first(order, from);
    return taken;
}

/*
 * Take the messages inside NVLink domains, or those across, each time the one that can begin first.
 *
 * @return the end of the messages taken
 */
static struct plan_reshard *take_reshards(const struct switching *work, const struct reshard_messages *all, bool near,
                                          struct plan_reshard *taken)
{
    size_t n = (size_t)work->n_ranks;
    struct ordering order = {.n_ranks = (int32_t)n,
                             .sends = check_calloc(n, sizeof(double)),
                             .receives = check_calloc(n, sizeof(double)),
                             .left = check_calloc((size_t)all->n, sizeof *order.left),
                             .begin = check_calloc(n, sizeof *order.begin),
                             .n = check_calloc(n, sizeof *order.n),
                             .first = check_calloc(n, sizeof *order.first),
                             .at = check_calloc(n, sizeof *order.at)};
    open_ordering(work, all, near, &order);
    for (int32_t sender; (sender = next_sender(&order)) >= 0;)
        *taken++ = take_message(&order, sender);
    free(order.sends);
    free(order.receives);
    free(order.left);
    free(order.begin);
    free(order.n);
    free(order.first);
    free(order.at);
    return taken;
}

/* Join all slices of a pair of ranks into one message, by sender, those to the next ranks first. */
static struct reshard_messages join_slices(const struct switching *work)
{
    struct reshard_messages all = {0};
    size_t capacity = 0;
    int32_t n = (int32_t)work->n_ranks;
    double *bytes = check_calloc((size_t)n, sizeof *bytes); /* bytes to each rank */
    for (int32_t from = 0; from < n; from++) {
        for (int32_t i = work->first[from]; i >= 0; i = work->moved[i].next)
            bytes[work->moved[i].to] += work->moved[i].bytes;
        for (int32_t away = 0; work->first[from] >= 0 && away < n; away++) {
            int32_t to = (from + away) % n;
            if (bytes[to] <= 0)
                continue;
            all.message = check_grow(all.message, (size_t)all.n, &capacity, sizeof *all.message);
            all.message[all.n++] = (struct plan_reshard){from, to, bytes[to]};
            bytes[to] = 0;
        }
    }
    free(bytes);
    return all;
}

/* Plan the messages of a switch. */
static void plan_messages(struct switching *work, bool gradients, struct reshard_messages *messages)
{
    size_t n = (size_t)work->n_ranks;
    work->first = check_malloc(n * sizeof *work->first);
    work->last = check_malloc(n * sizeof *work->last);
    work->inside = check_malloc(n * sizeof *work->inside);
    work->across = check_malloc(n * sizeof *work->across);
    for (size_t i = 0; i < n; i++)
        work->first[i] = -1;
    move_all(work, 2, true);
    if (gradients)
        move_all(work, cost_precisions(work->setting).gradient, false);
    struct reshard_messages all = join_slices(work);
    messages->n = all.n;
    messages->message = check_calloc((size_t)all.n, sizeof *messages->message);
    take_reshards(work, &all, false, take_reshards(work, &all, true, messages->message));
    free(all.message);
    free(work->moved);
    free(work->first);
    free(work->last);
    free(work->inside);
    free(work->across);
}

/* Return the messages of a switch that the memory has. Otherwise return a new entry. */
static struct reshard_messages *find_messages(struct reshard_memory *memory, const struct reshard_messages *wanted)
{
    for (int32_t i = 0; i < memory->n; i++) {
        struct reshard_messages *known = &memory->planned[i];
        if (known->from_tp == wanted->from_tp && known->from_pp == wanted->from_pp && known->to_tp == wanted->to_tp &&
            known->to_pp == wanted->to_pp && known->gradients == wanted->gradients)
            return known;
    }
    memory->planned = check_grow(memory->planned, (size_t)memory->n, &memory->capacity, sizeof *memory->planned);
    memory->planned[memory->n] = *wanted;
    return &memory->planned[memory->n++];
}

void reshard_plan(const struct cost_setting *setting, const struct scenario_plan *from, const struct scenario_plan *to,
                  bool gradients, struct reshard_memory *memory, struct plan_phase *phase)
{
    struct switching work = {.setting = setting,
                             .from = {from->tp, from->pp, from->dp, &from->stages},
                             .to = {to->tp, to->pp, to->dp, &to->stages},
                             .n_ranks = from->tp * from->pp * from->dp,
                             .n_slices = common_multiple(from->tp, to->tp)};
    CHECK(from->cp == 1 && to->cp == 1 && work.n_ranks == to->tp * to->pp * to->dp);
    if (from->tp == to->tp && from->pp == to->pp)
        return;
    struct reshard_messages *messages =
        find_messages(memory, &(struct reshard_messages){from->tp, from->pp, to->tp, to->pp, gradients, 0, NULL});
    if (messages->message == NULL)
        plan_messages(&work, gradients, messages);
    phase->n_reshards = messages->n;
    phase->reshards = check_calloc((size_t)messages->n, sizeof *phase->reshards);
    memcpy(phase->reshards, messages->message, (size_t)messages->n * sizeof *phase->reshards);
}

void reshard_forget(struct reshard_memory *memory)
{
    for (int32_t i = 0; i < memory->n; i++)
        free(memory->planned[i].message);
    free(memory->planned);
    *memory = (struct reshard_memory){0};
}
