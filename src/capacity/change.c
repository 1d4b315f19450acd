/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "capacity/change.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "document/document_set.h"

enum { VALUE_BYTES = 64 };

/** Changes of one answer. */
struct listing {
    const struct question *question;
    const struct candidate *candidate;
    const struct offer *offer;
    struct changes *changes;
    const char *keys[CHANGES_MOST]; /* of the scenario, that change */
    int n_keys;
    char *each; /* the axis `each:` of the changes that a run computes, as YAML flow text */
};

static struct change *add(struct listing *listing, const char *name, bool relaxes)
{
    CHECK(listing->changes->n < CHANGES_MOST);
    struct change *change = &listing->changes->at[listing->changes->n];
    *change = (struct change){.relaxes = relaxes, .row = {.change = listing->changes->n++}};
    snprintf(change->name, sizeof change->name, "%s", name);
    return change;
}

/** A change of a key of the scenario. */
struct key_change {
    char name[VALUE_BYTES], value[VALUE_BYTES];
    bool relaxes;
};

static void add_key(struct listing *listing, const char *key, int n, const struct key_change *key_changes)
{
    char *list = check_strdup("");
    listing->keys[listing->n_keys++] = key;
    for (int i = 0; i < n; i++) {
        char *longer = check_asprintf("%s%s%s", list, i > 0 ? ", " : "", key_changes[i].value);
        free(list);
        list = longer;
        add(listing, key_changes[i].name, key_changes[i].relaxes)->row.searched = 1;
    }
    char *each = check_asprintf("%s%s%s: [%s]", listing->each, *listing->each != '\0' ? ", " : "", key, list);
    free(listing->each);
    free(list);
    listing->each = each;
}

static void add_link(struct listing *listing, const char *name, const char *key, double bytes_per_s)
{
    static const double factors[] = {0.5, 2};
    struct key_change changes[2];
    for (int i = 0; i < 2; i++) {
        changes[i].relaxes = factors[i] > 1;
        snprintf(changes[i].name, VALUE_BYTES, "%s x%g", name, factors[i]);
        snprintf(changes[i].value, VALUE_BYTES, "%.17gGBps", factors[i] * bytes_per_s / 1e9);
    }
    add_key(listing, key, 2, changes);
}

/** List the changes whose plan is searched again. */
static void list_searched(struct listing *listing)
{
    const struct scenario *scenario = &listing->offer->scenario;
    const struct scenario_data *data = &scenario->data;
    bool counts_tokens = data->global_batch == 0;
    struct key_change memory[2] = {{"usable memory x0.9", "", false}, {"all memory usable", "1", true}};
    struct key_change batch = {"global batch x2", "", true}, lengths = {"lengths x1.2", "", false};
    static const struct key_change attention = {"attention flash2", "flash2", false};
    snprintf(memory[0].value, VALUE_BYTES, "%.17g", 0.9 * scenario->memory_limit);
    snprintf(batch.value, VALUE_BYTES, "%" PRId64,
             2 * (counts_tokens ? data->global_batch_tokens : data->global_batch));
    snprintf(lengths.value, VALUE_BYTES, "%.17g", 1.2 * data->length_scale);
    if (*scenario->platform.path == '\0') {
        add_link(listing, "NIC", "platform.nic", scenario->platform.nic_bytes_per_s);
        add_link(listing, "NVLink", "platform.nvlink", scenario->platform.nvlink_bytes_per_s);
    }
    add_key(listing, "memory_limit", scenario->memory_limit < 1 ? 2 : 1, memory);
    add_key(listing, counts_tokens ? "data.global_batch_tokens" : "data.global_batch", 1, &batch);
    if (scenario->device.own_curves && scenario->attention != DEVICE_FLASH2)
        add_key(listing, "attention", 1, &attention);
    add_key(listing, "data.length_scale", 1, &lengths);
}

/**
 * Fill in a change from rows priced before and after it. Their ratios apply to the answer, which may have SimGrid's
 * throughput while both rows have that of the critical path.
 */
static void fill(const struct listing *listing, const struct trace_candidate *before,
                 const struct trace_candidate *after, struct trace_change *change)
{
    const struct trace_candidate *answer = &listing->candidate->row;
    bool ends = before->fits && after->fits && isfinite(after->days);
    double time = ends ? after->days / before->days : NAN;
    change->fits = ends;
    change->tokens_per_s_per_gpu =
        ends ? answer->tokens_per_s_per_gpu * after->tokens_per_s_per_gpu / before->tokens_per_s_per_gpu : NAN;
    change->goodput = ends ? after->goodput : NAN;
    change->days = answer->days * time;
    change->days_gain = 1 / time - 1;
    change->usd = ends ? answer->usd * after->usd / before->usd : NAN;
}

