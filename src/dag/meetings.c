/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "dag/meetings.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/compare.h"

static int32_t add_meeting(struct builder *builder, int32_t attention)
{
    builder->meetings =
        check_grow(builder->meetings, (size_t)builder->n_meetings, &builder->meetings_room, sizeof *builder->meetings);
    builder->meetings[builder->n_meetings] = (struct builder_meeting){.attention = attention, .last = -1};
    return builder->n_meetings++;
}

static int32_t *meeting_at(struct builder *builder, enum pass pass, struct plan_place place)
{
    const struct builder_pipe *pipe = &builder->pipes[place.pipeline];
    return &pipe->meeting[pass][place.micro_batch * pipe->n_virtual + place.stage];
}

/* Let a micro-batch of a virtual stage be part of a meeting. */
static void meet(struct builder *builder, int32_t meeting, enum pass pass, struct plan_place place)
{
    int32_t *at = meeting_at(builder, pass, place);
    CHECK(*at < 0 || *at == meeting);
    builder->meetings[meeting].n += *at < 0;
    *at = meeting;
}

static void open_attention(struct builder *builder, int32_t number)
{
    const struct plan_phase *phase = &builder->plan->phases[builder->phase];
    const struct plan_attention *attention = &phase->attentions[number];
    int32_t meeting = add_meeting(builder, number);
    for (int32_t i = attention->first_block; i < attention->first_block + attention->n_blocks; i++) {
        const struct plan_block *block = &phase->blocks[i];
        const struct plan_layout *layout = &phase->pipelines[block->from.pipeline].layout;
        CHECK(layout->chunks == 1 && layout->context == 1);
        meet(builder, meeting, attention->pass, block->from);
        if (block->to.micro_batch >= 0)
            meet(builder, meeting, attention->pass, block->to);
    }
}

/* Let one micro-batch of a group meet on a virtual stage, in the attention of one of its pipelines if there is one.
 * `at`: its number in each of them. */
static void open_shared(struct builder *builder, const struct plan_group *group, enum pass pass, const int32_t *at,
                        int32_t stage)
{
    int32_t meeting = -1;
    for (int32_t i = 0; meeting < 0 && i < group->n_pipelines; i++)
        meeting = *meeting_at(builder, pass, (struct plan_place){group->pipelines[i], stage, at[i]});
    if (meeting < 0)
        meeting = add_meeting(builder, -1);
    for (int32_t i = 0; i < group->n_pipelines; i++)
        meet(builder, meeting, pass, (struct plan_place){group->pipelines[i], stage, at[i]});
}

static void open_group(struct builder *builder, int32_t number, enum pass pass)
{
    const struct plan_group *group = &builder->plan->phases[builder->phase].groups[number];
    const struct builder_pipe *first = &builder->pipes[group->pipelines[0]];
    const struct plan_partition *partition = &first->plan->partition[pass];
    int32_t *at = check_calloc((size_t)group->n_pipelines, sizeof *at);
    for (at[0] = plan_next_of_group(partition, 0, number); at[0] < partition->n_micro_batches;
         at[0] = plan_next_of_group(partition, at[0] + 1, number)) {
        for (int32_t i = 1; i < group->n_pipelines; i++) {
            const struct builder_pipe *pipe = &builder->pipes[group->pipelines[i]];
            CHECK(pipe->n_virtual == first->n_virtual && pipe->n_tensor == first->n_tensor);
            CHECK(pipe->stages == first->stages);
            at[i] = plan_next_of_group(&pipe->plan->partition[pass], at[i], number);
            CHECK(at[i] < pipe->plan->partition[pass].n_micro_batches);
        }
        for (int32_t stage = 0; stage < first->n_virtual; stage++)
            open_shared(builder, group, pass, at, stage);
        for (int32_t i = 1; i < group->n_pipelines; i++)
            at[i]++;
    }
    free(at);
}

void meetings_open(struct builder *builder)
{
    const struct plan_phase *phase = &builder->plan->phases[builder->phase];
    builder->n_meetings = 0;
    for (int32_t i = 0; i < phase->n_pipelines && phase->n_groups + phase->n_attentions > 0; i++)
        for (int pass = 0; pass < N_PASSES; pass++) {
            struct builder_pipe *pipe = &builder->pipes[i];
            size_t n = (size_t)pipe->plan->partition[pass].n_micro_batches * (size_t)pipe->n_virtual;
            pipe->meeting[pass] = check_malloc(n * sizeof *pipe->meeting[pass]);
            for (size_t k = 0; k < n; k++)
                pipe->meeting[pass][k] = -1;
        }
    for (int32_t i = 0; i < phase->n_attentions; i++)
        open_attention(builder, i);
    for (int32_t i = 0; i < phase->n_groups; i++)
        for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++)
            open_group(builder, i, pass);
}

void meetings_close(struct builder *builder)
{
    for (int32_t i = 0; i < builder->plan->phases[builder->phase].n_pipelines; i++)
        for (int pass = 0; pass < N_PASSES; pass++)
            free(builder->pipes[i].meeting[pass]);
    free(builder->meetings);
    builder->meetings = NULL;
    builder->meetings_room = 0;
}

int32_t meetings_arrive(struct builder *builder, int32_t number)
{
    struct builder_stage_cursor *cursor = &builder->cursors[number];
    struct builder_meeting *meeting = &builder->meetings[meetings_of(cursor, &cursor->steps[cursor->next])];
    int32_t n = 0;
    cursor->before_in_meeting = meeting->last;
    meeting->last = number;
    if (++meeting->n_arrived < meeting->n)
        return 0;
    for (int32_t i = meeting->last; i >= 0; i = builder->cursors[i].before_in_meeting)
        builder->step_cursors[n++] = i;
    qsort(builder->step_cursors, (size_t)n, sizeof *builder->step_cursors, compare_int32s);
    return n;
}

int32_t meetings_absent(const struct builder *builder, int32_t meeting)
{
    for (int32_t number = 0; number < builder->n_cursors; number++) {
        const struct builder_stage_cursor *cursor = &builder->cursors[number];
        for (int32_t i = cursor->next; i < cursor->end; i++)
            if (meetings_of(cursor, &cursor->steps[i]) == meeting && (i > cursor->next || !cursor->in_meeting))
                return number;
    }
    CHECK(!"every cursor of a meeting has arrived");
    return -1;
}
