/* SPDX-License-Identifier: GPL-3.0-or-later */
/** These clocks serve limits and messages on stderr. No result depends on them. */
#ifndef SLIMSIM_BASE_CLOCK_H
#define SLIMSIM_BASE_CLOCK_H

/** Return the seconds since some moment in the past. They never go back. */
double clock_wall_s(void);

/** Return the seconds of CPU that all threads of this process have used together. */
double clock_cpu_s(void);

#endif
