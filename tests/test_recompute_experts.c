/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests count by hand what entries of a recomputation's list drop and repeat in layers with experts and latent
 * attention. */
#include <string.h>

#include "cost/activation.h"
#include "cost/cache.h"
#include "cost/communication.h"
#include "cost/layer.h"
#include "cost/pass.h"
#include "hand_cost.h"
#include "hand_model.h"
#include "hand_plan.h"
#include "harness.h"

/** Matrices: up projections of queries 3 x 8 and of keys and values 2 x 8; router, an expert, shared experts, and the
 * dense block. */
enum { UP_PROJECTIONS = 24 + 16, ROUTER = 4 * 4, EXPERT = 3 * 4 * 8, SHARED = 3 * 4 * 6, DENSE = 3 * 4 * 12 };

/** Bytes a token: queries 2 x 8, keys and values 2 x (8 + 4). */
enum { QUERIES = 16, KV = 24 };

/** Bytes a token of the block of experts: router's scores and choice; shared experts' up and activation; of two experts
 * their input, up and activation; the map. */
enum { SCORES = (4 + 1) * 4, SHARED_KEPT = 2 * 12 + 2 * 6, ROUTED_KEPT = 2 * 2 * (4 + 16 + 8), MAP = 2 * 4 };
enum { BLOCK = SCORES + SHARED_KEPT + ROUTED_KEPT + MAP, DENSE_BLOCK = 2 * 24 + 2 * 12 };

static enum recompute list_of(int32_t entries)
{
    return (enum recompute)entries;
}

static struct cost_setting setting_of(int32_t first, int32_t n)
{
    struct cost_setting setting = hand_toy_setting_of(&(struct scenario_plan){.tp = 1, .dp = 1, .vpp = 1});
    setting.tensor = 1;
    setting.model = &hand_latent;
    cost_hold_layers(&setting, first, n);
    return setting;
}

static double dropped(const struct cost_setting *setting, int32_t list, bool sliced)
{
    return cost_activation_bytes(setting, RECOMPUTE_NONE, sliced) -
           cost_activation_bytes(setting, list_of(list), sliced);
}

static const struct slice five_tokens = {0, 0, 5};

static struct cost_pass cost_of(const struct cost_setting *setting, enum pass pass, int32_t list)
{
    const struct cost_micro_batch micro_batch = {
        .slices = &five_tokens, .n_slices = 1, .context = 1, .recompute = list_of(list)};
    return cost_of_pass(setting, pass, &micro_batch);
}

/* In the layer in work these bytes are computed again. Compressed columns stay under every entry but norm. */
TEST(cost_activation_bytes__drop_what_an_entry_names)
{
    const struct cost_setting dense = setting_of(0, 1), experts = setting_of(1, 1);
    static const struct {
        int32_t list;
        double dense, experts;
    } cases[] = {
        {RECOMPUTE_ACTIVATION, 2 * 12, 2 * 6},
        {RECOMPUTE_MOE_ACT, 0, 2 * 2 * 8},
        {RECOMPUTE_MLA_UP_PROJ, QUERIES + KV, QUERIES + KV},
        {RECOMPUTE_MLP, DENSE_BLOCK, 0},
        {RECOMPUTE_MOE, 0, BLOCK},
        {RECOMPUTE_MOE | RECOMPUTE_MOE_ACT | RECOMPUTE_ACTIVATION, 2 * 12, BLOCK},
        {RECOMPUTE_MLP | RECOMPUTE_ACTIVATION, DENSE_BLOCK, 2 * 6},
        {RECOMPUTE_MLP | RECOMPUTE_MOE | RECOMPUTE_MLA_UP_PROJ, DENSE_BLOCK + QUERIES + KV, BLOCK + QUERIES + KV},
        /* outputs of both norms, and of those of compressed columns */
        {RECOMPUTE_NORM | RECOMPUTE_MOE, 2 * (4 + 4 + 3 + 2), 2 * (4 + 4 + 3 + 2) + BLOCK},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK_CLOSE(dropped(&dense, cases[i].list, false), cases[i].dense, 1e-14);
        CHECK_CLOSE(dropped(&experts, cases[i].list, false), cases[i].experts, 1e-14);
        CHECK_CLOSE(cost_workspace_of(&dense, list_of(cases[i].list)).again, cases[i].dense, 1e-14);
        CHECK_CLOSE(cost_workspace_of(&experts, list_of(cases[i].list)).again, cases[i].experts, 1e-14);
    }
}

