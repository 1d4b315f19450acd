/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module reads the scenario of a run that was named by a scenario, a trace or a point of a sweep. */
#ifndef SLIMSIM_CLI_RUN_DOCUMENT_H
#define SLIMSIM_CLI_RUN_DOCUMENT_H

#include "cli/command.h"

/**
 * Read a scenario (.yaml), the one that the trace of a run holds (.h5), or with `#POINT` that of a point of a sweep,
 * whose scenario or whose file of results is named.
 * Then make the assignments of --set. Without --quiet a line on stderr says that a trace's scenario runs again.
 * @param document  {0}; the caller frees it, also after a failure
 * @return          false with err, also for a sweep without `#POINT`
 */
bool run_document_read(const char *argument, const struct options *options, struct document *document,
                       struct error *err);

#endif
