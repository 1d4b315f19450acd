/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file is `slimsim platform`. It prints a cluster as SimGrid's XML. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/commands.h"
#include "scenario/platform_keys.h"
#include "scenario/platform_xml.h"
#include "scenario/scenario.h"

struct arguments {
    const char *name, *device;
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    if (key != 'd')
        return options_parse_file(key, argument, state, "a platform's name or file", &arguments->name);
    arguments->device = argument;
    return 0;
}

static const struct argp_option platform_options[] = {
    {"device", 'd', "NAME", 0, "GPU whose data sheet gives the values that the platform lacks (default: h800)", 0},
    {0},
};
static const struct argp argp = {.options = platform_options,
                                 .parser = parse,
                                 .args_doc = "NAME|FILE.yaml",
                                 .doc =
                                     "Print the SimGrid platform of a name, or of a file with a few keys, as XML with "
                                     "its zones, links and routes."};

static bool print(const struct arguments *arguments, struct error *err)
{
    struct platform_keys keys;
    struct device device;
    struct platform platform;
    if (!device_read(scenario_data_dir(), arguments->device, &device, err) ||
        !platform_keys_of_name(scenario_data_dir(), arguments->name, &keys, err))
        return false;
    size_t n = strlen(arguments->name);
    if (!platform_from_keys(&keys, &device, &platform, err))
        return false;
    if (n > 4 && strcmp(arguments->name + n - 4, ".xml") == 0)
        return error_set(err,
                         "%s: it is already SimGrid's XML; allowed: a name of `slimsim list platforms` or a .yaml file",
                         arguments->name);
    platform_xml_write(stdout, &platform, NULL);
    return true;
}

int command_platform(int argc, char **argv)
{
    struct arguments arguments = {.device = "h800"};
    struct error err = {0};
    parse_arguments(&argp, argc, argv, &arguments);
    return print(&arguments, &err) ? EXIT_SUCCESS : command_fail(&err);
}
