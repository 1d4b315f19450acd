/* SPDX-License-Identifier: GPL-3.0-or-later */
/** What a measured row ran, in the simulator's words: the one place where frameworks' names become settings. */
#ifndef SLIMSIM_VALIDATE_SETTING_H
#define SLIMSIM_VALIDATE_SETTING_H

#include "scenario/scenario.h"
#include "validate/measured.h"

struct setting {
    struct model model;
    char device[64]; /* of model/gpu */
    struct platform platform;
    struct scenario_communication communication;
    struct scenario_plan plan; /* dp filled in */
    bool replicated;           /* optimizer states are not shared; their time is taken as zero1's */
    enum device_attention attention;
    enum scenario_kernels kernels;
    int64_t n_gpus, seq_len, micro_batch, global_batch; /* global_batch 0: not in the row */
};

/** Why a row is not simulated; "" it is. */
enum { SETTING_REASON = 192 };

/**
 * Fill a setting from a row. Columns are those of the shipped files; texts are looked for as parts of a cell.
 *
 *   setting          column             value
 *   model            hidden ... vocab   as they stand; activation: squared-relu counts as gelu (one inner tensor, by
 *                                       element). Norms are RMSNorm, positions rotary
 *   tied embeddings  notes, framework   "untied embeddings": no. "tied embeddings", llm-foundry (MPT ties), or a GPT
 *                                       of Megatron or NeMo (their default): yes. Else no
 *   workload         model              "SFT", "LoRA", "grpo": skipped, not all weights on whole sequences
 *   device           gpu                by model/validation/gpus.csv; not in there: skipped
 *   platform         fabric, gpu        "N GB/s": NVLink, both directions. "KxM Gb/s", or "M Gb/s per node": shared
 *                                       by 8 GPUs; "M Gb/s per GPU". Else by gpus.csv. Nodes of 8 GPUs
 *   attention        attn_kernel,       llm-foundry (2023): flash1, whatever its rows are labelled: between their
 *                    attn_backend,      sequence lengths lies half the speed of the FlashAttention-2 kernel tables.
 *                    framework, gpu     FlashAttention-2, FlashAttention-3, cuDNN. "unfused", and Megatron on A100
 *                                       where nothing else is named (2021, 2022: before flash attention): unfused.
 *                                       Empty or "auto": NeMo and Megatron on H100, MaxText: cuDNN (what Transformer
 *                                       Engine takes); all others FlashAttention-2
 *   kernels          framework          "compile": fused. llm-foundry, nanotron, HF, fms-fsdp, torchtitan: eager. Else
 *                                       fused (Megatron, NeMo, MaxText, Paxml)
 *   gradients        sharding,          "bf16 grad", and llm-foundry on A100 (its yamls: mixed_precision PURE): bf16.
 *                    framework, gpu     Else fp32 (llm-foundry on H100: its table says DEFAULT, which reduces in fp32)
 *   optimizer        framework          llm-foundry: eager (Composer's DecoupledAdamW). Else fused
 *   sharding         sharding           "ZeRO-3", "FULL_SHARD", "FSDP": zero3. "ZeRO-2", "SHARD_GRAD_OP": zero2.
 *                                       "ZeRO-1", "distributed optimizer": zero1. Else replicated, whose time is
 *                                       taken as zero1's
 *   tp overlap       tp_comm_overlap    1: chunked. Else bulk (Megatron's default)
 *   dp overlap       sharding           "overlap", zero2, zero3 (they prefetch by default): yes. Else no (Megatron's
 *                                       default)
 *   recompute        recompute          "none" or empty: none. "selective (core attention)": none, and unfused
 *                                       attention runs its core again (flash attention keeps none). "SwiGLU act...":
 * selective. "full": full. Others: skipped offload          offload, recompute "alpha 0.5", "alpha=0.5": that share of
 * activations. Others: skipped precision        precision          bf16; fp16 is as fast. Others: skipped
 *
 * Sequence parallelism goes with tensor parallelism: without it (sp 0) the collectives move the same bytes.
 *
 * @param reason  why the row cannot run: a missing column (the first), or what the simulator has no model of
 * @return        false with err for a cell that is malformed
 */
bool setting_of_row(const struct measured *measured, int32_t row, const struct measured *gpus, struct setting *setting,
                    char reason[SETTING_REASON], struct error *err);

/** Columns a simulation cannot do without, NULL at the end. */
extern const char *const setting_columns[];

#endif
