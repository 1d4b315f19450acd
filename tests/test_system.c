/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check the contract of training systems, on every row of the table. */
#include "bounds/lower_bound.h"
#include "bounds/memory.h"
#include "cost/flop.h"
#include "document/document_read.h"
#include "document/schema_text.h"
#include "hand_model.h"
#include "hand_request.h"
#include "harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const enum recompute recompute[] = {RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL};

/* A case is printed when it fails, as CUnit shows the text of the check. */
static void check_case(bool holds, const char *what, const char *of, const struct error *err)
{
    char text[1024];
    snprintf(text, sizeof text, "%s: %s %.400s", of, what, err->text);
    harness_true(holds, text, __FILE__, __LINE__);
}

static void check_runs(const struct hand_request *hand, const struct plan *plan, const char *of)
{
    struct error err = {0};
    struct dag dag = {0};
    struct timeline timeline = {0};
    bool built = dag_build(plan, &hand->setting, (struct dag_options){.gradient_sync = true}, &dag, &err);
    check_case(built, "its orders do not wait for each other in a circle", of, &err);
    if (built) {
        critical_path(&dag, &timeline);
        check_case(isfinite(timeline.makespan_s) && timeline.makespan_s > 0, "it takes time", of, &err);
    }
    timeline_free(&timeline);
    dag_free(&dag);
}

/* Padding fills a micro-batch up to whole contexts or to a multiple of eight tokens, and no micro-batch is empty. */
static void check_micro_batches(const struct hand_request *hand, const struct plan *plan, const char *of)
{
    struct error err = {0};
    for (int32_t i = 0; i < plan->phases[0].n_pipelines; i++)
        for (int pass = 0; pass < N_PASSES; pass++) {
            const struct plan_partition *partition = &plan->phases[0].pipelines[i].partition[pass];
            for (int32_t micro_batch = 0; micro_batch < partition->n_micro_batches; micro_batch++) {
                int64_t padding = partition->micro_batches[micro_batch].padding_tokens;
                check_case(padding == 0 ||
                               (plan_micro_batch_tokens(partition, micro_batch) + padding) % hand->request.context ==
                                   0 ||
                               (plan_micro_batch_tokens(partition, micro_batch) + padding) % 8 == 0,
                           "padding fills a micro-batch up to whole contexts or eights", of, &err);
                check_case(partition->micro_batches[micro_batch].n_slices > 0 || padding > 0, "no micro-batch is empty",
                           of, &err);
            }
        }
}

/* Find the end of the last pass and the largest memory of a plan. */
static void resolve_plan(const struct hand_request *hand, const struct plan *plan, const char *of, double *end_s,
                         double *peak_bytes)
{
    struct error err = {0};
    struct dag dag = {0};
    struct timeline timeline = {0};
    struct memory memory = {0};
    check_case(dag_build(plan, &hand->setting, (struct dag_options){.gradient_sync = false}, &dag, &err), "it runs", of,
               &err);
    critical_path(&dag, &timeline);
    memory_of(plan, &dag, &timeline, &hand->setting, false, &memory);
    *end_s = timeline.makespan_s;
    *peak_bytes = memory.peak_bytes[memory.worst_rank];
    memory_free(&memory);
    timeline_free(&timeline);
    dag_free(&dag);
}

/* Take the options of the plans that a search tries. */
static void take_options(struct hand_request *hand, const struct training_system *system)
{
    hand->request.layout.cp_type = (int32_t)system->context_type;
    hand->request.layout.sharding = (int32_t)system->sharding;
    hand->request.layout.shard_communication = (int32_t)system->shard_communication;
    hand->setting.on_demand_slowdown = system->shard_communication == SCENARIO_ON_DEMAND ? 3.5 : 0;
}

/* Make the plan of a request by a state of its own. */
static bool plan_anew(const struct training_system *system, const struct hand_request *hand, struct plan *plan,
                      struct error *err)
{
    void *state = calloc(1, system->state_size + 1);
    bool ok = system->plan(&hand->request, state, plan, err);
    if (system->close != NULL)
        system->close(state);
    free(state);
    return ok;
}

