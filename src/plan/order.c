/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "plan/order.h"

#include <stdlib.h>

#include "base/check.h"

static int32_t larger(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

/* Forwards that the last stage has run before each backward. Caller frees. */
static int32_t *leads(const struct plan_pipeline *pipeline, enum order_injection injection)
{
    int32_t n_backward = pipeline->cut[PASS_BACKWARD].n_units;
    int32_t *lead = check_malloc((size_t)n_backward * sizeof *lead);
    int32_t before = 0;
    for (int32_t j = 0; j < n_backward; j++) {
        int32_t least = injection == ORDER_PERSISTENT ? before + 1 : larger(j + 1, before);
        lead[j] = before = larger(least, pipeline->need[j]);
    }
    return lead;
}

/* Replace the order by the one in which the last stage runs lead[j] forwards before backward j. Frees lead. */
static void order_by_leads(struct plan_pipeline *pipeline, int32_t *lead)
{
    int32_t stages = pipeline->layout.stages;
    int32_t n_forward = pipeline->cut[PASS_FORWARD].n_units, n_backward = pipeline->cut[PASS_BACKWARD].n_units;
    size_t n_steps = (size_t)stages * (size_t)(n_forward + n_backward);
    pipeline->step_first = check_realloc(pipeline->step_first, ((size_t)stages + 1) * sizeof *pipeline->step_first);
    pipeline->steps = check_realloc(pipeline->steps, n_steps * sizeof *pipeline->steps);
    struct plan_step *step = pipeline->steps;
    for (int32_t stage = 0; stage < stages; stage++) {
        int32_t forward = 0;
        pipeline->step_first[stage] = (int32_t)(step - pipeline->steps);
        for (int32_t backward = 0; backward < n_backward; backward++) {
            while (forward < n_forward && forward < lead[backward] + stages - 1 - stage)
                *step++ = (struct plan_step){.pass = PASS_FORWARD, .unit = forward++};
            *step++ = (struct plan_step){.pass = PASS_BACKWARD, .unit = backward};
        }
        while (forward < n_forward)
            *step++ = (struct plan_step){.pass = PASS_FORWARD, .unit = forward++};
    }
    pipeline->step_first[stages] = (int32_t)(step - pipeline->steps);
    free(lead);
}

void order_one_f_one_b(struct plan_pipeline *pipeline, enum order_injection injection)
{
    order_by_leads(pipeline, leads(pipeline, injection));
}

int32_t order_lead(const struct plan_pipeline *pipeline)
{
    int32_t lead = 0;
    for (int32_t j = 0; j < pipeline->cut[PASS_BACKWARD].n_units; j++)
        lead = larger(lead, pipeline->need[j] - (j + 1));
    return lead;
}

void order_long_warm_up(struct plan_pipeline *pipeline, int32_t lead)
{
    int32_t n_backward = pipeline->cut[PASS_BACKWARD].n_units;
    int32_t *ahead = check_malloc((size_t)n_backward * sizeof *ahead);
    CHECK(lead >= order_lead(pipeline));
    for (int32_t j = 0; j < n_backward; j++)
        ahead[j] = j + 1 + lead;
    order_by_leads(pipeline, ahead);
}

void order_slots(struct plan_pipeline *pipeline, const int32_t *slot)
{
    int32_t stages = pipeline->layout.stages, n_units = pipeline->cut[PASS_FORWARD].n_units;
    CHECK(pipeline->cut[PASS_BACKWARD].n_units == n_units);
    pipeline->step_first = check_realloc(pipeline->step_first, ((size_t)stages + 1) * sizeof *pipeline->step_first);
    pipeline->steps = check_realloc(pipeline->steps, 2 * (size_t)stages * (size_t)n_units * sizeof *pipeline->steps);
    struct plan_step *step = pipeline->steps;
    for (int32_t stage = 0; stage < stages; stage++) {
        int32_t forward = 0;
        pipeline->step_first[stage] = (int32_t)(step - pipeline->steps);
        for (int32_t backward = 0; backward < n_units; backward++) {
            CHECK(pipeline->need[backward] <= backward + 1);
            while (forward < n_units && slot[forward] <= slot[backward] + stages - 1 - stage)
                *step++ = (struct plan_step){.pass = PASS_FORWARD, .unit = forward++};
            *step++ = (struct plan_step){.pass = PASS_BACKWARD, .unit = backward};
        }
    }
    pipeline->step_first[stages] = (int32_t)(step - pipeline->steps);
}

/* The k-th pass of an interleaved stage: groups of `stages` units go through one chunk after the other. */
static struct plan_step interleaved_step(const struct plan_layout *layout, enum pass pass, int32_t k)
{
    int32_t in_group = k % (layout->stages * layout->chunks), chunk = in_group / layout->stages;
    return (struct plan_step){
        .pass = pass,
        .unit = k / (layout->stages * layout->chunks) * layout->stages + in_group % layout->stages,
        .chunk = pass == PASS_FORWARD ? chunk : layout->chunks - 1 - chunk,
    };
}

void order_interleaved(struct plan_pipeline *pipeline)
{
    const struct plan_layout *layout = &pipeline->layout;
    int32_t stages = layout->stages, n_units = pipeline->cut[PASS_FORWARD].n_units, total = n_units * layout->chunks;
    CHECK(n_units % stages == 0 && pipeline->cut[PASS_BACKWARD].n_units == n_units);
    size_t n_steps = 2 * (size_t)stages * (size_t)total;
    pipeline->step_first = check_realloc(pipeline->step_first, ((size_t)stages + 1) * sizeof *pipeline->step_first);
    pipeline->steps = check_realloc(pipeline->steps, n_steps * sizeof *pipeline->steps);
    struct plan_step *step = pipeline->steps;
    for (int32_t stage = 0; stage < stages; stage++) {
        int32_t warm_up = 2 * (stages - 1 - stage) + (layout->chunks - 1) * stages, forward = 0;
        pipeline->step_first[stage] = (int32_t)(step - pipeline->steps);
        while (forward < total && forward < warm_up)
            *step++ = interleaved_step(layout, PASS_FORWARD, forward++);
        for (int32_t backward = 0; backward < total; backward++) {
            if (forward < total)
                *step++ = interleaved_step(layout, PASS_FORWARD, forward++);
            *step++ = interleaved_step(layout, PASS_BACKWARD, backward);
        }
    }
    pipeline->step_first[stages] = (int32_t)(step - pipeline->steps);
}
