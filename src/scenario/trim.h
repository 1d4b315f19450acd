/* SPDX-License-Identifier: GPL-3.0-or-later */
/** A platform's file without the hosts that a run leaves alone: SimGrid looks for a host in zone after zone whenever
 * one is made, and for those of a zone among all hosts, so loading takes hosts times zones. */
#ifndef SLIMSIM_SCENARIO_TRIM_H
#define SLIMSIM_SCENARIO_TRIM_H

#include <stdbool.h>
#include <stdio.h>

/** Whether a host is needed. Names that are none of the cluster's GPUs and memories always are. */
typedef bool trim_needs(const void *context, const char *name);

/**
 * Copy a platform's file but for hosts that are not needed, and the routes from and to them, where they stand in zones
 * with routing Full: there no route leads through a host. Lines keep their numbers.
 *
 * @return false: the file must be taken as it is. It is no XML, cannot be read, holds other elements than platform,
 *         config, prop, zone, host, router, link, route, link_ctn and zoneRoute, or has such a host for a gateway.
 */
bool trim_platform(const char *path, trim_needs *needs, const void *context, FILE *trimmed);

#endif
