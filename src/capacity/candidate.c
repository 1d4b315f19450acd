/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "capacity/candidate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "document/document_read.h"
#include "operation/energy.h"
#include "operation/money.h"

static const double s_per_day = 86400, s_per_hour = 3600;

/** A simulated training gives up below this goodput (TRAINING_RUN_LEAST_FAILURES), so it counts as one without end. */
static const double least_goodput = 0.01;

/** Return the goodput of a row's nodes with its spare ones; all of the time trains without `reliability:`. */
static struct goodput goodput_at(const struct offer *offer, const struct trace_candidate *row)
{
    struct reliability reliability = offer->scenario.reliability;
    struct goodput goodput = {.ettr = 1, .renewal = {.mttf_s = NAN, .interval_s = NAN}};
    if (!reliability.present)
        return goodput;
    struct goodput_setting setting = offer_setting(offer, row->nodes);
    setting.reliability = &reliability;
    reliability.spares = (double)row->spare_nodes;
    return goodput_of(&setting);
}

void candidate_price(const struct question *question, const struct offer *offer, struct trace_candidate *row)
{
    const struct scenario *scenario = &offer->scenario;
    int64_t gpus = offer_gpus(offer, row->nodes);
    struct goodput goodput = goodput_at(offer, row);
    const double *lost = goodput.lost_share;
    row->gpus = gpus + offer_gpus(offer, row->spare_nodes);
    row->goodput = goodput.ettr;
    row->mttf_s = goodput.renewal.mttf_s;
    row->checkpoint_interval_s = goodput.renewal.interval_s;
    row->blocked_fraction = lost[GOODPUT_BLOCKED];
    row->lost_work_fraction = lost[GOODPUT_WORK];
    row->restart_fraction = lost[GOODPUT_RESTART];
    row->no_spares_fraction = lost[GOODPUT_SPARES];
    row->slow_fraction = lost[GOODPUT_SLOW];
    double time_s = question->tokens / (row->tokens_per_s_per_gpu * (double)gpus * goodput.ettr);
    double running = goodput.ettr + lost[GOODPUT_WORK] + lost[GOODPUT_SLOW];
    double all_s = (double)gpus * time_s;
    struct energy_time time = {
        .busy_s = all_s * running * row->busy_fraction,
        .waiting_s = all_s * (running * (1 - row->busy_fraction) + lost[GOODPUT_BLOCKED]),
        .idle_s = all_s * (lost[GOODPUT_RESTART] + lost[GOODPUT_SPARES]) + (double)(row->gpus - gpus) * time_s,
    };
    double joules = energy_j(&scenario->power, &scenario->price, &time);
    row->days = time_s / s_per_day;
    row->gpu_hours = (double)row->gpus * time_s / s_per_hour;
    row->mwh = energy_kwh(joules) / 1000;
    row->co2_t = energy_kg_co2(&scenario->price, joules) / 1000;
    row->usd = money_usd(&scenario->price, platform_gpus_per_server(&scenario->platform), row->gpu_hours, joules);
    row->usd_per_1t_tokens = row->usd / question->tokens * 1e12;
}

/** Return the cost of a candidate, INFINITY if it never ends. */
static double cost_of(const struct candidate *candidate, bool in_money)
{
    double cost = candidate_cost(candidate, in_money);
    return isfinite(cost) ? cost : INFINITY;
}

void candidate_price_with_spares(const struct question *question, const struct offer *offer,
                                 struct trace_candidate *row)
{
    int64_t least = offer_least_spares(offer), most = offer_most_spares(offer, row->nodes);
    struct candidate best = {.row = *row}, with = best;
    for (int64_t spares = least; spares <= most; spares++) {
        with.row.spare_nodes = spares;
        candidate_price(question, offer, &with.row);
        bool in_money = !isnan(with.row.usd), keeps = candidate_meets(question, &with);
        double best_cost = cost_of(&best, in_money);
        bool cheaper = cost_of(&with, in_money) < best_cost;
        bool kept = spares > least && candidate_meets(question, &best);
        if (spares == least || keeps > kept || (keeps == kept && cheaper))
            best = with;
        else if (kept && best_cost < INFINITY)
            break;
    }
    *row = best.row;
}

/** Return the seconds that a phase takes for each GPU-token/s of its rate, as a share of those of all phases. */
static double share_of(const struct question *question, const struct size *size, int32_t system, int32_t phase)
{
    double sum_s = 0;
    for (int32_t i = 0; i < question->n_phases; i++)
        sum_s += question->phase[i].tokens / size->results[i].result.summary[system].tokens_per_s_per_gpu;
    return question->phase[phase].tokens / size->results[phase].result.summary[system].tokens_per_s_per_gpu / sum_s;
}

