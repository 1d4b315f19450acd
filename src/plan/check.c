/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "plan/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/compare.h"

/* Pipeline in which a sample runs, or the pipelines of one group. */
struct home {
    int32_t phase, group, pipeline; /* pipeline -1: the group's pipelines */
};

/* One plan under check, and the current position in it. */
struct checking {
    const struct plan *plan;
    int32_t n_samples;              /* samples of the batch, and carried ones */
    int32_t *tokens;                /* tokens of each sample */
    struct home *home;              /* home of each sample; phase -1: not met yet */
    int32_t phase, pipeline, stage; /* under check; stage -1: the whole pipeline */
    int32_t *forward_next;          /* of each sample: first token that no forward step of this stage has run */
    int32_t *backward_end;          /* of each sample: first of the tokens at its end whose backward has run */
    struct error *err;
};

static const struct plan_phase *phase_of(const struct checking *checking)
{
    return &checking->plan->phases[checking->phase];
}

static const struct plan_pipeline *pipeline_of(const struct checking *checking)
{
    return &phase_of(checking)->pipelines[checking->pipeline];
}

static bool breach(const struct checking *checking, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Report a violation at the current position. */
static bool breach(const struct checking *checking, const char *format, ...)
{
    char what[512], stage[32] = "";
    va_list list;
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    if (checking->stage >= 0)
        snprintf(stage, sizeof stage, ", stage %d", checking->stage);
    return error_set_status(checking->err, ERROR_FAILED, "phase %d, pipeline %d%s: %s", checking->phase,
                            checking->pipeline, stage, what);
}

static bool check_slice(const struct checking *checking, struct slice slice)
{
    if (slice.sample < 0 || slice.sample >= checking->n_samples)
        return breach(checking, "there is no sample %d", slice.sample);
    if (slice.begin < 0 || slice.begin >= slice.end || slice.end > checking->tokens[slice.sample])
        return breach(checking, "tokens [%d, %d) are not a slice of sample %d of %d tokens", slice.begin, slice.end,
                      slice.sample, checking->tokens[slice.sample]);
    return true;
}

static bool check_micro_batch(const struct checking *checking, enum pass pass, int32_t index)
{
    const struct plan_phase *phase = phase_of(checking);
    const struct plan_micro_batch *micro_batch = &pipeline_of(checking)->partition[pass].micro_batches[index];
    if (micro_batch->group < -1 || micro_batch->group >= phase->n_groups)
        return breach(checking, "%s micro-batch %d is of group %d, which does not exist", pass_name[pass], index,
                      micro_batch->group);
    int32_t width = micro_batch->group < 0 ? 1 : phase->groups[micro_batch->group].n_pipelines;
    if (micro_batch->context != width * pipeline_of(checking)->layout.context)
        return breach(checking, "%s micro-batch %d has context degree %d, its group and layout give %d",
                      pass_name[pass], index, micro_batch->context, width * pipeline_of(checking)->layout.context);
    if (micro_batch->padding_tokens < 0 || !(micro_batch->offload >= 0 && micro_batch->offload <= 1))
        return breach(checking, "%s micro-batch %d has %d tokens of padding, offload %g", pass_name[pass], index,
                      micro_batch->padding_tokens, micro_batch->offload);
    return true;
}

static bool check_offload(const struct checking *checking)
{
    const struct plan_pipeline *pipeline = pipeline_of(checking);
    int32_t n_micro_batches = pipeline->partition[PASS_FORWARD].n_micro_batches,
            n_virtual = pipeline->layout.stages * pipeline->layout.chunks;
    for (int32_t i = 0; pipeline->offload != NULL && i < n_virtual * n_micro_batches; i++)
        if (!(pipeline->offload[i] >= 0 && pipeline->offload[i] <= 1))
            return breach(checking, "forward micro-batch %d has offload %g on virtual stage %d", i % n_micro_batches,
                          pipeline->offload[i], i / n_micro_batches);
    return true;
}

/* Check that a sample is in one pipeline or group for both passes, like its keys and values. */
static bool check_home(struct checking *checking, const struct plan_micro_batch *micro_batch, int32_t sample)
{
    struct home home = {checking->phase, micro_batch->group, micro_batch->group < 0 ? checking->pipeline : -1};
    struct home *known = &checking->home[sample];
    if (known->phase < 0)
        *known = home;
    if (known->phase != home.phase || known->group != home.group || known->pipeline != home.pipeline)
        return breach(checking, "sample %d also runs in phase %d, pipeline %d, group %d", sample, known->phase,
                      known->pipeline, known->group);
    return true;
}

static bool check_partition(struct checking *checking, enum pass pass)
{
    const struct plan_partition *partition = &pipeline_of(checking)->partition[pass];
    int32_t next = 0;
    for (int32_t i = 0; i < partition->n_micro_batches; i++) {
        const struct plan_micro_batch *micro_batch = &partition->micro_batches[i];
        if (micro_batch->first_slice != next || micro_batch->n_slices < 0 ||
            next + micro_batch->n_slices > partition->n_slices)
            return breach(checking, "%s micro-batch %d does not begin at the end of the one before it", pass_name[pass],
                          i);
        if (!check_micro_batch(checking, pass, i))
            return false;
        for (; next < micro_batch->first_slice + micro_batch->n_slices; next++)
            if (!check_slice(checking, partition->slices[next]) ||
                !check_home(checking, micro_batch, partition->slices[next].sample))
                return false;
    }
    if (next != partition->n_slices)
        return breach(checking, "%d %s slices are in no micro-batch", partition->n_slices - next, pass_name[pass]);
    return true;
}

/* Check that each forward micro-batch's padding is in the backward micro-batch that names it. */
static bool check_padding(const struct checking *checking)
{
    const struct plan_partition *forward = &pipeline_of(checking)->partition[PASS_FORWARD];
    const struct plan_partition *backward = &pipeline_of(checking)->partition[PASS_BACKWARD];
    int32_t *left = check_malloc((size_t)forward->n_micro_batches * sizeof *left);
    bool ok = true;
    for (int32_t i = 0; i < forward->n_micro_batches; i++)
        left[i] = forward->micro_batches[i].padding_tokens;
    for (int32_t i = 0; ok && i < backward->n_micro_batches; i++) {
        const struct plan_micro_batch *micro_batch = &backward->micro_batches[i];
        if (micro_batch->padding_tokens == 0)
            continue;
        ok = 0 <= micro_batch->padding_of && micro_batch->padding_of < forward->n_micro_batches &&
             left[micro_batch->padding_of] == micro_batch->padding_tokens;
        if (ok)
            left[micro_batch->padding_of] = 0;
        else
            breach(checking,
                   "backward micro-batch %d has %d tokens of padding, which forward micro-batch %d does not have", i,
                   micro_batch->padding_tokens, micro_batch->padding_of);
    }
    for (int32_t i = 0; ok && i < forward->n_micro_batches; i++)
        if (left[i] > 0)
            ok = breach(checking, "the padding of forward micro-batch %d is in no backward micro-batch", i);
    free(left);
    return ok;
}

/* Check that the slices of one step follow those that this stage ran before. */
static bool run_step(struct checking *checking, const struct plan_step *step)
{
    const struct plan_partition *partition = &pipeline_of(checking)->partition[step->pass];
    const struct plan_micro_batch *micro_batch = &partition->micro_batches[step->micro_batch];
    for (int32_t i = micro_batch->first_slice; i < micro_batch->first_slice + micro_batch->n_slices; i++) {
        struct slice slice = partition->slices[i];
        int32_t *forward_next = &checking->forward_next[slice.sample];
        int32_t *backward_end = &checking->backward_end[slice.sample];
        int32_t tokens = checking->tokens[slice.sample];
        if (step->pass == PASS_BACKWARD && *forward_next != tokens)
            return breach(checking, "backward micro-batch %d runs when %d of %d tokens of sample %d have run forward",
                          step->micro_batch, *forward_next, tokens, slice.sample);
        if (step->pass == PASS_FORWARD ? slice.begin != *forward_next : slice.end != *backward_end)
            return breach(checking, "%s micro-batch %d runs tokens [%d, %d) of sample %d when it is the turn of %d",
                          pass_name[step->pass], step->micro_batch, slice.begin, slice.end, slice.sample,
                          step->pass == PASS_FORWARD ? *forward_next : *backward_end - 1);
        *(step->pass == PASS_FORWARD ? forward_next : backward_end) =
            step->pass == PASS_FORWARD ? slice.end : slice.begin;
    }
    return true;
}

/* Mark all tokens of the pipeline's samples as not run. */
static void clear_samples(struct checking *checking)
{
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
        const struct plan_partition *partition = &pipeline_of(checking)->partition[pass];
        for (int32_t i = 0; i < partition->n_slices; i++) {
            int32_t sample = partition->slices[i].sample;
            checking->forward_next[sample] = 0;
            checking->backward_end[sample] = checking->tokens[sample];
        }
    }
}

