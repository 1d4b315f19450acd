/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/validation_report.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "base/text_table.h"
#include "cli/command.h"
#include "trace/trace.h"
#include "validate/gains.h"
#include "validate/statistics.h"

_Static_assert(VALIDATE_N_QUANTITIES == 10, "names of quantities in trace/table.c");

/** These are the distinct texts of one kind, in the order of their first row. */
struct texts {
    int32_t n;
    const char **text;
    int32_t *index; /* of each row */
};

static const char *source_of(const struct validate_row *row)
{
    return row->source;
}

static const char *device_of(const struct validate_row *row)
{
    return row->device;
}

static const char *model_of(const struct validate_row *row)
{
    return row->model;
}

static const char *framework_of(const struct validate_row *row)
{
    return row->framework;
}

static const char *group_of(const struct validate_row *row)
{
    return row->group;
}

static const char *id_of(const struct validate_row *row)
{
    return row->id;
}

static struct texts texts_of(const struct validate *validate, const char *(*of)(const struct validate_row *))
{
    struct texts texts = {.text = check_malloc((size_t)validate->n_rows * sizeof(char *)),
                          .index = check_malloc((size_t)validate->n_rows * sizeof(int32_t))};
    for (int32_t i = 0; i < validate->n_rows; i++) {
        int32_t j = 0;
        while (j < texts.n && strcmp(texts.text[j], of(&validate->rows[i])) != 0)
            j++;
        if (j == texts.n)
            texts.text[texts.n++] = of(&validate->rows[i]);
        texts.index[i] = j;
    }
    return texts;
}

static void texts_free(struct texts *texts)
{
    free(texts->text);
    free(texts->index);
}

enum { N_EXPLAINED = 10 }; /* worst rows that show a cause */

/** Add the predicted use of the fullest GPU's memory, and what contradicts the real run, is assumed, or was fitted. */
static void add_memory(struct text_table *table, const struct validate_row *row)
{
    bool whole = row->memory_bytes > 0, exceeded_limit = whole && row->exceeded_limit != EXCEEDED_NONE;
    char *note =
        check_asprintf("%s%s%s%s%s%s", exceeded_limit ? "  DOES NOT FIT: " : "",
                       exceeded_limit ? trace_exceeded_limit_names.text[row->exceeded_limit] : "",
                       whole && row->ran_out && validate_misjudged(row) ? "  FITS, THOUGH IT RAN OUT OF MEMORY" : "",
                       row->calibration  ? "  calib"
                       : row->ratio_only ? "  only beside its pair"
                                         : "",
                       row->assumed[0] != '\0' ? "  assumed: " : "", row->assumed);
    if (whole)
        text_table_cell(table, "%.1f%%", 100 * row->peak_bytes / row->memory_bytes);
    else
        text_table_cell(table, "-");
    text_table_cell(table, "%s", note + strspn(note, " "));
    free(note);
}

static void add_values(struct text_table *table, const struct validate_row *row)
{
    bool throughput = row->quantity == VALIDATE_THROUGHPUT, time = row->quantity >= VALIDATE_LAYER_FORWARD;
    double scale = throughput ? 1 : time ? 1e3 : 1 / TEXT_GIB;
    int digits = throughput ? 1 : 3;
    if (row->quantity == VALIDATE_FITTED) {
        text_table_row(table, "%s\t%s\t%s", row->predicted > 0 ? "yes" : "no", row->measured > 0 ? "yes" : "no",
                       validate_misjudged(row) ? "wrong" : "-");
        return;
    }
    text_table_row(table, "%.*f\t%.*f\t%.1f%%", digits, row->predicted * scale, digits, row->measured * scale,
                   100 * row->error);
}

/* The columns that identify a row. */
#define ROW_COLUMNS "row<4;trust<;source<26.26;model<25.25;"

static const char *unit_of(enum validate_quantity quantity)
{
    if (quantity == VALIDATE_THROUGHPUT || quantity == VALIDATE_FITTED)
        return "";
    return quantity >= VALIDATE_LAYER_FORWARD ? " [ms]" : " [GiB]";
}

