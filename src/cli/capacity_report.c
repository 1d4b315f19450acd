/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/capacity_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "answer/model_error_json.h"
#include "base/check.h"
#include "base/text.h"
#include "base/text_table.h"
#include "capacity/answer_files.h"
#include "capacity/notes.h"
#include "cli/command.h"
#include "trace/json.h"

enum {
    ASSUMED_LINES = 3,
    PHASE_LINES = 2,
    OFFER_LINES = 4,
    MOST_OTHERS = 7,
    MOST_BINDING = 3,
    MOST_RISKS = 4,
    ALL_LINES = 1000
};

static const char *label_of(const struct answer *answer, const struct trace_candidate *row)
{
    return answer->question->offers[0].scenario.systems[row->system].label;
}

static const struct offer *offer_of(const struct answer *answer, const struct trace_candidate *row)
{
    return &answer->question->offers[row->offer];
}

/** Write the tokens of a phase: "1.8T tokens of github up to 4,096". */
static void write_tokens(FILE *file, const struct phase *phase)
{
    char tokens[TEXT_AMOUNT_SIZE], context[TEXT_NUMBER_SIZE];
    text_amount("", phase->tokens, tokens);
    text_number((double)phase->data.context, 0, context);
    fprintf(file, "%s tokens of %s up to %s", tokens, phase->data.lengths, context);
}

/** Write what was asked. */
static void write_question(FILE *file, const struct answer *answer)
{
    const struct question *question = answer->question;
    const struct scenario *scenario = &question->offers[0].scenario;
    char amount[TEXT_AMOUNT_SIZE];
    const double *limit = question->limit;
    fprintf(file, "%s: train %s on ", scenario->name, scenario->model.name);
    for (int32_t i = 0; i < question->n_phases; i++) {
        fputs(i > 0 ? ", then " : "", file);
        write_tokens(file, &question->phase[i]);
    }
    if (!isnan(limit[LIMIT_DAYS]))
        fprintf(file, ", in %g days", limit[LIMIT_DAYS]);
    text_amount("$", limit[LIMIT_USD], amount);
    if (!isnan(limit[LIMIT_USD]))
        fprintf(file, ", for %s", amount);
    if (!isnan(limit[LIMIT_MWH]))
        fprintf(file, ", with %g MWh", limit[LIMIT_MWH]);
    if (!isnan(limit[LIMIT_GPUS]))
        fprintf(file, ", on %g GPUs", limit[LIMIT_GPUS]);
    bool any = false;
    for (int i = 0; i < CAPACITY_N_LIMITS; i++)
        any = any || !isnan(limit[i]);
    fputs(any ? " at most\n" : "\n", file);
}

/** Write what a question without a file takes for granted. */
static void write_assumed(FILE *file, const struct answer *answer)
{
    const struct question *question = answer->question;
    const struct scenario *scenario = &question->offers[0].scenario;
    if (!question->assumed)
        return;
    fputs("assumed: ", file);
    for (int32_t i = 0; i < question->n_offers; i++) {
        const struct offer *offer = &question->offers[i];
        const struct platform *platform = &offer->scenario.platform, *first = &scenario->platform;
        bool same = i > 0 && platform_gpus_per_server(platform) == platform_gpus_per_server(first) &&
                    platform->nvlink_bytes_per_s == first->nvlink_bytes_per_s &&
                    platform->nic_bytes_per_s == first->nic_bytes_per_s;
        fprintf(file, "%s%s: %" PRId64 " to %" PRId64 "%s", i > 0 ? "; " : "", offer->name, offer->from, offer->to,
                same ? " such" : "");
        if (!same)
            fprintf(file, " nodes of %d GPUs, NVLink %gGBps, NIC %gGbps", platform_gpus_per_server(platform),
                    platform->nvlink_bytes_per_s / 1e9, 8 * platform->nic_bytes_per_s / 1e9);
    }
    fprintf(file, "\nassumed: failures as in %s; ",
            scenario->reliability.present ? scenario->reliability.name : "a cluster that never fails");
    for (int32_t i = 0; i < scenario->n_systems; i++)
        fprintf(file, "%s%s", i > 0 ? ", " : "", scenario->systems[i].label);
    fprintf(file,
            " with its fastest plan of the space %s, over %" PRId64 " batches on the %s; prices in $ an hour of a GPU, "
            "with energy\n",
            scenario->systems[0].space.name, scenario->measured,
            scenario->engine == SCENARIO_CRITICAL_PATH ? "critical path" : "SimGrid");
}

static const char *label_of_pick(const struct answer *answer, int kind, char text[TEXT_AMOUNT_SIZE])
{
    bool fastest = answer->chosen < 0 || question_asks_for_fastest(answer->question);
    if (kind == PICK_SAFE)
        snprintf(text, TEXT_AMOUNT_SIZE, "safe at %g%%", 100 * answer->question->confidence);
    else
        snprintf(text, TEXT_AMOUNT_SIZE, "%s", kind == PICK_FEWEST ? "fewest GPUs" : fastest ? "fastest" : "cheapest");
    return text;
}

/** Write the cost of a pick at these days: money or GPU-hours grow with the days. */
static void cost_at(const struct pick *pick, bool in_money, double days, char text[TEXT_AMOUNT_SIZE])
{
    text_amount(in_money ? "$" : "", candidate_cost(&pick->candidate, in_money) * days / pick->candidate.row.days,
                text);
}

