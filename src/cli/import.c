/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file is `slimsim import`. It writes the file of a model that a configuration of Hugging Face describes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/commands.h"
#include "cost/states.h"
#include "document/library.h"
#include "scenario/huggingface.h"
#include "scenario/model.h"
#include "scenario/scenario.h"

static error_t parse(int key, char *argument, struct argp_state *state)
{
    const char **path = state->input;
    return options_parse_file(key, argument, state, "a model's config.json", path);
}

static const struct argp argp = {
    .parser = parse,
    .args_doc = "config.json",
    .doc = "Print the model's file of a configuration of Hugging Face's transformers: `slimsim import config.json > "
           "mine.yaml`. A scenario may also name the configuration itself: `model: ./config.json`.",
};

static bool print(const char *path, struct error *err)
{
    struct huggingface text;
    struct model model;
    char *rest = NULL;
    if (!library_is_path(path, ".json"))
        return error_set(err, "%s: allowed: a configuration of Hugging Face, whose name ends in .json", path);
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
    const char *path = NULL;
    struct error err = {0};
    parse_arguments(&argp, argc, argv, &path);
    return print(path, &err) ? EXIT_SUCCESS : command_fail(&err);
}