static void print_rows(const struct validate *validate, enum validate_quantity quantity)
{
    int32_t n;
    int32_t *rows = validate_worst_first(validate, quantity, &n);
    struct text_table table = {0};
    text_table_columns(&table, ROW_COLUMNS "GPUs>4;plan<50.50;predicted>12;measured>10;error>7;memory>7;<");
    for (int32_t i = 0; i < n; i++) {
        const struct validate_row *row = &validate->rows[rows[i]];
        text_table_row(&table, "%s\t%s\t%s\t%s\t%lld\t%s", row->id, row->trust, row->source, row->model,
                       (long long)row->n_gpus, row->plan);
        add_values(&table, row);
        add_memory(&table, row);
        if (i < N_EXPLAINED && row->cause[0] != '\0')
            text_table_line(&table, "      why: %s", row->cause);
    }
    if (n > 0) {
        printf("%s%s, worst first\n", trace_quantity_names.text[quantity], unit_of(quantity));
        text_table_print(&table, stdout, 0);
        putchar('\n');
    }
    text_table_free(&table);
    free(rows);
}

/** Print what pairs of runs gain, in the order of their rows. */
static void print_pairs(const struct validate *validate)
{
    int32_t n;
    struct validate_pair *pairs = validate_pairs_of(validate, &n);
    struct text_table table = {0};
    text_table_columns(&table, ROW_COLUMNS "over<;predicted>10;measured>10;points off>");
    for (int32_t i = 0; i < n; i++) {
        const struct validate_row *row = &validate->rows[pairs[i].row];
        text_table_row(&table, "%s\t%s\t%s\t%s\t%s\t%+.1f%%\t%+.1f%%\t%+.1f", row->id, row->trust, row->source,
                       row->model, row->pair, 100 * pairs[i].predicted, 100 * pairs[i].measured,
                       100 * (pairs[i].predicted - pairs[i].measured));
    }
    if (n > 0) {
        puts("gain over the partner");
        text_table_print(&table, stdout, 0);
        putchar('\n');
    }
    text_table_free(&table);
    free(pairs);
}

static void print_skipped(const struct validate *validate)
{
    int32_t n = 0;
    struct text_table table = {0};
    text_table_columns(&table, ROW_COLUMNS "reason<");
    for (int32_t i = 0; i < validate->n_rows; i++) {
        const struct validate_row *row = &validate->rows[i];
        if (row->reason[0] == '\0')
            continue;
        n++;
        text_table_row(&table, "%s\t%s\t%s\t%s\t%s", row->id, row->trust, row->source, row->model, row->reason);
    }
    printf("skipped: %d of %d rows\n", (int)n, (int)validate->n_rows);
    if (n > 0)
        text_table_print(&table, stdout, 0);
    text_table_free(&table);
    if (validate->unread[0] != '\0')
        printf("columns that are not read: %s\n", validate->unread);
    putchar('\n');
}

static void add_statistics(struct text_table *table, const struct validate *validate, const char *name,
                           struct validate_group group)
{
    struct validate_statistics statistics = validate_statistics_of(validate, group);
    if (statistics.n == 0 || group.quantity == VALIDATE_FITTED)
        return;
    bool order = group.quantity == VALIDATE_THROUGHPUT; /* memory has no families that could be ordered */
    char pairs[32] = "", spearman[32] = "";
    if (order && statistics.n_pairs > 0)
        snprintf(pairs, sizeof pairs, "%d/%d", (int)statistics.n_right, (int)statistics.n_pairs);
    if (order && statistics.n_families > 0)
        snprintf(spearman, sizeof spearman, "%.3f (%d)", statistics.spearman, (int)statistics.n_families);
    text_table_row(table, "%s\t%d\t%.1f%%\t%.1f%%\t%.1f%%\t%s\t%s\t%s", name, (int)statistics.n, 100 * statistics.mape,
                   100 * statistics.bias, 100 * statistics.max, validate->rows[statistics.worst].id, pairs, spearman);
}

/** Add one line for each text, for the rows of a kind. */
static void add_statistics_by(struct text_table *table, const struct validate *validate, const struct texts *texts,
                              bool by_device, enum validate_kind kind)
{
    for (int32_t i = 0; i < texts->n; i++) {
        struct validate_group group = {.quantity = VALIDATE_THROUGHPUT, .kind = kind};
        char name[96];
        *(by_device ? &group.device : &group.source) = texts->text[i];
        snprintf(name, sizeof name, "%s%s%s", validate_kind_names[kind], kind != VALIDATE_DENSE ? ", " : "",
                 texts->text[i]);
        add_statistics(table, validate, name, group);
    }
}