/* Check that every sample of the pipeline ran whole in both passes: forward_next and backward_end have reached its
 * ends. */
static bool check_coverage(const struct checking *checking)
{
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
        const struct plan_partition *partition = &pipeline_of(checking)->partition[pass];
        for (int32_t i = 0; i < partition->n_slices; i++) {
            int32_t sample = partition->slices[i].sample, tokens = checking->tokens[sample];
            int32_t forward = checking->forward_next[sample], backward = tokens - checking->backward_end[sample];
            if (forward != tokens || backward != tokens)
                return breach(checking, "of %d tokens of sample %d, %d ran forward and %d backward", tokens, sample,
                              forward, backward);
        }
    }
    return true;
}

/* Check that a micro-batch runs once, and the gradients of its weights after those of its inputs. */
static bool check_step(const struct checking *checking, const struct plan_step *step, bool *const ran[N_STEP_PASSES])
{
    const struct plan_pipeline *pipeline = pipeline_of(checking);
    if (step->pass >= plan_n_passes(pipeline))
        return breach(checking, "weight micro-batch %d runs, but the pipeline does not split its backwards",
                      step->micro_batch);
    if (step->micro_batch < 0 || step->micro_batch >= plan_partition_of(pipeline, step->pass)->n_micro_batches ||
        ran[step->pass][step->micro_batch])
        return breach(checking, "%s micro-batch %d runs twice or does not exist", pass_name[step->pass],
                      step->micro_batch);
    if (step->pass == PASS_WEIGHT && !ran[PASS_BACKWARD][step->micro_batch])
        return breach(checking, "weight micro-batch %d runs before its backward", step->micro_batch);
    return true;
}

