/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "answer/largest_value.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "scenario/scenario_read.h"

/** Return the distance between neighbours that are at least `value` and below the next power of two. */
static int64_t step_at(const struct largest_range *range, int64_t value)
{
    int64_t step = 1;
    while (range->quarters && value >= 8 * step)
        step *= 2;
    return step;
}

int64_t largest_at_most(const struct largest_range *range, int64_t value)
{
    return value - value % step_at(range, value);
}

int64_t largest_next(const struct largest_range *range, int64_t value)
{
    int64_t step = step_at(range, value);
    return value - value % step + step;
}

/** A search between the largest value that fits and the least one that does not. */
struct bracket {
    const struct largest_range *range;
    largest_trial *trial;
    void *context;
    int64_t low;  /* fits; 0: none */
    int64_t high; /* does not fit; 0: none */
};

static bool try_value(struct bracket *bracket, int64_t value, struct error *err)
{
    bool fits = false;
    if (!bracket->trial(bracket->context, value, &fits, err))
        return false;
    *(fits ? &bracket->low : &bracket->high) = value;
    return true;
}

/** Double from a value that fits, or halve from one that does not. */
static bool find_bracket(struct bracket *bracket, struct error *err)
{
    const struct largest_range *range = bracket->range;
    int64_t most = largest_at_most(range, range->most);
    bool ok = try_value(bracket, range->start < most ? largest_at_most(range, range->start) : most, err);
    while (ok && bracket->high == 0 && bracket->low < most)
        ok = try_value(bracket, bracket->low < most / 2 ? 2 * bracket->low : most, err);
    while (ok && bracket->low == 0 && bracket->high > range->least) {
        int64_t half = largest_at_most(range, bracket->high / 2);
        ok = try_value(bracket, half > range->least ? half : range->least, err);
    }
    return ok;
}

static bool bisect(struct bracket *bracket, struct error *err)
{
    bool ok = true;
    while (ok && bracket->low > 0 && bracket->high > 0) {
        int64_t middle = largest_at_most(bracket->range, bracket->low + (bracket->high - bracket->low) / 2);
        if (middle <= bracket->low)
            middle = largest_next(bracket->range, bracket->low);
        if (middle >= bracket->high)
            break;
        ok = try_value(bracket, middle, err);
    }
    return ok;
}

/** Try the values above the boundary. */
static bool try_neighbours(struct bracket *bracket, struct error *err)
{
    int64_t values[LARGEST_NEIGHBOURS], boundary;
    do {
        int32_t n = 0;
        boundary = bracket->low;
        bracket->high = 0;
        for (int64_t value = largest_next(bracket->range, boundary);
             n < LARGEST_NEIGHBOURS && value <= bracket->range->most; value = largest_next(bracket->range, value))
            values[n++] = value;
        while (bracket->low == boundary && n > 0)
            if (!try_value(bracket, values[--n], err))
                return false;
    } while (bracket->low > boundary);
    return true;
}

bool largest_value_find(const struct largest_range *range, largest_trial *trial, void *context,
                        struct largest_value *largest, struct error *err)
{
    struct bracket bracket = {range, trial, context, 0, 0};
    CHECK(1 <= range->least && range->least <= range->most);
    bool ok =
        find_bracket(&bracket, err) && bisect(&bracket, err) && (bracket.low == 0 || try_neighbours(&bracket, err));
    *largest = (struct largest_value){bracket.low, bracket.high};
    return ok;
}

const struct value_trial *largest_trial_of(const struct largest_of_system *system, int64_t value)
{
    for (int32_t i = 0; i < system->n_trials; i++)
        if (system->trials[i].value == value)
            return &system->trials[i];
    return NULL;
}

/** A search that is made again from its beginning, up to the first value that was not tried. */
struct replay {
    const struct largest_of_system *system;
    bool tight;     /* a value that fits tightly counts */
    int64_t wanted; /* 0: all were tried */
};

static bool look_up(void *context, int64_t value, bool *fits, struct error *err)
{
    struct replay *replay = context;
    const struct value_trial *trial = largest_trial_of(replay->system, value);
    (void)err;
    if (trial == NULL)
        replay->wanted = value;
    else
        *fits = trial->fits && (replay->tight || !trial->tight);
    return trial != NULL;
}