/* A limit that the plan keeps changes nothing. If the plan cannot keep it, the system may return an empty plan. */
static void check_limit(const struct training_system *system, struct hand_request *hand, struct plan *plan,
                        const char *of)
{
    struct error err = {0};
    double end_s, peak_bytes;
    struct plan limited = {0}, tight = {0};
    resolve_plan(hand, plan, of, &end_s, &peak_bytes);
    hand->request.limit_s = end_s * (1 + 1e-9);
    bool ok = plan_anew(system, hand, &limited, &err);
    hand->request.limit_s = end_s * 0.999;
    ok = ok && plan_anew(system, hand, &tight, &err);
    hand->request.limit_s = 0;
    check_case(ok, "it plans", of, &err);
    bool fits = peak_bytes <= hand->request.memory_bytes;
    plan->n_candidates = limited.n_candidates = tight.n_candidates = 0; /* more are ruled out */
    plan->n_resolved = limited.n_resolved = tight.n_resolved = 0;
    check_case(hand_same_plan(plan, &limited) || (!fits && limited.n_phases == 0), "a limit that holds changes nothing",
               of, &err);
    check_case(tight.n_phases == 0 || hand_same_plan(plan, &tight), "else it may be left away", of, &err);
    plan_free(&limited);
    plan_free(&tight);
}

/* Find the model FLOPs that a plan runs over those of its batch. */
static double work_share(const struct hand_request *hand, const struct plan *plan)
{
    const struct batch *batch = &hand->batch;
    double batch_flop = flop_model_of_samples(&hand->model, batch->tokens, batch->n_samples), flop = batch_flop;
    for (int32_t i = 0; i < plan->n_delayed; i++)
        flop -= hand_model_flop(&hand->model, batch->tokens[plan->delayed[i]]);
    return (flop + flop_model_of_samples(&hand->model, plan->carried_tokens, plan->n_carried)) / batch_flop;
}

/* Check that neither the bound of the request nor that of the plan is above the critical path. */
static void check_lower_bounds(const struct training_system *system, const struct hand_request *hand,
                               const struct plan *plan, const char *of)
{
    struct error err = {0};
    double end_s, peak_bytes, most = 1 + 1e-12;
    resolve_plan(hand, plan, of, &end_s, &peak_bytes);
    check_case(lower_bound_s(plan, &hand->setting) <= end_s * most, "lower_bound_s of the plan bounds it", of, &err);
    if (system->lower_bound_s != NULL)
        check_case(system->lower_bound_s(&hand->request) * work_share(hand, plan) <= end_s * most,
                   "lower_bound_s of the request bounds its plan", of, &err);
}

/* A system whose samples are whole has no other slices, and each sample is in one micro-batch of each pass. Padding may
 * follow a sample. */
static void check_whole_samples(const struct hand_request *hand, const struct plan *plan, const char *of)
{
    struct error err = {0};
    bool whole = true;
    for (int32_t i = 0; i < plan->n_phases; i++)
        for (int32_t j = 0; j < plan->phases[i].n_pipelines; j++)
            for (int pass = 0; pass < N_PASSES; pass++) {
                const struct plan_partition *partition = &plan->phases[i].pipelines[j].partition[pass];
                for (int32_t k = 0; k < partition->n_slices; k++) {
                    struct slice slice = partition->slices[k];
                    int32_t late = slice.sample - hand->batch.n_samples;
                    int32_t tokens = late < 0 ? hand->batch.tokens[slice.sample] : plan->carried_tokens[late];
                    whole =
                        whole && slice.begin == 0 && slice.end >= tokens && (slice.end == tokens || plan->n_padded > 0);
                }
                for (int32_t k = 0; k < partition->n_micro_batches; k++)
                    whole = whole && partition->micro_batches[k].group < 0;
            }
    check_case(whole, "its samples are whole", of, &err);
}