/** Add a row: what is billed, days and cost with their ranges, and the chance to miss a limit. */
static void add_pick(struct text_table *table, const struct answer *answer, const char *label, const struct pick *pick)
{
    const struct trace_candidate *row = &pick->candidate.row;
    const struct finish_date *date = &pick->date;
    bool in_money = candidates_have_money(&answer->search.candidates);
    char low[TEXT_AMOUNT_SIZE], high[TEXT_AMOUNT_SIZE], value[TEXT_AMOUNT_SIZE];
    text_digits(row->days, value);
    text_digits(date->all.p5, low);
    text_digits(date->all.p95, high);
    text_table_row(table, "%s\t%s\t%" PRId64 " + %" PRId64 " spare%s = %" PRId64 "\t%" PRId64 "\t%s", label,
                   offer_of(answer, row)->name, row->nodes, row->spare_nodes, row->spare_nodes == 1 ? "" : "s",
                   row->nodes + row->spare_nodes, row->gpus, value);
    text_table_cell(table, date->n > 0 ? "%s..%s" : "-", low, high);
    cost_at(pick, in_money, row->days, value);
    cost_at(pick, in_money, date->all.p5, low);
    cost_at(pick, in_money, date->all.p95, high);
    text_table_cell(table, "%s", value);
    text_table_cell(table, date->n > 0 ? "%s..%s" : "-", low, high);
    text_table_cell(table, date->n > 0 && question_is_limited(answer->question) ? "%.0f%%" : "-", 100 * date->missed);
}

/** Return whether a row is one of the answers. */
static bool is_picked(const struct answer *answer, const struct trace_candidate *row)
{
    bool picked = false;
    for (int kind = 0; kind < PICK_N_KINDS; kind++) {
        const struct trace_candidate *other = &answer->pick[kind].candidate.row;
        picked = picked || (answer->pick[kind].index >= 0 && other->offer == row->offer &&
                            other->system == row->system && other->nodes == row->nodes && other->gpus == row->gpus);
    }
    return picked;
}

/** Write the answers side by side, and the best size of each other offer. */
static void write_picks(FILE *file, const struct answer *answer, bool verbose)
{
    const struct question *question = answer->question;
    const struct pick *subject = &answer->pick[PICK_SUBJECT];
    bool rent = !isnan(offer_of(answer, &subject->candidate.row)->scenario.price.usd_per_gpu_hour);
    bool in_money = candidates_have_money(&answer->search.candidates);
    struct text_table table = {0};
    int32_t n_others = 0;
    bool drawn = subject->date.n > 0, limited = question_is_limited(question);
    fputs(answer->chosen < 0 ? "nothing keeps all limits; the fastest"
          : rent             ? "rent one of these"
                             : "buy one of these",
          file);
    if (drawn)
        fprintf(file, " (days as computed; p5..p95%s of %d drawn trainings)", limited ? ", and miss of a limit," : "",
                subject->date.n);
    fputs(":\n", file);
    text_table_columns(&table, "<;offer<;nodes billed<;GPUs>;days>;p5..p95<");
    text_table_column(&table, in_money ? "cost" : "GPU-hours", ">");
    text_table_columns(&table, "p5..p95<;miss>");
    for (int kind = 0; kind < PICK_N_KINDS; kind++) {
        char label[TEXT_AMOUNT_SIZE];
        if (answer->pick[kind].index >= 0)
            add_pick(&table, answer, label_of_pick(answer, kind, label), &answer->pick[kind]);
    }
    for (int32_t i = 0; i < question->n_offers; i++)
        if (answer->other[i].index >= 0 && !is_picked(answer, &answer->other[i].candidate.row) &&
            (n_others++ < MOST_OTHERS || verbose))
            add_pick(&table, answer, "other offer", &answer->other[i]);
    text_table_print(&table, file, 0);
    if (n_others > MOST_OTHERS && !verbose)
        fprintf(file, "and %d more offers (-v)\n", n_others - MOST_OTHERS);
}

/** Write the plans of the answers, each candidate once. */
static void write_plans(FILE *file, const struct answer *answer)
{
    char label[TEXT_AMOUNT_SIZE];
    for (int kind = 0; kind < PICK_N_KINDS; kind++) {
        const struct pick *pick = &answer->pick[kind];
        const struct trace_candidate *row = &pick->candidate.row;
        bool known = pick->index < 0;
        for (int before = 0; before < kind; before++)
            known = known || answer->pick[before].index == pick->index;
        if (!known)
            fprintf(file, "%s%s %s with %s%s", kind == 0 ? "plan: " : "; ", label_of_pick(answer, kind, label),
                    label_of(answer, row), row->plan_text, row->tight ? ", which fits only tightly" : "");
    }
    fputc('\n', file);
}

