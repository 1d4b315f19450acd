/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "capacity/answer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "scenario/scenario_read.h"
#include "system/system.h"

const struct candidate *answer_subject(const struct answer *answer)
{
    const struct pick *pick = &answer->pick[PICK_SUBJECT];
    return pick->index >= 0 ? &pick->candidate : NULL;
}

/** Run the plans of candidates with the scenario's engine, and take their throughput. */
static bool confirm(struct answer *answer, int32_t n, const int32_t *indices, const struct what_if_options *options,
                    struct error *err)
{
    const struct scenario *scenario = &answer->question->offers[0].scenario;
    struct what_ifs questions = {0};
    int32_t n_phases = answer->question->n_phases;
    for (int32_t i = 0; i < n * n_phases; i++) {
        struct document document;
        candidate_document(&answer->search.candidates.at[indices[i / n_phases]], i % n_phases, &document);
        what_if_set(what_if_add(&questions, "a chosen plan on SimGrid", &document), "engine",
                    scenario->engine == SCENARIO_SIMGRID ? "simgrid" : "both");
        document_free(&document);
    }
    progress_expect(options->progress, 1, CHANGES_USUAL, (double)CHANGES_USUAL / scenario->n_systems);
    bool ok = what_if_run(&questions, options, err);
    for (int32_t i = 0; i < n && ok; i++) {
        struct candidate *candidate = &answer->search.candidates.at[indices[i]];
        struct candidates confirmed = {0};
        candidates_add(&confirmed, answer->question,
                       &(struct size){candidate->row.offer, candidate->row.nodes, &questions.at[i * n_phases], 0}, 1);
        double ratio = confirmed.at[0].row.tokens_per_s_per_gpu / candidate->row.tokens_per_s_per_gpu;
        if (confirmed.at[0].refusal != NULL)
            ok = error_set_status(err, ERROR_FAILED, "%s", confirmed.at[0].refusal);
        confirmed.at[0].row.system = candidate->row.system;
        candidate->contention = 1 / ratio - 1;
        candidate->flash2 *= ratio; /* the plan names its kernel */
        candidate->row = confirmed.at[0].row;
        memcpy(candidate->phase, confirmed.at[0].phase, sizeof candidate->phase);
        candidates_free(&confirmed);
    }
    what_if_free(&questions);
    return ok;
}

static void pick_candidate(const struct answer *answer, int32_t index, struct pick *pick)
{
    finish_date_free(&pick->date);
    *pick = (struct pick){.index = index};
    if (index >= 0)
        pick->candidate = answer->search.candidates.at[index];
}

/** Give a pick another number of spare nodes. */
static void set_spares(const struct question *question, struct pick *pick, int64_t spares)
{
    pick->candidate.row.spare_nodes = spares;
    candidate_price(question, &question->offers[pick->candidate.row.offer], &pick->candidate.row);
}

/** Pick the fewest GPUs that keep all limits; ties: the least cost. */
static void pick_fewest(struct answer *answer)
{
    const struct question *question = answer->question;
    const struct candidates *list = &answer->search.candidates;
    bool in_money = candidates_have_money(list);
    struct pick *best = &answer->pick[PICK_FEWEST];
    for (int32_t i = 0; i < list->n; i++) {
        struct pick pick = {0};
        if (!list->at[i].row.meets)
            continue;
        pick_candidate(answer, i, &pick);
        set_spares(question, &pick, offer_least_spares(&question->offers[list->at[i].row.offer]));
        while (!candidate_trains(&pick.candidate) || !candidate_meets(question, &pick.candidate))
            set_spares(question, &pick, pick.candidate.row.spare_nodes + 1);
        int64_t more = best->index < 0 ? -1 : pick.candidate.row.gpus - best->candidate.row.gpus;
        if (more < 0 ||
            (more == 0 && candidate_cost(&pick.candidate, in_money) < candidate_cost(&best->candidate, in_money)))
            *best = pick;
    }
}

/** Try a candidate with its spare nodes and more, while it costs less than the safe one so far. */
static bool try_safe(struct answer *answer, int32_t index, bool in_money, struct error *err)
{
    const struct question *question = answer->question;
    struct pick *best = &answer->pick[PICK_SAFE], pick = {0};
    pick_candidate(answer, index, &pick);
    const struct trace_candidate *row = &pick.candidate.row;
    int64_t most = offer_most_spares(&question->offers[row->offer], row->nodes);
    for (; row->spare_nodes <= most; set_spares(question, &pick, row->spare_nodes + 1)) {
        if (best->index >= 0 && candidate_cost(&pick.candidate, in_money) >= candidate_cost(&best->candidate, in_money))
            break;
        if (!finish_date_draw(question, &pick.candidate, &pick.date, err))
            return false;
        if (pick.date.missed <= 1 - question->confidence) {
            finish_date_free(&best->date);
            *best = pick;
            return true;
        }
        finish_date_free(&pick.date);
    }
    return true;
}

/** Pick the cheapest whose draws keep all limits with the question's confidence. Cheap candidates are tried first. */
static bool pick_safe(struct answer *answer, struct error *err)
{
    const struct candidates *list = &answer->search.candidates;
    bool in_money = candidates_have_money(list), ok = true;
    if (!finish_date_may_draw(&answer->question->offers[0].scenario))
        return true;
    bool *tried = check_calloc((size_t)list->n, sizeof *tried);
    for (int32_t next = 0; next >= 0 && ok;) {
        next = -1;
        for (int32_t i = 0; i < list->n; i++)
            if (list->at[i].row.meets && !tried[i] &&
                (next < 0 || candidate_cost(&list->at[i], in_money) < candidate_cost(&list->at[next], in_money)))
                next = i;
        if (next >= 0) {
            tried[next] = true;
            ok = try_safe(answer, next, in_money, err);
        }
    }
    free(tried);
    return ok;
}