static void check_plan(const struct training_system *system, struct hand_request *hand, const char *of)
{
    struct error err = {0};
    struct plan plan = {0}, again = {0}, copy;
    bool ok = plan_anew(system, hand, &plan, &err) && plan_anew(system, hand, &again, &err);
    check_case(ok, "it plans", of, &err);
    if (ok) {
        check_case(plan_check(&plan, hand->batch.n_samples, hand->batch.tokens, &err), "the plan is sound", of, &err);
        check_case(hand_same_plan(&plan, &again), "same request, same plan", of, &err);
        plan_copy(&plan, &copy);
        check_case(hand_same_plan(&plan, &copy), "a copy is exact", of, &err);
        plan_free(&copy);
        check_case(plan.n_candidates > 0, "it weighed something", of, &err);
        check_case(system->state_size > 0 || plan.n_delayed + plan.n_carried + plan.delayed_tokens == 0,
                   "without a state no sample waits", of, &err);
        check_micro_batches(hand, &plan, of);
        check_runs(hand, &plan, of);
        check_lower_bounds(system, hand, &plan, of);
        if (system->whole_samples)
            check_whole_samples(hand, &plan, of);
        check_limit(system, hand, &plan, of);
    }
    plan_free(&plan);
    plan_free(&again);
}

/* Two of three layers have a window, which most samples exceed. The third has half the inner width. */
static void take_windows(struct hand_request *hand)
{
    struct model *model = &hand->model;
    int32_t n = cost_n_layers(&hand->setting);
    model->kinds[1] = model->kinds[0];
    model->kinds[1].ffn /= 2;
    model->kinds[0].window = 1 + hand->request.context / 16;
    model->n_runs = 2;
    model->pattern[0] = (struct model_run){0, 2};
    model->pattern[1] = (struct model_run){1, 1};
    hand_layers(&hand->setting, n);
    if (hand->request.layout.cp_type == SCENARIO_RING)
        hand->request.layout.cp_type = hand->setting.cp_type = SCENARIO_ALL_GATHER;
}

/* Two of three layers have experts, which the ranks of a pipeline or of several share if the system can. Every second
 * model has an unbalanced routing. */
static void take_experts(struct hand_request *hand, const struct training_system *system, uint64_t seed)
{
    struct model *model = &hand->model;
    int32_t n = cost_n_layers(&hand->setting), dp = (int32_t)hand->request.layout.dp;
    hand_experts(model);
    model->kinds[1].experts = 8 * 3 * 5 * 7;
    model->kinds[1].shared_ffn = seed % 3 == 0 ? 32 : 0;
    hand->setting.expert_imbalance = seed % 2 == 0 ? 1.25 : 1;
    struct scenario_plan *layout = &hand->request.layout;
    layout->ep = layout->sharding == SCENARIO_ZERO3 ? 1 : layout->cp * dp;
    layout->ep = system_takes_experts(system, layout) ? layout->ep : layout->cp;
    layout->ep = system_takes_experts(system, layout) ? layout->ep : 1;
    hand->setting.expert_ranks = (int32_t)layout->ep;
    hand_layers(&hand->setting, n);
}

/* A random batch has these beside its knobs. */
struct variant {
    struct scenario_stages stages; /* if there are several */
    bool windows, experts;
};

