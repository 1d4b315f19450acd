/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "bounds/critical_path.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "hand_plan.h"
#include "harness.h"

static struct dag built(const struct plan *plan)
{
    struct dag dag;
    struct error err = {0};
    if (!dag_build(plan, hand_setting(), (struct dag_options){0}, &dag, &err))
        printf("%s\n", err.text);
    return dag;
}

/* Equal stages, free network: m rounds of f + b, and p - 1 of bubble. */
static void uniform_one_f_one_b_matches_the_closed_form(void)
{
    struct timeline timeline = {0};
    for (int32_t p = 1; p <= 8; p++)
        for (int32_t m = 1; m <= 24; m++) {
            struct plan plan;
            hand_uniform(&plan, p, m, 16);
            struct dag dag = built(&plan);
            hand_times(&dag, 1.0, 2.0);
            critical_path(&dag, &timeline);
            CHECK_CLOSE(timeline.makespan_s, (m + p - 1) * 3.0, 1e-12);
            dag_free(&dag);
            plan_free(&plan);
        }
    timeline_free(&timeline);
}

int main(void)
{
    return HARNESS_MAIN("critical_path", TEST(uniform_one_f_one_b_matches_the_closed_form));
}
