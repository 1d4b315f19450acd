/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check which batches decide in a search. */
#include "hand_setting.h"
#include "search/deciding.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "cost/flop.h"
#include "harness.h"
#include "scenario/scenario_read.h"
#include "scenario_fixture.h"

enum { N = SEARCH_CANDIDATES };

static void open_data(const char *data, struct scenario *scenario, struct lengths *lengths)
{
    struct error err = {0};
    char text[512];
    snprintf(text, sizeof text,
             "model: llama-7b\ndevice: h800\nplatform: hopper-1x8\nengine: critical-path\ndata: {%s}\n"
             "systems: [{name: best-fit, plan: {tp: 1, pp: 1}}]\n",
             data);
    bool ok = scenario_read(fixture_write("deciding/data.yaml", text), 0, NULL, scenario, &err) &&
              lengths_open(&scenario->data, scenario_data_dir(), lengths, &err);
    CHECK_TEXT(err.text, "");
    CHECK(ok);
}

static double work_of(const struct scenario *scenario, const struct lengths *lengths, int64_t seed, int64_t iteration)
{
    struct batch batch = {0};
    double flop = 0;
    lengths_draw(lengths, &scenario->data, seed, iteration, &batch);
    for (int32_t i = 0; i < batch.n_samples; i++)
        flop += hand_model_flop(&scenario->model, batch.tokens[i]);
    batch_free(&batch);
    return flop;
}

/* Sort iterations in the order of their work by insertion. */
static double sort_by_work(const double *flop, int *sorted)
{
    double sum = 0;
    for (int i = 0; i < N; i++) {
        int at = i;
        for (; at > 0 && flop[i] < flop[sorted[at - 1]]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = i;
        sum += flop[i];
    }
    return sum;
}

/* Find the iteration that represents the k-th of five strata, and its weight, by the sentence in the docstring. */
static struct search_iteration by_hand(const double *flop, int k, bool even)
{
    int sorted[N], member[N], n = 0, nearest = 0;
    double sum = sort_by_work(flop, sorted), before = 0, mean = 0;
    for (int i = 0; i < N; i++) {
        double middle = even ? (i + 0.5) / N : (before + flop[sorted[i]] / 2) / sum;
        before += flop[sorted[i]];
        if ((int)(5 * middle) == k) {
            member[n++] = sorted[i];
            mean += flop[sorted[i]];
        }
    }
    CHECK(n > 0);
    for (int i = 1; i < n; i++)
        if (fabs(flop[member[i]] - mean / n) < fabs(flop[member[nearest]] - mean / n))
            nearest = i;
    return (struct search_iteration){member[nearest], even ? 0.2 : n / (double)N, flop[member[nearest]]};
}

TEST(deciding__takes_five_batches_for_strata_of_equal_work)
{
    static const char *const data[] = {"lengths: commoncrawl, context: 256Ki, global_batch: 64",
                                       "lengths: github, context: 64Ki, global_batch: 16"};
    for (int i = 0; i < 4; i++) {
        struct scenario scenario = {0};
        struct lengths lengths = {0};
        struct search_iteration found[5];
        double flop[N], weights = 0;
        open_data(data[i % 2], &scenario, &lengths);
        bool even = i >= 2;
        deciding_iterations(&lengths, &scenario, 40 + i, even, found);
        for (int j = 0; j < N; j++)
            flop[j] = work_of(&scenario, &lengths, 40 + i, j);
        CHECK_EQUAL(found[0].iteration, by_hand(flop, 2, even).iteration); /* the middle one ranks */
        for (int k = 0; k < 5; k++) {
            struct search_iteration expected = by_hand(flop, k, even);
            int at = 0;
            while (at < 4 && found[at].iteration != expected.iteration)
                at++;
            CHECK_EQUAL(found[at].iteration, expected.iteration);
            CHECK_CLOSE(found[at].weight, expected.weight, 1e-15);
            CHECK_CLOSE(found[at].model_flop, expected.model_flop, 1e-12);
            CHECK_TRUE(k < 2 || found[k].iteration > found[k - 1].iteration);
            weights += found[k].weight;
        }
        CHECK_CLOSE(weights, 1, 1e-12);
        lengths_close(&lengths);
        scenario_free(&scenario);
    }
}

/* Batches are equal: 256 = 51 + 51 + 52 + 51 + 51, as the middle of the 128th and 129th lies around a half. The first
 * batch of each stratum represents it. */
TEST(deciding__shares_equal_batches_evenly)
{
    static const int64_t first[] = {102, 0, 51, 154, 205};
    static const double n[] = {52, 51, 51, 51, 51};
    struct scenario scenario = {0};
    struct lengths lengths = {0};
    struct search_iteration found[5];
    open_data("lengths: fixed, context: 4Ki, global_batch: 2", &scenario, &lengths);
    deciding_iterations(&lengths, &scenario, 1, false, found);
    for (int i = 0; i < 5; i++) {
        CHECK_EQUAL(found[i].iteration, first[i]);
        CHECK_CLOSE(found[i].weight, n[i] / 256, 1e-15);
    }
    lengths_close(&lengths);
    scenario_free(&scenario);
}

/* 255 documents have one token, and one of 65536 has nearly all of the work. It represents itself. Strata that it would
 * leave empty take one of the other batches each. */
TEST(deciding__lets_one_batch_outweigh_all_others)
{
    struct scenario scenario = {0};
    struct lengths lengths = {0};
    struct search_iteration found[5];
    int32_t tokens[N];
    open_data("lengths: fixed, context: 64Ki, global_batch: 1", &scenario, &lengths);
    for (int i = 0; i < N; i++)
        tokens[i] = i == 100 ? 65536 : 1;
    struct lengths listed = {.kind = LENGTHS_LISTED, .n = N, .file_tokens = tokens};
    deciding_iterations(&listed, &scenario, 1, false, found);
    double weights = 0;
    bool heavy = false;
    for (int i = 0; i < 5; i++) {
        for (int j = 0; j < i; j++)
            CHECK_TRUE(found[j].iteration != found[i].iteration);
        heavy = heavy || found[i].iteration == 100;
        CHECK_CLOSE(found[i].weight * N, found[i].iteration == 0 ? 252 : 1, 1e-12);
        weights += found[i].weight;
    }
    CHECK_TRUE(heavy);
    CHECK_CLOSE(weights, 1, 1e-12);
    lengths_close(&lengths);
    scenario_free(&scenario);
}
