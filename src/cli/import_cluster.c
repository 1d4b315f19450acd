/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/import_cluster.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "scenario/foreign.h"
#include "scenario/platform_file.h"
#include "scenario/scenario.h"

bool import_is_cluster(int n_files, const char *const *files)
{
    bool cluster = false;
    for (int i = 0; i < n_files; i++)
        cluster = cluster || foreign_of(files[i]) != FOREIGN_NONE;
    return cluster;
}

/** Check that a file is NCCL's or Slurm's. Another simulator's gets its own sentence. */
static bool check_file(const char *path, struct error *err)
{
    enum foreign whose = foreign_of(path);
    struct platform platform;
    if (whose == FOREIGN_NCCL || whose == FOREIGN_SLURM)
        return true;
    if (whose == FOREIGN_NONE)
        return error_set(err, "%s: is neither NCCL's topology of a node nor Slurm's topology.conf", path);
    return (whose != FOREIGN_SIMGRID || platform_file_read(path, &platform, err)) && foreign_refuse(whose, path, err);
}

bool import_cluster(int n_files, const char *const *files, const char *nodes, struct error *err)
{
    static char python[] = "/usr/bin/python3";
    char script[1024], option[32];
    char *argv[IMPORT_MAX_FILES + 6] = {python, "-I", script};
    int n = 3;
    snprintf(script, sizeof script, "%s/importing/cluster.py", scenario_data_dir());
    snprintf(option, sizeof option, "--nodes=%s", nodes != NULL ? nodes : "");
    if (nodes != NULL)
        argv[n++] = option;
    argv[n++] = "--";
    for (int i = 0; i < n_files; i++) {
        if (!check_file(files[i], err))
            return false;
        argv[n++] = (char *)files[i];
    }
    execv(python, argv);
    return error_set_status(err, ERROR_FAILED, "%s: cannot be run: %s; it reads files of clusters", python,
                            strerror(errno));
}
