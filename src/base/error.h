/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Errors a user caused or can mend. Bugs and exhausted memory stop in CHECK instead. */
#ifndef SLIMSIM_BASE_ERROR_H
#define SLIMSIM_BASE_ERROR_H

#include <stdbool.h>

/** Exit statuses of slimsim (BSD sysexits where one fits). */
enum error_status {
    ERROR_NONE = 0,
    ERROR_FAILED = 1,       /* a simulation or a point failed */
    ERROR_INVALID = 2,      /* what the user gave is wrong */
    ERROR_USAGE = 64,       /* unknown option or command */
    ERROR_INTERRUPTED = 71, /* the system killed a process, or had none left; the same command may succeed */
    ERROR_CANT_CREATE = 73, /* an output cannot be created */
    ERROR_IO = 74,          /* an output cannot be written */
    ERROR_BUSY = 75,        /* somebody else writes the same output */
};

/** One sentence a user can act on, or several, one a line. {0} is "no error". */
struct error {
    enum error_status status;
    char text[8192];
};

/** Say what input is wrong (status ERROR_INVALID), in place of what was said before. @return false */
bool error_set(struct error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** As error_set, with another exit status. @return false */
bool error_set_status(struct error *err, enum error_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/**
 * Add one more line (status ERROR_INVALID unless one is set), unless it stands there already; past the buffer's end
 * "... more" stands once.
 * @return false
 */
bool error_add(struct error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
