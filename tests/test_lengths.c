/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check laws, tables and batches of lengths. */
#include "base/check.h"
#include "document/document_read.h"
#include "harness.h"
#include "lengths/bins.h"
#include "lengths/law.h"
#include "lengths/lengths.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { K = 1024 };

static const char *const shipped[] = {"wikipedia",           "github",  "github-b", "commoncrawl", "byted-like",
                                      "wikipedia-quantiles", "wlb-llm", "prolong"};
enum { N_SHIPPED = sizeof shipped / sizeof *shipped };

static struct scenario_data data_of(const char *lengths, int64_t context, int32_t long_documents, int64_t global_batch)
{
    struct scenario_data data = {
        .length_scale = 1, .context = context, .long_documents = long_documents, .global_batch = global_batch};
    snprintf(data.lengths, sizeof data.lengths, "%s", lengths);
    return data;
}

static struct lengths open_lengths(const struct scenario_data *data)
{
    struct lengths lengths = {0};
    struct error err = {0};
    if (!lengths_open(data, SLIMSIM_SOURCE_DIR, &lengths, &err))
        CHECK_TEXT(err.text, "");
    return lengths;
}

static struct lengths open_shipped(const char *name)
{
    struct scenario_data data = data_of(name, 262144, SCENARIO_CUT, 512);
    return open_lengths(&data);
}

/** Write text to a file and open it as lengths. The message must contain `part`. If that is NULL, the file must open.
 */
