/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "hand_request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/rng.h"
#include "document/document_read.h"
#include "document/schema_text.h"
#include "hand_plan.h"
#include "harness.h"

void hand_request_real(struct hand_request *hand, int32_t dp, int32_t pp, int64_t context)
{
    *hand = (struct hand_request){.setting = *hand_setting()};
    hand_layers(&hand->setting, (int32_t)hand->setting.model->layers / pp);
    hand->model = *hand->setting.model;
    hand->request = (struct plan_request){
        .batch = &hand->batch,
        .setting = &hand->setting,
        .layout = {.tp = 1,
                   .pp = pp,
                   .cp = 1,
                   .dp = dp,
                   .vpp = 1,
                   .sequence_parallel = true,
                   .offload_mode = SCENARIO_OFFLOAD_AUTO},
        .context = context,
        .memory_bytes = 1e30,
        .knobs = hand->knobs,
    };
    hand->setting.model = &hand->model;
    hand_options(&hand->setting, &hand->request.layout);
}

void hand_request(struct hand_request *hand, int32_t dp, int32_t pp, int64_t context)
{
    hand_request_real(hand, dp, pp, context);
    hand->model.hidden = hand->model.kinds[0].heads = hand->model.kinds[0].kv_heads = 1;
    hand->model.kinds[0].ffn = 0;
}

void hand_batch(struct hand_request *hand, int32_t n_samples, const int32_t *tokens)
{
    batch_free(&hand->batch);
    hand->batch.n_samples = hand->batch.n_documents = n_samples;
    hand->batch.tokens = check_malloc((size_t)n_samples * sizeof *tokens);
    hand->batch.document = check_malloc((size_t)n_samples * sizeof *tokens);
    for (int32_t i = 0; i < n_samples; i++) {
        hand->batch.tokens[i] = tokens[i];
        hand->batch.document[i] = i;
        hand->batch.n_tokens += tokens[i];
    }
}

int32_t hand_below(uint64_t *state, int32_t n)
{
    *state = rng_mix(*state);
    return (int32_t)(*state % (uint64_t)n);
}

static int32_t draw(enum hand_law law, int32_t context, uint64_t *state)
{
    switch (law) {
    case HAND_UNIFORM:
        return 1 + hand_below(state, context);
    case HAND_LONG_TAIL:
        return hand_below(state, 16) == 0 ? context - hand_below(state, context / 4 + 1) / 2
                                          : 1 + hand_below(state, context / 32 + 1);
    case HAND_EQUAL:
        return context / 3 + 1;
    case HAND_TINY:
        return 1 + hand_below(state, context < 8 ? context : 8);
    case HAND_HUGE:
        return context > 1 ? context - hand_below(state, 2) : 1;
    default:
        return hand_below(state, 4) > 0 ? (context < 16 ? context : 16) : (context + 1) / 2;
    }
}

void hand_batch_of(struct hand_request *hand, enum hand_law law, int32_t n_samples, uint64_t seed)
{
    int32_t *tokens = check_malloc((size_t)n_samples * sizeof *tokens);
    for (int32_t i = 0; i < n_samples; i++)
        tokens[i] = draw(law, (int32_t)hand->request.context, &seed);
    hand_batch(hand, n_samples, tokens);
    free(tokens);
}

void hand_knobs(struct hand_request *hand, const struct training_system *system, const char *lines)
{
    static const char *const entry[] = {"offload", NULL};
    struct document document = {0};
    struct error err = {0};
    bool any = lines[0] != '\0';
    CHECK(system->knobs_size <= sizeof hand->knobs);
    if (any && !document_parse(lines, strlen(lines), "knobs", &document, &err))
        fprintf(stderr, "%s\n", err.text);
    if (!schema_read(&document, any ? 0 : -1, system->knobs, system->n_knobs, entry, hand->knobs, &err))
        fprintf(stderr, "%s\n", err.text);
    int32_t mode = any ? document_find(&document, 0, "offload") : -1;
    hand->request.layout.offload_mode =
        mode < 0 ? SCENARIO_OFFLOAD_AUTO : schema_choice(SCENARIO_OFFLOAD, document.node[mode].value);
    CHECK(hand->request.layout.offload_mode >= 0);
    CHECK(err.status == ERROR_NONE);
    document_free(&document);
}

void hand_planned(struct hand_request *hand, const struct training_system *system, const char *lines, struct plan *plan)
{
    struct error err = {0};
    hand_knobs(hand, system, lines);
    bool ok = system->plan(&hand->request, NULL, plan, &err) &&
              plan_check(plan, hand->batch.n_samples, hand->batch.tokens, &err);
    if (!CHECK_TRUE(ok))
        printf("%s\n", err.text);
}

void hand_request_free(struct hand_request *hand)
{
    batch_free(&hand->batch);
}

static bool same(const void *a, const void *b, int32_t n, size_t size)
{
    return n == 0 || memcmp(a, b, (size_t)n * size) == 0;
}

