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

enum { MOST_BINDING = 3, MOST_RISKS = 4, AMOUNT_BYTES = 48, ALL_LINES = 1000 };

/** Return the decimals that give a number three digits. */
static int decimals_of(double value)
{
    return fabs(value) < 9.995 ? 2 : fabs(value) < 99.95 ? 1 : 0;
}

/** Write a number in at least three digits. */
static void digits_of(double value, char text[AMOUNT_BYTES])
{
    if (isinf(value))
        snprintf(text, AMOUNT_BYTES, "never");
    else
        snprintf(text, AMOUNT_BYTES, "%.*f", decimals_of(value), value);
}

/** Write an amount in three digits: "$1.93M", "812k". */
static void write_amount(FILE *file, const char *sign, double amount)
{
    static const struct {
        double size;
        const char *letter;
    } units[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {0, ""}};
    int i = 0;
    while (fabs(amount) < 0.9995 * units[i].size)
        i++;
    double value = units[i].size > 0 ? amount / units[i].size : amount;
    fprintf(file, "%s%s%.*f%s", value < 0 ? "-" : "", sign, decimals_of(value), fabs(value), units[i].letter);
}

static void amount_of(const char *sign, double amount, char text[AMOUNT_BYTES])
{
    FILE *file = fmemopen(text, AMOUNT_BYTES, "w");
    CHECK(file != NULL);
    if (isnan(amount))
        fputs("-", file);
    else
        write_amount(file, sign, amount);
    CHECK(fclose(file) == 0);
}

static const char *label_of(const struct answer *answer, const struct trace_candidate *row)
{
    return answer->question->offers[0].scenario.systems[row->system].label;
}

static const struct offer *offer_of(const struct answer *answer, const struct trace_candidate *row)
{
    return &answer->question->offers[row->offer];
}

