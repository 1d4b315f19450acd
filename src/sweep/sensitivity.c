/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sweep/sensitivity.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/cores.h"
#include "base/status_line.h"
#include "document/document_set.h"
#include "document/schema_text.h"
#include "scenario/scenario_read.h"
#include "simulate/path_run.h"
#include "simulate/standing.h"
#include "sweep/pool.h"

enum { CHOICE_BYTES = SCHEMA_WORD_BYTES };

/** A list of changes that is being made. */
struct listing {
    const struct document *document;
    const struct scenario *scenario;
    struct sensitivity *sensitivity;
};

static struct sensitivity_change *add_change(struct listing *listing, const char *name)
{
    struct sensitivity *all = listing->sensitivity;
    all->changes = check_grow(all->changes, (size_t)all->n, &all->capacity, sizeof *all->changes);
    struct sensitivity_change *change = &all->changes[all->n++];
    *change = (struct sensitivity_change){.name = check_strdup(name), .set = check_strdup(""), .memory = 1, .rate = 1};
    document_copy(listing->document, NULL, &change->document);
    return change;
}

static void set_key(struct sensitivity_change *change, const char *key, const char *value)
{
    struct error err = {0};
    char *set = check_asprintf("%s%s%s=%s", change->set, *change->set != '\0' ? " " : "", key, value);
    free(change->set);
    change->set = set;
    if (change->refusal == NULL && !document_set_value(&change->document, key, value, "slimsim sensitivity", &err))
        change->refusal = check_strdup(err.text);
}

static void add_value(struct listing *listing, const char *name, const char *key, const char *value)
{
    set_key(add_change(listing, name), key, value);
}

/** Add each choice of a key from the first one, except the present one. @param n  number of choices */
static void add_choices(struct listing *listing, const char *key, const char *choices, int32_t now, int32_t n)
{
    const char *dot = strrchr(key, '.');
    for (int32_t i = 0; i < n; i++) {
        char value[CHOICE_BYTES], name[2 * CHOICE_BYTES];
        if (i == now)
            continue;
        schema_choice_name(choices, i, value);
        snprintf(name, sizeof name, "%s %s", dot != NULL ? dot + 1 : key, value);
        add_value(listing, name, key, value);
    }
}

static void add_attention_and_overlaps(struct listing *listing)
{
    const struct scenario *scenario = listing->scenario;
    const struct scenario_communication *now = &scenario->communication;
    if (scenario->device.own_curves)
        add_choices(listing, "attention", DEVICE_ATTENTION, scenario->attention, DEVICE_N_CURVES);
    add_choices(listing, "communication.dp_overlap", "none|gradients|both", now->dp_overlap, 3);
    add_choices(listing, "communication.tp_overlap", "none|bulk|chunked", now->tp_overlap, 3);
    add_choices(listing, "communication.cp_overlap", "false|true", now->cp_overlap, 2);
    add_choices(listing, "communication.pp_overlap", SCENARIO_STAGE_OVERLAP, now->pp_overlap, 3);
}

static void add_link(struct listing *listing, const char *name, const char *key, double bytes_per_s)
{
    static const double factors[] = {0.5, 2};
    for (int i = 0; i < 2; i++) {
        char change[CHOICE_BYTES], value[CHOICE_BYTES];
        snprintf(change, sizeof change, "%s x%g", name, factors[i]);
        snprintf(value, sizeof value, "%.17gGBps", factors[i] * bytes_per_s / 1e9);
        add_value(listing, change, key, value);
    }
}

static void add_hardware(struct listing *listing)
{
    const struct platform *platform = &listing->scenario->platform;
    if (*platform->path == '\0') {
        add_link(listing, "NIC", "platform.nic", platform->nic_bytes_per_s);
        add_link(listing, "NVLink", "platform.nvlink", platform->nvlink_bytes_per_s);
    }
    add_change(listing, "GPU memory -10%")->memory = 0.9;
    add_change(listing, "GPU memory +10%")->memory = 1.1;
}

static void add_batches(struct listing *listing)
{
    const struct scenario_data *data = &listing->scenario->data;
    const char *key = data->global_batch > 0 ? "data.global_batch" : "data.global_batch_tokens";
    int64_t now = data->global_batch > 0 ? data->global_batch : data->global_batch_tokens;
    char value[CHOICE_BYTES];
    if (now > 1) {
        snprintf(value, sizeof value, "%" PRId64, now / 2);
        add_value(listing, "batch x0.5", key, value);
    }
    snprintf(value, sizeof value, "%" PRId64, 2 * now);
    add_value(listing, "batch x2", key, value);
}

