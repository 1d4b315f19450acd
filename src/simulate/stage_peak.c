/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "simulate/stage_peak.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

static struct stage_peak *peak_of(struct stage_peaks *peaks, int32_t stage)
{
    if (stage >= peaks->n) {
        peaks->at = check_realloc(peaks->at, (size_t)(stage + 1) * sizeof *peaks->at);
        memset(peaks->at + peaks->n, 0, (size_t)(stage + 1 - peaks->n) * sizeof *peaks->at);
        peaks->n = stage + 1;
    }
    return &peaks->at[stage];
}

void stage_peaks_add(struct stage_peaks *peaks, const struct dag *dag, const struct memory *memory, int64_t iteration)
{
    for (int32_t i = 0; i < memory->n_ranks; i++) {
        struct stage_peak *peak = peak_of(peaks, dag->ranks[i].stage);
        if (memory->peak_bytes[i] <= peak->peak_bytes)
            continue;
        peak->iteration = iteration;
        peak->pipeline = dag->ranks[i].pipeline;
        peak->peak_bytes = memory->peak_bytes[i];
        memcpy(peak->at_peak, memory->at_peak[i], sizeof peak->at_peak);
    }
}

void stage_peaks_free(struct stage_peaks *peaks)
{
    free(peaks->at);
    *peaks = (struct stage_peaks){0};
}
