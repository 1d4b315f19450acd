/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module recognises files of other tools and says what to write in their place. */
#ifndef SLIMSIM_SCENARIO_FOREIGN_H
#define SLIMSIM_SCENARIO_FOREIGN_H

#include "base/error.h"

enum foreign {
    FOREIGN_NONE,
    FOREIGN_NCCL,          /* NCCL_TOPO_DUMP_FILE */
    FOREIGN_SLURM,         /* topology.conf or topology.yaml */
    FOREIGN_MATRIX,        /* how nvidia-smi says that GPUs are joined */
    FOREIGN_SIMGRID,       /* a platform, with hosts as here or others */
    FOREIGN_ASTRA_NETWORK, /* sizes and links of an analytical network */
    FOREIGN_ASTRA_SYSTEM,  /* scheduling and collectives */
    FOREIGN_CHAKRA,        /* an execution trace, the workload of ASTRA-sim */
    FOREIGN_WORKLOAD,      /* a text of layers, the workload of SimAI and of ASTRA-sim 1 */
    FOREIGN_SIMAI_NETWORK, /* nodes, switches and links */
    FOREIGN_MODEL,         /* config.json of Hugging Face */
    FOREIGN_PLAN,          /* a launch script, arguments or a recipe of a training */
};

/** Return whose file it is. FOREIGN_NONE: that of none, or no regular file that can be read. */
enum foreign foreign_of(const char *path);

/** Add the sentence on a file that foreign_of recognised. It has the numbers that the file gives. @return false */
bool foreign_refuse(enum foreign whose, const char *path, struct error *err);

#endif
