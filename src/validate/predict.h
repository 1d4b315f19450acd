/* SPDX-License-Identifier: GPL-3.0-or-later */
/** One measured row simulated. */
#ifndef SLIMSIM_VALIDATE_PREDICT_H
#define SLIMSIM_VALIDATE_PREDICT_H

#include "bounds/evaluate.h"
#include "cost/flop.h"
#include "validate/setting.h"

struct predict_result {
    double tokens_per_s_per_gpu;
    double peak_bytes;        /* largest of any rank */
    double first_stage_bytes; /* largest of the first stage */
    double last_stage_bytes;  /* likewise of the last one */
    double memory_bytes;      /* that a rank may use: request_memory_bytes */
    enum exceeded_limit misfit;
};

/** One iteration on the critical path. @return false with err when the simulation fails */
bool predict_run(const struct setting *setting, const struct device *device, struct predict_result *result,
                 struct error *err);

/** One layer of one micro-batch on one rank, tensor-parallel collectives included [s]. */
double predict_layer_s(const struct setting *setting, const struct device *device, enum pass pass);

/** Weights, gradients unless they are freed, and optimizer states of the largest rank, or of the last stage, and what
 * libraries keep [bytes]. */
double predict_state_bytes(const struct setting *setting, const struct device *device, bool last_stage);

/** Weights, gradients and optimizer states of a stage between first and last: its layers' alone [bytes]. */
double predict_layer_state_bytes(const struct setting *setting);

/**
 * Activations of a first stage at its peak [bytes]: cost_activation_bytes of all layers of the model (a first stage
 * holds as many micro-batches as there are stages), with interleaving times 1 + (pp - 1)/(pp vpp).
 * Source: Korthikanti et al. 2022 (arXiv:2205.05198), section 4.2.3.
 */
double predict_activation_bytes(const struct setting *setting);

#endif
