/* SPDX-License-Identifier: GPL-3.0-or-later */
/** `slimsim run` of a scenario with `sweep:`, or with an option that only sweeps have. */
#ifndef SLIMSIM_CLI_SWEEP_H
#define SLIMSIM_CLI_SWEEP_H

#include <signal.h>
#include <stdio.h>

#include "cli/command.h"
#include "sweep/driver.h"

/** Options of sweeps: an argp child, whose input this is. */
struct sweep_arguments {
    int32_t n_axes;
    const char **axes; /* of --sweep */
    bool given;        /* axes, or which of the points: the scenario is a sweep, of one point if need be */
    bool list;
    int32_t point; /* of --point, -1: not given */
    int32_t jobs;  /* 0: as many as cores */
    const char *shard;
    double time_limit_s, memory_bytes;
    bool retry_failed, fail_fast;
};

extern const struct argp sweep_argp;

/** The same and --list, --point, --shard, which only `run` has. */
extern const struct argp sweep_run_argp;

/** Read the scenario and its --set and --sweep; *is_sweep: it is one. Errors of a scenario that is none, unless an
 * option of sweeps is given, are left to command_read. The caller frees the sweep. */
bool sweep_open(const char *path, const struct options *options, const struct sweep_arguments *arguments,
                struct sweep *sweep, bool *is_sweep, struct error *err);

/** List the points or run them, and print the table. @return false with err, which stays untouched where *stop says why
 */
bool sweep_command(const char *path, const struct options *options, const struct sweep_arguments *arguments,
                   const struct sweep *sweep, const volatile sig_atomic_t *stop, struct error *err);

/** On stderr: what a user should know of the points that were resolved. */
void sweep_print_notes(const struct sweep_runner *runner);

/** Refuse `what`, which divides the points of a sweep, where there is none. */
bool sweep_divided(const struct sweep *sweep, const char *what, struct error *err);

/** Text as a shell takes it for one word. */
void sweep_write_quoted(FILE *file, const char *text);

/** Write the arguments of `slimsim run` that make these points: scenario, --set and --sweep. */
void sweep_write_points(FILE *file, const char *path, const struct options *options,
                        const struct sweep_arguments *arguments);

/** The command line that makes these points. Caller frees. */
char *sweep_command_text(const char *path, const struct options *options, const struct sweep_arguments *arguments);

void sweep_arguments_free(struct sweep_arguments *arguments);

#endif
