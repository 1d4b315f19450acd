/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module finds settings of a scenario that are not the fastest, each changed by itself. */
#ifndef SLIMSIM_SIMULATE_FASTER_SETTING_H
#define SLIMSIM_SIMULATE_FASTER_SETTING_H

#include "scenario/assumption.h"
#include "simulate/point_runner.h"

enum { FASTER_SETTINGS_MOST = ASSUME_N_CHOICES };

struct faster_setting {
    const char *key;                 /* "attention" */
    char now[SCHEMA_WORD_BYTES];     /* value of the scenario */
    char fastest[SCHEMA_WORD_BYTES]; /* value with which the iteration is fastest */
    double gain;                     /* model FLOPs a second over those of the scenario, less 1 */
};

/**
 * Run iteration 0 of a system again with each fast value of a setting: attention kernels with curves of the device's
 * own chip, overlap of each kind of communication, fused kernels. The layout stays, and the critical path decides.
 * Gains below half a percent are left out.
 *
 * @param entry     one of the scenario, with a plan
 * @param settings  [FASTER_SETTINGS_MOST], the largest gain first
 * @return          number of settings
 */
int32_t faster_settings_of(const struct scenario *scenario, const struct lengths *lengths,
                           const struct scenario_system *entry, struct faster_setting *settings);

#endif