/** Ask for the next value of a system, unless its search is finished. */
static void ask_next(const struct document *document, struct largest_values *values, int32_t index,
                     struct what_ifs *questions)
{
    struct largest_of_system *system = &values->systems[index];
    struct replay replay = {system, false, 0};
    struct error none = {0};
    char text[32], name[160];
    system->found = largest_value_find(&values->asked.range, look_up, &replay, &system->largest, &none);
    replay.tight = true;
    system->found = system->found && largest_value_find(&values->asked.range, look_up, &replay, &system->tight, &none);
    if (system->found)
        return;
    snprintf(text, sizeof text, "%" PRId64, replay.wanted);
    snprintf(name, sizeof name, "%s %s=%s", system->label, values->asked.key, text);
    struct what_if *question = what_if_add(questions, name, document);
    document_keep_entry(&question->document, "systems", index);
    what_if_set(question, values->asked.key, text);
    system->trials = check_grow(system->trials, (size_t)system->n_trials, &system->capacity, sizeof *system->trials);
    system->trials[system->n_trials++] = (struct value_trial){.value = replay.wanted};
}

/** Move the results of a round to the systems that are not finished. */
static void take(struct largest_values *values, struct what_ifs *questions)
{
    const struct what_if *question = questions->at;
    for (int32_t i = 0; i < values->n; i++) {
        struct largest_of_system *system = &values->systems[i];
        if (system->found)
            continue;
        struct value_trial *trial = &system->trials[system->n_trials - 1];
        trial->question = *question++;
        const struct trace_summary *summary = trial->question.result.summary;
        trial->fits = what_if_refusal(&trial->question) == NULL && summary->fits;
        trial->tight = trial->fits && summary->tight && values->fits != SCENARIO_FITS_TIGHT;
        values->n_trials++;
    }
    questions->n = 0;
}

/** Estimate the trials after a round: those of doubling, bisection and neighbours, less those that were begun. */
static double later_trials(const struct largest_values *values)
{
    const struct largest_range *range = &values->asked.range;
    double bisection = range->quarters ? 2 : log2((double)range->most) / 2, left = 0;
    double all = 1 + fmax(0, log2((double)range->most / (double)range->start)) + bisection + LARGEST_NEIGHBOURS;
    for (int32_t i = 0; i < values->n; i++) {
        const struct largest_of_system *system = &values->systems[i];
        const struct largest_value *so_far = &system->largest;
        double one = all - system->n_trials;
        if (so_far->value > 0 && so_far->next > 0) /* it bisects */
            one = LARGEST_NEIGHBOURS +
                  log2((double)(so_far->next - so_far->value) / (double)step_at(range, so_far->value));
        left += system->found ? 0 : fmax(0, one);
    }
    return left;
}

bool largest_values_find(const struct document *document, const struct scenario *scenario,
                         const struct largest_key *asked, const struct what_if_options *options,
                         struct largest_values *values, struct error *err)
{
    *values = (struct largest_values){.asked = *asked, .fits = scenario->fits, .n = scenario->n_systems};
    if (!scenario_refuse_replay(scenario, "which do not change with another context or batch", err))
        return false;
    values->systems = check_calloc((size_t)values->n, sizeof *values->systems);
    for (int32_t i = 0; i < values->n; i++)
        values->systems[i].label = scenario->systems[i].label;
    for (;;) {
        struct what_ifs questions = {0};
        for (int32_t i = 0; i < values->n; i++)
            ask_next(document, values, i, &questions);
        if (questions.n == 0)
            return true;
        double later = later_trials(values);
        progress_expect(options->progress, 1, later, later);
        bool ok = what_if_run(&questions, options, err);
        if (ok)
            take(values, &questions);
        what_if_free(&questions);
        if (!ok)
            return false;
    }
}

void largest_values_free(struct largest_values *values)
{
    for (int32_t i = 0; i < values->n; i++) {
        for (int32_t k = 0; k < values->systems[i].n_trials; k++)
            what_if_clear(&values->systems[i].trials[k].question);
        free(values->systems[i].trials);
    }
    free(values->systems);
    *values = (struct largest_values){0};
}
