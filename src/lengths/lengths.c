/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "lengths/lengths.h"
#include "lengths/batch_memo.h"
#include "lengths/bins.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/rng.h"
#include "base/text.h"
#include "document/document_read.h"
#include "document/library.h"
#include "document/quantity.h"
#include "lengths/reader.h"

static bool open_yaml(const char *path, struct lengths *lengths, struct error *err)
{
    struct document document = {0};
    if (!document_read(path, &document, err))
        return false;
    int32_t kind = document_find(&document, 0, "kind");
    bool is_table =
        kind >= 0 && document.node[kind].kind == DOCUMENT_SCALAR && strcmp(document.node[kind].value, "table") == 0;
    lengths->kind = is_table ? LENGTHS_TABLE : LENGTHS_LAW;
    bool ok = is_table ? table_read(&document, &lengths->table, err) : law_read(&document, &lengths->law, err);
    document_free(&document);
    return ok;
}

/**
 * Open a law or table by its name.
 *
 * @param path  receives its file
 */
static bool open_shipped(const char *name, const char *data_dir, char path[1024], struct lengths *lengths,
                         struct error *err)
{
    char folder[1024];
    if (snprintf(folder, sizeof folder, "%s/model/lengths", data_dir) >= (int)sizeof folder)
        return error_add(err, "the path of the data folder is too long");
    if (library_find(folder, name, ".yaml", "length law or table", path, err))
        return open_yaml(path, lengths, err);
    return error_add(err, "data.lengths: lengths of your own are named by the path of their file, with a . or / in it");
}

/** Return the length of a document with data.length_scale. The factor 1 changes nothing. */
static int32_t scaled(double scale, int32_t tokens)
{
    return (int32_t)lround(fmax(1, fmin(scale * tokens, INT32_MAX)));
}

/** Let every document fill the context, as in training on fixed lengths. */
static bool open_fixed(const struct scenario_data *data, struct lengths *lengths)
{
    CHECK(1 <= data->context && data->context <= INT32_MAX);
    lengths->kind = LENGTHS_FIXED;
    lengths->fixed_tokens = scaled(data->length_scale, (int32_t)data->context);
    lengths->hash = HASH_START;
    return true;
}

