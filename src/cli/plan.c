/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file is `slimsim plan`. It prints samples, slices, micro-batches, need and the order of each stage, as JSON. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/plan_search.h"
#include "simulate/point_runner.h"
#include "trace/table.h"

enum { MAX_ITERATIONS = 1000000 };

struct arguments {
    struct options options;
    const char *scenario, *system;
    int64_t iteration;
};

static const char pass_letter[N_STEP_PASSES] = {'F', 'B', 'W'};
static const char *const sharding_name[] = {"per-document", "per-sequence", "placed"}; /* over context ranks */

/** Return the offloaded shares of a forward micro-batch by virtual stage. A backward micro-batch has none. */
static json_t *json_of_offload(const struct plan_pipeline *pipeline, enum pass pass, int32_t micro_batch)
{
    json_t *shares = json_array();
    for (int32_t stage = 0; pass == PASS_FORWARD && stage < pipeline->layout.stages * pipeline->layout.chunks; stage++)
        json_array_append_new(shares, json_real(plan_offload(pipeline, micro_batch, stage)));
    return shares;
}

/** Return whether a micro-batch's offloaded activations go and return while the passes run. A backward micro-batch has
 * none. */
static bool streams_some(const struct plan_pipeline *pipeline, enum pass pass, int32_t micro_batch)
{
    double most = 0;
    for (int32_t stage = 0; pass == PASS_FORWARD && stage < pipeline->layout.stages * pipeline->layout.chunks; stage++)
        most = fmax(most, plan_offload(pipeline, micro_batch, stage));
    return most > 0 && pipeline->partition[pass].micro_batches[micro_batch].streams;
}

static json_t *json_of_micro_batch(const struct plan_pipeline *pipeline, enum pass pass, int32_t micro_batch_index,
                                   const struct plan_phase *phase)
{
    const struct plan_partition *partition = &pipeline->partition[pass];
    const struct plan_micro_batch *micro_batch = &partition->micro_batches[micro_batch_index];
    json_t *slices = json_array();
    for (int32_t i = micro_batch->first_slice; i < micro_batch->first_slice + micro_batch->n_slices; i++) {
        const struct slice *slice = &partition->slices[i];
        json_array_append_new(slices,
                              json_pack("[i,i,i,i]", slice->sample, slice->begin, slice->end, micro_batch->context));
    }
    json_t *pipelines = json_array();
    for (int32_t i = 0; micro_batch->group >= 0 && i < phase->groups[micro_batch->group].n_pipelines; i++)
        json_array_append_new(pipelines, json_integer(phase->groups[micro_batch->group].pipelines[i]));
    return json_pack("{s:s, s:i, s:s, s:o, s:s, s:o, s:b, s:i, s:o}", "formation",
                     trace_formation_names.text[micro_batch->formation], "context", micro_batch->context, "sharding",
                     sharding_name[micro_batch->sharding], "shared_by_pipelines", pipelines, "recompute",
                     scenario_recompute_name[micro_batch->recompute], "offload_by_stage",
                     json_of_offload(pipeline, pass, micro_batch_index), "streams",
                     streams_some(pipeline, pass, micro_batch_index), "padding_tokens", micro_batch->padding_tokens,
                     "slices", slices);
}

static json_t *json_of_micro_batches(const struct plan_pipeline *pipeline, enum pass pass,
                                     const struct plan_phase *phase)
{
    json_t *micro_batches = json_array();
    for (int32_t i = 0; i < pipeline->partition[pass].n_micro_batches; i++)
        json_array_append_new(micro_batches, json_of_micro_batch(pipeline, pass, i, phase));
    return micro_batches;
}