/** Write what each phase of the subject takes, and their sum. */
static void write_phases(FILE *file, const struct answer *answer)
{
    const struct question *question = answer->question;
    const struct candidate *subject = answer_subject(answer);
    bool in_money = candidates_have_money(&answer->search.candidates);
    char days[TEXT_AMOUNT_SIZE], cost[TEXT_AMOUNT_SIZE], label[TEXT_AMOUNT_SIZE];
    for (int32_t i = 0; i <= question->n_phases && question->n_phases > 1; i++) {
        struct candidate phase = *subject;
        if (i < question->n_phases)
            phase.row = candidate_phase_row(question, subject, i);
        text_digits(phase.row.days, days);
        text_amount(in_money ? "$" : "", candidate_cost(&phase, in_money), cost);
        if (i < question->n_phases) {
            fprintf(file, "phase %d, ", i + 1);
            write_tokens(file, &question->phase[i]);
            fprintf(file, ": %s days, %s%s, %.0f tokens/s/GPU, %s\n", days, cost, in_money ? "" : " GPU-hours",
                    phase.row.tokens_per_s_per_gpu, phase.row.plan_text);
        } else
            fprintf(file, "the phases of the %s together: %s days, %s%s\n", label_of_pick(answer, PICK_SUBJECT, label),
                    days, cost, in_money ? "" : " GPU-hours");
    }
}

/** Write how sure the limits are. */
static void write_chance(FILE *file, const struct answer *answer)
{
    const struct question *question = answer->question;
    const struct pick *subject = &answer->pick[PICK_SUBJECT];
    char label[TEXT_AMOUNT_SIZE];
    if (subject->date.n == 0) {
        fprintf(file,
                "no interval of dates from %" PRId64 " measured iteration%s, which do not say how much batches differ: "
                "%d are needed (iterations.measured=%d)\n",
                question->offers[0].scenario.measured, question->offers[0].scenario.measured == 1 ? "" : "s",
                FINISH_DATE_LEAST_ITERATIONS, FINISH_DATE_LEAST_ITERATIONS);
        return;
    }
    if (answer->chosen < 0 || !question_is_limited(question))
        return;
    if (subject->date.missed > 1 - question->confidence)
        fprintf(file, "the %s keeps the limits as computed; %.0f%% of the draws miss them\n",
                label_of_pick(answer, PICK_SUBJECT, label), 100 * subject->date.missed);
    if (answer->pick[PICK_SAFE].index < 0)
        fprintf(file, "%s: no computed size\n", label_of_pick(answer, PICK_SAFE, label));
}

/** Write what the subject takes beside days and money, and the days of the other systems on its nodes. */
static void write_amounts(FILE *file, const struct answer *answer)
{
    const struct trace_candidate *row = &answer_subject(answer)->row;
    char hours[TEXT_AMOUNT_SIZE], trillion[TEXT_AMOUNT_SIZE], days[TEXT_AMOUNT_SIZE], mwh[TEXT_AMOUNT_SIZE],
        co2[TEXT_AMOUNT_SIZE];
    char label[TEXT_AMOUNT_SIZE];
    text_digits(row->mwh, mwh);
    text_digits(row->co2_t, co2);
    text_amount("$", row->usd_per_1t_tokens, trillion);
    text_amount("", row->gpu_hours, hours);
    fprintf(file, "the %s takes %s GPU-hours", label_of_pick(answer, PICK_SUBJECT, label), hours);
    if (!isnan(row->usd))
        fprintf(file, " (%s per 1T tokens)", trillion);
    if (!isnan(row->mwh))
        fprintf(file, ", %s MWh", mwh);
    if (!isnan(row->co2_t))
        fprintf(file, ", %s t CO2", co2);
    for (int32_t i = 0; i < answer->search.candidates.n; i++) {
        const struct trace_candidate *other = &answer->search.candidates.at[i].row;
        text_digits(other->days, days);
        if (other->offer == row->offer && other->nodes == row->nodes && other->system != row->system && other->fits)
            fprintf(file, "; %s on its nodes %s days", label_of(answer, other), days);
    }
    fputc('\n', file);
}

/**
 * Write the fewest and the most nodes of each offer that keep all limits for about the same cost. Two costs are about
 * the same if they differ by less than the interval of the answer's throughput over its batches.
 */
static void write_ties(FILE *file, const struct answer *answer)
{
    const struct candidates *candidates = &answer->search.candidates;
    const struct candidate *subject = answer_subject(answer);
    bool in_money = candidates_have_money(candidates), any = false;
    double error = subject->row.tokens_per_s_per_gpu_interval / subject->row.tokens_per_s_per_gpu;
    double cost = candidate_cost(subject, in_money);
    for (int32_t offer = 0; offer < answer->question->n_offers && !isnan(error); offer++) {
        const struct trace_candidate *fewest = NULL, *most = NULL;
        char slow[TEXT_AMOUNT_SIZE], fast[TEXT_AMOUNT_SIZE];
        for (int32_t i = 0; i < candidates->n; i++) {
            const struct trace_candidate *row = &candidates->at[i].row;
            if (row->offer != offer || !row->meets ||
                fabs(candidate_cost(&candidates->at[i], in_money) / cost - 1) > error)
                continue;
            fewest = fewest == NULL || (row->nodes == fewest->nodes && row->days < fewest->days) ? row : fewest;
            most = most == NULL || row->nodes > most->nodes || row->days < most->days ? row : most;
        }
        if (fewest == NULL || fewest->nodes == most->nodes)
            continue;
        text_digits(fewest->days, slow);
        text_digits(most->days, fast);
        if (!any)
            fprintf(file, "costs about the same (± %.1f%%, 95%% interval of batches): ", 100 * error);
        fprintf(file, "%s%" PRId64 " node%s of %s in %s days, %" PRId64 " in %s", any ? "; " : "", fewest->nodes,
                fewest->nodes > 1 ? "s" : "", offer_of(answer, fewest)->name, slow, most->nodes, fast);
        any = true;
    }
    fputs(any ? "\n" : "", file);
}

