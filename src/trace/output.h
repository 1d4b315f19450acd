/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * Files that get their names only when they are whole, all of a run or none.
 *
 * 1. output_may_replace: before anything is computed, refuse a name under which somebody else's file stands.
 * 2. output_begin: create a file beside that name. Its own name is random, so nobody can put a link there.
 * 3. output_commit: sync all files of a run, rename them, sync the folder. A failure brings back what stood there.
 */
#ifndef SLIMSIM_TRACE_OUTPUT_H
#define SLIMSIM_TRACE_OUTPUT_H

#include <stdio.h>

#include "base/error.h"

/** A file on its way. {0} is none. */
struct output {
    char *path;      /* the name it will get */
    char *temporary; /* PATH.tmp-PID-RANDOM: same folder, so that a rename suffices */
    char *former;    /* while it is committed: a second name of the file that stood at PATH, or NULL */
    int descriptor;  /* of the temporary file */
};

/** Whether a regular file that is not empty is one of ours. */
typedef bool output_recognizer(const char *path);

/**
 * Whether an output may get this name: nothing stands there, an empty file, or one of ours. It is never a folder, a
 * pipe or a device (ERROR_CANT_CREATE).
 * @param is_ours  NULL: any file will do, since the user named it
 * @param what     that a foreign file is not: "table"
 * @param other    how the user keeps both, for the message
 */
bool output_may_replace(const char *path, output_recognizer *is_ours, const char *what, const char *other,
                        struct error *err);

/** Whether a regular file begins with this text, for recognizers. */
bool output_begins_with(const char *path, const char *text);

/** Create the temporary file, empty. The output is reset by one of the functions below. */
bool output_begin(struct output *output, const char *path, struct error *err);

/** Say why it cannot be created (ERROR_CANT_CREATE) or written (ERROR_IO). @return false */
bool output_failed(const struct output *output, enum error_status status, const char *reason, struct error *err);

/** output_begin, and a stream into the file. @return NULL with err when it cannot be created */
FILE *output_open(struct output *output, const char *path, struct error *err);

/** Close the stream; the output is whole then. Abandon it when `ok` is false (err is set already) or a write failed. */
bool output_end(struct output *output, FILE *file, bool ok, struct error *err);

/** All outputs are whole: give them their names, all or none. Resets them, also on failure. */
bool output_commit(struct output *outputs, int n, struct error *err);

/** The folder of a file must know the file. @return false with errno */
bool output_sync_folder(const char *path);

/** output_end and output_commit of one. */
bool output_close(struct output *output, FILE *file, bool ok, struct error *err);

/** Remove the temporary file and reset `output`. Takes {0}. */
void output_abandon(struct output *output);

/** Remove temporary files of an output that processes left which are gone. */
void output_clean(const char *path);

/** A file that is no output, but is removed with them: from now on, or no longer. The caller keeps the text. */
void output_guard(char *path);
void output_unguard(char *path);

/** Remove the temporary files of all outputs that are on their way, of a process that is about to end: for a signal's
 * handler, which may call this. */
void output_remove_all(void);

#endif
