/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "capacity/size_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "capacity/change.h"
#include "capacity/finish_date.h"
#include "document/document_read.h"

enum {
    CLOSE = 16, /* two sizes are close if they differ by less than this part of the larger one */
    DEAR = 8    /* an offer is dear if its cheapest size costs more than this part above the cheapest that meets all */
};

/** Return whether two offers have the same value of a key. */
static bool has_same(const struct question *question, int32_t a, int32_t b, const char *key)
{
    const struct document *document = &question->document;
    int32_t of_a = document_find(document, question->offers[a].node, key),
            of_b = document_find(document, question->offers[b].node, key);
    if (of_a < 0 || of_b < 0)
        return of_a == of_b;
    char *text_a = document_text(document, of_a), *text_b = document_text(document, of_b);
    bool same = strcmp(text_a, text_b) == 0;
    free(text_a);
    free(text_b);
    return same;
}

/** Return the first offer with the hardware of this one. */
static int32_t hardware_of(const struct question *question, int32_t offer)
{
    for (int32_t i = 0; i < offer; i++)
        if (has_same(question, i, offer, "device") && has_same(question, i, offer, "platform") &&
            has_same(question, i, offer, "precision"))
            return i;
    return offer;
}

static const struct size *find_size(const struct size_search *search, int32_t offer, int64_t nodes)
{
    for (int32_t i = 0; i < search->n; i++)
        if (search->sizes[i].offer == offer && search->sizes[i].nodes == nodes)
            return &search->sizes[i];
    return NULL;
}

/** Return the results of a size with this hardware; NULL: it was not computed. */
static const struct what_if *find_results(const struct size_search *search, int32_t offer, int64_t nodes)
{
    int32_t hardware = hardware_of(search->question, offer);
    for (int32_t i = 0; i < search->n; i++) {
        const struct size *size = &search->sizes[i];
        if (size->nodes == nodes && size->results != NULL && hardware_of(search->question, size->offer) == hardware)
            return size->results;
    }
    return NULL;
}

/** Return the plans of a size that all phases may have: the best one of each. 0: each phase has its own. */
static int32_t n_plans_of(const struct question *question)
{
    return question->one_plan ? question->n_phases : 0;
}

static void add_size(struct size_search *search, int32_t offer, int64_t nodes)
{
    if (find_size(search, offer, nodes) != NULL)
        return;
    search->sizes = check_grow(search->sizes, (size_t)search->n, &search->capacity, sizeof *search->sizes);
    search->sizes[search->n++] = (struct size){offer, nodes, NULL, n_plans_of(search->question)};
}

/** Return whether a size may have as many GPUs, with those of spares. */
static bool is_allowed(const struct question *question, const struct offer *offer, int64_t nodes)
{
    double gpus = (double)offer_gpus(offer, nodes + offer_least_spares(offer));
    return isnan(question->limit[LIMIT_GPUS]) || gpus <= question->limit[LIMIT_GPUS];
}

static bool may_meet(const struct question *question, const struct offer *offer, int64_t nodes)
{
    double days = question->limit[LIMIT_DAYS];
    return is_allowed(question, offer, nodes) && (isnan(days) || question_least_days(question, offer, nodes) <= days);
}

/** Return the largest allowed size of an offer, or its least size if none is allowed. */
static int64_t largest_allowed(const struct question *question, const struct offer *offer)
{
    double most = floor(question->limit[LIMIT_GPUS] / (double)offer_gpus(offer, 1));
    int64_t nodes = isnan(most) ? offer->to : (int64_t)fmin((double)offer->to, fmax((double)offer->from, most));
    while (nodes > offer->from && !is_allowed(question, offer, nodes))
        nodes--;
    return nodes;
}

/** Add the grid of an offer. */
static void add_grid(struct size_search *search, int32_t index)
{
    const struct offer *offer = &search->question->offers[index];
    int64_t largest = largest_allowed(search->question, offer);
    for (int64_t nodes = offer->from; nodes < largest; nodes *= 2)
        add_size(search, index, nodes);
    add_size(search, index, largest);
}

/** Return whether a size is left out of the computation. */
static bool is_left_out(const struct size_search *search, const struct size *size)
{
    const struct offer *offer = &search->question->offers[size->offer];
    return !may_meet(search->question, offer, size->nodes) && size->nodes < largest_allowed(search->question, offer);
}