/** Pick the answers. */
static bool pick_all(struct answer *answer, struct error *err)
{
    struct candidates *list = &answer->search.candidates;
    answer->chosen = candidates_choose(list, answer->question);
    pick_candidate(answer, answer->chosen >= 0 ? answer->chosen : candidates_fastest(list),
                   &answer->pick[PICK_SUBJECT]);
    pick_candidate(answer, -1, &answer->pick[PICK_FEWEST]);
    pick_candidate(answer, -1, &answer->pick[PICK_SAFE]);
    pick_fewest(answer);
    return pick_safe(answer, err);
}

/** Pick until all answers have run on the scenario's engine. */
static bool choose(struct answer *answer, const struct what_if_options *options, struct error *err)
{
    bool critical = answer->question->offers[0].scenario.engine == SCENARIO_CRITICAL_PATH;
    for (;;) {
        int32_t missing[PICK_N_KINDS], n = 0;
        if (!pick_all(answer, err))
            return false;
        for (int kind = 0; kind < PICK_N_KINDS; kind++) {
            int32_t index = answer->pick[kind].index;
            bool listed = critical || index < 0 || !isnan(answer->pick[kind].candidate.contention);
            for (int32_t i = 0; i < n; i++)
                listed = listed || missing[i] == index;
            if (!listed)
                missing[n++] = index;
        }
        if (n == 0)
            return true;
        if (!confirm(answer, n, missing, options, err))
            return false;
    }
}

/** Give a pick its date, that of an earlier pick of the same candidate with as many spare nodes if there is one. */
static bool draw_date(struct answer *answer, struct pick *pick, struct error *err)
{
    for (int kind = 0; kind < PICK_N_KINDS; kind++) {
        const struct pick *other = &answer->pick[kind];
        if (other->date.n > 0 && other->index == pick->index &&
            other->candidate.row.spare_nodes == pick->candidate.row.spare_nodes) {
            finish_date_copy(&other->date, &pick->date);
            return true;
        }
    }
    return finish_date_draw(answer->question, &pick->candidate, &pick->date, err);
}

/** Pick the best size of each offer but the subject's, and draw all dates that are missing. */
static bool draw_dates(struct answer *answer, struct error *err)
{
    const struct question *question = answer->question;
    answer->other = check_calloc((size_t)question->n_offers, sizeof *answer->other);
    for (int32_t offer = 0; offer < question->n_offers; offer++)
        pick_candidate(answer,
                       offer == answer_subject(answer)->row.offer
                           ? -1
                           : candidates_best_of_offer(&answer->search.candidates, question, offer),
                       &answer->other[offer]);
    for (int32_t i = 0; i < PICK_N_KINDS + question->n_offers; i++) {
        struct pick *pick = i < PICK_N_KINDS ? &answer->pick[i] : &answer->other[i - PICK_N_KINDS];
        if (pick->index >= 0 && pick->date.n == 0 && !draw_date(answer, pick, err))
            return false;
    }
    return true;
}

/** Add what an item names unless an earlier phase did. */
static void add_outside(struct answer *answer, const char *item)
{
    for (int32_t i = 0; i < answer->n_outside; i++)
        if (strcmp(answer->outside[i], item) == 0)
            return;
    if (answer->n_outside < OUTSIDE_MOST)
        strcpy(answer->outside[answer->n_outside++], item);
}

/** Note what of a phase of the subject lies outside the measured runs. */
static bool note_outside(struct answer *answer, int32_t phase, struct error *err)
{
    struct document document;
    struct scenario_cache cache = {0};
    struct scenario scenario = {0};
    struct validated_range range;
    char items[OUTSIDE_MOST][OUTSIDE_SIZE];
    candidate_document(answer_subject(answer), phase, &document);
    bool ok =
        scenario_resolve(&document, &cache, &scenario, err) && validated_range_read(scenario_data_dir(), &range, err);
    if (ok) {
        struct point_system system = {.entry = scenario.systems, .system = system_find(scenario.systems[0].name, err)};
        struct point point = {.n_systems = 1, .systems = &system};
        int32_t n = validated_range_outside(&range, &scenario, &point, items);
        for (int32_t i = 0; i < n; i++)
            add_outside(answer, items[i]);
    }
    document_free(&document);
    scenario_free(&scenario);
    cache_free(&cache);
    return ok;
}

bool answer_find(const struct question *question, const struct what_if_options *options, struct answer *answer,
                 struct error *err)
{
    *answer = (struct answer){.question = question, .chosen = -1};
    for (int kind = 0; kind < PICK_N_KINDS; kind++)
        answer->pick[kind].index = -1;
    bool ok = size_search_run(question, options, &answer->search, err);
    if (!ok || options->shard.n > 0)
        return ok;
    ok = choose(answer, options, err);
    const struct candidate *subject = answer_subject(answer);
    if (!ok || subject == NULL)
        return ok;
    ok = draw_dates(answer, err) && changes_compute(question, subject, options, &answer->changes, err);
    for (int32_t i = 0; i < question->n_phases && ok; i++)
        ok = note_outside(answer, i, err);
    return ok;
}

void answer_free(struct answer *answer)
{
    for (int kind = 0; kind < PICK_N_KINDS; kind++)
        finish_date_free(&answer->pick[kind].date);
    for (int32_t i = 0; answer->other != NULL && i < answer->question->n_offers; i++)
        finish_date_free(&answer->other[i].date);
    free(answer->other);
    size_search_free(&answer->search);
}
