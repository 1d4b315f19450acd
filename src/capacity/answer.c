/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "capacity/answer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "document/document_read.h"
#include "scenario/scenario_read.h"
#include "system/system.h"

const struct candidate *answer_subject(const struct answer *answer)
{
    return answer->subject >= 0 ? &answer->search.candidates.at[answer->subject] : NULL;
}

/** Make the document of a candidate: its system alone, with the plan that was found. */
static void document_of(const struct candidate *candidate, struct document *document)
{
    struct error err = {0};
    const char *text = candidate->point->scenario;
    *document = (struct document){0};
    CHECK(document_parse(text, strlen(text), "scenario", document, &err)); /* the program wrote it */
    document_keep_entry(document, "systems", candidate->row.system);
}

/** Run a candidate's plan with the scenario's engine, and take its throughput. */
static bool confirm(struct answer *answer, int32_t index, const struct what_if_options *options, struct error *err)
{
    struct candidate *candidate = &answer->search.candidates.at[index];
    const struct offer *offer = &answer->question->offers[candidate->row.offer];
    struct document document;
    struct what_ifs questions = {0};
    struct candidates confirmed = {0};
    document_of(candidate, &document);
    struct what_if *question = what_if_add(&questions, "the chosen plan on SimGrid", &document);
    document_free(&document);
    what_if_set(question, "engine", offer->scenario.engine == SCENARIO_SIMGRID ? "simgrid" : "both");
    progress_expect(options->progress, 1, CHANGES_USUAL, (double)CHANGES_USUAL / offer->scenario.n_systems);
    bool ok = what_if_run(&questions, options, err);
    if (ok && what_if_refusal(question) != NULL)
        ok = error_set_status(err, ERROR_FAILED, "%s", what_if_refusal(question));
    if (ok) {
        candidates_add(&confirmed, answer->question,
                       &(struct size){candidate->row.offer, candidate->row.nodes, &question->result}, 1);
        confirmed.at[0].row.system = candidate->row.system;
        answer->contention = candidate->row.tokens_per_s_per_gpu / confirmed.at[0].row.tokens_per_s_per_gpu - 1;
        candidate->row = confirmed.at[0].row;
    }
    candidates_free(&confirmed);
    what_if_free(&questions);
    return ok;
}

/** Choose until the chosen candidate has run on the scenario's engine. */
static bool choose(struct answer *answer, const struct what_if_options *options, struct error *err)
{
    struct candidates *list = &answer->search.candidates;
    bool critical = answer->question->offers[0].scenario.engine == SCENARIO_CRITICAL_PATH;
    bool *confirmed = check_calloc((size_t)list->n, sizeof *confirmed);
    bool ok = true;
    for (;;) {
        answer->chosen = candidates_choose(list, answer->question);
        answer->subject = answer->chosen >= 0 ? answer->chosen : candidates_fastest(list);
        if (critical || answer->subject < 0 || confirmed[answer->subject])
            break;
        ok = confirm(answer, answer->subject, options, err);
        if (!ok)
            break;
        confirmed[answer->subject] = true;
    }
    free(confirmed);
    return ok;
}

/** Note what of the subject lies outside the measured runs. */
static bool note_outside(struct answer *answer, struct error *err)
{
    struct document document;
    struct scenario_cache cache = {0};
    struct scenario scenario = {0};
    struct validated_range range;
    document_of(answer_subject(answer), &document);
    bool ok =
        scenario_resolve(&document, &cache, &scenario, err) && validated_range_read(scenario_data_dir(), &range, err);
    if (ok) {
        struct point_system system = {.entry = scenario.systems, .system = system_find(scenario.systems[0].name, err)};
        struct point point = {.n_systems = 1, .systems = &system};
        answer->n_outside = validated_range_outside(&range, &scenario, &point, answer->outside);
    }
    document_free(&document);
    scenario_free(&scenario);
    cache_free(&cache);
    return ok;
}

bool answer_find(const struct question *question, const struct what_if_options *options, struct answer *answer,
                 struct error *err)
{
    *answer = (struct answer){.question = question, .chosen = -1, .subject = -1, .contention = NAN};
    bool ok = size_search_run(question, options, &answer->search, err);
    if (!ok || options->shard.n > 0)
        return ok;
    ok = choose(answer, options, err);
    if (!ok || answer->subject < 0)
        return ok;
    const struct candidate *subject = answer_subject(answer);
    return finish_date_draw(question, subject, &answer->date, err) &&
           changes_compute(question, subject, options, &answer->changes, err) && note_outside(answer, err);
}

void answer_free(struct answer *answer)
{
    size_search_free(&answer->search);
    finish_date_free(&answer->date);
}
