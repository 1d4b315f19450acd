/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scenario/stages.h"

#include "base/check.h"

/** Return the layers of a stage that is neither first nor last. If those two are not given, it may be any stage.
 * @return -1: no number fits */
static int64_t middle_layers(const struct scenario_stages *split, int64_t layers, int32_t stages)
{
    int64_t left = layers - split->first_layers - split->last_layers + split->count_embedding + split->count_head;
    int32_t sharing = stages - (split->first_layers > 0) - (split->last_layers > 0);
    if (sharing <= 0)
        return sharing == 0 && left == 0 ? 0 : -1;
    return left > 0 && left % sharing == 0 ? left / sharing : -1;
}

int32_t scenario_stage_layers(const struct scenario_stages *split, int64_t layers, int32_t stages, int32_t chunks,
                              int32_t virtual_stage)
{
    CHECK(stages >= 1 && chunks >= 1 && 0 <= virtual_stage && virtual_stage < stages * chunks);
    int64_t of_stage = middle_layers(split, layers, stages);
    if (of_stage < 0)
        return -1;
    if (virtual_stage % stages == 0 && split->first_layers > 0)
        of_stage = split->first_layers;
    if (virtual_stage % stages == stages - 1 && split->last_layers > 0)
        of_stage = split->last_layers;
    if (of_stage % chunks != 0)
        return -1;
    bool embedding = virtual_stage == 0 && split->count_embedding;
    bool head = virtual_stage == stages * chunks - 1 && split->count_head;
    int64_t of_chunk = of_stage / chunks - embedding - head;
    return of_chunk >= 0 ? (int32_t)of_chunk : -1;
}

bool scenario_stages_fit(const struct scenario_stages *split, int64_t layers, int32_t stages, int32_t chunks)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < stages * chunks; i++) {
        int32_t of_stage = scenario_stage_layers(split, layers, stages, chunks, i);
        if (of_stage < 0)
            return false;
        sum += of_stage;
    }
    return sum == layers;
}
