/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file is `slimsim import`. It writes the file of a model or platform that another tool's file describes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/commands.h"
#include "cli/import_cluster.h"
#include "cost/states.h"
#include "document/library.h"
#include "scenario/huggingface.h"
#include "scenario/model.h"
#include "scenario/scenario.h"

enum { KEY_NODES = 0x100 };

struct arguments {
    const char *files[IMPORT_MAX_FILES];
    int n_files;
    const char *nodes; /* NULL: not given */
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    if (key == KEY_NODES) {
        options_parse_whole("--nodes", argument, 1, IMPORT_MAX_NODES, state);
        arguments->nodes = argument;
        return 0;
    }
    if (key == ARGP_KEY_ARG && arguments->n_files > 0 && arguments->n_files < IMPORT_MAX_FILES) {
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

int command_import(int argc, char **argv)
{
    struct arguments arguments = {0};
    struct error err = {0};
    parse_arguments(&argp, argc, argv, &arguments);
    bool cluster =
        arguments.n_files > 1 || arguments.nodes != NULL || import_is_cluster(arguments.n_files, arguments.files);
    bool ok = cluster ? import_cluster(arguments.n_files, arguments.files, arguments.nodes, &err)
                      : print(arguments.files[0], &err);
    return ok ? EXIT_SUCCESS : command_fail(&err);
}