/* Check one random batch. `knobs` are as a user gives them. */
static void check_batch(const struct training_system *system, enum hand_law law, uint64_t seed, int32_t most_context,
                        const char *knobs, struct variant variant)
{
    struct hand_request hand;
    char of[256];
    uint64_t state = seed;
    int32_t dp = 1 + hand_below(&state, 8), pp = 1 + hand_below(&state, system->degrees & SYSTEM_PP ? 4 : 1);
    int32_t context = seed % 7 == 0 ? 1 + hand_below(&state, 30) : 1 + hand_below(&state, most_context);
    int32_t n_samples = seed % 5 == 0 ? 1 : 1 + hand_below(&state, seed % 3 == 0 ? 6 : 40);
    hand_request_real(&hand, dp, pp, context);
    hand_heads(&hand.model, seed);
    hand.request.layout.recompute = (int32_t)recompute[hand_below(&state, 3)];
    if (hand_below(&state, 4) == 0)
        hand.request.memory_bytes = 0; /* nothing fits, which is a result, not an error */
    if (system->degrees & SYSTEM_CP && hand_below(&state, 3) == 0)
        hand.request.layout.cp = 2;
    take_options(&hand, system);
    if (pp > 1)
        hand.request.layout.stages = variant.stages;
    hand_options(&hand.setting, &hand.request.layout);
    for (int32_t stage = 0, n = 0; stage < pp && n == 0; stage++) { /* as request_setting */
        n = scenario_stage_layers(&hand.request.layout.stages, hand.model.layers, pp, 1, stage);
        hand_layers(&hand.setting, n);
    }
    if (pp == 1 && hand_below(&state, 2) == 0)
        hand.model.layers = 1 + hand_below(&state, 4);
    if (pp == 1)
        hand_layers(&hand.setting, (int32_t)hand.model.layers);
    if (variant.windows)
        take_windows(&hand);
    if (variant.experts)
        take_experts(&hand, system, seed);
    hand.request.layout.offload = 0.25 * hand_below(&state, 5);
    hand_batch_of(&hand, law, n_samples, seed);
    hand_knobs(&hand, system, knobs);
    if (hand.request.layout.offload_mode == SCENARIO_OFFLOAD_NEVER)
        hand.request.layout.offload = 0;
    snprintf(of, sizeof of, "%s (knobs \"%s\", law %d, seed %d: DP %d, PP %d, context %d, %d samples)", system->name,
             knobs, (int)law, (int)seed, dp, pp, context, n_samples);
    check_plan(system, &hand, of);
    hand_request_free(&hand);
}

TEST(contract__holds_for_every_system)
{
    for (int32_t i = 0; training_systems[i] != NULL; i++)
        for (uint64_t seed = 0; seed < 40; seed++)
            check_batch(training_systems[i], (enum hand_law)(seed % HAND_N_LAWS), seed, 20000, "", (struct variant){0});
}

/* Stages differ by one layer or more, or the first or last has none. */
TEST(contract__holds_with_uneven_stages)
{
    static const struct scenario_stages stages[] = {
        {.spread = SCENARIO_EVEN, .count_head = true},      {.spread = SCENARIO_EVEN, .first_layers = {1, 0}},
        {.spread = SCENARIO_EVEN, .last_layers = {1, 0}},   {.spread = SCENARIO_EVEN, .first_layers = {1, 700}},
        {.spread = SCENARIO_EVEN, .last_layers = {1, 501}},
    };
    for (int32_t i = 0; training_systems[i] != NULL; i++)
        for (uint64_t seed = 300; seed < 315 && training_systems[i]->degrees & SYSTEM_PP; seed++)
            check_batch(training_systems[i], (enum hand_law)(seed % HAND_N_LAWS), seed, 20000, "",
                        (struct variant){.stages = stages[seed % 5]});
}

TEST(contract__holds_with_two_kinds_of_layers_and_windows)
{
    for (int32_t i = 0; training_systems[i] != NULL; i++)
        for (uint64_t seed = 300; seed < 310; seed++)
            check_batch(training_systems[i], (enum hand_law)(seed % HAND_N_LAWS), seed, 20000, "",
                        (struct variant){.windows = true});
}

TEST(contract__holds_with_experts_and_latent_attention)
{
    for (int32_t i = 0; training_systems[i] != NULL; i++)
        for (uint64_t seed = 300; seed < 310; seed++)
            check_batch(training_systems[i], (enum hand_law)(seed % HAND_N_LAWS), seed, 20000, "",
                        (struct variant){.experts = true});
}

