/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests count attention on the ranks of context parallelism by hand. */
#include "cost/attention.h"
#include "cost/cache.h"
#include "hand_cost.h"
#include "hand_model.h"
#include "hand_plan.h"
#include "harness.h"

#include <math.h>

/* With CP 1 and TP 1 there are neither ring nor collectives. CP 2 halves the rank's attention and GEMMs. */
TEST(context_parallel__halves_the_work_of_a_rank)
{
    struct cost_setting setting = hand_toy_setting();
    setting.tensor = 1;
    struct cost_micro_batch micro_batch = {.slices = hand_two_slices, .n_slices = 2, .context = 1};
    struct cost_pass one = cost_of_pass(&setting, PASS_FORWARD, &micro_batch);
    micro_batch.context = 2;
    struct cost_pass two = cost_of_pass(&setting, PASS_FORWARD, &micro_batch);
    CHECK_CLOSE(hand_blocks_s(&setting, PASS_FORWARD, &micro_batch), one.attention_s / 2, 1e-14);
    CHECK_CLOSE(two.flop, one.flop / 2, 1e-14);
    CHECK_CLOSE(two.kernels_s, one.kernels_s / 2, 1e-14);
    CHECK_TRUE(one.ring_bytes == 0 && one.ring_steps == 0 && two.ring_bytes > 0);
    CHECK_TRUE(one.tensor_s == 0 && one.tensor_bytes == 0);
}

/* Documents of 12 and 4 tokens run on two ranks with h 4, and keys are gathered. Attention of [a, b) is 8 (b(b+1) -
 * a(a+1)) FLOP. Chunks of four tokens have 160, 416, 672 and, in the second document, 160. Rank 0 takes the outer two.
 * Rank 1 takes the inner two, 1088, for which all wait. By document each rank has half of 1408. One document of 16
 * tokens has 160 + 928 and 416 + 672, both 1088: the zig-zag evens a causal triangle out. */
TEST(per_sequence__waits_for_the_slowest_rank)
{
    const struct slice documents[] = {{0, 0, 12}, {1, 0, 4}}, one = {0, 0, 16};
    struct scenario_plan plan = hand_toy_plan;
    struct cost_setting setting = hand_toy_setting_of(&plan);
    setting.tensor = 1;
    setting.cp_type = SCENARIO_ALL_GATHER;
    struct cost_micro_batch micro_batch = {.slices = documents, .n_slices = 2, .context = 2};
    struct cost_pass even = cost_of_pass(&setting, PASS_FORWARD, &micro_batch);
    micro_batch.sharding = SLICE_PER_SEQUENCE;
    struct cost_pass uneven = cost_of_pass(&setting, PASS_FORWARD, &micro_batch);
    CHECK_CLOSE(even.attention_s, 3 * 4 * 704.0, 1e-14);
    CHECK_CLOSE(uneven.attention_s, 3 * 4 * 1088.0, 1e-14);
    CHECK_CLOSE(uneven.flop, even.flop, 1e-14);
    CHECK_CLOSE(uneven.kernels_s, even.kernels_s, 1e-14);
    CHECK_CLOSE(uneven.context_s, even.context_s, 1e-14);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &micro_batch).attention_s, 3 * 2 * 2.5 * 1088, 1e-14);
    struct cost_cache cache = {0};
    struct cost_pass room[COST_N_COMPONENTS];
    setting.cache = &cache;
    for (int i = 0; i < 4; i++) { /* the cache does not take one for the other */
        micro_batch.sharding = i % 2 == 0 ? SLICE_PER_SEQUENCE : SLICE_PER_DOCUMENT;
        cost_cached(&setting, PASS_FORWARD, &micro_batch, 1U << COST_LAYERS, room);
        CHECK_CLOSE(room[COST_LAYERS].attention_s, 3 * 4 * (i % 2 == 0 ? 1088.0 : 704.0), 1e-14);
    }
    CHECK_EQUAL(cache.n_costs, 1); /* the two micro-batches have as many tokens */
    cost_cache_free(&cache);
    setting.cache = NULL;
    micro_batch.sharding = SLICE_PER_SEQUENCE;
    setting.cp_type = SCENARIO_RING;
    CHECK_CLOSE(hand_blocks_s(&setting, PASS_FORWARD, &micro_batch), 3 * 4 * 1088.0, 1e-14);
    micro_batch.slices = &one;
    micro_batch.n_slices = 1;
    CHECK_CLOSE(hand_blocks_s(&setting, PASS_FORWARD, &micro_batch), 3 * 4 * 1088.0, 1e-14);
    micro_batch.sharding = SLICE_PER_DOCUMENT;
    CHECK_CLOSE(hand_blocks_s(&setting, PASS_FORWARD, &micro_batch), 3 * 4 * 1088.0, 1e-14);
}

/* 16 tokens have a window of 4, in chunks of four. [0, 4) has 10 keys, each later chunk 16. A query at 4 or behind it
 * computes 64 masked keys. Rank 0 has a chunk of each sort, rank 1 two of the later ones, 16 FLOPs a key. By document a
 * rank has half of all. */
