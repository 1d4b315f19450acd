/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Published measurements against what the simulator predicts for the same plan. */
#ifndef SLIMSIM_VALIDATE_VALIDATE_H
#define SLIMSIM_VALIDATE_VALIDATE_H

#include "validate/row.h"

struct validate {
    int32_t n_rows;
    struct validate_row *rows; /* in the order of the files */
    char unread[256];          /* columns of the files that mean nothing here, ", " between */
    struct memory_pressure pressure;
};

/** Which rows: all that obey every filter, "COLUMN=VALUE" with the cell's exact text. */
struct validate_request {
    int32_t n_paths, n_filters;
    const char *const *paths; /* none: the files shipped in model/validation */
    const char *const *filters;
};

/** Called before each row. */
typedef void validate_progress(void *context, int32_t row, int32_t n_rows);

/**
 * Predict every row. A row with a text in the column `skip`, or whose simulation fails, gets a reason.
 *
 * Throughput: fixed lengths of data.context tokens, micro-batches of whole sequences, plain 1F1B on the critical path;
 * measured tokens a second and GPU, else those of the step time, else of the TFLOP/s by the formula that the row names.
 * Memory: largest live bytes of any rank, or of the first or last stage where `ranks` says so; no CUDA context, no
 * allocator's rounding.
 * Fitted: whether the simulated run fits. Column `fitted`, yes or no (out of memory), is read if there is no measured
 * value.
 *
 * @param validate  {0}
 * @return          false with err: a file that cannot be read, a malformed cell, a filter of an unknown column
 */
bool validate_run(const struct validate_request *request, validate_progress *progress, void *context,
                  struct validate *validate, struct error *err);

void validate_free(struct validate *validate);

#endif
