/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "packing/milp.h"

bool milp_solve(glp_prob *program, void (*callback)(glp_tree *tree, void *context), void *context, bool *finished)
{
    glp_smcp simplex;
    glp_iocp options;
    glp_init_smcp(&simplex);
    glp_init_iocp(&options);
    simplex.msg_lev = options.msg_lev = GLP_MSG_OFF;
    options.cb_func = callback;
    options.cb_info = context;
    *finished = false;
    glp_term_out(GLP_OFF);
    if (glp_simplex(program, &simplex) != 0 || glp_get_status(program) != GLP_OPT)
        return false;
    *finished = glp_intopt(program, &options) == 0;
    int status = glp_mip_status(program);
    return status == GLP_OPT || status == GLP_FEAS;
}
