/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "capacity/change.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "cost/attention_choice.h"
#include "scenario/assumption.h"

enum { VALUE_BYTES = 64 };

/** Changes of one answer. */
struct listing {
    const struct question *question;
    const struct candidate *candidate;
    const struct offer *offer;
    struct changes *changes;
    struct what_ifs questions; /* the candidate as it is, then the changes that a run computes, all phases of each */
};

static struct change *add(struct listing *listing, const char *name, bool relaxes)
{
    CHECK(listing->changes->n < CHANGES_MOST);
    struct change *change = &listing->changes->at[listing->changes->n];
    *change = (struct change){.relaxes = relaxes, .row = {.change = listing->changes->n++}};
    snprintf(change->name, sizeof change->name, "%s", name);
    return change;
}

static bool keeps_plan(const struct listing *listing)
{
    return listing->question->one_plan;
}

/** Set a key in the next phase of a change. */
static void set_phase(struct listing *listing, int32_t phase, const char *name, const char *key, const char *value)
{
    what_if_set(what_if_add(&listing->questions, name, &listing->questions.at[phase].document), key, value);
}

/** Set a key in all phases. */
static void add_key(struct listing *listing, const char *name, bool relaxes, const char *key, const char *value)
{
    for (int32_t i = 0; i < listing->question->n_phases; i++)
        set_phase(listing, i, name, key, value);
    add(listing, name, relaxes)->row.searched = !keeps_plan(listing);
}

/** Give the i-th value of an assumption in a phase. A batch is of tokens or of documents. */
static bool value_in(const struct listing *listing, int32_t phase, enum assumption *assumption, int32_t i,
                     struct assumed *assumed)
{
    struct scenario *scenario = check_malloc(sizeof *scenario);
    *scenario = listing->offer->scenario; /* it borrows everything */
    scenario->data = listing->question->phase[phase].data;
    if (*assumption == ASSUME_BATCH || *assumption == ASSUME_BATCH_TOKENS)
        *assumption = scenario->data.global_batch == 0 ? ASSUME_BATCH_TOKENS : ASSUME_BATCH;
    bool any = assumption_value(scenario, *assumption, i, assumed);
    free(scenario);
    return any;
}

/** Add the values of an assumption from the i-th on. @param before  beginning of the change's name */
static void add_assumption(struct listing *listing, const char *before, enum assumption assumption, int32_t i)
{
    struct assumed assumed;
    for (; i < ASSUME_MOST_VALUES; i++) {
        char name[CHANGE_NAME_BYTES];
        if (!value_in(listing, 0, &assumption, i, &assumed))
            continue;
        snprintf(name, sizeof name, "%s%.50s", before, assumed.name);
        for (int32_t phase = 0; phase < listing->question->n_phases; phase++) {
            value_in(listing, phase, &assumption, i, &assumed); /* as in the first phase there is one */
            set_phase(listing, phase, name, assumptions[assumption].key, assumed.value);
        }
        add(listing, name, i == 1)->row.searched = !keeps_plan(listing); /* the second factor relaxes */
    }
}