/** Write what was asked. */
static void write_question(FILE *file, const struct answer *answer)
{
    const struct question *question = answer->question;
    const struct scenario *scenario = &question->offers[0].scenario;
    char tokens[AMOUNT_BYTES], context[TEXT_NUMBER_SIZE], amount[AMOUNT_BYTES];
    const double *limit = question->limit;
    amount_of("", question->tokens, tokens);
    text_number((double)scenario->data.context, 0, context);
    fprintf(file, "%s: train %s on %s tokens of %s up to %s", scenario->name, scenario->model.name, tokens,
            scenario->data.lengths, context);
    if (!isnan(limit[LIMIT_DAYS]))
        fprintf(file, ", in %g days", limit[LIMIT_DAYS]);
    amount_of("$", limit[LIMIT_USD], amount);
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

/** Write days, money, energy of a candidate. */
static void write_costs(FILE *file, const struct trace_candidate *row)
{
    char usd[AMOUNT_BYTES], hours[AMOUNT_BYTES], trillion[AMOUNT_BYTES], days[AMOUNT_BYTES], mwh[AMOUNT_BYTES];
    char co2[AMOUNT_BYTES];
    digits_of(row->days, days);
    digits_of(row->mwh, mwh);
    digits_of(row->co2_t, co2);
    amount_of("$", row->usd, usd);
    amount_of("$", row->usd_per_1t_tokens, trillion);
    amount_of("", row->gpu_hours, hours);
    fprintf(file, "%s days", days);
    if (!isnan(row->usd))
        fprintf(file, ", %s (%s a trillion tokens)", usd, trillion);
    fprintf(file, ", %s GPU-hours", hours);
    if (!isnan(row->mwh))
        fprintf(file, ", %s MWh", mwh);
    if (!isnan(row->co2_t))
        fprintf(file, ", %s t CO2", co2);
}

/** Write the days of the other systems on the same nodes. */
static void write_others(FILE *file, const struct answer *answer)
{
    const struct trace_candidate *row = &answer_subject(answer)->row;
    char days[AMOUNT_BYTES];
    for (int32_t i = 0; i < answer->search.candidates.n; i++) {
        const struct trace_candidate *other = &answer->search.candidates.at[i].row;
        digits_of(other->days, days);
        if (other->offer == row->offer && other->nodes == row->nodes && other->system != row->system && other->fits)
            fprintf(file, "; %s %s days", label_of(answer, other), days);
    }
    fputc('\n', file);
}

static void write_choice(FILE *file, const struct answer *answer)
{
    const struct trace_candidate *row = &answer_subject(answer)->row;
    char gpus[TEXT_NUMBER_SIZE];
    text_number((double)offer_gpus(offer_of(answer, row), row->nodes), 0, gpus);
    if (answer->chosen < 0)
        fputs("nothing keeps all limits; the fastest is ", file);
    fprintf(file, "%s%" PRId64 " node%s of %s (%s GPUs", answer->chosen >= 0 ? "buy " : "", row->nodes,
            row->nodes > 1 ? "s" : "", offer_of(answer, row)->name, gpus);
    if (row->spare_nodes > 0)
        fprintf(file, ", %" PRId64 " spare node%s beside them", row->spare_nodes, row->spare_nodes > 1 ? "s" : "");
    fprintf(file, "), %s with %s\n  ", label_of(answer, row), row->plan_text);
    write_costs(file, row);
    fputs(row->tight ? ", fits only tightly" : ", fits surely", file);
    write_others(file, answer);
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
        char slow[AMOUNT_BYTES], fast[AMOUNT_BYTES];
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
        digits_of(fewest->days, slow);
        digits_of(most->days, fast);
        if (!any)
            fprintf(file, "costs about the same (within %.1f%%, the error of batches): ", 100 * error);
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
    char text[AMOUNT_BYTES];
    if (limit == LIMIT_USD)
        amount_of("$", ceil(amount / step) * step, text);
    else if (limit == LIMIT_GPUS)
        snprintf(text, sizeof text, "%.0f", amount);
    else
        digits_of(ceil(amount / step) * step, text);
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

/** Write which limits the fastest candidate misses, and what would keep them. */
static void write_misses(FILE *file, const struct answer *answer)
{
    const struct question *question = answer->question;
    const struct candidate *subject = answer_subject(answer);
    const struct trace_candidate *row = &subject->row;
    char amount[AMOUNT_BYTES], days[AMOUNT_BYTES];
    if (!candidate_keeps(question, subject, LIMIT_DAYS)) {
        digits_of(row->days, days);
        amount_of("", question->tokens * question->limit[LIMIT_DAYS] / row->days, amount);
        fprintf(file, "it needs %s days: allow these, or train %s tokens", days, amount);
        if (row->nodes == offer_of(answer, row)->to)
            fprintf(file, ", or offer more than %" PRId64 " nodes", row->nodes);
        else if (!isnan(question->limit[LIMIT_GPUS]))
            fputs(", or allow more GPUs", file);
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

/** Write "from p5 to p95". */
static void write_interval(FILE *file, const char *from, const struct date_interval *interval)
{
    char p5[AMOUNT_BYTES], p95[AMOUNT_BYTES];
    digits_of(interval->p5, p5);
    digits_of(interval->p95, p95);
    fprintf(file, "%s %s to %s", from, p5, p95);
}

static void write_date(FILE *file, const struct answer *answer)
{
    const struct finish_date *date = &answer->date;
    const struct date_interval *part = date->part;
    struct model_interval rates =
        model_error_interval(&date->model_error, answer_subject(answer)->row.tokens_per_s_per_gpu);
    bool fails = offer_of(answer, &answer_subject(answer)->row)->scenario.reliability.present;
    write_interval(file, "date:", &date->all);
    fprintf(file, " days (p5 to p95 of %d draws)", date->n);
    if (!isnan(date->late))
        fprintf(file, "; %.0f%% of them miss the deadline", 100 * date->late);
    write_interval(file, "\n  alone: the model's error", &part[DATE_MODEL]);
    if (isnan(answer_subject(answer)->row.tokens_per_s_per_gpu_interval))
        fputs(", batches unknown from one iteration", file);
    else
        write_interval(file, ", batches", &part[DATE_BATCHES]);
    if (fails)
        write_interval(file, ", failures", &part[DATE_FAILURES]);
    fputs(fails ? "\n" : "; no failures, since there is no `reliability:`\n", file);
    fprintf(file, "  the model's error: %+.1f%% +- %.1f%%, %s; ", 100 * date->model_error.bias,
            100 * date->model_error.deviation, date->model_error.basis);
    model_interval_write(file, &rates);
    fputs(" tokens/s/GPU\n", file);
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
    char mttf[AMOUNT_BYTES], interval[AMOUNT_BYTES];
    int n = 0;
    if (isnan(row->mttf_s))
        return;
    digits_of(row->mttf_s / 3600, mttf);
    digits_of(row->checkpoint_interval_s / 60, interval);
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

/** Write up to where nodes help, and what the last ones add, from the next smaller size of offer and system. */
static void write_knee(FILE *file, const struct answer *answer)
{
    const struct trace_candidate *row = &answer_subject(answer)->row;
    char rate[AMOUNT_BYTES], usd[AMOUNT_BYTES];
    int64_t smaller = 0;
    amount_of("", row->added_tokens_per_s, rate);
    amount_of("$", row->added_usd, usd);
    for (int32_t i = 0; i < answer->search.candidates.n; i++) {
        const struct trace_candidate *other = &answer->search.candidates.at[i].row;
        if (!other->fits || other->offer != row->offer || other->system != row->system)
            continue;
        smaller = other->nodes < row->nodes && other->nodes > smaller ? other->nodes : smaller;
        if (other->knee)
            fprintf(file, "nodes: up to %" PRId64 " each adds at least half a first one's tokens/s", other->nodes);
    }
    if (!isnan(row->added_tokens_per_s))
        fprintf(file, "; %" PRId64 " to %" PRId64 " %s%s", smaller, row->nodes, row->added_tokens_per_s < 0 ? "" : "+",
                rate);
    if (!isnan(row->added_usd))
        fprintf(file, ", %s", usd);
    fputs(isnan(row->added_tokens_per_s) ? "\n" : " each\n", file);
}

/** Write how the numbers came about and what to be careful about. */
static void write_basis(FILE *file, const struct answer *answer)
{
    const struct trace_candidate *row = &answer_subject(answer)->row;
    const struct price *price = &offer_of(answer, row)->scenario.price;
    double delay = answer_subject(answer)->point->summary[row->system].token_delay;
    int32_t n_left_out = 0;
    for (int32_t i = 0; i < answer->search.n; i++)
        n_left_out += answer->search.sizes[i].result == NULL;
    fprintf(file, "%d sizes on the critical path", answer->search.n - n_left_out);
    if (!isnan(answer->contention))
        fprintf(file, "; SimGrid takes %+.1f%% for the answer", 100 * answer->contention);
    if (n_left_out > 0)
        fprintf(file, "; %d cannot keep a limit", n_left_out);
    if (delay > 0.005)
        fprintf(file, "; tokens wait %.2f iterations, so tokens/s are those of other samples", delay);
    if (!candidates_have_money(&answer->search.candidates))
        fputs("; GPU-hours stand for cost, since the money of an offer is unknown", file);
    else if (isnan(price->usd_per_gpu_hour) && isnan(price->usd_per_kwh))
        fputs("; its money is without energy, since its price has no usd_per_kwh", file);
    fputc('\n', file);
    if (answer->n_outside == 0)
        return;
    fputs("outside the measured runs: ", file);
    for (int32_t i = 0; i < answer->n_outside; i++)
        fprintf(file, "%s%s", i > 0 ? ", " : "", answer->outside[i]);
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
    const struct candidate *shown;
    char line[ASSUMPTIONS_SIZE], label[CAPACITY_COLUMNS];
    for (int32_t offer = 0; offer < answer->question->n_offers; offer++) {
        shown = answer_subject(answer);
        for (int32_t i = 0; i < candidates->n && (shown == NULL || shown->row.offer != offer); i++)
            if (candidates->at[i].row.offer == offer && candidates->at[i].row.fits &&
                (i + 1 == candidates->n || candidates->at[i + 1].row.offer != offer))
                shown = &candidates->at[i];
        if (shown == NULL || shown->row.offer != offer)
            continue;
        snprintf(label, sizeof label, "%" PRId64 " node%s", shown->row.nodes, shown->row.nodes > 1 ? "s" : "");
        if (assumptions_scaled_attention(&answer->question->offers[offer].scenario, label,
                                         &shown->point->summary[shown->row.system], line))
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
    char cost[AMOUNT_BYTES], days[AMOUNT_BYTES], mwh[AMOUNT_BYTES], mark[4];
    amount_of(in_money ? "$" : "", candidate_cost(candidate, in_money), cost);
    digits_of(row->days, days);
    digits_of(row->mwh, mwh);
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
    puts("> the answer, + keeps all limits, f on the frontier of days, cost and energy");
    if (n_hidden > 0)
        printf("the fastest system of each size; -v shows %d more rows\n", n_hidden);
}

char *capacity_verdict(const struct answer *answer, bool verbose)
{
    char *text = NULL;
    size_t n_bytes;
    FILE *file = check_memstream(&text, &n_bytes);
    write_question(file, answer);
    write_scaled_attention(file, answer);
    if (answer->subject >= 0) {
        write_choice(file, answer);
        if (answer->chosen < 0)
            write_misses(file, answer);
        else
            write_ties(file, answer);
        write_date(file, answer);
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
    struct text_limits limits = {CAPACITY_COLUMNS, 2, verbose ? ALL_LINES : CAPACITY_LINES};
    char *text = capacity_verdict(answer, verbose);
    text_print_wrapped(text, &limits);
    putchar('\n');
    print_table(answer, verbose);
    free(text);
}

static json_t *json_of_candidate(const struct answer *answer, const struct candidate *candidate)
{
    json_t *object = json_of_row(TRACE_CANDIDATES, &candidate->row, answer_name, answer);
    if (candidate->refusal != NULL)
        json_object_set_new(object, "refused", json_string(candidate->refusal));
    return object;
}

static json_t *json_of_interval(const struct date_interval *interval)
{
    return json_pack("{s:o, s:o, s:o}", "p5", json_of_number(interval->p5), "p50", json_of_number(interval->p50), "p95",
                     json_of_number(interval->p95));
}

static json_t *json_of_date(const struct answer *answer)
{
    const struct finish_date *date = &answer->date;
    json_t *causes = json_object();
    for (int i = 0; i < FAILURE_N_CAUSES; i++)
        if (date->mean.failures[i] > 0)
            json_object_set_new(causes, failure_cause_name[i], json_real(date->mean.failures[i]));
    return json_pack("{s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "draws", date->n, "days",
                     json_of_interval(&date->all), "batches", json_of_interval(&date->part[DATE_BATCHES]), "failures",
                     json_of_interval(&date->part[DATE_FAILURES]), "model", json_of_interval(&date->part[DATE_MODEL]),
                     "late", json_of_number(date->late), "model_error", model_error_json(&date->model_error),
                     "mean_failures", causes, "mean_without_spares_s", json_of_number(date->mean.without_spares_s));
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

void capacity_print_json(const struct answer *answer)
{
    json_t *candidates = json_array(), *left_out = json_array(), *changes = json_array(), *outside = json_array();
    for (int32_t i = 0; i < answer->search.candidates.n; i++)
        json_array_append_new(candidates, json_of_candidate(answer, &answer->search.candidates.at[i]));
    for (int32_t i = 0; i < answer->search.n; i++)
        if (answer->search.sizes[i].result == NULL)
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
    command_print_json(json_pack(
        "{s:s, s:f, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "name", answer->question->offers[0].scenario.name,
        "tokens", answer->question->tokens, "met", answer->chosen >= 0, "answer",
        subject != NULL ? json_of_candidate(answer, subject) : json_null(), "contention",
        json_of_number(answer->contention), "date", subject != NULL ? json_of_date(answer) : json_null(), "changes",
        changes, "outside", outside, "notes", json_of_notes(answer), "candidates", candidates, "left_out", left_out));
}
