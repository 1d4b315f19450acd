/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file is `slimsim import`. It writes the file of a model that a configuration of Hugging Face describes.
 * Files of clusters go to cli/import_cluster.c. Everything else goes to the Python program importing/main.py, which
 * writes the scenario of another tool's plan. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/import_cluster.h"
#include "cost/states.h"
#include "document/library.h"
#include "scenario/huggingface.h"
#include "scenario/model.h"
#include "scenario/scenario.h"

#define PYTHON "/usr/bin/python3" /* Debian's own, which has Debian's PyYAML */

struct arguments {
    struct options options;
    const char *path, *output;
    const char *nodes; /* NULL: not given */
    int32_t n_settings;
    const char **settings; /* NAME=VALUE behind the path, or the second file of a cluster */
};

enum { KEY_NODES = 0x100 };

static const struct argp_child children[] = {OPTION(set), {0}};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        options_begin(&arguments->options, children, state);
        return 0;
    case KEY_NODES:
        options_parse_whole("--nodes", argument, 1, IMPORT_MAX_NODES, state);
        arguments->nodes = argument;
        return 0;
    case 'o':
        if (*argument == '\0')
            argp_error(state, "--output needs the name of a file");
        arguments->output = argument;
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num > 0) {
            options_append(&arguments->settings, &arguments->n_settings, argument);
            return 0;
        }
        /* fall through */
    default:
        return options_parse_file(key, argument, state, "another tool's file, or a plan in words", &arguments->path);
    }
}

static const struct argp_option import_options[] = {
    {"output", 'o', "FILE", 0, "Write the scenario to a new FILE, and a model that is not shipped beside it", 0},
    {"nodes", KEY_NODES, "N", 0, "Nodes of a cluster (default: those of Slurm's file, otherwise 1)", 0},
    {0},
};

static const struct argp argp = {
    .options = import_options,
    .parser = parse,
    .args_doc =
        "config.json\nTOPOLOGY.xml|topology.conf|topology.yaml...\nFILE|- [NAME=VALUE...]\n\"TP4 PP4 DP16 selective\"",
    .doc = "Print what another tool's file means. A model's configuration of Hugging Face's transformers gives the "
           "model's file: `slimsim import config.json > mine.yaml`. A launch script or arguments of Megatron-LM, a "
           "recipe of NeMo or Megatron-Bridge, torchtitan's TOML, DeepSpeed's JSON, or YAML of axolotl, LLaMA-Factory "
           "or Accelerate gives a scenario, whose first lines say of each setting whether it was taken, has no effect "
           "or is not modelled. NAME=VALUE sets a variable of the script or a setting of the file. A plan in words "
           "gives its keys. A node's topology, which NCCL wrote (NCCL_TOPO_DUMP_FILE), Slurm's topology.conf or "
           "topology.yaml, or both "
           "give a platform.",
    .children = children,
};

/** Return whether a JSON file configures a model. DeepSpeed's files have none of these keys. */
static bool is_model(const char *path)
{
    json_t *root = json_load_file(path, 0, NULL);
    bool deepspeed = json_object_get(root, "zero_optimization") != NULL ||
                     json_object_get(root, "train_batch_size") != NULL ||
                     json_object_get(root, "train_micro_batch_size_per_gpu") != NULL;
    json_decref(root);
    return !deepspeed;
}

static bool print_model(const char *path, struct error *err)
{
    struct huggingface text;
    struct model model;
    char *rest = NULL;
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

bool import_run(const char *program, int n_words, const char *const *words, struct error *err)
{
    char self[PATH_MAX] = "";
    const char **argv = check_calloc((size_t)n_words + 4, sizeof *argv);
    argv[0] = PYTHON;
    argv[1] = "-B";
    argv[2] = check_asprintf("%s/importing/%s", scenario_data_dir(), program);
    for (int i = 0; i < n_words; i++)
        argv[3 + i] = words[i];
    if (readlink("/proc/self/exe", self, sizeof self - 1) > 0 && setenv("SLIMSIM", self, 1) == 0 &&
        setenv("SLIMSIM_DATA", scenario_data_dir(), 1) == 0)
        execv(PYTHON, (char *const *)argv);
    return error_set_status(err, ERROR_FAILED, "%s: cannot be run: %s; it reads files of other tools", PYTHON,
                            strerror(errno));
}

/** Print the scenario of another tool's plan. @return false */
static bool print_plan(const struct arguments *arguments, struct error *err)
{
    const char **words =
        check_calloc((size_t)(2 * arguments->options.n_set + arguments->n_settings) + 3, sizeof *words);
    int n = 0;
    for (int i = 0; i < arguments->options.n_set; i++) {
        words[n++] = "--set";
        words[n++] = arguments->options.set[i];
    }
    if (arguments->output != NULL)
        words[n++] = check_asprintf("--output=%s", arguments->output);
    words[n++] = "--";
    words[n++] = arguments->path;
    for (int i = 0; i < arguments->n_settings; i++)
        words[n++] = arguments->settings[i];
    return import_run("main.py", n, words, err);
}

/** Print the platform of a cluster's files. @return false */
static bool print_cluster(const struct arguments *arguments, struct error *err)
{
    const char *files[IMPORT_MAX_FILES] = {arguments->path, arguments->n_settings > 0 ? arguments->settings[0] : NULL};
    if (arguments->n_settings >= IMPORT_MAX_FILES || arguments->output != NULL || arguments->options.n_set > 0)
        return error_set(err, "%s: a cluster has at most %d files, and takes only --nodes", arguments->path,
                         IMPORT_MAX_FILES);
    return import_cluster(arguments->n_settings + 1, files, arguments->nodes, err);
}

int command_import(int argc, char **argv)
{
    struct arguments arguments = {0};
    struct error err = {0};
    parse_arguments(&argp, argc, argv, &arguments);
    if (arguments.nodes != NULL || import_is_cluster(arguments.path)) {
        print_cluster(&arguments, &err);
        return command_fail(&err);
    }
    bool json = library_is_path(arguments.path, ".json") && is_model(arguments.path);
    if (json && (arguments.n_settings > 0 || arguments.output != NULL || arguments.options.n_set > 0))
        error_set(&err, "%s: is a model's configuration, which takes no options", arguments.path);
    else if (json ? print_model(arguments.path, &err) : print_plan(&arguments, &err))
        return EXIT_SUCCESS;
    return command_fail(&err);
}
