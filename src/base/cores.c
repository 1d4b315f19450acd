/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/cores.h"

#include <errno.h>
#include <sched.h>

#include "base/check.h"

int32_t cores_available(void)
{
    enum { MOST_CPUS = 1 << 20 };
    int32_t n = 0;
    for (size_t cpus = CPU_SETSIZE; n == 0 && cpus <= MOST_CPUS; cpus *= 2) { /* a set that is too small is refused */
        cpu_set_t *set = CPU_ALLOC(cpus);
        CHECK(set != NULL);
        n = sched_getaffinity(0, CPU_ALLOC_SIZE(cpus), set) == 0 ? CPU_COUNT_S(CPU_ALLOC_SIZE(cpus), set)
            : errno == EINVAL                                    ? 0
                                                                 : 1;
        CPU_FREE(set);
    }
    return n > 0 ? n : 1;
}