/** Add the lines of rows of another kind. With experts groups have those of real routing. */
static void add_kind(struct text_table *table, const struct validate *validate, const struct texts *sources,
                     const struct texts *devices, enum validate_kind kind)
{
    char name[64];
    add_statistics_by(table, validate, sources, false, kind);
    add_statistics_by(table, validate, devices, true, kind);
    snprintf(name, sizeof name, "%s: trust A and A-", validate_kind_names[kind]);
    add_statistics(table, validate, name, (struct validate_group){.kind = kind, .full_plan = true});
    snprintf(name, sizeof name, "%s: all", validate_kind_names[kind]);
    add_statistics(table, validate, name, (struct validate_group){.kind = kind});
}

/** Add one line for each group, and one for all of known settings. */
static void add_groups(struct text_table *table, const struct validate *validate, enum validate_quantity quantity)
{
    struct texts groups = texts_of(validate, group_of);
    for (int32_t i = 0; i < groups.n; i++)
        if (*groups.text[i] != '\0') {
            char memory[96];
            add_statistics(table, validate, groups.text[i],
                           (struct validate_group){.quantity = quantity, .group = groups.text[i]});
            snprintf(memory, sizeof memory, "memory: %s", groups.text[i]);
            if (quantity == VALIDATE_THROUGHPUT)
                add_statistics(table, validate, memory,
                               (struct validate_group){.quantity = VALIDATE_ALLOCATED, .group = groups.text[i]});
        }
    add_statistics(table, validate, "all groups, trust A and A-",
                   (struct validate_group){.quantity = quantity, .group = "", .full_plan = true});
    texts_free(&groups);
}

/** Runs whose outcomes are printed together. Rows of another kind stand together, with groups or without. */
enum part { PART_OWN, PART_GROUPS, PART_KINDS, N_PARTS = PART_KINDS + VALIDATE_N_KINDS - 1 };

/** Print rows of runs that ran out of memory, or that fitted, if the prediction differs. */
static void print_misjudged(const struct validate *validate, enum part part, bool ran_out)
{
    for (int32_t i = 0, shown = 0; i < validate->n_rows; i++) {
        const struct validate_row *row = &validate->rows[i];
        enum part own = row->kind != VALIDATE_DENSE ? PART_KINDS + row->kind - 1
                        : row->group[0] != '\0'     ? PART_GROUPS
                                                    : PART_OWN;
        if (!row->varies && row->ran_out == ran_out && own == part && validate_misjudged(row))
            printf("%s%s", shown++ == 0 ? ": " : " ", row->id);
    }
    putchar('\n');
}

/** Print how many simulated runs are wrongly predicted to fit or not. Rows with an open plan are left out. */
static void print_fits(const struct validate *validate, enum part part)
{
    static const char *const of[N_PARTS] = {"",
                                            " of groups",
                                            " with fp8",
                                            " with experts",
                                            " with experts in fp8",
                                            " on Blackwell",
                                            " with experts on Blackwell"};
    struct validate_outcomes outcomes = part >= PART_KINDS
                                            ? validate_outcomes_of_kind(validate, part - PART_KINDS + VALIDATE_FP8)
                                            : validate_outcomes_of(validate, part == PART_GROUPS ? "" : NULL);
    if (part != PART_OWN && outcomes.n == 0)
        return;
    printf("whether runs%s fit: %d of %d predicted right\n", of[part],
           (int)(outcomes.n - outcomes.n_false_alarm - outcomes.n_missed), (int)outcomes.n);
    printf("predicted not to fit, though they ran: %d of %d runs", (int)outcomes.n_false_alarm,
           (int)(outcomes.n - outcomes.n_ran_out));
    print_misjudged(validate, part, false);
    printf("predicted to fit, though they ran out of memory: %d of %d runs, %d of them tightly", (int)outcomes.n_missed,
           (int)outcomes.n_ran_out, (int)outcomes.n_missed_tight);
    print_misjudged(validate, part, true);
    printf("predicted to fit tightly, and they ran: %d of %d runs\n", (int)outcomes.n_tight,
           (int)(outcomes.n - outcomes.n_ran_out));
}

static void print_outcomes(const struct validate *validate)
{
    for (enum part part = PART_OWN; part < N_PARTS; part++)
        print_fits(validate, part);
    struct validate_full_runs full =
        validate_full_runs_of(validate, (struct validate_group){.quantity = VALIDATE_THROUGHPUT, .full_plan = true});
    printf("predicted to fit tightly, trust A and A-: %d runs, %d of them predicted more than %.0f%% too fast; of "
           "%d others %d\n",
           (int)full.n, (int)full.n_slow, 100 * validate->pressure.slower_least, (int)full.n_others,
           (int)full.n_slow_others);
}

