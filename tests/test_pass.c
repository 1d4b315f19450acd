/* SPDX-License-Identifier: GPL-3.0-or-later */
/** These tests compare the costs that dag/ gives of passes with sums of cost/'s parts. */
#include "dag/dag.h"

#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "cost/cache.h"
#include "hand_plan.h"
#include "harness.h"

/* Make three stages of two chunks (840 layers: 140 each) of TP 2, or four of one, the first and last of other layers.
 * Micro-batches have one to three slices and recomputation of every kind, on two context ranks or one. */
static void varied_plan(struct plan *plan, bool chunks)
{
    static const enum recompute recompute[] = {RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL};
    hand_plan(plan, 1, chunks ? 3 : 4, 2);
    struct plan_pipeline *pipeline = &plan->phases[0].pipelines[0];
    pipeline->layout.tensor = 2;
    pipeline->layout.chunks = chunks ? 2 : 1;
    for (int pass = 0; pass < N_PASSES; pass++)
        for (int32_t i = 0; i < 6; i++) {
            for (int32_t k = 0; k <= i / 2; k++)
                plan_add_slice(&pipeline->partition[pass], (struct slice){k, 64 * i, 64 * (i + 1 + k)});
            struct plan_micro_batch *micro_batch = plan_add_micro_batch(&pipeline->partition[pass]);
            micro_batch->context = 1 + i % 2;
            micro_batch->recompute = recompute[i % 3];
            micro_batch->padding_tokens = 16 * i;
        }
}

static struct cost_setting sharded_setting(bool chunks)
{
    struct cost_setting setting = *hand_setting();
    setting.sharding = SCENARIO_ZERO3;
    setting.ranks = 16; /* over nodes: with TP 2 a node has four of them */
    setting.cp_type = SCENARIO_ALL_GATHER;
    if (!chunks)
        setting.split = (struct scenario_stages){.first_layers = {1, 100}, .last_layers = {1, 180}};
    setting.tp_overlap = SCENARIO_EXPOSED;
    return setting;
}

/* Count the layers of a virtual stage, by the sentence above. */
static int32_t layers_of(bool chunks, int32_t stage)
{
    return chunks ? 140 : stage == 0 ? 100 : stage == 3 ? 180 : 280;
}

static void check_sum(const struct cost_pass *sum, const struct cost_pass *part, int32_t n)
{
    struct cost_pass all = {0};
    for (int32_t i = 0; i < n; i++) {
        all.flop += part[i].flop;
        all.product_s += part[i].product_s;
        all.kernels_s += part[i].kernels_s;
        all.attention_s += part[i].attention_s;
        all.tensor_s += part[i].tensor_s;
        all.tensor_bytes += part[i].tensor_bytes;
        all.shard_s += part[i].shard_s;
        all.shard_bytes += part[i].shard_bytes;
        for (int k = 0; k < COST_N_FAMILIES; k++)
            all.extrapolated_s[k] += part[i].extrapolated_s[k];
    }
    CHECK_CLOSE(sum->flop, all.flop, 1e-14);
    CHECK_CLOSE(sum->product_s, all.product_s, 1e-14);
    CHECK_CLOSE(sum->kernels_s, all.kernels_s, 1e-14);
    CHECK_CLOSE(sum->attention_s, all.attention_s, 1e-14);
    CHECK_CLOSE(sum->tensor_s, all.tensor_s, 1e-14);
    CHECK_CLOSE(sum->tensor_bytes, all.tensor_bytes, 1e-14);
    CHECK_CLOSE(sum->shard_s, all.shard_s, 1e-14);
    CHECK_CLOSE(sum->shard_bytes, all.shard_bytes, 1e-14);
    for (int k = 0; k < COST_N_FAMILIES; k++)
        CHECK_CLOSE(sum->extrapolated_s[k], all.extrapolated_s[k], 1e-14);
    CHECK_TRUE(sum->context_s == part[0].context_s && sum->boundary_bytes == part[0].boundary_bytes);
}

/* A pass costs the layers of a virtual stage, before the first one the embedding, behind the last one the head. All of
 * it shows somewhere: shards send, and collectives of TP and CP take time. */