/** Take the plan of the first phase. The text has the plans of all, if they differ. */
static void take_plan(const struct question *question, const struct size *size, struct candidate *candidate)
{
    struct trace_candidate *row = &candidate->row;
    const struct trace_summary *summary = &size->results[0].result.summary[row->system];
    row->tp = summary->tp;
    row->pp = summary->pp;
    row->cp = summary->cp;
    row->ep = summary->ep;
    row->dp = summary->dp;
    row->vpp = summary->vpp;
    row->sharding = summary->sharding;
    row->recompute = summary->recompute;
    row->offload = summary->offload;
    memcpy(row->plan_text, summary->plan_text, sizeof row->plan_text);
    for (int32_t i = 1; i < question->n_phases; i++) {
        if (strcmp(candidate->phase[i].plan_text, candidate->phase[i - 1].plan_text) == 0)
            continue;
        char *longer = check_asprintf("%s, then %s", row->plan_text, candidate->phase[i].plan_text);
        bool whole = strlen(longer) < sizeof row->plan_text;
        snprintf(row->plan_text, sizeof row->plan_text, "%s", whole ? longer : "a plan of its own for each phase");
        free(longer);
        if (!whole)
            return;
    }
}

/** Add what a system does in a phase, which takes a share of the time. */
static void add_phase(const struct trace_summary *summary, double share, struct candidate *candidate, int32_t phase)
{
    struct trace_candidate *row = &candidate->row;
    struct candidate_phase *of = &candidate->phase[phase];
    double deviation = share * summary->tokens_per_s_per_gpu_interval / summary->tokens_per_s_per_gpu;
    of->tokens_per_s_per_gpu = summary->tokens_per_s_per_gpu;
    of->busy_fraction = (summary->busy_s - summary->tensor_s - summary->shard_s - summary->expert_s) / summary->total_s;
    memcpy(of->plan_text, summary->plan_text, sizeof of->plan_text);
    row->tight |= summary->tight;
    row->fits &= summary->fits;
    row->peak_bytes = fmax(row->peak_bytes, summary->peak_bytes);
    row->memory_bytes = summary->memory_bytes;
    row->tokens_per_s_per_gpu += share * summary->tokens_per_s_per_gpu;
    row->tokens_per_s_per_gpu_interval = hypot(row->tokens_per_s_per_gpu_interval, deviation);
    row->mfu += share * summary->mfu;
    row->busy_fraction += share * of->busy_fraction;
    if (!isnan(summary->tokens_per_s_per_gpu_flash2)) /* it takes longer than with the scaled curve */
        candidate->flash2 += share * (summary->tokens_per_s_per_gpu / summary->tokens_per_s_per_gpu_flash2 - 1);
    candidate->token_delay = fmax(candidate->token_delay, summary->token_delay);
}

bool candidate_trains(const struct candidate *candidate)
{
    return candidate->row.goodput >= least_goodput;
}

/** Fill in the results of a system that ran in all phases. */
static void add_phases(const struct question *question, const struct size *size, struct candidate *candidate)
{
    struct trace_candidate *row = &candidate->row;
    const struct offer *offer = &question->offers[size->offer];
    row->ran = row->fits = 1;
    row->tokens_per_s_per_gpu_interval = 0;
    for (int32_t i = 0; i < question->n_phases; i++)
        add_phase(&size->results[i].result.summary[row->system], share_of(question, size, row->system, i), candidate,
                  i);
    row->tokens_per_s_per_gpu_interval *= row->tokens_per_s_per_gpu;
    candidate->flash2 =
        candidate->flash2 != 0 ? row->tokens_per_s_per_gpu / (1 + candidate->flash2) : NAN; /* 0: none is scaled */
    take_plan(question, size, candidate);
    row->fits = row->fits && (!row->tight || offer->scenario.fits == SCENARIO_FITS_TIGHT);
    if (row->fits)
        candidate_price_with_spares(question, offer, row);
    if (row->fits && !candidate_trains(candidate)) {
        candidate->refusal = "failures come so fast that less than 1% of the time trains";
        row->fits = 0;
        row->days = row->gpu_hours = row->usd = row->mwh = row->co2_t = row->usd_per_1t_tokens = NAN;
    }
}

