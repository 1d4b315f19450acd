/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "answer/explanation.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "document/document_read.h"
#include "scenario/scenario_read.h"

#define STEP(id, key, name) #key,
const char *const explain_step_key[] = {
#include "answer/explain_step.def"
};
#undef STEP
#define STEP(id, key, name) name,
const char *const explain_step_name[] = {
#include "answer/explain_step.def"
};
#undef STEP

/** Fill in the steps from the sums over iterations. */
static void fill_shares(const struct scenario *scenario, const struct trace_summary *summary,
                        const struct free_costs *costs, double *share)
{
    const struct bubble *bubble = &summary->bubble;
    const struct work *least = &costs->least;
    double peak = scenario->device.peak_flop_per_s[PRECISION_BF16], gpus = platform_n_gpus(&scenario->platform);
    double all_s = gpus * ((double)scenario->measured * summary->time_mean_s), model_s = summary->mfu * all_s;
    double beside_s = bubble->busy_s - summary->tensor_s - summary->shard_s - summary->expert_s - costs->kernels_s -
                      costs->wait_s; /* optimizer */
    const struct work *excess = &costs->imbalance;
    double own_peak = scenario->device.peak_flop_per_s[scenario->precision], in_fp8 = 1 / peak - 1 / own_peak;
    double experts_s = least->expert_product_s - excess->product_s,
           experts_flop = least->expert_product_flop - excess->product_flop;
    double dense_s = least->product_s - least->expert_product_s,
           dense_flop = least->product_flop - least->expert_product_flop;
    double experts_fp8 = scenario->precision == PRECISION_BF16 ? 0 : experts_flop,
           fp8_flop = least->fp8_flop - (scenario->precision == PRECISION_BF16 ? 0 : excess->product_flop);
    share[EXPLAIN_PRODUCTS] = dense_s - dense_flop / peak + (fp8_flop - experts_fp8) * in_fp8;
    share[EXPLAIN_EXPERT_PRODUCTS] = experts_s - experts_flop / peak + experts_fp8 * in_fp8;
    share[EXPLAIN_CASTS] = least->cast_s - excess->cast_s;
    share[EXPLAIN_FP8] = -fp8_flop * in_fp8;
    share[EXPLAIN_ATTENTION] = least->attention_s - (least->hardware_flop - least->product_flop) / peak;
    share[EXPLAIN_OTHER_KERNELS] = least->kernels_s - least->product_s - least->cast_s - least->attention_s + beside_s -
                                   (excess->kernels_s - excess->product_s - excess->cast_s);
    share[EXPLAIN_LAUNCHES] = costs->wait_s;
    share[EXPLAIN_PADDING] = costs->padding_s;
    share[EXPLAIN_RECOMPUTATION] = costs->recomputed_s;
    share[EXPLAIN_UNCOUNTED] = (least->hardware_flop - excess->product_flop) / peak - model_s;
    share[EXPLAIN_TENSOR] = summary->tensor_s;
    share[EXPLAIN_SHARDS] = summary->shard_s;
    double back =
        summary->expert_s > 0 ? costs->combine_s / summary->expert_s : 0; /* contention slows both ways down */
    share[EXPLAIN_COMBINE] = costs->combine_s - excess->combine_s + back * bubble->expert_wait_s;
    share[EXPLAIN_EXPERTS] = summary->expert_s - excess->expert_s + bubble->expert_wait_s - share[EXPLAIN_COMBINE];
    share[EXPLAIN_EXPERT_IMBALANCE] = excess->kernels_s + excess->expert_s;
    share[EXPLAIN_CONTEXT] = bubble->ring_s;
    share[EXPLAIN_WARM_UP] = bubble->warm_up_s;
    share[EXPLAIN_IMBALANCE] = bubble->imbalance_s;
    share[EXPLAIN_COOL_DOWN] = bubble->cool_down_s;
    share[EXPLAIN_WAITING] = bubble->dp_wait_s + (all_s - bubble->total_s);
    share[EXPLAIN_GRADIENTS] = bubble->sync_s;
    share[EXPLAIN_RESHARD] = bubble->reshard_s;
    share[EXPLAIN_MFU] = model_s;
    for (int i = 0; i < EXPLAIN_N_STEPS; i++)
        share[i] /= all_s;
}

/** Make the explanation of a system from the sums over its measured iterations. */
static struct explained explained_of(const struct scenario *scenario, const struct trace_summary *summary,
                                     const struct free_costs *costs)
{
    struct explained explained = {.label = scenario->systems[summary->system].label, .summary = *summary};
    fill_shares(scenario, summary, costs, explained.share);
    for (int i = 0; i < PATH_N_CLASSES; i++)
        explained.path.seconds[i] = costs->path.seconds[i] / (double)scenario->measured;
    for (int i = 0; i < N_FREE_COSTS; i++)
        explained.gain[i] = costs->base_s / costs->free_s[i] - 1;
    return explained;
}

