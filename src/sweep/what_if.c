/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sweep/what_if.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/cores.h"
#include "document/document_set.h"

/** Questions that are being answered. Points are the different scenarios among them. */
struct asking {
    struct what_ifs *questions;
    const struct what_if_options *options;
    struct sweep_runner *runner;
    struct manifest manifest;  /* of the points */
    struct asked_point *asked; /* of each point */
    int32_t *point;            /* of each question; -1: it is refused */
};

struct what_if *what_if_add(struct what_ifs *questions, const char *name, const struct document *document)
{
    struct what_if question = {.name = check_strdup(name), .set = check_strdup(""), .memory = 1};
    document_copy(document, "sweep", &question.document); /* it may be that of a question in the list */
    questions->at = check_grow(questions->at, (size_t)questions->n, &questions->capacity, sizeof *questions->at);
    questions->at[questions->n] = question;
    return &questions->at[questions->n++];
}

bool what_if_add_sweep(struct what_ifs *questions, struct document *document, struct error *err)
{
    struct sweep sweep = {0};
    bool ok = sweep_read(document, &sweep, err);
    for (int32_t i = 0; ok && i < sweep.n_points; i++) {
        struct document point = {0};
        char *name = check_strdup("");
        ok = sweep_point(&sweep, i, &point, err);
        for (int32_t c = 0; c < sweep.n_columns; c++) {
            char *value = sweep_value(&sweep, i, c);
            char *longer = check_asprintf("%s%s%s", name, c > 0 ? " " : "", value);
            free(value);
            free(name);
            name = longer;
        }
        if (ok)
            what_if_add(questions, name, &point);
        free(name);
        document_free(&point);
    }
    sweep_free(&sweep);
    return ok;
}

void what_if_refuse(struct what_if *question, const char *reason)
{
    if (question->result.status != RESULT_FAILED)
        question->result = (struct point_result){.status = RESULT_FAILED, .message = check_strdup(reason)};
}

void what_if_set(struct what_if *question, const char *key, const char *value)
{
    struct error err = {0};
    char *set = check_asprintf("%s%s%s=%s", question->set, *question->set != '\0' ? " " : "", key, value);
    free(question->set);
    question->set = set;
    if (!document_set_value(&question->document, key, value, "--set", &err))
        what_if_refuse(question, err.text);
}

const char *what_if_refusal(const struct what_if *question)
{
    return question->result.status != RESULT_DONE ? question->result.message : NULL;
}

/** Return the point with this id, which is added if it is new. */
static int32_t find_point(struct asking *asking, int32_t question, uint64_t id)
{
    const struct what_if *of = &asking->questions->at[question];
    struct manifest *manifest = &asking->manifest;
    int32_t i = 0;
    while (i < manifest->n_points && manifest->id[i] != id)
        i++;
    if (i < manifest->n_points)
        return i;
    manifest->id[i] = id;
    manifest->value[i] = check_strdup(of->name);
    asking->asked[i] = (struct asked_point){&of->document, of->memory, asking->options->critical_path, of->priced};
    manifest->n_points++;
    return i;
}

/** Read and check all questions. Invalid ones are refused. */
static bool resolve(struct asking *asking, struct error *err)
{
    const volatile sig_atomic_t *stop = asking->options->stop;
    for (int32_t i = 0; i < asking->questions->n; i++) {
        struct what_if *question = &asking->questions->at[i];
        struct asked_point asked = {&question->document, question->memory, asking->options->critical_path,
                                    question->priced};
        struct scenario scenario = {0};
        const struct lengths *lengths;
        struct error wrong = {0};
        uint64_t id = 0;
        asking->point[i] = -1;
        asking->runner->asked = &asked;
        if (stop != NULL && *stop != 0)
            return false;
        if (question->result.status == RESULT_FAILED)
            continue;
        if (sweep_runner_point(asking->runner, 0, &scenario, &lengths, &id, &wrong))
            asking->point[i] = find_point(asking, i, id);
        else if (wrong.status == ERROR_INVALID)
            what_if_refuse(question, wrong.text);
        else
            return (*err = wrong, false);
        scenario_free(&scenario);
    }
    return true;
}

/** Make a manifest with room for `n` points and with their names as values. */
static struct manifest manifest_of(const struct what_if_options *options, int32_t n)
{
    struct manifest manifest = {.name = check_strdup(options->name),
                                .command = check_strdup("slimsim"),
                                .scenario = check_strdup(""),
                                .n_columns = 1,
                                .column = check_calloc(1, sizeof *manifest.column),
                                .value = check_calloc((size_t)n, sizeof *manifest.value),
                                .id = check_calloc((size_t)n, sizeof *manifest.id)};
    manifest.column[0] = check_strdup("question");
    return manifest;
}

/** Compute the points that no journal holds, and give their results to the questions. */
static bool compute(struct asking *asking, struct error *err)
{
    const struct what_if_options *options = asking->options;
    int32_t n = asking->manifest.n_points, jobs = options->jobs < n ? options->jobs : n, n_cores = cores_available();
    struct point_result *results = check_calloc((size_t)n, sizeof *results);
    struct driver_outcome outcome;
    struct driver_options driver = {.directory = options->directory,
                                    .jobs = options->jobs,
                                    .shard = options->shard,
                                    .results = results,
                                    .lock = options->lock,
                                    .progress = options->progress,
                                    .stop = options->stop};
    asking->runner->asked = asking->asked;
    asking->runner->n_threads = jobs > 0 && jobs < n_cores ? n_cores / jobs : 1;
    bool ok = n == 0 || driver_run(asking->runner, &asking->manifest, &driver, &outcome, err);
    for (int32_t i = 0; ok && i < asking->questions->n; i++)
        if (asking->point[i] >= 0)
            asking->questions->at[i].result = point_result_copy(&results[asking->point[i]]);
    for (int32_t i = 0; i < n; i++)
        point_result_free(&results[i]);
    free(results);
    return ok;
}

/** Take the lock of the whole answer, unless earlier questions took it. */
static bool hold(const struct what_if_options *options, struct error *err)
{
    if (options->lock->descriptor >= 0)
        return true;
    char *path = shard_path(&options->shard, options->directory, options->name, "answer");
    bool ok = journal_hold(path, options->lock, err);
    free(path);
    return ok;
}

bool what_if_run(struct what_ifs *questions, const struct what_if_options *options, struct error *err)
{
    size_t n = (size_t)questions->n;
    struct asking asking = {.questions = questions,
                            .options = options,
                            .runner = check_calloc(1, sizeof *asking.runner), /* too large for the stack */
                            .manifest = manifest_of(options, questions->n),
                            .asked = check_calloc(n, sizeof *asking.asked),
                            .point = check_calloc(n, sizeof *asking.point)};
    bool ok = hold(options, err) && resolve(&asking, err) && compute(&asking, err);
    sweep_runner_close(asking.runner);
    free(asking.runner);
    free(asking.asked);
    free(asking.point);
    manifest_free(&asking.manifest);
    return ok;
}

void what_if_clear(struct what_if *question)
{
    free(question->name);
    free(question->set);
    document_free(&question->document);
    point_result_free(&question->result);
}

void what_if_free(struct what_ifs *questions)
{
    for (int32_t i = 0; i < questions->n; i++)
        what_if_clear(&questions->at[i]);
    free(questions->at);
    *questions = (struct what_ifs){0};
}