/* Check the steps of one chunk of the stage in their order. `ran`: [pass][micro-batch], all false before and after. */
static bool check_chunk(struct checking *checking, int32_t chunk, bool *const ran[N_STEP_PASSES])
{
    const struct plan_pipeline *pipeline = pipeline_of(checking);
    int32_t n[N_STEP_PASSES] = {0};
    clear_samples(checking);
    for (int32_t i = pipeline->step_first[checking->stage]; i < pipeline->step_first[checking->stage + 1]; i++) {
        const struct plan_step *step = &pipeline->steps[i];
        if (step->chunk != chunk)
            continue;
        if (!check_step(checking, step, ran) || (step->pass != PASS_WEIGHT && !run_step(checking, step)))
            return false;
        ran[step->pass][step->micro_batch] = true;
        n[step->pass]++;
    }
    for (enum pass pass = PASS_FORWARD; pass < plan_n_passes(pipeline); pass++) {
        int32_t n_micro_batches = plan_partition_of(pipeline, pass)->n_micro_batches;
        if (n[pass] != n_micro_batches)
            return breach(checking, "%d of %d %s micro-batches run", n[pass], n_micro_batches, pass_name[pass]);
        memset(ran[pass], 0, (size_t)n_micro_batches * sizeof(bool));
    }
    return check_coverage(checking);
}

