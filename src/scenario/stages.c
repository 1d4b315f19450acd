/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scenario/stages.h"

#include "base/check.h"

/** Shares of the virtual stages whose layers are not given. The first `more` of them have one layer above `each`. */
struct shares {
    int64_t stages, each, more; /* stages: number of stages that share */
};

/** @return false: no numbers fit */
static bool share(const struct scenario_stages *split, int64_t layers, int32_t stages, int32_t chunks,
                  struct shares *shares)
{
    int64_t left =
        layers - split->first_layers.value - split->last_layers.value + split->count_embedding + split->count_head;
    *shares = (struct shares){.stages = stages - split->first_layers.given - split->last_layers.given};
    int64_t n = shares->stages * chunks;
    if (n <= 0)
        return n == 0 && left == 0;
    shares->each = left / n;
    shares->more = left % n;
    return left >= n && (shares->more == 0 || split->spread == SCENARIO_EVEN);
}

int32_t scenario_stage_layers(const struct scenario_stages *split, int64_t layers, int32_t stages, int32_t chunks,
                              int32_t virtual_stage)
{
    CHECK(stages >= 1 && chunks >= 1 && 0 <= virtual_stage && virtual_stage < stages * chunks);
    if (split->layers.n > 0)
        return split->layers.n == stages * chunks ? split->layers.at[virtual_stage] : -1;
    struct shares shares;
    if (!share(split, layers, stages, chunks, &shares))
        return -1;
    int32_t stage = virtual_stage % stages;
    int64_t place = virtual_stage / stages * shares.stages + stage - split->first_layers.given;
    int64_t of_chunk = shares.each + (place < shares.more);
    const struct schema_option ends[] = {split->first_layers, split->last_layers};
    for (int i = 0; i < 2; i++) {
        if (!ends[i].given || stage != (i == 0 ? 0 : stages - 1))
            continue;
        if (ends[i].value % chunks != 0)
            return -1;
        of_chunk = ends[i].value / chunks;
    }
    of_chunk -= virtual_stage == 0 && split->count_embedding;
    of_chunk -= virtual_stage == stages * chunks - 1 && split->count_head;
    return of_chunk >= 0 ? (int32_t)of_chunk : -1;
}

int32_t scenario_rank_layers(const struct scenario_stages *split, int64_t layers, int32_t stages, int32_t chunks,
                             int32_t stage)
{
    int32_t sum = 0;
    for (int32_t chunk = 0; chunk < chunks; chunk++)
        sum += scenario_stage_layers(split, layers, stages, chunks, chunk * stages + stage);
    return sum;
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
