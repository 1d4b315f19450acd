/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module counts the cores that this process may use. */
#ifndef SLIMSIM_BASE_CORES_H
#define SLIMSIM_BASE_CORES_H

#include <stdint.h>

/** Return the cores of the process's affinity mask, at least 1. A batch system such as Slurm sets this mask. */
int32_t cores_available(void);

#endif