/** List the changes whose plan is searched again. */
static void list_searched(struct listing *listing)
{
    const struct scenario *scenario = &listing->offer->scenario;
    if (*scenario->platform.path == '\0') {
        add_assumption(listing, "", ASSUME_NIC, 0);
        add_assumption(listing, "", ASSUME_NVLINK, 0);
    }
    add_assumption(listing, "", ASSUME_MEMORY, 0);
    if (scenario->memory_limit < 1)
        add_key(listing, "all memory usable", true, "memory_limit", "1");
    add_assumption(listing, "global ", ASSUME_BATCH, 1);
    if (!isnan(listing->candidate->flash2) ||
        (attention_choice_is_own(scenario) && scenario->attention != DEVICE_FLASH2))
        add_key(listing, "attention flash2", false, "attention", "flash2");
    add_assumption(listing, "", ASSUME_LENGTHS, 0);
    if (!model_has_experts(&scenario->model))
        return;
    add_assumption(listing, "", ASSUME_IMBALANCE, 0);
    add_assumption(listing, "", ASSUME_DISPATCHER, 0);
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

/** Make the question about the candidate as it is: its system alone. One plan of all phases stays. */
static bool ask_as_it_is(struct listing *listing, struct error *err)
{
    const struct trace_candidate *answer = &listing->candidate->row;
    struct document document;
    for (int32_t i = 0; i < listing->question->n_phases && keeps_plan(listing); i++) {
        candidate_document(listing->candidate, i, &document);
        what_if_add(&listing->questions, "as it is", &document);
        document_free(&document);
    }
    if (keeps_plan(listing))
        return true;
    question_sizes(listing->question, 1, &answer->offer, &answer->nodes, &document);
    document_keep_entry(&document, "systems", answer->system);
    return what_if_add_sweep(&listing->questions, &document, err);
}

/** Run the searched changes. */
static bool run_searched(struct listing *listing, const struct what_if_options *options, struct error *err)
{
    const struct trace_candidate *answer = &listing->candidate->row;
    struct candidates list = {0};
    progress_expect(options->progress, 1.0 / listing->offer->scenario.n_systems, 0, 0);
    bool ok = what_if_run(&listing->questions, options, err);
    for (int32_t i = 0; ok && i < listing->questions.n; i += listing->question->n_phases)
        candidates_add(&list, listing->question,
                       &(struct size){answer->offer, answer->nodes, &listing->questions.at[i], 0}, 1);
    for (int32_t i = 0; i < list.n; i++) {
        struct trace_candidate *row = &list.at[i].row;
        row->spare_nodes = answer->spare_nodes;
        if (row->fits)
            candidate_price(listing->question, listing->offer, row);
    }
    for (int32_t i = 0; ok && i < listing->changes->n; i++)
        fill(listing, &list.at[0].row, &list.at[1 + i].row, &listing->changes->at[i].row);
    candidates_free(&list);
    return ok;
}

/** Add a change of failures and recovery, or of spare nodes. */
static void add_operation(struct listing *listing, const char *name, bool relaxes,
                          const struct reliability *reliability, int64_t spares)
{
    struct offer offer = *listing->offer;
    struct trace_candidate row = listing->candidate->row;
    offer.scenario.reliability = *reliability;
    row.spare_nodes = spares;
    candidate_price(listing->question, &offer, &row);
    fill(listing, &listing->candidate->row, &row, &add(listing, name, relaxes)->row);
}

static void list_operation(struct listing *listing)
{
    static const double factors[] = {0.5, 2};
    const struct reliability *now = &listing->offer->scenario.reliability;
    int64_t spares = listing->candidate->row.spare_nodes;
    char name[VALUE_BYTES];
    for (int i = 0; i < 2; i++) {
        struct reliability changed = *now;
        for (int cause = 0; cause < FAILURE_N_CAUSES; cause++)
            changed.failures[cause] *= factors[i];
        snprintf(name, sizeof name, "failures x%g", factors[i]);
        add_operation(listing, name, factors[i] < 1, &changed, spares);
        changed = *now;
        changed.storage_bytes_per_s *= factors[i];
        snprintf(name, sizeof name, "storage x%g", factors[i]);
        add_operation(listing, name, factors[i] > 1, &changed, spares);
        changed = *now;
        changed.detect_s *= factors[i];
        changed.replace_s *= factors[i];
        changed.start_s *= factors[i];
        snprintf(name, sizeof name, "restart x%g", factors[i]);
        add_operation(listing, name, factors[i] < 1, &changed, spares);
    }
    for (int64_t other = spares > 0 ? spares - 1 : 1; other <= spares + 1; other += 2) {
        snprintf(name, sizeof name, "%" PRId64 " spare node%s", other, other == 1 ? "" : "s");
        add_operation(listing, name, other > spares, now, other);
    }
}

bool changes_compute(const struct question *question, const struct candidate *candidate,
                     const struct what_if_options *options, struct changes *changes, struct error *err)
{
    struct listing listing = {question, candidate, &question->offers[candidate->row.offer], changes, {0}};
    *changes = (struct changes){0};
    bool ok = ask_as_it_is(&listing, err);
    if (ok)
        list_searched(&listing);
    ok = ok && run_searched(&listing, options, err);
    if (ok && listing.offer->scenario.reliability.present)
        list_operation(&listing);
    what_if_free(&listing.questions);
    return ok;
}