/** Return the candidate that takes the least of one thing among those that keep the other limits; NULL: none. */
static const struct candidate *least_of(const struct answer *answer, enum capacity_limit limit)
{
    const struct candidate *least = NULL;
    for (int32_t i = 0; i < answer->search.candidates.n; i++) {
        const struct candidate *candidate = &answer->search.candidates.at[i];
        bool keeps = candidate->row.fits;
        for (enum capacity_limit other = 0; other < CAPACITY_N_LIMITS; other++)
            keeps = keeps && (other == limit || candidate_keeps(answer->question, candidate, other));
        if (keeps && (least == NULL || candidate_amount(candidate, limit) < candidate_amount(least, limit)))
            least = candidate;
    }
    return least;
}

/** Write what is limited, rounded up to three digits, so that this much is enough: "$6.27k". */
static void write_enough(FILE *file, enum capacity_limit limit, double amount)
{
    static const char *const units[] = {" days", "", " MWh", " GPUs"};
    double step = pow(10, floor(log10(amount)) - 2);
    char text[TEXT_AMOUNT_SIZE];
    if (limit == LIMIT_USD)
        text_amount("$", ceil(amount / step) * step, text);
    else if (limit == LIMIT_GPUS)
        snprintf(text, sizeof text, "%.0f", amount);
    else
        text_digits(ceil(amount / step) * step, text);
    fprintf(file, "%s%s", text, units[limit]);
}

/** Write for each limit how much of it would do, if the others stay. */
static void write_ways_out(FILE *file, const struct answer *answer)
{
    int n = 0;
    for (enum capacity_limit i = 0; i < CAPACITY_N_LIMITS; i++) {
        const struct candidate *least = least_of(answer, i);
        if (least == NULL || isnan(answer->question->limit[i]))
            continue;
        fputs(n++ == 0 ? "it would do to allow " : ", or ", file);
        write_enough(file, i, candidate_amount(least, i));
        fprintf(file, " (%" PRId64 " node%s of %s)", least->row.nodes, least->row.nodes > 1 ? "s" : "",
                offer_of(answer, &least->row)->name);
    }
    fputs(n > 0 ? "\n" : "", file);
}

/** Write what a larger global batch would give, if it trains faster. Each GPU then has more to do at a time. */
static void write_larger_batch(FILE *file, const struct answer *answer)
{
    const double limit = answer->question->limit[LIMIT_DAYS];
    char days[TEXT_AMOUNT_SIZE];
    for (int32_t i = 0; i < answer->changes.n; i++) {
        const struct change *change = &answer->changes.at[i];
        text_digits(change->row.days, days);
        if (strncmp(change->name, "global ", strlen("global ")) == 0 &&
            change->row.days < answer_subject(answer)->row.days)
            fprintf(file, ", or enlarge the batch (%s: %s days%s)", change->name, days,
                    change->row.days <= limit ? ", which keeps the limit" : "");
    }
}

/** Write which limits the fastest candidate misses, and what would keep them. */
static void write_misses(FILE *file, const struct answer *answer)
{
    const struct question *question = answer->question;
    const struct candidate *subject = answer_subject(answer);
    const struct trace_candidate *row = &subject->row;
    char amount[TEXT_AMOUNT_SIZE], days[TEXT_AMOUNT_SIZE];
    if (!candidate_keeps(question, subject, LIMIT_DAYS)) {
        text_digits(row->days, days);
        text_amount("", question->tokens * question->limit[LIMIT_DAYS] / row->days, amount);
        fprintf(file, "it needs %s days: allow these, or train %s tokens", days, amount);
        if (row->nodes == offer_of(answer, row)->to)
            fprintf(file, ", or offer more than %" PRId64 " nodes", row->nodes);
        else if (!isnan(question->limit[LIMIT_GPUS]))
            fputs(", or allow more GPUs", file);
        write_larger_batch(file, answer);
        fputc('\n', file);
    }
    bool others = false;
    for (enum capacity_limit i = LIMIT_USD; i < CAPACITY_N_LIMITS; i++)
        others = others || !candidate_keeps(question, subject, i);
    if (!candidate_keeps(question, subject, LIMIT_GPUS))
        fprintf(file, "it has %" PRId64 " GPUs with those of spare nodes\n", row->gpus);
    if (others)
        write_ways_out(file, answer);
}

/** Write "from p5..p95". */
static void write_interval(FILE *file, const char *from, const struct date_interval *interval)
{
    char p5[TEXT_AMOUNT_SIZE], p95[TEXT_AMOUNT_SIZE];
    text_digits(interval->p5, p5);
    text_digits(interval->p95, p95);
    fprintf(file, "%s %s..%s", from, p5, p95);
}

