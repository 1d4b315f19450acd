/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "plan/order.h"

#include <stdlib.h>

#include "base/check.h"

static int32_t larger(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

int32_t *order_leads(const struct plan_pipeline *pipeline, int32_t most)
{
    int32_t n_backward = pipeline->partition[PASS_BACKWARD].n_micro_batches;
    int32_t *lead = check_malloc((size_t)n_backward * sizeof *lead);
    int32_t before = 0;
    for (int32_t j = 0; j < n_backward; j++) {
        int32_t least = before - j <= most ? before + 1 : before;
        lead[j] = before = larger(least, pipeline->need[j]);
    }
    return lead;
}

/*
 * Make room for `n_each` steps on every stage, and drop the order so far.
 *
 * @return the first step
 */
static struct plan_step *open_order(struct plan_pipeline *pipeline, int32_t n_each)
{
    size_t stages = (size_t)pipeline->layout.stages;
    pipeline->step_first = check_realloc(pipeline->step_first, (stages + 1) * sizeof *pipeline->step_first);
    pipeline->steps = check_realloc(pipeline->steps, stages * (size_t)n_each * sizeof *pipeline->steps);
    for (int32_t stage = 0; stage <= pipeline->layout.stages; stage++)
        pipeline->step_first[stage] = stage * n_each;
    return pipeline->steps;
}

/* Replace the order. In the new one stage s runs lead[j] + further x (p-1-s) forwards before backward j. lead is
 * freed. */
static void order_by_leads(struct plan_pipeline *pipeline, int32_t *lead, int32_t further)
{
    int32_t stages = pipeline->layout.stages;
    int32_t n_forward = pipeline->partition[PASS_FORWARD].n_micro_batches,
            n_backward = pipeline->partition[PASS_BACKWARD].n_micro_batches;
    struct plan_step *step = open_order(pipeline, n_forward + n_backward);
    for (int32_t stage = 0; stage < stages; stage++) {
        int32_t forward = 0;
        for (int32_t backward = 0; backward < n_backward; backward++) {
            while (forward < n_forward && forward < lead[backward] + further * (stages - 1 - stage))
                *step++ = (struct plan_step){.pass = PASS_FORWARD, .micro_batch = forward++};
            *step++ = (struct plan_step){.pass = PASS_BACKWARD, .micro_batch = backward};
        }
        while (forward < n_forward)
            *step++ = (struct plan_step){.pass = PASS_FORWARD, .micro_batch = forward++};
    }
    free(lead);
}

void order_one_f_one_b(struct plan_pipeline *pipeline, int32_t most)
{
    order_by_leads(pipeline, order_leads(pipeline, most), 1);
}

int32_t order_lead(const struct plan_pipeline *pipeline)
{
    int32_t lead = 0;
    for (int32_t j = 0; j < pipeline->partition[PASS_BACKWARD].n_micro_batches; j++)
        lead = larger(lead, pipeline->need[j] - (j + 1));
    return lead;
}

int32_t *order_long_leads(const struct plan_pipeline *pipeline, int32_t lead)
{
    int32_t n_backward = pipeline->partition[PASS_BACKWARD].n_micro_batches;
    int32_t *ahead = check_malloc((size_t)n_backward * sizeof *ahead);
    CHECK(lead >= order_lead(pipeline));
    for (int32_t j = 0; j < n_backward; j++)
        ahead[j] = j + 1 + lead;
    return ahead;
}

void order_long_warm_up(struct plan_pipeline *pipeline, int32_t lead)
{
    order_by_leads(pipeline, order_long_leads(pipeline, lead), 1);
}

void order_in_step(struct plan_pipeline *pipeline, int32_t *ahead)
{
    int32_t *lead = order_leads(pipeline, ORDER_PERSISTENT);
    for (int32_t j = 0; ahead != NULL && j < pipeline->partition[PASS_BACKWARD].n_micro_batches; j++)
        ahead[j] = lead[j];
    order_by_leads(pipeline, lead, 2);
}

int32_t order_n_ticks(const struct plan_pipeline *pipeline, const int32_t *ahead)
{
    int32_t n = pipeline->partition[PASS_BACKWARD].n_micro_batches;
    return n > 0 ? ahead[n - 1] + 2 * pipeline->layout.stages + 1 : 1;
}

/* Return the backward micro-batch before which the last stage runs n forwards, -1: none. */
static int32_t backward_after(const int32_t *ahead, int32_t n_micro_batches, int32_t n)
{
    int32_t low = 0, high = n_micro_batches;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (ahead[middle] < n)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n_micro_batches && ahead[low] == n ? low : -1;
}

int32_t order_tick(const struct plan_pipeline *pipeline, const int32_t *ahead, int32_t tick, enum pass pass,
                   int32_t *micro_batch)
{
    int32_t stages = pipeline->layout.stages, n = pipeline->partition[pass].n_micro_batches, n_running = 0;
    for (int32_t s = 0; s < stages; s++) {
        bool runs = tick >= s && tick - s < n;
        micro_batch[s] = pass == PASS_BACKWARD ? backward_after(ahead, n, tick + 1 + s - 2 * (stages - 1))
                         : runs                ? tick - s
                                               : -1;
        n_running += micro_batch[s] >= 0;
    }
    return n_running;
}

/* State of a stage, at the start of a cycle and after its steps. */
struct adaptive {
    int32_t forward, backward; /* micro-batches that have run */
    int32_t forward_before, backward_before;
    double held;
    struct plan_step *step; /* next step */
};

/* Run the steps of one stage in a cycle. `ran_forward` and `ran_backward` are the micro-batches that its neighbours ran
 * before the cycle. */
static void adapt(struct adaptive *stage, int32_t ran_forward, int32_t ran_backward, const double *size, double limit)
{
    if (stage->backward < ran_backward) {
        stage->held -= size[stage->backward];
        *stage->step++ = (struct plan_step){.pass = PASS_BACKWARD, .micro_batch = stage->backward++};
    }
    bool holds = stage->forward > stage->backward;
    if (stage->forward < ran_forward && (!holds || stage->held + size[stage->forward] <= limit)) {
        stage->held = (holds ? stage->held : 0) + size[stage->forward];
        *stage->step++ = (struct plan_step){.pass = PASS_FORWARD, .micro_batch = stage->forward++};
    }
}

void order_adaptive(struct plan_pipeline *pipeline, const double *size, double limit)
{
    int32_t stages = pipeline->layout.stages, n = pipeline->partition[PASS_FORWARD].n_micro_batches;
    CHECK(pipeline->layout.chunks == 1 && pipeline->partition[PASS_BACKWARD].n_micro_batches == n);
    struct plan_step *steps = open_order(pipeline, 2 * n);
    struct adaptive *stage = check_calloc((size_t)stages, sizeof *stage);
    for (int32_t s = 0; s < stages; s++)
        stage[s].step = steps + s * 2 * n;
    while (stage[0].backward < n) {
        for (int32_t s = 0; s < stages; s++) {
            stage[s].forward_before = stage[s].forward;
            stage[s].backward_before = stage[s].backward;
        }
        for (int32_t s = 0; s < stages; s++)
            adapt(&stage[s], s == 0 ? n : stage[s - 1].forward_before,
                  s == stages - 1 ? stage[s].forward_before : stage[s + 1].backward_before, size, limit);
    }
    free(stage);
}

void order_slots(struct plan_pipeline *pipeline, const int32_t *slot)
{
    int32_t stages = pipeline->layout.stages, n_micro_batches = pipeline->partition[PASS_FORWARD].n_micro_batches;
    CHECK(pipeline->partition[PASS_BACKWARD].n_micro_batches == n_micro_batches);
    struct plan_step *step = open_order(pipeline, 2 * n_micro_batches);
    for (int32_t stage = 0; stage < stages; stage++) {
        int32_t forward = 0;
        for (int32_t backward = 0; backward < n_micro_batches; backward++) {
            CHECK(pipeline->need[backward] <= backward + 1);
            while (forward < n_micro_batches && slot[forward] <= slot[backward] + stages - 1 - stage)
                *step++ = (struct plan_step){.pass = PASS_FORWARD, .micro_batch = forward++};
            *step++ = (struct plan_step){.pass = PASS_BACKWARD, .micro_batch = backward};
        }
    }
}

/* Return the k-th pass of an interleaved stage. Groups of `stages` micro-batches go through one chunk after the other.
 */
static struct plan_step interleaved_step(const struct plan_layout *layout, enum pass pass, int32_t k)
{
    int32_t in_group = k % (layout->stages * layout->chunks), chunk = in_group / layout->stages;
    return (struct plan_step){
        .pass = pass,
        .micro_batch = k / (layout->stages * layout->chunks) * layout->stages + in_group % layout->stages,
        .chunk = pass == PASS_FORWARD ? chunk : layout->chunks - 1 - chunk,
    };
}

void order_interleaved(struct plan_pipeline *pipeline)
{
    const struct plan_layout *layout = &pipeline->layout;
    int32_t stages = layout->stages, n_micro_batches = pipeline->partition[PASS_FORWARD].n_micro_batches,
            total = n_micro_batches * layout->chunks;
    CHECK(n_micro_batches % stages == 0 && pipeline->partition[PASS_BACKWARD].n_micro_batches == n_micro_batches);
    struct plan_step *step = open_order(pipeline, 2 * total);
    for (int32_t stage = 0; stage < stages; stage++) {
        int32_t warm_up = 2 * (stages - 1 - stage) + (layout->chunks - 1) * stages, forward = 0;
        while (forward < total && forward < warm_up)
            *step++ = interleaved_step(layout, PASS_FORWARD, forward++);
        for (int32_t backward = 0; backward < total; backward++) {
            if (forward < total)
                *step++ = interleaved_step(layout, PASS_FORWARD, forward++);
            *step++ = interleaved_step(layout, PASS_BACKWARD, backward);
        }
    }
}

void order_gpipe(struct plan_pipeline *pipeline)
{
    int32_t n_forward = pipeline->partition[PASS_FORWARD].n_micro_batches,
            n_backward = pipeline->partition[PASS_BACKWARD].n_micro_batches;
    struct plan_step *step = open_order(pipeline, n_forward + n_backward);
    for (int32_t stage = 0; stage < pipeline->layout.stages; stage++) {
        for (int32_t micro_batch = 0; micro_batch < n_forward; micro_batch++)
            *step++ = (struct plan_step){.pass = PASS_FORWARD, .micro_batch = micro_batch};
        for (int32_t micro_batch = 0; micro_batch < n_backward; micro_batch++)
            *step++ = (struct plan_step){.pass = PASS_BACKWARD, .micro_batch = micro_batch};
    }
}

void order_zero_bubble(struct plan_pipeline *pipeline)
{
    int32_t stages = pipeline->layout.stages, n = pipeline->partition[PASS_BACKWARD].n_micro_batches;
    CHECK(pipeline->layout.chunks == 1 && pipeline->partition[PASS_FORWARD].n_micro_batches == n);
    pipeline->splits_backward = true;
    struct plan_step *step = open_order(pipeline, 3 * n);
    for (int32_t stage = 0; stage < stages; stage++) {
        int32_t forward = 0, weight = 0;
        for (int32_t backward = 0; backward < n; backward++) {
            while (forward < n && forward < backward + stages - stage)
                *step++ = (struct plan_step){.pass = PASS_FORWARD, .micro_batch = forward++};
            *step++ = (struct plan_step){.pass = PASS_BACKWARD, .micro_batch = backward};
            if (backward >= stage)
                *step++ = (struct plan_step){.pass = PASS_WEIGHT, .micro_batch = weight++};
        }
        while (weight < n)
            *step++ = (struct plan_step){.pass = PASS_WEIGHT, .micro_batch = weight++};
    }
}
