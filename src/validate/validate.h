/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module compares published measurements with the simulator's predictions for the same plan. */
#ifndef SLIMSIM_VALIDATE_VALIDATE_H
#define SLIMSIM_VALIDATE_VALIDATE_H

#include "validate/row.h"

struct validate {
    int32_t n_rows;
    struct validate_row *rows; /* in the order of the files */
    char unread[256];          /* columns of the files that are not read, separated by ", " */
    struct memory_pressure pressure;
};

/** The rows that obey every filter, "COLUMN=VALUE" with the cell's exact text. */
struct validate_request {
    int32_t n_paths, n_filters;
    const char *const *paths; /* without any, the shipped files of model/validation */
    const char *const *filters;
};

/** The function that is called before each row. */
typedef void validate_progress(void *context, int32_t row, int32_t n_rows);

/**
 * Predict every row. A row with a text in the column `skip`, or whose simulation fails, gets a reason.
 *
 * 1. Throughput is predicted with fixed lengths of data.context tokens, micro-batches of whole sequences and plain 1F1B
 * on the critical path. A row that names a system runs this system on documents of data.lengths. Throughput is compared
 * with the first value that the row has: tokens a second and GPU, those of the step time, those of the TFLOP/s by the
 * formula that the row names.
 * 2. Memory is the largest number of live bytes of any rank. `ranks` may restrict it to the first or last stage. It
 * counts no CUDA context and no rounding of the allocator.
 * 3. `fitted` says whether the run fits: yes or no (out of memory). It is read if there is no measured value.
 *
 * @param validate  {0}
 * @return          false with err: a file that cannot be read, a malformed cell, a filter of an unknown column
 */
bool validate_run(const struct validate_request *request, validate_progress *progress, void *context,
                  struct validate *validate, struct error *err);

void validate_free(struct validate *validate);

#endif
