/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

/* Return the capacity of an array of n elements: 16, doubled as often as needed. So the structs store no capacity. */
static size_t room(int32_t n)
{
    size_t capacity = 16;
    while (capacity < (size_t)n)
        capacity *= 2;
    return capacity;
}

static void *grown(void *array, int32_t n, size_t size)
{
    bool full = n == 0 || (n >= 16 && (n & (n - 1)) == 0);
    return full ? check_realloc(array, room(n + 1) * size) : array;
}

void plan_add_slice(struct plan_partition *partition, struct slice slice)
{
    partition->slices = grown(partition->slices, partition->n_slices, sizeof *partition->slices);
    partition->slices[partition->n_slices++] = slice;
}

struct plan_micro_batch *plan_add_micro_batch(struct plan_partition *partition)
{
    int32_t first = 0;
    if (partition->n_micro_batches > 0) {
        const struct plan_micro_batch *last = &partition->micro_batches[partition->n_micro_batches - 1];
        first = last->first_slice + last->n_slices;
    }
    partition->micro_batches =
        grown(partition->micro_batches, partition->n_micro_batches, sizeof *partition->micro_batches);
    struct plan_micro_batch *micro_batch = &partition->micro_batches[partition->n_micro_batches++];
    *micro_batch = (struct plan_micro_batch){
        .first_slice = first, .n_slices = partition->n_slices - first, .context = 1, .group = -1};
    micro_batch->padding_of = partition->n_micro_batches - 1;
    return micro_batch;
}

void plan_add_attention(struct plan_phase *phase, enum pass pass, enum plan_beside beside)
{
    phase->attentions = grown(phase->attentions, phase->n_attentions, sizeof *phase->attentions);
    phase->attentions[phase->n_attentions++] = (struct plan_attention){pass, beside, phase->n_blocks, 0};
}

void plan_add_block(struct plan_phase *phase, struct plan_place from, struct plan_place to, double share)
{
    phase->blocks = grown(phase->blocks, phase->n_blocks, sizeof *phase->blocks);
    phase->blocks[phase->n_blocks++] =
        (struct plan_block){.from = from, .to = to, .share = share, .first_slice = phase->n_block_slices};
    phase->attentions[phase->n_attentions - 1].n_blocks++;
}

void plan_add_block_slice(struct plan_phase *phase, struct slice slice)
{
    phase->block_slices = grown(phase->block_slices, phase->n_block_slices, sizeof *phase->block_slices);
    phase->block_slices[phase->n_block_slices++] = slice;
    phase->blocks[phase->n_blocks - 1].n_slices++;
}

int32_t plan_next_of_group(const struct plan_partition *partition, int32_t index, int32_t group)
{
    while (index < partition->n_micro_batches && partition->micro_batches[index].group != group)
        index++;
    return index;
}

int64_t plan_micro_batch_tokens(const struct plan_partition *partition, int32_t micro_batch)
{
    const struct slice *slice = partition->slices + partition->micro_batches[micro_batch].first_slice;
    int64_t tokens = 0;
    for (int32_t i = 0; i < partition->micro_batches[micro_batch].n_slices; i++)
        tokens += slice_tokens(slice[i]);
    return tokens;
}

int64_t plan_tokens(const struct plan *plan, int64_t n_tokens, const int32_t *tokens)
{
    for (int32_t i = 0; i < plan->n_delayed; i++)
        n_tokens -= tokens[plan->delayed[i]];
    for (int32_t i = 0; i < plan->n_carried; i++)
        n_tokens += plan->carried_tokens[i];
    return n_tokens;
}

int64_t plan_padded_tokens(const struct plan *plan)
{
    int64_t tokens = 0;
    for (int32_t i = 0; i < plan->n_phases && plan->n_padded > 0; i++)
        for (int32_t j = 0; j < plan->phases[i].n_pipelines; j++) {
            const struct plan_partition *forward = &plan->phases[i].pipelines[j].partition[PASS_FORWARD];
            for (int32_t k = 0; k < forward->n_slices; k++)
                tokens += forward->slices[k].end - plan->real_tokens[forward->slices[k].sample];
        }
    return tokens;
}

bool plan_offloads(const struct plan_pipeline *pipeline)
{
    const struct plan_partition *partition = &pipeline->partition[PASS_FORWARD];
    for (int32_t micro_batch = 0; pipeline->offload == NULL && micro_batch < partition->n_micro_batches; micro_batch++)
        if (partition->micro_batches[micro_batch].offload > 0)
            return true;
    return pipeline->offload != NULL;
}

bool plan_returns_at_once(const struct plan_pipeline *pipeline, int32_t micro_batch)
{
    int32_t stages = pipeline->layout.stages, chunks = pipeline->layout.chunks;
    /* (interleaved) 1F1B: the last stage warms up on all chunks but the last, then runs a forward and a backward;
     * zero-bubble: from the p-th micro-batch on a pass of weights' gradients follows */
    int32_t weights = pipeline->splits_backward && micro_batch >= stages ? micro_batch - stages + 1 : 0;
    int32_t forward = pipeline->step_first[stages - 1] + (chunks - 1) * stages +
                      2 * (micro_batch / stages * stages * chunks + micro_batch % stages) + weights;
    if (forward + 1 >= pipeline->step_first[stages])
        return false;
    const struct plan_step *step = &pipeline->steps[forward];
    return step[0].pass == PASS_FORWARD && step[1].pass == PASS_BACKWARD && step[0].chunk == chunks - 1 &&
           step[1].chunk == chunks - 1 && step[0].micro_batch == micro_batch && step[1].micro_batch == micro_batch;
}

