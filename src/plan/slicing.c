/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "plan/slicing.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/compare.h"
#include "cost/pass.h"

/* Ends of the slices of each micro-batch, ascending: end[first[u]..first[u + 1]). The last one is its tokens. */
struct boundaries {
    int32_t *first, *end;
};

/* Return the tokens of a micro-batch and its padding. */
static int32_t length_of(const struct plan_partition *partition, int32_t micro_batch)
{
    return (int32_t)plan_micro_batch_tokens(partition, micro_batch) +
           partition->micro_batches[micro_batch].padding_tokens;
}

/* Add a micro-batch of the new slices to `partition`. It takes all other fields from another micro-batch. */
static void take_kind(struct plan_partition *partition, const struct plan_micro_batch *from, int32_t padding_tokens)
{
    struct plan_micro_batch *micro_batch = plan_add_micro_batch(partition);
    struct plan_micro_batch own = *micro_batch;
    *micro_batch = *from;
    micro_batch->first_slice = own.first_slice;
    micro_batch->n_slices = own.n_slices;
    micro_batch->padding_tokens = padding_tokens;
    micro_batch->padding_of = own.padding_of;
}

/*
 * Append the slices of positions [begin, end) of a micro-batch.
 *
 * @return how many of the positions are padding
 */
static int32_t add_slices(const struct plan_partition *from, int32_t micro_batch, int32_t begin, int32_t end,
                          struct plan_partition *to)
{
    int32_t at = 0; /* position of the slice */
    for (int32_t i = 0; i < from->micro_batches[micro_batch].n_slices; i++) {
        struct slice slice = from->slices[from->micro_batches[micro_batch].first_slice + i];
        int32_t next = at + slice_tokens(slice);
        int32_t first = begin > at ? begin : at, last = end < next ? end : next;
        if (first < last)
            plan_add_slice(to, (struct slice){slice.sample, slice.begin + first - at, slice.begin + last - at});
        at = next;
    }
    return end > at ? end - (begin > at ? begin : at) : 0;
}

/* Append micro-batches [first, end) of the forward partition to the backward partition in reverse. */
static void add_reversed(const struct plan_partition *forward, int32_t first, int32_t end,
                         struct plan_partition *backward)
{
    for (int32_t micro_batch = end - 1; micro_batch >= first; micro_batch--) {
        const struct plan_micro_batch *from = &forward->micro_batches[micro_batch];
        for (int32_t i = from->n_slices - 1; i >= 0; i--)
            plan_add_slice(backward, forward->slices[from->first_slice + i]);
        take_kind(backward, from, from->padding_tokens);
        backward->micro_batches[backward->n_micro_batches - 1].padding_of = micro_batch;
    }
}

static void replace(struct plan_partition *partition, struct plan_partition by)
{
    free(partition->slices);
    free(partition->micro_batches);
    *partition = by;
}

void slicing_mirror(struct plan_pipeline *pipeline)
{
    struct plan_partition backward = {0};
    add_reversed(&pipeline->partition[PASS_FORWARD], 0, pipeline->partition[PASS_FORWARD].n_micro_batches, &backward);
    replace(&pipeline->partition[PASS_BACKWARD], backward);
}

/* Cut at the boundaries, and free them. */
static void cut_at(struct plan_pipeline *pipeline, struct boundaries *boundaries)
{
    const struct plan_partition *whole = &pipeline->partition[PASS_FORWARD];
    struct plan_partition forward = {0}, backward = {0};
    for (int32_t micro_batch = 0; micro_batch < whole->n_micro_batches; micro_batch++) {
        int32_t begin = 0, first_slice = forward.n_micro_batches;
        for (int32_t i = boundaries->first[micro_batch]; i < boundaries->first[micro_batch + 1]; i++) {
            int32_t end = boundaries->end[i];
            if (end == begin)
                continue;
            int32_t padding = add_slices(whole, micro_batch, begin, end, &forward);
            take_kind(&forward, &whole->micro_batches[micro_batch], padding);
            begin = end;
        }
        CHECK(begin == length_of(whole, micro_batch));
        add_reversed(&forward, first_slice, forward.n_micro_batches, &backward);
    }
    replace(&pipeline->partition[PASS_FORWARD], forward);
    replace(&pipeline->partition[PASS_BACKWARD], backward);
    free(boundaries->first);
    free(boundaries->end);
}

/* Make room for n ends of each micro-batch. */
static struct boundaries open_boundaries(const struct plan_partition *partition, int32_t n)
{
    struct boundaries boundaries = {0};
    boundaries.first = check_malloc(((size_t)partition->n_micro_batches + 1) * sizeof(int32_t));
    boundaries.end = check_malloc((size_t)partition->n_micro_batches * (size_t)n * sizeof(int32_t));
    for (int32_t micro_batch = 0; micro_batch <= partition->n_micro_batches; micro_batch++)
        boundaries.first[micro_batch] = micro_batch * n;
    return boundaries;
}