/* Later slices attend to keys and values of earlier ones, so only queries go. */
TEST(cost_activation_bytes__keep_keys_and_values_of_sliced_samples)
{
    const struct cost_setting both = setting_of(0, 2);
    CHECK_CLOSE(dropped(&both, RECOMPUTE_MLA_UP_PROJ, true), 2 * QUERIES, 1e-14);
    CHECK_CLOSE(dropped(&both, RECOMPUTE_MOE, true), BLOCK, 1e-14);
    CHECK_TRUE(cost_kept_kv_bytes(&both, RECOMPUTE_MLA_UP_PROJ) == 0);
    CHECK_TRUE(cost_kept_kv_bytes(&both, RECOMPUTE_MOE) == 2 * KV);
    CHECK_TRUE(cost_kept_kv_bytes(&both, RECOMPUTE_NONE) == 2 * KV);
}

/* The backward of the widest tensors is that of two experts: 2 x (16 + 8) each. The dense one has 2 x (24 + 12). */
TEST(cost_workspace_of__has_the_gradients_of_the_widest_activation)
{
    const struct cost_setting dense = setting_of(0, 1), experts = setting_of(1, 1);
    static const int32_t lists[] = {RECOMPUTE_NONE, RECOMPUTE_MOE_ACT, RECOMPUTE_MLP, RECOMPUTE_MOE};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        CHECK_CLOSE(cost_workspace_of(&dense, list_of(lists[i])).gradients, 2 * (24 + 12), 1e-15);
        CHECK_CLOSE(cost_workspace_of(&experts, list_of(lists[i])).gradients, 2 * 2 * (16 + 8), 1e-15);
    }
}

/* mlp leaves out the down GEMM, whose output no backward needs. moe repeats all of two experts a token, the shared ones
 * and the router. */
TEST(cost_of_pass__repeats_the_gemms_of_an_entry)
{
    const struct cost_setting dense = setting_of(0, 1), experts = setting_of(1, 1);
    static const struct {
        int32_t list;
        double dense, experts; /* parameters that a token meets again */
    } cases[] = {{RECOMPUTE_MOE_ACT, 0, 0},
                 {RECOMPUTE_MLA_UP_PROJ, UP_PROJECTIONS, UP_PROJECTIONS},
                 {RECOMPUTE_MLP, DENSE, 0},
                 {RECOMPUTE_MOE, 0, ROUTER + SHARED + 2 * EXPERT},
                 {RECOMPUTE_MOE | RECOMPUTE_MOE_ACT | RECOMPUTE_MLP, DENSE, ROUTER + SHARED + 2 * EXPERT}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int backward = 0; backward < 2; backward++) {
            enum pass pass = backward ? PASS_BACKWARD : PASS_INPUT;
            CHECK_CLOSE(cost_of(&dense, pass, cases[i].list).flop,
                        cost_of(&dense, pass, RECOMPUTE_NONE).flop + 5 * 2 * cases[i].dense, 1e-14);
            CHECK_CLOSE(cost_of(&experts, pass, cases[i].list).flop,
                        cost_of(&experts, pass, RECOMPUTE_NONE).flop + 5 * 2 * cases[i].experts, 1e-14);
        }
}

/* mlp repeats the down GEMM, too. A norm behind it keeps its input. */
TEST(cost_of_pass__repeats_the_block_before_a_norm)
{
    struct model model = hand_latent;
    struct cost_setting dense = setting_of(0, 1);
    model.norms = 4;
    dense.model = &model;
    CHECK_CLOSE(cost_of(&dense, PASS_BACKWARD, RECOMPUTE_MLP).flop,
                cost_of(&dense, PASS_BACKWARD, RECOMPUTE_NONE).flop + 5 * 2 * DENSE, 1e-14);
    CHECK_CLOSE(dropped(&dense, RECOMPUTE_MLP, false), DENSE_BLOCK, 1e-14);
}

/* The hand device takes 2 s a FLOP and a byte. Rotations move queries 2 x 16 and keys 2 x 12 bytes a token. The
 * activation of two experts reads 2 x 16 and writes 2 x 8 each. */
