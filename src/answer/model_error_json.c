/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "answer/model_error_json.h"

#include "trace/json.h"

json_t *model_error_json(const struct model_error *error)
{
    return json_pack("{s:I, s:I, s:f, s:f, s:f, s:f, s:o, s:s}", "runs", (json_int_t)error->rows, "sources",
                     (json_int_t)error->sources, "bias", error->bias, "between", error->between, "within",
                     error->within, "deviation", error->deviation, "wider", json_of_texts(error->n_wider, error->wider),
                     "basis", error->basis);
}

json_t *model_interval_json(const struct model_interval *interval)
{
    return json_pack("{s:f, s:f}", "p5", interval->p5, "p95", interval->p95);
}
