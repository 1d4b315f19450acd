#!/usr/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# A launch of torchtitan with overrides, written for this test.
NGPU=${NGPU:-"8"}
NNODES=4
CONFIG_FILE=${CONFIG_FILE:-"./torchtitan-qwen3-32b.toml"}
PYTORCH_ALLOC_CONF="expandable_segments:True" \
torchrun --nproc_per_node=${NGPU} --nnodes=${NNODES} --rdzv_backend c10d --local-ranks-filter 0 --role rank --tee 3 \
    -m torchtitan.train --job.config_file ${CONFIG_FILE} --training.seq_len 16384 --parallelism.context_parallel_degree 4 "$@"
