/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/cores.h"

#include <sched.h>

int32_t cores_available(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}