/** List the sizes that are neither computed nor left out, each hardware once. @return their number */
static int32_t list_missing(const struct size_search *search, int32_t *offers, int64_t *nodes)
{
    int32_t n = 0;
    for (int32_t i = 0; i < search->n; i++) {
        const struct size *size = &search->sizes[i];
        int32_t hardware = hardware_of(search->question, size->offer);
        bool listed = size->results != NULL || is_left_out(search, size);
        for (int32_t k = 0; k < n; k++)
            listed = listed || (offers[k] == hardware && nodes[k] == size->nodes);
        if (listed)
            continue;
        offers[n] = hardware;
        nodes[n++] = size->nodes;
    }
    return n;
}

/** Check that a size of any round may run. Otherwise the scenario is wrong. */
static bool check_any(const struct size_search *search, struct error *err)
{
    for (int32_t i = 0; i < search->n_rounds; i++)
        for (int32_t k = 0; k < search->rounds[i].n; k++) {
            const struct point_result *result = &search->rounds[i].at[k].result;
            if (result->status != RESULT_FAILED || result->id != 0)
                return true;
        }
    return error_set(err, "%s", search->rounds[0].at[0].result.message);
}

static struct what_ifs *add_round(struct size_search *search)
{
    search->rounds = check_realloc(search->rounds, (size_t)(search->n_rounds + 1) * sizeof *search->rounds);
    search->rounds[search->n_rounds] = (struct what_ifs){0};
    return &search->rounds[search->n_rounds++];
}

/** Ask for a phase with the plans that another one has. */
static void ask_with_plans(const struct question *question, const struct what_if *planned, int32_t phase,
                           struct what_ifs *questions)
{
    const char *text = planned->result.scenario, *refusal = what_if_refusal(planned), *key;
    struct document document = {0};
    struct error err = {0};
    char value[SCHEMA_TEXT_BYTES];
    CHECK(refusal != NULL ||
          document_parse(text, strlen(text), "scenario", &document, &err)); /* the program wrote it */
    struct what_if *asked = what_if_add(questions, planned->name, refusal != NULL ? &planned->document : &document);
    document_free(&document);
    if (refusal != NULL)
        what_if_refuse(asked, refusal);
    for (int i = 0; (key = question_phase_key(&question->phase[phase], i, value)) != NULL; i++)
        what_if_set(asked, key, value);
}

/** Compute n sizes: each phase with its best plan and then, if all phases have one plan, with those of each phase. */
static bool compute_sizes(struct size_search *search, int32_t n, const int32_t *offers, const int64_t *nodes,
                          const struct what_if_options *options, struct error *err)
{
    const struct question *question = search->question;
    struct document document;
    struct what_ifs *round = add_round(search);
    int32_t n_phases = question->n_phases;
    question_sizes(question, n, offers, nodes, &document);
    if (!what_if_add_sweep(round, &document, err) || !what_if_run(round, options, err) || !check_any(search, err))
        return false;
    if (n_plans_of(question) == 0 || options->shard.n > 0)
        return true;
    struct what_ifs *planned = add_round(search);
    round = planned - 1; /* it may have moved */
    for (int32_t i = 0; i < n * n_phases * n_phases; i++)
        ask_with_plans(question, &round->at[i / n_phases], i % n_phases, planned);
    return what_if_run(planned, options, err);
}

static bool compute_missing(struct size_search *search, const struct what_if_options *options, struct error *err)
{
    for (int32_t i = 0; i < search->n; i++)
        if (search->sizes[i].results == NULL)
            search->sizes[i].results = find_results(search, search->sizes[i].offer, search->sizes[i].nodes);
    int32_t *offers = check_calloc((size_t)search->n, sizeof *offers);
    int64_t *nodes = check_calloc((size_t)search->n, sizeof *nodes);
    int32_t n = list_missing(search, offers, nodes);
    bool ok = n == 0 || compute_sizes(search, n, offers, nodes, options, err);
    for (int32_t i = 0; i < search->n && n > 0 && ok; i++)
        for (int32_t k = 0; k < n; k++) {
            const struct what_ifs *round = &search->rounds[search->n_rounds - 1];
            if (search->sizes[i].nodes == nodes[k] &&
                hardware_of(search->question, search->sizes[i].offer) == offers[k])
                search->sizes[i].results = &round->at[k * (round->n / n)];
        }
    free(offers);
    free(nodes);
    return ok;
}

