/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "packing/fill.h"

#include <math.h>
#include <stdlib.h>

#include "base/check.h"

static int64_t tokens_of(const struct fill *fill, int32_t i)
{
    return fill->tokens[fill->sample[i]];
}

static int64_t flop_of(const struct fill *fill, int32_t i)
{
    return flop_of_prefix(fill->curve, tokens_of(fill, i));
}

/* Return 4 F(x + 1/2), a whole number. Each part of F goes on to x + 1/2. */
static fill_flop four_times_middle(const struct flop_curve *curve, int64_t tokens)
{
    fill_flop odd = 2 * tokens + 1, flop = curve->q * odd * odd + 2 * curve->l * odd;
    for (int32_t i = 0; i < curve->n_windows; i++) {
        fill_flop window = curve->windows[i].window;
        flop += curve->windows[i].q *
                (tokens < window ? odd * odd : 2 * (2 * window - 1) * odd - 4 * window * (window - 1));
    }
    return flop;
}

int64_t fill_root(struct flop_curve curve, int64_t tokens, fill_flop target, int64_t parts)
{
    int64_t x = 0, end = tokens, flop = (int64_t)(target / parts); /* x: the last one with F(x) <= target / parts */
    if (curve.n_windows == 0) {                                    /* the floating-point root is nearer than 2 */
        double l = (double)curve.l, t = (double)flop;
        int64_t near = (int64_t)(2 * t / (l + sqrt(l * l + 4 * (double)curve.q * t)));
        end = near + 2 < tokens ? near + 2 : tokens;
        x = near > 2 ? near - 2 : 0;
    }
    while (x < end) {
        int64_t middle = x + (end - x + 1) / 2;
        if (flop_of_prefix(curve, middle) <= flop)
            x = middle;
        else
            end = middle - 1;
    }
    if (x == tokens)
        return x;
    /* The root is x + 1/2 or more if F(x + 1/2) <= target / parts. */
    return four_times_middle(&curve, x) * parts <= 4 * target ? x + 1 : x;
}

/* Return the tokens of sample i of the chain before the boundary at which `target / n_micro_batches` of its FLOPs are
 * done. */
static int64_t offset_of(const struct fill *fill, int32_t i, fill_flop target)
{
    int64_t tokens = tokens_of(fill, i);
    if (fill->pass == PASS_FORWARD)
        return fill_root(fill->curve, tokens, target, fill->n_micro_batches);
    return tokens - fill_root(fill->curve, tokens, (fill_flop)flop_of(fill, i) * fill->n_micro_batches - target,
                              fill->n_micro_batches);
}

static void equal_ends(const struct fill *fill, int64_t *end)
{
    fill_flop total = 0, before = 0; /* FLOPs of the chain; FLOPs of the samples before sample i, x n_micro_batches */
    int64_t n_tokens = 0, first = 0; /* tokens of the chain; tokens before sample i */
    for (int32_t i = 0; i < fill->n_samples; i++) {
        total += flop_of(fill, i);
        n_tokens += tokens_of(fill, i);
    }
    CHECK(1 <= fill->n_micro_batches && fill->n_micro_batches <= n_tokens);
    int32_t i = 0;
    fill_flop behind = (fill_flop)flop_of(fill, 0) * fill->n_micro_batches; /* `before` with sample i */
    for (int64_t k = 0; k < fill->n_micro_batches - 1; k++) {
        fill_flop target = fill->target != NULL ? fill->target[k] : (k + 1) * total; /* x n_micro_batches */
        while (behind < target) {
            before = behind;
            first += tokens_of(fill, i++);
            behind += (fill_flop)flop_of(fill, i) * fill->n_micro_batches;
        }
        end[k] = first + offset_of(fill, i, target - before);
        int64_t least = (k > 0 ? end[k - 1] : 0) + 1, most = n_tokens - (fill->n_micro_batches - 1 - k);
        end[k] = end[k] < least ? least : end[k] > most ? most : end[k];
    }
    end[fill->n_micro_batches - 1] = n_tokens;
}

static void join_short_slices(const struct fill *fill, int64_t *end)
{
    int64_t k = 0;
    for (int64_t i = 0, first = 0; i < fill->n_samples; i++) {
        int64_t last = first + tokens_of(fill, (int32_t)i), begin = first;
        while (k < fill->n_micro_batches && end[k] <= first)
            k++;
        for (; k < fill->n_micro_batches && end[k] < last; k++) {
            if (end[k] - begin < fill->min_slice)
                end[k] = begin;
            else if (last - end[k] < fill->min_slice)
                end[k] = last;
            begin = end[k];
        }
        first = last;
    }
}

void fill_ends(const struct fill *fill, int64_t *end)
{
    equal_ends(fill, end);
    if (fill->search != NULL)
        fill_milp(fill, end);
    if (fill->min_slice > 0)
        join_short_slices(fill, end);
}

int32_t fill_partition(const struct fill *fill, struct plan_partition *partition)
{
    int64_t *end = check_malloc((size_t)fill->n_micro_batches * sizeof *end);
    fill_ends(fill, end);
    int32_t n_micro_batches = 0, i = 0;
    int64_t at = 0, first = 0; /* tokens of the chain already in slices; tokens before sample i */
    for (int64_t k = 0; k < fill->n_micro_batches; k++) {
        if (at == end[k])
            continue;
        while (at < end[k]) {
            int64_t tokens = tokens_of(fill, i), last = first + tokens;
            int32_t begin = (int32_t)(at - first), stop = (int32_t)((end[k] < last ? end[k] : last) - first);
            at = first + stop;
            if (fill->pass == PASS_FORWARD)
                plan_add_slice(partition, (struct slice){fill->sample[i], begin, stop});
            else
                plan_add_slice(partition,
                               (struct slice){fill->sample[i], (int32_t)tokens - stop, (int32_t)tokens - begin});
            if (at == last) {
                first = last;
                i++;
            }
        }
        plan_add_micro_batch(partition);
        n_micro_batches++;
    }
    free(end);
    return n_micro_batches;
}
