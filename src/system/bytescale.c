/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This system is ByteScale's hybrid data parallelism. All DP ranks are one group, in which each sequence takes as few
 * ranks as hold it.
 *
 * 1. A rank (a TP x PP slice of the model) has room for C tokens. A sequence of at most C is best-fit packed with
 *    others to C tokens and runs on one rank. A longer one runs on D ranks, any number, that share it by a ring. Ranks
 *    run different numbers of micro-batches, because the loss counts tokens.
 * 2. Selective offload (eq. 3): of l layers of a stage the first and last stay. The share r of the other layers goes to
 *    the host. A layer's forward on the whole sequence, T(s), must take as long as the copy of r Act(s). The largest
 *    such r gives D(s) = ceil((2 Act(s) + (1 - r)(l - 2) Act(s)) / (l Act(C))) if r >= min(1, l Act(C) / ((l - 2)
 *    Act(s))); otherwise r = 0.
 * 3. Balance (Algorithm 2): sequences and packs, by descending FLOPs, form buckets of about equal FLOPs. Targets are
 *    the ranks with more than delta less to do than the fullest one; without such ranks all are targets.
 * 4. DP-Balance (one stage) takes the next of the first bucket, so that ranks see similar lengths at one time.
 *    PP-Balance takes the next of each bucket in turn. It goes to ranks that had this bucket's last, so that a pipeline
 *    keeps to one level. An item of D ranks goes to the block of D neighbours whose fullest has least to do (ties: the
 *    lowest).
 * 5. Every item has a slot, the same on all its ranks (order_slots: no pipelines can wait for each other in a circle).
 *    Items of several ranks come in order, each after all slots of its ranks. Items of one rank, in order, fill the
 *    time in which their rank waits for the others of such a group. With stages they fill the free slots, because an
 *    empty slot drains the pipeline.
 * 6. C is found for each batch unless it is given. Candidates are the tokens that memory has room for, at most the
 *    context, and its halves; the fastest stays (packing/token_cap_search.h). With a larger C fewer ranks run the
 *    longest sequence while the others wait.
 *
 * Source: Ge et al. 2025 (arXiv:2502.21231), from a summary. Inferred are C, the number of buckets, delta, the choice
 * among the targets, and the order on a rank. Time is FLOPs of forward and backward over D, which is inferred, too.
 *
 * Deviates: - Without always_offload no sequence offloads if passes then end earlier (critical path). None offloads if
 * a node's host has no room for it and the GPUs have. Eq. 3 does not count the host's room. It takes few ranks for a
 * long time, though a small batch may have nothing for the others to do meanwhile. always_offload is the paper's. - D
 * leaves room for the layer that runs, too, and for the head's logits (packing_streamed_tokens), which eq. 3 does not
 * count. r is no larger than this D needs.
 * - l is the mean of the stages' layers, if these are unequal (plan.stages), so r is somewhat large for the smaller.
 */
#include "system/system.h"

#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "bounds/batch_bound.h"
#include "cost/activation.h"
#include "dag/dag.h"
#include "packing/packing.h"
#include "packing/samples.h"
#include "packing/token_cap_search.h"
#include "plan/order.h"

/* Sequences that run together: one that D ranks share, or a pack of short ones on one rank. */
struct item {
    int32_t first, n;   /* indices of sample */
    int32_t width;      /* D */
    double offload;     /* share of its activations */
    double flop;        /* forward and backward, of one layer, divided by D */
    int32_t rank, slot; /* first of its ranks */
};

struct bytescale_knobs {
    bool always_offload;
    int64_t capacity, buckets;
    double delta;
};

/* The current iteration: its items and their assignment to ranks. */
struct assignment {
    const struct plan_request *request;
    int32_t *sample; /* in order of items */
    int32_t n_items;
    struct item *items;
    int32_t capacity; /* C [tokens] */
    bool offloads;
    int32_t n_offload; /* items that offload */
    double *flop;      /* of each rank */
    int32_t *level;    /* bucket of each rank's last item, -1: none */
};

/* Return the layers of a rank's stage. */
static double n_layers(const struct plan_request *request)
{
    return (double)request->setting->model->layers / (double)request->layout.pp;
}

