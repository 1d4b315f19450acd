/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module makes JSON of the model's error and its ranges. */
#ifndef SLIMSIM_ANSWER_MODEL_ERROR_JSON_H
#define SLIMSIM_ANSWER_MODEL_ERROR_JSON_H

#include <jansson.h>

#include "simulate/model_error.h"

/** Return runs, sources, bias, between, within, deviation, wider and basis. */
json_t *model_error_json(const struct model_error *error);

/** Return p5 and p95. */
json_t *model_interval_json(const struct model_interval *interval);

#endif