/** Write what makes the subject's date unsure. */
static void write_date(FILE *file, const struct answer *answer)
{
    const struct trace_candidate *row = &answer_subject(answer)->row;
    const struct finish_date *date = &answer->pick[PICK_SUBJECT].date;
    bool fails = offer_of(answer, row)->scenario.reliability.present;
    char label[TEXT_AMOUNT_SIZE];
    label_of_pick(answer, PICK_SUBJECT, label);
    if (date->n > 0) {
        fputs("its days, one cause alone:", file);
        write_interval(file, " model's error", &date->part[DATE_MODEL]);
        write_interval(file, ", batches", &date->part[DATE_BATCHES]);
        if (fails)
            write_interval(file, ", failures", &date->part[DATE_FAILURES]);
        fputc('\n', file);
    }
    fprintf(file, "%s: ", label);
    model_error_write(file, &date->model_error, row->tokens_per_s_per_gpu, row->tokens_per_s_per_gpu_interval);
    fputs(fails ? "\n" : "; no failures, since there is no `reliability:`\n", file);
}

static void write_goodput(FILE *file, const struct answer *answer)
{
    const struct trace_candidate *row = &answer_subject(answer)->row;
    const struct {
        const char *name;
        double share;
    } losses[] = {{"checkpoints", row->blocked_fraction},
                  {"lost work", row->lost_work_fraction},
                  {"restarts", row->restart_fraction},
                  {"no spare node", row->no_spares_fraction},
                  {"slow GPUs", row->slow_fraction}};
    char mttf[TEXT_AMOUNT_SIZE], interval[TEXT_AMOUNT_SIZE];
    int n = 0;
    if (isnan(row->mttf_s))
        return;
    text_digits(row->mttf_s / 3600, mttf);
    text_digits(row->checkpoint_interval_s / 60, interval);
    fprintf(file, "goodput %.1f%%", 100 * row->goodput);
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++)
        if (losses[i].share >= 0.0005)
            fprintf(file, "%s%s %.1f%%", n++ == 0 ? " (" : ", ", losses[i].name, 100 * losses[i].share);
    fprintf(file, "%s; a failure every %s h, checkpoints every %s min\n", n > 0 ? ")" : "", mttf, interval);
}

static int compare_changes(const void *a, const void *b)
{
    const struct change *const *first = a, *const *second = b;
    double x = (*first)->row.days, y = (*second)->row.days;
    x = isnan(x) ? INFINITY : x;
    y = isnan(y) ? INFINITY : y;
    return x != y ? (x > y) - (x < y) : (*first)->row.change - (*second)->row.change;
}

/**
 * Write the changes that relax something and make the training faster, or the other changes that make it slower or do
 * not fit. The largest effect comes first.
 */
static void write_changes(FILE *file, const struct answer *answer, bool faster, bool verbose)
{
    const struct change *order[CHANGES_MOST];
    int32_t n = answer->changes.n, n_shown = 0;
    const struct trace_candidate *now = &answer_subject(answer)->row;
    for (int32_t i = 0; i < n; i++)
        order[i] = &answer->changes.at[i];
    qsort(order, (size_t)n, sizeof *order, compare_changes);
    for (int32_t i = 0; i < n && (verbose || n_shown < (faster ? MOST_BINDING : MOST_RISKS)); i++) {
        const struct change *change = order[faster ? i : n - 1 - i];
        double part = change->row.days / now->days - 1, money = change->row.usd / now->usd - 1;
        if (change->relaxes != faster || (change->row.fits ? (part < 0) != faster || fabs(part) < 0.0005 : faster))
            continue;
        fprintf(file, "%s%s ",
                n_shown++ > 0 ? ", "
                : faster      ? "binds (days if relaxed): "
                              : "risks (days if worse): ",
                change->name);
        if (change->row.fits)
            fprintf(file, "%+.1f%%", 100 * part);
        else
            fputs("(does not fit)", file);
        if (fabs(money - part) >= 0.0005) /* false if money is unknown */
            fprintf(file, " (cost %+.1f%%)", 100 * money);
    }
    fputs(n_shown > 0 ? "\n" : "", file);
}

/** Write which changes for the worse, one at a time, would make the answer miss a limit of days or money, or not fit.
 */
static void write_broken_limits(FILE *file, const struct answer *answer)
{
    const double *limit = answer->question->limit;
    char label[TEXT_AMOUNT_SIZE], days[TEXT_AMOUNT_SIZE], cost[TEXT_AMOUNT_SIZE];
    int n = 0;
    for (int32_t i = 0; i < answer->changes.n; i++) {
        const struct change *change = &answer->changes.at[i];
        bool late = change->row.days > limit[LIMIT_DAYS], dear = change->row.usd > limit[LIMIT_USD];
        if (change->relaxes || (change->row.fits && !late && !dear)) /* NaN: there is no limit */
            continue;
        text_digits(change->row.days, days);
        text_amount("$", change->row.usd, cost);
        if (n++ == 0)
            fprintf(file, "the %s would miss a limit with ", label_of_pick(answer, PICK_SUBJECT, label));
        fprintf(file, "%s%s ", n > 1 ? ", " : "", change->name);
        if (!change->row.fits)
            fputs("(does not fit)", file);
        else if (isnan(change->row.usd))
            fprintf(file, "(%s days)", days);
        else
            fprintf(file, "(%s days, %s)", days, cost);
    }
    fputs(n > 0 ? "\n" : "", file);
}

