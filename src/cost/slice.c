/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cost/slice.h"

const char *const pass_name[N_COST_PASSES] = {"forward", "backward", "weight", "input"};