static int32_t n_systems_of(const struct question *question)
{
    return question->offers[0].scenario.n_systems;
}

/**
 * Return a size between two near the expected one. It keeps an eighth of their distance from both. It may be an eighth
 * off, so that it is a multiple of a large power of two.
 */
static int64_t between(int64_t low, int64_t high, double expected)
{
    double eighth = (double)(high - low) / 8;
    double middle = fmin(fmax(expected, (double)low + 2 * eighth), (double)high - 2 * eighth);
    int64_t first = (int64_t)ceil(middle - eighth), last = (int64_t)(middle + eighth), power = INT64_C(1) << 40;
    while (power > 1 && last / power * power < first)
        power /= 2;
    int64_t size = last / power * power;
    return size > low && size < high ? size : (low + high) / 2;
}

static bool is_close(int64_t low, int64_t high)
{
    return high - low <= 1 || (high - low) * CLOSE <= high;
}

/** Return the size that keeps the limit of days if time falls like 1 / nodes; the middle if that is unknown. */
static double expected_size(const struct size_search *search, int32_t offer, int64_t low, int64_t high)
{
    const struct what_if *results = find_results(search, offer, low);
    struct candidates candidates = {0};
    double days = INFINITY, limit = search->question->limit[LIMIT_DAYS];
    if (results != NULL)
        candidates_add(&candidates, search->question, &(struct size){offer, low, results, n_plans_of(search->question)},
                       n_systems_of(search->question));
    for (int32_t i = 0; i < candidates.n; i++)
        days = fmin(days, candidates.at[i].row.days);
    candidates_free(&candidates);
    return isinf(days) || isnan(limit) || days <= limit ? (double)low + (double)(high - low) / 2
                                                        : (double)low * days / limit;
}

/**
 * Try a size between a size of an offer and the next one beside it, unless they are close. Nodes of 0 stand for no
 * size.
 */
static void try_beside(struct size_search *search, int32_t offer, int64_t nodes, bool above)
{
    int64_t beside = 0;
    for (int32_t i = 0; i < search->n; i++) {
        int64_t other = search->sizes[i].nodes;
        bool beyond = above ? other > nodes : other < nodes;
        if (search->sizes[i].offer == offer && beyond && (beside == 0 || (other < beside) == above))
            beside = other;
    }
    int64_t low = above ? nodes : beside, high = above ? beside : nodes;
    if (low > 0 && high > 0 && !is_close(low, high))
        add_size(search, offer, between(low, high, expected_size(search, offer, low, high)));
}

/** Return the least cost of all sizes that keep all limits. INFINITY: none does. */
static double answer_cost(const struct size_search *search)
{
    const struct candidates *candidates = &search->candidates;
    bool in_money = candidates_have_money(candidates);
    double least = INFINITY;
    for (int32_t i = 0; i < candidates->n; i++)
        if (candidate_meets(search->question, &candidates->at[i]))
            least = fmin(least, candidate_cost(&candidates->at[i], in_money));
    return least;
}

/**
 * Try sizes beside the smallest and the cheapest size of an offer that keep the limit of days with confidence. The
 * offer's cheapest size of all may be one of them. Then no other is asked for.
 */
static void refine_safe(struct size_search *search, int32_t offer, bool in_money)
{
    const struct candidates *candidates = &search->candidates;
    double least = INFINITY, least_safe = INFINITY, margin = NAN;
    int64_t smallest = 0, cheapest = 0;
    for (int32_t i = 0; i < candidates->n; i++) {
        const struct candidate *candidate = &candidates->at[i];
        const struct trace_candidate *row = &candidate->row;
        if (row->offer != offer || !candidate_meets(search->question, candidate))
            continue;
        double cost = candidate_cost(candidate, in_money);
        least = fmin(least, cost);
        margin = isnan(margin) ? finish_date_margin(search->question, candidate) : margin;
        if (!(row->days * margin <= search->question->limit[LIMIT_DAYS]))
            continue;
        smallest = smallest == 0 ? row->nodes : smallest;
        if (cost < least_safe) {
            least_safe = cost;
            cheapest = row->nodes;
        }
    }
    if (least_safe == least)
        return;
    try_beside(search, offer, smallest, false);
    for (int above = 0; above < 2; above++)
        try_beside(search, offer, cheapest, above);
}

