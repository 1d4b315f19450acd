/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "dag/relations.h"

#include <stdlib.h>

#include "base/check.h"

/* State of the walk over slices. */
struct walk {
    const struct plan_partition *forward, *backward;
    struct relations *relations;
    int32_t *micro_batch_of; /* of each forward slice */
    int32_t *before;         /* of each forward slice: the slice before it in its sample, -1: none */
    int32_t *last;           /* of each sample: its last forward slice not yet consumed, -1: none */
    int32_t *run;            /* of each sample: the backward micro-batch that ran last, -1: none */
    bool *sliced;            /* of each sample: it is in several micro-batches of a pass */
    int32_t *mark;           /* of each micro-batch: the last micro-batch that lists it, or the share it has */
};

static int32_t n_samples(const struct plan_partition *partition)
{
    int32_t n = 0;
    for (int32_t i = 0; i < partition->n_slices; i++)
        if (partition->slices[i].sample >= n)
            n = partition->slices[i].sample + 1;
    return n;
}

static int32_t *all_none(int32_t n)
{
    int32_t *array = check_malloc((size_t)n * sizeof *array);
    for (int32_t i = 0; i < n; i++)
        array[i] = -1;
    return array;
}

/* Append `earlier` to the list of `micro_batch` unless it is there. Lists are filled in order of micro-batches. */
static int32_t add_after(struct walk *walk, enum pass pass, int32_t n, int32_t micro_batch, int32_t earlier)
{
    if (earlier == micro_batch || walk->mark[earlier] == micro_batch)
        return n;
    walk->mark[earlier] = micro_batch;
    walk->relations->after[pass][n] = earlier;
    return n + 1;
}

static void walk_forward(struct walk *walk)
{
    const struct plan_partition *partition = walk->forward;
    int32_t n = 0;
    for (int32_t micro_batch = 0; micro_batch < partition->n_micro_batches; micro_batch++) {
        walk->relations->after_first[PASS_FORWARD][micro_batch] = n;
        for (int32_t k = 0; k < partition->micro_batches[micro_batch].n_slices; k++) {
            int32_t i = partition->micro_batches[micro_batch].first_slice + k, sample = partition->slices[i].sample;
            int32_t before = walk->last[sample];
            walk->before[i] = before;
            walk->micro_batch_of[i] = micro_batch;
            walk->last[sample] = i;
            if (before >= 0 && walk->micro_batch_of[before] != micro_batch) {
                walk->sliced[sample] = true;
                n = add_after(walk, PASS_FORWARD, n, micro_batch, walk->micro_batch_of[before]);
            }
        }
    }
    walk->relations->after_first[PASS_FORWARD][partition->n_micro_batches] = n;
}

static void walk_backward(struct walk *walk)
{
    const struct plan_partition *partition = walk->backward;
    struct relations *relations = walk->relations;
    int32_t n = 0;
    for (int32_t micro_batch = 0; micro_batch < partition->n_micro_batches; micro_batch++) {
        relations->after_first[PASS_BACKWARD][micro_batch] = n;
        for (int32_t k = 0; k < partition->micro_batches[micro_batch].n_slices; k++) {
            struct slice slice = partition->slices[partition->micro_batches[micro_batch].first_slice + k];
            int32_t later = walk->run[slice.sample];
            if (later >= 0) {
                walk->sliced[slice.sample] |= later != micro_batch;
                relations->closed_tokens[micro_batch] += slice_tokens(slice);
                n = add_after(walk, PASS_BACKWARD, n, micro_batch, later);
            } else {
                relations->opened_tokens[micro_batch] += slice.begin;
            }
            walk->run[slice.sample] = micro_batch;
        }
    }
    relations->after_first[PASS_BACKWARD][partition->n_micro_batches] = n;
}

/*
 * Add tokens of a forward micro-batch to the shares of a backward micro-batch, which begin at `first`. @return number
 * of shares so far
 */
static int32_t add_share(struct walk *walk, int32_t first, int32_t n, struct relations_share share)
{
    struct relations_share *shares = walk->relations->shares;
    int32_t at = walk->mark[share.forward];
    walk->relations->sliced_tokens[share.forward] += share.sliced_tokens;
    if (at < first) {
        walk->mark[share.forward] = n;
        shares[n] = share;
        return n + 1;
    }
    shares[at].whole_tokens += share.whole_tokens;
    shares[at].sliced_tokens += share.sliced_tokens;
    return n;
}

/* Take the tokens of one backward slice from the end of the sample's remaining tokens. */
static int32_t consume(struct walk *walk, struct slice slice, int32_t first, int32_t n)
{
    int32_t i = walk->last[slice.sample], end = slice.end;
    while (end > slice.begin) {
        CHECK(i >= 0 && walk->forward->slices[i].begin < end && end <= walk->forward->slices[i].end);
        int32_t begin = walk->forward->slices[i].begin > slice.begin ? walk->forward->slices[i].begin : slice.begin;
        bool sliced = walk->sliced[slice.sample];
        struct relations_share share = {walk->micro_batch_of[i], sliced ? 0 : end - begin, sliced ? end - begin : 0};
        n = add_share(walk, first, n, share);
        end = begin;
        if (begin == walk->forward->slices[i].begin)
            i = walk->before[i];
    }
    walk->last[slice.sample] = i;
    return n;
}