/** Give the keys that change their values again, since a sweep refuses keys of --set. */
static bool set_again(const struct listing *listing, struct document *document, struct error *err)
{
    bool ok = true;
    for (int i = 0; i < listing->n_keys && ok; i++) {
        int32_t node = document_find(document, 0, listing->keys[i]);
        char *text = node >= 0 ? document_text(document, node) : NULL;
        ok = text == NULL || document_set_value(document, listing->keys[i], text, "slimsim capacity", err);
        free(text);
    }
    return ok;
}

/** Run the searched changes, and the candidate as it is before them. */
static bool run_searched(struct listing *listing, const struct point_results_options *options, struct error *err)
{
    const struct trace_candidate *answer = &listing->candidate->row;
    struct document document;
    struct point_results results = {0};
    question_sizes(listing->question, 1, &answer->offer, &answer->nodes, &document);
    document_keep_entry(&document, "systems", answer->system);
    char *each = check_asprintf("{%s}", listing->each);
    bool ok = set_again(listing, &document, err) &&
              document_set_value(&document, "sweep.each", each, "slimsim capacity", err) &&
              point_results_compute(&document, options, &results, err);
    document_free(&document);
    free(each);
    struct candidates list = {0};
    for (int32_t i = 0; ok && i < results.n; i++)
        candidates_add(&list, listing->question, &(struct size){answer->offer, answer->nodes, &results.result[i]}, 1);
    for (int32_t i = 0; ok && i < listing->changes->n; i++)
        fill(listing, &list.at[0].row, &list.at[1 + i].row, &listing->changes->at[i].row);
    candidates_free(&list);
    point_results_free(&results);
    return ok;
}

/** Add a change of failures and recovery. */
static void add_operation(struct listing *listing, const char *name, bool relaxes,
                          const struct reliability *reliability)
{
    struct offer offer = *listing->offer;
    struct trace_candidate row = listing->candidate->row;
    offer.scenario.reliability = *reliability;
    candidate_price(listing->question, &offer, &row);
    fill(listing, &listing->candidate->row, &row, &add(listing, name, relaxes)->row);
}

static void list_operation(struct listing *listing)
{
    static const double factors[] = {0.5, 2};
    const struct reliability *now = &listing->offer->scenario.reliability;
    char name[VALUE_BYTES];
    for (int i = 0; i < 2; i++) {
        struct reliability changed = *now;
        for (int cause = 0; cause < FAILURE_N_CAUSES; cause++)
            changed.failures[cause] *= factors[i];
        snprintf(name, sizeof name, "failures x%g", factors[i]);
        add_operation(listing, name, factors[i] < 1, &changed);
        changed = *now;
        changed.storage_bytes_per_s *= factors[i];
        snprintf(name, sizeof name, "storage x%g", factors[i]);
        add_operation(listing, name, factors[i] > 1, &changed);
        changed = *now;
        changed.detect_s *= factors[i];
        changed.replace_s *= factors[i];
        changed.start_s *= factors[i];
        snprintf(name, sizeof name, "restart x%g", factors[i]);
        add_operation(listing, name, factors[i] < 1, &changed);
        changed = *now;
        int64_t spares = listing->candidate->row.spare_nodes, other = i == 0 ? spares / 2 : 2 * spares + (spares == 0);
        changed.spares = (double)other;
        snprintf(name, sizeof name, "%d spare node%s", (int)other, other == 1 ? "" : "s");
        if (other != spares)
            add_operation(listing, name, other > spares, &changed);
    }
}

bool changes_compute(const struct question *question, const struct candidate *candidate,
                     const struct point_results_options *options, struct changes *changes, struct error *err)
{
    struct listing listing = {question, candidate, &question->offers[candidate->row.offer], changes,
                              .each = check_strdup("")};
    *changes = (struct changes){0};
    list_searched(&listing);
    bool ok = run_searched(&listing, options, err);
    if (ok && listing.offer->scenario.reliability.present)
        list_operation(&listing);
    free(listing.each);
    return ok;
}
