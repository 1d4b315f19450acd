/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This system is ODC's balancing of a minibatch (LB-Mini), and its baseline, which balances micro-batches (LB-Micro).
 * Every rank holds a share of the whole model (ZeRO-3) and runs whole samples.
 *
 * 1. The cost of a sample of s tokens is `quadratic` s^2 + `linear` s, with s in units of 32,000. If both are 0, it is
 *    the model's forward FLOPs.
 * 2. Karmarkar-Karp divides the batch into as many parts as ranks, by cost. With lb-micro parts have equally many
 *    samples, or one less.
 * 3. A sample of the dearest part and one of another part change places if both parts then cost less than the dearest
 *    did. The pair is taken after which the dearer of the two costs least (ties: by index). This goes on while it
 * lowers the dearest part by at least a millionth.
 * 4. A part of t tokens becomes n = ceil(t / M) micro-batches, by Karmarkar-Karp by cost. n grows by 1 until none has
 *    more than M tokens.
 * 5. With lb-mini each part has its own n. With lb-micro all parts have the largest n that any needs.
 * 6. A rank runs the dearest micro-batch first, then the next.
 *
 * plan.shard_communication says whether ranks wait for each other. With on-demand, ODC's own way, they do so once at
 * the end. With collective, FSDP's way, they do so in every pass, so lb-mini refuses it as the authors' code does.
 *
 * Source: ODC (arXiv:2601.19362, ICLR 2026), and its code: sail-sg/odc, examples/llm_training/packing.py@026e1821
 * (DynamicDiffMicro is lb-mini, DynamicSameMicro lb-micro).
 *
 * Deviates: - The code swaps the first pair that it finds, also so that the cheapest part costs more, and never below
 * the cheapest part. It balances micro-batches by swaps, too.
 * - The code also divides into parts of equally many samples for lb-mini, and takes them if costs then spread less.
 * - It asks for a batch that the ranks divide. Here parts may have one sample less.
 * - A sample of more than M tokens is a micro-batch of its own; the code stops.
 */
#include "system/system.h"

#include <stdlib.h>

#include "base/check.h"
#include "bounds/batch_bound.h"
#include "packing/packing.h"
#include "packing/samples.h"

enum odc_packing { ODC_LB_MINI, ODC_LB_MICRO };

struct odc_knobs {
    int32_t packing; /* enum odc_packing */
    int64_t max_tokens;
    double quadratic, linear;
};

/* A batch while it is divided. */
struct dividing {
    const struct batch *batch;
    double *cost;       /* of each sample */
    int32_t n_parts;    /* ranks */
    int32_t *part;      /* of each sample */
    double *part_cost;  /* of each part */
    int32_t *pile;      /* of each sample: its micro-batch in its part */
    int64_t max_tokens; /* M */
};

static void fill_costs(const struct plan_request *request, double *cost)
{
    const struct odc_knobs *knobs = request->knobs;
    const struct flop_curve curve = flop_model_curve(request->setting->model, PASS_FORWARD);
    bool of_flop = knobs->quadratic == 0 && knobs->linear == 0;
    for (int32_t i = 0; i < request->batch->n_samples; i++) {
        double s = request->batch->tokens[i] / 32000.0;
        cost[i] = of_flop ? (double)flop_of_prefix(curve, request->batch->tokens[i])
                          : knobs->quadratic * s * s + knobs->linear * s;
    }
}

static int32_t dearest_part(const struct dividing *work)
{
    int32_t best = 0;
    for (int32_t i = 1; i < work->n_parts; i++)
        best = work->part_cost[i] > work->part_cost[best] ? i : best;
    return best;
}

