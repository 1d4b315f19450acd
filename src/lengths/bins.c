/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "lengths/bins.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/compare.h"

static int longest_first(const void *a, const void *b, void *tokens)
{
    int32_t i = *(const int32_t *)a, j = *(const int32_t *)b;
    const int32_t *length = tokens;
    return length[i] != length[j] ? COMPARE(length[j], length[i]) : COMPARE(i, j);
}

int32_t *bins_order(const int32_t *tokens, int32_t n)
{
    int32_t *order = check_malloc((size_t)n * sizeof *order);
    for (int32_t i = 0; i < n; i++)
        order[i] = i;
    qsort_r(order, (size_t)n, sizeof *order, longest_first, (void *)tokens);
    return order;
}

/**
 * Open bins by the room that they have left. Each room has a leftist heap of bins, with the lowest bin on top. A tree
 * over rooms stores which rooms have bins. Every step is O(log).
 */
struct bins {
    int32_t n_bins;
    int32_t *left, *right, *rank; /* of each bin in its heap; -1: none */
    int32_t *top;                 /* of each room: the lowest bin + 1; 0: none */
    int32_t n_leaves;             /* power of two above the capacity */
    bool *any;                    /* [2 n_leaves] whether the rooms below a node have bins; leaves begin at n_leaves */
};

static void bins_open(struct bins *bins, int32_t n_samples, int32_t capacity)
{
    CHECK(capacity < 1 << 30);
    *bins = (struct bins){.n_leaves = 1};
    while (bins->n_leaves <= capacity)
        bins->n_leaves *= 2;
    bins->left = check_malloc((size_t)n_samples * sizeof(int32_t));
    bins->right = check_malloc((size_t)n_samples * sizeof(int32_t));
    bins->rank = check_malloc((size_t)n_samples * sizeof(int32_t));
    bins->top = check_calloc((size_t)bins->n_leaves, sizeof(int32_t));
    bins->any = check_calloc(2 * (size_t)bins->n_leaves, sizeof(bool));
}

static void bins_close(struct bins *bins)
{
    free(bins->left);
    free(bins->right);
    free(bins->rank);
    free(bins->top);
    free(bins->any);
}

/** Merge two heaps. The deeper child is on the left, so the depth is logarithmic. */
static int32_t heap_merged(struct bins *bins, int32_t a, int32_t b)
{
    if (a < 0 || b < 0)
        return a < 0 ? b : a;
    int32_t low = a < b ? a : b;
    int32_t right = heap_merged(bins, bins->right[low], a < b ? b : a);
    int32_t left = bins->left[low];
    bool swap = left < 0 || bins->rank[left] < bins->rank[right];
    bins->left[low] = swap ? right : left;
    bins->right[low] = swap ? left : right;
    bins->rank[low] = bins->right[low] < 0 ? 1 : bins->rank[bins->right[low]] + 1;
    return low;
}

/** Set the lowest bin of a room; -1: none. */
static void set_top(struct bins *bins, int32_t room, int32_t bin)
{
    int32_t node = bins->n_leaves + room;
    bool any = bin >= 0;
    bins->top[room] = bin + 1;
    while (node >= 1 && bins->any[node] != any) { /* a node that stays leaves all above it */
        bins->any[node] = any;
        any = any || bins->any[node ^ 1];
        node /= 2;
    }
}

/** Return the least room of at least `tokens` among bins; -1: none. */
static int32_t least_room(const struct bins *bins, int32_t tokens)
{
    int32_t node = bins->n_leaves + tokens;
    while (!bins->any[node]) { /* go up to a right neighbour with bins */
        while (node > 1 && node % 2 == 1)
            node /= 2;
        if (node <= 1)
            return -1;
        node++;
    }
    while (node < bins->n_leaves) /* go down to its leftmost leaf */
        node = bins->any[2 * node] ? 2 * node : 2 * node + 1;
    return node - bins->n_leaves;
}

/** Return the bin that takes a sample, with its room updated. */
static int32_t bins_put(struct bins *bins, int32_t tokens, int32_t capacity)
{
    int32_t room = least_room(bins, tokens), bin;
    if (room < 0) {
        room = capacity;
        bin = bins->n_bins++;
    } else {
        bin = bins->top[room] - 1;
        set_top(bins, room, heap_merged(bins, bins->left[bin], bins->right[bin]));
    }
    bins->left[bin] = bins->right[bin] = -1;
    bins->rank[bin] = 1;
    set_top(bins, room - tokens, heap_merged(bins, bins->top[room - tokens] - 1, bin));
    return bin;
}

int32_t bins_pack(const int32_t *tokens, const int32_t *order, int32_t n, int32_t capacity, int32_t *bin)
{
    struct bins bins;
    bins_open(&bins, n, capacity);
    for (int32_t i = 0; i < n; i++) {
        CHECK(1 <= tokens[order[i]] && tokens[order[i]] <= capacity);
        bin[i] = bins_put(&bins, tokens[order[i]], capacity);
    }
    bins_close(&bins);
    return bins.n_bins;
}

/** Return the number of bins of the first samples. */
static int32_t count_bins(struct bins *bins, const int32_t *tokens, const int32_t *order, int32_t n, int32_t capacity)
{
    bins->n_bins = 0;
    for (int32_t room = least_room(bins, 0); room >= 0; room = least_room(bins, 0))
        set_top(bins, room, -1); /* bins of the count before */
    for (int32_t i = 0, found = 0; found < n; i++)
        if (order[i] < n) {
            bins_put(bins, tokens[order[i]], capacity);
            found++;
        }
    return bins->n_bins;
}

int32_t bins_prefix(const int32_t *tokens, int32_t n, int32_t capacity, int32_t n_bins)
{
    struct bins bins;
    int32_t *order = bins_order(tokens, n), fits = n, above = n + 1, count;
    bins_open(&bins, n, capacity);
    while ((count = count_bins(&bins, tokens, order, fits, capacity)) > n_bins) { /* leave out what it is too much */
        int64_t excess = (int64_t)(count - n_bins) * capacity;
        for (above = fits; excess > 0 && fits > n_bins; fits--)
            excess -= tokens[fits - 1];
    }
    while (above - fits > 1) {
        int32_t middle = fits + (above - fits) / 2;
        bool ok = count_bins(&bins, tokens, order, middle, capacity) <= n_bins;
        fits = ok ? middle : fits;
        above = ok ? above : middle;
    }
    bins_close(&bins);
    free(order);
    return fits;
}
