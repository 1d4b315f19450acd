/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This file has the options of a run on SimGrid. */
#ifndef SLIMSIM_EXECUTE_OPTIONS_H
#define SLIMSIM_EXECUTE_OPTIONS_H

struct execute_options {
    const char *cfg;   /* options of SimGrid, KEY:VALUE separated by blanks; "": none. Not NULL */
    const char *trace; /* Paje file that SimGrid writes (execute/streams.h); NULL: none */
};

#endif