/* The plan's own ring is refused by layout_check. These systems form rings by themselves. */
TEST(contract__refuses_windows_on_rings_by_name)
{
    static const char *const names[] = {"bytescale", "megatron-dynamic-cp", "megatron-default-dynamic-cp", "slimpack"};
    for (int i = 0; i < 4; i++) {
        struct hand_request hand;
        struct error err = {0};
        struct plan plan = {0};
        char text[160];
        const struct training_system *system = system_find(names[i], &err);
        hand_request_real(&hand, 2, 1, 4000);
        take_windows(&hand);
        hand.request.layout.cp_type = hand.setting.cp_type = SCENARIO_RING;
        hand_batch(&hand, 2, (int32_t[]){4000, 100});
        hand_knobs(&hand, system, "");
        CHECK_TRUE(!plan_anew(system, &hand, &plan, &err));
        snprintf(text, sizeof text,
                 "%s: plan.cp_type: a ring does not run the sliding windows of model %s; allowed: ", names[i],
                 hand.model.name);
        CHECK_CONTAINS(err.text, text);
        hand_request_free(&hand);
    }
}

TEST(contract__holds_with_every_offload)
{
    for (int32_t i = 0; training_systems[i] != NULL; i++)
        for (uint64_t seed = 200; seed < 208; seed++)
            check_batch(training_systems[i], (enum hand_law)(seed % HAND_N_LAWS), seed, 20000,
                        seed % 2 == 0 ? "offload: plan" : "offload: never", (struct variant){0});
}

/* Make the plan of a request with other values of the features that the system decides. */
static void check_decisions(const struct training_system *system, struct hand_request *hand, uint64_t seed,
                            const char *of)
{
    struct error err = {0};
    struct plan plan = {0}, other = {0};
    struct scenario_plan *layout = &hand->request.layout;
    unsigned decides = system_decides(system, hand->request.knobs, layout);
    check_case(plan_anew(system, hand, &plan, &err), "it plans", of, &err);
    if (decides & SYSTEM_RECOMPUTE)
        layout->recompute = (int32_t)recompute[1 + seed % 2];
    if (decides & SYSTEM_OFFLOAD)
        layout->offload = 0.25 * (1 + (double)(seed % 4));
    if (decides & SYSTEM_SCHEDULE)
        layout->schedule = (int32_t)(1 + seed % (SCENARIO_N_SCHEDULES - 1));
    check_case(plan_anew(system, hand, &other, &err), "it plans", of, &err);
    check_case(hand_same_plan(&plan, &other), "what it decides itself, the request does not change", of, &err);
    check_lower_bounds(system, hand, &other, of);
    plan_free(&plan);
    plan_free(&other);
}

/* In half of the cases memory is just less than the plan takes, so systems that fit plans to memory do. */
TEST(contract__what_a_system_decides_the_request_does_not_change)
{
    for (int32_t i = 0; training_systems[i] != NULL; i++)
        for (uint64_t seed = 0; seed < 24 && training_systems[i]->decides != NULL; seed++) {
            const struct training_system *system = training_systems[i];
            struct hand_request hand;
            struct error err = {0};
            struct plan plan = {0};
            char of[128];
            double end_s, peak_bytes;
            hand_request_real(&hand, 1 + (int32_t)seed % 4, system->degrees & SYSTEM_PP ? 1 + (int32_t)seed % 3 : 1,
                              8000);
            hand_heads(&hand.model, seed);
            take_options(&hand, system);
            hand_options(&hand.setting, &hand.request.layout);
            hand_batch_of(&hand, (enum hand_law)(seed % HAND_N_LAWS), 12, seed);
            hand_knobs(&hand, system, "");
            snprintf(of, sizeof of, "%s, seed %d", system->name, (int)seed);
            check_case(plan_anew(system, &hand, &plan, &err), "it plans", of, &err);
            resolve_plan(&hand, &plan, of, &end_s, &peak_bytes);
            if (seed % 2 == 1)
                hand.request.memory_bytes = 0.9 * peak_bytes;
            plan_free(&plan);
            check_decisions(system, &hand, seed, of);
            hand_request_free(&hand);
        }
}

/* Give a value of a knob: each choice, a switch turned, numbers from their least on. @return whether there is a
 * choice-th */
