/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This system is FlexSP. Every rank holds a share of the whole model (ZeRO-3), and sequences run on groups of ranks by
 * Ulysses. Groups of different powers of two run at the same time.
 *
 * 1. A batch becomes micro-batches, one after the other. Each is a phase, because ZeRO-3's gathers bind all ranks.
 * 2. In a micro-batch each group runs its sequences, whole and packed, as one micro-batch. Widest groups have the
 * lowest ranks.
 * 3. flexsp_solve (system/flexsp_groups.h) decides the sequences of each group. The plan's gap is the gap of a
 *    micro-batch's C that branch and bound leaves, or the greedy if the program is too large.
 * 4. With `degree` all groups have one fixed degree: the paper's baseline.
 * 5. The planner's costs are (a1 s^2 + a2 s)/d + b1 + all-to-all. They are profiled on one micro-batch of the tokens
 * that a rank has memory for. Attention gives a1, the rest gives a2, and the exposed part of ZeRO-3's collectives gives
 * b1. The all-to-all comes from a micro-batch that fills a group of each degree.
 *
 * Source: Wang et al. 2025 (arXiv:2412.01523), from a summary. The profile and the greedy are added here. Degrees are
 * not limited by the number of heads, because the published table of bandwidths goes beyond it.
 *
 * Deviates: - Sequences over the limit are dropped by the scenario's data.long_documents: drop, not here. A batch's
 * samples all
 *   run, and if no group has memory for one, the plan does not fit.
 * - The authors give their solver seconds. Here it has nodes, and starts from the greedy's groups. From some 32 ranks
 *   on a micro-batch of all buckets has more than `columns` columns. The greedy's groups then stay, and their gap is
 *   reported.
 * - The authors' code leaves groups of one rank out. Here there are some, as in the paper.
 * - Creating communication groups takes no time, because they are created once. Groups are aligned blocks, and a rank
 *   is in one of each size.
 */
#include "system/system.h"

#include <stdlib.h>

#include "base/check.h"
#include "bounds/batch_bound.h"
#include "dag/dag.h"
#include "packing/packing.h"
#include "packing/samples.h"
#include "plan/order.h"
#include "system/flexsp_groups.h"

struct flexsp_knobs {
    int32_t degree; /* 0: the groups of flexsp_solve; otherwise 1 + the level of all groups */
    int64_t capacity, buckets, trials, nodes, columns;
};

static bool check_request(const struct plan_request *request, struct error *err)
{
    if (request->layout.sharding != SCENARIO_ZERO3)
        return error_set(err, "flexsp: plan.sharding must be zero3: no rank holds the whole model's states");
    if (request->layout.cp_type != SCENARIO_ULYSSES)
        return error_set(err, "flexsp: plan.cp_type must be ulysses: its groups exchange heads for tokens");
    return true;
}

/* Return the cost of both passes of one sequence of `tokens` tokens in a micro-batch of its own on 2^level ranks. */
static struct cost_pass profile(const struct plan_request *request, int32_t tokens, int32_t level)
{
    struct plan_phase phase = {0};
    struct batch batch = {.n_samples = 1, .tokens = &tokens};
    int32_t sample = 0;
    request_megatron_layout(request, &phase);
    struct plan_pipeline *pipeline = &phase.pipelines[0];
    packing_add_micro_batch(request, batch.tokens, &sample, 1, pipeline);
    for (int pass = 0; pass < N_PASSES; pass++)
        pipeline->partition[pass].micro_batches[0].context = 1 << level;
    struct cost_pass both = dag_pass_cost(pipeline, request->setting, PASS_FORWARD, 0, 0);
    struct cost_pass backward = dag_pass_cost(pipeline, request->setting, PASS_BACKWARD, 0, 0);
    both.kernels_s += backward.kernels_s;
    both.attention_s += backward.attention_s;
    both.shard_s += backward.shard_s;
    both.context_s += backward.context_s;
    plan_phase_free(&phase);
    return both;
}

static struct flexsp_cost cost_of(const struct plan_request *request, int64_t capacity)
{
    int32_t widest = flexsp_widest((int32_t)request->layout.dp);
    int32_t tokens = (int32_t)(capacity < 1 ? 1 : capacity < request->context ? capacity : request->context);
    struct cost_pass one = profile(request, tokens, 0);
    struct flexsp_cost cost = {.quadratic_s = one.attention_s / tokens / tokens,
                               .linear_s = one.kernels_s / tokens,
                               .constant_s = one.shard_s};
    for (int32_t level = 1; level <= widest; level++) {
        int32_t shared = (int64_t)tokens << level < INT32_MAX ? tokens << level : INT32_MAX;
        cost.exchange_s[level] = profile(request, shared, level).context_s / shared;
    }
    return cost;
}

/* Add a group's sequences as one micro-batch of its ranks. */
static void add_group(const struct plan_request *request, const struct flexsp_group *group, const int32_t *order,
                      int32_t first_rank, struct plan_phase *phase)
{
    int32_t *sample = check_malloc((size_t)group->n * sizeof *sample);
    for (int32_t i = 0; i < group->n; i++)
        sample[i] = order[group->sequence[i]];
    packing_add_shared(request, sample, group->n, first_rank, 1 << group->level, phase);
    free(sample);
}

