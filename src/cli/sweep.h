/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module is `slimsim run` for a scenario with `sweep:`, or with an option that only sweeps have. */
#ifndef SLIMSIM_CLI_SWEEP_H
#define SLIMSIM_CLI_SWEEP_H

#include <signal.h>
#include <stdio.h>

#include "cli/command.h"
#include "sweep/driver.h"

/** These are options of sweeps. They are the input of an argp child. */
struct sweep_arguments {
    int32_t n_axes;
    const char **axes; /* of --sweep */
    bool given;        /* axes or a choice of points is given, so the scenario is a sweep, possibly of one point */
    bool list;
    int32_t point; /* of --point; -1: not given */
    int32_t jobs;  /* 0: number of cores */
    const char *shard;
    double time_limit_s, memory_bytes;
    bool retry_failed, fail_fast;
};

extern const struct argp sweep_argp;

/** This adds --list, --point and --shard, which only `run` has. */
extern const struct argp sweep_run_argp;

/**
 * Read the scenario with its --set and --sweep. The caller frees the sweep. Errors of a scenario without a sweep are
 * left to command_read, unless an option of sweeps is given.
 * @param is_sweep  set to whether it is a sweep
 */
bool sweep_open(const char *path, const struct options *options, const struct sweep_arguments *arguments,
                struct sweep *sweep, bool *is_sweep, struct error *err);

/** List the points or run them, and print the table. @return false with err, or with err untouched if *stop ended it */
bool sweep_command(const char *path, const struct options *options, const struct sweep_arguments *arguments,
                   const struct sweep *sweep, const volatile sig_atomic_t *stop, struct error *err);

/** Return a point's index, id and swept keys. @param manifest  NULL: it has no swept keys */
json_t *sweep_json_of_point(const struct manifest *manifest, int32_t point, uint64_t id);

/** Refuse `what`, which divides the points of a sweep, if there is no sweep. */
bool sweep_divided(const struct sweep *sweep, const char *what, struct error *err);

/** Write text so that a shell takes it as one word. */
void sweep_write_quoted(FILE *file, const char *text);

/** Write the arguments of `slimsim run` that give these points: scenario, --set and --sweep. */
void sweep_write_points(FILE *file, const char *path, const struct options *options,
                        const struct sweep_arguments *arguments);

/** Return the command line that gives these points. The caller frees it. */
char *sweep_command_text(const char *path, const struct options *options, const struct sweep_arguments *arguments);

void sweep_arguments_free(struct sweep_arguments *arguments);

#endif