/** Make the candidate of a system with one of the plans of a size. */
static struct candidate candidate_of(const struct question *question, const struct size *size, int32_t system,
                                     int32_t plan)
{
    const struct offer *from = &question->offers[size->offer];
    const struct size planned = {size->offer, size->nodes, size->results + plan * question->n_phases, 0};
    struct candidate candidate = {.results = planned.results, .contention = NAN};
    struct trace_candidate *row = &candidate.row;
    *row = (struct trace_candidate){
        .offer = size->offer, .system = system, .nodes = size->nodes, .spare_nodes = offer_least_spares(from)};
    row->gpus = offer_gpus(from, size->nodes + row->spare_nodes);
    row->tokens_per_s_per_gpu_interval = row->mttf_s = row->checkpoint_interval_s = NAN;
    row->days = row->gpu_hours = NAN;
    row->usd = row->mwh = row->co2_t = row->usd_per_1t_tokens = row->added_tokens_per_s = row->added_usd = NAN;
    for (int32_t i = 0; i < question->n_phases && candidate.refusal == NULL; i++)
        if (planned.results[i].result.status != RESULT_DONE)
            candidate.refusal = planned.results[i].result.message;
    if (candidate.refusal == NULL)
        add_phases(question, &planned, &candidate);
    return candidate;
}

void candidates_add(struct candidates *candidates, const struct question *question, const struct size *size,
                    int32_t n_systems)
{
    for (int32_t i = 0; i < n_systems; i++) {
        struct candidate best = candidate_of(question, size, i, 0);
        for (int32_t plan = 1; plan < size->n_plans; plan++) {
            struct candidate other = candidate_of(question, size, i, plan);
            if (other.row.fits && (!best.row.fits || other.row.days < best.row.days))
                best = other;
        }
        candidates->at =
            check_grow(candidates->at, (size_t)candidates->n, &candidates->capacity, sizeof *candidates->at);
        candidates->at[candidates->n++] = best;
    }
}

void candidate_document(const struct candidate *candidate, int32_t phase, struct document *document)
{
    struct error err = {0};
    const char *text = candidate->results[phase].result.scenario;
    *document = (struct document){0};
    CHECK(document_parse(text, strlen(text), "scenario", document, &err)); /* the program wrote it */
    document_keep_entry(document, "systems", candidate->row.system);
}

struct trace_candidate candidate_phase_row(const struct question *question, const struct candidate *candidate,
                                           int32_t phase)
{
    struct question *one = check_malloc(sizeof *one);
    struct trace_candidate row = candidate->row;
    const struct candidate_phase *of = &candidate->phase[phase];
    *one = *question; /* it borrows everything */
    one->tokens = question->phase[phase].tokens;
    row.tokens_per_s_per_gpu = of->tokens_per_s_per_gpu;
    row.busy_fraction = of->busy_fraction;
    memcpy(row.plan_text, of->plan_text, sizeof row.plan_text);
    candidate_price(one, &question->offers[row.offer], &row);
    free(one);
    return row;
}

double candidate_amount(const struct candidate *candidate, enum capacity_limit limit)
{
    const struct trace_candidate *row = &candidate->row;
    return limit == LIMIT_DAYS  ? row->days
           : limit == LIMIT_USD ? row->usd
           : limit == LIMIT_MWH ? row->mwh
                                : (double)row->gpus;
}

bool candidate_keeps(const struct question *question, const struct candidate *candidate, enum capacity_limit limit)
{
    double most = question->limit[limit];
    return candidate->row.fits && (isnan(most) || candidate_amount(candidate, limit) <= most);
}

bool candidate_meets(const struct question *question, const struct candidate *candidate)
{
    bool meets = candidate->row.fits;
    for (enum capacity_limit i = 0; i < CAPACITY_N_LIMITS; i++)
        meets = meets && candidate_keeps(question, candidate, i);
    return meets;
}

bool candidates_have_money(const struct candidates *candidates)
{
    for (int32_t i = 0; i < candidates->n; i++)
        if (candidates->at[i].row.fits && isnan(candidates->at[i].row.usd))
            return false;
    return true;
}

double candidate_cost(const struct candidate *candidate, bool in_money)
{
    return in_money ? candidate->row.usd : candidate->row.gpu_hours;
}

/** Return whether a candidate is as good as another in every respect, and better in one. Unknown energy does not
 * count.
 */
static bool beats(const struct candidate *a, const struct candidate *b, bool in_money)
{
    bool known = !isnan(a->row.mwh) && !isnan(b->row.mwh);
    double cost_a = candidate_cost(a, in_money), cost_b = candidate_cost(b, in_money);
    bool as_good = a->row.days <= b->row.days && cost_a <= cost_b && (!known || a->row.mwh <= b->row.mwh);
    return as_good && (a->row.days < b->row.days || cost_a < cost_b || (known && a->row.mwh < b->row.mwh));
}

static void mark_frontier(struct candidates *candidates, bool in_money)
{
    for (int32_t i = 0; i < candidates->n; i++) {
        struct candidate *candidate = &candidates->at[i];
        candidate->row.frontier = candidate->row.fits;
        for (int32_t k = 0; k < candidates->n && candidate->row.frontier; k++)
            if (candidates->at[k].row.fits && beats(&candidates->at[k], candidate, in_money))
                candidate->row.frontier = 0;
    }
}

