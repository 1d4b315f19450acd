/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check what a verdict says about batches that are too small or too few. */
#include "answer/batch_check.h"
#include "base/check.h"
#include "harness.h"

#include <stdlib.h>

/** A system that fits, with the same iteration over and over. */
struct hand {
    int32_t pipelines, micro_batches, filled, idle; /* micro-batches of all pipelines */
    double interval;                                /* share of the rate */
    int64_t measured;
};

/** Return the sentence. Every micro-batch has 32Ki tokens with its padding. */
static char *sentence_of(const struct hand *hand, struct scenario_data data)
{
    struct scenario scenario = {.data = data, .measured = hand->measured};
    struct scenario_system entry = {.label = "best-fit"};
    struct point_iteration iterations[8] = {0};
    struct trace_summary summary = {.tokens_per_s_per_gpu = 100, .tokens_per_s_per_gpu_interval = 100 * hand->interval};
    struct point_system system = {
        .entry = &entry, .iterations = iterations, .n_iterations = (int32_t)hand->measured, .fits = true};
    for (int64_t i = 0; i < hand->measured; i++)
        iterations[i] = (struct point_iteration){.row = {.pipelines = hand->pipelines,
                                                         .forward_micro_batches = hand->micro_batches,
                                                         .tokens = INT64_C(32000) * hand->micro_batches,
                                                         .padding_tokens = INT64_C(768) * hand->micro_batches},
                                                 .n_phases = 1,
                                                 .n_filled = hand->filled,
                                                 .n_idle_pipelines = hand->idle};
    char *text = NULL;
    size_t n_bytes;
    FILE *file = check_memstream(&text, &n_bytes);
    batch_check_write(file, &scenario, &(struct point){.n_systems = 1, .systems = &system},
                      &(struct ranked_point){&summary, &(struct standing){0, 1}}, true);
    CHECK(fclose(file) == 0);
    return text;
}

static void check_sentence(struct hand hand, struct scenario_data data, const char *expected)
{
    char *text = sentence_of(&hand, data);
    CHECK_TEXT(text, expected);
    free(text);
}

/* 8 micro-batches on 128 pipelines are 1/16 each, so 64 times the batch gives 4. Four rounds of 128 x 32Ki are 16Mi. */
TEST(batch_check__names_replicas_without_documents)
{
    check_sentence((struct hand){128, 128, 8, 120, 0.01, 8}, (struct scenario_data){.global_batch = 64},
                   "batch: 64 documents for 128 replicas of best-fit leave 120 without any, 4,096 documents would give "
                   "each 4 micro-batches; 94% of the micro-batches of best-fit are padding only, none with "
                   "data.global_batch_tokens: 16Mi");
}

/* 9 micro-batches on 4 pipelines are 2.25 each. Twice as many are 4.5. */
TEST(batch_check__names_pipelines_with_few_micro_batches)
{
    check_sentence((struct hand){4, 9, 9, 0, 0.01, 8},
                   (struct scenario_data){.context = 32768, .global_batch_tokens = 9 * 32768},
                   "batch: 288Ki tokens give a pipeline of best-fit 2.2 micro-batches, 576Ki tokens would give 4.5");
}

/* 9 micro-batches in 12 are 25% padding; the nearest rounds of 2 x 32Ki are 4 or 5, and 4.5 is rounded up. */
TEST(batch_check__names_padding_and_the_batch_without_it)
{
    check_sentence((struct hand){2, 12, 9, 0, 0.01, 8}, (struct scenario_data){.global_batch = 100},
                   "batch: 25% of the micro-batches of best-fit are padding only, none with data.global_batch_tokens: "
                   "320Ki");
}

TEST(batch_check__names_intervals_of_few_iterations)
{
    check_sentence((struct hand){2, 8, 8, 0, 0.01, 3}, (struct scenario_data){.global_batch = 100},
                   "batch: intervals from 3 iterations say little, iterations.measured: 4 or more would do");
    check_sentence((struct hand){2, 8, 8, 0, 0, 3}, (struct scenario_data){.global_batch = 100}, "");
    check_sentence((struct hand){2, 8, 8, 0, 0.01, 4}, (struct scenario_data){.global_batch = 100}, "");
}