TEST(per_sequence__cuts_windows_into_chunks)
{
    const struct slice document = {0, 0, 16};
    struct scenario_plan plan = hand_toy_plan;
    struct cost_setting setting = hand_toy_setting_of(&plan);
    struct model model = hand_toy;
    model.kinds[0].window = 4;
    setting.model = &model;
    setting.tensor = 1;
    setting.cp_type = SCENARIO_ALL_GATHER;
    struct cost_micro_batch micro_batch = {
        .slices = &document, .n_slices = 1, .context = 2, .sharding = SLICE_PER_SEQUENCE};
    CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &micro_batch).attention_s, 3 * 4 * 16.0 * 2 * (16 + 4 * 64),
                1e-14);
    micro_batch.sharding = SLICE_PER_DOCUMENT;
    double seconds = 3 * 4 * 16.0 * (10 + 3 * 16 + 12 * 64) / 2;
    CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &micro_batch).attention_s, seconds, 1e-14);
    setting.cp_type = SCENARIO_ULYSSES;
    CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &micro_batch).attention_s, seconds, 1e-14);
    struct cost_kernels kernels = {0};
    attention_add_kernels(&setting, 0, PASS_BACKWARD, &micro_batch, &kernels);
    CHECK_CLOSE(kernels.kernel[0].flop, 40.0 * (10 + 3 * 16) / 2, 1e-15);
}

/* Four tokens of padding follow the 12. The chunks have four tokens again, and the last has padding alone: 160 and 416
 * + 672. */
TEST(per_sequence__puts_padding_at_the_end)
{
    const struct slice document = {0, 0, 12};
    struct cost_setting setting = hand_toy_setting();
    setting.tensor = 1;
    struct cost_micro_batch micro_batch = {
        .slices = &document, .n_slices = 1, .padding_tokens = 4, .context = 2, .sharding = SLICE_PER_SEQUENCE};
    CHECK_CLOSE(hand_blocks_s(&setting, PASS_FORWARD, &micro_batch), 3 * 4 * 1088.0, 1e-14);
}

TEST(padding__costs_no_attention)
{
    struct cost_setting setting = hand_toy_setting();
    struct cost_micro_batch micro_batch = hand_toy_micro_batch(RECOMPUTE_NONE);
    struct cost_pass padded = cost_of_pass(&setting, PASS_FORWARD, &micro_batch);
    double padded_s = hand_blocks_s(&setting, PASS_FORWARD, &micro_batch);
    micro_batch.padding_tokens = 0;
    struct cost_pass bare = cost_of_pass(&setting, PASS_FORWARD, &micro_batch);
    CHECK_CLOSE(padded_s, hand_blocks_s(&setting, PASS_FORWARD, &micro_batch), 1e-14);
    CHECK_CLOSE(padded.ring_bytes, bare.ring_bytes * 12 / 10, 1e-14);
    CHECK_CLOSE(padded.kernels_s, bare.kernels_s * 5 / 4, 1e-14);
    CHECK_CLOSE(padded.tensor_bytes, bare.tensor_bytes * 5 / 4, 1e-14);
}

/* A sample of 8n tokens that is cut in n slices sends 8 + 16 + ... + 8n instead of 8n: (n + 1)/2 times as much. */
TEST(ring__sends_the_prefix_of_each_slice_again)
{
    struct cost_setting setting = hand_toy_setting();
    for (int32_t n = 1; n <= 16; n++) {
        struct slice slices[16], whole = {.end = 8 * n};
        for (int32_t i = 0; i < n; i++)
            slices[i] = (struct slice){.begin = 8 * i, .end = 8 * i + 8};
        struct cost_micro_batch one = {.slices = &whole, .n_slices = 1, .context = 4};
        struct cost_micro_batch partition = {.slices = slices, .n_slices = n, .context = 4};
        double ratio = cost_of_pass(&setting, PASS_FORWARD, &partition).ring_bytes /
                       cost_of_pass(&setting, PASS_FORWARD, &one).ring_bytes;
        CHECK_CLOSE(ratio, (n + 1) / 2.0, 1e-14);
    }
}

/* This is the block of a rank's own keys in a ring of two. [0, 4) has 4 x 5/4/2 queries and 5/2 keys on a CP rank. [2,
 * 6) is taken as the causal sample whose queries see 9/2 keys on average: 4 x 9/6/2 = 3 queries and 9/2 keys. In the
 * other block all 2 queries see the same keys, as in causal samples of 4 queries. The FLOPs of a block are 20 and 36 at
 * 4 s. The shapes are (1 + 8/2.5)(1 + 16/2.5) and (1 + 8/3)(1 + 16/4.5), with 4 queries 1 + 8/4. All are multiplied by
 * (1 + 2/2)/(1 + 2/128) = 128/65. Half of the queries on all keys would take less, 5 x 4.2 and 5 x 25/9. */
TEST(slice__enters_the_curve_as_a_causal_sample_of_its_mean)
{
    struct device device = hand_device;
    device.forward[DEVICE_FLASH2] = (struct device_flash){.efficiency = 0.25, .q_half = 8, .k_half = 16, .d_half = 2};
    struct cost_setting setting = hand_toy_setting();
    setting.device = &device;
    struct cost_micro_batch micro_batch = hand_toy_micro_batch(RECOMPUTE_NONE);
    CHECK_CLOSE(hand_blocks_s(&setting, PASS_FORWARD, &micro_batch),
                3 * (20 * 4 * (4.2 + 3) * 7.4 + 36 * 4 * (11 / 3.0 + 3) * 41 / 9) * 128 / 65, 1e-14);
    device.forward[DEVICE_FLASH2].keys = (struct device_range){3, 100}; /* 2 are outside, in both blocks */
    CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &micro_batch).extrapolated_s[COST_ATTENTION],
                3 * 20 * 4 * (4.2 + 3) * 7.4 * 128 / 65, 1e-14);
}