/* Return the largest r: a layer's forward takes no less than the copy of r of its activations. */
static double most_ratio(const struct plan_request *request, int32_t tokens)
{
    struct cost_setting layer = *request->setting;
    struct slice slice = {0, 0, tokens};
    struct cost_micro_batch micro_batch = {
        .slices = &slice, .n_slices = 1, .context = 1, .recompute = (enum recompute)request->layout.recompute};
    layer.recompute_layers = 0;
    cost_hold_layers(&layer, 0, 1);
    struct cost_pass cost = cost_of_pass(&layer, PASS_FORWARD, &micro_batch);
    double bytes = tokens * cost_activation_bytes(&layer, micro_batch.recompute, false);
    return fmin(1, cost_pass_s(&cost) / cost_of_transfer(&layer, COST_PCIE, bytes, 1).duration_s);
}

/* Return the ranks that a sequence needs with ratio r. Act(s) is in proportion to its tokens. */
static double ranks_of(const struct assignment *assignment, int32_t tokens, double ratio)
{
    double layers = n_layers(assignment->request);
    double kept = layers > 2 ? (2 + (1 - ratio) * (layers - 2)) / layers : 1;
    double fits = packing_streamed_tokens(assignment->request, assignment->capacity, 1 - kept);
    return ceil(fmax(tokens * kept / assignment->capacity,
                     fits > 0 ? fmin(tokens / fits, tokens / (double)assignment->capacity) : 0));
}

/* Set D(s), at most all ranks, and the share that is offloaded of a sequence of more than C tokens. */
static void widen(const struct assignment *assignment, int32_t tokens, struct item *item)
{
    double layers = n_layers(assignment->request), ratio = 0, least = 0;
    if (assignment->offloads && layers > 2) {
        ratio = most_ratio(assignment->request, tokens);
        if (ratio < fmin(1, layers * assignment->capacity / ((layers - 2) * tokens)))
            ratio = 0;
    }
    double ranks = ranks_of(assignment, tokens, ratio);
    for (int32_t i = 0; i < 20; i++) { /* halve the interval of the least ratio for this many ranks */
        double middle = (least + ratio) / 2;
        *(ranks_of(assignment, tokens, middle) > ranks ? &least : &ratio) = middle;
    }
    ratio = ranks_of(assignment, tokens, 0) > ranks ? ratio : 0;
    item->width = (int32_t)fmin(ranks, (double)assignment->request->layout.dp);
    item->offload = layers > 2 ? ratio * (layers - 2) / layers : 0;
}

static int by_flop(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    double x_flop = x->flop * x->width, y_flop = y->flop * y->width;
    if (x_flop != y_flop)
        return x_flop > y_flop ? -1 : 1;
    return (x->first > y->first) - (x->first < y->first);
}

static void fill_items(struct assignment *assignment, const struct packing *packs, int32_t n_long)
{
    const int32_t *tokens = assignment->request->batch->tokens;
    const struct model *model = assignment->request->setting->model;
    const struct flop_curve forward = flop_model_curve(model, PASS_FORWARD),
                            backward = flop_model_curve(model, PASS_BACKWARD);
    assignment->n_items = n_long + packs->n_packs;
    assignment->items = check_calloc((size_t)assignment->n_items, sizeof *assignment->items);
    for (int32_t i = 0; i < assignment->n_items; i++) {
        struct item *item = &assignment->items[i];
        *item = i < n_long ? (struct item){.first = i, .n = 1}
                           : (struct item){.first = n_long + packs->first[i - n_long],
                                           .n = packs->first[i - n_long + 1] - packs->first[i - n_long],
                                           .width = 1};
        for (int32_t k = item->first; k < item->first + item->n; k++)
            item->flop += (double)flop_of_prefix(forward, tokens[assignment->sample[k]]) +
                          (double)flop_of_prefix(backward, tokens[assignment->sample[k]]);
        if (i < n_long)
            widen(assignment, tokens[assignment->sample[i]], item);
        assignment->n_offload += item->offload > 0;
        item->flop /= item->width;
    }
    qsort(assignment->items, (size_t)assignment->n_items, sizeof *assignment->items, by_flop);
}

/* List long sequences, then packs of the short ones. */
static void open_assignment(const struct plan_request *request, int32_t capacity, bool offloads,
                            struct assignment *assignment)
{
    const struct batch *batch = request->batch;
    struct packing packs;
    int32_t n_long = 0, n = batch->n_samples;
    *assignment = (struct assignment){.request = request, .capacity = capacity, .offloads = offloads};
    assignment->sample = samples_by_length(batch);
    while (n_long < n && batch->tokens[assignment->sample[n_long]] > assignment->capacity)
        n_long++;
    packing_best_fit(batch->tokens, n - n_long, assignment->sample + n_long, assignment->capacity, &packs);
    for (int32_t i = n_long; i < n; i++)
        assignment->sample[i] = packs.sample[i - n_long];
    fill_items(assignment, &packs, n_long);
    packing_free(&packs);
    assignment->flop = check_calloc((size_t)request->layout.dp, sizeof *assignment->flop);
    assignment->level = check_malloc((size_t)request->layout.dp * sizeof *assignment->level);
    for (int32_t rank = 0; rank < (int32_t)request->layout.dp; rank++)
        assignment->level[rank] = -1;
}

