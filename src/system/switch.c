/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "system/switch.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

/* A layout of all ranks: rank of (stage, replica, tensor) = (stage dp + replica) tp + tensor. */
struct side {
    int64_t tp, pp, dp;
    const struct scenario_stages *split;
};

/* One switch under construction. */
struct switching {
    const struct cost_setting *setting;
    struct side from, to;
    int64_t n_ranks, n_slices; /* of a layer */
    double *bytes;             /* [n_ranks][n_ranks] from, to */
    double *inside, *across;   /* [n_ranks] what each has sent (gradients: received) */
};

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

/* Of the replicas of a side that hold a slice of a stage the one for `rank`: itself, else of its node, else any; each
 * with the least of `inside` or `across`. -1: itself. */
static int64_t partner_of(const struct switching *work, const struct side *side, int64_t stage, int64_t slice,
                          int64_t rank)
{
    const struct platform *platform = work->setting->platform;
    int64_t near = -1, far = -1;
    for (int64_t replica = 0; replica < side->dp; replica++) {
        int64_t other = rank_of(work, side, stage, replica, slice);
        if (other == rank)
            return -1;
        if (platform_same_node(platform, (int32_t)other, (int32_t)rank)) {
            if (near < 0 || work->inside[other] < work->inside[near])
                near = other;
        } else if (far < 0 || work->across[other] < work->across[far]) {
            far = other;
        }
    }
    return near >= 0 ? near : far;
}

/* One part of the model: of `bytes` in all on a stage of each side. forward: each rank of `to` gets every slice that it
 * needs; else each rank of `from` gets rid of every slice that it has. */
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
            bool near = platform_same_node(work->setting->platform, (int32_t)other, (int32_t)rank);
            double part = bytes / (double)work->n_slices;
            (near ? work->inside : work->across)[other] += part;
            work->bytes[forward ? other * work->n_ranks + rank : rank * work->n_ranks + other] += part;
        }
}

static void move_all(struct switching *work, double bytes, bool forward)
{
    const struct model *model = work->setting->model;
    double layer = cost_stage_parameters(model, 1, 1, false, false);
    double first = cost_stage_parameters(model, 1, 0, true, false);
    double last = cost_stage_parameters(model, 1, 0, false, true);
    for (int64_t i = 0; i < work->n_ranks; i++)
        work->inside[i] = work->across[i] = 0;
    move(work, 0, 0, first * bytes, forward);
    for (int32_t i = 0; i < model->layers; i++)
        move(work, stage_of(work, &work->from, i), stage_of(work, &work->to, i), layer * bytes, forward);
    move(work, work->from.pp - 1, work->to.pp - 1, last * bytes, forward);
}

static int64_t common_multiple(int64_t a, int64_t b)
{
    int64_t n = a;
    while (n % b != 0)
        n += a;
    return n;
}

/* Messages of one kind of route while their order is found. */
struct ordering {
    int32_t n_ranks;
    double *sends, *receives; /* [n_ranks] bytes until it is free */
    double *bytes;            /* [n_ranks][n_ranks] of what is left, by sender and receiver */
    int32_t *first;           /* [n_ranks] receiver of the sender's message that can begin first, -1: none is left */
};

/* Ties: to the next rank. */
static int32_t first_of(const struct ordering *order, int32_t from)
{
    int32_t first = -1;
    double begin = DBL_MAX;
    for (int32_t away = 0; away < order->n_ranks; away++) {
        int32_t to = (from + away) % order->n_ranks;
        double at = fmax(order->sends[from], order->receives[to]);
        if (order->bytes[from * order->n_ranks + to] <= 0 || at >= begin)
            continue;
        begin = at;
        first = to;
    }
    return first;
}

/* The message that can begin first; ties: to the next rank, then from the lowest. One of no bytes: none is left. */
static struct plan_reshard next_message(struct ordering *order)
{
    struct plan_reshard next = {0};
    int32_t nearest = 0, n = order->n_ranks;
    double first = DBL_MAX;
    for (int32_t from = 0; from < n; from++) {
        int32_t to = order->first[from], away = (to - from + n) % n;
        double begin = to < 0 ? DBL_MAX : fmax(order->sends[from], order->receives[to]);
        if (to < 0 || begin > first || (begin == first && away >= nearest))
            continue;
        first = begin;
        nearest = away;
        next = (struct plan_reshard){from, to, order->bytes[from * n + to]};
    }
    if (next.bytes <= 0)
        return next;
    order->bytes[next.from_rank * n + next.to_rank] = 0;
    order->sends[next.from_rank] = order->receives[next.to_rank] = first + next.bytes;
    for (int32_t from = 0; from < n; from++) /* of the others no first one can begin later now */
        if (from == next.from_rank || order->first[from] == next.to_rank)
            order->first[from] = first_of(order, from);
    return next;
}

/* The messages inside nodes or those across, each in turn the one that can begin first. */
static void take_reshards(const struct switching *work, bool near, struct plan_phase *phase)
{
    int32_t n = (int32_t)work->n_ranks;
    struct ordering order = {.n_ranks = n,
                             .sends = check_calloc((size_t)n, sizeof(double)),
                             .receives = check_calloc((size_t)n, sizeof(double)),
                             .bytes = check_calloc((size_t)n * (size_t)n, sizeof(double)),
                             .first = check_malloc((size_t)n * sizeof *order.first)};
    struct plan_reshard *taken = phase->reshards;
    while (taken->bytes > 0)
        taken++;
    for (int32_t i = 0; i < n * n; i++)
        if (work->bytes[i] > 0 && platform_same_node(work->setting->platform, i / n, i % n) == near)
            order.bytes[i] = work->bytes[i];
    for (int32_t from = 0; from < n; from++)
        order.first[from] = first_of(&order, from);
    for (struct plan_reshard next; (next = next_message(&order)).bytes > 0;)
        *taken++ = next;
    free(order.sends);
    free(order.receives);
    free(order.bytes);
    free(order.first);
}

static void add_reshards(const struct switching *work, struct plan_phase *phase)
{
    int64_t n = work->n_ranks * work->n_ranks;
    CHECK(n <= INT32_MAX);
    for (int64_t i = 0; i < n; i++)
        phase->n_reshards += work->bytes[i] > 0;
    phase->reshards = check_calloc((size_t)phase->n_reshards + 1, sizeof *phase->reshards);
    take_reshards(work, true, phase);
    take_reshards(work, false, phase);
}

void switch_plan(const struct cost_setting *setting, const struct scenario_plan *from, const struct scenario_plan *to,
                 bool gradients, struct plan_phase *phase)
{
    struct switching work = {.setting = setting,
                             .from = {from->tp, from->pp, from->dp, &from->stages},
                             .to = {to->tp, to->pp, to->dp, &to->stages},
                             .n_ranks = from->tp * from->pp * from->dp,
                             .n_slices = common_multiple(from->tp, to->tp)};
    CHECK(from->cp == 1 && to->cp == 1 && work.n_ranks == to->tp * to->pp * to->dp);
    if (from->tp == to->tp && from->pp == to->pp)
        return;
    size_t n = (size_t)work.n_ranks;
    work.bytes = check_calloc(n * n, sizeof *work.bytes);
    work.inside = check_malloc(n * sizeof *work.inside);
    work.across = check_malloc(n * sizeof *work.across);
    move_all(&work, 2, true);
    if (gradients)
        move_all(&work, cost_gradient_bytes(setting->gradients), false);
    add_reshards(&work, phase);
    free(work.bytes);
    free(work.inside);
    free(work.across);
}