static void check_costs(const struct plan_pipeline *pipeline, const struct cost_setting *setting, bool chunks)
{
    int32_t n_virtual = pipeline->layout.stages * pipeline->layout.chunks;
    double sent = 0, gathered_s = 0;
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++)
        for (int32_t stage = 0; stage < n_virtual; stage++)
            for (int32_t i = 0; i < pipeline->partition[pass].n_micro_batches; i++) {
                struct cost_pass part[COST_N_COMPONENTS];
                struct cost_micro_batch micro_batch = dag_micro_batch(pipeline, pass, i);
                struct cost_setting own = *setting;
                int32_t n = 1;
                own.tensor = 2;
                hand_layers(&own, layers_of(chunks, stage));
                part[0] = cost_of_pass(&own, pass, &micro_batch);
                if (stage == 0)
                    part[n++] = cost_of_embedding(&own, pass, &micro_batch);
                if (stage == n_virtual - 1)
                    part[n++] = cost_of_head(&own, pass, &micro_batch);
                struct cost_pass sum = dag_pass_cost(pipeline, setting, pass, i, stage);
                check_sum(&sum, part, n);
                sent += n > 1 && part[n - 1].shard_bytes > 0;
                gathered_s += sum.context_s;
            }
    CHECK_TRUE(sent > 0 && gathered_s > 0);
}

TEST(dag_pass_cost__adds_layers_embedding_and_head)
{
    for (int chunks = 0; chunks < 2; chunks++) {
        struct plan plan;
        struct cost_setting setting = sharded_setting(chunks);
        varied_plan(&plan, chunks);
        check_costs(&plan.phases[0].pipelines[0], &setting, chunks);
        plan_free(&plan);
    }
}

/* Check the seconds of all micro-batches on the kinds of virtual stages, and their sums over a stage. They are those of
 * the passes, to the last bit. A sum ends with the first micro-batch that brings it above its limit. */
static void check_seconds(const struct plan_pipeline *pipeline, const struct cost_setting *setting, enum pass pass)
{
    struct dag_kinds kinds = dag_kinds_of(setting, &pipeline->layout);
    int32_t n_micro_batches = pipeline->partition[pass].n_micro_batches,
            n_virtual = pipeline->layout.stages * pipeline->layout.chunks;
    double *seconds = check_malloc((size_t)(n_micro_batches * kinds.n) * sizeof *seconds);
    dag_passes_s(pipeline, setting, &kinds, pass, NULL, seconds);
    for (int32_t stage = 0; stage < n_virtual; stage++) {
        double sum_s = 0;
        for (int32_t i = 0; i < n_micro_batches; i++) {
            struct cost_pass cost = dag_pass_cost(pipeline, setting, pass, i, stage);
            double pass_s = cost.kernels_s + cost.attention_s + cost.tensor_s + cost.shard_s + cost.context_s;
            CHECK_TRUE(seconds[i * kinds.n + kinds.kind[stage]] == pass_s);
            CHECK_TRUE(dag_stage_s(pipeline, setting, pass, stage, sum_s) == sum_s + pass_s);
            sum_s += pass_s;
            CHECK_TRUE(dag_stage_s(pipeline, setting, pass, stage, nextafter(sum_s, 0)) == sum_s);
        }
        CHECK_TRUE(dag_stage_s(pipeline, setting, pass, stage, INFINITY) == sum_s);
    }
    free(seconds);
    free(kinds.kind);
}

TEST(dag_stage_s__adds_the_seconds_of_passes)
{
    for (int i = 0; i < 4; i++) {
        struct plan plan;
        struct cost_setting setting = sharded_setting(i % 2 == 1);
        varied_plan(&plan, i % 2 == 1);
        struct cost_cache cache = {0};
        setting.cache = i >= 2 ? &cache : NULL;
        plan.phases[0].pipelines[0].splits_backward = i == 3;
        for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++)
            check_seconds(&plan.phases[0].pipelines[0], &setting, pass);
        cost_cache_free(&cache);
        plan_free(&plan);
    }
}

/* First, middle and last stage of uneven layers are three kinds. With equal layers they are, too, as the first has the
 * embedding and the last the head. One stage alone is one kind. */
TEST(dag_kinds_of__joins_stages_that_compute_the_same)
{
    static const int32_t expected[3][6] = {{0, 1, 1, 2}, {0, 1, 1, 1, 1, 2}, {0}};
    static const int32_t n_kinds[] = {3, 3, 1};
    for (int i = 0; i < 3; i++) {
        struct cost_setting setting = sharded_setting(i > 0);
        struct plan_layout layout = {.tensor = 1, .context = 1, .stages = i == 2 ? 1 : 4 - i, .chunks = i == 1 ? 2 : 1};
        struct dag_kinds kinds = dag_kinds_of(&setting, &layout);
        CHECK_EQUAL(kinds.n, n_kinds[i]);
        for (int32_t stage = 0; stage < layout.stages * layout.chunks; stage++)
            CHECK_EQUAL(kinds.kind[stage], expected[i][stage]);
        free(kinds.kind);
    }
}