/* [0, 1024) with a window of 300 has 300 (2048 - 299)/2 keys. 724 queries have a full window, and the kernel computes
 * 64 masked keys for each of them, 308686 in all. A query meets 308686/1024 keys, and a key meets as many. The longest
 * of 8 tiles has 300 + 128 keys. [512, 1024) has 512 x 364 keys of 1024 - 213 tokens. */
TEST(window__bounds_the_work_and_the_longest_tile)
{
    struct device device = hand_device;
    device.forward[DEVICE_FLASH2] = (struct device_flash){.efficiency = 0.25, .q_half = 8, .k_half = 16, .d_half = 2};
    struct cost_setting setting = hand_toy_setting();
    struct model model = hand_toy;
    struct cost_kernels kernels = {0};
    model.kinds[0].window = 300;
    setting.device = &device;
    setting.model = &model;
    const struct slice slices[] = {{0, 0, 1024}, {0, 512, 1024}, {0, 0, 300}};
    const struct cost_attention by_hand[] = {
        {8 * 308686, 2 * 308686 / 1024.0, 2 * 308686 / 1024.0, 2, 4 * 428 * 128 * 2, 8, 601},
        {8 * 512 * 364, 2 * 512 * 364 / 811.0, 728, 2, 4 * 428 * 128 * 2, 4, 727},
        {8 * 150 * 301, 301, 301, 2, 4 * 300 * 128 * 2, 3, 300}};
    for (int i = 0; i < 3; i++) {
        struct cost_micro_batch micro_batch = {.slices = &slices[i], .n_slices = 1, .context = 1};
        kernels.n = 0;
        attention_add_kernels(&setting, 0, PASS_FORWARD, &micro_batch, &kernels);
        CHECK_EQUAL(kernels.n, 1);
        CHECK_CLOSE(kernels.kernel[0].seconds,
                    kernel_sustained_s(&device, cost_attention_s(&device, DEVICE_FLASH2, PASS_FORWARD, &by_hand[i])),
                    1e-14);
        CHECK_CLOSE(kernels.kernel[0].flop, i == 0 ? 8 * 262350 : i == 1 ? 8 * 512 * 300 : 8 * 150 * 301, 1e-15);
    }
}

/* A tile of keys is computed whatever the window is, so on this device a smaller window never takes longer. */
TEST(window__never_takes_longer_than_a_larger_one)
{
    struct cost_setting setting = *hand_setting();
    struct model model = *setting.model;
    const struct slice slice = {0, 0, 32768};
    struct cost_micro_batch micro_batch = {.slices = &slice, .n_slices = 1, .context = 1};
    setting.model = &model;
    for (enum pass pass = PASS_FORWARD; pass <= PASS_BACKWARD; pass++) {
        double before_s = 0;
        for (model.kinds[0].window = 1; model.kinds[0].window <= 32768; model.kinds[0].window *= 2) {
            double now_s = cost_of_pass(&setting, pass, &micro_batch).attention_s;
            CHECK_TRUE(now_s >= before_s * (1 - 1e-12));
            before_s = now_s;
        }
        model.kinds[0].window = 0;
        CHECK_TRUE(cost_of_pass(&setting, pass, &micro_batch).attention_s > 0.9 * before_s);
    }
}

/* A window changes no byte of a gather or of an all-to-all. */
TEST(window__is_cut_out_of_all_keys_on_context_ranks)
{
    struct cost_setting setting = hand_toy_setting(), plain = setting;
    struct model model = hand_toy;
    model.kinds[0].window = 2;
    setting.model = &model;
    struct cost_micro_batch micro_batch = hand_toy_micro_batch(RECOMPUTE_NONE);
    setting.cp_type = plain.cp_type = SCENARIO_ALL_GATHER;
    struct cost_pass with = cost_of_pass(&setting, PASS_BACKWARD, &micro_batch),
                     without = cost_of_pass(&plain, PASS_BACKWARD, &micro_batch);
    CHECK_CLOSE(with.ring_bytes, without.ring_bytes, 1e-15);
    CHECK_CLOSE(with.context_s, without.context_s, 1e-15);
    /* [0, 4) and [2, 6): 1 + 3 x 2 and 4 x 2 in place of 10 and 18 keys, 40 FLOPs each, by 3 layers, TP 2 and CP 2 */
    CHECK_CLOSE(without.flop - with.flop, 3 * 40 * (10 + 18 - 7 - 8) / 4.0, 1e-15);
}

