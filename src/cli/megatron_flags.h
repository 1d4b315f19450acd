/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This module prints a plan as the flags of Megatron-LM's pretrain_gpt.py. */
#ifndef SLIMSIM_CLI_MEGATRON_FLAGS_H
#define SLIMSIM_CLI_MEGATRON_FLAGS_H

#include "simulate/point_runner.h"

/**
 * Print the flags that mean the plan of an iteration, one a line.
 *
 * 1. Lines that begin with "# slimsim: " say what of the plan Megatron-LM cannot do, or does in another manner.
 * 2. The micro-batch is the longest micro-batch in whole sequences of data.context tokens. The global batch gives every
 *    pipeline as many of them as the pipeline with the most has.
 * 3. Tokenizer, data, learning rate and checkpoints are not in a scenario, so they have no flags.
 * 4. A flag that Megatron-LM's validate_args() refuses beside the others is left out, and a line of 1 says so.
 *
 * Sources:
 * - NVIDIA/Megatron-LM, megatron/training/arguments.py at commit 000c4ac24f61159c138b0975def722c65245983c
 * - --cp-comm-type: megatron/core/transformer/transformer_config.py. The help of arguments.py says "allgather", which
 *   Transformer Engine refuses.
 * - unfused attention: NVIDIA/TransformerEngine, get_attention_backend()
 */
void megatron_flags_print(const struct point_view *view, FILE *file);

#endif
