/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module knows which options of SimGrid a scenario or a platform's file may set: only those that change models.
 * Others name files that SimGrid writes or reads, and a scenario may be of somebody else.
 */
#ifndef SLIMSIM_SCENARIO_SIMGRID_CFG_H
#define SLIMSIM_SCENARIO_SIMGRID_CFG_H

/** These keys are allowed, with a blank between them. */
extern const char simgrid_cfg_allowed[];

/**
 * Return the first option that is not allowed, of KEY:VALUE texts as SimGrid separates them. The value `help` is not
 * allowed either, since SimGrid then runs nothing. The caller frees the text. NULL: all are allowed.
 */
char *simgrid_cfg_refused(const char *options);

#endif
