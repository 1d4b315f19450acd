/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module writes files that get their names only when they are complete. Either all files of a run get them or
 * none.
 *
 * 1. output_may_replace: before any computation, refuse a name that a file of another program has.
 * 2. output_begin: create a file beside that name. Its own name is random, so nobody can put a link there.
 * 3. output_commit: sync all files of a run, rename them, sync the folder. A failure restores the earlier files.
 */
#ifndef SLIMSIM_TRACE_OUTPUT_H
#define SLIMSIM_TRACE_OUTPUT_H

#include <stdio.h>

#include "base/error.h"

/** An output is a file that is being written. {0} is none. */
struct output {
    char *path;      /* the name it will get */
    char *temporary; /* PATH.tmp-PID-RANDOM; in the same folder, so that a rename suffices */
    char *former;    /* during a commit: a second name of the earlier file at PATH, or NULL */
    int descriptor;  /* of the temporary file */
};

/** Return whether slimsim wrote a regular file that is not empty. */
typedef bool output_recognizer(const char *path);

/**
 * Return whether an output may get this name. A folder, a pipe or a device never allows it (ERROR_CANT_CREATE). It is
 * allowed in these cases:
 *
 *  - no file has the name;
 *  - the file is empty;
 *  - slimsim wrote the file.
 *
 * @param is_ours  NULL: any file is allowed, since the user named it
 * @param what     kind of slimsim's files, "table", for the message about a foreign file
 * @param other    choice of the user that keeps both files, for the message
 */
bool output_may_replace(const char *path, output_recognizer *is_ours, const char *what, const char *other,
                        struct error *err);

/** Return whether a regular file begins with this text. It serves recognizers. */
bool output_begins_with(const char *path, const char *text);

/** Call output_clean and create the empty temporary file. The output is reset by one of the functions below. */
bool output_begin(struct output *output, const char *path, struct error *err);

/** Write why it cannot be created (ERROR_CANT_CREATE) or written (ERROR_IO) to err. @return false */
bool output_failed(const struct output *output, enum error_status status, const char *reason, struct error *err);

/** Call output_begin and open a stream into the file. @return NULL with err if it cannot be created */
FILE *output_open(struct output *output, const char *path, struct error *err);

/**
 * Close the stream; then the output is complete. It is abandoned if `ok` is false (err is set already) or a write
 * failed.
 */
bool output_end(struct output *output, FILE *file, bool ok, struct error *err);

/** Give complete outputs their names, either all or none. They are reset, also after a failure. */
bool output_commit(struct output *outputs, int n, struct error *err);

/** Sync the folder of a file, so that it knows the file. @return false with errno */
bool output_sync_folder(const char *path);

/** Call output_end and output_commit for one output. */
bool output_close(struct output *output, FILE *file, bool ok, struct error *err);

/** Remove the temporary file and reset `output`. {0} is allowed. */
void output_abandon(struct output *output);

/**
 * Remove the temporary files of this output that ended processes left. These stay: files of other users, files that are
 * no regular ones, and files of a process that runs, here or on another machine that shares the folder.
 */
void output_clean(const char *path);

/**
 * Add a file that is removed together with the outputs, or take it out again. It is no output itself. The caller keeps
 * the text.
 */
void output_guard(char *path);
void output_unguard(char *path);

/**
 * Remove the temporary files of all outputs that are being written. It is for the signal handler of a process that is
 * about to end.
 */
void output_remove_all(void);

#endif