static bool check_steps(struct checking *checking)
{
    const struct plan_pipeline *pipeline = pipeline_of(checking);
    bool *ran[N_STEP_PASSES], ok = true;
    for (enum pass pass = PASS_FORWARD; pass < N_STEP_PASSES; pass++)
        ran[pass] = check_calloc((size_t)plan_partition_of(pipeline, pass)->n_micro_batches, sizeof(bool));
    for (checking->stage = 0; ok && checking->stage < pipeline->layout.stages; checking->stage++)
        for (int32_t chunk = 0; ok && chunk < pipeline->layout.chunks; chunk++)
            ok = check_chunk(checking, chunk, ran);
    checking->stage = -1;
    for (int pass = 0; pass < N_STEP_PASSES; pass++)
        free(ran[pass]);
    return ok;
}

static bool check_need(const struct checking *checking)
{
    const struct plan_pipeline *pipeline = pipeline_of(checking);
    struct plan_pipeline again = {.partition = {pipeline->partition[PASS_FORWARD], pipeline->partition[PASS_BACKWARD]}};
    bool ok = true;
    plan_fill_need(&again);
    for (int32_t i = 0; ok && i < pipeline->partition[PASS_BACKWARD].n_micro_batches; i++)
        if (pipeline->need[i] != again.need[i])
            ok = breach(checking, "backward micro-batch %d needs %d forward micro-batches, not %d", i, again.need[i],
                        pipeline->need[i]);
    free(again.need);
    return ok;
}

static bool same_micro_batch(const struct plan_partition *partition, int32_t i, const struct plan_partition *other,
                             int32_t j)
{
    const struct plan_micro_batch *a = &partition->micro_batches[i], *b = &other->micro_batches[j];
    if (a->n_slices != b->n_slices || a->recompute != b->recompute || a->sharding != b->sharding ||
        a->parts != b->parts || a->offload != b->offload || a->streams != b->streams)
        return false;
    for (int32_t k = 0; k < a->n_slices; k++) {
        struct slice x = partition->slices[a->first_slice + k], y = other->slices[b->first_slice + k];
        if (x.sample != y.sample || x.begin != y.begin || x.end != y.end)
            return false;
    }
    return true;
}

/* Check that the micro-batches of a group have the same order and slices in the partitions of all its pipelines. */
static bool check_group(struct checking *checking, int32_t group)
{
    const struct plan_phase *phase = phase_of(checking);
    const struct plan_group *members = &phase->groups[group];
    for (int32_t p = 0, member = 0; p < phase->n_pipelines; p++) {
        bool is_member = member < members->n_pipelines && members->pipelines[member] == p;
        member += is_member;
        checking->pipeline = p;
        for (int pass = 0; pass < N_PASSES; pass++) {
            const struct plan_partition *partition = &phase->pipelines[p].partition[pass];
            const struct plan_partition *first = &phase->pipelines[members->pipelines[0]].partition[pass];
            int32_t i = plan_next_of_group(partition, 0, group),
                    j = is_member ? plan_next_of_group(first, 0, group) : first->n_micro_batches;
            while (i < partition->n_micro_batches && j < first->n_micro_batches &&
                   same_micro_batch(partition, i, first, j)) {
                i = plan_next_of_group(partition, i + 1, group);
                j = plan_next_of_group(first, j + 1, group);
            }
            if (i < partition->n_micro_batches || j < first->n_micro_batches)
                return breach(checking, "its %s micro-batches of group %d are not those of pipeline %d",
                              pass_name[pass], group, members->pipelines[0]);
        }
    }
    return true;
}

