/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scenario/data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "document/quantity.h"
#include "document/schema_text.h"

#define FIELD(field) offsetof(struct scenario_part, field)

static const struct schema_key keys[] = {
    {"lengths", SCHEMA_TEXT, "-", 0, 0, NULL, NULL, "lengths of this part, as data.lengths", FIELD(lengths)},
    {"column", SCHEMA_WORD, "-", 0, 0, "", NULL, "its data.column", FIELD(column)},
    {"weights", SCHEMA_WORD, "-", 0, 0, "", NULL, "its data.weights", FIELD(weights)},
    {"share", SCHEMA_REAL, "-", 1e-6, 1, NULL, NULL, "share of all tokens; the shares of all parts sum to 1",
     FIELD(share)},
};
enum { N_KEYS = sizeof keys / sizeof *keys };
static const char *const words[] = {"mix", "schedule"};

/** Write the lengths of a list with blanks between them. */
static bool join_list(struct document *document, int32_t list, char text[SCHEMA_TEXT_BYTES], struct error *err)
{
    size_t used = 0;
    for (int32_t child = document->node[list].child; child >= 0; child = document->node[child].next) {
        const struct document_node *node = &document->node[child];
        double tokens;
        if (node->kind != DOCUMENT_SCALAR || !quantity_parse(node->value, "tokens", &tokens) || tokens < 1 ||
            tokens > INT32_MAX || tokens != floor(tokens))
            return document_error(
                document, child, err,
                "data.lengths: '%.100s' is no length; a list holds whole numbers from 1 to 2147483647%s",
                node->kind == DOCUMENT_SCALAR ? node->value : "a list or mapping",
                node->kind == DOCUMENT_MAPPING ? ", and data.mix takes several sources" : "");
        used += (size_t)snprintf(text + used, SCHEMA_TEXT_BYTES - used, "%s%.0f", used > 0 ? " " : "", tokens);
        if (used >= SCHEMA_TEXT_BYTES)
            return document_error(document, list, err,
                                  "data.lengths: a list of over %d digits and blanks is too long; allowed: a file of "
                                  "them, one a line, by its path, from which lengths are drawn",
                                  SCHEMA_TEXT_BYTES - 1);
    }
    return used > 0 || document_error(document, list, err, "data.lengths: the list is empty; allowed: [8Ki, 4400]");
}

static bool prepare_list(struct document *document, struct error *err)
{
    char text[SCHEMA_TEXT_BYTES];
    int32_t list = document_find(document, 0, "data.lengths");
    if (list < 0 || document->node[list].kind != DOCUMENT_SEQUENCE)
        return true;
    bool ok = join_list(document, list, text, err);
    struct document_node *node = &document->node[list];
    node->kind = DOCUMENT_SCALAR; /* after an error, too, so that no other one follows from it */
    node->value = check_strdup(ok ? text : "1");
    node->child = -1;
    return ok;
}

/** Return the node of the parts, data.mix or data.schedule; -1: there is none. */
static int32_t find_parts(const struct document *document, bool *scheduled)
{
    int32_t mix = document_find(document, 0, "data.mix"), schedule = document_find(document, 0, "data.schedule");
    *scheduled = mix < 0 || document_is_null(&document->node[mix]);
    int32_t node = *scheduled ? schedule : mix;
    return node < 0 || document_is_null(&document->node[node]) ? -1 : node;
}

bool data_prepare(struct document *document, struct error *err)
{
    bool scheduled, ok = prepare_list(document, err);
    int32_t parts = find_parts(document, &scheduled), group = document_find(document, 0, "data");
    if (parts < 0 || document_find(document, 0, "data.lengths") >= 0)
        return ok;
    int32_t added = document_add_scalar(document, words[scheduled], parts);
    struct document_node *node = &document->node[added], *data = &document->node[group];
    node->key = check_strdup("lengths");
    node->key_line = node->line;
    node->key_column = node->column;
    node->next = data->child;
    data->child = added;
    return ok;
}