/** Write up to which size of the subject's offer and system more nodes help. */
static void write_knee(FILE *file, const struct answer *answer)
{
    const struct trace_candidate *row = &answer_subject(answer)->row;
    for (int32_t i = 0; i < answer->search.candidates.n; i++) {
        const struct trace_candidate *other = &answer->search.candidates.at[i].row;
        if (other->knee && other->offer == row->offer && other->system == row->system)
            fprintf(file,
                    "more nodes: up to %" PRId64 ", each added one trains at least half as fast as one of the first\n",
                    other->nodes);
    }
}

/** Write what of the answer lies outside the measured runs. */
static void write_outside(FILE *file, const struct answer *answer)
{
    for (int32_t i = 0; i < answer->n_outside; i++)
        fprintf(file, "%s%s", i == 0 ? "outside the measured runs: " : ", ", answer->outside[i]);
    fputs(answer->n_outside > 0 ? "\n" : "", file);
}

/** Write how the numbers came about and what to be careful about. */
static void write_basis(FILE *file, const struct answer *answer)
{
    const struct trace_candidate *row = &answer_subject(answer)->row;
    const struct price *price = &offer_of(answer, row)->scenario.price;
    double delay = answer_subject(answer)->token_delay;
    int32_t n_left_out = 0;
    for (int32_t i = 0; i < answer->search.n; i++)
        n_left_out += answer->search.sizes[i].results == NULL;
    fprintf(file, "%d sizes on the critical path", answer->search.n - n_left_out);
    if (!isnan(answer_subject(answer)->contention))
        fprintf(file, "; SimGrid takes %+.1f%% for the answer", 100 * answer_subject(answer)->contention);
    if (n_left_out > 0)
        fprintf(file, "; %d cannot keep a limit", n_left_out);
    if (delay > 0.005)
        fprintf(file, "; tokens wait %.2f iterations, so tokens/s are those of other samples", delay);
    if (!candidates_have_money(&answer->search.candidates))
        fputs("; GPU-hours stand for cost, since the money of an offer is unknown", file);
    else if (isnan(price->usd_per_gpu_hour) && isnan(price->usd_per_kwh))
        fputs("; its money is without energy, since its price has no usd_per_kwh", file);
    fputc('\n', file);
}

/** Write which keys have no effect. */
static void write_notes(FILE *file, const struct answer *answer)
{
    char lines[NOTES_MOST][ASSUMPTIONS_SIZE];
    int32_t n = notes_of(answer->question, lines);
    for (int32_t i = 0; i < n; i++)
        fprintf(file, "%s\n", lines[i]);
}

/** Write both ends of a rate for each offer whose attention curve is scaled: of the answer, or of its last size. */
static void write_scaled_attention(FILE *file, const struct answer *answer)
{
    const struct candidates *candidates = &answer->search.candidates;
    const struct candidate *subject = answer_subject(answer);
    char line[ASSUMPTIONS_SIZE], label[TEXT_AMOUNT_SIZE];
    for (int32_t offer = 0; offer < answer->question->n_offers; offer++) {
        const struct candidate *shown = subject != NULL && subject->row.offer == offer ? subject : NULL;
        for (int32_t i = candidates->n - 1; i >= 0 && shown == NULL; i--)
            if (candidates->at[i].row.offer == offer && candidates->at[i].row.fits)
                shown = &candidates->at[i];
        if (shown == NULL)
            continue;
        const char *name = answer->question->n_offers > 1 ? answer->question->offers[offer].name : "";
        snprintf(label, sizeof label, "%.24s%s%" PRId64 " node%s", name, *name != '\0' ? ", " : "", shown->row.nodes,
                 shown->row.nodes > 1 ? "s" : "");
        const struct trace_summary ends = {.tokens_per_s_per_gpu = shown->row.tokens_per_s_per_gpu,
                                           .tokens_per_s_per_gpu_flash2 = shown->flash2};
        if (assumptions_scaled_attention(&answer->question->offers[offer].scenario, label, &ends, line))
            fprintf(file, "%s\n", line);
    }
}

/** Return whether a candidate is in the table without -v: the fastest system of each size, and the answer. If no system
 * trains on a size it is the first one. */
static bool is_shown(const struct candidates *candidates, const struct candidate *candidate)
{
    const struct trace_candidate *row = &candidate->row;
    bool shown = true;
    for (int32_t i = 0; i < candidates->n; i++) {
        const struct trace_candidate *other = &candidates->at[i].row;
        bool before = row->fits ? other->days < row->days : other->fits || other->system < row->system;
        shown = shown && !(other->offer == row->offer && other->nodes == row->nodes && before);
    }
    return shown || row->chosen;
}