static bool knob_value(const struct schema_key *key, int32_t choice, char value[64])
{
    int32_t n_choices = key->type == SCHEMA_BOOL ? 1 : 3;
    if (key->type == SCHEMA_CHOICE) {
        n_choices = 1;
        for (const char *c = key->choices; *c != '\0'; c++)
            n_choices += *c == '|';
        if (choice < n_choices)
            schema_choice_name(key->choices, choice, value);
    } else if (key->type == SCHEMA_BOOL) {
        snprintf(value, 64, "%s", strcmp(key->fallback, "true") == 0 ? "false" : "true");
    } else {
        snprintf(value, 64, "%.9g", fmin(key->max, key->min + choice * (key->type == SCHEMA_REAL ? 0.4 : 3)));
    }
    return choice < n_choices;
}

/* Each switch is turned and each choice taken, one at a time. The test above has the defaults of knobs. min_cp and pool
 * must suit the ranks, and refusals are tested with their systems. */
TEST(contract__holds_for_every_knob)
{
    for (int32_t i = 0; training_systems[i] != NULL; i++)
        for (int32_t k = 0; k < training_systems[i]->n_knobs; k++) {
            const struct schema_key *key = &training_systems[i]->knobs[k];
            char value[64] = "", line[160];
            bool must_suit = strcmp(key->name, "min_cp") == 0 || strcmp(key->name, "pool") == 0;
            if (key->type == SCHEMA_WORD || must_suit) /* a word may be of the system's own language */
                continue;
            for (int32_t choice = 0; knob_value(key, choice, value); choice++) {
                if (strcmp(value, key->fallback) == 0)
                    continue;
                snprintf(line, sizeof line, "%s: %s", key->name, value);
                for (uint64_t seed = 100; seed < 102; seed++)
                    check_batch(training_systems[i], (enum hand_law)((seed + (uint64_t)choice) % HAND_N_LAWS),
                                seed + 10 * (uint64_t)choice, 2000, line, (struct variant){0});
            }
        }
}

/* Ranks that share a micro-batch would cut it differently. */
static bool takes(const struct training_system *system, int32_t schedule)
{
    bool cuts = schedule == SCENARIO_SEQ1F1B || schedule == SCENARIO_TERAPIPE;
    return system->decides == NULL && !(cuts && strcmp(system->name, "megatron-default-dynamic-cp") == 0);
}

/* Every schedule runs on micro-batches of every system that takes it. */
TEST(schedules__run_with_every_system_that_takes_them)
{
    for (int32_t i = 0; training_systems[i] != NULL; i++)
        for (int32_t round = 0; round < 5 * SCENARIO_N_SCHEDULES; round++) {
            if (!takes(training_systems[i], round % SCENARIO_N_SCHEDULES))
                continue;
            struct hand_request hand;
            struct error err = {0};
            struct plan plan = {0};
            char of[128];
            void *state = calloc(1, training_systems[i]->state_size + 1);
            int32_t schedule = round % SCENARIO_N_SCHEDULES;
            hand_request_real(&hand, 1 + round % 3, 1 + round % 4, 2000);
            hand_heads(&hand.model, (uint64_t)round);
            hand.request.layout.schedule = schedule;
            hand.request.layout.cp_type = (int32_t)training_systems[i]->context_type;
            hand.request.layout.cp = training_systems[i]->degrees & SYSTEM_CP && round % 2 == 1 ? 2 : 1;
            hand_options(&hand.setting, &hand.request.layout);
            hand_batch_of(&hand, (enum hand_law)(round % HAND_N_LAWS), 20, (uint64_t)round);
            hand_knobs(&hand, training_systems[i], "");
            snprintf(of, sizeof of, "%s, schedule %d, round %d", training_systems[i]->name, schedule, round);
            bool ok = training_systems[i]->plan(&hand.request, state, &plan, &err);
            check_case(ok, "it plans", of, &err);
            ok = ok && plan_check(&plan, hand.batch.n_samples, hand.batch.tokens, &err);
            check_case(ok, "the plan is sound", of, &err);
            if (ok)
                check_runs(&hand, &plan, of);
            plan_free(&plan);
            if (training_systems[i]->close != NULL)
                training_systems[i]->close(state);
            free(state);
            hand_request_free(&hand);
        }
}