/** Read the lengths themselves, such as "8Ki 4400". */
static bool open_listed(const struct scenario_data *data, struct lengths *lengths, struct error *err)
{
    char text[sizeof data->lengths], *rest = NULL;
    snprintf(text, sizeof text, "%s", data->lengths);
    lengths->kind = LENGTHS_LISTED;
    lengths->hash = HASH_START;
    lengths->file_tokens = check_calloc(sizeof text, sizeof *lengths->file_tokens);
    for (char *word = strtok_r(text, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        double tokens;
        if (!quantity_parse(word, "tokens", &tokens) || tokens != floor(tokens) || tokens < 1 || tokens > INT32_MAX)
            return error_set(err,
                             "data.lengths: '%s' is no length; a list holds whole numbers from 1 to 2147483647, "
                             "with spaces between them",
                             word);
        lengths->file_tokens[lengths->n++] = (int32_t)tokens;
    }
    return true;
}

/** Return the weight of a length of a file. */
static double weight_of(const struct lengths *lengths, int64_t i)
{
    const double *up_to = lengths->weight_up_to;
    return up_to == NULL ? 1 : i == 0 ? up_to[0] : up_to[i] - up_to[i - 1];
}

static double file_cdf(const struct lengths *lengths, double tokens)
{
    double below = 0;
    for (int64_t i = 0; i < lengths->n; i++)
        below += lengths->file_tokens[i] <= tokens ? weight_of(lengths, i) : 0;
    return below / (lengths->weight_up_to != NULL ? lengths->weight_up_to[lengths->n - 1] : (double)lengths->n);
}

static double longest_tokens(const struct lengths *lengths)
{
    double longest_part = 0;
    for (int32_t k = 0; k < lengths->n_parts; k++)
        longest_part = fmax(longest_part, longest_tokens(&lengths->part[k]));
    if (lengths->n_parts > 0)
        return longest_part;
    if (lengths->kind == LENGTHS_LAW)
        return lengths->scale * lengths->law.longest;
    if (lengths->kind == LENGTHS_TABLE)
        return lengths->scale * lengths->table.tokens[lengths->table.n - 1];
    if (lengths->kind == LENGTHS_FIXED)
        return lengths->fixed_tokens;
    int32_t longest = 0;
    for (int64_t i = 0; i < lengths->n; i++)
        if (lengths->file_tokens[i] > longest && weight_of(lengths, i) > 0)
            longest = lengths->file_tokens[i];
    return longest;
}

/** Return the shortest length that at least half of the documents do not exceed. */
static int32_t median_tokens(const struct lengths *lengths)
{
    int32_t low = 1, high = (int32_t)longest_tokens(lengths);
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (lengths_cdf(lengths, middle) >= 0.5)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/** Say what was read of a file. The caller frees the text. */
static char *text_read(const char *path, const char *part, const struct lengths *lengths)
{
    return text_clean(check_asprintf("data.lengths: %s%s%s: %lld length%s, mean %.1f, median %d, longest %.0f tokens",
                                     part, *part != '\0' ? " of " : "", path, (long long)lengths->n,
                                     lengths->n == 1 ? "" : "s", lengths_mean(lengths), median_tokens(lengths),
                                     longest_tokens(lengths)));
}

static bool open_file(const struct scenario_data *data, struct lengths *lengths, struct error *err)
{
    const struct reader_choice choice = {data->lengths, data->column, data->weights};
    struct reader_lengths read = {0};
    bool ok = reader_read(&choice, &read, err);
    if (ok && read.n > INT32_MAX)
        ok = error_set(err, "%s: holds %zu lengths, at most 2147483647 are allowed", choice.path, read.n);
    lengths->kind = LENGTHS_FILE;
    lengths->file_tokens = read.tokens;
    lengths->weight_up_to = read.weight;
    lengths->n = (int64_t)read.n;
    for (int64_t i = 1; i < lengths->n && read.weight != NULL; i++)
        read.weight[i] += read.weight[i - 1];
    if (ok && read.weight != NULL && read.weight[lengths->n - 1] <= 0)
        ok = error_set(err, "%s: all weights are 0; allowed: at least one above", choice.path);
    if (ok)
        lengths->read = text_read(choice.path, read.part, lengths);
    return ok;
}

/** Scale the lengths that are in memory. Laws and tables are scaled when they are drawn from. */
static void scale_lengths(struct lengths *lengths, double scale)
{
    lengths->scale = scale;
    for (int64_t i = 0; i < lengths->n; i++)
        lengths->file_tokens[i] = scaled(scale, lengths->file_tokens[i]);
}

/** Return whether every batch can be drawn. With `drop` enough documents must fit. With `cut` a batch must have
 * fewer than 2^31 samples. */
static bool check_context(const struct scenario_data *data, const struct lengths *lengths, struct error *err)
{
    double fits = lengths_cdf(lengths, (double)data->context);
    if (data->long_documents == SCENARIO_DROP && fits < 1e-4)
        return error_set(err,
                         "data.context: %g%% of the documents of %s have at most %lld tokens; with long_documents: "
                         "drop at least 0.01%% must",
                         100 * fits, data->lengths, (long long)data->context);
    char batch[SCENARIO_BATCH_BYTES];
    double longest = longest_tokens(lengths), chunks = ceil(longest / (double)data->context);
    double by_tokens = (double)data->global_batch_tokens + chunks; /* a sample has a token or more */
    double samples = data->global_batch_tokens > 0 ? by_tokens : chunks * (double)data->global_batch;
    scenario_batch_text(data, batch);
    if (data->long_documents == SCENARIO_CUT && samples > INT32_MAX)
        return error_set(err,
                         "data.context: documents of up to %.0f tokens, %s of them, could be cut into more than "
                         "2147483647 samples of %lld tokens; a longer context or a smaller global_batch is needed",
                         longest, batch, (long long)data->context);
    return true;
}

/** Draw the index of a length in proportion to the weights. */
static int64_t draw_weighted(const struct lengths *lengths, struct rng *rng)
{
    int64_t low = 0, high = lengths->n - 1;
    double weight = rng_uniform(rng) * lengths->weight_up_to[high];
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (lengths->weight_up_to[middle] >= weight)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/** Draw one length. A list has it at the position, modulo its length. */
static int32_t draw_tokens(const struct lengths *lengths, struct rng *rng, int64_t position)
{
    if (lengths->kind == LENGTHS_LISTED)
        return lengths->file_tokens[position % lengths->n];
    if (lengths->kind == LENGTHS_FILE && lengths->weight_up_to != NULL)
        return lengths->file_tokens[draw_weighted(lengths, rng)];
    if (lengths->kind == LENGTHS_FILE)
        return lengths->file_tokens[rng_index(rng, lengths->n)];
    if (lengths->kind == LENGTHS_FIXED)
        return lengths->fixed_tokens;
    double p = rng_uniform(rng);
    if (lengths->kind == LENGTHS_MIX) {
        int32_t k = 0;
        for (; k + 1 < lengths->n_parts && p > lengths->documents[k]; k++)
            p -= lengths->documents[k];
        return draw_tokens(&lengths->part[k], rng, position);
    }
    double tokens = lengths->kind == LENGTHS_LAW ? law_quantile(&lengths->law, p) : table_quantile(&lengths->table, p);
    return scaled(lengths->scale, (int32_t)lround(fmin(tokens, INT32_MAX)));
}

/** Capacities of a batch's arrays while it grows. */
struct room {
    size_t tokens, document;
};

static void add_sample(struct batch *batch, struct room *room, int32_t document, int32_t tokens)
{
    CHECK(batch->n_samples < INT32_MAX);
    size_t n = (size_t)batch->n_samples;
    batch->tokens = check_grow(batch->tokens, n, &room->tokens, sizeof *batch->tokens);
    batch->document = check_grow(batch->document, n, &room->document, sizeof *batch->document);
    batch->tokens[n] = tokens;
    batch->document[n] = document;
    batch->n_samples++;
    batch->n_tokens += tokens;
}

/** It draws the documents of batches. */
struct draw {
    const struct lengths *lengths;
    const struct scenario_data *data;
    struct rng *rng;
    int64_t position; /* in a list, which is read over and over */
};

/** Draw a document. Drop or truncate it if the data say so. */
static int64_t draw_document(struct draw *draw)
{
    int64_t context = draw->data->context, tokens = draw_tokens(draw->lengths, draw->rng, draw->position++);
    while (draw->data->long_documents == SCENARIO_DROP && tokens > context)
        tokens = draw_tokens(draw->lengths, draw->rng, draw->position++);
    return draw->data->long_documents == SCENARIO_TRUNCATE && tokens > context ? context : tokens;
}

/** Cut a batch to the samples that fill the sequences of data.global_batch_tokens. */
static void fill_sequences(const struct scenario_data *data, struct batch *batch)
{
    int64_t n_sequences = data->global_batch_tokens / data->context;
    while (batch->n_tokens > n_sequences * data->context)
        batch->n_tokens -= batch->tokens[--batch->n_samples];
    int32_t n = bins_prefix(batch->tokens, batch->n_samples, (int32_t)data->context, (int32_t)n_sequences);
    while (batch->n_samples > n)
        batch->n_tokens -= batch->tokens[--batch->n_samples];
    batch->n_documents = batch->document[n - 1] + 1;
}

/** Draw a batch. @param position  at which it begins in a list; receives the one at which the next batch begins */
static void draw_batch(struct draw *draw, int64_t *position, struct batch *batch)
{
    const struct scenario_data *data = draw->data;
    struct room room = {0};
    int64_t context = data->context, begin = *position, *end = NULL; /* of each document */
    size_t n_ends = 0;
    *batch = (struct batch){0};
    draw->position = begin;
    while (data->global_batch_tokens > 0 ? batch->n_tokens < data->global_batch_tokens
                                         : batch->n_documents < data->global_batch) {
        int64_t tokens = draw_document(draw);
        for (int64_t at = 0; at < tokens; at += context)
            add_sample(batch, &room, batch->n_documents, (int32_t)(tokens - at < context ? tokens - at : context));
        end = check_grow(end, (size_t)batch->n_documents, &n_ends, sizeof *end);
        end[batch->n_documents++] = draw->position;
    }
    if (data->global_batch_tokens > 0)
        fill_sequences(data, batch);
    *position = end[batch->n_documents - 1];
    batch->n_dropped = *position - begin - batch->n_documents;
    free(end);
}

/** Find where iterations begin in a list. From some iteration on these positions repeat. */
static void find_beginnings(const struct scenario_data *data, struct lengths *lengths)
{
    struct draw draw = {.lengths = lengths, .data = data};
    int64_t *seen = check_calloc((size_t)lengths->n, sizeof *seen), position = 0; /* iteration + 1; 0: none */
    lengths->beginning = check_malloc((size_t)lengths->n * sizeof *lengths->beginning);
    while (seen[position] == 0) {
        struct batch batch;
        lengths->beginning[lengths->n_beginnings++] = position;
        seen[position] = lengths->n_beginnings;
        draw_batch(&draw, &position, &batch);
        batch_free(&batch);
        position %= lengths->n;
    }
    lengths->repeated = seen[position] - 1;
    free(seen);
}

/** Return the position in a list at which an iteration begins. Without beginnings each takes global_batch documents. */
static int64_t listed_position(const struct lengths *lengths, const struct scenario_data *data, int64_t iteration)
{
    int64_t first = lengths->repeated;
    if (lengths->n_beginnings == 0)
        return iteration % lengths->n * data->global_batch % lengths->n;
    if (iteration >= lengths->n_beginnings)
        iteration = first + (iteration - first) % (lengths->n_beginnings - first);
    return lengths->beginning[iteration];
}

/** Return the part of a schedule to which an iteration belongs. */
static const struct lengths *scheduled_part(const struct lengths *lengths, const struct scenario_data *data,
                                            int64_t iteration)
{
    int64_t since = iteration - data->schedule_begin, at = since > 0 ? since % data->part[data->n_parts - 1].end : 0;
    int32_t k = 0;
    while (at >= data->part[k].end)
        k++;
    return &lengths->part[k];
}

void lengths_draw(const struct lengths *lengths, const struct scenario_data *data, int64_t seed, int64_t iteration,
                  struct batch *batch)
{
    CHECK(data->context >= 1 && (data->global_batch > 0) != (data->global_batch_tokens > 0) &&
          data->global_batch <= INT32_MAX && (data->global_batch > 0 || data->global_batch_tokens >= data->context));
    if (lengths->kind == LENGTHS_SCHEDULE)
        lengths = scheduled_part(lengths, data, iteration);
    struct draw draw = {.lengths = lengths, .data = data, .rng = rng_create(seed, iteration, RNG_LENGTHS)};
    int64_t position = lengths->kind == LENGTHS_LISTED ? listed_position(lengths, data, iteration) : 0;
    draw_batch(&draw, &position, batch);
    rng_free(draw.rng);
}

/** Note what each part is, and its share of documents. */
static char *parts_read(const struct scenario_data *data, const struct lengths *lengths)
{
    char *text = NULL;
    size_t n_bytes;
    FILE *file = check_memstream(&text, &n_bytes);
    for (int32_t k = 0; k < lengths->n_parts; k++)
        if (lengths->part[k].read != NULL)
            fprintf(file, "%s\n", lengths->part[k].read);
    fprintf(file, "data.%s: mean %.1f, median %d, longest %.0f tokens; of documents: ", data->lengths,
            lengths_mean(lengths), median_tokens(lengths), longest_tokens(lengths));
    for (int32_t k = 0; k < lengths->n_parts; k++)
        fprintf(file, "%s%.1f%% %s", k > 0 ? ", " : "", 100 * lengths->documents[k], data->part[k].lengths);
    CHECK(fclose(file) == 0);
    return text;
}

/** Open the parts of a mix or schedule. */
static bool open_parts(const struct scenario_data *data, const char *data_dir, struct lengths *lengths,
                       struct error *err)
{
    double sum = 0;
    lengths->kind = data->scheduled ? LENGTHS_SCHEDULE : LENGTHS_MIX;
    lengths->hash = HASH_START;
    lengths->part = check_calloc((size_t)data->n_parts, sizeof *lengths->part);
    lengths->documents = check_calloc((size_t)data->n_parts, sizeof *lengths->documents);
    for (int32_t k = 0; k < data->n_parts; k++) {
        struct scenario_data of_part = *data;
        of_part.n_parts = 0;
        memcpy(of_part.lengths, data->part[k].lengths, sizeof of_part.lengths);
        memcpy(of_part.column, data->part[k].column, sizeof of_part.column);
        memcpy(of_part.weights, data->part[k].weights, sizeof of_part.weights);
        if (!lengths_open(&of_part, data_dir, &lengths->part[k], err))
            return false;
        lengths->n_parts++;
        lengths->hash = hash_bytes(lengths->hash, &lengths->part[k].hash, sizeof lengths->part[k].hash);
        lengths->documents[k] = data->part[k].share / lengths_mean(&lengths->part[k]);
        sum += lengths->documents[k];
    }
    for (int32_t k = 0; k < lengths->n_parts; k++)
        lengths->documents[k] /= sum;
    lengths->scale = 1;
    lengths->read = parts_read(data, lengths);
    return true;
}

bool lengths_open(const struct scenario_data *data, const char *data_dir, struct lengths *lengths, struct error *err)
{
    char path[1024];
    bool is_name = strpbrk(data->lengths, "./") == NULL, listed = scenario_lists_lengths(data);
    bool fixed = strcmp(data->lengths, "fixed") == 0, ok;
    *lengths = (struct lengths){0};
    if (data->n_parts > 0) {
        ok = open_parts(data, data_dir, lengths, err);
        if (!ok)
            lengths_close(lengths);
        return ok;
    }
    snprintf(path, sizeof path, "%s", data->lengths);
    if ((is_name || reader_ends_in(path, ".yaml")) && (data->column[0] != '\0' || data->weights[0] != '\0'))
        ok = error_set(err, "data.%s: '%s' is for " READER_WITH_COLUMNS " files only, not for the %s lengths",
                       data->column[0] != '\0' ? "column" : "weights",
                       data->column[0] != '\0' ? data->column : data->weights, data->lengths);
    else if (fixed)
        ok = open_fixed(data, lengths);
    else if (listed)
        ok = open_listed(data, lengths, err);
    else if (is_name)
        ok = open_shipped(data->lengths, data_dir, path, lengths, err);
    else if (reader_ends_in(path, ".yaml"))
        ok = open_yaml(path, lengths, err);
    else
        ok = open_file(data, lengths, err);
    scale_lengths(lengths, data->length_scale);
    ok = ok && (fixed || listed || hash_file(path, &lengths->hash, err)) && check_context(data, lengths, err);
    if (ok && listed && (data->global_batch_tokens > 0 || data->long_documents == SCENARIO_DROP))
        find_beginnings(data, lengths);
    if (!ok)
        lengths_close(lengths);
    return ok;
}

double lengths_cdf(const struct lengths *lengths, double tokens)
{
    double p = 0;
    for (int32_t k = 0; k < lengths->n_parts; k++)
        p += lengths->documents[k] * lengths_cdf(&lengths->part[k], tokens);
    if (lengths->n_parts > 0)
        return p;
    if (lengths->file_tokens != NULL)
        return file_cdf(lengths, tokens);
    if (lengths->kind == LENGTHS_FIXED)
        return tokens >= lengths->fixed_tokens;
    if (tokens < 1)
        return 0;
    double most = ceil((floor(tokens) + 0.5) / lengths->scale) - 1; /* the longest document with at most `tokens` */
    double rounded_up = most + 0.5;                                 /* below this, draws round to at most `most` */
    return lengths->kind == LENGTHS_LAW ? law_cdf(&lengths->law, rounded_up) : table_cdf(&lengths->table, rounded_up);
}

static double weighted_mean(const struct lengths *lengths)
{
    double sum = 0;
    for (int64_t i = 0; i < lengths->n; i++)
        sum += weight_of(lengths, i) * lengths->file_tokens[i];
    return sum / lengths->weight_up_to[lengths->n - 1];
}

double lengths_mean(const struct lengths *lengths)
{
    double mean = 0;
    for (int32_t k = 0; k < lengths->n_parts; k++)
        mean += lengths->documents[k] * lengths_mean(&lengths->part[k]);
    if (lengths->n_parts > 0)
        return mean;
    if (lengths->kind == LENGTHS_LAW)
        return lengths->scale * law_mean_up_to(&lengths->law, lengths->law.longest);
    if (lengths->kind == LENGTHS_TABLE)
        return lengths->scale * table_mean(&lengths->table);
    if (lengths->kind == LENGTHS_FIXED)
        return lengths->fixed_tokens;
    if (lengths->weight_up_to != NULL)
        return weighted_mean(lengths);
    int64_t sum = 0;
    for (int64_t i = 0; i < lengths->n; i++)
        sum += lengths->file_tokens[i];
    return (double)sum / (double)lengths->n;
}

void batch_free(struct batch *batch)
{
    free(batch->tokens);
    free(batch->document);
    batch_memo_free(batch->memo);
    *batch = (struct batch){0};
}

void lengths_close(struct lengths *lengths)
{
    table_free(&lengths->table);
    free(lengths->file_tokens);
    free(lengths->weight_up_to);
    free(lengths->read);
    free(lengths->beginning);
    for (int32_t k = 0; k < lengths->n_parts; k++)
        lengths_close(&lengths->part[k]);
    free(lengths->part);
    free(lengths->documents);
    *lengths = (struct lengths){0};
}
