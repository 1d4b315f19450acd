/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Files that get their name only when they are whole: written beside it, synced, renamed. */
#ifndef SLIMSIM_TRACE_OUTPUT_H
#define SLIMSIM_TRACE_OUTPUT_H

#include <stdio.h>

#include "base/error.h"

/** A file on its way. {0} is none. */
struct output {
    char *path;      /* the name it will get */
    char *temporary; /* PATH.tmp-PID: same folder, so that a rename suffices */
};

/** Choose the names; nothing is created yet. The output is reset by one of the functions below. */
void output_begin(struct output *output, const char *path);

/** Say why it cannot be created (ERROR_CANT_CREATE) or written (ERROR_IO). @return false */
bool output_failed(const struct output *output, enum error_status status, const char *reason, struct error *err);

/** The temporary file is closed and whole: sync it, rename it, sync the folder. Resets `output`, also on failure. */
bool output_commit(struct output *output, struct error *err);

/** Remove the temporary file and reset `output`. */
void output_abandon(struct output *output);

/** output_begin and fopen. @return NULL with err when it cannot be created */
FILE *output_open(struct output *output, const char *path, struct error *err);

/** Close, then commit; abandon when `ok` is false (err is set already) or a write failed. */
bool output_close(struct output *output, FILE *file, bool ok, struct error *err);

/** A file that is no output, but is removed with them: from now on, or no longer. The caller keeps the text. */
void output_guard(char *path);
void output_unguard(char *path);

/** Remove the temporary files of all outputs that are on their way, of a process that is about to end: for a signal's
 * handler, which may call this. */
void output_remove_all(void);

#endif
