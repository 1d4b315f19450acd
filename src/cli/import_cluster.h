/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module is the part of `slimsim import` that makes a platform of NCCL's topology and Slurm's. */
#ifndef SLIMSIM_CLI_IMPORT_CLUSTER_H
#define SLIMSIM_CLI_IMPORT_CLUSTER_H

#include "base/error.h"

enum { IMPORT_MAX_FILES = 2, IMPORT_MAX_NODES = 1 << 20 };

/** Return whether a file describes a cluster or is another simulator's (scenario/foreign.h). */
bool import_is_cluster(const char *path);

/**
 * Print the platform of one or two files. importing/cluster.py does it in place of this process, so a success never
 * returns.
 * @param nodes  nodes of the cluster, a number; NULL: not given
 * @return       false
 */
bool import_cluster(int n_files, const char *const *files, const char *nodes, struct error *err);

/** Become the Python program importing/PROGRAM with these words. It may call this program by $SLIMSIM. @return false */
bool import_run(const char *program, int n_words, const char *const *words, struct error *err);

#endif
