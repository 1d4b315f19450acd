/* SPDX-License-Identifier: GPL-3.0-or-later */
/** The machine's clocks: for limits and for what is told on stderr. No result depends on them. */
#ifndef SLIMSIM_BASE_CLOCK_H
#define SLIMSIM_BASE_CLOCK_H

/** Seconds since some moment in the past; they never go back. */
double clock_wall_s(void);

/** Seconds of CPU that this process has taken, all threads together. */
double clock_cpu_s(void);

#endif