/** Rank the systems, each of which ran in a question of its own. @param standings  [n_systems], the best first */
static void rank(const struct scenario *scenario, struct what_ifs *runs, struct trace_summary *summaries,
                 struct standing *standings)
{
    struct point point = {.n_systems = runs->n, .systems = check_calloc((size_t)runs->n, sizeof *point.systems)};
    for (int32_t i = 0; i < runs->n; i++) {
        const struct point_result *result = &runs->at[i].result;
        struct point_system *system = &point.systems[i];
        system->iterations = check_calloc((size_t)result->n_iterations, sizeof *system->iterations);
        for (int32_t k = 0; k < result->n_iterations; k++)
            system->iterations[k].row = result->iterations[k];
        summaries[i] = *result->summary;
        summaries[i].system = i;
    }
    standings_of(scenario, &point, summaries, standings);
    point_free(&point);
}

/** Run questions none of which may be refused. */
static bool run(struct what_ifs *questions, const struct what_if_options *options, struct error *err)
{
    bool ok = what_if_run(questions, options, err);
    for (int32_t i = 0; ok && i < questions->n; i++)
        ok = what_if_refusal(&questions->at[i]) == NULL || error_set(err, "%s", what_if_refusal(&questions->at[i]));
    return ok;
}

/** Return about how long it takes to price plans, in runs of a system. A search takes longer than that. */
static double priced_work(const struct scenario *scenario)
{
    bool searched = false;
    for (int32_t i = 0; i < scenario->n_systems; i++)
        searched = searched || scenario->systems[i].auto_plan;
    return searched ? 0.5 : 3;
}

/** Price the plans that a system ran with. Its scenario, which then has them, runs on the critical path. */
static bool price(const struct what_if *ran, const struct what_if_options *options, struct what_ifs *priced,
                  struct error *err)
{
    struct document document = {0};
    struct what_if_options how = *options;
    char *name = check_asprintf("%s, each cost at zero", ran->name);
    const char *text = ran->result.scenario;
    CHECK(document_parse(text, strlen(text), "scenario", &document, err)); /* the program wrote it */
    what_if_add(priced, name, &document)->priced = true;
    how.critical_path = true;
    free(name);
    document_free(&document);
    return run(priced, &how, err);
}

/** Explain the systems that were asked for, the best first. */
static bool explain(const struct scenario *scenario, struct what_ifs *runs, const struct explanation_options *options,
                    struct explanations *explanations, struct error *err)
{
    struct trace_summary *summaries = check_calloc((size_t)runs->n, sizeof *summaries);
    struct standing *standings = check_calloc((size_t)runs->n, sizeof *standings);
    struct what_ifs priced = {0};
    bool ok = true;
    rank(scenario, runs, summaries, standings);
    explanations->at = check_calloc((size_t)runs->n, sizeof *explanations->at);
    for (int32_t i = 0; ok && i < runs->n; i++) {
        int32_t system = standings[i].system;
        const struct what_if *question = &runs->at[system];
        if (options->system >= 0 ? system != options->system : i > 0 && !options->all)
            continue;
        if (!question->priced) {
            progress_expect(options->how->progress, priced_work(scenario), 0, 0);
            ok = price(question, options->how, &priced, err);
            question = priced.at;
        }
        if (ok)
            explanations->at[explanations->n++] =
                explained_of(scenario, &summaries[system], question->result.free_costs);
    }
    what_if_free(&priced);
    free(summaries);
    free(standings);
    return ok;
}

bool explanations_find(const struct scenario *scenario, const struct explanation_options *options,
                       struct explanations *explanations, struct error *err)
{
    struct what_ifs runs = {0};
    bool later = !options->all && options->system < 0 && scenario->n_systems > 1; /* the first is not known yet */
    *explanations = (struct explanations){0};
    if (!scenario_refuse_replay(scenario, "not of their kernels, so nothing explains their MFU", err))
        return false;
    for (int32_t i = 0; i < scenario->n_systems; i++) {
        struct what_if *question = what_if_add(&runs, scenario->systems[i].label, &scenario->document);
        document_keep_entry(&question->document, "systems", i);
        what_if_set(question, "trace", "summary"); /* iterations are kept */
        question->priced = !later && (options->system < 0 || options->system == i);
    }
    progress_expect(options->how->progress, 1, later, later ? priced_work(scenario) : 0);
    bool ok = run(&runs, options->how, err) && explain(scenario, &runs, options, explanations, err);
    what_if_free(&runs);
    return ok;
}

void explanations_free(struct explanations *explanations)
{
    free(explanations->at);
    *explanations = (struct explanations){0};
}