static void make_plan(const struct plan_request *request, const struct flexsp_result *result, const int32_t *order,
                      struct plan *plan)
{
    *plan = (struct plan){.n_phases = result->n_micro_batches,
                          .shards = scenario_plan_shards(&request->layout),
                          .phases = check_calloc((size_t)result->n_micro_batches, sizeof *plan->phases),
                          .n_candidates = result->n_candidates,
                          .n_nodes = result->n_nodes,
                          .gap = result->gap};
    for (int32_t i = 0, group = 0; i < plan->n_phases; i++) {
        struct plan_phase *phase = &plan->phases[i];
        request_megatron_layout(request, phase);
        for (int32_t rank = 0; group < result->n_groups && result->groups[group].micro_batch == i; group++) {
            add_group(request, &result->groups[group], order, rank, phase);
            rank += 1 << result->groups[group].level;
        }
        for (int32_t rank = 0; rank < phase->n_pipelines; rank++) {
            plan_fill_need(&phase->pipelines[rank]);
            order_one_f_one_b(&phase->pipelines[rank], ORDER_JUST_IN_TIME);
        }
    }
}

static bool flexsp_plan(const struct plan_request *request, void *state, struct plan *plan, struct error *err)
{
    (void)state;
    const struct flexsp_knobs *knobs = request->knobs;
    const struct batch *batch = request->batch;
    if (!check_request(request, err))
        return false;
    int64_t capacity = knobs->capacity > 0 ? knobs->capacity : packing_memory_tokens(request);
    struct flexsp_problem problem = {.cost = cost_of(request, capacity),
                                     .n_ranks = (int32_t)request->layout.dp,
                                     .capacity = capacity,
                                     .n_buckets = (int32_t)knobs->buckets,
                                     .n_trials = (int32_t)knobs->trials,
                                     .node_limit = knobs->nodes,
                                     .max_columns = knobs->columns};
    int32_t *order = samples_by_length(batch), widest = flexsp_widest(problem.n_ranks), level = knobs->degree - 1;
    int32_t *tokens = check_malloc((size_t)batch->n_samples * sizeof *tokens);
    struct flexsp_result result;
    for (int32_t i = 0; i < batch->n_samples; i++)
        tokens[i] = batch->tokens[order[i]];
    if (knobs->degree > 0)
        flexsp_fixed(&problem, tokens, batch->n_samples, level < widest ? level : widest, &result);
    else
        flexsp_solve(&problem, tokens, batch->n_samples, &result);
    make_plan(request, &result, order, plan);
    flexsp_result_free(&result);
    free(tokens);
    free(order);
    return true;
}

static const struct schema_key knobs[] = {
    {"degree", SCHEMA_CHOICE, "-", 0, 0, "flexible", "flexible|1|2|4|8|16|32|64|128|256",
     "degree of all groups, as in fixed sequence parallelism (at most the largest power of two of ranks); flexible: "
     "each group has its own",
     offsetof(struct flexsp_knobs, degree)},
    {"capacity", SCHEMA_INT, "tokens", 0, 1073741824, "0", NULL,
     "room of a rank in a micro-batch; 0: the tokens that memory holds", offsetof(struct flexsp_knobs, capacity)},
    {"buckets", SCHEMA_INT, "-", 1, 4096, "16", NULL,
     "buckets of lengths in a micro-batch, whose sequences count as long as the longest; more if memory is tight",
     offsetof(struct flexsp_knobs, buckets)},
    {"trials", SCHEMA_INT, "-", 1, 4096, "5", NULL,
     "numbers of micro-batches that are tried, from the least with room on", offsetof(struct flexsp_knobs, trials)},
    {"nodes", SCHEMA_INT, "-", 0, 1000000, "100", NULL,
     "nodes of branch and bound for a micro-batch; 0: the greedy's groups stay", offsetof(struct flexsp_knobs, nodes)},
    {"columns", SCHEMA_INT, "-", 0, 1000000, "600", NULL,
     "maximum columns of the program, virtual groups x (buckets + 1) + 1; with more the greedy's groups stay",
     offsetof(struct flexsp_knobs, columns)},
};

const struct training_system system_flexsp = {
    .name = "flexsp",
    .source = "Wang et al. 2025 (arXiv:2412.01523)",
    .meaning = "ZeRO-3 and Ulysses: sequences on disjoint groups of 1, 2, 4, ... ranks, decided by a mixed-integer "
               "program, micro-batch by micro-batch",
    .knobs = knobs,
    .n_knobs = sizeof knobs / sizeof *knobs,
    .knobs_size = sizeof(struct flexsp_knobs),
    .context_type = SCENARIO_ULYSSES,
    .sharding = SCENARIO_ZERO3,
    .decides = system_decides_schedule,
    .plan = flexsp_plan,
    .lower_bound_s = batch_bound_shared_s,
};