static int32_t last_rank(const struct plan_layout *layout)
{
    return plan_rank(layout, layout->stages - 1, layout->context - 1, layout->tensor - 1);
}

/* Check that pipelines that run side by side share no GPU. */
static bool check_ranks(struct checking *checking)
{
    const struct plan_phase *phase = phase_of(checking);
    int32_t n_ranks = 0;
    for (int32_t i = 0; i < phase->n_pipelines; i++)
        n_ranks =
            last_rank(&phase->pipelines[i].layout) >= n_ranks ? last_rank(&phase->pipelines[i].layout) + 1 : n_ranks;
    bool *taken = check_calloc((size_t)n_ranks, sizeof *taken), ok = true;
    for (int32_t i = 0; i < phase->n_pipelines; i++) {
        const struct plan_layout *layout = &phase->pipelines[i].layout;
        checking->pipeline = i;
        for (int32_t k = 0; ok && k < layout->stages * layout->context * layout->tensor; k++) {
            int32_t rank = plan_rank(layout, k / layout->tensor / layout->context, k / layout->tensor % layout->context,
                                     k % layout->tensor);
            if (rank < 0 || taken[rank])
                ok = breach(checking, "rank %d does not exist or is in another pipeline", rank);
            else
                taken[rank] = true;
        }
    }
    free(taken);
    return ok;
}

/* Attention of a micro-batch on a stage: its number, and the share of it that goes away. */
struct attending {
    int32_t attention;
    double given;
};

/* Return the attention of a place, NULL after a breach. `of`: that of each pipeline's [micro-batch x stages + stage].
 */
static struct attending *attending_at(struct checking *checking, int32_t number, struct plan_place place,
                                      struct attending *const *of)
{
    const struct plan_phase *phase = phase_of(checking);
    enum pass pass = phase->attentions[number].pass;
    checking->pipeline = place.pipeline;
    const struct plan_pipeline *pipeline = pipeline_of(checking);
    if (place.stage < 0 || place.stage >= pipeline->layout.stages || pipeline->layout.chunks > 1 ||
        place.micro_batch < 0 || place.micro_batch >= pipeline->partition[pass].n_micro_batches) {
        breach(checking, "attention %d has no %s micro-batch %d on stage %d", number, pass_name[pass],
               place.micro_batch, place.stage);
        return NULL;
    }
    struct attending *at = &of[place.pipeline][place.micro_batch * pipeline->layout.stages + place.stage];
    if (at->attention >= 0 && at->attention != number) {
        breach(checking, "%s micro-batch %d on stage %d is in attentions %d and %d", pass_name[pass], place.micro_batch,
               place.stage, at->attention, number);
        return NULL;
    }
    at->attention = number;
    return at;
}

/* Check one block of an attention. Only slices of a SLICE_PLACED micro-batch may go to a stage that runs nothing. */
static bool check_block(struct checking *checking, int32_t number, const struct plan_block *block,
                        struct attending *const *of)
{
    const struct plan_phase *phase = phase_of(checking);
    enum pass pass = phase->attentions[number].pass;
    struct attending *from = attending_at(checking, number, block->from, of);
    if (from == NULL || (block->to.micro_batch >= 0 && attending_at(checking, number, block->to, of) == NULL))
        return false;
    checking->pipeline = block->from.pipeline;
    const struct plan_micro_batch *micro_batch =
        &pipeline_of(checking)->partition[pass].micro_batches[block->from.micro_batch];
    bool placed = micro_batch->sharding == SLICE_PLACED;
    bool whole = block->share > 0 && block->n_slices == 0 && micro_batch->group < 0 && block->to.micro_batch >= 0 &&
                 !plan_same_place(block->from, block->to);
    if (placed ? block->share != 0 : !whole)
        return breach(checking, "attention %d has a block of %s micro-batch %d that is not valid", number,
                      pass_name[pass], block->from.micro_batch);
    from->given += block->share;
    return from->given <= 1 + 1e-9 || breach(checking, "%s micro-batch %d on stage %d gives away %g of its attention",
                                             pass_name[pass], block->from.micro_batch, block->from.stage, from->given);
}