/** Try more sizes of an offer: step 4 of the header. */
static void refine(struct size_search *search, int32_t offer)
{
    const struct question *question = search->question;
    const struct candidates *candidates = &search->candidates;
    bool in_money = candidates_have_money(candidates), in_time = !isnan(question->limit[LIMIT_DAYS]);
    double least = INFINITY, least_mwh = INFINITY;
    int64_t smallest = 0, largest = 0, cheapest = 0, thriftiest = 0;
    for (int32_t i = 0; i < candidates->n; i++) {
        const struct candidate *candidate = &candidates->at[i];
        const struct trace_candidate *row = &candidate->row;
        if (row->offer != offer || !candidate_keeps(question, candidate, LIMIT_DAYS))
            continue;
        smallest = smallest == 0 ? row->nodes : smallest;
        largest = candidate_meets(question, candidate) ? row->nodes : largest;
        if (candidate_cost(candidate, in_money) < least) {
            least = candidate_cost(candidate, in_money);
            cheapest = row->nodes;
        }
        if (row->mwh < least_mwh && !isnan(question->limit[LIMIT_MWH])) {
            least_mwh = row->mwh;
            thriftiest = row->nodes;
        }
    }
    bool dear = least * DEAR > answer_cost(search) * (DEAR + 1);
    try_beside(search, offer, in_time ? smallest : largest, !in_time);
    if (!dear)
        refine_safe(search, offer, in_money);
    for (int above = 0; above < 2; above++) {
        if (!dear)
            try_beside(search, offer, cheapest, above);
        try_beside(search, offer, thriftiest, above);
    }
}

static int compare_sizes(const void *a, const void *b)
{
    const struct size *first = a, *second = b;
    if (first->offer != second->offer)
        return first->offer < second->offer ? -1 : 1;
    return (first->nodes > second->nodes) - (first->nodes < second->nodes);
}

/** List the candidates of all computed sizes in the order of offers and nodes. */
static void list_candidates(struct size_search *search)
{
    qsort(search->sizes, (size_t)search->n, sizeof *search->sizes, compare_sizes);
    search->candidates.n = 0;
    for (int32_t i = 0; i < search->n; i++)
        if (search->sizes[i].results != NULL)
            candidates_add(&search->candidates, search->question, &search->sizes[i], n_systems_of(search->question));
}

/**
 * Say what follows a round: more sizes, the answer on SimGrid, and changes of one system at one size. A round halves
 * the distance to the next size, which is half of the larger one at first, until the two are close. It tries one or two
 * sizes of an offer.
 */
static void expect(const struct question *question, int32_t n_rounds, struct progress *progress)
{
    int32_t n_left = 0;
    for (int32_t part = 2 << n_rounds; part < CLOSE; part *= 2)
        n_left++;
    double contention = question->offers[0].scenario.engine != SCENARIO_CRITICAL_PATH;
    double sizes = 1.5 * n_left * question->n_offers;
    progress_expect(progress, 1, sizes + contention + CHANGES_USUAL,
                    sizes + contention + (double)CHANGES_USUAL / n_systems_of(question));
}

bool size_search_run(const struct question *question, const struct what_if_options *options, struct size_search *search,
                     struct error *err)
{
    *search = (struct size_search){.question = question};
    for (int32_t i = 0; i < question->n_offers; i++)
        add_grid(search, i);
    for (int32_t n = -1; n < search->n;) {
        n = search->n;
        expect(question, search->n_rounds, options->progress);
        if (!compute_missing(search, options, err))
            return false;
        if (options->shard.n > 0)
            return true;
        list_candidates(search);
        for (int32_t i = 0; i < question->n_offers; i++)
            refine(search, i);
    }
    return true;
}

void size_search_grid(const struct question *question, struct document *document)
{
    struct size_search search = {.question = question};
    for (int32_t i = 0; i < question->n_offers; i++)
        add_grid(&search, i);
    int32_t *offers = check_calloc((size_t)search.n, sizeof *offers);
    int64_t *nodes = check_calloc((size_t)search.n, sizeof *nodes);
    int32_t n = list_missing(&search, offers, nodes);
    question_sizes(question, n, offers, nodes, document);
    free(offers);
    free(nodes);
    size_search_free(&search);
}

void size_search_free(struct size_search *search)
{
    for (int32_t i = 0; i < search->n_rounds; i++)
        what_if_free(&search->rounds[i]);
    free(search->rounds);
    free(search->sizes);
    candidates_free(&search->candidates);
    *search = (struct size_search){0};
}