static struct lengths open_text(const char *file_name, const char *text, const char *part)
{
    struct lengths lengths = {0};
    struct error err = {0};
    struct scenario_data data = data_of(harness_path(file_name), 4096, SCENARIO_CUT, 8);
    FILE *file = fopen(data.lengths, "w");
    CHECK(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
    bool ok = lengths_open(&data, SLIMSIM_SOURCE_DIR, &lengths, &err);
    CHECK_TRUE(ok == (part == NULL));
    if (part != NULL)
        CHECK_CONTAINS(err.text, part);
    else
        CHECK_TEXT(err.text, "");
    return lengths;
}

/* Every document of every batch has the length of the context, whatever seed and iteration. */
TEST(fixed_lengths__fill_the_context)
{
    struct scenario_data data = data_of("fixed", 8 * K, SCENARIO_DROP, 5);
    struct lengths lengths = open_lengths(&data);
    struct batch batch;
    lengths_draw(&lengths, &data, 3, 7, &batch);
    CHECK_TRUE(batch.n_samples == 5 && batch.n_documents == 5 && batch.n_dropped == 0 && batch.n_tokens == 40 * K);
    for (int32_t i = 0; i < 5; i++)
        CHECK_TRUE(batch.tokens[i] == 8 * K && batch.document[i] == i);
    CHECK_TRUE(lengths_mean(&lengths) == 8 * K);
    CHECK_TRUE(lengths_cdf(&lengths, 8 * K) == 1 && lengths_cdf(&lengths, 8 * K - 1) == 0);
    batch_free(&batch);
    lengths_close(&lengths);
    struct error err = {0};
    strcpy(data.column, "x");
    CHECK_TRUE(!lengths_open(&data, SLIMSIM_SOURCE_DIR, &lengths, &err));
    CHECK_CONTAINS(err.text, "not for the fixed lengths");
}

/* A list is read in its order, over and over. 3 documents of 2 lengths begin the second iteration with the second. */
TEST(listed_lengths__come_in_their_order)
{
    struct scenario_data data = data_of("8Ki 4400", 8 * K, SCENARIO_CUT, 3);
    struct lengths lengths = open_lengths(&data);
    const int32_t expected[2][3] = {{8192, 4400, 8192}, {4400, 8192, 4400}};
    for (int64_t iteration = 0; iteration < 2; iteration++) {
        struct batch batch;
        lengths_draw(&lengths, &data, 5, iteration, &batch);
        CHECK_EQUAL(batch.n_samples, 3);
        for (int32_t i = 0; i < 3; i++)
            CHECK_EQUAL(batch.tokens[i], expected[iteration][i]);
        batch_free(&batch);
    }
    CHECK_TRUE(lengths_mean(&lengths) == 6296 && lengths_cdf(&lengths, 4400) == 0.5);
    lengths_close(&lengths);
    const char *const wrong[] = {"12 x", "0", "7 -1", "1e10", "3;4"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct error err = {0};
        data = data_of(wrong[i], 8 * K, SCENARIO_CUT, 3);
        CHECK_TRUE(!lengths_open(&data, SLIMSIM_SOURCE_DIR, &lengths, &err));
        CHECK_CONTAINS(err.text, "is no length; a list holds whole numbers");
    }
}

TEST(lengths_open__opens_every_shipped_file_with_source_and_notes)
{
    for (int i = 0; i < N_SHIPPED; i++) {
        char path[1024];
        struct document document = {0};
        struct error err = {0};
        struct lengths lengths = open_shipped(shipped[i]);
        CHECK_TRUE(lengths.hash != 0);
        snprintf(path, sizeof path, "%s/model/lengths/%s.yaml", SLIMSIM_SOURCE_DIR, shipped[i]);
        CHECK_TRUE(document_read(path, &document, &err) && document_find(&document, 0, "notes") >= 0);
        CHECK_TRUE(strlen(document.node[document_find(&document, 0, "source")].value) > 20);
        document_free(&document);
        lengths_close(&lengths);
    }
}

/* The laws were fitted to these figures. A share that was published with n digits must be met within 2% of it. */
TEST(law__meets_its_published_shares)
{
    const struct {
        const char *name;
        double tokens, above; /* share of samples longer than `tokens` */
    } cases[] = {
        {"github", 2 * K, 1 - 0.592},     {"github", 64 * K, 0.0061},    {"github-b", 2 * K, 1 - 0.699},
        {"github-b", 64 * K, 0.0061},     {"commoncrawl", 2 * K, 0.296}, {"commoncrawl", 24 * K, 0.029},
        {"commoncrawl", 100 * K, 0.0042}, {"byted-like", 4 * K, 0.21},   {"byted-like", 128 * K, 0.01},
        {"wikipedia", 16 * K, 0.0058},    {"wikipedia", 2 * K, 0.104},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lengths lengths = open_shipped(cases[i].name);
        CHECK_CLOSE(1 - lengths_cdf(&lengths, cases[i].tokens), cases[i].above, 0.02);
        lengths_close(&lengths);
    }
}

TEST(law__meets_its_published_shares_of_tokens)
{
    const struct {
        const char *name;
        double tokens, above; /* share of tokens in samples longer than `tokens` */
    } cases[] = {{"github", 128 * K, 0.16},
                 {"github", 256 * K, 0.10},
                 {"github-b", 128 * K, 0.16},
                 {"github-b", 256 * K, 0.10},
                 {"byted-like", 128 * K, 0.46}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lengths lengths = open_shipped(cases[i].name);
        double above = 1 - law_mean_up_to(&lengths.law, cases[i].tokens) / lengths_mean(&lengths);
        CHECK_CLOSE(above, cases[i].above, 0.02);
        lengths_close(&lengths);
    }
}

/* The notes of model/lengths/NAME.yaml have these closed-form means. */
TEST(law__has_its_published_mean)
{
    const struct {
        const char *name;
        double mean;
    } cases[] = {{"wikipedia", 1007.6},
                 {"github", 4093.9},
                 {"github-b", 4092.6},
                 {"commoncrawl", 4202.2},
                 {"byted-like", 9993.9}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lengths lengths = open_shipped(cases[i].name);
        CHECK_CLOSE(lengths_mean(&lengths), cases[i].mean, 1e-4);
        lengths_close(&lengths);
    }
}

/* These are the CDF of a million real lengths of Wikipedia at 1K, 2K, ..., 256K in percent, and their mean of 1013.65
 * tokens. The law is within 0.5 points and 1% of the mean. The table of quantiles is within 0.2 points (at 1K, between
 * two rows) and 1.1%. */
TEST(law__is_close_to_the_data_of_wikipedia)
{
    const double percent[] = {78.81, 89.65, 95.61, 98.40, 99.523, 99.870, 99.972, 99.9951, 99.9993};
    struct lengths law = open_shipped("wikipedia"), table = open_shipped("wikipedia-quantiles");
    for (int i = 0; i < 9; i++) {
        CHECK_TRUE(fabs(100 * lengths_cdf(&law, ldexp(K, i)) - percent[i]) < 0.5);
        CHECK_TRUE(fabs(100 * lengths_cdf(&table, ldexp(K, i)) - percent[i]) < 0.2);
    }
    CHECK_CLOSE(lengths_mean(&law), 1013.65, 0.01);
    CHECK_CLOSE(lengths_mean(&table), 1013.65, 0.011);
    lengths_close(&law);
    lengths_close(&table);
}

/* The mean is the integral of 1 - CDF, and the quantile its inverse. Both are independent of the closed forms'
 * moments. */
TEST(law__has_moments_that_agree_with_its_cdf)
{
    for (int i = 0; i < 5; i++) {
        struct lengths lengths = open_shipped(shipped[i]);
        const struct lengths_law *law = &lengths.law;
        enum { N = 200000 };
        double step = log(law->longest / law->shortest) / N, integral = law->shortest;
        for (int j = 0; j < N; j++) {
            double x = law->shortest * exp((j + 0.5) * step);
            integral += (1 - law_cdf(law, x)) * x * step;
        }
        CHECK_CLOSE(integral, lengths_mean(&lengths), 1e-6);
        for (int j = 1; j < 1000; j++) {
            double x = law_quantile(law, j / 1000.0);
            if (x < law->longest)
                CHECK_CLOSE(law_cdf(law, x), j / 1000.0, 1e-9);
        }
        lengths_close(&lengths);
    }
}

/* alpha = 1 is the limit of its neighbours. A tail alone has E = join (1 + ln(longest/join)). */
TEST(law_mean_up_to__is_logarithmic_for_a_tail_of_exponent_one)
{
    struct lengths_law law = {5, 1, 16, 1000, 0.5, 1, 64000};
    double body = law_mean_up_to(&law, 1000);
    CHECK_CLOSE(law_mean_up_to(&law, 64000) - body, 0.5 * 1000 * (1 + log(64)), 1e-12);
    law.alpha = 1 + 1e-7;
    CHECK_CLOSE(law_mean_up_to(&law, 64000) - body, 0.5 * 1000 * (1 + log(64)), 1e-6);
}

/* Draws below x are binomial, with standard error sqrt(F (1 - F) / n). The mean of min(X, 32K) has standard error s /
 * sqrt(n), with s from the sample. Four standard errors are allowed. Seeds are fixed, so the test cannot flicker. */
static void a_million_draws_follow_the_closed_form(const char *name)
{
    enum { N = 1000000, CAP = 32 * K, CONTEXT = 2048 * K };
    struct scenario_data data = data_of(name, CONTEXT, SCENARIO_CUT, N);
    struct lengths lengths = open_lengths(&data);
    struct batch batch = {0};
    lengths_draw(&lengths, &data, 11, 4, &batch);
    CHECK_EQUAL(batch.n_samples, N);
    for (int32_t x = 32; x < CONTEXT; x *= 2) {
        double cdf = lengths_cdf(&lengths, x), n_below = 0;
        for (int i = 0; i < N; i++)
            n_below += batch.tokens[i] <= x;
        CHECK_TRUE(fabs(n_below / N - cdf) <= 4 * sqrt(cdf * (1 - cdf) / N) + 1e-12);
    }
    double sum = 0, sum_of_squares = 0, mean = 0;
    for (int i = 0; i < N; i++) {
        double x = fmin(batch.tokens[i], CAP);
        sum += x;
        sum_of_squares += x * x;
    }
    for (int x = 0; x < CAP; x++) /* E[min(X, cap)] of whole numbers is the sum of P(X > x) */
        mean += 1 - lengths_cdf(&lengths, x);
    double error = sqrt((sum_of_squares / N - sum / N * sum / N) / N);
    CHECK_TRUE(fabs(sum / N - mean) <= 4 * error);
    batch_free(&batch);
    lengths_close(&lengths);
}

TEST(lengths_draw__follows_laws_and_tables)
{
    for (int i = 0; i < N_SHIPPED; i++)
        a_million_draws_follow_the_closed_form(shipped[i]);
}

static bool equal_batches(const struct batch *a, const struct batch *b)
{
    size_t bytes = (size_t)a->n_samples * sizeof(int32_t);
    return a->n_samples == b->n_samples && a->n_tokens == b->n_tokens && a->n_dropped == b->n_dropped &&
           memcmp(a->tokens, b->tokens, bytes) == 0 && memcmp(a->document, b->document, bytes) == 0;
}

TEST(lengths_draw__depends_on_seed_and_iteration_only)
{
    struct scenario_data data = data_of("github", 16384, SCENARIO_CUT, 512);
    struct lengths lengths = open_lengths(&data);
    struct batch first = {0}, again = {0}, other = {0};
    lengths_draw(&lengths, &data, 1, 7, &first);
    lengths_draw(&lengths, &data, 1, 8, &other);
    lengths_draw(&lengths, &data, 1, 7, &again);
    CHECK_TRUE(equal_batches(&first, &again));
    CHECK_TRUE(!equal_batches(&first, &other));
    batch_free(&other);
    lengths_draw(&lengths, &data, 2, 7, &other);
    CHECK_TRUE(!equal_batches(&first, &other));
    batch_free(&first);
    batch_free(&again);
    batch_free(&other);
    lengths_close(&lengths);
}

/* Documents of both batches come from the same random numbers. The longest of a context is 2^21 tokens. */
TEST(length_scale__multiplies_each_document)
{
    static const char *const sources[] = {"github", "wikipedia-quantiles", "3000 9000 500 1 8000"};
    for (int s = 0; s < 3; s++) {
        struct scenario_data data = data_of(sources[s], 2048 * K, SCENARIO_TRUNCATE, 500), longer = data;
        longer.length_scale = 1.2;
        struct lengths lengths = open_lengths(&data), scaled = open_lengths(&longer);
        struct batch before, after;
        lengths_draw(&lengths, &data, 7, 3, &before);
        lengths_draw(&scaled, &longer, 7, 3, &after);
        CHECK_EQUAL(after.n_samples, before.n_samples);
        for (int32_t i = 0; i < before.n_samples && i < after.n_samples; i++)
            CHECK_EQUAL(after.tokens[i], fmin(lround(1.2 * before.tokens[i]), 2048 * K));
        CHECK_CLOSE(lengths_mean(&scaled), 1.2 * lengths_mean(&lengths), 1e-4); /* a list has whole tokens */
        for (int32_t tokens = 1; tokens <= 20000; tokens += 7) /* 1.2 times a length is never half way */
            CHECK_CLOSE(lengths_cdf(&scaled, (double)lround(1.2 * tokens)), lengths_cdf(&lengths, tokens), 1e-15);
        batch_free(&before);
        batch_free(&after);
        lengths_close(&lengths);
        lengths_close(&scaled);
    }
}

/* 0.04 times 10, 20, 30 and 40 tokens is 0.4, 0.8, 1.2 and 1.6. A context of 4Ki has 8Ki documents, cut into two. */
TEST(length_scale__leaves_a_token_and_comes_before_the_cut)
{
    struct scenario_data data = data_of("10 20 30 40", 4 * K, SCENARIO_CUT, 4),
                         fixed = data_of("fixed", 4 * K, SCENARIO_CUT, 4);
    data.length_scale = 0.04;
    fixed.length_scale = 2;
    struct lengths lengths = open_lengths(&data);
    struct batch batch;
    lengths_draw(&lengths, &data, 7, 0, &batch);
    CHECK_TRUE(batch.n_samples == 4 && batch.tokens[0] == 1 && batch.tokens[1] == 1 && batch.tokens[2] == 1);
    CHECK_EQUAL(batch.tokens[3], 2);
    CHECK_CLOSE(lengths_mean(&lengths), 1.25, 1e-15);
    batch_free(&batch);
    lengths_close(&lengths);
    lengths = open_lengths(&fixed);
    lengths_draw(&lengths, &fixed, 7, 0, &batch);
    CHECK_TRUE(batch.n_samples == 8 && batch.n_documents == 4 && batch.n_tokens == 32 * K);
    batch_free(&batch);
    lengths_close(&lengths);
}

/** Return the bins of best-fit decreasing for the first n samples. */
static int32_t bins_of(const struct batch *batch, int32_t n, int64_t context)
{
    int32_t *order = bins_order(batch->tokens, n), *bin = check_malloc((size_t)n * sizeof *bin);
    int32_t n_bins = bins_pack(batch->tokens, order, n, (int32_t)context, bin);
    free(order);
    free(bin);
    return n_bins;
}

/** Check that a batch of so many tokens has the first samples that fill `n_bins` bins, and no more. */
static void check_sequences(int64_t global_batch_tokens, int32_t long_documents, int32_t n_bins)
{
    struct scenario_data data = data_of("github", 32 * K, long_documents, 4000), by_tokens = data;
    by_tokens.global_batch = 0;
    by_tokens.global_batch_tokens = global_batch_tokens;
    struct lengths lengths = open_lengths(&by_tokens);
    for (int64_t iteration = 0; iteration < 20; iteration++) {
        struct batch larger, batch;
        lengths_draw(&lengths, &data, 7, iteration, &larger);
        lengths_draw(&lengths, &by_tokens, 7, iteration, &batch);
        int32_t n = batch.n_samples;
        int64_t tokens = 0;
        for (int32_t i = 0; i < n; i++)
            tokens += larger.tokens[i];
        CHECK_TRUE(tokens == batch.n_tokens && batch.n_documents == larger.document[n - 1] + 1);
        CHECK_TRUE(memcmp(batch.tokens, larger.tokens, (size_t)n * sizeof *batch.tokens) == 0);
        CHECK_TRUE(memcmp(batch.document, larger.document, (size_t)n * sizeof *batch.document) == 0);
        CHECK_EQUAL(bins_of(&batch, n, 32 * K), n_bins);
        CHECK_EQUAL(bins_of(&larger, n + 1, 32 * K), n_bins + 1);
        batch_free(&larger);
        batch_free(&batch);
    }
    lengths_close(&lengths);
}

/* 3.9M / 32,768 is 119.02; 4Mi and 4.2M have the same 128 sequences. */
TEST(batch_of_tokens__fills_whole_sequences)
{
    check_sequences(3900000, SCENARIO_CUT, 119);
    check_sequences(4000000, SCENARIO_CUT, 122);
    check_sequences(4100000, SCENARIO_CUT, 125);
    check_sequences(4 * K * K, SCENARIO_CUT, 128);
    check_sequences(4200000, SCENARIO_CUT, 128);
    check_sequences(4 * K * K, SCENARIO_DROP, 128);
    check_sequences(4 * K * K, SCENARIO_TRUNCATE, 128);
}

/* 20Ki tokens are two and a half documents of 8Ki, so a batch has two. */
TEST(batch_of_tokens__has_whole_documents_of_fixed_lengths)
{
    struct scenario_data data = data_of("fixed", 8 * K, SCENARIO_CUT, 0);
    data.global_batch_tokens = 20 * K;
    struct lengths lengths = open_lengths(&data);
    struct batch batch;
    lengths_draw(&lengths, &data, 1, 5, &batch);
    CHECK_TRUE(batch.n_documents == 2 && batch.n_samples == 2 && batch.n_tokens == 16 * K);
    batch_free(&batch);
    lengths_close(&lengths);
}

/** Check the samples of an iteration, which end with a 0. */
static void check_samples(const struct lengths *lengths, const struct scenario_data *data, int64_t iteration,
                          const int32_t *expected)
{
    struct batch batch;
    int32_t n = 0;
    lengths_draw(lengths, data, 1, iteration, &batch);
    while (expected[n] > 0 && n < batch.n_samples && batch.tokens[n] == expected[n])
        n++;
    CHECK_TRUE(expected[n] == 0 && n == batch.n_samples);
    batch_free(&batch);
}

/*
 * Two bins of 8192. Documents of 9000 are dropped. 8000 fills a bin, and 7700 the other; 700 more are too many. The
 * second batch begins with these 700 and ends before a second 8000. So do all others, which begin with 8000.
 */
TEST(batch_of_tokens__goes_on_in_a_list)
{
    struct scenario_data data = data_of("3000 9000 500 700 8000", 8192, SCENARIO_DROP, 0);
    data.global_batch_tokens = 16384;
    struct lengths lengths = open_lengths(&data);
    struct batch batch;
    check_samples(&lengths, &data, 0, (const int32_t[]){3000, 500, 700, 8000, 3000, 500, 0});
    check_samples(&lengths, &data, 1, (const int32_t[]){700, 8000, 3000, 500, 700, 0});
    for (int64_t iteration = 2; iteration < 40; iteration++)
        check_samples(&lengths, &data, iteration, (const int32_t[]){8000, 3000, 500, 700, 0});
    lengths_draw(&lengths, &data, 1, 0, &batch);
    CHECK_EQUAL(batch.n_dropped, 2);
    batch_free(&batch);
    lengths_close(&lengths);
}

/* Four bins: the second document would need a fifth, so its rest is in no batch. */
TEST(batch_of_tokens__ends_inside_a_long_document)
{
    struct scenario_data data = data_of("20000 16384", 8192, SCENARIO_CUT, 0);
    data.global_batch_tokens = 4 * 8192;
    struct lengths lengths = open_lengths(&data);
    check_samples(&lengths, &data, 0, (const int32_t[]){8192, 8192, 3616, 8192, 0});
    check_samples(&lengths, &data, 1, (const int32_t[]){8192, 8192, 3616, 8192, 0});
    lengths_close(&lengths);
}

/* Cutting and truncating see the same documents as a batch with a context that holds everything. */
TEST(long_documents__are_cut_or_truncated)
{
    struct scenario_data data = data_of("byted-like", INT64_C(2048) * K, SCENARIO_CUT, 300);
    struct lengths lengths = open_lengths(&data);
    struct batch whole = {0}, partition = {0}, truncated = {0};
    lengths_draw(&lengths, &data, 5, 0, &whole);
    data.context = 3000;
    lengths_draw(&lengths, &data, 5, 0, &partition);
    data.long_documents = SCENARIO_TRUNCATE;
    lengths_draw(&lengths, &data, 5, 0, &truncated);
    CHECK_EQUAL(whole.n_samples, 300);
    CHECK_EQUAL(truncated.n_samples, 300);
    CHECK_EQUAL(partition.n_tokens, whole.n_tokens);
    int32_t sample = 0;
    for (int32_t d = 0; d < 300; d++) {
        CHECK_TRUE(truncated.tokens[d] == (whole.tokens[d] < 3000 ? whole.tokens[d] : 3000));
        for (int32_t rest = whole.tokens[d]; rest > 0; rest -= 3000, sample++)
            CHECK_TRUE(partition.document[sample] == d && partition.tokens[sample] == (rest < 3000 ? rest : 3000));
    }
    CHECK_EQUAL(sample, partition.n_samples);
    batch_free(&whole);
    batch_free(&partition);
    batch_free(&truncated);
    lengths_close(&lengths);
}

/* Documents are redrawn until they fit. 1 - F(context) of the draws are dropped, which is binomial again. */
TEST(long_documents__are_dropped_and_the_batch_refilled)
{
    enum { N = 100000 };
    struct scenario_data data = data_of("github", 2048, SCENARIO_DROP, N);
    struct lengths lengths = open_lengths(&data);
    struct batch batch = {0};
    lengths_draw(&lengths, &data, 3, 0, &batch);
    CHECK_EQUAL(batch.n_samples, N);
    for (int i = 0; i < N; i++)
        CHECK_TRUE(batch.document[i] == i && batch.tokens[i] <= 2 * K);
    double fits = lengths_cdf(&lengths, 2 * K), drawn = N + (double)batch.n_dropped;
    CHECK_TRUE(fabs(N / drawn - fits) <= 4 * sqrt(fits * (1 - fits) / drawn));
    batch_free(&batch);
    lengths_close(&lengths);
}

/* Each of n values drawn with replacement must come up near N/n times. The standard error is sqrt(N (1/n) (1 -
 * 1/n)). */
TEST(lengths_draw__draws_a_file_evenly_with_replacement)
{
    enum { N = 100000 };
    struct lengths lengths = open_text("five.txt", "10 20 30 40 50", NULL);
    struct scenario_data data = data_of("unused", 4096, SCENARIO_CUT, N);
    struct batch batch = {0};
    int32_t n_of[5] = {0};
    lengths_draw(&lengths, &data, 1, 0, &batch);
    for (int i = 0; i < N; i++)
        n_of[batch.tokens[i] / 10 - 1]++;
    for (int i = 0; i < 5; i++)
        CHECK_TRUE(abs(n_of[i] - N / 5) < 4 * sqrt(N * 0.2 * 0.8));
    CHECK_CLOSE(lengths_mean(&lengths), 30, 1e-15);
    CHECK_CLOSE(lengths_cdf(&lengths, 39.9), 0.6, 1e-15);
    CHECK_CLOSE(lengths_cdf(&lengths, 40), 0.8, 1e-15);
    batch_free(&batch);
    lengths_close(&lengths);
}

/* The rows are (0, 4), (0.5, 16), (0.75, 16), (1, 64), with medians and means by hand. ln is linear, so F(8) = 0.25. 8
 * rounds up to 8.5. The mean is 0.5 x 12/ln 4 + 0.25 x 16 + 0.25 x 48/ln 4. */
TEST(table__gives_the_quantiles_counted_by_hand)
{
    struct lengths lengths =
        open_text("hand.yaml", "kind: table\nsource: by hand\np: [0, 0.5, 0.75, 1]\ntokens: [4, 16, 16, 64]\n", NULL);
    CHECK_CLOSE(lengths_mean(&lengths), 18 / log(4) + 4, 1e-14);
    CHECK_CLOSE(lengths_cdf(&lengths, 8), 0.5 * log(8.5 / 4) / log(4), 1e-14);
    CHECK_CLOSE(lengths_cdf(&lengths, 16), 0.75 + 0.25 * log(16.5 / 16) / log(4), 1e-14);
    CHECK_TRUE(lengths_cdf(&lengths, 3) == 0 && lengths_cdf(&lengths, 64) == 1);
    struct scenario_data data = data_of("unused", 4096, SCENARIO_CUT, 100000);
    struct batch batch = {0};
    lengths_draw(&lengths, &data, 1, 0, &batch);
    CHECK_CLOSE((double)batch.n_tokens / 100000, 18 / log(4) + 4, 0.01);
    batch_free(&batch);
    lengths_close(&lengths);
}

TEST(lengths_open__refuses_wrong_laws_and_tables_with_their_place)
{
    const char *const law = "kind: law\nsource: x\nmu: 5\nsigma: 1\nshortest: 16\n";
    char text[512];
    snprintf(text, sizeof text, "%sjoin: 8\ntail: 0.1\nalpha: 2\nlongest: 1Ki\n", law);
    open_text("bad.yaml", text, "shortest < join <= longest");
    snprintf(text, sizeof text, "%sjoin: 1Ki\ntail: 1.1\nalpha: 2\nlongest: 1Mi\n", law);
    open_text("bad.yaml", text, "bad.yaml:7:7: tail");
    snprintf(text, sizeof text, "%sjoin: 1Ki\ntail: 0.1\nalhpa: 2\nlongest: 1Mi\n", law);
    open_text("bad.yaml", text, "did you mean 'alpha'");
    open_text("bad.yaml",
              "kind: law\nsource: x\nmu: 90\nsigma: 1\nshortest: 16\njoin: 1Ki\ntail: 0\nalpha: 2\nlongest: 1Ki\n",
              "less than a millionth");
    open_text("bad.yaml", "kind: lwa\n", "bad.yaml:1:7: kind");
    open_text("bad.yaml", "kind: table\nsource: x\np: [0, 0.5, 0.5, 1]\ntokens: [1, 2, 3, 4]\n",
              "bad.yaml:3:13: p: '0.5'");
    open_text("bad.yaml", "kind: table\nsource: x\np: [0, 0.5, 1]\ntokens: [1, 3, 2]\n", "bad.yaml:4:16: tokens: '2'");
    open_text("bad.yaml", "kind: table\nsource: x\np: [0, nan, 1]\ntokens: [1, 3, 4]\n", "bad.yaml:3:8: p: 'nan'");
    open_text("bad.yaml", "kind: table\nsource: x\np: [0, 1]\ntokens: [1, 3, 4]\n", "have 2 and 3 numbers");
    open_text("bad.yaml", "kind: table\nsource: x\np: [0.1, 1]\ntokens: [1, 3]\n", "must go from 0 to 1");
    open_text("bad.yaml", "kind: table\nsource: x\np: 5\n", "tokens: must be a list");
}

TEST(lengths_open__refuses_what_cannot_be_drawn)
{
    const struct {
        struct scenario_data data;
        const char *part;
    } cases[] = {
        {data_of("githb", 4096, SCENARIO_CUT, 8), "did you mean 'github'"},
        {data_of("./nowhere.txt", 4096, SCENARIO_CUT, 8), "./nowhere.txt: cannot be opened"},
        {data_of("github", 16, SCENARIO_DROP, 8), "at least 0.01% must"},
        {data_of("github", 1, SCENARIO_CUT, 4096), "more than 2147483647 samples"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lengths lengths = {0};
        struct error err = {0};
        CHECK_TRUE(!lengths_open(&cases[i].data, SLIMSIM_SOURCE_DIR, &lengths, &err));
        CHECK_CONTAINS(err.text, cases[i].part);
        CHECK_EQUAL(err.status, ERROR_INVALID);
    }
}

/** Return the data of parts that are files, each of one length. */
static struct scenario_data data_of_parts(int32_t n, const int32_t *tokens, const double *share)
{
    struct scenario_data data = data_of("mix", 4096, SCENARIO_CUT, 40000);
    data.n_parts = n;
    for (int32_t k = 0; k < n; k++) {
        char name[32];
        snprintf(name, sizeof name, "part%d.txt", k);
        FILE *file = fopen(harness_path(name), "w");
        CHECK(file != NULL && fprintf(file, "%d\n", tokens[k]) > 0 && fclose(file) == 0);
        snprintf(data.part[k].lengths, sizeof data.part[k].lengths, "%s", harness_path(name));
        data.part[k].share = share[k];
    }
    return data;
}

/* Half of all tokens are in documents of 100, half in those of 300. So 3 documents of 100 come with one of 300. */
TEST(mix__has_its_shares_of_tokens)
{
    struct scenario_data data = data_of_parts(2, (int32_t[]){100, 300}, (double[]){0.5, 0.5});
    struct lengths lengths = open_lengths(&data);
    struct batch batch;
    CHECK_CLOSE(lengths_mean(&lengths), (3 * 100 + 300) / 4., 1e-12);
    CHECK_CLOSE(lengths_cdf(&lengths, 100), 0.75, 1e-12);
    CHECK_CLOSE(lengths_cdf(&lengths, 300), 1, 1e-12);
    CHECK_CONTAINS(lengths.read, "data.mix: mean 150.0, median 100, longest 300 tokens; of documents: 75.0% ");
    lengths_draw(&lengths, &data, 1, 0, &batch);
    int64_t of_long = 0;
    for (int32_t i = 0; i < batch.n_samples; i++)
        of_long += batch.tokens[i] == 300 ? 300 : 0;
    CHECK_CLOSE((double)of_long / (double)batch.n_tokens, 0.5, 0.02);
    batch_free(&batch);
    uint64_t hash = lengths.hash;
    lengths_close(&lengths);
    data = data_of_parts(2, (int32_t[]){300, 100}, (double[]){0.5, 0.5});
    data.length_scale = 2;
    lengths = open_lengths(&data);
    CHECK_TRUE(lengths.hash != hash);
    CHECK_CLOSE(lengths_mean(&lengths), 300, 1e-12);
    lengths_close(&lengths);
}

/* The parts end before the measured iterations 2, 3 and 4. One iteration of warm-up has the first part. */
TEST(schedule__goes_from_part_to_part)
{
    static const int32_t expected[] = {100, 100, 100, 200, 400, 100, 100, 200, 400};
    struct scenario_data data = data_of_parts(3, (int32_t[]){100, 200, 400}, (double[]){0.5, 0.25, 0.25});
    data.scheduled = true;
    data.schedule_begin = 1;
    for (int32_t k = 0; k < 3; k++)
        data.part[k].end = 2 + k;
    struct lengths lengths = open_lengths(&data);
    for (int32_t i = 0; i < 9; i++) {
        struct batch batch;
        lengths_draw(&lengths, &data, 1, i, &batch);
        CHECK_EQUAL(batch.tokens[0], expected[i]);
        CHECK_EQUAL(batch.n_tokens, (int64_t)batch.n_samples * expected[i]);
        batch_free(&batch);
    }
    CHECK_CLOSE(lengths_mean(&lengths), 1 / (0.5 / 100 + 0.25 / 200 + 0.25 / 400), 1e-12);
    lengths_close(&lengths);
}