/** Return the order of a stage as "F0", "F1", "B0", ..., a word for each step. With chunks it has "F0.0", "F0.1". */
static json_t *json_of_order(const struct plan_pipeline *pipeline, int32_t stage)
{
    json_t *order = json_array();
    for (int32_t i = pipeline->step_first[stage]; i < pipeline->step_first[stage + 1]; i++) {
        const struct plan_step *step = &pipeline->steps[i];
        char word[32];
        int n = snprintf(word, sizeof word, "%c%d", pass_letter[step->pass], step->micro_batch);
        if (pipeline->layout.chunks > 1)
            snprintf(word + n, sizeof word - (size_t)n, ".%d", step->chunk);
        json_array_append_new(order, json_string(word));
    }
    return order;
}

static json_t *json_of_place(struct plan_place place)
{
    return json_pack("{s:i, s:i, s:i}", "pipeline", place.pipeline, "stage", place.stage, "micro_batch",
                     place.micro_batch);
}

/** Return the blocks of attention of a phase. The passes of a set run together. */
static json_t *json_of_blocks(const struct plan_phase *phase)
{
    json_t *blocks = json_array();
    for (int32_t set = 0; set < phase->n_attentions; set++)
        for (int32_t i = 0; i < phase->attentions[set].n_blocks; i++) {
            const struct plan_block *block = &phase->blocks[phase->attentions[set].first_block + i];
            json_t *slices = json_array();
            for (int32_t k = 0; k < block->n_slices; k++) {
                struct slice slice = phase->block_slices[block->first_slice + k];
                json_array_append_new(slices, json_pack("[iii]", slice.sample, slice.begin, slice.end));
            }
            json_array_append_new(blocks, json_pack("{s:s, s:i, s:o, s:o, s:f, s:I, s:o}", "pass",
                                                    pass_name[phase->attentions[set].pass], "set", set, "from",
                                                    json_of_place(block->from), "to", json_of_place(block->to), "share",
                                                    block->share, "keys", (json_int_t)block->keys, "slices", slices));
        }
    return blocks;
}

static json_t *json_of_pipeline(const struct plan_pipeline *pipeline, const struct plan_phase *phase)
{
    const struct plan_layout *layout = &pipeline->layout;
    json_t *need = json_array(), *orders = json_array();
    for (int32_t i = 0; i < pipeline->partition[PASS_BACKWARD].n_micro_batches; i++)
        json_array_append_new(need, json_integer(pipeline->need[i]));
    for (int32_t stage = 0; stage < layout->stages; stage++)
        json_array_append_new(orders, json_of_order(pipeline, stage));
    return json_pack("{s:{s:i, s:i, s:i, s:i, s:i}, s:o, s:o, s:o, s:o}", "layout", "tp", layout->tensor, "cp",
                     layout->context, "pp", layout->stages, "first_rank", layout->first_rank, "stage_stride",
                     layout->stage_stride, pass_name[PASS_FORWARD],
                     json_of_micro_batches(pipeline, PASS_FORWARD, phase), pass_name[PASS_BACKWARD],
                     json_of_micro_batches(pipeline, PASS_BACKWARD, phase), "need", need, "order_by_stage", orders);
}

static json_t *json_of_plan(const struct plan *plan, const struct point_system *system, const struct batch *batch)
{
    json_t *phases = json_array(), *samples = json_array();
    for (int32_t i = 0; i < plan->n_phases; i++) {
        json_t *pipelines = json_array();
        for (int32_t j = 0; j < plan->phases[i].n_pipelines; j++)
            json_array_append_new(pipelines, json_of_pipeline(&plan->phases[i].pipelines[j], &plan->phases[i]));
        json_array_append_new(
            phases, json_pack("{s:o, s:o}", "pipelines", pipelines, "blocks", json_of_blocks(&plan->phases[i])));
    }
    for (int32_t i = 0; i < batch->n_samples; i++)
        json_array_append_new(samples,
                              json_pack("{s:i, s:i}", "document", batch->document[i], "tokens", batch->tokens[i]));
    json_t *delayed = json_array(), *carried = json_array();
    for (int32_t i = 0; i < plan->n_delayed; i++)
        json_array_append_new(delayed, json_integer(plan->delayed[i]));
    for (int32_t i = 0; i < plan->n_carried; i++)
        json_array_append_new(carried, json_integer(plan->carried_tokens[i]));
    return json_pack("{s:s, s:s, s:I, s:I, s:I, s:f, s:I, s:o, s:o, s:o, s:o}", "system", system->system->name, "label",
                     system->entry->label, "candidates", (json_int_t)plan->n_candidates, "resolved",
                     (json_int_t)plan->n_resolved, "search_nodes", (json_int_t)plan->n_nodes, "search_gap", plan->gap,
                     "delayed_tokens", (json_int_t)plan->delayed_tokens, "delayed_samples", delayed, "carried_tokens",
                     carried, "samples", samples, "phases", phases);
}