static void close_assignment(struct assignment *assignment)
{
    free(assignment->sample);
    free(assignment->items);
    free(assignment->flop);
    free(assignment->level);
}

/* Rating of a block of ranks for an item. Whether all are targets comes first, then the level, then the load. */
struct block {
    bool targets;
    int32_t strangers; /* ranks whose last item was of another bucket */
    double flop;       /* of the fullest rank */
};

static struct block block_of(const struct assignment *assignment, int32_t first, int32_t width, int32_t level,
                             double below)
{
    struct block block = {.targets = true};
    for (int32_t rank = first; rank < first + width; rank++) {
        block.targets = block.targets && assignment->flop[rank] < below;
        block.strangers += level >= 0 && assignment->level[rank] >= 0 && assignment->level[rank] != level;
        block.flop = fmax(block.flop, assignment->flop[rank]);
    }
    return block;
}

static bool is_better(const struct block *a, const struct block *b)
{
    if (a->targets != b->targets)
        return a->targets;
    if (a->targets && a->strangers != b->strangers)
        return a->strangers < b->strangers;
    return a->flop < b->flop;
}

static double fullest_flop(const struct assignment *assignment)
{
    double most = 0;
    for (int32_t rank = 0; rank < (int32_t)assignment->request->layout.dp; rank++)
        most = fmax(most, assignment->flop[rank]);
    return most;
}

/* Assign an item to ranks. level: its bucket, -1: levels do not matter. */
static void assign(struct assignment *assignment, struct item *item, int32_t level)
{
    const struct bytescale_knobs *knobs = assignment->request->knobs;
    int32_t n_ranks = (int32_t)assignment->request->layout.dp;
    double most = fullest_flop(assignment), sum = 0;
    for (int32_t rank = 0; rank < n_ranks; rank++)
        sum += assignment->flop[rank];
    double below = most - knobs->delta * sum / n_ranks; /* targets have less than this */
    bool any = false;
    for (int32_t rank = 0; rank < n_ranks; rank++)
        any = any || assignment->flop[rank] < below;
    below = any ? below : INFINITY;
    struct block best = block_of(assignment, 0, item->width, level, below);
    item->rank = 0;
    for (int32_t first = 1; first + item->width <= n_ranks; first++) {
        struct block block = block_of(assignment, first, item->width, level, below);
        if (!is_better(&block, &best))
            continue;
        best = block;
        item->rank = first;
    }
    for (int32_t rank = item->rank; rank < item->rank + item->width; rank++) {
        assignment->flop[rank] += item->flop;
        assignment->level[rank] = level;
    }
}

/* Return where the buckets of about equal FLOPs begin, [n_buckets + 1]. Caller frees. */
static int32_t *buckets_of(const struct assignment *assignment, int32_t n_buckets)
{
    int32_t *first = check_malloc(((size_t)n_buckets + 1) * sizeof *first), bucket = 0;
    double sum = 0, total = 0;
    for (int32_t i = 0; i < assignment->n_items; i++)
        total += assignment->items[i].flop * assignment->items[i].width;
    first[0] = 0;
    for (int32_t i = 0; i < assignment->n_items; i++) {
        sum += assignment->items[i].flop * assignment->items[i].width;
        while (bucket + 1 < n_buckets && sum >= total * (bucket + 1) / n_buckets)
            first[++bucket] = i + 1;
    }
    while (bucket < n_buckets)
        first[++bucket] = assignment->n_items;
    return first;
}

/* Assign all items. DP-Balance takes them in order, the first bucket first. */
static void balance(struct assignment *assignment)
{
    const struct bytescale_knobs *knobs = assignment->request->knobs;
    int32_t n_buckets = (int32_t)knobs->buckets, left = assignment->n_items;
    int32_t *next = buckets_of(assignment, n_buckets), *first = buckets_of(assignment, n_buckets);
    for (int32_t i = 0; assignment->request->layout.pp == 1 && i < assignment->n_items; i++)
        assign(assignment, &assignment->items[i], -1);
    for (int32_t level = 0; assignment->request->layout.pp > 1 && left > 0; level = (level + 1) % n_buckets)
        if (next[level] < first[level + 1]) {
            assign(assignment, &assignment->items[next[level]++], level);
            left--;
        }
    free(next);
    free(first);
}