static void print_summary(const struct validate *validate, const struct texts *sources, const struct texts *devices)
{
    struct text_table table = {0};
    text_table_columns(&table, "<46.46;rows>;MAPE>7;bias>7;max>7;of row<;pairs right>13;Spearman (families)<");
    for (enum validate_quantity q = 0; q < VALIDATE_N_QUANTITIES; q++) {
        char name[64];
        snprintf(name, sizeof name, "%s: all", trace_quantity_names.text[q]);
        if (q == VALIDATE_THROUGHPUT) {
            add_statistics_by(&table, validate, sources, false, VALIDATE_DENSE);
            add_statistics_by(&table, validate, devices, true, VALIDATE_DENSE);
            add_groups(&table, validate, q);
            for (enum validate_kind kind = VALIDATE_FP8; kind < VALIDATE_N_KINDS; kind++)
                add_kind(&table, validate, sources, devices, kind);
            add_statistics(&table, validate, "tokens/s/GPU: trust A and A-",
                           (struct validate_group){.quantity = q, .full_plan = true});
        }
        if (q == VALIDATE_SPAN)
            add_groups(&table, validate, q);
        add_statistics(&table, validate, name, (struct validate_group){.quantity = q});
        snprintf(name, sizeof name, "%s: calib rows, not counted", trace_quantity_names.text[q]);
        add_statistics(&table, validate, name, (struct validate_group){.quantity = q, .calibration = true});
    }
    puts("errors of rows that are not calib");
    text_table_print(&table, stdout, 0);
    struct validate_statistics reserved =
        validate_statistics_of(validate, (struct validate_group){.quantity = VALIDATE_RESERVED});
    if (reserved.n > 0)
        printf("max_memory_reserved not below the prediction: %d of %d rows\n", (int)reserved.n_below, (int)reserved.n);
    print_outcomes(validate);
}

void validation_print(const struct validate *validate)
{
    struct texts sources = texts_of(validate, source_of), devices = texts_of(validate, device_of);
    for (enum validate_quantity quantity = 0; quantity < VALIDATE_N_QUANTITIES; quantity++)
        print_rows(validate, quantity);
    print_pairs(validate);
    print_skipped(validate);
    print_summary(validate, &sources, &devices);
    putchar('\n');
    texts_free(&sources);
    texts_free(&devices);
}

static bool has_experts(const struct validate_row *row)
{
    return row->kind == VALIDATE_EXPERTS || row->kind == VALIDATE_EXPERTS_FP8 ||
           row->kind == VALIDATE_EXPERTS_BLACKWELL;
}

static bool has_fp8(const struct validate_row *row)
{
    return row->kind == VALIDATE_FP8 || row->kind == VALIDATE_EXPERTS_FP8;
}

static bool is_on_blackwell(const struct validate_row *row)
{
    return row->kind == VALIDATE_BLACKWELL || row->kind == VALIDATE_EXPERTS_BLACKWELL;
}

static json_t *row_json(const struct validate_row *row)
{
    json_t *json = json_pack("{s:s, s:s, s:s, s:s, s:I, s:s, s:s, s:b}", "row", row->id, "trust", row->trust, "source",
                             row->source, "model", row->model, "gpus", (json_int_t)row->n_gpus, "plan", row->plan,
                             "quantity", trace_quantity_names.text[row->quantity], "calib", (int)row->calibration);
    if (row->reason[0] != '\0') {
        json_object_set_new(json, "skipped", json_string(row->reason));
        return json;
    }
    json_object_set_new(json, "device", json_string(row->device));
    if (row->group[0] != '\0')
        json_object_set_new(json, "group", json_string(row->group));
    if (has_experts(row))
        json_object_set_new(json, "experts", json_true());
    if (has_fp8(row))
        json_object_set_new(json, "fp8", json_true());
    if (is_on_blackwell(row))
        json_object_set_new(json, "blackwell", json_true());
    json_object_set_new(json, "assumed", json_string(row->assumed));
    if (row->ratio_only)
        json_object_set_new(json, "only_beside_pair", json_true());
    if (row->cause[0] != '\0')
        json_object_set_new(json, "cause", json_string(row->cause));
    json_object_set_new(json, "measured", json_real(row->measured));
    json_object_set_new(json, "predicted", json_real(row->predicted));
    json_object_set_new(json, "error", json_real(row->error));
    if (row->memory_bytes > 0) {
        json_object_set_new(json, "fits", json_boolean(row->exceeded_limit == EXCEEDED_NONE));
        json_object_set_new(json, "tight", json_boolean(row->tight));
        json_object_set_new(json, "peak_bytes", json_real(row->peak_bytes));
        json_object_set_new(json, "memory_bytes", json_real(row->memory_bytes));
    }
    return json;
}

