#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# A run of Hugging Face's Trainer on DeepSpeed, written for this test from its arguments.
deepspeed --num_gpus 8 --num_nodes 2 --hostfile hosts train.py \
    --model_name_or_path meta-llama/Llama-2-13b-hf \
    --deepspeed ds_trainer_zero3.json \
    --per_device_train_batch_size 4 --gradient_accumulation_steps 2 --max_seq_length 4096 \
    --gradient_checkpointing True --attn_implementation flash_attention_2 \
    --bf16 True --learning_rate 2e-5 --num_train_epochs 3 --logging_steps 10 --output_dir out