struct collected {
    const struct arguments *arguments;
    const struct plan_search *search;
    json_t *systems;
};

static bool keep_plan(void *context, const struct point_view *view, struct error *err)
{
    struct collected *collected = context;
    (void)err;
    if (view->iteration->row.iteration == collected->arguments->iteration &&
        (collected->arguments->system == NULL ||
         strcmp(collected->arguments->system, view->system->entry->label) == 0)) {
        json_t *system = json_of_plan(view->plan, view->system, view->batch);
        json_t *searched = plan_search_json(view->scenario, collected->search, view->system_index);
        if (searched != NULL)
            json_object_set_new(system, "plan_search", searched);
        json_array_append_new(collected->systems, system);
    }
    return true;
}

static const struct argp_child children[] = {OPTION(set), OPTION(json), OPTION(quiet), {0}};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        options_begin(&arguments->options, children, state);
        return 0;
    case 'i':
        arguments->iteration = options_parse_whole("--iteration", argument, 0, MAX_ITERATIONS - 1, state);
        return 0;
    case 'y':
        arguments->system = argument;
        return 0;
    default:
        return options_parse_file(key, argument, state, "a scenario", &arguments->scenario);
    }
}

static const struct argp_option plan_options[] = {
    {"iteration", 'i', "K", 0, "Plan of iteration K, counted from 0 (default: 0)", 0},
    {"system", 'y', "LABEL", 0, "Print only this system", 0},
    {0},
};
static const struct argp argp = {
    plan_options,
    parse,
    "SCENARIO.yaml",
    "Print the plan of each training system for one iteration, as JSON: samples, and for "
    "each pipeline its forward and backward micro-batches (slices as [sample, begin, end, cp]), "
    "formation, need and the order of each stage.",
    children,
    NULL,
    NULL};

/** Run iterations 0..K only on the critical path, since plans do not depend on the engine. */
static bool print_plans(const struct arguments *arguments, struct error *err)
{
    struct scenario scenario = {0};
    struct lengths lengths = {0};
    struct point point = {0};
    struct plan_search search = {0};
    struct collected collected = {arguments, &search, json_array()};
    bool ok = command_read(arguments->scenario, &arguments->options, &scenario, &lengths, err) &&
              (arguments->system == NULL ||
               scenario_find_system(&scenario, arguments->system, arguments->scenario, err) >= 0) &&
              plan_search_run(&scenario, &lengths, &arguments->options, &search, err);
    scenario.engine = SCENARIO_CRITICAL_PATH;
    scenario.trace = SCENARIO_TRACE_NONE;
    scenario.warm_up = 0;
    scenario.measured = arguments->iteration + 1;
    struct point_options options = {.observer = keep_plan, .context = &collected};
    ok = ok && point_run(&scenario, &lengths, &options, &point, err);
    if (ok)
        command_print_json(json_pack("{s:s, s:O}", "name", scenario.name, "systems", collected.systems));
    json_decref(collected.systems);
    plan_search_free(&search);
    point_free(&point);
    lengths_close(&lengths);
    scenario_free(&scenario);
    return ok;
}

int command_plan(int argc, char **argv)
{
    struct arguments arguments = {0};
    struct error err = {0};
    parse_arguments(&argp, argc, argv, &arguments);
    bool ok = print_plans(&arguments, &err);
    options_free(&arguments.options);
    return ok ? EXIT_SUCCESS : command_fail(&err);
}
