/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check the memory of activations that are copied to the host and back. */
#include "bounds/memory.h"

#include <math.h>

#include "hand_memory.h"
#include "hand_plan.h"
#include "harness.h"

/* Nine micro-batches run on one stage, all forwards first, so at most nine micro-batches' activations are there. Half
 * of each goes out. When the last forward starts, seven halves are left of the first seven. The eighth is whole until
 * the next pass, and the ninth is new. Two buffers of a half each are for what comes back. So five halves are saved.
 * Keys and values and the head's probabilities stay on the device. */
TEST(offload__halves_what_waits)
{
    struct plan plan;
    struct hand_run run;
    hand_uniform(&plan, 1, 9, 16);
    struct plan_pipeline *pipeline = &plan.phases[0].pipelines[0];
    for (int i = 0; i < 18; i++)
        pipeline->steps[i] = (struct plan_step){i < 9 ? PASS_FORWARD : PASS_BACKWARD, i % 9, 0};
    double micro_batch = 16.0 * 840 * hand_activation(RECOMPUTE_NONE, false);
    for (int offload = 0; offload < 2; offload++) {
        for (int i = 0; i < 9; i++)
            pipeline->partition[PASS_FORWARD].micro_batches[i].offload = 0.5 * offload;
        run = (struct hand_run){0};
        run.dag = hand_built(&plan, hand_setting(), (struct dag_options){0});
        hand_times(&run.dag, 1.0, 1.0);
        hand_send_times(&run.dag, 0.1);
        critical_path(&run.dag, &run.timeline);
        memory_of(&plan, &run.dag, &run.timeline, hand_setting(), true, &run.memory);
        double half = 0.5 * micro_batch;
        CHECK_CLOSE(hand_highest(&run.memory, 0, MEMORY_ACTIVATIONS),
                    9 * micro_batch - offload * 5 * half + hand_head_kept(9 * 16), 1e-14);
        const struct memory_event *last = &run.memory.events[run.memory.n_events - 1];
        CHECK_TRUE(fabs(last->bytes[MEMORY_ACTIVATIONS]) <= 1e-9 * micro_batch);
        hand_close_run(&run);
    }
    plan_free(&plan);
}

/* F0 B0 F1 B1 of 1 and 2 s run on one stage. Half of each micro-batch is offloaded while its passes run, so only the
 * other half is ever held. Copies of 0.8 s, out from 0 and back from 1, hide: 6 s. Copies of 2.5 s go out 0-2.5 and
 * back 2.5-5, for which F1 waits; then out 5-7.5, back 7.5-10. Copied after their passes, 0.8 s each are before B0 and
 * B1: 9.2 s. Then F1 has all of its own, half of the one before until the next pass, and two buffers of a half. */
TEST(streamed_offload__is_never_held)
{
    struct plan plan;
    struct hand_run run;
    const double copy_s[] = {0.8, 2.5, 0.8}, end_s[] = {6, 10, 9.2};
    hand_uniform(&plan, 1, 2, 16);
    struct plan_partition *partition = plan.phases[0].pipelines[0].partition;
    double micro_batch = 16.0 * 840 * hand_activation(RECOMPUTE_NONE, false);
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 4; k++) {
            partition[k / 2].micro_batches[k % 2].offload = 0.5;
            partition[k / 2].micro_batches[k % 2].streams = i < 2;
        }
        run = (struct hand_run){0};
        run.dag = hand_built(&plan, hand_setting(), (struct dag_options){0});
        hand_times(&run.dag, 1.0, 2.0);
        hand_send_times(&run.dag, copy_s[i]);
        critical_path(&run.dag, &run.timeline);
        memory_of(&plan, &run.dag, &run.timeline, hand_setting(), true, &run.memory);
        CHECK_CLOSE(run.timeline.makespan_s, end_s[i], 1e-14);
        CHECK_CLOSE(hand_highest(&run.memory, 0, MEMORY_ACTIVATIONS),
                    (i < 2 ? 0.5 : 2.5) * micro_batch + hand_head_kept(16), 1e-14);
        CHECK_CLOSE(run.memory.host_peak_bytes[0], 0.5 * micro_batch, 1e-14);
        const struct memory_event *last = &run.memory.events[run.memory.n_events - 1];
        CHECK_TRUE(fabs(last->bytes[MEMORY_ACTIVATIONS]) <= 1e-9 * micro_batch);
        hand_close_run(&run);
    }
    plan_free(&plan);
}

/* Two stages run three micro-batches of A bytes, half of each offloaded, in order F0 F1 B0 F2 B1 B2 on stage 0. Its two
 * buffers are A together. F0 has 2 A, F1 3 A, since the copy of F0 runs beside it. B0 has 2.5 A and leaves F1's and the
 * buffers, 2 A. F2 has 3 A again, B1 2.5 A, B2 1.5 A. Stage 1 copies nothing and has one micro-batch at a time. */
TEST(offload__has_two_buffers)
{
    struct plan plan;
    struct hand_run run = {0};
    hand_uniform(&plan, 2, 3, 16);
    for (int micro_batch = 0; micro_batch < 3; micro_batch++)
        plan.phases[0].pipelines[0].partition[PASS_FORWARD].micro_batches[micro_batch].offload = 0.5;
    hand_open_run(&run, &plan, hand_setting(), false);
    double micro_batch = 16.0 * 420 * hand_activation(RECOMPUTE_NONE, false);
    CHECK_CLOSE(hand_highest(&run.memory, 0, MEMORY_ACTIVATIONS), 3 * micro_batch, 1e-14);
    CHECK_CLOSE(hand_highest(&run.memory, 1, MEMORY_ACTIVATIONS), micro_batch + hand_head_kept(16), 1e-14);
    CHECK_CLOSE(run.memory.host_peak_bytes[1], 0, 1e-14);
    hand_close_run(&run);
    plan_free(&plan);
}
