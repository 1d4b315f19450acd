/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module measures the simulation of a whole training with its failures. */
#ifndef SLIMSIM_BENCH_TRAINING_H
#define SLIMSIM_BENCH_TRAINING_H

#include "base/error.h"

/** Print the CPU time of some 400 days on 16,384 GPUs, with the failures of the preset llama3. */
bool bench_training(struct error *err);

#endif