static void append_statistics(json_t *list, const struct validate *validate, struct validate_group group)
{
    struct validate_statistics statistics = validate_statistics_of(validate, group);
    if (statistics.n == 0 || group.quantity == VALIDATE_FITTED)
        return;
    json_t *json = json_pack(
        "{s:s, s:s, s:s, s:b, s:b, s:i, s:f, s:f, s:f, s:s, s:i, s:i, s:i}", "quantity",
        trace_quantity_names.text[group.quantity], "source", group.source != NULL ? group.source : "all", "device",
        group.device != NULL ? group.device : "all", "full_plan", (int)group.full_plan, "calib", (int)group.calibration,
        "rows", (int)statistics.n, "mape", statistics.mape, "bias", statistics.bias, "max", statistics.max, "max_row",
        validate->rows[statistics.worst].id, "pairs", (int)statistics.n_pairs, "pairs_right", (int)statistics.n_right,
        "predicted_below", (int)statistics.n_below);
    if (group.group != NULL)
        json_object_set_new(json, "group", json_string(group.group));
    if (statistics.n_families > 0) {
        json_object_set_new(json, "spearman", json_real(statistics.spearman));
        json_object_set_new(json, "families", json_integer(statistics.n_families));
    }
    json_array_append_new(list, json);
}

static json_t *pairs_json(const struct validate *validate)
{
    int32_t n;
    struct validate_pair *pairs = validate_pairs_of(validate, &n);
    json_t *list = json_array();
    for (int32_t i = 0; i < n; i++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:f, s:f}", "row", validate->rows[pairs[i].row].id, "over",
                                              validate->rows[pairs[i].partner].id, "measured_gain", pairs[i].measured,
                                              "predicted_gain", pairs[i].predicted));
    free(pairs);
    return list;
}

static json_t *outcomes_json(struct validate_outcomes outcomes)
{
    return json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "rows", (int)outcomes.n, "right",
                     (int)(outcomes.n - outcomes.n_false_alarm - outcomes.n_missed), "ran_out_of_memory",
                     (int)outcomes.n_ran_out, "fitted_predicted_not_to", (int)outcomes.n_false_alarm,
                     "ran_out_predicted_to_fit", (int)outcomes.n_missed, "ran_out_predicted_tight",
                     (int)outcomes.n_missed_tight, "fitted_predicted_tight", (int)outcomes.n_tight);
}

/** Return the statistics of throughput of rows of another kind that name no group. */
static json_t *kind_json(const struct validate *validate, const struct texts *sources, const struct texts *devices,
                         enum validate_kind kind)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < sources->n; i++)
        append_statistics(list, validate, (struct validate_group){.source = sources->text[i], .kind = kind});
    for (int32_t i = 0; i < devices->n; i++)
        append_statistics(list, validate, (struct validate_group){.device = devices->text[i], .kind = kind});
    append_statistics(list, validate, (struct validate_group){.full_plan = true, .kind = kind});
    append_statistics(list, validate, (struct validate_group){.kind = kind});
    return list;
}

