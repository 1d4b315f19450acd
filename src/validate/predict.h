/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module simulates one measured row. */
#ifndef SLIMSIM_VALIDATE_PREDICT_H
#define SLIMSIM_VALIDATE_PREDICT_H

#include "bounds/evaluate.h"
#include "cost/flop.h"
#include "validate/setting.h"

struct predict_result {
    double time_s; /* of the iteration */
    double tokens_per_s_per_gpu;
    double tokens;            /* of an iteration, mean */
    double peak_bytes;        /* largest peak of any rank */
    double first_stage_bytes; /* largest peak of the first stage */
    double last_stage_bytes;  /* largest peak of the last stage */
    double memory_bytes;      /* memory that a rank may use: request_memory_bytes */
    enum exceeded_limit exceeded_limit;
    bool tight; /* trace_summary */
};

/** Simulate the iterations of a row on the critical path. @return false with err if the simulation fails */
bool predict_run(const struct setting *setting, const struct device *device, struct predict_result *result,
                 struct error *err);

/** Return the time of one layer of one micro-batch on one rank, including tensor-parallel collectives [s]. */
double predict_layer_s(const struct setting *setting, const struct device *device, enum pass pass);

/** Return the bytes of weights, gradients unless they are freed, optimizer states and libraries [bytes]. They are those
 * of the largest rank or of the last stage. */
double predict_state_bytes(const struct setting *setting, const struct device *device, bool last_stage);

/** Return weights, gradients and optimizer states of a stage between first and last, which holds only layers [bytes].
 */
double predict_layer_state_bytes(const struct setting *setting);

/**
 * Return the activations of a first stage at its peak [bytes]: cost_activation_bytes of all layers of the model. A
 * first stage holds as many micro-batches as there are stages. Interleaving multiplies this by 1 + (pp - 1)/(pp vpp).
 * Source: Korthikanti et al. 2022 (arXiv:2205.05198), section 4.2.3.
 */
double predict_activation_bytes(const struct setting *setting);

#endif
