/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "capacity/answer_files.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "scenario/scenario_read.h"
#include "simulate/record.h"
#include "trace/csv.h"

static const char csv_begin[] = "offer,system,nodes,spare_nodes,";

static bool is_table(const char *path)
{
    return output_begins_with(path, csv_begin);
}

bool answer_may_be_written(const char *directory, const char *name, struct error *err)
{
    static const char other[] = "another folder (--output DIR) or name (--set name=NAME)";
    char *trace = check_asprintf("%s/%s.capacity.h5", directory, name);
    char *table = check_asprintf("%s/%s.capacity.csv", directory, name);
    bool ok = output_may_replace(trace, trace_is_at, "trace", other, err) &&
              output_may_replace(table, is_table, "table", other, err);
    free(trace);
    free(table);
    return ok;
}

const char *answer_name(const void *context, const struct trace_column *column, int64_t value)
{
    const struct question *question = ((const struct answer *)context)->question;
    if (strcmp(column->name, "offer") == 0)
        return question->offers[value].name;
    return strcmp(column->name, "system") == 0 ? question->offers[0].scenario.systems[value].label : NULL;
}

static void print_table(FILE *file, const struct answer *answer)
{
    const struct trace_table *table = &trace_tables[TRACE_CANDIDATES];
    csv_print_heads(table, file);
    fputs(",message\n", file);
    for (int32_t i = 0; i < answer->search.candidates.n; i++) {
        const struct candidate *candidate = &answer->search.candidates.at[i];
        csv_print_row(table, &candidate->row, answer_name, answer, file);
        fputc(',', file);
        csv_print_text(candidate->refusal != NULL ? candidate->refusal : "", file);
        fputc('\n', file);
    }
}

/** Write the names that tables refer to. */
static bool write_names(struct trace *trace, const struct answer *answer, struct error *err)
{
    const struct question *question = answer->question;
    const struct scenario *scenario = &question->offers[0].scenario;
    const char *change[CHANGES_MOST], **name = check_calloc((size_t)question->n_offers, sizeof *name);
    const char **label = check_calloc((size_t)scenario->n_systems, sizeof *label);
    for (int32_t i = 0; i < question->n_offers; i++)
        name[i] = question->offers[i].name;
    for (int32_t i = 0; i < scenario->n_systems; i++)
        label[i] = scenario->systems[i].label;
    for (int32_t i = 0; i < answer->changes.n; i++)
        change[i] = answer->changes.at[i].name;
    bool ok = trace_set_systems(trace, scenario->n_systems, label, err) &&
              trace_set_texts(trace, "offers", question->n_offers, name, err) &&
              (answer->changes.n == 0 || trace_set_texts(trace, "changes_names", answer->changes.n, change, err));
    free(name);
    free(label);
    return ok;
}

/** Return the power of a node in words, with its source. The caller frees. */
static char *power_text(const struct power *power)
{
    if (power->gpus == 0)
        return check_strdup("unknown");
    return check_asprintf("%s: a node of %" PRId64 " GPUs draws %g W idle, %g W waiting, %g W busy; %s", power->name,
                          power->gpus, power->node.idle_w, power->node.waiting_w, power->node.busy_w, power->source);
}

/** Write the resolved scenario of each offer, and the power of its nodes, which the scenario only names. */
static bool write_offers(struct trace *trace, const struct question *question, struct error *err)
{
    int32_t n = question->n_offers;
    char **scenario = check_calloc((size_t)n, sizeof *scenario), **power = check_calloc((size_t)n, sizeof *power);
    for (int32_t i = 0; i < n; i++) {
        scenario[i] = scenario_text(&question->offers[i].scenario);
        power[i] = power_text(&question->offers[i].scenario.power);
    }
    bool ok = trace_set_texts(trace, "offer_scenarios", n, (const char *const *)scenario, err) &&
              trace_set_texts(trace, "offer_power", n, (const char *const *)power, err);
    for (int32_t i = 0; i < n; i++) {
        free(scenario[i]);
        free(power[i]);
    }
    free(scenario);
    free(power);
    return ok;
}

/** Write the question and its answer in words as attributes. */
static bool write_attributes(struct trace *trace, const struct answer *answer, const char *verdict, struct error *err)
{
    const struct question *question = answer->question;
    char *text = document_text(&question->document, 0), tokens[32];
    snprintf(tokens, sizeof tokens, "%.17g", question->tokens);
    bool ok = record_versions(trace, err) && trace_set_text(trace, "question", text, err) &&
              trace_set_text(trace, "verdict", verdict, err) &&
              trace_set_text(trace, "name", question->offers[0].scenario.name, err) &&
              trace_set_text(trace, "tokens", tokens, err) &&
              (answer_subject(answer) == NULL ||
               trace_set_text(trace, "model_error", answer->pick[PICK_SUBJECT].date.model_error.basis, err));
    for (enum capacity_limit i = 0; i < CAPACITY_N_LIMITS && ok; i++) {
        char limit[32], name[32];
        snprintf(name, sizeof name, "limit_%s", capacity_limit_name[i]);
        snprintf(limit, sizeof limit, "%.17g", question->limit[i]);
        ok = isnan(question->limit[i]) || trace_set_text(trace, name, limit, err);
    }
    free(text);
    return ok;
}

static bool write_tables(struct trace *trace, const struct answer *answer, struct error *err)
{
    const struct finish_date *date = &answer->pick[PICK_SUBJECT].date;
    bool ok = trace_append(trace, TRACE_CANDIDATES, NULL, 0, err) && trace_append(trace, TRACE_CHANGES, NULL, 0, err) &&
              trace_append(trace, TRACE_DATES, date->draws, date->n, err);
    for (int32_t i = 0; i < answer->search.candidates.n && ok; i++)
        ok = trace_append(trace, TRACE_CANDIDATES, &answer->search.candidates.at[i].row, 1, err);
    for (int32_t i = 0; i < answer->changes.n && ok; i++)
        ok = trace_append(trace, TRACE_CHANGES, &answer->changes.at[i].row, 1, err);
    return ok;
}

bool answer_write(const struct answer *answer, const char *verdict, const char *directory, struct error *err)
{
    const char *scenario = answer->question->offers[0].scenario.name;
    char *name = check_asprintf("%s.capacity", scenario), *path = check_asprintf("%s/%s.csv", directory, name);
    struct output outputs[2] = {0};
    struct trace *trace = trace_create(directory, name, err);
    bool ok = trace != NULL && write_names(trace, answer, err) && write_offers(trace, answer->question, err) &&
              write_attributes(trace, answer, verdict, err) && write_tables(trace, answer, err);
    if (ok)
        ok = trace_end(trace, &outputs[0], err);
    else
        trace_abandon(trace);
    if (ok) {
        FILE *file = output_open(&outputs[1], path, err);
        ok = file != NULL;
        if (ok) {
            print_table(file, answer);
            ok = output_end(&outputs[1], file, true, err);
        }
    }
    ok = ok && output_commit(outputs, 2, err);
    output_abandon(&outputs[0]);
    output_abandon(&outputs[1]);
    free(path);
    free(name);
    return ok;
}