static int by_token(const void *a, const void *b)
{
    const struct slice *x = a, *y = b;
    return x->sample != y->sample ? COMPARE(x->sample, y->sample) : COMPARE(x->begin, y->begin);
}

/* Return slices in order of their tokens. The caller frees the result. */
static struct slice *in_order(const struct slice *slices, int32_t n)
{
    struct slice *sorted = check_malloc((size_t)n * sizeof *slices);
    for (int32_t i = 0; i < n; i++)
        sorted[i] = slices[i];
    qsort(sorted, (size_t)n, sizeof *sorted, by_token);
    return sorted;
}

/* Check that the blocks of an attention that come from a stage have each query of its micro-batch once. */
static bool check_queries(struct checking *checking, const struct plan_attention *attention, int32_t stage)
{
    const struct plan_phase *phase = phase_of(checking);
    struct slice *queries = check_malloc((size_t)phase->n_block_slices * sizeof *queries);
    int32_t n = 0, i = 0;
    const struct plan_block *first = NULL;
    for (int32_t k = attention->first_block; k < attention->first_block + attention->n_blocks; k++) {
        const struct plan_block *block = &phase->blocks[k];
        for (int32_t j = 0; block->from.stage == stage && j < block->n_slices; j++)
            queries[n++] = phase->block_slices[block->first_slice + j];
        first = block->from.stage == stage && block->share == 0 ? block : first;
    }
    if (first == NULL) {
        free(queries);
        return true;
    }
    const struct plan_partition *partition = &phase->pipelines[first->from.pipeline].partition[attention->pass];
    const struct plan_micro_batch *micro_batch = &partition->micro_batches[first->from.micro_batch];
    struct slice *all = in_order(partition->slices + micro_batch->first_slice, micro_batch->n_slices);
    struct slice *sorted = in_order(queries, n);
    bool ok = true;
    for (int32_t k = 0; ok && k < micro_batch->n_slices; k++) {
        for (; i < n && sorted[i].sample == all[k].sample && sorted[i].begin == all[k].begin; i++)
            all[k].begin = sorted[i].end;
        ok = all[k].begin == all[k].end;
    }
    free(queries);
    free(sorted);
    free(all);
    return (ok && i == n) || breach(checking, "blocks do not have each query of %s micro-batch %d on stage %d once",
                                    pass_name[attention->pass], first->from.micro_batch, stage);
}

static bool check_attention(struct checking *checking, int32_t number, struct attending *const *of)
{
    const struct plan_phase *phase = phase_of(checking);
    const struct plan_attention *attention = &phase->attentions[number];
    bool ok = true;
    for (int32_t i = 0; ok && i < attention->n_blocks; i++)
        ok = check_block(checking, number, &phase->blocks[attention->first_block + i], of);
    for (int32_t stage = 0; ok && stage < pipeline_of(checking)->layout.stages; stage++)
        ok = check_queries(checking, attention, stage);
    return ok;
}

/* Check the attentions of a phase. */
static bool check_attentions(struct checking *checking)
{
    const struct plan_phase *phase = phase_of(checking);
    struct attending **of = check_calloc((size_t)phase->n_pipelines, sizeof(struct attending *));
    bool ok = true;
    for (enum pass pass = PASS_FORWARD; ok && pass < N_PASSES; pass++) {
        for (int32_t i = 0; i < phase->n_pipelines; i++) {
            const struct plan_pipeline *pipeline = &phase->pipelines[i];
            int32_t n = pipeline->partition[pass].n_micro_batches * pipeline->layout.stages;
            of[i] = check_realloc(of[i], (size_t)n * sizeof **of);
            for (int32_t k = 0; k < n; k++)
                of[i][k] = (struct attending){.attention = -1};
        }
        for (int32_t i = 0; ok && i < phase->n_attentions; i++)
            ok = phase->attentions[i].pass != pass || check_attention(checking, i, of);
    }
    for (int32_t i = 0; i < phase->n_pipelines; i++)
        free(of[i]);
    free(of);
    return ok;
}