/* Swap the pair that lowers the dearest part most. @return whether there is one */
static bool swap_one(struct dividing *work)
{
    const int32_t n = work->batch->n_samples, dearest = dearest_part(work);
    double least = work->part_cost[dearest] * (1 - 1e-6);
    int32_t mine = -1, its = -1;
    for (int32_t i = 0; i < n; i++)
        for (int32_t k = 0; work->part[i] == dearest && k < n; k++) {
            double more = work->cost[i] - work->cost[k], here = work->part_cost[dearest] - more,
                   there = work->part_cost[work->part[k]] + more, dearer = here > there ? here : there;
            if (work->part[k] == dearest || dearer >= least)
                continue;
            least = dearer;
            mine = i;
            its = k;
        }
    if (mine < 0)
        return false;
    double more = work->cost[mine] - work->cost[its];
    work->part_cost[dearest] -= more;
    work->part_cost[work->part[its]] += more;
    work->part[mine] = work->part[its];
    work->part[its] = dearest;
    return true;
}

static void divide_batch(const struct plan_request *request, struct dividing *work)
{
    const struct odc_knobs *knobs = request->knobs;
    int32_t n = work->batch->n_samples;
    packing_differencing(work->cost, n, work->n_parts, knobs->packing == ODC_LB_MICRO, work->part);
    for (int32_t i = 0; i < n; i++)
        work->part_cost[work->part[i]] += work->cost[i];
    while (swap_one(work))
        ;
}

/* Divide a part into n micro-batches. @return whether each has at most M tokens, or one sample */
static bool divide_part(struct dividing *work, int32_t part, int32_t n)
{
    int32_t n_samples = work->batch->n_samples, n_here = 0;
    int32_t *sample = check_malloc((size_t)n_samples * sizeof *sample),
            *set = check_malloc((size_t)n_samples * sizeof *set);
    double *cost = check_malloc((size_t)n_samples * sizeof *cost);
    int64_t *tokens = check_calloc((size_t)n, sizeof *tokens);
    bool fits = true;
    for (int32_t i = 0; i < n_samples; i++)
        if (work->part[i] == part) {
            cost[n_here] = work->cost[i];
            sample[n_here++] = i;
        }
    if (n_here > 0)
        packing_differencing(cost, n_here, n, false, set);
    for (int32_t i = 0; i < n_here; i++) {
        work->pile[sample[i]] = set[i];
        bool first = tokens[set[i]] == 0;
        tokens[set[i]] += work->batch->tokens[sample[i]];
        fits = fits && (first || tokens[set[i]] <= work->max_tokens);
    }
    free(sample);
    free(set);
    free(cost);
    free(tokens);
    return fits;
}

static int32_t least_piles(const struct dividing *work, int32_t part)
{
    int64_t tokens = 0;
    for (int32_t i = 0; i < work->batch->n_samples; i++)
        tokens += work->part[i] == part ? work->batch->tokens[i] : 0;
    return (int32_t)((tokens + work->max_tokens - 1) / work->max_tokens);
}

/* Divide all parts into micro-batches. @return the most micro-batches of a part */
static int32_t divide_parts(struct dividing *work, bool same_number)
{
    int32_t most = 0;
    for (int32_t part = 0; part < work->n_parts; part++) {
        int32_t n = least_piles(work, part);
        while (n > 0 && !divide_part(work, part, n))
            n++;
        most = n > most ? n : most;
    }
    for (int32_t part = 0; part < work->n_parts && same_number; part++)
        if (!divide_part(work, part, most)) {
            most++;
            part = -1;
        }
    return most;
}

/* Make the packing in which pack j x parts + i is the j-th micro-batch of part i. */
static void take_piles(const struct dividing *work, int32_t n_piles, struct packing *packing)
{
    int32_t n = work->batch->n_samples, *order = samples_by_length(work->batch);
    int32_t *pack = check_malloc((size_t)n * sizeof *pack);
    for (int32_t i = 0; i < n; i++)
        pack[i] = work->pile[order[i]] * work->n_parts + work->part[order[i]];
    packing_of(order, pack, n, n_piles * work->n_parts, packing);
    free(order);
    free(pack);
}

