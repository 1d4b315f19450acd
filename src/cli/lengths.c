/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * This file is `slimsim lengths`. It prints the shares of samples, tokens and FLOPs of a scenario's
 * batches by length.
 */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text_table.h"
#include "capacity/question.h"
#include "cli/commands.h"
#include "cost/flop.h"
#include "lengths/lengths.h"
#include "lengths/statistics.h"
#include "scenario/scenario_read.h"

struct arguments {
    struct options options;
    const char *scenario;
};

/** Collect the samples of all measured iterations, after data.long_documents is applied. */
static struct statistics measure(const struct scenario *scenario, const struct lengths *lengths)
{
    struct flop_curve layer = flop_model_curve(&scenario->model, PASS_FORWARD);
    int32_t *tokens = NULL;
    int64_t n = 0;
    for (int64_t i = scenario->warm_up; i < scenario->warm_up + scenario->measured; i++) {
        struct batch batch = {0};
        lengths_draw(lengths, &scenario->data, scenario->seed, i, &batch);
        tokens = check_realloc(tokens, (size_t)(n + batch.n_samples) * sizeof *tokens);
        memcpy(tokens + n, batch.tokens, (size_t)batch.n_samples * sizeof *tokens);
        n += batch.n_samples;
        batch_free(&batch);
    }
    double *flop = check_malloc((size_t)n * sizeof *flop);
    for (int64_t i = 0; i < n; i++) {
        double x = tokens[i];
        flop[i] = (double)layer.q * x * x + (double)layer.l * x;
        for (int32_t w = 0; w < layer.n_windows; w++)
            flop[i] += (double)layer.windows[w].q * (double)flop_square(tokens[i], layer.windows[w].window);
    }
    struct statistics statistics = statistics_of(tokens, flop, n);
    free(tokens);
    free(flop);
    return statistics;
}

static void print_text(const struct scenario *scenario, const struct lengths *lengths,
                       const struct statistics *statistics)
{
    char batch[SCENARIO_BATCH_BYTES];
    scenario_batch_text(&scenario->data, batch);
    printf("%s: %s lengths, context %lld tokens, %lld iteration%s of %s, FLOPs of %s\n", scenario->name,
           scenario->data.lengths, (long long)scenario->data.context, (long long)scenario->measured,
           scenario->measured > 1 ? "s" : "", batch, scenario->model.name);
    printf("whole documents: mean %.1f tokens\n", lengths_mean(lengths));
    printf("%lld samples, %lld tokens; mean %.1f, 5%% %.0f, median %.0f, 95%% %.0f, 99%% %.0f, longest %.0f tokens\n\n",
           (long long)statistics->n_samples, (long long)statistics->n_tokens, statistics->mean_tokens,
           statistics->p5_tokens, statistics->median_tokens, statistics->p95_tokens, statistics->p99_tokens,
           statistics->longest_tokens);
    struct text_table table = {0};
    text_table_columns(&table, "tokens up to>12;samples>11;samples [%]>11;tokens [%]>11;forward FLOPs [%]>17");
    for (int i = 0; i < STATISTICS_N_BUCKETS; i++) {
        const struct statistics_bucket *bucket = &statistics->bucket[i];
        if (bucket->n_samples == 0)
            continue;
        text_table_row(&table, "%.0f\t%lld\t%.3f\t%.3f\t%.3f", fmin(bucket->longest_tokens, statistics->longest_tokens),
                       (long long)bucket->n_samples, 100 * bucket->sample_share, 100 * bucket->token_share,
                       100 * bucket->flop_share);
    }
    text_table_print(&table, stdout, 0);
}

static void print_json(const struct lengths *lengths, const struct statistics *statistics)
{
    json_t *buckets = json_array();
    for (int i = 0; i < STATISTICS_N_BUCKETS; i++) {
        const struct statistics_bucket *bucket = &statistics->bucket[i];
        if (bucket->n_samples > 0)
            json_array_append_new(buckets,
                                  json_pack("{s:f, s:I, s:f, s:f, s:f}", "longest_tokens",
                                            fmin(bucket->longest_tokens, statistics->longest_tokens), "samples",
                                            (json_int_t)bucket->n_samples, "sample_share", bucket->sample_share,
                                            "token_share", bucket->token_share, "flop_share", bucket->flop_share));
    }
    json_t *root =
        json_pack("{s:f, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:o}", "document_mean_tokens", lengths_mean(lengths),
                  "samples", (json_int_t)statistics->n_samples, "tokens", (json_int_t)statistics->n_tokens,
                  "mean_tokens", statistics->mean_tokens, "p5_tokens", statistics->p5_tokens, "median_tokens",
                  statistics->median_tokens, "p95_tokens", statistics->p95_tokens, "p99_tokens", statistics->p99_tokens,
                  "longest_tokens", statistics->longest_tokens, "buckets", buckets);
    command_print_json(root);
}

static const struct argp_child children[] = {OPTION(set), OPTION(json), {0}};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    if (key == ARGP_KEY_INIT)
        options_begin(&arguments->options, children, state);
    return options_parse_file(key, argument, state, "a scenario", &arguments->scenario);
}

static const struct argp argp = {NULL,
                                 parse,
                                 "SCENARIO.yaml",
                                 "Draw a scenario's batches and print, by length, their share of samples, tokens and "
                                 "forward FLOPs.",
                                 children,
                                 NULL,
                                 NULL};

/** Read the scenario. Lengths need no device, so one with `capacity:` has those of its first offer. */
static bool read_scenario(const struct arguments *arguments, struct scenario *scenario, struct error *err)
{
    struct document document = {0};
    struct question question;
    const struct options *options = &arguments->options;
    bool ok = scenario_read_document(arguments->scenario, options->n_set, options->set, &document, err);
    if (document.n_nodes == 0)
        return false;
    if (document_find(&document, 0, "capacity") < 0)
        return scenario_resolve_point(&document, scenario, err) && ok;
    ok = question_resolve(&document, &question, err) && ok;
    if (ok) {
        *scenario = question.offers[0].scenario;
        question.offers[0].scenario = (struct scenario){0};
    }
    question_free(&question);
    return ok;
}

int command_lengths(int argc, char **argv)
{
    struct arguments arguments = {0};
    struct scenario scenario = {0};
    struct lengths lengths = {0};
    struct error err = {0};
    parse_arguments(&argp, argc, argv, &arguments);
    bool ok = read_scenario(&arguments, &scenario, &err) && command_check(&scenario, &lengths, &err);
    if (ok) {
        struct statistics statistics = measure(&scenario, &lengths);
        if (arguments.options.json)
            print_json(&lengths, &statistics);
        else
            print_text(&scenario, &lengths, &statistics);
    }
    lengths_close(&lengths);
    scenario_free(&scenario);
    options_free(&arguments.options);
    return ok ? EXIT_SUCCESS : command_fail(&err);
}
