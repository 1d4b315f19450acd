/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scenario/simgrid_cfg.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

const char simgrid_cfg_allowed[] =
    "bmf/max-iterations bmf/precision cpu/maxmin-selective-update cpu/model cpu/optim cpu/solver host/model "
    "host/solver "
    "maxmin/concurrency-limit maxmin/precision network/TCP-gamma network/bandwidth-factor network/crosstraffic "
    "network/latency-factor network/loopback-bw network/loopback-lat network/maxmin-selective-update network/model "
    "network/optim network/solver network/weight-S plugin plugin/dvfs/governor plugin/dvfs/max-pstate "
    "plugin/dvfs/min-pstate plugin/dvfs/sampling-rate precision/timing precision/work-amount smpi/IB-penalty-factors "
    "smpi/bw-factor smpi/lat-factor surf/precision";

static bool is_allowed(const char *option)
{
    size_t n = strcspn(option, ":");
    char *key = check_strndup(option, n);
    bool allowed = text_has_word(simgrid_cfg_allowed, key) && option[n] == ':' && strcmp(option + n, ":help") != 0;
    free(key);
    return allowed;
}

char *simgrid_cfg_refused(const char *options)
{
    static const char separators[] = " \t\n,"; /* those of SimGrid */
    for (options += strspn(options, separators); *options != '\0'; options += strspn(options, separators)) {
        size_t n = strcspn(options, separators);
        char *option = check_strndup(options, n);
        if (!is_allowed(option))
            return option;
        free(option);
        options += n;
    }
    return NULL;
}