/* [0, 1024) runs on a ring of two, with 2 heads 2 wide. A block has 8 tiles of 128 queries, whose FLOPs 2h 1024 x
 * 1025/4 take 8396800 s. The block of a rank's own keys ends no earlier than its tile of 512 keys, 524288 x 4 s on one
 * multiprocessor of 8 or 6. The other block runs on the second stream and fills the idle multiprocessors. Backward, 2 s
 * a FLOP, the blocks run one after the other. 8 tiles of 128 keys, 1310720 FLOP each, end with one alone on a
 * multiprocessor. 4 tiles (512 queries see 256 keys) leave 2 of 6 idle.
 *
 * On a ring of four with 64 multiprocessors nothing is full. 2 of the 3 other blocks run on the second stream, one
 * after the other. Each takes as long as a tile of 256.25 keys, those of half the queries. Together they take longer
 * than the own block and the third one. On a ring of three one block runs behind the own one, a tile of 1025/3 keys
 * behind one of 1024/3. */
TEST(ring__runs_blocks_of_other_ranks_in_waves)
{
    struct device device = hand_device;
    struct cost_setting setting = hand_toy_setting();
    const struct slice whole = {.end = 1024};
    struct cost_micro_batch micro_batch = {.slices = &whole, .n_slices = 1, .context = 2};
    setting.device = &device;
    setting.tensor = 1;
    device.multiprocessors = 8;
    CHECK_CLOSE(hand_blocks_s(&setting, PASS_FORWARD, &micro_batch), 3 * (8396800.0 + 524288 * 4 * 8), 1e-14);
    device.multiprocessors = 6;
    CHECK_CLOSE(hand_blocks_s(&setting, PASS_FORWARD, &micro_batch), 3 * (8396800.0 + 524288 * 4 * 6), 1e-14);
    CHECK_CLOSE(hand_blocks_s(&setting, PASS_BACKWARD, &micro_batch), 3 * 2 * (1310720.0 * 6 + 5248000 + 1310720 * 2),
                1e-14);
    micro_batch.context = 4;
    device.multiprocessors = 64;
    CHECK_CLOSE(hand_blocks_s(&setting, PASS_FORWARD, &micro_batch), 3 * 2 * 262400.0 * 4 * 64, 1e-14);
    micro_batch.context = 3;
    CHECK_CLOSE(hand_blocks_s(&setting, PASS_FORWARD, &micro_batch), 3 * (1024 + 1025) / 3.0 * 4 * 128 * 2 * 4 * 64,
                1e-14);
}

/* A sample of 24 tokens runs on a ring of four with TP 2, h = q 4 and k 2, so a rank has 3 tokens over TP. Plain, the
 * rank whose blocks have half of the keys moves (3 x 6 + 4) q + 8 k = 104 bytes forward. Backward it moves (3 x 6 + 4)
 * q + (3 x 6 + 18) k = 160; the one of half the queries (3 x 3 + 4) q + (3 x 12 + 14) k = 152. Two such samples are
 * plain, too, and move twice as much. Packed with 8 tokens more a rank has 4 tokens and moves (18 + 8) q + (12 + 8) k =
 * 144 forward. A ring of one moves nothing, nor do gathers. */
TEST(ring__copies_and_sums_beside_its_blocks)
{
    const struct slice slices[] = {{0, 0, 24}, {1, 0, 24}, {2, 0, 8}};
    struct scenario_plan plan = hand_toy_plan;
    struct cost_setting setting = hand_toy_setting_of(&plan);
    struct cost_micro_batch micro_batch = {.slices = slices, .n_slices = 1, .context = 4};
    struct cost_micro_batch unlike = {.slices = slices + 1, .n_slices = 2, .context = 4};
    const double bytes[] = {104, 160};
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++)
        for (micro_batch.n_slices = 1; micro_batch.n_slices <= 2; micro_batch.n_slices++)
            CHECK_CLOSE(cost_of_pass(&setting, pass, &micro_batch).attention_s -
                            hand_blocks_s(&setting, pass, &micro_batch),
                        3 * 2 * bytes[pass] * 3 * micro_batch.n_slices, 1e-12);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &unlike).attention_s -
                    hand_blocks_s(&setting, PASS_FORWARD, &unlike),
                3 * 2 * 144.0 * 4, 1e-12);
    setting.cp_type = SCENARIO_ALL_GATHER;
    CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &unlike).attention_s,
                hand_blocks_s(&setting, PASS_FORWARD, &unlike), 1e-14);
    setting.cp_type = SCENARIO_RING;
    unlike.context = 1;
    CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &unlike).attention_s,
                hand_blocks_s(&setting, PASS_FORWARD, &unlike), 1e-14);
}

/** Count the FLOPs of rank `rank`'s queries that see rank `other`'s keys, of slice [a, b) on a contiguous ring of c. */
static double contiguous_flop(struct slice slice, int32_t context, int32_t rank, int32_t other)
{
    int32_t queries = slice_tokens(slice) / context, prefix = slice.begin / context;
    double pairs = 0;
    for (int32_t i = 0; i < queries; i++)
        pairs += prefix + (rank > other ? queries : rank == other ? i + 1 : 0);
    return 4.0 * 4 * pairs; /* h 4 */
}

/* Counted query by query, each step of a contiguous ring takes as long as its slowest block. It takes 4 s a FLOP
 * forward and 2 x 2.5 backward. This is the last rank's work. For a whole sample of L it is ((2c - 1) L + c)/(L +
 * 1)/c^2 of one GPU's. FLOPs are an even share. */
