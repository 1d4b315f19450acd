/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cost/unit.h"

#include "base/check.h"

double cost_unit_tokens(const struct cost_unit *unit)
{
    int64_t tokens = unit->padding_tokens;
    for (int32_t i = 0; i < unit->n_slices; i++)
        tokens += slice_tokens(unit->slices[i]);
    CHECK(tokens >= 0 && unit->context >= 1);
    return (double)tokens / unit->context;
}

double cost_prefix_tokens(const struct cost_unit *unit)
{
    int64_t tokens = unit->padding_tokens;
    for (int32_t i = 0; i < unit->n_slices; i++)
        tokens += unit->slices[i].end;
    return (double)tokens;
}