/* Micro-batches have a gap before `offload`, so memcmp cannot compare them. */
static bool same_micro_batches(const struct plan_partition *a, const struct plan_partition *b)
{
    for (int32_t i = 0; i < a->n_micro_batches; i++) {
        const struct plan_micro_batch *x = &a->micro_batches[i], *y = &b->micro_batches[i];
        if (x->first_slice != y->first_slice || x->n_slices != y->n_slices || x->padding_tokens != y->padding_tokens ||
            x->context != y->context || x->group != y->group || x->sharding != y->sharding ||
            x->formation != y->formation || x->padding_of != y->padding_of || x->recompute != y->recompute ||
            x->offload != y->offload || x->streams != y->streams)
            return false;
    }
    return true;
}

static bool same_pipeline(const struct plan_pipeline *a, const struct plan_pipeline *b)
{
    if (memcmp(&a->layout, &b->layout, sizeof a->layout) != 0 || a->splits_backward != b->splits_backward ||
        a->features != b->features)
        return false;
    for (int pass = 0; pass < N_PASSES; pass++) {
        const struct plan_partition *x = &a->partition[pass], *y = &b->partition[pass];
        if (x->n_slices != y->n_slices || x->n_micro_batches != y->n_micro_batches ||
            !same(x->slices, y->slices, x->n_slices, sizeof *x->slices) || !same_micro_batches(x, y))
            return false;
    }
    int32_t stages = a->layout.stages,
            n_shares = stages * a->layout.chunks * a->partition[PASS_FORWARD].n_micro_batches;
    if ((a->offload == NULL) != (b->offload == NULL) ||
        (a->offload != NULL && !same(a->offload, b->offload, n_shares, sizeof *a->offload)))
        return false;
    return same(a->need, b->need, a->partition[PASS_BACKWARD].n_micro_batches, sizeof *a->need) &&
           same(a->step_first, b->step_first, stages + 1, sizeof *a->step_first) &&
           same(a->steps, b->steps, a->step_first[stages], sizeof *a->steps);
}

static bool same_phase(const struct plan_phase *a, const struct plan_phase *b)
{
    if (a->n_pipelines != b->n_pipelines || a->n_groups != b->n_groups || a->n_reshards != b->n_reshards ||
        a->shards != b->shards)
        return false;
    for (int32_t i = 0; i < a->n_pipelines; i++)
        if (!same_pipeline(&a->pipelines[i], &b->pipelines[i]))
            return false;
    for (int32_t i = 0; i < a->n_groups; i++)
        if (a->groups[i].n_pipelines != b->groups[i].n_pipelines ||
            !same(a->groups[i].pipelines, b->groups[i].pipelines, a->groups[i].n_pipelines, sizeof(int32_t)))
            return false;
    return a->n_attentions == b->n_attentions && a->n_blocks == b->n_blocks && a->n_block_slices == b->n_block_slices &&
           same(a->attentions, b->attentions, a->n_attentions, sizeof *a->attentions) &&
           same(a->blocks, b->blocks, a->n_blocks, sizeof *a->blocks) &&
           same(a->block_slices, b->block_slices, a->n_block_slices, sizeof *a->block_slices) &&
           same(a->reshards, b->reshards, a->n_reshards, sizeof *a->reshards);
}

bool hand_same_plan(const struct plan *a, const struct plan *b)
{
    if (a->n_phases != b->n_phases || a->shards != b->shards || a->n_candidates != b->n_candidates ||
        a->n_nodes != b->n_nodes || a->n_resolved != b->n_resolved || a->gap != b->gap ||
        a->delayed_tokens != b->delayed_tokens || a->n_delayed != b->n_delayed || a->n_carried != b->n_carried ||
        !same(a->delayed, b->delayed, a->n_delayed, sizeof(int32_t)) ||
        !same(a->carried_tokens, b->carried_tokens, a->n_carried, sizeof(int32_t)) || a->n_padded != b->n_padded ||
        !same(a->real_tokens, b->real_tokens, a->n_padded, sizeof(int32_t)))
        return false;
    for (int32_t i = 0; i < a->n_phases; i++)
        if (!same_phase(&a->phases[i], &b->phases[i]))
            return false;
    return true;
}

const char *hand_cut_text(const struct plan_partition *partition)
{
    static char text[4096];
    size_t n = 0;
    text[0] = '\0';
    for (int32_t i = 0; i < partition->n_micro_batches; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "%s[", i > 0 ? " " : "");
        for (int32_t k = 0; k < partition->micro_batches[i].n_slices; k++) {
            struct slice slice = partition->slices[partition->micro_batches[i].first_slice + k];
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%d:%d-%d", k > 0 ? " " : "", slice.sample, slice.begin,
                                  slice.end);
        }
        n += (size_t)snprintf(text + n, sizeof text - n, "]");
        CHECK(n < sizeof text);
    }
    return text;
}

const char *hand_order_text(const struct plan_pipeline *pipeline, int32_t stage)
{
    static char text[4096];
    size_t n = 0;
    text[0] = '\0';
    for (int32_t i = pipeline->step_first[stage]; i < pipeline->step_first[stage + 1]; i++) {
        const struct plan_step *step = &pipeline->steps[i];
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%c%d", n > 0 ? " " : "", "FBW"[step->pass],
                              step -> micro_batch);
        if (step->chunk > 0)
            n += (size_t)snprintf(text + n, sizeof text - n, ".%d", step->chunk);
        CHECK(n < sizeof text);
    }
    return text;
}
