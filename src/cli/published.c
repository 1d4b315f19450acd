/* SPDX-License-Identifier: GPL-3.0-or-later */
/* `slimsim published`: FlexSP's plans and their seconds as its authors' constants predict them; nothing is simulated.
 */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "cli/commands.h"
#include "system/flexsp_groups.h"
#include "system/samples.h"

struct arguments {
    struct options options;
    const char *scenario, *constants;
};

static json_t *json_of_group(const struct flexsp_group *group, const int32_t *tokens)
{
    json_t *lengths = json_array();
    for (int32_t i = 0; i < group->n; i++)
        json_array_append_new(lengths, json_integer(tokens[group->sequence[i]]));
    return json_pack("{s:i, s:i, s:f, s:o}", "micro_batch", group->micro_batch, "degree", 1 << group->level,
                     "predicted_s", group->seconds, "tokens", lengths);
}

static json_t *json_of(int64_t iteration, const struct flexsp_result *result, const int32_t *tokens)
{
    json_t *groups = json_array();
    for (int32_t i = 0; i < result->n_groups; i++)
        json_array_append_new(groups, json_of_group(&result->groups[i], tokens));
    return json_pack("{s:I, s:f, s:f, s:f, s:i, s:o}", "iteration", (json_int_t)iteration, "predicted_s",
                     flexsp_predicted_s(result), "planned_s", result->planned_s, "gap", result->gap, "micro_batches",
                     result->n_micro_batches, "groups", groups);
}

static void print_text(int64_t iteration, const struct flexsp_result *result)
{
    printf("iteration %lld: %d micro-batches, predicted %.6f s (planned %.6f s, gap %.2f%%)\n", (long long)iteration,
           result->n_micro_batches, flexsp_predicted_s(result), result->planned_s, 100 * result->gap);
    for (int32_t group = 0; group < result->n_groups;) {
        int32_t n[FLEXSP_LEVELS] = {0}, first = group, number = result->groups[group].micro_batch;
        double seconds = flexsp_micro_batch_s(result, &group);
        printf("  micro-batch %d: %.6f s, groups of", number, seconds);
        for (int32_t i = first; i < group; i++)
            n[result->groups[i].level]++;
        for (int32_t level = FLEXSP_LEVELS - 1; level >= 0; level--)
            if (n[level] > 0)
                printf(" %dx%d", n[level], 1 << level);
        putchar('\n');
    }
}

/** Samples of one iteration, longest first. Caller frees. */
static int32_t *lengths_of(const struct scenario *scenario, const struct lengths *lengths, int64_t iteration,
                           int32_t *n)
{
    struct batch batch;
    lengths_draw(lengths, &scenario->data, scenario->seed, iteration, &batch);
    int32_t *order = samples_by_length(&batch), *tokens = check_malloc((size_t)batch.n_samples * sizeof *tokens);
    for (int32_t i = 0; i < batch.n_samples; i++)
        tokens[i] = batch.tokens[order[i]];
    *n = batch.n_samples;
    free(order);
    batch_free(&batch);
    return tokens;
}

static void predict(const struct arguments *arguments, const struct scenario *scenario, const struct lengths *lengths,
                    const struct flexsp_problem *problem)
{
    json_t *iterations = arguments->options.json ? json_array() : NULL;
    if (iterations == NULL)
        printf("%s on %d GPUs with room for %lld tokens each, by %s\n", scenario->model.name, problem->n_ranks,
               (long long)problem->capacity, arguments->constants);
    for (int64_t i = scenario->warm_up; i < scenario->warm_up + scenario->measured; i++) {
        struct flexsp_result result;
        int32_t n, *tokens = lengths_of(scenario, lengths, i, &n);
        flexsp_solve(problem, tokens, n, &result);
        if (iterations != NULL)
            json_array_append_new(iterations, json_of(i, &result, tokens));
        else
            print_text(i, &result);
        flexsp_result_free(&result);
        free(tokens);
    }
    if (iterations != NULL)
        command_print_json(iterations);
}

static const struct argp_child children[] = {OPTION(set), OPTION(json), {0}};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    if (key == ARGP_KEY_INIT)
        options_begin(&arguments->options, children, state);
    if (key == 'c')
        arguments->constants = argument;
    if (key == ARGP_KEY_INIT || key == 'c')
        return 0;
    return options_parse_file(key, argument, state, "a scenario", &arguments->scenario);
}

static const struct argp_option published_options[] = {
    {"constants", 'c', "NAME", 0, "Of model/published_cost, or a .yaml file (default: flexsp-7b)", 0}, {0}};
static const struct argp argp = {
    published_options,
    parse,
    "SCENARIO.yaml",
    "Plan the scenario's batches for its model and number of GPUs; device and systems of the scenario do not count.",
    children,
    NULL,
    NULL};

int command_published(int argc, char **argv)
{
    struct arguments arguments = {.constants = "flexsp-7b"};
    struct scenario scenario = {0};
    struct lengths lengths = {0};
    struct published_cost published;
    struct error err = {0};
    argp_parse(&argp, argc, argv, 0, NULL, &arguments);
    bool ok = command_read(arguments.scenario, &arguments.options, &scenario, &lengths, &err) &&
              published_cost_read(scenario_data_dir(), arguments.constants, &published, &err);
    /* As the knobs of the system flexsp are by default. */
    struct flexsp_problem problem = {.n_buckets = 16, .n_trials = 5, .node_limit = 100, .max_columns = 600};
    problem.n_ranks = ok ? platform_n_gpus(&scenario.platform) : 1;
    struct error why = {0};
    if (ok && !flexsp_published(&published, &scenario.model, &problem, &why))
        ok = error_set(&err, "%s: platform %s, model %s and constants %s: %.512s", arguments.scenario,
                       scenario.platform.name, scenario.model.name, arguments.constants, why.text);
    if (ok)
        predict(&arguments, &scenario, &lengths, &problem);
    lengths_close(&lengths);
    scenario_free(&scenario);
    options_free(&arguments.options);
    return ok ? EXIT_SUCCESS : command_fail(&err);
}
