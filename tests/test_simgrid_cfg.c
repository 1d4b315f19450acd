/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check which options of SimGrid a scenario may set. */
#include "scenario/simgrid_cfg.h"

#include <stdlib.h>

#include "harness.h"

TEST(simgrid_cfg__takes_models_and_nothing_that_names_a_file)
{
    static const char *const cases[][2] = {
        /* options, the refused one; NULL: none */
        {"", NULL},
        {"network/model:CM02 network/crosstraffic:yes\tcpu/optim:Full,\nplugin:host_energy ", NULL},
        {"network/bandwidth-factor:0.5 tracing:yes tracing/filename:victim", "tracing:yes"},
        {"tracing/comment-file:secret", "tracing/comment-file:secret"},
        {"cpu/optim:Full,tracing/filename:victim", "tracing/filename:victim"}, /* SimGrid separates at commas, too */
        {"cpu/optim:Full\ttracing/filename:victim", "tracing/filename:victim"},
        {"path:/etc", "path:/etc"},
        {"smpi/comp-adjustment-file:secret", "smpi/comp-adjustment-file:secret"},
        {"contexts/nthreads:2", "contexts/nthreads:2"},
        {"network:CM02", "network:CM02"},
        {"network/model:help", "network/model:help"},
        {"network/model", "network/model"},
        {":1", ":1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *refused = simgrid_cfg_refused(cases[i][0]);
        CHECK_TRUE((refused == NULL) == (cases[i][1] == NULL));
        if (refused != NULL && cases[i][1] != NULL)
            CHECK_TEXT(refused, cases[i][1]);
        free(refused);
    }
}
