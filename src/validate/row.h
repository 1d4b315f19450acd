/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module predicts one row of a file of measurements. */
#ifndef SLIMSIM_VALIDATE_ROW_H
#define SLIMSIM_VALIDATE_ROW_H

#include "bounds/evaluate.h"
#include "validate/cause.h"
#include "validate/setting.h"

enum { ROW_REASON = 192 }; /* bytes of a reason */

/** The quantity that a row measures. The column `metric` gives it, and trace_quantity_names (trace/table.h) has the
 * names. */
enum validate_quantity {
    VALIDATE_THROUGHPUT,  /* tokens of an iteration / its time / GPUs [1/s] */
    VALIDATE_ALLOCATED,   /* torch.cuda.max_memory_allocated [bytes] */
    VALIDATE_STATES,      /* weights, gradients, optimizer: memory_allocated at the end of a step [bytes] */
    VALIDATE_RESERVED,    /* torch.cuda.max_memory_reserved: an upper bound of the prediction [bytes] */
    VALIDATE_ACTIVATIONS, /* activations of a first stage, by the formulas of Korthikanti et al. 2022 (arXiv:2205.05198)
                             [bytes] */
    VALIDATE_LAYER_STATES,   /* states of the layers of a stage, by the table of model states in their section 6 [bytes]
                              */
    VALIDATE_FITTED,         /* 1 if the run fitted into memory, 0 if it ran out; the row gives no quantity above */
    VALIDATE_LAYER_FORWARD,  /* time of one layer on one GPU, including its tensor-parallel collectives [s] */
    VALIDATE_LAYER_BACKWARD, /* the same for the backward pass, including recomputation [s] */
    VALIDATE_SPAN, /* from the first forward to the end of the last backward, with measured times of passes [s] */
    VALIDATE_N_QUANTITIES
};

/** Runs whose errors count apart: in bf16 without experts, in fp8, with experts, with experts in fp8, and on Blackwell
 * without and with experts. */
enum validate_kind {
    VALIDATE_DENSE,
    VALIDATE_FP8,
    VALIDATE_EXPERTS,
    VALIDATE_EXPERTS_FP8,
    VALIDATE_BLACKWELL,
    VALIDATE_EXPERTS_BLACKWELL,
    VALIDATE_N_KINDS
};
/** "", "fp8", "experts", "experts in fp8", "blackwell", "experts on blackwell" */
extern const char *const validate_kind_names[VALIDATE_N_KINDS];

/** One row of a file. Texts are shortened to their space. */
struct validate_row {
    char id[32], source[64], model[64], plan[80], trust[16];
    char framework[64];            /* name in model/framework; "": the row names none */
    char group[64];                /* what the row tests; "": it counts by framework and GPU */
    char pair[32];                 /* id of the row that it is compared with; "": none */
    bool varies;                   /* setting.varies */
    enum validate_kind kind;       /* rows of each count apart */
    bool ratio_only;               /* its throughput counts only beside its pair's, by the column `compared` */
    char device[64];               /* name in model/gpu; "": the row was not simulated */
    char cause[CAUSE_BYTES];       /* known cause of a wrong prediction (cause.h) */
    char assumed[SETTING_ASSUMED]; /* assumptions about values that the row does not give */
    char reason[ROW_REASON];       /* reason why the row was not simulated; "": it was */
    enum validate_quantity quantity;
    bool calibration;                   /* split calib, so constants may have been fitted to the row */
    int64_t n_gpus;                     /* 0: the row does not give it */
    double measured, predicted;         /* in the quantity's unit */
    double error;                       /* predicted / measured - 1; for VALIDATE_FITTED predicted - measured */
    double peak_bytes;                  /* predicted for the fullest GPU; 0: no whole run was simulated */
    double memory_bytes;                /* memory that a rank may use: request_memory_bytes; 0 likewise */
    bool ran_out;                       /* out of memory, by the column `fitted`; otherwise a published run fitted */
    bool tight;                         /* predicted to fit only tightly */
    enum exceeded_limit exceeded_limit; /* limit that the prediction exceeds */
};

/**
 * Read a row without its prediction. A text in `skip` becomes the row's reason, and such a row has no setting.
 * @return false with a line added to err for each error
 */
bool row_read(const struct measured *measured, int32_t row, struct setting *setting, struct validate_row *result,
              struct error *err);

/**
 * Predict a row that row_read has read. If the simulation fails, the result has its reason.
 * @return false with err: a device file that cannot be read
 */
bool row_predict(const struct measured *measured, int32_t row, const struct measured *causes, struct setting *setting,
                 struct validate_row *result, struct error *err);

#endif
