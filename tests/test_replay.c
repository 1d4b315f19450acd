/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests read tables of measured passes and make their passes equal. */
#include "scenario/replay.h"

#include <stdio.h>

#include "harness.h"

/* Read a table with this text, of 2 DP ranks, 2 stages and 2 micro-batches at most. */
static bool read_text(const char *text, enum replay_equal equal, int64_t step, struct scenario_replay *replay,
                      struct error *err)
{
    *err = (struct error){0};
    *replay = (struct scenario_replay){.equal = (int32_t)equal, .step = step};
    snprintf(replay->file, sizeof replay->file, "%s", harness_path("steps.csv"));
    FILE *file = fopen(replay->file, "w");
    CHECK_TRUE(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
    return replay_read(replay, err);
}

#define HEADER "job,forward_ms,backward_ms,microbatch,stage,dp_rank,step\n"
#define STEP_9                                                                                                         \
    "A,1,10,0,0,0,9\nA,2,20,1,0,0,9\nA,3,30,0,1,0,9\nA,4,40,1,1,0,9\n"                                                 \
    "A,5,50,0,0,1,9\nA,6,60,1,0,1,9\nA,7,70,0,1,1,9\nA,16,80,1,1,1,9\n"
#define STEP_8 "A,0.5,1.5,0,0,0,8\n"

TEST(steps__are_read_in_ascending_order_with_columns_in_any_order)
{
    struct scenario_replay replay;
    struct error err;
    CHECK_TRUE(read_text("# source: hand\n" HEADER STEP_9 STEP_8, REPLAY_EQUAL_NONE, -1, &replay, &err));
    CHECK_EQUAL(replay.n_steps, 2);
    CHECK_EQUAL(replay.steps[0].number, 8);
    CHECK_EQUAL(replay.steps[0].ranks, 1);
    CHECK_CLOSE(replay_s(&replay.steps[0], true, 0, 0, 0), 1.5e-3, 1e-15);
    CHECK_EQUAL(replay.steps[1].micro_batches, 2);
    CHECK_CLOSE(replay_s(&replay.steps[1], false, 1, 0, 1), 6e-3, 1e-15);
    CHECK_CLOSE(replay_s(&replay.steps[1], true, 0, 1, 0), 30e-3, 1e-15);
    replay_free(&replay);
    CHECK_TRUE(read_text(HEADER STEP_9 STEP_8, REPLAY_EQUAL_NONE, 9, &replay, &err));
    CHECK_EQUAL(replay.n_steps, 1);
    CHECK_EQUAL(replay.steps[0].number, 9);
    replay_free(&replay);
}

/* The forward passes are 1 2 | 3 4 on rank 0 and 5 6 | 7 16 on rank 1, with a bar between stages. */
TEST(equal_passes__are_medians_of_workers_and_means_otherwise)
{
    static const double expected_ms[][8] = {[REPLAY_EQUAL_NONE] = {1, 2, 3, 4, 5, 6, 7, 16},
                                            [REPLAY_EQUAL_WORKERS] = {3, 4, 5, 10, 3, 4, 5, 10},
                                            [REPLAY_EQUAL_LENGTHS] = {3.5, 3.5, 7.5, 7.5, 3.5, 3.5, 7.5, 7.5},
                                            [REPLAY_EQUAL_STAGES] = {2, 3, 2, 3, 6, 11, 6, 11},
                                            [REPLAY_EQUAL_ALL] = {5.5, 5.5, 5.5, 5.5, 5.5, 5.5, 5.5, 5.5}};
    for (enum replay_equal equal = REPLAY_EQUAL_NONE; equal <= REPLAY_EQUAL_ALL; equal++) {
        struct scenario_replay replay;
        struct error err;
        CHECK_TRUE(read_text(HEADER STEP_9, equal, -1, &replay, &err));
        for (int32_t i = 0; i < 8; i++)
            CHECK_CLOSE(replay_s(&replay.steps[0], false, i / 4, i / 2 % 2, i % 2), expected_ms[equal][i] / 1e3, 1e-15);
        replay_free(&replay);
    }
}

/* One of three workers is slow. Their median is a sound one, and no mean. */
TEST(equal_workers__take_no_time_of_one_slow_worker)
{
    struct scenario_replay replay;
    struct error err;
    CHECK_TRUE(
        read_text(HEADER "A,2,3,0,0,0,1\nA,9,9,0,0,1,1\nA,1,4,0,0,2,1\n", REPLAY_EQUAL_WORKERS, -1, &replay, &err));
    CHECK_CLOSE(replay_s(&replay.steps[0], false, 1, 0, 0), 2e-3, 1e-15);
    CHECK_CLOSE(replay_s(&replay.steps[0], true, 1, 0, 0), 4e-3, 1e-15);
    replay_free(&replay);
}

TEST(wrong_table__is_refused_in_a_sentence)
{
    static const struct {
        const char *text, *says;
        int64_t step;
    } cases[] = {
        {"", "is empty; allowed: a table of steps", -1},
        {HEADER, "holds no step; allowed: at least one row below the header", -1},
        {"step,dp_rank,stage,microbatch,forward_ms\n", ":1: no column is called backward_ms; allowed: step, dp_rank",
         -1},
        {HEADER "A,1,2,0,0,0\n", ":2: the row has 6 fields, the header has 7", -1},
        {HEADER "A,1,-2,0,0,0,1\n", ":2: backward_ms: '-2' is not allowed; allowed: a number from 0 to", -1},
        {HEADER "A,1,2,0.5,0,0,1\n", ":2: microbatch: '0.5' is not allowed; allowed: a whole number from 0", -1},
        {HEADER "A,1,nan,0,0,0,1\n", ":2: backward_ms: 'nan' is not allowed", -1},
        {HEADER STEP_8 "B,1,2,0,0,0,8\n",
         ":3: step 8, dp_rank 0, stage 0, microbatch 0 stand on line 2, too; allowed: one row each", -1},
        {HEADER "A,1,10,0,0,0,9\nA,2,20,1,0,0,9\nA,3,30,0,1,0,9\n",
         "step 9 has no row of dp_rank 0, stage 1, microbatch 1; allowed: one for each of 1 dp_ranks x 2 stages x 2",
         -1},
        {HEADER STEP_8, "holds no step 7; allowed: one of its steps, 8 to 8", 7},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct scenario_replay replay;
        struct error err;
        CHECK_TRUE(!read_text(cases[i].text, REPLAY_EQUAL_NONE, cases[i].step, &replay, &err));
        CHECK_CONTAINS(err.text, cases[i].says);
        CHECK_EQUAL(err.status, ERROR_INVALID);
        replay_free(&replay);
    }
}