/** Return tokens/s with failures. */
static double rate_of(const struct question *question, const struct candidate *candidate)
{
    return question->tokens / (candidate->row.days * s_per_day);
}

/** Return whether two candidates are sizes of one offer with one system. */
static bool is_alike(const struct candidate *a, const struct candidate *b)
{
    return a->row.fits && b->row.fits && a->row.offer == b->row.offer && a->row.system == b->row.system;
}

/** Fill in what a node adds to a size, from the next smaller one of its offer and system. */
static void fill_in_added(const struct candidates *candidates, const struct question *question,
                          struct candidate *candidate)
{
    const struct candidate *smaller = NULL;
    for (int32_t i = 0; i < candidates->n; i++) {
        const struct candidate *other = &candidates->at[i];
        if (is_alike(candidate, other) && other->row.nodes < candidate->row.nodes &&
            (smaller == NULL || other->row.nodes > smaller->row.nodes))
            smaller = other;
    }
    if (smaller == NULL)
        return;
    double added = (double)(candidate->row.nodes - smaller->row.nodes);
    candidate->row.added_tokens_per_s = (rate_of(question, candidate) - rate_of(question, smaller)) / added;
    candidate->row.added_usd = (candidate->row.usd - smaller->row.usd) / added;
}

/**
 * Return whether a size is the knee of its offer and system. From each smaller size, its added nodes give at least half
 * the tokens/s of a node of the least size on average, and it is the largest such size. So it has the most tokens/s
 * after half the tokens/s of a node of the least size is taken off for each node.
 */
static bool is_knee(const struct candidates *candidates, const struct question *question,
                    const struct candidate *candidate)
{
    const struct candidate *least = candidate;
    for (int32_t i = 0; i < candidates->n; i++)
        if (is_alike(candidate, &candidates->at[i]) && candidates->at[i].row.nodes < least->row.nodes)
            least = &candidates->at[i];
    double half = rate_of(question, least) / (double)least->row.nodes / 2;
    double most = rate_of(question, candidate) - half * (double)candidate->row.nodes;
    bool knee = candidate->row.fits;
    for (int32_t i = 0; i < candidates->n; i++) {
        const struct candidate *other = &candidates->at[i];
        double left = rate_of(question, other) - half * (double)other->row.nodes;
        if (is_alike(candidate, other) && (left > most || (left == most && other->row.nodes > candidate->row.nodes)))
            knee = false;
    }
    return knee;
}

static void mark_added(struct candidates *candidates, const struct question *question)
{
    for (int32_t i = 0; i < candidates->n; i++) {
        fill_in_added(candidates, question, &candidates->at[i]);
        candidates->at[i].row.knee = is_knee(candidates, question, &candidates->at[i]);
    }
}

/** Return whether a candidate is a better answer than another. */
static bool is_better(const struct candidate *a, const struct candidate *b, bool fastest, bool in_money)
{
    double cost_a = candidate_cost(a, in_money), cost_b = candidate_cost(b, in_money);
    if (!fastest && cost_a != cost_b)
        return cost_a < cost_b;
    return a->row.days < b->row.days;
}

/** Return the best candidate that keeps all limits, or that fits. @param offer  only of this one; -1: of all */
static int32_t choose(const struct candidates *candidates, int32_t offer, bool all, bool fastest)
{
    bool in_money = candidates_have_money(candidates);
    int32_t chosen = -1;
    for (int32_t i = 0; i < candidates->n; i++)
        if ((all ? candidates->at[i].row.fits : candidates->at[i].row.meets) &&
            (offer < 0 || candidates->at[i].row.offer == offer) &&
            (chosen < 0 || is_better(&candidates->at[i], &candidates->at[chosen], fastest, in_money)))
            chosen = i;
    return chosen;
}

int32_t candidates_fastest(const struct candidates *candidates)
{
    return choose(candidates, -1, true, true);
}

int32_t candidates_best_of_offer(const struct candidates *candidates, const struct question *question, int32_t offer)
{
    int32_t chosen = choose(candidates, offer, false, question_asks_for_fastest(question));
    return chosen >= 0 ? chosen : choose(candidates, offer, true, true);
}

int32_t candidates_choose(struct candidates *candidates, const struct question *question)
{
    for (int32_t i = 0; i < candidates->n; i++) {
        candidates->at[i].row.meets = candidate_meets(question, &candidates->at[i]);
        candidates->at[i].row.chosen = 0;
    }
    mark_frontier(candidates, candidates_have_money(candidates));
    mark_added(candidates, question);
    int32_t chosen = choose(candidates, -1, false, question_asks_for_fastest(question));
    if (chosen >= 0)
        candidates->at[chosen].row.chosen = 1;
    return chosen;
}

void candidates_free(struct candidates *candidates)
{
    free(candidates->at);
    *candidates = (struct candidates){0};
}
