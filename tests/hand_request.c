/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "hand_request.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/rng.h"
#include "hand_plan.h"

static void start(struct hand_request *hand, int32_t dp, int32_t pp, int64_t context)
{
    *hand = (struct hand_request){.setting = *hand_setting()};
    hand->setting.layers = (int32_t)hand->setting.model->layers / pp;
    hand->model = *hand->setting.model;
    hand->request = (struct system_request){
        .batch = &hand->batch,
        .setting = &hand->setting,
        .layout = {.tp = 1, .pp = pp, .cp = 1, .dp = dp},
        .context = context,
        .memory_bytes = 1e30,
        .knobs = hand->knobs,
    };
    hand->setting.model = &hand->model;
}

void hand_request_real(struct hand_request *hand, int32_t dp, int32_t pp, int64_t context)
{
    start(hand, dp, pp, context);
}

void hand_request(struct hand_request *hand, int32_t dp, int32_t pp, int64_t context)
{
    start(hand, dp, pp, context);
    hand->model.hidden = hand->model.heads = hand->model.kv_heads = 1;
    hand->model.ffn = 0;
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
    struct document document = {0};
    struct error err = {0};
    bool any = lines[0] != '\0';
    CHECK(system->knobs_size <= sizeof hand->knobs);
    if (any && !document_parse(lines, strlen(lines), "knobs", &document, &err))
        fprintf(stderr, "%s\n", err.text);
    if (!schema_read(&document, any ? 0 : -1, system->knobs, system->n_knobs, NULL, hand->knobs, &err))
        fprintf(stderr, "%s\n", err.text);
    CHECK(err.status == ERROR_NONE);
    document_free(&document);
}

void hand_request_free(struct hand_request *hand)
{
    batch_free(&hand->batch);
}

const char *hand_cut_text(const struct plan_cut *cut)
{
    static char text[4096];
    size_t n = 0;
    text[0] = '\0';
    for (int32_t i = 0; i < cut->n_units; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "%s[", i > 0 ? " " : "");
        for (int32_t k = 0; k < cut->units[i].n_slices; k++) {
            struct slice slice = cut->slices[cut->units[i].first_slice + k];
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
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%c%d", n > 0 ? " " : "",
                              step->pass == PASS_FORWARD ? 'F' : 'B', step->unit);
        CHECK(n < sizeof text);
    }
    return text;
}