/* Return k/n of `whole`, rounded down, without overflow. */
static int64_t share(int64_t whole, int32_t k, int32_t n)
{
    return whole / n * k + whole % n * k / n;
}

void slicing_equal_length(struct plan_pipeline *pipeline, int32_t n)
{
    const struct plan_partition *partition = &pipeline->partition[PASS_FORWARD];
    struct boundaries boundaries = open_boundaries(partition, n);
    for (int32_t micro_batch = 0; micro_batch < partition->n_micro_batches; micro_batch++)
        for (int32_t k = 1; k <= n; k++)
            boundaries.end[micro_batch * n + k - 1] = (int32_t)share(length_of(partition, micro_batch), k, n);
    cut_at(pipeline, &boundaries);
}

/* Return the FLOPs (flop_model_curve) of the first `tokens` tokens of a micro-batch. */
static int64_t flop_up_to(const struct plan_partition *partition, int32_t micro_batch, struct flop_curve curve,
                          int32_t tokens)
{
    int64_t flop = 0;
    for (int32_t i = 0; i < partition->micro_batches[micro_batch].n_slices && tokens > 0; i++) {
        struct slice slice = partition->slices[partition->micro_batches[micro_batch].first_slice + i];
        int32_t taken = tokens < slice_tokens(slice) ? tokens : slice_tokens(slice);
        flop += flop_of_slice(curve, slice.begin, slice.begin + taken);
        tokens -= taken;
    }
    return flop + curve.l * tokens; /* padding attends to nothing */
}

/* Return the first token at which a micro-batch's FLOPs reach `flop`. */
static int32_t token_at(const struct plan_partition *partition, int32_t micro_batch, struct flop_curve curve,
                        int64_t flop)
{
    int32_t low = 0, high = length_of(partition, micro_batch);
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (flop_up_to(partition, micro_batch, curve, middle) >= flop)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

void slicing_equal_flop(struct plan_pipeline *pipeline, const struct model *model, int32_t n)
{
    const struct plan_partition *partition = &pipeline->partition[PASS_FORWARD];
    struct flop_curve curve = flop_model_curve(model, PASS_FORWARD);
    struct boundaries boundaries = open_boundaries(partition, n);
    for (int32_t micro_batch = 0; micro_batch < partition->n_micro_batches; micro_batch++) {
        int32_t tokens = length_of(partition, micro_batch);
        int64_t flop = flop_up_to(partition, micro_batch, curve, tokens);
        for (int32_t k = 1; k < n; k++)
            boundaries.end[micro_batch * n + k - 1] = token_at(partition, micro_batch, curve, share(flop, k, n));
        boundaries.end[micro_batch * n + n - 1] = tokens;
    }
    cut_at(pipeline, &boundaries);
}

/* Parts of all micro-batches, and the seconds of slices made of them. */
struct terapipe {
    int32_t n_micro_batches, grid;
    double *seconds; /* [micro-batch][begin][end] of parts [begin, end) */
    double *best_s;  /* [micro-batch][end] of the parts before `end`, if no slice exceeds the ceiling */
    int32_t *from;   /* [micro-batch][end] begin of its last slice */
};

static double *seconds_of(const struct terapipe *terapipe, int32_t micro_batch, int32_t begin, int32_t end)
{
    int32_t side = terapipe->grid + 1;
    return &terapipe->seconds[((size_t)micro_batch * (size_t)side + (size_t)begin) * (size_t)side + (size_t)end];
}

static double slice_s(const struct plan_partition *partition, int32_t micro_batch, const struct cost_setting *setting,
                      int32_t begin, int32_t end)
{
    struct plan_partition part = {0};
    int32_t padding = add_slices(partition, micro_batch, begin, end, &part);
    const struct plan_micro_batch *whole = &partition->micro_batches[micro_batch];
    struct cost_micro_batch work = {.slices = part.slices,
                                    .n_slices = part.n_slices,
                                    .padding_tokens = padding,
                                    .context = whole->context,
                                    .recompute = whole->recompute,
                                    .sharding = whole->sharding};
    double seconds = 0;
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
        struct cost_pass cost = cost_of_pass(setting, pass, &work);
        seconds += cost_pass_s(&cost);
    }
    free(part.slices);
    return seconds;
}