static void add_lengths(struct listing *listing)
{
    const struct scenario_data *data = &listing->scenario->data;
    char value[CHOICE_BYTES];
    if (strcmp(data->lengths, "fixed") == 0)
        return;
    snprintf(value, sizeof value, "%.17g", 1.2 * data->length_scale);
    add_value(listing, "lengths x1.2", "data.length_scale", value);
}

static void add_model_error(struct listing *listing)
{
    double deviation = listing->sensitivity->error.deviation;
    for (int sign = -1; sign <= 1; sign += 2) {
        char name[CHOICE_BYTES];
        snprintf(name, sizeof name, "model error %+.1f%%", 100 * sign * deviation);
        add_change(listing, name)->rate = 1 + sign * deviation;
    }
}

/** Change the named space of each search. Lists of a plan_space stay. */
static void add_space(struct listing *listing, const char *name)
{
    const struct scenario *scenario = listing->scenario;
    bool differs = false, shared = false;
    char text[CHOICE_BYTES];
    for (int32_t i = 0; i < scenario->n_systems; i++)
        differs = differs || (scenario->systems[i].auto_plan && strcmp(scenario->systems[i].space.name, name) != 0);
    if (!differs)
        return;
    snprintf(text, sizeof text, "plan_space %s", name);
    struct sensitivity_change *change = add_change(listing, text);
    for (int32_t i = 0; i < scenario->n_systems; i++) {
        if (!scenario->systems[i].auto_plan)
            continue;
        snprintf(text, sizeof text, "systems.%d.plan_space", (int)i);
        if (document_find(listing->document, 0, text) < 0) {
            shared = true;
            continue;
        }
        snprintf(text, sizeof text, "systems.%d.plan_space.name", (int)i);
        set_key(change, text, name);
    }
    if (shared)
        set_key(change, "plan_space.name", name);
}

static void add_framework(struct listing *listing, const char *name)
{
    char text[CHOICE_BYTES];
    if (strcmp(listing->scenario->framework_name, name) == 0)
        return;
    snprintf(text, sizeof text, "framework %s", name);
    add_value(listing, text, "framework", name);
}

bool sensitivity_list(const struct document *document, const struct scenario *scenario, struct sensitivity *sensitivity,
                      struct error *err)
{
    static const char *const spaces[] = {"free", "megatron", "wide"};
    static const char *const frameworks[] = {"megatron-core", "nemo", "slimpack-paper"};
    struct listing listing = {document, scenario, sensitivity};
    *sensitivity = (struct sensitivity){.n_systems = scenario->n_systems};
    if (!model_error_read(scenario_data_dir(), scenario, &sensitivity->error, err))
        return false;
    add_change(&listing, "as it is");
    add_attention_and_overlaps(&listing);
    add_hardware(&listing);
    add_batches(&listing);
    add_lengths(&listing);
    for (int i = 0; i < 3; i++)
        add_space(&listing, spaces[i]);
    for (int i = 0; i < 3; i++)
        add_framework(&listing, frameworks[i]);
    add_model_error(&listing);
    return true;
}

/** Rank the systems of a point that ran. */
static void fill_in(const struct scenario *scenario, const struct point *point, struct sensitivity_system *systems)
{
    struct ranked_point ranked = ranked_point_of(scenario, point);
    for (int32_t i = 0; i < point->n_systems; i++) {
        const struct standing *standing = &ranked.standings[i];
        double rate = ranked.summaries[standing->system].tokens_per_s_per_gpu;
        systems[standing->system] = (struct sensitivity_system){rate, standing->rank, i};
    }
    ranked_point_free(&ranked);
}

static bool run_change(struct sensitivity_change *change, struct sensitivity_system *systems, struct error *err)
{
    struct path_run run = {0};
    bool ok = path_run_prepare(&change->document, &run, err);
    run.scenario.device.memory_bytes *= change->memory;
    ok = ok && path_run_search(&run, &(struct search_options){0}, err) && path_run_execute(&run, NULL, NULL, err);
    if (ok)
        fill_in(&run.scenario, &run.point, systems);
    path_run_free(&run);
    return ok;
}

struct run {
    struct sensitivity *sensitivity;
    struct status_line status;
    int32_t n, n_done;
};