TEST(contiguous_ring__takes_as_long_as_its_last_rank)
{
    const struct slice slices[] = {{0, 0, 48}, {1, 0, 12}, {2, 24, 48}, {3, 12, 60}};
    struct scenario_plan plan = hand_toy_plan;
    struct cost_setting setting = hand_toy_setting_of(&plan);
    setting.tensor = 1;
    setting.cp_type = SCENARIO_RING_CONTIGUOUS;
    for (int i = 0; i < 4; i++)
        for (int32_t context = 1; context <= 12; context = context == 4 ? 6 : context == 6 ? 12 : context + 1) {
            const struct cost_micro_batch micro_batch = {.slices = &slices[i], .n_slices = 1, .context = context};
            const struct cost_micro_batch alone = {.slices = &slices[i], .n_slices = 1, .context = 1};
            double steps_flop = 0, last_flop = 0;
            for (int32_t step = 0; step < context; step++) {
                double slowest_flop = 0;
                for (int32_t rank = 0; rank < context; rank++)
                    slowest_flop = fmax(slowest_flop,
                                        contiguous_flop(slices[i], context, rank, (rank + context - step) % context));
                steps_flop += slowest_flop;
                last_flop += contiguous_flop(slices[i], context, context - 1, step);
            }
            CHECK_CLOSE(steps_flop, last_flop, 1e-14);
            CHECK_CLOSE(hand_blocks_s(&setting, PASS_FORWARD, &micro_batch), 3 * 4 * last_flop, 1e-13);
            CHECK_CLOSE(hand_blocks_s(&setting, PASS_BACKWARD, &micro_batch), 3 * 2 * 2.5 * last_flop, 1e-13);
            double c = context, length = slices[i].end, one_s = hand_blocks_s(&setting, PASS_FORWARD, &alone);
            if (slices[i].begin == 0)
                CHECK_CLOSE(hand_blocks_s(&setting, PASS_FORWARD, &micro_batch) / one_s,
                            ((2 * c - 1) * length + c) / (length + 1) / (c * c), 1e-13);
            CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &micro_batch).flop,
                        cost_of_pass(&setting, PASS_FORWARD, &alone).flop / c, 1e-13);
        }
}

/* 16 tokens have 8 x 16 x 17 = 2176 FLOP with h 4. The last of two ranks of a contiguous ring computes 2176 - 8 x 8 x 9
 * = 1600 and adds sums. In perfect balance each has 1088, whatever the kind, and sends nothing. One rank alone keeps
 * its cost. The two chunks of a sequence's slowest rank have 1088 of the 1408 FLOP that documents of 12 and 4 tokens
 * have. */
TEST(balanced_context__is_an_even_share_without_messages)
{
    const struct slice document = {0, 0, 16}, documents[] = {{0, 0, 12}, {1, 0, 4}};
    struct scenario_plan plan = hand_toy_plan;
    struct cost_setting setting = hand_toy_setting_of(&plan), balanced;
    setting.tensor = 1;
    struct cost_micro_batch micro_batch = {.slices = &document, .n_slices = 1, .context = 2};
    for (int32_t type = 0; type <= SCENARIO_RING_CONTIGUOUS; type++) {
        setting.cp_type = type;
        balanced = setting;
        balanced.balanced_context = true;
        struct cost_pass own = cost_of_pass(&setting, PASS_FORWARD, &micro_batch);
        struct cost_pass even = cost_of_pass(&balanced, PASS_FORWARD, &micro_batch);
        if (type == SCENARIO_RING_CONTIGUOUS)
            CHECK_CLOSE(hand_blocks_s(&setting, PASS_FORWARD, &micro_batch), 3 * 4 * 1600.0, 1e-14);
        CHECK_CLOSE(even.attention_s, 3 * 4 * 1088.0, 1e-14);
        CHECK_CLOSE(cost_of_pass(&balanced, PASS_BACKWARD, &micro_batch).attention_s, 3 * 2 * 2.5 * 1088, 1e-14);
        CHECK_TRUE(own.ring_bytes > 0 && even.ring_bytes == 0 && even.ring_steps == 0);
        CHECK_TRUE(even.context_s == 0 && even.context_wire_bytes == 0);
        CHECK_CLOSE(even.flop, own.flop, 1e-14);
        CHECK_TRUE(even.kernels_s == own.kernels_s && even.tensor_s == own.tensor_s);
        micro_batch.context = 1;
        own = cost_of_pass(&setting, PASS_FORWARD, &micro_batch);
        even = cost_of_pass(&balanced, PASS_FORWARD, &micro_batch);
        CHECK_TRUE(own.attention_s == even.attention_s && own.flop == even.flop);
        micro_batch.context = 2;
    }
    balanced.cp_type = SCENARIO_ALL_GATHER;
    micro_batch =
        (struct cost_micro_batch){.slices = documents, .n_slices = 2, .context = 2, .sharding = SLICE_PER_SEQUENCE};
    CHECK_CLOSE(cost_of_pass(&balanced, PASS_FORWARD, &micro_batch).attention_s, 3 * 4 * 704.0, 1e-14);
}

/* [0, 1024) runs on a contiguous ring of two, with 2 heads 2 wide. The block of a rank's own keys ends no earlier than
 * its tile of 512 keys, 524288 FLOP x 4 s on one multiprocessor of 8 or 6. Behind it 8 such tiles run in one wave on 8
 * multiprocessors, in two on 6. */
