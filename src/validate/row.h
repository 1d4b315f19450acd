/* SPDX-License-Identifier: GPL-3.0-or-later */
/** One row of a file of measurements, predicted. */
#ifndef SLIMSIM_VALIDATE_ROW_H
#define SLIMSIM_VALIDATE_ROW_H

#include "validate/validate.h"

/** Fill a result from a row. @return false with err: a malformed cell, a device file that cannot be read */
bool row_predict(const struct measured *measured, int32_t row, const struct setting_tables *tables,
                 struct validate_row *result, struct error *err);

/** As row_predict, without the prediction; where none can be, the result has its reason. */
bool row_read(const struct measured *measured, int32_t row, const struct setting_tables *tables,
              struct setting *setting, struct validate_row *result, struct error *err);

#endif