static void open_terapipe(struct terapipe *terapipe, const struct plan_partition *partition,
                          const struct cost_setting *setting)
{
    size_t side = (size_t)terapipe->grid + 1, n = (size_t)terapipe->n_micro_batches;
    terapipe->seconds = check_calloc(n * side * side, sizeof *terapipe->seconds);
    terapipe->best_s = check_calloc(n * side, sizeof *terapipe->best_s);
    terapipe->from = check_calloc(n * side, sizeof *terapipe->from);
    for (int32_t micro_batch = 0; micro_batch < terapipe->n_micro_batches; micro_batch++)
        for (int32_t begin = 0; begin < terapipe->grid; begin++)
            for (int32_t end = begin + 1; end <= terapipe->grid; end++) {
                int32_t length = length_of(partition, micro_batch);
                *seconds_of(terapipe, micro_batch, begin, end) =
                    slice_s(partition, micro_batch, setting, (int32_t)share(length, begin, terapipe->grid),
                            (int32_t)share(length, end, terapipe->grid));
            }
}

/*
 * Find the best slices under a ceiling.
 *
 * @return their seconds, summed over micro-batches; -1: there are none
 */
static double best_under(struct terapipe *terapipe, double ceiling_s)
{
    double sum = 0;
    int32_t side = terapipe->grid + 1;
    for (int32_t micro_batch = 0; micro_batch < terapipe->n_micro_batches; micro_batch++) {
        double *best = terapipe->best_s + micro_batch * side;
        for (int32_t end = 1; end < side; end++) {
            best[end] = -1;
            for (int32_t begin = 0; begin < end; begin++) {
                double slice = *seconds_of(terapipe, micro_batch, begin, end);
                if (best[begin] < 0 || slice > ceiling_s || (best[end] >= 0 && best[begin] + slice >= best[end]))
                    continue;
                best[end] = best[begin] + slice;
                terapipe->from[micro_batch * side + end] = begin;
            }
        }
        if (best[terapipe->grid] < 0)
            return -1;
        sum += best[terapipe->grid];
    }
    return sum;
}

/* Return the ceiling whose slices end first. */
static double best_ceiling(struct terapipe *terapipe, int32_t stages)
{
    const double step_s = 1e-4; /* Li et al., section 3.3 */
    size_t side = (size_t)terapipe->grid + 1, n = (size_t)terapipe->n_micro_batches * side * side;
    double *ceilings = check_malloc(n * sizeof *ceilings), chosen_s = 0, chosen_sum_s = -1, tried_s = -1;
    for (size_t i = 0; i < n; i++)
        ceilings[i] = terapipe->seconds[i];
    qsort(ceilings, n, sizeof *ceilings, compare_doubles);
    for (size_t i = 0; i < n; i++) {
        double ceiling_s = ceilings[i];
        if (i + 1 < n && tried_s >= 0 && ceiling_s < tried_s + step_s)
            continue;
        if (chosen_sum_s >= 0 && (stages - 1) * ceiling_s >= chosen_sum_s)
            break;
        double sum_s = best_under(terapipe, ceiling_s);
        if (sum_s < 0)
            continue; /* the ceiling is too low */
        tried_s = ceiling_s;
        sum_s += (stages - 1) * ceiling_s;
        if (chosen_sum_s >= 0 && sum_s >= chosen_sum_s)
            continue;
        chosen_sum_s = sum_s;
        chosen_s = ceiling_s;
    }
    free(ceilings);
    return chosen_s;
}

/* Follow the slices back from the ends. */
static void trace_back(const struct terapipe *terapipe, const struct plan_partition *partition,
                       struct boundaries *boundaries)
{
    int32_t side = terapipe->grid + 1, n = 0, *reversed = check_malloc((size_t)terapipe->grid * sizeof *reversed);
    for (int32_t micro_batch = 0; micro_batch < terapipe->n_micro_batches; micro_batch++) {
        int32_t n_slices = 0;
        for (int32_t end = terapipe->grid; end > 0; end = terapipe->from[micro_batch * side + end])
            reversed[n_slices++] = end;
        boundaries->first[micro_batch] = n;
        while (n_slices > 0)
            boundaries->end[n++] =
                (int32_t)share(length_of(partition, micro_batch), reversed[--n_slices], terapipe->grid);
    }
    boundaries->first[terapipe->n_micro_batches] = n;
    free(reversed);
}

void slicing_by_time(struct plan_pipeline *pipeline, const struct cost_setting *setting, int32_t grid)
{
    const struct plan_partition *partition = &pipeline->partition[PASS_FORWARD];
    struct terapipe terapipe = {.n_micro_batches = partition->n_micro_batches, .grid = grid};
    struct boundaries boundaries = open_boundaries(partition, grid);
    open_terapipe(&terapipe, partition, setting);
    best_under(&terapipe, best_ceiling(&terapipe, pipeline->layout.stages));
    trace_back(&terapipe, partition, &boundaries);
    free(terapipe.seconds);
    free(terapipe.best_s);
    free(terapipe.from);
    cut_at(pipeline, &boundaries);
}
