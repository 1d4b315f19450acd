/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "plan/schedule.h"

#include "base/check.h"
#include "plan/order.h"
#include "plan/slicing.h"

static bool interleave(struct plan_pipeline *pipeline, struct error *err)
{
    int32_t n_micro_batches = pipeline->partition[PASS_FORWARD].n_micro_batches;
    if (n_micro_batches % pipeline->layout.stages != 0)
        return error_set(
            err,
            "plan.vpp: interleaved 1F1B needs micro-batches in multiples of the pipeline's %d stages, and one has "
            "%d; with vpp 1 any number runs",
            pipeline->layout.stages, n_micro_batches);
    plan_fill_need(pipeline);
    order_interleaved(pipeline);
    return true;
}

static void run_gpipe(struct plan_pipeline *pipeline)
{
    slicing_mirror(pipeline);
    plan_fill_need(pipeline);
    order_gpipe(pipeline);
}

static int32_t slices_of(const struct scenario_plan *plan, int32_t otherwise)
{
    return plan->slices > 0 ? (int32_t)plan->slices : otherwise;
}

bool schedule_pipeline(struct plan_pipeline *pipeline, const struct scenario_plan *plan,
                       const struct cost_setting *setting, struct error *err)
{
    switch ((enum scenario_schedule)plan->schedule) {
    case SCENARIO_ONE_F_ONE_B:
    case SCENARIO_INTERLEAVED:
        if (pipeline->layout.chunks > 1)
            return interleave(pipeline, err);
        plan_fill_need(pipeline);
        order_one_f_one_b(pipeline, ORDER_JUST_IN_TIME);
        return true;
    case SCENARIO_GPIPE:
        run_gpipe(pipeline);
        return true;
    case SCENARIO_ZERO_BUBBLE:
        plan_fill_need(pipeline);
        order_zero_bubble(pipeline);
        return true;
    case SCENARIO_SEQ1F1B:
        slicing_equal_flop(pipeline, setting->model, slices_of(plan, 4));
        plan_fill_need(pipeline);
        order_one_f_one_b(pipeline, ORDER_PERSISTENT);
        return true;
    case SCENARIO_TERAPIPE:
        slicing_by_time(pipeline, setting, slices_of(plan, 32));
        run_gpipe(pipeline);
        return true;
    case SCENARIO_N_SCHEDULES:
        break;
    }
    CHECK(!"there is such a schedule");
    return false;
}
