/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "dag/equal_pipelines.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/compare.h"
#include "base/hash.h"
#include "dag/joins.h"

/* A pipeline's slices, forward then backward, with samples numbered in order of first appearance. */
struct form {
    const struct plan_pipeline *pipeline;
    int32_t number; /* of the pipeline */
    uint64_t hash;  /* of layout and slices; equal if the pipelines are equal */
    int32_t n_slices;
    struct slice *slices;
};

/* Numbers of the samples in the current pipeline. */
struct numbers {
    int32_t *of;       /* [samples] */
    int32_t *pipeline; /* [samples] pipeline that `of` is about, -1: none */
};

static int32_t n_samples(const struct plan_phase *phase)
{
    int32_t most = -1;
    for (int32_t i = 0; i < phase->n_pipelines; i++)
        for (int pass = 0; pass < N_PASSES; pass++) {
            const struct plan_partition *partition = &phase->pipelines[i].partition[pass];
            for (int32_t k = 0; k < partition->n_slices; k++)
                most = partition->slices[k].sample > most ? partition->slices[k].sample : most;
        }
    return most + 1;
}

static struct form form_of(const struct plan_phase *phase, int32_t number, struct numbers *numbers)
{
    const struct plan_pipeline *pipeline = &phase->pipelines[number];
    int32_t n = pipeline->partition[PASS_FORWARD].n_slices + pipeline->partition[PASS_BACKWARD].n_slices, n_known = 0;
    struct form form = {
        .pipeline = pipeline, .number = number, .slices = check_malloc((size_t)n * sizeof *form.slices)};
    for (int pass = 0; pass < N_PASSES; pass++)
        for (int32_t i = 0; i < pipeline->partition[pass].n_slices; i++) {
            struct slice slice = pipeline->partition[pass].slices[i];
            if (numbers->pipeline[slice.sample] != number) {
                numbers->pipeline[slice.sample] = number;
                numbers->of[slice.sample] = n_known++;
            }
            slice.sample = numbers->of[slice.sample];
            form.slices[form.n_slices++] = slice;
        }
    const struct plan_layout *layout = &pipeline->layout;
    const int32_t kind[] = {layout->tensor, layout->context,      layout->stages,
                            layout->chunks, layout->stage_stride, pipeline->partition[PASS_FORWARD].n_micro_batches,
                            form.n_slices};
    form.hash = hash_bytes(HASH_START, kind, sizeof kind);
    form.hash = hash_bytes(form.hash, form.slices, (size_t)n * sizeof *form.slices);
    return form;
}

/** Return whether a rank is as many nodes, NVLink domains and sockets behind the first rank in both layouts. */
static bool equal_places(const struct plan_layout *a, const struct plan_layout *b, int32_t rank,
                         const struct platform *platform)
{
    int32_t i = a->first_rank, j = b->first_rank;
    return platform_node_of(platform, i + rank) - platform_node_of(platform, i) ==
               platform_node_of(platform, j + rank) - platform_node_of(platform, j) &&
           platform_domain_of(platform, i + rank) - platform_domain_of(platform, i) ==
               platform_domain_of(platform, j + rank) - platform_domain_of(platform, j) &&
           platform_socket_of(platform, i + rank) - platform_socket_of(platform, i) ==
               platform_socket_of(platform, j + rank) - platform_socket_of(platform, j);
}

static bool equal_layouts(const struct plan_layout *a, const struct plan_layout *b, const struct platform *platform)
{
    if (a->tensor != b->tensor || a->context != b->context || a->stages != b->stages || a->chunks != b->chunks ||
        a->stage_stride != b->stage_stride)
        return false;
    for (int32_t stage = 0; stage < a->stages; stage++)
        for (int32_t i = 0; i < a->context * a->tensor; i++)
            if (!equal_places(a, b, stage * a->stage_stride + i, platform))
                return false;
    return true;
}

static bool equal_micro_batches(const struct plan_partition *a, const struct plan_partition *b)
{
    if (a->n_micro_batches != b->n_micro_batches)
        return false;
    for (int32_t i = 0; i < a->n_micro_batches; i++) {
        const struct plan_micro_batch *x = &a->micro_batches[i], *y = &b->micro_batches[i];
        if (x->first_slice != y->first_slice || x->n_slices != y->n_slices || x->padding_tokens != y->padding_tokens ||
            x->padding_of != y->padding_of || x->context != y->context || x->group != y->group ||
            x->sharding != y->sharding || x->parts != y->parts || x->recompute != y->recompute ||
            x->offload != y->offload || x->streams != y->streams)
            return false;
    }
    return true;
}

static bool equal_orders(const struct plan_pipeline *a, const struct plan_pipeline *b)
{
    int32_t stages = a->layout.stages;
    for (int32_t i = 0; i <= stages; i++)
        if (a->step_first[i] != b->step_first[i])
            return false;
    for (int32_t i = 0; i < a->step_first[stages]; i++)
        if (a->steps[i].pass != b->steps[i].pass || a->steps[i].micro_batch != b->steps[i].micro_batch ||
            a->steps[i].chunk != b->steps[i].chunk)
            return false;
    return true;
}

static bool equal_offloads(const struct plan_pipeline *a, const struct plan_pipeline *b)
{
    int32_t n = a->partition[PASS_FORWARD].n_micro_batches * a->layout.stages * a->layout.chunks;
    if (a->offload == NULL || b->offload == NULL)
        return a->offload == b->offload;
    for (int32_t i = 0; i < n; i++)
        if (a->offload[i] != b->offload[i])
            return false;
    return true;
}

