#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Mixtral 8x7B on 8 nodes, written for this test from Megatron-LM's flags.
GPUS_PER_NODE=8
NNODES=${SLURM_NNODES:-"8"}
DISTRIBUTED_ARGS=(--nproc_per_node $GPUS_PER_NODE --nnodes $NNODES --master_port 6000)
MODEL_ARGS=(
    --use-mcore-models --disable-bias-linear --seq-length 4096 --max-position-embeddings 32768
    --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32
    --init-method-std 0.01 --attention-dropout 0.0 --hidden-dropout 0.0 --normalization RMSNorm
    --position-embedding-type rope --swiglu --untie-embeddings-and-output-weights
    --group-query-attention --num-query-groups 8 --no-masked-softmax-fusion --no-position-embedding
    --rotary-base 1000000 --vocab-size 32000
)
MOE_ARGS=(
    --num-experts 8 --moe-router-topk 2 --moe-router-load-balancing-type aux_loss
    --moe-aux-loss-coeff 1e-2 --moe-grouped-gemm --moe-token-dispatcher-type alltoall
    --moe-permute-fusion --overlap-param-gather --overlap-grad-reduce
)
TRAINING_ARGS="--micro-batch-size 1 --global-batch-size 256 --lr 1e-4 --train-iters 500000 --bf16"
MODEL_PARALLEL_ARGS=(
    --tensor-model-parallel-size 1 --pipeline-model-parallel-size 4
    --num-layers-per-virtual-pipeline-stage 4 --expert-model-parallel-size 8
    --use-distributed-optimizer --sequence-parallel
)
if [ -n "${WANDB_API_KEY}" ]; then
    LOGGING_ARGS+=(--wandb-project "Mixtral")
fi
torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py ${MODEL_ARGS[@]} ${MOE_ARGS[@]} \
    $TRAINING_ARGS ${MODEL_PARALLEL_ARGS[@]} --tokenizer-type Llama2Tokenizer --tokenizer-model ${TOKENIZER_MODEL}
