/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "hand_memory.h"
#include "hand_setting.h"

#include <math.h>

#include "hand_plan.h"

void hand_open_run(struct hand_run *run, const struct plan *plan, const struct cost_setting *setting, bool all_ranks)
{
    *run = (struct hand_run){0};
    struct dag_options options = {.all_tensor_ranks = all_ranks, .gradient_sync = true};
    run->dag = hand_built(plan, setting, options);
    critical_path(&run->dag, &run->timeline);
    memory_of(plan, &run->dag, &run->timeline, setting, true, &run->memory);
}

void hand_close_run(struct hand_run *run)
{
    memory_free(&run->memory);
    timeline_free(&run->timeline);
    dag_free(&run->dag);
}

double hand_highest(const struct memory *memory, int32_t place, enum memory_class class)
{
    double bytes = 0;
    for (int64_t i = 0; i < memory->n_events; i++)
        if (memory->events[i].dag_rank == place)
            bytes = fmax(bytes, memory->events[i].bytes[class]);
    return bytes;
}

double hand_activation(enum recompute recompute, bool sliced)
{
    return hand_layer_bytes(hand_setting(), recompute, sliced);
}

double hand_head_kept(double tokens)
{
    return tokens * (4.0 * 1000 + 4 * 64);
}
