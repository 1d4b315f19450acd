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

void order_one_f_one_b(struct plan_pipeline *pipeline, enum order_injection injection)
{
    int32_t stages = pipeline->layout.stages;
    int32_t n_forward = pipeline->cut[PASS_FORWARD].n_units, n_backward = pipeline->cut[PASS_BACKWARD].n_units;
    size_t n_steps = (size_t)stages * (size_t)(n_forward + n_backward);
    pipeline->step_first = check_realloc(pipeline->step_first, ((size_t)stages + 1) * sizeof *pipeline->step_first);
    pipeline->steps = check_realloc(pipeline->steps, n_steps * sizeof *pipeline->steps);
    int32_t *lead = leads(pipeline, injection);
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