static void walk_shares(struct walk *walk)
{
    const struct plan_partition *partition = walk->backward;
    int32_t n = 0;
    for (int32_t micro_batch = 0; micro_batch < partition->n_micro_batches; micro_batch++) {
        int32_t first = n;
        walk->relations->share_first[micro_batch] = first;
        for (int32_t k = 0; k < partition->micro_batches[micro_batch].n_slices; k++)
            n = consume(walk, partition->slices[partition->micro_batches[micro_batch].first_slice + k], first, n);
        if (partition->micro_batches[micro_batch].padding_tokens > 0) {
            struct relations_share share = {partition->micro_batches[micro_batch].padding_of,
                                            partition->micro_batches[micro_batch].padding_tokens, 0};
            n = add_share(walk, first, n, share);
        }
    }
    walk->relations->share_first[partition->n_micro_batches] = n;
}

static void allocate(struct relations *relations, const struct plan_partition *partition)
{
    size_t n_micro_batches[N_PASSES] = {(size_t)partition[PASS_FORWARD].n_micro_batches,
                                        (size_t)partition[PASS_BACKWARD].n_micro_batches};
    size_t n_slices = (size_t)partition[PASS_FORWARD].n_slices + (size_t)partition[PASS_BACKWARD].n_slices;
    for (int pass = 0; pass < N_PASSES; pass++) {
        relations->after_first[pass] = check_malloc((n_micro_batches[pass] + 1) * sizeof(int32_t));
        relations->after[pass] = check_malloc((size_t)partition[pass].n_slices * sizeof(int32_t));
        relations->last_after[pass] = all_none(partition[pass].n_micro_batches);
    }
    relations->last_share = all_none(partition[PASS_BACKWARD].n_micro_batches);
    relations->share_first = check_malloc((n_micro_batches[PASS_BACKWARD] + 1) * sizeof(int32_t));
    /* Each backward slice ends one share; each end of a forward slice ends another; each padding is one. */
    relations->shares = check_malloc((n_slices + n_micro_batches[PASS_BACKWARD]) * sizeof *relations->shares);
    relations->sliced_tokens = check_calloc(n_micro_batches[PASS_FORWARD], sizeof(int64_t));
    relations->opened_tokens = check_calloc(n_micro_batches[PASS_BACKWARD], sizeof(int64_t));
    relations->closed_tokens = check_calloc(n_micro_batches[PASS_BACKWARD], sizeof(int64_t));
}

static void restart_marks(struct walk *walk, int32_t n_micro_batches)
{
    free(walk->mark);
    walk->mark = all_none(n_micro_batches);
}

static void find_last(struct relations *relations, const struct plan_partition *partition)
{
    for (int pass = 0; pass < N_PASSES; pass++)
        for (int32_t micro_batch = 0; micro_batch < partition[pass].n_micro_batches; micro_batch++)
            for (int32_t i = relations->after_first[pass][micro_batch];
                 i < relations->after_first[pass][micro_batch + 1]; i++)
                if (relations->after[pass][i] > relations->last_after[pass][micro_batch])
                    relations->last_after[pass][micro_batch] = relations->after[pass][i];
    for (int32_t micro_batch = 0; micro_batch < partition[PASS_BACKWARD].n_micro_batches; micro_batch++)
        for (int32_t i = relations->share_first[micro_batch]; i < relations->share_first[micro_batch + 1]; i++)
            if (relations->shares[i].forward > relations->last_share[micro_batch])
                relations->last_share[micro_batch] = relations->shares[i].forward;
}

void relations_of(const struct plan_pipeline *pipeline, struct relations *relations)
{
    const struct plan_partition *partition = pipeline->partition;
    int32_t n_forward = n_samples(&partition[PASS_FORWARD]), n_backward = n_samples(&partition[PASS_BACKWARD]);
    int32_t n = n_forward > n_backward ? n_forward : n_backward;
    struct walk walk = {
        .forward = &partition[PASS_FORWARD], .backward = &partition[PASS_BACKWARD], .relations = relations};
    walk.micro_batch_of = check_malloc((size_t)partition[PASS_FORWARD].n_slices * sizeof(int32_t));
    walk.before = check_malloc((size_t)partition[PASS_FORWARD].n_slices * sizeof(int32_t));
    walk.last = all_none(n);
    walk.run = all_none(n);
    walk.sliced = check_calloc((size_t)n, sizeof(bool));
    allocate(relations, partition);

    restart_marks(&walk, partition[PASS_FORWARD].n_micro_batches);
    walk_forward(&walk);
    restart_marks(&walk, partition[PASS_BACKWARD].n_micro_batches);
    walk_backward(&walk);
    restart_marks(&walk, partition[PASS_FORWARD].n_micro_batches);
    walk_shares(&walk); /* it is known by now which samples are sliced */
    find_last(relations, partition);

    free(walk.micro_batch_of);
    free(walk.before);
    free(walk.last);
    free(walk.run);
    free(walk.sliced);
    free(walk.mark);
}

void relations_free(struct relations *relations)
{
    for (int pass = 0; pass < N_PASSES; pass++) {
        free(relations->after_first[pass]);
        free(relations->after[pass]);
        free(relations->last_after[pass]);
    }
    free(relations->last_share);
    free(relations->share_first);
    free(relations->shares);
    free(relations->sliced_tokens);
    free(relations->opened_tokens);
    free(relations->closed_tokens);
    *relations = (struct relations){0};
}
