/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "capacity/change.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "scenario/document_set.h"

enum { VALUE_BYTES = 64 };

/** Changes of one answer. */
struct listing {
    const struct question *question;
    const struct candidate *candidate;
    const struct offer *offer;
    struct changes *changes;
    char *each; /* the axis `each:` of the changes that a run computes, as YAML flow text */
};

static struct change *add(struct listing *listing, const char *name)
{
    CHECK(listing->changes->n < CHANGES_MOST);
    struct change *change = &listing->changes->at[listing->changes->n];
    *change = (struct change){.row = {.change = listing->changes->n++}};
    snprintf(change->name, sizeof change->name, "%s", name);
    return change;
}

/** Add changes of a scenario's key. @param names, values  lists of texts that end with NULL; "" is left out */
static void add_key(struct listing *listing, const char *key, int n, char (*names)[VALUE_BYTES],
                    char (*values)[VALUE_BYTES])
{
    char *list = check_strdup("");
    for (int i = 0; i < n; i++) {
        char *longer = check_asprintf("%s%s%s", list, i > 0 ? ", " : "", values[i]);
        free(list);
        list = longer;
        add(listing, names[i])->row.searched = 1;
    }
    char *each = check_asprintf("%s%s%s: [%s]", listing->each, *listing->each != '\0' ? ", " : "", key, list);
    free(listing->each);
    free(list);
    listing->each = each;
}

static void add_link(struct listing *listing, const char *name, const char *key, double bytes_per_s)
{
    static const double factors[] = {0.5, 2};
    char names[2][VALUE_BYTES], values[2][VALUE_BYTES];
    for (int i = 0; i < 2; i++) {
        snprintf(names[i], sizeof names[i], "%s x%g", name, factors[i]);
        snprintf(values[i], sizeof values[i], "%.17gGBps", factors[i] * bytes_per_s / 1e9);
    }
    add_key(listing, key, 2, names, values);
}

/** List the changes whose plan is searched again. */
static void list_searched(struct listing *listing)
{
    const struct scenario *scenario = &listing->offer->scenario;
    char names[2][VALUE_BYTES] = {"usable memory x0.9", "all memory usable"}, values[2][VALUE_BYTES];
    snprintf(values[0], sizeof values[0], "%.17g", 0.9 * scenario->memory_limit);
    snprintf(values[1], sizeof values[1], "1");
    if (*scenario->platform.path == '\0') {
        add_link(listing, "NIC", "platform.nic", scenario->platform.nic_bytes_per_s);
        add_link(listing, "NVLink", "platform.nvlink", scenario->platform.nvlink_bytes_per_s);
    }
    add_key(listing, "memory_limit", scenario->memory_limit < 1 ? 2 : 1, names, values);
    if (scenario->device.own_curves && scenario->attention != DEVICE_FLASH2)
        add_key(listing, "attention", 1, &(char[VALUE_BYTES]){"attention flash2"}, &(char[VALUE_BYTES]){"flash2"});
    snprintf(values[0], sizeof values[0], "%.17g", 1.2 * scenario->data.length_scale);
    add_key(listing, "data.length_scale", 1, &(char[VALUE_BYTES]){"lengths x1.2"}, values);
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

/** Run the searched changes, and the candidate as it is before them. */
static bool run_searched(struct listing *listing, const struct point_results_options *options, struct error *err)
{
    const struct trace_candidate *answer = &listing->candidate->row;
    struct document document;
    struct point_results results = {0};
    question_sizes(listing->question, 1, &answer->offer, &answer->nodes, &document);
    document_keep_entry(&document, "systems", answer->system);
    char *each = check_asprintf("{%s}", listing->each);
    bool ok = document_set_value(&document, "sweep.each", each, "slimsim capacity", err) &&
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
static void add_operation(struct listing *listing, const char *name, const struct reliability *reliability)
{
    struct offer offer = *listing->offer;
    struct trace_candidate row = listing->candidate->row;
    offer.scenario.reliability = *reliability;
    candidate_price(listing->question, &offer, &row);
    fill(listing, &listing->candidate->row, &row, &add(listing, name)->row);
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
        add_operation(listing, name, &changed);
        changed = *now;
        changed.storage_bytes_per_s *= factors[i];
        snprintf(name, sizeof name, "storage x%g", factors[i]);
        add_operation(listing, name, &changed);
        changed = *now;
        changed.detect_s *= factors[i];
        changed.replace_s *= factors[i];
        changed.start_s *= factors[i];
        snprintf(name, sizeof name, "restart x%g", factors[i]);
        add_operation(listing, name, &changed);
        changed = *now;
        int64_t spares = listing->candidate->row.spare_nodes, other = i == 0 ? spares / 2 : 2 * spares + (spares == 0);
        changed.spares = (double)other;
        snprintf(name, sizeof name, "%d spare nodes", (int)other);
        if (other != spares)
            add_operation(listing, name, &changed);
    }
}

bool changes_compute(const struct question *question, const struct candidate *candidate,
                     const struct point_results_options *options, struct changes *changes, struct error *err)
{
    struct listing listing = {question, candidate, &question->offers[candidate->row.offer], changes, check_strdup("")};
    *changes = (struct changes){0};
    list_searched(&listing);
    bool ok = run_searched(&listing, options, err);
    if (ok && listing.offer->scenario.reliability.present)
        list_operation(&listing);
    free(listing.each);
    return ok;
}