static void add_row(struct text_table *table, const struct answer *answer, const struct candidate *candidate,
                    bool in_money)
{
    const struct trace_candidate *row = &candidate->row;
    char cost[TEXT_AMOUNT_SIZE], days[TEXT_AMOUNT_SIZE], mwh[TEXT_AMOUNT_SIZE], mark[4];
    text_amount(in_money ? "$" : "", candidate_cost(candidate, in_money), cost);
    text_digits(row->days, days);
    text_digits(row->mwh, mwh);
    snprintf(mark, sizeof mark, "%s%s", row->chosen ? ">" : row->meets ? "+" : "", row->frontier ? "f" : "");
    text_table_cell(table, "%s", mark);
    text_table_cell(table, "%s", offer_of(answer, row)->name);
    text_table_cell(table, "%" PRId64, row->nodes);
    text_table_cell(table, "%s", label_of(answer, row));
    text_table_cell(table, row->fits ? "%s" : "-", days);
    text_table_cell(table, "%s", cost);
    text_table_cell(table, isnan(row->mwh) ? "-" : "%s", mwh);
    text_table_cell(table, row->fits ? "%.0f%%" : "-", 100 * row->goodput);
    text_table_cell(table, row->fits ? "%.0f" : "-", row->tokens_per_s_per_gpu);
    text_table_cell(table, "%s",
                    candidate->refusal != NULL ? candidate->refusal
                    : row->fits                ? row->plan_text
                    : row->tight               ? "fits only tightly"
                                               : "does not fit in memory");
    text_table_colour(table, table->n_columns,
                      row->chosen               ? COLOUR_FIRST
                      : row->fits || row->tight ? COLOUR_NONE
                                                : COLOUR_MISFIT);
}

static void print_table(const struct answer *answer, bool verbose)
{
    const struct candidates *candidates = &answer->search.candidates;
    bool in_money = candidates_have_money(candidates);
    struct text_table table = {0};
    int32_t n_hidden = 0;
    text_table_columns(&table, "<;offer?;nodes?;system?;days?");
    text_table_column(&table, in_money ? "cost" : "GPU-hours", "?");
    text_table_columns(&table, "MWh?;goodput?;tokens/s/GPU?;plan?");
    for (int32_t i = 0; i < candidates->n; i++) {
        if (verbose || is_shown(candidates, &candidates->at[i]))
            add_row(&table, answer, &candidates->at[i], in_money);
        else
            n_hidden++;
    }
    text_table_print(&table, stdout, 0);
    printf("> the answer, + keeps all limits, f on the frontier of days, cost and energy; %s include spare nodes\n",
           in_money ? "costs" : "GPU-hours");
    if (n_hidden > 0)
        printf("the fastest system of each size; -v shows %d more rows\n", n_hidden);
}

char *capacity_verdict(const struct answer *answer, bool verbose)
{
    char *text = NULL;
    size_t n_bytes;
    FILE *file = check_memstream(&text, &n_bytes);
    write_question(file, answer);
    write_assumed(file, answer);
    write_scaled_attention(file, answer);
    if (answer_subject(answer) != NULL) {
        write_picks(file, answer, verbose);
        write_chance(file, answer);
        if (answer->chosen < 0)
            write_misses(file, answer);
        else
            write_broken_limits(file, answer);
        write_plans(file, answer);
        write_phases(file, answer);
        if (answer->chosen >= 0)
            write_ties(file, answer);
        write_amounts(file, answer);
        write_date(file, answer);
        write_outside(file, answer);
        write_goodput(file, answer);
        write_changes(file, answer, true, verbose);
        write_changes(file, answer, false, verbose);
        write_knee(file, answer);
        write_basis(file, answer);
    } else {
        fputs("no size of any offer trains; the table says why\n", file);
    }
    write_notes(file, answer);
    CHECK(fclose(file) == 0);
    return text;
}

void capacity_print(const struct answer *answer, bool verbose)
{
    const struct question *question = answer->question;
    int32_t lines = CAPACITY_LINES + (question->n_offers - 1) * OFFER_LINES + (question->assumed ? ASSUMED_LINES : 0) +
                    (question->n_phases > 1 ? 1 + PHASE_LINES * question->n_phases : 0);
    struct text_limits limits = {CAPACITY_COLUMNS, 4, verbose ? ALL_LINES : lines, NULL};
    char *text = capacity_verdict(answer, verbose);
    text_print_wrapped(text, &limits);
    putchar('\n');
    print_table(answer, verbose);
    free(text);
}

/** Return what each phase of a candidate takes. */
static json_t *json_of_phases(const struct question *question, const struct candidate *candidate)
{
    json_t *phases = json_array();
    for (int32_t i = 0; i < question->n_phases; i++) {
        const struct trace_candidate row = candidate_phase_row(question, candidate, i);
        const struct phase *phase = &question->phase[i];
        json_array_append_new(phases, json_pack("{s:f, s:I, s:s, s:f, s:f, s:o, s:o, s:s}", "tokens", phase->tokens,
                                                "context", (json_int_t)phase->data.context, "lengths",
                                                phase->data.lengths, "tokens_per_s_per_gpu", row.tokens_per_s_per_gpu,
                                                "days", row.days, "usd", json_of_number(row.usd), "mwh",
                                                json_of_number(row.mwh), "plan_text", row.plan_text));
    }
    return phases;
}

static json_t *json_of_candidate(const struct answer *answer, const struct candidate *candidate)
{
    json_t *object = json_of_row(TRACE_CANDIDATES, &candidate->row, answer_name, answer);
    if (candidate->refusal != NULL)
        json_object_set_new(object, "refused", json_string(candidate->refusal));
    if (candidate->row.fits && answer->question->n_phases > 1)
        json_object_set_new(object, "phases", json_of_phases(answer->question, candidate));
    return object;
}

