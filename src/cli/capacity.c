/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file is `slimsim capacity`. It answers what to buy, how long a training takes, and how sure that is. */
#include <stdlib.h>

#include "base/check.h"
#include "capacity/answer_files.h"
#include "cli/answer.h"
#include "cli/capacity_options.h"
#include "cli/capacity_report.h"
#include "cli/commands.h"
#include "document/document_set.h"
#include "lengths/lengths.h"
#include "scenario/taken.h"
#include "simulate/assumptions.h"

enum { MAX_JOBS = 4096 };

/* Options without a letter, in the order of enum capacity_option. */
enum { LENGTHS = 0x2000, CONTEXT, BATCH, TOKENS, DAYS, OFFER };

struct arguments {
    struct options options;
    struct capacity_options asked;
    const char *scenario, *shard;
    int32_t jobs;
};

/** Say before the search that offers have sizes which take long. */
static void warn(const struct question *question)
{
    char line[ASSUMPTIONS_SIZE];
    for (int32_t i = 0; i < question->n_offers; i++) {
        const struct offer *offer = &question->offers[i];
        if (assumptions_size(&offer->scenario, offer_gpus(offer, offer->to), line))
            fprintf(stderr, "%s, %s\n", offer->name, line);
    }
}

/** Note what is read of the files of lengths of all phases. The answer itself reports their mistakes. */
static void note_lengths(const struct question *question, struct error *notes)
{
    for (int32_t i = 0; i < question->n_phases; i++) {
        struct lengths lengths = {0};
        struct error ignored = {0};
        if (lengths_open(&question->phase[i].data, scenario_data_dir(), &lengths, &ignored) && lengths.read != NULL)
            error_add(notes, "%s", lengths.read);
        lengths_close(&lengths);
    }
}

/** Find the answer, write its files and print it. With a shard only its part of the grid is computed. */
static bool run(const struct arguments *arguments, const struct question *question, struct answer *answer,
                struct error *err)
{
    const struct options *options = &arguments->options;
    const char *name = question->offers[0].scenario.name;
    struct error notes = {0};
    struct answer_run asked;
    struct shard shard = {0};
    if ((arguments->shard != NULL && !shard_parse(arguments->shard, &shard, err)) ||
        !answer_may_be_written(options->output, name, err))
        return false;
    for (int32_t i = 0; i < question->n_offers; i++)
        taken_words(&question->offers[i].scenario, &notes);
    note_lengths(question, &notes);
    command_print_notes(notes.text);
    if (!options->quiet)
        warn(question);
    char *sizes = check_asprintf("%s.sizes", name);
    bool ok = answer_begin(&asked, options, "capacity", sizes, err);
    asked.how.critical_path = false; /* SimGrid runs the answer */
    asked.how.shard = shard;
    asked.how.jobs = arguments->jobs > 0 ? arguments->jobs : asked.how.jobs;
    ok = ok && answer_end(&asked, answer_find(question, &asked.how, answer, err));
    free(sizes);
    if (ok && shard.n > 0 && !options->quiet)
        fprintf(stderr, "part %d of %d is computed; without --shard the same command goes on from all parts\n", shard.k,
                shard.n);
    if (!ok || shard.n > 0)
        return ok;
    char *verdict = capacity_verdict(answer, false);
    ok = answer_write(answer, verdict, options->output, err);
    free(verdict);
    if (ok && options->json)
        capacity_print_json(answer);
    else if (ok)
        capacity_print(answer, options->verbose);
    fflush(stdout); /* so that text on stderr comes later if both go to one file */
    if (ok && !options->quiet)
        fprintf(stderr, "written: %s/%s.capacity.h5 and %s.capacity.csv\n", options->output, name, name);
    return ok;
}