static bool check_phase(struct checking *checking)
{
    const struct plan_phase *phase = phase_of(checking);
    for (int32_t i = 0; i < phase->n_pipelines; i++) {
        checking->pipeline = i;
        if (!check_partition(checking, PASS_FORWARD) || !check_partition(checking, PASS_BACKWARD) ||
            !check_padding(checking) || !check_steps(checking) || !check_need(checking) || !check_offload(checking))
            return false;
    }
    if (!check_ranks(checking) || !check_attentions(checking))
        return false;
    for (int32_t i = 0; i < phase->n_groups; i++)
        if (!check_group(checking, i))
            return false;
    return true;
}

/* Check that all samples run, except the delayed ones. */
static bool check_homes(const struct checking *checking)
{
    const struct plan *plan = checking->plan;
    for (int32_t sample = 0, k = 0; sample < checking->n_samples; sample++) {
        bool delayed = k < plan->n_delayed && plan->delayed[k] == sample;
        k += delayed;
        if (delayed == (checking->home[sample].phase >= 0))
            return error_set_status(checking->err, ERROR_FAILED, "sample %d %s", sample,
                                    delayed ? "runs although it waits for a later iteration" : "runs nowhere");
    }
    return true;
}

/* Check that padded samples have the batch's tokens. Then they have the tokens that their slices reach. */
static bool take_padding(struct checking *checking)
{
    const struct plan *plan = checking->plan;
    for (int32_t i = 0; i < plan->n_padded; i++)
        if (plan->n_padded > checking->n_samples || plan->real_tokens[i] != checking->tokens[i])
            return error_set_status(checking->err, ERROR_FAILED, "padded sample %d has not the batch's tokens", i);
    for (int32_t i = 0; i < plan->n_phases && plan->n_padded > 0; i++)
        for (int32_t j = 0; j < plan->phases[i].n_pipelines; j++) {
            const struct plan_partition *forward = &plan->phases[i].pipelines[j].partition[PASS_FORWARD];
            for (int32_t k = 0; k < forward->n_slices; k++) {
                struct slice slice = forward->slices[k];
                if (0 <= slice.sample && slice.sample < plan->n_padded && slice.end > checking->tokens[slice.sample])
                    checking->tokens[slice.sample] = slice.end;
            }
        }
    return true;
}

bool plan_check(const struct plan *plan, int32_t n_samples, const int32_t *tokens, struct error *err)
{
    struct checking checking = {.plan = plan, .n_samples = n_samples + plan->n_carried, .stage = -1, .err = err};
    size_t n = (size_t)checking.n_samples;
    checking.tokens = check_malloc(n * sizeof *checking.tokens);
    checking.home = check_malloc(n * sizeof *checking.home);
    checking.forward_next = check_malloc(n * sizeof *checking.forward_next);
    checking.backward_end = check_malloc(n * sizeof *checking.backward_end);
    for (int32_t i = 0; i < checking.n_samples; i++) {
        checking.tokens[i] = i < n_samples ? tokens[i] : plan->carried_tokens[i - n_samples];
        checking.home[i].phase = -1;
    }
    bool ok = take_padding(&checking);
    for (; ok && checking.phase < plan->n_phases; checking.phase++)
        ok = check_phase(&checking);
    ok = ok && check_homes(&checking);
    free(checking.tokens);
    free(checking.home);
    free(checking.forward_next);
    free(checking.backward_end);
    return ok;
}
