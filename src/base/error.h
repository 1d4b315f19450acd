/* SPDX-License-Identifier: GPL-3.0-or-later */
/** These are errors that a user caused or can correct. For bugs and exhausted memory, CHECK stops the program
 * instead. */
#ifndef SLIMSIM_BASE_ERROR_H
#define SLIMSIM_BASE_ERROR_H

#include <stdbool.h>

/** Exit statuses of slimsim (those of BSD sysexits if one fits). */
enum error_status {
    ERROR_NONE = 0,
    ERROR_FAILED = 1,  /* a simulation or a point failed */
    ERROR_INVALID = 2, /* the user's input is wrong */
    ERROR_FOLDED = 3,  /* never an exit status: SimGrid must run every rank, so the caller builds the graph again */
    ERROR_USAGE = 64,  /* unknown option or command */
    ERROR_INTERRUPTED = 71, /* the system killed a process, or had none left; the same command may succeed later */
    ERROR_CANT_CREATE = 73, /* an output cannot be created */
    ERROR_IO = 74,          /* an output cannot be written */
    ERROR_BUSY = 75,        /* another process writes the same output */
};

/** One sentence that a user can act on, or several, one a line. {0} means "no error". */
struct error {
    enum error_status status;
    char text[8192];
    char notes[1024]; /* lines that are printed before the text, and are no errors; "": none */
};

/**
 * Replace the text by what is wrong with the input, with status ERROR_INVALID.
 *
 * @return false
 */
bool error_set(struct error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/**
 * Do the same as error_set with another exit status.
 *
 * @return false
 */
bool error_set_status(struct error *err, enum error_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/**
 * Add a line, unless the text already has it. The status becomes ERROR_INVALID, unless one is set. If the buffer is
 * full, add "... more" once.
 *
 * @return false
 */
bool error_add(struct error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