/** Read the question of a file, or of options. */
static bool read_question(const struct arguments *arguments, struct question *question, struct error *err)
{
    const struct options *options = &arguments->options;
    struct document document = {0};
    *question = (struct question){0};
    if (!capacity_options_any(&arguments->asked))
        return question_read(arguments->scenario, options->n_set, options->set, question, err);
    if (arguments->scenario != NULL)
        return error_set(
            err,
            "%s: a file has keys of its own, so no option such as --model or --offer is allowed beside it; "
            "--set KEY=VALUE changes a key",
            arguments->scenario);
    bool ok = capacity_options_document(&arguments->asked, &document, err);
    for (int32_t i = 0; i < options->n_set; i++)
        ok = ok && document_set(&document, options->set[i], err);
    if (!ok) {
        document_free(&document);
        return false;
    }
    ok = question_resolve(&document, question, err);
    question->assumed = true;
    return ok;
}

static const struct argp_child children[] = {OPTION(set),   OPTION(output),  OPTION(json),
                                             OPTION(quiet), OPTION(verbose), {0}};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        options_begin(&arguments->options, children, state);
        return 0;
    case 'J':
        arguments->jobs = options_parse_whole("--jobs", argument, 1, MAX_JOBS, state);
        return 0;
    case 'S':
        arguments->shard = argument;
        return 0;
    case 'm':
        arguments->asked.value[CAPACITY_MODEL] = argument;
        return 0;
    case LENGTHS:
    case CONTEXT:
    case BATCH:
    case TOKENS:
    case DAYS:
        arguments->asked.value[CAPACITY_LENGTHS + key - LENGTHS] = argument;
        return 0;
    case OFFER:
        options_append(&arguments->asked.offers, &arguments->asked.n_offers, argument);
        return 0;
    case ARGP_KEY_NO_ARGS:
        if (capacity_options_any(&arguments->asked))
            return 0;
        return options_parse_file(key, argument, state, "a scenario", &arguments->scenario);
    default:
        return options_parse_file(key, argument, state, "a scenario", &arguments->scenario);
    }
}

static const struct argp_option capacity_options[] = {
    {"jobs", 'J', "N", 0, "Compute N sizes at a time (default: number of cores)", 0},
    {"shard", 'S', "K/N", 0, "Compute only the K-th of N parts of the first sizes; auto: K/N from Slurm or Open MPI",
     0},
    {0, 0, 0, 0, "A question without a file:", 1},
    {"model", 'm', "NAME", 0, "Model to train", 1},
    {"lengths", LENGTHS, "NAME", 0, "Lengths of its documents", 1},
    {"context", CONTEXT, "N", 0, "Longest document", 1},
    {"batch", BATCH, "N", 0, "Tokens of a global batch", 1},
    {"tokens", TOKENS, "N", 0, "Tokens of the whole training", 1},
    {"days", DAYS, "N", 0, "Longest time that it may take", 1},
    {"offer", OFFER, "DEVICE[:PRECISION]@USD[:FROM-TO]", 0,
     "A GPU, its price for an hour, and the numbers of nodes that are tried (may be repeated)", 1},
    {0},
};
static const struct argp argp = {
    capacity_options,
    parse,
    "SCENARIO.yaml\n--model NAME --lengths NAME --context N --batch N --tokens N --offer DEVICE@USD...",
    "Answer the question of the scenario's `capacity:`: which offer, how many nodes, which system and plan, how many "
    "days, what cost and energy, and how sure the date is. Sizes that were computed are kept in the output folder, so "
    "the same command goes on after a stop, and another limit, price or failure rate computes nothing again.",
    children,
    NULL,
    NULL};

int command_capacity(int argc, char **argv)
{
    struct arguments arguments = {0};
    struct question question;
    struct answer answer = {0};
    struct error err = {0};
    parse_arguments(&argp, argc, argv, &arguments);
    bool ok = read_question(&arguments, &question, &err) && run(&arguments, &question, &answer, &err);
    answer_free(&answer);
    question_free(&question);
    options_free(&arguments.options);
    free(arguments.asked.offers);
    return answer_status(ok, &err);
}
