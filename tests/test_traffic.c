/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests count the bytes that each rank sends. */
#include "bounds/traffic.h"

#include "base/check.h"
#include "hand_plan.h"
#include "harness.h"

enum { HIDDEN = 64, LAYERS = 840 };

static struct traffic traffic(const struct plan *plan, const struct cost_setting *setting)
{
    struct dag dag = hand_built(plan, setting, (struct dag_options){.gradient_sync = true});
    struct traffic sent = traffic_of(plan, &dag, setting);
    dag_free(&dag);
    return sent;
}

/* p stages run m micro-batches of 16 tokens. Between neighbours 2 h bytes a token go m (p - 1) times each way. One
 * replica has nothing to reduce, one tensor and context rank nothing to gather. */
TEST(traffic__counts_activations_both_ways)
{
    for (int32_t p = 1; p <= 8; p++) {
        struct plan plan;
        hand_uniform(&plan, p, 5, 16);
        struct traffic sent = traffic(&plan, hand_setting());
        for (int i = 0; i < TRAFFIC_N_PURPOSES; i++)
            CHECK_CLOSE(sent.bytes[i], i == TRAFFIC_BOUNDARY ? 2 * 5 * (p - 1) * 16.0 * 2 * HIDDEN : 0, 1e-14);
        plan_free(&plan);
    }
}

/* A sample of 64 tokens is on four ranks. Each sends three quarters of keys and values, 4 h bytes a token and layer,
 * forward, and twice that backward. */
TEST(traffic__counts_what_others_lack_in_a_ring)
{
    struct plan plan;
    hand_plan(&plan, 1, 1, 4);
    for (int pass = 0; pass < N_PASSES; pass++)
        hand_micro_batch(&plan.phases[0].pipelines[0].partition[pass], (struct slice){0, 0, 64})->context = 4;
    hand_order(&plan);
    struct traffic sent = traffic(&plan, hand_setting());
    CHECK_CLOSE(sent.bytes[TRAFFIC_CONTEXT], 4 * 3 * 0.75 * LAYERS * 64 * 4.0 * HIDDEN, 1e-14);
    plan_free(&plan);
}

/* There are n replicas of P parameters. To add up n vectors and to hand the sum to all takes 2 (n - 1) vectors on
 * the wire. One way has gradients (4 bytes), the other parameters (2 bytes). Groups of g = 2 are m = n/2. Each replica
 * sends half of both vectors in its group. Among the groups it sends 2 (m - 1)/m of the gradients of the half that it
 * holds. */
TEST(traffic__counts_gradients_and_parameters_of_replicas)
{
    struct cost_setting groups = *hand_setting();
    double parameters = hand_stage_parameters(groups.model, 1, LAYERS, true, true);
    for (int32_t n = 2; n <= 8; n += 2) {
        struct plan plan;
        hand_whole_samples(&plan, n, 1, 16);
        struct traffic sent = traffic(&plan, hand_setting());
        CHECK_CLOSE(sent.bytes[TRAFFIC_SYNC], (n - 1) * 6 * parameters, 1e-14);
        double m = n / 2.0;
        hand_options(&groups, &(struct scenario_plan){.cp = 1, .dp = n, .shard_group = 2});
        sent = traffic(&plan, &groups);
        double one = n == 2 ? 3 * parameters : parameters * (2 + 1 + 4 * (m - 1) / m);
        CHECK_CLOSE(sent.bytes[TRAFFIC_SYNC], n * one, 1e-14);
        hand_options(&groups, &(struct scenario_plan){.cp = 1,
                                                      .dp = n,
                                                      .gradient_reduction = SCENARIO_ALL_REDUCE,
                                                      .reduce_precision = SCENARIO_REDUCE_BF16});
        sent = traffic(&plan, &groups);
        CHECK_CLOSE(sent.bytes[TRAFFIC_SYNC], (n - 1) * (2 * 2 + 2) * parameters, 1e-14);
        plan_free(&plan);
    }
}

/* Two TP ranks use sequence parallelism. A layer has 4 + 6 collectives (cost/layer.h) on 16 x 2 h bytes, and a rank
 * sends half of each. On the first of three stages the embedding's come on top, on the last the head's. This is as
 * their passes say, micro-batch by micro-batch and for each GPU. The traffic of zero3 is counted likewise. */