TEST(contiguous_ring__runs_its_blocks_one_after_the_other)
{
    struct device device = hand_device;
    struct scenario_plan plan = hand_toy_plan;
    struct cost_setting setting = hand_toy_setting_of(&plan);
    const struct slice whole = {.end = 1024};
    const struct cost_micro_batch micro_batch = {.slices = &whole, .n_slices = 1, .context = 2};
    setting.cp_type = SCENARIO_RING_CONTIGUOUS;
    setting.device = &device;
    setting.tensor = 1;
    device.multiprocessors = 8;
    CHECK_CLOSE(hand_blocks_s(&setting, PASS_FORWARD, &micro_batch), 3 * (524288.0 * 4 * 8 + 524288.0 * 4 * 8), 1e-14);
    device.multiprocessors = 6;
    CHECK_CLOSE(hand_blocks_s(&setting, PASS_FORWARD, &micro_batch), 3 * (524288.0 * 4 * 6 + 2 * 524288.0 * 4 * 6),
                1e-14);
}

/* 24 tokens run on four ranks with TP 2, q 4 and k 2, so a rank has 3 tokens over TP. Forward moves (3 x 10 + 12) q =
 * 168 bytes a token. Backward moves as much and (3 x 20 + 24) k = 168. Keys and values are 24 x 4k/2 = 96 bytes, and
 * 3/4 of them are sent in 3 steps. Backward sends them again, and their gradients in fp32, 192, in 4 steps. */
TEST(contiguous_ring__sends_and_sums_gradients_in_fp32)
{
    const struct slice sample = {0, 0, 24};
    const struct cost_micro_batch micro_batch = {.slices = &sample, .n_slices = 1, .context = 4};
    const double bytes[N_PASSES] = {168, 336}, sent[N_PASSES] = {72, 264};
    const int32_t steps[N_PASSES] = {3, 4};
    struct scenario_plan plan = hand_toy_plan;
    struct cost_setting setting = hand_toy_setting_of(&plan);
    setting.cp_type = SCENARIO_RING_CONTIGUOUS;
    for (enum pass pass = PASS_FORWARD; pass <= PASS_BACKWARD; pass++) {
        struct cost_pass cost = cost_of_pass(&setting, pass, &micro_batch);
        CHECK_CLOSE(cost.attention_s - hand_blocks_s(&setting, pass, &micro_batch), 3 * 2 * bytes[pass] * 3, 1e-12);
        CHECK_CLOSE(cost.ring_bytes, 3 * sent[pass], 1e-14);
        CHECK_EQUAL(cost.ring_steps, 3 * steps[pass]);
    }
}

/* Launches take 1 s, bytes and FLOPs no time. The copies and sums are those of the rank that has more: some for each
 * other block, some once. One sample launches 1 and 2 forward, and 3 and 7 backward (half of the queries). Packed
 * samples launch 3 and 3, and 6 and 4. */
TEST(ring__launches_its_copies_and_sums)
{
    const struct slice slices[] = {{0, 0, 24}, {1, 0, 8}};
    const double each[N_PASSES][2] = {{1, 3}, {3, 6}}, once[N_PASSES][2] = {{2, 3}, {7, 4}};
    struct device device = hand_device;
    struct cost_setting setting = hand_toy_setting();
    setting.device = &device;
    device.peak_flop_per_s[PRECISION_BF16] = device.hbm_bytes_per_s = 1e30;
    device.launch_s = 1;
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++)
        for (int32_t packed = 0; packed < 2; packed++)
            for (int32_t context = 2; context <= 4; context++) {
                const struct cost_micro_batch micro_batch = {
                    .slices = slices, .n_slices = 1 + packed, .context = context};
                double moves_s = cost_of_pass(&setting, pass, &micro_batch).attention_s -
                                 hand_blocks_s(&setting, pass, &micro_batch);
                CHECK_CLOSE(moves_s, 3 * ((context - 1) * each[pass][packed] + once[pass][packed]), 1e-12);
            }
}

/* CP is 2, TP 2, and each figure is for one layer of three. Keys and values of the prefixes 4 and 6 and of padding are
 * 12 x 4k/2 = 48 bytes. Half of them is sent, as by the ring. The gather takes 1 + 24/10 s before one kernel of whole
 * keys. 4 x 5/4/2 queries see 5 keys and 3 see 9, with the FLOPs of both blocks, 40 and 72. Backward runs both
 * collectives and moves twice the bytes. */