void plan_fill_need(struct plan_pipeline *pipeline)
{
    const struct plan_partition *forward = &pipeline->partition[PASS_FORWARD],
                                *backward = &pipeline->partition[PASS_BACKWARD];
    int32_t n_samples = 0;
    for (int32_t i = 0; i < forward->n_slices; i++)
        if (forward->slices[i].sample >= n_samples)
            n_samples = forward->slices[i].sample + 1;
    int32_t *last = check_malloc((size_t)n_samples * sizeof *last); /* 1 + the last micro-batch that holds the sample */
    for (int32_t micro_batch = 0; micro_batch < forward->n_micro_batches; micro_batch++)
        for (int32_t i = 0; i < forward->micro_batches[micro_batch].n_slices; i++)
            last[forward->slices[forward->micro_batches[micro_batch].first_slice + i].sample] = micro_batch + 1;
    pipeline->need = check_realloc(pipeline->need, (size_t)backward->n_micro_batches * sizeof *pipeline->need);
    for (int32_t micro_batch = 0; micro_batch < backward->n_micro_batches; micro_batch++) {
        pipeline->need[micro_batch] = backward->micro_batches[micro_batch].padding_tokens > 0
                                          ? backward->micro_batches[micro_batch].padding_of + 1
                                          : 0;
        for (int32_t i = 0; i < backward->micro_batches[micro_batch].n_slices; i++) {
            int32_t need = last[backward->slices[backward->micro_batches[micro_batch].first_slice + i].sample];
            if (need > pipeline->need[micro_batch])
                pipeline->need[micro_batch] = need;
        }
    }
    free(last);
}

/* Copy n elements with the capacity that growth expects. NULL stays NULL. */
static void *copied(const void *array, int32_t n, size_t size)
{
    if (array == NULL)
        return NULL;
    void *copy = check_malloc(room(n) * size);
    memcpy(copy, array, (size_t)n * size);
    return copy;
}

static void copy_pipeline(const struct plan_pipeline *from, struct plan_pipeline *to)
{
    *to = *from;
    for (int pass = 0; pass < N_PASSES; pass++) {
        const struct plan_partition *partition = &from->partition[pass];
        to->partition[pass].slices = copied(partition->slices, partition->n_slices, sizeof *partition->slices);
        to->partition[pass].micro_batches =
            copied(partition->micro_batches, partition->n_micro_batches, sizeof *partition->micro_batches);
    }
    to->need = copied(from->need, from->partition[PASS_BACKWARD].n_micro_batches, sizeof *from->need);
    to->step_first = copied(from->step_first, from->layout.stages + 1, sizeof *from->step_first);
    if (from->step_first != NULL)
        to->steps = copied(from->steps, from->step_first[from->layout.stages], sizeof *from->steps);
    int32_t n_virtual = from->layout.stages * from->layout.chunks;
    to->offload =
        copied(from->offload, n_virtual * from->partition[PASS_FORWARD].n_micro_batches, sizeof *from->offload);
}

static void copy_phase(const struct plan_phase *from, struct plan_phase *to)
{
    *to = *from;
    to->pipelines = copied(from->pipelines, from->n_pipelines, sizeof *from->pipelines);
    to->groups = copied(from->groups, from->n_groups, sizeof *from->groups);
    to->reshards = copied(from->reshards, from->n_reshards, sizeof *from->reshards);
    to->attentions = copied(from->attentions, from->n_attentions, sizeof *from->attentions);
    to->blocks = copied(from->blocks, from->n_blocks, sizeof *from->blocks);
    to->block_slices = copied(from->block_slices, from->n_block_slices, sizeof *from->block_slices);
    for (int32_t i = 0; i < from->n_pipelines; i++)
        copy_pipeline(&from->pipelines[i], &to->pipelines[i]);
    for (int32_t i = 0; i < from->n_groups; i++)
        to->groups[i].pipelines =
            copied(from->groups[i].pipelines, from->groups[i].n_pipelines, sizeof *from->groups[i].pipelines);
}

void plan_copy(const struct plan *plan, struct plan *copy)
{
    *copy = *plan;
    copy->phases = copied(plan->phases, plan->n_phases, sizeof *plan->phases);
    copy->delayed = copied(plan->delayed, plan->n_delayed, sizeof *plan->delayed);
    copy->carried_tokens = copied(plan->carried_tokens, plan->n_carried, sizeof *plan->carried_tokens);
    copy->real_tokens = copied(plan->real_tokens, plan->n_padded, sizeof *plan->real_tokens);
    for (int32_t i = 0; i < plan->n_phases; i++)
        copy_phase(&plan->phases[i], &copy->phases[i]);
}

void plan_pipeline_free(struct plan_pipeline *pipeline)
{
    for (int pass = 0; pass < N_PASSES; pass++) {
        free(pipeline->partition[pass].slices);
        free(pipeline->partition[pass].micro_batches);
    }
    free(pipeline->need);
    free(pipeline->step_first);
    free(pipeline->steps);
    free(pipeline->offload);
    *pipeline = (struct plan_pipeline){0};
}

void plan_phase_free(struct plan_phase *phase)
{
    for (int32_t i = 0; i < phase->n_pipelines; i++)
        plan_pipeline_free(&phase->pipelines[i]);
    for (int32_t i = 0; i < phase->n_groups; i++)
        free(phase->groups[i].pipelines);
    free(phase->pipelines);
    free(phase->groups);
    free(phase->reshards);
    free(phase->attentions);
    free(phase->blocks);
    free(phase->block_slices);
    *phase = (struct plan_phase){0};
}

void plan_free(struct plan *plan)
{
    for (int32_t i = 0; i < plan->n_phases; i++)
        plan_phase_free(&plan->phases[i]);
    free(plan->phases);
    free(plan->delayed);
    free(plan->carried_tokens);
    free(plan->real_tokens);
    *plan = (struct plan){0};
}
