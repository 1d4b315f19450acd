/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/import_cluster.h"

#include <stdio.h>

#include "scenario/foreign.h"

bool import_is_cluster(const char *path)
{
    enum foreign whose = foreign_of(path);
    return whose != FOREIGN_NONE && whose != FOREIGN_MODEL && whose != FOREIGN_PLAN;
}

/** Check that a file is NCCL's or Slurm's. Another simulator's gets its own sentence. */
static bool check_file(const char *path, struct error *err)
{
    enum foreign whose = foreign_of(path);
    if (whose == FOREIGN_NCCL || whose == FOREIGN_SLURM)
        return true;
    if (!import_is_cluster(path))
        return error_set(err, "%s: is neither NCCL's topology of a node nor Slurm's topology.conf or topology.yaml",
                         path);
    return foreign_refuse(whose, path, err);
}

bool import_cluster(int n_files, const char *const *files, const char *nodes, struct error *err)
{
    char option[32];
    const char *words[IMPORT_MAX_FILES + 3] = {NULL};
    int n = 0;
    snprintf(option, sizeof option, "--nodes=%s", nodes != NULL ? nodes : "");
    if (nodes != NULL)
        words[n++] = option;
    words[n++] = "--";
    for (int i = 0; i < n_files; i++) {
        if (!check_file(files[i], err))
            return false;
        words[n++] = files[i];
    }
    return import_run("cluster.py", n, words, err);
}