TEST(cost_of_pass__repeats_the_memory_bound_kernels_of_an_entry)
{
    struct cost_setting experts = setting_of(1, 1);
    experts.device = &hand_device;
    experts.platform = &hand_links;
    double none_s = cost_of(&experts, PASS_BACKWARD, RECOMPUTE_NONE).kernels_s;
    CHECK_CLOSE(cost_of(&experts, PASS_BACKWARD, RECOMPUTE_MOE_ACT).kernels_s - none_s, 2.0 * 5 * 2 * 2 * (16 + 8),
                1e-9);
    CHECK_CLOSE(cost_of(&experts, PASS_BACKWARD, RECOMPUTE_MLA_UP_PROJ).kernels_s - none_s,
                2.0 * 5 * (2 * UP_PROJECTIONS + 32 + 24), 1e-9);
    /* with shared experts' activation 2 x (12 + 6), and 2 copies and a token of 2 x 4 bytes, moved twice */
    double moved = 2 * (12 + 6) + 2 * 2 * (16 + 8) + 2 * 3 * 2 * 4;
    CHECK_CLOSE(cost_of(&experts, PASS_BACKWARD, RECOMPUTE_MOE).kernels_s - none_s,
                2.0 * 5 * (2 * (ROUTER + SHARED + 2 * EXPERT) + moved), 1e-9);
}

/* Only moe sends copies of tokens once more, as a forward does. */
TEST(cost_of_pass__sends_tokens_to_experts_again)
{
    struct cost_setting setting = setting_of(0, 3);
    setting.device = hand_setting()->device;
    setting.platform = hand_setting()->platform;
    setting.expert_ranks = 4;
    const struct cost_pass forward = cost_of(&setting, PASS_FORWARD, RECOMPUTE_NONE),
                           backward = cost_of(&setting, PASS_BACKWARD, RECOMPUTE_NONE),
                           moe = cost_of(&setting, PASS_BACKWARD, RECOMPUTE_MOE),
                           others = cost_of(&setting, PASS_BACKWARD,
                                            RECOMPUTE_MLA_UP_PROJ | RECOMPUTE_MOE_ACT | RECOMPUTE_MLP);
    CHECK_TRUE(forward.expert_s > 0);
    CHECK_CLOSE(moe.expert_s, backward.expert_s + forward.expert_s, 1e-14);
    CHECK_CLOSE(moe.expert_bytes, backward.expert_bytes + forward.expert_bytes, 1e-14);
    CHECK_TRUE(others.expert_s == backward.expert_s && others.expert_bytes == backward.expert_bytes);
    CHECK_TRUE(cost_of(&setting, PASS_FORWARD, RECOMPUTE_MOE).expert_s == forward.expert_s);
}

/* With TP 2 a rank has half of what an entry drops. It gathers what repeated GEMMs read, half of 5 tokens of 2 bytes: 3
 * + 2 compressed columns, the dense block's input of 4. It reduces an output of 4, of the dense block or of shared
 * experts. */
TEST(cost_of_pass__repeats_collectives_of_tensor_ranks)
{
    struct cost_setting dense = setting_of(0, 1), experts = setting_of(1, 1);
    dense.tensor = experts.tensor = 2;
    dense.sequence_parallel = experts.sequence_parallel = true;
    CHECK_CLOSE(dropped(&experts, RECOMPUTE_MLA_UP_PROJ, false), (QUERIES + KV) / 2.0, 1e-14);
    CHECK_CLOSE(dropped(&dense, RECOMPUTE_MLP, false), DENSE_BLOCK / 2.0, 1e-14);
    CHECK_CLOSE(dropped(&experts, RECOMPUTE_MOE, false), BLOCK / 2.0, 1e-14);
    double of_dense = cost_of(&dense, PASS_BACKWARD, RECOMPUTE_NONE).tensor_bytes,
           of_experts = cost_of(&experts, PASS_BACKWARD, RECOMPUTE_NONE).tensor_bytes;
    CHECK_CLOSE(cost_of(&experts, PASS_BACKWARD, RECOMPUTE_MLA_UP_PROJ).tensor_bytes - of_experts, 5 * (3 + 2), 1e-12);
    CHECK_CLOSE(cost_of(&dense, PASS_BACKWARD, RECOMPUTE_MLP).tensor_bytes - of_dense, 5 * (4 + 4), 1e-12);
    CHECK_CLOSE(cost_of(&experts, PASS_BACKWARD, RECOMPUTE_MOE).tensor_bytes - of_experts, 5 * (4 + 4), 1e-12);
    CHECK_TRUE(cost_of(&dense, PASS_BACKWARD, RECOMPUTE_ACTIVATION).tensor_bytes == of_dense);
}