TEST(traffic__counts_what_passes_send)
{
    enum { UNITS = 5, TENSOR = 2, STAGES = 3 };
    struct plan plan;
    struct cost_setting setting = *hand_setting();
    hand_uniform(&plan, STAGES, UNITS, 16);
    struct plan_pipeline *pipeline = plan.phases[0].pipelines;
    pipeline->layout.tensor = pipeline->layout.stage_stride = TENSOR;
    setting.ranks = 3;
    setting.sharding = SCENARIO_ZERO3;
    double tensor_bytes = 0, shard_bytes = 0, middle_bytes = 0;
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++)
        for (int32_t stage = 0; stage < STAGES; stage++) {
            struct cost_pass cost = dag_pass_cost(pipeline, &setting, pass, 0, stage);
            tensor_bytes += UNITS * TENSOR * cost.tensor_bytes;
            shard_bytes += UNITS * TENSOR * cost.shard_bytes;
            middle_bytes += stage == 1 ? cost.tensor_bytes : 0;
        }
    CHECK_CLOSE(middle_bytes, 10.0 * LAYERS / STAGES * 0.5 * 16 * 2 * HIDDEN, 1e-14);
    struct traffic sent = traffic(&plan, &setting);
    CHECK_TRUE(tensor_bytes > STAGES * UNITS * TENSOR * middle_bytes && shard_bytes > 0);
    CHECK_CLOSE(sent.bytes[TRAFFIC_TENSOR], tensor_bytes, 1e-14);
    CHECK_CLOSE(sent.bytes[TRAFFIC_SHARDS], shard_bytes, 1e-14);
    plan_free(&plan);
}

/* Half of a micro-batch's activations goes to the host and comes back on the first stage, which has half of the layers.
 * On the last one its backward follows at once. Recomputation keeps 2 h bytes a token and layer. */
TEST(traffic__counts_offloaded_activations_twice)
{
    struct plan plan;
    hand_uniform(&plan, 2, 1, 16);
    struct plan_micro_batch *micro_batch = plan.phases[0].pipelines[0].partition[PASS_FORWARD].micro_batches;
    micro_batch->recompute = RECOMPUTE_FULL;
    micro_batch->offload = 0.5;
    plan.phases[0].pipelines[0].partition[PASS_BACKWARD].micro_batches[0].recompute = RECOMPUTE_FULL;
    CHECK_CLOSE(traffic(&plan, hand_setting()).bytes[TRAFFIC_HOST], 2 * 0.5 * LAYERS / 2 * 16 * 2.0 * HIDDEN, 1e-14);
    plan_free(&plan);
}

/* Stage 1 takes a quarter of the attention of stage 0's second forward of 16 tokens. Out go 2 h a token and a quarter
 * of the keys and values of 16 tokens. Back come 2 h and 4 bytes a head and token. All are of half of all layers. */
TEST(traffic__counts_exchanged_attention_both_ways)
{
    struct plan plan;
    hand_uniform(&plan, 2, 2, 16);
    plan_add_attention(plan.phases, PASS_FORWARD, BESIDE_ATTENTION);
    plan_add_block(plan.phases, (struct plan_place){0, 0, 1}, (struct plan_place){0, 1, 0}, 0.25);
    int32_t layers = LAYERS / 2;
    double out = 16 * 2 * HIDDEN + 0.25 * 16 * 4 * HIDDEN, back = 16 * 2 * HIDDEN + 16 * 4 * 4;
    CHECK_CLOSE(traffic(&plan, hand_setting()).bytes[TRAFFIC_EXCHANGE], layers * (out + back), 1e-14);
    plan_free(&plan);
}

/* There are two phases. Parameters that a GPU keeps are not sent. */
TEST(traffic__counts_what_resharding_moves)
{
    struct plan plan, second;
    hand_uniform(&plan, 2, 3, 16);
    hand_uniform(&second, 2, 3, 16);
    hand_append(&plan, &second);
    plan.phases[1].n_reshards = 3;
    plan.phases[1].reshards = check_malloc(3 * sizeof(struct plan_reshard));
    plan.phases[1].reshards[0] = (struct plan_reshard){0, 1, 1e6};
    plan.phases[1].reshards[1] = (struct plan_reshard){1, 1, 4e6};
    plan.phases[1].reshards[2] = (struct plan_reshard){1, 0, 2e6};
    struct traffic sent = traffic(&plan, hand_setting());
    CHECK_CLOSE(sent.bytes[TRAFFIC_RESHARD], 3e6, 1e-14);
    CHECK_CLOSE(sent.bytes[TRAFFIC_BOUNDARY], 2 * 2 * 3 * 16.0 * 2 * HIDDEN, 1e-14);
    plan_free(&plan);
}