static bool check_request(const struct plan_request *request, struct error *err)
{
    const struct odc_knobs *knobs = request->knobs;
    if (request->layout.sharding != SCENARIO_ZERO3 || request->layout.pp > 1)
        return error_set(err,
                         "odc: plan.sharding must be zero3 with pp 1: every rank holds a share of the whole model");
    if (knobs->packing == ODC_LB_MINI && request->layout.shard_communication != SCENARIO_ON_DEMAND)
        return error_set(err,
                         "odc: plan.shard_communication must be on-demand with packing lb-mini: ranks run different "
                         "numbers of micro-batches; lb-micro also takes collective");
    return true;
}

static int64_t most_tokens(const struct plan_request *request)
{
    const struct odc_knobs *knobs = request->knobs;
    int64_t most = knobs->max_tokens > 0 ? knobs->max_tokens : packing_memory_tokens(request);
    most = knobs->max_tokens > 0 || most < request->context ? most : request->context;
    return most > 0 ? most : 1;
}

static bool odc_plan(const struct plan_request *request, void *state, struct plan *plan, struct error *err)
{
    (void)state;
    const struct odc_knobs *knobs = request->knobs;
    if (!check_request(request, err))
        return false;
    size_t n = (size_t)request->batch->n_samples;
    struct dividing work = {.batch = request->batch,
                            .cost = check_malloc(n * sizeof(double)),
                            .n_parts = (int32_t)request->layout.dp,
                            .part = check_malloc(n * sizeof(int32_t)),
                            .part_cost = check_calloc((size_t)request->layout.dp, sizeof(double)),
                            .pile = check_malloc(n * sizeof(int32_t)),
                            .max_tokens = most_tokens(request)};
    struct packing packing;
    fill_costs(request, work.cost);
    divide_batch(request, &work);
    take_piles(&work, divide_parts(&work, knobs->packing == ODC_LB_MICRO), &packing);
    struct plan_request in_order = *request;
    in_order.layout.schedule = SCENARIO_ONE_F_ONE_B;
    bool ok = packing_plan(&in_order, request->batch->tokens, &packing, plan, err);
    packing_free(&packing);
    free(work.cost);
    free(work.part);
    free(work.part_cost);
    free(work.pile);
    return ok;
}

static const struct schema_key knobs[] = {
    {"packing", SCHEMA_CHOICE, "-", 0, 0, "lb-mini", "lb-mini|lb-micro",
     "lb-mini: each rank has as many micro-batches as its samples need; lb-micro: all ranks have the same number",
     offsetof(struct odc_knobs, packing)},
    {"max_tokens", SCHEMA_INT, "tokens", 0, 1073741824, "0", NULL,
     "most tokens of a micro-batch; 0: what memory holds, at most the context", offsetof(struct odc_knobs, max_tokens)},
    {"quadratic", SCHEMA_REAL, "-", 0, 1e9, "0", NULL,
     "a of a sample's cost a s^2 + b s, s in units of 32,000 tokens (ODC: 1.982 for 1.5B, 4.348 for 7B)",
     offsetof(struct odc_knobs, quadratic)},
    {"linear", SCHEMA_REAL, "-", 0, 1e9, "0", NULL,
     "b of this cost (ODC: 2.612 for 1.5B, 8.768 for 7B); if a and b are 0, the cost is the model's forward FLOPs",
     offsetof(struct odc_knobs, linear)},
};

const struct training_system system_odc = {
    .name = "odc",
    .source = "ODC (arXiv:2601.19362)",
    .meaning = "samples balanced over ranks of ZeRO-3, which wait for each other only at the end",
    .knobs = knobs,
    .n_knobs = sizeof knobs / sizeof *knobs,
    .knobs_size = sizeof(struct odc_knobs),
    .degrees = SYSTEM_TP,
    .sharding = SCENARIO_ZERO3,
    .shard_communication = SCENARIO_ON_DEMAND,
    .whole_samples = true,
    .decides = system_decides_schedule,
    .plan = odc_plan,
    .lower_bound_s = batch_bound_whole_samples_s,
};
