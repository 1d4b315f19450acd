/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This system is SlimPipe: 1F1B over slices of equal length, whose attention the stages share.
 *
 * 1. Best-fit decreasing packs the global batch into sequences of `context` tokens, assigned round-robin to the DP
 *    ranks. Each is a micro-batch, divided into `slices` slices of equal tokens.
 * 2. Slices run forward in order, backward in reverse, and keys and values stay. Stage k of p holds (n + p-1-k)/n of a
 *    micro-batch (`exchange: false`).
 * 3. With `exchange` (context exchange) all stages run a forward at the same time, and a backward (order_in_step).
 *    Stage k holds (n + 2(p-1-k))/n.
 * 4. Among slices that run together, those with more attention than the mean give the excess to those with less. The
 *    slice with most gives to the one with least, until all have the mean (FLOPs; under 1% of it nothing moves).
 * 5. Queries, the share's keys and values, and the partial outputs move between the GPUs of the stages:
 *    cost_of_block.
 *
 * Deviates: - The paper interleaves chunks as well and sends keys and values ahead of their use; neither is done. - The
 * default of `slices`, 2 p, the pace of the stages and the 1% are inferred. - It packs documents, which the paper does
 * not need. Context parallelism is left out. - If stages have unequal layers (plan.stages), FLOPs are evened as if they
 * had equally many.
 *
 * Source: Li et al. 2025 (arXiv:2504.14519), from a summary.
 */
#include "system/system.h"

#include <stdlib.h>

#include "base/check.h"
#include "bounds/batch_bound.h"
#include "packing/packing.h"
#include "packing/samples.h"
#include "plan/order.h"
#include "plan/slicing.h"

struct slimpipe_knobs {
    int64_t slices;
    bool exchange;
};

/* Passes of one kind that run together, by stage. */
struct tick {
    enum pass pass;
    int32_t n; /* number of stages that run a pass */
    int32_t *micro_batch;
    double *flop, *excess; /* of attention: all; above the mean, 0 on other stages */
};

static double attention_flop(const struct plan_partition *partition, struct flop_curve curve, int32_t micro_batch)
{
    const struct plan_micro_batch *of = &partition->micro_batches[micro_batch];
    int64_t flop = 0;
    for (int32_t i = of->first_slice; i < of->first_slice + of->n_slices; i++)
        flop += flop_of_slice(curve, partition->slices[i].begin, partition->slices[i].end);
    return (double)flop;
}

/* Move attention within a tick, from the stage with most to the one with least. */
static void share_out(struct plan_phase *phase, int32_t number, const struct cost_setting *setting, struct tick *tick)
{
    const struct plan_pipeline *pipeline = &phase->pipelines[number];
    int32_t stages = pipeline->layout.stages;
    struct flop_curve curve = flop_attention_curve(setting->model, tick->pass);
    double mean = 0;
    bool moved = false;
    for (int32_t s = 0; s < stages; s++) {
        tick->flop[s] = tick->micro_batch[s] < 0
                            ? 0
                            : attention_flop(&pipeline->partition[tick->pass], curve, tick->micro_batch[s]);
        mean += tick->flop[s] / tick->n;
    }
    for (int32_t s = 0; s < stages; s++)
        tick->excess[s] = tick->micro_batch[s] < 0 ? 0 : tick->flop[s] - mean;
    for (;;) {
        int32_t from = 0, to = 0;
        for (int32_t s = 1; s < stages; s++) {
            from = tick->excess[s] > tick->excess[from] ? s : from;
            to = tick->excess[s] < tick->excess[to] ? s : to;
        }
        double flop = tick->excess[from] < -tick->excess[to] ? tick->excess[from] : -tick->excess[to];
        if (flop <= 0.01 * mean)
            break;
        if (!moved)
            plan_add_attention(phase, tick->pass, setting->cp_overlap ? BESIDE_ATTENTION : BESIDE_NOTHING);
        plan_add_block(phase, (struct plan_place){number, from, tick->micro_batch[from]},
                       (struct plan_place){number, to, tick->micro_batch[to]}, flop / tick->flop[from]);
        tick->excess[from] -= flop;
        tick->excess[to] += flop;
        moved = true;
    }
}