static json_t *json_of_interval(const struct date_interval *interval)
{
    return json_pack("{s:o, s:o, s:o}", "p5", json_of_number(interval->p5), "p50", json_of_number(interval->p50), "p95",
                     json_of_number(interval->p95));
}

static json_t *json_of_date(const struct answer *answer, const struct finish_date *date)
{
    json_t *causes = json_object();
    for (int i = 0; i < FAILURE_N_CAUSES; i++)
        if (date->mean.failures[i] > 0)
            json_object_set_new(causes, failure_cause_name[i], json_real(date->mean.failures[i]));
    return json_pack("{s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "draws", date->n, "days",
                     json_of_interval(&date->all), "batches", json_of_interval(&date->part[DATE_BATCHES]), "failures",
                     json_of_interval(&date->part[DATE_FAILURES]), "model", json_of_interval(&date->part[DATE_MODEL]),
                     "late", json_of_number(question_is_limited(answer->question) ? date->missed : NAN), "model_error",
                     model_error_json(&date->model_error), "mean_failures", causes, "mean_without_spares_s",
                     json_of_number(date->mean.without_spares_s));
}

/** Return a candidate, what its cost may become, and its dates; null: there is none. */
static json_t *json_of_pick(const struct answer *answer, const struct pick *pick)
{
    if (pick->index < 0)
        return json_null();
    json_t *object = json_of_candidate(answer, &pick->candidate);
    double usd_a_day = pick->candidate.row.usd / pick->candidate.row.days;
    struct date_interval usd = {usd_a_day * pick->date.all.p5, usd_a_day * pick->date.all.p50,
                                usd_a_day * pick->date.all.p95};
    json_object_set_new(object, "usd_interval", json_of_interval(&usd));
    json_object_set_new(object, "date", json_of_date(answer, &pick->date));
    return object;
}

/** Return the best size of each offer but the answer's. */
static json_t *json_of_others(const struct answer *answer)
{
    json_t *others = json_array();
    for (int32_t i = 0; answer->other != NULL && i < answer->question->n_offers; i++)
        if (answer->other[i].index >= 0)
            json_array_append_new(others, json_of_pick(answer, &answer->other[i]));
    return others;
}

static json_t *json_of_notes(const struct answer *answer)
{
    char lines[NOTES_MOST][ASSUMPTIONS_SIZE];
    json_t *notes = json_array();
    int32_t n = notes_of(answer->question, lines);
    for (int32_t i = 0; i < n; i++)
        json_array_append_new(notes, json_string(lines[i]));
    return notes;
}

/** Return the lines of write_assumed without their first word. */
static json_t *json_of_assumed(const struct answer *answer)
{
    json_t *lines = json_array();
    char *text = NULL, *rest = NULL;
    size_t n_bytes;
    FILE *file = check_memstream(&text, &n_bytes);
    write_assumed(file, answer);
    CHECK(fclose(file) == 0);
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
        json_array_append_new(lines, json_string(line + strlen("assumed: ")));
    free(text);
    return lines;
}

void capacity_print_json(const struct answer *answer)
{
    json_t *candidates = json_array(), *left_out = json_array(), *changes = json_array(), *outside = json_array();
    for (int32_t i = 0; i < answer->search.candidates.n; i++)
        json_array_append_new(candidates, json_of_candidate(answer, &answer->search.candidates.at[i]));
    for (int32_t i = 0; i < answer->search.n; i++)
        if (answer->search.sizes[i].results == NULL)
            json_array_append_new(left_out, json_pack("{s:s, s:I}", "offer",
                                                      answer->question->offers[answer->search.sizes[i].offer].name,
                                                      "nodes", (json_int_t)answer->search.sizes[i].nodes));
    for (int32_t i = 0; i < answer->changes.n; i++) {
        json_t *change = json_of_row(TRACE_CHANGES, &answer->changes.at[i].row, NULL, NULL);
        json_object_set_new(change, "change", json_string(answer->changes.at[i].name));
        json_array_append_new(changes, change);
    }
    for (int32_t i = 0; i < answer->n_outside; i++)
        json_array_append_new(outside, json_string(answer->outside[i]));
    const struct candidate *subject = answer_subject(answer);
    command_print_json(json_pack("{s:s, s:f, s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "name",
                                 answer->question->offers[0].scenario.name, "tokens", answer->question->tokens,
                                 "assumed", json_of_assumed(answer), "met", answer->chosen >= 0, "answer",
                                 subject != NULL ? json_of_candidate(answer, subject) : json_null(), "contention",
                                 json_of_number(subject != NULL ? subject->contention : NAN), "date",
                                 subject != NULL ? json_of_date(answer, &answer->pick[PICK_SUBJECT].date) : json_null(),
                                 "fewest", json_of_pick(answer, &answer->pick[PICK_FEWEST]), "safe",
                                 json_of_pick(answer, &answer->pick[PICK_SAFE]), "other_offers", json_of_others(answer),
                                 "changes", changes, "outside", outside, "notes", json_of_notes(answer), "candidates",
                                 candidates, "left_out", left_out));
}