/** Run a change in a worker. The answer has the systems, or the text of a refusal behind their place. */
static void work(void *context, int32_t task, FILE *answer)
{
    const struct run *run = context;
    struct error err = {0};
    size_t n = (size_t)run->sensitivity->n_systems;
    struct sensitivity_system *systems = check_calloc(n, sizeof *systems);
    bool ok = run_change(&run->sensitivity->changes[task], systems, &err);
    fwrite(systems, sizeof *systems, n, answer);
    if (!ok)
        fputs(err.text, answer);
    free(systems);
}

static bool take(void *context, const struct pool_answer *answer, struct error *err)
{
    struct run *run = context;
    struct sensitivity_change *change = &run->sensitivity->changes[answer->task];
    size_t n = (size_t)run->sensitivity->n_systems, n_bytes = n * sizeof *change->systems;
    if (answer->ending == POOL_ANSWERED && answer->n_bytes == n_bytes)
        memcpy(change->systems, answer->bytes, n_bytes);
    else if (answer->ending == POOL_ANSWERED)
        change->refusal = check_strndup((const char *)answer->bytes + n_bytes, answer->n_bytes - n_bytes);
    else
        change->refusal = check_strdup(answer->said);
    run->n_done++;
    if (answer->task > 0 || change->refusal == NULL)
        return true;
    return error_set_status(err, ERROR_FAILED, "%s", change->refusal);
}

static void show_progress(void *context)
{
    struct run *run = context;
    status_line_print(&run->status, "%d of %d runs are finished", run->n_done, run->n);
}

/** Fill in a change that is not run. */
static void scale_rates(const struct sensitivity *sensitivity, struct sensitivity_change *change)
{
    for (int32_t i = 0; change->rate != 1 && i < sensitivity->n_systems; i++) {
        change->systems[i] = sensitivity->changes[0].systems[i];
        change->systems[i].tokens_per_s_per_gpu *= change->rate;
    }
}

bool sensitivity_run(struct sensitivity *sensitivity, const struct sensitivity_options *options, struct error *err)
{
    struct run run = {.sensitivity = sensitivity, .status = status_line_begin(options->progress)};
    struct pool pool = {.jobs = cores_available(),
                        .work = work,
                        .take = take,
                        .idle = show_progress,
                        .context = &run,
                        .stop = options->stop};
    int32_t n = 0, *tasks = check_calloc((size_t)sensitivity->n, sizeof *tasks);
    for (int32_t i = 0; i < sensitivity->n; i++) {
        struct sensitivity_change *change = &sensitivity->changes[i];
        change->systems = check_calloc((size_t)sensitivity->n_systems, sizeof *change->systems);
        if (change->refusal == NULL && change->rate == 1)
            tasks[n++] = i;
    }
    run.n = n;
    pool.jobs = pool.jobs < n ? pool.jobs : n;
    bool ok = pool_run(&pool, n, tasks, err);
    for (int32_t i = 0; i < sensitivity->n; i++)
        scale_rates(sensitivity, &sensitivity->changes[i]);
    status_line_end(&run.status);
    free(tasks);
    return ok;
}

double sensitivity_gain(const struct sensitivity *sensitivity, int32_t change, int32_t system)
{
    const struct sensitivity_system *before = &sensitivity->changes[0].systems[system],
                                    *after = &sensitivity->changes[change].systems[system];
    if (before->rank == 0 || after->rank == 0)
        return NAN;
    return after->tokens_per_s_per_gpu / before->tokens_per_s_per_gpu - 1;
}

int32_t sensitivity_winner(const struct sensitivity *sensitivity, int32_t change)
{
    const struct sensitivity_system *systems = sensitivity->changes[change].systems;
    for (int32_t i = 0; i < sensitivity->n_systems; i++)
        if (systems[i].place == 0 && systems[i].rank > 0)
            return i;
    return -1;
}

bool sensitivity_changes_winner(const struct sensitivity *sensitivity, int32_t change)
{
    int32_t before = sensitivity_winner(sensitivity, 0), after = sensitivity_winner(sensitivity, change);
    if (sensitivity->changes[change].refusal != NULL || before < 0)
        return before < 0 && after >= 0;
    return sensitivity->changes[change].systems[before].rank != 1;
}

void sensitivity_free(struct sensitivity *sensitivity)
{
    for (int32_t i = 0; i < sensitivity->n; i++) {
        struct sensitivity_change *change = &sensitivity->changes[i];
        free(change->name);
        free(change->set);
        free(change->refusal);
        free(change->systems);
        document_free(&change->document);
    }
    free(sensitivity->changes);
    *sensitivity = (struct sensitivity){0};
}