/* Check the share of each micro-batch on one rank with memory for nine tenths of what it holds without offload. */
static void check_offload(const char *name, const char *knobs, double share, bool decided)
{
    struct hand_request hand;
    struct error err = {0};
    struct plan plan = {0};
    const struct training_system *system = system_find(name, &err);
    double end_s, peak_bytes;
    char of[96];
    snprintf(of, sizeof of, "%s, %s, share %g", name, knobs, share);
    hand_request_real(&hand, 1, 1, 100000);
    hand_batch(&hand, 1, (int32_t[]){100000});
    hand_knobs(&hand, system, "offload: never");
    check_case(plan_anew(system, &hand, &plan, &err), "it plans", of, &err);
    resolve_plan(&hand, &plan, of, &end_s, &peak_bytes);
    check_case(!plan_offloads(plan.phases[0].pipelines), "never offloads nothing", of, &err);
    plan_free(&plan);
    hand_knobs(&hand, system, knobs);
    hand.request.layout.offload = share;
    hand.request.memory_bytes = 0.9 * peak_bytes;
    check_case(plan_anew(system, &hand, &plan, &err), "it plans", of, &err);
    const struct plan_pipeline *pipeline = plan.phases[0].pipelines;
    for (int32_t i = 0; i < pipeline->partition[PASS_FORWARD].n_micro_batches; i++) {
        double away = plan_offload(pipeline, i, 0);
        check_case(decided ? away > 0 : away == request_offload_share(&hand.request, share),
                   "it offloads as the mode says", of, &err);
    }
    plan_free(&plan);
    hand_request_free(&hand);
}

TEST(offload__is_none_the_plans_or_the_systems)
{
    static const char *const names[] = {"best-fit", "slimpack", "bytescale"};
    static const char *const knobs[][3] = {
        {"offload: never", "offload: plan", "offload: auto"},
        {"{offload: never, slicing: false}", "{offload: plan, slicing: false}", "{offload: auto, slicing: false}"},
        {"{offload: never, capacity: 1000}", "{offload: plan, capacity: 1000}", "{offload: auto, capacity: 1000}"}};
    for (int i = 0; i < 3; i++) {
        bool decides = strcmp(names[i], "best-fit") != 0;
        check_offload(names[i], knobs[i][SCENARIO_OFFLOAD_NEVER], 0, false);
        check_offload(names[i], knobs[i][SCENARIO_OFFLOAD_PLAN], 0.5, false);
        check_offload(names[i], knobs[i][SCENARIO_OFFLOAD_AUTO], decides ? 0 : 0.5, decides);
    }
}

TEST(system_find__finds_systems_by_name)
{
    struct error err = {0};
    for (int32_t i = 0; training_systems[i] != NULL; i++)
        CHECK_TRUE(system_find(training_systems[i]->name, &err) == training_systems[i]);
    CHECK_TRUE(system_find("slimpak", &err) == NULL);
    CHECK_CONTAINS(err.text, "did you mean 'slimpack'?");
}

TEST(knobs__are_read_from_the_scenario)
{
    static const char text[] = "systems:\n  - name: slimpack\n    knobs: {min_slice: 512, slicign: false}\n";
    struct scenario scenario = {0};
    struct error err = {0};
    CHECK_TRUE(document_parse(text, sizeof text - 1, "a.yaml", &scenario.document, &err));
    int32_t first = scenario.document.node[document_find(&scenario.document, 0, "systems")].child;
    struct scenario_system entry = {.knobs = document_find(&scenario.document, first, "knobs")};
    char knobs[256];
    const struct training_system *system = system_find("slimpack", &err);
    CHECK_TRUE(!system_read_knobs(system, &scenario, &entry, knobs, &err));
    CHECK_CONTAINS(err.text, "a.yaml:3:29: knobs.slicign: unknown key; did you mean 'slicing'?");
    document_free(&scenario.document);
}