static bool are_equal(const struct form *a, const struct form *b, const struct platform *platform)
{
    const struct plan_pipeline *x = a->pipeline, *y = b->pipeline;
    return a->n_slices == b->n_slices && memcmp(a->slices, b->slices, (size_t)a->n_slices * sizeof *a->slices) == 0 &&
           equal_layouts(&x->layout, &y->layout, platform) && x->splits_backward == y->splits_backward &&
           equal_micro_batches(&x->partition[PASS_FORWARD], &y->partition[PASS_FORWARD]) &&
           equal_micro_batches(&x->partition[PASS_BACKWARD], &y->partition[PASS_BACKWARD]) && equal_orders(x, y) &&
           equal_offloads(x, y);
}

bool dag_same_passes(const struct plan_pipeline *a, const struct plan_pipeline *b)
{
    const struct plan_layout *x = &a->layout, *y = &b->layout;
    bool same = x->tensor == y->tensor && x->context == y->context && x->stages == y->stages &&
                x->chunks == y->chunks && a->splits_backward == b->splits_backward;
    for (int pass = 0; same && pass < N_PASSES; pass++) {
        const struct plan_partition *of_a = &a->partition[pass], *of_b = &b->partition[pass];
        same = of_a->n_slices == of_b->n_slices && equal_micro_batches(of_a, of_b);
        for (int32_t i = 0; same && i < of_a->n_slices; i++)
            same = of_a->slices[i].begin == of_b->slices[i].begin && of_a->slices[i].end == of_b->slices[i].end;
    }
    return same && equal_orders(a, b) && equal_offloads(a, b);
}

static int by_hash(const void *a, const void *b)
{
    const struct form *x = a, *y = b;
    return x->hash != y->hash ? COMPARE(x->hash, y->hash) : COMPARE(x->number, y->number);
}

bool equal_pipelines_contexts(const struct plan_pipeline *pipeline, const struct platform *platform)
{
    const struct plan_layout *layout = &pipeline->layout;
    bool equal = layout->context > 1;
    for (int pass = 0; pass < N_PASSES; pass++)
        for (int32_t micro_batch = 0; equal && micro_batch < pipeline->partition[pass].n_micro_batches; micro_batch++)
            equal = pipeline->partition[pass].micro_batches[micro_batch].context == layout->context;
    for (int32_t stage = 1; equal && stage < layout->stages; stage++) {
        int32_t n_inside = 0, n_crossing = 0;
        for (int32_t i = 0; i < layout->context; i++) {
            int32_t from = plan_rank(layout, stage - 1, i, 0), to = plan_rank(layout, stage, i, 0);
            n_inside += platform_same_domain(platform, from, to);
            n_crossing += platform_crosses_sockets(platform, from, to);
        }
        equal = (n_inside == 0 || n_inside == layout->context) && (n_crossing == 0 || n_crossing == layout->context);
    }
    return equal;
}

/* Return whether all pipelines are equal, or take no part in each other's passes. */
static bool are_apart(const struct plan_phase *phase, const struct cost_setting *setting, const int32_t *equal)
{
    bool apart = true;
    for (int32_t i = 0; i < phase->n_pipelines; i++)
        apart = apart && equal[i] == 0;
    return apart || joins_n_pipelines(setting, &phase->pipelines[0].layout) == 1;
}

int32_t *equal_pipelines_of(const struct plan_phase *phase, const struct cost_setting *setting)
{
    const struct platform *platform = setting->platform;
    int32_t n = phase->n_pipelines, n_numbers = n_samples(phase);
    int32_t *equal = check_malloc((size_t)n * sizeof *equal);
    struct numbers numbers = {check_malloc((size_t)n_numbers * sizeof(int32_t)),
                              check_malloc((size_t)n_numbers * sizeof(int32_t))};
    struct form *forms = check_malloc((size_t)n * sizeof *forms);
    for (int32_t i = 0; i < n_numbers; i++)
        numbers.pipeline[i] = -1;
    for (int32_t i = 0; i < n; i++)
        forms[i] = form_of(phase, i, &numbers);
    qsort(forms, (size_t)n, sizeof *forms, by_hash);
    for (int32_t i = 0, first = 0; i < n; i++) { /* first: the first pipeline with this hash */
        first = forms[first].hash == forms[i].hash ? first : i;
        int32_t other = first;
        while (other < i &&
               (equal[forms[other].number] != forms[other].number || !are_equal(&forms[other], &forms[i], platform)))
            other++;
        equal[forms[i].number] = forms[other].number;
    }
    for (int32_t i = 0; i < n; i++)
        free(forms[i].slices);
    free(forms);
    free(numbers.of);
    free(numbers.pipeline);
    if (are_apart(phase, setting, equal))
        return equal;
    free(equal);
    return NULL;
}

bool equal_pipelines_fold(const struct plan *plan, const struct cost_setting *setting, struct dag_options options)
{
    const struct plan_phase *phase = &plan->phases[0];
    bool several = phase->n_pipelines > 1;
    if (!options.fold_equal || options.all_tensor_ranks || dag_differs_by_gpu(setting) || plan->n_phases != 1 ||
        phase->n_groups > 0 || phase->n_attentions > 0 || phase->n_reshards > 0)
        return false;
    for (int32_t i = 0; i < phase->n_pipelines; i++)
        several = several || phase->pipelines[i].layout.context > 1;
    return several;
}