/* A rank while items get their slots. */
struct row {
    int32_t n, *narrow; /* items that run only on this rank, in order */
    int32_t given;      /* number of narrow items with a slot */
    int32_t slot;       /* next free slot */
    double flop;        /* time at which it finishes the items with slots, in FLOPs, since ranks wait for each other */
};

/* Return the rows. Caller frees them and the first one's items. */
static struct row *open_rows(const struct assignment *assignment)
{
    int32_t n_ranks = (int32_t)assignment->request->layout.dp;
    struct row *rows = check_calloc((size_t)n_ranks, sizeof *rows);
    int32_t *narrow = check_malloc((size_t)assignment->n_items * sizeof *narrow);
    for (int32_t i = 0; i < assignment->n_items; i++)
        rows[assignment->items[i].rank].n += assignment->items[i].width == 1;
    for (int32_t rank = 0, first = 0; rank < n_ranks; rank++) {
        rows[rank].narrow = narrow + first;
        first += rows[rank].n;
        rows[rank].n = 0;
    }
    for (int32_t i = 0; i < assignment->n_items; i++)
        if (assignment->items[i].width == 1)
            rows[assignment->items[i].rank].narrow[rows[assignment->items[i].rank].n++] = i;
    return rows;
}

/* Give slots to the next narrow items: those that end before `flop`, and those that fill slots before `slot`. */
static void fill_row(struct assignment *assignment, struct row *row, double flop, int32_t slot)
{
    for (; row->given < row->n; row->given++) {
        struct item *item = &assignment->items[row->narrow[row->given]];
        if (row->flop + item->flop > flop && row->slot >= slot)
            return;
        item->slot = row->slot++;
        row->flop += item->flop;
    }
}

/*
 * Give a wide item its slot. Until it begins its ranks run narrow items: as many as end while the last of the ranks
 * works. With stages they run as many as fill the earlier slots, since empty slots drain pipelines.
 */
static void join_rows(struct assignment *assignment, struct item *item, struct row *rows)
{
    int32_t end = item->rank + item->width, before = 0;
    double flop = 0;
    for (int32_t rank = item->rank; rank < end; rank++) {
        flop = fmax(flop, rows[rank].flop);
        before = rows[rank].slot > before ? rows[rank].slot : before;
    }
    item->slot = 0;
    for (int32_t rank = item->rank; rank < end; rank++) {
        if (assignment->request->layout.pp > 1)
            fill_row(assignment, &rows[rank], 0, before);
        else
            fill_row(assignment, &rows[rank], flop, 0);
        item->slot = rows[rank].slot > item->slot ? rows[rank].slot : item->slot;
    }
    for (int32_t rank = item->rank; rank < end; rank++) {
        rows[rank].slot = item->slot + 1;
        rows[rank].flop = flop + item->flop;
    }
}

static void give_slots(struct assignment *assignment)
{
    struct row *rows = open_rows(assignment);
    for (int32_t i = 0; i < assignment->n_items; i++)
        if (assignment->items[i].width > 1)
            join_rows(assignment, &assignment->items[i], rows);
    for (int32_t rank = 0; rank < (int32_t)assignment->request->layout.dp; rank++)
        fill_row(assignment, &rows[rank], INFINITY, 0);
    free(rows[0].narrow);
    free(rows);
}

static int by_slot(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    return x->slot != y->slot ? (x->slot > y->slot) - (x->slot < y->slot) : (x->rank > y->rank) - (x->rank < y->rank);
}

static void add_item(const struct assignment *assignment, const struct item *item, struct plan_phase *phase)
{
    packing_add_shared(assignment->request, assignment->sample + item->first, item->n, item->rank, item->width, phase);
    if (assignment->request->layout.offload_mode != SCENARIO_OFFLOAD_AUTO)
        return; /* it has plan.offload */
    for (int32_t rank = item->rank; rank < item->rank + item->width; rank++)
        for (int pass = 0; pass < N_PASSES; pass++) {
            struct plan_partition *partition = &phase->pipelines[rank].partition[pass];
            struct plan_micro_batch *micro_batch = &partition->micro_batches[partition->n_micro_batches - 1];
            micro_batch->offload = item->offload;
            micro_batch->streams = item->offload > 0;
        }
}

