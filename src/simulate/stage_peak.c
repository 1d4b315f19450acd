/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "simulate/stage_peak.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

static struct trace_stage *peak_of(struct stage_peaks *peaks, int32_t stage)
{
    if (stage >= peaks->n) {
        peaks->at = check_realloc(peaks->at, (size_t)(stage + 1) * sizeof *peaks->at);
        memset(peaks->at + peaks->n, 0, (size_t)(stage + 1 - peaks->n) * sizeof *peaks->at);
        peaks->n = stage + 1;
    }
    return &peaks->at[stage];
}

void stage_peaks_add(struct stage_peaks *peaks, const struct trace_iteration *iteration,
                     const struct evaluator *evaluator)
{
    const struct memory *memory = &evaluator->memory;
    for (int32_t i = 0; i < memory->n_ranks; i++) {
        const struct dag_rank *rank = &evaluator->dag.ranks[i];
        struct trace_stage *peak = peak_of(peaks, rank->stage);
        if (memory->peak_bytes[i] <= peak->peak_bytes)
            continue;
        *peak = (struct trace_stage){.system = iteration->system,
                                     .stage = rank->stage,
                                     .peak_bytes = memory->peak_bytes[i],
                                     .iteration = iteration->iteration,
                                     .pipeline = rank->pipeline};
        memcpy(peak->class_bytes, memory->at_peak[i], sizeof peak->class_bytes);
    }
}

void stage_peaks_free(struct stage_peaks *peaks)
{
    free(peaks->at);
    *peaks = (struct stage_peaks){0};
}