/* Beside alternate-gemms, which drops the up GEMM's output of 2f bytes, mlp drops it only once. */
TEST(cost_activation_bytes__drop_an_output_once)
{
    struct model llama = {
        .hidden = 8, .layers = 1, .kinds = {{.heads = 4, .kv_heads = 4, .ffn = 12, .activation = MODEL_SWIGLU}}};
    struct cost_setting setting = setting_of(0, 1);
    setting.model = &llama;
    cost_hold_layers(&setting, 0, 1);
    const int32_t others = RECOMPUTE_SELECTIVE | RECOMPUTE_ALTERNATE_GEMMS, all = others | RECOMPUTE_MLP;
    CHECK_CLOSE(dropped(&setting, all, false) - dropped(&setting, others, false), 2 * 12, 1e-14);
    double block = 3 * 8 * 12, up = 8 * 12;
    CHECK_CLOSE(cost_of(&setting, PASS_BACKWARD, all).flop - cost_of(&setting, PASS_BACKWARD, others).flop,
                5 * 2 * (block - up), 1e-14);
}

/* More lists than the cache keeps have the bytes that are computed. */
TEST(cost_cached_activation_bytes__are_those_computed)
{
    struct cost_cache cache = {0};
    struct cost_setting setting = setting_of(0, 3), cached = setting;
    cached.cache = &cache;
    for (int round = 0; round < 2; round++)
        for (int32_t list = RECOMPUTE_NONE; list <= RECOMPUTE_FULL; list += list % 3 + 1)
            for (int sliced = 0; sliced < 2; sliced++)
                for (int again = 0; again < 2; again++)
                    CHECK_TRUE(cost_cached_activation_bytes(&cached, list_of(list), sliced) ==
                               cost_activation_bytes(&setting, list_of(list), sliced));
    CHECK_EQUAL(cache.n_keys, 1);
    cost_cache_free(&cache);
}

/* The i-th name joins the entries whose bits i has. */
TEST(scenario_recompute_name__joins_the_entries_of_a_list)
{
    static const char *const entries[] = {
        "norm", "activation", "attention-core", "alternate-gemms", "mla-up-proj", "moe-act", "mlp", "moe"};
    CHECK_TEXT(scenario_recompute_name[RECOMPUTE_NONE], "none");
    CHECK_TEXT(scenario_recompute_name[RECOMPUTE_FULL], "full");
    for (int32_t list = 1; list < RECOMPUTE_FULL; list++) {
        char text[128] = "";
        for (int32_t entry = 0; entry < 8; entry++)
            if (list & 1 << entry) {
                strcat(text, *text != '\0' ? "+" : "");
                strcat(text, entries[entry]);
            }
        CHECK_TEXT(scenario_recompute_name[list], text);
    }
}

TEST(scenario_recompute_misfit__says_what_a_model_lacks)
{
    struct model experts = hand_latent;
    experts.n_runs = 1;
    experts.pattern[0] = experts.pattern[1];
    for (int32_t entry = RECOMPUTE_MLA_UP_PROJ; entry <= RECOMPUTE_FULL; entry *= 2)
        CHECK_TRUE(scenario_recompute_misfit(entry, &hand_latent) == NULL);
    CHECK_TRUE(scenario_recompute_misfit(RECOMPUTE_MOE | RECOMPUTE_MOE_ACT | RECOMPUTE_SELECTIVE, &experts) == NULL);
    CHECK_TEXT(scenario_recompute_misfit(RECOMPUTE_MLP | RECOMPUTE_NORM, &experts),
               "mlp needs dense layers, and all layers of the model have experts; allowed: none, full, or a list of "
               "other entries");
    CHECK_CONTAINS(scenario_recompute_misfit(RECOMPUTE_MLA_UP_PROJ, &hand_toy), "mla-up-proj needs latent attention");
    CHECK_CONTAINS(scenario_recompute_misfit(RECOMPUTE_MOE_ACT, &hand_toy), "moe-act needs experts");
    CHECK_CONTAINS(scenario_recompute_misfit(RECOMPUTE_MOE, &hand_toy), "moe needs experts");
    CHECK_TRUE(scenario_recompute_misfit(RECOMPUTE_MLP, &hand_toy) == NULL);
}
