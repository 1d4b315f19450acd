/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module colours what a terminal shows. Files and pipes get no colours, nor do terminals whose user asks for none
 * by NO_COLOR (https://no-color.org). */
#ifndef SLIMSIM_BASE_COLOUR_H
#define SLIMSIM_BASE_COLOUR_H

#include <stdbool.h>
#include <stdio.h>

enum colour {
    COLOUR_NONE,
    COLOUR_FIRST, /* the first system, and those that tie with it: bold green */
    COLOUR_MISFIT /* what does not fit: red */
};

/** Return whether a file shows colours: a terminal, if TERM is not `dumb` and NO_COLOR is unset or empty. */
bool colour_is_shown(FILE *file);

/** Write bytes of a text in a colour. */
void colour_write(FILE *file, enum colour colour, const char *text, size_t n_bytes);

#endif
