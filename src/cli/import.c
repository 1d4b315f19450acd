/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file is `slimsim import`. It writes the file of a model or platform that another tool's file describes. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/commands.h"
#include "cost/states.h"
#include "document/library.h"
#include "scenario/foreign.h"
#include "scenario/huggingface.h"
#include "scenario/model.h"
#include "scenario/platform_file.h"
#include "scenario/scenario.h"

enum { MAX_FILES = 2, MAX_NODES = 1 << 20, KEY_NODES = 0x100 };

struct arguments {
    const char *files[MAX_FILES + 1]; /* one more: NULL */
    int n_files;
    const char *nodes; /* NULL: not given */
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    if (key == KEY_NODES) {
        options_parse_whole("--nodes", argument, 1, MAX_NODES, state);
        arguments->nodes = argument;
        return 0;
    }
    if (key == ARGP_KEY_ARG && arguments->n_files > 0 && arguments->n_files < MAX_FILES) {
        arguments->files[arguments->n_files++] = argument;
        return 0;
    }
    arguments->n_files += key == ARGP_KEY_ARG && arguments->n_files == 0;
    return options_parse_file(key, argument, state, "config.json, NCCL's topology or topology.conf",
                              &arguments->files[0]);
}

static const struct argp_option import_options[] = {
    {"nodes", KEY_NODES, "N", 0, "Nodes of the cluster (default: those of topology.conf, otherwise 1)", 0},
    {0},
};
static const struct argp argp = {
    .options = import_options,
    .parser = parse,
    .args_doc = "config.json\nTOPOLOGY.xml|topology.conf...",
    .doc =
        "Print the model's file of a configuration of Hugging Face's transformers: `slimsim import config.json > "
        "mine.yaml`. A scenario may also name the configuration itself: `model: ./config.json`. Or print the platform "
        "of a node's topology, which NCCL wrote (NCCL_TOPO_DUMP_FILE), of Slurm's topology.conf, or of both.",
};

/** Let a program of importing/ print the platform. It returns only after a failure. */
static bool print_platform(const struct arguments *arguments, struct error *err)
{
    static char python[] = "/usr/bin/python3";
    char script[1024], nodes[32];
    char *argv[MAX_FILES + 5] = {python, "-I", script};
    int n = 3;
    snprintf(script, sizeof script, "%s/importing/cluster.py", scenario_data_dir());
    snprintf(nodes, sizeof nodes, "--nodes=%s", arguments->nodes != NULL ? arguments->nodes : "");
    if (arguments->nodes != NULL)
        argv[n++] = nodes;
    for (int i = 0; i < arguments->n_files; i++)
        argv[n++] = (char *)arguments->files[i];
    execv(python, argv);
    return error_set_status(err, ERROR_FAILED, "%s cannot be started: %s; Debian's package python3-yaml brings it",
                            python, strerror(errno));
}

/** Say what another tool's file is if it is no platform. @return false */
static bool refuse(const char *path, enum foreign whose, struct error *err)
{
    struct platform platform;
    return (whose != FOREIGN_SIMGRID || platform_file_read(path, &platform, err)) && foreign_refuse(whose, path, err);
}

static bool print(const char *path, struct error *err)
{
    struct huggingface text;
    struct model model;
    char *rest = NULL;
    if (!library_is_path(path, ".json"))
        return error_set(err,
                         "%s: allowed: a configuration of Hugging Face, whose name ends in .json, NCCL's topology of a "
                         "node, or Slurm's topology.conf",
                         path);
    bool ok =
        huggingface_read(scenario_data_dir(), path, &text, err) && model_read(scenario_data_dir(), path, &model, err);
    if (ok) {
        printf("# %.0f parameters\n", cost_model_parameters(&model));
        for (char *line = strtok_r(text.said, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
            printf("# %s\n", line);
        fputs(text.text, stdout);
    }
    huggingface_free(&text);
    return ok;
}

static bool import(const struct arguments *arguments, struct error *err)
{
    const char *other = NULL; /* the first file that describes no cluster */
    for (int i = 0; i < arguments->n_files; i++) {
        enum foreign whose = foreign_of(arguments->files[i]);
        bool cluster = whose == FOREIGN_NCCL || whose == FOREIGN_SLURM;
        if (whose != FOREIGN_NONE && !cluster)
            return refuse(arguments->files[i], whose, err);
        other = other != NULL || cluster ? other : arguments->files[i];
    }
    if (other == NULL)
        return print_platform(arguments, err);
    if (arguments->n_files > 1 || arguments->nodes != NULL)
        return error_set(err, "%s: is neither NCCL's topology nor topology.conf, to which two files and --nodes belong",
                         other);
    return print(other, err);
}

int command_import(int argc, char **argv)
{
    struct arguments arguments = {0};
    struct error err = {0};
    parse_arguments(&argp, argc, argv, &arguments);
    return import(&arguments, &err) ? EXIT_SUCCESS : command_fail(&err);
}