TEST(all_gather__brings_keys_before_attention)
{
    struct device device = hand_device;
    device.forward[DEVICE_FLASH2] = (struct device_flash){.efficiency = 0.25, .q_half = 8, .k_half = 16};
    struct scenario_plan plan = hand_toy_plan;
    struct cost_setting setting = hand_toy_setting_of(&plan);
    setting.device = &device;
    setting.cp_type = SCENARIO_ALL_GATHER;
    struct cost_micro_batch micro_batch = hand_toy_micro_batch(RECOMPUTE_NONE);
    struct cost_pass forward = cost_of_pass(&setting, PASS_FORWARD, &micro_batch);
    struct cost_pass backward = cost_of_pass(&setting, PASS_BACKWARD, &micro_batch);
    CHECK_CLOSE(forward.context_s, 3 * 3.4, 1e-14);
    CHECK_CLOSE(forward.ring_bytes, 3 * 24.0, 1e-14);
    CHECK_EQUAL(forward.ring_steps, 0);
    CHECK_CLOSE(forward.attention_s, 3 * 4 * (40 * 4.2 * (1 + 16 / 5.0) + 72 * (1 + 8 / 3.0) * (1 + 16 / 9.0)), 1e-14);
    CHECK_CLOSE(backward.context_s, 3 * 6.8, 1e-14);
    CHECK_CLOSE(backward.ring_bytes, 3 * 48.0, 1e-14);
    struct cost_micro_batch full = hand_toy_micro_batch(RECOMPUTE_FULL);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_BACKWARD, &full).context_s, 3 * 10.2, 1e-14);
}

/* Ulysses has 10 tokens with padding, 5 on a rank. Widths are 4 (queries, output) and 2 (keys, values) over TP 2, which
 * are 20 and 10 bytes. The one head of keys and values goes to both heads of queries, so it has 20 bytes as well. Half
 * of them leaves the rank. Four all-to-alls of 10 bytes take 1 s and 0.1 s a byte each, in both passes. Attention runs
 * half of the heads on whole samples in one kernel. With one CP rank a node they go by NIC: 2 s and (10 + 10 x
 * 50/60)/0.5 bytes at 20 B/s. */
TEST(ulysses__exchanges_heads_for_tokens)
{
    struct device device = hand_device;
    device.collective[DEVICE_ALL_TO_ALL] = (struct device_collective){.latency_s = 1, .efficiency = 1};
    device.forward[DEVICE_FLASH2] = (struct device_flash){.efficiency = 0.25, .q_half = 8, .k_half = 16};
    struct scenario_plan plan = hand_toy_plan;
    struct cost_setting setting = hand_toy_setting_of(&plan);
    setting.device = &device;
    setting.cp_type = SCENARIO_ULYSSES;
    struct cost_micro_batch micro_batch = hand_toy_micro_batch(RECOMPUTE_NONE);
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
        CHECK_CLOSE(cost_of_pass(&setting, pass, &micro_batch).context_s, 3 * 4 * 2.0, 1e-14);
        CHECK_CLOSE(cost_of_pass(&setting, pass, &micro_batch).ring_bytes, 3 * 40.0, 1e-14);
    }
    CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &micro_batch).attention_s,
                3 * 4 * (40 * 2.6 * (1 + 16 / 5.0) + 72 * (1 + 8 / 6.0) * (1 + 16 / 9.0)), 1e-14);
    struct platform pairs = hand_links;
    pairs.gpus_per_node = pairs.nvlink_domain = 2;
    setting.platform = &pairs;
    CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &micro_batch).context_s, 3 * 4 * (2 + (10 + 10 * 50 / 60.0) / 10),
                1e-14);
    CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &micro_batch).context_wire_bytes,
                3 * 4 * (10 + 10 * 50 / 60.0) / 0.5, 1e-14);
    micro_batch.context = 1;
    CHECK_TRUE(cost_of_pass(&setting, PASS_FORWARD, &micro_batch).context_s == 0);
    micro_batch.context = 4; /* NICs take no time: a third goes to the other rank of a pair, the rest away */
    setting.tensor = 1;
    device.nic = (struct device_link){.efficiency = 1};
    pairs.nic_bytes_per_s = 1e30;
    double apart_s = cost_of_pass(&setting, PASS_FORWARD, &micro_batch).context_s;
    setting.platform = &hand_links;
    CHECK_CLOSE(cost_of_pass(&setting, PASS_FORWARD, &micro_batch).context_s - 3 * 4, 3 * (apart_s - 3 * 4), 1e-12);
}

/* Return the bytes that a rank sends of one sample in a forward, without TP. A head is 4 wide. */
static double ulysses_bytes(int64_t heads, int64_t kv_heads, int32_t tokens, int32_t ranks)
{
    struct device device = hand_device;
    device.collective[DEVICE_ALL_TO_ALL] = (struct device_collective){.latency_s = 1, .efficiency = 1};
    struct model model = *hand_toy_setting().model;
    model.hidden = 4 * heads;
    model.kinds[0].heads = heads;
    model.kinds[0].kv_heads = kv_heads;
    struct scenario_plan plan = hand_toy_plan;
    struct cost_setting setting = hand_toy_setting_of(&plan);
    setting.model = &model;
    setting.device = &device;
    setting.tensor = 1;
    setting.cp_type = SCENARIO_ULYSSES;
    const struct slice whole = {0, 0, tokens};
    struct cost_micro_batch micro_batch = {.slices = &whole, .n_slices = 1, .context = ranks};
    return cost_of_pass(&setting, PASS_FORWARD, &micro_batch).ring_bytes;
}

/* One head of keys and values serves 16 of queries. 4 ranks need 4 copies of it. 16 and 32 ranks need 16, as wide as
 * the queries. A rank of c sends T/c (c - 1)/c x 2 x (2 x 64 + 2 x 4 copies) bytes of T tokens. */