void validation_print_json(const struct validate *validate)
{
    static const char *const keys[VALIDATE_N_KINDS] = {
        "", "fp8", "experts", "experts_fp8", "blackwell", "experts_blackwell"};
    struct texts sources = texts_of(validate, source_of), devices = texts_of(validate, device_of),
                 groups = texts_of(validate, group_of);
    json_t *rows = json_array(), *skipped = json_array(), *statistics = json_array(), *of_groups = json_array();
    for (enum validate_quantity q = 0; q < VALIDATE_N_QUANTITIES; q++) {
        int32_t n;
        int32_t *worst = validate_worst_first(validate, q, &n);
        for (int32_t i = 0; i < n; i++)
            json_array_append_new(rows, row_json(&validate->rows[worst[i]]));
        free(worst);
        for (int32_t i = 0; i < sources.n; i++)
            append_statistics(statistics, validate, (struct validate_group){.quantity = q, .source = sources.text[i]});
        for (int32_t i = 0; i < devices.n; i++)
            append_statistics(statistics, validate, (struct validate_group){.quantity = q, .device = devices.text[i]});
        for (int32_t i = 0; i < groups.n; i++)
            if (*groups.text[i] != '\0')
                append_statistics(of_groups, validate, (struct validate_group){.quantity = q, .group = groups.text[i]});
        append_statistics(statistics, validate, (struct validate_group){.quantity = q, .full_plan = true});
        append_statistics(statistics, validate, (struct validate_group){.quantity = q});
        append_statistics(statistics, validate, (struct validate_group){.quantity = q, .calibration = true});
    }
    for (int32_t i = 0; i < validate->n_rows; i++)
        if (validate->rows[i].reason[0] != '\0')
            json_array_append_new(skipped, row_json(&validate->rows[i]));
    json_t *root = json_pack("{s:o, s:o, s:o, s:o}", "rows", rows, "skipped", skipped, "statistics", statistics,
                             "outcomes", outcomes_json(validate_outcomes_of(validate, NULL)));
    json_object_set_new(root, "groups", of_groups);
    json_object_set_new(root, "pairs", pairs_json(validate));
    if (validate_outcomes_of(validate, "").n > 0)
        json_object_set_new(root, "outcomes_of_groups", outcomes_json(validate_outcomes_of(validate, "")));
    for (enum validate_kind kind = VALIDATE_FP8; kind < VALIDATE_N_KINDS; kind++) {
        struct validate_outcomes outcomes = validate_outcomes_of_kind(validate, kind);
        char name[32];
        snprintf(name, sizeof name, "outcomes_of_%s", keys[kind]);
        if (outcomes.n > 0) {
            json_object_set_new(root, keys[kind], kind_json(validate, &sources, &devices, kind));
            json_object_set_new(root, name, outcomes_json(outcomes));
        }
    }
    if (validate->unread[0] != '\0')
        json_object_set_new(root, "unread_columns", json_string(validate->unread));
    command_print_json(root);
    texts_free(&groups);
    texts_free(&sources);
    texts_free(&devices);
}

static bool write_rows(struct trace *trace, const struct validate *validate, const struct texts *texts,
                       struct error *err)
{
    bool ok = trace_append(trace, TRACE_VALIDATION, NULL, 0, err);
    for (int32_t i = 0; ok && i < validate->n_rows; i++) {
        const struct validate_row *row = &validate->rows[i];
        if (row->reason[0] != '\0')
            continue;
        struct trace_validation out = {
            .row = texts[0].index[i],
            .source = texts[1].index[i],
            .model = texts[2].index[i],
            .framework = texts[3].index[i],
            .device = texts[4].index[i],
            .group = texts[5].index[i],
            .quantity = (int32_t)row->quantity,
            .experts = has_experts(row),
            .fp8 = has_fp8(row),
            .blackwell = is_on_blackwell(row),
            .calibration = row->calibration,
            .full_plan = strcmp(row->trust, "A") == 0 || strcmp(row->trust, "A-") == 0,
            .only_beside_pair = row->ratio_only,
            .gpus = row->n_gpus,
            .measured = row->measured,
            .predicted = row->predicted,
            .error = row->error,
            .exceeded_limit = (int32_t)row->exceeded_limit,
            .peak_bytes = row->peak_bytes,
            .memory_bytes = row->memory_bytes,
        };
        ok = trace_append(trace, TRACE_VALIDATION, &out, 1, err);
    }
    return ok;
}

bool validation_may_write(const char *directory, struct error *err)
{
    char *path = check_asprintf("%s/validation.h5", directory);
    bool ok = output_may_replace(path, trace_is_at, "trace", "another folder (--output DIR)", err);
    free(path);
    return ok;
}

bool validation_write(const struct validate *validate, const char *directory, struct error *err)
{
    enum { N_TEXTS = 6 };
    static const char *const names[N_TEXTS] = {"rows", "sources", "models", "frameworks", "devices", "groups"};
    static const char *const systems[] = {"best-fit"};
    struct texts texts[N_TEXTS] = {texts_of(validate, id_of),     texts_of(validate, source_of),
                                   texts_of(validate, model_of),  texts_of(validate, framework_of),
                                   texts_of(validate, device_of), texts_of(validate, group_of)};
    struct trace *trace = trace_create(directory, "validation", err);
    bool ok = trace != NULL && trace_set_systems(trace, 1, systems, err);
    for (int i = 0; ok && i < N_TEXTS; i++)
        ok = trace_set_texts(trace, names[i], texts[i].n, texts[i].text, err);
    ok = ok && write_rows(trace, validate, texts, err);
    if (!ok)
        trace_abandon(trace);
    for (int i = 0; i < N_TEXTS; i++)
        texts_free(&texts[i]);
    return ok && trace_close(trace, err);
}
