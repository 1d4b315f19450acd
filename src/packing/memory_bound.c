/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "packing/memory_bound.h"

#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "bounds/stage_memory.h"

/* Return the tokens of each micro-batch of a partition on a rank. The caller frees the result. */
static double *micro_batch_tokens(const struct plan_partition *partition)
{
    double *tokens = check_malloc((size_t)partition->n_micro_batches * sizeof *tokens);
    for (int32_t micro_batch = 0; micro_batch < partition->n_micro_batches; micro_batch++)
        tokens[micro_batch] =
            (double)plan_micro_batch_tokens(partition, micro_batch) / partition->micro_batches[micro_batch].context;
    return tokens;
}

/* Compute the most tokens that a rank holds at once on each stage: most[stages]. */
static void most_tokens(const struct plan_pipeline *pipeline, double *most)
{
    double *tokens[N_PASSES];
    for (int pass = 0; pass < N_PASSES; pass++)
        tokens[pass] = micro_batch_tokens(&pipeline->partition[pass]);
    for (int32_t stage = 0; stage < pipeline->layout.stages; stage++) {
        double held = 0;
        most[stage] = 0;
        for (int32_t i = pipeline->step_first[stage]; i < pipeline->step_first[stage + 1]; i++) {
            const struct plan_step *step = &pipeline->steps[i];
            if (step->pass == PASS_FORWARD)
                held += tokens[PASS_FORWARD][step->micro_batch];
            else if (step->pass == PASS_BACKWARD)
                held -= tokens[PASS_BACKWARD][step->micro_batch];
            most[stage] = fmax(most[stage], held);
        }
    }
    for (int pass = 0; pass < N_PASSES; pass++)
        free(tokens[pass]);
}

double memory_bound_excess(const struct plan_request *request, struct memory_fit_rule rule, const struct plan *plan)
{
    const struct plan_phase *phase = plan->phases;
    const struct plan_layout *layout = &phase->pipelines[0].layout;
    const struct platform *platform = request->setting->platform;
    const struct stage_memory_micro_batch micro_batch = {
        .recompute = rule.recompute ? RECOMPUTE_FULL : (enum recompute)request->layout.recompute};
    int32_t n_gpus = (int32_t)(request->layout.tp * request->layout.cp * request->layout.dp * request->layout.pp);
    int32_t n_nodes = platform_node_of(platform, n_gpus - 1) + 1;
    double stays = rule.offload ? 1 : 1 - request_offload_share(request, request->layout.offload), worst = 0;
    double *on_host = check_calloc(2 * (size_t)n_nodes, sizeof *on_host), *gpus = on_host + n_nodes;
    double *most = check_malloc((size_t)layout->stages * sizeof *most);
    struct stage_memory *stages = check_malloc((size_t)layout->stages * sizeof *stages);
    CHECK(plan->n_phases == 1 && layout->chunks == 1 && layout->context == 1);
    for (int32_t stage = 0; stage < layout->stages; stage++)
        stages[stage] = stage_memory_of(request->setting, layout, stage, plan->shards, &micro_batch);
    for (int32_t i = 0; i < phase->n_pipelines; i++) {
        most_tokens(&phase->pipelines[i], most);
        for (int32_t stage = 0; stage < layout->stages; stage++) {
            int32_t node = platform_node_of(platform, plan_rank(&phase->pipelines[i].layout, stage, 0, 0));
            double bytes = stage_memory_standing_bytes(&stages[stage]) - stages[stage].gradients_bytes +
                           stays * most[stage] * stages[stage].token.held;
            on_host[node] += layout->tensor * fmax(0, bytes - request->memory_bytes);
            gpus[node] += layout->tensor;
            worst = fmax(worst, rule.offload ? 0 : bytes / request->memory_bytes - 1);
        }
    }
    for (int32_t node = 0; rule.offload && node < n_nodes; node++) {
        /* the node's other GPUs have their share of its host */
        double in_use = platform_gpus_in_use(platform, node, n_gpus);
        worst = fmax(worst, gpus[node] > 0 ? on_host[node] * in_use / gpus[node] / platform->host_memory_bytes - 1 : 0);
    }
    free(on_host);
    free(most);
    free(stages);
    return worst;
}