/** Check one part. A mix draws, and a list is taken in its order. */
static bool check_part(const struct scenario_data *data, const struct scenario_part *part,
                       const struct document *document, int32_t node, struct error *err)
{
    struct scenario_data of_part = {0};
    memcpy(of_part.lengths, part->lengths, sizeof of_part.lengths);
    if (strcmp(part->lengths, words[0]) == 0 || strcmp(part->lengths, words[1]) == 0)
        return document_error(document, node, err,
                              "data.%s: a part cannot be '%s' itself; allowed: a law, a table, a file, fixed",
                              words[data->scheduled], part->lengths);
    return data->scheduled || !scenario_lists_lengths(&of_part) ||
           document_error(document, node, err,
                          "data.mix: a list is taken in its order, and a mix draws; allowed: a law, a table, a file, "
                          "fixed");
}

/** Divide the measured iterations, which have equally many tokens. */
static bool divide_iterations(const struct scenario *scenario, struct scenario_data *data, int32_t node,
                              struct error *err)
{
    const struct document *document = &scenario->document;
    double share = 0;
    int64_t begin = 0;
    if (data->global_batch_tokens == 0)
        return document_error(document, node, err,
                              "data.schedule: needs data.global_batch_tokens, since iterations of data.global_batch "
                              "documents have unequal shares of the tokens");
    data->schedule_begin = scenario->warm_up;
    for (int32_t i = 0; i < data->n_parts; i++) {
        share += data->part[i].share;
        data->part[i].end = i + 1 < data->n_parts ? llround(share * (double)scenario->measured) : scenario->measured;
        if (data->part[i].end <= begin)
            return document_error(document, node, err,
                                  "data.schedule: share %g of %lld measured iterations is none; allowed: a larger "
                                  "share, or at least %.0f iterations",
                                  data->part[i].share, (long long)scenario->measured, ceil(1 / data->part[i].share));
        begin = data->part[i].end;
    }
    return true;
}

/** Read the entries of the list. */
static bool read_entries(const struct document *document, int32_t list, struct scenario_data *data, struct error *err)
{
    const char *name = words[data->scheduled];
    double sum = 0;
    bool ok = true;
    if (document->node[list].kind != DOCUMENT_SEQUENCE)
        return document_error(document, list, err, "data.%s: expected a list of {lengths: ..., share: ...}", name);
    for (int32_t child = document->node[list].child; child >= 0; child = document->node[child].next) {
        if (data->n_parts == SCENARIO_MOST_PARTS)
            return document_error(document, list, err, "data.%s: allowed: at most %d parts", name, SCENARIO_MOST_PARTS);
        struct scenario_part *part = &data->part[data->n_parts++];
        ok &=
            schema_read(document, child, keys, N_KEYS, NULL, part, err) && check_part(data, part, document, child, err);
        sum += part->share;
    }
    return ok && (fabs(sum - 1) < 1e-6 || document_error(document, list, err,
                                                         "data.%s: the shares sum to %g; allowed: shares of all "
                                                         "tokens, which sum to 1",
                                                         name, sum));
}

bool data_read_parts(struct scenario *scenario, struct error *err)
{
    const struct document *document = &scenario->document;
    struct scenario_data *data = &scenario->data;
    int32_t lengths = document_find(document, 0, "data.lengths"), list = find_parts(document, &data->scheduled);
    const char *word = list >= 0 ? words[data->scheduled] : "";
    for (int i = 0; i < 2; i++)
        if (strcmp(data->lengths, words[i]) == 0 && strcmp(word, words[i]) != 0)
            return document_error(document, lengths, err, "data.lengths: '%s' needs data.%s", words[i], words[i]);
    if (list < 0)
        return true;
    int32_t schedule = document_find(document, 0, "data.schedule");
    if (!data->scheduled && schedule >= 0 && !document_is_null(&document->node[schedule]))
        return document_error(document, schedule, err, "data.schedule: data.mix is given, too; allowed: one of them");
    if (strcmp(data->lengths, word) != 0)
        return document_error(document, list, err,
                              "data.%s: data.lengths is '%.100s', too; allowed: one of them, without the other", word,
                              data->lengths);
    return read_entries(document, list, data, err) &&
           (!data->scheduled || divide_iterations(scenario, data, list, err));
}

void data_write_parts(FILE *file, const struct scenario_data *data)
{
    if (data->n_parts > 0)
        fprintf(file, "  %s:\n", words[data->scheduled]);
    for (int32_t i = 0; i < data->n_parts; i++) {
        fputs("    -\n", file);
        schema_write(file, keys, N_KEYS, &data->part[i], 6);
    }
}

void data_list_keys(const struct schema_listing *listing)
{
    schema_list(listing, keys, N_KEYS, "data.mix.N.");
}
