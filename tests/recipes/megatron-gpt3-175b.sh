#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# GPT-3 175B on 128 nodes, written for this test from Megatron-LM's flags.
#SBATCH --nodes=128
#SBATCH --ntasks-per-node=8
#SBATCH --job-name=gpt3
set -euo pipefail
BASE=/lustre/megatron
options=" \
    --num-layers 96 --hidden-size 12288 --num-attention-heads 96 \
    --seq-length 2048 --max-position-embeddings 2048 \
    --tensor-model-parallel-size 8 --pipeline-model-parallel-size 16 \
    --num-layers-per-virtual-pipeline-stage 2 --sequence-parallel \
    --micro-batch-size 1 --global-batch-size 1536 --rampup-batch-size 16 16 5859375 \
    --recompute-activations --attention-dropout 0.1 --hidden-dropout 0.1 \
    --train-samples 146484375 --lr 6.0e-5 --lr-decay-style cosine --min-lr 6.0e-6 \
    --vocab-file $BASE/gpt2-vocab.json --merge-file $BASE/gpt2-merges.txt --vocab-size 51200 \
    --split 98,2,0 --clip-grad 1.0 --weight-decay 0.1 --adam-beta1 0.9 --adam-beta2 0.95 \
    --init-method-std 0.006 --log-interval 100 --save-interval 1000 --bf16"
run_cmd="python -u ${BASE}/pretrain_gpt.py $options"
srun -l --output=${BASE}/log.txt sh -c "${run_cmd}"
