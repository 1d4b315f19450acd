/* SPDX-License-Identifier: GPL-3.0-or-later */
/** One row of a file of measurements, predicted. */
#ifndef SLIMSIM_VALIDATE_ROW_H
#define SLIMSIM_VALIDATE_ROW_H

#include "bounds/evaluate.h"
#include "validate/cause.h"
#include "validate/setting.h"

enum { ROW_REASON = 192 }; /* bytes */

/** A row measures one of these. trace_quantity_names (trace/table.h) are their names. The column `metric` says it. */
enum validate_quantity {
    VALIDATE_THROUGHPUT,   /* tokens of an iteration / its time / GPUs [1/s] */
    VALIDATE_ALLOCATED,    /* torch.cuda.max_memory_allocated [bytes] */
    VALIDATE_STATES,       /* weights, gradients, optimizer: memory_allocated at the end of a step [bytes] */
    VALIDATE_RESERVED,     /* torch.cuda.max_memory_reserved: an upper bound of the prediction [bytes] */
    VALIDATE_ACTIVATIONS,  /* of a first stage, by the formulas of Korthikanti et al. 2022 (arXiv:2205.05198) [bytes] */
    VALIDATE_LAYER_STATES, /* of the layers of a stage, likewise: their section 6's table of model states [bytes] */
    VALIDATE_FITTED, /* whether the run fitted into memory: 1, or 0 if it ran out of it; no quantity above is given */
    VALIDATE_LAYER_FORWARD,  /* of one layer on one GPU, its tensor-parallel collectives included [s] */
    VALIDATE_LAYER_BACKWARD, /* likewise, recomputation included [s] */
    VALIDATE_N_QUANTITIES
};

/** One row of a file. Texts are cut to their room. */
struct validate_row {
    char id[32], source[64], model[64], plan[80], trust[16];
    char device[64];               /* of model/gpu; "" where the row was not simulated */
    char cause[CAUSE_BYTES];       /* why the prediction is off, where that is known (cause.h) */
    char assumed[SETTING_ASSUMED]; /* what the row leaves open, as it was taken */
    char reason[ROW_REASON];       /* why it was not simulated; "" it was */
    enum validate_quantity quantity;
    bool calibration;           /* split calib: constants may have been fitted on it */
    int64_t n_gpus;             /* 0: not in the row */
    double measured, predicted; /* in the quantity's unit */
    double error;               /* predicted / measured - 1; of VALIDATE_FITTED predicted - measured */
    double peak_bytes;          /* predicted, of the fullest GPU; 0: no whole run was simulated */
    double memory_bytes;        /* that a rank may use: request_memory_bytes; likewise */
    bool ran_out;               /* of memory, by the column `fitted`; else a published run did fit */
    enum exceeded_limit misfit; /* of the prediction */
};

/** Read a row, all but the prediction. A row with a text in `skip` has it as its reason, and no setting.
 * @return false with a line added to err for each fault */
bool row_read(const struct measured *measured, int32_t row, struct setting *setting, struct validate_row *result,
              struct error *err);

/** Predict a row that row_read has read; where the simulation fails, the result has its reason.
 * @return false with err: a device file that cannot be read */
bool row_predict(const struct measured *measured, int32_t row, const struct measured *causes, struct setting *setting,
                 struct validate_row *result, struct error *err);

#endif
