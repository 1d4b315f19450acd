/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "validate/known_model.h"

#include <string.h>

#include "scenario/scenario.h"

bool known_model_of(const struct measured *models, const char *name, struct model *model, struct error *err)
{
    *model = (struct model){0};
    for (int32_t row = 0; row < models->n_rows; row++) {
        const char *past = measured_past_name(name, measured_text(models, row, "model"));
        if (past != name && *past == '\0')
            return model_read(scenario_data_dir(), measured_text(models, row, "file"), model, err);
    }
    return true;
}