/* Exchange in all ticks of order_in_step. */
static void exchange_all(struct plan_phase *phase, int32_t number, const struct cost_setting *setting,
                         const int32_t *ahead)
{
    const struct plan_pipeline *pipeline = &phase->pipelines[number];
    size_t stages = (size_t)pipeline->layout.stages;
    struct tick tick = {.micro_batch = check_malloc(stages * sizeof *tick.micro_batch),
                        .flop = check_malloc(stages * sizeof *tick.flop),
                        .excess = check_malloc(stages * sizeof *tick.excess)};
    for (int32_t i = 0; i < order_n_ticks(pipeline, ahead); i++)
        for (tick.pass = PASS_FORWARD; tick.pass < N_PASSES; tick.pass++) {
            tick.n = order_tick(pipeline, ahead, i, tick.pass, tick.micro_batch);
            if (tick.n > 1)
                share_out(phase, number, setting, &tick);
        }
    free(tick.micro_batch);
    free(tick.flop);
    free(tick.excess);
}

static void run_slices(const struct plan_request *request, struct plan_phase *phase, int32_t number)
{
    struct plan_pipeline *pipeline = &phase->pipelines[number];
    const struct slimpipe_knobs *knobs = request->knobs;
    int32_t n = knobs->slices > 0 ? (int32_t)knobs->slices : 2 * pipeline->layout.stages;
    slicing_equal_length(pipeline, n);
    plan_fill_need(pipeline);
    if (!knobs->exchange) {
        order_one_f_one_b(pipeline, ORDER_PERSISTENT);
        return;
    }
    int32_t *ahead = check_malloc((size_t)pipeline->partition[PASS_BACKWARD].n_micro_batches * sizeof *ahead);
    order_in_step(pipeline, ahead);
    exchange_all(phase, number, request->setting, ahead);
    free(ahead);
}

static bool slimpipe_plan(const struct plan_request *request, void *state, struct plan *plan, struct error *err)
{
    (void)state;
    struct packing packing;
    struct plan_request own = *request;
    own.layout.schedule = SCENARIO_ONE_F_ONE_B; /* schedule of whole packs, before they are sliced */
    packing_best_fit_batch(request->batch, (int32_t)request->context, &packing);
    bool ok = packing_plan(&own, request->batch->tokens, &packing, plan, err);
    for (int32_t i = 0; ok && i < plan->phases->n_pipelines; i++)
        run_slices(request, plan->phases, i);
    packing_free(&packing);
    return ok;
}

static const struct schema_key knobs[] = {
    {"slices", SCHEMA_INT, "slices", 0, 4096, "0", NULL, "slices of a micro-batch; 0: twice the stages",
     offsetof(struct slimpipe_knobs, slices)},
    {"exchange", SCHEMA_BOOL, "-", 0, 0, "true", NULL, "attention moves between stages until slices cost the same",
     offsetof(struct slimpipe_knobs, exchange)},
};

const struct training_system system_slimpipe = {
    .name = "slimpipe",
    .source = "Li et al. 2025 (arXiv:2504.14519)",
    .meaning = "best-fit packs in slices of one length, 1F1B over slices, attention exchanged between stages",
    .knobs = knobs,
    .n_knobs = sizeof knobs / sizeof *knobs,
    .knobs_size = sizeof(struct slimpipe_knobs),
    .degrees = SYSTEM_TP | SYSTEM_PP | SYSTEM_EP_IN_PIPELINE,
    .decides = system_decides_schedule,
    .plan = slimpipe_plan,
    .lower_bound_s = batch_bound_shared_s,
};