/* Make the plan; items are ordered by slot. */
static void make_plan(const struct assignment *assignment, struct plan *plan)
{
    int32_t *slot = check_malloc((size_t)assignment->n_items * sizeof *slot);
    packing_open_plan(assignment->request, plan);
    struct plan_phase *phase = plan->phases;
    for (int32_t i = 0; i < assignment->n_items; i++)
        add_item(assignment, &assignment->items[i], phase);
    for (int32_t rank = 0; rank < phase->n_pipelines; rank++) {
        int32_t n = 0;
        for (int32_t i = 0; i < assignment->n_items; i++)
            if (assignment->items[i].rank <= rank && rank < assignment->items[i].rank + assignment->items[i].width)
                slot[n++] = assignment->items[i].slot;
        plan_fill_need(&phase->pipelines[rank]);
        order_slots(&phase->pipelines[rank], slot);
    }
    free(slot);
}

/* Return whether some sequence would offload if allowed. */
static bool has_offload(const struct plan_request *request, int32_t capacity)
{
    struct assignment with;
    open_assignment(request, capacity, true, &with);
    bool has = with.n_offload > 0;
    close_assignment(&with);
    return has;
}

/*
 * Make the plan with room for `capacity` tokens on a rank. Variant 0 offloads if the system decides it. Without
 * always_offload there is another variant then.
 */
static bool plan_with(const struct plan_request *request, int32_t capacity, int32_t variant, struct plan *plan)
{
    const struct bytescale_knobs *knobs = request->knobs;
    struct assignment assignment;
    bool decides = request->layout.offload_mode == SCENARIO_OFFLOAD_AUTO;
    if (variant > (decides && !knobs->always_offload) || (variant > 0 && !has_offload(request, capacity)))
        return false;
    open_assignment(request, capacity, variant == 0 && decides, &assignment);
    balance(&assignment);
    give_slots(&assignment);
    qsort(assignment.items, (size_t)assignment.n_items, sizeof *assignment.items, by_slot);
    make_plan(&assignment, plan);
    close_assignment(&assignment);
    return true;
}

static bool bytescale_plan(const struct plan_request *request, void *state, struct plan *plan, struct error *err)
{
    (void)state;
    const struct bytescale_knobs *knobs = request->knobs;
    struct plan_request own = *request;
    if (!request_check_windows(request, "bytescale", err))
        return false;
    if (request->layout.offload_mode == SCENARIO_OFFLOAD_AUTO)
        own.layout.offload = 0;
    return token_cap_search_given(&own, knobs->capacity, plan_with, plan, err);
}

static unsigned bytescale_decides(const void *knobs, const struct scenario_plan *layout)
{
    (void)knobs;
    return SYSTEM_SCHEDULE | (layout->offload_mode == SCENARIO_OFFLOAD_AUTO ? SYSTEM_OFFLOAD : 0);
}

static const struct schema_key knobs[] = {
    {"always_offload", SCHEMA_BOOL, "-", 0, 0, "false", NULL,
     "with offload: auto, long sequences offload and so take fewer ranks, even if passes end earlier without, or if a "
     "node's host has no room",
     offsetof(struct bytescale_knobs, always_offload)},
    {"capacity", SCHEMA_INT, "tokens", 0, 1073741823, "0", NULL,
     "room of a rank, at most the context; 0: the fastest of the tokens that memory holds if all micro-batches in "
     "flight are "
     "as long, and its halves",
     offsetof(struct bytescale_knobs, capacity)},
    {"buckets", SCHEMA_INT, "-", 1, 4096, "8", NULL, "levels of FLOPs that pipelines keep to with more than one stage",
     offsetof(struct bytescale_knobs, buckets)},
    {"delta", SCHEMA_REAL, "-", 0, 1000, "0.05", NULL,
     "a rank is a target if it has this much less to do than the fullest one, relative to the mean of all",
     offsetof(struct bytescale_knobs, delta)},
};

const struct training_system system_bytescale = {
    .name = "bytescale",
    .source = "Ge et al. 2025 (arXiv:2502.21231)",
    .meaning = "hybrid data parallelism: each sequence on as few DP ranks as hold it, short ones packed; selective "
               "offload, ranks balanced by FLOPs",
    .knobs = knobs,
    .n_knobs = sizeof knobs / sizeof *knobs,
    .knobs_size = sizeof(struct bytescale_knobs),
    .degrees = SYSTEM_TP | SYSTEM_PP,
    .decides = bytescale_decides,
    .plan = bytescale_plan,
    .lower_bound_s = batch_bound_shared_s,
};