TEST(ulysses__copies_few_heads_of_keys_for_many_ranks)
{
    static const int32_t ranks[] = {4, 16, 32}, copies[] = {4, 16, 16};
    for (int i = 0; i < 3; i++) {
        double sent = 128.0 / ranks[i] * (ranks[i] - 1) / ranks[i] * 2 * (2 * 64 + 2 * 4 * copies[i]);
        CHECK_CLOSE(ulysses_bytes(16, 1, 128, ranks[i]), 3 * sent, 1e-14);
    }
}

/* 32 heads of 4, and 8 of keys and values, each on 2 of 16 ranks. A rank has 100 of 1600 tokens, and exchanges 15/16 of
 * queries and outputs, 128 wide, and of keys and values, 2 x 32 wide: 100 x 15/16 x 2 x 2 (128 + 64) bytes. */
TEST(ulysses__sends_each_of_8_heads_to_two_of_16_ranks)
{
    CHECK_CLOSE(ulysses_bytes(32, 8, 1600, 16), 3 * 72000.0, 1e-14);
}

static struct cost_setting latent_setting(const struct scenario_plan *plan)
{
    struct cost_setting setting = hand_toy_setting_of(plan);
    setting.model = &hand_latent;
    return setting;
}

/* Latent widths are 8 (queries), 8 (keys), 4 (values) and 4 (output) over TP 2. A rank has 5 of 10 tokens, and half of
 * them leaves it: 20, 20, 10 and 10 bytes. Each all-to-all takes 1 s and 0.1 s a byte. */
TEST(ulysses__sends_latent_outputs_as_wide_as_values)
{
    struct device device = hand_device;
    device.collective[DEVICE_ALL_TO_ALL] = (struct device_collective){.latency_s = 1, .efficiency = 1};
    struct scenario_plan plan = hand_toy_plan;
    struct cost_setting setting = latent_setting(&plan);
    setting.device = &device;
    setting.cp_type = SCENARIO_ULYSSES;
    struct cost_micro_batch micro_batch = hand_toy_micro_batch(RECOMPUTE_NONE);
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
        CHECK_CLOSE(cost_of_pass(&setting, pass, &micro_batch).context_s, 3 * (3 + 3 + 2 + 2.0), 1e-14);
        CHECK_CLOSE(cost_of_pass(&setting, pass, &micro_batch).ring_bytes, 3 * 60.0, 1e-14);
    }
}

/* A ring of four with TP 2 has 3 of 24 tokens a rank over TP. Latent widths are q 8, o 4, and k 6 in the mean. A byte
 * takes 2 s. The table has the rank that moves more.
 *
 *   forward    half of the keys     (3 x 6 + 4) o + 8 k                     = 136
 *   backward   half of the queries  (3 x 3 + 4) q + (3 x 12 + 14) k         = 404
 *   packed     half of the keys     (3 x 6 + 8) o + (3 x 4 + 8) k           = 224, of 4 tokens
 *   backward   half of the queries  (3 x 5 + 4) q + 3 x 4 o + 50 k          = 500, of 4 tokens
 *   contiguous                      (3 x 10 + 12) o                         = 168
 *   backward                        (3 x 10 + 12) q + (3 x 20 + 24) k       = 840 */
TEST(ring__copies_latent_outputs_as_wide_as_values)
{
    const struct slice slices[] = {{0, 0, 24}, {1, 0, 8}};
    const double bytes[][N_PASSES] = {{136, 404}, {224, 500}, {168, 840}};
    struct scenario_plan plan = hand_toy_plan;
    struct cost_setting setting = latent_setting(&plan);
    for (int i = 0; i < 3; i++) {
        const struct cost_micro_batch micro_batch = {.slices = slices, .n_slices = i == 1 ? 2 : 1, .context = 4};
        setting.cp_type = i == 2 ? SCENARIO_RING_CONTIGUOUS : SCENARIO_RING;
        for (enum pass pass = PASS_FORWARD; pass <= PASS_BACKWARD; pass++)
            CHECK_CLOSE(cost_of_pass(&setting, pass, &micro_batch).attention_s -
                            hand_blocks_s(&setting, pass, &micro_batch),
                        3 * 2 * bytes[i][pass] * (i == 1 ? 4 : 3), 1e-12);
    }
}

/* TP 2 has 2 of 4 tokens over TP. Forward gathers 4 (q + 2k) = 80 bytes and scatters 6 o = 24. Backward gathers 4 o =
 * 16 and scatters 6 (q + 2k) = 120. */
TEST(flash1__scatters_latent_outputs_as_wide_as_values)
{
    const struct slice sample = {0, 0, 4};
    const struct cost_micro_batch micro_batch = {.slices = &sample, .n_slices = 1, .context = 1};
    const double bytes[N_PASSES] = {80 + 24, 16 + 120};
    struct scenario_plan plan = hand_toy_plan;
    struct cost_setting setting = latent_setting(&plan);
    setting.attention = DEVICE_FLASH1;
    for (enum pass pass = PASS_FORWARD; pass <= PASS_BACKWARD; pass++)
        CHECK_CLOSE(cost_of_pass(&setting, pass, &micro_batch).attention_s -
                        hand_blocks_s(&setting, pass, &micro_batch),
                    3 * 2 * 2 * bytes[pass], 1e-12);
}
